"""Straight-line code of one mechanism: a lowered program, executed on symbols.

The machine that defines what a lowered program does runs it, but scalars are ops of a new program. What it leaves there
are the operations of all iterations of all loops:

    integers     are known, so loops and switches disappear
    constants    of the mechanism are numbers, so operations with zeros and ones fold, and those with equal numbers are
                 shared
    memory       holds ops, so what is stored in a field and loaded again is the op itself
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kinetree.engines.dead_code import without_dead_code
from kinetree.engines.fold import RULES
from kinetree.engines.ir import Access, For, Item, Op, Program, Store
from kinetree.engines.layout import Tables
from kinetree.engines.lowered import Lowered
from kinetree.engines.machine import Machine


class TooLongError(Exception):
    """A program has more operations than it may have when unrolled."""


class Unrolling(Machine):
    """Unrolls a lowered program.

    Args:
        lowered: The program, simplified but not fused: multiplications are fused with the sums that are left.
        tables: Numbers of the mechanism.
        most: Number of operations at which to give up.

    Attributes:
        program: The straight-line program. It loads inputs and stores outputs.
        executed: Operations that the lowered program executes, by whether they are in loops with independent indices.

    Raises:
        TooLongError: If there are more operations.
    """

    def __init__(self, lowered: Lowered, tables: Tables, most: int) -> None:
        cells = {name: (tables.cells(name), columns) for name, columns in lowered.tables.items()}
        constants = tables.constants.tolist()
        memory: dict[tuple[str, int], Any] = {
            ("records", 0): [None] * tables.records,
            ("constants", 0): constants,
            ("gravity", 0): tables.setup.mechanism.gravity.tolist(),
            **{("array", i): [None] * tables.array_size(i) for i in range(len(lowered.layout.arrays))},
            **{("input", i): {} for i in range(lowered.inputs)},
            **{("output", i): {} for i in range(lowered.outputs)},
        }
        super().__init__(memory, tables, cells)
        self.program = Program(RULES)
        self.executed: Counter[bool] = Counter()
        self._most, self._independent = most, False
        self._written: dict[tuple[tuple[str, int], int], int] = {}
        self.block(lowered.program.top)
        self._place_stores()
        without_dead_code(self.program)

    def loop(self, loop: For, numbers: range) -> None:
        outer, self._independent = self._independent, self._independent or loop.independent
        super().loop(loop, numbers)
        self._independent = outer

    def constant(self, value: float) -> Op:
        return self.program.op("const", attr=float(value))

    def scalar(self, code: str, *args: Any) -> Op:
        if code != "neg":
            self.executed[self._independent] += 1
            if self.executed.total() > self._most:
                raise TooLongError
        return self.program.do(code, *args)

    def load(self, space: tuple[str, int], address: int) -> Any:
        memory = self.memory[space]
        if space[0] in ("constants", "gravity"):
            return self.constant(memory[address])
        if space[0] == "input" and address not in memory:
            memory[address] = self.program.load(Access(space, None, address))
        if space[0] == "output" and address not in memory:
            return self.constant(0.0)  # sparse outputs are
        return memory[address]

    def store(self, space: tuple[str, int], address: int, value: Any) -> None:
        self.memory[space][address] = value
        if space[0] == "output":
            # the last value counts, and is stored when it is known
            self._written.pop((space, address), None)
            self._written[space, address] = len(self.program.top.items)

    def _place_stores(self) -> None:
        """Insert stores to outputs where their values are known."""
        due: dict[int, list[Item]] = {}
        for (space, address), position in self._written.items():
            store = Store(Access(space, None, address), self.memory[space][address])
            due.setdefault(position, []).append(store)
        top = self.program.top
        items: list[Item] = []
        for position, item in enumerate(top.items):
            items += due.get(position, ())
            items.append(item)
        top.items = items + due.get(len(top.items), [])
