"""The identity of an algorithm in the names of compiled code, with that of everything it wraps.

A change of the package's own sources changes every name in the cache. Whatever else takes part in an algorithm may
change unnoticed: a user's recursion that was differentiated, or given its constants as an input, a user's joint. Such
algorithms have no identity, and their code is not kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.node import NodeKind

#: Packages whose sources, or versions, are part of every name in the cache; the last ones come with Python.
_KNOWN = frozenset({"kinetree", "numpy", "builtins", "math", "operator", "functools"})
_PLAIN = (str, bytes, int, float, complex, type(None), type(...), np.generic)


class Traced:
    """Base of what runs a user's formulas and has a digest of what they compute in its `name`."""

    name: str


class _ForeignError(Exception):
    """Something is not the package's own."""


@lru_cache(maxsize=1024)
def identity(algorithm: Algorithm) -> str | None:
    """A digest that tells an algorithm from others; None if anything of it is not the package's own."""
    try:
        return hashlib.sha256("\n".join(_parts(algorithm, ())).encode()).hexdigest()
    except _ForeignError:
        return None


def is_own_kind(kind: NodeKind) -> bool:
    """Whether a node kind is the package's own, or has a digest of its formulas in its name."""
    try:
        return all(_parts(kind, ()))
    except _ForeignError:
        return False


def _parts(value: Any, above: tuple[int, ...]) -> Iterator[str]:
    """What a value consists of; `above` are the values that it is a part of."""
    if isinstance(value, _PLAIN):
        yield repr(value)
        return
    if id(value) in above:  # a function that calls itself
        yield f"above {above[::-1].index(id(value))}"
        return
    inner: tuple[Any, ...]
    if isinstance(value, FunctionType):
        # not __module__, which decorators copy
        place = value.__globals__.get("__name__")
        yield f"function {_known(place)} {value.__qualname__} {value.__code__.co_firstlineno}"
        cells = value.__closure__ or ()
        inner = *(cell.cell_contents for cell in cells), value.__defaults__, value.__kwdefaults__
    elif isinstance(value, (type, BuiltinFunctionType)):
        yield f"{_known(value.__module__)} {value.__qualname__}"
        inner = ()
    elif isinstance(value, MethodType):
        inner = value.__func__, value.__self__
    elif isinstance(value, partial):
        inner = value.func, value.args, value.keywords
    else:
        yield f"{_known(type(value).__module__)} {type(value).__qualname__}"
        inner = _state(value)
    yield f"({len(inner)}"
    for each in inner:
        yield from _parts(each, (*above, id(value)))


def _state(value: Any) -> tuple[Any, ...]:
    """What distinguishes an object from others of its type."""
    if isinstance(value, Traced):
        return (value.name,)
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, np.ufunc):
        return (value.__name__,)
    if isinstance(value, (tuple, list)):
        return tuple(value)
    if isinstance(value, Mapping):
        return tuple(value.items())
    if isinstance(value, (set, frozenset)):
        return tuple(sorted(value, key=repr))
    if is_dataclass(value):
        return tuple(getattr(value, field.name) for field in fields(value))
    return tuple(vars(value).items())


def _known(module: str | None) -> str:
    if module is None or module.partition(".")[0] not in _KNOWN:
        raise _ForeignError
    return module
