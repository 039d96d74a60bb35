"""Complex-step derivatives of the dynamics on the reference engine: exact to rounding, since nothing is subtracted."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.laws.cases import Case, configuration_rate

Array = np.ndarray[Any, np.dtype[Any]]

H = 1e-30


def along(case: Case, function: str, directions: tuple[Array, Array, Array], **options: Any) -> Array:
    """Change of a function of q, v and x along a direction of each; that of q is a tangent."""
    q, v, x = case.state
    dq, dv, dx = directions
    steps = configuration_rate(case.robot, q, dq), dv, dx
    values = [value + 1j * H * step for value, step in zip((q, v, x), steps)]
    return np.asarray(case.exact(function, *values, **options).imag / H)


def directions(case: Case, seed: int = 5) -> tuple[Array, Array, Array]:
    """A random direction of q, v and x."""
    dq, dv, dx = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, *case.shape, case.robot.nv))
    return dq, dv, dx


def wrenches(case: Case) -> dict[str, Array]:
    """Wrenches on a few frames."""
    rng = np.random.default_rng(6)
    return {frame: rng.uniform(-3.0, 3.0, (*case.shape, 6)) for frame in case.frames}


def peak(*arrays: Array) -> float:
    """The largest entry."""
    return max(float(np.max(np.abs(array), initial=0.0)) for array in arrays)
