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
from typing import Any

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
    """Load some bytes.

    Args:
        data: Of the file.
        options: Of `load`.
        path: Where to write them first; else `load` gets the bytes.

    Returns:
        The kind of outcome, and what is wrong with it, if anything.
    """
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


def run(
    doc: str, seeds: Callable[[Path | None], tuple[str, ...]], dialect: Dialect, suffix: str, options_of: Options
) -> int:
    """Run, and tell how many files did what.

    Args:
        doc: What the command says of itself.
        seeds: Texts to spoil: those that are built in, and those of a folder, if one is given.
        dialect: Their format.
        suffix: Of their names.
        options_of: Arguments of `load`.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000, help="files (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first file (default: %(default)s)")
    parser.add_argument("--robots", type=Path, help="folder of files to spoil besides the built-in ones")
    parser.add_argument(
        "--keep", type=Path, default=Path("fuzz-failures"), help="where failures go (default: %(default)s)"
    )
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    texts = seeds(arguments.robots)
    outcomes: Counter[str] = Counter()
    arguments.keep.mkdir(parents=True, exist_ok=True)
    last = arguments.keep / f"last{suffix}"  # what a crash of the process was about
    failures, slowest = 0, 0.0

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
            data, options = mutated(rng, texts, dialect), options_of(rng)
            last.write_bytes(data)
            start = time.process_time()
            outcome, wrong = fault_of(data, options, Path(directory, f"robot{suffix}") if rng.random() < 0.2 else None)
            slowest = max(slowest, time.process_time() - start)
            outcomes[outcome] += 1
            if wrong is not None:
                failures += 1
                (arguments.keep / f"{seed}{suffix}").write_bytes(data)
                progress.console.print(f"seed {seed}, {options}: {wrong}", markup=False)
            progress.update(task, advance=1, description=f"{failures} failures")
            if outcomes.total() % 5000 == 0:
                progress.console.print(f"seeds {arguments.seed} to {seed}: {counts()}")
    last.unlink(missing_ok=True)
    print(counts())
    return 1 if failures else 0
