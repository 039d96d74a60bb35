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
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from functools import cache, reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np

from kinetree.compiler.lower.node_schedule import grouped, may_pay
from kinetree.language.mechanism import WORLD, Topology
from kinetree.model.assembly.node_constants import NodeDraft, axial_kind
from kinetree.model.joints.protocol import AxialStage, Stage
from kinetree.model.nodes.rigid import JointedBody, PlacementShape, PlacementSteps, shared
from kinetree.spatial.axial import ANY
from kinetree.spatial.reproducible import product
from kinetree.spatial.transform import IDENTITY, inverses
from kinetree.spatial.value import Array

_Vector = tuple[float, float, float]
#: The axis of a joint and a point on it: direction, then position.
_Line = tuple[float, float, float, float, float, float]
_ROUNDING = 8.0 * float(np.finfo(float).eps)
#: Axes at smaller angles have a common normal too far away.
_CLOSE = 0.25
#: Children of one node that may determine its x axis.
_TRIED = 6
#: Sine and cosine.
_NO_TURN = (0.0, 1.0)
_QUARTERS = {(0.0, 1.0): 0, (1.0, 0.0): 1, (0.0, -1.0): 2, (-1.0, 0.0): 3}
_shape = cache(PlacementShape)


class FrameChange(NamedTuple):
    """Where the frame that a joint moves is in the frame chosen for its node: a turn about z, then a position [m]."""

    sine: float = 0.0
    cosine: float = 1.0
    x: float = 0.0
    y: float = 0.0
    z: float = 0.0

    def turned(self, sine: float, cosine: float) -> FrameChange:
        """The same in a frame turned about z."""
        s, c = self.sine, self.cosine
        x, y, z = _turn((self.x, self.y, self.z), sine, cosine)
        return FrameChange(s * cosine - c * sine, c * cosine + s * sine, x, y, z)

    def of(self, line: _Line) -> _Line:
        """A line in the node's frame."""
        if self is UNCHANGED:
            return line
        s, c, x, y, z = self
        a, b, d, px, py, pz = line
        return c * a - s * b, s * a + c * b, d, c * px - s * py + x, s * px + c * py + y, pz + z


UNCHANGED = FrameChange()


def changed(changes: Sequence[FrameChange]) -> Array:
    """The poses of changes, (n, 4, 4)."""
    s, c, x, y, z = np.array(changes).reshape(-1, 5).T
    poses = IDENTITY[None].repeat(len(changes), 0)
    poses[:, 0, 0], poses[:, 0, 1], poses[:, 1, 0], poses[:, 1, 1] = c, -s, s, c
    poses[:, 0, 3], poses[:, 1, 3], poses[:, 2, 3] = x, y, z
    return poses


class Framed(NamedTuple):
    """The frames chosen for nodes. Nodes whose surroundings are alike share them: `which` is the entry of each node.

    There are no steps for nodes without a joint along an axis, or on the world.
    """

    which: list[int]
    changes: list[FrameChange]
    steps: list[PlacementSteps | None]


def framed(
    parents: Sequence[int],
    placed: Sequence[int],
    poses: Array,
    stages: Sequence[Stage | None],
    fixed: Collection[int],
) -> Framed:
    """The change of each node's frame, and its placement in steps if it has a joint along an axis on a node.

    Plain numbers, since each frame depends on the one before. Large robots consist of parts that repeat, so what was
    found for one node also serves others with the same joint and the same children, if the parent's changed likewise.

    Args:
        parents: Parents of the nodes, −1 for the world.
        placed: For each node, its entry in `poses`.
        poses: The frame that a joint moves, in that of the parent, at neutral q, (m, 4, 4).
        stages: The joints; None for nodes without.
        fixed: Nodes whose frames must not change.
    """
    axial = [isinstance(stage, AxialStage) for stage in stages]
    turning = [stage is None or stage.rotates for stage in stages]
    places, _ = distinct(zip(placed, axial, turning, [k in fixed for k in range(len(parents))], strict=True))
    children: list[list[int]] = [[] for _ in parents]
    for k, p in enumerate(parents):
        if p != WORLD and axial[k]:
            children[p].append(k)
    # the axis of each joint and its origin, and the x axis of the frame that it moves
    lines: list[_Line] = list(map(tuple, poses[:, :3, 2:].transpose(0, 2, 1).reshape(-1, 6).tolist()))
    across: list[list[float]] = poses[:, :3, 0].tolist()
    found = Framed([], [], [])
    known: dict[tuple[Any, ...], int] = {}
    numbers: dict[FrameChange, int] = {}
    number_of: list[int] = []  # of the change in each entry, the same for equal ones
    rotates: list[bool] = []
    for k, p in enumerate(parents):
        on_world = p == WORLD
        above, movable = (-1, False) if on_world else (number_of[found.which[p]], rotates[p])
        key = above, movable, places[k], *[places[c] for c in children[k]]
        entry = known.get(key)
        if entry is None:
            change, own = UNCHANGED, None
            if axial[k] and k not in fixed:
                if not on_world:
                    own, change = _placed(
                        found.changes[found.which[p]], lines[placed[k]], across[placed[k]], turning[k], movable
                    )
                if turning[k]:
                    phase = _phase([(change.of(lines[placed[c]]), turning[c]) for c in children[k]])
                    if phase != _NO_TURN:
                        change = change.turned(*phase)
                        own = own and PlacementSteps(own.shape, (*own.numbers[:7], *phase))
            entry = known[key] = len(found.changes)
            found.changes.append(change)
            found.steps.append(own)
            number_of.append(numbers.setdefault(change, len(numbers)))
        found.which.append(entry)
        rotates.append(turning[k] or movable)
    return found


def distinct(things: Iterable[Hashable]) -> tuple[list[int], list[int]]:
    """A number for each thing, the same for equal ones; and where each number occurs first."""
    numbers: dict[Hashable, int] = {}
    found = [numbers.setdefault(thing, len(numbers)) for thing in things]
    first = dict(zip(reversed(found), reversed(range(len(found)))))
    return found, [first[number] for number in range(len(numbers))]


def _placed(
    parent: FrameChange, line: _Line, across: list[float], turns: bool, movable: bool
) -> tuple[PlacementSteps, FrameChange]:
    """The steps to a joint with a given axis and x axis in its parent, and the place of its frame behind them."""
    a, b, d = across
    if parent is not UNCHANGED:
        s, c = parent.sine, parent.cosine
        a, b = c * a - s * b, s * a + c * b
    line = parent.of(line)
    steps = _steps(line, turns, movable)
    sx, cx, sz, cz, rx, ry, rz, _, _ = steps.numbers
    # the frame's x axis behind the steps
    cosine = a * cz + b * sz
    sine = (b * cz - a * sz) * cx + d * sx
    length = math.sqrt(cosine * cosine + sine * sine)
    sine, cosine = _direction(sine / length, cosine / length)
    # what the origin was shifted by: along the axis only, if the joint turns
    x, y, z = _turn((line[3] - rx, line[4] - ry, line[5] - rz), sz, cz)
    x, y, z = (0.0 if turns else x), (0.0 if turns else y * cx + z * sx), z * cx - y * sx
    if sine == 0.0 and cosine == 1.0 and x == y == z == 0.0:
        return steps, UNCHANGED
    return steps, FrameChange(sine, cosine, x, y, z)


def _steps(line: _Line, turns: bool, movable: bool) -> PlacementSteps:
    """The steps to a joint with a given axis, which turns or only slides, and whose origin may be moved or not."""
    px, py, pz = line[3:]
    ux, uy, uz = _axis(line)
    if ux == uy == 0.0:
        about_x, about_z, sine_x, cosine_x, sine_z, cosine_z = (0 if uz > 0.0 else 2), 0, 0.0, uz, 0.0, 1.0
    else:
        across = math.sqrt(ux * ux + uy * uy)
        sine_z, cosine_z = _direction(ux / across, -uy / across)
        about_z = _QUARTERS.get((sine_z, cosine_z), ANY)
        if uz == 0.0:
            about_x, sine_x, cosine_x = 1, 1.0, 0.0
        else:
            about_x, sine_x, cosine_x = ANY, across, uz
    offsets = 7
    if not movable:
        pass
    elif not turns:
        px, py, pz, offsets = 0.0, 0.0, 0.0, 0
    elif about_x in (0, 2):
        aligned = abs(py) <= _ROUNDING * max(abs(px), abs(pz))
        py, pz, offsets = (0.0, 0.0, 1) if aligned else (py, 0.0, 3)
    elif about_x == 1 and about_z in (0, 2):
        py, offsets = 0.0, 5
    elif about_x == 1 and about_z in (1, 3):
        px, offsets = 0.0, 6
    elif about_z == 0 and sine_x >= _CLOSE:
        py, pz, offsets = 0.0, pz + py / sine_x * cosine_x, 5
    numbers = sine_x, cosine_x, sine_z, cosine_z, px, py, pz, *_NO_TURN
    return PlacementSteps(_shape(about_x, about_z, offsets), numbers)


def _phase(children: Sequence[tuple[_Line, bool]]) -> tuple[float, float]:
    """Sine and cosine of the turn about z after which the placements of children, which turn or not, cost least."""
    tried = list(dict.fromkeys([*(_towards(line) for line, _ in children[:_TRIED]), _NO_TURN]))
    if tried == [_NO_TURN]:
        return _NO_TURN
    least, chosen = math.inf, _NO_TURN
    for phase in tried:
        turn = UNCHANGED if phase == _NO_TURN else UNCHANGED.turned(*phase)
        cost = sum([_steps(turn.of(line), turns, True).shape.cost for line, turns in children])
        if cost < least:
            least, chosen = cost, phase
    return chosen


def _towards(line: _Line) -> tuple[float, float]:
    """Sine and cosine of the turn about z that makes x the common normal with a child's axis."""
    ux, uy, _ = _axis(line)
    x, y = -uy, ux
    if x == y == 0.0:  # parallel: towards the child
        x, y = line[3:5]
    length = math.sqrt(x * x + y * y)
    return _direction(y / length, x / length) if length > _ROUNDING * abs(line[5]) else _NO_TURN


def _axis(line: _Line) -> _Vector:
    """The direction of a line."""
    x, y, z, _, _, _ = line
    x, y = 0.0 if abs(x) <= _ROUNDING else x, 0.0 if abs(y) <= _ROUNDING else y
    if x or y:
        return x, y, 0.0 if abs(z) <= _ROUNDING else z
    return 0.0, 0.0, math.copysign(1.0, z)


def _direction(sine: float, cosine: float) -> tuple[float, float]:
    """Sine and cosine of an angle, exact if it differs from quarter turns by rounding errors only."""
    if abs(sine) <= _ROUNDING:
        return 0.0, math.copysign(1.0, cosine)
    return (math.copysign(1.0, sine), 0.0) if abs(cosine) <= _ROUNDING else (sine, cosine)


def _turn(x: _Vector, sine: float, cosine: float) -> _Vector:
    """A vector in a frame turned about z."""
    return x[0] * cosine + x[1] * sine, x[1] * cosine - x[0] * sine, x[2]


#: In larger trees, nodes of each shape suffice to fill lanes.
_MOST_ALIKE = 10_000
_NO_STEPS = (0.0,) * 9


class Reframed(NamedTuple):
    """The frames of nodes.

    Attributes:
        at: The frame that each joint moves, in that of the parent, (n, 4, 4); for nodes whose placements have no steps.
        steps: The numbers of placements in steps, (n, 9).
        here: Where the frame that each joint moves is in the frame of its node; at the end that of the world, which
            index −1 reads, (n + 1, 4, 4).
    """

    at: Array
    steps: Array
    here: Array


def reframe(nodes: Sequence[NodeDraft], placed: Sequence[int], poses: Array, fixed: Collection[int]) -> Reframed:
    """Move the frames of nodes to where their placements take few steps, and change their kinds; see `framed`."""
    stages = [node.kind.joint if isinstance(node.kind, JointedBody) else None for node in nodes]
    parents = [node.parent for node in nodes]
    which, changes, found = framed(parents, placed, poses, stages, fixed)
    here = np.concatenate([changed(changes)[which], IDENTITY[None]])
    at, whole = poses[placed], [k for k, entry in enumerate(which) if found[entry] is None]
    if carried := [k for k in whole if parents[k] != WORLD]:
        at[carried] = product(here[[parents[k] for k in carried]], at[carried])
    if turned := [k for k in whole if changes[which[k]] is not UNCHANGED]:
        at[turned] = product(at[turned], inverses(here[turned]))
    steps = np.array([_NO_STEPS if own is None else own.numbers for own in found]).reshape(-1, 9)[which]
    _give_kinds(nodes, [own and own.shape for own in [found[entry] for entry in which]])
    return Reframed(at, steps, here)


def _give_kinds(nodes: Sequence[NodeDraft], shapes: Sequence[PlacementShape | None]) -> None:
    """Nodes whose placements have a shape get kinds for few shapes."""
    shapes = _common_shapes(nodes, shapes)
    pairs = list(zip([node.kind for node in nodes], shapes, strict=True))
    alike: dict[int, dict[PlacementShape, int]] = {}
    for (number, shape), count in Counter((id(kind), shape) for kind, shape in pairs).items():
        if shape is not None:
            alike.setdefault(number, {})[shape] = count
    becomes = {
        (id(kind), shape): axial_kind(kind.joint, kind.has_armature, common)
        for kind in {id(kind): kind for kind, _ in pairs}.values()
        if isinstance(kind, JointedBody)
        for shape, common in shared(alike.get(id(kind), {})).items()
    }
    for node, (kind, shape) in zip(nodes, pairs, strict=True):
        if shape is not None:
            node.kind = becomes[id(kind), shape]


def _common_shapes(
    nodes: Sequence[NodeDraft], shapes: Sequence[PlacementShape | None]
) -> Sequence[PlacementShape | None]:
    """The same shape for nodes that a single sample can compute at once, one per lane."""
    if len(nodes) > _MOST_ALIKE:
        return shapes
    topology, numbers = Topology(tuple(node.parent for node in nodes)), dict[Any, int]()
    if not may_pay(topology):
        return shapes
    variants = [numbers.setdefault((node.kind, node.parent == WORLD), len(numbers)) for node in nodes]
    found = list(shapes)
    for group in grouped(topology, tuple(variants)):
        own = {k: shape for k in group if (shape := shapes[k]) is not None}
        if len(own) > 1:
            common = reduce(or_, own.values())
            for k in own:
                found[k] = common
    return found
