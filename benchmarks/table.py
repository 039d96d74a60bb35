"""Tables for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import rich.table


@dataclass
class Table:
    """Rows of text under a title."""

    title: str
    columns: list[str]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Append a row."""
        self.rows.append(cells)

    def rich(self) -> rich.table.Table:
        """For the terminal."""
        table = rich.table.Table(title=self.title, title_justify="left")
        for i, column in enumerate(self.columns):
            table.add_column(column, justify="right" if i else "left", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """For a document."""
        lines = [f"**{self.title}**", "", f"| {' | '.join(self.columns)} |"]
        lines.append("|" + "|".join(["---"] + ["---:"] * (len(self.columns) - 1)) + "|")
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        return "\n".join(lines)


def of_numbers(first: str, others: Iterable[str], gap: int = 2) -> rich.table.Table:
    """An empty table.

    Args:
        first: Header of the names.
        others: Headers of the numbers.
        gap: Spaces between columns.
    """
    table = rich.table.Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True)
    for header in others:
        table.add_column(header, justify="right", no_wrap=True)
    return table
