"""The meaning of a lowered program: a machine that executes it, one operation at a time.

Every operation is rounded once, as in IEEE 754; fused multiply-adds are computed exactly before rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from struct import pack, unpack
from typing import Any

import numpy as np

from kinetree.compiler.elementary import sine_cosine
from kinetree.compiler.ir import Access, CodeBlock, Exit, Follow, For, Op, Segment, Store, Switch
from kinetree.compiler.lower.layout import Tables
from kinetree.compiler.lower.lower import Lowered


class Machine:
    """Executes blocks, keeping the latest value of each op.

    Scalars are numbers here. `kinetree.compiler.specialize` executes blocks on symbols.

    Args:
        lowered: The program.
        tables: Numbers of the mechanism.
        given: The contents of inputs and outputs, by memory space.
    """

    def __init__(self, lowered: Lowered, tables: Tables, given: dict[tuple[str, int], Any]) -> None:
        self.tables = tables
        self.cells = {name: (tables.cells(name), columns) for name, columns in lowered.tables.items()}
        self.memory: dict[tuple[str, int], Any] = {
            ("records", 0): [math.nan] * tables.records,
            ("constants", 0): tables.constants.tolist(),
            ("gravity", 0): tables.setup.mechanism.gravity.tolist(),
            **{("array", i): [math.nan] * tables.array_size(i) for i in range(len(lowered.layout.arrays))},
            **given,
        }
        self.values: dict[Op, Any] = {}

    def block(self, block: CodeBlock) -> bool:
        """Execute a block; returns whether it leaves the loop around it."""
        for item in block.items:
            if isinstance(item, Op):
                self.values[item] = self.op(item)
            elif isinstance(item, Store):
                place: Any = item.place
                if isinstance(place, Exit):
                    if self.leaves(self.values[item.value]):
                        return True
                    continue
                self.store(place.space, self.address(place), self.values[item.value])
            elif isinstance(item, For):
                self.loop(item, range(self.values[item.start], self.values[item.stop]))
            elif isinstance(item, Follow):
                number = self.values[item.start]
                while number >= 0:
                    self.values[item.index] = number
                    self.block(item.body)
                    number = int(self.cells[item.table][0][number, 0])
            elif isinstance(item, Segment):
                self.block(item.body)
            elif isinstance(item, Switch) and self.values[item.value] in item.cases:
                self.block(item.cases[self.values[item.value]])
        return False

    def loop(self, loop: For, numbers: range) -> None:
        """Execute a loop over contiguous numbers."""
        for number in reversed(numbers) if loop.backwards else numbers:
            self.values[loop.index] = number
            if self.block(loop.body):
                return

    def leaves(self, flag: Any) -> bool:
        """Whether a loop ends."""
        return not flag < 0.5

    def op(self, op: Op) -> Any:
        """The value of an op."""
        if op.code == "int":
            return op.attr
        if op.code == "const":
            return self.constant(op.attr)
        if op.code == "size":
            return self.tables.size(op.attr)
        if op.code == "load":
            return self.load(op.attr.space, self.address(op.attr))
        args = [self.values[a] for a in op.args]
        if op.code == "cell":
            table, column = op.attr
            cells, columns = self.cells[table]
            return int(cells[args[0], columns.index(column)])
        if op.code in INTEGER_OPERATIONS:
            return INTEGER_OPERATIONS[op.code](*args)
        return self.scalar(op.code, *args)

    def address(self, access: Access) -> int:
        """The address of a scalar."""
        return access.offset + (0 if access.base is None else self.values[access.base])

    # Scalars

    def constant(self, value: float) -> Any:
        """A number of the program."""
        return value

    def scalar(self, code: str, *args: Any) -> Any:
        """The result of an operation on scalars."""
        return OPERATIONS[code](*args)

    def load(self, space: tuple[str, int], address: int) -> Any:
        """A scalar from memory."""
        return self.memory[space][address]

    def store(self, space: tuple[str, int], address: int, value: Any) -> None:
        """Write a scalar to memory."""
        self.memory[space][address] = value


def fma(x: float, y: float, z: float) -> float:
    """x · y + z, rounded once."""
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        return x * y + z
    from fractions import Fraction  # takes a while to import

    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return x * y + z if x * y == 0.0 and z == 0.0 else 0.0
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


#: The function that computes each operation on scalars.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: float(np.float64(x) / np.float64(y)),
    "neg": lambda x: -x,
    "sqrt": lambda x: float(np.sqrt(np.float64(x))),
    "sin": lambda x: _sine_cosine(x)[0],
    "cos": lambda x: _sine_cosine(x)[1],
    "select": lambda a, b, x, y: x if a < b else y,
    "fma": fma,
}


def _turned(sine: float, cosine: float, shifted: float) -> tuple[float, float]:
    """Both of the angle plus as many quarter turns as the low bits of a float say."""
    (quadrant,) = unpack("<Q", pack("<d", shifted))
    one, other = (cosine, sine) if quadrant & 1 else (sine, cosine)
    return (-one if quadrant & 2 else one), (-other if (quadrant + 1) & 2 else other)


_ELEMENTARY: dict[str, Callable[..., Any]] = OPERATIONS | {
    "const": lambda x: x,
    "within": lambda x, limit: x if abs(x) <= limit else math.nan,
    "turned": _turned,
}


def _sine_cosine(x: float) -> tuple[float, float]:
    return sine_cosine(lambda code, *args: _ELEMENTARY[code](*args), x)


#: The same for integers.
INTEGER_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "iadd": lambda x, y: x + y,
    "imul": lambda x, y: x * y,
    "imax": max,
}
