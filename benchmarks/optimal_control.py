"""Optimal control beside crocoddyl: a UR5 reaches a pose, ANYmal trots and jumps, Talos walks; one core, same starts.

crocoddyl needs an older Pinocchio than the other benchmarks, so it runs in an environment of its own, in alternation:

    python -m venv peer && peer/bin/pip install crocoddyl==3.2.1 pin==4.0.0
    python -m benchmarks.optimal_control --peer peer/bin/python
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import kinetree as kt
from benchmarks import gaits
from benchmarks.robots import share
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core
from kinetree import ocp
from kinetree.spatial.value import Array

MANY = 64


class Peer:
    """crocoddyl in a process of its own; without an interpreter, nothing.

    Args:
        peer: An interpreter that has crocoddyl.
        kind: The problem.
        files: The robot's files, below `share()`.
    """

    def __init__(self, peer: str | None, kind: str, *files: str) -> None:
        self._process: subprocess.Popen[str] | None = None
        if peer is not None:
            script = Path(__file__).with_name("crocoddyl_peer.py")
            command = [peer, "-I", str(script), kind, *(str(share() / file) for file in files)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def solve(self, start: dict[str, float]) -> tuple[str, float, int, float] | None:
        """Its name, milliseconds, iterations and the cost, from angles of joints by name; or from the usual ones."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return None
        process.stdin.write(f"{json.dumps(start)}\n")
        process.stdin.flush()
        taken, count, cost, version = process.stdout.readline().split()
        return f"crocoddyl {version}", float(taken), int(count), float(cost)

    def close(self) -> None:
        """End the process."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()


def contest(
    title: str, problem: ocp.Problem, other: Peer, rounds: int, targets: dict[str, Any],
    ways: Mapping[str, Callable[[], ocp.Plan]], starts: Array,
) -> Table:  # fmt: skip
    """Whole solves of one problem, and one of many, beside crocoddyl: shortest times of the processor.

    So others who use the machine do not count.

    Args:
        title: Title of the table.
        problem: The problem.
        other: The same in crocoddyl.
        rounds: How often each contender solves.
        targets: Its targets.
        ways: Contenders, by name.
        starts: Configurations that the many start from.
    """
    best: dict[str, tuple[float, Any, float]] = {}

    def note(name: str, taken: float, iterations: Any, cost: float) -> None:
        best[name] = min(best.get(name, (np.inf, 0, 0.0)), (taken, iterations, cost))

    for _ in range(rounds):
        for name, solve in ways.items():
            begin = time.process_time()
            plan = solve()
            note(name, 1e3 * (time.process_time() - begin), int(plan.iterations), float(plan.cost))
        found = other.solve({})
        if found is not None:
            note(*found)
    for i in range(1 + max(1, rounds // 10)):
        begin = time.process_time()
        plans = problem.solve(starts, targets=targets)
        taken = 1e3 * (time.process_time() - begin) / len(starts)
        if i:
            note(f"default, one of {MANY}", taken, round(float(plans.iterations.mean()), 1), float("nan"))
    joints = [joint for joint in problem.robot.joints if joint.nq == 1]
    others = [other.solve({joint.name: float(q[joint.q_slice][0]) for joint in joints}) for q in starts]
    many = [each[1:3] for each in others if each is not None]
    if many:
        taken, count = np.mean(many, axis=0)
        note(f"crocoddyl, one of {MANY}", float(taken), round(float(count), 1), float("nan"))
    other.close()
    table = Table(title, ["", "ms", "iterations", "ms each", "cost", "crocoddyl takes", "of an iteration"])
    for name, (taken, iterations, cost) in best.items():
        several = f"one of {MANY}" in name
        theirs = next(
            (x for n, x in best.items() if n.startswith("crocoddyl") and (f"one of {MANY}" in n) == several), None
        )
        each = taken / max(iterations, 1)
        ratios = ["", ""] if theirs is None else [f"{theirs[0] / taken:.1f}×", f"{theirs[0] / theirs[1] / each:.1f}×"]
        shown = "" if np.isnan(cost) else f"{cost:.7f}"
        table.add(name, f"{taken:.2f}", f"{iterations}", f"{each:.3f}", shown, *ratios)
    return table


def reach(peer: str | None, rounds: int) -> Table:
    """A UR5 from rest with zero torques, in two ways, and many from different configurations.

    Args:
        peer: An interpreter that has crocoddyl.
        rounds: How often each contender solves.
    """
    urdf = "ur_description/urdf/ur5_robot.urdf"
    robot = kt.load(share() / urdf)
    terms = [ocp.pose("tool0", last=1e3), ocp.state(weight=1e-3, last=0.1), ocp.control(weight=1e-4)]
    problem = ocp.Problem(robot, 1e-2, 100, terms)
    c, s = np.cos(1.0), np.sin(1.0)
    targets = {"tool0": np.array([[1, 0, 0, 0.4], [0, c, -s, 0.3], [0, s, c, 0.4], [0, 0, 0, 1]])}
    q = robot.neutral()
    q[1:3] = -1.2, 1.2
    start = np.tile(q, (101, 1)), np.zeros((101, 6)), np.zeros((100, 6))
    solve = partial(problem.solve, q, targets=targets, start=start)
    ways = {"default": solve, "Gauss–Newton, rolled out": partial(solve, second_order=False, rollout="nonlinear")}
    starts = q + 0.2 * np.random.default_rng(0).normal(size=(MANY, 6))
    title = "UR5, 100 steps, to a pose; crocoddyl as its wheels are built, one thread"
    return contest(title, problem, Peer(peer, "reach", urdf), rounds, targets, ways, starts)


def walks(kind: str, peer: str | None, rounds: int) -> Table:
    """A gait of `benchmarks.gaits`: whole solves, one of a batch from other postures, and updates of MPC.

    Args:
        kind: "trot", "jump" or "walk".
        peer: An interpreter that has crocoddyl.
        rounds: How often each contender solves.
    """
    gait: gaits.Gait = getattr(gaits, kind)()
    files = gaits.ROBOTS["talos" if kind == "walk" else "anymal"][:2]
    robot, plan = gait.problem.robot, gait.solve()
    away = 0.02 * np.random.default_rng(0).normal(size=(MANY, robot.nv))
    away[:, :6] = 0.0
    title, other = f"{robot.name}, {kind}, {gait.problem.nodes} steps", Peer(peer, kind, *files)
    starts = robot.integrate(gait.q, away)
    table = contest(title, gait.problem, other, rounds, gait.targets, {"default": gait.solve}, starts)
    # the state is a little off the plan each time, as in a loop
    updates = []
    for i in range(20 * rounds):
        q = robot.integrate(gait.q, 0.1 * away[i % MANY])
        begin = time.process_time()
        gait.problem.solve(q, targets=gait.targets, start=plan, iterations=1)
        updates.append(1e3 * (time.process_time() - begin))
    low, middle, high = np.percentile(updates, [0, 50, 100])
    table.add("one iteration from the plan", f"{low:.2f}", "1", f"median {middle:.2f}, at most {high:.2f}", "", "", "")
    return table


def stand(updates: int = 300) -> Table:
    """ANYmal stands, is pushed, and stands again: MPC with one iteration for each step, on held feet.

    Args:
        updates: Number of commands; a push comes after every hundred.
    """
    robot, q = gaits.robot("anymal")
    nv, rng = robot.nv, np.random.default_rng(0)
    weights = np.concatenate([np.full(6, 100.0), np.full(12, 1.0), np.full(nv, 1.0)])
    terms = [ocp.state(q, weight=weights, last=weights), ocp.control(weight=1e-3)]
    terms += [ocp.friction(foot, 0.7, weight=1.0) for foot in gaits.FEET]
    contacts = ocp.Contacts(dict.fromkeys(gaits.FEET, True), damping=50.0)
    problem = ocp.Problem(robot, 0.01, 50, terms, contacts=contacts)
    mpc, held = ocp.MPC(problem, iterations=1), robot.constraints([kt.Task(foot, "position") for foot in gaits.FEET])
    start, v = q, np.zeros(nv)
    command = mpc(q, v)
    taken, away = [], []
    for i in range(updates):
        if i % 100 == 10:
            v = held.project_velocity(q, v + 0.5 * rng.normal(size=nv))
        begin = time.process_time()
        command = mpc(q, v, state=command.state)
        taken.append(1e3 * (time.process_time() - begin))
        after = problem.horizon.dynamics.step(*(np.repeat(x[None, None], 50, axis=1) for x in (q, v, command.tau)))
        q, v = after.q[0, 0], after.v[0, 0]
        away.append(float(np.abs(robot.difference(start, q)[:6]).max()))
    head = ["updates", "median ms", "at most", "Hz", "pushed by", "at the end"]
    table = Table("ANYmal stands, 50 steps, MPC with one iteration", head)
    low = float(np.median(taken))
    table.add(
        f"{updates}", f"{low:.2f}", f"{max(taken):.2f}", f"{1e3 / low:.0f}", f"{max(away):.3f}", f"{away[-1]:.4f}"
    )
    return table


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", help="an interpreter that has crocoddyl")
    parser.add_argument("--rounds", type=int, default=30)
    known = ("reach", "trot", "jump", "walk", "stand")
    parser.add_argument("--only", nargs="+", choices=known, default=known)
    given = parser.parse_args()
    if given.peer is not None and shutil.which(given.peer) is None:
        parser.error(f"--peer {given.peer}: there is no such program")
    pin_to_one_core()
    kt.set_threads(1)
    for name in given.only:
        made = {"reach": reach, "stand": lambda *_: stand()}.get(name, partial(walks, name))
        Console().print(made(given.peer, given.rounds).rich())


if __name__ == "__main__":
    main()
