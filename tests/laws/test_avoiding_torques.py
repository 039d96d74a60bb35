"""Torques that keep shapes apart: J̇v of distances, `OperationalSpace` and `WholeBody`."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import control
from kinetree import geometry as geo
from kinetree.control.avoid import AccelerationRows
from kinetree.errors import InfeasibleError
from tests.laws import test_clearance as clearance
from tests.laws.test_avoidance import HANDS, arms, crossing
from tests.oracle import oracle
from tests.tolerance import Array, assert_near, refused

oracle("daqp")


def controller(kind: str, kp: float = 16.0, **options: Any) -> Any:
    robot, pairs = arms()
    goals = [control.Goal(kt.Task(hand, "position"), kp=kp) for hand in HANDS]
    options = {"avoid": pairs, **options}
    if kind == "levels":
        return control.OperationalSpace(robot, goals, **options)
    return control.WholeBody(robot, goals, posture=control.Posture(crossing(3)[0][0], kp=4.0, weight=0.05), **options)


def followed(held: Any, q: Array, targets: dict[str, Array], dt: float, seconds: float) -> tuple[Array, Array]:
    """Where torques that are held for dt lead, and the smallest distance on the way."""
    robot, pairs = arms()
    v, least, count = np.zeros_like(q), robot.clearance(q, pairs), max(1, round(dt / 0.0025))
    for _ in range(round(seconds / dt)):
        tau = held(q, v, targets).tau
        for _ in range(count):
            v = v + dt / count * robot.forward_dynamics(q, v, tau)
            q = robot.integrate(q, v, dt / count)
            least = np.minimum(least, robot.clearance(q, pairs))
    return q, least


@pytest.mark.parametrize("name", ["every kind", "legged", "gear"])
def test_drift_is_the_rate_of_the_rate(name: str) -> None:
    """J̇v against differences of J v along a constant v; features change in some."""
    robot, pairs = clearance.robot(name), clearance.pairs_of(name)
    rng, step = np.random.default_rng(0), 1e-4
    q, v = robot.random_configuration(rng, (6,)), rng.standard_normal((6, robot.nv))
    near, rate, drift = robot._distance_rates(q, v, pairs)
    plain = robot.distances(q, pairs)
    for found, expected in ((near.distance, plain.distance), (near.normal, plain.normal), (near.points, plain.points)):
        assert_near(found, expected, 1e-9)
    ahead, now, behind = (
        np.einsum("bpv,bv->bp", robot.distances(robot.integrate(q, v, by), pairs).jacobian, v)
        for by in (step, 0.0, -step)
    )
    assert_near(rate, now, 1e-12)
    wrong = np.abs((ahead - behind) / (2 * step) - drift) > 1e-5 * (1.0 + np.abs(drift))
    assert wrong.mean() < 0.015
    assert (np.abs(drift) > 0.1).mean() > 0.3


@pytest.mark.parametrize(
    ("kind", "dt", "kp"),
    [
        ("levels", 0.001, 16.0),
        ("levels", 0.02, 16.0),
        ("levels", 0.05, 4.0),
        ("program", 0.001, 16.0),
        ("program", 0.02, 16.0),
        ("program", 0.05, 16.0),
    ],
)
def test_pairs_stay_apart_at_any_rate(kind: str, dt: float, kp: float) -> None:
    q, targets = crossing(3)
    _, least = followed(controller(kind, kp), q, targets, dt, 0.8)
    assert (least > 0.02 - 3e-4).all()


@pytest.mark.parametrize("kind", ["levels", "program"])
def test_cylinders_brake_as_the_capsules_in_them_do(kind: str) -> None:
    """Pairs without a closed form: cylinders around all of each capsule are nearer, and so brake at least as hard."""
    capsules, _ = arms()
    robot = capsules.with_shapes(
        geo.Cylinder(s.name, s.around, 2.0 * (s.half[2] + s.around), s.pose, body=s.body) for s in capsules.shapes
    )
    pairs = robot.collision_pairs(keep_colliding=True)
    assert pairs.runs.classes == ("cylinders",)
    goals = [control.Goal(kt.Task(hand, "position"), kp=16.0) for hand in HANDS]
    posture = control.Posture(crossing(3)[0][0], kp=4.0, weight=0.05)
    if kind == "levels":
        held: Any = control.OperationalSpace(robot, goals, avoid=pairs)
    else:
        held = control.WholeBody(robot, goals, posture=posture, avoid=pairs)
    q, targets = crossing(3)
    v = np.zeros_like(q)
    for _ in range(30):
        v = v + 0.02 * robot.forward_dynamics(q, v, held(q, v, targets).tau)
        q = robot.integrate(q, v, 0.02)
    assert (robot.clearance(q, pairs) > 0.0).all()


@pytest.mark.parametrize("kind", ["levels", "program"])
def test_without_it_they_collide(kind: str) -> None:
    q, targets = crossing(3)
    assert (followed(controller(kind, avoid=None), q, targets, 0.02, 0.8)[1] < 0.0).all()


@pytest.mark.parametrize("kind", ["levels", "program"])
def test_joint_limits_and_distances(kind: str) -> None:
    robot, _ = arms()
    q, targets = crossing(3)
    held = controller(kind, 9.0, bounds=control.Bounds(position=15.0, velocity=15.0))
    end, least = followed(held, q, targets, 0.02, 1.0)
    assert (least > 0.02 - 3e-4).all()
    assert (end >= robot.lower_limits).all()
    assert (end <= robot.upper_limits).all()


@pytest.mark.parametrize("kind", ["levels", "program"])
def test_reached_where_there_is_room(kind: str) -> None:
    robot, pairs = arms()
    q, _ = crossing(3)
    goal = q + np.array([-0.5, 0.0, 0.2, 0.0, 0.0, 0.4, 0.2, -0.1, 0.2, 0.0])
    clear = robot.clearance(goal, pairs) > 0.03
    assert clear.any()
    targets = {hand: robot.pose(goal[clear], hand)[:, :3, 3] for hand in HANDS}
    end, least = followed(controller(kind), q[clear], targets, 0.01, 2.5)
    assert (least > 0.02 - 3e-4).all()
    for hand, target in targets.items():
        assert_near(robot.pose(end, hand)[:, :3, 3], target, 2e-3 if kind == "levels" else 2e-2)


def too_close() -> tuple[Array, dict[str, Array]]:
    """States well inside the distance that is kept."""
    q, targets = crossing(3)
    robot, pairs = arms()
    now = q
    for _ in range(400):
        tau = controller("program", avoid=None)(now, np.zeros_like(now), targets).tau
        now = robot.integrate(now, 2e-3 * robot.forward_dynamics(now, np.zeros_like(now), tau))
        if (robot.clearance(now, pairs) < 0.01).all():
            break
    assert (robot.clearance(now, pairs) < 0.01).any()
    return now, targets


@pytest.mark.parametrize("kind", ["levels", "program"])
def test_what_starts_too_close_comes_no_closer(kind: str) -> None:
    robot, pairs = arms()
    q, targets = too_close()
    start = robot.clearance(q, pairs)
    end, least = followed(controller(kind), q, targets, 0.01, 0.5)
    assert (least > np.minimum(start, 0.02) - 3e-4).all()
    assert (robot.clearance(end, pairs) > np.minimum(start, 0.019) - 3e-4).all()


@pytest.mark.parametrize("kind", ["levels", "program"])
def test_bits_do_not_depend_on_the_batch(kind: str) -> None:
    _, pairs = arms()
    q, targets = too_close()
    q[0] = crossing(3)[0][0]
    v = np.random.default_rng(2).normal(0.0, 0.5, q.shape)
    held = pickle.loads(pickle.dumps(controller(kind, avoid=control.Avoid(pairs, 0.03))))
    together = held(q, v, targets)
    for i in range(len(q)):
        alone = held(q[i], v[i], {hand: target[i] for hand, target in targets.items()})
        np.testing.assert_array_equal(alone.tau, together.tau[i])
        np.testing.assert_array_equal(alone.acceleration, together.acceleration[i])
    without = controller(kind, avoid=None)(q, v, targets).tau
    assert (together.tau != without).any()


def test_engines_agree() -> None:
    q, targets = too_close()
    native = controller("levels")
    v = np.zeros_like(q)
    found, expected = native(q, v, targets), native.engine("reference")(q, v, targets)
    assert (found.state.active != 0).any()
    np.testing.assert_array_equal(found.state.active, expected.state.active)
    assert_near(found.tau, expected.tau, 1e-7 * float(np.abs(expected.tau).max()))


def test_rows_are_kept_exactly() -> None:
    """Accelerations satisfy the law, and that of a pair that is held with equality."""
    q, targets = too_close()
    for kind in ("levels", "program"):
        held = controller(kind)
        v = np.random.default_rng(5).normal(0.0, 0.3, q.shape)
        a = held(q, v, targets).acceleration
        J, low, _ = held._avoid(q, v)
        room = np.einsum("bkv,bv->bk", J, a) - low
        assert (room > -1e-5).all()
        assert (np.abs(room) < 1e-5).any()


def test_bounds_are_the_law() -> None:
    """Against differences of the distances, for pairs that are far, near, too close, and too fast."""
    robot, pairs = arms()
    q = np.concatenate([too_close()[0], crossing(3)[0]])
    v, step, kappa = np.random.default_rng(1).normal(0.0, 4.0, q.shape), 1e-5, 7.0
    _, low, index = AccelerationRows(robot, control.Avoid(pairs, 0.02, within=0.3, rate=kappa))(q, v)
    d = [robot.distances(robot.integrate(q, v, by), pairs).distance for by in (-step, 0.0, step)]
    before, now, after = (np.take_along_axis(each, index, -1) for each in d)
    x, rate, bend = now - 0.02, (after - before) / (2 * step), (after - 2 * now + before) / step**2
    stiff = np.clip(-rate / np.maximum(x, 1e-3), kappa, 5.0 * kappa)
    spring = np.where(x > 0.0, stiff**2 * x, np.maximum(x, -1e-3) * kappa**2)
    part = low > -1e29
    np.testing.assert_array_equal(part, now < 0.3)
    wrong = np.abs(low + 2.0 * stiff * rate + spring + bend)[part] > 1e-2
    assert wrong.mean() < 0.1  # other features on both sides
    for case in (x < -1e-3, (x > 0.0) & (stiff > kappa), (x > 0.0) & (stiff == kappa)):
        assert 2 * wrong[case[part]].sum() < (case & part).sum()


def test_held_pairs_are_those_at_their_bounds() -> None:
    q, targets = too_close()
    count, v = 20, np.random.default_rng(6).normal(0.0, 2.0, (20, 10))
    held = controller("levels", avoid=control.Avoid(arms()[1], 0.08, within=0.5))
    found = held(np.tile(q[0], (count, 1)), v, {hand: np.tile(x[0], (count, 1)) for hand, x in targets.items()})
    J, low, _ = held._avoid(np.tile(q[0], (count, 1)), v)
    room = np.einsum("bkv,bv->bk", J, found.acceleration) - low
    active = found.state.active != 0
    assert (room > -1e-4).all()
    assert (np.abs(room[active]) < 1e-4).all()
    assert (active[:, 1:].any(axis=-1) & ~active[:, 0]).any()  # not the nearest pair


def test_what_gives_way_is_reported() -> None:
    """The slack of commands, alone and in batches, is what their accelerations lack, by the bounds themselves."""
    q, targets = too_close()
    bounds = control.Bounds(position=15.0, velocity=15.0)
    held = controller("levels", 40.0, bounds=bounds, avoid=control.Avoid(arms()[1], 0.08, within=0.5))
    v = np.random.default_rng(6).normal(0.0, 2.0, (12, 10))
    q, targets = np.tile(q[0], (12, 1)), {hand: np.tile(x[0], (12, 1)) for hand, x in targets.items()}
    found = held(q, v, targets)
    J, low, _ = held._avoid(q, v)
    least, most = held._limits.accelerations(q, v)
    a = found.acceleration
    lacking = np.concatenate([least - a, a - most, low - np.einsum("bkv,bv->bk", J, a)], axis=-1).max(axis=-1)
    assert_near(found.slack, np.where(lacking > 1e-6, lacking, 0.0), 1e-9 * max(1.0, float(lacking.max())))
    assert (found.slack == 0.0).any()
    assert (found.slack > 1.0).any()
    for i in range(12):
        alone = held(q[i], v[i], {hand: x[i] for hand, x in targets.items()})
        np.testing.assert_array_equal(alone.slack, found.slack[i])
    assert controller("levels")(q[0], np.zeros(10)).slack == 0.0


def test_efforts_that_do_not_suffice_are_reported() -> None:
    robot, pairs = arms()
    weak = {joint.name: kt.Limits(lower=-2.5, upper=2.5, velocity=2.0, effort=1e-3) for joint in robot.joints}
    q, _ = too_close()
    v = np.zeros(10)
    v[[0, 5]] = -3.0, 3.0  # towards each other
    for avoid in (None, pairs):
        held = control.OperationalSpace(
            robot.with_limits(weak), ["left_hand"], posture=control.Posture(q[0]), avoid=avoid,
            bounds=control.Bounds(velocity=15.0, torque=True),
        )  # fmt: skip
        assert held(q[0], v).slack > 1.0
        assert held(q[0], np.zeros(10)).scale.shape == (2,)


def test_contradictions_are_named() -> None:
    robot, pairs = arms()
    weak = {joint.name: kt.Limits(lower=-2.5, upper=2.5, velocity=2.0, effort=1e-3) for joint in robot.joints}
    q, _ = too_close()
    options: Any = {
        "posture": control.Posture(q[0]), "bounds": control.Bounds(torque=True), "avoid": control.Avoid(pairs, 0.1),
    }  # fmt: skip
    v = np.zeros(10)
    v[[0, 5]] = -3.0, 3.0  # towards each other
    with pytest.raises(InfeasibleError, match="distance of 'left"):
        control.WholeBody(robot.with_limits(weak), ["left_hand"], **options)(q[0], v)
    relaxed = control.WholeBody(robot.with_limits(weak), ["left_hand"], fallback="relax", **options)(q[0], v)
    assert relaxed.slack > 0.0


def test_surroundings_are_avoided() -> None:
    robot, _ = arms()
    q = np.array([0.3, 0.5, 0.6, 0.0, 0.3, -0.3, 0.5, 0.6, 0.0, 0.3])
    hand = robot.pose(q, "left_hand")[:3, 3]
    ball = kt.Scene([geo.Sphere("ball", hand + np.array([0.15, 0.01, 0.02]), 0.05)])
    pairs = robot.collision_pairs(scene=ball)
    held = control.OperationalSpace(robot, [kt.Task("left_hand", "position")], avoid=pairs)
    v, least = np.zeros(10), np.inf
    for _ in range(250):
        v = v + 0.01 * robot.forward_dynamics(q, v, held(q, v, {"left_hand": hand + np.array([0.15, 0, 0])}).tau)
        q = robot.integrate(q, v, 0.01)
        least = min(least, float(robot.clearance(q, pairs)))
    assert 0.02 - 3e-4 < least < 0.022


def test_pairs_that_nothing_moves_have_no_bound() -> None:
    """A ball on the axis of its joint, closer to the floor than it should be."""
    builder = kt.Builder("spinner")
    builder.add_body("ball", joint="revolute", axis=(0, 0, 1), mass=1.0, inertia=np.eye(3))
    builder.add_shape(geo.Sphere("ball", (0, 0, 0.1), 0.09))
    robot = builder.build()
    pairs = robot.collision_pairs(scene=kt.Scene([geo.Plane()]), keep_colliding=True)
    J, low, _ = AccelerationRows(robot, control.Avoid(pairs))(np.array([0.3]), np.array([1.0]))
    assert_near(robot.clearance(np.array([0.3]), pairs), 0.01, 1e-15)
    assert_near(J, [[0.0]], 1e-15)
    assert (low < -1e29).all()


def test_refused() -> None:
    refused("avoid: rate=0.0 is a rate", lambda: control.Avoid(arms()[1], rate=0.0))
    refused("pairs come from", lambda: controller("levels", avoid=[("left0", "right0")]))
