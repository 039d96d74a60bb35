"""Bodies of a loop that are the same for several variants, and so need to be compiled only once.

Kinds of nodes that differ in their placements only have the same formulas in loops that do not read these. Two bodies
are the same if they execute the same operations on the same places; fields are the same if they have the same offset.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from kinetree.engines.ir import Block, Loop, Op, Store
from kinetree.engines.layout import Layout
from kinetree.engines.places import Field, Position, Role
from kinetree.recursion.variants import WORLD_CLASS


def summary(body: Block, roles: Sequence[Role], layout: Layout) -> Hashable:
    """Equal for equal bodies of one loop, each given with its roles."""
    return _Summary(layout).of(body, roles)


class _Summary:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        #: What identifies roles and ops of the body; those from outside identify themselves.
        self.names: dict[Role | Op, Hashable] = {}

    def of(self, body: Block, roles: Sequence[Role]) -> Hashable:
        for role in roles:
            self.names[role] = "world" if role.classes == (WORLD_CLASS,) else len(self.names)
        return tuple([self.item(item) for item in body.items])

    def item(self, item: Any) -> Hashable:
        names = self.names
        if isinstance(item, Store):
            return self.place(item.place), names.get(item.value, item.value)
        if isinstance(item, Loop):
            start = None if item.start is None else self.index(item.start)
            over = None if item.over is None else names.get(item.over, item.over)
            bodies = tuple((variant, self.of(body, item.roles[variant])) for variant, body in item.bodies.items())
            return item.loop.name, over, start, bodies
        arguments = tuple([names.get(a, a) for a in item.args])
        names[item] = len(names)
        if item.attr is None:
            return item.code, arguments
        return item.code, arguments, self.place(item.attr) if item.code == "load" else repr(item.attr)

    def place(self, place: Any) -> Hashable:
        if isinstance(place, Field):
            offset = self.layout.fields[place.role.classes[0], place.name, place.component]
            return "field", self.names.get(place.role, place.role), offset
        return type(place).__name__, *(self.part(part) for part in place)

    def part(self, part: Any) -> Hashable:
        if isinstance(part, Role):
            return self.names.get(part, part)
        return tuple(self.index(index) for index in part) if isinstance(part, tuple) else part

    def index(self, index: Any) -> Hashable:
        base, offset = index
        return (self.names.get(base.role, base.role), base.what, offset) if isinstance(base, Position) else index
