"""Solvers of contacts: each contact exactly, what did not converge is said, and impulses never add energy."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import simulation
from kinetree.errors import ConvergenceWarning
from kinetree.kernels import contact_problem, contact_solvers, joint_rows
from kinetree.simulation.contacts import of_bodies
from kinetree.simulation.step_results import CONVERGED
from tests.fuzz import contacts as fuzz
from tests.laws.test_contact import CORNERS, START, OwnPlane, heavy
from tests.tolerance import assert_near, bound, condition, peak, refused
from tests.trees import serial

Array = np.ndarray[Any, np.dtype[Any]]

SOLVERS = [("pgs", 1), ("pgs", 2), ("pgs", 50), ("admm", 5), ("admm", 50)]


def rod() -> tuple[kt.Model, Array, Array]:
    """A rod that hits the ground with one end, and slides there."""
    builder = kt.Builder("rod")
    builder.add_body("rod", joint="floating", mass=1.0, inertia=np.diag([0.0833, 0.0833, 1e-4]))
    tilt = np.deg2rad(47.11)
    q = np.array([0.0, 0.0, 0.5 * np.cos(tilt), np.cos(tilt / 2.0), 0.0, np.sin(tilt / 2.0), 0.0])
    return builder.build(), q, np.array([0.0, 0.56, 0.0, 1.833, 0.0, 1.291])


@pytest.mark.parametrize("sweeps", [1, 2, 3, 49, 50, 999, 1000])
def test_one_contact_does_not_cycle(sweeps: int) -> None:
    """Sweeps that solve normal and friction in turn returned no force after an even number, and twice as much else."""
    robot, q, v = rod()
    points = [simulation.Points("rod", (0.0, 0.0, -0.5))]
    world = simulation.Simulator(robot, contacts=points, ground=simulation.Plane(friction=2.0), sweeps=sweeps)
    info = world.step(q, v)[2]
    # it slides along x, so one equation is left: u_n = 0 with λ_x = −μ λ_n
    middle = robot.integrate(q, v, 0.5e-3)
    J = robot.tasks([kt.Task("rod", "position", (0, 0, -0.5))], reference="local_world_aligned").jacobian(middle)[
        [0, 2]
    ]
    a = robot.forward_dynamics(middle, v, np.zeros(6))
    free = J @ (v + 1e-3 * robot.forward_dynamics(middle, v + 0.5e-3 * a, np.zeros(6)))
    height = (robot.pose(middle, "rod") @ [0, 0, -0.5, 1.0])[2]
    free[1] += (1.0 if height > 0.0 else 0.2) * height / 1e-3
    G = J @ np.linalg.solve(robot.mass_matrix(middle), J.T)
    normal = -free[1] / (G[1, 1] - 2.0 * G[1, 0])
    assert (G @ [-2.0 * normal, normal] + free)[0] > 0.0
    expected = [-2.0 * normal / 1e-3, 0.0, normal / 1e-3]
    np.testing.assert_allclose(info.contact_forces[0], expected, rtol=1e-7, atol=1e-9)
    assert info.converged


@pytest.mark.parametrize(("solver", "sweeps"), SOLVERS)
def test_random_contact_states(solver: str, sweeps: int) -> None:
    """What is called converged obeys the laws by a check of its own; nothing adds energy; see `tests.fuzz.contacts`."""
    solved = total = 0
    for seed in range(12):
        found = fuzz.checked(np.random.default_rng([1, seed]), 300, solver=solver, sweeps=sweeps)
        assert not any(found[name] for name in fuzz.FAULTS), (seed, found)
        solved, total = solved + found["solved"], total + found["contact"]
    assert total > 1000
    assert solved > total * {1: 0.25, 2: 0.35, 5: 0.55, 50: 0.65}[sweeps]


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


@pytest.mark.parametrize("needle", [0.5, 1e-4])
@pytest.mark.parametrize("friction", [0.0, 1e-6, 0.1, 0.7, 2.0, 10.0])
def test_single_contacts_are_solved(friction: float, needle: float) -> None:
    """All of them, whatever the friction, by six sweeps; a contact that moves freely always has a solution."""
    robot, ground, q, v, points = single(np.random.default_rng(3), 2000, friction, needle)
    world = simulation.Simulator(robot, contacts=points, ground=ground, sweeps=6)
    info = world.step(q, v)[2]
    assert info.converged.all()
    assert float(np.median(info.residual[info.residual > 0.0])) < 1e-10
    force = info.contact_forces[:, 0]
    assert (np.hypot(force[:, 0], force[:, 1]) <= friction * force[:, 2] * (1.0 + 1e-12)).all()


@pytest.mark.filterwarnings("ignore::kinetree.errors.ConvergenceWarning")
def test_one_sweep_solves_nearly_all_single_contacts() -> None:
    """Also those where Newton's first step would lead away from the root, and the search goes further instead."""
    poor = 0
    for seed in range(3):
        robot, ground, q, v, points = single(np.random.default_rng(seed), 2000, 0.7, 0.5)
        world = simulation.Simulator(robot, contacts=points, ground=ground, sweeps=1)
        poor += int((~world.step(q, v)[2].converged).sum())
    assert poor <= 5


def test_frictionless_ground_only_pushes() -> None:
    robot, ground, q, v, points = single(np.random.default_rng(4), 500, 0.0, 0.01)
    for sweeps in (1, 2, 7):
        info = simulation.Simulator(robot, contacts=points, ground=ground, sweeps=sweeps).step(q, v)[2]
        assert not info.contact_forces[..., :2].any()
        assert info.converged.all()


@pytest.mark.parametrize("solver", ["pgs", "admm"])
def test_a_straight_fall_onto_frictionless_ground(solver: str) -> None:
    """No speed along the ground, no friction: the cone is a line, and open contacts are open."""
    world = floor(ground=simulation.Plane(friction=0.0), solver=solver)
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
@pytest.mark.parametrize("solver", ["pgs", "admm"])
def test_a_body_in_the_air_feels_nothing(solver: str, friction: float) -> None:
    """ADMM used to exert 2e34 N on this one; also from a start with impulses of an earlier step."""
    builder = kt.Builder("stone")
    inertia = [[0.0153, 0.0006, 0.0013], [0.0006, 0.0124, -0.0056], [0.0013, -0.0056, 0.0076]]
    builder.add_body("stone", joint="floating", mass=0.55, inertia=inertia)
    robot = builder.build()
    at = [[0.079, 0.338, -0.051], [0.122, -0.118, 0.0], [0.138, 0.004, 0.037], [0.335, -0.005, 0.045]]
    world = simulation.Simulator(
        robot, contacts=[simulation.Points("stone", at)], ground=simulation.Plane(friction=friction), solver=solver
    )
    q, v = np.array([0, 0, 0.8, 0.864, -0.228, -0.365, 0.261]), np.array([-0.48, 0.72, 0.51, 0.05, 0.24, -0.52])
    falling = simulation.Simulator(robot).step(q, v)
    before = world.step(q, v)[2]
    for start in (None, before._replace(impulses=np.full(12, 3.0))):
        after, rate, info = world.step(q, v, start=start)
        assert not info.contact_forces.any()
        assert info.residual == 0.0
        np.testing.assert_array_equal(after, falling[0])
        np.testing.assert_allclose(rate, falling[1], rtol=1e-14)


def crates(rng: np.random.Generator, count: int) -> tuple[kt.Model, Array, Array]:
    """A heavy box on a light foot, at the ground."""
    robot, q = heavy(100.0)
    return robot, np.tile(q, (count, 1)), 0.3 * rng.standard_normal((count, robot.nv))


@pytest.mark.filterwarnings("ignore::kinetree.errors.ConvergenceWarning")
@pytest.mark.parametrize(("solver", "sweeps"), SOLVERS)
@pytest.mark.parametrize("method", ["midpoint", "semi_implicit_euler"])
def test_contacts_never_add_energy(method: str, solver: str, sweeps: int) -> None:
    """Kinetic energy where impulses act, before and after them: however badly the solver does."""
    dt = 1e-3
    robot, q, v = crates(np.random.default_rng(8), 40)
    ground = simulation.Plane(friction=1.2)
    world = simulation.Simulator(
        robot, dt=dt, method=method, contacts=[simulation.Points("foot", CORNERS)], ground=ground, solver=solver,
        sweeps=sweeps,
    )  # fmt: skip
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
@pytest.mark.parametrize("solver", ["pgs", "admm"])
def test_what_did_not_converge_is_said(solver: str, ground: simulation.Shape) -> None:
    """Once by a step, a rollout and a run, for single samples and batches, with the number of samples."""
    robot, q, v = crates(np.random.default_rng(1), 6)
    points = [simulation.Points("foot", CORNERS)]
    world = simulation.Simulator(robot, contacts=points, ground=ground, solver=solver, sweeps=1)
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
    world = floor(sweeps=np.int64(50))
    info = world.step(START, np.zeros(6))[2]
    assert info.converged
    path = world.rollout(np.tile(START, (3, 1)), np.zeros(6), steps=20)
    assert path.converged.all()
    assert world.run(START, lambda *_: np.zeros(6), seconds=0.01).residual.max() < CONVERGED


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


@pytest.mark.parametrize("sweeps", [1, 3, 30])
def test_dry_friction_and_stops_are_measured(sweeps: int) -> None:
    """The residual of joints is that of their laws, computed here from dense matrices."""
    dt, friction = 1e-3, np.array([0.05, 0.0, 0.5])
    robot = chain()
    rng = np.random.default_rng(2)
    q, v = rng.uniform(-0.5, 0.5, (60, 3)), rng.standard_normal((60, 3))
    q[:20, 1] = 0.5
    world = simulation.Simulator(
        robot, dt=dt, method="semi_implicit_euler", friction=friction, limits=True, sweeps=sweeps
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, w, info = world.step(q, v)
    free = v + dt * robot.forward_dynamics(q, v, np.zeros(3))
    m = np.diagonal(np.linalg.inv(robot.mass_matrix(q)), axis1=-2, axis2=-1)
    f, s = np.split(info.impulses, 2, axis=-1)
    slowest, fastest = np.minimum(-0.5 - q, 0.0) / dt, np.maximum(0.5 - q, 0.0) / dt
    rubs = np.clip(f - w / m, -dt * friction, dt * friction) - f
    beyond = w - m * s
    stops = (np.clip(beyond, slowest, fastest) - beyond) / m - s
    off = np.maximum(np.abs(rubs), np.abs(stops)) * np.sqrt(m)
    moving = np.where(friction > 0.0, 1.0, 1e-6) * np.abs(free)
    size = np.maximum(np.maximum(moving, slowest - free), free - fastest) / np.sqrt(m)
    size = np.maximum(size, 1e-6 * np.abs(f + s) * np.sqrt(m))
    expected = off.max(axis=-1) / size.max(axis=-1)
    np.testing.assert_allclose(info.residual, expected, rtol=1e-6, atol=1e-9)
    poor = int((expected > CONVERGED).sum())
    assert [w.message.samples for w in caught] == ([poor] if poor else [])
    assert (poor > 0) == (sweeps == 1)
    rolled = simulation.Simulator(robot, dt=dt, friction=friction, limits=True, sweeps=30).rollout(q, v, steps=3)
    assert rolled.converged.all()


@pytest.mark.filterwarnings("ignore::kinetree.errors.ConvergenceWarning")
@pytest.mark.parametrize("sweeps", [1, 2, 50])
def test_contacts_and_joints_together(sweeps: int) -> None:
    """A leg with dry friction on the ground: the residual is that of contacts and joints, and energy does not grow."""
    dt, mu = 1e-3, 1.5
    robot, q, v = crates(np.random.default_rng(9), 60)
    dry = np.r_[np.zeros(6), np.full(3, 2.0)]
    world = simulation.Simulator(
        robot, dt=dt, method="semi_implicit_euler", friction=dry, sweeps=sweeps,
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
    rubs = np.abs(np.clip(f - w / own, -dt * dry, dt * dry) - f) * np.sqrt(own)
    moving = np.where(dry > 0.0, 1.0, 1e-6) * np.abs(free) / np.sqrt(own)
    moving = np.maximum(moving, 1e-6 * np.abs(f) * np.sqrt(own))
    expected = np.maximum(off.max(axis=1), rubs.max(axis=1)) / np.maximum(size.max(axis=1), moving.max(axis=1))
    np.testing.assert_allclose(info.residual, expected, rtol=1e-5, atol=1e-9)
    pushed = np.einsum("bki,bkij->bj", dt * info.contact_forces, J) + f
    assert_near(np.einsum("bij,bj->bi", M, w - free), pushed, 1e-9)
    before, now = (0.5 * np.einsum("bi,bij,bj->b", x, M, x) for x in (free, w))
    assert (now <= before * (1.0 + bound(robot.nv, condition(M)))).all()
    one = simulation.Simulator(
        robot, friction=dry, contacts=[simulation.Points("foot", CORNERS[0])], ground=simulation.Plane(friction=mu)
    )
    assert one.step(q, v)[2].converged.all()


@pytest.mark.parametrize("name", ["contact_sweeps", "one sweep", "contact_forces", "admm"])
def test_engines_agree(name: str) -> None:
    """Compiled kernels, single and in lanes, and the reference engine on random problems of three contacts."""
    rng = np.random.default_rng(5)
    count, r = 9, 9
    root = rng.standard_normal((count, r, r))
    G = root @ np.swapaxes(root, 1, 2)
    scale = np.repeat(np.einsum("bii->bi", G).reshape(count, 3, 3).mean(axis=-1), 3, axis=-1)
    mu, g = rng.uniform(0.0, 2.0, (count, r)), rng.standard_normal((count, r))
    pushed = np.abs(rng.standard_normal((count, r)))
    u = np.einsum("bij,bj->bi", G, pushed) + g
    axes = np.linalg.qr(rng.standard_normal((count, 3, 3, 3)))[0].reshape(count, r, 3)
    solver = G, scale, mu, g, pushed
    values, vectors = np.linalg.eigh(G)
    compiled, inputs = {
        "contact_sweeps": (kt.compiled(contact_solvers.contact_sweeps, r=r, more=6), solver),
        "one sweep": (kt.compiled(contact_solvers.contact_sweeps, r=r, more=0), solver),
        "contact_forces": (
            kt.compiled(contact_problem.contact_forces, r=r),
            (axes, pushed, g, u, mu, scale, np.zeros(4)),
        ),
        "admm": (
            kt.compiled(contact_solvers.admm, r=r, periods=3, rounds=5),
            (values, np.ascontiguousarray(np.swapaxes(vectors, 1, 2)), G, mu, g, pushed),
        ),
    }[name]

    def several(results: Any) -> Any:
        return results if isinstance(results, tuple) else (results,)

    expected = several(compiled.engine("reference")(*inputs))
    together = several(compiled(*inputs))
    for ours, theirs in zip(together, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * peak(theirs))
    for i in range(count):
        alone = several(compiled(*(x[i] if x.ndim > 1 else x for x in inputs)))
        for a, b in zip(alone, together, strict=True):
            np.testing.assert_array_equal(a, b[i])


def test_impulses_of_any_kind_are_limited_to_the_share_that_adds_no_energy() -> None:
    """Of impulses at contacts and joints that solve nothing: the same share of all of them, from none to all."""
    rng = np.random.default_rng(7)
    count, r = 200, 6
    root = rng.standard_normal((count, r, r))
    G = root @ np.swapaxes(root, 1, 2)
    g, pushed = rng.standard_normal((2, count, r))
    pushed *= 10.0 ** rng.uniform(-3.0, 1.0, (count, 1))
    u = np.einsum("bij,bj->bi", G, pushed) + g
    others = np.abs(rng.standard_normal((count, 4))) * [-0.1, 0.1, 0.0, 0.0]
    axes = np.tile(np.eye(3), (2, 1))
    forces = kt.compiled(contact_problem.contact_forces, r=r)
    force, impulse, share, _ = forces(axes, pushed, g, u, np.ones(r), np.ones(r), others)
    work = others[:, 0] + (pushed * g).sum(axis=-1)
    kept = others[:, 1] + (pushed * (u - g)).sum(axis=-1)
    np.testing.assert_allclose(share, np.clip(-1.1 * work / kept, 0.0, 1.0), rtol=1e-9, atol=1e-12)
    assert (share == 0.0).sum() > 20 < (share == 1.0).sum()
    assert ((share > 0.0) & (share < 1.0)).sum() > 20
    np.testing.assert_allclose(impulse, share[:, None] * pushed, rtol=1e-14)
    np.testing.assert_allclose(force, impulse, rtol=1e-14)
    free, velocity, friction, stop = rng.standard_normal((4, count, 3))
    M = np.broadcast_to(np.eye(3), (count, 3, 3))
    bounds = [np.full(3, x) for x in (-1.0, 1.0, 0.5)]
    parts, _ = kt.compiled(joint_rows.joint_residual, n=3)(M, *bounds, free, velocity, friction, stop)
    np.testing.assert_allclose(parts[:, 0], ((friction + stop) * free).sum(axis=-1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        parts[:, 1], ((friction + stop) * (velocity - free)).sum(axis=-1), rtol=1e-12, atol=1e-12
    )
    after, *parts = kt.compiled(joint_rows.joint_share, n=3)(share, free, velocity, friction, stop)
    np.testing.assert_allclose(after, free + share[:, None] * (velocity - free), rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(after[share == 1.0], velocity[share == 1.0])
    for found, whole in zip(parts, (friction, stop), strict=True):
        np.testing.assert_array_equal(found, share[:, None] * whole)


def test_the_problem_is_that_of_dense_matrices() -> None:
    """G, its scale and g of contacts on two bodies, in axes that are orthonormal."""
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
    G, scale, g, axes = prepare(mobility, *rows, 0.01)
    basis = axes.reshape(3, 3, 3)
    assert_near(basis @ np.swapaxes(basis, 1, 2), np.broadcast_to(np.eye(3), (3, 3, 3)), 1e-14)
    assert_near(basis[:, 2], n, 1e-15)
    chi = np.zeros((9, 12))
    for i, body in enumerate(bodies):
        chi[3 * i : 3 * i + 3, 6 * body : 6 * body + 6] = np.hstack([np.cross(arm[i], basis[i]), basis[i]])
    np.testing.assert_allclose(G, chi @ mobility @ chi.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(scale, np.repeat(np.diag(G).reshape(3, 3).mean(axis=1), 3), rtol=1e-13)
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
        (lambda: floor(sweeps=True), "sweeps=True is not a positive number of sweeps"),
        (lambda: floor(sweeps=2.0), "sweeps=2.0 is not a positive number of sweeps"),
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
