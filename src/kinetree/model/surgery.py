"""Models derived from others: attaching a model, adding a payload or a frame, extracting a subtree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from kinetree.errors import InputError, ModelError, UnknownNameError
from kinetree.model.body import Body, Frame
from kinetree.model.joint import Joint
from kinetree.model.loops.aggregation import Cluster, Constraint, Rate
from kinetree.model.loops.loop import Loop
from kinetree.model.physical import possible_inertia
from kinetree.model.specs import checked_placement
from kinetree.spatial.inertia import spread
from kinetree.spatial.reproducible import apply, product
from kinetree.spatial.value import Array

if TYPE_CHECKING:
    from typing_extensions import Self

_WORLD = "world"


class EditableModel(Protocol):
    """The parts of a `Model`, from which another can be created; avoids importing `Model` here."""

    name: str
    gravity: Array
    bodies: tuple[Body, ...]
    joints: tuple[Joint, ...]
    fixed_joints: tuple[Joint, ...]
    extra_frames: tuple[Frame, ...]
    joint_constraints: tuple[Constraint, ...]
    independent: tuple[Rate, ...]
    near: tuple[tuple[str, tuple[float, ...]], ...]
    equalities: tuple[Constraint, ...]
    clusters: tuple[Cluster, ...]
    _every_joint: tuple[Joint, ...]

    @property
    def frames(self) -> tuple[str, ...]:
        """Names of all frames."""

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The floating-point type in which functions compute."""

    def body(self, name: str) -> Body:
        """A body by name."""

    def _edited(self, **changes: Any) -> Self:
        """A variant with other parts."""


_Model = TypeVar("_Model", bound=EditableModel)


def attach(robot: _Model, frame: str, other: _Model, placement: Any, prefix: str) -> _Model:
    """The robot with another model fixed to one of its frames; see `Model.attach`."""
    if not isinstance(other, type(robot)):
        raise InputError(f"attach() needs a Model, got {type(other).__name__}")
    if not isinstance(prefix, str):
        raise InputError(f"prefix is put in front of names, so it must be a string; got {prefix!r}")
    body, at = _carrier(robot, frame)
    at = product(at, checked_placement(placement, "attach()"))

    def parent(name: str) -> str:
        return body if name == _WORLD else prefix + name

    def place(name: str, own: Array) -> Array:
        return product(at, own) if name == _WORLD else own

    new_bodies = [
        replace(one, name=prefix + one.name, parent=parent(one.parent), joint=prefix + one.joint)
        for one in other.bodies
    ]
    new_joints = [
        replace(
            one,
            name=prefix + one.name,
            parent=parent(one.parent),
            child=prefix + one.child,
            placement=place(one.parent, one.placement),
        )
        for one in other._every_joint
    ]
    new_frames = [
        replace(one, name=prefix + one.name, body=parent(one.body), placement=place(one.body, one.placement))
        for one in other.extra_frames
    ]
    names = [body.name for body in new_bodies] + [frame.name for frame in new_frames]
    _refuse_clashes(robot, other, names, [joint.name for joint in new_joints])
    # after everything that the body already carries, to keep the order depth first
    carried = _below(robot, body)
    end = 1 + max((i for i, one in enumerate(robot.bodies) if one.name in carried), default=-1)
    old = robot._every_joint
    return robot._edited(
        bodies=[*robot.bodies[:end], *new_bodies, *robot.bodies[end:]],
        joints=[*old[:end], *new_joints, *old[end:]],
        frames=[*robot.extra_frames, *new_frames],
        constraints=[
            *robot.joint_constraints,
            *(_renamed(constraint, prefix, parent, place) for constraint in other.joint_constraints),
        ],
        independent=[*robot.independent, *((prefix + name, component) for name, component in other.independent)],
        near=[*robot.near, *((prefix + name, values) for name, values in other.near)],
        equalities=[*robot.equalities, *(_renamed(one, prefix, parent, place) for one in other.equalities)],
    )


def with_payload(robot: _Model, frame: str, mass: Any, com: Any, inertia: Any) -> _Model:
    """The robot with a rigid load merged into the body of a frame; see `Model.with_payload`."""
    name, at = _carrier(robot, frame)
    if name == _WORLD:
        raise InputError(f"frame {frame!r} is fixed to the world, which carries no payload; name a frame of a body")
    owner = f"payload at {frame!r}"
    mass, com, inertia = possible_inertia(owner, mass, com, np.zeros((3, 3)) if inertia is None else inertia)
    R, p = at[:3, :3], at[:3, 3]
    load = Body(owner, name, "", mass, apply(R, com) + p, product(product(R, inertia), R.T))
    bodies = [_merged(body, load) if body.name == name else body for body in robot.bodies]
    return robot._edited(bodies=bodies)


def with_frame(robot: _Model, name: str, frame: str, placement: Any) -> _Model:
    """The robot with one more frame fixed to another; see `Model.with_frame`."""
    if not isinstance(name, str) or not name:
        raise ModelError(f"a frame needs a name that is not empty; got {name!r}")
    if name in robot.frames:
        raise ModelError(f"frame {name!r}: a body or frame has that name already; choose another")
    body, at = _carrier(robot, frame)
    new = Frame(name, body, product(at, checked_placement(placement, f"frame {name!r}")))
    return robot._edited(frames=[*robot.extra_frames, new])


def subtree(robot: _Model, body: str) -> _Model:
    """The subtree of a body, with the joint that carries it; see `Model.subtree`."""
    kept = _below(robot, robot.body(body).name)
    bodies = [one for one in robot.bodies if one.name in kept]
    joints = [joint for joint in robot._every_joint if joint.child in kept]
    # the body itself is the first of its subtree
    bodies[0], joints[0] = replace(bodies[0], parent=_WORLD), replace(joints[0], parent=_WORLD)
    frames = [one for one in robot.extra_frames if one.body in kept]
    names = {joint.name for joint in joints}
    constraints = [one for one in robot.joint_constraints if _touches(one, names, kept)]
    equalities = [one for one in robot.equalities if _touches(one, names, kept)]
    for constraint in (*constraints, *equalities):
        whole = names.issuperset(constraint.joints) if not isinstance(constraint, Loop) else kept.issuperset(
            constraint.bodies
        )  # fmt: skip
        if not whole:
            fix = "Take the subtree of a body that carries all of it"
            if not isinstance(constraint, Loop):
                fix = "First lock one of its joints with reduced()"
            raise InputError(f"subtree({body!r}) would cut {constraint}, part of which lies outside. {fix}")
    independent = [rate for rate in robot.independent if rate[0] in names]
    near = [one for one in robot.near if one[0] in names]
    return robot._edited(
        name=body, bodies=bodies, joints=joints, frames=frames,
        constraints=constraints, independent=independent, near=near, equalities=equalities,
    )  # fmt: skip


def _touches(constraint: Constraint, joints: set[str], bodies: set[str]) -> bool:
    if isinstance(constraint, Loop):
        return bool(bodies.intersection(constraint.bodies))
    return bool(joints.intersection(constraint.joints))


def _renamed(
    constraint: Constraint, prefix: str, parent: Callable[[str], str], place: Callable[[str, Array], Array]
) -> Constraint:
    """A constraint of a model that is attached to another."""
    if not isinstance(constraint, Loop):
        return replace(constraint, joints=tuple(prefix + name for name in constraint.joints))
    first, second = constraint.bodies
    return replace(
        constraint,
        name=prefix + constraint.name,
        bodies=(parent(first), parent(second)),
        first=place(first, constraint.first),
        second=place(second, constraint.second),
    )


def _carrier(robot: EditableModel, frame: str) -> tuple[str, Array]:
    """The body that a frame is fixed to, or the world, and the frame's pose in it."""
    for one in robot.extra_frames:
        if one.name == frame:
            return one.body, one.placement
    if frame == _WORLD or any(body.name == frame for body in robot.bodies):
        return frame, np.eye(4)
    raise UnknownNameError("frame", frame, robot.frames)


def _below(robot: EditableModel, body: str) -> set[str]:
    """Names of a body and its descendants."""
    found = {body}
    for one in robot.bodies:  # parents come first
        if one.parent in found:
            found.add(one.name)
    return found


def _merged(body: Body, load: Body) -> Body:
    """Two rigid bodies merged into one, both expressed in the first one's link frame."""
    if load.mass == 0.0:
        return body
    mass = body.mass + load.mass
    if mass == 0.0:
        raise ModelError(f"body {body.name!r} has the negative mass {body.mass:g} kg, which the payload cancels")
    com = (body.mass * body.com + load.mass * load.com) / mass
    inertia = sum((one.inertia + one.mass * spread(one.com - com) for one in (body, load)), np.zeros((3, 3)))
    return replace(body, mass=mass, com=com, inertia=inertia)


def _refuse_clashes(robot: EditableModel, other: EditableModel, names: list[str], joints: list[str]) -> None:
    taken = {name for name in names if name in robot.frames}
    taken_joints = {joint.name for joint in robot._every_joint} & set(joints)
    if not taken and not taken_joints:
        return
    listed = "; ".join(
        f"{what} {', '.join(map(repr, sorted(clash)))}"
        for what, clash in (("bodies or frames", taken), ("joints", taken_joints))
        if clash
    )
    raise ModelError(
        f"{robot.name!r} and {other.name!r} have names in common: {listed}. Give the attached model's names a prefix, "
        f"such as attach(…, prefix={other.name + '_'!r})"
    )
