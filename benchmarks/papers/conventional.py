"""[JR] Algorithms 3 and 4: linearised forward dynamics by way of a dense mass matrix, with a given. Cost O(n³).

    algorithm   loop                     leaves                                                    source
    3           Algorithm 1              δτ for δa = 0                                              Eq. 3.5
                gather, columns          M                                                          [J11] Alg. 4.2
                columns, three deep      M = Uᵀ d U; δa = M⁻¹ (dτ − δτ)                               Lemma 4.1
    4           Algorithm 2              M, A_D, B_D                                                Lemma 3.2
                columns, three deep      M = Uᵀ d U; M⁻¹, A_C = M⁻¹ A_D and B_C = M⁻¹ B_D             Lemma 4.1

For serial chains of one-DoF joints, as in the paper, where all later columns are those of a joint's descendants. The
paper calls them conventional, and so they are here: nothing is known of the sparsity of M, and M⁻¹ has as many
right-hand sides as there are columns, of which the forward substitution starts at the one that is not zero. With n³/6
products for the factor, n³/6 and n³/2 for M⁻¹, and n³ each for A_C and B_C, this explains the published 17n³/6.

[JR]  A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
      Systems, Man and Cybernetics 23, 1993.
[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.algorithms.derivatives.inverse_dynamics_derivatives import inverse_dynamics_derivatives
from kinetree.algorithms.derivatives.jvp import inverse_dynamics_jvp
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix
from kinetree.language.algorithm import algorithm
from kinetree.language.common_frame import in_common_frame
from kinetree.language.roles import NodeRole
from kinetree.language.tree import Indexed, Tree, Zeros


@algorithm(q=("q",), v=("v",), a=("v",), dq=("v",), dv=("v",), dtau=("v",), da=("v",), outputs=("da",))
def _algorithm_3(
    tree: Tree, q: Indexed, v: Indexed, a: Indexed, dq: Indexed, dv: Indexed, dtau: Indexed, da: Indexed
) -> None:
    """δa about given accelerations; arguments as those of `algorithm_5`."""
    M, bias, x = tree.array("v", "v"), tree.array("v"), tree.array("v")
    inverse_dynamics_jvp(tree, q, v, a, dq, dv, Zeros(), None, _Columns(bias))
    mass_matrix(tree, q, _Columns(M))
    for k, _ in tree.scatter():
        for c, force in zip(k.columns(), dtau[k], strict=True):
            x[c] = force - bias[c]

    _factor(tree, M)
    for p in tree.columns():
        for c in tree.columns(p):
            x[c] = x[c] - M[p, c] * x[p]
    for k, _ in tree.gather():
        (c,) = k.columns()
        x[c] = x[c] * M[c, c]
        for other in tree.descendants(k):
            x[c] = x[c] - M[c, other] * x[other]
        da[c] = x[c]


@algorithm(
    q=("q",), v=("v",), a=("v",), dq=("v", "v"), dv=("v", "v"), Minv=("v", "v"),
    outputs=("dq", "dv", "Minv"),
)  # fmt: skip
def _algorithm_4(tree: Tree, q: Indexed, v: Indexed, a: Indexed, dq: Indexed, dv: Indexed, Minv: Indexed) -> None:
    """∂a/∂q = −B_C, ∂a/∂v = −A_C and M⁻¹ about given accelerations.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Joint velocities, (nv,).
        a: Joint accelerations, (nv,).
        dq: −B_C, (nv, nv).
        dv: −A_C, (nv, nv).
        Minv: (nv, nv).
    """
    M, B, A, inverse = (tree.array("v", "v") for _ in range(4))
    for c in tree.columns():
        for other in tree.columns():
            inverse[c, other] = 0.0
    inverse_dynamics_derivatives(tree, q, v, a, None, _Columns(B), _Columns(A), _Columns(M))

    _factor(tree, M)
    for start in tree.columns():  # forward substitution
        inverse[start, start] = 1.0
        for c in tree.columns(start):
            inverse[c, start] = -M[start, c]
        for p in tree.columns(start):
            for c in tree.columns(p):
                inverse[c, start] = inverse[c, start] - M[p, c] * inverse[p, start]
    for p in tree.columns():
        for c in tree.columns(p):
            for column in tree.columns():
                A[c, column] = A[c, column] - M[p, c] * A[p, column]
                B[c, column] = B[c, column] - M[p, c] * B[p, column]
    for k, _ in tree.gather():  # back substitution
        (c,) = k.columns()
        for column in tree.columns():
            for matrix in (inverse, A, B):
                matrix[c, column] = matrix[c, column] * M[c, c]
        for other in tree.descendants(k):
            for column in tree.columns():
                for matrix in (inverse, A, B):
                    matrix[c, column] = matrix[c, column] - M[c, other] * matrix[other, column]
    for c in tree.columns():
        for column in tree.columns():
            Minv[c, column] = inverse[c, column]
            dv[c, column], dq[c, column] = -A[c, column], -B[c, column]


def _factor(tree: Tree, M: Indexed) -> None:
    """M = Uᵀ d U in place, from its upper triangle: U with a unit diagonal, which 1/d takes the place of."""
    for p in tree.columns():
        M[p, p] = 1.0 / M[p, p]
        for c in tree.columns(p):
            ratio = M[p, c] * M[p, p]
            M[c, c] = M[c, c] - ratio * M[p, c]
            for other in tree.columns(c):
                M[c, other] = M[c, other] - ratio * M[p, other]
        for c in tree.columns(p):
            M[p, c] = M[p, c] * M[p, p]


class _Columns:
    """An array of the tree in the place of an output: takes what belongs to nodes column by column."""

    def __init__(self, array: Indexed) -> None:
        self._array = array

    def __getitem__(self, keys: Any) -> Any:
        return self._array[keys]

    def __setitem__(self, keys: Any, value: Any) -> None:
        if not isinstance(keys, tuple):
            for c, entry in zip(keys.columns(), value, strict=True):
                self._array[c] = entry
            return
        rows, columns = (list(key.columns()) if isinstance(key, NodeRole) else [key] for key in keys)
        for row, entries in zip(rows, np.reshape(value, (len(rows), len(columns))), strict=True):
            for column, entry in zip(columns, entries, strict=True):
                self._array[row, column] = entry


# in an inertial frame, as in the paper
algorithm_3, algorithm_4 = in_common_frame(_algorithm_3), in_common_frame(_algorithm_4)
