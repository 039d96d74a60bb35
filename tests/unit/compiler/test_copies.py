"""Fields that hold constants of nodes are read where the constants are, but only if they never hold anything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.runtime import reference
from kinetree.runtime.kernels import bind

ROBOT = kt.zoo.random_tree(5, kinds=("revolute", "prismatic"), seed=2)
declare = algorithm(q=("q",), seen=("v",), outputs=("seen",), sparse=("seen",))


@declare
def kept(tree: Any, q: Any, seen: Any) -> None:
    for k, _ in tree.scatter():
        k.one = k.M.data[:1]
    for k, _ in tree.scatter():
        for c in k.columns():
            seen[c] = k.one[0]


@declare
def overwritten(tree: Any, q: Any, seen: Any) -> None:
    for k, _ in tree.scatter():
        k.one = k.M.data[:1]
    for k, _ in tree.scatter():
        for c in k.columns():
            seen[c] = k.one[0]
    for k, _ in tree.scatter():
        k.one = k.M.data[1:2]
    for k, _ in tree.scatter():
        for c in k.columns():
            seen[c] = seen[c] + k.one[0]


@declare
def inherited(tree: Any, q: Any, seen: Any) -> None:
    tree.world.one = np.zeros(1)
    for k, parent in tree.scatter():
        k.theirs = parent.one
        k.one = k.M.data[:1]
    for k, _ in tree.scatter():
        for c in k.columns():
            seen[c] = k.theirs[0]


@pytest.mark.parametrize("one", [kept, overwritten, inherited], ids=lambda one: one.name)
def test_engines_agree(one: Algorithm) -> None:
    q = ROBOT.neutral()
    (expected,) = reference.run(one, ROBOT.mechanism, (), [q])
    assert len(set(expected)) > 2
    native = bind(one, ROBOT.mechanism, (), one.name)
    np.testing.assert_array_equal(native(q), expected)
    np.testing.assert_array_equal(native(np.stack([q] * 9)), np.stack([expected] * 9))
