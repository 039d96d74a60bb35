"""An iteration's model, backward and forward sweep as one function, with a problem in each lane.

A single problem has its nodes in lanes: derivatives and costs of all of them, then the sweeps. Of many problems, such
arrays would not fit the caches. Here each lane goes through its nodes from the last on, and what a node needs is
computed just before the sweep uses it, by one function for each kind of step. The texts are the same, and so are the
bits.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from kinetree.kernels.euler_riccati import euler_forward, euler_riccati
from kinetree.kernels.node_costs import pushed, with_curvature
from kinetree.kernels.node_models import blended
from kinetree.kernels.products import total
from kinetree.kernels.solve import count_doubt
from kinetree.model.model import Model
from kinetree.ocp.costs import Costs, NodeModel
from kinetree.ocp.linearization import Linear, Linearization, record_forces
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import compiled
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import Call, KernelSequence, MemorySpan
from kinetree.runtime.texts import Recording

#: Derivatives and the model of a node, as the backward sweep calls them.
_LINEAR = ("a_q", "a_v", "a_u", "turn", "drift")
_MODEL = ("Hqq", "Hqv", "Hvv", "Huq", "Huv", "Huu", "lq", "lv", "lu")
_ENDS = ("end_qq", "end_qv", "end_vv", "end_q", "end_v", "end_pivot", "end_decrease")
_NEXT = ("next_qq", "next_qv", "next_vv", "next_q", "next_v")
#: Inputs of nodes besides those of costs, and of curvature.
_STATE, _SECOND = ("q", "v", "u", "gap_q", "gap_v"), ("costate_q", "costate_v", "share")


def direction(linearization: Linearization, costs: Costs, sweep: dict[str, Any], exact: bool) -> Compiled:
    """From states, inputs, gaps, damping, costates and share if `exact`, and what costs take, to gains and a step.

    Results are Kq, Kv, k, pivot, decrease; dq, dv of the nodes reached, du, costates, slope and curve; and how many
    nodes have constraints that may depend on each other, so that the problem has to be computed in another way.

    Args:
        linearization: Derivatives of steps.
        costs: Costs of all nodes.
        sweep: Sizes and lists of the sweeps.
        exact: Whether models have curvature; of robots whose coordinates are numbers, without contacts.
    """
    return _Recorded(linearization, costs, sweep, exact).finish()


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
    def __init__(self, linearization: Linearization, costs: Costs, sweep: dict[str, Any], exact: bool) -> None:
        self.linearization, self.costs, self.sweep, self.exact = linearization, costs, sweep, exact
        self.dynamics, self.robot = linearization.dynamics, linearization.robot
        self.T, self.nv, self.nu = len(self.dynamics.dt), self.robot.nv, len(self.dynamics.actuated)
        T, S, nv, nu = self.T, self.T + 1, self.nv, self.nu
        self.of_costs = [operand for operand in costs.operands(True)[3:] if operand.name != "force_by"]
        names: dict[str, tuple[int, ...]] = {"q": (S, self.robot.nq), "v": (S, nv), "u": (S, nu)}
        names |= {"gap_q": (T, nv), "gap_v": (T, nv), "damping": ()}
        names |= {"costate_q": (T, nv), "costate_v": (T, nv), "share": ()} if exact else {}
        wide = (T, nu, nv)
        results: dict[str, tuple[int, ...]] = {"Kq": wide, "Kv": wide, "k": (T, nu), "pivot": (), "decrease": ()}
        results |= {"dq": (T, nv), "dv": (T, nv), "du": (T, nu), "wq": (T, nv), "wv": (T, nv), "slope": (), "curve": ()}
        results |= {"doubts": ()}
        inputs = [Operand(*each) for each in names.items()]
        self.run = run = KernelSequence(
            "direction", [*inputs, *(Operand(o.name, (S, *o.shape)) for o in self.of_costs)],
            [Operand(*each) for each in results.items()],
        )  # fmt: skip
        self.given = dict(zip(names, run.inputs, strict=False))
        self.of_nodes = run.inputs[len(names) :]
        self.results = dict(zip(results, run.outputs, strict=True))
        self.dt, self.pace = run.constant(self.dynamics.dt), run.constant(self.dynamics.pace)
        self.doubts = run.variable(run.constant(np.zeros(1)))
        self.back, self.ahead = (run.prepare(self._kernel(*each)) for each in ((euler_riccati, 1), (euler_forward, T)))
        self._made = cache(self._function)

    def _kernel(self, kernel: Any, steps: int) -> Any:
        return compiled(kernel, **{**self.sweep, "T": steps})

    def finish(self) -> Compiled:
        run, given = self.run, self.given
        for call in (self.back, self.ahead):
            self._put(call, "damping", given["damping"])
        for name in ("gap_q", "gap_v"):
            self._put(self.ahead, name, given[name])
        self._put(self.ahead, "dt", self.dt)
        self._put(self.ahead, "pace", self.pace)
        self._put(self.back, "end_pivot", run.constant(np.array(np.inf)))
        self._put(self.back, "end_decrease", run.constant(np.zeros(1)))
        last = self._last()
        ends: list[Any] = [last.qq, last.qv, last.vv, last.q, last.v]
        for name, place in zip(_ENDS, ends, strict=False):
            self._put(self.back, name, place)
        for name, place in zip(("end_q", "end_v"), ends[3:], strict=True):
            self._put(self.ahead, name, place)
        for first, count, kind in reversed(self.dynamics.runs):
            with run.loop(count) as i:

                def at(place: MemorySpan, nodes: int = self.T, end: int = first + count - 1, i: Any = i) -> MemorySpan:
                    """A node's part of an array of nodes, from the last one of the run on."""
                    size = place.size // nodes
                    return place.part(end * size, size).at(i, size, -size)

                self._node(kind, at)
        for name in ("pivot", "decrease"):
            run.copy(self._at(self.back, f"end_{name}"), self.results[name])
        run.copy(self.doubts, self.results["doubts"])
        into = [self.results[name] for name in ("dq", "dv", "du", "wq", "wv", "slope", "curve")]
        self.ahead.run(*[None] * len(self.ahead.inputs), into=into)
        return run.finish()

    def _node(self, kind: int, at: Any) -> None:
        """A step of the backward sweep."""
        run, S, back, ahead = self.run, self.T + 1, self.back, self.ahead
        state = [at(self.given[name], S if name in ("q", "v", "u") else self.T) for name in _STATE]
        times = at(self.dt), at(self.pace)
        second = [at(self.given[name]) for name in _SECOND[:2]] + [self.given["share"]] if self.exact else []
        needed = [*state[:4], *times, self.doubts, *second, *(at(place, S) for place in self.of_nodes)]
        into = [*(self._at(back, name) for name in (*_LINEAR, *_MODEL)), self.doubts]
        run.call(self._made(kind), *needed, into=into)
        for name, place in zip(("gap_q", "gap_v", "dt", "pace"), (*state[3:], *times), strict=True):
            self._put(back, name, place)
        kept = [at(self._at(ahead, name)) for name in ("Kq", "Kv", "k_u", *_NEXT)]
        found = back.run(*[None] * len(back.inputs), into=[*kept, *[None] * len(_ENDS)])
        for name, place in zip(("Kq", "Kv", "k"), found[:3], strict=True):
            run.copy(place, at(self.results[name]))
        for name in (*_LINEAR, "lq", "lv", "lu"):
            if self._at(back, name).size:
                run.copy(self._at(back, name), at(self._at(ahead, name)))
        for name, place in zip(_ENDS, found[8:], strict=True):
            self._put(back, name, place)

    def _function(self, kind: int) -> Compiled:
        """Derivatives and the model of a node, as one function for each kind of step."""
        nv = self.nv
        names: dict[str, tuple[int, ...]] = {"q": (self.robot.nq,), "v": (nv,), "u": (self.nu,), "gap_q": (nv,)}
        names |= dict.fromkeys(("dt", "pace", "doubts"), ())
        names |= {"costate_q": (nv,), "costate_v": (nv,), "share": ()} if self.exact else {}
        shapes = [*self.linearization.shapes[:5], *self.costs.shapes, ()]
        outputs = [Operand(*each) for each in zip((*_LINEAR, *_MODEL, "doubts"), shapes, strict=True)]
        run = KernelSequence("node", [*(Operand(*each) for each in names.items()), *self.of_costs], outputs)
        q, v, u, gap_q, dt, pace, doubts, *others = run.inputs
        tau, near = record_forces(run, self.dynamics, u), not self.dynamics.regular(kind)
        forces = [run.space(shape[0] * shape[1]) for shape in self.linearization.shapes[5:]]
        linear = Linear(*run.outputs[:5], *forces)
        spread = self.linearization.record(run, kind, near, (q, v, tau, gap_q, dt, pace), linear)
        run.call(compiled(count_doubt), spread, doubts, into=run.outputs[-1:])
        places = run.outputs[5:-1]
        if not self.exact:
            text = Recording(run, places)
            self.costs.model_text(text, q, v, u, *self._with_forces(others, forces), concluding=True)
            return run.finish()
        wq, wv, share, *others = others
        plain, full = self._bent(run, (q, v, u, *self._with_forces(others, forces)))
        second = node_curvature(run, self.robot, q, v, tau, wq, wv, dt)
        curved = compiled(with_curvature, nv=nv, nu=self.nu)
        bent = run.call(curved, *linear[:3], *second, 1.0, full.qq, full.qv, full.vv, full.uq)
        full = full._replace(qq=bent[0], qv=bent[1], vv=bent[2], uq=bent[3])
        self._blended(run, plain, full, share, places)
        return run.finish()

    def _with_forces(self, others: Any, forces: Any) -> list[Any]:
        """Inputs of models, with the derivatives of forces in their places."""
        return [others[0], *forces, *others[1:]] if self.costs.forced else list(others)

    def _bent(self, run: KernelSequence, given: Any) -> tuple[NodeModel, NodeModel]:
        """A node's model, and the same with the curvature of residuals."""
        text = Recording(run)
        plain = NodeModel(*self.costs.model_text(text, *given))
        bend = self.costs.bend_text(text, *self.costs.without_rows(given))
        if not bend:
            return plain, plain
        return plain, plain._replace(qq=run.call(compiled(total, n=plain.qq.size), plain.qq, bend[0]))

    def _blended(self, run: KernelSequence, plain: Any, full: Any, share: Any, into: Any) -> NodeModel:
        """A model with a share of curvature."""
        found = []
        for one, other, place in zip(plain, full, into, strict=True):
            if one is not other:
                found.append(run.call(compiled(blended, n=one.size), one, other, share, into=[place]))
            elif place is None:
                found.append(one)
            else:
                run.copy(one, place)
        return NodeModel(*found) if into[0] is None else full

    def _last(self) -> NodeModel:
        """The model of the last node, which has no forces."""
        run, S = self.run, self.T + 1
        places = [*(self.given[name] for name in ("q", "v", "u")), *self.of_nodes]
        q, v, u, *others = (place.part((S - 1) * (place.size // S), place.size // S) for place in places)
        forces = [np.zeros(shape) for shape in self.linearization.shapes[5:]]
        given = (q, v, u, *self._with_forces(others, forces))
        if not self.exact:
            return NodeModel(*self.costs.model_text(Recording(run), *given))
        return self._blended(run, *self._bent(run, given), self.given["share"], [None] * len(_MODEL))

    def _at(self, call: Call, name: str) -> MemorySpan:
        place = call.place(name)
        if place is None:
            raise KeyError(name)
        return place

    def _put(self, call: Call, name: str, place: MemorySpan) -> None:
        self.run.copy(place, self._at(call, name))
