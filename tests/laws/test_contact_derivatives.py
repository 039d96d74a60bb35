"""Derivatives of steps with contacts, dry friction and stops: against differences inside of modes, and their modes."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import simulation
from tests.fuzz import contacts as fuzz
from tests.laws.test_contact import CORNERS, DT, MU, SIZE, START, OwnPlane, slider, world
from tests.mechanisms import hopper
from tests.tolerance import Array, assert_near, peak, refused

METHODS = ["semi_implicit_euler", "midpoint"]
GRAVITY = 9.81


def above(q: Any, height: float) -> Array:
    q = np.array(q, dtype=float)
    q[2] += height
    return q


FIELD = simulation.HeightField(0.1 * np.random.default_rng(3).random((5, 5)), (2.0, 2.0))
BALL = simulation.Sphere((0.0, 0.0, -0.5), 0.5, 0.6)
ICE = replace(BALL, friction=0.0)
ROD = simulation.Capsule((-1.0, 0.0, -0.3), (1.0, 0.1, -0.3), 0.3, 0.5)
BRICK = simulation.Block((0.0, 0.0, -0.1), (0.4, 0.4, 0.2), 0.4)


def on_point(shape: simulation.Shape, method: str, **options: Any) -> simulation.Simulator:
    points = [simulation.Points("box", (0.0, 0.0, -0.05))]
    return simulation.Simulator(kt.zoo.box(SIZE, 1.0), dt=DT, method=method, contacts=points, ground=shape, **options)


def on_leg(method: str) -> simulation.Simulator:
    points, dry = [simulation.Points("foot", CORNERS)], np.r_[np.zeros(6), 0.3]
    return simulation.Simulator(
        hopper(), dt=DT, method=method, contacts=points, limits=True, friction=dry, stiffness=10.0 * dry, damping=0.1
    )


def rest_on(shape: simulation.Shape, x: float, y: float) -> Array:
    """Where a box touches a shape with the middle of its lower side, nearly."""
    height = 0.05
    for _ in range(60):
        height -= 0.9 * float(shape.gap([x, y, height - 0.05])[0])
    return np.array([x, y, height + 2e-4, 1.0, 0.0, 0.0, 0.0])


FALLING = np.array([0.1, 0.2, 0.3, 0.5, 0.2, -1.0])
GLANCING = np.array([0.1, 0.2, 0.3, 2.0, 0.8, -1.0])
SPINNING = np.array([30.0, -40.0, 20.0, 2.0, 0.8, -1.0])
# simulator, state, joint forces, modes of contacts and of the last joint
CASES: dict[str, tuple[Any, Any, Any, Any, list[int], int]] = {
    "sticks": (lambda m: world(method=m), above(START, 2e-6), np.zeros(6), [0.1, 0.05, 0.02, 1, 0.5, 0], [1] * 4, 0),
    "slides": (lambda m: world(method=m), above(START, 2e-6), [0, 0, 0, 1.0, 0.3, 0], np.zeros(6), [2] * 4, 0),
    "below": (lambda m: world(method=m), above(START, -2e-5), np.zeros(6), [0, 0, 0.02, 1, 0.5, 0], [1] * 4, 0),
    "flies": (lambda m: world(method=m), above(START, 0.1), [0.1, 0.2, 0.3, 1.0, 0.3, 0], np.zeros(6), [0] * 4, 0),
    "a ball": (lambda m: on_point(BALL, m), rest_on(BALL, 0.02, 0.01), FALLING, np.zeros(6), [1], 0),
    "spins on a ball": (lambda m: on_point(BALL, m), rest_on(BALL, 0.02, 0.01), SPINNING, np.zeros(6), [2], 0),
    "slides on a rod": (
        lambda m: on_point(ROD, m), rest_on(ROD, 0.02, 0.06), GLANCING, np.zeros(6), [2], 0,
    ),
    "a brick": (lambda m: on_point(BRICK, m), rest_on(BRICK, 0.02, 0.01), GLANCING, np.zeros(6), [2], 0),
    "slides on hills": (lambda m: on_point(FIELD, m), rest_on(FIELD, 0.3, 0.2), GLANCING, np.zeros(6), [2], 0),
    "ice": (lambda m: on_point(ICE, m), rest_on(BALL, 0.02, 0.01), FALLING, np.zeros(6), [2], 0),
    "springs": (
        lambda m: on_point(BALL, m, stiffness=5.0, damping=0.2), rest_on(BALL, 0.02, 0.01), FALLING, np.zeros(6),
        [1], 0,
    ),
    "at a stop": (on_leg, [0, 0, 0.25 + 3e-6, 1, 0, 0, 0, 0.1 - 2e-6], np.zeros(7), np.zeros(7), [1] * 4, 3),
    "a leg slips": (on_leg, [0, 0, 0.6, 1, 0, 0, 0, 0.02], [0, 0, 0, 0, 0, 0, 0.5], np.zeros(7), [0] * 4, 2),
    "a leg holds": (on_leg, [0, 0, 0.6, 1, 0, 0, 0, 0.001], np.zeros(7), np.zeros(7), [0] * 4, 1),
    "a block sticks": (
        lambda m: simulation.Simulator(slider(), dt=DT, method=m, friction=3.0), [0.1], [0.0], [2.0], [], 1,
    ),
    "a block stops": (
        lambda m: simulation.Simulator(slider(), dt=DT, method=m, limits=True), [0.2499], [1.0], [2.0], [], 3,
    ),
    "nothing touches": (
        lambda m: simulation.Simulator(kt.zoo.chain(3), dt=DT, method=m), [0.1, 0.2, 0.3], [1, 2, 3], [1, 0, 2], [], 0,
    ),
}  # fmt: skip


def differences(sim: simulation.Simulator, q: Array, v: Array, tau: Array, h: float = 1e-7) -> tuple[Array, Array]:
    robot, (nv,) = sim.robot, v.shape
    end = sim.step(q, v, tau)[0]

    def after(dq: Array, dv: Array, dtau: Array) -> Array:
        after, rate, _ = sim.step(robot.integrate(q, dq), v + dv, tau + dtau)
        return np.concatenate([robot.difference(end, after), rate])

    columns = []
    for kind, step in enumerate((h, h, 1e-3)):
        for i in range(nv):
            change = np.zeros((3, nv))
            change[kind, i] = step
            columns.append((after(*change) - after(*-change)) / (2.0 * step))
    whole = np.array(columns).T
    return whole[:, : 2 * nv], whole[:, 2 * nv :]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CASES)
def test_matrices_are_differences(name: str, method: str) -> None:
    made, *state, contacts, joint = CASES[name]
    q, v, tau = (np.array(x, dtype=float) for x in state)
    sim = made(method)
    A, B, modes = sim.discretize(q, v, tau)
    assert modes.contacts.tolist() == contacts
    assert modes.joints[-1] == joint
    assert modes.certain
    assert modes.unique == (name != "slides")
    for ours, theirs in zip((A, B), differences(sim, q, v, tau), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=3e-6)


@pytest.mark.parametrize("method", METHODS)
def test_random_robots(method: str) -> None:
    """Trees of all joints with points on them, where nothing is near a change of modes."""
    tested = 0
    for seed in range(12):
        rng = np.random.default_rng([4, seed])
        robot = fuzz.robot(rng, int(rng.integers(1, 4)))
        frame = f"b{len(robot.bodies) - 1}"
        q = robot.random_configuration(rng)
        at = rng.uniform(-0.3, 0.3, 3)
        height = float((robot.pose(q, frame) @ [*at, 1.0])[2])
        sim = simulation.Simulator(
            robot, dt=DT, method=method, contacts=[simulation.Points(frame, at)],
            ground=[simulation.Plane(offset=height - 1e-4, friction=0.5), simulation.Plane(offset=-9.0)],
        )  # fmt: skip
        v, tau = rng.standard_normal(robot.nv), rng.standard_normal(robot.nv)
        A, B, modes = sim.discretize(q, v, tau)
        if not (modes.certain and modes.unique) or modes.margin < 1e-2:
            continue
        tested += int(modes.contacts.any())
        h = 1e-7
        expected = differences(sim, q, v, tau, h)
        scale = max(1.0, *(peak(x) for x in expected))
        assert_near(A, expected[0], 1e-5 * scale)
        assert_near(B, expected[1], 1e-6 * max(1.0, peak(expected[1])))
    assert tested >= 3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CASES)
def test_changes_and_gradients_are_those_of_the_matrices(name: str, method: str) -> None:
    made, *state, _, _ = CASES[name]
    q, v, tau = (np.array(x, dtype=float) for x in state)
    sim = made(method)
    nv, rng = len(v), np.random.default_rng(1)
    A, B, modes = sim.discretize(q, v, tau)
    dq, dv, dtau, left, right = rng.standard_normal((5, nv))
    changed = np.concatenate(sim.step.jvp(q, v, tau, dq, dv, dtau))
    scale = peak(A) + peak(B)
    assert_near(changed, A @ np.concatenate([dq, dv]) + B @ dtau, 1e-9 * scale)
    gradients = sim.step.vjp(q, v, tau, left, right)
    weights = np.concatenate([left, right])
    assert_near(np.concatenate([gradients.q, gradients.v]), weights @ A, 1e-9 * scale)
    assert_near(gradients.tau, weights @ B, 1e-9 * scale)
    assert gradients.certain == (modes.certain & modes.unique)


@pytest.mark.parametrize("method", METHODS)
def test_masses_of_a_body_that_spins(method: str) -> None:
    robot = on_point(BALL, method).robot
    q, v, tau, rng = rest_on(BALL, 0.02, 0.01), SPINNING, np.zeros(6), np.random.default_rng(0)
    theta, change = robot.inertial_parameters, rng.standard_normal((1, 10)) * 1e-3

    def after(t: float) -> Array:
        robot_t = robot.with_inertial_parameters(theta + t * change, strict=False)
        points = [simulation.Points("box", (0.0, 0.0, -0.05))]
        sim = simulation.Simulator(robot_t, dt=DT, method=method, contacts=points, ground=BALL)
        there, rate, _ = sim.step(q, v, tau)
        return np.concatenate([robot.difference(end, there), rate])

    sim, weights = on_point(BALL, method), rng.standard_normal(12)
    end = sim.step(q, v, tau)[0]
    expected = (after(1e-4) - after(-1e-4)) / 2e-4
    found = np.concatenate(sim.step.jvp(q, v, tau, *np.zeros((3, 6)), parameters=change))
    assert_near(found, expected, 1e-7 * peak(expected))
    gradient = sim.step.vjp(q, v, tau, weights[:6], weights[6:], parameters=True).parameters
    assert_near(np.sum(gradient * change), weights @ found, 1e-9 * peak(found))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sliding", [False, True])
def test_friction_heights_and_forces(method: str, sliding: bool) -> None:
    """Of two shapes, one of which is far away."""

    def made(change: float = 0.0, raised: float = 0.0) -> simulation.Simulator:
        ball = simulation.Sphere((0.0, 0.0, -0.5), 0.5 + raised, 0.6 + change)
        points = [simulation.Points("box", (0.0, 0.0, -0.05))]
        ground = [simulation.Plane(offset=-4.0), ball]
        return simulation.Simulator(kt.zoo.box(SIZE, 1.0), dt=DT, method=method, contacts=points, ground=ground)

    q, v, tau = rest_on(BALL, 0.02, 0.01), GLANCING if sliding else FALLING, np.zeros(6)
    push = {"box": np.array([0.1, 0.2, 0.3, 1.0, 2.0, 3.0])}
    sim, robot, zero, h = made(), made().robot, np.zeros(6), 1e-6
    end = sim.step(q, v, tau, f_ext=push)[0]

    def after(world: simulation.Simulator, push: Any) -> Array:
        there, rate, _ = world.step(q, v, tau, f_ext=push)
        return np.concatenate([robot.difference(end, there), rate])

    weights = np.random.default_rng(2).standard_normal(12)
    gradients = sim.step.vjp(q, v, tau, weights[:6], weights[6:], f_ext=push)
    expected = (after(made(h), push) - after(made(-h), push)) / (2.0 * h)
    assert (peak(expected) > 1e-3) == sliding
    assert_near(np.concatenate(sim.step.jvp(q, v, tau, zero, zero, friction=[0.0, 1.0], f_ext=push)), expected, 1e-6)
    assert_near(gradients.friction, [0.0, weights @ expected], 1e-6)
    expected = (after(made(0.0, h), push) - after(made(0.0, -h), push)) / (2.0 * h)
    assert peak(expected) > 1e2
    found = np.concatenate(sim.step.jvp(q, v, tau, zero, zero, height=[0.0, 1.0], f_ext=push))
    assert_near(found, expected, 1e-3)
    assert_near(gradients.height, [0.0, weights @ expected], 1e-2)
    direction = np.random.default_rng(3).standard_normal(6)
    ahead, behind = (after(sim, {"box": push["box"] + sign * 0.05 * direction}) for sign in (1.0, -1.0))
    found = np.concatenate(sim.step.jvp(q, v, tau, zero, zero, f_ext=push, df_ext={"box": direction}))
    assert_near(found, (ahead - behind) / 0.1, 1e-7)
    assert float(gradients.f_ext["box"] @ direction) == pytest.approx(float(weights @ found), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("digits", range(1, 11))
def test_modes_at_the_limit_of_friction_are_right_or_uncertain(digits: int) -> None:
    floor = world(method="semi_implicit_euler")
    for sign in (-1.0, 1.0):
        tau = np.array([0.0, 0.0, 0.0, MU * GRAVITY * (1.0 + sign * 10.0**-digits), 0.0, 0.0])
        _, B, modes = floor.discretize(START, np.zeros(6), tau)
        slides = (modes.contacts == simulation.SLIDING).all()
        holds = np.isin(modes.contacts, (simulation.STICKING, simulation.EDGE)).all()
        right = slides if sign > 0.0 else holds
        assert right or not modes.certain
        assert right or digits > 7
        assert modes.certain == (sign > 0.0 and digits < 6)  # two corners are at the edge if it holds
        if right:
            assert float(B[9, 3]) == pytest.approx(DT if sign > 0.0 else 0.0, abs=1e-9)


def test_slopes_of_shapes() -> None:
    """Exact derivatives of gaps and normals, also where gaps do not grow along normals."""
    shapes = [simulation.Plane((0.3, -0.2, 1.0), 0.1), BALL, ROD, BRICK, FIELD]
    points = np.random.default_rng(5).uniform(-0.7, 0.7, (200, 3))
    for shape in shapes:
        slopes, turns = shape.slopes(points)
        h, kinks = 1e-6, 0
        for i, e in enumerate(np.eye(3)):
            (up, n_up), (down, n_down) = (shape.gap(points + sign * h * e) for sign in (1.0, -1.0))
            off = np.abs((up - down) / (2.0 * h) - slopes[:, i]) + np.abs(
                (n_up - n_down) / (2.0 * h) - turns[:, :, i]
            ).max(axis=-1)
            kinks = max(kinks, int((off > 1e-4).sum()))
        assert kinks <= 2
        single = shape.slopes(points[3])
        np.testing.assert_array_equal(single[0], slopes[3])
        np.testing.assert_array_equal(single[1], turns[3])


@pytest.mark.parametrize("method", METHODS)
def test_gradients_of_a_motion(method: str) -> None:
    """A ball that is thrown lands, slides and rolls to rest in its dent, and a leg: all forces at once."""
    sim = on_point(simulation.Plane(friction=0.3), method, damping=0.02)
    q, v = np.array([0.0, 0.0, 0.0503, 1.0, 0.0, 0.0, 0.0]), np.array([0.0, 0.0, 0.5, 1.0, 0.2, 0.0])
    rng, steps = np.random.default_rng(3), 60
    taus = 0.2 * rng.standard_normal((steps, 6))
    left, right = rng.standard_normal((2, steps + 1, 6))
    robot, path = sim.robot, sim.rollout(q, v, taus)

    def total(q: Array, v: Array, taus: Array, world: simulation.Simulator = sim) -> float:
        moved = world.rollout(q, v, taus)
        return float((left * robot.difference(path.q, moved.q)).sum() + (right * (moved.v - path.v)).sum())

    found = sim.rollout.vjp(q, v, taus, left, right)
    assert found.certain
    h = 1e-6
    for _ in range(3):
        dq, dv = rng.standard_normal((2, 6))
        dtau = rng.standard_normal(taus.shape)
        ahead, behind = (
            total(robot.integrate(q, s * h * dq), v + s * h * dv, taus + s * h * dtau) for s in (1.0, -1.0)
        )
        slope = found.q @ dq + found.v @ dv + (found.tau * dtau).sum()
        assert (ahead - behind) / (2.0 * h) == pytest.approx(float(slope), rel=1e-5, abs=1e-5)
    rougher, smoother = (
        total(q, v, taus, on_point(simulation.Plane(friction=0.3 + s * h), method, damping=0.02)) for s in (1.0, -1.0)
    )
    assert (rougher - smoother) / (2.0 * h) == pytest.approx(float(found.friction[0]), rel=1e-5, abs=1e-5)
    for checkpoint in (1, 7, 60, 1000):
        again = sim.rollout.vjp(q, v, taus, left, right, checkpoint=checkpoint)
        for name in ("q", "v", "tau", "friction", "height"):
            np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    nowhere = sim.rollout.vjp(q, v, taus[:0], left[:1], right[:1])
    np.testing.assert_array_equal(nowhere.q, left[0])
    assert nowhere.tau.shape == (0, 6)
    together = sim.rollout.vjp(np.tile(q, (2, 1)), [v, 0.9 * v], taus, left, right)
    for name in ("q", "v", "tau", "friction", "height"):
        np.testing.assert_array_equal(getattr(together, name)[0], getattr(found, name))


def test_batches_have_the_same_bits_and_nan_stays() -> None:
    floor = world(20.0)
    rng = np.random.default_rng(6)
    q, v = np.tile(above(START, 1e-6), (9, 1)), 0.3 * rng.standard_normal((9, 6)) * rng.choice([0.0, 1.0], (9, 1))
    q[4] = np.nan
    A, B, modes = floor.discretize(q, v)
    gradients = floor.step.vjp(q.reshape(3, 3, 7), v.reshape(3, 3, 6), None, np.ones(6), np.ones(6))
    assert gradients.q.shape == (3, 3, 6)
    for i in range(9):
        one = floor.discretize(q[i], v[i])
        np.testing.assert_array_equal(one.A, A[i])
        np.testing.assert_array_equal(one.B, B[i])
        for ours, theirs in zip(one.modes, modes, strict=True):
            np.testing.assert_array_equal(ours, theirs[i])
        alone = floor.step.vjp(q[i], v[i], None, np.ones(6), np.ones(6))
        np.testing.assert_array_equal(alone.q, gradients.q.reshape(9, 6)[i])
    assert np.isfinite(np.delete(A, 4, axis=0)).all()
    assert np.isnan(A[4]).any()
    assert not modes.certain[4]


def test_what_has_no_derivatives_says_so() -> None:
    box, points = kt.zoo.box(SIZE, 1.0), [simulation.Points("box", CORNERS)]
    own = simulation.Simulator(box, contacts=points, ground=OwnPlane())
    refused(r"OwnPlane has no slopes\(points\); define it", own.discretize, START, np.zeros(6))
    refused("need one of the methods midpoint", simulation.Simulator(box, method="rk4").discretize, START, np.zeros(6))
    held = simulation.Simulator(box, constraints=[kt.Weld("box", rows="position")], at=START, contacts=points)
    with pytest.raises(kt.errors.UnsupportedError, match="with respect to inertial parameters yet"):
        held.step.vjp(START, np.zeros(6), None, np.zeros(6), np.zeros(6), parameters=True)
    floor = world()
    none, many = np.zeros(6), np.zeros((3, 6))
    refused("checkpoint=0 is not a pos", floor.rollout.vjp, START, none, many[1:], many, many, checkpoint=0)
    refused(r"tau has shape \(6,\); it takes", floor.rollout.vjp, START, none, none, many[1:], many[1:])


def test_gradients_of_a_quadruped() -> None:
    """A thousand steps from a drop onto a floor, on point feet, with springs in all joints; memory does not grow."""
    builder = kt.Builder("quadruped")
    builder.add_body("trunk", joint="floating", mass=12.0, inertia=np.diag([0.07, 0.27, 0.31]))
    feet = []
    for i, (x, y) in enumerate([(0.2, 0.15), (0.2, -0.15), (-0.2, 0.15), (-0.2, -0.15)]):
        hip, thigh, shank = f"hip{i}", f"thigh{i}", f"shank{i}"
        at = np.eye(3), (x, y, 0.0)
        builder.add_body(hip, parent="trunk", axis=(1, 0, 0), placement=at, mass=0.5, inertia=1e-3 * np.eye(3))
        limb: dict[str, Any] = {"axis": (0, 1, 0), "mass": 0.7, "inertia": np.diag([5e-3, 5e-3, 5e-4])}
        builder.add_body(thigh, parent=hip, com=(0, 0, -0.12), **limb)
        builder.add_body(shank, parent=thigh, placement=(np.eye(3), (0, 0, -0.25)), com=(0, 0, -0.12), **limb)
        feet.append(simulation.Points(shank, (0.0, 0.0, -0.25)))
    robot, bent = builder.build(), np.r_[np.zeros(6), np.tile([0.0, 0.6, -1.2], 4)]
    stand, springs = robot.integrate(robot.neutral(), bent), np.r_[np.zeros(6), np.full(12, 200.0)]
    stand[2] += 0.5 * np.cos(0.6) + 0.01
    sim = simulation.Simulator(
        robot,
        contacts=feet,
        ground=simulation.Plane(friction=0.8),
        stiffness=springs,
        damping=0.1 * springs,
        rest=stand,
    )
    rng, steps = np.random.default_rng(0), 1000
    v, taus = np.zeros(18), np.tile(np.r_[np.zeros(6), rng.standard_normal(12)], (steps, 1))
    v[[1, 3]] = 0.1, 0.3
    left, right = np.zeros((2, steps + 1, 18))
    left[-1], right[-1] = rng.standard_normal((2, 18))
    path, found = sim.rollout(stand, v, taus), sim.rollout.vjp(stand, v, taus, left, right)
    assert found.certain
    for _ in range(2):
        dq, dv, dtau = rng.standard_normal(18), rng.standard_normal(18), rng.standard_normal(taus.shape)

        def total(h: float, dq: Array = dq, dv: Array = dv, dtau: Array = dtau) -> float:
            end = sim.rollout(robot.integrate(stand, h * dq), v + h * dv, taus + h * dtau)
            off = robot.difference(path.q[-1], end.q[-1]), end.v[-1] - path.v[-1]
            return float(left[-1] @ off[0] + right[-1] @ off[1])

        h = 5e-6  # noise of contacts that are solved to 1e-10, and no change of modes
        change = (total(h) - total(-h)) / (2.0 * h)
        slope = float(found.q @ dq + found.v @ dv + (found.tau * dtau).sum())
        assert change == pytest.approx(slope, rel=1e-6, abs=1e-7)
    # states of all steps would take 37 numbers each; one in √T is kept, with those between two of them
    tracemalloc.start()
    sim.rollout.vjp(stand, v, taus, left, right)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2 * taus.nbytes + 60 * math.isqrt(steps) * 37 * 8
