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
from kinetree.language.algorithm import Algorithm, with_constants
from kinetree.language.forward_mode import directional_derivative
from kinetree.language.mechanism import Mechanism
from kinetree.language.reverse_mode import gradient
from kinetree.runtime import arguments
from kinetree.runtime.function import ENGINES, FrameFunction, Function
from kinetree.runtime.gradients import (
    PRODUCTS,
    Choice,
    Texts,
    by_rows,
    chosen,
    direction_shape,
    vectors,
    weighted,
    weights_of,
)
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


@lru_cache(maxsize=256)
def _forward(algorithm: Algorithm) -> Algorithm:
    text = with_constants(algorithm)
    directions = {f"d{a.name}": a.name for a in vectors(text) if a.name != "q"} | {"dgravity": "gravity"}
    results = tuple(f"d{output.name}" for output in text.outputs)
    return directional_derivative(text, f"{algorithm.name} along parameters", "dq", directions, results)


@lru_cache(maxsize=256)
def _backward(algorithm: Algorithm) -> Algorithm:
    text = with_constants(algorithm)
    wanted = [a.name for a in vectors(text) if a.dimensions] + ["gravity"]
    return gradient(text, f"{algorithm.name} gradient", wanted, [f"by {name}" for name in wanted])


class ParametricFunction:
    """A function of parameters, then of the arguments of a robot's function. Leading axes broadcast as in NumPy.

    Args:
        function: The function, of a robot whose mechanism has the parameters among its constants.
        selection: The parameters.
        guard: Raises if the function is not defined for the robot.
    """

    def __init__(
        self, function: Function[..., Any], selection: Selection, guard: Callable[[], None], engine: str = "native"
    ) -> None:
        self._function, self._selection, self._guard, self._engine = function, selection, guard, engine
        self.name = self.__name__ = function.name
        self.__doc__ = f"{function.__doc__}\n\nTakes the parameters first, (…, {len(selection.numbers)})."
        self._inputs = vectors(function.algorithm)
        self._own = tuple(a.name for a in self._inputs)
        self._texts = Texts(self.name, selection.mechanism, engine)

    def __repr__(self) -> str:
        return f"<{self.name}({', '.join(('p', *self._function._names))}) on the {self._engine} engine>"

    def engine(self, name: str) -> ParametricFunction:
        """The same function on another engine: "native" or "reference"."""
        if name not in ENGINES:
            raise UnknownNameError("engine", name, ENGINES)
        return ParametricFunction(self._function, self._selection, self._guard, name)

    def __call__(self, p: Any, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Compute."""
        given, choice = self._given(p, inputs, named)
        return self._bundled(self._texts.run(with_constants(choice.text), choice, given, out))

    def jvp(self, p: Any, *inputs: Any, **named: Any) -> Any:
        """Rates of change of the results; takes parameters and inputs, then a direction for each, q's a tangent."""
        names, size = ("p", *self._own), len(self._own)
        directions, rest = inputs[size : 2 * size + 1], inputs[2 * size + 1 :]
        if len(directions) < size + 1:
            wanted = ", ".join([*names, *(f"d{name}" for name in names)])
            raise InputError(f"{self.name}.jvp takes {wanted}; got {1 + len(inputs)} arrays")
        given, choice = self._given(p, (*inputs[:size], *rest), named)
        moved = self._constants("dp", directions[0], np.zeros(len(self._selection.nominal)))
        given |= {f"d{name}": array for name, array in zip(self._own, directions[1:], strict=True)}
        given |= {"dconstants": moved, "dgravity": moved[..., -3:]}
        return self._bundled(self._texts.run(_forward(choice.text), choice, given))

    def vjp(self, p: Any, *inputs: Any, **named: Any) -> tuple[Array, ...]:
        """Gradients of the weighted sum of the results with respect to parameters and inputs, q's along the tangent.

        Takes parameters and inputs, then weights of the results' shape: one array, or a tuple if there are several.
        """
        size = len(self._own)
        if len(inputs) < size + 1:
            raise InputError(f"{self.name}.vjp takes p, {', '.join(self._own)}, weights; got {1 + len(inputs)} arrays")
        given, choice = self._given(p, (*inputs[:size], *inputs[size + 1 :]), named)
        weights = weights_of(f"{self.name}.vjp", choice.text.outputs, inputs[size])
        if choice.text.name in PRODUCTS:
            return self._by_rows(choice, given, tuple(weights.values()))
        try:
            return self._gradients(choice.text, choice, given | weights)
        except IrreversibleError:  # of matrices
            rest = inputs[:size], inputs[size + 1 :], named
            wanted = (0, *(i for i, a in enumerate(self._inputs, 1) if a.dimensions))
            every = [self._along_each(p, *rest, which) for which in wanted]
            return tuple(weighted(rates, tuple(weights.values()), batch) for rates, batch in every)

    def derivative(self, p: Any, *inputs: Any, **named: Any) -> Any:
        """Derivatives of the results with respect to the parameters, as their last axis."""
        size = len(self._own)
        found, _ = self._along_each(p, inputs[:size], inputs[size:], named, 0)
        return found[0] if len(found) == 1 else self._bundled(found)

    def count(self, *choices: Any) -> dict[str, Count]:
        """Operations of one evaluation, of its directional derivative and of its gradient."""
        choice, mechanism = self._choice(*choices), self._selection.mechanism
        texts = {"value": with_constants, "jvp": _forward, "vjp": _backward}
        return {name: count(text(choice.text), mechanism, choice.sites) for name, text in texts.items()}

    def _gradients(self, text: Algorithm, choice: Choice, given: dict[str, Any]) -> tuple[Array, ...]:
        backward = _backward(text)
        by = {a.name: x for a, x in zip(backward.outputs, self._texts.run(backward, choice, given), strict=True)}
        of_inputs = (by[f"by {a.name}"] for a in self._inputs if a.dimensions)
        return self._selection.taken(by["by constants"], by["by gravity"]), *of_inputs

    def _by_rows(self, choice: Choice, given: dict[str, Any], weights: Sequence[Any]) -> tuple[Array, ...]:
        """`vjp` of matrices: by their product, one run backwards for each row, in one batch."""
        constants = given.pop("constants")
        product, choice, wide = by_rows(f"{self.name}.vjp", self._selection.mechanism, choice, given, weights)
        wide["constants"] = constants[..., None, :]
        return tuple(summed(each, axis=-2) for each in self._gradients(product, choice, wide))

    def _along_each(self, p: Any, inputs: Any, rest: Any, named: Any, which: int) -> tuple[tuple[Array, ...], int]:
        """Derivatives of the results with respect to parameters, 0, or an input, from 1 on, as their last axis.

        Returns the number of batch axes, too.
        """
        ranks, mechanism = (1, *(len(a.dimensions) for a in self._inputs)), self._selection.mechanism
        arrays = [np.asarray(x) for x in (p, *inputs)]
        batch = np.broadcast_shapes(*(x.shape[: x.ndim - rank] for x, rank in zip(arrays, ranks, strict=True)))
        wide = [np.expand_dims(x, x.ndim - rank) for x, rank in zip(arrays, ranks, strict=True)]
        shapes = [(len(self._selection.numbers),), *(direction_shape(a, mechanism) for a in self._inputs)]
        directions = [np.eye(shape[0]) if i == which else np.zeros(shape) for i, shape in enumerate(shapes)]
        found = self.jvp(*wide, *directions, *rest, **named)
        every = found if isinstance(found, tuple) else (found,)
        return tuple(np.moveaxis(each, len(batch), -1) for each in every), len(batch)

    def _given(self, p: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[dict[str, Any], Choice]:
        """Arrays by name, and what else a call chose."""
        arrays, choice = chosen(self._function, inputs, named)
        self._guard()
        constants = self._constants("p", p, self._selection.nominal)
        return {**dict(zip(self._own, arrays, strict=True)), "constants": constants}, choice

    def _constants(self, name: str, p: Any, around: Array) -> Array:
        selection, kinds = self._selection, "fiu" if self._engine == "native" else "fiucO"
        array = arguments.numbers(self.name, name, p, kinds)
        arguments.require_shape(f"{self.name}: {name}", array.shape, (len(selection.numbers),))
        made = np.empty((*array.shape[:-1], len(around)), dtype=np.result_type(array, np.float64))
        made[...], made[..., selection.numbers] = around, array
        return rounded(made, format_of(selection.mechanism).dtype) if self._engine == "native" else made

    def _bundled(self, found: Any) -> Any:
        bundle = self._function._bundle
        return bundle(*found) if isinstance(found, tuple) and bundle is not tuple else found

    def bound(self, which: str, *choices: Any) -> Any:
        """The recursion of "value", "jvp" or "vjp" for arrays alone: what bridges to other libraries run.

        Choices are frames and reference, where the function has these.

        Raises:
            IrreversibleError: There is no such "vjp".
        """
        self._guard()
        choice = self._choice(*choices)
        text = {"value": with_constants, "jvp": _forward, "vjp": _backward}[which](choice.text)
        return self._texts.bound(text, choice)

    @property
    def selection(self) -> Selection:
        """Which constants the parameters are."""
        return self._selection

    def _choice(self, *choices: Any) -> Choice:
        """What a call chooses by frames and reference, where the function has these."""
        function, text, sites = self._function, self._function.algorithm, self._function.sites
        single = bool(choices) and isinstance(choices[0], str)
        if isinstance(function, FrameFunction):
            text, sites = function._for(*choices[1:]), function._sites(choices[0] if choices else None)
        return Choice(text if text.own is None else text.own, sites, single, ())
