"""The recursions on nodes that are not rigid bodies: other dimensions, non-square and singular weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.forward_dynamics import forward_dynamics
from kinetree.algorithms.inverse_dynamics import inverse_dynamics
from kinetree.algorithms.mass_matrix_solve import mass_matrix_pivots, mass_matrix_solve
from kinetree.engines.function import Function
from kinetree.recursion.mechanism import Mechanism
from tests.unit.dense_nodes import abstract_model

RIGID = kt.zoo.random_tree(4, kinds=("revolute", "prismatic", "spherical"), seed=5).mechanism


@pytest.fixture(params=[None, RIGID], ids=["dense", "dense on rigid"])
def mechanism(request: Any) -> Mechanism:
    return abstract_model(7, request.param)


@pytest.fixture(params=["reference", "native"])
def functions(request: Any, mechanism: Mechanism) -> dict[str, Any]:
    algorithms = (inverse_dynamics, forward_dynamics, mass_matrix_solve, mass_matrix_pivots)
    return {a.name: Function(a.name, mechanism, a).engine(request.param) for a in algorithms}


def test_forward_inverts_inverse(functions: dict[str, Any], mechanism: Mechanism) -> None:
    q, v, a = np.random.default_rng(0).normal(size=(3, 2, mechanism.nq))
    v, a = v[:, : mechanism.nv], a[:, : mechanism.nv]
    tau = functions["inverse_dynamics"](q, v, a)
    np.testing.assert_allclose(functions["forward_dynamics"](q, v, tau), a, rtol=0, atol=1e-8)


def test_factorisation_agrees_with_the_dense_mass_matrix(functions: dict[str, Any], mechanism: Mechanism) -> None:
    rng = np.random.default_rng(1)
    q, x = rng.normal(size=mechanism.nq), rng.normal(size=mechanism.nv)
    rest = np.zeros(mechanism.nv)
    columns = functions["inverse_dynamics"](q, rest, np.eye(mechanism.nv))
    M = (columns - functions["inverse_dynamics"](q, rest, rest)).T
    cond = np.linalg.cond(M)
    np.testing.assert_allclose(M, M.T, rtol=0, atol=1e-13 * np.abs(M).max())
    solved = functions["mass_matrix_solve"](q, x)
    expected = np.linalg.solve(M, x)
    np.testing.assert_allclose(solved, expected, rtol=0, atol=1e-14 * cond * np.abs(expected).max())
    log_det = -np.log(functions["mass_matrix_pivots"](q)).sum()
    np.testing.assert_allclose(log_det, np.linalg.slogdet(M)[1], rtol=0, atol=1e-14 * cond)


def test_engines_agree(mechanism: Mechanism) -> None:
    rng = np.random.default_rng(2)
    q, v, a = rng.normal(size=(3, 5, mechanism.nq))
    v, a = v[:, : mechanism.nv], a[:, : mechanism.nv]
    f = Function("inverse_dynamics", mechanism, inverse_dynamics)
    expected = f.engine("reference")(q, v, a)
    np.testing.assert_allclose(f(q, v, a), expected, rtol=0, atol=1e-13 * np.abs(expected).max())


def test_operations_are_counted(mechanism: Mechanism) -> None:
    counted = Function("inverse_dynamics", mechanism, inverse_dynamics).count()
    assert counted.multiplications > 500
    assert counted.divisions == sum(kind.name == "spherical" for kind in mechanism.kinds)
