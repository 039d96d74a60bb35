"""Reads links and joints from a URDF file.

Only what the dynamics need is read. Shapes, materials, sensors, transmissions and simulator settings are silently
skipped, and no file that is referred to is opened. Any other element or attribute that is not read is reported, since
it may be misspelt.

[URDF] https://wiki.ros.org/urdf/XML
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from kinetree.errors import LoadError
from kinetree.loading.angles import report_snapped
from kinetree.loading.description import NO_COM, NO_INERTIA, UNLIMITED, Hinge, Link, Mimic, Rotation
from kinetree.loading.document import Document, Element
from kinetree.loading.findings import Findings
from kinetree.loading.options import Options
from kinetree.loading.poses import origin, unit_axis
from kinetree.loading.source import Source, clipped
from kinetree.loading.tree import grow
from kinetree.model.joints import KINDS
from kinetree.model.model import Model
from kinetree.spatial.fixed import product

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
    turns: dict[str, Rotation] = {}
    elements = robot[:]
    crowded = len(elements) > 2 * _MOST
    for element in elements:
        tag = element.tag
        if tag == "link" or tag == "joint":
            name = document.text(element, "name")
            if tag == "link":
                if name in links:
                    raise _twice(document, element, name)
                links[name] = _link(document, element, name, turns)
            else:
                if name in joints:
                    raise _twice(document, element, name)
                joints[name] = _joint(document, element, name)
        elif tag not in _PASSED_OVER["robot"]:
            document.unread(element)
        if crowded and len(links) + len(joints) > 2 * _MOST:
            raise document.error(element, f"more than {2 * _MOST} links and joints; split the file")
    name = robot.get("name") or (source.path.stem if source.path else "robot")
    report_snapped(document)
    if turns:
        _turned(links, turns)
    return grow(name, links, joints, options, findings)


def _twice(document: Document, element: Element, name: str) -> LoadError:
    """The error for the second element with a name."""
    tag, line = element.tag, element.sourceline
    first = next(each.sourceline for each in document.root.iterchildren(tag) if each.get("name") == name)
    return document.error(
        element, f"{tag} {clipped(name)} is defined twice, in line {first} and in line {line}; rename one"
    )


def _turned(links: dict[str, Link], turns: Mapping[str, Rotation]) -> None:
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


def _link(document: Document, element: Element, name: str, turns: dict[str, Rotation]) -> Link:
    """A link. If its inertia is written in other axes than its own, these are added to `turns`."""
    document.known(element)
    inertial = document.parts(element, _LINK_PARTS, _PASSED_OVER["link"]).get("inertial")
    if inertial is None:
        return Link(name, element.sourceline, 0.0, NO_COM, NO_INERTIA)
    parts = document.parts(inertial, _INERTIAL_PARTS)
    try:
        weight, inertia = parts["mass"], parts["inertia"]
    except KeyError as error:
        raise document.error(
            inertial, f"<inertial> of link {clipped(name)} has no <{error.args[0]}>; add it, or delete <inertial>"
        ) from None
    xx, xy, xz, yy, yz, zz = document.numbers(inertia, _MOMENTS)
    R, com = origin(document, parts.get("origin"))
    (mass,) = document.numbers(weight, {"value": None})
    if R is not None:
        turns[name] = R
    return Link(name, inertial.sourceline, mass, com, (xx, xy, xz, xy, yy, yz, xz, yz, zz))


def _joint(document: Document, element: Element, name: str) -> Hinge:
    document.known(element)
    given = document.text(element, "type")
    kind = TYPES.get(given)
    if kind is None:
        choices = ", ".join(TYPES)
        raise document.error(
            element, f"joint {clipped(name)} is of unknown type {clipped(given)}; write one of {choices}"
        )
    parts = document.parts(element, _JOINT_PARTS, _PASSED_OVER["joint"])
    parent, child = (_end(document, element, parts, which) for which in ("parent", "child"))
    placement, line = origin(document, parts.get("origin")), element.sourceline
    if kind == "fixed":
        return Hinge(name, line, kind, parent, child, placement, (), UNLIMITED[kind], 0.0, 0.0, None)
    damping = friction = 0.0
    if "dynamics" in parts:
        damping, friction = _losses(document, parts["dynamics"])
    if kind in ("revolute", "prismatic"):
        axis = unit_axis(document, parts.get("axis"), name)
        limits = _limits(document, parts.get("limit"), given, element)
        mimic = _mimic(document, parts["mimic"]) if "mimic" in parts else None
        return Hinge(name, line, kind, parent, child, placement, axis, limits, damping, friction, mimic)
    for unread in ("limit", "mimic"):
        if unread in parts:
            document.findings.unread(f"<{unread}> of a {given} joint", parts[unread].sourceline)
    axis = unit_axis(document, parts.get("axis"), name) if KINDS[kind].axes else ()
    return Hinge(name, line, kind, parent, child, placement, axis, UNLIMITED[kind], damping, friction, None)


def _end(document: Document, joint: Element, parts: Mapping[str, Element], which: str) -> str:
    """The parent or child of a joint."""
    if which not in parts:
        raise document.error(joint, f"joint {clipped(joint.get('name'))} has no <{which} link=…/>; add it")
    document.known(parts[which])
    return document.text(parts[which], "link")


def _limits(document: Document, element: Element | None, given: str, joint: Element) -> tuple[float, ...]:
    """Limits of a joint with one coordinate. Missing lower and upper limits are zero [URDF]."""
    if element is None:
        if given in ("revolute", "prismatic"):
            document.findings.add(
                "joints without <limit>, taken as unlimited", f"{joint.get('name')!r}", joint.sourceline
            )
        return UNLIMITED["revolute"]
    document.known(element)
    velocity = _magnitude(document, element, "velocity", math.inf)
    effort = _magnitude(document, element, "effort", math.inf)
    if given == "continuous":
        return -math.inf, math.inf, velocity, effort
    lower, upper = document.number(element, "lower", 0.0, True), document.number(element, "upper", 0.0, True)
    if lower > upper:
        raise document.error(element, f"lower={lower:g} is above upper={upper:g}; swap them")
    lower, upper = (lower if lower > -_NO_LIMIT else -math.inf), (upper if upper < _NO_LIMIT else math.inf)
    return lower, upper, velocity, effort


def _losses(document: Document, element: Element) -> tuple[float, float]:
    """Damping and dry friction of a joint."""
    document.known(element)
    return _magnitude(document, element, "damping", 0.0), _magnitude(document, element, "friction", 0.0)


def _magnitude(document: Document, element: Element, name: str, default: float) -> float:
    value = document.number(element, name, default, default == math.inf)
    if value < 0.0:
        raise document.error(element, f"{name}={value:g} of <{element.tag}> is negative; write its magnitude")
    return value if value < _NO_LIMIT else math.inf


def _mimic(document: Document, element: Element) -> Mimic:
    document.known(element)
    multiplier, offset = document.number(element, "multiplier", 1.0), document.number(element, "offset", 0.0)
    return Mimic(document.text(element, "joint"), multiplier, offset)
