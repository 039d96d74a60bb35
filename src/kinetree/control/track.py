"""Tracking of a trajectory: nonlinear feedforward with time-varying linear feedback, by LQR along the motion.

    τ(t) = τ_d(t) − K(t) [q ⊖ q_d(t); v − v_d(t)]

K minimises Σ xᵀQx + uᵀRu over the rest of the motion, for the exact linearisation A(t), B(t) of each time step along it
(`robot.discretize`); [JR] names this as the purpose of linearised dynamics.

[JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
     Systems, Man and Cybernetics 23, 1993.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinetree.errors import InputError, UnknownNameError
from kinetree.kernels.riccati import riccati
from kinetree.model.model import Model
from kinetree.runtime import arguments
from kinetree.runtime.function import compiled
from kinetree.runtime.matrix_products import times
from kinetree.spatial.value import Array


@dataclass(frozen=True)
class Tracker:
    """A controller along a trajectory of T steps. Created by `control.track`.

    Attributes:
        robot: The robot.
        q: Configurations to follow, (T + 1, nq).
        v: Joint velocities, (T + 1, nv).
        tau: Feedforward forces, (T, nv); zero where there is no motor, as all commands are.
        gains: K of each step, (T, nv, 2 nv); zero rows for joints without a motor.
        cost: Matrix of the cost to go at the start, (2 nv, 2 nv).
        dt: Length of a step [s].
    """

    robot: Model
    q: Array
    v: Array
    tau: Array
    gains: Array
    cost: Array
    dt: float

    def __call__(self, step: int, q: Any, v: Any) -> Array:
        """Joint forces at a step, (…, nv); after the last one those of the last.

        Args:
            step: Number of the time step, from 0.
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
        """
        if isinstance(step, bool) or not hasattr(step, "__index__") or step < 0:
            raise InputError(f"track: a step is an integer from 0 on; got {step!r}")
        k = min(int(step), len(self.tau) - 1)
        away = self.robot.difference(self.q[k], q)
        v = arguments.numbers("track", "v", v)
        arguments.require_shape("track: v", v.shape, (self.robot.nv,))
        slip = v - self.v[k]
        x = np.concatenate(np.broadcast_arrays(away, slip), axis=-1)
        forces: Array = self.tau[k] - times(self.gains[k], x)
        return forces


def track(
    robot: Model,
    q: Any,
    v: Any,
    tau: Any = None,
    *,
    dt: float,
    Q: Any = 1.0,
    R: Any = 0.01,
    end: Any = None,
    driven: Iterable[str] | None = None,
    method: str = "semi_implicit_euler",
) -> Tracker:
    """Feedforward and gains that keep a robot on a trajectory.

    Args:
        robot: The robot.
        q: Configurations to follow, (T + 1, nq), `dt` apart.
        v: Joint velocities, (T + 1, nv).
        tau: Joint forces of each step, (T, nv), of which those of motors count. By default those that inverse dynamics
            finds for the change of v.
        dt: Length of a step [s].
        Q: Weights of deviations [q; v]: a number, (2 nv,), or a matrix.
        R: Weights of changes of joint forces: a number, or (nv,) [1/N² or 1/(N m)²], positive.
        end: Weights of the last deviations; those of Q by default.
        driven: Names of the joints that have a motor; by default all but those of free and flexible bodies.
        method: The integrator, as for `robot.step`.

    Raises:
        InputError: If shapes do not fit, or weights make no least cost.
    """
    n = robot.nv
    q, v = (arguments.numbers("track", name, each) for name, each in (("q", q), ("v", v)))
    if q.ndim != 2 or len(q) < 2 or q.shape[1] != robot.nq or v.shape != (len(q), n):
        raise InputError(
            f"track: q is (T + 1, {robot.nq}) and v (T + 1, {n}) with T of 1 or more; got {q.shape}, {v.shape}"
        )
    dt = arguments.number("track: dt", dt, what="a time [s]", above=0.0)
    steps = len(q) - 1
    given = robot.inverse_dynamics(q[:-1], v[:-1], np.diff(v, axis=0) / dt) if tau is None else tau
    forces = arguments.numbers("track", "tau", given)
    if forces.shape != (steps, n):
        raise InputError(f"track: tau is (T, {n}) = {(steps, n)}; got {forces.shape}")
    columns = _driven(robot, driven)
    forces = np.where(np.isin(np.arange(n), columns), forces, 0.0)
    A, B = robot.discretize(q[:-1], v[:-1], forces, dt, method)
    state, last = _weights("Q", Q, 2 * n), _weights("end", Q if end is None else end, 2 * n)
    R = arguments.numbers("track", "R", R)
    if R.shape not in ((), (n,)):
        raise InputError(f"track: R is a number or ({n},); got shape {R.shape}")
    effort = np.broadcast_to(R, (n,))[columns]
    sweep = compiled(riccati, T=steps, nx=2 * n, nu=len(columns))
    each = {
        "Q": np.broadcast_to(state, (steps, 2 * n, 2 * n)),
        "R": np.broadcast_to(np.diag(effort), (steps, *2 * (len(columns),))),
    }
    K, P, pivot = sweep(A, B[..., columns], each["Q"], each["R"], np.zeros((steps, len(columns), 2 * n)), last)
    if not pivot > 0.0:
        raise InputError("track: weights make no least cost; R must be positive, and Q and end not negative")
    gains = np.zeros((steps, n, 2 * n))
    gains[:, columns] = K
    return Tracker(robot, q, v, forces, gains, P, dt)


def _driven(robot: Model, driven: Iterable[str] | None) -> list[int]:
    known = {joint.name: joint for joint in robot.joints}
    if driven is None:
        driven = [joint.name for joint in robot.joints if joint.has_motor]
    columns: list[int] = []
    for name in [driven] if isinstance(driven, str) else driven:
        if name not in known:
            raise UnknownNameError("joint", name, tuple(known))
        columns += range(known[name].v_start, known[name].v_start + known[name].nv)
    if not columns:
        raise InputError("track: no joint has a motor, so nothing can be controlled; name those that have in driven=")
    return sorted(columns)


def _weights(name: str, given: Any, size: int) -> Array:
    weights = arguments.numbers("track", name, given)
    if weights.ndim < 2:
        try:
            return np.diag(np.broadcast_to(weights, (size,)))
        except ValueError:
            pass
    if weights.shape != (size, size):
        raise InputError(f"track: {name} is a number, ({size},) or ({size}, {size}); got shape {weights.shape}")
    return weights
