"""`Model.step` as a function: one recursion, or for `rk4` one per stage, chosen by the method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from kinetree.algorithms.time_step import STAGES, midpoint, rk4_end, rk4_stage, semi_implicit_euler
from kinetree.engines.arguments import numbers
from kinetree.engines.count import Count, count
from kinetree.engines.function import ForcedFunction
from kinetree.errors import UnknownNameError
from kinetree.recursion.mechanism import Site

P = ParamSpec("P")
R = TypeVar("R", covariant=True)

#: What `step` and `discretize` take as `method`.
INTEGRATORS = ("semi_implicit_euler", "midpoint", "rk4")
_WHOLE = {"semi_implicit_euler": semi_implicit_euler, "midpoint": midpoint}


def chosen(method: Any) -> str:
    """The name of an integrator."""
    if not isinstance(method, str) or method not in INTEGRATORS:
        raise UnknownNameError("method", method, INTEGRATORS)
    return method


class StepFunction(ForcedFunction[P, R]):
    """A function of q, v, tau and dt, with external wrenches, by the method asked for."""

    choices = ("method", "f_ext")

    def general(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Step, whatever the arguments are like."""
        *arrays, method, f_ext = self._arguments(inputs, named)
        algorithm = _WHOLE.get(chosen(method))
        sites, wrenches = self._wrenches(f_ext)
        if algorithm is not None:
            return self._run(sites, algorithm, (*arrays, *wrenches), out)
        return self._rk4(sites, arrays, wrenches, out)

    def _rk4(self, sites: tuple[Site, ...], arrays: Sequence[Any], wrenches: Sequence[Any], out: Any) -> Any:
        q, v, tau, dt = arrays
        dt = numbers(self.name, "dt", dt, "fiu" if self._engine == "native" else "fiucO")
        rates: tuple[Any, ...] = np.zeros(self.mechanism.nv), np.zeros(self.mechanism.nv)
        stages: list[Any] = []
        for ahead in STAGES:
            rates = self._run(sites, rk4_stage, (q, v, tau, *rates, np.multiply(dt, ahead), *wrenches), None)
            stages += rates
        return self._run((), rk4_end, (q, v, dt, *stages), out)

    def compile(self) -> None:
        """Compile all methods."""
        for algorithm in (*_WHOLE.values(), rk4_stage, rk4_end):
            self._bind((), algorithm, False).compile()

    def count(self, method: str = "semi_implicit_euler") -> Count:
        """Operations of one evaluation."""
        if (algorithm := _WHOLE.get(chosen(method))) is not None:
            return count(algorithm, self.mechanism)
        return count(rk4_stage, self.mechanism) * len(STAGES) + count(rk4_end, self.mechanism)
