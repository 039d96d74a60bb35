"""Terms of optimal control from functions of JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinetree import ocp
from kinetree.errors import InputError
from tests.oracle import oracle
from tests.unit.ocp.cases import four_bar, walker

jax = oracle("jax")


def test_terms_from_jax() -> None:
    """On a manifold, in float64 whatever JAX's own setting; and the same optimum as with derivatives by hand."""
    robot, rng = walker(), np.random.default_rng(0)

    def residual(q: Any, v: Any, u: Any) -> Any:
        turned = q[3] * q[5] - q[4] * q[6]
        return jax.numpy.array([turned, q[0] * v[2], jax.numpy.sin(q[8]) * u[1]])

    term = ocp.jax_term(residual, 3, weight=2.0, name="own")
    problem = ocp.Problem(robot, 0.02, 4, [term, ocp.control(weight=0.1)])
    errors = problem.check(robot.random_configuration(rng), rng.normal(size=robot.nv), rng.normal(size=6))
    assert errors["own"] < 1e-8

    q = robot.neutral()
    terms = [ocp.state(weight=0.1), ocp.control(weight=1e-2)]
    mine = ocp.jax_term(lambda q, _v, _u: q[7:] - 0.3, 6, weight=5.0, name="own")
    nv = robot.nv
    rows = np.zeros((6, 2 * nv))
    rows[:, 6:nv] = np.eye(6)

    def by_hand(q: Any, v: Any, u: Any) -> Any:
        lead = q.shape[:-1]
        return q[..., 7:] - 0.3, np.broadcast_to(rows, (*lead, *rows.shape)), np.zeros((*lead, 6, u.shape[-1]))

    plans = [
        ocp.Problem(robot, 0.02, 10, [*terms, own]).solve(q).require()
        for own in (mine, ocp.Term(by_hand, 6, weight=5.0, name="own"))
    ]
    np.testing.assert_allclose(plans[0].u, plans[1].u, rtol=0.0, atol=1e-9)


def test_residuals_of_wrong_size() -> None:
    problem = ocp.Problem(walker(), 0.02, 4, [ocp.jax_term(lambda q, _v, _u: q[:2], 3, name="own"), ocp.control()])
    with pytest.raises(InputError, match=r"'own' returns a residual of shape \(2,\)"):
        problem.solve(walker().neutral())


def test_terms_from_jax_on_robots_with_loops() -> None:
    """Of joints that depend on others."""
    robot = four_bar()
    problem = ocp.Problem(robot, 0.02, 4, [ocp.jax_term(lambda q, _v, _u: jax.numpy.sin(q), 4, name="own")])
    assert problem.check(robot.neutral(), np.ones(2), np.ones(2))["own"] < 1e-8
