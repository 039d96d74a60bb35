"""Quadratic programmes by DAQP, with names for their rows."""

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


class Programme:
    """min ½ xᵀHx + gᵀx within bounds of x and of rows A x.

    Args:
        names: Names of the variables, then of the rows.
        hard: Which of them never give way.
        equal: Which of them are equations.
    """

    def __init__(self, names: Sequence[str], hard: Array, equal: Array) -> None:
        self._names, self._soft = names, ~hard
        self._sense = np.where(equal, _EQUAL, 0).astype(np.int32)
        self._relaxed = np.where(hard, self._sense, _SOFT).astype(np.int32)
        self._solve = require_solver("WholeBody").solve

    def solve(
        self, H: Array, g: Array, A: Array, low: Array, high: Array
    ) -> tuple[Array | None, float, tuple[str, ...]]:
        """The solution, by how much rows give way, and their names, worst first.

        If no solution keeps all bounds, the returned one lets all but the hard ones give way as little as possible; it
        is None if the hard ones contradict each other. Bounds are equal where they are equations.

        Args:
            H: Positive definite, (n, n); overwritten.
            g: (n,).
            A: (m, n).
            low: Lower bounds of x and A x, (n + m,).
            high: Upper bounds, (n + m,).
        """
        # H is positive definite: no proximal terms
        x, _, flag, _ = self._solve(H.copy(), g.copy(), A, high.copy(), low.copy(), self._sense.copy(), eps_prox=0.0)
        if flag == 1:
            return x, 0.0, ()
        x, _, flag, info = self._solve(H, g, A, high.copy(), low.copy(), self._relaxed.copy(), eps_prox=0.0)
        if flag not in _SOLVED:
            blamed = np.abs(info["lam"])
            worst = np.argsort(-blamed)[: int((blamed > _BROKEN * blamed.max(initial=1.0)).sum())]
            return None, np.inf, self._called(worst)
        values = np.concatenate([x, A @ x])
        beyond = np.where(self._soft, np.maximum(values - high, low - values), 0.0)
        room = 1.0 + np.minimum(np.abs(low), np.abs(high))
        worst = np.argsort(-beyond / room)
        worst = worst[(beyond / room)[worst] > _BROKEN]
        return x, float(max(0.0, beyond.max())), self._called(worst)

    def _called(self, rows: Array) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._names[i] for i in rows.tolist()))
