"""Results of simulations."""

from __future__ import annotations

from typing import Any, NamedTuple

from kinetree.spatial.value import Array

#: Contacts are solved if the residual is at most this.
CONVERGED = 1e-6


class StepInfo(NamedTuple):
    """Forces and accelerations of one step.

    Attributes:
        acceleration: Mean joint acceleration over the step, (…, nv).
        constraint_forces: Force of each constraint, by name, (…, c): on the constrained frame, moment first.
        contact_forces: Mean forces on the contact points, in world axes, (…, k, 3) [N].
        residual: Violation of the laws of contact and friction, relative to the fastest approach, (…).
        penetration: Depth of the deepest point, (…) [m].
        joint_forces: Mean forces of dry friction and stops of joints, (…, nv).
        impulses: All impulses, for a warm start of the next step [N s or N m s].
    """

    acceleration: Array
    constraint_forces: dict[str, Array]
    contact_forces: Array
    residual: Array
    penetration: Array
    joint_forces: Array
    impulses: Array

    @property
    def converged(self) -> Array:
        """Whether the laws of contact and friction hold: the residual is at most `CONVERGED`, (…)."""
        return self.residual <= CONVERGED


class Impulses(NamedTuple):
    """Effect of contacts and joint rows in a step: arrays, or places of a sequence.

    Attributes:
        velocity: Joint velocities after the step, (…, nv).
        forces: Impulses in world axes, (…, 3 n), for all n pairs of a shape and a point.
        residual: Violation of the laws of contact and friction, (…).
        heights: Signed distances before the step, at the normal row, (…, 3 n).
        impulses: All impulses: in contact axes, then of dry friction and of stops.
    """

    velocity: Any
    forces: Any = None
    residual: Any = None
    heights: Any = None
    impulses: Any = None


class Rollout(NamedTuple):
    """A motion under given joint forces.

    Attributes:
        time: (T + 1,) [s].
        q: Configurations, (…, T + 1, nq).
        v: Joint velocities, (…, T + 1, nv).
        residual: Largest violation of the laws of contact in the steps since the state before, as of `StepInfo`,
            (…, T + 1).
    """

    time: Array
    q: Array
    v: Array
    residual: Array

    @property
    def converged(self) -> Array:
        """Whether the laws of contact held in all of these steps, (…, T + 1)."""
        return self.residual <= CONVERGED


class Film(NamedTuple):
    """A motion under a controller, at the times of its commands and at the end.

    Attributes:
        time: (T,) [s].
        q: Configurations, (…, T, nq).
        v: Joint velocities, (…, T, nv).
        tau: Joint torques applied from each time on, (…, T, nv).
        constraint_forces: Constraint forces in the step that follows, by name, (…, T, c).
        commands: Commands of the controller at each time, including the final one.
        residual: Largest violation of the laws of contact in the steps from each time on, as of `StepInfo`, (…, T).
    """

    time: Array
    q: Array
    v: Array
    tau: Array
    constraint_forces: dict[str, Array]
    commands: list[object]
    residual: Array
