"""Sums over children that start from nothing: a node adds its own constant when it uses the sum.

The articulated inertia of a node starts as the inertia of its bodies, and its children add to it. Only the children
vary: a sum that starts as −0, to which any number can be added exactly, need not be stored before the first child adds
to it, and is the term itself if there is one child (`kinetree.compiler.lower.loop_carried`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kinetree.compiler.ir import CodeBlock, FieldPlace, Item, Op, Param, Program, Role, Store, TreeLoop, walk
from kinetree.language.loops import Table

_Component = tuple[str, int]


def sweep_direction(item: Item) -> str:
    """The direction of a loop from node to node without loops inside, "inward" or "outward"; empty for other items."""
    if not isinstance(item, TreeLoop) or not isinstance(item.loop, Table) or item.over is not None:
        return ""
    is_plain = all({Op, Store}.issuperset(map(type, body.items)) for body in item.blocks)
    return item.loop.direction if is_plain else ""


def from_nothing(program: Program) -> Program:
    """Let sums of a simplified program that start with constants of nodes start from nothing.

    Args:
        program: The program, which is changed.
    """
    for item in program.top.items:
        if isinstance(item, TreeLoop) and sweep_direction(item) == "inward":
            uses = _uses(program, item).items()
            if starts := {component: found for component, each in uses if (found := _starts(each)) is not None}:
                _rewrite(item, starts)
    return program


_Constant = int | float  # that of a node's constants with this number; or a number


class _Start(NamedTuple):
    """A store of a constant to a component of a node."""

    block: CodeBlock
    store: Store
    kind: str
    constant: _Constant


def _sums(loop: TreeLoop) -> list[_Component]:
    """The components of fields to which the nodes of a sweep add terms at their parents."""
    added: dict[_Component, None] = {}
    for variant, body in loop.bodies.items():
        _, parent = loop.roles[variant]
        for item in body.items:
            if isinstance(item, Store) and isinstance(item.place, FieldPlace) and item.place.role is parent:
                added[item.place.name, item.place.component] = None
    return list(added)


class _Access(NamedTuple):
    """A load or store of a component, and whether a sweep outward does it before the sums are formed."""

    block: CodeBlock
    item: Item
    is_early: bool


def _uses(program: Program, loop: TreeLoop) -> dict[_Component, list[_Access]]:
    """Loads and stores outside a sweep of the components to which it adds."""
    found: dict[_Component, list[_Access]] = {component: [] for component in _sums(loop)}
    if not found:
        return found
    is_before = True
    for outermost in program.top.items:
        if outermost is loop:
            is_before = False
            continue
        is_early = is_before and sweep_direction(outermost) == "outward"
        for block, item in _inside(program.top, outermost):
            place: Any = item.place if isinstance(item, Store) else item.attr if isinstance(item, Op) else None
            if isinstance(place, FieldPlace) and (uses := found.get((place.name, place.component))) is not None:
                uses.append(_Access(block, item, is_early))
    return found


def _starts(uses: list[_Access]) -> list[_Start] | None:
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


def _inside(top: CodeBlock, outermost: Item) -> Iterator[tuple[CodeBlock, Item]]:
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


def _rewrite(loop: TreeLoop, starts: dict[_Component, list[_Start]]) -> None:
    """Let sums start from nothing, and the nodes of a sweep add their constants to what they load."""
    stores: dict[CodeBlock, set[int]] = {}
    for block, store, _, _ in (start for each in starts.values() for start in each):
        stores.setdefault(block, set()).add(id(store))
    for block, those in stores.items():
        block.items = [
            made for item in block.items for made in (_nothing(block, item) if id(item) in those else (item,))
        ]
    for variant, body in loop.bodies.items():
        own, _ = loop.roles[variant]
        kind = own.classes[0]
        constants = {
            component: start.constant for component, each in starts.items() for start in each if start.kind == kind
        }
        items: list[Item] = []
        for item in body.items:
            if (
                isinstance(item, Op)
                and item.code == "load"
                and isinstance(item.attr, FieldPlace)
                and item.attr.role is own
            ):
                constant = constants.get((item.attr.name, item.attr.component), 0.0)
                if not (isinstance(constant, float) and constant == 0.0):
                    items += _with_constant(item, constant, own)
            items.append(item)
        body.items = items


def _nothing(block: CodeBlock, store: Any) -> tuple[Item, ...]:
    """A store of nothing in place of another."""
    nothing = Op("const", (), -0.0, block)
    return nothing, Store(store.place, nothing)


def _with_constant(load: Op, constant: _Constant, role: Role) -> tuple[Op, ...]:
    """Turn a load into a sum with a constant of the role's node, for all that use it. Returns the terms."""
    total = Op("load", (), load.attr, load.block)
    if isinstance(constant, float):
        start = Op("const", (), constant, load.block)
    else:
        start = Op("load", (), Param(role, constant), load.block)
    load.code, load.args, load.attr = "add", (total, start), None
    return total, start
