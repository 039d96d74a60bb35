"""Tasks of robots with loops and coupled joints: definitions, and the dynamics that they describe."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from tests.tolerance import assert_close, bound, condition
from tests.unit.test_closed_loops import suspended
from tests.unit.test_couplings import hand

FRAMES = {"hand": "nail", "suspended": None}


@cache
def robot(name: str) -> kt.Model:
    return hand(coupled=True) if name == "hand" else suspended()


@cache
def tasks(name: str) -> Any:
    of = robot(name)
    return of.tasks([kt.Task(FRAMES[name] or of.frames[-1], (2, 3)), kt.CenterOfMassTask((3,))])


def states(of: kt.Model) -> tuple[Any, Any]:
    return of.random_configuration(1, 3), np.random.default_rng(1).uniform(-1, 1, (3, of.nv))


@pytest.mark.parametrize("name", FRAMES)
def test_definitions(name: str) -> None:
    of, made = robot(name), tasks(name)
    q, v = states(of)
    frame = made.tasks[0].frame
    J, M = made.jacobian(q), of.mass_matrix(q)
    tolerance = bound(of.nv, condition(M))
    rows = np.concatenate([of.jacobian(q, frame)[..., [2, 3], :], of.center_of_mass_jacobian(q)[..., :1, :]], axis=-2)
    assert_close(J, rows, bound(of.nv))
    assert_close(made.jacobian_dot_v(q, v)[..., :2], of.jacobian_dot_v(q, v, frame)[..., [2, 3]], bound(of.nv))
    A = made.inverse_inertia(q)
    assert_close(A, J @ np.linalg.solve(M, np.swapaxes(J, -1, -2)), tolerance)
    for i in range(3):
        for function in (made.inverse_inertia, made.inertia, made.jacobian):
            assert np.array_equal(function(q[i]), function(q)[i])
        assert np.array_equal(made.bias(q[i], v[i]), made.bias(q, v)[i])
    assert_close(made.inverse_inertia.engine("reference")(q[0]), A[0], tolerance)
    assert np.array_equal(pickle.loads(pickle.dumps(made.inertia))(q), made.inertia(q))
    out = np.empty_like(A)
    assert made.inverse_inertia(q, out=out) is out
    assert np.array_equal(out, A)


@pytest.mark.parametrize("name", FRAMES)
def test_forces_accelerate_tasks(name: str) -> None:
    """With τ = JᵀF, Λ ẍ + bias = F, if all rows can move; ẍ from forward dynamics."""
    of = robot(name)
    made = of.tasks([kt.Task(FRAMES[name] or of.frames[-1], (3,))], singular="raise")
    q, v = states(of)
    F = np.array([0.7])
    inertia, consistent, nullspace = made.dynamics(q[0])
    J = made.jacobian(q[0])
    a = of.forward_dynamics(q[0], v[0], J.T @ F)
    motion = J @ a + made.jacobian_dot_v(q[0], v[0])
    tolerance = bound(of.nv, condition(of.mass_matrix(q[0])))
    assert_close(
        inertia @ motion + made.bias(q[0], v[0]), F, tolerance, float(np.abs(made.bias(q[0], v[0])).max()) + 1.0
    )
    assert_close(J @ consistent, np.eye(1), tolerance)
    assert_close(J @ nullspace, np.zeros((1, of.nv)), tolerance, float(np.abs(J).max()))
