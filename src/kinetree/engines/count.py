"""The count engine: how many operations an algorithm takes on a mechanism.

Counted is the simplified program, before multiplications and additions are fused: what a careful author would write by
hand for these joints, summed over all rows of all loops. Loads, stores, signs and loop control are free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any

from kinetree.engines.ir import Block, Loop, Op, Program, Role
from kinetree.engines.simplify import simplify
from kinetree.engines.trace import trace
from kinetree.engines.variants import Variants, frame_variant, port_of, relative_variant
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.rows import Rows
from kinetree.recursion.stations import Stations

_COUNTED = {
    "mul": "multiplications",
    "add": "additions",
    "sub": "additions",
    "div": "divisions",
    "sqrt": "square_roots",
}


@dataclass(frozen=True)
class Count:
    """Operations of one evaluation. A sine comes with its cosine and counts once."""

    multiplications: int = 0
    additions: int = 0
    divisions: int = 0
    square_roots: int = 0
    sines: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __mul__(self, times: int) -> Count:
        return Count(*(getattr(self, f.name) * times for f in fields(self)))

    @property
    def total(self) -> int:
        """Multiplications, additions, divisions and square roots together."""
        return self.multiplications + self.additions + self.divisions + self.square_roots

    def __str__(self) -> str:
        return ", ".join(f"{getattr(self, f.name)} {f.name.replace('_', ' ')}" for f in fields(self))


#: The parts of an algorithm in which operations are counted separately, in the order in which they come.
PASSES = ("place", "inertias", "inward", "outward", "pairs")


def count(algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site] = ()) -> Count:
    """Operations that an algorithm takes.

    Args:
        algorithm: The recursion.
        mechanism: The robot.
        sites: The frames asked for, if the algorithm takes any.
    """
    return sum(count_passes(algorithm, mechanism, sites).values(), Count())


def count_passes(algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site] = ()) -> dict[str, Count]:
    """Operations that an algorithm takes, by pass.

    Told from the loops: what comes before the first gather places the mechanism; a gather computes inertias at its
    nodes, and takes other things inward in its inner loops; a scatter takes them outward; what is left are loops over
    pairs of frames, rows or columns.
    """
    program = _program(algorithm, Variants.of(mechanism, sites))
    runs = _Runs(algorithm, mechanism, sites)
    passes = dict.fromkeys(PASSES, Count())
    passes["place"] = _own(program.top)
    directions = {"gather_stations": "inward", "scatter": "outward", "scatter_stations": "outward"}
    placed = False
    for loop in program.inner(program.top):
        found = runs.of(loop)
        placed |= loop.source == "gather"
        for body in loop.bodies.values():
            if loop.source == "gather":
                passes["inertias"] += _own(body) * found.pop(body, 0)
        rest = sum((_own(block) * times for block, times in found.items()), Count())
        where = "inward" if loop.source == "gather" else directions.get(loop.source, "pairs")
        passes[where if placed else "place"] += rest
    return passes


@lru_cache(maxsize=256)
def _program(algorithm: Algorithm, variants: Variants) -> Program:
    """Robots with equal variants share the traced program, and differ only in how often its loops run."""
    return simplify(trace(algorithm, variants))


class _Runs:
    """How often the blocks of loops run."""

    def __init__(self, algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site]) -> None:
        self.mechanism, self.sites, self.rows = mechanism, sites, Rows(mechanism, sites)
        self.nodes = algorithm.visited(mechanism, sites)

    @cached_property
    def stations(self) -> Stations:
        return Stations(self.mechanism, self.rows)

    def of(self, loop: Loop) -> Counter[Block]:
        """Runs of the bodies of a loop, and of loops in them."""
        runs: Counter[Block] = Counter()
        self._loop(loop, {}, 1, runs)
        return runs

    def _block(self, block: Block, meant: dict[Role, int], times: int, runs: Counter[Block]) -> None:
        runs[block] += times
        for loop in block.program.inner(block):
            self._loop(loop, meant, times, runs)

    def _loop(self, loop: Loop, meant: dict[Role, int], times: int, runs: Counter[Block]) -> None:
        cases = self._cases(loop, meant)
        if cases is not None:
            for variant, which, repeats in cases:
                if variant in loop.bodies:
                    roles = dict(zip(loop.roles[variant], which, strict=False))
                    self._block(loop.bodies[variant], {**meant, **roles}, times * repeats, runs)
            return
        numbers, body, (role,) = self.numbers(loop, meant), loop.bodies[()], loop.roles[()]
        inner = body.program.inner(body)
        runs[body] += times * len(numbers)
        for number in numbers if inner else ():
            for each in inner:
                self._loop(each, {**meant, role: number}, times, runs)

    def _cases(self, loop: Loop, meant: dict[Role, int]) -> list[tuple[Any, tuple[int, ...], int]] | None:
        """For loops over a table: the variant of each row, the numbers of its nodes and frames, and how often it comes.

        None for loops over rows and columns.
        """
        kinds, source = self.mechanism.kinds, loop.source
        if source in ("scatter", "gather"):
            alike = not any(body.program.inner(body) for body in loop.bodies.values())
            nodes = Counter(
                ((kinds[k].name, self.port(self.mechanism.parents[k])), -1 if alike else k) for k in self.nodes
            )
            return [(variant, (k,), times) for (variant, k), times in nodes.items()]
        if source in ("carried_groups", "passing_groups") and loop.over is not None:
            find = self.rows.carried_groups if source == "carried_groups" else self.stations.passing_groups
            groups = self.rows.groups if source == "carried_groups" else self.stations.groups
            return [((len(groups[place]),), (place,), 1) for place in find(meant[loop.over])]
        if source == "tasks":
            return [((len(task),), (place,), 1) for place, task in enumerate(self.rows.tasks)]
        if source == "frames":
            return [(frame_variant(self.mechanism, site), (i, site.node), 1) for i, site in enumerate(self.sites)]
        if source == "relatives":
            ends = [((i, self.sites[i]), (j, self.sites[j])) for i, j in self.rows.relatives]
            return [(relative_variant(self.mechanism, a, b), (i, a.node, j, b.node), 1) for (i, a), (j, b) in ends]
        if source in ("meetings", "joins"):
            pairs = self.rows.meetings if source == "meetings" else self.stations.joins
            return [((self.port(pair[0]),), pair, 1) for pair in pairs]
        if source in ("ways_one", "ways_other"):
            return [((kinds[way[0]].name,), way, 1) for way in self.rows.ways(source.removeprefix("ways_"))]
        if source in ("scatter_stations", "gather_stations"):
            both = [(k, self.stations.above(k)) for k in self.stations.nodes]
            return [(tuple(map(self.port, pair)), pair, 1) for pair in both]
        return None

    def port(self, node: int) -> str:
        return port_of(self.mechanism, node)

    def numbers(self, loop: Loop, meant: dict[Role, int]) -> Sequence[int]:
        """The columns or rows that an inner loop runs over; where they are not contiguous, as many."""
        which = -1 if loop.over is None else meant[loop.over]
        after = None if loop.after is None else meant[loop.after]
        if loop.source == "ancestors":
            return self.climb(self.mechanism.column_parents[self.mechanism.v_starts[which]] if after is None else after)
        if loop.source == "before_task" and after is not None:
            return range(self.rows.tasks[after].start)
        if loop.source == "beyond_task" and after is not None:
            return range(self.rows.tasks[after].stop, self.rows.places_count)
        if loop.source == "beyond_carried_groups" and after is not None:
            return range(self.rows.groups[after].stop, self.rows.carried(which).stop)
        if loop.source == "beyond_passing_groups" and after is not None:
            return range(self.stations.groups[after].stop, self.stations.passing(which).stop)
        found = self.range(loop.source, which)
        if after is None:
            return found
        return range(after + 1 if loop.source == "columns" else max(after, found.start), found.stop)

    def climb(self, column: int) -> list[int]:
        """A column and those that carry it."""
        found = []
        while column >= 0:
            found.append(column)
            column = self.mechanism.column_parents[column]
        return found

    def range(self, source: str, which: int) -> range:
        """The rows or columns of a node or frame, or all."""
        starts, topology, nv = self.mechanism.v_starts, self.mechanism.topology, self.mechanism.nv
        ranges: dict[str, Callable[[], range]] = {
            "columns": lambda: range(nv),
            "rows": lambda: range(self.rows.count),
            "asked": lambda: range(self.rows.places_count),
            "carried": lambda: self.rows.carried(which),
            "following": lambda: self.rows.following(which),
            "frame_rows": lambda: self.rows.of(which),
            "descendants": lambda: range(starts[which + 1], starts[topology.subtree_end(which)]),
            "subtree": lambda: range(starts[which], starts[topology.subtree_end(which)]),
            "elsewhere": lambda: range(nv - (starts[topology.subtree_end(which)] - starts[which])),
            "onward": lambda: range(starts[which], nv),
            "support": lambda: range(sum(self.mechanism.kinds[k].nv for k in self.rows.support(which))),
            "path": lambda: range(sum(self.mechanism.kinds[k].nv for k in self.rows.path(which))),
        }
        return ranges[source]()


def _own(block: Block) -> Count:
    ops = [item for item in block.items if isinstance(item, Op)]
    numbers = Counter(_COUNTED[op.code] for op in ops if op.code in _COUNTED)
    angles = {id(op.args[0]) for op in ops if op.code in ("sin", "cos")}
    return Count(**numbers, sines=len(angles))
