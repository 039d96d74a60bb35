"""Export to URDF, and what exports share: XML written line by line, and joints that other formats lack, in series."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from kinetree.errors import InputError, ModelError, ModelWarning
from kinetree.io.source import unused
from kinetree.model.body import Body
from kinetree.model.joint import Joint, Limits, Spring
from kinetree.model.loops.coupling import LinearCoupling
from kinetree.model.loops.loop import Loop
from kinetree.model.model import Model
from kinetree.model.shapes import Box, Capsule, Cylinder, Hull, SolidShape, Sphere
from kinetree.model.specs import WORLD_NAME
from kinetree.spatial.value import Array

_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
)

_FORBIDDEN = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


class Elements:
    """Collects the lines of an XML document."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._open: list[str] = []

    def open(self, tag: str, **attributes: str) -> None:
        """Start an element; attributes whose name ends with "_" are written without it."""
        self._put(tag, attributes, ">")
        self._open.append(tag)

    def close(self) -> None:
        """End the innermost element."""
        tag = self._open.pop()
        self._lines.append(f"{'  ' * len(self._open)}</{tag}>")

    def put(self, tag: str, **attributes: str) -> None:
        """Write an empty element."""
        self._put(tag, attributes, "/>")

    def _put(self, tag: str, attributes: dict[str, str], end: str) -> None:
        for value in attributes.values():
            if re.search(_FORBIDDEN, value):
                raise ModelError(f"{value!r} has a character that no XML file can hold; rename it")
        inside = "".join(f' {name.rstrip("_")}="{value.translate(_ESCAPES)}"' for name, value in attributes.items())
        self._lines.append(f"{'  ' * len(self._open)}<{tag}{inside}{end}")

    def text(self) -> str:
        """The document."""
        return "\n".join(self._lines) + "\n"


def numbers(values: Iterable[float]) -> str:
    """Numbers separated by spaces, each with as many digits as needed to read it back exactly."""
    return " ".join(number(value) for value in values)


def number(value: float) -> str:
    """A number with as many digits as needed to read it back exactly."""
    return f"{float(value)!r}".removesuffix(".0")


#: The parts of each kind of joint; their coordinates are the same, in the same order.
_PARTS = {
    "cylindrical": ("revolute", "prismatic"),
    "universal": ("revolute", "revolute"),
    "translational": ("prismatic", "prismatic", "prismatic"),
}


def unfolded(model: Model) -> Model:
    """The open tree, with its cylindrical, universal and translational joints replaced by one-DoF joints in series.

    The parts of joint "j" are "j.1", "j.2", …; between them are massless bodies "b (j.1)", ….
    """
    bodies: list[Body] = []
    joints: list[Joint] = []
    taken = set(model.frames)
    for joint in model.joints:
        if joint.node is not None:
            raise ModelError(f"{joint.name!r} is a general node, which neither URDF nor MJCF can describe")
    for body in model.bodies:
        joint = model.joint(body.joint)
        parts = _PARTS.get(joint.kind, ())
        if not parts:
            bodies.append(body)
            joints.append(joint)
            continue
        parent, placement = joint.parent, joint.placement
        for i, kind in enumerate(parts):
            last = i == len(parts) - 1
            child = body.name if last else unused(f"{body.name} ({joint.name}.{i + 1})", taken)
            taken.add(child)
            part = Joint(
                name=f"{joint.name}.{i + 1}",
                kind=kind,
                parent=parent,
                child=child,
                placement=placement,
                axes=_axis(joint, i),
                pitch=0.0,
                armature=joint.armature[i : i + 1],
                limits=Limits(*(getattr(joint.limits, name)[i] for name in ("lower", "upper", "velocity", "effort"))),
                damping=joint.damping[i : i + 1],
                friction=joint.friction[i : i + 1],
                q_start=0,
                v_start=0,
                spring=None if joint.spring is None else _part(joint.spring, i),
            )
            solid = replace(body, parent=parent, joint=part.name)
            bodies.append(solid if last else Body(child, parent, part.name, 0.0, np.zeros(3), np.zeros((3, 3))))
            joints.append(part)
            parent, placement = child, np.eye(4)
    return Model(model.name, model.gravity, bodies, joints, model.extra_frames)


def _part(spring: Spring, i: int) -> Spring:
    return Spring(spring.stiffness[i : i + 1], spring.reference[i : i + 1])


def _axis(joint: Joint, part: int) -> Array:
    if joint.kind == "translational":
        return np.eye(3)[[part]]
    return joint.axes[[part]] if joint.kind == "universal" else joint.axes


# Represents "no limit" where a number is required; `load` and other programs understand it.
_NO_LIMIT = 1e16
_GRAVITY = (0.0, 0.0, -9.81)


def to_urdf(robot: Model) -> str:
    """A robot as URDF source, which `load` reads back.

    Root bodies are attached to a link "world"; extra frames become massless links with fixed joints. Cylindrical,
    universal and translational joints become joints in series with the same coordinates. A single `ModelWarning` lists
    whatever URDF cannot express: planes, ellipsoids and height fields, friction of shapes, armature, gravity other than
    9.81 m/s² downwards, damping that differs between the coordinates of one joint. Spherical joints and capsules are
    extensions that few programs read.

    Args:
        robot: The model.

    Raises:
        InputError: If `robot` is not a `Model`.
        ModelError: If it has a helical joint, which URDF does not support.
    """
    if not isinstance(robot, Model):
        raise InputError(f"to_urdf takes a kinetree.Model, got {type(robot).__name__}")
    lost: list[str] = []
    if not np.array_equal(robot.gravity, _GRAVITY):
        lost.append(f"gravity {numbers(robot.gravity)}")
    closed = next((one for one in (*robot.equalities, *robot.joint_constraints) if isinstance(one, Loop)), None)
    if robot.equalities or closed is not None:
        raise ModelError(
            f"URDF cannot describe {closed or robot.equalities[0]}; save the robot as MJCF, or one loaded with "
            'loops="ignore"'
        )
    if robot.keyframes:
        lost.append(f"keyframes ({', '.join(robot.keyframes)})")
    model = unfolded(robot)
    xml = Elements()
    xml.open("robot", name=model.name)
    shapes: dict[str, list[SolidShape]] = {}
    for shape in robot.shapes:
        shapes.setdefault(str(shape.body), []).append(shape)
    _write_link(xml, WORLD_NAME, shapes.get(WORLD_NAME, ()), lost)
    for body in model.bodies:
        own = shapes.get(body.name, ())
        if body.mass == 0.0 and not body.inertia.any():
            _write_link(xml, body.name, own, lost)
            continue
        xml.open("link", name=body.name)
        xml.open("inertial")
        xml.put("origin", xyz=numbers(body.com))
        xml.put("mass", value=number(body.mass))
        (xx, xy, xz), (_, yy, yz), (_, _, zz) = body.inertia
        moments = {"ixx": xx, "ixy": xy, "ixz": xz, "iyy": yy, "iyz": yz, "izz": zz}
        xml.put("inertia", **{name: number(value) for name, value in moments.items()})
        xml.close()
        _write_shapes(xml, own, lost)
        xml.close()
    for frame in model.extra_frames:
        _write_link(xml, frame.name, shapes.get(frame.name, ()), lost)
    taken = {model.joint(body.joint).name for body in model.bodies}
    mimics = _mimics(robot)
    for body in model.bodies:
        _write_joint(xml, model.joint(body.joint), mimics, lost)
    for frame in model.extra_frames:
        name = unused(f"{frame.name}_joint", taken)
        taken.add(name)
        xml.open("joint", name=name, type="fixed")
        _write_ends(xml, frame.body, frame.name, frame.placement)
        xml.close()
    xml.close()
    if lost:
        warnings.warn(f"{robot.name!r} as URDF loses: {'; '.join(lost)}", ModelWarning, stacklevel=2)
    return xml.text()


def _write_link(xml: Elements, name: str, shapes: Sequence[SolidShape], lost: list[str]) -> None:
    """A link without mass."""
    if not shapes:
        xml.put("link", name=name)
        return
    xml.open("link", name=name)
    _write_shapes(xml, shapes, lost)
    xml.close()


def _write_shapes(xml: Elements, shapes: Sequence[SolidShape], lost: list[str]) -> None:
    for shape in shapes:
        described = _described(shape)
        if described is None:
            lost.append(f"{shape.kind} {shape.name!r}")
            continue
        if isinstance(shape, Box) and shape.rounding:
            lost.append(f"the rounding of shape {shape.name!r}")
        if shape.friction is not None:
            lost.append(f"the friction of shape {shape.name!r}")
        tag, sizes = described
        xml.open("collision", name=shape.name)
        _write_origin(xml, shape.placement)
        xml.open("geometry")
        xml.put(tag, **sizes)
        xml.close()
        xml.close()


def _described(shape: SolidShape) -> tuple[str, dict[str, str]] | None:
    """The element of a shape; None if URDF has none."""
    if isinstance(shape, Sphere):
        return "sphere", {"radius": number(shape.radius)}
    if isinstance(shape, Capsule):
        return "capsule", {"radius": number(shape.radius), "length": number(2.0 * shape.half[2])}
    if isinstance(shape, Box):
        return "box", {"size": numbers(shape.size)}
    if isinstance(shape, Cylinder):
        return "cylinder", {"radius": number(shape.radius), "length": number(shape.length)}
    if isinstance(shape, Hull) and shape.points is None:
        scale = {} if (shape.scale == 1.0).all() else {"scale": numbers(shape.scale)}
        return "mesh", {"filename": shape.file, **scale}
    return None


def _mimics(model: Model) -> dict[str, dict[str, str]]:
    """Attributes of the <mimic> of each coupled joint, by name."""
    found: dict[str, dict[str, str]] = {}
    for coupling in model.couplings:
        if not isinstance(coupling, LinearCoupling) or len(coupling.joints) != 2 or coupling.joints[0] in found:
            raise ModelError(
                f"URDF cannot describe the coupling {coupling}: a joint mimics one other joint, linearly; lock a joint "
                "with reduced()"
            )
        follower, leader = coupling.joints
        own, other = coupling.coefficients.tolist()
        found[follower] = {
            "joint": leader, "multiplier": number(-other / own), "offset": number(coupling.offset / own)
        }  # fmt: skip
    return found


def _write_joint(xml: Elements, joint: Joint, mimics: dict[str, dict[str, str]], lost: list[str]) -> None:
    if joint.kind == "helical":
        raise ModelError(f"joint {joint.name!r} is helical, which URDF does not know; lock it with reduced()")
    if joint.armature.any():
        lost.append(f"armature of joint {joint.name!r}")
    if joint.spring is not None:
        lost.append(f"the spring of joint {joint.name!r}")
    bounded = joint.type.nv == 1 and (joint.limits.lower[0] > -math.inf or joint.limits.upper[0] < math.inf)
    kind = "continuous" if joint.kind == "revolute" and not bounded else joint.kind
    xml.open("joint", name=joint.name, type=kind)
    _write_ends(xml, joint.parent, joint.child, joint.placement)
    if joint.type.axes:
        xml.put("axis", xyz=numbers(joint.axes[0]))
    if joint.type.nv == 1:
        limits = {name: getattr(joint.limits, name)[0] for name in ("lower", "upper", "velocity", "effort")}
        written = {name: number(min(max(value, -_NO_LIMIT), _NO_LIMIT)) for name, value in limits.items()}
        if kind == "continuous":
            del written["lower"], written["upper"]
        xml.put("limit", **written)
    elif any(np.isfinite(getattr(joint.limits, name)).any() for name in ("lower", "upper", "velocity", "effort")):
        lost.append(f"limits of joint {joint.name!r}")
    dissipation = uniform(joint, ("damping", "friction"), lost)
    if dissipation:
        xml.put("dynamics", **dissipation)
    if joint.name in mimics:
        xml.put("mimic", **mimics[joint.name])
    xml.close()


def uniform(joint: Joint, names: Iterable[str], lost: list[str]) -> dict[str, str]:
    """Properties of a joint that are nonzero and equal for all its coordinates; others are lost."""
    found = {}
    for name in names:
        values = set(getattr(joint, name).tolist())
        if len(values) > 1:
            lost.append(f"{name} of joint {joint.name!r}, which differs between its coordinates")
        elif any(values):
            found[name] = number(values.pop())
    return found


def _write_ends(xml: Elements, parent: str, child: str, placement: Array) -> None:
    xml.put("parent", link=parent)
    xml.put("child", link=child)
    _write_origin(xml, placement)


def _write_origin(xml: Elements, placement: Array) -> None:
    turn = {} if np.array_equal(placement[:3, :3], np.eye(3)) else {"rpy": numbers(_angles(placement[:3, :3]))}
    if turn or placement[:3, 3].any():
        xml.put("origin", xyz=numbers(placement[:3, 3]), **turn)


def _angles(R: Array) -> tuple[float, float, float]:
    """Roll, pitch and yaw about the fixed x, y and z axes; where they are not unique, roll is zero."""
    pitch = math.atan2(-R[2, 0], math.hypot(R[0, 0], R[1, 0]))
    if math.hypot(R[0, 0], R[1, 0]) < 1e-8:
        # gimbal lock: roll and yaw are about the same axis
        yaw = math.atan2(-R[0, 1], R[1, 1])
        return 0.0, pitch, yaw
    yaw = math.atan2(R[1, 0], R[0, 0])
    s, c = math.sin(yaw), math.cos(yaw)
    # undo the yaw first, so that roll stays accurate near pitch = ±π/2
    roll = math.atan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1])
    return roll, pitch, yaw
