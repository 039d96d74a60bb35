"""The operands and constants of a kernel, and the plan that tells the driver how to pass them.

A kernel of lane width W is `void kernel(ws, params, tables, in, outs)`, where `outs` holds the addresses of all
outputs. One call handles W samples. Element e of lane l is at index e*W + l of `in` (all inputs, concatenated), of each
output and of the scratch memory `ws`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from kinetree.compiler.formats import FLOAT64, Format, rounded

Array = np.ndarray[Any, np.dtype[Any]]

HEADER_WORDS = 7
OPERAND_WORDS = 5

_LINE = 64  # bytes; the alignment of areas of lanes


@dataclass(frozen=True)
class Operand:
    """An input or output of one sample."""

    name: str
    shape: tuple[int, ...]  # its core shape, of rank 0 to 3
    zeroed: bool = False  # an output that is filled with zeros first, because the kernel writes only some entries
    symmetric: bool = False  # an output of which the kernel fills the upper triangle of the last two axes
    #: The kernel never reads this output, so zeros that it did not overwrite can be reused in the next run.
    unread: bool = False

    def __post_init__(self) -> None:
        if len(self.shape) > 3:
            raise ValueError(f"{self.name}: an operand has at most 3 axes, got shape {self.shape}")
        if self.symmetric and (len(self.shape) < 2 or self.shape[-1] != self.shape[-2]):
            raise ValueError(f"{self.name}: a symmetric operand needs equal last axes, got shape {self.shape}")

    @property
    def size(self) -> int:
        """Number of elements in one sample."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class Binding:
    """A kernel's operands and constants for one mechanism."""

    name: str  # the function's name, for messages
    inputs: tuple[Operand, ...]  # at least one
    outputs: tuple[Operand, ...]  # at least one
    parameters: Array  # the mechanism's numbers, in the kernel's format
    tables: Array  # the mechanism's index tables, int64
    workspace: int  # length of the scratch memory for one sample of a batch
    bundle: type[tuple[Any, ...]] = tuple  # type of several results: `tuple`, or a named tuple
    code: str = ""  # identifies the kernel, in other processes too
    keep: Any = ()  # what the constants point to, kept alive with them
    scalar: Format = FLOAT64  # the format of all operands and constants
    single_workspace: int = 0  # length of the scratch memory for a single sample, if it is another one
    one_by_one: bool = False  # whether samples run one at a time, as they use lanes themselves
    called: int = 0  # what the functions touch that the kernel calls, as often as it calls them [64-bit words]

    def bundled(self, results: tuple[Array, ...]) -> Any:
        """A single result itself, or several results as a bundle."""
        if len(results) == 1:
            return results[0]
        return results if self.bundle is tuple else self.bundle(*results)

    def __post_init__(self) -> None:
        if not self.inputs or not self.outputs:
            raise ValueError(f"{self.name}: a kernel has inputs and outputs")
        for field, dtype in (("parameters", self.scalar.dtype), ("tables", np.int64)):
            constant = np.array(rounded(np.asarray(getattr(self, field)), np.dtype(dtype)))  # a copy, for no one else
            constant.flags.writeable = False
            object.__setattr__(self, field, constant)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    def scratch(self, width: int) -> int:
        """Length of the scratch memory for each of some samples that run at once."""
        return self.single_workspace if width == 1 and self.single_workspace else self.workspace

    @cached_property
    def footprint(self) -> int:
        """Memory touched by one sample, in 64-bit words: scratch memory, inputs and outputs."""
        numbers = self.workspace + sum(operand.size for operand in self.operands)
        return -(-numbers * self.scalar.bytes // FLOAT64.bytes)

    @property
    def work(self) -> int:
        """Memory touched by one sample, as often as it is: how long that takes [64-bit words]."""
        return self.footprint + self.called


class PlanWord(IntEnum):
    """Layout of a plan's header, in 64-bit words."""

    KERNEL = 0
    PARAMETERS = 1
    TABLES = 2
    INPUTS = 3
    OUTPUTS = 4
    SCRATCH_BYTES = 5
    WORKSPACE = 6


class OperandWord(IntEnum):
    """Layout of the description of an operand, in 64-bit words."""

    SIZE = 0
    AREA = 1  # byte offset into the scratch memory
    ZEROED = 2
    ROWS = 3  # of symmetric results of single samples, else 0; batches find the lower triangle by its places
    PLACES = 4  # byte offset into the plan of the places of its numbers, or 0 if lanes are in their order


class Zeroed(IntEnum):
    """When an output is filled with zeros."""

    NEVER = 0
    ALWAYS = 1
    ONCE = 2


def plan(binding: Binding, kernel: int, width: int) -> Array:
    """The driver's instructions: a header, a description of each operand, places. It points into the binding."""
    lane_bytes = binding.scalar.bytes * width
    words = np.zeros(HEADER_WORDS + OPERAND_WORDS * len(binding.operands), dtype=np.int64)
    offset = 0
    tables = [words]
    for k, operand in enumerate(binding.operands):
        if k >= len(binding.inputs):
            # transposes at the end of an operand access up to W - 1 rows beyond it
            offset = _aligned(offset + (width - 1) * lane_bytes)
        entry = words[HEADER_WORDS + OPERAND_WORDS * k :]
        entry[OperandWord.SIZE], entry[OperandWord.AREA] = operand.size, offset
        # a single sample is computed in the user's array, which differs from call to call
        once = operand.unread and width > 1
        entry[OperandWord.ZEROED] = (Zeroed.ONCE if once else Zeroed.ALWAYS) if operand.zeroed else Zeroed.NEVER
        if operand.symmetric and width == 1:
            entry[OperandWord.ROWS] = operand.shape[-1]
        elif operand.symmetric:
            entry[OperandWord.PLACES] = sum(table.nbytes for table in tables)
            tables.append(_upper_places(operand, width, lane_bytes))
        if k < len(binding.inputs) or width > 1:
            offset += operand.size * lane_bytes
    words[PlanWord.KERNEL] = kernel
    words[PlanWord.PARAMETERS] = binding.parameters.ctypes.data
    words[PlanWord.TABLES] = binding.tables.ctypes.data
    words[PlanWord.INPUTS] = len(binding.inputs)
    words[PlanWord.OUTPUTS] = len(binding.outputs)
    words[PlanWord.WORKSPACE] = _aligned(offset + (width - 1) * lane_bytes)
    words[PlanWord.SCRATCH_BYTES] = words[PlanWord.WORKSPACE] + binding.scratch(width) * lane_bytes
    return np.concatenate(tables)


def _upper_places(operand: Operand, width: int, lane_bytes: int) -> Array:
    """Where the lanes of a symmetric operand's numbers are, in bytes: those of the lower triangle are in the upper one.

    Returns:
        Pairs of 32-bit numbers, at least W - 1 more than there are numbers, as chunks at the end go beyond them.
    """
    numbers = np.arange(operand.size).reshape(operand.shape)
    upper = np.minimum(numbers, numbers.swapaxes(-1, -2))
    places = np.zeros(-(-(operand.size + width) // 2) * 2, dtype=np.int32)
    places[: operand.size] = upper.ravel() * lane_bytes
    return places.view(np.int64)


def _aligned(offset: int) -> int:
    return -(-offset // _LINE) * _LINE
