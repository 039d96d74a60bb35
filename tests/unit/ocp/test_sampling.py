"""Control by samples: a swing-up in the loop, CEM against the optimum of LQR, limits, samples that overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import geometry, ocp, simulation
from kinetree.errors import ConvergenceError, InputError, UnknownNameError

Array = np.ndarray[Any, np.dtype[Any]]


def test_mppi_swings_a_pole_up_and_keeps_it_there() -> None:
    robot = kt.zoo.cart_pole()
    top = max((0.0, np.pi), key=lambda a: float(robot.energy(np.array([0.0, a]), np.zeros(2)).potential))
    world = simulation.Simulator(robot, dt=0.02, method="semi_implicit_euler")

    def cost(q: Array, v: Array, u: Array) -> Array:
        up = 1.0 - np.cos(q[..., 1] - top)
        slow = 0.05 * v[..., 1] ** 2 * (up < 0.3) + 0.01 * v[..., 0] ** 2
        total: Array = (10.0 * up + 0.5 * q[..., 0] ** 2 + slow).sum(-1) + 1e-4 * (u**2).sum((-1, -2))
        return total

    rng, u, q, v = np.random.default_rng(0), np.zeros((60, 2)), np.array([0.0, top - np.pi]), np.zeros(2)
    away = []
    for _ in range(150):
        u = ocp.sample(world, cost, q, v, u, noise=[6.0, 0.0], rounds=2, temperature=5.0, limits=15.0, rng=rng).u
        assert np.abs(u).max() <= 15.0
        assert np.all(u[:, 1] == 0.0)
        q, v = robot.step(q, v, u[0], 0.02)
        u = np.concatenate([u[1:], np.zeros((1, 2))])
        away.append(1.0 - np.cos(q[1] - top))
    assert max(away[-50:]) < 0.02


def test_cem_approaches_the_optimum() -> None:
    """Of a problem that `Problem` solves exactly."""
    robot, T = kt.zoo.pendulum(), 10
    terms = [ocp.state([1.0], weight=0.0, last=10.0), ocp.control(weight=0.1)]
    plan = ocp.Problem(robot, 0.05, T, terms).solve([0.0]).require()
    world = simulation.Simulator(robot, dt=0.05, method="semi_implicit_euler")

    def cost(q: Array, v: Array, u: Array) -> Array:
        last = (q[:, -1, 0] - 1.0) ** 2 + v[:, -1, 0] ** 2
        total: Array = 5.0 * last + 0.5 * 0.1 * 0.05 * (u**2).sum((1, 2))
        return total

    found = ocp.sample(
        world, cost, [0.0], [0.0], np.zeros((T, 1)), noise=5.0, method="cem", rounds=60, samples=400, rng=1
    )
    assert plan.cost <= found.cost + 1e-12
    assert found.cost < 1.02 * plan.cost + 1e-3
    again = ocp.sample(
        world, cost, [0.0], [0.0], np.zeros((T, 1)), noise=5.0, method="cem", rounds=60, samples=400, rng=1
    )
    np.testing.assert_array_equal(found.u, again.u)
    assert found.noise.max() < 1.0


@pytest.mark.parametrize("method", ["mppi", "cem"])
def test_a_finger_pushes_a_crate(method: str) -> None:
    """Through contacts that are discovered, which no gradient finds before they touch."""
    builder = kt.Builder("finger")
    place = (np.eye(3), (-0.15, 0.0, 0.05))
    builder.add_body("tip", joint="prismatic", axis=(1, 0, 0), placement=place, mass=0.2, inertia=1e-3 * np.eye(3))
    size = (0.1, 0.1, 0.1)
    robot = builder.build().attach("world", kt.zoo.box(size, 0.5, "crate"))
    robot = robot.with_shapes([geometry.Sphere("tip", (0, 0, 0), 0.03), geometry.Box("crate", size)])
    scene = kt.Scene([geometry.Plane("floor", friction=0.4)])
    world = simulation.Simulator(robot, dt=0.02, contacts="discover", scene=scene)
    q, noise = np.array([0.0, 0, 0, 0.05, 1, 0, 0, 0]), np.r_[3.0, np.zeros(6)]

    def cost(q: Array, v: Array, u: Array) -> Array:
        total: Array = 100.0 * (q[:, -1, 1] - 0.1) ** 2 + v[:, -1, 4] ** 2 + 1e-4 * (u**2).sum((1, 2))
        return total

    rng, u = np.random.default_rng(0), np.zeros((25, 7))
    u[:, 0] = 1.0
    for _ in range(12):
        found = ocp.sample(
            world, cost, q, np.zeros(7), u, noise=noise, method=method, samples=64, temperature=0.02, rng=rng
        )
        u, noise = found.u, found.noise
    end = world.rollout(q, np.zeros(7), u).q[-1]
    assert abs(end[1] - 0.1) < 0.02
    assert abs(end[3] - 0.05) < 1e-3


def test_samples_that_are_not_finite_count_for_nothing() -> None:
    world = simulation.Simulator(kt.zoo.pendulum(), dt=0.05)
    u = np.zeros((4, 1))

    def some(q: Array, v: Array, u: Array) -> Array:
        del q, v
        return np.where(np.arange(len(u)) % 2, np.nan, (u**2).sum((1, 2)))

    for method in ("mppi", "cem"):
        found = ocp.sample(world, some, [0.0], [0.0], u, noise=1.0, method=method, rng=0)
        assert np.isfinite(found.u).all()
        assert found.cost == 0.0
    with pytest.raises(ConvergenceError, match="no sample has a finite cost"):
        ocp.sample(world, lambda _q, _v, u: np.full(len(u), np.nan), [0.0], [0.0], u, noise=1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"u": np.zeros(1)}, "u has shape"),
        ({"samples": 0}, "samples=0"),
        ({"noise": [1.0, 2.0, 3.0]}, "noise is a number"),
        ({"temperature": 0.0}, "temperature"),
        ({"cost": lambda _q, _v, _u: 1.0}, "cost returns shape"),
    ],
)
def test_arguments_that_do_not_fit(change: dict[str, Any], message: str) -> None:
    world = simulation.Simulator(kt.zoo.pendulum(), dt=0.05)
    given: dict[str, Any] = {"cost": lambda _q, _v, u: np.zeros(len(u)), "q": [0.0], "v": [0.0], "noise": 1.0}
    given |= {"u": np.zeros((3, 1)), **change}
    with pytest.raises(InputError, match=message):
        ocp.sample(world, **given)
    with pytest.raises(UnknownNameError, match="method"):
        ocp.sample(world, **{**given, "method": "other"})
