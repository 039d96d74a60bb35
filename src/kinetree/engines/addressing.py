"""Addresses of places, and the integers that they consist of.

A role is a row of a table or an index of a loop, and its numbers are cells of that row. A place has an address: a base,
which is an integer op, and a fixed offset. All index arithmetic happens here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kinetree.engines.carried import RECORD
from kinetree.engines.ir import Access, CodeBlock, Op, Place, Program
from kinetree.engines.layout import Layout
from kinetree.engines.lowered import Lowered
from kinetree.engines.places import ArrayEntry, FieldPlace, Index, Input, Output, Param, Position, Role, Uniform
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.entities import IndexEntity
from kinetree.recursion.variants import WORLD_CLASS, Variants


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


class Addressing:
    """Makes addresses in a program that is being lowered.

    Args:
        algorithm: The recursion; gives the dimensions of inputs and outputs.
        variants: The variants of loop bodies.
        layout: Offsets of fields.
        known: Sizes of the mechanism, to specialise code for one mechanism.

    Attributes:
        target: The lowered program.
        result: The same with its tables and sizes.
        found: What the roles of enclosing loops are.
        independent: The role of the innermost loop, if its indices are independent.
    """

    def __init__(
        self, algorithm: Algorithm, variants: Variants, layout: Layout, known: Callable[[str], int] | None
    ) -> None:
        self.algorithm, self.variants, self.layout, self.known = algorithm, variants, layout, known
        self.target = Program()
        self.result = Lowered(self.target, layout, len(algorithm.inputs), len(algorithm.outputs))
        self.found: dict[Role, TableRow | LoopIndex] = {}
        self.heads: dict[CodeBlock, int] = {}  # number of `cell` ops at the start of each block
        self.independent: Role | None = None

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

    def number(self, index: Index) -> Op:
        """The value of an index."""
        base, offset = index
        return self.sum(self.of_role(base.role, base.what) if isinstance(base, Position) else self.fixed(base), offset)

    def sum(self, a: Op, b: Op | int) -> Op:
        """The sum of two numbers."""
        if isinstance(b, int):
            if b == 0:
                return a
            b = self.fixed(b)
        if a.code == "int":
            return (
                self.fixed(a.attr + b.attr) if b.code == "int" else b if a.attr == 0 else self.target.op("iadd", a, b)
            )
        return a if _is(b, 0) else self.target.op("iadd", a, b)

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
        if not isinstance(place, (Input, Output)):
            raise AssertionError(f"{place} is not a place of a traced program")
        *leading, (base, offset) = place.at or [(0, 0)]
        dimensions = self.dimensions(place)
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

    def dimensions(self, place: Input | Output) -> tuple[str | int, ...]:
        """What the axes of an input or output run over."""
        arguments = self.algorithm.inputs if isinstance(place, Input) else self.algorithm.outputs
        return arguments[place.number].dimensions

    def length(self, dimension: str | int) -> Op:
        """The length of an axis."""
        return self.fixed(dimension) if isinstance(dimension, int) else self.size(dimension)


def _is(op: Op, number: int) -> bool:
    return op.code == "int" and bool(op.attr == number)


def bases(place: Any) -> list[Position]:
    """The positions that a place depends on."""
    return [base for base, _ in getattr(place, "at", ()) if isinstance(base, Position)]
