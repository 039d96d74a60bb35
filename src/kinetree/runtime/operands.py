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
from kinetree.runtime import buffers

Array = np.ndarray[Any, np.dtype[Any]]

HEADER_WORDS = 7
OPERAND_WORDS = 5

_LINE = 64  # bytes; the alignment of areas of lanes


@dataclass(frozen=True)
class Operand:
    """An input or output of one sample.

    Attributes:
        name: Name of the argument.
        shape: Its core shape, of rank 0 to 3.
        zeroed: An output that is filled with zeros first, because the kernel writes only some entries.
        symmetric: An output of which the kernel fills the upper triangle of the last two axes.
        unread: The kernel never reads this output, so zeros that it did not overwrite can be reused in the next run.
    """

    name: str
    shape: tuple[int, ...]
    zeroed: bool = False
    symmetric: bool = False
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
    """A kernel's operands and constants for one mechanism.

    Attributes:
        name: The function's name, for messages.
        inputs: At least one.
        outputs: At least one.
        parameters: The mechanism's numbers, in the kernel's format.
        tables: The mechanism's index tables, int64.
        workspace: Length of the scratch memory for one sample of a batch.
        single_workspace: Length of the scratch memory for a single sample, if it is another one.
        called: What the functions touch that the kernel calls, as often as it calls them [64-bit words].
        bundle: Type of several results: `tuple`, or a named tuple.
        code: Identifies the kernel, in other processes too.
        keep: What the constants point to, kept alive with them.
        scalar: The format of all operands and constants.
    """

    name: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    parameters: Array
    tables: Array
    workspace: int
    bundle: type[tuple[Any, ...]] = tuple
    code: str = ""
    keep: Any = ()
    scalar: Format = FLOAT64
    single_workspace: int = 0
    called: int = 0

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

    @property
    def has_big_results(self) -> bool:
        """Whether results of a single sample come from the pool."""
        return any(self.scalar.bytes * operand.size >= buffers.SMALLEST_RESULT for operand in self.outputs)

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
    """The driver's instructions for a kernel.

    Args:
        binding: The kernel's operands. The plan points into its constants, so it must outlive the plan.
        kernel: Address of the kernel for `width` lanes.
        width: Lane width W.

    Returns:
        int64 array of a header (`PlanWord`), one description for each operand (`OperandWord`), and places of numbers.
    """
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
