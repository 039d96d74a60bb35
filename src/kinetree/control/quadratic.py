"""Quadratic programs by DAQP, with names for their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinetree.spatial.value import Array

#: Bounds that are none.
INFINITE = 1e30

# DAQP's kinds of rows, and its exit flags for solutions.
_EQUAL, _SOFT = 5, 8
_SOLVED = (1, 2)
# By how much a row that gives way must exceed its bounds, relative to them.
_BROKEN = 1e-6


def require_solver(what: str) -> Any:
    """The module `daqp`.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import daqp
    except ImportError as error:
        raise ImportError(f'kinetree.control.{what} needs daqp: pip install "kinetree[qp]"') from error
    return daqp


class QuadraticProgram:
    """min ½ xᵀx + gᵀx within bounds of the first variables and of rows A x.

    Args:
        names: Names of these variables, then of the rows.
        hard: Which of them never give way.
        equal: Which of them are equations.
    """

    def __init__(self, names: Sequence[str], hard: Array, equal: Array) -> None:
        self._names, self._soft = names, ~hard
        self._sense = np.where(equal, _EQUAL, 0).astype(np.int32)
        self._relaxed = np.where(hard, self._sense, _SOFT).astype(np.int32)
        self._solve = require_solver("WholeBody").solve

    def solve(self, g: Array, A: Array, low: Array, high: Array) -> tuple[Array | None, float, tuple[str, ...]]:
        """The solution, by how much rows give way, and their names, worst first.

        If no solution keeps all bounds, the returned one lets all but the hard ones give way as little as possible; it
        is None if the hard ones contradict each other. Bounds are equal where they are equations.

        Args:
            g: (n,).
            A: (m, n).
            low: Lower bounds of the first k variables and of A x, (k + m,).
            high: Upper bounds, (k + m,).
        """
        x, flag, _ = self._solved(g, A, low, high, self._sense)
        if flag == 1:
            return x, 0.0, ()
        x, flag, info = self._solved(g, A, low, high, self._relaxed)
        if flag not in _SOLVED:
            blamed = np.abs(info["lam"])
            worst = np.argsort(-blamed)[: int((blamed > _BROKEN * blamed.max(initial=1.0)).sum())]
            return None, np.inf, self._called(worst)
        values = np.concatenate([x[: len(low) - len(A)], A @ x])
        beyond = np.where(self._soft, np.maximum(values - high, low - values), 0.0)
        room = 1.0 + np.minimum(np.abs(low), np.abs(high))
        worst = np.argsort(-beyond / room)
        worst = worst[(beyond / room)[worst] > _BROKEN]
        return x, float(max(0.0, beyond.max())), self._called(worst)

    def _solved(self, g: Array, A: Array, low: Array, high: Array, sense: Array) -> tuple[Array, int, dict[str, Any]]:
        # DAQP overwrites what it is given. It recognises a diagonal Hessian, and with that, eliminating equations or
        # adding proximal terms would only cost time.
        x, _, flag, info = self._solve(
            np.eye(len(g)), g.copy(), A, high.copy(), low.copy(), sense.copy(), eps_prox=0.0, eq_reduction=-1
        )
        return x, flag, info

    def _called(self, rows: Array) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._names[i] for i in rows.tolist()))
