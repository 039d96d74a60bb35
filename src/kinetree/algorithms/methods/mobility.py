"""V(k): the acceleration of a node per unit force on it, with all joints of the mechanism free to move.

    V(k) = S D⁻¹ Sᵀ + L*(k) V(parent) L(k),    L = Xᵀ (1 − G Sᵀ),    V(world) = 0

The recursion is the same in [CK01] Eq. 24 and in [J11] Lemma 5, where V is Y, the diagonal of Ω. It is a `Compliance`
on rigid bodies, and a symmetric matrix of their own dimension on other nodes.

[CK01] K.-S. Chang, O. Khatib, "Efficient recursive algorithm for the operational space inertia matrix of branching
       mechanisms", Advanced Robotics 14, 2001.
[J11]  A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.spatial.dense import DenseInertia
from kinetree.spatial.inertia import Compliance
from kinetree.spatial.motion import Motion
from kinetree.spatial.value import Array


def beyond(V: Compliance | DenseInertia, k: Any) -> Any:
    """V(k) from that of its parent: V − S Tᵀ − T Sᵀ with T = V G − ½ S (Gᵀ V G + D⁻¹), upper triangle only.

    There V is that of the parent, in the node's coordinates.
    """
    motion: Callable[[Array], Any] = Motion if isinstance(V, Compliance) else np.asarray
    columns = [k.X @ motion(column) for column in V.matrix().T]
    dense = moved(k.X, np.array([_components(column) for column in columns]), motion)
    S = np.array([_components(k.subspace @ unit) for unit in np.eye(len(k.armature))]).reshape(-1, len(dense)).T
    G = k.G.matrix()
    W = dense @ G
    T = W - S @ ((G.T @ W + k.D.inverse()) * 0.5)
    return _upper(columns[0], lambda i, j: dense[i, j] - S[i] @ T[j] - T[i] @ S[j])


def moved(X: Any, motions: Array, motion: Callable[[Array], Any] = Motion) -> Array:
    """X times motions, one in each column; `motion` makes one of a column."""
    found: Array = np.array([_components(X @ motion(column)) for column in motions.T]).T
    return found


def through(V: Compliance, rows: Array, own: Array) -> Compliance:
    """rows V rowsᵀ + own, upper triangle only; rows are six forces, own is symmetric, (6, 6)."""
    moved = V.matrix() @ rows.T
    found: Compliance = _upper(Motion.zero(), lambda i, j: own[i, j] + rows[i] @ moved[:, j])
    return found


def _components(motion: Any) -> Array:
    """The numbers of a motion, of a body or of another node."""
    data: Array = motion.data if isinstance(motion, Motion) else motion
    return data


def _upper(motion: Any, entry: Callable[[Any, Any], Any]) -> Any:
    """A mobility from its upper triangle, for motions of this type."""
    order = len(_components(motion))
    data = np.array([entry(i, j) for i, j in zip(*np.triu_indices(order), strict=True)])
    return Compliance(data) if isinstance(motion, Motion) else DenseInertia(data, order)
