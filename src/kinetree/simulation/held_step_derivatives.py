"""Derivatives of steps with constraints: of the integrator's accelerations, and of both projections at the end.

    q₁, v₁    the integrator's step with accelerations under constraints
    q′        q₁ ⊕ x with x = −J̄ φ at q₁
    v′        N v₁ at q′

Both projections are constrained accelerations of the robot at rest, under joint forces that bear its weight and its
springs: M x − Jᵀy = 0, J x = −φ is that with kp = 1, and M (v′ − v₁) − Jᵀy = 0, J v′ = 0 that under M v₁ as well. So

    x = a(q₁, 0, b(q₁))        v′ = a(q′, 0, b(q′) + M(q′) v₁)        b + M v the inverse dynamics at rest      (1)

and a step is a sequence of accelerations, inverse dynamics and moves. `_step` has this sequence once for vectors. What
it runs on decides what comes out: `_Forward` carries changes along, `_Reverse` keeps what it needs to go back.
`_Matrices` forms the matrices of all parts, and multiplies them in the order that takes the fewest products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, cast

import numpy as np

from kinetree.algorithms.derivatives.contact_steps import parameters_change, parameters_gradient
from kinetree.algorithms.derivatives.inverse_dynamics_derivatives import inverse_dynamics_derivatives
from kinetree.algorithms.derivatives.jvp import inverse_dynamics_jvp
from kinetree.algorithms.derivatives.vjp import inverse_dynamics_vjp
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.algorithms.dynamics.time_step import advance
from kinetree.algorithms.kinematics.frame_kinematics import JACOBIANS
from kinetree.algorithms.kinematics.manifold import integrate
from kinetree.concurrency import ForkSafeLock
from kinetree.errors import InputError, UnsupportedError
from kinetree.kernels.chained_products import chained, row_scaled, scaled_total
from kinetree.kernels.constrained_solution import moving_columns, with_product, with_transposed_product
from kinetree.kernels.products import TILE, total
from kinetree.kernels.projected_steps import (
    first_speeds,
    from_the_start,
    places,
    projected,
    projection_derivatives,
    second_speeds,
)
from kinetree.kernels.solve import count_doubt
from kinetree.language.mechanism import Mechanism, Site
from kinetree.model.constraints import Constraints
from kinetree.model.held_derivatives import DerivativeText
from kinetree.model.integrators import IMPULSIVE
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import compiled
from kinetree.runtime.kernels import bind
from kinetree.runtime.operands import Operand
from kinetree.simulation.plant import Plant
from kinetree.spatial.value import Array

#: Inputs besides q, v, τ, and results besides `doubts`, of each function.
_SIGNATURES = {
    "matrices": ("", "A B"),
    "jvp": ("along_q along_v along_tau", "after_q after_v"),
    "vjp": ("q_weights v_weights", "by_q by_v by_tau"),
}


class HeldStepDerivatives:
    """Derivatives of steps of a plant under constraints, by one of the methods that support impulses.

    Args:
        plant: The robot, with its dampers and springs.
        held: The constraints of the plant's robot.
        project: Whether each step ends with a projection onto the constraints.
    """

    def __init__(self, plant: Plant, held: Constraints, project: bool) -> None:
        if plant.method not in IMPULSIVE:
            raise InputError(
                f"derivatives of steps need one of the methods {', '.join(IMPULSIVE)}; got {plant.method!r}"
            )
        self.plant, self.held, self._project = plant, held, project
        self._lock = ForkSafeLock()
        self._made: dict[tuple[str, tuple[Site, ...], bool, bool], Compiled] = {}

    def matrices(self, q: Any, v: Any, tau: Any, f_ext: Mapping[str, Any] | None) -> tuple[Array, Array]:
        """A, (…, 2 nv, 2 nv), and B, (…, 2 nv, nv)."""
        A, B = self._found("matrices", f_ext, q, v, tau)
        return A, B

    def jvp(
        self, q: Any, v: Any, tau: Any, dq: Any, dv: Any, dtau: Any, f_ext: Mapping[str, Any] | None,
        df_ext: Mapping[str, Any] | None, parameters: Any = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Changes of q and v after the step."""
        if df_ext:
            f_ext = {**{frame: np.zeros(6) for frame in df_ext}, **(f_ext or {})}
        sites, _ = self._wrenches(f_ext)
        frames = [(df_ext or {}).get(frame, np.zeros(6)) for frame in (f_ext or {})]
        along = np.stack(np.broadcast_arrays(*frames), axis=-2) if sites else None
        more = [] if parameters is None else [parameters]
        given = q, v, tau, dq, dv, dtau, *more, *([along] if sites else [])
        after_q, after_v = self._found("jvp", f_ext, *given, masses=parameters is not None)
        return after_q, after_v

    def vjp(
        self, q: Any, v: Any, tau: Any, q_weights: Any, v_weights: Any, f_ext: Mapping[str, Any] | None,
        masses: bool = False,
    ) -> tuple[Array, Array, Array, dict[str, Array], Array | None]:  # fmt: skip
        """Gradients with respect to q, v, τ, wrenches by frame and, if they are wanted, inertial parameters."""
        by_q, by_v, by_tau, *more = self._found("vjp", f_ext, q, v, tau, q_weights, v_weights, masses=masses)
        heavy = more.pop(0) if masses else None
        return by_q, by_v, by_tau, {frame: more[0][..., i, :] for i, frame in enumerate(f_ext or {})}, heavy

    def rollout_vjp(
        self, path: Callable[..., Any], q: Array, v: Array, taus: Array, q_weights: Array, v_weights: Array,
        length: int, masses: bool,
    ) -> tuple[Array, Array, Array, dict[str, Array], Array | None]:  # fmt: skip
        """Gradients of a motion in reverse mode, as of `vjp`; `path` rolls out.

        Args:
            path: The simulator's rollout.
            q: Initial configurations, (…, nq).
            v: Initial velocities, (…, nv).
            taus: Joint forces, (…, T, nv).
            q_weights: Weights of tangents of q, (…, T + 1, nv).
            v_weights: Weights of v, (…, T + 1, nv).
            length: Steps between states that are kept.
            masses: Whether gradients with respect to inertial parameters are wanted.
        """
        starts, kept = range(0, taus.shape[-2], length), [(q, v)]
        for start in starts[:-1]:
            part = path(*kept[-1], taus[..., start : start + length, :])
            kept.append((part.q[..., -1, :].copy(), part.v[..., -1, :].copy()))
        q_bar, v_bar, by_tau = q_weights[..., -1, :], v_weights[..., -1, :], np.zeros(taus.shape)
        heavy: Any = 0.0 if masses else None
        for start, state in zip(reversed(starts), reversed(kept), strict=True):
            part = taus[..., start : start + length, :]
            motion = path(*state, part)
            for i in reversed(range(part.shape[-2])):
                at_q, at_v, tau = (np.ascontiguousarray(x[..., i, :]) for x in (motion.q, motion.v, part))
                q_bar, v_bar, by_tau[..., start + i, :], _, more = self.vjp(at_q, at_v, tau, q_bar, v_bar, None, masses)
                q_bar, v_bar = q_bar + q_weights[..., start + i, :], v_bar + v_weights[..., start + i, :]
                heavy = heavy + more if masses else None
        return q_bar, v_bar, by_tau, {}, heavy

    # Functions

    def _wrenches(self, f_ext: Mapping[str, Any] | None) -> tuple[tuple[Site, ...], tuple[Array, ...]]:
        found: tuple[tuple[Site, ...], tuple[Array, ...]]
        found = self.plant.robot.forward_dynamics._wrenches(f_ext) if f_ext else ((), ())
        return found

    def _found(self, name: str, f_ext: Mapping[str, Any] | None, *given: Any, masses: bool = False) -> list[Array]:
        if masses and self.plant.lift is not None:
            raise UnsupportedError(
                "steps with gravity compensation, which depends on masses, have no derivatives with respect to "
                "inertial parameters under constraints; leave it out"
            )
        sites, wrenches = self._wrenches(f_ext)
        return self.held._resolved(self._function, (name, sites, masses), *given, *wrenches)

    def _function(self, key: tuple[str, tuple[Site, ...], bool], near: bool) -> Compiled:
        (name, sites, masses), held = key, self.held
        known = self._made.get((*key, near))
        if known is not None:
            return known
        robot = self.plant.robot
        n, bodies = robot.nv, (len(robot.bodies), 10)
        shapes: dict[str, tuple[int, ...]] = {
            "q": (robot.nq,), "doubts": (), "A": (2 * n, 2 * n), "B": (2 * n, n), "by_parameters": bodies,
            "along_parameters": bodies, **dict.fromkeys(("along_wrenches", "wrenches", "by_wrenches"), (len(sites), 6)),
        }  # fmt: skip
        given, results = (one.split() for one in _SIGNATURES[name])
        if name == "jvp":
            given += ["along_parameters"] * masses + ["along_wrenches"] * bool(sites)
        if name == "vjp":
            results += ["by_parameters"] * masses + ["by_wrenches"] * bool(sites)
        names = ["q", "v", "tau", *given, *["wrenches"] * bool(sites)], [*results, "doubts"]
        inputs, outputs = ([Operand(x, shapes.get(x, (n,))) for x in each] for each in names)
        kind = _KINDS[name]

        def text(run: Any, q: Any, v: Any, tau: Any, *more: Any) -> Sequence[Any]:
            rest = list(more)
            pushed = rest.pop() if sites else None
            do: Any = kind(run, self.plant, held, near, sites, pushed, masses)
            if name == "matrices":
                return [*do.found(self._project, q, v, tau), do.doubts]
            found: Sequence[Any] = do.results(partial(self._step, do), (q, v, tau), rest)
            return [*found, do.doubts]

        with self._lock:
            made = held._recorded(inputs, outputs, text)
            return self._made.setdefault((*key, near), made)

    def _step(self, do: Any, q: Any, v: Any, tau: Any) -> tuple[Any, Any]:
        """A step."""
        dt, half = self.plant.dt, 0.5 * self.plant.dt
        push = do.pushed(q, v, tau)
        if self.plant.method == "semi_implicit_euler":
            there, rest = q, dt
            a = do.accelerated(there, v, push)
        else:
            there, rest = do.moved(q, v, half), half
            a = do.accelerated(there, do.advanced(v, do.accelerated(there, v, push), half), push)
        v = do.advanced(v, a, dt)
        q = do.moved(there, v, rest)
        return self._projected(do, q, v) if self._project else (q, v)

    def _projected(self, do: Any, q: Any, v: Any) -> tuple[Any, Any]:
        """Both projections, (1)."""
        q = do.moved(q, do.accelerated(q, None, do.borne(q), stiff=True), 1.0)
        return q, do.accelerated(q, None, do.borne(q, v))

    def of_projection(self, run: Any, name: str, q: Any, v: Any, given: Sequence[Any]) -> Sequence[Any]:
        """Results of "matrices", "jvp" or "vjp" of the projections alone, where rows may depend on each other."""
        do: Any = _KINDS[name](run, self.plant, self.held, True, (), None)
        found: Sequence[Any] = do.results(lambda q, v, _: self._projected(do, q, v), (q, v, do.still), given)
        return found


class _Variable:
    """A value with its change along the direction, its matrices, or the gradient with respect to it."""

    def __init__(self, value: Any, change: Any = None) -> None:
        self.value, self.change = value, change


class _Calculus:
    """What a step runs on: values. Derivatives are those of its kinds."""

    def __init__(
        self, run: Any, plant: Plant, held: Constraints, near: bool, sites: tuple[Site, ...], wrenches: Any,
        masses: bool = False,
    ) -> None:  # fmt: skip
        self.run, self.plant, self.held, self.near = run, plant, held, near
        self.n, self.still, self.doubts = plant.robot.nv, np.zeros(plant.robot.nv), 0.0
        self.sites, self.wrenches, self.masses = sites, wrenches, masses
        self.gains = np.tile([1.0, 0.0], (held.rows, 1))

    def own(self, algorithm: Any, *inputs: Any) -> Any:
        """A recursion that knows no masses."""
        return self.run(self.plant.recursion(algorithm), *inputs)

    def inertial(self, algorithm: Any, *inputs: Any) -> Any:
        """A recursion of the dynamics."""
        return self.run(self.held.of_masses(algorithm), *inputs)

    def lifted(self, algorithm: Any, q: Any, *inputs: Any) -> Any:
        """A recursion of what bears a part of the weight."""
        return self.run(bind(algorithm, cast(Mechanism, self.plant.borne), (), "step"), q.value, *inputs)

    def doubt(self, spread: Any) -> None:
        """Count a doubtful solution."""
        if not self.near:
            self.doubts = self.run(compiled(count_doubt), spread, self.doubts)

    def state(self, q: Any, v: Any, push: Any, stiff: bool) -> tuple[DerivativeText, Any]:
        """Accelerations of the robot, or at rest, where v is None; with what derivatives need."""
        at_rest = v is None
        text = DerivativeText(self.held, "step", () if at_rest else self.sites, stiff)
        pushed = None if at_rest else self.wrenches
        of, spread = text.state(
            self.run, self.near, q.value, self.still if at_rest else v.value, push.value, None,
            self.gains if stiff else None, pushed,
        )  # fmt: skip
        self.doubt(spread)
        return text, of

    def force(self, q: Any, v: Any, tau: Any) -> Any:
        """Joint forces with those of dampers and springs."""
        return self.plant.pushed(self.own, q.value, v.value, tau.value)

    @property
    def slow(self) -> Array:
        """Changes of joint forces per change of velocities, (nv,)."""
        found: Array = -(self.plant.damping + self.plant.dt * self.plant.stiffness)
        return found

    def times(self, A: Any, x: Any, y: Any, scale: float = 1.0, rows: int | None = None) -> Any:
        """y + scale A x."""
        return self.run(compiled(with_product, c=self.n if rows is None else rows, n=self.n), A, x, y, scale)

    def transposed(self, A: Any, x: Any, y: Any, rows: int | None = None) -> Any:
        """y + Aᵀx."""
        return self.run(compiled(with_transposed_product, c=self.n if rows is None else rows, n=self.n), A, x, y, 1.0)

    def added(self, x: Any, y: Any, scale: Any = 1.0) -> Any:
        """x + scale y, entry by entry."""
        if np.ndim(scale) == 0:
            return self.own(advance, x, y, float(scale))
        return self.run(compiled(scaled_total, n=self.n), x, y, scale)

    def turned(self, q: Any) -> Any:
        """Changes of the springs' lengths per change of q."""
        return self.run(self.plant.robot.ddifference, self.plant.rest, q.value)[1]

    def frames(self, q: Any) -> Any:
        """Jacobians of the frames with wrenches, (6 m, nv)."""
        return self.run(bind(JACOBIANS["local"], self.plant.robot.mechanism, self.sites, "step"), q.value)


class _Forward(_Calculus):
    """Carries changes along a direction."""

    def results(self, step: Callable[..., Any], state: Sequence[Any], given: Sequence[Any]) -> Sequence[Any]:
        """Changes after the step."""
        more = list(given[3:])
        self._heavier = more.pop(0) if self.masses else None
        self._along = more.pop(0) if self.sites else None
        q, v = step(*(_Variable(x, dx) for x, dx in zip(state, given, strict=False)))
        return [q.change, v.change]

    def pushed(self, q: Any, v: Any, tau: Any) -> _Variable:
        """Joint forces with those of dampers and springs."""
        plant, change = self.plant, tau.change
        if self.slow.any():
            change = self.added(change, v.change, self.slow)
        if plant.stiffness.any():
            change = self.added(change, self.times(self.turned(q), q.change, self.still), -plant.stiffness)
        if plant.lift is not None:
            still = self.still, self.still
            change = self.added(change, self.lifted(inverse_dynamics_jvp, q, *still, q.change, *still))
        return _Variable(self.force(q, v, tau), change)

    def moved(self, q: Any, v: Any, seconds: float) -> _Variable:
        """q ⊕ v seconds."""
        by_q, by_v = self.run(self.plant.robot.dintegrate, q.value, v.value, seconds)
        change = self.times(by_v, v.change, self.times(by_q, q.change, self.still))
        return _Variable(self.own(integrate, q.value, v.value, seconds), change)

    def advanced(self, v: Any, a: Any, seconds: float) -> _Variable:
        """v + a seconds."""
        return _Variable(*(self.own(advance, *pair, seconds) for pair in ((v.value, a.value), (v.change, a.change))))

    def borne(self, q: Any, v: Any = None) -> _Variable:
        """Joint forces that bear weight and springs at rest, and M v."""
        speed, faster = (self.still, self.still) if v is None else (v.value, v.change)
        change = self.inertial(inverse_dynamics_jvp, q.value, self.still, speed, q.change, self.still, faster)
        change = self._with_masses(change, q, self.still, speed, 1.0)
        return _Variable(self.inertial(inverse_dynamics, q.value, self.still, speed), change)

    def accelerated(self, q: Any, v: Any, push: Any, stiff: bool = False) -> _Variable:
        """Accelerations under constraints."""
        text, of = self.state(q, v, push, stiff)
        dv, dpush = self.still if v is None else v.change, push.change
        if v is not None and self.sites:
            dpush = self.transposed(self.frames(q), self._along, dpush, 6 * len(self.sites))
        dpush = self._with_masses(dpush, q, of.v, of.a, -1.0)
        a, _ = text.jvp(self.run, self.near, of, q.change, dv, dpush, self.held.nothing)
        return _Variable(of.a, a)

    def _with_masses(self, push: Any, q: Any, v: Any, a: Any, scale: float) -> Any:
        """Joint forces with the change of inverse dynamics by inertial parameters."""
        if not self.masses:
            return push
        numbers, recursion = self.plant.heavy(parameters_change)
        return self.added(push, self.run(recursion, q.value, v, a, self.run.taken(self._heavier, numbers)), scale)


class _Reverse(_Calculus):
    """Keeps how to go back from each result to what it was made of."""

    def results(self, step: Callable[..., Any], state: Sequence[Any], given: Sequence[Any]) -> Sequence[Any]:
        """Gradients before the step."""
        self._back: list[Callable[[], None]] = []
        self._wrench = np.zeros((len(self.sites), 6)) if self.sites else None
        self._heavy: Any = None
        start = [_Variable(x) for x in state]
        for end, weights in zip(step(*start), given, strict=True):
            self._add(end, weights)
        for back in reversed(self._back):
            back()
        found = [self.still if x.change is None else x.change for x in start]
        return [*found, *[self._heavy] * self.masses, *[self._wrench] * bool(self.sites)]

    def _add(self, x: _Variable | None, gradient: Any) -> None:
        if x is not None:
            x.change = gradient if x.change is None else self.run(compiled(total, n=self.n), x.change, gradient)

    def _add_masses(self, q: Any, v: Any, a: Any, x: Any, scale: float) -> None:
        """Gradients of scale xᵀτ with respect to inertial parameters."""
        if self.masses:
            numbers, recursion = self.plant.heavy(parameters_gradient)
            size = len(self.plant.robot.bodies), 10
            own = self.run.placed(self.run(recursion, q.value, v, a, x, scale), numbers, size)
            both = self._heavy, own
            self._heavy = own if self._heavy is None else self.run(compiled(total, n=size[0] * size[1]), *both)

    def pushed(self, q: Any, v: Any, tau: Any) -> _Variable:
        """See `_Forward`."""
        push, plant = _Variable(self.force(q, v, tau)), self.plant

        def back() -> None:
            self._add(tau, push.change)
            if self.slow.any():
                self._add(v, self.added(self.still, push.change, self.slow))
            if plant.stiffness.any():
                pulled = self.added(self.still, push.change, -plant.stiffness)
                self._add(q, self.transposed(self.turned(q), pulled, self.still))
            if plant.lift is not None:
                self._add(q, self.lifted(inverse_dynamics_vjp, q, self.still, self.still, push.change)[0])

        self._back.append(back)
        return push

    def moved(self, q: Any, v: Any, seconds: float) -> _Variable:
        """See `_Forward`."""
        end = _Variable(self.own(integrate, q.value, v.value, seconds))

        def back() -> None:
            by_q, by_v = self.run(self.plant.robot.dintegrate, q.value, v.value, seconds)
            self._add(q, self.transposed(by_q, end.change, self.still))
            self._add(v, self.transposed(by_v, end.change, self.still))

        self._back.append(back)
        return end

    def advanced(self, v: Any, a: Any, seconds: float) -> _Variable:
        """See `_Forward`."""
        end = _Variable(self.own(advance, v.value, a.value, seconds))

        def back() -> None:
            self._add(v, end.change)
            self._add(a, self.added(self.still, end.change, seconds))

        self._back.append(back)
        return end

    def borne(self, q: Any, v: Any = None) -> _Variable:
        """See `_Forward`."""
        speed = self.still if v is None else v.value
        push = _Variable(self.inertial(inverse_dynamics, q.value, self.still, speed))

        def back() -> None:
            by_q, _, by_v = self.inertial(inverse_dynamics_vjp, q.value, self.still, speed, push.change)
            self._add_masses(q, self.still, speed, push.change, 1.0)
            self._add(q, by_q)
            self._add(v, by_v)

        self._back.append(back)
        return push

    def accelerated(self, q: Any, v: Any, push: Any, stiff: bool = False) -> _Variable:
        """See `_Forward`."""
        text, of = self.state(q, v, push, stiff)
        a = _Variable(of.a)

        def back() -> None:
            by_q, by_v, by_push, _ = text.vjp(self.run, self.near, of, a.change, self.held.nothing)
            self._add_masses(q, of.v, of.a, by_push, -1.0)
            for x, gradient in ((q, by_q), (v, by_v), (push, by_push)):
                self._add(x, gradient)
            if v is not None and self.sites:
                self._wrench = self.times(self.frames(q), by_push, self._wrench, rows=6 * len(self.sites))

        self._back.append(back)
        return a


class _Matrices(_Calculus):
    """Matrices of each part, and products of them: see `kinetree.kernels.projected_steps`."""

    def found(self, project: bool, q: Any, v: Any, tau: Any) -> Sequence[Any]:
        """A and B."""
        run, n, plant, over = self.run, self.n, self.plant, partial(compiled, n=self.n, **self._joints)
        dt, half, euler = plant.dt, 0.5 * plant.dt, plant.method == "semi_implicit_euler"
        push, ones, zeros = plant.pushed(self.own, q, v, tau), np.eye(n), np.zeros((n, n))
        by_q = self._push_by_q(_Variable(q))
        there, by_start = q, (ones, zeros)
        if not euler:
            by_start, there = run(plant.robot.dintegrate, q, v, half), self.own(integrate, q, v, half)
        a, by_a, _ = self._linearized(there, v, push)
        if euler:
            speeds = run(compiled(first_speeds, n=n), *by_a, dt)
        else:
            a, by_next, _ = self._linearized(there, self.own(advance, v, a, half), push)
            speeds = run(compiled(second_speeds, n=n), *by_a, *by_next, half, dt)
        v, rest = self.own(advance, v, a, dt), dt if euler else half
        moves = run(plant.robot.dintegrate, there, v, rest)
        if project:
            found = self._projection(self.own(integrate, there, v, rest), v)
            blocks = run(over(projected), *moves, *found, *speeds, self._alone)
        else:
            blocks = [*run(over(places), *moves, *speeds, self._alone), *speeds]
        pushed = blocks[2], blocks[5]
        sprung = (zeros if by_q is None else run(compiled(chained, n=n), zeros, one, by_q, 1.0) for one in pushed)
        A = run(over(from_the_start), *blocks, *by_start, *sprung, self.slow, self._alone)
        return [A, list(pushed)]

    def results(self, _step: Any, state: Sequence[Any], _given: Sequence[Any]) -> Sequence[Any]:
        """Blocks of the projections alone."""
        q, v, _ = state
        (Q, H, N), zeros = self._projection(q, v), np.zeros((self.n, self.n))
        return Q, zeros, zeros, H, N, zeros

    def _projection(self, q: Any, v: Any) -> Sequence[Any]:
        """Derivatives of q′ with respect to q, and of v′ with respect to q and v."""
        run, still = self.run, self.still
        bias, _, _ = self.inertial(inverse_dynamics_derivatives, q, still, still)
        x, (x_q, _, x_push), _ = self._linearized(q, None, self.inertial(inverse_dynamics, q, still, still), True)
        turns, q = run(self.plant.robot.dintegrate, q, x, 1.0), self.own(integrate, q, x, 1.0)
        momentum, _, _ = self.inertial(inverse_dynamics_derivatives, q, still, v)
        _, (a_q, _, a_push), inverse = self._linearized(q, None, self.inertial(inverse_dynamics, q, still, v))
        J, _ = self.held._motion(run, q, None)
        function = compiled(projection_derivatives, n=self.n, c=self.held.rows, **self._joints)
        given = x_q, x_push, bias, *turns, a_q, a_push, momentum, inverse, J, self._alone
        found: Sequence[Any] = run(function, *given)
        return found

    def _push_by_q(self, q: _Variable) -> Any:
        """Derivatives of joint forces with respect to q, by springs and by what bears weight; None for zero."""
        n, stiff, found = self.n, self.plant.stiffness, None
        if self.plant.lift is not None:
            found = self.lifted(inverse_dynamics_derivatives, q, self.still, self.still)[0]
        if stiff.any():
            start = np.zeros((n, n)) if found is None else found
            found = self.run(compiled(row_scaled, n=n), start, -stiff, self.turned(q))
        return found

    def _linearized(self, q: Any, v: Any, push: Any, stiff: bool = False) -> tuple[Any, tuple[Any, Any, Any], Any]:
        """a, its derivatives with respect to q, v and joint forces, and J̄; at rest, where v is None."""
        at_rest, run = v is None, self.run
        function = self.held.derivative_function(("linearize", () if at_rest else self.sites, stiff), self.near)
        more = [self.gains] * stiff + ([] if at_rest or not self.sites else [self.wrenches])
        given = q, self.still if at_rest else v, push, self.held.nothing, *more
        by_q, by_v, by_push, inverse, *_, a, _, _, doubt = run(function, *given)
        if not self.near:
            self.doubts = run(compiled(total, n=1), self.doubts, doubt)
        return a, (by_q, by_v, by_push), inverse

    @cached_property
    def _joints(self) -> dict[str, Any]:
        """Columns of nodes with several degrees of freedom, as lists."""
        mechanism = self.plant.robot.mechanism
        spans = zip(mechanism.v_starts, mechanism.v_starts[1:], strict=False)
        return moving_columns((c for first, after in spans if after - first > 1 for c in range(first, after)), self.n)

    @property
    def _alone(self) -> Array:
        """1 for all other columns, (nv,)."""
        found = np.ones(self.n)
        for name, size in (("moving", TILE), ("rest", 1)):
            for (first,) in self._joints[name]:
                found[first : first + size] = 0.0
        return found


_KINDS: dict[str, Any] = {"matrices": _Matrices, "jvp": _Forward, "vjp": _Reverse}
