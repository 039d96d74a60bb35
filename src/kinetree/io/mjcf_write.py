"""Export to MJCF."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinetree.errors import InputError, LoadError, ModelError, ModelWarning
from kinetree.io.mjcf_assets import SUFFIXES
from kinetree.io.save import Elements, number, numbers, unfolded, uniform
from kinetree.model.body import Body, Frame
from kinetree.model.joint import Joint
from kinetree.model.loops.coupling import Coupling, LinearCoupling, PolynomialCoupling
from kinetree.model.loops.loop import Loop
from kinetree.model.model import Model
from kinetree.model.shapes import Box, Capsule, Cylinder, Ellipsoid, HeightField, Hull, Plane, SolidShape, Sphere
from kinetree.model.specs import WORLD_NAME
from kinetree.spatial.reproducible import apply, product
from kinetree.spatial.rotation import quaternion_of
from kinetree.spatial.transform import inverse, pose
from kinetree.spatial.value import Array

_TYPES = {"revolute": "hinge", "prismatic": "slide", "spherical": "ball", "floating": "free"}

# MuJoCo treats smaller values as zero.
_LEAST = 1e-15

# Depth of what is below height fields [m], which matters to MuJoCo only.
_BELOW = 1.0


@dataclass(frozen=True, eq=False)
class _JointGroup:
    """A body with the joints inboard of it, including those of massless bodies, which MuJoCo rejects."""

    body: Body  # the last body of the group
    # joints, inboard first, each with the pose of its child in the body, (4, 4)
    joints: tuple[tuple[Joint, Array], ...]
    placement: Array  # pose of the body in its parent at the neutral configuration, (4, 4)


def to_mjcf(robot: Model) -> str:
    """A robot as MJCF source, which `load` and MuJoCo read.

    Frames become sites, shapes geoms, `pair_rules` excluded bodies and pairs of geoms. Cylindrical, universal and
    translational joints become several joints of one body, with the same coordinates, and so do joints with massless
    bodies between them, whose names are lost. Couplings and loops become equality constraints, which are exact here and
    soft in MuJoCo. Hulls name their files as they do here, or where those are found; no file is opened. A single
    `ModelWarning` lists whatever MJCF cannot express: meshes that MuJoCo does not read, velocity limits, and damping,
    friction or armature that differ between the coordinates of one joint.

    Args:
        robot: The model.

    Raises:
        InputError: If `robot` is not a `Model`.
        ModelError: If it has a joint that MJCF does not support (helical, planar, or floating anywhere but at the
            world's origin), a body that MuJoCo rejects (a moving body without mass), or a constraint without a
            counterpart: a rod, a coupling of several joints or by a function of yours.
    """
    if not isinstance(robot, Model):
        raise InputError(f"to_mjcf takes a kinetree.Model, got {type(robot).__name__}")
    lost: list[str] = []
    model = unfolded(robot)
    children: dict[str, list[Body]] = {name: [] for name in (WORLD_NAME, *(body.name for body in model.bodies))}
    for body in model.bodies:
        children[body.parent].append(body)
    heavy, written = _heavy(model), {WORLD_NAME}
    xml = Elements()
    xml.open("mujoco", model=model.name)
    xml.put("compiler", angle="radian", inertiafromgeom="false", autolimits="true")
    xml.put("option", gravity=numbers(model.gravity))
    _write_assets(xml, robot)
    xml.open("worldbody")
    sites = _sites(robot)
    _write_sites(xml, sites, WORLD_NAME)
    shapes = _shapes(robot)
    _write_geoms(xml, shapes, WORLD_NAME, lost)
    pending: list[Body | None] = [*children[WORLD_NAME][::-1]]
    while pending:
        top = pending.pop()
        if top is None:
            xml.close()
            continue
        group = _grouped(top, model, children, heavy)
        _write_body(xml, sites, group, lost)
        _write_geoms(xml, shapes, group.body.name, lost)
        written.add(group.body.name)
        pending += [None, *children[group.body.name][::-1]]
    xml.close()
    _write_equalities(xml, robot, written)
    _write_pair_rules(xml, robot, written, lost)
    _write_keyframes(xml, robot)
    xml.close()
    lost += [f"shape {shape.name!r}" for body, own in shapes.items() if body not in written for shape, _ in own]
    if lost:
        warnings.warn(f"{robot.name!r} as MJCF loses: {'; '.join(lost)}", ModelWarning, stacklevel=2)
    return xml.text()


def _shapes(robot: Model) -> dict[str, list[tuple[SolidShape, Array]]]:
    """The shapes of each body, with their poses there."""
    frames = {frame.name: frame for frame in robot.extra_frames}
    found: dict[str, list[tuple[SolidShape, Array]]] = {}
    for shape in robot.shapes:
        frame, body, at = frames.get(str(shape.body)), str(shape.body), shape.placement
        if frame is not None:
            body, at = frame.body, product(frame.placement, at)
        found.setdefault(body, []).append((shape, at))
    return found


def _write_assets(xml: Elements, robot: Model) -> None:
    """Write meshes and height fields, under the names of their shapes."""
    made = [shape for shape in robot.shapes if isinstance(shape, (Hull, HeightField)) and _geom(shape)[0]]
    if not made:
        return
    xml.open("asset")
    for shape in made:
        if isinstance(shape, Hull):
            of = {"file": _mesh_file(shape)} if shape.points is None else {"vertex": numbers(shape.points.reshape(-1))}
            scale = {} if (shape.scale == 1.0).all() else {"scale": numbers(shape.scale)}
            xml.put("mesh", name=shape.name, **of, **scale)
        else:  # MuJoCo scales elevations to run from 0 to 1
            rows, columns = shape.heights.shape
            size = (*(0.5 * shape.size), _rise(shape), _BELOW)
            written = numbers((shape.heights - shape.heights.min())[::-1].reshape(-1))  # rows from the top down
            xml.put("hfield", name=shape.name, nrow=str(rows), ncol=str(columns), size=numbers(size), elevation=written)
    xml.close()


def _rise(field: HeightField) -> float:
    """The difference of its heights; MuJoCo wants a positive number where it is level, too."""
    return float(np.ptp(field.heights)) or 1.0


def _mesh_file(hull: Hull) -> str:
    """The file of a hull as MJCF names it; empty if MuJoCo does not read it."""
    name = hull.file
    if "://" in name:
        try:
            name = str(hull.path)
        except LoadError:
            return ""
    return name if name.lower().endswith(SUFFIXES) else ""


def _write_geoms(xml: Elements, shapes: dict[str, list[tuple[SolidShape, Array]]], body: str, lost: list[str]) -> None:
    for shape, at in shapes.get(body, ()):
        kind, size = _geom(shape)
        if not _expressible(shape, body):
            lost.append(f"{shape.kind} {shape.name!r}")
            continue
        if isinstance(shape, Box) and shape.rounding:
            lost.append(f"the rounding of shape {shape.name!r}")
        if isinstance(shape, HeightField):
            at = product(at, pose(np.eye(3), np.array([0.0, 0.0, shape.heights.min()])))
        rest = {"size": numbers(size)} if size else {kind: shape.name}
        if shape.friction is not None:
            rest["friction"] = number(shape.friction)
        if shape.masks is not None:
            rest |= {"contype": str(shape.masks[0]), "conaffinity": str(shape.masks[1])}
        xml.put("geom", name=shape.name, type=kind, **_pose(at), **rest)


def _expressible(shape: SolidShape, body: str) -> bool:
    kind, _ = _geom(shape)
    return bool(kind) and (kind not in ("plane", "hfield") or body == WORLD_NAME)


def _geom(shape: SolidShape) -> tuple[str, tuple[float, ...]]:
    """Type and sizes of a shape in MJCF, none of assets; no type if there is none."""
    if isinstance(shape, Sphere):
        return "sphere", (shape.radius,)
    if isinstance(shape, Capsule):
        return "capsule", (shape.radius, shape.half[2])
    if isinstance(shape, Cylinder):
        return "cylinder", (shape.radius, 0.5 * shape.length)
    if isinstance(shape, Box):
        return "box", tuple(0.5 * shape.size)
    if isinstance(shape, Ellipsoid):
        return "ellipsoid", tuple(shape.semi_axes)
    if isinstance(shape, HeightField):
        return "hfield", ()
    if isinstance(shape, Hull):
        return ("mesh" if shape.points is not None or _mesh_file(shape) else ""), ()
    return ("plane", (0.0, 0.0, 1.0)) if isinstance(shape, Plane) else ("", ())


def _heavy(model: Model) -> set[str]:
    """Bodies with inertia, of their own or of bodies fixed to them."""
    heavy: set[str] = set()
    for body in reversed(model.bodies):
        if body.mass > _LEAST and np.linalg.eigvalsh(body.inertia)[0] > _LEAST:
            heavy.add(body.name)
        if body.name in heavy and model.joint(body.joint).kind == "fixed":
            heavy.add(body.parent)
    return heavy


def _grouped(body: Body, model: Model, children: dict[str, list[Body]], heavy: set[str]) -> _JointGroup:
    """A body merged with its descendants up to the first that has mass."""
    links: list[tuple[Joint, Array]] = []
    start = model.joint(body.joint).placement
    sites = {frame.body for frame in model.extra_frames}
    while True:
        joint = model.joint(body.joint)
        if links:
            links = [(other, product(at, joint.placement)) for other, at in links]
        if joint.kind != "fixed":
            links.append((joint, np.eye(4)))
        if body.name in heavy or not links:
            break
        alone = len(children[body.name]) == 1 and body.name not in sites and body.mass == 0.0
        if not alone or joint.kind in ("floating", "spherical"):
            raise ModelError(
                f"body {body.name!r} moves without mass or inertia, which MuJoCo refuses; give it some, or lock "
                f"joint {joint.name!r} with reduced()"
            )
        body = children[body.name][0]
        start = product(start, model.joint(body.joint).placement)
    return _JointGroup(body, tuple((joint, inverse(at)) for joint, at in links), start)


def _write_body(xml: Elements, sites: Sequence[Frame], group: _JointGroup, lost: list[str]) -> None:
    body = group.body
    borne = {"gravcomp": number(body.gravity_compensation)} if body.gravity_compensation else {}
    xml.open("body", name=body.name, **_pose(group.placement), **borne)
    if body.mass or body.inertia.any():
        I = body.inertia
        full = (I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
        xml.put("inertial", pos=numbers(body.com), mass=number(body.mass), fullinertia=numbers(full))
    for joint, at in group.joints:
        _write_joint(xml, joint, at, lost)
    _write_sites(xml, sites, body.name)


def _write_joint(xml: Elements, joint: Joint, at: Array, lost: list[str]) -> None:
    """Write a joint; `at` is the pose of its child frame in the body."""
    if joint.kind not in _TYPES:
        raise ModelError(f"joint {joint.name!r} is {joint.kind}, which MJCF does not know; lock it with reduced()")
    if joint.kind == "floating" and not (joint.parent == WORLD_NAME and np.array_equal(joint.placement, np.eye(4))):
        raise ModelError(f"joint {joint.name!r} floats elsewhere than at the world's origin, which MJCF does not know")
    settings = {"name": joint.name, "type": _TYPES[joint.kind]}
    if joint.type.axes:
        settings["axis"] = numbers(apply(at[:3, :3], joint.axes[0]))
    if joint.kind != "floating" and at[:3, 3].any():
        settings["pos"] = numbers(at[:3, 3])
    if joint.nv == 1:
        lower, upper = joint.limits.lower[0], joint.limits.upper[0]
        if lower > -math.inf or upper < math.inf:
            settings["range"] = f"{number(lower)} {number(upper)}"
        effort = joint.limits.effort[0]
        if effort == 0.0:
            lost.append(f"that joint {joint.name!r} bears no effort")
        elif effort < math.inf:
            settings["actuatorfrcrange"] = f"{number(-effort)} {number(effort)}"
    if any(value < math.inf for value in joint.limits.velocity):
        lost.append(f"limits of the speed of joint {joint.name!r}")
    if joint.kind == "floating" and joint.armature.any():
        lost.append(f"that armature of joint {joint.name!r} acts along the body's axes, not the world's")
    keys = {"armature": "armature", "damping": "damping", "friction": "frictionloss"}
    settings.update({keys[name]: value for name, value in uniform(joint, keys, lost).items()})
    settings.update(_spring(joint, lost))
    xml.put("joint", **settings)


def _spring(joint: Joint, lost: list[str]) -> dict[str, str]:
    if joint.spring is None:
        return {}
    stiffness, at_rest = joint.spring.stiffness, joint.spring.reference
    single = joint.type.nv == 1
    if joint.kind == "floating" or len({*stiffness.tolist()}) > 1 or not (single or (at_rest[1:] == 0.0).all()):
        lost.append(f"the spring of joint {joint.name!r}")
        return {}
    found = {"stiffness": number(stiffness[0])}
    return {**found, "springref": number(at_rest[0])} if single and at_rest[0] else found


def _sites(robot: Model) -> list[Frame]:
    """The robot's frames, and those that its loops connect."""
    found = list(robot.extra_frames)
    for loop in (one for one in (*robot.joint_constraints, *robot.equalities) if isinstance(one, Loop)):
        ends = zip(_ENDS, loop.bodies, (loop.first, loop.second), strict=True)
        found += [Frame(f"{loop.name} ({end})", body, at) for end, body, at in ends]
        if loop.kind == "hinge":  # two points on its axis
            ends = zip(_ENDS, loop.bodies, (loop.first, loop.second), strict=True)
            further = pose(np.eye(3), _ALONG * loop.axis)
            found += [Frame(f"{loop.name} (further {end})", body, product(at, further)) for end, body, at in ends]
    return found


_ENDS = ("first", "second")
_ALONG = 0.1  # between two points of a hinge [m]


def _write_equalities(xml: Elements, robot: Model, written: set[str]) -> None:
    """Write couplings and loops."""
    constraints = (*robot.joint_constraints, *robot.equalities)
    if not constraints:
        return
    xml.open("equality")
    for one in constraints:
        if not isinstance(one, Loop):
            xml.put("joint", **_coupling(one))
            continue
        gone = next((body for body in one.bodies if body not in written), None)
        if gone is not None or one.kind == "distance":
            why = "MJCF has no rods" if gone is None else f"{gone!r} has no mass, so that MuJoCo refuses it"
            raise ModelError(f"MJCF cannot describe {one}: {why}")
        for what in ("", "further ") if one.kind == "hinge" else ("",):
            ends = {f"site{i}": f"{one.name} ({what}{end})" for i, end in enumerate(_ENDS, start=1)}
            xml.put("weld" if one.kind == "weld" else "connect", name=f"{what}{one.name}", **ends)
    xml.close()


def _coupling(one: Coupling) -> dict[str, str]:
    """A coupling q₁ = c₀ + c₁ q₂ + …, in MuJoCo of at most the fourth degree."""
    if isinstance(one, LinearCoupling) and len(one.joints) <= 2:
        own, *other = one.coefficients.tolist()
        terms = [one.offset / own, *(-slope / own for slope in other)]
    elif isinstance(one, PolynomialCoupling) and len(one.coefficients) <= 5:
        terms = one.coefficients.tolist()
    else:
        raise ModelError(
            f"MJCF cannot describe the coupling {one}: a joint follows one other joint, by a polynomial of degree "
            "four; lock a joint with reduced()"
        )
    names = dict(zip(("joint1", "joint2"), one.joints))
    return {**names, "polycoef": numbers([*terms, *[0.0] * (5 - len(terms))])}


def _write_pair_rules(xml: Elements, robot: Model, written: set[str], lost: list[str]) -> None:
    """Write which bodies are kept from colliding, and pairs of geoms that collide."""
    placed = [(body, shape) for body, own in _shapes(robot).items() for shape, _ in own]
    geoms = {shape.name for body, shape in placed if body in written and _expressible(shape, body)}
    rules = robot.pair_rules.among(written, geoms)
    lost += [f"that {a!r} and {b!r} do not collide" for a, b in robot.pair_rules.excluded if {a, b} - written]
    if any(rules):
        xml.open("contact")
        for a, b in rules.excluded:
            xml.put("exclude", body1=a, body2=b)
        for a, b in rules.included:
            xml.put("pair", geom1=a, geom2=b)
        xml.close()


def _write_keyframes(xml: Elements, robot: Model) -> None:
    """Write keyframes; a robot with loops starts where they are closed."""
    loops = any(one.follows is None for one in robot.clusters)
    keyframes = {**({"neutral": robot.neutral()} if loops and "neutral" not in robot.keyframes else {})}
    keyframes.update(robot.keyframes)
    if keyframes:
        xml.open("keyframe")
        for name, q in keyframes.items():
            every = robot.q_to_dict(q)
            parts = [np.atleast_1d(every[body.joint]) for body in robot.bodies if body.joint in every]
            xml.put("key", name=name, qpos=numbers(np.concatenate(parts) if parts else ()))
        xml.close()


def _write_sites(xml: Elements, sites: Sequence[Frame], body: str) -> None:
    for frame in sites:
        if frame.body == body:
            xml.put("site", name=frame.name, **_pose(frame.placement))


def _pose(placement: Array) -> dict[str, str]:
    turned = not np.array_equal(placement[:3, :3], np.eye(3))
    moved = placement[:3, 3].any()
    return {
        **({"pos": numbers(placement[:3, 3])} if moved else {}),
        **({"quat": numbers(quaternion_of(placement[:3, :3]))} if turned else {}),
    }
