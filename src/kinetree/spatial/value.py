"""The base of every spatial quantity: a flat, immutable array of scalars with a meaning.

The scalars may be floats, complex numbers, extended or arbitrary precision numbers, or a tracer's symbols: nothing here
depends on their type. Storing each quantity in as few scalars as its structure allows (10 for a rigid inertia, 21 for
an articulated one) is what makes the recursions cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import Self

Array = np.ndarray[Any, np.dtype[Any]]
_Given = TypeVar("_Given")
_Result = TypeVar("_Result")


class Value:
    """A quantity made of `size` scalars. Subclasses define their meaning."""

    __slots__ = ("data",)

    size: ClassVar[int]
    #: The class that defines the meaning of the scalars; subclasses that do not redefine it keep their parent's.
    plain: ClassVar[type[Value]]
    data: Array

    def __init_subclass__(cls) -> None:
        cls.plain = cls

    def __init__(self, data: Any) -> None:
        data = np.asarray(data)
        if data.shape != (self.size,):
            raise ValueError(f"{type(self).__name__} takes {self.size} numbers, got an array of shape {data.shape}")
        if data.flags.writeable:
            data = data.view()
            data.flags.writeable = False
        self.data = data

    @property
    def parameters(self) -> tuple[int, ...]:
        """Arguments of `from_components` besides the scalars; empty for quantities of fixed size."""
        return ()

    @classmethod
    def size_of(cls, *_: int) -> int:
        """Number of scalars, given the parameters."""
        return cls.size

    @classmethod
    def from_components(cls, data: Array, *parameters: int) -> Self:
        """Rebuild a quantity from its scalars."""
        return cls(data, *parameters)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.data.tolist()})"


class Sized(Value):
    """A quantity whose number of scalars follows from integers: its parameters, each of them an attribute."""

    __slots__ = ()
    #: Names of the parameters.
    names: ClassVar[tuple[str, ...]]

    def __init__(self, data: Any, *parameters: int) -> None:
        data, size = np.asarray(data).reshape(-1).view(), self.size_of(*parameters)
        if len(data) != size:
            given = ", ".join(f"{name}={value}" for name, value in zip(self.names, parameters, strict=True))
            raise ValueError(f"{type(self).__name__} with {given} takes {size} numbers, got {len(data)}")
        data.flags.writeable = False
        self.data = data
        for name, value in zip(self.names, parameters, strict=True):
            setattr(self, name, value)

    @property
    def parameters(self) -> tuple[int, ...]:
        return tuple([getattr(self, name) for name in self.names])


class Linear(Value):
    """A quantity that can be added, subtracted and scaled component by component."""

    __slots__ = ()

    @classmethod
    def zero(cls) -> Self:
        """The neutral element of addition."""
        return cls(np.zeros(cls.size))

    def __add__(self, other: Self) -> Self:
        if not isinstance(other, Value) or other.plain is not self.plain:
            return NotImplemented
        return type(self).from_components(self.data + other.data, *self.parameters)

    def __sub__(self, other: Self) -> Self:
        if not isinstance(other, Value) or other.plain is not self.plain:
            return NotImplemented
        return type(self).from_components(self.data - other.data, *self.parameters)

    def __neg__(self) -> Self:
        return type(self).from_components(-self.data, *self.parameters)

    def __mul__(self, scalar: Any) -> Self:
        return type(self).from_components(self.data * scalar, *self.parameters)


class Transposed(Generic[_Given, _Result]):
    """The transpose of a linear map, applied with `@` and never stored."""

    __slots__ = ("_apply",)

    def __init__(self, apply: Callable[[_Given], _Result]) -> None:
        self._apply = apply

    def __matmul__(self, given: _Given) -> _Result:
        return self._apply(given)
