"""How groups of nodes reach their parents: where these are, and the rounds in which their children add to them."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from kinetree.engines.groups import LANES
from kinetree.recursion.topology import WORLD
from kinetree.spatial.value import Array


class Parents(IntEnum):
    """How the parents of a group are arranged."""

    PASSED = 0  # as IN_LANE, in the group directly before this one, to which no other group adds
    IN_LANE = 1  # each in the lane of its only child in the group
    SHARED = 2  # each in the lanes of its children, of which there may be several
    SCATTERED = 3  # anywhere


class Rounds(NamedTuple):
    """The parents of all groups, and rounds. The world is a group after all others.

    Attributes:
        arrangement: For each group, how its parents are arranged (`Parents`).
        groups: The groups of the parents of its nodes, (n, LANES).
        lanes: Their lanes there, (n, LANES).
        first: The first of its rounds.
        last: The end of its rounds.
        added: For each round, the group that is added to.
        sources: For each of that group's lanes, the lane of the child that adds to it, (m, LANES).
        taking: Whether there is one, (m, LANES).
    """

    arrangement: Array
    groups: Array
    lanes: Array
    first: Array
    last: Array
    added: Array
    sources: Array
    taking: Array

    @property
    def is_scattered(self) -> Array:
        """For each group, whether its parents are anywhere."""
        found: Array = self.arrangement == Parents.SCATTERED
        return found


def rounds_of(members: Array, parents: Array) -> Rounds:
    """The rounds of a tree.

    Args:
        members: The nodes of all groups, (n, LANES).
        parents: For each node, its parent.
    """
    count, numbers = len(members), np.arange(len(members))
    every = np.append(members, np.full((1, LANES), WORLD), axis=0)
    group_of, lane_of = homes(members, len(parents))
    above = np.append(parents, WORLD)[members]
    groups, lanes = group_of[above], lane_of[above]

    in_lane = np.all(every[groups[:, 0]] == above, axis=1)
    # each child takes part in a round: one for each group of parents, and each child of the same parent, the last first
    child, lane = np.nonzero(lane_of[members] == np.arange(LANES))
    one, others = members[child, lane, None], members[child]
    siblings = (above[child] == above[child, lane, None]) & (lane_of[others] == np.arange(LANES))
    turn = np.count_nonzero(siblings & (others > one), axis=1)
    which = np.argmax(groups[child] == groups[child, lane, None], axis=1)
    keys, at, number = np.unique((child * LANES + which) * LANES + turn, return_index=True, return_inverse=True)
    added = groups[child, lane][at]
    sources, taking = np.zeros((2, len(keys), LANES), dtype=np.int64)
    for place in range(LANES):
        takes = every[groups[child, lane], place] == above[child, lane]
        sources[number[takes], place], taking[number[takes], place] = lane[takes], 1
    first, last = (np.searchsorted(keys, (numbers + i) * LANES**2) for i in range(2))

    arrangement = np.where(in_lane, np.where(last - first > 1, Parents.SHARED, Parents.IN_LANE), Parents.SCATTERED)
    alone = np.bincount(added, minlength=count + 1)[groups[:, 0]] == 1
    passed = (arrangement == Parents.IN_LANE) & alone & (groups[:, 0] == numbers - 1)
    arrangement[passed] = Parents.PASSED
    return Rounds(arrangement, groups, lanes, first, last, added, sources, taking)


def homes(members: Array, count: int) -> tuple[Array, Array]:
    """For each node, and for the world at the end, its group and its first lane there."""
    group_of, lane_of = np.zeros((2, count + 1), dtype=np.int64)
    group_of[WORLD] = len(members)
    for lane in reversed(range(LANES)):
        group_of[members[:, lane]], lane_of[members[:, lane]] = np.arange(len(members)), lane
    return group_of, lane_of
