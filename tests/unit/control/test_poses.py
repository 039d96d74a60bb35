"""Poses and twists, against fifty digits and against SciPy; bits; what is refused."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.spatial.transform import RigidTransform, Rotation

import kinetree as kt
from kinetree import control
from kinetree.errors import InputError, UnknownNameError
from kinetree.kernels import poses
from tests.tolerance import assert_close, bound

ANGLES = [0.0, 1e-300, 1e-160, 1e-20, 1e-12, 1e-8, 1e-4, 0.01, 0.0999, 0.1, 0.1001, 0.5, 1.0, 2.0, 3.0]
NEAR_PI = [np.pi - d for d in (0.1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-15)]
ONE = np.eye(4)
KERNELS = {
    each.name: each
    for each in (
        poses.exponential,
        poses.logarithm,
        poses.inverse_pose,
        poses.pose_fault,
        *poses.POSE_ERRORS.values(),
        *poses.INTERPOLATIONS.values(),
    )
}


def exact_exp(twist: np.ndarray) -> np.ndarray:
    """The matrix exponential with fifty digits."""
    with mpmath.workdps(50):
        x, y, z, a, b, c = (mpmath.mpf(float(number)) for number in twist)
        generator = mpmath.matrix([[0, -z, y, a], [z, 0, -x, b], [-y, x, 0, c], [0, 0, 0, 0]])
        scaled = mpmath.expm(generator / 2**8, method="taylor")
        for _ in range(8):
            scaled = scaled * scaled
        return np.array(scaled.tolist(), dtype=float)


def twists(angles: list[float], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    axes = rng.standard_normal((len(angles), 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    return np.concatenate([axes * np.array(angles)[:, None], rng.standard_normal((len(angles), 3))], axis=1)


def random_poses(shape: tuple[int, ...], seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    T = np.zeros((*shape, 4, 4))
    T[..., :3, :3] = Rotation.random(int(np.prod(shape)), rng=rng).as_matrix().reshape(*shape, 3, 3)
    T[..., :3, 3] = rng.standard_normal((*shape, 3))
    T[..., 3, 3] = 1.0
    return T


# -- exponential and logarithm -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("angle", ANGLES + NEAR_PI + [np.pi, 4.0, 6.0, 20.0])
def test_exp_against_fifty_digits(angle: float) -> None:
    for seed in range(3):
        (twist,) = twists([angle], seed)
        assert_close(control.exp(twist), exact_exp(twist), bound(6))


@pytest.mark.parametrize("angle", ANGLES + NEAR_PI)
def test_log_undoes_exp(angle: float) -> None:
    """Relative to the angle itself, however small: tiny rotations keep all their digits."""
    for seed in range(3):
        (twist,) = twists([angle], seed)
        found = control.log(exact_exp(twist))
        # near π the angle is known as well as anywhere, but its sign is a matter of the last digit of the matrix
        if angle > np.pi - 1e-14 and found[:3] @ twist[:3] < 0.0:
            assert_close(control.exp(found), exact_exp(twist), bound(6))
            continue
        assert_close(found, twist, bound(6))
        assert np.linalg.norm(found[:3] - twist[:3]) <= bound(6) * angle


def test_log_at_half_a_turn() -> None:
    rng = np.random.default_rng(0)
    axes = np.concatenate([np.eye(3), -np.eye(3), rng.standard_normal((50, 3))])
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    T = np.tile(ONE, (len(axes), 1, 1))
    T[:, :3, :3] = 2.0 * axes[:, :, None] * axes[:, None, :] - np.eye(3)
    T[:, :3, 3] = rng.standard_normal((len(axes), 3))
    found = control.log(T)
    assert_close(np.linalg.norm(found[:, :3], axis=1), np.full(len(axes), np.pi), bound(6))
    assert_close(control.exp(found), T, bound(6))


def test_against_scipy() -> None:
    u = twists([0.3, 1.0, 2.0, 3.0, 3.1])
    assert_close(control.exp(u), RigidTransform.from_exp_coords(u).as_matrix(), bound(6))
    T = random_poses((100,))
    assert_close(control.log(T), RigidTransform.from_matrix(T).as_exp_coords(), bound(6))
    assert_close(control.inverse(T), RigidTransform.from_matrix(T).inv().as_matrix(), bound(6))


def test_exp_is_what_a_floating_joint_does() -> None:
    robot = kt.Builder().add_body("b", joint="floating", mass=1.0, inertia=np.eye(3)).build()
    u = twists([0.0, 1e-9, 0.5, 3.0])
    q = robot.integrate(robot.neutral(), u)
    assert_close(control.exp(u), robot.pose(q, "b"), bound(6))
    assert_close(control.log(robot.pose(q, "b")), robot.difference(robot.neutral(), q), bound(6))


# -- errors between poses ----------------------------------------------------------------------------------------------


def test_errors_lead_to_the_target() -> None:
    start, end = random_poses((50,), 2), random_poses((50,), 3)
    local = control.pose_error(start, end, "local")
    assert_close(start @ control.exp(local), end, bound(6))
    world = control.pose_error(start, end, "world")
    assert_close(control.exp(world) @ start, end, bound(6))
    aligned = control.pose_error(start, end, "local_world_aligned")
    np.testing.assert_array_equal(control.pose_error(start, end), local)  # as jacobian
    assert_close(start[:, :3, 3] + aligned[:, 3:], end[:, :3, 3], bound(6))
    turn = Rotation.from_rotvec(aligned[:, :3]).as_matrix()
    assert_close(turn @ start[:, :3, :3], end[:, :3, :3], bound(6))


@pytest.mark.parametrize("reference", ["local", "local_world_aligned", "world"])
def test_errors_are_in_the_coordinates_of_jacobians(reference: str) -> None:
    """To first order the error to where a small joint motion leads is J δq."""
    robot = kt.zoo.humanoid24()
    rng = np.random.default_rng(4)
    q, step = robot.random_configuration(rng), rng.standard_normal(robot.nv)
    J = robot.jacobian(q, "left_hand", reference)
    shares = np.array([1e-3, 1e-4])
    errors = [
        control.pose_error(robot.pose(q, "left_hand"), robot.pose(robot.integrate(q, h * step), "left_hand"), reference)
        for h in shares
    ]
    left = [np.linalg.norm(error - h * J @ step) for error, h in zip(errors, shares)]
    assert 50.0 < left[0] / left[1] < 200.0  # what is left is of second order


def test_no_error_is_zero() -> None:
    T = random_poses((20,))
    for reference in ("local", "local_world_aligned", "world"):
        assert_close(control.pose_error(T, T, reference), np.zeros((20, 6)), bound(6))
    np.testing.assert_array_equal(control.log(ONE), np.zeros(6))
    np.testing.assert_array_equal(control.exp(np.zeros(6)), ONE)


# -- interpolation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("along", ["line", "screw"])
def test_interpolation_ends_where_it_should_to_the_last_bit(along: str) -> None:
    start, end = random_poses((7,), 5), random_poses((7,), 6)
    np.testing.assert_array_equal(control.interpolate(start, end, 0.0, along), start)
    np.testing.assert_array_equal(control.interpolate(start, end, 1.0, along), end)


def test_lines_and_screws() -> None:
    start, end = random_poses((5,), 7), random_poses((5,), 8)
    shares = np.array([0.0, 0.25, 0.5, 1.5, -1.0])
    line = control.interpolate(start, end, shares)
    assert_close(line[:, :3, 3], start[:, :3, 3] + shares[:, None] * (end - start)[:, :3, 3], bound(6))
    screw = control.interpolate(start, end, shares, "screw")
    whole = control.pose_error(start, end, "local")
    assert_close(screw, start @ control.exp(shares[:, None] * whole), bound(6))
    assert_close(line[:, :3, :3], screw[:, :3, :3], bound(6))


def test_halves_are_of_equal_length() -> None:
    start, end = random_poses((30,), 9), random_poses((30,), 10)
    for along in ("line", "screw"):
        middle = control.interpolate(start, end, 0.5, along)
        reference = "local_world_aligned" if along == "line" else "local"
        first, second = control.pose_error(start, middle, reference), control.pose_error(middle, end, reference)
        assert_close(first, second, bound(6))


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_engines_agree(name: str) -> None:
    kernel = KERNELS[name]
    given = {"twist": twists(ANGLES + NEAR_PI), "share": np.linspace(-0.5, 1.5, len(ANGLES + NEAR_PI))}
    given_poses = iter([control.exp(given["twist"]), random_poses(given["share"].shape)])
    inputs = [given[each.name] if each.name in given else next(given_poses) for each in kernel.inputs]
    native = kt.compiled(kernel)
    found, expected = native(*inputs), native.engine("reference")(*inputs)
    for one, other in zip(found, expected) if isinstance(found, tuple) else [(found, expected)]:
        assert_close(one, other, bound(6))


# -- batches and bad input ---------------------------------------------------------------------------------------------


def test_batches_broadcast_and_have_the_bits_of_single_samples() -> None:
    start, end = random_poses((4, 1), 11), random_poses((1, 5), 12)
    shares = np.linspace(-0.5, 1.5, 20).reshape(4, 5)
    error = control.pose_error(start, end)
    between = control.interpolate(start, end, shares, "screw")
    assert error.shape == (4, 5, 6)
    assert between.shape == (4, 5, 4, 4)
    for i, j in np.ndindex(4, 5):
        np.testing.assert_array_equal(control.pose_error(start[i, 0], end[0, j]), error[i, j])
        one = control.interpolate(start[i, 0], end[0, j], shares[i, j], "screw")
        np.testing.assert_array_equal(one, between[i, j])
    u = twists(ANGLES)
    np.testing.assert_array_equal(control.exp(u), np.stack([control.exp(one) for one in u]))
    np.testing.assert_array_equal(control.exp(np.asfortranarray(u)), control.exp(u))
    np.testing.assert_array_equal(control.log(control.exp(u)), np.stack([control.log(control.exp(one)) for one in u]))


def test_nan_stays_in_its_sample() -> None:
    T = random_poses((3,))
    spoilt = T.copy()
    spoilt[1, 0, 0] = np.nan
    with np.errstate(all="raise"):
        found = control.log(spoilt)
    assert np.isnan(found[1]).any()
    np.testing.assert_array_equal(found[[0, 2]], control.log(T)[[0, 2]])
    u = twists([0.1, 0.2, 0.3])
    u[1, 4] = np.inf
    with np.errstate(all="raise"):
        moved = control.exp(u)
    np.testing.assert_array_equal(moved[[0, 2]], control.exp(u[[0, 2]]))
    assert not np.isfinite(moved[1]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: control.exp(np.zeros(5)), r"twist has shape \(5,\); pass \(…, 6\)"),
        (lambda: control.exp(0.0), r"twist has shape \(\); pass \(…, 6\)"),
        (lambda: control.exp(["a"] * 6), "twist has dtype"),
        (lambda: control.exp(np.zeros(6, dtype=complex)), "twist has dtype complex128; pass real numbers"),
        (lambda: control.exp([[1.0], [1.0, 2.0]]), "twist is not a rectangular array of numbers"),
        (lambda: control.log(np.eye(3)), r"pose has shape \(3, 3\); pass \(…, 4, 4\)"),
        (lambda: control.log(2.0 * ONE), "pose is no rotation: its columns are not orthonormal"),
        (lambda: control.log(np.stack([ONE, 2.0 * ONE])), "pose of sample 1 is no rotation"),
        (lambda: control.log(np.diag([1.0, 1.0, -1.0, 1.0])), "pose is a reflection; flip one axis"),
        (lambda: control.log(np.diag([1.0, 1.0, 1.0, 2.0])), "pose has a last row other than 0 0 0 1"),
        (lambda: control.inverse(np.zeros((2, 2, 4, 4))), r"pose of sample \(0, 0\) is no rotation"),
        (lambda: control.pose_error(ONE, 2.0 * ONE), "target is no rotation"),
        (
            lambda: control.pose_error(np.stack([ONE] * 2), np.stack([ONE] * 3)),
            r"leading axes do not broadcast: pose \(2,\), target \(3,\)",
        ),
        (lambda: control.interpolate(ONE, ONE, "half"), "share has dtype"),
        (
            lambda: control.interpolate(np.stack([ONE] * 2), ONE, np.zeros(3)),
            r"leading axes do not broadcast: poses \(2,\), share \(3,\)",
        ),
    ],
)
def test_what_is_refused(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()  # type: ignore[operator]


def test_shares_that_are_nan_give_nan_in_that_sample() -> None:
    start, end = random_poses((3,), 13), random_poses((3,), 14)
    found = control.interpolate(start, end, [0.0, np.nan, 1.0])
    assert np.isnan(found[1, :3]).all()
    np.testing.assert_array_equal(found[[0, 2]], [start[0], end[2]])


def test_unknown_words() -> None:
    with pytest.raises(UnknownNameError, match="no reference is called 'body'"):
        control.pose_error(ONE, ONE, "body")
    with pytest.raises(UnknownNameError, match="no way is called 'arc'"):
        control.interpolate(ONE, ONE, 0.5, "arc")
