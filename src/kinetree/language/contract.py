"""The rules of the tree language that hold for every engine.

An algorithm is a Python function made of plain loops over a tree. The rules:

- Before its first loop, it sets every field of the world that it reads or adds to.
- Values are immutable.
- In `scatter` loops it sets fields of `k` only. In `gather` loops it sets fields of `k` and adds to fields of `parent`
  with `+=`. Loops over frames add to fields of the node that carries the frame.
- A field written through one role is not read through another in the same loop body.
- State carried from one iteration to the next lives in a field or an array, never in a local variable, a list or a
  counter.
- Loops run to completion: no `break`, `return` or exception inside.
- Nothing branches on a value or on the kind of a node. Nodes do not reveal their kind, or whether they are the world.

Breaking a rule raises `ContractError` with the file and line of the algorithm.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from kinetree.errors import ContractError
from kinetree.spatial.value import Array, Value

_LIBRARY = Path(__file__).resolve().parents[1]
_PACKAGES = ("language", "compiler", "runtime", "spatial", "model")
_OURS = tuple(str(_LIBRARY / part) for part in (*_PACKAGES, "kernels/language.py", "kernels/index_loops.py"))


@functools.cache
def _is_machinery(file: str) -> bool:
    """Whether a file is part of what runs algorithms."""
    return file.startswith((*_OURS, "<")) or "numpy" in Path(file).parts or file == functools.__file__


def author_line() -> str:
    """File and line of the running algorithm: the innermost stack frame outside the library's own machinery."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_machinery(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def refuse(what: str) -> NoReturn:
    """Raise a ContractError that points at the algorithm's line."""
    raise ContractError(f"{author_line()}: {what}")


class Increment:
    """The result of `parent.field + value` in `+=`, until it is assigned back to the field."""

    __slots__ = ("amount", "owner")

    def __init__(self, owner: object, amount: Any) -> None:
        self.owner, self.amount = owner, amount


class _Addable:
    """Mixin for the type of a value read through a role that may only add."""

    owner: object

    def __iadd__(self, amount: Any) -> Any:
        return Increment(self.owner, amount)

    def __isub__(self, amount: Any) -> Any:
        return Increment(self.owner, -amount)


class _AddableArray(_Addable, np.ndarray[Any, np.dtype[Any]]):
    """An array field that may be added to. Results of arithmetic on it are plain arrays."""

    def __array_finalize__(self, _: object) -> None:
        self.owner = None

    def __array_wrap__(self, array: Array, context: object = None, return_scalar: bool = False) -> Any:
        plain = array.view(np.ndarray)
        return plain[()] if return_scalar else plain


_addable_types: dict[type[Value], Any] = {}


def addable(value: Any, owner: object) -> Any:
    """The same value, tagged with its field so that `+=` adds to that field."""
    if isinstance(value, np.ndarray):
        tagged = value.view(_AddableArray)
        tagged.owner = owner
        return tagged
    plain: type[Value] = type(value)
    kind: Any = _addable_types.get(plain)
    if kind is None:
        kind = type(plain.__name__, (_Addable, plain), {"from_components": plain.from_components})
        kind.plain = plain
        _addable_types[plain] = kind
    copy = kind.__new__(kind)
    copy.__dict__["owner"] = owner
    for base in plain.__mro__:
        for slot in getattr(base, "__slots__", ()):
            setattr(copy, slot, getattr(value, slot))
    return copy


def immutable(value: Any) -> Any:
    """The value in immutable form: spatial values are immutable already, arrays are copied and made read-only."""
    if isinstance(value, Value):
        return value
    array = np.array(value, copy=True, subok=False)
    array.flags.writeable = False
    return array


def describe(value: Any) -> tuple[Any, ...]:
    """The type of a field value: its class and size, without its scalars."""
    if isinstance(value, np.ndarray):
        return (np.ndarray, value.shape)
    return (value.plain, value.parameters)


def type_name(description: tuple[Any, ...]) -> str:
    """The type from `describe`, in words."""
    kind, details = description
    return f"array of shape {details}" if kind is np.ndarray else kind.__name__ + (str(details) if details else "")


def components(value: Any) -> Array:
    """The scalars of a field value, flat."""
    return value.reshape(-1) if isinstance(value, np.ndarray) else value.data


def rebuild(description: tuple[Any, ...], scalars: Array) -> Any:
    """A field value from its type (as returned by `describe`) and its scalars."""
    kind, details = description
    return scalars.reshape(details) if kind is np.ndarray else kind.from_components(scalars, *details)
