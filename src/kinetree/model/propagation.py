"""The choice of a view for recursions of matrices: own coordinates of nodes, or the common frame of a tree.

In the common frame, columns need no propagation, but each node is first brought there. In own coordinates, a column is
propagated through each ancestor of its node, with weights that have few steps (`spatial/axial.py`), and nodes cost
little else. For M, with weights of any shape, in operations:

    common frame        230 per node + 11 per ancestor of a column
    own coordinates      70 per node + 34 per ancestor of a column, fewer if axes are parallel or at right angles

The Coriolis matrix and linearised inverse dynamics cross over at fewer ancestors on chains with axes in any direction,
but later on robots. Times of single calls cross over later than operations do, those of batches earlier.
"""

from __future__ import annotations

from kinetree.recursion.mechanism import Mechanism

#: Ancestors of a node with a column, on average over the columns.
_MOST_ANCESTORS = 8


def prefers_common_frame(mechanism: Mechanism) -> bool:
    """Whether matrices take less time in the common frame than in own coordinates. Depends on the tree alone."""
    depths, sizes = mechanism.topology.depths, [kind.nv for kind in mechanism.kinds]
    columns = sum(sizes)
    ancestors = sum((depth - 1) * size for depth, size in zip(depths, sizes, strict=True))
    return ancestors > _MOST_ANCESTORS * columns
