"""The main job: a robot's tree, a check of its dynamics, and what each function costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import kinetree as kt
from kinetree.cli import operational_space
from kinetree.cli.check import Check, forward_against_inverse
from kinetree.cli.tables import of_numbers
from kinetree.cli.timing import Cost, cost
from kinetree.errors import SingularMechanismError
from kinetree.model.dynamics import FUNCTIONS


def run(console: Console, seed: int, batch: int, robot: kt.Model | None = None) -> bool:
    """Run the demo.

    Args:
        console: Where to print.
        seed: Of the random states.
        batch: Samples in a batch.
        robot: By default the built-in humanoid.

    Returns:
        Whether forward and inverse dynamics agree, and so do all algorithms for Λ.
    """
    built_in = robot is None
    robot, frame = (kt.zoo.humanoid24(), "left_hand") if robot is None else (robot, robot.frames[-1])
    if not robot.nv:
        console.print(f"{robot!r}\nNothing moves: there is nothing to compute.", markup=False, highlight=False)
        return True
    rng = np.random.default_rng(seed)
    q = robot.random_configuration(rng, batch)
    v, tau = rng.uniform(-1.0, 1.0, (2, batch, robot.nv))

    console.print(str(robot), markup=False, highlight=False, soft_wrap=True)
    possible, problems = _compiled(console, robot)
    for problem in problems:
        console.print(f"\n{problem}", markup=False, highlight=False, soft_wrap=True)
    passed = True
    if "forward_dynamics" in possible:
        check = forward_against_inverse(robot, q, v, tau)
        console.print(_verdict(check, batch))
        passed = check.passed
    with _progress(console) as progress:
        costs = [cost(robot, name, {"q": q, "v": v}, frame) for name in progress.track(possible, description="timing")]
    console.print(_table(costs))
    console.print(
        f"\nLeast times in µs; samples are of a batch of {batch}. poses and velocities are of all\n"
        f"{len(robot.frames)} frames, jacobian and jacobian_dot_v of {frame}. Batches too small to gain\n"
        "from threads stay on one: try --batch.",
        highlight=False,
        soft_wrap=True,
    )
    if built_in:
        passed = operational_space.show(console, robot, q) and passed
    return passed


def _compiled(console: Console, robot: kt.Model) -> tuple[list[str], list[str]]:
    """Functions that the robot has, now compiled, and why it lacks others."""
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
    """Compiles a function; says why it cannot."""
    try:
        robot.compile([name])
    except SingularMechanismError as error:
        return str(error)
    return None


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _verdict(check: Check, batch: int) -> Text:
    return Text.assemble(
        f"\nForward against inverse dynamics, {batch} random states: ",
        ("passed", "green") if check.passed else ("FAILED", "bold red"),
        f"\nWorst residual {check.residual:.1e}, must not exceed {check.tolerance:.1e}.\n",
    )


def _table(costs: Sequence[Cost]) -> Table:
    """One row per function; times in microseconds."""
    threads = f"{kt.get_threads()} thr."
    numbers = ("opera-\ntions", "one\ncall", "in\n1 ms", "sample\n1 thr.", f"sample\n{threads}", "in\n1 ms")
    table = of_numbers("function", numbers)
    for c in costs:
        table.add_row(
            c.name,
            f"{c.operations:,}",
            f"{c.call * 1e6:.2f}",
            f"{1e-3 / c.call:,.0f}",
            f"{c.sample * 1e6:.2f}",
            f"{c.spread_sample * 1e6:.2f}",
            f"{1e-3 / c.spread_sample:,.0f}",
        )
    return table
