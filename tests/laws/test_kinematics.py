"""Poses, velocities, Jacobians, their rates and derivatives, against complex steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import SingularTaskError
from tests.laws import test_general_nodes as general
from tests.laws.cases import (
    LWA,
    REFERENCES,
    Case,
    H,
    along,
    cases,
    configuration_rate,
    directions,
    model,
    times,
    transposed,
)
from tests.tolerance import EPS, Array, assert_close, peak, refused


def vee(skew: Array) -> Array:
    """The vector of a skew-symmetric matrix."""
    return np.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], axis=-1)


def twist(pose: Array, rate: Array, reference: str) -> Array:
    """Spatial velocity, angular part first, of a pose that changes at the given rate."""
    R, p = pose[..., :3, :3], pose[..., :3, 3]
    angular, linear = vee(rate[..., :3, :3] @ transposed(R)), rate[..., :3, 3]
    if reference == "world":
        linear = linear - np.cross(angular, p)
    elif reference == "local":
        back = transposed(R)
        angular, linear = times(back, angular), times(back, linear)
    return np.concatenate([angular, linear], axis=-1)


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("case", cases(long=False, complex_step=True), ids=str)
def test_velocities_are_rates_of_poses(case: Case, reference: str) -> None:
    q, v, _ = case.state
    frames = list(case.frames)
    moving = case.exact("pose", q + 1j * H * case.q_rate, frames)
    expected = twist(moving.real, moving.imag / H, reference)
    assert_close(case.on("velocity", q, v, frames, reference=reference), expected, case.tolerance)


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("case", cases(), ids=str)
def test_jacobians_give_velocities(case: Case, reference: str) -> None:
    q, v, _ = case.state
    velocities = case.on("velocity", q, v, list(case.frames), reference=reference)
    for i, frame in enumerate(case.frames):
        J = case.on("jacobian", q, frame, reference=reference)
        assert J.shape == (*case.shape, 6, case.robot.nv)
        scale = peak(times(np.abs(J), np.abs(v)))
        assert_close(times(J, v), velocities[..., i, :], case.tolerance, scale)


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("case", cases(long=False, complex_step=True), ids=str)
def test_jacobian_rate_times_velocity(case: Case, reference: str) -> None:
    """J̇v is the derivative of the Jacobian's entries, in the coordinates that were asked for, times v."""
    q, v, _ = case.state
    for frame in case.frames[-2:]:
        moving = case.exact("jacobian", q + 1j * H * case.q_rate, frame, reference=reference)
        rate = moving.imag / H
        expected = times(rate, v)
        scale = peak(*(times(np.abs(part), np.abs(v)) for part in (rate, moving.real)))
        actual = case.on("jacobian_dot_v", q, v, frame, reference=reference)
        assert_close(actual, expected, case.tolerance, scale)


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("case", cases(long=False, complex_step=True), ids=str)
def test_classical_accelerations_are_those_of_points(case: Case, reference: str) -> None:
    """ω̇ of the body, and p̈ of its point at the frame's or the world's origin, from rates of the origin's velocity."""
    q, v, a = case.state
    for frame in case.frames[-2:]:
        moving = case.exact("jacobian", q + 1j * H * case.q_rate, frame, reference="local_world_aligned")
        J, rate = moving.real, moving.imag / H
        turn = times(J[..., :3, :], v)
        found = times(J, a) + times(rate, v)
        scale = peak(*(times(np.abs(part), np.abs(vector)) for part, vector in ((J, a), (rate, v))))
        angular, linear = found[..., :3], found[..., 3:]
        pose = case.exact("pose", q, frame)
        if reference == "world":
            arm = -pose[..., :3, 3]
            linear = linear + np.cross(angular, arm) + np.cross(turn, np.cross(turn, arm))
            scale *= max(1.0, peak(arm)) * max(1.0, peak(turn))
        elif reference == "local":
            back = transposed(pose[..., :3, :3])
            angular, linear = times(back, angular), times(back, linear)
        expected = np.concatenate([angular, linear], axis=-1)
        actual = case.on("acceleration", q, v, a, frame, reference, classical=True)
        assert_close(actual, expected, case.tolerance, scale)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_references_differ_by_the_frames_pose(case: Case) -> None:
    q, _, _ = case.state
    frame = case.frames[-1]
    pose = case.on("pose", q, [frame])[..., 0, :, :]
    R, p = pose[..., :3, :3], pose[..., :3, 3]
    local, world, aligned = (case.on("jacobian", q, frame, reference=reference) for reference in REFERENCES)
    angular, linear = R @ local[..., :3, :], R @ local[..., 3:, :]
    assert_close(aligned, np.concatenate([angular, linear], axis=-2), case.tolerance)
    moment = np.cross(p[..., :, None], angular, axis=-2)
    assert_close(world, np.concatenate([angular, linear + moment], axis=-2), case.tolerance, peak(moment, linear))


@pytest.mark.parametrize("case", cases(), ids=str)
def test_poses_are_rigid(case: Case) -> None:
    q, _, _ = case.state
    poses = case.on("pose", q)
    assert poses.shape == (*case.shape, len(case.robot.frames), 4, 4)
    np.testing.assert_array_equal(poses[..., 3, :], np.broadcast_to([0.0, 0.0, 0.0, 1.0], (*poses.shape[:-2], 4)))
    R = poses[..., :3, :3]
    assert_close(R @ transposed(R), np.broadcast_to(np.eye(3), R.shape), case.tolerance)
    world = poses[..., case.robot.frames.index("world"), :, :]
    np.testing.assert_array_equal(world, np.broadcast_to(np.eye(4), world.shape))


@pytest.mark.parametrize("case", cases(), ids=str)
def test_jacobian_columns_of_joints_that_do_not_move_the_frame_are_zero(case: Case) -> None:
    q, v, _ = case.state
    mechanism = case.robot.mechanism
    for frame in case.frames:
        J = case.on("jacobian", q, frame)
        moved = np.zeros(case.robot.nv, dtype=bool)
        for node in mechanism.topology.support(case.robot.site(frame).node):
            moved[mechanism.v_starts[node] : mechanism.v_starts[node + 1]] = True
        assert np.all(J[..., ~moved] == 0.0)
        assert np.all(np.any(J[..., moved] != 0.0, axis=-2))
    for still in (case.on("jacobian", q, "world"), case.on("velocity", q, v, ["world"])):
        assert np.all(still == 0.0)
    assert np.all(case.on("jacobian_dot_v", q, v, "world") == 0.0)


@pytest.mark.parametrize("case", [c for c in cases(long=False) if c.engine == "native"], ids=str)
def test_integrate_follows_the_velocity(case: Case) -> None:
    """The derivative of `integrate` at zero is q̇, by central differences; `difference` undoes it."""
    q, v, _ = case.state
    step, size = EPS ** (1 / 3), max(1.0, peak(q))
    forward, backward = case.robot.integrate(q, v, step), case.robot.integrate(q, v, -step)
    assert_close((forward - backward) / (2 * step), case.q_rate, 100 * step**2 * size)
    assert_close(case.robot.difference(q, case.robot.integrate(q, v)), v, 100 * case.tolerance, size)


CASES = cases(long=False, complex_step=True, names=("one", "every kind", "forest", "10 km away", "humanoid24"))


def scale(case: Case, frame: str, reference: str, direction: np.ndarray) -> float:
    """What is added up on the way, far from the world's origin much more than what is left."""
    q, v, _ = case.state
    J = np.abs(case.on("jacobian", q, frame, reference=reference))
    return float(np.max(J @ np.abs(v)[..., None]) * max(1.0, float(np.max(np.sum(np.abs(direction), axis=-1)))))


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_jacobian_rate(case: Case, reference: str) -> None:
    q, v, _ = case.state
    for frame in case.frames[:2]:
        expected = case.exact("jacobian", q + 1j * H * case.q_rate, frame, reference=reference).imag / H
        rate = case.on("jacobian_rate", q, v, frame, reference=reference)
        assert_close(rate, expected, case.tolerance, scale(case, frame, reference, v))
        drift = case.on("jacobian_dot_v", q, v, frame, reference=reference)
        assert_close((rate @ v[..., None])[..., 0], drift, case.tolerance, scale(case, frame, reference, v))


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_velocity_derivative(case: Case, reference: str) -> None:
    q, v, d = case.state
    for frame in case.frames[:2]:
        moved = q + 1j * H * configuration_rate(case.robot, q, d)
        expected = case.exact("velocity", moved, v, [frame], reference=reference)[..., 0, :].imag / H
        matrix = case.on("velocity_derivative", q, v, frame, reference=reference)
        assert_close((matrix @ d[..., None])[..., 0], expected, case.tolerance, scale(case, frame, reference, d))


@pytest.mark.parametrize("classical", [False, True])
@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_acceleration_derivatives(case: Case, reference: str, classical: bool) -> None:
    """Complex steps; per acceleration it is the Jacobian, and per velocity J̇ and ∂(J v)/∂q where axes are at rest."""
    q, v, a = case.state
    step, frame = directions(case), case.frames[-1]
    options = {"reference": reference, "classical": classical}
    expected = along(case, "acceleration", step, frames=[frame], **options)[..., 0, :]
    matrices = case.on("acceleration_derivatives", q, v, a, frame, **options)
    terms = [(matrix @ d[..., None])[..., 0] for matrix, d in zip(matrices, step, strict=True)]
    J = case.on("jacobian", q, frame, reference=reference)
    size = scale(case, frame, reference, step[0]) * float(np.max(np.sum(np.abs(v), axis=-1)))
    assert_close(sum(terms), expected, case.tolerance, max(size, peak(*terms)))
    assert_close(matrices.da, J, case.tolerance)
    if reference == LWA or not classical:
        by_v = case.on("jacobian_rate", q, v, frame, reference=reference)
        by_v = by_v + case.on("velocity_derivative", q, v, frame, reference=reference)
        assert_close(matrices.dv, by_v, case.tolerance, size)


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("name", ["every kind", "legged"])
def test_inverse_inertia_derivative(name: str, reference: str) -> None:
    """Complex steps through J and M."""
    case = Case(name, "native", ())
    q, _, d = case.state
    frames = case.frames[1:3]
    moved = q + 1j * H * configuration_rate(case.robot, q, d)
    J = np.concatenate([case.exact("jacobian", moved, frame, reference=reference) for frame in frames])
    expected = (J @ np.linalg.solve(case.exact("mass_matrix", moved), J.T)).imag / H
    tasks = case.robot.tasks(frames, reference=reference)
    actual = tasks.inverse_inertia_derivative(q, d)
    assert_close(actual, expected, case.solving_tolerance)
    several = tasks.inverse_inertia_derivative(np.stack([q, q]), d)
    np.testing.assert_array_equal(several, [actual, actual])
    some = case.robot.tasks([kt.Task(frames[1], (4, 0)), kt.Task(frames[0], (5,))], reference=reference)
    np.testing.assert_allclose(
        some.inverse_inertia_derivative(q, d), actual[np.ix_([10, 6, 5], [10, 6, 5])], rtol=1e-12
    )


#: Tasks with rows of other kinds, with contacts or without.
DERIVED: dict[str, tuple[list[Any], list[Any]]] = {
    "relative": ([kt.RelativeTask("link5", "link12"), "link3"], []),
    "centre of mass": ([kt.CenterOfMassTask(), kt.Task("link5", "position")], []),
    "contact": (["link5"], ["link12"]),
    "all": ([kt.CenterOfMassTask(), kt.RelativeTask("link5", "link10", (3, 5))], [kt.Task("link12", "position")]),
}


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("name", DERIVED)
def test_derivative_of_any_inverse_inertia(name: str, reference: str) -> None:
    """Sixth-order differences of Λ⁻¹ itself, as q moves."""
    robot = model("legged")
    rng = np.random.default_rng(3)
    q, d = robot.random_configuration(rng, (3,)), rng.uniform(-1.0, 1.0, (3, robot.nv))
    tasks, contacts = DERIVED[name]
    made = robot.tasks(tasks, reference=reference, contacts=contacts)
    found = made.inverse_inertia_derivative(q, d)
    h, weights = 2e-3, {1: 0.75, 2: -0.15, 3: 1.0 / 60.0}
    expected = np.zeros_like(found)
    for k, weight in weights.items():
        ahead, back = (made.inverse_inertia(robot.integrate(q, s * k * h * d)) for s in (1.0, -1.0))
        expected += weight * (ahead - back) / h
    assert_close(found, expected, 1e-8, peak(expected))
    np.testing.assert_array_equal(made.inverse_inertia_derivative(q[1], d[1]), found[1])
    exact = made.engine("reference").inverse_inertia_derivative(q[0], d[0])
    assert_close(found[0], exact, 1e-9, peak(exact))
    # the same as a derivative of the function, its transpose, and those of the inverse
    W, L = rng.normal(size=found.shape), made.inertia(q)
    assert_close(made.inverse_inertia.jvp(q, d), found, 1e-10, peak(found))
    along = (made.inverse_inertia.vjp(q, W) * d).sum(-1)
    assert_close(along, (W * found).sum((-1, -2)), 1e-10, peak(W * found) * W[0].size)
    np.testing.assert_array_equal(made.inverse_inertia.vjp(q[1], W[1]), made.inverse_inertia.vjp(q, W)[1])
    if (made.rank(q) < made.rows).any():  # the damped Λ is no inverse
        refused("choose fewer rows", made.inertia.jvp, q, d, error=SingularTaskError)
        return
    rate = made.inertia.jvp(q, d)
    assert_close(rate, -L @ found @ L, 1e-9, peak(L) ** 2 * peak(found))
    assert_close((made.inertia.vjp(q, W) * d).sum(-1), (W * rate).sum((-1, -2)), 1e-9, peak(W * rate) * W[0].size)


def test_derivative_of_the_mobility_of_a_centre_of_mass_on_other_nodes() -> None:
    robot, s = general.robot("nodes"), general.state("nodes")
    made, d = robot.tasks([kt.CenterOfMassTask()]).engine("reference"), np.random.default_rng(3).normal(size=robot.nv)
    h, weights = 2e-3, {1: 0.75, 2: -0.15, 3: 1.0 / 60.0}
    expected = np.zeros((3, 3))
    for k, weight in weights.items():
        ahead, back = (made.inverse_inertia(robot.integrate(s.q, sign * k * h * d)) for sign in (1.0, -1.0))
        expected += weight * (ahead - back) / h
    assert_close(made.inverse_inertia_derivative(s.q, d), expected, 1e-8, peak(expected))


def test_inverse_inertia_derivative_says_what_it_is_not_for() -> None:
    robot = model("legged")
    q, d = robot.neutral(), np.zeros(robot.nv)
    twice = robot.tasks(["link5"], contacts=["link12", kt.RelativeTask("world", "link12")])
    refused("redundant", twice.inverse_inertia_derivative, q, d)
    refused("inverse_inertia_derivative: dq has shape", robot.tasks(["link5"]).inverse_inertia_derivative, q, d[1:])
