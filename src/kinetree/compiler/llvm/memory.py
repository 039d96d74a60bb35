"""Names, addresses, loads and stores in LLVM assembly: what the printer of a program needs to know of memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kinetree.compiler.formats import Format
from kinetree.compiler.ir import Access, Op
from kinetree.compiler.llvm.writer import FunctionWriter
from kinetree.compiler.lower.lower import Lowered

_INTEGER = {"iadd": "add i64", "imul": "mul i64"}
#: Read-only memory spaces.
_PURE = ("constants", "gravity", "input")
#: Memory spaces that all lanes share.
_SHARED = ("constants", "gravity")


@dataclass
class Lanes:
    """Indices of a loop as lanes: the first index, and the mask of a partial group."""

    count: int
    first: str
    mask: str | None = None
    #: Whether groups start at multiples of their length, so that rows of arrays, which are padded, hold whole ones.
    aligned: bool = False

    @property
    def every(self) -> str:
        """The mask, which is true in all lanes of a whole group."""
        return self.mask or "<" + ", ".join(["i1 true"] * self.count) + ">"


@dataclass
class Scope:
    """The scope of a block: the width of its values and the names defined there."""

    width: int
    outer: Scope | None = None
    lanes: Lanes | None = None
    names: dict[Any, str] = field(default_factory=dict)
    #: Line before the loop of this scope, where values of outer scopes can be broadcast to lanes.
    before: int = 0

    def find(self, key: Any) -> str | None:
        """A name defined here or in an outer scope."""
        return self.names.get(key) or (self.outer.find(key) if self.outer else None)

    def inner(self) -> Scope:
        """The scope of a block inside."""
        return Scope(self.width, self)


@dataclass
class Written:
    """A function that is being written, and what it refers to."""

    writer: FunctionWriter
    tables: str = "%tables"  # the address of the tables
    #: Whether it is a part of a kernel. It then depends on nothing but its own loop, so that kernels that have the
    #: loop in common share its code: it takes outputs and numbers of the tables' head as arguments.
    is_part: bool = False
    numbers: dict[str, str] = field(default_factory=dict)  # numbers of the tables' head that it uses
    addresses: dict[str, str] = field(default_factory=dict)  # memory that it uses, by the name of its number there
    outputs: dict[int, str] = field(default_factory=dict)  # outputs that it writes or reads
    declared: set[str] = field(default_factory=set)  # declarations of what it calls
    #: functions of scalars that it calls, by code and width
    functions: dict[tuple[str, int], str] = field(default_factory=dict)
    sincos_widths: set[int] = field(default_factory=set)  # widths at which it computes sines and cosines


class Memory:
    """Prints accesses to memory in the function that is being written, for so many samples per call."""

    #: The function that is being written.
    own: Written

    def __init__(self, lowered: Lowered, width: int, scalar: Format) -> None:
        self.lowered, self.width, self.scalar = lowered, width, scalar
        self.element, self.bytes = scalar.vector(width), scalar.bytes
        self.head, self.outside_element = {name: place for place, name in enumerate(lowered.head)}, self.element
        self._constants: dict[tuple[int, int], str] = {}

    @property
    def f(self) -> FunctionWriter:
        """The writer of the current function."""
        return self.own.writer

    def constant(self, op: Op, width: int) -> str:
        """The number of a `const` in all lanes."""
        key = id(op), width
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self.scalar.constant(op.attr, width)
        return found

    def number(self, name: str) -> str:
        """A number from the head of the tables; parts are given theirs."""
        own = self.own
        if name not in own.numbers:
            if own.is_part:
                own.numbers[name] = f"%number{len(own.numbers)}"
            else:
                place = own.writer.first(f"getelementptr i64, ptr {own.tables}, i64 {self.head[name]}")
                own.numbers[name] = own.writer.first(f"load i64, ptr {place}, align 8, !invariant.load !0")
        return own.numbers[name]

    def start(self, memory: str, name: str, element: str) -> str:
        """An address whose offset is given in the head of the tables."""
        found = self.own.addresses
        if name not in found:
            found[name] = self.f.first(f"getelementptr {element}, ptr {memory}, i64 {self.number(name)}")
        return found[name]

    def table(self, name: str) -> str:
        """The address of a table."""
        return self.start(self.own.tables, f"table {name}", "i64")

    def space(self, space: tuple[str, int]) -> str:
        """The address of a memory space."""
        kind, number = space
        if kind == "records":
            return "%ws"
        if kind == "constants":
            return "%params"
        if kind == "gravity":
            return self.start("%params", "gravity", self.scalar.llvm)
        if kind == "output":
            return self.own.outputs.setdefault(number, f"%out{len(self.own.outputs)}")
        if kind == "input":
            return self.start("%in", f"input {number}", self.outside_element)
        return self.start("%ws", f"array {number}", self.element)

    def word(self, pointer: str, index: str | int) -> str:
        """A number from the tables."""
        return self.f.let(f"load i64, ptr {self.f.at(pointer, index, 'i64')}, align 8, !invariant.load !0")

    def whole(self, op: Op, scope: Scope) -> str:
        """An integer."""
        if op.code in ("int", "size"):
            return str(op.attr) if op.code == "int" else self.number(op.attr)
        args = [self.integer(a, scope) for a in op.args]
        if op.code == "cell":
            name, column = op.attr
            columns, key = self.lowered.tables[name], ("cell", name, column, args[0])
            found = scope.find(key)
            if found is None:
                place = args[0] if len(columns) == 1 else self.f.let(f"mul i64 {args[0]}, {len(columns)}")
                row = self.f.at(self.table(name), place, "i64")
                found = scope.names[key] = self.word(row, columns.index(column))
            return found
        if op.code == "imax":
            later = self.f.let(f"icmp sgt i64 {args[0]}, {args[1]}")
            return self.f.let(f"select i1 {later}, i64 {args[0]}, i64 {args[1]}")
        return self.f.let(f"{_INTEGER[op.code]} {args[0]}, {args[1]}")

    def integer(self, op: Op, scope: Scope) -> str:
        """The name of an integer."""
        name = str(op.attr) if op.code == "int" else scope.find(id(op))
        if name is None:
            raise AssertionError(f"{op!r} is used where it is not defined")
        return name

    def use(self, op: Op, scope: Scope) -> str:
        """The name of a scalar's value at the width of the scope."""
        name = scope.names.get(id(op))
        if name is not None:
            return name
        if op.code == "const":
            return self.constant(op, scope.width)
        if scope.outer is None:
            raise AssertionError(f"{op!r} is used where it is not defined")
        name = self.use(op, scope.outer)
        if scope.width != scope.outer.width:
            with self.f.hoisted(scope.before):
                name = self.splat(name, scope.width)
        scope.names[id(op)] = name
        return name

    def splat(self, name: str, width: int, element: str | None = None) -> str:
        """A value broadcast to all lanes; a scalar, unless another type is given."""
        if width == 1:
            return name
        return self.f.splat(name, width, element or self.scalar.llvm)

    def pointer(self, access: Access, scope: Scope) -> str:
        """The address of a scalar's first lane."""
        space, base, f = access.space, access.base, self.own.writer
        element = self.scalar.llvm if space[0] in _SHARED else self.element
        start = self.space(space)
        if base is not None:
            key = "at", space, id(base)
            found = scope.find(key)
            if found is None:
                number = self.integer(base, scope)
                same = "at", space, number  # of another op with this number
                found = scope.find(same) or f.at(start, number, element)
                scope.names[key] = scope.names[same] = found
            start = found
        return f.at(start, access.offset, element)

    def load(self, access: Access, scope: Scope) -> str:
        """The value at a place, in all lanes."""
        f, pointer, lanes, space = self.own.writer, self.pointer(access, scope), scope.lanes, access.space[0]
        pure = ", !invariant.load !0" if space in _PURE else ""
        if space in _SHARED or (lanes and access.stride is None):
            return self.splat(f.let(f"load {self.scalar.llvm}, ptr {pointer}, align {self.bytes}{pure}"), scope.width)
        if not lanes:
            return f.let(f"load {self.element}, ptr {pointer}, align {self.bytes * scope.width}{pure}")
        t, suffix, mask = self.scalar.vector(lanes.count), self.scalar.suffix(lanes.count), f"<{lanes.count} x i1>"
        if _straight(access) and lanes.mask is None:
            return f.let(f"load {t}, ptr {pointer}, align {self.bytes}{pure}")
        if _straight(access):
            name = self.intrinsic(f"{t} @llvm.masked.load.{suffix}.p0", f"ptr, i32, {mask}, {t}")
            return f.let(f"call {name}(ptr {pointer}, i32 {self.bytes}, {mask} {lanes.mask}, {t} zeroinitializer)")
        name = self.intrinsic(
            f"{t} @llvm.masked.gather.{suffix}.v{lanes.count}p0",
            f"<{lanes.count} x ptr>, i32, {mask}, {t}",
        )
        pointers = self.spread(access, pointer, lanes, scope)
        return f.let(f"call {name}({pointers}, i32 {self.bytes}, {mask} {lanes.every}, {t} zeroinitializer)")

    def store(self, access: Any, value: str, scope: Scope) -> None:
        """Store a value in all lanes."""
        f, pointer, lanes = self.f, self.pointer(access, scope), scope.lanes
        if not lanes:
            aligned = self.bytes if access.space[0] == "output" else self.bytes * self.width
            f.do(f"store {self.element} {value}, ptr {pointer}, align {aligned}")
            return
        t, suffix, mask = self.scalar.vector(lanes.count), self.scalar.suffix(lanes.count), f"<{lanes.count} x i1>"
        padded = lanes.aligned and access.space[0] == "array"  # a load can take what it needs from a whole store only
        if _straight(access) and (lanes.mask is None or padded):
            f.do(f"store {t} {value}, ptr {pointer}, align {self.bytes}")
        elif _straight(access):
            name = self.intrinsic(f"void @llvm.masked.store.{suffix}.p0", f"{t}, ptr, i32, {mask}")
            f.do(f"call {name}({t} {value}, ptr {pointer}, i32 {self.bytes}, {mask} {lanes.mask})")
        else:
            name = self.intrinsic(
                f"void @llvm.masked.scatter.{suffix}.v{lanes.count}p0",
                f"{t}, <{lanes.count} x ptr>, i32, {mask}",
            )
            pointers = self.spread(access, pointer, lanes, scope)
            f.do(f"call {name}({t} {value}, {pointers}, i32 {self.bytes}, {mask} {lanes.every})")

    def intrinsic(self, name: str, arguments: str) -> str:
        self.own.declared.add(f"declare {name}({arguments})")
        return name

    def spread(self, access: Access, pointer: str, lanes: Lanes, scope: Scope) -> str:
        """Pointers to the places of consecutive indices."""
        f, t = self.f, f"<{lanes.count} x i64>"
        stride = self.integer(access.stride, scope) if access.stride is not None else "0"
        steps = self.steps(access.table, lanes) if access.table else counting(lanes.count)
        offsets = f.let(f"mul {t} {self.splat(stride, lanes.count, 'i64')}, {steps}")
        return f"<{lanes.count} x ptr> " + f.let(f"getelementptr {self.scalar.llvm}, ptr {pointer}, {t} {offsets}")

    def steps(self, table: str, lanes: Lanes) -> str:
        """Distances of the lanes' places from that of the first lane, from a table."""
        f, t = self.f, f"<{lanes.count} x i64>"
        first = f.at(self.table(table), lanes.first, "i64")
        name = self.intrinsic(f"{t} @llvm.masked.load.v{lanes.count}i64.p0", f"ptr, i32, <{lanes.count} x i1>, {t}")
        places = f.let(f"call {name}(ptr {first}, i32 8, <{lanes.count} x i1> {lanes.every}, {t} zeroinitializer)")
        return f.let(f"sub {t} {places}, {self.splat(self.word(first, 0), lanes.count, 'i64')}")


def _straight(access: Access) -> bool:
    """Whether the places of consecutive indices are contiguous."""
    stride = access.stride
    return stride is not None and stride.code == "int" and stride.attr == 1 and not access.table


def counting(width: int) -> str:
    """0, 1, 2, … as a vector."""
    return "<" + ", ".join(f"i64 {i}" for i in range(width)) + ">"
