"""`Model.step` and `Model.discretize` as functions: one recursion, or one per stage, chosen by the method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from kinetree.algorithms.linearized.time_step_derivatives import (
    midpoint_derivatives,
    rk4_derivatives,
    stage_derivatives,
    step_derivatives,
)
from kinetree.algorithms.time_step import STAGES, midpoint, rk4_end, rk4_stage, semi_implicit_euler
from kinetree.engines.arguments import numbers
from kinetree.engines.count import Count, count
from kinetree.engines.function import ForcedFunction
from kinetree.engines.native.compiled import Compiled
from kinetree.errors import UnknownNameError
from kinetree.recursion.mechanism import Site

P = ParamSpec("P")
R = TypeVar("R", covariant=True)

#: Values of `method` for `step` and `discretize`.
INTEGRATORS = ("semi_implicit_euler", "midpoint", "rk4")
_WHOLE = {"semi_implicit_euler": semi_implicit_euler, "midpoint": midpoint}


def chosen(method: Any) -> str:
    """The name of an integrator."""
    if not isinstance(method, str) or method not in INTEGRATORS:
        raise UnknownNameError("method", method, INTEGRATORS)
    return method


class StepFunction(ForcedFunction[P, R]):
    """A function of q, v, tau and dt, with external wrenches, by a choice of methods."""

    choices = ("method", "f_ext")

    def general(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Step, with any valid arguments."""
        *arrays, method, f_ext = self._arguments(inputs, named)
        algorithm = _WHOLE.get(chosen(method))
        sites, wrenches = self._wrenches(f_ext)
        if algorithm is not None:
            result = self._run(sites, algorithm, (*arrays, *wrenches), out)
            bound = self._bound.get((algorithm, (), False))
            if f_ext is None and isinstance(bound, Compiled):
                self.follow(bound, (method, None))  # the next call with this method goes straight to machine code
            return result
        return self._rk4(sites, arrays, wrenches, out)

    def _rk4(self, sites: tuple[Site, ...], arrays: Sequence[Any], wrenches: Sequence[Any], out: Any) -> Any:
        q, v, tau, dt = arrays
        dt = self._seconds(dt)
        rates: tuple[Any, ...] = np.zeros(self.mechanism.nv), np.zeros(self.mechanism.nv)
        stages: list[Any] = []
        for ahead in STAGES:
            rates = self._run(sites, rk4_stage, (q, v, tau, *rates, np.multiply(dt, ahead), *wrenches), None)
            stages += rates
        return self._run((), rk4_end, (q, v, dt, *stages), out)

    def _seconds(self, dt: Any) -> Any:
        return numbers(self.name, "dt", dt, "fiu" if self._engine == "native" else "fiucO")

    def compile(self) -> None:
        """Compile all methods."""
        for algorithm in (*_WHOLE.values(), rk4_stage, rk4_end):
            self._bind((), algorithm, False).compile()

    def count(self, method: str = "semi_implicit_euler") -> Count:
        """Operations of one evaluation."""
        if (algorithm := _WHOLE.get(chosen(method))) is not None:
            return count(algorithm, self.mechanism)
        return count(rk4_stage, self.mechanism) * len(STAGES) + count(rk4_end, self.mechanism)


class DiscretizeFunction(StepFunction[P, R]):
    """The derivatives of a `StepFunction`."""

    def general(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Differentiate, with any valid arguments."""
        *arrays, method, f_ext = self._arguments(inputs, named)
        chosen(method)
        sites, wrenches = self._wrenches(f_ext)
        if method == "semi_implicit_euler":
            return self._run(sites, step_derivatives, (*arrays, *wrenches), out)
        q, v, tau, dt = arrays
        dt = self._seconds(dt)
        n = self.mechanism.nv
        still, constant = np.zeros(n), np.zeros((n, 3, n))

        def stage(ahead: float, rates: Sequence[Any]) -> Any:
            xi_rate, a, *derivatives = rates
            arrays = (q, v, tau, xi_rate, a, dt * ahead, *derivatives, *wrenches)
            return self._run(sites, stage_derivatives, arrays, None)[:4]

        if method == "midpoint":
            by_v = constant.copy()
            by_v[:, 1] = np.eye(n)
            _, a, _, d_a = stage(0.5, (v, still, by_v, constant))
            _, a, _, d_a = stage(0.5, (v, a, by_v, d_a))
            return self._run((), midpoint_derivatives, (v, a, dt, d_a), out)
        rates, stages = (still, still, constant, constant), []
        for ahead in STAGES:
            rates = stage(ahead, rates)
            stages.append(rates)
        xi_rates, _, *derivatives = zip(*stages, strict=True)
        return self._run((), rk4_derivatives, (dt, *xi_rates, *derivatives[0], *derivatives[1]), out)

    def compile(self) -> None:
        """Compile all methods."""
        for algorithm in (step_derivatives, stage_derivatives, midpoint_derivatives, rk4_derivatives):
            self._bind((), algorithm, False).compile()

    def count(self, method: str = "semi_implicit_euler") -> Count:
        """Operations of one evaluation."""
        if chosen(method) == "semi_implicit_euler":
            return count(step_derivatives, self.mechanism)
        stages, end = (2, midpoint_derivatives) if method == "midpoint" else (4, rk4_derivatives)
        return count(stage_derivatives, self.mechanism) * stages + count(end, self.mechanism)
