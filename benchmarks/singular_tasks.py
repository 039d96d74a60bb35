"""Time of Λ of singular tasks on Talos, in single calls and in batches. `make bench`, or as a module.

The base and up to three limbs are tasks, so a stretched leg is singular. Knees are bent by angles θ at which the small
eigenvalues of Λ⁻¹ are clearly zero, or close to the edge below which they count as singular. The peer is NumPy's
`pinv`, given Λ⁻¹.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from rich.console import Console

import kinetree as kt
from benchmarks import numbers, robots
from benchmarks.contests import BATCH, POOL
from benchmarks.foundation import WIDTH, micro, ratio
from benchmarks.robots import Array
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core, processor, race
from kinetree.runtime.threads import set_threads
from kinetree.tasks.singular import CUT

BASE, LEFT, RIGHT, HAND, ELBOW = (
    f"{name} BODY"
    for name in ("base_link", "left_sole_link", "right_sole_link", "gripper_left_base_link", "arm_left_4_link")
)
KNEES = ("leg_left_4_joint", "leg_right_4_joint")
#: Tasks and the angle of the knees [rad]; None for random ones.
CASES: tuple[tuple[str, list[str], float | None], ...] = (
    ("stretched", [BASE, LEFT], 0.0),
    ("close to the edge, θ = 10⁻³", [BASE, LEFT], 1e-3),
    ("stretched", [BASE, LEFT, RIGHT, HAND], 0.0),
    ("close to the edge, θ = 10⁻³", [BASE, LEFT, RIGHT, HAND], 1e-3),
    ("close to the edge, θ = 10⁻⁵", [BASE, LEFT, RIGHT, HAND], 1e-5),
    ("in every configuration", [ELBOW, LEFT, RIGHT, HAND], None),
    ("in every configuration, and close to the edge", [BASE, LEFT, ELBOW, HAND], 1e-3),
)


def table(seconds: float) -> Table:
    """All cases: single calls and a sample of a batch."""
    robot = robots.load("Talos").model
    made = Table(
        f"Λ of singular tasks of {robot.name or 'Talos'}",
        ["singular", "m", "single", "pinv", f"of {BATCH}"],
    )
    regular = robots.state_pool(robot, POOL)[0]
    whole = robots.state_pool(robot, BATCH)[0]
    for case, frames, bend in CASES:
        tasks = robot.tasks(frames)
        pool, batch = (_bent(robot, q, bend) for q in (regular, whole))
        home, A = np.empty((BATCH, 6 * len(frames), 6 * len(frames))), tasks.inverse_inertia(pool)
        times = race(
            {
                "Kinetree": (tasks.inertia, [(q,) for q in map(np.array, pool)]),
                "pinv": (_pseudo_inverse, [(one,) for one in A]),
                "batch": (lambda q, tasks=tasks, home=home: tasks.inertia(q, out=home), [(batch,)]),
            },
            seconds,
        )
        made.add(case, str(len(frames)), micro(times["Kinetree"]), ratio(times, "pinv"), micro(times["batch"] / BATCH))
    return made


def _pseudo_inverse(A: Array) -> Any:
    return np.linalg.pinv(A, rcond=CUT, hermitian=True)


def _bent(robot: kt.Model, q: Array, angle: float | None) -> Array:
    """Configurations with both knees at an angle."""
    if angle is None:
        return q
    bent, names = np.array(q), [joint.name for joint in robot.joints]
    for knee in KNEES:
        # joints after the floating one have one coordinate each; it has seven
        bent[:, names.index(knee) + 6] = angle
    return bent


def main() -> None:
    """Run the benchmark and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.3, help="time for each contender (default: %(default)s)")
    parser.add_argument("--update", action="store_true", help="write the table into docs/performance.md")
    options = parser.parse_args()
    set_threads(1)
    core = pin_to_one_core()
    console = Console()
    console.width = max(console.width, WIDTH)
    console.print(f"{processor()}, core {core}")
    made = table(options.seconds)
    console.print(made.rich())
    if options.update:
        numbers.write(numbers.PERFORMANCE, "singular tasks", made.markdown())


if __name__ == "__main__":
    main()
