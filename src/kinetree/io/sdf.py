"""Reads links and joints from an SDF file.

Only what the dynamics need is read. Shapes, sensors, plugins and simulator settings are skipped, and no file that is
referred to is opened. Other elements that are not read are reported, since they may be misspelt.

Every pose is relative to the model, a link, a joint or a frame. By default [SDF], a link's pose is relative to the
model, a joint's to its child, a frame's to what it is attached to.

[SDF] http://sdformat.org/spec and http://sdformat.org/tutorials?tut=pose_frame_semantics
"""

from __future__ import annotations

import math
from itertools import chain

import numpy as np

from kinetree.io.build import add_carried, add_fixed, build, loose_roots, root_joint
from kinetree.io.collision import ShapeSpec, read_shapes, sdf_shape
from kinetree.io.document import Document, Element
from kinetree.io.options import Diagnostics, Options
from kinetree.io.origins import (
    angles_rotation,
    composed,
    inverted,
    pose_at,
    quaternion_rotation,
    report_snapped,
    turned,
    turned_inertia,
)
from kinetree.io.source import Source, clipped, unused
from kinetree.model.joint import Limits, Spring
from kinetree.model.joints import KINDS
from kinetree.model.loops.loop import Loop
from kinetree.model.model import Model
from kinetree.model.specs import HERE, WORLD_NAME, BodySpec, JointSpec, Mimic, Pose, constant, matrix_of_pose, unlimited

#: The frame of the model itself.
MODEL = "__model__"


def read_pose(document: Document, element: Element | None) -> Pose:
    """The pose of a <pose> element; `HERE` if there is none."""
    if element is None or not (element.text or "").strip():
        return HERE
    form = element.get("rotation_format", "euler_rpy")
    if form == "quat_xyzw":
        *p, x, y, z, w = document.numbers_inside(element, 7)
        if not math.hypot(x, y, z, w) > 0.0:
            raise document.error(element, "the quaternion of <pose> is zero; write 0 0 0 1 for no rotation")
        return pose_at(quaternion_rotation(w, x, y, z), p)
    if form != "euler_rpy":
        raise document.error(element, f"rotation_format={clipped(form)} of <pose> is not known; write euler_rpy")
    numbers = document.numbers_inside(element, 6)
    angles, written = numbers[3:], element.text
    if element.get("degrees", "false") in ("true", "1"):
        angles = tuple(map(math.radians, angles))
        written = " ".join(map(repr, angles))
    return pose_at(angles_rotation(document, element, written, angles), numbers[:3])


class SdfFrames:
    """Poses of links, joints and frames in the frame of a <model>."""

    def __init__(self, document: Document, model: Element) -> None:
        self._document = document
        self._entries: dict[str, tuple[Element, str, Pose]] = {}
        self._resolved: dict[str, Pose] = {MODEL: HERE}
        self._attached: dict[str, str] = {}
        self.links = [link.get("name", "") for link in model.iterchildren("link")]
        for element in model.iterchildren("link", "joint", "frame"):
            name = document.text(element, "name")
            if name in self._entries or name in (MODEL, "world"):
                raise document.error(
                    element, f"the name {clipped(name)} is taken; links, joints and frames share names"
                )
            inside = {child.tag: child for child in element[::-1]}  # the first of each tag
            placed = inside.get("pose")
            to, carrier = MODEL, None
            if element.tag == "joint":
                to = carrier = (inside["child"].text or "").strip() if "child" in inside else ""
            elif element.tag == "frame":
                to = self._attached[name] = element.get("attached_to") or MODEL
            given = placed.get("relative_to") if placed is not None else None
            self._entries[name] = element, given or to, read_pose(document, placed)
            if carrier is not None:
                self._attached[name] = carrier
        self.canonical = model.get("canonical_link") or (self.links[0] if self.links else "")

    def pose(self, name: str, user: Element) -> Pose:
        """The pose of a link, joint or frame in the model's frame; errors are at the element that refers to it."""
        chain: dict[str, None] = {}
        while name not in self._resolved:
            if name not in self._entries:
                known = ", ".join(clipped(each, 30) for each in list(self._entries)[:10]) or "none"
                raise self._document.error(
                    user,
                    f"{clipped(name)} is not a link, joint or frame of the model; correct the name. There are: {known}",
                )
            if name in chain:
                raise self._document.error(user, f"poses are relative to each other in a circle, at {clipped(name)}")
            chain[name] = None
            name = self._entries[name][1]
        for each in reversed(chain):
            _, to, local = self._entries[each]
            self._resolved[each] = composed(self._resolved[to], local)
        return self._resolved[next(iter(chain), name)]

    def inside(self, document: Document, element: Element, link: str) -> Pose:
        """The pose of a part of a link in the link's frame."""
        placed = element.find("pose")
        at, to = read_pose(document, placed), None if placed is None else placed.get("relative_to")
        if to is None or to == link:
            return at
        return composed(inverted(self.pose(link, element)), composed(self.pose(to, element), at))

    def body(self, name: str, user: Element) -> str:
        """The link that a link, joint, frame or the model is fixed to; errors are at the element that refers to it."""
        seen: set[str] = set()
        while name in self._attached or name == MODEL:
            if name in seen:
                raise self._document.error(user, f"frames are attached to each other in a circle, at {clipped(name)}")
            seen.add(name)
            name = self.canonical if name == MODEL else self._attached[name]
        if self._entries.get(name, (None,))[0] is None or self._entries[name][0].tag != "link":
            raise self._document.error(user, f"{clipped(name)} is not a link of the model; correct the name")
        return name


#: Supported joint types, and Kinetree's kinds.
TYPES = {
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
    "fixed": "fixed",
    "ball": "spherical",
    "universal": "universal",
}

_MOST = 6_000
_NO_LIMIT = 1e15

_MODEL_PARTS = frozenset(("link", "joint", "frame", "pose", "static", "model", "include"))
_LINK_PARTS = frozenset(("pose", "inertial", "gravity"))
_JOINT_PARTS = frozenset(("parent", "child", "pose", "axis", "axis2"))
_GEAR_PARTS = frozenset(("gearbox_ratio", "gearbox_reference_body"))
_AXIS_PARTS = frozenset(("xyz", "limit", "dynamics", "mimic", "use_parent_model_frame"))
_MOMENTS = frozenset(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
_LIMITS = frozenset(("lower", "upper", "velocity", "effort"))
_UNIT: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)  # inertia
_LOSSES = frozenset(("damping", "friction", "spring_reference", "spring_stiffness"))
_PASSED_OVER = {
    "world": frozenset(
        (
            "model", "light", "physics", "scene", "plugin", "gui", "atmosphere", "wind", "magnetic_field", "frame",
            "spherical_coordinates", "audio", "road", "population", "actor", "state",
        )
    ),
    "model": frozenset(
        ("plugin", "gripper", "self_collide", "allow_auto_disable", "enable_wind", "experimental_params")
    ),
    "link": frozenset(
        (
            "collision", "visual", "sensor", "projector", "audio_source", "audio_sink", "battery", "light",
            "particle_emitter", "enable_wind", "kinematic", "self_collide", "velocity_decay", "must_be_base_link",
        )
    ),
    "joint": frozenset(("physics", "sensor")),
    "axis": frozenset(("initial_position",)),
    "limit": frozenset(("stiffness", "dissipation")),
}  # fmt: skip
_FLATTEN = "write it out with: gz sdf -p"


def load_sdf(source: Source, options: Options, diagnostics: Diagnostics) -> Model:
    """Load an SDF file, which must contain exactly one model."""
    document = Document(source, diagnostics, {}, options.snap_angles)
    model, gravity = _only_model(document)
    if gravity is not None and options.gravity is None:
        options = options._replace(gravity=gravity)
    document.parts(model, (), _PASSED_OVER["model"] | _MODEL_PARTS)
    for nested in model.iterchildren("model", "include"):
        raise document.error(nested, f"<{nested.tag}> in <model> is not read; {_FLATTEN}")
    if (model.findtext("static") or "").strip() in ("true", "1"):
        diagnostics.add("not read", "<static>: joints of the model move", model.sourceline)
    frames = SdfFrames(document, model)
    if len(frames.links) > _MOST:
        raise document.error(model, f"has more than {_MOST} links; split the file")
    links = {link.get("name"): _link(document, link) for link in model.iterchildren("link")}
    joints: dict[str, JointSpec] = {}
    loops: list[Loop] = []
    carried: set[str] = set()
    for element in model.iterchildren("joint"):
        if element.get("type") == "gearbox":
            continue
        joint, at = _joint(document, element, frames)
        if joint.child in carried:
            loops += _loop(document, element, joint, at, frames, options, links, joints)
            continue
        carried.add(joint.child)
        _place(joint, at, frames, element, links, joints)
    for element in model.iterchildren("joint"):
        if element.get("type") == "gearbox":
            _gear(document, element, frames, joints)
    for frame in model.iterchildren("frame"):
        _add_frame(document, frame, frames, links, joints)
    _place_roots(document, model, frames, links, joints, options)
    shapes: list[ShapeSpec] = []
    reader = sdf_shape(frames.inside)
    for element in model.iterchildren("link"):
        read_shapes(document, element, element.get("name"), options.shapes, reader, shapes)
    report_snapped(document)
    return build(model.get("name") or "robot", links, joints, options, diagnostics, loops, shapes)


def _only_model(document: Document) -> tuple[Element, tuple[float, ...] | None]:
    """The <model> of a file, and the gravity of its world, if specified."""
    root = document.root
    worlds = list(root.iterchildren("world"))
    holders = [root, *worlds]
    included = [element for holder in holders for element in holder.iterchildren("include")]
    if included:
        raise document.error(included[0], f"<include> is not followed: nothing is fetched; {_FLATTEN}")
    models = [model for holder in holders for model in holder.iterchildren("model")]
    if len(models) != 1:
        names = ", ".join(clipped(model.get("name", ""), 30) for model in models[:10]) or "none"
        raise document.error(root, f"has {len(models)} models ({names}); keep one in the file")
    for world in worlds:
        document.parts(world, ("gravity",), _PASSED_OVER["world"])
    down = worlds[0].find("gravity") if worlds else None
    return models[0], None if down is None else document.numbers_inside(down, 3)


def _link(document: Document, element: Element) -> BodySpec:
    name = document.text(element, "name")
    parts = document.parts(element, _LINK_PARTS, _PASSED_OVER["link"])
    if "gravity" in parts and (parts["gravity"].text or "").strip() in ("false", "0"):
        document.diagnostics.add("not read", f"<gravity>: gravity acts on link {name!r}", parts["gravity"].sourceline)
    inertial = parts.get("inertial")
    if inertial is None:
        document.diagnostics.add(
            "links without <inertial>, with 1 kg and unit inertia as the specification says", f"link {name!r}",
            element.sourceline,
        )  # fmt: skip
        return BodySpec(name, 1.0, inertia=_UNIT, line=element.sourceline)
    if inertial.get("auto") in ("true", "1"):
        raise document.error(inertial, f"<inertial auto=…> of link {clipped(name)} is not computed; write its numbers")
    inside = document.parts(inertial, ("pose", "mass", "inertia"), ("density",))
    at, tensor = read_pose(document, inside.get("pose")), _UNIT
    if "inertia" in inside:
        moments = document.parts(inside["inertia"], _MOMENTS)
        xx, yy, zz = [document.number_inside(moments.get(key), 1.0) for key in ("ixx", "iyy", "izz")]
        xy, xz, yz = [document.number_inside(moments.get(key), 0.0) for key in ("ixy", "ixz", "iyz")]
        tensor = xx, xy, xz, xy, yy, yz, xz, yz, zz
    mass = document.number_inside(inside.get("mass"), 1.0)
    return BodySpec(name, mass, at[3::4], turned_inertia(at, tensor), inertial.sourceline)


def _joint(document: Document, element: Element, frames: SdfFrames) -> tuple[JointSpec, Pose]:
    """A joint that has no placement yet, and a frame at the joint with the child's axes."""
    name, given = document.text(element, "name"), document.text(element, "type")
    if given not in TYPES:
        raise document.error(
            element, f"joint {clipped(name)} is of type {clipped(given)}; Kinetree reads {', '.join(TYPES)}"
        )
    kind = TYPES[given]
    parts = document.parts(element, _JOINT_PARTS, _PASSED_OVER["joint"])
    ends = []
    for end in ("parent", "child"):
        if end not in parts or not (parts[end].text or "").strip():
            raise document.error(element, f"joint {clipped(name)} has no <{end}>; add it")
        ends.append(parts[end].text.strip())
    if ends[1] == WORLD_NAME:
        raise document.error(element, f"the child of joint {clipped(name)} is the world; swap parent and child")
    child = frames.body(ends[1], element)
    parent = ends[0] if ends[0] == WORLD_NAME else frames.body(ends[0], element)
    here, below = frames.pose(name, element), frames.pose(child, element)
    chosen = [parts[tag] for tag in ("axis", "axis2")[: KINDS[kind].axes] if tag in parts]
    if len(chosen) < KINDS[kind].axes:
        raise document.error(element, f"joint {clipped(name)} has too few axes for its type; add <axis>")
    axes = [_axis(document, axis, frames, below) for axis in chosen]
    limits, damping, friction, spring = _bounds(document, chosen, given, name)
    mimic = _mimic(document, chosen[0]) if chosen and KINDS[kind].nv == 1 else None
    line, nv = element.sourceline, KINDS[kind].nv
    losses = constant(damping, nv), constant(friction, nv), constant(0.0, nv)
    at = (*below[:3], here[3], *below[4:7], here[7], *below[8:11], here[11])
    return JointSpec(name, kind, parent, child, HERE, axes, limits, *losses, mimic=mimic, line=line, spring=spring), at


def _place(
    joint: JointSpec,
    at: Pose,
    frames: SdfFrames,
    element: Element,
    links: dict[str, BodySpec],
    joints: dict[str, JointSpec],
) -> None:
    """Add a joint. If it is not at the child's origin, it moves a massless link to which the child is fixed."""
    above = HERE if joint.parent == WORLD_NAME else frames.pose(joint.parent, element)
    below = frames.pose(joint.child, element)
    if joint.kind in ("fixed", "prismatic") or not any(composed(inverted(at), below)[3::4]):
        joints[joint.name] = joint._replace(placement=composed(inverted(above), below))
        return
    joint = joint._replace(placement=composed(inverted(above), at))
    add_carried(joint, composed(inverted(at), below), links, joints)


def _gear(document: Document, element: Element, frames: SdfFrames, joints: dict[str, JointSpec]) -> None:
    """Let the input of a gearbox follow its output: θ₂ = −ratio · θ₁ [SDF], both from the reference body."""
    name = document.text(element, "name")
    parts = document.parts(element, _JOINT_PARTS | _GEAR_PARTS, _PASSED_OVER["joint"])
    if not parts.keys() >= {"parent", "child", "axis", "axis2", "gearbox_reference_body"}:
        raise document.error(element, f"gearbox {clipped(name)} needs parent, child, two axes and a reference body")
    reference = frames.body((parts["gearbox_reference_body"].text or "").strip(), element)
    ends, signs = [], []
    for end, axis in (("parent", "axis"), ("child", "axis2")):
        link = frames.body((parts[end].text or "").strip(), element)
        own = [one for one in joints.values() if one.parent == reference and link in (one.child, _carried(one, joints))]
        if not own or own[0].kind != "revolute":
            raise document.error(
                element,
                f"gearbox {clipped(name)} gears link {clipped(link)}, which no revolute joint connects to the "
                f"reference body {clipped(reference)}; add one",
            )
        along = _axis(document, parts[axis], frames, frames.pose(link, element))
        ends.append(own[0].name)
        signs.append(math.copysign(1.0, sum(a * b for a, b in zip(along, own[0].axes[0], strict=True))))
    ratio = document.number_inside(parts.get("gearbox_ratio"), 1.0)
    if ratio == 0.0:
        raise document.error(element, f"gearbox {clipped(name)} has the ratio 0; correct it")
    follower, leader = ends
    joints[follower] = joints[follower]._replace(mimic=Mimic(leader, -signs[0] * signs[1] / ratio, 0.0))


def _carried(joint: JointSpec, joints: dict[str, JointSpec]) -> str:
    """The link fixed to the massless one that a joint off its child's origin moves."""
    return next((one.child for one in joints.values() if one.parent == joint.child and one.kind == "fixed"), "")


#: What closes a loop, by the kind of a joint to a link that another joint carries already.
_CLOSURES = {"revolute": "hinge", "spherical": "connect", "fixed": "weld"}


def _loop(
    document: Document,
    element: Element,
    joint: JointSpec,
    at: Pose,
    frames: SdfFrames,
    options: Options,
    links: dict[str, BodySpec],
    joints: dict[str, JointSpec],
) -> list[Loop]:
    """The loop that a joint closes, since its child has a parent already; none if loops are ignored.

    Joints other than those of `_CLOSURES` move a massless link, to which the child is welded.
    """
    if options.loops == "ignore":
        document.diagnostics.add(
            'joints that close loops, left out; loops="embed" or "multipliers" keeps them', joint.name, joint.line
        )
        return []
    if options.root is not None:
        raise document.error(element, 'closes a loop, of which root= may cut a part; load with loops="ignore"')
    first, second = (
        matrix_of_pose(at if body == WORLD_NAME else composed(inverted(frames.pose(body, element)), at))
        for body in (joint.parent, joint.child)
    )
    axis, ends = np.array(joint.axes[0] if joint.axes else (0.0, 0.0, 1.0)), (joint.parent, joint.child)
    if joint.kind in _CLOSURES:
        return [Loop(joint.name, _CLOSURES[joint.kind], ends, first, second, axis)]
    carrier = unused(f"{joint.child} ({joint.name})", links)
    links[carrier] = BodySpec(carrier, line=joint.line)
    above = HERE if joint.parent == WORLD_NAME else frames.pose(joint.parent, element)
    joints[joint.name] = joint._replace(child=carrier, placement=composed(inverted(above), at))
    return [Loop(joint.name, "weld", (carrier, joint.child), np.eye(4), second, axis)]


def _axis(document: Document, axis: Element, frames: SdfFrames, child: Pose) -> tuple[float, ...]:
    """A unit axis in the child's frame."""
    parts = document.parts(axis, _AXIS_PARTS, _PASSED_OVER["axis"])
    xyz = parts.get("xyz")
    direction = document.numbers_inside(xyz, 3) if xyz is not None else (0.0, 0.0, 1.0)
    scale = max(map(abs, direction))
    if scale == 0.0:
        raise document.error(axis, "the axis is zero; give a direction, such as 0 0 1")
    frame = axis.getparent().get("name")
    if xyz is not None and xyz.get("expressed_in"):
        frame = xyz.get("expressed_in")
    elif "use_parent_model_frame" in parts and (parts["use_parent_model_frame"].text or "").strip() in ("true", "1"):
        frame = MODEL
    x, y, z = turned(inverted(child), turned(frames.pose(frame, axis), [part / scale for part in direction]))
    length = math.sqrt(x * x + y * y + z * z)
    return x / length, y / length, z / length


def _bounds(
    document: Document, axes: list[Element], given: str, name: str
) -> tuple[Limits, float, float, Spring | None]:
    """Limits, damping, dry friction and spring of a joint."""
    kind = KINDS[TYPES[given]]
    if not axes:
        return unlimited(kind.name), 0.0, 0.0, None
    springs: list[tuple[float, float]] = []
    bounds: dict[str, list[float]] = {key: [] for key in ("lower", "upper", "velocity", "effort")}
    losses: dict[str, set[float]] = {"damping": set(), "friction": set()}
    for axis in axes:
        inside = {child.tag: child for child in axis}
        limit, dynamics = inside.get("limit"), inside.get("dynamics")
        ends = {} if limit is None else document.parts(limit, _LIMITS, _PASSED_OVER["limit"])
        lost = {} if dynamics is None else document.parts(dynamics, _LOSSES)
        lower = _unbounded(document.number_inside(ends.get("lower"), -math.inf, True))
        upper = _unbounded(document.number_inside(ends.get("upper"), math.inf, True))
        if given == "continuous":
            lower, upper = -math.inf, math.inf
        if lower > upper:
            raise document.error(limit, f"lower {lower:g} is above upper {upper:g}; swap them")
        bounds["lower"].append(lower)
        bounds["upper"].append(upper)
        for key in ("velocity", "effort"):
            value = document.number_inside(ends.get(key), math.inf, True)
            bounds[key].append(_unbounded(value) if value >= 0.0 else math.inf)  # [SDF]: negative is none
        for key, values in losses.items():
            value = document.number_inside(lost.get(key), 0.0)
            if value < 0.0:
                raise document.error(dynamics, f"<{key}> is negative; write its magnitude")
            values.add(value)
        pair = (document.number_inside(lost.get(f"spring_{key}"), 0.0) for key in ("stiffness", "reference"))
        springs.append((next(pair), next(pair)))
        if springs[-1][0] < 0.0:
            raise document.error(dynamics, "<spring_stiffness> is negative; write its magnitude")
    for key, values in losses.items():
        if len(values) > 1:
            document.diagnostics.add(
                "not read", f"<{key}> of joint {name!r}, which differs between axes", axes[0].sourceline
            )
            values.clear()
    damping, friction = (values.pop() if values else 0.0 for values in losses.values())
    spring = Spring(*np.array(springs).T) if any(stiffness for stiffness, _ in springs) else None
    return Limits.trusted(tuple(chain.from_iterable(bounds.values()))), damping, friction, spring


def _unbounded(value: float) -> float:
    return value if abs(value) < _NO_LIMIT else math.copysign(math.inf, value)


def _mimic(document: Document, axis: Element) -> Mimic | None:
    element = axis.find("mimic")
    if element is None:
        return None
    parts = document.parts(element, ("multiplier", "offset", "reference"))
    multiplier = document.number_inside(parts.get("multiplier"), 1.0)
    offset = document.number_inside(parts.get("offset"), 0.0)
    offset -= multiplier * document.number_inside(parts.get("reference"), 0.0)
    return Mimic(document.text(element, "joint"), multiplier, offset)


def _add_frame(
    document: Document, element: Element, frames: SdfFrames, links: dict[str, BodySpec], joints: dict[str, JointSpec]
) -> None:
    """Add a frame, as a link without mass."""
    name = element.get("name")
    document.parts(element, ("pose",))
    body = frames.body(name, element)
    placement = composed(inverted(frames.pose(body, element)), frames.pose(name, element))
    links[name] = BodySpec(name, line=element.sourceline)
    add_fixed(joints, f"{name}_joint", body, name, placement, element.sourceline)


def _place_roots(
    document: Document,
    model: Element,
    frames: SdfFrames,
    links: dict[str, BodySpec],
    joints: dict[str, JointSpec],
    options: Options,
) -> None:
    """Fix links without a parent at their pose in the file, unless they float or another link is the root."""
    roots = loose_roots(frames.links, joints, options, "model", document.file)
    if roots is None:
        return
    at = read_pose(document, model.find("pose"))
    if model.get("placement_frame"):
        at = composed(at, inverted(frames.pose(model.get("placement_frame"), model)))
    links[WORLD_NAME] = BodySpec(WORLD_NAME, line=model.sourceline)
    for name, joint in list(joints.items()):
        if joint.parent == WORLD_NAME:
            joints[name] = joint._replace(placement=composed(at, joint.placement))
    for root in roots:
        pose = composed(at, frames.pose(root, model))
        add_fixed(joints, root_joint(root, roots), WORLD_NAME, root, pose, links[root].line)
