"""What robots' files say about their looks, and what stands in for it."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, LoadError, ModelWarning
from kinetree.model import mesh_formats, meshes
from kinetree.model.joints import KINDS
from kinetree.model.mesh_formats import Visual
from kinetree.viewer import files
from kinetree.viewer.view import configuration_of, coordinates, values_of
from tests.oracle import oracle
from tests.tolerance import assert_close, assert_near, bound, refused
from tests.viewer.test_meshes import TRIANGLE, binary_stl

ROBOT = """<robot name="r">
  <material name="blue"><color rgba="0 0 1 0.5"/></material>
  <link name="base">
    <visual><origin xyz="1 2 3" rpy="0 0 1.5707963267948966"/><geometry><box size="1 2 3"/></geometry>
      <material name="blue"/></visual>
    <visual><geometry><cylinder radius="0.1" length="2"/></geometry></visual>
    <visual><geometry><sphere radius="0.5"/></geometry><material name=""><color rgba="1 0 0 1"/></material></visual>
  </link>
  {links}
</robot>"""


def read(text: str, *roots: Path) -> tuple[list[Visual], list[str]]:
    """Visuals, and what is warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = files.read(text, roots)
    assert all(issubclass(one.category, ModelWarning) for one in caught)
    return found, [str(one.message) for one in caught]


def test_shapes_and_colours_of_a_urdf() -> None:
    found, notes = read(ROBOT.format(links=""))
    assert not notes
    box, cylinder, sphere = found
    assert {visual.body for visual in found} == {"base"}
    assert (box.color, cylinder.color, sphere.color) == ((0.0, 0.0, 1.0, 0.5), None, (1.0, 0.0, 0.0, 1.0))
    assert_near(box.placement, [[0, -1, 0, 1], [1, 0, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]], 1e-15)
    for visual, extent in ((box, (1, 2, 3)), (cylinder, (0.2, 0.2, 2.0)), (sphere, (1.0, 1.0, 1.0))):
        np.testing.assert_allclose(np.ptp(visual.mesh.vertices, axis=0), extent, rtol=1e-12)


@pytest.mark.parametrize(
    ("visual", "message"),
    [
        ("<geometry><box size='1 2'/></geometry>", "size='1 2' of <box> is not 3 numbers"),
        ("<geometry><box/></geometry>", "<box> has no size="),
        ("<geometry><box size='1 0 1'/></geometry>", "is not positive, or above 10000"),
        ("<geometry><sphere radius='1e99'/></geometry>", "is not positive, or above 10000"),
        ("<geometry><sphere radius='-1'/></geometry>", "is not positive, or above 10000"),
        ("<geometry><teapot/></geometry>", "<geometry> holds <teapot>; write one of mesh, box"),
        ("<geometry/>", "<geometry> holds nothing"),
        ("", "<geometry> holds nothing"),
        ("<origin xyz='a b c'/><geometry><box size='1 1 1'/></geometry>", "xyz='a b c' of <origin>"),
        ("<geometry><mesh/></geometry>", "<mesh> has no filename="),
        ("<geometry><mesh filename='a.stl' scale='0 1 1'/></geometry>", "scale='0 1 1' of <mesh> is zero"),
        ("<geometry><mesh filename='package://arm/a.stl'/></geometry>", "not drawn, not found; looked in no directory"),
        ("<geometry><mesh filename='/etc/passwd'/></geometry>", "lies outside of the directories given"),
        ("<geometry><mesh filename='http://a.b/c.stl'/></geometry>", "nothing is fetched"),
    ],
)
def test_what_cannot_be_drawn_is_told_and_disturbs_nothing(visual: str, message: str) -> None:
    found, notes = read(ROBOT.format(links=f"<link name='arm'>\n<visual>{visual}</visual></link>"))
    assert len(found) == 3
    (note,) = notes
    assert message in note
    assert "(line 10)" in note


def test_one_reason_is_told_once() -> None:
    mesh = "<visual><geometry><mesh filename='package://arm/{}.stl'/></geometry></visual>\n"
    _, notes = read(ROBOT.format(links=f"<link name='arm'>{mesh.format('a')}{mesh.format('b')}</link>"))
    (note,) = notes
    assert note.count("not found") == 1
    assert "package://arm/a.stl (line 9); package://arm/b.stl (line 10)" in note


def test_meshes_are_scaled_and_mirrored_ones_keep_their_outside(tmp_path: Path) -> None:
    (tmp_path / "a.stl").write_bytes(binary_stl(TRIANGLE[None]))
    text = ROBOT.format(
        links="<link name='arm'><visual><geometry><mesh filename='package://a.stl' scale='1 -2 3'/></geometry>"
        "</visual></link>"
    )
    found, notes = read(text, tmp_path)
    assert not notes
    mesh = found[-1].mesh
    first, second, third = mesh.vertices[mesh.faces[0]]
    assert np.cross(second - first, third - first)[2] > 0.0
    np.testing.assert_allclose(np.ptp(mesh.vertices, axis=0), [1.0, 4.0, 0.0], rtol=1e-12)


def test_the_total_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read any more once there is too much, so that no number of meshes fills the memory."""
    monkeypatch.setattr(files, "MOST_FACES", 100)
    monkeypatch.setattr(meshes, "load", lambda *_: pytest.fail("read"))
    mesh = "<link name='arm'><visual><geometry><mesh filename='a.stl'/></geometry></visual></link>"
    found, notes = read(ROBOT.format(links=mesh))
    assert len(found) == 1
    (note,) = notes
    assert "more than 100 triangles in all; nothing more is read or drawn, from here on: 'base'" in note


def test_other_files_are_refused() -> None:
    refused("visuals are read from URDF and MJCF, not from <sdf>", files.read, "<sdf/>", error=LoadError)
    with pytest.raises(InputError, match="package_roots='/tmp' is one directory; pass a list of them"):
        files.read(ROBOT, "/tmp")  # type: ignore[arg-type]


def test_missing_meshes_of_an_mjcf_are_left_out() -> None:
    oracle("mujoco")
    text = """<mujoco><asset><mesh name="t" file="gone.obj"/></asset><worldbody><body name="b">
      <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/><joint/><geom type="mesh" mesh="t" group="1"/>
      <geom size="0.1"/></body></worldbody></mujoco>"""
    found, (note,) = read(text)
    assert len(found) == 1
    assert "not drawn, refers to the file 'gone.obj'" in note


def test_geoms_of_an_mjcf() -> None:
    oracle("mujoco")
    text = """<mujoco><asset><material name="m" rgba="0 1 0 1"/>
      <mesh name="t" vertex="0 0 0  1 0 0  0 1 0  0 0 1"/><hfield name="h" nrow="2" ncol="2" size="1 1 1 1"/></asset>
      <worldbody><geom type="plane" size="0 0 1"/><geom type="hfield" hfield="h"/>
      <body name="b" pos="0 0 1"><joint name="j" type="hinge" pos="0.1 0 0"/>
        <geom type="capsule" size="0.1 0.3" material="m"/><geom type="box" size="1 2 3" pos="0 0 1" rgba="1 0 0 0.5"/>
        <geom type="sphere" size="0.2" group="3"/><geom type="ellipsoid" size="1 2 3"/>
        <geom type="cylinder" size="0.1 0.5"/><geom type="mesh" mesh="t"/><geom size="0.1" rgba="1 1 1 0"/></body>
      </worldbody></mujoco>"""
    found, notes = read(text)
    assert len(notes) == 1
    assert "height field" in notes[0]
    assert [visual.body for visual in found] == ["world"] + 5 * ["b"]
    _, capsule, box, ellipsoid, cylinder, mesh = found
    assert capsule.color == (0.0, 1.0, 0.0, 1.0)
    assert box.color == (1.0, 0.0, 0.0, 0.5)
    np.testing.assert_allclose(np.ptp(capsule.mesh.vertices, axis=0), [0.2, 0.2, 0.8], rtol=1e-12)
    np.testing.assert_allclose(np.ptp(box.mesh.vertices, axis=0), [2.0, 4.0, 6.0], rtol=1e-12)
    np.testing.assert_allclose(np.ptp(ellipsoid.mesh.vertices, axis=0), [2.0, 4.0, 6.0], rtol=1e-12)
    np.testing.assert_allclose(np.ptp(cylinder.mesh.vertices, axis=0), [0.2, 0.2, 1.0], rtol=1e-12)
    assert len(mesh.mesh.faces) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = kt.load(text)
    assert "b" in robot.frames


# -- stand-ins ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mesh",
    [
        mesh_formats.box((1.0, 2.0, 3.0)),
        mesh_formats.cylinder(0.5, 2.0),
        mesh_formats.ellipsoid((1.0, 2.0, 3.0)),
        mesh_formats.capsule(np.zeros(3), np.array([0.0, 0.3, 0.4]), 0.1),
        mesh_formats.capsule(np.ones(3), np.ones(3), 0.1),
    ],
)
def test_shapes_are_closed_and_turn_their_outside_out(mesh: mesh_formats.Mesh) -> None:
    corners = mesh.vertices[mesh.faces] - mesh.vertices.mean(axis=0)
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    area = np.cross(b - a, c - a)
    # the area vectors of a closed surface sum to zero, and its volume is positive
    assert np.abs(area.sum(axis=0)).max() < 1e-12 * np.abs(area).sum()
    assert np.sum(a * area) > 0.0


def test_the_inertia_ellipsoid_has_the_inertia() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        semi_axes, mass = rng.uniform(0.05, 1.0, 3), rng.uniform(0.1, 10.0)
        axes = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        squares = semi_axes**2
        inertia = axes @ np.diag(mass / 5.0 * (squares.sum() - squares)) @ axes.T
        found = files.inertia_ellipsoid(kt.Body("b", "world", "j", mass, np.zeros(3), inertia))
        assert found is not None
        found_axes, found_semi_axes = found
        assert_close(np.linalg.det(found_axes), 1.0, bound(3))
        shape = found_axes @ np.diag(found_semi_axes**2) @ found_axes.T
        assert_close(shape, axes @ np.diag(squares) @ axes.T, bound(3))


def test_a_free_object_is_the_box_of_its_inertia() -> None:
    """What a robot carries is seen in its own size; the robot's links stay capsules."""
    box = kt.zoo.box((0.3, 0.36, 0.2), 4.0)
    (mesh,) = files.capsules(kt.zoo.humanoid24().attach("world", box), 1.6)["box"]
    np.testing.assert_allclose(np.ptp(mesh.vertices, axis=0), [0.3, 0.36, 0.2], rtol=1e-12)
    assert_near(mesh.vertices.mean(axis=0), 0.0, 1e-15)
    assert files.inertia_block(kt.Body("b", "world", "j", 0.0, np.zeros(3), np.zeros((3, 3)))) is None


@pytest.mark.parametrize(("mass", "inertia"), [(0.0, np.zeros((3, 3))), (-1.0, np.eye(3)), (1.0, np.diag([1, 1, 9.0]))])
def test_impossible_inertias_have_no_ellipsoid(mass: float, inertia: np.ndarray) -> None:
    assert files.inertia_ellipsoid(kt.Body("b", "world", "j", mass, np.zeros(3), inertia)) is None


def test_capsules_reach_from_joint_to_joint() -> None:
    robot = kt.zoo.humanoid24()
    links = files.capsules(robot, 1.6)
    thigh = links["left_hip_pitch_link"][0]
    assert thigh.vertices[:, 2].max() == pytest.approx(0.12 * 0.38)
    assert thigh.vertices[:, 2].min() == pytest.approx(-0.38 - 0.12 * 0.38)
    assert all(links[body.name] for body in robot.bodies)


# -- sliders -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"fixed"}))
def test_sliders_say_what_joints_do(kind: str) -> None:
    pitch = {"pitch": 0.1} if kind == "helical" else {}
    robot = kt.Builder().add_body("b", joint=kind, mass=1.0, inertia=np.eye(3), **pitch).build()
    (joint,) = robot.joints
    assert len(coordinates(joint)) == joint.nv
    for q in robot.random_configuration(0, 50):
        back = configuration_of(joint, values_of(joint, q))
        assert_close(robot.difference(q, back), np.zeros(robot.nv), bound(6) * 10.0)


def test_sliders_end_at_limits() -> None:
    unbounded = kt.Builder().add_body("b", mass=1.0).build().joints[0]
    assert coordinates(unbounded)[0].lower == -np.pi
    limits = kt.Limits(lower=(-1.0, -np.inf, 0.0), upper=(np.inf, 2.0, 3.0))
    planar = kt.Builder().add_body("b", joint="planar", mass=1.0, limits=limits).build().joints[0]
    assert [(one.lower, one.upper) for one in coordinates(planar)] == [(-1.0, 3.0), (-2.0, 2.0), (0.0, 3.0)]
