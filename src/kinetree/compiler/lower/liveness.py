"""When fields of nodes are in use: those that never are at the same time can share memory."""

from __future__ import annotations

from typing import Any, NamedTuple

from kinetree.compiler.ir import FieldPlace, Item, Op, Program, Store, TreeLoop, walk
from kinetree.compiler.lower.loop_carried import LoopCarried
from kinetree.compiler.passes.defer_constants import sweep_direction
from kinetree.language.setup import WORLD_CLASS

#: A component of a field.
Component = tuple[str, int]


class LiveRange(NamedTuple):
    """The first and the last time at which a field is in use. Every field is set before it is read.

    Outermost items of a program have a number, and two halves: the bodies of a sweep read fields of their node in the
    first and set them in the second.
    """

    first: int
    last: int

    @classmethod
    def throughout(cls, number: int) -> LiveRange:
        """In use during the whole of an item."""
        return cls(2 * number, 2 * number + 1)

    def joined(self, other: LiveRange | None) -> LiveRange:
        """In use during both, and between them."""
        return self if other is None else LiveRange(min(self.first, other.first), max(self.last, other.last))

    def meets(self, other: LiveRange) -> bool:
        """Whether both are in use at the same time."""
        return self.first <= other.last and other.first <= self.last


def live_ranges(program: Program) -> dict[Component, dict[str, LiveRange]]:
    """The life of each component of a field, in each class of nodes that has it."""
    found: dict[Component, dict[str, LiveRange]] = {}
    for number, item in enumerate(program.top.items):
        direction = sweep_direction(item)
        for component, use in _uses(item).items():
            life, own = _life(use.ways, direction, number), found.setdefault(component, {})
            for c in use.classes:
                own[c] = (LiveRange.throughout(number) if c == WORLD_CLASS else life).joined(own.get(c))
    return found


def extended(
    lives: dict[Component, dict[str, LiveRange]], program: Program, passed: dict[TreeLoop, LoopCarried]
) -> dict[Component, dict[str, LiveRange]]:
    """Lives in which what a sweep carries is in use in all classes of nodes, even in those that do not have it.

    The sweep knows it by its offset, which must mean nothing else there.
    """
    made = {component: dict(own) for component, own in lives.items()}
    classes = sorted({c for own in lives.values() for c in own} - {WORLD_CLASS})
    for loop, one in passed.items():
        now = LiveRange.throughout(program.top.items.index(loop))
        for component in one.values:
            own = made[component]
            own.update((c, now.joined(own.get(c))) for c in classes if c not in own or not own[c].meets(now))
    return made


class _ComponentUse(NamedTuple):
    """How an item uses a component: in which classes of nodes, and in which ways.

    Whether it is "read" or "set"; in sweeps, whether that is "at its turn", by the node itself, or by its children.
    """

    classes: dict[str, None]
    ways: set[str]


def _uses(outermost: Item) -> dict[Component, _ComponentUse]:
    """How an outermost item uses fields."""
    found: dict[Component, _ComponentUse] = {}
    own = {roles[0] for roles in outermost.roles.values()} if isinstance(outermost, TreeLoop) else set()
    inner = [] if isinstance(outermost, (Op, Store)) else outermost.blocks
    for item in (outermost, *(item for block in inner for item in walk(block))):
        place = place_of(item)
        if isinstance(place, FieldPlace):
            role, name, number = place
            use = found.get((name, number))
            if use is None:
                use = found[name, number] = _ComponentUse({}, set())
            use.classes.update(dict.fromkeys(role.classes))
            way = "set" if isinstance(item, Store) else "read"
            use.ways.add(f"{way} at its turn" if role in own else way)
    return found


def _life(ways: set[str], direction: str, number: int) -> LiveRange:
    """When a component of a node is in use during an item, a sweep if it has a direction.

    Towards the base, children are done with a node before its turn; towards the tips, they come after it.
    """
    life, before, after = LiveRange.throughout(number), {"read at its turn"}, {"set at its turn"}
    if direction == "inward":
        before |= {"read", "set"}
    elif direction == "outward":
        after |= {"read"}
    else:
        return life
    return (
        LiveRange(life.first, life.first)
        if ways <= before
        else LiveRange(life.last, life.last)
        if ways <= after
        else life
    )


def place_of(item: Any) -> Any:
    """The place that an item stores to or loads from; None if it does neither."""
    if isinstance(item, Op):  # most of them
        return item.attr if item.code == "load" else None
    return item.place if isinstance(item, Store) else None
