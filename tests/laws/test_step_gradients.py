"""`step.jvp` and `step.vjp`: one is the other's transpose, and both are differences, for all that a step depends on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import simulation
from tests.fuzz import contacts as fuzz
from tests.general_nodes import Cart
from tests.laws.cases import model
from tests.laws.test_contact import DT
from tests.laws.test_contact_derivatives import differences
from tests.mechanisms import NEAR, four_bar, gripper, hopper, whip
from tests.tolerance import Array, peak

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
        np.testing.assert_allclose(ours, theirs, atol=2e-8 * peak(theirs))
    n, rng = sim.robot.nv, np.random.default_rng(4)
    dq, dv, dtau, left, right = rng.normal(size=(5, n))
    found = np.concatenate(sim.step.jvp(q, v, tau, dq, dv, dtau))
    np.testing.assert_allclose(found, A @ np.r_[dq, dv] + B @ dtau, atol=1e-11 * peak(found))
    gradients, weights = sim.step.vjp(q, v, tau, left, right), np.r_[left, right]
    np.testing.assert_allclose(np.r_[gradients.q, gradients.v], weights @ A, atol=1e-11 * peak(weights @ A))
    np.testing.assert_allclose(gradients.tau, weights @ B, atol=1e-11 * peak(weights @ B))
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
        np.testing.assert_allclose(ours, theirs, atol=1e-8)
    found = np.concatenate(held.step.jvp(at, v, tau, dq, dv, dtau))
    np.testing.assert_allclose(found, A @ np.r_[dq, dv] + B @ dtau, atol=1e-11)
    np.testing.assert_allclose(
        held.step.vjp(at, v, tau, left, left).q, np.r_[left, left] @ A[:, : robot.nv], atol=1e-11
    )
