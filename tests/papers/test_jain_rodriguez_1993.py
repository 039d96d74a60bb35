"""The algorithms of Jain and Rodriguez that are written down only to be counted: right numbers, and their counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from benchmarks.papers.algorithm_5 import algorithm_5
from benchmarks.papers.conventional import algorithm_3, algorithm_4
from benchmarks.papers.general import general
from kinetree.compiler.count import count
from kinetree.language.algorithm import Algorithm
from kinetree.runtime.function import Function
from tests.tolerance import assert_close, bound, condition
from tests.trees import random_mechanism

CHAIN = random_mechanism("chain", ["revolute", "prismatic", "helical", "revolute"], 5, armature=0.5, branching=0.0)
TREE = random_mechanism("tree", ["floating", "revolute", "spherical", "helical", "planar"], 5, armature=0.5)


def state(robot: kt.Model) -> tuple[Any, ...]:
    """A configuration, velocities, accelerations, directions, and the joint forces that belong to them."""
    rng = np.random.default_rng(0)
    q = robot.random_configuration(rng)
    v, a, dq, dv, dtau = rng.uniform(-1.0, 1.0, (5, robot.nv))
    return q, v, a, dq, dv, dtau, robot.inverse_dynamics(q, v, a)


def run(robot: kt.Model, algorithm: Algorithm, *arguments: Any) -> Any:
    return Function(algorithm.name, robot.mechanism, algorithm).engine("reference")(*arguments)


@pytest.mark.parametrize(
    ("algorithm", "mechanism"),
    [(algorithm_3, CHAIN), (algorithm_5, CHAIN), (algorithm_5, TREE)],
    ids=lambda parameter: parameter.name,
)
def test_changes_of_accelerations(algorithm: Algorithm, mechanism: Any) -> None:
    robot = mechanism.kinetree()
    q, v, a, dq, dv, dtau, tau = state(robot)
    expected = robot.forward_dynamics.jvp(q, v, tau, dq, dv, dtau)
    found = run(robot, algorithm, q, v, a, dq, dv, dtau)
    assert_close(found, expected, bound(robot.nv, condition(robot.mass_matrix(q))))


def test_matrices_by_way_of_a_dense_mass_matrix() -> None:
    robot = CHAIN.kinetree()
    q, v, a, *_, tau = state(robot)
    for found, expected in zip(run(robot, algorithm_4, q, v, a), robot.linearize(q, v, tau=tau), strict=True):
        assert_close(found, expected, bound(robot.nv, condition(robot.mass_matrix(q))))


def differences(algorithm: Algorithm, order: int) -> tuple[int, int]:
    """Multiplications and additions: differences of an order between chains of some ten links."""
    counts = [count(algorithm, general(kt.zoo.chain(n))) for n in range(10, 11 + order)]
    products, sums = (np.diff([getattr(c, of) for c in counts], order) for of in ("multiplications", "additions"))
    return int(products[0]), int(sums[0])


def test_counts() -> None:
    assert differences(algorithm_5, 1) == (606, 559)
    assert differences(algorithm_3, 3) == (1, 1)  # n³/6, as published
    assert differences(algorithm_4, 3) == (17, 17)  # 17n³/6, as published
