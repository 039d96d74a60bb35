"""A thousand reaches at once: an arm goes from anywhere to anywhere, each problem solved on its own.

All are solved in one call, each in as many iterations as it needs, with the same bits as alone. Try `MANY = 10_000`,
or `ocp.Limits(velocity=True)`.

Run it with `python examples/thousand_reaches.py`.
"""

from __future__ import annotations

import time

import numpy as np

import kinetree as kt
from kinetree import ocp

MANY = 1000


def main() -> float:
    """Solve them; returns the fraction that did not converge."""
    robot, rng = kt.zoo.arm7(), np.random.default_rng(0)
    terms = [ocp.position("hand", last=1e3), ocp.state(weight=0.1), ocp.control(weight=1e-3)]
    problem = ocp.Problem(robot, dt=0.04, nodes=20, terms=terms, limits=ocp.Limits())
    starts, ends = robot.random_configuration(rng, (2, MANY))
    targets = robot.pose(ends, "hand")[:, None, :3, 3]  # one for all nodes of each problem
    begin = time.perf_counter()
    plans = problem.solve(starts, targets={"hand": targets})
    seconds = time.perf_counter() - begin
    missed = np.linalg.norm(robot.pose(plans.q[:, -1], "hand")[:, :3, 3] - targets[:, 0], axis=-1)
    print(
        f"{int(plans.converged.sum())} of {MANY} converged in {seconds:.1f} s, {1e3 * seconds / MANY:.2f} ms each, "
        f"after {plans.iterations.mean():.0f} iterations; the hand misses by {1e3 * np.median(missed):.2f} mm"
    )
    return float(1.0 - plans.converged.mean())


if __name__ == "__main__":
    main()
