"""Prints a lowered program as LLVM assembly, for one lane width.

A lane is a sample: at width W, every scalar of the program is a `<W x double>`, or a `<W x float>` in single precision,
and memory is interleaved, with element e of lane l at e·W + l. Constants are shared by all lanes. For a single sample
(W = 1), loops with independent indices handle several indices at once: consecutive elements are loaded and stored as
vectors, the last group under a mask; on processors with mask registers all groups, so that there is one body.

Long loops of long programs, and parts of straight-line code, become modules of their own. These can be compiled at the
same time, and even one after the other in less time, since LLVM's grows faster than the length of a function. Kernels
that have a loop in common share its module.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from kinetree.compiler.elementary import sine_cosine
from kinetree.compiler.formats import Format
from kinetree.compiler.ir import (
    INTEGERS,
    CodeBlock,
    Exit,
    Follow,
    For,
    Item,
    Op,
    Segment,
    Store,
    Switch,
    needed,
    walk,
)
from kinetree.compiler.llvm.memory import Lanes, Memory, Scope, Written, counting
from kinetree.compiler.llvm.writer import FunctionWriter, kernel_entry
from kinetree.compiler.lower.layout import LINE
from kinetree.compiler.lower.lower import LONG, Lowered
from kinetree.compiler.passes.hoist import COUNT, KEPT, POSITIONS

_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_CALLED = {"sqrt": 1, "fma": 3}
#: Items of a loop that becomes a module, and of programs with such loops.
_LONG_LOOP, _LONG = 400, LONG
#: Bytes of vectors from which on processors have registers for masks.
_MASKS = 64


class Emitter(Memory):
    """Prints the operations of a program. Arguments are those of `kinetree.compiler.llvm.phis.emit`."""

    def __init__(self, lowered: Lowered, width: int, columns: int, scalar: Format) -> None:
        super().__init__(lowered, width, scalar)
        self.columns = columns
        self.finished: dict[str, str] = {}
        self.long = lowered.length >= _LONG
        #: Sines and cosines that are computed ahead, and the index of the loop of each.
        self.ahead = lowered.angles if width == 1 < columns else None
        self.rows = {id(op): row for op, row in self.ahead.ops} if self.ahead is not None else {}
        outputs = {i: f"%out{i}" for i in range(lowered.outputs)}
        self.own = Written(FunctionWriter(self.header("internal void @body", [*map(_written, outputs.values())])))
        self.own.outputs = outputs

    def header(self, start: str, rest: list[str]) -> str:
        """The start of a function's definition, given linkage, type and name, and what it takes beside memory."""
        memory = [_written("%ws"), *(f"ptr noalias readonly %{name}" for name in ("params", "tables", "in"))]
        # LLVM aligns spilled vectors only if it knows from the beginning that the stack is aligned
        aligned = f" alignstack({self.bytes * self.width})" if self.width > 1 else ""
        return f"define {start}({', '.join([*memory, *rest])}) nounwind noinline{aligned}"

    def modules(self) -> list[str]:
        """The assembly of all modules."""
        if self.ahead is not None:
            self.sines_and_cosines(self.ahead.number)
        self.block(self.lowered.program.top, Scope(self.width))
        return [self.module(kernel_entry(self.lowered.outputs)), *self.finished.values()]

    def module(self, *functions: str) -> str:
        """The assembly of the function that is being written, with what it calls."""
        own = self.own
        sincos = [sincos_text(width, self.scalar) for width in sorted(own.sincos_widths)]
        return "\n".join([*functions, own.writer.text(), *sincos, *sorted(own.declared), "!0 = !{}", ""])

    # Items

    def block(self, block: CodeBlock, scope: Scope) -> None:
        top = block is self.lowered.program.top
        for item in block.items:
            self.f.divide()
            if top and self.is_apart(item):
                self.apart(item, scope)
            else:
                self.item(item, scope)

    def item(self, item: Item, scope: Scope) -> None:
        f = self.f
        if isinstance(item, Op):
            scope.names[id(item)] = self.op(item, scope)
        elif isinstance(item, Store) and isinstance(item.place, Exit):
            f.leave(self.all_set(self.use(item.value, scope), scope.width))
        elif isinstance(item, Store):
            self.store(item.place, self.use(item.value, scope), scope)
        elif isinstance(item, For):
            self.loop(item, scope)
        elif isinstance(item, Follow):
            with f.chain(self.integer(item.start, scope), self.table(item.table)) as index:
                self.block(item.body, Scope(scope.width, scope, names={id(item.index): index}))
        elif isinstance(item, Switch):
            with f.switch(self.integer(item.value, scope), item.cases, item.exhaustive) as cases:
                for case in cases:
                    self.block(case, scope.inner())
        elif isinstance(item, Segment):
            self.block(item.body, scope)

    def is_apart(self, item: Item) -> bool:
        """Whether an item of the outermost block becomes a module."""
        if isinstance(item, (Op, Store)):
            return False
        return isinstance(item, Segment) or (self.long and sum(len(walk(block)) for block in item.blocks) >= _LONG_LOOP)

    def apart(self, item: Item, scope: Scope) -> None:
        """An item of the outermost block as a module of its own, and a call."""
        block = CodeBlock(self.lowered.program, None)
        block.items.append(item)
        passed = _taken_from_outside(block)
        types = ["i64" if op.code in INTEGERS else self.element for op in passed]
        values = [f"{t} {scope.find(id(op))}" for t, op in zip(types, passed, strict=True)]
        outer, own = self.own, Written(FunctionWriter(""), is_part=True)

        self.own = own
        self.block(block, Scope(self.width, names={id(op): f"%given{i}" for i, op in enumerate(passed)}))
        given = [f"i64 {number}" for number in own.numbers.values()]
        given += [f"{t} %given{i}" for i, t in enumerate(types)]
        self.f.header = self.header("void @part", [*map(_written, own.outputs.values()), *given])
        text = self.module()
        # kernels with the same part share its code
        name = f"@part_{blake2b(text.encode(), digest_size=12).hexdigest()}"
        self.finished[name] = text.replace("@part(", f"{name}(")

        self.own = outer
        pointers = ["%ws", "%params", outer.tables, "%in", *(self.space(("output", i)) for i in own.outputs)]
        numbers = [f"i64 {self.number(number)}" for number in own.numbers]
        self.f.do(f"call void {name}({', '.join([*(f'ptr {p}' for p in pointers), *numbers, *values])})")
        all_types = ["ptr"] * len(pointers) + ["i64"] * len(numbers) + types
        self.own.declared.add(f"declare void {name}({', '.join(all_types)})")

    def op(self, op: Op, scope: Scope) -> str:
        code = op.code
        if code == "const":
            return self.constant(op, scope.width)
        if code == "load":
            return self.load(op.attr, scope)
        if code in INTEGERS:
            return self.whole(op, scope)
        f, t, args = self.own.writer, self.scalar.vector(scope.width), [self.use(a, scope) for a in op.args]
        if code in _BINARY:
            return f.let(f"{_BINARY[code]} {t} {args[0]}, {args[1]}")
        if code in _CALLED:
            name, separator = self.function(code, scope.width), f", {t} "
            return f.let(f"call {t} {name}({t} {separator.join(args)})")
        if code == "neg":
            return f.let(f"fneg {t} {args[0]}")
        if code == "select":
            less = f.let(f"fcmp olt {t} {args[0]}, {args[1]}")
            return f.let(f"select {_boolean(scope.width)} {less}, {t} {args[2]}, {t} {args[3]}")
        if id(op) in self.rows:
            place = f.let(f"shl i64 {self.integer(self.rows[id(op)], scope)}, 1")
            pointer = f.at(f.at(self.angles(), place, t), int(code == "cos"), t)
            return f.let(f"load {t}, ptr {pointer}, align {self.bytes}")
        # sine and cosine are computed together and shared
        pair = "sincos", id(op.args[0])
        if pair not in scope.names:
            self.own.sincos_widths.add(scope.width)
            self.function("fma", scope.width)
            scope.names[pair] = f.let(f"call {{{t}, {t}}} @sincos_{scope.width}({t} {args[0]})")
        return f.let(f"extractvalue {{{t}, {t}}} {scope.names[pair]}, {0 if code == 'sin' else 1}")

    def sines_and_cosines(self, number: int) -> None:
        """Those of the angles of all nodes, which are in one of the inputs, several at once."""
        f, count, one = self.f, self.columns, self.scalar.llvm
        t, mask, whole = self.scalar.vector(count), f"<{count} x i1>", f"<{count} x i64>"
        self.own.sincos_widths.add(count)
        self.function("fma", count)
        name = f"{t} @llvm.masked.gather.{self.scalar.suffix(count)}.v{count}p0"
        gather = self.intrinsic(name, f"<{count} x ptr>, i32, {mask}, {t}")
        positions, given = self.start(self.own.tables, POSITIONS, "i64"), self.space(("input", number))
        with f.loop(0, self.number(COUNT), count) as row:
            places = f.let(f"load {whole}, ptr {f.at(positions, row, 'i64')}, align 8, !invariant.load !0")
            pointers = f"<{count} x ptr> " + f.let(f"getelementptr {one}, ptr {given}, {whole} {places}")
            every = Lanes(count, row).every
            angle = f.let(f"call {gather}({pointers}, i32 {self.bytes}, {mask} {every}, {t} zeroinitializer)")
            pair = f.let(f"call {{{t}, {t}}} @sincos_{count}({t} {angle})")
            sine, cosine = (f.let(f"extractvalue {{{t}, {t}}} {pair}, {i}") for i in range(2))
            order = ", ".join(f"i32 {i}, i32 {count + i}" for i in range(count))
            both = f.let(f"shufflevector {t} {sine}, {t} {cosine}, <{2 * count} x i32> <{order}>")
            place = f.at(self.angles(), f.let(f"shl i64 {row}, 1"), one)
            f.do(f"store {self.scalar.vector(2 * count)} {both}, ptr {place}, align {self.bytes}")

    def angles(self) -> str:
        """The address of sines and cosines that are computed ahead."""
        return self.start("%ws", KEPT, self.scalar.llvm)

    def function(self, code: str, width: int) -> str:
        name = self.own.functions.get((code, width))
        if name is None:
            t = self.scalar.vector(width)
            name = self.own.functions[code, width] = f"@llvm.{code}.{self.scalar.suffix(width)}"
            self.own.declared.add(f"declare {t} {name}({', '.join([t] * _CALLED[code])})")
        return name

    # Loops

    def all_set(self, flag: str, width: int) -> str:
        """Whether a flag is 1 in all lanes."""
        f, t = self.f, self.scalar.vector(width)
        unset = f.let(f"fcmp olt {t} {flag}, {self.scalar.constant(0.5, width)}")
        if width > 1:
            unset = f.let(f"icmp ne i{width} {f.let(f'bitcast <{width} x i1> {unset} to i{width}')}, 0")
        return f.let(f"xor i1 {unset}, true")

    def loop(self, loop: For, scope: Scope) -> None:
        """A loop over contiguous numbers, several at once if they are independent."""
        f, start, stop = self.f, self.integer(loop.start, scope), self.integer(loop.stop, scope)
        if not loop.independent or self.width > 1 or self.columns == 1:
            self.repeat(loop, start, stop, scope)
            return
        count, before = self.columns, f.mark()
        if count * self.bytes >= _MASKS:  # a mask costs nothing there, and the body is printed once
            with f.loop(start, stop, count) as index:
                self.masked(loop, scope, index, stop, before)
            return
        whole = f.let(f"and i64 {f.let(f'sub i64 {stop}, {start}')}, {-count}")
        middle = f.let(f"add i64 {start}, {whole}")
        before = f.mark()
        with f.loop(start, middle, count) as index:
            names: dict[Any, str] = {id(loop.index): index}
            self.block(loop.body, Scope(count, scope, Lanes(count, index), names, before))
        with f.when(f.let(f"icmp slt i64 {middle}, {stop}")):
            self.masked(loop, scope, middle, stop)

    def masked(self, loop: For, scope: Scope, first: str, stop: str, before: int | None = None) -> None:
        """A group of indices of a loop from `first` on, of which there may be fewer than lanes.

        Values of outer scopes are broadcast at the line `before`, or else here.
        """
        f, count = self.f, self.columns
        left = self.splat(f.let(f"sub i64 {stop}, {first}"), count, "i64")
        mask = f.let(f"icmp slt <{count} x i64> {counting(count)}, {left}")
        names: dict[Any, str] = {id(loop.index): first}
        place = f.mark() if before is None else before
        aligned = loop.start.code == "int" and loop.start.attr == 0 and loop.stop.code == "size" and count <= LINE
        self.block(loop.body, Scope(count, scope, Lanes(count, first, mask, aligned), names, place))

    def repeat(self, loop: For, start: str, stop: str, scope: Scope) -> None:
        """Run a loop's body for one number after another."""
        f = self.f
        with f.loop(start, stop) as index:
            if loop.backwards:
                last = f.let(f"sub i64 {f.let(f'add i64 {start}, {stop}')}, 1")
                index = f.let(f"sub i64 {last}, {index}")
            self.passes(loop, Scope(scope.width, scope, names={id(loop.index): index}))

    def passes(self, loop: For, scope: Scope) -> None:
        """The body of a loop, one number at a time."""
        self.block(loop.body, scope)


def _taken_from_outside(block: CodeBlock) -> list[Op]:
    """The ops that a block uses but does not define, in order of use, apart from numbers."""
    inside: set[Op] = set()
    used: dict[Op, None] = {}
    for item in walk(block):
        if isinstance(item, Op):
            inside.add(item)
        elif isinstance(item, (For, Follow)):
            inside.add(item.index)
        for op in needed(item):
            used[op] = None
    return [op for op in used if op not in inside and op.code not in ("const", "int")]


def _written(pointer: str) -> str:
    """An argument for memory that a function writes."""
    return f"ptr noalias {pointer}"


def _boolean(width: int) -> str:
    """The type of a comparison."""
    return "i1" if width == 1 else f"<{width} x i1>"


def sincos_text(lanes: int, scalar: Format) -> str:
    """The function `@sincos_<lanes>`, which returns the sine and cosine of its argument."""
    t, boolean, suffix, element = scalar.vector(lanes), _boolean(lanes), scalar.suffix(lanes), scalar.integer
    i = element if lanes == 1 else f"<{lanes} x {element}>"
    lines: list[str] = []

    def let(expression: str) -> str:
        lines.append(f"  %t{len(lines)} = {expression}")
        return f"%t{len(lines) - 1}"

    def whole(number: int) -> str:
        return str(number) if lanes == 1 else "<" + ", ".join([f"{element} {number}"] * lanes) + ">"

    def turned(sine: str, cosine: str, shifted: str) -> tuple[str, str]:
        quadrant = let(f"bitcast {t} {shifted} to {i}")
        odd = let(f"icmp ne {i} {let(f'and {i} {quadrant}, {whole(1)}')}, {whole(0)}")
        following = let(f"add {i} {quadrant}, {whole(1)}")
        results = []
        for value, other, quarter in ((sine, cosine, quadrant), (cosine, sine, following)):
            chosen = let(f"select {boolean} {odd}, {t} {other}, {t} {value}")
            sign = let(f"shl {i} {let(f'and {i} {quarter}, {whole(2)}')}, {whole(8 * scalar.bytes - 2)}")
            bits = let(f"bitcast {t} {chosen} to {i}")
            results.append(let(f"bitcast {i} {let(f'xor {i} {bits}, {sign}')} to {t}"))
        return results[0], results[1]

    def do(code: str, *args: Any) -> Any:
        if code == "const":
            return scalar.constant(args[0], lanes)
        if code == "within":
            size = let(f"call {t} @llvm.fabs.{suffix}({t} {args[0]})")
            meaningful = let(f"fcmp ole {t} {size}, {scalar.constant(args[1], lanes)}")
            return let(f"select {boolean} {meaningful}, {t} {args[0]}, {t} {scalar.constant(float('nan'), lanes)}")
        if code == "turned":
            return turned(*args)
        if code == "neg":
            return let(f"fneg {t} {args[0]}")
        if code == "fma":
            return let(f"call {t} @llvm.fma.{suffix}({', '.join(f'{t} {x}' for x in args)})")
        return let(f"{_BINARY[code]} {t} {args[0]}, {args[1]}")

    sine, cosine = sine_cosine(do, "%angle", scalar.precision)
    pair = let(f"insertvalue {{{t}, {t}}} poison, {t} {sine}, 0")
    pair = let(f"insertvalue {{{t}, {t}}} {pair}, {t} {cosine}, 1")
    body = "\n".join(lines)
    return (
        f"declare {t} @llvm.fabs.{suffix}({t})\n"
        f"define internal {{{t}, {t}}} @sincos_{lanes}({t} %angle) alwaysinline nounwind {{\n"
        f"{body}\n  ret {{{t}, {t}}} {pair}\n}}\n"
    )
