"""Coordinates of a node that is not a rigid body: plain numbers, with q̇ = v."""

from __future__ import annotations

from functools import cache
from typing import ClassVar, final

from kinetree.model.joints.base import JointKind, Stage


@cache
def plain(count: int) -> JointKind:
    """A kind of joint with `count` plain coordinates and no stages: its formulas are those of its node."""

    @final
    class Plain(JointKind):
        """Plain numbers."""

        name: ClassVar[str] = "node"
        nq: ClassVar[int] = count
        nv: ClassVar[int] = count
        angles: ClassVar[tuple[bool, ...]] = (False,) * count

        @property
        def stages(self) -> tuple[Stage, ...]:
            return ()

    return Plain()
