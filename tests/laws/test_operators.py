"""The relations of [J11] between spatial operators, their blocks, and the recursions that evaluate them.

On trees of nodes of many dimensions and on robots. Printed relations are corrected where the paper's are misprints:
(36), second form, and (37). `docs/operators.md` says where each one is tested.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

import pickle
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.operators import Operator, Operators
from kinetree.runtime import reference
from tests.laws.operator_cases import CASES, Dense, abstract, case, dense, of_robot, stacked
from tests.tolerance import Array, assert_close, peak, refused


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
        refused("belong to different robots or configurations.*from one robot.operators", combine, error=error)
    refused("H takes node velocities, but H gives joint velocities", lambda: o.H @ o.H, error=error)
    refused("A and H act between different spaces", lambda: o.A + o.H, error=error)
    refused(r"A is 18×18 and cannot multiply an array of shape \(3,\)", lambda: o.A @ np.ones(3), error=error)
    refused("cannot multiply", lambda: o.A @ "abc", error=error)
    refused("operators are added to operators only; got int", lambda: o.A + 1, error=error)
    refused("operators are multiplied by numbers", lambda: o.A * o.A, error=error)
    refused("operators: q", robot.operators, np.ones(4), error=error)
    with pytest.raises(kt.errors.UnknownNameError, match="engine"):
        _ = robot.operators(np.ones(3), engine="quantum").mass @ np.ones(3)
    massless = kt.Builder().add_body("b").build()
    refused("'b'", lambda: massless.operators(np.zeros(1)).D @ np.ones(1), error=kt.errors.SingularMechanismError)


#: Relative to the largest numbers involved.
TOLERANCE = 1e-10


@pytest.fixture(params=CASES)
def d(request: Any) -> Dense:
    return dense(request.param)


def vector(size: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=size)


def test_an_spo_operator_multiplies_weights_along_paths(d: Dense) -> None:
    """The closed sums of (6) and (9): A(i, j) = A(i, p(j)) A(p(j), j) below i, one at i, zero elsewhere."""
    for spo, weights in ((d.A, d.E_A), (d.psi, d.E_psi)):
        expected = np.eye(len(spo))
        for i, j in product(d.nodes, d.nodes):
            if i != j and d.supports(i, j):
                p = d.parents[j]
                expected[d.own(i), d.own(j)] = d.block(spo, i, p) @ d.block(weights, p, j)
        assert_close(spo, expected, TOLERANCE)
        assert not spo[expected == 0.0].any()


def test_lemmas_1_and_2_and_corollary_3_1(d: Dense) -> None:
    """(4), (5) and (7), (8); then the same recursions of Ã = A − 1."""
    x = vector(len(d.A))
    gathered, scattered = d.operators.A @ x, d.operators.A.T @ x
    strict = d.operators.A - d.operators.I
    below, above = strict @ x, strict.T @ x
    for k in d.nodes:
        own, p = d.own(k), d.parents[k]
        inward = [(d.block(d.E_A, k, i), d.own(i)) for i in d.children(k)]
        assert_close(gathered[own], sum((W @ gathered[i] for W, i in inward), x[own]), TOLERANCE)
        assert_close(below[own], sum((W @ (below[i] + x[i]) for W, i in inward), 0.0 * x[own]), TOLERANCE)
        outward = np.zeros((len(x[own]), 0)) if p < 0 else d.block(d.E_A, p, k).T
        there = slice(0, 0) if p < 0 else d.own(p)
        assert_close(scattered[own], outward @ scattered[there] + x[own], TOLERANCE)
        assert_close(above[own], outward @ (above[there] + x[there]), TOLERANCE)


def test_lemma_3_blocks(d: Dense) -> None:
    """(12) to (16), for B = A, where Y is the composite inertia, and for B = ψ, where it is the articulated one."""
    for Y, B, E_B in ((d.R, d.A, d.E_A), (d.P, d.psi, d.E_psi)):
        carried = d.E_A @ Y @ E_B.T
        assert_close(carried, d.diagonal(carried), TOLERANCE)  # (16)
        assert_close(Y - carried, d.M, TOLERANCE, peak(Y))  # (12)
        Z = d.A @ d.M @ B.T
        scale = peak(Z)
        for k in d.nodes:
            parts = [d.block(d.E_A, k, j) @ d.block(Y, j, j) @ d.block(E_B, k, j).T for j in d.children(k)]
            assert_close(sum(parts, d.block(d.M, k, k)), d.block(Y, k, k), TOLERANCE, scale)  # (13), (14)
        expected = np.array(Y)
        for i, j in product(d.nodes, d.nodes):
            if i != j and d.supports(i, j):
                (k,) = (c for c in d.children(i) if d.supports(c, j))
                expected[d.own(i), d.own(j)] = d.block(d.E_A, i, k) @ d.block(Z, k, j)
            elif i != j and d.supports(j, i):
                (k,) = (c for c in d.children(j) if d.supports(c, i))
                expected[d.own(i), d.own(j)] = d.block(Z, i, k) @ d.block(E_B, j, k).T
        assert_close(Z, expected, TOLERANCE)  # (15)


def backward(d: Dense, A: Array, B: Array, E_A: Array, E_B: Array) -> tuple[Array, Array]:
    """Z = A* X B and the solution Y of its backward Lyapunov equation, by (24)."""
    Y = np.zeros_like(d.X)
    for k in d.nodes:
        own, p = d.own(k), d.parents[k]
        Y[own, own] = d.block(d.X, k, k)
        if p >= 0:
            Y[own, own] += d.block(E_A, p, k).T @ d.block(Y, p, p) @ d.block(E_B, p, k)
    return A.T @ d.X @ B, Y


def test_lemma_5_blocks(d: Dense) -> None:
    """(21) to (26), for A = B = ψ, where Z = Ω, and for A ≠ B."""
    for A, B, E_A, E_B in ((d.psi, d.psi, d.E_psi, d.E_psi), (d.A, d.psi, d.E_A, d.E_psi)):
        Z, Y = backward(d, A, B, E_A, E_B)
        scale = peak(Z)
        assert_close(Y - d.diagonal(E_A.T @ Y @ E_B), d.X, TOLERANCE, scale)  # (22), (23), (26)
        apart, expected = np.zeros_like(Z), np.array(Y)
        for i, j in product(d.nodes, d.nodes):
            at, common = (d.own(i), d.own(j)), d.mechanism.topology.nearest_common_ancestor(i, j)
            if common not in (i, j, -1):
                apart[at] = d.block(A, common, i).T @ d.block(Y, common, common) @ d.block(B, common, j)
            elif i != j and common == j:
                expected[at] = d.block(E_A, d.parents[i], i).T @ d.block(Z, d.parents[i], j)
            elif i != j and common == i:
                expected[at] = d.block(Z, i, d.parents[j]) @ d.block(E_B, d.parents[j], j)
        assert_close(Z, expected + apart, TOLERANCE)  # (25), Algorithm 4.3
        one = np.eye(len(Z))
        assert_close(Y + (A - one).T @ Y + Y @ (B - one) + apart, Z, TOLERANCE, scale)  # (21)
    assert_close(d.Omega, d.psi.T @ d.X @ d.psi, TOLERANCE)


@pytest.mark.parametrize(("name", "holds"), [("abstract chain", True), ("abstract tree", False)])
def test_lemma_6_holds_on_chains_only(name: str, holds: bool) -> None:
    """(27) and (28): without the blocks of unrelated nodes, and without diagOf. (29) runs from the base to the tip."""
    d = dense(name)
    Z, Y = backward(d, d.psi, d.psi, d.E_psi, d.E_psi)
    strict = d.psi - np.eye(len(d.psi))
    errors = (Z - (Y + strict.T @ Y + Y @ strict), d.X - (Y - d.E_psi.T @ Y @ d.E_psi))
    for error in errors:
        worst = np.abs(error).max() / np.abs(Z).max()
        assert (worst < 1e-9) if holds else (worst > 1e-4)


def test_articulation(d: Dense) -> None:
    """(32), (33) and (35): P⁺ = τ̄ P = τ̄ P τ̄*, by which ψ(p, k) = A(p, k) τ̄(k) loses as much rank as k has freedom."""
    tau_bar = np.eye(len(d.P)) - d.G @ d.H
    after = tau_bar @ d.P
    assert_close(after, tau_bar @ d.P @ tau_bar.T, TOLERANCE)
    scale = peak(d.P)
    assert_close(d.P - d.E_A @ after @ d.E_A.T, d.M, TOLERANCE, scale)
    for k in d.nodes:
        n = d.mechanism.kinds[k].nv
        block = d.block(tau_bar, k, k)
        assert np.linalg.matrix_rank(block, tol=1e-8 * max(1.0, peak(block))) == len(block) - n
        if d.parents[k] >= 0:
            weight = d.block(d.E_A, d.parents[k], k)
            assert_close(d.block(d.E_psi, d.parents[k], k), weight @ block, TOLERANCE)


def test_corollary_6_1_determinant(d: Dense) -> None:
    """(52) and (53). Nodes are numbered base first, so that the factor is upper triangular, with a unit diagonal."""
    innovations = d.innovations
    assert_close(np.tril(innovations), np.eye(len(innovations)), 1e-14)
    log_det = np.linalg.slogdet(d.mass)[1]
    starts = d.mechanism.v_starts
    parts = (d.D[a:b, a:b] for a, b in pairwise(starts))
    assert_close(log_det, sum(np.linalg.slogdet(part)[1] for part in parts if part.size), 1e-9)


def test_inverse_and_forward_dynamics(d: Dense) -> None:
    """(1) to (3) and Algorithm 3.1; Lemma 12, (54) to (58), and Algorithm 6.1. E_φ in (58a, e) is E_A."""
    nv, q = d.mechanism.nv, d.operators._q
    v, vdot, T = (vector(nv, seed) for seed in (1, 2, 3))

    def run(algorithm: Any, *arguments: Any) -> Any:
        results = reference.run(algorithm, d.mechanism, (), list(arguments), algorithm.name)
        return results if len(results) > 1 else results[0]

    V, alpha, f, a, b, resistance = run(stacked, q, v, vdot)
    armature = (d.operators.armature @ np.eye(nv)).diagonal()
    A, H, M, P, G, E = d.A, d.H, d.M, d.P, d.G, d.E_A
    size = peak(f)
    assert_close(A.T @ H.T @ v, V, TOLERANCE)
    assert_close(A.T @ (H.T @ vdot + a), alpha, TOLERANCE)
    assert_close(A @ (M @ alpha + b), f, TOLERANCE)
    needed = run(inverse_dynamics, q, v, vdot, np.zeros((0, 6)))
    assert_close(H @ f + armature * vdot + resistance, needed, TOLERANCE, size)
    C = H @ A @ (M @ A.T @ a + b)
    assert_close(d.mass @ vdot + C + resistance, needed, TOLERANCE, size)

    inverse, psi, one = np.linalg.inv(d.D), d.psi, np.eye(nv)
    factor = one - H @ psi @ d.K
    expected = run(forward_dynamics, q, v, T + resistance, np.zeros((0, 6)))
    scale = peak(inverse) * max(1.0, peak(C))
    assert_close(factor.T @ inverse @ factor @ (T - C), expected, TOLERANCE, scale)  # (55)
    left = factor @ C
    assert_close(left, H @ psi @ (M @ A.T @ a + b), TOLERANCE, size)  # (56)
    assert_close(left, (H @ psi @ P + d.D @ d.K.T @ A.T) @ a + H @ psi @ b, TOLERANCE, size)
    right = factor.T @ inverse @ H @ psi @ (P @ a + b) + d.K.T @ psi.T @ a
    assert_close(factor.T @ inverse @ left, right, TOLERANCE, scale)  # (57)
    found = factor.T @ inverse @ (T - H @ psi @ (d.K @ T + P @ a + b)) - d.K.T @ psi.T @ a
    assert_close(found, expected, TOLERANCE, scale)  # (54)

    z = psi @ (d.K @ T + P @ a + b)
    epsilon = T - H @ z  # (58c)
    nu, z_plus = inverse @ epsilon, z + G @ epsilon  # (58d), (58b)
    assert_close(z, E @ z_plus + P @ a + b, TOLERANCE, size)  # (58a)
    accelerations = A.T @ (H.T @ expected + a)
    alpha_plus = E.T @ accelerations  # (58e)
    assert_close(nu - G.T @ alpha_plus, expected, TOLERANCE, scale)  # (58f)
    assert_close(alpha_plus + H.T @ expected + a, accelerations, TOLERANCE)  # (58g)


def test_segments(d: Dense) -> None:
    """(61) to (63): operators partitioned into the serial chains of the tree."""
    segments = d.mechanism.topology.segments
    rows = [np.concatenate([np.arange(s.start, s.stop) for s in map(d.own, segment)]) for segment in segments]
    above = [next((i for i, s in enumerate(segments) if d.parents[each[0]] in s), -1) for each in segments]

    def part(matrix: Array, j: int, k: int) -> Array:
        found: Array = matrix[np.ix_(rows[j], rows[k])]
        return found

    for j, k in product(range(len(segments)), range(len(segments))):
        between = part(d.E_A, j, k)
        if j == k:
            resolvent = np.linalg.inv(np.eye(len(between)) - between)
            assert_close(part(d.A, j, j), resolvent, TOLERANCE)
        elif above[k] == j:  # (62): from the base of segment k to the tip of segment j
            only = np.zeros_like(between)
            n, m = (d.mechanism.kinds[node].dimension for node in (segments[j][-1], segments[k][0]))
            only[-n:, :m] = d.block(d.E_A, segments[j][-1], segments[k][0])
            assert_close(between, only, TOLERANCE)
        else:
            assert not between.any()
        if j != k and d.supports(segments[j][-1], segments[k][0]):
            i = k
            while above[i] != j:
                i = above[i]
            assert_close(part(d.A, j, k), part(d.A, j, j) @ part(d.E_A, j, i) @ part(d.A, i, k), TOLERANCE)  # (63)
        elif j != k:
            assert not part(d.A, j, k).any()
