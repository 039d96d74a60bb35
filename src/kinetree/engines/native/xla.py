"""Kernels as handlers of XLA's foreign function interface, through which JAX calls them without Python.

A handler `ptr handler(ptr frame)` finds the addresses and shapes of its buffers in XLA's call frame and calls the
driver on them, without copies. Buffers are dense, in C order, and have the same leading axes, as JAX's `ffi_call`
arranges. Samples in buffers of another type than the kernel's are converted on the way in and out.

Large batches are shared with XLA's threads (`xla_threads`).

The layout of the call frame is XLA's C interface, version 0 (`xla/ffi/api/c_api.h` in jaxlib).
"""

from __future__ import annotations

import numpy as np

from kinetree.engines.formats import FORMATS, Format
from kinetree.engines.llvm import target
from kinetree.engines.llvm.machine_code import compile_text
from kinetree.engines.llvm.writer import FunctionWriter
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.gate_layout import SMALLEST_BATCH
from kinetree.engines.native.linking import Library
from kinetree.engines.native.operands import Binding, plan
from kinetree.engines.native.xla_threads import share, task_text

# Offsets in bytes into XLA's structures.
_FRAME_EXTENSION, _FRAME_API, _FRAME_ARGUMENTS, _FRAME_RESULTS = 8, 16, 72, 112
_BUFFER_DATA, _BUFFER_RANK, _BUFFER_DIMENSIONS = 24, 32, 40
_EXTENSION_KIND, _EXTENSION_METADATA = 8, 24
_API_VERSION, _API_ERROR_CREATE = 32, 48
_METADATA_VERSION, _METADATA_TRAITS = 24, 32
_ERROR_MESSAGE, _ERROR_CODE, _ERROR_SIZE = 16, 24, 32

_KIND_METADATA = 1
_RESOURCE_EXHAUSTED = 8
_MESSAGE = "Kinetree: no memory for the samples in the robot's precision"


class Handler:
    """A handler for a compiled function, with everything that its code points to.

    Args:
        compiled: The function.
        scalar: Type of the buffers, "float64" or "float32".
    """

    def __init__(self, compiled: Compiled, scalar: str) -> None:
        binding = compiled.binding
        code = compiled.machine_code()
        plans = [plan(binding, kernel.address("kernel"), width) for width, _, kernel in code]
        drives = [driver.address("drive") for _, driver, _ in code]
        calls = [(words.ctypes.data, drive) for words, drive in zip(plans, drives, strict=True)]
        # The assembly contains addresses of this process, so it is not cached on disk.
        text = _text(binding, calls, scalar, code[-1][0])
        self._library = Library([compile_text(text, target.host())], "handler")
        self._owned = (binding, code, plans)
        self.address = self._library.address("handler")


def _text(binding: Binding, calls: list[tuple[int, int]], scalar: str, width: int) -> str:
    """LLVM assembly of the handler.

    Args:
        binding: The function's operands.
        calls: Addresses of plan and driver for single samples, and for batches.
        scalar: Type of the buffers.
        width: Lane width of batches.
    """
    f = FunctionWriter("define ptr @handler(ptr %frame)")
    operands = binding.operands
    addresses = f.let(f"alloca [{len(operands)} x ptr], align 8")
    samples = f.let("alloca i64, align 8")

    _answer_metadata(f)
    inputs, results = (f.address(f.at("%frame", at)) for at in (_FRAME_ARGUMENTS, _FRAME_RESULTS))
    buffers = [f.address(inputs, k) for k in range(len(binding.inputs))]
    buffers += [f.address(results, k) for k in range(len(binding.outputs))]
    data = [f.address(f.at(buffer, _BUFFER_DATA)) for buffer in buffers]

    rank, dimensions = f.word(f.at(buffers[0], _BUFFER_RANK)), f.address(f.at(buffers[0], _BUFFER_DIMENSIONS))
    f.do(f"store i64 1, ptr {samples}, align 8")
    with f.loop(0, f.let(f"sub i64 {rank}, {len(operands[0].shape)}")) as axis:
        f.do(f"store i64 {f.let(f'mul i64 {f.word(samples)}, {f.word(dimensions, axis)}')}, ptr {samples}, align 8")
    count = f.word(samples)

    own, given = binding.scalar, FORMATS[scalar]
    if given is own:
        wide = data
    else:
        numbers = [f.let(f"mul i64 {count}, {operand.size}") for operand in operands]
        memory, wide = _memory(f, numbers, own)
        for k in range(len(binding.inputs)):
            _convert(f, data[k], given, wide[k], own, numbers[k])
    for k, address in enumerate(wide):
        f.do(f"store ptr {address}, ptr {f.at(addresses, k, 'ptr')}, align 8")

    shared = share(f, binding, addresses, count, width)
    with f.when(f.let(f"xor i1 {shared}, true")):
        few = f.let(f"icmp slt i64 {count}, {SMALLEST_BATCH}")
        chosen = [f.let(f"select i1 {few}, i64 {one}, i64 {many}") for one, many in zip(*calls, strict=True)]
        words, drive = (f.let(f"inttoptr i64 {address} to ptr") for address in chosen)
        f.do(f"call void {drive}(ptr {addresses}, ptr {samples}, ptr @steps, ptr {words})")

    if given is not own:
        for k in range(len(binding.inputs), len(operands)):
            _convert(f, wide[k], own, data[k], given, numbers[k])
        f.do(f"call void @free(ptr {memory})")

    f.do("ret ptr null")
    f.label("exhausted")
    error = _error(f)

    # Strides as NumPy would pass them: from sample to sample for each operand, then within a sample.
    steps = [own.bytes * operand.size for operand in operands]
    steps += [stride for operand in operands for stride in np.empty(operand.shape, own.dtype).strides]
    constants = f"@steps = internal constant [{len(steps)} x i64] [{', '.join(f'i64 {step}' for step in steps)}]\n"
    declarations = "declare ptr @malloc(i64)\ndeclare void @free(ptr)\n"
    message = f'@message = internal constant [{len(_MESSAGE) + 1} x i8] c"{_MESSAGE}\\00"\n'
    return constants + message + declarations + task_text(binding, *calls[-1]) + f.text(f"ptr {error}")


def _answer_metadata(f: FunctionWriter) -> None:
    """Before the first call, XLA asks for the interface version of a handler; answer with XLA's own."""
    extension = f.address(f.at("%frame", _FRAME_EXTENSION))
    with f.when(f.let(f"icmp ne ptr {extension}, null")):
        kind = f.let(f"load i32, ptr {f.at(extension, _EXTENSION_KIND)}, align 8")
        with f.returning_when(f.let(f"icmp eq i32 {kind}, {_KIND_METADATA}"), "ptr null"):
            metadata, api = f.address(f.at(extension, _EXTENSION_METADATA)), f.address(f.at("%frame", _FRAME_API))
            version = f.word(f.at(api, _API_VERSION))  # major and minor, 32 bits each
            f.do(f"store i64 {version}, ptr {f.at(metadata, _METADATA_VERSION)}, align 8")
            f.do(f"store i32 0, ptr {f.at(metadata, _METADATA_TRAITS)}, align 8")


def _memory(f: FunctionWriter, numbers: list[str], scalar: Format) -> tuple[str, list[str]]:
    """Allocate samples for all operands; jumps to `exhausted` if out of memory."""
    total = "0"
    offsets = []
    for number in numbers:
        offsets.append(total)
        total = f.let(f"add i64 {total}, {f.let(f'mul i64 {number}, {scalar.bytes}')}")
    memory = f.let(f"call ptr @malloc(i64 {f.let(f'add i64 {total}, 8')})")
    f.leave_when(f.let(f"icmp eq ptr {memory}, null"), "exhausted")
    return memory, [f.at(memory, offset) for offset in offsets]


def _error(f: FunctionWriter) -> str:
    """An error that XLA turns into an exception."""
    error = f.let(f"alloca [{_ERROR_SIZE} x i8], align 8")
    f.do(f"store i64 {_ERROR_SIZE}, ptr {error}, align 8")
    f.do(f"store ptr null, ptr {f.at(error, 8)}, align 8")
    f.do(f"store ptr @message, ptr {f.at(error, _ERROR_MESSAGE)}, align 8")
    f.do(f"store i64 {_RESOURCE_EXHAUSTED}, ptr {f.at(error, _ERROR_CODE)}, align 8")
    create = f.address(f.at(f.address(f.at("%frame", _FRAME_API)), _API_ERROR_CREATE))
    return f.let(f"call ptr {create}(ptr {error})")


def _convert(f: FunctionWriter, source: str, given: Format, place: str, wanted: Format, count: str) -> None:
    operation = "fpext" if wanted.bytes > given.bytes else "fptrunc"
    with f.loop(0, count) as k:
        value = f.let(f"load {given.llvm}, ptr {f.at(source, k, given.llvm)}, align 4")
        converted = f.let(f"{operation} {given.llvm} {value} to {wanted.llvm}")
        f.do(f"store {wanted.llvm} {converted}, ptr {f.at(place, k, wanted.llvm)}, align 4")
