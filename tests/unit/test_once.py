"""Λ⁻¹ for choices that are made once: without a kernel, kept on disk, and rounded so that engines agree."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import kinetree as kt
from kinetree.engines.interpreted import Interpreted
from kinetree.engines.native import kernels
from kinetree.operational_space import once
from kinetree.operational_space.recursions import Recursions
from tests.tolerance import assert_close, bound, condition


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETREE_CACHE_DIR", str(tmp_path))


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no kernel had been compiled, and nothing evaluated."""
    monkeypatch.setattr(kernels.Kernels, "is_loaded", False)
    monkeypatch.setattr(once, "_times", Counter())


def robot() -> kt.Model:
    return kt.zoo.humanoid24()


def recursions_of(model: kt.Model) -> Recursions:
    return model.tasks([model.frames[-1]]).core.recursions


def refuse(*_: Any) -> Any:
    raise AssertionError("computed or compiled")


def test_it_is_the_function() -> None:
    model = robot()
    q = [model.random_configuration(seed) for seed in range(2)]
    function = recursions_of(model).inverse_inertia
    tolerance = bound(model.nv, condition(model.mass_matrix(np.stack(q))))
    for found, expected in zip(once.evaluated(function, q), map(function, q), strict=True):
        assert_close(found, expected, tolerance)


def test_nothing_is_compiled_and_the_result_is_kept() -> None:
    model = robot()
    q = model.random_configuration(0)
    with mock.patch.object(kernels.Kernels, "library", refuse):
        first = recursions_of(model).inverse_inertia_at(q)
    with mock.patch.object(Interpreted, "__call__", refuse):
        again = recursions_of(robot()).inverse_inertia_at(q)
        assert again.tobytes() == first.tobytes()
        # of other configurations and robots, nothing is known
        with pytest.raises(AssertionError, match="computed"):
            recursions_of(robot()).inverse_inertia_at(model.neutral())
        with pytest.raises(AssertionError, match="computed"):
            recursions_of(kt.zoo.chain(4)).inverse_inertia_at(np.zeros(4))


def test_many_tasks_are_compiled() -> None:
    """As in a loop whose point moves."""
    model = robot()

    def at(x: float) -> Recursions:
        task = kt.Task(model.frames[-1], "position", (x, 0.0, 0.0))
        return model.tasks([task]).core.recursions

    with mock.patch.object(kernels.Kernels, "library", refuse):
        few = [at(1e-3 * i).reach for i in range(once._TIMES)]
        with pytest.raises(AssertionError, match="compiled"):
            _ = at(0.1).reach
    assert at(0.1).reach.shape == few[0].shape
    # from now on there is a kernel on disk, and then in memory
    with mock.patch.object(Interpreted, "__call__", refuse):
        assert at(0.2).reach.shape == few[0].shape
        with mock.patch.object(kernels.Kernels, "is_loaded", True), mock.patch.object(once.cache, "load", refuse):
            assert at(0.3).reach.shape == few[0].shape


def test_large_robots_are_compiled() -> None:
    model = kt.zoo.random_tree(80, kinds=("revolute",), seed=1)
    with mock.patch.object(kernels.Kernels, "library", refuse), pytest.raises(AssertionError, match="compiled"):
        recursions_of(model).inverse_inertia_at(model.neutral())


@pytest.mark.parametrize("make", [robot, lambda: kt.zoo.chain(4), kt.zoo.double_pendulum])
def test_reach_is_the_same_on_both_engines(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted = recursions_of(make()).reach
    monkeypatch.setattr(once, "_FEW", 0)
    assert recursions_of(make()).reach.tobytes() == interpreted.tobytes()


def test_rounding() -> None:
    numbers = np.array([0.0, 1.0, 1.0 + 2.0**-40, 3.0e-300, 1.0 / 3.0, 2.0**80 / 3.0, -0.1])
    found = once.to_single(numbers)
    np.testing.assert_array_equal(found[:3], [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(found[4:], numbers[4:].astype(np.float32).astype(np.float64))
    np.testing.assert_allclose(found, numbers, rtol=2.0**-24)
