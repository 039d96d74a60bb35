"""From a simplified program to LLVM assembly, for one lane width.

A lane is a sample: with width W every scalar of the program is a `<W x double>`. Loops over contiguous columns are
independent from column to column; when a single sample is computed (W = 1) they run over several columns at once
instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import pack
from typing import Any

from ramify.engines.ir import Block, Loop, Op, Position, Program, Role, Store, walk
from ramify.engines.native import layout as table
from ramify.engines.native.assembly import Function
from ramify.engines.native.elementary import sincos_text
from ramify.engines.native.layout import Layout
from ramify.engines.native.memory import ColumnLanes, Memory, Number, counting, splat, suffix, vector
from ramify.engines.variants import WORLD_CLASS, Variants
from ramify.recursion.algorithm import Algorithm

_CONTIGUOUS = ("columns", "descendants", "onward", "rows", "carried", "frame_rows")
_TABLES = {
    "scatter": (table.NODE_ROWS, table.N_NODES, table.NODE_ROW),
    "gather": (table.NODE_ROWS, table.N_NODES, table.NODE_ROW),
    "frames": (table.FRAME_ROWS, table.N_FRAMES, table.FRAME_ROW),
    "meetings": (table.MEETING_ROWS, table.N_MEETINGS, table.MEETING_ROW),
}
_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_CALLED = {"sqrt": 1, "fma": 3}


def emit(program: Program, algorithm: Algorithm, variants: Variants, layout: Layout, width: int, columns: int) -> str:
    """The text of a module with one function, `kernel`.

    Args:
        program: Simplified and fused.
        algorithm: Tells the dimensions of inputs and outputs.
        variants: Their order gives the numbers that the tables use.
        layout: Where fields are.
        width: Samples per call.
        columns: Columns at once in loops over contiguous columns, when `width` is 1.
    """
    return _Emitter(program, algorithm, variants, layout, width, columns).text()


@dataclass
class _Scope:
    """Where text is being written: how wide its values are, and what is known there."""

    lanes: int
    outer: _Scope | None = None
    columns: ColumnLanes | None = None
    names: dict[Any, str] = field(default_factory=dict)
    #: Where, before the loop that this scope is the body of, values of outer scopes can be widened.
    before: int = 0


class _Emitter:
    def __init__(
        self, program: Program, algorithm: Algorithm, variants: Variants, layout: Layout, width: int, columns: int
    ) -> None:
        self.program, self.variants = program, variants
        self.width, self.columns = width, columns
        self.declared: set[str] = set()
        self.sincos_lanes: set[int] = set()
        pointers = [f"ptr noalias readonly %{name}" for name in ("params", "tables", "in")]
        pointers += [f"ptr noalias %out{i}" for i in range(3)]
        self.f = Function(f"define void @kernel(ptr noalias %ws, {', '.join(pointers)}) nounwind")
        self.memory = Memory(self.f, algorithm, layout, width, self.declared)

    def text(self) -> str:
        self.block(self.program.top, _Scope(self.width))
        functions = [sincos_text(lanes) for lanes in sorted(self.sincos_lanes)]
        return "\n".join([self.f.text(), *functions, *sorted(self.declared), "!0 = !{}", ""])

    def block(self, block: Block, scope: _Scope) -> None:
        for item in block.items:
            if isinstance(item, Op):
                scope.names[id(item)] = self.op(item, scope)
            elif isinstance(item, Store):
                self.memory.store(item, self.use(item.value, scope), scope.columns)
            elif item.source in _TABLES:
                self.row_loop(item, scope)
            else:
                self.column_loop(item, scope)

    # Scalars

    def use(self, op: Op, scope: _Scope) -> str:
        """The name of an op's value, as wide as the scope asks for."""
        if op.code == "const":
            return _constant(op.attr, scope.lanes)
        if id(op) not in scope.names:
            if scope.outer is None:
                raise AssertionError(f"{op!r} is used where it is not known")
            name = self.use(op, scope.outer)
            if scope.lanes != scope.outer.lanes:
                with self.f.hoisted(scope.before):
                    name = splat(self.f, name, scope.lanes)
            scope.names[id(op)] = name
        return scope.names[id(op)]

    def op(self, op: Op, scope: _Scope) -> str:
        f, lanes, t = self.f, scope.lanes, vector(scope.lanes)
        if op.code == "const":
            return _constant(op.attr, lanes)
        if op.code == "load":
            return self.memory.load(op.attr, scope.columns)
        args = [self.use(a, scope) for a in op.args]
        if op.code in _BINARY:
            return f.let(f"{_BINARY[op.code]} {t} {args[0]}, {args[1]}")
        if op.code == "neg":
            return f.let(f"fneg {t} {args[0]}")
        if op.code in _CALLED:
            name = self.intrinsic(op.code, lanes)
            return f.let(f"call {t} {name}({', '.join(f'{t} {a}' for a in args)})")
        # sine and cosine come together; the second one asked for finds the pair
        pair = "sincos", id(op.args[0])
        if pair not in scope.names:
            self.sincos_lanes.add(lanes)
            self.intrinsic("fma", lanes)
            scope.names[pair] = f.let(f"call {{{t}, {t}}} @sincos_{lanes}({t} {args[0]})")
        return f.let(f"extractvalue {{{t}, {t}}} {scope.names[pair]}, {0 if op.code == 'sin' else 1}")

    def intrinsic(self, code: str, lanes: int) -> str:
        t, name = vector(lanes), f"@llvm.{code}.{suffix(lanes)}"
        self.declared.add(f"declare {t} {name}({', '.join([t] * _CALLED[code])})")
        return name

    # Loops over rows of a table

    def row_loop(self, loop: Loop, scope: _Scope) -> None:
        """A loop with a switch to the body of the row's variant."""
        f, memory = self.f, self.memory
        variants = {"frames": self.variants.frames, "meetings": [(port,) for port in self.variants.ports]}
        numbers: list[Any] = list(variants.get(loop.source, self.variants.names))
        start, number, length = _TABLES[loop.source]
        first = f.at("%tables", memory.number("%tables", start), "i64")
        count = memory.number("%tables", number)
        filled = {i: v for i, v in enumerate(numbers) if v in loop.bodies and loop.bodies[v].items}
        with f.loop(0, count) as index:
            if loop.source == "gather":
                index = f.let(f"sub i64 {f.let(f'sub i64 {count}, 1')}, {index}")
            row = f.at(first, memory.product(index, length), "i64")
            with f.switch(memory.number(row, 0), filled, exhaustive=len(filled) == len(numbers)) as cases:
                for number in cases:
                    variant = filled[number]
                    self.bind(loop, variant, row)
                    self.block(loop.bodies[variant], _Scope(self.width, scope))

    def bind(self, loop: Loop, variant: tuple[str, ...], row: str) -> None:
        """Find the roles of a loop's body from a row of its table."""
        f, memory, element = self.f, self.memory, self.memory.element
        if loop.source == "meetings":
            self.bind_meeting(loop.roles[variant], row)
            return
        first, second = loop.roles[variant]
        memory.rows[first] = row
        columns = table.FRAME if loop.source == "frames" else table.NODE
        memory.constants[first] = f.at("%params", memory.number(row, columns["param"]), "double")
        if loop.source == "frames":
            for what, column in (("frame", "frame"), ("row", "row"), ("rows", "asked")):
                memory.positions[Position(first, what)] = memory.number(row, columns[column])
            memory.ranges[first] = row, columns["row"]
            memory.records[second] = f.at("%ws", memory.number(row, columns["record"]), element)
            return
        memory.records[first] = f.at("%ws", memory.number(row, columns["record"]), element)
        if second.classes != (WORLD_CLASS,):  # the world's record is the first
            memory.records[second] = f.at("%ws", memory.number(row, columns["parent_record"]), element)
        memory.ranges[first] = row, columns["rows"]
        for what in ("q", "v", "node", "depth"):
            memory.positions[Position(first, what)] = memory.number(row, columns[what])
        for what in ("node", "depth"):
            memory.positions[Position(second, what)] = memory.number(row, columns[f"parent_{what}"])

    def bind_meeting(self, roles: tuple[Role, ...], row: str) -> None:
        f, memory, columns = self.f, self.memory, table.MEETING
        node, one, other = roles
        memory.records[node] = f.at("%ws", memory.number(row, columns["record"]), memory.element)
        for what in ("node", "depth"):
            memory.positions[Position(node, what)] = memory.number(row, columns[what])
        memory.ranges[one], memory.ranges[other] = (row, columns["one"]), (row, columns["other"])

    # Loops over columns and rows

    def bounds(self, loop: Loop) -> tuple[Number, Number]:
        memory = self.memory
        if loop.source in ("rows", "carried", "frame_rows"):
            start: Number = 0
            end: Number = memory.sizes["rows"]
            if loop.over is not None:
                row, place = memory.ranges[loop.over]
                start, end = memory.number(row, place), memory.number(row, place + 1)
            return memory.positions[Position(loop.after, "row")] if loop.after else start, end
        if loop.over is None:
            return 0, memory.sizes["v"]
        row = memory.rows[loop.over]
        if loop.source == "descendants":
            return memory.number(row, table.NODE["after"]), memory.number(row, table.NODE["end"])
        if loop.source == "onward":
            return memory.number(row, table.NODE["v"]), memory.sizes["v"]
        return memory.number(row, table.FRAME["support"]), memory.number(row, table.FRAME["support_end"])

    def column_loop(self, loop: Loop, scope: _Scope) -> None:
        f, (role,), body = self.f, loop.roles[()], loop.bodies[()]
        start, end = self.bounds(loop)
        column = Position(role, role.name)
        one_sample_at_a_time = self.width == 1 and self.columns > 1
        if not one_sample_at_a_time or loop.source not in _CONTIGUOUS or not _independent(body, role):
            with f.loop(start, end) as index:
                if loop.source == "support":
                    support = f.at("%tables", self.memory.number("%tables", table.SUPPORT), "i64")
                    index = self.memory.number(support, index)
                self.memory.positions[column] = index
                self.block(body, _Scope(scope.lanes, scope))
            return
        lanes = self.columns
        whole = f.let(f"and i64 {f.let(f'sub i64 {end}, {start}')}, {-lanes}")
        middle = f.let(f"add i64 {start}, {whole}")
        groups = _Scope(lanes, scope, ColumnLanes(role, lanes), before=f.mark())
        with f.loop(start, middle, lanes) as index:
            self.memory.positions[column] = index
            self.block(body, groups)
        with f.when(f.let(f"icmp slt i64 {middle}, {end}")):
            left = splat(f, f.let(f"sub i64 {end}, {middle}"), lanes, "i64")
            mask = f.let(f"icmp slt <{lanes} x i64> {counting(lanes)}, {left}")
            self.memory.positions[column] = middle
            self.block(body, _Scope(lanes, scope, ColumnLanes(role, lanes, mask), before=f.mark()))


def _constant(value: float, lanes: int) -> str:
    text = "0x" + pack(">d", value).hex().upper()
    return text if lanes == 1 else "<" + ", ".join([f"double {text}"] * lanes) + ">"


def _independent(body: Block, column: Role) -> bool:
    """Whether columns can be computed side by side: no loop inside, and none reads or writes another's place."""
    own: dict[Any, Any] = {}
    for _, item in walk(body):
        if isinstance(item, Loop):
            return False
        if isinstance(item, Store):
            at = getattr(item.place, "at", ())
            if not any(isinstance(base, Position) and base.role is column and base.what != "rows" for base, _ in at):
                return False
            own.setdefault((type(item.place), getattr(item.place, "number", None)), []).append(at)
    loads = [item.attr for _, item in walk(body) if isinstance(item, Op) and item.code == "load"]
    for place in loads:
        stored = own.get((type(place), getattr(place, "number", None)), [])
        if any(at != place.at for at in stored):
            return False
    return True
