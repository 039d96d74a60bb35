"""Geoms of MuJoCo's models that may collide, and which of them its contact section excludes or pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinetree.model.body import frozen
from kinetree.model.model import Model
from kinetree.model.pair_rules import PairRules
from kinetree.model.shapes import Box, Capsule, Cylinder, Ellipsoid, HeightField, Hull, Plane, SolidShape, Sphere
from kinetree.spatial.reproducible import product
from kinetree.spatial.rotation import matrix_of
from kinetree.spatial.transform import IDENTITY
from kinetree.spatial.value import Array


def with_geoms(robot: Model, model: Any, bodies: Sequence[str], hulls: Sequence[Hull] = ()) -> Model:
    """A robot with the geoms of a model that may collide.

    Args:
        robot: The robot.
        model: MuJoCo's model.
        bodies: The names of its bodies.
        hulls: What takes the place of geoms whose user data is their number, from 1 on.
    """
    shapes = shapes_of(model, bodies, hulls)
    if shapes:
        robot = robot.with_shapes(shapes.values())
    names = {geom: shape.name for geom, shape in zip(shapes, robot.shapes, strict=True)}
    # a signature has the numbers of two bodies, of 16 bits each
    excluded = ((bodies[both >> 16], bodies[both & 0xFFFF]) for both in model.exclude_signature.tolist())
    paired = zip(model.pair_geom1.tolist(), model.pair_geom2.tolist(), strict=True)
    included = ((names[a], names[b]) for a, b in paired if a in names and b in names)
    rules = PairRules(tuple(dict.fromkeys(excluded)), tuple(dict.fromkeys(included)))
    return robot._edited(pair_rules=rules) if any(rules) else robot


def shapes_of(model: Any, bodies: Sequence[str], hulls: Sequence[Hull]) -> dict[int, SolidShape]:
    """The geoms of a model that may collide, by number; see `with_geoms`."""
    found, written = dict[int, SolidShape](), written_names(model, model.name_geomadr)
    may = (model.geom_contype.astype(int) | model.geom_conaffinity.astype(int)) != 0
    may[model.pair_geom1] = may[model.pair_geom2] = True
    every = np.flatnonzero(may).tolist()
    poses = posed(matrix_of(np.array(model.geom_quat)), model.geom_pos) if every else np.zeros((0, 4, 4))
    for geom in every:
        body, at = bodies[model.geom_bodyid[geom]], poses[geom]
        name, (x, y, z) = written[geom] or body, (float(size) for size in model.geom_size[geom])
        masks = int(model.geom_contype[geom]), int(model.geom_conaffinity[geom])
        friction = float(model.geom_friction[geom, 0])
        rest: dict[str, Any] = {"body": body, "friction": friction, "source": "file", "masks": masks}
        if hulls and (number := int(model.geom_user[geom, 0])):
            hull = hulls[number - 1]
            placement = frozen(product(at, hull.placement), (4, 4))
            found[geom] = Hull.trusted(**{**vars(hull), "name": name, "placement": placement, **rest})
            continue
        match int(model.geom_type[geom]):  # `mujoco.mjtGeom`
            case 0:
                found[geom] = Plane(name, at, **rest)
            case 1:
                found[geom] = HeightField(*_field(model, int(model.geom_dataid[geom])), at, name, **rest)
            case 2:
                found[geom] = Sphere(name, at[:3, 3], x, **rest)
            case 3:
                found[geom] = Capsule(name, at[:3, 3] - y * at[:3, 2], at[:3, 3] + y * at[:3, 2], x, **rest)
            case 4:
                found[geom] = Ellipsoid(name, (x, y, z), at, **rest)
            case 5:
                found[geom] = Cylinder(name, x, 2.0 * y, at, **rest)
            case 6:
                found[geom] = Box(name, (2.0 * x, 2.0 * y, 2.0 * z), at, **rest)
            case 7:
                found[geom] = Hull(name, placement=at, points=_vertices(model, int(model.geom_dataid[geom])), **rest)
    return found


def _field(model: Any, number: int) -> tuple[Array, tuple[float, float]]:
    """Heights and size of a height field."""
    x, y, top, _ = model.hfield_size[number].tolist()
    rows, columns = int(model.hfield_nrow[number]), int(model.hfield_ncol[number])
    start = int(model.hfield_adr[number])
    heights = np.array(model.hfield_data[start : start + rows * columns], dtype=float).reshape(rows, columns)
    return top * heights, (2.0 * x, 2.0 * y)


def _vertices(model: Any, number: int) -> Array:
    """The vertices of a mesh, only those of its hull if MuJoCo has it."""
    start, count = int(model.mesh_vertadr[number]), int(model.mesh_vertnum[number])
    found = np.array(model.mesh_vert[start : start + count], dtype=float)
    graph = int(model.mesh_graphadr[number])
    if graph < 0:
        return found
    size = int(model.mesh_graph[graph])  # numbers of vertices and faces, edges of each vertex, then the vertices
    used = np.sort(model.mesh_graph[graph + 2 + size : graph + 2 + 2 * size])
    return np.asarray(found[used])


def written_names(model: Any, starts: Any) -> list[str]:
    """The names that start at given places of the model's text, empty for objects without."""
    text = bytes(model.names)
    return [text[start : text.index(0, start)].decode() for start in starts.tolist()]


def posed(rotations: Array, positions: Any) -> Array:
    """Poses, (n, 4, 4)."""
    found = IDENTITY[None].repeat(len(positions), 0)
    found[:, :3, :3], found[:, :3, 3] = rotations, positions
    return found
