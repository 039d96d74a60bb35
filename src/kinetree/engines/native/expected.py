"""Whether functions that are being prepared will be called with single samples or with a batch worth several lanes.

Where this is known, other threads compile a function's kernel while the next one is being traced.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from kinetree.engines.native.gate_layout import SMALLEST_BATCH

_single: ContextVar[bool | None] = ContextVar("kinetree_single", default=None)


def is_single() -> bool | None:
    """Whether samples are expected one by one; None if nothing is known."""
    return _single.get()


@contextmanager
def expecting(arrays: Sequence[Any], ranks: Sequence[int]) -> Iterator[None]:
    """Expect calls with arguments like these inside a `with` block.

    Args:
        arrays: Arguments; those that are no arrays tell nothing.
        ranks: Number of axes of each in a single sample.
    """
    shapes = [(array.shape, rank) for array, rank in zip(arrays, ranks, strict=False) if hasattr(array, "shape")]
    samples = [math.prod(shape[: max(len(shape) - rank, 0)]) for shape, rank in shapes]
    token = _single.set(max(samples) < SMALLEST_BATCH if samples else None)
    try:
        yield
    finally:
        _single.reset(token)


def made_for(owner: object, name: str, *states: Any) -> Any:
    """An attribute that is made when first read: a function of states like these, vectors each."""
    found = vars(owner).get(name)
    if found is None:
        with expecting(states, [1] * len(states)):
            found = getattr(owner, name)
    return found
