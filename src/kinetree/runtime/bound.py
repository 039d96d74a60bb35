"""A compiled function of arrays: checks its arguments, chooses a lane width and runs the kernel.

A single sample runs on a kernel of width 1, a batch on the processor's vector width. Results have the same bits either
way, whatever the caller's floating-point settings. Arrays that the driver cannot read or write in place are copied.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache, partial, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from kinetree.compiler.formats import FLOAT64, Format, rounded
from kinetree.compiler.llvm import machine_code as target
from kinetree.concurrency import ForkSafeLock, give_way
from kinetree.errors import InputError
from kinetree.runtime import arguments, buffers, fastcall, threads
from kinetree.runtime.compile_queue import CompileJob, Libraries, Library, optimized, ready_for
from kinetree.runtime.driver import driver_text
from kinetree.runtime.fastcall import Gate
from kinetree.runtime.fastcall_results import SMALLEST_BATCH
from kinetree.runtime.operands import Array, Binding, Operand, plan

Kernel = Callable[[int], Library]
#: Runs a kernel on arrays of dense samples, inputs first, given their number.
Runner = Callable[[Sequence[Array], int], None]


class Compiled(Gate):
    """A compiled function of arrays, which broadcasts over leading axes.

    Args:
        binding: The kernel's operands and constants.
        kernel: Returns the library with the symbol `kernel` for a lane width; called once per width.
        begin: Lets other threads begin with that library, if they can.
    """

    def __init__(self, binding: Binding, kernel: Kernel, begin: Callable[[int], object] | None = None) -> None:
        self.binding = binding
        self._kernel, self._begin = kernel, begin
        self._target = target.current()
        self._lock = ForkSafeLock()
        self._width = _batch_width(binding, self._target.lanes(binding.scalar))
        self._dtype = binding.scalar.dtype
        self._strides = [np.empty(operand.shape, self._dtype).strides for operand in binding.operands]
        self._runners: dict[int, Runner] = {}
        self._converted = _Converted(self)
        self._converted.follow(self)

    def general(self, *inputs: Any, out: Any = None) -> Any:
        """Compute, with any valid arguments; `Gate` handles single contiguous samples without coming here.

        Args:
            inputs: Arrays of shape (..., *core), in the order of `binding.inputs`; any real numbers.
            out: Array (or tuple of arrays, for several outputs) for the result, of its shape; may overlap inputs.

        Returns:
            The result, or a tuple of results.
        """
        binding = self.binding
        if len(inputs) != len(binding.inputs):
            names = ", ".join(operand.name for operand in binding.inputs)
            raise InputError(f"{binding.name} takes {len(binding.inputs)} inputs ({names}), got {len(inputs)}")
        arrays = [self._checked(operand, value) for operand, value in zip(binding.inputs, inputs, strict=True)]
        return self._converted(*arrays) if out is None else self._converted(*arrays, out=out)

    def compute(self, arrays: Sequence[Array], out: Any) -> Any:
        """Compute, with arrays of the kernel's type that are too many for the fast call, or have another layout."""
        batch = self._batch(arrays)
        results = self._results(out, batch)
        samples = math.prod(batch)
        if samples:
            sources = [self._source(k, array, batch, samples) for k, array in enumerate(arrays)]
            places = [self._place(len(arrays) + k, x, batch, samples, sources) for k, x in enumerate(results)]
            self._run_slices([*sources, *places], samples)
            for result, place in zip(results, places, strict=True):
                if place is not result and not np.may_share_memory(place, result):
                    result[...] = place.reshape(result.shape)
        return self.binding.bundled(results)

    def bound(self) -> Compiled:
        """Itself, as functions that are compiled later give it."""
        return self

    def compile(self) -> None:
        """Compile everything that later calls may need, and wait until it is optimised."""
        with optimized():
            for width in {1, self._width}:
                self._runner(width)
        threads.settle()

    def lanes(self, samples: int) -> int:
        """The lane width for a number of samples."""
        return self._width if samples >= SMALLEST_BATCH else 1

    def begin_library(self, width: int) -> None:
        """Let other threads begin with the kernel for a lane width on the current target."""
        if self._begin is not None:
            self._begin(width)

    def library(self, width: int) -> Library:
        """The kernel for a lane width on the current target, compiled on first use."""
        return self._kernel(width)

    def machine_code(self) -> list[tuple[int, Library, Library]]:
        """Lane width, driver and kernel: for single samples, and for batches."""
        with target.use(self._target):
            return [(width, self._driver(width), self._kernel(width)) for width in (1, self._width)]

    def _driver(self, width: int) -> Library:
        return load_driver(width, self.binding.scalar)

    def _runner(self, width: int) -> Runner:
        """What runs the kernel of a lane width."""
        found = self._runners.get(width)
        if found is not None:
            return found
        give_way()
        with self._lock, target.use(self._target):
            if width not in self._runners:
                self.begin_library(width)
                prepare(width, self.binding.scalar)
                kernel, driver = self._kernel(width), self._driver(width)  # other threads compile the driver meanwhile
                self._runners[width] = _runner(self.binding, driver, kernel, width)
                self.open_gate(self.binding, driver, kernel, width, self._width)
            return self._runners[width]

    def _is_dense(self, k: int, array: Array) -> bool:
        """Whether the samples of an operand are contiguous, at any distance from each other."""
        strides = self._strides[k]
        return array.strides[array.ndim - len(strides) :] == strides and array.flags.aligned

    def _source(self, k: int, array: Array, batch: tuple[int, ...], samples: int) -> Array:
        """An input with dense samples along one batch axis, or none; a single sample is repeated by a zero stride."""
        core = self.binding.operands[k].shape
        lead = array.shape[: array.ndim - len(core)]
        if lead != batch:
            one = math.prod(lead) == 1
            array = np.broadcast_to(array.reshape(core) if one else array, ((samples,) if one else batch) + core)
        if array.ndim - len(core) > 1:
            array = array.reshape(samples, *core)
        if not self._is_dense(k, array):
            array, strided = buffers.empty(array.shape, self._dtype), array
            array[...] = strided
        return array

    def _place(self, k: int, result: Array, batch: tuple[int, ...], samples: int, sources: list[Array]) -> Array:
        """Where a result is computed: in its array if the driver can write there, and reads nothing from it later."""
        flat = (samples, *self.binding.operands[k].shape)
        if not self._is_dense(k, result) or (samples > 1 and any(np.may_share_memory(result, x) for x in sources)):
            return np.empty(flat, self._dtype)
        if len(batch) <= 1:
            return result
        return result.reshape(flat) if result.flags.c_contiguous else np.empty(flat, self._dtype)

    def _run_slices(self, arrays: list[Array], samples: int) -> None:
        """Run a flat batch in rounds. Python handles signals between them, so Ctrl-C need not wait for all samples."""
        width, work = self.lanes(samples), max(self.binding.work, 1)
        with ready_for(samples * work):
            run = self._runner(width)
        fitting = threads.UNINTERRUPTED * threads.get_threads() // work
        longest = max(width, fitting // width * width)
        for start in range(0, samples, longest):
            pieces = arrays if samples <= longest else [array[start : start + longest] for array in arrays]
            self._run_round(run, pieces, min(longest, samples - start), width)

    def _run_round(self, run: Runner, arrays: list[Array], samples: int, width: int) -> None:
        """Spread a flat batch over threads, in slices of whole blocks of lanes."""
        parts = min(threads.get_threads(), samples, samples * self.binding.work // threads.NUMBERS_PER_THREAD)
        if parts <= 1:
            run(arrays, samples)
            return
        length = -(-samples // (parts * width)) * width
        starts = range(0, samples, length)
        pieces = [([a[i : i + length] for a in arrays], min(length, samples - i)) for i in starts]
        threads.run([partial(run, *piece) for piece in pieces])

    def _checked(self, operand: Operand, value: Any) -> Array:
        """An input as an array of the kernel's type and the right core shape."""
        array = arguments.numbers(self.binding.name, operand.name, value)
        arguments.require_shape(f"{self.binding.name}: {operand.name}", array.shape, operand.shape)
        checked: Array = rounded(array, self._dtype)
        if not checked.flags.c_contiguous and checked.nbytes < buffers.SMALLEST_RESULT:
            checked = checked.copy()  # takes less time than to go without the fast call
        return checked

    def _batch(self, arrays: Sequence[Array]) -> tuple[int, ...]:
        """The common leading shape."""
        leads = [_lead(array, operand) for array, operand in zip(arrays, self.binding.inputs, strict=True)]
        return arguments.common_batch(self.binding.name, [operand.name for operand in self.binding.inputs], leads)

    def _results(self, out: Any, batch: tuple[int, ...]) -> tuple[Array, ...]:
        """The arrays for the results: the user's, checked, or new ones."""
        outputs = self.binding.outputs
        shapes = [batch + operand.shape for operand in outputs]
        if out is None:
            fix = "compute fewer samples at a time, or into out="
            return tuple(arguments.empty(self.binding.name, shapes, partial(buffers.empty, dtype=self._dtype), fix))
        names = [operand.name for operand in outputs]
        return arguments.results(self.binding.name, out, names, shapes, self._dtype)


class _Converted(Gate):
    """The same function of arrays that were checked and converted, by a fast call if possible."""

    def __init__(self, function: Compiled) -> None:
        self._function = weakref.ref(function)

    def general(self, *arrays: Array, out: Any = None) -> Any:
        function = self._function()
        return None if function is None else function.compute(arrays, out)


class standard_arithmetic:
    """IEEE default arithmetic, without warnings, for NumPy operations on the result of a kernel."""

    __slots__ = ("_errors", "_found", "_restore")

    def __enter__(self) -> None:
        standard, self._restore = _switches()
        self._found = standard()
        self._errors = np.errstate(all="ignore")
        self._errors.__enter__()

    def __exit__(self, *_: object) -> None:
        self._errors.__exit__(None, None, None)
        self._restore(self._found)


@lru_cache(maxsize=1)
def _switches() -> tuple[Callable[[], int], Callable[[int], None]]:
    with target.use(target.host()):
        driver = load_driver(1)
    standard = ctypes.PYFUNCTYPE(ctypes.c_uint64)(driver.address("standard"))
    restore = ctypes.PYFUNCTYPE(None, ctypes.c_uint64)(driver.address("restore"))
    _kept.append(driver)
    return standard, restore


_kept: list[Library] = []


def load_driver(width: int, scalar: Format = FLOAT64) -> Library:
    """The driver for a lane width and format on the current target, compiled once per process."""
    return _drivers.get((width, scalar, target.current()), _driver)[0]


def prepare(width: int, scalar: Format = FLOAT64) -> None:
    """Let other threads, if there are any, begin with what all kernels of a lane width need."""
    if threads.get_threads() > 1:
        _drivers.begin((width, scalar, target.current()), _driver)
        fastcall.prepare()


def _driver(key: tuple[int, Format, target.Processor]) -> CompileJob:
    width, scalar, chosen = key
    return CompileJob(
        f"driver{scalar.note}, lane width {width}",
        ("driver", width, scalar.name),
        chosen,
        lambda: ([driver_text(width, chosen, scalar)], {}),
        "drive",
        "drive_in",
        "standard",
        "restore",
    )


_drivers: Libraries[tuple[int, Format, target.Processor]] = Libraries()


def _batch_width(binding: Binding, widest: int) -> int:
    """The widest lanes whose scratch memory fits the cache: all or half of them; fewer hardly beat single samples."""
    if binding.one_by_one:
        return 1
    fits = target.cache_bytes() // (8 * max(binding.footprint, 1))
    return next((width for width in (widest, widest // 2) if 1 < width <= fits), 1)


def _lead(array: Array, operand: Operand) -> tuple[int, ...]:
    lead: tuple[int, ...] = array.shape[: array.ndim - len(operand.shape)]
    return lead


def _runner(binding: Binding, driver: Library, kernel: Library, width: int) -> Runner:
    """Calls the driver with the addresses of arrays and the distances of their samples."""
    words, count = plan(binding, kernel.address("kernel"), width), len(binding.operands)
    pointer, number = ctypes.c_void_p, ctypes.c_ssize_t
    drive = ctypes.CFUNCTYPE(number, *(pointer,) * 4)(driver.address("drive"))
    addresses, steps, orders = pointer * count, number * count, words.ctypes.data
    ranks = [len(operand.shape) for operand in binding.operands]

    def run(arrays: Sequence[Array], samples: int) -> None:
        at = addresses(*[array.ctypes.data for array in arrays])
        each = steps(*[x.strides[0] if x.ndim > rank else 0 for x, rank in zip(arrays, ranks, strict=True)])
        if drive(at, ctypes.byref(number(samples)), each, orders):
            raise MemoryError(f"{binding.name}: no memory for intermediate values")

    run.__dict__["owned"] = (driver, kernel, words)
    return run


P = ParamSpec("P")
R = TypeVar("R")


def quiet(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run with NumPy's floating-point errors ignored: an overflow concerns only its own sample."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return run


def ieee_default(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run in IEEE default arithmetic, whatever the calling thread's rounding and flushing."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        # switching takes compiled code, so it is left out where there is nothing to switch
        with np.errstate(all="ignore") if _standard(1.0, 1e-17, 5e-324) else standard_arithmetic():
            return function(*args, **kwargs)

    return run


def _standard(one: float, small: float, subnormal: float) -> bool:
    """Whether this thread rounds to nearest and keeps subnormal numbers. Arguments, so that Python computes nothing."""
    return one + small == one and one - small == one and one * subnormal > 0.0
