"""`jvp` of any function of a configuration, by forward mode.

The text of a function, run on dual numbers (`language.forward_mode`), is its directional derivative: exact, compiled,
for nodes of every kind.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from inspect import Parameter, Signature
from typing import Any

from kinetree.errors import UnsupportedError
from kinetree.language.algorithm import Algorithm, Argument
from kinetree.language.common_frame import in_common_frame
from kinetree.language.forward_mode import directional_derivative
from kinetree.language.mechanism import Mechanism
from kinetree.runtime import arguments
from kinetree.runtime.function import ForcedFunction, FrameFunction, Function

#: What to use instead of derivatives of functions that are several texts.
_INSTEAD = {
    "discretize": "forward_dynamics.hvp",
    "step": "discretize",
    "inverse_inertia": "inverse_inertia_derivative",
}
#: Texts that have the change of a matrix already, with its direction as input "dq", by the name of the matrix' text;
#: `model` fills it.
RATES: dict[str, Algorithm] = {}
#: Functions whose texts read their own results, so that derivatives have those as further results.
_READING = ("mass_matrix_inverse", "mass_matrix_determinant", "forward_dynamics_derivatives")


@lru_cache(maxsize=256)
def along_inputs(algorithm: Algorithm) -> Algorithm:
    """The change of an algorithm's results along changes of its inputs, those of frames excepted, which follow them."""
    text = algorithm if algorithm.own is None else algorithm.own
    if text.name in RATES:
        return RATES[text.name] if algorithm is text else in_common_frame(RATES[text.name])
    others = {f"d{a.name}": a.name for a in text.inputs if a.name != "q" and "frames" not in a.dimensions}
    results = tuple(f"d{output.name}" for output in text.outputs)
    values = tuple(f"{output.name} value" for output in text.outputs if text.name in _READING)
    return directional_derivative(text, f"{text.name}_jvp", "dq", others, results, values=values)


@lru_cache(maxsize=256)
def _second_derivative(jvp: Algorithm) -> Algorithm:
    jvp = jvp if jvp.own is None else jvp.own
    others = {f"step_{a.name}": a.name for a in jvp.inputs if a.name != "q" and "frames" not in a.dimensions}
    results = tuple(f"d{output.name}" for output in jvp.outputs)
    return directional_derivative(jvp, f"{jvp.name}_jvp", "step_q", others, results, level=-1)


def jvp(function: Function[..., Any]) -> Function[..., Any]:
    """The directional derivative of a function, with its choices of frames and wrenches."""
    name = function.name
    if Argument("q", ("q",)) not in function.algorithm.inputs or name in _INSTEAD or "." in name:
        reason = ": it is a derivative itself" if "." in name else ": it is no function of a configuration q"
        hint = f"; use {_INSTEAD[name]}" if name in _INSTEAD else reason
        raise UnsupportedError(f"{name} has no derivative by forward mode{hint}")
    return _derived(function, along_inputs)


def second(function: Function[..., Any]) -> Function[..., Any]:
    """The directional derivative of `function.jvp`; takes its inputs, then a direction for each."""
    return _derived(function.jvp, _second_derivative)


def _derived(function: Function[..., Any], derivative: Callable[[Algorithm], Algorithm]) -> Function[..., Any]:
    name, algorithm = function.name, derivative(function.algorithm)
    described = {"signature": _signature(function, algorithm), "doc": Function.jvp.__doc__, "bundle": function._bundle}
    given: dict[str, Any] = {"guard": function._guard, **described}
    derived: Function[..., Any]
    if function.name in _READING:
        derived = _RatesAlone(f"{name}.jvp", function.mechanism, algorithm, function, **given)
    elif isinstance(function, FrameFunction):
        texts = {r: derivative(text) for r, text in function._algorithms.items()}
        classical = {r: derivative(text) for r, text in function._classical.items()}
        frames = tuple(site.name for site in function._all)
        derived = FrameFunction(
            f"{name}.jvp",
            function.mechanism,
            texts,
            site=function._site,
            frames=frames,
            classical=classical,
            **given,
        )
    elif isinstance(function, ForcedFunction):
        derived = ForcedFunction(f"{name}.jvp", function.mechanism, algorithm, site=function._site, **given)
    else:
        derived = function.with_text(f"{name}.jvp", algorithm, **given)
    if function._home is not None:
        derived.belong(function._home[0], f"{function._home[1]}.jvp")
    return derived.engine(function._engine)


class _RatesAlone(ForcedFunction[..., Any]):
    """A derivative whose text also has the values of the function: calls return the rates."""

    def __init__(self, name: str, mechanism: Mechanism, algorithm: Algorithm, of: Any, **options: Any) -> None:
        self._rates = options.pop("bundle")
        self._forced = isinstance(of, ForcedFunction)
        find: Any = of._site if self._forced else None  # without wrenches there are no frames to find
        super().__init__(name, mechanism, algorithm, site=find, **options)

    def _compute(self, inputs: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
        arrays = self._arguments(inputs, named)
        sites, wrenches = self._wrenches(arrays.pop()) if self._forced else ((), ())
        every = self._run(sites, self.algorithm, (*arrays, *wrenches), None)
        rates = every[: len(every) // 2]
        if out is not None:
            names, shapes = [a.name for a in self.algorithm.outputs], [rate.shape for rate in rates]
            filled = arguments.results(self.name, out, names[: len(rates)], shapes, rates[0].dtype)
            for array, rate in zip(filled, rates, strict=True):
                array[...] = rate
            return out
        return rates[0] if len(rates) == 1 else self._rates(*rates) if self._rates is not tuple else rates

    def _is_default(self, *_: Any) -> bool:
        return False  # calls go through Python, which drops the values


def _signature(function: Function[..., Any], algorithm: Algorithm) -> Signature:
    """The arrays of a derivative, then what else the function takes."""
    arrays = [a.name for a in algorithm.inputs if "frames" not in a.dimensions]
    rest = [p for p in function.__signature__.parameters.values() if p.name not in function._arrays]
    if isinstance(function, FrameFunction):
        rest = [p for p in rest if p.name != "f_ext"]
    return Signature([*(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in arrays), *rest])
