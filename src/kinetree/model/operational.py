"""Operational space of a model: `robot.tasks`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinetree.model import constraints as held
from kinetree.model.base import ModelBase
from kinetree.model.constraints import Constraints
from kinetree.model.held_derivatives import ConstrainedDynamics
from kinetree.model.held_rows import AnyConstraint
from kinetree.model.singularity import require_invertible, require_mass
from kinetree.operators.collection import Operators
from kinetree.spatial.value import Array
from kinetree.tasks.recursions import TaskRobot
from kinetree.tasks.singular import CUT
from kinetree.tasks.task_types import AnyTask
from kinetree.tasks.tasks import Tasks

#: More are forgotten, all at once.
_TASKS_KEPT = 64


def _names(*frames: Any) -> tuple[tuple[str, ...], ...] | None:
    """Frames as names; None if there is anything but names."""
    if all(type(each) in (list, tuple) and all(type(frame) is str for frame in each) for each in frames):
        return tuple(map(tuple, frames))
    return None


class Operational(ModelBase):
    """The operational space of a model."""

    def operators(self, q: ArrayLike, *, engine: str = "native") -> Operators:
        """Spatial operators at a configuration: lazy matrices, applied by sweeps over the tree.

            ops = robot.operators(q)
            a = ops.mass_inverse @ tau                              # two sweeps, no matrix
            f = ops.A @ ops.M @ ops.A.T @ ops.H.T @ a               # forces of all nodes

        Args:
            q: Configurations, (…, nq); products then have the batch axes in front, as in NumPy.
            engine: "native" or "reference".
        """
        return Operators(self, q, self._operator_functions, require_invertible, engine)

    @cached_property
    def _operator_functions(self) -> dict[Any, Any]:
        return {}

    def tasks(
        self,
        frames: Iterable[str | AnyTask],
        *,
        reference: str = "local",
        method: str = "auto",
        singular: str = "damped",
        cut: float = CUT,
        contacts: Iterable[str | AnyTask] = (),
    ) -> Tasks:
        """Operational space of some tasks: Λ⁻¹, Λ, J, J̄, N, bias, rank and condition, as functions of the state.

        Create it once and use it at every state. Nothing is compiled until one of its functions is first called. Tasks
        of frames by name are kept: asking for them again returns the same object.

        Args:
            frames: Names of frames (all six rows), `Task`, `RelativeTask` and `CenterOfMassTask`.
            reference: "local", "world" or "local_world_aligned", as for `jacobian`.
            method: Algorithm for Λ⁻¹, one of `kinetree.tasks.METHODS`. "auto" selects `pv_osim` or
                `pv_osim_r`, whichever is expected to take less time.
            singular: How Λ is defined in directions in which the tasks cannot move: "damped", "truncated" or "raise".
            cut: Directions with less than this fraction of the largest eigenvalue of Λ⁻¹ are singular.
            contacts: Frames and tasks that are held fixed by contacts.

        Raises:
            UnknownNameError: No such frame, method, reference or policy.
            InputError: No task, or a duplicate row.
        """
        names = _names(frames, contacts)
        plain = type(cut) in (float, int) and all(type(option) is str for option in (reference, method, singular))
        key = (*names, reference, method, singular, cut) if names is not None and plain else None
        kept = None if key is None else self._kept_tasks.get(key)
        if kept is not None:
            return kept
        tasks = Tasks(
            self._of_tasks, frames, reference=reference, method=method, singular=singular, cut=cut, contacts=contacts
        )
        if key is not None:
            if len(self._kept_tasks) >= _TASKS_KEPT:
                self._kept_tasks.clear()
            self._kept_tasks[key] = tasks
        return tasks

    @property
    def _of_tasks(self) -> TaskRobot:
        return TaskRobot(
            self,
            self.mechanism,
            self.site,
            require_invertible,
            require_mass,
            self._generic_configurations,
            self._link_size,
            lambda: self.mass,
        )

    @cached_property
    def _kept_tasks(self) -> dict[Any, Tasks]:
        return {}

    def constraints(self, constraints: Iterable[AnyConstraint], at: Any = None) -> Constraints:
        """Constraints prepared for hot loops: constrained accelerations and forces, constraint error, projection.

        Args:
            constraints: `Weld`, `Distance`, names of frames (welded to the world), tasks whose rows are held fixed,
                couplings and loops, such as `robot.equalities`.
            at: Configuration, (nq,), whose poses are held; without it, only motions of frames are constrained.
        """
        return Constraints(self, constraints, at)

    def constrained_dynamics(
        self, q: Any, v: Any, tau: Any, constraints: Iterable[AnyConstraint], *, f_ext: Any = None
    ) -> ConstrainedDynamics:
        """Forward dynamics with contacts, grasps and closed loops: accelerations and constraint forces.

        Solves M a + C + g = τ + Jᵀλ with J a + J̇v = 0. Rows may be redundant. Drift is not corrected; see
        `kinetree.simulation`.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities that satisfy the constraints, (…, nv).
            tau: Joint forces, (…, nv) [N m or N].
            constraints: `Weld`, `Distance`, names of frames (welded to the world), tasks whose rows are held fixed,
                couplings and loops, such as `robot.equalities`.
            f_ext: External forces on frames, as for `forward_dynamics`.

        Returns:
            Acceleration (…, nv), and λ (…, c) along the rows in the order given: a wrench, moment first, on the welded
            frame. A weld's axes are those of the frame that it is welded to, a task's are the world's.

        Raises:
            UnknownNameError: No such frame.
            InputError: No constraint, or a row held twice by the same constraint.
        """
        return held.constrained_dynamics(self, q, v, tau, constraints, f_ext)

    def _generic_configurations(self) -> Array:
        """Three generic configurations, (3, nq): angles of up to a radian, displacements of up to a link's length.

        Joints with quaternions stay neutral. The values are fractional parts of multiples of irrational numbers, which
        are reproducible everywhere.
        """
        q = np.tile(self._coordinates.neutral(), (3, 1))
        size = self._link_size()
        for joint in self.joints:
            for i, angle in zip(range(joint.q_start, joint.q_start + joint.nq), joint.type.angles, strict=False):
                for n in range(3):
                    part = math.fmod((i + 1) * 0.6180339887498949 + (n + 1) * 0.4142135623730951, 1.0)
                    q[n, i] += (2.0 * part - 1.0) * (1.0 if angle else size)
        return q

    def _link_size(self) -> float:
        """A typical length [m]: root mean square of the distances between joints, and of masses from their joints."""
        squares = []
        for body, joint in zip(self.bodies, self._every_joint, strict=True):
            if body.parent != "world":
                squares.append(_square(joint.placement[:3, 3]))
            if body.mass > 0.0:
                around = sum(np.diagonal(body.inertia).tolist()) / (2.0 * body.mass)
                squares.append(around + _square(body.com))
        extended = [square for square in squares if 0.0 < square < math.inf]
        return math.sqrt(sum(extended) / len(extended)) if extended else 0.0


def _square(vector: Array) -> float:
    return float(sum(x * x for x in vector.tolist()))
