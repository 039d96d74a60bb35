"""Derivatives of the dynamics against Pinocchio's, on random trees and on real robots.

Pinocchio's formulas take joint maps as constant in body coordinates, which its universal joint's is not: its
derivatives of trees with such joints are wrong. The oracle for them are complex steps, in `tests/laws`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.oracles.pinocchio_twin import pin, robots
from tests.oracles.test_pinocchio import SAMPLES, Pair, make, random_pair
from tests.tolerance import assert_close
from tests.trees import KINDS, mixed

#: How exact derivatives are on real robots, whatever the condition of the mass matrix.
EXACT = 1e-9

CONSTANT = tuple(kind for kind in KINDS if kind != "universal")
PAIRS: dict[str, Callable[[], Pair]] = {
    "mixed": lambda: random_pair(mixed(12, 20, *CONSTANT), 20),
    "mixed, armature": lambda: random_pair(mixed(10, 23, *CONSTANT), 23, armature=1.0),
    "forest": lambda: random_pair(mixed(15, 24, *CONSTANT), 24, roots=3),
    "long": lambda: make("long"),
    **{name: lambda name=name: make(name) for name in robots.NAMES},
}


@pytest.fixture(params=list(PAIRS), scope="module")
def pair(request: pytest.FixtureRequest) -> Pair:
    return PAIRS[request.param]()


def wrenches(pair: Pair) -> dict[str, np.ndarray]:
    """On a few frames, another one in each sample."""
    rng = np.random.default_rng(4)
    return {frame: rng.uniform(-20.0, 20.0, (SAMPLES, 6)) for frame in pair.frames[:: max(1, len(pair.frames) // 3)]}


def theirs(pair: Pair, kind: str, forces: dict[str, np.ndarray]) -> np.ndarray:
    """Pinocchio's three matrices of each sample."""
    compute = pin.computeRNEADerivatives if kind == "a" else pin.computeABADerivatives

    def each(i: int) -> np.ndarray:
        more = [pair.twin.forces({frame: wrench[i] for frame, wrench in forces.items()})] if forces else []
        results = compute(pair.twin.model, pair.data, pair.q[i], pair.v[i], pair.x[i], *more)
        return np.stack([pair.twin.order.from_matrix(np.array(part)) for part in results])

    return np.moveaxis(pair.each(each), 1, 0)


def tolerance_of(pair: Pair, kind: str) -> float:
    return min(pair.tolerance if kind == "a" else pair.solving_tolerance, EXACT)


@pytest.mark.parametrize("kind", ["a", "tau"])
def test_matrices(pair: Pair, kind: str) -> None:
    q, v, x = pair.states
    for part, expected in zip(pair.robot.linearize(q, v, **{kind: x}), theirs(pair, kind, {}), strict=True):
        assert_close(part, expected, tolerance_of(pair, kind))


@pytest.mark.parametrize("kind", ["a", "tau"])
@pytest.mark.parametrize("name", robots.NAMES)
def test_with_wrenches(name: str, kind: str) -> None:
    """The matrices, and in O(n) the first column and the first row of each."""
    pair = make(name)
    forces, tolerance = wrenches(pair), tolerance_of(pair, kind)
    matrices = theirs(pair, kind, forces)
    q, v, x = pair.states
    for part, expected in zip(pair.robot.linearize(q, v, **{kind: x}, f_ext=forces), matrices, strict=True):
        assert_close(part, expected, tolerance)
    function = pair.robot.inverse_dynamics if kind == "a" else pair.robot.forward_dynamics
    unit = np.eye(pair.robot.nv)[0]
    gradients = function.vjp(q, v, x, unit, f_ext=forces)
    for place, expected in enumerate(matrices):
        step = [unit if place == i else 0.0 * unit for i in range(3)]
        scale = float(np.max(np.abs(expected)))
        assert_close(function.jvp(q, v, x, *step, f_ext=forces), expected[..., 0], tolerance, scale)
        assert_close(gradients[place], expected[..., 0, :], tolerance, scale)
