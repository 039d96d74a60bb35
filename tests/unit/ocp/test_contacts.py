"""Contacts with given phases: steps, impacts, forces, their derivatives, cones, and optima that are stationary."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from pathlib import Path as Path_
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import kinetree as kt
from kinetree import ocp
from kinetree.errors import InputError, UnknownNameError
from kinetree.ocp.active_set import HardRows
from kinetree.ocp.contacts import Phases
from kinetree.ocp.costs import Bounds
from kinetree.ocp.horizon import Horizon, Path, Step
from tests.tolerance import assert_close, bound
from tests.unit.ocp.cases import gradient, walker

Array = np.ndarray[Any, np.dtype[Any]]
FEET = ["left_foot", "right_foot"]
#: Both feet, one, none, an impact of one, one, an impact of both, both.
HELD = {
    "left_foot": np.array([1, 0, 0, 1, 1, 1, 1], bool),
    "right_foot": np.array([1, 1, 0, 0, 0, 1, 1], bool),
}


def looped() -> kt.Model:
    """A trunk on two legs that a gear drives together."""
    builder = kt.Builder("looped")
    builder.add_body("trunk", joint="floating", mass=3.0, inertia=0.04 * np.eye(3))
    body = {"mass": 0.5, "com": (0.0, 0.01, -0.1), "inertia": 0.004 * np.eye(3)}
    for side, y in (("left", 0.1), ("right", -0.1)):
        builder.add_body(f"{side}_leg", parent="trunk", axis=(0, 1, 0), placement=(np.eye(3), (0.0, y, 0.0)), **body)
        builder.add_frame(f"{side}_foot", body=f"{side}_leg", placement=(np.eye(3), (0.0, 0.0, -0.3)))
    builder.couple("left_leg_joint", to="right_leg_joint", ratio=-0.5)
    return builder.build()


CASES = [
    (walker, {"rows": "position", "damping": 20.0}),
    (walker, {"rows": {"left_foot": "all"}}),
    (lambda: walker("planar"), {"damping": 5.0, "constraints": [kt.Distance("left_foot", "right_shank", 0.4)]}),
    (looped, {"impact": np.array([0, 0, 0, 1, 0, 0, 1], bool)}),
    # the same feet at steps that do not follow each other, and another one between them
    (walker, {"held": {"left_foot": True, "trunk": np.arange(7) % 2 == 0, "right_foot": True}, "impact": False}),
]


def drawn(make: Any, options: dict[str, Any], terms: Any = ()) -> tuple[ocp.Problem, Path]:
    robot, rng = make(), np.random.default_rng(3)
    terms = [*terms, ocp.control(weight=1e-3)]
    problem = ocp.Problem(robot, 0.02, 7, terms, contacts=ocp.Contacts(**{"held": HELD, **options}))
    q = robot.integrate(robot.neutral(), 0.4 * rng.normal(size=(2, 8, robot.nv)))
    return problem, Path(q, rng.normal(size=(2, 8, robot.nv)), rng.normal(size=(2, 7, len(problem.actuated))))


@pytest.mark.parametrize(("make", "options"), CASES)
def test_derivatives_of_steps_and_forces(make: Any, options: dict[str, Any]) -> None:
    """Of free, held and impacting nodes, along random tangents, against central differences."""
    problem, x = drawn(make, options)
    h, robot, rng = problem.horizon, problem.robot, np.random.default_rng(4)
    linear, dt, pace = h.linear(x), h.dynamics.dt[:, None], h.dynamics.pace[:, None]
    q, v, tau = x.q[:, :-1].copy(), x.v[:, :-1].copy(), h.tau(x.u)
    here = h.dynamics.step(q, v, tau)
    assert_close(linear.force_q.shape[2], h.dynamics.forces, 0.0)
    for _ in range(3):
        dq, dv, du = rng.normal(size=v.shape), rng.normal(size=v.shape), rng.normal(size=x.u.shape)
        ends = [h.dynamics.step(robot.integrate(q, s * dq), v + s * dv, tau + s * h.tau(du)) for s in (1e-6, -1e-6)]
        rate, force = ((getattr(ends[0], name) - getattr(ends[1], name)) / 2e-6 for name in ("v", "force"))

        def along(by_q: Array, by_v: Array, by_u: Array, dq: Array = dq, dv: Array = dv, du: Array = du) -> Array:
            found: Array = sum(np.einsum("ntij,ntj->nti", a, b) for a, b in ((by_q, dq), (by_v, dv), (by_u, du)))
            return found

        own = dv + pace * along(linear.a_q, linear.a_v, linear.a_u)
        assert_close(own, rate, 1e-7)
        assert_close(along(*(x[:, :-1] for x in linear[5:])), force, 1e-7)
        moved = [robot.difference(here.q, end.q) for end in ends]
        steps = robot.dintegrate(q, here.v, np.broadcast_to(dt[:, 0], q.shape[:2]).copy())
        wanted = np.einsum("ntij,ntj->nti", steps[0], dq) + np.einsum("ntij,ntj->nti", steps[1], own)
        assert_close(wanted, (moved[0] - moved[1]) / 2e-6, 1e-7)


@pytest.mark.parametrize(("make", "options"), CASES[:3])
def test_feet_obey_the_laws_of_contact(make: Any, options: dict[str, Any]) -> None:
    """Held feet have damped velocities, impacts stop them and cost energy, flights are free, forces balance."""
    problem, x = drawn(make, options)
    h, robot, damping = problem.horizon, problem.robot, options.get("damping", 0.0)
    q, v, tau = x.q[:, :-1].copy(), x.v[:, :-1].copy(), h.tau(x.u)
    after = h.dynamics.step(q, v, tau)
    impacts = h.dynamics.impacts
    np.testing.assert_array_equal(impacts, [0, 0, 0, 1, 0, 1, 0])
    a = (after.v - v) / h.dynamics.pace[:, None]
    forces = np.zeros((*q.shape[:2], robot.nv))
    for foot in h.dynamics.feet:
        on = foot.held
        chosen = slice(3, 6) if foot.rows == "position" else slice(0, 6)
        J = robot.jacobian(q, foot.frame, "local_world_aligned")[..., chosen, :]
        force = after.force[..., foot.part]
        assert not force[:, ~on].any()
        forces += np.einsum("ntij,nti->ntj", J, force)
        still = np.einsum("ntij,ntj->nti", J, after.v)[:, on & impacts]
        assert_close(still, np.zeros_like(still), bound(robot.nv, 1e4), 1.0)
        moving = robot.acceleration(q, v, a, foot.frame, classical=True, reference="local_world_aligned")[..., chosen]
        speed = robot.velocity(q, v, foot.frame, "local_world_aligned")[..., chosen]
        wrong = (moving + damping * speed)[:, on & ~impacts]
        assert_close(wrong, np.zeros_like(wrong), bound(robot.nv, 1e4), 100.0)
    others = len(options.get("constraints", ()))
    flying = ~np.any([foot.held for foot in h.dynamics.feet], axis=0)
    if not others:
        M = robot.mass_matrix(q)
        change = np.einsum("ntij,ntj->nti", M, after.v - v)[:, impacts]
        assert_close(change, forces[:, impacts], bound(robot.nv, 1e4))
        held = robot.inverse_dynamics(q, v, a)[:, ~impacts]
        assert_close(held, (tau + forces)[:, ~impacts], bound(robot.nv, 1e4))
        free = robot.step(q[:, flying], v[:, flying], tau[:, flying], 0.02)[1]
        np.testing.assert_array_equal(after.v[:, flying], free)
        pushed = robot.centroidal_momentum_matrix(q)[:, impacts, 3:] @ (after.v - v)[:, impacts, :, None]
        points = [after.force[:, impacts, foot.part][..., -3:] for foot in h.dynamics.feet]
        if robot.joints[0].kind == "floating":
            assert_close(pushed[..., 0], np.sum(points, axis=0), bound(robot.nv, 1e4))
    before, then = robot.energy(q, v).kinetic, robot.energy(q, after.v).kinetic
    assert (then[:, impacts] <= before[:, impacts]).all()
    np.testing.assert_array_equal(after.q[:, impacts].round(12), q[:, impacts].round(12))


def test_derivatives_of_terms_at_contacts() -> None:
    terms = [
        ocp.force("left_foot", np.arange(6.0), name="wrench"), ocp.force("right_foot"), ocp.momentum(np.ones(6)),
        ocp.friction("left_foot", 0.6, sole=(0.1, 0.05), normal=(0.1, 0.0, 1.0)), ocp.friction("right_foot", 0.8),
    ]  # fmt: skip
    problem, x = drawn(walker, {"rows": {"left_foot": "all"}, "damping": 3.0}, terms)
    errors = problem.check(x.q[0, 0], x.v[0, 0], x.u[0, 0])
    assert set(errors) == {term.name for term in problem.terms}
    assert max(errors.values()) < 1e-7
    # and the gradient of all of them
    h, rng, robot = problem.horizon, np.random.default_rng(5), problem.robot
    given, (x, _) = h.costs.given(h.costs.targets({}, (2,)), ()), h.reached(x)
    model = h.model(x, h.linear(x), given)
    way = [rng.normal(size=(2, 8, robot.nv)), rng.normal(size=(2, 8, robot.nv)), rng.normal(size=x.u.shape)]
    way[2][:, h.dynamics.impacts] = 0.0
    ends = []
    for s in (1e-7, -1e-7):
        y, _ = h.reached(Path(robot.integrate(x.q, s * way[0]), x.v + s * way[1], x.u + s * way[2]))
        ends.append(h.trial(y, given).cost)
    found = sum((a[:, : b.shape[1]] * b).sum(axis=(1, 2)) for a, b in zip(model[6:], way, strict=True))
    assert_close(found, (ends[0] - ends[1]) / 2e-7, 1e-6)


def test_rows_of_forces_move_with_a_step() -> None:
    """Hard rows of every kind after a small step are those of the path there; so is the model with rows that act."""
    height = ocp.position("right_foot", (0.0, 0.0, 0.1), hard=True, nodes=[2, 3])
    height = replace(height, lower=np.float64(-np.inf), upper=np.float64(0.0))
    terms = [ocp.friction("left_foot", 0.6, hard=True), height, ocp.state(lower=-0.1, upper=0.1, hard=True)]
    problem, x = drawn(walker, {"damping": 3.0}, terms)
    h, rng = problem.horizon, np.random.default_rng(6)
    N, S, nv = 2, 8, problem.robot.nv
    sizes = [row.part.size for row in (h.costs.rows[n] for n in h.costs.hard)]
    penalty = [rng.uniform(0.5, 2.0, size=(N, S, size)) for size in sizes]
    hard = [h.costs.rows[n] for n in h.costs.hard]
    bounds = [Bounds(row, 0.1 * p, p * (row.weight > 0.0), p) for row, p in zip(hard, penalty, strict=True)]
    given, (x, gap) = h.costs.given(h.costs.targets({}, (2,)), bounds), h.reached(x)
    linear = h.linear(x, gap)
    rows = HardRows.of(h.costs, x, given, lambda: linear)
    assert rows is not None
    way = [1e-6 * rng.normal(size=(N, S, nv)), 1e-6 * rng.normal(size=(N, S, nv)), 1e-6 * rng.normal(size=x.u.shape)]
    step = Step(*way, *np.zeros((4, 1)))
    ends = [h.reached(h.moved(x, Step(*(s * each for each in way), *np.zeros((4, 1))), np.ones(2)))[0] for s in (1, -1)]
    ahead, back = (HardRows.of(h.costs, y, given, lambda: linear) for y in ends)
    assert ahead is not None
    assert back is not None
    assert_close(rows.after(step) - rows.z, 0.5 * (ahead.z - back.z), 1e-6)
    # rows that act at the path, and none: the models differ by what their costs do
    acting, model = rows.sides(rows.z), h.model(x, linear, given)
    free = rows.moved(model, np.zeros_like(acting), acting)
    soft = h.model(
        x, linear, h.costs.given(h.costs.targets({}, (2,)), [replace(b, penalty=0.0 * b.penalty) for b in bounds])
    )
    assert np.abs(acting).sum() > 20
    for name, one, other in zip(model._fields, free, soft, strict=True):
        assert_close(one, other, bound(nv, 1e4), 1.0)
        assert name in ("u", "uu") or np.abs(one - getattr(model, name)).max() > 0.01


def hop() -> tuple[ocp.Problem, Array]:
    """The walker crouches, jumps forward and lands."""
    robot = walker()
    q = robot.q_from_dict(
        {f"{s}_{p}_joint": a for s in ("left", "right") for p, a in (("thigh", 0.5), ("shank", -1.0))}
    )
    feet = np.mean([robot.pose(q, foot)[:3, 3] for foot in FEET], axis=0)
    q[2] -= feet[2]
    held = np.r_[np.ones(8, bool), np.zeros(8, bool), np.ones(9, bool)]
    points = {foot: robot.pose(q, foot)[:3, 3] + (0.1, 0.0, 0.0) for foot in FEET}
    nv = robot.nv
    terms = [
        ocp.state(q, weight=np.r_[np.ones(3), np.zeros(3), 0.1 * np.ones(6), 0.1 * np.ones(nv)], last=1.0),
        ocp.control(weight=1e-3), *(ocp.position(foot, x, weight=0.0, impact=1e4) for foot, x in points.items()),
        *(ocp.friction(foot, 0.7, weight=1.0) for foot in FEET),
    ]  # fmt: skip
    contacts = ocp.Contacts(dict.fromkeys(FEET, held), damping=20.0)
    return ocp.Problem(robot, 0.02, 25, terms, contacts=contacts), q


def test_forces_stay_in_cones() -> None:
    """With complementary multipliers; impulses as well, which would be outside otherwise."""
    soft, q = hop()
    terms, held = [term for term in soft.terms if "friction" not in term.name], soft.horizon.dynamics.feet[0].held
    contacts = ocp.Contacts(dict.fromkeys(FEET, held), damping=20.0, friction=0.5)
    problem = ocp.Problem(soft.robot, 0.02, 25, terms, contacts=contacts)
    plan = problem.solve(q).require()
    assert plan.violation <= 1e-6
    acting = 0
    for foot in FEET:
        force, y = plan.forces[foot], plan.multipliers[f"friction at {foot}"][:25]
        r = force @ ocp.cone("position", 0.5).T
        assert r.max() < 1e-6
        assert (np.hypot(force[:, 0], force[:, 1]) <= 0.5 * force[:, 2] + 1e-6).all()
        assert y.min() >= 0.0
        assert np.abs(y * r).max() < 1e-5
        acting += int((y > 1e-4).sum())
    assert acting > 3
    # a limit costs something
    free = ocp.Problem(soft.robot, 0.02, 25, terms, contacts=ocp.Contacts(dict.fromkeys(FEET, held), damping=20.0))
    assert plan.cost > free.solve(q).cost


def public_step(problem: Any, t: int, q: Array, v: Array, tau: Array) -> tuple[Array, Array]:
    """A step by functions of the robot alone."""
    robot, feet = problem.robot, [kt.Task(f.frame, "position") for f in problem.dynamics.feet if f.held[t]]
    if problem.dynamics.impacts[t]:
        return q, robot.constraints(feet).project_velocity(q, v)
    if not feet:
        after: tuple[Array, Array] = robot.step(q, v, tau, problem.dt[t])
        return after
    held = robot.constraints(feet, at=q[0])
    v = v + problem.dt[t] * held.forward_dynamics(q, v, tau, stabilization=(0.0, 20.0)).acceleration
    return robot.integrate(q, v, problem.dt[t]), v


@pytest.mark.parametrize("rollout", ["linear", "nonlinear"])
def test_jumps_are_stationary(rollout: str) -> None:
    """Differences of roll-outs by public functions vanish; feet land where they should and stay there."""
    problem, q = hop()
    robot = problem.robot
    plan = problem.solve(q, rollout=rollout, tolerance=1e-11).require()
    assert plan.gap < 1e-8

    def cost(qs: Array, vs: Array, us: Array) -> Array:
        h = problem.horizon
        x, _ = h.reached(Path(qs, vs, us))
        found: Array = h.trial(x, h.costs.given(h.costs.targets({}, (len(qs),)), ())).cost
        return found

    slopes = gradient(plan, cost, public_step)
    slopes[problem.horizon.dynamics.impacts] = 0.0
    assert np.abs(slopes).max() < 2e-4
    for foot in FEET:
        points = robot.pose(plan.q, foot)[:, :3, 3]
        assert np.abs(points[:9] - points[0]).max() < 1e-3
        assert np.abs(points[17:] - points[16]).max() < 2e-3
        np.testing.assert_allclose(points[16], points[0] + (0.1, 0.0, 0.0), rtol=0.0, atol=5e-3)
        assert not plan.forces[foot][8:16].any()
        assert plan.forces[foot][:8, 2].min() > 0.0
    assert_close(plan.time[-1], 24 * 0.02, bound(30))
    assert not plan.u[16].any()
    shown = plan.motion()
    assert (np.diff(shown.time) > 0.0).all()
    assert len(shown.q) == len(shown.time) == 25
    turned = robot.pose(shown.q, FEET[0])[:, :3, :3] @ shown.forces[FEET[0]][..., None]
    assert_close(turned[:16, :, 0], plan.forces[FEET[0]][:16], bound(3))
    assert_close(turned[16:24, :, 0], plan.forces[FEET[0]][17:], bound(3))


def test_many_jumps_have_the_bits_of_one() -> None:
    problem, q = hop()
    starts = problem.robot.integrate(q, 0.02 * np.random.default_rng(0).normal(size=(9, problem.robot.nv)))
    starts[1] = np.nan
    assert [problem.horizon.together(n) for n in (1, 8)] == [8, 1]
    plans = problem.solve(starts, iterations=4)
    assert plans.reason.tolist() == ["iterations", "not finite", *["iterations"] * 7]
    alone = problem.solve(starts[2], iterations=4)
    for one, many in ((alone.u, plans.u), (alone.q, plans.q), (alone.forces["left_foot"], plans.forces["left_foot"])):
        np.testing.assert_array_equal(one, many[2])


def test_doubtful_problems_are_computed_on_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps of many problems say where feet may depend on each other; these problems are computed again."""
    problem, q = hop()
    starts = problem.robot.integrate(q, 0.02 * np.random.default_rng(7).normal(size=(4, problem.robot.nv)))
    wanted, direction = problem.solve(starts, iterations=3), Horizon.direction

    def doubting(*given: Any) -> Any:
        gains, step, doubtful = direction(*given)
        assert not doubtful.any()
        gains.Kq[1], gains.pivot[1], step.q[1], doubtful[1] = np.nan, -1.0, np.nan, True
        return gains, step, doubtful

    monkeypatch.setattr(Horizon, "direction", doubting)
    found = problem.solve(starts, iterations=3)
    for name in ("q", "u", "gains", "cost"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


def test_doubts_of_nodes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derivatives of nodes that are in doubt are those by eigenvalues; sweeps of many problems tell of them."""
    problem, x = drawn(walker, {"damping": 20.0}, [ocp.state(weight=1.0)])
    h, seen, record = problem.horizon, list[bool](), Phases.record_rates
    given, (path, gap) = h.costs.given(h.costs.targets({}, (2,)), ()), h.reached(x)
    wanted = h.linear(path, gap)
    assert not h.direction(path, gap, given, np.ones(2), [], None)[2].any()

    def doubting(self: Any, run: Any, kind: int, near: bool, *given: Any) -> Any:
        seen.append(near)
        return record(self, run, kind, near, *given)[0], 0.0 if near else 2.0

    monkeypatch.setattr(Phases, "record_rates", doubting)
    h = drawn(walker, {"damping": 20.0}, [ocp.state(weight=1.0)])[0].horizon
    assert h.direction(path, gap, given, np.ones(2), [], None)[2].all()
    for one, other in zip(h.linear(path, gap), wanted, strict=True):
        assert_close(one, other, 1e-8)
    assert any(seen)


def test_roll_outs_follow_phases() -> None:
    problem, x = drawn(walker, {"damping": 20.0}, [ocp.state(weight=1.0)])
    h = problem.horizon
    x, gap = h.reached(x)
    linear = h.linear(x)
    gains, _ = h.gains(linear, gap, h.model(x, linear, h.costs.given(h.costs.targets({}, (2,)), ())), np.ones(2))
    _, left = h.reached(h.rolled(x, gap, gains, np.full(2, 0.3)))
    assert_close(left.q, 0.7 * gap.q, bound(60, 1e5))
    assert_close(left.v, 0.7 * gap.v, bound(60, 1e5))


def test_mpc_stands_after_a_push() -> None:
    """On one whole foot, one iteration for each step brings the joints back."""
    problem, q = hop()
    robot, nv = problem.robot, problem.robot.nv
    weights = np.repeat([10.0, 10.0, 0.1], [6, 6, nv])
    contacts = ocp.Contacts({"left_foot": True}, rows="all", damping=20.0)
    terms = [ocp.state(q, weight=weights, last=weights), ocp.control(name="torques", weight=0.3)]
    standing = ocp.Problem(robot, 0.02, 20, terms, contacts=contacts)
    mpc, aims = ocp.MPC(standing), {"torques": standing.horizon.dynamics.hold(q[None])[0]}
    held = robot.constraints(["left_foot"], at=q)
    v = held.project_velocity(q, np.repeat([0.5, -0.5], 6))
    away, now, command = [], q, mpc(q, v, aims)
    for _ in range(40):
        a = held.forward_dynamics(now, v, command.tau, stabilization=(0.0, 20.0)).acceleration
        v = v + 0.02 * a
        now = robot.integrate(now, v, 0.02)
        away.append(np.abs(robot.difference(q, now)[6:]).max())
        command = mpc(now, v, aims, state=command.state)
        assert command.plan.iterations == 1
    assert max(away) > 0.01
    assert away[-1] < 0.2 * max(away)
    assert command.plan.forces["left_foot"].shape == (20, 6)


def test_phases_move_on_under_mpc() -> None:
    """A cycle of problems: what is held at the first step now was held at a later one before, prepared or not."""
    robot, q = walker(), walker().neutral()
    beat = np.tile([True, True, False], 3)
    terms = [ocp.state(q, weight=0.1), ocp.control(weight=1e-2)]
    problems = [
        ocp.Problem(robot, 0.02, 5, terms, contacts=ocp.Contacts({"left_foot": beat[k : k + 5]}, impact=False))
        for k in range(3)
    ]
    mpc = ocp.MPC(problems)
    command = mpc(q, np.zeros(robot.nv))
    for k in range(5):
        np.testing.assert_array_equal(command.plan.forces["left_foot"].any(axis=1), np.tile(beat, 2)[k : k + 5])
        state = mpc.prepare(command.state) if k % 2 else command.state
        command = mpc(command.plan.q[1], command.plan.v[1], state=state)
        assert command.state.steps == k + 1
    assert "a cycle of 3" in repr(mpc)
    with pytest.raises(InputError, match="problems of a cycle"):
        ocp.MPC([problems[0], ocp.Problem(robot, 0.01, 5, terms)])


def test_names_in_the_documentation_exist() -> None:
    """Those of the table for users of crocoddyl, and all others."""
    page = (Path_(__file__).parents[3] / "docs" / "optimal_control.md").read_text(encoding="utf-8")
    table = page[page.index("## Coming from crocoddyl") :]
    names = set(re.findall(r"ocp\.(\w+)", page))
    assert names <= set(ocp.__all__)
    assert len(set(re.findall(r"ocp\.(\w+)", table))) > 12
    options = set(re.findall(r"\b(\w+)=…", table)) | {"rollout", "second_order", "limits", "contacts"}
    known = [ocp.Problem, ocp.Problem.solve, ocp.Contacts, ocp.Term, ocp.friction, ocp.state]
    assert options <= {name for each in known for name in inspect.signature(each).parameters}


def test_cones_hold_what_friction_can() -> None:
    """A point's force is inside of the round cone, a sole's wrench is one of forces at its corners."""
    rng = np.random.default_rng(0)
    A = ocp.cone("position", 0.5)
    f = rng.normal(size=(2000, 3)) + np.array([0.0, 0.0, 1.0])
    inside = (A @ f.T <= 0.0).all(axis=0)
    assert 100 < inside.sum() < 1900
    assert (np.hypot(f[inside, 0], f[inside, 1]) <= 0.5 * f[inside, 2]).all()
    around = (ocp.cone("position", 0.5, inner=False) @ f.T <= 0.0).all(axis=0)
    assert (around >= inside).all()
    X, Y = 0.1, 0.05
    corners = np.array([[x, y, 0.0] for x in (X, -X) for y in (Y, -Y)])
    forces = rng.normal(size=(500, 4, 3)) * (0.1, 0.1, 1.0)
    forces[..., 2] = np.abs(forces[..., 2]) + 0.3
    fits = (np.abs(forces[..., :2]) <= 0.5 / np.sqrt(2) * forces[..., 2:]).all(axis=(1, 2))
    wrench = np.concatenate([np.cross(corners, forces).sum(axis=1), forces.sum(axis=1)], axis=1)
    S = ocp.cone("all", 0.5, (X, Y))
    assert S.shape == (17, 6)
    assert fits.sum() > 100
    assert (wrench[fits] @ S.T <= 1e-12).all()
    # and every wrench inside is one of them
    corner = [np.vstack([np.cross(np.eye(3), -x).T, np.eye(3)]) for x in corners]
    sides = np.kron(np.eye(4), A)
    found = []
    for w in rng.normal(size=(150, 6)) * (0.03, 0.06, 0.03, 0.2, 0.2, 1.0) + np.array([0, 0, 0, 0, 0, 1.5]):
        solved = linprog(np.zeros(12), sides, np.zeros(20), np.hstack(corner), w, (None, None))
        found.append(bool(solved.success))
        assert found[-1] == bool((S @ w <= 0.0).all())
    assert 20 < sum(found) < 130
    # a turned surface has a turned cone
    turned = ocp.cone("position", 0.5, normal=(1.0, 0.0, 0.0))
    assert (turned @ [1.0, 0.0, 0.0] < 0.0).all()


def test_soles_of_turned_feet() -> None:
    """Forces at the corners of a sole turned on a slope are inside, and the centre of pressure ends at its edges."""
    rng, X, Y = np.random.default_rng(1), 0.1, 0.03
    normal, forward = np.array([0.2, -0.1, 1.0]), np.array([0.4, 0.9, 0.5])
    up = normal / np.linalg.norm(normal)
    x = forward - (forward @ up) * up
    x /= np.linalg.norm(x)
    R = np.column_stack([x, np.cross(up, x), up])
    S = ocp.cone("all", 0.5, (X, Y), normal=normal, forward=forward)
    forces = rng.uniform(-0.5 / np.sqrt(2), 0.5 / np.sqrt(2), size=(200, 4, 3))
    forces[..., 2] = 1.0
    forces *= rng.uniform(0.0, 2.0, size=(200, 4, 1))
    corners = np.array([[a, b, 0.0] for a in (X, -X) for b in (Y, -Y)])
    wrench = np.concatenate([np.cross(corners, forces).sum(axis=1) @ R.T, forces.sum(axis=1) @ R.T], axis=1)
    assert (wrench @ S.T <= 1e-12).all()
    for share, inside in ((0.999, True), (1.001, False)):
        for place in ((share * X, 0.0), (-share * X, 0.0), (0.0, share * Y), (0.0, -share * Y)):
            at = R @ [*place, 0.0]
            assert bool((S @ [*np.cross(at, up), *up] <= 0.0).all()) == inside
    level = ocp.cone("all", 0.5, (X, Y))
    assert_close(ocp.cone("all", 0.5, (X, Y), forward=(2.0, 0.0, 1.0)), level, bound(6))
    across = ocp.cone("all", 0.5, (Y, X), forward=(0.0, 1.0, 0.0))
    w = rng.normal(size=(500, 6)) * (0.03, 0.06, 0.03, 0.2, 0.2, 1.0) + np.array([0, 0, 0, 0, 0, 1.5])
    np.testing.assert_array_equal((w @ level.T <= 0.0).all(axis=1), (w @ across.T <= 0.0).all(axis=1))
    with pytest.raises(InputError, match="along the normal"):
        ocp.cone("all", 0.5, (X, Y), forward=(0.0, 0.0, 2.0))


def test_contacts_know_how_feet_are_turned() -> None:
    feet = {"held": {"left_foot": True, "right_foot": True}, "rows": "all", "friction": 0.5, "sole": (0.1, 0.03)}
    contacts = ocp.Contacts(**feet, forward={"left_foot": (0.0, 1.0, 0.0)})
    rows = ocp.Problem(walker(), 0.02, 3, [ocp.control()], contacts=contacts).horizon.costs.rows
    left, right = (row.part.matrix for row in rows if row.name.startswith("friction"))
    np.testing.assert_array_equal(left[:, :6], ocp.cone("all", 0.5, (0.1, 0.03), forward=(0.0, 1.0, 0.0)))
    np.testing.assert_array_equal(right[:, 6:], ocp.cone("all", 0.5, (0.1, 0.03)))
    with pytest.raises(UnknownNameError, match="toe"):
        ocp.Problem(walker(), 0.02, 3, [ocp.control()], contacts=ocp.Contacts(**feet, forward={"toe": (1.0, 0.0, 0.0)}))


@pytest.mark.parametrize(
    ("contacts", "message"),
    [
        ({"held": {"left_foot": np.ones(3, bool)}}, "left_foot.*booleans"),
        ({"held": {"left_foot": np.ones(7)}}, "left_foot.*booleans"),
        ({"held": ["left_foot"]}, "mapping"),
        ({"held": HELD, "rows": "heel"}, "rows of contact"),
        ({"held": HELD, "impact": np.ones(7, bool)}, "step 2 is an impact without"),
        ({"held": HELD, "impact": 3}, "impact of contacts"),
        ({"held": HELD, "damping": -1.0}, "damping"),
    ],
)
def test_contacts_that_make_no_sense(contacts: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ocp.Problem(walker(), 0.02, 7, [ocp.control()], contacts=ocp.Contacts(**contacts))


def test_feet_that_do_not_exist() -> None:
    with pytest.raises(UnknownNameError, match="left_toe"):
        ocp.Problem(walker(), 0.02, 7, [ocp.control()], contacts=ocp.Contacts({"left_toe": True}))
    with pytest.raises(InputError, match=r"'friction at left_foot' is about a foot, and the problem has none: pass"):
        ocp.Problem(walker(), 0.02, 7, [ocp.friction("left_foot", 0.7)])
    with pytest.raises(UnknownNameError, match=r"no foot .of term 'friction at left_toe'. is called 'left_toe'; did"):
        ocp.Problem(walker(), 0.02, 7, [ocp.friction("left_toe", 0.7)], contacts=ocp.Contacts(HELD))
    with pytest.raises(InputError, match="friction"):
        ocp.cone("position", 0.0)
