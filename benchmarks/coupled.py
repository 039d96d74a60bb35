"""Functions of a Panda whose fingers are coupled, against the same arm with independent fingers."""

from __future__ import annotations

import warnings
from operator import attrgetter
from typing import Any

import numpy as np

import kinetree as kt
from benchmarks import loading, robots
from benchmarks.table import Table
from benchmarks.timing import race
from kinetree.errors import ModelWarning

BATCH = 1024
POOL = 64
#: Functions, and which arguments they take: of q, v, a, weights and a direction.
FUNCTIONS = {
    "forward_dynamics": "qva",
    "mass_matrix": "q",
    "coriolis_matrix": "qv",
    "regressor": "qva",
    "inverse_dynamics_derivatives": "qva",
    "forward_dynamics_derivatives": "qva",
    "inverse_dynamics.vjp": "qvaw",
    "forward_dynamics.vjp": "qvaw",
    "inverse_dynamics.hvp": "qvawd",
    "forward_dynamics.hvp": "qvawd",
}


def table(seconds: float) -> Table:
    """A single call, and a sample of a batch."""
    found = Table(
        "Panda: coupled fingers over independent ones",
        ["function", "coupled", "over independent", f"of {BATCH}", "over independent"],
    )
    path = robots.share() / loading.FILES["Panda"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        models = {how: kt.load(path, mimic=how) for how in ("couple", "independent")}
    for name, letters in FUNCTIONS.items():
        contenders: dict[str, Any] = {}
        for how, robot in models.items():
            function = attrgetter(name)(robot)
            contenders[how] = function, [_arguments(robot, letters, i, ()) for i in range(POOL)]
            contenders[f"{how}, many"] = function, [_arguments(robot, letters, 0, (BATCH,))]
        times = race(contenders, seconds)
        single, batch = times["couple"], times["couple, many"] / BATCH
        found.add(
            name,
            f"{single * 1e6:.2f} µs",
            f"{single / times['independent']:.2f}",
            f"{batch * 1e6:.3f} µs",
            f"{times['couple, many'] / times['independent, many']:.2f}",
        )
    return found


def _arguments(robot: kt.Model, letters: str, seed: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    q = robot.random_configuration(rng, shape)
    v, a, w, *direction = rng.uniform(-1.0, 1.0, (6, *shape, robot.nv))
    given = {"q": (q,), "v": (v,), "a": (a,), "w": (w,), "d": tuple(direction)}
    return tuple(array for letter in letters for array in given[letter])
