"""Configurations and velocities of a model, with any leading axes.

Joints of the same kind are handled together, so the cost depends on the number of kinds rather than of joints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kinetree.engines.arguments import refuse_lazy, require_shape
from kinetree.errors import InputError, UnknownNameError
from kinetree.model.coupling import Follows
from kinetree.model.every_joint import EveryJoint
from kinetree.model.joint import Joint
from kinetree.model.joints import KINDS, JointKind
from kinetree.model.quiet import quiet
from kinetree.spatial.value import Array


@dataclass(frozen=True, eq=False)
class _Group:
    """All joints of one kind: indices of their coordinates, (count, nq) and (count, nv), and their limits."""

    kind: JointKind
    q: Array
    v: Array
    lower: Array
    upper: Array

    @cached_property
    def interval(self) -> tuple[Array, Array] | None:
        """The interval of random coordinates; None if they are not plain numbers."""
        return self.kind.interval(self.lower, self.upper) if self.kind.limited else None


class Coordinates:
    """The coordinates q and v of a list of joints.

    Args:
        joints: The joints, in the order of their coordinates.
        follows: Joints without coordinates of their own, by name: how they follow from others.
        reference: Coordinates of joints on closed loops, by name.

    Attributes:
        follows: As given.
    """

    def __init__(
        self,
        joints: Sequence[Joint],
        follows: Mapping[str, Follows] | None = None,
        reference: Mapping[str, Array] | None = None,
    ) -> None:
        self.joints = tuple(joints)
        self.follows, self._reference = dict(follows or {}), dict(reference or {})
        self.nq = sum(joint.nq for joint in joints)
        self.nv = sum(joint.nv for joint in joints)
        members: dict[JointKind, list[Joint]] = {}
        for joint in joints:
            if joint.nq:
                members.setdefault(joint.type, []).append(joint)
        order = dict.fromkeys((*KINDS.values(), *members))
        self._groups = [_group(kind, members[kind]) for kind in order if kind in members]

    def neutral(self) -> Array:
        q: Array = self._neutral.copy()
        return q

    @cached_property
    def _neutral(self) -> Array:
        q = np.zeros(self.nq)
        for group in self._groups:
            q[group.q] = group.kind.neutral()
        for joint in self.joints if self._reference else ():
            if joint.name in self._reference:
                q[joint.q_slice] = self._reference[joint.name]
        return q

    @cached_property
    def every_joint(self) -> EveryJoint:
        """Coordinates of all joints, coupled ones included."""
        return EveryJoint(self.joints, self.follows)

    @staticmethod
    def generator(rng: Any) -> np.random.Generator:
        """A random number generator from what a user gives."""
        try:
            return np.random.default_rng(rng)
        except (TypeError, ValueError):
            raise InputError(f"rng must be a NumPy generator, a seed or None; got {rng!r}") from None

    @quiet
    def random(self, rng: Any, shape: Any) -> Array:
        generator = self.generator(rng)
        shape = _leading_axes(shape)
        q = np.zeros((*shape, self.nq))
        for group in self._groups:
            count = (*shape, len(group.q))
            if group.interval is None:
                q[..., group.q] = group.kind.random(generator, count, group.lower, group.upper)
            else:
                q[..., group.q] = group.kind.within(*group.interval, generator.random((*count, group.kind.nq)))
        return q

    def q_from_dict(self, values: Mapping[str, Any]) -> Array:
        places = {joint.name: joint.q_slice for joint in self.joints if joint.nq}
        if not self.follows or not isinstance(values, Mapping):
            return self._from_dict(values, self.neutral(), places)
        q = self._from_dict({k: v for k, v in values.items() if k not in self.follows}, self.neutral(), places)
        for name in [name for name in values if name in self.follows]:
            given, found = numbers(name, values[name]), self.q_to_dict(q)[name]
            off = float(np.max(np.abs(given - found), initial=0.0))
            if not off <= 1e-9 * max(1.0, float(np.max(np.abs(found), initial=0.0))):
                leaders = ", ".join(map(repr, self.follows[name].leaders))
                raise InputError(f"joint {name!r} follows {leaders} and differs by {off:g} from that; leave it out")
        return q

    def v_from_dict(self, values: Mapping[str, Any]) -> Array:
        self.require_free(values if isinstance(values, Mapping) else ())
        places = {joint.name: joint.v_slice for joint in self.joints if joint.nv}
        return self._from_dict(values, np.zeros(self.nv), places)

    def q_to_dict(self, q: Any) -> dict[str, Array]:
        q = checked("q", q, self.nq)
        every = self.every_joint.of(q) if self.follows else q
        return {name: _part(every, place) for name, place in self.every_joint.places.items()}

    def v_to_dict(self, v: Any) -> dict[str, Array]:
        v = checked("v", v, self.nv)
        return {joint.name: _part(v, joint.v_slice) for joint in self.joints if joint.nv}

    def require_free(self, names: Iterable[str]) -> None:
        """Raise if one of some joints has no velocity of its own."""
        on_loops = {joint.name for joint in self.joints if joint.independent is not None and not joint.nv}
        for name in names:
            if name in on_loops:
                raise InputError(f"joint {name!r} depends on others through a loop and has no velocity of its own")
            if name in self.follows:
                leaders = ", ".join(map(repr, self.follows[name].leaders))
                raise InputError(f"joint {name!r} is coupled and has no velocity of its own; it follows {leaders}")

    @staticmethod
    def _from_dict(values: Mapping[str, Any], rest: Array, places: Mapping[str, slice]) -> Array:
        if not isinstance(values, Mapping):
            raise InputError(f"pass a mapping of joint names to numbers, such as {{'hip': 0.1}}; got {values!r}")
        parts = {}
        for name, value in values.items():
            if name not in places:
                raise UnknownNameError("joint", name, tuple(places))
            size = places[name].stop - places[name].start
            parts[name] = numbers(name, value)[..., None] if size == 1 else checked(name, value, size)
        batch = _broadcast({name: part.shape[:-1] for name, part in parts.items()})
        result = np.empty((*batch, len(rest)), dtype=np.result_type(rest, *parts.values()))
        result[...] = rest
        for name, part in parts.items():
            result[..., places[name]] = part
        return result


def checked(name: str, values: Any, size: int, real: bool = False) -> Array:
    """Values as a floating-point or complex array whose last axis has `size` elements."""
    array = numbers(name, values)
    require_shape(name, array.shape, (size,))
    if real and array.dtype.kind == "c":
        raise InputError(f"{name} is complex; this function takes real numbers only")
    return array


def numbers(name: str, values: Any) -> Array:
    """Values as a floating-point or complex array of any shape."""
    refuse_lazy(name, values)
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{name} is not a rectangular array of numbers") from None
    if array.dtype.kind not in "iufc":
        raise InputError(f"{name} has dtype {array.dtype}; pass integers, floats or complex numbers")
    return array.astype(np.result_type(array, np.float64), copy=False)


def _broadcast(shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(f"leading axes do not broadcast together: {listed}") from None


def _leading_axes(shape: Any) -> tuple[int, ...]:
    axes = shape if isinstance(shape, (tuple, list)) else (shape,)
    if not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 0 for n in axes):
        raise InputError(f"shape is a number of samples or a tuple of them, none negative; got {shape!r}")
    return tuple(int(n) for n in axes)


def _part(values: Array, place: slice) -> Array:
    """The coordinates of one joint; a single coordinate has no axis."""
    return np.array(values[..., place.start] if place.stop - place.start == 1 else values[..., place])


def _group(kind: JointKind, joints: Sequence[Joint]) -> _Group:
    unlimited = np.full(kind.nq, np.inf)
    return _Group(
        kind=kind,
        q=np.array([joint.q_start for joint in joints])[:, None] + np.arange(kind.nq),
        v=np.array([joint.v_start for joint in joints])[:, None] + np.arange(kind.nv),
        lower=np.array([joint.limits.lower if kind.limited else -unlimited for joint in joints]),
        upper=np.array([joint.limits.upper if kind.limited else unlimited for joint in joints]),
    )
