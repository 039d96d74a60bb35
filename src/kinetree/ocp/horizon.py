"""The nodes of a horizon as batches: steps, gaps, costs, their models, and limits as an augmented Lagrangian.

All arrays have a leading axis of problems, N, then one of nodes: q (N, T + 1, nq), v (N, T + 1, nv), u (N, T, nu).
Everything here is computed for each problem on its own, by compiled functions of nodes or in a fixed order, so that a
problem has the same bits alone and among others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError
from kinetree.kernels.euler_riccati import euler_costates, euler_forward, euler_riccati
from kinetree.kernels.node_costs import (
    change_along,
    feedback,
    half_squares,
    kept_gap,
    matrix_product,
    quadratic_model,
    with_curvature,
)
from kinetree.model.model import Model
from kinetree.ocp.dynamics import Dynamics, FreeDynamics
from kinetree.ocp.terms import CostTerm, Part, Scope, curved_blocks
from kinetree.runtime.function import compiled
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import KernelSequence
from kinetree.spatial.value import Array

#: Parts that steps have, and the last node has not.
_OF_STEPS = ("u", "force")
#: Steps of central differences of gradients.
_STEP = 1e-5


class Path(NamedTuple):
    """States and inputs of all nodes, and the forces at contacts, once steps have been computed, (N, T, nf)."""

    q: Array
    v: Array
    u: Array
    force: Array = np.zeros((0, 0, 0))

    def of(self, some: Any) -> Path:
        """Those of some problems."""
        return Path(self.q[some], self.v[some], self.u[some], self.force[some])


class Gap(NamedTuple):
    """What steps miss the next node by, (N, T, nv) each."""

    q: Array
    v: Array


class Linear(NamedTuple):
    """Derivatives of accelerations and contact forces, (N, T, nv or nf, …), and of ⊕ in blocks, (N, T, nb, nb)."""

    a_q: Array
    a_v: Array
    a_u: Array
    turn: Array
    drift: Array
    force_q: Array
    force_v: Array
    force_u: Array


class NodeModel(NamedTuple):
    """Quadratic models of the costs of nodes, (N, T + 1, …)."""

    qq: Array
    qv: Array
    vv: Array
    uq: Array
    uv: Array
    uu: Array
    q: Array
    v: Array
    u: Array


class Gains(NamedTuple):
    """Results of the backward sweep."""

    Kq: Array
    Kv: Array
    k: Array
    pivot: Array
    decrease: Array


class Step(NamedTuple):
    """A step of all nodes, the slope of the cost along it, zᵀH z, and the costates that it leads to."""

    q: Array
    v: Array
    u: Array
    slope: Array
    curve: Array
    costate_q: Array
    costate_v: Array


@dataclass(frozen=True, eq=False)
class Bounds:
    """Limits l ≤ x ≤ h on entries of q, v or u as an augmented Lagrangian, with multipliers y and penalties ρ.

    Each entry costs ½ ρ d² with d the distance of x + y/ρ from [l, h].

    Attributes:
        name: What is limited.
        of: Which of "q", "v" and "u" the entries belong to.
        entries: Their numbers there.
        tangents: Their numbers among the tangents.
        lower: l, (m,).
        upper: h, (m,).
        on: Where they are in force, (nodes, m), one or zero.
        multipliers: y, (N, nodes, m).
        penalty: ρ, (N, nodes, m).
        first: ρ at first.
    """

    name: str
    of: str
    entries: Array
    tangents: Array
    lower: Array
    upper: Array
    on: Array
    multipliers: Array = field(default_factory=lambda: np.zeros(0))
    penalty: Array = field(default_factory=lambda: np.zeros(0))
    first: Array = field(default_factory=lambda: np.zeros(0))

    def started(self, penalty: Array) -> Bounds:
        """Multipliers zero."""
        return replace(self, multipliers=np.zeros_like(penalty), penalty=penalty, first=penalty)

    def some(self, which: Any) -> Bounds:
        """Those of some problems."""
        return replace(self, multipliers=self.multipliers[which], penalty=self.penalty[which], first=self.first[which])

    def distance(self, path: Path) -> Array:
        """d, zero where they are not in force."""
        shifted = getattr(path, self.of)[..., self.entries] + self.multipliers / self.penalty
        found: Array = self.on * (np.minimum(shifted - self.lower, 0.0) + np.maximum(shifted - self.upper, 0.0))
        return found

    def violation(self, path: Path) -> Array:
        """The largest violation of each problem, (N,)."""
        x = getattr(path, self.of)[..., self.entries]
        outside = np.maximum(np.maximum(self.lower - x, x - self.upper), 0.0) * self.on
        worst: Array = outside.reshape(len(x), -1).max(axis=-1, initial=0.0)
        return worst


class Horizon:
    """What a problem computes on its nodes.

    Args:
        robot: The robot.
        dt: Time steps, (T,).
        terms: Terms of the cost.
        actuated: Numbers of the velocities whose joints have motors.
        dynamics: What steps do; those of the free robot by default.
    """

    def __init__(
        self, robot: Model, dt: Array, terms: Sequence[CostTerm], actuated: Array, dynamics: Dynamics | None = None
    ) -> None:
        self.robot, self.dt, self.terms, self.actuated = robot, dt, tuple(terms), actuated
        self.dynamics: Dynamics = FreeDynamics(robot, dt, actuated) if dynamics is None else dynamics
        self.T, self.nv, self.nu = len(dt), robot.nv, len(actuated)
        self.full = bool(np.array_equal(actuated, np.arange(robot.nv)))
        self.parts: list[tuple[int, Part, Array, Any, Any]] = []
        for number, term in enumerate(terms):
            parts = term.parts(Scope(robot, self.nu, self.dynamics.feet))
            size = sum(part.size for part in parts)
            weights = _weights(term, size, self.dynamics, parts[0].of in _OF_STEPS)
            start = 0
            for part in parts:
                own = slice(start, start + part.size)
                weight = np.ascontiguousarray(weights[..., own])
                if part.of in _OF_STEPS:
                    weight = np.ascontiguousarray(weight[:-1])
                lower, upper = (
                    None if x is None else np.broadcast_to(x, (size,))[own] for x in (term.lower, term.upper)
                )
                self.parts.append((number, part, weight, lower, upper))
                start += part.size
        self.rows = sum(part.size for _, part, *_ in self.parts if part.of == "rows")
        self.general = sum(part.size for _, part, *_ in self.parts if part.of in ("all", "force"))
        self._blocks = curved_blocks(robot)
        starts = np.cumsum([0, *(size for _, size in self._blocks)]).tolist()
        self.nb = starts[-1]
        self.plain = not self._blocks
        #: Whether the curvature of steps is known.
        self.curved = self.plain and self.dynamics.curved
        lists: dict[str, list[tuple[int, int]]] = {"threes": [], "sixes": []}
        for (start, size), place in zip(self._blocks, starts, strict=False):
            lists["threes" if size == 3 else "sixes"].append((start, place))
        sizes = {"nv": self.nv, "nu": self.nu}
        sweep = {"T": self.T, "nb": self.nb, **sizes, **lists}
        self._riccati, self._forward = compiled(euler_riccati, **sweep), compiled(euler_forward, **sweep)
        self._model = compiled(quadratic_model, **sizes, m=self.rows, n=self.general)
        self._along, self._curvature = compiled(change_along, **sizes), compiled(with_curvature, **sizes)
        self._costates = compiled(euler_costates, **{name: each for name, each in sweep.items() if name != "nu"})
        self._rollout: Any = None
        #: Unit tangents and zeros of all nodes, for the number of problems of the last call.
        self._directions = [np.zeros((0, 0, 0, 0))]

    # Dynamics

    def tau(self, u: Array) -> Array:
        """Joint forces of inputs."""
        if self.full:
            return np.ascontiguousarray(u)
        tau = np.zeros((*u.shape[:-1], self.nv))
        tau[..., self.actuated] = u
        return tau

    def reached(self, x: Path) -> tuple[Path, Gap]:
        """The path with its forces, and what steps from all nodes miss the next ones by."""
        q, v = (np.ascontiguousarray(each[:, :-1]) for each in (x.q, x.v))
        after = self.dynamics.step(q, v, self.tau(x.u))
        gap = Gap(self.robot.difference(np.ascontiguousarray(x.q[:, 1:]), after.q), after.v - x.v[:, 1:])
        return x._replace(force=after.force), gap

    def linear(self, x: Path) -> Linear:
        """Derivatives of all steps."""
        q, v = (np.ascontiguousarray(each[:, :-1]) for each in (x.q, x.v))
        tau = self.tau(x.u)
        found = self.dynamics.linear(q, v, tau)
        shape = (*q.shape[:2], self.nb, self.nb)
        if self.plain:
            return Linear(*found[:3], np.zeros(shape), np.zeros(shape), *found[3:6])
        rate = self.dynamics.step(q, v, tau).v if found.v is None else found.v
        dt = self.dynamics.dt
        both = self.robot.dintegrate(q, rate, np.broadcast_to(dt, q.shape[:2]).copy())
        places = np.concatenate([np.arange(start, start + size) for start, size in self._blocks])
        turn, drift = (np.ascontiguousarray(each[..., places[:, None], places]) for each in both)
        # of steps without time, drift is multiplied by zero
        return Linear(*found[:3], turn, drift / np.where(dt > 0.0, dt, 1.0)[:, None, None], *found[3:6])

    def curvature(
        self, x: Path, linear: Linear, costate_q: Array, costate_v: Array, share: Array, model: NodeModel
    ) -> NodeModel:
        """The model with a share of each problem's curvature of the dynamics, given costates of the nodes reached."""
        q, v = (np.ascontiguousarray(each[:, :-1]) for each in (x.q, x.v))
        tau, dt, nv = self.tau(x.u), self.dt[:, None], self.nv
        weight = self.robot.mass_matrix_solve(q, -dt * (costate_v + dt * costate_q))
        a = self.robot.forward_dynamics(q, v, tau)
        args = [np.repeat(each[..., None, :], nv, axis=-2) for each in (q, v, a, weight)]
        along = self._directions
        if along[0].shape[:2] != q.shape[:2]:
            along = [np.broadcast_to(each, (*q.shape[:2], nv, nv)).copy() for each in (np.eye(nv), np.zeros((nv, nv)))]
            self._directions = along
        hvp = self.robot.inverse_dynamics.hvp
        qq, qv, qa = hvp(*args, along[0], along[1], along[1])
        _, vv, va = hvp(*args, along[1], along[0], along[1])
        T = self.T
        each = np.repeat(share[:, None], T, axis=1)
        some = [np.ascontiguousarray(h[:, :T]) for h in model[:5]]
        found = self._curvature(linear.a_q, linear.a_v, linear.a_u, qq, qv, qa, vv, va, each, *some)
        joined = [np.concatenate([new, old[:, T:]], axis=1) for new, old in zip(found, model[:5], strict=True)]
        return NodeModel._make([*joined, *model[5:]])

    # Costs

    def targets(self, given: dict[str, Any], batch: tuple[int, ...]) -> list[Any]:
        """Targets of all parts for a flat batch of problems, one for each node."""
        problems = int(np.prod(batch, dtype=int))
        found: list[Any] = []
        aims = [term.target(self.robot, given.get(term.name)) for term in self.terms]
        for number, part, weight, *_ in self.parts:
            aim = aims[number]
            if aim is None:
                found.append(None)
                continue
            axes, term = getattr(self.terms[number], "axes", 1), self.terms[number]
            nodes, core = len(weight), aim.shape[aim.ndim - axes :] if aim.ndim >= axes else (part.size,)
            try:
                whole = np.broadcast_to(aim, (*batch, nodes, *core))
            except ValueError:
                raise InputError(
                    f"the target of {term.name!r} has shape {aim.shape}; it takes {core}, ({nodes}, …) for each node, "
                    f"or ({', '.join(map(str, (*batch, nodes, *core)))})"
                ) from None
            found.append(np.ascontiguousarray(whole.reshape(problems, nodes, *core)))
        return found

    def costs(self, x: Path, targets: list[Any], bounds: Sequence[Bounds]) -> tuple[Array, Array]:
        """The cost of each term, (N, terms), and what the bounds add, (N,)."""
        found, extra = np.zeros((len(x.q), len(self.terms))), np.zeros(len(x.q))
        padded = self._padded(x.u)
        for (number, part, weight, lower, upper), target in zip(self.parts, targets, strict=True):
            r = part.residual(x.q, x.v, self._inputs(x, padded, part), target)
            found[:, number] += self._squares(
                weight, r if lower is None and upper is None else _outside(r, lower, upper)
            )
        for bound in bounds:
            extra += self._squares(bound.penalty, bound.distance(x))
        return found, extra

    def model(self, x: Path, linear: Linear, targets: list[Any], bounds: Sequence[Bounds]) -> NodeModel:
        """Quadratic models of all nodes, without curvature."""
        N, S = x.q.shape[:2]
        padded = self._padded(x.u)
        weights = {"q": np.zeros((N, S, self.nv)), "v": np.zeros((N, S, self.nv)), "u": np.zeros((N, S, self.nu))}
        slopes = {name: np.zeros_like(each) for name, each in weights.items()}
        rows, of_rows = np.zeros((N, S, self.rows, self.nv)), np.zeros((2, N, S, self.rows))
        general = [np.zeros((N, S, self.general, size)) for size in (self.nv, self.nv, self.nu)]
        of_general = np.zeros((2, N, S, self.general))
        start = {"rows": 0, "all": 0}
        for (_, part, weight, lower, upper), target in zip(self.parts, targets, strict=True):
            if part.rows is None:
                r = part.residual(x.q, x.v, self._inputs(x, padded, part), target)
                w, s = _weighted(weight, r, lower, upper)
                if part.of != "force":
                    nodes = len(weight)
                    weights[part.of][:, :nodes, part.entries] += w
                    slopes[part.of][:, :nodes, part.entries] += s
                    continue
                by = self.of_forces(part.matrix, linear)
            else:
                r, *by = part.rows(x.q, x.v, padded, target)
                w, s = _weighted(weight, r, lower, upper)
            kind, nodes = "rows" if part.of == "rows" else "all", len(weight)
            own = slice(start[kind], start[kind] + part.size)
            start[kind] = own.stop
            if part.of == "rows":
                rows[:, :, own], of_rows[0][:, :, own], of_rows[1][:, :, own] = by[0], w, s
            else:
                for place, each in zip(general, by, strict=True):
                    if each is not None:
                        place[:, :nodes, own] = each
                of_general[0][:, :nodes, own], of_general[1][:, :nodes, own] = w, s
        for bound in bounds:
            distance = bound.distance(x)
            nodes, places = distance.shape[1], bound.tangents
            weights[bound.of][:, :nodes, places] += bound.penalty * (distance != 0.0)
            slopes[bound.of][:, :nodes, places] += bound.penalty * distance
        # inputs of impacts do nothing, and stay as they are
        weights["u"][:, :-1][:, self.dynamics.impacts] += 1.0
        found = self._model(*weights.values(), *slopes.values(), rows, *of_rows, *general, *of_general)
        return NodeModel(*found)

    def bend(self, x: Path, targets: list[Any]) -> Array:
        """The curvature of residuals that depend on the configuration, (N, T + 1, nv, nv)."""
        total, padded = np.zeros((*x.q.shape[:2], self.nv, self.nv)), self._padded(x.u)
        for (_, part, weight, lower, upper), target in zip(self.parts, targets, strict=True):
            if part.of == "rows":
                _, slope = _weighted(weight, part.residual(x.q, x.v, padded, target), lower, upper)
                total += self._bend(part, x, padded, target, slope)
        return total

    def _bend(self, part: Part, x: Path, padded: Array, target: Any, slope: Array) -> Array:
        """Σ w r ∂²r/∂q², by central differences of gradients in one batch."""
        rows: Any = part.rows
        steps = _STEP * np.eye(self.nv)[:, None, None]
        ends = []
        for sign in (1.0, -1.0):
            q = np.broadcast_to(x.q, (self.nv, *x.q.shape))
            q = self.robot.integrate(q, np.broadcast_to(sign * steps, (*q.shape[:3], self.nv)))
            aim = None if target is None else np.broadcast_to(target, (self.nv, *target.shape)).copy()
            by_q = rows(q, x.v, padded, aim)[1]
            ends.append(np.einsum("ntr,dntrj->ntdj", slope, by_q, optimize=False))
        bend = (ends[0] - ends[1]) / (2.0 * _STEP)
        half: Array = 0.5 * (bend + np.swapaxes(bend, -1, -2))
        return half

    def _inputs(self, x: Path, padded: Array, part: Part) -> Array:
        """What a part takes as inputs: those of steps, with zeros for the last node, or the forces at feet."""
        return x.force if part.of == "force" else x.u if part.of == "u" else padded

    def of_forces(self, A: Array, linear: Linear) -> list[Array]:
        """Derivatives of A λ."""
        by = linear.force_q, linear.force_v, linear.force_u
        return [compiled(matrix_product, m=A.shape[0], n=A.shape[1], p=x.shape[-1])(A, x) for x in by]

    def _padded(self, u: Array) -> Array:
        return np.concatenate([u, np.zeros_like(u[:, :1])], axis=1)

    def _squares(self, weight: Array, r: Array) -> Array:
        count = int(np.prod(r.shape[1:]))
        weight = weight.reshape(count) if weight.ndim < r.ndim else weight.reshape(len(r), count)
        cost: Array = compiled(half_squares, n=count)(weight, np.ascontiguousarray(r).reshape(len(r), count))
        return cost

    # Sweeps

    def gains(self, linear: Linear, gap: Gap, model: NodeModel, damping: Array) -> Gains:
        """The backward sweep; `damping` is added to Quu, (N,)."""
        T = self.T
        steps = [each[:, :T] for each in model]
        last = [model.qq[:, T], model.qv[:, T], model.vv[:, T], model.q[:, T], model.v[:, T]]
        a_q, a_v, a_u, turn, drift, *_ = linear
        times = self.dynamics.dt, self.dynamics.pace
        found = self._riccati(
            a_q, a_v, a_u, *times, turn, drift, *gap, *steps, np.repeat(damping[:, None], self.nu, axis=1), *last
        )
        return Gains(*found[:3], *found[-2:])

    def step(self, linear: Linear, gap: Gap, model: NodeModel, gains: Gains) -> Step:
        """The forward sweep of the linear model."""
        T = self.T
        slopes = [model.q[:, :T], model.v[:, :T], model.u[:, :T], model.q[:, T], model.v[:, T]]
        a_q, a_v, a_u, turn, drift, *_ = linear
        times = self.dynamics.dt, self.dynamics.pace
        dq, dv, du, last_q, last_v, slope = self._forward(a_q, a_v, a_u, *times, turn, drift, *gap, *gains[:3], *slopes)
        dq, dv = np.concatenate([dq, last_q[:, None]], axis=1), np.concatenate([dv, last_v[:, None]], axis=1)
        by_q, by_v, curves = self._along(dq, dv, self._padded(du), *model[:6])
        by_q, by_v = by_q + model.q, by_v + model.v
        costates = self._costates(a_q, a_v, *times, turn, drift, by_q[:, :T], by_v[:, :T], by_q[:, T], by_v[:, T])
        return Step(dq, dv, du, slope, curves.sum(axis=-1), *costates)

    def moved(self, x: Path, step: Step, share: Array) -> Path:
        """States along the linear prediction."""
        s = share[:, None, None]
        return Path(self.robot.integrate(x.q, s * step.q), x.v + s * step.v, x.u + s * step.u, x.force)

    def rolled(self, x: Path, gap: Gap, gains: Gains, share: Array) -> Path:
        """States that follow the dynamics under the gains; gaps close by 1 − share."""
        if self._rollout is None:
            self._rollout = self._recorded()
        q, v, u = self._rollout(x.q, x.v, x.u, *gap, *gains[:3], self.dynamics.dt, share)
        return Path(q, v, u, x.force)

    def _recorded(self) -> Any:
        T, S, nq, nv, nu, robot = self.T, self.T + 1, self.robot.nq, self.nv, self.nu, self.robot
        inputs = [
            Operand("q", (S, nq)), Operand("v", (S, nv)), Operand("u", (T, nu)), Operand("gap_q", (T, nv)),
            Operand("gap_v", (T, nv)), Operand("Kq", (T, nu, nv)), Operand("Kv", (T, nu, nv)), Operand("k", (T, nu)),
            Operand("dt", (T,)), Operand("share", ()),
        ]  # fmt: skip
        outputs = [Operand("q", (S, nq)), Operand("v", (S, nv)), Operand("u", (T, nu))]
        run = KernelSequence("rollout", inputs, outputs)
        q, v, u, gap_q, gap_v, Kq, Kv, k, dt, share = run.inputs
        q_now, v_now = run.variable(q.part(0, nq)), run.variable(v.part(0, nv))
        tau = run.variable(run.constant(np.zeros(nv)))
        control, rest = compiled(feedback, nv=nv, nu=nu), compiled(kept_gap, nv=nv)
        for first, count in self.dynamics.runs:

            def at(x: Any, t: Any, size: int, first: int = first, count: int = count) -> Any:
                return x.part(first * size, count * size).at(t, size)

            with run.loop(count) as t:
                run.copy(q_now, at(run.outputs[0], t, nq))
                run.copy(v_now, at(run.outputs[1], t, nv))
                away = run.call(robot.difference, at(q, t, nq), q_now)
                nodes = ((v, nv), (u, nu), (Kq, nu * nv), (Kv, nu * nv), (k, nu))
                now = run.call(control, *(at(x, t, size) for x, size in nodes), away, v_now, share)
                run.copy(now, at(run.outputs[2], t, nu))
                for i, joint in enumerate(self.actuated.tolist()):
                    run.copy(now.part(i, 1), tau.part(joint, 1))
                after, rate = self.dynamics.record(run, first, q_now, v_now, tau, at(dt, t, 1))
                back, rate = run.call(rest, at(gap_q, t, nv), at(gap_v, t, nv), rate, share)
                run.copy(run.call(robot.integrate, after, back, 1.0), q_now)
                run.copy(rate, v_now)
        run.copy(q_now, run.outputs[0].part(T * nq, nq))
        run.copy(v_now, run.outputs[1].part(T * nv, nv))
        return run.finish()


def _outside(r: Array, lower: Any, upper: Any) -> Array:
    """What of a residual lies outside of an interval."""
    low = np.zeros_like(r) if lower is None else np.minimum(r - lower, 0.0)
    found: Array = low if upper is None else low + np.maximum(r - upper, 0.0)
    return found


def _weighted(weight: Array, r: Array, lower: Any, upper: Any) -> tuple[Array, Array]:
    """Weights in force, and w r."""
    if lower is None and upper is None:
        return weight, weight * r
    out = _outside(r, lower, upper)
    return weight * (out != 0.0), weight * out


def _weights(term: CostTerm, size: int, dynamics: Dynamics, inputs: bool) -> Array:
    """Weights of all nodes, (T + 1, size)."""
    S = len(dynamics.dt) + 1
    given = np.asarray(term.weight, dtype=np.float64)
    if given.shape not in ((), (size,), (S, size)):
        raise InputError(
            f"weight of term {term.name!r} has shape {given.shape}; it is a number, ({size},) or ({S}, {size})"
        )
    weights = np.array(np.broadcast_to(given, (S, size)))
    weights[:-1] *= dynamics.dt[:, None]
    for name, where in (("last", np.arange(S) == S - 1), ("impact", np.append(dynamics.impacts, False))):
        given = getattr(term, name)
        if given is not None:
            given = np.asarray(given, dtype=np.float64)
            if given.shape not in ((), (size,)):
                raise InputError(f"{name} of term {term.name!r} has shape {given.shape}; it is a number or ({size},)")
            weights[where] = given
    if inputs:
        weights[-1] = 0.0
    if not np.isfinite(weights).all() or (weights < 0.0).any():
        raise InputError(f"weights of term {term.name!r} are finite and not negative")
    if term.nodes is not None:
        off = np.ones(S, dtype=bool)
        try:
            off[np.asarray(term.nodes, dtype=int)] = False
        except IndexError:
            raise InputError(f"nodes of term {term.name!r} are between {-S} and {S - 1}, got {term.nodes}") from None
        weights[off] = 0.0
    return weights
