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
from kinetree.language.forward_mode import directional_derivative
from kinetree.runtime.function import ForcedFunction, FrameFunction, Function

#: What to use instead of derivatives of functions whose texts read their own results.
_INSTEAD = {
    "mass_matrix_inverse": "−M⁻¹ mass_matrix.jvp(q, dq) M⁻¹, or mass_matrix_solve.jvp",
    "mass_matrix_determinant": "det M times mass_matrix_log_determinant.jvp",
    "forward_dynamics_derivatives": "forward_dynamics.hvp",
    "discretize": "forward_dynamics.hvp",
    "step": "discretize",
    "inverse_inertia": "inverse_inertia_derivative",
}


@lru_cache(maxsize=256)
def along_inputs(algorithm: Algorithm) -> Algorithm:
    """The change of an algorithm's results along changes of its inputs, those of frames excepted, which follow them."""
    text = algorithm if algorithm.own is None else algorithm.own
    others = {f"d{a.name}": a.name for a in text.inputs if a.name != "q" and "frames" not in a.dimensions}
    results = tuple(f"d{output.name}" for output in text.outputs)
    return directional_derivative(text, f"{text.name}_jvp", "dq", others, results)


@lru_cache(maxsize=256)
def _second_derivative(jvp: Algorithm) -> Algorithm:
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
    if isinstance(function, FrameFunction):
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


def _signature(function: Function[..., Any], algorithm: Algorithm) -> Signature:
    """The arrays of a derivative, then what else the function takes."""
    arrays = [a.name for a in algorithm.inputs if "frames" not in a.dimensions]
    rest = [p for p in function.__signature__.parameters.values() if p.name not in function._arrays]
    if isinstance(function, FrameFunction):
        rest = [p for p in rest if p.name != "f_ext"]
    return Signature([*(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in arrays), *rest])
