"""Operational space of real robots against what Pinocchio's M⁻¹ and Jacobians give, and its identities with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from tests.oracles.pinocchio_twin import REFERENCES, pin, robots
from tests.oracles.test_delassus import TASKS, Real
from tests.tolerance import assert_close, bound, condition
from tests.trees import Array

#: How many of the tasks of each robot; more, and some could not be followed independently.
COUNTS = {"Panda": 1, "ANYmal": 4, "Talos": 4, "G1": 4}
#: All rows of its feet would be more than it has degrees of freedom.
ROWS = {"ANYmal": "position"}


def transposed(matrix: Array) -> Array:
    return np.swapaxes(matrix, -1, -2)


@dataclass(frozen=True, eq=False)
class Case:
    """A robot at three states, and what Pinocchio says of it."""

    space: kt.tasks.TaskState
    J: Array
    M_inverse: Array
    drift: Array
    bias_forces: Array
    #: Of what needs M⁻¹ alone, and of what needs Λ too, see `tests/laws/test_task_identities.py`.
    tolerance: float
    solving: float

    @classmethod
    @cache
    def of(cls, name: str, reference: str) -> Case:
        real, count = Real.load(name), COUNTS[name]
        robot, order, model = real.robot.model, real.robot.order, real.robot.pinocchio
        q, v, _ = robots.state_pool(robot, 3, seed=6)
        tasks = [kt.Task(site.name, ROWS.get(name, "all")) for site in real.sites[:count]]
        rows = np.concatenate([[6 * i + row for row in task.rows] for i, task in enumerate(tasks)])
        found: list[list[Array]] = [[], [], [], []]
        for one, rate in zip(q, v, strict=True):
            for into, value in zip(found, _at(model, order, one, rate, real.numbers[:count], reference), strict=True):
                into.append(value)
        J, M_inverse, drift, bias = map(np.stack, found)
        J, drift = J[:, rows], drift[:, rows]
        inertias = condition(robot.mass_matrix(q)), condition(J @ M_inverse @ transposed(J))
        space = robot.tasks(tasks, reference=reference).at(q, v)
        tolerances = bound(robot.nv, inertias[0]), bound(robot.nv, sum(inertias))
        return cls(space, J, M_inverse, drift, bias, *tolerances)


def _at(model: Any, order: Any, q: Array, v: Array, frames: tuple[int, ...], reference: str) -> tuple[Array, ...]:
    """J, M⁻¹, J̇v and C + g, in Kinetree's order."""
    data, view = model.createData(), REFERENCES[reference]
    theirs, rates = order.to_q(q), order.to_v(v)
    inverse = np.triu(pin.computeMinverse(model, data, theirs))
    inverse = inverse + np.triu(inverse, 1).T
    pin.computeJointJacobians(model, data, theirs)
    J = [order.from_jacobian(pin.getFrameJacobian(model, data, frame, view)) for frame in frames]
    bias = order.from_tau(pin.rnea(model, data, theirs, rates, np.zeros(model.nv)))
    pin.computeJointJacobiansTimeVariation(model, data, theirs, rates)
    pin.updateFramePlacements(model, data)
    drift = [
        order.from_spatial(pin.getFrameJacobianTimeVariation(model, data, frame, view) @ rates) for frame in frames
    ]
    return np.concatenate(J), order.from_matrix(inverse), np.concatenate(drift), bias


every_case = pytest.mark.parametrize(
    ("name", "reference"), [*((name, "local") for name in TASKS), ("Talos", "local_world_aligned"), ("Talos", "world")]
)


@every_case
def test_pinocchio(name: str, reference: str) -> None:
    c = Case.of(name, reference)
    assert_close(c.space.jacobian, c.J, c.tolerance)
    dense = c.J @ c.M_inverse @ transposed(c.J)
    assert_close(c.space.inverse_inertia, dense, c.tolerance)
    inertia = np.linalg.inv(dense)
    assert_close(c.space.inertia, inertia, c.solving)
    consistent = c.M_inverse @ transposed(c.J) @ inertia
    assert_close(c.space.dynamically_consistent_inverse, consistent, c.solving)
    assert_close(c.space.nullspace, np.eye(c.J.shape[-1]) - consistent @ c.J, c.solving)
    assert_close(c.space.jacobian_dot_v, c.drift, c.tolerance)
    felt = (transposed(consistent) @ c.bias_forces[..., None] - inertia @ c.drift[..., None])[..., 0]
    assert_close(c.space.bias, felt, c.solving)
    assert np.all(c.space.rank == c.J.shape[-2])


@every_case
def test_identities(name: str, reference: str) -> None:
    """J J̄ = 1, N² = N, J N = 0 and J M⁻¹ Nᵀ = 0 with Pinocchio's J and M⁻¹; Λ⁻¹ symmetric and positive."""
    c = Case.of(name, reference)
    space, N, rows = c.space, c.space.nullspace, c.J.shape[-2]
    one = np.broadcast_to(np.eye(rows), (len(c.J), rows, rows))
    assert_close(c.J @ space.dynamically_consistent_inverse, one, c.solving)
    assert_close(space.inertia @ space.inverse_inertia, one, c.solving)
    assert_close(N @ N, N, c.solving)
    for zero in (c.J @ N, c.J @ c.M_inverse @ transposed(N)):
        assert_close(zero, np.zeros_like(zero), c.solving, float(np.abs(c.J @ c.M_inverse).max()))
    assert np.array_equal(space.inverse_inertia, transposed(space.inverse_inertia))
    assert np.linalg.eigvalsh(space.inverse_inertia).min() > 0.0
