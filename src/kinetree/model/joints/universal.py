"""Universal joint: rotation about one axis, then about a second one that the first moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from kinetree.model.joints.base import JointKind, Stage
from kinetree.model.joints.revolute import Revolute


@final
@dataclass(frozen=True)
class Universal(JointKind):
    """Two angles [rad]. Split into two revolute stages, because a single joint map H would depend on q."""

    name: ClassVar[str] = "universal"
    nq: ClassVar[int] = 2
    nv: ClassVar[int] = 2
    axes: ClassVar[int] = 2
    angles: ClassVar[tuple[bool, ...]] = (True, True)

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (Revolute(), Revolute())
