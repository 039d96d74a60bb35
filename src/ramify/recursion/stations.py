"""Stations: the nodes where so many rows of tasks come together that six unit forces stand in for them from there on.

Towards the base every row of a task passes through the joints below it. At most six rows can pass a joint without
repeating each other, since a body has six directions of motion. Where more than six arrive, they end, and six unit
forces of the station pass on in their place. A chain of joints below many tasks is then gone through once, not once
per task: a chain of joints between stations is a serial segment in the sense of [J11] §7, and a station is an
accumulation node in the sense of [S24].

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
[S24] A. Sathya, W. Decré, J. Swevers, "PV-OSIMr: a lowest order complexity algorithm for computing the Delassus
      matrix", IEEE Robotics and Automation Letters 9, 2024.
"""

from __future__ import annotations

from functools import cached_property

from ramify.recursion.rows import Rows
from ramify.recursion.topology import WORLD, Topology

#: Unit forces of a station, and the most rows that pass a joint.
UNITS = 6


class Stations:
    """The stations of some rows on a tree.

    Rows that pass joints are numbered together: first those of the tasks, as in `Rows`, then six per station.

    Attributes:
        nodes: The stations, base to tips.
        count: Rows of tasks and of stations together.
    """

    def __init__(self, topology: Topology, rows: Rows) -> None:
        self._rows = rows
        self._passing = [rows.carried(k) for k in range(len(topology))]
        arriving: list[list[range]] = [[] for _ in range(len(topology) + 1)]
        units: dict[int, int] = {}
        for k in reversed(range(len(topology))):
            carried, sources = rows.carried(k), arriving[k]
            behind = sum(len(rows.carried(child)) for child in topology.children[k])
            if own := carried[: len(carried) - behind]:
                sources.append(own)
            if sum(map(len, sources)) > UNITS:
                units[k] = rows.count + UNITS * len(units)
                self._passing[k] = range(units[k], units[k] + UNITS)
            elif len(sources) == 1:
                self._passing[k] = sources[0]
            if self._passing[k]:
                arriving[topology.parents[k]].append(self._passing[k])
        self._units = units
        self.nodes = tuple(sorted(units))
        self.count = rows.count + UNITS * len(units)
        self._nearest: list[int] = []
        for k, parent in enumerate(topology.parents):
            self._nearest.append(k if k in units else self._at_or_above(parent))
        self._parents = topology.parents

    def _at_or_above(self, node: int) -> int:
        return WORLD if node == WORLD else self._nearest[node]

    def passing(self, node: int) -> range:
        """The rows that pass the joint of a node."""
        return self._passing[node]

    def units(self, station: int) -> int:
        """The first of the six rows of a station."""
        return self._units[station]

    def above(self, station: int) -> int:
        """The next station on the way to the base, or the world."""
        return self._at_or_above(self._parents[station])

    @cached_property
    def joins(self) -> tuple[tuple[int, int, int], ...]:
        """Pairs of frames, each once and with itself, with the first station that both arrive at, if there is one."""
        found = ((self._nearest[node], one, other) for node, one, other in self._rows.meetings)
        return tuple(join for join in found if join[0] != WORLD)
