"""What a simulator integrates: a robot with springs and dampers in its joints.

Joint damping D and stiffness K are implicit in the velocity, so that any D and K is stable at any step size: with
τ′ = τ − D v − K (q ⊖ q₀) − dt K v, and armature + dt D + dt² K in place of the armature, forward dynamics solves

    (M + dt D + dt² K) a = τ′ − C − g                                                             (1)

in O(n). "rk4" and "implicit_midpoint" treat −D v − K (q ⊖ q₀) as ordinary forces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.algorithms.joint_springs import joint_springs
from kinetree.engines import arguments
from kinetree.engines.locks import Lock
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.kernels import bind
from kinetree.errors import InputError, UnsupportedError
from kinetree.model.integrators import IMPULSIVE, METHODS, Impulses, Run
from kinetree.model.model import Model
from kinetree.model.population import Population
from kinetree.recursion.algorithm import Algorithm, with_constants
from kinetree.recursion.mechanism import Site
from kinetree.spatial.value import Array

#: Accelerations for a configuration, velocities and joint forces.
Dynamics = Callable[[Any, Any, Any], Any]


class Plant:
    """A robot, a time step and an integrator. Damping and springs as for `Simulator`.

    Attributes:
        robot: The robot; with implicit damping and springs, its armature is that of (1).
        dt: Time step [s].
        method: The integrator.
        population: Variants of the robot, a sample each, if there are any.
    """

    def __init__(
        self,
        robot: Model,
        dt: float,
        method: str,
        damping: Any,
        stiffness: Any,
        rest: Any,
        population: Population | None = None,
    ) -> None:
        self.robot, self.dt, self.method = robot, dt, method
        self._damping = gains("damping", own_or_given(robot, "damping", damping), robot.nv)
        self._stiffness = gains("stiffness", np.zeros(robot.nv) if stiffness is None else stiffness, robot.nv)
        self._rest = robot.neutral() if rest is None else _vector("rest", rest, robot.nq)
        self._soft = bool(self._damping.any() or self._stiffness.any())
        self._implicit = method in IMPULSIVE
        if self._soft and self._implicit:
            added = dt * self._damping + dt**2 * self._stiffness
            free = [joint for joint in robot.joints if joint.nv == joint.type.nv]
            partial = [joint for joint in robot.joints if 0 < joint.nv < joint.type.nv and added[joint.v_slice].any()]
            if partial:
                raise UnsupportedError(
                    f"joint {partial[0].name!r} depends on others in part, so its dampers and springs take an explicit "
                    'method: "midpoint" or "rk4"'
                )
            self.robot = robot.with_armature({joint.name: joint.armature + added[joint.v_slice] for joint in free})
        self.population = None if population is None else population.of(self.robot)
        self._lock = Lock()
        self._recursions: dict[Any, Compiled] = {}

    def recursion(self, algorithm: Algorithm, sites: tuple[Site, ...] = (), dynamic: bool = False) -> Compiled:
        """A compiled recursion of the robot; a `dynamic` one of a population takes the constants last."""
        algorithm = with_constants(algorithm) if dynamic and self.population is not None else algorithm
        key = algorithm, sites
        with self._lock:
            if key not in self._recursions:
                if not self._recursions:
                    self.robot.forward_dynamics.require()
                    if self.population is not None:
                        self.population.require_invertible()
                self._recursions[key] = bind(algorithm, self.robot.mechanism, sites, "step")
            return self._recursions[key]

    def run(self, algorithm: Algorithm, *inputs: Any) -> Any:
        """Run a recursion on arrays."""
        return self.recursion(algorithm)(*inputs)

    def integrated(
        self, run: Run, dynamics: Dynamics, q: Any, v: Any, tau: Any, impulses: Impulses | None = None
    ) -> tuple[Any, Any]:
        """The state after a step, on arrays or recorded.

        Args:
            run: Runs a recursion.
            dynamics: The robot's forward dynamics.
            q: Configuration.
            v: Joint velocities.
            tau: Joint forces.
            impulses: Velocities after impulses at a configuration.
        """
        start = self.pushed(run, q, v, tau) if self._implicit else None

        def accelerations(q: Any, v: Any) -> Any:
            return dynamics(q, v, start if self._implicit else self.pushed(run, q, v, tau))

        if impulses is None:
            return METHODS[self.method](run, accelerations, q, v, self.dt)
        return IMPULSIVE[self.method](run, accelerations, q, v, self.dt, impulses)

    def pushed(self, run: Run, q: Any, v: Any, tau: Any) -> Any:
        """Joint forces together with those of dampers and springs."""
        if not self._soft:
            return tau
        ahead = self.dt if self._implicit else 0.0  # (1)
        return run(joint_springs, q, v, tau, self._damping, self._stiffness, self._rest, ahead)


def _vector(name: str, values: Any, size: int) -> Array:
    array = np.asarray(arguments.numbers("Simulator", name, values), dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise InputError(f"{name} takes {size} finite numbers, got shape {array.shape}")
    return array


def gains(name: str, values: Any, size: int) -> Array:
    """One number or `size` of them, none negative."""
    array = np.asarray(arguments.numbers("Simulator", name, values), dtype=np.float64)
    array = np.broadcast_to(array, (size,)) if array.shape == () else array
    if array.shape != (size,) or not np.isfinite(array).all() or (array < 0.0).any():
        raise InputError(f"{name} takes one number or {size} of them, none negative; got {values!r}")
    return np.array(array)


def own_or_given(robot: Model, what: str, given: Any) -> Any:
    """Damping or dry friction: the robot's own for True, none for False, else what is given."""
    if given is not True:
        return np.zeros(robot.nv) if given is False else given
    values = np.zeros(robot.nv)
    for joint in robot.joints:
        own = getattr(joint, what)
        if joint.nv == joint.type.nv:
            values[joint.v_slice] = own
        elif np.any(own):
            raise InputError(
                f"joint {joint.name!r} depends on others, so its own {what} cannot be simulated; set it to zero "
                f"with with_{what}, or give the {what} of each degree of freedom"
            )
    return values
