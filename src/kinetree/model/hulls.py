"""Convex hulls of points and of mesh files, by SciPy's Qhull. Files are read when they are needed, and then kept."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import numpy as np

from kinetree.errors import LoadError, ModelError, UnsupportedError
from kinetree.model.mesh_formats import Mesh
from kinetree.model.meshes import FARTHEST, Roots, load
from kinetree.spatial.value import Array

#: What brings SciPy and coal.
INSTALL = 'pip install "kinetree[hulls]"'

#: More points than this are refused.
MOST_POINTS = 3_000_000

# Hulls that are kept, the last ones used.
_KEPT = 512

# Points whose least extent is below this part of their largest one have no volume.
_FLAT = 1e-9


def convex_hull(points: Array) -> Mesh:
    """The convex hull of points, (n, 3): its vertices, and triangles that are counterclockwise from outside.

    Raises:
        UnsupportedError: If SciPy is not installed.
        ModelError: If the points have no volume, are not finite, or are too many.
    """
    if len(points) > MOST_POINTS:
        raise ModelError(f"its {len(points)} points are more than {MOST_POINTS}; simplify it")
    if not len(points) or not (np.abs(points) <= FARTHEST).all():  # NaN fails too
        raise ModelError(f"its points are none, not finite, or beyond {FARTHEST:g} m")
    try:
        from scipy.spatial import ConvexHull, QhullError
    except ModuleNotFoundError:
        raise UnsupportedError(
            f"convex hulls are SciPy's, which is not installed. Install it with: {INSTALL}"
        ) from None
    centered = points - points.mean(axis=0)
    extents = np.sqrt(np.maximum(np.linalg.eigvalsh(centered.T @ centered / len(points)), 0.0))
    if not extents[0] > _FLAT * extents[-1]:
        raise ModelError("its points lie in a plane, so it has no volume; give a box in its place")
    try:
        hull = ConvexHull(points)
    except QhullError as error:
        raise ModelError(f"it has no convex hull: {str(error).strip().splitlines()[0][:200]}") from None
    faces = np.searchsorted(np.sort(hull.vertices), hull.simplices)
    vertices = np.array(points[np.sort(hull.vertices)])
    faces = _evenly(vertices, faces, hull.equations[:, :3])
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    inwards = np.einsum("ij,ij->i", np.cross(b - a, c - a), a - vertices.mean(axis=0)) < 0.0
    faces[inwards] = faces[inwards][:, ::-1]
    for array in (vertices, faces):
        array.setflags(write=False)
    return Mesh(vertices, faces)


def _evenly(vertices: Array, faces: Array, normals: Array) -> Array:
    """Triangles of which those in a plane form a zigzag: Qhull's are fans, whose first vertices have many edges."""
    _, plane, count = np.unique(normals, axis=0, return_inverse=True, return_counts=True)
    plane = plane.reshape(-1)
    found = [faces[count[plane] == 1]]
    for one in np.flatnonzero(count > 1):
        own = np.unique(faces[plane == one])
        normal = normals[plane == one][0]
        away = vertices[own] - vertices[own].mean(axis=0)
        x = np.cross(normal, away[0])
        ring = own[np.argsort(np.arctan2(away @ np.cross(normal, x), away @ x))]
        # first, last, second, second to last, …
        order = np.empty_like(ring)
        order[0::2], order[1::2] = ring[: (len(ring) + 1) // 2], ring[: (len(ring) - 1) // 2 : -1]
        found.append(np.stack([order[:-2], order[1:-1], order[2:]], axis=-1))
    return np.concatenate(found)


def roots_of(name: str, directories: tuple[str, ...] | None) -> tuple[Roots, Path]:
    """Where a mesh may be read from, and its path.

    Args:
        name: As a robot's file names it.
        directories: Where it may lie, that of the robot's file first, or "" if there is none. None for a name that the
            user gives, which is a path.
    """
    if directories is None:
        path = Path(os.path.abspath(name))
        roots = Roots((), path.parent)
        return roots, roots.find(str(path))
    first, *others = directories or ("",)
    roots = Roots(others, Path(first) if first else None)
    return roots, roots.find(name)


def hull_of_file(name: str, directories: tuple[str, ...] | None, scale: Array) -> Mesh:
    """The convex hull of a mesh file, as in `roots_of`, scaled along its axes, (3,)."""
    roots, path = roots_of(name, directories)
    state = path.stat()
    try:
        return _read(str(path), roots.given, roots.beside, state.st_mtime_ns, state.st_size, tuple(scale.tolist()))
    except ModelError as error:
        raise LoadError(str(error), name) from None


@lru_cache(_KEPT)
def _read(
    path: str, given: tuple[Path, ...], beside: Path | None, _time: int, _size: int, scale: tuple[float, ...]
) -> Mesh:
    parts = load(path, Roots(given, beside))
    return convex_hull(np.concatenate([part.vertices for part in parts]) * np.array(scale))
