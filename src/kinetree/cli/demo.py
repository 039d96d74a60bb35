"""The demo: a robot's tree, a check of its dynamics, and the cost of each function.

Times are the least over short blocks of calls, which interruptions cannot distort. Of the built-in humanoid it also
shows the headline result of [CK01], Λ of both hands, by every algorithm.

[CK01] K.-S. Chang, O. Khatib, "Efficient recursive algorithm for the operational space inertia matrix of branching
       mechanisms", Advanced Robotics 14, 2001.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

import kinetree as kt
from kinetree.cli.check import Check, forward_against_inverse
from kinetree.cli.terminal import line, safe, table
from kinetree.errors import SingularMechanismError
from kinetree.model.dynamics import FUNCTIONS
from kinetree.model.printing import printable
from kinetree.runtime.function import FrameFunction
from kinetree.runtime.threads import settle
from kinetree.spatial.value import Array

#: Duration of a timed block, and of all blocks of a measurement [s].
BLOCK, TOTAL = 0.4e-3, 0.1

#: Single calls cycle through this many samples.
MOST_CALLS = 1024

#: Batches are truncated so that no result is larger than this [bytes].
LARGEST = 2**29

#: Argument of functions of a time step [s].
TIME_STEP = 1e-3


@dataclass(frozen=True)
class Cost:
    """The cost of a function."""

    name: str
    operations: int  # additions, multiplications, divisions and square roots per sample
    call: float  # time of a call with a single sample [s]
    batch: int  # samples in the batch, as many of those given as `LARGEST` allows
    sample: float  # time per sample of that batch, on one thread [s]
    # time per sample of that batch, on all threads [s]; equal to `sample` if there is only one thread
    spread_sample: float


def cost(robot: kt.Model, name: str, states: dict[str, Array], frame: str) -> Cost:
    """Measure a function of states "q", (batch, nq), and "v", (batch, nv), and of one frame if it takes frames."""
    function = getattr(robot, name)
    one_frame = isinstance(function, FrameFunction) and function.needs_frames
    inputs = [argument for argument in function.algorithm.inputs if "frames" not in argument.dimensions]
    # the only scalars are time steps
    step = np.full(len(states["q"]), TIME_STEP)
    arrays = [states[str(argument.dimensions[0])] if argument.dimensions else step for argument in inputs]
    rest = [frame] if one_frame else []
    batch = max(1, min(len(arrays[0]), LARGEST // size(function(*(array[0] for array in arrays), *rest))))
    call = least_time(function, [[*sample, *rest] for sample in zip(*(array[:MOST_CALLS] for array in arrays))])
    whole = [array[:batch] for array in arrays] + rest
    # reuse one output array: allocating each result would cost more than many functions do
    into = partial(function, out=function(*whole))
    with threads(1):
        sample = least_time(into, [whole]) / batch
    spread_sample = sample if kt.get_threads() == 1 else least_time(into, [whole]) / batch
    return Cost(name, robot.count(name, rest or None).total, call, batch, sample, spread_sample)


def size(result: Any) -> int:
    """Size of one or several arrays [bytes]."""
    return sum(array.nbytes for array in result) if isinstance(result, tuple) else int(np.asarray(result).nbytes)


def least_time(function: Callable[..., object], arguments: Sequence[Sequence[Any]]) -> float:
    """Least time of a call [s], over blocks of calls that cycle through the arguments."""
    function(*arguments[0])
    settle()  # code that was compiled for this call may not be optimised yet
    single = min(_block(function, arguments[:1]) for _ in range(3))
    length = max(1, min(len(arguments), int(BLOCK / single)))
    best, start = single, 0
    end = time.perf_counter() + TOTAL
    while time.perf_counter() < end:
        best = min(best, _block(function, arguments[start : start + length]))
        start = (start + length) % (len(arguments) - length + 1)
    return best


def _block(function: Callable[..., object], arguments: Sequence[Sequence[Any]]) -> float:
    start = time.perf_counter()
    for each in arguments:
        function(*each)
    return (time.perf_counter() - start) / len(arguments)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Set the number of threads temporarily."""
    before = kt.get_threads()
    kt.set_threads(count)
    try:
        yield
    finally:
        kt.set_threads(before)


HANDS = ("left_hand", "right_hand")

#: Time reported by [CK01] for Λ of this mechanism, on a 266 MHz Pentium II [s].
PUBLISHED = 1e-3

#: Allowed relative error of Λ, in units of n · eps · cond(Λ⁻¹). The worst of 100,000 random states reaches 0.13.
SLACK = 1.0

#: Most states used; more would cost memory for condition numbers and add nothing.
MOST = 4096


@dataclass(frozen=True)
class MethodRow:
    """One algorithm: operations of Λ⁻¹, worst disagreement of Λ with the definition, times of Λ [s]."""

    method: str
    operations: int
    disagreement: float
    call: float
    sample: float


def show_operational_space(console: Console, robot: kt.Model, q: Array) -> bool:
    """Print agreement, operations and times of all algorithms for Λ of both hands; returns whether they agree."""
    q = q[:MOST]
    space = robot.tasks(HANDS, method="definition").at(q)
    regular = space.rank == len(HANDS) * 6
    expected = space.inertia[regular]
    tolerance = SLACK * robot.nv * np.finfo(np.float64).eps * np.linalg.cond(space.inverse_inertia[regular])
    rows, agree = [], True
    default = robot.tasks(HANDS).method
    for method in dict.fromkeys((*kt.tasks.METHODS, default)):
        hands = robot.tasks(HANDS, method=method)
        inertia = hands.inertia
        error = np.abs(inertia(q[regular]) - expected).max(axis=(1, 2), initial=0.0)
        relative = error / np.abs(expected).max(axis=(1, 2), initial=0.0)
        agree = agree and bool((relative <= tolerance).all())
        call = least_time(inertia, [(sample,) for sample in q[regular][:256]])
        with threads(1):
            sample = least_time(inertia, [(q[regular],)]) / max(1, int(regular.sum()))
        worst = float(relative.max(initial=0.0))
        rows.append(MethodRow(method, hands.inverse_inertia.count().total, worst, call, sample))
    console.print(_methods_verdict(rows, agree, int(regular.sum()), len(q)))
    console.print(_methods_table(rows))
    return agree


def _methods_verdict(rows: list[MethodRow], agree: bool, regular: int, samples: int) -> Text:
    best = min(row.call for row in rows)
    return line(
        f"\nΛ of both hands by every algorithm, {regular} of {samples} random states, where they are not singular: ",
        ("passed", "green") if agree else ("FAILED", "bold red"),
        "\nThe paper that first computed it in O(nm + m³) took 1 ms on a 266 MHz Pentium II. Here one\n"
        f"call takes {best * 1e6:.1f} µs. Operations are those of Λ⁻¹, times are those of Λ in µs.\n",
    )


def _methods_table(rows: list[MethodRow]) -> Text:
    headers = ("algorithm", "opera-\ntions", "relative\nerror", "one\ncall", "in\n1 ms", "sample\n1 thr.", "in\n1 ms")
    cells = (
        (
            row.method,
            f"{row.operations:,}",
            f"{row.disagreement:.0e}",
            f"{row.call * 1e6:.2f}",
            f"{PUBLISHED / row.call:,.0f}",
            f"{row.sample * 1e6:.2f}",
            f"{PUBLISHED / row.sample:,.0f}",
        )
        for row in rows
    )
    return table(headers, cells)


#: Default number of samples in a batch.
DEFAULT_BATCH = 1024


def run(console: Console, seed: int, batch: int, robot: kt.Model | None = None) -> bool:
    """Run the demo, by default on the built-in humanoid; returns whether all algorithms agree."""
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
        passed = show_operational_space(console, robot, q) and passed
    return passed


def _compiled(console: Console, robot: kt.Model) -> tuple[list[str], list[str]]:
    """Compile every function; returns the names of those that exist for this robot, and why the others do not."""
    possible: list[str] = []
    problems: dict[str, None] = {}
    with _progress(console) as progress:
        for name in progress.track(FUNCTIONS, description="compiling"):
            try:
                robot.compile([name])
                possible.append(name)
            except SingularMechanismError as error:  # noqa: PERF203 - one of a few functions
                problems[str(error)] = None
    return possible, list(problems)


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
