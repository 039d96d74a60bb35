"""Dynamics with constraints: Newton–Euler with λ, rows that do not accelerate, redundancy, projection, bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, UnknownNameError
from tests.laws.cases import model
from tests.tolerance import assert_close, bound, condition

Array = np.ndarray[Any, np.dtype[Any]]

CONSTRAINTS: dict[str, dict[str, list[Any]]] = {
    "humanoid24": {
        "foot": ["left_foot"],
        "foot and hands": ["left_foot", kt.Weld("left_hand", "right_hand")],
        "rows": [kt.Weld("left_hand", rows="position"), kt.RelativeTask("right_hand", "left_foot", (3, 5))],
    },
    "asimo35": {"feet": ["left_foot", "right_foot"], "point": [kt.Task("left_foot", "position", (0.1, 0.0, 0.02))]},
}
CASES = [(robot, name) for robot, cases in CONSTRAINTS.items() for name in cases]


def drawn(robot: kt.Model, seed: int, shape: tuple[int, ...] = ()) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    return robot.random_configuration(rng, shape), *rng.normal(size=(2, *shape, robot.nv))


def tolerance(robot: kt.Model, q: Array, J: Array) -> float:
    Λ_inverse = J @ np.linalg.solve(robot.mass_matrix(q), np.swapaxes(J, -1, -2))
    return bound(robot.nv, condition(robot.mass_matrix(q)) + condition(Λ_inverse))


@pytest.mark.parametrize(("name", "case"), CASES)
def test_newton_euler_holds_and_rows_rest(name: str, case: str) -> None:
    robot = model(name)
    q, v, tau = drawn(robot, 1, (3,))
    held = robot.constraints(CONSTRAINTS[name][case])
    v = held.project_velocity(q, v)
    a, force = robot.constrained_dynamics(q, v, tau, CONSTRAINTS[name][case])
    J = held.jacobian(q)
    close = tolerance(robot, q, J)
    pushed = tau + np.einsum("bcv,bc->bv", J, force)
    assert_close(robot.inverse_dynamics(q, v, a), pushed, close)
    rate = np.einsum("bcv,bv->bc", J, a) + held.tasks.jacobian_dot_v(q, v)
    assert_close(rate, np.zeros_like(rate), close, scale=float(np.abs(a).max()))


@pytest.mark.parametrize(("name", "case"), CASES)
def test_dense_system_gives_the_same(name: str, case: str) -> None:
    robot = model(name)
    q, v, tau = drawn(robot, 2)
    held = robot.constraints(CONSTRAINTS[name][case])
    v = held.project_velocity(q, v)
    J, n = held.jacobian(q), robot.nv
    K = np.block([[robot.mass_matrix(q), -J.T], [J, np.zeros((len(J), len(J)))]])
    known = np.concatenate([tau - robot.bias_forces(q, v), -held.tasks.jacobian_dot_v(q, v)])
    expected = np.linalg.solve(K, known)
    a, force = held.forward_dynamics(q, v, tau)
    close = tolerance(robot, q, J)
    assert_close(a, expected[:n], close)
    assert_close(force, expected[n:], close)


def test_redundant_rows_change_nothing_but_the_forces() -> None:
    robot = model("humanoid24")
    q, v, tau = drawn(robot, 3)
    twice = ["left_foot", kt.Task("left_foot", "position", (0.1, 0.0, 0.0)), kt.Weld("left_hand", "right_hand")]
    once = [twice[0], twice[2]]
    v = robot.constraints(once).project_velocity(q, v)
    a, _ = robot.constrained_dynamics(q, v, tau, once)
    a_twice, force = robot.constrained_dynamics(q, v, tau, twice)
    J = robot.constraints(once).jacobian(q)
    close = tolerance(robot, q, J)
    assert_close(a_twice, a, close)
    J = robot.constraints(twice).jacobian(q)
    assert_close(robot.inverse_dynamics(q, v, a_twice), tau + J.T @ force, close)


def test_the_force_of_a_weld_acts_on_its_frame() -> None:
    """A mass that hangs: the weld carries its weight upwards."""
    builder = kt.Builder("mass")
    builder.add_body("box", joint="floating", mass=2.0, inertia=np.eye(3))
    robot = builder.build()
    a, force = robot.constrained_dynamics(robot.neutral(), np.zeros(6), np.zeros(6), ["box"])
    np.testing.assert_allclose(a, np.zeros(6), rtol=0.0, atol=1e-15)
    np.testing.assert_allclose(force, [0, 0, 0, 0, 0, 2.0 * 9.81], rtol=0.0, atol=1e-12)


def test_external_forces_count() -> None:
    robot = model("humanoid24")
    q, v, tau = drawn(robot, 4)
    push = {"right_hand": np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])}
    a, _ = robot.constrained_dynamics(q, v, tau, ["left_foot"], f_ext=push)
    moved = tau + robot.jacobian(q, "right_hand").T @ push["right_hand"]
    expected, _ = robot.constrained_dynamics(q, v, moved, ["left_foot"])
    assert_close(a, expected, tolerance(robot, q, robot.constraints(["left_foot"]).jacobian(q)))


def test_projection_closes_what_was_open() -> None:
    robot = model("humanoid24")
    q, v, _ = drawn(robot, 5)
    held = robot.constraints(CONSTRAINTS["humanoid24"]["foot and hands"], at=q)
    assert float(np.abs(held.error(q)).max()) < 1e-14
    open_q = robot.integrate(q, 1e-3 * v)
    assert float(np.abs(held.error(open_q)).max()) > 1e-4
    closed, rate = held.project(open_q, v, rounds=3)
    J = held.jacobian(closed)
    assert_close(held.error(closed), np.zeros(len(J)), tolerance(robot, closed, J))
    assert_close(J @ rate, np.zeros(len(J)), tolerance(robot, closed, J), scale=float(np.abs(v).max()))


def test_the_error_changes_as_the_rows_do() -> None:
    robot = model("humanoid24")
    q, v, _ = drawn(robot, 6)
    held = robot.constraints(CONSTRAINTS["humanoid24"]["rows"], at=q)
    step = 1e-6
    slope = (held.error(robot.integrate(q, v, step)) - held.error(robot.integrate(q, v, -step))) / (2.0 * step)
    np.testing.assert_allclose(slope, held.jacobian(q) @ v, rtol=0.0, atol=1e-8)


def test_stabilization_pulls_towards_the_held_pose() -> None:
    robot = model("humanoid24")
    q, v, tau = drawn(robot, 7)
    held = robot.constraints(["left_foot"], at=q)
    away = robot.integrate(q, 1e-3 * v)
    a, _ = held.forward_dynamics(away, v, tau, stabilization=(400.0, 40.0))
    J = held.jacobian(away)
    expected = -400.0 * held.error(away) - 40.0 * (J @ v)
    assert_close(J @ a + held.tasks.jacobian_dot_v(away, v), expected, tolerance(robot, away, J))


@pytest.mark.parametrize("case", ["foot and hands", "twice"])
def test_bits_do_not_depend_on_the_batch(case: str) -> None:
    robot = model("humanoid24")
    q, v, tau = drawn(robot, 8, (7,))
    rows = {**CONSTRAINTS["humanoid24"], "twice": ["left_foot", kt.Task("left_foot", "position", (0.1, 0.0, 0.0))]}[
        case
    ]
    q[3] = np.nan
    together = robot.constrained_dynamics(q, v, tau, rows)
    for i in range(7):
        alone = robot.constrained_dynamics(q[i], v[i], tau[i], rows)
        for one, all_ in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one, all_[i])
    assert np.isnan(together.acceleration[3]).all()
    assert np.isfinite(np.delete(together.acceleration, 3, axis=0)).all()


def test_split_names_the_rows() -> None:
    robot = model("humanoid24")
    held = robot.constraints(CONSTRAINTS["humanoid24"]["foot and hands"])
    assert held.names == ("left_foot", "left_hand")
    assert held.rows == 12
    parts = held.split(np.arange(12.0))
    np.testing.assert_array_equal(parts["left_hand"], np.arange(6.0, 12.0))


def test_bad_input() -> None:
    robot = model("humanoid24")
    q, v, tau = drawn(robot, 9)
    with pytest.raises(UnknownNameError, match="no frame is called 'left_fot'.*did you mean 'left_foot'"):
        robot.constrained_dynamics(q, v, tau, ["left_fot"])
    with pytest.raises(InputError, match="constraints is empty; use forward_dynamics"):
        robot.constrained_dynamics(q, v, tau, [])
    with pytest.raises(InputError, match="for one of them write"):
        robot.constrained_dynamics(q, v, tau, "left_foot")
    with pytest.raises(InputError, match="holds Weld, Distance, Task, .* and names of frames; got CenterOfMassTask"):
        robot.constraints([kt.CenterOfMassTask()])
    with pytest.raises(InputError, match="no order"):
        robot.constraints({"left_foot"})
    with pytest.raises(InputError, match="cannot be welded to itself"):
        kt.Weld("left_foot", "left_foot")
    with pytest.raises(InputError, match="a Weld takes names of frames, got int"):
        kt.Weld(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rows are numbers from 0 to 5, got 7"):
        kt.Weld("left_foot", rows=(7,))
    with pytest.raises(InputError, match=r"make them with robot.constraints\(…, at=q\)"):
        robot.constraints(["left_foot"]).error(q)
    with pytest.raises(InputError, match="at is one configuration"):
        robot.constraints(["left_foot"], at=np.zeros(3))
    with pytest.raises(InputError, match="at has NaN"):
        robot.constraints(["left_foot"], at=q * np.nan)
