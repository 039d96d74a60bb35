"""M and M⁻¹ in the frame of the tree and by weights: the same matrices, and a choice that depends on the tree alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.mass_matrix import mass_matrix
from kinetree.algorithms.mass_matrix_by_weights import mass_matrix_by_weights, mass_matrix_inverse_by_weights
from kinetree.algorithms.mass_matrix_inverse import mass_matrix_inverse
from kinetree.engines.count import count
from kinetree.engines.function import Function
from kinetree.engines.reference import run
from tests.tolerance import assert_close, bound, condition
from tests.trees import mixed, random_mechanism

#: In the frame of the tree, and by weights.
RECURSIONS = {
    "mass_matrix": (mass_matrix, mass_matrix_by_weights),
    "mass_matrix_inverse": (mass_matrix_inverse, mass_matrix_inverse_by_weights),
}


def chain(bodies: int, branches: int = 1) -> kt.Model:
    """Branches of revolute joints."""
    builder = kt.Builder("chain")
    for b in range(branches):
        for i in range(bodies):
            parent = f"{b} {i - 1}" if i else "world"
            builder.add_body(
                f"{b} {i}", parent=parent, joint="revolute", axis=(0.0, 1.0, 0.0), mass=1.0, com=(0.0, 0.0, 0.1)
            )
    return builder.build()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", RECURSIONS)
def test_recursions_agree(name: str, seed: int) -> None:
    of = random_mechanism("rigid", mixed(9, seed), seed, armature=0.5).kinetree()
    q = of.random_configuration(seed)
    in_frame, by_weights = (run(algorithm, of.mechanism, [], [q])[0] for algorithm in RECURSIONS[name])
    assert_close(by_weights, in_frame, bound(of.nv, condition(of.mass_matrix(q))), float(np.abs(in_frame).max()))


@pytest.mark.parametrize("name", RECURSIONS)
def test_compiled_recursions_in_the_frame_of_the_tree(name: str) -> None:
    """Small robots do not use them: values, and bits alone and in batches."""
    of = random_mechanism("rigid", mixed(9, 1), 1, armature=0.5).kinetree()
    q = of.random_configuration(1, 11)
    function: Any = Function(name, of.mechanism, RECURSIONS[name][0])
    batch = function(q)
    for one, found in zip(q, batch, strict=True):
        np.testing.assert_array_equal(function(one), found)
    expected = getattr(of, name)(q)
    assert_close(batch, expected, bound(of.nv, condition(of.mass_matrix(q[0]))), float(np.abs(expected).max()))


@pytest.mark.parametrize("name", RECURSIONS)
def test_the_choice_depends_on_the_tree(name: str) -> None:
    in_frame, by_weights = RECURSIONS[name]
    cases = {chain(7): by_weights, chain(16): by_weights, chain(30): in_frame, chain(2, 30): in_frame}
    cases[kt.zoo.humanoid24()] = by_weights
    for of, expected in cases.items():
        assert getattr(of, name).algorithm is expected, of


def test_operations() -> None:
    """By weights, the pose of a floating base costs nothing."""
    of = kt.zoo.humanoid24()
    in_frame, by_weights = (count(algorithm, of.mechanism, ()).total for algorithm in RECURSIONS["mass_matrix"])
    assert (in_frame, by_weights) == (7488, 4953)
