"""Rules that replace an operation by a cheaper one, or by a number.

They are applied when an operation is recorded, and again when more constants are known. x·0 is folded to 0 even if x
may not be finite; NaN in a sample still reaches every result that depends on it numerically.
"""

from __future__ import annotations

from kinetree.engines.ir import Op, Program, Rule


def negative(program: Program, a: Op) -> Op:
    """−a, folded."""
    folded = _neg(program, a)
    return program.op("neg", a) if folded is None else folded


def _constant(program: Program, value: float) -> Op:
    return program.op("const", attr=value)


def _add(program: Program, a: Op, b: Op) -> Op | None:
    x, y = a.code, b.code
    if x == "const":
        if y == "const":
            return _constant(program, a.attr + b.attr)
        if a.attr == 0.0:
            return b
    if y == "const" and b.attr == 0.0:
        return a
    if x == y == "sub" and a.args == (b.args[1], b.args[0]):
        return _constant(program, 0.0)
    if y == "neg":
        return program.op("sub", a, b.args[0])
    if x == "neg":
        return program.op("sub", b, a.args[0])
    return None


def _sub(program: Program, a: Op, b: Op) -> Op | None:
    x, y = a.code, b.code
    if x == y == "const":
        return _constant(program, a.attr - b.attr)
    if a is b:
        return _constant(program, 0.0)
    if y == "const" and b.attr == 0.0:
        return a
    if x == "const" and a.attr == 0.0:
        return negative(program, b)
    if y == "neg":
        return program.op("add", a, b.args[0])
    return None


def _mul(program: Program, a: Op, b: Op) -> Op | None:
    x, y = a.code, b.code
    if x == "const" or y == "const":
        if x == y:
            return _constant(program, a.attr * b.attr)
        scaled = _scaled(program, a.attr, b) if x == "const" else _scaled(program, b.attr, a)
        if scaled is not None:
            return scaled
    if x == "neg":
        if y == "neg":
            return program.op("mul", a.args[0], b.args[0])
        return program.op("neg", program.op("mul", a.args[0], b))
    if y == "neg":
        return program.op("neg", program.op("mul", b.args[0], a))
    return None


def _scaled(program: Program, factor: float, a: Op) -> Op | None:
    """A number times something else, if the product needs no multiplication."""
    if factor == 0.0:
        return _constant(program, 0.0)
    if factor == 1.0:
        return a
    if factor == -1.0:
        return negative(program, a)
    return None


def _div(program: Program, a: Op, b: Op) -> Op | None:
    if a.code == b.code == "const" and b.attr != 0.0:
        return _constant(program, a.attr / b.attr)
    if b.code == "const" and b.attr == 1.0:
        return a
    return _constant(program, 0.0) if a.code == "const" and a.attr == 0.0 else None


def _select(_: Program, a: Op, b: Op, x: Op, y: Op) -> Op | None:
    if a.code == b.code == "const":
        return x if a.attr < b.attr else y
    return x if x is y else None


def _neg(program: Program, a: Op) -> Op | None:
    if a.code == "const":
        return _constant(program, -a.attr)
    return a.args[0] if a.code == "neg" else None


#: For each operation, what it can be replaced by in the current block of a program, given its arguments; or None.
RULES: dict[str, Rule] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": _neg,
    "select": _select,
}
