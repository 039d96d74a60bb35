"""Fixed joint. Its body is merged into the parent when the model is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from kinetree.model.joints.base import JointKind, Stage


@final
@dataclass(frozen=True)
class Fixed(JointKind):
    """No coordinates."""

    name: ClassVar[str] = "fixed"
    nq: ClassVar[int] = 0
    nv: ClassVar[int] = 0

    @property
    def stages(self) -> tuple[Stage, ...]:
        return ()
