"""Variants of a model: what changes, what stays, and what is refused."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, ModelError, ModelWarning, UnknownNameError
from tests.tolerance import assert_close, bound


@pytest.fixture(scope="module")
def robot() -> kt.Model:
    """Every kind of joint, with rotors, and bodies behind fixed joints."""
    return kt.zoo.random_tree(14, (*kt.zoo.MOVING_KINDS, "fixed"), seed=3, armature=True)


def state(robot: kt.Model) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return robot.random_configuration(rng), *rng.standard_normal((2, robot.nv))


def same_names(one: kt.Model, other: kt.Model) -> bool:
    joints = [joint.name for joint in one.joints] == [joint.name for joint in other.joints]
    return joints and (one.name, one.nq, one.nv) == (other.name, other.nq, other.nv)


# -- limits as vectors -------------------------------------------------------------------------------------------------


def test_limits_are_vectors_in_the_order_of_coordinates() -> None:
    limits = kt.Limits(lower=(-1.0, -2.0, -3.0), upper=(1.0, math.inf, 3.0), velocity=2.0, effort=(4.0, 5.0, 6.0))
    robot = (
        kt.Builder()
        .add_body("base", joint="floating", mass=1.0, limits=kt.Limits(effort=7.0))
        .add_body("slide", parent="base", joint="planar", limits=limits)
        .add_body("tip", parent="slide", limits=kt.Limits(lower=-0.5))
        .build()
    )
    inf = math.inf
    np.testing.assert_array_equal(robot.lower_limits, [-inf] * 7 + [-1.0, -2.0, -3.0, -0.5])
    np.testing.assert_array_equal(robot.upper_limits, [inf] * 7 + [1.0, inf, 3.0, inf])
    np.testing.assert_array_equal(robot.velocity_limits, [inf] * 6 + [2.0, 2.0, 2.0, inf])
    np.testing.assert_array_equal(robot.effort_limits, [7.0] * 6 + [4.0, 5.0, 6.0, inf])
    assert not robot.lower_limits.flags.writeable


def test_the_humanoid_bears_its_own_weight() -> None:
    """Posture of the box experiment, where hips need 107 to 144 N m once the box is carried down."""
    robot = kt.zoo.humanoid24()
    q = robot.q_from_dict(
        {
            "right_ankle_pitch": 0.25, "right_knee": -0.5, "right_hip_pitch": 0.25, "left_hip_pitch": -0.25,
            "left_knee": 0.5, "left_ankle_pitch": -0.25, "waist_pitch": 1.2, "left_shoulder_pitch": -1.5,
            "right_shoulder_pitch": -1.5,
        }
    )  # fmt: skip
    assert (np.abs(robot.gravity_forces(q)) < 0.9 * robot.effort_limits).all()
    assert robot.joint("right_hip_pitch").limits.effort[0] > 144.0
    loaded = robot.with_payload("left_hand", 2.0).with_payload("right_hand", 2.0)
    assert (np.abs(loaded.gravity_forces(q)) < loaded.effort_limits).all()


# -- variants ----------------------------------------------------------------------------------------------------------


def test_gravity(robot: kt.Model) -> None:
    moon = robot.with_gravity((0.0, 0.5, -1.62))
    q, _, _ = state(robot)
    assert same_names(moon, robot)
    per_axis = [robot.with_gravity(axis).gravity_forces(q) for axis in np.eye(3)]
    assert_close(moon.gravity_forces(q), 0.5 * per_axis[1] - 1.62 * per_axis[2], bound(robot.nv))
    np.testing.assert_array_equal(moon.mass_matrix(q), robot.mass_matrix(q))
    assert robot.with_gravity(robot.gravity) == robot


def test_a_frame(robot: kt.Model) -> None:
    rng = np.random.default_rng(1)
    placement = np.eye(4)
    placement[:3, :3] = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    placement[:3, :3] *= np.linalg.det(placement[:3, :3])
    placement[:3, 3] = rng.standard_normal(3)
    q, _, _ = state(robot)
    for frame in ("world", robot.bodies[4].name, "tip"):
        tool = robot.with_frame("tool", frame, placement)
        assert tool.frames == (*robot.frames, "tool")
        poses = dict(zip(tool.frames, tool.pose(q)))
        assert_close(poses["tool"], poses[frame] @ placement, bound(robot.nv))
    assert robot.with_frame("tool").with_frame("tip of tool", "tool").frames[-1] == "tip of tool"


def test_inertia(robot: kt.Model) -> None:
    body = robot.bodies[5]
    q, v, a = state(robot)
    heavy = robot.with_inertia(body.name, mass=2.0 * body.mass)
    assert same_names(heavy, robot)
    np.testing.assert_array_equal(heavy.body(body.name).inertia, 2.0 * body.inertia)
    twice = robot.with_payload(body.name, body.mass, body.com, body.inertia)
    assert_close(heavy.inverse_dynamics(q, v, a), twice.inverse_dynamics(q, v, a), bound(robot.nv))
    moved = robot.with_inertia(body.name, com=(0.1, 0.2, 0.3), inertia=np.diag([0.2, 0.3, 0.4])).body(body.name)
    assert moved.mass == body.mass
    np.testing.assert_array_equal(moved.com, [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(moved.inertia, np.diag([0.2, 0.3, 0.4]))
    assert robot.with_inertia(body.name) == robot


def test_identified_parameters(robot: kt.Model) -> None:
    rng = np.random.default_rng(2)
    other = robot
    for body in robot.bodies:
        other = other.with_inertia(body.name, mass=rng.uniform(0.5, 2.0), com=rng.standard_normal(3))
    found = robot.with_inertial_parameters(other.inertial_parameters)
    assert same_names(found, robot)
    assert_close(found.inertial_parameters, other.inertial_parameters, bound(robot.nv))
    q, v, a = state(robot)
    assert_close(found.inverse_dynamics(q, v, a), other.inverse_dynamics(q, v, a), bound(robot.nv))
    regressed = np.tensordot(robot.regressor(q, v, a), found.inertial_parameters, 2)
    armature = np.concatenate([joint.armature for joint in robot.joints])
    assert_close(regressed + armature * a, found.inverse_dynamics(q, v, a), bound(robot.nv))


def test_impossible_parameters(robot: kt.Model) -> None:
    parameters = robot.inertial_parameters
    parameters[3, 0] = -1.0
    name = robot.bodies[3].name
    with pytest.raises(
        ModelError, match=rf"body '{name}': mass -1 kg is negative\. strict=False keeps such parameters"
    ):
        robot.with_inertial_parameters(parameters)
    with pytest.warns(ModelWarning, match="mass -1 kg is negative") as caught:
        kept = robot.with_inertial_parameters(parameters, strict=False)
    assert caught[0].filename == __file__
    assert_close(kept.inertial_parameters, parameters, bound(robot.nv))


def test_rotors_damping_and_friction(robot: kt.Model) -> None:
    values = np.random.default_rng(3).uniform(0.0, 1.0, robot.nv)
    q, _, _ = state(robot)
    geared = robot.with_armature(values)
    bare = robot.with_armature(0.0)
    assert_close(geared.mass_matrix(q) - bare.mass_matrix(q), np.diag(values), bound(robot.nv), scale=100.0)
    single = next(joint for joint in robot.joints if joint.nv == 1)
    one = robot.with_armature({single.name: 3.0})
    np.testing.assert_array_equal(one.joint(single.name).armature, [3.0])
    for joint in robot.joints:
        if joint.name != single.name:
            np.testing.assert_array_equal(one.joint(joint.name).armature, joint.armature)
    for what in ("damping", "friction"):
        changed = getattr(robot, f"with_{what}")(values)
        found = np.concatenate([getattr(joint, what) for joint in changed.joints])
        np.testing.assert_array_equal(found, values)
        np.testing.assert_array_equal(changed.mass_matrix(q), robot.mass_matrix(q))
    several = next(joint for joint in robot.joints if joint.nv > 1)
    damped = robot.with_damping({several.name: np.arange(several.nv)}).joint(several.name)
    np.testing.assert_array_equal(damped.damping, np.arange(several.nv))


def test_limits(robot: kt.Model) -> None:
    single = next(joint for joint in robot.joints if joint.kind == "revolute")
    bounded = robot.with_limits({single.name: kt.Limits(-0.5, 0.25, 2.0, 9.0)})
    assert bounded.lower_limits[single.q_start] == -0.5
    assert bounded.effort_limits[single.v_start] == 9.0
    others = np.arange(robot.nq) != single.q_start
    np.testing.assert_array_equal(bounded.upper_limits[others], robot.upper_limits[others])


def test_variants_are_models_like_others(robot: kt.Model) -> None:
    variant = robot.with_gravity((0.0, 0.0, -1.0)).with_armature(0.1).with_frame("tool", "tip")
    assert pickle.loads(pickle.dumps(variant)) == variant
    assert hash(variant) != hash(robot)


BAD: list[tuple[str, tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    ("with_gravity", ((1.0, 2.0),), {}, InputError, r"gravity has shape \(2,\); pass \(3,\)"),
    ("with_gravity", (9.81,), {}, InputError, r"gravity has shape \(\); pass \(3,\)"),
    ("with_gravity", ("down",), {}, InputError, "gravity is not made of finite numbers: 'down'"),
    ("with_gravity", ((0.0, 0.0, math.nan),), {}, InputError, "gravity is not made of finite numbers"),
    ("with_frame", ("tip",), {}, ModelError, "frame 'tip': a body or frame has that name already"),
    ("with_frame", ("world",), {}, ModelError, "has that name already"),
    ("with_frame", ("",), {}, ModelError, "a frame needs a name that is not empty"),
    ("with_frame", ("tool", "tail"), {}, UnknownNameError, "no frame is called 'tail'"),
    ("with_frame", ("tool", "tip", np.zeros((4, 4))), {}, ModelError, "frame 'tool': the last row"),
    ("with_inertia", ("tail",), {"mass": 1.0}, UnknownNameError, "no body is called 'tail'"),
    ("with_inertia", ("body1",), {"mass": -1.0}, ModelError, "body 'body1': mass -1 kg is negative"),
    ("with_inertia", ("body1",), {"mass": math.nan}, InputError, "mass is not made of finite numbers"),
    ("with_inertia", ("body1",), {"inertia": np.diag([1.0, 1.0, 9.0])}, ModelError, "violates the triangle inequality"),
    ("with_inertia", ("body1",), {"com": (0.0, 0.0)}, ModelError, r"com has shape \(2,\), must be \(3,\)"),
    ("with_inertial_parameters", (np.zeros(10),), {}, InputError, r"shape \(10,\); pass ten for each body, \(14, 10\)"),
    ("with_inertial_parameters", (np.full((14, 10), np.nan),), {}, ModelError, "body 'body1': .* are not finite"),
    ("with_inertial_parameters", (np.eye(14, 10, 1),), {}, ModelError, "body 'body1': first moment .* without mass"),
    ("with_armature", (-1.0,), {}, ModelError, "armature of joint '.*' is negative"),
    ("with_armature", (np.zeros(3),), {}, InputError, r"armature has shape \(3,\); pass \(27,\)"),
    ("with_armature", ([[1.0], [1.0, 2.0]],), {}, InputError, "armature is not made of finite numbers"),
    ("with_damping", ({"tail": 1.0},), {}, UnknownNameError, "no moving joint is called 'tail'"),
    ("with_friction", ({"body1_joint": np.zeros(9)},), {}, InputError, "friction of joint 'body1_joint' has shape"),
    ("with_limits", (3.0,), {}, InputError, "needs a mapping of joint names to Limits; got float"),
    ("with_limits", ({"tail": kt.Limits()},), {}, UnknownNameError, "no moving joint is called 'tail'"),
    ("with_limits", ({"body1_joint": 3.0},), {}, InputError, "limits of joint 'body1_joint' are kinetree.Limits"),
    ("with_limits", ({"body1_joint": kt.Limits(2.0, 1.0)},), {}, ModelError, "joint 'body1_joint': limits: lower"),
]


@pytest.mark.parametrize(("method", "arguments", "named", "error", "message"), BAD)
def test_what_is_refused(
    robot: kt.Model,
    method: str,
    arguments: tuple[Any, ...],
    named: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    joint = robot.joints[0].name
    arguments = tuple(
        {joint if key == "body1_joint" else key: value for key, value in one.items()} if isinstance(one, dict) else one
        for one in arguments
    )
    with pytest.raises(error, match=message.replace("body1_joint", joint)):
        getattr(robot, method)(*arguments, **named)
