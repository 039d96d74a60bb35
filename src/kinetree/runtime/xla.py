"""Kernels as handlers of XLA's foreign function interface, through which JAX calls them without Python.

A handler `ptr handler(ptr frame)` finds the addresses and shapes of its buffers in XLA's call frame and calls the
driver on them, without copies. Buffers are dense, in C order, and have the same leading axes, as JAX's `ffi_call`
arranges. Samples in buffers of another type than the kernel's are converted on the way in and out.

The layout of the call frame is XLA's C interface, version 0 (`xla/ffi/api/c_api.h` in jaxlib).

Large batches are shared with XLA's threads, in chunks. The handler asks XLA to run `task` on some of its threads and
runs it itself; each takes chunks until none is left. XLA promises neither that a task runs soon nor that it runs
elsewhere. So the handler never waits for a task to begin, only for chunks that others have taken: there is no deadlock
if all threads are busy. A task that begins after the handler has returned finds no chunk. Whoever is last to use the
shared memory frees it. If one finds no memory for intermediate values, the handler reports it.

Samples are computed whole, in blocks of lanes, so the bits do not depend on who computes them.
"""

from __future__ import annotations

import sys

from kinetree.compiler.formats import FORMATS, Format
from kinetree.compiler.llvm import machine_code
from kinetree.compiler.llvm.machine_code import compile_text
from kinetree.compiler.llvm.writer import FunctionWriter
from kinetree.runtime import threads
from kinetree.runtime.bound import Compiled
from kinetree.runtime.compile_queue import Library
from kinetree.runtime.fastcall_results import SMALLEST_BATCH
from kinetree.runtime.operands import Binding, plan

# Offsets in bytes into XLA's structures.
_THREADS_FRAME_API, _FRAME_CONTEXT = 16, 24
_API_SIZE, _API_ERROR_DESTROY, _API_SCHEDULE = 0, 64, 136
_SCHEDULE_CONTEXT, _SCHEDULE_TASK, _SCHEDULE_DATA, _SCHEDULE_SIZE = 16, 24, 32, 40
_DESTROY_ERROR, _DESTROY_SIZE = 16, 24

# The memory shared by handler and tasks, in words; addresses of the operands follow.
_USERS, _NEXT, _DONE, _STATUS, _CHUNKS, _LENGTH, _SAMPLES, _OPERANDS = range(8)

#: Chunks for each thread: some threads may be busy with other work.
_CHUNKS_PER_THREAD = 4


def share(f: FunctionWriter, binding: Binding, addresses: str, count: str, width: int, status: str) -> str:
    """Compute a large batch on several threads, and store the drivers' status; returns an i1: whether it was large."""
    threads.get_threads()  # sets the number that the handler reads
    word = f.let(f"inttoptr i64 {threads.shared.ctypes.data} to ptr")
    allowed = f.let(f"load atomic i64, ptr {word} monotonic, align 8")
    numbers = f.let(f"mul i64 {count}, {binding.work}")
    work = f.let(f"udiv i64 {numbers}, {threads.NUMBERS_PER_THREAD}")
    parts = f.let(f"call i64 @llvm.umin.i64(i64 {allowed}, i64 {work})")
    api = f.address(f.at("%frame", _THREADS_FRAME_API))
    complete = f.let(f"icmp ugt i64 {f.word(f.at(api, _API_SIZE))}, {_API_SCHEDULE}")  # XLA may be older
    several = f.let(f"icmp ugt i64 {parts}, 1")
    done = f.let("alloca i1, align 1")
    f.do(f"store i1 false, ptr {done}, align 1")
    with f.when(f.let(f"and i1 {several}, {complete}")):
        memory = f.let(f"call ptr @malloc(i64 {8 * (_OPERANDS + len(binding.operands))})")
        with f.when(f.let(f"icmp ne ptr {memory}, null")):
            _fill(f, memory, binding, addresses, count, parts, width)
            _schedule(f, api, memory, parts)
            f.do(f"call void @task(ptr {memory})")
            _wait(f, memory)
            f.do(f"store i64 {f.word(memory, _STATUS)}, ptr {status}, align 8")
            f.do(f"call void @leave(ptr {memory})")
            f.do(f"store i1 true, ptr {done}, align 1")
    return f.let(f"load i1, ptr {done}, align 1")


def _fill(f: FunctionWriter, memory: str, binding: Binding, addresses: str, count: str, parts: str, width: int) -> None:
    def rounded_up(divisor: str) -> str:
        """The samples divided by a number."""
        added = f.let(f"add i64 {count}, {f.let(f'sub i64 {divisor}, 1')}")
        return f.let(f"udiv i64 {added}, {divisor}")

    blocks = rounded_up(f.let(f"mul i64 {parts}, {_CHUNKS_PER_THREAD * width}"))
    length = f.let(f"mul i64 {blocks}, {width}")
    users = f.let(f"add i64 {parts}, 1")  # each task, and the handler, which waits for the last chunk
    values = {_USERS: users, _CHUNKS: rounded_up(length), _LENGTH: length, _SAMPLES: count}
    for place, value in (dict.fromkeys((_NEXT, _DONE, _STATUS), "0") | values).items():
        f.do(f"store i64 {value}, ptr {f.at(memory, place, 'i64')}, align 8")
    for k in range(len(binding.operands)):
        f.do(f"store ptr {f.address(addresses, k)}, ptr {f.at(memory, _OPERANDS + k, 'ptr')}, align 8")


def _schedule(f: FunctionWriter, api: str, memory: str, parts: str) -> None:
    """Ask XLA to run the task on all threads but this one. If it has none, this one does everything."""
    request, failure = (f.let(f"alloca [{size} x i8], align 8") for size in (_SCHEDULE_SIZE, _DESTROY_SIZE))
    f.do(f"store i64 {_SCHEDULE_SIZE}, ptr {request}, align 8")
    f.do(f"store ptr null, ptr {f.at(request, 8)}, align 8")
    context = f.address(f.at("%frame", _FRAME_CONTEXT))
    for offset, value in ((_SCHEDULE_CONTEXT, context), (_SCHEDULE_TASK, "@task"), (_SCHEDULE_DATA, memory)):
        f.do(f"store ptr {value}, ptr {f.at(request, offset)}, align 8")
    schedule, destroy = (f.address(f.at(api, offset)) for offset in (_API_SCHEDULE, _API_ERROR_DESTROY))
    with f.loop(1, parts):
        error = f.let(f"call ptr {schedule}(ptr {request})")
        with f.when(f.let(f"icmp ne ptr {error}, null")):
            f.do(f"store i64 {_DESTROY_SIZE}, ptr {failure}, align 8")
            f.do(f"store ptr null, ptr {f.at(failure, 8)}, align 8")
            f.do(f"store ptr {error}, ptr {f.at(failure, _DESTROY_ERROR)}, align 8")
            f.do(f"call void {destroy}(ptr {failure})")
            f.do(f"call void @leave(ptr {memory})")


def _wait(f: FunctionWriter, memory: str) -> None:
    """Wait for the chunks that other threads have taken."""
    chunks = f.word(memory, _CHUNKS)
    slot = f.let("alloca i64, align 8")
    with f.following(0, slot):
        finished = f.let(f"load atomic i64, ptr {f.at(memory, _DONE, 'i64')} acquire, align 8")
        complete = f.let(f"icmp eq i64 {finished}, {chunks}")
        if sys.platform != "win32":
            with f.when(f.let(f"xor i1 {complete}, true")):
                f.let("call i32 @sched_yield()")
        f.do(f"store i64 {f.let(f'select i1 {complete}, i64 -1, i64 0')}, ptr {slot}, align 8")


def task_text(binding: Binding, plan: int, driver: int) -> str:
    """LLVM assembly of `task`, which computes chunks until none is left, and of `leave`."""
    f = FunctionWriter("define internal void @task(ptr %memory)")
    operands = binding.operands
    addresses, samples = f.let(f"alloca [{len(operands)} x ptr], align 8"), f.let("alloca i64, align 8")
    slot = f.let("alloca i64, align 8")
    chunks, length, count = (f.word("%memory", place) for place in (_CHUNKS, _LENGTH, _SAMPLES))
    following, done = (f.at("%memory", place, "i64") for place in (_NEXT, _DONE))
    words, drive = (f.let(f"inttoptr i64 {address} to ptr") for address in (plan, driver))
    with f.following(0, slot):
        chunk = f.let(f"atomicrmw add ptr {following}, i64 1 monotonic, align 8")
        f.do(f"store i64 -1, ptr {slot}, align 8")
        with f.when(f.let(f"icmp slt i64 {chunk}, {chunks}")):
            f.do(f"store i64 0, ptr {slot}, align 8")
            start = f.let(f"mul i64 {chunk}, {length}")
            rest = f.let(f"sub i64 {count}, {start}")
            f.do(f"store i64 {f.let(f'call i64 @llvm.umin.i64(i64 {length}, i64 {rest})')}, ptr {samples}, align 8")
            for k, operand in enumerate(operands):
                offset = f.let(f"mul i64 {start}, {binding.scalar.bytes * operand.size}")
                address = f.at(f.address("%memory", _OPERANDS + k), offset)
                f.do(f"store ptr {address}, ptr {f.at(addresses, k, 'ptr')}, align 8")
            status = f.let(f"call i64 {drive}(ptr {addresses}, ptr {samples}, ptr @steps, ptr {words})")
            f.let(f"atomicrmw or ptr {f.at('%memory', _STATUS, 'i64')}, i64 {status} monotonic, align 8")
            f.let(f"atomicrmw add ptr {done}, i64 1 release, align 8")
    f.do("call void @leave(ptr %memory)")

    leave = FunctionWriter("define internal void @leave(ptr %memory)")
    users = leave.let(f"atomicrmw sub ptr {leave.at('%memory', _USERS, 'i64')}, i64 1 acq_rel, align 8")
    with leave.when(leave.let(f"icmp eq i64 {users}, 1")):
        leave.do("call void @free(ptr %memory)")
    yielding = "" if sys.platform == "win32" else "declare i32 @sched_yield()\n"
    return f"declare i64 @llvm.umin.i64(i64, i64)\n{yielding}{f.text()}{leave.text()}"


# Offsets in bytes into XLA's structures.
_FRAME_EXTENSION, _FRAME_API, _FRAME_ARGUMENTS, _FRAME_RESULTS = 8, 16, 72, 112
_BUFFER_DATA, _BUFFER_RANK, _BUFFER_DIMENSIONS = 24, 32, 40
_EXTENSION_KIND, _EXTENSION_METADATA = 8, 24
_API_VERSION, _API_ERROR_CREATE = 32, 48
_METADATA_VERSION, _METADATA_TRAITS = 24, 32
_ERROR_MESSAGE, _ERROR_CODE, _ERROR_SIZE = 16, 24, 32

_KIND_METADATA = 1
_RESOURCE_EXHAUSTED = 8
_MESSAGE = "Kinetree: no memory for the samples"


class Handler:
    """A handler for a compiled function and buffers of a type, with everything that its code points to."""

    def __init__(self, compiled: Compiled, scalar: str) -> None:
        binding = compiled.binding
        code = compiled.machine_code()
        plans = [plan(binding, kernel.address("kernel"), width) for width, _, kernel in code]
        drives = [driver.address("drive") for _, driver, _ in code]
        calls = [(words.ctypes.data, drive) for words, drive in zip(plans, drives, strict=True)]
        # The assembly contains addresses of this process, so it is not cached on disk.
        text = _text(binding, calls, scalar, code[-1][0])
        self._library = Library([compile_text(text, machine_code.host())], "handler")
        self._owned = (binding, code, plans)
        self.address = self._library.address("handler")


def _text(binding: Binding, calls: list[tuple[int, int]], scalar: str, width: int) -> str:
    """LLVM assembly of the handler, given addresses of plan and driver for single samples, and for batches."""
    f = FunctionWriter("define ptr @handler(ptr %frame)")
    operands = binding.operands
    addresses = f.let(f"alloca [{len(operands)} x ptr], align 8")
    samples, status = f.let("alloca i64, align 8"), f.let("alloca i64, align 8")

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

    shared = share(f, binding, addresses, count, width, status)
    with f.when(f.let(f"xor i1 {shared}, true")):
        few = f.let(f"icmp slt i64 {count}, {SMALLEST_BATCH}")
        chosen = [f.let(f"select i1 {few}, i64 {one}, i64 {many}") for one, many in zip(*calls, strict=True)]
        words, drive = (f.let(f"inttoptr i64 {address} to ptr") for address in chosen)
        alone = f.let(f"call i64 {drive}(ptr {addresses}, ptr {samples}, ptr @steps, ptr {words})")
        f.do(f"store i64 {alone}, ptr {status}, align 8")

    if given is not own:
        for k in range(len(binding.inputs), len(operands)):
            _convert(f, wide[k], own, data[k], given, numbers[k])
        f.do(f"call void @free(ptr {memory})")

    f.leave_when(f.let(f"icmp ne i64 {f.word(status)}, 0"), "exhausted")
    f.do("ret ptr null")
    f.label("exhausted")
    error = _error(f)

    steps = [own.bytes * operand.size for operand in operands]
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
