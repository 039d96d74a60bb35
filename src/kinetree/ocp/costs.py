"""Costs of the nodes of a horizon, their quadratic models, and hard rows as an augmented Lagrangian.

Terms and limits are rows of residuals. What is written as a text runs as one compiled function of all nodes: residuals,
distances from bounds, and what `kinetree.kernels.node_models` makes of them. Functions of users are called before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError
from kinetree.kernels.node_costs import matrix_product, product
from kinetree.kernels.node_models import (
    difference,
    force_model,
    half_squares,
    largest_of,
    node_model,
    outside,
    products,
)
from kinetree.model.model import Model
from kinetree.ocp.dynamics import Dynamics
from kinetree.ocp.terms import CostTerm, Part, Scope, texted
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import compiled
from kinetree.runtime.operands import Operand
from kinetree.runtime.texts import Text, recorded
from kinetree.spatial.value import Array

#: What steps have, and the last node has not.
_OF_STEPS = ("u", "force")
#: Steps of central differences of gradients.
_STEP = 1e-5


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


class Row(NamedTuple):
    """Rows of a term, or of a limit, on the nodes of a horizon.

    Attributes:
        name: That of the term or limit.
        term: Number of the term; None of a limit.
        part: The residual.
        weight: Weights, (T + 1, size); of hard rows the first penalty, or one where a limit is in force, else zero.
        lower: What residuals may be, (size,); None if they cost something wherever they are not zero.
        upper: See `lower`.
        hard: Whether bounds hold, rather than cost something.
    """

    name: str
    term: int | None
    part: Part
    weight: Array
    lower: Array | None = None
    upper: Array | None = None
    hard: bool = False


@dataclass(frozen=True, eq=False)
class Bounds:
    """Multipliers y and penalties ρ of hard rows, (N, T + 1, size): a row costs ½ ρ d², d the distance of r + y/ρ.

    Attributes:
        row: The rows.
        multipliers: y.
        penalty: ρ, zero where rows are not in force.
        first: ρ at first.
    """

    row: Row
    multipliers: Array
    penalty: Array
    first: Array

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """Multipliers, penalties, and those at first."""
        return self.multipliers, self.penalty, self.first

    def some(self, which: Any) -> Bounds:
        """Those of some problems."""
        return Bounds(self.row, *(x[which] for x in self.arrays))

    @property
    def shift(self) -> Array:
        """y/ρ."""
        return self.multipliers / np.where(self.penalty > 0.0, self.penalty, 1.0)


class Given(NamedTuple):
    """What the costs of N problems depend on besides states and inputs, for each row: (N, T + 1, …)."""

    targets: list[Any]
    weights: list[Any]
    shifts: list[Any]

    def some(self, which: Any) -> Given:
        """That of some problems."""
        return Given(*([None if x is None else x[which] for x in each] for each in self))


class Costs:
    """Costs of all nodes of a problem.

    Args:
        robot: The robot.
        nu: Number of inputs.
        dynamics: What steps do.
        terms: The terms.
        limits: Rows of limits.
    """

    def __init__(
        self, robot: Model, nu: int, dynamics: Dynamics, terms: Sequence[CostTerm], limits: Sequence[Row] = ()
    ) -> None:
        self.robot, self.nv, self.nu, self.nf, self.terms = robot, robot.nv, nu, dynamics.forces, tuple(terms)
        self.S, scope = len(dynamics.dt) + 1, Scope(robot, nu, dynamics.feet)
        self.rows = [row for number, term in enumerate(terms) for row in _rows(scope, dynamics, number, term)]
        self.rows += limits
        if dynamics.impacts.any():  # inputs of impacts do nothing, and stay as they are
            still = np.tile(1.0 * np.append(dynamics.impacts, False)[:, None], (1, nu))
            self.rows.append(Row("impacts", None, texted(scope, "u", nu, None, lambda *_: np.zeros(nu)), still))
        #: Whether some rows depend on forces.
        self.forced = any(row.part.of == "force" for row in self.rows)
        self.hard = [number for number, row in enumerate(self.rows) if row.hard]
        self._made = cache(self._recorded)

    # What problems are given

    def targets(self, given: dict[str, Any], batch: tuple[int, ...]) -> list[Any]:
        """Targets of all rows for a flat batch of problems, one for each node."""
        problems, found = int(np.prod(batch, dtype=int)), list[Any]()
        aims = [term.target(self.robot, given.get(term.name)) for term in self.terms]
        for row in self.rows:
            aim = None if row.term is None else aims[row.term]
            if aim is None:
                found.append(None)
                continue
            axes, term = getattr(self.terms[row.term or 0], "axes", 1), self.terms[row.term or 0]
            nodes = self.S - (row.part.of in _OF_STEPS)
            core = row.part.target or (aim.shape[aim.ndim - axes :] if aim.ndim >= axes else (row.part.size,))
            core = (row.part.size,) if row.part.of == "force" else core
            whole = np.empty((problems, self.S, *core))
            own: Any = (..., slice(nodes), *[slice(None)] * len(core))
            try:
                whole.reshape(*batch, self.S, *core)[own] = aim
            except ValueError:
                raise InputError(
                    f"the target of {term.name!r} has shape {aim.shape}; it takes {core}, ({nodes}, …) for each node, "
                    f"or ({', '.join(map(str, (*batch, nodes, *core)))})"
                ) from None
            whole[:, nodes:] = whole[:, nodes - 1 : nodes]
            found.append(whole)
        return found

    def given(self, targets: list[Any], bounds: Sequence[Bounds]) -> Given:
        """The same with weights, and what bounds add to them."""
        N = next((len(x) for x in [*targets, *(b.penalty for b in bounds)] if x is not None), 1)
        weights, shifts = [np.repeat(row.weight[None], N, axis=0) for row in self.rows], [None] * len(self.rows)
        found = Given(targets, weights, shifts)
        self.bind(found, bounds)
        return found

    def bind(self, given: Given, bounds: Sequence[Bounds]) -> None:
        """Put penalties and multipliers in their places."""
        for number, bound in zip(self.hard, bounds, strict=False):
            given.weights[number], given.shifts[number] = bound.penalty, bound.shift

    # Costs and models

    def costs(self, x: Any, given: Given) -> list[Array]:
        """Costs of all nodes, (N, T + 1); the largest violations of hard rows there, and their distances d."""
        found = self._made("costs")(*self.inputs(x, given, False))
        if self.hard:
            cost, worst, distance = found
            return [cost, worst, distance]
        return [found, np.zeros_like(found), np.zeros((*found.shape, 0))]

    def by_term(self, x: Any, given: Given) -> Array:
        """Costs of terms, (N, terms)."""
        if not self.terms:
            return np.zeros((len(x.q), 0))
        nodes: Array = self._made("terms")(*self.inputs(x, given, False))
        return np.add.accumulate(nodes, axis=1)[:, -1]

    def model(self, x: Any, linear: Any, given: Given) -> NodeModel:
        """Quadratic models of all nodes, without curvature."""
        return NodeModel(*self._made("model")(*self.inputs(x, given, True, linear)))

    def bend(self, x: Any, given: Given) -> Array:
        """The curvature of residuals that depend on the configuration and have no text of it, (N, T + 1, nv, nv)."""
        u, total = self.padded(x.u), np.zeros((*x.q.shape[:2], self.nv, self.nv))
        for row, target, weight, shift in zip(self.rows, *given, strict=True):
            if row.part.of == "rows" and row.part.bend is None:
                slope = _slope(row, row.part.residual(x.q, x.v, u, target), weight, shift)
                total += self._differences(row.part, x, u, target, slope)
        return total

    def _differences(self, part: Part, x: Any, u: Array, target: Any, slope: Array) -> Array:
        """Σ w r ∂²r/∂q², by central differences of gradients in one batch."""
        rows: Any = part.rows
        steps, ends = _STEP * np.eye(self.nv)[:, None, None], []
        for sign in (1.0, -1.0):
            q = np.broadcast_to(x.q, (self.nv, *x.q.shape))
            q = self.robot.integrate(q, np.broadcast_to(sign * steps, (*q.shape[:3], self.nv)))
            aim = None if target is None else np.broadcast_to(target, (self.nv, *target.shape)).copy()
            by_q = rows(q, x.v, u, aim)[1]
            ends.append(np.einsum("ntr,dntrj->ntdj", slope, by_q, optimize=False))
        bend = (ends[0] - ends[1]) / (2.0 * _STEP)
        half: Array = 0.5 * (bend + np.swapaxes(bend, -1, -2))
        return half

    @staticmethod
    def padded(u: Array) -> Array:
        """What steps have, for all nodes: zero at the last."""
        found = np.zeros((len(u), u.shape[1] + 1, *u.shape[2:]))
        found[:, :-1] = u
        return found

    # As texts

    def inputs(self, x: Any, given: Given, rows: bool, linear: Any = None) -> list[Array]:
        """The arguments of compiled functions; without `linear`, the derivatives of forces are left out."""
        u = self.padded(x.u)
        found = [x.q, x.v, u]
        if self.forced:
            found.append(self.padded(x.force))
            found += [] if linear is None else [linear.force_q, linear.force_v, linear.force_u]
        for row, target, weight, shift in zip(self.rows, *given, strict=True):
            if row.part.of == "force":
                found.append(target)
            elif row.part.text is None:
                found += self._called(row.part, x.q, x.v, u, target, rows)
            elif row.part.target is not None:
                found.append(target)
            found.append(weight)
            if row.hard:
                found.append(shift)
        return found

    def _called(self, part: Part, q: Array, v: Array, u: Array, target: Any, rows: bool) -> list[Array]:
        """Residuals and derivatives of a function of Python."""
        if not rows or part.rows is None:
            return [part.residual(q, v, u, target)]
        r, *by = part.rows(q, v, u, target)
        sizes = self._derivatives(part)
        return [r, *(np.zeros((*r.shape, n)) if each is None else each for each, n in zip(by, sizes, strict=True))]

    @staticmethod
    def of_forces(part: Part, linear: Any) -> list[Array]:
        """Derivatives of rows of forces at all steps, (N, T, …)."""
        m, n = part.matrix.shape
        by = [np.ascontiguousarray(x[:, :-1]) for x in (linear.force_q, linear.force_v, linear.force_u)]
        return [compiled(matrix_product, m=m, n=n, p=x.shape[-1])(part.matrix, x) for x in by]

    def _derivatives(self, part: Part) -> list[int]:
        every = [self.nv, self.nv, self.nu]
        return {"rows": [self.nv], "all": every, "force": every}.get(part.of, [])

    def operands(self, rows: bool) -> list[Operand]:
        """Inputs of compiled functions of a node."""
        found = [Operand("q", (self.robot.nq,)), Operand("v", (self.nv,)), Operand("u", (self.nu,))]
        if self.forced:
            found.append(Operand("force", (self.nf,)))
            found += [Operand("force_by", (self.nf, n)) for n in (self.nv, self.nv, self.nu)] if rows else []
        for row in self.rows:
            size, by = row.part.size, self._derivatives(row.part) if rows else []
            if row.part.of == "force":
                found.append(Operand("target", (size,)))
            elif row.part.text is None:
                found += [Operand("r", (size,)), *(Operand("by", (size, n)) for n in by)]
            elif row.part.target is not None:
                found.append(Operand("target", row.part.target))
            found.append(Operand("weight", (size,)))
            if row.hard:
                found.append(Operand("shift", (size,)))
        return found

    def _recorded(self, kind: str) -> Compiled:
        hard = sum(self.rows[number].part.size for number in self.hard)
        texts: dict[str, Text] = {
            "costs": self._cost_text, "terms": self._term_text, "model": partial(self.model_text, concluding=True),
        }  # fmt: skip
        outputs = {
            "costs": [Operand("cost", ()), *([Operand("worst", ()), Operand("distance", (hard,))] if hard else [])],
            "terms": [Operand("costs", (len(self.terms),))],
            "model": [Operand(name, shape) for name, shape in zip(NodeModel._fields, self.shapes, strict=True)],
        }[kind]
        return recorded(f"{kind} of nodes", self.operands(kind == "model"), outputs, texts[kind])

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of a node's model."""
        nv, nu = self.nv, self.nu
        return [(nv, nv), (nv, nv), (nv, nv), (nu, nv), (nu, nv), (nu, nu), (nv,), (nv,), (nu,)]

    def _read(self, run: Any, q: Any, v: Any, u: Any, inputs: Sequence[Any], rows: bool) -> list[_Read]:
        """Distances, weights and derivatives of all rows, given the inputs in the order of `operands`."""
        left, found, forces = iter(inputs), [], list[Any]()
        if self.forced:
            forces = [next(left) for _ in range(1 + 3 * rows)]
        for row in self.rows:
            part, by = row.part, self._derivatives(row.part) if rows else []
            target = None
            if part.of == "force":
                target = next(left)
                force = run(compiled(product, m=part.size, n=self.nf), part.matrix, forces[0])
                r, of = run(compiled(difference, n=part.size), force, target), forces[1:]
            elif part.text is None:
                r, *of = [next(left) for _ in range(1 + len(by))]
            else:
                target = next(left) if part.target is not None else None
                values = part.text(run, q, v, u, target, bool(by))
                r, *of = values if isinstance(values, list) else [values]
            weight, worst = next(left), None
            if row.lower is not None:
                shift = next(left) if row.hard else np.zeros(part.size)
                limits = row.lower, row.upper, 1.0 * (row.lower == row.upper)
                r, weight, worst = run(compiled(outside, n=part.size), r, shift, weight, *limits)
            found.append(_Read(row, r, weight, of, worst, target))
        return found

    def _cost_text(self, run: Any, q: Any, v: Any, u: Any, *inputs: Any) -> list[Any]:
        read = self._read(run, q, v, u, inputs, False)
        cost = _squares(run, read)
        hard = [each for each in read if each.row.hard]
        if not hard:
            return [cost]
        worst = run(compiled(largest_of, n=len(hard)), run.joined(*(each.worst for each in hard)))
        return [cost, worst, run.joined(*(each.distance for each in hard))]

    def _term_text(self, run: Any, q: Any, v: Any, u: Any, *inputs: Any) -> list[Any]:
        read = self._read(run, q, v, u, inputs, False)
        soft = [[each for each in read if each.row.term == n and not each.row.hard] for n in range(len(self.terms))]
        return [run.joined(*(_squares(run, each) for each in soft))]

    def bend_text(self, run: Any, q: Any, v: Any, u: Any, *inputs: Any) -> list[Any]:
        """The curvature of residuals of a node, as far as it has texts; of no residuals, an empty list."""
        total: Any = None
        for each in self._read(run, q, v, u, inputs, False):
            part = each.row.part
            if part.bend is not None:
                slope = run(compiled(products, n=part.size), each.weight, each.distance)
                start = np.zeros((self.nv, self.nv)) if total is None else total
                total = part.bend(run, q, each.target, slope, start)
        return [] if total is None else [total]

    @property
    def bends_by_texts(self) -> bool:
        """Whether all curvature of residuals has texts."""
        return all(row.part.of != "rows" or row.part.bend is not None for row in self.rows)

    @property
    def given_operands(self) -> list[Operand]:
        """Inputs of models besides q, v, u and the derivatives of forces."""
        return [operand for operand in self.operands(True)[3:] if operand.name != "force_by"]

    def with_forces(self, others: Sequence[Any], forces: Sequence[Any]) -> list[Any]:
        """The same with the derivatives of forces in their places."""
        return [others[0], *forces, *others[1:]] if self.forced else list(others)

    def without_rows(self, given: Sequence[Any]) -> list[Any]:
        """Of the inputs of models, those of costs."""
        operands = self.operands(True)
        return [x for x, operand in zip(given, operands, strict=True) if operand.name not in ("by", "force_by")]

    def model_text(self, run: Any, q: Any, v: Any, u: Any, *inputs: Any, concluding: bool = False) -> Any:
        """The model of a node: values in the order of `NodeModel`; perhaps the results of the text."""
        read, values = self._read(run, q, v, u, inputs, True), []
        sizes = {"q": self.nv, "v": self.nv, "u": self.nu}
        for of in ("q", "v", "u", "rows", "all"):
            own = [each for each in read if each.row.part.of == of]
            shape = (0, sizes[of]) if of in sizes else (0,)
            own = [self._whole(run, each, sizes[of]) for each in own] if of in sizes else own
            by = {"rows": [self.nv], "all": [self.nv, self.nv, self.nu]}.get(of, [])
            if own:
                values += [run.joined(*(x.distance for x in own)), run.joined(*(x.weight for x in own))]
                values += [run.joined(*(x.by[i] for x in own)) for i in range(len(by))]
            else:
                values += [np.zeros(shape), np.zeros(shape), *(np.zeros((0, n)) for n in by)]
        count = {of: sum(each.row.part.of == of for each in read) for of in sizes}
        size = {of: sum(each.row.part.size for each in read if each.row.part.of == of) for of in ("rows", "all")}
        forces = [each for each in read if each.row.part.of == "force"]
        f = self.nf if forces else 0
        if forces:
            A = np.concatenate([each.row.part.matrix for each in forces])
            given = (run.joined(*(x.weight for x in forces)), run.joined(*(x.distance for x in forces)))
            values += [*run(compiled(force_model, n=len(A), f=f), A, *given), *forces[0].by]
        else:
            values += [np.zeros((0, 0)), np.zeros(0), *(np.zeros((0, n)) for n in (self.nv, self.nv, self.nu))]
        sizes = {"a": count["q"], "b": count["v"], "c": count["u"], "m": size["rows"], "n": size["all"], "f": f}
        made = compiled(node_model, nv=self.nv, nu=self.nu, **sizes)
        return run.concluding(0, made, *values) if concluding else run(made, *values)

    def _whole(self, run: Any, read: _Read, size: int) -> _Read:
        """Entries of some tangents among all."""
        places = np.arange(size)[read.row.part.entries]
        if len(places) == size:
            return read
        both = (run.placed(x, places, (size,)) for x in (read.distance, read.weight))
        return read._replace(**dict(zip(("distance", "weight"), both, strict=True)))


class _Read(NamedTuple):
    """Rows in a text: distances, weights that act, derivatives, the worst violation, and the target."""

    row: Row
    distance: Any
    weight: Any
    by: list[Any]
    worst: Any
    target: Any


def _squares(run: Any, read: list[_Read]) -> Any:
    """½ Σ w d² of some rows."""
    n = sum(each.row.part.size for each in read)
    if not n:
        return np.zeros(())
    weights, distances = run.joined(*(each.weight for each in read)), run.joined(*(each.distance for each in read))
    return run(compiled(half_squares, n=n), weights, distances)


def _slope(row: Row, r: Array, weight: Array, shift: Any) -> Array:
    """w d."""
    if row.lower is not None:
        r = r if shift is None else r + shift
        r = np.minimum(r - row.lower, 0.0) + np.maximum(r - row.upper, 0.0)
    return weight * r


def _rows(scope: Scope, dynamics: Dynamics, number: int, term: CostTerm) -> list[Row]:
    """Rows of a term."""
    parts = term.parts(scope)
    size = sum(part.size for part in parts)
    weights = _weights(term, size, dynamics, parts[0].of in _OF_STEPS)
    given = (term.lower, term.upper)
    if term.hard and term.lower is None and term.upper is None:
        given = (0.0, 0.0)
    bounded = given[0] is not None or given[1] is not None
    ends = [np.inf * sign if x is None else x for x, sign in zip(given, (-1.0, 1.0), strict=True)]
    try:
        lower, upper = (np.array(np.broadcast_to(np.asarray(x, dtype=np.float64), (size,))) for x in ends)
    except ValueError:
        raise InputError(f"lower and upper of term {term.name!r} are numbers or ({size},)") from None
    if (lower > upper).any():
        raise InputError(f"term {term.name!r}: a lower bound is above its upper one")
    found, start = [], 0
    for part in parts:
        own = slice(start, start + part.size)
        start += part.size
        weight = np.ascontiguousarray(weights[:, own])
        bounds = (lower[own], upper[own]) if bounded else (None, None)
        found.append(Row(term.name, number, part, weight, bounds[0], bounds[1], term.hard))
    return found


def _weights(term: CostTerm, size: int, dynamics: Dynamics, inputs: bool) -> Array:
    """Weights of all nodes, (T + 1, size)."""
    S = len(dynamics.dt) + 1
    given = np.asarray(term.weight, dtype=np.float64)
    if given.shape not in ((), (size,), (S, size)):
        raise InputError(
            f"weight of term {term.name!r} has shape {given.shape}; it is a number, ({size},) or ({S}, {size})"
        )
    weights = np.array(np.broadcast_to(given, (S, size)))
    if not term.hard:
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
