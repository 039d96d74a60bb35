"""Factors of the mass matrix as part of a recorded step, computed once for each configuration in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kinetree.algorithms.mass_factors import (
    factored_accelerations,
    factored_impulses,
    factored_twists,
    mass_factors,
)
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.sequence import Call, Place, Sequence
from kinetree.recursion.algorithm import Algorithm

#: Recursions that start from the results of `mass_factors`.
_SHARING = (factored_accelerations, factored_twists, factored_impulses)


class Factors(NamedTuple):
    """Factors of the mass matrix at a configuration, in the memory that calls read.

    Attributes:
        calls: Those of accelerations, twists and impulses, with the factors as their first input.
        place: Poses of the frames that may touch something.
        mobility: Their Λ⁻¹.
    """

    calls: list[Call]
    place: Place
    mobility: Place


class Factored:
    """What a step computes from factors of the mass matrix.

    Args:
        sequence: Where the step is recorded.
        recursion: Compiles a recursion for the robot and its frames; a dynamic one for a population.
    """

    def __init__(self, sequence: Sequence, recursion: Callable[[Algorithm, bool], Compiled]) -> None:
        self._sequence, self._recursion = sequence, recursion
        self._found: dict[Place, Factors] = {}

    def at(self, q: Place) -> Factors:
        """The factors at a configuration, whose place keeps its value until the end of the step."""
        if q not in self._found:
            calls = self._sequence.share(*(self._recursion(one, one is factored_accelerations) for one in _SHARING))
            into = calls[0].inputs[0], None, None
            _, *found = self._sequence.call(self._recursion(mass_factors, True), q, into=into)
            self._found[q] = Factors(calls, *found)
        return self._found[q]

    def accelerations(self, q: Place, v: Place, tau: Place) -> Place:
        """Forward dynamics."""
        return self._run(q, 0, v, tau)

    def twists(self, q: Place, v: Place) -> Place:
        """Velocities of the frames."""
        return self._run(q, 1, v, self.at(q).place)

    def after_impulses(self, q: Place, v: Place, wrench: Place) -> Place:
        """Joint velocities after impulses on the frames."""
        return self._run(q, 2, v, self.at(q).place, wrench)

    def _run(self, q: Place, number: int, *inputs: Place) -> Place:
        call = self.at(q).calls[number]
        # those of a population come last
        constants = [self._sequence.defaults["constants"]] if len(call.inputs) > 1 + len(inputs) else []
        (result,) = call.run(None, *inputs, *constants)
        return result
