"""Derivatives of the dynamics against Pinocchio's, on random trees and on real robots.

Pinocchio's formulas take joint maps as constant in body coordinates, which its universal joint's is not: its
derivatives of trees with such joints are wrong. The oracle for them are complex steps, in `tests/laws`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.oracles.pinocchio_twin import pin, robots
from tests.oracles.test_pinocchio import Pair, make, random_pair
from tests.tolerance import assert_close
from tests.trees import KINDS, mixed

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


def test_inverse_dynamics_derivatives(pair: Pair) -> None:
    def each(i: int) -> np.ndarray:
        results = pin.computeRNEADerivatives(pair.twin.model, pair.data, pair.q[i], pair.v[i], pair.x[i])
        return np.stack([pair.twin.order.from_matrix(np.array(part)) for part in results])

    expected = pair.each(each)
    actual = pair.robot.linearize(pair.states[0], pair.states[1], a=pair.states[2])
    for place, part in enumerate(actual):
        assert_close(part, expected[:, place], pair.tolerance)


def test_forward_dynamics_derivatives(pair: Pair) -> None:
    def each(i: int) -> np.ndarray:
        results = pin.computeABADerivatives(pair.twin.model, pair.data, pair.q[i], pair.v[i], pair.x[i])
        return np.stack([pair.twin.order.from_matrix(np.array(part)) for part in results])

    expected = pair.each(each)
    actual = pair.robot.linearize(pair.states[0], pair.states[1], tau=pair.states[2])
    for place, part in enumerate(actual):
        assert_close(part, expected[:, place], pair.solving_tolerance)
