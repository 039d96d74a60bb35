"""The demo's second part: the headline result of [CK01], Λ of the humanoid's two hands, by every algorithm.

[CK01] K.-S. Chang, O. Khatib, "Efficient recursive algorithm for the operational space inertia matrix of branching
       mechanisms", Advanced Robotics 14, 2001.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.text import Text

import kinetree as kt
from kinetree.cli import timing
from kinetree.cli.tables import table
from kinetree.cli.terminal import line
from kinetree.spatial.value import Array

HANDS = ("left_hand", "right_hand")

#: Time reported by [CK01] for Λ of this mechanism, on a 266 MHz Pentium II [s].
PUBLISHED = 1e-3

#: Allowed relative error of Λ, in units of n · eps · cond(Λ⁻¹). The worst of 100,000 random states reaches 0.13.
SLACK = 1.0

#: Most states used; more would cost memory for condition numbers and add nothing.
MOST = 4096


@dataclass(frozen=True)
class Row:
    """One algorithm: operations of Λ⁻¹, worst disagreement of Λ with the definition, times of Λ [s]."""

    method: str
    operations: int
    disagreement: float
    call: float
    sample: float


def show(console: Console, robot: kt.Model, q: Array) -> bool:
    """Compute Λ of both hands by every algorithm, and print agreement, operations and times.

    Args:
        console: Where to print.
        robot: The built-in humanoid.
        q: Configurations, (batch, nq).

    Returns:
        Whether all algorithms agree.
    """
    q = q[:MOST]
    space = robot.tasks(HANDS, method="definition").at(q)
    regular = space.rank == len(HANDS) * 6
    expected = space.inertia[regular]
    tolerance = SLACK * robot.nv * np.finfo(np.float64).eps * np.linalg.cond(space.inverse_inertia[regular])
    rows, agree = [], True
    default = robot.tasks(HANDS).method
    for method in dict.fromkeys((*kt.operational_space.METHODS, default)):
        hands = robot.tasks(HANDS, method=method)
        inertia = hands.inertia
        error = np.abs(inertia(q[regular]) - expected).max(axis=(1, 2), initial=0.0)
        relative = error / np.abs(expected).max(axis=(1, 2), initial=0.0)
        agree = agree and bool((relative <= tolerance).all())
        call = timing.least_time(inertia, [(sample,) for sample in q[regular][:256]])
        with timing.threads(1):
            sample = timing.least_time(inertia, [(q[regular],)]) / max(1, int(regular.sum()))
        worst = float(relative.max(initial=0.0))
        rows.append(Row(method, hands.inverse_inertia.count().total, worst, call, sample))
    console.print(_verdict(rows, agree, int(regular.sum()), len(q)))
    console.print(_table(rows))
    return agree


def _verdict(rows: list[Row], agree: bool, regular: int, samples: int) -> Text:
    best = min(row.call for row in rows)
    return line(
        f"\nΛ of both hands by every algorithm, {regular} of {samples} random states, where they are not singular: ",
        ("passed", "green") if agree else ("FAILED", "bold red"),
        "\nThe paper that first computed it in O(nm + m³) took 1 ms on a 266 MHz Pentium II. Here one\n"
        f"call takes {best * 1e6:.1f} µs. Operations are those of Λ⁻¹, times are those of Λ in µs.\n",
    )


def _table(rows: list[Row]) -> Text:
    headers = ("algorithm", "opera-\ntions", "relative\nerror", "one\ncall", "in\n1 ms", "sample\n1 thr.", "in\n1 ms")
    cells = (
        (
            row.method,
            f"{row.operations:,}",
            f"{row.disagreement:.0e}",
            f"{row.call * 1e6:.2f}",
            f"{PUBLISHED / row.call:,.0f}",
            f"{row.sample * 1e6:.2f}",
            f"{PUBLISHED / row.sample:,.0f}",
        )
        for row in rows
    )
    return table(headers, cells)
