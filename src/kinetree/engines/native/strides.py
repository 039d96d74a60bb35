"""Dimensions and strides of a sample in a user's array, in LLVM assembly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from kinetree.engines.formats import Format
from kinetree.engines.llvm.writer import FunctionWriter
from kinetree.engines.native.operands import OperandWord


class CoreStrides:
    """Dimensions and strides of one sample of an operand, padded on the left to three axes."""

    def __init__(self, f: FunctionWriter, operand: str, steps: str, scalar: Format) -> None:
        self.f, self.scalar = f, scalar
        self.size = f.word(operand, OperandWord.SIZE)
        self.dims = [f.word(operand, OperandWord.DIM + axis) for axis in range(3)]
        first, rank = f.word(operand, OperandWord.FIRST_STEP), f.word(operand, OperandWord.RANK)
        self.strides = []
        for axis in range(3):
            # padded axes have length 1; their stride is irrelevant but must be read from somewhere
            offset = f.let(f"sub i64 {rank}, {3 - axis}")
            real = f.let(f"icmp sge i64 {offset}, 0")
            index = f.let(f"select i1 {real}, i64 {f.let(f'add i64 {first}, {offset}')}, i64 0")
            self.strides.append(f.word(steps, index))

    def contiguous(self) -> str:
        """Whether a sample is contiguous in C order, an i1."""
        f = self.f
        inner, answer = str(self.scalar.bytes), "true"
        for dim, stride in zip(reversed(self.dims), reversed(self.strides), strict=True):
            single = f.let(f"icmp eq i64 {dim}, 1")
            dense = f.let(f"icmp eq i64 {stride}, {inner}")
            answer = f.let(f"and i1 {answer}, {f.let(f'or i1 {single}, {dense}')}")
            inner = f.let(f"mul i64 {inner}, {dim}")
        return answer

    @contextmanager
    def each(self) -> Iterator[tuple[str, str]]:
        """Loop over the elements; yields an element's number in C order and its offset in bytes."""
        f, number, offset = self.f, "0", "0"
        with ExitStack() as loops:
            for dim, stride in zip(self.dims, self.strides, strict=True):
                index = loops.enter_context(f.loop(0, dim))
                number = f.let(f"add i64 {f.let(f'mul i64 {number}, {dim}')}, {index}")
                offset = f.let(f"add i64 {offset}, {f.let(f'mul i64 {index}, {stride}')}")
            yield number, offset
