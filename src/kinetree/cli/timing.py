"""Timing of a robot's functions: the least time over short blocks, which interruptions cannot distort."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import kinetree as kt
from kinetree.engines.frame_function import FrameFunction
from kinetree.engines.native.threads import settle
from kinetree.spatial.value import Array

#: Duration of a timed block, and of all blocks of a measurement [s].
BLOCK, TOTAL = 0.4e-3, 0.1

#: Single calls cycle through this many samples.
MOST_CALLS = 1024

#: Batches are truncated so that no result is larger than this [bytes].
LARGEST = 2**29

#: Argument of functions of a time step [s].
TIME_STEP = 1e-3


@dataclass(frozen=True)
class Cost:
    """The cost of a function.

    Attributes:
        name: Name of the function.
        operations: Additions, multiplications, divisions and square roots per sample.
        call: Time of a call with a single sample [s].
        batch: Samples in the batch, as many of those given as `LARGEST` allows.
        sample: Time per sample of that batch, on one thread [s].
        spread_sample: Time per sample of that batch, on all threads [s]; equal to `sample` if there is only one thread.
    """

    name: str
    operations: int
    call: float
    batch: int
    sample: float
    spread_sample: float


def cost(robot: kt.Model, name: str, states: dict[str, Array], frame: str) -> Cost:
    """Measure a function.

    Args:
        robot: The mechanism.
        name: The function.
        states: Arrays under the keys "q" and "v", of shape (batch, nq) and (batch, nv).
        frame: The frame for functions of a single frame.
    """
    function = getattr(robot, name)
    one_frame = isinstance(function, FrameFunction) and function.needs_frames
    inputs = [argument for argument in function.algorithm.inputs if "frames" not in argument.dimensions]
    # the only scalars are time steps
    step = np.full(len(states["q"]), TIME_STEP)
    arrays = [states[str(argument.dimensions[0])] if argument.dimensions else step for argument in inputs]
    rest = [frame] if one_frame else []
    batch = max(1, min(len(arrays[0]), LARGEST // size(function(*(array[0] for array in arrays), *rest))))
    call = least_time(function, [[*sample, *rest] for sample in zip(*(array[:MOST_CALLS] for array in arrays))])
    whole = [array[:batch] for array in arrays] + rest
    # reuse one output array: allocating each result would cost more than many functions do
    into = partial(function, out=function(*whole))
    with threads(1):
        sample = least_time(into, [whole]) / batch
    spread_sample = sample if kt.get_threads() == 1 else least_time(into, [whole]) / batch
    return Cost(name, robot.count(name, rest or None).total, call, batch, sample, spread_sample)


def size(result: Any) -> int:
    """Size of one or several arrays [bytes]."""
    return sum(array.nbytes for array in result) if isinstance(result, tuple) else int(np.asarray(result).nbytes)


def least_time(function: Callable[..., object], arguments: Sequence[Sequence[Any]]) -> float:
    """Least time of a call [s], over blocks of calls that cycle through the arguments."""
    function(*arguments[0])
    settle()  # code that was compiled for this call may not be optimised yet
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
    """Set the number of threads temporarily."""
    before = kt.get_threads()
    kt.set_threads(count)
    try:
        yield
    finally:
        kt.set_threads(before)
