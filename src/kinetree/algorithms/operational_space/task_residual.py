"""The residual b − J̇v of tasks, for controllers that share it among levels or limits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from kinetree.algorithms.operational_space import task_space
from kinetree.algorithms.operational_space.control_law import residual_of
from kinetree.algorithms.operational_space.motion import motion, rows_of_motion
from kinetree.algorithms.operational_space.task_space import Parts
from kinetree.kernels.poses import ERRORS, fault_of
from kinetree.recursion.algorithm import Algorithm, algorithm
from kinetree.recursion.roles import FrameRole
from kinetree.recursion.tree import Indexed, Tree, Zeros


@cache
def task_residual(parts: Parts, error: str = "sine") -> Algorithm:
    """b − J̇v of all rows, for rows in world axes, and `fault` as of `control_step`.

    Args:
        parts: The kinds of tasks present.
        error: The error between poses, one of `ERRORS`.

    Inputs are those of `control_law`.
    """

    def task_residual(
        tree: Tree,
        q: Indexed,
        v: Indexed,
        target: Indexed,
        feed: Indexed,
        gains: Indexed,
        residual: Indexed,
        fault: Indexed,
    ) -> None:
        task_space.place(tree, q)
        motion(tree, v, Zeros())

        def lack(frame: FrameRole, error: Any, velocity: Any, rate: Any) -> None:
            for row in frame.rows():
                residual[row] = residual_of(row, feed, gains, error, velocity, rate)

        rows_of_motion(tree, parts, target, lack, ERRORS[error])
        for frame, _ in tree.frames():
            fault[...] = fault[...] + fault_of(target[frame])

    declare = algorithm(
        q=("q",),
        v=("v",),
        target=("frames", 4, 4),
        feed=("rows", 2),
        gains=("rows", 2),
        residual=("rows",),
        fault=(),
        outputs=("residual", "fault"),
        sparse=("fault",),
    )
    return replace(declare(task_residual), name=f"task_residual_{error}{parts.suffix}")
