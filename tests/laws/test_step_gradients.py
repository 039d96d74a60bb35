"""`step.jvp` and `step.vjp`: one is the other's transpose, and both are differences, for all that a step depends on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import simulation
from tests.fuzz import contacts as fuzz
from tests.general_nodes import Cart
from tests.laws.cases import model
from tests.laws.test_contact import CORNERS, DT
from tests.laws.test_contact_derivatives import differences
from tests.mechanisms import NEAR, four_bar, gripper, hopper, whip
from tests.tolerance import Array, peak, refused

METHODS = ["semi_implicit_euler", "midpoint"]
SOLID: dict[str, Any] = {"mass": 1.0, "com": (0.1, 0.02, 0.03), "inertia": np.diag([0.03, 0.02, 0.04])}


def cart() -> kt.Model:
    """A user's node behind a moving parent, and a body on it."""
    builder = kt.Builder("cart").add_body("base", axis=(0, 1, 0), **SOLID)
    builder.add_node("cart", Cart(0.4, 2.0, (0.0, 0.1, 0.0), 0.1 * np.eye(3)), parent="base")
    return builder.add_body("pole", parent="cart/seat", axis=(1, 0, 0), **SOLID).build()


def linkage() -> kt.Model:
    """A four-bar as one node, on a moving base."""
    return four_bar().connect("tip", "pin").independent("crank_joint").build(near=NEAR)


def borne() -> kt.Model:
    """Half of one body's weight is compensated, and all of another's."""
    builder = kt.Builder("borne").add_body("a", joint="spherical", gravity_compensation=0.5, **SOLID)
    return builder.add_body("b", parent="a", axis=(0, 1, 0), gravity_compensation=1.0, **SOLID).build()


ROBOTS: dict[str, tuple[Any, str]] = {
    "beam": (whip, "tool"),
    "user's node": (cart, "pole"),
    "cluster": (linkage, "tip"),
    "mimic": (gripper, "tip"),
    "borne": (borne, "b"),
    "legs": (hopper, "foot"),
    **{f"tree{i}": (lambda i=i: fuzz.robot(np.random.default_rng([7, i]), 3), "b2") for i in range(3)},
}


class Case:
    """A simulator whose point is about to touch a plane, another far away; a state; and directions of all inputs."""

    def __init__(self, name: str, method: str, robot: kt.Model | None = None) -> None:
        made, self.frame = ROBOTS[name]
        self.method, self.name, self.robot = method, name, made() if robot is None else robot
        rng = np.random.default_rng(5)
        n = self.robot.nv
        self.q, self.v, self.tau = self.robot.random_configuration(rng), rng.normal(size=n), rng.normal(size=n)
        self.at = rng.uniform(-0.1, 0.1, 3)
        self.v *= 2.0 / np.linalg.norm(self._velocity())
        normal = rng.normal(size=3) * 0.3 - self._velocity()
        self.normal = normal / np.linalg.norm(normal)
        self.offset = float(self.normal @ (self.robot.pose(self.q, self.frame) @ [*self.at, 1.0])[:3]) - 1e-4
        self.push = {self.frame: rng.normal(size=6)}
        self.sim = self.made()

    def _velocity(self) -> Array:
        """Of the point."""
        motion = self.robot.velocity(self.q, self.v, self.frame, reference="local_world_aligned")
        arm = self.robot.pose(self.q, self.frame)[:3, :3] @ self.at
        return motion[3:] + np.cross(motion[:3], arm)

    def made(self, friction: float = 0.0, height: float = 0.0, robot: kt.Model | None = None) -> simulation.Simulator:
        n = self.robot.nv
        ground = [
            simulation.Plane(tuple(self.normal), self.offset + height, 0.5 + friction),
            simulation.Plane(tuple(self.normal), self.offset - 9.0),
        ]  # fmt: skip
        options: dict[str, Any] = {"stiffness": np.full(n, 2.0), "damping": np.full(n, 0.1)}
        if self.name in ("cluster", "mimic", "user's node"):
            options = {}
        if self.name == "legs":
            options |= {"friction": np.r_[np.zeros(6), 0.3], "limits": True}
        return simulation.Simulator(
            self.robot if robot is None else robot, dt=DT, method=self.method, ground=ground,
            contacts=[simulation.Points(self.frame, self.at)], gravity_compensation=self.name == "borne", **options,
        )  # fmt: skip

    def after(self, sim: simulation.Simulator, t: float, d: dict[str, Any]) -> Array:
        q, v, tau = self.robot.integrate(self.q, t * d["dq"]), self.v + t * d["dv"], self.tau + t * d["dtau"]
        push = {frame: w + t * d["df_ext"][frame] for frame, w in self.push.items()}
        end = self.sim.step(self.q, self.v, self.tau, f_ext=self.push)[0]
        after, rate, _ = sim.step(q, v, tau, f_ext=push)
        return np.concatenate([self.robot.difference(end, after), rate])

    def directions(self, rng: np.random.Generator) -> dict[str, Any]:
        n = self.robot.nv
        theta = self.robot.inertial_parameters
        return {
            "dq": rng.normal(size=n), "dv": rng.normal(size=n), "dtau": rng.normal(size=n),
            "friction": np.r_[rng.normal(), 0.0], "height": np.r_[1e-3 * rng.normal(), 0.0],
            "df_ext": {self.frame: rng.normal(size=6)}, "parameters": theta * rng.normal(size=theta.shape),
        }  # fmt: skip


def along(case: Case, d: dict[str, Any]) -> Array:
    positions = d["dq"], d["dv"], d["dtau"]
    rest = {name: d[name] for name in ("friction", "height", "parameters", "df_ext")}
    return np.concatenate(case.sim.step.jvp(case.q, case.v, case.tau, *positions, f_ext=case.push, **rest))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ROBOTS)
def test_gradients_are_the_transpose_of_changes(name: str, method: str) -> None:
    case, rng = Case(name, method), np.random.default_rng(8)
    n = case.robot.nv
    modes = case.sim.discretize(case.q, case.v, case.tau, f_ext=case.push).modes
    assert modes.contacts[0] != simulation.OPEN
    d, w = case.directions(rng), rng.normal(size=2 * n)
    found = case.sim.step.vjp(case.q, case.v, case.tau, w[:n], w[n:], f_ext=case.push, parameters=True)
    pairs = [
        (found.q, d["dq"]), (found.v, d["dv"]), (found.tau, d["dtau"]), (found.friction, d["friction"]),
        (found.height, d["height"]), (found.f_ext[case.frame], d["df_ext"][case.frame]),
        (found.parameters, d["parameters"]),
    ]  # fmt: skip
    terms = [float(np.sum(gradient * direction)) for gradient, direction in pairs]
    assert float(w @ along(case, d)) == pytest.approx(sum(terms), rel=1e-9, abs=1e-11 * sum(map(abs, terms)))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ROBOTS)
def test_changes_are_differences(name: str, method: str) -> None:
    """Of each input on its own, inside of a mode."""
    case, rng = Case(name, method), np.random.default_rng(9)
    A, B, modes = case.sim.discretize(case.q, case.v, case.tau, f_ext=case.push)
    if not (modes.certain and modes.unique) or modes.margin < 1e-3:
        pytest.skip("near a change of modes")
    whole = case.directions(rng)
    zero = {k: {case.frame: np.zeros(6)} if k == "df_ext" else 0.0 * np.asarray(x) for k, x in whole.items()}
    for which in whole:
        if which == "parameters" and name in ("beam", "user's node", "cluster", "mimic", "borne"):
            continue
        d, h = {**zero, which: whole[which]}, {"height": 1e-3, "parameters": 1e-4, "friction": 1e-4}.get(which, 2e-6)

        def moved(t: float, d: dict[str, Any] = d, which: str = which) -> Array:
            robot = case.robot
            if which == "parameters":
                robot = robot.with_inertial_parameters(robot.inertial_parameters + t * d["parameters"], strict=False)
            sim = case.made(t * d["friction"][0], t * d["height"][0], robot)
            return case.after(sim, t, d)

        expected = (moved(-2.0 * h) - 8.0 * moved(-h) + 8.0 * moved(h) - moved(2.0 * h)) / (12.0 * h)
        found = along(case, d)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7 * (peak(found) + peak(A)), err_msg=which)
        if which in ("dq", "dv", "dtau"):
            matrix = {"dq": A[:, : case.robot.nv], "dv": A[:, case.robot.nv :], "dtau": B}[which]
            np.testing.assert_allclose(matrix @ d[which], found, rtol=1e-9, atol=1e-12 * peak(A))


def held_and_touching(method: str, project: bool = True) -> tuple[simulation.Simulator, Array, Array, Array]:
    """A legged robot with one foot held, and another one that strikes the ground; a state a little off the pose."""
    robot, rng = model("legged"), np.random.default_rng(3)
    n, at, point = robot.nv, robot.random_configuration(rng), rng.uniform(-0.1, 0.1, 3)
    q = robot.integrate(at, 1e-4 * rng.normal(size=n))
    normal = np.array([0.1, 0.2, 1.0]) / np.linalg.norm([0.1, 0.2, 1.0])
    offset = float(normal @ (robot.pose(q, "tip1") @ [*point, 1.0])[:3]) + 1e-3
    sim = simulation.Simulator(
        robot, constraints=[kt.Weld("tip0", rows="position")], at=at, dt=DT, method=method, project=project,
        contacts=[simulation.Points("tip1", point)], ground=simulation.Plane(tuple(normal), offset, 0.6),
        damping=0.1, stiffness=1.0,
    )  # fmt: skip
    return sim, q, 0.3 * rng.normal(size=n), rng.normal(size=n)


@pytest.mark.parametrize("project", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_constraints_and_contacts_together(method: str, project: bool) -> None:
    sim, q, v, tau = held_and_touching(method, project)
    A, B, modes = sim.discretize(q, v, tau)
    assert modes.contacts[0] == simulation.SLIDING
    assert modes.certain
    for ours, theirs in zip((A, B), differences(sim, q, v, tau), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=2e-8 * peak(theirs))
    n, rng = sim.robot.nv, np.random.default_rng(4)
    dq, dv, dtau, left, right = rng.normal(size=(5, n))
    found = np.concatenate(sim.step.jvp(q, v, tau, dq, dv, dtau))
    np.testing.assert_allclose(found, A @ np.r_[dq, dv] + B @ dtau, rtol=0.0, atol=1e-11 * peak(found))
    gradients, weights = sim.step.vjp(q, v, tau, left, right), np.r_[left, right]
    np.testing.assert_allclose(np.r_[gradients.q, gradients.v], weights @ A, rtol=0.0, atol=1e-11 * peak(weights @ A))
    np.testing.assert_allclose(gradients.tau, weights @ B, rtol=0.0, atol=1e-11 * peak(weights @ B))
    taus, ends = np.tile(tau, (3, 1)), np.zeros((4, n))
    ends[-1] = left
    chained = sim.rollout.vjp(q, v, taus, ends, ends)
    path = sim.rollout(q, v, taus)
    back = left, left
    for i in reversed(range(3)):
        step = sim.step.vjp(path.q[i], path.v[i], tau, *back)
        back = step.q, step.v
    np.testing.assert_array_equal(chained.q, back[0])
    np.testing.assert_array_equal(chained.v, back[1])
    many = sim.discretize(np.tile(q, (3, 1)), [v, 0.0 * v, np.full(n, np.nan)], tau)
    np.testing.assert_array_equal(many.A[0], A)
    assert np.isfinite(many.A[1]).all()
    assert np.isnan(many.A[2]).any()


@pytest.mark.parametrize("method", METHODS)
def test_constraints_and_gravity_compensation(method: str) -> None:
    robot, rng = borne(), np.random.default_rng(6)
    at = robot.random_configuration(rng)
    held = simulation.Simulator(
        robot, constraints=[kt.Weld("b", rows=(3,))], at=at, dt=DT, method=method, gravity_compensation=True
    )
    v, tau, dq, dv, dtau, left = rng.normal(size=(6, robot.nv))
    A, B, _ = held.discretize(at, v, tau)
    for ours, theirs in zip((A, B), differences(held, at, v, tau, 1e-5), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-8)
    found = np.concatenate(held.step.jvp(at, v, tau, dq, dv, dtau))
    np.testing.assert_allclose(found, A @ np.r_[dq, dv] + B @ dtau, rtol=0.0, atol=1e-11)
    np.testing.assert_allclose(
        held.step.vjp(at, v, tau, left, left).q, np.r_[left, left] @ A[:, : robot.nv], rtol=0.0, atol=1e-11
    )


def test_robots_of_a_population() -> None:
    """Each sample has the derivatives of its own robot."""
    case, rng = Case("tree0", "midpoint"), np.random.default_rng(11)
    theta = case.robot.inertial_parameters * rng.uniform(0.8, 1.2, (3, len(case.robot.bodies), 1))
    options = {**case.sim._options}
    together = simulation.Simulator(case.robot.population(inertial_parameters=theta), **options)
    state, (left, right) = (case.q, case.v, case.tau), rng.normal(size=(2, case.robot.nv))
    A, B, modes = together.discretize(*state)
    found = together.step.vjp(*state, left, right, parameters=True)
    taus, ends = np.tile(case.tau, (4, 1)), rng.normal(size=(2, 5, case.robot.nv))
    moved = together.rollout.vjp(case.q, case.v, taus, *ends, parameters=True)
    for i in range(3):
        alone = simulation.Simulator(case.robot.with_inertial_parameters(theta[i]), **options)
        one = alone.discretize(*state)
        np.testing.assert_array_equal(one.modes.contacts, modes.contacts[i])
        scale = peak(one.A)
        np.testing.assert_allclose(A[i], one.A, rtol=0.0, atol=1e-11 * scale)
        np.testing.assert_allclose(B[i], one.B, rtol=0.0, atol=1e-11 * scale)
        for ours, theirs in ((found, alone.step.vjp(*state, left, right, parameters=True)),
                             (moved, alone.rollout.vjp(case.q, case.v, taus, *ends, parameters=True))):  # fmt: skip
            for name in ("q", "v", "tau", "friction", "height", "parameters"):
                expected = getattr(theirs, name)
                np.testing.assert_allclose(
                    getattr(ours, name)[i], expected, rtol=0.0, atol=1e-9 * (1.0 + peak(expected))
                )


def test_bits_in_lanes_and_nan_in_its_sample() -> None:
    case, rng = Case("legs", "midpoint"), np.random.default_rng(12)
    n, count = case.robot.nv, 11
    q, v = np.tile(case.q, (count, 1)), case.v * rng.uniform(-1.0, 1.0, (count, 1))
    v[3], (dq, dv, dtau, left, right) = np.nan, rng.normal(size=(5, n))
    more = np.zeros(2)
    taus, ends = np.tile(case.tau, (3, 1)), rng.normal(size=(2, 4, n))
    functions: list[Any] = [
        lambda q, v: case.sim.step.jvp(q, v, case.tau, dq, dv, dtau, friction=more + 1.0, height=more),
        lambda q, v: case.sim.step.vjp(q, v, case.tau, left, right, parameters=True),
        lambda q, v: case.sim.rollout.vjp(q, v, taus, *ends),
    ]
    for function in functions:
        whole = function(q, v)
        for i in range(count):
            for ours, theirs in zip(whole, function(q[i], v[i]), strict=True):
                if isinstance(ours, np.ndarray) and ours.size:
                    np.testing.assert_array_equal(ours[i], theirs)
        assert np.isnan(whole[1][3]).any()
        assert np.isfinite(np.delete(whole[0], 3, axis=0)).all()


def test_impulses_between_bodies_keep_momentum() -> None:
    """A leg strikes its stop: whatever changes before the step, the momentum of all bodies feels no impulse."""
    robot = hopper().with_gravity((0.0, 0.0, 0.0))
    stops = {True: simulation.Simulator(robot, dt=DT, limits=True), False: simulation.Simulator(robot, dt=DT)}
    q = np.array([0.1, 0.2, 0.3, *np.array([0.9, 0.1, 0.3, 0.2]) / np.sqrt(0.95), 0.0999])
    v = np.array([0.1, 0.2, 0.3, 1.0, -0.5, 0.2, 1.0])
    found = {limits: sim.discretize(q, v) for limits, sim in stops.items()}
    assert found[True].modes.joints[-1] == simulation.STOPPED
    middle = robot.integrate(q, v, 0.5 * DT)
    impulse = stops[True].step(q, v)[1] - stops[False].step(q, v)[1]
    # M(q_m) Δv has no components along the six velocities of the trunk, nor have its changes
    M, turned = robot.mass_matrix(middle), robot.linearize(middle, np.zeros(7), a=impulse).dq
    by_q, by_v = robot.dintegrate(q, v, 0.5 * DT)
    change = M @ (found[True].A - found[False].A)[7:] + turned @ np.concatenate([by_q, by_v], axis=1)
    assert peak(M @ impulse) > 0.1
    np.testing.assert_allclose((M @ impulse)[:6], 0.0, rtol=0.0, atol=1e-13)
    np.testing.assert_allclose(change[:6], 0.0, rtol=0.0, atol=1e-10 * peak(change))
    np.testing.assert_allclose((M @ (found[True].B - found[False].B)[7:])[:6], 0.0, rtol=0.0, atol=1e-13)


def test_what_the_law_leaves_open_is_what_null_vectors_say() -> None:
    """Boxes that slide and turn on four corners, or on three."""
    rng = np.random.default_rng(13)
    for corners, unique in ((4, False), (3, True)):
        sim = simulation.Simulator(
            kt.zoo.box((0.2, 0.3, 0.1), 1.0), dt=DT, method="semi_implicit_euler",
            contacts=[simulation.Points("box", np.array(CORNERS)[:corners])], ground=simulation.Plane(friction=0.3),
        )  # fmt: skip
        for _ in range(5):
            v = np.array([0.0, 0.0, *rng.normal(size=3), 0.0])
            modes = sim.discretize([0.0, 0.0, 0.05 + 1e-6, 1.0, 0.0, 0.0, 0.0], v).modes
            if (modes.contacts == simulation.SLIDING).all():
                assert modes.unique == unique


def test_smoothed_derivatives_are_those_of_the_mean() -> None:
    """A push below the limit of friction: the exact slope is zero, that of the mean of noisy steps is not."""
    box, mu = kt.zoo.box((0.2, 0.3, 0.1), 1.0), 0.5
    sim = simulation.Simulator(
        box, dt=DT, method="semi_implicit_euler", contacts=[simulation.Points("box", np.array(CORNERS))],
        ground=simulation.Plane(friction=mu),
    )  # fmt: skip
    q, v, tau = np.array([0.0, 0.0, 0.05, 1.0, 0.0, 0.0, 0.0]), np.zeros(6), np.zeros(6)
    limit = mu * 9.81
    tau[3] = 0.9 * limit
    noise = np.r_[np.zeros(3), 0.2 * limit, 0.0, 0.0]
    assert abs(sim.discretize(q, v, tau).B[9, 3]) < 1e-9
    found = simulation.smoothed(sim, q, v, tau, tau_noise=noise, pairs=200)
    # beyond the limit, v′ = dt (f − μ m g)/m: the slope is dt times the share of noise that goes there
    share = 0.5 * math.erfc(0.1 * limit / (0.2 * limit * math.sqrt(2.0)))
    assert float(found.B[9, 3]) == pytest.approx(DT * share, rel=0.1)
    assert found.sure < 1.0  # corners at the edge, where nothing moves
    again = simulation.smoothed(sim, np.stack([q, q]), v, np.stack([tau, 2.0 * tau]), tau_noise=noise, pairs=200)
    np.testing.assert_array_equal(again.B[0], found.B)
    np.testing.assert_array_equal(again.A[0], found.A)
    refused("there is no noise", simulation.smoothed, sim, q, v, tau)
    refused("pairs=0 is not a positive", simulation.smoothed, sim, q, v, tau, tau_noise=1.0, pairs=0)
    refused("v_noise takes one number or 6", simulation.smoothed, sim, q, v, tau, v_noise=-1.0)
