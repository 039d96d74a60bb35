"""Geoms of MJCF files that collide, with meshes and height fields: those of MuJoCo, without opening meshes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import geometry as geo
from kinetree.errors import LoadError, ModelWarning
from kinetree.io import mjcf_assets
from tests.fuzz.meshes import FORMATS
from tests.oracle import oracle
from tests.tolerance import Array, assert_near, bound

mujoco = oracle("mujoco")

#: MuJoCo's meshes and height fields are in float32.
SINGLE = bound(6, dtype=np.float32)

INERTIAL = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
WEDGE = "0 0 0 1 0 0 0 1 0 0 0 1 .9 .9 .9"
FIELD = '<hfield name="h" nrow="3" ncol="4" size="2 1 .7 .1" elevation="0 1 2 3 4 5 4 3 2 1 0 9"/>'
HAND = f"""<mujoco><asset><mesh name="own" file="a.obj" scale="1 2 -1"/></asset><worldbody>
<body name="palm">{INERTIAL}<joint/><geom type="mesh" mesh="own" pos="0 .1 0"/></body></worldbody></mujoco>"""
ROBOT = f"""<mujoco><compiler meshdir="meshes" inertiafromgeom="auto"/>
<default><mesh scale=".1 .2 .3"/><geom friction=".3 0 0"/>
  <default class="even"><mesh scale=".1 .1 .1"/><geom type="mesh" mesh="turned" conaffinity="2"/></default>
  <default class="seen"><geom contype="0" conaffinity="0"/></default>
</default>
<asset>{FIELD}<mesh name="stl" file="a.stl"/><mesh name="msh" file="a.msh" scale="-1 1 1"/>
  <mesh name="turned" class="even" file="a.obj" refpos="1 2 3" refquat="1 2 0 -1"/>
  <mesh name="sheared" file="a.obj" refpos="1 2 3" refquat="1 2 0 -1"/>
  <mesh name="inline" vertex="{WEDGE}"/><mesh name="ball" builtin="sphere" params="2" scale="1 1 1"/>
  <model name="hand" file="hand.xml"/></asset>
<worldbody><geom name="ground" type="hfield" hfield="h" pos="0 0 -2" quat="1 0 0 .2"/>
<body name="a" pos="0 0 1">{INERTIAL}<joint/>
  <geom name="one" type="mesh" mesh="stl" pos=".1 .2 .3" euler="10 20 30"/>
  <geom class="even" axisangle="1 0 0 40"/><geom class="seen" type="mesh" mesh="absent"/>
  <geom type="mesh" mesh="inline"/><geom type="mesh" mesh="sheared"/><geom type="mesh" mesh="ball" contype="4"/>
  <geom name="fitted" type="capsule" mesh="stl" pos="1 0 0"/><geom type="box" mesh="stl"/>
  <replicate count="2" offset="1 0 0">
    <body>{INERTIAL}<joint axis="0 1 0"/><geom type="mesh" mesh="msh"/></body></replicate>
  <body name="heavy" pos="0 1 0"><joint/><geom type="mesh" mesh="msh" pos=".3 0 0" zaxis="1 1 0"/></body>
  <frame pos="0 0 .5"><attach model="hand" body="palm" prefix="left_"/></frame>
</body></worldbody></mujoco>"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mjcf")
    (folder / "meshes").mkdir()
    for suffix in (".stl", ".obj", ".msh"):
        (folder / "meshes" / f"a{suffix}").write_bytes(FORMATS[suffix]())
    (folder / "a.obj").write_bytes(FORMATS[".obj"]())
    (folder / "hand.xml").write_text(HAND)
    (folder / "robot.xml").write_text(ROBOT.replace('<geom class="seen" type="mesh" mesh="absent"/>', ""))
    return folder / "robot.xml"


def spread(points: Array) -> Array:
    """How far points reach in many directions."""
    directions = np.random.default_rng(0).standard_normal((3, 100))
    return np.asarray((points @ directions).max(axis=0))


def placed(hull: Any) -> Array:
    return np.asarray(hull.vertices @ hull.placement[:3, :3].T + hull.placement[:3, 3])


def test_shapes_are_those_of_mujoco(path: Path) -> None:
    model = mujoco.MjModel.from_xml_path(str(path))
    robot, other = kt.load(path), kt.from_mujoco(model)
    bodies = ["world", *(body.name for body in other.bodies)]
    assert len(robot.shapes) == model.ngeom == len(other.shapes) == 12
    for i, (mine, theirs) in enumerate(zip(robot.shapes, other.shapes, strict=True)):
        assert (mine.kind, mine.masks, mine.friction) == (theirs.kind, theirs.masks, theirs.friction)
        assert mine.name == theirs.name
        assert mine.body == theirs.body in bodies
        assert (mine.name == model.geom(i).name) or not model.geom(i).name
        if isinstance(mine, geo.Hull) and isinstance(theirs, geo.Hull):
            mesh = model.mesh(model.geom_dataid[i])
            vertices = model.mesh_vert[mesh.vertadr[0] : mesh.vertadr[0] + mesh.vertnum[0]].astype(float)
            rotation = np.zeros(9)
            mujoco.mju_quat2Mat(rotation, model.geom_quat[i])
            expected = spread(vertices @ rotation.reshape(3, 3).T + model.geom_pos[i])
            for hull in (mine, theirs):
                assert_near(spread(placed(hull)), expected, 4.0 * SINGLE)
        else:
            assert mine == theirs
    files = [shape.file for shape in robot.shapes if isinstance(shape, geo.Hull)]
    assert files == ["meshes/a.stl", "meshes/a.obj", "", "", "", *["meshes/a.msh"] * 3, "a.obj"]
    assert pickle.loads(pickle.dumps(robot)) == robot


def test_masses_are_those_of_mujoco(path: Path) -> None:
    model = mujoco.MjModel.from_xml_path(str(path))
    masses = [body.mass for body in kt.load(path).bodies if body.mass]
    assert_near(masses, [mass for mass in model.body_mass.tolist() if mass], 0.0)


def test_height_fields(path: Path) -> None:
    field = kt.load(path).shapes[0]
    assert isinstance(field, geo.HeightField)
    assert_near(field.size, (4, 2), 0.0)
    heights = np.array([[0, 1, 2, 3], [4, 5, 4, 3], [2, 1, 0, 9]])[::-1] * 0.7 / 9
    assert_near(field.heights, heights, SINGLE)
    assert_near(field.placement[:3, 3], (0, 0, -2), 0.0)


def test_written_shapes_are_read_again(path: Path, tmp_path: Path) -> None:
    robot = kt.load(path)
    again = kt.load(kt.to_mjcf(robot), directory=path.parent)
    assert [shape.name for shape in again.shapes] == [shape.name for shape in robot.shapes]
    for mine, theirs in zip(again.shapes, robot.shapes, strict=True):
        assert (mine.kind, mine.masks, mine.friction) == (theirs.kind, theirs.masks, theirs.friction)
        if isinstance(mine, geo.Hull):
            assert_near(spread(placed(mine)), spread(placed(theirs)), 4.0 * SINGLE)
        else:
            assert_near(mine.placement, theirs.placement, SINGLE)
        if isinstance(mine, geo.HeightField) and isinstance(theirs, geo.HeightField):
            assert_near(mine.heights, theirs.heights, SINGLE)
    level = robot.with_shapes([geo.HeightField(np.full((2, 3), 0.3), (1, 1), body="world")])
    field = kt.load(kt.to_mjcf(level)).shapes[0]
    assert_near(field.placement[2, 3] + field.heights, 0.3, SINGLE)  # type: ignore[attr-defined]
    wedge = geo.Hull("a", points=np.eye(4, 3), scale=(1, 1, -2))
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "b.stl").write_bytes(FORMATS[".stl"]())
    packed = geo.Hull("heavy", "package://pack/b.stl", directories=("", str(tmp_path)))
    lost = geo.Hull("heavy_1", "package://pack/c.stl", directories=("", str(tmp_path)), body="heavy")
    with pytest.warns(ModelWarning, match="hull 'heavy_1'$"):
        text = kt.to_mjcf(robot.with_shapes([wedge, packed, lost]))
    first, second = kt.load(text, directory=tmp_path).shapes
    assert_near(placed(first).min(axis=0), (0, 0, -2), 0.0)
    assert_near(spread(placed(second)), spread(placed(packed)), SINGLE)
    with pytest.warns(ModelWarning, match="hull 'a'"):
        assert "filename" not in kt.to_urdf(level.with_shapes([wedge]))


def test_nothing_is_opened_until_it_is_needed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = ROBOT.replace('<mesh name="stl"', '<mesh name="absent" file="absent.stl"/><mesh name="stl"')
    text = text.replace('class="seen" type="mesh"', 'type="mesh"').replace(
        '<body name="heavy" pos="0 1 0">', "<body>" + INERTIAL
    )
    for opened in ("sheared", "ball"):
        text = text.replace(f'<geom type="mesh" mesh="{opened}"', '<geom class="seen" type="mesh" mesh="stl"')
    text = text.replace('type="capsule" mesh="stl"', 'size="1"').replace('<geom type="box" mesh="stl"/>', "")
    (path.parent / "lazy.xml").write_text(text)
    monkeypatch.setattr(mjcf_assets.Assets, "_content", lambda *_: pytest.fail("a mesh is opened"))
    robot = kt.load(path.parent / "lazy.xml")
    absent = next(shape for shape in robot.shapes if getattr(shape, "file", "") == "meshes/absent.stl")
    assert isinstance(absent, geo.Hull)
    with pytest.raises(LoadError, match="not found; looked in"):
        _ = absent.vertices


@pytest.mark.parametrize("kind", ["capsule", "hfield"])
def test_what_is_missing_is_reported_and_left_out(kind: str, path: Path) -> None:
    asset = '<mesh name="m" file="no.stl"/><hfield name="m" file="no.png" size="1 1 1 1"/>'
    what = "hfield" if kind == "hfield" else "mesh"
    text = f'<mujoco><asset>{asset}</asset><worldbody><geom size="1"/><geom type="{kind}" {what}="m"/>'
    file = path.parent / "missing.xml"
    file.write_text(text + f'<body><joint/>{INERTIAL}<geom size="1"/></body></worldbody></mujoco>')
    with pytest.warns(ModelWarning, match=r"cannot be read, left out: .*no\.(stl|png)"):
        assert [shape.kind for shape in kt.load(file).shapes] == ["sphere", "sphere"]


@pytest.mark.parametrize(
    "asset",
    [
        '<hfield name="h" nrow="65536" ncol="65536" size="1 1 1 1"/>',
        '<hfield name="h" file="bomb.png" size="1 1 1 1"/>',
        '<hfield name="h" file="bomb.bin" size="1 1 1 1"/>',
    ],
)
def test_height_fields_are_bounded(asset: str, path: Path) -> None:
    (path.parent / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(8) + b"\0\1\0\0" * 2)
    (path.parent / "bomb.bin").write_bytes(b"\0\0\1\0" * 2)
    file = path.parent / "bomb.xml"
    file.write_text(f'<mujoco><asset>{asset}</asset><worldbody><geom type="hfield" hfield="h"/></worldbody></mujoco>')
    with pytest.raises(LoadError, match="more than 4000000 points"):
        kt.load(file)
