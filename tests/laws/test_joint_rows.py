"""Dry friction and stops of joints: exact values of one joint, complementarity on a humanoid, contacts, bits."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import simulation
from kinetree.errors import InputError, ModelWarning
from tests.laws.cases import model
from tests.tolerance import assert_close, bound, condition

Array = np.ndarray[Any, np.dtype[Any]]

DT = 1e-3


@cache
def slider() -> kt.Model:
    """Two kilograms on a horizontal rail of half a metre."""
    builder = kt.Builder("slider", gravity=(0.0, 0.0, 0.0))
    limits = kt.Limits(lower=-0.25, upper=0.25)
    builder.add_body("block", joint="prismatic", axis=(1, 0, 0), mass=2.0, inertia=np.eye(3), limits=limits)
    return builder.build()


@pytest.mark.parametrize("method", ["midpoint", "semi_implicit_euler"])
def test_a_block_sticks_slides_and_comes_to_rest(method: str) -> None:
    world = simulation.Simulator(slider(), dt=DT, method=method, friction=3.0, sweeps=1)
    held = world.rollout([0.1], [0.0], [2.9], steps=100)
    np.testing.assert_array_equal(held.q, 0.1)
    pulled = world.rollout([0.0], [0.0], [5.0], steps=100)
    assert pulled.v[-1, 0] == pytest.approx((5.0 - 3.0) / 2.0 * 0.1, rel=1e-12)
    braked = world.rollout([0.0], [0.15], [0.0], steps=200)  # 1.5 m/s² for 0.1 s
    assert braked.v[50, 0] == pytest.approx(0.075, rel=1e-12)
    assert float(np.abs(braked.v[101:]).max()) < 1e-15
    _, _, info = world.step([0.1], [0.0], [2.9])
    assert info.joint_forces[0] == pytest.approx(-2.9, rel=1e-12)
    assert info.contact_forces.shape == (0, 3)


def test_stops_without_limits_are_told() -> None:
    """A robot that nothing would stop is refused; a coupled joint, whose limit would be ignored, is named."""
    with pytest.raises(InputError, match="stops nothing: no joint of 'chain'.*with_limits"):
        simulation.Simulator(kt.zoo.chain(3), limits=True)
    builder, limits = kt.Builder("fingers"), kt.Limits(lower=-0.5, upper=0.5)
    solid = {"mass": 1.0, "inertia": np.eye(3), "limits": limits}
    builder.add_body("finger", **solid).add_body("tip", parent="finger", **solid)
    simulation.Simulator(builder.build(), limits=True)  # no warning
    coupled = builder.couple("tip", to="finger", ratio=0.5).build()
    with pytest.warns(ModelWarning, match="does not stop coupled joints of 'fingers': 'tip_joint'") as caught:
        simulation.Simulator(coupled, limits=True)
    assert caught[0].filename == __file__


def test_a_joint_stops_at_its_limit_without_bouncing() -> None:
    world = simulation.Simulator(slider(), dt=DT, limits=True, sweeps=1)
    path = world.rollout([[0.0], [0.0]], [[1.0], [-1.0]], [0.0], steps=600)
    np.testing.assert_allclose(path.q[:, -1, 0], [0.25, -0.25], rtol=0.0, atol=1e-12)
    assert float(np.abs(path.q).max()) < 0.25 + 1e-12
    assert float(np.abs(path.v[:, -1]).max()) < 1e-12
    pressed = world.step([0.25], [0.0], [7.0])
    assert pressed[2].joint_forces[0] == pytest.approx(-7.0, rel=1e-12)
    assert float(pressed[1][0]) == pytest.approx(0.0, abs=1e-15)
    away = world.step([0.25], [0.0], [-7.0])
    assert away[1][0] == pytest.approx(-3.5 * DT, rel=1e-12)
    beyond = world.rollout([0.26], [0.0], [1.0], steps=100)  # neither further nor flung back
    np.testing.assert_allclose(beyond.q[:, 0], 0.26, rtol=0.0, atol=1e-12)


def test_impulses_of_a_humanoid_obey_their_laws() -> None:
    """v = v_f + M⁻¹(f + s); friction within its bounds and at them only against motion; stops only push back."""
    robot = model("humanoid24")
    rng = np.random.default_rng(4)
    q = np.where(rng.uniform(size=(6, 24)) < 0.3, robot.lower_limits, robot.random_configuration(rng, (6,)))
    v, tau, dry = rng.normal(size=(6, 24)), 20.0 * rng.normal(size=(6, 24)), rng.uniform(0.5, 5.0, 24)
    options: dict[str, Any] = {"dt": DT, "method": "semi_implicit_euler"}
    free = simulation.Simulator(robot, **options).step(q, v, tau)[1]
    world = simulation.Simulator(robot, friction=dry, limits=True, sweeps=400, **options)
    _, after, info = world.step(q, v, tau)
    friction, stops = np.split(info.impulses, 2, axis=-1)
    for i in range(6):
        M = robot.mass_matrix(q[i])
        assert_close(after[i] - free[i], np.linalg.solve(M, friction[i] + stops[i]), bound(24, condition(M)) * 1e3)
    np.testing.assert_allclose(info.joint_forces, (friction + stops) / DT, rtol=1e-12)
    assert (np.abs(friction) <= DT * dry + 1e-15).all()
    inside = np.abs(friction) < DT * dry * (1.0 - 1e-6)
    assert inside.any()
    stopped = stops != 0.0
    assert float(np.abs(after[inside & ~stopped]).max(initial=0.0)) < 1e-6
    assert (friction * after)[~inside].max() < 1e-9
    slowest, fastest = (robot.lower_limits - q) / DT, (robot.upper_limits - q) / DT
    assert (after > slowest - 1e-6).all()
    assert (after < fastest + 1e-6).all()
    assert stopped.sum() > 5
    np.testing.assert_allclose(np.where(stops > 0.0, slowest, fastest)[stopped], after[stopped], rtol=0.0, atol=1e-6)


@cache
def hopper() -> kt.Model:
    """A body on a vertical leg whose slide has stops and friction."""
    builder = kt.Builder("hopper")
    builder.add_body("body", joint="floating", mass=3.0, inertia=0.02 * np.eye(3))
    builder.add_body(
        "foot", parent="body", joint="prismatic", axis=(0, 0, 1), placement=(np.eye(3), (0, 0, -0.3)), mass=1.0,
        inertia=0.01 * np.eye(3), limits=kt.Limits(lower=-0.1, upper=0.1),
    )  # fmt: skip
    return builder.build()


SOLE = [(x, y, -0.05) for x in (-0.1, 0.1) for y in (-0.1, 0.1)]


@pytest.mark.parametrize("shape", ["plane", "own"])
def test_a_leg_at_its_stop_carries_the_body(shape: str) -> None:
    """The floor carries both, the stop the body alone; on one of two planes, and on a shape that Python measures."""

    class Floor(simulation.Shape):
        friction = 0.5

        def gap(self, points: Any) -> tuple[Array, Array]:
            return points[..., 2], np.broadcast_to([0.0, 0.0, 1.0], points.shape)

    ground: list[simulation.Shape] = [simulation.Plane(friction=0.5), simulation.Plane(offset=-9.0)]
    world = simulation.Simulator(
        hopper(), dt=DT, contacts=[simulation.Points("foot", SOLE)], limits=True, sweeps=300, warm_start=True,
        ground=[Floor()] if shape == "own" else ground,
    )  # fmt: skip
    q = np.array([0.0, 0.0, 0.25, 1.0, 0.0, 0.0, 0.0, 0.1])
    info = None
    v = np.zeros(7)
    for _ in range(20):
        q, v, info = world.step(q, v, start=info)
    assert info is not None
    assert info.contact_forces[:, 2].sum() == pytest.approx(4.0 * 9.81, rel=1e-6)
    assert abs(info.joint_forces[6]) == pytest.approx(3.0 * 9.81, rel=1e-6)
    assert float(np.abs(v).max()) < 1e-6
    assert info.residual < 1e-6


@pytest.mark.filterwarnings("ignore::kinetree.errors.ConvergenceWarning")
@pytest.mark.parametrize("warm", [False, True])
def test_rollouts_and_batches_change_no_bit(warm: bool) -> None:
    world = simulation.Simulator(
        hopper(),
        dt=DT,
        contacts=[simulation.Points("foot", SOLE)],
        limits=True,
        friction=0.3,
        sweeps=5,
        warm_start=warm,
    )
    rng = np.random.default_rng(1)
    q = np.tile([0.0, 0.0, 0.28, 1.0, 0.0, 0.0, 0.0, 0.05], (5, 1))
    v = 0.2 * rng.normal(size=(5, 7))
    q[2] = np.nan
    path = world.rollout(q, v, steps=60)
    for i in (0, 2, 4):
        one, rate, info = q[i], v[i], None
        for k in range(60):
            one, rate, info = world.step(one, rate, start=info if warm else None)
            np.testing.assert_array_equal(path.q[i, k + 1], one)
            np.testing.assert_array_equal(path.v[i, k + 1], rate)
    assert np.isfinite(np.delete(path.q, 2, axis=0)).all()


def test_the_robots_own_friction_is_taken_on_request() -> None:
    robot = slider().with_friction(3.0)
    own, given, none = (
        simulation.Simulator(robot, friction=friction).step([0.0], [1.0])[1] for friction in (True, [3.0], False)
    )
    np.testing.assert_array_equal(own, given)
    assert none[0] == 1.0 > own[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limits": True, "method": "rk4"}, "dry friction and joint stops need one of the methods midpoint"),
        ({"friction": 1.0, "constraints": ["block"], "at": [0.0]}, "cannot be combined with constraints"),
        ({"friction": -1.0}, "friction takes one number or 1 of them, none negative"),
        ({"limits": True, "sweeps": True}, "sweeps=True is not a positive number of sweeps"),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulation.Simulator(slider(), **options)
