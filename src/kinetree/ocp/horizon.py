"""The nodes of a horizon as batches: steps, gaps, costs and their models, sweeps, roll-outs.

All arrays have a leading axis of problems, N, then one of nodes: q (N, T + 1, nq), v (N, T + 1, nv), u (N, T, nu).
Everything here is computed for each problem on its own, by compiled functions of nodes or in a fixed order, so that a
problem has the same bits alone and among others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from kinetree.kernels.dense_sweeps import dense_backward, dense_forward
from kinetree.kernels.euler_riccati import euler_forward, euler_riccati
from kinetree.kernels.node_costs import feedback, kept_gap, matrix_product
from kinetree.kernels.node_models import summary
from kinetree.model.model import Model
from kinetree.ocp.costs import Costs, Given, NodeModel, Row
from kinetree.ocp.dynamics import DenseDynamics, Dynamics
from kinetree.ocp.fused import TOGETHER, direction, node_function
from kinetree.ocp.linearization import Linear, Linearization, record_forces
from kinetree.ocp.terms import CostTerm, curved_blocks
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import compiled
from kinetree.runtime.operands import Binding, Operand
from kinetree.runtime.sequence import Index, KernelSequence, MemorySpan
from kinetree.spatial.value import Array

#: Bytes of a second-level cache.
_CACHE = 1 << 20


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


class Gains(NamedTuple):
    """The backward sweep: gains, the least pivot, Σ quᵀ Quu⁻¹ qu."""

    Kq: Array
    Kv: Array
    k: Array
    pivot: Array
    decrease: Array


#: Costs to go of the nodes that steps reach.
Later = tuple[Array, ...]


class Step(NamedTuple):
    """A step of all nodes, the slope of the cost along it, zᵀH z, and the costates that it leads to."""

    q: Array
    v: Array
    u: Array
    slope: Array
    curve: Array
    costate_q: Array
    costate_v: Array


class Trial(NamedTuple):
    """Where problems could go: states, gaps, the distances of hard rows; cost, violation, sum of gaps, largest gap."""

    path: Path
    gap: Gap
    distance: Array
    cost: Array
    violation: Array
    gaps: Array
    largest: Array

    def of(self, some: Any) -> Trial:
        """Those of some problems."""
        path, gap, *others = self
        return Trial(path.of(some), Gap(gap.q[some], gap.v[some]), *(each[some] for each in others))

    def put(self, some: Any, other: Trial) -> None:
        """Replace some problems."""
        for one, new in ((self.path, other.path), (self.gap, other.gap), (self[2:], other[2:])):
            for mine, each in zip(one, new, strict=True):
                mine[some] = each


class Horizon:
    """What a problem computes on its nodes.

    Args:
        robot: The robot.
        dt: Time steps, (T,).
        terms: Terms of the cost.
        actuated: Numbers of the velocities whose joints have motors.
        dynamics: What steps do; those of the free robot by default.
        limits: Rows of limits.
    """

    def __init__(
        self, robot: Model, dt: Array, terms: Sequence[CostTerm], actuated: Array, dynamics: Dynamics | None = None,
        limits: Sequence[Row] = (),
    ) -> None:  # fmt: skip
        self.robot, self.dt, self.terms, self.actuated = robot, dt, tuple(terms), actuated
        self.dynamics = Dynamics(robot, dt, actuated) if dynamics is None else dynamics
        self.T, self.nv, self.nu = len(dt), robot.nv, len(actuated)
        self.full = bool(np.array_equal(actuated, np.arange(robot.nv)))
        self.costs = Costs(robot, self.nu, self.dynamics, terms, limits)
        self._blocks = curved_blocks(robot)
        starts = np.cumsum([0, *(size for _, size in self._blocks)]).tolist()
        self.nb = starts[-1]
        self.plain = not self._blocks
        #: Whether the curvature of steps is known.
        self.curved = self.dynamics.curved
        lists: dict[str, list[tuple[int, int]]] = {"threes": [], "sixes": []}
        for (start, size), place in zip(self._blocks, starts, strict=False):
            lists["threes" if size == 3 else "sixes"].append((start, place))
        sizes = {"nv": self.nv, "nu": self.nu}
        sweep: dict[str, Any] = {"T": self.T, "nb": self.nb, **sizes, **lists}
        self._sweep = sweep
        self._riccati, self._forward = compiled(euler_riccati, **sweep), compiled(euler_forward, **sweep)
        dense = {"T": self.T, "nx": 2 * self.nv, "nu": self.nu}
        self._dense_backward, self._dense_forward = compiled(dense_backward, **dense), compiled(dense_forward, **dense)
        self._linear = Linearization(self.dynamics, self._blocks)
        self._summary = compiled(summary, S=self.T + 1, T=self.T, nv=self.nv)
        self._fused = cache(partial(direction, self._linear, self.costs, sweep))

    @property
    def sweeps(self) -> tuple[Any, Any]:
        """Functions of the backward and the forward sweep."""
        dense = isinstance(self.dynamics, DenseDynamics)
        return (self._dense_backward, self._dense_forward) if dense else (self._riccati, self._forward)

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

    def linear(self, x: Path, gap: Gap | None = None) -> Linear:
        """Derivatives of all steps, as tangents at the next nodes, which steps miss by a gap."""
        if isinstance(self.dynamics, DenseDynamics):
            q, v = (np.ascontiguousarray(each[:, :-1]) for each in (x.q, x.v))
            A, B = self.dynamics.discretized(q, v, self.tau(x.u))
            if not self.plain and gap is not None:
                E = self.robot.dintegrate(np.ascontiguousarray(x.q[:, 1:]), -gap.q)[0]
                for each in (A, B):
                    times = compiled(matrix_product, m=self.nv, n=self.nv, p=each.shape[-1])
                    each[..., : self.nv, :] = times(E, np.ascontiguousarray(each[..., : self.nv, :]))
            none = np.zeros((*q.shape[:2], 0))
            return Linear(A, A, B, none, none, none, none, none)
        return self._linear(x.q, x.v, x.u, np.zeros((*x.u.shape[:2], self.nv)) if gap is None else gap.q)

    def models(
        self, x: Path, gap: Gap, given: Given, costate: Sequence[Array], share: Array
    ) -> tuple[Linear, NodeModel]:
        """Derivatives of all steps, and models of all nodes with a share of each problem's curvature, (N,)."""
        if not share.any():
            linear = self.linear(x, gap)
            return linear, self.model(x, linear, given)
        # at the last node, costates of zero leave no curvature of a step
        q, v, u, *others = self.costs.inputs(x, given, True)
        steps = gap.q, *self.dynamics.times(0, len(share)), *costate
        each = np.repeat(share[:, None], self.T + 1, axis=1)
        found = self._curved(q, v, u, *map(self.costs.padded, steps), each, *others)
        model = NodeModel(*found[5:-1])
        model.qq[...] += share[:, None, None, None] * self.costs.bend(x, given)
        return Linear(*(x[:, : self.T] for x in found[:5]), *np.zeros((3, len(share), 0))), model

    @cached_property
    def _curved(self) -> Compiled:
        return node_function(self._linear, self.costs, 0, True)

    # Costs

    def trial(self, x: Path, given: Given) -> Trial:
        """Gaps and costs of a path."""
        x, gap = self.reached(x)
        cost, worst, distance = self.costs.costs(x, given)
        return Trial(x, gap, distance, *self._summary(cost, worst, *gap))

    def model(self, x: Path, linear: Linear, given: Given) -> NodeModel:
        """Quadratic models of all nodes, without curvature."""
        return self.costs.model(x, linear, given)

    # Sweeps

    def gains(self, linear: Linear, gap: Gap, model: NodeModel, damping: Array) -> tuple[Gains, Later]:
        """The backward sweep; `damping` is added to Quu, (N,)."""
        T, N = self.T, len(damping)
        if isinstance(self.dynamics, DenseDynamics):
            A, _, B, *_ = linear
            Q, N_ux, l, R, lu = _wide(model)
            d, nv = np.concatenate(gap, axis=-1), self.nv
            dense = A, B, d, Q[:, :T], N_ux[:, :T], R[:, :T], l[:, :T], lu[:, :T], damping, Q[:, T], l[:, T]
            K, k, xx, p, pivot, decrease = self._dense_backward(*map(np.ascontiguousarray, dense))
            Kq, Kv = (np.ascontiguousarray(each) for each in (K[..., :nv], K[..., nv:]))
            return Gains(Kq, Kv, k, pivot, decrease), (xx, p)
        steps = [each[:, :T] for each in model]
        last = [model.qq[:, T], model.qv[:, T], model.vv[:, T], model.q[:, T], model.v[:, T]]
        times = self.dynamics.dt, self.dynamics.pace
        start = np.full(N, np.inf), np.zeros(N)
        found = self._riccati(*linear[:3], *times, *linear[3:5], *gap, *steps, damping, *last, *start)
        return Gains(*found[:3], *found[-2:]), found[3:8]

    def step(self, linear: Linear, gap: Gap, model: NodeModel, gains: Gains, later: Later, damping: Array) -> Step:
        """The forward sweep of the linear model."""
        T = self.T
        if isinstance(self.dynamics, DenseDynamics):
            A, _, B, *_ = linear
            _, _, l, _, lu = _wide(model)
            d, K, nv = np.concatenate(gap, axis=-1), np.concatenate(gains[:2], axis=-1), self.nv
            dense = A, B, d, K, gains.k, *later, l[:, :T], lu[:, :T], l[:, T], damping
            dx, du, w, slope, curve = self._dense_forward(*map(np.ascontiguousarray, dense))
            return self._stepped(dx[..., :nv], dx[..., nv:], du, w[..., :nv], w[..., nv:], slope, curve)
        slopes = [model.q[:, :T], model.v[:, :T], model.u[:, :T], model.q[:, T], model.v[:, T]]
        times = self.dynamics.dt, self.dynamics.pace
        found = self._forward(*linear[:3], *times, *linear[3:5], *gap, *gains[:3], *later, *slopes, damping)
        return self._stepped(*found)

    def _stepped(self, dq: Array, dv: Array, du: Array, wq: Array, wv: Array, slope: Array, curve: Array) -> Step:
        """Steps of all nodes: the first state stays."""
        whole = np.zeros((2, len(dq), self.T + 1, self.nv))
        whole[0, :, 1:], whole[1, :, 1:] = dq, dv
        return Step(whole[0], whole[1], du, slope, curve, wq, wv)

    def fuses(self, exact: bool) -> bool:
        """Whether there is `direction`."""
        return (not exact or self.costs.bends_by_texts) and not isinstance(self.dynamics, DenseDynamics)

    def together(self, problems: int) -> int:
        """How many nodes of some problems `direction` computes at once: one, if lanes are problems.

        They are if problems fill them, and what all lanes need for a step of the sweep fits the second-level cache.
        """
        return 1 if problems >= TOGETHER and self._small else TOGETHER

    @cached_property
    def _small(self) -> bool:
        one: Binding = compiled(euler_riccati, **{**self._sweep, "T": 1}).bound().binding
        return 8 * TOGETHER * one.footprint <= _CACHE

    def direction(
        self, x: Path, gap: Gap, given: Given, damping: Array, costate: Sequence[Array], share: Array | None
    ) -> tuple[Gains, Step, Array]:
        """Gains and step of many problems, with a share of curvature or none; and which of them are in doubt."""
        q, v, u, *others = self.costs.inputs(x, given, True)
        second = [] if share is None else [*costate, share]
        found = self._fused(share is not None, self.together(len(damping)))(q, v, u, *gap, damping, *second, *others)
        return Gains(*found[:5]), self._stepped(*found[5:-1]), found[-1] > 0.0

    def moved(self, x: Path, step: Step, share: Array) -> Path:
        """States along the linear prediction."""
        s = share[:, None, None]
        return Path(self.robot.integrate(x.q, s * step.q), x.v + s * step.v, x.u + s * step.u, x.force)

    def rolled(self, x: Path, gap: Gap, gains: Gains, share: Array) -> Path:
        """States that follow the dynamics under the gains; gaps close by 1 − share."""
        q, v, u = self._rollout(x.q, x.v, x.u, *gap, *gains[:3], self.dynamics.dt, share)
        return Path(q, v, u, x.force)

    @cached_property
    def _rollout(self) -> Compiled:
        T, S, nq, nv, nu, robot = self.T, self.T + 1, self.robot.nq, self.nv, self.nu, self.robot
        inputs = [
            Operand("q", (S, nq)), Operand("v", (S, nv)), Operand("u", (T, nu)), Operand("gap_q", (T, nv)),
            Operand("gap_v", (T, nv)), Operand("Kq", (T, nu, nv)), Operand("Kv", (T, nu, nv)), Operand("k", (T, nu)),
            Operand("dt", (T,)), Operand("share", ()),
        ]  # fmt: skip
        outputs = [Operand("q", (S, nq)), Operand("v", (S, nv)), Operand("u", (T, nu))]
        run = KernelSequence("rollout", inputs, outputs)
        q, v, u, gap_q, gap_v, Kq, Kv, k, dt, share = run.inputs
        qs, vs, us = run.outputs
        control, rest = compiled(feedback, nv=nv, nu=nu), compiled(kept_gap, nv=nv)
        run.copy(q.part(0, nq), qs.part(0, nq))
        run.copy(v.part(0, nv), vs.part(0, nv))
        for first, count, kind in self.dynamics.runs:
            with run.loop(count) as t:
                here, after = partial(_node, t, first, count), partial(_node, t, first + 1, count)
                away = run.call(robot.difference, here(q, nq), here(qs, nq))
                plan = [here(v, nv), here(u, nu), here(Kq, nu * nv), here(Kv, nu * nv), here(k, nu)]
                now = run.call(control, *plan, away, here(vs, nv), share, into=[here(us, nu)])
                tau = record_forces(run, self.dynamics, now)
                reached, rate = self.dynamics.record(run, kind, here(qs, nq), here(vs, nv), tau, here(dt, 1))
                back, _ = run.call(rest, here(gap_q, nv), here(gap_v, nv), rate, share, into=[None, after(vs, nv)])
                run.call(robot.integrate, reached, back, 1.0, into=[after(qs, nq)])
        return run.finish()


def _node(t: Index, first: int, count: int, nodes: MemorySpan, size: int) -> MemorySpan:
    """What a node of a loop over some has in an array of all nodes."""
    return nodes.part(first * size, count * size).at(t, size)


def _wide(model: NodeModel) -> tuple[Array, Array, Array, Array, Array]:
    """Models of whole states: Hxx, Hux, lx, Huu, lu."""
    left, right = (np.concatenate(x, axis=-1) for x in ((model.qq, model.qv), (model.qv.swapaxes(-1, -2), model.vv)))
    wide = np.concatenate([model.uq, model.uv], axis=-1)
    return np.concatenate([left, right], axis=-2), wide, np.concatenate([model.q, model.v], -1), model.uu, model.u
