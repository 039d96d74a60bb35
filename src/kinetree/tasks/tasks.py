"""`Tasks`: the operational space of some tasks of a robot, as functions of the state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from kinetree.algorithms.kinematics.frame_kinematics import REFERENCES
from kinetree.compiler.formats import FLOAT64, format_of
from kinetree.errors import UnknownNameError
from kinetree.language.mechanism import Site
from kinetree.runtime import arguments
from kinetree.runtime.function import ENGINES
from kinetree.runtime.lazy import lazy
from kinetree.spatial.value import Array
from kinetree.tasks.core import Core
from kinetree.tasks.functions import (
    Bias,
    Condition,
    Derived,
    HeldDynamics,
    Inertia,
    InverseInertiaDerivative,
    Rank,
    Rounded,
    TaskDynamicsFunction,
)
from kinetree.tasks.recursions import Recursions, TaskFunction, TaskRobot
from kinetree.tasks.sensitivity import Sensitivity, attach
from kinetree.tasks.singular import require_policy
from kinetree.tasks.state import HeldState, TaskState
from kinetree.tasks.task_types import AnyTask, read_tasks, require_method, sites_of, task_names

_FLOAT64 = np.dtype(np.float64)


class Tasks:
    """Tasks of a robot, with r rows in total. Created by `robot.tasks(frames)`.

    Of a robot in float32, Λ⁻¹, J and J̇v without contacts are computed in float32. All other results are computed in
    float64 and rounded, because digits decide which directions are singular.

    Every function takes leading batch axes and `out=`, and has `engine`, `count` and `compile`. Nothing is compiled
    before a function is called. Tasks are immutable, thread-safe and picklable.

    Attributes:
        tasks: The tasks, in the order of their rows.
        contacts: Frames and tasks that are held fixed by contacts.
        reference: Reference point and axes of the motions of single frames.
        singular: How Λ is defined in directions in which the tasks cannot move.
        cut: Fraction of the largest eigenvalue of Λ⁻¹ below which directions are singular.
        rows: Number of rows, r.
        held: Number of rows of contacts.
        core: Internal. State shared by the functions.
    """

    tasks: tuple[AnyTask, ...]
    contacts: tuple[AnyTask, ...]
    reference: str
    singular: str
    cut: float
    rows: int
    held: int
    core: Core
    _robot: TaskRobot
    _requested: str
    _engine: str

    def __init__(
        self,
        robot: TaskRobot,
        frames: Any,
        *,
        reference: str,
        method: str,
        singular: str,
        cut: float,
        contacts: Any,
        engine: str = "native",
    ) -> None:
        require_method(method)
        if reference not in REFERENCES:
            raise UnknownNameError("reference", reference, REFERENCES)
        if engine not in ENGINES:
            raise UnknownNameError("engine", engine, ENGINES)
        require_policy(singular, cut)
        tasks = read_tasks(frames, "frames")
        none = contacts is None or (isinstance(contacts, Sequence) and len(contacts) == 0)
        held = () if none else read_tasks(contacts, "contacts")
        sites = _sites((*held, *tasks), robot)
        rows, held_rows = (sum(len(task.rows) for task in each) for each in (tasks, held))
        recursions = Recursions(robot, sites, method, reference, engine)
        self.__dict__.update(
            tasks=tasks,
            contacts=held,
            reference=reference,
            singular=singular,
            cut=float(cut),
            rows=rows,
            held=held_rows,
            core=Core(recursions, task_names(tasks), rows, held_rows, singular, float(cut)),
            _robot=robot,
            _requested=method,
            _engine=engine,
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Tasks are frozen: cannot set {name!r}. Make others with robot.tasks(…)")

    def __repr__(self) -> str:
        held = f", {self.held} of contacts" if self.held else ""
        return f"<{self.core.names}: {self.rows} rows{held}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._robot.model, self.tasks, self._options, self._engine)

    def __copy__(self) -> Tasks:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Tasks:
        return self

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "reference": self.reference,
            "method": self._requested,
            "singular": self.singular,
            "cut": self.cut,
            "contacts": self.contacts,
        }

    def engine(self, name: str) -> Tasks:
        """The same tasks with recursions on another engine: "native" or "reference"."""
        return self if name == self._engine else Tasks(self._robot, self.tasks, engine=name, **self._options)

    @lazy
    def _in_double(self) -> Tasks:
        """The same tasks of the robot in float64."""
        if format_of(self._robot.mechanism) is FLOAT64 or self._engine != "native":
            return self
        made: Tasks = self._robot.model.astype("float64").tasks(self.tasks, **self._options)
        return made

    @property
    def method(self) -> str:
        """Name of the algorithm for Λ⁻¹: the requested one, or the one that "auto" chose."""
        return self.core.recursions.method

    # Functions of the configuration

    @lazy
    def inverse_inertia(self) -> TaskFunction | Derived | Rounded:
        """`inverse_inertia(q)`: Λ⁻¹ = J M⁻¹ Jᵀ, (…, r, r), the acceleration of each row per unit force along each.

        `inverse_inertia.jvp(q, dq)` is its change along a tangent, `inverse_inertia.vjp(q, weights)` the gradient of a
        weighted sum of its entries, (…, nv).
        """
        function = self._given("inverse_inertia", "jacobian", "response")
        attach(function, (self._in_double._sensitivity.jvp, self._in_double._sensitivity.vjp))
        return function

    @lazy
    def inertia(self) -> Inertia | Derived | Rounded:
        """`inertia(q)`: Λ, (…, r, r), the force along each row per unit acceleration of each row.

        `inertia.jvp(q, dq)` and `inertia.vjp(q, weights)` are its derivatives; they raise SingularTaskError where a
        task is singular, whatever the policy.
        """
        plain = not self.held and self._in_double is self
        function: Inertia | Derived | Rounded = (
            Inertia(self, self.core, "inertia", self.core.recursions.inertia)
            if plain
            else self._derived("inertia", "jacobian", "response")
        )
        attach(function, self._in_double._sensitivity.of_inertia())
        return function

    @lazy
    def dynamics(self) -> TaskDynamicsFunction | HeldDynamics:
        """`dynamics(q)`: Λ, J̄ and N together, as `TaskDynamics`; without contacts, from a single kernel."""
        if self._in_double is not self:
            rounded: Any = Rounded(self, self.core, "dynamics", self._in_double.dynamics)
            return cast("TaskDynamicsFunction", rounded)
        if self.held:
            return HeldDynamics(self, self.core, "dynamics", ("q",), ("jacobian", "response"))
        return TaskDynamicsFunction(self, self.core, "dynamics", self.core.recursions.dynamics)

    @lazy
    def jacobian(self) -> TaskFunction | Derived | Rounded:
        """`jacobian(q)`: J, (…, r, nv), which maps joint velocities to task velocities. With contacts, J N_c."""
        return self._given("jacobian", "jacobian", "response")

    @lazy
    def rank(self) -> Rank | Derived | Rounded:
        """`rank(q)`: number of directions in which the tasks can move, integers (…); −1 where q is not finite."""
        if self.held or self._in_double is not self:
            return self._derived("rank", "jacobian", "response")
        return Rank(self, self.core, "rank")

    @lazy
    def condition(self) -> Condition | Derived | Rounded:
        """`condition(q)`: condition number of the weighted Λ⁻¹, (…); infinite where a task is singular."""
        if self.held or self._in_double is not self:
            return self._derived("condition", "jacobian", "response")
        return Condition(self, self.core, "condition")

    # Functions of the state

    @lazy
    def bias(self) -> Bias | Derived | Rounded:
        """`bias(q, v)`: J̄ᵀ(C + g) − Λ J̇v, (…, r), the force F under which the tasks do not accelerate."""
        if self.held or self._in_double is not self:
            kernels = ("jacobian", "response", "jacobian_dot_v", "bias_forces")
            return self._derived("bias", *kernels, inputs=("q", "v"))
        return Bias(self, self.core, "bias")

    @lazy
    def jacobian_dot_v(self) -> TaskFunction | Derived | Rounded:
        """`jacobian_dot_v(q, v)`: J̇v, (…, r), the acceleration of the tasks at zero joint accelerations.

        With contacts, the acceleration of the tasks for τ = C + g, which includes the effect of the contact forces.
        """
        return self._given("jacobian_dot_v", "jacobian", "response", "jacobian_dot_v", inputs=("q", "v"))

    @lazy
    def inverse_inertia_derivative(self) -> InverseInertiaDerivative | Rounded:
        """`inverse_inertia_derivative(q, dq)`: directional derivative of Λ⁻¹ along a tangent, (…, r, r).

        Contacts must not be redundant.
        """
        if self._in_double is not self:
            return Rounded(self, self.core, "inverse_inertia_derivative", self._in_double.inverse_inertia_derivative)
        return InverseInertiaDerivative(self, self.core)

    @lazy
    def _sensitivity(self) -> Sensitivity:
        """Derivatives of Λ⁻¹ and Λ."""
        of = self.core.recursions
        return Sensitivity(repr(self), of.velocity, of.momentum, of.response, of.inverse_inertia, self.held)

    def at(self, q: Any, v: Any = None) -> TaskState:
        """All quantities at one state or a batch of states, each computed on first access.

        They are computed in float64, whatever the robot's type.

        Args:
            q: Configurations, (…, nq).
            v: Joint velocities, (…, nv), for `bias` and `jacobian_dot_v`.
        """
        return self.state("at", q, v)

    def state(self, function: str, q: Any, v: Any = None) -> TaskState:
        """Like `at`, with the name of the called function for errors."""
        if self._in_double is not self:
            return self._in_double.state(function, q, v)
        mechanism = self._robot.mechanism
        q = _copied(function, "q", q, mechanism.nq)
        v = None if v is None else _copied(function, "v", v, mechanism.nv)
        return (HeldState if self.held else TaskState)(self, self.core, q, v)

    @property
    def reach(self) -> Array:
        """Typical mobility of each row at other configurations, (r,); see `kinetree.tasks.recursions`."""
        return self.core.reach

    def _given(self, name: str, *kernels: str, inputs: tuple[str, ...] = ("q",)) -> TaskFunction | Derived | Rounded:
        """A function that is a single recursion, unless there are contacts."""
        if self.held:
            return self._derived(name, *kernels, inputs=inputs)
        function: TaskFunction = getattr(self.core.recursions, name)
        function.belong(self, name)
        function.__doc__ = getattr(type(self), name).__doc__
        return function

    def _derived(self, name: str, *kernels: str, inputs: tuple[str, ...] = ("q",)) -> Derived | Rounded:
        if self._in_double is not self:
            return Rounded(self, self.core, name, getattr(self._in_double, name))
        return Derived(self, self.core, name, inputs, kernels)


def _sites(tasks: Sequence[AnyTask], robot: TaskRobot) -> tuple[Site, ...]:
    return tuple(site for task in tasks for site in sites_of(task, robot.site))


def _again(model: Any, tasks: Any, options: dict[str, Any], engine: str) -> Tasks:
    """Restore pickled tasks."""
    made: Tasks = model.tasks(tasks, **options)
    return made.engine(engine)


def _copied(function: str, name: str, value: Any, length: int) -> Array:
    """A checked copy of the user's array, independent of later changes to it."""
    if type(value) is np.ndarray and value.dtype is _FLOAT64 and value.shape == (length,):
        copied: Array = value.copy()
        return copied
    array = arguments.numbers(function, name, value)
    arguments.require_shape(f"{function}: {name}", array.shape, (length,))
    return np.array(array, dtype=np.float64, order="C")
