"""Escape from singularities in which goals would be stuck: motion in the null space that brings back a lost direction.

Where a task has lost a direction u, the joints have gained one that moves no task. Among these, d turns u back into a
direction that can move, fastest:

    max ‖∂(uᵀJ)/∂q · d‖        J d = 0,   dᵀM d = 1                                              (1)

Singularities are of two types. If motion along d itself moves the task along u, uᵀ J̇(d) d ≠ 0, as a stretched
elbow does, the posture decides. If not, as in a wrist with two axes in line, nothing would happen: the residual along u
calls for a torque that would never move the joints, and the robot would stay where it is. There, the controller adds

    a₀ += ± |uᵀ r| d                                                                             (2)

in the direction in which the joints already move; from rest, towards the middle of their ranges. It moves no task, and
fades with the singularity. No state is kept.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinetree.control.hierarchy import reciprocals
from kinetree.model.model import Model
from kinetree.spatial.value import Array

#: Share of the largest change in (1) above which motion along d moves the task itself: type 1.
_CURVED = 0.05
#: Step of the difference quotient in (1) [rad or m, in the metric of M].
_STEP = 1e-6
#: Time after which joints count as moving, if (2) has accelerated them [s].
_MOVING = 1e-2


class Escape:
    """Accelerations (2). `weights` turns diagonals of Λ⁻¹ to roots of the rows' weights; policy as of `hierarchy`."""

    def __init__(
        self, robot: Model, jacobian: Callable[[Array], Array], weights: Callable[[Array], Array], cuts: Array,
        policy: str,
    ) -> None:  # fmt: skip
        self._robot, self._jacobian, self._weights = robot, jacobian, weights
        self._cut, self._policy = float(cuts.max()), policy
        single = [joint for joint in robot.joints if joint.nq == joint.nv == 1]
        low, high = robot.lower_limits, robot.upper_limits
        ranges = [(j.q_start, j.v_start) for j in single if np.isfinite(high[j.q_start] - low[j.q_start])]
        self._q, self._v = (np.array(x, dtype=int) for x in (zip(*ranges, strict=True) if ranges else ((), ())))
        self._middle, self._range = 0.5 * (low + high)[self._q], (high - low)[self._q]

    def __call__(self, q: Array, v: Array, A: Array, J: Array, residual: Array) -> Array:
        """Accelerations of some samples, (n, nv), from Λ⁻¹, J and the residual b − J̇v − J a₀ of all rows."""
        roots = self._weights(np.diagonal(A, axis1=-2, axis2=-1))
        finite = np.isfinite(residual).all(axis=-1) & np.isfinite(J).all(axis=(-1, -2))
        found = np.zeros((len(q), J.shape[-1]))
        for i in np.flatnonzero(finite).tolist():  # one at a time: the bits of a sample do not depend on others
            found[i] = self._of(q[i], v[i], J[i] / roots[i][:, None], residual[i] / roots[i], roots[i])
        return found

    def _of(self, q: Array, v: Array, J: Array, residual: Array, roots: Array) -> Array:
        """(2) of one sample, whose rows are weighted."""
        rows, none = len(J), np.zeros(J.shape[-1])
        root = np.linalg.cholesky(self._robot.mass_matrix_inverse(q))
        U, S, Vt = np.linalg.svd(J @ root)
        values = np.zeros(rows)
        values[: len(S)] = S * S
        idle = np.concatenate([values < self._cut, np.ones(max(0, J.shape[-1] - rows), dtype=bool)])[: J.shape[-1]]
        lost = 1.0 - values * reciprocals(values, self._cut, self._policy)
        wanted = np.abs(U.T @ residual) * lost
        u, N = U[:, np.argmax(wanted)], root @ Vt[idle].T
        if not wanted.max() > 0.0 or not N.shape[1]:
            return none
        ahead = self._jacobian(self._robot.integrate(q, _STEP * N.T)) / roots[:, None]
        change = np.einsum("r,krn->kn", u, ahead - J) / _STEP
        left, gains, _ = np.linalg.svd(change @ root)
        c = left[:, 0]
        d = N @ c
        curvature = (c @ change) @ d
        if abs(curvature) > _CURVED * gains[0]:
            return none  # type 1
        strength = wanted.max()
        along = d @ self._robot.mass_matrix(q) @ v
        if not abs(along) > _MOVING * strength:
            along = -np.sum(d[self._v] * (q[self._q] - self._middle) / self._range**2)
        push: Array = (-strength if along < 0.0 else strength) * d
        return push
