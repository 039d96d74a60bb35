"""Loads spoilt files: each must give a model or a `LoadError`, soon and in bounded memory.

    python -m tests.fuzz.urdf --count 100000

A file that does not is written to the directory of --keep.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import kinetree as kt
from kinetree.errors import LoadError, ModelWarning
from tests.fuzz.mutations import ROBOT, mutated

#: Longest time that loading may take, of the processor: others may be busy on it too [s].
PATIENCE = 2.0
#: Address space that the process may use [bytes].
MEMORY = 4 * 2**30


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
    if seconds > PATIENCE:
        wrong = f"took {seconds:.1f} s"
    return outcome, wrong


def options_of(rng: random.Random) -> dict[str, Any]:
    """Arguments of `load` that no file makes wrong."""
    return {"floating_base": rng.random() < 0.3, "mimic": rng.choice(("independent", "lock"))}


def seeds(folder: Path | None) -> tuple[str, ...]:
    """The built-in robot, and the URDFs below a folder that are not too long to spoil many times."""
    files = sorted(folder.rglob("*.urdf")) if folder is not None else []
    return (
        ROBOT,
        ROBOT,
        *(text for text in (file.read_text(encoding="utf-8") for file in files) if len(text) < 20_000),
    )


def main() -> int:
    """Run, and tell how many files did what."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000, help="files (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first file (default: %(default)s)")
    parser.add_argument("--robots", type=Path, help="folder of URDFs to spoil besides the built-in one")
    parser.add_argument(
        "--keep", type=Path, default=Path("fuzz-failures"), help="where failures go (default: %(default)s)"
    )
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    texts = seeds(arguments.robots)
    outcomes: Counter[str] = Counter()
    failures, slowest = 0, 0.0
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as directory, Progress(*columns) as progress:
        task = progress.add_task("0 failures", total=arguments.count)
        for seed in range(arguments.seed, arguments.seed + arguments.count):
            rng = random.Random(seed)
            data, options = mutated(rng, texts), options_of(rng)
            start = time.process_time()
            outcome, wrong = fault_of(data, options, Path(directory, "robot.urdf") if rng.random() < 0.2 else None)
            slowest = max(slowest, time.process_time() - start)
            outcomes[outcome] += 1
            if wrong is not None:
                failures += 1
                arguments.keep.mkdir(parents=True, exist_ok=True)
                (arguments.keep / f"{seed}.urdf").write_bytes(data)
                progress.console.print(f"seed {seed}, {options}: {wrong}", markup=False)
            progress.update(task, advance=1, description=f"{failures} failures")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    print(f"{counts}; {failures} failures; slowest {slowest:.2f} s; {memory:.0f} MB at most")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
