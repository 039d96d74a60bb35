"""Configurations and velocities of a list of joints, with any leading axes.

Joints of the same kind are handled together, so the cost depends on the number of kinds rather than of joints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError, UnknownNameError
from kinetree.model.joint import Joint
from kinetree.model.joints import KINDS, JointKind
from kinetree.model.loops.aggregation import in_order
from kinetree.model.loops.coupling import Follows
from kinetree.runtime.arguments import empty, refuse_lazy, require_shape
from kinetree.spatial.value import Array

_FLOAT64 = np.dtype(np.float64)


class _Run(NamedTuple):
    """Coordinates of one sample that are drawn at once.

    Attributes:
        q: Their indices.
        low: Lower ends of their intervals.
        width: Widths of these.
    """

    q: Any
    low: Array
    width: Array

    def draw(self, generator: np.random.Generator) -> Array:
        drawn: Array = self.low + self.width * generator.random(len(self.low))
        return drawn

    def sliced(self) -> _Run:
        """The same; NumPy takes less time for a slice than for a list of indices."""
        first, last = int(self.q[0]), int(self.q[-1])
        contiguous = np.array_equal(self.q, np.arange(first, last + 1))
        return self._replace(q=slice(first, last + 1)) if contiguous else self


class EveryJoint:
    """The coordinates of all moving joints, those that follow others included.

    Attributes:
        places: Where the coordinates of each joint are, by name.
        size: Their number.
    """

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

    @property
    def run(self) -> _Run | None:
        """The same for a single sample; None if coordinates are no plain numbers, or some interval is too wide."""
        if self.interval is None:
            return None
        low, high = self.interval
        with np.errstate(all="ignore"):
            width = high - low
        return _Run(self.q.ravel(), low.ravel(), width.ravel()) if np.isfinite(width).all() else None

    def draw(self, generator: np.random.Generator, shape: tuple[int, ...] = ()) -> Array:
        """Random coordinates, (*shape, count, nq)."""
        count = (*shape, len(self.q))
        if self.interval is None:
            return self.kind.random(generator, count, self.lower, self.upper)
        with np.errstate(all="ignore"):  # an overflow concerns only its own sample
            return self.kind.within(*self.interval, generator.random((*count, self.kind.nq)))


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
        if shape:
            for group in self._groups:
                q[..., group.q] = group.draw(generator, shape)
        else:
            for run in self._runs:
                q[run.q] = run.draw(generator)
        return q

    @cached_property
    def _runs(self) -> list[_Run | _Group]:
        """The groups; neighbours whose coordinates are plain numbers are one, which draws the same numbers."""
        runs: list[_Run | _Group] = []
        for group in self._groups:
            run, before = group.run, runs[-1] if runs else None
            if run is not None and isinstance(before, _Run):
                runs[-1] = _Run(*map(np.concatenate, zip(before, run, strict=True)))
            else:
                runs.append(group if run is None else run)
        return [run.sliced() if isinstance(run, _Run) else run for run in runs]

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

    def q_to_dict(self, q: Any) -> dict[str, Array]:
        q = checked("q", q, self.nq)
        every = self.every_joint.of(q) if self.follows else q.copy()
        return {name: every[index] for name, index in self._parts[0].items()}

    def v_to_dict(self, v: Any) -> dict[str, Array]:
        v = checked("v", v, self.nv).copy()
        return {name: v[index] for name, index in self._parts[1].items()}

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


def _group(kind: JointKind, joints: Sequence[Joint]) -> _Group:
    unlimited = np.full(kind.nq, np.inf)
    return _Group(
        kind=kind,
        q=np.array([joint.q_start for joint in joints])[:, None] + np.arange(kind.nq),
        v=np.array([joint.v_start for joint in joints])[:, None] + np.arange(kind.nv),
        lower=np.array([joint.limits.lower if kind.limited else -unlimited for joint in joints]),
        upper=np.array([joint.limits.upper if kind.limited else unlimited for joint in joints]),
    )
