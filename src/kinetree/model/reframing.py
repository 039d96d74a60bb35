"""Gives nodes frames in which their placements take few steps, and kinds for the shapes of these."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from operator import or_
from typing import Any

from kinetree.engines.groups import grouped, may_pay
from kinetree.model.framing import UNCHANGED, changed, framed
from kinetree.model.node import JointedBody
from kinetree.model.node_constants import NodeDraft, axial_kind, stacked
from kinetree.model.placement import inverse
from kinetree.model.shape import Shape, shared
from kinetree.recursion.topology import WORLD, Topology
from kinetree.spatial.fixed import product
from kinetree.spatial.value import Array

#: In larger trees, nodes of each shape suffice to fill lanes.
_MOST_ALIKE = 10_000


def reframe(nodes: Sequence[NodeDraft], fixed: Collection[int]) -> tuple[Array, list[bool]]:
    """Move the frames of nodes to where their placements take few steps.

    Args:
        nodes: All nodes; placements and kinds change.
        fixed: Nodes whose frames must not change.

    Returns:
        Where the frame that each joint moves is in the frame of its node, (n, 4, 4), and whether the two differ.
    """
    stages = [node.kind.joint if isinstance(node.kind, JointedBody) else None for node in nodes]
    poses = stacked([node.at for node in nodes])
    changes, steps = framed([node.parent for node in nodes], poses, stages, fixed)
    here, moved = changed(changes), [change is not UNCHANGED for change in changes]
    alike: dict[int, list[int]] = {}
    for k, (node, own) in enumerate(zip(nodes, steps, strict=True)):
        if own is not None:
            alike.setdefault(id(node.kind), []).append(k)
            node.steps = own
        else:
            at = product(here[node.parent], node.at) if node.parent != WORLD and moved[node.parent] else node.at
            node.at = product(at, inverse(here[k])) if moved[k] else at
    shapes = _common_shapes(nodes, {k: own.shape for k, own in enumerate(steps) if own is not None})
    for group in alike.values():
        kind, becomes = nodes[group[0]].kind, shared([shapes[k] for k in group])
        if isinstance(kind, JointedBody):
            kinds = {shape: axial_kind(kind.joint, kind.has_armature, shape) for shape in set(becomes)}
            for k, shape in zip(group, becomes, strict=True):
                nodes[k].kind = kinds[shape]
    return here, moved


def _common_shapes(nodes: Sequence[NodeDraft], shapes: dict[int, Shape]) -> dict[int, Shape]:
    """The same shape for nodes that a single sample can compute at once, one per lane."""
    numbers = dict[Any, int]()
    topology = Topology(tuple(node.parent for node in nodes))
    if len(nodes) > _MOST_ALIKE or not may_pay(topology):
        return shapes
    variants = [numbers.setdefault((node.kind, node.parent == WORLD), len(numbers)) for node in nodes]
    found = dict(shapes)
    for group in grouped(topology, tuple(variants)):
        own = [shapes[k] for k in set(group) if k in shapes]
        if own:
            found |= dict.fromkeys((k for k in group if k in shapes), reduce(or_, own))
    return found
