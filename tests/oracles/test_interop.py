"""Converters to and from Pinocchio's and MuJoCo's numbers: there and back, and agreement with their results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from benchmarks.mjcf import mjcf
from kinetree.errors import InputError, ModelError, ModelWarning, UnknownNameError, UnsupportedError
from tests.mechanisms import built, recorded
from tests.oracle import oracle
from tests.oracles.pinocchio_twin import mirrored, pin, pinocchio_model, upright
from tests.oracles.test_mechanisms import constrained
from tests.tolerance import Array, assert_close, bound, condition, refused
from tests.trees import Mechanism, mixed, random_mechanism

mujoco = oracle("mujoco")

BATCH = (2, 3)
LWA = "local_world_aligned"


@cache
def every_kind() -> Mechanism:
    return upright(random_mechanism("every kind", mixed(14, 40), 40, armature=0.6, roots=2))


@cache
def common() -> Mechanism:
    """What MuJoCo has too; its free joints start at the origin and have no armature."""
    made = random_mechanism(
        "common", ["floating", *mixed(8, 41, "revolute", "prismatic", "spherical"), "floating", "revolute"], 41, roots=2
    )
    home = {"rotation": np.eye(3), "position": np.zeros(3)}
    links = [replace(link, **home, parent="world") if link.joint == "floating" else link for link in made.links]
    return replace(made, links=tuple(links))


def with_pinocchio() -> tuple[kt.Model, kt.interop.Counterpart]:
    return every_kind().kinetree(), kt.interop.pinocchio(
        every_kind().kinetree(), pinocchio_model(every_kind(), backwards=True)
    )


def with_mujoco() -> tuple[kt.Model, kt.interop.Counterpart]:
    mechanism = common()
    # names of joints are wanted, in another order of siblings
    text = mjcf(mechanism.name, mechanism.links, mechanism.gravity)
    model = mujoco.MjModel.from_xml_string(text)
    robot = mechanism.kinetree()
    names = {link.name: f"joint{i}" for i, link in enumerate(mechanism.links)}
    return robot, kt.interop.mujoco(robot, model, {f"{name}_joint": joint for name, joint in names.items()})


BOTH: dict[str, Callable[[], tuple[kt.Model, kt.interop.Counterpart]]] = {
    "pinocchio": with_pinocchio,
    "mujoco": with_mujoco,
}


@pytest.fixture(params=list(BOTH))
def pair(request: pytest.FixtureRequest) -> tuple[kt.Model, kt.interop.Counterpart]:
    return BOTH[request.param]()


# -- robots whose joints depend on each other --------------------------------------------------------------------------

SOLID = '<inertial pos=".1 .02 0" mass="1" diaginertia=".01 .02 .02"/>'
#: On a free base, a four-bar and a finger that follows it, and among them an arm that does not.
CLOSED = f"""<mujoco><compiler angle="radian"/><worldbody>
<body name="base" pos="0 0 1"><freejoint name="root"/>{SOLID}
 <body name="rocker" pos="1 0 0"><joint name="rocker" axis="0 0 1"/>{SOLID}</body>
 <body name="arm" pos="0 1 0"><joint name="arm" type="ball"/>{SOLID}</body>
 <body name="finger" pos="0 0 .3"><joint name="finger" axis="0 1 0"/>{SOLID}</body>
 <body name="crank"><joint name="crank" axis="0 0 1"/>{SOLID}
  <body name="coupler" pos=".3 0 0"><joint name="coupler" axis="0 0 1"/>{SOLID}</body></body></body>
</worldbody><equality>
<connect body1="coupler" body2="rocker" anchor=".9 0 0"/>
<joint joint1="finger" joint2="crank" polycoef=".05 .2 .3 0 .1"/>
</equality><keyframe><key qpos="0 0 1 1 0 0 0 1.2 1 0 0 0 .1 .9 -.3"/></keyframe></mujoco>"""


def _moving(robot: kt.Model, seed: int = 0) -> tuple[Array, Array, Array]:
    """Closed configurations, velocities and accelerations, three of each."""
    rng = np.random.default_rng(seed)
    v, a = rng.normal(size=(2, 3, robot.nv))
    return robot.integrate(robot.neutral(), 0.1 * rng.normal(size=(3, robot.nv))), v, a


def _there_and_back(robot: kt.Model, other: kt.interop.Counterpart) -> None:
    q, v, a = _moving(robot, 1)
    assert robot.nv < other.nv == robot.spanning_tree.nv
    assert_close(other.from_q(other.to_q(q)), q, 1e-14)
    assert_close(other.from_v(other.to_v(v, q), q), v, 1e-13)
    assert_close(other.from_a(other.to_a(a, v, q), v, q), a, 1e-12)
    assert_close(other.from_tau(other.to_tau(a, q), q), a, 1e-13)
    # the power of forces is the same
    power = np.sum(other.to_tau(a, q) * other.to_v(v, q), axis=-1)
    assert_close(power, np.sum(a * v, axis=-1), 1e-12)
    for call in (lambda: other.to_v(v), lambda: other.to_a(a, v), lambda: other.to_a(a, None, q)):
        refused("so converting (it )?needs the .*: pass [qv]=", call)
    for call in (
        lambda: other.to_matrix(robot.mass_matrix(q), q),
        lambda: other.from_matrix(np.eye(other.nv), q),
        lambda: other.to_jacobian(robot.jacobian(q, robot.frames[-1]), q),
    ):
        refused("do not determine those of all its joints", call, error=UnsupportedError)


@pytest.mark.parametrize(
    "name", ["four_bar", "four_bar_on_base", "slider_crank_on_base", "parallel_ankle", "stewart_pair"]
)
def test_robots_with_loops_are_pinocchios(name: str) -> None:
    robot = built(name)
    _, model, _ = constrained(recorded()[name], [body.name for body in robot.bodies])
    other, data, frame = kt.interop.pinocchio(robot, model), model.createData(), robot.bodies[-1].name
    _there_and_back(robot, other)
    q, v, a = _moving(robot)
    tau, bias = robot.inverse_dynamics(q, v, a), other.bias_forces(q, v)
    twist, jacobian = robot.velocity(q, v, frame), robot.jacobian(q, frame)
    joint = model.getJointId(f"{frame}_joint")
    for i in range(len(q)):
        state = other.to_q(q)[i], other.to_v(v, q)[i], other.to_a(a, v, q)[i]
        assert_close(other.from_tau(pin.rnea(model, data, *state), q[i]), tau[i], 1e-10)
        assert_close(bias[i], pin.nonLinearEffects(model, data, *state[:2]), 1e-11)
        pin.computeJointJacobians(model, data, state[0])
        theirs = pin.getJointJacobian(model, data, joint, pin.LOCAL)
        assert_close(other.from_jacobian(theirs, q[i]), jacobian[i], 1e-11)
        assert_close(other.from_spatial(theirs @ state[1]), twist[i], 1e-11)


def test_robots_with_loops_are_mujocos() -> None:
    model = mujoco.MjModel.from_xml_string(CLOSED)
    robot = kt.from_mujoco(model)
    assert (robot.nv, model.nv) == (10, 13)
    assert not np.array_equal(robot.tree_order, np.arange(13))
    other, data = kt.interop.mujoco(robot, model), mujoco.MjData(model)
    _there_and_back(robot, other)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    q, v, a = _moving(robot)
    tau, bias, twist = robot.inverse_dynamics(q, v, a), other.bias_forces(q, v), robot.velocity(q, v, "coupler", LWA)
    jacobian = robot.jacobian(q, "coupler", LWA)
    for i in range(len(q)):
        data.qpos[:], data.qvel[:] = other.to_q(q)[i], other.to_v(v, q)[i]
        data.qacc[:] = other.to_a(a, v, q)[i]
        mujoco.mj_inverse(model, data)
        assert_close(other.from_tau(data.qfrc_inverse, q[i]), tau[i], 1e-11)
        assert_close(bias[i], data.qfrc_bias, 1e-11)
        assert_close(other.read_poses(data, ["coupler", "finger"]), robot.pose(q[i], ["coupler", "finger"]), 1e-12)
        rows = np.zeros((2, 3, model.nv))
        mujoco.mj_jacBody(model, data, rows[0], rows[1], model.body("coupler").id)
        theirs = np.concatenate(rows)
        assert_close(other.from_jacobian(theirs, q[i]), jacobian[i], 1e-12)
        assert_close(other.from_spatial(theirs @ data.qvel), twist[i], 1e-12)


# -- both libraries ----------------------------------------------------------------------------------------------------


def test_there_and_back(pair: tuple[kt.Model, kt.interop.Counterpart]) -> None:
    robot, other = pair
    rng = np.random.default_rng(0)
    q = robot.random_configuration(rng, BATCH)
    x, v = rng.standard_normal((2, *BATCH, robot.nv))
    assert other.to_q(q).shape == (*BATCH, other.nq)
    assert np.max(np.abs(robot.difference(other.from_q(other.to_q(q)), q))) < 1e-14
    for name in ("v", "tau"):
        back = getattr(other, f"from_{name}")(getattr(other, f"to_{name}")(x, q), q)
        assert_close(back, x, 1e-14)
    assert_close(other.from_a(other.to_a(x, v, q), v, q), x, 1e-14)
    M = rng.standard_normal((*BATCH, robot.nv, robot.nv))
    assert_close(other.from_matrix(other.to_matrix(M, q), q), M, 1e-14)
    J = rng.standard_normal((*BATCH, 6, robot.nv))
    assert_close(other.from_jacobian(other.to_jacobian(J, q), q), J, 1e-14)
    assert np.array_equal(other.from_spatial(other.to_spatial(x[..., :6])), x[..., :6])


def test_power_and_energy_are_the_same(pair: tuple[kt.Model, kt.interop.Counterpart]) -> None:
    """τᵀv and vᵀMv do not depend on whose coordinates they are written in."""
    robot, other = pair
    rng = np.random.default_rng(1)
    q = robot.random_configuration(rng, BATCH)
    v, tau = rng.standard_normal((2, *BATCH, robot.nv))
    M = robot.mass_matrix(q)
    theirs, ours = other.to_v(v, q), v
    assert_close(np.sum(other.to_tau(tau, q) * theirs, axis=-1), np.sum(tau * ours, axis=-1), bound(robot.nv))
    assert_close(
        np.einsum("...i,...ij,...j", theirs, other.to_matrix(M, q), theirs),
        np.einsum("...i,...ij,...j", ours, M, ours),
        bound(robot.nv),
    )


def test_one_configuration_for_many_vectors(pair: tuple[kt.Model, kt.interop.Counterpart]) -> None:
    robot, other = pair
    q = robot.random_configuration(0, (4,))
    v = np.random.default_rng(0).standard_normal((5, 1, robot.nv))
    many = other.to_v(v, q)
    assert many.shape in ((5, 4, robot.nv), (5, 1, robot.nv))  # Pinocchio's needs no q
    assert_close(np.broadcast_to(many, (5, 4, robot.nv))[2, 3], other.to_v(v[2, 0], q[3]), 1e-15)
    one = other.to_jacobian(np.ones((6, robot.nv)), q)
    assert_close(np.broadcast_to(one, (4, 6, robot.nv))[1], other.to_jacobian(np.ones((6, robot.nv)), q[1]), 1e-15)


def test_wrong_shapes_are_refused(pair: tuple[kt.Model, kt.interop.Counterpart]) -> None:
    robot, other = pair
    q = robot.neutral()
    for call in (
        lambda: other.to_q(q[1:]),
        lambda: other.from_q(np.zeros(other.nq + 1)),
        lambda: other.to_v(np.zeros(robot.nv + 1), q),
        lambda: other.to_matrix(np.zeros((robot.nv + 1, robot.nv)), q),
        lambda: other.from_jacobian(np.zeros((3, robot.nv)), q),
        lambda: other.to_spatial(np.zeros(3)),
    ):
        refused("shape", call)


def test_frames_of_both(pair: tuple[kt.Model, kt.interop.Counterpart]) -> None:
    robot, other = pair
    assert set(other.frames) >= {body.name for body in robot.bodies}
    refused("no frame of both", other.frame_id, "nowhere", error=UnknownNameError)


# -- Pinocchio ---------------------------------------------------------------------------------------------------------


def test_results_are_pinocchios() -> None:
    """The robot described twice: joint by joint here, and there."""
    robot, other = with_pinocchio()
    assert_results_are_pinocchios(robot, other)


def assert_results_are_pinocchios(robot: kt.Model, other: kt.interop.Counterpart) -> None:
    assert isinstance(other, kt.interop.PinocchioCounterpart)
    model = other.model
    data = model.createData()
    rng = np.random.default_rng(3)
    q = robot.random_configuration(rng)
    v, x = rng.standard_normal((2, robot.nv))
    theirs = other.to_q(q), other.to_v(v), other.to_a(x)
    tolerance = bound(robot.nv)
    assert_close(other.from_tau(pin.rnea(model, data, *theirs)), robot.inverse_dynamics(q, v, x), tolerance)
    assert_close(other.bias_forces(q, v), np.array(pin.nonLinearEffects(model, data, *theirs[:2])), tolerance)
    M = robot.mass_matrix(q)
    assert_close(other.to_matrix(M), mirrored(pin.crba(model, data, theirs[0])), tolerance)
    solving = bound(robot.nv, condition(M))
    a = pin.aba(model, data, theirs[0], theirs[1], other.to_tau(x))
    assert_close(other.from_a(a), robot.forward_dynamics(q, v, x), solving)
    pin.framesForwardKinematics(model, data, theirs[0])
    assert_close(robot.pose(q, other.frames), other.read_poses(data), tolerance)
    for frame in other.frames[1:]:
        J = pin.computeFrameJacobian(model, data, theirs[0], other.frame_id(frame), pin.ReferenceFrame.LOCAL)
        assert_close(robot.jacobian(q, frame), other.from_jacobian(J), tolerance)


def odd_joints() -> Any:
    """Composite, Euler-angle and unbounded joints, two frames of one name, and a body without a frame."""
    model = pin.Model()
    model.name = "odd"
    z = np.array([0.0, 0.0, 1.0])
    rng = np.random.default_rng(7)
    pin.seed(1)

    def inertia() -> Any:
        return pin.Inertia(float(rng.uniform(1, 2)), rng.uniform(-0.1, 0.1, 3), np.diag(rng.uniform(0.1, 0.15, 3)))

    composite = pin.JointModelComposite(pin.JointModelRX(), pin.SE3.Random())
    composite.addJoint(pin.JointModelTranslation(), pin.SE3.Random())
    composite.addJoint(pin.JointModelRUBZ(), pin.SE3.Random())
    screw = pin.JointModelComposite(pin.JointModelRevoluteUnaligned(z))
    screw.addJoint(pin.JointModelPrismaticUnaligned(z))
    parent = 0
    for name, joint in {
        "composite": composite,
        "euler": pin.JointModelSphericalZYX(),
        "turntable": pin.JointModelRUBY(),
        "screw": screw,
        "helix": pin.JointModelHZ(0.3),
        "plane": pin.JointModelPlanar(),
    }.items():
        parent = model.addJoint(parent, joint, pin.SE3.Random(), name)
        model.appendBodyToJoint(parent, inertia(), pin.SE3.Random())
        if name != "helix":
            model.addBodyFrame(f"{name} link", parent, pin.SE3.Identity(), 0)
            model.addJointFrame(parent)
    model.addFrame(pin.Frame("screw link", 3, 0, pin.SE3.Random(), pin.FrameType.OP_FRAME))
    model.addFrame(pin.Frame("base", 0, 0, pin.SE3.Random(), pin.FrameType.BODY))
    model.armature = rng.uniform(0.1, 0.2, model.nv)
    return model


def test_from_pinocchio_every_kind() -> None:
    model = pinocchio_model(every_kind(), backwards=True)
    robot = kt.from_pinocchio(model)
    assert robot.name == "every kind"
    assert_results_are_pinocchios(robot, kt.interop.pinocchio(robot, model))
    described = every_kind().kinetree()
    assert {joint.name: joint.kind for joint in robot.joints} == {joint.name: joint.kind for joint in described.joints}
    q = described.random_configuration(1)
    other = robot.q_from_dict(described.q_to_dict(q))
    frames = described.frames
    assert_close(robot.pose(other, frames), described.pose(q, frames), bound(robot.nv))


def test_from_pinocchio_odd_joints() -> None:
    model = odd_joints()
    robot = kt.from_pinocchio(model)
    kinds = {joint.name: joint.kind for joint in robot.joints}
    assert kinds == {
        "composite.1": "revolute",
        "composite.2": "translational",
        "composite.3": "revolute",
        "euler.1": "revolute",
        "euler.2": "revolute",
        "euler.3": "revolute",
        "turntable": "revolute",
        "screw": "cylindrical",
        "helix": "helical",
        "plane": "planar",
    }
    assert {"base", "helix body", "screw link", "screw link (2)"} <= set(robot.frames)
    assert_results_are_pinocchios(robot, kt.interop.pinocchio(robot, model))


def test_from_pinocchio_keeps_limits_and_friction() -> None:
    model = pin.Model()
    number = model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "elbow")
    model.appendBodyToJoint(number, pin.Inertia.FromSphere(1.0, 0.1), pin.SE3.Identity())
    model.lowerPositionLimit = np.array([-1.0])
    model.velocityLimit = np.array([2.0])
    model.damping = np.array([0.5])
    (joint,) = kt.from_pinocchio(model).joints
    assert joint.limits == kt.Limits(-1.0, math.inf, 2.0, math.inf)
    assert np.array_equal(joint.damping, [0.5])


def test_rotor_inertia_is_told() -> None:
    model = pin.buildSampleModelManipulator()
    model.rotorInertia = np.full(model.nv, 0.1)
    with pytest.warns(ModelWarning, match="rotorInertia is not used"):
        kt.from_pinocchio(model)


def test_pinocchio_joints_that_kinetree_has_not() -> None:
    model = pin.Model()
    model.addJoint(0, pin.JointModelEllipsoid(0.1, 0.2, 0.3), pin.SE3.Identity(), "hip")
    with pytest.raises(ModelError, match="joint 'hip' has type Ellipsoid, which Kinetree does not support; lock it"):
        kt.from_pinocchio(model)
    urdf = """<robot name="grip"><link name="palm"/>
      <link name="left"/><link name="right"/>
      <joint name="l" type="prismatic"><parent link="palm"/><child link="left"/><limit effort="1" velocity="1"/></joint>
      <joint name="r" type="prismatic"><parent link="palm"/><child link="right"/><limit effort="1" velocity="1"/>
      <mimic joint="l"/></joint></robot>"""
    refused("joint 'r'.*mimic=True", kt.from_pinocchio, pin.buildModelFromXML(urdf, mimic=True), error=ModelError)


def test_models_of_different_robots_are_refused() -> None:
    model = pin.buildSampleModelManipulator()
    robot = kt.from_pinocchio(model)
    name = robot.joints[0].name
    with pytest.raises(InputError, match=f"none of .* and '{name}' of Pinocchio's model"):
        kt.interop.pinocchio(robot.reduced(lock={name: 0.0}), model)
    with pytest.raises(UnknownNameError, match="no moving joint is called 'knee'"):
        kt.interop.pinocchio(robot, model, {"knee": name})
    builder = kt.Builder()
    builder.add_body("slider", joint="prismatic", joint_name="elbow", mass=1.0)
    other = pin.Model()
    other.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "elbow")
    with pytest.raises(InputError, match="'elbow' is prismatic, but joint 'elbow' of Pinocchio's model is revolute"):
        kt.interop.pinocchio(builder.build(), other)


def test_a_floating_base_may_have_any_name() -> None:
    model = pin.Model()
    number = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root_joint")
    model.appendBodyToJoint(number, pin.Inertia.Random(), pin.SE3.Identity())
    builder = kt.Builder()
    builder.add_body("base", joint="floating", joint_name="free", mass=1.0, inertia=np.eye(3))
    other = kt.interop.pinocchio(builder.build(), model)
    assert np.array_equal(other.to_q([1, 2, 3, 0.5, -0.5, 0.5, 0.5]), [1, 2, 3, -0.5, 0.5, 0.5, 0.5])
    assert np.array_equal(other.to_v([1, 2, 3, 4, 5, 6]), [4, 5, 6, 1, 2, 3])


# -- MuJoCo ------------------------------------------------------------------------------------------------------------


def test_results_are_mujocos() -> None:
    robot, other = with_mujoco()
    assert isinstance(other, kt.interop.MujocoCounterpart)
    model = other.model
    data = mujoco.MjData(model)
    rng = np.random.default_rng(3)
    q = robot.random_configuration(rng)
    v, tau = rng.standard_normal((2, robot.nv))
    data.qpos[:], data.qvel[:], data.qfrc_applied[:] = other.to_q(q), other.to_v(v, q), other.to_tau(tau, q)
    mujoco.mj_forward(model, data)
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    assert_close(other.from_matrix(M, q), robot.mass_matrix(q), bound(robot.nv))
    assert_close(other.bias_forces(q, v), np.array(data.qfrc_bias), bound(robot.nv))
    solving = bound(robot.nv, condition(robot.mass_matrix(q)))
    assert_close(other.from_a(data.qacc, v, q), robot.forward_dynamics(q, v, tau), solving)
    assert_close(robot.pose(q, other.frames), other.read_poses(data), bound(robot.nv))


def test_mujocos_velocities_take_q() -> None:
    robot, other = with_mujoco()
    v = np.zeros(robot.nv)
    refused("pass q=", other.to_v, v)
    refused("pass v=", other.to_a, v, q=robot.neutral())
    # without free joints they do not
    text = '<mujoco><worldbody><body name="a"><geom size=".1"/><joint name="j"/></body></worldbody></mujoco>'
    model = mujoco.MjModel.from_xml_string(text)
    arm = kt.from_mujoco(model)
    assert kt.interop.mujoco(arm, model).to_a([1.0]) == 1.0


def test_floating_joints_elsewhere_are_refused() -> None:
    text = '<mujoco><worldbody><body name="a"><geom size=".1"/><freejoint name="j"/></body></worldbody></mujoco>'
    model = mujoco.MjModel.from_xml_string(text)
    builder = kt.Builder()
    at = (np.eye(3), (0, 0, 1))
    builder.add_body("a", joint="floating", joint_name="j", placement=at, mass=1.0, inertia=np.eye(3))
    refused("pose other than the world's origin", kt.interop.mujoco, builder.build(), model)


def test_nan_stays_in_its_sample() -> None:
    robot, other = with_mujoco()
    q, v = robot.random_configuration(0, (3,)), np.ones((3, robot.nv))
    clean = other.to_v(v, q)
    q[1] = 0.0  # a zero quaternion
    with np.errstate(all="raise"):
        spoilt = other.to_v(v, q)
    assert np.isnan(spoilt[1]).any()
    assert np.array_equal(spoilt[[0, 2]], clean[[0, 2]])


# -- things that are no models -----------------------------------------------------------------------------------------

THINGS = ["x", None, 5, [], {}, object(), np.zeros(3), np.array(3.0), {1: 2}, {"a": "b"}, b"x", 1j * np.ones(7)]


@pytest.mark.parametrize("library", ["pinocchio", "mujoco"])
def test_things_that_are_no_models(library: str) -> None:
    name = {"pinocchio": "pinocchio.Model", "mujoco": "mujoco.MjModel"}[library]
    copied, counterpart = getattr(kt, f"from_{library}"), getattr(kt.interop, library)
    for thing in [*THINGS, kt.zoo.double_pendulum()]:
        refused(rf"from_{library} takes a {name}, got ", copied, thing)
        refused(rf"interop.{library} takes a {name}, got ", counterpart, kt.zoo.double_pendulum(), thing)
        if not isinstance(thing, kt.Model):
            refused(f"interop.{library} takes a kinetree.Model first, got ", counterpart, thing, None)
        if not (thing is None or (isinstance(thing, dict) and 1 not in thing)):
            with pytest.raises(InputError, match="joints is not a dictionary of names|takes a kinetree.Model"):
                counterpart(kt.zoo.double_pendulum(), None, thing)


def test_the_way_from_what_people_have_is_told() -> None:
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    refused(r"got mujoco.MjSpec; pass spec.compile\(\)", kt.from_mujoco, mujoco.MjSpec())
    refused("got mujoco.MjData; pass data.model", kt.from_mujoco, mujoco.MjData(model))
    refused("got builtins.str; pass files to kinetree.load instead", kt.from_pinocchio, "robot.urdf")


def test_arguments_of_conversions_that_are_none() -> None:
    """No error but the library's own comes out."""
    robot = kt.from_pinocchio(pin.buildSampleModelManipulator())
    other = kt.interop.pinocchio(robot, pin.buildSampleModelManipulator())
    for name in dir(other):
        if name.startswith(("to_", "from_", "read_", "frame_id")):
            for thing in THINGS:
                with pytest.raises(InputError):
                    getattr(other, name)(thing)
    refused("pass a list of names", other.read_poses, pin.Data(other.model), 5)
    refused(r"q has shape \(\)", other.to_matrix, np.eye(robot.nv), 5.0)
