"""Buffer pool: memory of results that is reused, so that the operating system need not map and clear fresh pages.

Results of 32 KiB or more are views of buffers; a buffer is reused once no array refers to it. At most 64 are kept, of
1 GiB together, or a sixteenth of the computer's memory if that is less.

All threads share the buffers. Whoever wants one looks at its reference count while holding a reference of their own
(`empty`) or the GIL (gates, see `runtime/fastcall_results.py`). So of two that want the same buffer both may go
without, but never do both get it.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
import sysconfig
from functools import lru_cache
from typing import Any

import numpy as np

from kinetree.concurrency import ForkSafeLock

Array = np.ndarray[Any, np.dtype[Any]]

#: Number of buffers for results, and minimum size of such results in bytes.
BUFFERS, SMALLEST_RESULT = 64, 1 << 15
_LEAST_KEPT = 1 << 26

#: Buffers, or None, and their sizes in bytes. Machine code looks between any two instructions: a size has its buffer.
buffers = np.full(BUFFERS, None, dtype=object)
sizes = np.zeros(BUFFERS, dtype=np.int64)
_turns = itertools.count()
_lock = ForkSafeLock()
_FLOAT64 = np.dtype(np.float64)


def _idle() -> int:
    """The reference count that `buffer` sees for an unused one."""
    places = np.full(1, None, dtype=object)
    places[0] = np.empty(1)
    found = places[0]
    return sys.getrefcount(found)


# Without a GIL, or on other interpreters, reference counts are meaningless.
_COUNTABLE = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
_IDLE = _idle() if _COUNTABLE else 0


def empty(shape: tuple[int, ...], dtype: np.dtype[Any] = _FLOAT64) -> Array:
    """An uninitialised array for results, possibly in reused memory."""
    size = dtype.itemsize * math.prod(shape)
    if size < SMALLEST_RESULT or not _COUNTABLE:
        return np.empty(shape, dtype)
    buffer = _unused(size)
    array: Array = np.ndarray(shape, dtype, fresh(size) if buffer is None else buffer)
    return array


def _unused(size: int) -> Array | None:
    """A buffer of a suitable size that nothing refers to."""
    for place in np.flatnonzero((sizes >= size) & (sizes <= 2 * size)):
        buffer: Array = buffers[place]
        # it may have been replaced meanwhile, or changed by a user
        if sys.getrefcount(buffer) == _IDLE and buffer.nbytes >= size and buffer.flags.carray and buffer.flags.owndata:
            return buffer
    return None


def fresh(size: int) -> Array:
    """A new buffer of at least `size` bytes, which is kept for later unless it is too large."""
    made = np.empty(-(-size // 8))
    if made.nbytes <= most_kept():
        with _lock:
            _keep(made)
    return made


def _keep(made: Array) -> None:
    """Keep a buffer in the place of the oldest one, and give up the next older ones as far as the bound demands."""
    place = next(_turns) % BUFFERS
    spare = most_kept() - made.nbytes - int(sizes.sum())
    for i in range(BUFFERS):
        if i > 0 and spare >= 0:
            break
        other = (place + i) % BUFFERS
        spare += int(sizes[other])
        sizes[other] = 0
        buffers[other] = None
    buffers[place] = made
    sizes[place] = made.nbytes


def most_kept() -> int:
    """Bytes of results that are kept at most."""
    return int(max(_LEAST_KEPT, min(1 << 30, physical_memory() / 16)))


@lru_cache(maxsize=1)
def physical_memory() -> float:
    """Bytes of this machine's memory; infinite if it does not tell."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # not on Windows
        return math.inf
