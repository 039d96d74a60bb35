"""Bodies of a loop that are the same for several variants, and so need to be compiled only once.

Kinds of nodes that differ in their placements only have the same formulas in loops that do not read these. Two bodies
are the same if they execute the same operations on the same places; fields are the same if they have the same offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinetree.compiler.ir import CodeBlock, FieldPlace, Op, Position, Role, Store, TreeLoop
from kinetree.compiler.lower.layout import Layout
from kinetree.language.setup import WORLD_CLASS


def alike(loop: TreeLoop, variants: Mapping[int, tuple[Any, ...]], layout: Layout) -> dict[int, int]:
    """For each variant of a loop, by number, the first with the same body."""
    found: dict[int, int] = {}
    firsts: list[int] = []
    for number, variant in variants.items():
        same = (first for first in firsts if _Comparison(layout).bodies(loop, variants[first], loop, variant))
        found[number] = next(same, number)
        if found[number] == number:
            firsts.append(number)
    return found


class _Comparison:
    """Compares two bodies item by item."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        #: What roles and ops of the one body are in the other; those from outside are the same in both.
        self.other: dict[Role | Op, Role | Op | None] = {}

    def bodies(self, one: TreeLoop, variant: tuple[Any, ...], two: TreeLoop, other: tuple[Any, ...]) -> bool:
        """Whether bodies of two loops are the same."""
        for own, its in zip(one.roles[variant], two.roles[other], strict=True):
            both = (own.classes == (WORLD_CLASS,)) == (its.classes == (WORLD_CLASS,))
            self.other[own] = its if both else None  # a body that does not use it may be the same
        return self.blocks(one.bodies[variant], two.bodies[other])

    def blocks(self, one: CodeBlock, two: CodeBlock) -> bool:
        return len(one.items) == len(two.items) and all(map(self.items, one.items, two.items))

    def items(self, a: Any, b: Any) -> bool:
        if type(a) is not type(b):
            return False
        if isinstance(a, Op):
            return self.ops(a, b)
        if isinstance(a, Store):
            return self.is_same(a.value, b.value) and self.places(a.place, b.place)
        if a.loop.name != b.loop.name or not self.is_same(a.over, b.over) or list(a.bodies) != list(b.bodies):
            return False
        for one, two in ((a.start, b.start), (a.stop, b.stop)):
            if (one is None) != (two is None) or (one is not None and not self.indices(one, two)):
                return False
        return all(self.bodies(a, variant, b, variant) for variant in a.bodies)

    def ops(self, a: Op, b: Op) -> bool:
        other = self.other
        if a.code != b.code or [other.get(x, x) for x in a.args] != list(b.args):
            return False
        other[a] = b
        if a.attr is None or b.attr is None:
            return a.attr is b.attr
        return self.places(a.attr, b.attr) if a.code == "load" else repr(a.attr) == repr(b.attr)

    def is_same(self, a: Any, b: Any) -> bool:
        """Whether roles or ops correspond to each other."""
        return self.other.get(a, a) is b

    def places(self, a: Any, b: Any) -> bool:
        if type(a) is not type(b):
            return False
        if isinstance(a, FieldPlace):
            fields = self.layout.fields
            offsets = [fields[p.role.classes[0], p.name, p.component] for p in (a, b)]
            return offsets[0] == offsets[1] and self.is_same(a.role, b.role)
        return len(a) == len(b) and all(map(self.parts, a, b))

    def parts(self, a: Any, b: Any) -> bool:
        """Whether parts of places are the same: roles, indices along axes, numbers."""
        if isinstance(a, Role):
            return self.is_same(a, b)
        if isinstance(a, tuple):
            return len(a) == len(b) and all(map(self.indices, a, b))
        return bool(a == b)

    def indices(self, a: Any, b: Any) -> bool:
        (one, offset), (two, its) = a, b
        if isinstance(one, Position) and isinstance(two, Position):
            return self.is_same(one.role, two.role) and one.what == two.what and offset == its
        return bool(a == b)
