"""Memory that is reused from call to call, so that the operating system need not map and clear fresh pages each time.

Scratch of 64 KiB or more comes from a few slots that all threads share without locks: machine code takes a block out of
a slot and puts it back, or replaces another if all slots are full. Results of 32 KiB or more are views of buffers; a
buffer is reused once no array refers to it. The memory kept is bounded: four blocks of scratch of at most 64 MiB each,
and 64 buffers of at most 1 GiB together, or a sixteenth of the computer's memory if that is less.

All threads share the buffers. Whoever wants one looks at its reference count while holding a reference of their own
(`empty`) or the GIL (gates, see `runtime/fastcall_results.py`). So of two that want the same buffer both may go
without, but never do both get it.

On Linux, scratch of 4 MiB or more asks for huge pages: sweeps over large robots would otherwise wait for page tables.
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

SLOTS = 4
#: Minimum and maximum size of scratch that is kept, in bytes.
SMALLEST, LARGEST = 1 << 16, 1 << 26
#: Minimum size of scratch in huge pages, their size, and Linux's number for asking for them.
_HUGE, _HUGE_PAGE, _MADV_HUGEPAGE = 1 << 22, 1 << 21, 14
#: Number of buffers for results, and minimum size of such results in bytes.
BUFFERS, SMALLEST_RESULT = 64, 1 << 15

#: Addresses of kept scratch blocks, 0 for an empty slot.
slots = np.zeros(SLOTS, dtype=np.int64)
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


@lru_cache(maxsize=1)
def most_kept() -> int:
    """Bytes of results that are kept at most."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return LARGEST
    return max(LARGEST, min(1 << 30, memory // 16))


def pool_text(huge_pages: bool) -> str:
    """LLVM assembly of `grab` and `drop`, which allocate and free scratch; pooled blocks are aligned to a cache line.

    A pooled block is preceded by its capacity and the address to pass to `free`.

    Args:
        huge_pages: Whether to ask for huge pages, as Linux can provide.
    """
    advise = f"call i32 @madvise(ptr %start, i64 %size, i32 {_MADV_HUGEPAGE})" if huge_pages else ""
    return f"""
{"declare i32 @madvise(ptr, i64, i32)" if huge_pages else ""}
define internal ptr @grab(ptr %slots, i64 %size) {{
entry:
  %big = icmp uge i64 %size, {SMALLEST}
  br i1 %big, label %look, label %small
small:
  %plain = call ptr @malloc(i64 %size)
  ret ptr %plain
look:
  %i = phi i64 [0, %entry], [%next, %on]
  %slot = getelementptr i64, ptr %slots, i64 %i
  %found = atomicrmw xchg ptr %slot, i64 0 acquire
  %none = icmp eq i64 %found, 0
  br i1 %none, label %on, label %measure
measure:
  %block = inttoptr i64 %found to ptr
  %head = getelementptr i64, ptr %block, i64 -2
  %capacity = load i64, ptr %head, align 8
  %fits = icmp uge i64 %capacity, %size
  br i1 %fits, label %take, label %back
take:
  ret ptr %block
back:
  %exchange = cmpxchg ptr %slot, i64 0, i64 %found release monotonic
  %put = extractvalue {{i64, i1}} %exchange, 1
  br i1 %put, label %on, label %lost
lost:
  %lost_raw_at = getelementptr ptr, ptr %block, i64 -1
  %lost_raw = load ptr, ptr %lost_raw_at, align 8
  call void @free(ptr %lost_raw)
  br label %on
on:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {SLOTS}
  br i1 %more, label %look, label %fresh
fresh:
  %huge = icmp uge i64 %size, {_HUGE}
  %unit = select i1 %huge, i64 {_HUGE_PAGE}, i64 64
  %room = add i64 %unit, 64
  %bytes = add i64 %size, %room
  %raw = call ptr @malloc(i64 %bytes)
  %failed = icmp eq ptr %raw, null
  br i1 %failed, label %nothing, label %made
nothing:
  ret ptr null
made:
  %number = ptrtoint ptr %raw to i64
  %last = add i64 %room, -1
  %beyond = add i64 %number, %last
  %mask = sub i64 0, %unit
  %aligned = and i64 %beyond, %mask
  %start = inttoptr i64 %aligned to ptr
  %start_head = getelementptr i64, ptr %start, i64 -2
  store i64 %size, ptr %start_head, align 8
  %start_raw = getelementptr ptr, ptr %start, i64 -1
  store ptr %raw, ptr %start_raw, align 8
  br i1 %huge, label %ask, label %done
ask:
  {advise}
  br label %done
done:
  ret ptr %start
}}

define internal void @drop(ptr %slots, ptr %block, i64 %size) {{
entry:
  %big = icmp uge i64 %size, {SMALLEST}
  br i1 %big, label %measure, label %small
small:
  call void @free(ptr %block)
  ret void
measure:
  %head = getelementptr i64, ptr %block, i64 -2
  %capacity = load i64, ptr %head, align 8
  %number = ptrtoint ptr %block to i64
  %huge = icmp ugt i64 %capacity, {LARGEST}
  br i1 %huge, label %release, label %look
look:
  %i = phi i64 [0, %measure], [%next, %on]
  %slot = getelementptr i64, ptr %slots, i64 %i
  %exchange = cmpxchg ptr %slot, i64 0, i64 %number release monotonic
  %put = extractvalue {{i64, i1}} %exchange, 1
  br i1 %put, label %kept, label %on
kept:
  ret void
on:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {SLOTS}
  br i1 %more, label %look, label %full
full:
  %other = atomicrmw xchg ptr %slots, i64 %number acq_rel
  %none = icmp eq i64 %other, 0
  br i1 %none, label %kept, label %replace
replace:
  %old = inttoptr i64 %other to ptr
  br label %release
release:
  %gone = phi ptr [%block, %measure], [%old, %replace]
  %raw_at = getelementptr ptr, ptr %gone, i64 -1
  %raw = load ptr, ptr %raw_at, align 8
  call void @free(ptr %raw)
  ret void
}}
"""
