"""Assembles nodes from bodies and joints: merges fixed bodies, aligns axes with z, splits joints into stages.

Bodies whose joints are coupled become one node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, reduce
from itertools import accumulate
from operator import or_
from typing import Any, NamedTuple

import numpy as np

from kinetree.engines.groups import grouped, may_pay
from kinetree.errors import ModelError
from kinetree.model.aggregation import Cluster, Constraint
from kinetree.model.body import Body, Frame
from kinetree.model.closure import Closure, Coupled
from kinetree.model.cluster import ClusterKind
from kinetree.model.cluster_structure import Inner, InnerConstants
from kinetree.model.framing import UNCHANGED, changed, framed
from kinetree.model.general import ExitKind, GeneralKind, Node, size
from kinetree.model.joint import Joint
from kinetree.model.joints.base import Stage
from kinetree.model.loop import Loop
from kinetree.model.node import AxialBody, JointedBody
from kinetree.model.placement import NOWHERE, alignment, pose, pose_of, transform_of
from kinetree.model.record import frozen
from kinetree.model.shape import Shape, Steps, numbers_in, shared
from kinetree.model.slot import SlotKind
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.node import NodeKind
from kinetree.recursion.topology import WORLD, Topology
from kinetree.spatial.fixed import apply, product
from kinetree.spatial.inertia import RigidInertia, spread
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array

_ROWS3, _COLUMNS3 = np.triu_indices(3)
#: In larger trees, nodes of each shape suffice to fill lanes.
_MOST_ALIKE = 10_000


def assemble(
    bodies: Sequence[Body],
    joints: Mapping[str, Joint],
    frames: Sequence[Frame],
    gravity: Array,
    clusters: Clusters | None = None,
    reframed: bool = True,
) -> tuple[Mechanism, tuple[Site, ...]]:
    """The nodes of a model and its frames: the world's, each body's, then the extra ones.

    Args:
        bodies: Depth first.
        joints: The joint of each body, fixed ones included, by the body's name.
        frames: Extra frames.
        gravity: (3,) [m/s²].
        clusters: Bodies that form clusters, if there are any. Frames then refer to `Mechanism.reaching`.
        reframed: Whether nodes get frames in which placements take few steps, instead of their joints' own frames.
    """
    if clusters is None:
        rigid = _Assembly(bodies, joints, {}, [(body.name,) for body in bodies], reframed=reframed)
        return rigid.mechanism(gravity), rigid.sites(frames)
    # bodies inside a cluster need a twist of their own only if they carry something, or a frame of theirs is used
    members = {cluster.bodies[0]: cluster for cluster in clusters.clusters}
    lean = _Assembly(bodies, joints, members, clusters.order, reframed=reframed)
    full = _Assembly(bodies, joints, members, clusters.order, every=True, reframed=reframed)
    return replace(lean.mechanism(gravity), reaching=full.mechanism(gravity)), full.sites(frames)


def clusters_of(
    bodies: Sequence[Body], joints: Mapping[str, Joint], clusters: Clusters
) -> dict[str, tuple[ClusterKind, Array]]:
    """Formulas and constants of each cluster, by its first body; independent rates need not be known yet."""
    members = {cluster.bodies[0]: cluster for cluster in clusters.clusters}
    return _Assembly(bodies, joints, members, clusters.order).clusters()


class Clusters(NamedTuple):
    """The clusters of a model.

    Attributes:
        clusters: Each with its bodies.
        order: Bodies in the order of nodes; those of a cluster together, with the bodies that are fixed to them.
    """

    clusters: Sequence[Cluster]
    order: Sequence[tuple[str, ...]]


class _Assembly:
    """Nodes under construction.

    Args:
        bodies: Depth first.
        joints: The joint of each body, by the body's name.
        clusters: Clusters by their first body.
        order: Bodies in the order of nodes.
        every: Whether all bodies of clusters get exits.
        reframed: Whether nodes get frames in which their placements take few steps.
    """

    def __init__(
        self,
        bodies: Sequence[Body],
        joints: Mapping[str, Joint],
        clusters: Mapping[str, Cluster],
        order: Sequence[tuple[str, ...]],
        every: bool = False,
        reframed: bool = True,
    ) -> None:
        self._bodies, self._joints = bodies, joints
        self._by_name = {body.name: body for body in bodies}
        self._nodes: list[_Node] = []
        # factors of the poses of nodes, which are multiplied for all nodes at once
        self._factors: dict[int, tuple[Array, Array, Array]] = {}
        # the node that carries each body, and the pose of the body's link frame in it
        self._carriers: dict[str, tuple[int, Array]] = {"world": (WORLD, NOWHERE)}
        self._general: dict[str, Node] = {}
        self._clusters: list[_Built] = []
        # the place of each body that is inside a cluster
        self._inside: dict[str, tuple[_Built, int, Array]] = {}
        for group in order:
            if group[0] in clusters:
                self._add_cluster(clusters[group[0]], group, every)
            else:
                for name in group:
                    self._add(self._by_name[name], joints[name])
        self._multiply()
        if reframed:
            self._reframe()

    def _add(self, body: Body, joint: Joint) -> None:
        """Add a body that is not part of a cluster."""
        nodes, general = self._nodes, self._general
        if joint.parent in general:
            start = _outlet(body.name, joint, general[joint.parent])
            way_out = ExitKind(start, size(general[joint.parent]))
            parent = self._carriers[joint.parent][0]
            nodes.append(_Node(body.name, parent, way_out, NOWHERE, np.zeros(0), np.zeros(0)))
            self._carriers[body.name] = len(nodes) - 1, NOWHERE
            return
        carrier, at = self._carrier(joint.parent)
        placement = joint.placement
        if joint.node is not None:
            if body.mass:
                raise ModelError(f"{body.name!r} is a general node, and takes no mass: give it to a body on an outlet")
            placed = _composed(at, placement)
            nodes.append(_Node(body.name, carrier, joint.node.kind, placed, joint.armature, joint.own))
            self._carriers[body.name], general[body.name] = (len(nodes) - 1, NOWHERE), joint.node
            return
        for name, stage, turn, armature, back in _stages(body.name, joint):
            kind = _kind(stage, any(armature.tolist()))
            self._factors[len(nodes)] = at, placement, turn
            nodes.append(_Node(name, carrier, kind, NOWHERE, armature, joint.own))
            carrier, at, placement = len(nodes) - 1, back, NOWHERE
        self._carriers[body.name] = carrier, _composed(at, placement)

    def _multiply(self) -> None:
        """Compute the poses of nodes from their factors."""
        if self._factors:
            first, second, third = (_stacked(factors) for factors in zip(*self._factors.values(), strict=True))
            for k, at in zip(self._factors, product(product(first, second), third), strict=True):
                self._nodes[k].at = at

    def _carrier(self, name: str) -> tuple[int, Array]:
        """The node that carries a body, and the pose of its link frame there; an exit for bodies inside clusters."""
        if name not in self._inside:
            return self._carriers[name]
        built, index, at = self._inside[name]
        if index not in built.exits:
            none = np.zeros(0)
            self._nodes.append(_Node(built.stages[index].name, built.node, None, NOWHERE, none, none))
            built.exits[index] = len(self._nodes) - 1
        return built.exits[index], at

    def _add_cluster(self, cluster: Cluster, group: Sequence[str], every: bool) -> None:
        """Add a cluster, with the bodies that are fixed to its bodies."""
        parent, _ = self._carrier(cluster.carrier)
        shown = ", ".join(cluster.bodies[:4]) + (", …" if len(cluster.bodies) > 4 else "")
        none = np.zeros(0)
        self._nodes.append(_Node(f"cluster of {shown}", parent, None, NOWHERE, none, none))
        built = _Built(cluster, len(self._nodes) - 1)
        self._clusters.append(built)
        for name in group:
            joint = self._joints[name]
            if joint.parent in self._inside and self._inside[joint.parent][0] is built:
                _, index, at = self._inside[joint.parent]
            else:
                index, (_, at) = -1, self._carrier(joint.parent)
            at = _composed(at, joint.placement)
            for stage_name, stage, turn, armature, back in _stages(name, joint):
                place = _composed(at, turn)
                built.stages.append(_Stage(stage_name, joint, index, stage, place, armature))
                index, at = len(built.stages) - 1, back
            self._inside[name] = built, index, at
            built.placed[name] = index, at
        for constraint in cluster.constraints:
            for body in constraint.bodies if isinstance(constraint, Loop) else ():
                if body not in built.placed:
                    built.placed[body] = -1, self._carrier(body)[1]
        if every:
            carrying = {self._joints[body.name].parent for body in self._bodies if body.name not in group}
            for name in cluster.bodies:
                index = self._inside[name][1]
                fixed = [each for each in group if self._inside[each][1] == index]
                if not carrying.intersection(fixed):  # others get their exit with what they carry
                    self._carrier(name)

    def _reframe(self) -> None:
        """Move the frames of nodes to where their placements take few steps."""
        nodes, carrying_clusters = self._nodes, {self._nodes[built.node].parent for built in self._clusters}
        stages = [node.kind.joint if isinstance(node.kind, JointedBody) else None for node in nodes]
        poses = _stacked([node.at for node in nodes])
        changes, steps = framed([node.parent for node in nodes], poses, stages, carrying_clusters)
        here, moved = changed(changes), [change is not UNCHANGED for change in changes]
        alike: dict[int, list[int]] = {}
        for k, (node, own) in enumerate(zip(nodes, steps, strict=True)):
            if own is not None:
                alike.setdefault(id(node.kind), []).append(k)
                node.steps = own
            else:
                at = product(here[node.parent], node.at) if node.parent != WORLD and moved[node.parent] else node.at
                node.at = product(at, _inverse(here[k])) if moved[k] else at
        shapes = self._common_shapes({k: own.shape for k, own in enumerate(steps) if own is not None})
        for group in alike.values():
            kind, becomes = nodes[group[0]].kind, shared([shapes[k] for k in group])
            if isinstance(kind, JointedBody):
                kinds = {shape: _axial_kind(kind.joint, kind.has_armature, shape) for shape in set(becomes)}
                for k, shape in zip(group, becomes, strict=True):
                    nodes[k].kind = kinds[shape]
        carried = [(name, k, at) for name, (k, at) in self._carriers.items() if k != WORLD and moved[k]]
        if carried:
            poses = product(here[[k for _, k, _ in carried]], _stacked([at for _, _, at in carried]))
            self._carriers.update({name: (k, at) for (name, k, _), at in zip(carried, poses)})

    def _common_shapes(self, shapes: dict[int, Shape]) -> dict[int, Shape]:
        """The same shape for nodes that a single sample can compute at once, one per lane."""
        nodes, numbers = self._nodes, dict[Any, int]()
        topology = Topology(tuple(node.parent for node in nodes))
        if len(nodes) > _MOST_ALIKE or not may_pay(topology):
            return shapes
        variants = [numbers.setdefault((node.kind, node.parent == WORLD), len(numbers)) for node in nodes]
        found = dict(shapes)
        for group in grouped(topology, tuple(variants)):
            own = [shapes[k] for k in set(group) if k in shapes]
            if own:
                found |= dict.fromkeys((k for k in group if k in shapes), reduce(or_, own))
        return found

    def clusters(self) -> dict[str, tuple[ClusterKind, Array]]:
        """Formulas and constants of each cluster, without inertias, by its first body."""
        found = {}
        for built in self._clusters:
            found[built.cluster.bodies[0]] = built.finished(np.zeros((len(built.stages), RigidInertia.size)))
        return found

    def mechanism(self, gravity: Array) -> Mechanism:
        """The mechanism."""
        nodes = self._nodes
        # inertias belong to nodes, or to bodies inside clusters, which are numbered after the nodes
        firsts = accumulate((len(built.stages) for built in self._clusters), initial=len(nodes))
        first = dict(zip(self._clusters, firsts, strict=False))
        holders = []
        for body in self._bodies:
            if body.name in self._inside:
                built, index, at = self._inside[body.name]
                holders.append((first[built] + index, at))
            else:
                holders.append(self._carriers[body.name])
        count = len(nodes) + sum(len(built.stages) for built in self._clusters)
        inertias = _inertias(count, self._bodies, holders)
        for node, inertia in zip(nodes, inertias, strict=False):
            if isinstance(node.kind, ExitKind) and inertia.any():  # bodies are fixed to an outlet
                node.kind = replace(node.kind, loaded=True)
        constants: dict[int, Array] = {}
        alike: dict[ClusterKind, list[_Built]] = {}
        for built in self._clusters:
            own = inertias[first[built] : first[built] + len(built.stages)]
            general, constants[built.node] = built.finished(own)
            alike.setdefault(general, []).append(built)
        kinds: dict[_Built, ClusterKind] = {}
        for general, group in alike.items():
            patterns = general.patterns([constants[built.node] for built in group])
            kinds |= {built: replace(general, known=known) for built, known in zip(group, patterns, strict=True)}
        for built, kind in kinds.items():
            nodes[built.node].kind = kind
            for slot, index in enumerate(kind.outlets):
                k = built.exits[index]
                nodes[k].kind = SlotKind(slot, len(kind.outlets), kind.nv)
                constants[k] = np.zeros(0)
        return Mechanism(
            parents=tuple(node.parent for node in nodes),
            kinds=tuple(_known(node.kind) for node in nodes),
            parameters=_parameters(nodes, inertias, constants),
            names=tuple(node.name for node in nodes),
            gravity=gravity,
        )

    def sites(self, frames: Sequence[Frame]) -> tuple[Site, ...]:
        """The frames of the world and of all bodies, then the extra ones."""
        solid = [body.name for body in self._bodies if body.name not in self._general]
        named = [("world", *self._carriers["world"]), *((name, *self._carrier(name)) for name in solid)]
        for frame in frames:
            if frame.body in self._general:
                raise ModelError(f"frame {frame.name!r}: {_no_body(frame.body, self._general[frame.body])}")
            carrier, at = self._carrier(frame.body)
            named.append((frame.name, carrier, _composed(at, frame.placement)))
        rows = _transforms([at for _, _, at in named])
        return tuple(Site(name, node, row) for (name, node, _), row in zip(named, rows))


class _Stage(NamedTuple):
    """A joint stage inside a cluster; `at` is its pose in its parent at neutral q."""

    name: str
    joint: Joint
    parent: int
    stage: Stage
    at: Array
    armature: Array


class _Built:
    """A cluster under construction.

    Args:
        cluster: Its bodies and couplings.
        node: Its node.
    """

    def __init__(self, cluster: Cluster, node: int) -> None:
        self.cluster, self.node = cluster, node
        self.stages: list[_Stage] = []
        self.exits: dict[int, int] = {}  # the nodes of exits, by stage
        # stage and pose of each body in it, −1 for the carrier; also of bodies outside at which loops end
        self.placed: dict[str, tuple[int, Array]] = {}

    def finished(self, inertias: Array) -> tuple[ClusterKind, Array]:
        """Its kind and constants, given the inertias of its bodies."""
        turn = self._axes(inertias)
        poses = [product(turn, each.at) if each.parent < 0 else each.at for each in self.stages]
        placements = [_rounded(at[:9], at[9:]) for at in _transforms(poses)]
        place = {each.joint.name: i for i, each in enumerate(self.stages)}
        inner, constants = [], []
        for each, placement, inertia in zip(self.stages, placements, inertias, strict=True):
            follows = (self.cluster.follows or {}).get(each.joint.name)
            formula = None if follows is None else follows.formula
            leaders = () if follows is None else tuple(place[leader] for leader in follows.leaders)
            massive, armed = bool(inertia.any()), bool(each.armature.any())
            inner.append(Inner(each.parent, each.stage, massive, armed, formula, leaders))
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
        same, inside = np.eye(4), [i for i, own in enumerate(inertias) if own.any() and i not in self.exits]
        first = next(each for each in self.stages if each.parent < 0)
        turn = np.eye(4)
        turn[:3, :3] = first.at[:3, :3].T
        poses = [product(turn, each.at) if each.parent < 0 else each.at for each in self.stages]
        if len(inside) < 2 or _aligned(first.at) or not all(map(_aligned, poses)):
            return same
        return turn

    def _closed(self, constraint: Constraint, place: Mapping[str, int], turn: Array) -> tuple[Closure, Array]:
        """The formulas of a constraint, and their numbers."""
        if isinstance(constraint, Loop):
            ends = [self.placed[body] for body in constraint.bodies]
            (a, first), (b, second) = ((i, product(turn, at) if i < 0 else at) for i, at in ends)
            return constraint.closure(a, b), _rounded(constraint.constants(first, second))
        how = constraint.expressed()
        leaders = tuple(place[leader] for leader in how.leaders)
        return Coupled(place[constraint.joints[0]], how.formula, leaders), np.array(how.constants)


def _aligned(pose: Array) -> bool:
    """Whether the z axes of two frames are parallel or at right angles, and the latter along x or y."""
    numbers = _rounded(np.concatenate([pose[2, :3], pose[:3, 2]]))
    return bool(np.isin(numbers, (0.0, 1.0, -1.0)).all())


def _rounded(*parts: Array) -> Array:
    """Numbers in one array; in each part, what differs from 0, 1 or −1 by rounding errors only is replaced by that."""
    found = []
    for part in parts:
        close = 4.0 * np.finfo(float).eps * np.array([np.abs(part).max(initial=0.0), 1.0, 1.0])
        numbers = np.array(part)
        for value, tolerance in zip((0.0, 1.0, -1.0), close, strict=True):
            numbers[np.abs(numbers - value) <= tolerance] = value
        found.append(numbers)
    return np.concatenate(found)


def displaced(joint: Joint, q: Array) -> Array:
    """The pose of the child's link frame in the parent's at configuration q, (4, 4)."""
    at, link, start = np.eye(4), joint.placement, 0
    for index, stage in enumerate(joint.type.stages):
        turn = _turn(joint, index)
        # sums of objects are evaluated in order, unlike those of a BLAS
        neutral = Transform(_objects(transform_of(product(link, turn)).data))
        numbers = _objects(q[start : start + stage.nq])
        moved = Transform(stage.transform(neutral, _objects(joint.own), numbers).data.astype(float))
        at, link, start = product(at, pose_of(moved)), turn.T, start + stage.nq
    return product(at, link)


def _objects(numbers: Array) -> Array:
    return np.array([np.float64(x) for x in numbers], dtype=object)


# nodes of the same kind share one object
_kind, _axial_kind = cache(JointedBody), cache(AxialBody)


@dataclass(slots=True, eq=False)
class _Node:
    """A node under construction; `at` is its pose in its parent at neutral q. Clusters get their kind at the end.

    Those whose frame was chosen have their placement in `steps` instead.
    """

    name: str
    parent: int
    kind: JointedBody | GeneralKind | ExitKind | ClusterKind | SlotKind | None
    at: Array
    armature: Array
    own: Array
    steps: Steps | None = None


def _inverse(at: Array) -> Array:
    R = at[:3, :3].T
    return pose(R, -apply(R, at[:3, 3]))


def _known(kind: JointedBody | GeneralKind | ExitKind | ClusterKind | SlotKind | None) -> NodeKind:
    if kind is None:
        raise RuntimeError("a cluster was not finished")
    return kind


def _stages(body: str, joint: Joint) -> Iterator[tuple[str, Stage, Array, Array, Array]]:
    """For each stage of a joint: a name, the formulas, its frame in link axes, its armature, link axes in its frame."""
    stages, start = joint.type.stages, 0
    for count, stage in enumerate(stages, start=1):
        turn = _turn(joint, count - 1)
        name = body if count == len(stages) else f"{body} (stage {count} of {joint.name})"
        armature = joint.armature if len(stages) == 1 else joint.armature[start : start + stage.nv]
        start += stage.nv
        yield name, stage, turn, armature, turn if turn is NOWHERE else turn.T


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


def _turn(joint: Joint, stage: int) -> Array:
    """The pose, in link axes, of the node frame whose z is the stage's axis."""
    return _turned(*joint.axes[stage].tolist()) if len(joint.axes) else NOWHERE


@lru_cache(maxsize=4096)  # most axes are those of coordinates
def _turned(x: float, y: float, z: float) -> Array:
    if x == y == 0.0 < z:
        return NOWHERE
    turn: Array = NOWHERE.copy()
    turn[:3, :3] = alignment((x, y, z))
    return turn


def _composed(at: Array, pose: Array) -> Array:
    if at is NOWHERE:
        return pose
    return at if pose is NOWHERE else product(at, pose)


# The following functions are vectorised over all bodies.


def _stacked(arrays: Sequence[Array]) -> Array:
    """Matrices of equal shapes in one array, several times as fast as `np.array`."""
    return np.concatenate(arrays).reshape(len(arrays), *arrays[0].shape) if arrays else np.zeros((0, 4, 4))


def _transforms(poses: Sequence[Array]) -> Array:
    """The 12 numbers of `transform_of` for each pose, (n, 12), read-only."""
    stacked = _stacked(poses)
    turned = stacked[:, :3, :3].transpose(0, 2, 1).reshape(-1, 9)
    return _read_only(np.concatenate([turned, stacked[:, :3, 3]], axis=1))


def _inertias(count: int, bodies: Sequence[Body], carriers: Sequence[tuple[int, Array]]) -> Array:
    """The 10 numbers of the rigid inertia of each node, summed over the bodies merged into it, (count, 10)."""
    inertias = np.zeros((count, RigidInertia.size))
    carried = [(body, node, at) for body, (node, at) in zip(bodies, carriers) if node != WORLD]
    if not carried:
        return inertias
    at = _stacked([at for _, _, at in carried])
    R = at[:, :3, :3]
    mass = np.array([body.mass for body, _, _ in carried])[:, None]
    com = apply(R, _stacked([body.com for body, _, _ in carried])) + at[:, :3, 3]
    inertia = product(product(R, _stacked([body.inertia for body, _, _ in carried])), R.transpose(0, 2, 1))
    about_origin = (inertia + mass[:, :, None] * spread(com))[:, _ROWS3, _COLUMNS3]
    np.add.at(inertias, [node for _, node, _ in carried], np.concatenate([mass, mass * com, about_origin], axis=1))
    return inertias


def _parameters(nodes: Sequence[_Node], inertias: Array, clusters: Mapping[int, Array]) -> tuple[Array, ...]:
    """Constants of each node; those of clusters and their exits are given."""
    alike: dict[int, list[int]] = {}
    found: list[Array] = [_NONE] * len(nodes)
    for k, node in enumerate(nodes):
        if isinstance(node.kind, JointedBody):
            alike.setdefault(id(node.kind), []).append(k)
        elif isinstance(node.kind, GeneralKind | ExitKind):
            inertia = RigidInertia(inertias[k])
            found[k] = _read_only(node.kind.parameters(transform_of(node.at), inertia, node.armature, node.own))
        else:
            found[k] = _read_only(clusters[k])
    for group in alike.values():
        own = [nodes[k] for k in group]
        kind: Any = own[0].kind
        if isinstance(kind, AxialBody):
            placements = numbers_in(kind.shape, kind.joint.rotates, [node.steps for node in own if node.steps])
        else:
            placements = _transforms([node.at for node in own])
        last = _stacked([node.armature for node in own]), _stacked([node.own for node in own])
        for k, numbers in zip(group, _read_only(kind.laid_out(placements, inertias[group], *last)), strict=True):
            found[k] = numbers
    return tuple(found)


_NONE = np.zeros(0)


def _read_only(array: Array) -> Array:
    return frozen(array, array.shape)
