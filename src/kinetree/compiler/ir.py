"""The intermediate representation: the scalar operations of an algorithm, with loops kept as loops.

A program is a tree of blocks. A block is a list of items, executed in order. A traced program consists of:

    Op      a scalar. `code` is one of
              const            attr: the number
              load             attr: the place
              add sub mul div  two arguments
              neg sqrt sin cos one argument
              select           four arguments a, b, x, y: x if a < b, else y
              fma              a·b + c, rounded once (only after `passes/fuse.py`)
    Store   writes a scalar to a place
    TreeLoop   runs a block for each row of a table or index of a range. A loop over nodes has one block per variant,
            which is the node's kind and its parent's port

An op may be used after its definition in its own block and in the blocks nested in it. A place is a field of a node, a
constant of a node or frame (`Param`), a constant of the mechanism (`Uniform`), an entry of an input or output, or of
one of the tree's arrays. A `Role` of an enclosing loop identifies the node, column or frame.

Places in different roles of one loop never overlap, except in arrays indexed by columns, where a loop's column may be
one of the node's own. A role with several `classes` (a parent of unknown kind) stands for any of them.

`kinetree.compiler.lower.lower` turns roles and places into integers and addresses. A lowered program consists of:

    Op      scalars, with loads from an `Access`, and integers:
              int              attr: the number
              index            of an enclosing loop
              size             attr: name of a size of the mechanism, such as its number of columns
              cell             attr: table and column; the argument is the row
              iadd imul imax   two arguments
    Store   writes a scalar to an `Access`
    For, Follow, Switch   loops over contiguous numbers and along a table; a choice of one of several blocks
    Segment   a block of straight-line code that runs once. It uses no op of other segments, so printers can make it
            a function, whose size they can handle

`kinetree.compiler.machine` defines their meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import numpy as np

from kinetree.language.contract import refuse
from kinetree.language.loops import LoopShape, Table
from kinetree.spatial import scalar
from kinetree.spatial.dual import Dual
from kinetree.spatial.logarithm import first_quadrant, logarithm
from kinetree.spatial.tape import Taped


class Role:
    """Identifies a member of the loop body: its node k, the parent, a column, a frame."""

    __slots__ = ("classes", "exact", "name")

    def __init__(self, name: str, classes: tuple[str, ...] = (), exact: bool = False) -> None:
        self.name = name
        #: Whether the body is specialised for one kind of node.
        self.exact = exact
        #: Names of the node kinds that it may have; ("world",) for the world; empty for columns and frames.
        self.classes = classes

    def __repr__(self) -> str:
        return f"<{self.name} {'|'.join(self.classes)}>"


class Position(NamedTuple):
    """A number of the entity that a role identifies, such as its index, or where its part of q or v starts."""

    role: Role
    what: str
    #: A number of an outer loop that is added to it.
    base: Position | None = None

    def __add__(self, base: Any) -> Position:
        """The sum of an index and one of an outer loop."""
        return self._replace(base=base)


#: A position (0: none) and a fixed offset from it.
LoopPosition = tuple[Any, int]
#: A component of a field: its name and number.
Component = tuple[str, int]


class FieldPlace(NamedTuple):
    """A scalar of a node's field."""

    role: Role
    name: str
    component: int


class Param(NamedTuple):
    """A constant of a node or frame."""

    role: Role
    component: int


class Uniform(NamedTuple):
    """A constant of the mechanism: a component of gravity."""

    component: int


class Input(NamedTuple):
    """An entry of an input, by number of the input and position along each of its axes."""

    number: int
    at: tuple[LoopPosition, ...]


class OutputEntry(NamedTuple):
    """An entry of an output."""

    number: int
    at: tuple[LoopPosition, ...]
    #: Tuples compare by what they hold: without this, the entry would equal that of an input.
    space: str = "output"


class ArrayEntry(NamedTuple):
    """A scalar of an entry of one of the tree's own arrays."""

    number: int
    at: tuple[LoopPosition, ...]
    component: int


ARITY = {
    **dict.fromkeys(("const", "load", "int", "index", "size"), 0),
    **dict.fromkeys(("neg", "sqrt", "sin", "cos", "cell"), 1),
    **dict.fromkeys(("add", "sub", "mul", "div", "iadd", "imul", "imax"), 2),
    "fma": 3,
    "select": 4,
}
COMMUTATIVE = frozenset({"add", "mul", "iadd", "imul"})
INTEGERS = frozenset({"int", "index", "size", "cell", "iadd", "imul", "imax"})


class Access(NamedTuple):
    """A scalar in memory, in a lowered program."""

    #: "records" of nodes, "array"s of the tree, "input"s, "output"s, "constants" of nodes and frames, "gravity"; and
    #: its number.
    space: tuple[str, int]
    base: Op | None  # an integer op, or None for 0
    offset: int
    #: In a loop with independent indices, the distance between the places of consecutive ones; None if they share one.
    stride: Op | None = None
    table: str = ""  # from indices to places, if consecutive places are not equally spaced
    note: str = ""  # a comment for generated code


class Exit(NamedTuple):
    """Where a loop's body first stores a flag: the loop ends here once it is 1 in all lanes."""


#: Where a scalar may be: in a traced program (all but the last but one), in a lowered one (the last two).
Place = FieldPlace | Param | Uniform | Input | OutputEntry | ArrayEntry | Access | Exit
PURE_PLACES = (Param, Uniform, Input)


def _operators(code: str) -> tuple[Callable[[Op, Any], Any], Callable[[Op, Any], Any]]:
    """The methods of `Op` for an operation with an op as its first argument, and as its second."""

    def operator(self: Op, other: Any) -> Any:
        program = self.block.program
        if not isinstance(other, Op) or other.block is not program.current:
            if isinstance(other, _WITH_OPERATORS):
                return NotImplemented
            other = program.lift(other)
        return program.do(code, self, other)

    def reversed_operator(self: Op, other: Any) -> Any:
        if isinstance(other, _WITH_OPERATORS):
            return NotImplemented
        program = self.block.program
        return program.do(code, program.lift(other), self)

    return operator, reversed_operator


#: Their own operators handle scalars.
_WITH_OPERATORS = (np.ndarray, Dual, Taped)


class Op:
    """A scalar of a traced program. Arithmetic on it appends ops to the block being traced.

    Attributes:
        code: What it computes; see the top of this file.
        args: Its arguments.
        attr: What else it needs: a constant, a place, a name.
        block: Where it is computed.
        note: Scratch of the pass that is visiting the program: what is known of it, or its copy. Much faster than
            dictionaries by identity, which would take most of a pass's time.
    """

    __slots__ = ("args", "attr", "block", "code", "note")

    note: Any

    def __init__(self, code: str, args: tuple[Op, ...], attr: Any, block: CodeBlock) -> None:
        self.code = code
        self.args = args
        self.attr = attr
        self.block = block

    # Kept programs are pickled, without scratch: a tuple takes half the time of a dictionary of slots.

    def __getstate__(self) -> tuple[Any, ...]:
        return self.code, self.args, self.attr, self.block

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.code, self.args, self.attr, self.block = state

    __add__, __radd__ = _operators("add")
    __sub__, __rsub__ = _operators("sub")
    __mul__, __rmul__ = _operators("mul")
    __truediv__, __rtruediv__ = _operators("div")

    def __neg__(self) -> Op:
        return self.block.program.do("neg", self)

    # NumPy's functions of arrays of objects call these.

    def sin(self) -> Op:
        return self.block.program.op("sin", self)

    def cos(self) -> Op:
        return self.block.program.op("cos", self)

    def sqrt(self) -> Op:
        return self.block.program.op("sqrt", self)

    def log(self) -> Op:
        """Natural logarithm, in terms of other operations."""
        found: Op = logarithm(self)
        return found

    def _no_value(self, *_: object) -> NoReturn:
        refuse(
            "an algorithm branches on a value, or uses it as an index or a number; the same code runs for all samples"
        )

    __bool__ = __int__ = __float__ = __index__ = __complex__ = _no_value
    __lt__ = __le__ = __gt__ = __ge__ = __abs__ = __pow__ = _no_value

    def __repr__(self) -> str:
        return f"{self.code}({', '.join(a.code for a in self.args)})" if self.args else f"{self.code} {self.attr}"


scalar.sincos.register(Op, lambda x: (x.sin(), x.cos()))
scalar.sqrt.register(Op, lambda x: x.sqrt())
scalar.arctan2.register(Op, first_quadrant)
scalar.log.register(Op, lambda x: x.log())


@scalar.select.register(Op)
def _select(a: Op, b: Any, x: Any, y: Any) -> Op:
    program = a.block.program
    return program.do("select", a, program.lift(b), program.lift(x), program.lift(y))


class Store(NamedTuple):
    """Writes a scalar to a place."""

    place: Place
    value: Op


@dataclass(eq=False)
class TreeLoop:
    """A loop of a traced program."""

    loop: LoopShape[Any]  # the loop as data: what it visits
    over: Role | None  # for inner loops, the role that it is over
    start: LoopPosition | None = None  # the index at which it starts, if not at the beginning
    stop: LoopPosition | None = None  # the index before which it stops, if not at the end; loops over ranges only
    #: One block per variant; loops over indices have the single variant ().
    bodies: dict[tuple[Any, ...], CodeBlock] = field(default_factory=dict)
    roles: dict[tuple[Any, ...], tuple[Role, ...]] = field(default_factory=dict)

    @property
    def blocks(self) -> list[CodeBlock]:
        """The blocks inside."""
        return list(self.bodies.values())


class _HasBody:
    body: CodeBlock

    @property
    def blocks(self) -> list[CodeBlock]:
        """The blocks inside."""
        return [self.body]


@dataclass(eq=False)
class For(_HasBody):
    """A loop of a lowered program, over contiguous numbers from `start` to `stop`, exclusively."""

    index: Op  # the current number
    start: Op
    stop: Op
    body: CodeBlock
    backwards: bool = False  # whether the last number comes first
    independent: bool = False  # whether several iterations may run at once
    carried: Any = None  # what consecutive iterations pass to each other in registers (`LoopCarried`)
    note: str = ""  # a comment for generated code


@dataclass(eq=False)
class Follow(_HasBody):
    """A loop of a lowered program that follows a table from number to number until one is negative."""

    index: Op
    start: Op
    table: str
    body: CodeBlock


@dataclass(eq=False)
class Switch:
    """Executes one of several blocks of a lowered program, selected by number; none if the number has no block."""

    value: Op
    cases: dict[int, CodeBlock]  # several numbers may have the same block
    exhaustive: bool  # whether every number has a block
    notes: dict[int, str]  # a comment on each case, for generated code

    @property
    def blocks(self) -> list[CodeBlock]:
        """The blocks inside."""
        return list(dict.fromkeys(self.cases.values()))


@dataclass(eq=False)
class Segment(_HasBody):
    """A block of straight-line code that uses no op of other segments, only constants."""

    body: CodeBlock


class CodeBlock:
    """A list of items, nested in an outer block; `known` are its ops by key, while the program is recorded."""

    __slots__ = ("items", "known", "outer", "program")

    def __init__(self, program: Program, outer: CodeBlock | None) -> None:
        self.program, self.outer = program, outer
        self.items: list[Item] = []
        self.known: dict[Any, Op] = {}


Item = Op | Store | TreeLoop | For | Follow | Switch | Segment


#: What an operation on given arguments can be replaced by in a program's current block, or None.
Rule = Callable[..., "Op | None"]


class Program:
    """A traced algorithm. Its rules simplify operations as they are recorded, by code."""

    def __init__(self, rules: Mapping[str, Rule] | None = None) -> None:
        self.rules = {} if rules is None else rules
        self.top = CodeBlock(self, None)
        self.current = self.top
        #: For each of the tree's arrays, its dimensions and the scalars per entry.
        self.arrays: list[tuple[tuple[str, ...], int]] = []
        #: Sums over children that start at −0, and the kinds of nodes that have them (`passes/fuse.py`).
        self.deferred: dict[Component, set[str]] = {}

    def forget(self, items: bool = False) -> None:
        """Forget which ops are known in which block, once nothing more is recorded.

        Without its items, what is left of a program that nobody needs is freed without a collector's search.
        """
        for block in list(blocks(self.top)):
            block.known.clear()
            if items:
                block.items.clear()

    def lift(self, value: Any) -> Op:
        """A number or an op, as an op that is usable in the current block."""
        if isinstance(value, Op):
            block: CodeBlock | None = self.current
            while block is not None:
                if block is value.block:
                    return value
                block = block.outer
            refuse("a value computed in one loop is used outside it; store it in a field")
        if isinstance(value, (int, float, np.integer, np.floating)):
            return self.op("const", attr=value if isinstance(value, scalar.Constant) else float(value))
        return refuse(f"a {type(value).__name__} cannot be part of a traced computation")

    def do(self, code: str, *args: Op) -> Op:
        """The op with these arguments, or what the program's rules replace it by."""
        rule = self.rules.get(code)
        if rule is not None:
            replaced = rule(self, *args)
            if replaced is not None:
                return replaced
        return self.record(code, args, None)

    def op(self, code: str, *args: Op, attr: Any = None) -> Op:
        """The op with these arguments."""
        return self.record(code, args, attr)

    def load(self, place: Place) -> Op:
        """A load."""
        return self.record("load", (), place)

    def record(self, code: str, args: tuple[Op, ...], attr: Any, old: Op | None = None) -> Op:
        """An identical op from the current or an enclosing block; or else a new one, or the old, appended to the block.

        Loads are identical only if they read from read-only places.
        """
        key, current = key_of(code, args, attr), self.current
        if key is not None:
            block: CodeBlock | None = current
            while block is not None:
                known = block.known.get(key)
                if known is not None:
                    return known
                block = block.outer
        if old is None:
            old = Op(code, args, attr, current)
        if key is not None:
            current.known[key] = old
        current.items.append(old)
        return old


def key_of(code: str, args: tuple[Op, ...], attr: Any) -> Any:
    """Equal for identical ops; None for loads from places that may have changed in between."""
    if len(args) == 2:
        first, second = args
        return (code, second, first) if code in COMMUTATIVE and id(first) > id(second) else (code, first, second)
    if code == "const":
        return attr or (attr, math.copysign(1.0, attr))  # −0.0 is not 0.0
    if code == "load" and not isinstance(attr, PURE_PLACES):
        return None
    return code, attr, *args


def walk(block: CodeBlock) -> list[Item]:
    """All items of a block and of the blocks nested in it, in order."""
    found: list[Item] = []
    _walk(block, found)
    return found


def _walk(block: CodeBlock, found: list[Item]) -> None:
    if _FLAT.issuperset(map(type, block.items)):  # most of them
        found += block.items
        return
    for item in block.items:
        found.append(item)
        if not isinstance(item, (Op, Store)):
            for inner in item.blocks:
                _walk(inner, found)


_FLAT = frozenset({Op, Store})


def blocks(block: CodeBlock) -> Iterator[CodeBlock]:
    """A block and all those in it."""
    yield block
    if not _FLAT.issuperset(map(type, block.items)):
        for item in block.items:
            if not isinstance(item, (Op, Store)):
                for inner in item.blocks:
                    yield from blocks(inner)


def sweep_direction(item: Item) -> str:
    """The direction of a loop from node to node without loops inside, "inward" or "outward"; empty for other items."""
    if not isinstance(item, TreeLoop) or not isinstance(item.loop, Table) or item.over is not None:
        return ""
    is_plain = all(_FLAT.issuperset(map(type, body.items)) for body in item.blocks)
    return item.loop.direction if is_plain else ""


class FieldAccess(NamedTuple):
    """A load of a field's component, or a store to it."""

    component: Component
    role: Role
    item: Op | Store


def field_accesses(outermost: Item) -> list[FieldAccess]:
    """The accesses to fields of an item and of those inside, in order."""
    inside = [] if isinstance(outermost, (Op, Store)) else outermost.blocks
    return [
        FieldAccess((place.name, place.component), place.role, item)
        for item in (outermost, *(item for block in inside for item in walk(block)))
        if isinstance(item, (Op, Store)) and isinstance(place := place_of(item), FieldPlace)
    ]


def place_of(item: Any) -> Any:
    """The place that an item stores to or loads from; None if it does neither."""
    if isinstance(item, Op):  # most of them
        return item.attr if item.code == "load" else None
    return item.place if isinstance(item, Store) else None


def bodies(loop: For) -> dict[CodeBlock, list[int]]:
    """The bodies of a loop over a table, with the variants that each serves; none for one that serves them all."""
    last = loop.body.items[-1]
    if not isinstance(last, Switch):
        return {loop.body: []}
    return {block: [number for number, case in last.cases.items() if case is block] for block in last.blocks}


def needed(item: Item) -> list[Op]:
    """The ops that an item uses."""
    if isinstance(item, Op):
        return [*item.args, *_in_access(item.attr)]
    if isinstance(item, Store):
        return [item.value, *_in_access(item.place)]
    if isinstance(item, For):
        return [item.start, item.stop]
    return [item.start] if isinstance(item, Follow) else [item.value] if isinstance(item, Switch) else []


def _in_access(place: Any) -> list[Op]:
    return [op for op in (place.base, place.stride) if op is not None] if isinstance(place, Access) else []
