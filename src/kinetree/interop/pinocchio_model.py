"""Converts Pinocchio models to Kinetree models."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from kinetree.errors import ModelWarning
from kinetree.interop.foreign import PINOCCHIO_HINTS, require_instance
from kinetree.interop.pinocchio_frames import Frames
from kinetree.interop.pinocchio_joints import Part, parts_of
from kinetree.model.builder import Builder
from kinetree.model.joint import Limits
from kinetree.model.model import Model
from kinetree.model.specs import WORLD_NAME
from kinetree.spatial.value import Array

# Pinocchio's value for no limit
_NO_LIMIT = 1e300


def from_pinocchio(model: Any) -> Model:
    """A robot from a Pinocchio model.

    Every joint of Pinocchio that Kinetree has becomes one: revolute (unbounded ones too, as one angle), prismatic,
    helical, universal, spherical, planar, translation and free-flyer joints. Composite and `SphericalZYX` joints become
    their parts in series. A mimic or ellipsoid joint is an error. Joints come depth first, siblings in Pinocchio's
    order; `interop.pinocchio` converts coordinates and matrices.

    Bodies are called after Pinocchio's body frame at their joint, else after the joint with " body" behind. All other
    frames come along, but those of joints where a frame sits already. Gravity, armature, damping, dry friction and
    limits are kept. Rotor inertias are in no algorithm of Pinocchio's, nor here: a `ModelWarning` says so if there are
    any.

    Args:
        model: A `pinocchio.Model`. It is copied, so it may be changed afterwards.

    Raises:
        InputError: If it is not a `pinocchio.Model`.
        ModelError: If it has a joint that Kinetree does not support.
    """
    require_instance("from_pinocchio", model, "pinocchio", "Model", PINOCCHIO_HINTS)
    parts = parts_of(model)
    frames = Frames(model)
    builder = Builder(model.name or "robot", np.array(model.gravity.linear), strict=False)
    carriers = {0: WORLD_NAME}
    for part in parts:
        # the first part of a joint is attached to the parent's body, the others to the previous part
        parent = carriers.get(part.number) or carriers[model.parents[part.number]]
        body = frames.bodies[part.number] if part.last else frames.free(f"{part.name} body")
        _add(builder, model, part, parent, body)
        carriers[part.number] = body
    for name, number, placement in frames.others:
        builder.add_frame(name, body=carriers[number], placement=placement)
    if np.any(model.rotorInertia):
        warnings.warn(
            f"Pinocchio model {model.name!r}: rotorInertia is not used, here as in Pinocchio; set armature instead",
            ModelWarning,
            stacklevel=2,
        )
    return builder.build()


def _add(builder: Builder, model: Any, part: Part, parent: str, body: str) -> None:
    kind, inertia = part.codec.kind, model.inertias[part.number]
    own: dict[str, Any] = {"universal": {"axes": part.axes}}.get(kind, {"axis": part.axes[0]} if len(part.axes) else {})
    if part.pitch is not None:
        own["pitch"] = part.pitch
    if part.last:
        own.update(mass=float(inertia.mass), com=np.array(inertia.lever), inertia=np.array(inertia.inertia))
    columns = part.v + np.argsort(part.codec.columns)
    builder.add_body(
        body,
        parent=parent,
        joint=kind,
        joint_name=part.name,
        placement=part.placement,
        armature=np.array(model.armature)[columns],
        damping=np.array(model.damping)[columns],
        friction=np.array(model.upperDryFrictionLimit)[columns] if hasattr(model, "upperDryFrictionLimit") else 0.0,
        limits=_limits(model, part, columns),
        **own,
    )


def _limits(model: Any, part: Part, columns: Array) -> Limits:
    """Position limits of joints with the same coordinates in both libraries; others have none."""

    def bounds(values: Any, indices: Array) -> Array:
        chosen = np.array(values)[indices]
        return np.where(np.abs(chosen) < _NO_LIMIT, chosen, np.copysign(np.inf, chosen))

    limits = {"velocity": bounds(model.velocityLimit, columns), "effort": bounds(model.effortLimit, columns)}
    if part.codec.nq == len(columns):
        indices = part.q + np.arange(part.codec.nq)
        limits["lower"], limits["upper"] = (
            bounds(model.lowerPositionLimit, indices),
            bounds(model.upperPositionLimit, indices),
        )
    return Limits(**{name: np.maximum(x, 0.0) if name in ("velocity", "effort") else x for name, x in limits.items()})
