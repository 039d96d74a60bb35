"""Controllers and simulators refuse what they cannot do, and say why."""

from __future__ import annotations

import copy
import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import control, simulation
from kinetree.errors import InputError, ModelWarning, UnderactuatedError, UnknownNameError
from tests.laws.cases import model

ROBOT = model("humanoid24")
Q, V = ROBOT.neutral(), np.zeros(24)


def controller(*levels: Any, **options: Any) -> control.OperationalSpace:
    return control.OperationalSpace(ROBOT, *(levels or (["left_hand"],)), posture=control.Posture(Q), **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: controller("left_han"), "no frame is called 'left_han'; did you mean 'left_hand'"),
        (lambda: control.OperationalSpace(ROBOT), "needs at least one level of goals"),
        (lambda: controller([]), "a level has no goals; leave it out"),
        (lambda: controller(3), "a level is a sequence of goals, got int"),
        (
            lambda: controller(["left_hand"], ["left_hand"]),
            "two goals are called 'left_hand'; give one of them another",
        ),
        (
            lambda: controller(["left_hand"], [control.Goal(kt.Task("left_hand", (3,)), name="height")]),
            r"rows \[3\] of the task of frame 'left_hand' are given twice",
        ),
        (lambda: controller(["left_hand"], control.Posture(Q), ["right_hand"]), "a posture is no level: it takes all"),
        (lambda: controller([control.Posture(Q)]), "a posture is no level: it takes all"),
        (lambda: controller(singular="damped"), "no policy for singular tasks is called 'damped'"),
        (lambda: controller(cut=2.0), 'cut=2.0 is not "auto" or an eigenvalue between 0 and 1'),
        (lambda: controller(at=np.zeros(3)), r"at is one configuration, \(24,\)"),
        (lambda: controller(undriven=["waist"]), "no joint is called 'waist'; did you mean"),
        (lambda: controller(undriven="waist_yaw"), "undriven='waist_yaw' is one name; pass a list"),
        (
            lambda: controller(squeeze={"left_hand": 3.0}),
            "squeeze: 'left_hand' is no frame of an object without motors",
        ),
        (lambda: control.OperationalSpace(ROBOT, "left_hand", posture=control.Posture(np.zeros(3))), "q has 3 numbers"),
        (lambda: control.Posture(Q, kd=0.0), "kd must be positive; motions that no goal sees"),
        (lambda: control.Posture(np.full(24, np.nan)), "posture: q is one configuration without NaN"),
        (lambda: control.Goal("left_hand", kp=-1.0), "goal 'left_hand': kp=-1.0 is not a number from zero on"),
        (lambda: control.Goal("left_hand", kp=(1.0, 2.0)), "kp has 2 numbers; the task has 6 rows"),
        (lambda: control.Goal(3), "a Goal takes the name of a frame or a task, got int"),  # type: ignore[arg-type]
        (lambda: control.Bounds(position=0.0), "bounds: position is a rate"),
        (lambda: control.Bounds(margin=-1.0), "bounds: margin=-1.0 is not a number from zero on"),
        (lambda: kt.zoo.box((0.3, -1.0, 0.2), 1.0), "a box has three positive edges"),
        (lambda: simulation.Simulator(ROBOT, method="euler"), "no method is called 'euler'; did you mean"),
        (lambda: simulation.Simulator(ROBOT, dt=0.0), "dt=0.0 is not a positive time step"),
        (lambda: simulation.Simulator(ROBOT, constraints=["left_foot"]), "say at which configuration, with at=q"),
        (lambda: simulation.Simulator(ROBOT, damping=-1.0), "damping takes one number or 24 of them, none negative"),
        (lambda: simulation.Simulator(ROBOT).step(Q[:3], V), "step: q"),
        (
            lambda: simulation.Simulator(ROBOT).rollout(Q, V, V),
            r"rollout: tau has shape \(24,\); it takes \(…, T, 24\)",
        ),
        (
            lambda: simulation.Simulator(ROBOT).run(Q, lambda *_: V, seconds=1.0, servo=2000.0),
            "servo=2000.0 Hz is faster than the time step of 0.001 s",
        ),
        (
            lambda: simulation.Simulator(ROBOT).run(Q, lambda *_: V, seconds=-1.0),
            "seconds=-1.0 is not a positive number",
        ),
    ],
)
def test_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"right_hand": Q}, "no goal is called 'right_hand'; did you mean 'left_hand'"),
        ({"left_hand": np.zeros(5)}, r"the pose of 'left_hand' has shape \(5,\); pass"),
        ({"left_hand": np.ones((4, 4))}, "the pose of 'left_hand' is no rotation"),
        ({"left_hand": control.cubic(0.0, 1.0, 1.0)}, r"is a function; pass what it returns at this time, as way\(t\)"),
        ({"left_hand": control.Target(velocity=np.zeros(2))}, "the velocity of 'left_hand' has shape"),
        ({"left_hand": control.Target(force=3.0)}, "follows a motion; make it a control.ForceGoal"),
        ([1.0], "targets maps names of goals"),
    ],
)
def test_targets_refused(target: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        controller()(Q, V, target)


@pytest.mark.parametrize(
    ("poses", "message"),
    [
        (np.zeros((1, 3)), r"control: poses has shape \(1, 3\), expected \(\.\.\., 1, 4, 4\)"),
        (np.stack([np.eye(4)] * 2), r"control: poses has shape \(2, 4, 4\), expected \(\.\.\., 1, 4, 4\)"),
        (np.ones((1, 4, 4)), "poses of sample 0 is no rotation"),
    ],
)
def test_arrays_of_targets_refused(poses: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        controller().torques(Q, V, poses)
    with pytest.raises(InputError, match="out has shape"):
        controller().torques(Q, V, out=np.zeros(3))


def test_only_the_sample_with_nan_is_nan() -> None:
    """In q, v or a target: its own sample is NaN, and nothing else changes."""
    arm, (q, v) = controller(), (np.tile(Q, (4, 1)), np.tile(V, (4, 1)))
    places = np.tile(ROBOT.pose(Q, "left_hand"), (4, 1, 1))
    clean = arm(q, v, {"left_hand": places}).tau
    q[0, 3], v[1, 2], places[2, 0, 3] = np.nan, np.nan, np.nan
    tau = arm(q, v, {"left_hand": places}).tau
    assert np.isnan(tau[:3]).any(axis=1).all()
    np.testing.assert_array_equal(tau[3], clean[3])


def test_contradictions_are_refused() -> None:
    """A goal for a frame that is held; a frame held twice."""
    message = "goal 'left_foot' and the constraint weld of frame 'left_foot' to 'world' contradict each other"
    with pytest.raises(InputError, match=message):
        controller([control.Goal("left_foot")], constraints=["left_foot"])
    with pytest.raises(InputError, match=r"of the task of frame 'left_foot' are given twice"):
        controller(constraints=["left_foot", kt.Weld("left_foot")])


def test_a_goal_that_constraints_block_is_given_up() -> None:
    """Another frame of a body that is held: its goal cannot be met, and the margin says so."""
    blocked = controller([control.Goal("left_ankle_roll_link")], constraints=["left_foot"])
    place = ROBOT.pose(Q, "left_ankle_roll_link")[:3, 3] + np.array([0.0, 0.0, 0.1])
    command = blocked(Q, V, {"left_ankle_roll_link": place})
    assert command.margin < 1.0
    held = ROBOT.jacobian(Q, "left_foot") @ command.acceleration
    np.testing.assert_allclose(held, 0.0, rtol=0.0, atol=1e-8)


HAND = ROBOT.pose(Q, "left_hand")
FOLLOWERS: dict[str, Any] = {
    "OperationalSpace": lambda q, targets: controller()(q, np.zeros(q.shape), targets),
    "WholeBody": lambda q, targets: _whole_body()(q, np.zeros(q.shape), targets),
    "DifferentialIK": lambda q, targets: control.DifferentialIK(ROBOT, ["left_hand"])(q, targets),
    "inverse_kinematics": lambda _, targets: control.inverse_kinematics(ROBOT, targets, start=Q, tries=1),
}


@cache
def _whole_body() -> control.WholeBody:
    return control.WholeBody(ROBOT, ["left_hand"], posture=control.Posture(Q))


@pytest.mark.parametrize("follower", FOLLOWERS)
def test_targets_are_poses_or_positions_of_the_states_there_are(follower: str) -> None:
    call, three = FOLLOWERS[follower], np.stack([Q] * 3)
    turned = HAND[:3, :3] + np.zeros((2, 3, 3))
    for rotation in (HAND[:3, :3], turned, HAND[:3, :3].tolist(), control.Target(HAND[:3, :3])):
        if follower == "inverse_kinematics" and isinstance(rotation, control.Target):
            continue
        with pytest.raises(InputError, match="'left_hand' is a rotation matrix; pass a pose"):
            call(three, {"left_hand": rotation})
    for shape in ((), (4,), (2,), (3, 4), (4, 3, 2)):
        with pytest.raises(InputError, match=r"has shape .*; pass poses"):
            call(Q, {"left_hand": np.zeros(shape)})
    call(three, {"left_hand": np.stack([HAND[:3, 3]] * 3)})
    call(three, {"left_hand": np.stack([HAND] * 3)})
    call(three, {"left_hand": HAND[:3, 3]})
    if follower == "inverse_kinematics":  # which has as many answers as targets
        return
    for given in (np.stack([HAND[:3, 3]] * 3), np.stack([HAND] * 3)):
        with pytest.raises(InputError, match=r"leading axes \(3,\), which the state, \(\), does not have"):
            call(Q, {"left_hand": given})
        with pytest.raises(InputError, match="which the state, .* does not have|do not broadcast"):
            call(np.stack([Q] * 2), {"left_hand": given})
        with pytest.raises(InputError, match="which the state, .* does not have"):
            call(three, {"left_hand": np.stack([given] * 2)})
    for rate in (np.zeros((3, 3)), np.zeros((6, 6))):
        with pytest.raises(InputError, match="which the state, .* does not have"):
            call(Q, {"left_hand": control.Target(HAND, velocity=rate)})


def test_a_goal_of_rotations_takes_no_position() -> None:
    arm = controller([kt.Task("left_hand", "orientation")])
    arm(Q, V, {"left_hand": HAND})
    for position in (HAND[:3, 3], HAND[:3, 3].tolist(), control.Target(HAND[:3, 3])):
        with pytest.raises(InputError, match="'left_hand' is a position, but its goal has only rotations"):
            arm(Q, V, {"left_hand": position})
    with pytest.raises(InputError, match="velocity of 'left_hand' is linear, but its goal has only rotations"):
        arm(Q, V, {"left_hand": control.Target(HAND, velocity=np.ones(3))})


def _unlimited(names: tuple[str, ...] = (), **limits: float) -> kt.Model:
    """The robot with limits of the named joints only."""
    return ROBOT.with_limits(
        {joint.name: kt.Limits(**(limits if joint.name in names else {})) for joint in ROBOT.joints}
    )


@pytest.mark.parametrize("make", [control.OperationalSpace, control.WholeBody])
@pytest.mark.parametrize(
    ("bounds", "limits"),
    [({"torque": True}, {"effort": 87.0}), ({"velocity": 5.0}, {"velocity": 2.0}), ({"position": 5.0}, {"upper": 1.0})],
    ids=str,
)
def test_bounds_without_limits_are_told(make: Any, bounds: dict[str, Any], limits: dict[str, float]) -> None:
    def made(robot: kt.Model) -> None:
        given = {"posture": control.Posture(Q), "bounds": control.Bounds(**bounds)}
        make(robot, ["left_hand"], **given)

    (name,) = bounds
    with pytest.raises(InputError, match=rf"Bounds\({name}=.*limits nothing: no joint of 'humanoid24'"):
        made(_unlimited())
    names = tuple(joint.name for joint in ROBOT.joints)
    made(_unlimited(names, **limits))
    if name == "position":  # a joint without position limits is a usual one
        made(_unlimited(names[1:], **limits))
        return
    with pytest.warns(ModelWarning, match=f"leaves out joints of 'humanoid24' .*: '{names[0]}'$") as caught:
        made(_unlimited(names[1:], **limits))
    assert caught[0].filename == __file__


def test_limits_of_several_coordinates_are_told() -> None:
    builder = kt.Builder("two in one")
    solid = {"mass": 1.0, "inertia": np.eye(3)}
    limits = kt.Limits(-1.0, 1.0, 1.0, 1.0)
    builder.add_body("a", joint="universal", axes=[[1, 0, 0], [0, 1, 0]], limits=limits, **solid)
    alone = builder.build()
    builder.add_body("b", parent="a", joint="revolute", axis=[0, 0, 1], limits=limits, **solid)
    both = builder.build()
    for name in ("position", "velocity"):
        bounds = control.Bounds(**{name: 5.0})
        with pytest.raises(InputError, match="limits nothing"):
            control.OperationalSpace(alone, kt.Task("a", "orientation"), bounds=bounds)
        with pytest.warns(ModelWarning, match="or several coordinates: 'a_joint'"):
            control.OperationalSpace(both, kt.Task("b", "orientation"), bounds=bounds)
    control.OperationalSpace(alone, kt.Task("a", "orientation"), bounds=control.Bounds(torque=True))


def test_nobody_drives_the_box() -> None:
    scene = ROBOT.attach("world", kt.zoo.box((0.3, 0.3, 0.3), 1.0))
    with pytest.raises(UnderactuatedError, match="nothing drives 'box_joint': no motor") as caught:
        control.OperationalSpace(scene, "left_hand", posture=control.Posture(scene.neutral()))
    assert caught.value.joints == ("box_joint",)
    assert pickle.loads(pickle.dumps(caught.value)).joints == ("box_joint",)
    with pytest.raises(InputError, match="held by fewer than two grasps"):
        control.OperationalSpace(scene, "box", constraints=[kt.Weld("left_hand", "box")], squeeze={"box": 1.0})


def test_a_base_in_the_air_is_refused() -> None:
    robot = model("asimo35")
    with pytest.raises(UnderactuatedError, match="nothing drives"):
        control.OperationalSpace(robot, "right_hand")


def test_unknown_names_are_key_errors() -> None:
    with pytest.raises(UnknownNameError):
        controller()(Q, V, {"hand": Q})


def test_representation() -> None:
    arm = controller(["left_hand"], [kt.CenterOfMassTask()])
    assert repr(arm) == "<OperationalSpace of humanoid24: left_hand > center_of_mass>"
    assert repr(simulation.Simulator(ROBOT)) == "<Simulator of humanoid24: midpoint, 0.001 s>"
    assert copy.copy(arm).goals == arm.goals


def test_goals_stay_where_they_were_at_the_start() -> None:
    """Their poses are computed only when a goal has no target; changing the array `at` afterwards changes nothing."""
    at = ROBOT.random_configuration(1)
    levels = ["left_hand"], [control.Goal(kt.Task("right_hand", "position"))]
    start = {name: ROBOT.pose(at, name) for name in ("left_hand", "right_hand")}
    reference = controller(*levels, at=at.copy())
    expected = reference(Q, V).tau
    for given in (
        {},
        {"left_hand": start["left_hand"]},
        start,
        {"left_hand": start["left_hand"], "right_hand": start["right_hand"][:3, 3]},
        {"left_hand": start["left_hand"][:3, 3], "right_hand": control.Target(start["right_hand"])},
    ):
        given_at = at.copy()
        made = controller(*levels, at=given_at)
        given_at[:] = 0.0
        np.testing.assert_array_equal(made(Q, V, given).tau, expected)
        poses = np.array(list(start.values()))
        np.testing.assert_array_equal(made.torques(Q, V, poses), made.torques(Q, V))
    lazy = controller(*levels, at=at)
    lazy.torques(Q, V, poses)
    lazy(Q, V, start)
    assert "_target" not in vars(lazy._targets)
