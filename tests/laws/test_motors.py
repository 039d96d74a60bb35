"""Motors as parts of a robot: closed forms of one motor, power, and the equations themselves in small steps."""

from __future__ import annotations

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, UnknownNameError
from kinetree.simulation import Motor, Motors, Simulator
from tests.tolerance import assert_close, assert_near, refused

MOTOR = Motor(0.05, 0.8, inductance=2e-3, gear=50.0, rotor_inertia=2e-5, viscous=1e-6, voltage=24.0)


def wheel(**solid: float) -> kt.Model:
    builder = kt.Builder("wheel", gravity=(0, 0, 0))
    return builder.add_body("wheel", axis=(0, 0, 1), mass=1.0, inertia=0.1 * np.eye(3), **solid).build()


def test_a_stalled_motor_charges_as_its_time_constant_says() -> None:
    """A wheel too heavy to move: i = u/R (1 − e^(−Rt/L)), to rounding; its force is N k times the mean current."""
    robot = wheel().with_inertia("wheel", mass=1.0, inertia=1e15 * np.eye(3))
    motors, u = Motors(robot, MOTOR, dt=1e-3), 12.0
    found = motors.rollout([0.0], [0.0], [0.0], np.full((20, 1), u))
    t, ratio = 1e-3 * np.arange(21), MOTOR.resistance / MOTOR.inductance
    assert_close(found.i[:, 0], u / MOTOR.resistance * (1.0 - np.exp(-ratio * t)), 1e-13)
    charge = u / MOTOR.resistance * (t + (np.exp(-ratio * t) - 1.0) / ratio)
    assert_close(found.tau[:, 0], 2.5 * np.diff(charge) / 1e-3, 1e-12)


def test_a_free_motor_reaches_its_no_load_speed() -> None:
    ideal = Motor(0.05, 0.8, gear=50.0, rotor_inertia=2e-5, voltage=24.0)
    motors = Motors(wheel(), {"wheel_joint": ideal}, dt=1e-2)
    found = motors.rollout([0.0], [0.0], [0.0], np.full((4000, 1), 100.0))  # cut off at 24 V
    assert_close(found.v[-1], np.array([24.0 / 2.5]), 1e-12)
    assert_near(found.i[-1], 0.0, 1e-11)
    low, high = motors.force_limits(found.v[-1])
    assert_near(high, 0.0, 1e-10)
    assert_close(low, np.array([-2.5 * 48.0 / 0.8]), 1e-12)
    assert_close(motors.force_limits(np.zeros(1))[1], np.array([2.5 * 24.0 / 0.8]), 1e-15)
    back = motors.rollout([0.0], [0.0], [0.0], np.full((4000, 1), -100.0))
    np.testing.assert_array_equal(back.v, -found.v)
    assert_close(motors.robot.armature, np.array([2500.0 * 2e-5]), 1e-15)
    assert_close(Motors(wheel(), MOTOR).robot.damping, np.array([2500.0 * 1e-6]), 1e-15)
    pushed = motors.step([0.0], [0.0], [0.0], [0.0], tau=np.array([2.0]))  # 2 N m against armature, wheel and EMF
    assert_close(pushed.v, np.array([1e-2 * 2.0 / (0.15 + 1e-2 * 2.5**2 / 0.8)]), 1e-13)
    u = motors.voltages(np.array([3.0]), np.array([2.0]))
    assert_close(motors.forces((u - 2.5 * 2.0) / 0.8), np.array([3.0]), 1e-15)


def test_without_inductance_a_motor_is_a_damper() -> None:
    """The same steps as of a robot with armature and damping (kN)²/R under the force N k u/R, bit by bit."""
    arm = kt.zoo.arm7()
    ideal = Motor(0.05, 0.8, gear=50.0, rotor_inertia=2e-5)
    motors = Motors(arm, ideal, dt=2e-3)
    twin = arm.with_armature(arm.armature + 0.05).with_damping(arm.damping + 2.5**2 / 0.8)
    sim = Simulator(twin, dt=2e-3, method="semi_implicit_euler", damping=True)
    rng = np.random.default_rng(0)
    q, v, u = arm.random_configuration(rng, (3,)), rng.normal(size=(3, 7)), rng.normal(size=(3, 7))
    after = motors.step(q, v, np.zeros(7), u)
    q_after, v_after, _ = sim.step(q, v, 2.5 * (u / 0.8))
    np.testing.assert_array_equal(after.q, q_after)
    np.testing.assert_array_equal(after.v, v_after)
    alone = motors.step(q[1], v[1], np.zeros(7), u[1])
    for one, many in zip(alone, after, strict=True):
        np.testing.assert_array_equal(one, many[1])


def equations(motors: Motors, state: np.ndarray, u: np.ndarray) -> np.ndarray:
    """(1), as a differential equation."""
    robot, n = motors.robot, motors.robot.nv
    q, v, i = np.split(state, [n, 2 * n])
    a = robot.forward_dynamics(q, v, 2.5 * i - robot.damping * v)
    return np.concatenate([v, a, (u - 0.8 * i - 2.5 * v) / 2e-3])


@pytest.mark.parametrize("robot", [kt.zoo.double_pendulum(), kt.zoo.arm7()], ids=["pendulum", "arm"])
def test_steps_converge_to_the_equations(robot: kt.Model) -> None:
    """First order: half the step, half the error, against Runge and Kutta's method in 20 µs steps."""
    rng, seconds = np.random.default_rng(1), 0.04
    q, u = rng.uniform(-0.5, 0.5, robot.nv), rng.uniform(-10.0, 10.0, robot.nv)
    exact, h = np.concatenate([q, np.zeros(2 * robot.nv)]), 2e-5
    motors = Motors(robot, MOTOR)
    for _ in range(round(seconds / h)):
        k1 = equations(motors, exact, u)
        k2 = equations(motors, exact + 0.5 * h * k1, u)
        k3 = equations(motors, exact + 0.5 * h * k2, u)
        exact = exact + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + equations(motors, exact + h * k3, u))
    errors = []
    for dt in (4e-4, 2e-4, 1e-4):
        zero, made = np.zeros(robot.nv), Motors(robot, MOTOR, dt=dt)
        found = made.rollout(q, zero, zero, np.tile(u, (round(seconds / dt), 1)))
        errors.append(np.abs(np.concatenate([found.q[-1], found.v[-1], found.i[-1]]) - exact).max())
    assert errors[0] > 1.8 * errors[1] > 1.8 * 1.8 * errors[2]
    assert errors[2] < 2e-2


def test_power() -> None:
    """What the supply gives is stored in inductances and motion, or becomes heat in windings and friction."""
    motors, dt = Motors(wheel(), MOTOR, dt=1e-5), 1e-5
    u = 12.0 * np.sin(30.0 * dt * np.arange(20000))[:, None]
    found = motors.rollout([0.0], [0.0], [0.0], u)
    i, v = (0.5 * (x[1:, 0] + x[:-1, 0]) for x in (found.i, found.v))
    supplied = (u[:, 0] * i).sum() * dt
    heat = (0.8 * i**2 + motors.robot.damping[0] * v**2).sum() * dt
    stored = 0.5 * 2e-3 * found.i[-1, 0] ** 2 + 0.5 * (0.1 + motors.robot.armature[0]) * found.v[-1, 0] ** 2
    assert_near(supplied, heat + stored, 1e-3 * supplied)


def test_dry_friction_holds_a_motor() -> None:
    sticky = Motor(0.05, 0.8, gear=50.0, rotor_inertia=2e-5, dry=0.01)
    motors = Motors(wheel(), sticky)
    stays = motors.rollout([0.0], [0.0], [0.0], np.full((50, 1), 0.15))  # 0.47 N m against 0.5 N m
    assert_near(stays.v, 0.0, 1e-9)
    assert motors.rollout([0.0], [0.0], [0.0], np.full((50, 1), 0.2)).v[-1, 0] > 1e-3


def test_bad_motors() -> None:
    refused("resistance is a positive", Motor, 0.05, 0.0)
    refused("inductance is a zero or positive", Motor, 0.05, 1.0, inductance=-1.0)
    refused("gear is infinite", Motor, 0.05, 1.0, gear=np.inf)
    refused("moving joint", Motors, wheel(), {"elbow": MOTOR}, error=UnknownNameError)
    refused("takes a Motor", Motors, wheel(), {"wheel_joint": 3.0}, error=InputError)
    box = kt.zoo.box((1, 1, 1), 1.0)
    refused("one degree of freedom", Motors, box, {box.joints[0].name: MOTOR})
    refused("it takes", Motors(wheel(), MOTOR).rollout, [0.0], [0.0], [0.0], np.zeros(1))
    assert repr(Motors(wheel(), MOTOR)) == "<1 motors of wheel>"
