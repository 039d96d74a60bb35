"""Bodies of C functions: each operation of a lowered program becomes a statement, each loop a `for`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from kinetree.compiler.elementary import sine_cosine
from kinetree.compiler.formats import Format
from kinetree.compiler.ir import Access, CodeBlock, Exit, Follow, For, Op, Segment, Store, Switch

#: Scalar operations.
_TEXT = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "NEG({0})",
    "sqrt": "SQRT({0})",
    "select": "{0} < {1} ? {2} : {3}",
    "fma": "FMA({0}, {1}, {2})",
}
#: Integer operations.
_INTEGER = {"iadd": "({0} + {1})", "imul": "{0} * {1}", "imax": "({0} > {1} ? {0} : {1})"}


@dataclass
class FunctionPrinter:
    """Prints the body of one function, given names of memory spaces, of tables and of their columns."""

    spaces: dict[tuple[str, int], str]
    tables: dict[str, str]
    columns: dict[tuple[str, str], str]
    scalar: Format
    lines: list[str] = field(default_factory=list)
    names: dict[Op, str] = field(default_factory=dict)
    depth: int = 1
    count: int = 0

    def do(self, line: str) -> None:
        """Write a line."""
        self.lines.append("  " * self.depth + line)

    def fresh(self, stem: str) -> str:
        """A name that is not in use."""
        self.count += 1
        return f"{stem}{self.count}"

    def block(self, block: CodeBlock) -> None:
        """Write the items of a block."""
        pairs: dict[Op, tuple[str, str]] = {}
        for item in block.items:
            if isinstance(item, Op):
                self.op(item, pairs)
            elif isinstance(item, Store):
                place: Any = item.place
                if isinstance(place, Exit):
                    self.do(f"if (!({self.use(item.value)} < (real)0.5)) break;")
                    continue
                note = f"  /* {place.note} */" if place.note else ""
                self.do(f"{self.place(place)} = {self.use(item.value)};{note}")
            elif isinstance(item, For):
                self.loop(item)
            elif isinstance(item, Follow):
                i, table = self.fresh("c"), self.tables[item.table]
                link = f"{table}[{i}].{self.columns[item.table, 'next']}"
                self.inside(f"for (int {i} = {self.use(item.start)}; {i} >= 0; {i} = {link})", item.index, i, item.body)
            elif isinstance(item, Switch):
                self.switch(item)
            elif isinstance(item, Segment):
                self.do("{")
                self.depth += 1
                self.block(item.body)
                self.depth -= 1
                self.do("}")

    def op(self, op: Op, pairs: dict[Op, tuple[str, str]]) -> None:
        """Write an op, or record the expression that stands for it."""
        if op.code == "const":
            self.names[op] = number(op.attr, self.scalar)
        elif op.code in ("int", "size"):
            self.names[op] = str(op.attr)
        elif op.code in _INTEGER:
            self.names[op] = _INTEGER[op.code].format(*map(self.use, op.args))
        elif op.code == "cell":
            column = self.columns[op.attr]
            self.names[op] = name = self.fresh(f"{column}_")
            self.do(f"const int {name} = {self.tables[op.attr[0]]}[{self.use(op.args[0])}].{column};")
        elif op.code in ("sin", "cos"):
            angle = op.args[0]
            if angle not in pairs:
                pairs[angle] = self.fresh("sin_"), self.fresh("cos_")
                self.do(f"real {pairs[angle][0]}, {pairs[angle][1]};")
                self.do(f"sine_cosine({self.use(angle)}, &{pairs[angle][0]}, &{pairs[angle][1]});")
            self.names[op] = pairs[angle][op.code == "cos"]
        else:
            args = [self.use(a) for a in op.args]
            text = self.place(op.attr) if op.code == "load" else _TEXT[op.code].format(*args)
            self.names[op] = name = self.fresh("t")
            self.do(f"const real {name} = {text};")

    def use(self, op: Op) -> str:
        """The name or expression of an op."""
        name = self.names[op]
        return f"({name})" if name.startswith("-") else name

    def place(self, access: Access) -> str:
        """A scalar in memory."""
        base = "" if access.base is None else self.use(access.base)
        if base.startswith("(") and base.endswith(")") and access.offset == 0:
            base = base[1:-1] if base.count("(") == 1 else base
        index = base if base and access.offset == 0 else f"{base} + {access.offset}" if base else str(access.offset)
        return f"{self.spaces[access.space]}[{index}]"

    def loop(self, loop: For) -> None:
        """Write a loop over contiguous numbers."""
        i, start, stop = self.fresh("i"), self.use(loop.start), self.use(loop.stop)
        forwards = f"for (int {i} = {start}; {i} < {stop}; ++{i})"
        backwards = f"for (int {i} = {stop} - 1; {i} >= {start}; --{i})"
        if loop.note:
            self.do(f"/* {loop.note} */")
        self.inside(backwards if loop.backwards else forwards, loop.index, i, loop.body)

    def inside(self, head: str, index: Op, name: str, body: CodeBlock) -> None:
        """Write the body of a loop."""
        self.names[index] = name
        self.do(f"{head} {{")
        self.depth += 1
        self.block(body)
        self.depth -= 1
        self.do("}")

    def switch(self, switch: Switch) -> None:
        """Write a switch."""
        self.do(f"switch ({self.use(switch.value)}) {{")
        for block in switch.blocks:
            *others, last = [number for number, case in switch.cases.items() if case is block]
            for number in others:
                self.do(f"case {number}:  /* {switch.notes[number]} */")
            self.do(f"case {last}: {{  /* {switch.notes[last]} */")
            self.depth += 1
            self.block(block)
            self.do("break;")
            self.depth -= 1
            self.do("}")
        self.do("default: break;")
        self.do("}")


def number(exact: float, scalar: Format) -> str:
    """A number as a C literal, rounded to a format."""
    value = scalar.value(exact)
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(value) if scalar.bytes == 8 else f"{value!r}f"


def sine_cosine_function(scalar: Format) -> str:
    """The function that computes sine and cosine."""
    lines: list[str] = []

    def let(expression: str) -> str:
        lines.append(f"const real t{len(lines)} = {expression};")
        return f"t{len(lines) - 1}"

    def do(code: str, *args: Any) -> Any:
        if code == "const":
            text = number(args[0], scalar)
            return f"({text})" if text.startswith("-") else text
        if code == "within":
            x, limit = args[0], number(args[1], scalar)
            return let(f"({x} >= -{limit} && {x} <= {limit}) ? {x} : (real)NAN")
        if code == "turned":
            sine, cosine, shifted = args
            lines.append("word quadrant;")
            lines.append(f"memcpy(&quadrant, &{shifted}, sizeof quadrant);")
            first, second = (let(f"(quadrant & 1) ? {b} : {a}") for a, b in ((sine, cosine), (cosine, sine)))
            turned = let(f"(quadrant & 2) ? NEG({first}) : {first}")
            return turned, let(f"((quadrant + 1) & 2) ? NEG({second}) : {second}")
        return let(_TEXT[code].format(*args))

    precision = scalar.precision
    sine, cosine = sine_cosine(do, "angle", precision)
    body = "\n".join(f"  {line}" for line in lines)
    return (
        "/* Sine and cosine: n = rint(2 x / pi) quarter turns in three parts, then polynomials. NaN for angles beyond\n"
        f" * {number(precision.largest, scalar)} rad. */\n"
        f"static void sine_cosine(real angle, real *sine, real *cosine) {{\n{body}\n"
        f"  *sine = {sine};\n  *cosine = {cosine};\n}}\n"
    )
