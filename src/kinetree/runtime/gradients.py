"""`vjp` of any function of a configuration.

The text of a function, run backwards (`language.reverse_mode`), has the gradients with respect to all of its inputs, at
a few times its own cost. Texts of matrices use loops that cannot be run backwards, but their products with vectors are
recursions that can: the gradient is one of these for each row, in one batch. Without such a product, it takes as many
directional derivatives as the inputs have components.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from kinetree.compiler.count import Count, count
from kinetree.errors import ContractError, InputError, IrreversibleError, UnsupportedError
from kinetree.language.algorithm import Algorithm, Argument, with_constants
from kinetree.language.mechanism import Mechanism, Site
from kinetree.language.reverse_mode import gradient
from kinetree.runtime import arguments
from kinetree.runtime.forward_derivatives import along_inputs, jvp
from kinetree.runtime.function import ForcedFunction, FrameFunction, Function
from kinetree.runtime.kernels import bind
from kinetree.runtime.reference import Interpreted
from kinetree.spatial.reproducible import summed
from kinetree.spatial.value import Array

#: Texts of products y of matrices with x, by the name of the text that has the matrices; `model` fills it.
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


class Rows(NamedTuple):
    """The product of matrices, backwards: it takes rows of weights by the names in `taken`, and unit vectors."""

    bound: Any
    taken: dict[str, tuple[int, ...]]  # their shapes
    weight: str
    shape: tuple[int, ...]  # of the product


def by_rows(
    name: str, mechanism: Mechanism, choice: Choice, given: dict[str, Any], weights: Sequence[Any]
) -> tuple[Algorithm, Choice, dict[str, Any]]:
    """What to run backwards for the gradient of weighted matrices, and its inputs, with a sample for each row."""
    text, product = choice.text, PRODUCTS[choice.text.name]
    sizes, own = Algorithm.sizes(mechanism, choice.sites), {a.name: a for a in text.inputs}
    (result,), taken = product.outputs, [a for a in product.inputs if a.name not in own]
    wide = {n: np.expand_dims(x, np.ndim(x) - len(own[n].dimensions)) for n, x in given.items() if n in own}
    rows: tuple[int, ...] = ()
    for x, matrix, weight in zip(taken, text.outputs, map(np.asarray, weights), strict=True):
        lengths = _lengths(matrix, sizes, choice.single)
        arguments.require_shape(f"{name}: weights", weight.shape, lengths)
        kept = _lengths(x, sizes, choice.single)
        rows = lengths[: len(lengths) - len(kept)]
        wide[x.name] = weight.reshape(*weight.shape[: weight.ndim - len(lengths)], -1, *kept)
    wide[f"{result.name} weight"] = np.eye(math.prod(rows)).reshape(-1, *rows)
    return product, choice._replace(wrenches=tuple(np.expand_dims(w, -3) for w in choice.wrenches)), wide


def _lengths(argument: Argument, sizes: dict[str, int], single: bool) -> tuple[int, ...]:
    """The shape of an argument, without the axis of frames if there is a single one."""
    lengths = argument.lengths(sizes)
    return tuple(n for n, d in zip(lengths, argument.dimensions, strict=True) if not (single and d == "frames"))


def vectors(algorithm: Algorithm) -> list[Argument]:
    """The inputs of a text that are no wrenches."""
    return [a for a in algorithm.inputs if "frames" not in a.dimensions]


def direction_shape(argument: Argument, mechanism: Mechanism) -> tuple[int, ...]:
    """The shape of a direction of an input: that of q is a tangent."""
    return (mechanism.nv,) if argument.name == "q" else argument.lengths(Algorithm.sizes(mechanism, ()))


@lru_cache(maxsize=256)
def _backwards(algorithm: Algorithm, wanted: tuple[str, ...] | None = None) -> Algorithm:
    """Gradients with respect to some inputs, by default all that are vectors."""
    wanted = tuple(a.name for a in vectors(algorithm) if a.dimensions) if wanted is None else wanted
    return gradient(algorithm, f"{algorithm.name}_vjp", wanted, [f"by {name}" for name in wanted])


class Gradient:
    """Gradients of a weighted sum of a function's results, one for each of its inputs that are vectors."""

    def __init__(self, function: Function[..., Any]) -> None:
        self._function, self._jvp = function, jvp(function)
        self._inputs = vectors(_plain(function.algorithm))
        self._wanted = tuple(a.name for a in self._inputs if a.dimensions)
        self._texts = Texts(f"{function.name}.vjp", function.mechanism, function._engine)
        self.name = self.__name__ = f"{function.name}.vjp"
        self.__doc__ = Function.vjp.__doc__

    def __repr__(self) -> str:
        return f"<{self.name} on the {self._function._engine} engine>"

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._function, "vjp")

    def engine(self, name: str) -> Gradient:
        """The same on another engine: "native" or "reference"."""
        other: Gradient = self._function.engine(name).vjp
        return other

    def compile(self, *choices: Any, **named: Any) -> None:
        """Compile now what later calls will need, for a choice of frames if the function has these."""
        choice, text, _ = self._chosen(choices, named)
        if self._function._engine == "native":
            try:
                self._texts.bound(text, choice).compile()
            except IrreversibleError:
                self._jvp.compile()

    def count(self, *choices: Any, **named: Any) -> Count:
        """Operations of one evaluation, for a choice of frames if the function has these."""
        (choice, text, runs), mechanism = self._chosen(choices, named), self._function.mechanism
        try:
            return count(text, mechanism, choice.sites) * runs
        except ContractError:
            runs = sum(sum(direction_shape(a, mechanism)) for a in self._inputs)
            return count(along_inputs(choice.text), mechanism, choice.sites) * runs

    def _chosen(self, choices: tuple[Any, ...], named: dict[str, Any]) -> tuple[Choice, Algorithm, int]:
        """What a call without arrays chooses, the text to run backwards, and how often."""
        _, choice = chosen(self._function, (*(None for _ in self._inputs), *choices), named)
        product = PRODUCTS.get(choice.text.name)
        if product is None:
            return choice, _backwards(choice.text), 1
        sizes = Algorithm.sizes(self._function.mechanism, choice.sites)
        return choice, _backwards(product, self._wanted), math.prod(product.outputs[0].lengths(sizes))

    def __call__(self, *inputs: Any, out: Any = None, **choices: Any) -> Any:
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
        if choice.text.name in PRODUCTS:
            found = self._by_rows(choice, given, tuple(weights.values()))
        else:
            try:
                found = self._texts.run(_backwards(choice.text), choice, given | weights)
            except IrreversibleError:
                found = self._by_directions(given, tuple(weights.values()), inputs[count + 1 :], choices)
        every = found if isinstance(found, tuple) else (found,)
        if out is not None:
            shapes = [each.shape for each in every]
            homes = arguments.results(self.name, out, [f"by {name}" for name in self._wanted], shapes, every[0].dtype)
            for home, each in zip(homes, every, strict=True):
                home[...] = each
            return out
        return every[0] if len(every) == 1 else every

    def bound(self, *choices: Any, constants: bool = False) -> Any:
        """The text backwards for arrays alone: what bridges to other libraries run; `constants` as of `Function.bound`.

        Raises:
            IrreversibleError: It cannot be run backwards.
        """
        _, choice = chosen(self._function, (*(None for _ in self._inputs), *choices), {})
        text = _backwards(choice.text)
        return self._texts.bound(with_constants(text) if constants else text, choice)

    def rows(self, *choices: Any, constants: bool = False) -> Rows | None:
        """Of matrices, what `bound` is of other functions: their product backwards; None for other functions."""
        choice, text, _ = self._chosen(choices, {})
        product = PRODUCTS.get(choice.text.name)
        if product is None:
            return None
        sizes, own = Algorithm.sizes(self._function.mechanism, choice.sites), {a.name for a in choice.text.inputs}
        (y,), taken = product.outputs, {a.name: a for a in product.inputs if a.name not in own}
        lengths = {name: _lengths(x, sizes, choice.single) for name, x in taken.items()}
        bound = self._texts.bound(with_constants(text) if constants else text, choice)
        return Rows(bound, lengths, f"{y.name} weight", _lengths(y, sizes, choice.single))

    def _by_rows(self, choice: Choice, given: dict[str, Any], weights: Sequence[Any]) -> tuple[Array, ...]:
        """Of matrices: by their product, one run backwards for each row, in one batch."""
        product, choice, wide = by_rows(self.name, self._function.mechanism, choice, given, weights)
        found = self._texts.run(_backwards(product, self._wanted), choice, wide)
        return tuple(summed(each, axis=-2) for each in (found if isinstance(found, tuple) else (found,)))

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
