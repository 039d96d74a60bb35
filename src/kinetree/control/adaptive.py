"""Adaptive control of a robot whose inertial parameters are not known [SL87].

    v_r = v_d − λ e        s = v − v_r        τ = Y(q, v, v_r, v̇_r) θ̂ − K s        θ̂̇ = −Γ Yᵀ s

with e = q − q_d. For the true parameters θ, the function ½ sᵀM s + ½ (θ̂ − θ)ᵀ Γ⁻¹ (θ̂ − θ) decreases at the rate
sᵀK s, so that s and with it the error vanish, whatever θ is; θ̂ need not reach θ.

[SL87] J.-J. Slotine, W. Li, "On the adaptive control of robot manipulators", International Journal of Robotics Research
       6, 1987.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError, UnknownNameError
from kinetree.model.model import Model
from kinetree.runtime import arguments
from kinetree.runtime.matrix_products import times
from kinetree.spatial.value import Array


class AdaptiveCommand(NamedTuple):
    """What an adaptive controller commands.

    Attributes:
        tau: Joint forces, (…, nv).
        state: Estimates θ̂ for the next call, (…, m, 10).
        slip: s, (…, nv).
    """

    tau: Array
    state: Array
    slip: Array


class Adaptive:
    """Slotine and Li's controller. Frozen: estimates are passed from call to call as `state`.

    Args:
        robot: The robot, with a first guess of its parameters; its coordinates are plain numbers.
        bodies: Bodies whose parameters are adapted; all by default. Those of others count as known.
        stiffness: λ, a number or (nv,) [1/s].
        damping: K, a number or (nv,) [N m s/rad or N s/m].
        rate: Γ, a number or (m, 10).
    """

    def __init__(
        self,
        robot: Model,
        bodies: Iterable[str] | None = None,
        *,
        stiffness: Any = 5.0,
        damping: Any = 10.0,
        rate: Any = 0.1,
    ) -> None:
        if robot.nq != robot.nv or robot.clusters:
            raise InputError("Adaptive: the robot has joints whose coordinates are no plain numbers, or coupled joints")
        names = [body.name for body in robot.bodies]
        self.robot = robot
        self.bodies = tuple(names if bodies is None else [bodies] if isinstance(bodies, str) else bodies)
        for name in self.bodies:
            if name not in names:
                raise UnknownNameError("body", name, tuple(names))
        self._chosen = [names.index(name) for name in self.bodies]
        self._known = np.array([name not in self.bodies for name in names])
        self._all = tuple(names)
        self.stiffness, self.damping = (
            self._positive(name, given, (robot.nv,)) for name, given in (("stiffness", stiffness), ("damping", damping))
        )
        self.rate = self._positive("rate", rate, (len(self.bodies), 10))
        self._armature = np.concatenate([np.zeros(0), *(joint.armature for joint in robot.joints)])

    @staticmethod
    def _positive(name: str, given: Any, shape: tuple[int, ...]) -> Array:
        numbers = arguments.numbers("Adaptive", name, given)
        try:
            found: Array = np.broadcast_to(numbers, shape)
        except ValueError:
            raise InputError(f"Adaptive: {name} is a number or {shape}; got {numbers.shape}") from None
        if not (np.isfinite(found).all() and (found > 0.0).all()):
            raise InputError(f"Adaptive: {name} is positive; got {given!r}")
        return found

    def __call__(self, q: Any, v: Any, target: Any, *, state: Any = None, dt: float = 0.0) -> AdaptiveCommand:
        """The command for a state.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            target: q_d, v_d and a_d, (…, nv) each; or a mapping with one entry, such as `Simulator.run` passes.
            state: θ̂ of the last command; that of the robot by default.
            dt: Time since then [s], over which θ̂ is advanced with its present rate.
        """
        wanted = next(iter(target.values())) if isinstance(target, Mapping) else target
        try:
            q_d, v_d, a_d = (arguments.numbers("Adaptive", "target", each) for each in wanted)
        except (TypeError, ValueError):
            raise InputError("Adaptive: the target is a tuple of q_d, v_d and a_d") from None
        q, v = arguments.numbers("Adaptive", "q", q), arguments.numbers("Adaptive", "v", v)
        for name, each in (("q", q), ("v", v), ("q_d", q_d), ("v_d", v_d), ("a_d", a_d)):
            arguments.require_shape(f"Adaptive: {name}", each.shape, (self.robot.nv,))
        v_r = v_d - self.stiffness * (q - q_d)
        a_r = a_d - self.stiffness * (v - v_d)
        s = v - v_r
        theta = (
            self.robot.inertial_parameters[self._chosen]
            if state is None
            else arguments.numbers("Adaptive", "state", state)
        )
        arguments.require_shape("Adaptive: state", theta.shape, (len(self._chosen), 10))
        Y = self.robot.tracking_regressor(q, v, v_r, a_r, list(self._all))
        own = Y[..., self._chosen, :]
        shape = own.shape[:-3]
        flat = own.reshape(*shape, self.robot.nv, -1)
        gradient = times(np.swapaxes(flat, -1, -2), np.broadcast_to(s, (*shape, self.robot.nv)))
        theta = theta - dt * self.rate * gradient.reshape(*shape, len(self._chosen), 10)
        known = Y[..., self._known, :].reshape(*shape, self.robot.nv, -1)
        rest = self.robot.inertial_parameters[self._known].reshape(-1)
        tau = times(flat, theta.reshape(*theta.shape[:-2], -1)) + self._armature * a_r - self.damping * s
        if rest.size:
            tau = tau + times(known, rest)
        return AdaptiveCommand(tau, theta, s)

    def rates(self, q: Any, v: Any, target: Any) -> Array:
        """θ̂̇ at a state, (…, m, 10)."""
        theta = self.robot.inertial_parameters[self._chosen]
        moved: Array = self(q, v, target, state=theta, dt=1.0).state - theta
        return moved
