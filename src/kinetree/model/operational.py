"""Operational space of a model: all quantities of tasks in one call, and Λ⁻¹ as a compiled function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kinetree.model.singularity import require_invertible, require_mass
from kinetree.operational_space.factory import Spaces
from kinetree.operational_space.hot import Inertia, TaskDynamicsFunction
from kinetree.operational_space.inverse import CUT
from kinetree.operational_space.space import OperationalSpace
from kinetree.operational_space.tasks import AnyTask, read_tasks
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.spatial.value import Array


class Operational:
    """What can be computed of tasks."""

    if TYPE_CHECKING:
        mechanism: Mechanism

        def site(self, frame: str) -> Site: ...

    def operational_space(
        self,
        q: Any,
        frames: Iterable[str | AnyTask],
        v: Any = None,
        *,
        method: str = "auto",
        reference: str = "local",
        singular: str = "damped",
        contacts: Iterable[str | AnyTask] | None = None,
        cut: float = CUT,
    ) -> OperationalSpace:
        """Operational-space dynamics of tasks: Λ⁻¹, Λ, J, J̄, N, bias, rank and condition, computed when asked for.

        Args:
            q: Configurations, (…, nq).
            frames: Names of frames (all six rows), `Task`, `RelativeTask` and `CenterOfMassTask`.
            v: Joint velocities, (…, nv), for `bias` and `jacobian_dot_v`.
            method: Algorithm for Λ⁻¹, one of `kinetree.operational_space.METHODS`; "auto" chooses by operation counts.
            reference: "local", "world" or "local_world_aligned", as for `jacobian`.
            singular: What Λ is in directions that a sample cannot be moved in: "damped", "truncated" or "raise".
            contacts: Frames and tasks that do not move, because something holds them.
            cut: Directions of Λ⁻¹ with less than this share of its largest eigenvalue are singular.

        Raises:
            UnknownNameError: No such frame, method, reference or policy.
            InputError: No task, a row asked for twice, or arrays of the wrong shape.
            SingularTaskError: With `singular="raise"`, when Λ is asked for.
        """
        return self._spaces.space(q, frames, v, method, reference, singular, contacts, cut)

    def inverse_inertia(
        self, frames: Iterable[str | AnyTask], *, method: str = "auto", reference: str = "local"
    ) -> Callable[..., Array]:
        """Λ⁻¹ of tasks as a function of q, (…, r, r), for hot loops: `f(q)` or `f(q, out=…)`.

        Args:
            frames: As for `operational_space`.
            method: As for `operational_space`.
            reference: As for `operational_space`.
        """
        return self._spaces.tasks(read_tasks(frames, "frames"), method, reference).inverse_inertia

    def inertia(
        self,
        frames: Iterable[str | AnyTask],
        *,
        method: str = "auto",
        reference: str = "local",
        singular: str = "damped",
        cut: float = CUT,
    ) -> Inertia:
        """Λ of tasks as a function of q, (…, r, r), for hot loops: `f(q)` or `f(q, out=…)`.

        Args:
            frames: As for `operational_space`.
            method: As for `operational_space`.
            reference: As for `operational_space`.
            singular: As for `operational_space`.
            cut: As for `operational_space`.
        """
        return self._spaces.inertia(read_tasks(frames, "frames"), method, reference, singular, cut)

    def task_dynamics(
        self,
        frames: Iterable[str | AnyTask],
        *,
        reference: str = "local",
        singular: str = "damped",
        cut: float = CUT,
    ) -> TaskDynamicsFunction:
        """Λ, J̄ and N of tasks as one function of q, for hot loops: `f(q)` or `f(q, out=(…, …, …))`.

        What an `OperationalSpace` computes one by one when asked comes out of a single kernel here. Results are named:
        `inertia` (…, r, r), `dynamically_consistent_inverse` (…, nv, r) and `nullspace` (…, nv, nv).

        Args:
            frames: As for `operational_space`.
            reference: As for `operational_space`.
            singular: As for `operational_space`.
            cut: As for `operational_space`.
        """
        return self._spaces.dynamics(read_tasks(frames, "frames"), reference, singular, cut)

    @property
    def _spaces(self) -> Spaces:
        found: Spaces | None = self.__dict__.get("_operational_spaces")
        if found is None:
            made = Spaces(self.mechanism, self.site, require_invertible, require_mass)
            found = self.__dict__.setdefault("_operational_spaces", made)
        return found
