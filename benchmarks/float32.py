"""Batches in float32 against the same batches in float64: speed, and how far the results are apart.

Part of `make bench`; alone: `python -m benchmarks.float32`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console

import kinetree as kt
from benchmarks import robots
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core, race
from kinetree.runtime.threads import set_threads

BATCH = 1024

#: How each function is called on q, v and a third array, and the arrays that it takes.
FUNCTIONS: dict[str, tuple[Callable[[kt.Model], Callable[..., Any]], str]] = {
    "inverse dynamics": (lambda robot: robot.inverse_dynamics, "qvx"),
    "forward dynamics": (lambda robot: robot.forward_dynamics, "qvx"),
    "mass matrix": (lambda robot: robot.mass_matrix, "q"),
    "mass matrix inverse": (lambda robot: robot.mass_matrix_inverse, "q"),
    "linearize, a=…": (lambda robot: robot.inverse_dynamics_derivatives, "qvx"),
    "linearize, tau=…": (lambda robot: robot.forward_dynamics_derivatives, "qvx"),
}


def table(seconds: float) -> Table:
    """A sample of a batch in both types, and the largest error of float32 relative to the largest entry.

    Args:
        seconds: How long to go on for each contender.
    """
    made = Table(
        f"float32: a sample of a batch of {BATCH}", ["robot", "function", "float64", "float32", "float64", "error"]
    )
    for name in robots.NAMES:
        double = robots.load(name).model
        single = double.astype("float32")
        states = dict(zip("qvx", (array.astype(np.float32) for array in robots.state_pool(double, BATCH))))
        for function, (method, letters) in FUNCTIONS.items():
            narrow = [states[letter] for letter in letters]
            wide = [array.astype(np.float64) for array in narrow]
            exact, found = method(double)(*wide), method(single)(*narrow)
            times = race(
                {
                    "float64": (partial(method(double), out=exact), [tuple(wide)]),
                    "float32": (partial(method(single), out=found), [tuple(narrow)]),
                },
                seconds,
            )
            made.add(
                f"{name}, nv {double.nv}",
                function,
                *(f"{times[one] / BATCH * 1e6:.3g} µs" for one in ("float64", "float32")),
                f"{times['float64'] / times['float32']:.2f}×",
                f"{_error(found, exact):.0e}",
            )
    return made


def _error(found: Any, exact: Any) -> float:
    """The largest error of any result, relative to the largest entry of that result."""
    pairs = zip(found, exact) if isinstance(exact, tuple) else [(found, exact)]
    return max(float(np.max(np.abs(one - other)) / np.max(np.abs(other))) for one, other in pairs)


if __name__ == "__main__":
    set_threads(1)
    pin_to_one_core()
    Console(width=110).print(table(0.3).rich())
