"""What MuJoCo's and Gazebo's files have besides bodies: keyframes, springs, gravity compensation, loops, gears."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, LoadError, ModelError, UnknownNameError
from tests.oracle import oracle
from tests.oracles.pinocchio_twin import robots
from tests.tolerance import assert_close, refused

mujoco: Any = oracle("mujoco")

ARM = """<mujoco model="arm"><compiler angle="radian"/><worldbody>
  <body name="upper" gravcomp="0.25">
    <joint name="shoulder" axis="0 1 0" stiffness="3" springref="0.4" damping="0.1" frictionloss="0.2" armature="0.3"/>
    <geom type="capsule" size=".05" fromto="0 0 0 .4 0 0"/>
    <body name="fore" pos=".4 0 0" gravcomp="1"><joint name="wrist" type="ball" stiffness="2"/>
      <geom type="capsule" size=".04" fromto="0 0 0 .3 0 0.1"/>
      <body name="tip" pos=".3 0 0"><joint name="slide" type="slide" axis="1 0 0" stiffness="50" springref="-.1"/>
        <geom type="box" size=".02 .03 .04"/></body>
    </body>
  </body>
</worldbody>
<keyframe><key name="home" qpos="0.5 1 0 0 0 0.02"/><key time="3"/><key qpos="-0.5 0 1 0 0 0.01"/></keyframe>
</mujoco>"""


def test_keyframes_springs_and_losses_are_mujocos() -> None:
    robot, model = kt.load(ARM), mujoco.MjModel.from_xml_string(ARM)
    assert list(robot.keyframes) == ["home", "key1"]
    assert_close(np.stack([*robot.keyframes.values()]), model.key_qpos[[0, 2]], 1e-15)
    assert robot.stiffness.tolist() == [3.0, 2.0, 2.0, 2.0, 50.0]
    assert_close(robot.spring_reference, model.qpos_spring, 1e-15)
    for name in ("damping", "armature"):
        assert_close(getattr(robot, name), getattr(model, f"dof_{name}"), 1e-15)
    assert_close(robot.friction, model.dof_frictionloss, 1e-15)
    assert [body.gravity_compensation for body in robot.bodies] == [0.25, 1.0, 0.0]
    data = mujoco.MjData(model)
    for q in robot.random_configuration(0, (5,)):
        data.qpos[:] = q
        mujoco.mj_forward(model, data)
        assert_close(-robot.stiffness * robot.difference(robot.spring_reference, q), data.qfrc_spring, 1e-13)


def test_variants_keep_keyframes_and_springs() -> None:
    robot = kt.load(ARM)
    assert pickle.loads(pickle.dumps(robot)) == robot
    assert robot.with_keyframe("home", robot.neutral()) != robot
    locked = robot.reduced({"wrist": [1, 0, 0, 0]})
    assert locked.keyframes["home"].tolist() == [0.5, 0.02]
    assert locked.stiffness.tolist() == [3.0, 50.0]
    assert robot.subtree("fore").keyframes["key1"].tolist() == [0.0, 1.0, 0.0, 0.0, 0.01]
    two = robot.attach("world", robot, prefix="b_")
    assert list(two.keyframes) == ["home", "key1", "b_home", "b_key1"]
    assert_close(two.keyframes["b_home"][robot.nq :], robot.keyframes["home"], 1e-15)
    stiffer = robot.with_stiffness({"shoulder": 7.0, "slide": 0.0})
    assert stiffer.stiffness.tolist() == [7.0, 2.0, 2.0, 2.0, 0.0]
    assert_close(stiffer.spring_reference[:5], robot.spring_reference[:5], 1e-15)
    assert robot.astype("float32").keyframes["home"].dtype == np.float32
    refused("has shape", robot.with_keyframe, "x", [1.0])
    assert robot.keyframes["home"].flags.writeable  # a copy
    with pytest.raises(AttributeError):
        robot.keyframes = {}  # type: ignore[misc]


def test_the_builder_takes_them() -> None:
    built = kt.Builder("b").add_body("a", mass=1.0, inertia=np.eye(3), stiffness=2, spring_reference=0.3)
    robot = built.add_keyframe("home", {"a_joint": 0.5}).build()
    assert (robot.stiffness, robot.spring_reference, robot.keyframes["home"]) == ([2.0], [0.3], [0.5])
    refused("keyframe 'home' exists already", built.add_keyframe, "home", {}, error=ModelError)
    refused("stiffness -1 is negative", kt.Builder("b").add_body, "a", stiffness=-1, error=ModelError)
    kt.Builder("b").add_body("a", mass=1.0).add_keyframe("k", {"b": 1.0})
    lost = kt.Builder("b").add_body("a", mass=1.0).add_keyframe("k", {"b": 1.0})
    refused("keyframe 'k'", lost.build, error=UnknownNameError)


def test_saved_files_have_them_too() -> None:
    robot = kt.load(ARM)
    again = kt.load(kt.to_mjcf(robot))
    for name in ("stiffness", "spring_reference", "damping", "friction", "armature"):
        assert_close(getattr(again, name), getattr(robot, name), 1e-15)
    assert again.named_positions == robot.named_positions
    assert [body.gravity_compensation for body in again.bodies] == [0.25, 1.0, 0.0]
    with pytest.warns(kt.errors.ModelWarning, match=r"keyframes \(home, key1\).*the spring of joint 'shoulder'"):
        kt.to_urdf(robot)


BAR = {"mass": 1.0, "com": (0.5, 0, 0), "inertia": np.diag([0.01, 0.1, 0.1])}


def four_bar(close: str, geared: bool = True) -> kt.Builder:
    b = kt.Builder("four-bar")
    b.add_body("crank", placement=(np.eye(3), (0, 0, 0)), **BAR)
    b.add_body("coupler", parent="crank", placement=(np.eye(3), (1, 0, 0)), **BAR)
    b.add_body("rocker", placement=(np.eye(3), (1.5, 0, 0)), **BAR)
    b.add_frame("one", body="coupler", placement=(np.eye(3), (1.2, 0, 0)))
    b.add_frame("other", body="rocker", placement=(np.eye(3), (1.1, 0, 0)))
    getattr(b, close)("one", "other")
    if not geared:
        return b
    b.add_body("gear", placement=(np.eye(3), (0, 2, 0)), **BAR)
    b.add_body("cam", placement=(np.eye(3), (0, 3, 0)), **BAR)
    b.couple("gear_joint", to="crank_joint", ratio=-3.0, offset=0.2)
    return b.couple("cam_joint", to="crank_joint", poly=[0.1, 0.2, 0.3])


START = {"crank_joint": 1.0, "coupler_joint": -0.8, "rocker_joint": 1.6}


@pytest.mark.parametrize("close", ["connect", "hinge"])
@pytest.mark.parametrize("loops", ["embed", "multipliers"])
def test_loops_and_couplings_are_saved_as_soft_equalities(close: str, loops: str) -> None:
    robot = four_bar(close).build(near=START, loops=loops)
    text = kt.to_mjcf(robot)
    model = mujoco.MjModel.from_xml_string(text)
    assert model.neq == (4 if close == "hinge" else 3)
    if loops == "embed":
        data = mujoco.MjData(model)
        mujoco.mj_resetDataKeyframe(model, data, 0)
        mujoco.mj_forward(model, data)
        assert_close(data.efc_pos, np.zeros(len(data.efc_pos)), 1e-12)
    again = kt.load(text, near=None if loops == "embed" else START)
    embedded = four_bar(close).build(near=START)
    assert again.nv == embedded.nv == 1
    q, v = embedded.neutral(), np.array([0.7])
    assert_close(again.neutral(), q, 1e-8)
    assert_close(again.forward_dynamics(q, v, v), embedded.forward_dynamics(q, v, v), 1e-9)


def test_what_has_no_equality_is_refused() -> None:
    rod = four_bar("connect").distance("one", "gear", length=1.0).build(loops="multipliers")
    refused("MJCF cannot describe distance .* no rods", kt.to_mjcf, rod, error=ModelError)
    three = (
        four_bar("connect").couple({"crank_joint": 1.0, "gear_joint": 1.0, "cam_joint": 1.0}).build(loops="multipliers")
    )
    refused("MJCF cannot describe the coupling", kt.to_mjcf, three, error=ModelError)


def sdf(*parts: str) -> str:
    return f'<sdf version="1.9"><model name="m">{"".join(parts)}</model></sdf>'


def bar(name: str, x: float, y: float, turn: float) -> str:
    return (
        f'<link name="{name}"><pose>{x} {y} 0 0 0 {turn}</pose><inertial><pose>.5 0 0 0 0 0</pose><mass>1</mass>'
        "<inertia><ixx>.01</ixx><iyy>.1</iyy><izz>.1</izz></inertia></inertial></link>"
    )


def pin(name: str, parent: str, child: str, kind: str = "revolute", pose: str = "0 0 0 0 0 0", more: str = "") -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent>{parent}</parent><child>{child}</child><pose>{pose}</pose>{more}'
        "<axis><xyz>0 0 1</xyz></axis></joint>"
    )


def closed(kind: str) -> str:
    """A four-bar, closed where the file places its links; `kind` of the joint at the end of the coupler."""
    crank, coupler, rocker = four_bar("connect", geared=False).build(near=START).neutral()
    x, y = np.cos(crank), np.sin(crank)
    return sdf(
        '<link name="ground"/>',
        bar("crank", 0, 0, crank), bar("coupler", x, y, crank + coupler), bar("rocker", 1.5, 0, rocker),
        pin("crank_joint", "ground", "crank"), pin("coupler_joint", "crank", "coupler"),
        pin("rocker_joint", "ground", "rocker"), pin("end", "coupler", "rocker", kind, "1.1 0 0 0 0 0"),
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore::kinetree.errors.ModelWarning")
@pytest.mark.parametrize("kind", ["revolute", "ball"])
def test_sdf_closes_loops(kind: str) -> None:
    robot, other = kt.load(closed(kind)), four_bar("connect", geared=False).build(near=START)
    assert (robot.nv, len(robot.joint_constraints)) == (1, 1)
    v = np.array([0.7])
    poses = other.pose(other.neutral(), ["crank", "coupler", "rocker"])
    assert_close(robot.pose(robot.neutral(), ["crank", "coupler", "rocker"]), poses, 1e-12)
    twist = robot.velocity(robot.neutral(), v, ["coupler", "rocker"])
    assert_close(twist, other.velocity(other.neutral(), v, ["coupler", "rocker"]), 1e-12)
    open_ = kt.load(closed(kind), loops="multipliers")
    assert (open_.nv, len(open_.equalities)) == (3, 1)


@pytest.mark.filterwarnings("ignore:.*links without:kinetree.errors.ModelWarning")
def test_sdf_leaves_loops_out_on_request() -> None:
    with pytest.warns(kt.errors.ModelWarning, match="joints that close loops, left out.*end"):
        assert kt.load(closed("revolute"), loops="ignore").nv == 3
    refused("closes a loop, of which root=", kt.load, closed("revolute"), root="crank", error=LoadError)


@pytest.mark.filterwarnings("ignore::kinetree.errors.ModelWarning")
def test_sdf_gearboxes_are_couplings() -> None:
    """θ₂ = −ratio θ₁: the input turns against the output."""
    gear = "<gearbox_reference_body>ground</gearbox_reference_body><gearbox_ratio>0.5</gearbox_ratio>"
    ends = pin("fast", "ground", "rotor", pose="0.1 0 0 0 0 0") + pin("slow", "ground", "arm")
    links = '<link name="ground"/>' + bar("rotor", 0, 1, 0) + bar("arm", 0, 0, 0)
    second = "<axis2><xyz>0 0 -1</xyz></axis2>"
    for more, ratio in (("<axis2><xyz>0 0 1</xyz></axis2>", -2.0), (second, 2.0)):
        robot = kt.load(sdf(links, ends, pin("box", "rotor", "arm", "gearbox", more=gear + more)))
        assert [joint.name for joint in robot.joints if joint.nv] == ["slow"]
        assert robot.q_to_dict([0.3])["fast"] == pytest.approx(ratio * 0.3, rel=1e-15)
    bad = pin("box", "arm", "rotor", "gearbox", more=gear.replace(">ground<", ">arm<") + second)
    refused("which no revolute joint connects to", kt.load, sdf(links, ends, bad), error=LoadError)


CASSIE = robots.share() / "cassie_description/robots"


@pytest.mark.filterwarnings("ignore::kinetree.errors.ModelWarning")
@pytest.mark.parametrize(
    ("name", "nv"),
    [("cassie", 10), ("cassie_v2", 12), ("cassie_wo_gearbox_spring", 13), ("cassie_reduced", 0), ("cassie_simple", 0)],
)
def test_cassies_loops(name: str, nv: int) -> None:
    """Axes of two files are 0.8 mrad off, so that a rigid linkage cannot move: those take multipliers."""
    path = CASSIE / f"{name}.sdf"
    if nv:
        robot = kt.load(path)
        assert robot.nv == nv
        assert np.isfinite(robot.forward_dynamics(robot.neutral(), np.zeros(nv), np.zeros(nv))).all()
        return
    refused('any freedom.*loops="multipliers"', kt.load, path, error=LoadError)
    robot = kt.load(path, loops="multipliers")
    assert len(robot.equalities) == 4


def test_loops_are_closed_near_what_is_given() -> None:
    text = kt.to_mjcf(four_bar("connect").build(near=START))
    other = {"crank_joint": 1.0, "coupler_joint": -2.6, "rocker_joint": -1.6}  # the other branch
    found = kt.load(text, near=other).neutral()
    assert abs(found[2] + 1.6) < 0.6
    assert abs(kt.load(text).neutral()[2] - 1.6) < 0.6
    refused("not a dictionary of coordinates", kt.load, text, near=[1.0], error=InputError)


GRIPPER = """<mujoco><worldbody>
  <body name="a"><joint name="left" axis="1 0 0"/><geom size=".1"/></body>
  <body name="b"><joint name="right" axis="1 0 0"/><geom size=".1"/></body>
  <body name="hand" mocap="true"/>
</worldbody><equality><joint joint1="right" joint2="left" polycoef="0.1 -1 0 0 0"/><weld body1="a" body2="hand"/>
</equality></mujoco>"""


@pytest.mark.filterwarnings("ignore:.*mocap bodies:kinetree.errors.ModelWarning")
def test_couplings_are_treated_as_those_of_urdf() -> None:
    """Those of joints are exact unless `mimic` says otherwise; a mocap body holds nothing."""
    robot = kt.load(GRIPPER)
    assert [joint.name for joint in robot.joints if joint.nv] == ["left"]
    assert robot.q_to_dict([0.5])["right"] == pytest.approx(-0.4, rel=1e-15)
    assert kt.load(GRIPPER, mimic="independent").nv == 2
    locked = kt.load(GRIPPER, mimic="lock")
    assert [joint.name for joint in locked.joints] == ["left"]
    assert_close(locked.pose([0.0], "b")[1:3, 1], [np.cos(0.1), np.sin(0.1)], 1e-15)
    urdf = kt.to_urdf(robot.with_shapes([]))  # whose friction URDF does not have
    assert kt.load(urdf).nv == 1
    coupled = kt.load(urdf, loops="multipliers")
    assert (coupled.nv, len(coupled.equalities)) == (2, 1)


@pytest.mark.parametrize("method", ["midpoint", "semi_implicit_euler", "rk4"])
def test_simulators_take_springs_and_gravity_compensation(method: str) -> None:
    """To first order in the step, accelerations are MuJoCo's."""
    robot, model = kt.load(ARM), mujoco.MjModel.from_xml_string(ARM)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    model.dof_frictionloss[:] = 0.0
    other, data = kt.interop.mujoco(robot, model), mujoco.MjData(model)
    passive: dict[str, Any] = {"damping": True, "stiffness": True, "gravity_compensation": True}
    sim = kt.simulation.Simulator(robot, dt=1e-6, method=method, **passive)
    q, v = robot.random_configuration(0, (4,)), np.random.default_rng(1).standard_normal((4, robot.nv))
    found = sim.step(q, v)[2].acceleration
    for i in range(4):
        data.qpos[:], data.qvel[:] = other.to_q(q[i]), other.to_v(v[i], q[i])
        mujoco.mj_forward(model, data)
        assert_close(found[i], other.from_a(data.qacc, v[i], q[i]), 1e-3)
        alone = sim.step(q[i], v[i])
        np.testing.assert_array_equal(alone[2].acceleration, found[i])
    again = pickle.loads(pickle.dumps(sim))
    np.testing.assert_array_equal(again.step(q, v)[2].acceleration, found)


def test_what_is_borne_does_not_fall() -> None:
    robot = kt.load(ARM)
    borne = robot._edited(bodies=[replace(body, gravity_compensation=1.0) for body in robot.bodies])
    sim = kt.simulation.Simulator(borne, gravity_compensation=True)
    q, v = robot.random_configuration(0), np.zeros(robot.nv)
    assert np.abs(sim.step(q, v)[2].acceleration).max() < 1e-11
    assert np.abs(kt.simulation.Simulator(borne).step(q, v)[2].acceleration).max() > 1.0
    many = robot.population(gravity=np.zeros((2, 3)))
    refused("cannot have gravity_compensation", kt.simulation.Simulator, many, gravity_compensation=True)


def test_forces_act_during_a_run() -> None:
    robot = kt.zoo.arm7()
    sim, tip = kt.simulation.Simulator(robot), robot.frames[-1]
    q, push = robot.random_configuration(0), {tip: np.array([0.1, 0.2, 0.3, 1.0, 2.0, 3.0])}

    def idle(*_: Any) -> Any:
        return np.zeros(robot.nv)

    film = sim.run(q, idle, seconds=0.01, f_ext=push)
    late = sim.run(q, idle, seconds=0.01, f_ext=lambda time: push if time > 0.0045 else {})
    free = sim.run(q, idle, seconds=0.01)
    now, v = q, np.zeros(robot.nv)
    for _ in range(10):
        now, v, _ = sim.step(now, v, f_ext=push)
    np.testing.assert_array_equal(film.q[-1], now)
    np.testing.assert_array_equal(late.q[5], free.q[5])
    assert np.abs(late.q[-1] - free.q[-1]).max() > 1e-6
