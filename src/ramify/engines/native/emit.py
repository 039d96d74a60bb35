"""From a simplified program to LLVM assembly, for one lane width.

A lane is a sample: with width W every scalar of the program is a `<W x double>`, and memory is interleaved (element e
of lane l at e·W + l). Loops over contiguous columns are independent from column to column; when a single sample is
computed (W = 1) they run over several columns at once instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ramify.engines.ir import (
    ArrayEntry,
    Block,
    Field,
    Index,
    Input,
    Loop,
    Op,
    Output,
    Param,
    Place,
    Position,
    Program,
    Role,
    Store,
    Uniform,
    walk,
)
from ramify.engines.native import layout as table
from ramify.engines.native.elementary import sincos_text
from ramify.engines.native.layout import Layout
from ramify.engines.trace import WORLD_CLASS
from ramify.recursion.algorithm import Algorithm, Dimensions

_CONTIGUOUS = ("columns", "descendants", "onward")
_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


def emit(
    program: Program,
    algorithm: Algorithm,
    variants: list[tuple[str, str]],
    carriers: list[str],
    layout: Layout,
    width: int,
    columns: int,
) -> str:
    """The text of a module with one function, `kernel`.

    Args:
        program: Simplified and fused.
        algorithm: Tells the dimensions of inputs and outputs.
        variants: Kind and parent's port of each variant of a node, in the order of their numbers in the tables.
        carriers: The same for nodes that carry frames.
        layout: Where fields are.
        width: Samples per call.
        columns: Columns at once in loops over contiguous columns, when `width` is 1.
    """
    return _Emitter(program, algorithm, variants, carriers, layout, width, columns).text()


def _vector(lanes: int) -> str:
    return "double" if lanes == 1 else f"<{lanes} x double>"


def _suffix(lanes: int) -> str:
    return "f64" if lanes == 1 else f"v{lanes}f64"


@dataclass
class _Scope:
    """Where text is being written: how wide its values are, and what is known there."""

    lanes: int
    outer: _Scope | None = None
    names: dict[int, str] = field(default_factory=dict)
    #: Written before the loop that this scope is the body of.
    preheader: list[str] = field(default_factory=list)
    #: When columns are lanes: the column's role, and the mask of the last, partial group.
    column: Role | None = None
    mask: str | None = None


class _Emitter:
    def __init__(
        self,
        program: Program,
        algorithm: Algorithm,
        variants: list[tuple[str, str]],
        carriers: list[str],
        layout: Layout,
        width: int,
        columns: int,
    ) -> None:
        self.program, self.algorithm, self.layout = program, algorithm, layout
        self.variants, self.carriers = variants, carriers
        self.width, self.columns = width, columns
        self.lines: list[str] = []
        self.count = 0
        self.block = "entry"
        self.positions: dict[Position, str] = {}
        self.bases: dict[Role, str] = {}
        self.params: dict[Role, str] = {}
        self.rows: dict[Role, str] = {}
        self.declared: set[str] = set()
        self.sincos_lanes: set[int] = set()

    # Writing

    def fresh(self) -> int:
        self.count += 1
        return self.count

    def do(self, line: str) -> None:
        self.lines.append("  " + line)

    def let(self, expression: str) -> str:
        name = f"%x{self.fresh()}"
        self.do(f"{name} = {expression}")
        return name

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def entry(self, base: str, index: str | int, element: str) -> str:
        return self.let(f"getelementptr inbounds {element}, ptr {base}, i64 {index}")

    def number(self, base: str, index: str | int) -> str:
        """A constant of the tables."""
        return self.let(f"load i64, ptr {self.entry(base, index, 'i64')}, align 8, !invariant.load !0")

    def sum(self, *terms: str | int) -> str | int:
        fixed = sum(t for t in terms if isinstance(t, int))
        total: str | int = 0
        for term in terms:
            if isinstance(term, str):
                total = term if total == 0 else self.let(f"add i64 {total}, {term}")
        if fixed == 0 or total == 0:
            return fixed if total == 0 else total
        return self.let(f"add i64 {total}, {fixed}")

    def product(self, a: str | int, b: str | int) -> str | int:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self.let(f"mul i64 {a}, {b}")

    # The module

    def text(self) -> str:
        self.sizes = {
            "q": self.number("%tables", table.NQ),
            "v": self.number("%tables", table.NV),
            "frames": self.number("%tables", table.N_FRAMES),
        }
        self.inputs = [
            self.entry("%in", self.number("%tables", table.INPUTS + i), self.element)
            for i in range(len(self.algorithm.inputs))
        ]
        self.arrays = [
            self.entry("%ws", self.number("%tables", table.ARRAYS + i), self.element)
            for i in range(len(self.layout.arrays))
        ]
        self.gravity = self.entry("%params", self.number("%tables", table.GRAVITY), "double")
        self.world_base = "%ws"
        self.emit_block(self.program.top, _Scope(self.width))
        self.do("ret void")
        outs = ", ".join(f"ptr noalias %out{i}" for i in range(3))
        constants = ", ".join(f"ptr noalias readonly %{name}" for name in ("params", "tables", "in"))
        head = f"define void @kernel(ptr noalias %ws, {constants}, {outs}) nounwind {{\nentry:\n"
        functions = [sincos_text(lanes) for lanes in sorted(self.sincos_lanes)]
        return head + "\n".join(self.lines) + "\n}\n" + "\n".join(functions + sorted(self.declared)) + "\n!0 = !{}\n"

    @property
    def element(self) -> str:
        return _vector(self.width)

    def intrinsic(self, name: str, lanes: int, arity: int) -> str:
        t, full = _vector(lanes), f"@llvm.{name}.{_suffix(lanes)}"
        self.declared.add(f"declare {t} {full}({', '.join([t] * arity)})")
        return full

    # Blocks

    def emit_block(self, block: Block, scope: _Scope) -> None:
        for item in block.items:
            if isinstance(item, Op):
                scope.names[id(item)] = self.emit_op(item, scope)
            elif isinstance(item, Store):
                self.emit_store(item, scope)
            elif item.source in ("scatter", "gather", "frames"):
                self.emit_rows(item, scope)
            else:
                self.emit_columns(item, scope)

    def use(self, op: Op, scope: _Scope) -> str:
        """The name of an op's value, as wide as the scope asks for."""
        if op.code == "const":
            return self.constant(op.attr, scope.lanes)
        if id(op) in scope.names:
            return scope.names[id(op)]
        outer = scope.outer
        if outer is None:
            raise AssertionError(f"{op!r} is used where it is not known")
        name = self.use(op, outer)
        if scope.lanes != outer.lanes:
            name = self.splat_before(name, scope)
        scope.names[id(op)] = name
        return name

    def splat(self, name: str, lanes: int) -> list[tuple[str, str]]:
        t, k = _vector(lanes), self.fresh()
        return [
            (f"%i{k}", f"insertelement {t} poison, double {name}, i64 0"),
            (f"%s{k}", f"shufflevector {t} %i{k}, {t} poison, <{lanes} x i32> zeroinitializer"),
        ]

    def splat_before(self, name: str, scope: _Scope) -> str:
        steps = self.splat(name, scope.lanes)
        scope.preheader += [f"  {n} = {e}" for n, e in steps]
        return steps[-1][0]

    def widened(self, name: str, lanes: int) -> str:
        if lanes == 1:
            return name
        for n, e in self.splat(name, lanes):
            self.do(f"{n} = {e}")
            name = n
        return name

    @staticmethod
    def constant(value: float, lanes: int) -> str:
        from struct import pack

        text = "0x" + pack(">d", value).hex().upper()
        return text if lanes == 1 else "<" + ", ".join([f"double {text}"] * lanes) + ">"

    def emit_op(self, op: Op, scope: _Scope) -> str:
        t, lanes = _vector(scope.lanes), scope.lanes
        if op.code == "const":
            return self.constant(op.attr, lanes)
        if op.code == "load":
            return self.emit_load(op.attr, scope)
        args = [self.use(a, scope) for a in op.args]
        if op.code in _BINARY:
            return self.let(f"{_BINARY[op.code]} {t} {args[0]}, {args[1]}")
        if op.code == "neg":
            return self.let(f"fneg {t} {args[0]}")
        if op.code in ("sin", "cos"):
            return self.emit_sincos(op, args[0], scope)
        arity = {"sqrt": 1, "fma": 3}[op.code]
        name = self.intrinsic(op.code, lanes, arity)
        return self.let(f"call {t} {name}({', '.join(f'{t} {a}' for a in args)})")

    def emit_sincos(self, op: Op, angle: str, scope: _Scope) -> str:
        """Sine and cosine come together; the second one asked for finds the pair."""
        t, key = _vector(scope.lanes), ("sincos", id(op.args[0]))
        pair = scope.names.get(hash(key))
        if pair is None:
            self.sincos_lanes.add(scope.lanes)
            self.intrinsic("fma", scope.lanes, 3)
            pair = scope.names[hash(key)] = self.let(f"call {{{t}, {t}}} @sincos_{scope.lanes}({t} {angle})")
        return self.let(f"extractvalue {{{t}, {t}}} {pair}, {0 if op.code == 'sin' else 1}")

    # Memory

    def address(self, place: Place) -> str:
        """Where the first lane of a place is."""
        if isinstance(place, Field):
            offset = self.layout.fields[place.role.classes[0], place.name, place.component]
            return self.entry(self.bases.get(place.role, "%ws"), offset, self.element)
        if isinstance(place, Param):
            return self.entry(self.params[place.role], place.component, "double")
        if isinstance(place, Uniform):
            return self.entry(self.gravity, place.component, "double")
        if isinstance(place, ArrayEntry):
            over, components = self.layout.arrays[place.number]
            *rows, column = place.at
            row: str | int = 0
            for base, _ in rows:
                row = self.product(self.positions.get(Position(base.role, over[0]), 0), len(components))
            line = self.product(self.sum(row, components[place.component]), self.sizes["v"])
            return self.entry(self.arrays[place.number], self.sum(line, self.position(column)), self.element)
        if isinstance(place, Input):
            base, dimensions = self.inputs[place.number], self.algorithm.inputs[place.number].dimensions
        else:
            base, dimensions = f"%out{place.number}", self.algorithm.outputs[place.number].dimensions
        return self.entry(base, self.linear(place.at, dimensions), self.element)

    def position(self, index: Index) -> str | int:
        base, offset = index
        return self.sum(self.positions[base], offset) if isinstance(base, Position) else base + offset

    def linear(self, index: tuple[Index, ...], dimensions: Dimensions) -> str | int:
        total: str | int = 0
        for one, dimension in zip(index, dimensions, strict=True):
            size = dimension if isinstance(dimension, int) else self.sizes[dimension]
            total = self.sum(self.product(total, size), self.position(one))
        return total

    def stride(self, place: Place, scope: _Scope) -> str | int:
        """Distance between neighbouring columns, when columns are lanes; 0 if the place is the same for all."""
        if scope.column is None or not isinstance(place, (Input, Output, ArrayEntry)):
            return 0
        along = [i for i, (base, _) in enumerate(place.at) if isinstance(base, Position) and base.role is scope.column]
        if not along:
            return 0
        (axis,) = along
        if isinstance(place, ArrayEntry):
            return 1
        arguments = self.algorithm.inputs if isinstance(place, Input) else self.algorithm.outputs
        stride: str | int = 1
        for dimension in arguments[place.number].dimensions[axis + 1 :]:
            stride = self.product(stride, dimension if isinstance(dimension, int) else self.sizes[dimension])
        return stride

    def emit_load(self, place: Place, scope: _Scope) -> str:
        pure = ", !invariant.load !0" if isinstance(place, (Param, Uniform, Input)) else ""
        pointer = self.address(place)
        if isinstance(place, (Param, Uniform)):
            return self.widened(self.let(f"load double, ptr {pointer}, align 8{pure}"), scope.lanes)
        if scope.column is None:
            return self.let(f"load {self.element}, ptr {pointer}, align {8 * self.width}{pure}")
        stride = self.stride(place, scope)
        if stride == 0:
            return self.widened(self.let(f"load double, ptr {pointer}, align 8{pure}"), scope.lanes)
        t, n = _vector(scope.lanes), scope.lanes
        if stride == 1 and scope.mask is None:
            return self.let(f"load {t}, ptr {pointer}, align 8{pure}")
        if stride == 1:
            name = f"@llvm.masked.load.{_suffix(n)}.p0"
            self.declared.add(f"declare {t} {name}(ptr, i32, <{n} x i1>, {t})")
            return self.let(f"call {t} {name}(ptr {pointer}, i32 8, <{n} x i1> {scope.mask}, {t} zeroinitializer)")
        pointers = self.spread(pointer, stride, n)
        name = f"@llvm.masked.gather.{_suffix(n)}.v{n}p0"
        self.declared.add(f"declare {t} {name}(<{n} x ptr>, i32, <{n} x i1>, {t})")
        return self.let(f"call {t} {name}(<{n} x ptr> {pointers}, i32 8, {self.full_mask(scope)}, {t} zeroinitializer)")

    def emit_store(self, store: Store, scope: _Scope) -> None:
        value, pointer = self.use(store.value, scope), self.address(store.place)
        if scope.column is None:
            aligned = 8 if isinstance(store.place, Output) and self.width == 1 else 8 * self.width
            self.do(f"store {self.element} {value}, ptr {pointer}, align {aligned}")
            return
        t, n, stride = _vector(scope.lanes), scope.lanes, self.stride(store.place, scope)
        if stride == 1 and scope.mask is None:
            self.do(f"store {t} {value}, ptr {pointer}, align 8")
        elif stride == 1:
            name = f"@llvm.masked.store.{_suffix(n)}.p0"
            self.declared.add(f"declare void {name}({t}, ptr, i32, <{n} x i1>)")
            self.do(f"call void {name}({t} {value}, ptr {pointer}, i32 8, <{n} x i1> {scope.mask})")
        else:
            pointers = self.spread(pointer, stride, n)
            name = f"@llvm.masked.scatter.{_suffix(n)}.v{n}p0"
            self.declared.add(f"declare void {name}({t}, <{n} x ptr>, i32, <{n} x i1>)")
            self.do(f"call void {name}({t} {value}, <{n} x ptr> {pointers}, i32 8, {self.full_mask(scope)})")

    def full_mask(self, scope: _Scope) -> str:
        n = scope.lanes
        return f"<{n} x i1> " + (scope.mask or "<" + ", ".join(["i1 true"] * n) + ">")

    def spread(self, pointer: str, stride: str | int, lanes: int) -> str:
        """Pointers to the same place of neighbouring columns."""
        steps = "<" + ", ".join(f"i64 {i}" for i in range(lanes)) + ">"
        one = self.let(f"insertelement <{lanes} x i64> poison, i64 {stride}, i64 0")
        all_ = self.let(f"shufflevector <{lanes} x i64> {one}, <{lanes} x i64> poison, <{lanes} x i32> zeroinitializer")
        offsets = self.let(f"mul <{lanes} x i64> {all_}, {steps}")
        return self.let(f"getelementptr double, ptr {pointer}, <{lanes} x i64> {offsets}")

    # Loops

    def emit_rows(self, loop: Loop, scope: _Scope) -> None:
        """A loop over rows of a table, with a switch to the body of the row's variant."""
        frames, down = loop.source == "frames", loop.source == "gather"
        rows = self.number("%tables", table.FRAME_ROWS if frames else table.NODE_ROWS)
        first = self.entry("%tables", rows, "i64")
        n = self.number("%tables", table.N_FRAMES if frames else table.N_NODES)
        k, before = self.fresh(), self.block
        self.do(f"br label %head{k}")
        self.label(f"head{k}")
        self.do(f"%i{k} = phi i64 [ 0, %{before} ], [ %next{k}, %latch{k} ]")
        self.do(f"%more{k} = icmp slt i64 %i{k}, {n}")
        self.do(f"br i1 %more{k}, label %row{k}, label %exit{k}")
        self.label(f"row{k}")
        index = f"%i{k}"
        if down:
            index = self.let(f"sub i64 {self.let(f'sub i64 {n}, 1')}, %i{k}")
        row = self.entry(first, self.product(index, table.FRAME_ROW if frames else table.NODE_ROW), "i64")
        names: list[Any] = [(c,) for c in self.carriers] if frames else self.variants
        filled = [(i, v) for i, v in enumerate(names) if v in loop.bodies and loop.bodies[v].items]
        choices = " ".join(f"i64 {i}, label %case{k}_{i}" for i, _ in filled)
        if len(filled) == len(names) == 1:
            self.do(f"br label %case{k}_0")
        else:
            self.do(f"switch i64 {self.number(row, 0)}, label %latch{k} [ {choices} ]")
        for i, variant in filled:
            self.label(f"case{k}_{i}")
            self.bind_roles(loop, variant, row)
            self.emit_block(loop.bodies[variant], _Scope(self.width, scope))
            self.do(f"br label %latch{k}")
        self.label(f"latch{k}")
        self.do(f"%next{k} = add i64 %i{k}, 1")
        self.do(f"br label %head{k}")
        self.label(f"exit{k}")

    def bind_roles(self, loop: Loop, variant: tuple[str, ...], row: str) -> None:
        first, second = loop.roles[variant]
        if loop.source == "frames":
            self.params[first] = self.entry("%params", self.number(row, table.FRAME["param"]), "double")
            self.positions[Position(first, "frame")] = self.number(row, table.FRAME["frame"])
            self.bases[second] = self.entry("%ws", self.number(row, table.FRAME["record"]), self.element)
            self.rows[first] = row
            return
        self.bases[first] = self.entry("%ws", self.number(row, table.NODE["record"]), self.element)
        self.bases[second] = (
            "%ws"
            if second.classes == (WORLD_CLASS,)
            else self.entry("%ws", self.number(row, table.NODE["parent_record"]), self.element)
        )
        self.params[first] = self.entry("%params", self.number(row, table.NODE["param"]), "double")
        for what in ("q", "v", "node", "depth"):
            self.positions[Position(first, what)] = self.number(row, table.NODE[what])
        for what in ("node", "depth"):
            self.positions[Position(second, what)] = self.number(row, table.NODE[f"parent_{what}"])
        self.rows[first] = row

    def bounds(self, loop: Loop) -> tuple[str, str]:
        if loop.source == "columns":
            return "0", self.sizes["v"]
        row = self.rows[loop.over]  # type: ignore[index]  # only loops over all columns have none
        if loop.source == "descendants":
            return self.number(row, table.NODE["after"]), self.number(row, table.NODE["end"])
        if loop.source == "onward":
            return self.number(row, table.NODE["v"]), self.sizes["v"]
        return self.number(row, table.FRAME["support"]), self.number(row, table.FRAME["support_end"])

    def emit_columns(self, loop: Loop, scope: _Scope) -> None:
        start, end = self.bounds(loop)
        (role,) = loop.roles[()]
        body = loop.bodies[()]
        lanes = self.columns if self.width == 1 and loop.source in _CONTIGUOUS and _independent(body, role) else 1
        if lanes == 1:
            self.column_loop(loop, start, end, 1, scope, None)
            return
        count = self.let(f"sub i64 {end}, {start}")
        whole = self.let(f"and i64 {count}, {-lanes}")
        middle = self.let(f"add i64 {start}, {whole}")
        self.column_loop(loop, start, middle, lanes, scope, None)
        # the last, partial group
        k = self.fresh()
        rest = self.let(f"icmp slt i64 {middle}, {end}")
        self.do(f"br i1 {rest}, label %tail{k}, label %done{k}")
        self.label(f"tail{k}")
        left = self.let(f"sub i64 {end}, {middle}")
        one = self.let(f"insertelement <{lanes} x i64> poison, i64 {left}, i64 0")
        all_ = self.let(f"shufflevector <{lanes} x i64> {one}, <{lanes} x i64> poison, <{lanes} x i32> zeroinitializer")
        steps = "<" + ", ".join(f"i64 {i}" for i in range(lanes)) + ">"
        mask = self.let(f"icmp slt <{lanes} x i64> {steps}, {all_}")
        inner = _Scope(lanes, scope, column=role, mask=mask)
        self.positions[Position(role, "column")] = middle
        self.with_preheader(lambda: self.emit_block(body, inner), inner)
        self.do(f"br label %done{k}")
        self.label(f"done{k}")

    def column_loop(self, loop: Loop, start: str, end: str, step: int, scope: _Scope, mask: str | None) -> None:
        (role,) = loop.roles[()]
        lanes = scope.lanes if step == 1 else step
        inner = _Scope(lanes, scope, column=role if step > 1 else None, mask=mask)
        k = self.fresh()

        def write() -> None:
            before = f"before{k}"
            self.do(f"br label %{before}")
            self.label(before)
            marker = len(self.lines)
            self.do(f"br label %head{k}")
            self.label(f"head{k}")
            self.do(f"%i{k} = phi i64 [ {start}, %{before} ], [ %next{k}, %latch{k} ]")
            self.do(f"%more{k} = icmp slt i64 %i{k}, {end}")
            self.do(f"br i1 %more{k}, label %body{k}, label %exit{k}")
            self.label(f"body{k}")
            column = f"%i{k}"
            if loop.source == "support":
                support = self.entry("%tables", self.number("%tables", table.SUPPORT), "i64")
                column = self.number(support, column)
            self.positions[Position(role, "column")] = column
            self.emit_block(loop.bodies[()], inner)
            self.do(f"br label %latch{k}")
            self.label(f"latch{k}")
            self.do(f"%next{k} = add i64 %i{k}, {step}")
            self.do(f"br label %head{k}")
            self.label(f"exit{k}")
            self.lines[marker:marker] = inner.preheader

        write()

    def with_preheader(self, write: Any, scope: _Scope) -> None:
        marker = len(self.lines)
        write()
        self.lines[marker:marker] = scope.preheader


def _independent(body: Block, column: Role) -> bool:
    """Whether columns can be computed side by side: every store is the column's own."""
    for _, item in walk(body):
        if isinstance(item, Loop):
            return False
        if isinstance(item, Store):
            index = getattr(item.place, "at", ())
            if not any(isinstance(base, Position) and base.role is column for base, _ in index):
                return False
    return True
