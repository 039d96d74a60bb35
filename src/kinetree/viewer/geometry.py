"""Shapes for drawing robots: triangle meshes, and their placement on bodies."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kinetree.spatial.rotation import alignment
from kinetree.spatial.value import Array

#: Red, green, blue and opacity, each in 0…1.
Color = tuple[float, float, float, float]

# Segments of a full circle.
_AROUND = 24


@dataclass(frozen=True, eq=False)
class Mesh:
    """A triangle mesh.

    Attributes:
        vertices: (n, 3) [m].
        faces: Three vertices each, counterclockwise seen from outside, (m, 3).
        color: Colour given in the mesh file; None if there is none.
        smooth: Whether shading is interpolated across edges; otherwise triangles are shaded flat.
    """

    vertices: Array
    faces: Array
    color: Color | None = None
    smooth: bool = False


@dataclass(frozen=True, eq=False)
class Visual:
    """A shape fixed to a body.

    Attributes:
        body: Name of the body, or "world".
        placement: Pose in the body's link frame, (4, 4).
        mesh: The shape.
        color: None leaves the choice to the viewer.
    """

    body: str
    placement: Array
    mesh: Mesh
    color: Color | None


def box(size: tuple[float, ...]) -> Mesh:
    """A box centred at the origin, edges along the axes [m]."""
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = [triangle for a, b, c, d in quads for triangle in ((a, b, c), (a, c, d))]
    return Mesh(signs * (np.array(size) / 2.0), np.array(faces))


def cylinder(radius: float, length: float) -> Mesh:
    """A cylinder centred at the origin, its axis along z [m]."""
    half = length / 2.0
    # rims are duplicated, so that the edge between cap and wall stays sharp
    rings = [(-half, 0.0), (-half, radius), (-half, radius), (half, radius), (half, radius), (half, 0.0)]
    return _revolved(rings, skip=(1, 3))


def ellipsoid(semi_axes: tuple[float, ...]) -> Mesh:
    """An ellipsoid centred at the origin [m]; a sphere has three equal semi-axes."""
    angles = np.linspace(0.0, np.pi, _AROUND // 2 + 1)
    rings = [(-np.cos(angle), np.sin(angle)) for angle in angles[:-1]]
    unit = _revolved([*rings, (1.0, 0.0)])
    return Mesh(unit.vertices * np.array(semi_axes), unit.faces, smooth=True)


def capsule(start: Array, end: Array, radius: float) -> Mesh:
    """A cylinder with round ends from one point to another [m]."""
    along = np.asarray(end, dtype=float) - start
    length = float(np.linalg.norm(along))
    angles = np.linspace(0.0, np.pi / 2.0, _AROUND // 4 + 1)
    lower = [(-radius * np.cos(angle), radius * np.sin(angle)) for angle in angles]
    rings = lower + [(length - height, width) for height, width in reversed(lower)]
    mesh = _revolved(rings)
    R = alignment(along / length) if length > 0.0 else np.eye(3)
    return Mesh(mesh.vertices @ R.T + start, mesh.faces, smooth=True)


def _revolved(rings: list[tuple[float, float]], skip: tuple[int, ...] = ()) -> Mesh:
    """Surface through rings of (height, radius) along z, bottom first; `skip` lists those not joined to the next."""
    turn = 2.0 * np.pi * np.arange(_AROUND) / _AROUND
    circle = np.stack([np.cos(turn), np.sin(turn), np.zeros(_AROUND)], axis=-1)
    vertices = np.concatenate([radius * circle + [0.0, 0.0, height] for height, radius in rings])
    here = np.arange(_AROUND)
    there = np.roll(here, -1)
    faces = []
    for ring, (low, high) in enumerate(pairwise(rings)):
        if ring in skip:
            continue
        base, top = _AROUND * ring, _AROUND * (ring + 1)
        if high[1] > 0.0:
            faces.append(np.stack([base + here, top + there, top + here], axis=-1))
        if low[1] > 0.0:
            faces.append(np.stack([base + here, base + there, top + there], axis=-1))
    return Mesh(vertices, np.concatenate(faces), smooth=True)
