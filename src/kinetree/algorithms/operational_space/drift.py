"""Accelerations of the task rows: J̇v at zero joint accelerations, or J a + J̇v. Cost O(n). See `motion.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from kinetree.algorithms.operational_space import task_space
from kinetree.algorithms.operational_space.motion import motion, rows_of_motion
from kinetree.algorithms.operational_space.task_space import PLAIN, Parts
from kinetree.recursion.algorithm import Algorithm, algorithm
from kinetree.recursion.roles import FrameRole
from kinetree.recursion.tree import Indexed, Tree, Zeros


def _accelerations(reference: str, parts: Parts) -> Callable[..., None]:
    def task_acceleration(tree: Tree, q: Indexed, v: Indexed, a: Any, result: Indexed) -> None:
        task_space.place(tree, q)
        motion(tree, v, a)

        def put(frame: FrameRole, _error: Any, _velocity: Any, rate: Any) -> None:
            for row in frame.rows():
                result[row] = rate[row.component]

        rows_of_motion(tree, parts, None, put, reference=reference)

    return task_acceleration


@cache
def task_drift(reference: str, parts: Parts = PLAIN) -> Algorithm:
    """J̇v of all task rows, (r,), in a given reference."""
    accelerations = _accelerations(reference, parts)

    def task_drift(tree: Tree, q: Indexed, v: Indexed, drift: Indexed) -> None:
        accelerations(tree, q, v, Zeros(), drift)

    declare = algorithm(q=("q",), v=("v",), drift=("rows",), outputs=("drift",), local=not parts.mass)
    return replace(declare(task_drift), name=f"task_drift_{reference}{parts.suffix}")


@cache
def task_acceleration(reference: str, parts: Parts = PLAIN) -> Algorithm:
    """J a + J̇v of all task rows, (r,), in a given reference."""
    declare = algorithm(q=("q",), v=("v",), a=("v",), result=("rows",), outputs=("result",), local=not parts.mass)
    return replace(declare(_accelerations(reference, parts)), name=f"task_acceleration_{reference}{parts.suffix}")
