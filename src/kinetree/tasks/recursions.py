"""The recursions behind the functions of some tasks, the rank that they can have at best, and their reach.

The reach of a task row is its typical mobility, which gives small eigenvalues of Λ⁻¹ a scale to compare with. At a
singular configuration, a row of J and its diagonal entry in Λ⁻¹ may consist of rounding errors, which cannot be
recognised from that configuration alone. So tasks are also evaluated elsewhere: the reach of a row is the mean diagonal
entry of Λ⁻¹ over a few generic configurations, and over all three angular or all three linear components, whether or
not they are rows of the task.

Some tasks do not move at any configuration: the origin of a link relative to its parent, or the orientation of a robot
with prismatic joints only. There even this mean is a rounding error. So reach has a lower bound:

    a frame               if linear and angular mobility differ by more than 10⁶ link lengths per radian, the smaller is
                          replaced by the other, times or divided by a link length squared
    a relative task       10⁻⁸ of the reach of its two ends, whose difference it is
    the centre of mass    1/m of the robot, if its reach is less than 10⁻¹² of that

The result does not depend on the units of length and mass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from inspect import Parameter, Signature
from typing import Any

import numpy as np

from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.inverse_dynamics import bias_forces, inverse_dynamics
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix_product
from kinetree.algorithms.kinematics.frame_kinematics import VELOCITY_DERIVATIVES, poses
from kinetree.algorithms.methods import inertia, inverse_inertia, takes_any_node, task_dynamics
from kinetree.algorithms.methods.choice import view_of
from kinetree.algorithms.tasks.control_law import control_law, control_step, keeps_factors, task_residual
from kinetree.algorithms.tasks.differential_step import differential_step
from kinetree.algorithms.tasks.grasp_sharing import grasp_sharing
from kinetree.algorithms.tasks.response import response, task_jacobian
from kinetree.algorithms.tasks.row_derivatives import row_derivatives, turns_as_a_whole
from kinetree.algorithms.tasks.support_sharing import support_sharing
from kinetree.algorithms.tasks.task_motion import task_acceleration, task_drift, task_velocity
from kinetree.algorithms.tasks.task_space import TaskKinds
from kinetree.compiler.count import Count, count
from kinetree.compiler.formats import FLOAT64
from kinetree.compiler.specialize import Specialization, specialization
from kinetree.errors import UnsupportedError
from kinetree.kernels.language import Kernel
from kinetree.kernels.products import differential_program, projections, with_row_forces
from kinetree.language.algorithm import Algorithm
from kinetree.language.common_frame import in_view
from kinetree.language.mechanism import WORLD, Mechanism, Site
from kinetree.runtime.forward_derivatives import along_inputs
from kinetree.runtime.function import Function, KernelFunction, compiled
from kinetree.spatial.value import Array
from kinetree.tasks.task_types import METHODS, chosen

#: Independent rows of frames on one rigid body.
_RIGID = 6


def most_independent_rows(mechanism: Mechanism, sites: Sequence[Site]) -> int:
    """An upper bound of the rank of J at any configuration.

    Of the rows that a subtree carries, no more are independent than its joints have degrees of freedom, and of those of
    frames on one body no more than six. If the body that the subtree begins with can move in any way, six are added to
    those of the subtrees that it carries. The bound follows from tips to base.
    """
    if mechanism.first_general is not None or any(site.part != "frame" for site in sites):
        return mechanism.nv
    rows: dict[int, int] = {}
    for site in sites:
        rows[site.node] = rows.get(site.node, 0) + len(site.rows)
    rows.pop(WORLD, None)
    # of each node that carries rows: those of all its children's subtrees if it can move in any way, or not at all
    moving: dict[int, int] = {}
    still: dict[int, int] = {}
    for node in reversed(mechanism.topology.supporting(rows)):
        carried = still.get(node, 0)
        free = min(min(rows.get(node, 0), _RIGID) + moving.get(node, 0), _RIGID + carried)
        held = min(free, mechanism.kinds[node].nv + carried)
        parent = mechanism.parents[node]
        moving[parent] = moving.get(parent, 0) + free
        still[parent] = still.get(parent, 0) + held
    return still.get(WORLD, 0)


_IMMOBILE = 1e-12
_DIFFERENCE = 1e-8

_TURN, _MOVE = (0, 1, 2), (3, 4, 5)


def looked_at(sites: Sequence[Site]) -> tuple[Site, ...]:
    """The sites whose Λ⁻¹ determines reach: those of the tasks with all rows, and the ends of each relative task."""
    found: list[Site] = []
    for site in sites:
        found.append(replace(site, rows=_MOVE if site.part == "mass" else (*_TURN, *_MOVE)))
        if site.part == "far":
            found += [replace(end, part="frame") for end in found[-2:]]
    return tuple(found)


def reach(sites: Sequence[Site], inverse_inertias: Sequence[Array], size: float, mass: float) -> Array:
    """The reach of each row, (r,), given Λ⁻¹ of the sites from `looked_at` at generic configurations.

    `size` is the typical length of a link [m], zero if the robot has no extent, `mass` that of the robot [kg].
    """
    diagonals = [np.diagonal(one).tolist() for one in inverse_inertias]
    mean = [sum(entries) / len(diagonals) for entries in zip(*diagonals, strict=True)]
    reaches: list[float] = []
    square = size * size
    for site in sites:
        if site.part == "near":  # it shares its rows with the far end
            continue
        if site.part == "mass":
            move, mean = sum(mean[:3]) / 3.0, mean[3:]
            reaches += [move if move * mass > _IMMOBILE else 1.0 / mass] * len(site.rows)
            continue
        turn, move, mean = sum(mean[:3]) / 3.0, sum(mean[3:6]) / 3.0, mean[6:]
        if square > 0.0:
            if move <= _IMMOBILE * (turn * square):
                move = turn * square
            elif turn * square <= _IMMOBILE * move:
                turn = move / square
        if site.part == "far":
            ends_turn, ends_move = (sum(mean[i] + mean[i + 6] for i in kind) / 3.0 for kind in (_TURN, _MOVE))
            mean = mean[12:]
            turn = max(turn, _DIFFERENCE * ends_turn)
            move = max(move, _DIFFERENCE * (ends_move + square * ends_turn))
        reaches += [move if row in _MOVE else turn for row in site.rows]
    return np.array([r if math.isfinite(r) else 0.0 for r in reaches])


class TaskFunction(Function[..., Any]):
    """A function of arrays for the rows of fixed sites; `guard` raises if it is not defined for the mechanism."""

    def __init__(
        self,
        name: str,
        mechanism: Mechanism,
        algorithm: Algorithm,
        sites: tuple[Site, ...],
        guard: Callable[[Mechanism], None] | None = None,
    ) -> None:
        # the frames are fixed, so arrays that run over frames are arguments like any others
        arrays = [Parameter(a.name, Parameter.POSITIONAL_OR_KEYWORD) for a in algorithm.inputs]
        signature = Signature([*arrays, Parameter("out", Parameter.KEYWORD_ONLY, default=None)])
        super().__init__(name, mechanism, algorithm, guard=guard, signature=signature)
        self.sites = sites

    def _compute(self, inputs: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
        """Compute, with any valid arguments."""
        return self._run(self.sites, self.algorithm, self._arguments(inputs, named), out)

    def bound(self, *, constants: bool = False) -> Any:
        """As for `Function`, for the rows of the sites."""
        return self._bind_with(self.sites, self.algorithm, False, constants)

    def with_text(self, name: str, algorithm: Algorithm, **options: Any) -> TaskFunction:
        """Another function of the same rows."""
        return TaskFunction(name, self.mechanism, algorithm, self.sites, options["guard"])

    def compile(self) -> None:
        """Compile everything that later calls need."""
        self.bound().compile()

    def count(self) -> Count:
        """Operations of one evaluation."""
        return count(self.algorithm, self.mechanism, self.sites)

    def specialization(self) -> Specialization:
        """As of `Function`, for the rows of the sites."""
        return specialization(self.algorithm, self.mechanism, self.sites)

    def _is_default(self, algorithm: Algorithm, sites: tuple[Site, ...], single: bool) -> bool:
        return algorithm is self.algorithm and sites is self.sites and not single


Guard = Callable[[Mechanism], None]


@dataclass(frozen=True)
class TaskRobot:
    """The part of a robot that tasks need."""

    model: Any  # its method `tasks` restores pickled tasks
    mechanism: Mechanism
    site: Callable[[str], Site]  # of a frame's name
    invertible: Guard  # raises if the mass matrix has no inverse
    massive: Guard  # raises if there is no mass, so that there is no centre of mass
    configurations: Callable[[], Array]  # generic ones, (n, nq)
    size: Callable[[], float]  # a typical length of its links [m]
    mass: Callable[[], float]  # [kg]


class Recursions:
    """The recursions of some sites, with their rows and parts in tasks, each compiled on its first call.

    `groups` has a number for each row, shared by the rows of its task that have the same unit.
    """

    def __init__(
        self, robot: TaskRobot, sites: tuple[Site, ...], method: str, reference: str, engine: str = "native"
    ) -> None:
        self.robot, self.sites, self.reference = robot, sites, reference
        self.requested, self.engine = method, engine
        if robot.mechanism.first_general is not None and method != "auto" and not takes_any_node(method):
            raise UnsupportedError(
                f"method {method!r} is for trees of rigid bodies, and {robot.mechanism.first_general!r} is none; leave "
                'method="auto", or choose one of ' + ", ".join(filter(takes_any_node, METHODS))
            )
        self._parts = TaskKinds.of(sites)
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
    def velocity(self) -> TaskFunction:
        """J x of q and x, (…, r)."""
        return self._function("velocity", task_velocity(self.reference, self._parts))

    @cached_property
    def momentum(self) -> Function[..., Array]:
        """M x of q and x, (…, nv)."""
        return Function("momentum", self.robot.mechanism, mass_matrix_product).engine(self.engine)

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
        """a, f and spread: see `kinetree.algorithms.tasks.control_law`. Rows in world axes."""
        return self._function("control_law", control_law(self.method, self._parts), True, self._view)

    def control_step(self, error: str, moving: bool = False) -> TaskFunction:
        """The same with a posture, an error of `pose_error`, and a check of the targets. Rows in world axes.

        If moving, joint accelerations are a result, too, provided that the method `keeps_factors`.
        """
        moving = moving and keeps_factors(self.method)
        return self._function("control", control_step(self.method, self._parts, error, moving=moving), True, self._view)

    def differential_step(self, error: str) -> TaskFunction:
        """See `kinetree.algorithms.tasks.differential_step`. Rows in world axes."""
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
        return compiled(kernel, mechanism.scalar, n=mechanism.nv, r=self.rows).engine(self.engine)

    def residual_by(self, error: str) -> TaskFunction:
        """`residual` with an error of `pose_error`."""
        return self._function("control", task_residual(self._parts, error), view="common")

    @cached_property
    def residual(self) -> TaskFunction:
        """b − J̇v of q, v, targets, feed and gains: see `control_law`. Rows in world axes."""
        return self.residual_by("sine")

    @cached_property
    def poses(self) -> TaskFunction:
        """Poses of the frames, (…, m, 4, 4)."""
        return self._function("pose", poses)

    @cached_property
    def velocity_derivative(self) -> TaskFunction:
        """∂(J v)/∂q of the frames, (…, m, 6, nv)."""
        return self._function("linearize", VELOCITY_DERIVATIVES[self.reference], view="common")

    def row_derivatives(self, error: str) -> TaskFunction:
        """See `kinetree.algorithms.tasks.row_derivatives`. Rows in world axes."""
        text = row_derivatives(self._parts, error, turns_as_a_whole(self.sites))
        return self._function("linearize", text, view="common")

    def along(self, function: TaskFunction) -> TaskFunction:
        """The change of a function's results along changes of its inputs: see `along_inputs`."""
        text = along_inputs(function.algorithm)
        return TaskFunction("linearize", function.mechanism, text, function.sites).engine(self.engine)

    @cached_property
    def grasp_sharing(self) -> TaskFunction:
        """See `kinetree.algorithms.tasks.grasp_sharing`. Rows in world axes."""
        return self._function("load_sharing", grasp_sharing(self._parts))

    def support_sharing(self, based: bool) -> TaskFunction:
        """See `kinetree.algorithms.tasks.support_sharing`. Rows in world axes."""
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
    def _in_double(self) -> TaskRobot:
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
