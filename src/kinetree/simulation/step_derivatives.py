"""Derivatives of steps with contacts, dry friction and stops as texts: matrices, along directions, gradients.

A step solves, at q′ = q or, in the middle, at q ⊕ ½dt v, with a = (v⁺ − v)/dt and impulses λ on rows J,

    F = ID(q′, v_m, a) − Jᵀλ/dt − push(q, v, τ) = 0        q⁺ = q′ ⊕ (dt or ½dt) v⁺                     (1)

and the laws of contact (`kinetree.kernels.contact_response`), whose answer to changes of velocities and places of the
rows is one small matrix each, C and C_ξ. Wrenches λ/dt that are constant in the axes of their bodies are those of
linearised dynamics, so that

    δv_f = δv + dt δa(q′, v_m, push) at given impulses
    y = −(C (J δv_f + Ψ δq′) + C_ξ J δq′ + …)        δv⁺ = δv_f + M⁻¹Jᵀy
    transposed    u = J M⁻¹v̄,   z = −Cᵀu,   g = −C_ξᵀu,   M x = v̄ + Jᵀz,
                  q̄′ = Ψᵀz + Jᵀg − dt F_qᵀx,   v̄_m = −dt F_vᵀx,   push̄ = dt x,   θ̄ = −dt Yᵀx                    (2)

in O(n) but for the rows. Matrices have (2) column by column (`kinetree.kernels.step_changes`). Nothing here knows what
touches what: contacts of another kind only need their own response.

Velocities of free bodies are turned before impulses, and back after them (`kinetree.kernels.turning_bodies`). Such
bodies carry nothing, and respond to a wrench in their own axes alike at all configurations. So the δv_f of (2), at
given impulses, is turned before y is added to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from kinetree.algorithms.derivatives.contact_steps import (
    ahead_change,
    ahead_gradient,
    springs_change,
    springs_gradient,
    step_matrices,
    twists_gradient,
)
from kinetree.algorithms.derivatives.inverse_dynamics_derivatives import inverse_dynamics_derivatives
from kinetree.algorithms.derivatives.jvp import inverse_dynamics_jvp
from kinetree.algorithms.derivatives.vjp import inverse_dynamics_vjp
from kinetree.algorithms.dynamics.time_step import advance
from kinetree.algorithms.kinematics.frame_kinematics import JACOBIANS, VELOCITIES, VELOCITY_DERIVATIVES
from kinetree.algorithms.kinematics.manifold import ddifference
from kinetree.concurrency import ForkSafeLock
from kinetree.kernels.chained_products import row_scaled
from kinetree.kernels.constrained_solution import moving_columns, with_product, with_transposed_product
from kinetree.kernels.joint_rows import mean_acceleration
from kinetree.kernels.products import total
from kinetree.kernels.step_changes import (
    drifting_changes,
    frame_wrenches,
    impulse_changes,
    impulse_gradients,
    predicted_changes,
    step_gradients,
    still_sure,
    velocity_changes,
    with_lift,
)
from kinetree.kernels.turning_bodies import turned_change, turned_gradient, turned_rows
from kinetree.language.algorithm import Algorithm
from kinetree.language.common_frame import in_view
from kinetree.language.forward_mode import directional_derivative
from kinetree.language.mechanism import Site
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import compiled
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import KernelSequence, MemorySpan
from kinetree.runtime.texts import Recording, executed, recorded
from kinetree.simulation.contacts import Contacts, JointRows
from kinetree.simulation.discovery import DiscoveredContacts
from kinetree.simulation.stage_dynamics import FreeDynamics, HeldDynamics
from kinetree.simulation.step_results import ImpulseResponse
from kinetree.simulation.steps import Met, Stage, Steps, Trail
from kinetree.simulation.typed_response import typed_response

_AXES = "local_world_aligned"
#: What a step depends on, of each shape.
_SHAPES = ["friction", "height"]
#: Functions that are kept.
_KEPT = 64
_twists_change = directional_derivative(VELOCITIES[_AXES], "twists_change", "dq", {}, ("change",))


class _About(NamedTuple):
    """The step that is differentiated."""

    last: Stage  # the accelerations that count, at q′ and v_m, with impulses of joints
    first: Stage | None  # those that predict v_m
    after: Any  # q⁺, before a projection
    rate: Any  # v⁺, before it
    a: Any  # (v⁺ − v)/dt, without turns
    met: Met  # v_f, and velocities before and after impulses
    wrenches: list[Any]  # of contacts and of the user, in the axes of their frames; one array or none
    pushed: list[Any]  # of the user alone
    response: ImpulseResponse | None
    bodies: Any


class StepDerivatives:
    """Derivatives of the steps of a plant as functions of arrays."""

    def __init__(self, steps: Steps) -> None:
        self._steps, self._plant, self._robot = steps, steps.plant, steps.plant.robot
        contacts, held = steps.contacts, steps.constraints
        self._held = None if held is None else HeldDynamics(steps.plant, held, steps.project)
        self._free = FreeDynamics(steps.plant)
        self._of: FreeDynamics | HeldDynamics = self._held or self._free
        self._contacts = contacts if isinstance(contacts, Contacts) else None
        self._found = contacts if isinstance(contacts, DiscoveredContacts) else None
        self._joints = contacts if contacts is None or isinstance(contacts, JointRows) else contacts.joints
        self._lock = ForkSafeLock()
        self._made: dict[Any, Callable[..., Any]] = {}
        self.shapes = len(self._contacts.ground) if self._contacts else 0
        self._count = len(self._contacts.body_of) * self.shapes if self._contacts else 0
        if self._found is not None:
            self._count = self._found.most
        self._columns = self._joints.columns if self._joints else np.zeros(0, dtype=int)

    # Functions

    def function(
        self, name: str, sites: tuple[Site, ...] = (), masses: bool = False, frictions: bool = False
    ) -> Callable[..., Any]:
        """One of "vjp", "jvp" and "matrices" as a function of arrays.

        Args:
            name: Which one.
            sites: Frames with wrenches.
            masses: Whether inertial parameters change, or their gradients are wanted.
            frictions: As of `Steps.function`.
        """
        key = name, sites, masses, frictions
        made = self._made.get(key)
        if made is not None:
            return made
        with self._lock:
            if key not in self._made:
                self._made[key] = self._function(*key)
            return self._made[key]

    def _function(self, name: str, sites: tuple[Site, ...], masses: bool, frictions: bool) -> Callable[..., Any]:
        inputs, outputs = self._operands(name, sites, masses)
        if frictions:
            inputs.insert(len(inputs) - len(self._constants), self._steps.friction_operand)

        def text(run: Any, *given: Any) -> Sequence[Any]:
            named = {operand.name: x for operand, x in zip(inputs, given, strict=True)}
            found = getattr(self, f"_{name}")(run, sites, masses, named)
            return [found[operand.name] for operand in outputs]

        if not self._steps.is_compiled:
            return executed(inputs, text, "native")
        return recorded(f"step.{name}", inputs, outputs, text)

    def _operands(self, name: str, sites: tuple[Site, ...], masses: bool) -> tuple[list[Operand], list[Operand]]:
        """Inputs and results of a function."""
        forces, shapes, parameters = ["wrench"] * bool(sites), _SHAPES * bool(self.shapes), ["parameters"] * masses
        more = [*shapes, *forces, *parameters]
        given, found = {
            "vjp": (["q_weights", "v_weights"], ["by_q", "by_v", "by_tau", *(f"by_{x}" for x in more), "report"]),
            "jvp": ([f"along_{x}" for x in ("q", "v", "tau", *more)], ["after_q", "after_v"]),
            "matrices": ([], ["A", "B", *["contacts"] * bool(self._count), "joints", "report", "solved"]),
        }[name]
        inputs = [self._operand(x, sites) for x in ["q", "v", "tau", *given, *forces]]
        return [*inputs, *self._constants], [self._operand(x, sites) for x in found]

    def _operand(self, name: str, sites: tuple[Site, ...] = (), steps: tuple[int, ...] = ()) -> Operand:
        n = self._robot.nv
        shapes: dict[str, tuple[int, ...]] = {
            "q": (self._robot.nq,), **dict.fromkeys(("A", "after"), (2 * n, 2 * n)), "B": (2 * n, n),
            "contacts": (self._count,), "report": (3,), "solved": (3,), "sure": (),
        }  # fmt: skip
        for what in ("by", "along"):
            shapes |= {f"{what}_{x}": (self.shapes,) for x in _SHAPES} | {f"{what}_wrench": (len(sites), 6)}
            shapes[f"{what}_parameters"] = (len(self._robot.inertial_parameters), 10)
        return Operand(name, (*steps, *({**shapes, "wrench": (len(sites), 6)}).get(name, (n,))))

    @property
    def _constants(self) -> list[Operand]:
        return self._plant.varied_operands

    def sums(self, masses: bool) -> list[Operand]:
        """What gradients through several steps add up."""
        return [self._operand(f"by_{x}") for x in [*_SHAPES * bool(self.shapes), *["parameters"] * masses]]

    def rollout(self, count: int, masses: bool) -> Compiled:
        """Gradients through several steps as one function, backwards; its steps are compiled.

        It takes the states before all steps, their joint forces, the weights of these states, gradients with respect to
        the state after them, and what is summed over steps, so far. It returns gradients with respect to the first
        state and to the joint forces of each step, these sums, and 1 if all modes are certain and derivatives unique.
        """
        key = "rollout", count, masses
        with self._lock:
            if key not in self._made:
                if len(self._made) >= _KEPT:
                    self._made.clear()
                self._made[key] = self._backwards(count, masses)
            return self._made[key]  # type: ignore[return-value]

    def _backwards(self, count: int, masses: bool) -> Compiled:
        n, added = self._robot.nv, self.sums(masses)
        sums = [operand.name for operand in added]
        series = [self._operand(x, (), (count,)) for x in ("q", "v", "tau", "q_weights", "v_weights")]
        inputs = [*series, Operand("q_after", (n,)), Operand("v_after", (n,)), *added, *self._constants]
        outputs = [self._operand("by_q"), self._operand("by_v"), self._operand("by_tau", (), (count,))]
        outputs += [self._operand(x) for x in (*sums, "sure")]
        sequence = KernelSequence("rollout.vjp", inputs, outputs)
        named = dict(zip((operand.name for operand in inputs), sequence.inputs, strict=True))
        results = dict(zip((operand.name for operand in outputs), sequence.outputs, strict=True))
        sequence.defaults.update({name: named[name] for name in self._plant.varied})
        kept = {"q_weights": sequence.variable(named["q_after"]), "v_weights": sequence.variable(named["v_after"])}
        sure = sequence.variable(sequence.constant(1.0))
        for name in sums:
            sequence.copy(named[name], results[name])
        with sequence.loop(count) as number:

            def back(place: MemorySpan) -> MemorySpan:
                size = place.size // count
                return place.part((count - 1) * size, size).at(number, size, -size)

            run = Recording(sequence)
            here = {operand.name: back(named[operand.name]) for operand in series}
            found = self._vjp(run, (), masses, {**here, **kept})
            for name, by in (("q_weights", "by_q"), ("v_weights", "by_v")):
                sequence.copy(self._sum(run, found[by], here[name]), kept[name])
            sequence.copy(found["by_tau"], back(results["by_tau"]))
            for name in sums:
                place = results[name]
                sequence.copy(run(compiled(total, n=place.size), place, found[name]), place)
            sequence.copy(run(compiled(still_sure), found["report"], sure), sure)
        for name, place in (("by_q", kept["q_weights"]), ("by_v", kept["v_weights"]), ("sure", sure)):
            sequence.copy(place, results[name])
        return sequence.finish()

    # The step

    def _about(self, run: Any, sites: tuple[Site, ...], given: dict[str, Any]) -> tuple[_About, dict[str, Any]]:
        """The step, and its results."""
        plant, trail = self._plant, Trail()
        pushed = [given["wrench"]] if sites else []
        near = self._held is not None
        found = self._steps.text(run, sites, near, True, given["q"], given["v"], given["tau"], pushed, 0.0, trail)
        first, last = (None, trail.stages[0]) if len(trail.stages) == 1 else trail.stages
        touched, wrenches, push, response = trail.touched, pushed, last.push, None
        if touched is not None:
            response = touched.response or typed_response(run, plant, cast(Any, self._steps.contacts), last.q, trail)
            if touched.joint_impulses is not None:
                push = self._own(run, advance, push, touched.joint_impulses, 1.0 / plant.dt)
            if touched.problem is not None and touched.problem.wrench is not None:
                count = len(self._contact_sites)
                each = run.taken(touched.problem.wrench, np.arange(6 * count).reshape(-1, 6))
                mean = run(compiled(frame_wrenches, m=count), touched.problem.place, each, plant.dt)
                wrenches = [run.joined(mean, *pushed)]
        last, met = last._replace(push=push), trail.met or Met(trail.rate, trail.rate, trail.rate)
        a = found["acceleration"]
        if self._steps.turning:
            start = self._own(run, advance, self._sum(run, given["v"], met.before), met.free, -1.0)
            a = run(compiled(mean_acceleration, n=self._robot.nv), start, met.after, plant.dt)
        return _About(last, first, trail.q, trail.rate, a, met, wrenches, pushed, response, trail.bodies), found

    @cached_property
    def _contact_sites(self) -> tuple[Site, ...]:
        if self._found is not None:
            return self._found.sites
        return tuple(self._robot.site(frame) for frame in self._contacts.frames) if self._contacts else ()

    def _own(self, run: Any, algorithm: Algorithm, *inputs: Any) -> Any:
        return run(self._plant.recursion(algorithm), *inputs)

    def _solved(self, run: Any, of: _About, tau: Any, wrench: Any) -> Any:
        """M⁻¹ (τ + Jᵀw), or what takes its place under constraints."""
        if self._held is None:
            return self._free.solved(run, of.bodies, of.last.q, tau, wrench)
        pressed = self._pressed(run, of.last.q, wrench) if self._of_bodies else None
        return self._held.solved(run, of.last.q, self._sum(run, tau, pressed))

    def _pressed(self, run: Any, q: Any, wrench: Any) -> Any:
        """Jᵀw of wrenches on bodies, in world axes."""
        nothing = np.zeros(self._robot.nv), np.zeros((len(self._contact_sites), 6))
        return self._dynamics_free(run, twists_gradient, q, *nothing, wrench)

    def _drifted(self, run: Any, of: _About, dq: Any) -> Any:
        """The change of velocities with that of wrenches at given impulses: M⁻¹Jᵀ Y J δq."""
        m, drift = self._of_bodies, cast(ImpulseResponse, of.response).drift
        along = run.taken(of.bodies.twists(of.last.q, dq), np.arange(m))
        change = run.taken(
            run(compiled(with_product, c=m, n=m), drift, along, np.zeros(m), 1.0), np.arange(m).reshape(-1, 6)
        )
        return self._solved(run, of, np.zeros(self._robot.nv), change)

    def _moved(self, run: Any, of: _About, x: Any) -> Any:
        """J x of all rows."""
        parts = [] if of.bodies is None else [run.taken(of.bodies.twists(of.last.q, x), np.arange(self._of_bodies))]
        return run.joined(*parts, *([run.taken(x, self._columns)] if len(self._columns) else []))

    @property
    def _projects(self) -> HeldDynamics | None:
        """Constraints onto which the end of a step is projected."""
        return self._held if self._held is not None and self._held.projects else None

    @property
    def _origin(self) -> Any:
        """Where places of joints are counted from."""
        return cast(JointRows, self._joints).origin

    @property
    def _of_bodies(self) -> int:
        return 6 * len(self._contact_sites)

    @property
    def _sizes(self) -> dict[str, int]:
        return {
            "c": self._of_bodies + len(self._columns), "b": self._of_bodies, "g": self.shapes,
        }  # fmt: skip

    def _split(self, run: Any, rows: Any) -> tuple[Any, Any]:
        """Values of rows of bodies, (m, 6), and of joints, (nv,); None where there are none."""
        count, several = self._of_bodies, len(self._columns)
        bodies = run.taken(rows, np.arange(count).reshape(-1, 6)) if count else None
        joints = (
            run.placed(run.taken(rows, count + np.arange(several)), self._columns, (self._robot.nv,))
            if several
            else None
        )
        return bodies, joints

    def _sum(self, run: Any, *parts: Any) -> Any:
        some = [x for x in parts if x is not None]
        found = some[0]
        for x in some[1:]:
            found = run(compiled(total, n=self._robot.nv), found, x)
        return found

    @property
    def _ends(self) -> tuple[float, float]:
        """How far ahead a step is computed, and what is left of it then [s]."""
        dt = self._plant.dt
        return (0.0, dt) if self._plant.method == "semi_implicit_euler" else (0.5 * dt, 0.5 * dt)

    # Gradients

    def _vjp(self, run: Any, sites: tuple[Site, ...], masses: bool, given: dict[str, Any]) -> dict[str, Any]:
        of, _ = self._about(run, sites, given)
        plant, n, dt, (ahead, left) = self._plant, self._robot.nv, self._plant.dt, self._ends
        found: dict[str, Any] = {"report": np.array([np.inf, 1.0, 1.0])}
        q_weights, v_weights = given["q_weights"], given["v_weights"]
        if self._projects is not None:
            q_weights, v_weights, _ = self._projects.projected(run, "vjp", of.after, of.rate, q_weights, v_weights)
        q_bar, v_bar = self._own(run, ahead_gradient, of.rate, left, q_weights)
        v_bar = self._back(run, of.met.after, -0.5, self._sum(run, v_bar, v_weights))
        here, turned = of.last.q, np.zeros(n)
        none = np.zeros((max(len(self._contact_sites), 1), 6))
        x = self._solved(run, of, v_bar, none)
        if of.response is not None:
            u = self._moved(run, of, x)
            z, g, found["by_friction"], found["by_height"] = run(
                compiled(impulse_gradients, **self._sizes), *of.response.matrices, u
            )
            (wrench, stops), found["report"] = self._split(run, z), of.response.report
            v_bar = self._sum(run, v_bar, stops)
            if self._held is None and not self._steps.turning:
                x = self._solved(run, of, v_bar, none if wrench is None else wrench)
            elif wrench is not None:
                v_bar = self._sum(run, v_bar, self._pressed(run, here, wrench))
            if wrench is not None:
                if of.response.drift is not None:
                    m = self._of_bodies
                    if self._held is not None or self._steps.turning:
                        x = self._solved(run, of, v_bar, none)
                    moved = run.taken(of.bodies.twists(here, x), np.arange(m))
                    g = run(compiled(with_transposed_product, c=m, n=m), of.response.drift, moved, g, 1.0)
                along = run.taken(g, np.arange(self._of_bodies).reshape(-1, 6))
                turned = self._dynamics_free(run, twists_gradient, here, of.met.after, wrench, along)
            if stops is not None:
                turned = self._sum(run, turned, self._stopped(run, of, of.response.stopping, stops))
        impact = of.last._replace(a=of.a)
        heavy, before = [], impact
        if self._steps.turning:
            if masses:  # of M⁻¹Jᵀλ, which is not turned
                x, before = self._solved(run, of, v_bar, none), of.last
                heavy = [self._free.by_masses(run, a, x, scale) for a, scale in ((impact, -dt), (before, dt))]
            v_bar = self._back(run, of.met.free, 0.5, v_bar)
            x = self._solved(run, of, v_bar, none)
        all_sites = (*self._contact_sites, *sites)
        if self._held is None:
            at = here, of.last.v, of.a, x, *of.wrenches
            by_q, by_v, by_a = self._free.run(run, inverse_dynamics_vjp, all_sites, *at)
            q_bar, v_bar, speed, push = run(compiled(step_gradients, n=n), q_bar, turned, by_q, by_v, by_a, x, dt)
        else:
            weight = self._own(run, advance, np.zeros(n), v_bar, dt)
            by_q, speed, push = self._held.gradient(run, all_sites, of.last, of.wrenches, weight)
            q_bar = self._sum(run, q_bar, turned, by_q)
        v_bar = self._sum(run, v_bar, speed)
        heavy += [self._free.by_masses(run, before, x, -dt)] if masses else []
        if of.first is not None:
            weight = self._own(run, advance, np.zeros(n), speed, 0.5 * dt)
            first = self._of.gradient(run, sites, of.first, of.pushed, weight)
            if masses:
                heavy.append(self._free.by_masses(run, of.first, first[2], -1.0))
            q_bar, v_bar, push = (self._sum(run, x, y) for x, y in zip((q_bar, v_bar, push), first, strict=True))
            q_bar, moved = self._own(run, ahead_gradient, given["v"], ahead, q_bar)
            v_bar = self._sum(run, v_bar, moved)
        if sites:
            found["by_wrench"] = run(plant.recursion(VELOCITIES["local"], sites), here, push)
        if plant.soft:
            springs = self._own(run, springs_gradient, given["q"], plant.damping, plant.stiffness, plant.rest, dt, push)
            q_bar, v_bar = self._sum(run, q_bar, springs[0]), self._sum(run, v_bar, springs[1])
        if plant.lift is not None:
            lifted, *_ = run(self._free.lifted(inverse_dynamics_vjp), given["q"], np.zeros(n), np.zeros(n), push)
            q_bar = self._sum(run, q_bar, lifted)
        if masses:
            found["by_parameters"] = heavy[0]
            for other in heavy[1:]:
                count = 10 * len(self._robot.bodies)
                found["by_parameters"] = run(compiled(total, n=count), found["by_parameters"], other)
        return {**found, "by_q": q_bar, "by_v": v_bar, "by_tau": push}

    def _back(self, run: Any, v: Any, steps: float, weights: Any) -> Any:
        """Gradients with respect to velocities v that are turned."""
        return self._steps.turned(run, turned_gradient, v, steps, weights)

    def _dynamics_free(self, run: Any, algorithm: Algorithm, *inputs: Any) -> Any:
        return run(self._plant.recursion(algorithm, self._contact_sites), *inputs)

    def _stopped(self, run: Any, of: _About, stiffness: Any, weights: Any) -> Any:
        """Gradients of the places of joints that are at their stops."""
        minus = self._own(run, advance, np.zeros(self._robot.nv), weights, -1.0)
        zero = np.zeros(self._robot.nv)
        by_q, _ = self._own(run, springs_gradient, of.last.q, zero, stiffness, self._origin, 0.0, minus)
        return by_q

    # Along a direction

    def _jvp(self, run: Any, sites: tuple[Site, ...], masses: bool, given: dict[str, Any]) -> dict[str, Any]:
        of, _ = self._about(run, sites, given)
        plant, n, dt, (ahead, left) = self._plant, self._robot.nv, self._plant.dt, self._ends
        here, dq, dv, push = of.last.q, given["along_q"], given["along_v"], given["along_tau"]
        zero = np.zeros(n)
        if plant.soft:
            springs = plant.damping, plant.stiffness, plant.rest, dt
            push = self._own(run, springs_change, given["q"], *springs, dq, dv, push)
        if plant.lift is not None:
            push = self._sum(
                run, push, run(self._free.lifted(inverse_dynamics_jvp), given["q"], zero, zero, dq, zero, zero)
            )
        if sites:
            each = run(plant.recursion(JACOBIANS["local"], sites), here)
            J = run.taken(each, np.arange(6 * len(sites) * n).reshape(-1, n))
            wrench = run.taken(given["along_wrench"], np.arange(6 * len(sites)))
            push = run(compiled(with_transposed_product, c=6 * len(sites), n=n), J, wrench, push, 1.0)
        speed, early = dv, push
        impact = of.last._replace(a=of.a)
        if masses:
            heavier = self._free.heavier(run, of.last if self._steps.turning else impact, given["along_parameters"])
            push = self._own(run, advance, push, heavier, -1.0)
        if of.first is not None:
            if masses:
                early = self._own(
                    run, advance, early, self._free.heavier(run, of.first, given["along_parameters"]), -1.0
                )
            dq = self._own(run, ahead_change, given["v"], ahead, dq, dv)
            change = self._of.change(run, sites, of.first, of.pushed, dq, dv, early)
            speed = self._own(run, advance, dv, change, 0.5 * dt)
        all_sites = (*self._contact_sites, *sites)
        change = self._of.change(run, all_sites, of.last, of.wrenches, dq, speed, push)
        after = self._own(run, advance, dv, change, dt)
        after = self._steps.turned(run, turned_change, of.met.free, 0.5, after)
        if masses and self._steps.turning:  # of M⁻¹Jᵀλ, which is not turned
            more = self._own(run, advance, heavier, self._free.heavier(run, impact, given["along_parameters"]), -1.0)
            none = np.zeros((max(len(self._contact_sites), 1), 6))
            after = self._own(run, advance, after, self._solved(run, of, more, none), dt)
        if of.response is not None and of.response.drift is not None:
            after = self._sum(run, after, self._drifted(run, of, dq))
        if of.response is not None:
            turned, along = [], np.zeros(0)
            if of.bodies is not None:
                numbers = np.arange(self._of_bodies)
                turned = [run.taken(self._dynamics_free(run, _twists_change, here, of.met.after, dq), numbers)]
                along = run.taken(of.bodies.twists(here, dq), numbers)
            if len(self._columns):
                places = zero, of.response.stopping, self._origin, 0.0
                minus = self._own(run, springs_change, here, *places, dq, zero, zero)
                turned += [run.taken(self._own(run, advance, zero, minus, -1.0), self._columns)]
            shapes = [given.get(f"along_{name}", np.zeros(0)) for name in ("friction", "height")]
            rows = self._moved(run, of, after), run.joined(*turned), along, *shapes
            wrench, stops = self._split(
                run, run(compiled(impulse_changes, **self._sizes), *of.response.matrices, *rows)
            )
            pushed = self._solved(
                run, of, zero if stops is None else stops, np.zeros((1, 6)) if wrench is None else wrench
            )
            after = self._sum(run, after, pushed)
        after = self._steps.turned(run, turned_change, of.met.after, -0.5, after)
        moved = self._own(run, ahead_change, of.rate, left, dq, after)
        if self._projects is not None:
            moved, after = self._projects.projected(run, "jvp", of.after, of.rate, moved, after, zero)
        return {"after_q": moved, "after_v": after}

    # Matrices

    def _matrices(self, run: Any, sites: tuple[Site, ...], _: bool, given: dict[str, Any]) -> dict[str, Any]:
        of, step = self._about(run, sites, given)
        plant, n, dt, (ahead, left) = self._plant, self._robot.nv, self._plant.dt, self._ends
        all_sites = (*self._contact_sites, *sites)
        sizes = {"c": self._of_bodies + len(self._columns), "b": self._of_bodies}
        bodies = [(i, i) for i in range(self._of_bodies)]
        changed = run.prepared(compiled(velocity_changes, n=n, **sizes, bodies=bodies, **self._moving))
        names: Sequence[Any] = ("a_q", "a_v", "a_tau")
        turning, last = bool(self._steps.turning), (of.last, of.wrenches)
        own = [None] * 3 if turning else names
        if of.first is None:
            a_q, a_v, Minv = self._of.matrices(run, all_sites, *last, changed, names)
            a_tau = Minv
        else:
            predicted = run.prepared(compiled(predicted_changes, n=n))
            after = self._of.matrices(run, all_sites, *last, predicted, names)
            before = self._of.matrices(run, sites, of.first, of.pushed, predicted, ("f_q", "f_v", "f_tau"))
            Minv, (a_q, a_v, a_tau) = after[2], run.feeding(changed, own, predicted, *after, *before, 0.5 * dt)
        if turning:
            a_q, a_v, a_tau = self._turned_rows(run, of.met.free, 0.5, 1.0 / dt, a_q, a_v, a_tau)
        J, Psi, matrices = self._rows(run, of)
        if of.response is not None and of.response.drift is not None:
            drifting = compiled(drifting_changes, n=n, b=self._of_bodies)
            a_q = run(drifting, run.taken(J, np.arange(self._of_bodies * n)), of.response.drift, Minv, a_q, dt)
        ends = run.prepared(plant.recursion(step_matrices(of.first is not None, plant.soft)))
        given_J = J, Psi, *matrices, Minv, a_q, a_v, a_tau, dt
        blocks = run.feeding(ends, own if turning else ("by_q", "by_v", "by_tau"), changed, *given_J)
        if turning:
            blocks = self._turned_rows(run, of.met.after, -0.5, 0.0, *blocks)
        springs = plant.damping, plant.stiffness, plant.rest
        inputs = given["q"], given["v"], of.rate, ahead, left, *springs, dt, *blocks
        more = plant.lift is not None or self._projects is not None
        A, B = run(ends, *inputs) if more else run.concluding(0, ends, *inputs)
        if plant.lift is not None:
            lifted, *_ = run(self._free.lifted(inverse_dynamics_derivatives), given["q"], np.zeros(n), np.zeros(n))
            A = run(compiled(with_lift, n=n, m=2 * n, columns=[(i, i) for i in range(n)]), A, B, lifted)
        if self._projects is not None:
            A, B = self._projects.projected_matrices(run, of.after, of.rate, A, B)
        found = {"A": A, "B": B, "joints": np.zeros(n), "report": np.array([np.inf, 1.0, 1.0]), "solved": np.zeros(3)}
        if of.response is not None:
            modes, count = of.response.modes, 3 * self._count
            found |= {"report": of.response.report, "solved": step["report"]}
            if count:
                found["contacts"] = run.taken(modes, np.arange(0, count, 3))
            if len(self._columns):
                found["joints"] = run.placed(
                    run.taken(modes, count + np.arange(len(self._columns))), self._columns, (n,)
                )
        return found

    def _turned_rows(self, run: Any, v: Any, steps: float, *given: Any) -> Any:
        return self._steps.turned(run, turned_rows, v, steps, *given)

    def _rows(self, run: Any, of: _About) -> tuple[Any, Any, Sequence[Any]]:
        """J and Ψ of all rows, and C and C_ξ."""
        n, size, J, Psi = self._robot.nv, self._of_bodies, [], []
        if of.response is None:
            return np.zeros((0, n)), np.zeros((0, n)), (np.zeros((0, 0)), np.zeros((0, 0)))
        if size:
            numbers = np.arange(size * n).reshape(-1, n)
            J = [run.taken(self._seen(run, JACOBIANS[_AXES], of.last.q), numbers)]
            Psi = [run.taken(self._seen(run, VELOCITY_DERIVATIVES[_AXES], of.last.q, of.met.after), numbers)]
        if len(self._columns):
            J += [np.eye(n)[self._columns]]
            _, turned = self._own(run, ddifference, self._origin, of.last.q)
            places = run(compiled(row_scaled, n=n), np.zeros((n, n)), of.response.stopping, turned)
            Psi += [run.taken(places, n * self._columns[:, None] + np.arange(n))]
        return run.joined(*J), run.joined(*Psi), of.response.matrices[:2]

    def _seen(self, run: Any, algorithm: Algorithm, *inputs: Any) -> Any:
        return self._dynamics_free(run, in_view(algorithm, self._robot.mechanism, "common"), *inputs)

    @cached_property
    def _moving(self) -> dict[str, Any]:
        """The degrees of freedom that move rows."""
        mechanism = self._robot.mechanism.at(self._contact_sites)
        nodes = mechanism.topology.supporting(site.node for site in self._contact_sites)
        columns = {c for k in nodes for c in range(mechanism.v_starts[k], mechanism.v_starts[k + 1])}
        return moving_columns(columns | set(self._columns.tolist()), mechanism.nv)
