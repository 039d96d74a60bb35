"""Tables without rules, as wide as their content: narrow terminals wrap lines but never truncate a number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.text import Text

from kinetree.model.printing import printable

_GAP = "  "


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Text:
    """Aligned columns under bold headers.

    Args:
        headers: One for each column, with one or two lines.
        rows: Cells.
        left: Number of left-aligned columns; the others hold numbers and are right-aligned.
    """
    split = [header.split("\n") for header in headers]
    depth = max(len(lines) for lines in split)
    head = [[lines[i] if i < len(lines) else "" for lines in split] for i in range(depth)]
    body = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*head, *body)]

    def aligned(cells: Sequence[str]) -> str:
        padded = [
            cell + " " * (width - cell_len(cell)) if i < left else " " * (width - cell_len(cell)) + cell
            for i, (cell, width) in enumerate(zip(cells, widths))
        ]
        return _GAP.join(padded).rstrip()

    return Text("\n").join([*(Text(aligned(cells), "bold") for cells in head), *(Text(aligned(c)) for c in body)])
