"""Keeps programs without keeping their objects.

A long program consists of tens of thousands of objects: megabytes, which the garbage collector traverses again and
again. So only the last ones stay as they are: four long ones, or all that a function needs if they are short. Earlier
ones are pickled and compressed to some ten kilobytes; restoring one takes a twentieth of the time of tracing it again.
"""

from __future__ import annotations

import pickle
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from kinetree.engines.collector import gc_paused
from kinetree.engines.locks import Lock

Made = TypeVar("Made")

#: Objects that are kept as they are, at least one; results that are kept packed.
LIVE, PACKED = 40_000, 256


class ProgramCache(Generic[Made]):
    """What a function of hashable arguments returned for the last arguments: some as it is, 256 packed.

    Args:
        make: The function.
        size: Returns the number of objects of a result.
    """

    def __init__(self, make: Callable[..., Made], size: Callable[[Made], int]) -> None:
        self._make, self._size = make, size
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
            objects = sum(map(self._size, self._live.values()))
            while objects > LIVE and len(self._live) > 1:
                oldest, least_used = self._live.popitem(last=False)
                objects -= self._size(least_used)
                self._pack(oldest, least_used)
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
    with gc_paused():
        return pickle.loads(zlib.decompress(packed))  # noqa: S301 - packed above
