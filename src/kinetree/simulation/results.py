"""Results of simulations."""

from __future__ import annotations

from typing import NamedTuple

from kinetree.spatial.value import Array


class StepInfo(NamedTuple):
    """Forces and accelerations of one step.

    Attributes:
        acceleration: Mean joint acceleration over the step, (…, nv).
        constraint_forces: Force of each constraint, by name, (…, c): on the constrained frame, moment first.
        contact_forces: Mean forces on the contact points, in world axes, (…, k, 3) [N].
        residual: Violation of the laws of contact and friction, relative to the largest impulse, (…).
        penetration: Depth of the deepest point, (…) [m].
        impulses: Contact impulses in contact axes, for a warm start of the next step, (…, 3 n) [N s].
    """

    acceleration: Array
    constraint_forces: dict[str, Array]
    contact_forces: Array
    residual: Array
    penetration: Array
    impulses: Array


class Rollout(NamedTuple):
    """A motion under given joint forces.

    Attributes:
        time: (T + 1,) [s].
        q: Configurations, (…, T + 1, nq).
        v: Joint velocities, (…, T + 1, nv).
    """

    time: Array
    q: Array
    v: Array


class Film(NamedTuple):
    """A motion under a controller, at the times of its commands and at the end.

    Attributes:
        time: (T,) [s].
        q: Configurations, (…, T, nq).
        v: Joint velocities, (…, T, nv).
        tau: Joint torques applied from each time on, (…, T, nv).
        constraint_forces: Constraint forces in the step that follows, by name, (…, T, c).
        commands: Commands of the controller at each time, including the final one.
    """

    time: Array
    q: Array
    v: Array
    tau: Array
    constraint_forces: dict[str, Array]
    commands: list[object]
