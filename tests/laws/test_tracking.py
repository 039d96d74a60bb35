"""Laws of tracking along trajectories and of adaptive control."""

from __future__ import annotations

import numpy as np
import pytest

import kinetree as kt
from kinetree import control
from kinetree.errors import InputError, UnknownNameError, UnsupportedError
from tests.laws import test_general_nodes as general
from tests.laws.cases import Case, cases, times
from tests.tolerance import assert_close, peak, refused


@pytest.mark.parametrize("case", cases(long=False), ids=str)
def test_tracking_regressor(case: Case) -> None:
    """Y θ = M a_r + C(q, v) v_r + g with the library's C; with v_r = v it is the regressor."""
    q, v, a = case.state
    w = np.random.default_rng(1).uniform(-1.0, 1.0, v.shape)
    Y = case.on("tracking_regressor", q, v, w, a)
    found = np.tensordot(Y, case.robot.inertial_parameters, 2)
    rotors = np.concatenate([joint.armature for joint in case.robot.joints])
    M = case.on("mass_matrix", q) - np.diag(rotors)
    C, g = case.on("coriolis_matrix", q, v), case.on("gravity_forces", q)
    expected = times(M, a) + times(C, w) + g
    scale = peak(times(np.abs(M), np.abs(a)), times(np.abs(C), np.abs(w)), g)
    assert_close(found, expected, case.tolerance, scale)
    same = case.on("tracking_regressor", q, v, v, a)
    usual = case.on("regressor", q, v, a)
    assert_close(same, usual, case.tolerance, peak(usual))


def test_adaptation_decreases_its_lyapunov_function() -> None:
    """d/dt (½ sᵀM s + ½ θ̃ᵀΓ⁻¹θ̃) = −sᵀK s, with the estimates of another robot."""
    arm = kt.zoo.chain(4)
    rng = np.random.default_rng(0)
    q, v, q_d, v_d, a_d = rng.uniform(-1.0, 1.0, (5, 3, 4))
    for bodies in (None, [arm.bodies[1].name, arm.bodies[3].name]):
        known = arm.inertial_parameters
        chosen = [i for i, body in enumerate(arm.bodies) if bodies is None or body.name in bodies]
        wrong = known.copy()
        wrong[chosen] *= 0.6
        learner = control.Adaptive(arm.with_inertial_parameters(wrong), bodies, stiffness=3.0, damping=2.0, rate=0.7)
        command = learner(q, v, (q_d, v_d, a_d))
        s, K, gamma = command.slip, 2.0, 0.7
        a = arm.forward_dynamics(q, v, command.tau)
        a_r = a_d - 3.0 * (v - v_d)
        M, M_rate = arm.mass_matrix(q), arm.mass_matrix.jvp(q, v)
        error = wrong[chosen] - known[chosen]
        rate = np.sum(s * times(M, a - a_r), -1) + 0.5 * np.sum(s * times(M_rate, s), -1)
        rate = rate + np.sum(error * learner.rates(q, v, (q_d, v_d, a_d)) / gamma, axis=(-1, -2))
        assert_close(rate, -K * np.sum(s * s, axis=-1), 1e-12, peak(np.abs(s) * np.abs(command.tau)) * 10)
        np.testing.assert_array_equal(learner(q[1], v[1], (q_d[1], v_d[1], a_d[1])).tau, command.tau[1])


def test_adaptive_control_follows_without_masses() -> None:
    arm, dt = kt.zoo.chain(3), 0.002
    guess = arm.with_inertial_parameters(0.4 * arm.inertial_parameters)
    learner = control.Adaptive(guess, stiffness=10.0, damping=8.0, rate=2.0)
    fixed = control.Adaptive(guess, stiffness=10.0, damping=8.0, rate=1e-12)
    errors = {}
    for name, controller in (("learns", learner), ("does not", fixed)):
        q, v, theta, late = np.zeros(3), 0.5 * np.ones(3), None, []
        for k in range(4000):
            t = k * dt
            wanted = 0.5 * np.sin(t) * np.ones(3), 0.5 * np.cos(t) * np.ones(3), -0.5 * np.sin(t) * np.ones(3)
            command = controller(q, v, {"joints": wanted}, state=theta, dt=dt if k else 0.0)
            theta = command.state
            q, v = arm.step(q, v, command.tau, dt)
            late += [np.abs(q - wanted[0]).max()] if k > 3500 else []
        errors[name] = max(late)
    assert errors["learns"] < 0.2 * errors["does not"]


def test_tracker_is_the_lqr_along_the_trajectory() -> None:
    """Gains and cost are those of the textbook; the cost to go is what a small deviation costs."""
    robot, dt, T = kt.zoo.chain(3), 0.01, 40
    t = np.arange(T + 1)[:, None] * dt
    q, v = np.sin(3 * t + np.arange(3)), 3 * np.cos(3 * t + np.arange(3))
    driven = [robot.joints[0].name, robot.joints[2].name]
    tracker = control.track(robot, q, v, dt=dt, Q=np.arange(1.0, 7.0), R=0.02, driven=driven)
    A, B = robot.discretize(q[:-1], v[:-1], tracker.tau, dt)
    B, Q, R = B[..., [0, 2]], np.diag(np.arange(1.0, 7.0)), 0.02 * np.eye(2)
    P = Q
    for k in reversed(range(T)):
        K = np.linalg.solve(R + B[k].T @ P @ B[k], B[k].T @ P @ A[k])
        P = Q + A[k].T @ P @ (A[k] - B[k] @ K)
        assert_close(tracker.gains[k][[0, 2]], K, 1e-10, peak(K))
    assert_close(tracker.cost, P, 1e-10, peak(P))
    assert not tracker.gains[:, 1].any()
    pushed = tracker(5, q[5] + [[0.1, 0.0, 0.0], [0.0, 0.0, 0.0]], v[5])
    assert_close(pushed[1], tracker.tau[5], 1e-13, peak(tracker.tau))
    assert np.abs(pushed[0] - tracker.tau[5]).max() > 0.1
    np.testing.assert_array_equal(tracker(T + 7, q[-1], v[-1]), tracker(T - 1, q[-1], v[-1]))


def test_tracking_on_a_manifold() -> None:
    """A floating body follows a turn, from another orientation."""
    body, dt, T = kt.zoo.box((0.2, 0.3, 0.4), 2.0), 0.01, 200
    spin = np.array([0.3, -0.5, 0.8, 0.1, 0.0, 0.2])
    q = [body.neutral()]
    for _ in range(T):
        q.append(body.integrate(q[-1], spin * dt))
    weights = np.r_[np.full(6, 50.0), np.ones(6)]
    driven = [body.joints[0].name]  # by default, free bodies have no motor
    tracker = control.track(body, np.array(q), np.tile(spin, (T + 1, 1)), dt=dt, Q=weights, driven=driven)
    now, speed = body.integrate(q[0], 0.3 * np.ones(6)), 0 * spin
    for k in range(T):
        now, speed = body.step(now, speed, tracker(k, now, speed), dt)
    assert np.abs(body.difference(q[-1], now)).max() < 0.02


def test_errors() -> None:
    robot = kt.zoo.chain(2)
    q = np.zeros((4, 2))
    refused("T of 1 or more", control.track, robot, q[:1], q[:1], dt=0.1)
    refused("tau is", control.track, robot, q, q, np.zeros((4, 2)), dt=0.1)
    refused("Q is a number", control.track, robot, q, q, dt=0.1, Q=np.ones(3))
    refused("R must be positive", control.track, robot, q, q, dt=0.1, R=-1.0)
    refused("joint", control.track, robot, q, q, dt=0.1, driven=["wing"], error=UnknownNameError)
    refused("no joint has a motor", control.track, robot, q, q, dt=0.1, driven=[])
    refused("R is a number", control.track, robot, q, q, dt=0.1, R=np.ones(3))
    refused("dt", control.track, robot, q, q, dt=0.0)
    refused("v has shape", control.track(robot, q, q, dt=0.1), 0, q[0], q[0, :1])
    refused("integer", control.track(robot, q, q, dt=0.1), -1, q[0], q[0])
    refused("plain numbers", control.Adaptive, kt.zoo.box((1, 1, 1), 1.0))
    refused("body", control.Adaptive, robot, ["wing"], error=UnknownNameError)
    refused("positive", control.Adaptive, robot, rate=0.0)
    refused("a number or", control.Adaptive, robot, damping=np.ones(3))
    for i, name in enumerate(("q_d", "v_d", "a_d")):
        target = [q[0][:1] if k == i else q[0] for k in range(3)]
        refused(f"{name} has shape", control.Adaptive(robot), q[0], q[0], target, error=InputError)
    refused("v has shape", control.Adaptive(robot), q[0], q[0, :1], (q[0], q[0], q[0]), error=InputError)
    refused(
        "state has shape", control.Adaptive(robot), q[0], q[0], (q[0], q[0], q[0]), state=np.ones(3), error=InputError
    )
    refused("tuple of q_d", control.Adaptive(robot), q[0], q[0], q[0], error=InputError)
    s = general.state("nodes")
    nodes = general.robot("nodes")
    refused("rigid bodies only", nodes.tracking_regressor, s.q, s.v, s.v, s.a, error=UnsupportedError)


def test_hands_that_cannot_move_everywhere_are_reported() -> None:
    """An arm of three joints has a hand of rank three: damping alone bounds the rest of its inertia."""
    arm = kt.zoo.chain(3)
    q, hand = np.array([0.3, 0.5, -0.4]), arm.bodies[-1].name
    given = {"pose": arm.pose(q, hand), "mass": 1.0, "inertia": np.eye(3)}
    with pytest.warns(kt.errors.ModelWarning, match="3 of 6 directions only"):
        control.augmented_object(arm, q, np.zeros(3), [hand], **given)
    with pytest.warns(kt.errors.ModelWarning, match="in some samples"):
        control.augmented_object(arm, np.stack([q, q]), np.zeros(3), [hand], **given)
    with pytest.raises(kt.errors.SingularTaskError):
        control.augmented_object(arm, q, np.zeros(3), [hand], singular="raise", **given)


@pytest.mark.parametrize("feet", [["left_foot"], ["left_foot", "left_hand"]], ids=["one contact", "two contacts"])
def test_projected_inverse_dynamics(feet: list[str]) -> None:
    """Mistry and Righetti's (P M + 1 − P)⁻¹ P is N M⁻¹ of the contacts, and gives the same constrained motion."""
    robot = kt.zoo.humanoid24()
    rng = np.random.default_rng(4)
    q = robot.random_configuration(rng)
    v = robot.constraints(feet, at=q).project_velocity(q, rng.normal(size=robot.nv))
    tau = rng.normal(size=robot.nv)
    contacts = robot.tasks(feet)
    J, M = contacts.jacobian(q), robot.mass_matrix(q)
    P = np.eye(robot.nv) - np.linalg.pinv(J) @ J
    held = P @ M + np.eye(robot.nv) - P
    N = contacts.dynamics(q).nullspace
    expected = N @ robot.mass_matrix_inverse(q)
    assert_close(np.linalg.solve(held, P), expected, 1e-9, peak(robot.mass_matrix_inverse(q)))
    drift = np.linalg.pinv(J) @ contacts.jacobian_dot_v(q, v)
    a = np.linalg.solve(held, P @ (tau - robot.bias_forces(q, v)) - drift)
    found = robot.constrained_dynamics(q, v, tau, feet)[0]
    assert_close(found, a, 1e-8, peak(a))
