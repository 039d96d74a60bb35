"""Reads links and joints from a URDF file, and expands xacro files.

Only what the dynamics need is read, and collision shapes. Visuals, materials, sensors, transmissions and simulator
settings are silently skipped, and no file that is referred to is opened. Any other element or attribute that is not
read is reported, since it may be misspelt.

A xacro file is a program: it evaluates expressions, reads any file that it includes, and can grow without bound. So it
is expanded only if the user permits it, by the xacro program in a child process with limits on time and memory.

[URDF] https://wiki.ros.org/urdf/XML
"""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kinetree.errors import InputError, LoadError
from kinetree.io.build import build
from kinetree.io.collision import ShapeSpec, read_shapes, urdf_shape
from kinetree.io.document import Document, Element
from kinetree.io.options import Diagnostics, Options
from kinetree.io.origins import origin, report_snapped, turned_inertia, unit_axis
from kinetree.io.source import LARGEST, Source, clipped
from kinetree.model.joint import Limits
from kinetree.model.joints import KINDS
from kinetree.model.model import Model
from kinetree.model.specs import BodySpec, JointSpec, Mimic, constant, unlimited

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


def load_urdf(source: Source, options: Options, diagnostics: Diagnostics) -> Model:
    """Load a URDF file."""
    document = Document(source, diagnostics, _ATTRIBUTES, options.snap_angles)
    robot = document.root
    document.known(robot)
    links: dict[str, BodySpec] = {}
    joints: dict[str, JointSpec] = {}
    shapes: list[ShapeSpec] = []
    elements = robot[:]
    crowded = len(elements) > 2 * _MOST
    for element in elements:
        tag = element.tag
        if tag == "link" or tag == "joint":
            name = document.text(element, "name")
            if tag == "link":
                if name in links:
                    raise _twice(document, element, name)
                links[name] = _link(document, element, name)
                read_shapes(document, element, name, options.shapes, urdf_shape, shapes)
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
    return build(name, links, joints, options, diagnostics, shapes=shapes)


def _twice(document: Document, element: Element, name: str) -> LoadError:
    """The error for the second element with a name."""
    tag, line = element.tag, element.sourceline
    first = next(each.sourceline for each in document.root.iterchildren(tag) if each.get("name") == name)
    return document.error(
        element, f"{tag} {clipped(name)} is defined twice, in line {first} and in line {line}; rename one"
    )


def _link(document: Document, element: Element, name: str) -> BodySpec:
    document.known(element)
    inertial = document.parts(element, _LINK_PARTS, _PASSED_OVER["link"]).get("inertial")
    if inertial is None:
        return BodySpec(name, line=element.sourceline)
    parts = document.parts(inertial, _INERTIAL_PARTS)
    try:
        weight, inertia = parts["mass"], parts["inertia"]
    except KeyError as error:
        raise document.error(
            inertial, f"<inertial> of link {clipped(name)} has no <{error.args[0]}>; add it, or delete <inertial>"
        ) from None
    xx, xy, xz, yy, yz, zz = document.numbers(inertia, _MOMENTS)
    at = origin(document, parts.get("origin"))
    (mass,) = document.numbers(weight, {"value": None})
    moments = turned_inertia(at, (xx, xy, xz, xy, yy, yz, xz, yz, zz))
    return BodySpec(name, mass, at[3::4], moments, inertial.sourceline)


def _joint(document: Document, element: Element, name: str) -> JointSpec:
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
        return JointSpec.fixed(name, parent, child, placement, line)
    damping = friction = 0.0
    if "dynamics" in parts:
        document.known(parts["dynamics"])
        damping, friction = (_magnitude(document, parts["dynamics"], name, 0.0) for name in ("damping", "friction"))
    nv, limits, mimic = KINDS[kind].nv, unlimited(kind), None
    axes = [unit_axis(document, parts.get("axis"), name)] if KINDS[kind].axes else []
    if nv == 1:
        limits = _limits(document, parts.get("limit"), given, element)
        mimic = _mimic(document, parts["mimic"]) if "mimic" in parts else None
    for unread in ("limit", "mimic") if nv != 1 else ():
        if unread in parts:
            document.diagnostics.unread(f"<{unread}> of a {given} joint", parts[unread].sourceline)
    losses = constant(damping, nv), constant(friction, nv), constant(0.0, nv)
    return JointSpec(name, kind, parent, child, placement, axes, limits, *losses, mimic=mimic, line=line)


def _end(document: Document, joint: Element, parts: Mapping[str, Element], which: str) -> str:
    """The parent or child of a joint."""
    if which not in parts:
        raise document.error(joint, f"joint {clipped(joint.get('name'))} has no <{which} link=…/>; add it")
    document.known(parts[which])
    return document.text(parts[which], "link")


def _limits(document: Document, element: Element | None, given: str, joint: Element) -> Limits:
    """Limits of a joint with one coordinate. Missing lower and upper limits are zero [URDF]."""
    if element is None:
        if given in ("revolute", "prismatic"):
            document.diagnostics.add(
                "joints without <limit>, taken as unlimited", f"{joint.get('name')!r}", joint.sourceline
            )
        return unlimited("revolute")
    document.known(element)
    velocity = _magnitude(document, element, "velocity", math.inf)
    effort = _magnitude(document, element, "effort", math.inf)
    if given == "continuous":
        return Limits.trusted((-math.inf, math.inf, velocity, effort))
    lower, upper = document.number(element, "lower", 0.0, True), document.number(element, "upper", 0.0, True)
    if lower > upper:
        raise document.error(element, f"lower={lower:g} is above upper={upper:g}; swap them")
    lower, upper = (lower if lower > -_NO_LIMIT else -math.inf), (upper if upper < _NO_LIMIT else math.inf)
    return Limits.trusted((lower, upper, velocity, effort))


def _magnitude(document: Document, element: Element, name: str, default: float) -> float:
    value = document.number(element, name, default, default == math.inf)
    if value < 0.0:
        raise document.error(element, f"{name}={value:g} of <{element.tag}> is negative; write its magnitude")
    return value if value < _NO_LIMIT else math.inf


def _mimic(document: Document, element: Element) -> Mimic:
    document.known(element)
    multiplier, offset = document.number(element, "multiplier", 1.0), document.number(element, "offset", 0.0)
    return Mimic(document.text(element, "joint"), multiplier, offset)


INSTALL = 'pip install "kinetree[xacro]"'

#: Limits on time [s] and address space [bytes].
PATIENCE, MEMORY = 30.0, 2 * 2**30

# code of the child: set the limits, then run xacro's command line
_CHILD = """
import sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
except (ImportError, ValueError):
    pass
import xacro
xacro.main()
"""


def expanded(source: Source, arguments: Mapping[str, Any]) -> Source:
    """The URDF that a xacro file describes; xacro reads the file again, together with its includes."""
    if source.path is None:
        raise InputError("xacro= needs a file, since xacro looks for includes beside it; pass its path")
    words = []
    for name, value in arguments.items():
        if not isinstance(name, str) or not name.isidentifier() or not isinstance(value, (str, int, float)):
            raise InputError(
                f"xacro={{{name!r}: {value!r}}} is not a valid argument; pass strings, numbers or Booleans by name"
            )
        words.append(f"{name}:={str(value).lower() if isinstance(value, bool) else value}")
    if importlib.util.find_spec("xacro") is None:
        raise LoadError(f"needs xacro to expand it, which is not installed. Install it with: {INSTALL}", source.file)
    command = [sys.executable, "-c", _CHILD.format(memory=MEMORY), str(Path(source.path).absolute()), *words]
    try:
        done = subprocess.run(  # noqa: S603 (this interpreter, and names that were checked)
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise LoadError(f"takes more than {PATIENCE:g} s to expand; does a macro call itself?", source.file) from None
    if done.returncode or len(done.stdout) > LARGEST:
        reason = " ".join(done.stderr.decode("utf-8", "replace").split())[-500:] or "too much output"
        hint = "; set up ROS for $(find …)" if "ament_index_python" in reason else ""
        raise LoadError(f"xacro cannot expand it: {reason}{hint}", source.file)
    return Source.expanded(done.stdout, source)
