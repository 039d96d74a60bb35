"""Dry friction and stops of joints under constraints, with contacts and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import geometry as geo
from kinetree import simulation
from tests.laws.test_contact import slider
from tests.laws.test_contact_derivatives import differences
from tests.tolerance import Array, assert_near, peak

MU = 0.6
SOLE = (0.3, 0.1, 0.04)
METHODS = ("semi_implicit_euler", "midpoint")


def pair(coupled: bool, ratio: float = 2.0) -> kt.Model:
    """Two pendulums, of which the second one turns as many times as far: by its joint, or not at all."""
    builder = kt.Builder("pair")
    solid = {"mass": 1.0, "com": (0.1, 0.02, -0.2), "inertia": 0.02 * np.eye(3)}
    builder.add_body("a", axis=(0, 1, 0), limits=kt.Limits(lower=-0.4, upper=0.6), **solid)
    builder.add_body("b", axis=(0, 1, 0), placement=(np.eye(3), (0.5, 0, 0)), **solid)
    if coupled:
        builder.couple("b_joint", to="a_joint", ratio=ratio, offset=0.1)
    return builder.build()


@pytest.mark.parametrize("method", METHODS)
def test_constraints_are_those_that_are_built_in(method: str) -> None:
    """A coupling as a constraint; friction of either joint, which the coupling adds up."""
    built, apart = pair(True), pair(False)
    tie = [kt.LinearCoupling(("b_joint", "a_joint"), (1.0, -2.0), 0.1)]
    taus = np.repeat([12.0, -4.0, 4.0], [150, 60, 100])
    expected = simulation.Simulator(built, limits=True, friction=[3.0], method=method).rollout(
        [0.2], [1.0], taus[:, None]
    )
    assert abs(expected.q[:, 0].max() - 0.6) < 1e-14
    assert 0.4 < expected.q[-1, 0] < 0.59
    assert expected.v[-1, 0] == 0.0
    for friction in ([3.0, 0.0], [0.0, 1.5], [1.0, 1.0]):
        sim = simulation.Simulator(apart, limits=True, friction=friction, method=method, constraints=tie)
        path = sim.rollout([0.2, 0.5], [1.0, 2.0], np.stack([taus, 0.0 * taus], axis=-1))
        assert path.converged.all()
        assert_near(path.q, expected.q @ [[1.0, 2.0]] + [0.0, 0.1], 1e-12)


@pytest.mark.parametrize("ratio", [30.0, 3e3])
def test_gears_leave_little_of_a_mobility_which_is_not_rounding(ratio: float) -> None:
    tie = [kt.LinearCoupling(("b_joint", "a_joint"), (1.0, -ratio), 0.1)]
    _, expected, _ = simulation.Simulator(pair(True, ratio), friction=2.0).step([0.2], [1.0 / ratio])
    held = simulation.Simulator(pair(False), friction=[2.0, 0.0], constraints=tie, limits=True)
    _, v, info = held.step([0.2, 0.1 + 0.2 * ratio], [1.0 / ratio, 1.0])
    assert_near(info.joint_forces, [-2.0, 0.0], 1e-9)
    assert_near(v, expected[0] * np.array([1.0, ratio]), 1e-9 * ratio * abs(expected[0]))


def leg(coupled: bool = False) -> kt.Model:
    """A base on two parallel bars that carry a sole: a loop, to be closed by constraints, or by joints that follow."""
    builder = kt.Builder("leg").add_body("base", joint="floating", mass=2.0, inertia=0.05 * np.eye(3))
    solid = {"mass": 0.3, "com": (0, 0, -0.15), "inertia": np.diag([3e-3, 3e-3, 1e-4])}
    for name, x, upper in (("front", 0.1, 0.7), ("rear", -0.1, 0.9)):
        limits = kt.Limits() if coupled and name == "rear" else kt.Limits(lower=-0.5, upper=upper)
        at = np.eye(3), (x, 0, -0.1)
        builder.add_body(name, parent="base", axis=(0, 1, 0), placement=at, limits=limits, **solid)
    at = np.eye(3), (0, 0, -0.3)
    sole = {"mass": 0.3, "com": (-0.1, 0, 0), "inertia": np.diag([1e-3, 3e-3, 3e-3])}
    builder.add_body("sole", parent="front", axis=(0, 1, 0), placement=at, **sole)
    builder.add_frame("heel", body="sole", placement=(np.eye(3), (-0.2, 0, 0))).add_frame(
        "end", body="rear", placement=at
    )
    if coupled:
        builder.couple("sole_joint", to="front_joint", ratio=-1.0).couple("rear_joint", to="front_joint", ratio=1.0)
    return builder.build()


def standing(angle: float, gap: float) -> Array:
    """With its sole level, above the ground."""
    return np.array([0, 0, 0.12 + 0.3 * np.cos(angle) + gap, 1, 0, 0, 0, angle, -angle, angle])


def simulators(coupled: bool = False, **more: Any) -> list[simulation.Simulator]:
    """With points that are typed, and with shapes."""
    robot, at = leg(coupled), leg().neutral()
    corners = [(x - 0.1, y, z) for x in (-0.15, 0.15) for y in (-0.05, 0.05) for z in (-0.02, 0.02)]
    shaped = robot.with_shapes([geo.Box("sole", SOLE, (np.eye(3), (-0.1, 0, 0)), friction=MU)])
    held: dict[str, Any] = {
        "constraints": [kt.Weld("heel", "end", rows=(3, 5))], "at": at, "limits": True,
        "friction": np.r_[np.zeros(6), 0.3, 0.2, 0.1], "damping": 0.01, **more,
    }  # fmt: skip
    ground, scene = simulation.Plane(friction=MU), kt.Scene([geo.Plane("floor", friction=MU)])
    typed = simulation.Simulator(robot, contacts=[simulation.Points("sole", corners)], ground=ground, **held)
    return [typed, simulation.Simulator(shaped, contacts="discover", scene=scene, **held)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("friction", [(0.6, 0.0, 0.0), (0.1, 0.2, 0.3), (2.0, 0.0, 5.0)])
def test_a_leg_that_constraints_close_lands_like_one_that_has_no_loop(method: str, friction: tuple[float, ...]) -> None:
    """Folded down to its stop, or held by friction; sums of friction act where the joints that follow have theirs."""
    ties = [kt.LinearCoupling((one, "front_joint"), (1.0, -r)) for one, r in (("sole_joint", -1), ("rear_joint", 1))]
    shared: dict[str, Any] = {"method": method, "dt": 2e-3, "damping": 0.0}
    start, v = standing(0.3, 0.02), np.array([0, 0.3, 0, 0.5, 0, 0, 0, 0, 0])
    for built, apart in zip(
        simulators(True, friction=np.r_[np.zeros(6), sum(friction)], constraints=(), at=None, **shared),
        simulators(friction=np.r_[np.zeros(6), friction], constraints=ties, **shared),
        strict=True,
    ):
        expected, path = built.rollout(start[:8], v[:7], steps=300), apart.rollout(start, v, steps=300)
        assert expected.converged.all()
        assert path.converged.all()
        assert_near(path.q[:, :8], expected.q, 1e-11)
        assert_near(path.v[:, :7], expected.v, 1e-10)
        assert_near(path.q[:, 8:], expected.q[:, 7:] * [-1.0, 1.0], 1e-11)
        angle = expected.q[-1, 7]
        assert abs(angle - 0.7) < 1e-11 if sum(friction) < 1.0 else 0.31 < angle < 0.69
        assert abs(expected.v[-1, 6]) < 1e-11


def test_a_leg_with_a_loop_falls_folds_and_rests() -> None:
    robot, v = leg(), np.array([0, 0.3, 0, 0.5, 0, 0, 0, 0, 0])
    paths = [sim.rollout(standing(0.3, 0.02), v, steps=1000) for sim in simulators(dt=2e-3)]
    assert_near(paths[0].q, paths[1].q, 1e-9)
    for path in paths:
        assert path.converged.all()
        assert 0.7 - 1e-12 < path.q[:, 7].max() < 0.7 + 8e-5  # a loop is projected after its stops
        energy = sum(robot.energy(path.q, path.v))
        assert np.diff(energy).max() < 1e-5
        assert peak(path.v[-1]) < 1e-9
        assert abs(path.q[-1, 9] - path.q[-1, 7]) < 1e-9
    rates = v + 0.3 * np.random.default_rng(0).standard_normal((4, 9))
    rates[2] = np.nan
    for sim in simulators():
        many = sim.rollout(standing(0.3, 0.02), rates, steps=60)
        assert np.isnan(many.v[2, -1]).any()
        for i in (0, 3):
            q, v = standing(0.3, 0.02), rates[i]
            for _ in range(60):
                q, v, _ = sim.step(q, v)
            np.testing.assert_array_equal(q, many.q[i, -1])
            np.testing.assert_array_equal(v, many.v[i, -1])


def test_masses_that_differ_under_constraints_with_contacts() -> None:
    sims = simulators()
    robot = sims[0].robot
    for sim in sims:
        shaped = sim.robot
        some = shaped.population(shaped.inertial_parameters * np.array([1.0, 1.7])[:, None, None])
        both = type(sim)(some, **sim._options).rollout(standing(0.3, 0.01), np.zeros(9), steps=80)
        alone = sim.rollout(standing(0.3, 0.01), np.zeros(9), steps=80)
        assert_near(both.q[0], alone.q, 1e-9)
        heavy = type(sim)(shaped.with_inertial_parameters(1.7 * robot.inertial_parameters), **sim._options)
        assert_near(both.q[1], heavy.rollout(standing(0.3, 0.01), np.zeros(9), steps=80).q, 1e-9)


STOP, SLIP = [simulation.STOPPED, 0, 0], [simulation.SLIPPING] * 2 + [0]


@pytest.mark.parametrize(("angle", "friction", "modes"), [(0.7, (0, 0, 0), STOP), (0.3, (0.3, 0.2, 0), SLIP)])
def test_derivatives(angle: float, friction: tuple[float, ...], modes: list[int]) -> None:
    """At a stop of one joint of the loop, or with friction in two; on the ground, and in the air."""
    q, turn = standing(angle, 1e-6), np.array([1.0, -1.0, 1.0])
    v, tau = np.r_[0, 0, 0, 0.4, 0, -0.3, turn], np.r_[np.zeros(6), 0.5, 0.1, 0.0]
    rng, sims = np.random.default_rng(4), simulators(friction=np.r_[np.zeros(6), friction])
    dq, dv, dtau, left, right = rng.normal(size=(5, 9))
    in_the_air = simulation.Simulator(leg(), **{**sims[0]._options, "contacts": (), "ground": ()})
    for sim in (*sims, in_the_air):
        A, B, found = sim.discretize(q, v, tau)
        assert found.certain
        np.testing.assert_array_equal(found.joints[6:], modes)
        for ours, theirs in zip((A, B), differences(sim, q, v, tau), strict=True):
            assert_near(ours, theirs, 1e-6 * peak(theirs))
        jvp = np.concatenate(sim.step.jvp(q, v, tau, dq, dv, dtau))
        assert_near(jvp, A @ np.r_[dq, dv] + B @ dtau, 1e-11 * peak(jvp))
        by = sim.step.vjp(q, v, tau, left, right)
        assert_near(np.r_[by.q, by.v], np.r_[left, right] @ A, 1e-11 * peak(A))
        assert_near(by.tau, np.r_[left, right] @ B, 1e-11 * peak(A))


def test_what_constraints_hold_takes_no_impulses() -> None:
    """A joint, and a foot on its floor or a little inside: what is left of their mobility is rounding."""
    block = simulation.Simulator(slider(), friction=1.0, constraints=["block"], at=[0.0])
    q, v, info = block.step([0.0], [0.0], [3.0])
    assert (q, v, info.residual, info.joint_forces) == (0.0, 0.0, 0.0, 0.0)
    A, _, modes = block.discretize([0.0], [0.0], [3.0])
    assert modes.joints == simulation.STUCK
    assert modes.certain
    assert_near(A, np.zeros((2, 2)), 1e-12)
    at = standing(0.3, 0.02)
    for sim in simulators(constraints=["base", "sole"], at=at):
        _, _, info = sim.step(at, np.zeros(9), np.r_[np.zeros(6), 3.0, 1.0, 2.0])
        assert info.residual == 0.0
        assert_near(info.joint_forces, np.r_[np.zeros(8), -0.1], 1e-12)  # only the rear bar is free
    robot = kt.zoo.humanoid24()
    at = robot.neutral()
    under = robot.pose(at, "left_foot")[2, 3] - 0.02
    corners = [(x, y, -0.02) for x in (-0.1, 0.1) for y in (-0.05, 0.05)]
    shaped = robot.with_shapes([geo.Box("left_foot", (0.2, 0.1, 0.04))])
    held: dict[str, Any] = {"constraints": ["left_foot"], "at": at}
    expected = simulation.Simulator(robot, **held).step(at, np.zeros(robot.nv))[1]
    for deep in (0.0, 1e-9):
        scene = kt.Scene([geo.Plane("floor", (np.eye(3), (0, 0, under + deep)))])
        typed = [simulation.Points("left_foot", corners)]
        for sim in (
            simulation.Simulator(robot, contacts=typed, ground=simulation.Plane(offset=under + deep), **held),
            simulation.Simulator(shaped, contacts="discover", scene=scene, **held),
        ):
            _, v, info = sim.step(at, np.zeros(robot.nv))
            assert info.residual == 0.0
            assert not info.contact_forces.any()
            assert_near(v, expected, 1e-12)
