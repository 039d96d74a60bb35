"""Numbers in documents: blocks that this command writes. `make numbers`, or `python -m benchmarks.numbers`.

A block stands between two comments, `<!-- numbers: NAME -->` and `<!-- end of numbers -->`. Operation counts are
computed here, and a test compares them with what the documents say. Tables of times are written by the benchmarks
themselves (`--update`) into docs/performance.md; the short table of the README is taken from there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

import kinetree as kt
from benchmarks.papers import wensing_2012
from benchmarks.papers.__main__ import PAPERS

ROOT = Path(__file__).resolve().parents[1]
PERFORMANCE = ROOT / "docs" / "performance.md"
FUNCTIONS_PAGE = ROOT / "docs" / "performance_functions.md"
METHODS_PAGE = ROOT / "docs" / "operational_space_methods.md"
TASKS_PAGE = ROOT / "docs" / "operational_space.md"
LINEARIZED_PAGE = ROOT / "docs" / "linearized.md"
README = ROOT / "README.md"
IMAGES = ROOT / "docs" / "images"

END = "<!-- end of numbers -->"


def block(text: str, name: str) -> tuple[int, int]:
    """Where the content of a block starts and ends in a document."""
    start = f"<!-- numbers: {name} -->\n"
    first = text.index(start) + len(start)
    return first, text.index(END, first)


def read(path: Path, name: str) -> str:
    """The content of a block."""
    text = path.read_text(encoding="utf-8")
    first, last = block(text, name)
    return text[first:last]


def write(path: Path, name: str, content: str) -> None:
    """Replace the content of a block."""
    text = path.read_text(encoding="utf-8")
    first, last = block(text, name)
    path.write_text(f"{text[:first]}{content.rstrip()}\n{text[last:]}", encoding="utf-8")


def method_counts() -> str:
    """Thousands of operations for Λ⁻¹, by every method, on the mechanisms of Wensing, Featherstone and Orin."""
    methods = tuple(kt.tasks.METHODS)
    lines = [f"| | {' | '.join(methods)} |", "|---" * (len(methods) + 1) + "|"]
    for variant in kt.zoo.ASIMO_VARIANTS:
        robot, frames = kt.zoo.asimo35(variant), kt.zoo.asimo35_tasks(variant)
        counts = [robot.count(method, frames).total for method in methods]
        cells = [f"**{n / 1000:.1f}**" if n == min(counts) else f"{n / 1000:.1f}" for n in counts]
        lines.append(f"| {variant.replace('_', ' ')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def derivative_counts() -> str:
    """Operations of the derivatives in those of the function, on the built-in humanoid."""
    robot = kt.zoo.humanoid24()
    lines = ["| humanoid, nv 24 | operations | jvp | vjp | hvp |", "|---|---:|---:|---:|---:|"]
    for function in ("inverse_dynamics", "forward_dynamics"):
        own = robot.count(function).total
        derivatives = [robot.count(f"{function}.{which}").total / own for which in ("jvp", "vjp", "hvp")]
        lines.append(f"| `{function}` | {own:,} | {' | '.join(f'{ratio:.2f}×' for ratio in derivatives)} |")
    return "\n".join(lines)


def gradient_counts() -> str:
    """Operations of functions of q and their derivatives per body, or per pair of bodies, for chains of 10 to 1,000."""
    lines = ["| operations | n = 10 | n = 100 | n = 1,000 |", "|---|---:|---:|---:|"]
    chains = [(n, kt.zoo.chain(n)) for n in (10, 100, 1000)]
    for function, per in (
        ("pose", 1), ("jacobian", 1), ("center_of_mass_jacobian", 1), ("energy", 1), ("mass_matrix_log_determinant", 1),
        ("mass_matrix", 2), ("mass_matrix_inverse", 2), ("inverse_dynamics_derivatives", 2),
    ):  # fmt: skip
        for which in ("", ".jvp", ".vjp"):
            cells = []
            for n, chain in chains:
                called = attrgetter(function + which)(chain)
                frames = ([chain.bodies[-1].name],) if function in ("pose", "jacobian") else ()
                cells.append(f"{called.count(*frames).total / n**per:,.0f}")
            unit = "per body" if per == 1 else "per n²"
            lines.append(f"| `{function}{which}`, {unit} | {' | '.join(cells)} |")
    return "\n".join(lines)


def response_counts() -> str:
    """Operations for Λ⁻¹ and M⁻¹Jᵀ, which J̄ = M⁻¹JᵀΛ takes, by each way."""
    variants = ("hands_feet", "forefingers_thumbs_feet", "two_arms_two_legs", "one_foot")
    counts = {variant: wensing_2012.responses(variant) for variant in variants}
    lines = [f"| operations | {' | '.join(counts['hands_feet'])} |", "|---" + "|---:" * len(counts["hands_feet"]) + "|"]
    lines += [f"| {v.replace('_', ' ')} | {' | '.join(f'{n:,}' for n in of.values())} |" for v, of in counts.items()]
    return "\n".join(lines)


def relations() -> str:
    """What Wensing, Featherstone and Orin say of their counts, and what both counts here say."""
    rows = [f"| {r.claim} | {r.published} | {r.here} | {r.links} |" for r in wensing_2012.Comparison().relations()]
    return "\n".join(["| | published | here | in link coordinates |", "|---|---|---|---|", *rows])


def draw_papers() -> None:
    """The pictures of docs/papers.md."""
    for name, comparison in PAPERS.items():
        if name != "wensing_2012":  # docs/operational_space_methods.md has it
            comparison().plot(IMAGES / f"paper_{name}.png")


def parameter_counts() -> str:
    """Operations per body of dynamics as functions of parameters, for chains of 10 to 1,000 bodies."""
    lines = ["| operations per body | n = 10 | n = 100 | n = 1,000 |", "|---|---:|---:|---:|"]
    chains = [(n, kt.zoo.chain(n)) for n in (10, 100, 1000)]
    every = {"mass": True, "com": True, "inertia": True, "position": True, "axis": True}
    chosen = [(n, chain.parameters(**every)) for n, chain in chains]
    for function in ("inverse_dynamics", "forward_dynamics"):
        counts = [(n, parameters.function(function).count()) for n, parameters in chosen]
        for which, label in (("value", ""), ("jvp", ".jvp"), ("vjp", ".vjp")):
            cells = " | ".join(f"{count[which].total / n:,.0f}" for n, count in counts)
            lines.append(f"| `{function}{label}` | {cells} |")
    return "\n".join(lines)


def speed_ratios() -> str:
    """Six rows for the README, from the tables in docs/performance.md."""
    text = PERFORMANCE.read_text(encoding="utf-8")
    lines = ["| Talos, 38 degrees of freedom | one call | Pinocchio takes | in a batch of 1024 | Pinocchio takes |"]
    lines.append("|---|---:|---:|---:|---:|")
    for label, table, row, columns in _RATIOS:
        cells = _row(text, table, row)
        lines.append(f"| {label} | {' | '.join(cells[i] for i in columns)} |")
    return "\n".join(lines)


def task_times() -> str:
    """Four frames of Talos, from the table in docs/performance.md."""
    text = PERFORMANCE.read_text(encoding="utf-8")
    peers = ("Pinocchio, Delassus matrix", "Pinocchio, M⁻¹ and NumPy", "MuJoCo")
    lines = [
        f"| | one call | {' | '.join(peers)} | sample of 1024 | Delassus | M⁻¹ | MuJoCo |",
        "|---" + "|---:" * 8 + "|",
    ]
    for row, label in _TASK_TIMES.items():
        lines.append(f"| {label} | {' | '.join(_row(text, 'Operational space of Talos', (row, '4'))[2:])} |")
    return "\n".join(lines)


# Rows of the table in docs/performance.md, and what they are called on the page about operational space.
_TASK_TIMES = {
    "Λ⁻¹": "Λ⁻¹",
    "Λ": "Λ",
    "Λ, J̄, N": "Λ, J̄ and N, by `dynamics`",
    "one by one": "the same, one by one, from `at(q)`",
}

# What the README shows: label, title of the table, first cells of the row, and which cells.
_RATIOS: tuple[tuple[str, str, tuple[str, ...], tuple[int, ...]], ...] = (
    ("inverse dynamics", "Talos: ", ("inverse dynamics",), (1, 2, 5, 6)),
    ("forward dynamics", "Talos: ", ("forward dynamics",), (1, 2, 5, 6)),
    ("mass matrix", "Talos: ", ("mass matrix",), (1, 2, 5, 6)),
    ("Λ⁻¹ of four frames", "Operational space of Talos", ("Λ⁻¹", "4"), (2, 3, 6, 7)),
    ("Λ, J̄ and N of four frames", "Operational space of Talos", ("Λ, J̄, N", "4"), (2, 3, 6, 7)),
    ("derivatives of forward dynamics", "linearize", ("Talos, nv 38", "tau=…"), (2, 3, 4, 5)),
)


def draw_speed(file: Path) -> None:
    """The README's picture: how many times as long the peers take, from the tables in docs/performance.md."""
    from matplotlib.figure import Figure

    text = PERFORMANCE.read_text(encoding="utf-8")
    rows = [(label, _row(text, table, row), columns) for label, table, row, columns in _PICTURE]
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    for axes, title, chosen in zip(figure.subplots(1, 2, sharey=True), ("one call", "batch of 1024, one core"), (0, 1)):
        for shift, (peer, shade) in enumerate((("Pinocchio", "#2a6f97"), ("MuJoCo", "#e09f3e"))):
            found = [float(cells[columns[chosen][shift]].rstrip("×")) for _, cells, columns in rows]
            places = [i + 0.38 * (shift - 0.5) for i in range(len(rows))]
            bars = axes.barh(places, found, 0.36, color=shade, label=peer)
            axes.bar_label(bars, [f"{ratio:.1f}×" for ratio in found], padding=3, fontsize=8)
        axes.axvline(1.0, color="0.3", linewidth=1)
        axes.set_yticks(range(len(rows)), [label for label, _, _ in rows])
        axes.set_xlim(0.0, 1.18 * axes.get_xlim()[1])
        axes.set_title(title, fontsize=10)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(left=False)
    figure.axes[0].invert_yaxis()
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle("Talos, 38 degrees of freedom: time taken by others, in units of Kinetree's", fontsize=11)
    figure.savefig(file, dpi=150)


# What the picture shows: label, table, row, and the cells of Pinocchio and MuJoCo, for one call and for a batch.
_PICTURE: tuple[tuple[str, str, tuple[str, ...], tuple[tuple[int, int], tuple[int, int]]], ...] = (
    ("inverse dynamics", "Talos: ", ("inverse dynamics",), ((2, 4), (6, 7))),
    ("forward dynamics", "Talos: ", ("forward dynamics",), ((2, 4), (6, 7))),
    ("mass matrix", "Talos: ", ("mass matrix",), ((2, 4), (6, 7))),
    ("Λ⁻¹, four frames", "Operational space of Talos", ("Λ⁻¹", "4"), ((3, 5), (7, 9))),
    ("Λ, J̄, N, four frames", "Operational space of Talos", ("Λ, J̄, N", "4"), ((3, 5), (7, 9))),
)


def _row(text: str, table: str, row: tuple[str, ...]) -> list[str]:
    """Cells of a row of a Markdown table, found by the table's title and the first cells."""
    start = re.search(rf"^\*\*{re.escape(table)}", text, re.MULTILINE)
    if start is None:
        raise LookupError(f"docs/performance.md has no table {table!r}")
    for line in text[start.start() :].splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if tuple(cells[: len(row)]) == row:
            return cells
    raise LookupError(f"table {table!r} of docs/performance.md has no row {row}")


#: Every block that is computed here, and the document that it stands in.
BLOCKS: dict[str, tuple[Path, Callable[[], str]]] = {
    "method counts": (METHODS_PAGE, method_counts),
    "derivative counts": (LINEARIZED_PAGE, derivative_counts),
    "gradient counts": (LINEARIZED_PAGE, gradient_counts),
    "relations": (METHODS_PAGE, relations),
    "response counts": (METHODS_PAGE, response_counts),
    "parameter counts": (LINEARIZED_PAGE, parameter_counts),
    "speed ratios": (README, speed_ratios),
    "task times": (TASKS_PAGE, task_times),
}


def main() -> None:
    """Write all blocks."""
    for name, (path, make) in BLOCKS.items():
        write(path, name, make())
        print(f"{path.relative_to(ROOT)}: {name}")
    draw_speed(IMAGES / "speed.png")
    draw_papers()


if __name__ == "__main__":
    main()
