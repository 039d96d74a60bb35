"""Speed of the classic recursions against Pinocchio and MuJoCo. `make bench`, or `python -m benchmarks.foundation`.

Numbers marked × say how many times as long the peer takes; µs are Kinetree's own. The method is in `benchmarks.timing`,
what each peer has to deliver in `benchmarks.peers`.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import kinetree as kt
from benchmarks import (
    c_export,
    control,
    flexible,
    linearized,
    loading,
    loops,
    manifold,
    numbers,
    operators,
    robots,
    rollouts,
    startup,
)
from benchmarks.peers import FUNCTIONS, Peer, kinetree_arguments, looped, mujoco_peer, pinocchio_peer
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core, processor, race
from kinetree.engines.native.threads import set_threads

BATCH = 1024
#: Peers' batches are also timed in pieces that fit a timing block, and the better time counts.
PIECE = 32
CHAINS = (10, 50, 100, 200)
LONG_CHAINS = (100, 300, 1000, 3000, 10_000)
POOL = 256
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
    jobs["chains"] = lambda: against_ourselves(options.seconds)
    jobs["linearize"] = lambda: linearized.matrices(options.seconds)
    jobs["directions"] = lambda: linearized.directions(options.seconds)
    jobs["manifold"] = lambda: manifold.functions(options.seconds)
    jobs["steps"] = lambda: manifold.steps(options.seconds)
    jobs["rollouts"] = lambda: rollouts.without_contacts(options.seconds)
    jobs["contacts"] = lambda: rollouts.with_contacts(options.seconds)
    jobs["control"] = lambda: control.operational_space(options.seconds)
    jobs["closed chain"] = lambda: control.closed_chain(options.seconds)
    jobs["differential inverse kinematics"] = lambda: control.differential(options.seconds)
    jobs["inverse kinematics"] = lambda: control.poses(options.seconds)
    jobs["loops"] = lambda: loops.table(options.seconds)
    jobs["flexible"] = lambda: flexible.table(options.seconds)
    jobs["operators"] = lambda: operators.table(options.seconds)
    jobs["overheads"] = lambda: manifold.overheads(options.seconds)
    jobs["exported C"] = lambda: c_export.table(robots.NAMES)
    jobs["loading"] = lambda: loading.table(options.seconds)
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
        single = _single(robot, peers, function, seconds)
        batch = _batch(robot, peers, function, seconds)
        table.add(
            function.replace("_", " "),
            micro(single["Kinetree"]),
            *(ratio(single, name) for name in ("Pinocchio", "Pinocchio bare", "MuJoCo")),
            micro(batch["Kinetree"]),
            *(ratio(batch, name) for name in ("Pinocchio", "MuJoCo")),
        )
    return table


def _states(robot: robots.Robot, peer: Peer | None, count: int, letters: str) -> tuple[Any, ...]:
    """Random states in the coordinates of a peer, or of Kinetree."""
    q, v, a = robots.state_pool(robot.model, count)
    if peer is not None:
        q, v, a = peer.q(q), peer.v(v), peer.v(a)
    return tuple({"q": q, "v": v, "a": a}[letter] for letter in letters)


def _single(robot: robots.Robot, peers: list[Peer], function: str, seconds: float) -> dict[str, float]:
    """Least time of one call of each library [s]."""
    letters, rest = FUNCTIONS[function], kinetree_arguments(robot, function)
    method = getattr(robot.model, function)
    own = [(*map(np.array, sample), *rest) for sample in zip(*_states(robot, None, POOL, letters))]
    contenders: dict[str, Any] = {"Kinetree": (method, own)}
    for peer in peers:
        samples = [tuple(map(np.array, sample)) for sample in zip(*_states(robot, peer, POOL, letters))]
        for way, call in peer.ways[function].items():
            _compare(robot, peer, function, method(*own[0]), call(*samples[0]))
            contenders[f"{peer.name}/{way}"] = (call, samples)
        if function in peer.bare:
            contenders[f"{peer.name} bare"] = (peer.bare[function], samples)
    return _fastest(race(contenders, seconds))


def _batch(robot: robots.Robot, peers: list[Peer], function: str, seconds: float) -> dict[str, float]:
    """Least time per sample of a batch of each library [s]. All fill an array that exists already."""
    letters, rest = FUNCTIONS[function], kinetree_arguments(robot, function)
    states = _states(robot, None, BATCH, letters)
    method = getattr(robot.model, function)
    home = method(*states, *rest)
    contenders: dict[str, Any] = {"Kinetree": (partial(method, out=home), [(*states, *rest)])}
    sizes = {"Kinetree": BATCH}
    for peer in peers:
        arrays = _states(robot, peer, BATCH, letters)
        theirs = np.empty_like(home)
        pieces = [tuple(array[i : i + PIECE] for array in (theirs, *arrays)) for i in range(0, BATCH, PIECE)]
        for way, call in peer.ways[function].items():
            contenders[f"{peer.name}/{way}"], sizes[f"{peer.name}/{way}"] = (looped(call), pieces), PIECE
        if function in peer.batched:
            # Its batches are columns, in Fortran order.
            whole = tuple(np.asfortranarray(array.T) for array in (theirs, *arrays))
            parts = [tuple(np.asfortranarray(array.T) for array in piece) for piece in pieces]
            contenders[f"{peer.name}/whole"] = (peer.batched[function], [whole])
            contenders[f"{peer.name}/pieces"] = (peer.batched[function], parts)
            sizes |= {f"{peer.name}/whole": BATCH, f"{peer.name}/pieces": PIECE}
    return _fastest({name: time / sizes[name] for name, time in race(contenders, seconds).items()})


def _fastest(times: dict[str, float]) -> dict[str, float]:
    """The best of each library's ways."""
    best: dict[str, float] = {}
    for name, time in times.items():
        library = name.split("/")[0]
        best[library] = min(time, best.get(library, time))
    return best


def _compare(robot: robots.Robot, peer: Peer, function: str, ours: Any, theirs: Any) -> None:
    """Refuse to time a peer that computes something else, where the coordinates allow a comparison."""
    if peer.name == "Pinocchio":
        if function == "jacobian":
            theirs = robot.order.from_jacobian(theirs)
        elif function.startswith("mass"):
            theirs = robot.order.from_matrix(theirs)
        elif function != "pose":
            theirs = robot.order.from_v(theirs)
    elif any(joint.kind == "floating" for joint in robot.model.joints) or function == "jacobian":
        return
    if not np.allclose(ours, theirs, rtol=1e-6, atol=1e-6 * float(np.max(np.abs(theirs)))):
        raise ValueError(f"{robot.name}: {function} of {peer.name} differs from Kinetree's")


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
