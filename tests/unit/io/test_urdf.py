"""URDF files: what is read from them, what is said about them, and how they are refused."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, LoadError, ModelWarning, SingularMechanismError, UnknownNameError

INERTIAL = '<inertial><mass value="2"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>'
LIMIT = '<limit lower="-1" upper="2" velocity="3" effort="4"/>'


def link(name: str, inside: str = INERTIAL) -> str:
    return f'<link name="{name}">{inside}</link>'


def joint(name: str, parent: str, child: str, kind: str = "revolute", inside: str = LIMIT) -> str:
    return f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{inside}</joint>'


def robot(*parts: str) -> str:
    """One part a line, the first one in line 2."""
    return "\n".join(['<robot name="r">', *parts, "</robot>"])


def arm(kind: str = "revolute", inside: str = LIMIT) -> str:
    return robot(link("base"), link("tip"), joint("j", "base", "tip", kind, inside))


def quiet(source: Any, **options: Any) -> kt.Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return kt.load(source, **options)


def turn(roll: float, pitch: float, yaw: float) -> Any:
    """Elementary rotations multiplied, as an oracle of rpy."""
    (sr, sp, sy), (cr, cp, cy) = np.sin([roll, pitch, yaw]), np.cos([roll, pitch, yaw])
    about_x = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    about_y = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    about_z = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    return about_z @ about_y @ about_x


# -- what is read ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kind", "nq", "nv"),
    [
        ("revolute", "revolute", 1, 1),
        ("continuous", "revolute", 1, 1),
        ("prismatic", "prismatic", 1, 1),
        ("fixed", "fixed", 0, 0),
        ("floating", "floating", 7, 6),
        ("planar", "planar", 3, 3),
        ("spherical", "spherical", 4, 3),
        ("ball", "spherical", 4, 3),
    ],
)
def test_joint_types(given: str, kind: str, nq: int, nv: int) -> None:
    inside = LIMIT if given in ("revolute", "prismatic", "continuous") else ""
    model = kt.load(arm(given, inside + '<dynamics damping="0.5" friction="0.25"/>'))
    found = model.joint("j")
    assert (found.kind, model.nq, model.nv) == (kind, nq, nv)
    assert found.damping.tolist() == [0.5] * nv
    assert found.friction.tolist() == [0.25] * nv
    assert (found.parent, found.child) == ("base", "tip")
    assert set(model.frames) == {"world", "base", "tip"}


def test_limits() -> None:
    limits = kt.load(arm()).joint("j").limits
    assert (limits.lower, limits.upper, limits.velocity, limits.effort) == ((-1.0,), (2.0,), (3.0,), (4.0,))
    turning = kt.load(arm("continuous")).joint("j").limits
    assert (turning.lower, turning.upper, turning.velocity) == ((-np.inf,), (np.inf,), (3.0,))
    # the specification's defaults
    short = kt.load(arm(inside='<limit effort="1" velocity="1"/>')).joint("j").limits
    assert (short.lower, short.upper) == ((0.0,), (0.0,))
    endless = (
        kt.load(arm(inside='<limit lower="-1e16" upper="1.7976931348623157e+308" effort="inf"/>')).joint("j").limits
    )
    assert (endless.lower, endless.upper, endless.velocity, endless.effort) == (
        (-np.inf,),
        (np.inf,),
        (np.inf,),
        (np.inf,),
    )


@pytest.mark.parametrize("kind", ["revolute", "prismatic", "planar"])
def test_axes_have_any_length_and_are_x_by_default(kind: str) -> None:
    inside = LIMIT if kind != "planar" else ""
    assert kt.load(arm(kind, inside)).joint("j").axes.tolist() == [[1, 0, 0]]
    for text, axis in (("0 0 -3", (0, 0, -1)), ("1e-200 0 0", (1, 0, 0)), ("3 0 4", (0.6, 0, 0.8))):
        model = kt.load(arm(kind, f'{inside}<axis xyz="{text}"/>'))
        np.testing.assert_allclose(model.joint("j").axes, [axis], rtol=1e-15)


def test_the_axis_of_a_fixed_joint_does_not_matter() -> None:
    assert kt.load(arm("fixed", '<axis xyz="0 0 0"/>')).nv == 0


def test_origins() -> None:
    placed = kt.load(arm(inside=LIMIT + '<origin xyz="1 2 3" rpy="0.3 -0.7 1.1"/>')).joint("j").placement
    np.testing.assert_array_equal(placed[:3, 3], [1, 2, 3])
    np.testing.assert_allclose(placed[:3, :3], turn(0.3, -0.7, 1.1), rtol=0, atol=1e-15)
    half = np.sqrt(0.5)
    quaternion = f'<origin quat_xyzw="{half} 0 0 {half}"/>'
    placed = kt.load(arm(inside=LIMIT + quaternion)).joint("j").placement
    np.testing.assert_allclose(placed[:3, :3], turn(np.pi / 2, 0, 0), rtol=0, atol=1e-15)


def test_inertial_frames() -> None:
    inside = (
        '<inertial><origin xyz="0.1 0.2 0.3" rpy="0.3 -0.7 1.1"/><mass value="3"/>'
        '<inertia ixx="0.3" ixy="0.01" ixz="0.02" iyy="0.25" iyz="0.03" izz="0.2"/></inertial>'
    )
    body = kt.load(robot(link("only", inside))).body("only")
    R = turn(0.3, -0.7, 1.1)
    tensor = np.array([[0.3, 0.01, 0.02], [0.01, 0.25, 0.03], [0.02, 0.03, 0.2]])
    assert body.mass == 3.0
    np.testing.assert_array_equal(body.com, [0.1, 0.2, 0.3])
    np.testing.assert_allclose(body.inertia, R @ tensor @ R.T, rtol=0, atol=1e-16)


def test_fixed_links_are_merged_and_stay_frames() -> None:
    text = robot(
        link("base"), link("arm"), link("hand"), joint("j", "base", "arm"), joint("f", "arm", "hand", "fixed",
        '<origin xyz="1 0 0"/>')
    )  # fmt: skip
    model = kt.load(text)
    assert model.nv == 1
    assert model.mass == 6.0
    assert len(model.mechanism.topology) == 1
    # 0.1 each, and 2 kg at a metre from an axis along x, which it is on
    np.testing.assert_allclose(model.mass_matrix([0.0]), [[0.2]], rtol=1e-13)
    np.testing.assert_allclose(model.pose([0.0], ["hand"])[0, :3, 3], [1, 0, 0], rtol=1e-13)


def test_siblings_keep_the_order_of_their_joints() -> None:
    text = robot(
        link("c"), link("b"), link("a"), link("root"),
        joint("jb", "root", "b"), joint("ja", "root", "a"), joint("jc", "b", "c"),
    )  # fmt: skip
    assert [found.name for found in kt.load(text).joints] == ["jb", "jc", "ja"]


def test_what_has_no_part_in_the_dynamics_is_passed_over_and_never_opened() -> None:
    mesh = '<visual><geometry><mesh filename="package://nowhere/a.stl"/></geometry></visual>'
    text = robot(
        '<material name="red"/><gazebo/><transmission/><sensor/>',
        link("base", INERTIAL + mesh + mesh.replace("visual", "collision")),
        link("tip"),
        joint("j", "base", "tip", inside=LIMIT + '<safety_controller k_velocity="1"/><calibration rising="0"/>'),
    )
    assert kt.load(text).nv == 1


def test_names_of_the_model(tmp_path: Path) -> None:
    assert kt.load(arm()).name == "r"
    file = tmp_path / "nameless.urdf"
    file.write_text(arm().replace(' name="r"', "", 1))
    assert kt.load(file).name == "nameless"
    assert kt.load(str(file)) == kt.load(file)
    assert kt.load(file.read_bytes()).name == "robot"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_encodings(encoding: str, tmp_path: Path) -> None:
    declared = "utf-8" if encoding == "utf-8-sig" else encoding
    text = f'<?xml version="1.0" encoding="{declared}"?>\n' + arm().replace("tip", "Größe")
    file = tmp_path / "robot.urdf"
    file.write_bytes(text.encode(encoding))
    assert "Größe" in kt.load(file).frames
    assert "Größe" in kt.load(text).frames


def test_gravity() -> None:
    assert kt.load(arm()).gravity.tolist() == [0, 0, -9.81]
    assert kt.load(arm(), gravity=(0, 0, -1.62)).gravity.tolist() == [0, 0, -1.62]
    for wrong in (9.81, (1, 2), (0, 0, np.nan), "down"):
        with pytest.raises(InputError, match="gravity"):
            kt.load(arm(), gravity=wrong)


# -- roots -------------------------------------------------------------------------------------------------------------

FOREST = robot(
    link("a"), link("b"), link("a1"), link("b1"), joint("ja", "a", "a1"), joint("jb", "b", "b1"),
)  # fmt: skip


def test_a_floating_base() -> None:
    model = kt.load(arm(), floating_base=True)
    assert [found.name for found in model.joints] == ["root_joint", "j"]
    assert model.joint("root_joint").kind == "floating"
    taken = kt.load(arm().replace('"j"', '"root_joint"'), floating_base=True)
    assert [found.name for found in taken.joints] == ["root_joint_", "root_joint"]


def test_several_roots_make_a_forest() -> None:
    model = kt.load(FOREST)
    assert [found.name for found in model.joints] == ["ja", "jb"]
    assert model.mechanism.topology.parents == (-1, -1)
    floating = kt.load(FOREST, floating_base=True)
    assert [found.name for found in floating.joints] == ["a_root_joint", "ja", "b_root_joint", "jb"]


def test_root_picks_a_tree_or_a_part_of_one() -> None:
    model = kt.load(FOREST, root="b")
    assert (set(model.frames), [found.name for found in model.joints]) == ({"world", "b", "b1"}, ["jb"])
    part = kt.load(FOREST, root="b1", floating_base=True)
    assert (set(part.frames), part.nv) == ({"world", "b1"}, 6)
    with pytest.raises(UnknownNameError, match="link .needed as root. is called 'c'. There are: a, b, a1, b1"):
        kt.load(FOREST, root="c")


def test_a_root_called_world_is_the_world() -> None:
    model = kt.load(arm().replace("base", "world"))
    assert (model.frames, model.joint("j").parent) == (("world", "tip"), "world")


def test_another_link_called_world_is_renamed() -> None:
    with pytest.warns(ModelWarning, match="a link may not be called 'world'.*it is now 'world_link'"):
        model = kt.load(arm().replace("base", "world"), floating_base=True)
    assert model.frames == ("world", "world_link", "tip")
    with pytest.warns(ModelWarning, match="it is now 'world_link_'"):
        model = kt.load(arm().replace("tip", "world").replace("base", "world_link"))
    assert model.frames == ("world", "world_link", "world_link_")


def test_a_robot_without_links_is_nothing_but_the_world() -> None:
    with pytest.warns(ModelWarning, match="there are no links"):
        model = kt.load("<robot/>")
    assert (model.nv, model.frames) == (0, ("world",))


# -- mimic joints and locks --------------------------------------------------------------------------------------------

MIMIC = '<mimic joint="j" multiplier="-2" offset="0.5"/>'
GRIPPER = robot(
    link("base"), link("a"), link("b"), link("c"), joint("j", "base", "a"),
    joint("k", "base", "b", inside=LIMIT + MIMIC), joint("l", "base", "c", inside=LIMIT + '<mimic joint="k"/>'),
)  # fmt: skip


def test_mimic_joints_can_be_coordinates_of_their_own_and_are_listed() -> None:
    with pytest.warns(ModelWarning) as caught:
        model = kt.load(GRIPPER, mimic="independent")
    assert [found.name for found in model.joints] == ["j", "k", "l"]
    (text,) = [str(each.message) for each in caught]
    assert 'mimic="couple"' in text
    assert "k = -2·j + 0.5 (line 7)" in text
    assert "l = 1·k + 0 (line 8)" in text


def test_mimic_joints_can_be_locked() -> None:
    model = kt.load(GRIPPER, mimic="lock")
    assert [found.name for found in model.joints] == ["j"]
    assert model == quiet(GRIPPER, mimic="independent").reduced({"k": 0.5, "l": 0.5})


def test_locked_mimic_joints_follow_locked_joints() -> None:
    assert kt.load(GRIPPER, mimic="lock", lock={"j": 0.1}) == quiet(GRIPPER, mimic="independent").reduced(
        {"j": 0.1, "k": 0.3, "l": 0.3}
    )
    chosen = kt.load(GRIPPER, mimic="lock", lock={"k": 1.0})
    assert chosen == quiet(GRIPPER, mimic="independent").reduced({"k": 1.0, "l": 1.0})
    with pytest.raises(InputError, match="joint 'j' is locked at one real number"):
        kt.load(GRIPPER, mimic="lock", lock={"j": (1.0, 2.0)})


def test_mimicking_what_is_not_there_is_noted() -> None:
    text = arm(inside=LIMIT + '<mimic joint="ghost"/>')
    with pytest.warns(ModelWarning, match="mimic a joint that is not in the file: j = 1·ghost . 0 .line 4"):
        assert kt.load(text).nv == 1
    with pytest.warns(ModelWarning, match="ghost"):
        assert kt.load(text, mimic="lock").nv == 0


def test_joints_that_mimic_each_other_cannot_be_locked() -> None:
    text = arm(inside=LIMIT + '<mimic joint="j"/>')
    with pytest.raises(LoadError, match=":4: joint 'j' mimics itself; delete its <mimic>"):
        kt.load(text, mimic="lock")


def test_locks() -> None:
    assert kt.load(GRIPPER, lock={"j": 0.1, "k": 0.2, "l": 0.3}).nv == 0
    with pytest.raises(UnknownNameError, match="no moving joint is called 'x'"):
        quiet(GRIPPER, lock={"x": 0.0})
    with pytest.raises(InputError, match="mimic='copy' is not known; choose one of 'couple', 'independent', 'lock'"):
        kt.load(GRIPPER, mimic="copy")


# -- orders ------------------------------------------------------------------------------------------------------------

TREE = robot(
    link("root"), link("a"), link("b"), link("aa"), link("ab"),
    joint("a", "root", "a"), joint("b", "root", "b"), joint("aa", "a", "aa"), joint("ab", "a", "ab"),
)  # fmt: skip


@pytest.mark.parametrize(
    "order",
    [("a", "aa", "ab", "b"), ("b", "a", "ab", "aa"), ("b",), ("ab", "b"), ("b", "ab"), ("ab",), ()],
    ids=lambda order: "-".join(order) or "none",
)
def test_joint_order_moves_branches(order: tuple[str, ...]) -> None:
    model = kt.load(TREE, joint_order=order)
    assert [found.name for found in model.joints if found.name in order] == list(order)
    assert sorted(found.name for found in model.joints) == ["a", "aa", "ab", "b"]
    rng = np.random.default_rng(0)
    values = {name: float(rng.uniform(-1, 1)) for name in ("a", "aa", "ab", "b")}
    other = kt.load(TREE)
    np.testing.assert_allclose(
        model.pose(model.q_from_dict(values), other.frames), other.pose(other.q_from_dict(values)), rtol=0, atol=1e-15
    )


def test_joint_order_of_a_forest() -> None:
    assert [found.name for found in kt.load(FOREST, joint_order=["jb", "ja"]).joints] == ["jb", "ja"]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (["aa", "a"], "has 'aa' before 'a', but coordinates .* depth first.*nearest possible order is .'a', 'aa'."),
        (["a", "aa", "b", "ab"], "has 'b' before 'ab'.*robot.joint_indices"),
        (["a", "a"], "names a more than once"),
        (["x"], "no moving joint is called 'x'"),
        ("ab", "one name"),
    ],
)
def test_impossible_orders_are_refused(order: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        kt.load(TREE, joint_order=order)


def test_joint_indices_give_any_order() -> None:
    model = kt.load(TREE, floating_base=True)
    iq, iv = model.joint_indices(["ab", "root_joint", "b"])
    assert iq.tolist() == [9, 0, 1, 2, 3, 4, 5, 6, 10]
    assert iv.tolist() == [8, 0, 1, 2, 3, 4, 5, 9]
    with pytest.raises(UnknownNameError, match="no moving joint is called 'c'"):
        model.joint_indices(["c"])


# -- warnings ----------------------------------------------------------------------------------------------------------


def inertial(mass: str, ixx: str = "0.1", iyy: str = "0.1", izz: str = "0.1") -> str:
    return f'<inertial><mass value="{mass}"/><inertia ixx="{ixx}" iyy="{iyy}" izz="{izz}"/></inertial>'


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        (inertial("-1"), "unphysical inertias: link 'tip': mass -1 kg is negative .line 3"),
        (inertial("1", "-0.1"), "link 'tip': inertia is not positive definite .*line 3"),
        (inertial("1", "0.5"), "link 'tip': inertia violates the triangle inequality .*line 3"),
        (inertial("0"), "link 'tip': mass is zero but inertia is not.*line 3"),
        (inertial("1", "0", "0", "0"), "mass without rotational inertia.*: link 'tip' .line 3"),
        ("", "moving links without mass.*: link 'tip' .line 3"),
    ],
)
def test_doubtful_inertias_are_loaded_and_listed(inside: str, message: str) -> None:
    text = robot(link("base"), link("tip", inside), joint("j", "base", "tip"))
    with pytest.warns(ModelWarning, match=message) as caught:
        model = kt.load(text)
    assert all(each.filename == __file__ for each in caught), "warnings blame the caller"
    model.inverse_dynamics(np.zeros(1), np.zeros(1), np.zeros(1))


def test_only_what_cannot_be_computed_raises() -> None:
    model = quiet(robot(link("base"), link("tip", ""), joint("j", "base", "tip")))
    q = v = np.zeros(1)
    assert model.mass_matrix(q).tolist() == [[0.0]]
    assert model.pose(q).shape == (3, 4, 4)
    with pytest.raises(SingularMechanismError, match="'tip'"):
        model.forward_dynamics(q, v, v)


def test_massless_links_fixed_to_others_are_frames() -> None:
    kt.load(robot(link("base"), link("tip", ""), joint("j", "base", "tip", "fixed", "")))
    kt.load(robot(link("base", ""), link("tip"), joint("j", "base", "tip")))


def test_a_missing_limit_is_noted() -> None:
    with pytest.warns(ModelWarning, match="without <limit>, taken as unlimited: 'j' .line 4"):
        kt.load(arm(inside=""))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (robot(link("a", "<intertial/>")), "not read.*: <intertial> in <link> .line 2"),
        (robot(link("a"), "<lnk/>", "<lnk/>"), "<lnk> in <robot> .line 3 and 1 more"),
        (robot(link("a"), '<x:y xmlns:x="http://x"/>'), "<x:y> in <robot> .line 3"),
        (arm(inside='<limit lowr="-1"/>'), "lowr= of <limit> .line 4"),
        (arm("floating", LIMIT), "<limit> of a floating joint .line 4"),
    ],
)
def test_what_is_not_read_is_noted(text: str, message: str) -> None:
    with pytest.warns(ModelWarning, match=message):
        kt.load(text)


def test_long_lists_are_cut() -> None:
    text = robot(*(link(f"l{i}", inertial("-1")) for i in range(100)))
    with pytest.warns(ModelWarning, match="l39.*… .100 in all.$"):
        kt.load(text)


# -- errors ------------------------------------------------------------------------------------------------------------

BOMB = '<!DOCTYPE b [<!ENTITY a "x"><!ENTITY b "&a;&a;">]>\n'
LONG = "9" * 5000

#: A text, the line at fault, and what the message must say.
BROKEN: dict[str, tuple[str, int | None, str]] = {
    "empty": ("", None, "is empty; give a URDF or MJCF file"),
    "blank": (" \n\n", None, "is empty"),
    "truncated": (arm()[:-9], 4, "broken XML.*fix it, or export"),
    "mismatched": ("<robot>\n<link></robot>", 2, "broken XML.*link"),
    "unquoted": ("<robot>\n<link name=a/></robot>", 2, "broken XML"),
    "unknown prefix": ("<robot>\n<a:b/></robot>", 2, "broken XML.*prefix a"),
    "unknown entity": ("<robot>\n&lol;</robot>", 2, "broken XML.*lol"),
    "deep": ("<robot>" + "<a>" * 5000, 1, "broken XML.*depth"),
    "comment without end": ("<!-- <robot/>", 1, "is not XML: found '<!-- <robot/>' instead of <robot>"),
    "other XML": ("<html/>", None, "starts with '<html>'; a URDF starts with <robot>"),
    "SDF": ("<sdf/>", 1, "has 0 models"),
    "entities": (BOMB + arm(), 1, "document types and entities are not supported; delete"),
    "doctype only": ('<?xml version="1.0"?>\n<!DOCTYPE robot>' + arm(), 2, "document types"),
    "xacro": (robot('<xacro:x xmlns:xacro="http://wiki.ros.org/xacro"/>'), 2, r"xacro robot.urdf.xacro > robot.urdf"),
    "xacro undeclared": ("<robot><xacro:if/></robot>", 1, "xacro file.*expanded first"),
    "xacro by prefix": ('<robot xmlns:xacro="urn:x"><xacro:if/></robot>', 1, "xacro file.*expanded first"),
    "xacro expression": (arm(inside='<axis xyz="${x} 0 1"/>'), 4, "xacro file"),
    "nameless link": (robot("<link/>"), 2, "<link> has no name=; add it"),
    "empty name": (robot('<link name=" "/>'), 2, "name= of <link> is empty"),
    "nameless joint": (robot(link("a"), "<joint/>"), 3, "<joint> has no name="),
    "typeless joint": (robot('<joint name="j"/>'), 2, "<joint> has no type="),
    "unknown type": (arm("screw"), 4, "joint 'j' is of unknown type 'screw'; write one of revolute, continuous"),
    "no parent": (robot('<joint name="j" type="fixed"><child link="a"/></joint>'), 2, "'j' has no <parent"),
    "no child": (robot('<joint name="j" type="fixed"><parent link="a"/></joint>'), 2, "'j' has no <child"),
    "unnamed parent": (robot('<joint name="j" type="fixed"><parent/></joint>'), 2, "<parent> has no link="),
    "missing parent": (robot(link("a"), joint("j", "b", "a")), 3, "parent of joint 'j' is link 'b', which is not"),
    "missing child": (robot(link("a"), joint("j", "a", "b")), 3, "child of joint 'j' is link 'b'.*There are: 'a'$"),
    "two links of a name": (robot(link("a"), link("b"), link("a")), 4, "link 'a' is defined twice, in line 2 and .* 4"),
    "two joints of a name": (
        robot(link("a"), link("b"), joint("j", "a", "b"), joint("j", "b", "a")),
        5,
        "joint 'j' is defined twice, in line 4 and in line 5; rename one",
    ),
    "two parents": (
        robot(link("a"), link("b"), link("c"), joint("j", "a", "c"), joint("k", "b", "c")),
        6,
        "link 'c' has two parents: joint 'j' in line 5 and joint 'k' in line 6",
    ),
    "cycle": (
        robot(link("r"), link("a"), link("b"), joint("j", "a", "b"), joint("k", "b", "a")),
        6,
        "cycle, each carried by the next: 'a' → 'b' → 'a'; delete one",
    ),
    "cycle of one": (robot(link("a"), joint("j", "a", "a")), 3, "cycle.*'a' → 'a'"),
    "two origins": (arm(inside="<origin/><origin/>"), 4, "a second <origin> in one <joint>, the first is in line 4"),
    "two inertials": (robot(link("a", INERTIAL + INERTIAL)), 2, "a second <inertial> in one <link>"),
    "no mass": (robot(link("a", "<inertial/>")), 2, "<inertial> of link 'a' has no <mass>; add it, or delete"),
    "no inertia": (robot(link("a", '<inertial><mass value="1"/></inertial>')), 2, "has no <inertia>"),
    "no value": (robot(link("a", "<inertial><mass/><inertia/></inertial>")), 2, "<inertia> has no ixx="),
    "zero axis": (arm(inside=LIMIT + '<axis xyz="0 0 0"/>'), 4, "axis of joint 'j' is zero; give a direction"),
    "NaN": (arm(inside='<origin xyz="0 nan 0"/>'), 4, "xyz='0 nan 0' of <origin> is not finite.*3 numbers"),
    "infinity": (arm(inside='<origin rpy="0 inf 0"/>'), 4, "rpy='0 inf 0' of <origin> is not finite"),
    "overflow": (arm(inside='<origin xyz="1e400 0 0"/>'), 4, "is not finite, or too large"),
    "garbage": (arm(inside='<origin xyz="a b c"/>'), 4, "xyz='a b c' of <origin> is not 3 numbers separated by blanks"),
    "commas": (arm(inside='<origin xyz="1,2,3"/>'), 4, "is not 3 numbers separated by blanks; correct it"),
    "underscores": (robot(link("a", inertial("1_0"))), 2, "value='1_0' of <mass> is not one number"),
    "other digits": (robot(link("a", inertial("\u0661"))), 2, "of <mass> is not one number"),
    "two numbers of three": (arm(inside='<origin xyz="1 2"/>'), 4, "is not 3 numbers"),
    "no number": (arm(inside='<limit lower="" upper="1"/>'), 4, "lower='' of <limit> is not one number"),
    "long number": (robot(link("a", inertial(LONG))), 2, "value='9{60}…' of <mass> is not one number"),
    "NaN limit": (arm(inside='<limit lower="nan" upper="1"/>'), 4, "lower='nan' of <limit> is not finite"),
    "crossed limits": (arm(inside='<limit lower="2" upper="1"/>'), 4, "lower=2 is above upper=1; swap them"),
    "negative effort": (arm(inside='<limit effort="-1"/>'), 4, "effort=-1 of <limit> is negative; write its magnitude"),
    "negative damping": (arm(inside='<dynamics damping="-1"/>'), 4, "damping=-1 of <dynamics> is negative"),
    "zero quaternion": (arm(inside='<origin quat_xyzw="0 0 0 0"/>'), 4, "quat_xyzw= of <origin> is zero"),
    "two rotations": (arm(inside='<origin rpy="0 0 0" quat_xyzw="0 0 0 1"/>'), 4, "has rpy= and quat_xyzw=; delete"),
    "mimicking nothing": (arm(inside="<mimic/>"), 4, "<mimic> has no joint="),
    "lone surrogate": (robot(link("a")) + "\ud800", 3, "lone surrogate"),
    "encoding": ("<robot name='\u2013'/>".encode("cp1252").decode("latin-1") + "\0", 1, "broken XML"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_refused_with_their_line(case: str, tmp_path: Path) -> None:
    text, line, message = BROKEN[case]
    with pytest.raises(LoadError, match=message) as refused:
        quiet(text)
    assert (refused.value.file, refused.value.line) == ("<string>", line)
    assert str(refused.value).startswith("<string>: " if line is None else f"<string>:{line}: ")
    if case not in ("lone surrogate", "xacro"):
        file = tmp_path / "broken.urdf"
        file.write_bytes(text.encode())
        with pytest.raises(LoadError, match=message) as refused:
            quiet(file)
        assert (refused.value.file, refused.value.line) == (str(file), line)
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.line) == (str(refused.value), line)


def test_messages_are_short_whatever_the_file() -> None:
    name = "x" * 100_000
    for text in (arm(name), arm(inside=f'<origin xyz="{name}"/>'), robot(link(name), link(name)), f"<{name}/>"):
        with pytest.raises(LoadError) as refused:
            quiet(text)
        assert len(str(refused.value)) < 1000


def test_a_xacro_file_is_told_the_command(tmp_path: Path) -> None:
    file = tmp_path / "arm.urdf.xacro"
    file.write_text(robot('<xacro:x xmlns:xacro="http://wiki.ros.org/xacro"/>'))
    with pytest.raises(LoadError, match=r"xacro .*arm\.urdf\.xacro > .*arm\.urdf "):
        kt.load(file)


# -- files that are none (others are in test_hostile_files.py) ---------------------------------------------------------


def test_what_is_no_path() -> None:
    for wrong in (None, 3, ["robot.urdf"]):
        with pytest.raises(InputError, match="needs a path or the content of a file, got"):
            kt.load(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\x7fELF\x02\x01\x01\0\0\0\xff\xfe", "binary data"),
        (b"\x00\x01\x02\x03", "is not XML"),
        (b"PK\x03\x04", "is not XML"),
        (b"\xff\xfe<\x00r", "is not valid utf-16"),
        (b'<?xml version="1.0" encoding="zlib"?><robot/>', "encoding 'zlib' is not supported; save it as UTF-8"),
        (b'<?xml version="1.0" encoding="klingon"?><robot/>', "encoding 'klingon'"),
        (b'<robot name="\xfc"/>', "is not valid utf-8"),
        (b"\xfe\xff\x00", "valid utf-16"),
    ],
)
def test_bytes_that_are_no_text(data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=message):
        kt.load(data)
    file = tmp_path / "robot.urdf"
    file.write_bytes(data)
    with pytest.raises(LoadError, match=message):
        kt.load(file)


def test_angles_too_large_to_mean_anything() -> None:
    links = '<robot name="r"><link name="a"/><link name="b"/>'
    text = links + '<joint name="j" type="fixed"><parent link="a"/><child link="b"/>'
    with pytest.raises(LoadError, match="an angle is too large to be meaningful; write one between −π and π"):
        kt.load(text + '<origin rpy="0 1e30 0"/></joint></robot>')


def test_errors_have_no_cause_that_cannot_be_pickled() -> None:
    """Dask pickles errors together with what they were raised from."""
    with pytest.raises(LoadError, match="broken XML") as refused:
        quiet("<robot")
    assert refused.value.__context__ is None
