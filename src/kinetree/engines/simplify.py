"""Simplification of a traced program: folds constants, removes dead code, fuses multiplications with additions.

Structural zeros make spatial algebra cheap (a joint map is a unit vector). They are folded here because this needs the
whole program: a component of a field is constant only if every store writes the same constant to it.
"""

from __future__ import annotations

from typing import Any

from kinetree.engines.fold import fold, negative
from kinetree.engines.ir import (
    Access,
    ArrayEntry,
    Block,
    Field,
    Item,
    Loop,
    Op,
    Output,
    Place,
    Position,
    Program,
    Store,
    walk,
)

#: What a program is run for. Straight-line code of one mechanism stores nothing else, and addresses it directly.
_RESULTS = (Output, Access)


def simplify(program: Program) -> Program:
    """Fold constants and remove dead code. The result has no `fma`; the count engine counts it.

    Args:
        program: The traced program, which is consumed.
    """
    constants: dict[Any, float] = {}
    while (found := _constant_components(program)) != constants:
        constants, rebuilt = found, _Rebuild(program, found).result
        program.discard()
        program = rebuilt
    return without_dead_code(program)


def fuse(program: Program) -> Program:
    """Turn products that are used only once, in a sum of the same block, into fused multiply-adds.

    Args:
        program: The simplified program, which is consumed.
    """
    fused = without_dead_code(_Rebuild(program, {}, fusing=True).result)
    program.discard()
    return fused


def keys_of(place: Place) -> list[Any]:
    """Keys of a place by class of node instead of role, one for each class that the role may have."""
    if isinstance(place, Field):
        role, name, component = place
        return [("field", name, cls, component) for cls in role.classes]
    if isinstance(place, ArrayEntry):
        return [("array", place.number, cls, place.component) for cls in _row_classes(place)]
    return []


def _row_classes(entry: ArrayEntry) -> tuple[str, ...]:
    base = entry.at[0][0]
    return base.role.classes if isinstance(base, Position) and base.what == "node" else ("",)


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
    for _, item in walk(program.top):
        if isinstance(item, Op):
            keys = keys_of(item.attr) if item.code == "load" else []
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
    code = op.code
    if code == "const":
        number: float = op.attr
        return number
    if code == "load":
        value: _Known = _UNKNOWN if keys else None
        for key in keys:
            value = _meet(value, stored.get(key, _UNKNOWN))
        return value
    if len(op.args) != 2:
        known = [a.note for a in op.args]
        if code == "neg" and isinstance(known[0], float):
            return -known[0]
        return None if None in known else _UNKNOWN if _UNKNOWN in known else None
    a, b = op.args
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


class _Rebuild:
    """Copies a program, applying rules to each op.

    Args:
        program: The program.
        constants: Components of fields and arrays that are known to be constant.
        fusing: Whether to fuse multiplications with additions, instead of folding.
    """

    def __init__(self, program: Program, constants: dict[Any, float], fusing: bool = False) -> None:
        self.constants = constants
        self.single = _products_used_once(program) if fusing else None
        self.result = Program()
        self.result.arrays = program.arrays
        self._block(program.top, self.result.top)

    def _block(self, old: Block, new: Block) -> None:
        target = self.result
        target.current = new
        for item in old.items:
            if isinstance(item, Op):
                item.note = self._op(item)
            elif isinstance(item, Store):
                value = item.value.note
                if not (value.code == "load" and value.attr == item.place and value.block is new):
                    new.items.append(Store(item.place, value))
            elif isinstance(item, Loop):
                loop = Loop(item.loop, item.over, item.start, roles=item.roles)
                for variant, body in item.bodies.items():
                    inner = loop.bodies[variant] = Block(target, new)
                    self._block(body, inner)
                    target.current = new
                if any(body.items for body in loop.bodies.values()):
                    new.items.append(loop)

    def _op(self, op: Op) -> Op:
        code, target = op.code, self.result
        if code == "load":
            if self.constants:
                values = {self.constants.get(key) for key in keys_of(op.attr)}
                if len(values) == 1 and (value := values.pop()) is not None:
                    return target.op("const", attr=value)
            return target.load(op.attr)
        if code == "const":
            return target.op("const", attr=op.attr)
        args = tuple([a.note for a in op.args])
        better = fold(target, code, args) if self.single is None else self._fused(op, args, self.single)
        return target.op(code, *args) if better is None else better

    def _fused(self, op: Op, args: tuple[Op, ...], single: set[int]) -> Op | None:
        if op.code not in ("add", "sub"):
            return None
        old_a, old_b = op.args
        a, b = args
        target = self.result
        if old_b.code == "mul" and id(old_b) in single and old_b.block is op.block:
            x, y = b.args
            return target.op("fma", negative(target, x) if op.code == "sub" else x, y, a)
        if old_a.code == "mul" and id(old_a) in single and old_a.block is op.block:
            x, y = a.args
            return target.op("fma", x, y, negative(target, b) if op.code == "sub" else b)
        return None


def _products_used_once(program: Program) -> set[int]:
    """Identities of the products that are an argument, or stored, exactly once."""
    once: set[int] = set()
    more: set[int] = set()
    for _, item in walk(program.top):
        for arg in item.args if isinstance(item, Op) else (item.value,) if isinstance(item, Store) else ():
            if arg.code == "mul":
                (more if id(arg) in once else once).add(id(arg))
    return once - more


def without_dead_code(program: Program) -> Program:
    """Keep only stores to outputs and what they depend on.

    Args:
        program: The program, which is changed.
    """
    read: set[Any] = set()
    live: set[int] = set()
    waiting = [(item, keys_of(item.place)) for _, item in walk(program.top) if isinstance(item, Store)]
    while True:
        unread = []
        for pair in waiting:
            store, keys = pair
            if isinstance(store.place, _RESULTS) or any(key in read for key in keys):
                _mark(store.value, live, read)
            else:
                unread.append(pair)
        if len(unread) == len(waiting):
            break
        waiting = unread
    _sweep(program.top, live, read)
    return program


def _mark(op: Op, live: set[int], read: set[Any]) -> None:
    stack = [op]
    while stack:
        op = stack.pop()
        if id(op) not in live:
            live.add(id(op))
            stack.extend(op.args)
            if op.code == "load":
                read.update(keys_of(op.attr))


def _sweep(block: Block, live: set[int], read: set[Any]) -> None:
    kept: list[Item] = []
    for item in block.items:
        if isinstance(item, Op):
            if id(item) in live:
                kept.append(item)
        elif isinstance(item, Store):
            if isinstance(item.place, _RESULTS) or any(k in read for k in keys_of(item.place)):
                kept.append(item)
        else:
            for body in item.blocks:
                _sweep(body, live, read)
            if any(body.items for body in item.blocks):
                kept.append(item)
    block.items = _without_overwritten(kept)


def _without_overwritten(items: list[Item]) -> list[Item]:
    """Drop stores that a later store in the same block overwrites before they can be read."""
    kept: list[Item] = []
    pending: set[Place] = set()
    for item in reversed(items):
        if isinstance(item, Store):
            if item.place in pending:
                continue
            pending.add(item.place)
        elif not isinstance(item, Op):
            pending.clear()
        elif item.code == "load":
            pending.discard(item.attr)
            if isinstance(item.attr, ArrayEntry):
                pending = {p for p in pending if not (isinstance(p, ArrayEntry) and p.number == item.attr.number)}
        kept.append(item)
    kept.reverse()
    return kept
