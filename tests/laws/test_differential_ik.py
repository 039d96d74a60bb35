"""Differential inverse kinematics: least squares, limits, many at once, all kinds of goals."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import control
from kinetree.errors import InputError, UnknownNameError
from tests.laws.cases import model
from tests.oracle import oracle
from tests.tolerance import assert_close, bound

oracle("daqp")

Array = np.ndarray[Any, np.dtype[Any]]

LWA = "local_world_aligned"
HANDS = ("left_hand", "right_hand")


@cache
def hands(**options: Any) -> control.DifferentialIK:
    robot = model("humanoid24")
    goals = [control.Goal("left_hand", weight=4.0), control.Goal("right_hand")]
    return control.DifferentialIK(robot, goals, posture=robot.neutral(), **options)


def state(seed: int, shape: tuple[int, ...] = ()) -> tuple[Array, dict[str, Array]]:
    """A configuration, and targets a few centimetres away."""
    robot, rng = model("humanoid24"), np.random.default_rng(seed)
    low, high = robot.lower_limits, robot.upper_limits
    q = low + rng.uniform(0.1, 0.9, (*shape, robot.nq)) * (high - low)
    near = robot.pose(robot.integrate(q, 0.05 * rng.normal(size=q.shape)), list(HANDS))
    return q, {name: near[..., i, :, :] for i, name in enumerate(HANDS)}


def parts(q: Array, targets: dict[str, Array]) -> tuple[Array, Array, Array, Array]:
    """J, e, the weights of rows, and the way to the posture."""
    robot = model("humanoid24")
    J = robot.tasks(list(HANDS), reference=LWA).jacobian(q)
    e = np.concatenate([control.pose_error(robot.pose(q, name), targets[name]) for name in HANDS])
    return J, e, np.repeat([4.0, 1.0], 6), robot.difference(q, robot.neutral())


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_the_program_has_the_terms_of_the_least_squares(engine: str) -> None:
    q, targets = state(2)
    J, e, w, way = parts(q, targets)
    recursions = model("humanoid24").tasks(list(HANDS), reference=LWA).core.recursions
    H, g = recursions.differential_program.engine(engine)(J, e, way, w, np.array([0.7, 0.01, 0.011]))
    assert_close(H, (J.T * w) @ J + 0.011 * np.eye(len(q)), bound(len(q)))
    assert_close(g, -(J.T * w) @ (0.7 * e) - 0.01 * way, bound(len(q)))


def test_without_limits_it_is_least_squares() -> None:
    q, targets = state(1)
    J, e, w, way = parts(q, targets)
    ik = hands(limits=False, posture_weight=0.1, damping=1e-3, gain=0.7)
    H = (J.T * w) @ J + (0.1**2 + 1e-3) * np.eye(len(q))
    step = np.linalg.solve(H, (J.T * w) @ (0.7 * e) + 0.1**2 * way)
    np.testing.assert_allclose(
        ik(q, targets, dt=0.05), step / 0.05, rtol=0.0, atol=1e-10 * float(np.abs(step).max()) / 0.05
    )


@pytest.mark.parametrize("seed", range(4))
def test_within_limits_it_is_the_quadratic_program(seed: int) -> None:
    """The conditions of optimality: at a bound the slope points outwards, elsewhere it vanishes."""
    robot, dt = model("humanoid24"), 2e-3
    q, targets = state(seed)
    q[robot.joint("waist_pitch").q_start] = robot.joint("waist_pitch").limits.upper[0] - 1e-4
    J, e, w, way = parts(q, targets)
    step = hands()(q, targets, dt=dt) * dt
    fast = robot.velocity_limits * dt
    low, high = np.maximum(-fast, 0.5 * (robot.lower_limits - q)), np.minimum(fast, 0.5 * (robot.upper_limits - q))
    assert (step >= low * (1.0 + 1e-12)).all()
    assert (step <= high * (1.0 + 1e-12)).all()
    slope = (J.T * w) @ (J @ step - e) + 1e-6 * (step - way) + 1e-6 * step
    at_low, at_high = np.isclose(step, low, rtol=1e-9), np.isclose(step, high, rtol=1e-9)
    assert (at_low | at_high).any()
    scale = float(np.abs(slope).max())
    np.testing.assert_allclose(slope[~at_low & ~at_high], 0.0, rtol=0.0, atol=1e-8 * scale)
    assert (slope[at_low] >= -1e-8 * scale).all()
    assert (slope[at_high] <= 1e-8 * scale).all()


def test_it_converges() -> None:
    robot = model("humanoid24")
    q, targets = state(9)
    for _ in range(150):
        q = robot.integrate(q, hands()(q, targets, dt=0.02), 0.02)
    for name in HANDS:
        np.testing.assert_allclose(robot.pose(q, name), targets[name], rtol=0.0, atol=1e-4)
    assert (q >= robot.lower_limits).all()
    assert (q <= robot.upper_limits).all()


def test_bits_do_not_depend_on_the_batch() -> None:
    q, targets = state(5, (2, 2))
    q[0, 1, 3] = np.nan
    for dt in (1e-3, 1.0):
        together = hands()(q, targets, dt=dt)
        assert together.shape == q.shape
        assert np.isnan(together[0, 1]).any()
        for i in ((0, 0), (1, 0), (1, 1)):
            alone = hands()(q[i], {name: target[i] for name, target in targets.items()}, dt=dt)
            np.testing.assert_array_equal(alone, together[i])


def test_other_goals_and_free_bases() -> None:
    """The centre of mass, relative frames, positions alone, on a robot that floats."""
    robot = model("asimo35")
    q = robot.random_configuration(3)
    goals = [kt.CenterOfMassTask(), kt.RelativeTask("left_foot", "right_foot"), kt.Task("right_hand", "position")]
    ik = control.DifferentialIK(robot, goals, posture=q)
    target = {"right_hand": robot.pose(q, "right_hand")[:3, 3] + [0.02, 0.0, 0.01]}
    com, feet = robot.center_of_mass(q), robot.pose(q, ["left_foot", "right_foot"])
    for _ in range(20):
        q = robot.integrate(q, ik(q, target, dt=0.1), 0.1)
    np.testing.assert_allclose(robot.pose(q, "right_hand")[:3, 3], target["right_hand"], rtol=0.0, atol=1e-4)
    np.testing.assert_allclose(robot.center_of_mass(q), com, rtol=0.0, atol=1e-4)
    after = robot.pose(q, ["left_foot", "right_foot"])
    relative = [control.inverse(pair[0]) @ pair[1] for pair in (feet, after)]
    np.testing.assert_allclose(relative[1], relative[0], rtol=0.0, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hands(gain=1.5), "are shares, above zero and at most one"),
        (lambda: hands(posture_weight=0.0, damping=0.0), "the remaining motion is undetermined"),
        (lambda: hands()(model("humanoid24").neutral(), dt=0.0), "dt=0.0 is not a positive time step"),
        (lambda: hands()(np.zeros(3)), r"control: q has shape \(3,\)"),
        (lambda: hands()(model("humanoid24").neutral(), {"left_hand": np.ones((4, 4))}), "is no rotation"),
        (lambda: control.DifferentialIK(model("humanoid24"), [control.Force("left_hand")]), "follows motions"),
    ],
)
def test_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
    with pytest.raises(UnknownNameError, match="no goal is called 'hand'"):
        hands()(model("humanoid24").neutral(), {"hand": np.eye(4)})


def test_the_screw_error_is_that_of_pinocchio() -> None:
    """error="log6": log(T⁻¹ T_d) with its exact rate, as pink has it; small and large rotations."""
    pin = oracle("pinocchio")
    robot = model("humanoid24")
    order = np.r_[3:6, 0:3]  # Pinocchio has linear components first
    ik = hands(limits=False, posture_weight=0.1, damping=1e-3, gain=0.7, error="log6")
    q, near = state(3)
    far = {name: control.interpolate(T, robot.pose(q, HANDS[1 - i]), 0.9) for i, (name, T) in enumerate(near.items())}
    still = {name: robot.pose(q, name) for name in HANDS}
    for targets in (near, far, still):
        J, e = np.empty((12, robot.nv)), np.empty(12)
        for i, name in enumerate(HANDS):
            T, target = pin.SE3(robot.pose(q, name)), pin.SE3(targets[name])
            at = slice(6 * i, 6 * i + 6)
            rate = pin.Jlog6(target.actInv(T))[np.ix_(order, order)]
            J[at], e[at] = rate @ robot.jacobian(q, name, "local"), pin.log6(T.actInv(target)).vector[order]
        w, way = np.repeat([4.0, 1.0], 6), robot.difference(q, robot.neutral())
        H = (J.T * w) @ J + (0.1**2 + 1e-3) * np.eye(len(q))
        step = np.linalg.solve(H, (J.T * w) @ (0.7 * e) + 0.1**2 * way)
        np.testing.assert_allclose(
            ik(q, targets, dt=0.05), step / 0.05, rtol=0.0, atol=1e-9 * float(np.abs(step).max()) / 0.05
        )


def test_errors_that_are_not_defined_are_named() -> None:
    robot = model("humanoid24")
    with pytest.raises(UnknownNameError, match="no error between poses is called 'log'"):
        hands(error="log")
    message = "goal 'left_hand' has 3 rows, and the error \"log6\" is that of a whole pose"
    with pytest.raises(InputError, match=message):
        control.DifferentialIK(robot, [control.Goal(kt.Task("left_hand", "position"))], error="log6")
