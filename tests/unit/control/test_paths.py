"""Paths in time, against SciPy's polynomials and against what they promise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.interpolate import BPoly

from kinetree import control
from kinetree.control import paths
from kinetree.errors import InputError, UnknownNameError
from tests.tolerance import assert_close, bound
from tests.unit.control.test_poses import ONE, random_poses

T = 2.5


def ends(seed: int) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).standard_normal((6, 3)))


@pytest.mark.parametrize("degree", ["cubic", "quintic"])
def test_against_scipy(degree: str) -> None:
    x0, x1, v0, v1, a0, a1 = ends(0)
    more = {} if degree == "cubic" else {"start_acceleration": a0, "end_acceleration": a1}
    path = getattr(control, degree)(x0, x1, T, start_velocity=v0, end_velocity=v1, **more)
    given = [[x0, v0], [x1, v1]] if degree == "cubic" else [[x0, v0, a0], [x1, v1, a1]]
    expected = BPoly.from_derivatives([0.0, T], given)
    times = np.linspace(0.0, T, 50)
    found = path(times)
    for order, value in enumerate(found):
        assert value.shape == (50, 3)
        assert_close(value, expected.derivative(order)(times) if order else expected(times), bound(6))


@pytest.mark.parametrize("make", [control.cubic, control.quintic, control.minimum_jerk])
def test_from_rest_to_rest(make: object) -> None:
    start, end = np.array([0.1, 0.2, 0.3]), np.array([0.7, -0.4, 1e-9])
    path = make(start, end, T)  # type: ignore[operator]
    position, velocity, acceleration = path([-1.0, 0.0, T, T + 1.0])
    np.testing.assert_array_equal(position, [start, start, end, end])
    np.testing.assert_array_equal(velocity, np.zeros((4, 3)))
    np.testing.assert_array_equal(acceleration[[0, 3]], np.zeros((2, 3)))
    middle = path(T / 2.0)
    assert_close(middle.position, (start + end) / 2.0, bound(6))
    peak = 1.5 if make is control.cubic else 1.875
    assert_close(middle.velocity, peak * (end - start) / T, bound(6))


def test_jumps_of_acceleration() -> None:
    """A cubic path starts with 6Δ/T²; one of least jerk with none."""
    assert_close(control.cubic(0.0, 1.0, T)(0.0).acceleration, np.array(6.0 / T**2), bound(6))
    np.testing.assert_array_equal(control.minimum_jerk(0.0, 1.0, T)(np.array([0.0, T])).acceleration, [0.0, 0.0])


@pytest.mark.parametrize(("powers", "order"), [(paths._CUBIC, 2), (paths._QUINTIC, 3)])
def test_of_all_paths_they_are_the_smoothest(powers: np.ndarray, order: int) -> None:
    """∫ (dᵏx/dtᵏ)² is least: its variation by any polynomial that keeps the ends vanishes. Exact, in fractions."""
    size = powers.shape[1]
    for row in powers:
        path = [Fraction(float(c)) for c in row]
        for extra in range(3):
            bump = [Fraction(0)] * order + [Fraction(1)]  # sᵏ (1 − s)ᵏ sᵉ
            for _ in range(order):
                bump = times(bump, [Fraction(1), Fraction(-1)])
            bump = times(bump, [Fraction(0)] * extra + [Fraction(1)])
            variation = times(derived(path, order), derived(bump, order))
            assert sum(c / (i + 1) for i, c in enumerate(variation)) == 0
    assert size == 2 * order


def times(a: list[Fraction], b: list[Fraction]) -> list[Fraction]:
    total = [Fraction(0)] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            total[i + j] += x * y
    return total


def derived(a: list[Fraction], order: int) -> list[Fraction]:
    for _ in range(order):
        a = [i * c for i, c in enumerate(a)][1:]
    return a


def test_shapes_broadcast() -> None:
    path = control.quintic(np.zeros((4, 3)), np.ones(3), T)
    for value in path(np.zeros((2, 5))):
        assert value.shape == (2, 5, 4, 3)
    assert control.cubic(0.0, 1.0, T)(0.5).position.shape == ()


def test_one_time_has_the_bits_of_many() -> None:
    x0, x1, v0, v1, a0, a1 = ends(1)
    path = control.quintic(x0, x1, T, start_velocity=v0, end_velocity=v1, start_acceleration=a0, end_acceleration=a1)
    times_ = np.linspace(-0.1, T + 0.1, 37)
    many = path(times_)
    for i, time in enumerate(times_):
        for one, several in zip(path(time), many):
            np.testing.assert_array_equal(one, several[i])


def test_nan_stays_in_its_time() -> None:
    position, velocity, _ = control.cubic(0.0, 1.0, T)([np.nan, 1.0, np.inf])
    assert np.isnan(position[0])
    assert np.isnan(velocity[0])
    assert np.isfinite(position[1:]).all()
    assert position[2] == 1.0


# -- poses -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timing", ["cubic", "quintic"])
def test_pose_paths_turn_about_one_axis_and_move_straight(timing: str) -> None:
    start, end = random_poses((6,), 1), random_poses((6,), 2)
    path = control.pose_path(start, end, T, timing)
    clock = getattr(control, timing)(0.0, 1.0, T)
    times_ = np.linspace(0.0, T, 9)
    pose, velocity, acceleration = path(times_)
    assert pose.shape == (9, 6, 4, 4)
    assert velocity.shape == acceleration.shape == (9, 6, 6)
    np.testing.assert_array_equal(pose[0], start)
    np.testing.assert_array_equal(pose[-1], end)
    whole = control.pose_error(start, end, "local_world_aligned")
    share, rate, change = clock(times_)
    assert_close(control.pose_error(start, pose, "local_world_aligned"), share[:, None, None] * whole, bound(6))
    assert_close(velocity, rate[:, None, None] * whole, bound(6))
    assert_close(acceleration, change[:, None, None] * whole, bound(6))


def test_velocities_of_pose_paths_are_their_derivatives() -> None:
    start, end = random_poses((), 3), random_poses((), 4)
    path = control.pose_path(start, end, T)
    left = []
    for h in (1e-3, 1e-4):
        before, after = path(1.0 - h), path(1.0 + h)
        slope = control.pose_error(before.pose, after.pose, "local_world_aligned") / (2.0 * h)
        left.append(np.linalg.norm(slope - path(1.0).velocity))
        change = (after.velocity - before.velocity) / (2.0 * h)
        assert np.linalg.norm(change - path(1.0).acceleration) < 100.0 * h * h
    assert 50.0 < left[0] / left[1] < 200.0  # central differences are of second order


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: control.cubic(0.0, 1.0, 0.0), "seconds=0.0 is not a positive duration"),
        (lambda: control.cubic(0.0, 1.0, np.inf), "seconds=inf is not a positive duration"),
        (lambda: control.cubic(0.0, 1.0, "long"), "seconds='long' is not a positive duration"),
        (lambda: control.quintic(0.0, np.nan, 1.0), "end has NaN or infinite entries"),
        (lambda: control.quintic("a", 1.0, 1.0), "start has dtype"),
        (lambda: control.quintic([[1.0], [1.0, 2.0]], 1.0, 1.0), "start is not a rectangular array"),
        (lambda: control.cubic(np.zeros(2), np.zeros(3), 1.0), r"shapes do not broadcast: start \(2,\), end \(3,\)"),
        (lambda: control.cubic(0.0, 1.0, 1.0, end_velocity=np.inf), "end_velocity has NaN or infinite entries"),
        (lambda: control.cubic(0.0, 1.0, 1.0)("now"), "time has dtype"),
        (lambda: control.pose_path(ONE, 2.0 * ONE, 1.0), "target is no rotation"),
        (lambda: control.pose_path(ONE, ONE, -1.0), "seconds=-1.0 is not a positive duration"),
    ],
)
def test_what_is_refused(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()  # type: ignore[operator]


def test_an_unknown_timing() -> None:
    with pytest.raises(UnknownNameError, match="no timing is called 'linear'"):
        control.pose_path(ONE, ONE, 1.0, "linear")
