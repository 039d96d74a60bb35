"""Simplification of a traced program: constant folding, common subexpressions, constant forwarding, dead code.

Structural zeros make spatial algebra cheap (a joint map is a unit vector). A program is recorded without operations
that `RULES` replace, or that occur twice. What is left needs the whole program: a component of a field is constant only
if every store writes the same constant to it. Once some are known, only operations on what has changed can be folded or
merged with others: a third of a program the first time, and a few in a hundred after that.

x·0 is folded to 0 even if x may not be finite; NaN in a sample still reaches every result that depends on it
numerically. Programs are rewritten in place: most operations stay as they are.
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
    Param,
    Place,
    Position,
    Program,
    Role,
    Rule,
    Store,
    key_of,
    walk,
)

#: What a program is run for. Straight-line code of one mechanism stores nothing else, and addresses it directly.
_RESULTS = (OutputEntry, Access)


def simplify(program: Program) -> Program:
    """Fold constants and remove dead code of a traced program. The count engine counts the result."""
    constants: dict[Any, float] = {}
    while (found := _constant_components(program)) != constants:
        constants = found
        if not Folding(program, constants).news:
            break
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
    # Once found not to be constant, an item stays so and is not visited again.
    open_items: list[tuple[Op | Store, list[Any]]] = []
    for item in walk(program.top):
        if isinstance(item, Op):
            args = item.args
            if len(args) == 2 and args[0].note is None and args[1].note is None:  # most of them
                item.note = None
                continue
            keys = []
            if item.code == "load":
                keys = keys_of(item.attr)
                if not keys:  # inputs and constants of nodes
                    item.note = None
                    continue
            value = item.note = _evaluate(item, keys, stored)
        elif isinstance(item, Store) and (keys := keys_of(item.place)):
            value = item.value.note
            _record(value, keys, stored)
        else:
            continue
        if value is not None:
            open_items.append((item, keys))
    changed = True
    while changed:
        changed = False
        remaining = []
        for pair in open_items:
            item, keys = pair
            if isinstance(item, Op):
                value = item.note = _evaluate(item, keys, stored)
            else:
                value = item.value.note
                changed |= _record(value, keys, stored)
            if value is not None:
                remaining.append(pair)
        open_items = remaining
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
