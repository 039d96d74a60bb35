"""How long a robot's file takes to become a model, against Pinocchio's reader of the same file.

    python -m benchmarks.loading         # every file

Both read the file from its path, which is in the page cache. Kinetree also looks for mistakes: elements and attributes
that it does not read, unphysical inertias. It makes bodies and joints, and assembles the nodes of its recursions, when
they are first needed, which has a column of its own. Pinocchio also reads shapes and materials.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pinocchio as pin

import kinetree as kt
from benchmarks import robots
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core
from kinetree.errors import ModelWarning

#: Files below `robots.share()`.
FILES = {
    "Panda": "panda_description/urdf/panda.urdf",
    "ANYmal": "anymal_c_simple_description/urdf/anymal.urdf",
    "G1": "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "Talos": "talos_data/robots/talos_reduced.urdf",
    "Talos, all joints": "talos_data/robots/talos_full_v2.urdf",
    "TIAGo, two arms": "tiago_description/robots/tiago_dual.urdf",
}
_COLUMNS = ["robot", "links", "kB", "Kinetree", "with nodes", "Pinocchio", "Pinocchio takes"]


def table(seconds: float) -> Table:
    """Times of `kinetree.load` and `pinocchio.buildModelFromUrdf`, from the path to the model.

    Args:
        seconds: How long to go on for each contender.
    """
    found = Table("Loading a URDF", _COLUMNS)
    for name, file in FILES.items():
        _add(found, name, robots.share() / file, seconds)
    _, ratios = _every(0.05)
    found.add(f"{len(ratios)} robots, geometric mean", "", "", "", "", "", f"{_mean(ratios):.2f}×")
    found.add("the worst of them", "", "", "", "", "", f"{min(ratios):.2f}×")
    return found


def _every(seconds: float) -> tuple[Table, list[float]]:
    """The same for every file of the collection, best first, and how much longer Pinocchio takes for each."""
    found = Table("Loading every URDF", _COLUMNS)
    ratios = [_add(found, str(file.relative_to(robots.share())), file, seconds) for file in _readable()]
    found.rows.sort(key=lambda row: -float(row[-1].rstrip("×")))
    return found, ratios


def _mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _readable() -> list[Path]:
    """Every file of the collection that Pinocchio can read."""
    found = []
    for file in sorted(robots.share().rglob("*.urdf")):
        try:
            pin.buildModelFromUrdf(str(file))
        except ValueError:  # a robot without a name
            continue
        found.append(file)
    return found


def _add(found: Table, name: str, path: Path, seconds: float) -> float:
    """Add the row of a file, and return how much longer Pinocchio takes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        links = len(kt.load(path).bodies)
        contenders: dict[str, Callable[[str], object]] = {
            "Kinetree": kt.load,
            "with nodes": lambda file: kt.load(file).mechanism,
            "Pinocchio": pin.buildModelFromUrdf,
        }
        times = dict.fromkeys(contenders, math.inf)
        start = time.thread_time()
        while time.thread_time() < start + seconds * len(contenders):
            for contender, load in contenders.items():
                times[contender] = min(times[contender], _seconds(load, str(path)))
    ratio = times["Pinocchio"] / times["Kinetree"]
    shown = [f"{least * 1e3:.2f} ms" for least in times.values()]
    found.add(name, str(links), f"{path.stat().st_size / 1e3:.0f}", *shown, f"{ratio:.2f}×")
    return ratio


def _seconds(load: Callable[[str], object], path: str) -> float:
    """Processor time of one call: it takes so long that other processes may interrupt it."""
    start = time.thread_time()
    load(path)
    return time.thread_time() - start


if __name__ == "__main__":
    pin_to_one_core()
    listed, each = _every(0.2)
    print(listed.markdown())
    print(f"{len(each)} robots: geometric mean {_mean(each):.2f}×, worst {min(each):.2f}×")
