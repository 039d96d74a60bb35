"""Memory of fast calls: the structures that they read, and the results that they return.

Making arrays and tuples of them and destroying them takes longer than some kernels do. So a bound kernel keeps the last
few small results that it returned, and returns one of them again once nobody else refers to it or its parts, provided
that they still are what they were: not reshaped, not made read-only, and without weak references. Larger arrays are
views of the pool's buffers.
"""

from __future__ import annotations

from enum import IntEnum

from kinetree.compiler.llvm.writer import FunctionWriter
from kinetree.runtime.buffers import BUFFERS, SMALLEST_RESULT

# Byte offsets in CPython's and NumPy's structures.
COUNT, TYPE = 0, 8
FLOAT_VALUE = 16
DATA, NDIM, DIMS, DESCR, FLAGS, WEAK = 16, 24, 32, 56, 64, 72
VECTORCALL, METHOD, FRONT, GATE_SIZE = 16, 24, 32, 40
TYPE_FLAGS = 168

PLAIN = 0x0001 | 0x0100  # NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED
WRITEABLE = 0x0400
OWNS_DATA = 0x0004
MAX_OPERANDS = 64
MAX_LEADING = 4  # leading axes of a batch
MAX_PARAMETERS = 64
MAX_KEYS = 16
MAX_ROWS_SIZE = 6 * MAX_KEYS  # numbers in a dictionary's arrays

# Fewer samples are faster one by one than in mostly unused lanes.
SMALLEST_BATCH = 3
# Small results that a kernel keeps: arrays, or tuples of them.
KEPT = 4


class CallDescriptor(IntEnum):
    """Words of a gate: parameters have two words each, name and default; variants their kernel, keys and choices.

    `DEFAULT` is the kernel for calls with all inputs and nothing else, or null. `KEYED` is the number of the parameter
    that may be a dictionary. A variant's keys are null, or their number and the keys; its choice is null there.
    """

    PARAMETERS = 0
    INPUTS = 1
    VARIANTS = 2
    OUT = 3
    NONE = 4
    DEFAULT = 5
    KEYED = 6
    DICT_TYPE = 7
    STR_TYPE = 8
    ENTRIES = 9


class KernelDescriptor(IntEnum):
    """Words of a bound kernel.

    `THREADS` is the address of the number of threads. Batches of more than `MOST_SAMPLES` are worth two of them. Where
    there is one, batches of up to `MOST_ALONE` stay in machine code, which Python cannot interrupt.

    `RESULTS` is the address of the small results that are kept, or null; `NEXT_RESULT` counts those that were replaced.
    `BUFFERS` and `BUFFER_SIZES` are the pool's, for larger results, and `FRESH_BUFFER` its function that
    makes one. `NEW_ARRAY` and `SET_BASE` are functions of NumPy.
    """

    INPUTS = 0
    OUTPUTS = 1
    DRIVE = 2
    PLAN = 3
    ARRAY_TYPE = 4
    DTYPE = 5
    NEW_ARRAY = 6
    WORK = 7
    BUNDLE = 8
    FLOAT_TYPE = 9
    TUPLE_TYPE = 10
    MOST_SAMPLES = 11
    BATCH_PLAN = 12
    BATCH_DRIVE = 13
    TYPE_NUMBER = 14
    ITEM_BYTES = 15
    SET_BASE = 16
    DOUBLE_TYPE = 17
    SINGLE_TYPE = 18
    RESULTS = 19
    NEXT_RESULT = 20
    BUFFERS = 21
    BUFFER_SIZES = 22
    FRESH_BUFFER = 23
    THREADS = 24
    MOST_ALONE = 25
    OPERANDS = 26


OPERAND_WORDS = 5  # rank, up to three dimensions, bytes


class GateWriter:
    """Writes the function: its local variables, and what all its parts need.

    Attributes:
        source: Where the arguments for the parameters are.
        words: The bound kernel: its addresses and sizes.
        inputs: Number of inputs.
        outputs: Number of outputs.
        several: Whether there are several outputs.
        kind: The type of arrays.
        dtype: The type of their numbers.
        operands: The words of operands.
        batched: Whether the call is for a batch.
        count: Number of samples.
        extra: Number of leading axes of results.
    """

    source: str
    words: str
    inputs: str
    outputs: str
    several: str
    kind: str
    dtype: str
    operands: str
    batched: str
    count: str
    extra: str

    def __init__(self) -> None:
        f = self.f = FunctionWriter("define ptr @gate(ptr %self, ptr %args, i64 %nargsf, ptr %names)")
        self.given = f.let(f"alloca [{MAX_PARAMETERS} x ptr], align 8")
        self.arguments = f.let(f"alloca [{MAX_OPERANDS} x ptr], align 8")
        self.lengths = f.let(f"alloca [{MAX_OPERANDS} x i64], align 8")
        self.steps = f.let(f"alloca [{MAX_OPERANDS} x i64], align 8")
        self.shape = f.let(f"alloca [{MAX_LEADING + 3} x i64], align 8")
        self.numbers = f.let(f"alloca [{MAX_OPERANDS} x double], align 8")
        self.samples, self.hit = f.let("alloca i64, align 8"), f.let("alloca i64, align 8")
        self.out, self.item, self.chosen, self.answer = (f.let("alloca ptr, align 8") for _ in range(4))
        self.values = f.let(f"alloca [{MAX_KEYS} x ptr], align 8")
        self.rows = f.let(f"alloca [{MAX_ROWS_SIZE} x i64], align 8")
        self.keys, self.place, self.differs, self.fits = (f.let("alloca i64, align 8") for _ in range(4))
        self.key, self.buffer, self.lead = (f.let("alloca ptr, align 8") for _ in range(3))
        self.axes = f.let("alloca i64, align 8")

    def put(self, value: str, place: str, kind: str = "i64") -> None:
        """Store a word or a pointer."""
        self.f.do(f"store {kind} {value}, ptr {place}, align 8")

    def operand(self, k: str) -> str:
        """The words of an operand."""
        return self.f.at(self.operands, self.f.let(f"mul i64 {k}, {OPERAND_WORDS}"), "i64")

    def bytes_of(self, operand: str) -> str:
        """Size of one sample of an operand in bytes."""
        return self.f.word(operand, OPERAND_WORDS - 1)

    def size_of(self, operand: str) -> str:
        """Size of all samples of an operand in bytes."""
        return self.f.let(f"mul i64 {self.bytes_of(operand)}, {self.count}")

    def is_a(self, value: str, kind: KernelDescriptor) -> str:
        """Whether an object has a type, of which it is no subclass."""
        f = self.f
        return f.let(f"icmp eq ptr {f.address(f.at(value, TYPE))}, {f.address(self.words, kind)}")

    def has_flags(self, array: str, flags: int) -> str:
        """Whether an array has all of some flags, an i1."""
        f = self.f
        found = f.let(f"and i32 {f.let(f'load i32, ptr {f.at(array, FLAGS)}, align 4')}, {flags}")
        return f.let(f"icmp eq i32 {found}, {flags}")

    def require_plain(self, array: str, flags: int) -> None:
        """Go to `general` unless this is an array of the kernel's type with these flags."""
        f = self.f
        f.leave_when(f.let(f"icmp ne ptr {f.address(f.at(array, TYPE))}, {self.kind}"), "general")
        f.leave_when(f.let(f"icmp ne ptr {f.address(f.at(array, DESCR))}, {self.dtype}"), "general")
        found = f.let(f"load i32, ptr {f.at(array, FLAGS)}, align 4")
        f.leave_when(f.let(f"icmp ne i32 {f.let(f'and i32 {found}, {flags}')}, {flags}"), "general")

    def require_array(self, array: str, operand: str, flags: int) -> tuple[str, str]:
        """Go to `general` unless this is a plain array of the operand's shape, with few leading axes.

        Returns:
            The number of leading axes, and the address of its dimensions.
        """
        f = self.f
        self.require_plain(array, flags)
        ndim = f.let(f"sext i32 {f.let(f'load i32, ptr {f.at(array, NDIM)}, align 4')} to i64")
        rank = f.word(operand)
        extra = f.let(f"sub i64 {ndim}, {rank}")
        f.leave_when(f.let(f"icmp ugt i64 {extra}, {MAX_LEADING}"), "general")
        dims = f.address(f.at(array, DIMS))
        with f.loop(0, rank) as axis:
            wanted = f.word(operand, f.let(f"add i64 {axis}, 1"))
            actual = f.word(dims, f.let(f"add i64 {axis}, {extra}"))
            f.leave_when(f.let(f"icmp ne i64 {actual}, {wanted}"), "general")
        return extra, dims

    def leads_differ(self, dims: str, axis: str) -> str:
        """Whether the length of a leading axis is not that of the batch, an i1."""
        return self.f.let(f"icmp ne i64 {self.f.word(dims, axis)}, {self.f.word(self.f.address(self.lead), axis)}")

    def part(self, results: str, o: str) -> str:
        """The array for an output among results: one of a tuple, or the only one."""
        f = self.f
        self.put(results, self.item, "ptr")
        with f.when(self.several):
            self.put(f.let(f"call ptr @PyTuple_GetItem(ptr {results}, i64 {o})"), self.item, "ptr")
        return f.address(self.item)


class Results(GateWriter):
    """Writes how memory for the results is found."""

    def give(self, has_out: str) -> None:
        """Find or create the results. The returned array or tuple of arrays owns everything allocated here."""
        f, put = self.f, self.put
        put("null", self.answer, "ptr")
        small = self.keeps_results(has_out)
        with f.when(small):
            self.find_kept()
        missing = f.let(f"icmp eq ptr {f.address(self.answer)}, null")
        with f.when(f.let(f"and i1 {missing}, {self.several}")):
            type_of_bundle = f.address(self.words, KernelDescriptor.BUNDLE)
            bundle = f.let(f"call ptr @PyType_GenericAlloc(ptr {type_of_bundle}, i64 {self.outputs})")
            f.leave_when(f.let(f"icmp eq ptr {bundle}, null"), "failed")
            put(bundle, self.answer, "ptr")
        with f.loop(0, f.let(f"select i1 {missing}, i64 {self.outputs}, i64 0")) as o:
            k = f.let(f"add i64 {o}, {self.inputs}")
            operand = self.operand(k)
            with f.when(has_out):
                f.do(f"call void @Py_IncRef(ptr {self.part(f.address(self.out), o)})")
            with f.when(f.let(f"xor i1 {has_out}, true")):
                put("null", self.buffer, "ptr")
                size = self.size_of(operand)
                with f.when(f.let(f"icmp uge i64 {size}, {SMALLEST_RESULT}")):
                    self.find_buffer(size)
                self.make(operand)
                put(f.address(f.at(f.address(self.item), DATA)), f.at(self.arguments, k, "ptr"), "ptr")
            result = f.address(self.item)
            with f.when(self.several):
                f.let(f"call i32 @PyTuple_SetItem(ptr {f.address(self.answer)}, i64 {o}, ptr {result})")
            with f.when(f.let(f"xor i1 {self.several}, true")):
                put(result, self.answer, "ptr")
        with f.when(f.let(f"and i1 {missing}, {small}")):
            self.keep()

    def keeps_results(self, has_out: str) -> str:
        """Whether the results of this call are kept for later calls: all are small, and none is the caller's."""
        f, put = self.f, self.put
        kept = f.let(f"icmp ne ptr {f.address(self.words, KernelDescriptor.RESULTS)}, null")
        keeps = f.let(f"and i1 {kept}, {f.let(f'xor i1 {has_out}, true')}")
        put(f.let(f"zext i1 {keeps} to i64"), self.fits)
        with f.loop(self.inputs, f.let(f"add i64 {self.inputs}, {self.outputs}")) as k:
            large = f.let(f"icmp uge i64 {self.size_of(self.operand(k))}, {SMALLEST_RESULT}")
            with f.when(large):
                put("0", self.fits)
        return f.let(f"icmp ne i64 {f.word(self.fits)}, 0")

    def make(self, operand: str) -> None:
        """Set `item` to a new array for a result, a view of `buffer` if there is one."""
        f, put = self.f, self.put
        with f.loop(0, self.extra) as axis:
            put(f.word(f.address(self.lead), axis), f.at(self.shape, axis, "i64"))
        for i in range(3):
            put(f.word(operand, 1 + i), f.at(self.shape, f.let(f"add i64 {self.extra}, {i}"), "i64"))
        rank = f.let(f"trunc i64 {f.let(f'add i64 {f.word(operand)}, {self.extra}')} to i32")
        number = f.let(f"trunc i64 {f.word(self.words, KernelDescriptor.TYPE_NUMBER)} to i32")
        buffer = f.address(self.buffer)
        view = f.let(f"icmp ne ptr {buffer}, null")
        put("null", self.item, "ptr")
        with f.when(view):
            put(f.address(f.at(buffer, DATA)), self.item, "ptr")
        flags = f.let(f"select i1 {view}, i32 {PLAIN | WRITEABLE}, i32 0")
        rest = f"i32 {number}, ptr null, ptr {f.address(self.item)}, i32 0, i32 {flags}, ptr null"
        new = f.address(self.words, KernelDescriptor.NEW_ARRAY)
        made = f.let(f"call ptr {new}(ptr {self.kind}, i32 {rank}, ptr {self.shape}, {rest})")
        put(made, self.item, "ptr")
        failed = f.let(f"icmp eq ptr {made}, null")
        with f.when(f.let(f"and i1 {failed}, {view}")):
            f.do(f"call void @Py_DecRef(ptr {buffer})")
        f.leave_when(failed, "failed")
        with f.when(view):
            f.let(f"call i32 {f.address(self.words, KernelDescriptor.SET_BASE)}(ptr {made}, ptr {buffer})")

    def find_buffer(self, size: str) -> None:
        """Set `buffer` to a new reference to one of the pool's that is not in use, or to a fresh one."""
        f, put = self.f, self.put
        buffers, sizes = (
            f.address(self.words, KernelDescriptor.BUFFERS),
            f.address(self.words, KernelDescriptor.BUFFER_SIZES),
        )
        most = f.let(f"mul i64 {size}, 2")
        with f.loop(0, BUFFERS) as place:
            found = f.word(sizes, place)
            large, small = f.let(f"icmp sge i64 {found}, {size}"), f.let(f"icmp sle i64 {found}, {most}")
            missing = f.let(f"icmp eq ptr {f.address(self.buffer)}, null")
            with f.when(f.let(f"and i1 {f.let(f'and i1 {large}, {small}')}, {missing}")):
                buffer = f.address(buffers, place)
                intact = self.has_flags(buffer, PLAIN | WRITEABLE | OWNS_DATA)
                with f.when(f.let(f"and i1 {self.is_unused(buffer)}, {intact}")):
                    put(buffer, self.buffer, "ptr")
                    f.do(f"call void @Py_IncRef(ptr {buffer})")
        with f.when(f.let(f"icmp eq ptr {f.address(self.buffer)}, null")):
            number = f.let(f"call ptr @PyLong_FromSsize_t(i64 {size})")
            f.leave_when(f.let(f"icmp eq ptr {number}, null"), "failed")
            put(number, self.item, "ptr")
            fresh = f.address(self.words, KernelDescriptor.FRESH_BUFFER)
            made = f.let(f"call ptr @PyObject_Vectorcall(ptr {fresh}, ptr {self.item}, i64 1, ptr null)")
            f.do(f"call void @Py_DecRef(ptr {number})")
            f.leave_when(f.let(f"icmp eq ptr {made}, null"), "failed")
            put(made, self.buffer, "ptr")
            put("null", self.item, "ptr")

    def find_kept(self) -> None:
        """Set `answer` to a new reference to kept results that are not in use, if there are any."""
        f, put = self.f, self.put
        kept = f.address(self.words, KernelDescriptor.RESULTS)
        with f.loop(0, KEPT) as slot, f.when(f.let(f"icmp eq ptr {f.address(self.answer)}, null")):
            whole = f.address(kept, slot)
            with f.when(self.is_unused(whole)):
                put("1", self.fits)
                with f.loop(0, self.outputs) as o, f.when(f.let(f"icmp ne i64 {f.word(self.fits)}, 0")):
                    self.take_intact(self.part(whole, o), f.let(f"add i64 {o}, {self.inputs}"))
                with f.when(f.let(f"icmp ne i64 {f.word(self.fits)}, 0")):
                    put(whole, self.answer, "ptr")
                    f.do(f"call void @Py_IncRef(ptr {whole})")

    def is_unused(self, value: str) -> str:
        """Whether there is one reference to an object: the one through which it was found."""
        f = self.f
        return f.let(f"icmp eq i32 {f.let(f'load i32, ptr {f.at(value, COUNT)}, align 4')}, 1")

    def take_intact(self, array: str, k: str) -> None:
        """Use a kept array for an operand; reset `fits` if it is in use or somebody changed more than its numbers."""
        f, put = self.f, self.put
        operand = self.operand(k)
        axes = f.let(f"add i64 {f.word(operand)}, {self.extra}")
        rank = f.let(f"trunc i64 {axes} to i32")
        for changed in (
            f.let(f"xor i1 {self.is_unused(array)}, true"),
            f.let(f"icmp ne ptr {f.address(f.at(array, DESCR))}, {self.dtype}"),
            f.let(f"xor i1 {self.has_flags(array, PLAIN | WRITEABLE | OWNS_DATA)}, true"),
            f.let(f"icmp ne i32 {f.let(f'load i32, ptr {f.at(array, NDIM)}, align 4')}, {rank}"),
            f.let(f"icmp ne ptr {f.address(f.at(array, WEAK))}, null"),
        ):
            with f.when(changed):
                put("0", self.fits)
        with f.when(f.let(f"icmp ne i64 {f.word(self.fits)}, 0")):
            dims = f.address(f.at(array, DIMS))
            with f.loop(0, self.extra) as axis, f.when(self.leads_differ(dims, axis)):
                put("0", self.fits)
            with f.loop(self.extra, axes) as axis:
                wanted = f.word(operand, f.let(f"add i64 {f.let(f'sub i64 {axis}, {self.extra}')}, 1"))
                with f.when(f.let(f"icmp ne i64 {f.word(dims, axis)}, {wanted}")):
                    put("0", self.fits)
        put(f.address(f.at(array, DATA)), f.at(self.arguments, k, "ptr"), "ptr")

    def keep(self) -> None:
        """Keep the results in place of older ones."""
        f, put = self.f, self.put
        turn = f.word(self.words, KernelDescriptor.NEXT_RESULT)
        put(f.let(f"add i64 {turn}, 1"), f.at(self.words, KernelDescriptor.NEXT_RESULT, "i64"))
        slot = f.at(f.address(self.words, KernelDescriptor.RESULTS), f.let(f"and i64 {turn}, {KEPT - 1}"), "ptr")
        old = f.address(slot)
        f.do(f"call void @Py_IncRef(ptr {f.address(self.answer)})")
        put(f.address(self.answer), slot, "ptr")
        f.do(f"call void @Py_DecRef(ptr {old})")
