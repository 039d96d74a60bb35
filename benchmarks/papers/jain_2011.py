"""Structure of Jain's operators on the tree of his §7, drawn, and his relations as printed and as corrected.

A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import kinetree as kt
from kinetree.operators import Operator, Operators

#: Segments of §7: 5 carries 3 and 4, and 4 carries 1 and 2; with the number of links drawn here.
SEGMENTS = {5: (None, 2), 4: (5, 2), 3: (5, 2), 2: (4, 3), 1: (4, 2)}

#: Where segments end in the drawing, base below.
_FORKS = {5: (0.5, 1.0), 4: (0.25, 2.0), 3: (0.8, 2.0), 2: (0.0, 3.0), 1: (0.45, 3.0)}


def tree() -> kt.Model:
    """The tree of §7."""
    builder = kt.Builder("segments")
    solid: dict[str, Any] = {"mass": 1.0, "com": (0.1, 0.2, 0.3), "inertia": np.eye(3)}
    for segment, (carrier, count) in SEGMENTS.items():
        parent = "world" if carrier is None else f"{carrier}.{SEGMENTS[carrier][1] - 1}"
        for i in range(count):
            name, placement = f"{segment}.{i}", (np.eye(3), (0.3, 0.2, 0.1))
            builder.add_body(name, parent=parent, axis=(0.6, 0.0, 0.8), placement=placement, **solid)
            parent = name
    return builder.build()


def relations(ops: Operators) -> dict[str, tuple[Operator, Operator, Operator]]:
    """Left side, right side as printed, and as corrected."""
    return {
        "(36) M = P − E P E_A*": (ops.M, ops.P - ops.E_A @ ops.P @ ops.E_A.T, ops.P - ops.E_psi @ ops.P @ ops.E_A.T),
        "(44) with K of (37)": (
            (ops.I - ops.E_psi) @ ops.A,
            ops.I + ops.E_psi @ ops.G @ ops.H @ ops.A,
            ops.I + ops.K @ ops.H @ ops.A,
        ),
    }


class Comparison:
    """Figures and errors."""

    def __init__(self) -> None:
        robot = tree()
        self.operators = robot.operators(np.linspace(0.3, 1.7, robot.nv), engine="reference")
        ops = self.operators
        self.figures = {"E_A (Fig. 4)": ops.E_A, "A (Fig. 5)": ops.A, "mass matrix (Fig. 6)": ops.mass}
        x = np.random.default_rng(0).normal(size=(max(ops.A.shape), 3))
        self.errors: dict[str, dict[str, float]] = {}
        for name, (left, *right) in relations(ops).items():
            known = left @ x[: left.shape[1]]
            found = [np.abs(side @ x[: left.shape[1]] - known).max() / np.abs(known).max() for side in right]
            self.errors[name] = {"as printed": float(found[0]), "corrected": float(found[1])}

    def as_json(self) -> object:
        """Everything, fit for JSON."""
        pictures = {name: operator.picture().splitlines() for name, operator in self.figures.items()}
        return {"errors": self.errors, "pictures": pictures}

    def show(self, console: Console) -> None:
        """The figures in characters, and the errors."""
        for name, operator in self.figures.items():
            console.print(name)
            console.print(operator.picture() + "\n", highlight=False)
        table = Table("relative error", "as printed", "corrected")
        for name, errors in self.errors.items():
            table.add_row(name, *(f"{error:.1e}" for error in errors.values()))
        console.print(table)

    def plot(self, file: Path) -> None:
        """The figures side by side."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(11, 3.1), layout="constrained")
        first, *others = figure.subplots(1, 1 + len(self.figures), width_ratios=(0.8, *([1] * len(self.figures))))
        for segment, (carrier, _) in SEGMENTS.items():
            ends = [_FORKS[segment], (0.5, 0.0) if carrier is None else _FORKS[carrier]]
            first.plot(*zip(*ends, strict=True), "o-", color="0.2")
            first.text(*np.mean(ends, axis=0), f" {segment}", color="C3", fontsize=12)
        first.set_axis_off()
        first.set_title("segments (Fig. 3)")
        names = [name[: name.index(".")] for name in self.operators.nodes[::-1]]
        edges = [i - 0.5 for i in range(1, len(names)) if names[i] != names[i - 1]]
        for axes, (name, operator) in zip(others, self.figures.items(), strict=True):
            axes.imshow(~operator.pattern()[::-1, ::-1], cmap="gray", vmin=-1)
            for edge in edges:
                axes.axhline(edge, color="C3", linewidth=0.8)
                axes.axvline(edge, color="C3", linewidth=0.8)
            axes.set_xticks(range(len(names)), names)
            axes.set_yticks(range(len(names)), names)
            axes.set_title(name)
        figure.savefig(file)
