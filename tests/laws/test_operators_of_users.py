"""Operators that users specify: frames, block diagonals, Lyapunov equations; blocks, batches and figures."""

from __future__ import annotations

import pickle
from itertools import product
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import UnknownNameError, UnsupportedError
from kinetree.operators.blocks import block_on_path
from tests.laws import test_general_nodes as general
from tests.laws.cases import REFERENCES
from tests.laws.operator_cases import CASES, Dense, case, dense
from tests.tolerance import assert_close, peak, refused
from tests.trees import mixed, random_mechanism

TOLERANCE = 1e-10
ENGINES = ("native", "reference")


def humanoid() -> tuple[kt.Model, Any, list[str]]:
    robot = kt.zoo.humanoid24()
    return robot, robot.random_configuration(3), ["left_hand", "right_hand", "world"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("reference", REFERENCES)
def test_frames_are_picked_in_any_reference(reference: str, engine: str) -> None:
    """J = Bᵀ Aᵀ Hᵀ and J M⁻¹ Jᵀ = Bᵀ Ω B. Eqs. 59, 60."""
    robot, q, frames = humanoid()
    o = robot.operators(q, engine=engine)
    B = o.pick(frames, reference)
    J = robot.jacobian(q, frames, reference).reshape(-1, robot.nv)
    assert_close((B.T @ o.A.T @ o.H.T).dense(), J, TOLERANCE, peak(J))
    assert_close((o.H @ o.A @ B).dense(), J.T, TOLERANCE, peak(J))
    assert_close(B.dense(), B.T.dense().T, TOLERANCE)
    delassus = B.T @ o.Omega @ B
    expected = J @ robot.mass_matrix_inverse(q) @ J.T
    assert_close(delassus.dense(), expected, TOLERANCE, peak(expected))
    one = robot.tasks(frames[:2], reference=reference).inverse_inertia(q)
    assert_close(delassus.block(frames[:2], range(2)), one, TOLERANCE, peak(expected))
    assert o.sweeps(delassus) == 2
    assert o.sweeps(o.mass) == 2


@pytest.mark.parametrize("name", general.NAMES)
def test_frames_on_nodes_of_every_kind(name: str) -> None:
    robot, s, frames = general.robot(name), general.state(name), general.frames(name)
    o = robot.operators(s.q)
    for reference in REFERENCES:
        B = o.pick(frames, reference)
        J = robot.jacobian(s.q, frames, reference).reshape(-1, robot.nv)
        expected = J @ robot.mass_matrix_inverse(s.q) @ J.T
        assert_close((B.T @ o.Omega @ B).dense(), expected, 1e-8, peak(expected))
    if robot.mechanism.reaching is not None:
        refused("B.T @ Omega @ B", lambda: o.A @ B @ np.ones(B.shape[1]), error=UnsupportedError)


def test_operators_of_frames_combine() -> None:
    robot, q, frames = humanoid()
    o = robot.operators(q)
    one, other = o.pick(frames), o.pick("right_foot", "world")
    x = np.random.default_rng(0).normal(size=18)
    J, K = robot.jacobian(q, frames).reshape(18, -1), robot.jacobian(q, "right_foot", "world")
    M_inverse = robot.mass_matrix_inverse(q)
    assert_close(other.T @ o.Omega @ one @ x, K @ M_inverse @ J.T @ x, TOLERANCE)
    damped = one.T @ o.Omega @ one + 0.1 * (one.T @ one)
    assert_close(damped @ x, J @ M_inverse @ J.T @ x + 0.1 * one.dense().T @ one.dense() @ x, TOLERANCE)
    both = one @ one.T @ o.A
    y = np.random.default_rng(1).normal(size=o.A.shape[1])
    assert_close(both @ y, one.dense() @ (one.dense().T @ (o.A @ y)), TOLERANCE)
    refused("several parts", o.sweeps, both)
    again = pickle.loads(pickle.dumps(damped))
    np.testing.assert_array_equal(again @ x, damped @ x)
    refused("motions of right_foot", lambda: one @ other.T, error=kt.errors.InputError)
    refused("frame", o.pick, "wing", error=UnknownNameError)
    refused("reference", o.pick, "left_hand", "base", error=UnknownNameError)


@pytest.mark.parametrize("name", CASES)
def test_lyapunov_equations(name: str) -> None:
    """Lemma 3 with B = A, whose solution is R, and with B = ψ, whose solution is P; Lemma 5 with Ω."""
    o, d = case(name), dense(name)
    assert_close(o.lyapunov(o.M).dense(), d.R, TOLERANCE, peak(d.R))
    P = o.lyapunov(o.M, o.A, o.psi)
    assert_close(P.dense(), d.P, 1e-9, peak(d.R))
    X = o.H.T @ o.D_inverse @ o.H
    Y = o.lyapunov(X, o.psi, backward=True)
    assert_close(Y.dense(), d.diagonal(d.Omega), TOLERANCE, peak(d.Omega))
    assert_close(o.diagonal(o.Omega).dense(), d.diagonal(d.Omega), TOLERANCE, peak(d.Omega))
    mixed_y = o.lyapunov(X, o.A, o.psi, backward=True)
    expected = d.diagonal(d.A.T @ X.dense() @ d.psi)
    assert_close(mixed_y.dense(), expected, TOLERANCE, peak(expected))
    refused("not block diagonal", o.lyapunov, o.A)
    refused("not block diagonal over nodes", o.lyapunov, o.I_dof)
    refused("not block diagonal", o.lyapunov, np.eye(3))
    refused("takes ops.A or ops.psi", o.lyapunov, o.M, o.E_A)


@pytest.mark.parametrize("name", CASES)
def test_block_diagonals(name: str) -> None:
    o, rng = case(name), np.random.default_rng(0)
    d = Dense(o)
    sizes = np.diff(o._mechanism.m_starts)
    blocks = [rng.normal(size=(size, size)) for size in sizes]
    X = o.diagonal(blocks)
    whole = np.zeros(X.shape)
    for k, block in enumerate(blocks):
        whole[d.own(k), d.own(k)] = block
    np.testing.assert_array_equal(X.dense(), whole)
    np.testing.assert_array_equal(X.T.dense(), whole.T)
    for operator, matrix in (
        (o.A @ X @ o.A.T, d.A @ whole @ d.A.T),
        (X @ o.H.T, whole @ d.H.T),
        (X + o.M, whole + d.M),
    ):
        assert_close(operator.dense(), matrix, TOLERANCE, peak(matrix))
        assert_close(operator.T.dense(), matrix.T, TOLERANCE, peak(matrix))
    assert np.array_equal(X.pattern(), np.eye(len(blocks), dtype=bool))
    refused("blocks for", o.diagonal, blocks[1:])
    refused(f"{o.nodes[0]}", o.diagonal, [np.eye(sizes[0] + 1), *blocks[1:]])
    refused("for batch", o.diagonal, [np.zeros((2, sizes[0], sizes[0])), *blocks[1:]])


@pytest.mark.parametrize("name", CASES)
def test_blocks_and_segments(name: str) -> None:
    """Blocks of any operator; §7: E_A and A between segments."""
    o, d = case(name), dense(name)
    count = len(o.nodes)
    for i, j in product(range(count), range(0, count, 2)):
        assert_close(o.Omega.block(i, o.nodes[j]), d.Omega[d.own(i), d.own(j)], TOLERANCE, peak(d.Omega))
    for one, other in product(o.segments, o.segments):
        rows, columns = (np.concatenate([np.r_[d.own(k)] for k in segment]) for segment in (one, other))
        assert_close(o.A.block(one, other), d.A[np.ix_(rows, columns)], TOLERANCE, peak(d.A))
    refused("numbered from 0", o.A.block, 0, count)
    refused("node", o.A.block, 0, "no such node", error=UnknownNameError)


@pytest.mark.parametrize("name", CASES)
def test_blocks_built_from_omega(name: str) -> None:
    """Products of Ω with block diagonals, sums with it, and blocks of several nodes. Algorithm 4.3."""
    o, d = case(name), dense(name)
    rng = np.random.default_rng(0)
    X = o.diagonal([rng.normal(size=(size, size)) for size in np.diff(o._mechanism.m_starts)])
    nodes = o.nodes[::-1]
    for operator in (
        o.Omega,
        o.H @ o.Omega @ X,
        X @ o.M @ o.Omega @ o.H.T,
        0.5 * o.Omega - X @ o.Omega + o.A,
        o.A @ o.Omega,
    ):
        matrix = operator.dense()
        rows, columns = (
            np.concatenate([np.r_[starts[k] : starts[k + 1]] for k in reversed(range(len(nodes)))])
            for starts in (o.starts(operator._expression.rows), o.starts(operator._expression.columns))
        )
        found = operator.block(nodes, nodes)
        assert_close(found, matrix[np.ix_(rows, columns)], TOLERANCE, peak(matrix))
    unrelated = ~o.Omega.pattern()
    for i, j in np.argwhere(unrelated):  # on different trees
        assert not o.Omega.block(int(i), int(j)).any()
    assert peak(d.Omega) > 0.0


@pytest.mark.parametrize("name", general.NAMES)
def test_blocks_between_frames(name: str) -> None:
    """J M⁻¹ Jᵀ of two frames, on nodes of every kind. Eq. 60."""
    robot, s = general.robot(name), general.state(name)
    frames = [*general.frames(name), "world"]
    o = robot.operators(s.q)
    for reference in ("local", "world"):
        B = o.pick(frames, reference)
        J = robot.jacobian(s.q, frames, reference)
        M_inverse = robot.mass_matrix_inverse(s.q)
        delassus = B.T @ o.Omega @ B
        scale = peak(delassus.dense())
        for (i, one), (j, other) in product(enumerate(frames), enumerate(frames)):
            assert_close(delassus.block(one, other), J[i] @ M_inverse @ J[j].T, 1e-8, scale)


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_blocks_of_omega_take_a_product_per_node_of_the_path(n: int) -> None:
    """Of a comb, a spine with a tooth on every node: the path counts, not the tree."""
    read: list[int] = []

    class Counted(list[Any]):
        def __getitem__(self, k: Any) -> Any:
            read.append(k)
            return super().__getitem__(k)

    parents = [k - 2 if k % 2 == 0 and k else k - 1 for k in range(n)]  # spine 0, 2, …; tooth k on node k − 1
    rng = np.random.default_rng(n)
    weights = Counted([None, *(0.4 * rng.normal(size=(n - 1, 6, 6)))])
    Y = [np.eye(6)] * n
    found = block_on_path(Y, weights, parents, n - 1, 3, {})
    assert found is not None
    assert len(read) == len(set(read)) == (n - 2) // 2 - 1 + 2  # down the spine from node 2, and two teeth
    near = n - 3
    read.clear()
    expected = weights[n - 1].T @ weights[n - 2].T @ weights[near]
    read.clear()
    assert_close(block_on_path(Y, weights, parents, n - 1, near, {}), expected, TOLERANCE, peak(expected))
    assert len(read) == 3


def test_blocks_of_omega_need_no_sweep() -> None:
    robot, q, frames = humanoid()
    o = robot.operators(q)
    B = o.pick(frames)
    delassus = B.T @ o.Omega @ B
    whole = delassus.dense()
    delassus.block(0, 0)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a sweep")

    o.bound = refuse  # type: ignore[method-assign]
    assert_close(delassus.block(frames[0], frames[1]), whole[:6, 6:12], TOLERANCE, peak(whole))


def test_batches_have_the_bits_of_single_configurations() -> None:
    robot = random_mechanism("batch", mixed(8, 3), 3, armature=0.5).kinetree()
    rng = np.random.default_rng(0)
    q = robot.random_configuration(rng, (2, 3))
    o = robot.operators(q)
    frame = robot.frames[-1]
    x, columns = rng.normal(size=(2, 3, robot.nv)), rng.normal(size=(robot.nv, 4))
    w = rng.normal(size=6)
    Y = o.lyapunov(o.M, o.A, o.psi)
    B = o.pick(frame)
    results = {
        "apply": o.mass_inverse.apply(x), "matrix": o.mass @ columns, "dense": o.A.dense(), "identity": o.I_dof.dense(),
        "frame": B.T @ o.Omega @ B @ w, "diagonal": (o.H @ Y @ o.H.T).dense(), "block": o.A.block(0, 1),
        "path": o.Omega.block(o.nodes, o.nodes), "between": (B.T @ o.Omega @ B).block(0, 0),
    }  # fmt: skip
    assert results["apply"].shape == (2, 3, robot.nv)
    assert results["matrix"].shape == (2, 3, robot.nv, 4)
    assert results["dense"].shape == (2, 3, *o.A.shape)
    for i, j in product(range(2), range(3)):
        one = robot.operators(q[i, j])
        B, Y = one.pick(frame), one.lyapunov(one.M, one.A, one.psi)
        alone = {
            "apply": one.mass_inverse @ x[i, j], "matrix": one.mass @ columns, "dense": one.A.dense(),
            "identity": one.I_dof.dense(), "frame": B.T @ one.Omega @ B @ w, "block": one.A.block(0, 1),
            "path": one.Omega.block(one.nodes, one.nodes), "between": (B.T @ one.Omega @ B).block(0, 0),
        }  # fmt: skip
        for what, result in alone.items():
            np.testing.assert_array_equal(results[what][i, j], result)
        assert_close(results["diagonal"][i, j], (one.H @ one.P @ one.H.T).dense(), 1e-9)


def test_figures() -> None:
    robot = kt.zoo.humanoid24()
    o = robot.operators(robot.neutral())
    for operator in (o.A, o.mass, o.Omega, o.pick(["left_hand", "right_hand"])):
        root = ET.fromstring(operator.svg(10.0))
        marks, lines = (root[i] for i in (1, 2))
        assert len(marks) == np.count_nonzero(operator.pattern())
        segments = len(o.segments) - 1
        assert len(lines) == (segments if operator.shape[1] == 12 else 2 * segments)
        assert operator.picture().count("#") == len(marks)


def test_operations_grow_with_the_robot_alone() -> None:
    """A product with Bᵀ Ω B, and with an expression of several sweeps, is O(n)."""
    counts = []
    for n in (10, 100, 1000):
        robot = kt.zoo.chain(n)
        o = robot.operators(np.zeros(n))
        counts.append(o.function((o.mass_inverse @ o.mass)._expression).count().total)
    (ten, hundred, thousand) = counts
    assert (thousand - hundred) / 900 == pytest.approx((hundred - ten) / 90, rel=0.01)


def test_operators_of_other_configurations_are_refused() -> None:
    robot = kt.zoo.arm7()
    here, there = (robot.operators(np.full(7, angle), engine="reference") for angle in (0.1, 0.2))
    refused("different robots or configurations", here.lyapunov, there.M)
    refused("different robots or configurations", here.lyapunov, here.M, here.A, there.psi)
    refused("different robots or configurations", here.diagonal, there.Omega)
    refused("no engine is called", robot.operators, np.zeros(7), engine="fast", error=UnknownNameError)
