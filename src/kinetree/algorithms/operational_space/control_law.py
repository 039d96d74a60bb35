"""Operational-space control as one recursion: τ = ID(q, v, a₀) + Jᵀf with Λ⁻¹f = b − J̇v − J a₀. Cost O(n + r³).

    pass      loop             leaves
    inertia   any method       Λ⁻¹, and from it −Λ by sweeps
    motion    scatter          velocity, acceleration and force of each body for joint accelerations a₀
    rows      frames           r = b − (J a₀ + J̇v): residual of the rows
    solve     rows             f = Λ r
    force     frames, gather   τ from the inertial forces and from f at the frames

with

    b = ẍ_d + kd (ẋ_d − J v) + kp e                                                              (1)
    e = [½ Σᵢ sᵢ × s_dᵢ; p_d − p]                                                                 (2)

where sᵢ are the axes of a frame and s_dᵢ those of its target: Luh's orientation error [L80], sin θ about the axis of
the rotation between them. This is Khatib's τ = Jᵀ(Λ b + μ + p) + Nᵀ(M a₀ + C + g) [K87] without forming N, J̄ or M; by
Gauss's principle it is the motion closest to a₀, in the metric of M, that realises b. No Jacobian is formed: J a₀ + J̇v
is the acceleration of the frame.

`control_step` is what a controller runs: it also computes a₀ from a posture, and checks that targets are poses.

[K87] O. Khatib, "A unified approach for motion and force control of robot manipulators", IEEE Journal of Robotics and
      Automation 3, 1987.
[L80] J. Luh, M. Walker, R. Paul, "Resolved-acceleration control of mechanical manipulators", IEEE Transactions on
      Automatic Control 25, 1980.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from kinetree.algorithms import tree_frame
from kinetree.algorithms.kinematics import VIEWS, seen_rate
from kinetree.algorithms.operational_space import ALGORITHMS, inversion, task_space
from kinetree.algorithms.operational_space.task_space import Parts, between
from kinetree.recursion.algorithm import Algorithm, algorithm
from kinetree.recursion.roles import FrameRole
from kinetree.recursion.tree import Indexed, Tree, Zeros
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.scalar import arctan2, select, sqrt
from kinetree.spatial.value import Array
from kinetree.spatial.vector3 import cross

# Methods for Λ⁻¹ that leave `k.inertia`.
_KEEP_INERTIAS = ("chang_khatib", "efpa", "pv_osim", "pv_osim_r", "rjk")
# Half a turn away, the axis is lost in rounding: cos²(θ/2) is not smaller than this.
_HALF_TURN = 1e-12
# sin²(θ/2) below which a series is exact to rounding, and what keeps a square root differentiable.
_SMALL, _TINY = 1e-5, 2.0**-400


def _control_law(method: str, parts: Parts) -> Callable[..., None]:
    view = VIEWS["local_world_aligned"]
    inverse_inertia = ALGORITHMS[method](view, parts)

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
        inversion.sweep(tree, B)
        inversion.distrust(tree, B, weight, spread)
        for one in tree.task_rows():
            for other in tree.task_rows(one):
                B[other, one] = B[one, other]

        motion(tree, v, a0, method in _KEEP_INERTIAS)
        task_space.rows(tree, view, tips, parts)

        def lack(frame: FrameRole, error: Any, velocity: Any, rate: Any) -> None:
            for row in frame.rows():
                c, (wanted_v, wanted_a), (kp, kd) = row.component, feed[row], gains[row]
                r = wanted_a + kp * error[c] + kd * (wanted_v - velocity[c]) - rate[c]
                lacking[row] = r
                residual[row] = r

        rows_of_motion(tree, parts, target, lack)

        for one in tree.task_rows():
            along[one] = 0.0
        for one in tree.task_rows():
            x = lacking[one]
            for other in tree.task_rows():
                along[other] = along[other] - B[one, other] * x
        for one in tree.task_rows():
            force[one] = along[one]

        for frame, carrier in tree.frames():
            total = Force.zero()
            for row in frame.rows():
                total = total + Force(tips[row].data * along[row])
            carrier.push += total
        if parts.mass:
            lift(tree, along)
        for k, parent in tree.gather():
            tau[k] = k.axes.T @ k.push + k.armature * a0[k]
            parent.push += k.push

    return control_law


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
    turn: Callable[[Array], Array] | None = None,
) -> None:
    """Call `put` with each task's frame, error (2), velocity J v and acceleration J a₀ + J̇v.

    Args:
        tree: The mechanism, in motion.
        parts: The kinds of tasks present.
        target: Targets, (m, 4, 4).
        put: Takes the results.
        turn: The error of an orientation, from the rotation between it and its target; Luh's by default.
    """
    turn = turn or _luh
    view = VIEWS["local_world_aligned"]
    for frame, carrier in tree.frames("frame"):
        C = frame.X @ carrier.C
        seen = view(C, carrier.origin)
        rate = seen_rate(seen, True, carrier.twist, carrier.rate).data
        T = target[frame]
        p = C.r + carrier.origin
        put(frame, np.concatenate([turn(T[:3, :3] @ C.E), T[:3, 3] - p]), (seen @ carrier.twist).data, rate)
    if parts.relative:
        for near, near_carrier, far, far_carrier in tree.relatives():
            seen_near, seen_far = between(near, near_carrier, far, far_carrier)
            V = seen_near @ near_carrier.twist
            apart = seen_far @ far_carrier.twist - V
            rate_ = seen_far @ far_carrier.rate - seen_near @ near_carrier.rate - V.cross(apart)
            rate_ = rate_ + Motion.of(np.zeros(3), cross(apart.angular, apart.linear))
            A, B, T = near.X @ near_carrier.C, far.X @ far_carrier.C, target[far]
            way = (B.r - A.r) + (far_carrier.origin - near_carrier.origin)
            error = np.concatenate([turn(T[:3, :3] @ (B.E @ A.E.T)), T[:3, 3] - A.E @ way])
            put(far, error, apart.data, rate_.data)
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


def lift(tree: Tree, along: Indexed) -> None:
    """Apply the forces on the centre of mass: each body takes its share, as under a common acceleration."""
    tree.world.lifted = Motion.zero()
    share = 1.0 / tree.world.composite.mass
    for center, world in tree.frames("mass"):
        world.lifted += Motion(sum(row.unit().data * (along[row] * share) for row in center.rows()))
    for k, parent in tree.scatter():
        k.lifted = parent.lifted
        k.push = k.push + k.inertia @ k.lifted


def _luh(E: Array) -> Array:
    """½ Σ sᵢ × s_dᵢ from the rotation R_d Rᵀ between two orientations."""
    return np.array([0.5 * (E[2, 1] - E[1, 2]), 0.5 * (E[0, 2] - E[2, 0]), 0.5 * (E[1, 0] - E[0, 1])])


@cache
def control_law(method: str, parts: Parts) -> Algorithm:
    """τ, f along the rows, the residual of the rows, and the `spread` of Λ⁻¹, for rows in world axes.

    Args:
        method: The method for Λ⁻¹, one of `ALGORITHMS`.
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
    )
    return replace(declare(_control_law(method, parts)), name=f"control_law_{method}{parts.suffix}")


def rotation_vector(E: Array) -> Array:
    """θ times the axis of a rotation, from 2 sin(θ/2) of it."""
    cosine = 0.25 * (1.0 + E[0, 0] + E[1, 1] + E[2, 2])  # cos²(θ/2)
    half = sqrt(select(cosine, _HALF_TURN, _HALF_TURN, cosine))
    double = _luh(E) / half
    square = 0.25 * (double @ double)  # sin²(θ/2)
    sine = sqrt(square + _TINY)
    # θ/2 / sin(θ/2), by its series close to no rotation
    ratio = select(square, _SMALL, 1.0 + square * (1.0 / 6.0 + square * (3.0 / 40.0)), arctan2(sine, half) / sine)
    vector: Array = double * ratio
    return vector


@cache
def task_residual(parts: Parts) -> Algorithm:
    """b − J̇v of all rows, for rows in world axes, and `fault` as of `control_step`.

    Args:
        parts: The kinds of tasks present.

    Inputs are those of `control_law`.
    """

    def task_residual(
        tree: Tree,
        q: Indexed,
        v: Indexed,
        target: Indexed,
        feed: Indexed,
        gains: Indexed,
        residual: Indexed,
        fault: Indexed,
    ) -> None:
        tree_frame.start(tree)
        for k, parent in tree.scatter():
            tree_frame.place(k, parent, q)
        motion(tree, v, Zeros())

        def lack(frame: FrameRole, error: Any, velocity: Any, rate: Any) -> None:
            for row in frame.rows():
                c, (wanted_v, wanted_a), (kp, kd) = row.component, feed[row], gains[row]
                residual[row] = wanted_a + kp * error[c] + kd * (wanted_v - velocity[c]) - rate[c]

        rows_of_motion(tree, parts, target, lack)
        for frame, _ in tree.frames():
            fault[...] = fault[...] + fault_of(target[frame])

    declare = algorithm(
        q=("q",),
        v=("v",),
        target=("frames", 4, 4),
        feed=("rows", 2),
        gains=("rows", 2),
        residual=("rows",),
        fault=(),
        outputs=("residual", "fault"),
        sparse=("fault",),
    )
    return replace(declare(task_residual), name=f"task_residual{parts.suffix}")


def _control_step(method: str, parts: Parts) -> Callable[..., None]:
    law = _control_law(method, parts)

    def control_step(
        tree: Tree,
        q: Indexed,
        v: Indexed,
        posture: Indexed,
        stiffness: Indexed,
        target: Indexed,
        feed: Indexed,
        gains: Indexed,
        reach: Indexed,
        cut: Indexed,
        tau: Indexed,
        force: Indexed,
        residual: Indexed,
        spread: Indexed,
        a0: Indexed,
        fault: Indexed,
    ) -> None:
        for k, _ in tree.scatter():
            pull = stiffness[k]
            a0[k] = pull[:, 0] * k.manifold.difference(q[k], posture[k]) - pull[:, 1] * v[k]
        for frame, _ in tree.frames():
            fault[...] = fault[...] + fault_of(target[frame])
        law(tree, q, v, a0, target, feed, gains, reach, cut, tau, force, residual, spread)

    return control_step


def fault_of(T: Array) -> Any:
    """How far a matrix is from a pose: squares of what RᵀR − 1, det R − 1 and the last row should be zero in."""
    R, last = T[:3, :3], T[3]
    x, y, z = R[:, 0], R[:, 1], R[:, 2]
    off = [x @ y, y @ z, z @ x, x @ x - 1.0, y @ y - 1.0, z @ z - 1.0, cross(x, y) @ z - 1.0, *last[:3], last[3] - 1.0]
    return sum(entry * entry for entry in off)


@cache
def control_step(method: str, parts: Parts) -> Algorithm:
    """The law with a₀ = kp (q_ref ⊖ q) − kd v, and a check of the targets.

    Args:
        method: As of `control_law`.
        parts: As of `control_law`.

    Inputs and outputs are those of `control_law`, with these in the place of a0:

        posture     q_ref, a configuration
        stiffness   kp and kd of each degree of freedom, (nv, 2)

    and these outputs in addition:

        a0          accelerations of the posture, (nv,)
        fault       sum of squares of what should be zero of the targets, if they are poses
    """
    declare = algorithm(
        q=("q",),
        v=("v",),
        posture=("q",),
        stiffness=("v", 2),
        target=("frames", 4, 4),
        feed=("rows", 2),
        gains=("rows", 2),
        reach=("rows",),
        cut=("rows",),
        tau=("v",),
        force=("rows",),
        residual=("rows",),
        spread=(),
        a0=("v",),
        fault=(),
        outputs=("tau", "force", "residual", "spread", "a0", "fault"),
        sparse=("spread", "a0", "fault"),
    )
    return replace(declare(_control_step(method, parts)), name=f"control_step_{method}{parts.suffix}")
