"""The relations of [J11] between spatial operators, on trees of nodes of many dimensions and on robots.

Printed relations are corrected where the paper's are misprints: (36), second form, and (37). Relations between blocks,
and the recursions, are in `test_operator_elements.py`.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.operators import Operator, Operators
from tests.laws.operator_cases import CASES, abstract, case, of_robot
from tests.tolerance import assert_close


@pytest.fixture(params=CASES)
def o(request: Any) -> Operators:
    return case(request.param)


def same(left: Operator, right: Operator, tolerance: float = 1e-9) -> None:
    assert left.shape == right.shape
    x = np.random.default_rng(3).normal(size=(left.shape[1], 2))
    assert_close(left @ x, right @ x, tolerance)


def vanishes(operator: Operator, beside: Operator) -> None:
    x = np.random.default_rng(3).normal(size=(operator.shape[1], 2))
    y = np.random.default_rng(3).normal(size=(beside.shape[1], 2))
    assert np.abs(operator @ x).max() < 1e-10 * np.abs(beside @ y).max()


def test_lemmas_1_and_2_gather_and_scatter(o: Operators) -> None:
    same((o.I - o.E_A) @ o.A, o.I)
    same(o.A @ (o.I - o.E_A), o.I)
    same(o.A.T, o.I + o.E_A.T @ o.A.T)
    x, y = np.random.default_rng(0).normal(size=(2, o.A.shape[0]))
    assert_close(y @ (o.A @ x), (o.A.T @ y) @ x, 1e-12, float(np.abs(y).max() * np.abs(o.A @ x).max() * len(x)))


def test_lemma_3_lyapunov(o: Operators) -> None:
    strict = o.A - o.I
    same(o.A @ o.M @ o.A.T, o.R + strict @ o.R + o.R @ strict.T)
    same(o.M, o.R - o.E_A @ o.R @ o.E_A.T)


def test_lemma_4_mass_matrix(o: Operators) -> None:
    strict = o.A - o.I
    same(o.H @ o.A @ o.M @ o.A.T @ o.H.T, o.H @ (o.R + strict @ o.R + o.R @ strict.T) @ o.H.T)


def test_lemma_7_riccati(o: Operators) -> None:
    same(o.M, o.P - o.E_A @ (o.P - o.P @ o.H.T @ o.D_inverse @ o.H @ o.P) @ o.E_A.T)
    same(o.D, o.H @ o.P @ o.H.T)
    same(o.D @ o.D_inverse, o.I_dof)
    same(o.G, o.P @ o.H.T @ o.D_inverse)


def test_lemma_8(o: Operators) -> None:
    same(o.E_psi, o.E_A @ o.tau_bar)
    same(o.M, o.P - o.E_psi @ o.P @ o.E_psi.T)
    same(o.M, o.P - o.E_psi @ o.P @ o.E_A.T)  # (36), corrected
    vanishes(o.E_psi @ o.G, o.K)  # (37) as printed


def test_lemma_9(o: Operators) -> None:
    strict_A, strict_psi = o.A - o.I, o.psi - o.I
    same(o.H @ o.G, o.I_dof)
    same(o.H @ o.tau, o.H)
    vanishes(o.H @ o.tau_bar, o.H)
    same(o.innovations, o.H @ o.A @ o.G)
    same(o.H @ o.A @ o.tau_bar, o.H @ o.A @ o.E_psi)
    same(o.H @ o.A @ o.tau, o.H @ o.A @ (o.I - o.E_psi))
    same(o.A @ o.M @ o.psi.T, o.P + strict_A @ o.P + o.P @ strict_psi.T)


def test_lemma_10(o: Operators) -> None:
    strict_A, strict_psi = o.A - o.I, o.psi - o.I
    same(o.psi @ o.M @ o.psi.T, o.P + strict_psi @ o.P + o.P @ strict_psi.T)
    same(o.E_A - o.E_psi, o.K @ o.H)
    same((o.I - o.E_psi) @ o.A, o.I + o.K @ o.H @ o.A)
    same(o.A @ (o.I - o.E_psi), o.I + o.A @ o.K @ o.H)
    same((o.I - o.E_A) @ o.psi, o.I - o.K @ o.H @ o.psi)
    same(o.psi @ (o.I - o.E_A), o.I - o.psi @ o.K @ o.H)
    same(o.innovations_inverse @ o.H @ o.A, o.H @ o.psi)
    same(o.A @ o.K @ o.innovations_inverse, o.psi @ o.K)
    same(o.innovations @ o.H @ o.psi, o.H @ o.A)
    same(o.psi @ o.K @ o.innovations, o.A @ o.K)
    same(o.H @ o.psi @ o.M @ o.psi.T @ o.H.T, o.D)
    same(o.A @ o.M @ o.A.T, o.P + strict_A @ o.P + o.P @ strict_A.T + o.A @ o.K @ o.D @ o.K.T @ o.A.T)
    same(o.A @ o.M @ o.A.T @ o.H.T, (o.I + o.A @ o.K @ o.H) @ o.P @ o.A.T @ o.H.T)


def test_lemma_11_factorisation_and_inverse(o: Operators) -> None:
    same(o.mass, o.innovations @ o.D @ o.innovations.T)
    same(o.innovations @ o.innovations_inverse, o.I_dof)
    same(o.mass_inverse @ o.mass, o.I_dof, 1e-7)


def test_equations_59_and_60_operational_space(o: Operators) -> None:
    B = np.random.default_rng(2).normal(size=(o.A.shape[0], 4))
    J_transposed = o.H @ o.A @ B
    assert_close(B.T @ (o.Omega @ B), J_transposed.T @ (o.mass_inverse @ J_transposed), 1e-7)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_named_functions(engine: str) -> None:
    robot = kt.zoo.random_tree(5, kinds=("revolute", "prismatic"), seed=1, armature=True)
    rng = np.random.default_rng(0)
    q, X = robot.random_configuration(rng), rng.normal(size=(robot.nv, 3))
    o = robot.operators(q, engine=engine)
    M = robot.mass_matrix(q)
    assert_close(o.mass @ X, M @ X, 1e-12)
    assert_close(o.mass.dense(), M, 1e-12)
    assert_close(o.mass_inverse @ X, np.linalg.solve(M, X), 1e-9)
    assert_close(o.innovations @ (o.D @ (o.innovations.T @ X)), M @ X, 1e-12)


def test_engines_agree_on_abstract_nodes() -> None:
    plan = ((-1, 4, 2), (0, 3, 1), (-2, 5, 2))
    for one in ("mass", "mass_inverse", "Omega", "psi"):
        reference, native = (getattr(abstract(3, plan, engine=e), one) for e in ("reference", "native"))
        x = np.random.default_rng(0).normal(size=(reference.shape[1], 5))
        assert_close(native @ x, reference @ x, 1e-11)
        assert np.array_equal((native @ x)[:, 2], native @ x[:, 2])


def test_products_fuse_into_few_sweeps() -> None:
    o = of_robot(kt.zoo.random_tree(4, seed=0))
    expected = {
        o.A: 1, o.A.T: 1, o.mass: 2, o.mass_inverse: 2, o.Omega: 2, o.A @ o.M @ o.A: 1, o.mass @ o.mass: 4,
        o.mass_inverse @ o.mass: 3, o.M: 0, o.mass + o.innovations: 2, o.E_A: 1, o.E_psi @ o.E_A.T: 2,
    }  # fmt: skip
    assert {str(operator): o.sweeps(operator) for operator in expected} == {str(k): n for k, n in expected.items()}


@pytest.mark.parametrize("count", [5, 6, 9, 10])
def test_each_turn_of_a_product_is_a_sweep(count: int) -> None:
    """Gathers and scatters that alternate cannot be fused; factors between them are free."""
    o = of_robot(kt.zoo.random_tree(4, seed=0))
    steps: list[Any] = [o.A @ o.M, o.psi.T @ o.H.T @ o.D_inverse @ o.H]
    operator: Any = o.I
    for i in range(count):
        operator = steps[i % 2] @ operator
    assert o.sweeps(operator) == count
    assert o.sweeps(operator.T) == count
    assert o.sweeps(operator + o.A @ operator.T @ operator) == 2 * count + 1


@pytest.mark.parametrize(("seed", "engine"), [*((seed, "reference") for seed in range(8)), (0, "native")])
def test_long_expressions_are_products_of_matrices(seed: int, engine: str) -> None:
    """Up to ten factors that travel, with sums of them and block diagonals in between, against NumPy."""
    rng = np.random.default_rng(seed)
    o = of_robot(kt.zoo.random_tree(5, seed=seed, armature=True), engine)
    pairs = [
        (one, one.dense()) for one in (o.A, o.A.T, o.psi, o.psi.T, o.E_A, o.E_A.T, o.E_psi, o.E_psi.T, o.tau_bar.T)
    ]
    operator: Any = o.mass_inverse @ o.H
    dense = o.mass_inverse.dense() @ o.H.dense()
    for _ in range(5):
        (one, its), (other, others) = (pairs[i] for i in rng.choice(len(pairs), 2, replace=False))
        (left, lefts) = pairs[rng.integers(len(pairs))]
        factor = float(rng.uniform(-2.0, 2.0))
        operator, dense = operator @ (one - factor * other) @ left, dense @ (its - factor * others) @ lefts
        scale = np.abs(dense).max()
        operator, dense = operator * float(1.0 / scale), dense / scale
    assert o.sweeps(operator) > 4
    x = rng.normal(size=(operator.shape[1], 2))
    y = rng.normal(size=operator.shape[0])
    assert_close(operator @ x, dense @ x, 1e-11)
    assert_close(operator.T @ y, dense.T @ y, 1e-11)


def test_patterns_and_pictures() -> None:
    """The tree of [J11] §7: segments 4 ← {1, 2}, 5 ← {3, 4}."""
    builder = kt.Builder("figure")
    lengths, parents = {5: 2, 4: 2, 3: 2, 2: 3, 1: 2}, {5: None, 4: 5, 3: 5, 2: 4, 1: 4}
    inertia = {"mass": 1.0, "com": (0.1, 0.2, 0.3), "inertia": np.eye(3), "placement": (np.eye(3), (0.3, 0.2, 0.1))}
    for segment, count in lengths.items():
        for i in range(count):
            above = f"{segment}.{i - 1}" if i else "world" if parents[segment] is None else f"{parents[segment]}.1"
            builder.add_body(f"{segment}.{i}", parent=above, axis=(0.6, 0.0, 0.8), **inertia)
    robot = builder.build()
    o = robot.operators(np.linspace(0.3, 1.7, robot.nv))
    for operator in (o.E_A, o.A, o.mass, o.mass_inverse, o.A.T, o.innovations):
        rows, columns = (s // len(robot.mechanism.kinds) for s in operator.shape)
        n = len(robot.mechanism.kinds)
        blocks = np.abs(operator.dense().reshape(n, rows, n, columns)).max(axis=(1, 3)) > 1e-12
        assert np.array_equal(blocks, operator.pattern())
    assert o.A.picture().splitlines()[0].count("#") == 1
    assert o.A.picture().splitlines()[-1].count("#") == robot.nv
    assert o.A.picture().count("\n\n") == 4  # five segments


def test_scipy_takes_operators() -> None:
    linalg = pytest.importorskip("scipy.sparse.linalg")
    robot = kt.zoo.random_tree(5, kinds=("revolute",), seed=1)
    q, b = robot.random_configuration(0), np.ones(robot.nv)
    o = robot.operators(q)
    x, info = linalg.cg(o.mass, b, rtol=1e-12, M=o.mass_inverse)
    assert info == 0
    assert_close(x, robot.mass_matrix_solve(q, b), 1e-8)
    operator = linalg.aslinearoperator(o.A)
    y = np.ones((o.A.shape[0], 2))
    assert_close(operator.rmatmat(y), o.A.T @ y, 1e-13)
    assert_close(operator.rmatvec(y[:, 0]), o.A.T @ y[:, 0], 1e-13)


def test_operators_are_values() -> None:
    robot = kt.zoo.chain(3)
    o = robot.operators(np.ones(3))
    again = pickle.loads(pickle.dumps(o.mass))
    assert np.array_equal(again.dense(), o.mass.dense())
    same(again @ o.mass_inverse, o.I_dof)
    assert repr(o.mass) == "<Operator H A M Aᵀ Hᵀ, 3×3>"
    assert "chain" in repr(o)
    assert np.array_equal((2.0 * o.I_dof - o.I_dof * 3) @ np.ones(3), -np.ones(3))
    assert np.array_equal(-o.I_dof @ np.ones(3), -np.ones(3))
    assert np.array_equal(o.I @ np.ones(18, dtype=int), np.ones(18))
    assert o.mass.T.T is not None
    assert o.mass.dtype == np.float64


def test_operators_that_do_not_fit() -> None:
    robot = kt.zoo.chain(3)
    o, other = robot.operators(np.ones(3)), robot.operators(np.zeros(3))
    error = kt.errors.InputError
    for combine in (lambda: o.A @ other.A, lambda: o.A + other.A):
        with pytest.raises(error, match="belong to different robots or configurations.*from one robot.operators"):
            combine()
    with pytest.raises(error, match="H takes node velocities, but H gives joint velocities"):
        o.H @ o.H
    with pytest.raises(error, match="A and H act between different spaces"):
        o.A + o.H
    with pytest.raises(error, match=r"A is 18×18 and cannot multiply an array of shape \(3,\)"):
        o.A @ np.ones(3)
    with pytest.raises(error, match="cannot multiply"):
        o.A @ "abc"
    with pytest.raises(error, match="operators are added to operators only; got int"):
        o.A + 1
    with pytest.raises(error, match="operators are multiplied by numbers"):
        o.A * o.A
    with pytest.raises(error, match="operators: q"):
        robot.operators(np.ones(4))
    with pytest.raises(error, match=r"q is one configuration, \(3,\)"):
        robot.operators(np.ones((2, 3)))
    with pytest.raises(kt.errors.UnknownNameError, match="engine"):
        _ = robot.operators(np.ones(3), engine="quantum").mass @ np.ones(3)
    massless = kt.Builder().add_body("b").build()
    with pytest.raises(kt.errors.SingularMechanismError, match="'b'"):
        _ = massless.operators(np.zeros(1)).D @ np.ones(1)
