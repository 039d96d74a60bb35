"""LLVM IR text to object code, and object code to callable addresses.

LLVM gets no licence to change results: no fast-math flags, no contraction, no vectoriser that could reassociate. Fused
multiply-adds are written in the text. So the same text gives the same bits on every processor and lane width.
"""

from __future__ import annotations

import ctypes
import re
import sys
import weakref
from functools import lru_cache
from typing import TYPE_CHECKING

from kinetree.engines.native.target import Target, host, llvm

if TYPE_CHECKING:
    import llvmlite.binding


# What compiled code may call: the C library's memory functions, what LLVM lowers its intrinsics to on processors that
# lack the instruction, and what the way in from Python needs.
_LIBC = ("malloc", "free", "memcpy", "memset", "memmove")
_LIBM = ("fma", "rint", "floor", "ceil", "trunc", "nearbyint", "round", "sqrt")
_PYTHON = (
    "PyErr_NoMemory",
    "PyErr_Occurred",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyObject_VectorcallMethod",
    "PyTuple_SetItem",
    "PyTuple_Size",
    "PyType_GenericAlloc",
    "Py_DecRef",
)


def compile_text(text: str, target: Target) -> bytes:
    """Compile LLVM IR.

    Args:
        text: A module in LLVM's assembly language.
        target: The processor to compile for.

    Returns:
        The bytes of a relocatable object file.
    """
    module, machine = optimized(text, target)
    code: bytes = machine.emit_object(module)
    return code


def optimized(text: str, target: Target) -> tuple[llvmlite.binding.ModuleRef, llvmlite.binding.TargetMachine]:
    """The module after LLVM's passes, and what makes code of it."""
    machine = target.machine()
    module = llvm().parse_assembly(_fenced(text) if target.is_arm else text)
    module.triple = target.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    options = llvm().create_pipeline_tuning_options(speed_level=2)
    options.slp_vectorization = False
    options.loop_vectorization = False
    builder = llvm().create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module, machine


def _fenced(text: str) -> str:
    """The text with negations that LLVM cannot merge with what they negate.

    ARM's `fnmadd` computes −x y − z. LLVM takes it for −(x y + z) too, which has another sign where the sum is exactly
    zero. The programs have no such negation, but LLVM also looks through memory.
    """
    types: set[str] = set()

    def fenced(match: re.Match[str]) -> str:
        name, kind, value = match.groups()
        types.add(kind)
        return f"  {name}.fenced = call {kind} {_fence(kind)}({kind} {value})\n  {name} = fneg {kind} {name}.fenced"

    text = _NEGATION.sub(fenced, text)
    return "\n".join([text, *(f"declare {kind} {_fence(kind)}({kind})" for kind in sorted(types))])


_NEGATION = re.compile(r"^ *(%[\w.]+) = fneg (double|<\d+ x double>) (%[\w.]+)$", re.MULTILINE)


def _fence(kind: str) -> str:
    lanes = kind[1:].partition(" ")[0] if kind != "double" else ""
    return f"@llvm.arithmetic.fence.{f'v{lanes}' if lanes else ''}f64"


class Library:
    """Object code in memory, alive as long as this object is.

    Args:
        code: An object file that `compile_text` made for a processor this one can stand in for.
        symbols: The functions whose addresses are wanted.
    """

    def __init__(self, code: bytes, *symbols: str) -> None:
        jit = llvm().create_lljit_compiler(host().machine(), use_jit_link=True)
        builder = llvm().JITLibraryBuilder().add_object_img(code)
        for name, address in _externals().items():
            builder.import_symbol(name, address)
        for name in symbols:
            builder.export_symbol(name)
        tracker = builder.link(jit, "code")
        self._addresses = {name: int(tracker[name]) for name in symbols}
        weakref.finalize(self, _unload, tracker, jit).atexit = False

    def address(self, symbol: str) -> int:
        """Where a function starts. Whoever keeps the number must keep this object too."""
        return self._addresses[symbol]


def _unload(tracker: llvmlite.binding.ResourceTracker, jit: llvmlite.binding.LLJIT) -> None:
    tracker.close()
    jit.close()


@lru_cache(maxsize=1)
def _externals() -> dict[str, int]:
    names = (*_LIBC, *_LIBM)
    if sys.platform == "win32":
        libraries = [ctypes.CDLL("ucrtbase")]
    else:
        libraries = [ctypes.CDLL(None)]
        if not all(hasattr(libraries[0], name) for name in names):
            libraries.append(ctypes.CDLL("libm.so.6"))
    found = {name: next(getattr(lib, name) for lib in libraries if hasattr(lib, name)) for name in names}
    found |= {name: getattr(ctypes.pythonapi, name) for name in _PYTHON}
    return {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in found.items()}
