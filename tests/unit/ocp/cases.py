"""Problems that several tests solve, and costs computed by other means."""

from __future__ import annotations

from typing import Any

import numpy as np

import kinetree as kt
from kinetree import ocp

Array = np.ndarray[Any, np.dtype[Any]]


def swing_up(
    name: str, steps: int, limit: float | None, actuated: list[str] | None = None
) -> tuple[ocp.Problem, Array]:
    """A pendulum on a cart, or of two links, from hanging to standing: the problem, and the state it starts in."""
    robot: kt.Model = getattr(kt.zoo, name)()
    angles = (0.0, np.pi)
    states = (
        [np.array([0.0, b]) for b in angles]
        if name == "cart_pole"
        else [np.array([a, b]) for a in angles for b in angles]
    )
    height = [robot.energy(q, np.zeros(2)).potential for q in states]
    terms = [
        ocp.state(states[int(np.argmax(height))], weight=0.0, last=[100.0, 100.0, 10.0, 10.0]),
        ocp.control(weight=1e-3),
    ]
    limits = None if limit is None else ocp.Limits(torque=limit)
    return ocp.Problem(robot, 0.02, steps, terms, limits=limits, actuated=actuated), states[int(np.argmin(height))]


def reach(robot: kt.Model, frame: str, steps: int = 40, **options: Any) -> ocp.Problem:
    terms = [ocp.pose(frame, weight=1.0, last=1e3), ocp.state(weight=1e-2, last=0.1), ocp.control(weight=1e-4)]
    return ocp.Problem(robot, 0.02, steps, terms, **options)


def walker(base: str = "floating") -> kt.Model:
    """A trunk on two legs of three joints, with whole feet."""
    builder = kt.Builder("walker")
    builder.add_body("trunk", joint=base, mass=4.0, com=(0.01, 0.0, 0.1), inertia=np.diag([0.05, 0.04, 0.03]))
    for side, y in (("left", 0.1), ("right", -0.1)):
        limb = {"mass": 0.6, "com": (0.0, 0.01, -0.1), "inertia": np.diag([0.004, 0.005, 0.001])}
        hip, knee = (np.eye(3), (0.0, y, 0.0)), (np.eye(3), (0.0, 0.0, -0.25))
        builder.add_body(f"{side}_hip", parent="trunk", axis=(1, 0, 0), placement=hip, **limb)
        builder.add_body(f"{side}_thigh", parent=f"{side}_hip", axis=(0, 1, 0), **limb)
        builder.add_body(f"{side}_shank", parent=f"{side}_thigh", axis=(0, 1, 0), placement=knee, **limb)
        builder.add_frame(f"{side}_foot", body=f"{side}_shank", placement=(np.eye(3), (0.02, 0.0, -0.25)))
    return builder.build()


def four_bar() -> kt.Model:
    """A crank, a coupler and a rocker that stops before its highest angle; and a pendulum beside them."""
    builder = kt.Builder("four-bar", gravity=(0.0, -9.81, 0.0))
    bars = (("crank", "world", 0.0, 0.3, 9.0), ("coupler", "crank", 0.3, 0.9, 9.0), ("rocker", "world", 1.0, 0.7, 1.95))
    for name, parent, x, length, upper in bars:
        com, inertia = (length / 2.0, 0.0, 0.0), length**3 / 12.0 * np.diag([1e-3, 1.0, 1.0])
        place = (np.eye(3), (x, 0.0, 0.0))
        limits = kt.model.Limits(lower=-9.0, upper=upper)
        builder.add_body(name, parent=parent, placement=place, mass=length, com=com, inertia=inertia, limits=limits)
    for bar, length in (("coupler", 0.9), ("rocker", 0.7)):
        builder.add_frame(f"end of {bar}", body=bar, placement=(np.eye(3), (length, 0.0, 0.0)))
    builder.add_body("bob", axis=(0, 0, 1), mass=1.0, com=(0.0, -0.5, 0.0), inertia=0.1 * np.eye(3))
    builder.connect("end of coupler", "end of rocker").independent("crank_joint")
    return builder.build(near={"crank_joint": 0.8, "coupler_joint": -0.2, "rocker_joint": 1.6})


def free_step(problem: Any, t: int, q: Array, v: Array, tau: Array) -> tuple[Array, Array]:
    """A step of the free robot."""
    after, rate = problem.robot.step(q, v, tau, problem.dt[t])
    return after, rate


def gradient(plan: ocp.Plan, cost: Any, step: Any = free_step) -> Array:
    """Derivatives of a cost of (q, v, u) with respect to all inputs, by differences of roll-outs, (T, nu)."""
    problem, small = plan.horizon, 1e-5
    T, nu = plan.u.shape
    change = small * np.eye(T * nu).reshape(T * nu, T, nu)
    ends = []
    for u in (plan.u + change, plan.u - change):
        q, v = (np.broadcast_to(x, (T * nu, *x.shape)) for x in (plan.q[0], plan.v[0]))
        qs, vs = [q], [v]
        for t in range(T):
            tau = np.zeros((T * nu, problem.robot.nv))
            tau[:, problem.actuated] = u[:, t]
            q, v = step(problem, t, q, v, tau)
            qs.append(q)
            vs.append(v)
        ends.append(cost(np.stack(qs, axis=1), np.stack(vs, axis=1), u))
    found: Array = ((ends[0] - ends[1]) / (2.0 * small)).reshape(T, nu)
    return found


def adjoint(plan: ocp.Plan, last: Array, weight: float) -> Array:
    """The same for ½ Σ weight u² and a gradient at the last node: costates through `discretize`, (T, nu)."""
    problem, costate, slopes = plan.horizon, last, []
    A, B = problem.robot.discretize(plan.q[:-1], plan.v[:-1], plan.tau, problem.dt)
    for t in reversed(range(len(plan.u))):
        slopes.append(weight * plan.u[t] + B[t][:, problem.actuated].T @ costate)
        costate = A[t].T @ costate
    return np.array(slopes[::-1])
