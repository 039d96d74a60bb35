"""Compiles many functions of a robot, using further processes on the other cores.

Python and LLVM both compile in one thread at a time. So other processes compile functions from the end of the list and
store the code in the cache on disk, where this process finds it when it gets there.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from kinetree.compiler import cache
from kinetree.compiler.formats import FLOAT64, Format
from kinetree.errors import KinetreeError, ModelError
from kinetree.language.mechanism import Mechanism, Site
from kinetree.model.body import Body
from kinetree.model.joint import Joint
from kinetree.runtime import threads

if TYPE_CHECKING:
    import subprocess


_log = logging.getLogger("kinetree")

Progress = Callable[[str, int, int], object]

# Starting a process takes about half a second. Functions that are in the cache are done before that.
_PATIENCE = 0.5
_MOST_PROCESSES = 8
_PROGRAM = "from kinetree.model.compilation import compile_for_others; compile_for_others()"


def compile_functions(robot: Any, names: Sequence[str], progress: Progress | None) -> None:
    """Compile functions of a model, and derivatives such as "forward_dynamics.vjp"; see `Model.compile`."""
    functions = [attrgetter(name)(robot) for name in names]
    began, alone = time.monotonic(), True
    with ExitStack() as processes:
        report = processes.enter_context(_line()) if progress is None else progress
        for done, (name, function) in enumerate(zip(names, functions, strict=True)):
            report(name, done, len(names))
            if alone and time.monotonic() - began > _PATIENCE:
                alone = False
                processes.enter_context(_others(robot, names[done + 1 :]))
            function.compile()
        report("", len(names), len(names))


@contextmanager
def _line() -> Iterator[Progress]:
    """A status line on the terminal, erased afterwards."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        yield lambda *_: None
        return

    def show(name: str, done: int, total: int) -> None:
        stream.write(f"\r\033[Kcompiling {done}/{total} {name}" if name else "\r\033[K")
        stream.flush()

    try:
        yield show
    finally:
        show("", 0, 0)


@contextmanager
def _others(robot: Any, names: Sequence[str]) -> Iterator[None]:
    """Processes that compile functions, last ones first, until the block is left."""
    count = min(threads.get_threads() - 1, _MOST_PROCESSES, len(names) - 1)
    started: list[subprocess.Popen[bytes]] = []
    try:
        if count > 0 and sys.executable and cache.enabled():
            started.extend(_process(robot, names[::-1][i::count]) for i in range(count))
    except (pickle.PicklingError, AttributeError, TypeError, OSError) as error:
        # a user-defined node may not be importable in another process: this process then compiles everything itself
        _log.info("no other processes help compiling: %s", error)
    try:
        yield
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def _process(robot: Any, names: Sequence[str]) -> subprocess.Popen[bytes]:
    import subprocess  # both take a while to import
    import tempfile

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with tempfile.TemporaryFile() as file:
        pickle.dump((robot, tuple(names)), file)
        file.seek(0)
        return subprocess.Popen(  # noqa: S603 -- this interpreter, with a fixed program
            [sys.executable, "-c", _PROGRAM],
            stdin=file,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )


def compile_for_others() -> None:
    """Compile the functions named on standard input into the cache. Failures are left to the parent process."""
    robot, names = pickle.load(sys.stdin.buffer)  # noqa: S301 -- written by the parent process
    for name in names:
        with suppress(KinetreeError):
            attrgetter(name)(robot).compile()


def require_representable(
    scalar: Format, bodies: Iterable[Body], joints: Iterable[Joint], mechanism: Mechanism, sites: Iterable[Site]
) -> None:
    """Raise if rounding to a format makes a number infinite, or a mass, an inertia or an armature lose its digits.

    Other numbers may become zero: placements have entries of the size of rounding errors.
    """
    if scalar is FLOAT64:
        return
    limits = np.finfo(scalar.dtype)
    least, most = float(limits.tiny), float(limits.max)
    for owner, what, values, vanishing in _numbers(bodies, joints, mechanism, sites):
        sizes = np.abs(values)
        for wrong, fault in ((sizes > most, "large"), ((sizes > 0.0) & (sizes < least), "small")):
            if wrong.any() and (fault == "large" or not vanishing):
                raise ModelError(
                    f"{owner}: {what} {sizes[wrong][0]:g} is too {fault} for {scalar.name}, whose numbers lie between "
                    f"{least:.3g} and {most:.3g}; use astype('float64')"
                )


def _numbers(
    bodies: Iterable[Body], joints: Iterable[Joint], mechanism: Mechanism, sites: Iterable[Site]
) -> Iterator[tuple[str, str, Any, bool]]:
    """Whose they are, what they are, the numbers, and whether they may vanish."""
    for body in bodies:
        yield f"body {body.name!r}", "mass", np.array([body.mass]), False
        # entries of a diagonal may be negligible, but not all of them
        yield f"body {body.name!r}", "inertia", np.diagonal(body.inertia).max(keepdims=True), False
    for joint in joints:
        yield f"joint {joint.name!r}", "armature", joint.armature, False
    for name, numbers in zip(mechanism.names, mechanism.parameters, strict=True):
        yield f"node {name!r}", "constant", numbers, True
    for site in sites:
        yield f"frame {site.name!r}", "placement", site.placement, True
    yield "the model", "gravity", mechanism.gravity, True
