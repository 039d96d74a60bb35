"""Loop-carried values: what consecutive nodes of a sweep pass to each other in registers.

Nodes are numbered depth first: towards the tips, a node's first child directly follows it; towards the base, the last
child to add to a node directly precedes it. A number that one stores and the next loads takes several cycles on its way
through memory, and in a chain each node waits for the one before it. So compiled code carries such numbers from one
pass of a loop to the next, and stores only what siblings or later loops read.

Sums over children that start at −0 (`kinetree.compiler.passes.fuse`) are in memory only while several children add to
them; what nothing but children read, only where a child does not directly follow. So most nodes of long chains have no
memory for either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntFlag
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kinetree.compiler.ir import (
    CodeBlock,
    Component,
    Item,
    Op,
    Program,
    Role,
    Store,
    TreeLoop,
    field_accesses,
    needed,
    sweep_direction,
)
from kinetree.language.mechanism import WORLD
from kinetree.language.setup import WORLD_CLASS
from kinetree.spatial.value import Array

#: A column of the table of nodes: `SiblingFlags`.
RELATIVES = "relatives of a node"
#: A number of a node: where its record is.
RECORD = "record"
#: The most numbers that a loop carries, apart from sums: more would displace others from registers.
_MOST = 16


def record_of(table: str, position: int) -> tuple[str, str]:
    """The cell with the record of the node at a position of a row."""
    return table, f"{position}.{RECORD}"


class SiblingFlags(IntFlag):
    """When a node needs memory for what sweeps carry."""

    BEFORE = 1  # siblings have added to the parent before this node, tips to base
    AFTER = 2  # siblings add to the parent after this node
    LATER_CHILDREN = 4  # a child does not directly follow this node, base to tips


def relatives(rows: Sequence[Sequence[int]]) -> Array:
    """The column `RELATIVES` of nodes with their parents, base to tips."""
    nodes, parents = np.array(rows, dtype=int).reshape(-1, 2).T
    numbers, of = np.arange(len(nodes)), parents - WORLD
    first, last = np.zeros((2, of.max(initial=0) + 1), dtype=int)
    last[of], first[of[::-1]] = numbers, numbers[::-1]
    found: Array = (last[of] != numbers) * SiblingFlags.BEFORE.value
    found[first[of] != numbers] |= SiblingFlags.AFTER.value
    apart = np.append(True, nodes[:-1] != parents[1:])[: len(nodes)]
    found[np.isin(nodes, parents[apart])] |= SiblingFlags.LATER_CHILDREN.value
    return found


class LoopCarried(NamedTuple):
    """What the nodes of a sweep pass to each other: components of fields, or their offsets in records."""

    #: Position in a row of the node whose fields a pass may take from the one before it: its own towards the base, its
    #: parent's towards the tips. It gives fields of the other.
    source: int
    values: frozenset[Any]  # what is carried
    dead_after: frozenset[Any]  # those of them that nothing else reads: not after the sweep, nor other roles in it
    sums: frozenset[Any]  # those of them that are sums that start at −0


NOTHING = LoopCarried(0, frozenset(), frozenset(), frozenset())


def carried(program: Program) -> dict[TreeLoop, LoopCarried]:
    """What each sweep of a fused program carries, as components of fields."""
    found = {}
    accesses = [_Accesses(item) for item in program.top.items]
    for time, loop in enumerate(program.top.items):
        if isinstance(loop, TreeLoop) and sweep_direction(loop):
            read_later = set[Component]().union(*(later.loaded for later in accesses[time + 1 :]))
            made = _carried(loop, accesses[time], read_later, program.deferred)
            if 0 < len(made.values) <= len(made.sums) + _MOST:
                found[loop] = made
    return found


class _Accesses:
    """Accesses of an outermost item to fields."""

    def __init__(self, outermost: Item) -> None:
        accesses = field_accesses(outermost)
        self.loads = [(component, role, item) for component, role, item in accesses if isinstance(item, Op)]
        self.stores = [(component, role, item) for component, role, item in accesses if isinstance(item, Store)]
        self.loaded = {component for component, _, _ in self.loads}


def _carried(
    loop: TreeLoop, now: _Accesses, read_later: set[Component], deferred: Mapping[Component, set[str]]
) -> LoopCarried:
    source = int(sweep_direction(loop) == "outward")
    givers = [
        _Giver(body, loop.roles[variant][1 - source], now)
        for variant, body in loop.bodies.items()
        if loop.roles[variant][1 - source].classes != (WORLD_CLASS,)
    ]
    candidates = {component for giver in givers for component in giver.stores}
    if not candidates:
        return NOTHING
    takers = {roles[source] for roles in loop.roles.values()}
    candidates &= {component for component, role, _ in now.loads if role in takers}
    dead_after = candidates - read_later
    if source:
        dead_after -= {component for component, role, _ in now.loads if role not in takers}
    sums = {
        component for component in dead_after if not source and all(giver.adds(component, deferred) for giver in givers)
    }
    # what some nodes do not give is not carried, unless it is a sum, to which they add nothing
    values = {component for component in candidates if all(component in giver.stores for giver in givers)} | sums
    if not all(values & giver.stores.keys() for giver in givers):
        values = set()
    return LoopCarried(source, *map(frozenset, (values, dead_after & values, sums & values)))


def register_only(program: Program, found: dict[TreeLoop, LoopCarried]) -> set[Component]:
    """Components that are in memory only at nodes with `SiblingFlags.LATER_CHILDREN`, given what sweeps carry."""
    sums = {component for one in found.values() for component in one.sums}
    passed = {component for one in found.values() if one.source for component in one.dead_after} | sums
    for item in program.top.items:
        one = found.get(item, NOTHING) if isinstance(item, TreeLoop) else NOTHING
        here, accesses = one.dead_after if one.source else one.sums, _Accesses(item)
        stores = [store for store in accesses.stores if store[0] not in sums]  # their starts are not stored
        for component, role, _ in (*accesses.loads, *stores):
            if component not in here and role.classes != (WORLD_CLASS,):
                passed.discard(component)
    return passed


class _Giver:
    """A body that gives fields of a role."""

    def __init__(self, body: CodeBlock, role: Role, accesses: _Accesses) -> None:
        self.role, self._items = role, body.items
        loads = [(component, op) for component, owner, op in accesses.loads if owner is role]
        stores = [(component, store) for component, owner, store in accesses.stores if owner is role]
        self.loads, self.stores = dict(loads), dict(stores)
        self.accesses = Counter(component for component, _ in (*loads, *stores))

    @cached_property
    def uses(self) -> Counter[int]:
        """How often each op is used, by its identity."""
        return Counter(id(a) for item in self._items for a in needed(item))

    def adds(self, component: Component, deferred: Mapping[Component, set[str]]) -> bool:
        """Whether a component starts at −0, and the body adds a term to it once, or leaves it alone."""
        if not deferred.get(component, set()).issuperset(self.role.classes):
            return False
        if component not in self.stores:
            return component not in self.loads
        load, total = self.loads.get(component), self.stores[component].value
        if load is None or self.accesses[component] != 2 or term(total, load) is None:
            return False
        return self.uses[id(load)] == self.uses[id(total)] == 1


def term(total: Op, load: Op) -> tuple[str, tuple[Op, ...]] | None:
    """What a total adds to what was loaded; None if it is no such sum.

    It is given by code and arguments of an operation, without a code if it is an op itself.
    """
    if total.code == "add" and load in total.args:
        return "", tuple(a for a in total.args if a is not load)
    if total.code == "sub" and total.args[0] is load:
        return "neg", total.args[1:]
    return ("mul", total.args[:2]) if total.code == "fma" and total.args[2] is load else None
