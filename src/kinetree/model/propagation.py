"""The choice between recursions of matrices: in the frame of the tree, or from node to node by weights.

In the frame of the tree, columns need no propagation, but each node is first brought there. By weights, a column is
propagated through each ancestor of its node, with weights that have few steps (`spatial/axial.py`), and nodes cost
little else. For M, with weights of any shape, in operations:

    frame of the tree    230 per node + 11 per ancestor of a column
    by weights            70 per node + 34 per ancestor of a column, fewer if axes are parallel or at right angles

Times of single calls cross over later than operations do, those of batches earlier: propagated columns take memory for
each node, and should stay in the processor's caches.
"""

from __future__ import annotations

from kinetree.recursion.mechanism import Mechanism

#: Ancestors of a node with a column, on average over the columns.
_MOST_ANCESTORS = 8
#: Propagated columns of all nodes. A batch of eight samples takes 384 bytes for each.
_MOST_COLUMNS = 2048


def passes_few_nodes(mechanism: Mechanism) -> bool:
    """Whether matrices take less time by weights than in the frame of the tree. Depends on the tree alone."""
    depths, sizes = mechanism.topology.depths, [kind.nv for kind in mechanism.kinds]
    columns = sum(sizes)
    ancestors = sum((depth - 1) * size for depth, size in zip(depths, sizes, strict=True))
    return ancestors <= _MOST_ANCESTORS * columns and len(sizes) * columns <= _MOST_COLUMNS
