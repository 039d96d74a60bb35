"""Optimal control beside crocoddyl: a UR5 reaches a pose in 100 steps, one core, both from the same start.

crocoddyl needs an older Pinocchio than the other benchmarks, so it runs in an environment of its own, in alternation:

    python -m venv peer && peer/bin/pip install crocoddyl==3.2.1 pin==4.0.0
    python -m benchmarks.optimal_control --peer peer/bin/python
"""

from __future__ import annotations

import argparse
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import kinetree as kt
from benchmarks.robots import share
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core
from kinetree import ocp

STEPS, DT, MANY = 100, 1e-2, 64


def reach(peer: str | None, rounds: int) -> Table:
    """Whole solves from rest with zero torques, and one of a batch, which starts from different configurations.

    Args:
        peer: An interpreter that has crocoddyl.
        rounds: How often each contender solves; the shortest time counts.
    """
    urdf = share() / "ur_description/urdf/ur5_robot.urdf"
    robot = kt.load(urdf)
    terms = [ocp.pose("tool0", last=1e3), ocp.state(weight=1e-3, last=0.1), ocp.control(weight=1e-4)]
    problem = ocp.Problem(robot, DT, STEPS, terms)
    c, s = np.cos(1.0), np.sin(1.0)
    target = np.array([[1, 0, 0, 0.4], [0, c, -s, 0.3], [0, s, c, 0.4], [0, 0, 0, 1]])
    q = robot.neutral()
    q[1:3] = -1.2, 1.2
    start = np.tile(q, (STEPS + 1, 1)), np.zeros((STEPS + 1, 6)), np.zeros((STEPS, 6))
    options: dict[str, Any] = {"targets": {"tool0": target}, "start": start}
    ways: dict[str, dict[str, Any]] = {
        "default": {}, "Gauss–Newton, rolled out": {"second_order": False, "rollout": "nonlinear"},
    }  # fmt: skip
    others = q + 0.2 * np.random.default_rng(0).normal(size=(MANY, 6))
    best: dict[str, tuple[float, Any, Any]] = {}

    def note(name: str, taken: float, iterations: Any, cost: Any) -> None:
        if name not in best or taken < best[name][0]:
            best[name] = taken, iterations, cost

    process = None
    if peer is not None:
        command = [peer, "-I", str(Path(__file__).with_name("crocoddyl_reach.py")), str(urdf)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for _ in range(rounds):
        for name, way in ways.items():
            begin = time.perf_counter()
            plan = problem.solve(q, **options, **way)
            note(name, 1e3 * (time.perf_counter() - begin), int(plan.iterations), float(plan.cost))
        if process is not None and process.stdin is not None and process.stdout is not None:
            process.stdin.write("\n")
            process.stdin.flush()
            each, count, value, version = process.stdout.readline().split()
            note(f"crocoddyl {version}", float(each), int(count), float(value))
    for _ in range(max(1, rounds // 10)):
        begin = time.perf_counter()
        plans = problem.solve(others, targets={"tool0": target})
        note(
            f"default, one of {MANY}",
            1e3 * (time.perf_counter() - begin) / MANY,
            round(float(plans.iterations.mean()), 1),
            float("nan"),
        )
    if process is not None and process.stdin is not None:
        process.stdin.close()
        process.wait()
    theirs = next((found[0] for name, found in best.items() if name.startswith("crocoddyl")), None)
    table = Table("UR5, 100 steps, to a pose", ["", "ms", "iterations", "ms each", "cost", "crocoddyl takes"])
    for name, (taken, iterations, cost) in best.items():
        ratio = "" if theirs is None else f"{theirs / taken:.1f}×"
        shown = "" if np.isnan(cost) else f"{cost:.10f}"
        table.add(name, f"{taken:.2f}", f"{iterations}", f"{taken / max(iterations, 1):.3f}", shown, ratio)
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", help="an interpreter that has crocoddyl")
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    pin_to_one_core()
    kt.set_threads(1)
    Console().print(reach(given.peer, given.rounds).rich())


if __name__ == "__main__":
    main()
