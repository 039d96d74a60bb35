"""Derivatives of constrained dynamics: complex steps through the dense system, laws, redundant rows, batches."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError
from kinetree.runtime.texts import Execution, Samples
from tests.laws import test_general_nodes as nodes
from tests.laws.cases import H, configuration_rate, model
from tests.laws.test_constraints import CONSTRAINTS, COUPLINGS, SOLID, drawn, follower, mixed, pair, states
from tests.tolerance import Array, assert_close, peak, refused, solving_bound
from tests.trees import serial


class Held(NamedTuple):
    """Constraints, and a state off the held pose that violates them."""

    held: Any
    q: Array
    v: Array
    tau: Array
    step: Callable[[Array], Array]  # of q along a tangent, complex


def _hinge(side: float) -> tuple[kt.Model, list[Any], Array]:
    """A chain whose end is on a hinge of the world, whose axis points to one side or to the other."""
    solid = {**SOLID, "placement": (np.eye(3), (0.2, 0.1, 0.05))}
    built = serial(({**solid, "axis": np.roll((0.0, 0.6, 0.8), i)} for i in range(7)), "link")
    q = np.linspace(-0.4, 0.6, 7)
    end = built.build().pose(q, "link6")
    built.add_frame("pin", placement=(end[:3, :3] @ np.diag([1.0, side, side]), end[:3, 3]))
    tree = built.hinge("link6", "pin").build(loops="multipliers")
    return tree, list(tree.equalities), q


def _loop() -> tuple[kt.Model, list[Any], Array]:
    """A chain with a ball joint between its last body and its second one, by multipliers."""
    solid = {**SOLID, "placement": (np.eye(3), (0.2, 0.1, 0.05))}
    built = serial(({**solid, "axis": np.roll((0.0, 0.6, 0.8), i)} for i in range(7)), "link")
    built.add_frame("eye", body="link6", placement=(np.eye(3), (0.1, 0.2, -0.1)))
    built.add_frame("hook", body="link1", placement=(np.eye(3), (0.3, -0.1, 0.2)))
    tree = built.connect("eye", "hook").build(loops="multipliers")
    return tree, list(tree.equalities), np.linspace(-0.4, 0.6, 7)


LEGGED = ["b5", kt.Weld("b12", "b7", (0, 4)), kt.Task("b9", "position", (0.1, 0.2, -0.1))]
TREES: dict[str, Callable[[], tuple[kt.Model, list[Any], Array]]] = {
    **{
        case: lambda case=case: (model("humanoid24"), CONSTRAINTS["humanoid24"][case], None)
        for case in CONSTRAINTS["humanoid24"]
    },
    "parts of rows": lambda: (
        model("humanoid24"),
        [kt.Weld("left_foot", rows=(0, 5)), kt.RelativeTask("left_hand", "right_foot", (0, 1, 4))],
        None,
    ),
    "all kinds": lambda: (mixed()[0], [x for i, x in enumerate(mixed()[2]) if i != 3], None),
    "hinge": lambda: _hinge(1.0),
    "hinge upside down": lambda: _hinge(-1.0),
    "loop": _loop,
    **{name: lambda name=name: (follower(), [COUPLINGS[name]], None) for name in COUPLINGS},
}


def _on_nodes(name: str) -> Held:
    robot, (q, v, _, tau, *_) = nodes.robot(name), nodes.state(name)
    rows: list[Any] = [
        kt.Weld(nodes.TOOL, rows=(0, 3, 4, 5)),
        kt.Weld("elbow", nodes.TOOL, (1, 5)),
        kt.Distance("base", "wrist", 0.5),
    ]
    if name == "couplings":
        rows = [kt.Weld("ball", nodes.TOOL, (3,)), kt.LinearCoupling(("index_joint", "near_joint"), (1.0, 2.0))]
    if name == "bars":  # between a node's own bodies, of which none moves with both
        rows = [kt.Weld(nodes.TOOL, rows=(1, 5)), kt.Weld("rocker", nodes.TOOL, (3,))]
    held = robot.constraints(rows, at=nodes.stepped(name, np.zeros(robot.nv)).real)
    return Held(held, q, v, tau, lambda d: nodes.stepped(name, d))


def case(name: str) -> Held:
    if name in nodes.MOVING:
        return _on_nodes(name)
    robot, rows, at = TREES[name]()
    rng = np.random.default_rng(5)
    at = robot.random_configuration(rng) if at is None else at
    v, tau, away = rng.normal(size=(3, robot.nv))
    q = robot.integrate(at, 0.1 * away)
    held = robot.constraints(rows, at=at)
    return Held(held, q, v, tau, lambda d: q + 1j * H * configuration_rate(robot, q, d))


def solved(held: Any, q: Array, v: Array, tau: Array, wanted: Array, gains: Array, f_ext: Any = None) -> Array:
    """a and λ of the dense system, whose parts the reference engine computes from complex numbers."""
    robot, run = held.robot, Execution((), "reference")
    J, drift = (x.array for x in held._motion(run, Samples(q), Samples(v)))
    error = held._error(run, Samples(q)).array
    M = robot.mass_matrix.engine("reference")(q)
    bias = robot.inverse_dynamics.engine("reference")(q, v, np.zeros(robot.nv), f_ext=f_ext)
    known = wanted - drift - gains[:, 0] * error - gains[:, 1] * (J @ v)
    K = np.block([[M, -J.T], [J, np.zeros((held.rows, held.rows))]])
    return np.linalg.solve(K, np.concatenate([tau - bias, known]))


def condition_of(of: Held) -> float:
    """Derivatives solve twice with M and with Λ⁻¹."""
    return 10.0 * solving_bound(of.held.robot, of.q, of.held.jacobian(of.q))


@pytest.mark.parametrize("stabilized", [False, True])
@pytest.mark.parametrize("name", [*TREES, *nodes.MOVING])
def test_complex_steps(name: str, stabilized: bool) -> None:
    """Matrices, jvp and vjp of rows of every kind on nodes of every kind, off the pose and in motion."""
    of, rng = case(name), np.random.default_rng(6)
    held, robot, c = of.held, of.held.robot, of.held.rows
    wanted, gains = rng.normal(size=c), rng.uniform(1.0, 3.0, (c, 2)) if stabilized else np.zeros((c, 2))
    options: dict[str, Any] = {"wanted": wanted, "stabilization": gains if stabilized else None}
    if name in ("foot and hands", "beams"):
        frame = "right_hand" if name == "foot and hands" else "elbow"
        options["f_ext"] = {frame: rng.normal(size=6)}
    state = of.q, of.v, of.tau
    found = held.linearize(*state, **options)
    exact = solved(held, *state, wanted, gains, options.get("f_ext"))
    assert_close(np.concatenate([found.acceleration, found.forces]), exact, condition_of(of))
    assert found.rank == c
    above, below = ([part[i] for i in range(4)] for part in (found, found[4:]))
    tolerance = max(condition_of(of), 1e-11)
    for part in range(4):
        d = [rng.normal(size=size) * (i == part) for i, size in enumerate([robot.nv] * 3 + [c])]
        moved = of.step(d[0]), of.v + 1j * H * d[1], of.tau + 1j * H * d[2], wanted + 1j * H * d[3]
        expected = np.imag(solved(held, *moved, gains, options.get("f_ext"))) / H
        matrices = np.concatenate([above[part] @ d[part], below[part] @ d[part]])
        assert_close(matrices, expected, tolerance)
        change = held.forward_dynamics.jvp(*state, *d, **options)
        assert_close(np.concatenate(change), expected, tolerance)
        w = rng.normal(size=robot.nv + c)
        gradients = held.forward_dynamics.vjp(*state, w[: robot.nv], w[robot.nv :], **options)
        assert_close(gradients[part] @ d[part], w @ expected, tolerance, float(np.abs(w) @ np.abs(expected)))


#: A step of fourth-order differences, and their weights.
STEP, STENCIL = 1e-4, np.array([1.0, -8.0, 8.0, -1.0]) / 12e-4


@pytest.mark.parametrize("name", [*TREES, *nodes.MOVING])
def test_second_derivatives(name: str) -> None:
    """`hvp` is the change of `vjp`, and is symmetric in all but q, for which it is along a bracket of tangents."""
    of, rng = case(name), np.random.default_rng(7)
    held, robot, c, n = of.held, of.held.robot, of.held.rows, of.held.robot.nv
    w, y, wanted, gains = rng.normal(size=n), rng.normal(size=c), rng.normal(size=c), rng.uniform(1.0, 3.0, (c, 2))
    options: dict[str, Any] = {"stabilization": gains}
    if name in ("foot and hands", "beams"):
        options["f_ext"] = {"right_hand" if name == "foot and hands" else "elbow": rng.normal(size=6)}
    d, e = ([rng.normal(size=size) for size in (n, n, n, c)] for _ in range(2))

    def gradients(t: float) -> Any:
        moved = robot.integrate(of.q, t * d[0]), of.v + t * d[1], of.tau + t * d[2]
        return held.forward_dynamics.vjp(*moved, w, y, wanted=wanted + t * d[3], **options)

    hvp, state = held.forward_dynamics.hvp, (of.q, of.v, of.tau, w)
    found = hvp(*state, *d, force_weights=y, wanted=wanted, **options)
    ends = [gradients(s * STEP) for s in (-2.0, -1.0, 1.0, 2.0)]
    for i, one in enumerate(found):
        expected = sum(weight * end[i] for weight, end in zip(STENCIL, ends, strict=True))
        assert_close(one, expected, 1e-7)
    along, other = ([0.0 * one[0], *one[1:]] for one in (d, e))
    ours, theirs = (hvp(*state, *one, force_weights=y, wanted=wanted, **options) for one in (along, other))
    left, right = (np.concatenate(x[1:]) for x in (ours, theirs))
    sizes = float(np.abs(left) @ np.abs(np.concatenate(e[1:])))
    assert_close(left @ np.concatenate(e[1:]), right @ np.concatenate(d[1:]), max(condition_of(of), 1e-11), sizes)


def test_results_in_arrays_of_the_user() -> None:
    """With `out`, also where it overlaps inputs and where samples are doubtful."""
    robot = model("humanoid24")
    q, v, tau = drawn(robot, 8, (5,))
    held = robot.constraints([*CONSTRAINTS["humanoid24"]["foot"], kt.Weld("left_hand", "right_hand")])
    doubtful = robot.constraints(["left_foot", kt.Task("left_foot", "position", (0.1, 0.0, 0.0))])
    w = np.ones(robot.nv)
    for one in (held, doubtful):
        fd = one.forward_dynamics
        calls: list[tuple[Callable[..., Any], int]] = [
            (fd, 0), (one.linearize, 0), (one.parameter_derivative, 0), (fd.jvp, 3), (fd.vjp, 1), (fd.hvp, 4)
        ]  # fmt: skip
        for call, more in calls:
            for state in ((q, v, tau), (q[0], v[0], tau[0])):
                state = *state, *([w] * more)
                expected = call(*state)
                out = type(expected)(*(np.zeros_like(x) for x in expected))
                found = call(*state, out=out)
                assert all(x is y for x, y in zip(found, out, strict=True))
                assert all(np.array_equal(x, y) for x, y in zip(found, expected, strict=True))
        expected, place = fd(q, v, tau), tau.copy()
        fd(q, v, place, out=(place, np.zeros_like(expected.forces)))
        assert np.array_equal(place, expected.acceleration)
    refused("out= takes a tuple of 2 arrays: a, force", held.forward_dynamics, q, v, tau, out=np.zeros(3))


@pytest.mark.parametrize("rows", ["regular", "near"])
def test_populations(rows: str) -> None:
    """Each sample has the dynamics, derivatives and projections of a robot with its masses."""
    robot, rng = model("legged"), np.random.default_rng(4)
    q, v, tau = drawn(robot, 5, (3,))
    held = [kt.Weld(frame, rows="position") for frame in ("tip0", "tip1")]
    held += [] if rows == "regular" else [kt.Distance("link4", "link8", 0.4)]
    theta = robot.inertial_parameters * rng.uniform(0.8, 1.2, (3, len(robot.bodies), 1))
    several = robot.population(theta).constraints(held, at=q[0])
    several = pickle.loads(pickle.dumps(several))
    w = rng.normal(size=(4, robot.nv))
    push = {"link8": rng.normal(size=6)}

    def results(of: Any, *state: Array) -> list[Any]:
        fd = of.forward_dynamics
        return [
            *fd(*state), *fd(*state, f_ext=push), *of.linearize(*state, f_ext=push), *fd.jvp(*state, *w[:3]),
            *fd.vjp(*state, w[0]), *fd.hvp(*state, *w), *of.parameter_derivative(*state), *of.project(*state[:2]),
        ]  # fmt: skip

    found = results(several, q, v, tau)
    for i in range(3):
        alone = robot.with_inertial_parameters(theta[i]).constraints(held, at=q[0])
        close = 1e3 * solving_bound(robot, q[i], alone.jacobian(q[i]))
        for one, expected in zip(found, results(alone, q[i], v[i], tau[i]), strict=True):
            assert_close(one[i], expected, close)


@pytest.mark.parametrize("name", ["foot and hands", "all kinds", "loop", "nodes"])
def test_laws(name: str) -> None:
    """P Jᵀ = 0 and P = Pᵀ; rows accelerate as wanted, whatever the state; a is J̄'s on rows; bits of calls agree."""
    of = case(name)
    held, q = of.held, of.q
    found, J, close = held.linearize(*of[1:4]), held.jacobian(q), condition_of(of)
    assert_close(J @ found.dtau, np.zeros_like(J), close, peak(J) * peak(found.dtau))
    assert_close(found.dtau, found.dtau.T, close)
    assert_close(J @ found.dwanted, np.eye(held.rows), close, peak(J) * peak(found.dwanted))
    assert_close(found.forces_dtau, -found.dwanted.T, close)
    assert_close(found.forces_dwanted, found.forces_dwanted.T, close)
    a, force = held.forward_dynamics(*of[1:4])
    assert_close(found.acceleration, a, close)
    assert_close(found.forces, force, close)


def test_rows_that_depend_on_each_other() -> None:
    """At rest every configuration satisfies the rows: ∂a is that of independent ones, and Jᵀ∂λ follows from it."""
    robot = model("humanoid24")
    q, _, tau = drawn(robot, 3)
    v = np.zeros(robot.nv)
    twice = ["left_foot", kt.Task("left_foot", "position", (0.1, 0.0, 0.0)), kt.Weld("left_hand", "right_hand")]
    once, all_rows = robot.constraints([twice[0], twice[2]]), robot.constraints(twice)
    expected, found = once.linearize(q, v, tau), all_rows.linearize(q, v, tau)
    close = 100.0 * solving_bound(robot, q, once.jacobian(q))
    assert (int(expected.rank), int(found.rank), all_rows.rows) == (12, 12, 15)
    assert_close(found.dq, expected.dq, close)
    assert_close(found.dtau, expected.dtau, close)
    d = np.random.default_rng(1).normal(size=(3, robot.nv))
    change = all_rows.forward_dynamics.jvp(q, v, tau, *d)
    assert_close(change.acceleration, found.dq @ d[0] + found.dv @ d[1] + found.dtau @ d[2], close)
    gradients = all_rows.forward_dynamics.vjp(q, v, tau, d[0])
    assert_close(gradients.dq, found.dq.T @ d[0], close)
    # along changes that keep all rows at rest
    wide = 100.0 * close
    curved, flat = (of.forward_dynamics.hvp(q, v, tau, d[0], d[1], v, d[2]) for of in (all_rows, once))
    assert_close(curved.dq, flat.dq, wide)
    assert_close(curved.dtau, flat.dtau, wide)


def test_redundant_loops() -> None:
    """Along motions of the mechanism, ∂a of rows that are redundant there is that of the robot that embeds them."""
    robot, tree = pair()
    held, (q, v, tau, _) = tree.constraints(tree.equalities), states(1)
    q, v, tau, h = q[0], v[0], tau[0], 1e-5
    rng = np.random.default_rng(3)
    start = robot.integrate(robot.neutral(), rng.uniform(-0.3, 0.3, robot.nv))
    speed, along, faster = rng.normal(size=(3, robot.nv))

    def at(t: float) -> tuple[Array, Array]:
        there = robot.integrate(start, t * along)
        return robot.to_tree(there), robot.joint_rates(there, speed + t * faster)[robot.tree_order]

    (q, v), ends = at(0.0), [at(t) for t in (-2 * h, -h, h, 2 * h)]
    weights = np.array([1.0, -8.0, 8.0, -1.0]) / (12.0 * h)
    dq, dv = (sum(w * end[i] for w, end in zip(weights, ends)) for i in range(2))
    expected = sum(w * held.forward_dynamics(*end, tau).acceleration for w, end in zip(weights, ends))
    found = held.linearize(q, v, tau)
    assert found.rank < held.rows
    assert_close(found.dq @ dq + found.dv @ dv, expected, 1e-7)
    assert_close(held.forward_dynamics.jvp(q, v, tau, dq, dv, 0 * dv).acceleration, expected, 1e-7)


def test_inertial_parameters() -> None:
    of, h = case("foot and hands"), 1e-3
    held, robot, state = of.held, of.held.robot, (of.q, of.v, of.tau)
    found = held.parameter_derivative(*state)
    theta, change = robot.inertial_parameters, np.random.default_rng(2).uniform(0.0, 0.01, (len(robot.bodies), 10))
    change *= np.abs(robot.inertial_parameters)
    ends = [
        robot.with_inertial_parameters(theta + sign * h * change).constraints(held.constraints, at=held._at)
        for sign in (1.0, -1.0)
    ]
    up, down = (end.forward_dynamics(*state) for end in ends)
    for one, plus, minus in zip(found, up, down, strict=True):
        assert_close(np.tensordot(one, change, 2), (plus - minus) / (2.0 * h), 1e-6)


def test_gains() -> None:
    """a and λ are affine in the gains."""
    of = case("all kinds")
    held, state, rng = of.held, (of.q, of.v, of.tau), np.random.default_rng(2)
    gains, change = rng.uniform(1.0, 3.0, (2, held.rows, 2))
    found = held.gain_derivative(*state, gains)
    before, after = (held.forward_dynamics(*state, stabilization=x) for x in (gains, gains + change))
    for one, plus, minus in zip(found, after, before, strict=True):
        assert_close(np.tensordot(one, change, 2), plus - minus, condition_of(of))


@pytest.mark.parametrize("name", ["foot and hands", "all kinds", "twice"])
def test_bits_do_not_depend_on_the_batch_and_nan_stays_alone(name: str) -> None:
    robot = model("humanoid24")
    q, v, tau = drawn(robot, 8, (7,))
    rows = {"twice": ["left_foot", kt.Task("left_foot", "position", (0.1, 0.0, 0.0))], "all kinds": mixed()[2]}
    held = robot.constraints(rows.get(name) or CONSTRAINTS["humanoid24"][name], at=q[0])
    w, gains = np.ones(robot.nv), np.full((held.rows, 2), 2.0)
    functions: list[Callable[..., Any]] = [
        lambda *s: held.linearize(*s, stabilization=gains),
        lambda *s: held.forward_dynamics.jvp(*s, w, w, w),
        lambda *s: held.forward_dynamics.vjp(*s, w),
        lambda *s: held.forward_dynamics.hvp(*s, w, w, w, w),
        held.parameter_derivative,
    ]
    broken = tau.copy()
    broken[3, 2] = np.nan
    for function in functions:
        together, hurt = function(q, v, tau), function(q, v, broken)
        for i in range(7):
            for one, every, damaged in zip(function(q[i], v[i], tau[i]), together, hurt, strict=True):
                assert np.array_equal(one, every[i])
                assert i == 3 or np.array_equal(every[i], damaged[i])


def test_function_objects() -> None:
    held = case("foot").held
    q, v, tau = case("foot")[1:4]
    again = pickle.loads(pickle.dumps(held.forward_dynamics))
    assert np.array_equal(again(q, v, tau).forces, held.forward_dynamics(q, v, tau).forces)
    assert "forward_dynamics" in repr(held.forward_dynamics)
    assert isinstance(held.linearize(q, v, tau), kt.LinearizedConstrained)
    assert isinstance(held.forward_dynamics.vjp(q, v, tau, v), kt.ConstrainedGradients)
    assert isinstance(held.forward_dynamics.jvp(q, v, tau, v, v, v), kt.ConstrainedDynamics)
    unknown = held.robot.constraints(held.constraints)
    refused(r"make them with robot.constraints\(…, at=q\)", unknown.linearize, q, v, tau, stabilization=(1.0, 1.0))
    with pytest.raises(InputError, match="weights"):
        held.forward_dynamics.vjp(q, v, tau, np.zeros(3))
