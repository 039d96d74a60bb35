"""Where the rates of joints and the constraints of loops are: their rows and columns of K."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError, UnknownNameError
from kinetree.model.aggregation import Cluster, Rate
from kinetree.model.joint import Joint
from kinetree.recursion.mechanism import Mechanism
from kinetree.spatial.value import Array


class Part(NamedTuple):
    """A cluster's part of all loop constraints.

    Attributes:
        constraints: In words.
        counts: Number of rows of each.
        joints: Names.
        rows: Its rows of K.
        columns: Its columns of K.
        dependent: Those of rates that are not independent.
    """

    constraints: tuple[str, ...]
    counts: tuple[int, ...]
    joints: tuple[str, ...]
    rows: range
    columns: tuple[int, ...]
    dependent: tuple[int, ...]


class Alike:
    """Parts of the same shape, which are computed together.

    Args:
        places: Their positions among all parts.
        parts: The parts.
    """

    def __init__(self, places: Sequence[int], parts: Sequence[Part]) -> None:
        self.places, self.parts = places, parts

    @cached_property
    def rows(self) -> Array:
        """(parts, rows)."""
        return np.array([part.rows for part in self.parts], dtype=np.intp)

    @cached_property
    def columns(self) -> Array:
        """(parts, columns)."""
        return np.array([part.columns for part in self.parts], dtype=np.intp)

    @cached_property
    def dependent(self) -> Array:
        """(parts, columns of dependent rates)."""
        return np.array([part.dependent for part in self.parts], dtype=np.intp)

    def block(self, K: Array, columns: Array) -> Array:
        """These columns of each part, (…, parts, rows, columns)."""
        found: Array = K[..., self.rows[:, :, None], columns[:, None, :]]
        return found


def parts_of(mechanism: Mechanism, joints: Sequence[Joint], clusters: Sequence[Cluster]) -> tuple[Part, ...]:
    """The clusters with loops."""
    starts, by_child = first_rates(joints), {joint.child: joint for joint in joints}
    nodes = {first: k for k, first in enumerate(mechanism.joint_starts[:-1]) if mechanism.kinds[k].loop_rows > 0}
    found = []
    for cluster in clusters:
        if cluster.follows is not None:
            continue
        own = [by_child[body] for body in cluster.bodies]
        columns = tuple(starts[joint.name] + i for joint in own for i in range(joint.type.nv))
        node = nodes[columns[0]]
        kind: Any = mechanism.kinds[node]
        independent = {starts[name] + i for name, i in cluster.independent}
        found.append(
            Part(
                tuple(map(str, cluster.constraints)),
                tuple(closure.rows for closure in kind.closures),
                tuple(joint.name for joint in own),
                range(mechanism.loop_starts[node], mechanism.loop_starts[node + 1]),
                columns,
                tuple(column for column in columns if column not in independent),
            )
        )
    return tuple(found)


def alike(parts: Sequence[Part]) -> tuple[Alike, ...]:
    """Parts by their shapes."""
    shapes: dict[tuple[int, int, int], list[int]] = {}
    for place, part in enumerate(parts):
        shapes.setdefault((len(part.rows), len(part.columns), len(part.dependent)), []).append(place)
    return tuple(Alike(places, [parts[place] for place in places]) for places in shapes.values())


def first_rates(joints: Sequence[Joint]) -> dict[str, int]:
    """Index of the first rate of each joint among those of all joints."""
    found, start = {}, 0
    for joint in joints:
        found[joint.name] = start
        start += joint.type.nv
    return found


def rates_of(joints: Sequence[Joint], given: Any) -> list[Rate]:
    """The rates of a joint by name, or one of them by a pair of a name and an index."""
    name, index = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    joint = next((joint for joint in joints if name in (joint.name, joint.child)), None)
    if joint is None:
        raise UnknownNameError("moving joint", name, tuple(joint.name for joint in joints))
    if index is None:
        return [(joint.name, i) for i in range(joint.type.nv)]
    if not isinstance(index, int) or not 0 <= index < joint.type.nv:
        raise InputError(f"joint {joint.name!r} has {joint.type.nv} velocities; there is none with index {index!r}")
    return [(joint.name, index)]
