"""The tree as an algorithm sees it: loops, world, and arrays indexed by what the loops yield.

Engines implement this interface; algorithms use nothing else of them. The rules are in `kinetree.recursion.contract`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from kinetree.recursion.roles import ColumnRole, FrameRole, GroupRole, NodeRole, RowRole
from kinetree.spatial.motion import Motion
from kinetree.spatial.value import Array


class Indexed(Protocol):
    """An array addressed by nodes, columns and frames."""

    def __getitem__(self, keys: Any) -> Any:
        """The value at these keys."""

    def __setitem__(self, keys: Any, value: Any) -> None:
        """Replace the value at these keys."""


class Tree(ABC):
    """A mechanism while an algorithm runs over it."""

    #: The node that carries all roots. Its fields are set before the first loop, and read after the last.
    world: NodeRole
    #: Acceleration of free fall as a spatial acceleration of the world frame [m/s²].
    gravity: Motion

    @abstractmethod
    def scatter(self) -> Iterator[tuple[NodeRole, NodeRole]]:
        """Nodes with their parents, base to tips: `for k, parent in tree.scatter()`."""

    @abstractmethod
    def gather(self) -> Iterator[tuple[NodeRole, NodeRole]]:
        """Nodes with their parents, tips to base: `for k, parent in tree.gather()`."""

    @abstractmethod
    def frames(self, part: str = "") -> Iterator[tuple[FrameRole, NodeRole]]:
        """The frames asked for, each with the node that carries it; or only those with some part in their task.

        Args:
            part: One of those that `kinetree.recursion.mechanism.Site` knows.
        """

    @abstractmethod
    def relatives(self) -> Iterator[tuple[FrameRole, NodeRole, FrameRole, NodeRole]]:
        """The near end of each relative task and the node that carries it, then the far end and its node."""

    @abstractmethod
    def columns(self, after: ColumnRole | None = None) -> Iterator[ColumnRole]:
        """All degrees of freedom, or those that come after one: contiguous columns."""

    @abstractmethod
    def descendants(self, k: NodeRole) -> Iterator[ColumnRole]:
        """The degrees of freedom of all nodes that k carries, without its own: contiguous columns."""

    @abstractmethod
    def subtree(self, k: NodeRole) -> Iterator[ColumnRole]:
        """The degrees of freedom of k and of all nodes that it carries: contiguous columns."""

    @abstractmethod
    def elsewhere(self, k: NodeRole) -> Iterator[ColumnRole]:
        """The degrees of freedom of all nodes but k and those that it carries."""

    @abstractmethod
    def onward(self, k: NodeRole) -> Iterator[ColumnRole]:
        """The degrees of freedom from k's first to the last of the mechanism: contiguous columns."""

    @abstractmethod
    def support(self, frame: FrameRole) -> Iterator[ColumnRole]:
        """The degrees of freedom that move a frame; of an end of a relative task, those that do not move both ends."""

    @abstractmethod
    def path(self, frame: FrameRole) -> Iterator[ColumnRole]:
        """The degrees of freedom of all nodes from the base to the one that carries a frame."""

    @abstractmethod
    def ancestors(self, k: NodeRole, start: ColumnRole | None = None) -> Iterator[ColumnRole]:
        """The degrees of freedom of all nodes that carry k, without its own, tips to base; or those from one on."""

    @abstractmethod
    def rows(self, after: RowRole | None = None) -> Iterator[RowRole]:
        """All rows of all tasks, or those from a row on: contiguous."""

    @abstractmethod
    def asked(self, after: RowRole | None = None) -> Iterator[RowRole]:
        """The rows in the order asked for, or those from one on: contiguous. Ends of a relative task share theirs."""

    @abstractmethod
    def carried(self, k: NodeRole, after: RowRole | None = None) -> Iterator[RowRole]:
        """The rows of the tasks that k and its subtree carry, or those of them from a row on: contiguous."""

    @abstractmethod
    def following(self, k: NodeRole) -> Iterator[RowRole]:
        """The rows that come after those that k and its subtree carry: contiguous. None if they carry none."""

    @abstractmethod
    def carried_groups(self, k: NodeRole) -> Iterator[tuple[GroupRole, Iterator[RowRole]]]:
        """The tasks that k and its subtree carry, last first; each with a loop over the carried rows that follow it.

        Does what two loops over rows do, but with all rows of one task at a time.
        """

    @abstractmethod
    def tasks(self) -> Iterator[tuple[GroupRole, Iterator[RowRole], Iterator[RowRole]]]:
        """All tasks, in the order asked for, each with loops over the rows before it and over those that follow.

        Their rows are those of `asked`, but with all rows of one task at a time.
        """

    @abstractmethod
    def meetings(self) -> Iterator[tuple[NodeRole, FrameRole, FrameRole]]:
        """Pairs of frames, each once and with itself, with the last node that supports both; none for the world."""

    @abstractmethod
    def rows_of(self, frame: FrameRole, after: RowRole | None = None) -> Iterator[RowRole]:
        """The rows of one frame, or those of them from a row on, as a loop."""

    @abstractmethod
    def ways(self, to: str) -> Iterator[tuple[NodeRole, FrameRole, FrameRole]]:
        """For each pair of frames that meet, the nodes on the way from there out to the first or the second of them.

        The node where they meet is not on the way.

        Args:
            to: "one" or "other".
        """

    # Stations: `kinetree.recursion.stations` says what they are

    @abstractmethod
    def passing_groups(self, k: NodeRole) -> Iterator[tuple[GroupRole, Iterator[RowRole]]]:
        """What passes the joint of k: tasks, last first, each with a loop over the rows that follow; or six units."""

    @abstractmethod
    def scatter_stations(self) -> Iterator[tuple[NodeRole, NodeRole]]:
        """Stations, each with the next one on its way to the base (or the world), base to tips."""

    @abstractmethod
    def gather_stations(self) -> Iterator[tuple[NodeRole, NodeRole]]:
        """Stations, each with the next one on its way to the base (or the world), tips to base."""

    @abstractmethod
    def units(self, station: NodeRole) -> list[RowRole]:
        """The six rows of a station; no loop."""

    @abstractmethod
    def joins(self) -> Iterator[tuple[NodeRole, FrameRole, FrameRole]]:
        """Pairs of frames, each once and with itself, with the first station that both arrive at, if there is one."""

    @abstractmethod
    def array(self, *over: str) -> Indexed:
        """Memory with one or two indices, the last of which should be that of the inner loop.

        An entry is set before it is read.

        Args:
            *over: "v" (columns), "row" (rows of tasks), "rows" (those in the order asked for), "passing" (rows of
                tasks and the units of stations), "frames"; "node" as the first of two.
        """


class Zeros:
    """An input that is known to be zero: lets one text serve inverse dynamics, bias forces and gravity."""

    def __getitem__(self, k: NodeRole) -> Array:
        _, length = k.span("v")
        return np.zeros(length or 0)
