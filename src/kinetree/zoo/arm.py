"""An arm with seven joints."""

from __future__ import annotations

import numpy as np

from kinetree.model.builder import Builder
from kinetree.model.joint import Limits
from kinetree.model.model import Model


def arm7() -> Model:
    """Seven revolute joints with crossing axes, 0.2 m apart, and the frame "hand" at the end. nv = 7.

    Upright in its neutral configuration; links and joints are named `link0` to `link6` and `joint0` to `joint6`.
    """
    builder = Builder("arm7")
    parent, length = "world", 0.0
    for i in range(7):
        builder.add_body(
            f"link{i}", parent=parent, joint_name=f"joint{i}", placement=(np.eye(3), (0.0, 0.0, length)),
            axis=(0, 1, 0) if i % 2 else (0, 0, 1), mass=3.0 - 0.3 * i, com=(0.0, 0.0, 0.1),
            inertia=np.diag([0.02, 0.02, 0.005]), armature=0.05, limits=Limits(-2.9, 2.9, 4.0, 150.0 - 20.0 * i),
        )  # fmt: skip
        parent, length = f"link{i}", 0.2
    builder.add_frame("hand", body=parent, placement=(np.eye(3), (0.0, 0.0, 0.1)))
    return builder.build()
