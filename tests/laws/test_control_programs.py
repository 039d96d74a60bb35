"""Controllers that solve quadratic programs: whole-body control and differential inverse kinematics.

Dynamics, contacts, friction cones, torque and joint limits are kept, and what cannot be kept is named; without limits
both are least squares.
"""

from __future__ import annotations

import pickle
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import control
from kinetree.errors import InfeasibleError, InputError, UnknownNameError
from tests.laws.cases import LWA, model
from tests.oracle import oracle
from tests.tolerance import Array, assert_close, assert_near, bound, peak, refused

oracle("daqp")


FEET = ("left_foot", "right_foot")
SIZE, FRICTION = (0.2, 0.1), 0.6
GOALS = [control.Goal(kt.CenterOfMassTask(), weight=10.0), control.Goal(kt.Task("right_hand", "position"))]


@cache
def standing() -> Array:
    robot = model("asimo35")
    bent = {3: -0.3, 4: 0.6, 5: -0.3}
    return robot.q_from_dict({f"{side}_leg_{i}_joint": a for side in ("left", "right") for i, a in bent.items()})


@cache
def controller(**options: Any) -> control.WholeBody:
    feet = [control.Foot(foot, SIZE, FRICTION) for foot in FEET]
    return control.WholeBody(model("asimo35"), GOALS, posture=control.Posture(standing()), contacts=feet, **options)


def state(seed: int, shape: tuple[int, ...] = ()) -> tuple[Array, Array, dict[str, Array]]:
    """A state whose feet do not move much, and targets a little away."""
    robot, rng = model("asimo35"), np.random.default_rng(seed)
    v = 0.1 * rng.normal(size=(*shape, robot.nv))
    q = robot.integrate(standing(), 0.02 * rng.normal(size=(*shape, robot.nv)))
    hand = robot.pose(standing(), "right_hand")[:3, 3]
    com = robot.center_of_mass(standing())
    targets = {
        "center_of_mass": com + 0.03 * rng.normal(size=(*shape, 3)),
        "right_hand": hand + 0.1 * rng.normal(size=(*shape, 3)),
    }
    return q, v, targets


def points(robot: kt.Model, q: Array) -> tuple[Array, list[Array]]:
    """Jacobian of all contact points in world axes, and the axes of each foot."""
    tasks = [kt.Task(foot, "position", tuple(point)) for foot in FEET for point in control.Foot(foot, SIZE).points]
    return robot.tasks(tasks, reference=LWA).jacobian(q), [robot.pose(q, foot)[:3, :3] for foot in FEET]


@cache
def bounded() -> control.WholeBody:
    robot = model("asimo35")
    limits = {joint.name: kt.Limits(-0.62, 0.62) for joint in robot.joints if joint.nv == 1}
    feet = [control.Foot(foot, SIZE, FRICTION) for foot in FEET]
    given = {"posture": control.Posture(standing()), "contacts": feet, "bounds": control.Bounds(position=15.0)}
    return control.WholeBody(robot.with_limits(limits), GOALS, **given)


@pytest.mark.parametrize("seed", range(3))
def test_the_command_is_a_motion_within_all_limits(seed: int) -> None:
    q, v, targets = state(seed)
    controller, robot = bounded(), bounded().robot
    command = controller(q, v, targets)
    # position limits, some of which bind: the knees stand close to theirs
    k, at, rate = 15.0, q[7:], v[6:]
    most = k * k * (robot.upper_limits[7:] - at) - 2.0 * k * rate
    least = k * k * (robot.lower_limits[7:] - at) - 2.0 * k * rate
    close = 1e-6 * peak(command.acceleration)
    assert (command.acceleration[6:] <= most + close).all()
    assert (command.acceleration[6:] >= least - close).all()
    J, axes = points(robot, q)
    forces = np.concatenate([command.contact_forces[foot] @ R.T for foot, R in zip(FEET, axes, strict=True)]).ravel()
    # the equation of motion, with forces at the corners; nothing drives the base
    full = robot.inverse_dynamics(q, v, command.acceleration)
    scale = peak(full)
    assert_near(command.tau + J.T @ forces, full, 1e-9 * scale)
    np.testing.assert_array_equal(command.tau[:6], 0.0)
    # contacts come to rest
    feet = robot.tasks(list(FEET), reference=LWA)
    moved = feet.jacobian(q) @ command.acceleration + feet.jacobian_dot_v(q, v)
    assert_near(moved, -20.0 * feet.jacobian(q) @ v, 1e-8)
    # friction
    for foot in FEET:
        tangential, normal = command.contact_forces[foot][:, :2], command.contact_forces[foot][:, 2]
        assert (normal >= -1e-8).all()
        assert (np.linalg.norm(tangential, axis=1) <= FRICTION * normal + 1e-8).all()
    # goals lack what the program gave up
    com = robot.tasks([kt.CenterOfMassTask()], reference=LWA)
    wanted = 100.0 * (targets["center_of_mass"] - robot.center_of_mass(q)) - 20.0 * com.jacobian(q) @ v
    got = com.jacobian(q) @ command.acceleration + com.jacobian_dot_v(q, v)
    assert_near(command.errors["center_of_mass"], wanted - got, 1e-8)
    assert command.slack == 0.0


def test_without_inequalities_it_is_least_squares() -> None:
    """A fixed base without contacts and limits: the normal equations."""
    robot = model("humanoid24")
    q, v = robot.random_configuration(1), 0.1 * np.ones(robot.nv)
    posture = control.Posture(robot.neutral(), weight=0.5)
    arm = control.WholeBody(robot, [control.Goal("left_hand", weight=3.0)], posture=posture)
    found = arm(q, v)
    hand = robot.tasks(["left_hand"], reference=LWA)
    J = hand.jacobian(q)
    lacking = found.errors["left_hand"] + J @ found.acceleration
    a0 = 25.0 * robot.difference(q, robot.neutral()) - 10.0 * v
    a = np.linalg.solve(3.0 * J.T @ J + 0.5 * np.eye(robot.nv), 3.0 * J.T @ lacking + 0.5 * a0)
    assert_near(found.acceleration, a, 1e-9 * peak(a))
    np.testing.assert_allclose(found.tau, robot.inverse_dynamics(q, v, a), rtol=1e-9, atol=1e-7)


def test_limits_bind() -> None:
    """Joints next to their limits, and torques at theirs."""
    robot = model("humanoid24")
    posture = control.Posture(robot.neutral(), kp=1e4)
    bounds = control.Bounds(position=10.0, velocity=10.0, torque=True)
    arm = control.WholeBody(robot, [control.Goal("left_hand")], posture=posture, bounds=bounds)
    rng = np.random.default_rng(3)
    low, high = robot.lower_limits, robot.upper_limits
    q, v = rng.uniform(low, high), np.zeros(robot.nv)
    command = arm(q, v)
    assert (np.abs(command.tau) <= robot.effort_limits * (1.0 + 1e-9) + 1e-6).all()
    assert np.isclose(np.abs(command.tau), robot.effort_limits, rtol=1e-9).any()
    least, most = 100.0 * (low - q), 100.0 * (high - q)
    assert (command.acceleration >= np.maximum(least, -10.0 * robot.velocity_limits) - 1e-6).all()
    assert (command.acceleration <= np.minimum(most, 10.0 * robot.velocity_limits) + 1e-6).all()


def test_bits_do_not_depend_on_the_batch() -> None:
    q, v, targets = state(7, (3,))
    q[1, 9] = np.nan
    together = controller()(q, v, targets)
    assert np.isnan(together.tau[1]).all()
    for i in (0, 2):
        alone = controller()(q[i], v[i], {name: target[i] for name, target in targets.items()})
        np.testing.assert_array_equal(alone.tau, together.tau[i])
        np.testing.assert_array_equal(alone.contact_forces["left_foot"], together.contact_forces["left_foot"][i])


@cache
def stiff(fallback: str) -> control.WholeBody:
    """Legs that may not move, with motors too weak to hold them."""
    robot = model("asimo35")
    legs = [f"{side}_leg_{i}_joint" for side in ("left", "right") for i in range(1, 6)]
    at = {name: float(standing()[robot.joint(name).q_start]) for name in legs}
    limits = {joint.name: kt.Limits(effort=1e6) for joint in robot.joints if joint.nv == 1}
    limits |= {name: kt.Limits((a - 1e-6,), (a + 1e-6,), effort=(1.0,)) for name, a in at.items()}
    feet = [control.Foot(foot, SIZE) for foot in FEET]
    bounds = control.Bounds(position=10.0, torque=True)
    return control.WholeBody(
        robot.with_limits(limits), GOALS, posture=control.Posture(standing()), contacts=feet, bounds=bounds,
        fallback=fallback,
    )  # fmt: skip


def test_what_is_impossible_is_named() -> None:
    q, v = standing(), np.zeros(model("asimo35").nv)
    with pytest.raises(
        InfeasibleError, match=r"no motion keeps all limits\. .* give way: torque of '\w+_leg_"
    ) as caught:
        stiff("raise")(q, v)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.rows == caught.value.rows
    assert str(again) == str(caught.value)
    refused("no motion keeps all limits in sample 0", stiff("raise"), np.stack([q, q]), v, error=InfeasibleError)


def test_what_is_impossible_may_give_way() -> None:
    """Limits and friction do; the equation of motion and contacts do not."""
    robot, q, v = model("asimo35"), standing(), np.zeros(model("asimo35").nv)
    command = stiff("relax")(q, v)
    assert float(command.slack) > 1.0
    feet = robot.tasks(list(FEET), reference=LWA)
    assert_near(feet.jacobian(q) @ command.acceleration, 0.0, 1e-8)
    J, axes = points(robot, q)
    forces = np.concatenate([command.contact_forces[foot] @ R.T for foot, R in zip(FEET, axes, strict=True)]).ravel()
    full = robot.inverse_dynamics(q, v, command.acceleration)
    assert_near(command.tau + J.T @ forces, full, 1e-7 * peak(full))


def test_a_point_foot_may_turn() -> None:
    robot = model("asimo35")
    standing_on_points = control.WholeBody(
        robot, GOALS, posture=control.Posture(standing()), contacts=[*FEET, control.Foot("left_hand")]
    )
    assert "on left_foot, right_foot, left_hand" in repr(standing_on_points)
    q, v, targets = state(2)
    command = standing_on_points(q, v, targets)
    assert command.contact_forces["left_hand"].shape == (1, 3)
    point = robot.tasks([kt.Task("left_foot", "position")], reference=LWA)
    moved = point.jacobian(q) @ command.acceleration + point.jacobian_dot_v(q, v)
    assert_near(moved, -20.0 * point.jacobian(q) @ v, 1e-8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: control.Foot(3), "a Foot takes the name of a frame, got int"),  # type: ignore[arg-type]
        (lambda: control.Foot("sole", (0.1, 0.0)), "is a line; give both edges"),
        (lambda: control.Foot("sole", 0.1), "size is the sole's length and width"),  # type: ignore[arg-type]
        (lambda: control.Foot("sole", friction=-1.0), "foot 'sole': friction=-1.0 is not a number from zero on"),
        (lambda: whole(contacts="left_foot"), r"for one of them write \[it\]"),
        (lambda: whole(contacts=["left_foot", "left_foot"]), "a foot is given twice"),
        (lambda: whole(contacts=["left_fot"]), "no frame is called 'left_fot'; did you mean 'left_foot'"),
        (lambda: whole(posture=control.Posture(standing(), weight=0.0)), "needs posture=.* with a positive weight"),
        (lambda: whole([control.Force("left_hand")]), "a WholeBody follows motions"),
        (lambda: whole(force_weight=0.0), "force_weight must be positive, or contact forces would not be unique"),
        (lambda: whole(at=np.zeros(2)), "at is one configuration"),
        (
            lambda: whole()(standing(), np.zeros(model("asimo35").nv), {"left_hand": 1.0}),
            "no goal is called 'left_hand'",
        ),
        (lambda: whole()(standing()[:3], np.zeros(model("asimo35").nv)), r"control: q has shape \(3,\)"),
    ],
)
def test_refused(make: Any, message: str) -> None:
    refused(message, make)


def whole(goals: Any = GOALS, **options: Any) -> control.WholeBody:
    return control.WholeBody(model("asimo35"), goals, **{"posture": control.Posture(standing()), **options})


def test_unknown_fallback_and_missing_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    refused("no fallback is called 'slack'", whole, fallback="slack", error=UnknownNameError)
    monkeypatch.setitem(sys.modules, "daqp", None)
    refused(r'WholeBody needs daqp: pip install "kinetree\[qp\]"', whole, error=ImportError)


oracle("daqp")


HANDS = ("left_hand", "right_hand")


@cache
def hands(**options: Any) -> control.DifferentialIK:
    robot = model("humanoid24")
    goals = [control.Goal("left_hand", weight=4.0), control.Goal("right_hand")]
    return control.DifferentialIK(robot, goals, posture=robot.neutral(), **options)


def near_targets(seed: int, shape: tuple[int, ...] = ()) -> tuple[Array, dict[str, Array]]:
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
    e = np.concatenate(
        [control.pose_error(robot.pose(q, name), targets[name], "local_world_aligned") for name in HANDS]
    )
    return J, e, np.repeat([4.0, 1.0], 6), robot.difference(q, robot.neutral())


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_the_program_has_the_terms_of_the_least_squares(engine: str) -> None:
    q, targets = near_targets(2)
    J, e, w, way = parts(q, targets)
    recursions = model("humanoid24").tasks(list(HANDS), reference=LWA).core.recursions
    H, g = recursions.differential_program.engine(engine)(J, e, way, w, np.array([0.7, 0.01, 0.011]))
    assert_close(H, (J.T * w) @ J + 0.011 * np.eye(len(q)), bound(len(q)))
    assert_close(g, -(J.T * w) @ (0.7 * e) - 0.01 * way, bound(len(q)))


def test_without_limits_it_is_least_squares() -> None:
    q, targets = near_targets(1)
    J, e, w, way = parts(q, targets)
    ik = hands(limits=False, posture_weight=0.1, damping=1e-3, gain=0.7)
    H = (J.T * w) @ J + (0.1**2 + 1e-3) * np.eye(len(q))
    step = np.linalg.solve(H, (J.T * w) @ (0.7 * e) + 0.1**2 * way)
    assert_near(ik(q, targets, dt=0.05), step / 0.05, 1e-10 * peak(step) / 0.05)


@pytest.mark.parametrize("limits", [False, True])
def test_damping_grows_with_the_error_and_goals_have_gains(limits: bool) -> None:
    q, targets = near_targets(1)
    J, e, w, way = parts(q, targets)
    second = HANDS[1]
    options: dict[str, Any] = {"limits": limits, "posture_weight": 0.1, "damping": 1e-3, "lm_damping": 3.0}
    ik = hands.__wrapped__(gain={second: 0.5}, **options)
    refused("goal .needed for gain=", hands.__wrapped__, gain={"tail": 0.5}, error=UnknownNameError)
    refused("are shares", hands.__wrapped__, gain={second: 1.5})
    e = np.repeat([1.0, 0.5], 6) * e
    least = 0.1**2 + 1e-3 + 3.0 * (w @ e**2)
    H = (J.T * w) @ J + least * np.eye(len(q))
    step = np.linalg.solve(H, (J.T * w) @ e + 0.1**2 * way)
    assert_near(ik(q, targets, dt=5.0), step / 5.0, 1e-10 * peak(step) / 5.0)
    some, several = near_targets(1, (3,))
    together = ik(some, several, dt=5.0)
    alone = [ik(some[i], {name: poses[i] for name, poses in several.items()}, dt=5.0) for i in range(3)]
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("seed", range(4))
def test_within_limits_it_is_the_quadratic_program(seed: int) -> None:
    """The conditions of optimality: at a bound the slope points outwards, elsewhere it vanishes."""
    robot, dt = model("humanoid24"), 2e-3
    q, targets = near_targets(seed)
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
    scale = peak(slope)
    assert_near(slope[~at_low & ~at_high], 0.0, 1e-8 * scale)
    assert (slope[at_low] >= -1e-8 * scale).all()
    assert (slope[at_high] <= 1e-8 * scale).all()


def test_it_converges() -> None:
    robot = model("humanoid24")
    q, targets = near_targets(9)
    for _ in range(150):
        q = robot.integrate(q, hands()(q, targets, dt=0.02), 0.02)
    for name in HANDS:
        assert_near(robot.pose(q, name), targets[name], 1e-4)
    assert (q >= robot.lower_limits).all()
    assert (q <= robot.upper_limits).all()


def test_bits_of_differential_ik_do_not_depend_on_the_batch() -> None:
    q, targets = near_targets(5, (2, 2))
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
    assert_near(robot.pose(q, "right_hand")[:3, 3], target["right_hand"], 1e-4)
    assert_near(robot.center_of_mass(q), com, 1e-4)
    after = robot.pose(q, ["left_foot", "right_foot"])
    relative = [control.inverse(pair[0]) @ pair[1] for pair in (feet, after)]
    assert_near(relative[1], relative[0], 1e-4)


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
def test_differential_ik_refuses(make: Any, message: str) -> None:
    refused(message, make)
    with pytest.raises(UnknownNameError, match="no goal is called 'hand'"):
        hands()(model("humanoid24").neutral(), {"hand": np.eye(4)})


def test_the_screw_error_is_that_of_pinocchio() -> None:
    """error="log6": log(T⁻¹ T_d) with its exact rate, as pink has it; small and large rotations."""
    pin = oracle("pinocchio")
    robot = model("humanoid24")
    order = np.r_[3:6, 0:3]  # Pinocchio has linear components first
    ik = hands(limits=False, posture_weight=0.1, damping=1e-3, gain=0.7, error="log6")
    q, near = near_targets(3)
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
        assert_near(ik(q, targets, dt=0.05), step / 0.05, 1e-9 * peak(step) / 0.05)


def test_errors_that_are_not_defined_are_named() -> None:
    robot = model("humanoid24")
    refused("no error between poses is called 'log'", lambda: hands(error="log"), error=UnknownNameError)
    message = "goal 'left_hand' has 3 rows, and the error \"log6\" is that of a whole pose"
    with pytest.raises(InputError, match=message):
        control.DifferentialIK(robot, [control.Goal(kt.Task("left_hand", "position"))], error="log6")
