"""Motions as functions of a robot's parameters, with their sensitivities: `parameters.rollout`.

A step of semi-implicit Euler, v′ = v + a(p, q, v, τ) dt and q′ = q ⊕ v′ dt, as `robot.step` has it. Its derivatives are
those of forward dynamics and, between tangents, of ⊕: A and B of `dintegrate`, 1 and dt for joints with q̇ = v.

    δv′ = δv + δa dt        δq′ = A δq + B δv′                                                                   (1)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError
from kinetree.model.joints.protocol import ScrewStage
from kinetree.runtime import arguments
from kinetree.runtime.matrix_products import times
from kinetree.runtime.parametric import ParametricFunction
from kinetree.spatial.value import Array


class Trajectory(NamedTuple):
    """The states of a motion, or their changes.

    Attributes:
        q: Configurations, (…, T + 1, nq), or tangents, (…, T + 1, nv).
        v: Joint velocities, (…, T + 1, nv).
    """

    q: Array
    v: Array


class TrajectoryGradients(NamedTuple):
    """Gradients of a weighted sum over the states of a motion.

    Attributes:
        p: With respect to the parameters, (…, n).
        q: To the tangent of the initial configuration, (…, nv).
        v: To the initial velocities, (…, nv).
        tau: To the joint forces, (…, T, nv).
    """

    p: Array
    q: Array
    v: Array
    tau: Array


class ParametricRollout:
    """`rollout(p, q, v, tau, dt)`: the motion under joint forces (…, T, nv), one for each step, as `Trajectory`.

    Args:
        robot: The model, whose coordinates do not depend on the parameters.
        forward_dynamics: Accelerations of p, q, v and τ.
        integrate: q ⊕ v dt of p, q, v and dt, if that depends on the parameters, as of loops.
    """

    def __init__(
        self, robot: Any, forward_dynamics: ParametricFunction, integrate: ParametricFunction | None = None
    ) -> None:
        self._robot, self._dynamics, self._integrate = robot, forward_dynamics, integrate
        turning = any(isinstance(stage, ScrewStage) for joint in robot.joints for stage in joint.type.stages)
        self._plain = robot.nq == robot.nv and not turning

    def __call__(self, p: Any, q: Any, v: Any, tau: Any, dt: float) -> Trajectory:
        """The states, the initial one first."""
        p, q, v, tau = self._arrays(p, q, v, tau)
        batch, steps = q.shape[:-1], tau.shape[-2]
        qs, vs = np.empty((*batch, steps + 1, q.shape[-1])), np.empty((*batch, steps + 1, v.shape[-1]))
        qs[..., 0, :], vs[..., 0, :] = q, v
        for k in range(steps):
            v = v + self._dynamics(p, q, v, tau[..., k, :]) * dt
            q = self._robot.integrate(q, v, dt) if self._integrate is None else self._integrate(p, q, v, dt)
            qs[..., k + 1, :], vs[..., k + 1, :] = q, v
        return Trajectory(qs, vs)

    def jvp(self, p: Any, q: Any, v: Any, tau: Any, dt: float, *directions: Any) -> Trajectory:
        """Changes of the states along changes of p, of the tangent of q, of v and of all joint forces."""
        if len(directions) != 4:
            raise InputError(
                f"rollout.jvp takes p, q, v, tau, dt, dp, dq, dv, dtau; got {5 + len(directions)} arguments"
            )
        path = self(p, q, v, tau, dt)
        p, _, _, tau = self._arrays(p, q, v, tau)
        dp, dq, dv, dtau = (np.asarray(x, dtype=np.float64) for x in directions)
        shapes = [path.v.shape[:-2], dtau.shape[:-2], *(x.shape[:-1] for x in (dp, dq, dv))]
        batch = arguments.common_batch("rollout.jvp", ("the motion", "dtau", "dp", "dq", "dv"), shapes)
        dqs, dvs = (np.empty((*batch, *path.v.shape[-2:])) for _ in range(2))
        dqs[..., 0, :], dvs[..., 0, :] = dq, dv
        for k in range(tau.shape[-2]):
            at = path.q[..., k, :], path.v[..., k, :], tau[..., k, :]
            moved = dqs[..., k, :], dvs[..., k, :], dtau[..., k, :]
            dvs[..., k + 1, :] = dvs[..., k, :] + self._dynamics.jvp(p, *at, dp, *moved) * dt  # (1)
            dqs[..., k + 1, :] = self._moved(path, k, dt, dqs[..., k, :], dvs[..., k + 1, :])
        return Trajectory(dqs, dvs)

    def vjp(self, p: Any, q: Any, v: Any, tau: Any, dt: float, q_weights: Any, v_weights: Any) -> TrajectoryGradients:
        """Gradients of Σ q_weights · δq + v_weights · δv over all states, in one backward sweep.

        Weights are those of tangents and velocities, (…, T + 1, nv) each.
        """
        path = self(p, q, v, tau, dt)
        p, _, _, tau = self._arrays(p, q, v, tau)
        weights = [np.broadcast_to(np.asarray(w, dtype=np.float64), path.v.shape) for w in (q_weights, v_weights)]
        by_q, by_v = (w[..., -1, :].copy() for w in weights)
        by_p: Array = np.zeros((*path.v.shape[:-2], p.shape[-1]))
        by_tau = np.empty_like(path.v[..., 1:, :])
        for k in reversed(range(tau.shape[-2])):
            by_q, of_end = self._moved_back(path, k, dt, by_q)
            by_v = by_v + of_end
            at = path.q[..., k, :], path.v[..., k, :], tau[..., k, :]
            of_p, of_q, of_v, by_tau[..., k, :] = self._dynamics.vjp(p, *at, by_v * dt)
            by_p = by_p + of_p
            by_q, by_v = by_q + of_q + weights[0][..., k, :], by_v + of_v + weights[1][..., k, :]
        return TrajectoryGradients(by_p, by_q, by_v, by_tau)

    def _moved(self, path: Trajectory, k: int, dt: float, dq: Array, dv: Array) -> Array:
        """A δq + B δv′."""
        if self._plain:
            return dq + dv * dt
        A, B = self._robot.dintegrate(path.q[..., k, :], path.v[..., k + 1, :], dt)
        return times(A, dq) + times(B, dv)

    def _moved_back(self, path: Trajectory, k: int, dt: float, by_q: Array) -> tuple[Array, Array]:
        """Aᵀ and Bᵀ times a gradient."""
        if self._plain:
            return by_q, by_q * dt
        A, B = self._robot.dintegrate(path.q[..., k, :], path.v[..., k + 1, :], dt)
        return times(np.swapaxes(A, -1, -2), by_q), times(np.swapaxes(B, -1, -2), by_q)

    def _arrays(self, p: Any, q: Any, v: Any, tau: Any) -> tuple[Array, Array, Array, Array]:
        """The arguments, states with common batch axes."""
        nq, nv, count = self._robot.nq, self._robot.nv, len(self._dynamics.selection.numbers)
        taus = np.asarray(arguments.numbers("rollout", "tau", tau), dtype=np.float64)
        if taus.ndim < 2 or taus.shape[-1] != nv:
            raise InputError(f"rollout: tau has shape {taus.shape}; it takes (…, T, {nv})")
        sizes = (("p", p, count), ("q", q, nq), ("v", v, nv))
        p, q, v = (arguments.doubles("rollout", name, x, (size,)) for name, x, size in sizes)
        shapes = [p.shape[:-1], q.shape[:-1], v.shape[:-1], taus.shape[:-2]]
        batch = arguments.common_batch("rollout", ("p", "q", "v", "tau"), shapes)
        return p, np.broadcast_to(q, (*batch, nq)), np.broadcast_to(v, (*batch, nv)), taus
