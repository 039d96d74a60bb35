"""Visuals of an MJCF file, by way of MuJoCo's own compiler."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kinetree.interop.mujoco_names import Names
from kinetree.loading.diagnostics import Diagnostics
from kinetree.loading.directory import Directory
from kinetree.loading.mjcf import compiled
from kinetree.loading.mjcf_reduction import Reduction
from kinetree.loading.source import Source
from kinetree.spatial.rotation import matrix_of
from kinetree.spatial.transform import pose
from kinetree.spatial.value import Array
from kinetree.viewer import geometry
from kinetree.viewer.geometry import Mesh, Visual

# Groups that MuJoCo's viewer shows by default; the others hold collision geometry.
_SHOWN = (0, 1, 2)

# Size at which infinite planes are drawn [m].
_HORIZON = 5.0

# Colour of a geom without material or colour.
_UNPAINTED = (0.5, 0.5, 0.5, 1.0)


def mjcf_visuals(
    source: Source, diagnostics: Diagnostics, package_roots: Sequence[str | os.PathLike[str]] = ()
) -> list[Visual]:
    """The visuals of the bodies of a file.

    Args:
        source: The MJCF source.
        diagnostics: Collects what cannot be drawn.
        package_roots: Directories from which meshes may be read, besides that of the file itself.
    """
    reduction = Reduction(source, Directory(source, None, package_roots), diagnostics, looks=True)
    # MuJoCo's warnings were already reported when the robot itself was loaded
    return visuals_of(compiled(reduction, Diagnostics(source.file)), diagnostics)


def visuals_of(model: Any, diagnostics: Diagnostics) -> list[Visual]:
    """The visuals of the bodies of a `mujoco.MjModel`."""
    names = Names(model)
    visuals: list[Visual] = []
    for geom in range(model.ngeom):
        body = names.bodies[model.geom_bodyid[geom]]
        rgba = model.geom_rgba[geom]
        if model.geom_matid[geom] >= 0 and np.allclose(rgba, _UNPAINTED):
            rgba = model.mat_rgba[model.geom_matid[geom]]
        if model.geom_group[geom] not in _SHOWN or rgba[3] == 0.0:
            continue
        shape = _SHAPES.get(int(model.geom_type[geom]))
        if shape is None:
            diagnostics.add("geoms that cannot be drawn", f"height field or SDF of body {body!r}")
            continue
        placement = pose(matrix_of(np.array(model.geom_quat[geom])), np.array(model.geom_pos[geom]))
        red, green, blue, opacity = (float(x) for x in rgba)
        visuals.append(Visual(body, placement, shape(model, geom), (red, green, blue, opacity)))
    return visuals


def _size(model: Any, geom: int) -> tuple[float, float, float]:
    first, second, third = (float(x) for x in model.geom_size[geom])
    return first, second, third


def _plane(model: Any, geom: int) -> Mesh:
    x, y, _ = (2.0 * half if half > 0.0 else _HORIZON for half in _size(model, geom))
    return geometry.box((x, y, 1e-3))


def _sphere(model: Any, geom: int) -> Mesh:
    radius, _, _ = _size(model, geom)
    return geometry.ellipsoid((radius, radius, radius))


def _capsule(model: Any, geom: int) -> Mesh:
    radius, half, _ = _size(model, geom)
    end: Array = np.array([0.0, 0.0, half])
    return geometry.capsule(-end, end, radius)


def _ellipsoid(model: Any, geom: int) -> Mesh:
    return geometry.ellipsoid(_size(model, geom))


def _cylinder(model: Any, geom: int) -> Mesh:
    radius, half, _ = _size(model, geom)
    return geometry.cylinder(radius, 2.0 * half)


def _box(model: Any, geom: int) -> Mesh:
    x, y, z = _size(model, geom)
    return geometry.box((2.0 * x, 2.0 * y, 2.0 * z))


def _mesh(model: Any, geom: int) -> Mesh:
    mesh = model.geom_dataid[geom]
    vertices = slice(model.mesh_vertadr[mesh], model.mesh_vertadr[mesh] + model.mesh_vertnum[mesh])
    faces = slice(model.mesh_faceadr[mesh], model.mesh_faceadr[mesh] + model.mesh_facenum[mesh])
    return Mesh(np.array(model.mesh_vert[vertices], dtype=float), np.array(model.mesh_face[faces]))


# By `mujoco.mjtGeom`.
_SHAPES: dict[int, Callable[[Any, int], Mesh]] = {
    0: _plane,
    2: _sphere,
    3: _capsule,
    4: _ellipsoid,
    5: _cylinder,
    6: _box,
    7: _mesh,
}
