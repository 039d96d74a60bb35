"""Coordinates of all joints, those that follow others included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kinetree.model.joint import Joint
from kinetree.model.loops.coupling import Follows
from kinetree.spatial.value import Array


class _Followers(NamedTuple):
    """Joints with the same formula that can be computed at once.

    Attributes:
        formula: A `kinetree.model.loops.coupling.Follower`.
        constants: One array for each constant, (count,) each.
        places: Where their coordinates go, (count,).
        leaders: Where those of their leaders are, (leaders, count).
    """

    formula: Any
    constants: Array
    places: Array
    leaders: Array


class EveryJoint:
    """Where the coordinates of each joint are.

    Args:
        joints: The moving joints.
        follows: Joints without coordinates of their own, by name: how they follow from others.

    Attributes:
        places: Where the coordinates of each joint are among those of all, by name.
        size: Their number.
    """

    def __init__(self, joints: Sequence[Joint], follows: Mapping[str, Follows]) -> None:
        self.places: dict[str, slice] = {}
        self.size = 0
        own: list[int] = []
        for joint in joints:
            count = joint.type.nq
            self.places[joint.name] = slice(self.size, self.size + count)
            own += range(self.size, self.size + joint.nq)
            self.size += count
        self._own = np.array(own, dtype=np.intp)
        # followers of followers come later
        depths: dict[str, int] = {}
        for name in follows:
            _depth(name, follows, depths)
        groups: dict[tuple[int, Any], list[str]] = {}
        for name, depth in sorted(depths.items(), key=lambda item: item[1]):
            groups.setdefault((depth, follows[name].formula), []).append(name)
        self._followers = [self._group(formula, names, follows) for (_, formula), names in groups.items()]

    def _group(self, formula: Any, names: Sequence[str], follows: Mapping[str, Follows]) -> _Followers:
        leaders = [[self.places[leader].start for leader in follows[name].leaders] for name in names]
        return _Followers(
            formula,
            np.array([follows[name].constants for name in names]).T,
            np.array([self.places[name].start for name in names], dtype=np.intp),
            np.array(leaders, dtype=np.intp).T,
        )

    def of(self, q: Array) -> Array:
        """The coordinates of all joints, (…, size)."""
        every = np.empty((*q.shape[:-1], self.size), dtype=q.dtype)
        every[..., self._own] = q
        for formula, constants, places, leaders in self._followers:
            every[..., places] = formula.value(constants, [every[..., one] for one in leaders])
        return every


def _depth(name: str, follows: Mapping[str, Follows], known: dict[str, int]) -> int:
    """How many followers there are from a joint to the last leader."""
    pending = [name]
    while pending:
        leaders = [leader for leader in follows[pending[-1]].leaders if leader in follows]
        missing = [leader for leader in leaders if leader not in known]
        if not missing:
            known[pending.pop()] = 1 + max((known[leader] for leader in leaders), default=0)
        pending += missing
    return known[name]
