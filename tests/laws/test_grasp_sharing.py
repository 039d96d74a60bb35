"""How grasps share the load of an object: the recursion against its definition with the Jacobian of all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from tests.tolerance import assert_close, bound
from tests.trees import random_rotation

BODY: dict[str, Any] = {"mass": 1.0, "com": (0.1, 0.0, 0.0), "inertia": np.diag((0.02, 0.03, 0.04))}


def arms(flexible: bool) -> kt.Model:
    """A box, and three arms around it, one of them with a beam."""
    rng, builder = np.random.default_rng(0), kt.Builder("arms", gravity=(0, 0, -9.81))
    builder.add_body("box", joint="floating", **BODY)
    for i in range(3):
        place = (random_rotation(rng), rng.uniform(-1, 1, 3))
        builder.add_body(f"upper{i}", axis=(0, 0, 1), placement=place, **BODY)
        parent = f"upper{i}"
        if flexible and i == 1:
            rod = kt.Beam(length=0.5, EI=50.0, rhoA=0.8, modes=1, planes="yz")
            builder.add_flexible("rod", rod, parent=parent)
            parent = "rod/tip"
        builder.add_body(
            f"hand{i}", parent=parent, axis=(0, 1, 0), placement=(random_rotation(rng), (0.3, 0, 0)), **BODY
        )
    return builder.build()


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("flexible", [False, True])
def test_definition(flexible: bool, engine: str) -> None:
    """λ = h₀ + Q B y with (BᵀQB) y = F_o − Bᵀh₀, for forces that do not balance each other."""
    robot, rng = arms(flexible), np.random.default_rng(1)
    q, full, rows = robot.random_configuration(2), rng.normal(size=robot.nv), 18
    tasks = robot.tasks([kt.RelativeTask("box", f"hand{i}") for i in range(3)])
    weights, press = rng.uniform(0.5, 2.0, rows), np.repeat([3.0, -2.0, 5.0], 6) * (np.arange(rows) % 6 >= 3)
    mean = np.kron(np.full((3, 3), 1.0 / 3.0), np.diag([0.0, 0.0, 0.0, 1.0, 1.0, 1.0]))
    owned = np.isin(np.arange(robot.nv), np.arange(6))
    of_rows = np.stack([weights, press, np.zeros(rows)], axis=1)
    given = q, full, mean, of_rows, owned.astype(float)
    rest, force, weak = tasks.core.recursions.grasp_sharing.engine(engine)(*given)

    J, poses = tasks.jacobian(q), robot.pose(q, ["box", "hand0", "hand1", "hand2"])
    points = poses[1:, :3, 3]
    inwards = points.mean(axis=0) - points
    inwards = inwards / np.linalg.norm(inwards, axis=1, keepdims=True)
    h = press * np.concatenate([np.zeros((3, 3)), inwards @ poses[0, :3, :3]], axis=1).ravel()
    B = J[:, owned]
    K = B.T @ (weights[:, None] * B)
    expected = h + weights * (B @ np.linalg.solve(K, full[owned] - B.T @ h))
    tolerance = bound(robot.nv, float(np.linalg.cond(K)))
    assert_close(force, expected, tolerance, float(np.abs(expected).max()))
    assert_close(rest, np.where(owned, 0.0, full - J.T @ expected), tolerance, float(np.abs(expected).max()) + 1.0)
    assert_close(weak, np.diag(K) @ np.diag(np.linalg.inv(K)), tolerance)
