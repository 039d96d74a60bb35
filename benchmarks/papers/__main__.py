"""The command: which paper, and how its counts are shown."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from rich.console import Console

from benchmarks.papers import carpentier_2018, chang_khatib_2001, jain_2011, jain_rodriguez_1993, wensing_2012


class Comparison(Protocol):
    """Counts beside those of one paper."""

    def as_json(self) -> object:
        """Everything, fit for JSON."""

    def show(self, console: Console) -> None:
        """Tables, and which published relations hold."""

    def plot(self, file: Path) -> None:
        """A picture like the paper's."""


#: How to count what a paper compares.
PAPERS: dict[str, Callable[[], Comparison]] = {
    "wensing_2012": wensing_2012.Comparison,
    "jain_rodriguez_1993": jain_rodriguez_1993.Comparison,
    "chang_khatib_2001": chang_khatib_2001.Comparison,
    "jain_2011": jain_2011.Comparison,
    "carpentier_2018": carpentier_2018.Comparison,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Count, and show what the command line asks for. A picture needs matplotlib."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers",
        description="Count operations as a paper does, and say which of its relations hold. wensing_2012: Λ⁻¹ of a "
        "humanoid by SFA, RJK and EFPA. jain_rodriguez_1993: linearised dynamics of serial chains. chang_khatib_2001: "
        "growth and times. jain_2011: figures. carpentier_2018: M⁻¹ as printed and corrected.",
    )
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw a picture, e.g. operations.png")
    given = parser.parse_args(arguments)
    if given.plot is not None:
        if find_spec("matplotlib") is None:
            parser.error("--plot needs matplotlib: pip install matplotlib")
        if not given.plot.parent.is_dir():
            parser.error(f"--plot: there is no folder {given.plot.parent}; make it first")

    console, comparison = Console(), PAPERS[given.paper]()
    if given.plot is not None:
        comparison.plot(given.plot)
    if given.json:
        console.print_json(json.dumps(comparison.as_json()))
    else:
        comparison.show(console)


if __name__ == "__main__":
    main()
