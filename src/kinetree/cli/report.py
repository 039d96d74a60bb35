"""Report of the laws and comparisons for a robot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

import kinetree as kt
from kinetree.cli.check import Check
from kinetree.cli.laws import LAWS, States, obeyed
from kinetree.cli.peers import Outcome, compared
from kinetree.cli.progress import bar
from kinetree.cli.terminal import line, safe

# Size of the largest array in one round of checks [bytes].
_LARGEST = 2**27


def run(console: Console, path: Path, robot: kt.Model, floating_base: bool, seed: int, samples: int) -> bool:
    """Check a robot.

    Args:
        console: Where to print.
        path: The file from which it was loaded.
        robot: The robot.
        floating_base: Whether it was loaded with a floating base.
        seed: Seed of the random states.
        samples: Number of states.

    Returns:
        Whether nothing failed; skipped checks do not count as failures.
    """
    console.print(safe(f"{robot!r}, {samples} random state{'s' if samples > 1 else ''}"))
    if not robot.nv:
        console.print("Nothing moves: there is nothing to check.")
        return True
    outcomes: dict[str, Outcome] = {}
    notes: dict[str, None] = {}
    parts = list(States.random(robot, seed, samples).parts(_at_once(robot)))
    with bar("checking", len(parts) * (len(LAWS) + 1)) as done:
        for i, states in enumerate(parts):
            for k, (what, outcome) in enumerate(_outcomes(path, states, floating_base, notes)):
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


def _at_once(robot: kt.Model) -> int:
    """Number of states to check at a time, so that their matrices and poses fit into memory."""
    return max(1, _LARGEST // (8 * max(robot.nv**2, 16 * len(robot.frames))))


def _outcomes(path: Path, states: States, floating_base: bool, notes: dict[str, None]) -> Iterator[tuple[str, Outcome]]:
    for law in LAWS:
        yield law, obeyed(states, law)
    yield from compared(path, states, floating_base, notes)


def _worst(before: Outcome | None, now: Outcome) -> Outcome:
    if isinstance(before, Check) and isinstance(now, Check):
        return before.worse(now)
    return now if before is None or isinstance(now, Check) else before


def _line(what: str, outcome: Outcome) -> Text:
    if isinstance(outcome, str):
        return line(("skipped", "yellow"), f"  {what}: {outcome}")
    verdict = ("passed ", "green") if outcome.passed else ("FAILED ", "bold red")
    return line(verdict, f"  {what:<42}{outcome.residual:8.1e}  {outcome.tolerance:7.1e}")
