"""Operation counts of the papers, reproduced: which comparison is asked for, and how it is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from rich.console import Console

from kinetree.cli import flops_linearized, flops_operational_space


class Comparison(Protocol):
    """Counts of one paper's comparison."""

    def as_json(self) -> object:
        """Everything, fit for JSON."""

    def show(self, console: Console) -> None:
        """Tables, and which published relations hold."""

    def plot(self, file: Path) -> None:
        """A picture like the paper's."""


#: How to count the comparison of a paper.
PAPERS: dict[str, Callable[[], Comparison]] = {
    "001": flops_operational_space.Comparison,
    "003": flops_linearized.Comparison,
}


def run(console: Console, paper: str, as_json: bool, plot: Path | None) -> None:
    """Count, and show as asked for. A picture needs the extra `plot`."""
    comparison = PAPERS[paper]()
    if plot is not None:
        comparison.plot(plot)
    if as_json:
        console.print_json(json.dumps(comparison.as_json()))
    else:
        comparison.show(console)
