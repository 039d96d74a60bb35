"""Numbering of task rows, each of which is one scalar direction of a frame.

Rows are numbered so that those carried by any subtree are contiguous, as columns are, with those of the subtree's root
first. The user's order is kept if it satisfies this and all tasks are single frames; otherwise rows are sorted by the
node that carries them, the world first. Inputs and outputs keep the user's order.

Each end of a relative task has rows of its own. Corresponding rows of both ends share one position in the user's order,
where their sum is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

from kinetree.language.mechanism import WORLD, Mechanism, Site

#: Offset to the other end of a relative task.
_PARTNER = {"near": 1, "far": -1}


class Rows:
    """The task rows of a mechanism with given frames.

    Attributes:
        starts: For each frame, the number of its first row.
        task_starts: For each frame, the position of its first row in the order of the tasks.
        count: Number of rows.
        task_row_count: Number of task rows; smaller than `count` if there are relative tasks.
    """

    def __init__(self, mechanism: Mechanism, sites: Sequence[Site]) -> None:
        self._topology, self._sites = mechanism.topology, sites
        ends = tuple(accumulate(0 if site.part == "near" else len(site.rows) for site in sites))
        # a near end and the far end after it start at the same position
        self.task_starts = tuple(
            end - (0 if site.part == "near" else len(site.rows)) for end, site in zip(ends, sites, strict=True)
        )
        self.count = sum(len(site.rows) for site in sites)
        self.task_row_count = ends[-1] if ends else 0
        # ends of relative tasks share positions, and rows of the centre of mass come first
        kept = all(site.part == "frame" for site in sites) and self._together()
        self._order = sorted(range(len(sites)), key=lambda i: 0 if kept else sites[i].node)
        starts, self._firsts = [0] * len(sites), [0]
        for i in self._order:
            starts[i] = self._firsts[-1]
            self._firsts.append(self._firsts[-1] + len(sites[i].rows))
        self.starts = tuple(starts)

    @cached_property
    def task_rows(self) -> tuple[int, ...]:
        """For each row, its position in the user's order."""
        return tuple(self.task_starts[i] + local for i in self._order for local in range(len(self._sites[i].rows)))

    @property
    def in_order(self) -> bool:
        """Whether rows are numbered in the user's order."""
        return self.task_rows == tuple(range(self.count))

    @cached_property
    def _spans(self) -> dict[int, range]:
        """For each node, the frames that its subtree carries, as positions in the row order."""
        return self._between_first_and_last(self._order)

    def _between_first_and_last(self, order: Sequence[int]) -> dict[int, range]:
        spans: dict[int, range] = {}
        for place, i in enumerate(order):
            for k in self.path(i):
                spans[k] = range(spans[k].start if k in spans else place, place + 1)
        return spans

    def _together(self) -> bool:
        """Whether the user's order keeps each subtree's frames contiguous, with those of the subtree's root first."""
        carried = Counter(k for i in range(len(self._sites)) for k in self.path(i))
        own = Counter(site.node for site in self._sites)
        return all(
            len(span) == carried[k] and all(self._sites[i].node == k for i in span[: own[k]])
            for k, span in self._between_first_and_last(range(len(self._sites))).items()
        )

    @cached_property
    def groups(self) -> tuple[range, ...]:
        """The rows of each frame, in the row order."""
        return tuple(self.of(i) for i in self._order)

    def carried_groups(self, node: int) -> range:
        """Positions in `groups` of the frames that a node and its subtree carry."""
        return self._spans.get(node, range(0))

    def carried(self, node: int) -> range:
        """The rows of all frames that a node and its subtree carry."""
        groups = self.carried_groups(node)
        return range(self._firsts[groups.start], self._firsts[groups.stop])

    def following(self, node: int) -> range:
        """The rows after those that a node and its subtree carry; none if they carry none."""
        carried = self.carried(node)
        return range(carried.stop, self.count if carried else carried.stop)

    def of(self, frame: int) -> range:
        """The rows of a frame."""
        return range(self.starts[frame], self.starts[frame] + len(self._sites[frame].rows))

    @cached_property
    def tasks(self) -> tuple[range, ...]:
        """The positions of each task's rows in the user's order."""
        tasks = (
            (start, site) for start, site in zip(self.task_starts, self._sites, strict=True) if site.part != "near"
        )
        return tuple(range(start, start + len(site.rows)) for start, site in tasks)

    @cached_property
    def relatives(self) -> tuple[tuple[int, int], ...]:
        """The near and the far end of each relative task."""
        return tuple((i, i + 1) for i, site in enumerate(self._sites) if site.part == "near")

    def support(self, frame: int) -> tuple[int, ...]:
        """The nodes that move a frame, base first; for an end of a relative task, without those that move both ends."""
        part, own = self._sites[frame].part, self.path(frame)
        if part not in _PARTNER:
            return own
        both = set(self.path(frame + _PARTNER[part]))
        return tuple(k for k in own if k not in both)

    def path(self, frame: int) -> tuple[int, ...]:
        """The nodes from the base to the one that carries a frame."""
        return self._topology.support(self._sites[frame].node)

    @cached_property
    def common_ancestors(self) -> tuple[tuple[int, int, int], ...]:
        """Unordered pairs of frames, including each with itself, with their nearest common ancestor.

        Pairs whose only common ancestor is the world are left out. In a pair, the first frame's rows come first.
        """
        found = []
        for position, one in enumerate(self._order):
            for other in self._order[position:]:
                node = self._topology.nearest_common_ancestor(self._sites[one].node, self._sites[other].node)
                if node != WORLD:
                    found.append((node, one, other))
        return tuple(found)

    def branches(self, to: str) -> tuple[tuple[int, int, int], ...]:
        """For each pair, the nodes from its nearest common ancestor (exclusive) to one of the frames, with the pair.

        Args:
            to: "one" or "other".
        """
        found = []
        for node, one, other in self.common_ancestors:
            path = self._topology.support(self._sites[one if to == "one" else other].node)
            found += [(k, one, other) for k in path if k > node]
        return tuple(found)
