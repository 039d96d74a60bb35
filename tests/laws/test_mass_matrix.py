"""The mass matrix, its inverse, its determinant and its rate."""

from __future__ import annotations

import numpy as np
import pytest

from tests.laws.cases import ENGINES, Case, cases
from tests.laws.test_dynamics import H, peak
from tests.tolerance import assert_close, bound, condition
from tests.trees import mixed, random_mechanism


@pytest.mark.parametrize("case", cases(), ids=str)
def test_kinetic_energy(case: Case) -> None:
    """T = ½ vᵀ M v."""
    q, v, _ = case.state
    M = case.on("mass_matrix", q)
    kinetic, _ = case.on("energy", q, v)
    scale = peak(np.einsum("...i,...ij,...j->...", np.abs(v), np.abs(M), np.abs(v)))
    assert_close(np.einsum("...i,...ij,...j->...", v, M, v) / 2, kinetic, case.tolerance, scale)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_columns_are_inverse_dynamics_of_unit_accelerations(case: Case) -> None:
    q, v, _ = case.state
    M = case.on("mass_matrix", q)
    rng = np.random.default_rng(3)
    for i in rng.choice(case.robot.nv, size=min(2, case.robot.nv), replace=False):
        a = np.zeros_like(v)
        a[..., i] = 1.0
        still = np.zeros_like(v)
        column = case.on("inverse_dynamics", q, still, a) - case.on("gravity_forces", q)
        assert_close(M[..., i], column, case.tolerance, peak(case.on("gravity_forces", q), M))


@pytest.mark.parametrize("case", cases(), ids=str)
def test_inverse(case: Case) -> None:
    q, _, _ = case.state
    product = case.on("mass_matrix", q) @ case.on("mass_matrix_inverse", q)
    assert_close(product, np.broadcast_to(np.eye(case.robot.nv), product.shape), case.solving_tolerance)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(3))
def test_inverse_of_deep_trees(seed: int, engine: str) -> None:
    """With many ancestors and siblings, for which M and M⁻¹ have recursions of their own."""
    robot = random_mechanism("deep", mixed(40, seed), seed, branching=0.15, reach=0.1, armature=0.5).kinetree()
    q = robot.random_configuration(seed)
    M, inverse = (getattr(robot, name).engine(engine)(q) for name in ("mass_matrix", "mass_matrix_inverse"))
    assert_close(M @ inverse, np.eye(robot.nv), bound(robot.nv, condition(M)))


@pytest.mark.parametrize("case", cases(), ids=str)
def test_symmetric_bit_for_bit(case: Case) -> None:
    q, _, _ = case.state
    for name in ("mass_matrix", "mass_matrix_inverse"):
        matrix = case.on(name, q)
        np.testing.assert_array_equal(matrix, np.swapaxes(matrix, -1, -2))


@pytest.mark.parametrize("case", cases(), ids=str)
def test_solve(case: Case) -> None:
    """M (M⁻¹ x) = x, without M⁻¹ being formed."""
    q, _, x = case.state
    solution = case.on("mass_matrix_solve", q, x)
    M = case.on("mass_matrix", q)
    assert_close(np.einsum("...ij,...j->...i", M, solution), x, case.solving_tolerance)
    inverse = case.on("mass_matrix_inverse", q)
    expected = np.einsum("...ij,...j->...i", inverse, x)
    assert_close(solution, expected, case.solving_tolerance, peak(np.abs(inverse)))


@pytest.mark.parametrize("case", cases(), ids=str)
def test_determinant_is_the_product_of_hinge_inertias(case: Case) -> None:
    """det M = ∏ det D(k), [J11] Corollary 6.1."""
    q, _, _ = case.state
    sign, logarithm = np.linalg.slogdet(case.on("mass_matrix", q))
    assert np.all(sign == 1.0)
    assert_close(case.on("mass_matrix_log_determinant", q), logarithm, case.solving_tolerance, peak(logarithm))
    if np.all(np.abs(logarithm) < 100):
        determinant = case.on("mass_matrix_determinant", q)
        assert_close(determinant / np.exp(logarithm), np.ones(case.shape), case.solving_tolerance)


#: Robots with axes at right angles, some of which do not feel each other: rounding decides how exactly.
SYMMETRIC = ("humanoid24", "asimo35")


@pytest.mark.parametrize("case", cases(), ids=str)
def test_sparsity_is_topology(case: Case) -> None:
    """Entries of joints of which neither supports the other are exactly zero; on random trees no other block is."""
    q, _, _ = case.state
    M = case.on("mass_matrix", q)
    mechanism = case.robot.mechanism
    starts, topology = mechanism.v_starts, mechanism.topology
    related = np.zeros((case.robot.nv, case.robot.nv), dtype=bool)
    for node, parent in enumerate(mechanism.parents):
        columns = slice(starts[node], starts[node + 1])
        if parent >= 0:  # what supports the parent supports the node
            related[:, columns] = related[:, starts[parent] : starts[parent] + 1]
        related[columns, columns] = True
        if len(topology) < 100 and case.name not in SYMMETRIC:
            for ancestor in topology.support(node):
                rows = slice(starts[ancestor], starts[ancestor + 1])
                assert np.all(np.any(M[..., rows, columns] != 0.0, axis=(-1, -2)))
    assert np.all(M[..., ~(related | related.T)] == 0.0)


@pytest.mark.parametrize("case", cases(long=False, complex_step=True), ids=str)
def test_rate_minus_twice_coriolis_is_skew(case: Case) -> None:
    """xᵀ (Ṁ − 2C) x = 0 for every x: the Coriolis matrix does no work of its own."""
    q, v, _ = case.state
    rate = case.exact("mass_matrix", q + 1j * H * case.q_rate).imag / H
    C = case.on("coriolis_matrix", q, v)
    difference = rate - 2.0 * C
    assert_close(difference, -np.swapaxes(difference, -1, -2), case.tolerance, peak(rate, C))


@pytest.mark.parametrize("case", cases(), ids=str)
def test_coriolis_matrix_gives_the_velocity_part_of_the_bias(case: Case) -> None:
    q, v, _ = case.state
    C = case.on("coriolis_matrix", q, v)
    bias = case.on("bias_forces", q, v)
    gravity = case.on("gravity_forces", q)
    scale = peak(bias, gravity, np.einsum("...ij,...j->...i", np.abs(C), np.abs(v)))
    assert_close(np.einsum("...ij,...j->...i", C, v) + gravity, bias, case.tolerance, scale)
