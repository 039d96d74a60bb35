"""Factors of the mass matrix give what forward dynamics, kinematics and Λ⁻¹ give; every joint kind, both engines."""

from __future__ import annotations

import numpy as np
import pytest

from kinetree.algorithms.dynamics import mass_factors
from kinetree.language.algorithm import Algorithm
from kinetree.tasks.recursions import TaskFunction
from tests.laws.cases import Case, cases
from tests.tolerance import assert_close

LWA = "local_world_aligned"


@pytest.mark.parametrize("case", cases(long=False), ids=str)
def test_factors_replace_articulated_sweeps(case: Case) -> None:
    robot, (q, v, x), frames = case.robot, case.state, list(case.frames)
    tasks = robot.tasks(frames, reference=LWA)
    sites = tasks.core.recursions.sites

    def run(algorithm: Algorithm, *inputs: object) -> object:
        return TaskFunction("factors", robot.mechanism.at(sites), algorithm, sites).engine(case.engine)(*inputs)

    factors, place, mobility = run(mass_factors.mass_factors, q)
    J = tasks.jacobian(q)
    poses = robot.pose(q, frames)
    assert_close(place[..., :9].reshape(*poses.shape[:-2], 3, 3), poses[..., :3, :3], case.tolerance)
    assert_close(place[..., 9:12], poses[..., :3, 3], case.tolerance)
    assert_close(mobility, tasks.inverse_inertia(q), case.solving_tolerance)

    accelerations = run(mass_factors.factored_accelerations, factors, v, x)
    expected = robot.forward_dynamics(q, v, x)
    scale = float(np.abs(robot.mass_matrix_inverse(q)).max() * np.abs(robot.bias_forces(q, v)).max())
    assert_close(accelerations, expected, case.solving_tolerance, scale=max(scale, float(np.abs(expected).max())))

    twists = run(mass_factors.factored_twists, factors, v, place)
    assert_close(twists, robot.velocity(q, v, frames, LWA), case.tolerance)

    wrench = np.random.default_rng(5).normal(size=twists.shape)
    after = run(mass_factors.factored_impulses, factors, v, place, wrench)
    pushed = np.einsum("...rn,...r->...n", J, wrench.reshape(*wrench.shape[:-2], -1))
    gained = np.linalg.solve(robot.mass_matrix(q), pushed[..., None])[..., 0]
    assert_close(after, v + gained, case.solving_tolerance, scale=float(np.abs(gained).max()))
