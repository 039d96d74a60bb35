"""The residual b − J̇v of tasks, for controllers that share it among levels or limits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from kinetree.algorithms import tree_frame
from kinetree.algorithms.operational_space.by_weights import frames
from kinetree.algorithms.operational_space.by_weights import motion as weights
from kinetree.algorithms.operational_space.control_law import motion, residual_of, rows_of_motion
from kinetree.algorithms.operational_space.task_space import Parts
from kinetree.kernels.poses import ERRORS, fault_of
from kinetree.recursion.algorithm import Algorithm, algorithm
from kinetree.recursion.roles import FrameRole
from kinetree.recursion.tree import Indexed, Tree, Zeros


@cache
def task_residual(parts: Parts, error: str = "sine", *, by_weights: bool = False) -> Algorithm:
    """b − J̇v of all rows, for rows in world axes, and `fault` as of `control_step`.

    Args:
        parts: The kinds of tasks present.
        error: The error between poses, one of `ERRORS`.
        by_weights: Whether it takes nodes of any kind.

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
        if by_weights:
            frames.place(tree, q)
            weights.motion(tree, v, Zeros())
        else:
            tree_frame.start(tree)
            for k, parent in tree.scatter():
                tree_frame.place(k, parent, q)
            motion(tree, v, Zeros())

        def lack(frame: FrameRole, error: Any, velocity: Any, rate: Any) -> None:
            for row in frame.rows():
                residual[row] = residual_of(row, feed, gains, error, velocity, rate)

        (weights.rows_of_motion if by_weights else rows_of_motion)(tree, parts, target, lack, ERRORS[error])
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
        any_node=by_weights,
    )
    name = f"task_residual_{error}{'_by_weights' * by_weights}{parts.suffix}"
    return replace(declare(task_residual), name=name)
