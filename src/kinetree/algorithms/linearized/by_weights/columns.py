"""Columns of ∂τ/∂q, ∂τ/∂v and M, gathered from tips to base: [JR] Eq. 3.8 with weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.algorithms import composite_inertia
from kinetree.recursion.contract import components, describe, rebuild
from kinetree.recursion.tree import Tree
from kinetree.recursion.variation import Here, columns, swung, variation
from kinetree.spatial.value import Array


def start(tree: Tree) -> None:
    """Initialise the fields that `gather` adds to on the world."""
    composite_inertia.start(tree)
    tree.world.R_hat = np.zeros((6, 6))


def vary(tree: Tree, k: Any, here: Here) -> None:
    """Set what `gather` needs of a node, in the loop that computes its state."""
    change = variation(k, here)
    k.R, k.R_hat = composite_inertia.own(tree, k), change.M_hat
    k.theta, k.zeta_q, k.zeta_v = change.theta, change.zeta_q, change.zeta_v
    k.force_q, k.force_v, k.drag = change.force_q, change.force_v, change.drag
    k.weights, k.maps, k.spring_q, k.spring_v = change.weights, change.maps, change.spring_q, change.spring_v
    k.none = k.M @ (k.H @ np.zeros(len(here.v)))


def vary_speed(tree: Tree, k: Any, here: Here, brackets: Array) -> None:
    """Set what `gather` needs to give the Coriolis matrix for ∂τ/∂v: all of it halved, and without dampers.

    Args:
        tree: The mechanism.
        k: The node.
        here: Its state, at rest except for velocities.
        brackets: Matrix of the Lie brackets with its joint velocities, (n, n).
    """
    change, n = variation(k, here), len(here.v)
    turned = columns([k.H @ column for column in brackets.T], k.dimension)
    k.R, k.R_hat = composite_inertia.own(tree, k), change.M_hat * 0.5
    k.zeta_v, k.force_v, k.drag = (change.zeta_v + turned) * 0.5, change.force_v * 0.5, change.drag * 0.5
    k.spring_v = np.zeros((n, n))
    k.none = k.M @ (k.H @ np.zeros(n))


def gather(tree: Tree, dv: Any, M: Any | None = None, dq: Any | None = None) -> None:
    """Compute the matrices, given the fields of `vary`, the weights X and the inertial forces f of all nodes.

    A column of X = R H, X̂ = R̂ᵀ H and of the forces X_A and X_B, due to unit changes of velocity and of position, passes
    from its node to the base; each node on the way multiplies it by its own motions.

    Args:
        tree: The mechanism.
        dv: ∂τ/∂v.
        M: The mass matrix, if it is needed; its upper triangle.
        dq: ∂τ/∂q, if it is needed.
    """
    X, X_hat, X_A, X_B = (tree.array("node", "v", like="none") for _ in range(4))
    for k, parent in tree.gather():
        R, R_hat, W, own = k.R, k.R_hat, k.X, len(k.armature)
        H = columns([k.H @ unit for unit in np.eye(own)], k.dimension)
        like = describe(k.none)
        x, x_hat = _typed(like, _products(R, k, H)), _typed(like, R_hat.T @ H)
        x_A = _typed(like, _products(R, k, k.zeta_v) + R_hat @ H + k.force_v)
        dv[k, k] = _projected(k, x_A) + k.spring_v
        for i, c in enumerate(k.columns()):
            X[parent, c], X_A[parent, c] = W.T @ x[i], W.T @ x_A[i]
            X_hat[parent, c] = _dragged(k, W.T @ x_hat[i], x[i])
        if M is not None:
            M[k, k] = _projected(k, x) + np.diag(k.armature)
        if dq is not None:
            f = k.f
            x_B = _typed(like, _products(R, k, k.zeta_q) + R_hat @ k.theta + k.force_q)
            back, along = swung(k, W, k.weights, k.maps, f)
            dq[k, k] = _projected(k, x_B) + along + k.spring_q
            for i, c in enumerate(k.columns()):
                X_B[parent, c] = W.T @ x_B[i] + back[i]
            parent.f += W.T @ f
        for c in tree.descendants(k):
            column, hat = X[k, c], X_hat[k, c]
            dv[k, c] = k.H.T @ X_A[k, c]
            dv[c, k] = k.zeta_v.T @ components(column) + k.H.T @ hat
            X[parent, c], X_A[parent, c] = W.T @ column, W.T @ X_A[k, c]
            X_hat[parent, c] = _dragged(k, W.T @ hat, column)
            if M is not None:
                M[k, c] = k.H.T @ column
            if dq is not None:
                dq[k, c] = k.H.T @ X_B[k, c]
                dq[c, k] = k.zeta_q.T @ components(column) + k.theta.T @ components(hat)
                X_B[parent, c] = W.T @ X_B[k, c]
        parent.R += W.congruence(R)
        parent.R_hat += _carried(k, parent, R, R_hat)


def _typed(like: tuple[Any, ...], matrix: Array) -> list[Any]:
    """The columns of a matrix as values of a given type."""
    return [rebuild(like, column) for column in matrix.T]


def _products(R: Any, k: Any, motions: Array) -> Array:
    """R times motions, column by column."""
    return columns([R @ motion for motion in _typed(describe(k.V), motions)], k.dimension)


def _projected(k: Any, forces: list[Any]) -> Array:
    """Hᵀ times forces, one column for each."""
    return columns([k.H.T @ force for force in forces], len(forces))


def _dragged(k: Any, force: Any, x: Any) -> Any:
    """A force on the parent, and Tᵀ x for the drag T."""
    return force + rebuild(describe(force), k.drag.T @ components(x))


def _carried(k: Any, parent: Any, R: Any, R_hat: Array) -> Array:
    """Wᵀ (R̂ W + R T)."""
    like, sizes = describe(parent.V), len(components(parent.V))
    W = columns([k.X @ rebuild(like, unit) for unit in np.eye(sizes)], k.dimension)
    carried: Array = W.T @ (R_hat @ W + _products(R, k, k.drag))
    return carried
