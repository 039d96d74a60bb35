"""How held rows of tasks change: ψ = J a + J̇v + kp φ + kd J v, and the forces λ along them. Cost O(d²) per task.

    pass      loop               computes                           source
    motion    scatter            V, α; S, ϑ and ζ of each column    `acceleration_derivatives`
    rows      tasks, columns     ∂ψ/∂q and ∂ψ/∂v
    forces    tasks, columns     λ as wrenches in the axes of their frames; K

A row of a relative task is a component of ΔV = V_B − V_A in the axes of the near frame A, at the origin of the far one,
B, whose rate is Δα − V_A × ΔV + (0, ω × u) with ΔV = (ω, u) (`task_motion`). By (1) of `acceleration_derivatives`, with
the motion (σ, π) of B relative to A in that view, whose axes turn with A and whose origin moves with B,

    δV_A = ϑ_A − (0, π) × V_A        δV_B = ϑ_B + (σ, 0) × V_B                                     (1)

and the same for α. A task of a single frame has the world for A. φ has the displacement and the sine of the angle, or,
for hinges, the tilt of B's z axis in A; both are linear in the rotation between the frames, which changes by E σ̃ᵀ.

λ = (n, f) is fixed in the axes of the rows, so that its wrenches turn in those of the frames. The joint forces of
wrenches that are fixed in their frames change as `inverse_dynamics_derivatives` has it; what is left of ∂(Jᵀλ)/∂q is
the geometric stiffness

    K[o, c] = (ω_o × n + v_o × f) · σ_c   of motions (ω_o, v_o) of B,    (ω_o × f) · π_c   of A           (2)

For single frames with all angular or no angular rows, and all linear or none, K = JᵀT with

    T[:, c] = (n × ω_c, f × ω_c)                                                                 (3)

the change of λ in axes that turn with the frame. It is a change of λ alone, and K is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kinetree.algorithms.kinematics.acceleration_derivatives import Changes, changes, in_axes_at_rest, moved_columns
from kinetree.algorithms.tasks.response import columns_of
from kinetree.algorithms.tasks.task_space import TaskKinds
from kinetree.kernels.branchless import less
from kinetree.kernels.poses import sine
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.language.mechanism import Site
from kinetree.language.roles import ColumnRole, FrameRole
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.motion import Motion
from kinetree.spatial.rotation import cross, skew
from kinetree.spatial.value import Array

_AXES = "local_world_aligned"


class _Pair(NamedTuple):
    """Two bodies in the view of a task's rows: velocities and accelerations, and the rotation from A's axes to B's."""

    V_near: Motion
    alpha_near: Motion
    V_far: Motion
    alpha_far: Motion
    E: Array

    def moved(self, own: Changes, far: bool) -> tuple[Motion, Motion, Motion, Motion]:
        """Changes per unit of a degree of freedom that moves one end.

        Of ΔV and its rate with respect to the coordinate, of the rate with respect to the velocity, and (σ, π).
        """
        apart, between = self.V_far - self.V_near, own.S if far else -own.S
        turn, shift = Motion.of(between.angular, np.zeros(3)), Motion.of(np.zeros(3), between.linear)
        dV_near, da_near = -shift.cross(self.V_near), -shift.cross(self.alpha_near)  # (1)
        dV_far, da_far = turn.cross(self.V_far), turn.cross(self.alpha_far)
        if far:
            dV_far, da_far = dV_far + own.theta, da_far + own.alpha_q
            by_v = own.alpha_v - self.V_near.cross(own.S)
        else:
            dV_near, da_near = dV_near + own.theta, da_near + own.alpha_q
            by_v = self.V_near.cross(own.S) - own.alpha_v - own.S.cross(apart)
        change = dV_far - dV_near
        by_q = da_far - da_near - dV_near.cross(apart) - self.V_near.cross(change)
        return change, in_axes_at_rest(by_q, apart, change), in_axes_at_rest(by_v, apart, between), between


def _displaced(E: Array, target: Array, between: Motion) -> Array:
    """The change of φ of a held pose, of which `sine` is the negative."""
    return -sine(target[:3, :3] @ (E @ skew(-between.angular)), -between.linear)


def _tilted(E: Array, _target: Array, between: Motion) -> Array:
    """The change of φ of a hinge: see `kernels.constraint_rows.hinge_error`."""
    axis = (E @ skew(-between.angular))[2] * less(E[2, 2], 0.0, -1.0, 1.0)
    return np.array([-axis[1], axis[0], 0.0 * axis[2], *between.linear])


#: Changes of φ per unit of (σ, π), by kind of rows.
_ERRORS: dict[str, Callable[[Array, Array, Motion], Array]] = {"pose": _displaced, "hinge": _tilted}


def turns_as_a_whole(sites: Sequence[Site]) -> bool:
    """Whether (3) holds for all tasks."""
    counts = [[sum(row // 3 == kind for row in site.rows) for kind in range(2)] for site in sites]
    return all(site.part == "frame" for site in sites) and all(n in (0, 3) for pair in counts for n in pair)


def _row_derivatives(parts: TaskKinds, error: str, whole: bool) -> Callable[..., None]:
    error_change = _ERRORS[error]

    def row_derivatives(
        tree: Tree, q: Indexed, v: Indexed, a: Indexed, force: Indexed, target: Indexed, gains: Indexed,
        psi_q: Indexed, psi_v: Indexed, stiffness: Indexed, wrench: Indexed,
    ) -> None:  # fmt: skip
        of = moved_columns(tree, q, v, a)
        seen_far, seen_near = tree.array("v"), tree.array("v")

        def put(frame: FrameRole, c: ColumnRole, pair: _Pair, pose: Array, own: Changes, far: bool) -> None:
            change, by_q, by_v, between = pair.moved(own, far)
            phi = error_change(pair.E, pose, between)
            for row in frame.rows():
                i, (kp, kd) = row.component, gains[row]
                entry_q = by_q.data[i] + (kp * phi[i] + kd * change.data[i])
                entry_v = by_v.data[i] + kd * between.data[i]
                alone = tree.rigid_bodies
                psi_q[row, c] = entry_q if alone else psi_q[row, c] + entry_q
                psi_v[row, c] = entry_v if alone else psi_v[row, c] + entry_v

        def along(rows: Iterator[Any]) -> tuple[Array, Array]:
            whole: list[Any] = [0.0] * 6
            for row in rows:
                whole[row.component] = force[row]
            return np.array(whole[:3]), np.array(whole[3:])

        def stiffen(o: ColumnRole, columns: Iterator[ColumnRole], seen: Indexed, lever: Array, part: slice) -> None:
            for c in columns:
                stiffness[o, c] = stiffness[o, c] + lever @ seen[c].data[part]  # (2)

        for frame, carrier in tree.frames("frame"):
            seen, pose = tree.seen(_AXES, frame, carrier), target[frame]
            still = Motion.zero()
            V, alpha = seen @ carrier.V, seen @ carrier.alpha
            pair = _Pair(still, still, V, alpha, tree.pose(frame, carrier).E)
            n, f = along(frame.rows())
            wrench[frame] = np.concatenate([pair.E @ n, pair.E @ f])
            for c in tree.support(frame):
                own = changes(of, carrier, c, seen, V)
                put(frame, c, pair, pose, own, True)
                if whole:
                    turned = np.concatenate([cross(n, own.S.angular), cross(f, own.S.angular)])
                    for row in frame.rows():
                        stiffness[row, c] = turned[row.component]  # (3)
                else:
                    seen_far[c] = own.S
            if whole:
                continue
            for o in tree.support(frame):
                S = seen_far[o]
                lever = cross(S.angular, n) + cross(S.linear, f)
                stiffen(o, tree.support(frame), seen_far, lever, slice(3))

        if not parts.relative:
            return
        for near, near_carrier, far, far_carrier in tree.relatives():
            to_near, to_far = tree.between(near, near_carrier, far, far_carrier)
            X, pose = tree.apart(near, near_carrier, far, far_carrier), target[far]
            V_near, V_far = to_near @ near_carrier.V, to_far @ far_carrier.V
            pair = _Pair(V_near, to_near @ near_carrier.alpha, V_far, to_far @ far_carrier.alpha, X.E)
            n, f = along(far.rows())
            wrench[far] = np.concatenate([X.E @ n, X.E @ f])
            wrench[near] = -np.concatenate([n + cross(X.r, f), f])
            for c in columns_of(tree, near):
                own = changes(of, near_carrier, c, to_near, V_near)
                put(near, c, pair, pose, own, False)
                seen_near[c] = -own.S
            for c in columns_of(tree, far):
                own = changes(of, far_carrier, c, to_far, V_far)
                put(far, c, pair, pose, own, True)
                seen_far[c] = own.S
            for o in tree.path(far):
                S = to_far @ of.S[far_carrier, o]
                lever = cross(S.angular, n) + cross(S.linear, f)
                stiffen(o, columns_of(tree, far), seen_far, lever, slice(3))
                stiffen(o, columns_of(tree, near), seen_near, lever, slice(3))
            for o in tree.path(near):
                lever = cross((to_near @ of.S[near_carrier, o]).angular, f)
                stiffen(o, columns_of(tree, far), seen_far, lever, slice(3, 6))
                stiffen(o, columns_of(tree, near), seen_near, lever, slice(3, 6))

    return row_derivatives


@cache
def row_derivatives(parts: TaskKinds, error: str = "pose", whole: bool = False) -> Algorithm:
    """∂ψ/∂q (along the tangent) and ∂ψ/∂v, K and the wrenches of λ. Rows are in world axes, those of pairs in A's.

    Inputs and results, for r rows of m frames; the error is that of a held "pose" or of a "hinge":

        force       λ, (r,)
        target      held poses, as in `control_law`, (m, 4, 4)
        gains       kp and kd of each row, (r, 2)
        psi_q       ∂ψ/∂q, (r, nv)
        psi_v       ∂ψ/∂v, (r, nv)
        stiffness   K, (nv, nv); T, (r, nv), if tasks turn as a whole
        wrench      λ on each frame, in its axes, (m, 6)
    """
    declare = algorithm(
        q=("q",), v=("v",), a=("v",), force=("rows",), target=("frames", 4, 4), gains=("rows", 2),
        psi_q=("rows", "v"), psi_v=("rows", "v"), stiffness=("rows" if whole else "v", "v"), wrench=("frames", 6),
        outputs=("psi_q", "psi_v", "stiffness", "wrench"), sparse=("psi_q", "psi_v", "stiffness"), local=True,
    )  # fmt: skip
    name = f"row_derivatives_{error}{parts.suffix}{'_whole' * whole}"
    return replace(declare(_row_derivatives(parts, error, whole)), name=name)
