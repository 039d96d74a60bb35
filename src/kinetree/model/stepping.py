"""`Model.step` and `Model.discretize` as functions: one recursion, or a sequence of them, chosen by the method."""

from __future__ import annotations

from typing import Any, ClassVar, ParamSpec, TypeVar, cast

import numpy as np

from kinetree.algorithms.derivatives.time_step_derivatives import (
    linearization_ahead,
    midpoint_derivatives,
    rk4_derivatives,
    second_stage_derivatives,
    stage_derivatives,
    step_derivatives,
)
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.time_step import STAGES, midpoint, rk4_end, rk4_stage, semi_implicit_euler
from kinetree.compiler.count import Count, count
from kinetree.compiler.formats import format_of
from kinetree.errors import UnknownNameError
from kinetree.language.algorithm import Algorithm
from kinetree.language.mechanism import Site
from kinetree.model.integrators import Run, rk4
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import ForcedFunction
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import Call, KernelSequence

P = ParamSpec("P")
R = TypeVar("R", covariant=True)

#: Values of `method` for `step` and `discretize`.
INTEGRATORS = ("semi_implicit_euler", "midpoint", "rk4")
#: The last recursion of methods that need several: its results are those of the function.
_LAST = (rk4_end, midpoint_derivatives, rk4_derivatives)


def chosen(method: Any) -> str:
    """The name of an integrator."""
    if not isinstance(method, str) or method not in INTEGRATORS:
        raise UnknownNameError("method", method, INTEGRATORS)
    return method


class StepFunction(ForcedFunction[P, R]):
    """A function of q, v, tau and dt, with external wrenches, by a choice of methods."""

    choices = ("method", "f_ext")
    #: Methods that are one recursion.
    whole: ClassVar[dict[str, Algorithm]] = {"semi_implicit_euler": semi_implicit_euler, "midpoint": midpoint}
    #: The recursions of the others, with how often each runs.
    parts: ClassVar[dict[str, dict[Algorithm, int]]] = {"rk4": {rk4_stage: 4, forward_dynamics: 4, rk4_end: 1}}

    def _compute(self, inputs: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
        """Compute, with any valid arguments."""
        *arrays, method, f_ext = self._arguments(inputs, named)
        algorithm = self.whole.get(chosen(method))
        sites, wrenches = self._wrenches(f_ext)
        if algorithm is not None:
            result = self._run(sites, algorithm, (*arrays, *wrenches), out)
            bound: Any = self._bound.get((algorithm, sites, False))
        elif self._engine == "native":
            bound = self._bound.get((method, sites))
            if bound is None:
                bound = self._sequence(method, sites)
            result = bound(*arrays, *wrenches) if out is None else bound(*arrays, *wrenches, out=out)
        else:

            def run(algorithm: Algorithm, *inputs: Any, into: Algorithm | None = None) -> Any:
                del into
                return self._run(_sites(algorithm, sites), algorithm, inputs, out if algorithm in _LAST else None)

            return self._compose(method, run, *arrays, *wrenches)
        # the next call with this method goes straight to machine code
        if sites:
            self._follow_keys(bound, f_ext, method)
        elif f_ext is None and isinstance(bound, Compiled):
            self.follow(bound, (method, None))
        return result

    def bound_by(self, method: str) -> Compiled:
        """As `bound`, by a method, without wrenches."""
        algorithm = self.whole.get(chosen(method))
        return self._sequence(method, ()) if algorithm is None else cast(Compiled, self._bind((), algorithm, False))

    def _sequence(self, method: str, sites: tuple[Site, ...]) -> Compiled:
        """A method that needs several recursions, as one compiled function."""
        recursions = {a: cast(Compiled, self._bind(_sites(a, sites), a, False)) for a in self.parts[method]}
        n, nq = self.mechanism.nv, self.mechanism.nq
        inputs = [Operand("q", (nq,)), Operand("v", (n,)), Operand("tau", (n,)), Operand("dt", ())]
        inputs += [Operand("wrench", (len(sites), 6))] if sites else []
        with self._lock:
            if (method, sites) not in self._bound:
                outputs = next(recursions[a] for a in _LAST if a in recursions).binding.outputs
                sequence = KernelSequence(self.name, inputs, outputs, self._bundle, format_of(self.mechanism))

                prepared: dict[Algorithm, Call] = {}

                def run(algorithm: Algorithm, *inputs: Any, into: Algorithm | None = None) -> Any:
                    places: Any = sequence.outputs if algorithm in _LAST else None
                    if into is not None:
                        prepared[into] = following = sequence.prepare(recursions[into])
                        places = [following.place(output.name) for output in recursions[algorithm].binding.outputs]
                    return sequence.call(
                        recursions[algorithm], *inputs, into=places, prepared=prepared.pop(algorithm, None)
                    )

                self._compose(method, run, *sequence.inputs)
                self._bound[method, sites] = sequence.finish()
            return cast(Compiled, self._bound[method, sites])

    def _compose(self, method: str, run: Run, q: Any, v: Any, tau: Any, dt: Any, *wrenches: Any) -> Any:
        """A method by its recursions; `run` may compute results where a recursion named by `into` takes them."""
        del method
        return rk4(run, lambda q, v: run(forward_dynamics, q, v, tau, *wrenches), q, v, dt)

    def compile(self) -> None:
        """Compile all methods."""
        for algorithm in self.whole.values():
            self._bind((), algorithm, False).compile()
        for method in self.parts:
            if self._engine == "native":
                self._sequence(method, ()).compile()

    def count(self, method: str = "semi_implicit_euler") -> Count:
        """Operations of one evaluation."""
        if (algorithm := self.whole.get(chosen(method))) is not None:
            return count(algorithm, self.mechanism)
        first, *others = (count(part, self.mechanism) * times for part, times in self.parts[method].items())
        return sum(others, first)


class DiscretizeFunction(StepFunction[P, R]):
    """The derivatives of a `StepFunction`."""

    whole: ClassVar[dict[str, Algorithm]] = {"semi_implicit_euler": step_derivatives}

    #: The one that takes longest to trace comes last: meanwhile, other threads compile the others.
    parts: ClassVar[dict[str, dict[Algorithm, int]]] = {
        "midpoint": {midpoint_derivatives: 1, linearization_ahead: 2},
        "rk4": {rk4_derivatives: 1, second_stage_derivatives: 1, stage_derivatives: 2, linearization_ahead: 4},
    }

    def _compose(self, method: str, run: Run, q: Any, v: Any, tau: Any, dt: Any, *wrenches: Any) -> Any:
        def linearized(xi_rate: Any, a: Any, ahead: float, into: Algorithm | None = None) -> Any:
            return run(linearization_ahead, q, v, tau, xi_rate, a, dt, ahead, *wrenches, into=into)

        n = self.mechanism.nv
        still = np.zeros(n)
        if method == "midpoint":
            a, by_first = linearized(v, still, 0.5)
            a, by_there = linearized(v, a, 0.5, midpoint_derivatives)
            return run(midpoint_derivatives, v, a, dt, by_first, by_there)
        by_v = np.zeros((n, 3, n))
        by_v[:, 1] = np.eye(n)
        start, half, *later = STAGES
        a, d_a = linearized(v, still, start)  # at the start itself
        a_there, by_there = linearized(v, a, half, second_stage_derivatives)
        xi_rate, *derivatives = run(second_stage_derivatives, v, a, dt, half, by_there, d_a)
        stages = [(v, by_v, d_a), (xi_rate, *derivatives)]
        for ahead in later:
            a, (xi_rate, *derivatives) = a_there, stages[-1]
            a_there, by_there = linearized(xi_rate, a, ahead, stage_derivatives)
            stages.append(run(stage_derivatives, v, xi_rate, a, dt, ahead, by_there, *derivatives)[:3])
        xi_rates, *both = zip(*stages, strict=True)
        return run(rk4_derivatives, dt, *xi_rates, *both[0], *both[1])


def _sites(algorithm: Algorithm, sites: tuple[Site, ...]) -> tuple[Site, ...]:
    """The frames that a recursion takes."""
    return sites if any("frames" in argument.dimensions for argument in algorithm.inputs) else ()
