"""How operations and times for Λ⁻¹ grow with bodies, tasks and depth: pictures in docs/images, slopes on the screen.

    python -m benchmarks.growth [--operations-only]

One of bodies N, tasks m (of six rows) and depth d grows, the others stay. Slopes are those of the last doubling in the
log-log picture, after what does not depend on the tasks (the passes `place` and `inertias`, which grow with N alone) is
taken off: they tell the order of what each algorithm does for its tasks.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import kinetree as kt
from benchmarks.timing import pin_to_one_core, race
from kinetree.algorithms.methods import ALGORITHMS, inverse_inertia
from kinetree.compiler.count import count_passes
from kinetree.language.common_frame import in_common_frame
from kinetree.language.mechanism import Site
from kinetree.runtime.kernels import bind

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
#: Cost of the part that depends on tasks, as published, and its order in N, m and d.
CLAIMS = {
    "definition": "n³ + n²m + nm²",
    "chang_khatib": "nm (+ m³ for Λ)",
    "rjk": "d m²",
    "efpa": "m d + m²",
    "sparse_factorization": "n d² + m d² + m² d",
    "pv_osim": "m² d",
    "pv_osim_r": "n + m²",
    "efpa_segments": "n + m²",
}
#: Methods that are cubic somewhere stop here.
MOST_DENSE = 64


@dataclass(frozen=True)
class Family:
    """Mechanisms of which one number grows.

    Attributes:
        title: What it shows.
        axis: The number that grows.
        sizes: Its values.
        make: From a value, bodies of the stem, of each limb, number of limbs, and number of limbs with a task.
    """

    title: str
    axis: str
    sizes: tuple[int, ...]
    make: Callable[[int], tuple[int, int, int, int]]


FAMILIES = {
    "bodies": Family("N bodies: N/8 limbs of 8, 4 of them with a task", "N", (32, 64, 128, 256, 512),
                     lambda n: (1, 8, n // 8, 4)),
    "tasks": Family("m tasks: a stem of 16, m limbs of 4 with a task each", "m", (1, 2, 4, 8, 16, 32),
                    lambda m: (16, 4, m, m)),
    "depth": Family("depth d: a stem of d, 8 limbs of 4 with a task each", "d", (8, 16, 32, 64, 128),
                    lambda d: (d, 4, 8, 8)),
}  # fmt: skip


def comb(stem: int, limb: int, limbs: int, tasks: int) -> tuple[kt.Model, tuple[Site, ...]]:
    """A stem from the world, and limbs on its end; revolute joints with turned axes."""
    builder = kt.Builder("comb")
    rng = np.random.default_rng(1)

    def chain(name: str, parent: str, count: int) -> str:
        for i in range(count):
            axis = rng.standard_normal(3)
            body: dict[str, Any] = {"mass": 1.0, "com": (0.05, 0.0, 0.0), "inertia": np.eye(3) / 50}
            builder.add_body(f"{name}{i}", parent=parent, axis=axis, placement=(np.eye(3), (0.1, 0.02, 0.0)), **body)
            parent = f"{name}{i}"
        return parent

    end = chain("stem", "world", stem)
    tips = [chain(f"limb{i}_", end, limb) for i in range(limbs)]
    robot = builder.build()
    return robot, tuple(robot.site(tip) for tip in tips[:tasks])


def measure(family: Family, timed: bool) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """By method: operations, operations for the tasks alone, and time per sample of a batch, over sizes."""
    found: dict[str, dict[str, list[tuple[int, float]]]] = {
        m: {"operations": [], "tasks": [], "time": []} for m in ALGORITHMS
    }
    for size in family.sizes:
        robot, sites = comb(*family.make(size))
        methods = [m for m in ALGORITHMS if m != "definition" or robot.nv <= 3 * MOST_DENSE]
        contenders = {}
        q = robot.random_configuration(np.random.default_rng(2), (64,))
        for method in methods:
            algorithm = in_common_frame(inverse_inertia(method, "local"))
            passes = {name: part.total for name, part in count_passes(algorithm, robot.mechanism, sites).items()}
            found[method]["operations"].append((size, float(sum(passes.values()))))
            found[method]["tasks"].append((size, float(sum(passes.values()) - passes["place"] - passes["inertias"])))
            if timed:
                function = bind(algorithm, robot.mechanism, sites, method)
                contenders[method] = (function, [(q,)])
        for method, seconds in race(contenders, 0.15).items() if timed else ():
            found[method]["time"].append((size, seconds / len(q) * 1e6))
        print(f"{family.axis} = {size}", flush=True)
    return found


def slope(points: list[tuple[int, float]]) -> float:
    """Of the last two points in a log-log picture."""
    (x0, y0), (x1, y1) = points[-2:]
    return math.log(y1 / y0) / math.log(x1 / x0)


def draw(name: str, family: Family, found: dict[str, dict[str, list[tuple[int, float]]]]) -> None:
    """Operations and times, log-log."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    kinds = {"operations": "operations", "tasks": "operations for the tasks", "time": "time per sample [µs]"}
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    figure.suptitle(family.title, fontsize=11)
    for axes, (kind, label) in zip(figure.subplots(1, 3), kinds.items(), strict=True):
        for i, method in enumerate(ALGORITHMS):
            points = [(x, y) for x, y in found[method][kind] if y > 0]
            if points:
                style = {"marker": "os^vDPX*"[i], "markersize": 4, "linewidth": 1.2, "color": colormaps["tab10"](i)}
                axes.loglog(*zip(*points, strict=True), label=f"{method}: {CLAIMS[method]}", **style)
        axes.set_xlabel(family.axis)
        axes.set_xticks(family.sizes, [str(size) for size in family.sizes])
        axes.minorticks_off()
        axes.set_title(label, fontsize=10)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8, title="for the tasks, as claimed")
    figure.savefig(IMAGES / f"operational_space_growth_{name}.png", dpi=110)


def main() -> None:
    """Measure and draw all families."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--operations-only", action="store_true", help="count, but do not time")
    timed = not parser.parse_args().operations_only
    pin_to_one_core()
    kt.set_threads(1)
    IMAGES.mkdir(exist_ok=True)
    for name, family in FAMILIES.items():
        print(f"\n{family.title}")
        found = measure(family, timed)
        draw(name, family, found)
        for method, kinds in found.items():
            slopes = {
                kind: f"{slope(points):.2f}" for kind, points in kinds.items() if len(points) > 1 and points[-2][1] > 0
            }
            print(f"  {method:22}{slopes}   claimed {CLAIMS[method]}")


if __name__ == "__main__":
    main()
