"""Differentiable functions of arrays: value, derivatives of first and second order, in the arrays of any library."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn, Protocol

import numpy as np

from kinetree.algorithms.kinematics.manifold import (
    component_change,
    component_change_change,
    component_gradient,
    component_gradient_change,
)
from kinetree.errors import InputError, SecondDerivativeError
from kinetree.language.algorithm import Algorithm
from kinetree.model.model import Model
from kinetree.model.parameters import Parameters
from kinetree.model.population import Population
from kinetree.runtime.arguments import require_shape
from kinetree.runtime.function import Function
from kinetree.spatial.reproducible import apply
from kinetree.spatial.value import Array

#: What functions are of.
Robot = Model | Population | Parameters


class Arrays(Protocol):
    """An array library."""

    @property
    def numpy(self) -> Any:
        """Its functions that have the names of NumPy's."""

    def run(self, bound: Any, *arrays: Any) -> Any:
        """Call the result of `Function.bound` on arrays with the same batch axes."""

    def apply(self, matrix: Any, vector: Any) -> Any:
        """Matrices times vectors."""

    def recomputed(self, doubts: Any, found: Sequence[Any], again: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        """What was found, and what is found again for samples with doubts, (…), if there are any."""


class NumPy:
    """NumPy arrays."""

    numpy = np

    def run(self, bound: Any, *arrays: Array) -> Any:
        return bound(*arrays)

    def apply(self, matrix: Array, vector: Array) -> Array:
        return apply(matrix, vector)

    def recomputed(self, doubts: Array, found: Sequence[Array], again: Callable[[], Sequence[Array]]) -> list[Array]:
        if not doubts.any():
            return list(found)
        some = [(doubts > 0.0).reshape(doubts.shape + (1,) * (x.ndim - doubts.ndim)) for x in found]
        return [np.where(here, new, old) for here, new, old in zip(some, again(), found, strict=True)]


#: The operations, and for each group of arrays whether there is one for each argument, or one alone.
OPERATIONS = {
    "value": (True,),
    "gradients": (True, False),
    "change": (True, True),
    "bend": (True, True, True),
    "curvature": (True, False, True),
}


class Differentiable(ABC):
    """A function of vectors with common batch axes, whose results are joined in one vector.

    All methods take the arguments first and what is `fixed` last; all but `value` are linear in what is in between.

    Args:
        name: Its name, for messages.
        robot: The model, a population, or parameters.
        arrays: The library whose arrays it takes.
        arguments: Name and length of each argument.
        results: Shape of each result, without batch axes.
        bundle: Type of several results.
    """

    def __init__(
        self,
        name: str,
        robot: Robot,
        arrays: Arrays,
        arguments: Sequence[tuple[str, int]],
        results: Sequence[tuple[int, ...]],
        bundle: Callable[..., Any] | None = None,
    ) -> None:
        self.name, self._arrays = name, arrays
        self.population = robot if isinstance(robot, Population) else None
        self.robot = model_of(name, robot)
        self.names = tuple(argument for argument, _ in arguments)
        self.sizes = tuple(size for _, size in arguments)
        self.results, self.bundle = tuple(results), bundle
        self._is_vector = [len(shape) for shape in self.results] == [1]
        self._maps: dict[Algorithm, Any] = {}

    @property
    def dtype(self) -> Any:
        """The type that it computes in."""
        return self.robot.dtype

    @property
    def size(self) -> int:
        """Length of all results together."""
        return sum(map(math.prod, self.results))

    @property
    def on_host(self) -> bool:
        """Whether it takes NumPy arrays, and must be called back by compiled programs."""
        return isinstance(self._arrays, NumPy)

    @property
    def fixed(self) -> tuple[Array, ...]:
        """Further arguments, without derivatives: the constants of a population."""
        return () if self.population is None else (self.population.constants,)

    @abstractmethod
    def value(self, *arrays: Any) -> Any:
        """The results, (…, size)."""

    @abstractmethod
    def change(self, *arrays: Any) -> Any:
        """Their change along a direction for each argument, (…, size)."""

    @abstractmethod
    def gradients(self, *arrays: Any) -> tuple[Any, ...]:
        """Gradients of the results times weights, (…, size), with respect to each argument."""

    @abstractmethod
    def curvature(self, *arrays: Any) -> tuple[Any, ...]:
        """Changes of these gradients; takes the weights, and then a direction for each argument."""

    def bend(self, *arrays: Any) -> Any:
        """The change of `change` along steps, which come after the directions, (…, size); symmetric in both.

        Here component by component, since the curvature is that of a weighted sum: `size` calls in a batch.
        """
        xp, batch = self._arrays.numpy, arrays[0].shape[:-1]
        wide = self._wide(arrays, self.size)
        weights = xp.broadcast_to(xp.eye(self.size, dtype=arrays[0].dtype), (*batch, self.size, self.size))
        given, directions, steps, fixed = self.groups("bend", wide)
        bent = self.curvature(*given, weights, *steps, *fixed)
        return sum((part * along).sum(-1) for part, along in zip(bent, directions, strict=True))

    def require_curvature(self) -> None:  # noqa: B027 - most have them
        """Raise unless there are second derivatives."""

    def groups(self, operation: str, arrays: Sequence[Any]) -> list[list[Any]]:
        """What an operation takes, in groups: arguments, weights or directions; the last has what is fixed."""
        found, start = [], 0
        for several in OPERATIONS[operation]:
            stop = start + (len(self.sizes) if several else 1)
            found.append(list(arrays[start:stop]))
            start = stop
        return [*found, list(arrays[start:])]

    # Arguments and results

    def in_order(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments in order, given by position or by name."""
        values = dict(zip(self.names, given)) | dict(named)
        if len(given) > len(self.names) or set(values) != set(self.names) or len(values) < len(given) + len(named):
            told = [f"{len(given)} by position", *named]
            raise InputError(f"{self.name} takes ({', '.join(self.names)}), got {', '.join(told)}")
        return tuple(values[name] for name in self.names)

    def arguments(
        self, given: Sequence[Any], converted: Callable[[str, Any], Any]
    ) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """The arguments as arrays, and their common batch shape.

        `converted` converts an argument, given with its name, to an array of the library, and raises if it cannot.
        """
        names = [f"{self.name}: {name}" for name in self.names]
        arrays = tuple(converted(name, array) for name, array in zip(names, given, strict=True))
        shapes = [tuple(array.shape) for array in arrays]
        for name, shape, size in zip(names, shapes, self.sizes, strict=True):
            require_shape(name, shape, (size,))
        shapes += [array.shape for array in self.fixed]
        try:
            batch = np.broadcast_shapes(*(shape[:-1] for shape in shapes))
        except ValueError:
            listed = ", ".join(f"{name} {shape}" for name, shape in zip((*self.names, "population"), shapes))
            raise InputError(f"{self.name}: batch shapes do not broadcast: {listed}") from None
        return arrays, batch

    def shaped(self, joined: Any) -> Any:
        """The results that users see, from all of them in one vector; `joined` has PyTorch's or NumPy's methods."""
        if self._is_vector:
            return joined
        batch, found, start = tuple(joined.shape[:-1]), [], 0
        if len(self.results) == 1:
            return joined.reshape((*batch, *self.results[0]))
        for shape in self.results:
            stop = start + math.prod(shape)
            found.append(joined[..., start:stop].reshape((*batch, *shape)))
            start = stop
        return tuple(found) if self.bundle is None else self.bundle(*found)

    def _flat(self, results: Any, batch: tuple[int, ...]) -> Any:
        """Results of a kernel in one vector."""
        parts = [x.reshape((*batch, -1)) for x in (results if isinstance(results, tuple) else (results,))]
        return parts[0] if len(parts) == 1 else self._arrays.numpy.concatenate(parts, axis=-1)

    # Derivatives along all unit directions

    def _wide(self, arrays: Sequence[Any], count: int) -> list[Any]:
        """Arrays with an axis more, along which they are repeated."""
        xp = self._arrays.numpy
        return [xp.broadcast_to(x[..., None, :], (*x.shape[:-1], count, x.shape[-1])) for x in arrays]

    def _units(self, sizes: Sequence[int], like: Any) -> list[Any]:
        """All unit vectors of arguments of these lengths, (…, n, size) each."""
        xp, batch = self._arrays.numpy, like.shape[:-1]
        parts = xp.split(xp.eye(sum(sizes), dtype=like.dtype), np.cumsum(sizes)[:-1], 1)
        return [xp.broadcast_to(x, (*batch, *x.shape)) for x in parts]

    def _split_slopes(self, rates: Any, weights: Any, sizes: Sequence[int]) -> list[Any]:
        """Products of weights with rates along all unit vectors, (…, n, size), for each argument."""
        found: list[Any] = self._arrays.numpy.split(self._arrays.apply(rates, weights), np.cumsum(sizes)[:-1], -1)
        return found

    # Components of q and tangents

    @cached_property
    def is_plain(self) -> bool:
        """Whether the components of q are tangents: no quaternions or planar joints."""
        q = self.robot.random_configuration(0)
        return self.robot.nq == self.robot.nv and np.array_equal(self.robot.tangent_map(q), np.eye(self.robot.nv))

    def tangent(self, q: Any, dq: Any) -> Any:
        """The tangent for a change of the components of q."""
        return dq if self.is_plain else self._map(component_change, q, dq)

    def tangent_change(self, q: Any, dq: Any, step: Any) -> Any:
        """The change of `tangent` along a change of the components of q."""
        return 0.0 * dq if self.is_plain else self._map(component_change_change, q, dq, step)

    def by_components(self, q: Any, by_q: Any) -> Any:
        """The gradient with respect to the components of q, from that along the tangent."""
        return by_q if self.is_plain else self._map(component_gradient, q, by_q)

    def by_components_change(self, q: Any, by_q: Any, step: Any) -> Any:
        """The change of `by_components` along a change of the components of q, for a constant gradient."""
        return 0.0 * step if self.is_plain else self._map(component_gradient_change, q, by_q, step)

    def _map(self, algorithm: Algorithm, *arrays: Any) -> Any:
        if algorithm not in self._maps:
            function = Function[..., Any](algorithm.name, self.robot.mechanism, algorithm)
            self._maps[algorithm] = function.bound()
        return self._arrays.run(self._maps[algorithm], *arrays)


class OnceDifferentiable(Differentiable):
    """A function with first derivatives only."""

    def curvature(self, *_: Any) -> NoReturn:
        """There is none."""
        refuse_second_derivatives()

    def require_curvature(self) -> NoReturn:
        """There is none."""
        refuse_second_derivatives()


def model_of(name: str, robot: Any) -> Model:
    """The model that a function is of."""
    model = robot.robot if isinstance(robot, (Parameters, Population)) else robot
    if not isinstance(model, Model):
        raise InputError(f"{name} takes a kinetree.Model, got {type(robot).__name__}")
    return model


def refuse(name: str, array: Any, wanted: str) -> InputError:
    """The error for an argument of the wrong array library."""
    kind = type(array)
    return InputError(f"{name} is a {kind.__module__.partition('.')[0]}.{kind.__name__}; {wanted}")


def refuse_complex(name: str) -> InputError:
    """The error for an argument whose imaginary part would be lost."""
    return InputError(f'{name} is complex; pass real numbers (complex ones: robot.….engine("reference"))')


def refuse_second_derivatives(*_: Any, **__: Any) -> NoReturn:
    """Raise where a library would differentiate a derivative that is not differentiable."""
    raise SecondDerivativeError("this derivative cannot be differentiated again")


def refuse_third_derivatives(*_: Any, **__: Any) -> NoReturn:
    """Raise where a library would differentiate a second derivative."""
    raise SecondDerivativeError("second derivatives cannot be differentiated again")
