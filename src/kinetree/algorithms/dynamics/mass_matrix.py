"""M in O(n·d), M⁻¹ in O(n²), and M x, M⁻¹ x and the determinant of M in O(n), without forming M or M⁻¹.

The mass matrix, by composite inertias [J11]:

    pass        loop               computes                                              source
    place       scatter            weight and inertia R of each node
    composite   gather, columns    composite R; M(l, k) = Hᵀ(l) X(l) with X = R(k) H(k)   Algs. 4.1 and 4.2, Eq. 20

Algorithm 4.2 walks from each node k to the base and propagates X(k) on the way. Here all columns travel at once, so
the same products are formed row by row: node l uses the X of its descendants. (The printed algorithm propagates X with
φ instead of A, and includes the inertial node.)

Its inverse, by articulated inertias [C18]:

    pass       loop                computes                                                      lines
    place      scatter             weight and inertia P of each node                               2–5
    hinge      gather, columns     P, D, G; rows of M⁻¹ for descendant columns; forces F           8–26
    response   scatter, columns    rows of M⁻¹ for all later columns; accelerations A (paper: P)   28–35

Algorithm 1 as printed does not yield M⁻¹. Corrections: line 21 before line 11, with line 12 for descendants only; `+=`
in line 14; and in lines 30–34 all columns from i on, not those of subtree(i). The engine mirrors the upper
triangle. F and A travel by the weights of [J11], so that nodes may be of any kind.

[C18] J. Carpentier, "Analytical inverse of the joint space inertia matrix", LAAS report 18125, 2018.
[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.algorithms.dynamics import inertias
from kinetree.algorithms.dynamics.forward_dynamics import articulated_body
from kinetree.algorithms.dynamics.inverse_dynamics import newton_euler
from kinetree.language.algorithm import algorithm
from kinetree.language.tree import Indexed, Tree, Zeros
from kinetree.spatial.motion import Motion
from kinetree.spatial.scalar import log


@algorithm(q=("q",), M=("v", "v"), outputs=("M",), symmetric=("M",))
def mass_matrix(tree: Tree, q: Indexed, M: Indexed) -> None:
    """M(q); blocks of nodes on different branches are zero. [J11] Algorithms 4.1 and 4.2."""
    X = tree.inward("v", like="none")
    inertias.start_composite(tree)

    for k, _ in tree.scatter():
        k.X = k.weight(q[k])
        k.R = inertias.own(tree, k)
        k.none = k.M @ (k.H @ Zeros()[k])  # the type of forces

    for k, parent in tree.gather():
        own = [k.R @ (k.H @ unit) for unit in np.eye(len(Zeros()[k]))]  # X = R H
        rows = [k.H.T @ column for column in own]
        M[k, k] = np.array(rows).reshape(len(own), len(own)).T + np.diag(k.armature)
        for c, column in zip(k.columns(), own, strict=True):
            X[parent, c] = k.X.T @ column
        for c in tree.descendants(k):
            M[k, c] = k.H.T @ X[k, c]
            X[parent, c] = k.X.T @ X[k, c]
        parent.R += k.X.congruence(k.R)  # Eq. 20


@algorithm(q=("q",), Minv=("v", "v"), outputs=("Minv",), symmetric=("Minv",))
def mass_matrix_inverse(tree: Tree, q: Indexed, Minv: Indexed) -> None:
    """M⁻¹(q); blocks of nodes on different trees are zero. [C18] Algorithm 1, as corrected."""
    F, A = tree.inward("v", like="none"), tree.array("node", "v")
    inertias.start_articulated(tree)
    for c in tree.columns():
        A[tree.world, c] = Motion.zero()

    for k, _ in tree.scatter():
        k.X = k.weight(q[k])
        k.P = k.M.articulated()
        k.none = k.M @ (k.H @ Zeros()[k])  # the type of forces

    for k, parent in tree.gather():
        inertias.hinge(k, parent)  # lines 9, 10, 23, 24
        inverse_rows_inward(tree, k, parent, F, Minv)

    for k, parent in tree.scatter():
        inverse_rows_outward(tree, k, parent, A, Minv)


def inverse_rows_inward(tree: Tree, k: Any, parent: Any, F: Indexed, Minv: Indexed) -> None:
    """On the way to the base: rows of M⁻¹ as far as descendants determine them; the node has X, D and G.

    F, of `tree.inward`, is the force on each node per unit force of its descendants' joints.
    """
    Minv[k, k] = k.D.inverse().reshape(k.D.order, k.D.order)  # line 21, moved up
    for c, unit in zip(k.columns(), np.eye(k.D.order), strict=True):
        F[parent, c] = k.X.T @ (k.G @ unit)  # lines 14 and 19: U D⁻¹
    for c in tree.descendants(k):
        projected = k.H.T @ F[k, c]
        Minv[k, c] = -k.D.solve(projected)  # line 12
        # line 14, accumulating: U Minv[k, c] = −G Hᵀ F
        F[parent, c] = k.X.T @ k.G.past(F[k, c], projected)


def inverse_rows_outward(tree: Tree, k: Any, parent: Any, A: Indexed, Minv: Indexed) -> None:
    """On the way to the tips: the part of these rows that is due to the motion of the parent.

    A is the acceleration of each node per unit force of a joint.
    """
    for c in tree.onward(k):
        onward = k.X @ A[parent, c]
        row = Minv[k, c] - k.G.T @ onward  # line 30
        Minv[k, c] = row
        A[k, c] = onward + k.H @ row  # lines 32, 34


@algorithm(q=("q",), x=("v",), y=("v",), outputs=("y",))
def mass_matrix_product(tree: Tree, q: Indexed, x: Indexed, y: Indexed) -> None:
    """y = M(q) x: inverse dynamics at rest, without gravity. [J11] Eq. 3."""
    newton_euler(tree, q, Zeros(), x, Motion.zero(), None, y, springs=False)


@algorithm(q=("q",), x=("v",), y=("v",), outputs=("y",))
def mass_matrix_solve(tree: Tree, q: Indexed, x: Indexed, y: Indexed) -> None:
    """y = M⁻¹(q) x: forward dynamics at rest, without gravity. [J11] Eq. 51."""
    articulated_body(tree, q, Zeros(), x, Motion.zero(), None, y, springs=False)


@algorithm(q=("q",), determinant=(), outputs=("determinant",), sparse=("determinant",))
def mass_matrix_determinant(tree: Tree, q: Indexed, determinant: Indexed) -> None:
    """det M = ∏ det D. [J11] Corollary 6.1, Eq. 53."""
    reciprocals = _pivots(tree, q)
    determinant[...] = 1.0
    for c in tree.columns():
        determinant[...] = determinant[...] * (1.0 / reciprocals[c])


@algorithm(q=("q",), logarithm=(), outputs=("logarithm",))
def mass_matrix_log_determinant(tree: Tree, q: Indexed, logarithm: Indexed) -> None:
    """ln det M = Σ ln det D, which neither overflows nor underflows."""
    tree.world.logarithm = np.zeros(1)
    inertias.start_articulated(tree)

    for k, _ in tree.scatter():
        k.X = k.weight(q[k])
        k.P = k.M.articulated()
        k.logarithm = np.zeros(1)

    for k, parent in tree.gather():
        inertias.hinge(k, parent)
        own = k.logarithm
        for reciprocal in k.D.reciprocals:
            own = own - log(reciprocal)
        parent.logarithm += own

    logarithm[...] = tree.world.logarithm[0]


def _pivots(tree: Tree, q: Indexed) -> Any:
    """Reciprocals of the pivots of D, an array over columns; the product of the pivots is det M."""
    reciprocals = tree.array("v")
    inertias.start_articulated(tree)

    for k, _ in tree.scatter():
        k.X = k.weight(q[k])
        k.P = k.M.articulated()

    for k, parent in tree.gather():
        inertias.hinge(k, parent)
        for c, reciprocal in zip(k.columns(), k.D.reciprocals, strict=True):
            reciprocals[c] = reciprocal
    return reciprocals
