"""Direct-current motors with gears as parts of a robot: voltages move it, not torques.

A motor with torque constant k, resistance R, inductance L and rotor inertia J behind a gear of ratio N, at a joint with
velocity v, has the current i and gives the joint force τ:

    L di/dt = u − R i − k N v        τ = N k i − N² J v̇ − N² b v − N c sign v                                      (1)

with viscous friction b and dry friction c of its shaft. Rotor and friction are properties of the joint: armature N²J,
damping N²b, friction Nc. During a step dt at constant velocity, currents are exact: with x = R dt/L,

    mean of i = g i_∞ + (1 − g) i        g = 1 − (1 − e⁻ˣ)/x        i_∞ = (u − k N v)/R                              (2)

so that the part of τ that depends on v, the back EMF, is damping g (kN)²/R, which steps treat implicitly like other
damping: they are stable however small the inductance. Without inductance, g = 1, and there is no state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError, UnknownNameError
from kinetree.model.model import Model
from kinetree.runtime import arguments
from kinetree.simulation.simulator import Simulator
from kinetree.spatial.value import Array


@dataclass(frozen=True)
class Motor:
    """A direct-current motor with a gear, or one phase-equivalent of a brushless one.

    Attributes:
        torque_constant: k [N m/A], which is that of the back EMF [V s/rad], too.
        resistance: R [Ω].
        inductance: L [H].
        gear: N, turns of the shaft for one of the joint [1, or rad/m for a joint that slides].
        rotor_inertia: J, of the shaft [kg m²].
        viscous: b, friction of the shaft [N m s/rad].
        dry: c, dry friction of the shaft [N m].
        voltage: Largest voltage [V]; higher ones are cut off.
    """

    torque_constant: float
    resistance: float
    inductance: float = 0.0
    gear: float = 1.0
    rotor_inertia: float = 0.0
    viscous: float = 0.0
    dry: float = 0.0
    voltage: float = np.inf

    def __post_init__(self) -> None:
        for one in fields(self):
            value, positive = getattr(self, one.name), one.name in ("torque_constant", "resistance", "gear", "voltage")
            if not isinstance(value, (int, float)) or not (value > 0.0 if positive else value >= 0.0):
                what = "positive" if positive else "zero or positive"
                raise InputError(f"Motor: {one.name} is a {what} number; got {value!r}")
            if np.isinf(value) and one.name != "voltage":
                raise InputError(f"Motor: {one.name} is infinite")


class MotorState(NamedTuple):
    """The state of a robot with motors.

    Attributes:
        q: Configuration, (…, nq).
        v: Joint velocities, (…, nv).
        i: Currents, (…, nv) [A]; zero at joints without a motor.
    """

    q: Array
    v: Array
    i: Array


class MotorRollout(NamedTuple):
    """A motion: `q`, `v` and currents `i`, (…, T + 1, n) each, and joint forces `tau` of the motors, (…, T, nv)."""

    q: Array
    v: Array
    i: Array
    tau: Array


class Motors:
    """A robot whose joints are driven by motors.

    Args:
        robot: The robot, without rotors.
        motors: The motor of each joint, by the joint's name, or one for all but free and flexible
            bodies; joints without one are free.
        dt: Time step [s].
        **options: As of `Simulator`, with `method="semi_implicit_euler"`.

    Attributes:
        robot: The robot with the rotors as armature, and with the motors' friction.
        simulator: The simulator of its steps, in which back EMF is damping.

    Raises:
        UnknownNameError: No such joint.
        InputError: A joint with several degrees of freedom, or none.
    """

    def __init__(self, robot: Model, motors: Motor | Mapping[str, Motor], *, dt: float = 1e-3, **options: Any) -> None:
        joints = {joint.name: joint for joint in robot.joints}
        driven = [name for name, joint in joints.items() if joint.nv == 1 and joint.has_motor]
        given = motors if isinstance(motors, Mapping) else dict.fromkeys(driven, motors)
        numbers = {field.name: np.zeros(robot.nv) for field in fields(Motor)}
        numbers["resistance"] += 1.0
        for name, motor in given.items():
            if name not in joints:
                raise UnknownNameError("moving joint", name, tuple(joints))
            if joints[name].nv != 1 or not isinstance(motor, Motor):
                problem = "has one degree of freedom" if joints[name].nv != 1 else f"takes a Motor, got {motor!r}"
                raise InputError(f"Motors: a joint with a motor {problem}; {name!r} has {joints[name].nv}")
            for what, values in numbers.items():
                values[joints[name].v_slice] = getattr(motor, what)
        N, self._k, self._R = numbers["gear"], numbers["torque_constant"], numbers["resistance"]
        self._voltage, self._L, self._force = numbers["voltage"], numbers["inductance"], N * self._k
        self.robot = (
            robot.with_armature(robot.armature + N * N * numbers["rotor_inertia"])
            .with_damping(robot.damping + N * N * numbers["viscous"])
            .with_friction(robot.friction + N * numbers["dry"])
        )
        self.dt = dt = arguments.number("dt", dt, what="a positive time step [s]", above=0.0)
        x = np.divide(self._R * dt, self._L, out=np.full(robot.nv, np.inf), where=self._L > 0.0)
        self._left = np.exp(-x)  # of a current, after a step
        with np.errstate(invalid="ignore"):
            self._share = np.where(np.isinf(x), 1.0, 1.0 + np.expm1(-x) / np.where(np.isinf(x), 1.0, x))  # g of (2)
        damping = self.robot.damping + self._share * self._force**2 / self._R
        steps: dict[str, Any] = {"method": "semi_implicit_euler", "friction": bool(self.robot.friction.any())}
        self.simulator = Simulator(self.robot.with_damping(damping), dt=dt, damping=True, **(steps | options))

    def __repr__(self) -> str:
        return f"<{int((self._force > 0.0).sum())} motors of {self.robot.name}>"

    def forces(self, i: Any) -> Array:
        """Joint forces of currents, N k i, without rotors and friction, (…, nv)."""
        return np.asarray(i) * self._force

    def voltages(self, tau: Any, v: Any) -> Array:
        """Voltages at which currents that give these joint forces are steady, (…, nv): feedforward for drives."""
        currents = np.divide(tau, self._force, out=np.zeros(np.shape(tau)), where=self._force > 0.0)
        voltages: Array = currents * self._R + self._force * np.asarray(v)
        return voltages

    def force_limits(self, v: Any) -> tuple[Array, Array]:
        """The lowest and highest steady joint forces at velocities within the voltages, (…, nv) each: speed curves."""
        back, high = self._force * np.asarray(v), self._voltage
        with np.errstate(invalid="ignore"):
            low, top = ((self._force * (s * high - back)) / self._R for s in (-1.0, 1.0))
        driven = self._force > 0.0
        return np.where(driven, low, 0.0), np.where(driven, top, 0.0)

    def step(self, q: Any, v: Any, i: Any, u: Any, tau: Any = 0.0) -> MotorState:
        """The state after a time step under voltages u, (…, nv), and further joint forces."""
        return self._step(q, v, i, u, tau)[0]

    def _step(self, q: Any, v: Any, i: Any, u: Any, tau: Any) -> tuple[MotorState, Array]:
        q, v, i, u = (np.asarray(x, dtype=np.float64) for x in (q, v, i, u))
        u = np.clip(u, -self._voltage, self._voltage)
        shared = self._share * (u / self._R) + (1.0 - self._share) * i  # (2), without the part of v
        q_after, v_after, _ = self.simulator.step(q, v, self._force * shared + tau)
        steady = (u - self._force * v_after) / self._R
        motor = self._force * (shared - self._share * self._force * v_after / self._R)
        i_after = np.where(self._force > 0.0, steady + self._left * (i - steady), 0.0)
        return MotorState(q_after, v_after, i_after), motor

    def rollout(self, q: Any, v: Any, i: Any, u: Any, tau: Any = 0.0) -> MotorRollout:
        """The motion under voltages (…, T, nv)."""
        u = np.asarray(u, dtype=np.float64)
        nv = self.robot.nv
        if u.ndim < 2 or u.shape[-1] != nv:
            raise InputError(f"rollout: u has shape {u.shape}; it takes (…, T, {nv})")
        q, v, i = (np.asarray(x, dtype=np.float64) for x in (q, v, i))
        batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], i.shape[:-1], u.shape[:-2])
        states = [np.empty((*batch, u.shape[-2] + 1, size)) for size in (self.robot.nq, nv, nv)]
        forces = np.empty((*batch, u.shape[-2], nv))
        state = MotorState(*(np.broadcast_to(x, (*batch, x.shape[-1])) for x in (q, v, i)))
        for k in range(u.shape[-2] + 1):
            for whole, part in zip(states, state, strict=True):
                whole[..., k, :] = part
            if k < u.shape[-2]:
                state, forces[..., k, :] = self._step(*state, u[..., k, :], tau)
        return MotorRollout(states[0], states[1], states[2], forces)
