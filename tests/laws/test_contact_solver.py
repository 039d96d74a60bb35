"""Solutions of contacts: one contact exactly, what did not converge is said, and impulses never add energy."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import simulation
from kinetree.errors import ConvergenceWarning
from kinetree.kernels import contact_problem
from kinetree.kernels.contact_newton import FACES, FIXED, POINTS, contact_newton
from kinetree.simulation.contacts import of_bodies
from kinetree.simulation.step_results import CONVERGED
from tests.fuzz import contacts as fuzz
from tests.laws.test_contact import CORNERS, START, OwnPlane, heavy
from tests.tolerance import assert_near, bound, condition, peak, refused
from tests.trees import serial

Array = np.ndarray[Any, np.dtype[Any]]


def rod() -> tuple[kt.Model, Array, Array]:
    """A rod that hits the ground with one end, and slides there."""
    builder = kt.Builder("rod")
    builder.add_body("rod", joint="floating", mass=1.0, inertia=np.diag([0.0833, 0.0833, 1e-4]))
    tilt = np.deg2rad(47.11)
    q = np.array([0.0, 0.0, 0.5 * np.cos(tilt), np.cos(tilt / 2.0), 0.0, np.sin(tilt / 2.0), 0.0])
    return builder.build(), q, np.array([0.0, 0.56, 0.0, 1.833, 0.0, 1.291])


@pytest.mark.parametrize("rounds", [None, 4, 5, 11, 1000])
def test_one_contact_does_not_cycle(rounds: int | None) -> None:
    """Solving normal and friction in turn returns no force after an even number of rounds, and twice as much else."""
    robot, q, v = rod()
    points = [simulation.Points("rod", (0.0, 0.0, -0.5))]
    world = simulation.Simulator(robot, contacts=points, ground=simulation.Plane(friction=2.0), rounds=rounds)
    info = world.step(q, v)[2]
    # it slides along x, so one equation is left: u_n = 0 with λ_x = −μ λ_n
    middle = robot.integrate(q, v, 0.5e-3)
    J = robot.tasks([kt.Task("rod", "position", (0, 0, -0.5))], reference="local_world_aligned").jacobian(middle)[
        [0, 2]
    ]
    a = robot.forward_dynamics(middle, v, np.zeros(6))
    free = v + 1e-3 * robot.forward_dynamics(middle, v + 0.5e-3 * a, np.zeros(6))
    turn = robot.integrate(robot.neutral(), 0.5e-3 * free)  # its axes at the end of the step
    free[3:] = robot.pose(turn, "rod")[:3, :3] @ free[3:]
    free = J @ free
    height = (robot.pose(middle, "rod") @ [0, 0, -0.5, 1.0])[2]
    free[1] += (1.0 if height > 0.0 else 0.2) * height / 1e-3
    G = J @ np.linalg.solve(robot.mass_matrix(middle), J.T)
    normal = -free[1] / (G[1, 1] - 2.0 * G[1, 0])
    assert (G @ [-2.0 * normal, normal] + free)[0] > 0.0
    expected = [-2.0 * normal / 1e-3, 0.0, normal / 1e-3]
    np.testing.assert_allclose(info.contact_forces[0], expected, rtol=1e-9, atol=1e-9)
    assert info.residual < 1e-10


@pytest.mark.parametrize(("rounds", "share"), [(1, 0.4), (None, 0.955)])
def test_random_contact_states(rounds: int | None, share: float) -> None:
    """What is called converged obeys the laws by a check of its own; nothing adds energy; see `tests.fuzz.contacts`.

    Nearly all others have no solution, for masses of six decades and bodies in joints that leave no way out.
    """
    known = total = 0
    for seed in range(12):
        found = fuzz.checked(np.random.default_rng([1, seed]), 300, rounds=rounds)
        assert not any(found[name] for name in fuzz.FAULTS), (seed, found)
        known, total = known + found["solved"] + found["jammed"], total + found["contact"]
    assert total > 1000
    assert known > total * share


def single(rng: np.random.Generator, count: int, friction: float, needle: float) -> tuple[Any, ...]:
    """Steps of single bodies that touch with one point, and what they touch."""
    builder = kt.Builder("stone")
    inertia = np.diag([1.0, 1.0 - 0.5 * needle, needle]) * 0.05
    builder.add_body("stone", joint="floating", mass=1.0, inertia=inertia)
    robot = builder.build()
    ground = fuzz.Somewhere(friction)
    q = robot.random_configuration(rng, (count,))
    v = rng.standard_normal((count, 6))
    ground.heights = rng.choice([0.0, -1e-3, 1e-3], size=(count, 1)) * rng.random((count, 1))
    ground.normals = np.broadcast_to([0.0, 0.0, 1.0], (count, 1, 3))
    point = rng.uniform(-0.5, 0.5, 3)
    return robot, ground, q, v, [simulation.Points("stone", point)]


@pytest.mark.filterwarnings("ignore::kinetree.errors.ConvergenceWarning")
@pytest.mark.parametrize("needle", [0.5, 1e-4])
@pytest.mark.parametrize("friction", [0.0, 1e-6, 0.1, 0.7, 2.0, 10.0])
def test_single_contacts_are_solved(friction: float, needle: float) -> None:
    """All of them, whatever the friction; a contact that moves freely always has a solution."""
    robot, ground, q, v, points = single(np.random.default_rng(3), 2000, friction, needle)
    world = simulation.Simulator(robot, contacts=points, ground=ground)
    info = world.step(q, v)[2]
    assert peak(info.residual) < (1e-10 if needle > 0.1 else 1e-3)
    assert float(np.mean(info.residual < 1e-8)) > 0.998
    force = info.contact_forces[:, 0]
    assert (np.hypot(force[:, 0], force[:, 1]) <= friction * force[:, 2] * (1.0 + 1e-12)).all()


def test_frictionless_ground_only_pushes() -> None:
    robot, ground, q, v, points = single(np.random.default_rng(4), 500, 0.0, 0.01)
    for rounds in (2, 3, 7):
        info = simulation.Simulator(robot, contacts=points, ground=ground, rounds=rounds).step(q, v)[2]
        assert not info.contact_forces[..., :2].any()
        assert peak(info.residual) < 1e-10


def test_a_straight_fall_onto_frictionless_ground() -> None:
    """No speed along the ground, no friction: the cone is a line, and open contacts are open."""
    world = floor(ground=simulation.Plane(friction=0.0))
    high = np.array([0.0, 0.0, 0.06, 1.0, 0.0, 0.0, 0.0])
    for q, v in ((high, np.zeros(6)), (START, np.zeros(6)), (START, np.array([0, 0, 0, 0, 0, 1.0]))):
        info = world.step(q, v)[2]
        assert info.residual < 1e-12
    tipped = kt.zoo.box((0.2, 0.2, 0.1), 1.0).integrate(START, np.array([0, 0.01, 0, 0, 0, 0]))
    assert world.step(tipped, np.zeros(6))[2].converged


def test_what_cannot_move_takes_no_impulse() -> None:
    """A point below the ground on the axis of its only joint: nothing moves it, and nothing is reported."""
    builder = kt.Builder("wheel")
    builder.add_body("wheel", joint="revolute", axis=(0.0, 0.0, 1.0), mass=1.0, inertia=np.eye(3))
    world = simulation.Simulator(builder.build(), contacts=[simulation.Points("wheel", (0.0, 0.0, -0.1))])
    _, v, info = world.step([0.3], [2.0])
    assert not info.contact_forces.any()
    assert v == 2.0
    assert info.residual == 0.0
    assert info.penetration == pytest.approx(0.1)


@pytest.mark.parametrize("friction", [0.7, 5.0])
def test_a_body_in_the_air_feels_nothing(friction: float) -> None:
    """Not even rounding."""
    builder = kt.Builder("stone")
    inertia = [[0.0153, 0.0006, 0.0013], [0.0006, 0.0124, -0.0056], [0.0013, -0.0056, 0.0076]]
    builder.add_body("stone", joint="floating", mass=0.55, inertia=inertia)
    robot = builder.build()
    at = [[0.079, 0.338, -0.051], [0.122, -0.118, 0.0], [0.138, 0.004, 0.037], [0.335, -0.005, 0.045]]
    ground = simulation.Plane(friction=friction)
    world = simulation.Simulator(robot, contacts=[simulation.Points("stone", at)], ground=ground)
    q, v = np.array([0, 0, 0.8, 0.864, -0.228, -0.365, 0.261]), np.array([-0.48, 0.72, 0.51, 0.05, 0.24, -0.52])
    falling = simulation.Simulator(robot).step(q, v)
    after, rate, info = world.step(q, v)
    assert not info.contact_forces.any()
    assert info.residual == 0.0
    np.testing.assert_array_equal(after, falling[0])
    np.testing.assert_allclose(rate, falling[1], rtol=1e-14)


def crates(rng: np.random.Generator, count: int) -> tuple[kt.Model, Array, Array]:
    """A heavy box on a light foot, at the ground."""
    robot, q = heavy(100.0)
    return robot, np.tile(q, (count, 1)), 0.3 * rng.standard_normal((count, robot.nv))


@pytest.mark.filterwarnings("ignore::kinetree.errors.ConvergenceWarning")
@pytest.mark.parametrize("rounds", [1, 2, None])
@pytest.mark.parametrize("method", ["midpoint", "semi_implicit_euler"])
def test_contacts_never_add_energy(method: str, rounds: int | None) -> None:
    """Kinetic energy where impulses act, before and after them: however badly the solver does."""
    dt = 1e-3
    robot, q, v = crates(np.random.default_rng(8), 40)
    ground = simulation.Plane(friction=1.2)
    world = simulation.Simulator(
        robot, dt=dt, method=method, contacts=[simulation.Points("foot", CORNERS)], ground=ground, rounds=rounds
    )
    lost = 0.0
    for _ in range(30):
        place = robot.integrate(q, v, 0.5 * dt) if method == "midpoint" else q
        M, a = robot.mass_matrix(place), robot.forward_dynamics(place, v, np.zeros(robot.nv))
        if method == "midpoint":
            a = robot.forward_dynamics(place, v + 0.5 * dt * a, np.zeros(robot.nv))
        q, after, info = world.step(q, v)
        before, now = (0.5 * np.einsum("bi,bij,bj->b", x, M, x) for x in (v + dt * a, after))
        correction = 0.2 * info.penetration * info.contact_forces[..., 2].sum(axis=-1)
        change = now - before - correction
        assert (change <= bound(robot.nv, condition(M)) * before).all()
        lost, v = lost + float(change.sum()), after
    assert lost < -1.0


def floor(**options: Any) -> simulation.Simulator:
    box = kt.zoo.box((0.2, 0.2, 0.1), 1.0)
    given = {"contacts": [simulation.Points("box", CORNERS)], "ground": simulation.Plane(friction=0.5), **options}
    return simulation.Simulator(box, **given)


@pytest.mark.parametrize("ground", [simulation.Plane(friction=0.5), OwnPlane()])
def test_what_did_not_converge_is_said(ground: simulation.Shape) -> None:
    """Once by a step, a rollout and a run, for single samples and batches, with the number of samples."""
    robot, q, v = crates(np.random.default_rng(1), 6)
    points = [simulation.Points("foot", CORNERS)]
    world = simulation.Simulator(robot, contacts=points, ground=ground, compliance=1e-2, centrings=0)
    q[2] = np.nan  # in is out, and nothing else to tell
    q[[0, 3], 2] = 5.0

    def told(call: Any) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = call()
        assert [type(w.message) for w in caught] == [ConvergenceWarning]
        assert caught[0].filename == __file__
        return caught[0].message, result

    steps = {"single": told(lambda: world.step(q[1], v[1])), "batch": told(lambda: world.step(q, v))}
    for message, (_, _, info) in steps.values():
        np.testing.assert_array_equal(info.converged, info.residual <= CONVERGED)
        assert message.residual == np.nanmax(info.residual)
    message, (_, _, info) = steps["batch"]
    poor = int((info.residual > CONVERGED).sum())
    assert message.samples == poor >= 2
    assert str(message).startswith(f"step: contacts did not converge in {poor} of 6 samples: residual ")
    assert info.converged[[0, 3]].all()
    assert np.isnan(info.residual[2])
    assert str(pickle.loads(pickle.dumps(message))) == str(message)
    assert str(steps["single"][0]).startswith("step: contacts did not converge: residual ")

    message, path = told(lambda: world.rollout(q, v, steps=6, every=2))
    assert message.samples == int((path.residual > CONVERGED).any(axis=-1).sum()) >= poor
    assert path.converged.shape == (6, 4)
    assert message.residual == np.nanmax(path.residual)
    assert path.converged[0].all()
    assert path.converged[1].tolist()[:2] == [True, False]

    message, film = told(lambda: world.run(q[1], lambda *_: np.zeros(9), v=v[1], seconds=0.004, servo=500.0))
    assert str(message).startswith("run: contacts did not converge")
    assert film.residual.shape == film.time.shape
    assert message.residual == film.residual.max()
    assert film.residual[0] == path.residual[1, 1]  # of the same two steps


def test_what_converged_is_silent() -> None:
    world = floor(rounds=np.int64(30))
    info = world.step(START, np.zeros(6))[2]
    assert info.converged
    path = world.rollout(np.tile(START, (3, 1)), np.zeros(6), steps=20)
    assert path.converged.all()
    assert world.run(START, lambda *_: np.zeros(6), seconds=0.01).residual.max() < 1e-9


def test_steps_that_overflow_are_said() -> None:
    """From finite states to states that are not: the residual is no number, and no sample is called converged."""
    world = floor()
    with pytest.warns(ConvergenceWarning, match="did not converge: residual nan"):
        info = world.step(START, np.full(6, 1e200))[2]
    assert not info.converged


def chain() -> kt.Model:
    """A heavy pendulum at the end of light links."""
    own: dict[str, Any] = {"axis": (0, 1, 0), "com": (0, 0, -0.25), "limits": kt.Limits(-0.5, 0.5)}
    links = [{**own, "mass": mass, "inertia": mass * 0.02 * np.eye(3)} for mass in (0.01, 0.01, 10.0)]
    for link in links[1:]:
        link["placement"] = np.eye(3), (0.0, 0.0, -0.5)
    return serial(links).build()


def of_joints(impulse: Array, w: Array, free: Array, m: Array, dry: Array, slowest: Any, fastest: Any) -> Array:
    """By how much joints miss the laws of dry friction and stops, and the size of it, in roots of energies."""
    scale = np.sqrt(m)
    tau = scale * impulse - w / scale
    low, high, most = slowest / scale, fastest / scale, dry * scale
    above, below = np.maximum(tau + low, most), np.minimum(tau + high, -most)
    lawful = np.where(tau > most, above, np.where(tau < -most, below, tau))
    moving = np.where(dry > 0.0, 1.0, 1e-6) * np.abs(free)
    size = np.maximum(np.maximum(moving, slowest - free), free - fastest) / scale
    return np.array([np.abs(scale * impulse - lawful), size])


@pytest.mark.parametrize("rounds", [1, 3, None])
def test_dry_friction_and_stops_are_measured(rounds: int | None) -> None:
    """The residual of joints is that of their laws, computed here from dense matrices."""
    dt, friction = 1e-3, np.array([0.05, 0.0, 0.5])
    robot = chain()
    rng = np.random.default_rng(2)
    q, v = rng.uniform(-0.5, 0.5, (60, 3)), rng.standard_normal((60, 3))
    q[:20, 1] = 0.5
    world = simulation.Simulator(
        robot, dt=dt, method="semi_implicit_euler", friction=friction, limits=True, rounds=rounds
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, w, info = world.step(q, v)
    free = v + dt * robot.forward_dynamics(q, v, np.zeros(3))
    m = np.diagonal(np.linalg.inv(robot.mass_matrix(q)), axis1=-2, axis2=-1)
    slowest, fastest = np.minimum(-0.5 - q, 0.0) / dt, np.maximum(0.5 - q, 0.0) / dt
    off, size = of_joints(dt * info.joint_forces, w, free, m, dt * friction, slowest, fastest)
    expected = off.max(axis=-1) / size.max(axis=-1)
    np.testing.assert_allclose(info.residual, expected, rtol=1e-6, atol=1e-9)
    poor = int((expected > CONVERGED).sum())
    assert [w.message.samples for w in caught] == ([poor] if poor else [])
    assert poor == 0 or rounds == 1
    if rounds is None:
        assert peak(info.residual) < 1e-10
    rolled = simulation.Simulator(robot, dt=dt, friction=friction, limits=True).rollout(q, v, steps=3)
    assert peak(rolled.residual) < 1e-10


@pytest.mark.filterwarnings("ignore::kinetree.errors.ConvergenceWarning")
@pytest.mark.parametrize("rounds", [1, 2, None])
def test_contacts_and_joints_together(rounds: int | None) -> None:
    """A leg with dry friction on the ground: the residual is that of contacts and joints, and energy does not grow."""
    dt, mu = 1e-3, 1.5
    robot, q, v = crates(np.random.default_rng(9), 60)
    dry = np.r_[np.zeros(6), np.full(3, 2.0)]
    world = simulation.Simulator(
        robot, dt=dt, method="semi_implicit_euler", friction=dry, rounds=rounds,
        contacts=[simulation.Points("foot", CORNERS)], ground=simulation.Plane(friction=mu),
    )  # fmt: skip
    _, w, info = world.step(q, v)
    free = v + dt * robot.forward_dynamics(q, v, np.zeros(robot.nv))
    M = robot.mass_matrix(q)
    tasks = [kt.Task("foot", "position", p) for p in CORNERS]
    J = robot.tasks(tasks, reference="local_world_aligned").jacobian(q).reshape(60, 4, 3, robot.nv)
    Minv = np.linalg.inv(M)
    m = np.einsum("bkij,bjl,bkil->bk", J, Minv, J) / 3.0
    u, g = ((J @ x[:, None, :, None])[..., 0] for x in (w, free))
    up = np.broadcast_to([0.0, 0.0, 1.0], u.shape)
    off, size = fuzz.violation(dt * info.contact_forces, u, g, up, mu, m)
    own = np.diagonal(Minv, axis1=-2, axis2=-1)
    f = dt * info.joint_forces
    joints = of_joints(f[:, 6:], w[:, 6:], free[:, 6:], own[:, 6:], dt * dry[6:], -np.inf, np.inf)
    missed, by = (np.maximum(a.max(axis=1), b.max(axis=1)) for a, b in zip((off, size), joints, strict=True))
    expected = missed / by
    if rounds is None:
        assert float(np.mean(expected < 1e-9)) > 0.8
    np.testing.assert_allclose(info.residual, expected, rtol=1e-5, atol=1e-9)
    pushed = np.einsum("bki,bkij->bj", dt * info.contact_forces, J) + f
    assert_near(np.einsum("bij,bj->bi", M, w - free), pushed, 1e-9)
    before, now = (0.5 * np.einsum("bi,bij,bj->b", x, M, x) for x in (free, w))
    assert (now <= before * (1.0 + bound(robot.nv, condition(M)))).all()
    one = simulation.Simulator(
        robot, friction=dry, contacts=[simulation.Points("foot", CORNERS[0])], ground=simulation.Plane(friction=mu)
    )
    assert one.step(q, v)[2].converged.all()


def problems(rng: np.random.Generator, count: int, contacts: int, joints: int) -> tuple[Array, Array, Array]:
    """Random G, g and bounds."""
    r = 3 * contacts + joints
    root = rng.standard_normal((count, r, r))
    bounds = np.zeros((count, r, 3))
    bounds[:, : 3 * contacts, 0] = np.repeat(rng.uniform(0.0, 2.0, (count, contacts)), 3, axis=1)
    bounds[:, 3 * contacts :] = rng.uniform(0.0, 0.5, (count, joints, 3)) * [1.0, -1.0, 1.0]
    return root @ np.swapaxes(root, 1, 2), rng.standard_normal((count, r)), bounds


def newton(contacts: int, joints: int, rounds: int) -> Any:
    """The compiled kernel."""
    each, single = [(3 * i,) for i in range(contacts)], [(3 * contacts + i,) for i in range(joints)]
    size = 3 * contacts + joints
    return kt.compiled(contact_newton, r=size, rounds=rounds, contacts=each, joints=single, **FIXED)


@pytest.mark.parametrize(("contacts", "joints"), [(3, 0), (2, 2), (0, 4)])
@pytest.mark.parametrize("law", [POINTS, FACES])
@pytest.mark.parametrize("rounds", [1, 31])
def test_engines_agree(law: Any, rounds: int, contacts: int, joints: int) -> None:
    """Compiled, single and in lanes, and the reference engine; NaN in one sample stays there."""
    inputs = problems(np.random.default_rng(5), 9, contacts, joints)
    solve = newton(contacts, joints, rounds)
    expected = solve.engine("reference")(*inputs, np.array(law))
    inputs[1][7, 1] = np.nan
    together = solve(*inputs, np.array(law))
    for ours, theirs in zip(together, expected, strict=True):
        ours, theirs = (np.delete(x, 7, axis=0) for x in (ours, theirs))
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7 * (1.0 + peak(theirs)))
    assert np.isnan(together[2][7, :2]).all()
    if rounds > 1 and (law is FACES or not contacts):
        assert peak(np.delete(together[2][:, 0], 7)) < 1e-10
    for i in range(9):
        alone = solve(*(x[i] for x in inputs), np.array(law))
        for a, b in zip(alone, together, strict=True):
            np.testing.assert_array_equal(a, b[i])


def test_one_sweep_solves_single_joints() -> None:
    """With dry friction and both stops: from a sweep, as points begin, without a round of Newton's method."""
    rng = np.random.default_rng(3)
    G, g = rng.uniform(0.1, 10.0, (200, 1, 1)), 2.0 * rng.standard_normal((200, 1))
    bounds = rng.uniform(0.0, 0.5, (200, 1, 3)) * [1.0, -1.0, 1.0]
    p, u, report = newton(0, 1, 1)(G, g, bounds, np.array(POINTS))
    assert peak(report[:, :2]) < 1e-9
    dry, low, high = (bounds[..., i] for i in range(3))
    off, size = of_joints(p, u, g, G[..., 0], dry, low, high)
    assert peak(off / size) < 1e-9
    assert min((p > dry + 1e-9).sum(), (p < -dry - 1e-9).sum(), (np.abs(p) < dry - 1e-9).sum()) > 10


@pytest.mark.parametrize(
    ("speed", "limits", "approach", "own"),
    [
        (5.0, (0.0, -9.0, 9.0), 0.1, 0.0),
        (5.0, (1e-3, -9.0, 9.0), 5.0, 0.0),
        (5.0, (0.0, -9.0, 1.0), 4.0, 4.0),
        (-5.0, (0.0, -2.0, 9.0), 3.0, 3.0),
    ],
)
def test_residuals_are_relative_to_the_fastest_approach(speed: float, limits: Any, approach: float, own: float) -> None:
    """Of contacts, stops and dry friction that moves; not of joints that move freely. Creep stays without centrings."""
    G, g, law = np.eye(4), np.array([0.3, 0.0, -0.1, speed]), np.array(FACES._replace(centrings=0))
    bounds = np.array([[0.5, 0.0, 0.0]] * 3 + [list(limits)])
    creep = 0.1 * newton(1, 0, 31)(G[:3, :3], g[:3], bounds[:3], law)[2][1]
    assert 1e-6 < creep < 1e-4
    expected = max(creep, own * FACES.epsilon / (1.0 + FACES.epsilon)) / approach
    assert newton(1, 1, 31)(G, g, bounds, law)[2][1] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("law", [POINTS, FACES])
def test_impulses_of_any_kind_are_limited_to_the_share_that_adds_no_energy(law: Any) -> None:
    """Also those of contacts and joints that a single round leaves unsolved; and the velocities are theirs."""
    G, g, bounds = problems(np.random.default_rng(7), 300, 2, 3)
    p, u, report = newton(2, 3, 1)(G, g, bounds, np.array(law))
    np.testing.assert_allclose(u, np.einsum("bij,bj->bi", G, p) + g, rtol=1e-9, atol=1e-9)
    work, kept = (p * g).sum(axis=-1), (p * (u - g)).sum(axis=-1)
    assert (kept <= -1.1 * work * (1.0 + 1e-9) + 1e-12).all()
    assert (report[:, 1] > 1e-3).sum() > 20


def test_the_problem_is_that_of_dense_matrices() -> None:
    """G and g of contacts on two bodies, in axes that are orthonormal."""
    rng = np.random.default_rng(6)
    bodies = (0, 1, 0)
    root = rng.standard_normal((12, 12))
    mobility = root @ root.T
    arm, velocity, n = rng.standard_normal((3, 3, 3))
    n /= np.linalg.norm(n, axis=-1, keepdims=True)
    n[2] = (0.0, 0.0, -1.0)
    height = np.zeros((3, 3))
    height[:, 2] = 0.02, -0.03, 0.0
    prepare = of_bodies(contact_problem.contact_problem, bodies)
    rows = [x.ravel() for x in (arm, velocity, n, height)]
    G, g, axes = prepare(mobility, np.diag(mobility), *rows, 0.01)
    basis = axes.reshape(3, 3, 3)
    assert_near(basis @ np.swapaxes(basis, 1, 2), np.broadcast_to(np.eye(3), (3, 3, 3)), 1e-14)
    assert_near(basis[:, 2], n, 1e-15)
    chi = np.zeros((9, 12))
    for i, body in enumerate(bodies):
        chi[3 * i : 3 * i + 3, 6 * body : 6 * body + 6] = np.hstack([np.cross(arm[i], basis[i]), basis[i]])
    np.testing.assert_allclose(G, chi @ mobility @ chi.T, rtol=1e-12, atol=1e-12)
    expected = np.einsum("kij,kj->ki", basis, velocity)
    expected[:, 2] += (2.0, -0.6, 0.0)
    np.testing.assert_allclose(g, expected.ravel(), rtol=1e-13, atol=1e-13)


GROUNDS = {
    "plane": lambda friction: simulation.Plane(friction=friction),
    "block": lambda friction: simulation.Block((0, 0, -0.5), (9, 9, 1), friction),
    "sphere": lambda friction: simulation.Sphere((0, 0, -100), 100, friction),
    "capsule": lambda friction: simulation.Capsule((-50, 0, -100), (50, 0, -100), 100, friction),
    "height field": lambda friction: simulation.HeightField(np.zeros((3, 3), dtype=int), (9, 9), friction=friction),
}


@pytest.mark.filterwarnings("ignore::kinetree.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", GROUNDS)
def test_numbers_of_any_kind(name: str) -> None:
    """Integers meant no friction, and others were refused or raised internal errors."""
    path = floor(ground=GROUNDS[name](1.0)).rollout(START, [0, 0, 0, 1.0, 0, 0], steps=150)
    assert abs(path.v[-1, 3]) < 1e-6
    given: Any
    for given in (1, np.int64(1), np.float32(1.0), np.uint8(1), np.float64(1.0), np.array(1)):
        ground = GROUNDS[name](given)
        assert type(ground.friction) is float
        np.testing.assert_array_equal(floor(ground=ground).rollout(START, [0, 0, 0, 1.0, 0, 0], steps=150).q, path.q)
    for given in (True, np.bool_(True), "1", None, np.nan, np.inf, 10**400, -1, 1j, [1.0]):
        refused(r"friction=.* is not a finite number from zero on", GROUNDS[name], given)


def test_friction_of_ones_own_shapes_is_converted() -> None:
    v = [0, 0, 0, 1.0, 0, 0]
    own, plane = (
        floor(ground=one).rollout(START, v, steps=50).q for one in (OwnPlane(), simulation.Plane(friction=1.0))
    )
    assert_near(own, plane, 1e-12)
    refused("friction='rough' is not a finite number", floor, ground=OwnPlane("rough"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: simulation.Plane(normal=(0, 0, True)), "normal=True is not a finite number"),
        (lambda: simulation.Plane(normal=(0, 0, np.inf)), "normal=inf is not a finite number"),
        (lambda: simulation.Plane(normal=("0", "0", "1")), "normal='0' is not a finite number"),  # type: ignore[arg-type]
        (lambda: simulation.Plane(offset=None), "offset=None is not a finite number"),  # type: ignore[arg-type]
        (lambda: simulation.Sphere((0, 0, 0), True), "radius=True is not a finite number from zero on"),
        (lambda: simulation.Block((0, 0, 0), (1, -1, 1)), "size=-1 is not a finite number from zero on"),
        (lambda: simulation.HeightField([[True, False]] * 2, (1, 1)), "heights has dtype bool"),
        (lambda: simulation.HeightField(np.zeros((2, 2)), (1, 1), (0, False)), "center=False is not a finite number"),
        (lambda: simulation.Points("box", [[True, False, True]]), "positions has dtype bool"),
        (lambda: floor(rounds=True), "rounds=True is not an integer from 1 to 1000"),
        (lambda: floor(rounds=2.0), "rounds=2.0 is not an integer from 1 to 1000"),
        (lambda: floor(compliance="soft"), "compliance='soft' is not a relative compliance"),
        (lambda: floor(dt=True), "dt=True is not a positive time step"),
        (lambda: floor(dt="1"), "dt='1' is not a positive time step"),
        (lambda: floor().run(START, lambda *_: np.zeros(6), seconds=True), "seconds=True is not a positive number"),
        (lambda: floor().run(START, lambda *_: 0, seconds=1, servo="5"), "servo='5' is not a positive number"),
    ],
)
def test_refused_numbers(make: Any, message: str) -> None:
    refused(message, make)


@pytest.mark.parametrize("size", [1e200, 1e-200, 1.7e308, 5e-324, 3])
def test_normals_of_any_length(size: float) -> None:
    """Squares of the first two overflow and vanish; the box fell through a floor with normal zero."""
    plane = simulation.Plane(normal=(0, 0, size))
    assert plane.normal == (0.0, 0.0, 1.0)
    if size != 5e-324:
        tilted = simulation.Plane(normal=(3.0 * (size / 4.0), 0.0, 4.0 * (size / 4.0)))
        np.testing.assert_allclose(tilted.normal, (0.6, 0.0, 0.8), rtol=1e-15)
    assert float(floor(ground=plane).rollout(START, np.zeros(6), steps=20).q[-1, 2]) == pytest.approx(0.05)
