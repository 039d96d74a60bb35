"""The functions of a robot that users make: one table for both libraries.

A library has `function`, which makes a callable of its arrays from a `Differentiable`, and `array`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kinetree.bridges.differentiable import Arrays, Differentiable, NumPy, Robot, model_of
from kinetree.bridges.dynamics import Dynamics, frames_of
from kinetree.bridges.functions import InverseInertia, OfState, OnManifold
from kinetree.bridges.parametric import OfParameters
from kinetree.bridges.simulation import SimulatedStep
from kinetree.errors import InputError, UnsupportedError
from kinetree.model.parameters import Parameters
from kinetree.model.population import Population
from kinetree.simulation import Simulator


class Library(Protocol):
    """An array library with automatic differentiation."""

    @property
    def arrays(self) -> Arrays:
        """What runs kernels."""

    def function(self, function: Differentiable) -> Callable[..., Any]:
        """The function of this library's arrays."""

    def array(self, name: str, given: Any) -> Any:
        """An argument as an array of real numbers."""

    def motion(self, sim: Simulator, step: Callable[..., Any]) -> Callable[..., Any]:
        """States and residuals of a simulator's steps, given its step: `f(q, v, tau)` or `f(q, v, tau, friction)`."""


class Tasks(NamedTuple):
    """Functions of tasks, as of `robot.tasks`.

    Attributes:
        jacobian: `f(q)`: the rows of all tasks, (…, r, nv).
        jacobian_dot_v: `f(q, v)`: J̇ v, (…, r).
        inverse_inertia: `f(q)`: Λ⁻¹ = J M⁻¹ Jᵀ, (…, r, r). Where it is regular, Λ is its inverse.
    """

    jacobian: Callable[..., Any]
    jacobian_dot_v: Callable[..., Any]
    inverse_inertia: Callable[..., Any]


class Bridge:
    """Kinetree's functions as differentiable functions of a library's arrays.

    Robots are a `Model`; `robot.population(…)`, whose axes broadcast with the batch axes of arguments; or, for dynamics
    and kinematics, `robot.parameters(…)`: then functions take a vector of parameters first, and no wrenches.
    """

    def __init__(self, library: Library) -> None:
        self._library, self._arrays = library, library.arrays

    # Dynamics

    def inverse_dynamics(self, robot: Robot) -> Callable[..., Any]:
        """`f(q, v, a, f_ext=None)`: joint forces, (…, nv), as `Model.inverse_dynamics`."""
        if isinstance(robot, Parameters):
            return self._of_state(robot, "inverse_dynamics")
        call = self._forced(robot, "inverse_dynamics")

        def inverse_dynamics(q: Any, v: Any, a: Any, f_ext: Mapping[str, Any] | None = None) -> Any:
            """Joint forces, (…, nv)."""
            return call(q, v, a, f_ext)

        return inverse_dynamics

    def forward_dynamics(self, robot: Robot) -> Callable[..., Any]:
        """`f(q, v, tau, f_ext=None)`: joint accelerations, (…, nv), as `Model.forward_dynamics`."""
        if isinstance(robot, Parameters):
            return self._of_state(robot, "forward_dynamics")
        call = self._forced(robot, "forward_dynamics")

        def forward_dynamics(q: Any, v: Any, tau: Any, f_ext: Mapping[str, Any] | None = None) -> Any:
            """Joint accelerations, (…, nv)."""
            return call(q, v, tau, f_ext)

        return forward_dynamics

    def _forced(self, robot: Robot, name: str) -> Callable[..., Any]:
        def make(frames: tuple[str, ...]) -> Callable[..., Any]:
            return self._library.function(Dynamics(robot, name, frames, self._arrays))

        plain = make(())  # raises here if the function does not exist for this robot
        made: dict[tuple[str, ...], Callable[..., Any]] = {(): plain}

        def call(q: Any, v: Any, x: Any, f_ext: Mapping[str, Any] | None) -> Any:
            if f_ext is None:
                return plain(q, v, x)
            frames = frames_of(name, f_ext)
            if frames not in made:
                made[frames] = make(frames)
            return made[frames](q, v, x, *(f_ext[frame] for frame in frames))

        return call

    def mass_matrix(self, robot: Robot) -> Callable[..., Any]:
        """`f(q)`: the joint-space inertia M, (…, nv, nv), as `Model.mass_matrix`."""
        return self._of_state(robot, "mass_matrix")

    def mass_matrix_solve(self, robot: Robot) -> Callable[..., Any]:
        """`f(q, x)`: M⁻¹ x, (…, nv), as `Model.mass_matrix_solve`."""
        return self._of_state(robot, "mass_matrix_solve")

    def mass_matrix_log_determinant(self, robot: Robot) -> Callable[..., Any]:
        """`f(q)`: ln det M, (…), as `Model.mass_matrix_log_determinant`."""
        return self._of_state(robot, "mass_matrix_log_determinant")

    def bias_forces(self, robot: Robot) -> Callable[..., Any]:
        """`f(q, v)`: Coriolis, centrifugal and gravity forces, (…, nv), as `Model.bias_forces`."""
        return self._of_state(robot, "bias_forces")

    def gravity_forces(self, robot: Robot) -> Callable[..., Any]:
        """`f(q)`: gravity forces, (…, nv), as `Model.gravity_forces`."""
        return self._of_state(robot, "gravity_forces")

    def energy(self, robot: Robot) -> Callable[..., Any]:
        """`f(q, v)`: kinetic and potential energy, (…) each, as `Model.energy`."""
        return self._of_state(robot, "energy")

    # Kinematics

    def pose(self, robot: Robot, frames: str | Sequence[str]) -> Callable[..., Any]:
        """`f(q)`: poses of frames in the world, (…, 4, 4) or (…, m, 4, 4), as `Model.pose`."""
        return self._of_state(robot, "pose", frames)

    def velocity(self, robot: Robot, frames: str | Sequence[str], reference: str = "local") -> Callable[..., Any]:
        """`f(q, v)`: twists [ω; v] of frames, (…, 6) or (…, m, 6), as `Model.velocity`."""
        return self._of_state(robot, "velocity", frames, reference)

    def acceleration(self, robot: Robot, frames: str | Sequence[str], reference: str = "local") -> Callable[..., Any]:
        """`f(q, v, a)`: spatial accelerations of frames, (…, 6) or (…, m, 6), as `Model.acceleration`."""
        return self._of_state(robot, "acceleration", frames, reference)

    def jacobian(self, robot: Robot, frames: str | Sequence[str], reference: str = "local") -> Callable[..., Any]:
        """`f(q)`: Jacobians of frames, (…, 6, nv) or (…, m, 6, nv), as `Model.jacobian`."""
        return self._of_state(robot, "jacobian", frames, reference)

    def center_of_mass(self, robot: Robot) -> Callable[..., Any]:
        """`f(q)`: the centre of mass in the world, (…, 3), as `Model.center_of_mass`."""
        return self._of_state(robot, "center_of_mass")

    def centroidal_momentum_matrix(self, robot: Robot) -> Callable[..., Any]:
        """`f(q)`: maps joint velocities to the momentum about the centre of mass, (…, 6, nv)."""
        return self._of_state(robot, "centroidal_momentum_matrix")

    def _of_state(self, robot: Robot, name: str, *choice: Any) -> Callable[..., Any]:
        if isinstance(robot, Parameters):
            return self._named(name, OfParameters(name, robot, choice, self._arrays))
        function = getattr(model_of(name, robot), name)
        return self._named(name, OfState(name, robot, function, choice, self._arrays))

    # Tasks

    def tasks(self, robot: Robot, frames: Iterable[Any], reference: str = "local") -> Tasks:
        """Jacobian, bias acceleration and Λ⁻¹ of tasks, as of `robot.tasks(frames, reference=…)`; always in float64."""
        if isinstance(robot, Parameters):
            raise UnsupportedError("tasks of parameters: use jacobian and mass_matrix_solve of them, Λ⁻¹ = J M⁻¹ Jᵀ")
        wide = model_of("tasks", robot).astype("float64")
        robot = robot.of(wide) if isinstance(robot, Population) else wide
        tasks: Any = wide.tasks(frames, reference=reference)
        jacobian, dot_v = (
            self._named(name, OfState(name, robot, function, (), self._arrays))
            for name, function in (("jacobian", tasks.jacobian), ("jacobian_dot_v", tasks.jacobian_dot_v))
        )
        return Tasks(jacobian, dot_v, self._named("inverse_inertia", InverseInertia(robot, tasks, self._arrays)))

    def inverse_inertia(
        self, robot: Robot, frames: str | Iterable[Any], reference: str = "local"
    ) -> Callable[..., Any]:
        """`f(q)`: Λ⁻¹ = J M⁻¹ Jᵀ of frames and tasks, (…, r, r), as `robot.tasks(frames).inverse_inertia`."""
        return self.tasks(robot, [frames] if isinstance(frames, str) else frames, reference).inverse_inertia

    # Steps

    def integrate(self, robot: Robot) -> Callable[..., Any]:
        """`f(q, v, dt=1.0)`: the configuration reached at constant velocity, (…, nq), as `Model.integrate`."""
        call = self._library.function(OnManifold(robot, "integrate", self._arrays))

        def integrate(q: Any, v: Any, dt: Any = 1.0) -> Any:
            """The configuration reached, (…, nq)."""
            return call(q, self._times(self._library.array("integrate: v", v), dt))

        return integrate

    def difference(self, robot: Robot) -> Callable[..., Any]:
        """`f(q0, q1)`: the velocity that leads from q0 to q1 in one second, (…, nv), as `Model.difference`."""
        return self._named("difference", OnManifold(robot, "difference", self._arrays))

    def step(self, robot: Robot | Simulator) -> Callable[..., Any]:
        """`f(q, v, tau, dt, f_ext=None)`: q and v after a semi-implicit Euler step, as `Model.step`.

        Of a `Simulator`, `f(q, v, tau=None, f_ext=None, friction=None)`: q, v and the residual after its step, as
        `Simulator.step`; with other friction of the shapes of the ground, (…, shapes), where it is given.
        """
        if isinstance(robot, Simulator):
            return self._simulated(robot)
        accelerations, moved = self.forward_dynamics(robot), self.integrate(robot)
        if isinstance(robot, Parameters):

            def step_of(p: Any, q: Any, v: Any, tau: Any, dt: Any) -> tuple[Any, Any]:
                """Configuration, (…, nq), and joint velocities, (…, nv), after the step."""
                after = v + self._times(accelerations(p, q, v, tau), dt)
                return moved(q, after, dt), after

            return step_of

        def step(q: Any, v: Any, tau: Any, dt: Any, f_ext: Any = None) -> tuple[Any, Any]:
            """Configuration, (…, nq), and joint velocities, (…, nv), after the step."""
            after = v + self._times(accelerations(q, v, tau, f_ext), dt)
            return moved(q, after, dt), after

        return step

    def simulate(self, sim: Simulator) -> Callable[..., Any]:
        """`f(q, v, tau, friction=None)`: q, v and residuals of all states, (…, T + 1, …), as `Simulator.rollout`."""
        if not isinstance(sim, Simulator):
            raise InputError(f"simulate takes a Simulator, got {type(sim).__name__}")
        nv, call = sim.robot.nv, self._library.motion(sim, self._simulated(sim))

        def simulate(q: Any, v: Any, tau: Any, friction: Any = None) -> tuple[Any, Any, Any]:
            """States and residuals; tau is (…, T, nv), friction of the shapes of the ground (…, shapes)."""
            q, v, tau = (self._library.array(f"simulate: {n}", x) for n, x in (("q", q), ("v", v), ("tau", tau)))
            others = () if friction is None else (self._library.array("simulate: friction", friction),)
            if tau.ndim < 2 or tau.shape[-1] != nv:
                raise InputError(f"simulate: tau has shape {tuple(tau.shape)}; it takes (…, T, {nv})")
            q, v, residual = call(q, v, tau, *others)
            return q, v, residual

        return simulate

    def _simulated(self, sim: Simulator) -> Callable[..., Any]:
        arrays = self._arrays if sim._steps.is_compiled else NumPy()

        def make(frames: tuple[str, ...], frictions: bool = False) -> Callable[..., Any]:
            return self._library.function(SimulatedStep(sim, frames, arrays, frictions))

        made: dict[Any, Callable[..., Any]] = {((), False): make(())}

        def step(
            q: Any, v: Any, tau: Any = None, f_ext: Mapping[str, Any] | None = None, friction: Any = None
        ) -> tuple[Any, Any, Any]:
            """Configuration, (…, nq), joint velocities, (…, nv), and residual, (…), after the step."""
            key = frames_of("step", f_ext), friction is not None
            if key not in made:
                made[key] = make(*key)
            tau = 0.0 * v if tau is None else tau
            others = [(f_ext or {})[frame] for frame in key[0]] + ([] if friction is None else [friction])
            q, v, residual = made[key](q, v, tau, *others)
            return q, v, residual

        return step

    def _times(self, v: Any, dt: Any) -> Any:
        """Vectors times a duration, or one for each."""
        if isinstance(dt, (int, float)):
            return v * float(dt)  # which keeps the type of v
        return v * self._library.array("dt", dt)[..., None]

    def _named(self, name: str, function: Differentiable) -> Callable[..., Any]:
        """A function of arrays in the order of its arguments, or by their names."""
        call = self._library.function(function)

        def named(*given: Any, **others: Any) -> Any:
            return call(*function.in_order(given, others))

        named.__name__ = named.__qualname__ = name
        named.__doc__ = f"`{name}` of {', '.join(function.names)}, with leading batch axes."
        return named
