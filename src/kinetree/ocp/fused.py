"""An iteration's model, backward and forward sweep as one function, with a problem in each lane.

A single problem has its nodes in lanes: derivatives and costs of all of them, then the sweeps. Of many problems, such
arrays would not fit the caches. Here each lane goes through its nodes from the last on, and what a node needs is
computed just before the sweep uses it. The functions are the same, and so are the bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.kernels.euler_riccati import euler_forward, euler_riccati
from kinetree.kernels.node_costs import pushed, with_curvature
from kinetree.kernels.node_models import blended
from kinetree.kernels.products import total
from kinetree.model.model import Model
from kinetree.ocp.costs import Costs, NodeModel
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import compiled
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import Call, Index, KernelSequence, MemorySpan
from kinetree.runtime.texts import Prepared, Recording

#: The model of a node, as the backward sweep calls it.
_MODEL = ("Hqq", "Hqv", "Hvv", "Huq", "Huv", "Huu", "lq", "lv", "lu")
_LINEAR = ("a_q", "a_v", "a_u")
_ENDS = ("end_qq", "end_qv", "end_vv", "end_q", "end_v", "end_pivot", "end_decrease")
_NEXT = ("next_qq", "next_qv", "next_vv", "next_q", "next_v")


def direction(robot: Model, dt: Any, actuated: Any, costs: Costs, exact: bool) -> Compiled:
    """From states, inputs, gaps, damping, costates and share if `exact`, and what costs take, to gains and a step.

    Results are Kq, Kv, k, pivot, decrease; dq, dv of the nodes reached, du, costates, slope and curve.

    Args:
        robot: A robot whose coordinates are numbers, without contacts.
        dt: Time steps, (T,).
        actuated: Numbers of the velocities that have motors.
        costs: Costs of all nodes.
        exact: Whether models have curvature.
    """
    return _Recorded(robot, np.asarray(dt), np.asarray(actuated), costs, exact).finish()


def node_curvature(run: KernelSequence, robot: Model, *given: Any) -> list[MemorySpan]:
    """Second derivatives qq, qv, qa and vv of wᵀa for one node, given q, v, τ, costates, dt: see `with_curvature`."""
    q, v, tau, wq, wv, dt = given
    nv = robot.nv
    a = run.call(robot.forward_dynamics, q, v, tau)
    w = run.call(robot.mass_matrix_solve, q, run.call(compiled(pushed, n=nv), wq, wv, dt))
    units, none = run.constant(np.eye(nv)), np.zeros(nv)
    qq, qv, qa, vv = (run.space(nv * nv) for _ in range(4))
    with run.loop(nv) as i:
        along = units.at(i, nv)
        places = [x.at(i, nv) for x in (qq, qv, qa)]
        run.call(robot.inverse_dynamics.hvp, q, v, a, w, along, none, none, into=places)
        _, by_v, _ = run.call(robot.inverse_dynamics.vjp, q, along, none, w)
        run.copy(by_v, vv.at(i, nv))
    return [qq, qv, qa, vv]


class _Recorded:
    def __init__(self, robot: Model, dt: Any, actuated: Any, costs: Costs, exact: bool) -> None:
        self.robot, self.costs, self.exact, self.actuated = robot, costs, exact, actuated
        self.T, self.nv, self.nu = len(dt), robot.nv, len(actuated)
        T, S, nv, nu = self.T, self.T + 1, self.nv, self.nu
        names: dict[str, tuple[int, ...]] = {"q": (S, robot.nq), "v": (S, nv), "u": (S, nu)}
        names |= {"gap_q": (T, nv), "gap_v": (T, nv), "damping": ()}
        names |= {"costate_q": (T, nv), "costate_v": (T, nv), "share": ()} if exact else {}
        of_costs = costs.operands(True)[3:]
        wide = (T, nu, nv)
        results: dict[str, tuple[int, ...]] = {"Kq": wide, "Kv": wide, "k": (T, nu), "pivot": (), "decrease": ()}
        results |= {"dq": (T, nv), "dv": (T, nv), "du": (T, nu), "wq": (T, nv), "wv": (T, nv), "slope": (), "curve": ()}
        inputs = [Operand(*each) for each in names.items()]
        self.run = run = KernelSequence(
            "direction", [*inputs, *(Operand(o.name, (S, *o.shape)) for o in of_costs)],
            [Operand(*each) for each in results.items()],
        )  # fmt: skip
        self.given = dict(zip(names, run.inputs, strict=False))
        self.of_costs = [(place, o.size) for place, o in zip(run.inputs[len(names) :], of_costs, strict=True)]
        self.results = dict(zip(results, run.outputs, strict=True))
        self.dt = run.constant(dt)
        self._step = self._kernel(euler_riccati, 1)
        self.back = run.prepare(self._step)
        self.ahead = run.prepare(self._kernel(euler_forward, T))
        self.tau = run.variable(run.constant(np.zeros(nv)))

    def _kernel(self, kernel: Any, steps: int) -> Any:
        return compiled(kernel, T=steps, nv=self.nv, nu=self.nu, nb=0, threes=(), sixes=())

    def finish(self) -> Compiled:
        run, T, given = self.run, self.T, self.given
        self._put(self.back, "damping", given["damping"])
        self._put(self.ahead, "damping", given["damping"])
        for name in ("gap_q", "gap_v"):
            self._put(self.ahead, name, given[name])
        for name in ("dt", "pace"):
            self._put(self.ahead, name, self.dt)
        self._put(self.back, "end_pivot", run.constant(np.array(np.inf)))
        self._put(self.back, "end_decrease", run.constant(np.zeros(1)))
        last = self._model(None, None)
        for name, place in zip(_ENDS[:5], (last.qq, last.qv, last.vv, last.q, last.v), strict=True):
            self._put(self.back, name, place)
        for name, place in (("end_q", last.q), ("end_v", last.v)):
            self._put(self.ahead, name, place)
        with run.loop(T) as i:
            self._node(i)
        for name, place in (
            ("pivot", self._at(self.back, "end_pivot")),
            ("decrease", self._at(self.back, "end_decrease")),
        ):
            run.copy(place, self.results[name])
        into = [self.results[name] for name in ("dq", "dv", "du", "wq", "wv", "slope", "curve")]
        self.ahead.run(*[None] * len(self.ahead.inputs), into=into)
        return run.finish()

    def _node(self, i: Index) -> None:
        """A step of the backward sweep."""
        run, nv, nu, T = self.run, self.nv, self.nu, self.T
        q, v, u = (self._back_from(self.given[name], i, T + 1, 1) for name in ("q", "v", "u"))
        dt = self._back_from(self.dt, i, T)
        tau = self._forces(u)
        full = nu == nv and bool((self.actuated == np.arange(nv)).all())
        places = [self._at(self.back, name) for name in _LINEAR[: 2 + full]]
        linear = run.call(self.robot.forward_dynamics_derivatives, q, v, tau, into=[*places, None][:3])
        if not full:
            columns = np.arange(nv)[:, None] * nv + self.actuated
            linear = [*linear[:2], Recording(run).taken(linear[2], columns)]
            self._put(self.back, "a_u", linear[2])
        model = self._model(i, (q, v, tau, dt, linear))
        for name, place in zip(_MODEL, model, strict=True):
            if place != self._at(self.back, name):
                self._put(self.back, name, place)
        for name in ("gap_q", "gap_v"):
            self._put(self.back, name, self._back_from(self.given[name], i, T))
        for name in ("dt", "pace"):
            self._put(self.back, name, dt)
        kept = [self._back_from(self._at(self.ahead, name), i, T) for name in ("Kq", "Kv", "k_u", *_NEXT)]
        found = self.back.run(*[None] * len(self.back.inputs), into=[*kept, *[None] * len(_ENDS)])
        gains, ends = found[:3], found[8:]
        for name, place in zip(("Kq", "Kv", "k"), gains, strict=True):
            run.copy(place, self._back_from(self.results[name], i, T))
        slopes = zip(("lq", "lv", "lu"), model[6:], strict=True)
        for name, place in (*zip(_LINEAR, linear, strict=True), *slopes):
            run.copy(place, self._back_from(self._at(self.ahead, name), i, T))
        for name, place in zip(_ENDS, ends, strict=True):
            self._put(self.back, name, place)

    def _model(self, i: Index | None, step: Any) -> Any:
        """The model of a node; of the last one without an index."""
        run, text, S, exact = self.run, Recording(self.run), self.T + 1, self.exact
        places = [*((self.given[name], self.given[name].size // S) for name in ("q", "v", "u")), *self.of_costs]
        if i is None:
            given = [place.part((S - 1) * size, size) for place, size in places]
        else:
            given = [self._back_from(place, i, S, 1) for place, _ in places]
        if not exact:
            into = None if i is None else (Prepared(self._step, self.back), _MODEL)
            return NodeModel(*self.costs.model_text(text, *given, into=into))
        plain = NodeModel(*self.costs.model_text(text, *given))
        full = plain
        bend = self.costs.bend_text(text, *self.costs.without_rows(given))
        if bend:
            full = full._replace(qq=text(compiled(total, n=plain.qq.size), plain.qq, bend[0]))
        if step is not None and i is not None:
            q, v, tau, dt, linear = step
            costates = [self._back_from(self.given[name], i, self.T) for name in ("costate_q", "costate_v")]
            second = node_curvature(run, self.robot, q, v, tau, *costates, dt)
            bent = run.call(
                compiled(with_curvature, nv=self.nv, nu=self.nu), *linear, *second, 1.0, full.qq, full.qv, full.vv,
                full.uq,
            )  # fmt: skip
            full = full._replace(qq=bent[0], qv=bent[1], vv=bent[2], uq=bent[3])
        share = self.given["share"]
        return NodeModel(
            *(
                one if one is other else run.call(compiled(blended, n=one.size), one, other, share)
                for one, other in zip(plain, full, strict=True)
            )
        )

    def _forces(self, u: MemorySpan) -> MemorySpan:
        for number, joint in enumerate(self.actuated.tolist()):
            self.run.copy(u.part(number, 1), self.tau.part(joint, 1))
        return self.tau

    def _back_from(self, place: MemorySpan, i: Index, nodes: int, skipped: int = 0) -> MemorySpan:
        """A node's part of an array of nodes, from the last on; the first of these are skipped."""
        size = place.size // nodes
        return place.part((nodes - 1 - skipped) * size, size).at(i, size, -size)

    def _at(self, call: Call, name: str) -> MemorySpan:
        place = call.place(name)
        if place is None:
            raise KeyError(name)
        return place

    def _put(self, call: Call, name: str, place: MemorySpan) -> None:
        self.run.copy(place, self._at(call, name))
