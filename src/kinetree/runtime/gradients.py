"""`vjp` of any function of a configuration.

The text of a function, run backwards (`language.reverse_mode`), has the gradients with respect to all of its inputs, at
a few times its own cost. Texts of matrices use loops that cannot be run backwards: their gradients are as many
directional derivatives as the inputs have components, in one batch, or, where products of the matrix with vectors have
a text in O(n), those of its columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import ContractError, InputError, IrreversibleError, UnsupportedError
from kinetree.language.algorithm import Algorithm, Argument, with_constants
from kinetree.language.mechanism import Mechanism, Site
from kinetree.language.reverse_mode import gradient
from kinetree.runtime import arguments
from kinetree.runtime.forward_derivatives import jvp
from kinetree.runtime.function import ForcedFunction, FrameFunction, Function
from kinetree.runtime.kernels import bind
from kinetree.runtime.reference import Interpreted
from kinetree.spatial.reproducible import summed
from kinetree.spatial.value import Array

#: Texts of products y of matrices with vectors x, by the name of the function that has the matrix; `model` fills it.
PRODUCTS: dict[str, Algorithm] = {}


class Choice(NamedTuple):
    """What a call chose besides arrays: the text, in own coordinates, the frames, and wrenches on them."""

    text: Algorithm
    sites: tuple[Site, ...]
    single: bool
    wrenches: tuple[Array, ...]


def chosen(function: Function[..., Any], inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Any], Choice]:
    """The arrays of a call of a function, and what else it chose."""
    known = len(function._arrays)
    given = function._arguments(inputs, named)
    arrays, rest = given[:known], given[known:]
    if isinstance(function, FrameFunction):
        frames, *others = rest
        choice = dict(zip(function._names[known + 1 :], others, strict=True))
        if choice.pop("f_ext", None):
            raise UnsupportedError(f"{function.name} has no derivatives with wrenches f_ext")
        text = _plain(function._for(**choice))
        return arrays, Choice(text, function._sites(frames), isinstance(frames, str), ())
    if isinstance(function, ForcedFunction):
        sites, wrenches = function._wrenches(rest[-1])
        return arrays, Choice(_plain(function.algorithm), sites, False, wrenches)
    return arrays, Choice(_plain(function.algorithm), function.sites, False, ())


def _plain(algorithm: Algorithm) -> Algorithm:
    return algorithm if algorithm.own is None else algorithm.own


class Texts:
    """Texts of one mechanism, bound to choices of frames."""

    def __init__(self, name: str, mechanism: Mechanism, engine: str) -> None:
        self._name, self._mechanism, self._engine = name, mechanism, engine
        self._bound: dict[Any, Any] = {}

    def run(self, text: Algorithm, choice: Choice, given: dict[str, Any], out: Any = None) -> Any:
        """Run a text on inputs given by name; wrenches are what has none."""
        wrenches = iter(choice.wrenches)
        taken = [a for a in text.inputs if choice.sites or "frames" not in a.dimensions]
        bound = self.bound(text, choice)
        inputs = [given[a.name] if a.name in given else next(wrenches) for a in taken]
        return bound(*inputs) if out is None else bound(*inputs, out=out)

    def bound(self, text: Algorithm, choice: Choice) -> Any:
        """A text for arrays alone."""
        key = text, choice.sites, choice.single
        if key not in self._bound:
            try:
                self._bound[key] = self._made(text, choice)
            except ContractError as error:  # also what a text becomes backwards may break rules of the language
                self._bound[key] = None
                raise IrreversibleError(f"{text.name} cannot be run backwards: {error}") from None
        if self._bound[key] is None:
            raise IrreversibleError(f"{text.name} cannot be run backwards")
        return self._bound[key]

    def _made(self, text: Algorithm, choice: Choice) -> Any:
        if self._engine == "native":
            return bind(text, self._mechanism, choice.sites, self._name, choice.single)
        return Interpreted(self._name, text, self._mechanism, choice.sites, choice.single, tuple)


def weights_of(name: str, outputs: Sequence[Argument], given: Any) -> dict[str, Any]:
    """Weights by the names that `gradient` gives them: one array, or a tuple if there are several results."""
    several = len(outputs)
    weights = given if several > 1 else (given,)
    if not isinstance(weights, Sequence) or len(weights) != several:
        raise InputError(f"{name}: there are {several} results, so weights are a tuple of {several} arrays")
    return {f"{a.name} weight": weight for a, weight in zip(outputs, weights, strict=True)}


def weighted(rates: Any, weights: Sequence[Any], batch: int) -> Array:
    """The sums of weighted derivatives, whose last axis is kept, after so many batch axes."""
    total: Any = 0.0
    for rate, weight in zip(rates if isinstance(rates, tuple) else (rates,), weights, strict=True):
        product = rate * np.asarray(weight)[..., None]
        total = total + summed(product.reshape(*product.shape[:batch], -1, rate.shape[-1]), axis=-2)
    found: Array = total
    return found


def vectors(algorithm: Algorithm) -> list[Argument]:
    """The inputs of a text that are no wrenches."""
    return [a for a in algorithm.inputs if "frames" not in a.dimensions]


def direction_shape(argument: Argument, mechanism: Mechanism) -> tuple[int, ...]:
    """The shape of a direction of an input: that of q is a tangent."""
    return (mechanism.nv,) if argument.name == "q" else argument.lengths(Algorithm.sizes(mechanism, ()))


@lru_cache(maxsize=256)
def _backwards(algorithm: Algorithm) -> Algorithm:
    wanted = [a.name for a in vectors(algorithm) if a.dimensions]
    return gradient(algorithm, f"{algorithm.name}_vjp", wanted, [f"by {name}" for name in wanted])


class Gradient:
    """Gradients of a weighted sum of a function's results, one for each of its inputs that are vectors."""

    def __init__(self, function: Function[..., Any]) -> None:
        self._function, self._jvp = function, jvp(function)
        self._inputs = vectors(_plain(function.algorithm))
        self._texts = Texts(f"{function.name}.vjp", function.mechanism, function._engine)
        self.name = self.__name__ = f"{function.name}.vjp"
        self.__doc__ = Function.vjp.__doc__

    def __call__(self, *inputs: Any, **choices: Any) -> Any:
        """Gradients, (…, nv) each; one alone if there is one input. Takes the inputs, then the weights."""
        count = len(self._inputs)
        if any(hasattr(x, "__dask_graph__") for x in inputs):
            raise UnsupportedError(f"{self.name} of lazy arrays: map it over blocks, or compute them before")
        if len(inputs) < count + 1:
            names = [a.name for a in self._inputs]
            raise InputError(f"{self.name} takes {', '.join(names)}, then weights of the results' shape")
        weights = weights_of(self.name, self._function.algorithm.outputs, inputs[count])
        arrays, choice = chosen(self._function, (*inputs[:count], *inputs[count + 1 :]), choices)
        self._function.require()
        given = {a.name: x for a, x in zip(self._inputs, arrays, strict=True)}
        product = PRODUCTS.get(self._function.name)
        if product is not None:
            return self._by_columns(product, choice, given["q"], *weights.values())
        text = _backwards(choice.text)
        try:
            found = self._texts.run(text, choice, given | weights)
        except IrreversibleError:
            found = self._by_directions(given, tuple(weights.values()), inputs[count + 1 :], choices)
        return found[0] if isinstance(found, tuple) and len(found) == 1 else found

    def bound(self, *choices: Any, constants: bool = False) -> Any:
        """The text backwards for arrays alone: what bridges to other libraries run; `constants` as of `Function.bound`.

        Raises:
            IrreversibleError: It cannot be run backwards.
        """
        _, choice = chosen(self._function, (*(None for _ in self._inputs), *choices), {})
        text = _backwards(choice.text)
        return self._texts.bound(with_constants(text) if constants else text, choice)

    def _by_columns(self, product: Algorithm, choice: Choice, q: Any, weights: Any) -> Array:
        """Of a matrix: those of its products with all unit vectors, weighted by columns."""
        columns = np.swapaxes(np.asarray(weights), -1, -2)
        arguments.require_shape(f"{self.name}: weights", columns.shape, columns.shape[-1:] * 2)
        given = {"q": np.asarray(q)[..., None, :], "x": np.eye(columns.shape[-1]), "y weight": columns}
        by_q, _ = self._texts.run(_backwards(product), choice, given)
        return summed(by_q, axis=-2)

    def _by_directions(self, given: dict[str, Any], weights: Any, rest: Any, choices: Any) -> tuple[Array, ...]:
        """As many directional derivatives as there are components, in one batch."""
        arrays = {a: np.asarray(given[a.name]) for a in self._inputs}
        batch = np.broadcast_shapes(*(x.shape[: x.ndim - len(a.dimensions)] for a, x in arrays.items()))
        wide = [np.expand_dims(x, x.ndim - len(a.dimensions)) for a, x in arrays.items()]
        shapes = [direction_shape(a, self._function.mechanism) for a in self._inputs]
        found = []
        for i, shape in enumerate(shapes):
            if not shape:
                continue
            directions = [np.eye(shape[0]) if k == i else np.zeros(each) for k, each in enumerate(shapes)]
            rates = self._jvp(*wide, *directions, *rest, **choices)
            last = [np.moveaxis(rate, len(batch), -1) for rate in (rates if isinstance(rates, tuple) else (rates,))]
            found.append(weighted(tuple(last), weights, len(batch)))
        return tuple(found)


def vjp(function: Function[..., Any]) -> Gradient:
    """The gradient of a function's results."""
    return Gradient(function)
