"""A lowered program, and what binding it to a mechanism needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kinetree.engines.angles import ANGLES, Angles
from kinetree.engines.ir import Op, Program, Store, walk
from kinetree.engines.layout import Layout
from kinetree.engines.sweeps import Sweeps

#: Items of long programs, of which the long loops become functions of their own. Calls would slow down shorter ones.
LONG = 3000


@dataclass
class Lowered:
    """A lowered program.

    Attributes:
        program: Its blocks.
        layout: Offsets of fields.
        inputs: Number of inputs.
        outputs: Number of outputs.
        tables: The columns of each table that it reads.
        sizes: The sizes that it reads.
        angles: Sines and cosines that can be computed ahead of all loops.
        starts: Stores with which sums start that loops may carry.
        sweeps: Its sweeps, if it consists of sweeps over nodes.
    """

    program: Program
    layout: Layout
    inputs: int
    outputs: int
    tables: dict[str, list[str]] = field(default_factory=dict)
    sizes: list[str] = field(default_factory=list)
    angles: Angles | None = None
    starts: list[Store] = field(default_factory=list)
    sweeps: Sweeps | None = None

    @property
    def head(self) -> list[str]:
        """Names of the numbers at the head of the tables."""
        return [
            *self.sizes,
            *(f"table {name}" for name in self.tables),
            *(f"array {i}" for i in range(len(self.layout.arrays))),
            *(f"input {i}" for i in range(self.inputs)),
            "gravity",
            *(ANGLES if self.angles else ()),
            "node lanes",
        ]

    @cached_property
    def length(self) -> int:
        """Number of items of the program."""
        return len(walk(self.program.top))

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """What is needed to bind the program to a mechanism; serialisable as JSON."""
        loads = [item.attr for item in walk(self.program.top) if isinstance(item, Op) and item.code == "load"]
        return {
            "records": self.layout.records,
            "passing": self.layout.passing,
            "arrays": [[list(over), len(positions)] for over, positions in self.layout.arrays],
            "tables": self.tables,
            "head": self.head,
            "angles": None if self.angles is None else self.angles.metadata,
            "reread": sorted({access.space[1] for access in loads if access.space[0] == "output"}),
            "sweeps": None if self.sweeps is None else self.sweeps.metadata,
        }
