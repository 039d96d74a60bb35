"""Keeps programs without keeping their objects.

A program consists of tens of thousands of objects: megabytes, which the garbage collector traverses again and again. So
only the last four stay as they are, as many as most functions need. Earlier ones are pickled and compressed to some ten
kilobytes; restoring one takes a twentieth of the time of tracing it again.
"""

from __future__ import annotations

import pickle
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from kinetree.engines.collector import paused
from kinetree.engines.locks import Lock

Made = TypeVar("Made")

LIVE, PACKED = 4, 256


class Kept(Generic[Made]):
    """What a function of hashable arguments returned for the last arguments: four as they are, 256 packed.

    Args:
        make: The function.
    """

    def __init__(self, make: Callable[..., Made]) -> None:
        self._make = make
        self._lock = Lock()
        self._live: OrderedDict[Hashable, Made] = OrderedDict()
        self._packed: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, *key: Hashable) -> Made:
        """The result for these arguments, kept or made now."""
        with self._lock:
            found = self._live.get(key)
            if found is not None:
                self._live.move_to_end(key)
                return found
            packed = self._packed.get(key)
        made: Made = self._make(*key) if packed is None else _unpacked(packed)
        with self._lock:
            self._live[key] = made
            while len(self._live) > LIVE:
                self._pack(*self._live.popitem(last=False))
        return made

    def _pack(self, key: Hashable, made: Made) -> None:
        if key not in self._packed:
            try:
                self._packed[key] = zlib.compress(pickle.dumps(made, pickle.HIGHEST_PROTOCOL), 1)
            except (AttributeError, RecursionError, TypeError, pickle.PicklingError):
                return  # a user's algorithm may put anything into a program
        self._packed.move_to_end(key)
        while len(self._packed) > PACKED:
            self._packed.popitem(last=False)


def _unpacked(packed: bytes) -> Any:
    with paused():
        return pickle.loads(zlib.decompress(packed))  # noqa: S301 - packed above
