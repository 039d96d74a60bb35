"""Dynamics with constraints: Newton–Euler with λ, redundant rows, projection, bits; all kinds of constraints.

Couplings, distances and hinges as constraints have the dynamics of the same robot with all of them embedded.
"""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, ModelError, UnknownNameError
from kinetree.model.loops.coupling import FunctionCoupling
from tests.laws.cases import model
from tests.mechanisms import NEAR, four_bar
from tests.tolerance import Array, assert_close, assert_near, peak, refused, solving_bound
from tests.trees import serial

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


@pytest.mark.parametrize(("name", "case"), CASES)
def test_newton_euler_holds_and_rows_rest(name: str, case: str) -> None:
    robot = model(name)
    q, v, tau = drawn(robot, 1, (3,))
    held = robot.constraints(CONSTRAINTS[name][case])
    v = held.project_velocity(q, v)
    a, force = robot.constrained_dynamics(q, v, tau, CONSTRAINTS[name][case])
    J = held.jacobian(q)
    close = solving_bound(robot, q, J)
    pushed = tau + np.einsum("bcv,bc->bv", J, force)
    assert_close(robot.inverse_dynamics(q, v, a), pushed, close)
    rate = np.einsum("bcv,bv->bc", J, a) + held.tasks.jacobian_dot_v(q, v)
    assert_close(rate, np.zeros_like(rate), close, scale=peak(a))


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
    close = solving_bound(robot, q, J)
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
    close = solving_bound(robot, q, J)
    assert_close(a_twice, a, close)
    J = robot.constraints(twice).jacobian(q)
    assert_close(robot.inverse_dynamics(q, v, a_twice), tau + J.T @ force, close)


def test_the_force_of_a_weld_acts_on_its_frame() -> None:
    """A mass that hangs: the weld carries its weight upwards."""
    robot = kt.Builder("mass").add_body("box", joint="floating", mass=2.0, inertia=np.eye(3)).build()
    a, force = robot.constrained_dynamics(robot.neutral(), np.zeros(6), np.zeros(6), ["box"])
    assert_near(a, np.zeros(6), 1e-15)
    assert_near(force, [0, 0, 0, 0, 0, 2.0 * 9.81], 1e-12)


def test_external_forces_count() -> None:
    robot = model("humanoid24")
    q, v, tau = drawn(robot, 4)
    push = {"right_hand": np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])}
    a, _ = robot.constrained_dynamics(q, v, tau, ["left_foot"], f_ext=push)
    moved = tau + robot.jacobian(q, "right_hand").T @ push["right_hand"]
    expected, _ = robot.constrained_dynamics(q, v, moved, ["left_foot"])
    assert_close(a, expected, solving_bound(robot, q, robot.constraints(["left_foot"]).jacobian(q)))


def test_projection_closes_what_was_open() -> None:
    robot = model("humanoid24")
    q, v, _ = drawn(robot, 5)
    held = robot.constraints(CONSTRAINTS["humanoid24"]["foot and hands"], at=q)
    assert peak(held.error(q)) < 1e-14
    open_q = robot.integrate(q, 1e-3 * v)
    assert peak(held.error(open_q)) > 1e-4
    closed, rate = held.project(open_q, v, rounds=3)
    J = held.jacobian(closed)
    assert_close(held.error(closed), np.zeros(len(J)), solving_bound(robot, closed, J))
    assert_close(J @ rate, np.zeros(len(J)), solving_bound(robot, closed, J), scale=peak(v))


def test_the_error_changes_as_the_rows_do() -> None:
    robot = model("humanoid24")
    q, v, _ = drawn(robot, 6)
    held = robot.constraints(CONSTRAINTS["humanoid24"]["rows"], at=q)
    step = 1e-6
    slope = (held.error(robot.integrate(q, v, step)) - held.error(robot.integrate(q, v, -step))) / (2.0 * step)
    assert_near(slope, held.jacobian(q) @ v, 1e-8)


def test_stabilization_pulls_towards_the_held_pose() -> None:
    robot = model("humanoid24")
    q, v, tau = drawn(robot, 7)
    held = robot.constraints(["left_foot"], at=q)
    away = robot.integrate(q, 1e-3 * v)
    a, _ = held.forward_dynamics(away, v, tau, stabilization=(400.0, 40.0))
    J = held.jacobian(away)
    expected = -400.0 * held.error(away) - 40.0 * (J @ v)
    assert_close(J @ a + held.tasks.jacobian_dot_v(away, v), expected, solving_bound(robot, away, J))


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
    refused("constraints is empty; use forward_dynamics", robot.constrained_dynamics, q, v, tau, [])
    refused("for one of them write", robot.constrained_dynamics, q, v, tau, "left_foot")
    with pytest.raises(InputError, match="holds Weld, Distance, Task, .* and names of frames; got CenterOfMassTask"):
        robot.constraints([kt.CenterOfMassTask()])
    refused("no order", robot.constraints, {"left_foot"})
    refused("cannot be welded to itself", kt.Weld, "left_foot", "left_foot")
    with pytest.raises(InputError, match="a Weld takes names of frames, got int"):
        kt.Weld(3)  # type: ignore[arg-type]
    refused("rows are numbers from 0 to 5, got 7", kt.Weld, "left_foot", rows=(7,))
    refused(r"make them with robot.constraints\(…, at=q\)", robot.constraints(["left_foot"]).error, q)
    refused("at is one configuration", robot.constraints, ["left_foot"], at=np.zeros(3))
    refused("at has NaN", robot.constraints, ["left_foot"], at=q * np.nan)


SOLID: dict[str, Any] = {"mass": 0.5, "com": (0.1, 0.05, 0.02), "inertia": 0.01 * np.eye(3)}


def builder() -> kt.Builder:
    """A four-bar closed by a hinge, with a lever on a rod of constant length, a gear, and a valve driven by a cam."""
    built, solid = four_bar(), SOLID
    built.add_body("lever", parent="coupler", axis=(0, 0, 1), placement=(np.eye(3), (0.2, 0.1, 0.0)), **solid)
    built.add_body("wheel", parent="lever", axis=(1, 0, 0), **solid)
    built.add_body("gear", parent="crank", axis=(0, 1, 0), **solid)
    built.add_body("valve", parent="rocker", joint="prismatic", axis=(0, 1, 0), **solid)
    built.add_frame("end", body="lever", placement=(np.eye(3), (0.3, 0.0, 0.0)))
    built.hinge("tip", "pin", axis=(0, 0, 1), name="hinge")
    built.distance("end", "rocker", length=0.6, name="rod")
    built.couple("gear_joint", to="crank_joint", ratio=-2.0, offset=0.1)
    built.couple("valve_joint", to="wheel_joint", poly=[0.1, 0.2, 0.3])
    return built


@cache
def pair() -> tuple[kt.Model, kt.Model]:
    return builder().build(near={**NEAR, "lever_joint": 0.4}), builder().build(loops="multipliers")


def states(count: int = 3) -> tuple[Any, Any, Any, Any]:
    """States of the tree that satisfy the constraints, forces, and accelerations of the robot with all embedded."""
    robot, tree = pair()
    rng, order = np.random.default_rng(3), robot.tree_order
    q = np.stack([robot.integrate(robot.neutral(), rng.uniform(-0.3, 0.3, robot.nv)) for _ in range(count)])
    v, forces = rng.normal(size=(count, robot.nv)), rng.normal(size=(count, tree.nv))
    rates, tau, dynamics, accelerations = (
        getattr(robot, name).engine("reference")
        for name in ("joint_rates", "joint_forces", "forward_dynamics", "joint_accelerations")
    )
    a = accelerations(q, v, dynamics(q, v, tau(q, forces[:, np.argsort(order)])))[:, order]
    return robot.to_tree(q), rates(q, v)[:, order], forces, a


def test_accelerations_are_those_of_the_embedded_robot() -> None:
    robot, tree = pair()
    q, v, tau, a = states()
    assert (robot.nv, tree.nv, len(tree.equalities)) == (2, 7, 4)
    found = tree.constrained_dynamics(q, v, tau, tree.equalities)
    assert_close(found.acceleration, a, 1e-10)
    for i in range(3):
        alone = tree.constrained_dynamics(q[i], v[i], tau[i], tree.equalities)
        assert np.array_equal(alone.acceleration, found.acceleration[i])
        assert np.array_equal(alone.forces, found.forces[i])
    # what a model embeds is a list of constraints for its spanning tree, too
    again = robot.spanning_tree.constrained_dynamics(q, v, tau, robot.joint_constraints)
    assert_close(again.acceleration, a, 1e-10)


def test_rows_are_the_derivative_of_the_error_and_forces_act_along_them() -> None:
    _, tree = pair()
    held = tree.constraints(tree.equalities)
    assert held.names == (
        "gear_joint = -2·crank_joint + 0.1",
        "valve_joint = polynomial of wheel_joint",
        "hinge",
        "rod",
    )
    q, v, tau, _ = states(1)
    q, v, tau = q[0], v[0], tau[0]
    J, h = held.jacobian(q), 1e-6
    slopes = [(held.error(q + h * e) - held.error(q - h * e)) / (2 * h) for e in np.eye(tree.nv)]
    assert_close(J, np.transpose(slopes), 1e-8)
    a, force = held.forward_dynamics(q, v, tau)
    assert_close(tree.inverse_dynamics(q, v, a), tau + J.T @ force, 1e-10)
    # with φ = 0 and J v = 0, stabilisation adds nothing; elsewhere it pulls back
    assert_close(held.forward_dynamics(q, v, tau, stabilization=(400.0, 40.0)).acceleration, a, 1e-9)
    off = q + 1e-4 * np.arange(tree.nq)
    pulled = held.forward_dynamics(off, v, tau, stabilization=(400.0, 40.0)).acceleration
    plain = held.forward_dynamics(off, v, tau, wanted=np.zeros(held.rows)).acceleration
    J = held.jacobian(off)
    assert_close(J @ (pulled - plain), -400.0 * held.error(off) - 40.0 * J @ v, 1e-8)
    near, rate = held.project(off, v, rounds=4)
    assert np.abs(held.error(near)).max() < 1e-12
    assert np.abs(held.jacobian(near) @ rate).max() < 1e-12
    assert np.array_equal(pickle.loads(pickle.dumps(tree)).equalities, tree.equalities)


@pytest.mark.parametrize("turn", [0.0, np.pi])
def test_hinges_do_not_tell_the_ends_of_their_axis_apart(turn: float) -> None:
    """Errors are zero, and their derivative is J, also where the axes of both frames point in opposite directions."""
    solid = {**SOLID, "placement": (np.eye(3), (0.2, 0.1, 0.05))}
    built = serial(({**solid, "axis": np.roll((0.0, 0.6, 0.8), i)} for i in range(6)), "link")
    q = np.linspace(-0.4, 0.6, 6)
    about_x = np.array([[1.0, 0.0, 0.0], [0.0, np.cos(turn), -np.sin(turn)], [0.0, np.sin(turn), np.cos(turn)]])
    end = built.build().pose(q, "link5")
    built.add_frame("pin", placement=(end[:3, :3] @ about_x, end[:3, 3]))
    tree = built.hinge("link5", "pin").build(loops="multipliers")
    held, h = tree.constraints(tree.equalities), 1e-6
    assert np.abs(held.error(q)).max() < 1e-12
    slopes = [(held.error(q + h * e) - held.error(q - h * e)) / (2 * h) for e in np.eye(tree.nv)]
    assert_close(held.jacobian(q), np.transpose(slopes), 1e-8)
    near, _ = held.project(q + 1e-3 * np.arange(6), np.zeros(6), rounds=4)
    assert np.abs(held.error(near)).max() < 1e-12


def test_simulation_stays_on_the_constraints_and_keeps_energy() -> None:
    _, tree = pair()
    q, v, _, _ = states(1)
    simulator = kt.simulation.Simulator(tree, constraints=tree.equalities, dt=1e-3, method="rk4")
    q, v = q[0], 0.3 * v[0]
    before = sum(tree.energy(q, v))
    for _ in range(50):
        q, v, info = simulator.step(q, v)
    assert np.abs(simulator.constraints.error(q)).max() < 1e-10
    assert abs(sum(tree.energy(q, v)) - before) < 1e-7
    assert set(info.constraint_forces) == set(simulator.constraints.names)


def test_couplings_of_joints_that_are_coupled_already() -> None:
    """Rows of joints take the coordinates of robots with clusters as well: the follower is expressed by its leader."""
    open_ = four_bar().connect("tip", "pin").build(near=NEAR)
    tie = kt.LinearCoupling(("rocker_joint",), (1.0,), float(open_.q_to_dict(open_.neutral())["rocker_joint"]))
    still = open_.constrained_dynamics(open_.neutral(), np.zeros(1), np.ones(1), [tie])
    assert_close(still.acceleration, np.zeros(1), 1e-12)


def follower() -> kt.Model:
    """A chain whose second joint follows the first, and whose third follows the second."""
    built = serial({**SOLID, "axis": np.roll((0.0, 0.0, 1.0), i)} for i in range(5))
    built.couple("b1_joint", to="b0_joint", poly=[0.1, 0.5, 0.2])
    built.couple("b2_joint", to="b1_joint", ratio=-2.0)
    return built.build()


def cam(x: Any, y: Any) -> Any:
    return 0.3 * x * x * y - y + 0.2


COUPLINGS = {
    "of followers": kt.LinearCoupling(("b2_joint", "b3_joint", "b1_joint"), (1.0, -0.5, 2.0), 0.3),
    "function": FunctionCoupling(("b3_joint", "b2_joint", "b4_joint"), cam),
    "polynomial": kt.PolynomialCoupling(("b4_joint", "b1_joint"), (0.1, -0.4, 0.2, 0.3)),
    "constant": kt.PolynomialCoupling(("b4_joint", "b1_joint"), (0.1,)),
    "joint twice": kt.LinearCoupling(("b3_joint", "b4_joint", "b3_joint"), (1.0, 2.0, 0.5)),
    "function of itself": FunctionCoupling(("b3_joint", "b3_joint", "b4_joint"), cam),
}


@pytest.mark.parametrize("name", sorted(COUPLINGS))
def test_rows_of_couplings(name: str) -> None:
    """φ by its formula; J and the drift are its derivatives, on a robot with coordinates that follow from others."""
    robot, rng = follower(), np.random.default_rng(5)
    coupling = COUPLINGS[name]
    held = robot.constraints([coupling])
    q, (v, tau) = rng.uniform(-0.5, 0.5, robot.nq), rng.normal(size=(2, robot.nv))
    x = [float(robot.q_to_dict(q)[joint]) for joint in coupling.joints]
    if isinstance(coupling, kt.LinearCoupling):
        expected = coupling.coefficients @ x - coupling.offset
    elif isinstance(coupling, kt.PolynomialCoupling):
        expected = x[0] - np.polynomial.Polynomial(coupling.coefficients)(x[1])
    else:
        expected = x[0] - cam(*x[1:])
    assert_close(held.error(q), np.array([expected]), 1e-14)
    h = 1e-6
    J = held.jacobian(q)
    slopes = [(held.error(q + h * e) - held.error(q - h * e)) / (2 * h) for e in np.eye(robot.nv)]
    assert_close(J, np.transpose(slopes), 1e-8)
    drift = (held.jacobian(q + h * v) - held.jacobian(q - h * v)) @ v / (2 * h)
    found = held.forward_dynamics(q, v, tau, wanted=[0.7])
    assert_close(J @ found.acceleration + drift, np.array([0.7]), 1e-8)
    assert_close(robot.inverse_dynamics(q, v, found.acceleration), tau + J.T @ found.forces, 1e-10)


def mixed() -> tuple[kt.Model, Any, list[Any]]:
    """A humanoid that stands, holds a rod, and has a locked and two coupled joints; the rod is held twice."""
    robot = model("humanoid24")
    names = [joint.name for joint in robot.joints if joint.nq == 1]
    held = [
        kt.LinearCoupling((names[0],), (1.0,)),
        "left_foot",
        kt.Distance("left_hand", "right_hand", 0.4),
        kt.Distance("right_hand", "left_hand", 0.4),
        kt.LinearCoupling((names[4], names[5]), (1.0, -0.5)),
        kt.Weld("waist_yaw_link", rows=(3, 5)),
    ]
    return robot, robot.random_configuration(3), held


def test_rows_of_all_kinds_together() -> None:
    """Newton–Euler with λ, rows that accelerate as wanted, and the smallest forces for what is held twice."""
    robot, q, constraints = mixed()
    rng = np.random.default_rng(7)
    v, tau = rng.normal(size=(2, robot.nv))
    held = robot.constraints(constraints, at=q)
    J, wanted, h = held.jacobian(q), rng.normal(size=held.rows), 1e-6
    wanted[8] = wanted[7]
    a, force = held.forward_dynamics(q, v, tau, wanted=wanted)
    assert_close(robot.inverse_dynamics(q, v, a), tau + J.T @ force, 1e-10)
    drift = (held.jacobian(robot.integrate(q, v, h)) - held.jacobian(robot.integrate(q, v, -h))) @ v / (2 * h)
    assert_close(J @ a + drift, wanted, 1e-6)
    assert_close(force[7], force[8], 1e-10)
    once = [each for i, each in enumerate(constraints) if i != 3]
    assert_close(robot.constrained_dynamics(q, v, tau, once).acceleration,
                 robot.constrained_dynamics(q, v, tau, constraints).acceleration, 1e-9)  # fmt: skip
    assert_close(held.jacobian(q) @ held.project_velocity(q, v), np.zeros(held.rows), 1e-10)


def test_bits_of_rows_of_all_kinds_do_not_depend_on_the_batch() -> None:
    robot, at, constraints = mixed()
    held, rng = robot.constraints(constraints, at=at), np.random.default_rng(8)
    q, v = robot.random_configuration(rng, (9,)), rng.normal(size=(9, robot.nv))
    tau = rng.normal(size=(9, 2 * robot.nv))[:, ::2]
    q[3] = np.nan

    def results(q: Any, v: Any, tau: Any) -> list[Any]:
        forward = held.forward_dynamics(q, v, tau, stabilization=(100.0, 20.0))
        return [*forward, held.error(q), held.jacobian(q), *held.project(q, v, rounds=2)]

    together = results(q, v, tau)
    for i in range(9):
        for one, all_ in zip(results(q[i], v[i], tau[i]), together, strict=True):
            np.testing.assert_array_equal(one, all_[i])
    for each in together:
        assert np.isnan(each[3]).any()
        assert np.isfinite(np.delete(each, 3, axis=0)).all()


def test_compiled_steps_are_those_of_python() -> None:
    _, tree = pair()
    q, v, tau, _ = states()
    world = kt.simulation.Simulator(tree, constraints=tree.equalities, dt=1e-3, damping=0.1)
    assert world._steps.is_compiled
    path = world.rollout(q, v, tau, steps=5)
    for k in range(5):
        info = world.step(q, v, tau)[2]
        q, v, acceleration, forces, _ = world._steps._executed((), False)(q, v, tau)
        np.testing.assert_array_equal(path.q[:, k + 1], q)
        np.testing.assert_array_equal(path.v[:, k + 1], v)
        np.testing.assert_array_equal(info.acceleration, acceleration)
        for name, force in world.constraints.split(forces).items():
            np.testing.assert_array_equal(info.constraint_forces[name], force)


def test_rows_of_a_robot_with_a_flexible_body() -> None:
    solid = {"mass": 1.0, "com": (0.3, 0.1, 0.2), "inertia": 0.1 * np.eye(3)}
    beam = kt.Beam(1.0, 10.0, 1.0, modes=2, planes="y", elements=8, axial_inertia=1e-3)
    built = kt.Builder("flexible").add_body("a", axis=(0, 1, 0), **solid)
    built.add_flexible("b", beam, parent="a", joint="revolute", axis=(0, 0, 1))
    robot = built.add_body("c", parent="b/tip", axis=(0, 1, 0), **solid).build()
    held = [
        kt.LinearCoupling(("a_joint", "c_joint"), (1.0, -0.5)),
        kt.Distance("c", "world", 1.0),
        kt.Weld("c", rows=(3,)),
    ]
    rng = np.random.default_rng(6)
    q, (v, tau) = robot.random_configuration(rng), rng.normal(size=(2, robot.nv))
    world = kt.simulation.Simulator(robot, constraints=held, at=q, dt=1e-3)
    J = world.constraints.jacobian(q)
    a, force = world.constraints.forward_dynamics(q, v, tau)
    assert_close(robot.inverse_dynamics(q, v, a), tau + J.T @ force, 1e-10)
    assert world._steps.is_compiled
    after, rate, *_ = world._steps._executed((), False)(q, v, tau)
    path = world.rollout(q, v, tau, steps=1)
    assert np.array_equal(path.q[1], after)
    assert np.array_equal(path.v[1], rate)


def test_constraints_can_be_pickled() -> None:
    robot, at, constraints = mixed()
    q, v = robot.random_configuration(4), np.ones(robot.nv)
    for some in (constraints, ["left_foot"]):
        held = robot.constraints(some, at=at)
        expected = held.forward_dynamics(q, v, v, stabilization=(100.0, 20.0))
        again = pickle.loads(pickle.dumps(held)).forward_dynamics(q, v, v, stabilization=(100.0, 20.0))
        assert all(map(np.array_equal, again, expected))


def test_bad_states() -> None:
    _, tree = pair()
    held, q, v = tree.constraints(tree.equalities), np.zeros(tree.nq), np.zeros(tree.nv)
    refused(r"constraints: q", held.error, q[1:])
    refused(r"constraints: v", held.project_velocity, q, v[1:])
    refused(r"constraints: wanted", held.forward_dynamics, q, v, v, wanted=np.zeros(held.rows + 1))


def test_surgery_keeps_equalities() -> None:
    _, tree = pair()
    assert tree.with_gravity((0, 0, 0)).equalities == tree.equalities
    assert len(tree.reduced({"wheel_joint": 0.5}).equalities) == 4
    assert str(tree.reduced({"wheel_joint": 0.5}).equalities[1]) == "valve_joint = 0.275"
    twice = tree.attach("world", tree, prefix="b_")
    assert [str(one) for one in twice.equalities[4:5]] == ["b_gear_joint = -2·b_crank_joint + 0.1"]
    refused(r"would cut gear_joint = -2·crank_joint \+ 0.1", tree.subtree, "gear")
    refused('URDF cannot describe hinge .* loaded with loops="ignore"', kt.to_urdf, tree, error=ModelError)


def test_bad_constraints() -> None:
    _, tree = pair()
    q, v = np.zeros(tree.nq), np.zeros(tree.nv)
    with pytest.raises(UnknownNameError, match=r"moving joint \(needed for the coupling wing = 2\)"):
        tree.constraints([kt.LinearCoupling(("wing",), (1.0,), 2.0)])
    refused("has one coefficient for each; got", kt.LinearCoupling, ("crank_joint",), (1.0, 2.0))
    with pytest.raises(InputError, match=r"give its length, or the configuration whose distance is held, at=q"):
        tree.constrained_dynamics(q, v, v, [kt.Distance("end", "pin")])
    assert_close(tree.constraints([kt.Distance("end", "pin")], at=q).error(q), np.zeros(1), 1e-12)
    refused("length is positive", kt.Distance, "end", "pin", -1.0)
    refused("a Distance takes names of frames, got int", kt.Distance, "end", 3)
    refused("so it is positive; got 0", tree.constraints, [kt.Distance("crank", "crank")], at=q)
    with pytest.raises(InputError, match="is no component of the motion of a frame; build it into the model"):
        _ = tree.constraints(tree.equalities).tasks
    refused('choose "embed" or "multipliers"', builder().build, loops="soft")
    free = kt.Builder("free").add_body("box", joint="floating", mass=1.0, inertia=np.eye(3)).build()
    with pytest.raises(InputError, match="joint 'box_joint' is floating; couple joints with one coordinate"):
        free.constraints([kt.LinearCoupling(("box_joint",), (1.0,))])
