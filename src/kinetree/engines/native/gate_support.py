"""What gates need of CPython and NumPy: a type that is called without tuples, and fields of objects at known offsets.

The offsets are verified on live objects.
"""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
import weakref
from typing import Any

import numpy as np

from kinetree.engines.formats import FLOAT64
from kinetree.engines.native import gate_layout as layout
from kinetree.engines.native.gufunc import array_functions

PYARRAY_NEW, PYARRAY_SET_BASE = 93, 282
"""Places in NumPy's array table, part of its binary interface."""

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


def make_base() -> type:
    """A type with space for a gate's three pointers, the first of which is its vectorcall function."""
    members = (_TypeMember * 2)(
        _TypeMember(b"__vectorcalloffset__", 19, layout.VECTORCALL, 1, None)
    )  # a read-only Py_ssize_t
    call = ctypes.cast(ctypes.pythonapi.PyVectorcall_Call, ctypes.c_void_p)
    slots = (_Slot * 3)(_Slot(50, call), _Slot(72, ctypes.addressof(members)))  # Py_tp_call, Py_tp_members
    # Python copies all of this except the names, which are constants of this function
    default, base = 1 << 18, 1 << 10
    name = b"kinetree.engines.native.gate.GateBase"
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
