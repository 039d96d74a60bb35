"""Λ⁻¹ by the recursive algorithm of Chang and Khatib. Cost O(n·m), and O(m³) for its inverse.

    Table 1                        loop                    leaves
    1  outward recursion           scatter                 transforms X, Eq. 2
    2  inward recursion            gather                  articulated inertias, Eq. 10; force propagators L, Eq. 8
    3  outward recursion           scatter                 diagonal blocks V(k, k), Eq. 24
    4  outward recursion           gather, scatter, rows   other blocks V(i, j), Eq. 29
    5  spatial transformation      frames, rows            blocks of Λ⁻¹, Eq. 22
    6  matrix inversion            —                       Λ: common to all methods, done elsewhere

The angular part comes first. `P` is I^A, `subspace` is S, D = SᵀI^AS and S̄ = D⁻¹SᵀI^A = Gᵀ, so that
L = X (1 − S S̄)ᵀ = Xᵀ (1 − G Sᵀ) with our X is not formed.

On nodes that are not rigid bodies, V, f and a have the node's dimension instead of six.

V(i, j) maps the propagated force f*(j) of one link to the propagated acceleration a*(i) of another, Eq. 21. It is not
stored as a 6×6 matrix but applied to each row of task j: `f[k, row]` is f*, Eq. 25, and `a[k, row]` is a*. So the three
cases of Eq. 29, where h is the nearest common ancestor of the two links, become

    V(h, h)             i = j = h     from step 3
    V(i, h(j)) L(j)     otherwise     L is applied to f, from link j inward to h
    L(i)ᵀ V(h(i), j)    j = h         Lᵀ is applied to a, from h outward to link i

The paper states Eq. 29 as a recursion for each pair of links, with h fixed to that of the initial pair. That costs
O(m²d). The O(n·m) claimed in §3.3 requires the order above, the second case for all links before the third for any: two
sweeps over the links for each task. Eq. 28 prints Ω for V.

[CK01] K.-S. Chang, O. Khatib, "Efficient recursive algorithm for the operational space inertia matrix of branching
       mechanisms", Advanced Robotics 14, 2001.
"""

from __future__ import annotations

from collections.abc import Callable

from kinetree.algorithms.methods import mobility
from kinetree.algorithms.tasks import task_space
from kinetree.algorithms.tasks.task_space import PLAIN, TaskKinds
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.inertia import Compliance
from kinetree.spatial.motion import Motion


def chang_khatib(reference: str, parts: TaskKinds = PLAIN) -> Callable[..., None]:
    """Λ⁻¹ in a given reference."""

    def chang_khatib(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        f, a = tree.array("node", "sorted_rows", like="none"), tree.array("node", "sorted_rows")
        block = tree.array("sorted_rows", "sorted_rows")
        task_space.clear(tree, block)
        tree.world.V = Compliance.zero()  # V(root, root) = 0
        for row in tree.sorted_rows():
            a[tree.world, row] = Motion.zero()

        # Step 1
        task_space.place(tree, q)  # Eqs. 2 and 5, the term I(h) of Eq. 10

        # Step 2
        for k, parent in tree.gather():
            task_space.hinge(k, parent)  # Eq. 8; L I^A Lᵀ, Eq. 10

        # Step 3
        for k, parent in tree.scatter():
            k.V = mobility.beyond(parent.V, k)  # Eq. 24

        # Step 4
        task_space.seed(tree, reference, f, parts)  # X f(e), Eq. 4
        for k, parent in tree.gather():
            for row in tree.carried(k):
                f[parent, row] = k.X.T @ k.G.past(f[k, row], k.subspace.T @ f[k, row])  # Eq. 29: otherwise
        for k, parent in tree.scatter():
            for row in tree.carried(k):
                a[k, row] = k.V @ f[k, row]  # Eq. 29: i = j = h
            for row in tree.following(k):
                moved = k.X @ a[parent, row]
                a[k, row] = moved - k.subspace @ (k.G.T @ moved)  # Eq. 29: j = h

        # Step 5
        for frame, carrier in tree.frames():
            for one in tree.rows_of(frame):
                for other in tree.sorted_rows(one):
                    block[one, other] = a[carrier, other].dot(f[carrier, one])  # Eq. 22

        task_space.finish(tree, reference, block, inverse_inertia, parts)

    return chang_khatib
