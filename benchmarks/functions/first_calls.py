"""How long the first call of each public function takes with an empty cache, and what it is spent on.

    python -m benchmarks.functions.first_calls --robots Panda --only linearize

Each call runs in a process of its own, forked before anything is compiled or LLVM is loaded. The import of the package
is not included, that of LLVM is. Compilations use all cores that this process may use; the stages are those of the
thread that calls, and LLVM's is how long it compiles or waits for other threads that do.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import numpy.random  # noqa: F401 (takes 10 ms, and only the arguments of calls need it)
from rich.console import Console

from benchmarks import numbers, robots
from benchmarks.functions.cases import OTHERS, STATES, TASKS, Case
from benchmarks.functions.scene import Scene
from benchmarks.table import Table
from kinetree.compiler import programs
from kinetree.runtime import kernels, threads
from kinetree.runtime import threads as jobs

CASES: Mapping[str, Case] = {**STATES, **{f"tasks.{name}": case for name, case in TASKS.items()}, **OTHERS}
#: What is replaced by a function that counts its time to a stage. Inner stages are not counted to outer ones.
STAGES: Mapping[str, tuple[tuple[Any, str], ...]] = {
    "trace": ((programs, "trace"),),
    "simplify": ((programs, "simplify"), (programs, "fuse")),
    "lower": ((programs, "_lower"),),
    "print": ((kernels, "emit"), (kernels, "emit_node_lanes")),
    "LLVM": ((threads, "finish"), (jobs.SharedComputation, "result")),
}


class Stopwatch:
    """Adds up the time of stages of this thread, each without those inside it."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self.seconds: dict[str, float] = defaultdict(float)
        self._running = ["rest"]
        self._since = 0.0

    def _mark(self) -> None:
        now = time.perf_counter()
        self.seconds[self._running[-1]] += now - self._since
        self._since = now

    @contextmanager
    def total(self) -> Iterator[None]:
        """Measure inside a `with` block."""
        self._since = time.perf_counter()
        yield
        self._mark()

    def counting(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, counted to a stage."""

        def counted(*args: Any, **options: Any) -> Any:
            if threading.get_ident() != self._thread:
                return function(*args, **options)
            self._mark()
            self._running.append(stage)
            try:
                return function(*args, **options)
            finally:
                self._mark()
                self._running.pop()

        return counted


def first_call(scene: Scene, case: Case, arrays: tuple[Any, ...]) -> dict[str, float]:
    """Seconds of each stage of a call, if it is the first in this process."""
    watch = Stopwatch()
    for stage, places in STAGES.items():
        for place, name in places:
            setattr(place, name, watch.counting(stage, getattr(place, name)))
    with watch.total():
        case.call(scene)(*arrays, *case.rest(scene))
    return dict(watch.seconds)


def _in_process(function: Callable[..., Any], *args: Any) -> Any:
    """The result of a call in a forked process with an empty cache."""
    context = get_context("fork")  # nothing that is passed can be pickled
    with tempfile.TemporaryDirectory() as cache:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_send, args=(sender, cache, function, args))
        process.start()
        sender.close()
        try:
            return receiver.recv()
        finally:
            process.join()


def _send(sender: Connection, cache: str, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    os.environ |= {"KINETREE_CACHE_DIR": cache, "KINETREE_NO_TIERS": "0"}
    sender.send(function(*args))


def _arrays(scene: Scene, count: int) -> dict[str, Any]:
    """Arrays by their letters: one state, or a batch."""
    letters = "".join(sorted({letter for case in CASES.values() for letter in case.arrays}))
    return {letter: array if count > 1 else array[0] for letter, array in zip(letters, scene.states(letters, count))}


def table(names: list[str], only: list[str], count: int = 1, repeats: int = 1) -> Table:
    """First calls of all functions; stages are those of the last robot.

    Args:
        names: Of the robots.
        only: Parts of names of functions; everything if empty.
        count: Samples of the call.
        repeats: Of which the least is shown.
    """
    if "llvmlite.binding" in sys.modules:
        raise RuntimeError("LLVM is loaded already, so forked processes would not have to")
    title = f"First calls with an empty cache in seconds, {'single' if count == 1 else f'batches of {count}'}"
    found = Table(title, ["function", *names, *(f"{names[-1]}: {stage}" for stage in (*STAGES, "rest"))])
    scenes = [Scene(name, robots.load(name).model, None) for name in names]
    states = [_in_process(_arrays, scene, count) for scene in scenes]
    for label, case in CASES.items():
        if (only and not any(part in label for part in only)) or (count > 1 and not case.batch):
            continue
        split: dict[str, float] = {}
        totals = []
        for scene, known in zip(scenes, states):
            arrays = tuple(known[letter] for letter in case.arrays)
            tries = [_in_process(first_call, scene, case, arrays) for _ in range(repeats)]
            split = min(tries, key=lambda seconds: sum(seconds.values()))
            totals.append(sum(split.values()))
        cells = [*totals, *(split.get(stage, 0.0) for stage in (*STAGES, "rest"))]
        found.add(label, *(f"{seconds:.2f}" for seconds in cells))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help=f"write the table into {numbers.FUNCTIONS_PAGE.name}")
    parser.add_argument("--robots", nargs="*", default=list(robots.NAMES))
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of functions; all if empty")
    parser.add_argument("--count", type=int, default=1, help="samples of the call (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=1, help="the least is shown (default: %(default)s)")
    options = parser.parse_args()
    found = table(options.robots, options.only, options.count, options.repeats)
    Console(width=190).print(found.rich())
    if options.update and not options.only:
        numbers.write(numbers.FUNCTIONS_PAGE, "first calls", found.markdown())


if __name__ == "__main__":
    main()
