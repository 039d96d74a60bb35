"""How long a robot's file takes to become a model, against Pinocchio's and MuJoCo's readers of the same file.

    python -m benchmarks.loading         # every URDF

All read the file from its path, which is in the page cache. Kinetree also looks for mistakes: elements and attributes
that it does not read, unphysical inertias. It assembles the nodes of its recursions when they are first needed, which
has a column of its own. Pinocchio also reads shapes and materials. MJCF is compiled by
MuJoCo for Kinetree, too, after a check. Pinocchio's wheel reads no SDF, so it reads the URDF of the same robot.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import mujoco
import pinocchio as pin

import kinetree as kt
from benchmarks import robots
from benchmarks.sdf import sdf
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
#: Robots of `FILES` that are saved in other formats; MuJoCo refuses inertias of most others.
_SAVED = ("Panda", "G1")

_XACRO = (
    """<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:property name="mass" value="${2 * 1.5}"/>
  <xacro:macro name="segment" params="number">
    <link name="l${number}">
      <inertial><mass value="${mass}"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>
    </link>
    <joint name="j${number}" type="continuous">
      <parent link="l${number - 1}"/><child link="l${number}"/><origin xyz="0 0 ${mass / 10}"/><axis xyz="1 0 0"/>
    </joint>
  </xacro:macro>
  <link name="l0"/>
"""
    + "".join(f'  <xacro:segment number="{number}"/>\n' for number in range(1, 13))
    + "</robot>\n"
)


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


def formats(seconds: float) -> Table:
    """Times of `kinetree.load` for other formats, each against the reader that there is.

    Args:
        seconds: How long to go on for each contender.
    """
    found = Table("Loading other formats", ["file", "links", "kB", "Kinetree", "with nodes", "peer", "", "peer takes"])
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        for name in _SAVED:
            urdf = str(robots.share() / FILES[name])
            robot = kt.load(urdf, mimic="independent")
            path = Path(folder, f"{name}.sdf")
            path.write_text(sdf(robot))
            read = partial(kt.load, path), partial(pin.buildModelFromUrdf, urdf)
            _add_format(found, f"{name}, SDF", path, "Pinocchio, URDF", *read, seconds)
            path = Path(folder, f"{name}.xml")
            path.write_text(kt.to_mjcf(robot))
            read = partial(kt.load, path), partial(mujoco.MjModel.from_xml_path, str(path))
            _add_format(found, f"{name}, MJCF", path, "MuJoCo", *read, seconds)
        path = Path(folder, "arm.urdf.xacro")
        path.write_text(_XACRO)
        read = partial(kt.load, path, xacro={}), partial(_expanded, path)
        _add_format(found, "arm, xacro", path, "xacro, then Pinocchio", *read, seconds, time.perf_counter)
    return found


def _expanded(path: Path) -> object:
    """What one does without Kinetree: expand the file in a process, and read what it prints."""
    command = [sys.executable, "-c", "import xacro; xacro.main()", str(path)]
    return pin.buildModelFromXML(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _add_format(
    found: Table,
    name: str,
    path: Path,
    peer: str,
    own: Callable[[], kt.Model],
    other: Callable[[], object],
    seconds: float,
    clock: Callable[[], float] = time.thread_time,
) -> None:
    """Add the row of a file; processor times, except where another process does the work."""
    contenders = {"Kinetree": own, "with nodes": lambda: own().mechanism, "peer": other}
    links = len(own().bodies)
    times = dict.fromkeys(contenders, math.inf)
    start = clock()
    while clock() < start + seconds * len(contenders):
        for contender, load in contenders.items():
            load()
            began = clock()
            load()
            times[contender] = min(times[contender], clock() - began)
    mine, nodes, theirs = (f"{least * 1e3:.2f} ms" for least in times.values())
    size = f"{path.stat().st_size / 1e3:.0f}"
    found.add(name, str(links), size, mine, nodes, peer, theirs, f"{times['peer'] / times['Kinetree']:.2f}×")


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
                load(str(path))  # the others have filled the caches meanwhile
                times[contender] = min(times[contender], *[_seconds(load, str(path)) for _ in range(3)])
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
    print(formats(1.0).markdown())
    print(f"{len(each)} robots: geometric mean {_mean(each):.2f}×, worst {min(each):.2f}×")
