"""Robots written as URDF and MJCF, and read back: the same dynamics, poses, names and limits."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, ModelError, ModelWarning
from tests.oracle import oracle
from tests.oracles.pinocchio_twin import mirrored, pin
from tests.tolerance import assert_close, bound, refused
from tests.trees import random_mechanism

mujoco = oracle("mujoco")

KINDS = {
    "urdf": ["floating", "revolute", "prismatic", "spherical", "planar", "cylindrical", "universal", "translational"],
    "mjcf": ["floating", "revolute", "prismatic", "spherical", "cylindrical", "universal", "translational", "revolute"],
}


def plain(kinds: list[str], seed: int) -> kt.Model:
    """A random robot without armature, and with a floating base at the world's origin."""
    robot = random_mechanism("random", kinds, seed).kinetree()
    joints = [
        replace(
            joint,
            armature=np.zeros(joint.nv),
            placement=np.eye(4) if joint.kind == "floating" else joint.placement,
        )
        for joint in (robot.joint(body.joint) for body in robot.bodies)
    ]
    return kt.Model(robot.name, (0.0, 0.0, -9.81), robot.bodies, joints, robot.extra_frames)


def quiet(source: Any, **options: Any) -> kt.Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return kt.load(source, **options)


def assert_same(robot: kt.Model, other: kt.Model, frames: tuple[str, ...]) -> None:
    """Coordinates are the same numbers, so all results are the same."""
    assert (robot.nq, robot.nv) == (other.nq, other.nv)
    rng = np.random.default_rng(0)
    q, (v, a) = robot.random_configuration(rng, (3,)), rng.uniform(-1.0, 1.0, (2, 3, robot.nv))
    for name, arguments in {"inverse_dynamics": (q, v, a), "mass_matrix": (q,), "gravity_forces": (q,)}.items():
        expected = getattr(robot, name)(*arguments)
        assert_close(getattr(other, name)(*arguments), expected, bound(robot.nv))
    assert_close(other.pose(q, frames), robot.pose(q, frames), bound(robot.nv))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("form", ["urdf", "mjcf"])
def test_there_and_back(form: str, seed: int) -> None:
    robot = plain(KINDS[form], seed)
    text = {"urdf": kt.to_urdf, "mjcf": kt.to_mjcf}[form](robot)
    assert_same(robot, quiet(text), robot.frames)


ZOO = {
    "pendulum of points": kt.zoo.double_pendulum,
    "humanoid": kt.zoo.humanoid24,
    "chain": lambda: kt.zoo.chain(7, seed=1),
}


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("form", ["urdf", "mjcf"])
def test_the_zoo(form: str, name: str) -> None:
    robot = ZOO[name]()
    if (form, name) == ("mjcf", "pendulum of points"):
        refused("moves without mass or inertia, which MuJoCo refuses", kt.to_mjcf, robot, error=ModelError)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        text = {"urdf": kt.to_urdf, "mjcf": kt.to_mjcf}[form](robot)
    assert_same(robot, quiet(text, gravity=robot.gravity), robot.frames)


def test_a_urdf_is_the_same_model() -> None:
    """Up to the rounding of angles: names, order, limits, frames."""
    builder = kt.Builder("arm & <co>")
    R = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    builder.add_body("base", joint="fixed", mass=1.0, inertia=np.eye(3), placement=(R, [0.1, 0.2, 0.3]))
    builder.add_body(
        "upper", parent="base", joint_name="s", axis=(0, 1, 0), mass=2.0, com=(0.1, 0, 1 / 3),
        inertia=np.diag([1, 2, 2.5]), limits=kt.Limits(-1.0, 2.0, 3.0, 4.0), damping=0.5, friction=0.25,
    )  # fmt: skip
    builder.add_body("rail", parent="upper", joint="prismatic", mass=1.0, inertia=np.eye(3), limits=kt.Limits(0.0))
    builder.add_body("wheel", parent="upper", mass=1.0, inertia=np.eye(3), limits=kt.Limits(velocity=2.0))
    builder.add_frame("tool", body="wheel", placement=(np.eye(3), [0.0, 0.0, 0.5]))
    builder.add_frame("corner", placement=(np.eye(3), [1.0, 0.0, 0.0]))
    robot = builder.build()
    again = quiet(kt.to_urdf(robot))
    assert again.name == "arm & <co>"
    assert set(again.frames) == set(robot.frames)
    assert [joint.name for joint in again.joints] == [joint.name for joint in robot.joints]
    assert [joint.limits for joint in again.joints] == [joint.limits for joint in robot.joints]
    assert [joint.damping.tolist() for joint in again.joints] == [joint.damping.tolist() for joint in robot.joints]
    for body in robot.bodies:
        found = again.body(body.name)
        assert (found.mass, found.com.tolist(), found.inertia.tolist()) == (
            body.mass, body.com.tolist(), body.inertia.tolist(),
        )  # fmt: skip
    assert_same(robot, again, robot.frames)
    assert kt.to_urdf(quiet(kt.to_urdf(again))) == kt.to_urdf(again)


def test_pinocchio_and_mujoco_read_them() -> None:
    robot = plain(["revolute", "prismatic", "revolute", "universal"], 3)
    q = robot.random_configuration(0)
    model = pin.buildModelFromXML(kt.to_urdf(robot))
    data = model.createData()
    other = kt.interop.pinocchio(quiet(kt.to_urdf(robot)), model)
    expected = robot.mass_matrix(q)
    found = mirrored(pin.crba(model, data, other.to_q(q)))
    assert_close(other.from_matrix(found), expected, bound(robot.nv))
    compiled = mujoco.MjModel.from_xml_string(kt.to_mjcf(robot))
    state = mujoco.MjData(compiled)
    state.qpos[:] = q
    mujoco.mj_forward(compiled, state)
    found = np.zeros((robot.nv, robot.nv))
    mujoco.mj_fullM(compiled, state, found)
    assert_close(found, expected, bound(robot.nv))


def test_massless_bodies_between_joints_become_joints_of_one_body() -> None:
    text = (
        '<mujoco><worldbody><body name="a" pos="0 0 1"><joint name="x" axis="1 0 0" pos=".1 .2 .3"/>'
        '<joint name="y" type="slide" axis="0 1 1"/><joint name="z" axis="0 0 1" pos="0 .1 0"/>'
        '<geom type="box" size=".1 .2 .3" pos=".1 0 0"/></body></worldbody></mujoco>'
    )
    robot = quiet(text)
    again = quiet(kt.to_mjcf(robot))
    assert [joint.name for joint in again.joints] == ["x", "y", "z"]
    assert_same(robot, again, ("world", "a"))


def test_limits_and_rotors_in_mjcf() -> None:
    builder = kt.Builder("r", gravity=(0.0, 1.0, -3.0))
    inertia = np.diag([1.0, 2.0, 2.5])
    limits = kt.Limits(-1.0, np.inf, np.inf, 4.0)
    builder.add_body("a", mass=1.0, inertia=inertia, armature=0.3, damping=0.1, friction=0.2, limits=limits)
    robot = builder.build()
    again = quiet(kt.to_mjcf(robot))
    assert np.array_equal(again.gravity, robot.gravity)
    (joint,) = again.joints
    assert (joint.limits, joint.armature[0], joint.damping[0], joint.friction[0]) == (
        robot.joints[0].limits, 0.3, 0.1, 0.2,
    )  # fmt: skip


def one(joint: str, **arguments: Any) -> kt.Model:
    return kt.Builder("r").add_body("a", joint=joint, mass=1.0, inertia=np.eye(3), **arguments).build()


@pytest.mark.parametrize(
    ("robot", "lost"),
    [
        (lambda: one("revolute", armature=0.1), "armature of joint 'a_joint'"),
        (lambda: kt.Model("r", (0.0, 0.0, -1.0), one("revolute").bodies, one("revolute").joints), "gravity 0 0 -1"),
        (lambda: one("planar", damping=[0.1, 0.2, 0.3]), "damping of joint 'a_joint', which differs"),
        (lambda: one("planar", limits=kt.Limits(-1.0, 1.0)), "limits of joint 'a_joint'"),
    ],
)
def test_what_a_urdf_loses_is_told(robot: Any, lost: str) -> None:
    with pytest.warns(ModelWarning, match=f"'r' as URDF loses: {lost}"):
        kt.to_urdf(robot())


@pytest.mark.parametrize(
    ("robot", "lost"),
    [
        (lambda: one("revolute", limits=kt.Limits(velocity=1.0)), "limits of the speed of joint 'a_joint'"),
        (lambda: one("revolute", limits=kt.Limits(effort=0.0)), "that joint 'a_joint' bears no effort"),
        (lambda: one("spherical", armature=[0.1, 0.2, 0.3]), "armature of joint 'a_joint', which differs"),
        (lambda: one("floating", armature=0.1), "that armature of joint 'a_joint' acts along the body's axes"),
    ],
)
def test_what_an_mjcf_loses_is_told(robot: Any, lost: str) -> None:
    with pytest.warns(ModelWarning, match=f"'r' as MJCF loses: {lost}"):
        kt.to_mjcf(robot())


@pytest.mark.parametrize("name", ["a b", " a", "a\tb\n", "<&\">'", "ü∞", "a::b", "😀"])
def test_names_of_any_kind_come_back(name: str) -> None:
    robot = kt.Builder(name).add_body(name, joint_name=name, mass=1.0, inertia=np.eye(3)).build()
    for text in (kt.to_urdf(robot), kt.to_mjcf(robot)):
        again = quiet(text)
        assert (again.name, again.bodies[0].name, again.joints[0].name) == (name, name, name)


@pytest.mark.parametrize("name", ["a\0", "a\x1b[31m", "\ud800", "\uffff"])
def test_names_that_no_file_can_hold(name: str) -> None:
    robot = kt.Builder().add_body(name, mass=1.0, inertia=np.eye(3)).build()
    for function in (kt.to_urdf, kt.to_mjcf):
        refused("has a character that no XML file can hold; rename it", function, robot, error=ModelError)


def test_what_cannot_be_written() -> None:
    with pytest.raises(ModelError, match="joint 'a_joint' is helical, which URDF does not know"):
        kt.to_urdf(one("helical", pitch=0.1))
    for kind, own in (("helical", {"pitch": 0.1}), ("planar", {})):
        refused(f"joint 'a_joint' is {kind}, which MJCF does not know", kt.to_mjcf, one(kind, **own), error=ModelError)
    with pytest.raises(ModelError, match="floats elsewhere than at the world's origin"):
        kt.to_mjcf(one("floating", placement=(np.eye(3), [1.0, 0.0, 0.0])))
    refused("body 'a' moves without mass", kt.to_mjcf, kt.Builder().add_body("a").build(), error=ModelError)
    for function in (kt.to_urdf, kt.to_mjcf):
        with pytest.raises(InputError, match="takes a kinetree.Model, got str"):
            function("robot")  # type: ignore[arg-type]
