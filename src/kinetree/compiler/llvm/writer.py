"""A small writer of LLVM assembly: names values, structures loops and keeps track of the current block."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

_Case = TypeVar("_Case", bound=Hashable)

#: Instructions after which a block may end.
_LONG_BLOCK = 300


class FunctionWriter:
    """Writes one function. Its header, such as "define internal void @f(ptr %x)", may change until it is finished."""

    def __init__(self, header: str) -> None:
        self.header = header
        self._first: list[str] = []
        self._lines: list[str] = []
        self._block = "entry"
        self._start = 0  # of the block
        self._count = 0
        #: What each of the enclosing loops carries: type, name, and values at first and after each pass.
        self._carried: list[dict[str, list[str]]] = []
        self._loops: list[int] = []

    def do(self, instruction: str) -> None:
        """Write an instruction without a value."""
        self._lines.append(f"  {instruction}")

    def let(self, instruction: str) -> str:
        """Write an instruction and return the name of its value."""
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {instruction}")
        return name

    def first(self, instruction: str) -> str:
        """Write an instruction at the start of the function, after earlier ones of this kind; returns its value."""
        name = f"%v{self._fresh()}"
        self._first.append(f"  {name} = {instruction}")
        return name

    def at(self, pointer: str, index: str | int, element: str = "i8") -> str:
        """The address of an element of an array."""
        return self.let(f"getelementptr {element}, ptr {pointer}, i64 {index}")

    def word(self, pointer: str, index: str | int = 0) -> str:
        """Element of an array of 64-bit integers."""
        return self.let(f"load i64, ptr {self.at(pointer, index, 'i64')}, align 8")

    def address(self, pointer: str, index: str | int = 0) -> str:
        """Element of an array of pointers."""
        return self.let(f"load ptr, ptr {self.at(pointer, index, 'ptr')}, align 8")

    def loop(self, start: str | int, stop: str | int, step: int = 1) -> AbstractContextManager[str]:
        """Repeat the block for an index from `start` while it is below `stop`."""
        return self._repeat(start, f"slt i64 {{}}, {stop}", lambda index: f"add i64 {index}, {step}")

    def chain(self, start: str | int, links: str) -> AbstractContextManager[str]:
        """Repeat the block for an index from `start` on, following links in an array until one is negative."""
        load = "load i64, ptr {}, align 8, !invariant.load !0"
        return self._repeat(start, "sge i64 {}, 0", lambda index: load.format(self.at(links, index, "i64")))

    def following(self, start: str | int, slot: str) -> AbstractContextManager[str]:
        """Repeat the block for an index from `start` on; it stores the next one to `slot`, a negative one to end."""
        return self._repeat(start, "sge i64 {}, 0", lambda _: f"load i64, ptr {slot}, align 8")

    def leave(self, condition: str) -> None:
        """End the innermost loop if a condition holds."""
        k = self._fresh()
        self.do(f"br i1 {condition}, label %exit{self._loops[-1]}, label %stay{k}")
        self.label(f"stay{k}")

    @contextmanager
    def _repeat(self, start: str | int, more: str, following: Callable[[str], str]) -> Iterator[str]:
        """Repeat the block for an index, given a comparison that holds while there is more to do and the next value."""
        k = self._fresh()
        before, index = self._block, f"%i{k}"
        self.do(f"br label %head{k}")
        self.label(f"head{k}")
        self.do(f"{index} = phi i64 [{start}, %{before}], [%next{k}, %latch{k}]")
        phis = self.mark()
        self._carried.append({})
        self.do(f"%more{k} = icmp {more.format(index)}")
        self.do(f"br i1 %more{k}, label %body{k}, label %exit{k}")
        self.label(f"body{k}")
        self._loops.append(k)
        yield index
        self._loops.pop()
        self.do(f"br label %latch{k}")
        self.label(f"latch{k}")
        self.do(f"%next{k} = {following(index)}")
        self.do(f"br label %head{k}")
        with self.hoisted(phis):
            for name, (kind, first, following_value) in self._carried.pop().items():
                self.do(f"{name} = phi {kind} [{first}, %{before}], [{following_value}, %latch{k}]")
        self.label(f"exit{k}")

    @property
    def block(self) -> str:
        """The label of the current block."""
        return self._block

    def carried(self, kind: str, first: str) -> str:
        """The name of a value that the innermost loop carries from one pass to the next; `first` in the first one."""
        name = f"%c{self._fresh()}"
        self._carried[-1][name] = [kind, first, first]
        return name

    def carry(self, name: str, value: str) -> None:
        """Set the value in the next pass."""
        self._carried[-1][name][2] = value

    def merged(self, kind: str, values: Mapping[str, str]) -> str:
        """The value that belongs to the block from which the current one was entered, given by labels."""
        return self.let(f"phi {kind} " + ", ".join(f"[{value}, %{label}]" for label, value in values.items()))

    def splat(self, value: str, width: int, element: str) -> str:
        """A value of type `element` in all lanes of a vector."""
        vector = f"<{width} x {element}>"
        one = self.let(f"insertelement {vector} poison, {element} {value}, i64 0")
        return self.let(f"shufflevector {vector} {one}, {vector} poison, <{width} x i32> zeroinitializer")

    def either(
        self, condition: str, kind: str, one: Callable[[], list[str]], other: Callable[[], list[str]]
    ) -> list[str]:
        """Values of a type that one of two functions writes, depending on `condition`, an i1."""
        k = self._fresh()
        self.do(f"br i1 {condition}, label %one{k}, label %other{k}")
        values, blocks = [], []
        for label, write in ((f"one{k}", one), (f"other{k}", other)):
            self.label(label)
            values.append(write())
            blocks.append(self._block)
            self.do(f"br label %end{k}")
        self.label(f"end{k}")
        return [self.merged(kind, dict(zip(blocks, pair, strict=True))) for pair in zip(*values, strict=True)]

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Run the block only if `condition`, an i1, holds."""
        k = self._fresh()
        self.do(f"br i1 {condition}, label %then{k}, label %end{k}")
        self.label(f"then{k}")
        yield
        self.do(f"br label %end{k}")
        self.label(f"end{k}")

    @contextmanager
    def returning_when(self, condition: str, result: str = "void") -> Iterator[None]:
        """Run the block and return from the function if `condition`, an i1, holds; `result` has a type and a value."""
        k = self._fresh()
        self.do(f"br i1 {condition}, label %then{k}, label %end{k}")
        self.label(f"then{k}")
        yield
        self.do(f"ret {result}")
        self.label(f"end{k}")

    @contextmanager
    def switch(self, value: str, cases: Mapping[int, _Case], exhaustive: bool) -> Iterator[Iterator[_Case]]:
        """Run one of several blocks; yields an iterator over them, each step of which opens the next block.

        Args:
            value: The number that selects a block, an i64.
            cases: The blocks by number; several numbers may have the same one.
            exhaustive: Whether the value is always one of them.
        """
        k = self._fresh()
        labels: dict[_Case, str] = {}
        for number, case in cases.items():
            labels.setdefault(case, f"case{k}_{number}")
        if exhaustive and len(labels) == 1:
            self.do(f"br label %{next(iter(labels.values()))}")
        else:
            targets = " ".join(f"i64 {number}, label %{labels[case]}" for number, case in cases.items())
            self.do(f"switch i64 {value}, label %end{k} [ {targets} ]")

        def blocks() -> Iterator[_Case]:
            for case, label in labels.items():
                self.label(label)
                yield case
                self.do(f"br label %end{k}")

        yield blocks()
        self.label(f"end{k}")

    def mark(self) -> int:
        """The position of the next instruction, for `hoisted`."""
        return len(self._lines)

    @contextmanager
    def hoisted(self, mark: int) -> Iterator[None]:
        """Insert the block's instructions at an earlier position, before a loop that is being written."""
        end = len(self._lines)
        yield
        written = self._lines[end:]
        del self._lines[end:]
        self._lines[mark:mark] = written

    def leave_when(self, condition: str, label: str) -> None:
        """Jump to a label if `condition` holds."""
        k = self._fresh()
        self.do(f"br i1 {condition}, label %{label}, label %stay{k}")
        self.label(f"stay{k}")

    def text(self, result: str = "void") -> str:
        """The finished function, which returns `result`, a type and a value."""
        start = [f"{self.header} {{", "entry:", *self._first]
        return "\n".join([*start, *self._lines, f"  ret {result}", "}", ""])

    def label(self, name: str) -> None:
        """Start the block of a label; the instruction before it must have left the previous block."""
        self._lines.append(f"{name}:")
        self._block, self._start = name, len(self._lines)

    def divide(self) -> None:
        """Begin another block if this one is long: LLVM's time grows faster than a block's length.

        That is so where it does not optimise; where it does, it joins them first.
        """
        if len(self._lines) - self._start > _LONG_BLOCK:
            k = self._fresh()
            self.do(f"br label %next_block{k}")
            self.label(f"next_block{k}")

    def _fresh(self) -> int:
        self._count += 1
        return self._count


def kernel_entry(outputs: int) -> str:
    """`kernel`, which unpacks the addresses of all outputs into arguments of `body`, which do not alias each other."""
    f = FunctionWriter("define void @kernel(ptr %ws, ptr %params, ptr %tables, ptr %in, ptr %outs)")
    addresses = [f.address("%outs", i) for i in range(outputs)]
    f.do(f"call void @body({', '.join(f'ptr {p}' for p in ('%ws', '%params', '%tables', '%in', *addresses))})")
    return f.text()
