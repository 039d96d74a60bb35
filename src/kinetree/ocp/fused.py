"""An iteration's model, backward and forward sweep as one function, with nodes or problems in lanes.

It goes through the nodes from the last on, and computes what they need just before the sweep uses it, by one function
for each kind of step: of a single problem for several nodes at once, which lanes run, of many problems for one node of
all lanes. The texts are the same, and so are the bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from kinetree.algorithms.derivatives.inverse_dynamics_curvature import inverse_dynamics_curvature
from kinetree.kernels.euler_riccati import euler_forward, euler_riccati
from kinetree.kernels.node_costs import moved_on, product, pushed, with_curvature
from kinetree.kernels.node_models import largest_of, with_share
from kinetree.kernels.solve import count_doubt
from kinetree.ocp.costs import Costs, NodeModel
from kinetree.ocp.linearization import Linear, Linearization, record_forces
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import Function, compiled
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import Call, Index, KernelSequence, MemorySpan
from kinetree.runtime.texts import Recording

#: Derivatives and the model of a node, as the backward sweep calls them.
_LINEAR = ("a_q", "a_v", "a_u", "turn", "drift")
_MODEL = ("Hqq", "Hqv", "Hvv", "Huq", "Huv", "Huu", "lq", "lv", "lu")
#: What the backward sweep goes on from.
_ENDS = ("end_qq", "end_qv", "end_vv", "end_q", "end_v", "end_pivot", "end_decrease")
_NEXT = ("next_qq", "next_qv", "next_vv", "next_q", "next_v")
#: Nodes of a single problem at once: as many as the widest lanes.
TOGETHER = 8
#: Inputs of nodes besides those of costs, and of curvature.
_STATE, _SECOND = ("q", "v", "u", "gap_q", "gap_v"), ("costate_q", "costate_v", "share")


def direction(
    linearization: Linearization, costs: Costs, sweep: dict[str, Any], exact: bool, together: int
) -> Compiled:
    """From states, inputs, gaps, damping, costates and share if `exact`, and what costs take, to gains and a step.

    Results are Kq, Kv, k, pivot, decrease; dq, dv of the nodes reached, du, costates, slope and curve; and whether
    constraints of some node may depend on each other, so that the problem has to be computed in another way.

    Args:
        linearization: Derivatives of steps.
        costs: Costs of all nodes.
        sweep: Sizes and lists of the sweeps.
        exact: Whether models have curvature; of robots whose coordinates are numbers, without contacts.
        together: Number of nodes that lanes run at once, or one, if lanes are problems.
    """
    return _Recorded(linearization, costs, sweep, exact, together).finish()


def record_curvature(
    run: KernelSequence, linearization: Linearization, given: Sequence[Any], into: Sequence[MemorySpan]
) -> None:
    """Second derivatives qq, qv, qa and vv of a step for one node, given q, v, τ, costates, dt: see `with_curvature`.

    Those of accelerations are exact. A configuration q exp(φ) exp(dt v′ + ψ) is ahead of q exp(dt v′) by
    φ + ψ + ½ [φ, ψ] + …, where terms of the order of dt v′ are left out.
    """
    (q, v, tau, wq, wv, dt), robot, entries = given, linearization.robot, linearization.entries
    nv, nb, text = robot.nv, len(entries), Recording(run)
    a = run.call(robot.forward_dynamics, q, v, tau)
    w = run.call(robot.mass_matrix_solve, q, run.call(compiled(pushed, n=nv), wq, wv, dt))
    if robot.mechanism.first_general is None and all(joint.nv == 1 for joint in robot.joints):
        second: Function[..., Any] = Function("curvature", robot.mechanism, inverse_dynamics_curvature)
        run.call(second, q, v, a, w, into=into)
        return
    units, none, (qq, qv, qa, vv) = run.constant(np.eye(nv)), np.zeros(nv), into
    with run.loop(nv) as i:
        along = units.at(i, nv)
        places = [x.at(i, nv) for x in (qq, qv, qa)]
        run.call(robot.inverse_dynamics.hvp, q, v, a, w, along, none, none, into=places)
        _, by_v, _ = run.call(robot.inverse_dynamics.vjp, q, along, none, w)
        run.copy(by_v, vv.at(i, nv))
    if nb:
        twist = run.call(compiled(product, m=nb * nb, n=nb), linearization.torsion, text.taken(wq, entries))
        twist = text.placed(twist, entries[:, None] * nv + entries, (nv, nv))
        turned = compiled(moved_on, n=nv * nv)
        later = run.call(turned, np.zeros(nv * nv), twist, dt)
        run.call(turned, qv, later, 1.0, into=[qv])
        run.call(turned, qa, later, dt, into=[qa])


def node_function(linearization: Linearization, costs: Costs, kind: int, exact: bool) -> Compiled:
    """Derivatives and the model of a node of a kind of step, in the order of `_LINEAR` and `_MODEL`, and doubts.

    Takes q, v, u, the gap of q, dt and pace; if `exact`, costates and a share of curvature; and what costs take.
    """
    dynamics, robot = linearization.dynamics, linearization.robot
    nv, nu = robot.nv, len(dynamics.actuated)
    names: dict[str, tuple[int, ...]] = {"q": (robot.nq,), "v": (nv,), "u": (nu,), "gap_q": (nv,)}
    names |= dict.fromkeys(("dt", "pace"), ())
    names |= {"costate_q": (nv,), "costate_v": (nv,), "share": ()} if exact else {}
    shapes = [*linearization.shapes[:5], *costs.shapes, ()]
    outputs = [Operand(*each) for each in zip((*_LINEAR, *_MODEL, "doubts"), shapes, strict=True)]
    run = KernelSequence("node", [*(Operand(*each) for each in names.items()), *costs.given_operands], outputs)
    q, v, u, gap_q, dt, pace, *others = run.inputs
    tau, near = record_forces(run, dynamics, u), not dynamics.regular(kind)
    forces = [run.space(shape[0] * shape[1]) for shape in linearization.shapes[5:]]
    linear = Linear(*run.outputs[:5], *forces)
    spread = linearization.record(run, kind, near, (q, v, tau, gap_q, dt, pace), linear)
    run.call(compiled(count_doubt), spread, 0.0, into=run.outputs[-1:])
    places: list[MemorySpan] = run.outputs[5:-1]
    second = others[:3] if exact else []
    given = (q, v, u, *costs.with_forces(others[len(second) :], forces))
    if not exact:
        costs.model_text(Recording(run, places), *given, concluding=True)
        return run.finish()
    # what curvature adds to is made where it is added
    curved = run.prepare(compiled(with_curvature, nv=nv, nu=nu))
    plain = [place_of(curved, name) for name in _MODEL[:4]]
    costs.model_text(Recording(run, [*plain, *places[4:]]), *given, concluding=True)
    record_curvature(
        run, linearization, (q, v, tau, *second[:2], dt), [place_of(curved, n) for n in ("qq", "qv", "qa", "vv")]
    )
    bend = costs.bend_text(Recording(run), *costs.without_rows(given))
    run.copy(bend[0] if bend else run.constant(np.zeros(nv * nv)), place_of(curved, "bend"))
    for name, place in zip(("a_q", "a_v", "a_u", "share"), (*linear[:3], second[2]), strict=True):
        run.copy(place, place_of(curved, name))
    curved.run(*[None] * len(curved.inputs), into=places[:4])
    return run.finish()


def place_of(call: Call, name: str) -> MemorySpan:
    """The place of an input that there is."""
    place = call.place(name)
    if place is None:
        raise KeyError(name)
    return place


class _Recorded:
    def __init__(
        self, linearization: Linearization, costs: Costs, sweep: dict[str, Any], exact: bool, together: int
    ) -> None:
        self.linearization, self.costs, self.sweep, self.exact = linearization, costs, sweep, exact
        self.together = together
        self.dynamics, self.robot = linearization.dynamics, linearization.robot
        self.T, self.nv, self.nu = len(self.dynamics.dt), self.robot.nv, len(self.dynamics.actuated)
        T, S, nv, nu = self.T, self.T + 1, self.nv, self.nu
        names: dict[str, tuple[int, ...]] = {"q": (S, self.robot.nq), "v": (S, nv), "u": (S, nu)}
        names |= {"gap_q": (T, nv), "gap_v": (T, nv), "damping": ()}
        names |= {"costate_q": (T, nv), "costate_v": (T, nv), "share": ()} if exact else {}
        wide = (T, nu, nv)
        results: dict[str, tuple[int, ...]] = {"Kq": wide, "Kv": wide, "k": (T, nu), "pivot": (), "decrease": ()}
        results |= {"dq": (T, nv), "dv": (T, nv), "du": (T, nu), "wq": (T, nv), "wv": (T, nv), "slope": (), "curve": ()}
        results |= {"doubts": ()}
        inputs = [Operand(*each) for each in names.items()]
        self.run = run = KernelSequence(
            "direction", [*inputs, *(Operand(o.name, (S, *o.shape)) for o in costs.given_operands)],
            [Operand(*each) for each in results.items()],
        )  # fmt: skip
        self.given = dict(zip(names, run.inputs, strict=False))
        self.of_nodes = run.inputs[len(names) :]
        self.results = dict(zip(results, run.outputs, strict=True))
        self.dt, self.pace = run.constant(self.dynamics.dt), run.constant(self.dynamics.pace)
        self.doubts = run.space(T)
        self.ahead = run.prepare(self._kernel(euler_forward, T))
        self.back = cache(self._prepared)
        self._made = cache(partial(node_function, linearization, costs, exact=exact))

    def _kernel(self, kernel: Any, steps: int) -> Any:
        return compiled(kernel, **{**self.sweep, "T": steps})

    def _prepared(self, steps: int) -> Call:
        """The backward sweep of some steps."""
        back = self.run.prepare(self._kernel(euler_riccati, steps))
        self._put(back, "damping", self.given["damping"])
        return back

    def finish(self) -> Compiled:
        run, given = self.run, self.given
        self._put(self.ahead, "damping", given["damping"])
        for name in ("gap_q", "gap_v"):
            self._put(self.ahead, name, given[name])
        self._put(self.ahead, "dt", self.dt)
        self._put(self.ahead, "pace", self.pace)
        last = self._last()
        starts: list[Any] = [last.qq, last.qv, last.vv, last.q, last.v]
        for name, place in zip(("end_q", "end_v"), starts[3:], strict=True):
            self._put(self.ahead, name, place)
        starts += [run.constant(np.array(np.inf)), run.constant(np.zeros(1))]
        #: What the sweep has found so far.
        self.ends = [run.variable(place) for place in starts]
        for first, count, kind in reversed(self.dynamics.runs):
            whole, rest = divmod(count, self.together)
            if whole:
                with run.loop(whole) as i:
                    self._nodes(kind, first + count - self.together, self.together, i)
            if rest:
                with run.loop(1) as i:
                    self._nodes(kind, first, rest, i)
        for name, end in zip(("pivot", "decrease"), self.ends[5:], strict=True):
            run.copy(end, self.results[name])
        run.call(compiled(largest_of, n=self.T), self.doubts, into=[self.results["doubts"]])
        into = [self.results[name] for name in ("dq", "dv", "du", "wq", "wv", "slope", "curve")]
        self.ahead.run(*[None] * len(self.ahead.inputs), into=into)
        return run.finish()

    def _nodes(self, kind: int, first: int, count: int, i: Index) -> None:
        """Steps of the backward sweep: some nodes, as many before them in the next round of a loop, and so on."""
        run, T, S, back, ahead = self.run, self.T, self.T + 1, self.back(count), self.ahead

        def at(place: MemorySpan, nodes: int = T) -> MemorySpan:
            """Their part of an array of nodes."""
            size = place.size // nodes
            return place.part(first * size, count * size).at(i, count * size, -count * size)

        state = [at(self.given[name], S if name in ("q", "v", "u") else T) for name in _STATE]
        times = at(self.dt), at(self.pace)
        second = [at(self.given[name]) for name in _SECOND[:2]] + [self.given["share"]] if self.exact else []
        needed = [*state[:4], *times, *second, *(at(place, S) for place in self.of_nodes)]
        into = [*(place_of(back, name) for name in (*_LINEAR, *_MODEL)), at(self.doubts)]
        if self.together > 1:
            run.batch(self._made(kind), count, *needed, into=into)
        else:
            run.call(self._made(kind), *needed, into=into)
        for name, place in zip(("gap_q", "gap_v", "dt", "pace"), (*state[3:], *times), strict=True):
            self._put(back, name, place)
        for name, place in zip(_ENDS, self.ends, strict=True):
            self._put(back, name, place)
        kept = [at(place_of(ahead, name)) for name in ("Kq", "Kv", "k_u", *_NEXT)]
        found = back.run(*[None] * len(back.inputs), into=[*kept, *self.ends])
        for name, place in zip(("Kq", "Kv", "k"), found[:3], strict=True):
            run.copy(place, at(self.results[name]))
        for name in (*_LINEAR, "lq", "lv", "lu"):
            if place_of(back, name).size:
                run.copy(place_of(back, name), at(place_of(ahead, name)))

    def _last(self) -> NodeModel:
        """The model of the last node, which has no forces."""
        run, S = self.run, self.T + 1
        places = [*(self.given[name] for name in ("q", "v", "u")), *self.of_nodes]
        q, v, u, *others = (place.part((S - 1) * (place.size // S), place.size // S) for place in places)
        forces = [np.zeros(shape) for shape in self.linearization.shapes[5:]]
        given, text = (q, v, u, *self.costs.with_forces(others, forces)), Recording(run)
        plain = NodeModel(*self.costs.model_text(text, *given))
        bend = self.costs.bend_text(text, *self.costs.without_rows(given)) if self.exact else []
        if not bend:
            return plain
        bent = run.call(compiled(with_share, n=plain.qq.size), plain.qq, bend[0], self.given["share"])
        return plain._replace(qq=bent)

    def _put(self, call: Call, name: str, place: MemorySpan) -> None:
        self.run.copy(place, place_of(call, name))
