"""Figures 5 and 6 of [W12]: operations for Λ⁻¹ of a humanoid of 35 bodies and of mechanisms derived from it.

[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ramify.algorithms.operational_space import METHODS, inverse_inertia
from ramify.engines.count import PASSES, Count, count_passes
from ramify.model.model import Model
from ramify.model.zoo import ASIMO_VARIANTS, asimo35, asimo35_tasks

#: The algorithms that the paper compares, by the names that it gives them.
PUBLISHED = {"SFA": "sparse_factorization", "RJK": "rjk", "EFPA": "efpa"}
_BASE, _ONE_FOOT, _LIMBS = "hands_feet", "one_foot", "two_arms_two_legs"
_LONGER = ("legs_plus_2", "legs_plus_4", "arms_plus_2", "arms_plus_4", "four_fingers")


@dataclass(frozen=True)
class Relation:
    """What the paper says of its counts, and what ours say."""

    claim: str
    published: str
    counted: str
    holds: bool
    reason: str = ""


class Comparison:
    """All methods on all mechanisms."""

    @cached_property
    def passes(self) -> dict[str, dict[str, dict[str, Count]]]:
        """Counts by mechanism, method and pass."""
        return {variant: {method: _passes(variant, method) for method in METHODS} for variant in ASIMO_VARIANTS}

    @cached_property
    def totals(self) -> dict[str, dict[str, int]]:
        """Operations by mechanism and method."""
        return {v: {m: sum(c.total for c in p.values()) for m, p in of.items()} for v, of in self.passes.items()}

    def ratio(self, variant: str, one: str, other: str) -> float:
        """Of the totals of two algorithms, by the paper's names."""
        return self.totals[variant][PUBLISHED[one]] / self.totals[variant][PUBLISHED[other]]

    def relations(self) -> list[Relation]:
        """The relations that the paper states in words; its bars could not be read."""
        sfa = self.ratio(_BASE, "SFA", "EFPA")
        floating = [v for v in ASIMO_VARIANTS if v != _ONE_FOOT]
        worst = min(self.ratio(v, "RJK", "EFPA") for v in floating)
        one_foot = self.ratio(_ONE_FOOT, "RJK", "EFPA")
        limbs = self.ratio(_LIMBS, "SFA", "EFPA")
        growth = self.ratio(_LIMBS, "RJK", "SFA") / self.ratio(_BASE, "RJK", "SFA") - 1.0
        longer = [self.ratio(v, "SFA", "EFPA") for v in _LONGER]
        base, more = asimo35(_BASE), asimo35(_LIMBS)
        shares = zeros_of_mass_matrix(base), zeros_of_jacobian(base, _BASE), zeros_of_mass_matrix(more)
        return [
            Relation("SFA against EFPA, hands and feet", "78 %", f"{sfa:.0%}", abs(sfa - 0.78) < 0.03,
                     "the paper counts in local coordinates, where each step of EFPA takes coordinate transforms; here "
                     "all methods work in the frame of the tree, which spares EFPA more operations than SFA"),
            Relation("SFA ahead of EFPA there", "yes", "yes" if sfa < 1 else "no", sfa < 1),
            Relation("EFPA below RJK in all cases of Figure 6", "yes", f"RJK/EFPA ≥ {worst:.2f}", worst > 1),
            Relation("RJK ahead of EFPA on one foot", "yes", f"RJK/EFPA = {one_foot:.3f}", one_foot < 1),
            Relation("longer limbs and fingers favour EFPA against SFA", "yes", f"SFA/EFPA {min(longer):.2f} to "
                     f"{max(longer):.2f}", min(longer) > sfa),
            Relation("two more arms and legs: SFA/EFPA nearly the same", "yes", f"{sfa:.2f}, then {limbs:.2f}",
                     abs(limbs - sfa) < 0.05),
            Relation("and RJK/SFA larger by", "> 50 %", f"{growth:.0%}", growth > 0.5,
                     "not explained: the paper gives neither the added limbs nor what RJK shares between pairs"),
            Relation("zeros in H and J; in H with two more arms and legs", "56, 67; 73 %",
                     "{:.1%}, {:.1%}; {:.1%}".format(*shares),
                     max(abs(s - p) for s, p in zip(shares, (0.56, 0.67, 0.73), strict=True)) <= 0.005 + 1e-9),
        ]  # fmt: skip

    def as_json(self) -> object:
        """Counts by mechanism, method and pass, and the relations."""
        counts = {
            variant: {method: {name: asdict(part) for name, part in parts.items()} for method, parts in of.items()}
            for variant, of in self.passes.items()
        }
        return {"paper": "001", "counts": counts, "relations": [asdict(relation) for relation in self.relations()]}

    def show(self, console: Console) -> None:
        """The tables of Figures 5 and 6, and the relations."""
        console.print("Operations for Λ⁻¹: hands and feet of the 35-body humanoid, by pass (Figure 5)\n", style="bold")
        table = _table("method", *PASSES, "total", "multiplications")
        for method, parts in self.passes[_BASE].items():
            whole = sum(parts.values(), Count())
            numbers = [*(part.total for part in parts.values()), whole.total, whole.multiplications]
            table.add_row(method, *(f"{n:,}" for n in numbers))
        console.print(table)
        console.print("\nOperations in thousands, all mechanisms (Figure 6)\n", style="bold")
        table = _table("mechanism", *(name.replace("_", "_\n") for name in METHODS), "SFA/\nEFPA", "RJK/\nEFPA")
        for variant, totals in self.totals.items():
            least = min(totals.values())
            cells = [f"[bold]{n / 1e3:.1f}[/]" if n == least else f"{n / 1e3:.1f}" for n in totals.values()]
            ratios = [f"{self.ratio(variant, one, 'EFPA'):.2f}" for one in ("SFA", "RJK")]
            table.add_row(variant, *cells, *ratios)
        console.print(table)
        console.print("\nWhat the paper says, and what is counted here\n", style="bold")
        table = _table("relation", "published", "here", "")
        for relation in self.relations():
            table.add_row(
                relation.claim, relation.published, relation.counted, "holds" if relation.holds else "differs"
            )
        console.print(table)
        for relation in self.relations():
            if not relation.holds:
                console.print(f"\n{relation.claim}: {relation.reason}.", highlight=False)
        console.print(
            "\nSFA is sparse_factorization. Additions, multiplications, divisions and square roots count one each,\n"
            "sines none. place: mechanism and tasks in the frame of the tree. inertias: at nodes, tips to base.\n"
            "inward: rows or columns, tips to base. outward: base to tips. pairs: of tasks, or of columns.",
            highlight=False,
            soft_wrap=True,
        )

    def plot(self, file: Path) -> None:
        """Grouped bars, one group per mechanism, each bar split by pass."""
        from matplotlib import colormaps
        from matplotlib.figure import Figure

        figure = Figure(figsize=(13, 5.5), layout="constrained")
        axes = figure.add_subplot()
        shown = [method for method in METHODS if method != "definition"]
        colours = {method: colormaps["tab10"](i) for i, method in enumerate(shown)}
        width = 0.8 / len(shown)
        for i, method in enumerate(shown):
            places = [group + (i - (len(shown) - 1) / 2) * width for group in range(len(ASIMO_VARIANTS))]
            below = [0.0] * len(places)
            for j, name in enumerate(PASSES):
                heights = [self.passes[variant][method][name].total / 1e3 for variant in ASIMO_VARIANTS]
                shade: dict[str, Any] = {
                    "color": colours[method],
                    "alpha": 1.0 - 0.17 * j,
                    "edgecolor": "white",
                    "linewidth": 0.3,
                }
                axes.bar(places, heights, width, below, label=method if j == 0 else None, **shade)
                below = [b + h for b, h in zip(below, heights, strict=True)]
        axes.set_xticks(range(len(ASIMO_VARIANTS)), [name.replace("_", "\n") for name in ASIMO_VARIANTS], fontsize=8)
        axes.set_ylabel("operations [thousands]")
        axes.set_title(f"Operations for Λ⁻¹, by pass from dark to light: {', '.join(PASSES)}", fontsize=10)
        axes.legend(ncols=4, fontsize=8, loc="upper left")
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(file, dpi=150)


def zeros_of_mass_matrix(robot: Model) -> float:
    """Share of entries that are zero because neither degree of freedom carries the other."""
    return 1.0 - (2 * sum(_depths(robot)) - robot.nv) / robot.nv**2


def zeros_of_jacobian(robot: Model, variant: str) -> float:
    """Share of entries that are zero because the degree of freedom does not carry the task."""
    depths, starts = _depths(robot), robot.mechanism.v_starts
    moved = [depths[starts[robot.site(task).node + 1] - 1] for task in asimo35_tasks(variant)]
    return 1.0 - sum(moved) / (len(moved) * robot.nv)


def _depths(robot: Model) -> list[int]:
    """Degrees of freedom from the base to each one, itself included."""
    depths: list[int] = []
    for parent in robot.mechanism.column_parents:
        depths.append(1 + (depths[parent] if parent >= 0 else 0))
    return depths


def _passes(variant: str, method: str) -> dict[str, Count]:
    robot = asimo35(variant)
    sites = tuple(robot.site(task) for task in asimo35_tasks(variant))
    return count_passes(inverse_inertia(method, "local"), robot.mechanism, sites)


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True)
    for header in others:
        table.add_column(header, justify="right", no_wrap=True)
    return table
