"""Reverse-mode differentiation by arithmetic: scalars that record what is computed from them, on a tape.

The record can be evaluated again on other scalars, a tracer's symbols for example, and run backwards: from the
derivatives of some result with respect to what was computed, the adjoints, to those with respect to the leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import IrreversibleError
from kinetree.spatial import scalar
from kinetree.spatial.dual import Dual


class Entry(NamedTuple):
    """A scalar on a tape: a function of others, each the number of an entry or a constant; none if it is a leaf."""

    code: str
    operands: tuple[Any, ...]


class Number(int):
    """The number of an entry, as opposed to a constant."""


class Tape:
    """The record of a computation."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def leaf(self, value: Any) -> Taped:
        """A scalar that others are computed from."""
        return self._added("leaf", (), value)

    def _added(self, code: str, operands: tuple[Any, ...], value: Any) -> Taped:
        self.entries.append(Entry(code, operands))
        return Taped(value, self, Number(len(self.entries) - 1))

    def record(self, code: str, *operands: Any) -> Taped:
        """Compute a function of scalars, at least one of them on this tape."""
        if any(isinstance(x, Taped) and x.tape is not self for x in operands):
            raise IrreversibleError("a value from outside of a loop is used in it: store it in a field of the world")
        numbers = tuple(x.number if isinstance(x, Taped) else x for x in operands)
        return self._added(code, numbers, FUNCTIONS[code](*(plain(x) for x in operands)))

    def replayed(self, leaves: Mapping[int, Any]) -> list[Any]:
        """The value of each entry, from those of the leaves, by number."""
        values: list[Any] = []
        for number, (code, operands) in enumerate(self.entries):
            if code == "leaf":
                values.append(leaves.get(number, 0.0))
            else:
                values.append(FUNCTIONS[code](*(values[x] if isinstance(x, Number) else x for x in operands)))
        return values

    def adjoints(self, values: Sequence[Any], seeds: Mapping[int, Any]) -> dict[int, Any]:
        """The adjoint of each leaf, from those of some entries; what has none does not matter to the result."""
        found = dict(seeds)
        for number in reversed(range(len(self.entries))):
            code, operands = self.entries[number]
            if code == "leaf" or number not in found:
                continue
            adjoint = found.pop(number)
            given = [values[x] if isinstance(x, Number) else x for x in operands]
            shares = _SHARES[code](adjoint, values[number], *given)
            for x, share in zip(operands, shares, strict=True):
                if isinstance(x, Number) and share is not None:
                    found[x] = found[x] + share if x in found else share
        return found


class Taped:
    """A scalar on a tape. Plain scalars are treated as constants."""

    __slots__ = ("number", "tape", "value")

    def __init__(self, value: Any, tape: Tape, number: Number) -> None:
        self.value, self.tape, self.number = value, tape, number

    def _with(self, code: str, *operands: Any) -> Any:
        for x in operands:
            # arrays are handled entry by entry; derivatives inside a node's formulas are computed from taped scalars
            if isinstance(x, np.ndarray) or (isinstance(x, Dual) and x.level > 0):
                return NotImplemented
        return self.tape.record(code, *operands)

    def __add__(self, other: Any) -> Any:
        return self._with("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self._with("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self._with("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._with("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return self._with("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._with("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._with("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with("div", other, self)

    def __neg__(self) -> Any:
        return self._with("neg", self)

    def sin(self) -> Any:
        return self._with("sin", self)

    def cos(self) -> Any:
        return self._with("cos", self)

    def sqrt(self) -> Any:
        return self._with("sqrt", self)

    def log(self) -> Any:
        return self._with("log", self)

    def __repr__(self) -> str:
        return f"Taped({self.value})"


def plain(x: Any) -> Any:
    """The value of a scalar that may be taped."""
    return x.value if isinstance(x, Taped) else x


#: What entries of each code are computed by.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "sin": lambda a: scalar.sincos(a)[0],
    "cos": lambda a: scalar.sincos(a)[1],
    "sqrt": scalar.sqrt,
    "log": scalar.log,
    "select": scalar.select,
}

#: The adjoints of all operands, given that of an entry, its value and those of the operands; None where the entry does
#: not depend on an operand smoothly.
_SHARES: dict[str, Callable[..., tuple[Any, ...]]] = {
    "add": lambda g, _, *__: (g, g),
    "sub": lambda g, _, *__: (g, -g),
    "mul": lambda g, _, a, b: (g * b, g * a),
    "div": lambda g, y, _, b: (g / b, -(g / b * y)),
    "neg": lambda g, _, __: (-g,),
    "sin": lambda g, _, a: (g * scalar.sincos(a)[1],),
    "cos": lambda g, _, a: (-(g * scalar.sincos(a)[0]),),
    "sqrt": lambda g, y, _: (g / (y + y),),
    "log": lambda g, _, a: (g / a,),
    "select": lambda g, _, a, b, *__: (None, None, scalar.select(a, b, g, 0.0), scalar.select(a, b, 0.0, g)),
}


def add_function(code: str, function: Callable[..., Any], shares: Callable[..., tuple[Any, ...]]) -> None:
    """Let tapes record a further function, with its shares as in `_SHARES`."""
    FUNCTIONS[code], _SHARES[code] = function, shares


scalar.sincos.register(Taped, lambda x: (x.sin(), x.cos()))
scalar.sqrt.register(Taped, lambda x: x.sqrt())
scalar.log.register(Taped, lambda x: x.log())


@scalar.select.register(Taped)
def _select(a: Any, b: Any, x: Any, y: Any) -> Any:
    if not any(isinstance(each, Taped) for each in (x, y)):
        return scalar.select(plain(a), plain(b), x, y)
    tape = next(each.tape for each in (x, y, a, b) if isinstance(each, Taped))
    return tape.record("select", a, b, x, y)
