"""Shapes for bodies without visuals: capsules along the links, boxes and ellipsoids of equal inertia."""

from __future__ import annotations

import numpy as np

from kinetree.model.body import Body
from kinetree.model.model import Model
from kinetree.spatial.value import Array
from kinetree.viewer import geometry
from kinetree.viewer.geometry import Color, Mesh

# Radius of capsules relative to their length, and its bounds relative to the robot's size.
_THICKNESS, _THINNEST, _THICKEST = 0.12, 0.01, 0.03

# Links shorter than this, relative to the robot's size, are drawn as their joint only.
_SHORT = 0.01

#: Muted colours, one for each branch.
PALETTE: tuple[Color, ...] = (
    (0.45, 0.47, 0.50, 1.0),
    (0.26, 0.45, 0.65, 1.0),
    (0.79, 0.42, 0.24, 1.0),
    (0.34, 0.58, 0.34, 1.0),
    (0.59, 0.35, 0.63, 1.0),
    (0.71, 0.59, 0.24, 1.0),
)


def size(robot: Model, poses: Array) -> float:
    """Size of the robot: the longest edge of the bounding box of all its frames [m]."""
    points = poses[:, :3, 3]
    extent = float(np.max(np.ptp(points, axis=0), initial=0.0))
    reach = max((float(np.linalg.norm(body.com)) for body in robot.bodies), default=0.0)
    largest = max(extent, 2.0 * reach)
    return largest if 0.0 < largest < np.inf else 1.0


def capsules(robot: Model, scale: float) -> dict[str, list[Mesh]]:
    """Capsules from the joint of each body to the joints and frames that it carries; free objects are boxes.

    Args:
        robot: The mechanism.
        scale: Its size [m].

    Returns:
        Meshes by body name, in the bodies' link frames.
    """
    ends: dict[str, list[Array]] = {body.name: [] for body in robot.bodies}
    for body in robot.bodies:
        if body.parent in ends:
            ends[body.parent].append(robot.joint(body.joint).placement[:3, 3])
    for frame in robot.extra_frames:
        if frame.body in ends:
            ends[frame.body].append(frame.placement[:3, 3])
    found = {}
    for body in robot.bodies:
        alone = robot.joint(body.joint).kind == "floating" and not ends[body.name]
        block = inertia_block(body) if alone else None
        found[body.name] = _links(body, ends[body.name], scale) if block is None else [block]
    return found


def _links(body: Body, ends: list[Array], scale: float) -> list[Mesh]:
    far = [end for end in ends if np.linalg.norm(end) > _SHORT * scale]
    if not far and np.linalg.norm(body.com) > _SHORT * scale:
        far = [2.0 * body.com]  # as if it were a rod
    if not far:
        radius = _THINNEST * scale
        return [geometry.ellipsoid((radius, radius, radius))] if ends or body.mass else []
    return [geometry.capsule(np.zeros(3), end, _radius(end, scale)) for end in far]


def _radius(end: Array, scale: float) -> float:
    return float(np.clip(_THICKNESS * np.linalg.norm(end), _THINNEST * scale, _THICKEST * scale))


def branch_colors(robot: Model) -> dict[str, Color]:
    """A colour for each body; it changes where the tree branches."""
    children: dict[str, int] = {}
    for body in robot.bodies:
        children[body.parent] = children.get(body.parent, 0) + 1
    colors: dict[str, Color] = {}
    used = 0
    for body in robot.bodies:
        if children[body.parent] > 1 or body.parent not in colors:
            colors[body.name] = PALETTE[used % len(PALETTE)]
            used += 1
        else:
            colors[body.name] = colors[body.parent]
    return colors


def inertia_block(body: Body) -> Mesh | None:
    """The homogeneous box with the body's mass and inertia, in its link frame; None if `inertia_ellipsoid` is."""
    found = inertia_ellipsoid(body)
    if found is None:
        return None
    axes, semi_axes = found
    # ∫x² of a box with half edge a is a²/3, of an ellipsoid with semi-axis b it is b²/5, both times the mass
    block = geometry.box(tuple(2.0 * np.sqrt(0.6) * semi_axes))
    return Mesh(block.vertices @ axes.T + body.com, block.faces, smooth=block.smooth)


def inertia_ellipsoid(body: Body) -> tuple[Array, Array] | None:
    """The homogeneous ellipsoid with the body's mass and inertia.

    Returns:
        Its axes as columns, (3, 3), and its semi-axes, (3,) [m]; None for a massless body or a physically inconsistent
        inertia.
    """
    if not body.mass > 0.0:
        return None
    moments, axes = np.linalg.eigh(body.inertia)
    squares = 2.5 / body.mass * (moments.sum() - 2.0 * moments)
    if not np.all(np.isfinite(squares)) or squares.min() < -1e-9 * max(squares.max(), 1e-12):
        return None
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] = -axes[:, 0]
    # flat ellipsoids get semi-axes of at least a millimetre
    return axes, np.maximum(np.sqrt(np.maximum(squares, 0.0)), 1e-3)
