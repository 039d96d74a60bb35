"""Texts of several functions in a row, written once: recorded into a `Sequence`, or executed on arrays.

    def text(run, q, tau):
        a = run(forward_dynamics, q, np.zeros(7), tau)      a function, on values and constants
        return a, [q, run.taken(a, [2, 0])]                 results: values, or lists of values that are joined

Values are the inputs, and what `run` returns: places in memory, or samples of a batch. Texts pass them on, and take,
place and join their elements:

    run.taken(x, numbers)               elements of x, counted in row-major order, in the shape of `numbers`
    run.placed(x, numbers, shape)       zeros of a shape, with the elements of x in these places
    run.joined(x, y, …)                 arrays one after another along their first axis; numbers become arrays of one
    run.of_rows(f, x, A, (m, n))        f(x, row) of each row of a matrix of shape (m, n)
    run.cases(x, limits, texts, sizes)  the results of the text for numbers x up to the smallest limit that will do, one
                                        of several; those of the same sizes that are shorter end with zeros
    run.sharing(f, inputs, users)       f's first result is the first input of some others: these as functions of their
                                        other inputs, all in one memory; and f's other results

Large results need not be copied to where they are used:

    f = run.prepared(function)          the function with memory for its inputs, to be called later: run(f, x, y)
    run.feeding(f, names, g, x, …)      results of g, made where f has its inputs of these names; None for a new place
    run.concluding(i, g, x, …)          results of g, which are those of the text from number i on

`recorded` makes one compiled function of a text. `executed` runs it in Python, with each of its functions on the engine
of the user's choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kinetree.runtime.bound import Compiled
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import Call, MemorySpan
from kinetree.runtime.sequence import KernelSequence as NativeSequence
from kinetree.spatial.value import Array

#: Takes what runs functions, and the inputs; returns the results.
Text = Callable[..., Sequence[Any]]


class Varied(NamedTuple):
    """What differs from sample to sample where other texts have a constant: an input of this name."""

    name: str


#: Inputs that functions and `Varied` take by their names.
BY_NAME = ("constants", "joint damping", "joint friction", "ground friction")


def recorded(name: str, inputs: Sequence[Operand], outputs: Sequence[Operand], text: Text) -> Compiled:
    """A text as one compiled function."""
    sequence = NativeSequence(name, inputs, outputs)
    places = zip(inputs, sequence.inputs, strict=True)
    # functions of a population take its constants, an input of that name, unless they are given
    sequence.defaults.update({o.name: place for o, place in places if o.name in BY_NAME})
    results = text(Recording(sequence), *sequence.inputs)
    for result, place in zip(results, sequence.outputs, strict=True):
        start = 0
        for part in result if isinstance(result, list) else [result]:
            value = part if isinstance(part, MemorySpan) else sequence.constant(part)
            if value != place:
                sequence.copy(value, place.part(start, value.size))
            start += value.size
    return sequence.finish()


def executed(inputs: Sequence[Operand], text: Text, engine: str = "reference") -> Callable[..., tuple[Array, ...]]:
    """A text as a function of arrays with leading batch axes, which broadcast."""

    def run(*arrays: Any) -> tuple[Array, ...]:
        given = list(zip(map(np.asarray, arrays), inputs, strict=True))
        batch = np.broadcast_shapes(*(x.shape[: x.ndim - len(operand.shape)] for x, operand in given))
        execution = Execution(batch, engine)
        found = text(execution, *(Samples(np.broadcast_to(x, (*batch, *operand.shape))) for x, operand in given))
        joined = (execution.joined(*x) if isinstance(x, list) else x for x in found)
        return tuple(np.array(execution.array(x)) for x in joined)

    return run


class Recording:
    """Records what a text runs; values are places in memory."""

    def __init__(self, sequence: NativeSequence, results: Sequence[MemorySpan | None] | None = None) -> None:
        self._sequence = sequence
        #: Places of the text's results, if it is a part of the sequence: those that `concluding` has.
        self._results = sequence.outputs if results is None else results

    def __call__(self, function: Any, *inputs: Any) -> Any:
        inputs = tuple(self._sequence.defaults[x.name] if isinstance(x, Varied) else x for x in inputs)
        if isinstance(function, Prepared):
            return self._sequence.call(function.function, *inputs, prepared=function.call)
        return self._sequence.call(function, *inputs)

    def named(self, name: str) -> MemorySpan | None:
        """The input of a name, one of `BY_NAME`, if there is one."""
        return self._sequence.defaults.get(name)

    def prepared(self, function: Any) -> Prepared:
        """See the module's docstring."""
        return Prepared(function, self._sequence.prepare(function))

    def feeding(self, user: Prepared, names: Sequence[str | None], function: Any, *inputs: Any) -> Any:
        """See the module's docstring."""
        places = [None if name is None else user.call.place(name) for name in names]
        given = {"prepared": function.call} if isinstance(function, Prepared) else {}
        return self._sequence.call(function.function if given else function, *inputs, into=places, **given)

    def concluding(self, number: int, function: Any, *inputs: Any) -> Any:
        """See the module's docstring."""
        given = {"prepared": function.call} if isinstance(function, Prepared) else {}
        function = function.function if given else function
        count = len(function.bound().binding.outputs)
        return self._sequence.call(function, *inputs, into=self._results[number : number + count], **given)

    def of_rows(self, function: Any, x: MemorySpan, rows: MemorySpan, shape: tuple[int, int]) -> MemorySpan:
        """See the module's docstring."""
        place, (count, length) = self._sequence.space(rows.size), shape
        with self._sequence.loop(count) as row:
            found = self._sequence.call(function, x, rows.at(row, length))
            self._sequence.copy(found, place.at(row, length))
        return place

    def sharing(self, function: Any, inputs: Sequence[Any], users: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """See the module's docstring."""
        calls = self._sequence.share(*users)
        outputs = len(function.bound().binding.outputs)
        _, *found = self._sequence.call(function, *inputs, into=[calls[0].inputs[0], *[None] * (outputs - 1)])
        return [partial(self._shared, call) for call in calls], found

    def _shared(self, call: Call, *given: Any) -> MemorySpan:
        inputs = [x if isinstance(x, MemorySpan) else self._sequence.constant(x) for x in given]
        # those of a population come last; calls of others have overwritten them
        constants = [self._sequence.defaults["constants"]] if len(call.inputs) > 1 + len(inputs) else []
        (result,) = call.run(None, *inputs, *constants)
        return result

    def cases(self, x: MemorySpan, limits: Sequence[int], texts: Sequence[Text], sizes: Sequence[int]) -> list[Any]:
        """See the module's docstring."""
        places = [self._sequence.space(size) for size in sizes]
        for i in self._sequence.cases(x, limits):
            for value, place in zip(texts[i](), places, strict=True):
                size = _size(value)
                if size:
                    part = value if isinstance(value, MemorySpan) else self._sequence.constant(value)
                    self._sequence.copy(part, place.part(0, size))
                if size < place.size:
                    self._sequence.clear(place.part(size, place.size - size))
        return places

    def taken(self, x: Any, numbers: Any) -> MemorySpan:
        """See the module's docstring."""
        numbers = np.ravel(numbers)
        source: MemorySpan = x if isinstance(x, MemorySpan) else self._sequence.constant(x)
        if len(numbers) and (np.diff(numbers) == 1).all():
            return source.part(int(numbers[0]), len(numbers))
        place = self._sequence.space(len(numbers))
        for at, start, size in consecutive(numbers):
            self._sequence.copy(source.part(start, size), place.part(at, size))
        return place

    def placed(self, x: MemorySpan, numbers: Any, shape: tuple[int, ...]) -> MemorySpan:
        """See the module's docstring."""
        place = self._sequence.variable(self._sequence.constant(np.zeros(math.prod(shape))))
        for at, start, size in consecutive(np.ravel(numbers)):
            self._sequence.copy(x.part(at, size), place.part(start, size))
        return place

    def joined(self, *parts: Any) -> MemorySpan:
        """See the module's docstring."""
        some = [x if isinstance(x, MemorySpan) else self._sequence.constant(x) for x in parts if _size(x)]
        if len(some) == 1:
            return some[0]
        place, start = self._sequence.space(sum(x.size for x in some)), 0
        for x in some:
            self._sequence.copy(x, place.part(start, x.size))
            start += x.size
        return place


class Prepared(NamedTuple):
    """A function, and memory for its inputs."""

    function: Any
    call: Call


class Samples(NamedTuple):
    """A value for each sample of a batch, which a constant is not."""

    array: Array  # with the leading axes of the batch


class Execution:
    """Executes what a text runs; values are `Samples`."""

    def __init__(self, batch: tuple[int, ...], engine: str) -> None:
        self._batch, self._engine = batch, engine

    def __call__(self, function: Any, *inputs: Any) -> Any:
        function = function.bound() if self._engine == "native" else function.engine(self._engine)
        found = function(*(x.array if isinstance(x, Samples) else x for x in inputs))
        return [Samples(x) for x in found] if isinstance(found, tuple) else Samples(found)

    def named(self, _: str) -> None:
        """Inputs by name are for recorded texts."""

    def prepared(self, function: Any) -> Any:
        """See the module's docstring."""
        return function

    def feeding(self, _user: Any, _names: Sequence[str | None], function: Any, *inputs: Any) -> Any:
        """See the module's docstring."""
        return self(function, *inputs)

    def concluding(self, _number: int, function: Any, *inputs: Any) -> Any:
        """See the module's docstring."""
        return self(function, *inputs)

    def array(self, x: Any) -> Array:
        """A value, or a constant for each sample."""
        return x.array if isinstance(x, Samples) else np.broadcast_to(x, (*self._batch, *np.shape(x)))

    def of_rows(self, function: Any, x: Samples, rows: Samples, _: tuple[int, int]) -> Samples:
        """See the module's docstring."""
        found: Samples = self(function, Samples(x.array[..., None, :]), rows)
        return found

    def sharing(self, function: Any, inputs: Sequence[Any], users: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """See the module's docstring."""
        first, *found = self(function, *inputs)
        return [partial(self, user, first) for user in users], found

    def cases(self, x: Samples, limits: Sequence[int], texts: Sequence[Text], sizes: Sequence[int]) -> list[Samples]:
        """See the module's docstring."""
        largest = np.fmax.reduce(np.ravel(x.array), initial=0.0)
        number = next((i for i, limit in enumerate(limits) if largest <= limit), len(limits) - 1)
        found = []
        for value, size in zip(texts[number](), sizes, strict=True):
            flat = self.array(value).reshape(*self._batch, -1)
            missing = [*[(0, 0)] * len(self._batch), (0, size - flat.shape[-1])]
            found.append(Samples(np.pad(flat, missing)))
        return found

    def taken(self, x: Samples, numbers: Any) -> Samples:
        """See the module's docstring."""
        return Samples(self._flat(x)[..., np.asarray(numbers, dtype=int)])

    def placed(self, x: Samples, numbers: Any, shape: tuple[int, ...]) -> Samples:
        """See the module's docstring."""
        place = np.zeros((*self._batch, math.prod(shape)), x.array.dtype)
        place[..., np.ravel(np.asarray(numbers, dtype=int))] = self._flat(x)
        return Samples(place.reshape(*self._batch, *shape))

    def joined(self, *parts: Any) -> Samples:
        """See the module's docstring."""
        axis, arrays = len(self._batch), [self.array(x) for x in parts]
        return Samples(np.concatenate([x if x.ndim > axis else x[..., None] for x in arrays], axis=axis))

    def _flat(self, x: Any) -> Array:
        array = self.array(x)
        return array.reshape(*self._batch, math.prod(array.shape[len(self._batch) :]))


def _size(x: Any) -> int:
    return x.size if isinstance(x, MemorySpan) else int(np.size(x))


def consecutive(numbers: Array) -> list[tuple[int, int, int]]:
    """Consecutive numbers: where they are, the first one, and how many."""
    if not len(numbers):
        return []
    starts = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist()]
    stops = [*starts[1:], len(numbers)]
    return [(start, int(numbers[start]), stop - start) for start, stop in zip(starts, stops, strict=True)]
