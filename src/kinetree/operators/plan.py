"""Scheduling of an expression: which of its steps runs in which loop over the tree.

An expression applied to a vector is a graph of *streams*, each with one value per node. Block diagonals and sums are
local: they run in the loop that produces their arguments. A shift or a resolvent sums over children and runs in a
gather; its transpose reads the parent and runs in a scatter. Loops alternate, scatters first. A step runs in the first
loop in which its arguments are available.
"""

from __future__ import annotations

from typing import NamedTuple

from kinetree.operators.algebra import Expression

#: Quantities computed by the first gather.
FACTORED = frozenset({"P", "D", "D⁻¹", "G", "E_ψ", "ψ", "R"})


class Step(NamedTuple):
    """One stream, and how it is computed from others.

    Attributes:
        kind: As for expressions; "input" for the vector itself.
        name: Name of the quantity.
        transposed: Whether its transpose is applied.
        arguments: Indices of the streams it is computed from.
        factors: Factors of the terms of a sum.
        loop: Index of the loop that computes it: scatters are even, gathers odd.
    """

    kind: str
    name: str
    transposed: bool
    arguments: tuple[int, ...]
    factors: tuple[float, ...]
    loop: int


class Plan:
    """The steps of an expression, and the stream that is its result."""

    def __init__(self, expression: Expression) -> None:
        self.steps: list[Step] = [Step("input", "", False, (), (), 0)]
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
            self.steps.append(Step(*key, loop))
            self._known[key] = len(self.steps) - 1
        return self._known[key]
