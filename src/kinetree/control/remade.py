"""Controllers that are pickled as what they were made from, and compile again where they are needed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Remade:
    """Keeps the arguments of its constructor for pickling. A copy is the object itself, since it never changes."""

    _arguments: tuple[tuple[Any, ...], dict[str, Any]]
    _engine = "native"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__init__ = _keeping(cls.__init__)  # type: ignore[method-assign]

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), *self._arguments, self._engine)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


def _keeping(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def keeping(self: Remade, *positional: Any, **named: Any) -> None:
        init(self, *positional, **named)
        self._arguments = positional, named

    return keeping


def _again(cls: type[Any], positional: tuple[Any, ...], named: dict[str, Any], engine: str) -> Any:
    made = cls(*positional, **named)
    return made if engine == "native" else made.engine(engine)
