"""The count engine: how many operations an algorithm takes on a mechanism.

Counted is the simplified program, before multiplications and additions are fused: what a careful author would write by
hand for these joints, summed over all rows of all loops. Loads, stores, signs and loop control are free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from ramify.engines.ir import Block, Loop, Op, Program, Role
from ramify.engines.simplify import simplify
from ramify.engines.trace import trace
from ramify.engines.variants import Variants, port_of
from ramify.recursion.algorithm import Algorithm
from ramify.recursion.mechanism import Mechanism, Site
from ramify.recursion.rows import Rows
from ramify.recursion.stations import Stations

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


def count(algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site] = ()) -> Count:
    """Operations that an algorithm takes.

    Args:
        algorithm: The recursion.
        mechanism: The robot.
        sites: The frames asked for, if the algorithm takes any.
    """
    program = _program(algorithm, Variants.of(mechanism, sites))
    return _Counter(algorithm, mechanism, sites).block(program.top, {})


#: The parts of an algorithm in which operations are counted separately, in the order in which they come.
PASSES = ("place", "inertias", "inward", "outward", "pairs")


def count_passes(algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site] = ()) -> dict[str, Count]:
    """Operations that an algorithm takes, by pass.

    Told from the loops: what comes before the first gather places the mechanism; a gather computes inertias at its
    nodes, and takes other things inward in its inner loops; a scatter takes them outward; what is left are loops over
    pairs of frames, rows or columns.
    """
    program = _program(algorithm, Variants.of(mechanism, sites))
    counter = _Counter(algorithm, mechanism, sites)
    passes = dict.fromkeys(PASSES, Count())
    passes["place"] = counter.own(program.top)
    placed = False
    for loop in (item for item in program.top.items if isinstance(item, Loop)):
        whole = counter.loop(loop, {})
        if loop.source == "gather":
            placed = True
            inertias = _Counter(algorithm, mechanism, sites, inner_loops=False).loop(loop, {})
            passes["inertias"] += inertias
            passes["inward"] += whole + inertias * -1
        elif not placed:
            passes["place"] += whole
        else:
            directions = {"gather_stations": "inward", "scatter": "outward", "scatter_stations": "outward"}
            passes[directions.get(loop.source, "pairs")] += whole
    return passes


@lru_cache(maxsize=256)
def _program(algorithm: Algorithm, variants: Variants) -> Program:
    """Robots with equal variants share the traced program, and differ only in how often its loops run."""
    return simplify(trace(algorithm, variants))


class _Counter:
    def __init__(
        self, algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site], inner_loops: bool = True
    ) -> None:
        self.inner_loops = inner_loops
        self.mechanism, self.sites, self.rows = mechanism, sites, Rows(mechanism, sites)
        self.stations = Stations(mechanism, self.rows)
        self.nodes = algorithm.visited(mechanism, sites)
        self._own: dict[int, Count] = {}
        self._inner: dict[int, list[Loop]] = {}

    def own(self, block: Block) -> Count:
        """Operations of a block without the loops in it."""
        if id(block) not in self._own:
            self._own[id(block)] = _own(block)
        return self._own[id(block)]

    def block(self, block: Block, meant: dict[Role, int]) -> Count:
        """Operations of a block when its roles are the given nodes and frames."""
        total = self.own(block)
        if self.inner_loops:
            if id(block) not in self._inner:
                self._inner[id(block)] = [item for item in block.items if isinstance(item, Loop)]
            for loop in self._inner[id(block)]:
                total = total + self.loop(loop, meant)
        return total

    def loop(self, loop: Loop, meant: dict[Role, int]) -> Count:
        if loop.source in ("scatter", "gather"):
            rows = Counter[Any]()
            inner = any(isinstance(item, Loop) for body in loop.bodies.values() for item in body.items)
            for k in self.nodes:
                variant = self.mechanism.kinds[k].name, port_of(self.mechanism, self.mechanism.parents[k])
                rows[(variant, k) if inner else (variant, -1)] += 1
            return self._sum(loop, [(v, (k,), times) for (v, k), times in rows.items()], meant)
        if loop.source == "frames":
            sites = enumerate(self.sites)
            return self._sum(loop, [((port_of(self.mechanism, s.node), s.rows), (i,), 1) for i, s in sites], meant)
        if loop.source in ("meetings", "joins"):
            pairs = self.rows.meetings if loop.source == "meetings" else self.stations.joins
            return self._sum(loop, [((port_of(self.mechanism, pair[0]),), pair, 1) for pair in pairs], meant)
        if loop.source in ("ways_one", "ways_other"):
            ways = self.rows.ways(loop.source.removeprefix("ways_"))
            return self._sum(loop, [((self.mechanism.kinds[way[0]].name,), way, 1) for way in ways], meant)
        if loop.source in ("scatter_stations", "gather_stations"):
            both = [(k, self.stations.above(k)) for k in self.stations.nodes]
            ports = [tuple(port_of(self.mechanism, node) for node in pair) for pair in both]
            return self._sum(loop, [(variant, pair, 1) for variant, pair in zip(ports, both, strict=True)], meant)
        numbers = self.numbers(loop, meant)
        body = loop.bodies[()]
        if not any(isinstance(item, Loop) for item in body.items):
            return self.block(body, meant) * len(numbers)
        total = Count()
        for number in numbers:
            total = total + self.block(body, {**meant, loop.roles[()][0]: number})
        return total

    def _sum(self, loop: Loop, cases: Any, meant: dict[Role, int]) -> Count:
        total = Count()
        for variant, which, times in cases:
            if variant in loop.bodies:
                roles = dict(zip(loop.roles[variant], which, strict=False))
                total = total + self.block(loop.bodies[variant], {**meant, **roles}) * times
        return total

    def numbers(self, loop: Loop, meant: dict[Role, int]) -> Sequence[int]:
        """The columns or rows that an inner loop runs over; for a frame's support, as many."""
        which = -1 if loop.over is None else meant[loop.over]
        after = None if loop.after is None else meant[loop.after]
        if loop.source == "ancestors":
            return self.climb(self.mechanism.column_parents[self.mechanism.v_starts[which]] if after is None else after)
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
            "carried": lambda: self.rows.carried(which),
            "following": lambda: self.rows.following(which),
            "passing": lambda: self.stations.passing(which),
            "frame_rows": lambda: self.rows.of(which),
            "descendants": lambda: range(starts[which + 1], starts[topology.subtree_end(which)]),
            "onward": lambda: range(starts[which], nv),
            "support": lambda: range(sum(self.mechanism.kinds[k].nv for k in topology.support(self.sites[which].node))),
        }
        return ranges[source]()


def _own(block: Block) -> Count:
    ops = [item for item in block.items if isinstance(item, Op)]
    numbers = Counter(_COUNTED[op.code] for op in ops if op.code in _COUNTED)
    angles = {id(op.args[0]) for op in ops if op.code in ("sin", "cos")}
    return Count(**numbers, sines=len(angles))
