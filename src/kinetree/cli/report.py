"""The laws and comparisons of a robot, printed one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

import kinetree as kt
from kinetree.cli.laws import LAWS, States, obeyed
from kinetree.cli.peers import Outcome, compared


def run(console: Console, path: Path, robot: kt.Model, floating_base: bool, seed: int, samples: int) -> bool:
    """Check a robot.

    Args:
        console: Where to print.
        path: The file that it comes from.
        robot: The robot.
        floating_base: Whether it was loaded with a floating base.
        seed: Of the random states.
        samples: How many states.

    Returns:
        Whether nothing failed; what could not be asked for has not failed.
    """
    console.print(f"{robot!r}, {samples} random states", markup=False, highlight=False, soft_wrap=True)
    if not robot.nv:
        console.print("Nothing moves: there is nothing to check.")
        return True
    failed = 0
    for what, outcome in _outcomes(path, States.random(robot, seed, samples), floating_base):
        console.print(_line(what, outcome), soft_wrap=True)
        failed += not isinstance(outcome, str) and not outcome.passed
    console.print(f"{failed} failed" if failed else "all passed", style="bold red" if failed else "green")
    return not failed


def _outcomes(path: Path, states: States, floating_base: bool) -> Iterator[tuple[str, Outcome]]:
    for law in LAWS:
        yield law, obeyed(states, law)
    yield from compared(path, states, floating_base)


def _line(what: str, outcome: Outcome) -> Text:
    if isinstance(outcome, str):
        return Text.assemble(("skipped", "yellow"), f"  {what}: {outcome}")
    verdict = ("passed ", "green") if outcome.passed else ("FAILED ", "bold red")
    return Text.assemble(verdict, f"  {what:<42}{outcome.residual:8.1e}, must not exceed {outcome.tolerance:.1e}")
