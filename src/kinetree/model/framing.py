"""Chooses the frames of nodes such that placements take few steps (`spatial/axial.py`).

A frame behind a joint along z may be turned about z and shifted along it, and behind a prismatic joint shifted in any
direction: the constants of the node, of its children and of its frames take that up. As [DH55] do:

    origin    the foot of the perpendicular from the parent's origin, or of the common normal of the two axes
    x axis    along the common normal with the axis of a child, or towards the child if the axes are parallel

The choice of x serves one child, and those at right angles to it; of several children, it is made such that all of
their placements together cost least. What differs from zero or a quarter turn by rounding errors only is
replaced by that.

Frames are not shifted before the first joint that rotates, since inertias about a point at distance d contain m d²: a
robot on a long slide would lose digits that its motion does not need. Behind a joint that rotates, the distances that
appear here are those that the motion amplifies anyway.

[DH55] J. Denavit, R. Hartenberg, "A kinematic notation for lower-pair mechanisms based on matrices", Journal of Applied
       Mechanics 22, 1955.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from kinetree.model.joints.base import AxialStage, Stage
from kinetree.model.shape import Shape, Steps
from kinetree.recursion.topology import WORLD
from kinetree.spatial.axial import ANY
from kinetree.spatial.value import Array

_Vector = tuple[float, float, float]
_ROUNDING = 8.0 * float(np.finfo(float).eps)
#: Axes at smaller angles have a common normal too far away.
_CLOSE = 0.25
#: Children of one node that may determine its x axis.
_TRIED = 6
#: Sine and cosine.
_NO_TURN = (0.0, 1.0)
_QUARTERS = {(0.0, 1.0): 0, (1.0, 0.0): 1, (0.0, -1.0): 2, (-1.0, 0.0): 3}


class Change(NamedTuple):
    """Where the frame that a joint moves is in the frame chosen for its node: a turn about z, then a position [m]."""

    sine: float = 0.0
    cosine: float = 1.0
    x: float = 0.0
    y: float = 0.0
    z: float = 0.0

    def turned(self, sine: float, cosine: float) -> Change:
        """The same in a frame turned about z."""
        s, c = self.sine, self.cosine
        x, y, z = _turn((self.x, self.y, self.z), sine, cosine)
        return Change(s * cosine - c * sine, c * cosine + s * sine, x, y, z)

    def of(self, rows: list[list[float]]) -> list[list[float]]:
        """A pose, given by its first three rows, in the node's frame."""
        if self is UNCHANGED:
            return rows
        s, c = self.sine, self.cosine
        first, second, third = rows
        one = [c * a - s * b for a, b in zip(first, second, strict=True)]
        two = [s * a + c * b for a, b in zip(first, second, strict=True)]
        one[3], two[3] = one[3] + self.x, two[3] + self.y
        return [one, two, [*third[:3], third[3] + self.z]]


UNCHANGED = Change()


def changed(changes: Sequence[Change]) -> Array:
    """The poses of changes, (n, 4, 4)."""
    s, c, x, y, z = np.array(changes).reshape(-1, 5).T
    poses = np.tile(np.eye(4), (len(changes), 1, 1))
    poses[:, 0, 0], poses[:, 0, 1], poses[:, 1, 0], poses[:, 1, 1] = c, -s, s, c
    poses[:, 0, 3], poses[:, 1, 3], poses[:, 2, 3] = x, y, z
    return poses


def framed(
    parents: Sequence[int], poses: Array, stages: Sequence[Stage | None], fixed: Collection[int]
) -> tuple[list[Change], list[Steps | None]]:
    """The change of each node's frame, and its placement in steps if it has a joint along an axis on a node.

    Args:
        parents: Parents of the nodes, −1 for the world.
        poses: The frame that each joint moves, in that of the parent, at neutral q, (n, 4, 4).
        stages: The joints; None for nodes without.
        fixed: Nodes whose frames must not change.
    """
    count = len(parents)
    children: list[list[int]] = [[] for _ in range(count)]
    for k, p in enumerate(parents):
        if p != WORLD and isinstance(stages[k], AxialStage):
            children[p].append(k)
    changes: list[Change] = []
    steps: list[Steps | None] = []
    rotates: list[bool] = []
    rows = poses[:, :3].tolist()
    for k, p in enumerate(parents):
        stage, change, own = stages[k], UNCHANGED, None
        if isinstance(stage, AxialStage) and k not in fixed:
            if p != WORLD:
                own, change = _placed(changes[p].of(rows[k]), stage, rotates[p])
            if stage.rotates:
                phase = _phase([(change.of(rows[c]), stages[c]) for c in children[k]])
                if phase != _NO_TURN:
                    change = change.turned(*phase)
                    own = own and own._replace(phase=phase)
        changes.append(change)
        steps.append(own)
        rotates.append(stage is None or stage.rotates or (p != WORLD and rotates[p]))
    return changes, steps


def _placed(rows: list[list[float]], stage: AxialStage, movable: bool) -> tuple[Steps, Change]:
    """The steps to a joint with a given pose, and the place of its frame behind them."""
    a, b, d = rows[0][0], rows[1][0], rows[2][0]
    steps, moved = _steps(rows, stage, movable)
    (sx, cx), (sz, cz) = steps.about_x, steps.about_z
    # the frame's x axis behind the steps
    cosine = a * cz + b * sz
    sine = (b * cz - a * sz) * cx + d * sx
    length = math.sqrt(cosine * cosine + sine * sine)
    sine, cosine = _direction(sine / length, cosine / length)
    # what the origin was shifted by: along the axis only, if the joint turns
    x, y, z = _turn(moved, sz, cz)
    x, y, z = (0.0 if stage.rotates else x), (0.0 if stage.rotates else y * cx + z * sx), z * cx - y * sx
    if sine == 0.0 and cosine == 1.0 and x == y == z == 0.0:
        return steps, UNCHANGED
    return steps, Change(sine, cosine, x, y, z)


def _steps(rows: list[list[float]], stage: Stage | None, movable: bool) -> tuple[Steps, _Vector]:
    """The steps to a joint with a given pose, and how far it was from their end, in the parent's axes."""
    u, p = _axis(rows), (rows[0][3], rows[1][3], rows[2][3])
    across = math.sqrt(u[0] * u[0] + u[1] * u[1])
    if across == 0.0:
        about_x, about_z, sine_x, cosine_x, sine_z, cosine_z = (0 if u[2] > 0.0 else 2), 0, 0.0, u[2], 0.0, 1.0
    else:
        sine_z, cosine_z = _direction(u[0] / across, -u[1] / across)
        about_z = _QUARTERS.get((sine_z, cosine_z), ANY)
        if u[2] == 0.0:
            about_x, sine_x, cosine_x = 1, 1.0, 0.0
        else:
            about_x, sine_x, cosine_x = ANY, across, u[2]
    r, offsets = p, 7
    if movable and stage is not None and not stage.rotates:
        r, offsets = (0.0, 0.0, 0.0), 0
    elif movable and about_x in (0, 2):
        aligned = abs(p[1]) <= _ROUNDING * max(abs(p[0]), abs(p[2]))
        r, offsets = ((p[0], 0.0, 0.0), 1) if aligned else ((p[0], p[1], 0.0), 3)
    elif movable and about_x == 1 and about_z in (0, 2):
        r, offsets = (p[0], 0.0, p[2]), 5
    elif movable and about_x == 1 and about_z in (1, 3):
        r, offsets = (0.0, p[1], p[2]), 6
    elif movable and about_z == 0 and sine_x >= _CLOSE:
        r, offsets = (p[0], 0.0, p[2] + p[1] / sine_x * cosine_x), 5
    moved = p[0] - r[0], p[1] - r[1], p[2] - r[2]
    return Steps(Shape(about_x, about_z, offsets), (sine_x, cosine_x), (sine_z, cosine_z), r), moved


def _phase(children: Sequence[tuple[list[list[float]], Stage | None]]) -> tuple[float, float]:
    """Sine and cosine of the turn about z after which the children's placements cost least."""
    tried = list(dict.fromkeys([*(_towards(rows) for rows, _ in children[:_TRIED]), _NO_TURN]))
    if tried == [_NO_TURN]:
        return _NO_TURN
    least, chosen = math.inf, _NO_TURN
    for phase in tried:
        turn = UNCHANGED if phase == _NO_TURN else UNCHANGED.turned(*phase)
        cost = sum(_steps(turn.of(rows), stage, True)[0].shape.cost for rows, stage in children)
        if cost < least:
            least, chosen = cost, phase
    return chosen


def _towards(rows: list[list[float]]) -> tuple[float, float]:
    """Sine and cosine of the turn about z that makes x the common normal with a child's axis."""
    u = _axis(rows)
    x, y = -u[1], u[0]
    if x == y == 0.0:  # parallel: towards the child
        x, y = rows[0][3], rows[1][3]
    length = math.sqrt(x * x + y * y)
    return _direction(y / length, x / length) if length > _ROUNDING * abs(rows[2][3]) else (0.0, 1.0)


def _axis(rows: list[list[float]]) -> _Vector:
    """The z axis of a pose."""
    x, y, z = [(0.0 if abs(row[2]) <= _ROUNDING else row[2]) for row in rows]
    return (x, y, z) if x or y else (0.0, 0.0, math.copysign(1.0, z))


def _direction(sine: float, cosine: float) -> tuple[float, float]:
    """Sine and cosine of an angle, exact if it differs from quarter turns by rounding errors only."""
    if abs(sine) <= _ROUNDING:
        return 0.0, math.copysign(1.0, cosine)
    return (math.copysign(1.0, sine), 0.0) if abs(cosine) <= _ROUNDING else (sine, cosine)


def _turn(x: _Vector, sine: float, cosine: float) -> _Vector:
    """A vector in a frame turned about z."""
    return x[0] * cosine + x[1] * sine, x[1] * cosine - x[0] * sine, x[2]
