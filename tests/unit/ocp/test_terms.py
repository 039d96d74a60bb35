"""Terms, models and errors: derivatives on manifolds, steps of floating bases, own residuals, messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import ocp
from kinetree.errors import DifferencesWarning
from kinetree.ocp.costs import Bounds
from kinetree.ocp.horizon import Gap, Path
from kinetree.ocp.terms import CostTerm
from tests.mechanisms import gripper
from tests.tolerance import assert_close, bound
from tests.unit.ocp.cases import reach, swing_up

Array = np.ndarray[Any, np.dtype[Any]]


def every_term(robot: kt.Model, frame: str, target: Array) -> list[CostTerm]:
    return [
        ocp.state(weight=0.3, last=2.0), ocp.control(weight=0.2), ocp.pose(frame, target),
        ocp.orientation(frame, target, name="turn"), ocp.position(frame, target[:3, 3], name="point"),
        ocp.velocity(frame, np.arange(6.0)), ocp.center_of_mass(np.ones(3)),
        ocp.velocity(frame, reference="world", name="twist", nodes=[1, -1]), ocp.momentum(np.ones(6)),
    ]  # fmt: skip


ROBOTS = [
    (kt.zoo.arm7, "hand"),
    (lambda: flying(), "left_hand"),
    (lambda: kt.zoo.random_tree(9, seed=3, kinds=("spherical", "planar", "revolute", "prismatic")), None),
]


def drawn(make: Any, frame: str | None, seed: int = 0) -> tuple[kt.Model, str, Array, Array, Array, Array]:
    robot, rng = make(), np.random.default_rng(seed)
    frame = frame or robot.frames[-1]
    q, v, u = robot.random_configuration(rng), rng.normal(size=robot.nv), rng.normal(size=robot.nv)
    return robot, frame, q, v, u, robot.pose(robot.random_configuration(rng), frame)


@pytest.mark.parametrize(("make", "frame"), ROBOTS)
def test_derivatives_of_every_term(make: Any, frame: str | None) -> None:
    robot, frame, q, v, u, target = drawn(make, frame)
    problem = ocp.Problem(robot, 0.01, 3, every_term(robot, frame, target))
    errors = problem.check(q, v, u[problem.actuated])
    assert set(errors) == {term.name for term in problem.terms}
    assert max(errors.values()) < 1e-8


@pytest.mark.parametrize(("make", "frame"), ROBOTS)
def test_gradients_of_the_cost(make: Any, frame: str | None) -> None:
    """Along random tangents of all nodes, against central differences of the cost itself; and so Hessians' symmetry."""
    robot, frame, q, v, u, target = drawn(make, frame)
    problem, rng = ocp.Problem(robot, 0.01, 3, every_term(robot, frame, target)), np.random.default_rng(1)
    h, nv = problem.horizon, robot.nv
    x = Path(*(np.tile(each, (2, n, 1)) for each, n in ((q, 4), (v, 4), (u[problem.actuated], 3))))
    x = Path(robot.integrate(x.q, 0.1 * rng.normal(size=(2, 4, nv))), x.v + rng.normal(size=x.v.shape), x.u)
    aims = h.costs.given(h.costs.targets({}, (2,)), ())
    model, step = h.model(x, h.linear(x), aims), 1e-6
    way = [rng.normal(size=(2, 4, nv)), rng.normal(size=(2, 4, nv)), rng.normal(size=x.u.shape)]
    ends = []
    for s in (step, -step):
        y = Path(robot.integrate(x.q, s * way[0]), x.v + s * way[1], x.u + s * way[2])
        ends.append(h.trial(y, aims).cost)
    found = sum((a[:, : b.shape[1]] * b).sum(axis=(1, 2)) for a, b in zip(model[6:], way, strict=True))
    assert_close(found, (ends[0] - ends[1]) / (2.0 * step), 1e-7)
    for square in (model.qq, model.vv, model.uu):
        assert_close(square, np.swapaxes(square, -1, -2), bound(nv))


@pytest.mark.parametrize(("make", "frame"), [(kt.zoo.arm7, "hand"), (gripper, "tip")])
def test_curvature_makes_the_model_a_hessian(make: Any, frame: str) -> None:
    """Differences of the Lagrangian's gradient along tangents, of costs and dynamics; also with coupled joints."""
    robot, _, q, v, u, target = drawn(make, frame)
    problem, rng = reach(robot, frame, 3), np.random.default_rng(1)
    h, nv = problem.horizon, robot.nv
    aims = h.costs.given(h.costs.targets({frame: target}, (1,)), ())
    x = Path(*(np.tile(each, (1, n, 1)) + 0.1 * rng.normal(size=(1, n, nv)) for each, n in ((q, 4), (v, 4), (u, 3))))
    by_q, by_v = rng.normal(size=(2, 1, 3, nv))
    gap, plain = Gap(*np.zeros((2, 1, 3, nv))), h.model(x, h.linear(x), aims)
    linear, exact = h.models(x, gap, aims, [by_q, by_v], np.ones(1))
    _, half = h.models(x, gap, aims, [by_q, by_v], np.full(1, 0.5))
    for one, other, middle in zip(plain, exact, half, strict=True):
        assert_close(middle, 0.5 * (one + other), bound(nv))
    assert h.fuses(True) == (make is kt.zoo.arm7)  # of coupled joints, curvature is by differences
    if h.fuses(True):
        fused, _, _ = h.direction(x, gap, aims, np.full(1, 1e3), [by_q, by_v], np.ones(1))
        assert fused.pivot > 0.0
        for one, other in zip(fused, h.gains(linear, gap, exact, np.full(1, 1e3))[0], strict=True):
            np.testing.assert_array_equal(one, other)

    def slopes(x: Path) -> list[Array]:
        model = h.model(x, h.linear(x), aims)
        A, B = robot.discretize(x.q[:, :-1], x.v[:, :-1], x.u, problem.dt[0])
        w = np.concatenate([by_q, by_v], axis=-1)
        state, drive = np.einsum("nti,ntij->ntj", w, A), np.einsum("nti,ntij->ntj", w, B)
        return [model.q[:, :3] + state[..., :nv], model.v[:, :3] + state[..., nv:], model.u[:, :3] + drive]

    step, way = 1e-6, [rng.normal(size=(1, 3, nv)) for _ in range(3)]
    ends = []
    for s in (step, -step):
        moved = [each.copy() for each in x[:3]]
        for each, along in zip(moved, way, strict=True):
            each[:, :3] += s * along
        ends.append(slopes(Path(*moved)))
    wanted = [(a - b) / (2.0 * step) for a, b in zip(*ends, strict=True)]
    q_way, v_way, u_way = way
    qq, qv, vv, uq, uv, uu = (each[:, :3] for each in exact[:6])
    times, back = "ntij,ntj->nti", "ntji,ntj->nti"
    found = [
        np.einsum(times, qq, q_way) + np.einsum(times, qv, v_way) + np.einsum(back, uq, u_way),
        np.einsum(back, qv, q_way) + np.einsum(times, vv, v_way) + np.einsum(back, uv, u_way),
        np.einsum(times, uq, q_way) + np.einsum(times, uv, v_way) + np.einsum(times, uu, u_way),
    ]
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other, 1e-6)


@pytest.mark.parametrize(("make", "frame"), ROBOTS)
def test_sweeps_linearise_steps_as_discretize_does(make: Any, frame: str | None) -> None:
    """A step of the forward sweep without gains, about a path without gaps, is that of A."""
    robot, _, q, v, u, _ = drawn(make, frame)
    problem = ocp.Problem(robot, 0.02, 1, [ocp.state(), ocp.control()])
    h, nv = problem.horizon, robot.nv
    x = Path(np.tile(q, (1, 2, 1)), np.tile(v, (1, 2, 1)), u[None, None, problem.actuated])
    linear, model = h.linear(x), h.model(x, h.linear(x), h.costs.given(h.costs.targets({}, (1,)), ()))
    A, B = robot.discretize(q, v, h.tau(x.u)[0, 0], 0.02)
    gap = h.reached(x)[1]
    gains, later = h.gains(linear, gap, model, np.zeros(1))
    step = h.step(linear, gap, model, gains, later, np.zeros(1))
    wanted = B[:, problem.actuated] @ step.u[0, 0] + np.concatenate([gap.q, gap.v], axis=-1)[0, 0]
    assert_close(np.concatenate([step.q[0, 1], step.v[0, 1]]), wanted, bound(6 * nv, 1e4))
    # and the first costate that follows is the gradient at the first node
    last = np.concatenate([model.q[0, 1], model.v[0, 1]])
    P = np.block([[model.qq[0, 1], model.qv[0, 1]], [model.qv[0, 1].T, model.vv[0, 1]]])
    assert_close(np.concatenate([step.costate_q[0, 0], step.costate_v[0, 0]]), last + P @ wanted, bound(6 * nv, 1e4))
    assert A.shape == (2 * nv, 2 * nv)


def flying() -> kt.Model:
    """A floating base with two arms of two joints."""
    builder = kt.Builder("flying")
    body = {"mass": 1.0, "com": (0.1, 0.0, 0.0), "inertia": 0.01 * np.eye(3)}
    builder.add_body("base", joint="floating", mass=3.0, com=(0, 0, 0), inertia=0.05 * np.eye(3))
    for side, y in (("left", 0.2), ("right", -0.2)):
        shoulder = (np.eye(3), (0.0, y, 0.0))
        builder.add_body(f"{side}_arm", parent="base", joint="revolute", axis=(0, 0, 1), placement=shoulder, **body)
        elbow = (np.eye(3), (0.2, 0.0, 0.0))
        builder.add_body(
            f"{side}_hand", parent=f"{side}_arm", joint="revolute", axis=(0, 1, 0), placement=elbow, **body
        )
    return builder.build()


def test_floating_bases_are_not_driven_and_converge() -> None:
    """In free fall, a robot turns its hand by its arms alone."""
    robot = flying()
    q = robot.neutral()
    target = robot.pose(robot.integrate(q, np.r_[0.2, 0.3, -0.2, np.zeros(3), 0.4, 0.3, 0.0, 0.0]), "left_hand")
    terms = [ocp.orientation("left_hand", last=100.0, weight=0.1), ocp.state(q, weight=0.1), ocp.control(weight=1e-3)]
    problem = ocp.Problem(robot, 0.02, 30, terms)
    plan = problem.solve(q, targets={"left_hand": target}).require()
    assert plan.u.shape == (30, 4)
    assert np.all(plan.tau[:, :6] == 0.0)
    assert plan.gap < 1e-6
    assert plan.costs["left_hand"] < 0.1
    assert plan.table["curvature"][-1] == 1.0
    np.testing.assert_array_less(np.abs(plan.q[:, 3:] ** 2 @ np.r_[np.ones(4), np.zeros(4)] - 1.0), 1e-12)


def test_flexible_bodies_have_no_motors() -> None:
    builder = kt.Builder("boom")
    builder.add_flexible("boom", kt.Beam(1.0, 50.0, 0.8, modes=1, planes="z"), joint="revolute", axis=(0, 1, 0))
    builder.add_body("tool", parent="boom/tip", axis=(0, 1, 0), mass=0.2, com=(0.1, 0, 0), inertia=1e-3 * np.eye(3))
    robot = builder.build()
    problem = ocp.Problem(robot, 0.01, 2, [ocp.control()])
    assert [joint.name for joint in robot.joints if joint.v_start in problem.actuated] == ["boom_joint", "tool_joint"]
    assert len(ocp.Problem(robot, 0.01, 2, [ocp.control()], actuated=["boom"]).actuated) == 1


def test_terms_of_your_own() -> None:
    """With derivatives, by differences, and within an interval: the same as built in, or zero inside."""
    problem, rest = swing_up("cart_pole", 60, None)
    robot, top = problem.robot, problem.terms[0].target(problem.robot, None)

    def residual(q: Array, v: Array, u: Array) -> Array:
        del u
        return np.concatenate([q - top[:2], v], axis=-1)

    def exact(q: Array, v: Array, u: Array) -> tuple[Array, Array, Array]:
        shape = q.shape[:-1]
        return residual(q, v, u), np.broadcast_to(np.eye(4), (*shape, 4, 4)), np.zeros((*shape, 4, u.shape[-1]))

    weight = {"weight": 0.0, "last": [100.0, 100.0, 10.0, 10.0]}
    costs = [problem.solve(rest).require().cost]
    own = ocp.Problem(robot, 0.02, 60, [ocp.Term(exact, 4, **weight, name="own"), ocp.control(weight=1e-3)])
    costs.append(own.solve(rest).require().cost)
    assert own.check(rest, np.ones(2), np.ones(2))["own"] < 1e-8
    lazy = ocp.Problem(robot, 0.02, 60, [ocp.Term(residual, 4, **weight), ocp.control(weight=1e-3)])
    with pytest.warns(DifferencesWarning, match="'term' has no derivatives"):
        costs.append(lazy.solve(rest).require().cost)
    assert_close(np.array(costs[1:]), np.full(2, costs[0]), 1e-7)
    wide = ocp.Term(exact, 4, weight=1.0, lower=-10.0, upper=10.0, name="own")
    plan = ocp.Problem(robot, 0.02, 60, [wide, ocp.control()]).solve(rest).require()
    assert plan.costs["own"] == 0.0
    assert np.abs(plan.u).max() < 1e-9


def test_roll_outs_keep_the_rest_of_gaps() -> None:
    robot, _, q, v, u, target = drawn(kt.zoo.arm7, "hand")
    problem, rng = reach(robot, "hand", 6), np.random.default_rng(1)
    h = problem.horizon
    x = Path(*(np.tile(each, (1, n, 1)) + 0.1 * rng.normal(size=(1, n, 7)) for each, n in ((q, 7), (v, 7), (u, 6))))
    gap, linear, model = (
        h.reached(x)[1],
        h.linear(x),
        h.model(x, h.linear(x), h.costs.given(h.costs.targets({"hand": target}, (1,)), ())),
    )
    gains, _ = h.gains(linear, gap, model, np.ones(1))
    left = h.reached(h.rolled(x, gap, gains, np.full(1, 0.3)))[1]
    assert_close(left.q, 0.7 * gap.q, bound(60, 1e3))
    assert_close(left.v, 0.7 * gap.v, bound(60, 1e3))


def test_terms_are_in_force_at_their_nodes_only() -> None:
    problem = ocp.Problem(kt.zoo.arm7(), 0.5, 3, [ocp.state(weight=2.0, last=5.0, nodes=[1, -1]), ocp.control()])
    wanted = np.array([0.0, 1.0, 0.0, 5.0])
    rows = problem.horizon.costs.rows
    np.testing.assert_array_equal(rows[0].weight, np.repeat(wanted[:, None], 7, axis=1))
    np.testing.assert_array_equal(rows[2].weight, np.repeat([[0.5], [0.5], [0.5], [0.0]], 7, axis=1))


@pytest.mark.parametrize(("term", "size"), [(ocp.velocity("hand"), 6), (ocp.momentum(), 6), (ocp.force("hand"), 1)])
def test_targets_are_zero_by_default(term: CostTerm, size: int) -> None:
    np.testing.assert_array_equal(term.target(kt.zoo.arm7(), None), np.zeros(size))


def test_derivatives_that_are_not_finite_end_their_problem() -> None:
    def broken(q: Array, v: Array, u: Array) -> tuple[Array, Array, Array]:
        rows = np.zeros((*q.shape, 2 * v.shape[-1]))
        return q, np.where(q[..., None, :1] > 1.0, np.nan, rows), np.zeros((*q.shape, u.shape[-1]))

    problem = ocp.Problem(kt.zoo.arm7(), 0.02, 3, [ocp.Term(broken, 7), ocp.control()])
    plan = problem.solve(np.stack([np.zeros(7), np.full(7, 2.0)]))
    assert plan.reason.tolist() == ["converged", "not finite"]


def test_curvature_of_poses_is_that_of_differences() -> None:
    """On a branching robot of revolute and prismatic joints, hard rows included."""
    robot, frame, q, v, u, target = drawn(
        lambda: kt.zoo.random_tree(9, seed=5, kinds=("revolute", "prismatic", "revolute")), None
    )
    terms = [
        ocp.pose(frame, target, weight=np.arange(1.0, 7.0)), ocp.orientation(frame, target, name="turn"),
        ocp.position(frame, target[:3, 3], name="point", hard=True), ocp.center_of_mass(np.ones(3)),
    ]  # fmt: skip
    h = ocp.Problem(robot, 0.01, 2, terms).horizon
    costs = h.costs
    y = np.random.default_rng(2).normal(size=(1, 3, 3))
    given = costs.given(costs.targets({}, (1,)), [Bounds(costs.rows[2], y, np.full_like(y, 2.0), y)])
    x = Path(*(np.tile(each, (1, n, 1)) for each, n in ((q, 3), (v, 3), (u, 2))))
    none, plain = np.zeros((2, 1, 2, 9)), h.model(x, h.linear(x), given)
    exact = h.models(x, Gap(*none), given, none, np.ones(1))[1].qq - plain.qq
    costs.rows = [row._replace(part=row.part._replace(bend=None)) for row in costs.rows]
    assert_close(exact, costs.bend(x, given), 1e-8)
    assert np.abs(exact).max() > 0.1


def test_curvature_of_states_is_that_of_differences() -> None:
    """Where coordinates are no numbers, by itself."""
    robot, _, q, v, u, _ = drawn(lambda: kt.zoo.random_tree(4, seed=2, kinds=("floating", "spherical", "planar")), None)
    aim = robot.random_configuration(np.random.default_rng(1))
    terms = [ocp.state(aim, weight=np.arange(1.0, 2 * robot.nv + 1)), ocp.control()]
    h = ocp.Problem(robot, 0.01, 1, terms, actuated=[joint.name for joint in robot.joints]).horizon
    given, costs = h.costs.given(h.costs.targets({}, (1,)), []), h.costs
    x = Path(*(np.tile(each, (1, n, 1)) for each, n in ((q, 2), (v, 2), (u, 1))))
    none, plain = np.zeros((2, 1, 1, robot.nv)), h.model(x, h.linear(x), given)
    exact = h.models(x, Gap(*none), given, none, np.ones(1))[1].qq - plain.qq
    assert h.fuses(True)
    costs.rows = [row._replace(part=row.part._replace(bend=None)) for row in costs.rows]
    assert_close(exact, costs.bend(x, given), 1e-8)
    assert np.abs(exact).max() > 0.1


def test_curvature_of_states_and_steps_where_coordinates_are_no_numbers() -> None:
    """Second derivatives in exponential coordinates about a node, by differences of residuals and steps themselves."""
    robot, _, q, v, u, _ = drawn(lambda: kt.zoo.random_tree(4, seed=2, kinds=("floating", "spherical", "planar")), None)
    nv, dt, rng = robot.nv, 0.02, np.random.default_rng(3)
    aim, weight = robot.random_configuration(rng), rng.uniform(1.0, 2.0, size=nv)
    terms = [ocp.state(aim, weight=[*weight, *np.zeros(nv)]), ocp.control()]
    h = ocp.Problem(robot, dt, 1, terms, actuated=[joint.name for joint in robot.joints]).horizon
    v, u = 0.1 * v, robot.inverse_dynamics(q, 0.1 * v, u)  # what is left out grows with v′
    after, rate = robot.step(q, v, u, dt)
    costate = rng.normal(size=(2, 1, 1, nv)) * np.array([10.0, 1.0])[:, None, None, None]
    x = Path(np.stack([q, after])[None], np.stack([v, rate])[None], u[None, None])
    given = h.costs.given(h.costs.targets({}, (1,)), [])
    gap = Gap(*np.zeros((2, 1, 1, nv)))
    plain, curved = (h.models(x, gap, given, costate, np.full(1, share))[1] for share in (0.0, 1.0))
    qq, qv, vv, uq, uv = ((b - a)[0, 0] for a, b in zip(plain[:5], curved[:5], strict=True))
    found = np.block([[qq, qv, uq.T], [qv.T, vv, uv.T], [uq, uv, 0.0 * qq]])
    there = robot.difference(aim, q)

    def value(z: Array) -> Any:
        """What has no more than the curvature that is left out of `plain`."""
        at = robot.integrate(np.broadcast_to(q, (*z.shape[:-1], robot.nq)), z[..., :nv])
        to, speed = robot.step(at, v + z[..., nv : 2 * nv], u + z[..., 2 * nv :], dt)
        ahead = robot.difference(np.broadcast_to(after, to.shape), to)
        away = robot.difference(np.broadcast_to(aim, at.shape), at)
        return ahead @ costate[0, 0, 0] + speed @ costate[1, 0, 0] + dt * (away @ (weight * there))

    step = 1e-4 * np.eye(3 * nv)
    one, other = step[:, None] + step, step[:, None] - step
    wanted = (value(one) - value(other) - value(-other) + value(-one)) / 4e-8
    own = [slice(i * nv, (i + 1) * nv) for i in range(3)]
    for i, j in ((0, 0), (0, 1), (1, 1), (2, 0)):
        one, other = found[own[i], own[j]], wanted[own[i], own[j]]
        assert np.abs(one - other).max() < 1e-2 * np.abs(other).max()


@pytest.mark.parametrize(("make", "frame"), ROBOTS)
def test_steps_close_gaps_at_the_rate_they_promise(make: Any, frame: str | None) -> None:
    """d gap / ds = −gap along a step, also where large gaps turn the tangents of joints that are not numbers."""
    robot, _, q, v, u, _ = drawn(make, frame)
    problem, rng = ocp.Problem(robot, 0.05, 3, [ocp.state(), ocp.control()]), np.random.default_rng(1)
    h, nv = problem.horizon, robot.nv
    x = Path(*(np.tile(each, (1, n, 1)) for each, n in ((q, 4), (v, 4), (u[problem.actuated], 3))))
    x = Path(robot.integrate(x.q, 0.7 * rng.normal(size=(1, 4, nv))), x.v + rng.normal(size=x.v.shape), x.u)
    gap = h.reached(x)[1]
    linear = h.linear(x, gap)
    model = h.model(x, linear, h.costs.given(h.costs.targets({}, (1,)), ()))
    gains, later = h.gains(linear, gap, model, np.ones(1))
    step = h.step(linear, gap, model, gains, later, np.ones(1))
    ends = [h.reached(h.moved(x, step, np.full(1, s)))[1] for s in (1e-6, -1e-6)]
    for one, other, now in zip(*ends, gap, strict=True):
        assert_close((one - other) / 2e-6, -now, 1e-6)
