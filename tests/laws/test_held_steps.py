"""Derivatives of steps with constraints and projections, against differences of steps and laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, UnsupportedError
from tests.laws.cases import model
from tests.laws.test_constraints import CONSTRAINTS, mixed, pair, states
from tests.tolerance import Array, assert_close, peak, refused

METHODS = ("semi_implicit_euler", "midpoint")


def flexible() -> tuple[kt.Model, list[Any]]:
    """A beam between two bodies, whose springs act at rest."""
    solid = {"mass": 1.0, "com": (0.3, 0.1, 0.2), "inertia": 0.1 * np.eye(3)}
    beam = kt.Beam(1.0, 10.0, 1.0, modes=2, planes="y", elements=8, axial_inertia=1e-3)
    built = kt.Builder("flexible").add_body("a", axis=(0, 1, 0), **solid)
    built.add_flexible("b", beam, parent="a", joint="revolute", axis=(0, 0, 1))
    robot = built.add_body("c", parent="b/tip", axis=(0, 1, 0), **solid).build()
    return robot, [kt.LinearCoupling(("a_joint", "c_joint"), (1.0, -0.5)), kt.Weld("c", rows=(3,))]


CASES: dict[str, Any] = {
    **{name: lambda name=name: (model("humanoid24"), CONSTRAINTS["humanoid24"][name]) for name in ("foot", "rows")},
    "legged": lambda: (model("legged"), [kt.Weld(frame, rows="position") for frame in ("tip0", "tip1")]),
    "all kinds": lambda: (mixed()[0], [x for i, x in enumerate(mixed()[2]) if i != 3]),
    "flexible": flexible,
}


@pytest.mark.parametrize("options", [{}, {"project": False}, {"soft": True}], ids=["plain", "drifting", "soft"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CASES)
def test_differences(name: str, method: str, options: dict[str, Any]) -> None:
    """A step that begins a little off the pose, so that both projections move."""
    robot, rows = CASES[name]()
    rng, n = np.random.default_rng(4), robot.nv
    at = robot.random_configuration(rng)
    v, tau, away = rng.normal(size=(3, n))
    q = robot.integrate(at, 1e-3 * away)
    soft = {"damping": rng.uniform(0.0, 0.1, n), "stiffness": rng.uniform(0.0, 5.0, n)} if options.get("soft") else {}
    project = options.get("project", True)
    sim = kt.simulation.Simulator(robot, constraints=rows, at=at, dt=5e-3, method=method, project=project, **soft)
    A, B, modes = sim.discretize(q, v, tau)
    assert modes.certain
    end, _, _ = sim.step(q, v, tau)
    h, weights = 1e-4, np.array([1.0, -8.0, 8.0, -1.0]) / 12e-4
    for part in range(3):
        d = [rng.normal(size=n) * (i == part) for i in range(3)]

        def at_time(t: float, d: list[Array] = d) -> Array:
            after, rate, _ = sim.step(robot.integrate(q, t * d[0]), v + t * d[1], tau + t * d[2])
            return np.concatenate([robot.difference(end, after), rate])

        expected = sum(w * at_time(s * h) for w, s in zip(weights, (-2.0, -1.0, 1.0, 2.0), strict=True))
        found = A @ np.concatenate(d[:2]) + B @ d[2]
        assert_close(found / peak(expected), expected / peak(expected), 1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_steps_stay_on_the_constraints(method: str) -> None:
    """From states on the constraints, changes of velocities after the step satisfy the changed rows."""
    robot = model("humanoid24")
    rng = np.random.default_rng(2)
    at = robot.random_configuration(rng)
    sim = kt.simulation.Simulator(robot, constraints=CONSTRAINTS["humanoid24"]["foot"], at=at, dt=1e-3, method=method)
    v, tau = sim.constraints.project_velocity(at, rng.normal(size=robot.nv)), rng.normal(size=robot.nv)
    q, rate, _ = sim.step(at, v, tau)
    A, B, _ = sim.discretize(at, v, tau)
    J, n = sim.constraints.jacobian(q), robot.nv
    turned = robot.velocity_derivative(q, rate, "left_foot", "local_world_aligned")
    whole = np.concatenate([A, B], axis=-1)
    assert_close(turned @ whole[:n] + J @ whole[n:], np.zeros((6, 3 * n)), 1e-8, peak(turned, J) * peak(whole))
    # q is projected by one Newton step, so it stays up to the square of what the step drifts
    assert_close(J @ whole[:n], np.zeros((6, 3 * n)), 1e-2, peak(J) * peak(whole))


def test_batches_and_redundant_rows() -> None:
    _, tree = pair()
    q, v, tau, _ = states(3)
    sim = kt.simulation.Simulator(tree, constraints=tree.equalities, dt=1e-3, method="midpoint")
    A, B, _ = sim.discretize(q, 0.1 * v, tau)
    assert (A.shape, B.shape) == ((3, 14, 14), (3, 14, 7))
    broken = tau.copy()
    broken[1, 2] = np.nan
    hurt = sim.discretize(q, 0.1 * v, broken)
    for i in range(3):
        alone = sim.discretize(q[i], 0.1 * v[i], tau[i])
        assert np.array_equal(alone.A, A[i])
        assert np.array_equal(alone.B, B[i])
        assert i == 1 or np.array_equal(hurt.A[i], A[i])


def test_refusals() -> None:
    robot = model("humanoid24")
    q, v = robot.neutral(), np.zeros(robot.nv)
    both = kt.simulation.Simulator(
        robot, constraints=["left_foot"], at=q, contacts=[kt.simulation.Points("right_foot", np.zeros(3))]
    )
    refused("steps with constraints have no derivatives yet", both.discretize, q, v, error=UnsupportedError)
    alone = kt.simulation.Simulator(robot, constraints=["left_foot"], at=q)
    push = {"left_hand": np.ones(6)}
    refused("no derivatives with f_ext yet", alone.discretize, q, v, f_ext=push, error=UnsupportedError)
    link = {"axis": (0, 1, 0), "mass": 1.0, "com": (0.1, 0.0, 0.2), "inertia": 0.1 * np.eye(3)}
    borne = (
        kt.Builder("borne").add_body("a", **link, gravity_compensation=0.5).add_body("b", parent="a", **link).build()
    )
    still = np.zeros(2)
    lifted = kt.simulation.Simulator(
        borne, constraints=[kt.Weld("b", rows=(3,))], at=still + 0.3, gravity_compensation=True
    )
    refused("with gravity compensation yet", lifted.discretize, still, still, error=UnsupportedError)
    held = kt.simulation.Simulator(robot, constraints=["left_foot"], at=q, method="rk4")
    refused("one of the methods midpoint, semi_implicit_euler", held.discretize, q, v, error=InputError)
