"""Figures 5 and 6 of [W12]: operations for Λ⁻¹ of a humanoid of 35 bodies and of mechanisms derived from it.

Counted twice: all methods of the library, in the common frame of the tree; and the three that the paper
compares as its authors do, in link coordinates (`benchmarks.papers.link_coordinates`).

[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.papers.efpa_response import efpa_response
from benchmarks.papers.link_coordinates import operations
from benchmarks.papers.link_coordinates.number import Tally
from benchmarks.papers.wensing_2012_relations import BASE, LIMBS, Relation, growth, ratio, relations
from benchmarks.table import of_numbers
from kinetree.algorithms.methods import ALGORITHMS, inverse_inertia
from kinetree.algorithms.tasks.response import response
from kinetree.compiler.count import PASSES, Count, count, count_passes
from kinetree.language.common_frame import in_common_frame
from kinetree.zoo import ASIMO_VARIANTS, asimo35, asimo35_tasks

#: The algorithms that the paper compares, by the names that it gives them.
PUBLISHED = {"SFA": "sparse_factorization", "RJK": "rjk", "EFPA": "efpa"}
#: Names of methods, cut so that all of them fit side by side.
_HEADERS = (
    "defi-\nnition",
    "chang_\nkhatib",
    "rjk",
    "efpa",
    "sparse_\nfactor.",
    "pv_\nosim",
    "pv_\nosim_r",
    "efpa_\nsegm.",
)

_REASONS = """\
In link coordinates, changes of coordinates are {SFA} of SFA, {EFPA} of EFPA and {RJK} of RJK (hands and feet). In the
common frame there are none after the first pass. SFA gains least from that; and pairs of tasks, for which RJK does
little else, weigh less.

So {here:.0%} here become {links:.0%} in link coordinates, of the published 78 %. If forming J is not charged to SFA, it
is {without:.0%}. What is left cannot be decided: the paper takes the costs of single steps from a table that it does
not print.

RJK/SFA rises by {alone:.0%} in link coordinates if each pair of end-effectors goes its own way, as the paper's text has
it, and by {shared:.0%} if pairs share what they have in common, as the optimised RJK that it cites may do.
"""

_Parts = Mapping[str, Mapping[str, Mapping[str, Count]]]


class Comparison:
    """All methods on all mechanisms."""

    @cached_property
    def passes(self) -> dict[str, dict[str, dict[str, Count]]]:
        """Counts by mechanism, method and pass."""
        return {variant: {method: _passes(variant, method) for method in ALGORITHMS} for variant in ASIMO_VARIANTS}

    @cached_property
    def totals(self) -> dict[str, dict[str, int]]:
        """Operations by mechanism and method; those that the paper compares also by its names."""
        found = _totals(self.passes)
        return {v: {**of, **{name: of[method] for name, method in PUBLISHED.items()}} for v, of in found.items()}

    @cached_property
    def tallies(self) -> dict[str, dict[str, Tally]]:
        """Counts in link coordinates, by mechanism and algorithm."""
        return {variant: {name: operations(variant, name) for name in PUBLISHED} for variant in ASIMO_VARIANTS}

    @cached_property
    def link_parts(self) -> dict[str, dict[str, dict[str, Count]]]:
        """The same, split by part."""
        return {v: {name: tally.parts() for name, tally in of.items()} for v, of in self.tallies.items()}

    @cached_property
    def link_totals(self) -> dict[str, dict[str, int]]:
        """Operations in link coordinates, by mechanism and algorithm."""
        return _totals(self.link_parts)

    def relations(self) -> list[Relation]:
        """What the paper says, and what both counts say."""
        return relations(self.totals, self.link_totals)

    def reasons(self) -> list[str]:
        """Why relations differ."""
        totals, base = self.link_totals, self.link_totals[BASE]
        shares = {n: f"{tally.changing_coordinates().total / base[n]:.0%}" for n, tally in self.tallies[BASE].items()}
        shared = {v: {**totals[v], "RJK": operations(v, "RJK, shared").total} for v in (BASE, LIMBS)}
        said = _REASONS.format(
            **shares,
            here=ratio(self.totals, BASE, "SFA", "EFPA"),
            links=ratio(totals, BASE, "SFA", "EFPA"),
            without=(base["SFA"] - self.link_parts[BASE]["SFA"]["J"].total) / base["EFPA"],
            alone=growth(totals),
            shared=growth(shared),
        )
        return [" ".join(reason.split()) for reason in said.split("\n\n")]

    def as_json(self) -> object:
        """Counts by mechanism, method and pass, the relations, and why some differ."""
        return {
            "paper": "wensing_2012",
            "counts": _plain(self.passes),
            "link_coordinates": _plain(self.link_parts),
            "relations": [asdict(relation) for relation in self.relations()],
            "reasons": self.reasons(),
        }

    def show(self, console: Console) -> None:
        """The tables of Figures 5 and 6, and the relations."""
        console.print("Operations for Λ⁻¹: hands and feet of the 35-body humanoid, by pass (Figure 5)\n", style="bold")
        table = of_numbers("method", (*PASSES, "total", "multipli-\ncations"), gap=1)
        for method, parts in self.passes[BASE].items():
            whole = sum(parts.values(), Count())
            numbers = [*(part.total for part in parts.values()), whole.total, whole.multiplications]
            table.add_row(method, *(f"{n:,}" for n in numbers))
        console.print(table)
        console.print("\nOperations in thousands, all mechanisms (Figure 6)\n", style="bold")
        table = of_numbers("mechanism", _HEADERS, gap=1)
        for variant in ASIMO_VARIANTS:
            totals = [self.totals[variant][method] for method in ALGORITHMS]
            cells = [f"[bold]{n / 1e3:.1f}[/]" if n == min(totals) else f"{n / 1e3:.1f}" for n in totals]
            table.add_row(variant, *cells)
        console.print(table)
        console.print("\nThe same and M⁻¹Jᵀ, for J̄ = M⁻¹JᵀΛ (§VI)\n", style="bold")
        ways = {variant: responses(variant) for variant in ASIMO_VARIANTS}
        table = of_numbers("mechanism", [name.replace("`", "") for name in ways[BASE]], gap=1)
        for variant, of in ways.items():
            table.add_row(variant, *(f"{n:,}" for n in of.values()))
        console.print(table)
        self._show_links(console)
        self._show_relations(console)

    def _show_links(self, console: Console) -> None:
        console.print("\nThe paper's three, here and in link coordinates as the paper counts\n", style="bold")
        names = ("\nSFA/\nEFPA", "\nRJK/\nEFPA")
        headers = ("here" + names[0], names[1], *(f"links\n{name}\n" for name in PUBLISHED), *names)
        table = of_numbers("\n\nmechanism", headers, gap=1)
        for variant in ASIMO_VARIANTS:
            cells = [f"{self.link_totals[variant][name] / 1e3:.1f}" for name in PUBLISHED]
            here, links = (
                [f"{ratio(totals, variant, name, 'EFPA'):.2f}" for name in ("SFA", "RJK")]
                for totals in (self.totals, self.link_totals)
            )
            table.add_row(variant, *here, *cells, *links)
        console.print(table)

    def _show_relations(self, console: Console) -> None:
        console.print("\nWhat the paper says, and what is counted\n", style="bold")
        table = of_numbers("relation", ("published", "here", "in link coordinates"), gap=1)
        table.columns[0].no_wrap = False
        for relation in self.relations():
            table.add_row(relation.claim, relation.published, str(relation.here), str(relation.links))
        console.print(table)
        for reason in self.reasons():
            console.print(f"\n{reason}", highlight=False)
        console.print(
            "\nSFA is sparse_factorization. Additions, multiplications, divisions and square roots count one each, "
            "sines none. place: mechanism and tasks in the common frame of the tree. inertias: at nodes, tips to base. "
            "inward: rows or columns, tips to base. outward: base to tips. pairs: of tasks, or of columns.",
            highlight=False,
        )

    def plot(self, file: Path) -> None:
        """Grouped bars, one group per mechanism, each bar split by pass; below them those in link coordinates."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(13, 9), layout="constrained")
        above, below = figure.subplots(2, 1, height_ratios=(3, 2))
        _bars(above, self.passes, [method for method in ALGORITHMS if method != "definition"], PASSES)
        above.set_title(f"Operations for Λ⁻¹, by pass from dark to light: {', '.join(PASSES)}", fontsize=10)
        parts = ("H", "L", "J", "Y", "YYᵀ", "inertias", "inward", "outward", "pairs")
        _bars(below, self.link_parts, list(PUBLISHED), parts)
        below.set_title(
            "In link coordinates, as the paper counts. SFA: H, L, J, Y, YYᵀ. Others: inertias, inward, outward, pairs",
            fontsize=10,
        )
        figure.savefig(file, dpi=150)


def responses(variant: str) -> dict[str, int]:
    """Operations for Λ⁻¹ and M⁻¹Jᵀ, in the common frame; the last alone takes none for Λ⁻¹.

    With M = Lᵀ d L, M⁻¹Jᵀ = L⁻¹ d⁻¹ Yᵀ takes a product and a sum for each entry of L below the diagonal and each row,
    and a product for each entry of Y that is not zero.
    """
    robot = asimo35(variant)
    sites = tuple(robot.site(task) for task in asimo35_tasks(variant))
    sizes = np.array([kind.nv for kind in robot.mechanism.kinds])
    supports = [list(robot.mechanism.topology.support(k)) for k in range(len(sizes))]
    below = sum(n * (sizes[on].sum() - n) + n * (n - 1) // 2 for n, on in zip(sizes, supports, strict=True))
    entries = sum(len(site.rows) * sizes[supports[site.node]].sum() for site in sites)
    substitution = 2 * below * sum(len(site.rows) for site in sites) + entries
    texts = {
        "`sparse_factorization`": in_common_frame(inverse_inertia("sparse_factorization", "local")),
        "propagators": efpa_response,
        "a sweep, M⁻¹Jᵀ alone": in_common_frame(response("local")),
    }
    found = {name: count(text, robot.mechanism, sites).total for name, text in texts.items()}
    found["`sparse_factorization`"] += int(substitution)
    return found


def _bars(axes: Any, counts: _Parts, shown: Sequence[str], parts: Sequence[str]) -> None:
    """A group of bars per mechanism, each split by part from dark to light."""
    from matplotlib import colormaps

    order = [method for method in ALGORITHMS if method != "definition"]
    width = 0.8 / len(shown)
    for i, name in enumerate(shown):
        colour = colormaps["tab10"](order.index(PUBLISHED.get(name, name)))
        places = [group + (i - (len(shown) - 1) / 2) * width for group in range(len(ASIMO_VARIANTS))]
        below = [0.0] * len(places)
        own = [part for part in parts if part in counts[BASE][name]]
        for j, part in enumerate(own):
            heights = [counts[variant][name][part].total / 1e3 for variant in ASIMO_VARIANTS]
            label = name if j == 0 else None
            shade = {"color": colour, "alpha": 1.0 - 0.17 * j, "edgecolor": "white", "linewidth": 0.3}
            axes.bar(places, heights, width, below, label=label, **shade)
            below = [b + h for b, h in zip(below, heights, strict=True)]
    axes.set_xticks(range(len(ASIMO_VARIANTS)), [name.replace("_", "\n") for name in ASIMO_VARIANTS], fontsize=8)
    axes.set_ylabel("operations [thousands]")
    axes.legend(ncols=4, fontsize=8, loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)


def _passes(variant: str, method: str) -> dict[str, Count]:
    robot = asimo35(variant)
    sites = tuple(robot.site(task) for task in asimo35_tasks(variant))
    return count_passes(in_common_frame(inverse_inertia(method, "local")), robot.mechanism, sites)


def _totals(counts: _Parts) -> dict[str, dict[str, int]]:
    return {v: {m: sum(c.total for c in parts.values()) for m, parts in of.items()} for v, of in counts.items()}


def _plain(counts: _Parts) -> dict[str, dict[str, dict[str, dict[str, int]]]]:
    return {
        v: {m: {name: asdict(part) for name, part in parts.items()} for m, parts in of.items()}
        for v, of in counts.items()
    }
