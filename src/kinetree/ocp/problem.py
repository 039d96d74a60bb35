"""Optimal control problems: a robot, a horizon, terms and limits; solved for one state and target, or for many."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import NoneType
from typing import Any

import numpy as np

from kinetree.compiler.count import Count
from kinetree.errors import InputError, UnknownNameError
from kinetree.model.loops.aggregation import first_rates
from kinetree.model.model import Model
from kinetree.ocp.contacts import Contacts, Phases
from kinetree.ocp.costs import Bounds, Row
from kinetree.ocp.dynamics import DenseDynamics
from kinetree.ocp.fused import TOGETHER
from kinetree.ocp.horizon import Horizon, Path
from kinetree.ocp.plan import Plan
from kinetree.ocp.solver import EARLY, Options, Solver, first_penalty
from kinetree.ocp.terms import BuiltIn, CostTerm, Part, Scope, curved_blocks, differences, texted
from kinetree.runtime import arguments, threads
from kinetree.runtime.compile_queue import optimized
from kinetree.spatial.value import Array

_METHODS = ("semi_implicit_euler", "midpoint", "rk4")
_ROLLOUTS = ("auto", "linear", "nonlinear")


@dataclass(frozen=True)
class Limits:
    """Which of the robot's limits hold at all nodes.

    Args:
        torque: Inputs within `robot.effort_limits`; or numbers, (nu,).
        position: Joints within `robot.lower_limits` and `upper_limits`, where their coordinates are numbers, those
            inside of loops included.
        velocity: Velocities within `robot.velocity_limits`; or numbers, (nv,).
        margin: Fraction of the range, or of the largest torque and velocity, that is left unused.
    """

    torque: Any = True
    position: bool = False
    velocity: Any = False
    margin: float = 0.0


class Problem:
    """Minimise Σ ½ w r² over states and inputs of a horizon, subject to the dynamics of a robot and to limits.

    Steps are `robot.step(q, v, tau, dt, method)`.

    Args:
        robot: The robot, in float64.
        dt: Time step [s], or one for each step, (T,).
        nodes: Number of steps T; there are T + 1 states and T inputs.
        terms: Terms of the cost.
        limits: Limits that hold at all nodes; none by default.
        contacts: Feet, and the steps at which they are held; none by default.
        actuated: Names of the joints with motors; by default all but floating ones and flexible bodies.
        method: "semi_implicit_euler", which is fastest; without contacts also "midpoint" or "rk4".

    Raises:
        InputError: Weights, limits or time steps that make no sense; the message names the term.
        UnknownNameError: Frames or joints that the robot does not have.
    """

    def __init__(
        self,
        robot: Model,
        dt: Any,
        nodes: int,
        terms: Sequence[CostTerm],
        *,
        limits: Limits | None = None,
        contacts: Contacts | None = None,
        actuated: Sequence[str] | None = None,
        method: str = "semi_implicit_euler",
    ) -> None:
        self._options = limits, contacts, actuated, method
        if not isinstance(robot, Model) or robot.dtype != np.float64:
            raise InputError(f"a problem is of a robot in float64, such as kinetree.load(…); got {_named(robot)}")
        nodes = arguments.whole("nodes", nodes, what="a positive number of steps")
        for name, given, kind in (("limits", limits, Limits), ("contacts", contacts, Contacts)):
            if given is not None and not isinstance(given, kind):
                raise InputError(f"{name} is an ocp.{kind.__name__}(…), got {given!r}")
        if isinstance(terms, CostTerm) or not isinstance(terms, Iterable):
            raise InputError(f"terms is a list of terms, such as [ocp.control()]; got {terms!r}")
        self._given = terms = tuple(terms)
        steps = arguments.numbers("Problem", "dt", dt).astype(np.float64)
        if steps.shape not in ((), (nodes,)) or not np.isfinite(steps).all() or (steps <= 0.0).any():
            raise InputError(f"dt={dt!r} is neither a positive time step [s] nor one for each of the {nodes} steps")
        terms = (*terms, *(() if contacts is None else contacts.terms))
        if not terms:
            raise InputError("terms is empty: there is nothing to minimise; ocp.control() minimises effort")
        for term in terms:
            if not isinstance(term, CostTerm):
                raise InputError(f"{term!r} is no term; use ocp.state, ocp.pose, … or ocp.Term(function, size)")
        names = [term.name for term in terms]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"two terms are called {twice!r}; give one of them another name=…")
        self.robot, self.dt, self.nodes = robot, np.array(np.broadcast_to(steps, (nodes,))), nodes
        if actuated is None:
            numbers = [i for joint in robot.joints if joint.has_motor for i in _velocities(joint)]
        else:
            numbers = robot.joint_indices(actuated)[1].tolist()
            if len(set(numbers)) < max(len(numbers), 1):
                raise InputError(f"actuated={actuated!r} names a joint twice, or none that moves")
        self.actuated = np.array(numbers, dtype=np.intp)
        self.terms, self.limits = terms, limits
        dynamics: Any = None if contacts is None else Phases(robot, self.dt, self.actuated, contacts)
        if method not in _METHODS:
            raise UnknownNameError("method", method, _METHODS)
        if method != _METHODS[0]:
            if contacts is not None:
                raise InputError(f"steps with contacts are those of {_METHODS[0]}; leave method={method!r} out")
            dynamics = DenseDynamics(robot, self.dt, self.actuated, method)
        rows = [] if limits is None else self._limited(limits)
        self.horizon = Horizon(robot, self.dt, terms, self.actuated, dynamics, rows)
        #: By term: the number of nodes that targets have, and targets that are known.
        of_steps = {row.name for row in self.horizon.costs.rows if row.part.of in ("u", "force")}
        self._nodes = {term.name: self.nodes + (term.name not in of_steps) for term in terms}
        known = [term for term in terms if isinstance(term, BuiltIn) and not term.awaited]
        self._known = {term.name: aim for term in known if (aim := term.target(robot, None)) is not None}
        for name, aim in self._known.items():
            self._lead(name, aim)

    def __reduce__(self) -> tuple[Any, ...]:
        return _problem, (self.robot, self.dt, self.nodes, self._given, *self._options)

    def __repr__(self) -> str:
        names = ", ".join(term.name for term in self.terms)
        return f"<Problem of {self.robot.name}: {self.nodes} steps, {len(self.actuated)} inputs, terms {names}>"

    def _limited(self, limits: Limits) -> list[Row]:
        robot, scope, found = self.robot, Scope(self.robot, len(self.actuated)), []
        share = 1.0 - arguments.number("margin", limits.margin, 0.0, "a fraction below 1", below=1.0)

        def add(name: str, of: str, text: Any, lower: Array, upper: Array) -> None:
            lower, upper = np.array(lower, dtype=np.float64), np.array(upper, dtype=np.float64)
            if (lower > upper).any():
                raise InputError(f"{name} limits of {robot.name} are empty: a lower one is above its upper one")
            both = np.isfinite(lower) & np.isfinite(upper)
            middle, half = 0.5 * (lower[both] + upper[both]), 0.5 * share * (upper[both] - lower[both])
            lower[both], upper[both] = middle - half, middle + half
            some = np.isfinite(lower) | np.isfinite(upper)
            on = np.tile(1.0 * some, (self.nodes + 1, 1))
            on[-1 if of == "u" else 0] = 0.0  # the first state is given, and there is no last input
            if some.any():
                part = texted(scope, of, len(lower), None, text)
                found.append(Row(name, None, part, on, lower, upper, True))

        def most(name: str, given: Any, own: Array) -> Array:
            found = own if given is True else arguments.numbers("Limits", name, given).astype(np.float64)
            if found.shape not in ((), own.shape) or not (found >= 0.0).all():
                raise InputError(f"{name} limits are True, False, or numbers from 0 on, {own.shape}; got {given!r}")
            return np.broadcast_to(found, own.shape)

        if limits.torque is not False:
            effort = most("torque", limits.torque, robot.effort_limits[self.actuated])
            idle = [joint.name for joint in robot.joints if {*_velocities(joint)} & {*self.actuated[effort == 0.0]}]
            if idle and limits.torque is True:  # many files say so where they mean nothing
                raise InputError(
                    f"joint {idle[0]!r} has an effort limit of zero; pass Limits(torque=…), or actuated= without it"
                )
            add("torque", "u", lambda _run, _q, _v, u, *_: u, -effort, effort)
        if limits.velocity is not False:
            fastest = most("velocity", limits.velocity, robot.velocity_limits)
            if limits.velocity is True and not np.isfinite(fastest).any():
                raise InputError(f"Limits: {robot.name!r} has no velocity limits; pass numbers, velocity=[…]")
            add("velocity", "v", lambda _run, _q, v, *_: v, -fastest, fastest)
        if not isinstance(limits.position, (bool, np.bool_)):
            raise InputError(
                f"Limits: position={limits.position!r} is not True or False; other limits are terms: "
                "ocp.state(q, lower=…, upper=…, hard=True)"
            )
        if limits.position:
            curved = {start for start, _ in curved_blocks(robot)}
            plain = [joint for joint in robot.joints if joint.v_start not in curved and joint.nq == joint.nv]
            inside = [joint.q_start for joint in robot.joints if (joint.nq, joint.nv) == (1, 0)]  # of loops
            places = [(joint.q_start + i, joint.v_start + i) for joint in plain for i in range(joint.nv)]
            entries, tangents = np.array(places, dtype=np.intp).reshape(-1, 2).T
            lower, upper = np.full(robot.nv, -np.inf), np.full(robot.nv, np.inf)
            lower[tangents], upper[tangents] = robot.lower_limits[entries], robot.upper_limits[entries]

            def coordinates(run: Any, q: Any, *_: Any) -> Any:
                return run.placed(run.taken(q, entries), tangents, (robot.nv,))

            add("position", "q", coordinates, lower, upper)
            starts, count = first_rates(robot.joints), sum(joint.type.nv for joint in robot.joints)
            rates = [starts[joint.name] for joint in robot.joints if (joint.nq, joint.nv) == (1, 0)]
            lines = np.array(rates, dtype=np.intp)[:, None] + count * np.arange(robot.nv)

            def following(run: Any, q: Any, *others: Any) -> Any:
                r = run.taken(q, inside)
                if not others[-1]:
                    return r
                columns = [run(robot.joint_rates, q, unit) for unit in np.eye(robot.nv)]
                return [r, run.taken(run.joined(*columns), lines)]

            add("position", "rows", following, robot.lower_limits[inside], robot.upper_limits[inside])
            if not any(row.name == "position" for row in found):
                raise InputError(f"Limits: {robot.name!r} has no position limits; leave position=True out")
        if limits.torque is True and not found:
            raise InputError(f"Limits: {robot.name!r} has no effort limits; pass numbers, torque=[…], or no limits=")
        return found

    def solve(
        self,
        q: Any,
        v: Any = None,
        targets: Mapping[str, Any] | None = None,
        *,
        start: Plan | tuple[Any, Any, Any] | None = None,
        iterations: int = 300,
        tolerance: float = 1e-9,
        feasibility: float = 1e-6,
        second_order: bool = True,
        rollout: str = "auto",
        progress: bool = False,
    ) -> Plan:
        """The best motion from a state, or from many: leading axes of q, v and targets broadcast.

        Args:
            q: First configuration, (…, nq).
            v: First velocities, (…, nv); at rest by default.
            targets: Targets by name of the term: of one node, or (…, T + 1, …) for all.
            start: Where to begin: a plan, perhaps `shifted`; or q (…, T + 1, nq), v (…, T + 1, nv) and u (…, T, nu). By
                default, and where a plan is not finite, the state is repeated, with the torques that hold it against
                gravity.
            iterations: The most iterations.
            tolerance: Expected fall of the cost at which a problem is solved, relative to costs above one.
            feasibility: Violation of limits that a solution may have, in their units.
            second_order: Whether the curvature of dynamics and residuals is used in the end; it is not with contacts.
            rollout: How states follow a step: "linear", the prediction; "nonlinear", the dynamics under the gains; or
                "auto", the first, and the second where that fails.
            progress: Whether to print a line for each iteration.

        Returns:
            A `Plan`. That it did not converge is a result: see `converged`, `reason` and `require`.

        Raises:
            InputError: Shapes that do not fit, or a term without a target.
            UnknownNameError: No term of this name.
        """
        robot, h = self.robot, self.horizon
        if isinstance(v, Mapping):
            raise InputError("solve: v is a mapping; targets come after it, or by name: solve(q, targets={…})")
        targets = self._targeted("solve", targets)
        if rollout not in _ROLLOUTS:
            raise UnknownNameError("rollout", rollout, _ROLLOUTS)
        q = arguments.doubles("solve", "q", q, (robot.nq,))
        v = arguments.doubles("solve", "v", np.zeros(robot.nv) if v is None else v, (robot.nv,))
        shapes = [q.shape[:-1], v.shape[:-1], *(self._lead(name, each) for name, each in targets.items())]
        batch = arguments.common_batch("solve", ("q", "v", *targets), shapes)
        N = int(np.prod(batch, dtype=int))
        if N == 0:
            raise InputError(f"solve: there is nothing to solve in a batch of shape {batch}")
        q, v = (np.broadcast_to(x, (*batch, x.shape[-1])).reshape(N, -1) for x in (q, v))
        aims = h.costs.targets(targets, batch)
        path, bounds, warm = self._started(q, v, start, batch, aims)
        options = Options(
            arguments.whole("solve: iterations", iterations),
            arguments.number("tolerance", tolerance, what="a positive number", above=0.0),
            arguments.number("feasibility", feasibility, what="a positive number", above=0.0), bool(second_order),
            rollout, _printed if progress else None,
        )  # fmt: skip
        return Plan.of(self, Solver(h, path, aims, bounds, warm, options).solve(), batch)

    def compile(self) -> None:
        """Compile what `solve` needs, for one problem and for many, and wait until it is optimised.

        A few iterations run from the neutral configuration, with targets at the origin: terms of your own are called.
        """
        with optimized():
            terms = [term for term in self.terms if isinstance(term, BuiltIn) and term.awaited]
            aims = {term.name: np.eye(4) if term.axes == 2 else np.zeros(3) for term in terms}
            for many in (1, TOGETHER):
                q, v = np.tile(self.robot.neutral(), (many, 1)), np.ones((many, self.robot.nv))
                for rollout, most in (("nonlinear", 1), ("linear", EARLY + 2)):
                    plan = self.solve(q, v, aims, iterations=most, rollout=rollout)
                    plan.torques(q, v)
                # what only problems need that are in doubt, or whose limits change
                h, none = self.horizon, np.zeros((many, self.nodes, self.robot.nv))
                x, gap = h.reached(Path(plan.q, plan.v, plan.u))
                given = h.costs.given(h.costs.targets(self._targeted("compile", aims), (many,)), plan.bounds)
                h.models(x, gap, given, [none, none], np.full(many, 1.0 * h.curved))
        threads.settle()

    def count(self) -> dict[str, Count]:
        """Operations of the sweeps of an iteration, "backward" and "forward".

        Those of a node's dynamics are in `robot.count("forward_dynamics_derivatives")`.
        """
        backward, forward = self.horizon.sweeps
        return {"backward": backward.count(), "forward": forward.count()}

    def _targeted(self, function: str, given: Any) -> dict[str, Any]:
        """Targets by name of the term: those that are given, and those of the terms."""
        if not isinstance(given, (Mapping, NoneType)):
            names = ", ".join(f"{name!r}: …" for name in self._nodes)
            raise InputError(f"{function}: targets is a mapping by name of the term, {{{names}}}; got {_named(given)}")
        for name in given or {}:
            if name not in self._nodes:
                raise UnknownNameError("term", name, tuple(self._nodes))
        return {**self._known, **(given or {})}

    def _lead(self, name: str, given: Any) -> tuple[int, ...]:
        """The batch of a target: what is in front of its nodes."""
        term = next(term for term in self.terms if term.name == name)
        axes, nodes = getattr(term, "axes", 1) + 1, self._nodes[name]
        shape: tuple[int, ...] = np.shape(given)
        if len(shape) >= axes and shape[-axes] not in (1, nodes):
            core = shape[len(shape) - axes + 1 :]
            one, all_ = (str((..., n, *core)).replace("Ellipsis", "…") for n in (1, nodes))
            raise InputError(
                f"the target of {name!r} has shape {shape}; it takes {core}, or with an axis of nodes {all_}: for each "
                f"of several problems, {one}"
            )
        return shape[: max(len(shape) - axes, 0)]

    def _started(
        self, q: Array, v: Array, start: Any, batch: tuple[int, ...], aims: list[Any]
    ) -> tuple[Path, list[Bounds], Array]:
        """Where to begin, hard rows, and which problems begin with a plan."""
        robot, h, T, N = self.robot, self.horizon, self.nodes, len(q)
        kept, warm = tuple[Bounds, ...](), np.zeros(N, dtype=bool)
        if start is None:
            path = self._held(q, v)
        else:
            if isinstance(start, Plan):
                if start.q.shape[-2:] != (T + 1, robot.nq) or start.u.shape[-1] != h.nu:
                    raise InputError(
                        f"solve: start is a plan of {start.u.shape[-2]} steps, not of {T}, or of another robot"
                    )
                kept = start.bounds
                given: Any = start.q, start.v, start.u
            else:
                given = start
                if not isinstance(start, tuple) or len(start) != 3:
                    raise InputError("solve: start is a plan, or a tuple of q, v and u")
            cores = (T + 1, robot.nq), (T + 1, robot.nv), (T, h.nu)
            arrays = [
                arguments.doubles("solve", f"start[{i}]", x, core) for i, (x, core) in enumerate(zip(given, cores))
            ]
            try:
                wide = [np.broadcast_to(x, (*batch, *core)).reshape(N, *core).copy() for x, core in zip(arrays, cores)]
            except ValueError:
                raise InputError(
                    f"solve: start has leading axes {arrays[0].shape[:-2]}, not those of q, {batch}"
                ) from None
            path = Path(*wide)
            path.q[:, 0], path.v[:, 0] = q, v
            finite = np.all([np.isfinite(x).all(axis=(1, 2)) for x in (path.q[:, 1:], path.v[:, 1:], path.u)], axis=0)
            warm = finite & isinstance(start, Plan)
            if isinstance(start, Plan) and not finite.all():
                for each, new in zip(wide, self._held(q[~finite], v[~finite]), strict=False):
                    each[~finite] = new
        hard = [h.costs.rows[number] for number in h.costs.hard]
        if not hard:
            return path, [], warm
        with np.errstate(all="ignore"):
            free = h.costs.given(aims, [Bounds(row, *np.zeros((3, N, T + 1, row.part.size))) for row in hard])
            model = h.model(h.reached(path)[0], h.linear(path), free)
        found = []
        for number, row in enumerate(hard):
            penalty = np.repeat(row.weight[None], N, axis=0)
            if row.term is None:  # as the weights of its entries are
                of = "q" if row.part.of == "rows" else row.part.of
                weights = {"q": model.qq, "v": model.vv, "u": model.uu}[of].diagonal(axis1=-2, axis2=-1)
                if of != row.part.of:  # joints inside of loops move with all entries
                    weights = np.repeat(weights.max(axis=-1, keepdims=True), row.part.size, axis=-1)
                penalty *= first_penalty(np.where(np.isfinite(weights), weights, 0.0))
            fresh = Bounds(row, np.zeros_like(penalty), penalty, penalty)
            old = kept[number] if len(kept) == len(hard) else fresh
            if old.multipliers.shape == penalty.shape:  # perhaps shifted, so that rows that are not in force have some
                known = np.where(old.penalty > 0.0, old.penalty, penalty)
                y, known = (np.where(penalty > 0.0, x, 0.0) for x in (old.multipliers, known))
                fresh = Bounds(row, y, known, penalty)
            found.append(fresh)
        return path, found, warm

    def _held(self, q: Array, v: Array) -> Path:
        """States repeated, with torques that hold them against gravity, within limits."""
        h, T = self.horizon, self.nodes
        with np.errstate(all="ignore"):
            hold = h.dynamics.hold(q)
        for row in h.costs.rows:
            if row.hard and row.term is None and row.part.of == "u":
                hold = np.clip(hold, row.lower, row.upper)
        return Path(np.repeat(q[:, None], T + 1, axis=1), np.repeat(v[:, None], T + 1, axis=1), hold)

    def check(self, q: Any, v: Any, u: Any, targets: Mapping[str, Any] | None = None) -> dict[str, float]:
        """Errors of the derivatives of each term against central differences at a state, relative to the largest.

        Args:
            q: Configuration, (nq,).
            v: Velocities, (nv,).
            u: Inputs, (nu,).
            targets: As for `solve`.
        """
        h, S = self.horizon, self.nodes + 1
        given = (("q", q, self.robot.nq), ("v", v, self.robot.nv), ("u", u, h.nu))
        x = []
        for name, each, n in given:
            array = arguments.doubles("check", name, each, (n,))
            if array.ndim > 1:
                raise InputError(f"check: {name} has shape {array.shape}; it takes one state, ({n},)")
            x.append(np.tile(array, (1, S, 1)))
        found: dict[str, float] = {}
        for row, aim in zip(h.costs.rows, h.costs.targets(self._targeted("check", targets), (1,)), strict=True):
            part, name, error = row.part, row.name, 0.0
            if row.term is None:
                continue
            if part.of == "force":
                by = h.costs.of_forces(part, h.linear(Path(x[0], x[1], x[2][:, :-1])))
                wanted = differences(self.robot, partial(_force, h, part, aim[:, :-1]), x[0], x[1], x[2])
                error = _error(by, wanted)
            elif part.rows is not None:
                _, *by = part.rows(x[0], x[1], x[2], aim)
                wanted = differences(self.robot, partial(_residual, part, aim), x[0], x[1], x[2])
                error = _error((*by, None, None)[:3], wanted)
            found[name] = max(found.get(name, 0.0), error)
        return found


def _problem(robot: Model, dt: Array, nodes: int, terms: Any, limits: Any, contacts: Any, *others: Any) -> Problem:
    actuated, method = others
    return Problem(robot, dt, nodes, terms, limits=limits, contacts=contacts, actuated=actuated, method=method)


def _named(given: Any) -> str:
    return f"{given!r} in {given.dtype}" if isinstance(given, Model) else type(given).__name__


def _velocities(joint: Any) -> range:
    return range(joint.v_start, joint.v_start + joint.nv)


def _residual(part: Part, aim: Any, q: Array, v: Array, u: Array) -> Array:
    return part.residual(q, v, u, aim)


def _force(h: Horizon, part: Part, aim: Any, q: Array, v: Array, u: Array) -> Array:
    """Residuals of forces at all steps of nodes, (…, T + 1, …)."""
    flat = [x.reshape(-1, *x.shape[-2:]) for x in (q, v, u)]
    path, _ = h.reached(Path(flat[0], flat[1], flat[2][:, :-1]))
    found: Array = part.residual(path.q, path.v, path.force, aim)
    shaped: Array = found.reshape(*q.shape[:-2], *found.shape[-2:])
    return shaped


def _error(exact: Sequence[Any], wanted: Sequence[Array]) -> float:
    """The largest error of derivatives, None for zero, relative to the largest of them."""
    largest = max(1.0, *(float(np.abs(each).max(initial=0.0)) for each in wanted))
    away = (np.abs((0.0 if a is None else a) - b).max(initial=0.0) for a, b in zip(exact, wanted, strict=True))
    return float(max(away)) / largest


def _printed(iteration: int, row: Array, reason: Array) -> None:
    """A line for an iteration: the first problem that is not solved."""
    head = f"{'':>4} {'cost':>16} {'gap':>9} {'violation':>9} {'expected':>10} {'step':>8} {'damping':>8} curvature\n"
    shown = row[np.flatnonzero(~np.isnan(row["cost"]))[0]]
    left = f"  {int((reason == '').sum())} of {len(row)} left" if len(row) > 1 else ""
    rolled = " rolled out" if shown["rollout"] else ""
    sys.stdout.write(
        f"{head if iteration == 0 else ''}{iteration:4d} {shown['cost']:16.9g} {shown['gap']:9.1e} "
        f"{shown['violation']:9.1e} {shown['expected']:10.2e} {shown['step']:8.4f} {shown['damping']:8.0e} "
        f"{shown['curvature']:g}{rolled}{left}\n"
    )
