"""Every public function, single and in batches, beside every peer that has it. `make bench` runs it.

    python -m benchmarks.functions --robots Panda --only jacobian pose

Times are µs of one call, or of one sample of a batch. Ratios say how many times as long the peer takes for one call.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks import loops, numbers, robots
from benchmarks.foundation import micro
from benchmarks.functions import dynibo_peer, mujoco_peer, pinocchio_peer
from benchmarks.functions.cases import MODELS, OTHERS, STATES, TASKS, Case
from benchmarks.functions.generated import generated
from benchmarks.functions.scene import Scene
from benchmarks.peers import mujoco_peer as mujoco_coordinates
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core, race
from kinetree.runtime.threads import set_threads

BATCH, POOL = 1024, 64
PEERS = ("Pinocchio", "MuJoCo", "dynibo")
SECTIONS: Mapping[str, tuple[str, Mapping[str, Case]]] = {
    "states": ("", STATES),
    "tasks": ("tasks.", TASKS),
    "others": ("", OTHERS),
    "models": ("", MODELS),
}
#: Robots of the page; the last has loops, and no counterpart in other libraries.
NAMES = (*robots.NAMES, "geared biped")


def scene(name: str) -> Scene:
    """A robot by name."""
    if name == "geared biped":
        return Scene(name, loops.biped(), None)
    twin = robots.load(name)
    return Scene(name, twin.model, twin)


def table(name: str, seconds: float, only: list[str], compiled: bool = True) -> Table:
    """All functions of one robot.

    Args:
        name: Of the robot.
        seconds: How long to go on for each contender.
        only: Parts of names of functions; everything if empty.
        compiled: Whether CasADi's C is timed as well.
    """
    made = scene(name)
    made_by = _peers(made)
    found = Table(
        f"{name}: nv {made.model.nv}, {len(made.model.bodies)} bodies",
        ["function", "single", *PEERS, "CasADi's C", f"of {BATCH}, out=", "without out=", "best peer"],
    )
    for prefix, cases in SECTIONS.values():
        for short, case in cases.items():
            label = prefix + short
            if not only or any(part in label for part in only):
                found.add(label, *_row(made, made_by, label, case, seconds, compiled))
    return found


def _peers(scene: Scene) -> dict[str, tuple[Mapping[str, Any], Callable[..., list[tuple[Any, ...]]]]]:
    """Calls of each peer, and what turns samples into its coordinates."""
    if scene.twin is None:
        return {}
    robot, bodies = scene.twin, mujoco_coordinates(scene.twin)
    order = robot.order

    def converted(q: Callable[..., Any], v: Callable[..., Any], _name: str, letters: str, pool: Any) -> Any:
        turn: dict[str, Callable[..., Any]] = {"q": q, "p": q, "n": q, "t": np.array, "f": v}
        return [tuple(np.ascontiguousarray(turn.get(k, v)(x)) for k, x in zip(letters, each)) for each in pool]

    return {
        "Pinocchio": (pinocchio_peer.calls(robot), partial(converted, order.to_q, order.to_v)),
        "MuJoCo": (mujoco_peer.calls(robot), partial(converted, bodies.q, bodies.v)),
        "dynibo": (dynibo_peer.calls(robot), partial(dynibo_peer.samples, robot)),
    }


def _row(
    scene: Scene, peers: Mapping[str, Any], name: str, case: Case, seconds: float, compiled: bool
) -> tuple[str, ...]:
    call, rest, pool = case.call(scene), case.rest(scene), scene.samples(case.arrays, POOL)
    contenders: dict[str, Any] = {"Kinetree": (call, [(*sample, *rest) for sample in pool])}
    for peer, (theirs, convert) in peers.items():
        if name in theirs:
            contenders[peer] = (theirs[name], convert(name, case.arrays, pool))
    single = race(contenders, seconds)
    own = single["Kinetree"]
    c = generated(scene.model, name, pool[0], rest) if compiled and scene.twin is not None else None
    cells = [micro(own), *(f"{single[p] / own:.2f}×" if p in single else "" for p in PEERS)]
    cells.append(f"{c / own:.2f}×" if c else "")
    if not case.batch:
        return (*cells, "", "", "")
    arrays = (*scene.states(case.arrays, BATCH), *rest)
    batches: dict[str, Any] = {"fresh": (call, [arrays])}
    if case.out:
        home = call(*arrays)
        batches["out"] = (partial(call, out=home), [arrays])
    batch = {kind: time / BATCH for kind, time in race(batches, seconds).items()}
    best = min((single[p] for p in PEERS if p in single), default=0.0)
    least = min(batch.values())
    return (
        *cells,
        micro(batch["out"]) if case.out else "",
        f"{batch['fresh'] / batch['out']:.2f}×" if case.out else micro(batch["fresh"]),
        f"{best / least:.1f}×" if best else "",
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help=f"write the tables into {numbers.FUNCTIONS_PAGE.name}")
    parser.add_argument("--seconds", type=float, default=0.05, help="for each contender (default: %(default)s)")
    parser.add_argument("--robots", nargs="*", default=list(NAMES))
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of functions; all if empty")
    parser.add_argument("--no-casadi", action="store_true", help="do not generate and compile CasADi's C")
    options = parser.parse_args()
    set_threads(1)
    pin_to_one_core()
    tables = []
    for name in options.robots:
        tables.append(table(name, options.seconds, options.only, not options.no_casadi))
        Console(width=150).print(tables[-1].rich())
    if options.update and not options.only:
        numbers.write(numbers.FUNCTIONS_PAGE, "functions", "\n\n".join(made.markdown() for made in tables))


if __name__ == "__main__":
    main()
