"""The recursions behind the functions of tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from kinetree.algorithms.forward_dynamics import forward_dynamics
from kinetree.algorithms.inverse_dynamics import bias_forces, inverse_dynamics
from kinetree.algorithms.operational_space import inertia, inverse_inertia, takes_any_node, task_dynamics
from kinetree.algorithms.operational_space.choice import view_of
from kinetree.algorithms.operational_space.control_law import control_law, keeps_factors
from kinetree.algorithms.operational_space.control_step import control_step
from kinetree.algorithms.operational_space.differential_step import differential_step
from kinetree.algorithms.operational_space.drift import task_acceleration, task_drift
from kinetree.algorithms.operational_space.grasp_sharing import grasp_sharing
from kinetree.algorithms.operational_space.response import response, task_jacobian
from kinetree.algorithms.operational_space.support_sharing import support_sharing
from kinetree.algorithms.operational_space.task_residual import task_residual
from kinetree.algorithms.operational_space.task_space import Parts
from kinetree.engines.formats import FLOAT64
from kinetree.engines.function import Function
from kinetree.engines.kernel_function import KernelFunction, compiled
from kinetree.errors import UnsupportedError
from kinetree.kernels.language import Kernel
from kinetree.kernels.products import differential_program, projections, with_row_forces
from kinetree.operational_space.methods import METHODS, chosen
from kinetree.operational_space.reach import looked_at, reach
from kinetree.operational_space.task_function import TaskFunction
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.common_frame import in_view
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.spatial.value import Array

Guard = Callable[[Mechanism], None]


@dataclass(frozen=True)
class Robot:
    """The part of a robot that tasks need.

    Attributes:
        model: The model, whose method `tasks` restores pickled tasks.
        mechanism: Its nodes.
        site: Finds a frame by name.
        invertible: Raises if the mass matrix has no inverse.
        massive: Raises if there is no mass, so that there is no centre of mass.
        configurations: Returns generic configurations, (n, nq).
        size: Returns a typical length of its links [m].
        mass: Returns the total mass [kg].
    """

    model: Any
    mechanism: Mechanism
    site: Callable[[str], Site]
    invertible: Guard
    massive: Guard
    configurations: Callable[[], Array]
    size: Callable[[], float]
    mass: Callable[[], float]


class Recursions:
    """The recursions of some sites, each compiled on its first call.

    Args:
        robot: The robot.
        sites: The frames, with their rows and their parts in tasks.
        method: Name of the algorithm for Λ⁻¹, or "auto".
        reference: Reference point and axes of the motions of single frames.
        engine: Name of the engine.

    Attributes:
        requested: The method as given.
        groups: For each row, a number shared by the rows of its task that have the same unit, (r,).
        rows: Number of rows.
    """

    def __init__(
        self, robot: Robot, sites: tuple[Site, ...], method: str, reference: str, engine: str = "native"
    ) -> None:
        self.robot, self.sites, self.reference = robot, sites, reference
        self.requested, self.engine = method, engine
        if robot.mechanism.first_general is not None and method != "auto" and not takes_any_node(method):
            raise UnsupportedError(
                f"method {method!r} is for trees of rigid bodies, and {robot.mechanism.first_general!r} is none; leave "
                'method="auto", or choose one of ' + ", ".join(filter(takes_any_node, METHODS))
            )
        self._parts = Parts.of(sites)
        tasks = [site.rows for site in sites if site.part != "near"]
        self.groups = np.array([2 * i + (row >= 3) for i, rows in enumerate(tasks) for row in rows], dtype=int)
        self.rows = len(self.groups)

    @cached_property
    def method(self) -> str:
        """The name of the algorithm for Λ⁻¹."""
        return chosen(self.requested, self.robot.mechanism.at(self.sites), self.sites)

    @cached_property
    def _view(self) -> str:
        """The view for Λ⁻¹ and what starts from it."""
        return view_of(self.sites, self.method)

    @cached_property
    def inverse_inertia(self) -> TaskFunction:
        """Λ⁻¹ = J M⁻¹ Jᵀ of q, (…, r, r)."""
        return self.inverse_inertia_for("inverse_inertia")

    def inverse_inertia_for(self, name: str) -> TaskFunction:
        """The same under the name of the function that errors should mention."""
        return self._function(name, inverse_inertia(self.method, self.reference, self._parts), True, self._view)

    @cached_property
    def inertia(self) -> TaskFunction:
        """Λ of q and reach, (…, r, r), and its spread, (…)."""
        return self.inertia_for("inertia")

    def inertia_for(self, name: str) -> TaskFunction:
        """The same under the name of the function that errors should mention."""
        return self._function(name, inertia(self.method, self.reference, self._parts), True, self._view)

    @cached_property
    def dynamics(self) -> TaskFunction:
        """Λ of q and reach, its spread, J̄, (…, nv, r), and N, (…, nv, nv)."""
        return self._function("dynamics", task_dynamics(self.reference, self._parts), True, "common")

    @cached_property
    def jacobian(self) -> TaskFunction:
        """J of q, (…, r, nv)."""
        return self._function("jacobian", task_jacobian(self.reference, self._parts), view="common")

    @cached_property
    def response(self) -> TaskFunction:
        """M⁻¹Jᵀ of q, (…, nv, r)."""
        return self._function("response", response(self.reference, self._parts), True, view_of(self.sites))

    @cached_property
    def jacobian_dot_v(self) -> TaskFunction:
        """J̇v of q and v, (…, r)."""
        return self._function("jacobian_dot_v", task_drift(self.reference, self._parts), view=view_of(self.sites))

    @cached_property
    def projections(self) -> KernelFunction:
        """J̄, (…, nv, r), and N, (…, nv, nv), of M⁻¹Jᵀ, J and Λ."""
        return self.dense(projections)

    @cached_property
    def acceleration(self) -> TaskFunction:
        """J a + J̇v of q, v and a, (…, r); for `bias`."""
        return self._function("bias", task_acceleration(self.reference, self._parts), view=view_of(self.sites))

    @cached_property
    def forward_dynamics(self) -> Function[..., Array]:
        """M⁻¹(τ − C − g) of q, v and τ, (…, nv); for `bias`."""
        robot = self.robot
        return Function("bias", robot.mechanism, forward_dynamics, guard=robot.invertible).engine(self.engine)

    @cached_property
    def bias_forces(self) -> Function[..., Array]:
        """C + g of q and v, (…, nv)."""
        return Function("bias_forces", self.robot.mechanism, bias_forces).engine(self.engine)

    @cached_property
    def inverse_dynamics(self) -> Function[..., Array]:
        """M a + C + g of q, v and a, (…, nv)."""
        return Function("inverse_dynamics", self.robot.mechanism, inverse_dynamics).engine(self.engine)

    @cached_property
    def control_law(self) -> TaskFunction:
        """τ, f, residual and spread: see `kinetree.algorithms.operational_space.control_law`. Rows in world axes."""
        return self._function("control_law", control_law(self.method, self._parts), True, self._view)

    def control_step(self, error: str, moving: bool = False) -> TaskFunction:
        """The same with a posture, an error of `pose_error`, and a check of the targets. Rows in world axes.

        Args:
            error: The error between poses.
            moving: Whether joint accelerations are a result, too, if the method `keeps_factors`.
        """
        moving = moving and keeps_factors(self.method)
        return self._function("control", control_step(self.method, self._parts, error, moving=moving), True, self._view)

    def differential_step(self, error: str) -> TaskFunction:
        """See `kinetree.algorithms.operational_space.differential_step`. Rows in world axes."""
        return self._function("control", differential_step(self._parts, error), view="common")

    @cached_property
    def differential_program(self) -> KernelFunction:
        """See `kinetree.kernels.products`."""
        return self.dense(differential_program)

    @cached_property
    def with_row_forces(self) -> KernelFunction:
        """τ + Jᵀf of τ, J and f, (…, nv)."""
        return self.dense(with_row_forces)

    def dense(self, kernel: Kernel) -> KernelFunction:
        """A kernel over r rows of the tasks and n degrees of freedom."""
        mechanism = self.robot.mechanism
        rows = sum(len(site.rows) for site in self.sites if site.part != "near")
        return compiled(kernel, mechanism.scalar, n=mechanism.nv, r=rows).engine(self.engine)

    def residual_by(self, error: str) -> TaskFunction:
        """`residual` with an error of `pose_error`."""
        return self._function("control", task_residual(self._parts, error), view="common")

    @cached_property
    def residual(self) -> TaskFunction:
        """b − J̇v of q, v, targets, feed and gains: see `control_law`. Rows in world axes."""
        return self._function("control", task_residual(self._parts), view="common")

    @cached_property
    def grasp_sharing(self) -> TaskFunction:
        """See `kinetree.algorithms.operational_space.grasp_sharing`. Rows in world axes."""
        return self._function("load_sharing", grasp_sharing(self._parts))

    def support_sharing(self, based: bool) -> TaskFunction:
        """See `kinetree.algorithms.operational_space.support_sharing`. Rows in world axes."""
        return self._function("load_sharing", support_sharing(self._parts, based), view="common")

    @cached_property
    def reach(self) -> Array:
        """Typical mobility of each row at other configurations, (r,)."""
        # it adds up squares, so it has the smallest rounding errors in directions that cannot move
        shown = Recursions(self._in_double, looked_at(self.sites), "pv_osim", self.reference).inverse_inertia
        robot = self.robot
        found = reach(self.sites, [shown(q) for q in robot.configurations()], robot.size(), robot.mass())
        found.setflags(write=False)
        return found

    def inverse_inertia_at(self, q: Array) -> Array:
        """Λ⁻¹ at one configuration, (r, r), for choices that are made once."""
        found: Array = Recursions(self._in_double, self.sites, self.method, self.reference).inverse_inertia(q)
        return found

    @property
    def _in_double(self) -> Robot:
        """The robot in float64: what cannot move at all is told by its rounding errors."""
        return replace(self.robot, mechanism=self.robot.mechanism.computing_in(FLOAT64.name))

    def _function(self, name: str, algorithm: Algorithm, inverts: bool = False, view: str = "own") -> TaskFunction:
        robot, mechanism = self.robot, self.robot.mechanism.at(self.sites)
        guards = (robot.massive if self._parts.mass else None, robot.invertible if inverts else None)
        guard = partial(_require_all, tuple(guard for guard in guards if guard is not None))
        seen = in_view(algorithm, mechanism, view)
        return TaskFunction(name, mechanism, seen, self.sites, guard).engine(self.engine)


def _require_all(guards: tuple[Guard, ...], mechanism: Mechanism) -> None:
    for guard in guards:
        guard(mechanism)
