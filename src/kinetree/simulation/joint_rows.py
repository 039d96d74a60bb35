"""Dry friction and stops of a robot's joints in simulations: see `kinetree.kernels.joint_rows`."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np

from kinetree.algorithms.joint_bounds import joint_bounds
from kinetree.algorithms.mass_matrix_inverse import mass_matrix_inverse
from kinetree.engines.kernel_function import KernelFunction, compiled
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.kernels import bind
from kinetree.engines.native.sequence import Place, Sequence
from kinetree.errors import InputError, ModelWarning
from kinetree.kernels.joint_rows import joint_residual, joint_start, joint_sweep
from kinetree.kernels.language import Kernel
from kinetree.model.model import Model
from kinetree.recursion.algorithm import Algorithm, with_constants
from kinetree.simulation.results import Impulses
from kinetree.spatial.value import Array


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

    def record(self, sequence: Sequence, q: Place, v: Place, start: Place) -> Impulses:
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


def joined(sequence: Sequence, parts: list[Place]) -> Place:
    """Places one after another."""
    whole, start = sequence.space(sum(part.size for part in parts)), 0
    for part in parts:
        sequence.copy(part, whole.part(start, part.size))
        start += part.size
    return whole
