"""The recursions on nodes that are not rigid bodies: other dimensions, non-square and singular weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix_log_determinant, mass_matrix_solve
from kinetree.language.mechanism import Mechanism
from kinetree.runtime.function import Function
from kinetree.spatial.axial import AxialTransform
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Motion
from kinetree.spatial.transform import Transform
from tests.tolerance import assert_close, bound
from tests.unit.algorithms.dense_nodes import abstract_model

RIGID = kt.zoo.random_tree(4, kinds=("revolute", "prismatic", "spherical"), seed=5).mechanism


CASES = {
    "dense": (None, False),
    "dense on rigid": (RIGID, False),
    "moving": (None, True),
    "moving on rigid": (RIGID, True),
}


@pytest.fixture(params=CASES)
def mechanism(request: Any) -> Mechanism:
    rigid, moving = CASES[request.param]
    return abstract_model(7, rigid, moving)


@pytest.fixture(params=["reference", "native"])
def functions(request: Any, mechanism: Mechanism) -> dict[str, Any]:
    algorithms = (inverse_dynamics, forward_dynamics, mass_matrix_solve, mass_matrix_log_determinant)
    return {a.name: Function(a.name, mechanism, a).engine(request.param) for a in algorithms}


def dense(operator: Any, columns: int) -> Any:
    """The matrix of an operator: what it makes of unit vectors; rigid ones take spatial vectors."""
    unit = Motion if isinstance(operator, (Transform, AxialTransform, RigidInertia)) else np.asarray
    images = [operator @ unit(e) for e in np.eye(columns)]
    return np.stack([getattr(image, "data", image) for image in images], axis=-1)


def mass_matrix(mechanism: Mechanism, q: Any) -> Any:
    """M = Σ Vₖᵀ Mₖ Vₖ from its definition; Vₖ = A*(p, k) Vₚ + Hₖ takes v to the velocity of node k."""
    velocities: dict[int, Any] = {-1: np.zeros((6, mechanism.nv))}
    M = np.zeros((mechanism.nv, mechanism.nv))
    for k, (kind, parent) in enumerate(zip(mechanism.kinds, mechanism.parents)):
        parameters, start = mechanism.parameters[k], mechanism.v_starts[k]
        own = q[mechanism.q_starts[k] : mechanism.q_starts[k + 1]]
        given = (parameters, own) if kind.moving else (parameters,)
        V = dense(kind.weight(parameters, own), len(velocities[parent])) @ velocities[parent]
        if kind.nv:
            V[:, start : start + kind.nv] += dense(kind.joint_map(*given), kind.nv)
        M += V.T @ dense(kind.inertia(*given), len(V)) @ V
        velocities[k] = V
    return M


def states(mechanism: Mechanism, seed: int, *shape: int) -> tuple[Any, Any, Any]:
    q, v, a = np.random.default_rng(seed).normal(size=(3, *shape, mechanism.nq))
    return q, v[..., : mechanism.nv], a[..., : mechanism.nv]


def test_forward_inverts_inverse(functions: dict[str, Any], mechanism: Mechanism) -> None:
    q, v, a = states(mechanism, 0, 2)
    tau = functions["inverse_dynamics"](q, v, a)
    condition = max(np.linalg.cond(mass_matrix(mechanism, each)) for each in q)
    assert_close(functions["forward_dynamics"](q, v, tau), a, bound(mechanism.nv, condition))


def test_inverse_dynamics_agrees_with_the_dense_mass_matrix(functions: dict[str, Any], mechanism: Mechanism) -> None:
    q, v, a = states(mechanism, 3)
    added = functions["inverse_dynamics"](q, v, a) - functions["inverse_dynamics"](q, v, 0 * a)
    M = mass_matrix(mechanism, q)
    assert_close(added, M @ a, bound(mechanism.nv), float(np.abs(M).max()))


def test_factorisation_agrees_with_the_dense_mass_matrix(functions: dict[str, Any], mechanism: Mechanism) -> None:
    q, x, _ = states(mechanism, 1)
    M = mass_matrix(mechanism, q)
    tolerance = bound(mechanism.nv, float(np.linalg.cond(M)))
    assert_close(functions["mass_matrix_solve"](q, x), np.linalg.solve(M, x), tolerance)
    log_det = functions["mass_matrix_log_determinant"](q)
    assert_close(log_det, np.linalg.slogdet(M)[1], tolerance)


def test_engines_agree(mechanism: Mechanism) -> None:
    q, v, a = states(mechanism, 2, 5)
    f = Function("inverse_dynamics", mechanism, inverse_dynamics)
    expected = f.engine("reference")(q, v, a)
    assert_close(f(q, v, a), expected, bound(mechanism.nv))


def test_operations_are_counted(mechanism: Mechanism) -> None:
    counted = Function("inverse_dynamics", mechanism, inverse_dynamics).count()
    assert counted.multiplications > 500
    assert counted.divisions == sum(kind.name == "spherical" for kind in mechanism.kinds)
