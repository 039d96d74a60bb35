"""A model fixed to a frame of another: the parts of both, with the names that the attached ones get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kinetree.errors import ModelError
from kinetree.model.base import ModelBase
from kinetree.model.loops.aggregation import Constraint
from kinetree.model.loops.loop import Loop
from kinetree.model.shapes import SolidShape
from kinetree.model.specs import WORLD_NAME
from kinetree.spatial.reproducible import product
from kinetree.spatial.value import Array


def attachment(robot: ModelBase, other: ModelBase, body: str, at: Array, prefix: str) -> dict[str, Any]:
    """What `robot` becomes when `other` is attached to one of its bodies, as arguments of `ModelBase._edited`.

    Args:
        robot: The model that stays as it is.
        other: The model that is attached.
        body: Body of `robot`, or the world.
        at: Pose of the other model's world in it, (4, 4).
        prefix: Of the attached names.
    """

    def parent(name: str) -> str:
        return body if name == WORLD_NAME else prefix + name

    def place(name: str, own: Array) -> Array:
        return product(at, own) if name == WORLD_NAME else own

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
    names = [one.name for one in new_bodies] + [one.name for one in new_frames]
    _refuse_clashes(robot, other, names, [one.name for one in new_joints])
    # after everything that the body already carries, to keep the order depth first
    carried = below(robot, body)
    end = 1 + max((i for i, one in enumerate(robot.bodies) if one.name in carried), default=-1)
    old = robot._every_joint
    return {
        "bodies": [*robot.bodies[:end], *new_bodies, *robot.bodies[end:]],
        "joints": [*old[:end], *new_joints, *old[end:]],
        "frames": [*robot.extra_frames, *new_frames],
        "constraints": [
            *robot.joint_constraints,
            *(_renamed(constraint, prefix, parent, place) for constraint in other.joint_constraints),
        ],
        "independent": [*robot.independent, *((prefix + name, component) for name, component in other.independent)],
        "near": [*robot.near, *((prefix + name, values) for name, values in other.near)],
        "equalities": [*robot.equalities, *(_renamed(one, prefix, parent, place) for one in other.equalities)],
        "keyframes": _both(robot.named_positions, other.named_positions, prefix),
        "shapes": _attached_shapes(robot, other, prefix, parent, at),
        "pair_rules": robot.pair_rules.joined(other.pair_rules, prefix, parent),
    }


def below(robot: ModelBase, body: str) -> set[str]:
    """Names of a body and its descendants."""
    found = {body}
    for one in robot.bodies:  # parents come first
        if one.parent in found:
            found.add(one.name)
    return found


def _both(own: Any, others: Any, prefix: str) -> tuple[Any, ...]:
    """Keyframes of two models, the second's joints and keyframes with a prefix; those of the same name are one."""
    found = {name: dict(positions) for name, positions in own}
    for name, positions in others:
        found.setdefault(prefix + name, {}).update((prefix + joint, q) for joint, q in positions)
    return tuple((name, tuple(positions.items())) for name, positions in found.items())


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


def _attached_shapes(
    robot: ModelBase, other: ModelBase, prefix: str, parent: Callable[[str], str], at: Array
) -> tuple[SolidShape, ...]:
    """The shapes of a model and of another that is attached to it; those on its world at the pose of that."""
    found, taken = list(robot.shapes), {shape.name for shape in robot.shapes}
    for shape in other.shapes:
        name = prefix + shape.name
        if name in taken:
            raise ModelError(f"{robot.name!r} and {other.name!r} both have a shape {name!r}; give attach() a prefix")
        carrier = parent(str(shape.body))
        found.append(shape.moved(at, carrier, name) if shape.body == WORLD_NAME else shape.renamed(name, carrier))
    return tuple(found)


def _refuse_clashes(robot: ModelBase, other: ModelBase, names: list[str], joints: list[str]) -> None:
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
