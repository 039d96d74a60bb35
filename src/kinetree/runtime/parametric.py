"""Functions with parameters of the mechanism as their first argument, and their derivatives with respect to all.

A mechanism's constants are an input here (`with_constants`): parameters are some of them. Directional derivatives run
the same text on dual numbers, gradients run it backwards (`language.forward_mode`, `language.reverse_mode`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from kinetree.compiler.count import Count, count
from kinetree.compiler.formats import format_of, rounded
from kinetree.errors import InputError, IrreversibleError, UnknownNameError
from kinetree.language.algorithm import Algorithm, Argument, with_constants
from kinetree.language.forward_mode import directional_derivative
from kinetree.language.mechanism import Mechanism, Site
from kinetree.language.reverse_mode import gradient
from kinetree.runtime import arguments
from kinetree.runtime.function import ENGINES, ForcedFunction, FrameFunction, Function
from kinetree.runtime.kernels import bind
from kinetree.runtime.reference import Interpreted
from kinetree.spatial.reproducible import summed
from kinetree.spatial.value import Array


@dataclass(frozen=True, eq=False)
class Selection:
    """Parameters: which of a mechanism's constants they are, gravity's counted last."""

    mechanism: Mechanism
    numbers: Array

    @cached_property
    def nominal(self) -> Array:
        """All constants, then gravity, (c + 3,)."""
        return np.concatenate([self.mechanism.total_parameters, self.mechanism.gravity])

    def taken(self, constants: Array, gravity: Array) -> Array:
        """The part of the parameters in gradients with respect to constants and gravity."""
        taken: Array = np.concatenate([constants[..., : len(self.nominal) - 3], gravity], axis=-1)[..., self.numbers]
        return taken


def _plain(algorithm: Algorithm) -> Algorithm:
    """The text in own coordinates."""
    return algorithm if algorithm.own is None else algorithm.own


def _vectors(algorithm: Algorithm) -> list[Argument]:
    """The inputs that are vectors or scalars, and no wrenches."""
    return [a for a in algorithm.inputs if "frames" not in a.dimensions]


@lru_cache(maxsize=256)
def _forward(algorithm: Algorithm) -> Algorithm:
    text = with_constants(algorithm)
    directions = {f"d{a.name}": a.name for a in _vectors(text) if a.name != "q"} | {"dgravity": "gravity"}
    results = tuple(f"d{output.name}" for output in text.outputs)
    return directional_derivative(text, f"{algorithm.name} along parameters", "dq", directions, results)


@lru_cache(maxsize=256)
def _backward(algorithm: Algorithm) -> Algorithm:
    text = with_constants(algorithm)
    wanted = [a.name for a in _vectors(text) if a.dimensions] + ["gravity"]
    return gradient(text, f"{algorithm.name} gradient", wanted, [f"by {name}" for name in wanted])


@dataclass(frozen=True)
class _Choice:
    """What a call chose besides arrays: the text, frames, and wrenches."""

    algorithm: Algorithm
    sites: tuple[Site, ...]
    single: bool
    wrenches: tuple[Array, ...]


class ParametricFunction:
    """A function of parameters, then of the arguments of a robot's function. Leading axes broadcast as in NumPy.

    Args:
        function: The function, of a robot whose mechanism has the parameters among its constants.
        selection: The parameters.
        guard: Raises if the function is not defined for the robot.
        product: If its result is a matrix that depends on q alone, the text of products with a vector x.
    """

    def __init__(
        self,
        function: Function[..., Any],
        selection: Selection,
        guard: Callable[[], None],
        product: Algorithm | None = None,
    ) -> None:
        self._function, self._selection, self._guard, self._product = function, selection, guard, product
        self.name = self.__name__ = function.name
        self.__doc__ = f"{function.__doc__}\n\nTakes the parameters first, (…, {len(selection.numbers)})."
        self._engine = "native"
        self._bound: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"<{self.name}({', '.join(('p', *self._function._names))}) on the {self._engine} engine>"

    def engine(self, name: str) -> ParametricFunction:
        """The same function on another engine: "native" or "reference"."""
        if name not in ENGINES:
            raise UnknownNameError("engine", name, ENGINES)
        made = ParametricFunction(self._function, self._selection, self._guard, self._product)
        made._engine = name
        return made

    def __call__(self, p: Any, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Compute."""
        arrays, choice = self._chosen(inputs, named)
        text = with_constants(choice.algorithm)
        given = dict(zip(self._function._arrays, arrays, strict=True)) | {"constants": self._constants("p", p)}
        return self._bundled(self._run(text, choice, self._named(text, given, choice), out))

    def jvp(self, p: Any, *inputs: Any, **named: Any) -> Any:
        """Rates of change of the results; takes parameters and inputs, then a direction for each, q's a tangent."""
        names, count_ = ("p", *self._function._arrays), len(self._function._arrays) + 1
        directions, rest = inputs[count_ - 1 : 2 * count_ - 1], inputs[2 * count_ - 1 :]
        if len(directions) < count_:
            wanted = ", ".join([*names, *(f"d{name}" for name in names)])
            raise InputError(f"{self.name}.jvp takes {wanted}; got {1 + len(inputs)} arrays")
        arrays, choice = self._chosen((*inputs[: count_ - 1], *rest), named)
        text = _forward(_plain(choice.algorithm))
        moved, zeros = self._constants("dp", directions[0], 0.0), len(self._selection.nominal)
        given = dict(zip(self._function._arrays, arrays, strict=True))
        given |= {f"d{name}": array for name, array in zip(self._function._arrays, directions[1:], strict=True)}
        given |= {"constants": self._constants("p", p), "dconstants": moved, "dgravity": moved[..., zeros - 3 :]}
        return self._bundled(self._run(text, choice, self._named(text, given, choice), None))

    def vjp(self, p: Any, *inputs: Any, **named: Any) -> tuple[Array, ...]:
        """Gradients of the weighted sum of the results with respect to parameters and inputs, q's along the tangent.

        Takes parameters and inputs, then weights of the results' shape: one array, or a tuple if there are several.
        """
        own = self._function._arrays
        if len(inputs) < len(own) + 1:
            raise InputError(f"{self.name}.vjp takes p, {', '.join(own)}, weights; got {1 + len(inputs)} arrays")
        arrays, choice = self._chosen((*inputs[: len(own)], *inputs[len(own) + 1 :]), named)
        if self._product is not None:
            return self._by_columns(self._product, p, arrays[0], inputs[1], choice)
        text, weights = _backward(_plain(choice.algorithm)), inputs[len(own)]
        several = len(choice.algorithm.outputs)
        weights = weights if several > 1 else (weights,)
        if not isinstance(weights, Sequence) or len(weights) != several:
            raise InputError(
                f"{self.name}.vjp: there are {several} results, so weights are a tuple of {several} arrays"
            )
        given = dict(zip(own, arrays, strict=True)) | {"constants": self._constants("p", p)}
        given |= {f"{a.name} weight": w for a, w in zip(choice.algorithm.outputs, weights, strict=True)}
        try:
            found = self._run(text, choice, self._named(text, given, choice), None)
        except IrreversibleError:  # of matrices
            return self._by_directions(p, inputs, weights, named)
        by = {argument.name: array for argument, array in zip(text.outputs, found, strict=True)}
        of_inputs = (by[f"by {name}"] for name in own if f"by {name}" in by)
        return self._selection.taken(by["by constants"], by["by gravity"]), *of_inputs

    def derivative(self, p: Any, *inputs: Any, **named: Any) -> Any:
        """Derivatives of the results with respect to the parameters, as their last axis."""
        found = self._along_each(p, inputs, 0, inputs[len(self._function._arrays) :], named)
        return found[0] if len(found) == 1 else self._bundled(found)

    def _along_each(self, p: Any, inputs: Any, which: int, rest: Any, named: Any) -> tuple[Array, ...]:
        """Derivatives of the results with respect to parameters, 0, or an input, from 1 on, as their last axis."""
        own, ranks = ("p", *self._function._arrays), {"p": 1, **self._function.ranks}
        arrays = {name: np.asarray(x) for name, x in zip(own, (p, *inputs))}
        batch = np.broadcast_shapes(*(x.shape[: x.ndim - ranks[name]] for name, x in arrays.items()))
        wide = [np.expand_dims(x, x.ndim - ranks[name]) for name, x in arrays.items()]
        sizes = [(len(self._selection.numbers),), *(self._lengths(name) for name in own[1:])]
        directions = [np.eye(size[0]) if i == which else np.zeros(size) for i, size in enumerate(sizes)]
        found = self.jvp(*wide, *directions, *rest, **named)
        return tuple(np.moveaxis(each, len(batch), -1) for each in (found if isinstance(found, tuple) else (found,)))

    def _by_columns(self, product: Algorithm, p: Any, q: Any, weights: Any, choice: _Choice) -> tuple[Array, ...]:
        """`vjp` of a matrix: those of its products with all unit vectors, weighted by columns."""
        weights, text = np.swapaxes(np.asarray(weights), -1, -2), _backward(product)
        arguments.require_shape(f"{self.name}.vjp: weights", weights.shape, weights.shape[-1:] * 2)
        given = {"q": np.asarray(q)[..., None, :], "x": np.eye(weights.shape[-1]), "y weight": weights}
        given["constants"] = self._constants("p", p)[..., None, :]
        by_q, _, by_constants, by_gravity = self._run(text, choice, self._named(text, given, choice), None)
        every = self._selection.taken(by_constants, by_gravity), by_q
        return tuple(summed(each, axis=-2) for each in every)

    def _by_directions(self, p: Any, inputs: Any, weights: Any, named: Any) -> tuple[Array, ...]:
        """`vjp` by as many directional derivatives as there are parameters and coordinates."""
        own = self._function._arrays
        gradients = []
        for which in (0, *(i for i, name in enumerate(own, 1) if self._lengths(name))):
            rates = self._along_each(p, inputs, which, inputs[len(own) + 1 :], named)
            total: Any = 0.0
            for rate, weight, argument in zip(rates, weights, self._function.algorithm.outputs, strict=True):
                single = "frames" in argument.dimensions and np.ndim(weight) < len(argument.dimensions)
                core = len(argument.dimensions) - single
                product = rate * np.asarray(weight)[..., None]
                flat = product.reshape(*product.shape[: product.ndim - 1 - core], -1, rate.shape[-1])
                total = total + summed(flat, axis=-2)
            gradients.append(total)
        return tuple(gradients)

    def count(self, *choices: Any) -> dict[str, Count]:
        """Operations of one evaluation, of its directional derivative and of its gradient."""
        function, algorithm = self._function, self._function.algorithm
        sites: tuple[Site, ...] = ()
        if isinstance(function, FrameFunction):
            algorithm, sites = function._for(*choices[1:]), function._sites(choices[0] if choices else None)
        plain, mechanism = _plain(algorithm), self._selection.mechanism
        texts = {"value": with_constants(algorithm), "jvp": _forward(plain), "vjp": _backward(plain)}
        return {name: count(text, mechanism, sites) for name, text in texts.items()}

    # -- arguments ----------------------------------------------------------------------------------------------------

    def _lengths(self, name: str) -> tuple[int, ...]:
        """The shape of a direction of an input."""
        argument = next(a for a in self._function.algorithm.inputs if a.name == name)
        sizes = Algorithm.sizes(self._selection.mechanism, ())
        return (sizes["v"],) if name == "q" else argument.lengths(sizes)

    def _constants(self, name: str, p: Any, around: Any = None) -> Array:
        selection, kinds = self._selection, "fiu" if self._engine == "native" else "fiucO"
        array = arguments.numbers(self.name, name, p, kinds)
        arguments.require_shape(f"{self.name}: {name}", array.shape, (len(selection.numbers),))
        base = selection.nominal if around is None else np.zeros(len(selection.nominal))
        made = np.empty((*array.shape[:-1], len(base)), dtype=np.result_type(array, np.float64))
        made[...], made[..., selection.numbers] = base, array
        return rounded(made, format_of(selection.mechanism).dtype) if self._engine == "native" else made

    def _chosen(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Any], _Choice]:
        """The arrays of a call, and what else it chose."""
        function, known = self._function, len(self._function._arrays)
        given = function._arguments(inputs, named)
        arrays, rest = given[:known], given[known:]
        if isinstance(function, FrameFunction):
            frames, *choice = rest
            single = isinstance(frames, str)
            return arrays, _Choice(function._for(*choice), function._sites(frames), single, ())
        if isinstance(function, ForcedFunction):
            sites, wrenches = function._wrenches(rest[-1])
            return arrays, _Choice(function.algorithm, sites, False, wrenches)
        return arrays, _Choice(function.algorithm, (), False, ())

    def _named(self, text: Algorithm, given: dict[str, Any], choice: _Choice) -> list[Any]:
        """Inputs in the order of a text; wrenches are what it does not name."""
        wrenches = iter(choice.wrenches)
        taken = [a for a in text.inputs if choice.sites or "frames" not in a.dimensions]
        return [given[a.name] if a.name in given else next(wrenches) for a in taken]

    def _bundled(self, found: Any) -> Any:
        bundle = self._function._bundle
        return bundle(*found) if isinstance(found, tuple) and bundle is not tuple else found

    def bound(self, which: str, *choices: Any) -> Any:
        """The recursion of "value", "jvp" or "vjp" for arrays alone: what bridges to other libraries run.

        Choices are frames and reference, where the function has these.

        Raises:
            IrreversibleError: There is no such "vjp".
        """
        function, none = self._function, _Choice(self._function.algorithm, (), False, ())
        if isinstance(function, FrameFunction):
            frames, *rest = choices
            none = _Choice(function._for(*rest), function._sites(frames), isinstance(frames, str), ())
        plain = _plain(none.algorithm)
        text = {"value": with_constants(none.algorithm), "jvp": _forward(plain), "vjp": _backward(plain)}[which]
        return self._bind(text, none)

    @property
    def selection(self) -> Selection:
        """Which constants the parameters are."""
        return self._selection

    def _run(self, text: Algorithm, choice: _Choice, inputs: Sequence[Any], out: Any) -> Any:
        bound = self._bind(text, choice)
        return bound(*inputs) if out is None else bound(*inputs, out=out)

    def _bind(self, text: Algorithm, choice: _Choice) -> Any:
        key = text, choice.sites, choice.single
        bound = self._bound.get(key)
        if bound is None:
            self._guard()
            mechanism = self._selection.mechanism
            if self._engine == "native":
                bound = bind(text, mechanism, choice.sites, self.name, choice.single)
            else:
                bound = Interpreted(self.name, text, mechanism, choice.sites, choice.single, tuple)
            bound = self._bound.setdefault(key, bound)
        return bound
