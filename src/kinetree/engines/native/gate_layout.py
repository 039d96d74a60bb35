"""Where gates find things: in CPython's and NumPy's structures, and in the descriptions of gates and bound kernels."""

from __future__ import annotations

from enum import IntEnum

# Byte offsets in CPython's and NumPy's structures.
COUNT, TYPE = 0, 8
FLOAT_VALUE = 16
DATA, NDIM, DIMS, DESCR, FLAGS, WEAK = 16, 24, 32, 56, 64, 72
VECTORCALL, METHOD, FRONT, GATE_SIZE = 16, 24, 32, 40
TYPE_FLAGS = 168

PLAIN = 0x0001 | 0x0100  # NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED
WRITEABLE = 0x0400
OWNS_DATA = 0x0004
MAX_OPERANDS = 16
MAX_PARAMETERS = 24
MAX_KEYS = 16
MAX_ROWS_SIZE = 6 * MAX_KEYS  # numbers in a dictionary's arrays

# Fewer samples are faster one by one than in mostly unused lanes.
SMALLEST_BATCH = 3
# Small results that a kernel keeps: arrays, or tuples of them.
KEPT = 4


class CallDescriptor(IntEnum):
    """Words of a gate: parameters have two words each, name and default; variants their kernel, keys and choices.

    `DEFAULT` is the kernel for calls with all inputs and nothing else, or null. `KEYED` is the number of the parameter
    that may be a dictionary. A variant's keys are null, or their number and the keys; its choice is null there.
    """

    PARAMETERS = 0
    INPUTS = 1
    VARIANTS = 2
    OUT = 3
    NONE = 4
    DEFAULT = 5
    KEYED = 6
    DICT_TYPE = 7
    STR_TYPE = 8
    ENTRIES = 9


class KernelDescriptor(IntEnum):
    """Words of a bound kernel.

    `THREADS` is the address of the number of threads. Batches of more than `MOST_SAMPLES` are worth two of them. Where
    there is one, batches of up to `MOST_ALONE` stay in machine code, which Python cannot interrupt.

    `RESULTS` is the address of the small results that are kept, or null; `NEXT_RESULT` counts those that were replaced.
    `BUFFERS` and `BUFFER_SIZES` are the pool's, for larger results, and `FRESH_BUFFER` its function that
    makes one. `NEW_ARRAY` and `SET_BASE` are functions of NumPy.
    """

    INPUTS = 0
    OUTPUTS = 1
    DRIVE = 2
    PLAN = 3
    STEPS = 4
    STEP_COUNT = 5
    ARRAY_TYPE = 6
    DTYPE = 7
    NEW_ARRAY = 8
    WORK = 9
    BUNDLE = 10
    FLOAT_TYPE = 11
    TUPLE_TYPE = 12
    MOST_SAMPLES = 13
    BATCH_PLAN = 14
    BATCH_DRIVE = 15
    TYPE_NUMBER = 16
    ITEM_BYTES = 17
    SET_BASE = 18
    DOUBLE_TYPE = 19
    SINGLE_TYPE = 20
    RESULTS = 21
    NEXT_RESULT = 22
    BUFFERS = 23
    BUFFER_SIZES = 24
    FRESH_BUFFER = 25
    THREADS = 26
    MOST_ALONE = 27
    OPERANDS = 28


OPERAND_WORDS = 5  # rank, up to three dimensions, bytes
