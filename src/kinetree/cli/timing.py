"""How long the functions of a robot take: least times over short blocks, which interruptions cannot lengthen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import kinetree as kt
from kinetree.engines.function import OneFrameFunction
from kinetree.spatial.value import Array

#: Length of a timed block, and of all blocks of one measurement [s].
BLOCK, TOTAL = 0.4e-3, 0.1


@dataclass(frozen=True)
class Cost:
    """What one function costs.

    Attributes:
        name: The function.
        operations: Additions, multiplications, divisions and square roots of one sample.
        call: One call with one sample [s].
        sample: One sample of a batch, on one thread [s].
        spread_sample: One sample of a batch, on all threads [s].
    """

    name: str
    operations: int
    call: float
    sample: float
    spread_sample: float


def cost(robot: kt.Model, name: str, states: dict[str, Array], frame: str) -> Cost:
    """Measure a function.

    Args:
        robot: The mechanism.
        name: The function.
        states: By "q" and "v", arrays of shape (batch, nq) and (batch, nv).
        frame: The frame for functions of one frame.
    """
    function = getattr(robot, name)
    one_frame = isinstance(function, OneFrameFunction)
    dimensions = [a.dimensions[0] for a in function.algorithm.inputs if "frames" not in a.dimensions]
    arrays = [states[str(dimension)] for dimension in dimensions]
    rest = [frame] if one_frame else []
    samples = [[*sample, *rest] for sample in zip(*arrays)]
    whole, batch = [[*arrays, *rest]], len(arrays[0])
    call = least_time(function, samples)
    with threads(1):
        sample = least_time(function, whole) / batch
    spread_sample = least_time(function, whole) / batch
    return Cost(name, robot.count(name, rest or None).total, call, sample, spread_sample)


def least_time(function: Callable[..., object], arguments: Sequence[Sequence[Any]]) -> float:
    """Least time of one call [s], over blocks of calls that take the arguments by turns."""
    single = min(_block(function, arguments[:1]) for _ in range(3))
    length = max(1, min(len(arguments), int(BLOCK / single)))
    best, start = single, 0
    end = time.perf_counter() + TOTAL
    while time.perf_counter() < end:
        best = min(best, _block(function, arguments[start : start + length]))
        start = (start + length) % (len(arguments) - length + 1)
    return best


def _block(function: Callable[..., object], arguments: Sequence[Sequence[Any]]) -> float:
    start = time.perf_counter()
    for each in arguments:
        function(*each)
    return (time.perf_counter() - start) / len(arguments)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Use a number of threads for a while."""
    before = kt.get_threads()
    kt.set_threads(count)
    try:
        yield
    finally:
        kt.set_threads(before)
