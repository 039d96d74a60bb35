"""Reads links and joints from a URDF file.

Only what the dynamics need is read. Shapes, materials, sensors, transmissions and simulator settings are silently
skipped, and no file that is referred to is opened. Any other element or attribute that is not read is reported, since
it may be misspelt.

[URDF] https://wiki.ros.org/urdf/XML
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from kinetree.loading.angles import report_snapped, snapped
from kinetree.loading.description import Hinge, Link, Mimic
from kinetree.loading.document import Document, Element
from kinetree.loading.findings import Findings
from kinetree.loading.options import Options
from kinetree.loading.source import Source, clipped
from kinetree.loading.tree import grow
from kinetree.model.joint import Limits
from kinetree.model.joints import KINDS
from kinetree.model.model import Model
from kinetree.model.record import frozen
from kinetree.spatial.fixed import product, sincos
from kinetree.spatial.scalar import LARGEST_ANGLE
from kinetree.spatial.value import Array

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
_ZERO = (0.0, 0.0, 0.0)
_X = (1.0, 0.0, 0.0)
_NO_AXES = frozen(np.zeros((0, 3)), (0, 3))
_NO_INERTIA = frozen(np.zeros((3, 3)), (3, 3))
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
    lines: dict[tuple[str, str], int] = {}
    for element in robot:
        if element.tag in ("link", "joint"):
            name, line = document.text(element, "name"), element.sourceline
            first = lines.setdefault((element.tag, name), line)
            if name in (links if element.tag == "link" else joints):
                raise document.error(
                    element,
                    f"{element.tag} {clipped(name)} is defined twice, in line {first} and in line {line}; rename one",
                )
            if element.tag == "link":
                links[name] = _link(document, element, name)
            else:
                joints[name] = _joint(document, element, name)
            if len(lines) > 2 * _MOST:
                raise document.error(element, f"more than {2 * _MOST} links and joints; split the file")
        elif element.tag not in _PASSED_OVER["robot"]:
            document.unread(element)
    name = robot.get("name") or (source.path.stem if source.path else "robot")
    report_snapped(document)
    return grow(name, links, joints, options, findings)


def _link(document: Document, element: Element, name: str) -> Link:
    document.known(element)
    inertial = document.parts(element, ("inertial",), _PASSED_OVER["link"]).get("inertial")
    if inertial is None:
        return Link(name, element.sourceline, 0.0, _ZERO, _NO_INERTIA)
    parts = document.parts(inertial, ("origin", "mass", "inertia"))
    for wanted in ("mass", "inertia"):
        if wanted not in parts:
            raise document.error(
                inertial, f"<inertial> of link {clipped(name)} has no <{wanted}>; add it, or delete <inertial>"
            )
    mass, inertia = parts["mass"], parts["inertia"]
    document.known(mass)
    document.known(inertia)
    number = document.number
    xx, yy, zz = number(inertia, "ixx"), number(inertia, "iyy"), number(inertia, "izz")
    xy, xz, yz = number(inertia, "ixy", 0.0), number(inertia, "ixz", 0.0), number(inertia, "iyz", 0.0)
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    R, com = origin(document, parts.get("origin"))
    if R is not None:
        turn = np.array(R)
        tensor = product(product(turn, tensor), turn.T)
    return Link(name, inertial.sourceline, document.number(mass, "value"), com, tensor)


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
    R, p = origin(document, parts.get("origin"))
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = R or _IDENTITY
    placement = np.array(
        [[xx, xy, xz, p[0]], [yx, yy, yz, p[1]], [zx, zy, zz, p[2]], [0.0, 0.0, 0.0, 1.0]], dtype=float
    )
    damping = friction = 0.0
    if "dynamics" in parts and kind != "fixed":
        document.known(parts["dynamics"])
        damping, friction = (_magnitude(document, parts["dynamics"], key, 0.0) for key in ("damping", "friction"))
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
        placement=placement,
        axes=_axis(document, parts.get("axis"), name) if KINDS[kind].axes else _NO_AXES,
        limits=_limits(document, parts.get("limit"), given, element) if single else _UNLIMITED[kind],
        damping=damping,
        friction=friction,
        mimic=_mimic(document, parts["mimic"]) if single and "mimic" in parts else None,
    )


_IDENTITY = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
_Rotation = tuple[tuple[float, ...], ...]


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
    rpy = document.vector(element, "rpy", _ZERO)
    return (angles_rotation(document, element, element.get("rpy").split(), rpy) if any(rpy) else None), p


def angles_rotation(document: Document, element: Element, words: Sequence[str], angles: Sequence[float]) -> _Rotation:
    """`rotation`, for angles from a file, as they are written and as numbers."""
    if max(map(abs, angles)) > LARGEST_ANGLE:
        raise document.error(element, "an angle is too large to be meaningful; write one between −π and π")
    return rotation(*(snapped(document, words, angles) if document.snap_angles else angles))


@lru_cache(maxsize=4096)  # most angles in files are multiples of a quarter turn
def rotation(roll: float, pitch: float, yaw: float) -> _Rotation:
    """Rotations about the fixed x, y and z axes, in this order."""
    (sr, sp, sy), (cr, cp, cy) = (part.tolist() for part in sincos(np.array([roll, pitch, yaw])))
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


def _axis(document: Document, element: Element | None, joint: str) -> Array:
    """The unit axis of a joint, (1, 3); x if the file has none."""
    if element is None:
        return np.array([_X])
    document.known(element)
    axis = document.vector(element, "xyz", _X)
    if not any(axis):
        raise document.error(element, f"the axis of joint {clipped(joint)} is zero; give a direction, such as 0 0 1")
    return np.array([_unit(*axis)])


def _unit(*x: float) -> list[float]:
    """A nonzero vector, normalised."""
    scale = max(map(abs, x))
    scaled = [part / scale for part in x]
    size = math.sqrt(sum(part * part for part in scaled))
    return [part / size for part in scaled]


def _limits(document: Document, element: Element | None, given: str, joint: Element) -> Limits:
    """Limits of a joint with one coordinate. Missing lower and upper limits are zero [URDF]."""
    if element is None:
        if given in ("revolute", "prismatic"):
            document.findings.add(
                "joints without <limit>, taken as unlimited", f"{joint.get('name')!r}", joint.sourceline
            )
        return _UNLIMITED["revolute"]
    document.known(element)
    velocity, effort = (_magnitude(document, element, key, math.inf) for key in ("velocity", "effort"))
    if given == "continuous":
        return Limits(-math.inf, math.inf, velocity, effort)
    lower, upper = (document.number(element, key, 0.0, infinite=True) for key in ("lower", "upper"))
    if lower > upper:
        raise document.error(element, f"lower={lower:g} is above upper={upper:g}; swap them")
    return Limits(_unbounded(lower), _unbounded(upper), velocity, effort)


def _magnitude(document: Document, element: Element, name: str, default: float) -> float:
    value = document.number(element, name, default, infinite=default == math.inf)
    if value < 0.0:
        raise document.error(element, f"{name}={value:g} of <{element.tag}> is negative; write its magnitude")
    return _unbounded(value)


def _unbounded(value: float) -> float:
    return value if abs(value) < _NO_LIMIT else math.copysign(math.inf, value)


def _mimic(document: Document, element: Element) -> Mimic:
    document.known(element)
    multiplier, offset = document.number(element, "multiplier", 1.0), document.number(element, "offset", 0.0)
    return Mimic(document.text(element, "joint"), multiplier, offset)
