"""Controllers that keep shapes apart: differential and ordinary inverse kinematics."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import nnls

import kinetree as kt
from kinetree import control
from kinetree import geometry as geo
from kinetree.kernels.pair_distances import damper_check
from tests.laws import test_clearance as clearance
from tests.oracle import oracle
from tests.tolerance import Array, assert_near, peak, refused

oracle("daqp")

HANDS = ("left_hand", "right_hand")


@cache
def arms() -> tuple[kt.Model, geo.CollisionPairs]:
    """Two arms of four joints that can reach each other."""
    builder = kt.Builder("arms")
    shapes = []
    for side, y in (("left", 0.2), ("right", -0.2)):
        parent, at = "world", (0.0, y, 0.0)
        for k, axis in enumerate(((0, 0, 1), (0, 1, 0), (0, 1, 0), (1, 0, 0), (0, 1, 0))):
            name = f"{side}{k}"
            builder.add_body(
                name, parent=parent, joint="revolute", axis=axis, placement=(np.eye(3), at), mass=1.0,
                inertia=0.01 * np.eye(3),
            )  # fmt: skip
            parent, at = name, (0.0, 0.0, 0.2)
            shapes.append(geo.Capsule(name, (0, 0, 0.05), (0, 0, 0.15), 0.04))
    robot = builder.build()
    for side in ("left", "right"):
        robot = robot.with_frame(f"{side}_hand", f"{side}4", (np.eye(3), (0, 0, 0.15)))
    limits = {joint.name: kt.Limits(lower=-2.5, upper=2.5, velocity=2.0) for joint in robot.joints}
    robot = robot.with_limits(limits).with_shapes(shapes)
    return robot, robot.collision_pairs()


def ik(avoid: Any = True, **options: Any) -> control.DifferentialIK:
    robot, pairs = arms()
    goals = [control.Goal(kt.Task(hand, "position")) for hand in HANDS]
    return control.DifferentialIK(robot, goals, damping=1e-3, avoid=pairs if avoid is True else avoid, **options)


def crossing(count: int) -> tuple[Array, dict[str, Array]]:
    """Configurations, and targets at which arms cross: those of the hands are exchanged."""
    robot, pairs = arms()
    rng = np.random.default_rng(0)
    q = np.tile([0.3, 0.5, 0.6, 0.0, 0.3, -0.3, 0.5, 0.6, 0.0, 0.3], (count, 1)) + rng.normal(0.0, 0.15, (count, 10))
    q = q[robot.clearance(q, pairs) > 0.05]
    hands = robot.pose(q, list(HANDS))[..., :3, 3]
    return q, {hand: hands[:, 1 - i] for i, hand in enumerate(HANDS)}


def followed(solver: control.DifferentialIK, q: Array, targets: dict[str, Array], dt: float, seconds: float) -> Any:
    """Where it ends, and the smallest distance on the way."""
    robot, pairs = arms()
    least = robot.clearance(q, pairs)
    for _ in range(round(seconds / dt)):
        q = robot.integrate(q, solver(q, targets, dt), dt)
        least = np.minimum(least, robot.clearance(q, pairs))
    return q, least


@pytest.mark.parametrize("dt", [0.002, 0.01, 0.05])
def test_pairs_stay_apart_at_any_rate(dt: float) -> None:
    q, targets = crossing(8)
    _, least = followed(ik(), q, targets, dt, 1.0)
    _, without = followed(ik(avoid=None), q, targets, dt, 1.0)
    assert (without < 0.0).any()
    assert (least > 0.02 - 3e-4).all()


def test_reached_where_there_is_room() -> None:
    """Targets of both hands that a clear configuration reaches, close to each other."""
    robot, pairs = arms()
    q, _ = crossing(8)
    goal = q + np.array([-0.5, 0.0, 0.2, 0.0, 0.0, 0.4, 0.2, -0.1, 0.2, 0.0])
    clear = robot.clearance(goal, pairs) > 0.03
    q, goal = q[clear], goal[clear]
    assert len(q) > 3
    targets = {hand: robot.pose(goal, hand)[:, :3, 3] for hand in HANDS}
    end, least = followed(ik(posture_weight=0.0), q, targets, 0.02, 3.0)
    assert (least > 0.02 - 3e-4).all()
    for hand, target in targets.items():
        assert_near(robot.pose(end, hand)[:, :3, 3], target, 1e-3)


def test_a_step_is_the_optimum() -> None:
    """The conditions of Karush, Kuhn and Tucker: slopes are sums of active rows, with multipliers of the right sign."""
    robot, pairs = arms()
    q, targets = crossing(12)
    q, _ = followed(ik(), q, targets, 0.02, 0.4)  # close to each other
    dt, active = 0.02, 0
    solver = ik(avoid=control.Avoid(pairs, 0.03, rows=6), posture_weight=0.0)
    tasks = robot.tasks([kt.Task(hand, "position") for hand in HANDS], reference="local_world_aligned")
    for i in range(len(q)):
        near = robot.distances(q[i], pairs).nearest(6)
        step = solver(q[i], {hand: target[i] for hand, target in targets.items()}, dt) * dt
        low = -0.5 * (near.distance - 0.03)
        room = near.jacobian @ step - low
        after = robot.distances(robot.integrate(q[i], step), pairs).distance[near.index]
        if (after < np.minimum(near.distance, 0.03)).any() or (near.distance > 0.15).any():
            continue  # with the correction of the curvature
        assert (room > -1e-7).all()
        J, e = tasks.jacobian(q[i]), np.concatenate([targets[h][i] - robot.pose(q[i], h)[:3, 3] for h in HANDS])
        slope = J.T @ (J @ step - e) + 1e-3 * step
        ends = np.minimum(2.0 * dt, 0.5 * (2.5 - q[i])), np.minimum(2.0 * dt, 0.5 * (q[i] + 2.5))
        at = [np.isclose(step, end, rtol=1e-9, atol=1e-12) for end in (ends[0], -ends[1])]
        walls = [-np.eye(10)[at[0]], np.eye(10)[at[1]]]
        normals = np.concatenate([near.jacobian[room < 1e-7], *walls])
        _, rest = nnls(normals.T, slope)
        assert rest < 1e-6 * peak(slope)
        active += int((room < 1e-7).sum())
    assert active > 2


def test_what_has_to_mind_distances() -> None:
    """A pair counts if it closes too fast or ends too close, and is within reach."""
    rng, count = np.random.default_rng(4), 200
    d, after = rng.uniform(-0.02, 0.2, (2, count, 1))
    normal, points, twists = (rng.normal(size=(count, 1, *shape)) for shape in ((3,), (2, 3), (2, 6)))
    V = 0.05 * (twists[..., 0, :] - twists[..., 1, :])
    rate = (normal * (V[..., 3:] + np.cross(V[..., :3], points[..., 0, :]))).sum(axis=-1)
    fast, close = rate < -0.3 * (d - 0.02), after < np.minimum(d, 0.02) - 1e-3
    last = normal.swapaxes(1, 2), np.moveaxis(points, 1, -1), 0.05 * twists
    found = kt.compiled(damper_check, p=1)(d, *last, after, np.array([0.3, 0.02, 1e-3, 0.15]))
    np.testing.assert_array_equal(found > 0.0, ((fast | close) & (d < 0.15))[:, 0])
    for only in (fast & ~close, close & ~fast):
        assert (only & (d < 0.15)).any()
        assert (only & (d > 0.15)).any()


def test_bits_do_not_depend_on_the_batch() -> None:
    _, pairs = arms()
    q, targets = crossing(12)
    q, _ = followed(ik(), q, targets, 0.02, 0.3)
    q[0] = [0.0, 0.3, 0.3, 0.0, 0.0, 0.0, -0.3, 0.3, 0.0, 0.0]
    q[1, 3] = np.nan
    solver = pickle.loads(pickle.dumps(ik(avoid=control.Avoid(pairs, 0.03))))
    together = solver(q, targets, 0.05)
    for i in range(len(q)):
        alone = solver(q[i], {hand: target[i] for hand, target in targets.items()}, 0.05)
        np.testing.assert_array_equal(alone, together[i])
        assert np.isnan(alone).any() == (i == 1)
    assert (together[2:] != ik(avoid=None)(q, targets, 0.05)[2:]).any()


def test_what_starts_too_close_parts() -> None:
    robot, pairs = arms()
    q, targets = crossing(8)
    q, _ = followed(ik(avoid=None), q, targets, 0.02, 0.25)
    start = robot.clearance(q, pairs)
    assert (start < 0.0).any()
    end, least = followed(ik(), q, targets, 0.02, 1.0)
    assert (least > np.minimum(start, 0.02) - 3e-4).all()
    assert (robot.clearance(end, pairs) > 0.02 - 3e-4).all()


def test_limits_come_first() -> None:
    """Arms that overlap and may hardly move: they part as fast as they may."""
    robot, pairs = arms()
    q, targets = crossing(8)
    q, _ = followed(ik(avoid=None), q, targets, 0.02, 0.25)
    worst = robot.clearance(q, pairs).argmin()
    step = 1e-4 * ik()(q[worst], {hand: target[worst] for hand, target in targets.items()}, 1e-4)
    assert (np.abs(step) <= 2e-4).all()
    assert robot.clearance.jvp(q[worst], pairs, step) > 0.0


def test_surroundings_are_avoided() -> None:
    robot, _ = arms()
    q = np.array([0.3, 0.5, 0.6, 0.0, 0.3, -0.3, 0.5, 0.6, 0.0, 0.3])
    hand = robot.pose(q, "left_hand")[:3, 3]
    ball = kt.Scene([geo.Sphere("ball", hand + np.array([0.15, 0.01, 0.02]), 0.05)])
    pairs = robot.collision_pairs(scene=ball)
    solver = control.DifferentialIK(robot, [control.Goal(kt.Task("left_hand", "position"))], avoid=pairs)
    least = np.inf
    for _ in range(100):
        q = robot.integrate(q, solver(q, {"left_hand": hand + np.array([0.15, 0.0, 0.0])}, 0.02), 0.02)
        least = min(least, float(robot.clearance(q, pairs)))
    assert 0.02 - 3e-4 < least < 0.021


@pytest.mark.parametrize("name", ["every kind", "legged", "gear", "beam"])
def test_robots_of_all_kinds_keep_their_distance(name: str) -> None:
    robot, pairs = clearance.robot(name), clearance.pairs_of(name)
    q = robot.random_configuration(np.random.default_rng(1))
    near = robot.distances(q, pairs)
    for names, d, row in zip(pairs, near.distance, near.jacobian, strict=True):
        pairs = pairs if d > 0.01 and row.any() else pairs.without(*names)
    distance = 0.9 * float(robot.clearance(q, pairs))
    frame = next(name for name in reversed(robot.frames) if name != "world")
    down = robot.clearance.vjp(q, pairs)
    posture = robot.integrate(q, -0.5 * down / np.linalg.norm(down))
    least = []
    for avoid in (control.Avoid(pairs, distance, within=10.0), None):
        now, found = q, []
        solver = control.DifferentialIK(robot, [frame], posture=posture, posture_weight=0.5, limits=False, avoid=avoid)
        for _ in range(20):
            now = robot.integrate(now, 0.1 * solver(now, dt=1.0))
            found.append(float(robot.clearance(now, pairs)))
        least.append(min(found))
    assert least[0] > distance - 3e-4 > least[1]


def test_configurations_that_are_found_are_clear() -> None:
    robot, pairs = arms()
    q = robot.random_configuration(np.random.default_rng(3), (60,))
    q = q[robot.clearance(q, pairs) > 0.03]
    targets = {hand: robot.pose(q, hand)[:, :3, 3] for hand in HANDS}
    found, report = control.inverse_kinematics(robot, targets)
    assert np.isinf(report.clearance).all()
    assert (robot.clearance(found, pairs) < 0.02).any()
    found, report = control.inverse_kinematics(robot, targets, avoid=pairs)
    assert report.success.all()
    np.testing.assert_array_equal(report.clearance, robot.clearance(found, pairs))
    assert (report.clearance >= 0.02).all()
    assert (found >= robot.lower_limits).all()
    assert (found <= robot.upper_limits).all()
    for hand, target in targets.items():
        assert_near(robot.pose(found, hand)[:, :3, 3], target, 2e-6)
    alone, one = control.inverse_kinematics(robot, {hand: x[3] for hand, x in targets.items()}, avoid=pairs)
    np.testing.assert_array_equal(alone, found[3])
    assert one.attempts == report.attempts[3]


def test_reached_but_not_clear_is_no_success() -> None:
    robot, pairs = arms()
    same = robot.pose(robot.neutral(), "left_hand")[:3, 3] + [0.1, -0.2, -0.1]
    targets = {"left_hand": same, "right_hand": same}
    _, report = control.inverse_kinematics(robot, targets, tries=8)
    assert report.success
    q, report = control.inverse_kinematics(robot, targets, tries=8, avoid=pairs)
    assert not report.success
    assert report.attempts == 8
    assert report.clearance == robot.clearance(q, pairs) < 0.02
    assert report.error < 1e-6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": [("a", "b")]}, r"pairs come from robot.collision_pairs\(…\), got list"),
        ({"distance": -0.1}, "avoid: distance"),
        ({"within": 0.02}, "within=0.02 must be more than distance=0.02"),
        ({"rows": 0}, "rows=0 is the number of pairs"),
        ({"rows": 1.5}, "rows=1.5 is the number of pairs"),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    refused(message, lambda: control.Avoid(**{"pairs": arms()[1], **options}))


def test_no_pairs_change_nothing() -> None:
    robot, pairs = arms()
    q, targets = crossing(4)
    none = pairs
    for k in range(5):
        none = none.without(f"left{k}").without(f"right{k}")
    assert not len(none)
    np.testing.assert_array_equal(ik(avoid=none)(q, targets), ik(avoid=None)(q, targets))
    _, report = control.inverse_kinematics(robot, targets, avoid=none)
    assert np.isinf(report.clearance).all()
