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
@pytest.mark.parametrize("name", CASES)
def test_directions_and_gradients(name: str, method: str) -> None:
    """Along a direction, and transposed, a step has the derivatives of its matrices; also those of wrenches."""
    robot, rows = CASES[name]()
    rng, n = np.random.default_rng(4), robot.nv
    at = robot.random_configuration(rng)
    v, tau = rng.normal(size=(2, 3, n))
    q = robot.integrate(at, 1e-3 * rng.normal(size=(3, n)))
    soft = {"damping": rng.uniform(0.0, 0.1, n), "stiffness": rng.uniform(0.0, 5.0, n)}
    sim = kt.simulation.Simulator(robot, constraints=rows, at=at, dt=5e-3, method=method, **soft)
    frame = robot.frames[-1]
    push, more = {frame: rng.normal(size=6)}, {frame: rng.normal(size=(3, 6))}
    dq, dv, dtau, q_weights, v_weights = rng.normal(size=(5, 3, n))
    A, B, _ = sim.discretize(q, v, tau, f_ext=push)
    moved = (A @ np.concatenate([dq, dv], axis=-1)[..., None] + B @ dtau[..., None])[..., 0]
    change = np.concatenate(sim.step.jvp(q, v, tau, dq, dv, dtau, f_ext=push), axis=-1)
    assert_close(change, moved, 1e-9)
    gradients, weights = sim.step.vjp(q, v, tau, q_weights, v_weights, f_ext=push), (q_weights, v_weights)
    w = np.concatenate(weights, axis=-1)[..., None]
    by_state = np.concatenate([gradients.q, gradients.v], axis=-1)
    assert_close(by_state, (np.swapaxes(A, -1, -2) @ w)[..., 0], 1e-9)
    assert_close(gradients.tau, (np.swapaxes(B, -1, -2) @ w)[..., 0], 1e-9)
    assert gradients.certain.all()

    ends = [sim.step(q, v, tau, f_ext={frame: push[frame] + s * more[frame]})[:2] for s in (1e-3, -1e-3)]
    turned = robot.difference(ends[1][0], ends[0][0]) / 2e-3, (ends[0][1] - ends[1][1]) / 2e-3
    found = sim.step.jvp(q, v, tau, 0 * dq, 0 * dv, f_ext=push, df_ext=more)
    for one, expected in zip(found, turned, strict=True):
        assert_close(one, expected, 1e-6)
    forward = sum((one * w).sum(axis=-1) for one, w in zip(found, weights, strict=True))
    back = (gradients.f_ext[frame] * more[frame]).sum(axis=-1)
    assert_close(back, forward, 1e-9, peak(gradients.f_ext[frame]) * peak(more[frame]))
    alone = sim.step.vjp(q[1], v[1], tau[1], q_weights[1], v_weights[1], f_ext=push)
    assert np.array_equal(alone.q, gradients.q[1])
    assert np.array_equal(alone.f_ext[frame], gradients.f_ext[frame][1])


def test_rollouts() -> None:
    """Gradients of a motion are those of its steps, with the same bits for all checkpoints."""
    robot, rows = CASES["legged"]()
    rng, n, steps = np.random.default_rng(4), robot.nv, 7
    at = robot.random_configuration(rng)
    sim = kt.simulation.Simulator(robot, constraints=rows, at=at, dt=2e-3)
    v = sim.constraints.project_velocity(at, rng.normal(size=(2, n)))
    tau, q_weights, v_weights = rng.normal(size=(2, steps, n)), *rng.normal(size=(2, 2, steps + 1, n))
    found = sim.rollout.vjp(at, v, tau, q_weights, v_weights)
    for other in (1, 3, 7):
        again = sim.rollout.vjp(at, v, tau, q_weights, v_weights, checkpoint=other)
        assert all(np.array_equal(x, y) for x, y in zip(found[:3], again[:3], strict=True))
    path, bar = sim.rollout(at, v, tau), (q_weights[:, -1], v_weights[:, -1])
    for i in reversed(range(steps)):
        one = sim.step.vjp(path.q[:, i], path.v[:, i], tau[:, i], *bar)
        assert np.array_equal(one.tau, found.tau[:, i])
        bar = one.q + q_weights[:, i], one.v + v_weights[:, i]
    assert np.array_equal(bar[0], found.q)
    assert found.certain.all()
    # batch axes that a population has not
    theta = robot.inertial_parameters * rng.uniform(0.8, 1.2, (2, len(robot.bodies), 1))
    several = kt.simulation.Simulator(robot.population(theta), constraints=rows, at=at, dt=2e-3)
    wide = several.rollout.vjp(at, np.stack([v, v]), tau, q_weights, v_weights)
    assert np.array_equal(wide.tau[0], wide.tau[1])
    assert np.array_equal(wide.tau[0], several.rollout.vjp(at, v, tau, q_weights, v_weights).tau)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["legged", "all kinds"])
def test_inertial_parameters(name: str, method: str) -> None:
    """Changes with masses are those of simulators of heavier robots, and gradients their transpose, also of motions."""
    robot, rows = CASES[name]()
    rng, n, steps = np.random.default_rng(4), robot.nv, 3
    at = robot.random_configuration(rng)
    q, (v, tau) = robot.integrate(at, 1e-3 * rng.normal(size=n)), rng.normal(size=(2, n))
    theta, zero = robot.inertial_parameters, np.zeros(n)
    change = theta * rng.uniform(0.5, 1.0, (len(theta), 1))

    def world(t: float) -> Any:
        heavier = robot.with_inertial_parameters(theta + t * change)
        return kt.simulation.Simulator(heavier, constraints=rows, at=at, dt=5e-3, method=method)

    sim, h, weights = world(0.0), 1e-3, np.array([1.0, -8.0, 8.0, -1.0]) / 12e-3
    ends = [world(s * h).step(q, v, tau) for s in (-2.0, -1.0, 1.0, 2.0)]
    after, _, _ = sim.step(q, v, tau)
    moved, faster = sim.step.jvp(q, v, tau, zero, zero, parameters=change)
    assert_close(moved, sum(w * robot.difference(after, end[0]) for w, end in zip(weights, ends, strict=True)), 1e-7)
    assert_close(faster, sum(w * end[1] for w, end in zip(weights, ends, strict=True)), 1e-7)
    by_q, by_v = rng.normal(size=(2, n))
    gradients = sim.step.vjp(q, v, tau, by_q, by_v, parameters=True).parameters
    assert_close((gradients * change).sum(), by_q @ moved + by_v @ faster, 1e-9, peak(gradients) * peak(change))

    taus, q_weights, v_weights = np.tile(tau, (steps, 1)), *rng.normal(size=(2, steps + 1, n))
    found, path = sim.rollout.vjp(q, v, taus, q_weights, v_weights, parameters=True), sim.rollout(q, v, taus)
    dq, dv, total = zero, zero, 0.0
    for i in range(steps):
        dq, dv = sim.step.jvp(path.q[i], path.v[i], tau, dq, dv, parameters=change)
        total += q_weights[i + 1] @ dq + v_weights[i + 1] @ dv
    assert_close((found.parameters * change).sum(), total, 1e-9, peak(found.parameters) * peak(change))


def test_populations() -> None:
    """Steps of robots that differ in masses, and their derivatives, are those of each robot."""
    robot, rows = CASES["legged"]()
    rng, n = np.random.default_rng(4), robot.nv
    at, (v, tau, w, u) = robot.random_configuration(rng), rng.normal(size=(4, 3, n))
    theta = robot.inertial_parameters * rng.uniform(0.8, 1.2, (3, len(robot.bodies), 1))
    options: dict[str, Any] = {"constraints": rows, "at": at, "dt": 2e-3, "damping": np.full(n, 0.1)}
    several = kt.simulation.Simulator(robot.population(theta), **options)
    path = several.rollout(at, v, tau, steps=3)
    A, B, _ = several.discretize(at, v, tau)
    gradients, change = several.step.vjp(at, v, tau, w, u), several.step.jvp(at, v, tau, w, u, w)
    for i in range(3):
        one = kt.simulation.Simulator(robot.with_inertial_parameters(theta[i]), **options)
        alone = one.rollout(at, v[i], tau[i], steps=3)
        expected = one.discretize(at, v[i], tau[i])
        own = one.step.vjp(at, v[i], tau[i], w[i], u[i])
        pairs = [(path.q[i], alone.q), (path.v[i], alone.v), (A[i], expected.A), (B[i], expected.B)]
        pairs += [(x[i], y) for x, y in zip(gradients[:3], own[:3], strict=True)]
        pairs += [(x[i], y) for x, y in zip(change, one.step.jvp(at, v[i], tau[i], w[i], u[i], w[i]), strict=True)]
        for found, wanted in pairs:
            assert_close(found, wanted, 1e-9)


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
    alone = kt.simulation.Simulator(robot, constraints=["left_foot"], at=q)
    refused("q_weights has shape", alone.step.vjp, q, v, v, np.zeros(3), v)
    contacts = [kt.simulation.Points("right_foot", np.zeros(3))]
    both = kt.simulation.Simulator(robot, constraints=["left_foot"], at=q, contacts=contacts)
    with pytest.raises(UnsupportedError, match="with respect to inertial parameters yet"):
        both.step.vjp(q, v, v, v, v, parameters=True)
    link = {"axis": (0, 1, 0), "mass": 1.0, "com": (0.1, 0.0, 0.2), "inertia": 0.1 * np.eye(3)}
    borne = (
        kt.Builder("borne").add_body("a", **link, gravity_compensation=0.5).add_body("b", parent="a", **link).build()
    )
    still = np.zeros(2)
    rows = [kt.Weld("b", rows=(3,))]
    lifted = kt.simulation.Simulator(borne, constraints=rows, at=still + 0.3, gravity_compensation=True)
    with pytest.raises(UnsupportedError, match="which depends on masses"):
        lifted.step.vjp(still, still, still, still, still, parameters=True)
    held = kt.simulation.Simulator(robot, constraints=["left_foot"], at=q, method="rk4")
    refused("one of the methods midpoint, semi_implicit_euler", held.discretize, q, v, error=InputError)
