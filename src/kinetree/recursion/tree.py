"""The tree as an algorithm sees it: loops, world, and arrays indexed by what the loops yield.

Each loop is stated here once, as data (`kinetree.recursion.loops`); engines run them by their shapes. Algorithms use
nothing else of an engine. The rules are in `kinetree.recursion.contract`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from kinetree.recursion.entities import COLUMN, FRAME, GROUP, NODE, PLACE, ROW, TASK, Engine, Frame, Group, Node
from kinetree.recursion.loops import Chain, Inner, Range, Runs, Table
from kinetree.recursion.mechanism import PARTS
from kinetree.recursion.roles import ColumnRole, FrameRole, GroupRole, NodeRole, RowRole
from kinetree.recursion.setup import Setup
from kinetree.spatial.motion import Motion
from kinetree.spatial.value import Array


class Indexed(Protocol):
    """An array addressed by nodes, columns and frames."""

    def __getitem__(self, keys: Any) -> Any:
        """The value at these keys."""

    def __setitem__(self, keys: Any, value: Any) -> None:
        """Replace the value at these keys."""


def _columns(setup: Setup, nodes: Sequence[int]) -> list[range]:
    """The columns of some nodes, in as few ranges as possible."""
    starts, runs = setup.mechanism.v_starts, list[range]()
    for k in nodes:
        joined = bool(runs) and runs[-1].stop == starts[k]
        first = runs.pop().start if joined else starts[k]
        runs.append(range(first, starts[k + 1]))
    return runs


def _subtree_stop(setup: Setup, k: int) -> int:
    return setup.mechanism.v_starts[setup.topology.subtree_end(k)]


def _own_start(setup: Setup, k: int) -> int:
    return setup.mechanism.v_starts[k]


def _carried_start(setup: Setup, k: int) -> int:
    return setup.rows.carried(k).start


def _carried_stop(setup: Setup, k: int) -> int:
    return setup.rows.carried(k).stop


def _has_part(part: str, variant: tuple[Any, ...]) -> bool:
    return bool(variant[0][1] == part)


def _branches(to: str, setup: Setup) -> Sequence[tuple[int, ...]]:
    return setup.rows.branches(to)


_SCATTER: Table[tuple[NodeRole, NodeRole]] = Table(
    Node("k", "set", by="kind"),
    Node("parent", "read", world=True),
    rows=lambda setup: [(k, setup.mechanism.parents[k]) for k in setup.nodes],
    cases=lambda variants: variants.names,
    direction="outward",
    name="scatter",
)
_FRAMES: dict[str, Table[tuple[FrameRole, NodeRole]]] = {
    "": Table(
        Frame("frame", known=True),
        Node("carrier", "add", world=True),
        rows=lambda setup: [(i, site.node) for i, site in enumerate(setup.sites)],
        cases=lambda variants: variants.frames,
        name="frames",
    )
}
_FRAMES |= {
    part: Table(
        *_FRAMES[""].roles,
        of=_FRAMES[""],
        where=partial(_has_part, part),
        name=f"frames.{part}",
    )
    for part in PARTS
}
_BRANCHES: dict[str, Table[tuple[NodeRole, FrameRole, FrameRole]]] = {
    to: Table(
        Node("k", by="kind"),
        Frame("one"),
        Frame("other"),
        rows=partial(_branches, to),
        name=f"branches.{to}",
    )
    for to in ("one", "other")
}
_GROUP = Group(
    "group", GROUP, {"sorted_rows": "sorted_rows", "rows": "rows"}, lambda setup, place: len(setup.rows.groups[place])
)
_TASK = Group("task", TASK, {"rows": "rows"}, lambda setup, place: len(setup.rows.tasks[place]))


class Tree(Engine):
    """A mechanism while an algorithm runs over it."""

    #: The node that carries all roots. Its fields are set before the first loop, and read after the last.
    world: NodeRole
    #: Acceleration of free fall as a spatial acceleration of the world frame [m/s²].
    gravity: Motion

    # Sweeps

    #: Nodes with their parents, base to tips: `for k, parent in tree.scatter()`.
    scatter = _SCATTER
    #: Nodes with their parents, tips to base: `for k, parent in tree.gather()`.
    gather: Table[tuple[NodeRole, NodeRole]] = Table(
        Node("k", "set", by="kind"),
        Node("parent", "add", world=True),
        of=_SCATTER,
        backwards=True,
        direction="inward",
    )

    # Frames

    def frames(self, part: str = "") -> Iterator[tuple[FrameRole, NodeRole]]:
        """The frames asked for, each with the node that carries it; or only those with some part in their task.

        Args:
            part: One of those that `kinetree.recursion.mechanism.Site` knows.
        """
        return _FRAMES[part](self)

    #: The near end of each relative task and the node that carries it, then the far end and its node.
    relatives: Table[tuple[FrameRole, NodeRole, FrameRole, NodeRole]] = Table(
        Frame("near", known=True),
        Node("carrier", world=True),
        Frame("far", known=True),
        Node("carrier", world=True),
        rows=lambda setup: [(i, setup.sites[i].node, j, setup.sites[j].node) for i, j in setup.rows.relatives],
        cases=lambda variants: variants.relatives,
    )
    #: Pairs of frames, each once and with itself, with the last node that supports both; none for the world.
    common_ancestors: Table[tuple[NodeRole, FrameRole, FrameRole]] = Table(
        Node("ancestor"), Frame("one"), Frame("other"), rows=lambda setup: setup.rows.common_ancestors
    )

    def branches(self, to: str) -> Iterator[tuple[NodeRole, FrameRole, FrameRole]]:
        """For each pair with a common ancestor, the nodes from there, exclusive, out to the first or the second frame.

        Args:
            to: "one" or "other".
        """
        return _BRANCHES[to](self)

    # Degrees of freedom

    #: All degrees of freedom, or those that come after one: `tree.columns()`, `tree.columns(c)`.
    columns: Range[ColumnRole] = Range(COLUMN, skip=1)
    #: The degrees of freedom of all nodes that k carries, without its own.
    descendants: Range[ColumnRole] = Range(
        COLUMN, NODE, lambda setup, k: setup.mechanism.v_starts[k + 1], _subtree_stop
    )
    #: The degrees of freedom of k and of all nodes that it carries.
    subtree: Range[ColumnRole] = Range(COLUMN, NODE, _own_start, _subtree_stop)
    #: The degrees of freedom of all nodes but k and those that it carries.
    elsewhere: Runs[ColumnRole] = Runs(
        COLUMN,
        NODE,
        lambda setup, k: (range(_own_start(setup, k)), range(_subtree_stop(setup, k), setup.mechanism.nv)),
    )
    #: The degrees of freedom from k's first to the last of the mechanism.
    onward: Range[ColumnRole] = Range(COLUMN, NODE, _own_start)
    #: The degrees of freedom of all nodes that carry k, without its own, tips to base; or those from one on.
    ancestors: Chain[ColumnRole] = Chain(
        COLUMN,
        NODE,
        lambda setup, k: setup.mechanism.column_above(k),
        lambda setup: setup.mechanism.column_parents,
    )
    #: The degrees of freedom that move a frame; of an end of a relative task, those that do not move both ends.
    support: Runs[ColumnRole] = Runs(COLUMN, FRAME, lambda setup, i: _columns(setup, setup.rows.support(i)))
    #: The degrees of freedom of all nodes from the base to the one that carries a frame.
    path: Runs[ColumnRole] = Runs(COLUMN, FRAME, lambda setup, i: _columns(setup, setup.rows.path(i)))

    # Rows of tasks; those that a subtree carries are contiguous

    #: All rows of all frames, depth first, or those from a row on.
    sorted_rows: Range[RowRole] = Range(ROW)
    #: The rows in the order of the tasks, or those from one on. Both ends of a relative task share theirs.
    task_rows: Range[RowRole] = Range(PLACE)
    #: The rows of one frame, or those of them from a row on.
    rows_of: Range[RowRole] = Range(
        ROW, FRAME, lambda setup, i: setup.rows.of(i).start, lambda setup, i: setup.rows.of(i).stop
    )
    #: The rows of the tasks that k and its subtree carry, or those of them from a row on.
    carried: Range[RowRole] = Range(ROW, NODE, _carried_start, _carried_stop)
    #: The rows that come after those that k and its subtree carry. None if they carry none.
    following: Range[RowRole] = Range(ROW, NODE, _carried_stop, lambda setup, k: setup.rows.following(k).stop)
    #: The tasks that k and its subtree carry, last first; each with a loop over the carried rows that follow it.
    #: Does what two loops over rows do, but with all rows of one task at a time.
    carried_groups: Table[tuple[GroupRole, Iterator[RowRole]]] = Table(
        _GROUP,
        rows=lambda setup: [(place,) for place in range(len(setup.rows.groups))],
        over=NODE,
        part=lambda setup, k: setup.rows.carried_groups(k),
        backwards=True,
        inner=(Inner(Range(ROW, NODE, stop=_carried_stop, name="beyond_group"), own=False, start="beyond"),),
    )
    #: All tasks, in the order asked for, each with loops over the rows before it and over those that follow. Their rows
    #: are those of `task_rows`, but with all rows of one task at a time.
    tasks: Table[tuple[GroupRole, Iterator[RowRole], Iterator[RowRole]]] = Table(
        _TASK,
        rows=lambda setup: [(place,) for place in range(len(setup.rows.tasks))],
        inner=(
            Inner(Range(PLACE, TASK, stop=lambda setup, t: setup.rows.tasks[t].start, name="before_task")),
            Inner(Range(PLACE, TASK, lambda setup, t: setup.rows.tasks[t].stop, name="beyond_task")),
        ),
    )

    @abstractmethod
    def array(self, *over: str) -> Indexed:
        """Memory with one or two indices, the last of which should be that of the inner loop.

        An entry is set before it is read.

        Args:
            *over: Dimensions (`kinetree.recursion.setup`): "v" (columns), "sorted_rows" (rows of frames, depth first),
                "rows" (rows in the order of the tasks), "frames"; "node" as the first of two.
        """


class Zeros:
    """An input that is known to be zero: lets one recursion serve inverse dynamics, bias forces and gravity."""

    def __getitem__(self, k: NodeRole) -> Array:
        _, length = k.span("v")
        return np.zeros(length or 0)
