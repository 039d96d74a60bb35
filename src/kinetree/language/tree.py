"""The tree as an algorithm sees it: loops, the world, and arrays indexed by the roles that loops yield.

Each loop is defined here once, as data (`kinetree.language.loops`); engines run loops by their shapes. Algorithms use
nothing else of an engine. The rules are in `kinetree.language.contract`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from kinetree.language.loops import (
    COLUMN,
    FRAME,
    GROUP,
    NODE,
    PLACE,
    ROW,
    TASK,
    Chain,
    Engine,
    FrameEntity,
    Group,
    Inner,
    NodeEntity,
    Range,
    Runs,
    Table,
)
from kinetree.language.mechanism import PARTS
from kinetree.language.roles import ColumnRole, FrameRole, GroupRole, NodeRole, RowRole
from kinetree.language.setup import Setup
from kinetree.spatial.motion import Motion
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


class Indexed(Protocol):
    """An array indexed by nodes, columns, rows and frames."""

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
    NodeEntity("k", "set", by="kind"),
    NodeEntity("parent", "read", world=True),
    rows=lambda setup: [(k, setup.mechanism.parents[k]) for k in setup.nodes],
    cases=lambda variants: variants.names,
    direction="outward",
    name="scatter",
)
_FRAMES: dict[str, Table[tuple[FrameRole, NodeRole]]] = {
    "": Table(
        FrameEntity("frame", known=True),
        NodeEntity("carrier", "add", world=True),
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
        NodeEntity("k", by="kind"),
        FrameEntity("one"),
        FrameEntity("other"),
        rows=partial(_branches, to),
        name=f"branches.{to}",
    )
    for to in ("one", "other")
}
_GROUP = Group(
    "group", GROUP, {"sorted_rows": "sorted_rows", "rows": "rows"}, lambda setup, place: len(setup.rows.groups[place])
)
_TASK = Group("task", TASK, {"rows": "rows"}, lambda setup, place: len(setup.rows.tasks[place]))


_ENDS: dict[str, Table[tuple[FrameRole, NodeRole, FrameRole, NodeRole]]] = {
    end: Table(
        FrameEntity("near", known=True),
        NodeEntity("near_carrier", "add" if end == "near" else "read", world=True),
        FrameEntity("far", known=True),
        NodeEntity("far_carrier", "add" if end == "far" else "read", world=True),
        rows=lambda setup: [(i, setup.sites[i].node, j, setup.sites[j].node) for i, j in setup.rows.relatives],
        cases=lambda variants: variants.relatives,
        name=f"relative_ends.{end}",
    )
    for end in ("near", "far")
}


class Tree(Engine):
    """A mechanism while an algorithm runs over it."""

    #: The parent of all roots. Its fields are set before the first loop and read after the last.
    world: NodeRole
    #: Gravitational acceleration as a spatial acceleration in the world frame [m/s²].
    gravity: Motion
    #: Whether each node is a single rigid body.
    rigid_bodies: bool
    #: Whether all nodes consist of rigid bodies, so that with locked joints everything is one.
    rigid_multibody: bool

    # Sweeps

    #: Nodes with their parents, base to tips: `for k, parent in tree.scatter()`.
    scatter = _SCATTER
    #: Nodes with their parents, tips to base: `for k, parent in tree.gather()`.
    gather: Table[tuple[NodeRole, NodeRole]] = Table(
        NodeEntity("k", "set", by="kind"),
        NodeEntity("parent", "add", world=True),
        of=_SCATTER,
        backwards=True,
        direction="inward",
    )

    # Frames

    def frames(self, part: str = "") -> Iterator[tuple[FrameRole, NodeRole]]:
        """The frames of the call, or those with a part in their task (`PARTS`), each with the node that carries it."""
        return _FRAMES[part](self)

    #: The near end of each relative task and the node that carries it, then the far end and its node.
    relatives: Table[tuple[FrameRole, NodeRole, FrameRole, NodeRole]] = Table(
        FrameEntity("near", known=True),
        NodeEntity("near_carrier", world=True),
        FrameEntity("far", known=True),
        NodeEntity("far_carrier", world=True),
        rows=lambda setup: [(i, setup.sites[i].node, j, setup.sites[j].node) for i, j in setup.rows.relatives],
        cases=lambda variants: variants.relatives,
    )

    def relative_ends(self, end: str) -> Iterator[tuple[FrameRole, NodeRole, FrameRole, NodeRole]]:
        """As `relatives`, to add to the node that carries one "near" or "far" end: both may be the same."""
        return _ENDS[end](self)

    #: Unordered pairs of frames, including each with itself, with their nearest common ancestor unless it is the world.
    common_ancestors: Table[tuple[NodeRole, FrameRole, FrameRole]] = Table(
        NodeEntity("ancestor"), FrameEntity("one"), FrameEntity("other"), rows=lambda setup: setup.rows.common_ancestors
    )

    def branches(self, to: str) -> Iterator[tuple[NodeRole, FrameRole, FrameRole]]:
        """For each pair with a common ancestor, the nodes from there (exclusive) to its frame "one" or "other"."""
        return _BRANCHES[to](self)

    # Degrees of freedom

    #: All degrees of freedom, `tree.columns()`, or those after one of them, `tree.columns(c)`.
    columns: Range[ColumnRole] = Range(COLUMN, skip=1)
    #: The degrees of freedom of all descendants of k, without its own.
    descendants: Range[ColumnRole] = Range(
        COLUMN, NODE, lambda setup, k: setup.mechanism.v_starts[k + 1], _subtree_stop
    )
    #: The degrees of freedom of k and its descendants.
    subtree: Range[ColumnRole] = Range(COLUMN, NODE, _own_start, _subtree_stop)
    #: The degrees of freedom of all nodes outside the subtree of k.
    elsewhere: Runs[ColumnRole] = Runs(
        COLUMN,
        NODE,
        lambda setup, k: (range(_own_start(setup, k)), range(_subtree_stop(setup, k), setup.mechanism.nv)),
    )
    #: The degrees of freedom from k's first to the last of the mechanism.
    onward: Range[ColumnRole] = Range(COLUMN, NODE, _own_start)
    #: The degrees of freedom of all ancestors of k, tips to base; or those from a given one on.
    ancestors: Chain[ColumnRole] = Chain(
        COLUMN,
        NODE,
        lambda setup, k: setup.mechanism.column_above(k),
        lambda setup: setup.mechanism.column_parents,
    )
    #: The degrees of freedom that move a frame; for an end of a relative task, without those that move both ends.
    support: Runs[ColumnRole] = Runs(COLUMN, FRAME, lambda setup, i: _columns(setup, setup.rows.support(i)))
    #: The degrees of freedom of all nodes from the base to the one that carries a frame.
    path: Runs[ColumnRole] = Runs(COLUMN, FRAME, lambda setup, i: _columns(setup, setup.rows.path(i)))

    # Rows of tasks; those that a subtree carries are contiguous

    #: All rows of all frames, depth first, or those from a given row on.
    sorted_rows: Range[RowRole] = Range(ROW)
    #: The rows in the order of the tasks, or those from a given one on. Both ends of a relative task share their rows.
    task_rows: Range[RowRole] = Range(PLACE)
    #: The rows of one frame, or those from a given row on.
    rows_of: Range[RowRole] = Range(
        ROW, FRAME, lambda setup, i: setup.rows.of(i).start, lambda setup, i: setup.rows.of(i).stop
    )
    #: The rows of the tasks that k and its subtree carry, or those from a given row on.
    carried: Range[RowRole] = Range(ROW, NODE, _carried_start, _carried_stop)
    #: The rows after those that k and its subtree carry. None if they carry none.
    following: Range[RowRole] = Range(ROW, NODE, _carried_stop, lambda setup, k: setup.rows.following(k).stop)
    #: The tasks that k and its subtree carry, last first; each with a loop over the carried rows that follow it.
    #: Equivalent to two nested loops over rows, but handles all rows of a task at once.
    carried_groups: Table[tuple[GroupRole, Iterator[RowRole]]] = Table(
        _GROUP,
        rows=lambda setup: [(place,) for place in range(len(setup.rows.groups))],
        over=NODE,
        part=lambda setup, k: setup.rows.carried_groups(k),
        backwards=True,
        inner=(Inner(Range(ROW, NODE, stop=_carried_stop, name="beyond_group"), own=False, start="beyond"),),
    )
    #: All tasks in the user's order. Visits the rows of `task_rows`, but all rows of a task at once.
    tasks: Table[GroupRole] = Table(_TASK, rows=lambda setup: [(place,) for place in range(len(setup.rows.tasks))])

    def leaves(self, flag: Any) -> bool:
        """Whether a loop ends whose flag is set. Compiled loops end when the flags of all lanes are set."""
        return not np.real(flag) < 0.5

    @abstractmethod
    def array(self, *over: str, like: str = "") -> Indexed:
        """An array with one or two indices; the last should be that of the innermost loop.

        Entries must be set before they are read.

        Args:
            *over: Dimensions (`kinetree.language.setup`): "v" (columns), "sorted_rows" (rows of frames, depth first),
                "rows" (rows in the order of the tasks), "frames"; "node" only as the first of two, and values then have
                one type for each port.
            like: A field that has the type of the values on every node, set in an earlier loop. Needed where children
                set entries of their parent, whose body may be traced first.
        """

    @abstractmethod
    def inward(self, over: str, like: str = "") -> Indexed:
        """What columns or rows carry towards the base, `F[k, c]`: it is read at k, and then set at the parent.

        So an entry is at one node at a time, and rigid bodies share one for each column or row. Rules:

        - Entries are read at the own node of a `gather` loop, and never again once they were set at the parent.
        - Nothing is read at the world: what is set there is dropped, and need not be computed.
        """

    def travelling(self, over: str, like: str = "") -> Indexed:
        """What columns carry towards the tips, `S[k, c]`: set at the column's own node, then `X @ S[parent, c]`.

        Only weights change it on the way. In the common frame it does not change, and columns need one entry each.
        """
        return self.array("node", over, like=like)

    def seen(self, reference: str, frame: FrameRole, carrier: NodeRole) -> Transform:
        """Transforms motion from the coordinates of a frame's carrier to a reference.

        Args:
            reference: "local", "local_world_aligned" or "world"; see `kinetree.algorithms.kinematics.frame_kinematics`.
            frame: The frame.
            carrier: The node that carries it. Its field C is its pose, k.C = k.X @ parent.C, unless the reference is
                "local".
        """
        if reference == "local":
            return frame.X
        if reference == "world":
            return carrier.C.inverse()  # type: ignore[no-any-return]
        return Transform.of((frame.X @ carrier.C).E.T, np.zeros(3)) @ frame.X

    def pose(self, frame: FrameRole, carrier: NodeRole) -> Transform:
        """Transforms motion from the world to a frame; arguments as of `seen`, with poses C."""
        return frame.X @ carrier.C  # type: ignore[no-any-return]

    def apart(self, near: FrameRole, near_carrier: NodeRole, far: FrameRole, far_carrier: NodeRole) -> Transform:
        """Transforms motion from the near frame of a relative task to the far one; carriers have poses C."""
        one, other = self.pose(near, near_carrier), self.pose(far, far_carrier)
        return Transform.of(other.E @ one.E.T, one.E @ (other.r - one.r))

    def between(
        self, near: FrameRole, near_carrier: NodeRole, far: FrameRole, far_carrier: NodeRole
    ) -> tuple[Transform, Transform]:
        """Transform motion from the two carriers of a relative task to the near frame's axes at the far one's origin.

        Far from the world's origin, the common frame is more exact: there, only the distance between the roots of two
        trees enters, and within one tree both transforms are bitwise equal.
        """
        X = self.apart(near, near_carrier, far, far_carrier)
        return Transform.of(np.eye(3), X.r) @ near.X, Transform.of(X.E.T, np.zeros(3)) @ far.X

    def first_moment(self, k: NodeRole) -> Array:
        """First mass moment of a node, which has a pose C, in the world's axes about its origin, (3,) [kg m]."""
        return k.C.moment_of(k.M)  # type: ignore[no-any-return]


class Zeros:
    """An input known to be zero, so that one recursion serves inverse dynamics, bias forces and gravity forces."""

    def __getitem__(self, k: NodeRole) -> Array:
        _, length = k.span("v")
        return np.zeros(length or 0)
