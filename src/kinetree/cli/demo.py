"""The demo: a robot's tree, a check of its dynamics, and the cost of each function."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

import kinetree as kt
from kinetree.cli import operational_space
from kinetree.cli.check import Check, forward_against_inverse
from kinetree.cli.tables import table
from kinetree.cli.terminal import line, safe
from kinetree.cli.timing import LARGEST, Cost, cost
from kinetree.errors import SingularMechanismError
from kinetree.model.dynamics import FUNCTIONS
from kinetree.model.printing import printable

#: Default number of samples in a batch.
DEFAULT_BATCH = 1024


def run(console: Console, seed: int, batch: int, robot: kt.Model | None = None) -> bool:
    """Run the demo.

    Args:
        console: Where to print.
        seed: Seed of the random states.
        batch: Samples in a batch.
        robot: The robot; by default the built-in humanoid.

    Returns:
        Whether forward and inverse dynamics agree, as well as all algorithms for Λ.
    """
    built_in = robot is None
    robot, frame = (kt.zoo.humanoid24(), "left_hand") if robot is None else (robot, robot.frames[-1])
    if not robot.nv:
        console.print(safe(f"{robot!r}\nNothing moves: there is nothing to compute."))
        return True
    rng = np.random.default_rng(seed)
    q = robot.random_configuration(rng, batch)
    v, tau = rng.uniform(-1.0, 1.0, (2, batch, robot.nv))

    console.print(safe(robot))
    possible, problems = _compiled(console, robot)
    for problem in problems:
        console.print(f"\n{safe(problem)}")
    passed = True
    if "forward_dynamics" in possible:
        check = forward_against_inverse(robot, q, v, tau)
        console.print(_verdict(check, batch))
        passed = check.passed
    with _progress(console) as progress:
        costs = [cost(robot, name, {"q": q, "v": v}, frame) for name in progress.track(possible, description="timing")]
    console.print(_table(costs, batch))
    console.print(safe(_legend(robot, costs, batch, frame)))
    if built_in:
        passed = operational_space.show(console, robot, q) and passed
    return passed


def _compiled(console: Console, robot: kt.Model) -> tuple[list[str], list[str]]:
    """Compile every function; returns the names of those that exist for this robot, and why the others do not."""
    possible: list[str] = []
    problems: list[str] = []
    with _progress(console) as progress:
        for name in progress.track(FUNCTIONS, description="compiling"):
            problem = _problem(robot, name)
            if problem is None:
                possible.append(name)
            else:
                problems.append(problem)
    return possible, list(dict.fromkeys(problems))


def _problem(robot: kt.Model, name: str) -> str | None:
    """Compile a function; returns the reason if it does not exist for this robot."""
    try:
        robot.compile([name])
    except SingularMechanismError as error:
        return str(error)
    return None


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _verdict(check: Check, batch: int) -> Text:
    return line(
        f"\nForward against inverse dynamics, {batch} random states: ",
        ("passed", "green") if check.passed else ("FAILED", "bold red"),
        f"\nWorst relative error {check.residual:.1e}, allowed {check.tolerance:.1e}.\n",
    )


def _table(costs: Sequence[Cost], batch: int) -> Text:
    """One row per function; times in microseconds. With a single thread, its times are shown only once."""
    several = kt.get_threads() > 1
    headers = ["function", "opera-\ntions", "one\ncall", "in\n1 ms", "sample\n1 thr."]
    headers += [f"sample\n{kt.get_threads()} thr."] if several else []
    rows = []
    for c in costs:
        times = [c.sample, c.spread_sample] if several else [c.sample]
        rows.append(
            [
                c.name + ("*" if c.batch < batch else ""),
                f"{c.operations:,}",
                f"{c.call * 1e6:.2f}",
                f"{1e-3 / c.call:,.0f}",
                *(f"{t * 1e6:.2f}" for t in times),
                f"{1e-3 / times[-1]:,.0f}",
            ]
        )
    return table([*headers, "in\n1 ms"], rows)


def _legend(robot: kt.Model, costs: Sequence[Cost], batch: int, frame: str) -> str:
    lines = [
        f"\nLeast times in µs; samples are those of a batch of {batch}, written to out=.",
        f"Those of frames: poses and velocities of all {len(robot.frames)}, the others of {printable(frame)}.",
    ]
    if any(c.batch < batch for c in costs):
        lines.append(f"* fewer samples, so that the result fits {LARGEST >> 20} MiB.")
    if kt.get_threads() > 1 and batch <= DEFAULT_BATCH:
        lines.append(f"Small batches stay on one thread: try --batch {64 * DEFAULT_BATCH}.")
    return "\n".join(lines)
