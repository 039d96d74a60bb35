"""Compiled functions called one after another, in loops, without Python in between: one function made of several.

A `KernelSequence` records calls of `Compiled` functions on places in memory. Recording works like an ordinary
computation: `call` returns the places of the results, and a loop is a `with` block.

    steps = KernelSequence("rollout", [Operand("q", (7,)), …], [Operand("qs", (100, 7)), …])
    q = steps.variable(steps.inputs[0])
    with steps.loop(100) as t:
        (after,) = steps.call(step, q, …)
        steps.copy(after, q)
        steps.copy(after, steps.outputs[0].at(t, 7))
    rollout = steps.finish()

The result is a `Compiled` like any other: it broadcasts, uses lanes and threads, and can be part of another sequence.
All memory stays in lanes between calls. Each sample has the bits of the same calls made from Python.

The kernel is the same for all sequences. It has the interface of every kernel, `void kernel(ws, params, tables, in,
outs)`, and interprets the words of `tables`: calls of other kernels, copies, and loops around them.

    word 0        number of outputs
    word 1        position of the instruction to start with
    from word 2   instructions: `Code`, the position of the next one, then what the instruction needs

A *place* in lane-interleaved memory takes `PLACE_WORDS` words: the space (0 scratch memory, 1 inputs, 2 + i output i),
the offset of its first element, and for each level of loops how far it moves with the loop's index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Several
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from kinetree.compiler.formats import FLOAT64, Format
from kinetree.compiler.llvm import machine_code
from kinetree.compiler.llvm.writer import FunctionWriter
from kinetree.runtime.bound import Compiled, load_driver
from kinetree.runtime.compile_queue import CompileJob, Libraries, Library
from kinetree.runtime.copying import ALIGNMENT
from kinetree.runtime.operands import Array, Binding, Operand, PlanWord, plan

#: Greatest number of loops inside each other.
LEVELS = 3
PLACE_WORDS = 2 + LEVELS
#: Most outputs of a sequence, and of a kernel that it calls.
MOST_OUTPUTS = 30


class Code(IntEnum):
    """Instructions, with the words that follow the first two."""

    STOP = 0
    # array of the kernel's addresses by log₂ of the lane width, parameters, tables, offset of its scratch memory,
    # offset of its inputs, number of outputs, their places
    CALL = 1
    COPY = 2  # number of elements, to, from
    FILL = 3  # number of elements, address of numbers, to
    ZERO = 4  # number of elements, to
    MIRROR = 5  # number of rows, square
    LOOP = 6  # level
    END = 7  # level, number of rounds, position of the loop's first instruction
    JUMP = 8  # nothing: the next instruction is elsewhere
    TEST = 9  # an integer, a number: the position of the next instruction unless the number is larger in some lane
    # addresses of a driver and its plan, offsets of scratch memory for addresses and for the driver, number of
    # operands, number of samples, distances of the samples of each operand in bytes, their places; in single samples
    BATCH = 10


def sequence_text(width: int, scalar: Format = FLOAT64) -> str:
    """LLVM IR of the kernel for a lane width and format."""
    declared = [
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    ]
    return "\n".join([_place(width, scalar), _kernel(width, scalar), *declared])


def _place(width: int, scalar: Format) -> str:
    f = FunctionWriter("define internal ptr @place(ptr %bases, ptr %indices, ptr %words)")
    base, element = f.address("%bases", f.word("%words", 0)), f.word("%words", 1)
    for level in range(LEVELS):
        step = f.let(f"mul i64 {f.word('%words', 2 + level)}, {f.word('%indices', level)}")
        element = f.let(f"add i64 {element}, {step}")
    return f.text(f"ptr {f.at(base, f.let(f'mul i64 {element}, {scalar.bytes * width}'))}")


def _kernel(width: int, scalar: Format) -> str:
    lanes, one, align = f"<{width} x {scalar.llvm}>", scalar.llvm, f"align {scalar.bytes}"
    f = FunctionWriter("define void @kernel(ptr %ws, ptr %params, ptr %tables, ptr %in, ptr %outs)")
    bases = f.let(f"alloca ptr, i64 {2 + MOST_OUTPUTS}, align 8")
    outs = f.let(f"alloca ptr, i64 {MOST_OUTPUTS}, align 8")
    indices = f.let(f"alloca i64, i64 {LEVELS}, align 8")
    following = f.let("alloca i64, align 8")

    def put(kind: str, value: str | int, pointer: str, index: str | int = 0) -> None:
        f.do(f"store {kind} {value}, ptr {f.at(pointer, index, kind)}, align 8")

    def place(words: str, at: str | int) -> str:
        return f.let(f"call ptr @place(ptr {bases}, ptr {indices}, ptr {f.at(words, at, 'i64')})")

    def in_bytes(elements: str) -> str:
        return f.let(f"mul i64 {elements}, {scalar.bytes * width}")

    def copy(to: str, source: str, size: str) -> None:
        f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {align} {to}, ptr {align} {source}, i64 {size}, i1 0)")

    put("ptr", "%ws", bases)
    put("ptr", "%in", bases, 1)
    with f.loop(0, f.word("%tables")) as o:
        put("ptr", f.address("%outs", o), bases, f.let(f"add i64 {o}, 2"))
    for level in range(LEVELS):
        put("i64", 0, indices, level)

    with f.following(f.word("%tables", 1), following) as position:
        words = f.at("%tables", position, "i64")
        put("i64", f.word(words, 1), following)
        known = {code.value: code.value for code in Code if code != Code.BATCH or width == 1}
        with f.switch(f.word(words), known, exhaustive=False) as codes:
            for code in codes:
                if code == Code.STOP:
                    put("i64", -1, following)
                elif code == Code.CALL:
                    kernel = f.address(f.address(words, 2), width.bit_length() - 1)
                    parameters, tables = f.address(words, 3), f.address(words, 4)
                    scratch, inputs = (f.at("%ws", in_bytes(f.word(words, i))) for i in (5, 6))
                    with f.loop(0, f.word(words, 7)) as o:
                        at = f.let(f"add i64 {f.let(f'mul i64 {o}, {PLACE_WORDS}')}, 8")
                        put("ptr", place(words, at), outs, o)
                    pointers = ", ".join(f"ptr {p}" for p in (scratch, parameters, tables, inputs, outs))
                    f.do(f"call void {kernel}({pointers})")
                elif code == Code.COPY:
                    size, to, source = in_bytes(f.word(words, 2)), place(words, 3), place(words, 3 + PLACE_WORDS)
                    copy(to, source, size)
                elif code == Code.FILL:
                    numbers, to = f.address(words, 3), place(words, 4)
                    if width == 1:
                        copy(to, numbers, in_bytes(f.word(words, 2)))
                        continue
                    with f.loop(0, f.word(words, 2)) as element:
                        number = f.let(f"load {one}, ptr {f.at(numbers, element, one)}, {align}")
                        vector = f.let(f"insertelement {lanes} poison, {one} {number}, i64 0")
                        mask = f"<{width} x i32> zeroinitializer"
                        vector = f.let(f"shufflevector {lanes} {vector}, {lanes} poison, {mask}")
                        f.do(f"store {lanes} {vector}, ptr {f.at(to, element, lanes)}, {align}")
                elif code == Code.ZERO:
                    size, to = in_bytes(f.word(words, 2)), place(words, 3)
                    f.do(f"call void @llvm.memset.p0.i64(ptr {align} {to}, i8 0, i64 {size}, i1 0)")
                elif code == Code.MIRROR:
                    _mirror(f, lanes, align, f.word(words, 2), place(words, 3))
                elif code == Code.LOOP:
                    put("i64", 0, indices, f.word(words, 2))
                elif code == Code.END:
                    index = f.word(words, 2)
                    rounds = f.let(f"add i64 {f.word(indices, index)}, 1")
                    more = f.let(f"icmp slt i64 {rounds}, {f.word(words, 3)}")
                    put("i64", f.let(f"select i1 {more}, i64 {rounds}, i64 0"), indices, index)
                    target = f.let(f"select i1 {more}, i64 {f.word(words, 4)}, i64 {f.word(words, 1)}")
                    put("i64", target, following)
                elif code == Code.TEST:
                    limit = f.let(f"sitofp i64 {f.word(words, 2)} to {one}")
                    limits = f.let(f"insertelement {lanes} poison, {one} {limit}, i64 0")
                    mask = f"<{width} x i32> zeroinitializer"
                    limits = f.let(f"shufflevector {lanes} {limits}, {lanes} poison, {mask}")
                    number = f.let(f"load {lanes}, ptr {place(words, 4)}, {align}")
                    larger = f.let(f"fcmp ogt {lanes} {number}, {limits}")
                    some = f.let(f"icmp ne i{width} {f.let(f'bitcast <{width} x i1> {larger} to i{width}')}, 0")
                    target = f.let(f"select i1 {some}, i64 {f.word(words, 1)}, i64 {f.word(words, 3)}")
                    put("i64", target, following)
                elif code == Code.BATCH:
                    _batch(f, words, place, in_bytes)
    return f.text()


def _batch(f: FunctionWriter, words: str, place: Callable[[str, str], str], in_bytes: Callable[[str], str]) -> None:
    """Run a driver."""
    slots, (addresses, memory) = f.address(words, 2), (f.at("%ws", in_bytes(f.word(words, i))) for i in (3, 4))
    count, dims, steps = f.word(words, 5), f.at(words, 6, "i64"), f.at(words, 7, "i64")
    with f.loop(0, count) as k:
        at = f.let(f"add i64 {f.let(f'mul i64 {k}, {PLACE_WORDS}')}, {f.let(f'add i64 {count}, 7')}")
        f.do(f"store ptr {place(words, at)}, ptr {f.at(addresses, k, 'ptr')}, align 8")
    given = ", ".join(f"ptr {p}" for p in (addresses, dims, steps, f.address(slots, 1), memory))
    f.do(f"call void {f.address(slots)}({given})")


def _mirror(f: FunctionWriter, lanes: str, align: str, n: str, square: str) -> None:
    """Copy the upper triangle to the lower one."""
    with f.loop(0, n) as i, f.loop(f.let(f"add i64 {i}, 1"), n) as j:
        upper = f.at(square, f.let(f"add i64 {f.let(f'mul i64 {i}, {n}')}, {j}"), lanes)
        lower = f.at(square, f.let(f"add i64 {f.let(f'mul i64 {j}, {n}')}, {i}"), lanes)
        f.do(f"store {lanes} {f.let(f'load {lanes}, ptr {upper}, {align}')}, ptr {lower}, {align}")


# elements; places in scratch memory start at cache lines
_LINE = 8
_SCRATCH, _INPUTS, _OUTPUTS = 0, 1, 2
# position of the first instruction; constants are filled in before it
_FIRST = 2
#: Lane widths are powers of two; this is the number of them, from 1 to 16.
_WIDTHS = 5


@dataclass(frozen=True)
class Index:
    """The index of a loop."""

    level: int  # number of loops around it
    rounds: int


@dataclass(frozen=True)
class MemorySpan:
    """Consecutive elements in memory."""

    space: int  # scratch memory, the inputs, or one of the outputs
    offset: int  # the first element
    size: int
    steps: tuple[int, ...] = (0,) * LEVELS  # how far it moves with the index of the loop at each level

    def part(self, start: int, size: int) -> MemorySpan:
        """Some of its elements."""
        return replace(self, offset=self.offset + start, size=size)

    def at(self, index: Index, size: int, step: int | None = None) -> MemorySpan:
        """`size` elements from number index · step on; `step` is `size` by default."""
        steps = list(self.steps)
        steps[index.level] += size if step is None else step
        return replace(self, size=size, steps=tuple(steps))

    @property
    def words(self) -> list[int]:
        """As the kernel reads it."""
        return [self.space, self.offset, *self.steps]


class KernelSequence:
    """Records calls; see the module's docstring. All functions called compute in the same format."""

    def __init__(
        self,
        name: str,
        inputs: Several[Operand],
        outputs: Several[Operand],
        bundle: type[tuple[Any, ...]] = tuple,
        scalar: Format = FLOAT64,
    ) -> None:
        if len(outputs) > MOST_OUTPUTS:
            raise ValueError(f"{name}: a sequence has at most {MOST_OUTPUTS} outputs")
        self._name, self._operands, self._bundle, self._scalar = name, (tuple(inputs), tuple(outputs)), bundle, scalar
        starts = np.cumsum([0, *(operand.size for operand in inputs)]).tolist()
        #: The places of the inputs.
        self.inputs = [MemorySpan(_INPUTS, start, o.size) for start, o in zip(starts, inputs, strict=False)]
        #: Places that calls take for the last inputs of a function, by name, unless they are given.
        self.defaults: dict[str, MemorySpan] = {}
        #: The places of the outputs.
        self.outputs = [MemorySpan(_OUTPUTS + i, 0, o.size) for i, o in enumerate(outputs)]
        self._words: list[int] = [len(outputs), 0]
        self._prologue: list[list[int]] = []
        self._used, self._shared, self._single, self._level = 0, 0, 0, 0
        self._rounds, self._called = 1, 0  # of all loops around a call; what calls touch
        self._calls: list[int] = []
        self._kept: list[Any] = []
        self._callees: dict[int, tuple[Compiled, Array]] = {}
        self._batches: list[tuple[Compiled, int, Array]] = []

    def space(self, size: int) -> MemorySpan:
        """Scratch memory."""
        place = MemorySpan(_SCRATCH, self._used, size)
        self._used += -(-size // _LINE) * _LINE
        return place

    def variable(self, value: MemorySpan) -> MemorySpan:
        """A copy, to be overwritten."""
        place = self.space(value.size)
        self.copy(value, place)
        return place

    def copy(self, source: MemorySpan, to: MemorySpan) -> None:
        """Copy elements."""
        if source.size != to.size:
            raise ValueError(f"{self._name}: {source.size} elements are copied to {to.size}")
        self._do(Code.COPY, source.size, *to.words, *source.words)

    def clear(self, place: MemorySpan) -> None:
        """Set elements to zero."""
        self._do(Code.ZERO, place.size, *place.words)

    def constant(self, values: Any) -> MemorySpan:
        """Numbers that are the same for all samples; not to be overwritten."""
        place = self.space(np.size(values))
        self._fill(values, place)
        return place

    def _fill(self, values: Any, place: MemorySpan) -> None:
        numbers = np.array(values, dtype=self._scalar.dtype).reshape(-1)
        if len(numbers) != place.size:
            raise ValueError(f"{self._name}: {len(numbers)} numbers are copied to {place.size} elements")
        self._kept.append(numbers)
        self._prologue.append([Code.FILL, len(numbers), numbers.ctypes.data, *place.words])

    def call(
        self,
        function: Any,
        *inputs: Any,
        into: Several[MemorySpan | None] | None = None,
        prepared: Call | None = None,
    ) -> Any:
        """Call a compiled function; returns the place of its result, or a list of several.

        Args:
            function: The function: a `Compiled` one, or one that is `bound` to it.
            inputs: Its inputs: places, or numbers that are the same for all samples.
            into: Where results should go; each to a new place by default.
            prepared: Memory for its inputs, from `prepare`. Those that are in their place there are not copied.
        """
        function = function.bound()
        prepared = prepared or self.prepare(function)
        left_out = [operand.name for operand in function.binding.inputs[len(inputs) :]]
        inputs = (*inputs, *(self.defaults[name] for name in left_out if name in self.defaults))
        # what never changes is copied once, before the first instruction
        changing: list[MemorySpan | None] = [None] * len(inputs)
        for i, (source, place) in enumerate(zip(inputs, prepared.inputs, strict=False)):
            if not isinstance(source, MemorySpan):
                self._fill(source, place)
            elif source.space == _INPUTS and not any(source.steps):
                self._prologue.append([Code.COPY, place.size, *place.words, *source.words])
            elif source != place:
                changing[i] = source
        results = prepared.run(*changing, into=into)
        return results if len(results) > 1 else results[0]

    def batch(self, function: Any, count: int, *inputs: Any, into: Several[MemorySpan]) -> None:
        """Call a function on consecutive samples, which lanes run at once: samples of the sequence then run one by one.

        Args:
            function: As for `call`.
            count: Number of samples.
            inputs: Places of those of all samples, or of one that is the same for all; or numbers.
            into: Where results of all samples should go.
        """
        function = function.bound()
        operands, slots = function.binding.operands, np.zeros(2, dtype=np.int64)
        given = [x if isinstance(x, MemorySpan) else self.constant(x) for x in inputs]
        places = [*given, *into]
        if len(places) != len(operands):
            raise ValueError(f"{function.binding.name} has {len(operands)} operands, got {len(places)}")
        for operand, place in zip(operands, places, strict=True):
            if place.size not in (operand.size, count * operand.size):
                raise ValueError(f"{self._name}: {operand.name} of {count} samples has {place.size} elements")
        steps = [
            place.size // count * self._scalar.bytes if place.size > o.size else 0
            for o, place in zip(operands, places, strict=True)
        ]
        words = [word for place in places for word in place.words]
        self._batches.append((function, count, slots))
        self._called += self._rounds * count * function.binding.work
        scratch = plan(function.binding, 0, function.lanes(count))[PlanWord.SCRATCH_BYTES] + ALIGNMENT
        self._single = max(self._single, -(-int(scratch) // self._scalar.bytes))
        addresses = self.space(len(places)).offset
        self._calls.append(len(self._words) + 4)
        self._do(Code.BATCH, slots.ctypes.data, addresses, 0, len(places), count, *steps, *words)

    def prepare(self, function: Any) -> Call:
        """Reserve memory for calls of a function whose inputs change one at a time."""
        return Call(self, function.bound())

    def share(self, *functions: Any) -> list[Call]:
        """The same for functions whose first inputs are the same, in the same memory.

        Later inputs of one may overwrite those of another, so they must be given in each call.
        """
        bound = [function.bound() for function in functions]
        area = self.space(max(sum(o.size for o in function.binding.inputs) for function in bound))
        return [Call(self, function, area) for function in bound]

    @contextmanager
    def loop(self, rounds: int) -> Iterator[Index]:
        """Repeat what is recorded in the block, at least once."""
        if self._level == LEVELS or rounds < 1:
            raise ValueError(f"{self._name}: at most {LEVELS} loops inside each other, of at least one round")
        index = Index(self._level, rounds)
        self._do(Code.LOOP, index.level)
        start = len(self._words)
        self._level, self._rounds = self._level + 1, self._rounds * rounds
        yield index
        self._level, self._rounds = self._level - 1, self._rounds // rounds
        self._do(Code.END, index.level, rounds, start)

    def cases(self, number: MemorySpan, limits: Several[int]) -> Iterator[int]:
        """Record one of several blocks, which are given from the last to the first: the smallest that will do.

        Block i is for numbers up to limits[i], which increase. All lanes run the block of the largest number, so it
        must yield the same for a sample as the smaller one that would do.
        """
        ends = []
        for i in reversed(range(len(limits))):
            if i:
                start = len(self._words)
                self._do(Code.TEST, limits[i - 1], 0, *number.words)
            yield i
            if i:
                self._do(Code.JUMP)
                ends.append(len(self._words) - 1)
                self._words[start + 3] = len(self._words)
        for end in ends:
            self._words[end] = len(self._words)

    def finish(self) -> Compiled:
        """The compiled function."""
        self._do(Code.STOP)
        self._words[1] = len(self._words)
        for code, *words in self._prologue:
            self._do(Code(code), *words)
        self._words += [Code.JUMP, _FIRST]
        for position in self._calls:  # kernels share their scratch memory, after everything else
            self._words[position] = self._used
        inputs, outputs = self._operands
        callees = list(self._callees.values())
        binding = Binding(
            self._name, inputs, outputs, np.zeros(0), np.array(self._words, dtype=np.int64),
            self._used + self._shared, self._bundle, keep=(self._kept, callees), scalar=self._scalar,
            single_workspace=self._used + self._single, called=self._called, one_by_one=bool(self._batches),
        )  # fmt: skip
        batches = self._batches

        def begin(width: int) -> None:
            for function, _ in callees:
                function.begin_library(width)
            for function, count, _ in batches:
                function.begin_library(function.lanes(count))
            _interpreters.begin((width, self._scalar, machine_code.current()), _interpreter)

        def kernel(width: int) -> Library:
            begin(width)
            for function, slots in callees:
                library = function.library(width)
                binding.keep[0].append(library)
                slots[_slot(width)] = library.address("kernel")
            for function, count, slots in batches:
                wide = function.lanes(count)
                library, driver = function.library(wide), load_driver(wide, self._scalar)
                orders = plan(function.binding, library.address("kernel"), wide)
                slots[:] = driver.address("drive_in"), orders.ctypes.data
                binding.keep[0].extend((function, library, driver, orders))
            return _interpreters.get((width, self._scalar, machine_code.current()), _interpreter)[0]

        return Compiled(binding, kernel, begin)

    def _do(self, code: Code, *words: int) -> None:
        self._words += [code, len(self._words) + 2 + len(words), *words]

    def _call(self, function: Compiled, inputs: MemorySpan, outputs: Several[MemorySpan]) -> None:
        binding = function.binding
        if binding.scalar is not self._scalar:
            raise ValueError(f"{self._name}: {binding.name} computes in {binding.scalar.name}, not {self._scalar.name}")
        # addresses of the function's kernel, one for each lane width, known once it is compiled
        _, slots = self._callees.setdefault(id(function), (function, np.zeros(_WIDTHS, dtype=np.int64)))
        self._shared = max(self._shared, binding.workspace)
        self._single = max(self._single, binding.scratch(1))
        self._called += self._rounds * binding.work
        places = [word for place in outputs for word in place.words]
        constants = binding.parameters.ctypes.data, binding.tables.ctypes.data
        self._calls.append(len(self._words) + 5)
        self._do(Code.CALL, slots.ctypes.data, *constants, 0, inputs.offset, len(outputs), *places)


class Call:
    """A function with memory for its inputs, which keep their values between calls."""

    def __init__(self, sequence: KernelSequence, function: Compiled, area: MemorySpan | None = None) -> None:
        self._sequence, self._function = sequence, function
        operands = function.binding.inputs
        starts = np.cumsum([0, *(operand.size for operand in operands)]).tolist()
        self._area = sequence.space(starts[-1]) if area is None else area
        #: The places of its inputs.
        self.inputs = [self._area.part(start, o.size) for start, o in zip(starts, operands, strict=False)]

    def place(self, name: str) -> MemorySpan | None:
        """The place of an input; None if it has no input of this name."""
        named = zip(self._function.binding.inputs, self.inputs, strict=True)
        return next((place for operand, place in named if operand.name == name), None)

    def run(self, *inputs: MemorySpan | None, into: Several[MemorySpan | None] | None = None) -> list[MemorySpan]:
        """Call the function; inputs that are None keep their values."""
        sequence, outputs = self._sequence, self._function.binding.outputs
        if len(inputs) != len(self.inputs):
            raise ValueError(f"{self._function.binding.name} takes {len(self.inputs)} inputs, got {len(inputs)}")
        for source, place in zip(inputs, self.inputs, strict=True):
            if source is not None:
                sequence.copy(source, place)
        given = into or [None] * len(outputs)
        results = [sequence.space(o.size) if p is None else p for p, o in zip(given, outputs, strict=True)]
        for place, operand in zip(results, outputs, strict=True):
            if operand.zeroed:
                sequence.clear(place)
        sequence._call(self._function, self._area, results)
        for place, operand in zip(results, outputs, strict=True):
            if operand.symmetric:
                rows = operand.shape[-1]
                for matrix in range(operand.size // rows**2):
                    sequence._do(Code.MIRROR, rows, *place.part(matrix * rows**2, rows**2).words)
        return results


def _slot(width: int) -> int:
    return width.bit_length() - 1


def _interpreter(key: tuple[int, Format, machine_code.Processor]) -> CompileJob:
    """The code that interprets sequences, for a lane width, a format and a processor."""
    width, scalar, chosen = key
    label, what = f"sequence{scalar.note}, lane width {width}", ("sequence", width, scalar.name)
    return CompileJob(label, what, chosen, lambda: ([sequence_text(width, scalar)], {}), "kernel")


_interpreters: Libraries[tuple[int, Format, machine_code.Processor]] = Libraries()
