"""From what users write to what is computed: made once for each choice, then found again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kinetree.algorithms.inverse_dynamics import bias_forces
from kinetree.algorithms.kinematics import VIEWS
from kinetree.engines.function import Function
from kinetree.errors import InputError, UnknownNameError
from kinetree.operational_space.frames import FrameTasks, Guard, TaskSet
from kinetree.operational_space.hot import Inertia, TaskDynamicsFunction
from kinetree.operational_space.inverse import CUT, Inverse, require_policy
from kinetree.operational_space.methods import METHODS
from kinetree.operational_space.space import OperationalSpace, SupportedSpace
from kinetree.operational_space.tasks import AnyTask, Task, read_tasks, sites_of
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.spatial.value import Array

_FLOAT64 = np.dtype(np.float64)


class Spaces:
    """Operational spaces of one robot.

    Args:
        mechanism: The robot.
        find: Finds a frame by name.
        guard: Raises for mechanisms without an inverse mass matrix.
        mass_guard: Raises for mechanisms without mass.
    """

    def __init__(
        self, mechanism: Mechanism, find: Callable[[str], Site], guard: Guard | None, mass_guard: Guard | None
    ) -> None:
        self._mechanism, self._find, self._guard, self._mass_guard = mechanism, find, guard, mass_guard
        self._bias_forces: Function[..., Any] = Function("bias_forces", mechanism, bias_forces)
        self._made: dict[Any, Callable[..., OperationalSpace]] = {}

    def space(
        self, q: Any, frames: Any, v: Any, method: str, reference: str, singular: str, contacts: Any, cut: float
    ) -> OperationalSpace:
        """The operational space of some tasks at q."""
        # Names are read again only if they are not those of an earlier call.
        frames = frames if type(frames) in (list, tuple) else read_tasks(frames, "frames")
        if contacts is None:
            contacts = ()
        elif type(contacts) not in (list, tuple):
            contacts = read_tasks(contacts, "contacts")
        try:
            make = self._made[tuple(frames), method, reference, tuple(contacts)]
        except (KeyError, TypeError):
            wanted, held = read_tasks(frames, "frames"), read_tasks(contacts, "contacts") if contacts else ()
            make = self._make(wanted, method, reference, held)
            self._made[tuple(frames), method, reference, tuple(contacts)] = make
        if singular != "damped" or cut != CUT:
            require_policy(singular, cut)
        return make(self._numbers(q, "q", self._mechanism.nq), self._velocity(v), singular, cut)

    def tasks(self, tasks: Sequence[AnyTask], method: str, reference: str) -> FrameTasks:
        """What computes the rows of some tasks."""
        if method != "auto" and method not in METHODS:
            raise UnknownNameError("method", method, ("auto", *METHODS))
        if reference not in VIEWS:
            raise UnknownNameError("reference", reference, tuple(VIEWS))
        sites = tuple(site for task in tasks for site in sites_of(task, self._find))
        return FrameTasks(self._mechanism, sites, method, reference, self._guard, self._mass_guard)

    def inertia(self, tasks: Sequence[AnyTask], method: str, reference: str, singular: str, cut: float) -> Inertia:
        """Λ of some tasks as a function of q."""
        rows = self.tasks(tasks, method, reference)
        return Inertia(rows.inertia, *self._fallback(tasks, rows, singular, cut))

    def dynamics(self, tasks: Sequence[AnyTask], reference: str, singular: str, cut: float) -> TaskDynamicsFunction:
        """Λ, J̄ and N of some tasks as a function of q."""
        rows = self.tasks(tasks, "auto", reference)
        return TaskDynamicsFunction(rows.dynamics, *self._fallback(tasks, rows, singular, cut))

    def _fallback(
        self, tasks: Sequence[AnyTask], rows: TaskSet, singular: str, cut: float
    ) -> tuple[float, Callable[[Array], OperationalSpace], str]:
        """From which spread on samples are regular, what computes the others, and by which policy."""
        require_policy(singular, cut)
        invert = Inverse(rows.groups, _names(tasks))

        def space(q: Array) -> OperationalSpace:
            return OperationalSpace(rows, invert, self._bias_forces, q, None, singular, cut)

        return invert.trusted(cut), space, singular

    def _make(
        self, wanted: Sequence[AnyTask], method: str, reference: str, held: Sequence[AnyTask]
    ) -> Callable[..., OperationalSpace]:
        if not held:
            tasks = self.tasks(wanted, method, reference)
            invert = Inverse(tasks.groups, _names(wanted))
            return lambda q, v, singular, cut: OperationalSpace(tasks, invert, self._bias_forces, q, v, singular, cut)
        both = self.tasks((*held, *wanted), method, reference)
        count = sum(len(task.rows) for task in held)
        hold = Inverse(both.groups[:count], _names(held))
        invert = Inverse(both.groups[count:], _names(wanted))
        return lambda q, v, singular, cut: SupportedSpace(
            both, invert, self._bias_forces, q, v, singular, cut, contacts=hold
        )

    def _velocity(self, v: Any) -> Array | None:
        return None if v is None else self._numbers(v, "v", self._mechanism.nv)

    def _numbers(self, value: Any, name: str, length: int) -> Array:
        """A copy of a user's array, which stays as it is whatever happens to the original."""
        if type(value) is np.ndarray and value.dtype is _FLOAT64 and value.shape[-1:] == (length,):
            copy: Array = value.copy()
            return copy
        try:
            array = np.array(value)
        except (TypeError, ValueError) as error:
            raise InputError(f"operational_space: {name} is not an array of numbers ({error})") from None
        if array.dtype.kind not in "fiu":
            raise InputError(f"operational_space: {name} has dtype {array.dtype}, expected real numbers")
        array = np.asarray(array, dtype=np.float64)
        if array.ndim < 1 or array.shape[-1] != length:
            raise InputError(f"operational_space: {name} has shape {array.shape}, expected (..., {length})")
        return array


def _names(tasks: Sequence[AnyTask]) -> str:
    named = [f"{task.frame!r}" if isinstance(task, Task) else str(task) for task in tasks]
    return "tasks " + ", ".join(named[:6]) + (f", … ({len(named)} in all)" if len(named) > 6 else "")
