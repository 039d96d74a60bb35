"""A pole on a cart swings up within a limited force: no guess, default settings.

With less force it takes longer to swing up, and pushes at its limit for more of the time. Try 2.5 N: in three
seconds the pole does not get upright, in five (`nodes=250`) it does.

Run it with `python examples/swing_up.py`, `python examples/swing_up.py swing_up.png` for a picture, or `python
examples/swing_up.py swing_up.html` for a film, which needs the extra `viewer`.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt
from kinetree import ocp


def main(file: str | None = None) -> float:
    """Solve with less and less force, each time from rest; returns the worst miss at the end [rad, m]."""
    worst = 0.0
    robot = kt.zoo.cart_pole()
    standing, hanging = np.zeros(2), np.array([0.0, np.pi])
    terms = [ocp.state(standing, weight=0.0, last=[100.0, 100.0, 10.0, 10.0]), ocp.control(weight=1e-3)]
    for force in (12.0, 6.0, 4.0):
        problem = ocp.Problem(
            robot, dt=0.02, nodes=150, terms=terms, limits=ocp.Limits(torque=force), actuated=[robot.joints[0].name]
        )
        plan = problem.solve(hanging)
        miss = float(np.abs(plan.q[-1] - standing).max()) if plan.converged else np.inf
        worst = max(worst, miss)
        swings = 1 + int((np.diff(np.sign(plan.v[1:, 1])) != 0).sum())
        print(
            f"{force:4.1f} N: {plan.reason} after {int(plan.iterations)} iterations, {swings} swings, "
            f"largest force {np.abs(plan.u).max():.2f} N, upright within {miss:.4f}"
        )
    if file and file.endswith((".html", ".mp4")):
        kt.viewer.film(file, robot, plan)
    elif file:
        plan.plot().savefig(file)
    return worst


if __name__ == "__main__":
    main(*sys.argv[1:2])
