"""Operational-space control: Khatib's law, priorities, null spaces, closed chains, limits, bits."""

from __future__ import annotations

import copy
import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import control
from kinetree.control import hierarchy
from kinetree.control.sharing import median_weights
from kinetree.errors import InputError, ModelWarning, UnknownNameError
from tests.laws.cases import model
from tests.oracle import oracle
from tests.tolerance import assert_close, assert_near, bound, condition, peak, solving_bound
from tests.trees import serial

Array = np.ndarray[Any, np.dtype[Any]]

HANDS = ["left_hand", "right_hand"]
LWA = "local_world_aligned"
HELD = [kt.Weld("left_hand", "box"), kt.Weld("right_hand", "box"), kt.Weld("left_foot")]


@cache
def standing() -> Array:
    """A humanoid with bent knees and elbows."""
    bent = {"ankle_pitch": 0.25, "knee": -0.5, "hip_pitch": 0.25}
    angles = {f"right_{name}": angle for name, angle in bent.items()}
    angles |= {f"left_{name}": -angle for name, angle in bent.items()}
    for side, sign in (("left", -1.0), ("right", 1.0)):
        angles |= {f"{side}_shoulder_pitch": -0.3, f"{side}_elbow": -0.6, f"{side}_shoulder_roll": 0.08 * sign}
    return model("humanoid24").q_from_dict(angles)


@cache
def scene() -> tuple[kt.Model, Array]:
    """The humanoid with a box between its hands."""
    robot, q = model("humanoid24"), standing()
    center = robot.pose(q, HANDS)[:, :3, 3].mean(axis=0)
    return robot.attach("world", kt.zoo.box((0.3, 0.36, 0.3), 4.0)), np.concatenate([q, center, [1, 0, 0, 0]])


@cache
def two_hands(kp: float = 25.0, **options: Any) -> control.OperationalSpace:
    return control.OperationalSpace(model("humanoid24"), HANDS, posture=control.Posture(standing(), kp=kp), **options)


@cache
def with_box(squeeze: float = 30.0, **options: Any) -> control.OperationalSpace:
    robot, q = scene()
    given = {"posture": control.Posture(q), "constraints": HELD, "squeeze": {"box": squeeze}, **options}
    return control.OperationalSpace(robot, [control.Goal("box")], **given)


def state(robot: kt.Model, q: Array, seed: int, shape: tuple[int, ...] = ()) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return robot.integrate(q, 0.1 * rng.normal(size=(*shape, robot.nv))), rng.normal(size=(*shape, robot.nv))


def luh(T: Array, target: Array) -> Array:
    E = target[:3, :3] @ T[:3, :3].T
    return np.array([E[2, 1] - E[1, 2], E[0, 2] - E[2, 0], E[1, 0] - E[0, 1], *(2.0 * (target - T)[:3, 3])]) / 2.0


def test_it_is_khatibs_law() -> None:
    robot, arm = model("humanoid24"), two_hands()
    q, v = state(robot, standing(), 1)
    rng = np.random.default_rng(2)
    poses, now = robot.pose(robot.integrate(q, 0.05 * rng.normal(size=24)), HANDS), robot.pose(q, HANDS)
    feeds = rng.normal(size=(2, 2, 6))
    targets = {
        name: control.Target(T, rate, change) for name, T, rate, change in zip(HANDS, poses, *feeds, strict=True)
    }
    command = arm(q, v, targets)
    space = robot.tasks(HANDS, reference=LWA).at(q, v)
    errors = np.concatenate([luh(T, target) for T, target in zip(now, poses, strict=True)])
    b = feeds[1].ravel() + 100.0 * errors + 20.0 * (feeds[0].ravel() - space.jacobian @ v)
    a0 = 25.0 * (standing() - q) - 10.0 * v
    expected = space.jacobian.T @ (space.inertia @ b + space.bias) + space.nullspace.T @ (
        robot.mass_matrix(q) @ a0 + robot.bias_forces(q, v)
    )
    close = solving_bound(robot, q, space.jacobian)
    assert_close(command.tau, expected, close)
    assert_close(space.jacobian @ command.acceleration + space.jacobian_dot_v, b, close, scale=peak(a0))
    assert_close(robot.forward_dynamics(q, v, command.tau), command.acceleration, close)
    assert command.margin > 1.0
    assert not command.limited.any()
    np.testing.assert_array_equal(command.scale, [1.0, 1.0])


def test_the_posture_does_not_move_the_hands() -> None:
    robot = model("humanoid24")
    q, v = state(robot, standing(), 3)
    other = control.OperationalSpace(robot, HANDS, posture=control.Posture(standing() + 0.3, kp=400.0))
    targets = dict(zip(HANDS, robot.pose(standing(), HANDS), strict=True))
    moved = other(q, v, targets).acceleration - two_hands()(q, v, targets).acceleration
    J = robot.tasks(HANDS, reference=LWA).jacobian(q)
    assert peak(moved) > 50.0
    assert peak(J @ moved) < 1e-10 * peak(moved)


def recursion(A_inverse: Array, J: Array, b: Array, levels: list[hierarchy.Level], own: Array, a0: Array) -> Array:
    """Accelerations of strict levels by null-space projections, as in the textbook."""
    N, a = np.eye(len(A_inverse)), a0.copy()
    for level in levels:
        rows = level.rows
        S = N @ A_inverse @ J[rows].T
        roots = np.sqrt(level.mean @ own[rows] + level.reach)
        values, vectors = np.linalg.eigh((J[rows] @ S) / np.outer(roots, roots))
        U = vectors / roots[:, None]
        G = (U * hierarchy.reciprocals(values, level.cut, level.policy)) @ U.T
        a = a + S @ G @ (b[rows] - J[rows] @ a)
        N = N - S @ G @ J[rows] @ N
    return a


@pytest.mark.parametrize("policy", ["blend", "truncated"])
def test_levels_are_the_recursion_over_null_spaces(policy: str) -> None:
    """Thirty rows on 24 joints: the last levels have little or nothing left."""
    robot = model("humanoid24")
    levels = ["left_foot", HANDS, kt.CenterOfMassTask(), "waist_pitch_link", kt.Task("left_elbow_link", "position")]
    many = control.OperationalSpace(robot, *levels, posture=control.Posture(standing()), singular=policy, cut=1e-6)
    q, v = state(robot, standing(), 4)
    command = many(q, v)
    space = robot.tasks([goal.task for goal in many.goals], reference=LWA).at(q, v)
    T0, T = ([*robot.pose(x, ["left_foot", *HANDS])] for x in (standing(), q))
    waist, elbow = "waist_pitch_link", "left_elbow_link"
    errors = [luh(here, there) for here, there in zip(T, T0, strict=True)]
    errors.append(robot.center_of_mass(standing()) - robot.center_of_mass(q))
    errors.append(luh(robot.pose(q, waist), robot.pose(standing(), waist)))
    errors.append((robot.pose(standing(), elbow) - robot.pose(q, elbow))[:3, 3])
    b = 100.0 * np.concatenate(errors) - 20.0 * space.jacobian @ v - space.jacobian_dot_v
    a0 = 25.0 * (standing() - q) - 10.0 * v
    M_inverse, A = robot.mass_matrix_inverse(q), space.inverse_inertia
    blocks = many._levels.blocks()
    expected = recursion(M_inverse, space.jacobian, b, blocks, np.diagonal(A), a0)
    # between levels the least pivot, about 1e-5 of the largest, is divided by
    assert_close(command.acceleration, expected, bound(24, condition(robot.mass_matrix(q)) * 1e6))
    first = space.jacobian[:18] @ command.acceleration - b[:18]
    assert_close(first, np.zeros(18), bound(24, condition(robot.mass_matrix(q)) * 1e5), scale=peak(b))


def test_blending_is_continuous_and_bounded() -> None:
    values = np.linspace(0.0, 2e-3, 4001)
    shares = hierarchy.reciprocals(values, 1e-3, "blend")
    assert shares[0] == 0.0
    assert float(shares.max()) <= 1.14e3
    assert peak(np.diff(shares)) < 2.0
    np.testing.assert_array_equal(shares[values > 1e-3], 1.0 / values[values > 1e-3])
    np.testing.assert_array_equal(hierarchy.reciprocals(np.array([0.5e-3, 2e-3]), 1e-3, "truncated"), [0.0, 500.0])


def test_a_stretched_arm_gives_up_smoothly() -> None:
    """Beyond its reach, torques stay bounded: the direction that is lost goes to the posture."""
    link = {"axis": (0, 1, 0), "mass": 1.0, "com": (0, 0, 0.2), "inertia": np.diag([0.02, 0.02, 0.002])}
    upwards = {"placement": (np.eye(3), (0, 0, 0.4))}
    robot = serial([link, link | upwards, link | upwards]).add_frame("tip", body="b2", **upwards).build()
    bent = np.array([0.4, 0.8, 0.4])
    arm = control.OperationalSpace(
        robot, [control.Goal(kt.Task("tip", (3, 5)))], posture=control.Posture(bent), cut=1e-2
    )
    far = robot.pose(bent, "tip")[:3, 3] + [2.0, 0.0, 0.0]
    for straight in (1e-1, 1e-2, 1e-3, 1e-6, 0.0):
        command = arm(np.array([0.9, straight, straight]), np.zeros(3), {"tip": far})
        assert peak(command.tau) < 3e3
        if straight <= 1e-2:
            assert command.margin < 1.0


def test_commanded_is_felt() -> None:
    """Under the torques, the closed chain moves as the controller says, and grasps feel the forces that it says."""
    robot, q = scene()
    control_ = with_box()
    held = robot.constraints(HELD, at=q)
    rng = np.random.default_rng(5)
    v = held.project_velocity(q, 0.3 * rng.normal(size=robot.nv))
    command = control_(
        q, v, {"box": control.Target(q[24:27] + np.array([0.01, 0.02, -0.03]), acceleration=rng.normal(size=6))}
    )
    a, forces = robot.constrained_dynamics(q, v, command.tau, HELD)
    close = solving_bound(robot, q, held.jacobian(q))
    assert_close(a, command.acceleration, close)
    for name, force in held.split(forces).items():
        assert_close(command.constraint_forces[name], force, close * 10.0)
    np.testing.assert_array_equal(command.tau[24:], np.zeros(6))


def test_a_squeeze_presses_on_the_object() -> None:
    """Thirty newtons from each side; the rest is the box's weight, shared."""
    robot, q = scene()
    command = with_box()(q, np.zeros(robot.nv))
    left, right = (command.constraint_forces[hand][3:] for hand in HANDS)  # on the hands, in the box's axes
    across = robot.pose(q, HANDS)[1, :3, 3] - robot.pose(q, HANDS)[0, :3, 3]
    across /= np.linalg.norm(across)
    # the box pushes the left hand away from itself, that is, away from the right hand
    assert_near([left @ -across, right @ across], 30.0, 1e-9)
    assert_near(left + right, [0.0, 0.0, -4.0 * 9.81], 1e-8)


def test_squeezing_moves_nothing() -> None:
    robot, q = scene()
    loose, tight = (with_box(squeeze)(q, np.zeros(robot.nv)) for squeeze in (30.0, 100.0))
    assert peak(tight.tau - loose.tau) > 5.0
    assert_close(tight.acceleration, loose.acceleration, 1e-12)


@pytest.mark.parametrize("foot", [[], ["left_foot"]], ids=["on one foot", "on two feet"])
def test_the_augmented_object_is_what_elimination_leaves(foot: list[str]) -> None:
    robot, q = scene()
    humanoid = model("humanoid24")
    held = [*HELD[:2], *foot]
    v = robot.constraints(held, at=q).project_velocity(q, np.random.default_rng(6).normal(size=robot.nv))
    body = robot.body("box")
    object_ = control.augmented_object(
        humanoid, q[:24], v[:24], HANDS, pose=robot.pose(q, "box"), mass=4.0, inertia=body.inertia, contacts=foot
    )
    eliminated = robot.tasks(["box"], contacts=[each if isinstance(each, str) else each.task for each in held],
                             reference=LWA).at(q, v)  # fmt: skip
    close = solving_bound(robot, q, robot.constraints(held).jacobian(q))
    assert_close(object_.inertia, eliminated.inertia, close)
    assert_close(object_.bias, eliminated.bias, close)
    assert object_.grasp_map.shape == (12, 6)


def test_a_floating_base_is_carried_by_its_feet() -> None:
    robot = model("asimo35")
    bent = {"leg_3": -0.1, "leg_4": 0.2, "leg_5": -0.1}
    q = robot.q_from_dict({f"{side}_{name}_joint": a for side in ("left", "right") for name, a in bent.items()})
    feet = ["left_foot", "right_foot"]
    stand = control.OperationalSpace(
        robot, [control.Goal(kt.CenterOfMassTask())], ["right_hand"], posture=control.Posture(q), constraints=feet
    )
    v = robot.constraints(feet, at=q).project_velocity(q, 0.1 * np.random.default_rng(7).normal(size=robot.nv))
    command = stand(q, v, {"center_of_mass": robot.center_of_mass(q) + np.array([0.0, 0.01, -0.02])})
    a, forces = robot.constrained_dynamics(q, v, command.tau, feet)
    close = solving_bound(robot, q, robot.constraints(feet).jacobian(q)) * 10.0
    np.testing.assert_array_equal(command.tau[:6], np.zeros(6))
    assert_close(a, command.acceleration, close)
    space = robot.tasks([kt.CenterOfMassTask()]).at(q, v)
    error = np.array([0.0, 0.01, -0.02])
    wanted = 100.0 * error - 20.0 * space.jacobian @ v
    assert_close(space.jacobian @ a + space.jacobian_dot_v, wanted, close, scale=peak(a))
    assert float(forces[5] + forces[11]) == pytest.approx(robot.mass * (9.81 + wanted[2]), rel=1e-9)


def test_limits_are_those_of_the_quadratic_program() -> None:
    """The motion is optimal: goals met, bounds kept, and the bounds' multipliers push, never pull."""
    robot = model("humanoid24")
    bounds, hand = control.Bounds(position=15.0, velocity=20.0), [kt.Task("left_hand", "position")]
    seen = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        near = {"waist_pitch": 1.18, "left_elbow": 0.03, "right_hip_pitch": -0.58, "left_ankle_roll": 0.59}
        q, v = robot.q_from_dict({**robot.q_to_dict(standing()), **near}), 0.05 * rng.normal(size=24)
        posture = control.Posture(q + 0.2 * rng.normal(size=24), kp=100.0)
        limited = control.OperationalSpace(robot, hand, posture=posture, bounds=bounds)
        command = limited(q, v, {"left_hand": robot.pose(q, "left_hand")})
        k = 15.0
        low = np.maximum(k * k * (robot.lower_limits - q) - 2 * k * v, 20.0 * (-robot.velocity_limits - v))
        high = np.minimum(k * k * (robot.upper_limits - q) - 2 * k * v, 20.0 * (robot.velocity_limits - v))
        a = command.acceleration
        assert (a <= high + 1e-5).all()
        assert (a >= low - 1e-5).all()
        space = robot.tasks(hand, reference=LWA).at(q, v)
        b = -20.0 * space.jacobian @ v
        if peak(space.jacobian @ a + space.jacobian_dot_v - b) > 1e-6:
            continue  # limits leave too little for the goals, which give way
        seen += int(command.limited.sum() > 0)
        a0 = 100.0 * (posture.q - q) - 20.0 * v
        force = command.forces["left_hand"]
        multiplier = robot.mass_matrix(q) @ (a - a0) - space.jacobian.T @ force
        slack = 1e-8 * max(1.0, peak(multiplier))
        assert peak(multiplier[~command.limited]) < slack
        upper = command.limited & (np.abs(a - high) < 1e-5)
        assert (multiplier[upper] <= slack).all()
        assert (multiplier[command.limited & ~upper] >= -slack).all()
    assert seen >= 2


def test_torque_limits_scale_and_keep_the_direction() -> None:
    robot = model("humanoid24").with_limits({"left_elbow": kt.Limits(-2.4, 0.05, 6.0, 7.0)})
    targets = {"left_hand": robot.pose(standing(), "left_hand")[:3, 3] + [0.3, 0.2, 0.3]}
    goals = [control.Goal(kt.Task("left_hand", "position"))]
    posture = control.Posture(standing())
    free = control.OperationalSpace(robot, goals, posture=posture)
    bounded = control.OperationalSpace(robot, goals, posture=posture, bounds=control.Bounds(torque=True))
    q, v = standing(), np.zeros(24)
    far, near = free(q, v, targets), bounded(q, v, targets)
    assert peak(far.tau / robot.effort_limits) > 1.2
    assert peak(near.tau / robot.effort_limits) <= 1.0 + 1e-12
    J = robot.jacobian(q, "left_hand", LWA)[3:]
    wanted, given = J @ far.acceleration, J @ robot.forward_dynamics(q, v, near.tau)
    assert_near(given, near.scale[0] * wanted, 1e-8)
    assert 0.0 < near.scale[0] < 1.0
    easy = bounded(q, v)
    np.testing.assert_array_equal(easy.tau, free(q, v).tau)
    np.testing.assert_array_equal(easy.scale, [1.0, 1.0])


def test_a_force_pushes_along_its_row() -> None:
    """Against a wall in the row's direction, the wall feels the force; integrals are passed on."""
    robot = model("humanoid24")
    press = control.ForceGoal(kt.Task("right_hand", (3,)), kp=0.5, ki=2.0, name="press")
    arm = control.OperationalSpace(
        robot, [control.Goal(kt.Task("right_hand", (4, 5))), press], posture=control.Posture(standing())
    )
    q, v = standing(), np.zeros(24)
    command = arm(q, v, {"press": control.Target(force=20.0)})
    wall = [kt.Task("right_hand", (3,))]
    _, felt = robot.constrained_dynamics(q, v, command.tau, wall)
    assert_near(felt, [-20.0], 1e-8)
    command = arm(q, v, {"press": control.Target(force=20.0, measured=18.0)}, dt=0.01)
    _, felt = robot.constrained_dynamics(q, v, command.tau, wall)
    assert_near(felt, [-(20.0 + 0.5 * 2.0 + 2.0 * 0.02)], 1e-8)
    assert command.state is not None
    again = arm(q, v, {"press": control.Target(force=20.0, measured=18.0)}, state=command.state, dt=0.01)
    assert again.state is not None
    np.testing.assert_allclose(again.state.integrals["press"], [0.04], rtol=1e-12)


def test_pushing_is_part_of_the_law() -> None:
    """A force changes neither motion nor joints at limits; without targets there is none. Alone and in batches."""
    robot = model("humanoid24")
    press = control.ForceGoal(kt.Task("right_hand", (3,)), name="press")
    goals = [control.Goal(kt.Task("right_hand", (4, 5))), press]
    bounds = control.Bounds(position=15.0, velocity=15.0)
    arm = control.OperationalSpace(robot, goals, posture=control.Posture(standing(), kp=400.0), bounds=bounds)
    q, v = state(robot, standing(), 9, (3,))
    still, pushed = arm(q, v), arm(q, v, {"press": control.Target(force=np.array([[20.0], [0.0], [-5.0]]))})
    assert still.limited.any()
    np.testing.assert_array_equal(pushed.acceleration, still.acceleration)
    np.testing.assert_array_equal(pushed.limited, still.limited)
    assert_close(pushed.forces["press"] - still.forces["press"], np.array([[20.0], [0.0], [-5.0]]), bound(24))
    J = robot.jacobian(q, "right_hand", LWA)[:, 3]
    assert_close(pushed.tau - still.tau, np.array([[20.0], [0.0], [-5.0]]) * J, bound(24, 100.0))
    np.testing.assert_array_equal(arm.torques(q, v), still.tau)
    np.testing.assert_array_equal(arm(q[2], v[2], {"press": control.Target(force=-5.0)}).tau, pushed.tau[2])
    plain = arm.engine("reference")(q[0], v[0], {"press": control.Target(force=20.0)})
    assert_near(plain.tau, pushed.tau[0], 1e-8 * peak(pushed.tau))


@pytest.mark.parametrize("case", ["hands", "box", "limits", "torque", "limits and torque"])
def test_bits_do_not_depend_on_the_batch(case: str) -> None:
    if case == "box":
        (robot, start), controller = scene(), with_box()
    else:
        robot, start = model("humanoid24"), standing()
        bounds = control.Bounds(position=15.0 if "limits" in case else None, torque="torque" in case)
        controller = two_hands(400.0, bounds=bounds)
    q, v = state(robot, start, 9, (5,))
    q[2] = np.nan
    together = controller(q, v)
    for i in range(5):
        alone = controller(q[i], v[i])
        for name in ("tau", "acceleration", "limited", "scale", "margin"):
            np.testing.assert_array_equal(getattr(alone, name), getattr(together, name)[i])
        np.testing.assert_array_equal(controller.torques(q[i], v[i]), together.tau[i])
    np.testing.assert_array_equal(controller.torques(q, v), together.tau)
    assert np.isnan(together.tau[2][:24]).all()
    assert np.isfinite(np.delete(together.tau, 2, axis=0)).all()


def test_arrays_give_the_same_torques() -> None:
    """`torques` and `out=`: the same bits as a call with names, alone and in batches."""
    robot, start = scene()
    q, v = state(robot, start, 5, (3,))
    box = robot.pose(robot.integrate(start, np.full(robot.nv, 0.02)), "box")
    for controller, goal in ((with_box(), "box"), (with_box(bounds=control.Bounds(position=15.0)), "box")):
        command = controller(q, v, {goal: control.Target(box, acceleration=np.ones(6))})
        feed = np.stack([np.zeros(6), np.ones(6)], axis=-1)
        home = np.empty((3, robot.nv))
        assert controller.torques(q, v, box[None], feed, out=home) is home
        np.testing.assert_array_equal(home, command.tau)
        np.testing.assert_array_equal(controller.torques(q[1], v[1], box[None], feed), command.tau[1])
        still = controller(q[1], v[1], {goal: box}).tau
        np.testing.assert_array_equal(controller.torques(q[1], v[1], box[None]), still)
        np.testing.assert_array_equal(controller.torques(q[1].tolist(), v[1], box[None]), still)
        other = controller(q, v, {goal: control.Target(box, acceleration=np.ones(6))}, out=home[::-1][::-1])
        assert np.may_share_memory(other.tau, home)
    q, v = state(model("humanoid24"), standing(), 5, (3,))
    places = model("humanoid24").pose(standing(), HANDS)
    command = two_hands()(q, v, dict(zip(HANDS, places, strict=True)))
    np.testing.assert_array_equal(two_hands().torques(q, v, places), command.tau)
    np.testing.assert_array_equal(two_hands().torques(q, v), two_hands()(q, v).tau)
    # a relative task has a frame without a target before its own
    both = control.OperationalSpace(
        model("humanoid24"), [control.Goal(kt.RelativeTask(*HANDS), name="apart"), "left_hand"],
        posture=control.Posture(standing()),
    )  # fmt: skip
    apart = control.inverse(places[0]) @ places[1]
    command = both(q, v, {"apart": apart, "left_hand": places[0]})
    np.testing.assert_array_equal(both.torques(q, v, np.stack([apart, places[0]])), command.tau)
    assert_close(command.tau, both(q, v).tau, bound(24, 100.0))


def test_engines_and_counts() -> None:
    """The law on the reference engine; operations of a step are counted."""
    robot = model("humanoid24")
    q, v = state(robot, standing(), 6)
    plain = two_hands().engine("reference")
    assert two_hands().engine("native") is two_hands()
    J = robot.jacobian(q, HANDS, LWA).reshape(12, -1)
    assert_close(plain(q, v).tau, two_hands()(q, v).tau, solving_bound(robot, q, J))
    assert two_hands().count().multiplications > 1000
    two_hands().compile()


def test_controllers_are_pickled_as_they_were_made() -> None:
    """Before and after use, on either engine; a copy is the controller itself."""
    oracle("daqp")
    robot, q, v = model("humanoid24"), standing(), np.zeros(24)
    posture = control.Posture(q)
    for made in (two_hands(bounds=control.Bounds(position=15.0)), control.WholeBody(robot, HANDS, posture=posture)):
        before = pickle.loads(pickle.dumps(made))
        command = made(q, v)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(made))(q, v).tau, command.tau)
        np.testing.assert_array_equal(before(q, v).tau, command.tau)
        assert copy.deepcopy(made) is made
    ik = control.DifferentialIK(robot, HANDS, posture=posture)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(ik))(q), ik(q))
    assert pickle.loads(pickle.dumps(two_hands().engine("reference")))._engine == "reference"


def test_a_warm_start_changes_no_bit() -> None:
    """The state of a command, and any other choice of joints, lead to the same command; a single one and batches."""
    robot, start = model("humanoid24"), standing()
    arm = two_hands(400.0, bounds=control.Bounds(position=15.0, velocity=15.0))
    q, v = state(robot, start, 9, (6,))
    cold = arm(q, v)
    assert cold.limited.any()
    assert cold.state is not None
    assert cold.state.active is not None
    wrong = control.ControllerState({}, np.random.default_rng(1).integers(-1, 2, cold.state.active.shape))
    for given in (cold.state, wrong):
        warm = arm(q, v, state=given)
        for name in ("tau", "acceleration", "limited", "margin"):
            np.testing.assert_array_equal(getattr(warm, name), getattr(cold, name))
        alone = arm(q[3], v[3], state=control.ControllerState({}, np.asarray(given.active)[3]))
        np.testing.assert_array_equal(alone.tau, cold.tau[3])
    with pytest.raises(InputError, match="active has shape .* pass the state of a command of this controller"):
        arm(q, v, state=control.ControllerState({}, np.zeros(3)))


def test_one_compiled_function_is_the_law_step_by_step() -> None:
    """Limits, constraints and loads in one call: the same as law, active set and sharing one after another."""
    controller = with_box(bounds=control.Bounds(position=15.0))
    robot, start = scene()
    q, v = np.repeat(start[None], 6, axis=0), np.zeros((6, robot.nv))
    q[1:, robot.joint("waist_pitch").q_start] = 1.19
    v[:, robot.joint("waist_pitch").v_start] = 0.0, np.nan, 3.0, 2.0, 1.0, -1.0
    wanted = controller._targets.read(None, None, 0.0)
    whole = controller._pipeline.solve(q, v, wanted)
    steps = controller.engine("reference")._pipeline.solve(q, v, wanted)
    sure = np.arange(6) != 1  # NaN
    assert whole.active is not None
    assert steps.active is not None
    assert whole.active[sure].any()
    np.testing.assert_array_equal(whole.active[sure], steps.active[sure])
    for name in ("tau", "a", "force", "constraint_force", "margin"):
        one, other = getattr(whole, name)[sure], getattr(steps, name)[sure]
        assert_near(one, other, 1e-8 * peak(other))


def test_samples_of_a_batch_near_a_singularity_leave_the_others_alone() -> None:
    """A stretched elbow, NaN and ordinary samples, some at limits: each as if it were alone; and no sample at all."""
    robot, start = model("humanoid24"), standing()
    arm = two_hands(400.0, bounds=control.Bounds(position=15.0), cut=1e-3)
    q, v = state(robot, start, 9, (5,))
    q[1, [robot.joint(f"{side}_elbow").q_start for side in ("left", "right")]] = 0.0
    v[3, 0] = np.nan
    command = arm(q, v)
    assert command.margin[1] < 1.0
    assert command.limited.any()
    np.testing.assert_array_equal(np.isnan(command.tau).any(axis=1), [False, False, False, True, False])
    for i in range(len(q)):
        alone = arm(q[i], v[i])
        np.testing.assert_array_equal(alone.tau, command.tau[i])
        np.testing.assert_array_equal(alone.acceleration, command.acceleration[i])
        np.testing.assert_array_equal(alone.limited, command.limited[i])
    steps = arm.engine("reference")._pipeline.solve(q[1], v[1], arm._targets.read(None, None, 0.0))
    for name, found in (("tau", command.tau), ("a", command.acceleration), ("margin", command.margin)):
        one, other = found[1], getattr(steps, name)
        assert_near(one, other, 1e-8 * peak(other))
    assert arm(q[:0], v[:0]).tau.shape == (0, robot.nv)


@pytest.mark.parametrize("name", ["rotation_vector", "log6"])
def test_errors_between_poses(name: str) -> None:
    """Accelerations of the hands are kp e − kd ẋ, with limits too; at almost half a turn as well."""
    robot, start = model("humanoid24"), standing()
    arms = two_hands(cut=1e-6, error=name)
    q, v = state(robot, start, 12)
    poses = robot.pose(q, HANDS)
    turned = control.exp(np.array([[0.02, 0.3, -0.1, 0.05, 0.02, 0.1], [3.1, 0.2, -0.1, 0.1, -0.2, 0.05]]))
    targets = dict(zip(HANDS, poses @ turned, strict=True))
    command = arms(q, v, targets)
    rows = robot.tasks(HANDS, reference=LWA)
    J = rows.jacobian(q)
    e = np.empty((2, 6))
    for i, hand in enumerate(HANDS):
        e[i] = control.pose_error(poses[i], targets[hand], "local_world_aligned")
        if name == "log6":
            e[i, 3:] = poses[i, :3, :3] @ control.pose_error(poses[i], targets[hand], "local")[3:]
    assert float(np.linalg.norm(e[1, :3])) > 3.0
    found = J @ command.acceleration + rows.jacobian_dot_v(q, v)
    assert_close(found, 100.0 * e.reshape(-1) - 20.0 * (J @ v), solving_bound(robot, q, J))
    with pytest.raises(UnknownNameError, match="no error between poses is called 'log3'; did you mean 'log6'"):
        control.OperationalSpace(robot, HANDS, posture=control.Posture(start), error="log3")


def many_hands(angles: tuple[float, ...]) -> tuple[kt.Model, Array, list[kt.Weld]]:
    """Arms around a plate that they hold, at given directions from it, some closer than others; nothing has weight."""
    robot = kt.zoo.box((0.2, 0.2, 0.05), 2.0).with_gravity((0.0, 0.0, 0.0))
    bent, hands = [], []
    for i, angle in enumerate(angles):
        c, s = np.cos(angle), np.sin(angle)
        inwards = np.array([[-c, s, 0.0], [-s, -c, 0.0], [0.0, 0.0, 1.0]])
        place = inwards, (1.1 + 0.05 * i) * np.array([c, s, 0.0])
        robot = robot.attach("world", kt.zoo.arm7(), place, prefix=f"{i}_")
        bent += [0.0, 0.5, 0.0, 0.9, 0.0, 0.6, 0.1 * i]
        hands.append(f"{i}_hand")
    q = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, *bent])
    q[:3] = robot.pose(q, hands)[:, :3, 3].mean(axis=0)
    return robot, q, [kt.Weld(hand, "box") for hand in hands]


@pytest.mark.parametrize("angles", [(0.0, 2.0, 4.1), (0.0, 1.4, 3.0, 4.5), (0.0, 1.0, 2.2, 3.1, 4.4)])
def test_any_number_of_hands_press_with_one_force(angles: tuple[float, ...]) -> None:
    """Thirty newtons each, wherever they hold it, and nothing moves: their forces balance."""
    robot, q, held = many_hands(angles)
    given: Any = {"posture": control.Posture(q), "constraints": held}
    press, loose = (
        control.OperationalSpace(robot, [control.Goal("box")], squeeze={"box": force}, **given) for force in (30.0, 0.0)
    )
    command = press(q, np.zeros(robot.nv))
    forces = np.array([each[3:] for each in command.constraint_forces.values()])
    assert_near(np.linalg.norm(forces, axis=1), 30.0, 1e-8)
    assert_near(forces.sum(axis=0), 0.0, 1e-8)
    assert_near(np.array([each[:3] for each in command.constraint_forces.values()]), 0.0, 1e-8)
    assert_near(command.acceleration, loose(q, np.zeros(robot.nv)).acceleration, 1e-9)


def test_a_hand_between_the_others_is_reported() -> None:
    """Three in a line: the outer two balance each other, and the one between them has nothing to press against."""
    robot, q, held = many_hands((0.0, 0.1, 0.2))
    with pytest.warns(ModelWarning, match="grasps of 'box' cannot all press with 30 N"):
        control.OperationalSpace(
            robot, [control.Goal("box")], posture=control.Posture(q), constraints=held, squeeze={"box": 30.0}
        )
    weights = median_weights(np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [3.0, 0.0, 0.0]]))
    assert weights is None
    assert_near(median_weights(np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]])), 0.5, 0.0)
    corners = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    found = median_weights(corners)
    ways = corners - found @ corners
    assert_near((ways / np.linalg.norm(ways, axis=1)[:, None]).sum(axis=0), 0.0, 1e-12)
