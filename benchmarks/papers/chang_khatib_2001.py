"""Growth of Chang and Khatib's algorithm, and the time that it takes today on a humanoid with 24 joints and two hands.

K.-S. Chang, O. Khatib, "Efficient recursive algorithm for the operational space inertia matrix of branching
mechanisms", Advanced Robotics 14, 2001.
"""

from __future__ import annotations

from pathlib import Path
from timeit import repeat

import numpy as np
from rich.console import Console
from rich.table import Table

import kinetree as kt
from kinetree import control

METHODS = ("chang_khatib", "sparse_factorization", "pv_osim_r")
#: What the paper reports: time of Λ⁻¹ [s], and rate of the servo loop [Hz].
PUBLISHED = {"time": 1e-3, "rate": 300.0}


class Comparison:
    """Operations by number of joints, and times."""

    def __init__(self) -> None:
        self.operations: dict[str, dict[int, int]] = {method: {} for method in METHODS}
        for n in (10, 100, 1000):
            robot = kt.zoo.chain(n)
            frames = [robot.bodies[n // 2].name, robot.bodies[-1].name]
            for method in METHODS:
                self.operations[method][n] = robot.count(method, frames).total
        humanoid = kt.zoo.humanoid24()
        q, v = humanoid.random_configuration(0), np.zeros(humanoid.nv)
        hands = humanoid.tasks(["left_hand", "right_hand"], method="chang_khatib")
        arms = control.OperationalSpace(
            humanoid, [control.Goal("left_hand"), control.Goal("right_hand")], posture=control.Posture(q)
        )
        poses = humanoid.pose(q, ["left_hand", "right_hand"])
        self.time = _shortest(lambda: hands.inverse_inertia(q))
        self.rate = 1.0 / _shortest(lambda: arms.torques(q, v, poses))

    def as_json(self) -> object:
        """Everything, fit for JSON."""
        return {"operations": self.operations, "time": self.time, "rate": self.rate, "published": PUBLISHED}

    def show(self, console: Console) -> None:
        """Operations and times, in tables."""
        sizes = next(iter(self.operations.values()))
        table = Table("operations, two frames", *(f"{n} joints" for n in sizes), "per joint")
        for method, counts in self.operations.items():
            (few, some), (many, most) = list(counts.items())[1:]
            table.add_row(method, *(f"{count:,}" for count in counts.values()), f"{(most - some) / (many - few):,.0f}")
        console.print(table)
        console.print(
            f"Λ⁻¹ of two hands: {1e6 * self.time:.1f} µs; the paper: less than {1e6 * PUBLISHED['time']:,.0f} µs"
        )
        console.print(f"servo loop: {self.rate:,.0f} Hz; the paper: {PUBLISHED['rate']:,.0f} Hz")

    def plot(self, file: Path) -> None:
        """Operations over the number of joints."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5, 3.2), layout="constrained")
        axes = figure.subplots()
        for method, counts in self.operations.items():
            axes.loglog(list(counts), list(counts.values()), "o-", label=method)
        axes.set_xlabel("joints")
        axes.set_ylabel("operations")
        axes.legend()
        figure.savefig(file)


def _shortest(call: object) -> float:
    """Seconds of one call."""
    return min(repeat(call, number=20, repeat=20)) / 20  # type: ignore[arg-type]
