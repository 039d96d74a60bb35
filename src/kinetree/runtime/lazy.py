"""Attributes that are computed on first access, for otherwise frozen objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, TypeVar, overload

from kinetree.runtime.bound import standard_arithmetic

_T = TypeVar("_T")


class lazy(Generic[_T]):
    """Like `functools.cached_property` but without its lock, which in Python 3.11 costs as much as a small recursion.

    If two threads access it at once, both compute the same value, and both get the one stored first.
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
    """A `lazy` attribute computed with NumPy, in IEEE default arithmetic and without floating-point warnings."""

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        @wraps(compute)
        def quietly(instance: Any) -> _T:
            with standard_arithmetic():
                return compute(instance)

        super().__init__(quietly)
