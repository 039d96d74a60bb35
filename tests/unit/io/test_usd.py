"""USD files: what is read, the same robot as it was written from, and everything that is refused."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, LoadError, ModelWarning
from kinetree.io import usd
from tests.fuzz.usd import outcome, read, spoilt
from tests.oracle import oracle
from tests.tolerance import assert_close, assert_near, bound

oracle("pxr.UsdPhysics")

MASS = """float physics:mass = 2
  point3f physics:centerOfMass = (0, 0, 0.1)
  float3 physics:diagonalInertia = (0.02, 0.03, 0.04)"""
HEADER = '#usda 1.0\n(\n  defaultPrim = "arm"\n  metersPerUnit = 1\n  upAxis = "Z"\n)\n'


def body(name: str, more: str = "", mass: str = MASS, schemas: str = '"PhysicsRigidBodyAPI", "PhysicsMassAPI"') -> str:
    return f'def Xform "{name}" (prepend apiSchemas = [{schemas}])\n{{\n  {mass}\n  {more}\n}}\n'


def hinge(name: str = "hinge", more: str = "", kind: str = "Revolute", ends: str = "") -> str:
    ends = ends or "rel physics:body0 = </arm/base>\n  rel physics:body1 = </arm/link>"
    return f'def Physics{kind}Joint "{name}"\n{{\n  {ends}\n  uniform token physics:axis = "Y"\n  {more}\n}}\n'


def stage(*parts: str, header: str = HEADER) -> str:
    return header + 'def Xform "arm"\n{\n' + "".join(parts) + "}\n"


def write(folder: Path, text: str, name: str = "arm.usda") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def quaternion(R: np.ndarray) -> str:
    """As USD writes it, from a rotation by less than half a turn."""
    w = np.sqrt(1.0 + np.trace(R)) / 2.0
    return numbers([w, *(np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / (4.0 * w))])


def numbers(values: Any) -> str:
    return "(" + ", ".join(repr(float(x)) for x in values) + ")"


def turn(axis: np.ndarray) -> np.ndarray:
    """A rotation that takes x to an axis."""
    y = np.cross(axis, [0.3, -0.8, 0.52])
    y /= np.linalg.norm(y)
    return np.column_stack([axis, y, np.cross(axis, y)])


def written(robot: kt.Model) -> str:
    """A robot as USD: doubles, joint frames turned so that the axis is X, units of centimetres."""
    cm = 100.0
    out = ['#usda 1.0\n(\n  defaultPrim = "robot"\n  metersPerUnit = 0.01\n  kilogramsPerUnit = 1\n  upAxis = "Z"\n)\n']
    out.append(
        'def PhysicsScene "scene"\n{\n  vector3f physics:gravityDirection = (0, 0, -1)\n'
        "  float physics:gravityMagnitude = 981\n}\n"
    )
    out.append('def Xform "robot"\n{\n')
    for one in robot.bodies:
        values, R = np.linalg.eigh(one.inertia)
        if np.linalg.det(R) < 0.0:
            R[:, 0] *= -1.0
        flips = [np.diag(d) for d in ([1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1])]
        R = max((R @ flip for flip in flips), key=np.trace)
        mass = (
            f"float physics:mass = {one.mass!r}\n  point3f physics:centerOfMass = {numbers(cm * one.com)}\n"
            f"  float3 physics:diagonalInertia = {numbers(cm**2 * values)}\n"
            f"  quatf physics:principalAxes = {quaternion(R)}"
        )
        out.append(body(one.name, mass=mass))
    for joint in (*robot.joints, *robot.fixed_joints):
        R = turn(np.array(joint.axes[0])) if len(joint.axes) else np.eye(3)
        at = joint.placement @ np.block([[R, np.zeros((3, 1))], [np.zeros(3), 1.0]])
        kind = {"revolute": "Revolute", "prismatic": "Prismatic", "fixed": "Fixed"}[joint.type.name]
        parent = "" if joint.parent == "world" else f"rel physics:body0 = </robot/{joint.parent}>\n"
        out.append(
            f'def Physics{kind}Joint "{joint.name}"\n{{\n  {parent}  rel physics:body1 = </robot/{joint.child}>\n'
            f"  point3f physics:localPos0 = {numbers(cm * at[:3, 3])}\n"
            f"  quatf physics:localRot0 = {quaternion(at[:3, :3])}\n"
            f"  point3f physics:localPos1 = (0, 0, 0)\n  quatf physics:localRot1 = {quaternion(R)}\n"
            '  uniform token physics:axis = "X"\n}\n'
        )
    return "".join([*out, "}\n"])


def test_a_robot_written_as_usd_is_the_same_robot(tmp_path: Path) -> None:
    robot = kt.zoo.humanoid24().subtree("left_shoulder_pitch_link")
    found = kt.load(write(tmp_path, written(robot)))
    assert [one.name for one in found.joints] == [one.name for one in robot.joints]
    assert found.name == "robot"
    rng = np.random.default_rng(0)
    q, (v, a) = rng.uniform(-1.0, 1.0, (8, 5)), rng.standard_normal((2, 8, 5))
    # USD stores these properties as single-precision numbers
    assert_close(found.inverse_dynamics(q, v, a), robot.inverse_dynamics(q, v, a), 1e-5)
    assert_close(found.mass_matrix(q), robot.mass_matrix(q), 1e-5)
    assert_close(found.gravity, robot.gravity, 1e-6)


#: Everything that is read.
MORE = """float physics:lowerLimit = -90
float physics:upperLimit = 180
point3f physics:localPos0 = (0, 0, 0.5)
point3f physics:localPos1 = (0, 0, -0.25)
float physxJoint:armature = 0.125
float physxJoint:maxJointVelocity = 360
float drive:angular:physics:maxForce = 40"""
SEED = stage(
    body("base", "double3 xformOp:translate = (1, 2, 3)\n  uniform token[] xformOpOrder = [\"xformOp:translate\"]"),
    body("link"), hinge(more=MORE), body("slider"),
    hinge("slide", kind="Prismatic", more="float physics:upperLimit = 0.5",
          ends="rel physics:body0 = </arm/link>\n  rel physics:body1 = </arm/slider>"),
    body("ball"), hinge("socket", kind="Spherical",
                        ends="rel physics:body0 = </arm/base>\n  rel physics:body1 = </arm/ball>"),
)  # fmt: skip


def test_everything_that_is_read(tmp_path: Path) -> None:
    text = SEED
    path = write(tmp_path, text)
    robot = kt.load(path)
    shoulder, slide, socket = robot.joints
    assert (shoulder.name, slide.name, socket.name) == ("hinge", "slide", "socket")
    assert [joint.type.name for joint in robot.joints] == ["revolute", "prismatic", "spherical"]
    assert_close([shoulder.limits.lower[0], shoulder.limits.upper[0]], [-np.pi / 2, np.pi], 1e-7)
    assert_close([shoulder.limits.velocity[0], shoulder.limits.effort[0]], [2 * np.pi, 40.0], 1e-7)
    assert slide.limits.lower[0] == -np.inf
    assert shoulder.armature[0] == 0.125
    pose = robot.pose(robot.neutral(), "link")
    assert_close(pose[:3, 3], [1.0, 2.0, 3.75], 1e-7)
    turned = robot.neutral()
    turned[0] = np.pi / 2
    assert_close(robot.pose(turned, "link")[:3, 3], [1.25, 2.0, 3.5], 1e-7)
    assert_close(robot.gravity, [0.0, 0.0, -9.81], 1e-12)
    floating = kt.load(path, floating_base=True)
    assert floating.nv == robot.nv + 6
    y_up = kt.load(write(tmp_path, text.replace('upAxis = "Z"', 'upAxis = "Y"'), "y.usda"))
    assert_close(y_up.gravity, [0.0, -9.81, 0.0], 1e-12)


def test_layers_and_binary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pxr import Usd

    (tmp_path / "parts").mkdir()
    write(tmp_path / "parts", stage(body("base"), body("link"), hinge()))
    path = write(tmp_path, "#usda 1.0\n(\n  subLayers = [@./parts/arm.usda@]\n)\n", "whole.usda")
    assert [joint.name for joint in kt.load(path).joints] == ["hinge"]
    Usd.Stage.Open(str(path)).Export(str(tmp_path / "flat.usdc"))
    assert kt.load(tmp_path / "flat.usdc").nv == 1
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    path = write(outside, "#usda 1.0\n(\n  subLayers = [@../parts/arm.usda@]\n)\n", "whole.usda")
    assert kt.load(path, directory=tmp_path).nv == 1
    monkeypatch.setattr(usd, "_read", read)  # a child process for each would take most of the time
    refused(path, "which is outside .*; pass a directory= that has both")
    (outside / "link.usda").symlink_to(tmp_path / "parts" / "arm.usda")
    refused(write(outside, "#usda 1.0\n(\n  subLayers = [@./link.usda@]\n)\n", "linked.usda"), "which is outside")
    refused(write(outside, "#usda 1.0\n(\n  subLayers = [@http://x.org/a.usda@]\n)\n"), "nothing is fetched")
    refused(write(outside, "#usda 1.0\n(\n  subLayers = [@./no.usda@]\n)\n"), "which does not exist")


def test_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usd, "_read", read)
    text = stage(
        body("base"), body("link", "bool physics:kinematicEnabled = 1"),
        hinge(more="float physxJoint:jointFriction = 1"), hinge("off", more="bool physics:jointEnabled = 0"),
        hinge("loop", more="bool physics:excludeFromArticulation = 1"),
        'def PhysicsScene "a" {}\n def PhysicsScene "b" {}\n',
    )  # fmt: skip
    with pytest.warns(ModelWarning) as caught:
        kt.load(write(tmp_path, text))
    said = " ".join(str(one.message) for one in caught)
    for part in ("kinematicEnabled of /arm/link", "physxJoint:jointFriction of joint /arm/hinge",
                 "joint /arm/loop, which closes a loop", "joint /arm/off, which is not enabled",
                 "physics scenes after the first, of 2"):  # fmt: skip
        assert part in said
    assert "line" not in said


def refused(path: Any, message: str, **options: Any) -> None:
    with pytest.raises(LoadError, match=message):
        kt.load(path, **options)


BASE, LINK = body("base"), body("link")
REFUSED = {
    "no bodies": (stage(), "has no prim with PhysicsRigidBodyAPI"),
    "no mass": (stage(BASE, body("link", mass="")), "'/arm/link': has no physics:mass, and Kinetree computes none"),
    "no centre": (stage(body("base", mass="float physics:mass = 1")), "has no physics:centerOfMass"),
    "no inertia": (
        stage(body("base", mass="float physics:mass = 1\n point3f physics:centerOfMass = (0, 0, 0)")),
        "has no physics:diagonalInertia",
    ),
    "nan": (stage(body("base", mass=MASS.replace("= 2", "= nan"))), "'/arm/base': physics:mass is not finite"),
    "scaled": (
        stage(body("base", 'double3 xformOp:scale = (2, 2, 2)\n  uniform token[] xformOpOrder = ["xformOp:scale"]')),
        "'/arm/base': is scaled, sheared or mirrored",
    ),
    "kind": (stage(BASE, LINK, hinge(kind="Distance")), "is a PhysicsDistanceJoint; Kinetree reads PhysicsRevolute"),
    "axis": (stage(BASE, LINK, hinge().replace('"Y"', '"W"')), "has the axis 'W'; it is X, Y or Z"),
    "crossed": (
        stage(BASE, LINK, hinge(more="float physics:lowerLimit = 1\n float physics:upperLimit = 0")),
        "physics:lowerLimit 1 is above physics:upperLimit 0",
    ),
    "effort": (stage(BASE, LINK, hinge(more="float drive:angular:physics:maxForce = -1")), "maxForce is -1"),
    "quaternion": (
        stage(BASE, LINK, hinge(more="quatf physics:localRot0 = (2, 0, 0, 0)")),
        "physics:localRot0 has length 2; a rotation is a quaternion of length 1",
    ),
    "target": (
        stage(BASE, LINK, hinge(ends="rel physics:body0 = </arm/base>\n rel physics:body1 = </arm/nose>")),
        "physics:body1 is '/arm/nose', which has no PhysicsRigidBodyAPI",
    ),
    "targets": (
        stage(BASE, LINK, hinge(ends="rel physics:body1 = [</arm/base>, </arm/link>]")),
        "has 2 targets of physics:body1; give one",
    ),
    "no ends": (stage(BASE, LINK, hinge(kind="Fixed", ends="float a = 1")), "connects no rigid body"),
    "backwards": (stage(BASE, hinge(ends="rel physics:body0 = </arm/base>")), "has the world as body1"),
    "two parents": (stage(BASE, LINK, hinge(), hinge("again")), "has two parents: joint 'hinge' and joint 'again'"),
    "cycle": (
        stage(BASE, LINK, hinge(),
              hinge("back", ends="rel physics:body0 = </arm/link>\n  rel physics:body1 = </arm/base>")),
        "links form a cycle",
    ),
    "units": (stage(BASE, header=HEADER.replace("Unit = 1", "Unit = 0")), "metersPerUnit is 0; give a positive number"),
    "syntax": ("#usda 1.0\ndef Xform {{{", "is not a USD layer, or is damaged|is damaged|usd-core cannot read it"),
    "binary": ("PXR-USDC" + "\x01" * 200, "is not a USD layer, or is damaged|is damaged|usd-core cannot read it"),
    "empty": ("", "is not a USD layer, or is damaged|is damaged|usd-core cannot read it|has no prim"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, message = REFUSED[case]
    if case not in ("syntax", "binary", "empty"):  # a child process for each would take most of the time
        monkeypatch.setattr(usd, "_read", read)
    refused(write(tmp_path, text), message)


def test_commands_take_it(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from kinetree.cli import app

    path = write(tmp_path, stage(BASE, LINK, hinge()))
    done = CliRunner().invoke(app, ["check", str(path), "--samples", "2"])
    assert done.exit_code == 0, done.output
    assert "neither Pinocchio nor MuJoCo reads USD" in done.output
    with pytest.raises(LoadError, match="visuals are read from URDF and MJCF, not from USD"):
        kt.viewer.files.read(path)


@pytest.mark.parametrize("seed", range(2))
def test_spoilt_files(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `python -m tests.fuzz.usd` does with many more."""
    rng = random.Random(seed)
    assert outcome(write(tmp_path, spoilt(SEED, rng), "child.usda")) in ("loaded", "refused")
    monkeypatch.setattr(usd, "_read", read)
    for number in range(50):
        assert outcome(write(tmp_path, spoilt(SEED, rng), f"{number}.usda")) in ("loaded", "refused")


def test_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(tmp_path / "no.usda", "there is no such file; give the path of a USD file")
    (tmp_path / "folder.usd").mkdir()
    refused(tmp_path / "folder.usd", "is not a regular file")
    os.mkfifo(tmp_path / "pipe.usd")
    refused(tmp_path / "pipe.usd", "is not a regular file")
    held = stage(BASE, hinge(kind="Fixed", ends="rel physics:body1 = </arm/base>"))
    refused(write(tmp_path, held), "holds the robot to the world, so it cannot float", floating_base=True)
    with pytest.raises(LoadError, match="this is the content of a USD file; save it in one"):
        kt.load(stage(BASE))
    monkeypatch.setattr("kinetree.io.usd._PATIENCE", 0.001)
    refused(write(tmp_path, stage(BASE)), "takes more than 0.001 s to read")
    monkeypatch.setitem(sys.modules, "pxr", None)
    refused(write(tmp_path, stage(BASE)), r'needs usd-core to read it.*pip install "kinetree\[usd\]"')


def solid(kind: str, name: str, *lines: str, schemas: str = '"PhysicsCollisionAPI"') -> str:
    inside = "\n  ".join(lines)
    return f'def {kind} "{name}" (prepend apiSchemas = [{schemas}])\n{{\n  {inside}\n}}\n'


SIZED = ("double radius = 2", "double height = 8")
STRETCHED = ("double3 xformOp:scale = (1, 2, -3)", 'uniform token[] xformOpOrder = ["xformOp:scale"]')


def test_shapes_that_collide(tmp_path: Path) -> None:
    wedge = "point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]"
    lifted = ("double3 xformOp:translate = (0, 0, 100)", 'uniform token[] xformOpOrder = ["xformOp:translate"]')
    group = solid("Cube", "box", "double size = 10") + solid("Sphere", "egg", "double radius = 1")
    group += solid("Mesh", "mesh", wedge) + solid("Capsule", "pill", *SIZED) + solid("Mesh", "empty")
    inside = solid("Sphere", "ball", "double radius = 5", *lifted)
    inside += 'def Xform "group"\n{\n' + "\n".join(STRETCHED) + "\n" + group + "}\n"
    ends = solid("Capsule", "along", *SIZED, 'uniform token axis = "X"')
    ends += solid("Cylinder", "across", *SIZED, 'uniform token axis = "Y"')
    ends += solid("Sphere", "ghost", "bool physics:collisionEnabled = 0") + solid("Cone", "cone")
    more = '"PhysicsRigidBodyAPI", "PhysicsMassAPI", "PhysicsFilteredPairsAPI"'
    rule = "rel physics:filteredPairs = [</arm/link>, </arm/base/ball>]\n"
    parts = body("base", rule + inside, schemas=more), body("link", ends), hinge(), solid("Plane", "floor")
    path = write(tmp_path, stage(*parts, header=HEADER.replace("metersPerUnit = 1", "metersPerUnit = 0.01")))
    with pytest.warns(ModelWarning) as told:
        robot = kt.load(path)
    reported = "\n".join(str(each.message) for each in told)
    for problem in (
        "'/arm/base/group/pill': is a Capsule that is not scaled evenly",
        "'/arm/link/cone': is a Cone without",
        "'/arm/base/group/empty': is a mesh with",
        "filteredPairs of /arm/base: it is not between",
    ):
        assert problem in reported
    shapes = {shape.name: shape for shape in robot.shapes}
    assert {name: shape.kind for name, shape in shapes.items()} == {
        "ball": "sphere", "box": "box", "egg": "ellipsoid", "mesh": "hull", "along": "capsule", "across": "cylinder",
        "floor": "plane",
    }  # fmt: skip
    assert [shape.body for shape in robot.shapes] == ["base"] * 4 + ["link"] * 2 + ["world"]
    assert_near(shapes["ball"].placement[:3, 3], [0, 0, 1], bound(6))
    assert_near(shapes["box"].size, [0.1, 0.2, 0.3], bound(6))  # type: ignore[attr-defined]
    assert_near(shapes["egg"].semi_axes, [0.01, 0.02, 0.03], bound(6))  # type: ignore[attr-defined]
    assert_near(shapes["mesh"].points[1:], np.diag([0.01, 0.02, -0.03]), bound(6))  # type: ignore[attr-defined]
    assert_near(shapes["along"].end, [0.04, 0, 0], bound(6))  # type: ignore[attr-defined]
    assert_near(shapes["across"].placement[:3, 2], [0, 1, 0], bound(6))
    assert (shapes["across"].radius, shapes["across"].length) == (0.02, 0.08)  # type: ignore[attr-defined]
    assert robot.pair_rules.excluded == (("base", "link"),)
    with pytest.warns(ModelWarning, match="filteredPairs"):
        assert kt.load(path, shapes=None).shapes == ()
    with pytest.raises(InputError, match="not for USD"):
        kt.load(path, shapes="visual")
