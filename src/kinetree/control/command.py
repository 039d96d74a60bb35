"""What a controller returns, torques within effort limits, and how controllers are pickled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinetree.control.targets import ControllerState
from kinetree.spatial.value import Array


class Command(NamedTuple):
    """Output of a controller.

    Attributes:
        tau: Joint torques, zero where there is no motor, (…, nv) [N m or N].
        acceleration: Resulting joint accelerations, (…, nv).
        forces: f of each goal along its rows, by name, (…, r).
        constraint_forces: λ of each constraint, by name, (…, c): on the constrained frame, moment first.
        limited: Which degrees of freedom are held at a limit, (…, nv), booleans.
        scale: Factors of goals and posture within the effort limits, (…, 2).
        margin: Lower bound on the smallest eigenvalue of the goals' levels, divided by `cut`, (…). Below 1, some
            direction is being given up.
        state: State for the next call; None without limits and without a `ForceGoal` that integrates.
        slack: By how much accelerations exceed what the limits of joints and the distances that are kept permit, (…)
            [rad/s² or m/s²]: zero, unless no motion was found that satisfies all of them, or efforts do not suffice.
    """

    tau: Array
    acceleration: Array
    forces: dict[str, Array]
    constraint_forces: dict[str, Array]
    limited: Array
    scale: Array
    margin: Array
    state: ControllerState | None
    slack: Array


class Solved(NamedTuple):
    """The law's results, not yet split by name; `a` and `force` may be left out."""

    tau: Array
    a: Any
    force: Any
    constraint_force: Array
    active: Array | None
    margin: Any
    fault: Any

    def mixed(self, other: Solved, share: Array) -> Solved:
        """Linear interpolation towards another result."""
        return self.plus(other, self, share)

    def plus(self, one: Solved, other: Solved, share: Array) -> Solved:
        """This plus a fraction of the difference of two others."""
        s = share[..., None]
        tau, a, force, held = (x + s * (y - z) for x, y, z in zip(self[:4], one[:4], other[:4], strict=True))
        return Solved(tau, a, force, held, self.active, self.margin, self.fault)


def within_effort(bias: Solved, goals: Solved, full: Solved, effort: Array) -> tuple[Solved, Array]:
    """τ = τ_bias + s τ_goals + s₀ τ_posture with the largest s, then s₀, in [0, 1] within the effort limits.

    `bias` is the law without goals and posture, `goals` that without posture. Returns the result, and s and s₀, (…, 2).
    """
    s = _largest(bias.tau, goals.tau - bias.tau, effort)
    moved = bias.mixed(goals, s)
    s0 = _largest(moved.tau, full.tau - goals.tau, effort)
    mixed = moved.plus(full, goals, s0)
    # the bias alone may already exceed the limits: clip
    mixed = mixed._replace(tau=np.clip(mixed.tau, -effort, effort))
    within = np.asarray((np.abs(full.tau) <= effort).all(axis=-1))[..., None]
    tau, a, force, held = (np.where(within, old, new) for old, new in zip(full[:4], mixed[:4], strict=True))
    chosen = Solved(tau, a, force, held, full.active, full.margin, full.fault)
    return chosen, np.where(within, 1.0, np.stack([s, s0], axis=-1))


def _largest(base: Array, way: Array, effort: Array) -> Array:
    """The largest fraction s in [0, 1] with |base + s · way| within the effort limits, (…)."""
    room = np.where(way > 0.0, effort - base, effort + base)
    share = np.where(way != 0.0, room / np.where(way != 0.0, np.abs(way), 1.0), np.inf)
    result: Array = np.clip(share.min(axis=-1, initial=1.0), 0.0, 1.0)
    return result


class Remade:
    """Keeps the arguments of its constructor for pickling. A copy is the object itself, since it never changes."""

    _arguments: tuple[tuple[Any, ...], dict[str, Any]]
    _engine = "native"

    def __new__(cls, *positional: Any, **named: Any) -> Any:
        made = super().__new__(cls)
        made._arguments = positional, named
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), *self._arguments, self._engine)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


def _again(cls: type[Any], positional: tuple[Any, ...], named: dict[str, Any], engine: str) -> Any:
    made = cls(*positional, **named)
    return made if engine == "native" else made.engine(engine)
