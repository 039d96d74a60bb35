"""Quaternions, rotation vectors and screws: identities, small angles, half turns, complex steps."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

from kinetree.spatial import rotation, screw
from kinetree.spatial.rotation import skew
from tests.unit.spatial.scalars import Array

EPS = np.finfo(float).eps
#: Rotation angles where series, closed forms and branches meet.
ANGLES = [0.0, 1e-300, 1e-160, 1e-12, 1e-8, 1e-4, 0.0099, 0.0999999, 0.1, 0.1000001, 0.3, 1.0, 2.0, 3.0, np.pi - 1e-9]


def directions(count: int = 20) -> Array:
    vectors = np.random.default_rng(0).standard_normal((count, 3))
    return np.concatenate([np.eye(3), -np.eye(3), vectors / np.linalg.norm(vectors, axis=1, keepdims=True)])


def log_quaternion(q: Array) -> Array:
    """Rotation vectors of quaternions of any norm, (n, 4) to (n, 3)."""
    return np.array([screw.turn_between(np.array([1.0, 0.0, 0.0, 0.0]), screw.normalized(each))[0] for each in q])


def screw_velocity(angular: Array, displacement: Array) -> Array:
    return screw.linear_velocity(angular, screw.Angle.of(angular), displacement)


@pytest.mark.parametrize("angle", [*ANGLES, np.pi])
def test_exp_and_log_are_inverse(angle: float) -> None:
    r = angle * directions()
    q = rotation.exp_quaternion(r)
    np.testing.assert_allclose(np.sum(q * q, axis=-1), 1.0, rtol=0, atol=4 * EPS)
    back = log_quaternion(q)
    if angle == np.pi:
        # half turns about opposite axes are the same rotation
        back = back * np.sign(np.sum(back * r, axis=-1, keepdims=True))
    np.testing.assert_allclose(back, r, rtol=0, atol=8 * EPS * angle)


@pytest.mark.parametrize("angle", ANGLES[2:])
@pytest.mark.parametrize("length", [1e-100, 0.3, -2.0, 1e200])
def test_log_takes_quaternions_of_any_length(angle: float, length: float) -> None:
    r = angle * directions()
    np.testing.assert_allclose(log_quaternion(length * rotation.exp_quaternion(r)), r, rtol=0, atol=8 * EPS * angle)


def test_exp_turns_by_the_angle_about_the_axis() -> None:
    half = rotation.exp_matrix(np.array([0.0, 0.0, np.pi / 2]))
    np.testing.assert_allclose(half, [[0, -1, 0], [1, 0, 0], [0, 0, 1]], rtol=0, atol=2 * EPS)


@pytest.mark.parametrize("angle", [*ANGLES, np.pi])
def test_matrices_and_quaternions_agree(angle: float) -> None:
    q = rotation.exp_quaternion(angle * directions())
    R = rotation.matrix_of(q)
    np.testing.assert_allclose(R @ np.swapaxes(R, -1, -2), np.broadcast_to(np.eye(3), R.shape), rtol=0, atol=8 * EPS)
    back = rotation.quaternion_of(R)
    assert (back[:, 0] >= 0).all()
    # q and −q are one rotation
    np.testing.assert_allclose(back * np.sign(np.sum(back * q, axis=-1, keepdims=True)), q, rtol=0, atol=8 * EPS)


def test_products_compose() -> None:
    a, b = np.random.default_rng(1).standard_normal((2, 10, 4))
    together = rotation.matrix_of(rotation.multiply(a, b))
    np.testing.assert_allclose(together, rotation.matrix_of(a) @ rotation.matrix_of(b), rtol=0, atol=16 * EPS)
    unit = rotation.normalized(a)
    np.testing.assert_allclose(rotation.multiply(rotation.conjugate(unit), unit)[:, 0], 1.0, rtol=0, atol=4 * EPS)


def test_a_zero_quaternion_is_nan_alone_and_raises_nothing() -> None:
    q = np.array([[1.0, 0, 0, 0], [0, 0, 0, 0], [0, 1.0, 0, 0]])
    with np.errstate(all="raise"):
        for function in (rotation.matrix_of, rotation.normalized):
            result = function(q)
            assert np.isnan(result[1]).any()
            assert np.isfinite(result[[0, 2]]).all()


def test_one_unit_quaternion_has_the_bits_of_many() -> None:
    q = np.random.default_rng(2).standard_normal((100, 4)) * 10.0 ** np.arange(-300.0, 300.0, 6.0)[:, None]
    q[:3, 1] = np.nan, np.inf, 0.0
    q[3] = 0.0
    np.testing.assert_array_equal([rotation.normalized(each) for each in q], rotation.normalized(q))


@pytest.mark.parametrize("angle", ANGLES)
def test_screws_are_inverse(angle: float) -> None:
    angular, linear = angle * directions(), np.random.default_rng(2).standard_normal((26, 3))
    for w, v in zip(angular, linear, strict=True):
        np.testing.assert_allclose(screw_velocity(w, screw.displacement(w, v)), v, rtol=0, atol=32 * EPS)


@pytest.mark.parametrize("angle", [1e-8, 1e-3, 0.09, 0.11, 1.0, 3.0])
def test_screws_are_the_exponential_of_the_twist(angle: float) -> None:
    linalg = pytest.importorskip("scipy.linalg")
    w, v = angle * directions()[7], np.array([0.3, -0.2, 0.5])
    twist = np.zeros((4, 4))
    twist[:3, :3], twist[:3, 3] = skew(w), v
    pose = linalg.expm(twist)
    np.testing.assert_allclose(rotation.exp_matrix(w), pose[:3, :3], rtol=0, atol=16 * EPS)
    np.testing.assert_allclose(screw.displacement(w, v), pose[:3, 3], rtol=0, atol=16 * EPS)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-3, 0.0999, 0.1001, 2.0])
def test_complex_steps_pass_through(angle: float) -> None:
    r, step = angle * directions()[8], np.array([0.3, -0.5, 0.2])
    v, h = np.array([0.1, 0.7, -0.4]), 1e-5
    functions = {
        "exp": rotation.exp_quaternion,
        "matrix": rotation.exp_matrix,
        "screw": lambda x: screw.displacement(x, v),
        "unscrew": lambda x: screw_velocity(x, v),
        "unit": lambda x: rotation.normalized(np.concatenate([[0.4], x])),
    }
    for name, function in functions.items():
        exact = function(r + 1e-30j * step).imag / 1e-30
        rough = (function(r + h * step) - function(r - h * step)) / (2 * h)
        np.testing.assert_allclose(exact, rough, rtol=0, atol=1e-9, err_msg=name)


def test_kernels_run_on_symbols() -> None:
    w, x, y, z = q = np.array(sympy.symbols("w x y z", real=True))
    R = sympy.Matrix(rotation.rotation_of_quaternion(q)).applyfunc(sympy.nsimplify)
    assert sympy.simplify(R * R.T - sympy.eye(3)) == sympy.zeros(3, 3)
    expected = (w**2 + x**2 - y**2 - z**2) / (w**2 + x**2 + y**2 + z**2)
    assert sympy.simplify(R[0, 0] - expected) == 0
