"""Laws of mechanics that the functions of any robot must obey."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from kinetree.cli.check import SLACK, Check, forward_against_inverse
from kinetree.errors import SingularMechanismError
from kinetree.model.model import Model
from kinetree.model.singularity import require_invertible
from kinetree.spatial.value import Array

_EPS = float(np.finfo(np.float64).eps)

# Step of central differences [s], and their truncation error.
_STEP, _DIFFERENCE = 1e-5, 1e-6


@dataclass(frozen=True, eq=False)
class States:
    """Random states of a robot: q, (batch, nq); v and a, (batch, nv), where a doubles as joint forces."""

    robot: Model
    q: Array
    v: Array
    a: Array

    @classmethod
    def random(cls, robot: Model, seed: int, count: int) -> States:
        """States drawn within the limits.

        Args:
            robot: The mechanism.
            seed: Seed of the random numbers.
            count: Number of states.
        """
        rng = np.random.default_rng(seed)
        v, a = rng.uniform(-1.0, 1.0, (2, count, robot.nv))
        return cls(robot, robot.random_configuration(rng, count), v, a)

    def parts(self, most: int) -> Iterator[States]:
        """The same states in chunks of at most `most`."""
        for start in range(0, len(self.q), most):
            chosen = slice(start, start + most)
            yield States(self.robot, self.q[chosen], self.v[chosen], self.a[chosen])

    @property
    def rounding(self) -> float:
        """Relative rounding error of results that do not involve M⁻¹."""
        return SLACK * max(self.robot.nv, 6) * _EPS


def _positive_definite(s: States) -> Check:
    require_invertible(s.robot.mechanism)
    values = np.linalg.eigvalsh(s.robot.mass_matrix(s.q))
    return Check(float(np.max(-values[:, 0] / values[:, -1])), s.rounding)


def _equation_of_motion(s: States) -> Check:
    M, h = s.robot.mass_matrix(s.q), s.robot.bias_forces(s.q, s.v)
    return _compare(_times(M, s.a) + h, s.robot.inverse_dynamics(s.q, s.v, s.a), s.rounding)


def _kinetic_energy(s: States) -> Check:
    kinetic, _ = s.robot.energy(s.q, s.v)
    return _compare(0.5 * np.sum(s.v * _times(s.robot.mass_matrix(s.q), s.v), axis=-1), kinetic, s.rounding)


def _coriolis(s: States) -> Check:
    h, g = s.robot.bias_forces(s.q, s.v), s.robot.gravity_forces(s.q)
    return _compare(_times(s.robot.coriolis_matrix(s.q, s.v), s.v) + g, h, s.rounding)


def _power(s: States) -> Check:
    """The rate of change of energy equals the power of the joint forces; by central differences."""
    tau = s.robot.inverse_dynamics(s.q, s.v, s.a)

    def energy(dt: float) -> Array:
        there = s.robot.energy(s.robot.integrate(s.q, s.v + 0.5 * dt * s.a, dt), s.v + dt * s.a)
        return there.kinetic + there.potential

    ahead, behind = energy(_STEP), energy(-_STEP)
    scale = np.abs(ahead).max() / _STEP * _EPS  # error due to cancellation
    return _compare((ahead - behind) / (2.0 * _STEP), np.sum(tau * s.v, axis=-1), _DIFFERENCE + 10.0 * scale)


def _inverse(s: States) -> Check:
    M, W = s.robot.mass_matrix(s.q), s.robot.mass_matrix_inverse(s.q)
    return Check(float(np.max(np.abs(M @ W - np.eye(s.robot.nv)))), s.rounding * float(np.max(np.linalg.cond(M))))


def _solve(s: States) -> Check:
    M = s.robot.mass_matrix(s.q)
    x = s.robot.mass_matrix_solve(s.q, s.a)
    return _compare(_times(M, x), s.a, s.rounding * float(np.max(np.linalg.cond(M))))


def _twist(s: States) -> Check:
    frame = s.robot.frames[-1]
    return _compare(_times(s.robot.jacobian(s.q, frame), s.v), s.robot.velocity(s.q, s.v, frame), s.rounding)


def _forward(s: States) -> Check:
    return forward_against_inverse(s.robot, s.q, s.v, s.a)


#: All laws. Errors are relative to the largest entry, or absolute if that is below one.
LAWS: dict[str, Callable[[States], Check]] = {
    "M is positive definite: −λmin/λmax": _positive_definite,
    "M a + h = inverse dynamics": _equation_of_motion,
    "½ vᵀM v = kinetic energy": _kinetic_energy,
    "C v + g = bias forces": _coriolis,
    "rate of energy = power of joint forces": _power,
    "J v = twist of the last frame": _twist,
    "M M⁻¹ = 1": _inverse,
    "M (M⁻¹ x) = x": _solve,
    "inverse undoes forward dynamics": _forward,
}


def obeyed(states: States, law: str) -> Check | str:
    """The result of checking a law, or why it does not apply to this robot."""
    try:
        return LAWS[law](states)
    except SingularMechanismError as error:
        return str(error)
    except np.linalg.LinAlgError:  # a matrix has non-finite entries
        return Check(float("nan"), states.rounding)


def _times(matrix: Array, vector: Array) -> Array:
    product: Array = np.einsum("...ij,...j->...i", matrix, vector)
    return product


def _compare(actual: Array, expected: Array, tolerance: float) -> Check:
    """Largest difference, relative to the largest entry or to one."""
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    return Check(float(np.max(np.abs(actual - expected), initial=0.0)) / scale, tolerance)
