"""Fast calls: from Python to a kernel without executing Python code.

For a small robot, checking arguments in Python takes many times as long as the kernel. `Gate` is a base class whose
instances, once open, are called as machine code. It matches the arguments with the parameters and checks that arrays
are exactly `numpy.ndarray`, contiguous, of the kernel's type and of the shape of one sample, or of a batch that is not
worth several threads; scalars may also be floats of Python or NumPy. If so, it finds memory for the results, unless
`out` is given, and runs the kernel; in every other case (larger batches, broadcasting, other types) it calls the method
`general` with the same arguments. A closed gate is a plain Python object with a `__call__`, which needs no machine
code. Opening a gate changes its class.

Machine code reads fields of CPython's and NumPy's objects at known offsets, which are verified on live objects. If they
are elsewhere, on interpreters other than CPython, without a GIL, or with `KINETREE_NO_GATE=1`, a gate is a plain class
that always calls `general`.
"""

from __future__ import annotations

import ctypes
import operator
import os
import sys
import sysconfig
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

from kinetree.compiler.formats import FLOAT64
from kinetree.compiler.llvm import machine_code
from kinetree.concurrency import ForkSafeLock
from kinetree.runtime import buffers, threads
from kinetree.runtime import fastcall_results as layout
from kinetree.runtime.compile_queue import CompileJob, Libraries, Library
from kinetree.runtime.fastcall_code import gate_text
from kinetree.runtime.fastcall_results import KernelDescriptor
from kinetree.runtime.operands import Binding, plan

if TYPE_CHECKING:
    from typing_extensions import Self


_NUMPY_ABI = 2
"""Version of NumPy's binary interface: of its structures, and of places in its array table."""
PYARRAY_NEW, PYARRAY_SET_BASE = 93, 282

_HAVE_VECTORCALL = 1 << 11


class _Spec(ctypes.Structure):
    """PyType_Spec."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.c_void_p),
    )


class _Slot(ctypes.Structure):
    """PyType_Slot."""

    _fields_ = (("slot", ctypes.c_int), ("pfunc", ctypes.c_void_p))


class _TypeMember(ctypes.Structure):
    """PyMemberDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def array_functions() -> Any:
    """The addresses of NumPy's functions of arrays, from the table that it exports to C extensions in a capsule."""
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    return ctypes.cast(get(_multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))


def make_base() -> type:
    """A type with space for a gate's three pointers, the first of which is its vectorcall function."""
    members = (_TypeMember * 2)(
        _TypeMember(b"__vectorcalloffset__", 19, layout.VECTORCALL, 1, None)
    )  # a read-only Py_ssize_t
    call = ctypes.cast(ctypes.pythonapi.PyVectorcall_Call, ctypes.c_void_p)
    slots = (_Slot * 3)(_Slot(50, call), _Slot(72, ctypes.addressof(members)))  # Py_tp_call, Py_tp_members
    # Python copies all of this except the names, which are constants of this function
    default, base = 1 << 18, 1 << 10
    name = b"kinetree.runtime.fastcall.GateBase"
    spec = _Spec(name, layout.GATE_SIZE, 0, default | base | _HAVE_VECTORCALL, ctypes.addressof(slots))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(("PyType_FromSpec", ctypes.pythonapi))
    made: type = make(ctypes.addressof(spec))
    return made


def call_by_vector(cls: type) -> None:
    """Let Python pass arguments to instances as they are, without a tuple and a dictionary.

    From Python 3.12 on, classes inherit this flag; before, only those that cannot be changed do.
    """
    flags = ctypes.c_ulong.from_address(id(cls) + layout.TYPE_FLAGS)
    flags.value |= _HAVE_VECTORCALL


def supported() -> bool:
    """Whether gates can read arrays directly in this process, as verified on some arrays."""
    if os.environ.get("KINETREE_NO_GATE", "") not in ("", "0"):
        return False
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if object.__basicsize__ != layout.VECTORCALL or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    if _multiarray_umath._get_ndarray_c_version() >> 24 != _NUMPY_ABI:
        return False
    square = np.arange(6.0).reshape(2, 3)
    shifted = np.zeros(17, dtype=np.uint8)[1:].view(np.float64)
    arrays = [square, square.T, square[:, 1:], np.array(1.0), np.zeros((4, 0, 5)), np.zeros(3, np.float32), shifted]
    return all(map(_fields_fit, arrays)) and _numbers_fit() and _allocator_fits() and _references_fit() and _flags_fit()


def _numbers_fit() -> bool:
    kinds = {float: ctypes.c_double, np.float64: ctypes.c_double, np.float32: ctypes.c_float}
    numbers = [(kind("1.25"), c_kind) for kind, c_kind in kinds.items()]
    return all(c_kind.from_address(id(number) + layout.FLOAT_VALUE).value == number for number, c_kind in numbers)


def _flags_fit() -> bool:
    def read(kind: type) -> int:
        return ctypes.c_ulong.from_address(id(kind) + layout.TYPE_FLAGS).value

    return all(read(kind) == kind.__flags__ for kind in (int, np.ndarray, np.ufunc, _Slot))


def _references_fit() -> bool:
    array = np.empty(1)

    def read() -> tuple[int, bool]:
        count = ctypes.c_int32.from_address(id(array) + layout.COUNT).value
        return count, bool(ctypes.c_void_p.from_address(id(array) + layout.WEAK).value)

    before = read()
    others, watch = [array, array], weakref.ref(array)
    return before[1] is False and read() == (before[0] + len(others), True) and watch() is array


def _fields_fit(array: np.ndarray[Any, Any]) -> bool:
    def read(offset: int, kind: Any) -> Any:
        return kind.from_address(id(array) + offset).value

    plain = bool(array.flags.c_contiguous) * 0x0001 + bool(array.flags.aligned) * 0x0100

    def dims() -> tuple[int, ...]:
        return (
            tuple((ctypes.c_ssize_t * array.ndim).from_address(read(layout.DIMS, ctypes.c_void_p)))
            if array.ndim
            else ()
        )

    return bool(
        read(layout.TYPE, ctypes.c_void_p) == id(np.ndarray)
        and read(layout.DATA, ctypes.c_void_p) == array.ctypes.data
        and read(layout.NDIM, ctypes.c_int) == array.ndim
        and read(layout.DESCR, ctypes.c_void_p) == id(array.dtype)
        and read(layout.FLAGS, ctypes.c_int) & layout.PLAIN == plain
        and dims() == array.shape
    )


def _allocator_fits() -> bool:
    address, number = ctypes.c_void_p, ctypes.c_int
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object, address, number, address, number, address, address, number, number, address
    )
    set_base = ctypes.PYFUNCTYPE(number, ctypes.py_object, ctypes.py_object)
    dims = (ctypes.c_ssize_t * 2)(2, 3)
    functions, buffer = array_functions(), np.arange(8.0)
    data, flags = buffer.ctypes.data, layout.PLAIN | layout.WRITEABLE
    new = prototype(functions[PYARRAY_NEW])
    arrays = [
        new(id(np.ndarray), 2, ctypes.addressof(dims), FLOAT64.number, None, *rest, None)
        for rest in ((None, 0, 0), (data, 0, flags))
    ]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(buffer))  # the view takes over this reference
    set_base(functions[PYARRAY_SET_BASE])(arrays[1], buffer)
    plain = all(type(a) is np.ndarray and a.shape == (2, 3) and a.dtype is np.dtype(np.float64) for a in arrays)
    return plain and arrays[1].base is buffer and arrays[1].flags.carray and arrays[1][1, 2] == buffer[5]


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
        """Run the kernel of a lane width directly from now on, if possible; batches have `batch_width` lanes."""
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
        operands, scalar = binding.operands, binding.scalar
        self.binding = binding
        self.owned: list[Any] = []
        self.results = np.full(layout.KEPT, None, dtype=object)  # owns what is kept
        self.shared = threads.shared, buffers.buffers, buffers.sizes, buffers.fresh
        is_plain = not (binding.bundle.__dictoffset__ or binding.bundle.__weakrefoffset__)  # it stays what it was
        work, functions = max(1, binding.work), array_functions()
        values = {
            KernelDescriptor.INPUTS: len(binding.inputs),
            KernelDescriptor.OUTPUTS: len(binding.outputs),
            KernelDescriptor.ARRAY_TYPE: id(np.ndarray),
            KernelDescriptor.DTYPE: id(scalar.dtype),
            KernelDescriptor.TYPE_NUMBER: scalar.number,
            KernelDescriptor.ITEM_BYTES: scalar.bytes,
            KernelDescriptor.NEW_ARRAY: functions[PYARRAY_NEW],
            KernelDescriptor.SET_BASE: functions[PYARRAY_SET_BASE],
            KernelDescriptor.BUNDLE: id(binding.bundle),
            KernelDescriptor.TUPLE_TYPE: id(tuple),
            KernelDescriptor.FLOAT_TYPE: id(float),
            KernelDescriptor.DOUBLE_TYPE: id(np.float64),
            KernelDescriptor.SINGLE_TYPE: id(np.float32),
            KernelDescriptor.WORK: work,
            KernelDescriptor.MOST_SAMPLES: max(1, (2 * threads.NUMBERS_PER_THREAD - 1) // work),
            KernelDescriptor.MOST_ALONE: max(1, threads.UNINTERRUPTED // work),
            KernelDescriptor.THREADS: threads.shared.ctypes.data,
            KernelDescriptor.RESULTS: self.results.ctypes.data if len(binding.outputs) == 1 or is_plain else 0,
            KernelDescriptor.BUFFERS: buffers.buffers.ctypes.data,
            KernelDescriptor.BUFFER_SIZES: buffers.sizes.ctypes.data,
            KernelDescriptor.FRESH_BUFFER: id(buffers.fresh),
        }
        words = self.words = np.zeros(KernelDescriptor.OPERANDS + layout.OPERAND_WORDS * len(operands), dtype=np.int64)
        words[list(values)] = list(values.values())
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
        _library.begin(machine_code.host(), _begun)


def _code() -> Library:
    """The machine code shared by all gates, loaded once and never unloaded."""
    return _library.get(machine_code.host(), _begun)[0]


def _begun(host: machine_code.Processor) -> CompileJob:
    return CompileJob("gate", ("gate",), host, lambda: ([gate_text()], {}), "gate")


_lock = ForkSafeLock()
_library: Libraries[machine_code.Processor] = Libraries()
