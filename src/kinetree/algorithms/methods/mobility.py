"""V(k): the acceleration of a body per unit force on it, with all joints of the mechanism free to move.

    V(k) = S D⁻¹ Sᵀ + L*(k) V(parent) L(k),    L = Xᵀ (1 − G Sᵀ),    V(world) = 0

The recursion is the same in [CK01] Eq. 24 and in [J11] Lemma 5, where V is Y, the diagonal of Ω.

[CK01] K.-S. Chang, O. Khatib, "Efficient recursive algorithm for the operational space inertia matrix of branching
       mechanisms", Advanced Robotics 14, 2001.
[J11]  A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.spatial.inertia import Compliance
from kinetree.spatial.motion import Motion
from kinetree.spatial.value import Array

_UPPER = tuple(zip(*np.triu_indices(6), strict=True))


def beyond(V: Compliance, k: Any) -> Compliance:
    """V(k) from that of its parent: V − S Tᵀ − T Sᵀ with T = V G − ½ S (Gᵀ V G + D⁻¹), upper triangle only.

    There V is that of the parent, in the node's coordinates.
    """
    S, G, dense = k.subspace.matrix(), k.G.matrix(), moved(k.X, moved(k.X, V.matrix()).T)
    W = dense @ G
    T = W - S @ ((G.T @ W + k.D.inverse()) * 0.5)
    return _upper(lambda i, j: dense[i, j] - S[i] @ T[j] - T[i] @ S[j])


def moved(X: Any, motions: Array) -> Array:
    """X times motions, one in each column."""
    found: Array = np.array([(X @ Motion(column)).data for column in motions.T]).T
    return found


def through(V: Compliance, rows: Array, own: Array) -> Compliance:
    """rows V rowsᵀ + own, upper triangle only; rows are six forces, own is symmetric, (6, 6)."""
    moved = V.matrix() @ rows.T
    return _upper(lambda i, j: own[i, j] + rows[i] @ moved[:, j])


def _upper(entry: Any) -> Compliance:
    return Compliance(np.array([entry(i, j) for i, j in _UPPER]))
