"""Sparsity of operators, from the shape of the tree alone. [J11] §7.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from kinetree.operators.algebra import Expression
from kinetree.recursion.topology import WORLD, Topology
from kinetree.spatial.value import Array


def pattern(expression: Expression, topology: Topology) -> Array:
    """The structurally nonzero blocks, (nodes, nodes); base first."""
    if expression.kind == "product":
        factors = [pattern(part, topology) for part in expression.parts]
        found: Array = reduce(np.matmul, factors)
        return found
    if expression.kind == "sum":
        return np.asarray(np.any([pattern(part, topology) for part in expression.parts], axis=0))
    if expression.kind == "transpose":
        return np.transpose(pattern(expression.parts[0], topology))
    blocks = np.zeros((len(topology), len(topology)), dtype=bool)
    for k, parent in enumerate(topology.parents):
        above = (
            [parent] if expression.kind == "shift" else topology.support(k) if expression.kind == "resolvent" else [k]
        )
        for node in above:
            if node != WORLD:
                blocks[node, k] = True
    return blocks


def picture(expression: Expression, topology: Topology) -> str:
    """The pattern in characters, tips first, with gaps between segments: the serial chains of the tree."""
    blocks = pattern(expression, topology)[::-1, ::-1]
    segments = [len(segment) for segment in _contiguous(topology)][::-1]
    starts = {sum(segments[:i]) for i in range(1, len(segments))}
    lines = []
    for i, row in enumerate(blocks):
        cells = ["#" if here else "·" for here in row]
        line = "".join((" " if j in starts else "") + cell for j, cell in enumerate(cells))
        lines += [*([""] if i in starts else []), line]
    return "\n".join(lines)


def _contiguous(topology: Topology) -> list[tuple[int, ...]]:
    """The segments in order of their nodes; depth-first numbering keeps each together."""
    return sorted(topology.segments)
