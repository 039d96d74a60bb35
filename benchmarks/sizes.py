"""How the time to build a tree, and the time of a call, grow with the number of bodies."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import kinetree as kt
from benchmarks.table import Table
from benchmarks.timing import race

SIZES = (100, 1000, 10_000, 100_000)
#: Samples of a batch.
BATCH = 16
#: The number of the parent of body i, by the shape of the tree.
SHAPES: dict[str, Callable[[int], int]] = {"chain": lambda i: i - 1, "binary tree": lambda i: (i - 1) // 2}


def builder(shape: str, size: int) -> kt.Builder:
    """Bodies with hinges about x and y in turn, each described as a user would."""
    made = kt.Builder(f"{shape} of {size}")
    parent, upright, inertia = SHAPES[shape], np.eye(3), np.diag([0.1, 0.2, 0.3])
    for i in range(size):
        made.add_body(
            f"body{i}",
            parent=f"body{parent(i)}" if i else "world",
            axis=(0.0, 1.0, 0.0) if i % 2 else (1.0, 0.0, 0.0),
            placement=(upright, (0.0, 0.0, 0.1)),
            mass=1.0,
            com=(0.0, 0.0, 0.05),
            inertia=inertia,
        )
    return made


def table(seconds: float) -> Table:
    """Seconds to describe and build a tree, the first call with code from the cache, and later calls per body.

    The first call includes assembling the tree's nodes.

    Args:
        seconds: How long to go on calling.
    """
    found = Table(
        "Size of a tree: building it, and forward dynamics",
        ["tree", "bodies", "add_body", "build", "first call", "per body", "against 100", f"batch of {BATCH}"],
    )
    for shape in SHAPES:
        smallest = None
        for size in SIZES:
            start = time.perf_counter()
            description = builder(shape, size)
            added = time.perf_counter()
            robot = description.build()
            built = time.perf_counter()
            q, v = robot.neutral(), np.zeros(robot.nv)
            robot.forward_dynamics(q, v, v)
            called = time.perf_counter()
            batch = np.tile(q, (BATCH, 1)), *np.zeros((2, BATCH, robot.nv))
            calls = {"single": [(q, v, v)], "batch": [batch]}
            times = race({name: (robot.forward_dynamics, given) for name, given in calls.items()}, seconds)
            each = times["single"] / size
            smallest = smallest or each
            found.add(
                shape,
                f"{size:,}",
                f"{added - start:.3g} s",
                f"{built - added:.3g} s",
                f"{called - built:.3g} s",
                f"{each * 1e9:.1f} ns",
                f"{each / smallest:.2f}",
                f"{times['batch'] / size / BATCH * 1e9:.1f} ns",
            )
    return found


def functions(robot: kt.Model) -> dict[str, tuple[Callable[..., object], list[tuple[Any, ...]]]]:
    """Functions whose cost is proportional to the number of bodies, with arguments."""
    rng, tip = np.random.default_rng(0), robot.bodies[-1].name
    q, v = robot.random_configuration(rng), 1e-2 * rng.standard_normal(robot.nv)
    forward, inverse = robot.forward_dynamics, robot.inverse_dynamics
    return {
        "forward dynamics": (forward, [(q, v, v)]),
        "forward dynamics, jvp": (forward.jvp, [(q, v, v, v, v, v)]),
        "forward dynamics, vjp": (forward.vjp, [(q, v, v, v)]),
        "inverse dynamics": (inverse, [(q, v, v)]),
        "inverse dynamics, jvp": (inverse.jvp, [(q, v, v, v, v, v)]),
        "inverse dynamics, vjp": (inverse.vjp, [(q, v, v, v)]),
        "mass matrix solve": (robot.mass_matrix_solve, [(q, v)]),
        "gravity forces": (robot.gravity_forces, [(q,)]),
        "energy": (robot.energy, [(q, v)]),
        "center of mass": (robot.center_of_mass, [(q,)]),
        "pose of the tip": (robot.pose, [(q, tip)]),
        "velocity of the tip": (robot.velocity, [(q, v, tip)]),
        "integrate": (robot.integrate, [(q, v)]),
        "step": (robot.step, [(q, v, v, 1e-3)]),
        "step, rk4": (lambda q, v, tau: robot.step(q, v, tau, 1e-3, method="rk4"), [(q, v, v)]),
    }


def functions_table(seconds: float) -> Table:
    """Time of single calls per body of a chain.

    Args:
        seconds: How long to go on calling each function.
    """
    found = Table(
        "Functions of a chain: time of a single call per body",
        ["function", *(f"{size:,} bodies" for size in SIZES[1:]), "last against first"],
    )
    times: dict[str, list[float]] = {}
    for size in SIZES[1:]:
        robot = builder("chain", size).build()
        for name, call in functions(robot).items():
            times.setdefault(name, []).append(race({name: call}, seconds)[name] / size)
    for name, each in times.items():
        found.add(name, *(f"{one * 1e9:.1f} ns" for one in each), f"{each[-1] / each[0]:.2f}")
    return found
