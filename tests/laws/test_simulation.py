"""Simulation: order of each integrator, energy, drift, implicit damping, rollouts, controllers in the loop, bits.

Populations: each sample is the robot with its own inertial parameters and gravity, alone and in batches.
"""

from __future__ import annotations

import pickle
import re
import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import kinetree as kt
from kinetree import simulation
from kinetree.errors import (
    ConvergenceWarning,
    InputError,
    ModelError,
    ModelWarning,
    SingularMechanismError,
    UnknownNameError,
    UnsupportedError,
)
from kinetree.simulation import steps
from tests.laws.cases import model
from tests.laws.test_contact import OwnPlane
from tests.mechanisms import hopper
from tests.tolerance import Array, assert_close, assert_near, bound, condition, peak, refused

ORDERS = {"semi_implicit_euler": 1, "midpoint": 2, "implicit_midpoint": 2, "rk4": 4}


@cache
def spinning() -> kt.Model:
    """A spherical pendulum: its coordinates are a quaternion."""
    builder = kt.Builder("top")
    builder.add_body("top", joint="spherical", mass=1.0, com=(0.1, 0.0, 0.3), inertia=np.diag([0.1, 0.12, 0.05]))
    return builder.build()


@cache
def four_bar() -> tuple[kt.Model, Array]:
    """Crank, coupler and rocker, whose loop a weld of two directions closes; and a configuration."""
    builder = kt.Builder("four-bar")
    along, across = np.diag([0.01, 0.01, 1e-4]), np.diag([1e-4, 0.017, 0.017])
    builder.add_body("crank", axis=(0, 1, 0), mass=1.0, com=(0, 0, -0.15), inertia=along)
    builder.add_body(
        "coupler", parent="crank", axis=(0, 1, 0), placement=(np.eye(3), (0, 0, -0.3)), mass=0.8, com=(0.25, 0, 0),
        inertia=across,
    )  # fmt: skip
    builder.add_body(
        "rocker", axis=(0, 1, 0), placement=(np.eye(3), (0.45, 0, 0)), mass=1.0, com=(0, 0, -0.2), inertia=along
    )
    builder.add_frame("tip", body="coupler", placement=(np.eye(3), (0.5, 0, 0)))
    builder.add_frame("pin", body="rocker", placement=(np.eye(3), (0, 0, -0.4)))
    robot = builder.build()
    q = np.array([1.2, -1.2, 1.0])
    for _ in range(30):  # Newton's method with the crank held
        T = robot.pose(q, ["pin", "tip"])
        gap = (T[1] - T[0])[[0, 2], 3]
        J = robot.jacobian(q, ["pin", "tip"], "local_world_aligned")
        q[1:] -= np.linalg.solve((J[1] - J[0])[[3, 5]][:, 1:], gap)
    return robot, q


def energy(robot: kt.Model, q: Array, v: Array) -> Array:
    both = robot.energy(q, v)
    return both.kinetic + both.potential


def error_after(robot: kt.Model, q: Array, v: Array, method: str, dt: float, seconds: float) -> Array:
    """Where it ends, against a far smaller step of the best method."""

    def end(method: str, dt: float) -> tuple[Array, Array]:
        steps = round(seconds / dt)
        path = simulation.Simulator(robot, dt=dt, method=method).rollout(q, v, np.zeros((steps, robot.nv)))
        return path.q[-1], path.v[-1]

    (q_end, v_end), (q_true, v_true) = end(method, dt), end("rk4", seconds / 400)
    return np.concatenate([robot.difference(q_true, q_end), v_end - v_true])


@pytest.mark.parametrize("method", ORDERS)
@pytest.mark.parametrize("name", ["double pendulum", "top"])
def test_halving_the_step_shows_the_order(name: str, method: str) -> None:
    robot = kt.zoo.double_pendulum() if name == "double pendulum" else spinning()
    q, v = (np.array([2.0, 1.0]), np.zeros(2)) if robot.nv == 2 else (robot.neutral(), np.array([1.0, 0.5, 3.0]))
    errors = [peak(error_after(robot, q, v, method, dt, 0.2)) for dt in (0.02, 0.01, 0.005)]
    orders = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert_near(orders, ORDERS[method], 0.35)


def test_energy() -> None:
    """Errors after one second of a spherical pendulum at 2 ms, each method within its league."""
    robot = spinning()
    q, v = robot.neutral(), np.array([1.0, 0.5, 3.0])
    allowed = {"semi_implicit_euler": 0.3, "midpoint": 5e-4, "implicit_midpoint": 5e-4, "rk4": 1e-8}
    for method, most in allowed.items():
        path = simulation.Simulator(robot, dt=2e-3, method=method).rollout(q, v, np.zeros((500, 3)))
        off = energy(robot, path.q, path.v) - energy(robot, q, v)
        assert peak(off) < most, method


def test_a_falling_humanoid_stays_finite() -> None:
    """Where semi-implicit Euler diverges at the same step."""
    robot = model("humanoid24")
    q = robot.random_configuration(np.random.default_rng(0))
    path = simulation.Simulator(robot).rollout(q, np.zeros(24), np.zeros((1000, 24)))
    off = energy(robot, path.q, path.v) - energy(robot, q, np.zeros(24))
    assert peak(off) < 20.0


@pytest.mark.parametrize("method", ["midpoint", "rk4"])
def test_a_loop_stays_closed(method: str) -> None:
    robot, q = four_bar()
    loop = [kt.Weld("tip", "pin", (3, 5))]
    world = simulation.Simulator(robot, constraints=loop, at=q, method=method)
    path = world.rollout(q, np.zeros(3), np.zeros((1000, 3)))
    gaps = robot.constraints(loop, at=q).error(path.q)
    assert peak(gaps) < 1e-13
    off = energy(robot, path.q, path.v) - energy(robot, q, np.zeros(3))
    assert peak(off) < {"midpoint": 1e-3, "rk4": 1e-9}[method]


def test_without_projection_a_loop_drifts() -> None:
    robot, q = four_bar()
    loop = [kt.Weld("tip", "pin", (3, 5))]
    world = simulation.Simulator(robot, constraints=loop, at=q, project=False)
    path = world.rollout(q, np.zeros(3), np.zeros((1000, 3)))
    assert 1e-13 < peak(robot.constraints(loop, at=q).error(path.q)) < 1e-4


def test_constraint_forces_carry_the_weight() -> None:
    robot = kt.Builder("mass").add_body("box", joint="floating", mass=2.0, inertia=np.eye(3)).build()
    world = simulation.Simulator(robot, constraints=["box"], at=robot.neutral())
    q, v, info = world.step(robot.neutral(), np.zeros(6))
    assert_near(info.constraint_forces["box"], [0, 0, 0, 0, 0, 2.0 * 9.81], 1e-10)
    assert_near(q, robot.neutral(), 1e-15)
    assert_near(info.acceleration, np.zeros(6), 1e-12)
    assert peak(v) < 1e-15


def test_implicit_damping_and_springs_are_the_dense_solution() -> None:
    robot = model("humanoid24")
    rng = np.random.default_rng(1)
    q, v, tau = robot.random_configuration(rng), *rng.normal(size=(2, 24))
    D, K, dt = rng.uniform(0.0, 50.0, 24), rng.uniform(0.0, 500.0, 24), 1e-3
    rest = robot.random_configuration(rng)
    world = simulation.Simulator(robot, dt=dt, damping=D, stiffness=K, rest=rest, method="semi_implicit_euler")
    _, after, _ = world.step(q, v, tau)
    M = robot.mass_matrix(q)
    pulled = tau - robot.bias_forces(q, v) - D * v - K * (q - rest) - dt * K * v
    expected = v + dt * np.linalg.solve(M + np.diag(dt * D + dt**2 * K), pulled)
    assert_close(after, expected, bound(24, condition(M)))


@pytest.mark.parametrize("method", ["midpoint", "semi_implicit_euler"])
def test_stiff_damping_is_stable(method: str) -> None:
    """Damping thousands of times faster than the step: a light last link."""
    robot = kt.zoo.double_pendulum()
    world = simulation.Simulator(robot, dt=1e-2, damping=np.array([50.0, 500.0]), stiffness=1e4, method=method)
    path = world.rollout(np.array([0.5, 0.5]), np.zeros(2), np.zeros((500, 2)))
    assert peak(path.v[-1]) < 1e-2
    assert peak(path.q) < 1.0


def test_the_robots_own_damping_is_taken_on_request() -> None:
    robot = kt.zoo.double_pendulum().with_damping(np.array([2.0, 3.0]))
    q, v = np.array([0.3, 0.2]), np.array([1.0, -1.0])
    steps = [
        simulation.Simulator(robot, damping=damping).step(q, v)[1] for damping in (True, np.array([2.0, 3.0]), False)
    ]
    np.testing.assert_array_equal(steps[0], steps[1])
    assert peak(steps[0] - steps[2]) > 1e-4


@pytest.mark.parametrize("method", ORDERS)
def test_a_rollout_is_a_loop_of_steps_and_batches_change_no_bit(method: str) -> None:
    robot = model("asimo35")
    rng = np.random.default_rng(2)
    q, v = robot.random_configuration(rng, (4,)), rng.normal(size=(4, robot.nv))
    taus = rng.normal(size=(4, 5, robot.nv))
    damping = 1.0 if method in ("midpoint", "semi_implicit_euler") else 1e-3  # implicit there
    world = simulation.Simulator(robot, method=method, damping=damping)
    path = world.rollout(q, v, taus)
    assert path.q.shape == (4, 6, robot.nq)
    np.testing.assert_allclose(path.time, 1e-3 * np.arange(6), rtol=1e-12)
    for i in range(4):
        one, rate = q[i], v[i]
        for k in range(5):
            np.testing.assert_array_equal(path.q[i, k], one)
            one, rate, _ = world.step(one, rate, taus[i, k])
        np.testing.assert_array_equal(path.q[i, 5], one)
        np.testing.assert_array_equal(path.v[i, 5], rate)


@pytest.mark.parametrize("constrained", [False, True])
def test_rollouts_under_constant_forces_and_of_some_states(constrained: bool) -> None:
    """`steps` and `every`, long enough for several calls of the compiled steps; into the user's arrays."""
    robot, q = four_bar()
    options: dict[str, Any] = {"constraints": [kt.Weld("tip", "pin", (3, 5))], "at": q} if constrained else {}
    world = simulation.Simulator(robot, **options)
    count = 12 if constrained else 1200
    q, v, tau = np.stack([q, q]), np.zeros(3), np.array([[0.1, 0.0, -0.1], [0.0, 0.2, 0.0]])
    whole = world.rollout(q, v, np.repeat(tau[:, None], count, axis=1))
    out = np.full((2, count // 4 + 1, 3), np.nan), np.full((2, count // 4 + 1, 3), np.nan)
    some = world.rollout(q, v, tau, steps=count, every=4, out=out)
    assert some.q is out[0]
    np.testing.assert_array_equal(some.q, whole.q[:, ::4])
    np.testing.assert_array_equal(some.v, whole.v[:, ::4])
    np.testing.assert_array_equal(some.time, whole.time[::4])
    again = world.rollout(out[0][:, 0], out[1][:, 0], tau, steps=count, every=4, out=out)  # overlaps its inputs
    np.testing.assert_array_equal(again.q, whole.q[:, ::4])
    nowhere = world.rollout(q, v, steps=0)
    np.testing.assert_array_equal(nowhere.q, q[:, None])


def test_steps_take_external_wrenches() -> None:
    robot = kt.zoo.box((0.1, 0.1, 0.1), 2.0)
    q, v = robot.neutral(), np.zeros(6)
    for method in ORDERS:
        _, after, info = simulation.Simulator(robot, method=method).step(q, v, f_ext={"box": [0, 0, 0, 0, 0, 2 * 9.81]})
        assert_near(after, 0.0, 1e-16)
        assert_near(info.acceleration, 0.0, 1e-13)


def test_simulators_are_picklable() -> None:
    robot = kt.zoo.double_pendulum()
    world = simulation.Simulator(robot, dt=2e-3, method="rk4", damping=[0.1, 0.2])
    copy = pickle.loads(pickle.dumps(world))
    q, v = np.array([1.0, 2.0]), np.zeros(2)
    np.testing.assert_array_equal(copy.step(q, v)[0], world.step(q, v)[0])


def _idle(*_: Any, **__: Any) -> Any:
    return np.zeros(2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: w.rollout(np.zeros(2), np.zeros(2), np.zeros(2)), r"tau has shape \(2,\); it takes \(…, T, 2\), or"),
        (lambda w: w.rollout(np.zeros(2), np.zeros(2)), r"tau has shape \(0,\)"),
        (lambda w: w.rollout(np.zeros(2), np.zeros(2), np.zeros((4, 3)), steps=4), r"rollout: tau has shape \(4, 3\)"),
        (lambda w: w.rollout(np.zeros(2), np.zeros(2), steps=5, every=2), "every=2 does not divide the 5 steps"),
        (lambda w: w.rollout(np.zeros(2), np.zeros(2), steps=1.5), "steps=1.5 is not an integer of at least 0"),
        (lambda w: w.rollout(np.zeros(2), np.zeros(2), steps=5, every=0), "every=0 is not an integer of at least 1"),
        (lambda w: w.rollout(np.zeros(2), np.zeros(2), steps=5, out=np.zeros((6, 2))), "rollout: out"),
        (
            lambda w: w.rollout(np.zeros(2), np.zeros(2), steps=10**12),
            "GiB, do not fit into memory; choose a larger every=",
        ),
        (lambda w: w.rollout(np.zeros(2), np.zeros(2), steps=np.int64(10**18)), "do not fit into memory"),
        (lambda w: w.rollout(np.zeros(2), np.zeros(2), steps=10**30, every=10**30), "more than the .* can be counted"),
        (lambda w: w.rollout(np.zeros(2), np.zeros(2), steps=-1), "steps=-1 is not an integer of at least 0"),
        (lambda w: w.rollout(np.zeros(2), np.zeros(2), steps=4, every=8), "every=8 does not divide the 4 steps"),
        (
            lambda w: w.run(np.zeros(2), _idle, seconds=1e15),
            "run: results .* do not fit into memory; run fewer seconds",
        ),
        (lambda w: w.run(np.zeros(2), _idle, seconds="1"), "seconds='1' is not a positive number"),
        (lambda w: w.run(np.zeros(2), _idle, _idle, seconds=1.0), "run: targets is a mapping .*; got function"),
        (lambda w: w.run(np.zeros(2), np.zeros(2), seconds=1.0), "run: controller is a function .*; got ndarray"),
        (lambda w: w.run(np.zeros(2), _idle, seconds=1.0, servo=[1.0]), r"servo=\[1.0\] is not a positive number"),
    ],
)
def test_rollouts_refuse(call: Any, message: str) -> None:
    refused(message, call, simulation.Simulator(kt.zoo.double_pendulum()))


@pytest.mark.parametrize("dt", [1e10, 1e100, 1e300])
@pytest.mark.parametrize("method", ["midpoint", "semi_implicit_euler", "rk4", "implicit_midpoint"])
def test_numbers_that_overflow_are_told(method: str, dt: float) -> None:
    """Once, with the time step; not for samples that are no numbers from the start."""
    robot = kt.zoo.double_pendulum()
    world, q, v = simulation.Simulator(robot, dt=dt, method=method), np.full(2, 0.3), np.ones(2)
    told = pytest.warns(ConvergenceWarning, match=f"rollout: the motion .* time step below {re.escape(f'{dt:g}')} s")
    with told as caught:
        world.rollout(q, v, steps=8)
    assert len(caught) == 1
    with pytest.warns(ConvergenceWarning, match="run: the motion"):
        world.run(q, _idle, v=v, seconds=8 * dt)
    with pytest.warns(ConvergenceWarning, match="in 1 of 2 samples"):
        world.rollout(np.stack([q, q * np.nan]), v, steps=8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        world.rollout(q * np.nan, v, steps=8)
        world.rollout(q, v, np.full((8, 2), np.nan))


def test_single_steps_that_overflow_are_told() -> None:
    robot, q = kt.zoo.double_pendulum(), np.full(2, 0.3)
    world = simulation.Simulator(robot)
    for given in (q, np.stack([q, q, q])):
        for speed in (1.0, 1e160, 1.0, 1e300):  # the first step of a simulator, and later ones
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                world.step(given, np.full(2, speed))
            assert [str(each.message).startswith("step: the motion") for each in caught] == [True] * (speed > 1.0)
    for method in ("midpoint", "semi_implicit_euler"):  # velocities and angles, angles alone
        world = simulation.Simulator(kt.zoo.double_pendulum(), dt=1e300, method=method)
        with pytest.warns(ConvergenceWarning, match="step: the motion"):
            world.step(np.full(2, 0.3), np.ones(2))


def test_a_sample_with_nan_stays_alone() -> None:
    robot, q = four_bar()
    world = simulation.Simulator(robot, constraints=[kt.Weld("tip", "pin", (3, 5))], at=q)
    many = np.stack([q, np.full(3, np.nan), q])
    after, rate, _ = world.step(many, np.zeros(3))
    alone = world.step(q, np.zeros(3))
    np.testing.assert_array_equal(after[0], alone[0])
    np.testing.assert_array_equal(rate[2], alone[1])
    assert np.isnan(after[1]).all()


def test_a_controller_runs_at_its_own_rate() -> None:
    robot = kt.zoo.double_pendulum()
    asked: list[float] = []
    seen: list[float] = []

    def hold(q: Array, v: Array, targets: dict[str, Any]) -> Array:
        asked.append(targets["time"])
        return np.asarray(robot.gravity_forces(q) - 20.0 * v + 200.0 * (targets["where"] - q))

    goal = np.array([0.2, -0.1])
    film = simulation.Simulator(robot).run(
        np.zeros(2), hold, {"time": lambda t: t, "where": goal}, seconds=2.0, servo=300.0,
        watch=lambda time, *_: seen.append(time),
    )  # fmt: skip
    assert_near(np.diff(asked)[:-1], 1.0 / 300.0, 1.001e-3)
    assert len(film.time) == len(asked) == 601
    np.testing.assert_array_equal(film.time, asked)
    assert seen == asked
    assert film.q.shape == (601, 2)
    assert_near(film.q[-1], goal, 5e-3)


def test_a_controller_gets_its_state_back() -> None:
    """What a command carries as `state` is passed to the next call, with the time between them."""
    robot = kt.zoo.double_pendulum()
    seen: list[dict[str, Any]] = []

    class Command(NamedTuple):
        tau: Array
        state: int

    def controller(q: Array, v: Array, targets: Any, **passed: Any) -> Command:
        seen.append(passed)
        return Command(np.zeros(2), len(seen))

    simulation.Simulator(robot, dt=1e-3).run(robot.neutral(), controller, seconds=0.02, servo=100.0)
    assert seen[0] == {}
    assert [each["state"] for each in seen[1:]] == list(range(1, len(seen)))
    np.testing.assert_allclose([each["dt"] for each in seen[1:3]], [0.01, 0.01], rtol=1e-12)


@pytest.mark.parametrize(("method", "project"), [("midpoint", True), ("rk4", False), ("semi_implicit_euler", True)])
def test_compiled_constraints_are_those_of_python(method: str, project: bool) -> None:
    """Bits of steps computed call by call; constraint forces and mean accelerations too."""
    robot, q = four_bar()
    world = simulation.Simulator(
        robot, constraints=[kt.Weld("tip", "pin", (3, 5))], at=q, method=method, project=project, damping=0.1
    )
    assert world._steps.is_compiled
    assert world.constraints is not None
    rng = np.random.default_rng(2)
    v, taus = world.constraints.project_velocity(q, rng.normal(size=(3, 3))), rng.normal(size=(3, 6, 3))
    path = world.rollout(q, v, taus)
    one, rate = np.repeat(q[None], 3, axis=0), v
    for k in range(6):
        info = world.step(one, rate, taus[:, k])[2]
        one, rate, acceleration, force, _ = world._steps._executed((), False)(one, rate, taus[:, k])
        np.testing.assert_array_equal(path.q[:, k + 1], one)
        np.testing.assert_array_equal(path.v[:, k + 1], rate)
        np.testing.assert_array_equal(info.acceleration, acceleration)
        np.testing.assert_array_equal(info.constraint_forces["tip"], force)


def test_redundant_constraints_of_some_samples() -> None:
    """Compiled steps take rows that depend on each other from the start, in each sample on its own."""
    robot, q = four_bar()
    world = simulation.Simulator(robot, constraints=[kt.Weld("tip", "pin", (3, 4, 5))], at=q)  # planar: y never moves
    assert world.constraints is not None
    assert not world.constraints.regular
    path = world.rollout(np.stack([q, np.full(3, np.nan)]), np.zeros(3), steps=20, every=10)
    one, rate = q, np.zeros(3)
    for k in range(20):
        one, rate, _ = world.step(one, rate)
        if (k + 1) % 10 == 0:
            np.testing.assert_array_equal(path.q[0, (k + 1) // 10], one)
    assert np.isnan(path.q[1]).all()
    plain = simulation.Simulator(robot, constraints=[kt.Weld("tip", "pin", (3, 5))], at=q)
    assert_near(path.q[0], plain.rollout(q, np.zeros(3), steps=20, every=10).q, 1e-10)


def test_constraints_that_become_redundant() -> None:
    """Such samples are computed again outside compiled steps, with the bits of single steps; others are not."""
    robot, bent = kt.zoo.double_pendulum(), np.array([0.3, 0.8])
    world = simulation.Simulator(robot, constraints=[kt.Task("tip", (3, 5))], at=bent)
    assert world.constraints is not None
    assert world.constraints.regular
    starts = np.stack([bent, [0.3, 0.0]])  # stretched, the tip cannot move along the links
    path = world.rollout(starts, np.zeros(2), steps=4)
    for i, one in enumerate(starts):
        rate = np.zeros(2)
        for k in range(4):
            one, rate, _ = world.step(one, rate)
            np.testing.assert_array_equal(path.q[i, k + 1], one)
    assert np.isfinite(path.q).all()


def computed(of: Any, q: Any, v: Any, x: Any) -> dict[str, Any]:
    """What a robot and a population both compute, by name."""
    return {
        "forward_dynamics": of.forward_dynamics(q, v, x),
        "inverse_dynamics": of.inverse_dynamics(q, v, x),
        "mass_matrix": of.mass_matrix(q),
        "bias_forces": of.bias_forces(q, v),
        "gravity_forces": of.gravity_forces(q),
        "potential": of.energy(q, v).potential,
        "step": of.step(q, v, x, 1e-3)[1],
        "midpoint": of.step(q, v, x, 1e-3, "midpoint")[1],
    }


def test_each_sample_is_its_own_robot() -> None:
    """A floating base, bodies behind fixed joints, and all functions."""
    base = kt.zoo.random_tree(7, kinds=("floating", "revolute", "prismatic", "universal", "spherical"), seed=4)
    tool = kt.Builder("tool")
    tool.add_body("tool", joint="fixed", mass=0.7, com=(0.1, 0.0, 0.2), inertia=0.01 * np.eye(3))
    for robot in (base, model("humanoid24").attach("left_hand", tool.build())):
        rng = np.random.default_rng(0)
        n, nv = 5, robot.nv
        theta = robot.inertial_parameters * rng.uniform(0.5, 2.0, (n, len(robot.bodies), 1))
        gravity = 9.0 * rng.normal(size=(n, 3))
        q, (v, x) = robot.random_configuration(rng, (n,)), rng.normal(size=(2, n, nv))
        some = robot.population(theta, gravity)
        assert some.shape == (n,)
        results = computed(some, q, v, x)
        for i in range(n):
            own = robot.with_inertial_parameters(theta[i]).with_gravity(gravity[i])
            allowed = bound(nv, condition(own.mass_matrix(q[i]))) * 10.0
            for name, value in computed(own, q[i], v[i], x[i]).items():
                assert_close(results[name][i], value, allowed)
            # the bits of a sample do not depend on others
            alone = robot.population(theta[i], gravity[i])
            np.testing.assert_array_equal(alone.forward_dynamics(q[i], v[i], x[i]), results["forward_dynamics"][i])
            np.testing.assert_array_equal(alone.mass_matrix(q[i]), results["mass_matrix"][i])


def test_each_sample_has_its_own_armature() -> None:
    """Also joints that have none in the robot, or in some samples, and joints of several stages; in float32, too."""
    robot = kt.zoo.random_tree(7, kinds=("floating", "revolute", "prismatic", "universal", "spherical"), seed=4)
    rng = np.random.default_rng(1)
    armature = rng.uniform(0.0, 2.0, (3, robot.nv)) * rng.integers(0, 2, (3, robot.nv))
    q, (v, x) = robot.random_configuration(rng), rng.normal(size=(2, robot.nv))
    theta = 1.5 * robot.inertial_parameters
    some = robot.population(theta, armature=armature)
    results = computed(some, q, v, x)
    starts = {joint.name: joint.v_slice for joint in robot.joints}
    for i in range(3):
        own = robot.with_inertial_parameters(theta).with_armature(
            {name: armature[i][at] for name, at in starts.items()}
        )
        allowed = bound(robot.nv, condition(own.mass_matrix(q))) * 10.0
        for name, value in computed(own, q, v, x).items():
            assert_close(results[name][i] if results[name].shape[0] == 3 else results[name], value, allowed)
        alone = robot.population(theta, armature=armature[i])
        np.testing.assert_array_equal(alone.forward_dynamics(q, v, x), results["forward_dynamics"][i])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(some)).mass_matrix(q), results["mass_matrix"])
    single = robot.astype("float32").population(theta, armature=armature)
    assert_close(single.mass_matrix(q.astype(np.float32)), results["mass_matrix"], 1e-5)


def test_armature_of_populations_refused() -> None:
    robot = kt.zoo.double_pendulum()
    refused(r"population: armature has shape \(3,\)", robot.population, armature=np.ones(3))
    refused("population: damping has negative entries", robot.population, damping=[-1.0, 0.0])
    unequal = {"gravity": np.ones((3, 3)), "armature": np.ones((2, 2))}
    refused(r"do not broadcast: .* gravity \(3,\), armature \(2,\)", robot.population, **unequal)
    builder = kt.Builder().add_body("a", mass=1.0, com=(0.0, 0.0, -1.0), inertia=np.eye(3))
    builder.add_body("b", parent="a", mass=1.0, com=(0.0, 0.0, -1.0), inertia=np.eye(3))
    coupled = builder.couple("b_joint", to="a_joint", ratio=2.0).build()
    same = coupled.population(armature=coupled.armature).mass_matrix(np.zeros(1))
    np.testing.assert_array_equal(same, coupled.mass_matrix(np.zeros(1)))
    refused(
        "joint 'a_joint' is part of a coupling", coupled.population, armature=[[1.0], [2.0]], error=UnsupportedError
    )
    light = kt.Builder().add_body("rotor", armature=1.0).build()
    with pytest.raises(SingularMechanismError):
        light.population(armature=[[1.0], [0.0]]).forward_dynamics(np.zeros(1), np.zeros(1), np.zeros(1))


def test_parameters_and_states_broadcast() -> None:
    robot = model("humanoid24")
    q, v = robot.random_configuration(1), np.ones(24)
    some = robot.population(gravity=[[0.0, 0.0, -9.81], [0.0, 0.0, -1.62]])
    found = some.gravity_forces(q)
    np.testing.assert_array_equal(found[0], robot.gravity_forces(q))
    np.testing.assert_array_equal(found[1], robot.with_gravity((0.0, 0.0, -1.62)).gravity_forces(q))
    assert some.inverse_dynamics(np.tile(q, (3, 1, 1)), v, v).shape == (3, 2, 24)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(some)).gravity_forces(q), found)
    assert repr(some) == "<(2,) variants of humanoid24>"


@pytest.mark.parametrize(
    "options",
    [
        {"method": "rk4", "armature": True},
        {"method": "rk4", "damping": True},
        {"damping": True, "armature": True, "stiffness": 3.0},
        {"damping": True, "friction": True, "limits": True},
        {"contacts": True, "friction": True},
        {"damping": 2.0, "armature": True},
        {"contacts": True, "damping": 1.0},
        {"limits": True},
    ],
)
def test_populations_are_simulated(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sample moves as its own robot; in rollouts as in steps, in batches as alone."""
    robot = hopper()
    if "contacts" in options:
        sole = [(x, y, -0.05) for x in (-0.1, 0.1) for y in (-0.1, 0.1)]
        options = {**options, "contacts": [simulation.Points("foot", sole)]}
    rng = np.random.default_rng(2)
    theta = robot.inertial_parameters * rng.uniform(0.8, 1.5, (5, 2, 1))
    gravity = np.array([0.0, 0.0, -9.81]) * rng.uniform(0.5, 1.0, (5, 1))
    q = np.array([0.0, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0, 0.05])
    v = 0.1 * rng.normal(size=(5, 7))
    armature = rng.uniform(0.0, 0.5, (5, 7)) if options.pop("armature", False) else np.tile(robot.armature, (5, 1))
    joints = {what: rng.uniform(0.0, 2.0, (5, 7)) for what in ("damping", "friction") if options.get(what) is True}
    if "friction" in joints:
        joints["friction"][:, :6] = 0.0
        joints["friction"][0] = 0.0  # one sample has none
    world = simulation.Simulator(robot.population(theta, gravity, armature=armature, **joints), **options)
    path = world.rollout(q, v, steps=50)
    assert path.q.shape == (5, 51, 8)
    first = world.step(q, v)
    np.testing.assert_array_equal(first[0], path.q[:, 1])
    monkeypatch.setattr(steps, "_UNINTERRUPTED", 50)  # a call for every ten steps
    np.testing.assert_array_equal(world.rollout(q, v, steps=50, every=25).q, path.q[:, ::25])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(world)).step(q, v)[0], path.q[:, 1])
    for i in range(5):
        own = robot.with_inertial_parameters(theta[i]).with_gravity(gravity[i]).with_armature(armature[i])
        for what, values in joints.items():
            own = getattr(own, f"with_{what}")(values[i])
        alone = simulation.Simulator(own, **options).rollout(q, v[i], steps=50)
        assert_near(path.q[i], alone.q, 1e-9)


def test_populations_refuse() -> None:
    robot = kt.zoo.double_pendulum()
    refused(r"population: inertial_parameters has shape \(3, 10\)", robot.population, np.ones((3, 10)))
    refused("gravity has NaN or infinite entries", robot.population, gravity=[0.0, 0.0, np.nan])
    refused("rk4", robot.population().step, np.zeros(2), np.zeros(2), np.zeros(2), 1e-3, "rk4", error=UnknownNameError)
    box = kt.zoo.box((0.1, 0.1, 0.1), 1.0)
    some = box.population(damping=np.ones((2, 6)))
    with pytest.raises(UnsupportedError, match="damping that differs in a population cannot be combined"):
        simulation.Simulator(some, damping=True, constraints=["box"], at=box.neutral())
    own: Any = {"contacts": [simulation.Points("box", np.zeros(3))], "ground": OwnPlane(0.5)}
    with pytest.raises(InputError, match="cannot be simulated with contacts on shapes measured"):
        simulation.Simulator(box.population(), **own)


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4, 5])
def test_impossible_inertias_are_refused_as_of_single_robots(place: int) -> None:
    robot = kt.zoo.arm7()
    good = np.array(robot.inertial_parameters)
    wrong = [*_impossible(good)][place]
    with pytest.raises(ModelError) as alone:
        robot.with_inertial_parameters(wrong)
    theta = np.tile(good, (2, 3, 1, 1))
    theta[1, 2] = wrong
    with pytest.raises(ModelError) as one:
        robot.population(theta)
    name, _, reason = str(alone.value).partition(":")
    assert str(one.value) == f"{name} of sample 1, 2:{reason}"
    with pytest.raises(ModelError) as single:
        robot.population(wrong)
    assert str(single.value) == str(alone.value)
    robot.population(theta[0])


def _impossible(good: Any) -> Any:
    for body, entries, change in (
        (0, slice(0, 1), lambda x: -x),
        (6, slice(4, 10), lambda x: -x),
        (2, slice(0, 1), lambda x: 0.0 * x),
        (3, slice(1, 4), lambda x: x + 5.0),
        (5, slice(4, 10), lambda x: 0.0 * x),
        (1, slice(4, 5), lambda x: x + 10.0),
    ):
        theta = good.copy()
        theta[body, entries] = change(theta[body, entries])
        yield theta


def test_unphysical_parameters_are_kept_on_request() -> None:
    robot = kt.zoo.arm7()
    theta = np.array(robot.inertial_parameters)
    theta[0, 0] *= -1.0
    with pytest.warns(ModelWarning, match="body 'link0': mass -3 kg is negative"):
        kept = robot.population(theta, strict=False)
    with pytest.warns(ModelWarning):
        alone = robot.with_inertial_parameters(theta, strict=False)
    q = np.full(7, 0.3)
    np.testing.assert_allclose(kept.inverse_dynamics(q, q, q), alone.inverse_dynamics(q, q, q), rtol=1e-12)
    again = alone.population(np.stack([theta, theta]))  # what a robot has was judged when it was made
    np.testing.assert_array_equal(again.inverse_dynamics(q, q, q)[1], kept.inverse_dynamics(q, q, q))


def test_all_random_bodies_are_judged_as_one_by_one() -> None:
    rng = np.random.default_rng(0)
    robot = kt.zoo.double_pendulum()
    agreed = {True: 0, False: 0}
    for _ in range(400):
        points, masses = rng.normal(size=(2, 4, 3)), rng.uniform(0.1, 1.0, (2, 4))
        theta = np.array([
            [m.sum(), *(m @ p), *(m @ np.stack([p[:, 1] ** 2 + p[:, 2] ** 2, -p[:, 0] * p[:, 1], -p[:, 0] * p[:, 2],
             p[:, 0] ** 2 + p[:, 2] ** 2, -p[:, 1] * p[:, 2], p[:, 0] ** 2 + p[:, 1] ** 2], axis=-1))]
            for p, m in zip(points, masses)
        ])  # fmt: skip
        theta[:, rng.integers(10)] *= rng.choice([1.0, 0.9, 1.1, -1.0])
        try:
            robot.with_inertial_parameters(theta)
            fine = True
        except ModelError:
            fine = False
        agreed[fine] += 1
        if fine:
            robot.population(theta[None])
        else:
            with pytest.raises(ModelError):
                robot.population(theta[None])
    assert min(agreed.values()) > 50


def test_robots_without_an_inverse_mass_matrix_are_refused() -> None:
    robot = kt.zoo.double_pendulum()
    theta = np.tile(robot.inertial_parameters, (3, 1, 1))
    theta[1, 1] = 0.0
    some = robot.population(theta)
    zero = np.zeros(2)
    assert some.inverse_dynamics(zero, zero, zero).shape == (3, 2)
    for call in (
        lambda: robot.with_inertial_parameters(theta[1]).forward_dynamics(zero, zero, zero),
        lambda: some.forward_dynamics(zero, zero, zero),
        lambda: some.step(zero, zero, zero, 1e-3),
        lambda: simulation.Simulator(some).rollout(zero, zero, steps=2),
    ):
        refused("lower", call, error=SingularMechanismError)
