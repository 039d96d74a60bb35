"""How results are compared: one constant of accuracy, scaled by what the mathematics makes unavoidable.

Rounding errors of a recursion over n degrees of freedom grow as n·eps. Solving with the mass matrix adds an error in
proportion to its condition number κ that does not grow with n besides: what a long chain loses is in κ already. So
every comparison of two correct results is

    |x − y|∞ ≤ eps · (C n + κ) · max(1, |y|∞)        with κ = cond(M) where M is inverted, else 0,

and n at least 6, because even one joint computes with spatial vectors. eps is that of float64, or of float32 for robots
that compute in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinetree.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]

#: The one constant of all comparisons, for errors that grow with n.
C = 16.0

EPS = float(np.finfo(np.float64).eps)


def bound(n: int, condition: float = 0.0, dtype: Any = np.float64) -> float:
    """Relative error that two correct computations over n degrees of freedom may show."""
    return float(np.finfo(dtype).eps) * (C * max(n, 6) + condition)


def condition(mass_matrix: Any) -> float:
    """Largest condition number among a batch of mass matrices."""
    if mass_matrix.size == 0:
        return 1.0
    sizes = np.abs(np.linalg.eigvalsh(mass_matrix))  # a quarter of the time of singular values
    with np.errstate(divide="ignore"):
        return float(np.max(sizes.max(axis=-1) / sizes.min(axis=-1)))


def solving_bound(robot: Any, q: Any, J: Any) -> float:
    """The same where both M and J M⁻¹ Jᵀ are inverted."""
    M = robot.mass_matrix(q)
    return bound(robot.nv, condition(M) + condition(J @ np.linalg.solve(M, np.swapaxes(J, -1, -2))))


def peak(*arrays: Any) -> float:
    """The largest entry of all."""
    return max(float(np.max(np.abs(array), initial=0.0)) for array in arrays)


def assert_near(actual: Any, expected: Any, distance: float) -> None:
    """Compare arrays, or an array and a number, by an absolute distance."""
    np.testing.assert_allclose(actual, expected, rtol=0.0, atol=distance)


def refused(message: str, call: Any, *arguments: Any, error: type[Exception] = InputError, **options: Any) -> Any:
    """Expect an error with this message, a regular expression, from a call; returns the error."""
    with pytest.raises(error, match=message) as caught:
        call(*arguments, **options)
    return caught.value


def assert_close(actual: Any, expected: Any, tolerance: float, scale: float | None = None) -> None:
    """Compare arrays by their largest entries.

    Args:
        actual: The result.
        expected: What it should be, of the same shape.
        tolerance: Relative error allowed, from `bound`.
        scale: Magnitude of the numbers that were added up on the way; the largest entry of `expected` if not given.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"shape {actual.shape} instead of {expected.shape}"
    if actual.size == 0:
        return
    assert np.all(np.isfinite(actual)), "not all entries are finite"
    magnitude = max(1.0, float(np.max(np.abs(expected))) if scale is None else scale)
    error = float(np.max(np.abs(actual - expected))) / magnitude
    assert error <= tolerance, f"relative error {error:.2e} exceeds {tolerance:.2e}"
