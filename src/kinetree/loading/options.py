"""What a user asks of a loader."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: What `load(mimic=…)` takes.
MIMIC = ("independent", "lock")


@dataclass(frozen=True)
class Options:
    """The arguments of `load`, explained there."""

    floating_base: bool = False
    root: str | None = None
    mimic: str = "independent"
    lock: dict[str, Any] = field(default_factory=dict)
    joint_order: tuple[str, ...] = ()
    gravity: Any = None
    directory: Any = None
