"""A cluster under construction: from its bodies, joints and constraints to a node kind with constants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from kinetree.model.assembly.node_constants import transforms
from kinetree.model.joint import Joint
from kinetree.model.joints.protocol import Stage
from kinetree.model.loops.aggregation import Cluster, Constraint
from kinetree.model.loops.cluster_kind import ClusterKind
from kinetree.model.loops.cluster_structure import ClusterStage, InnerConstants
from kinetree.model.loops.loop import Closure, Coupled, Loop
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.reproducible import product
from kinetree.spatial.transform import IDENTITY, Transform, composed
from kinetree.spatial.value import Array

_ROUNDING = 4.0 * float(np.finfo(float).eps)


class InnerStage(NamedTuple):
    """A joint stage inside a cluster; `at` is its pose in its parent at neutral q."""

    name: str
    joint: Joint
    parent: int
    stage: Stage
    at: Array
    armature: Array


class Built:
    """A cluster under construction, which becomes a node."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        self.cluster, self.node = cluster, node
        self.stages: list[InnerStage] = []
        self.exits: dict[int, int] = {}  # the nodes of exits, by stage
        # stage and pose of each body in it, −1 for the carrier; also of bodies outside at which loops end
        self.placed: dict[str, tuple[int, Array]] = {}

    def finished(self, inertias: Array) -> tuple[ClusterKind, Array]:
        """Its kind and constants, given the inertias of its bodies."""
        turn = self._axes(inertias)
        poses = [composed(turn, each.at) if each.parent < 0 else each.at for each in self.stages]
        placements = [_rounded(at[:9], at[9:]) for at in transforms(np.array(poses))]
        place = {each.joint.name: i for i, each in enumerate(self.stages)}
        inner, constants = [], []
        for each, placement, inertia in zip(self.stages, placements, inertias, strict=True):
            follows = (self.cluster.follows or {}).get(each.joint.name)
            formula = None if follows is None else follows.formula
            leaders = () if follows is None else tuple(place[leader] for leader in follows.leaders)
            massive, armed = bool(inertia.any()), bool(each.armature.any())
            inner.append(ClusterStage(each.parent, each.stage, massive, armed, formula, leaders))
            numbers = np.array(() if follows is None else follows.constants)
            own = Transform(placement), RigidInertia(inertia), each.armature, each.joint.own, numbers
            constants.append(InnerConstants(*own))
        outlets = tuple(sorted(self.exits))
        if self.cluster.follows is not None:
            kind = ClusterKind(tuple(inner), outlets)
            return kind, kind.parameters(constants, (), turn[:3, :3])
        first: dict[str, int] = {}  # of the rates of each joint, whatever its number of stages
        for each, start in zip(self.stages, accumulate((one.stage.nv for one in inner), initial=0), strict=False):
            first.setdefault(each.joint.name, start)
        rates = tuple(sorted(first[joint] + component for joint, component in self.cluster.independent))
        closed = [self._closed(constraint, place, turn) for constraint in self.cluster.constraints]
        kind = ClusterKind(tuple(inner), outlets, tuple(closure for closure, _ in closed), rates)
        return kind, kind.parameters(constants, [numbers for _, numbers in closed], turn[:3, :3])

    def _axes(self, inertias: Array) -> Array:
        """The pose of the carrier in the axes that are used inside, (4, 4).

        Those of the first joint, if all other axes are parallel or at right angles to it, though they are not to the
        carrier's. The turn costs about as much as an inertia inside, so there must be two of them.
        """
        inside = [i for i, own in enumerate(inertias) if own.any() and i not in self.exits]
        first = next(each for each in self.stages if each.parent < 0)
        if len(inside) < 2 or _aligned(first.at):
            return IDENTITY
        turn = IDENTITY.copy()
        turn[:3, :3] = first.at[:3, :3].T
        poses = (product(turn, each.at) if each.parent < 0 else each.at for each in self.stages)
        return turn if all(map(_aligned, poses)) else IDENTITY

    def _closed(self, constraint: Constraint, place: Mapping[str, int], turn: Array) -> tuple[Closure, Array]:
        """The formulas of a constraint, and their numbers."""
        if isinstance(constraint, Loop):
            ends = [self.placed[body] for body in constraint.bodies]
            (a, first), (b, second) = ((i, composed(turn, at) if i < 0 else at) for i, at in ends)
            return constraint.closure(a, b), _rounded(constraint.constants(first, second))
        how = constraint.expressed()
        leaders = tuple(place[leader] for leader in how.leaders)
        return Coupled(place[constraint.joints[0]], how.formula, leaders), np.array(how.constants)


def _aligned(pose: Array) -> bool:
    """Whether the z axes of two frames are parallel or at right angles, and the latter along x or y."""
    numbers = _rounded(np.concatenate([pose[2, :3], pose[:3, 2]]))
    return all(abs(number) in (0.0, 1.0) for number in numbers.tolist())


def _rounded(*parts: Array) -> Array:
    """Numbers in one array; in each part, what differs from 0, 1 or −1 by rounding errors only is replaced by that."""
    # plain numbers: NumPy would take ten times as long for so few
    return np.array([number for part in parts for number in _without_errors(part.tolist())])


def _without_errors(numbers: Sequence[float]) -> list[float]:
    small = _ROUNDING * max(map(abs, numbers), default=0.0)
    found = [0.0 if abs(number) <= small else number for number in numbers]
    return [math.copysign(1.0, number) if abs(abs(number) - 1.0) <= _ROUNDING else number for number in found]
