"""Hulls of meshes and points: opened when they are needed, from where they may lie, and refused with reasons."""

from __future__ import annotations

import os
import pickle
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import geometry as geo
from kinetree.errors import InputError, LoadError, ModelError, UnsupportedError
from kinetree.model import meshes as files
from kinetree.model.hulls import convex_hull
from tests.tolerance import assert_near, refused

CUBE = np.array([[x, y, z] for x in (0.0, 1.0) for y in (0.0, 2.0) for z in (0.0, 3.0)])


def obj(points: Any) -> str:
    """A mesh through points; its triangles do not matter for the hull."""
    corners = "\n".join(f"f {k + 1} {k + 2} {k + 3}" for k in range(len(points) - 2))
    return "\n".join("v {} {} {}".format(*point) for point in points) + "\n" + corners


def urdf(file: str, scale: str = "1 1 1") -> str:
    return f"""<robot name="r"><link name="hand">
    <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>
    <collision><geometry><mesh filename="{file}" scale="{scale}"/></geometry></collision></link></robot>"""


def hull_of(robot: kt.Model) -> geo.Hull:
    (shape,) = robot.shapes
    assert isinstance(shape, geo.Hull)
    return shape


def test_a_hull_of_points() -> None:
    inside = np.random.default_rng(0).uniform(0.1, 0.9, (200, 3))
    mesh = convex_hull(np.concatenate([inside, CUBE]))
    assert_near(np.array(sorted(mesh.vertices.tolist())), CUBE, 0.0)
    a, b, c = (mesh.vertices[mesh.faces[:, i]] for i in range(3))
    assert_near(np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0, 6.0, 1e-12)  # the volume, so all faces look outwards
    hull = geo.Hull("a", points=CUBE, scale=(1, -1, 1))
    assert_near(hull.vertices[:, 1].min(), -2.0, 0.0)
    assert pickle.loads(pickle.dumps(hull)) == hull
    assert hash(pickle.loads(pickle.dumps(hull))) == hash(hull)
    assert hull != geo.Hull("a", points=CUBE)


def test_meshes_lie_beside_the_robot_or_in_packages(tmp_path: Path) -> None:
    (tmp_path / "one" / "meshes").mkdir(parents=True)
    (tmp_path / "one" / "meshes" / "a.obj").write_text(obj(CUBE))
    (tmp_path / "one" / "b.obj").write_text(obj(CUBE))
    robot = tmp_path / "one" / "robot.urdf"
    robot.write_text(urdf("meshes/a.obj", "2 1 1"))
    hull = hull_of(kt.load(robot))
    assert_near(hull.vertices.max(axis=0), (2, 2, 3), 0.0)
    assert hull.vertices is hull_of(pickle.loads(pickle.dumps(kt.load(robot)))).vertices  # read once
    robot.write_text(urdf("package://one/b.obj"))
    with pytest.raises(LoadError, match=r"try .* as package root \(the mesh of shape 'hand'\)"):
        _ = hull_of(kt.load(robot)).vertices
    assert len(hull_of(kt.load(robot, package_roots=[tmp_path])).vertices) == 8
    assert len(hull_of(kt.load(urdf("package://one/b.obj"), package_roots=[tmp_path])).vertices) == 8
    with pytest.raises(LoadError, match="looked in no directory, since none is given"):
        _ = hull_of(kt.load(urdf("meshes/a.obj"))).vertices
    assert len(geo.Hull("hand", str(tmp_path / "one" / "b.obj")).vertices) == 8
    assert len(geo.Hull("hand", tmp_path / "one" / "b.obj").vertices) == 8  # type: ignore[arg-type]
    refused("is one directory", kt.load, robot, package_roots=str(tmp_path), error=InputError)
    refused("is not a directory", kt.load, robot, package_roots=[tmp_path / "none"], error=InputError)


def test_a_mesh_that_has_changed_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "a.obj"
    file.write_text(obj(CUBE))
    hull = geo.Hull("hand", str(file))
    assert len(hull.vertices) == 8
    file.write_text(obj([*CUBE, (0.5, 0.5, 9.0)]))
    assert hull.vertices.max() == 9.0


@pytest.mark.parametrize("name", ["../secret.obj", "sub/../../secret.obj", "link.obj", "file://{}/secret.obj"])
def test_meshes_elsewhere_are_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "robot" / "sub").mkdir(parents=True)
    (tmp_path / "secret.obj").write_text(obj(CUBE))
    os.symlink(tmp_path / "secret.obj", tmp_path / "robot" / "link.obj")
    file = tmp_path / "robot" / "robot.urdf"
    file.write_text(urdf(name.format(tmp_path)))
    robot = kt.load(file)
    with pytest.raises(LoadError, match="lies outside of the directories given"):
        _ = hull_of(robot).vertices


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 nan 0\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 2 3 4", "not finite"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 1e9 0\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 2 3 4", "kilometres away"),
        ("a.obj", b"", "has no faces"),
        ("a.obj", obj(CUBE[:4]).encode(), "lie in a plane"),
        ("a.obj", b"v 1 1 1\nv 1 1 1\nv 1 1 1\nf 1 2 3", "lie in a plane"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3", "lie in a plane"),
        ("a.obj", b"v 0 0 0\nf 1 2 3", "a vertex that is not there"),
        ("a.stl", bytes(80) + struct.pack("<I", 2**32 - 1) + bytes(100), "4294967295 triangles take"),
        ("a.stl", bytes(80), "triangles take"),
        ("a.stl", b"", "triangles take"),
        ("a.dae", b"<COLLADA/>", "no polygons"),
        ("a.step", b"", "is not read; convert it"),
    ],
)
def test_hostile_meshes(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    start = time.perf_counter()
    with pytest.raises(LoadError, match=problem) as told:
        _ = geo.Hull("hand", str(file)).vertices
    assert time.perf_counter() - start < 2.0
    assert "hand" in str(told.value)


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.obj"
    file.write_text(obj(CUBE))
    refused("beyond 1e\\+06 m", lambda: geo.Hull("a", str(file), (1e9, 1, 1)).vertices, error=LoadError)
    refused("lie in a plane", lambda: geo.Hull("a", str(file), (0, 1, 1)).vertices, error=LoadError)
    monkeypatch.setattr("kinetree.model.hulls.MOST_POINTS", 5)
    refused("8 points are more than 5", lambda: geo.Hull("a", points=CUBE).vertices, error=ModelError)
    monkeypatch.setattr(files, "LARGEST", 10)
    refused("more than 10; simplify", lambda: geo.Hull("a", str(file), (3, 1, 1)).vertices, error=LoadError)
    os.mkfifo(tmp_path / "pipe.obj")
    refused("no regular file", lambda: geo.Hull("a", str(tmp_path / "pipe.obj")).vertices, error=LoadError)
    refused("not found", lambda: geo.Hull("a", str(tmp_path / "none.obj")).vertices, error=LoadError)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: geo.Hull("a"), "either a file or points"),
        (lambda: geo.Hull("a", "b.stl", points=CUBE), "either a file or points"),
        (lambda: geo.Hull("a", points=CUBE[:, :2]), r"\(n, 3\) finite numbers"),
        (lambda: geo.Hull("a", points=CUBE * np.nan), r"\(n, 3\) finite numbers"),
        (lambda: geo.Hull("a", points=np.zeros((0, 3))), r"\(n, 3\) finite numbers"),
        (lambda: geo.Hull("a", points="many"), r"\(n, 3\) finite numbers"),
        (lambda: geo.Hull("a", points=CUBE[:3]).vertices, "lie in a plane"),
    ],
)
def test_hulls_that_cannot_be_are_refused(make: Any, problem: str) -> None:
    refused(problem, make, error=ModelError)


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "scipy.spatial", None)
    refused(r"kinetree\[hulls\]", lambda: geo.Hull("a", points=CUBE).vertices, error=UnsupportedError)
