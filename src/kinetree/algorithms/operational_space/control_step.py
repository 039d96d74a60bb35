"""One step of an operational-space controller: the law, with a posture as a₀ and a check of the targets.

Where asked for, the joint accelerations that follow are a result, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from kinetree.algorithms.operational_space import takes_any_node
from kinetree.algorithms.operational_space.control_law import answer, law_by
from kinetree.algorithms.operational_space.task_space import Parts
from kinetree.kernels.poses import fault_of
from kinetree.recursion.algorithm import Algorithm, algorithm
from kinetree.recursion.tree import Indexed, Tree


def _control_step(method: str, parts: Parts, error: str, moving: bool) -> Callable[..., None]:
    law = law_by(method, parts, error, moving=moving)

    def control_step(
        tree: Tree, q: Indexed, v: Indexed, posture: Indexed, stiffness: Indexed, target: Indexed, feed: Indexed,
        gains: Indexed, reach: Indexed, cut: Indexed, tau: Indexed, force: Indexed, residual: Indexed, spread: Indexed,
        a0: Indexed, fault: Indexed,
    ) -> None:  # fmt: skip
        pull(tree, q, v, posture, stiffness, a0)
        law(tree, q, v, a0, target, feed, gains, reach, cut, tau, force, residual, spread)
        check(tree, target, fault)

    def moving_step(
        tree: Tree, q: Indexed, v: Indexed, posture: Indexed, stiffness: Indexed, target: Indexed, feed: Indexed,
        gains: Indexed, reach: Indexed, cut: Indexed, tau: Indexed, force: Indexed, residual: Indexed, spread: Indexed,
        a0: Indexed, fault: Indexed, a: Indexed,
    ) -> None:  # fmt: skip
        pull(tree, q, v, posture, stiffness, a0)
        law(tree, q, v, a0, target, feed, gains, reach, cut, tau, force, residual, spread)
        check(tree, target, fault)
        answer(tree, a0, a)

    return moving_step if moving else control_step


def pull(tree: Tree, q: Indexed, v: Indexed, posture: Indexed, stiffness: Indexed, a0: Indexed) -> None:
    """a₀ = kp (q_ref ⊖ q) − kd v."""
    for k, _ in tree.scatter():
        kp, kd = stiffness[k][:, 0], stiffness[k][:, 1]
        a0[k] = kp * k.manifold.difference(q[k], posture[k]) - kd * v[k]


def check(tree: Tree, target: Indexed, fault: Indexed) -> None:
    """Add up what should be zero of the targets."""
    for frame, _ in tree.frames():
        fault[...] = fault[...] + fault_of(target[frame])


@cache
def control_step(method: str, parts: Parts, error: str = "sine", *, moving: bool = False) -> Algorithm:
    """The law with a₀ = kp (q_ref ⊖ q) − kd v, and a check of the targets.

    Args:
        method: As of `control_law`.
        parts: As of `control_law`.
        error: The error between poses, one of `ERRORS`.
        moving: Whether the accelerations a are a result, too; for methods that `keeps_factors`.

    Inputs and outputs are those of `control_law`, with these in the place of a0:

        posture     q_ref, a configuration
        stiffness   kp and kd of each degree of freedom, (nv, 2)

    and these outputs in addition:

        a0          accelerations of the posture, (nv,)
        fault       sum of squares of what should be zero of the targets, if they are poses
        a           joint accelerations, (nv,)
    """
    results: dict[str, Any] = {"a": ("v",)} if moving else {}
    declare = algorithm(
        q=("q",),
        v=("v",),
        posture=("q",),
        stiffness=("v", 2),
        target=("frames", 4, 4),
        feed=("rows", 2),
        gains=("rows", 2),
        reach=("rows",),
        cut=("rows",),
        tau=("v",),
        force=("rows",),
        residual=("rows",),
        spread=(),
        a0=("v",),
        fault=(),
        **results,
        outputs=("tau", "force", "residual", "spread", "a0", "fault", *results),
        sparse=("spread", "a0", "fault"),
        rigid=not takes_any_node(method),
    )
    name = f"control_step_{method}_{error}{parts.suffix}{'_moving' * moving}"
    return replace(declare(_control_step(method, parts, error, moving)), name=name)
