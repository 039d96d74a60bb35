"""Constant folding, common subexpressions and dead-code elimination.

Rules that replace an operation by a cheaper one, or by a number.

They are applied when an operation is recorded, and again when more constants are known. x·0 is folded to 0 even if x
may not be finite; NaN in a sample still reaches every result that depends on it numerically.

Removal of dead code: what no output depends on.

Folds what is known to be constant, and visits only the operations that this changes.

A program is recorded without operations that its rules replace, or that occur twice. So after components of fields have
turned out to be constant, only operations on what has changed can be folded or merged with others: a third of a
program the first time, and a few in a hundred after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinetree.compiler.ir import (
    Access,
    ArrayEntry,
    CodeBlock,
    FieldPlace,
    Item,
    Op,
    OutputEntry,
    Place,
    Position,
    Program,
    Rule,
    Store,
    key_of,
    walk,
)

#: What a program is run for. Straight-line code of one mechanism stores nothing else, and addresses it directly.
_RESULTS = (OutputEntry, Access)


def keys_of(place: Place) -> list[Any]:
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


def without_dead_code(program: Program) -> Program:
    """Keep only stores to outputs and what they depend on.

    Args:
        program: The program, which is changed.
    """
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


#: Operations that are not evaluated when constants are searched for, even if their arguments are known.
OPAQUE = ("div", "select")


class Folding(Program):
    """Folds a traced program, which is changed.

    The note of an op is what it becomes: itself, or another op. Before it has been visited, its note is what is known
    of its value; or already the op that comes before it and has become the same.

    Args:
        program: The program. Notes of its ops are their values, if these are constants.
        constants: Components of fields and arrays that are known to be constant.

    Attributes:
        news: Whether it found constants that notes did not know of, or removed stores that say nothing: only then can
            more components be constant.
    """

    def __init__(self, program: Program, constants: Mapping[Any, float]) -> None:
        self.rules, self.top, self.current = program.rules, program.top, program.top
        self.unsettled: set[Op] = set()
        self.news = False
        self._constants, self._unsettled_before = constants, program.unsettled
        self._fresh: set[CodeBlock] = set()  # in which something has been recorded
        self._fold(program.top)
        program.unsettled = self.unsettled

    def record(self, op: Op) -> Op:
        key, current = key_of(op), self.current
        if key is not None:
            block: CodeBlock | None = current
            while block is not None:
                found: Op | None = block.known.get(key)
                if found is not None:
                    is_kept = found.note is found
                    if is_kept:
                        return found
                    if block is current and not isinstance(found.note, Op):
                        found.note = op  # it comes later
                block = block.outer
            if current.known.get(key) is not op:
                current.known[key] = op
                self._fresh.add(current)
        op.note = op
        current.items.append(op)
        return op

    def _fold(self, block: CodeBlock) -> None:
        items, unsettled = block.items, self._unsettled_before
        kept = block.items = []
        self.current = block
        is_fresh_outside = any(outer in self._fresh for outer in block.chain() if outer is not block)
        for item in items:
            if isinstance(item, Op):
                args, note = item.args, item.note
                if isinstance(note, Op):
                    continue
                if len(args) == 2:
                    a, b = args
                    is_same = a.note is a and b.note is b
                else:
                    is_same = not args or all(a.note is a for a in args)
                if not is_same or item in unsettled:
                    item.note = self._replaced(item, is_same)
                elif item.code == "load" and (value := self._constant(item)) is not None:
                    item.note = self.op("const", attr=value)
                    self.news |= not isinstance(note, float)
                elif is_fresh_outside:
                    item.note = self.record(item)
                else:
                    item.note = item
                    kept.append(item)
            elif isinstance(item, Store):
                stored: Op = item.value.note
                if says_nothing(item.place, stored, block):
                    self.news = True
                else:
                    kept.append(item if stored is item.value else Store(item.place, stored))
            else:
                for body in item.blocks:
                    self._fold(body)
                self.current = block
                if any(body.items for body in item.blocks):
                    kept.append(item)

    def _replaced(self, item: Op, is_same: bool) -> Op:
        """What an op becomes by rules, with arguments that have changed unless they are the same."""
        args = item.args if is_same else tuple([a.note for a in item.args])
        rule = self.rules.get(item.code)
        better = None if rule is None else rule(self, *args)
        if better is None:
            return self.record(item if is_same else Op(item.code, args, item.attr, item.block))
        if better.code == "const" or item.code in OPAQUE:
            self.news |= not isinstance(item.note, float)
        return better

    def _constant(self, load: Op) -> float | None:
        """What a load gives, if all components that it may read are known to be the same constant."""
        values = {self._constants.get(key) for key in keys_of(load.attr)} if self._constants else ()
        return values.pop() if len(values) == 1 else None


def says_nothing(place: Place, value: Op, block: CodeBlock) -> bool:
    """Whether a store to a place of what a block has loaded from it changes nothing."""
    return value.code == "load" and value.block is block and bool(value.attr == place)
