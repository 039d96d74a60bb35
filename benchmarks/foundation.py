"""Speed of the classic recursions against Pinocchio and MuJoCo. `make bench`, or `python -m benchmarks.foundation`.

Numbers marked × say how many times as long the peer takes; µs are Kinetree's own. The method is in `benchmarks.timing`,
what each peer has to deliver in `benchmarks.peers`.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import kinetree as kt
from benchmarks import (
    c_export,
    constrained,
    contact_solver,
    contests,
    control,
    coupled,
    flexible,
    float32,
    kernels,
    linearized,
    loading,
    loops,
    manifold,
    numbers,
    operators,
    robots,
    rollouts,
    sizes,
    specialized,
    startup,
    terrain,
)
from benchmarks.contests import BATCH
from benchmarks.peers import FUNCTIONS, mujoco_peer, pinocchio_peer
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core, processor, race
from kinetree.runtime.threads import set_threads

CHAINS = (10, 50, 100, 200)
LONG_CHAINS = (100, 300, 1000, 3000, 10_000)
#: Columns of text that the tables need; a pipe has no width of its own.
WIDTH = 110


def main() -> None:
    """Run all benchmarks and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path, help="also write the tables to this file")
    parser.add_argument("--update", action="store_true", help="write the tables into docs/performance.md")
    parser.add_argument(
        "--seconds", type=float, default=0.15, help="time spent on each contender (default: %(default)s)"
    )
    parser.add_argument(
        "--only", nargs="*", default=[], help="names of robots or of tables (see `jobs`); everything if empty"
    )
    options = parser.parse_args()

    set_threads(1)
    core = pin_to_one_core()
    title = (
        f"{processor()}, core {core}; Python {platform.python_version()}, NumPy {np.__version__}, "
        f"llvmlite {version('llvmlite')}, pin {version('pin')}, MuJoCo {version('mujoco')}"
    )
    jobs: dict[str, Callable[[], Table]] = {}
    for name in robots.NAMES:
        jobs[name] = lambda name=name: against_peers(robots.load(name), options.seconds)  # type: ignore[misc]
    for n in CHAINS:
        jobs[f"chain {n}"] = lambda n=n: against_peers(robots.chain(n), options.seconds)  # type: ignore[misc]
    jobs["specialized"] = lambda: specialized.table(options.seconds)
    jobs["specialized kernels"] = specialized.kernels
    jobs["chains"] = lambda: against_ourselves(options.seconds)
    jobs["sizes"] = lambda: sizes.table(options.seconds)
    jobs["functions by size"] = lambda: sizes.functions_table(options.seconds)
    jobs["linearize"] = lambda: linearized.matrices(options.seconds)
    jobs["directions"] = lambda: linearized.directions(options.seconds)
    jobs["under constraints"] = lambda: constrained.table(options.seconds)
    jobs["kernels"] = lambda: kernels.sweeps(options.seconds)
    jobs["manifold"] = lambda: manifold.functions(options.seconds)
    jobs["steps"] = lambda: manifold.steps(options.seconds)
    jobs["rollouts"] = lambda: rollouts.without_contacts(options.seconds)
    jobs["contacts"] = lambda: rollouts.with_contacts(options.seconds)
    jobs["derivatives through contact"] = lambda: rollouts.contact_derivatives(options.seconds)
    jobs["contact solver"] = lambda: contact_solver.table(options.seconds)
    jobs["discovered contacts"] = lambda: terrain.on_stairs(options.seconds)
    jobs["control"] = lambda: control.operational_space(options.seconds)
    jobs["closed chain"] = lambda: control.closed_chain(options.seconds)
    jobs["differential inverse kinematics"] = lambda: control.differential(options.seconds)
    jobs["inverse kinematics"] = lambda: control.poses(options.seconds)
    jobs["float32"] = lambda: float32.table(options.seconds)
    jobs["loops"] = lambda: loops.table(options.seconds)
    jobs["coupled"] = lambda: coupled.table(options.seconds)
    jobs["flexible"] = lambda: flexible.table(options.seconds)
    jobs["operators"] = lambda: operators.table(options.seconds)
    jobs["overheads"] = lambda: manifold.overheads(options.seconds)
    jobs["exported C"] = lambda: c_export.table(robots.NAMES)
    jobs["loading"] = lambda: loading.table(options.seconds)
    jobs["loading formats"] = lambda: loading.formats(options.seconds)
    jobs["startup"] = lambda: startup.table(robots.load("Talos").model)
    wanted = [name for name in jobs if not options.only or name in options.only]

    console = Console()
    console.width = max(console.width, WIDTH)
    console.print(title)
    tables = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(wanted))
        for name in wanted:
            progress.update(task, description=name)
            tables.append(jobs[name]())
            console.print(tables[-1].rich())
            progress.advance(task)
    if options.markdown is not None:
        text = "\n\n".join([title, *(table.markdown() for table in tables)])
        options.markdown.write_text(text + "\n", encoding="utf-8")
    if options.update and not options.only:
        shown = [table for name, table in zip(wanted, tables) if not name.startswith("chain ")]
        numbers.write(numbers.PERFORMANCE, "foundation", "\n\n".join(table.markdown() for table in shown))


def against_peers(robot: robots.Robot, seconds: float) -> Table:
    """Every function of one robot: a single call, and a sample of a batch."""
    peers = [pinocchio_peer(robot), mujoco_peer(robot)]
    bodies = len(robot.parts)
    table = Table(
        f"{robot.name}: nv {robot.model.nv}, {bodies} bodies, {len(robot.frames)} frames",
        ["function", "single", "Pinocchio", "bare", "MuJoCo", f"of {BATCH}", "Pinocchio", "MuJoCo"],
    )
    for function in FUNCTIONS:
        single = contests.single(robot, peers, function, seconds)
        batch = contests.batch(robot, peers, function, seconds)
        table.add(
            function.replace("_", " "),
            micro(single["Kinetree"]),
            *(ratio(single, name) for name in ("Pinocchio", "Pinocchio bare", "MuJoCo")),
            micro(batch["Kinetree"]),
            *(ratio(batch, name) for name in ("Pinocchio", "MuJoCo")),
        )
    return table


def against_ourselves(seconds: float) -> Table:
    """Time per body of long chains, which should not depend on their length."""
    table = Table(
        "Chains: time per body",
        ["function", "bodies", "single call", "against n = 100", "batch of 64, per sample", "against single"],
    )
    for function in ("inverse_dynamics", "forward_dynamics"):
        first = None
        for n in LONG_CHAINS:
            robot = kt.zoo.chain(n)
            method, pool = getattr(robot, function), robots.state_pool(robot, 64)
            samples = list(zip(*pool))
            times = race({"single": (method, samples), "batch": (method, [pool])}, max(seconds, 0.3))
            single, batch = times["single"] / n, times["batch"] / n / 64
            first = first or single
            table.add(
                function.replace("_", " "),
                str(n),
                f"{single * 1e9:.1f} ns",
                f"{single / first:.2f}",
                f"{batch * 1e9:.1f} ns",
                f"{batch / single:.2f}",
            )
    return table


def micro(seconds: float) -> str:
    """A time in microseconds."""
    return f"{seconds * 1e6:.3g} µs"


def ratio(times: dict[str, float], name: str) -> str:
    """How many times as long as Kinetree another takes."""
    return f"{times[name] / times['Kinetree']:.2f}×" if name in times else ""


if __name__ == "__main__":
    main()
