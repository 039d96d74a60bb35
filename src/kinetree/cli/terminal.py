"""Loading and output of the commands: safe strings in any encoding, progress bars, tables, the report of `check`.

Strings are safe to print whatever a robot file contains. Tables are as wide as their content: narrow terminals wrap
lines but never truncate a number. Progress is shown only on a terminal, and erased at the end.
"""

from __future__ import annotations

import codecs
import io
import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

import kinetree as kt
from kinetree.cli.check import LAWS, Check, Outcome, States, compared, obeyed
from kinetree.errors import KinetreeError, ModelWarning
from kinetree.interrupts import UNUSABLE
from kinetree.model.printing import printable
from kinetree.spatial.value import Array

#: ASCII spellings of symbols that the output's encoding lacks.
SPELLED = {
    "Λ": "Lambda", "λ": "lambda", "⁻¹": "^-1", "⁻": "^-", "²": "^2", "³": "^3", "ᵀ": "^T", "½": "1/2", "µ": "u",
    "·": "*", "–": "-", "−": "-", "…": "...", "└─": "`-", "├─": "|-", "│": "|",
}  # fmt: skip

_HANDLER = "kinetree.spelled"
_T = TypeVar("_T")


def console() -> Console:
    """Standard output. Strings are printed verbatim: no markup, no emoji codes, no highlighting."""
    return Console(markup=False, emoji=False, highlight=False, soft_wrap=True)


def safe(text: object) -> str:
    """A string, possibly of several lines, with terminal control characters escaped."""
    return "\n".join(printable(line) for line in str(text).split("\n"))


def line(*parts: str | tuple[str, str]) -> Text:
    """A line of strings, or pairs of a string and a style, without control characters."""
    return Text.assemble(*(safe(part) if isinstance(part, str) else (safe(part[0]), part[1]) for part in parts))


def prepare() -> None:
    """Make standard output and error accept any character, shorten warnings, and exit on a closed pipe (`| head`)."""
    if sys.platform != "win32":
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    codecs.register_error(_HANDLER, _spell)
    if sys.stdout is None:  # closed by the shell, e.g. `>&-`
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)
    warnings.showwarning = lambda message, *_: print(f"warning: {safe(message)}", file=sys.stderr)


def discard() -> None:
    """Discard buffered output after a failure to write it."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())


def _spell(error: UnicodeError) -> tuple[str, int]:
    """Codec error handler: spells out symbols and escapes everything else."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    for symbol, spelled in SPELLED.items():
        text = text.replace(symbol, spelled)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


def load(
    path: Path, floating_base: bool, mimic: str, loops: str, xacro: str | None, package_roots: Sequence[Path] = ()
) -> tuple[kt.Model, list[str]]:
    """Load a robot; returns it with the warnings about its file. `xacro` is "name=value,…", empty for none."""
    given = None if xacro is None else dict(_assignment("--xacro", one) for one in xacro.split(",") if one)
    options: dict[str, Any] = {"mimic": mimic, "loops": loops, "xacro": given, "package_roots": package_roots}
    return attempt(lambda: kt.load(path, floating_base=floating_base, **options))


@contextmanager
def log() -> Iterator[list[str]]:
    """What the library logs meanwhile, at the level INFO."""
    found: list[str] = []
    handler, logger = logging.Handler(), logging.getLogger("kinetree")
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield found
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def configuration(robot: kt.Model, text: str | None) -> Array | None:
    """A configuration: the name of a keyframe, "neutral", or "joint=value,…"; None for None."""
    if text is None:
        return None
    if text in robot.keyframes:
        return robot.keyframes[text]
    if text == "neutral":
        return robot.neutral()
    if "=" not in text:
        known = ", ".join(("neutral", *robot.keyframes))
        raise typer.BadParameter(
            f"{safe(text)} is no keyframe of this robot; there are: {safe(known)}. Or give joints, as elbow=0.5",
            param_hint="--configuration",
        )
    pairs = [_assignment("--configuration", one) for one in text.split(",") if one]
    try:
        values = {name: float(value) for name, value in pairs}
    except ValueError:
        raise typer.BadParameter(f"{safe(text)} has a value that is no number", param_hint="--configuration") from None
    return attempt(lambda: robot.q_from_dict(values))[0]


def _assignment(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{safe(text)} is not name=value", param_hint=option)
    return name, value


def attempt(make: Callable[[], _T]) -> tuple[_T, list[str]]:
    """The result of a function, and its warnings about models; prints errors, and exits with the code `UNUSABLE`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        try:
            result = make()
        except KinetreeError as error:
            typer.echo(f"{type(error).__name__}: {safe(error)}", err=True)
            raise typer.Exit(UNUSABLE) from None
    others = [one for one in caught if not issubclass(one.category, ModelWarning)]
    for one in others:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return result, [safe(one.message) for one in caught if one not in others]


@contextmanager
def bar(what: str, total: float, console: Console | None = None) -> Iterator[Callable[[float], None]]:
    """A progress bar, by default on standard error, and the function that sets how much of the total is done."""
    console = console or Console(stderr=True, markup=False, emoji=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


# Size of the largest array in one round of checks [bytes].
_LARGEST = 2**27


def run(console: Console, path: Path, robot: kt.Model, floating_base: bool, seed: int, samples: int) -> bool:
    """Check a robot that was loaded from a file; returns whether nothing failed, skipped checks not counted."""
    console.print(safe(f"{robot!r}, {samples} random state{'s' if samples > 1 else ''}"))
    if not robot.nv:
        console.print("Nothing moves: there is nothing to check.")
        return True
    outcomes: dict[str, Outcome] = {}
    notes: dict[str, None] = {}
    at_once = max(1, _LARGEST // (8 * max(robot.nv**2, 16 * len(robot.frames))))  # of matrices and poses
    parts = list(States.random(robot, seed, samples).parts(at_once))
    with bar("checking", len(parts) * (len(LAWS) + 1)) as done:
        for i, states in enumerate(parts):
            laws = ((law, obeyed(states, law)) for law in LAWS)
            found = chain(laws, compared(path, states, floating_base, notes))
            for k, (what, outcome) in enumerate(found):
                outcomes[what] = _worst(outcomes.get(what), outcome)
                done(i * (len(LAWS) + 1) + min(k, len(LAWS)) + 1)
    for note in notes:
        console.print(safe(f"note: {note}"))
    console.print(line((f"{'':<9}{'':<42}{'error':>8}  allowed", "bold")))
    for what, outcome in outcomes.items():
        console.print(_line(what, outcome))
    failed = sum(not outcome.passed for outcome in outcomes.values() if not isinstance(outcome, str))
    console.print(f"{failed} failed" if failed else "all passed", style="bold red" if failed else "green")
    return not failed


def _worst(before: Outcome | None, now: Outcome) -> Outcome:
    if isinstance(before, Check) and isinstance(now, Check):
        return before.worse(now)
    return now if before is None or isinstance(now, Check) else before


def _line(what: str, outcome: Outcome) -> Text:
    if isinstance(outcome, str):
        return line(("skipped", "yellow"), f"  {what}: {outcome}")
    verdict = ("passed ", "green") if outcome.passed else ("FAILED ", "bold red")
    return line(verdict, f"  {what:<42}{outcome.residual:8.1e}  {outcome.tolerance:7.1e}")


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Text:
    """Aligned columns under bold headers of one or two lines; numbers, after the first `left` columns, to the right."""
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
        return "  ".join(padded).rstrip()

    return Text("\n").join([*(Text(aligned(cells), "bold") for cells in head), *(Text(aligned(c)) for c in body)])
