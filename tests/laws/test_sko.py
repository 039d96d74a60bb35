"""Models from their definition, against dense formulas and textbooks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, ModelError, SingularMechanismError, UnknownNameError
from tests.tolerance import Array, assert_close, peak, refused

PARENTS = (-1, 0, 1, 0, 3, -1, 5)
SIZES = ((4, 2), (3, 1), (7, 3), (2, 0), (5, 2), (3, 2), (1, 1))


class Random:
    """A tree of nodes of different sizes, with weights of deficient rank, whose matrices may be functions of q."""

    def __init__(self, seed: int, moving: bool) -> None:
        rng = np.random.default_rng(seed)
        self.W, self.H, self.M = [], [], []
        for k, (m, n) in enumerate(SIZES):
            p = SIZES[PARENTS[k]][0] if PARENTS[k] >= 0 else 0
            W, H, root = rng.normal(size=(m, p)), rng.normal(size=(m, n)), rng.normal(size=(m, m))
            W[0] = 0.0
            self.W.append(_moved(W) if moving and p and n else W if p else None)
            self.H.append(_moved(H) if moving and n else H)
            self.M.append(_moved(root @ root.T) if moving and n else root @ root.T)
        self.armature = [rng.uniform(0.0, 1.0, n) for _, n in SIZES]
        self.model = kt.sko(PARENTS, self.W, self.H, self.M, armature=self.armature, sizes=SIZES if moving else None)
        self.moving = moving

    def dense(self, q: Array) -> tuple[Array, Array, Array]:
        """A, H and M as matrices."""
        starts = np.cumsum([0, *(m for m, _ in SIZES)])
        columns = np.cumsum([0, *(n for _, n in SIZES)])
        E, H, M = np.zeros((starts[-1],) * 2), np.zeros((columns[-1], starts[-1])), np.zeros((starts[-1],) * 2)
        for k in range(len(SIZES)):
            own, at = slice(starts[k], starts[k + 1]), slice(columns[k], columns[k + 1])

            def value(matrix: Any, at: slice = at) -> Any:
                return matrix(q[at]) if callable(matrix) else matrix

            H[at, own], M[own, own] = value(self.H[k]).T, value(self.M[k])
            if PARENTS[k] >= 0:
                E[slice(*starts[PARENTS[k] : PARENTS[k] + 2]), own] = value(self.W[k]).T
        return np.linalg.inv(np.eye(len(E)) - E), H, M


def _moved(matrix: Array) -> Any:
    return lambda q: matrix * (1.5 + 0.3 * np.sin(q[0]))


@pytest.fixture(params=[(0, False), (1, True)], ids=["constant", "functions of q"])
def random(request: pytest.FixtureRequest) -> Random:
    return Random(*request.param)


def test_definition(random: Random) -> None:
    """α, τ, x, 𝓜, 𝓜⁻¹, Ω and Λ as the paper defines them."""
    model, rng = random.model, np.random.default_rng(2)
    q = rng.normal(size=(3, model.nq))
    x, (a, b) = rng.normal(size=(3, model.nv)), rng.normal(size=(2, 3, model.m))
    at = {"q": q} if random.moving else {}
    tau = model.inverse_dynamics(x, a=a, b=b, **at)
    alpha, mass = model.accelerations(x, a=a, **at), model.mass_matrix(*at.values())
    found = model.forward_dynamics(tau, a=a, b=b, **at)
    for i in range(3):
        A, H, M = random.dense(q[i])
        whole = H @ A @ M @ A.T @ H.T + np.diag(np.concatenate(random.armature))
        assert_close(alpha[i], A.T @ (H.T @ x[i] + a[i]), 1e-12)
        assert_close(tau[i], H @ A @ (M @ alpha[i] + b[i]) + np.concatenate(random.armature) * x[i], 1e-12)
        assert_close(mass[i] if random.moving else mass, whole, 1e-12)
        kappa = np.linalg.cond(whole)
        assert_close(found[i], x[i], 1e-14 * kappa)
        own = {"q": q[i]} if random.moving else {}
        inverse = np.linalg.inv(whole)
        assert_close(model.mass_matrix_inverse(**own), inverse, 1e-14 * kappa)
        assert_close(model.mass_matrix_solve(x[i], **own), inverse @ x[i], 1e-14 * kappa)
        assert_close(model.mass_matrix_log_determinant(**own), np.linalg.slogdet(whole)[1], 1e-12)
        J = A.T @ H.T
        omega = J @ inverse @ J.T
        assert_close(model.operators(**own).Omega.dense(), omega, 1e-14 * kappa)
        assert_close(model.inverse_inertia([0, "node 5"], **own), omega[np.ix_(_of(0, 5), _of(0, 5))], 1e-13 * kappa)
        assert_close(model.inertia(6, **own), 1.0 / omega[-1:, -1:], 1e-12 * kappa)


def _of(*nodes: int) -> list[int]:
    starts = np.cumsum([0, *(m for m, _ in SIZES)])
    return [int(i) for k in nodes for i in range(starts[k], starts[k + 1])]


def test_bits_in_batches(random: Random) -> None:
    model, rng = random.model, np.random.default_rng(2)
    q, x, a = rng.normal(size=(9, model.nq)), rng.normal(size=(9, model.nv)), rng.normal(size=(9, model.m))
    together = model.forward_dynamics(x, a=a, q=q)
    out = np.empty_like(together)
    assert model.forward_dynamics(x, a=a, q=q, out=out) is out
    for i in range(9):
        np.testing.assert_array_equal(together[i], model.forward_dynamics(x[i], a=a[i], q=q[i]))
    np.testing.assert_array_equal(together, out)
    poisoned = x.copy()
    poisoned[4, 1] = np.nan
    spoiled = model.forward_dynamics(poisoned, a=a, q=q)
    assert np.isnan(spoiled[4]).any()
    np.testing.assert_array_equal(np.delete(spoiled, 4, 0), np.delete(together, 4, 0))


def test_kalman_smoother() -> None:
    """States from measurements, against the smoother of Rauch, Tung and Striebel."""
    rng = np.random.default_rng(5)
    steps, n, r = 25, 3, 2
    F, C = 0.6 * rng.normal(size=(n, n)), rng.normal(size=(r, n))
    Q, R, P0 = np.diag([0.1, 0.3, 0.2]), np.diag([0.5, 0.8]), np.diag([1.0, 2.0, 3.0])
    guess, y = rng.normal(size=n), rng.normal(size=(steps, r))
    zero = np.zeros((n, n))
    inertias = [
        np.block([[C.T @ np.linalg.inv(R) @ C, zero], [zero, np.linalg.inv(Q if k else P0)]]) for k in range(steps)
    ]
    weight = np.block([[F, zero], [zero, zero]])
    model = kt.sko(
        range(-1, steps - 1), [None, *[weight] * (steps - 1)], [np.tile(np.eye(n), (2, 1))] * steps, inertias
    )
    a, b = np.zeros((2, steps, 2 * n))
    a[0, :n] = guess
    b[:, :n] = -y @ np.linalg.inv(R) @ C
    noise = model.forward_dynamics(np.zeros(model.nv), a=a.reshape(-1), b=b.reshape(-1))
    found = model.accelerations(noise, a=a.reshape(-1)).reshape(steps, 2 * n)[:, :n]
    means, covariances, priors = [], [], []
    x, P = guess, P0
    for k in range(steps):
        if k:
            x, P = F @ x, F @ P @ F.T + Q
        priors.append((x, P))
        gain = P @ C.T @ np.linalg.inv(C @ P @ C.T + R)
        x, P = x + gain @ (y[k] - C @ x), P - gain @ C @ P
        means.append(x)
        covariances.append(P)
    for k in reversed(range(steps - 1)):
        back = covariances[k] @ F.T @ np.linalg.inv(priors[k + 1][1])
        means[k] = means[k] + back @ (means[k + 1] - priors[k + 1][0])
    assert_close(found, np.array(means), 1e-12)


def test_network() -> None:
    """Potentials against Kirchhoff's laws in a matrix; articulated inertias are conductances of what lies behind."""
    rng = np.random.default_rng(1)
    parents = [-1, 0, 1, 1, 0, 4, 5, 5]
    pipes, leaks, one = rng.uniform(1.0, 2.0, 8), rng.uniform(0.1, 1.0, 8), np.ones((1, 1))
    model = kt.sko(parents, [None, *[one] * 7], [one] * 8, leaks[:, None, None] * one, armature=pipes[:, None])
    a = np.zeros(8)
    a[0] = 3.0
    found = model.accelerations(model.forward_dynamics(np.zeros(8), a=a), a=a)
    laplacian, source = np.diag(leaks), np.zeros(8)
    for k, p in enumerate(parents):
        laplacian[k, k] += pipes[k]
        if p >= 0:
            laplacian[p, p] += pipes[k]
            laplacian[k, p] -= pipes[k]
            laplacian[p, k] -= pipes[k]
        else:
            source[k] = 3.0 * pipes[k]
    assert_close(found, np.linalg.solve(laplacian, source), 1e-13)
    behind = leaks.copy()
    for k in reversed(range(1, 8)):
        behind[parents[k]] += 1.0 / (1.0 / pipes[k] + 1.0 / behind[k])
    assert_close(model.operators().P @ np.ones(8), behind, 1e-13)


def test_planar_mechanism_is_the_spatial_one() -> None:
    """Three components do what six do: mass matrix and bias of a planar arm."""
    lengths, m, com, inertia = (0.0, 1.0, 0.8), 1.2, 0.5, 0.3

    def weight(length: float) -> Any:
        def formula(q: Array) -> Any:
            c, s = np.cos(q[0]), np.sin(q[0])
            return np.array([[1.0, 0.0, 0.0], [s * length, c, s], [c * length, -s, c]])

        return formula

    solid = np.array([[inertia + m * com**2, 0.0, m * com], [0.0, m, 0.0], [m * com, 0.0, m]])
    turn = np.array([[1.0], [0.0], [0.0]])
    arm = kt.sko([-1, 0, 1], [None, weight(1.0), weight(0.8)], [turn] * 3, [solid] * 3)
    builder = kt.Builder("arm", gravity=(0.0, 0.0, 0.0))
    for k, length in enumerate(lengths):
        parent = f"link {k - 1}" if k else "world"
        own = {"mass": m, "com": (com, 0.0, 0.0), "inertia": np.diag([0.1, 0.2, inertia])}
        builder.add_body(f"link {k}", parent=parent, axis=(0, 0, 1), placement=(np.eye(3), (length, 0.0, 0.0)), **own)
    robot = builder.build()
    q, v = np.array([0.7, 0.3, -0.4]), np.array([0.5, -0.2, 0.9])
    expected = robot.mass_matrix(q)
    assert_close(arm.mass_matrix(q[1:]), expected, 1e-14, peak(expected))
    now = robot.stacked_vectors(q, v, np.zeros(3))
    # nodes of robots may have other axes: compare what does not depend on them
    speeds = arm.accelerations(v, q=q[1:]).reshape(3, 3)
    assert_close(np.linalg.norm(speeds[:, 1:], axis=1), np.linalg.norm(now.V.reshape(3, 6)[:, 3:], axis=1), 1e-13)


def test_cost_is_linear() -> None:
    counts = []
    for n in (10, 100, 1000):
        one = np.eye(3)
        model = kt.sko(range(-1, n - 1), [None, *[one] * (n - 1)], [one] * n, [one] * n)
        model.forward_dynamics(np.zeros(model.nv))
        counts.append(model._functions["sko_forward_dynamics"].count().total)
    assert (counts[2] - counts[1]) * 90 == (counts[1] - counts[0]) * 900


def test_errors() -> None:
    one = np.ones((1, 1))
    refused("2 H for 1 nodes", kt.sko, [-1], [None], [one] * 2, [one], error=ModelError)
    refused("parents come before", kt.sko, [0], [None], [one], [one], error=ModelError)
    refused("depth first", kt.sko, [-1, 0, 0, 1], [None, one, one, one], [one] * 4, [one] * 4, error=ModelError)
    refused("below the world", kt.sko, [-1], [one], [one], [one], error=ModelError)
    refused("needs a weight", kt.sko, [-1, 0], [None, None], [one] * 2, [one] * 2, error=ModelError)
    refused(
        r"inertia of 'tank' has shape \(2, 2\)",
        kt.sko,
        [-1],
        [None],
        [one],
        [np.eye(2)],
        names=["tank"],
        error=ModelError,
    )
    refused("not symmetric", kt.sko, [-1], [None], [np.eye(2)], [[[1.0, 2.0], [0.0, 1.0]]], error=ModelError)
    refused("not finite", kt.sko, [-1], [None], [[[np.nan]]], [one], error=ModelError)
    refused("pass sizes", kt.sko, [-1], [None], [lambda q: one * q[0]], [one], error=ModelError)
    wrong = kt.errors.ModelError
    refused("shape", kt.sko, [-1], [None], [lambda q: np.ones((2, 1)) * q[0]], [one], sizes=[(1, 1)], error=wrong)
    refused("names must differ", kt.sko, [-1, 0], [None, one], [one] * 2, [one] * 2, names=["a", "a"], error=wrong)
    refused("no array of numbers", kt.sko, [-1], [None], [one], ["heavy"], error=wrong)
    skewed = lambda q: np.array([[1.0, q[0]], [0.0, 1.0]])  # noqa: E731
    refused("not symmetric", kt.sko, [-1], [None], [np.eye(2)], [skewed], error=wrong)
    model = kt.sko([-1], [None], [one], [lambda q: one * q[0]])
    states = np.array([[1.0], [0.0]])  # D is singular at the second
    refused("D is singular", model.forward_dynamics, np.ones(1), q=states, error=SingularMechanismError)
    assert np.isnan(model.forward_dynamics(np.array([np.nan]), q=states[0])).all()
    refused("pass q", model.mass_matrix, error=InputError)
    empty = kt.sko([-1, 0], [None, one], [one] * 2, [one, 0.0 * one], names=["a", "b"])
    refused("'b'", empty.forward_dynamics, np.zeros(2), error=SingularMechanismError)
    assert empty.mass_matrix().shape == (2, 2)
    refused("frame", empty.operators().pick, "hand", error=UnknownNameError)
    still = kt.sko([-1, 0], [None, np.eye(2)], [np.eye(2, 1)] * 2, [np.eye(2)] * 2)
    refused("cannot move", still.inertia, 0, error=InputError)
