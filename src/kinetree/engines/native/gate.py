"""The fast path from Python to a kernel.

For a small robot, NumPy's overhead of calling a ufunc exceeds the time of the kernel. `Gate` is a base class whose
instances, once open, are called without executing any Python code. Machine code checks that all arguments are exactly
`numpy.ndarray`, contiguous, float64 and of the shape of one sample. If so, it allocates the results and runs the
kernel; in every other case (batches, keywords, other types) it calls the method `general` with the same arguments. A
closed gate is a plain Python object with a `__call__`, which needs no machine code. Opening a gate changes its class.

Machine code reads the fields of NumPy's arrays directly. `supported` verifies their offsets on live arrays. If they
differ, on interpreters other than CPython, without a GIL, or with `KINETREE_NO_GATE=1`, a gate is a plain class that
always calls `general`.
"""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
import weakref
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

from kinetree.engines.llvm import target
from kinetree.engines.llvm.writer import FunctionWriter
from kinetree.engines.locks import Lock
from kinetree.engines.native.gufunc import c_table
from kinetree.engines.native.libraries import Library, find_or_compile
from kinetree.engines.native.operands import Binding, plan

if TYPE_CHECKING:
    from typing_extensions import Self

# Byte offsets in CPython's and NumPy's structures.
_TYPE = 8
_FLOAT_VALUE = 16
_DATA, _NDIM, _DIMS, _DESCR, _FLAGS = 16, 24, 32, 56, 64
_VECTORCALL, _METHOD, _WORDS, _GATE_SIZE = 16, 24, 32, 40

_PLAIN = 0x0001 | 0x0100  # NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED
_NPY_DOUBLE = 12
_PYARRAY_NEW = 93  # position in NumPy's array table, part of its binary interface
_MAX_OPERANDS = 16

_LONG_RUN = 1 << 14  # numbers touched by a sample from which on the GIL is released
_GENERAL = sys.intern("general")


class _Word(IntEnum):
    """Layout of a gate's description, in 64-bit words."""

    INPUTS = 0
    OUTPUTS = 1
    DRIVE = 2
    PLAN = 3
    STEPS = 4
    ARRAY_TYPE = 5
    FLOAT64 = 6
    NEW_ARRAY = 7
    LONG = 8
    BUNDLE = 9
    FLOAT_TYPE = 10
    OPERANDS = 11


_OPERAND_WORDS = 4  # rank and up to three dimensions


def gate_text() -> str:
    """LLVM IR of `gate`, a vectorcall function for all gates."""
    f = FunctionWriter("define ptr @gate(ptr %self, ptr %args, i64 %nargsf, ptr %names)")
    arguments = f.let(f"alloca [{_MAX_OPERANDS} x ptr], align 8")
    one = f.let("alloca i64, align 8")
    answer = f.let("alloca ptr, align 8")
    words = f.let(f"load ptr, ptr {f.at('%self', _WORDS)}, align 8")
    f.leave_when(f.let(f"icmp eq ptr {words}, null"), "general")
    f.leave_when(f.let("icmp ne ptr %names, null"), "general")
    inputs, outputs = f.word(words, _Word.INPUTS), f.word(words, _Word.OUTPUTS)
    count = f.let(f"and i64 %nargsf, {2**63 - 1}")
    f.leave_when(f.let(f"icmp ne i64 {count}, {inputs}"), "general")
    kind, float64 = f.address(words, _Word.ARRAY_TYPE), f.address(words, _Word.FLOAT64)
    operands = f.at(words, _Word.OPERANDS, "i64")

    # every argument must be a plain array of one sample, or a float where a sample is one number
    with f.loop(0, inputs) as k:
        array = f.address("%args", k)
        operand = f.at(operands, f.let(f"mul i64 {k}, {_OPERAND_WORDS}"), "i64")
        given, place = f.address(f.at(array, _TYPE)), f.at(arguments, k, "ptr")
        scalar = f.let(f"icmp eq i64 {f.word(operand)}, 0")
        number = f.let(f"and i1 {scalar}, {f.let(f'icmp eq ptr {given}, {f.address(words, _Word.FLOAT_TYPE)}')}")
        with f.when(number):
            f.do(f"store ptr {f.at(array, _FLOAT_VALUE)}, ptr {place}, align 8")
        with f.when(f.let(f"xor i1 {number}, true")):
            f.leave_when(f.let(f"icmp ne ptr {given}, {kind}"), "general")
            f.leave_when(f.let(f"icmp ne ptr {f.address(f.at(array, _DESCR))}, {float64}"), "general")
            flags = f.let(f"load i32, ptr {f.at(array, _FLAGS)}, align 4")
            f.leave_when(f.let(f"icmp ne i32 {f.let(f'and i32 {flags}, {_PLAIN}')}, {_PLAIN}"), "general")
            ndim = f.let(f"sext i32 {f.let(f'load i32, ptr {f.at(array, _NDIM)}, align 4')} to i64")
            f.leave_when(f.let(f"icmp ne i64 {ndim}, {f.word(operand)}"), "general")
            dims = f.address(f.at(array, _DIMS))
            with f.loop(0, ndim) as axis:
                wanted = f.word(operand, f.let(f"add i64 {axis}, 1"))
                f.leave_when(f.let(f"icmp ne i64 {f.word(dims, axis)}, {wanted}"), "general")
            f.do(f"store ptr {f.address(f.at(array, _DATA))}, ptr {place}, align 8")

    # the returned array or tuple of arrays owns everything allocated here
    f.do(f"store ptr null, ptr {answer}, align 8")
    several = f.let(f"icmp ne i64 {outputs}, 1")
    with f.when(several):
        bundle = f.let(f"call ptr @PyType_GenericAlloc(ptr {f.address(words, _Word.BUNDLE)}, i64 {outputs})")
        f.leave_when(f.let(f"icmp eq ptr {bundle}, null"), "failed")
        f.do(f"store ptr {bundle}, ptr {answer}, align 8")
    new = f.address(words, _Word.NEW_ARRAY)
    with f.loop(0, outputs) as o:
        k = f.let(f"add i64 {o}, {inputs}")
        operand = f.at(operands, f.let(f"mul i64 {k}, {_OPERAND_WORDS}"), "i64")
        rank = f.let(f"trunc i64 {f.word(operand)} to i32")
        shape = f"i32 {rank}, ptr {f.at(operand, 1, 'i64')}"
        rest = f"i32 {_NPY_DOUBLE}, ptr null, ptr null, i32 0, i32 0, ptr null"
        result = f.let(f"call ptr {new}(ptr {kind}, {shape}, {rest})")
        f.leave_when(f.let(f"icmp eq ptr {result}, null"), "failed")
        f.do(f"store ptr {f.address(f.at(result, _DATA))}, ptr {f.at(arguments, k, 'ptr')}, align 8")
        with f.when(several):
            f.let(f"call i32 @PyTuple_SetItem(ptr {f.address(answer)}, i64 {o}, ptr {result})")
        with f.when(f.let(f"xor i1 {several}, true")):
            f.do(f"store ptr {result}, ptr {answer}, align 8")

    f.do(f"store i64 1, ptr {one}, align 8")
    drive, steps, orders = (f.address(words, word) for word in (_Word.DRIVE, _Word.STEPS, _Word.PLAN))
    run = f"call void {drive}(ptr {arguments}, ptr {one}, ptr {steps}, ptr {orders})"
    short = f.let(f"icmp eq i64 {f.word(words, _Word.LONG)}, 0")
    with f.when(short):
        f.do(run)
    with f.when(f.let(f"xor i1 {short}, true")):
        state = f.let("call ptr @PyEval_SaveThread()")
        f.do(run)
        f.do(f"call void @PyEval_RestoreThread(ptr {state})")
    f.leave_when(f.let(f"icmp ne ptr {f.let('call ptr @PyErr_Occurred()')}, null"), "failed")
    f.do(f"ret ptr {f.address(answer)}")

    # out of memory
    f.label("failed")
    owned = f.address(answer)
    with f.when(f.let(f"icmp ne ptr {owned}, null")):
        f.do(f"call void @Py_DecRef(ptr {owned})")
    f.do("ret ptr null")

    # self.general(*args, **options): the same arguments after self
    f.label("general")
    given = f.let(f"and i64 %nargsf, {2**63 - 1}")
    named = f.let("icmp eq ptr %names, null")
    f.do(f"br i1 {named}, label %call, label %keywords")
    f.label("keywords")
    options = f.let("call i64 @PyTuple_Size(ptr %names)")
    f.do("br label %call")
    f.label("call")
    extra = f.let(f"phi i64 [0, %general], [{options}, %keywords]")
    total = f.let(f"add i64 {given}, {extra}")
    stack = f.let(f"alloca ptr, i64 {f.let(f'add i64 {total}, 1')}, align 8")
    f.do(f"store ptr %self, ptr {stack}, align 8")
    size = f.let(f"mul i64 {total}, 8")
    f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {f.at(stack, 1, 'ptr')}, ptr %args, i64 {size}, i1 0)")
    method = f.let(f"load ptr, ptr {f.at('%self', _METHOD)}, align 8")
    behind = f.let(f"add i64 {given}, 1")
    delegated = f.let(f"call ptr @PyObject_VectorcallMethod(ptr {method}, ptr {stack}, i64 {behind}, ptr %names)")
    declarations = (
        "declare ptr @PyEval_SaveThread()",
        "declare void @PyEval_RestoreThread(ptr)",
        "declare ptr @PyErr_Occurred()",
        "declare void @Py_DecRef(ptr)",
        "declare ptr @PyType_GenericAlloc(ptr, i64)",
        "declare i64 @PyTuple_Size(ptr)",
        "declare i32 @PyTuple_SetItem(ptr, i64, ptr)",
        "declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    )
    return "\n".join([f.text(f"ptr {delegated}"), *declarations])


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


class _Member(ctypes.Structure):
    """PyMemberDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def _make_base() -> type:
    """A type with space for a gate's three pointers, the first of which is its vectorcall function."""
    members = (_Member * 2)(_Member(b"__vectorcalloffset__", 19, _VECTORCALL, 1, None))  # a read-only Py_ssize_t
    call = ctypes.cast(ctypes.pythonapi.PyVectorcall_Call, ctypes.c_void_p)
    slots = (_Slot * 3)(_Slot(50, call), _Slot(72, ctypes.addressof(members)))  # Py_tp_call, Py_tp_members
    # Python copies all of this except the names, which are constants of this function
    default, base, vectorcall = 1 << 18, 1 << 10, 1 << 11
    name = b"kinetree.engines.native.gate.GateBase"
    spec = _Spec(name, _GATE_SIZE, 0, default | base | vectorcall, ctypes.addressof(slots))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(("PyType_FromSpec", ctypes.pythonapi))
    made: type = make(ctypes.addressof(spec))
    return made


def supported() -> bool:
    """Whether gates can read arrays directly in this process, as verified on some arrays."""
    if os.environ.get("KINETREE_NO_GATE", "") not in ("", "0"):
        return False
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if object.__basicsize__ != _VECTORCALL or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    square = np.arange(6.0).reshape(2, 3)
    shifted = np.zeros(17, dtype=np.uint8)[1:].view(np.float64)
    arrays = [square, square.T, square[:, 1:], np.array(1.0), np.zeros((4, 0, 5)), np.zeros(3, np.float32), shifted]
    return all(map(_fields_fit, arrays)) and _float_fits() and _allocator_fits()


def _float_fits() -> bool:
    number = float("1.25")
    return ctypes.c_double.from_address(id(number) + _FLOAT_VALUE).value == number


def _fields_fit(array: np.ndarray[Any, Any]) -> bool:
    def read(offset: int, kind: Any) -> Any:
        return kind.from_address(id(array) + offset).value

    plain = bool(array.flags.c_contiguous) * 0x0001 + bool(array.flags.aligned) * 0x0100

    def dims() -> tuple[int, ...]:
        return tuple((ctypes.c_ssize_t * array.ndim).from_address(read(_DIMS, ctypes.c_void_p))) if array.ndim else ()

    return bool(
        read(_TYPE, ctypes.c_void_p) == id(np.ndarray)
        and read(_DATA, ctypes.c_void_p) == array.ctypes.data
        and read(_NDIM, ctypes.c_int) == array.ndim
        and read(_DESCR, ctypes.c_void_p) == id(array.dtype)
        and read(_FLAGS, ctypes.c_int) & _PLAIN == plain
        and dims() == array.shape
    )


def _allocator_fits() -> bool:
    address, number = ctypes.c_void_p, ctypes.c_int
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object, address, number, address, number, address, address, number, number, address
    )
    dims = (ctypes.c_ssize_t * 2)(2, 3)
    new = prototype(c_table(_multiarray_umath._ARRAY_API)[_PYARRAY_NEW])
    array = new(id(np.ndarray), 2, ctypes.addressof(dims), _NPY_DOUBLE, None, None, 0, 0, None)
    return bool(type(array) is np.ndarray and array.shape == (2, 3) and array.dtype is np.dtype(np.float64))


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
    _Base = _make_base() if NATIVE else _Plain


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

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Create a closed gate: all calls go to `general`."""
        return super().__new__(cls._shut if NATIVE else cls)  # type: ignore[return-value]

    def open_gate(self, binding: Binding, driver: Library, kernel: Library) -> None:
        """Run a kernel of width 1 directly from now on, if that is supported.

        Args:
            binding: The kernel's operands.
            driver: Library with `drive` for width 1.
            kernel: Library with `kernel` for width 1.
        """
        if NATIVE and len(binding.operands) <= _MAX_OPERANDS:
            self._open(_describe(binding, driver, kernel))

    def follow(self, other: Gate) -> None:
        """Run the kernel of another gate directly, as soon as that gate opens."""
        with _lock:
            if not other.is_open:
                vars(other).setdefault("_followers", []).append(weakref.ref(self))
                return
        self._open(other._gate)

    def _open(self, description: tuple[Any, ...]) -> None:
        with _lock:
            if not self.is_open:
                # keeps alive what the machine code reads; immutable, since calls in other threads may be in progress
                self._gate = description
                _field(self, _WORDS).value = description[0].ctypes.data
                self.call_from_machine_code()
            followers = vars(self).pop("_followers", ())
        for reference in followers:
            follower = reference()
            if follower is not None:
                follower._open(description)

    def call_from_machine_code(self) -> None:
        """Bypass the Python `__call__` from now on; until the gate opens, all calls go to `general`."""
        with _lock:
            if NATIVE and type(self) is not self._opened:
                _field(self, _METHOD).value = id(_GENERAL)
                _field(self, _VECTORCALL).value = _code().address("gate")
                self.__class__ = self._opened

    def __getstate__(self) -> dict[str, Any]:
        # a copy is closed and has no followers
        return {name: value for name, value in vars(self).items() if name not in ("_gate", "_followers")}

    @property
    def is_open(self) -> bool:
        """Whether single contiguous samples take the fast path."""
        return NATIVE and bool(_field(self, _WORDS).value)


def _describe(binding: Binding, driver: Library, kernel: Library) -> tuple[Any, ...]:
    """The description that the machine code reads, and everything that it points to."""
    orders = plan(binding, kernel.address("kernel"), 1)
    strides = [np.empty(operand.shape).strides for operand in binding.operands]
    steps = np.array([0] * len(binding.operands) + [s for core in strides for s in core], dtype=np.intp)
    words = np.zeros(_Word.OPERANDS + _OPERAND_WORDS * len(binding.operands), dtype=np.int64)
    words[_Word.INPUTS], words[_Word.OUTPUTS] = len(binding.inputs), len(binding.outputs)
    words[_Word.DRIVE], words[_Word.PLAN] = driver.address("drive"), orders.ctypes.data
    words[_Word.STEPS] = steps.ctypes.data
    words[_Word.ARRAY_TYPE], words[_Word.FLOAT64] = id(np.ndarray), id(np.dtype(np.float64))
    words[_Word.NEW_ARRAY] = c_table(_multiarray_umath._ARRAY_API)[_PYARRAY_NEW]
    words[_Word.LONG] = binding.footprint >= _LONG_RUN
    words[_Word.BUNDLE] = id(binding.bundle)
    words[_Word.FLOAT_TYPE] = id(float)
    for k, operand in enumerate(binding.operands):
        entry = words[_Word.OPERANDS + _OPERAND_WORDS * k :]
        entry[0] = len(operand.shape)
        entry[1 : 1 + len(operand.shape)] = operand.shape
    return words, steps, orders, binding, driver, kernel


def _field(gate: object, offset: int) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(id(gate) + offset)


def _code() -> Library:
    """The machine code shared by all gates, loaded once and never unloaded."""
    global _library
    with _lock:
        if _library is None:
            _library, _ = find_or_compile("gate", ("gate",), target.host(), lambda: (gate_text(), {}), "gate")
        return _library


_lock = Lock()
_library: Library | None = None
