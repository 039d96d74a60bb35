"""Constraints in compiled steps: accelerations and projections as sequences of recursions.

They are those of `kinetree.model.constraints`, call by call, with the same bits. Rows of tasks that come to depend on
each other need eigenvalues, which the law does not record: in each sample its doubts are counted, and the caller
computes it again. Rows of other kinds, and rows that depend on each other from the start, always take eigenvalues.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from kinetree.algorithms.forward_dynamics import forward_dynamics
from kinetree.algorithms.manifold import integrate
from kinetree.engines.kernel_function import compiled
from kinetree.engines.native.sequence import Place, Sequence
from kinetree.kernels.solve import count_doubt
from kinetree.model.constraints import Constraints
from kinetree.simulation.plant import Plant


class Held(Protocol):
    """Constraints, recorded in a sequence.

    Attributes:
        force: λ of the last accelerations.
        doubts: How often the law had doubts so far.
    """

    force: Place
    doubts: Place

    def accelerations(self, q: Place, v: Place, free: Place) -> Place:
        """Accelerations with constraints, from those without."""

    def project(self, q: Place, v: Place) -> tuple[Place, Place]:
        """The nearest state that keeps the constraints."""


def held(sequence: Sequence, plant: Plant, constraints: Constraints) -> Held:
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

    def __init__(self, sequence: Sequence, constraints: Constraints) -> None:
        self._sequence, self._solver = sequence, constraints.solver
        self._neutral = np.zeros(constraints.rows), np.zeros((constraints.rows, 2))
        self.force = sequence.space(constraints.rows)
        self.doubts = sequence.constant(0.0)

    def accelerations(self, q: Place, v: Place, free: Place) -> Place:
        """See `Held`."""
        into = None, self.force
        found: Place = self._sequence.call(self._solver.accelerations, q, v, free, *self._neutral, into=into)[0]
        return found

    def project(self, q: Place, v: Place) -> tuple[Place, Place]:
        """See `Held`."""
        q = self._sequence.call(self._solver.configuration, q)
        return q, self._sequence.call(self._solver.velocity, q, v)


class HeldTasks:
    """Constraints that a law solves. See `Held`."""

    def __init__(self, sequence: Sequence, plant: Plant, constraints: Constraints) -> None:
        self._sequence, self._plant = sequence, plant
        self._law, self._constants = constraints.law, (constraints.targets, np.zeros((constraints.rows, 2)))
        self._still = np.zeros(plant.robot.nv)
        self.force = sequence.space(constraints.rows)
        self.doubts = sequence.variable(sequence.constant(0.0))

    def accelerations(self, q: Place, v: Place, free: Place) -> Place:
        """See `Held`."""
        tau, force = self._solved(q, v, free, self._constants[1])
        self._sequence.copy(force, self.force)
        return self._moved(q, v, tau)

    def project(self, q: Place, v: Place) -> tuple[Place, Place]:
        """See `Held`."""
        stiff = np.tile([1.0, 0.0], (len(self._constants[1]), 1))
        tau, _ = self._solved(q, self._still, self._still, stiff)
        step = self._moved(q, self._still, tau)
        q = self._sequence.call(self._plant.recursion(integrate), q, step, 1.0)
        tau, _ = self._solved(q, self._still, v, self._constants[1])
        return q, self._moved(q, self._still, tau)

    def _solved(self, q: Place, v: Any, a0: Any, gains: Any) -> tuple[Place, Place]:
        call = self._sequence.call
        kernel = self._law.kernel()
        tau, force, _, spread = call(kernel, q, v, a0, *self._constants, gains, *self._law.weights)
        doubts = call(compiled(count_doubt), spread, self.doubts)
        self._sequence.copy(doubts, self.doubts)
        return tau, force

    def _moved(self, q: Place, v: Any, tau: Place) -> Place:
        found: Place = self._sequence.call(self._plant.recursion(forward_dynamics), q, v, tau)
        return found
