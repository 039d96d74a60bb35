"""A mechanism with the frames of a call, over which loops run; and the dimensions of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.rows import Rows
from kinetree.recursion.topology import Topology

_T = TypeVar("_T")


class Setup:
    """A mechanism and the frames of a call.

    Attributes:
        mechanism: The robot.
        sites: The frames, with the rows of their tasks.
        nodes: The nodes that sweeps visit, base to tips; by default all.
    """

    def __init__(self, mechanism: Mechanism, sites: Sequence[Site] = (), nodes: Sequence[int] | None = None) -> None:
        self.mechanism, self.sites = mechanism, sites
        self.nodes = range(len(mechanism.kinds)) if nodes is None else nodes
        self._derived: dict[Any, Any] = {}

    @property
    def topology(self) -> Topology:
        return self.mechanism.topology

    @cached_property
    def rows(self) -> Rows:
        """The rows of the tasks."""
        return Rows(self.mechanism, self.sites)

    def derived(self, make: Callable[[Setup], _T]) -> _T:
        """The result of `make(self)`, computed once."""
        if make not in self._derived:
            self._derived[make] = make(self)
        made: _T = self._derived[make]
        return made


@dataclass(frozen=True)
class Dimension:
    """What an axis of an array runs over.

    Attributes:
        name: The name in declarations of arguments and in `tree.array`.
        length: Number of indices.
        within: A dimension whose indices are the first indices of this one.
    """

    name: str
    length: Callable[[Setup], int]
    within: str = ""

    def __post_init__(self) -> None:
        DIMENSIONS[self.name] = self


DIMENSIONS: dict[str, Dimension] = {}

Dimension("node", lambda setup: len(setup.mechanism.kinds) + 1)  # the world's index is 0
Dimension("depth", lambda setup: max(setup.topology.depths, default=0) + 1)
Dimension("q", lambda setup: setup.mechanism.nq)
Dimension("v", lambda setup: setup.mechanism.nv)
Dimension("m", lambda setup: setup.mechanism.m_starts[-1])  # components of the velocities of all nodes
Dimension("joints", lambda setup: setup.mechanism.joint_starts[-1])  # velocities of all joints, independent or not
Dimension("loops", lambda setup: setup.mechanism.loop_starts[-1])  # constraints that close loops
Dimension("frames", lambda setup: len(setup.sites))
Dimension("sorted_rows", lambda setup: setup.rows.count)
Dimension("rows", lambda setup: setup.rows.task_row_count)
Dimension("gravity", lambda setup: len(setup.mechanism.total_parameters))  # where it starts among the constants


def length(setup: Setup, dimension: str) -> int:
    """Number of indices of a dimension."""
    return DIMENSIONS[dimension].length(setup)
