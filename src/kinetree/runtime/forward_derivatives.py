"""`jvp` and `vjp` of any function of a configuration, by forward mode.

The text of a function, run on dual numbers (`language.forward_mode`), is its directional derivative: exact, compiled,
for nodes of every kind. Gradients are as many of these as there are inputs: `inverse_dynamics` and `forward_dynamics`
have recursions of their own for them, in O(n).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from inspect import Parameter, Signature
from typing import Any

import numpy as np

from kinetree.errors import InputError, UnsupportedError
from kinetree.language.algorithm import Algorithm, Argument
from kinetree.language.forward_mode import directional_derivative
from kinetree.runtime.function import ForcedFunction, FrameFunction, Function
from kinetree.spatial.value import Array

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


class Gradient:
    """Gradients of a weighted sum of a function's results, one for each of its inputs that are vectors.

    As many directional derivatives as the inputs have components, in one batch.
    """

    def __init__(self, function: Function[..., Any]) -> None:
        self._function, self._jvp = function, jvp(function)
        text = function.algorithm if function.algorithm.own is None else function.algorithm.own
        self._inputs = [a for a in text.inputs if "frames" not in a.dimensions]
        self._outputs = text.outputs
        self.name = self.__name__ = f"{function.name}.vjp"
        self.__doc__ = Function.vjp.__doc__

    def __call__(self, *inputs: Any, **choices: Any) -> Any:
        """Gradients, (…, nv) each; one alone if there is one input. Takes the inputs, then the weights."""
        count, several = len(self._inputs), len(self._outputs)
        if any(hasattr(x, "__dask_graph__") for x in inputs):
            raise UnsupportedError(f"{self.name} of lazy arrays: map it over blocks, or compute them before")
        arrays, rest = [np.asarray(x) for x in inputs[:count]], inputs[count:]
        if len(arrays) < count or not rest:
            names = [a.name for a in self._inputs]
            raise InputError(f"{self.name} takes {', '.join(names)}, then weights of the results' shape")
        weights = rest[0] if several > 1 else (rest[0],)
        if not isinstance(weights, Sequence) or len(weights) != several:
            raise InputError(f"{self.name}: there are {several} results, so weights are a tuple of {several} arrays")
        wide = [x[..., None, :] if argument.dimensions else x[..., None] for argument, x in zip(self._inputs, arrays)]
        found = []
        for i, argument in enumerate(self._inputs):
            if argument.dimensions:
                found.append(self._along(wide, i, weights, rest[1:], choices))
        return found[0] if len(found) == 1 else tuple(found)

    def _along(self, wide: list[Array], i: int, weights: Sequence[Any], rest: Any, choices: Any) -> Array:
        sizes = [self._size(k) for k in range(len(wide))]
        units = np.eye(sizes[i])
        directions = [
            units if k == i else np.zeros(sizes[k]) if argument.dimensions else np.zeros(())
            for k, argument in enumerate(self._inputs)
        ]
        rates = self._jvp(*wide, *directions, *rest, **choices)
        total: Any = 0.0
        for rate, weight in zip(rates if isinstance(rates, tuple) else (rates,), weights, strict=True):
            core = rate.ndim - 1 - self._axes(wide)
            product = rate * np.expand_dims(np.asarray(weight), -core - 1)
            total = total + product.reshape(*product.shape[: product.ndim - core], -1).sum(-1)
        found: Array = total
        return found

    def _axes(self, wide: list[Array]) -> int:
        """The number of batch axes."""
        shapes = [
            x.shape[:-2] if argument.dimensions else x.shape[:-1]
            for argument, x in zip(self._inputs, wide, strict=True)
        ]
        return len(np.broadcast_shapes(*shapes))

    def _size(self, k: int) -> int:
        """Components of the direction of an input."""
        dimensions = self._inputs[k].dimensions
        if not dimensions:
            return 1
        over = "v" if self._inputs[k].name == "q" else dimensions[0]
        return over if isinstance(over, int) else Algorithm.sizes(self._function.mechanism, ())[over]


def vjp(function: Function[..., Any]) -> Gradient:
    """The gradient of a function's results."""
    return Gradient(function)
