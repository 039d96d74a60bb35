"""Accelerations of the task rows on nodes of any kind: J̇v at zero joint accelerations, or J a + J̇v. Cost O(n)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from kinetree.algorithms.operational_space.by_weights import frames
from kinetree.algorithms.operational_space.by_weights.motion import motion, rows_of_motion
from kinetree.algorithms.operational_space.task_space import PLAIN, Parts
from kinetree.recursion.algorithm import Algorithm, algorithm
from kinetree.recursion.roles import FrameRole
from kinetree.recursion.tree import Indexed, Tree, Zeros


def _accelerations(reference: str, parts: Parts) -> Callable[..., None]:
    def accelerations(tree: Tree, q: Indexed, v: Indexed, a: Any, result: Indexed) -> None:
        frames.place(tree, q)
        motion(tree, v, a)

        def put(frame: FrameRole, _error: Any, _velocity: Any, rate: Any) -> None:
            for row in frame.rows():
                result[row] = rate[row.component]

        rows_of_motion(tree, parts, None, put, reference=reference)

    return accelerations


@cache
def task_drift(reference: str, parts: Parts = PLAIN) -> Algorithm:
    """J̇v of all task rows, (r,), in a given reference."""
    accelerations = _accelerations(reference, parts)

    def drift(tree: Tree, q: Indexed, v: Indexed, drift: Indexed) -> None:
        accelerations(tree, q, v, Zeros(), drift)

    drift.__name__ = f"task_drift_by_weights_{reference}{parts.suffix}"
    return algorithm(q=("q",), v=("v",), drift=("rows",), outputs=("drift",), any_node=True)(drift)


@cache
def task_acceleration(reference: str, parts: Parts = PLAIN) -> Algorithm:
    """J a + J̇v of all task rows, (r,), in a given reference."""
    run = _accelerations(reference, parts)
    run.__name__ = f"task_acceleration_by_weights_{reference}{parts.suffix}"
    return algorithm(q=("q",), v=("v",), a=("v",), result=("rows",), outputs=("result",), any_node=True)(run)
