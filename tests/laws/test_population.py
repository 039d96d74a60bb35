"""Populations: each sample is the robot with its own inertial parameters and gravity, alone and in batches."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import simulation
from kinetree.errors import InputError, ModelError, ModelWarning, SingularMechanismError, UnknownNameError
from kinetree.simulation import steps
from tests.laws.cases import model
from tests.tolerance import assert_close, bound, condition


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
        results = {
            "forward_dynamics": some.forward_dynamics(q, v, x),
            "inverse_dynamics": some.inverse_dynamics(q, v, x),
            "mass_matrix": some.mass_matrix(q),
            "bias_forces": some.bias_forces(q, v),
            "gravity_forces": some.gravity_forces(q),
            "potential": some.energy(q, v).potential,
            "step": some.step(q, v, x, 1e-3)[1],
            "midpoint": some.step(q, v, x, 1e-3, "midpoint")[1],
        }
        for i in range(n):
            own = robot.with_inertial_parameters(theta[i]).with_gravity(gravity[i])
            allowed = bound(nv, condition(own.mass_matrix(q[i]))) * 10.0
            expected = {
                "forward_dynamics": own.forward_dynamics(q[i], v[i], x[i]),
                "inverse_dynamics": own.inverse_dynamics(q[i], v[i], x[i]),
                "mass_matrix": own.mass_matrix(q[i]),
                "bias_forces": own.bias_forces(q[i], v[i]),
                "gravity_forces": own.gravity_forces(q[i]),
                "potential": own.energy(q[i], v[i]).potential,
                "step": own.step(q[i], v[i], x[i], 1e-3)[1],
                "midpoint": own.step(q[i], v[i], x[i], 1e-3, "midpoint")[1],
            }
            for name, value in expected.items():
                assert_close(results[name][i], value, allowed)
            # the bits of a sample do not depend on others
            alone = robot.population(theta[i], gravity[i])
            np.testing.assert_array_equal(alone.forward_dynamics(q[i], v[i], x[i]), results["forward_dynamics"][i])
            np.testing.assert_array_equal(alone.mass_matrix(q[i]), results["mass_matrix"][i])


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
    "options", [{"method": "rk4"}, {"damping": 2.0}, {"contacts": True, "damping": 1.0}, {"limits": True}]
)
def test_populations_are_simulated(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sample moves as its own robot; in rollouts as in steps, in batches as alone."""
    builder = kt.Builder("hopper")
    builder.add_body("body", joint="floating", mass=3.0, inertia=0.02 * np.eye(3))
    builder.add_body(
        "foot", parent="body", joint="prismatic", axis=(0, 0, 1), placement=(np.eye(3), (0, 0, -0.3)), mass=1.0,
        inertia=0.01 * np.eye(3), limits=kt.Limits(lower=-0.1, upper=0.1),
    )  # fmt: skip
    robot = builder.build()
    if "contacts" in options:
        sole = [(x, y, -0.05) for x in (-0.1, 0.1) for y in (-0.1, 0.1)]
        options = {**options, "contacts": [simulation.Points("foot", sole)], "sweeps": 100}
    rng = np.random.default_rng(2)
    theta = robot.inertial_parameters * rng.uniform(0.8, 1.5, (5, 2, 1))
    gravity = np.array([0.0, 0.0, -9.81]) * rng.uniform(0.5, 1.0, (5, 1))
    q = np.array([0.0, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0, 0.05])
    v = 0.1 * rng.normal(size=(5, 7))
    world = simulation.Simulator(robot.population(theta, gravity), **options)
    path = world.rollout(q, v, steps=50)
    assert path.q.shape == (5, 51, 8)
    first = world.step(q, v)
    np.testing.assert_array_equal(first[0], path.q[:, 1])
    monkeypatch.setattr(steps, "_UNINTERRUPTED", 50)  # a call for every ten steps
    np.testing.assert_array_equal(world.rollout(q, v, steps=50, every=25).q, path.q[:, ::25])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(world)).step(q, v)[0], path.q[:, 1])
    for i in range(5):
        own = robot.with_inertial_parameters(theta[i]).with_gravity(gravity[i])
        alone = simulation.Simulator(own, **options).rollout(q, v[i], steps=50)
        np.testing.assert_allclose(path.q[i], alone.q, rtol=0.0, atol=1e-9)


def test_refused() -> None:
    robot = kt.zoo.double_pendulum()
    with pytest.raises(InputError, match=r"population: inertial_parameters has shape \(3, 10\)"):
        robot.population(np.ones((3, 10)))
    with pytest.raises(InputError, match="gravity has NaN or infinite entries"):
        robot.population(gravity=[0.0, 0.0, np.nan])
    with pytest.raises(UnknownNameError, match="rk4"):
        robot.population().step(np.zeros(2), np.zeros(2), np.zeros(2), 1e-3, "rk4")
    box = kt.zoo.box((0.1, 0.1, 0.1), 1.0)
    with pytest.raises(InputError, match="a population cannot be simulated with constraints, or on shapes measured by"):
        simulation.Simulator(box.population(), constraints=["box"], at=box.neutral())


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
        with pytest.raises(SingularMechanismError, match="lower"):
            call()
