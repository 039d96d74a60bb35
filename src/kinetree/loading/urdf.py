"""Reads links and joints from a URDF file.

Only what the dynamics need is read. Shapes, materials, sensors, transmissions and simulator settings are silently
skipped, and no file that is referred to is opened. Any other element or attribute that is not read is reported, since
it may be misspelt.

[URDF] https://wiki.ros.org/urdf/XML
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from kinetree.loading.angles import report_snapped, snapped
from kinetree.loading.description import NO_COM, NO_INERTIA, Hinge, Link, Mimic
from kinetree.loading.document import Document, Element
from kinetree.loading.findings import Findings
from kinetree.loading.options import Options
from kinetree.loading.source import Source, clipped
from kinetree.loading.tree import grow
from kinetree.model.joint import Limits
from kinetree.model.joints import KINDS
from kinetree.model.model import Model
from kinetree.spatial.fixed import product, sincos_of_one
from kinetree.spatial.scalar import LARGEST_ANGLE

#: Joint types of a file, "spherical" and "ball" being extensions, and Kinetree's kinds.
TYPES = {
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
    "fixed": "fixed",
    "floating": "floating",
    "planar": "planar",
    "spherical": "spherical",
    "ball": "spherical",
}

# more links or joints than this would take too long to load
_MOST = 6_000

# Larger limits mean "none": some programs write 1e16 (converters from SDF) or the largest double.
_NO_LIMIT = 1e15

_PASSED_OVER = {
    "robot": frozenset(("material", "transmission", "gazebo", "sensor", "ros2_control", "mujoco")),
    "link": frozenset(("visual", "collision", "contact")),
    "joint": frozenset(("safety_controller", "calibration")),
}
_ATTRIBUTES = {
    "robot": frozenset(("name", "version")),
    "link": frozenset(("name",)),
    "mass": frozenset(("value",)),
    "inertia": frozenset(("ixx", "ixy", "ixz", "iyy", "iyz", "izz")),
    "joint": frozenset(("name", "type")),
    "parent": frozenset(("link",)),
    "child": frozenset(("link",)),
    "origin": frozenset(("xyz", "rpy", "quat_xyzw")),
    "axis": frozenset(("xyz",)),
    "limit": frozenset(("lower", "upper", "velocity", "effort")),
    "dynamics": frozenset(("damping", "friction")),
    "mimic": frozenset(("joint", "multiplier", "offset")),
}
_JOINT_PARTS = frozenset(("origin", "parent", "child", "axis", "limit", "dynamics", "mimic"))
_LINK_PARTS = frozenset(("inertial",))
_INERTIAL_PARTS = frozenset(("origin", "mass", "inertia"))
_MOMENTS = {"ixx": None, "ixy": 0.0, "ixz": 0.0, "iyy": None, "iyz": 0.0, "izz": None}
_ZERO = (0.0, 0.0, 0.0)
_X = (1.0, 0.0, 0.0)
_Rotation = tuple[tuple[float, ...], ...]
_UNLIMITED = {kind.name: Limits().expanded(kind) for kind in KINDS.values()}


def load_urdf(source: Source, options: Options, findings: Findings) -> Model:
    """Load a URDF file.

    Args:
        source: The file.
        options: The options of `load`.
        findings: Collects warnings.
    """
    document = Document(source, findings, _ATTRIBUTES, options.snap_angles)
    robot = document.root
    document.known(robot)
    links: dict[str, Link] = {}
    joints: dict[str, Hinge] = {}
    turns: dict[str, _Rotation] = {}
    lines: dict[str, dict[str, int]] = {"link": {}, "joint": {}}
    for element in robot:
        tag = element.tag
        if tag in lines:
            name, line = document.text(element, "name"), element.sourceline
            first = lines[tag].setdefault(name, line)
            if name in (links if tag == "link" else joints):
                raise document.error(
                    element, f"{tag} {clipped(name)} is defined twice, in line {first} and in line {line}; rename one"
                )
            if tag == "link":
                links[name] = _link(document, element, name, turns)
            else:
                joints[name] = _joint(document, element, name)
            if len(links) + len(joints) > 2 * _MOST:
                raise document.error(element, f"more than {2 * _MOST} links and joints; split the file")
        elif tag not in _PASSED_OVER["robot"]:
            document.unread(element)
    name = robot.get("name") or (source.path.stem if source.path else "robot")
    report_snapped(document)
    if turns:
        _turned(links, turns)
    return grow(name, links, joints, options, findings)


def _turned(links: dict[str, Link], turns: Mapping[str, _Rotation]) -> None:
    """Express the inertias of links in their own axes.

    Args:
        links: By name.
        turns: The axes in which inertias are written, for links where these are not the link's own.
    """
    R = np.array(list(turns.values()))
    written = np.array([links[name].inertia for name in turns]).reshape(-1, 3, 3)
    inertias = product(product(R, written), R.transpose(0, 2, 1)).reshape(-1, 9)
    for name, inertia in zip(turns, inertias.tolist(), strict=True):
        links[name] = links[name]._replace(inertia=tuple(inertia))


def _link(document: Document, element: Element, name: str, turns: dict[str, _Rotation]) -> Link:
    """A link. If its inertia is written in other axes than its own, these are added to `turns`."""
    document.known(element)
    inertial = document.parts(element, _LINK_PARTS, _PASSED_OVER["link"]).get("inertial")
    if inertial is None:
        return Link(name, element.sourceline, 0.0, NO_COM, NO_INERTIA)
    parts = document.parts(inertial, _INERTIAL_PARTS)
    for wanted in ("mass", "inertia"):
        if wanted not in parts:
            raise document.error(
                inertial, f"<inertial> of link {clipped(name)} has no <{wanted}>; add it, or delete <inertial>"
            )
    document.known(parts["mass"])
    xx, xy, xz, yy, yz, zz = document.numbers(parts["inertia"], _MOMENTS)
    R, com = origin(document, parts.get("origin"))
    mass = document.number(parts["mass"], "value")
    if R is not None:
        turns[name] = R
    return Link(name, inertial.sourceline, mass, com, (xx, xy, xz, xy, yy, yz, xz, yz, zz))


def _joint(document: Document, element: Element, name: str) -> Hinge:
    document.known(element)
    given = document.text(element, "type")
    if given not in TYPES:
        choices = ", ".join(TYPES)
        raise document.error(
            element, f"joint {clipped(name)} is of unknown type {clipped(given)}; write one of {choices}"
        )
    kind = TYPES[given]
    parts = document.parts(element, _JOINT_PARTS, _PASSED_OVER["joint"])
    ends = []
    for end in ("parent", "child"):
        if end not in parts:
            raise document.error(element, f"joint {clipped(name)} has no <{end} link=…/>; add it")
        document.known(parts[end])
        ends.append(document.text(parts[end], "link"))
    R, (x, y, z) = origin(document, parts.get("origin"))
    first, second, third = R or _IDENTITY
    damping = friction = 0.0
    if kind != "fixed" and (dynamics := parts.get("dynamics")) is not None:
        document.known(dynamics)
        damping = _magnitude(document, dynamics, "damping", 0.0)
        friction = _magnitude(document, dynamics, "friction", 0.0)
    single = KINDS[kind].nv == 1
    if kind not in ("fixed", "revolute", "prismatic"):
        for unread in ("limit", "mimic"):
            if unread in parts:
                document.findings.unread(f"<{unread}> of a {given} joint", parts[unread].sourceline)
    return Hinge(
        name=name,
        line=element.sourceline,
        kind=kind,
        parent=ends[0],
        child=ends[1],
        placement=(*first, x, *second, y, *third, z, 0.0, 0.0, 0.0, 1.0),
        axes=_axis(document, parts.get("axis"), name) if KINDS[kind].axes else (),
        limits=_limits(document, parts.get("limit"), given, element) if single else _UNLIMITED[kind],
        damping=damping,
        friction=friction,
        mimic=_mimic(document, parts["mimic"]) if single and "mimic" in parts else None,
    )


_IDENTITY = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def origin(document: Document, element: Element | None) -> tuple[_Rotation | None, tuple[float, ...]]:
    """Rotation and position of an <origin>; the rotation is None if it has none."""
    if element is None:
        return None, _ZERO
    document.known(element)
    p = document.vector(element, "xyz", _ZERO)
    if element.get("quat_xyzw") is not None:
        if element.get("rpy") is not None:
            raise document.error(element, "<origin> has rpy= and quat_xyzw=; delete one")
        return _quaternion_rotation(document, element), p
    written = element.get("rpy")
    if written is None:
        return None, p
    if written in document.rotations:
        return document.rotations[written], p
    rpy = document.vector(element, "rpy", _ZERO)
    R = angles_rotation(document, element, written.split(), rpy) if any(rpy) else None
    if not document.snap_angles:  # angles that are changed are counted
        document.rotations[written] = R
    return R, p


def angles_rotation(document: Document, element: Element, words: Sequence[str], angles: Sequence[float]) -> _Rotation:
    """`rotation`, for angles from a file, as they are written and as numbers."""
    if max(map(abs, angles)) > LARGEST_ANGLE:
        raise document.error(element, "an angle is too large to be meaningful; write one between −π and π")
    return rotation(*(snapped(document, words, angles) if document.snap_angles else angles))


@lru_cache(maxsize=4096)  # most angles in files are multiples of a quarter turn
def rotation(roll: float, pitch: float, yaw: float) -> _Rotation:
    """Rotations about the fixed x, y and z axes, in this order."""
    (sr, cr), (sp, cp), (sy, cy) = sincos_of_one(roll), sincos_of_one(pitch), sincos_of_one(yaw)
    return (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )


def _quaternion_rotation(document: Document, element: Element) -> _Rotation:
    x, y, z, w = document.vector(element, "quat_xyzw", (0.0, 0.0, 0.0, 1.0))
    if not any((x, y, z, w)):
        raise document.error(element, "quat_xyzw= of <origin> is zero; write 0 0 0 1 for no rotation")
    return rotation_of_quaternion(x, y, z, w)


def rotation_of_quaternion(x: float, y: float, z: float, w: float) -> _Rotation:
    """The rotation of a quaternion of any nonzero length."""
    x, y, z, w = _unit(x, y, z, w)
    return (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)),
        (2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)),
        (2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)),
    )


def _axis(document: Document, element: Element | None, joint: str) -> tuple[float, ...]:
    """The unit axis of a joint; x if the file has none."""
    if element is None:
        return _X
    document.known(element)
    axis = document.vector(element, "xyz", _X)
    if not any(axis):
        raise document.error(element, f"the axis of joint {clipped(joint)} is zero; give a direction, such as 0 0 1")
    return _unit(*axis)


@lru_cache(maxsize=4096)  # most are those of coordinates
def _unit(*x: float) -> tuple[float, ...]:
    """A nonzero vector, normalised."""
    scale = max(map(abs, x))
    scaled = [part / scale for part in x]
    size = math.sqrt(sum(part * part for part in scaled))
    return tuple(part / size for part in scaled)


def _limits(document: Document, element: Element | None, given: str, joint: Element) -> Limits:
    """Limits of a joint with one coordinate. Missing lower and upper limits are zero [URDF]."""
    if element is None:
        if given in ("revolute", "prismatic"):
            document.findings.add(
                "joints without <limit>, taken as unlimited", f"{joint.get('name')!r}", joint.sourceline
            )
        return _UNLIMITED["revolute"]
    document.known(element)
    velocity = _magnitude(document, element, "velocity", math.inf)
    effort = _magnitude(document, element, "effort", math.inf)
    if given == "continuous":
        return Limits.of_one(-math.inf, math.inf, velocity, effort)
    lower, upper = document.number(element, "lower", 0.0, True), document.number(element, "upper", 0.0, True)
    if lower > upper:
        raise document.error(element, f"lower={lower:g} is above upper={upper:g}; swap them")
    lower, upper = (lower if lower > -_NO_LIMIT else -math.inf), (upper if upper < _NO_LIMIT else math.inf)
    return Limits.of_one(lower, upper, velocity, effort)


def _magnitude(document: Document, element: Element, name: str, default: float) -> float:
    value = document.number(element, name, default, default == math.inf)
    if value < 0.0:
        raise document.error(element, f"{name}={value:g} of <{element.tag}> is negative; write its magnitude")
    return value if value < _NO_LIMIT else math.inf


def _mimic(document: Document, element: Element) -> Mimic:
    document.known(element)
    multiplier, offset = document.number(element, "multiplier", 1.0), document.number(element, "offset", 0.0)
    return Mimic(document.text(element, "joint"), multiplier, offset)
