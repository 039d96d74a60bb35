"""The Coriolis matrix C(q, v) for which Ṁ = C + Cᵀ, that is, Ṁ − 2C is skew. Cost O(n·d).

    pass        loop               computes
    place       scatter            motions S, their rates Ṡ, inertia R, Coriolis inertia B, in the tree's frame
    composite   gather, columns    composite R and B; rows and columns of C

With F = R S, F′ = R Ṡ + B S and F″ = Bᵀ S of a descendant column c, C(k, c) = Sᵀ F′ and C(c, k) = Ṡᵀ F + Sᵀ F″.

[EW21] S. Echeandia, P. Wensing, "Numerical methods to compute the Coriolis matrix and Christoffel symbols for
       rigid-body systems", Journal of Computational and Nonlinear Dynamics 16, 2021.
"""

from __future__ import annotations

from kinetree.algorithms import tree_frame
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.inertia import CoriolisInertia, RigidInertia
from kinetree.spatial.motion import Motion


@algorithm(q=("q",), v=("v",), C=("v", "v"), outputs=("C",), sparse=("C",))
def coriolis_matrix(tree: Tree, q: Indexed, v: Indexed, C: Indexed) -> None:
    """C(q, v) with C v = bias forces without gravity. [EW21] Algorithm 1.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities, (nv,).
        C: Coriolis matrix, (nv, nv).
    """
    F, F_rate, F_turn = tree.array("v"), tree.array("v"), tree.array("v")
    tree_frame.start(tree)
    tree.world.V = Motion.zero()
    tree.world.R = RigidInertia.zero()
    tree.world.B = CoriolisInertia.zero()

    for k, parent in tree.scatter():
        tree_frame.place(k, parent, q)
        k.V = parent.V + k.S @ v[k]
        k.S_rate = k.S.map(k.V.cross)
        k.R = k.C.congruence(k.M)
        k.B = CoriolisInertia.of(k.R, k.V)

    for k, parent in tree.gather():
        R, B = k.R, k.B
        momenta = k.S.map(lambda s, R=R: R @ s)
        turning = k.S.map(lambda s, B=B: B.transposed(s))
        rates = k.S_rate.map(lambda s, R=R: R @ s) + k.S.map(lambda s, B=B: B @ s)
        for c in k.columns():
            F[c], F_rate[c], F_turn[c] = c.of(momenta), c.of(rates), c.of(turning)
        C[k, k] = k.S.matrix().T @ rates.matrix()
        for c in tree.descendants(k):
            C[k, c] = k.S.T @ F_rate[c]
            C[c, k] = k.S_rate.T @ F[c] + k.S.T @ F_turn[c]
        parent.R += R
        parent.B += B
