"""Node lanes: the nodes of one sample that are computed at once, one per lane, and their tables.

A kernel for batches computes one node of W samples at a time; this one computes a group of W nodes of one sample. It is
printed from the same lowered program (`kinetree.compiler.llvm.node_lanes`), so every node's numbers come from the same
operations. Nodes of a group share a variant, so that one loop body serves them all. A node's group comes after that of
its parent, and not before that of an earlier sibling. Visited backwards, siblings therefore add to their parent in the
same order as one node at a time, and sums have the same bits. Finding the fewest groups is the scheduling of a tree on
machines that can only do equal jobs at a time; the highest nodes first, those with the longest way to a tip, is the
usual rule.

What differs from batches is memory. A record holds the fields of a group, and

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

from enum import IntEnum
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from kinetree.compiler.lower.layout import Tables
from kinetree.compiler.lower.node_sweeps import CONSTANTS, FRAMES, OWN_RECORD, PARENT_RECORD, TABLE
from kinetree.compiler.passes.hoist import ANGLES
from kinetree.language.loops import LOOPS
from kinetree.language.mechanism import WORLD, Topology
from kinetree.language.setup import WORLD_CLASS
from kinetree.spatial.value import Array

#: Nodes per group. Wider groups are rarely full, and cost twice as much on processors with registers of four numbers.
LANES = 4

#: Groups must cost at most this fraction of single nodes.
WORTH = 0.8
#: It would take too long to find groups of more nodes in this way.
MOST_NODES = 20_000

Group = tuple[int, ...]


def may_pay(topology: Topology, worth: float = WORTH) -> bool:
    """Whether groups of a tree can be worthwhile: the longest way to a tip takes as many groups as it has nodes."""
    return 0 < max(topology.depths, default=0) <= worth * len(topology) and len(topology) <= MOST_NODES


@lru_cache(maxsize=32)
def grouped(topology: Topology, variants: tuple[int, ...]) -> list[Group]:
    """Partition a tree into groups, given the variant of each node.

    Returns the nodes in the lanes of each group. Lanes that are left over repeat nodes of the group.
    """
    heights, leaves = _heights_and_leaves(topology)
    # a node waits for its earlier siblings, so it is as urgent as the highest of those that wait for it
    urgency = list(heights)
    following = [WORLD] * len(topology)
    for children in topology.children:
        for before, after in zip(reversed(children[:-1]), reversed(children[1:]), strict=True):
            urgency[before] = max(urgency[before], urgency[after])
            following[before] = after

    groups: list[Group] = []
    home: dict[int, int] = {WORLD: 0}
    ready: dict[int, list[tuple[int, int, int]]] = {}

    def release(node: int) -> None:
        # equally urgent ones whose parents are in the same group stay together
        place = -urgency[node], -home[topology.parents[node]], node
        heappush(ready.setdefault(variants[node], []), place)

    for first in topology.children[WORLD][:1]:
        release(first)
    while any(ready.values()):
        waiting = min((heap[0][0], -len(heap), variant) for variant, heap in ready.items() if heap)[-1]
        chosen: list[int] = []
        while ready[waiting] and len(chosen) < LANES:
            chosen.append(heappop(ready[waiting])[-1])
            if following[chosen[-1]] != WORLD:
                release(following[chosen[-1]])
        for node in chosen:
            home[node] = len(groups)
            for first in topology.children[node][:1]:
                release(first)
        groups.append(_placed(chosen, topology, groups, home, leaves))
    return groups


def _heights_and_leaves(topology: Topology) -> tuple[list[int], list[int]]:
    """For each node, the number of nodes on the way to its farthest tip, and the number of its tips."""
    heights, leaves = [1] * len(topology), [0] * len(topology)
    for node in reversed(range(len(topology))):
        leaves[node] = leaves[node] or 1
        parent = topology.parents[node]
        if parent != WORLD:
            heights[parent] = max(heights[parent], heights[node] + 1)
            leaves[parent] += leaves[node]
    return heights, leaves


def _placed(
    nodes: list[int], topology: Topology, groups: list[Group], home: dict[int, int], leaves: list[int]
) -> Group:
    """Assign nodes to lanes: where possible to that of the parent, whose fields are then loaded as a vector.

    Lanes that are left over repeat the node with the most tips per lane, whose children will need them.
    """
    parents = [topology.parents[node] for node in nodes]
    homes = [home[parent] for parent in parents if parent != WORLD]
    above = groups[max(set(homes), key=lambda g: (homes.count(g), g))] if homes else (WORLD,) * LANES
    lanes: list[int | None] = [None] * LANES
    left = []
    for node, parent in zip(nodes, parents, strict=True):
        free = [lane for lane in range(LANES) if lanes[lane] is None and above[lane] == parent]
        if free:
            lanes[free[0]] = node
        else:
            left.append(node)
    for node in left:
        lanes[lanes.index(None)] = node
    while None in lanes:
        lane = lanes.index(None)
        fitting = [node for node, parent in zip(nodes, parents, strict=True) if parent == above[lane]] or nodes
        lanes[lane] = max(fitting, key=lambda node: leaves[node] / lanes.count(node))
    return tuple(node for node in lanes if node is not None)


class Parents(IntEnum):
    """How the parents of a group are arranged."""

    PASSED = 0  # as IN_LANE, in the group directly before this one, to which no other group adds
    IN_LANE = 1  # each in the lane of its only child in the group
    SHARED = 2  # each in the lanes of its children, of which there may be several
    SCATTERED = 3  # anywhere


class Rounds(NamedTuple):
    """The parents of n groups, and m rounds. The world is a group after all others."""

    arrangement: Array  # for each group, how its parents are arranged (`Parents`)
    groups: Array  # the groups of the parents of its nodes, (n, LANES)
    lanes: Array  # their lanes there, (n, LANES)
    first: Array  # the first of its rounds
    last: Array  # the end of its rounds
    added: Array  # for each round, the group that is added to
    sources: Array  # for each of that group's lanes, the lane of the child that adds to it, (m, LANES)
    taking: Array  # whether there is one, (m, LANES)

    @property
    def is_scattered(self) -> Array:
        """For each group, whether its parents are anywhere."""
        found: Array = self.arrangement == Parents.SCATTERED
        return found


def rounds_of(members: Array, parents: Array) -> Rounds:
    """The rounds of a tree, given the nodes of all groups, (n, LANES), and the parent of each node."""
    count, numbers = len(members), np.arange(len(members))
    every = np.append(members, np.full((1, LANES), WORLD), axis=0)
    group_of, lane_of = homes(members, len(parents))
    above = np.append(parents, WORLD)[members]
    groups, lanes = group_of[above], lane_of[above]

    in_lane = np.all(every[groups[:, 0]] == above, axis=1)
    # each child takes part in a round: one for each group of parents, and each child of the same parent, the last first
    child, lane = np.nonzero(lane_of[members] == np.arange(LANES))
    one, others = members[child, lane, None], members[child]
    siblings = (above[child] == above[child, lane, None]) & (lane_of[others] == np.arange(LANES))
    turn = np.count_nonzero(siblings & (others > one), axis=1)
    which = np.argmax(groups[child] == groups[child, lane, None], axis=1)
    keys, at, number = np.unique((child * LANES + which) * LANES + turn, return_index=True, return_inverse=True)
    added = groups[child, lane][at]
    sources, taking = np.zeros((2, len(keys), LANES), dtype=np.int64)
    for place in range(LANES):
        takes = every[groups[child, lane], place] == above[child, lane]
        sources[number[takes], place], taking[number[takes], place] = lane[takes], 1
    first, last = (np.searchsorted(keys, (numbers + i) * LANES**2) for i in range(2))

    arrangement = np.where(in_lane, np.where(last - first > 1, Parents.SHARED, Parents.IN_LANE), Parents.SCATTERED)
    alone = np.bincount(added, minlength=count + 1)[groups[:, 0]] == 1
    passed = (arrangement == Parents.IN_LANE) & alone & (groups[:, 0] == numbers - 1)
    arrangement[passed] = Parents.PASSED
    return Rounds(arrangement, groups, lanes, first, last, added, sources, taking)


def homes(members: Array, count: int) -> tuple[Array, Array]:
    """For each node, and for the world at the end, its group and its first lane there."""
    group_of, lane_of = np.zeros((2, count + 1), dtype=np.int64)
    group_of[WORLD] = len(members)
    for lane in reversed(range(LANES)):
        group_of[members[:, lane]], lane_of[members[:, lane]] = np.arange(len(members)), lane
    return group_of, lane_of


#: Words of a round: the record that is added to, then for each of its lanes the child's lane and whether there is one.
ROUND_WORDS = 1 + 2 * LANES
#: Columns with the place of each lane's parent in its record.
PARENT_LANE = "parent's lane"
#: Columns that every table has.
_UNIFORM = "variant", OWN_RECORD, PARENT_RECORD, "parents", "first round", "last round"
#: An access in each lane of its own takes a load for each and their insertion into a vector.
_SCATTERED = 8


class LaneTables:
    """All data of one mechanism that a kernel with nodes in its lanes reads.

    Args:
        tables: The data for kernels that compute one node at a time.
        metadata: Of the program (`Sweeps.metadata`).
        members: The nodes in the lanes of the mechanism's groups, (n, LANES).
        cost: What they cost, as a fraction of what single nodes do.
    """

    def __init__(self, tables: Tables, metadata: dict[str, Any], members: Array, cost: float) -> None:
        self._tables, self._metadata, self._members, self.cost = tables, metadata, members, cost
        self._group_of, self._lane_of = homes(members, len(tables.setup.nodes))
        lengths = tables.metadata["records"]
        starts = np.cumsum(np.append(lengths[WORLD_CLASS], tables.lengths("records")[members[:, 0]]))
        # where the record of each group is, and of the world
        self._records = np.append(starts[:-1], 0)
        self._collected = int(starts[-1])
        self._slots = self._collected + max(lengths.values())
        #: Length of the scratch memory.
        self.workspace: int = LANES * (self._slots + metadata["slots"])

    @classmethod
    def of(cls, tables: Tables) -> LaneTables | None:
        """The tables of a mechanism; None if single nodes are expected to be as fast."""
        metadata, setup = tables.metadata["sweeps"], tables.setup
        if metadata is None or len(setup.nodes) < len(setup.mechanism.kinds):
            return None
        if not may_pay(setup.topology, WORTH):
            return None
        table: Any = LOOPS[TABLE]
        numbers = {variant: number for number, variant in enumerate(table.cases(tables.variants))}
        variants = np.array([numbers[variant] for variant in table.variants(setup, table.rows(setup))], dtype=np.int64)
        members = np.array(grouped(setup.topology, tuple(variants.tolist())), dtype=np.int64)
        frames = len(setup.sites)
        single = _cost(metadata, variants, 1) + metadata["frame"] * frames
        if metadata["adds"]:  # the table of frames has a row for each lane of a carrier
            carriers = np.array([site.node for site in setup.sites], dtype=np.int64)
            frames = int(np.append(np.bincount(members.reshape(-1)), LANES)[carriers].sum())
        together = _cost(metadata, variants[members[:, 0]], _SCATTERED) + metadata["frame"] * frames
        return cls(tables, metadata, members, together / single) if together < WORTH * single else None

    def packed(self, first_constant: int) -> tuple[Array, Array]:
        """All tables in one array, preceded by a head of sizes; and the constants of nodes, interleaved.

        Among those of the mechanism, these will start at `first_constant`, a multiple of `LANES`.
        """
        members, cells = self._members, self._tables.cells(TABLE)
        columns: dict[str, Any] = {n: cells[members, i] for i, n in enumerate(self._tables.metadata["tables"][TABLE])}
        columns["variant"] = columns["variant"][:, 0] if "variant" in columns else np.zeros(len(members))
        constants, starts = self._constants(first_constant // LANES)
        columns |= {CONSTANTS: starts} if CONSTANTS in self._metadata["uniform"] else {}  # unless they are an input
        related, rounds = self._rounds()
        columns |= related
        nodes = np.concatenate(
            [np.reshape(columns[name], (len(members), -1)) for name in column_places(self._metadata)[0]],
            axis=1,
        )
        frames = self._frames() if FRAMES in self._tables.metadata["tables"] else np.zeros((0, 0))
        tables = {f"table {TABLE}": nodes, f"table {FRAMES}": frames, "rounds": rounds}
        head = head_names(self._tables.metadata["head"])
        ends = np.cumsum([len(head), *(table.size for table in tables.values())]).tolist()
        own = dict(zip(tables, ends, strict=False)) | {"slots": self._slots}
        own |= {f"count {TABLE}": len(nodes), f"count {FRAMES}": len(frames)}
        values = [own[name] if name in own else self._tables.head(name) for name in head]
        parts = [np.array(values), *tables.values()]
        return np.concatenate([part.astype(np.int64).reshape(-1) for part in parts]), constants

    def _frames(self) -> Array:
        """The table of frames, with a row for each lane of the carrier if something is added to it."""
        names, sites = self._tables.metadata["tables"][FRAMES], self._tables.setup.sites
        rows = []
        for site, cells in zip(sites, self._tables.cells(FRAMES).tolist(), strict=True):
            group = self._group_of[site.node]
            lanes = np.flatnonzero(self._members[group] == site.node) if group < len(self._members) else range(LANES)
            for lane in lanes if self._metadata["adds"] else lanes[:1]:
                place = LANES * self._records[group] + lane
                columns = dict(zip(names, cells, strict=True)) | {PARENT_RECORD: place}
                rows.append([columns[name] for name in names])
        return np.array(rows, dtype=np.int64).reshape(-1, len(names))

    def _rounds(self) -> tuple[dict[str, Array], Array]:
        """Columns with the memory of groups and their parents, and rounds; and the table of rounds."""
        parents = np.array(self._tables.setup.topology.parents, dtype=np.int64)
        found = rounds_of(self._members, parents)
        columns = {"parents": found.arrangement, "first round": found.first, "last round": found.last}
        columns[OWN_RECORD] = self._records[:-1]
        columns[PARENT_RECORD] = np.where(found.is_scattered, self._collected, self._records[found.groups[:, 0]])
        columns[PARENT_LANE] = LANES * self._records[found.groups] + found.lanes
        return columns, np.column_stack([self._records[found.added], found.sources, found.taking])

    def _constants(self, first: int) -> tuple[Array, Array]:
        """The constants of groups, interleaved, and where those of each start, in vectors; equal groups share them."""
        parameters = self._tables.setup.mechanism.parameters
        starts = np.array(self._tables.node_constants, dtype=np.int64)[self._members]
        lengths = [len(parameters[node]) for node in self._members[:, 0].tolist()]  # of nodes without any, 0
        alike = np.column_stack([starts, lengths])
        _, which, same = np.unique(alike, axis=0, return_index=True, return_inverse=True)
        parts = [np.array([parameters[node] for node in group]).T for group in self._members[which].tolist()]
        places = np.cumsum([first, *map(len, parts)])
        return np.concatenate([np.zeros(0), *(part.reshape(-1) for part in parts)]), places[same.reshape(-1)]


def _cost(metadata: dict[str, Any], variants: Array, access: int) -> float:
    """The cost of nodes or groups in all loops, given that of an access to an input or output."""
    total = 0.0
    for variant, count in enumerate(np.bincount(variants).tolist()):
        found = [metadata["costs"].get(key, (0, 0)) for key in ("all", str(variant))]
        total += count * sum(arithmetic + access * accesses for arithmetic, accesses in found)
    return total


def head_names(names: list[str]) -> list[str]:
    """Names of the numbers at the head of the tables, given those of a kernel for one node at a time."""
    return [*(name for name in names if name not in ("node lanes", *ANGLES)), "rounds", "slots"]


def column_places(metadata: dict[str, Any]) -> tuple[dict[str, int], int]:
    """The position of each column in a row of the table of nodes, and the length of a row (of `Sweeps.metadata`)."""
    uniform = list(dict.fromkeys([*_UNIFORM, *metadata["uniform"]]))
    each = [*metadata["each"], PARENT_LANE]
    starts = np.cumsum([0, *[1] * len(uniform), *[LANES] * len(each)]).tolist()
    return dict(zip((*uniform, *each), starts, strict=False)), starts[-1]
