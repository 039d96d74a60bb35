"""Tables of the documents that map calls of another library to Kinetree's, and the code in their cells."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"

_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Row:
    """A row.

    Attributes:
        theirs: The other library's cell, which names the row.
        cells: All cells.
    """

    theirs: str
    cells: tuple[str, ...]

    @property
    def code(self) -> list[str]:
        """The code in Kinetree's cells."""
        return [code for cell in self.cells[1:] for code in _CODE.findall(cell)]

    def run(self, **names: Any) -> list[Any]:
        """Kinetree's code as it stands, evaluated one by one."""
        return [eval(code, names) for code in self.code]


Case = Callable[[Row], None]


def table(document: str, heading: str) -> dict[str, Row]:
    """The rows of the first table below a heading that has this text, by the other library's cell."""
    lines = (DOCS / document).read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if heading in line)
    first = next(i for i in range(start, len(lines)) if lines[i].startswith("|"))
    found = {}
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
        found[cells[0]] = Row(cells[0], cells)
    return found


class Cases:
    """The checks of a table, one for each row.

    Args:
        document: The file that has it.
        heading: Text in the line above which it stands.
    """

    def __init__(self, document: str, heading: str) -> None:
        self.rows, self.known = table(document, heading), dict[str, Case]()

    def __call__(self, theirs: str) -> Callable[[Case], Case]:
        """Declare the check of a row."""

        def declare(case: Case) -> Case:
            assert theirs not in self.known, f"two cases for {theirs}"
            self.known[theirs] = case
            return case

        return declare

    def check(self, theirs: str) -> None:
        """Run the check of a row; there must be one."""
        assert theirs in self.known, f"no case for the row {theirs!r}: write one"
        self.known[theirs](self.rows[theirs])

    def require_rows(self) -> None:
        """Every check belongs to a row."""
        assert set(self.known) == set(self.rows), set(self.known) ^ set(self.rows)
