"""Batches whose results are new arrays, in the time of the same batches with `out=`, at several sizes.

    python -m benchmarks.functions.fresh --robots Panda --only jacobian pose

Part of `make bench`. Results beyond a gibibyte are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks import numbers
from benchmarks.functions.__main__ import NAMES, scene
from benchmarks.functions.cases import STATES, TASKS, Case
from benchmarks.functions.scene import Scene
from benchmarks.robots import Array
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core, race
from kinetree.runtime.threads import set_threads

SIZES = (2, 8, 64, 1024, 16384)
#: Most bytes of results, and samples that are drawn; longer batches repeat them.
LARGEST, DRAWN = 1 << 30, 1024
SECTIONS: Mapping[str, Mapping[str, Case]] = {"": STATES, "tasks.": TASKS}


def table(name: str, seconds: float, only: list[str]) -> Table:
    """All functions of one robot that take batches and `out=`.

    Args:
        name: Of the robot.
        seconds: How long to go on for each contender.
        only: Parts of names of functions; everything if empty.
    """
    made = scene(name)
    found = Table(f"{name}: without out=, in times with out=", ["function", *(f"of {size}" for size in SIZES)])
    for prefix, cases in SECTIONS.items():
        for short, case in cases.items():
            label = prefix + short
            if case.batch and case.out and (not only or any(part in label for part in only)):
                found.add(label, *(_ratio(made, case, size, seconds) for size in SIZES))
    return found


def _ratio(scene: Scene, case: Case, size: int, seconds: float) -> str:
    call, rest = case.call(scene), case.rest(scene)
    drawn = scene.states(case.arrays, DRAWN)
    if size * _bytes(call(*(array[:1] for array in drawn), *rest)) > LARGEST:
        return ""
    arrays = (*(_repeated(array, size) for array in drawn), *rest)
    home = call(*arrays)
    seconds *= 1 + size // DRAWN / 4  # few calls fit otherwise
    times = race({"fresh": (call, [arrays] * 64), "out": (partial(call, out=home), [arrays] * 64)}, seconds)
    return f"{times['fresh'] / times['out']:.2f}×"


def _repeated(array: Array, size: int) -> Array:
    """A batch of a size from a pool of samples."""
    repeats = -(-size // len(array))
    return np.ascontiguousarray(np.concatenate([array] * repeats)[:size])


def _bytes(results: Any) -> int:
    return sum(part.nbytes for part in (results if isinstance(results, tuple) else (results,)))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help=f"write the tables into {numbers.FUNCTIONS_PAGE.name}")
    parser.add_argument("--seconds", type=float, default=0.06, help="for each contender (default: %(default)s)")
    parser.add_argument("--robots", nargs="*", default=list(NAMES))
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of functions; all if empty")
    options = parser.parse_args()
    set_threads(1)
    pin_to_one_core()
    tables = []
    for name in options.robots:
        tables.append(table(name, options.seconds, options.only))
        Console(width=100).print(tables[-1].rich())
    if options.update and not options.only:
        numbers.write(numbers.FUNCTIONS_PAGE, "fresh", "\n\n".join(made.markdown() for made in tables))


if __name__ == "__main__":
    main()
