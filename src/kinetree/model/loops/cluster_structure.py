"""The structure of a cluster: its joints, how they depend on each other, and where its constants are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from hashlib import sha256
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from kinetree.model.joints.protocol import Series, Stage
from kinetree.model.loops.coupling import Follower
from kinetree.model.loops.loop import Closure
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array

#: Kinds compiled for clusters that differ only in which of their constants are 0, 1 or −1.
_MOST_PATTERNS = 4


@dataclass(frozen=True)
class ClusterStage:
    """One joint stage inside a cluster, and the body that it moves."""

    parent: int  # index of the body's parent in the cluster, −1 for the carrier
    stage: Stage
    massive: bool = True  # whether the body has inertia; if not, the formulas contain none
    armed: bool = False  # whether the joint has armature
    follower: Follower | None = None  # how its coordinate follows from others, if it does
    leaders: tuple[int, ...] = ()  # indices of the joints that it follows

    @property
    def nq(self) -> int:
        """Number of its coordinates in q."""
        return self.stage.nq if self.follower is None else 0

    @property
    def nv(self) -> int:
        """Number of its independent rates."""
        return self.stage.nv if self.follower is None else 0

    @property
    def key(self) -> tuple[Any, ...]:
        """What its formulas depend on."""
        follower = None if self.follower is None else self.follower.name
        return self.parent, self.stage.name, self.massive, self.armed, follower, self.leaders


class InnerConstants(NamedTuple):
    """The constants of one inner body."""

    placement: Transform
    inertia: RigidInertia | None
    armature: Array | None
    own: Array
    follower: Array


@dataclass(frozen=True)
class ClusterStructure:
    """What clusters with the same formulas have in common, and how the constants of each are laid out.

    Attributes:
        inner: The joint stages, each after its parent.
        outlets: Those whose bodies carry something, or whose frames are needed, in order.
        closures: Constraints that close loops. If there are any, no joint is coupled explicitly.
        independent: With closures, the indices of the independent joint rates, in order.
        known: Positions of constants that are 0, 1 or −1, with their values. Axes of linkages are mostly parallel or
            at right angles, and operations with such numbers are left out of the compiled formulas.
    """

    inner: tuple[ClusterStage, ...]
    outlets: tuple[int, ...]
    closures: tuple[Closure, ...] = ()
    independent: tuple[int, ...] = ()
    known: tuple[tuple[int, float], ...] = ()

    @cached_property
    def name(self) -> str:
        structure = repr((
            tuple(each.key for each in self.inner),
            self.outlets,
            tuple(closure.key for closure in self.closures),
            self.independent,
            self.known,
        ))  # fmt: skip
        return f"cluster_of_{len(self.inner)}_{sha256(structure.encode()).hexdigest()[:16]}"

    @cached_property
    def nq(self) -> int:
        return sum(each.nq for each in self.inner)

    @cached_property
    def nv(self) -> int:
        return len(self.independent) if self.closures else sum(each.nv for each in self.inner)

    @cached_property
    def parameter_count(self) -> int:
        return self._turn_start + 9

    @cached_property
    def _turn_start(self) -> int:
        """Where the turn from the carrier's axes is among the constants."""
        return sum(_count(each) for each in self.inner) + sum(closure.constants for closure in self.closures)

    @cached_property
    def joint_rates(self) -> int:
        return sum(each.stage.nv for each in self.inner)

    @cached_property
    def loop_rows(self) -> int:
        return sum(closure.rows for closure in self.closures)

    @cached_property
    def series(self) -> Series:
        """The coordinates of all joints."""
        return Series(tuple(each.stage for each in self.inner))

    @cached_property
    def dependent(self) -> tuple[int, ...]:
        """With closures, the indices of the joint rates that follow from the independent ones."""
        return tuple(i for i in range(self.joint_rates) if i not in self.independent)

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """The first rate of each joint, followed by their number."""
        return tuple(accumulate((each.stage.nv for each in self.inner), initial=0))

    @cached_property
    def below(self) -> tuple[frozenset[int], ...]:
        """The joint rates that move each body."""
        found: list[frozenset[int]] = []
        for i, each in enumerate(self.inner):
            own = frozenset(range(self.firsts[i], self.firsts[i + 1]))
            found.append(own if each.parent < 0 else own | found[each.parent])
        return tuple(found)

    @cached_property
    def followers(self) -> tuple[tuple[int, Follower, tuple[int, ...]], ...]:
        """Coupled joints with their leaders, each after those that it follows."""
        order = TopologicalSorter({i: each.leaders for i, each in enumerate(self.inner)}).static_order()
        stages = [(i, self.inner[i]) for i in order]
        return tuple((i, each.follower, each.leaders) for i, each in stages if each.follower is not None)

    def parameters(self, inner: list[InnerConstants], closures: Sequence[Array], turn: Array) -> Array:
        """Lay out the constants of one cluster; `turn` is the rotation from the carrier's axes to those used inside."""
        parts: list[Array] = []
        for each, given in zip(self.inner, inner, strict=True):
            parts.append(given.placement.data)
            if each.massive and given.inertia is not None:
                parts.append(given.inertia.data)
            if each.armed and given.armature is not None:
                parts.append(given.armature)
            parts += [given.own, given.follower]
        return np.concatenate([*parts, *closures, turn.reshape(-1)]).astype(float)

    def patterns(self, clusters: Sequence[Array]) -> list[tuple[tuple[int, float], ...]]:
        """What each cluster with these constants could have as `known`: numbers of its geometry that are 0, 1 or −1.

        Each pattern is compiled, so if there would be too many, all have those numbers known that they have in common.
        """
        places: list[int] = []
        start = 0
        for each in self.inner:
            places += range(start, start + Transform.size)
            start += _count(each)
        places += range(start, self.parameter_count)
        patterns = [
            tuple((i, value) for i in places for value in (0.0, 1.0, -1.0) if constants[i] == value)
            for constants in clusters
        ]
        if len(set(patterns)) > _MOST_PATTERNS:
            common = frozenset(patterns[0]).intersection(*patterns)
            patterns = [tuple(sorted(common))] * len(patterns)
        return patterns

    def _numbers(self, parameters: Array) -> Array:
        """The constants, known ones as plain numbers."""
        if not self.known:
            return parameters
        numbers = list(parameters)
        for i, value in self.known:
            numbers[i] = value
        return np.array(numbers)

    def constants(self, parameters: Array) -> list[InnerConstants]:
        """The constants of each inner body."""
        parameters = self._numbers(parameters)
        found, start = [], 0

        def take(count: int) -> Array:
            nonlocal start
            start += count
            return parameters[start - count : start]

        for each in self.inner:
            placement = Transform(take(12))
            inertia = RigidInertia(take(10)) if each.massive else None
            armature = take(each.stage.nv) if each.armed else None
            own = take(each.stage.own)
            follower = take(0 if each.follower is None else each.follower.constants)
            found.append(InnerConstants(placement, inertia, armature, own, follower))
        return found

    def turn(self, parameters: Array) -> Array:
        """The rotation from the carrier's axes to those used inside, (9,)."""
        return self._numbers(parameters)[self._turn_start :]

    def closure_constants(self, parameters: Array) -> Iterator[tuple[Closure, Array]]:
        """The constraints that close loops, each with its constants."""
        parameters, start = self._numbers(parameters), sum(_count(each) for each in self.inner)
        for closure in self.closures:
            yield closure, parameters[start : start + closure.constants]
            start += closure.constants


def _count(each: ClusterStage) -> int:
    """Number of constants of an inner body."""
    follower = 0 if each.follower is None else each.follower.constants
    return 12 + 10 * each.massive + each.stage.nv * each.armed + each.stage.own + follower
