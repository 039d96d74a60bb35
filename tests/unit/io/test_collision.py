"""Collision shapes of robot files: what is read, what is reported, and what is written again."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

import kinetree as kt
from kinetree import geometry as geo
from kinetree.errors import ModelWarning
from kinetree.io import collision
from tests.oracle import oracle
from tests.tolerance import assert_near, bound, refused

TOL = bound(6)

INERTIA = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'
URDF = f"""<robot name="arm">
<link name="base">{INERTIA}
  <collision><origin xyz="0 0 0.1" rpy="0 1.5707963267948966 0"/>
    <geometry><cylinder radius="0.1" length="0.3"/></geometry></collision>
  <collision><geometry><box size="0.1 0.2 0.3"/></geometry></collision>
</link>
<link name="hand">{INERTIA}
  <collision name="ball"><origin xyz="1 2 3"/><geometry><sphere radius="0.1"/></geometry></collision>
  <collision name="ball"><origin rpy="0 1.5707963267948966 0"/>
    <geometry><capsule radius="0.1" length="0.4"/></geometry></collision>
  <collision><geometry><mesh filename="package://arm/../../etc/passwd" scale="1 -1 0.5"/></geometry></collision>
  {{more}}
</link>
<joint name="wrist" type="continuous"><parent link="base"/><child link="hand"/><axis xyz="0 0 1"/></joint>
</robot>"""


def test_urdf_shapes_are_noted_and_not_opened() -> None:
    robot = kt.load(URDF.format(more=""))
    cylinder, box, ball, capsule, mesh = robot.shapes
    assert [shape.name for shape in robot.shapes] == ["base", "base_1", "ball", "ball_1", "hand"]
    assert [shape.body for shape in robot.shapes] == ["base", "base", "hand", "hand", "hand"]
    assert {shape.source for shape in robot.shapes} == {"file"}
    assert isinstance(cylinder, geo.Cylinder)
    assert (cylinder.radius, cylinder.length) == (0.1, 0.3)
    assert_near(cylinder.placement[:3, 2], (1, 0, 0), TOL)
    assert_near(cylinder.placement[:3, 3], (0, 0, 0.1), TOL)
    assert isinstance(box, geo.Box)
    assert_near(box.size, (0.1, 0.2, 0.3), 0.0)
    assert isinstance(ball, geo.Sphere)
    assert_near(ball.center, (1, 2, 3), 0.0)
    assert isinstance(capsule, geo.Capsule)
    assert_near(capsule.end - capsule.start, (0.4, 0, 0), TOL)
    assert isinstance(mesh, geo.Hull)
    assert mesh.file == "package://arm/../../etc/passwd"
    assert_near(mesh.scale, (1, -1, 0.5), 0.0)
    for shape in robot.shapes:  # as if made by their constructors
        again = pickle.loads(pickle.dumps(shape))
        assert again == shape
        assert hash(again) == hash(shape)


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        ('<sphere radius="-1"/>', "a size of <sphere> is not positive"),
        ('<sphere radius="nan"/>', "radius='nan' of <sphere>"),
        ("<sphere/>", "has no radius="),
        ('<box size="1 2"/>', "is not 3 numbers"),
        ("<box/>", "a size of <box> is not positive"),
        ('<cylinder radius="1"/>', "has no length="),
        ("<mesh/>", "has no filename="),
        ("<torus/>", "<torus> of link 'hand' is not a shape of URDF"),
    ],
)
def test_what_cannot_be_read_is_reported_and_left_out(shape: str, problem: str) -> None:
    more = f"<collision><geometry>{shape}</geometry></collision>"
    with pytest.warns(ModelWarning, match="collision shapes that cannot be read, left out: ") as told:
        robot = kt.load(URDF.format(more=more))
    assert problem in str(told[0].message)
    assert len(robot.shapes) == 5


def test_empty_collisions_are_none() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(kt.load(URDF.format(more="<collision/><collision><geometry/></collision>")).shapes) == 5


def test_the_number_of_shapes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collision, "MOST", 3)
    with pytest.warns(ModelWarning, match="collision shapes, left out: more than 3"):
        assert len(kt.load(URDF.format(more="")).shapes) == 3


def test_shapes_of_a_world_link_belong_to_the_world_and_others_are_left_out() -> None:
    text = URDF.format(more="").replace('"base"', '"world"')
    robot = kt.load(text)
    assert {shape.body for shape in robot.shapes} == {"world", "hand"}
    assert {shape.body for shape in kt.load(URDF.format(more=""), root="hand").shapes} == {"hand"}
    pairs = kt.load(text).with_shapes(geo.simplified(robot.shapes[:4])).collision_pairs(keep_colliding=True)
    assert len(pairs) == 4


def test_urdf_keeps_shapes() -> None:
    robot = kt.load(URDF.format(more=""))
    again = kt.load(kt.to_urdf(robot))
    assert [shape.name for shape in again.shapes] == [shape.name for shape in robot.shapes]
    for mine, theirs in zip(again.shapes, robot.shapes, strict=True):
        assert (type(mine), mine.body) == (type(theirs), theirs.body)
        assert_near(mine.pose[:3, 2:], theirs.pose[:3, 2:], TOL)
    tool = robot.with_frame("tool", "hand").with_shapes([geo.Sphere("tool", (0, 0, 0.1), 0.05)], add=True)
    assert kt.load(kt.to_urdf(tool)).shapes[-1].body == "tool"
    lossy = robot.with_shapes(
        [geo.Plane("floor", body="world"), geo.Box("hand", (1, 1, 1), rounding=0.1, friction=0.5)], add=True
    )
    with pytest.warns(ModelWarning, match="plane 'floor'; the rounding of shape 'hand_1'; the friction"):
        text = kt.to_urdf(lossy)
    assert len(kt.load(text).shapes) == 6


def test_which_shapes_are_read_can_be_chosen() -> None:
    seen = '<visual name="eye"><geometry><sphere radius="0.2"/></geometry></visual>'
    text, sdf = URDF.format(more=seen), SDF.format(more=seen.replace('<sphere radius="0.2"/>', BALL))
    for file in (text, sdf):
        assert len(kt.load(file).shapes) == 5
        assert [(shape.name, shape.kind) for shape in kt.load(file, shapes="visual").shapes] == [("eye", "sphere")]
        assert kt.load(file, shapes=None).shapes == ()
    refused("shapes='fast' is not known; choose one of 'collision', 'visual', None", kt.load, text, shapes="fast")
    refused(r"shapes=\['visual'\] is not known", kt.load, text, shapes=["visual"])
    oracle("mujoco")
    assert kt.load(MJCF, shapes=None).shapes == ()
    refused('shapes="visual" is for URDF and SDF files, and not for MJCF', kt.load, MJCF, shapes="visual")


BALL = "<sphere><radius>0.2</radius></sphere>"
SDF = """<sdf version="1.9"><model name="arm">
<frame name="mark" attached_to="base"><pose>0 0 1 0 0 0</pose></frame>
<link name="base"><inertial><mass>1</mass></inertial>
  <collision name="a"><pose>0 0 0.5 0 0 0</pose><geometry><box><size>1 2 3</size></box></geometry></collision>
  <collision name="b"><pose relative_to="mark">1 0 0 0 0 0</pose>
    <geometry><ellipsoid><radii>1 2 3</radii></ellipsoid></geometry></collision>
  <collision name="c"><geometry><plane><normal>0 0 1</normal></plane></geometry></collision>
  <collision name="d"><geometry><capsule><radius>0.1</radius><length>0.4</length></capsule></geometry></collision>
  <collision name="e"><geometry><mesh><uri>model://a.stl</uri><scale>2 2 2</scale></mesh></geometry></collision>
  <collision name="f"><geometry><empty/></geometry></collision>
  {more}
</link></model></sdf>"""


def test_sdf_shapes() -> None:
    box, ellipsoid, plane, capsule, mesh = kt.load(SDF.format(more="")).shapes
    assert [shape.name for shape in (box, ellipsoid, plane, capsule, mesh)] == list("abcde")
    assert isinstance(box, geo.Box)
    assert_near(box.placement[:3, 3], (0, 0, 0.5), 0.0)
    assert isinstance(ellipsoid, geo.Ellipsoid)
    assert_near(ellipsoid.placement[:3, 3], (1, 0, 1), TOL)
    assert isinstance(plane, geo.Plane)
    assert isinstance(capsule, geo.Capsule)
    assert capsule.half == (0.0, 0.0, 0.2)
    assert isinstance(mesh, geo.Hull)
    assert_near(mesh.scale, (2, 2, 2), 0.0)


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        ("<box/>", "has no <size>"),
        ("<sphere><radius>0</radius></sphere>", "not positive"),
        ("<plane><normal>1 0 0</normal></plane>", "turn it by its <pose>"),
        ("<cone/>", "is not a shape that Kinetree reads"),
        ("<heightmap><uri>hills.png</uri></heightmap>", "is not a shape that Kinetree reads"),
        ("<mesh><uri>a.dae</uri><submesh><name>lid</name></submesh></mesh>", "give it a file of its own"),
    ],
)
def test_what_cannot_be_read_of_sdf_is_reported(shape: str, problem: str) -> None:
    with pytest.warns(ModelWarning, match="collision shapes that cannot be read") as told:
        robot = kt.load(SDF.format(more=f'<collision name="g"><geometry>{shape}</geometry></collision>'))
    assert problem in str(told[0].message)
    assert len(robot.shapes) == 5


def test_shapes_reach_the_distances_of_a_loaded_robot(tmp_path: Path) -> None:
    file = tmp_path / "arm.urdf"
    file.write_text(URDF.format(more=""))
    robot = kt.load(file)
    robot = robot.with_shapes(geo.simplified(robot.shapes[:4]))
    scene = kt.Scene([geo.Plane(placement=(np.eye(3), (0, 0, -5.0)))])
    pairs = robot.collision_pairs(scene=scene, keep_colliding=True)
    near = robot.distances(np.zeros(1), pairs)
    found = dict(zip(pairs.names, near.distance.tolist(), strict=True))
    assert_near(found["ball", "plane"], 3 + 5 - 0.1, TOL)
    assert_near(found["ball_1", "plane"], 5 - 0.1, TOL)


MJCF = """<mujoco model="arm">
<default><geom friction="0.7 0.1 0.1"/><default class="visual"><geom contype="0" conaffinity="0"/></default></default>
<worldbody>
  <geom name="floor" type="plane" size="1 1 0.1" pos="0 0 -1"/>
  <body name="upper"><joint name="shoulder" axis="0 1 0"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
    <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.05"/>
    <geom class="visual" type="box" size="1 1 1"/>
    <body name="lower" pos="0.5 0 0"><joint name="elbow" axis="0 1 0"/>
      <geom name="stick" type="cylinder" size="0.05 0.2" contype="2" conaffinity="2"/>
      <geom name="tip" type="sphere" size="0.1" pos="0.3 0 0"/>
      <body name="hand" pos="0.5 0 0"><joint name="wrist" axis="0 1 0"/>
        <geom name="block" type="box" size="0.1 0.2 0.3" quat="0 1 0 0" mass="1" friction="0.4"/>
        <geom type="ellipsoid" size="0.1 0.2 0.3" mass="0"/>
      </body>
    </body>
  </body>
</worldbody></mujoco>"""


def test_mjcf_geoms() -> None:
    mujoco = oracle("mujoco")
    robot = kt.load(MJCF)
    other = kt.from_mujoco(mujoco.MjModel.from_xml_string(MJCF))
    assert other.shapes == robot.shapes
    by_name = {shape.name: shape for shape in robot.shapes}
    assert [*by_name] == ["floor", "upper", "stick", "tip", "block", "hand"]
    assert (by_name["floor"].kind, by_name["floor"].body) == ("plane", "world")
    capsule, block = by_name["upper"], by_name["block"]
    assert isinstance(capsule, geo.Capsule)
    ends = np.array(sorted([capsule.start.tolist(), capsule.end.tolist()]))
    assert_near(ends, [(0, 0, 0), (0.4, 0, 0)], TOL)
    assert (capsule.friction, block.friction) == (0.7, 0.4)
    assert isinstance(block, geo.Box)
    assert_near(block.size, (0.2, 0.4, 0.6), TOL)
    assert by_name["stick"].masks == (2, 2)
    assert_near(robot.mass_matrix(np.zeros(3)), other.mass_matrix(np.zeros(3)), TOL)
    simple = robot.with_shapes(geo.simplified(robot.shapes))
    pairs = simple.collision_pairs(keep_colliding=True)
    assert pairs.excluded["stick", "floor"] == "without a common bit in their masks"
    # the distances are MuJoCo's
    model = mujoco.MjModel.from_xml_string(MJCF)
    data = mujoco.MjData(model)
    q = np.array([0.3, -0.4, 0.2])
    data.qpos[:] = q
    mujoco.mj_forward(model, data)
    found = dict(zip(pairs.names, simple.distances(q, pairs).distance.tolist(), strict=True))
    for a, b in (("tip", "floor"), ("block", "floor")):
        ids = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_GEOM, name) for name in (a, b)]
        assert_near(found[a, b], mujoco.mj_geomDistance(model, data, *ids, 10.0, None), 1e-9)


def test_what_only_looks_is_no_shape_and_signed_distance_fields_are_left_out(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    oracle("mujoco")
    file = tmp_path / "arm.xml"
    text = MJCF.replace("<worldbody>", '<asset><mesh name="m" file="none.stl"/></asset><worldbody>', 1)
    seen = '<geom class="visual" type="box" size="1 1 1"/>'
    for kind, count in (("mesh", 7), ("sdf", 6)):
        file.write_text(text.replace(seen, f'<geom type="{kind}" mesh="m"/>'))
        with caplog.at_level("INFO", "kinetree"):
            assert len(kt.load(file).shapes) == count
        assert ("signed distance fields that collide (1)" in caplog.text) == (kind == "sdf")


def test_mjcf_keeps_shapes() -> None:
    oracle("mujoco")
    robot = kt.load(MJCF)
    again = kt.load(kt.to_mjcf(robot))
    for mine, theirs in zip(again.shapes, robot.shapes, strict=True):
        assert (type(mine), mine.name, mine.body) == (type(theirs), theirs.name, theirs.body)
        assert (mine.masks, mine.friction) == (theirs.masks, theirs.friction)
        assert_near(mine.pose, theirs.pose, TOL)
    tool = robot.with_frame("tool", "hand", (np.eye(3), (0, 0, 1))).with_shapes([geo.Sphere("tool", (0, 0, 1), 0.1)])
    ball = kt.load(kt.to_mjcf(tool)).shapes[0]
    assert (ball.body, ball.pose[2, 3]) == ("hand", 2.0)
    lossy = robot.with_shapes([geo.Hull("hand", "hand.dae"), geo.Plane("floor", body="hand")])
    with pytest.warns(ModelWarning, match="hull 'hand'; plane 'floor'"):
        kt.to_mjcf(lossy)
