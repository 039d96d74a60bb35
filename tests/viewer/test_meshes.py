"""Mesh files: what is read, where they may lie, and what hostile ones do."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import numpy as np
import pytest

from kinetree.errors import LoadError
from kinetree.model import mesh_formats, meshes
from kinetree.model.mesh_formats import Mesh
from kinetree.model.meshes import Roots
from tests.tolerance import assert_near, refused

TRIANGLE = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])


def binary_stl(corners: np.ndarray) -> bytes:
    records = b"".join(struct.pack("<12fH", 0, 0, 0, *triangle.ravel(), 0) for triangle in corners)
    return bytes(80) + struct.pack("<I", len(corners)) + records


TEXT_STL = b"""solid one
facet normal 0 0 1
 outer loop
  vertex 0 0 0
  vertex 1 0 0
  vertex 0 2e0 0
 endloop
endfacet
endsolid one
"""

OBJ = b"""mtllib colors.mtl
v 0 0 0
v 1 0 0
v 0 2 0
v 0 0 3
usemtl red
f 1/1/1 2//2 3
usemtl unknown
f -4 -3 -2 -1
"""


def dae(geometry_body: str = "", scene: str = '<node><instance_geometry url="#g"/></node>', unit: str = "1") -> bytes:
    body = geometry_body or (
        '<source id="s"><float_array count="9">0 0 0 1 0 0 0 2 0</float_array></source>'
        '<vertices id="v"><input semantic="POSITION" source="#s"/></vertices>'
        '<triangles material="paint"><input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2</p></triangles>'
    )
    return f"""<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema">
 <asset><unit meter="{unit}"/></asset>
 <library_effects><effect id="e"><profile_COMMON><technique><phong>
  <diffuse><color>1 0.5 0 1</color></diffuse></phong></technique></profile_COMMON></effect></library_effects>
 <library_materials><material id="m"><instance_effect url="#e"/></material></library_materials>
 <library_geometries><geometry id="g"><mesh>{body}</mesh></geometry></library_geometries>
 <library_visual_scenes><visual_scene id="scene">{scene}</visual_scene></library_visual_scenes>
 <scene><instance_visual_scene url="#scene"/></scene>
</COLLADA>""".encode()


def load(directory: Path, name: str, data: bytes) -> list[Mesh]:
    (directory / name).write_bytes(data)
    return meshes.load(name, Roots(beside=directory))


def corners(parts: list[Mesh]) -> np.ndarray:
    return np.concatenate([part.vertices[part.faces] for part in parts])


# -- what is read ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.stl", binary_stl(TRIANGLE[None])), ("a.STL", TEXT_STL), ("a.dae", dae()), ("a.DAE", dae(unit="1.0"))],
)
def test_a_triangle_is_read(tmp_path: Path, name: str, data: bytes) -> None:
    np.testing.assert_array_equal(corners(load(tmp_path, name, data)), TRIANGLE[None])


def test_a_binary_stl_may_start_as_a_text_does(tmp_path: Path) -> None:
    data = b"solid".ljust(80) + binary_stl(TRIANGLE[None])[80:]
    np.testing.assert_array_equal(corners(load(tmp_path, "a.stl", data)), TRIANGLE[None])


def test_equal_corners_become_one_vertex(tmp_path: Path) -> None:
    box = mesh_formats.box((1.0, 2.0, 3.0))
    (part,) = load(tmp_path, "a.stl", binary_stl(box.vertices[box.faces]))
    assert len(part.vertices) == 8
    np.testing.assert_array_equal(part.vertices[part.faces], box.vertices[box.faces])


def test_polygons_of_an_obj_are_fans_in_the_colours_of_its_materials(tmp_path: Path) -> None:
    (tmp_path / "colors.mtl").write_text("newmtl red\nKd 1 0 0.25\nKd of nothing\nnewmtl other\nKd 0 1 0\n")
    red, unknown = load(tmp_path, "a.obj", OBJ)
    assert red.color == (1.0, 0.0, 0.25, 1.0)
    assert unknown.color is None
    np.testing.assert_array_equal(corners([red]), TRIANGLE[None])
    assert corners([unknown]).shape == (2, 3, 3)


def test_materials_outside_of_the_roots_are_not_read(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "colors.mtl").write_text("newmtl red\nKd 1 0 0\n")
    for name in ("../colors.mtl", str(tmp_path / "colors.mtl"), "nul\0l.mtl"):
        parts = load(inside, "a.obj", OBJ.replace(b"colors.mtl", name.encode()))
        assert [part.color for part in parts] == [None, None]


def test_nodes_and_units_of_a_collada_file_place_its_polygons(tmp_path: Path) -> None:
    scene = (
        "<node><translate>0 0 5</translate><rotate>0 0 1 90</rotate><scale>2 2 2</scale>"
        '<node><matrix>1 0 0 1 0 1 0 0 0 0 1 0 0 0 0 1</matrix><instance_geometry url="#g">'
        '<bind_material><technique_common><instance_material symbol="paint" target="#m"/></technique_common>'
        "</bind_material></instance_geometry></node></node>"
    )
    (part,) = load(tmp_path, "a.dae", dae(scene=scene, unit="0.01"))
    expected = 0.01 * (
        2.0 * np.add(TRIANGLE, [1.0, 0.0, 0.0]) @ np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 1]]) + [0, 0, 5.0]
    )
    assert_near(corners([part])[0], expected, 1e-15)
    assert part.color == (1.0, 0.5, 0.0, 1.0)


@pytest.mark.parametrize(
    "polygons",
    [
        (
            '<polylist><input semantic="VERTEX" source="#v" offset="1"/><input semantic="NORMAL" offset="0"/>'
            "<vcount>4 3</vcount><p>9 0 9 1 9 2 9 3 9 0 9 1 9 2</p></polylist>"
        ),
        '<polygons><input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2 3</p><p>0 1 2</p></polygons>',
    ],
)
def test_polygons_of_a_collada_file_are_fans(tmp_path: Path, polygons: str) -> None:
    body = (
        '<source id="s"><float_array>0 0 0 1 0 0 1 1 0 0 1 0</float_array></source>'
        f'<vertices id="v"><input semantic="POSITION" source="#s"/></vertices>{polygons}'
    )
    (part,) = load(tmp_path, "a.dae", dae(body))
    assert part.faces.tolist() == [[0, 1, 2], [0, 2, 3], [0, 1, 2]]


# -- where they may lie ------------------------------------------------------------------------------------------------


def packages(tmp_path: Path) -> Path:
    meshes_directory = tmp_path / "share" / "arm" / "meshes"
    meshes_directory.mkdir(parents=True)
    (meshes_directory / "a.stl").write_bytes(binary_stl(TRIANGLE[None]))
    (tmp_path / "secret.stl").write_bytes(binary_stl(TRIANGLE[None]))
    (tmp_path / "share" / "arm" / "urdf").mkdir()
    return tmp_path / "share"


@pytest.mark.parametrize("root", ["share", "share/arm"])
def test_packages_are_found_in_given_roots(tmp_path: Path, root: str) -> None:
    share = packages(tmp_path)
    for name in ("package://arm/meshes/a.stl", "model://arm/meshes/a.stl", "package://arm//meshes/a.stl"):
        assert Roots([tmp_path / root]).find(name) == share / "arm" / "meshes" / "a.stl"


def test_paths_inside_a_root_are_found(tmp_path: Path) -> None:
    share = packages(tmp_path)
    expected = share / "arm" / "meshes" / "a.stl"
    assert Roots([share]).find(str(expected)) == expected
    assert Roots([share]).find(f"file://{expected}") == expected
    assert Roots(beside=share / "arm").find("meshes/a.stl") == expected
    assert Roots([share], share / "arm" / "urdf").find("../meshes/a.stl") == expected


@pytest.mark.parametrize(
    "name",
    [
        "package://arm/../../secret.stl",
        "package://../secret.stl",
        "package://arm\\..\\..\\secret.stl",
        "../../secret.stl",
        "../../../secret.stl",
        "{top}/secret.stl",
        "file://{top}/secret.stl",
        "package://{top}/secret.stl",
        "/etc/passwd",
        "link.stl",
        "door/secret.stl",
    ],
)
def test_nothing_outside_of_the_roots_is_opened(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    share = packages(tmp_path)
    beside = share / "arm" / "urdf"
    (beside / "link.stl").symlink_to(tmp_path / "secret.stl")
    (beside / "door").symlink_to(tmp_path)
    opened: list[str] = []
    monkeypatch.setattr(os, "open", lambda path, *_: opened.append(path))
    with pytest.raises(LoadError, match=r"lies outside of the directories given|not found"):
        meshes.load(name.format(top=tmp_path), Roots([share], beside))
    assert not opened


def test_a_path_outside_of_the_roots_is_told_from_a_missing_one(tmp_path: Path) -> None:
    share = packages(tmp_path)
    with pytest.raises(LoadError, match="secret.stl: lies outside of the directories given; add its own as a package"):
        meshes.load("package://arm/../../secret.stl", Roots([share]))
    with pytest.raises(LoadError, match=f"gone.stl: not found; looked in {share}"):
        meshes.load("package://arm/gone.stl", Roots([share]))
    with pytest.raises(LoadError, match="not found; looked in no directory, since none is given"):
        meshes.load("package://arm/meshes/a.stl", Roots())


def test_the_package_root_is_guessed_in_the_message_but_not_used(tmp_path: Path) -> None:
    share = packages(tmp_path)
    with pytest.raises(LoadError, match=f"try {share} as package root"):
        meshes.load("package://arm/meshes/a.stl", Roots(beside=share / "arm" / "urdf"))


@pytest.mark.parametrize("name", ["http://example.org/a.stl", "https://example.org/a.stl", "ftp://example.org/a.stl"])
def test_nothing_is_fetched(tmp_path: Path, name: str) -> None:
    refused("is not followed: nothing is fetched", meshes.load, name, Roots([tmp_path]), error=LoadError)


@pytest.mark.parametrize("name", ["", ".", "nul\0l.stl", "x" * 5000 + ".stl", "package://", "package://arm"])
def test_odd_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(LoadError):
        meshes.load(name, Roots([packages(tmp_path)], tmp_path))


def test_a_root_must_be_a_directory(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="is not a directory; pass the directory that holds the robot's packages"):
        Roots([tmp_path / "gone"])


# -- hostile content ---------------------------------------------------------------------------------------------------

GARBAGE = bytes(range(256)) * 8


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.stl", b"", "is not a valid STL file"),
        ("a.stl", GARBAGE, "is not a valid STL file"),
        ("a.stl", bytes(80) + b"\xff\xff\xff\xff" + bytes(50), "4294967295 triangles take 214748364834 bytes, it has"),
        ("a.stl", binary_stl(TRIANGLE[None])[:-1], "is not a valid STL file"),
        ("a.stl", bytes(84), "has no triangles"),
        ("a.stl", b"solid empty\nendsolid", "has no triangles"),
        ("a.stl", b"solid\nvertex 0 0 0\nvertex 1 0 0", "it has 2 vertices, which are no triangles"),
        ("a.stl", b"solid\nvertex a b c", "a vertex is not three numbers"),
        ("a.stl", binary_stl(TRIANGLE[None] * np.nan), "not finite"),
        ("a.stl", binary_stl(TRIANGLE[None] * 1e30), "kilometres away"),
        ("a.obj", b"", "has no faces"),
        ("a.obj", GARBAGE, "has no faces"),
        ("a.obj", b"v 0 0 0\nf 1 2 3", "the face in line 2 has a vertex that is not there"),
        ("a.obj", b"v 0 0 0\nf 0 1 1", "the face in line 2 has a vertex that is not there"),
        ("a.obj", b"v 0 0 0\nf 1 1 -2", "the face in line 2 has a vertex that is not there"),
        ("a.obj", b"v 0 0 0\nf 1 1 " + b"9" * 5000, "the face in line 2"),
        ("a.obj", b"v 0 0\nf 1 1 1", "a vertex is not three numbers"),
        ("a.obj", b"v 0 0 x\nf 1 1 1", "a vertex is not three numbers"),
        ("a.obj", b"v 0 0 inf\nf 1 1 1", "not finite"),
        ("a.dae", b"", "is not a valid COLLADA file"),
        ("a.dae", GARBAGE, "is not a valid COLLADA file"),
        ("a.dae", b"<robot/>", "it starts with <robot>"),
        ("a.dae", b"<COLLADA/>", "has no polygons"),
        ("a.dae", b'<!DOCTYPE x [<!ENTITY a "b">]><COLLADA/>', "document types and entities are not supported"),
        ("a.dae", b"<COLLADA>" + b"<a/>" * 600_000 + b"</COLLADA>", "has more than 500000 elements"),
        ("a.dae", b"<a>" * 3000 + b"</a>" * 3000, "is not a valid COLLADA file"),
        ("a.dae", dae(unit="0"), "its unit is not a positive length"),
        ("a.dae", dae(unit="inf"), "its unit is not a positive length"),
        ("a.dae", dae(unit="x"), "a list of numbers holds something else"),
        ("a.dae", dae().replace(b"0 1 2</p>", b"0 1 3</p>"), "a polygon has a vertex that is not there"),
        ("a.dae", dae().replace(b"0 1 2</p>", b"0 1 -1</p>"), "a polygon has a vertex that is not there"),
        ("a.dae", dae().replace(b"0 1 2</p>", b"0 1</p>"), "its polygons do not fit their vertices"),
        ("a.dae", dae().replace(b"0 1 2</p>", b"0 1 99999999999999999999</p>"), "do not fit their vertices"),
        ("a.dae", dae().replace(b'offset="0"', b'offset="-7"'), "do not fit their vertices"),
        ("a.dae", dae().replace(b'offset="0"', b'offset="999999999999"'), "do not fit their vertices"),
        ("a.dae", dae().replace(b"1 0 0 0 2 0<", b"1 0 0 0 2<"), "its vertices are not three numbers each"),
        ("a.dae", dae().replace(b"1 0 0 0 2 0<", b"1 0 0 0 2 nan<"), "not finite"),
        ("a.dae", dae().replace(b'source="#s"', b'source="#gone"'), "polygons without vertices"),
        ("a.dae", dae(scene='<node id="n"><instance_node url="#n"/></node>'), "nested without end"),
        ("a.dae", dae(scene="<node><matrix>1 2 3</matrix></node>"), "3 numbers where 16 should be"),
        ("a.ply", b"ply", "'.ply' is not read; convert it to .stl, .obj, .msh, .dae"),
        ("a", b"ply", "'' is not read"),
    ],
)
def test_broken_meshes_are_refused(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    start = time.process_time()
    caught = refused(message, load, tmp_path, name, data, error=LoadError)
    assert caught.file == name
    assert time.process_time() - start < 5.0  # of hours


def test_nodes_that_copy_each_other_end(tmp_path: Path) -> None:
    """Each node shows the next one twice: two to the sixtieth triangles, if nobody counts."""
    nodes = "".join(f'<node id="n{i}">' + f'<instance_node url="#n{i + 1}"/>' * 2 + "</node>" for i in range(60))
    scene = nodes + '<node id="n60"><instance_geometry url="#g"/></node>'
    refused("has more than 5000 parts", load, tmp_path, "a.dae", dae(scene=scene), error=LoadError)


def test_large_meshes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meshes, "LARGEST", 1000)
    with pytest.raises(LoadError, match=r"has \d+ bytes, more than 1000; simplify it"):
        load(tmp_path, "a.stl", binary_stl(np.repeat(TRIANGLE[None], 30, axis=0)))
    monkeypatch.undo()
    monkeypatch.setattr(meshes, "MOST_FACES", 10)
    with pytest.raises(LoadError, match="has more than 10 triangles; simplify it"):
        load(tmp_path, "a.stl", binary_stl(np.repeat(TRIANGLE[None], 30, axis=0)))


def test_pipes_and_directories_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.stl")
    (tmp_path / "directory.stl").mkdir()
    for name in ("pipe.stl", "directory.stl"):
        with pytest.raises(LoadError, match=r"is no regular file|cannot be read: Is a directory"):
            meshes.load(name, Roots(beside=tmp_path))


@pytest.mark.parametrize("suffix", [".stl", ".obj", ".dae"])
def test_spoilt_meshes_are_read_or_refused(tmp_path: Path, suffix: str) -> None:
    """A small fuzz: bytes changed, cut out and doubled never raise anything but `LoadError`."""
    rng = np.random.default_rng(0)
    whole = {".stl": TEXT_STL, ".obj": OBJ, ".dae": dae()}[suffix]
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.integers(1, 6)):
            at = int(rng.integers(len(data)))
            change = rng.integers(3)
            if change == 0:
                data[at] = int(rng.integers(256))
            elif change == 1:
                del data[at : at + int(rng.integers(20))]
            else:
                data[at:at] = data[max(0, at - 15) : at]
        try:
            parts = load(tmp_path, f"a{suffix}", bytes(data))
        except LoadError:
            continue
        for part in parts:
            assert np.isfinite(part.vertices).all()
            assert part.faces.max() < len(part.vertices)
