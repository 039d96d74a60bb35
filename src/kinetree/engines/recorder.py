"""Records a program while an algorithm runs on symbols: types of fields, known array entries, bodies of loops.

Loops are generators: when one is resumed, the loop body has ended. To check an algorithm, each body is traced twice,
with the variants in two different orders, and must record the same items both times. This exposes Python variables
that carry state from one iteration to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from kinetree.engines.checks import canonical
from kinetree.engines.fold import RULES
from kinetree.engines.ir import CodeBlock, Op, Place, Program, Store, TreeLoop
from kinetree.engines.places import ArrayEntry, Index, Output, Role
from kinetree.engines.symbolic import SymbolicCell
from kinetree.errors import ContractError
from kinetree.recursion.contract import author_line, refuse, type_name
from kinetree.recursion.variants import WORLD_CLASS


class Recorder:
    """Records a program.

    Args:
        checked: Trace each body twice.

    Attributes:
        program: The program recorded so far.
        types: Type of each field on each class of node.
        direction: Direction of the loop being traced: "outward" if nodes come after their parents.
        moved: Entries of `tree.inward` that the body being traced has set at another node than its own so far.
        arrays: Number of the next array. Where a body is traced again, it makes the same ones.
    """

    def __init__(self, checked: bool) -> None:
        self.checked = checked
        self.program = Program(RULES)
        self.types: dict[tuple[str, str], tuple[Any, ...]] = {}
        self.direction = ""
        self.moved: list[tuple[int, Index]] = []
        self.arrays = 0
        self._settled: set[tuple[str, str]] = set()  # fields set before the loop being traced
        self._parent_reads: list[tuple[str, tuple[str, ...], str]] = []
        self._values: dict[Place, Op] = {}  # entries of outputs and arrays known in the current block
        self._open: list[str] = []
        self._world_role = Role("world", (WORLD_CLASS,))
        self._world_cell = SymbolicCell(self, self._world_role, None, np.zeros(0))

    # Fields

    def field_type(self, role: Role, name: str) -> tuple[Any, ...] | None:
        """The type of a field read through a role, or None if it cannot have been set."""
        if role.exact or role is self._world_role:
            cls = role.classes[0]
            return self.types.get((name, cls)) if (name, cls) in self._settled or role is self._world_role else None
        found = [self.types[name, cls] for cls in role.classes if (name, cls) in self.types]
        if not found:
            return None
        if any(t != found[0] for t in found):
            refuse(f"field {name} has different types on different kinds of nodes, but is read through {role.name}")
        if self.direction == "outward":
            self._parent_reads.append((name, role.classes, author_line()))
        elif any((name, cls) not in self._settled for cls in role.classes):
            return None
        return found[0]

    def set_field_type(self, role: Role, name: str, description: tuple[Any, ...]) -> None:
        """Record the type of a field, which must not change."""
        for cls in role.classes:
            known = self.types.setdefault((name, cls), description)
            if known != description:
                refuse(f"field {name} is set as {type_name(description)}, but was {type_name(known)} before")

    # Entries of outputs and arrays

    def load(self, place: Place) -> Op:
        """The value of a place: the one last stored in this block, or a load."""
        if place not in self._values:
            self._values[place] = self.program.load(place)
        return self._values[place]

    def store(self, place: Place, value: Any) -> None:
        """Store a value to an output or array."""
        op = self.program.lift(value)
        self.program.current.items.append(Store(place, op))
        if isinstance(place, (ArrayEntry, Output)):
            # a different index expression may address the same entry
            same = [p for p in self._values if type(p) is type(place) and p.number == place.number and p.at != place.at]
            for other in same:
                del self._values[other]
        self._values[place] = op

    # Bodies of loops

    def run(
        self, loop: TreeLoop, variants: Sequence[tuple[Any, ...]], roles: Callable[[tuple[Any, ...]], Any]
    ) -> Iterator[Any]:
        """Trace the body of a loop for each variant."""
        program = self.program
        outer, outer_values, moved, outer_moved = program.current, self._values, list(self.moved), list(self.moved)
        self._open.append(author_line())
        outermost = outer is program.top
        if outermost:
            self._settled = set(self.types)
        firsts: dict[tuple[Any, ...], int] = {}
        for variant in (*variants, *reversed(variants)) if self.checked else variants:
            body = program.current = CodeBlock(program, outer)
            made, self.arrays = self.arrays, firsts.setdefault(variant, self.arrays)
            self._values, self.moved = {}, list(outer_moved)
            yield roles(variant)
            if program.current is not body:
                raise ContractError(f"{self._open[-1]}: a loop over the tree was left before its end")
            program.current, self.arrays = outer, max(made, self.arrays)
            moved += self.moved[len(outer_moved) :]
            first = loop.bodies.setdefault(variant, body)
            if first is not body and canonical(first) != canonical(body):
                raise ContractError(
                    f"{self._open[-1]}: this loop behaves differently when its nodes come in another order: "
                    "it carries state from one iteration to the next outside the tree's fields"
                )
        self._open.pop()
        outer.items.append(loop)
        self._values = {} if outer_values else outer_values
        self.moved = [] if outermost else moved
        if outermost:
            self._world_cell.values.clear()
            self._check_parent_reads()

    def _check_parent_reads(self) -> None:
        for name, classes, where in self._parent_reads:
            if missing := [cls for cls in classes if (name, cls) not in self.types]:
                raise ContractError(f"{where}: field {name} is read on parents, but is never set on {missing[0]} nodes")
            if len({self.types[name, cls] for cls in classes}) > 1:
                raise ContractError(
                    f"{where}: field {name} has different types on different kinds of nodes, but is read on parents"
                )
        self._parent_reads.clear()

    def finish(self) -> None:
        """Raise if a loop was left before its end."""
        if self._open:
            raise ContractError(f"{self._open[-1]}: a loop over the tree was left before its end")
