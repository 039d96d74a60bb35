"""Configurations and velocities of a list of joints, with any leading axes.

Joints of the same kind are handled together, so the cost depends on the number of kinds rather than of joints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from kinetree.errors import InputError, UnknownNameError
from kinetree.model.joint import Joint
from kinetree.model.joints import KINDS, JointKind
from kinetree.model.loops.aggregation import in_order
from kinetree.model.loops.coupling import Follows
from kinetree.runtime.arguments import empty, refuse_lazy, require_shape
from kinetree.spatial.value import Array

_FLOAT64 = np.dtype(np.float64)


class EveryJoint:
    """The coordinates of all moving joints, those that follow others included; `places` has those of each, by name."""

    def __init__(self, joints: Sequence[Joint], follows: Mapping[str, Follows]) -> None:
        self.places: dict[str, slice] = {}
        self.size = 0
        own: list[int] = []
        for joint in joints:
            self.places[joint.name] = slice(self.size, self.size + joint.type.nq)
            own += range(self.size, self.size + joint.nq)
            self.size += joint.type.nq
        self._own = np.array(own, dtype=np.intp)
        self._followers = [(self.places[name].start, follows[name]) for name in in_order(follows)]

    def of(self, q: Array) -> Array:
        """The coordinates of all joints, (…, size)."""
        every = np.empty((*q.shape[:-1], self.size), dtype=q.dtype)
        every[..., self._own] = q
        for place, how in self._followers:
            leading: Any = [every[..., self.places[leader].start] for leader in how.leaders]
            every[..., place] = how.formula.value(np.array(how.constants), leading)
        return every


class _Group:
    """All joints of one kind.

    Attributes:
        q: Indices of their coordinates, (count, nq); a slice if these are contiguous, for which NumPy takes less time.
        shape: (count, nq); `size` is their product.
    """

    def __init__(self, kind: JointKind, joints: Sequence[Joint]) -> None:
        q = np.array([joint.q_start for joint in joints])[:, None] + np.arange(kind.nq)
        self.kind, self.shape, self.size = kind, q.shape, q.size
        first, contiguous = int(q[0, 0]), np.array_equal(q.ravel(), np.arange(q[0, 0], q[0, 0] + q.size))
        self.q: Any = slice(first, first + q.size) if contiguous else q.ravel()
        self._bounds = [np.array([getattr(joint.limits, end) for joint in joints]) for end in ("lower", "upper")]
        self._low = self._width = np.array(np.nan)  # of the intervals from which plain numbers are drawn
        if kind.limited:
            self._low, high = kind.interval(*self._bounds)
            with np.errstate(all="ignore"):
                self._width = high - self._low
        self._plain = bool(np.isfinite(self._width).all())

    def draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Random coordinates, (*shape, count · nq)."""
        if self._plain:
            drawn = self._low + self._width * generator.random((*shape, *self.shape))
        else:
            with np.errstate(all="ignore"):  # an overflow concerns only its own sample
                drawn = self.kind.random(generator, (*shape, self.shape[0]), *self._bounds)
        return drawn.reshape(*shape, self.size)


class Coordinates:
    """The coordinates q and v of a list of joints.

    Args:
        joints: The joints, in the order of their coordinates.
        follows: Joints without coordinates of their own, by name: how they follow from others.
        reference: Coordinates of joints on closed loops, by name.
    """

    def __init__(self, joints: Sequence[Joint], follows: Mapping[str, Follows], reference: Mapping[str, Array]) -> None:
        self.joints, self.follows, self._reference = joints, follows, reference
        self.nq = sum(joint.nq for joint in joints)
        self.nv = sum(joint.nv for joint in joints)
        members: dict[JointKind, list[Joint]] = {}
        for joint in joints:
            if joint.nq:
                members.setdefault(joint.type, []).append(joint)
        order = dict.fromkeys((*KINDS.values(), *members))
        self._groups = [_Group(kind, members[kind]) for kind in order if kind in members]

    def neutral(self) -> Array:
        q: Array = self._neutral.copy()
        return q

    @cached_property
    def _neutral(self) -> Array:
        q = np.zeros(self.nq)
        for group in self._groups:
            q[group.q] = np.tile(group.kind.neutral(), group.shape[0])
        for joint in self.joints:
            q[joint.q_slice] = self._reference.get(joint.name, q[joint.q_slice])
        return q

    @cached_property
    def every_joint(self) -> EveryJoint:
        """Coordinates of all joints, coupled ones included."""
        return EveryJoint(self.joints, self.follows)

    @staticmethod
    def generator(rng: Any) -> np.random.Generator:
        """A random number generator from what a user gives."""
        if type(rng) is np.random.Generator:
            return rng
        try:
            return np.random.default_rng(rng)
        except (TypeError, ValueError):
            raise InputError(f"rng must be a NumPy generator, a seed or None; got {rng!r}") from None

    def random(self, rng: Any, shape: Any) -> Array:
        generator = self.generator(rng)
        shape = _leading_axes(shape)
        (q,) = empty("random_configuration", [(*shape, self.nq)], np.empty, "draw fewer at a time")
        for group in self._groups:
            q[..., group.q] = group.draw(generator, shape)
        return q

    @cached_property
    def _q_places(self) -> dict[str, slice]:
        return {joint.name: joint.q_slice for joint in self.joints if joint.nq}

    @cached_property
    def _v_places(self) -> dict[str, slice]:
        return {joint.name: joint.v_slice for joint in self.joints if joint.nv}

    @cached_property
    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What joints have of the coordinates of all joints, and of v."""
        return _indices(self.every_joint.places), _indices(self._v_places)

    def q_from_dict(self, values: Mapping[str, Any]) -> Array:
        places = self._q_places
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
        return self._from_dict(values, np.zeros(self.nv), self._v_places)

    def q_to_dict(self, q: Any) -> dict[str, Any]:
        q = checked("q", q, self.nq)
        every = self.every_joint.of(q) if self.follows else q.copy()
        return {name: _plain(every[index]) for name, index in self._parts[0].items()}

    def v_to_dict(self, v: Any) -> dict[str, Any]:
        v = checked("v", v, self.nv).copy()
        return {name: _plain(v[index]) for name, index in self._parts[1].items()}

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
        parts: list[tuple[Any, Any]] = []
        batches, types = {}, {rest.dtype}
        for name, value in values.items():
            if name not in places:
                raise UnknownNameError("joint", name, tuple(places))
            start, stop = places[name].start, places[name].stop
            alone = stop - start == 1
            if alone and type(value) is float:  # needs no array of its own
                parts.append(((..., start), value))
                continue
            part = numbers(name, value) if alone else checked(name, value, stop - start)
            parts.append(((..., start if alone else places[name]), part))
            batches[name] = part.shape if alone else part.shape[:-1]
            types.add(part.dtype)
        batch = _broadcast(batches)
        result = np.empty((*batch, len(rest)), dtype=np.result_type(*types))
        result[...] = rest
        for place, part in parts:
            result[place] = part
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
    if type(values) is np.ndarray and values.dtype is _FLOAT64:
        return values
    refuse_lazy(name, values)
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{name} is not a rectangular array of numbers") from None
    if array.dtype is _FLOAT64:
        return array
    if array.dtype.kind not in "iufc":
        raise InputError(f"{name} has dtype {array.dtype}; pass integers, floats or complex numbers")
    return array.astype(np.result_type(array, np.float64), copy=False)


def _plain(part: Any) -> Any:
    """A single number as Python's own, an array as it is."""
    return part if isinstance(part, np.ndarray) and part.ndim else part.item()


def _broadcast(shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    if not any(shapes.values()):
        return ()
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(f"leading axes do not broadcast together: {listed}") from None


def _leading_axes(shape: Any) -> tuple[int, ...]:
    if type(shape) is tuple and not shape:
        return ()
    axes = shape if isinstance(shape, (tuple, list)) else (shape,)
    if not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 0 for n in axes):
        raise InputError(f"shape is a number of samples or a tuple of them, none negative; got {shape!r}")
    return tuple(int(n) for n in axes)


def _indices(places: Mapping[str, slice]) -> dict[str, Any]:
    """Indices of parts of coordinates; a single coordinate has no axis."""
    return {name: (..., place.start if place.stop - place.start == 1 else place) for name, place in places.items()}
