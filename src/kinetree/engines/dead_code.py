"""Removal of dead code: what no output depends on."""

from __future__ import annotations

from typing import Any

from kinetree.engines.ir import Access, Block, Item, Op, Place, Program, Store, walk
from kinetree.engines.places import ArrayEntry, Field, Output, Position

#: What a program is run for. Straight-line code of one mechanism stores nothing else, and addresses it directly.
_RESULTS = (Output, Access)


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


def without_dead_code(program: Program) -> Program:
    """Keep only stores to outputs and what they depend on.

    Args:
        program: The program, which is changed.
    """
    stores: list[Store] = []
    for item in walk(program.top):
        if isinstance(item, Op):
            item.note = False  # not known to be needed
        elif isinstance(item, Store):
            stores.append(item)
    read: set[Any] = set()
    waiting = [(store, keys_of(store.place)) for store in stores]
    while True:
        unread = []
        for pair in waiting:
            store, keys = pair
            if isinstance(store.place, _RESULTS) or not read.isdisjoint(keys):
                _mark(store.value, read)
            else:
                unread.append(pair)
        if len(unread) == len(waiting):
            break
        waiting = unread
    _sweep(program.top, {id(store) for store, _ in waiting})
    return program


def _mark(op: Op, read: set[Any]) -> None:
    """Note that an op is needed, and what it needs."""
    if op.note:
        return
    op.note = True
    stack = [op]
    while stack:
        op = stack.pop()
        if op.code == "load":
            read.update(keys_of(op.attr))
        for argument in op.args:
            if not argument.note:
                argument.note = True
                stack.append(argument)


def _sweep(block: Block, unread: set[int]) -> None:
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
