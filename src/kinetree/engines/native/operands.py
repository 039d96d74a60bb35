"""What a kernel computes on: its operands, numbers and tables, and the plan by which the driver feeds it.

A kernel of lane width W is `void kernel(ws, params, tables, in, outs)`, where `outs` are the addresses of all outputs.
One call handles W samples; element
e of lane l is at index e*W + l of `in` (all inputs one after the other), of each output and of the scratch `ws`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

HEADER_WORDS = 8
OPERAND_WORDS = 8

_LINE = 64  # bytes; areas of lanes start at multiples of it


@dataclass(frozen=True)
class Operand:
    """An input or output of one sample.

    Attributes:
        name: What users call it.
        shape: Its core shape, of rank 0 to 3.
        zeroed: An output that is filled with 0.0 before the kernel, which writes only some entries, runs.
        symmetric: An output of which the kernel fills the upper triangle of the last two axes.
        unread: The kernel never reads this output back: zeros that one run leaves alone still serve the next.
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
        """Numbers in one sample."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class Binding:
    """A kernel's operands and constants for one mechanism.

    Attributes:
        name: The function's name, for messages.
        inputs: At least one.
        outputs: At least one.
        parameters: The mechanism's numbers, float64.
        tables: The mechanism's index tables, int64.
        workspace: Numbers of scratch that one sample needs.
        bundle: What several results come in: `tuple`, or a named one.
    """

    name: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    parameters: Array
    tables: Array
    workspace: int
    bundle: type[tuple[Any, ...]] = tuple

    def bundled(self, results: tuple[Array, ...]) -> Any:
        """The one result, or several in their bundle."""
        if len(results) == 1:
            return results[0]
        return results if self.bundle is tuple else self.bundle(*results)

    def __post_init__(self) -> None:
        if not self.inputs or not self.outputs:
            raise ValueError(f"{self.name}: a kernel has inputs and outputs")
        for field, dtype in (("parameters", np.float64), ("tables", np.int64)):
            constant = np.array(getattr(self, field), dtype=dtype)  # our own copy, which nobody else can change
            constant.flags.writeable = False
            object.__setattr__(self, field, constant)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    @cached_property
    def footprint(self) -> int:
        """Numbers that one sample touches: scratch, inputs and outputs."""
        return self.workspace + sum(operand.size for operand in self.operands)


class PlanWord(IntEnum):
    """Places in a plan's header, in 64-bit words."""

    KERNEL = 0
    PARAMETERS = 1
    TABLES = 2
    INPUTS = 3
    OUTPUTS = 4
    SCRATCH_BYTES = 5
    WORKSPACE = 6


class OperandWord(IntEnum):
    """Places in the description of an operand, in 64-bit words."""

    SIZE = 0
    DIM = 1  # three, padded on the left with 1
    AREA = 4  # byte offset into the scratch
    FLAGS = 5
    FIRST_STEP = 6  # where its core strides start in the strides that NumPy passes
    RANK = 7


class Flag(Enum):
    """Bits of an operand's flags."""

    ZEROED = 1
    SYMMETRIC = 2
    ZEROED_ONCE = 4


def plan(binding: Binding, kernel: int, width: int) -> Array:
    """The driver's instructions for a kernel.

    Args:
        binding: The kernel's operands. The plan points into its constants, so it must outlive the plan.
        kernel: Address of the kernel for `width` lanes.
        width: Lane width W.

    Returns:
        int64 array of a header (`PlanWord`) and one description for each operand (`OperandWord`).
    """
    lane_bytes = 8 * width
    words = np.zeros(HEADER_WORDS + OPERAND_WORDS * len(binding.operands), dtype=np.int64)
    offset = 0
    first_step = len(binding.operands)
    for k, operand in enumerate(binding.operands):
        if k >= len(binding.inputs):
            # Transposes at an operand's end read and write up to W - 1 rows beyond it.
            offset = _aligned(offset + (width - 1) * lane_bytes)
        entry = words[HEADER_WORDS + OPERAND_WORDS * k :]
        entry[OperandWord.SIZE] = operand.size
        entry[OperandWord.DIM : OperandWord.DIM + 3] = (1,) * (3 - len(operand.shape)) + operand.shape
        entry[OperandWord.AREA] = offset
        # A single sample is computed where the user wants it, which is another place each time.
        zeroed = Flag.ZEROED_ONCE if operand.unread and width > 1 else Flag.ZEROED
        entry[OperandWord.FLAGS] = zeroed.value * operand.zeroed + Flag.SYMMETRIC.value * operand.symmetric
        entry[OperandWord.FIRST_STEP] = first_step
        entry[OperandWord.RANK] = len(operand.shape)
        offset += operand.size * lane_bytes
        first_step += len(operand.shape)
    words[PlanWord.KERNEL] = kernel
    words[PlanWord.PARAMETERS] = binding.parameters.ctypes.data
    words[PlanWord.TABLES] = binding.tables.ctypes.data
    words[PlanWord.INPUTS] = len(binding.inputs)
    words[PlanWord.OUTPUTS] = len(binding.outputs)
    words[PlanWord.WORKSPACE] = _aligned(offset + (width - 1) * lane_bytes)
    words[PlanWord.SCRATCH_BYTES] = words[PlanWord.WORKSPACE] + binding.workspace * lane_bytes
    return words


def _aligned(offset: int) -> int:
    return -(-offset // _LINE) * _LINE
