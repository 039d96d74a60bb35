"""Joints of a model, and their limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinetree.errors import ModelError
from kinetree.model.body import Record, frozen
from kinetree.model.joints import KINDS, JointKind
from kinetree.model.nodes.flexible import FlexibleBody
from kinetree.model.nodes.general import Node, coordinates_of
from kinetree.spatial.value import Array

_LIMITS = ("lower", "upper", "velocity", "effort")


@dataclass(frozen=True)
class Limits:
    """Limits of a joint: one number for all coordinates, or one for each; infinity means none.

    Attributes:
        lower: Lower position limit, in the order of q [rad or m].
        upper: Upper position limit.
        velocity: Velocity limit, in the order of v [rad/s or m/s].
        effort: Torque or force limit, in the order of v [N m or N].
    """

    lower: Any = -math.inf
    upper: Any = math.inf
    velocity: Any = math.inf
    effort: Any = math.inf

    def __post_init__(self) -> None:
        for name in _LIMITS:
            given = getattr(self, name)
            try:
                values = tuple(np.asarray(given, dtype=float).reshape(-1).tolist())
            except (TypeError, ValueError):
                raise ModelError(f"limits: {name}={given!r} is neither a number nor a list of numbers") from None
            if any(map(math.isnan, values)):
                raise ModelError(f"limits: {name} is NaN; use infinity where there is no limit")
            if name in ("velocity", "effort") and any(x < 0.0 for x in values):
                raise ModelError(f"limits: {name} is negative; it bounds a magnitude")
            object.__setattr__(self, name, values)

    @classmethod
    def trusted(cls, numbers: tuple[float, ...]) -> Limits:
        """Limits of numbers that need no check: all lower ones, then all upper ones, those of velocity and effort."""
        made, count = object.__new__(cls), len(numbers) // 4
        parts = (numbers[i * count : (i + 1) * count] for i in range(4))
        object.__setattr__(made, "__dict__", dict(zip(_LIMITS, parts, strict=True)))
        return made

    def expanded(self, kind: JointKind) -> Limits:
        """The same limits with one number per coordinate of a joint."""
        if not kind.limited and (max(self.lower) > -math.inf or min(self.upper) < math.inf):
            raise ModelError(
                f"limits: a {kind.name} joint has no position limits, because its coordinates are not plain numbers"
            )
        full, size = {}, kind.nv
        for name in _LIMITS:
            values = getattr(self, name)
            if len(values) not in (1, size):
                raise ModelError(f"limits: {name} has {len(values)} numbers; a {kind.name} joint takes 1 or {size}")
            full[name] = values * size if len(values) == 1 else values
        if any(low > high for low, high in zip(full["lower"], full["upper"], strict=True)):
            raise ModelError(f"limits: lower {full['lower']} is above upper {full['upper']}; swap them")
        made = object.__new__(Limits)
        object.__setattr__(made, "__dict__", full)
        return made


_NONE = frozen(np.zeros(0), (0,))


@dataclass(frozen=True, eq=False)
class Spring(Record):
    """A spring at a joint, with the torque or force −K (q ⊖ q₀).

    Attributes:
        stiffness: K, (nv,) [N m/rad or N/m].
        reference: q₀, where it is at rest, (nq,) [rad or m].
    """

    stiffness: Array
    reference: Array

    def __post_init__(self) -> None:
        for name in ("stiffness", "reference"):
            self.__dict__[name] = frozen(self.__dict__[name], (len(self.__dict__[name]),))


@dataclass(frozen=True, eq=False)
class Joint(Record):
    """A joint between two bodies.

    Attributes:
        name: Unique among joints.
        kind: "revolute", "floating", ….
        parent: Parent body, or "world".
        child: Child body.
        placement: Pose of the child's link frame in the parent's at neutral q, (4, 4).
        axes: Unit axes in the child's link frame, (count, 3).
        pitch: Advance of a helical joint [m/rad], else 0.
        armature: Reflected rotor inertia, (nv,) [kg m² or kg].
        limits: One number per coordinate.
        damping: Viscous damping, (nv,) [N m s/rad or N s/m]. Not part of the dynamics.
        friction: Dry friction, (nv,) [N m or N]. Not part of the dynamics.
        spring: Its spring, or None. Not part of the dynamics.
        q_start: Index of its first coordinate in q.
        v_start: Index of its first velocity in v.
        node: For `kind` "node", the formulas that take the place of a joint and a rigid body.
        coupled: Whether its coordinate follows from others, so that it has no part of q and v.
        independent: Which of its velocities are part of v; None if all are. In a loop, others follow from these.
    """

    name: str
    kind: str
    parent: str
    child: str
    placement: Array
    axes: Array
    pitch: float
    armature: Array
    limits: Limits
    damping: Array
    friction: Array
    q_start: int
    v_start: int
    node: Node | None = None
    coupled: bool = False
    independent: tuple[int, ...] | None = None
    spring: Spring | None = None

    def __post_init__(self) -> None:
        kind, own = self.type, self.__dict__
        own["placement"], own["axes"] = frozen(self.placement, (4, 4)), frozen(self.axes, (kind.axes, 3))
        for name in ("armature", "damping", "friction"):
            own[name] = frozen(own[name], (kind.nv,))

    def numbered(self, q_start: int, v_start: int, coupled: bool, independent: tuple[int, ...] | None) -> Joint:
        """The same joint with another part of q and v; its arrays need no new check, as they would in `replace`."""
        joint = object.__new__(Joint)
        joint.__dict__.update(self.__dict__, q_start=q_start, v_start=v_start, coupled=coupled, independent=independent)
        return joint

    @property
    def type(self) -> JointKind:
        """The formulas of its kind."""
        return KINDS[self.kind] if self.node is None else coordinates_of(self.node)

    @property
    def nq(self) -> int:
        """Number of its coordinates in q; zero if it is coupled."""
        return 0 if self.coupled else self.type.nq

    @property
    def nv(self) -> int:
        """Number of its velocities in v; zero if it is coupled or depends on others through a loop."""
        if self.coupled:
            return 0
        return self.type.nv if self.independent is None else len(self.independent)

    @property
    def has_motor(self) -> bool:
        """Whether a motor drives it, unless a controller is told otherwise: not free bodies, nor flexible ones."""
        return self.kind != "floating" and not isinstance(self.node, FlexibleBody)

    @property
    def q_slice(self) -> slice:
        """Its part of q."""
        return slice(self.q_start, self.q_start + self.nq)

    @property
    def v_slice(self) -> slice:
        """Its part of v."""
        return slice(self.v_start, self.v_start + self.nv)

    @property
    def own(self) -> Array:
        """The constants specific to its kind, such as the pitch of a helical joint."""
        if self.node is not None:
            return np.array(self.node.constants, dtype=float)
        return np.array([self.pitch]) if self.type.own else _NONE
