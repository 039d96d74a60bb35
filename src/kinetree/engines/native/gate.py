"""The fast path from Python to a kernel.

For a small robot, NumPy's overhead of calling a ufunc exceeds the time of the kernel. `Gate` is a base class whose
instances, once open, are called without executing any Python code. Machine code matches the arguments with the
parameters and checks that arrays are exactly `numpy.ndarray`, contiguous, of the kernel's type and of the shape of one
sample, or of a batch that is not worth several threads; scalars may also be floats of Python or NumPy. If so, it finds
memory for the results, unless `out` is given, and runs the kernel; in every other case (larger batches, broadcasting,
other types) it calls the method `general` with the same arguments. A closed gate is a plain Python object with a
`__call__`, which needs no machine code. Opening a gate changes its class.

Machine code reads the fields of NumPy's arrays directly, if they are where `kinetree.engines.native.gate_support`
expects them. Otherwise, on interpreters other than CPython, without a GIL, or with `KINETREE_NO_GATE=1`, a gate is a
plain class that always calls `general`.
"""

from __future__ import annotations

import ctypes
import operator
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kinetree.engines.llvm import target
from kinetree.engines.locks import Lock
from kinetree.engines.native import gate_layout as layout
from kinetree.engines.native import pool, threads
from kinetree.engines.native.gate_code import gate_text
from kinetree.engines.native.gate_layout import KernelDescriptor
from kinetree.engines.native.gate_support import (
    PYARRAY_NEW,
    PYARRAY_SET_BASE,
    call_by_vector,
    make_base,
    supported,
)
from kinetree.engines.native.gufunc import array_functions
from kinetree.engines.native.libraries import CompileJob, Libraries
from kinetree.engines.native.linking import Library
from kinetree.engines.native.operands import Binding, plan

if TYPE_CHECKING:
    from typing_extensions import Self

_GENERAL = sys.intern("general")
_OUT = sys.intern("out")

#: Maximum number of choices whose kernels a gate remembers; others go through Python.
_MOST_VARIANTS = 16
#: A parameter without a default.
MISSING = object()


class Keys(tuple[str, ...]):
    """The keys of a dictionary whose values, together, are the last input of a kernel."""

    __slots__ = ()


class _Plain:
    """The base of gates without machine code, which never open."""

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        return self.general(*inputs, **options)

    general: Callable[..., Any]


NATIVE = supported()
"""Whether gates are machine code in this process."""

if TYPE_CHECKING:
    _Base = _Plain
else:
    _Base = make_base() if NATIVE else _Plain


class Gate(_Base):
    """Base class of callables. A subclass defines `general(*inputs, **options)` and no `__call__`.

    A subclass that creates instances without calling the constructor must call its own `__new__`, not `object.__new__`.
    """

    # Each class has a twin with a Python `__call__`, which is the class of its instances until they open.
    _opened: type[Gate]
    _shut: type[Gate]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if NATIVE and "_opened" not in vars(cls):
            twin: dict[str, Any] = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
            twin |= {"__slots__": (), "__call__": _Plain.__call__, "_opened": cls}
            cls._opened, cls._shut = cls, type(cls.__name__, (cls,), twin)
            call_by_vector(cls)

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Create a closed gate: all calls go to `general`."""
        return super().__new__(cls._shut if NATIVE else cls)  # type: ignore[return-value]

    def parameters(self) -> tuple[tuple[str, object], ...]:
        """Name and default (or `MISSING`) of each parameter, arrays first; none if calls do not use names."""
        return ()

    def open_gate(self, binding: Binding, driver: Library, kernel: Library, width: int, batch_width: int) -> None:
        """Run a kernel directly from now on, if that is supported.

        Args:
            binding: The kernel's operands.
            driver: Library with `drive` for the lane width.
            kernel: Library with `kernel` for the lane width.
            width: The lane width: 1 for single samples, or that of batches.
            batch_width: The lane width of batches.
        """
        if not NATIVE or len(binding.operands) > layout.MAX_OPERANDS:
            return
        with _lock:
            description = vars(self).get("_gate") or _Description(binding)
            description.add(driver, kernel, width, batch_width)
        self._open(description, ())

    def follow(self, other: Gate, choices: tuple[Any, ...] = ()) -> None:
        """Run the kernel of another gate directly, as soon as that gate opens.

        Args:
            other: A gate.
            choices: Non-array arguments that select this kernel, compared by identity, strings by their characters;
                `Keys` for a dictionary with these keys.
        """
        with _lock:
            if not other.is_open:
                vars(other).setdefault("_followers", []).append((weakref.ref(self), choices))
                return
        self._open(other._gate, choices)

    def _open(self, description: _Description, choices: tuple[Any, ...]) -> None:
        with _lock:
            rows = vars(self).setdefault("_rows", [])
            known = any(all(map(operator.is_, row, choices)) for _, row in rows)
            inputs, parameters = _arrays(description, choices), self.parameters()
            count = len(parameters) or inputs
            fits = count == inputs + len(choices) and count <= layout.MAX_PARAMETERS and _readable(description, choices)
            if fits and not known and len(rows) < _MOST_VARIANTS:
                # memory that the machine code reads stays unchanged and alive: other threads may be in a call
                self._gate = description
                rows.append((description, choices))
                front, *keys = _front(parameters, rows)
                vars(self).setdefault("_fronts", []).append((front, keys))
                _field(self, layout.FRONT).value = front.ctypes.data
                self.call_from_machine_code()
            followers = vars(self).pop("_followers", ())
        for reference, wanted in followers:
            follower = reference()
            if follower is not None:
                follower._open(description, wanted)

    def call_from_machine_code(self) -> None:
        """Bypass the Python `__call__` from now on; until the gate opens, all calls go to `general`."""
        with _lock:
            if NATIVE and type(self) is not self._opened:
                _field(self, layout.METHOD).value = id(_GENERAL)
                _field(self, layout.VECTORCALL).value = _code().address("gate")
                self.__class__ = self._opened

    def __getstate__(self) -> dict[str, Any]:
        # a copy is closed and has no followers
        return {name: value for name, value in vars(self).items() if name not in _OWN_STATE}

    @property
    def is_open(self) -> bool:
        """Whether single contiguous samples take the fast path."""
        return NATIVE and bool(_field(self, layout.FRONT).value)


_OWN_STATE = ("_gate", "_rows", "_fronts", "_followers")


class _Description:
    """The machine code's description of a bound kernel, and everything that it points to."""

    def __init__(self, binding: Binding) -> None:
        operands = binding.operands
        scalar = binding.scalar
        strides = [np.empty(operand.shape, scalar.dtype).strides for operand in operands]
        self.steps = np.array([0] * len(operands) + [s for core in strides for s in core], dtype=np.intp)
        self.binding = binding
        self.owned: list[Any] = []
        words = self.words = np.zeros(KernelDescriptor.OPERANDS + layout.OPERAND_WORDS * len(operands), dtype=np.int64)
        words[KernelDescriptor.INPUTS], words[KernelDescriptor.OUTPUTS] = len(binding.inputs), len(binding.outputs)
        words[KernelDescriptor.STEPS], words[KernelDescriptor.STEP_COUNT] = self.steps.ctypes.data, len(self.steps)
        words[KernelDescriptor.ARRAY_TYPE], words[KernelDescriptor.DTYPE] = id(np.ndarray), id(scalar.dtype)
        words[KernelDescriptor.TYPE_NUMBER], words[KernelDescriptor.ITEM_BYTES] = scalar.number, scalar.bytes
        numpy_functions = array_functions()
        words[KernelDescriptor.NEW_ARRAY], words[KernelDescriptor.SET_BASE] = (
            numpy_functions[k] for k in (PYARRAY_NEW, PYARRAY_SET_BASE)
        )
        words[KernelDescriptor.BUNDLE], words[KernelDescriptor.TUPLE_TYPE] = id(binding.bundle), id(tuple)
        words[KernelDescriptor.FLOAT_TYPE], words[KernelDescriptor.DOUBLE_TYPE] = id(float), id(np.float64)
        words[KernelDescriptor.SINGLE_TYPE] = id(np.float32)
        work = words[KernelDescriptor.WORK] = max(1, binding.work)
        words[KernelDescriptor.MOST_SAMPLES] = max(1, (2 * threads.NUMBERS_PER_THREAD - 1) // work)
        words[KernelDescriptor.MOST_ALONE] = max(1, threads.UNINTERRUPTED // work)
        words[KernelDescriptor.THREADS] = threads.shared.ctypes.data
        self.results = np.full(layout.KEPT, None, dtype=object)  # owns what is kept
        if len(binding.outputs) == 1 or not (binding.bundle.__dictoffset__ or binding.bundle.__weakrefoffset__):
            words[KernelDescriptor.RESULTS] = self.results.ctypes.data  # a tuple is what it was
        self.shared = threads.shared, pool.buffers, pool.sizes, pool.fresh
        words[KernelDescriptor.BUFFERS], words[KernelDescriptor.BUFFER_SIZES] = (
            pool.buffers.ctypes.data,
            pool.sizes.ctypes.data,
        )
        words[KernelDescriptor.FRESH_BUFFER] = id(pool.fresh)
        for k, operand in enumerate(operands):
            entry = words[KernelDescriptor.OPERANDS + layout.OPERAND_WORDS * k :]
            entry[0] = len(operand.shape)
            entry[1 : 1 + len(operand.shape)] = operand.shape
            entry[layout.OPERAND_WORDS - 1] = scalar.bytes * operand.size

    def add(self, driver: Library, kernel: Library, width: int, batch_width: int) -> None:
        """Add the kernel of a lane width."""
        orders = plan(self.binding, kernel.address("kernel"), width)
        self.owned.append((driver, kernel, orders))
        # the plan first: a concurrent call that finds the driver needs both
        for fits, where, run in (
            (width == 1, KernelDescriptor.PLAN, KernelDescriptor.DRIVE),
            (width == batch_width, KernelDescriptor.BATCH_PLAN, KernelDescriptor.BATCH_DRIVE),
        ):
            if fits and not self.words[run]:
                self.words[where] = orders.ctypes.data
                self.words[run] = driver.address("drive")


def _arrays(description: _Description, choices: tuple[Any, ...]) -> int:
    """Number of inputs that are arrays in a call."""
    return len(description.binding.inputs) - sum(isinstance(choice, Keys) for choice in choices)


def _readable(description: _Description, choices: tuple[Any, ...]) -> bool:
    """Whether machine code can collect the arrays of a dictionary."""
    keyed = [choice for choice in choices if isinstance(choice, Keys)]
    return not keyed or (
        0 < len(keyed[0]) <= layout.MAX_KEYS and description.binding.inputs[-1].size <= layout.MAX_ROWS_SIZE
    )


def _front(parameters: tuple[tuple[str, object], ...], rows: list[tuple[_Description, tuple[Any, ...]]]) -> list[Any]:
    """The words of a gate, and those of its keys; the objects that they point to are kept by the gate itself."""
    inputs = _arrays(*rows[0])
    named = [(id(sys.intern(name)), 0 if default is MISSING else id(default)) for name, default in parameters]
    entries = [word for pair in named or [(0, 0)] * inputs for word in pair]
    keyed, blocks = 0, []
    for description, choices in rows:
        chosen, where = [0 if isinstance(choice, Keys) else id(choice) for choice in choices], 0
        for place, choice in enumerate(choices):
            if isinstance(choice, Keys):
                keyed = inputs + place
                blocks.append(np.array([len(choice), *map(id, choice)], dtype=np.int64))
                where = blocks[-1].ctypes.data
        entries += [description.words.ctypes.data, where, *chosen]
    count = len(named) or inputs
    defaults = [default for _, default in named[inputs:]]
    default = next((d.words.ctypes.data for d, choices in rows if [*map(id, choices)] == defaults), 0)
    words = [count, inputs, len(rows), id(_OUT), id(None), default, keyed, id(dict), id(str), *entries]
    return [np.array(words, dtype=np.int64), *blocks]


def _field(gate: object, offset: int) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(id(gate) + offset)


def prepare() -> None:
    """Let another thread begin with the machine code shared by all gates."""
    if NATIVE:
        _library.begin(target.host(), _begun)


def _code() -> Library:
    """The machine code shared by all gates, loaded once and never unloaded."""
    return _library.get(target.host(), _begun)[0]


def _begun(host: target.Processor) -> CompileJob:
    return CompileJob("gate", ("gate",), host, lambda: ([gate_text()], {}), "gate")


_lock = Lock()
_library: Libraries[target.Processor] = Libraries()
