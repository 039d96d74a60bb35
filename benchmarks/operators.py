"""Spatial operators on a vector, against the named functions and against dense matrices of NumPy.

Named functions are `inverse_dynamics`, `mass_matrix_solve`, and for Ω the latter between products with a given J.
Dense matrices are formed from q in each call (M, and a solution with it), or given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import kinetree as kt
from benchmarks.table import Table
from benchmarks.timing import race

POOL = 64


def table(seconds: float) -> Table:
    """Times of products with the mass matrix, its inverse and Ω; the others' as multiples."""
    found = Table(
        "Operators on a vector, and how many times as long others take",
        ["robot", "operator", "time", "named function", "dense, from q", "dense, given"],
    )
    for robot in (kt.zoo.humanoid24(), kt.zoo.asimo35(), kt.zoo.chain(100)):
        rng = np.random.default_rng(0)
        q = robot.random_configuration(rng)
        for name, contenders in _contenders(robot, q, rng):
            times = race({key: (call, [(x,)] * POOL) for key, (call, x) in contenders.items()}, seconds)
            own = times["operator"]

            def ratio(key: str, times: dict[str, float] = times, own: float = own) -> str:
                return f"{times[key] / own:.2f}×"

            found.add(
                f"{robot.name.split('_')[0]}, nv {robot.nv}", name, f"{own * 1e6:.2f} µs",
                *map(ratio, ("named", "dense", "given")),
            )  # fmt: skip
    return found


_Contenders = dict[str, tuple[Callable[[Any], Any], Any]]


def _contenders(robot: kt.Model, q: Any, rng: np.random.Generator) -> list[tuple[str, _Contenders]]:
    o = robot.operators(q)
    x, force = rng.normal(size=robot.nv), rng.normal(size=o.A.shape[0])
    still = np.zeros(robot.nv)
    mass, inverse, omega = o.mass.dense(), o.mass_inverse.dense(), o.Omega.dense()
    J = (o.A.T @ o.H.T).dense()
    products: list[tuple[str, _Contenders]] = [
        (
            "mass @ x",
            {
                "operator": (lambda x: o.mass @ x, x),
                "named": (lambda x: robot.inverse_dynamics(q, still, x), x),
                "dense": (lambda x: robot.mass_matrix(q) @ x, x),
                "given": (lambda x: mass @ x, x),
            },
        ),
        (
            "mass_inverse @ x",
            {
                "operator": (lambda x: o.mass_inverse @ x, x),
                "named": (lambda x: robot.mass_matrix_solve(q, x), x),
                "dense": (lambda x: np.linalg.solve(robot.mass_matrix(q), x), x),
                "given": (lambda x: inverse @ x, x),
            },
        ),
        (
            "Omega @ f",
            {
                "operator": (lambda f: o.Omega @ f, force),
                "named": (lambda f: J @ robot.mass_matrix_solve(q, J.T @ f), force),
                "dense": (lambda f: J @ np.linalg.solve(robot.mass_matrix(q), J.T @ f), force),
                "given": (lambda f: omega @ f, force),
            },
        ),
    ]
    for name, contenders in products:
        results = {key: call(y) for key, (call, y) in contenders.items()}
        if name == "mass @ x":
            results["named"] = results["named"] - robot.gravity_forces(q)
        for key, result in results.items():
            if not np.allclose(result, results["operator"], rtol=1e-6, atol=1e-6 * float(np.abs(result).max())):
                raise ValueError(f"{robot.name}: {name} of {key} differs")
    return products
