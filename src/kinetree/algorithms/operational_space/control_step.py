"""One step of an operational-space controller: the law, with a posture as a₀ and a check of the targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from kinetree.algorithms.operational_space.by_weights import BY_WEIGHTS
from kinetree.algorithms.operational_space.control_law import law_by
from kinetree.algorithms.operational_space.pose_error import fault_of
from kinetree.algorithms.operational_space.task_space import Parts
from kinetree.recursion.algorithm import Algorithm, algorithm
from kinetree.recursion.tree import Indexed, Tree


def _control_step(method: str, parts: Parts, error: str) -> Callable[..., None]:
    law = law_by(method, parts, error)

    def control_step(
        tree: Tree,
        q: Indexed,
        v: Indexed,
        posture: Indexed,
        stiffness: Indexed,
        target: Indexed,
        feed: Indexed,
        gains: Indexed,
        reach: Indexed,
        cut: Indexed,
        tau: Indexed,
        force: Indexed,
        residual: Indexed,
        spread: Indexed,
        a0: Indexed,
        fault: Indexed,
    ) -> None:
        for k, _ in tree.scatter():
            pull = stiffness[k]
            a0[k] = pull[:, 0] * k.manifold.difference(q[k], posture[k]) - pull[:, 1] * v[k]
        for frame, _ in tree.frames():
            fault[...] = fault[...] + fault_of(target[frame])
        law(tree, q, v, a0, target, feed, gains, reach, cut, tau, force, residual, spread)

    return control_step


@cache
def control_step(method: str, parts: Parts, error: str = "sine") -> Algorithm:
    """The law with a₀ = kp (q_ref ⊖ q) − kd v, and a check of the targets.

    Args:
        method: As of `control_law`.
        parts: As of `control_law`.
        error: The error between poses, one of `ERRORS`.

    Inputs and outputs are those of `control_law`, with these in the place of a0:

        posture     q_ref, a configuration
        stiffness   kp and kd of each degree of freedom, (nv, 2)

    and these outputs in addition:

        a0          accelerations of the posture, (nv,)
        fault       sum of squares of what should be zero of the targets, if they are poses
    """
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
        outputs=("tau", "force", "residual", "spread", "a0", "fault"),
        sparse=("spread", "a0", "fault"),
        any_node=method == BY_WEIGHTS,
    )
    name = f"control_step_{method}_{error}{parts.suffix}"
    return replace(declare(_control_step(method, parts, error)), name=name)
