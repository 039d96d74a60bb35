"""Sums over children that start from nothing: a node adds its own constant when it uses the sum.

The articulated inertia of a node starts as the inertia of its bodies, and its children add to it. Only the children
vary: a sum that starts as −0, to which any number can be added exactly, need not be stored before the first child adds
to it, and is the term itself if there is one child (`kinetree.engines.carried`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kinetree.engines.ir import Block, Item, Loop, Op, Program, Store, walk
from kinetree.engines.places import Field, Param, Role
from kinetree.recursion.loops import Table

_Component = tuple[str, int]


def is_sweep(item: Item, direction: str) -> bool:
    """Whether an item is a loop from node to node in a direction, "inward" or "outward", without loops inside."""
    if not isinstance(item, Loop) or not isinstance(item.loop, Table) or item.loop.direction != direction:
        return False
    return item.over is None and all(isinstance(inner, (Op, Store)) for body in item.blocks for inner in body.items)


def from_nothing(program: Program) -> Program:
    """Let sums of a simplified program that start with constants of nodes start from nothing.

    Args:
        program: The program, which is changed.
    """
    for item in program.top.items:
        if isinstance(item, Loop) and is_sweep(item, "inward"):
            uses = _uses(program, item)
            for component in _sums(item):
                starts = _starts(uses.get(component, []))
                if starts is not None:
                    _rewrite(item, component, starts)
    return program


_Constant = int | float  # that of a node's constants with this number; or a number


class _Start(NamedTuple):
    """A store of a constant to a component of a node."""

    block: Block
    store: Store
    kind: str
    constant: _Constant


def _sums(loop: Loop) -> list[_Component]:
    """The components of fields to which the nodes of a sweep add terms at their parents."""
    added: dict[_Component, None] = {}
    for variant, body in loop.bodies.items():
        _, parent = loop.roles[variant]
        for item in body.items:
            if isinstance(item, Store) and isinstance(item.place, Field) and item.place.role is parent:
                added[item.place.name, item.place.component] = None
    return list(added)


class _Use(NamedTuple):
    """A load or store of a component, and whether a sweep outward does it before the sums are formed."""

    block: Block
    item: Item
    is_early: bool


def _uses(program: Program, loop: Loop) -> dict[_Component, list[_Use]]:
    """Loads and stores of all components outside a sweep."""
    found: dict[_Component, list[_Use]] = {}
    is_before = True
    for outermost in program.top.items:
        if outermost is loop:
            is_before = False
            continue
        is_early = is_before and is_sweep(outermost, "outward")
        for block, item in _inside(program.top, outermost):
            place: Any = item.place if isinstance(item, Store) else item.attr if isinstance(item, Op) else None
            if isinstance(place, Field):
                found.setdefault((place.name, place.component), []).append(_Use(block, item, is_early))
    return found


def _starts(uses: list[_Use]) -> list[_Start] | None:
    """The stores with which sums start; None if these are not constants, or if anything else uses the sums."""
    found: list[_Start] = []
    for block, item, is_early in uses:
        place: Any = item.place if isinstance(item, Store) else None
        constant = _constant(item.value, place.role) if isinstance(item, Store) else None
        if not isinstance(item, Store) or constant is None or not is_early:
            return None
        found.append(_Start(block, item, place.role.classes[0], constant))
    constants: dict[str, _Constant] = {}
    same = all(constants.setdefault(start.kind, start.constant) == start.constant for start in found)
    return found if found and same else None


def _inside(top: Block, outermost: Item) -> Iterator[tuple[Block, Item]]:
    """An item of the outermost block with those in it, and the blocks of loops in which they are."""
    yield top, outermost
    if not isinstance(outermost, (Op, Store)):
        for block in outermost.blocks:
            for item in walk(block):
                yield block, item


def _constant(value: Op, role: Role) -> _Constant | None:
    """The constant of the role's node that a value is."""
    if value.code == "load" and isinstance(value.attr, Param) and value.attr.role is role:
        return value.attr.component
    return float(value.attr) if value.code == "const" else None


def _rewrite(loop: Loop, component: _Component, starts: list[_Start]) -> None:
    for block, store, _, _ in starts:
        nothing = Op("const", (), -0.0, block)
        at = next(i for i, item in enumerate(block.items) if item is store)
        block.items[at : at + 1] = [nothing, Store(store.place, nothing)]
    constants = {start.kind: start.constant for start in starts}
    for variant, body in loop.bodies.items():
        own, _ = loop.roles[variant]
        constant = constants.get(own.classes[0], 0.0)
        if constant == 0.0 and isinstance(constant, float):
            continue
        items: list[Item] = []
        for item in body.items:
            if isinstance(item, Op) and item.code == "load" and item.attr == Field(own, *component):
                total = Op("load", (), item.attr, body)
                if isinstance(constant, float):
                    start = Op("const", (), constant, body)
                else:
                    start = Op("load", (), Param(own, constant), body)
                items += [total, start]
                item.code, item.args, item.attr = "add", (total, start), None  # those that use it go on doing so
            items.append(item)
        body.items = items
