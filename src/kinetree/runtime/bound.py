"""A compiled function of arrays: checks its arguments, chooses a lane width and runs the kernel.

A single sample runs on a kernel of width 1, a batch on the processor's vector width. Results have the same bits either
way.

Shields the library from the caller's floating-point settings.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import lru_cache, partial, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from kinetree.compiler.formats import FLOAT64, Format, rounded
from kinetree.compiler.llvm import machine_code as target
from kinetree.concurrency import ForkSafeLock
from kinetree.errors import InputError
from kinetree.runtime import arguments, buffers, fastcall, threads, tiered
from kinetree.runtime.compile_queue import CompileJob, Libraries
from kinetree.runtime.driver import driver_text, make_gufunc
from kinetree.runtime.fastcall import Gate
from kinetree.runtime.fastcall_results import SMALLEST_BATCH
from kinetree.runtime.operands import Array, Binding, Operand, plan
from kinetree.runtime.tiered import Library

Kernel = Callable[[int], Library]

# the limit of some versions of NumPy
_UFUNC_OPERANDS = 32


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
        self._shapes = tuple(operand.shape for operand in binding.inputs)
        self._width = _batch_width(binding, self._target.lanes(binding.scalar))
        self._dtype = binding.scalar.dtype
        self._runners: dict[int, Callable[..., Any]] = {}
        self._single: Callable[..., Any] | None = None

    def general(self, *inputs: Any, out: Any = None) -> Any:
        """Compute, with any valid arguments; `Gate` handles single contiguous samples without coming here.

        Args:
            inputs: Arrays of shape (..., *core), in the order of `binding.inputs`; any real numbers.
            out: Array (or tuple of arrays, for several outputs) for the result, of its shape; may overlap inputs.

        Returns:
            The result, or a tuple of results.
        """
        # single samples go straight to the ufunc
        if out is None and len(inputs) == len(self._shapes) and self._single is not None:
            for array, shape in zip(inputs, self._shapes, strict=False):
                if type(array) is not np.ndarray or array.shape != shape or array.dtype is not self._dtype:
                    break
            else:
                results = self._single(*inputs)
                return results if len(self.binding.outputs) == 1 else self.binding.bundled(results)
        return self._general(inputs, out)

    def bound(self) -> Compiled:
        """Itself, as functions that are compiled later give it."""
        return self

    def compile(self) -> None:
        """Compile everything that later calls may need, and wait until it is optimised."""
        with tiered.optimized():
            for width in {1, self._width}:
                self._runner(width)
        threads.settle()

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

    def _runner(self, width: int) -> Callable[..., Any]:
        """The function that runs the kernel of a lane width on checked arrays with at most one batch axis."""
        try:
            return self._runners[width]
        except KeyError:
            pass
        with self._lock, target.use(self._target):
            if width not in self._runners:
                self.begin_library(width)
                prepare(width, self.binding.scalar)
                kernel, driver = self._kernel(width), self._driver(width)  # other threads compile the driver meanwhile
                operands = self.binding.operands
                if len(operands) > _UFUNC_OPERANDS or any(operand.size == 0 for operand in operands):
                    self._runners[width] = _direct(self.binding, driver, kernel, width)
                else:
                    self._runners[width] = make_gufunc(self.binding, driver, kernel, width)
                self.open_gate(self.binding, driver, kernel, width, self._width)
                self._single = None if self.binding.has_big_results else self._runners.get(1)
            return self._runners[width]

    def _general(self, inputs: tuple[Any, ...], out: Any) -> Any:
        binding = self.binding
        if len(inputs) != len(binding.inputs):
            names = ", ".join(operand.name for operand in binding.inputs)
            raise InputError(f"{binding.name} takes {len(binding.inputs)} inputs ({names}), got {len(inputs)}")
        arrays = [self._checked(operand, value) for operand, value in zip(binding.inputs, inputs, strict=True)]
        batch = self._batch(arrays)
        results = self._results(out, batch)
        if not batch:
            with tiered.ready_for(binding.work):
                runner = self._runner(1)
            runner(*arrays, out=results)
        elif (samples := math.prod(batch)) > 0:
            flat = [_flat(a, o, batch, samples) for a, o in zip(arrays, binding.inputs, strict=True)]
            if out is None:
                self._run_slices([*flat, *_reshaped(results, binding, samples)], samples)
            else:
                self._run_into(flat, results, samples)
        return binding.bundled(results)

    def _run_into(self, flat: list[Array], results: tuple[Array, ...], samples: int) -> None:
        """Run a flat batch into a user's arrays."""
        targets = _reshaped(results, self.binding, samples)
        # a result that overlaps inputs, or has no flat view, is computed in a temporary array
        for k, (result, flat_result) in enumerate(zip(results, targets, strict=True)):
            detached = flat_result is not result and not np.may_share_memory(result, flat_result)
            if detached or any(np.may_share_memory(result, a) for a in flat):
                targets[k] = np.empty(flat_result.shape, self._dtype)
        self._run_slices([*flat, *targets], samples)
        for result, computed in zip(results, targets, strict=True):
            if computed is not result and not np.may_share_memory(result, computed):
                result[...] = computed.reshape(result.shape)

    def _run_slices(self, arrays: list[Array], samples: int) -> None:
        """Run a flat batch in rounds. Python handles signals between them, so Ctrl-C need not wait for all samples."""
        width, work = self._width if samples >= SMALLEST_BATCH else 1, max(self.binding.work, 1)
        with tiered.ready_for(samples * work):
            self._runner(width)
        fitting = threads.UNINTERRUPTED * threads.get_threads() // work
        longest = max(width, fitting // width * width)
        for start in range(0, samples, longest):
            pieces = arrays if samples <= longest else [array[start : start + longest] for array in arrays]
            self._run_round(pieces, min(longest, samples - start), width)

    def _run_round(self, arrays: list[Array], samples: int, width: int) -> None:
        """Spread a flat batch over threads, in slices of whole blocks of lanes."""
        runner, inputs = self._runner(width), len(self.binding.inputs)
        parts = min(threads.get_threads(), samples * self.binding.work // threads.NUMBERS_PER_THREAD)
        if parts <= 1:
            runner(*arrays[:inputs], out=tuple(arrays[inputs:]))
            return
        length = -(-samples // (parts * width)) * width

        def task(start: int) -> Callable[[], object]:
            pieces = [array[start : start + length] for array in arrays]
            return lambda: runner(*pieces[:inputs], out=tuple(pieces[inputs:]))

        threads.run([task(start) for start in range(0, samples, length)])

    def _checked(self, operand: Operand, value: Any) -> Array:
        """An input as an array of the kernel's type and the right core shape."""
        array = arguments.numbers(self.binding.name, operand.name, value)
        arguments.require_shape(f"{self.binding.name}: {operand.name}", array.shape, operand.shape)
        checked: Array = rounded(array, self._dtype)
        return checked

    def _batch(self, arrays: list[Array]) -> tuple[int, ...]:
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
        "standard",
        "restore",
    )


_drivers: Libraries[tuple[int, Format, target.Processor]] = Libraries()


def _batch_width(binding: Binding, widest: int) -> int:
    """The widest lanes whose scratch memory fits the cache: all or half of them; fewer hardly beat single samples."""
    fits = target.cache_bytes() // (8 * max(binding.footprint, 1))
    return next((width for width in (widest, widest // 2) if 1 < width <= fits), 1)


def _lead(array: Array, operand: Operand) -> tuple[int, ...]:
    lead: tuple[int, ...] = array.shape[: array.ndim - len(operand.shape)]
    return lead


def _reshaped(results: tuple[Array, ...], binding: Binding, samples: int) -> list[Array]:
    """Results with one batch axis; views if strides permit."""
    flat = [(samples, *operand.shape) for operand in binding.outputs]
    return [r if r.shape == shape else r.reshape(shape) for r, shape in zip(results, flat, strict=True)]


def _flat(array: Array, operand: Operand, batch: tuple[int, ...], samples: int) -> Array:
    """An input with one batch axis; a single sample is repeated by a zero stride, anything else copied."""
    lead = _lead(array, operand)
    if lead == batch:
        return array if len(lead) == 1 else array.reshape(samples, *operand.shape)
    if math.prod(lead) == 1:
        return np.broadcast_to(array.reshape(operand.shape), (samples, *operand.shape))
    return np.broadcast_to(array, batch + operand.shape).reshape(samples, *operand.shape)


def _direct(binding: Binding, driver: Library, kernel: Library, width: int) -> Callable[..., Any]:
    """Call the driver directly, since NumPy's ufuncs limit the number of operands and have no empty core axes."""
    words = plan(binding, kernel.address("kernel"), width)
    drive = ctypes.CFUNCTYPE(None, *(ctypes.c_void_p,) * 4)(driver.address("drive"))

    def run(*inputs: Array, out: tuple[Array, ...] | None = None) -> Any:
        results = tuple(np.empty(o.shape, binding.scalar.dtype) for o in binding.outputs) if out is None else out
        # copies make this independent of strides and overlaps
        arrays = [np.array(array, order="C") for array in (*inputs, *results)]
        leads = [array.ndim - len(operand.shape) for array, operand in zip(arrays, binding.operands, strict=True)]
        outer = [array.strides[0] if lead else 0 for array, lead in zip(arrays, leads, strict=True)]
        core = [stride for array, lead in zip(arrays, leads, strict=True) for stride in array.strides[lead:]]
        addresses = np.array([array.ctypes.data for array in arrays], dtype=np.intp)
        steps = np.array(outer + core, dtype=np.intp)
        samples = np.array([len(arrays[0]) if leads[0] else 1], dtype=np.intp)
        drive(addresses.ctypes.data, samples.ctypes.data, steps.ctypes.data, words.ctypes.data)
        for result, computed in zip(results, arrays[len(inputs) :], strict=True):
            result[...] = computed
        return results if len(results) > 1 else results[0]

    run.__dict__["owned"] = (binding, driver, kernel)
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
