"""Where compiled code finds things: records of nodes, index tables, constants.

The workspace holds one record per node (the world's first), then the tree's arrays. Code depends on the layout of a
record, but not on the number of nodes: everything that does is in the tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinetree.engines.ir import ArrayEntry, Block, Field, Loop, Op, Program, Store, walk
from kinetree.engines.variants import WORLD_CLASS, Variants, frame_variant, loop_variants, port_of, relative_variant
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.rows import Rows
from kinetree.recursion.stations import Stations
from kinetree.recursion.topology import WORLD
from kinetree.spatial.value import Array

# The head of the tables: one number each, then start and length of each list, the start of each input and of each of
# the tree's arrays.
(N_NODES, NQ, NV, N_FRAMES, N_ROWS, N_ASKED, N_PASSING,
 NODE_ROWS, FRAME_ROWS, RUNS, COLUMN_PARENTS, ASKED, GRAVITY,
 V_LINE, ROW_LINE, ASKED_LINE, PASSING_LINE, FRAME_LINE) = range(18)  # fmt: skip
# Rows of lists: the variant, then for each role the place of its node or frame among the rows of nodes or frames, −1
# for the world. Groups of rows have their first row and the one after their last instead.
LIST_ROWS = {
    "meetings": 4,
    "joins": 4,
    "ways_one": 4,
    "ways_other": 4,
    "stations": 3,
    "groups": 3,
    "tasks": 3,
    "relatives": 5,
}
LISTS = {name: 18 + 2 * i for i, name in enumerate(LIST_ROWS)}
INPUTS = 18 + 2 * len(LISTS)
ARRAYS = INPUTS + 8
HEAD = ARRAYS + 32
# One row per node. A range is a start and the column after it.
NODE_COLUMNS = (
    "variant", "record", "parent_record", "param", "q", "v", "node", "parent_node", "depth", "parent_depth",
    "after", "end", "rows", "rows_end", "following_end", "passing", "passing_end", "units",
    "carried_groups", "carried_groups_end", "passing_groups", "passing_groups_end",
)  # fmt: skip
NODE = {name: i for i, name in enumerate(NODE_COLUMNS)}
NODE_ROW = len(NODE_COLUMNS)
# One row per frame.
FRAME_COLUMNS = (
    "variant", "record", "node", "depth", "param", "frame", "support", "support_end",
    "path", "path_end", "row", "rows_end", "asked",
)  # fmt: skip
FRAME = {name: i for i, name in enumerate(FRAME_COLUMNS)}
FRAME_ROW = len(FRAME_COLUMNS)
#: Numbers in a line of an array are a multiple of this: the widest vector.
_LINE = 8
LINES = {"v": V_LINE, "row": ROW_LINE, "rows": ASKED_LINE, "passing": PASSING_LINE, "frames": FRAME_LINE}
_STATION_LOOPS = {"passing_groups", "joins", "scatter_stations", "gather_stations"}


@dataclass(frozen=True)
class Layout:
    """Offsets inside records and arrays, in scalars.

    Attributes:
        fields: Offset of (class of node, field, component).
        records: Length of a record of each class.
        arrays: For each of the tree's arrays, what it is indexed by, and the position of each component that is used.
            Rows of nodes that are only handed from parents to children shrink to one row per depth: nodes come depth
            first, so that a parent's row is intact while its subtree is visited.
        loops: What the program loops over.
    """

    fields: dict[tuple[str, str, int], int]
    records: dict[str, int]
    arrays: list[tuple[tuple[str, ...], dict[int, int]]]
    loops: frozenset[str]

    @classmethod
    def of(cls, program: Program, variants: Variants) -> Layout:
        """Lay out what a program uses. Fields seen through roles of several classes have one offset in all of them."""
        shared: dict[tuple[str, ...], dict[tuple[str, int], None]] = {}
        used: dict[str, dict[tuple[str, int], None]] = {}
        arrays: list[tuple[tuple[str, ...], dict[int, int]]] = [
            (("depth", over[1]) if "node" in over and _handed_down(program, number) else over, {})
            for number, (over, _) in enumerate(program.arrays)
        ]
        for place in _places(program):
            if isinstance(place, Field):
                for name in place.role.classes:
                    used.setdefault(name, {})[place.name, place.component] = None
                if place.role.name != "k":
                    shared.setdefault(place.role.classes, {})[place.name, place.component] = None
            elif isinstance(place, ArrayEntry):
                positions = arrays[place.number][1]
                positions.setdefault(place.component, len(positions))
        fields: dict[tuple[str, str, int], int] = {}
        records: dict[str, int] = {}
        for classes, components in shared.items():
            for offset, (name, component) in enumerate(components):
                for c in classes:
                    fields[c, name, component] = offset
        for c in (WORLD_CLASS, *dict.fromkeys(kind.name for kind, _ in variants.nodes)):
            size = sum(1 for key in fields if key[0] == c)
            for name, component in used.get(c, {}):
                if (c, name, component) not in fields:
                    fields[c, name, component] = size
                    size += 1
            records[c] = size
        return cls(
            fields, records, arrays, frozenset(item.source for _, item in walk(program.top) if isinstance(item, Loop))
        )

    def metadata(self) -> dict[str, Any]:
        """What binding needs, fit for JSON."""
        arrays = [[list(over), len(positions)] for over, positions in self.arrays]
        return {"records": self.records, "arrays": arrays, "loops": sorted(self.loops)}


def _handed_down(program: Program, number: int) -> bool:
    """Whether rows of nodes are set and read in one scatter loop only, through k and its parent."""
    loops = [
        item
        for item in program.top.items
        if isinstance(item, Loop) and any(_row(place, number) not in (None, WORLD_CLASS) for place in _places_in(item))
    ]
    return [loop.source for loop in loops] == ["scatter"]


def _row(place: Any, number: int) -> str | None:
    """The name of the role that chooses the row of an array entry."""
    if not isinstance(place, ArrayEntry) or place.number != number:
        return None
    base = place.at[0][0]
    return str(base.role.name)


def _places_in(loop: Loop) -> Any:
    for body in loop.bodies.values():
        yield from _places_of(body)


def _places(program: Program) -> Any:
    return _places_of(program.top)


def _places_of(block: Block) -> Any:
    for _, item in walk(block):
        if isinstance(item, Store):
            yield item.place
        elif isinstance(item, Op) and item.code == "load":
            yield item.attr


def tables(
    algorithm: Algorithm, variants: Variants, mechanism: Mechanism, sites: Sequence[Site], metadata: dict[str, Any]
) -> tuple[Array, Array, int]:
    """Everything that compiled code needs to know of one mechanism.

    Loops over an algorithm with frames visit only the nodes that carry them, if its outputs depend on nothing else.

    Returns:
        Constants (float64), index tables (int64), and the length of the workspace in scalars.
    """
    records, loops = metadata["records"], metadata["loops"]
    ids = {(kind.name, parent): i for i, (kind, parent) in enumerate(variants.nodes)}
    carriers = {variant: i for i, variant in enumerate(variants.frames)}
    order = Rows(mechanism, sites)
    asked = _STATION_LOOPS.intersection(loops)
    stations = Stations(mechanism, order if asked else Rows(mechanism, ()))
    starts, topology, depths = mechanism.v_starts, mechanism.topology, mechanism.topology.depths
    sizes = algorithm.sizes(mechanism, sites)
    lengths = {"node": len(mechanism.kinds) + 1, "depth": max(depths, default=0) + 1, "row": order.count, **sizes}
    lengths["passing"] = stations.count
    # Lines of arrays start at multiples of the widest vector, so that loops over all columns or rows load aligned ones.
    lines = {dimension: _LINE * -(-lengths[dimension] // _LINE) for dimension in LINES}

    record = records[WORLD_CLASS]
    record_of = {WORLD: 0}
    visited = algorithm.visited(mechanism, sites)
    for k in visited:
        record_of[k] = record
        record += records[mechanism.kinds[k].name]
    param_of = np.concatenate([[0], np.cumsum([len(p) for p in mechanism.parameters], dtype=np.int64)])

    rows = np.zeros((len(visited), NODE_ROW), dtype=np.int64)
    for row, k in zip(rows, visited, strict=True):
        parent = mechanism.parents[k]
        row[:] = (
            ids[mechanism.kinds[k].name, port_of(mechanism, parent)],
            record_of[k],
            record_of[parent],
            param_of[k],
            mechanism.q_starts[k],
            starts[k],
            k + 1,
            parent + 1,
            depths[k],
            depths[parent] if parent != WORLD else 0,
            starts[k + 1],
            starts[topology.subtree_end(k)],
            order.carried(k).start,
            order.carried(k).stop,
            order.following(k).stop,
            stations.passing(k).start,
            stations.passing(k).stop,
            stations.units(k) if k in stations.nodes else 0,
            order.carried_groups(k).start,
            order.carried_groups(k).stop,
            stations.passing_groups(k).start,
            stations.passing_groups(k).stop,
        )
    runs: list[int] = []
    frame_rows = np.zeros((len(sites), FRAME_ROW), dtype=np.int64)
    n_params = int(param_of[-1])
    for i, (row, site) in enumerate(zip(frame_rows, sites, strict=True)):
        support = len(runs)
        runs += _runs(order.support(i) if "support" in loops else (), starts)
        path = len(runs)
        runs += _runs(order.path(i) if "path" in loops else (), starts)
        row[:] = (
            carriers[frame_variant(mechanism, site)],
            record_of[site.node],
            site.node + 1,
            depths[site.node] if site.node != WORLD else 0,
            n_params + 3 + 12 * i,
            i,
            support,
            path,
            path,
            len(runs),
            order.of(i).start,
            order.of(i).stop,
            order.asked[i],
        )
    lists = _lists(variants, mechanism, sites, order, stations, loops, {k: i for i, k in enumerate(visited)})

    head = np.zeros(HEAD, dtype=np.int64)
    head[[N_NODES, NQ, NV, N_FRAMES]] = len(visited), mechanism.nq, mechanism.nv, len(sites)
    head[[N_ROWS, N_ASKED, N_PASSING]] = order.count, order.places_count, stations.count
    parents = mechanism.column_parents if "ancestors" in loops else ()
    parts = [rows.reshape(-1), frame_rows.reshape(-1), *(list_rows.reshape(-1) for list_rows in lists.values())]
    parts += [np.array(numbers, dtype=np.int64) for numbers in (order.places, runs, parents)]
    starts_of_parts = HEAD + np.cumsum([0, *(part.size for part in parts[:-1])])
    list_starts = [LISTS[name] for name in lists]
    head[[NODE_ROWS, FRAME_ROWS, *list_starts, ASKED, RUNS, COLUMN_PARENTS]] = starts_of_parts
    head[[start + 1 for start in list_starts]] = [len(list_rows) for list_rows in lists.values()]
    head[GRAVITY] = n_params
    head[[*LINES.values()]] = [lines[dimension] for dimension in LINES]
    position = 0
    for i, argument in enumerate(algorithm.inputs):
        head[INPUTS + i] = position
        position += int(np.prod(argument.shape(sizes), dtype=np.int64))
    for i, (over, count) in enumerate(metadata["arrays"]):
        head[ARRAYS + i] = record = _LINE * -(-record // _LINE)
        record += count * math.prod(lengths[dimension] for dimension in over[:-1]) * lines[over[-1]]
    constants = np.concatenate([mechanism.total_parameters, mechanism.gravity, *(site.placement for site in sites)])
    table = np.concatenate([head, *parts])
    return np.ascontiguousarray(constants, dtype=np.float64), table, int(record)


def _runs(nodes: Sequence[int], starts: Sequence[int]) -> list[int]:
    """Runs of neighbouring columns: the start of each, and the column after it."""
    runs: list[int] = []
    for k in nodes:
        if runs and runs[-1] == starts[k]:
            runs.pop()
        else:
            runs.append(starts[k])
        runs.append(starts[k + 1])
    return runs


def _lists(
    variants: Variants,
    mechanism: Mechanism,
    sites: Sequence[Site],
    order: Rows,
    stations: Stations,
    loops: Sequence[str],
    places: dict[int, int],
) -> dict[str, Array]:
    """The lists that a program loops over; those that it does not are empty."""

    def filled(name: str, cases: Callable[[], Iterable[tuple[tuple[Any, ...], tuple[int, ...]]]]) -> Array:
        numbers = {variant: i for i, variant in enumerate(loop_variants(name, variants))}
        wanted = name in loops or any(loop.endswith(name) for loop in loops)
        listed = [(numbers[variant], *who) for variant, who in cases()] if wanted else []
        return np.array(listed, dtype=np.int64).reshape(len(listed), LIST_ROWS[name])

    def port(node: int) -> str:
        return port_of(mechanism, node)

    def way(to: str) -> Iterable[tuple[tuple[str, ...], tuple[int, ...]]]:
        return (((mechanism.kinds[k].name,), (places[k], one, other)) for k, one, other in order.ways(to))

    def ends() -> Iterable[tuple[tuple[Any, ...], tuple[int, ...]]]:
        for i, j in order.relatives:
            who = i, places.get(sites[i].node, -1), j, places.get(sites[j].node, -1)
            yield relative_variant(mechanism, sites[i], sites[j]), who

    above = [(k, stations.above(k)) for k in stations.nodes]
    groups = stations.groups or order.groups  # without stations, those of the tasks
    return {
        "meetings": filled("meetings", lambda: (((port(k),), (places[k], i, j)) for k, i, j in order.meetings)),
        "joins": filled("joins", lambda: (((port(k),), (places[k], i, j)) for k, i, j in stations.joins)),
        "relatives": filled("relatives", ends),
        "ways_one": filled("ways_one", lambda: way("one")),
        "ways_other": filled("ways_other", lambda: way("other")),
        "groups": filled("groups", lambda: (((len(rows),), (rows.start, rows.stop)) for rows in groups)),
        "tasks": filled("tasks", lambda: (((len(rows),), (rows.start, rows.stop)) for rows in order.tasks)),
        "stations": filled(
            "stations", lambda: (((port(k), port(a)), (places[k], places.get(a, -1))) for k, a in above)
        ),
    }
