"""From a simplified program to LLVM assembly, for one lane width.

A lane is a sample: with width W every scalar of the program is a `<W x double>`. Loops over contiguous columns are
independent from column to column; when a single sample is computed (W = 1) they run over several columns at once
instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import pack
from typing import Any

from kinetree.engines.ir import ArrayEntry, Block, Loop, Op, Output, Place, Position, Program, Role, Store
from kinetree.engines.native import layout as table
from kinetree.engines.native.assembly import Function
from kinetree.engines.native.binding import MAX_OUTPUTS
from kinetree.engines.native.elementary import sincos_text
from kinetree.engines.native.layout import Layout
from kinetree.engines.native.memory import ColumnLanes, Memory, Number, counting, splat, suffix, vector
from kinetree.engines.variants import WORLD_CLASS, Variants, loop_variants
from kinetree.recursion.algorithm import Algorithm

#: Where loops over contiguous rows or columns of a node or frame find their range in its row of the tables.
_RANGES = {
    "descendants": table.NODE["after"],
    "carried": table.NODE["rows"],
    "following": table.NODE["rows_end"],
    "frame_rows": table.FRAME["row"],
}
#: Where loops over the rows after a group end.
_BEYOND = {"beyond_carried_groups": table.NODE["rows_end"], "beyond_passing_groups": table.NODE["passing_end"]}
_TABLES = {
    "scatter": (table.NODE_ROWS, table.N_NODES, table.NODE_ROW),
    "gather": (table.NODE_ROWS, table.N_NODES, table.NODE_ROW),
    "frames": (table.FRAME_ROWS, table.N_FRAMES, table.FRAME_ROW),
    **{name: (start, start + 1, table.LIST_ROWS[name]) for name, start in table.LISTS.items()},
}
_TABLES["scatter_stations"] = _TABLES["gather_stations"] = _TABLES["stations"]
_TABLES["carried_groups"] = _TABLES["passing_groups"] = _TABLES["groups"]
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
        pointers += [f"ptr noalias %out{i}" for i in range(MAX_OUTPUTS)]
        self.f = Function(f"define void @kernel(ptr noalias %ws, {', '.join(pointers)}) nounwind")
        self.memory = Memory(self.f, algorithm, layout, width, self.declared, variants.in_order)

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
        numbers = loop_variants(loop.source, self.variants)
        start, number, length = _TABLES[loop.source]
        first = f.at("%tables", memory.number("%tables", start), "i64")
        count = memory.number("%tables", number)
        backwards = loop.source.startswith("gather")
        if loop.over is not None:  # the groups of a node, last first
            place, backwards = table.NODE[loop.source], True
            begin, end = (memory.number(memory.rows[loop.over], place + i) for i in (0, 1))
            first = f.at(first, memory.product(begin, length), "i64")
            count = f.let(f"sub i64 {end}, {begin}")
        filled = {i: v for i, v in enumerate(numbers) if v in loop.bodies and loop.bodies[v].items}
        with f.loop(0, count) as index:
            if backwards:
                index = f.let(f"sub i64 {f.let(f'sub i64 {count}, 1')}, {index}")
            row = f.at(first, memory.product(index, length), "i64")
            with f.switch(memory.number(row, 0), filled, exhaustive=len(filled) == len(numbers)) as cases:
                for number in cases:
                    variant = filled[number]
                    self.bind(loop, loop.roles[variant], row)
                    self.block(loop.bodies[variant], _Scope(self.width, scope))

    def bind(self, loop: Loop, roles: tuple[Role, ...], row: str) -> None:
        """Find the roles of a loop's body from a row of its table."""
        memory = self.memory
        if loop.source in ("scatter", "gather"):
            k, parent = roles
            self.bind_node(k, row)
            self.bind_record(parent, row, table.NODE, "parent_")
        elif loop.over is not None or loop.source == "tasks":
            (group,) = roles
            for i, what in enumerate(("asked" if loop.source == "tasks" else "row", "beyond"), start=1):
                memory.positions[Position(group, what)] = memory.number(row, i)
        elif loop.source == "frames":
            frame, carrier = roles
            self.bind_frame(frame, row)
            self.bind_record(carrier, row, table.FRAME)
        else:
            for i, role in enumerate(roles, start=1):
                if role.classes == (WORLD_CLASS,):
                    continue
                bind, first, length = self.bind_frame, table.FRAME_ROWS, table.FRAME_ROW
                if role.classes:
                    bind, first, length = self.bind_node, table.NODE_ROWS, table.NODE_ROW
                table_start = self.f.at("%tables", memory.number("%tables", first), "i64")
                bind(role, self.f.at(table_start, memory.product(memory.number(row, i), length), "i64"))

    def bind_node(self, role: Role, row: str) -> None:
        """A node, from its row of the tables."""
        memory = self.memory
        memory.rows[role] = row
        memory.constants[role] = self.f.at("%params", memory.number(row, table.NODE["param"]), "double")
        for what in ("q", "v", "units"):
            memory.positions[Position(role, what)] = memory.number(row, table.NODE[what])
        self.bind_record(role, row, table.NODE)

    def bind_record(self, role: Role, row: str, columns: dict[str, int], prefix: str = "") -> None:
        """A node's record and numbers, from some row of the tables. The world's are zero, and never asked for."""
        memory = self.memory
        if role.classes == (WORLD_CLASS,):
            return
        memory.records[role] = self.f.at("%ws", memory.number(row, columns[f"{prefix}record"]), memory.element)
        for what in ("node", "depth"):
            memory.positions[Position(role, what)] = memory.number(row, columns[f"{prefix}{what}"])

    def bind_frame(self, role: Role, row: str) -> None:
        """A frame, from its row of the tables."""
        memory, columns = self.memory, table.FRAME
        memory.rows[role] = row
        memory.constants[role] = self.f.at("%params", memory.number(row, columns["param"]), "double")
        for what, column in (("frame", "frame"), ("row", "row"), ("rows", "asked")):
            memory.positions[Position(role, what)] = memory.number(row, columns[column])

    # Loops over columns and rows

    def bounds(self, loop: Loop) -> tuple[Number, Number]:
        """Start and end of a loop over contiguous rows or columns."""
        f, memory = self.f, self.memory
        if loop.source == "columns":
            after = None if loop.after is None else memory.positions[Position(loop.after, "column")]
            return 0 if after is None else memory.sum(after, 1), memory.sizes["v"]
        if loop.source == "rows":
            return 0 if loop.after is None else memory.positions[Position(loop.after, "row")], memory.sizes["row"]
        if loop.source == "asked":
            return 0 if loop.after is None else memory.positions[Position(loop.after, "asked")], memory.sizes["rows"]
        if loop.source == "before_task" and loop.after is not None:
            return 0, memory.positions[Position(loop.after, "asked")]
        if loop.source == "beyond_task" and loop.after is not None:
            return memory.positions[Position(loop.after, "beyond")], memory.sizes["rows"]
        row = memory.rows[loop.over] if loop.over else ""
        if loop.source in _BEYOND and loop.after is not None:
            return memory.positions[Position(loop.after, "beyond")], memory.number(row, _BEYOND[loop.source])
        if loop.source == "onward":
            return memory.number(row, table.NODE["v"]), memory.sizes["v"]
        if loop.source == "subtree":
            return memory.number(row, table.NODE["v"]), memory.number(row, table.NODE["end"])
        start, end = (memory.number(row, _RANGES[loop.source] + i) for i in (0, 1))
        if loop.after is not None:
            after = memory.positions[Position(loop.after, "row")]
            later = f.let(f"icmp sgt i64 {after}, {start}")
            start = f.let(f"select i1 {later}, i64 {after}, i64 {start}")
        return start, end

    def climb(self, loop: Loop, scope: _Scope) -> None:
        """A loop from column to column towards the base."""
        memory, (role,) = self.memory, loop.roles[()]
        parents = self.f.at("%tables", memory.number("%tables", table.COLUMN_PARENTS), "i64")
        if loop.after is not None:
            start: Number = memory.positions[Position(loop.after, "column")]
        elif loop.over is not None:
            start = memory.number(parents, memory.positions[Position(loop.over, "v")])
        with self.f.chain(start, parents) as column:
            memory.positions[Position(role, "column")] = column
            self.block(loop.bodies[()], _Scope(scope.lanes, scope))

    def column_loop(self, loop: Loop, scope: _Scope) -> None:
        memory = self.memory
        if loop.source == "ancestors":
            self.climb(loop, scope)
        elif loop.source in ("support", "path") and loop.over is not None:
            runs = self.f.at("%tables", memory.number("%tables", table.RUNS), "i64")
            first, last = (memory.number(memory.rows[loop.over], table.FRAME[loop.source] + i) for i in (0, 1))
            with self.f.loop(first, last, 2) as run:
                start, end = memory.number(runs, run), memory.number(runs, memory.sum(run, 1))
                self.contiguous(loop, scope, start, end)
        elif loop.source == "elsewhere" and loop.over is not None:
            begin, end = (memory.number(memory.rows[loop.over], table.NODE[place]) for place in ("v", "end"))
            with self.f.loop(0, 2) as side:
                before = self.f.let(f"icmp eq i64 {side}, 0")
                start = self.f.let(f"select i1 {before}, i64 0, i64 {end}")
                stop = self.f.let(f"select i1 {before}, i64 {begin}, i64 {memory.sizes['v']}")
                self.contiguous(loop, scope, start, stop)
        else:
            self.contiguous(loop, scope, *self.bounds(loop))

    def contiguous(self, loop: Loop, scope: _Scope, start: Number, end: Number) -> None:
        """A loop over neighbouring rows or columns, several at once if they allow it."""
        f, (role,), body = self.f, loop.roles[()], loop.bodies[()]
        column = Position(role, role.name)
        one_sample_at_a_time = self.width == 1 and self.columns > 1
        if not one_sample_at_a_time or not self.independent(body, role):
            with f.loop(start, end) as index:
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

    def independent(self, body: Block, column: Role) -> bool:
        """Whether columns or rows can be computed side by side."""
        return _independent(body, column) and not (self.variants.relatives and _summed_by_place(body, column))


def _constant(value: float, lanes: int) -> str:
    text = "0x" + pack(">d", value).hex().upper()
    return text if lanes == 1 else "<" + ", ".join([f"double {text}"] * lanes) + ">"


def _independent(body: Block, column: Role) -> bool:
    """Whether columns can be computed side by side: no loop inside, and none reads or writes another's place."""
    if any(isinstance(item, Loop) for item in body.items):
        return False
    stored: list[Any] = [item.place for item in body.items if isinstance(item, Store)]
    loaded: list[Any] = [item.attr for item in body.items if isinstance(item, Op) and item.code == "load"]
    if any(len(_along(place, column)) > 1 for place in stored + loaded):
        return False  # neighbours on a diagonal
    for place in stored:
        own = _along(place, column)
        read = [p for p in loaded if type(p) is type(place) and p.number == place.number]
        if not own or any(_along(p, column) != own for p in read):
            return False
    return True


def _summed_by_place(body: Block, row: Role) -> bool:
    """Whether rows add to their places in the order asked for, which both ends of a relative task share."""
    asked = Position(row, "rows")
    read = [item.attr for item in body.items if isinstance(item, Op) and item.code == "load"]
    return any(asked in [base for base, _ in place.at] for place in read if isinstance(place, (Output, ArrayEntry)))


def _along(place: Place, column: Role) -> list[Any]:
    """The axes of a place that run with a column, with what is taken of it: columns differ in what they find there."""
    at = enumerate(getattr(place, "at", ()))
    return [(axis, index) for axis, index in at if isinstance(index[0], Position) and index[0].role is column]
