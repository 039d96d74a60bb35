"""Operation counts of linearised dynamics on serial chains of revolute joints, beside the formulas of [JR].

[JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
     Systems, Man and Cybernetics 23, 1993.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ramify.engines.count import Count
from ramify.model.model import Model
from ramify.model.zoo import chain

LENGTHS = range(1, 51)
SHOWN = (1, 2, 3, 5, 7, 10, 15, 16, 20, 30, 40, 50)

_TITLES = {
    1: "δτ, O(n)",
    2: "M, A_D, B_D, O(n²)",
    3: "δa by M and δτ, O(n³)",
    4: "M⁻¹, A_C, B_C by M and ∂τ, O(n³)",
    5: "δa, O(n)",
    6: "M⁻¹, A_C, B_C, O(n²)",
}

_REMARKS = """\
The paper takes the accelerations as given. Here Algorithms 3 to 6 start from joint forces, and what it takes to find
the accelerations is part of the count.

Algorithms 3 and 4 are forward dynamics, Algorithms 1 and 2 as counted here, and dense work on M: a factorisation and
one solution, or what the paper adds for the inverse and two products.

Not credible: the published count of Algorithm 5 is below that of Algorithm 1, although Algorithm 5 contains Step 1 and
the sweep of f of Algorithm 1, and the recursions of P, P̂, G, Ĝ, Y_A and Y_B besides. Its steps, counted by hand with
the primitives that explain the other formulas, take about 550 multiplications per link, not 259.

The published count of Algorithm 6 does not say that its second part are additions.
"""


def published(algorithm: int, n: int) -> Count:
    """Multiplications and additions by the paper's formulas. All are whole numbers."""
    sixfold = {
        1: ((0, 0, 1920, -954), (0, 0, 1818, -894)),
        2: ((0, 126, 1998, -792), (0, 141, 1815, -870)),
        3: ((1, 9, 1904, -918), (1, 6, 1805, -882)),
        4: ((17, 129, 1996, -792), (17, 120, 1819, -870)),
        5: ((0, 0, 1554, -774), (0, 0, 1392, -738)),
        6: ((0, 216, 4686, -1350), (0, 198, 4638, -1530)),
    }[algorithm]
    products, sums = ((a * n**3 + b * n**2 + c * n + d) // 6 for a, b, c, d in sixfold)
    return Count(products, sums)


def counted(algorithm: int, n: int) -> Count:
    """Operations of the library's own recursions."""
    robot = _chain(n)
    forward = robot.forward_dynamics.count()
    if algorithm == 1:
        return robot.inverse_dynamics.jvp.count()
    if algorithm == 2:
        return robot.inverse_dynamics_derivatives.count()
    if algorithm == 3:
        # LDLᵀ of M, then two triangular solutions
        solution = Count((n**3 + 9 * n**2 - 10 * n) // 6, (n**3 + 6 * n**2 - 7 * n) // 6, n)
        return forward + counted(1, n) + robot.mass_matrix.count() + solution
    if algorithm == 4:
        dense = Count((17 * n**3 + 3 * n**2 - 2 * n) // 6, (17 * n**3 - 21 * n**2 + 4 * n) // 6)
        return forward + counted(2, n) + dense
    return robot.forward_dynamics.jvp.count() if algorithm == 5 else robot.forward_dynamics_derivatives.count()


@cache
def _chain(n: int) -> Model:
    return chain(n)


class Comparison:
    """Counts of all six algorithms for chains of 1 to 50 links."""

    def __init__(self) -> None:
        self.published = {i: {n: published(i, n) for n in LENGTHS} for i in _TITLES}
        self.counted = {i: {n: counted(i, n) for n in LENGTHS} for i in _TITLES}

    def crossover(self, which: dict[int, dict[int, Count]]) -> int | None:
        """The number of links from which on Algorithm 6 takes fewer operations than Algorithm 4."""
        wins = [n for n in LENGTHS if all(which[6][m].total < which[4][m].total for m in LENGTHS if m >= n)]
        return min(wins, default=None)

    def as_json(self) -> object:
        """All counts, and the crossovers."""
        tables = {"published": self.published, "counted": self.counted}
        return {
            "paper": "003",
            "crossover": {name: self.crossover(which) for name, which in tables.items()},
            "counts": {
                name: {i: {n: asdict(c) for n, c in of.items()} for i, of in which.items()}
                for name, which in tables.items()
            },
            "remarks": _REMARKS.split("\n\n"),
        }

    def show(self, console: Console) -> None:
        """One table for both counts, the crossover, and remarks."""
        console.print("Operations in thousands, on serial chains of n revolute joints\n", style="bold")
        for i, title in _TITLES.items():
            console.print(f"  {i}  {title}")
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        for name in ("\nn", *(f"{i}\n{who}" for i in _TITLES for who in ("paper", "here"))):
            table.add_column(name, justify="right", no_wrap=True)
        for n in SHOWN:
            cells = [f"{which[i][n].total / 1e3:.1f}" for i in _TITLES for which in (self.published, self.counted)]
            table.add_row(str(n), *cells)
        console.print()
        console.print(table)
        theirs, ours = self.crossover(self.published), self.crossover(self.counted)
        console.print(
            f"\nAlgorithm 6 takes fewer operations than Algorithm 4 from n = {theirs} on by the paper's formulas,\n"
            f"from n = {ours} on as counted here.\n\n{_REMARKS}",
            highlight=False,
            soft_wrap=True,
        )

    def plot(self, file: Path) -> None:
        """Operations against the number of links, published and counted."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 5.5), layout="constrained")
        axes = figure.add_subplot()
        for i, title in _TITLES.items():
            colour = f"C{i}"
            axes.loglog(LENGTHS, [self.counted[i][n].total for n in LENGTHS], color=colour, label=f"{i}: {title}")
            axes.loglog(LENGTHS, [self.published[i][n].total for n in LENGTHS], color=colour, linestyle=":")
        axes.set_xlabel("links")
        axes.set_ylabel("multiplications + additions (dotted: published)")
        axes.legend()
        figure.savefig(file, dpi=150)
