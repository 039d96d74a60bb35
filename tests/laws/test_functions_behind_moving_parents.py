"""Energies, matrices, steps, tasks, constraints and control of beams, nodes, loops and couplings on moving parents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import control
from tests.laws.cases import ENGINES
from tests.laws.moving_parents import CHARTED, ROBOTS, STEP, TOOL, derivatives, robot, state, stepped, tolerance
from tests.tolerance import assert_close, bound, condition

each_robot = pytest.mark.parametrize("name", ROBOTS)
each_charted_robot = pytest.mark.parametrize("name", CHARTED)
each_engine = pytest.mark.parametrize("engine", ENGINES)

LWA = "local_world_aligned"
METHODS = ("semi_implicit_euler", "midpoint", "rk4")


@each_engine
@each_robot
def test_power_is_the_rate_of_energy(name: str, engine: str) -> None:
    """Where dampers take what is odd in v."""
    of, (q, v, a, *_) = robot(name), state(name)
    bias = of.bias_forces.engine("reference")
    damped = 0.5 * (bias(q, v) - bias(q, -v))
    rate = np.sum(of.energy.engine("reference")(stepped(name, v), v + 1j * STEP * a)).imag / STEP
    tau = of.inverse_dynamics.engine(engine)(q, v, a)
    assert_close(rate, (tau - damped) @ v, tolerance(name), float(np.abs(tau) @ np.abs(v)))


@each_engine
@each_robot
def test_matrices_and_their_inverses(name: str, engine: str) -> None:
    of, (q, v, a, tau, f_ext, *_) = robot(name), state(name)
    on = {key: getattr(of, key).engine(engine) for key in ("mass_matrix", "mass_matrix_inverse", "mass_matrix_solve")}
    M, close = on["mass_matrix"](q), tolerance(name, solves=True)
    assert_close(M, derivatives(name, "inverse_dynamics")[2], tolerance(name))
    assert_close(on["mass_matrix_inverse"](q) @ M, np.eye(of.nv), close)
    assert_close(M @ on["mass_matrix_solve"](q, v), v, close)
    found = of.inverse_dynamics.engine(engine)(q, v, of.forward_dynamics.engine(engine)(q, v, tau, f_ext), f_ext)
    assert_close(found, tau, close, float(np.abs(M).max() * np.abs(a).max()))
    assert_close(of.operators(q, engine=engine).mass @ v, M @ v, tolerance(name))
    assert_close(of.operators(q, engine=engine).mass_inverse @ (M @ v), v, close)


@each_engine
@each_robot
def test_centroid(name: str, engine: str) -> None:
    """The base's rows of M v are the momentum of all, seen from the base; the rest follows by shifting it."""
    of, (q, v, *_) = robot(name), state(name)
    center, J, A = (
        getattr(of, function).engine(engine)
        for function in ("center_of_mass", "center_of_mass_jacobian", "centroidal_momentum_matrix")
    )
    by_q = np.imag(of.center_of_mass.engine("reference")(stepped(name, np.eye(of.nv)))).T / STEP
    assert_close(J(q), by_q, tolerance(name))
    pose = of.pose(q, "base")
    momentum = of.mass_matrix.engine("reference")(q)[:6] @ v
    angular, linear = pose[:3, :3] @ momentum[:3], pose[:3, :3] @ momentum[3:]
    angular = angular - np.cross(center(q) - pose[:3, 3], linear)
    assert_close(A(q) @ v, np.concatenate([angular, linear]), tolerance(name))


@each_engine
@each_robot
def test_regressor(name: str, engine: str) -> None:
    """A payload changes joint forces by Y times its parameters."""
    of, (q, v, a, *_) = robot(name), state(name)
    mass, com, inertia = 0.7, np.array([0.1, 0.2, -0.1]), np.diag([0.02, 0.03, 0.04])
    heavier = of.with_payload(TOOL, mass, com=com, inertia=inertia)
    before, after = (one.inverse_dynamics.engine("reference")(q, v, a) for one in (of, heavier))
    about = inertia + mass * (com @ com * np.eye(3) - np.outer(com, com))
    theta = np.concatenate([[mass], mass * com, about[np.triu_indices(3)]])
    found = of.regressor.engine(engine)(q, v, a, TOOL) @ theta
    assert_close(found, after - before, tolerance(name), float(np.abs(after).max()))


@pytest.mark.parametrize("method", METHODS)
@each_charted_robot
def test_discretize(name: str, method: Any) -> None:
    of, (q, v, _, tau, f_ext, d, _) = robot(name), state(name)
    step, difference, dt = of.step.engine("reference"), of.difference.engine("reference"), 0.01
    end = step(q, v, tau, dt, method=method, f_ext=f_ext)
    moved = stepped(name, d[0]), v + 1j * STEP * d[1], tau + 1j * STEP * d[2]
    there = step(*moved, dt, method=method, f_ext=f_ext)
    change = np.concatenate([difference(end[0].astype(complex), there[0]).imag, there[1].imag]) / STEP
    A, B = of.discretize(q, v, tau, dt, method=method, f_ext=f_ext)
    terms = A @ np.concatenate(d[:2]), B @ d[2]
    assert_close(sum(terms), change, tolerance(name, solves=True), float(np.abs(terms).max()))


@each_engine
@each_robot
def test_tasks(name: str, engine: str) -> None:
    """A frame, one relative to another, and the centre of mass."""
    of, (q, v, *_) = robot(name), state(name)
    frame = kt.Task(TOOL, (2, 3, 4))
    made = of.tasks([frame, kt.RelativeTask("elbow", TOOL, (1, 4)), kt.CenterOfMassTask((3, 4))])
    on, exact = made.engine(engine), made.engine("reference")
    J, M = exact.jacobian(q), of.mass_matrix.engine("reference")(q)
    inverse = J @ np.linalg.solve(M, J.T)
    solving = 4.0 * tolerance(name, solves=True)
    assert_close(on.jacobian(q), J, tolerance(name))
    drift = np.imag(exact.jacobian(stepped(name, v))) @ v / STEP
    assert_close(on.jacobian_dot_v(q, v), drift, tolerance(name))
    assert_close(on.inverse_inertia(q), inverse, solving)
    alone = of.tasks([frame])
    rate = np.imag(alone.engine("reference").inverse_inertia(stepped(name, v))) / STEP
    assert_close(alone.engine(engine).inverse_inertia_derivative(q, v), rate, solving)
    # joint forces JᵀF move tasks by Λ ẍ + bias = F
    F = np.arange(1.0, len(J) + 1.0)
    moved = J @ of.forward_dynamics.engine("reference")(q, v, J.T @ F) + drift
    felt, bias = on.inertia(q) @ moved, on.bias(q, v)
    close = bound(of.nv, condition(M) + condition(inverse))
    assert_close(felt + bias, F, close, float(np.abs(felt).max() + np.abs(bias).max()))


@each_robot
def test_held_frames(name: str) -> None:
    """Newton–Euler with the force of a weld that holds the tool, whose rows do not accelerate."""
    of, (q, v, _, tau, *_) = robot(name), state(name)
    held = of.constraints([kt.Weld(TOOL)])
    v = held.project_velocity(q, v)
    a, force = held.forward_dynamics(q, v, tau)
    J, M = held.jacobian(q), of.mass_matrix(q)
    close = bound(of.nv, condition(M) + condition(J @ np.linalg.solve(M, J.T)))
    assert_close(of.inverse_dynamics(q, v, a), tau + J.T @ force, close, float(np.abs(J.T @ force).max()))
    assert_close(of.acceleration(q, v, a, TOOL), np.zeros(6), close, float(np.abs(J @ a).max() + np.abs(a).max()))


@each_engine
@each_charted_robot
def test_control_takes_drift_into_account(name: str, engine: str) -> None:
    """A frame and the centre of mass accelerate as asked for, whatever drifts."""
    of, (q, v, *_) = robot(name), state(name)
    task, center = kt.Task(TOOL, "position"), kt.CenterOfMassTask()
    goals = [control.Goal(task, kp=100.0, kd=20.0), control.Goal(center, kp=50.0, kd=10.0)]
    law = control.OperationalSpace(of, goals, undriven=[], cut=1e-9).engine(engine)
    here = of.pose(q, TOOL)[:3, 3], of.center_of_mass(q)
    by = np.array([0.03, -0.02, 0.05]), np.array([-0.02, 0.01, 0.03])
    command = law(q, v, {TOOL: here[0] + by[0], "center_of_mass": here[1] + by[1]})
    made = of.tasks([task, center], reference=LWA).engine("reference")
    J = made.jacobian(q)
    drift = np.imag(made.jacobian(stepped(name, v))) @ v / STEP
    wanted = np.concatenate([100.0 * by[0], 50.0 * by[1]]) - np.repeat([20.0, 10.0], 3) * (J @ v)
    M = of.mass_matrix(q)
    close = bound(of.nv, condition(M) + condition(J @ np.linalg.solve(M, J.T)))
    a = of.forward_dynamics.engine("reference")(q, v, command.tau)
    assert_close(J @ a + drift, wanted, close, float(np.abs(a).max() + np.abs(wanted).max()))
