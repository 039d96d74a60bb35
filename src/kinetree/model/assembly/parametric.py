"""Assembles a model whose nodes' constants are its parameters: see `model.nodes.parametric`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast

import numpy as np

from kinetree.errors import UnsupportedError
from kinetree.language.mechanism import Mechanism, Site
from kinetree.model.assembly.assembly import WELDED, Assembly, Built, Inner
from kinetree.model.assembly.node_constants import NONE, NodeDraft
from kinetree.model.assembly.stages import stages_of
from kinetree.model.body import Body, Frame
from kinetree.model.joint import Joint, Limits
from kinetree.model.joints import KINDS
from kinetree.model.loops.aggregation import Clustering
from kinetree.model.loops.cluster_kind import ClusterKind
from kinetree.model.loops.inner_nodes import InnerMotion
from kinetree.model.loops.loop import Loop
from kinetree.model.nodes.parametric import LinkBody, LinkStage, Slots, linked, own_constants
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.transform import IDENTITY, composed, transform_of
from kinetree.spatial.value import Array

#: A parameter: what it is, and of which body or frame.
Selected = tuple[str, str]
_INERTIAL, _PLACED = ("mass", "com", "inertia"), ("position", "rotation")

_link_kind = cache(LinkBody)


class ParametricAssembly(Assembly):
    """Nodes in the coordinates of link frames. Bodies behind fixed joints are merged if no parameter is theirs.

    Attributes:
        places: Each parameter's nodes, and where in their constants it is.
    """

    def __init__(
        self,
        bodies: Sequence[Body],
        joints: Mapping[str, Joint],
        frames: Sequence[Frame],
        clustering: Clustering,
        selected: Iterable[Selected],
    ) -> None:
        self._selected = frozenset(selected)
        self.places: dict[Selected, list[tuple[int, slice]]] = {}
        kinds = {what for what, _ in self._selected}
        self._flags = "rotation" in kinds, "axis" in kinds
        # frames with parameters are bodies without mass
        own = [frame for frame in frames if any((what, frame.name) in self._selected for what in _PLACED)]
        self._frames_left = [frame for frame in frames if frame not in own]
        joints = {**joints, **{frame.name: _weld(frame) for frame in own}}
        clusters, groups, _ = clustering
        order: list[tuple[str, ...]] = [] if clusters else [(frame.name,) for frame in own if frame.body == "world"]
        for group in groups if clusters else [(body.name,) for body in bodies]:
            order.append(tuple(group))
            order += [(frame.name,) for frame in own if frame.body in group]
        self._bearing = _bearing(joints, clusters, groups)
        every = {body.name: body for body in (*bodies, *map(_massless, own))}
        ordered = [every[name] for group in order for name in group]
        super().__init__(ordered, joints, clusters, order, every=True, reframed=False)

    def assembled(self, gravity: Array) -> tuple[Mechanism, tuple[Site, ...]]:
        """The mechanism and its frames."""
        mechanism = self.mechanism(gravity)
        for what, name in self._selected:
            if (what, name) not in self.places:
                raise UnsupportedError(
                    f"{what} of {name!r} cannot vary: it belongs to a node in a loop or coupling, to a body fixed to "
                    "one in it, or to the body that carries it; or it is armature in a loop, and zero"
                )
        return mechanism, self.sites(self._frames_left)

    def _finished(self, built: Built, inertias: Array) -> tuple[ClusterKind, Array]:
        kind, constants = super()._finished(built, inertias)
        chosen = [name for name in built.placed if name in self._inside and self._is(name, *_INERTIAL)]
        for name, (i, _) in built.placed.items():
            start = kind.start_of(i) + 12 + 10 * kind.inner[i].massive if i >= 0 else 0
            if i >= 0 and kind.inner[i].armed and self._inside.get(name, (None, -1))[1] == i:
                self.places["armature", name] = [(built.node, slice(start, start + kind.inner[i].stage.nv))]
        links: dict[str, list[tuple[int, Slots]]] = {}
        for i, each in enumerate(built.stages):
            if isinstance(each.stage, LinkStage):
                start = kind.start_of(i) + 12 + 10 * kind.inner[i].massive + kind.inner[i].armed * each.stage.nv
                slots = (slice(part.start + start, part.stop + start) for part in each.stage.link.slots)
                links.setdefault(each.joint.child, []).append((built.node, Slots(*slots)))
        for name, nodes in links.items():
            self._place_joint(name, nodes)
        if not chosen:
            return kind, constants
        bodies = [(self._by_name[name], *built.placed[name]) for name in chosen]
        made, numbers = linked(kind, constants, bodies)
        for k, name in enumerate(chosen):
            start = made.own_start + 22 * k
            for what, part in zip(_INERTIAL, (slice(0, 1), slice(1, 4), slice(4, 10)), strict=True):
                self.places[what, name] = [(built.node, slice(start + part.start, start + part.stop))]
        return made, numbers

    def _inner_start(self, name: str, joint: Joint, at: Array) -> Array:
        return at if self._varies(name, joint) else super()._inner_start(name, joint, at)

    def _inner_stages(self, name: str, joint: Joint) -> Sequence[tuple[Inner, Array]]:
        if not self._varies(name, joint):
            return super()._inner_stages(name, joint)
        found, placement = list[tuple[Inner, Array]](), joint.placement
        for stage_name, stage, turn, _, armature in stages_of(name, joint):
            link = _link_kind(stage, *self._flags)
            body = own_constants(
                _massless(Frame(name, name, IDENTITY)), joint.own, turn[:3, :3] if stage.axes else None
            )
            own = link.parameters(transform_of(placement), RigidInertia.zero(), np.zeros(stage.nv), body)
            found.append(((stage_name, cast("InnerMotion", LinkStage(link)), IDENTITY, IDENTITY, armature), own))
            placement = IDENTITY
        return found

    def _varies(self, name: str, joint: Joint) -> bool:
        """Whether the geometry of a joint inside a cluster has parameters."""
        rigid = joint.node is None and joint.kind != "fixed" and joint.parent not in self._general
        return rigid and self._is(name, *_PLACED, "axis", "pitch")

    def _is(self, name: str, *whats: str) -> bool:
        return any((what, name) in self._selected for what in whats)

    def _add(self, body: Body, joint: Joint) -> None:
        name, general = body.name, self._general
        if joint.parent in general:
            super()._add(body, joint)
            if self._is(name, *_INERTIAL):
                node, _ = self._carriers[name]
                self._carriers[name] = self._link(body, node, IDENTITY, IDENTITY), IDENTITY
            return
        carrier, at = self._carrier(joint.parent)
        if at is not IDENTITY and self._is(name, *_PLACED):
            # a node of its own for the parent's link frame, in which the placement is given
            empty = _massless(Frame(f"link of {joint.parent}", joint.parent, IDENTITY))
            carrier, at = self._link(empty, carrier, at, IDENTITY), IDENTITY
        if joint.node is not None:
            placement = joint.placement
            if self._is(name, *_PLACED):
                empty = _massless(Frame(name, joint.parent, IDENTITY))
                carrier, at, placement = self._link(empty, carrier, at, placement), IDENTITY, IDENTITY
            draft = NodeDraft(name, carrier, joint.node.kind, joint.armature, joint.own)
            node, start = self._append(draft, at, placement), joint.node.kind.own_start
            self._carriers[name], general[name] = (node, IDENTITY), joint.node
            self.places["constants", name] = [(node, slice(start, start + len(joint.own)))]
            self.places["armature", name] = [(node, slice(start - joint.type.nv, start))]
            return
        if joint.kind == "fixed":
            if name in self._bearing or not self._is(name, *_INERTIAL, *_PLACED):
                self._carriers[name] = carrier, composed(at, joint.placement)
                return
            self._carriers[name] = self._link(body, carrier, at, joint.placement), IDENTITY
            return
        stages, placement, nodes = stages_of(name, joint), joint.placement, []
        for stage_name, stage, turn, _, armature in stages:
            kind = _link_kind(stage, *self._flags)
            aligned = turn[:3, :3] if stage.axes else None
            own = own_constants(
                body if stage_name == name else _massless(Frame(name, name, IDENTITY)), joint.own, aligned
            )
            carrier = self._append(NodeDraft(stage_name, carrier, kind, armature, own), at, placement)
            nodes.append((carrier, kind.slots))
            at, placement = IDENTITY, IDENTITY
        self._place_joint(name, nodes)
        self._place(name, _INERTIAL, nodes[-1:])
        self._place(name, ("armature",), nodes)
        self._carriers[name] = carrier, IDENTITY

    def _link(self, body: Body, carrier: int, at: Array, placement: Array) -> int:
        """Add a welded body."""
        kind = _link_kind(WELDED, *self._flags)
        own = own_constants(body, NONE, None)
        node = self._append(NodeDraft(body.name, carrier, kind, NONE, own), at, placement)
        self._place(body.name, (*_PLACED, *_INERTIAL), [(node, kind.slots)])
        return node

    def _place_joint(self, name: str, stages: Sequence[tuple[int, Slots]]) -> None:
        self._place(name, _PLACED, stages[:1])
        self._place(name, ("axis",), stages)
        node, slots = stages[-1]
        self.places["pitch", name] = [(node, slots.own)]

    def _place(self, name: str, whats: Sequence[str], nodes: Sequence[tuple[int, Slots]]) -> None:
        for what in whats:
            self.places[what, name] = [(node, getattr(slots, what)) for node, slots in nodes]


def _bearing(joints: Mapping[str, Joint], clusters: Sequence[Any], groups: Sequence[Sequence[str]]) -> set[str]:
    """Bodies behind fixed joints in whose frames the joints and ends of clusters are given: these stay merged."""
    found: set[str] = set()
    firsts = {cluster.bodies[0]: cluster for cluster in clusters}
    for group in groups:
        if group[0] in firsts:
            ends = [e for one in firsts[group[0]].constraints if isinstance(one, Loop) for e in one.bodies]
            found |= {*(joints[name].parent for name in group), *ends} - set(group)
    for name in tuple(found):
        while name in joints and joints[name].kind == "fixed":
            found.add(name)
            name = joints[name].parent
    return found


def _massless(frame: Frame) -> Body:
    return Body(frame.name, frame.body, frame.name, 0.0, np.zeros(3), np.zeros((3, 3)))


def _weld(frame: Frame) -> Joint:
    fixed, none = KINDS["fixed"], np.zeros(0)
    numbers: dict[str, Any] = {"pitch": 0.0, "armature": none, "damping": none, "friction": none}
    limits = Limits().expanded(fixed)
    return Joint(
        frame.name, "fixed", frame.body, frame.name, frame.placement, np.zeros((0, 3)), limits=limits, q_start=0,
        v_start=0, **numbers,
    )  # fmt: skip
