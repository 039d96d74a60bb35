"""The tables of a single sample with a node in each lane.

A kernel for batches computes one node of W samples at a time; this one computes W nodes of one sample. It is printed
from the same lowered program (`kinetree.engines.llvm.node_lanes`), so every node's numbers come from the same
operations. What differs is memory: a record holds the fields of a group of nodes (`kinetree.engines.groups`), and

    reading a parent     is a vector load if each lane's parent is in the same lane of one group; otherwise the parents'
                         fields are first collected in a record of their own
    adding to a parent   happens in rounds, last child first, in each of which a lane of a group of parents takes the
                         terms of one child or stays as it is
    inputs and outputs   remain in the user's order; each lane has its own index
    loops over frames    compute one frame at a time, on one lane of its carrier; if they add to it, then again for each
                         lane that repeats it

The world is a group of its own, with the same numbers in all lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import chain
from typing import Any

import numpy as np

from kinetree.engines import groups
from kinetree.engines.angles import ANGLES
from kinetree.engines.groups import LANES, Group
from kinetree.engines.layout import Tables
from kinetree.engines.subtrees import SUBTREES
from kinetree.engines.sweeps import CONSTANTS, FRAMES, OWN_RECORD, PARENT_RECORD, TABLE
from kinetree.recursion.loops import LOOPS
from kinetree.recursion.mechanism import Site
from kinetree.recursion.topology import WORLD
from kinetree.recursion.variants import WORLD_CLASS
from kinetree.spatial.value import Array

#: Words of a round: the record that is added to, then for each of its lanes the child's lane and whether there is one.
ROUND_WORDS = 1 + 2 * LANES
#: Columns that every table has, with a number for all lanes together, or for each.
_UNIFORM, _EACH = ("variant", OWN_RECORD, PARENT_RECORD, "parents", "first round", "last round"), ("parent's lane",)
#: An access in each lane of its own takes a load for each and their insertion into a vector.
_SCATTERED = 8


class Parents(IntEnum):
    """How the parents of a group are arranged."""

    PASSED = 0  # as IN_LANE, in the group directly before this one, to which no other group adds
    IN_LANE = 1  # each in the lane of its only child in the group
    SHARED = 2  # each in the lanes of its children, of which there may be several
    SCATTERED = 3  # anywhere


class LaneTables:
    """All data of one mechanism that a kernel with nodes in its lanes reads.

    Args:
        tables: The data for kernels that compute one node at a time.
        metadata: Of the program (`Sweeps.metadata`).
        members: The mechanism's groups.
        cost: What they cost, as a fraction of what single nodes do.
    """

    def __init__(self, tables: Tables, metadata: dict[str, Any], members: list[Group], cost: float) -> None:
        self._tables, self._metadata, self._groups, self.cost = tables, metadata, members, cost
        setup, lengths = tables.setup, tables.metadata["records"]
        kinds = setup.mechanism.kinds
        starts = np.cumsum([lengths[WORLD_CLASS], *(lengths[kinds[group[0]].name] for group in members)])
        #: For each node, its group's record and its lanes.
        self._home = {WORLD: (0, (WORLD,) * LANES)}
        for group, start in zip(members, starts.tolist(), strict=False):
            self._home |= dict.fromkeys(group, (start, group))
        self._collected = int(starts[-1])
        self._slots = self._collected + max(lengths.values())
        #: Length of the scratch memory.
        self.workspace: int = LANES * (self._slots + metadata["slots"])

    @classmethod
    def of(cls, tables: Tables) -> LaneTables | None:
        """The tables of a mechanism; None if single nodes are expected to be as fast."""
        metadata, setup = tables.metadata["sweeps"], tables.setup
        every = len(setup.nodes) == len(setup.mechanism.kinds)
        if metadata is None or not every or not groups.may_pay(setup.topology, groups.WORTH):
            return None
        table: Any = LOOPS[TABLE]
        numbers = {variant: number for number, variant in enumerate(table.cases(tables.variants))}
        variants = tuple(numbers[table.variant(setup, row)] for row in table.rows(setup))
        found = groups.grouped(setup.topology, variants)
        single = sum(_cost(metadata, variant, 1) for variant in variants)
        together = sum(_cost(metadata, variants[group[0]], _SCATTERED) for group in found)
        single += metadata["frame"] * len(setup.sites)
        together += metadata["frame"] * _frame_rows(setup.sites, found, metadata)
        return cls(tables, metadata, found, together / single) if together < groups.WORTH * single else None

    def packed(self, first_constant: int) -> tuple[Array, Array]:
        """All tables in one array, preceded by a head of sizes; and the constants of nodes, interleaved.

        Args:
            first_constant: Where the constants will start among those of the mechanism, a multiple of `LANES`.
        """
        rounds: list[list[int]] = []
        parents = self._passed([self._parents(group, rounds) for group in self._groups], rounds)
        constants, starts = self._constants(first_constant // LANES)
        members, cells = np.array(self._groups), self._tables.cells(TABLE)
        names = self._tables.metadata["tables"][TABLE]
        columns: dict[str, Any] = {name: cells[members, i] for i, name in enumerate(names)}
        columns |= {"variant": columns["variant"][:, 0] if "variant" in columns else np.zeros(len(members))}
        columns |= {OWN_RECORD: [self._home[group[0]][0] for group in self._groups]}
        columns |= {CONSTANTS: starts} if CONSTANTS in self._metadata["uniform"] else {}  # unless they are an input
        columns |= {name: [found[i] for found in parents] for i, name in enumerate(_UNIFORM[2:] + _EACH)}
        ordered = [columns[name] for name in column_places(self._metadata)[0]]
        nodes = np.concatenate([np.reshape(column, (len(members), -1)) for column in ordered], axis=1)
        frames = self._frames() if FRAMES in self._tables.metadata["tables"] else np.zeros((0, 0))

        head = head_names(self._tables.metadata["head"])
        own = {f"count {TABLE}": len(nodes), f"count {FRAMES}": len(frames), "slots": self._slots}
        own |= {f"table {TABLE}": len(head), f"table {FRAMES}": len(head) + nodes.size}
        own["rounds"] = len(head) + nodes.size + frames.size
        values = [own[name] if name in own else self._tables.head(name) for name in head]
        parts = [values, nodes, frames, rounds]
        return np.concatenate([np.array(part, dtype=np.int64).reshape(-1) for part in parts]), constants

    def _frames(self) -> Array:
        """The table of frames, with a row for each lane of the carrier if something is added to it."""
        names, sites = self._tables.metadata["tables"][FRAMES], self._tables.setup.sites
        rows = []
        for site, cells in zip(sites, self._tables.cells(FRAMES).tolist(), strict=True):
            record, group = self._home[site.node]
            lanes = [lane for lane, node in enumerate(group) if node == site.node]
            for lane in lanes if self._metadata["adds"] else lanes[:1]:
                columns = dict(zip(names, cells, strict=True)) | {PARENT_RECORD: LANES * record + lane}
                rows.append([columns[name] for name in names])
        return np.array(rows, dtype=np.int64).reshape(-1, len(names))

    def _parents(self, group: Group, rounds: list[list[int]]) -> tuple[Any, ...]:
        """The parents' record, their arrangement, rounds and lanes; adds rounds to the list."""
        parents = [self._tables.setup.mechanism.parents[node] for node in group]
        arrangement, first = Parents.IN_LANE, len(rounds)
        for record, above in dict.fromkeys(self._home[parent] for parent in parents):
            # children of each of these parents, last first
            children = [sorted({n for n, p in zip(group, parents, strict=True) if p == one})[::-1] for one in above]
            for turn in range(max(map(len, children))):
                taking = [group.index(each[turn]) if turn < len(each) else -1 for each in children]
                rounds.append([record, *(max(lane, 0) for lane in taking), *(int(lane >= 0) for lane in taking)])
            if list(above) != parents:
                arrangement = Parents.SCATTERED
        if arrangement is Parents.IN_LANE and len(rounds) - first > 1:
            arrangement = Parents.SHARED
        record = self._collected if arrangement is Parents.SCATTERED else self._home[parents[0]][0]
        lanes = [LANES * self._home[parent][0] + self._home[parent][1].index(parent) for parent in parents]
        return record, arrangement, first, len(rounds), lanes

    def _passed(self, parents: list[tuple[Any, ...]], rounds: list[list[int]]) -> list[tuple[Any, ...]]:
        """What `_parents` found for each group, with arrangements that depend on other groups."""
        added, before = [record for record, *_ in rounds], 0
        made = []
        for group, (record, arrangement, *rest) in zip(self._groups, parents, strict=True):
            only = arrangement is Parents.IN_LANE and record == before != 0 and added.count(record) == 1
            made.append((record, Parents.PASSED if only else arrangement, *rest))
            before = self._home[group[0]][0]
        return made

    def _constants(self, first: int) -> tuple[Array, list[int]]:
        """The constants of all groups, interleaved, and where those of each start, in vectors."""
        parameters = self._tables.setup.mechanism.parameters
        parts = [np.array([parameters[node] for node in group]).T for group in self._groups]
        starts = np.cumsum([first, *(len(part) for part in parts)]).tolist()
        return np.concatenate([np.zeros(0), *(part.reshape(-1) for part in parts)]), starts[:-1]


def _cost(metadata: dict[str, Any], variant: int, access: int) -> int:
    """The cost of a node or group in all loops, given that of an access to an input or output."""
    found = [metadata["costs"].get(key, (0, 0)) for key in ("all", str(variant))]
    return sum(arithmetic + access * accesses for arithmetic, accesses in found)


def _frame_rows(sites: Sequence[Site], members: list[Group], metadata: dict[str, Any]) -> int:
    """How many rows the table of frames has."""
    if not metadata["adds"]:
        return len(sites)
    lanes = {node: group.count(node) for group in members for node in group}
    return sum(lanes.get(site.node, LANES) for site in sites)


def head_names(names: list[str]) -> list[str]:
    """Names of the numbers at the head of the tables, given those of a kernel for one node at a time."""
    return [*(name for name in names if name not in ("node lanes", *ANGLES, *chain(*SUBTREES))), "rounds", "slots"]


def column_places(metadata: dict[str, Any]) -> tuple[dict[str, int], int]:
    """The position of each column in a row of the table of nodes, and the length of a row.

    Args:
        metadata: Of the program (`kinetree.engines.sweeps.Sweeps.metadata`).
    """
    uniform, each = list(dict.fromkeys([*_UNIFORM, *metadata["uniform"]])), [*metadata["each"], *_EACH]
    starts = np.cumsum([0, *[1] * len(uniform), *[LANES] * len(each)]).tolist()
    return dict(zip((*uniform, *each), starts, strict=False)), starts[-1]
