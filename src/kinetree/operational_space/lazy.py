"""Attributes that are computed when first asked for, on objects that are frozen otherwise."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, TypeVar, overload

from kinetree.engines.native.compiled import standard_arithmetic

_T = TypeVar("_T")


class lazy(Generic[_T]):
    """Like `functools.cached_property`, without its lock: in Python 3.11 that takes as long as a small recursion.

    Two threads that ask at once both compute; the values are equal, and both get the same one.
    """

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        self._compute, self._name, self.__doc__ = compute, compute.__name__, compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[_T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...
    def __get__(self, instance: object | None, owner: type) -> _T | lazy[_T]:
        if instance is None:
            return self
        value: _T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value


class computed(lazy[_T]):
    """A `lazy` attribute that NumPy computes: in IEEE arithmetic whatever the thread's settings, without a word."""

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        @wraps(compute)
        def quietly(instance: Any) -> _T:
            with standard_arithmetic():
                return compute(instance)

        super().__init__(quietly)
