"""Universal joint: turns about one axis, then about another that the first turn has moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from kinetree.model.joints.base import JointKind, Stage
from kinetree.model.joints.revolute import Revolute


@final
@dataclass(frozen=True)
class Universal(JointKind):
    """Two angles [rad]. Two revolute nodes with a massless one between, because its own map H would depend on q."""

    name: ClassVar[str] = "universal"
    nq: ClassVar[int] = 2
    nv: ClassVar[int] = 2
    axes: ClassVar[int] = 2
    angles: ClassVar[tuple[bool, ...]] = (True, True)

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (Revolute(), Revolute())
