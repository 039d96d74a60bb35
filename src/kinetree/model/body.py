"""Bodies and frames of a model: frozen records that contain arrays, compared and hashed by content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from kinetree.spatial.value import Array


def frozen(values: Any, shape: tuple[int, ...]) -> Array:
    """A read-only float64 copy of `values`; arrays from an earlier call are not copied again.

    Its memory is a `bytes` object, so the array cannot be made writable again. Adding zero turns −0 into 0, so that
    equal values have equal bytes.
    """
    if type(values) is np.ndarray and values.dtype == np.float64 and values.shape == shape:
        base = values.base
        if (type(base) is bytes or type(getattr(base, "base", None)) is bytes) and values.flags.c_contiguous:
            return values
        array: Array = values + 0.0
    else:
        array = np.array(values, dtype=float).reshape(shape) + 0.0
    fixed: Array = np.ndarray(shape, np.float64, array.tobytes())
    return fixed


def frozen_tables(*tables: tuple[Sequence[Sequence[float]], tuple[int, ...]]) -> list[Array]:
    """Many `frozen` arrays at once: of each table of their numbers and shape, the rows.

    NumPy takes as long for a thousand numbers as for ten, so all of them share memory.
    """
    numbers = np.fromiter(chain.from_iterable(chain.from_iterable(rows for rows, _ in tables)), float) + 0.0
    memory, start, found = numbers.tobytes(), 0, []
    for rows, shape in tables:
        table: Array = np.ndarray((len(rows), *shape), np.float64, memory, start)
        start += table.nbytes
        found.append(table)
    return found


_Own = TypeVar("_Own", bound="Record")


class Record:
    """Base of frozen dataclasses declared with `eq=False`, whose arrays are read-only."""

    @classmethod
    def trusted(cls: type[_Own], **contents: Any) -> _Own:
        """A record of contents that need no check, with `frozen` arrays; those with a default may be missing."""
        made = object.__new__(cls)
        object.__setattr__(made, "__dict__", contents)
        return made

    def _contents(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def _key(self) -> tuple[Any, ...]:
        return tuple(x.tobytes() if isinstance(x, np.ndarray) else x for x in self._contents().values())

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._key()))

    # unpickling calls the constructor, which makes the arrays read-only again
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self._contents().values())


@dataclass(frozen=True, eq=False)
class Body(Record):
    """A rigid body, in the coordinates of its link frame.

    Attributes:
        name: Also the name of its link frame.
        parent: Parent body, "world" for a root.
        joint: Name of the joint between the two.
        mass: [kg].
        com: Centre of mass, (3,) [m].
        inertia: About the centre of mass, in link axes, (3, 3) [kg m²].
        gravity_compensation: Part of its weight that something else bears, as MuJoCo's `gravcomp`. Not part of the
            dynamics.
    """

    name: str
    parent: str
    joint: str
    mass: float
    com: Array
    inertia: Array
    gravity_compensation: float = 0.0

    def __post_init__(self) -> None:
        self.__dict__.update(com=frozen(self.com, (3,)), inertia=frozen(self.inertia, (3, 3)))


@dataclass(frozen=True, eq=False)
class Frame(Record):
    """A named frame fixed to a body.

    Attributes:
        name: Unique among frames and bodies.
        body: Body that carries it, or "world".
        placement: Pose in the body's link frame, (4, 4).
    """

    name: str
    body: str
    placement: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "placement", frozen(self.placement, (4, 4)))
