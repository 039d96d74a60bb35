"""Tables without lines: a column of names, then numbers."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table


def of_numbers(first: str, others: Iterable[str], gap: int = 2) -> Table:
    """An empty table.

    Args:
        first: Header of the names.
        others: Headers of the numbers.
        gap: Spaces between columns.
    """
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True)
    for header in others:
        table.add_column(header, justify="right", no_wrap=True)
    return table
