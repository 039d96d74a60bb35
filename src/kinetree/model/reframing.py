"""Gives nodes frames in which their placements take few steps, and kinds for the shapes of these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np

from kinetree.engines.groups import grouped, may_pay
from kinetree.model.framing import UNCHANGED, changed, framed
from kinetree.model.node import JointedBody
from kinetree.model.node_constants import NodeDraft, axial_kind
from kinetree.model.shape import Shape, shared
from kinetree.recursion.topology import WORLD, Topology
from kinetree.spatial.fixed import product
from kinetree.spatial.transform import IDENTITY, inverses
from kinetree.spatial.value import Array

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
    """Move the frames of nodes to where their placements take few steps.

    Args:
        nodes: All nodes; kinds change.
        placed: For each node, its entry in `poses`.
        poses: The frame that a joint moves, in that of the parent, at neutral q, (m, 4, 4).
        fixed: Nodes whose frames must not change.
    """
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


def _give_kinds(nodes: Sequence[NodeDraft], shapes: Sequence[Shape | None]) -> None:
    """Nodes whose placements have a shape get kinds for few shapes."""
    shapes = _common_shapes(nodes, shapes)
    pairs = list(zip([node.kind for node in nodes], shapes, strict=True))
    alike: dict[int, dict[Shape, int]] = {}
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


def _common_shapes(nodes: Sequence[NodeDraft], shapes: Sequence[Shape | None]) -> Sequence[Shape | None]:
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
