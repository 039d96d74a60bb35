"""Operational-space control as one recursion: τ = ID(q, v, a₀) + Jᵀf with Λ⁻¹f = b − J̇v − J a₀. Cost O(n + r³).

    pass      loop             leaves
    inertia   any method       Λ⁻¹, and from it −Λ by sweeps
    motion    scatter          velocity, acceleration and force of each body for joint accelerations a₀
    rows      frames           r = b − (J a₀ + J̇v): residual of the rows
    solve     rows             f = Λ r
    force     frames, gather   τ from the inertial forces and from f at the frames
    answer    scatter          a = a₀ + M⁻¹Jᵀf, where asked for: with the factors of M from the first pass

with

    b = ẍ_d + kd (ẋ_d − J v) + kp e                                                              (1)

where e is an error of `kernels.poses`. This is Khatib's τ = Jᵀ(Λ b + μ + p) + Nᵀ(M a₀ + C + g) [K87] without forming N,
J̄ or M; by Gauss's principle it is the motion closest to a₀, in the metric of M, that realises b. No Jacobian is formed:
J a₀ + J̇v is the acceleration of the frame.

`control_step.py` is what a controller runs: it also computes a₀ from a posture, and checks that targets are poses.

[K87] O. Khatib, "A unified approach for motion and force control of robot manipulators", IEEE Journal of Robotics and
      Automation 3, 1987.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from kinetree.algorithms.kinematics import VIEWS, seen_rate
from kinetree.algorithms.operational_space import inversion, recursion_of, task_space
from kinetree.algorithms.operational_space.by_weights import BY_WEIGHTS, frames
from kinetree.algorithms.operational_space.by_weights import motion as weights
from kinetree.algorithms.operational_space.task_space import Parts, between
from kinetree.kernels.language import task_rows
from kinetree.kernels.poses import ERRORS
from kinetree.kernels.solve import add_spread, apply_inverse, invert
from kinetree.recursion.algorithm import Algorithm, algorithm
from kinetree.recursion.roles import FrameRole, RowRole
from kinetree.recursion.tree import Indexed, Tree, Zeros
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.value import Array
from kinetree.spatial.vector3 import cross

# Methods for Λ⁻¹ that leave `k.inertia`.
_KEEP_INERTIAS = ("chang_khatib", "efpa", "pv_osim", "pv_osim_r", "rjk")


def law_by(method: str, parts: Parts, error: str = "sine", *, moving: bool = False) -> Callable[..., None]:
    """The law with one of the methods for Λ⁻¹ and one of the errors between poses.

    Args:
        method: As of `control_law`.
        parts: As of `control_law`.
        error: The error between poses, one of `ERRORS`.
        moving: Whether `answer` follows, for methods that `keeps_factors`.
    """
    view = VIEWS["local_world_aligned"]
    inverse_inertia = recursion_of(method, "local_world_aligned", parts)
    by_weights = method == BY_WEIGHTS

    def control_law(
        tree: Tree,
        q: Indexed,
        v: Indexed,
        a0: Indexed,
        target: Indexed,
        feed: Indexed,
        gains: Indexed,
        reach: Indexed,
        cut: Indexed,
        tau: Indexed,
        force: Indexed,
        residual: Indexed,
        spread: Indexed,
    ) -> None:
        B, weight = tree.array("rows", "rows"), tree.array("rows")
        lacking, along, tips = tree.array("rows"), tree.array("rows"), tree.array("sorted_rows")
        if parts.relative:
            inversion.clear(tree, B)
        inverse_inertia(tree, q, B)
        inversion.weigh(tree, B, reach, weight)
        for row in tree.task_rows():
            weight[row] = weight[row] * cut[row]
        invert(task_rows(tree), B)
        add_spread(task_rows(tree), B, weight, spread)

        if by_weights:
            weights.motion(tree, v, a0)
            frames.rows(tree, "local_world_aligned", parts, tips)
        else:
            motion(tree, v, a0, method in _KEEP_INERTIAS)
            task_space.rows(tree, view, tips, parts)

        def lack(frame: FrameRole, error: Any, velocity: Any, rate: Any) -> None:
            for row in frame.rows():
                lacking[row] = residual[row] = residual_of(row, feed, gains, error, velocity, rate)

        (weights.rows_of_motion if by_weights else rows_of_motion)(tree, parts, target, lack, ERRORS[error])

        apply_inverse(task_rows(tree), B, lacking, along)
        for one in tree.task_rows():
            force[one] = along[one]

        if by_weights:
            weights.press(tree, parts, tips, along)
            weights.torques(tree, q, v, a0, tau)
            return
        if moving:
            tree.world.pull = Force.zero()
            for k, _ in tree.scatter():
                k.pull = Force.zero()
        for frame, carrier in tree.frames():
            total = Force.zero()
            for row in frame.rows():
                total = total + Force(tips[row].data * along[row])
            carrier.push += total
            if moving:
                carrier.pull += total
        if parts.mass:
            lift(tree, along, moving)
        for k, parent in tree.gather():
            tau[k] = k.axes.T @ k.push + k.armature * a0[k]
            parent.push += k.push
            if moving:
                k.share = k.S.T @ k.pull
                parent.pull += k.pull - k.G @ k.share

    return control_law


def keeps_factors(method: str) -> bool:
    """Whether a method for Λ⁻¹ leaves the factors of the mass matrix that accelerations need."""
    return method in _KEEP_INERTIAS


def answer(tree: Tree, a0: Indexed, a: Indexed) -> None:
    """a = a₀ + M⁻¹Jᵀf: the way out of forward dynamics at rest, whose way in the law is."""
    tree.world.gained = Motion.zero()
    for k, parent in tree.scatter():
        own = k.D.solve(k.share) - k.G.T @ parent.gained
        a[k] = a0[k] + k.H.in_joint(k.C, k.armature, own)
        k.gained = parent.gained + k.S @ own


def residual_of(row: RowRole, feed: Indexed, gains: Indexed, error: Any, velocity: Any, rate: Any) -> Any:
    """b − (J a₀ + J̇v) of a row of a task, with b from (1)."""
    c, (wanted_v, wanted_a), (kp, kd) = row.component, feed[row], gains[row]
    return wanted_a + kp * error[c] + kd * (wanted_v - velocity[c]) - rate[c]


def motion(tree: Tree, v: Indexed | Zeros, a0: Indexed | Zeros, inertias: bool = False) -> None:
    """Compute twist, its rate, inertia and inertial force of every node; nodes must be placed.

    Args:
        tree: The mechanism.
        v: Joint velocities.
        a0: Joint accelerations.
        inertias: Whether inertias have been set.
    """
    tree.world.twist = Motion.zero()
    tree.world.rate = Motion.zero()
    tree.world.push = Force.zero()

    for k, parent in tree.scatter():
        k.axes = k.H.map(k.C.back)
        own = k.axes @ v[k]
        k.twist = parent.twist + own
        k.rate = parent.rate + k.axes @ a0[k] + k.twist.cross(own)
        if not inertias:
            k.inertia = k.C.congruence(k.M)
        k.push = k.inertia @ (k.rate - tree.gravity) + k.twist.cross(k.inertia @ k.twist)


def rows_of_motion(
    tree: Tree,
    parts: Parts,
    target: Indexed,
    put: Callable[[FrameRole, Any, Any, Any], None],
    error: Callable[[Array, Array], Array],
) -> None:
    """Call `put` with each task's frame, error e, velocity J v and acceleration J a₀ + J̇v.

    Args:
        tree: The mechanism, in motion.
        parts: The kinds of tasks present.
        target: Targets, (m, 4, 4).
        put: Takes the results.
        error: The error of a pose, from the rotation and the way that are left.
    """
    view = VIEWS["local_world_aligned"]
    for frame, carrier in tree.frames("frame"):
        C = frame.X @ carrier.C
        seen = view(C, carrier.origin)
        rate = seen_rate(seen, True, carrier.twist, carrier.rate).data
        T = target[frame]
        p = C.r + carrier.origin
        put(frame, error(T[:3, :3] @ C.E, T[:3, 3] - p), (seen @ carrier.twist).data, rate)
    if parts.relative:
        for near, near_carrier, far, far_carrier in tree.relatives():
            seen_near, seen_far = between(near, near_carrier, far, far_carrier)
            V = seen_near @ near_carrier.twist
            apart = seen_far @ far_carrier.twist - V
            rate_ = seen_far @ far_carrier.rate - seen_near @ near_carrier.rate - V.cross(apart)
            rate_ = rate_ + Motion.of(np.zeros(3), cross(apart.angular, apart.linear))
            A, B, T = near.X @ near_carrier.C, far.X @ far_carrier.C, target[far]
            way = (B.r - A.r) + (far_carrier.origin - near_carrier.origin)
            put(far, error(T[:3, :3] @ (B.E @ A.E.T), T[:3, 3] - A.E @ way), apart.data, rate_.data)
    if parts.mass:
        tree.world.composite = RigidInertia.zero()
        tree.world.moment = np.zeros(3)
        tree.world.momentum = Force.zero()
        tree.world.change = Force.zero()
        for k, _ in tree.scatter():
            k.composite = k.inertia
            k.moment = k.inertia.first_moment + k.inertia.mass * k.origin
            k.momentum = k.inertia @ k.twist
            k.change = k.inertia @ k.rate + k.twist.cross(k.inertia @ k.twist)
        for k, parent in tree.gather():
            parent.composite += k.composite
            parent.moment += k.moment
            parent.momentum += k.momentum
            parent.change += k.change
        share = 1.0 / tree.world.composite.mass
        for center, _ in tree.frames("mass"):
            T = target[center]
            way = T[:3, 3] - tree.world.moment * share
            put(
                center,
                np.concatenate([np.zeros(3), way]),
                tree.world.momentum.data * share,
                tree.world.change.data * share,
            )


def lift(tree: Tree, along: Indexed, moving: bool) -> None:
    """Apply the forces on the centre of mass: each body takes its share, as under a common acceleration."""
    tree.world.lifted = Motion.zero()
    share = 1.0 / tree.world.composite.mass
    for center, world in tree.frames("mass"):
        world.lifted += Motion(sum(row.unit().data * (along[row] * share) for row in center.rows()))
    for k, parent in tree.scatter():
        k.lifted = parent.lifted
        k.push = k.push + k.inertia @ k.lifted
        if moving:
            k.pull = k.pull + k.inertia @ k.lifted


@cache
def control_law(method: str, parts: Parts) -> Algorithm:
    """τ, f along the rows, the residual of the rows, and the `spread` of Λ⁻¹, for rows in world axes.

    Args:
        method: The method for Λ⁻¹, one of `ALGORITHMS`, or `BY_WEIGHTS`.
        parts: The kinds of tasks present.

    Inputs of the recursion:

        q, v, a0    state, and the joint accelerations to which the motion stays as close as possible
        target      target poses of the frames, (m, 4, 4); for relative tasks, that of the far frame relative to the
                    near one; for the centre of mass, its position
        feed        ẋ_d and ẍ_d of each row, (r, 2)
        gains       kp and kd of each row, (r, 2)
        reach       how far the mechanism moves each row: see `inversion`
        cut         eigenvalue below which directions of a row's level count as singular, (r,)

    A level is a set of rows with a common cut, placed before all rows of lower priority. Its eigenvalues, after
    elimination of the levels above, are those of the inverse of a block of Λ. So they are above the cut wherever
    `spread` is less than one, and 1/√spread is a lower bound on their ratio.
    """
    declare = algorithm(
        q=("q",),
        v=("v",),
        a0=("v",),
        target=("frames", 4, 4),
        feed=("rows", 2),
        gains=("rows", 2),
        reach=("rows",),
        cut=("rows",),
        tau=("v",),
        force=("rows",),
        residual=("rows",),
        spread=(),
        outputs=("tau", "force", "residual", "spread"),
        sparse=("spread",),
        any_node=method == BY_WEIGHTS,
    )
    return replace(declare(law_by(method, parts)), name=f"control_law_{method}{parts.suffix}")
