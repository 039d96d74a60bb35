"""The compiled manifold against arbitrary precision and complex steps: angles small, near π and beyond; quaternions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest

import kinetree as kt
from kinetree.compiler.llvm import machine_code
from kinetree.errors import InputError
from kinetree.language.algorithm import algorithm
from kinetree.runtime.function import Function
from kinetree.spatial.scalar import arctan2
from tests.laws.cases import Array, configuration_rate, model
from tests.tolerance import assert_close, bound
from tests.trees import mixed, random_mechanism

#: Angles at which closed forms, series and their joint are hardest.
SIZES = (0.0, 1e-300, 1e-160, 1e-154, 1e-100, 1e-30, 1e-16, 1e-8, 1e-6, 1e-3, 0.5)
SIZES += (1.9999, 2.0001, 3.0, 3.14159, 6.0, 50.0)


@cache
def ball() -> kt.Model:
    """A robot of three joints whose coordinates are not plain numbers."""
    builder = kt.Builder("ball")
    for name, joint in (("one", "spherical"), ("two", "planar"), ("three", "floating")):
        builder.add_body(name, parent="world", joint=joint, mass=1.0, inertia=np.eye(3))
    return builder.build()


def exact_exponential(matrix: Array, right: bool) -> Array:
    """exp(M), or Σ (−M)ⁿ/(n + 1)!, in arbitrary precision."""
    with mpmath.workdps(60):
        M = mpmath.matrix(matrix.tolist())
        n = M.rows
        if right:  # the corner of exp([[−M, 1], [0, 0]])
            big = mpmath.zeros(2 * n)
            big[:n, :n], big[:n, n:] = -M, mpmath.eye(n)
            result = mpmath.expm(big)[:n, n:]
        else:
            result = mpmath.expm(M)
        return np.array(result.tolist(), dtype=float)


def exact_of_joints(matrix: Array, right: bool) -> Array:
    """The same for a matrix of blocks, one for each joint of `ball`: they are independent, and cheaper one by one."""
    result = np.zeros_like(matrix)
    for joint in ball().joints:
        own = joint.v_slice
        result[own, own] = exact_exponential(matrix[own, own], right)
        matrix = matrix.copy()
        matrix[own, own] = 0.0
    assert not matrix.any()
    return result


def twists(size: float) -> Array:
    rng = np.random.default_rng(3)
    u = rng.standard_normal((4, 6))
    u[:, :3] *= size / np.linalg.norm(u[:, :3], axis=1, keepdims=True)
    return u


def velocity(u: Array) -> Array:
    """Velocities of `ball` from one twist for each joint."""
    return np.concatenate([u[..., :3], u[..., [2, 3, 4]], u], axis=-1)


@pytest.mark.parametrize("size", SIZES)
def test_exponential(size: float) -> None:
    """Poses that `integrate` reaches are those of the matrix exponential of the twist."""
    robot = ball()
    for u in twists(size):
        q = robot.integrate(robot.neutral(), velocity(u))
        generator = np.zeros((4, 4))
        generator[:3, :3], generator[:3, 3] = np.cross(u[:3], -np.eye(3)), u[3:]
        assert_close(robot.pose(q, "three"), exact_exponential(generator, right=False), bound(6))
        flat = u * [0, 0, 1, 1, 1, 0]
        generator[:3, :3], generator[:3, 3] = np.cross(flat[:3], -np.eye(3)), flat[3:]
        assert_close(robot.pose(q, "two"), exact_exponential(generator, right=False), bound(6))
        assert_close(robot.pose(q, "one")[:3, :3], robot.pose(q, "three")[:3, :3], bound(6))


@pytest.mark.parametrize("size", SIZES)
def test_derivatives_of_the_exponential(size: float) -> None:
    """`dintegrate` and `ddifference` are exp(−ad), its right Jacobian and the inverse, relative to their entries."""
    robot = ball()
    for u in twists(size):
        v = velocity(u)
        ad = robot.bracket(v)
        dq, dv = robot.dintegrate(robot.neutral(), v)
        assert_close(dq, exact_of_joints(-ad, right=False), bound(6))
        jacobian = exact_of_joints(ad, right=True)
        assert_close(dv, jacobian, bound(6))
        if size < 3.1:
            _, end = robot.ddifference(robot.neutral(), robot.integrate(robot.neutral(), v))
            assert_close(end @ jacobian, np.eye(robot.nv), bound(6), float(np.max(np.abs(end))))


@pytest.mark.parametrize("size", [s for s in SIZES if s < np.pi])
def test_difference_undoes_integrate(size: float) -> None:
    """To relative precision where nothing cancels: from a neutral configuration even 1e-300 comes back."""
    robot = ball()
    for u in twists(size):
        v = velocity(u)
        back = robot.difference(robot.neutral(), robot.integrate(robot.neutral(), v))
        assert_close(back, v, bound(6))
        np.testing.assert_allclose(back[:3], v[:3], rtol=bound(6), atol=0.0 if size else 1e-300)
        q = robot.random_configuration(1)
        assert_close(robot.difference(q, robot.integrate(q, v)), v, bound(6), 10.0)


@pytest.mark.parametrize("short", [0.0, 1e-15, 1e-9, 1e-6, 1e-3])
def test_near_a_half_turn(short: float) -> None:
    robot = ball()
    for u in twists(np.pi - short):
        q = robot.integrate(robot.neutral(), velocity(u))
        step = robot.difference(robot.neutral(), q)
        assert np.linalg.norm(step[:3]) <= np.pi * (1.0 + bound(6))
        if short > 1e-14:  # else ±w are the same rotation to rounding
            assert_close(step, velocity(u), bound(6) / 1e-2)
        again = robot.integrate(robot.neutral(), step)
        assert_close(robot.pose(again, "three"), robot.pose(q, "three"), bound(6), 10.0)


@pytest.mark.parametrize("turns", [-1e6, -3.0, -0.75, 0.75, 1.0, 3.0, 1e6])
def test_planar_joints_take_the_shorter_way(turns: float) -> None:
    robot, q = ball(), ball().neutral()
    other = q.copy()
    other[6] = 2.0 * np.pi * turns
    with mpmath.workdps(60):
        exact = float(mpmath.mpf(float(other[6])) - 2 * mpmath.pi * mpmath.nint(float(other[6]) / (2 * mpmath.pi)))
    np.testing.assert_allclose(robot.difference(q, other)[3], exact, rtol=4e-16, atol=0.0)


@pytest.mark.parametrize("length", [5e-324, 1e-310, 1e-200, 1e-150, 1e150, 1e300])
def test_quaternions_of_any_length(length: float) -> None:
    robot = ball()
    q, v = robot.random_configuration(0), np.linspace(-1.0, 1.0, robot.nv)
    unit = np.array([1.0, 0.0, 0.0, 0.0])
    one, far = q.copy(), q.copy()
    one[:4], far[:4] = unit, length * unit
    np.testing.assert_array_equal(robot.integrate(far, v), robot.integrate(one, v))
    np.testing.assert_array_equal(robot.normalize(far), robot.normalize(one))
    np.testing.assert_array_equal(robot.difference(q, far), robot.difference(q, one))
    far[:4] = 0.0
    for result in (robot.integrate(far, v)[:4], robot.normalize(far)[:4], robot.difference(q, far)[:3]):
        assert np.isnan(result).all()
    assert np.isfinite(robot.integrate(far, v)[4:]).all()


@pytest.mark.parametrize("scalar", [complex, np.longdouble])
def test_complex_and_extended_scalars(scalar: type) -> None:
    """Complex steps through both functions; long doubles keep at least the digits of doubles."""
    robot = model("every kind")
    rng = np.random.default_rng(5)
    q, d = robot.random_configuration(rng), rng.uniform(-1.0, 1.0, robot.nv)
    v = rng.uniform(-1.0, 1.0, robot.nv)
    integrate, difference = robot.integrate.engine("reference"), robot.difference.engine("reference")
    if scalar is complex:
        end = robot.integrate(q, v + 1e-30j * d)
        assert_close(robot.tangent_map(end.real) @ end.imag / 1e-30, robot.dintegrate(q, v)[1] @ d, bound(robot.nv))
        moved = difference(q, end)
        assert_close(moved.imag / 1e-30, d, bound(robot.nv))
    else:
        end = integrate(q.astype(scalar), v.astype(scalar))
        assert end.dtype == scalar
        assert_close(end.astype(float), robot.integrate(q, v), bound(6))
        assert_close(difference(q.astype(scalar), end).astype(float), v, bound(6))


@algorithm(x=("q",), y=("v",), angle=("v",), outputs=("angle",))
def arctangent(tree: Any, x: Any, y: Any, angle: Any) -> None:
    for k, _ in tree.scatter():
        angle[k] = np.array([arctan2(y[k][0], x[k][0])])


@pytest.mark.parametrize("width", [1, 4])
def test_arctangent_is_within_two_units_in_the_last_place(width: int) -> None:
    rng = np.random.default_rng(0)
    ratios = np.concatenate(
        [10.0 ** rng.uniform(-300.0, 300.0, 400), rng.uniform(0.3, 3.0, 1500), [0.41421356237309503, 1.0]]
    )
    x = 10.0 ** rng.uniform(-3.0, 3.0, len(ratios))
    y = np.clip(ratios * x, 1e-300, 1e300)
    with machine_code.use(machine_code.host().with_width(width)):
        function = Function("arctangent", kt.zoo.chain(1).mechanism, arctangent)
        computed = function(x[:, None], y[:, None])[:, 0]
        special = function([[1.0], [0.0], [0.0], [np.nan]], [[0.0], [1.0], [0.0], [1.0]])[:, 0]
    with mpmath.workprec(200):
        exact = [mpmath.atan2(mpmath.mpf(float(b)), mpmath.mpf(float(a))) for a, b in zip(x, y)]
        ulps = [abs(mpmath.mpf(float(v)) - e) / float(np.spacing(float(e))) for v, e in zip(computed, exact)]
    assert max(ulps) < 2.0
    np.testing.assert_array_equal(special, [0.0, np.pi / 2.0, np.nan, np.nan])


@algorithm(q=("q",), end=("q",), again=("q",), outputs=("end", "again"))
def reads_after_writing(tree: Any, q: Any, end: Any, again: Any) -> None:
    for k, _ in tree.scatter():
        end[k] = q[k] * 2.0
        again[k] = q[k]


def test_an_input_is_not_the_output_of_the_same_number() -> None:
    robot = kt.zoo.chain(3)
    q = np.array([1.0, 2.0, 3.0])
    for name in ("native", "reference"):
        end, again = Function("reads", robot.mechanism, reads_after_writing).engine(name)(q)
        np.testing.assert_array_equal(end, 2.0 * q)
        np.testing.assert_array_equal(again, q)


METHODS = ("semi_implicit_euler", "midpoint", "rk4")


@pytest.mark.parametrize("method", METHODS)
def test_steps_have_the_same_bits_alone_and_in_batches(method: str) -> None:
    robot = model("legged")
    rng = np.random.default_rng(6)
    q, (v, tau) = robot.random_configuration(rng, 7), rng.uniform(-1.0, 1.0, (2, 7, robot.nv))
    dt = rng.uniform(1e-3, 1e-2, 7)
    force = {"world": np.ones(6), robot.bodies[3].name: rng.uniform(-1.0, 1.0, (7, 6))}
    ends = robot.step(q, v, tau, dt, method, f_ext=force)
    reference = robot.step.engine("reference")(q, v, tau, dt, method, f_ext=force)
    for i in range(7):
        alone_force = {name: w[i] if w.ndim > 1 else w for name, w in force.items()}
        alone = robot.step(q[i], v[i], tau[i], float(dt[i]), method, f_ext=alone_force)
        for whole, one, expected in zip(ends, alone, reference, strict=True):
            np.testing.assert_array_equal(whole[i], one)
            assert_close(one, expected[i], bound(robot.nv, 1e3))
    places = tuple(np.empty_like(end) for end in ends)
    assert robot.step(q, v, tau, dt, method, f_ext=force, out=places)[0] is places[0]
    np.testing.assert_array_equal(places[1], ends[1])


@pytest.mark.parametrize("method", METHODS)
def test_steps_are_counted(method: str) -> None:
    robot = model("legged")
    dynamics, counted = robot.count("forward_dynamics").total, robot.step.count(method).total
    evaluations = {"semi_implicit_euler": 1, "midpoint": 2, "rk4": 4}[method]
    assert evaluations * dynamics < counted < evaluations * (dynamics + 410)


def test_counts() -> None:
    """Golden values: a floating base and twelve revolute joints."""
    robot = model("legged")
    names = ("integrate", "difference", "dintegrate", "ddifference", "tangent_map", "bracket", "normalize")
    assert {name: robot.count(name).total for name in names} == COUNTS


COUNTS = {
    "integrate": 190,
    "difference": 208,
    "dintegrate": 273,
    "ddifference": 371,
    "tangent_map": 65,
    "bracket": 0,
    "normalize": 16,
}

FUNCTIONS: dict[str, Callable[[kt.Model, Array, Array], Any]] = {
    "integrate": lambda r, q, v: r.integrate(q, v, 0.1),
    "difference": lambda r, q, _v: r.difference(q, r.neutral()),
    "normalize": lambda r, q, _v: r.normalize(q),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan_stays_in_its_joint(name: str) -> None:
    robot = ball()
    q, v = robot.random_configuration(2, 5), np.ones((5, robot.nv))
    good = FUNCTIONS[name](robot, q, v)
    q[2, 4] = np.nan
    bad = FUNCTIONS[name](robot, q, v)
    np.testing.assert_array_equal(bad[[0, 1, 3, 4]], good[[0, 1, 3, 4]])
    assert np.isnan(bad[2]).any()
    np.testing.assert_array_equal(bad[2, :3], good[2, :3])


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
