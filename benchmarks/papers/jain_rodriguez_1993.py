"""Operation counts of linearised dynamics on serial chains of revolute joints, beside the formulas of [JR].

[JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
     Systems, Man and Cybernetics 23, 1993.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.papers.algorithm_5 import algorithm_5
from benchmarks.papers.conventional import algorithm_3, algorithm_4
from benchmarks.papers.general import general
from kinetree.algorithms.derivatives.forward_dynamics_derivatives import forward_dynamics_derivatives
from kinetree.algorithms.derivatives.inverse_dynamics_derivatives import inverse_dynamics_derivatives
from kinetree.algorithms.derivatives.jvp import forward_dynamics_jvp, inverse_dynamics_jvp
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix_inverse
from kinetree.compiler.count import Count, count
from kinetree.language.common_frame import in_common_frame
from kinetree.language.mechanism import Mechanism
from kinetree.zoo import chain

LENGTHS = range(1, 51)

_TITLES = {
    "1": "δτ, O(n)",
    "2": "M, A_D, B_D, O(n²)",
    "3": "δa by M and δτ, O(n³)",
    "4": "M⁻¹, A_C, B_C by M and ∂τ, O(n³)",
    "5": "δa, O(n)",
    "6": "M⁻¹, A_C, B_C, O(n²)",
}
#: What the library runs for δa instead of Algorithm 5: it finds a, and solves the linearised equations of motion.
LEMMA = "4.6"

#: Multiplications and additions as published.
_FORMULAS = {
    "1": "[320n − 159] M + [303n − 149] A",
    "2": "[21n² + 333n − 132] M + [47n²/2 + 605n/2 − 145] A",
    "3": "[n³/6 + 3n²/2 + 952n/3 − 153] M + [n³/6 + n² + 1805n/6 − 147] A",
    "4": "[17n³/6 + 43n²/2 + 998n/3 − 132] M + [17n³/6 + 20n² + 1819n/6 − 145] A",
    "5": "[259n − 129] M + [232n − 123] A",
    "6": "[36n² + 781n − 225] M + [33n² + 773n − 255] A",
}

_REMARKS = """\
The paper takes the accelerations as given, and so do Algorithms 1 to 5 as counted here. Algorithm 6 and Lemma 4.6 are
functions of the library, which start from joint forces: what it takes to find the accelerations is part of the count.

Refuted: the published count of Algorithm 5 is below that of Algorithm 1, although Algorithm 5 contains Step 1 and the
sweep of f of Algorithm 1, and the recursions of P, P̂, G, Ĝ, Y_A and Y_B besides. Written down and counted, with its
misprints corrected, it takes {five} per link, not 259 M + 232 A. Lemma 4.6, by which the library computes δa, takes
{lemma} with all that finds the accelerations.

Doubtful: for each pair of joints Algorithm 2 is published with 42 multiplications and 47 additions. Its printed steps
need 42 and 37 by hand. Here they are {pair}, because M̂ᵀ has no linear rows.

Algorithm 6 here takes {six} of n², where 36 M + 33 A are printed and 30 M are found by hand. It is
for trees, where M⁻¹ of joints on different branches needs sweeps of its own: {inverse}, as much as M⁻¹ alone.
What is left for A_C and B_C is {rest}: on a chain M⁻¹ is a by-product of these. That is less than 30 M
because P̂ has no linear columns. The published count does not say that its second part are additions.
"""


def published(algorithm: str, n: int) -> Count:
    """Multiplications and additions by the paper's formulas. All are whole numbers."""
    sixfold = {
        "1": ((0, 0, 1920, -954), (0, 0, 1818, -894)),
        "2": ((0, 126, 1998, -792), (0, 141, 1815, -870)),
        "3": ((1, 9, 1904, -918), (1, 6, 1805, -882)),
        "4": ((17, 129, 1996, -792), (17, 120, 1819, -870)),
        "5": ((0, 0, 1554, -774), (0, 0, 1392, -738)),
        "6": ((0, 216, 4686, -1350), (0, 198, 4638, -1530)),
    }[algorithm]
    products, sums = ((a * n**3 + b * n**2 + c * n + d) // 6 for a, b, c, d in sixfold)
    return Count(products, sums)


def counted(algorithm: str, n: int) -> Count:
    """Operations as they are here: functions of the library, or the paper's algorithms written down to be counted."""
    return count(_ALGORITHMS[algorithm], _chain(n))


#: Matrices are computed in an inertial frame, as in the paper.
_ALGORITHMS = {
    "1": inverse_dynamics_jvp,
    "2": in_common_frame(inverse_dynamics_derivatives),
    "3": algorithm_3,
    "4": algorithm_4,
    "5": algorithm_5,
    "6": in_common_frame(forward_dynamics_derivatives),
    LEMMA: forward_dynamics_jvp,
}


@cache
def _chain(n: int) -> Mechanism:
    return general(chain(n))


class Comparison:
    """Counts of all six algorithms for chains of 1 to 50 links."""

    def __init__(self) -> None:
        self.published = {i: {n: published(i, n) for n in LENGTHS} for i in _TITLES}
        self.counted = {i: {n: counted(i, n) for n in LENGTHS} for i in (*_TITLES, LEMMA)}

    def crossover(self, which: dict[str, dict[int, Count]]) -> int | None:
        """The number of links from which on Algorithm 6 takes fewer operations than Algorithm 4."""
        wins = [n for n in LENGTHS if all(which["6"][m].total < which["4"][m].total for m in LENGTHS if m >= n)]
        return min(wins, default=None)

    @property
    def remarks(self) -> str:
        """What is counted, and what of the published counts cannot be believed."""
        inverse = _quadratic({n: count(in_common_frame(mass_matrix_inverse), _chain(n)) for n in _THREE})
        six, two = _quadratic(self.counted["6"]), _quadratic(self.counted["2"])
        return _REMARKS.format(
            five=_told(*_slope(self.counted["5"])),
            lemma=_told(*_slope(self.counted[LEMMA])),
            pair="{:g} and {:g}".format(*(2 * x for x in two)),  # there are about n²/2 pairs
            six=_told(*six),
            inverse=_told(*inverse),
            rest=_told(*(x - y for x, y in zip(six, inverse, strict=True))),
        )

    def as_json(self) -> object:
        """All counts, and the crossovers."""
        tables = {"published": self.published, "counted": self.counted}
        return {
            "paper": "jain_rodriguez_1993",
            "crossover": {name: self.crossover(which) for name, which in tables.items()},
            "counts": {
                name: {i: {n: asdict(c) for n, c in of.items()} for i, of in which.items()}
                for name, which in tables.items()
            },
            "formulas": _FORMULAS,
            "remarks": self.remarks.split("\n\n"),
        }

    def show(self, console: Console) -> None:
        """The formulas, one table for both counts, the crossover, and remarks."""
        console.print("Operations in thousands, on serial chains of n revolute joints\n", style="bold")
        for i, title in _TITLES.items():
            console.print(f"  {i}  {title}\n     {_FORMULAS[i]}", markup=False, highlight=False, soft_wrap=True)
        console.print(f"  {LEMMA}  δa by Lemma 4.6, not an algorithm of the paper", markup=False, highlight=False)
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        for name in ("\nn", *(f"{i}\n{who}" for i in _TITLES for who in ("paper", "here")), f"{LEMMA}\nhere"):
            table.add_column(name, justify="right", no_wrap=True)
        for n in LENGTHS:
            cells = [
                f"{which[i][n].total / 1e3:#.3g}".rstrip(".")
                for i in _TITLES
                for which in (self.published, self.counted)
            ]
            table.add_row(str(n), *cells, f"{self.counted[LEMMA][n].total / 1e3:#.3g}".rstrip("."))
        console.print()
        console.print(table)
        theirs, ours = self.crossover(self.published), self.crossover(self.counted)
        console.print(
            f"\nAlgorithm 6 takes fewer operations than Algorithm 4 from n = {theirs} on by the paper's formulas,\n"
            f"from n = {ours} on as counted here.\n\n{self.remarks}",
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
        figure.savefig(file, dpi=80)


#: Lengths from which the growth of a count is taken.
_THREE = (30, 31, 32)


def _slope(counts: Mapping[int, Count]) -> tuple[float, float]:
    """Multiplications and additions per link of a count that is linear in n."""
    before, after, _ = (counts[n] for n in _THREE)
    return after.multiplications - before.multiplications, after.additions - before.additions


def _quadratic(counts: Mapping[int, Count]) -> tuple[float, float]:
    """Multiplications and additions that n² stands with in a count that is quadratic in n."""
    first, second, third = (counts[n] for n in _THREE)
    return (
        (third.multiplications - 2 * second.multiplications + first.multiplications) / 2,
        (third.additions - 2 * second.additions + first.additions) / 2,
    )


def _told(products: float, sums: float) -> str:
    return f"{products:g} M + {sums:g} A"
