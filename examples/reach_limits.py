"""An arm reaches a pose within limits of torques, velocities and positions, added one after another.

Each limit costs something, and the table says at how many nodes it acts; the last one stops the elbow at half of its
range, so that the hand ends 13 mm from where it should. Try `margin=0.7`, or 60 nodes, which leave more time.

Run it with `python examples/reach_limits.py`, or `python examples/reach_limits.py reach_limits.png` for a picture of
the last plan.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt
from kinetree import ocp


def main(picture: str | None = None) -> float:
    """Solve with more and more limits; returns the largest violation of any of them [N m, rad/s, rad]."""
    robot = kt.zoo.arm7()
    terms = [ocp.pose("hand", weight=1.0, last=1e3), ocp.state(weight=1e-2, last=0.1), ocp.control(weight=1e-4)]
    target = robot.pose(np.array([0.6, 0.8, -0.4, 1.5, 1.0, -0.9, 0.5]), "hand")
    cases = {
        "none": None,
        "torques": ocp.Limits(margin=0.5),  # half of each is left unused
        "torques and velocities": ocp.Limits(velocity=True, margin=0.5),
        "torques, velocities and positions": ocp.Limits(velocity=True, position=True, margin=0.5),
    }
    worst = 0.0
    for name, limits in cases.items():
        plan = ocp.Problem(robot, 0.02, 40, terms, limits=limits).solve(robot.neutral(), targets={"hand": target})
        counts = {which: int((y != 0.0).sum()) for which, y in plan.multipliers.items()}
        acting = ", ".join(f"{count} of {which}" for which, count in counts.items() if count) or "none"
        away = float(np.linalg.norm(robot.pose(plan.q[-1], "hand")[:3, 3] - target[:3, 3]))
        worst = max(worst, float(plan.violation)) if plan.converged else np.inf
        print(
            f"limits: {name}\n    {plan.reason} after {int(plan.iterations)} iterations, cost {float(plan.cost):.4f}, "
            f"{1e3 * away:.1f} mm away\n    largest torque {np.abs(plan.u).max():.1f} N m, velocity "
            f"{np.abs(plan.v).max():.2f} rad/s; limits that act: {acting}"
        )
    if picture is not None:
        plan.plot().savefig(picture)
    return worst


if __name__ == "__main__":
    main(*sys.argv[1:2])
