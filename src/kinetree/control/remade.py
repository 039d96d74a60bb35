"""Controllers that are pickled as what they were made from, and compile again where they are needed."""

from __future__ import annotations

from typing import Any


class Remade:
    """Keeps the arguments of its constructor for pickling. A copy is the object itself, since it never changes."""

    _arguments: tuple[tuple[Any, ...], dict[str, Any]]
    _engine = "native"

    def __new__(cls, *positional: Any, **named: Any) -> Any:
        made = super().__new__(cls)
        made._arguments = positional, named
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), *self._arguments, self._engine)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


def _again(cls: type[Any], positional: tuple[Any, ...], named: dict[str, Any], engine: str) -> Any:
    made = cls(*positional, **named)
    return made if engine == "native" else made.engine(engine)
