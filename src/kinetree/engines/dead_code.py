"""Removal of dead code: what no output depends on."""

from __future__ import annotations

from typing import Any

from kinetree.engines.ir import Access, CodeBlock, Item, Op, Place, Program, Store, walk
from kinetree.engines.places import ArrayEntry, FieldPlace, Output, Position

#: What a program is run for. Straight-line code of one mechanism stores nothing else, and addresses it directly.
_RESULTS = (Output, Access)


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
