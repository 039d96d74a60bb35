"""What all parts of the machine code of gates need: see `kinetree.engines.native.gate_code`."""

from __future__ import annotations

from kinetree.engines.llvm.writer import FunctionWriter
from kinetree.engines.native.gate_layout import (
    DESCR,
    DIMS,
    FLAGS,
    MAX_KEYS,
    MAX_OPERANDS,
    MAX_PARAMETERS,
    MAX_ROWS_SIZE,
    NDIM,
    OPERAND_WORDS,
    TYPE,
    KernelDescriptor,
)


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
        extra: Number of leading axes of results, 0 or 1.
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
        self.steps = f.let(f"alloca [{4 * MAX_OPERANDS} x i64], align 8")
        self.shape = f.let("alloca [4 x i64], align 8")
        self.numbers = f.let(f"alloca [{MAX_OPERANDS} x double], align 8")
        self.samples, self.hit = f.let("alloca i64, align 8"), f.let("alloca i64, align 8")
        self.out, self.item, self.chosen, self.answer = (f.let("alloca ptr, align 8") for _ in range(4))
        self.values = f.let(f"alloca [{MAX_KEYS} x ptr], align 8")
        self.rows = f.let(f"alloca [{MAX_ROWS_SIZE} x i64], align 8")
        self.keys, self.place, self.differs, self.fits = (f.let("alloca i64, align 8") for _ in range(4))
        self.key, self.buffer = (f.let("alloca ptr, align 8") for _ in range(2))

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
        """Go to `general` unless this is a plain array of the operand's shape, with at most one leading axis.

        Returns:
            The number of leading axes, and the address of its dimensions.
        """
        f = self.f
        self.require_plain(array, flags)
        ndim = f.let(f"sext i32 {f.let(f'load i32, ptr {f.at(array, NDIM)}, align 4')} to i64")
        rank = f.word(operand)
        extra = f.let(f"sub i64 {ndim}, {rank}")
        f.leave_when(f.let(f"icmp ugt i64 {extra}, 1"), "general")
        dims = f.address(f.at(array, DIMS))
        with f.loop(0, rank) as axis:
            wanted = f.word(operand, f.let(f"add i64 {axis}, 1"))
            actual = f.word(dims, f.let(f"add i64 {axis}, {extra}"))
            f.leave_when(f.let(f"icmp ne i64 {actual}, {wanted}"), "general")
        return extra, dims

    def part(self, results: str, o: str) -> str:
        """The array for an output among results: one of a tuple, or the only one."""
        f = self.f
        self.put(results, self.item, "ptr")
        with f.when(self.several):
            self.put(f.let(f"call ptr @PyTuple_GetItem(ptr {results}, i64 {o})"), self.item, "ptr")
        return f.address(self.item)
