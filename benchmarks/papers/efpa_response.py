"""M⁻¹Jᵀ by extended force propagators, beside Λ⁻¹: what J̄ = M⁻¹Jᵀ Λ takes. Cost O(n·d + n·m).

    pass       loop                       leaves                                                    source
    Table I    as in `efpa.py`            χ(k, i), Λ⁻¹(i, k), Λ⁻¹; q̈ of the joints that support k    [W12] Eqs. 6–14
    reach      gather, columns            w(j, i): the row of each joint, taken inward               as Eq. 11
    apart      pairs of joint and task    q̈ of all other joints, at the last common ancestor         as Eq. 14

[W12] §VI leaves J̄ by extended propagators open. Eqs. 6 to 8 give the acceleration of joint j per unit force at k,

    q̈(j) = D⁻¹ Φᵀ χᵀ(k, j) − Gᵀ(j) X Λ⁻¹(p(j), k)

which is an entry of M⁻¹Jᵀ. Its first term is there if j supports k, and then both are by-products of Eq. 13. Else only
the second is: joint j is an end-effector with the single row Gᵀ(j), fixed to p(j). So it has an extended propagator
w(j, i) too, and by Eq. 14 its acceleration is −w(j, i) Λ⁻¹(i, k) at the last body i that carries both. Nothing has to
be taken outward to bodies that carry no end-effector.

See `efpa.py` for the notation.

[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
"""

from __future__ import annotations

from kinetree.algorithms.dynamics import inertias
from kinetree.algorithms.tasks import task_space
from kinetree.algorithms.tasks.task_space import PLAIN
from kinetree.language.algorithm import algorithm
from kinetree.language.common_frame import in_common_frame
from kinetree.language.loops import FrameEntity, NodeEntity, Table
from kinetree.language.mechanism import WORLD
from kinetree.language.roles import FrameRole, NodeRole
from kinetree.language.setup import Setup
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.motion import Motion


def _apart(setup: Setup) -> list[tuple[int, int, int]]:
    """Last common ancestor, node and frame, for all nodes that do not support the frame."""
    found = []
    for frame, site in enumerate(setup.sites):
        support = setup.topology.support(site.node)
        for k in set(setup.nodes) - set(support):
            ancestor = k
            while ancestor != WORLD and ancestor not in support:
                ancestor = setup.mechanism.parents[ancestor]
            if ancestor != WORLD:
                found.append((ancestor, k, frame))
    return sorted(found)


#: Nodes that do not support a frame, with the last node that carries both: `for a, k, frame in apart(tree)`.
apart: Table[tuple[NodeRole, NodeRole, FrameRole]] = Table(
    NodeEntity("ancestor"), NodeEntity("k", by="kind"), FrameEntity("frame"), rows=_apart, name="apart"
)


@in_common_frame
@algorithm(q=("q",), inverse_inertia=("rows", "rows"), response=("v", "rows"),
    outputs=("inverse_inertia", "response"), sparse=("response",))  # fmt: skip
def efpa_response(tree: Tree, q: Indexed, inverse_inertia: Indexed, response: Indexed) -> None:
    """Λ⁻¹ and M⁻¹Jᵀ of frames, seen from themselves.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        inverse_inertia: Λ⁻¹, (r, r).
        response: M⁻¹Jᵀ, (nv, r).
    """
    chi, Lambda, W = tree.array("node", "sorted_rows"), tree.array("node", "sorted_rows"), tree.array("node", "v")
    block = tree.array("sorted_rows", "sorted_rows")
    task_space.place(tree, q)
    for row in tree.sorted_rows():
        Lambda[tree.world, row] = Motion.zero()
    task_space.clear(tree, block)
    task_space.seed(tree, "local", chi)

    for k, parent in tree.gather():
        inertias.hinge(k, parent)
        for row in tree.carried(k):
            chi[parent, row] = k.X.T @ k.G.past(chi[k, row], k.H.T @ chi[k, row])  # Eq. 11
        for c in k.columns():
            W[parent, c] = k.X.T @ c.of(k.G)
        for c in tree.descendants(k):
            W[parent, c] = k.X.T @ k.G.past(W[k, c], k.H.T @ W[k, c])  # Eq. 11

    for k, parent in tree.scatter():
        for row in tree.carried(k):
            moved = k.X @ Lambda[parent, row]
            own = k.D.solve(k.H.T @ chi[k, row]) - k.G.T @ moved
            response[k, row] = own
            Lambda[k, row] = moved + k.H @ own  # Eq. 13

    for k, one, other in tree.common_ancestors():
        for r in tree.rows_of(one):
            for s in tree.rows_of(other, r):
                block[r, s] = chi[k, r].data @ Lambda[k, s].data  # Eq. 14
    for ancestor, k, frame in apart(tree):
        for row in tree.rows_of(frame):
            for c in k.columns():
                response[c, row] = -(W[ancestor, c].data @ Lambda[ancestor, row].data)  # Eq. 14

    task_space.hand_over(tree, block, inverse_inertia, PLAIN)
