"""Columns of ∂τ/∂q, ∂τ/∂v and M, gathered from tips to base: [JR] Eq. 3.8 (see the package) with weights. O(n·d)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.algorithms.dynamics import inertias
from kinetree.language.contract import components, describe, rebuild
from kinetree.language.tree import Tree
from kinetree.language.variation import Here, columns, coriolis_inertia, drag, swung, variation
from kinetree.spatial.dense import DenseCoriolis
from kinetree.spatial.inertia import CoriolisInertia
from kinetree.spatial.value import Array


def start(tree: Tree) -> None:
    """Initialise the fields that `gather` adds to on the world."""
    inertias.start_composite(tree)
    tree.world.R_hat = CoriolisInertia.zero() if tree.rigid_bodies else DenseCoriolis.of(np.zeros((6, 6)))


def vary(tree: Tree, k: Any, here: Here) -> None:
    """Set what `gather` needs of a node, in the loop that computes its state; after `gyroscopic`."""
    change = variation(k, here)
    _inertias(tree, k, here, 1.0)
    k.theta, k.zeta_q, k.zeta_v = change.theta, change.zeta_q, change.zeta_v
    k.force_q, k.force_v, k.drag = change.force_q, change.force_v, drag(k, here.X, here.V, here.v, here.V_p)
    k.weights, k.maps, k.spring_q, k.spring_v = change.weights, change.maps, change.spring_q, change.spring_v


def vary_speed(tree: Tree, k: Any, here: Here, brackets: Array) -> None:
    """Set what `gather` needs to give the Coriolis matrix for ∂τ/∂v: all of it halved, and without dampers.

    After `gyroscopic`; the node is at rest except for velocities, and `brackets` are Lie brackets with these, (n, n).
    """
    change, n = variation(k, here), len(here.v)
    _inertias(tree, k, here, 0.5)
    turned = columns([k.H @ column for column in brackets.T], k.dimension)
    k.zeta_v, k.force_v = (change.zeta_v + turned) * 0.5, change.force_v * 0.5
    k.drag = drag(k, here.X, here.V, here.v, here.V_p) * 0.5
    k.spring_v = np.zeros((n, n))


def _inertias(tree: Tree, k: Any, here: Here, scale: float) -> None:
    M_hat = coriolis_inertia(k, here.V, here.v, scale)
    k.R = inertias.own(tree, k)
    k.R_hat = M_hat if tree.rigid_bodies else DenseCoriolis.of(M_hat.matrix())
    k.none = k.M @ (k.H @ np.zeros(len(here.v)))  # the type of forces


def gather(tree: Tree, dv: Any, M: Any | None = None, dq: Any | None = None) -> None:
    """Compute ∂τ/∂v and, where they are needed, the upper triangle of M and ∂τ/∂q, given X, the fields of `vary` and f.

    A column of X = R H, X̂ = R̂ᵀ H and of the forces X_A and X_B, due to unit changes of velocity and of position,
    passes from its node to the base; each node on the way multiplies it by its own motions.
    """
    X, X_hat, X_A, X_B = (tree.inward("v", like="none") for _ in range(4))
    for k, parent in tree.gather():
        R, R_hat, W, motion = k.R, k.R_hat, k.X, describe(k.V)
        own = [k.H @ unit for unit in np.eye(len(k.armature))]
        x, x_hat = [R @ h for h in own], [R_hat.transposed(h) for h in own]
        x_A = _forces(R, R_hat, _typed(motion, k.zeta_v), own, _typed(describe(k.none), k.force_v))
        dv[k, k] = _projected(k, x_A) + k.spring_v
        for i, c in enumerate(k.columns()):
            X[parent, c], X_A[parent, c] = W.T @ x[i], W.T @ x_A[i]
            X_hat[parent, c] = _dragged(k, W.T @ x_hat[i], x[i])
        if M is not None:
            M[k, k] = _projected(k, x) + np.diag(k.armature)
        if dq is not None:
            f = k.f
            zeta, theta = _typed(motion, k.zeta_q), _typed(motion, k.theta)
            x_B = _forces(R, R_hat, zeta, theta, _typed(describe(k.none), k.force_q))
            swing, back = swung(k, W, k.weights, k.maps, f), W.T @ f
            dq[k, k] = _projected(k, x_B) + swing.of_joint + k.spring_q
            at_node, on_parent = _typed(describe(f), swing.at_node), _typed(describe(back), swing.on_parent)
            for i, c in enumerate(k.columns()):
                X_B[parent, c] = W.T @ (x_B[i] + at_node[i]) + on_parent[i]
            parent.f += back
        for c in tree.descendants(k):
            column, hat, by_v = X[k, c], X_hat[k, c], X_A[k, c]
            dv[k, c] = k.H.T @ by_v
            dv[c, k] = k.zeta_v.T @ components(column) + k.H.T @ hat
            # no drag: descendants push on the body twists of outlets, and their rows of T are zero
            X[parent, c], X_A[parent, c], X_hat[parent, c] = W.T @ column, W.T @ by_v, W.T @ hat
            if M is not None:
                M[k, c] = k.H.T @ column
            if dq is not None:
                by_q = X_B[k, c]
                dq[k, c] = k.H.T @ by_q
                dq[c, k] = k.zeta_q.T @ components(column) + k.theta.T @ components(hat)
                X_B[parent, c] = W.T @ by_q
        parent.R += W.congruence(R)
        parent.R_hat += W.congruence(R_hat) if tree.rigid_bodies else _carried(k, parent, R, R_hat)


def _typed(like: tuple[Any, ...], matrix: Array) -> list[Any]:
    """The columns of a matrix as values of a given type."""
    return [rebuild(like, column) for column in matrix.T]


def _forces(R: Any, R_hat: Any, zeta: list[Any], theta: list[Any], own: list[Any]) -> list[Any]:
    """R ζ + R̂ ϑ and the node's own, column by column."""
    return [R @ z + R_hat @ t + force for z, t, force in zip(zeta, theta, own, strict=True)]


def _projected(k: Any, forces: list[Any]) -> Array:
    """Hᵀ times forces, one column for each."""
    return columns([k.H.T @ force for force in forces], len(forces))


def _dragged(k: Any, force: Any, x: Any) -> Any:
    """A force on the parent, and Tᵀ x for the drag T."""
    return force + rebuild(describe(force), k.drag.T @ components(x))


def _carried(k: Any, parent: Any, R: Any, R_hat: DenseCoriolis) -> DenseCoriolis:
    """Wᵀ (R̂ W + R T)."""
    like, sizes = describe(parent.V), len(components(parent.V))
    W = columns([k.X @ rebuild(like, unit) for unit in np.eye(sizes)], k.dimension)
    RT = columns([R @ motion for motion in _typed(describe(k.V), k.drag)], k.dimension)
    carried: DenseCoriolis = DenseCoriolis.of(W.T @ (R_hat.matrix() @ W + RT))
    return carried
