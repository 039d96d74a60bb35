"""Linearised forward dynamics of nodes of any kind: ∂a/∂q, ∂a/∂v and M⁻¹. Cost O(n²), and 2n³ multiplications.

    pass           loop                computes                                                  source
    motion         scatter             V, Coriolis acceleration, gyroscopic force                   [J11] Alg. 6.1
    wrenches       frames              external forces on the bodies
    hinge          gather, columns     P, D, G; ν; rows of M⁻¹ for descendant columns               [J11] Eq. 58, [C18]
    acceleration   scatter, columns    α, joint accelerations; M⁻¹; changes ϑ and ζ                 [J11] Eq. 58, [C18]
    composite      gather, columns     ∂τ/∂q and ∂τ/∂v at these accelerations                       [JR] Eq. 3.8
    product        columns             −M⁻¹ ∂τ                                                      [JR] Lemma 4.1

[C18] J. Carpentier, "Analytical inverse of the joint space inertia matrix", LAAS report 18125, 2018.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.algorithms import articulated_inertia
from kinetree.algorithms.linearized import columns
from kinetree.algorithms.mass_matrix_inverse import inverse_rows_inward, inverse_rows_outward
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.roles import ColumnRole, NodeRole
from kinetree.recursion.tree import Indexed, Tree
from kinetree.recursion.variation import Here, gyroscopic
from kinetree.spatial.motion import Force, Motion


@algorithm(
    q=("q",), v=("v",), tau=("v",), wrench=("frames", 6), dq=("v", "v"), dv=("v", "v"), Minv=("v", "v"),
    outputs=("dq", "dv", "Minv"), sparse=("dq", "dv", "Minv"), any_node=True,
)  # fmt: skip
def forward_dynamics_derivatives_by_weights(
    tree: Tree, q: Indexed, v: Indexed, tau: Indexed, wrench: Indexed, dq: Indexed, dv: Indexed, Minv: Indexed
) -> None:
    """∂a/∂q along the tangent, ∂a/∂v and M⁻¹ = ∂a/∂τ.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities, (nv,).
        tau: Joint forces, (nv,).
        wrench: External wrenches on the frames, in their own coordinates, (m, 6).
        dq: ∂a/∂q, (nv, nv).
        dv: ∂a/∂v, (nv, nv).
        Minv: Inverse of the mass matrix, (nv, nv).
    """
    F, A = tree.inward("v", like="none"), tree.array("node", "v")
    tau_q, tau_v = (tree.array("v", "v") for _ in range(2))
    tree.world.V = Motion.zero()
    tree.world.alpha = -tree.gravity
    tree.world.z = Force.zero()
    tree.world.f = Force.zero()
    articulated_inertia.start(tree)
    columns.start(tree)
    for c in tree.columns():
        A[tree.world, c] = Motion.zero()
        for other in tree.columns():
            tau_q[c, other] = tau_v[c, other] = np.zeros(())

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        V_p = parent.V
        k.V = k.X @ V_p + k.H @ v[k]
        k.a = k.coriolis(k.V, v[k], V_p)
        k.z = k.f = k.gyroscopic(k.V, v[k])
        k.P = k.M.articulated()
        k.none = k.M @ (k.H @ np.zeros(len(k.armature)))

    for frame, carrier in tree.frames():
        force = frame.X.T @ Force(wrench[frame])
        carrier.z -= force
        carrier.f -= force

    for k, parent in tree.gather():
        z = k.z + k.P @ k.a
        articulated_inertia.hinge(k, parent)
        epsilon = tau[k] - k.resistance(q[k], v[k]) - k.H.T @ z
        k.nu = k.D.solve(epsilon)
        parent.z += k.X.T @ (z + k.G @ epsilon)
        inverse_rows_inward(tree, k, parent, F, Minv)

    for k, parent in tree.scatter():
        V_p, alpha_p = parent.V, parent.alpha
        alpha_plus = k.X @ alpha_p
        k.acceleration = k.nu - k.G.T @ alpha_plus
        k.alpha = alpha_plus + k.H @ k.acceleration + k.a
        k.f = k.f + k.M @ k.alpha
        inverse_rows_outward(tree, k, parent, A, Minv)
        for c in tree.onward(k):
            Minv[c, k] = Minv[k, c]
        here = Here(k.X, k.V, k.alpha, v[k], k.acceleration, V_p, alpha_p, k.X @ V_p)
        gyroscopic(k, k.V, v[k])
        columns.vary(tree, k, here)

    columns.gather(tree, _Entries(tau_v), dq=_Entries(tau_q))

    for k, _ in tree.scatter():
        for j in tree.columns():
            row = Minv[k, j]
            for c in tree.columns():
                dq[k, c] = dq[k, c] - row * tau_q[j, c]
                dv[k, c] = dv[k, c] - row * tau_v[j, c]


class _Entries:
    """A matrix in an array of the tree, which holds single numbers: entries of nodes are set one by one."""

    def __init__(self, array: Indexed) -> None:
        self._array = array

    def __setitem__(self, keys: tuple[Any, Any], values: Any) -> None:
        rows, across = (_columns(key) for key in keys)
        for row, entries in zip(rows, np.reshape(values, (len(rows), len(across))), strict=True):
            for column, entry in zip(across, entries, strict=True):
                self._array[row, column] = np.asarray(entry)


def _columns(key: NodeRole | ColumnRole) -> list[ColumnRole]:
    return list(key.columns()) if isinstance(key, NodeRole) else [key]
