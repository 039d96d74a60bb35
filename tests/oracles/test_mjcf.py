"""MJCF files against MuJoCo: mass matrix, bias forces, forward dynamics, poses and Jacobians."""

from __future__ import annotations

import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, LoadError, ModelWarning, UnknownNameError
from kinetree.io import mjcf_convert as loader
from tests.oracle import oracle
from tests.tolerance import Array, refused

mujoco = oracle("mujoco")

#: Relative to the greatest entry.
TOLERANCE = 1e-9

SAMPLES = 3

SHAPES = {
    "box": '<geom type="box" size=".05 .1 .2" pos=".02 .01 .2" euler="20 30 40"/>',
    "capsule": '<geom type="capsule" size=".04" fromto="0 0 0 .1 .2 .3"/>',
    "two": '<geom type="sphere" size=".06" pos="0 .1 0"/><geom type="cylinder" size=".03 .1" pos=".1 0 0" mass=".7"/>',
}


def body(name: str, inside: str, pose: str = "", shape: str = "box") -> str:
    return f'<body name="{name}" {pose}>{SHAPES[shape]}{inside}</body>'


def file(worldbody: str, rest: str = "", compiler: str = 'angle="radian"') -> str:
    return f'<mujoco model="made up"><compiler {compiler}/>{rest}<worldbody>{worldbody}</worldbody></mujoco>'


def chain(*joints: str, rest: str = "", compiler: str = 'angle="radian"') -> str:
    """Bodies in series, each with the joints given."""
    text = ""
    for i, own in reversed(list(enumerate(joints))):
        pose = f'pos=".1 {0.1 * i} .3" quat="1 .2 -.3 {0.1 * i}"'
        text = body(f"link{i}", own + text, pose, list(SHAPES)[i % 3])
    return file(text, rest, compiler)


MODELS = {
    "hinges": chain('<joint axis="0 1 0"/>', '<joint axis="1 2 3"/>', '<joint axis="0 0 -1"/>'),
    "several joints per body": chain(
        '<joint type="slide" axis="0 0 1"/><joint name="pan" axis="0 0 1"/><joint name="tilt" axis="0 1 0"/>',
        '<joint axis="1 0 0"/><joint type="slide" axis="1 1 0"/>',
        '<joint axis="0 1 0"/><joint axis="0 0 1"/><joint axis="1 0 0"/>',
    ),
    "off-centre hinges": chain(
        '<joint axis="0 1 0" pos=".1 -.2 .3"/>',
        '<joint axis="1 0 1" pos="0 .1 0"/><joint axis="0 0 1" pos=".2 0 -.1"/>',
        '<joint axis="1 0 1" pos="0 .1 0"/><joint axis="0 0 1"/>',
    ),
    "off-centre slides between hinges": chain(
        '<joint axis="0 1 0" pos=".1 -.2 .3"/><joint type="slide" axis="0 1 1" pos="1 2 3"/><joint axis="1 0 0"/>',
        '<joint type="slide" axis="0 1 0" pos="0 0 1"/><joint axis="1 0 0" pos=".1 0 .2"/>',
    ),
    "ball joint in the middle": chain('<joint axis="0 1 0"/>', '<joint type="ball"/>', '<joint axis="1 0 0"/>'),
    "off-centre ball joint": chain(
        '<joint axis="0 1 0"/>', '<joint type="ball" pos=".1 .2 -.3"/>', '<joint axis="1 0 0" pos="0 0 .1"/>'
    ),
    "armature": chain(
        '<joint axis="0 1 0" armature=".4"/>',
        '<joint type="slide" axis="0 1 0" armature=".2"/><joint axis="1 0 0"/>',
        '<joint type="ball" armature=".1" damping="3" frictionloss=".2"/>',
    ),
    "reference angles": chain(
        '<joint axis="0 1 0" ref=".7"/>',
        '<joint type="slide" axis="0 1 0" ref="-.3"/><joint axis="1 0 0" ref="1.2" pos=".1 .2 .3"/>',
    ),
    "degrees and limits": chain(
        '<joint name="elbow" axis="0 1 0" range="-90 45" ref="30"/>',
        '<joint axis="1 0 0" range="-10 20" actuatorfrcrange="-3 5"/>',
        compiler='angle="degree" eulerseq="zyx" autolimits="true"',
    ),
    "free bodies in a forest": file(
        body("one", "<freejoint/>" + body("arm", '<joint axis="0 1 0"/>'), 'pos="1 2 3" euler=".1 .2 .3"')
        + body("pole", '<joint type="slide" axis="0 0 1"/>', shape="two")
        + body("two", '<joint name="loose" type="free"/>' + body("arm2", '<joint type="ball"/>'), shape="capsule"),
        '<option gravity=".5 -1 -9"/>',
    ),
    "rotors of actuators": file(
        body("a", '<joint name="pan" axis="0 1 0" armature=".1"/>' + body("b", '<joint name="ball" type="ball"/>')),
        '<default><motor armature=".3" gear="2"/><default class="geared"><position armature=".4"/></default></default>'
        '<actuator><motor joint="pan"/><position class="geared" joint="pan" kp="3"/>'
        '<motor jointinparent="ball" gear="3"/></actuator>',
    ),
    "nested frames": file(
        '<frame pos="0 0 1" euler="0 0 .5"><frame name="inner" pos=".1 0 0" euler=".3 0 0">'
        + body("base", '<site name="base" pos="0 0 .1"/>' + body("arm", '<joint axis="0 0 1"/><site name="tip"/>'))
        + '<site name="anchor" pos="0 1 0" zaxis="1 1 1"/></frame></frame>'
    ),
    "full inertia": file(
        '<body name="a" pos="0 0 1"><inertial pos=".1 .2 .3" mass="2" fullinertia=".3 .4 .5 .01 -.02 .03"/>'
        '<joint axis="0 1 0"/><body name="b"><inertial pos="0 0 1" quat="1 1 0 .5" mass="1" diaginertia=".1 .2 .25"/>'
        '<joint axis="1 0 0" pos="0 0 .2"/></body></body>'
    ),
    "fixed bodies carry inertia": file(
        body(
            "base", body("arm", '<joint axis="0 1 0"/>' + body("tool", body("tip", "", 'pos="0 0 .3"'), 'pos="0 1 0"'))
        )
    ),
    "no gravity, defaults": file(
        body("a", '<joint axis="0 1 0"/>' + body("b", '<joint class="heavy" axis="1 0 0"/>'), 'pos="0 0 1"'),
        '<option><flag gravity="disable"/></option><default><joint armature=".1"/><default class="heavy">'
        '<joint armature="2" type="slide"/></default></default>',
    ),
    "names that clash or are missing": file(
        '<body name="joint1"><geom size=".1"/><joint/><site name="joint1"/><site name="world"/><body><geom size=".1"/>'
        '<joint name="joint0" axis="1 0 0"/><site pos="0 0 1"/><body pos="0 1 0"><geom size=".1"/></body></body></body>'
    ),
    "MuJoCo's own": (Path(mujoco.__file__).parent / "testdata" / "model.xml"),
}


@dataclass(frozen=True)
class Pair:
    """One robot in both libraries, with a few random states."""

    robot: kt.Model
    other: kt.interop.MujocoCounterpart
    data: Any
    q: Array
    v: Array
    tau: Array

    def at(self, i: int) -> Any:
        """MuJoCo's results in one state; of all forces, only those of `tau` and gravity act."""
        q, v = self.q[i], self.v[i]
        self.data.qpos[:], self.data.qvel[:] = self.other.to_q(q), self.other.to_v(v, q)
        self.data.qfrc_applied[:] = self.other.to_tau(self.tau[i], q)
        mujoco.mj_forward(self.other.model, self.data)
        return self.data


@cache
def make(name: str) -> Pair:
    source = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        robot = kt.load(source, loops="ignore")
    load = mujoco.MjModel.from_xml_path if isinstance(source, Path) else mujoco.MjModel.from_xml_string
    model = load(str(source))
    off = mujoco.mjtDisableBit
    for flag in (off.mjDSBL_CONSTRAINT, off.mjDSBL_SPRING, off.mjDSBL_DAMPER, off.mjDSBL_ACTUATION):
        model.opt.disableflags |= flag
    model.opt.density = model.opt.viscosity = 0.0
    model.body_gravcomp[:] = 0.0
    rng = np.random.default_rng(1)
    v, tau = rng.standard_normal((2, SAMPLES, robot.nv))
    q = robot.random_configuration(rng, (SAMPLES,))
    return Pair(robot, kt.interop.mujoco(robot, model), mujoco.MjData(model), q, v, tau)


@pytest.fixture(params=list(MODELS))
def pair(request: pytest.FixtureRequest) -> Pair:
    return make(request.param)


def assert_agrees(actual: Array, expected: Array) -> None:
    assert actual.shape == expected.shape
    assert np.max(np.abs(actual - expected)) <= TOLERANCE * max(1.0, np.max(np.abs(expected)))


def test_mass_matrix(pair: Pair) -> None:
    M = pair.robot.mass_matrix(pair.q)
    for i in range(SAMPLES):
        expected = np.zeros((pair.robot.nv, pair.robot.nv))
        mujoco.mj_fullM(pair.other.model, pair.at(i), expected)
        assert_agrees(pair.other.to_matrix(M[i], pair.q[i]), expected)


def test_bias_forces(pair: Pair) -> None:
    bias = pair.other.bias_forces(pair.q, pair.v)
    for i in range(SAMPLES):
        assert_agrees(bias[i], np.array(pair.at(i).qfrc_bias))


def test_forward_dynamics(pair: Pair) -> None:
    a = pair.other.to_a(pair.robot.forward_dynamics(pair.q, pair.v, pair.tau), pair.v, pair.q)
    for i in range(SAMPLES):
        assert_agrees(a[i], np.array(pair.at(i).qacc))


def test_poses(pair: Pair) -> None:
    """Of every body and every site, none left out."""
    model = pair.other.model
    assert len(pair.other.frames) == model.nbody + model.nsite
    poses = pair.robot.pose(pair.q, pair.other.frames)
    for i in range(SAMPLES):
        assert_agrees(poses[i], pair.other.read_poses(pair.at(i)))


def test_jacobians(pair: Pair) -> None:
    data, q = pair.at(0), pair.q[0]
    for frame in pair.other.frames:
        what, number = pair.other.frame_id(frame)
        expected = np.zeros((6, pair.robot.nv))
        function = {"body": mujoco.mj_jacBody, "site": mujoco.mj_jacSite}[what]
        function(pair.other.model, data, expected[:3], expected[3:], number)
        J = pair.robot.jacobian(q, frame, reference="local_world_aligned")
        assert_agrees(pair.other.to_jacobian(J, q), expected)


def test_configurations_are_qpos(pair: Pair) -> None:
    assert np.array_equal(pair.other.to_q(pair.q), pair.q)


# -- what the files say ------------------------------------------------------------------------------------------------


def test_limits_and_friction_are_kept() -> None:
    robot = make("degrees and limits").robot
    first, second = robot.joints
    assert first.name == "elbow"
    assert first.limits.lower == pytest.approx((-np.pi / 2,))
    assert first.limits.upper == pytest.approx((np.pi / 4,))
    assert second.limits.effort == (5.0,)
    ball = make("armature").robot.joints[-1]
    assert ball.kind == "spherical"
    assert np.array_equal(ball.armature, [0.1] * 3)
    assert np.array_equal(ball.damping, [3.0] * 3)
    assert np.array_equal(ball.friction, [0.2] * 3)


EFFORTS = {
    "one motor": ('<motor joint="a" forcerange="-2 3" gear="-4"/>', 12.0),
    "a servo": ('<position joint="a" kp="1e3" forcerange="-87 87"/>', 87.0),
    "in the parent's axes": ('<velocity jointinparent="a" kv="1e3" forcerange="-5 6" gear="2"/>', 12.0),
    "of its class": ('<position class="strong" joint="a" kp="1e3"/>', 60.0),
    "its own before that of its class": ('<position class="strong" joint="a" kp="1e3" forcerange="-7 7"/>', 21.0),
    "told not to have one": ('<motor class="strong" joint="a" forcelimited="false"/>', np.inf),
    "two at one joint": ('<motor joint="a" forcerange="-1 3" gear="2"/><motor joint="a" forcerange="-4 1"/>', 7.0),
    "two that face each other": (
        '<motor joint="a" forcerange="-2 3" gear="-4"/><motor joint="a" forcerange="-1 5"/>',
        13.0,
    ),
    "one of two without": ('<motor joint="a" forcerange="-1 3"/><motor joint="a"/>', np.inf),
    "a gear of zero": ('<motor joint="a" forcerange="-1 3"/><motor joint="a" gear="0"/>', 3.0),
    "within that of the joint": ('<motor joint="bounded" forcerange="-9 9"/>', 5.0),
    "narrower than that of the joint": ('<motor joint="bounded" forcerange="-1 2"/>', 2.0),
    "without, at a joint that has one": ('<motor joint="bounded"/>', 5.0),
    "at a tendon": ('<motor tendon="t" forcerange="-1 1"/>', np.inf),
    "at a site": ('<motor site="s" forcerange="-1 1"/>', np.inf),
    "infinite": ('<motor joint="a" forcerange="-inf inf"/>', np.inf),
    "none": ("", np.inf),
}


@pytest.mark.parametrize("case", EFFORTS)
@pytest.mark.parametrize("automatic", [True, False])
def test_efforts_are_the_largest_that_actuators_exert(case: str, automatic: bool) -> None:
    """Those of the whole file as MuJoCo compiles it, and what it exerts on the joint when all are driven hard."""
    actuators, expected = EFFORTS[case]
    rest = (
        '<default><default class="strong"><general forcerange="-20 10" gear="3"/></default></default>'
        '<tendon><fixed name="t"><joint joint="a" coef="1"/></fixed></tendon>'
        f"<actuator>{actuators}</actuator>"
    )
    joints = '<joint name="a" axis="0 1 0"/><joint name="bounded" axis="1 0 0" actuatorfrcrange="-3 5"/>'
    compiler = 'angle="radian"'
    if not automatic:
        told = 'forcelimited="true" forcerange'
        rest = rest.replace('forcelimited="false"', "").replace("forcerange", told)
        rest = rest.replace('class="strong" joint="a" />', 'class="strong" joint="a" forcelimited="false"/>')
        joints = joints.replace("actuatorfrcrange", 'actuatorfrclimited="true" actuatorfrcrange')
        compiler += ' autolimits="false"'
    text = file(body("link", joints + '<site name="s"/>'), rest, compiler)
    model = mujoco.MjModel.from_xml_string(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        robot, whole = kt.load(text), kt.from_mujoco(model)
    at = 1 if "bounded" in actuators else 0
    assert robot.effort_limits[at] == whole.effort_limits[at] == expected
    assert np.array_equal(robot.effort_limits, whole.effort_limits)
    data, exerted = mujoco.MjData(model), 0.0
    for sign in (-1.0, 1.0):
        data.ctrl[:] = sign * 1e9 * np.sign(model.actuator_gear[:, 0])
        mujoco.mj_forward(model, data)
        exerted = max(exerted, abs(data.qfrc_actuator[at]))
    if np.isfinite(expected):
        assert exerted == expected
    else:
        assert not actuators or exerted > 1e6 or "-1 1" in actuators  # limited, but not at the joint


def test_efforts_of_dc_motors_are_those_that_mujoco_derives() -> None:
    text = file(
        body("link", '<joint name="a" axis="0 1 0"/><joint name="b" axis="1 0 0"/><joint name="c" axis="0 0 1"/>'),
        '<default><default class="small"><dcmotor motorconst=".1" resistance="1" saturation="7"/></default></default>'
        '<actuator><dcmotor joint="a" motorconst=".1" resistance="1" saturation="0 2 3" gear="50"/>'
        '<dcmotor class="small" joint="b" gear="2"/><dcmotor joint="c" nominal="12 3 4"/></actuator>',
    )
    robot = kt.load(text)
    assert robot.effort_limits == pytest.approx([10.0, 14.0, np.inf], rel=1e-15)


def test_every_body_and_joint_has_a_name() -> None:
    robot = make("names that clash or are missing").robot
    assert [joint.name for joint in robot.joints] == ["joint0 (2)", "joint0"]
    assert robot.frames == ("world", "joint1", "body2", "body3", "joint1 (site)", "world (site)", "site2")


def test_the_start_is_not_neutral() -> None:
    pair = make("free bodies in a forest")
    q = pair.other.from_q(pair.other.model.qpos0)
    assert np.allclose(pair.robot.pose(q, ["one"])[0, :3, 3], [1, 2, 3], rtol=1e-13)
    assert np.allclose(pair.robot.pose(pair.robot.neutral(), ["one"])[0], np.eye(4), rtol=1e-13)


def test_what_is_not_modelled_is_listed_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "kinetree"), pytest.warns(ModelWarning) as caught:
        robot = kt.load(MODELS["MuJoCo's own"], loops="ignore")
    assert len(caught) == 1
    assert "left out: actuators (10); softness of contacts" in caplog.text  # as most files have: no warning
    message = str(caught[0].message)
    for part in (
        "model.xml: Kinetree does not model",
        'equality constraints, left out; loops="embed" or "multipliers" keeps those of joints and bodies (1)',
        "tendons (1)",  # the other one is an actuator's
        "air or water",
    ):
        assert part in message
    for part in ("actuators", "contacts", "damping", "spring", "gravity"):
        assert part not in message
    assert np.count_nonzero([body.gravity_compensation for body in robot.bodies]) == 1
    model = mujoco.MjModel.from_xml_path(str(MODELS["MuJoCo's own"]))
    with pytest.warns(ModelWarning, match="Kinetree does not model equality constraints, left out"):
        kt.from_mujoco(model, loops="ignore")
    # the file welds a free body to the world, which leaves nothing to embed
    refused('any freedom.*loops="multipliers".*loops="ignore"', kt.load, MODELS["MuJoCo's own"], error=LoadError)


def test_armature_of_free_joints_is_told() -> None:
    """The mass matrix agrees; what turning axes make of it does not."""
    text = file(body("a", '<joint name="loose" type="free" armature="1"/>'))
    with pytest.warns(ModelWarning, match=r"armature along world axes.*\(loose\)"):
        robot = kt.load(text)
    model = mujoco.MjModel.from_xml_string(text)
    other, data = kt.interop.mujoco(robot, model), mujoco.MjData(model)
    q = robot.random_configuration(0)
    data.qpos[:] = q
    mujoco.mj_forward(model, data)
    expected = np.zeros((6, 6))
    mujoco.mj_fullM(model, data, expected)
    assert_agrees(other.to_matrix(robot.mass_matrix(q), q), expected)


def test_mocap_bodies_stay_and_flexible_ones_are_told() -> None:
    text = file(
        '<body name="hand" mocap="true" pos="0 0 1"><geom size=".1"/></body>' + body("a", '<joint axis="0 1 0"/>'),
    )
    with pytest.warns(ModelWarning, match=r"mocap bodies, which stay where they are \(1\)"):
        robot = kt.load(text)
    assert robot.joint(robot.body("hand").joint).kind == "fixed"


# -- options of load ---------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::kinetree.errors.ModelWarning")
def test_options() -> None:
    text = file(
        body("base", body("left", '<joint name="l" axis="0 1 0"/>') + body("right", '<joint name="r" axis="0 1 0"/>'))
    )
    floating = kt.load(text, floating_base=True)
    assert [joint.kind for joint in floating.joints] == ["floating", "revolute", "revolute"]
    assert floating.joints[0].name == "root_joint"
    assert [joint.name for joint in kt.load(text, joint_order=["r", "l"]).joints] == ["r", "l"]
    assert [joint.name for joint in kt.load(text, lock={"l": 0.3}).joints] == ["r"]
    assert np.array_equal(kt.load(text, gravity=(0, 0, -1)).gravity, [0, 0, -1])
    rooted = kt.load(text, root="left")
    assert rooted.frames == ("world", "left")
    assert rooted.nv == 0
    assert kt.load(text, root="left", floating_base=True).nv == 6
    with pytest.raises(InputError, match="joint_order has"):
        kt.load(file(body("a", '<joint name="x"/>' + body("b", '<joint name="y"/>'))), joint_order=["y", "x"])
    refused("no body .needed as root. is called 'middle'", kt.load, text, root="middle", error=UnknownNameError)


@pytest.mark.filterwarnings("ignore::kinetree.errors.ModelWarning")
def test_what_floats_already_floats() -> None:
    text = MODELS["free bodies in a forest"]
    assert kt.load(text, floating_base=True) == kt.load(text)
    refused("no fixed root body", kt.load, MODELS["hinges"], floating_base=True, error=LoadError)


def test_masses_and_lengths_whose_products_overflow() -> None:
    far = '<body pos="9e99 0 0"><geom type="sphere" size="1e40" density="1"/></body>'
    with pytest.raises(LoadError, match="its numbers are too large; correct them"):
        kt.load(file(f'<body name="b"><joint/><geom type="sphere" size="1"/>{far}</body>'))


def test_nodes_are_made_when_a_function_needs_them_unless_numbers_might_overflow() -> None:
    text = file('<body name="b" pos="1 0 0"><joint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>')
    assert "_assembled" not in vars(kt.load(text))
    assert "_assembled" in vars(kt.load(text.replace('mass="1"', 'mass="1e70"')))


def test_an_empty_world() -> None:
    robot = kt.load('<mujoco><worldbody><site name="here" pos="1 2 3"/></worldbody></mujoco>')
    assert robot.nv == 0
    assert robot.frames == ("world", "here")


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("<mujoco/>", 1, "there are no bodies"),
        ("<mujoco>\n<worldbody/></mujoco>", 1, "there are no bodies"),
        ('<mujoco><default><joint damping="1"/></default><asset/></mujoco>', 1, "there are no bodies"),
        ('<mujoco>\n<actuator>\n<motor joint="a"/></actuator></mujoco>', 3, "<actuator> names parts of bodies"),
        ('<mujoco>\n<keyframe>\n<key qpos="1 2"/></keyframe></mujoco>', 3, "<keyframe> names parts of bodies"),
        ('<mujoco><sensor><jointpos joint="a"/></sensor></mujoco>', 1, "<sensor> names parts of bodies"),
        ('<mujoco><contact><exclude body1="a" body2="b"/></contact></mujoco>', 1, "<contact> names parts of bodies"),
        ('<mujoco><equality><joint joint1="a"/></equality></mujoco>', 1, "<equality> names parts of bodies"),
        ('<mujoco><tendon><fixed><joint joint="a" coef="1"/></fixed></tendon></mujoco>', 1, "<tendon> names parts"),
        (
            '<mujoco><worldbody><geom size="1"/></worldbody><actuator><motor joint="a"/></actuator></mujoco>',
            1,
            "<actuator> names parts of bodies",
        ),
    ],
)
def test_parts_of_models_are_refused(text: str, line: int, problem: str) -> None:
    """MuJoCo misses what they name; what has nothing in its world is no robot either."""
    if "names" in problem:
        refused("Error", mujoco.MjModel.from_xml_string, text, error=ValueError)
    caught = refused(f"{problem}.*: this is part of a model, to be included by others", kt.load, text, error=LoadError)
    assert caught.line == line


def test_bodies_may_come_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "part.xml").write_text('<mujoco><actuator><motor joint="a"/></actuator></mujoco>')
    whole = tmp_path / "whole.xml"
    whole.write_text(file(body("link", '<joint name="a"/>'), '<include file="part.xml"/>'))
    assert kt.load(whole).nv == 1
    refused("to be included by others", kt.load, tmp_path / "part.xml", error=LoadError)
    # all bodies of this one are attached
    asset, drive = '<asset><model name="m" file="link.xml"/></asset>', '<actuator><motor joint="pa"/></actuator>'
    whole.write_text(file('<attach model="m" body="link" prefix="p"/>', asset + drive))
    (tmp_path / "link.xml").write_text(file(body("link", '<joint name="a"/>')))
    assert kt.load(whole).nv == 1


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("<mujoco>\n<worldbody>\n<bdy/></worldbody></mujoco>", 3, "unrecognized element"),
        ("<mujoco><worldbody>\n<body></worldbody></mujoco>", 2, "tag mismatch"),
        ('<mujoco><worldbody>\n<body name="a"><joint/></body></worldbody></mujoco>', 2, "mass and inertia"),
        ('<mujoco><include file="nowhere.xml"/></mujoco>', None, "nowhere.xml"),
    ],
)
def test_files_that_mujoco_refuses(text: str, line: int | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.xml"
    path.write_text(text)
    for source, name in ((path, str(path)), (text, "<string>")):
        caught = refused(message, kt.load, source, error=LoadError)
        assert caught.file == name
        if line is not None:
            assert caught.line == line


@pytest.mark.parametrize(
    "inside",
    [
        '<replicate count="100000000"><body><geom size=".1"/></body></replicate>',
        '<!-- <replicate count="9"> -->\n<replicate count="99">\n<replicate count="99"><site/></replicate></replicate>',
        '<replicate offset="1 0 0"\nsep=">" count="99999"><site/></replicate>',
        '<replicate count="&#57;9999"><site/></replicate>',
        "\n".join(['<replicate count="900"><site/></replicate>'] * 3),
        '<replicate count="999999999"/>',
    ],
)
def test_too_many_copies_are_refused(inside: str) -> None:
    caught = refused("copies included, to .*, more than 4000.*from_mujoco", kt.load, file(inside), error=LoadError)
    assert caught.line == (inside.count("\n") + 1 if "sep" not in inside else 2)


@pytest.mark.parametrize("count", ["", "two", "1.5", "-3", "1 2", "9999999999"])
def test_a_number_of_copies_is_a_number(count: str) -> None:
    with pytest.raises(LoadError, match="is not a number of copies"):
        kt.load(file(f'<replicate count="{count}"><site/></replicate>'))


@pytest.mark.parametrize("tag", ["flexcomp", "composite"])
def test_bodies_made_of_what_bends_are_refused(tag: str) -> None:
    with pytest.raises(LoadError, match=f"<{tag}> makes bodies of what bends.*from_mujoco"):
        kt.load(file(f'<{tag} name="cloth" type="grid" count="10 10 1" spacing="1 1 1"/>'))


def test_copies_side_by_side_are_not_multiplied() -> None:
    copies = '<replicate count="50" sep="-"><body name="b{}" pos="{} 0 0"><geom size=".1"/></body></replicate>'
    robot = kt.load(file("".join(copies.format(i, i) for i in range(2)), '<option><flag contact="disable"/></option>'))
    assert len(robot.bodies) == 100


def test_warnings_of_the_compiler_are_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They write no log file, and the user's own handler comes back."""

    def compiled(text: str, assets: dict[str, bytes]) -> Any:
        mujoco.get_mju_user_warning()("the world\n is flat")
        return mujoco.MjModel.from_xml_string(text, assets)

    monkeypatch.chdir(tmp_path)
    stub = SimpleNamespace(**{**vars(mujoco), "MjModel": SimpleNamespace(from_xml_string=compiled)})
    monkeypatch.setitem(sys.modules, "mujoco", stub)
    handler = mujoco.get_mju_user_warning()
    with pytest.warns(ModelWarning, match="MuJoCo warns: the world is flat"):
        kt.load(file('<body><joint/><geom size=".1"/></body>'))
    assert not list(tmp_path.iterdir())
    assert mujoco.get_mju_user_warning() is handler


def test_concurrent_loads_give_the_handler_back() -> None:
    handler = mujoco.get_mju_user_warning()
    text = chain(*['<joint axis="0 1 0"/>'] * 6, rest='<option><flag contact="disable"/></option>')
    with ThreadPoolExecutor(8) as pool:
        robots = list(pool.map(lambda _: kt.load(text), range(60)))
    assert all(robot == robots[0] for robot in robots)
    assert mujoco.get_mju_user_warning() is handler


def test_includes_are_read_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "arm.xml").write_text(
        '<mujocoinclude><body name="arm"><geom size=".1"/><joint/></body></mujocoinclude>'
    )
    path = tmp_path / "scene.xml"
    path.write_text('<mujoco><worldbody><include file="arm.xml"/></worldbody></mujoco>')
    assert kt.load(path).frames == ("world", "arm")


def test_without_mujoco_the_way_to_install_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    caught = refused(r"not installed.*pip install", kt.load, "<mujoco/>", error=LoadError)
    assert loader.INSTALL in str(caught)
