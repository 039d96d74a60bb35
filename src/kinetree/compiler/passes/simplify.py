"""Simplification of a traced program: folds constants, removes dead code, fuses multiplications with additions.

Structural zeros make spatial algebra cheap (a joint map is a unit vector). They are folded here because this needs the
whole program: a component of a field is constant only if every store writes the same constant to it.

Programs are rewritten in place: most operations stay as they are.

Fields that hold nothing but a constant of their node: later loops read the constant itself.

A weight carries the constants of the node's placement along with the numbers that depend on q. Stores of these would
fill a batch's records, a vector for each number, and loads from there are no cheaper than those of the constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinetree.compiler.ir import CodeBlock, FieldPlace, Op, Param, Program, Rule, Store, walk
from kinetree.compiler.passes.defer_constants import from_nothing
from kinetree.compiler.passes.fold import Folding, keys_of, negative, says_nothing, without_dead_code
from kinetree.compiler.passes.reassociate import arrange


def without_copies(program: Program) -> Program:
    """Replace loads of fields by loads of constants. Stores that nothing reads any more are left to others.

    Args:
        program: A traced program, which is changed.
    """
    held: dict[tuple[str, str, int], int | None] = {}
    loads: list[Op] = []
    for item in walk(program.top):
        if isinstance(item, Op):
            if item.code == "load" and isinstance(item.attr, FieldPlace) and item.attr.role.exact:
                loads.append(item)
        elif isinstance(item, Store) and isinstance(item.place, FieldPlace):
            role, name, component = item.place
            constant = _constant(item.value, role)
            for kind in role.classes:
                key = kind, name, component
                held[key] = constant if held.get(key, constant) == constant else None
    for load in loads:
        role, name, component = load.attr
        constant = held.get((role.classes[0], name, component))
        if constant is not None:
            load.attr = Param(role, constant)
    return program


def _constant(value: Op, role: Any) -> int | None:
    """Which constant of the role's node a value is."""
    if value.code != "load" or not isinstance(value.attr, Param) or value.attr.role is not role:
        return None
    return value.attr.component


def simplify(program: Program) -> Program:
    """Fold constants and remove dead code. The result has no `fma`; the count engine counts it.

    Args:
        program: The traced program, which is changed.
    """
    constants: dict[Any, float] = {}
    while (found := _constant_components(program)) != constants:
        constants = found
        if not Folding(program, constants).news:
            break
    return without_dead_code(without_copies(program))


def fuse(program: Program) -> Program:
    """Turn products that are used only once, in a sum of the same block, into fused multiply-adds.

    Args:
        program: The simplified program, which is changed.
    """
    arrange(from_nothing(program))
    _rewrite(program, _Fusing(program).rules)
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


def _rewrite(program: Program, rules: Mapping[str, Rule]) -> None:
    """Replace ops by rules, in order, and merge those that thereby become equal.

    Args:
        program: The program, which is changed.
        rules: What an op is replaced by, given what its arguments have become.
    """

    def rewrite(block: CodeBlock) -> None:
        items, record = block.items, program.record
        block.items, block.known = [], {}
        program.current = block
        for item in items:
            if isinstance(item, Op):
                args, better = item.args, None
                if args:
                    args = (args[0].note, args[1].note) if len(args) == 2 else tuple([a.note for a in args])
                    rule = rules.get(item.code)
                    if rule is not None:
                        better = rule(program, *args)
                if better is None:
                    item.args = args
                    better = record(item)
                item.note = better
            elif isinstance(item, Store):
                value = item.value.note
                if not says_nothing(item.place, value, block):
                    block.items.append(Store(item.place, value))
            else:
                for body in item.blocks:
                    rewrite(body)
                program.current = block
                if any(body.items for body in item.blocks):
                    block.items.append(item)

    rewrite(program.top)


class _Fusing:
    """Rules that fuse multiplications with additions: products of the same block that are used only once."""

    def __init__(self, program: Program) -> None:
        self.single = _products_used_once(program)
        self.rules: dict[str, Rule] = {"add": self.add, "sub": self.sub}

    def add(self, program: Program, a: Op, b: Op) -> Op | None:
        """a + b, if one of them is such a product."""
        if self.fusible(program, b):
            return program.op("fma", *b.args, a)
        return program.op("fma", *a.args, b) if self.fusible(program, a) else None

    def sub(self, program: Program, a: Op, b: Op) -> Op | None:
        """a − b, if one of them is such a product."""
        if self.fusible(program, b):
            return program.op("fma", negative(program, b.args[0]), b.args[1], a)
        return program.op("fma", *a.args, negative(program, b)) if self.fusible(program, a) else None

    def fusible(self, program: Program, op: Op) -> bool:
        """Whether an op is a product that is used only once, in the current block."""
        return op.code == "mul" and id(op) in self.single and op.block is program.current


def _products_used_once(program: Program) -> set[int]:
    """Identities of the products that are an argument, or stored, exactly once."""
    once: set[int] = set()
    more: set[int] = set()
    for item in walk(program.top):
        for arg in item.args if isinstance(item, Op) else (item.value,) if isinstance(item, Store) else ():
            if arg.code == "mul":
                (more if id(arg) in once else once).add(id(arg))
    return once - more
