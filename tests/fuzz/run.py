"""Loads spoilt files: each must give a model or a `LoadError`, soon and in bounded memory.

A file that does not is written to the directory of --keep.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import kinetree as kt
from kinetree.errors import LoadError, ModelWarning
from tests.fuzz.mutations import Dialect, mutated

#: Longest time that loading may take, of the processor: others may be busy on it too [s].
PATIENCE = 2.0
#: Address space that the process may use [bytes].
MEMORY = 4 * 2**30

Options = Callable[[random.Random], dict[str, Any]]


def fault_of(data: bytes, options: dict[str, Any], path: Path | None = None) -> tuple[str, str | None]:
    """Load some bytes, from a file if a path is given: the kind of outcome, and what is wrong with it, if anything."""
    source: Any = data
    if path is not None:
        path.write_bytes(data)
        source = path
    gc.freeze()  # what a long test run has piled up is not the loader's to search
    start = time.process_time()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = kt.load(source, **options)
    except LoadError as error:
        outcome, wrong = "refused", None if error.problem and len(str(error)) < 2000 else "a strange message"
    except Exception as error:  # noqa: BLE001 (that is the question)
        outcome, wrong = "crashed", f"{type(error).__name__}: {error}"
    else:
        outcome, wrong = "loaded", None
        if not np.isfinite(model.mechanism.total_parameters).all():
            wrong = "constants that are not finite"
        if any(not issubclass(each.category, ModelWarning) for each in caught):
            wrong = f"warnings of others: {[str(each.message)[:100] for each in caught]}"
    seconds = time.process_time() - start
    gc.unfreeze()
    if seconds > PATIENCE:
        wrong = f"took {seconds:.1f} s"
    return outcome, wrong


class Draw(NamedTuple):
    """One spoilt file: its bytes, arguments of `load`, and the suffix and bytes of a mesh beside it, if it has one."""

    data: bytes
    options: dict[str, Any]
    mesh: tuple[str, bytes] | None = None
    kind: str = ""


def texts_below(folder: Path | None, suffix: str) -> list[str]:
    """Files of a folder that are not too long to spoil many times."""
    files = sorted(folder.rglob(f"*{suffix}")) if folder is not None else []
    return [text for text in (file.read_text(encoding="utf-8") for file in files) if len(text) < 20_000]


def spoilt_files(seeds: tuple[str, ...], dialect: Dialect, suffix: str, options_of: Options) -> Callable[..., Any]:
    """Built-in texts, some of them twice, and those of a folder, as `run` draws from them."""

    def start(folder: Path | None) -> Callable[[random.Random], Draw]:
        texts = (*seeds, *texts_below(folder, suffix))
        return lambda rng: Draw(mutated(rng, texts, dialect), options_of(rng))

    return start


def run(doc: str, start: Callable[[Path | None], Callable[[random.Random], Draw]], suffix: str) -> int:
    """Run, and tell how many files did what; `start` is given a folder of more files to spoil, or None."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000, help="files (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first file (default: %(default)s)")
    parser.add_argument("--robots", type=Path, help="folder of files to spoil besides the built-in ones")
    parser.add_argument(
        "--keep", type=Path, default=Path("fuzz-failures"), help="where failures go (default: %(default)s)"
    )
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    draw, outcomes, failures, slowest = start(arguments.robots), Counter[str](), 0, 0.0
    arguments.keep.mkdir(parents=True, exist_ok=True)

    def keep(name: object, drawn: Draw) -> None:
        (arguments.keep / f"{name}{suffix}").write_bytes(drawn.data)
        if drawn.mesh is not None:
            (arguments.keep / f"{name}{drawn.mesh[0]}").write_bytes(drawn.mesh[1])

    def counts() -> str:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
        return f"{told}; {failures} failures; slowest {slowest:.2f} s; {memory:.0f} MB at most"

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as directory, Progress(*columns) as progress:
        task = progress.add_task("0 failures", total=arguments.count)
        for seed in range(arguments.seed, arguments.seed + arguments.count):
            rng = random.Random(seed)
            drawn = draw(rng)
            keep("last", drawn)  # what a crash of the process was about
            if drawn.mesh is not None:
                Path(directory, f"mesh{drawn.mesh[0]}").write_bytes(drawn.mesh[1])
            path = Path(directory, f"robot{suffix}") if drawn.mesh is not None or rng.random() < 0.2 else None
            started = time.process_time()
            outcome, wrong = fault_of(drawn.data, drawn.options, path)
            slowest = max(slowest, time.process_time() - started)
            outcomes[f"{drawn.kind} {outcome}".strip()] += 1
            if wrong is not None:
                failures += 1
                keep(seed, drawn)
                progress.console.print(f"seed {seed}, {drawn.options}: {wrong}", markup=False)
            progress.update(task, advance=1, description=f"{failures} failures")
            if outcomes.total() % 5000 == 0:
                progress.console.print(f"seeds {arguments.seed} to {seed}: {counts()}")
    for left in arguments.keep.glob("last*"):
        left.unlink()
    print(counts())
    return 1 if failures else 0
