"""Reads rigid bodies, joints and collision shapes of a USD stage. Runs as a program of its own, and prints JSON.

USD composes a stage from layers, which may refer to further files, and is parsed by a large C++ library. So `usd.py`
runs this file in a child process with limits on time and memory: `python usd_reader.py FILE DIRECTORY`. It imports
nothing but USD. Before the stage is composed, every layer that it would open is checked to lie below the directory.

[UP] https://openusd.org/release/api/usd_physics_page_front.html
"""

from __future__ import annotations

import base64
import json
import os
import sys
from contextlib import suppress
from typing import Any

_LAYERS = (".usd", ".usda", ".usdc", ".usdz")
_MOST_LAYERS = 1000
#: Points of all meshes that collide.
_MOST_POINTS = 2_000_000


class Refused(Exception):
    """A stage that is not read; the message says why."""


def _require_inside(path: str, directory: str) -> None:
    """Raise unless the root layer, and each layer that it refers to directly or indirectly, is below the directory."""
    from pxr import Sdf

    waiting: list[str] = [path]
    seen: set[str] = set()
    while waiting:
        layer_path = waiting.pop()
        real = os.path.realpath(layer_path)
        if real in seen:
            continue
        if len(seen) >= _MOST_LAYERS:
            raise Refused(f"has more than {_MOST_LAYERS} layers")
        seen.add(real)
        if os.path.commonpath([real, directory]) != directory:
            raise Refused(f"refers to {layer_path!r}, which is outside {directory}; pass a directory= that has both")
        if not os.path.isfile(real):
            raise Refused(f"refers to {layer_path!r}, which does not exist")
        layer = Sdf.Layer.FindOrOpen(layer_path)
        if layer is None:
            raise Refused(f"{layer_path!r} is not a USD layer, or is damaged")
        for asset in layer.GetCompositionAssetDependencies():
            if not asset:
                continue
            if "://" in asset or not asset.lower().partition("[")[0].endswith(_LAYERS):
                raise Refused(f"refers to {asset!r}; only USD files below {directory} are read, and nothing is fetched")
            waiting.append(os.path.join(os.path.dirname(real), asset.partition("[")[0]))


def describe(path: str, directory: str) -> dict[str, Any]:
    """The bodies, joints and units of a stage, whose layers must be below a directory, as numbers and strings."""
    from pxr import Ar, Tf, Usd

    Ar.DefaultResolver.SetDefaultSearchPath([])
    try:
        _require_inside(path, os.path.realpath(directory))
        return _described(Usd.Stage.Open(path))
    except Tf.ErrorException as error:
        raise Refused(f"is damaged: {' '.join(str(error).split())[-300:]}") from None


def _described(stage: Any) -> dict[str, Any]:
    from pxr import Usd, UsdGeom, UsdPhysics

    cache = UsdGeom.XformCache(Usd.TimeCode.Default())
    found: dict[str, Any] = {
        "name": stage.GetDefaultPrim().GetName() if stage.GetDefaultPrim() else "",
        "metres": UsdGeom.GetStageMetersPerUnit(stage),
        "kilograms": UsdPhysics.GetStageKilogramsPerUnit(stage),
        "up": str(UsdGeom.GetStageUpAxis(stage)),
        "gravity": [],
        "bodies": [],
        "joints": [],
        "shapes": [],
        "apart": [],
    }
    left = _MOST_POINTS
    for prim in Usd.PrimRange(stage.GetPseudoRoot(), Usd.TraverseInstanceProxies()):
        if prim.IsA(UsdPhysics.Scene):
            names = {"direction": "physics:gravityDirection", "size": "physics:gravityMagnitude"}
            found["gravity"].append({key: _value(prim, name) for key, name in names.items()})
        if prim.HasAPI(UsdPhysics.RigidBodyAPI):
            found["bodies"].append(_body(prim, cache))
        if prim.IsA(UsdPhysics.Joint):
            found["joints"].append(_joint(prim))
        if prim.HasAPI(UsdPhysics.CollisionAPI) and _value(prim, "physics:collisionEnabled") is not False:
            found["shapes"].append(_shape(prim, cache, left))
            left -= found["shapes"][-1]["count"]
        if prim.HasAPI(UsdPhysics.FilteredPairsAPI):
            others = prim.GetRelationship("physics:filteredPairs").GetTargets()
            found["apart"] += [[str(prim.GetPath()), str(other)] for other in others]
    return found


def _value(prim: Any, name: str, authored: bool = False) -> Any:
    """The value of an attribute as numbers, Boolean or string, by default or only if authored; None if it has none."""
    attribute = prim.GetAttribute(name)
    value = attribute.Get() if attribute and (attribute.HasAuthoredValue() or not authored) else None
    if value is None:
        return None
    short, wrong = name.rpartition(":")[2], Refused(f"{prim.GetPath()}: {name} has a value of the wrong type")
    size = _SIZES.get(short, 1)
    if short in _OTHERS:
        if not isinstance(value, _OTHERS[short]):
            raise wrong
        return value
    try:
        if hasattr(value, "GetReal"):  # quaternions have the real part first
            numbers = [float(value.GetReal()), *map(float, value.GetImaginary())]
        else:
            numbers = [float(each) for each in value] if size > 1 else [float(value)]
    except (TypeError, ValueError):
        raise wrong from None
    if len(numbers) != size:
        raise wrong
    return numbers if size > 1 else numbers[0]


#: Attributes that are not single numbers.
_SIZES = {
    "centerOfMass": 3, "diagonalInertia": 3, "principalAxes": 4, "localPos0": 3, "localPos1": 3, "localRot0": 4,
    "localRot1": 4, "gravityDirection": 3,
}  # fmt: skip
_OTHERS = {
    "axis": str, "collisionEnabled": bool, "rigidBodyEnabled": bool, "kinematicEnabled": bool, "jointEnabled": bool,
    "excludeFromArticulation": bool,
}  # fmt: skip


def _body(prim: Any, cache: Any) -> dict[str, Any]:
    world = cache.GetLocalToWorldTransform(prim)
    return {
        "path": str(prim.GetPath()),
        "world": [[world[j][i] for j in range(4)] for i in range(4)],  # USD multiplies rows from the left
        "enabled": _value(prim, "physics:rigidBodyEnabled"),
        "kinematic": _value(prim, "physics:kinematicEnabled"),
        **{
            name: _value(prim, f"physics:{name}", authored=True)
            for name in ("mass", "density", "centerOfMass", "diagonalInertia", "principalAxes")
        },
    }


#: Attributes of shapes by the type of their prim.
LENGTHS = {
    "Sphere": ("radius",), "Cube": ("size",), "Capsule": ("radius", "height", "axis"),
    "Cylinder": ("radius", "height", "axis"), "Plane": ("axis",), "Mesh": (),
}  # fmt: skip


def _shape(prim: Any, cache: Any, left: int) -> dict[str, Any]:
    """A prim that collides, in the axes of the body that carries it, or the world's; at most some points."""
    from pxr import UsdPhysics

    body = prim
    while body and not body.HasAPI(UsdPhysics.RigidBodyAPI):
        body = body.GetParent()
    pose, kind = cache.GetLocalToWorldTransform(prim), str(prim.GetTypeName())
    if body:
        pose = pose * cache.GetLocalToWorldTransform(body).GetInverse()
    points: Any = prim.GetAttribute("points").Get() if kind == "Mesh" else None
    count = 0 if points is None else len(points)
    return {
        "path": str(prim.GetPath()),
        "type": kind,
        "body": str(body.GetPath()) if body else "",
        "pose": [[pose[j][i] for j in range(4)] for i in range(4)],
        "count": count,
        "points": base64.b64encode(memoryview(points)).decode() if 0 < count <= left else "",
        **{name: _value(prim, name) for name in LENGTHS.get(kind, ())},
    }


def _joint(prim: Any) -> dict[str, Any]:
    def target(name: str) -> list[str]:
        relation = prim.GetRelationship(f"physics:{name}")
        return [str(path) for path in relation.GetTargets()] if relation else []

    read = (
        "localPos0", "localRot0", "localPos1", "localRot1", "axis", "lowerLimit", "upperLimit", "coneAngle0Limit",
        "coneAngle1Limit", "jointEnabled", "excludeFromArticulation",
    )  # fmt: skip
    extra = ("physxJoint:armature", "physxJoint:jointFriction", "physxJoint:maxJointVelocity")
    drives = [f"drive:{kind}:physics:maxForce" for kind in ("angular", "linear")]
    return {
        "path": str(prim.GetPath()),
        "type": str(prim.GetTypeName()),
        "body0": target("body0"),
        "body1": target("body1"),
        **{name: _value(prim, f"physics:{name}") for name in read},
        **{name: _value(prim, name, authored=True) for name in (*extra, *drives)},
        "schemas": [str(schema) for schema in prim.GetAppliedSchemas()],
    }


if __name__ == "__main__":
    with suppress(ImportError, ValueError):  # where there are no such limits
        import resource

        _MEMORY = 4 * 2**30
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answer: dict[str, Any]
    try:
        answer = {"stage": describe(sys.argv[1], sys.argv[2])}
    except Refused as error:
        answer = {"refused": str(error)}
    sys.stdout.write(json.dumps(answer))
