"""Parts of a model that are made when they are first needed, all at once."""

from __future__ import annotations

from typing import Any


class _Later:
    """An attribute that an object lacks until its parts are made; found here once, and in the object from then on."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        own: dict[str, Any] = {} if instance is None else vars(instance)
        if "_make" not in own:
            raise AttributeError(f"{owner.__name__} has no attribute {self._name!r}")
        make = own["_make"]
        if make is not None:
            # if two threads come here at once, both make the same parts, and both get those stored first
            for name, part in vars(make()).items():
                own.setdefault(name, part)
            own["_make"] = None
        return own[self._name]


def later() -> Any:
    """An attribute of a class whose objects may have a function `_make`, which returns one with all of its parts."""
    return _Later()
