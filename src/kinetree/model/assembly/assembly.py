"""Assembles nodes from bodies and joints.

Bodies behind fixed joints are merged into others, joints split into stages whose axes are z, and bodies whose joints
depend on each other become one node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from kinetree.errors import ModelError
from kinetree.language.mechanism import WORLD, Mechanism, Site
from kinetree.language.node import NodeKind
from kinetree.model.assembly.frames import Reframed, distinct, reframe
from kinetree.model.assembly.node_constants import (
    NONE,
    DraftKind,
    NodeDraft,
    constants_of,
    inertias_of,
    jointed_kind,
    stacked,
    transforms,
)
from kinetree.model.assembly.stages import merged_poses, stages_of
from kinetree.model.body import Body, Frame
from kinetree.model.joint import Joint
from kinetree.model.joints.free import Welded
from kinetree.model.loops.aggregation import Cluster, Clustering, Constraint
from kinetree.model.loops.cluster_kind import ClusterKind, SlotKind
from kinetree.model.loops.cluster_structure import ClusterStage, InnerConstants
from kinetree.model.loops.inner_nodes import InnerMotion, NodeOutlet, NodeRoot
from kinetree.model.loops.loop import Closure, Coupled, Loop
from kinetree.model.nodes.general import ExitKind, Node, size
from kinetree.runtime.bound import ieee_default
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.reproducible import product
from kinetree.spatial.transform import IDENTITY, Transform, composed
from kinetree.spatial.value import Array

#: The joint of bodies that are not merged into others.
WELDED = Welded()

_ROUNDING = 4.0 * float(np.finfo(float).eps)


class Assembled(NamedTuple):
    """A model as recursions see it; `sites` computes its frames: the world's, each body's, then the extra ones."""

    mechanism: Mechanism
    sites: Callable[[], tuple[Site, ...]]


def assemble(
    bodies: Sequence[Body],
    joints: Mapping[str, Joint],
    frames: Sequence[Frame],
    gravity: Array,
    clustering: Clustering | None = None,
    reframed: bool = True,
    merged: bool = True,
) -> Assembled:
    """The nodes of a model and its frames.

    Args:
        bodies: Depth first.
        joints: The joint of each body, fixed ones included, by the body's name.
        frames: Extra frames.
        gravity: (3,) [m/s²].
        clustering: Bodies that form clusters, if there are any. Frames then refer to `Mechanism.reaching`.
        reframed: Whether nodes get frames in which placements take few steps, instead of their joints' own frames.
        merged: Whether bodies behind fixed joints become part of others, instead of nodes without degrees of freedom.
    """
    how = {"reframed": reframed, "merged": merged}
    if clustering is None or not clustering.clusters:
        rigid = Assembly(bodies, joints, (), [(body.name,) for body in bodies], **how)
        return Assembled(rigid.mechanism(gravity), partial(rigid.sites, frames))
    clusters, order, _ = clustering
    # bodies inside a cluster need a twist of their own only if they carry something, or a frame of theirs is used
    lean = Assembly(bodies, joints, clusters, order, **how)

    @cache
    def full() -> Assembly:
        return Assembly(bodies, joints, clusters, order, every=True, **how)

    @cache
    @ieee_default
    def reaching() -> Mechanism:
        return full().mechanism(gravity)

    mechanism = replace(lean.mechanism(gravity), with_every_frame=reaching)
    return Assembled(mechanism, lambda: full().sites(frames))


def clusters_of(
    bodies: Sequence[Body], joints: Mapping[str, Joint], clusters: Sequence[Cluster], order: Sequence[tuple[str, ...]]
) -> dict[str, tuple[ClusterKind, Array]]:
    """Formulas and constants of each cluster, by its first body; independent rates need not be known yet."""
    return Assembly(bodies, joints, clusters, order).clusters()


class Assembly:
    """Nodes under construction; `every` body of a cluster may get an exit, or only those that carry something."""

    def __init__(
        self,
        bodies: Sequence[Body],
        joints: Mapping[str, Joint],
        clusters: Sequence[Cluster],
        order: Sequence[tuple[str, ...]],
        every: bool = False,
        reframed: bool = True,
        merged: bool = True,
    ) -> None:
        self._bodies, self._joints = bodies, joints
        self._by_name = {body.name: body for body in bodies}
        self._merging, self._merged = merged, merged_poses(bodies, joints)
        self._nodes: list[NodeDraft] = []
        # factors of the pose of each node in its parent, which are multiplied for all nodes at once
        self._factors: list[tuple[Array, Array, Array]] = []
        # the node that carries each body, and the pose of the body's link frame in it
        self._carriers: dict[str, tuple[int, Array]] = {"world": (WORLD, IDENTITY)}
        self._general: dict[str, Node] = {}
        self._clusters: list[Built] = []
        # the place of each body that is inside a cluster
        self._inside: dict[str, tuple[Built, int, Array]] = {}
        firsts = {cluster.bodies[0]: cluster for cluster in clusters}
        for group in order:
            if group[0] in firsts:
                self._add_cluster(firsts[group[0]], group, every)
            else:
                for name in group:
                    self._add(self._by_name[name], joints[name])
        self._placed = self._frames(reframed)

    def _add(self, body: Body, joint: Joint) -> None:
        """Add a body that is not part of a cluster."""
        general = self._general
        if joint.parent in general:
            start = _outlet(body.name, joint, general[joint.parent])
            way_out = ExitKind(start, size(general[joint.parent]))
            node = self._append(NodeDraft(body.name, self._carriers[joint.parent][0], way_out, NONE, NONE))
            self._carriers[body.name] = node, IDENTITY
            return
        carrier, at = self._carrier(joint.parent)
        if joint.kind == "fixed":
            if not self._merging:
                draft = NodeDraft(body.name, carrier, jointed_kind(WELDED, False), NONE, NONE)
                self._carriers[body.name] = self._append(draft, at, joint.placement), IDENTITY
                return
            self._carriers[body.name] = carrier, self._merged[body.name]
            return
        placement, own = joint.placement, joint.own
        if joint.node is not None:
            self._add_general(body, joint.node)
            draft = NodeDraft(body.name, carrier, joint.node.kind, joint.armature, own)
            self._carriers[body.name] = self._append(draft, at, placement), IDENTITY
            return
        for name, stage, turn, back, armature in stages_of(body.name, joint):
            kind = jointed_kind(stage, any(armature.tolist()))
            carrier = self._append(NodeDraft(name, carrier, kind, armature, own), at, placement, turn)
            at, placement = back, IDENTITY
        self._carriers[body.name] = carrier, at

    def _append(
        self, node: NodeDraft, at: Array = IDENTITY, placement: Array = IDENTITY, turn: Array = IDENTITY
    ) -> int:
        """Add a node whose pose in its parent is a product of three; returns its number."""
        self._nodes.append(node)
        self._factors.append((at, placement, turn))
        return len(self._nodes) - 1

    def _carrier(self, name: str) -> tuple[int, Array]:
        """The node that carries a body, and the pose of its link frame there; an exit for bodies inside clusters."""
        if name not in self._inside:
            return self._carriers[name]
        built, index, at = self._inside[name]
        if index not in built.exits:
            built.exits[index] = self._append(NodeDraft(built.stages[index].name, built.node, None, NONE, NONE))
        return built.exits[index], at

    def _add_cluster(self, cluster: Cluster, group: Sequence[str], every: bool) -> None:
        """Add a cluster, with the bodies that are fixed to its bodies."""
        parent, _ = self._carrier(cluster.carrier)
        shown = ", ".join(cluster.bodies[:4]) + (", …" if len(cluster.bodies) > 4 else "")
        built = Built(cluster, self._append(NodeDraft(f"cluster of {shown}", parent, None, NONE, NONE)))
        self._clusters.append(built)
        for name in group:
            joint = self._joints[name]
            if joint.parent in self._inside and self._inside[joint.parent][0] is built:
                _, index, at = self._inside[joint.parent]
            else:
                index, (_, at) = -1, self._carrier(joint.parent)
            at = self._inner_start(name, joint, at)
            for (stage_name, stage, turn, back, armature), own in self._inner_stages(name, joint):
                place = composed(at, turn)
                built.stages.append(InnerStage(stage_name, joint, index, stage, place, armature, own))
                index, at = len(built.stages) - 1, back
            self._inside[name] = built, index, at
            built.placed[name] = index, at
        for constraint in cluster.constraints:
            for body in constraint.bodies if isinstance(constraint, Loop) else ():
                if body not in built.placed:
                    built.placed[body] = -1, self._carrier(body)[1]
        if every:
            carrying = {self._joints[body.name].parent for body in self._bodies if body.name not in group}
            for name in (body for body in cluster.bodies if body not in self._general):
                index = self._inside[name][1]
                fixed = [each for each in group if self._inside[each][1] == index]
                if not carrying.intersection(fixed):  # others get their exit with what they carry
                    self._carrier(name)

    def _inner_start(self, _name: str, joint: Joint, at: Array) -> Array:
        """Where the first stage of a joint inside a cluster starts, given the link frame of the parent."""
        return composed(at, joint.placement)

    def _inner_stages(self, name: str, joint: Joint) -> Sequence[tuple[Inner, Array]]:
        """The stages of a joint inside a cluster, as `stages_of`, each with its constants.

        A general node has its root and its outlets.
        """
        if joint.node is not None:
            self._add_general(self._by_name[name], joint.node)
            return [((name, NodeRoot(joint.node.kind), IDENTITY, IDENTITY, joint.armature), joint.own)]
        if joint.parent in self._general:
            node = self._general[joint.parent]
            return [((name, NodeOutlet(node.kind, _outlet(name, joint, node)), IDENTITY, IDENTITY, NONE), joint.own)]
        return [(stage, joint.own) for stage in stages_of(name, joint)]

    def _add_general(self, body: Body, node: Node) -> None:
        if body.mass:
            raise ModelError(f"{body.name!r} is a general node, and takes no mass: give it to a body on an outlet")
        self._general[body.name] = node

    def _frames(self, reframed: bool) -> Reframed:
        """The frames of nodes; bodies that they carry get poses in these."""
        # bodies of large robots are alike, and so are their poses
        factors = self._factors
        placed, first = distinct([(id(at), placement.tobytes(), id(turn)) for at, placement, turn in factors])
        before, between, behind = ([factors[k][i] for k in first] for i in range(3))
        poses = stacked(between)
        if any(at is not IDENTITY for at in before):
            poses = product(stacked(before), poses)
        if any(turn is not IDENTITY for turn in behind):
            poses = product(poses, stacked(behind))
        if not reframed:
            return Reframed(poses[placed], np.zeros((len(placed), 9)), np.tile(IDENTITY, (len(placed) + 1, 1, 1)))
        found = reframe(self._nodes, placed, poses, {self._nodes[built.node].parent for built in self._clusters})
        nodes, at = zip(*self._carriers.values(), strict=True)
        poses = product(found.here[list(nodes)], stacked(at))
        self._carriers = dict(zip(self._carriers, zip(nodes, poses, strict=True), strict=True))
        return found

    def _held(self, first: Mapping[Built, int]) -> tuple[Array, Array]:
        """What carries each body, nodes or places inside clusters, and the poses of their link frames there."""
        inside = {name: (first[built] + index, at) for name, (built, index, at) in self._inside.items()}
        every = self._carriers | inside
        holders = [every[body.name] for body in self._bodies]
        return np.array([carrier for carrier, _ in holders], dtype=int), stacked([at for _, at in holders])

    def clusters(self) -> dict[str, tuple[ClusterKind, Array]]:
        """Formulas and constants of each cluster, without inertias, by its first body."""
        zero = RigidInertia.zero().data
        return {
            built.cluster.bodies[0]: built.finished(np.tile(zero, (len(built.stages), 1))) for built in self._clusters
        }

    def mechanism(self, gravity: Array) -> Mechanism:
        """The mechanism."""
        nodes = self._nodes
        # inertias belong to nodes, or to bodies inside clusters, which are numbered after the nodes
        *starts, count = accumulate((len(built.stages) for built in self._clusters), initial=len(nodes))
        first = dict(zip(self._clusters, starts, strict=True))
        inertias = inertias_of(count, self._bodies, *self._held(first))
        for node, inertia in zip(nodes, inertias, strict=False) if self._general else ():
            if isinstance(node.kind, ExitKind) and inertia.any():  # bodies are fixed to an outlet
                node.kind = replace(node.kind, loaded=True)
        constants: dict[int, Array] = {}
        alike: dict[ClusterKind, list[Built]] = {}
        for built in self._clusters:
            own = inertias[first[built] : first[built] + len(built.stages)]
            general, constants[built.node] = self._finished(built, own)
            alike.setdefault(general, []).append(built)
        for general, group in alike.items():
            patterns = general.patterns([constants[built.node] for built in group])
            for built, known in zip(group, patterns, strict=True):
                nodes[built.node].kind = replace(general, known=known)
                for slot, index in enumerate(general.outlets):
                    nodes[built.exits[index]].kind = SlotKind(slot, len(general.outlets), general.nv)
                    constants[built.exits[index]] = NONE
        return Mechanism(
            parents=tuple(node.parent for node in nodes),
            kinds=tuple(_known(node.kind) for node in nodes),
            parameters=constants_of(nodes, self._placed.at, self._placed.steps, inertias, constants),
            names=tuple(node.name for node in nodes),
            gravity=gravity,
        )

    def _finished(self, built: Built, inertias: Array) -> tuple[ClusterKind, Array]:
        """The kind and constants of a cluster."""
        return built.finished(inertias)

    def sites(self, frames: Sequence[Frame]) -> tuple[Site, ...]:
        """The frames of the world and of all bodies, then the extra ones."""
        solid = [body.name for body in self._bodies if body.name not in self._general]
        named = [("world", *self._carriers["world"]), *((name, *self._carrier(name)) for name in solid)]
        for frame in frames:
            if frame.body in self._general:
                raise ModelError(f"frame {frame.name!r}: {_no_body(frame.body, self._general[frame.body])}")
            carrier, at = self._carrier(frame.body)
            named.append((frame.name, carrier, composed(at, frame.placement)))
        rows = transforms(stacked([at for _, _, at in named]))
        return tuple(Site(name, node, row) for (name, node, _), row in zip(named, rows))


def _known(kind: DraftKind | None) -> NodeKind:
    if kind is None:
        raise RuntimeError("a cluster was not finished")
    return kind


def _outlet(body: str, joint: Joint, node: Node) -> int:
    """Where the twist of an outlet starts in its node's velocity."""
    name = body.removeprefix(f"{joint.parent}/")
    if joint.kind != "fixed" or name == body or name not in node.outlets:
        raise ModelError(f"body {body!r}: {_no_body(joint.parent, node)}")
    return node.outlets[name]


def _no_body(name: str, node: Node) -> str:
    outlets = ", ".join(repr(f"{name}/{outlet}") for outlet in node.outlets)
    fix = f"hang it on one of its outlets: {outlets}" if outlets else "it has no outlets that could carry anything"
    return f"{name!r} is a general node, not a body; {fix}"


#: A stage, as of `stages_of`.
Inner = tuple[str, InnerMotion, Array, Array, Array]


class InnerStage(NamedTuple):
    """A joint stage inside a cluster; `at` is its pose in its parent at neutral q, `own` its constants."""

    name: str
    joint: Joint
    parent: int
    stage: InnerMotion
    at: Array
    armature: Array
    own: Array


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
            own = Transform(placement), RigidInertia(inertia), each.armature, each.own, numbers
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
