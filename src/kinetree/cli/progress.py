"""Progress of commands that take long: a bar on standard error if that is a terminal, erased at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn


@contextmanager
def bar(what: str, total: float, console: Console | None = None) -> Iterator[Callable[[float], None]]:
    """A bar, and the function that says how much is done.

    Args:
        what: Description.
        total: What there is to do.
        console: Where to show it; standard error by default.
    """
    console = console or Console(stderr=True, markup=False, emoji=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)
