"""A robot with all that calls of its functions need, and pools of states to call them with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import kinetree as kt
from benchmarks import robots
from benchmarks.robots import Array
from kinetree.control import DifferentialIK, Goal, OperationalSpace, Posture
from kinetree.simulation import Simulator

STEP = 1e-3


@dataclass(frozen=True)
class Scene:
    """What calls are made of.

    Attributes:
        name: For tables.
        model: The robot.
        twin: The same robot with its counterparts in other libraries, if there are any.
    """

    name: str
    model: kt.Model
    twin: robots.Robot | None

    @cached_property
    def frame(self) -> str:
        """The frame of functions of one frame: the last, at a tip."""
        return self.model.frames[-1]

    @cached_property
    def wrench(self) -> dict[str, Array]:
        """A wrench on that frame."""
        return {self.frame: np.array([0.1, -0.2, 0.3, 1.0, 2.0, -3.0])}

    @cached_property
    def tasks(self) -> kt.tasks.Tasks:
        """The tasks of functions of tasks: that frame."""
        return self.model.tasks([self.frame])

    @cached_property
    def operators(self) -> Any:
        """Spatial operators at one configuration."""
        return self.model.operators(self.states("q", 1)[0][0])

    @cached_property
    def constraints(self) -> Any:
        """A weld of that frame to the world."""
        return self.model.constraints([kt.Weld(self.frame)], at=self._held)

    @property
    def _held(self) -> Array:
        """The configuration whose poses constraints hold."""
        held: Array = self.states("q", 1)[0][0]
        return held

    @cached_property
    def controller(self) -> OperationalSpace:
        """Operational-space control of that frame."""
        goals, posture = [Goal(self.frame, 100.0, 20.0)], Posture(self.model.neutral(), 10.0, 5.0)
        return OperationalSpace(self.model, goals, posture=posture, undriven=[])

    @cached_property
    def velocities(self) -> DifferentialIK:
        """Differential inverse kinematics of that frame."""
        return DifferentialIK(self.model, [Goal(self.frame)])

    @cached_property
    def simulator(self) -> Simulator:
        """The robot alone in the world."""
        return Simulator(self.model, dt=STEP)

    @cached_property
    def _pools(self) -> dict[tuple[int, int], tuple[Array, Array, Array]]:
        return {}

    def _drawn(self, count: int, seed: int) -> tuple[Array, Array, Array]:
        """Random states, drawn once: loops take long to close."""
        if (count, seed) not in self._pools:
            self._pools[count, seed] = robots.state_pool(self.model, count, seed)
        return self._pools[count, seed]

    def states(self, letters: str, count: int) -> tuple[Array, ...]:
        """Arrays with a leading axis.

        Args:
            letters: q, p: configurations; v, a, w, x: velocities and the like; f: forces of all joints;
                t: poses of the frame near those at q; n: configurations near that of the constraints.
            count: How many of each.
        """
        (q, v, a), (p, w, x) = (self._drawn(count, seed) for seed in (0, 1))
        made: dict[str, Array] = {"q": q, "v": v, "a": a, "p": p, "w": w, "x": x}
        if "f" in letters:
            made["f"] = np.random.default_rng(2).uniform(-1.0, 1.0, (count, self.model.spanning_tree.nv))
        if "t" in letters:
            made["t"] = self.model.pose(self.model.integrate(q, 0.05 * v), [self.frame])
        if "n" in letters:
            made["n"] = self.model.integrate(self._held, 0.01 * v)
        return tuple(made[letter] for letter in letters)

    def samples(self, letters: str, count: int) -> list[tuple[Array, ...]]:
        """The same states one by one, each array on its own."""
        if not letters:
            return [()] * count
        return [tuple(map(np.array, sample)) for sample in zip(*self.states(letters, count))]
