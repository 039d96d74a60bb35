"""Timing contenders against each other so that the ratio means something.

All run in one process on one pinned core, by turns, in blocks of less than half a millisecond, each on the next states
out of a pool. A block that was interrupted is slow, and the minimum over many rounds forgets it; blocks that were long
would be interrupted the more often the slower the contender is. An untimed call comes before each block, since the
others have filled the caches meanwhile: what is timed is a call in a loop of its like.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

#: Length of one timed block [s].
BLOCK = 0.4e-3

Call = Callable[..., object]


def pin_to_one_core() -> int:
    """Keep this process on the last of its cores, away from where interrupts usually go.

    Returns:
        The core's number.
    """
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def processor() -> str:
    """The processor's name."""
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def race(contenders: Mapping[str, tuple[Call, Sequence[tuple[Any, ...]]]], seconds: float = 0.4) -> dict[str, float]:
    """Time contenders by turns.

    Args:
        contenders: For each name a function and a pool of argument tuples.
        seconds: How long to go on for each contender.

    Returns:
        The least time per call of each [s].
    """
    lengths = {name: _block_length(call, pool) for name, (call, pool) in contenders.items()}
    best = dict.fromkeys(contenders, float("inf"))
    places = dict.fromkeys(contenders, 0)
    end = time.perf_counter() + seconds * len(contenders)
    rounds = 0
    while rounds < 5 or time.perf_counter() < end:
        rounds += 1
        for name, (call, pool) in contenders.items():
            length, start = lengths[name], places[name]
            if start + length > len(pool):
                start = 0
            places[name] = start + length
            call(*pool[start])
            best[name] = min(best[name], _block(call, pool[start : start + length]))
    return best


def _block(call: Call, arguments: Sequence[tuple[Any, ...]]) -> float:
    """Seconds per call over one block."""
    start = time.perf_counter()
    for each in arguments:
        call(*each)
    return (time.perf_counter() - start) / len(arguments)


def _block_length(call: Call, pool: Sequence[tuple[Any, ...]]) -> int:
    """How many calls fill a block; the first calls warm everything up."""
    for each in pool[:3]:
        call(*each)
    single = min(_block(call, pool[:1]) for _ in range(5))
    return max(1, min(len(pool), int(BLOCK / single)))
