"""Compiles LLVM assembly to object code.

LLVM may not change results: there are no fast-math flags, no contraction and no vectoriser that could reassociate.
Fused multiply-adds are explicit. So a program gives the same bits on every processor and at every lane width.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kinetree.engines.llvm.target import Processor, llvm
from kinetree.engines.locks import inside_llvm

if TYPE_CHECKING:
    import llvmlite.binding


def compile_text(text: str, target: Processor) -> bytes:
    """Compile a module.

    Args:
        text: The module in LLVM's assembly language.
        target: The processor to compile for.

    Returns:
        The bytes of a relocatable object file.
    """
    module, machine = optimized(text, target)
    with inside_llvm():
        return _emitted(module, machine)


def compile_unoptimized(text: str, target: Processor) -> bytes:
    """Compile a module without optimisation, four times as fast. The code gives the same bits; arguments as above."""
    machine = target.machine(level=0)
    module = _parsed(text, target, machine)
    _run(["always_inliner"], module, machine)
    with inside_llvm():
        return _emitted(module, machine)


def _emitted(module: llvmlite.binding.ModuleRef, machine: llvmlite.binding.TargetMachine) -> bytes:
    """`machine.emit_object(module)`, without the lock that llvmlite holds in all of its functions.

    Most of the time of a compilation is spent here, and LLVM can do it for several modules at once if they belong to
    different contexts.
    """
    ffi = llvm().ffi
    emit = getattr(ffi.lib, "_lib", ffi.lib).LLVMPY_TargetMachineEmitToMemory
    with ffi.OutputString() as error:
        buffer = emit(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def optimized(text: str, target: Processor) -> tuple[llvmlite.binding.ModuleRef, llvmlite.binding.TargetMachine]:
    """The module after inlining, and the code generator.

    Common subexpressions, constants and loop invariants are handled before LLVM sees a kernel (`simplify`, `hoist`);
    drivers and gates are written without any. The passes of -O2 would triple the time to compile the latter, double
    that of kernels, and make nothing faster.
    """
    machine = target.machine()
    module = _parsed(text, target, machine)
    _run(["always_inliner", "sroa", "simplify_cfg"], module, machine)
    return module, machine


def _parsed(text: str, target: Processor, machine: llvmlite.binding.TargetMachine) -> llvmlite.binding.ModuleRef:
    """The module, in a context of its own."""
    module = llvm().parse_assembly(_fenced(text) if target.is_arm else text, llvm().create_context())
    module.triple = target.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    return module


def _run(passes: Sequence[str], module: llvmlite.binding.ModuleRef, machine: llvmlite.binding.TargetMachine) -> None:
    """Run passes on a module."""
    manager = llvm().create_new_module_pass_manager()
    for name in passes:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, llvm().create_pass_builder(machine, llvm().create_pipeline_tuning_options()))


def _fenced(text: str) -> str:
    """The assembly with negations that LLVM cannot merge with their operand.

    ARM's `fnmadd` computes −x y − z. LLVM also uses it for −(x y + z), which differs in the sign of an exact zero.
    """
    types: set[str] = set()

    def fenced(match: re.Match[str]) -> str:
        name, kind, value = match.groups()
        types.add(kind)
        return f"  {name}.fenced = call {kind} {_fence(kind)}({kind} {value})\n  {name} = fneg {kind} {name}.fenced"

    text = _NEGATION.sub(fenced, text)
    return "\n".join([text, *(f"declare {kind} {_fence(kind)}({kind})" for kind in sorted(types))])


_NEGATION = re.compile(r"^ *(%[\w.]+) = fneg (double|float|<\d+ x (?:double|float)>) (%[\w.]+)$", re.MULTILINE)


def _fence(kind: str) -> str:
    lanes = f"v{kind[1:].partition(' ')[0]}" if kind.startswith("<") else ""
    return f"@llvm.arithmetic.fence.{lanes}{'f64' if 'double' in kind else 'f32'}"
