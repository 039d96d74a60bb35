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

from typing import Any

import numpy as np

from kinetree.engines import groups
from kinetree.engines.angles import ANGLES
from kinetree.engines.groups import LANES
from kinetree.engines.layout import Tables
from kinetree.engines.rounds import homes, rounds_of
from kinetree.engines.sweeps import CONSTANTS, FRAMES, OWN_RECORD, PARENT_RECORD, TABLE
from kinetree.recursion.loops import LOOPS
from kinetree.recursion.variants import WORLD_CLASS
from kinetree.spatial.value import Array

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
        if not groups.may_pay(setup.topology, groups.WORTH):
            return None
        table: Any = LOOPS[TABLE]
        numbers = {variant: number for number, variant in enumerate(table.cases(tables.variants))}
        variants = np.array([numbers[variant] for variant in table.variants(setup, table.rows(setup))], dtype=np.int64)
        members = np.array(groups.grouped(setup.topology, tuple(variants.tolist())), dtype=np.int64)
        frames = len(setup.sites)
        single = _cost(metadata, variants, 1) + metadata["frame"] * frames
        if metadata["adds"]:  # the table of frames has a row for each lane of a carrier
            carriers = np.array([site.node for site in setup.sites], dtype=np.int64)
            frames = int(np.append(np.bincount(members.reshape(-1)), LANES)[carriers].sum())
        together = _cost(metadata, variants[members[:, 0]], _SCATTERED) + metadata["frame"] * frames
        return cls(tables, metadata, members, together / single) if together < groups.WORTH * single else None

    def packed(self, first_constant: int) -> tuple[Array, Array]:
        """All tables in one array, preceded by a head of sizes; and the constants of nodes, interleaved.

        Args:
            first_constant: Where the constants will start among those of the mechanism, a multiple of `LANES`.
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
    """The position of each column in a row of the table of nodes, and the length of a row.

    Args:
        metadata: Of the program (`kinetree.engines.sweeps.Sweeps.metadata`).
    """
    uniform = list(dict.fromkeys([*_UNIFORM, *metadata["uniform"]]))
    each = [*metadata["each"], PARENT_LANE]
    starts = np.cumsum([0, *[1] * len(uniform), *[LANES] * len(each)]).tolist()
    return dict(zip((*uniform, *each), starts, strict=False)), starts[-1]
