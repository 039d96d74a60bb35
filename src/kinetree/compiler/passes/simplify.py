"""Simplification of a traced program: constant folding, common subexpressions, constant forwarding, dead code.

Structural zeros make spatial algebra cheap (a joint map is a unit vector). A program is recorded without operations
that `RULES` replace, or that occur twice. What is left needs the whole program: a component of a field is constant only
if every store writes the same constant to it.

x·0 is folded to 0 even if x may not be finite; NaN in a sample still reaches every result that depends on it
numerically. Programs are rewritten in place: most operations stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from kinetree.compiler.ir import (
    Access,
    ArrayEntry,
    CodeBlock,
    Exit,
    FieldPlace,
    Item,
    Op,
    OutputEntry,
    Param,
    Place,
    Position,
    Program,
    Role,
    Rule,
    Store,
    walk,
)

#: What a program is run for. Straight-line code of one mechanism stores nothing else, and addresses it directly.
_RESULTS = (OutputEntry, Access, Exit)


def simplify(program: Program) -> Program:
    """Fold constants and remove dead code of a traced program. The count engine counts the result."""
    constants: dict[Any, float] = {}
    while (found := _constant_components(program)) != constants:
        constants = found
        _fold(program, constants)
    forward_constants(program)
    return without_dead_code(program)


class _Unknown:
    """The value of a component to which no store has been seen yet: it may still be any constant."""


_UNKNOWN = _Unknown()
_Known = _Unknown | float | None  # None: not a constant


def _constant_components(program: Program) -> dict[Any, float]:
    """Components of fields and arrays to which every store writes the same constant.

    Optimistically assumes that every component is constant, and drops the assumption where a store contradicts it. So
    a component that is zero on the world and is only multiplied on the way to the tips is found to be zero everywhere.
    """
    stored: dict[Any, _Known] = {}
    remaining: list[tuple[Op | Store, list[Any]]] = []
    for item in walk(program.top):
        if isinstance(item, Op):
            args = item.args
            if len(args) == 2 and args[0].note is None and args[1].note is None:  # most of them
                item.note = None
                continue
            keys = keys_of(item.attr) if item.code == "load" else []
            value = item.note = _evaluate(item, keys, stored)
        elif isinstance(item, Store):
            keys, value = keys_of(item.place), item.value.note
            _record(value, keys, stored)
        else:
            continue
        if value is not None:  # once found not to be constant, an item stays so and is not visited again
            remaining.append((item, keys))
    changed = True
    while changed:
        changed, items, remaining = False, remaining, []
        for pair in items:
            item, keys = pair
            if isinstance(item, Op):
                value = item.note = _evaluate(item, keys, stored)
            else:
                value = item.value.note
                changed |= _record(value, keys, stored)
            if value is not None:
                remaining.append(pair)
    return {key: value for key, value in stored.items() if isinstance(value, float)}


def _record(value: _Known, keys: list[Any], stored: dict[Any, _Known]) -> bool:
    """Record that a value is stored to components; returns whether this contradicts what was assumed of them."""
    changed = False
    for key in keys:
        before = stored.get(key, _UNKNOWN)
        after = stored[key] = _meet(before, value)
        changed |= after is not before and after != before
    return changed


def _meet(a: _Known, b: _Known) -> _Known:
    if a is _UNKNOWN or b is _UNKNOWN:
        return b if a is _UNKNOWN else a
    return a if a == b else None


def _evaluate(op: Op, keys: list[Any], stored: dict[Any, _Known]) -> _Known:
    code, args = op.code, op.args
    if len(args) == 2:
        a, b = args
        x: _Known = a.note
        y: _Known = b.note
        if code == "mul":
            if x == 0.0 or y == 0.0:
                return 0.0
            if x is _UNKNOWN or y is _UNKNOWN:
                return _UNKNOWN  # might still be zero
        if x is None or y is None:
            return None
        if not isinstance(x, float) or not isinstance(y, float):
            return _UNKNOWN
        return x + y if code == "add" else x - y if code == "sub" else x * y if code == "mul" else None
    if code == "const":
        number: float = op.attr
        return number
    if code == "load":
        value: _Known = _UNKNOWN if keys else None
        for key in keys:
            value = _meet(value, stored.get(key, _UNKNOWN))
        return value
    known = [a.note for a in args]
    if code == "neg" and isinstance(known[0], float):
        return -known[0]
    return None if None in known else _UNKNOWN if _UNKNOWN in known else None


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
    if x == "const":
        if y == "const":
            return _constant(program, a.attr * b.attr)
        if a.attr in _SIMPLE:
            return _scaled(program, a, b)
    elif y == "const" and b.attr in _SIMPLE:
        return _scaled(program, b, a)
    if x == "neg":
        if y == "neg":
            return program.op("mul", a.args[0], b.args[0])
        return program.op("neg", program.op("mul", a.args[0], b))
    if y == "neg":
        return program.op("neg", program.op("mul", b.args[0], a))
    return None


#: Factors that need no multiplication.
_SIMPLE = (0.0, 1.0, -1.0)


def _scaled(program: Program, factor: Op, a: Op) -> Op:
    """One of these numbers times something else."""
    number = factor.attr
    if number == 0.0:
        is_zero = factor.block is program.current and math.copysign(1.0, number) > 0.0
        return factor if is_zero else _constant(program, 0.0)
    return a if number == 1.0 else negative(program, a)


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


def _fold(program: Program, constants: Mapping[Any, float]) -> None:
    """Apply the program's rules once more, given components of fields and arrays that are known to be constant."""
    rules = program.rules

    def folded(op: Op, args: tuple[Op, ...]) -> Op | None:
        rule = rules.get(op.code)
        if rule is not None:
            return rule(program, *args)
        if op.code == "load" and (keys := keys_of(op.attr)):
            value = constants.get(keys[0])
            if value is not None and all(constants.get(key) == value for key in keys[1:]):
                return program.op("const", attr=value)
        return None

    rewrite(program, folded)


def rewrite(program: Program, replaced: Callable[[Op, tuple[Op, ...]], Op | None]) -> None:
    """Record a program again, merging ops that become equal, without stores that change nothing.

    Args:
        program: The program, which is changed.
        replaced: What an op becomes, given what its arguments have become; None to keep it.
    """

    def visit(block: CodeBlock) -> None:
        items, block.items, block.known = block.items, [], {}
        program.current = block
        for item in items:
            if isinstance(item, Op):
                args = tuple([a.note for a in item.args])
                better = replaced(item, args)
                if better is None:
                    item.args = args
                    better = program.record(item.code, args, item.attr, item)
                item.note = better
            elif isinstance(item, Store):
                value = item.value.note
                if not (value.code == "load" and value.block is block and value.attr == item.place):
                    block.items.append(Store(item.place, value))
            else:
                for body in item.blocks:
                    visit(body)
                program.current = block
                if any(body.items for body in item.blocks):
                    block.items.append(item)

    visit(program.top)


def forward_constants(program: Program) -> None:
    """Constant forwarding: loads of fields that hold nothing but a constant of their node become loads of that.

    A weight carries the constants of the node's placement along with the numbers that depend on q. Stores of these
    would fill a batch's records, a vector for each number, and loads from there are no cheaper than those of the
    constants. Stores that nothing reads any more are left to `without_dead_code`.
    """
    held: dict[tuple[str, str, int], int | None] = {}
    loads: list[Op] = []
    for item in walk(program.top):
        if isinstance(item, Op):
            if item.code == "load" and isinstance(item.attr, FieldPlace) and item.attr.role.exact:
                loads.append(item)
        elif isinstance(item, Store) and isinstance(item.place, FieldPlace):
            role, name, component = item.place
            constant = node_constant(item.value, role)
            for kind in role.classes:
                key = kind, name, component
                held[key] = constant if held.get(key, constant) == constant else None
    for load in loads:
        role, name, component = load.attr
        constant = held.get((role.classes[0], name, component))
        if constant is not None:
            load.attr = Param(role, constant)


def node_constant(value: Op, role: Role) -> int | None:
    """Which constant of the role's node a value is."""
    if value.code != "load" or not isinstance(value.attr, Param) or value.attr.role is not role:
        return None
    return value.attr.component


def without_dead_code(program: Program) -> Program:
    """Dead-code elimination: keep only stores to outputs and what they depend on."""
    stores: list[tuple[Store, list[Any]]] = []
    stored: dict[Any, list[Op]] = {}  # what is stored to fields and arrays that nothing is known to read
    needed: list[Op] = []  # and not visited yet
    for item in walk(program.top):
        if isinstance(item, Op):
            item.note = False  # not known to be needed
        elif isinstance(item, Store):
            if isinstance(item.place, _RESULTS):
                needed.append(item.value)
            else:
                keys = keys_of(item.place)
                stores.append((item, keys))
                for key in keys:
                    stored.setdefault(key, []).append(item.value)
    while needed:
        op = needed.pop()
        if op.note:
            continue
        op.note = True
        needed += op.args
        if op.code == "load":
            for key in keys_of(op.attr):
                needed += stored.pop(key, ())
    _sweep(program.top, {id(store) for store, keys in stores if all(key in stored for key in keys)})
    return program


def _sweep(block: CodeBlock, unread: set[int]) -> None:
    kept: list[Item] = []
    for item in block.items:
        if isinstance(item, Op):
            if item.note:
                kept.append(item)
        elif isinstance(item, Store):
            if id(item) not in unread:
                kept.append(item)
        else:
            for body in item.blocks:
                _sweep(body, unread)
            if any(body.items for body in item.blocks):
                kept.append(item)
    block.items = _without_overwritten(kept)


def _without_overwritten(items: list[Item]) -> list[Item]:
    """Drop stores that a later store in the same block overwrites before they can be read."""
    places = [item.place for item in items if isinstance(item, Store)]
    if len(set(places)) == len(places):
        return items
    kept: list[Item] = []
    pending: set[Place] = set()
    for item in reversed(items):
        if isinstance(item, Op):
            if item.code == "load":
                pending.discard(item.attr)
                if isinstance(item.attr, ArrayEntry):
                    pending = {p for p in pending if not (isinstance(p, ArrayEntry) and p.number == item.attr.number)}
        elif isinstance(item, Store):
            if item.place in pending:
                continue
            pending.add(item.place)
        else:
            pending.clear()
        kept.append(item)
    kept.reverse()
    return kept


def keys_of(place: Place | None) -> list[Any]:
    """Keys of a place by class of node instead of role, one for each class that the role may have."""
    if isinstance(place, FieldPlace):
        role, name, component = place
        return [("field", name, cls, component) for cls in role.classes]
    if isinstance(place, ArrayEntry):
        return [("array", place.number, cls, place.component) for cls in _row_classes(place)]
    return []


def _row_classes(entry: ArrayEntry) -> tuple[str, ...]:
    base = entry.at[0][0]
    return base.role.classes if isinstance(base, Position) and base.what == "node" else ("",)
