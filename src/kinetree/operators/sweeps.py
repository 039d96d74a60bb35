"""An expression of operators as an algorithm of the tree language: which step runs in which loop over the tree.

An expression applied to a vector is a graph of *streams*, each with one value per node. Block diagonals and sums are
local: they run in the loop that produces their arguments. A shift or a resolvent sums over children and runs in a
gather; its transpose reads the parent and runs in a scatter. Loops alternate, scatters first. A step runs in the first
loop in which its arguments are available.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from kinetree.algorithms.dynamics import inertias
from kinetree.language.algorithm import Algorithm, Argument
from kinetree.language.contract import components
from kinetree.language.tree import Indexed, Tree
from kinetree.operators.algebra import Expression
from kinetree.spatial.axial import AxialTransform
from kinetree.spatial.cluster import ClusterWeight
from kinetree.spatial.dense import Outlet
from kinetree.spatial.hinge import AxisMap, ForceColumns, MotionColumns
from kinetree.spatial.inertia import ArticulatedInertia, RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array

#: Quantities computed by the first gather.
FACTORED = frozenset({"P", "D", "D⁻¹", "G", "E_ψ", "ψ", "R"})


class SweepStep(NamedTuple):
    """One stream, and how it is computed from others."""

    kind: str  # as for expressions; "input" for the vector itself
    name: str  # of the quantity
    transposed: bool
    arguments: tuple[int, ...]  # streams that it is computed from
    factors: tuple[float, ...]  # of the terms of a sum
    loop: int  # that computes it: scatters are even, gathers odd


class Plan:
    """The steps of an expression, and the stream that is its result."""

    def __init__(self, expression: Expression, start: int = 0) -> None:
        self.steps: list[SweepStep] = [SweepStep("input", "", False, (), (), start)]
        self._known: dict[tuple[object, ...], int] = {}
        self.result = self._stream(expression, 0)
        self.names = expression.names()

    @property
    def loops(self) -> int:
        """Number of loops."""
        first = 1 if self.names & FACTORED else 0
        return 1 + max(first, max(step.loop for step in self.steps))

    @property
    def sweeps(self) -> int:
        """Number of loops in which values propagate between nodes."""
        return len({step.loop for step in self.steps if step.kind in ("shift", "resolvent")})

    def _stream(self, expression: Expression, source: int) -> int:
        if expression.kind == "identity":
            return source
        if expression.kind == "product":
            for part in reversed(expression.parts):
                source = self._stream(part, source)
            return source
        if expression.kind == "sum":
            terms = tuple(self._stream(part, source) for part in expression.parts)
            return self._put("sum", "", False, terms, expression.factors)
        transposed = expression.kind == "transpose"
        own = expression.parts[0] if transposed else expression
        return self._put(own.kind, own.name, transposed, (source,), ())

    def _put(
        self, kind: str, name: str, transposed: bool, arguments: tuple[int, ...], factors: tuple[float, ...]
    ) -> int:
        key = kind, name, transposed, arguments, factors
        if key not in self._known:
            loop = max(self.steps[i].loop for i in arguments)
            if name in FACTORED:
                loop = max(loop, 1)
            if kind in ("shift", "resolvent") and loop % 2 == transposed:
                loop += 1
            self.steps.append(SweepStep(*key, loop))
            self._known[key] = len(self.steps) - 1
        return self._known[key]


@lru_cache(maxsize=1024)
def algorithm_of(expression: Expression, taken: str = "", given: str = "") -> Algorithm:
    """y = operator x at configuration q.

    If a reference is `taken`, x are wrenches at the frames of the call in this reference, and B is applied to them
    first; if one is `given`, y are the twists of the frames, Bᵀ times the result.
    """
    plan = Plan(expression, 1 if taken else 0)
    posed = bool({taken, given} - {"", "local"})

    def run(tree: Tree, q: Indexed, x: Indexed, y: Indexed) -> None:
        _start(tree, plan)
        if posed:
            tree.world.C = Transform.identity()
        if taken:
            tree.world.load = np.zeros(6)
        if given:
            setattr(tree.world, f"s{plan.result}", np.zeros(6))
        for loop in range(plan.loops):
            sweep = tree.gather() if loop % 2 else tree.scatter()
            for k, parent in sweep:
                if loop == 0 and taken:
                    k.load = np.zeros(k.dimension)
                elif loop == 1 and taken:
                    k.s0 = k.load
                elif loop == 0 and given and plan.result == 0:
                    k.s0 = x[k]
                _visit(plan, loop, k, parent, q, None if taken else x, None if given else y)
                if loop == 0 and posed:
                    k.C = k.X @ parent.C
            if loop == 0 and taken:
                for frame, carrier in tree.frames():
                    carrier.load += (tree.seen(taken, frame, carrier).T @ Force(x[frame])).data
        if given:
            for frame, carrier in tree.frames():
                moved: Motion = tree.seen(given, frame, carrier) @ Motion(getattr(carrier, f"s{plan.result}"))
                y[frame] = moved.data

    x_over = ("frames", 6) if taken else (expression.columns,)
    y_over = ("frames", 6) if given else (expression.rows,)
    inputs = Argument("q", ("q",)), Argument("x", x_over)  # type: ignore[arg-type]
    name = f"operator_{sha256(repr((expression.text, taken, given)).encode()).hexdigest()[:24]}"
    return Algorithm(name, run, inputs, (Argument("y", y_over),), local=False)  # type: ignore[arg-type]


def _start(tree: Any, plan: Plan) -> None:
    if _needs_factors(plan):
        inertias.start_articulated(tree)
    if "R" in plan.names:
        tree.world.R = ArticulatedInertia.zero()
    for i, step in enumerate(plan.steps):
        if _travels(step):
            # the world does not move, and forces that reach it are unused
            setattr(tree.world, _read_above(i, step) if step.transposed else f"sum{i}", np.zeros(6))


def _needs_factors(plan: Plan) -> bool:
    return bool(plan.names & {"P", "D", "D⁻¹", "G", "E_ψ", "ψ"})


def _visit(plan: Plan, loop: int, k: Any, parent: Any, q: Indexed, x: Indexed | None, y: Indexed | None) -> None:
    """The steps of one loop at one node; without x, the input is the field s0, without y, the result stays there."""
    mine = [(i, step) for i, step in enumerate(plan.steps) if step.loop == loop]
    # fields of the parent are read before those of the node are written
    above = {i: getattr(parent, _read_above(i, step)) for i, step in mine if _travels(step) and step.transposed}
    if loop == 0:
        k.X = k.weight(q[k])
        if _needs_factors(plan):
            k.P = k.M.articulated()
        if "R" in plan.names:
            k.R = k.M.articulated()
        for i, step in enumerate(plan.steps):
            if _travels(step) and not step.transposed:
                setattr(k, f"sum{i}", np.zeros(k.dimension))
            elif x is not None and _travels(step) and step.kind == "shift" and step.arguments == (0,):
                k.s0 = x[k]
    if loop == 1 and _needs_factors(plan):
        k.articulated = k.P  # complete: the node's children were visited before
        inertias.hinge(k, parent)
    if loop == 1 and "R" in plan.names:
        k.composite = k.R
        parent.R += k.X.congruence(k.composite)
    values: dict[int, Array] = {}

    def stream(i: int) -> Array:
        if i not in values:
            values[i] = x[k] if i == 0 and x is not None else getattr(k, f"s{i}")
        return values[i]

    for i, step in mine:
        if step.kind == "input":
            continue
        if step.kind == "sum":
            values[i] = _sum(step, stream)
        elif step.kind == "diagonal":
            values[i] = _DIAGONALS[step.name, step.transposed](k, stream(step.arguments[0]))
        elif step.transposed:
            moved = _WEIGHTS[step.name][1](k, above[i])
            values[i] = moved if step.kind == "shift" else stream(step.arguments[0]) + moved
        else:
            gathered = getattr(k, f"sum{i}")
            given = stream(step.arguments[0])
            values[i] = gathered if step.kind == "shift" else given + gathered
            sent = _WEIGHTS[step.name][0](k, given if step.kind == "shift" else values[i])
            _add(parent, f"sum{i}", sent)
        setattr(k, f"s{i}", values[i])
    if y is not None and plan.steps[plan.result].loop == loop:
        y[k] = stream(plan.result)


def _travels(step: SweepStep) -> bool:
    return step.kind in ("shift", "resolvent")


def _read_above(i: int, step: SweepStep) -> str:
    return f"s{i}" if step.kind == "resolvent" else f"s{step.arguments[0]}"


def _add(parent: Any, field: str, amount: Array) -> None:
    current = getattr(parent, field)
    current += amount
    setattr(parent, field, current)


def _sum(step: SweepStep, stream: Callable[[int], Array]) -> Array:
    total: Any = None
    for factor, argument in zip(step.factors, step.arguments, strict=True):
        value = stream(argument)
        if total is None:
            total = value if factor == 1.0 else value * factor
        elif factor == -1.0:
            total = total - value
        else:
            total = total + (value if factor == 1.0 else value * factor)
    result: Array = total
    return result


# Streams are plain arrays; quantities of rigid bodies act on spatial vectors.


def _times(operator: Any, x: Array) -> Array:
    spatial = isinstance(operator, (Transform, AxialTransform, ClusterWeight, RigidInertia, ArticulatedInertia))
    return components(operator @ (Motion(x) if spatial else x))


def _transposed(operator: Any, x: Array) -> Array:
    if isinstance(operator, (Transform, AxialTransform, Outlet, AxisMap, MotionColumns)):
        return components(operator.T @ Force(x))
    return components(operator.T @ (Motion(x) if isinstance(operator, ForceColumns) else x))


#: Products with a block of a block-diagonal operator, and with its transpose.
_DIAGONALS: dict[tuple[str, bool], Callable[[Any, Array], Array]] = {
    ("H", False): lambda k, x: _transposed(k.H, x),
    ("H", True): lambda k, x: _times(k.H, x),
    ("G", False): lambda k, x: _times(k.G, x),
    ("G", True): lambda k, x: _transposed(k.G, x),
}
for _name, _block in {
    "M": lambda k, x: _times(k.M, x),
    "P": lambda k, x: _times(k.articulated, x),
    "R": lambda k, x: _times(k.composite, x),
    "D": lambda k, x: np.asarray(k.D.product(x)),
    "D⁻¹": lambda k, x: np.asarray(k.D.solve(x)),
    "J": lambda k, x: np.asarray(k.armature * x),
}.items():
    _DIAGONALS[_name, False] = _DIAGONALS[_name, True] = _block  # symmetric


def _articulated(k: Any, x: Array) -> Array:
    """τ̄ x = x − G H x."""
    return x - _times(k.G, _transposed(k.H, x))


def _articulated_transposed(k: Any, x: Array) -> Array:
    return x - _times(k.H, _transposed(k.G, x))


_Block = Callable[[Any, Array], Array]

#: A(p, k) and its transpose; then with the joint's articulation.
_WEIGHTS: dict[str, tuple[_Block, _Block]] = {
    "A": (lambda k, x: _transposed(k.X, x), lambda k, x: _times(k.X, x)),
    "ψ": (
        lambda k, x: _transposed(k.X, _articulated(k, x)),
        lambda k, x: _articulated_transposed(k, _times(k.X, x)),
    ),
}
_WEIGHTS["E_A"], _WEIGHTS["E_ψ"] = _WEIGHTS["A"], _WEIGHTS["ψ"]
