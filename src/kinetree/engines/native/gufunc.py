"""NumPy generalised ufuncs around compiled code.

NumPy's C function that creates ufuncs is reached with ctypes, through the table that NumPy exports to C extensions. A
ufunc keeps everything it points to (code, plan, tables) alive in its own `__dict__`.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

from kinetree.engines.native.linking import Library
from kinetree.engines.native.operands import Binding, plan

_FROM_FUNC_AND_DATA_AND_SIGNATURE = 31  # position in NumPy's ufunc table, part of its binary interface
_NUMPY_ABI = 2  # positions in the tables are fixed for this version
_NO_IDENTITY = -1


def make_gufunc(binding: Binding, driver: Library, kernel: Library, width: int) -> np.ufunc:
    """A ufunc that runs a kernel.

    Args:
        binding: The kernel's operands, none of which has an axis of length 0.
        driver: Library with `drive` for this width.
        kernel: Library with `kernel` for this width.
        width: Lane width W.
    """
    sides = (binding.inputs, binding.outputs)
    signature = "->".join(",".join("(" + ",".join(map(str, o.shape)) + ")" for o in side) for side in sides)
    words = plan(binding, kernel.address("kernel"), width)
    types = bytes([binding.scalar.number] * len(binding.operands))
    ufunc = _make(driver.address("drive"), words.ctypes.data, types, len(sides[0]), binding.name, signature)
    vars(ufunc)["kinetree_owned"] = (binding, driver, kernel, words)
    return ufunc


def _make(function: int, data: int, kinds: bytes, inputs: int, name: str, signature: str) -> np.ufunc:
    """Call NumPy's constructor. The ufunc owns the buffers created here; the caller attaches everything else."""
    functions = (ctypes.c_void_p * 1)(function)
    datas = (ctypes.c_void_p * 1)(data)
    types, outputs = ctypes.create_string_buffer(kinds), len(kinds) - inputs
    label, text, shape = (ctypes.create_string_buffer(s.encode()) for s in (name, "", signature))
    ufunc = cast(
        np.ufunc,
        _constructor()(functions, datas, types, 1, inputs, outputs, _NO_IDENTITY, label, text, 0, shape),
    )
    vars(ufunc)["kinetree_buffers"] = (functions, datas, types, label, text, shape)
    return ufunc


@lru_cache(maxsize=1)
def _constructor() -> Any:
    if _multiarray_umath._get_ndarray_c_version() >> 24 != _NUMPY_ABI:
        raise ImportError(f"Kinetree needs NumPy 2's binary interface; that of NumPy {np.__version__} is different")
    table = _c_table(_multiarray_umath._UFUNC_API)
    arrays, text, number = ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p, ctypes.c_int
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object, arrays, arrays, text, number, number, number, number, text, text, number, text
    )
    return prototype(table[_FROM_FUNC_AND_DATA_AND_SIGNATURE])


def array_functions() -> Any:
    """The addresses of NumPy's functions of arrays."""
    return _c_table(_multiarray_umath._ARRAY_API)


def _c_table(capsule: object) -> Any:
    """The array of addresses that a C extension exports in a capsule."""
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    return ctypes.cast(get(capsule, None), ctypes.POINTER(ctypes.c_void_p))
