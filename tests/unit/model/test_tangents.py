"""Derivatives of `integrate` and `difference` along tangents, against differences and against each other."""

from __future__ import annotations

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError
from tests.laws.cases import configuration_rate
from tests.tolerance import assert_close, bound
from tests.trees import mixed, random_mechanism

H = 1e-30


@pytest.fixture(scope="module")
def robot() -> kt.Model:
    return random_mechanism("every kind", mixed(12, 2), 2).kinetree()


def tangent(robot: kt.Model, q: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """The tangent at q, per unit of H, of a complex configuration whose real part is q."""
    repeated = np.repeat(q[:, None, :], robot.nv, axis=1)
    columns = configuration_rate(robot, repeated, np.broadcast_to(np.eye(robot.nv), (len(q), robot.nv, robot.nv)))
    rate = moved.imag / H
    return np.stack([np.linalg.lstsq(c.T, r, rcond=None)[0] for c, r in zip(columns, rate)])


@pytest.mark.parametrize("size", [0.0, 1e-8, 0.3, 0.99, 1.01, 2.5])
def test_dintegrate(robot: kt.Model, size: float) -> None:
    rng = np.random.default_rng(1)
    q, v = robot.random_configuration(rng, (4,)), size * rng.uniform(-1.0, 1.0, (4, robot.nv))
    end = robot.integrate(q, v, 0.7)
    by_q, by_v = robot.dintegrate(q, v, 0.7)
    d = rng.uniform(-1.0, 1.0, (4, robot.nv))
    start = q + 1j * H * configuration_rate(robot, q, d)
    along_q = tangent(robot, end, robot.integrate(start, v.astype(complex), 0.7))
    along_v = tangent(robot, end, robot.integrate(q, v + 1j * H * d, 0.7))
    tolerance = bound(60)
    assert_close(np.einsum("bij,bj->bi", by_q, d), along_q, tolerance)
    assert_close(np.einsum("bij,bj->bi", by_v, d), along_v, tolerance)


def test_ddifference_undoes_dintegrate(robot: kt.Model) -> None:
    """difference(q, integrate(q, v)) is v, whatever q is."""
    rng = np.random.default_rng(2)
    q, v = robot.random_configuration(rng, (3,)), rng.uniform(-1.0, 1.0, (3, robot.nv))
    by_start, by_end = robot.ddifference(q, robot.integrate(q, v))
    by_q, by_v = robot.dintegrate(q, v)
    one = np.broadcast_to(np.eye(robot.nv), by_v.shape)
    assert_close(by_end @ by_v, one, bound(200))
    assert_close(by_start + by_end @ by_q, np.zeros_like(one), bound(200))


def test_shapes(robot: kt.Model) -> None:
    q, v = robot.neutral(), np.zeros((5, robot.nv))
    by_q, by_v = robot.dintegrate(q, v, np.ones((2, 1)))
    assert by_q.shape == by_v.shape == (2, 5, robot.nv, robot.nv)
    np.testing.assert_array_equal(by_v[0, 0], np.eye(robot.nv))
    with pytest.raises(InputError, match="v has shape"):
        robot.dintegrate(q, np.zeros(3))


def test_tangent_map(robot: kt.Model) -> None:
    """It undoes q̇(v), also where quaternions are not of length one, and ignores changes of their length."""
    rng = np.random.default_rng(5)
    q, v = robot.random_configuration(rng, (3,)), rng.uniform(-1.0, 1.0, (3, robot.nv))
    rate = configuration_rate(robot, q, v)
    matrix = robot.tangent_map(q)
    assert matrix.shape == (3, robot.nv, robot.nq)
    assert_close(np.einsum("bij,bj->bi", matrix, rate), v, bound(10))
    for joint in robot.joints:
        if joint.kind == "spherical":
            longer = q.copy()
            longer[:, joint.q_slice] *= 3.0
            assert_close(
                robot.tangent_map(longer)[:, joint.v_slice, joint.q_slice] * 3.0,
                matrix[:, joint.v_slice, joint.q_slice],
                bound(10),
            )
            assert_close(
                np.einsum("bij,bj->bi", matrix[:, joint.v_slice, joint.q_slice], q[:, joint.q_slice]),
                np.zeros((3, 3)),
                bound(10),
            )
