"""Factors of the mass matrix at a configuration, for all that a step computes there. Cost O(n) each.

M = (1 + H A K) D (1 + H A K)ᵀ ([J11] Eq. 49): one articulated-body sweep finds S = Hᵀ, G and D⁻¹ of every degree of
freedom, in the common frame of its tree, and the mobility Λ⁻¹ of frames that may touch something. Accelerations and
effects of impulses then take a sweep in and one out, without articulated inertias:

    recursion                loop              leaves
    mass_factors             scatter, gather   S, G, D⁻¹ and inertia of each node; poses and Λ⁻¹ of the frames
    factored_accelerations   scatter           inertial force Z at joint accelerations of zero
                             gather            ε = τ − SᵀZ;  Z(parent) += Z + G ε              Eqs. 58a–58d
                             scatter           a = D⁻¹ε − Gᵀα(parent);  α = α(parent) + S a     Eqs. 58f, 58g
    factored_twists          scatter           velocities of the frames
    factored_impulses        gather, scatter   the same for impulses on the frames
    factored_solution        gather, scatter   M⁻¹ (τ + Jᵀw)

Each degree of freedom has a row of factors: six numbers of S, six of G, a row of D⁻¹, and the ten of its node's
inertia.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinetree.algorithms.dynamics import inertias
from kinetree.algorithms.tasks import task_space
from kinetree.algorithms.tasks.pv_osim import through_joint
from kinetree.language.algorithm import algorithm
from kinetree.language.common_frame import in_common_frame
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.hinge import ForceColumns, MotionColumns
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.rotation import cross, stack
from kinetree.spatial.value import Array

#: Numbers of each degree of freedom.
WIDTH = 28
#: Numbers of each frame: its rotation to the world, row by row; its position in the world, and in its tree's frame.
PLACE = 15


@in_common_frame
@algorithm(
    q=("q",), factors=("v", WIDTH), place=("frames", PLACE), mobility=("rows", "rows"),
    outputs=("factors", "place", "mobility"), sparse=("mobility",),
)  # fmt: skip
def mass_factors(tree: Tree, q: Indexed, factors: Indexed, place: Indexed, mobility: Indexed) -> None:
    """Factors of the mass matrix; where the frames are, and Λ⁻¹ of their rows in world axes."""
    chi, block = tree.inward("sorted_rows", like="none"), tree.array("sorted_rows", "sorted_rows")
    scaled = [tree.array("sorted_rows") for _ in range(task_space.place(tree, q))]
    task_space.clear(tree, block)
    task_space.seed(tree, "local_world_aligned", chi)
    for k, parent in tree.gather():
        inertias.hinge(k, parent)
        through_joint(k, parent, k.H, tree.carried_groups(k), chi, scaled, block)
        inverse = k.D.inverse()
        for i, c in enumerate(k.columns()):
            unused = np.zeros(6 - len(inverse))
            factors[c] = stack(k.H.column(i).data, k.G.column(i).data, inverse[i], unused, k.M.data)
    for frame, carrier in tree.frames():
        place[frame] = stack(frame.X.E.T.reshape(-1), tree.pose(frame, carrier).r, frame.X.r)
    task_space.hand_over(tree, block, mobility)


class _Factors(NamedTuple):
    """Those of one node."""

    S: MotionColumns
    G: ForceColumns
    D_inverse: Array
    inertia: RigidInertia


def _of(k: Any, factors: Indexed) -> _Factors:
    rows = [factors[c] for c in k.columns()]
    n = len(rows)
    S, G = (stack(*(row[start : start + 6] for row in rows)) for start in (0, 6))
    inverse = np.array([row[12 : 12 + n] for row in rows]).reshape(n, n)
    return _Factors(MotionColumns(S, n), ForceColumns(G, n), inverse, RigidInertia(rows[0][18:28]))


@algorithm(factors=("v", WIDTH), v=("v",), tau=("v",), a=("v",), outputs=("a",), rigid=True)
def factored_accelerations(tree: Tree, factors: Indexed, v: Indexed, tau: Indexed, a: Indexed) -> None:
    """M⁻¹ (τ − C − g)."""
    tree.world.twist = Motion.zero()
    tree.world.rate = -tree.gravity
    tree.world.Z = Force.zero()
    for k, parent in tree.scatter():
        of = _of(k, factors)
        own = of.S @ v[k]
        k.twist = parent.twist + own
        k.rate = parent.rate + k.twist.cross(own)
        k.Z = of.inertia @ k.rate + k.twist.cross(of.inertia @ k.twist)
    _answer(tree, factors, tau, a)


def _answer(tree: Tree, factors: Indexed, tau: Any, a: Indexed, before: Indexed | None = None) -> None:
    """Accelerations due to joint forces and forces −Z on the nodes, or velocities due to impulses."""
    tree.world.alpha = Motion.zero()
    for k, parent in tree.gather():
        of = _of(k, factors)
        epsilon = -(of.S.T @ k.Z) if tau is None else tau[k] - of.S.T @ k.Z
        k.nu = of.D_inverse @ epsilon
        parent.Z += k.Z + of.G @ epsilon
    for k, parent in tree.scatter():
        of = _of(k, factors)
        own = k.nu - of.G.T @ parent.alpha
        k.alpha = parent.alpha + of.S @ own
        a[k] = own if before is None else before[k] + own


@algorithm(factors=("v", WIDTH), v=("v",), place=("frames", PLACE), twist=("frames", 6), outputs=("twist",), rigid=True)
def factored_twists(tree: Tree, factors: Indexed, v: Indexed, place: Indexed, twist: Indexed) -> None:
    """Velocities of the frames, in world axes."""
    tree.world.twist = Motion.zero()
    for k, parent in tree.scatter():
        k.twist = parent.twist + _of(k, factors).S @ v[k]
    for frame, carrier in tree.frames():
        omega, at = carrier.twist.angular, place[frame][12:15]
        twist[frame] = stack(omega, carrier.twist.linear + cross(omega, at))


@algorithm(
    factors=("v", WIDTH), v=("v",), place=("frames", PLACE), wrench=("frames", 6), after=("v",), outputs=("after",),
    rigid=True,
)  # fmt: skip
def factored_impulses(
    tree: Tree, factors: Indexed, v: Indexed, place: Indexed, wrench: Indexed, after: Indexed
) -> None:
    """v + M⁻¹Jᵀ w: velocities after impulses on the frames, in world axes, moments first."""
    _push(tree, place, wrench)
    _answer(tree, factors, None, after, v)


@algorithm(
    factors=("v", WIDTH), tau=("v",), place=("frames", PLACE), wrench=("frames", 6), x=("v",), outputs=("x",),
    rigid=True,
)  # fmt: skip
def factored_solution(tree: Tree, factors: Indexed, tau: Indexed, place: Indexed, wrench: Indexed, x: Indexed) -> None:
    """M⁻¹ (τ + Jᵀ w), with wrenches as of `factored_impulses`."""
    _push(tree, place, wrench)
    _answer(tree, factors, tau, x)


def _push(tree: Tree, place: Indexed, wrench: Indexed) -> None:
    """Set Z of wrenches on the frames."""
    tree.world.Z = Force.zero()
    for k, _ in tree.scatter():
        k.Z = Force.zero()
    for frame, carrier in tree.frames():
        moment, force = wrench[frame][:3], wrench[frame][3:]
        carrier.Z -= Force.of(moment + cross(place[frame][12:15], force), force)
