"""Speed of the Riccati sweep beside NumPy and SciPy, whose products and factorisations are those of a BLAS.

Part of `make bench`; alone: `python -m benchmarks.kernels`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from scipy.linalg import cho_factor, cho_solve

import kinetree as kt
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core, race
from kinetree.kernels.riccati import riccati

#: States, inputs and steps: an arm, a quadruped, a humanoid.
PROBLEMS = ((12, 6, 20), (36, 12, 10), (76, 32, 4))
BATCH = 16


def sweeps(seconds: float) -> Table:
    """Single horizons, and those of a batch.

    Args:
        seconds: How long to go on for each contender.
    """
    columns = ["states, inputs, steps", "single", "GFLOP/s", "SciPy", f"of {BATCH}, each", "GFLOP/s"]
    table = Table("backward sweep of a linear-quadratic problem", columns)
    for nx, nu, T in PROBLEMS:
        given = _problem(nx, nu, T)
        f = kt.compiled(riccati, T=T, nx=nx, nu=nu)
        f.compile()
        singles = [tuple(each[i] for each in given) for i in range(4)]
        times = race({"Kinetree": (f, singles), "SciPy": (_by_scipy, singles), "batch": (f, [given])}, seconds)
        # as if no symmetry were used, as the peer does
        flops = T * (4 * nx**3 + 6 * nx**2 * nu + 4 * nx * nu**2 + nu**3 / 3)
        table.add(
            f"{nx}, {nu}, {T}",
            f"{times['Kinetree'] * 1e6:.1f} µs",
            f"{flops / times['Kinetree'] / 1e9:.0f}",
            f"{times['SciPy'] / times['Kinetree']:.1f}×",
            f"{times['batch'] / BATCH * 1e6:.1f} µs",
            f"{flops * BATCH / times['batch'] / 1e9:.0f}",
        )
    return table


def _problem(nx: int, nu: int, T: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    A = np.eye(nx) + 0.1 * rng.normal(size=(BATCH, T, nx, nx)) / np.sqrt(nx)
    B = 0.1 * rng.normal(size=(BATCH, T, nx, nu))
    Q, R, N = np.eye(nx), np.eye(nu), np.zeros((nu, nx))
    return A, B, *(np.tile(each, (BATCH, T, 1, 1)) for each in (Q, R, N)), np.tile(Q, (BATCH, 1, 1))


def _by_scipy(A: Any, B: Any, Q: Any, R: Any, N: Any, P: Any) -> tuple[Any, Any]:
    gains = []
    for a, b, q, r, n in zip(A[::-1], B[::-1], Q[::-1], R[::-1], N[::-1], strict=True):
        PA = P @ a
        G = n + b.T @ PA
        K = cho_solve(cho_factor(r + b.T @ (P @ b), check_finite=False), G, check_finite=False)
        P = q + a.T @ PA - G.T @ K
        gains.append(K)
    return np.array(gains[::-1]), P


if __name__ == "__main__":
    pin_to_one_core()
    kt.set_threads(1)
    Console().print(sweeps(1.0).rich())
