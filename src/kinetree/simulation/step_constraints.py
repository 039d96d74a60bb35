"""Constraints in compiled steps: accelerations and projections as sequences of recursions.

They are those of `kinetree.model.constraints`, call by call, with the same bits. Rows of tasks that come to depend on
each other need eigenvalues, which the law does not record: in each sample its doubts are counted, and the caller
computes it again. Rows of other kinds, and rows that depend on each other from the start, always take eigenvalues.

Dry friction and stops of a robot's joints in simulations: see `kinetree.kernels.joint_rows`.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Protocol

import numpy as np

from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix_inverse
from kinetree.algorithms.kinematics.manifold import integrate, joint_bounds
from kinetree.errors import InputError, ModelWarning
from kinetree.kernels.joint_rows import joint_residual, joint_start, joint_sweep
from kinetree.kernels.language import Kernel
from kinetree.kernels.solve import count_doubt
from kinetree.language.algorithm import Algorithm, with_constants
from kinetree.model.constraints import Constraints
from kinetree.model.model import Model
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import KernelFunction, compiled
from kinetree.runtime.kernels import bind
from kinetree.runtime.sequence import KernelSequence, MemorySpan
from kinetree.simulation.plant import Plant
from kinetree.simulation.step_results import Impulses
from kinetree.spatial.value import Array


class Held(Protocol):
    """Constraints, recorded in a sequence.

    Attributes:
        force: λ of the last accelerations.
        doubts: How often the law had doubts so far.
    """

    force: MemorySpan
    doubts: MemorySpan

    def accelerations(self, q: MemorySpan, v: MemorySpan, free: MemorySpan) -> MemorySpan:
        """Accelerations with constraints, from those without."""

    def project(self, q: MemorySpan, v: MemorySpan) -> tuple[MemorySpan, MemorySpan]:
        """The nearest state that keeps the constraints."""


def held(sequence: KernelSequence, plant: Plant, constraints: Constraints) -> Held:
    """Constraints, recorded in a sequence.

    Args:
        sequence: Where.
        plant: The robot.
        constraints: Its constraints.
    """
    return HeldTasks(sequence, plant, constraints) if constraints.regular else HeldRows(sequence, constraints)


def recordable(constraints: Constraints) -> bool:
    """Whether steps with the constraints can be recorded: laws only on a robot of rigid bodies."""
    return not constraints.regular or constraints.robot.mechanism.first_general is None


class HeldRows:
    """Constraints of any kind. See `Held`."""

    def __init__(self, sequence: KernelSequence, constraints: Constraints) -> None:
        self._sequence, self._solver = sequence, constraints.solver
        self._neutral = np.zeros(constraints.rows), np.zeros((constraints.rows, 2))
        self.force = sequence.space(constraints.rows)
        self.doubts = sequence.constant(0.0)

    def accelerations(self, q: MemorySpan, v: MemorySpan, free: MemorySpan) -> MemorySpan:
        """See `Held`."""
        into = None, self.force
        found: MemorySpan = self._sequence.call(self._solver.accelerations, q, v, free, *self._neutral, into=into)[0]
        return found

    def project(self, q: MemorySpan, v: MemorySpan) -> tuple[MemorySpan, MemorySpan]:
        """See `Held`."""
        q = self._sequence.call(self._solver.configuration, q)
        return q, self._sequence.call(self._solver.velocity, q, v)


class HeldTasks:
    """Constraints that a law solves. See `Held`."""

    def __init__(self, sequence: KernelSequence, plant: Plant, constraints: Constraints) -> None:
        self._sequence, self._plant = sequence, plant
        self._law, self._constants = constraints.law, (constraints.targets, np.zeros((constraints.rows, 2)))
        self._still = np.zeros(plant.robot.nv)
        self.force = sequence.space(constraints.rows)
        self.doubts = sequence.variable(sequence.constant(0.0))

    def accelerations(self, q: MemorySpan, v: MemorySpan, free: MemorySpan) -> MemorySpan:
        """See `Held`."""
        tau, force = self._solved(q, v, free, self._constants[1])
        self._sequence.copy(force, self.force)
        return self._moved(q, v, tau)

    def project(self, q: MemorySpan, v: MemorySpan) -> tuple[MemorySpan, MemorySpan]:
        """See `Held`."""
        stiff = np.tile([1.0, 0.0], (len(self._constants[1]), 1))
        tau, _ = self._solved(q, self._still, self._still, stiff)
        step = self._moved(q, self._still, tau)
        q = self._sequence.call(self._plant.recursion(integrate), q, step, 1.0)
        tau, _ = self._solved(q, self._still, v, self._constants[1])
        return q, self._moved(q, self._still, tau)

    def _solved(self, q: MemorySpan, v: Any, a0: Any, gains: Any) -> tuple[MemorySpan, MemorySpan]:
        call = self._sequence.call
        kernel = self._law.kernel()
        tau, force, _, spread = call(kernel, q, v, a0, *self._constants, gains, *self._law.weights)
        doubts = call(compiled(count_doubt), spread, self.doubts)
        self._sequence.copy(doubts, self.doubts)
        return tau, force

    def _moved(self, q: MemorySpan, v: Any, tau: MemorySpan) -> MemorySpan:
        found: MemorySpan = self._sequence.call(self._plant.recursion(forward_dynamics), q, v, tau)
        return found


class JointRows:
    """Impulses of dry friction and stops.

    Args:
        robot: The robot.
        dt: Time step [s].
        friction: Dry friction of each degree of freedom, (nv,) [N m or N].
        limits: Whether joints stop at their limits.
        sweeps: Number of Gauss–Seidel sweeps.
        varied: Whether the robot is a population, whose constants are those of the sequence.

    Attributes:
        size: Number of impulses: of friction, then of stops.
        fields: The results of a single step, besides velocities.
        shapes: Their shapes.
        is_compiled: Always.
    """

    fields: ClassVar[tuple[str, ...]] = ("residual", "impulses")
    is_compiled: ClassVar[bool] = True

    def __init__(self, robot: Model, dt: float, friction: Array, limits: bool, sweeps: int, varied: bool) -> None:
        self._robot, self._dt, self._sweeps, self._varied = robot, dt, sweeps, varied
        self.dry, self._origin = dt * friction, robot.neutral()
        self._lower, self._upper = np.full(robot.nv, -np.inf), np.full(robot.nv, np.inf)
        if limits:
            self._set_stops(robot)
        self.size = 2 * robot.nv
        self.shapes = {"residual": (), "impulses": (self.size,)}
        self._recursions: dict[Algorithm, Compiled] = {}

    def _set_stops(self, robot: Model) -> None:
        """Take the limits of joints, refuse robots without, and warn of limits that no velocity obeys."""
        left = []
        for joint in robot.joints:
            lower, upper = joint.limits.lower, joint.limits.upper
            if joint.nv == joint.type.nv:
                self._lower[joint.v_slice], self._upper[joint.v_slice] = lower, upper
            elif np.isfinite([lower, upper]).any():
                left.append(joint.name)
        if not np.isfinite([self._lower, self._upper]).any():
            raise InputError(
                f"Simulator(limits=True) stops nothing: no joint of {robot.name!r} with a velocity of its own has a "
                "position limit; add limits with robot.with_limits, or leave limits out"
            )
        if left:
            names = ", ".join(map(repr, left))
            text = f"Simulator(limits=True) does not stop coupled joints of {robot.name!r}: {names}"
            warnings.warn(text, ModelWarning, stacklevel=4)

    def recursion(self, algorithm: Algorithm) -> Compiled:
        """A compiled recursion of the robot."""
        if algorithm not in self._recursions:
            self._recursions[algorithm] = bind(algorithm, self._robot.mechanism, (), "step")
        return self._recursions[algorithm]

    def kernel(self, kernel: Kernel) -> KernelFunction:
        """A kernel over the degrees of freedom."""
        return compiled(kernel, n=self._robot.nv)

    def bounds(self, call: Any, q: Any) -> Any:
        """The velocities between which joints stay within their stops; `call` is that of a sequence, or calls."""
        return call(self.recursion(joint_bounds), q, self._origin, self._lower, self._upper, self._dt)

    def mobility(self, call: Any, q: Any) -> Any:
        """M⁻¹."""
        return call(self.recursion(with_constants(mass_matrix_inverse) if self._varied else mass_matrix_inverse), q)

    def record(self, sequence: KernelSequence, q: MemorySpan, v: MemorySpan, start: MemorySpan) -> Impulses:
        """Record the impulses of a step without contacts.

        Args:
            sequence: Where.
            q: Configuration.
            v: Joint velocities without these impulses.
            start: Impulses that the sweeps start from.
        """
        nv = self._robot.nv
        Minv, bounds = self.mobility(sequence.call, q), self.bounds(sequence.call, q)
        friction, stop = start.part(0, nv), start.part(nv, nv)
        moved = sequence.call(self.kernel(joint_start), Minv, v, friction, stop)
        sweep = sequence.prepare(self.kernel(joint_sweep))
        inputs = (Minv, *bounds, sequence.constant(self.dry), moved, friction, stop)
        for source, place in zip(inputs, sweep.inputs, strict=True):
            sequence.copy(source, place)
        with sequence.loop(self._sweeps):
            results = sweep.run(*(None,) * len(inputs))
            for result, place in zip(results, sweep.inputs[4:], strict=True):
                sequence.copy(result, place)
        found = Minv, *bounds, inputs[3], v, *results
        _, residual = sequence.call(self.kernel(joint_residual), *found)
        return Impulses(results[0], residual=residual, impulses=joined(sequence, results[1:]))


def joined(sequence: KernelSequence, parts: list[MemorySpan]) -> MemorySpan:
    """Places one after another."""
    whole, start = sequence.space(sum(part.size for part in parts)), 0
    for part in parts:
        sequence.copy(part, whole.part(start, part.size))
        start += part.size
    return whole
