"""Clusters: the smallest sets of bodies that constraints join, each of which becomes one node of the tree.

A loop takes the bodies on both of its sides, up to their nearest common ancestor. A coupling takes the bodies of its
joints and those between them, likewise; if the ancestor is the body of one of the coupled joints, it is inside as well.
Sets that share a body are merged. Each set then hangs on exactly one body, its carrier: ancestors of a shared body lie
on one path, so the lower carrier is a member of the other set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate
from typing import Any, NamedTuple

from kinetree.errors import InputError, ModelError, UnknownNameError
from kinetree.language.mechanism import depth_first
from kinetree.model.body import Body
from kinetree.model.joint import Joint
from kinetree.model.loops.coupling import Coupling, Follows, LinearCoupling
from kinetree.model.loops.loop import Loop
from kinetree.spatial.value import Array

#: Bodies in one cluster; the code of a cluster grows with it, and so does the time to compile.
MOST_BODIES = 64
# coefficients and residuals below this fraction of the coupling's own numbers are rounding
_ROUNDING = 1e-12

Constraint = Coupling | Loop

#: An independent rate: a joint's name, and which of its velocities.
Rate = tuple[str, int]


@dataclass(frozen=True)
class Cluster:
    """Bodies that constraints join, so that they move as one node.

    Attributes:
        bodies: Their names, each after its parent.
        carrier: The body that carries them, or "world".
        follows: Coupled joints, by name: how their coordinates follow from others. None if q holds the coordinates of
            all joints, because they depend on each other implicitly.
        independent: In that case, the independent rates.
    """

    bodies: tuple[str, ...]
    carrier: str
    constraints: tuple[Constraint, ...]
    follows: Mapping[str, Follows] | None
    independent: tuple[Rate, ...] = ()


class Clustering(NamedTuple):
    """What the geometry of joints and their constraints determine.

    Attributes:
        clusters: The clusters of a model.
        order: Bodies in the order of nodes, those of a cluster together with the bodies that are fixed to them; empty
            if there are no clusters.
        q: A configuration with closed loops: coordinates of the joints on loops, by name.
    """

    clusters: tuple[Cluster, ...]
    order: Sequence[tuple[str, ...]]
    q: Mapping[str, Array]


def first_rates(joints: Sequence[Joint]) -> dict[str, int]:
    """Index of the first rate of each joint among those of all joints."""
    starts = accumulate((joint.type.nv for joint in joints), initial=0)
    return {joint.name: start for joint, start in zip(joints, starts, strict=False)}


def rates_of(joints: Sequence[Joint], given: Any) -> list[Rate]:
    """The rates of a joint by name, or one of them by a pair of a name and an index."""
    name, index = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    joint = next((joint for joint in joints if joint.name == name), None)
    if joint is None:
        raise UnknownNameError("moving joint", name, tuple(joint.name for joint in joints))
    if index is None:
        return [(joint.name, i) for i in range(joint.type.nv)]
    if not isinstance(index, int) or not 0 <= index < joint.type.nv:
        raise InputError(f"joint {joint.name!r} has {joint.type.nv} velocities; there is none with index {index!r}")
    return [(joint.name, index)]


class Linkage:
    """The moving bodies of a model, with everything fixed to them; bodies are given depth first, joints by body."""

    def __init__(self, bodies: Sequence[Body], joints: Mapping[str, Joint]) -> None:
        self.joints = joints
        self.rank = {body.name: i for i, body in enumerate(bodies)}
        #: The moving body that a body is fixed to: itself if it moves, or "world". Outlets of nodes count as moving.
        self.hub = {"world": "world"}
        #: General nodes, with the bodies on their outlets.
        self.outlets: dict[str, set[str]] = {body.name: set() for body in bodies if joints[body.name].node is not None}
        for body in bodies:
            moves = joints[body.name].type.nv or body.name in self.outlets or body.parent in self.outlets
            if body.parent in self.outlets:
                self.outlets[body.parent].add(body.name)
            self.hub[body.name] = body.name if moves else self.hub[body.parent]
        self.parent = {name: self.hub[joints[name].parent] for name in self.rank if self.hub[name] == name}
        self.by_name = {joint.name: joint for joint in joints.values()}
        self._ways: dict[str, list[str]] = {}

    def way(self, hub: str) -> list[str]:
        """A moving body and its ancestors, up to the world."""
        if hub not in self._ways:
            found = [hub]
            while found[-1] != "world":
                found.append(self.parent[found[-1]])
            self._ways[hub] = found
        return self._ways[hub]


def aggregate(
    linkage: Linkage, constraints: Sequence[Constraint], independent: Iterable[Rate] = ()
) -> tuple[Cluster, ...]:
    """The clusters of a model, in the order of their first bodies.

    Raises:
        ModelError: If couplings contradict each other, or leave a joint without freedom; names them.
    """
    sets: dict[str, tuple[set[str], list[Constraint]]] = {}  # the set of each body in a cluster
    for constraint in constraints:
        if isinstance(constraint, Loop):
            inside = _around(linkage, constraint)
        else:
            inside = _between(linkage, [_coupled(linkage, constraint, name) for name in constraint.joints])
        joined = [constraint]
        for other in {id(sets[body]): sets[body] for body in inside if body in sets}.values():
            inside |= other[0]
            joined = [*other[1], *joined]
        merged = inside, joined
        sets.update(dict.fromkeys(inside, merged))
    clusters, rank = [], {id(constraint): i for i, constraint in enumerate(constraints)}
    chosen = {name for name, _ in independent}
    for inside, joined in {id(each): each for each in sets.values()}.values():
        bodies = tuple(sorted(inside, key=linkage.rank.__getitem__))
        joined.sort(key=lambda constraint: rank[id(constraint)])
        if len(bodies) > MOST_BODIES:
            raise ModelError(
                f"couplings or loops join {len(bodies)} bodies, from {bodies[0]!r} to {bodies[-1]!r}, into a cluster; "
                f"at most {MOST_BODIES} are supported. Leave some joints independent, or lock them"
            )
        (carrier,) = {linkage.parent[body] for body in bodies} - inside
        couplings = [one for one in joined if not isinstance(one, Loop)]
        follows = followers(couplings, chosen) if len(couplings) == len(joined) else None
        clusters.append(Cluster(bodies, carrier, tuple(joined), follows))
    return tuple(sorted(clusters, key=lambda cluster: linkage.rank[cluster.bodies[0]]))


def _around(linkage: Linkage, loop: Loop) -> set[str]:
    """The bodies of a loop, without the one that carries both of its sides."""
    ends = [linkage.hub[body] for body in loop.bodies]
    if ends[0] == ends[1]:
        raise ModelError(f"{loop}: both frames are fixed to the same body, so there is no loop to close")
    return _below(linkage, ends, _common(linkage, ends))


def _coupled(linkage: Linkage, coupling: Coupling, name: str) -> str:
    """The body of a coupled joint."""
    if name not in linkage.by_name:
        raise UnknownNameError(f"joint (needed for the coupling {coupling})", name, tuple(linkage.by_name))
    joint = linkage.by_name[name]
    if (joint.type.nq, joint.type.nv) != (1, 1):
        raise ModelError(
            f"coupling {coupling}: {name!r} is a {joint.kind} joint; only joints with one coordinate can be coupled"
        )
    return joint.child


def _between(linkage: Linkage, ends: Sequence[str]) -> set[str]:
    """The bodies that a coupling of the joints in front of some bodies takes."""
    top = _common(linkage, ends)
    return _below(linkage, ends, linkage.parent[top] if top in ends else top)


def _common(linkage: Linkage, bodies: Sequence[str]) -> str:
    """The nearest common ancestor."""
    ways = [linkage.way(body) for body in bodies]
    common = set(ways[0]).intersection(*ways[1:])
    return next(body for body in ways[0] if body in common)


def _below(linkage: Linkage, ends: Sequence[str], top: str) -> set[str]:
    """All bodies from an ancestor, without it, to some bodies; general nodes are whole, with all of their outlets."""
    if top in linkage.outlets:
        top = linkage.parent[top]
    ways = [linkage.way(end) for end in ends]
    found = {body for way in ways for body in way[: way.index(top)]}
    return found.union(*(outlets for node, outlets in linkage.outlets.items() if node in found))


def followers(couplings: Sequence[Coupling], independent: set[str]) -> dict[str, Follows]:
    """The coupled joints of a cluster expressed by others, so that no leader of a linear coupling follows in one.

    Joints in `independent` must not follow others.
    """
    found: dict[str, Follows] = {}
    for coupling in couplings:
        if isinstance(coupling, LinearCoupling):
            continue
        name = coupling.joints[0]
        if name in independent:
            raise ModelError(f"joint {name!r} is chosen as independent, but depends on others: {coupling}")
        if name in found:
            raise ModelError(f"couplings contradict each other: joint {name!r} follows twice; the second is {coupling}")
        found[name] = coupling.expressed()
    linear = [coupling for coupling in couplings if isinstance(coupling, LinearCoupling)]
    for name, (slopes, offset) in _eliminated(linear, independent | set(found)).items():
        found[name] = Follows.linearly(slopes, offset)
    in_order(found)  # raises if there is none
    return found


def _eliminated(couplings: Sequence[LinearCoupling], kept: set[str]) -> dict[str, tuple[dict[str, float], float]]:
    """Slopes and offset of each joint that linear couplings express by others."""
    known: dict[str, tuple[dict[str, float], float]] = {}
    for coupling in couplings:
        row: dict[str, float] = {}
        rest = coupling.offset
        size, level = 0.0, abs(rest)
        for joint, c in zip(coupling.joints, coupling.coefficients.tolist(), strict=True):
            slopes, offset = known.get(joint, ({joint: 1.0}, 0.0))
            rest -= c * offset
            level = max(level, abs(c * offset))
            for leader, slope in slopes.items():
                row[leader] = row.get(leader, 0.0) + c * slope
                size = max(size, abs(c * slope))
        row = {joint: c for joint, c in row.items() if abs(c) > _ROUNDING * size}
        if not row:
            if abs(rest) > 1e3 * _ROUNDING * max(level, 1e-300):
                raise ModelError(
                    f"couplings contradict each other: {coupling} is violated by {abs(rest):g} for any motion that the "
                    "others allow; delete one or correct its offset"
                )
            continue
        free = [joint for joint in (*coupling.joints, *row) if joint in row and joint not in kept]
        if not free:
            named = ", ".join(map(repr, row))
            raise ModelError(f"{named} cannot all be independent: {coupling}; leave one of them out")
        pivot = free[0]
        c = row.pop(pivot)
        own = {joint: -other / c for joint, other in row.items()}, rest / c
        for follower, (slopes, offset) in list(known.items()):
            if pivot in slopes:
                share = slopes.pop(pivot)
                for joint, slope in own[0].items():
                    slopes[joint] = slopes.get(joint, 0.0) + share * slope
                known[follower] = slopes, offset + share * own[1]
        known[pivot] = own
    for joint, (slopes, offset) in known.items():
        if not slopes:
            involved = "; ".join(str(coupling) for coupling in couplings if joint in coupling.joints)
            raise ModelError(
                f"couplings leave joint {joint!r} no freedom: they hold it at {offset:g} ({involved}). Delete one of "
                "them, or lock the joint"
            )
    return known


def in_order(follows: Mapping[str, Follows]) -> list[str]:
    """The joints that follow others, each after those that it follows.

    Raises:
        ModelError: If a joint follows itself, through others.
    """
    try:
        order = TopologicalSorter({name: how.leaders for name, how in follows.items()}).static_order()
        return [name for name in order if name in follows]
    except CycleError as error:
        cycle = error.args[1]  # each followed by one that follows it
        raise ModelError(f"joint {cycle[0]!r} follows itself: {' → '.join(cycle[::-1])}; delete one coupling") from None


def condensed(linkage: Linkage, bodies: Sequence[Body], clusters: Sequence[Cluster]) -> list[tuple[str, ...]]:
    """Bodies in the order of the tree's nodes: single ones, and those of clusters with all that is fixed to them.

    What a cluster carries follows it, for each of its bodies in turn.
    """
    member = {body: cluster.bodies for cluster in clusters for body in cluster.bodies}
    carried: dict[str, list[str]] = {name: [] for name in linkage.hub}
    fixed: dict[str, list[str]] = {name: [] for name in linkage.hub}
    for body in bodies:
        hub = linkage.hub[body.name]
        if hub != body.name:
            fixed[hub].append(body.name)
        elif member.get(body.name, (body.name,))[0] == body.name:  # clusters are listed with their first body
            carried[linkage.parent[body.name]].append(body.name)
    children = {name: [item for body in member.get(name, (name,)) for item in carried[body]] for name in linkage.hub}
    groups = [tuple(fixed["world"])] if fixed["world"] else []
    for name in depth_first(children["world"], children):
        own = [each for body in member.get(name, (name,)) for each in (body, *fixed[body])]
        groups.append(tuple(sorted(own, key=linkage.rank.__getitem__)))
    return groups
