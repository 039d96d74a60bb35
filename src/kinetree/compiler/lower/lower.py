"""Lowering: turns the loops of a program into loops over numbers, and its places into addresses.

A role is a row of a table or an index of a loop, and its numbers are cells of that row. A place has an address: a base,
which is an integer op, and a fixed offset. All index arithmetic happens here, so printers need to know nothing but the
operations of `kinetree.compiler.ir`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kinetree.compiler.ir import (
    Access,
    ArrayEntry,
    CodeBlock,
    Exit,
    FieldPlace,
    Follow,
    For,
    Input,
    LoopPosition,
    Op,
    OutputEntry,
    Param,
    Place,
    Position,
    Program,
    Role,
    Store,
    Switch,
    TreeLoop,
    Uniform,
    sweep_direction,
    walk,
)
from kinetree.compiler.lower.layout import Layout
from kinetree.compiler.lower.loop_carried import RECORD, RELATIVES, LoopCarried, carried, record_of
from kinetree.compiler.lower.node_sweeps import Sweeps
from kinetree.compiler.passes.hoist import ANGLES, Angles
from kinetree.compiler.verify import canonical
from kinetree.language.algorithm import Algorithm
from kinetree.language.loops import Chain, IndexEntity, IndexLoop, Range, Runs, Table
from kinetree.language.setup import WORLD_CLASS, Variants

#: Items of long programs, of which the long loops become functions of their own. Calls would slow down shorter ones.
LONG = 3000


@dataclass
class Lowered:
    """A lowered program, and what binding it to a mechanism needs."""

    program: Program
    layout: Layout
    inputs: int  # their number
    outputs: int  # their number
    tables: dict[str, list[str]] = field(default_factory=dict)  # the columns of each table that it reads
    sizes: list[str] = field(default_factory=list)  # the sizes that it reads
    angles: Angles | None = None  # whose sines and cosines can be computed ahead of all loops
    starts: list[Store] = field(default_factory=list)  # with which sums start that loops may carry
    sweeps: Sweeps | None = None  # if it consists of sweeps over nodes

    @property
    def head(self) -> list[str]:
        """Names of the numbers at the head of the tables."""
        return [
            *self.sizes,
            *(f"table {name}" for name in self.tables),
            *(f"array {i}" for i in range(len(self.layout.arrays))),
            *(f"input {i}" for i in range(self.inputs)),
            "gravity",
            *(ANGLES if self.angles else ()),
            "node lanes",
        ]

    @cached_property
    def length(self) -> int:
        """Number of items of the program."""
        return len(walk(self.program.top))

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """What is needed to bind the program to a mechanism; serialisable as JSON."""
        loads = [item.attr for item in walk(self.program.top) if isinstance(item, Op) and item.code == "load"]
        return {
            "records": self.layout.records,
            "passing": self.layout.passing,
            "arrays": [[list(over), len(positions)] for over, positions in self.layout.arrays],
            "tables": self.tables,
            "head": self.head,
            "angles": None if self.angles is None else self.angles.metadata,
            "reread": sorted({access.space[1] for access in loads if access.space[0] == "output"}),
            "sweeps": None if self.sweeps is None else self.sweeps.metadata,
        }


@dataclass
class TableRow:
    """A role that is an entry in a row of a table, and the cells of the row that are known."""

    block: CodeBlock
    table: str
    row: Op
    position: int
    cells: dict[str, Op] = field(default_factory=dict)


@dataclass
class LoopIndex:
    """A role that is an index of a loop."""

    index: Op
    entity: IndexEntity


def lower(
    program: Program,
    algorithm: Algorithm,
    variants: Variants,
    known: Callable[[str], int] | None = None,
) -> Lowered:
    """Lower a simplified and fused program.

    Args:
        program: The program.
        algorithm: The recursion; gives the dimensions of inputs and outputs.
        variants: The variants of loop bodies; their order defines their numbers in tables.
        known: Sizes of the mechanism, to specialise code for one mechanism.
    """
    return _Lowering(program, algorithm, variants, known).result


class _Lowering:
    """A program that is being lowered.

    Attributes:
        target: The lowered program.
        result: The same with its tables and sizes.
        found: What the roles of enclosing loops are.
        independent: The role of the innermost loop, if its indices are independent.
    """

    def __init__(
        self, program: Program, algorithm: Algorithm, variants: Variants, known: Callable[[str], int] | None
    ) -> None:
        self.algorithm, self.variants, self.known = algorithm, variants, known
        self.carried = carried(program)
        self.sums = frozenset[Any]().union(*(one.sums for one in self.carried.values()))
        self.layout = Layout.of(program, variants, self.carried)
        self.target = Program()
        self.result = Lowered(self.target, self.layout, len(algorithm.inputs), len(algorithm.outputs))
        self.found: dict[Role, TableRow | LoopIndex] = {}
        self.heads: dict[CodeBlock, int] = {}  # number of `cell` ops at the start of each block
        self.copies: dict[int, Op] = {}
        self.independent: Role | None = None
        self.block(program.top, self.target.top)
        self.target.forget()

    # Integers

    def index(self) -> Op:
        """The index of a new loop."""
        return Op("index", (), None, self.target.current)

    def fixed(self, number: int) -> Op:
        """A constant."""
        return self.target.op("int", attr=number)

    def size(self, name: str) -> Op:
        """A size of the mechanism."""
        if self.known is not None:
            return self.fixed(self.known(name))
        if name not in self.result.sizes:
            self.result.sizes.append(name)
        return self.target.op("size", attr=name)

    def column(self, table: str, column: str) -> int:
        """The position of a column in a table, to which it is added if needed."""
        columns = self.result.tables.setdefault(table, [])
        if column not in columns:
            columns.append(column)
        return columns.index(column)

    def cell(self, table: str, row: Op, column: str) -> Op:
        """A number from a table."""
        self.column(table, column)
        return self.target.op("cell", row, attr=(table, column))

    def of_role(self, role: Role, what: str) -> Op:
        """A number of the entity that a role identifies; 0 for the world."""
        if role.classes == (WORLD_CLASS,):
            return self.fixed(0)
        found = self.found[role]
        if isinstance(found, LoopIndex):
            if found.entity.identity(self.variants, what):
                return found.index
            return self.cell(f"{found.entity.name}.{what}", found.index, what)
        made = found.cells.get(what)
        if made is None:
            # read at the start of the block that belongs to the row
            block, column = found.block, f"{found.position}.{what}"
            self.column(found.table, column)
            made = found.cells[what] = Op("cell", (found.row,), (found.table, column), block)
            block.items.insert(self.heads.setdefault(block, 0), made)
            self.heads[block] += 1
        return made

    def number(self, index: LoopPosition) -> Op:
        """The value of an index."""
        base, offset = index
        if not isinstance(base, Position):
            return self.sum(self.fixed(base), offset)
        found = self.of_role(base.role, base.what)
        return self.sum(found if base.base is None else self.sum(found, self.number((base.base, 0))), offset)

    def sum(self, a: Op, b: Op | int) -> Op:
        """The sum of two numbers."""
        if isinstance(b, int):
            if b == 0:
                return a
            b = self.fixed(b)
        if a.code == b.code == "int":
            return self.fixed(a.attr + b.attr)
        if _is(a, 0) or _is(b, 0):
            return b if _is(a, 0) else a
        return self.target.op("iadd", a, b)

    def product(self, a: Op, b: Op | int) -> Op:
        """The product of two numbers."""
        b = self.fixed(b) if isinstance(b, int) else b
        if a.code == b.code == "int":
            return self.fixed(a.attr * b.attr)
        if _is(a, 0) or _is(b, 0):
            return self.fixed(0)
        if _is(a, 1) or _is(b, 1):
            return b if _is(a, 1) else a
        return self.target.op("imul", a, b)

    # Places

    def access(self, place: Place) -> Access:
        """The address of a place."""
        if isinstance(place, FieldPlace):
            offset = self.layout.fields[place.role.classes[0], place.name, place.component]
            record = self.of_role(place.role, RECORD) if place.role in self.found else None
            note = f"{place.role.name}.{place.name}[{place.component}]"
            return self.at(("records", 0), record, offset, note=note)
        if isinstance(place, Param) and self.algorithm.constants is not None and place.role.classes:
            return self.at(("input", self.algorithm.constants), self.of_role(place.role, "constants"), place.component)
        if isinstance(place, Uniform) and self.algorithm.constants is not None:
            return self.at(("input", self.algorithm.constants), self.size("gravity"), place.component)
        if isinstance(place, Param):
            return self.at(("constants", 0), self.of_role(place.role, "constants"), place.component)
        if isinstance(place, Uniform):
            return self.at(("gravity", 0), None, place.component)
        if isinstance(place, ArrayEntry):
            return self.entry(place)
        if not isinstance(place, (Input, OutputEntry)):
            raise AssertionError(f"{place} is not a place of a traced program")
        *leading, (base, offset) = place.at or [(0, 0)]
        arguments = self.algorithm.inputs if isinstance(place, Input) else self.algorithm.outputs
        dimensions = arguments[place.number].dimensions
        total = self.fixed(0)
        for one, following in zip(leading, dimensions[1:], strict=True):
            total = self.product(self.sum(total, self.number(one)), self.length(following))
        total = self.sum(total, self.number((base, 0)))
        stride = self.fixed(1)
        for dimension in dimensions[self.axis(place) + 1 :]:
            stride = self.product(stride, self.length(dimension))
        space = ("input" if isinstance(place, Input) else "output", place.number)
        return self.at(space, total, offset, place, stride)

    def entry(self, place: ArrayEntry) -> Access:
        """The address of a scalar of an array: for each first index, one line per component."""
        over, components = self.layout.arrays[place.number]
        *lines, (base, offset) = place.at
        size, line = self.size(f"line {over[-1]}"), self.fixed(0)
        for one in lines:
            if isinstance(one[0], Position) and one[0].what == "node":  # by number or by depth
                one = Position(one[0].role, over[0]), 0
            line = self.product(self.number(one), len(components))
        line = self.product(self.sum(line, components[place.component]), size)
        last = self.axis(place) == len(over) - 1
        stride = self.fixed(1) if last else self.product(size, len(components))
        return self.at(("array", place.number), self.sum(line, self.number((base, 0))), offset, place, stride)

    def at(
        self,
        space: tuple[str, int],
        base: Op | None,
        offset: int,
        place: Place | None = None,
        stride: Op | None = None,
        note: str = "",
    ) -> Access:
        """An address, with its stride along the index of an enclosing loop with independent indices."""
        if base is not None and base.code == "int":
            offset += base.attr
            base = None
        along = [b for b in bases(place) if b.role is self.independent] if self.independent and place else []
        if not along:
            return Access(space, base, offset, note=note)
        found, what = self.found[along[0].role], along[0].what
        if isinstance(found, LoopIndex) and not found.entity.identity(self.variants, what):
            return Access(space, base, offset, stride, f"{found.entity.name}.{what}")
        return Access(space, base, offset, stride)

    def axis(self, place: Place) -> int:
        """The axis of a place that is indexed by a loop with independent indices; −1 if there is none."""
        at = getattr(place, "at", ())
        axes = [i for i, (b, _) in enumerate(at) if isinstance(b, Position) and b.role is self.independent]
        return axes[0] if axes else -1

    def length(self, dimension: str | int) -> Op:
        """The length of an axis."""
        return self.fixed(dimension) if isinstance(dimension, int) else self.size(dimension)

    # Items

    def block(self, old: CodeBlock, new: CodeBlock) -> None:
        """Copy the items of a block."""
        copies = self.copies  # not notes: threads may lower the same program at the same time
        self.target.current = new
        for item in old.items:
            if isinstance(item, Op):
                args = tuple([copies[id(a)] for a in item.args])
                attr = self.access(item.attr) if item.code == "load" else item.attr
                copies[id(item)] = made = Op(item.code, args, attr, new)
                new.items.append(made)
            elif isinstance(item, Store):
                address = item.place if isinstance(item.place, Exit) else self.access(item.place)
                made_store = Store(address, copies[id(item.value)])
                new.items.append(made_store)
                place = item.place
                if isinstance(place, FieldPlace) and place.role.exact and (place.name, place.component) in self.sums:
                    self.result.starts.append(made_store)
            elif isinstance(item, TreeLoop):
                self.loop(item)
                self.target.current = new

    def inside(self, old: CodeBlock, outer: CodeBlock) -> CodeBlock:
        """The copy of a loop's body."""
        body = CodeBlock(self.target, outer)
        self.block(old, body)
        self.target.current = outer
        return body

    # Loops

    def loop(self, loop: TreeLoop) -> None:
        """Lower a loop of any shape."""
        data = loop.loop
        if isinstance(data, Table):
            self.table(loop, data)
        elif isinstance(data, Range):
            self.range(loop, data)
        elif isinstance(data, Runs):
            outer, run = self.target.current, self.index()
            body = CodeBlock(self.target, outer)
            self.target.current = body
            self.contiguous(loop, data, self.cell(data.name, run, "start"), self.cell(data.name, run, "stop"))
            self.target.current = outer
            outer.items.append(For(run, self.of_over(loop, "begin"), self.of_over(loop, "end"), body))
        elif isinstance(data, Chain):
            outer, index = self.target.current, self.index()
            start = self.of_over(loop, "start") if loop.start is None else self.number(loop.start)
            self.column(data.name, "next")
            self.found[loop.roles[()][0]] = LoopIndex(index, data.index)
            outer.items.append(Follow(index, start, data.name, self.inside(loop.bodies[()], outer)))

    def range(self, loop: TreeLoop, data: Range[Any]) -> None:
        """Lower a loop over a range."""
        bounded = "start" in data.bounds
        if loop.start is None:
            start = self.of_over(loop, "start") if bounded else self.fixed(0)
        else:
            start = self.number(loop.start)
            start = self.target.op("imax", start, self.of_over(loop, "start")) if bounded else start
        if loop.stop is None:
            stop = self.of_over(loop, "stop") if "stop" in data.bounds else self.size(data.index.dimension)
        else:
            stop = self.number(loop.stop)
        self.contiguous(loop, data, start, stop, data.backwards)

    def contiguous(self, loop: TreeLoop, data: IndexLoop[Any], start: Op, stop: Op, backwards: bool = False) -> None:
        """Lower a loop over consecutive indices."""
        outer, index, (role,), body = self.target.current, self.index(), loop.roles[()], loop.bodies[()]
        independent = _independent(body, role) and not self.adds_to_shared(body, role, data.index)
        self.found[role] = LoopIndex(index, data.index)
        self.independent = role if independent else None
        inside = self.inside(body, outer)
        outer.items.append(For(index, start, stop, inside, backwards, independent=independent, note=data.name))
        self.independent = None

    def adds_to_shared(self, body: CodeBlock, role: Role, entity: IndexEntity) -> bool:
        """Whether a body reads places that several indices share, and so may accumulate into them."""
        shared = {Position(role, what) for what in entity.maps if entity.shared(self.variants, what)}
        read = [item.attr for item in body.items if isinstance(item, Op) and item.code == "load"]
        return any(shared.intersection(bases(place)) for place in read if isinstance(place, (OutputEntry, ArrayEntry)))

    def table(self, loop: TreeLoop, data: Table[Any]) -> None:
        """Lower a loop over rows, with a switch to the body of the row's variant; equal bodies are lowered once."""
        outer, row, source = self.target.current, self.index(), data.source
        numbers = {variant: i for i, variant in enumerate(source.cases(self.variants))}
        filled = dict(sorted((numbers[variant], variant) for variant, body in loop.bodies.items() if body.items))
        first = self.equal_bodies(loop, filled)
        single = len(filled) == len(numbers) and len(set(first.values())) == 1
        self.result.tables.setdefault(source.name, [])
        if data.over is None:
            start, stop = self.fixed(0), self.size(f"count {source.name}")
        else:
            start, stop = self.of_over(loop, "begin"), self.of_over(loop, "end")
        body = CodeBlock(self.target, outer)
        cases: dict[int, CodeBlock] = {}
        if not single:
            self.target.current = body
            variant_number = self.cell(source.name, row, "variant")
        for number, same in first.items():
            if number != same:
                cases[number] = cases[same]
                continue
            variant = filled[number]
            cases[number] = block = body if single else CodeBlock(self.target, body)
            for position, role in enumerate(loop.roles[variant]):
                self.found[role] = TableRow(block, source.name, row, position)
            self.block(loop.bodies[variant], block)
            if sweep_direction(loop):
                _set_late(block, record_of(source.name, 0))
        if not single:
            notes = {number: " on ".join(map(_text, variant)) for number, variant in filled.items()}
            body.items.append(Switch(variant_number, cases, len(filled) == len(numbers), notes))
        self.target.current = outer
        passed_on = self.passed_on(loop, source.name)
        outer.items.append(For(row, start, stop, body, data.backwards, carried=passed_on, note=data.name))

    def equal_bodies(self, loop: TreeLoop, variants: dict[int, tuple[Any, ...]]) -> dict[int, int]:
        """Variant merging: for each variant of a loop, by number, the first with the same body.

        Kinds of nodes that differ in their placements only have the same formulas in loops that do not read these.
        Bodies are the same if they execute the same operations on the same places, fields if they have one offset.
        """

        def offset(p: FieldPlace) -> int:
            return self.layout.fields[p.role.classes[0], p.name, p.component]

        lengths = Counter(len(loop.bodies[variant].items) for variant in variants.values())
        found: dict[int, int] = {}
        firsts: list[tuple[int, list[Any]]] = []
        for number, variant in variants.items():
            found[number], body = number, loop.bodies[variant]
            if lengths[len(body.items)] == 1:
                continue
            roles = enumerate(loop.roles[variant])
            items = canonical(body, {id(role): (i, role.classes == (WORLD_CLASS,)) for i, role in roles}, offset)
            found[number] = next((first for first, others in firsts if others == items), number)
            if found[number] == number:
                firsts.append((number, items))
        return found

    def passed_on(self, loop: TreeLoop, table: str) -> LoopCarried | None:
        """What a sweep carries, by offsets in records."""
        found = self.carried.get(loop)
        if found is None:
            return None
        if found.dead_after:
            self.column(table, RELATIVES)
        for position in range(2):
            self.column(*record_of(table, position))
        offsets = {(name, component): offset for (_, name, component), offset in self.layout.fields.items()}
        source, *parts = found
        return LoopCarried(source, *(frozenset(offsets[component] for component in part) for part in parts))

    def of_over(self, loop: TreeLoop, what: str) -> Op:
        """A number of the entity that a loop is over."""
        if loop.over is None:
            raise AssertionError(f"{loop.loop.name} is not an inner loop")
        return self.of_role(loop.over, f"{loop.loop.name}.{what}")


def _is(op: Op, number: int) -> bool:
    return op.code == "int" and bool(op.attr == number)


def bases(place: Any) -> list[Position]:
    """The positions that a place depends on."""
    return [base for base, _ in getattr(place, "at", ()) if isinstance(base, Position)]


def _set_late(block: CodeBlock, record: tuple[str, str]) -> None:
    """Move a store to a field of the node itself to the end of a body if it reads another field in that place later."""

    def offset(place: Any) -> int | None:
        is_own = isinstance(place, Access) and place.base is not None and place.base.attr == record
        return place.offset if is_own else None

    read: set[int | None] = set()
    late: set[int] = set()
    for item in reversed(block.items):
        if isinstance(item, Op) and item.code == "load":
            read.add(offset(item.attr))
        elif isinstance(item, Store) and (here := offset(item.place)) is not None and here in read:
            late.add(id(item))
    if late:
        block.items.sort(key=lambda item: id(item) in late)


def _text(key: Any) -> str:
    """Part of a variant, for comments in generated code."""
    return key if isinstance(key, str) else "frame" if key is None else str(key)


def _independent(body: CodeBlock, index: Role) -> bool:
    """Whether iterations are independent: no inner loop, and no index accesses another's places."""
    if any(isinstance(item, TreeLoop) for item in body.items):
        return False
    stored: list[Any] = [item.place for item in body.items if isinstance(item, Store)]
    loaded: list[Any] = [item.attr for item in body.items if isinstance(item, Op) and item.code == "load"]
    if any(isinstance(place, Exit) for place in stored):
        return False
    if any(len(_along(place, index)) > 1 for place in stored + loaded):
        return False  # a diagonal
    for place in stored:
        own = _along(place, index)
        same = [p for p in (*loaded, *stored) if type(p) is type(place) and p.number == place.number]
        if not own or any(_along(p, index) != own for p in same):
            return False
    return True


def _along(place: Place, role: Role) -> list[Any]:
    """The axes of a place that are indexed by a role, with the index along each."""
    at = enumerate(getattr(place, "at", ()))
    return [(axis, index) for axis, index in at if isinstance(index[0], Position) and index[0].role is role]
