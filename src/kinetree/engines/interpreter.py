"""An interpreter of lowered programs. It defines the meaning of the IR; compiled code gives the same bits.

Every operation is rounded once, as in IEEE 754; fused multiply-adds are computed exactly before rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from struct import pack, unpack
from typing import Any

import numpy as np

from kinetree.engines.elementary import SineCosine
from kinetree.engines.ir import Access, Block, Follow, For, Op, Store, Switch
from kinetree.engines.layout import Tables
from kinetree.engines.pipeline import lowered, variants_of
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.spatial.value import Array


def run(algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site], inputs: Sequence[Any]) -> tuple[Array, ...]:
    """Run an algorithm on one sample.

    Args:
        algorithm: The recursion.
        mechanism: The robot.
        sites: The frames, if the algorithm takes any.
        inputs: One array per input of the algorithm.

    Returns:
        One array per output.
    """
    variants = variants_of(algorithm, mechanism, sites)
    program = lowered(algorithm, variants)
    tables = Tables(algorithm, variants, mechanism, sites, program.metadata)
    sizes = algorithm.sizes(mechanism, sites)
    memory: dict[tuple[str, int], Any] = {
        ("records", 0): [math.nan] * tables.records,
        ("constants", 0): tables.constants.tolist(),
        ("gravity", 0): mechanism.gravity.tolist(),
        **{("array", i): [math.nan] * tables.array_size(i) for i in range(len(program.layout.arrays))},
        **{("input", i): np.asarray(x, dtype=float).reshape(-1).tolist() for i, x in enumerate(inputs)},
        **{("output", i): [0.0] * math.prod(a.shape(sizes)) for i, a in enumerate(algorithm.outputs)},
    }
    machine = _Machine(
        memory, tables, {name: (tables.cells(name), columns) for name, columns in program.tables.items()}
    )
    with np.errstate(all="ignore"):
        machine.block(program.program.top)
    results = []
    for i, argument in enumerate(algorithm.outputs):
        result = np.array(memory["output", i]).reshape(argument.shape(sizes))
        if argument.symmetric:
            upper = np.triu(np.ones(result.shape[-2:], dtype=bool))
            result = np.where(upper, result, result.swapaxes(-1, -2))
        results.append(result)
    return tuple(results)


class _Machine:
    """Executes blocks, keeping the latest value of each op."""

    def __init__(
        self, memory: dict[tuple[str, int], Any], tables: Tables, cells: dict[str, tuple[Array, list[str]]]
    ) -> None:
        self.memory, self.tables, self.cells = memory, tables, cells
        self.values: dict[Op, Any] = {}

    def block(self, block: Block) -> None:
        """Execute a block."""
        for item in block.items:
            if isinstance(item, Op):
                self.values[item] = self.op(item)
            elif isinstance(item, Store):
                place: Any = item.place
                self.memory[place.space][self.address(place)] = self.values[item.value]
            elif isinstance(item, For):
                numbers = range(self.values[item.start], self.values[item.stop])
                for number in reversed(numbers) if item.backwards else numbers:
                    self.values[item.index] = number
                    self.block(item.body)
            elif isinstance(item, Follow):
                number = self.values[item.start]
                while number >= 0:
                    self.values[item.index] = number
                    self.block(item.body)
                    number = int(self.cells[item.table][0][number, 0])
            elif isinstance(item, Switch) and self.values[item.value] in item.cases:
                self.block(item.cases[self.values[item.value]])

    def op(self, op: Op) -> Any:
        """The value of an op."""
        if op.code in ("const", "int"):
            return op.attr
        if op.code == "size":
            return self.tables.size(op.attr)
        if op.code == "load":
            return self.memory[op.attr.space][self.address(op.attr)]
        args = [self.values[a] for a in op.args]
        if op.code == "cell":
            table, column = op.attr
            cells, columns = self.cells[table]
            return int(cells[args[0], columns.index(column)])
        return OPERATIONS[op.code](*args)

    def address(self, access: Access) -> int:
        """The address of a scalar."""
        return access.offset + (0 if access.base is None else self.values[access.base])


def fma(x: float, y: float, z: float) -> float:
    """x · y + z, rounded once."""
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        return x * y + z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return x * y + z if x * y == 0.0 and z == 0.0 else 0.0
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


class _Floats:
    """Arithmetic on floats, for sine and cosine."""

    def const(self, value: float) -> float:
        return value

    def add(self, x: float, y: float) -> float:
        return x + y

    def sub(self, x: float, y: float) -> float:
        return x - y

    def mul(self, x: float, y: float) -> float:
        return x * y

    def neg(self, x: float) -> float:
        return -x

    def fma(self, x: float, y: float, z: float) -> float:
        return fma(x, y, z)

    def within(self, x: float, largest: float) -> float:
        return x if abs(x) <= largest else math.nan

    def turned(self, sine: float, cosine: float, shifted: float) -> tuple[float, float]:
        (quadrant,) = unpack("<Q", pack("<d", shifted))
        one, other = (cosine, sine) if quadrant & 1 else (sine, cosine)
        return (-one if quadrant & 2 else one), (-other if (quadrant + 1) & 2 else other)


_sincos = SineCosine[float](_Floats())

#: The function that computes each operation.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: float(np.float64(x) / np.float64(y)),
    "neg": lambda x: -x,
    "sqrt": lambda x: float(np.sqrt(np.float64(x))),
    "sin": lambda x: _sincos(x)[0],
    "cos": lambda x: _sincos(x)[1],
    "select": lambda a, b, x, y: x if a < b else y,
    "fma": fma,
    "iadd": lambda x, y: x + y,
    "imul": lambda x, y: x * y,
    "imax": max,
}
