"""SDF: poses by the rules of the specification, defaults, and errors that name the line."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import LoadError, ModelWarning
from kinetree.spatial.rotation import exp_matrix
from tests.fuzz.mutations import NUMBERS, Dialect, mutated
from tests.fuzz.run import fault_of
from tests.tolerance import assert_close, bound
from tests.unit.io.test_urdf import quiet

Array = np.ndarray[Any, np.dtype[np.float64]]

INERTIAL = "<inertial><mass>2</mass><inertia><ixx>1</ixx><iyy>1</iyy><izz>1</izz></inertia></inertial>"


def sdf(*parts: str, attributes: str = "", version: str = "1.9") -> str:
    return f'<sdf version="{version}"><model name="m" {attributes}>' + "\n".join(parts) + "</model></sdf>"


def link(name: str, inside: str = "") -> str:
    return f'<link name="{name}">{INERTIAL if "<inertial" not in inside else ""}{inside}</link>'


def joint(name: str, parent: str, child: str, kind: str = "revolute", inside: str = "") -> str:
    axis = "" if kind in ("fixed", "ball") or "<axis" in inside else "<axis><xyz>0 0 1</xyz></axis>"
    ends = f"<parent>{parent}</parent><child>{child}</child>"
    return f'<joint name="{name}" type="{kind}">{ends}{axis}{inside}</joint>'


def pose_of(numbers: Array) -> Array:
    """From x y z roll pitch yaw."""
    x, y, z = (exp_matrix(angle * axis) for angle, axis in zip(numbers[3:], np.eye(3), strict=True))
    placement = np.eye(4)
    placement[:3, :3], placement[:3, 3] = z @ y @ x, numbers[:3]
    return placement


def text_of(numbers: Array) -> str:
    return " ".join(map(repr, numbers.tolist()))


@pytest.mark.parametrize("seed", range(6))
def test_poses_of_a_random_tree(seed: int) -> None:
    """Links placed in the model, joints off their children's origins, axes in several frames."""
    rng = np.random.default_rng(seed)
    model = rng.uniform(-1, 1, 6)
    parents = [None, 0, 1, 1, 3]
    kinds = [None, "revolute", "prismatic", "revolute", "continuous"]
    links, joints, axes = rng.uniform(-1, 1, (5, 6)), rng.uniform(-1, 1, (5, 6)), rng.uniform(-1, 1, (5, 3))
    expressed = ["", "", 'expressed_in="__model__"', 'expressed_in="l0"', ""]
    parts = [f"<pose>{text_of(model)}</pose>", *(link(f"l{i}", f"<pose>{text_of(links[i])}</pose>") for i in range(5))]
    for i in range(1, 5):
        axis = f"<axis><xyz {expressed[i]}>{text_of(axes[i])}</xyz></axis>"
        parts.append(
            joint(f"j{i}", f"l{parents[i]}", f"l{i}", str(kinds[i]), f"{axis}<pose>{text_of(joints[i])}</pose>")
        )
    parts.append('<frame name="tip" attached_to="l4"><pose>0 0 .5 0 0 0</pose></frame>')
    robot = quiet(sdf(*parts))
    q = robot.random_configuration(rng)
    # in the model's frame, everything where the file puts it; then each joint moves all that it carries
    placed = [pose_of(numbers) for numbers in links]
    where = [np.eye(4)] * 5
    order = {found.name: q[found.q_start] for found in robot.joints}
    for i in range(1, 5):
        hinge = placed[i] @ pose_of(joints[i])
        frame = {"": hinge, 'expressed_in="__model__"': np.eye(4), 'expressed_in="l0"': placed[0]}[expressed[i]]
        axis = frame[:3, :3] @ axes[i] / np.linalg.norm(axes[i])
        motion, shift = np.eye(4), np.eye(4)
        shift[:3, 3] = hinge[:3, 3]
        if kinds[i] == "prismatic":
            motion[:3, 3] = axis * order[f"j{i}"]
        else:
            motion[:3, :3] = exp_matrix(axis * order[f"j{i}"])
        above = where[parents[i] or 0]
        where[i] = above @ shift @ motion @ np.linalg.inv(shift)
    for i in range(5):
        expected = pose_of(model) @ where[i] @ placed[i]
        assert_close(robot.pose(q, f"l{i}"), expected, bound(robot.nv))
    tip = np.eye(4)
    tip[2, 3] = 0.5
    assert_close(robot.pose(q, "tip"), pose_of(model) @ where[4] @ placed[4] @ tip, bound(robot.nv))


def test_the_same_robot_as_a_urdf() -> None:
    urdf = quiet(
        """<robot name="m"><link name="base"/>
        <link name="a"><inertial><origin xyz=".1 .2 .3" rpy=".1 .2 .3"/><mass value="2"/>
          <inertia ixx="1" iyy="2" izz="2.5" ixy=".1" ixz="0" iyz="0"/></inertial></link>
        <joint name="j" type="revolute"><parent link="base"/><child link="a"/><origin xyz="0 0 1" rpy=".3 0 .1"/>
          <axis xyz="0 1 0"/><limit lower="-1" upper="2" velocity="3" effort="4"/><dynamics damping=".1" friction=".2"/>
        </joint></robot>"""
    )
    robot = quiet(
        sdf(
            link("base", "<inertial><mass>0</mass><inertia><ixx>0</ixx><iyy>0</iyy><izz>0</izz></inertia></inertial>"),
            link(
                "a",
                "<pose>0 0 1 .3 0 .1</pose><inertial><pose>.1 .2 .3 .1 .2 .3</pose><mass>2</mass>"
                "<inertia><ixx>1</ixx><iyy>2</iyy><izz>2.5</izz><ixy>.1</ixy></inertia></inertial>",
            ),
            joint(
                "j", "base", "a", "revolute",
                "<axis><xyz>0 1 0</xyz><limit><lower>-1</lower><upper>2</upper><velocity>3</velocity>"
                "<effort>4</effort></limit><dynamics><damping>.1</damping><friction>.2</friction></dynamics></axis>",
            ),
        )
    )  # fmt: skip
    assert robot.joints[0].limits == urdf.joints[0].limits
    assert (robot.joints[0].damping, robot.joints[0].friction) == (0.1, 0.2)
    q, v, a = np.array([0.4]), np.array([0.5]), np.array([0.6])
    assert_close(robot.inverse_dynamics(q, v, a), urdf.inverse_dynamics(q, v, a), bound(1))
    assert_close(robot.body("a").inertia, urdf.body("a").inertia, bound(1))


def test_what_the_specification_says_where_the_file_does_not() -> None:
    with pytest.warns(ModelWarning, match="with 1 kg and unit inertia as the specification says: link 'a'"):
        robot = kt.load(sdf('<link name="a"/>'))
    assert (robot.body("a").mass, robot.body("a").inertia.tolist()) == (1.0, np.eye(3).tolist())
    robot = quiet(sdf(link("a"), link("b"), joint("j", "a", "b", inside="<axis/>")))
    assert robot.joints[0].axes.tolist() == [[0.0, 0.0, 1.0]]
    assert robot.joints[0].limits == kt.Limits((-np.inf,), (np.inf,), (np.inf,), (np.inf,))


def test_relative_poses_frames_and_formats() -> None:
    robot = quiet(
        sdf(
            '<frame name="f" attached_to="a"><pose degrees="true">1 0 0 0 0 90</pose></frame>',
            link("a", "<pose>0 0 1 0 0 0</pose>"),
            link("b", '<pose relative_to="f">1 0 0 0 0 0</pose>'),
            link("c", '<pose relative_to="b" rotation_format="quat_xyzw">0 0 1 0 0 1 1</pose>'),
            joint("j", "a", "b", "fixed"),
            joint("k", "f", "c", "fixed"),
        )
    )
    q = robot.neutral()
    np.testing.assert_allclose(robot.pose(q, "f")[:3, 3], [1, 0, 1], rtol=1e-12)
    np.testing.assert_allclose(robot.pose(q, "b")[:3, 3], [1, 1, 1], rtol=1e-12)
    np.testing.assert_allclose(robot.pose(q, "c")[:3, 3], [1, 1, 2], rtol=1e-12)
    np.testing.assert_allclose(robot.pose(q, "c")[:3, 0], [-1, 0, 0], rtol=0, atol=1e-15)


def test_kinds_roots_and_options() -> None:
    parts = (link("a"), link("b"), link("c"), joint("j", "a", "b", "ball"), joint("u", "b", "c", "universal",
             "<axis><xyz>1 0 0</xyz></axis><axis2><xyz>0 1 0</xyz></axis2>"))  # fmt: skip
    robot = quiet(sdf(*parts))
    assert [found.kind for found in robot.joints] == ["spherical", "universal"]
    assert quiet(sdf(*parts), floating_base=True).joints[0].name == "root_joint"
    assert quiet(sdf(*parts), root="b").nv == 2
    assert quiet(sdf(*parts), lock={"u": [0.1, 0.2]}).nv == 3
    held = quiet(sdf(*parts, joint("w", "world", "a", "prismatic")))
    assert [found.name for found in held.joints] == ["w", "j", "u"]
    world = f'<sdf version="1.9"><world name="w"><gravity>0 0 -1.6</gravity>{sdf(*parts)[19:-6]}</world></sdf>'
    assert quiet(world).gravity.tolist() == [0.0, 0.0, -1.6]
    mimic = joint("n", "a", "d", inside='<axis><mimic joint="w"><multiplier>2</multiplier><reference>1</reference>'
                  "<offset>.5</offset></mimic></axis>")  # fmt: skip
    with pytest.warns(ModelWarning, match=r"n = 2·w \+ -1.5"):
        kt.load(sdf(*parts, joint("w", "world", "a"), link("d"), mimic), mimic="independent")
    coupled = quiet(sdf(*parts, joint("w", "world", "a"), link("d"), mimic))
    assert coupled.q_to_dict(coupled.q_from_dict({"w": 0.25}))["n"] == -1.0


@pytest.mark.parametrize(
    ("parts", "line", "message"),
    [
        ([link("a"), link("a")], 2, "the name 'a' is taken"),
        ([link("a"), joint("a", "a", "a")], 2, "the name 'a' is taken"),
        ([link("a"), joint("j", "a", "b")], 2, "'b' is not a link of the model"),
        ([link("a"), joint("j", "a", "world")], 2, "is the world; swap parent and child"),
        ([link("a"), link("b"), joint("j", "a", "b", "screw")], 3, "is of type 'screw'; Kinetree reads revolute"),
        ([link("a"), link("b"), '<joint name="j" type="revolute"><parent>a</parent></joint>'], 3, "has no <child>"),
        ([link("a"), link("b"), '<joint name="j" type="revolute"><parent>a</parent><child>b</child></joint>'], 3,
         "too few axes"),
        ([link("a", "<pose>1 2 3</pose>")], 1, "<pose> '1 2 3' is not 6 numbers"),
        ([link("a", "<pose>1 2 3 0 0 nan</pose>")], 1, "not finite"),
        ([link("a", '<pose relative_to="b"/>'), joint("j", "world", "a")], 1, "'b' is not a link, joint or frame"),
        ([link("a", '<pose relative_to="b"/>'), link("b", '<pose relative_to="a"/>')], 1, "in a circle"),
        (['<frame name="f" attached_to="g"/>', '<frame name="g" attached_to="f"/>', link("a")], 1, "in a circle"),
        ([link("a", "<inertial auto='true'/>")], 1, "is not computed"),
        ([link("a", "<inertial><mass>heavy</mass></inertial>")], 1, "<mass> 'heavy' is not one number"),
        ([link("a"), link("b"), joint("j", "a", "b", inside="<axis><xyz>0 0 0</xyz></axis>")], 3, "axis is zero"),
        ([link("a"), '<model name="n"/>'], 2, "<model> in <model> is not read; write it out with: gz sdf -p"),
        ([link("a"), "<include><uri>model://x</uri></include>"], 2, "gz sdf -p"),
        ([link("a"), link("b"), joint("j", "a", "b"), joint("k", "b", "a")], 3, "cycle"),
    ],
)  # fmt: skip
def test_files_that_are_refused(parts: list[str], line: int, message: str) -> None:
    with pytest.raises(LoadError, match=message) as caught:
        quiet(sdf(*parts))
    assert caught.value.line in (line, line + 1)


def test_one_model_in_a_file() -> None:
    for text, message in {
        "<sdf/>": "has 0 models",
        '<sdf><model name="a"/><model name="b"/></sdf>': r"has 2 models \('a', 'b'\); keep one",
        "<sdf><world><include><uri>x</uri></include></world></sdf>": "nothing is fetched",
    }.items():
        with pytest.raises(LoadError, match=message):
            kt.load(text)
    with pytest.raises(LoadError, match="joint 'w' holds the model to the world, so it cannot float"):
        quiet(sdf(link("a"), joint("w", "world", "a")), floating_base=True)


def test_what_is_not_read_is_noted() -> None:
    text = sdf(
        "<statc>1</statc>",
        "<static>true</static>",
        link("a", "<gravity>false</gravity><visual/>"),
        link("b"),
        joint("j", "a", "b", inside="<axis><dynamics><spring_stiffness>2</spring_stiffness></dynamics></axis>"),
    )
    with pytest.warns(ModelWarning) as caught:
        robot = kt.load(text)
    assert robot.stiffness.tolist() == [2.0]
    told = " ".join(str(warning.message) for warning in caught)
    for part in (
        "<statc> in <model>",
        "<static>: joints of the model move",
        "gravity acts on link 'a'",
    ):
        assert part in told


@pytest.mark.parametrize(
    "part",
    [
        "<world name='w'><gravty>0 0 0</gravty>MODEL</world>",
        "<model name='m'><lnk name='x'/>LINKS</model>",
        "<model name='m'><link name='x'><pse/></link>LINKS</model>",
        "<model name='m'><frame name='x'><pse/></frame>LINKS</model>",
        "<model name='m'>LINKS JOINT<axs/><axis/></joint></model>",
        "<model name='m'>LINKS JOINT<axis><limit><lowr>1</lowr></limit></axis></joint></model>",
        "<model name='m'>LINKS JOINT<axis><dynamics><dampng>1</dampng></dynamics></axis></joint></model>",
    ],
)
def test_what_is_misspelt_is_noted(part: str) -> None:
    links = link("a") + link("b")
    opened = "<joint name='j' type='revolute'><parent>a</parent><child>b</child>"
    text = part.replace("MODEL", f"<model name='m'>{links}</model>").replace("LINKS", links).replace("JOINT", opened)
    with pytest.warns(ModelWarning) as caught:
        kt.load(f"<sdf version='1.9'>{text}</sdf>")
    assert any("not read, check the spelling" in str(warning.message) for warning in caught)


SEED = sdf(
    "<pose>0 0 1 0 0 .1</pose>", link("a"), link("b", "<pose>0 0 .5 0 0 0</pose>"),
    link("c", '<pose relative_to="b"/>'),
    joint("j", "a", "b", inside="<pose>.1 0 0 0 0 0</pose>"), joint("k", "b", "c", "universal",
    "<axis><xyz>1 0 0</xyz></axis><axis2><xyz expressed_in='a'>0 1 0</xyz></axis2>"),
    '<frame name="f" attached_to="k"><pose>0 0 .1 0 0 0</pose></frame>',
)  # fmt: skip
SDF = Dialect(
    tags=(
        "sdf",
        "model",
        "world",
        "link",
        "joint",
        "frame",
        "pose",
        "axis",
        "xyz",
        "parent",
        "child",
        "inertial",
        "mass",
    ),
    types=("revolute", "prismatic", "fixed", "ball", "universal", "screw", "continuous"),
    elements=("link", "joint", "frame", "pose", "axis", "inertial"),
    root="<sdf",
    inside="<link",
    numbers=NUMBERS,
    values=("world", "__model__", "a", ""),
)


@pytest.mark.parametrize("block", range(4))
def test_spoilt_files(block: int) -> None:
    for seed in range(block * 150, (block + 1) * 150):
        rng = random.Random(seed)
        outcome, wrong = fault_of(mutated(rng, (SEED,), SDF), {"floating_base": rng.random() < 0.3})
        assert wrong is None, f"seed {seed}: {outcome}: {wrong}"
