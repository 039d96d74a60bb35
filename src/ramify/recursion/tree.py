"""The tree as an algorithm sees it: loops, world, and arrays indexed by what the loops yield.

Engines implement this interface; algorithms use nothing else of them. The rules are in `ramify.recursion.contract`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from ramify.recursion.roles import ColumnRole, FrameRole, NodeRole, RowRole
from ramify.spatial.motion import Motion
from ramify.spatial.value import Array


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
    def frames(self) -> Iterator[tuple[FrameRole, NodeRole]]:
        """The frames asked for, each with the node that carries it."""

    @abstractmethod
    def columns(self) -> Iterator[ColumnRole]:
        """All degrees of freedom."""

    @abstractmethod
    def descendants(self, k: NodeRole) -> Iterator[ColumnRole]:
        """The degrees of freedom of all nodes that k carries, without its own: contiguous columns."""

    @abstractmethod
    def onward(self, k: NodeRole) -> Iterator[ColumnRole]:
        """The degrees of freedom from k's first to the last of the mechanism: contiguous columns."""

    @abstractmethod
    def support(self, frame: FrameRole) -> Iterator[ColumnRole]:
        """The degrees of freedom that move a frame."""

    @abstractmethod
    def rows(self, after: RowRole | None = None) -> Iterator[RowRole]:
        """All rows of all tasks, or those from a row on: contiguous."""

    @abstractmethod
    def carried(self, k: NodeRole, after: RowRole | None = None) -> Iterator[RowRole]:
        """The rows of the tasks that k and its subtree carry, or those of them from a row on: contiguous."""

    @abstractmethod
    def meetings(self) -> Iterator[tuple[NodeRole, FrameRole, FrameRole]]:
        """Pairs of frames, each once and with itself, with the last node that supports both; none for the world."""

    @abstractmethod
    def rows_of(self, frame: FrameRole) -> Iterator[RowRole]:
        """The rows of one frame, as a loop."""

    @abstractmethod
    def array(self, *over: str) -> Indexed:
        """Memory indexed by "v" (columns) or "row" (rows of tasks), alone or after "node" or "row".

        An entry is set before it is read.
        """


class Zeros:
    """An input that is known to be zero: lets one text serve inverse dynamics, bias forces and gravity."""

    def __getitem__(self, k: NodeRole) -> Array:
        _, length = k.span("v")
        return np.zeros(length or 0)
