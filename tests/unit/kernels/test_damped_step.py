"""Damped least-squares steps within bounds, against dense algebra."""

from __future__ import annotations

from typing import Any

import numpy as np

import kinetree as kt
from kinetree.kernels.damped_step import damped_step
from tests.tolerance import assert_close, bound

Array = np.ndarray[Any, np.dtype[Any]]


@kt.kernel(
    e=("r",), J=("r", "n"), down=("n",), up=("n",), damping=(), step=("n",), outputs=("step",), sparse=("step",)
)  # fmt: skip
def stepping(k: Any, e: Any, J: Any, down: Any, up: Any, damping: Any, step: Any) -> None:
    """The step."""
    damped_step(k.r, k.n, e, J, down, up, damping[...], step)


def least_squares(J: Array, e: Array, free: Array, held: Array) -> Array:
    """The step of free columns, with the others held."""
    J_free = J * free
    return held + J_free.T @ np.linalg.solve(J_free @ J_free.T + 0.1 * np.eye(len(e)), e - J @ held)


def setup() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(3, 8)), rng.normal(size=3)


def test_without_bounds_it_is_least_squares() -> None:
    J, e = setup()
    step = kt.compiled(stepping, r=3, n=8)(e, J, np.full(8, -9.0), np.full(8, 9.0), 0.1)
    assert_close(step, least_squares(J, e, np.ones(8), np.zeros(8)), bound(8))


def test_columns_at_a_bound_that_they_would_pass_do_not_move() -> None:
    J, e = setup()
    slope = J.T @ e
    for side in (1.0, -1.0):
        stuck = slope * side > 0.3
        assert stuck.any()
        down, up = np.where(stuck & (side < 0), 0.0, -9.0), np.where(stuck & (side > 0), 0.0, 9.0)
        step = kt.compiled(stepping, r=3, n=8)(e, J, down, up, 0.1)
        assert_close(step, least_squares(J, e, ~stuck * 1.0, np.zeros(8)), bound(8))
        # a bound on the other side does not matter
        step = kt.compiled(stepping, r=3, n=8)(e, J, -up, -down, 0.1)
        free = least_squares(J, e, np.ones(8), np.zeros(8))
        assert_close(step[stuck], free[stuck], bound(8))


def test_columns_that_would_pass_a_bound_stop_there_and_others_make_up_for_it() -> None:
    J, e = setup()
    free = least_squares(J, e, np.ones(8), np.zeros(8))
    most = int(np.argmax(np.abs(free)))
    end = 0.5 * free[most]
    down, up = np.full(8, -9.0), np.full(8, 9.0)
    (down if end < 0 else up)[most] = end
    step = kt.compiled(stepping, r=3, n=8)(e, J, down, up, 0.1)
    held = np.where(np.arange(8) == most, end, 0.0)
    assert step[most] == end
    assert_close(step, least_squares(J, e, (np.arange(8) != most) * 1.0, held), bound(8))
