"""Loads the rigid bodies, joints and collision shapes of a USD file, as UsdPhysics describes them.

The file is read by usd-core in a child process (`usd_reader.py`), with limits on time and memory. Only layers below one
directory are opened, and nothing is fetched. Masses, centres of mass and inertias must be in the file: USD lets
simulators compute missing ones from collision shapes, which Kinetree does not, so they are errors and not guesses.

[UP] https://openusd.org/release/api/usd_physics_page_front.html
"""

from __future__ import annotations

import base64
import importlib.util
import json
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from kinetree.errors import LoadError
from kinetree.io import usd_reader
from kinetree.io.build import add_carried, add_fixed, build, loose_roots, root_joint
from kinetree.io.collision import MOST, UNREADABLE, ShapeSpec
from kinetree.io.options import Diagnostics, Options
from kinetree.io.source import clipped
from kinetree.io.usd_reader import LENGTHS
from kinetree.model.body import frozen
from kinetree.model.joint import Limits
from kinetree.model.joints import KINDS
from kinetree.model.model import Model
from kinetree.model.pair_rules import PairRules
from kinetree.model.specs import HERE, WORLD_NAME, BodySpec, JointSpec, constant, unlimited
from kinetree.spatial.reproducible import apply, length, product
from kinetree.spatial.rotation import matrix_of
from kinetree.spatial.transform import inverse
from kinetree.spatial.value import Array

INSTALL = 'pip install "kinetree[usd]"'

#: Supported joint types, and Kinetree's kinds.
TYPES = {
    "PhysicsRevoluteJoint": "revolute",
    "PhysicsPrismaticJoint": "prismatic",
    "PhysicsSphericalJoint": "spherical",
    "PhysicsFixedJoint": "fixed",
}

_PATIENCE = 60.0
_LARGEST = 512 * 2**20
_MOST = 6_000
_BIGGEST = 1e100
_AXES = {"X": (1.0, 0.0, 0.0), "Y": (0.0, 1.0, 0.0), "Z": (0.0, 0.0, 1.0)}


def load_usd(path: Path, options: Options, diagnostics: Diagnostics) -> Model:
    """Load a USD file."""
    options.require_collision("USD")
    stage = _read(path, options)
    reader = _Stage(stage, diagnostics)
    if options.gravity is None:
        options = options._replace(gravity=reader.gravity())
    links = reader.links()
    joints, shapes = reader.joints(links), reader.shapes() if options.shapes else []
    reader.place_roots(links, joints, options)
    model = build(stage["name"] or path.stem, links, joints, options, diagnostics, shapes=shapes)
    rules = PairRules(reader.apart()).among((body.name for body in model.bodies), ())
    return model._edited(pair_rules=rules) if any(rules) else model


def _read(path: Path, options: Options) -> dict[str, Any]:
    """What the child process finds in a file."""
    file = os.fsdecode(path)
    if importlib.util.find_spec("pxr") is None:
        raise LoadError(f"needs usd-core to read it, which is not installed. Install it with: {INSTALL}", file)
    try:
        if not path.is_file():
            problem = "is not a regular file" if path.exists() else "there is no such file"
            raise LoadError(f"{problem}; give the path of a USD file", file)
        if path.stat().st_size > _LARGEST:
            raise LoadError(f"has more than {_LARGEST} bytes; is it the right file?", file)
    except (OSError, ValueError) as error:
        raise LoadError(f"cannot be read: {error}; check the path", file) from None
    directory = os.path.abspath(os.fsdecode(options.directory or path.absolute().parent))
    command = [sys.executable, "-I", usd_reader.__file__, str(path.absolute()), directory]
    alone = {**os.environ, "PXR_WORK_THREAD_LIMIT": "1"}
    try:
        done = subprocess.run(  # noqa: S603 (this interpreter, and a file of this package)
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False, env=alone
        )
    except subprocess.TimeoutExpired:
        raise LoadError(f"takes more than {_PATIENCE:g} s to read; does it have very many prims?", file) from None
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        reason = " ".join(done.stderr.decode("utf-8", "replace").split())[-300:]
        raise LoadError(f"usd-core cannot read it: {reason or f'it ended with code {done.returncode}'}", file) from None
    if "refused" in answer:
        raise LoadError(answer["refused"], file)
    stage: dict[str, Any] = answer["stage"]
    return stage


class _Stage:
    """The prims of a stage, from the child process, as links and joints in metres and kilograms."""

    def __init__(self, stage: dict[str, Any], diagnostics: Diagnostics) -> None:
        self.stage, self.diagnostics = stage, diagnostics
        self.metres, self.kilograms = float(stage["metres"]), float(stage["kilograms"])
        for what, unit in (("metersPerUnit", self.metres), ("kilogramsPerUnit", self.kilograms)):
            if not (math.isfinite(unit) and 1e-12 < unit < 1e12):
                raise self.error("the stage", f"{what} is {unit:g}; give a positive number")
        bodies, joints = stage["bodies"], stage["joints"]
        if len(bodies) > _MOST:
            raise LoadError(f"has more than {_MOST} rigid bodies; split the file", diagnostics.file)
        if not bodies:
            raise LoadError("has no prim with PhysicsRigidBodyAPI; is it only a picture of a robot?", diagnostics.file)
        self.names = _names([body["path"] for body in bodies])
        self.joint_names = _names([joint["path"] for joint in joints])
        self.poses = {body["path"]: self._pose(body) for body in bodies}

    def error(self, prim: str, problem: str) -> LoadError:
        """An error that names a prim."""
        return LoadError(f"{clipped(prim, 200)}: {problem}", self.diagnostics.file)

    def gravity(self) -> tuple[float, ...]:
        """Acceleration of free fall [m/s²]: of the scene, or 9.81 against the stage's up axis."""
        scenes = self.stage["gravity"]
        if len(scenes) > 1:
            self.diagnostics.add("not read", f"physics scenes after the first, of {len(scenes)}")
        down = tuple(-x for x in _AXES[self.stage["up"]])
        if not scenes:
            return tuple(9.81 * x for x in down)
        direction, size = np.array(scenes[0]["direction"]), scenes[0]["size"]
        if not direction.any():  # [UP]: zero means down, and a negative magnitude that of the earth
            direction = np.array(down)
        direction = direction / length(direction)
        scaled = 9.81 if size < 0.0 else size * self.metres
        self._require_finite("the physics scene", "gravity", [*direction, scaled])
        return tuple(float(x) for x in scaled * direction)

    def links(self) -> dict[str, BodySpec]:
        """The rigid bodies."""
        return {self.names[body["path"]]: self._link(body) for body in self.stage["bodies"]}

    def _pose(self, body: dict[str, Any]) -> Array:
        world = np.array(body["world"])
        self._require_finite(body["path"], "its transform", world.ravel())
        turned = product(world[:3, :3].T, world[:3, :3])
        if np.abs(turned - np.eye(3)).max() > 1e-5 or np.linalg.det(world[:3, :3]) < 0.0:
            raise self.error(
                body["path"],
                "is scaled, sheared or mirrored by its transforms; apply the scale to its geometry instead",
            )
        world[:3, :3] = _orthogonal(world[:3, :3])
        world[:3, 3] *= self.metres
        return world

    def _link(self, body: dict[str, Any]) -> BodySpec:
        path, name = body["path"], self.names[body["path"]]
        if body["enabled"] is False or body["kinematic"] is True:
            self.diagnostics.add(
                "not read", f"rigidBodyEnabled or kinematicEnabled of {path}: it moves like the others"
            )
        missing = [each for each in ("mass", "centerOfMass", "diagonalInertia") if not self._given(body, each)]
        if missing:
            raise self.error(
                path,
                f"has no physics:{missing[0]}, and Kinetree computes none from collision shapes; write physics:mass, "
                "physics:centerOfMass and physics:diagonalInertia of each body",
            )
        quaternion = (
            body["principalAxes"] if body["principalAxes"] and any(body["principalAxes"]) else [1.0, 0.0, 0.0, 0.0]
        )
        for what in ("mass", "centerOfMass", "diagonalInertia"):
            self._require_finite(path, f"physics:{what}", np.ravel(body[what]))
        R = self._rotation(path, "physics:principalAxes", quaternion)
        inertia = product(product(R, np.diag(body["diagonalInertia"])), R.T) * self.kilograms * self.metres**2
        com = tuple(x * self.metres for x in body["centerOfMass"])
        return BodySpec(name, body["mass"] * self.kilograms, com, _flat(inertia))

    @staticmethod
    def _given(body: dict[str, Any], what: str) -> bool:
        """Whether a property has a value that [UP] does not define as "to be computed"."""
        value = body[what]
        if what == "centerOfMass":
            return value is not None and not any(x == -math.inf for x in value)
        return value is not None and bool(np.any(np.array(value) != 0.0))

    def joints(self, links: dict[str, BodySpec]) -> dict[str, JointSpec]:
        """The joints. One that is not at the child's origin moves a massless link to which the child is fixed."""
        joints: dict[str, JointSpec] = {}
        for joint in self.stage["joints"]:
            path, name = joint["path"], self.joint_names[joint["path"]]
            if joint["jointEnabled"] is False:
                self.diagnostics.add("not read", f"joint {path}, which is not enabled")
                continue
            if joint["excludeFromArticulation"] is True:
                self.diagnostics.add("not read", f"joint {path}, which closes a loop (excludeFromArticulation)")
                continue
            if joint["type"] not in TYPES:
                raise self.error(path, f"is a {joint['type'] or 'joint'}; Kinetree reads {', '.join(TYPES)}")
            self._add(joint, path, name, TYPES[joint["type"]], links, joints)
        return joints

    def _add(
        self,
        joint: dict[str, Any],
        path: str,
        name: str,
        kind: str,
        links: dict[str, BodySpec],
        joints: dict[str, JointSpec],
    ) -> None:
        parent, child = self._end(joint, "body0"), self._end(joint, "body1")
        frames = [self._frame(joint, end) for end in "01"]
        if child == WORLD_NAME:  # a joint that names only one body holds it to the world
            parent, child, frames = child, parent, frames[::-1]
            if kind not in ("fixed",):
                raise self.error(path, "has the world as body1; make the world its body0")
        if child == WORLD_NAME:
            raise self.error(path, "connects no rigid body: physics:body0 and physics:body1 are missing")
        first, second = frames
        axes = []
        if KINDS[kind].axes:
            axis = joint["axis"]
            if axis not in _AXES:
                raise self.error(path, f"has the axis {axis!r}; it is X, Y or Z")
            axes = [_flat(apply(second[:3, :3], np.array(_AXES[axis])))]
        limits, nv, rotor = self._limits(joint, path, kind), KINDS[kind].nv, 0.0
        friction = joint["physxJoint:jointFriction"]
        if friction:
            self.diagnostics.add("not read", f"physxJoint:jointFriction of joint {path}, which has no unit")
        if joint["physxJoint:armature"]:
            self._require_finite(path, "physxJoint:armature", [joint["physxJoint:armature"]])
            if joint["physxJoint:armature"] < 0.0:
                raise self.error(path, "physxJoint:armature is negative; write its magnitude")
            factor = self.kilograms * (self.metres**2 if kind == "revolute" else 1.0)
            rotor = joint["physxJoint:armature"] * factor
        for schema in joint["schemas"]:
            if "Mimic" in schema:
                self.diagnostics.add("not read, so the joint is independent", f"{schema} of joint {path}")
        placement, none = product(first, inverse(second)), constant(0.0, nv)
        made = JointSpec(name, kind, parent, child, HERE, axes, limits, none, none, constant(rotor, nv))
        if kind in ("fixed", "prismatic") or not second[:3, 3].any():
            joints[name] = made._replace(placement=_flat(placement[:3]))
            return
        # a frame at the joint with the child's axes
        offset = np.eye(4)
        offset[:3, 3] = second[:3, 3]
        made = made._replace(placement=_flat(product(placement, offset)[:3]))
        add_carried(made, _flat(inverse(offset)[:3]), links, joints)

    def _end(self, joint: dict[str, Any], which: str) -> str:
        targets = joint[which]
        if len(targets) > 1:
            raise self.error(joint["path"], f"has {len(targets)} targets of physics:{which}; give one")
        if not targets:
            return WORLD_NAME
        name = self.names.get(targets[0])
        if name is None:
            raise self.error(
                joint["path"],
                f"physics:{which} is {clipped(targets[0], 200)}, which has no PhysicsRigidBodyAPI; add it",
            )
        return name

    def _frame(self, joint: dict[str, Any], end: str) -> Array:
        """The joint's frame in one of its bodies."""
        path, pose = joint["path"], np.eye(4)
        position, rotation = joint[f"localPos{end}"], joint[f"localRot{end}"]
        self._require_finite(path, f"physics:localPos{end}", position)
        pose[:3, :3] = self._rotation(path, f"physics:localRot{end}", rotation)
        pose[:3, 3] = np.array(position) * self.metres
        return pose

    def _limits(self, joint: dict[str, Any], path: str, kind: str) -> Limits:
        if kind == "fixed":
            return unlimited(kind)
        if kind == "spherical":
            if any(joint[f"coneAngle{i}Limit"] is not None and joint[f"coneAngle{i}Limit"] >= 0.0 for i in (0, 1)):
                self.diagnostics.add("not read", f"cone angle limits of joint {path}")
            return unlimited(kind)
        unit = math.pi / 180.0 if kind == "revolute" else self.metres
        lower, upper = (joint[name] if joint[name] is not None else side for name, side in
                        (("lowerLimit", -math.inf), ("upperLimit", math.inf)))  # fmt: skip
        if math.isnan(lower) or math.isnan(upper) or lower > upper:
            raise self.error(path, f"physics:lowerLimit {lower:g} is above physics:upperLimit {upper:g}; swap them")
        speed = joint["physxJoint:maxJointVelocity"]
        force = joint[f"drive:{'angular' if kind == 'revolute' else 'linear'}:physics:maxForce"]
        for what, value in (("maxJointVelocity", speed), ("maxForce", force)):
            if value is not None and not value >= 0.0:
                raise self.error(path, f"{what} is {value:g}; write its magnitude")
        newton = self.kilograms * self.metres * (self.metres if kind == "revolute" else 1.0)
        velocity = math.inf if speed is None else speed * unit
        effort = math.inf if force is None else force * newton
        return Limits.trusted((lower * unit, upper * unit, velocity, effort))

    def shapes(self) -> list[ShapeSpec]:
        """What collides; what cannot be read is reported and left out."""
        names, found = _names([shape["path"] for shape in self.stage["shapes"]]), list[ShapeSpec]()
        for shape in self.stage["shapes"][:MOST]:
            self._add_shape(shape, names[shape["path"]], found)
        if len(self.stage["shapes"]) > MOST:
            self.diagnostics.add("collision shapes, left out", f"more than {MOST}")
        return found

    def _add_shape(self, shape: dict[str, Any], name: str, found: list[ShapeSpec]) -> None:
        try:
            found.append(self._shape(shape, name))
        except LoadError as error:
            self.diagnostics.add(UNREADABLE, error.problem)

    def _shape(self, shape: dict[str, Any], name: str) -> ShapeSpec:
        path, kind, pose = shape["path"], shape["type"], np.array(shape["pose"])
        self._require_finite(path, "its transform", pose.ravel())
        link = self.names[shape["body"]] if shape["body"] else WORLD_NAME
        pose[:3, 3] *= self.metres
        if kind == "Mesh":
            points = np.frombuffer(base64.b64decode(shape["points"]), "<f4").reshape(-1, 3).astype(float)
            if not len(points) or not np.isfinite(points).all():
                raise self.error(path, "is a mesh with too many points, or none, or some that are not finite")
            placed = self.metres * points @ pose[:3, :3].T + pose[:3, 3]  # whatever the transform is
            return ShapeSpec(name, link, HERE, "hull", (1.0, 1.0, 1.0), points=frozen(placed, placed.shape))
        scale = np.array([length(pose[:3, i]) for i in range(3)])
        if not (scale > 0.0).all():
            raise self.error(path, "is scaled by zero")
        R = pose[:3, :3] / scale
        if np.abs(product(R.T, R) - np.eye(3)).max() > 1e-5:
            raise self.error(path, "is sheared by its transforms; apply them to its geometry instead")
        R[:, 0] *= np.sign(np.linalg.det(R))  # these shapes are their own mirror images
        R = _orthogonal(R)
        if "axis" in LENGTHS.get(kind, ()):
            if shape["axis"] not in _AXES:
                raise self.error(path, f"has the axis {shape['axis']!r}; it is X, Y or Z")
            turn = np.roll(np.arange(3), 2 - "XYZ".index(shape["axis"]))  # z comes to lie along the axis
            R, scale = R[:, turn], scale[turn]
        sizes = self._sizes(path, kind, shape, scale)
        place = np.column_stack([R, pose[:3, 3]])
        return ShapeSpec(name, link, _flat(place), *sizes)

    def _sizes(self, path: str, kind: str, shape: dict[str, Any], scale: Array) -> tuple[str, tuple[float, ...]]:
        """Kind and lengths [m] of a shape that is scaled along its axes."""
        lengths = [shape[each] for each in LENGTHS.get(kind, ()) if each != "axis"]
        if kind not in LENGTHS or not all(each is not None and 0.0 < each < _BIGGEST for each in lengths):
            raise self.error(path, f"is a {kind or 'prim'} without a size, or of a type that Kinetree does not read")
        if kind == "Plane":
            return "plane", ()
        x, y, z = (self.metres * each for each in scale.tolist())
        if kind == "Cube":
            return "box", (lengths[0] * x, lengths[0] * y, lengths[0] * z)
        even = np.ptp(scale) <= 1e-6 * scale.max()
        if kind == "Sphere":
            r = lengths[0]
            return ("sphere", (r * x,)) if even else ("ellipsoid", (r * x, r * y, r * z))
        if not (even or (kind == "Cylinder" and abs(x - y) <= 1e-6 * x)):
            raise self.error(path, f"is a {kind} that is not scaled evenly; apply the scale to its geometry instead")
        return kind.lower(), (lengths[0] * x, lengths[1] * z)

    def apart(self) -> tuple[tuple[str, str], ...]:
        """Pairs of bodies that do not collide."""
        found = dict[tuple[str, str], None]()
        for first, second in self.stage["apart"]:
            if first in self.names and second in self.names:
                found[self.names[first], self.names[second]] = None
            else:
                self.diagnostics.add("not read", f"physics:filteredPairs of {first}: it is not between rigid bodies")
        return tuple(found)

    def place_roots(self, links: dict[str, BodySpec], joints: dict[str, JointSpec], options: Options) -> None:
        """Fix bodies without a parent at their pose in the file, unless they float or another body is the root."""
        paths = {name: path for path, name in self.names.items()}
        roots = loose_roots(paths, joints, options, "robot", self.diagnostics.file)
        if roots is None:
            return
        links[WORLD_NAME] = BodySpec(WORLD_NAME)
        for root in roots:
            pose = _flat(self.poses[paths[root]][:3])
            add_fixed(joints, root_joint(root, roots), WORLD_NAME, root, pose, None)

    def _rotation(self, path: str, what: str, quaternion: Any) -> Array:
        """A rotation matrix from a quaternion w, x, y, z of about unit length."""
        self._require_finite(path, what, quaternion)
        size = length(np.array(quaternion))
        if abs(size - 1.0) > 1e-3:
            raise self.error(path, f"{what} has length {size:g}; a rotation is a quaternion of length 1")
        return matrix_of(np.array(quaternion))

    def _require_finite(self, path: str, what: str, values: Any) -> None:
        if values is None or not all(math.isfinite(x) and abs(x) < _BIGGEST for x in values):
            raise self.error(path, f"{what} is not finite; write a number")


def _flat(array: Array) -> tuple[float, ...]:
    """The numbers of an array, row by row."""
    return tuple(array.ravel().tolist())


def _orthogonal(R: Array) -> Array:
    """The rotation nearest to one that is a rotation but for rounding, by Gram–Schmidt."""
    x = R[:, 0] / length(R[:, 0])
    y = R[:, 1] - x * float(sum(a * b for a, b in zip(x, R[:, 1])))
    y = y / length(y)
    z = np.array([x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]])
    return np.column_stack([x, y, z])


def _names(paths: list[str]) -> dict[str, str]:
    """A name for each prim: its own, or its path where several have the same."""
    own = [path.rpartition("/")[2] for path in paths]
    count = Counter(own)
    return {path: name if count[name] == 1 else path for path, name in zip(paths, own)}
