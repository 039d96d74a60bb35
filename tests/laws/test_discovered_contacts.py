"""Contacts that are discovered: manifolds of pairs, and scenes whose motions are known."""

from __future__ import annotations

import pickle
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import geometry as geo
from kinetree import simulation
from kinetree.algorithms.kinematics.frame_kinematics import joint_screws, poses
from kinetree.errors import ConvergenceWarning, LoadError, ModelError, ModelWarning, UnknownNameError
from kinetree.kernels import turning_bodies
from kinetree.kernels.contact_discovery import CONTACT
from kinetree.kernels.discovered_rows import discovered_rows, discovered_rows_of_bodies
from kinetree.runtime.kernels import bind
from kinetree.simulation import steps
from kinetree.simulation.touching_pairs import combined
from tests.laws.cases import model
from tests.mechanisms import gripper
from tests.tolerance import Array, assert_close, assert_near, bound, condition, peak, refused

MU, EDGES = 0.5, (0.2, 0.2, 0.1)


def turned(axis: Any, angle: float) -> Array:
    """A quaternion."""
    return np.array([np.cos(angle / 2), *(np.sin(angle / 2) * np.array(axis, dtype=float))])


def crates(masses: tuple[float, ...], mu: float = MU) -> kt.Model:
    """Boxes that move freely."""
    robot = kt.zoo.box(EDGES, masses[0], "box0")
    for i, mass in enumerate(masses[1:], 1):
        robot = robot.attach("world", kt.zoo.box(EDGES, mass, f"box{i}"))
    return robot.with_shapes([geo.Box(f"box{i}", EDGES, friction=mu) for i in range(len(masses))])


def floor(mu: float = MU, angle: float = 0.0) -> kt.Scene:
    """A plane, turned about y."""
    c, s = np.cos(angle), np.sin(angle)
    return kt.Scene([geo.Plane("floor", ([[c, 0, s], [0, 1, 0], [-s, 0, c]], (0, 0, 0)), friction=mu)])


@cache
def stack(masses: tuple[float, ...], turn: float = 0.2) -> tuple[simulation.Simulator, Array]:
    """Boxes on each other, each a little aside and turned."""
    sim = simulation.Simulator(crates(masses), contacts="discover", scene=floor())
    places = [[0.01 * i, 0.005 * i, 0.05 + 0.1 * i, *turned((0, 0, 1), turn * i)] for i in range(len(masses))]
    return sim, np.concatenate(places)


@pytest.mark.parametrize("masses", [(1.0, 1.0, 10.0), (100.0, 1.0, 100.0, 1.0, 100.0), (1.0, 3.0, 10.0, 30.0, 100.0)])
def test_stacks_stay_where_they_are(masses: tuple[float, ...]) -> None:
    """Light boxes bear heavy ones: no creep, and the floor bears all."""
    sim, q = stack(masses)
    path = sim.rollout(q, np.zeros(6 * len(masses)), steps=200, every=100)
    assert path.residual.max() < 1e-4
    assert peak(path.q[2] - path.q[1]) < 5e-9  # 0.05 µm/s
    _, _, info = sim.step(path.q[-1], path.v[-1])
    assert info.contacts is not None
    below = [i for i, p in enumerate(info.contacts.pair) if p >= 0 and "floor" in info.contacts.names[p]]
    assert_near(info.contacts.force[below].sum(axis=0), [0.0, 0.0, 9.81 * sum(masses)], 1e-5 * sum(masses))
    assert info.penetration < 1e-8


@pytest.mark.parametrize("beyond", [-1e-3, -1e-6, 1e-6, 1e-3, 0.2])
def test_a_box_slides_beyond_the_angle_of_friction_only(beyond: float) -> None:
    angle = np.arctan(MU) + beyond
    sim = simulation.Simulator(crates((1.0,)), contacts="discover", scene=floor(angle=angle))
    q = np.array([0.05 * np.sin(angle), 0.0, 0.05 * np.cos(angle), *turned((0, 1, 0), angle)])
    path = sim.rollout(q, np.zeros(6), steps=200, every=100)
    speed = max(0.0, 9.81 * (np.sin(angle) - MU * np.cos(angle))) * 0.2
    assert_near(np.linalg.norm(path.v[-1, 3:]), speed, 1e-10)
    if beyond < 0.0:
        assert peak(path.q[-1] - q) < 1e-12


def pinched(level: bool, share: float) -> tuple[simulation.Simulator, Array, Array]:
    """A rod between two fingers that press with a share of the force that it takes to hold it (mujoco#3328)."""
    mass = 0.1
    builder = kt.Builder("pinch")
    for name, x in (("left", -0.05), ("right", 0.05)):
        at = np.eye(3), (x, 0.0, 0.0)
        builder.add_body(name, joint="prismatic", axis=(1, 0, 0), placement=at, mass=0.2, inertia=1e-4 * np.eye(3))
    builder.add_body("rod", joint="floating", mass=mass, inertia=np.diag([2e-4, 2e-4, 2e-5]))
    shapes = [geo.Box(name, (0.04, 0.06, 0.06), friction=MU) for name in ("left", "right")]
    robot = builder.build().with_shapes([*shapes, geo.Capsule("rod", (0, 0, -0.06), (0, 0, 0.06), 0.03, friction=MU)])
    sim = simulation.Simulator(robot, contacts="discover", scene=kt.Scene(), dt=2e-3)
    push = share * mass * 9.81 / (2.0 * MU)
    q = np.concatenate([np.zeros(5), turned((1, 0, 0), np.pi / 2 if level else 0.0)])
    return sim, q, np.array([push, -push, *np.zeros(6)])


@pytest.mark.parametrize("level", [True, False])
def test_a_pinched_rod_is_held_by_a_thousandth_more_than_it_takes(level: bool) -> None:
    for share in (1.001, 95.0):
        sim, q, tau = pinched(level, share)
        path = sim.rollout(q, np.zeros(8), tau, steps=200, every=100)
        assert abs(path.q[2, 4] - path.q[1, 4]) < 1e-14
        assert path.residual.max() < 1e-9
        _, _, info = sim.step(path.q[-1], path.v[-1], tau)
        assert info.contacts is not None
        shares = np.abs(info.contacts.force[info.contacts.pair >= 0, 0])
        assert_near(shares, tau[0] / 2.0, 1e-6 * tau[0])  # even over two ends at each finger
    sim, q, tau = pinched(level, 0.999)
    path = sim.rollout(q, np.zeros(8), tau, steps=200)
    assert_near(path.v[-1, 7 if not level else 6] ** 2, (0.001 * 9.81 * 0.4) ** 2, 1e-9)


ROUND: dict[str, tuple[float, geo.SolidShape]] = {  # I/(m r²)
    "sphere": (0.4, geo.Sphere("wheel", (0, 0, 0), 0.07, friction=0.4)),
    "shell": (2.0 / 3.0, geo.Ellipsoid("wheel", (0.07, 0.07, 0.07), friction=0.4)),
    "cylinder": (0.5, geo.Cylinder("wheel", 0.07, 0.3, friction=0.4)),
    "capsule": (0.5, geo.Capsule("wheel", (0, 0, -0.1), (0, 0, 0.1), 0.07, friction=0.4)),
}


def rolling(kind: str, angle: float, table: bool = False) -> tuple[simulation.Simulator, Array]:
    """A body of 1 kg whose axis z is level, on a slope."""
    share, shape = ROUND[kind]
    inertia = np.diag([share, share, share]) * 0.07**2
    builder = kt.Builder("roll").add_body("wheel", joint="floating", mass=1.0, inertia=inertia)
    scene = floor(0.4, angle)
    if table:
        R = np.array(scene.shapes[0].placement)[:3, :3]
        scene = kt.Scene([geo.Box("table", (9.0, 1.0, 0.2), (R, R @ (0.0, 0.0, -0.1)), friction=0.4)])
    sim = simulation.Simulator(builder.build().with_shapes([shape]), contacts="discover", scene=scene)
    return sim, np.array([0.07 * np.sin(angle), 0.0, 0.07 * np.cos(angle), *turned((1, 0, 0), np.pi / 2)])


# a capsule stands for an ellipsoid on a box
@pytest.mark.parametrize(("kind", "table"), [*((kind, False) for kind in ROUND), ("sphere", True), ("cylinder", True)])
def test_round_bodies_roll_and_slide_down_as_they_should(kind: str, table: bool) -> None:
    for angle in (0.2, 1.1):
        sim, q = rolling(kind, angle, table)
        share, _ = ROUND[kind]
        rolls = share / (1.0 + share) * np.tan(angle) < 0.4
        pull = np.sin(angle) / (1.0 + share) if rolls else np.sin(angle) - 0.4 * np.cos(angle)
        path = sim.rollout(q, np.zeros(6), steps=500)
        assert_near(np.linalg.norm(path.v[-1, 3:]), 9.81 * pull * 0.5, 1e-3)
        assert_near(np.linalg.norm(path.q[-1, :3] - q[:3]), 0.5 * 9.81 * pull * 0.25, 1e-4)


@pytest.mark.parametrize("kind", ROUND)
def test_wheels_on_level_ground_keep_their_speed(kind: str) -> None:
    sim, q = rolling(kind, 0.0)
    path = sim.rollout(q, np.array([0.0, 0.0, 10.0, -0.7, 0.0, 0.0]), steps=1000)
    assert_near(path.v[-1, 2], 10.0, 1e-4)
    assert_near(np.linalg.norm(path.v[-1, 3:]), 0.7, 1e-5)
    assert_near(path.q[-1], [-0.7, 0.0, 0.07, *path.q[-1, 3:]], 1e-5)


def test_a_heavy_cart_stands_on_light_wheels() -> None:
    """Wheels that spin freely move a thousand times as easily along the ground as the cart moves up."""
    builder = kt.Builder("cart").add_body("cart", joint="floating", mass=60.0, inertia=np.diag([3.0, 4.0, 5.0]))
    wheels = {f"wheel{i}": (0.3 * x, 0.2 * y, -0.1) for i, (x, y) in enumerate([(1, 1), (1, -1), (-1, 1), (-1, -1)])}
    for name, place in wheels.items():
        of = {"placement": (np.eye(3), place), "mass": 0.05, "inertia": 2e-5 * np.eye(3)}
        builder.add_body(name, parent="cart", joint="revolute", axis=(0, 1, 0), **of)
    robot = builder.build().with_shapes([geo.Capsule(name, (0, -0.01, 0), (0, 0.01, 0), 0.05) for name in wheels])
    sim = simulation.Simulator(robot, contacts="discover")
    q = np.r_[0.0, 0.0, 0.1501, turned((0.6, 0.8, 0), 1e-3), np.zeros(4)]
    path = sim.rollout(q, np.r_[0.0, 0.0, 0.2, 0.0, 0.1, np.zeros(5)], steps=300)
    assert path.converged.all()
    assert peak(path.v[-1, :2]) < 1e-6


@pytest.mark.parametrize("angle", [0.0, 0.5, np.pi / 4, 1.2])
def test_a_box_that_falls_gains_no_energy_and_comes_to_rest(angle: float) -> None:
    robot = crates((1.0,))
    sim = simulation.Simulator(robot, contacts="discover", scene=floor())
    q = np.array([0.0, 0.0, 0.3, *turned(np.array([1.0, 0.3, 0.2]) / np.linalg.norm([1.0, 0.3, 0.2]), angle)])
    path = sim.rollout(q, np.array([1.0, 2.0, 0.5, 0.3, 0.0, 0.0]), steps=1500)
    energy = sum(robot.energy(path.q, path.v))
    assert np.diff(energy).max() < 1e-5 * energy[0]
    assert peak(path.v[-1]) < 1e-10
    assert path.residual.max() < 1e-4


def test_bodies_that_overlap_part_slowly() -> None:
    """A fifth of the overlap in each step, but at most 0.2 m/s."""
    sim = simulation.Simulator(crates((1.0,)), contacts="discover", scene=floor())
    path = sim.rollout([0, 0, 0.02, 1, 0, 0, 0], np.zeros(6), steps=1000)
    assert np.abs(path.v).max() == pytest.approx(0.2)
    assert_near(path.q[-1, 2], 0.05, 1e-12)


def test_impulses_between_free_bodies_conserve_momentum() -> None:
    """A capsule, a sphere and a box that hit each other, without gravity."""
    builder = kt.Builder("three", gravity=(0, 0, 0))
    for name in ("rod", "ball", "crate"):
        builder.add_body(name, joint="floating", mass=1.0 + len(name), inertia=0.01 * np.diag([1.0, 2.0, 2.5]))
    robot = builder.build().with_shapes([
        geo.Capsule("rod", (0, 0, -0.1), (0, 0, 0.1), 0.05), geo.Sphere("ball", (0, 0, 0), 0.08),
        geo.Box("crate", EDGES, rounding=0.01),
    ])  # fmt: skip
    sim = simulation.Simulator(robot, contacts="discover", scene=kt.Scene())
    q = np.concatenate([[0.3, 0, 0, 1, 0, 0, 0], [0, 0.02, 0.03, 1, 0, 0, 0], [-0.3, 0, 0, *turned((0, 0, 1), 0.3)]])
    v = np.zeros(18)
    v[3], v[15], v[1] = -1.0, 1.0, 3.0
    path = sim.rollout(q, v, steps=400)
    _, with_impulses, info = sim.step(path.q, path.v)
    _, without, _ = simulation.Simulator(robot).step(path.q, path.v)
    seen = kt.compiled(turning_bodies.turned, n=18, free=[(0,), (6,), (12,)])
    change = seen(with_impulses, 0.5e-3) - seen(without, 0.5e-3)  # in the middle, where impulses act
    assert peak(change) > 0.1
    middle = robot.integrate(path.q, path.v, 0.5e-3)
    assert peak(robot.centroidal_momentum_matrix(middle) @ change[..., None]) < 1e-13
    momentum = robot.centroidal_momentum_matrix(path.q) @ path.v[..., None]
    assert peak(momentum - momentum[0]) < 2e-4 * peak(momentum)  # the integrator's
    assert info.contacts is not None
    touched = {info.contacts.names[p] for p in np.unique(info.contacts.pair) if p >= 0}
    assert {name for names in touched for name in names} == {"rod", "ball", "crate"}
    energy = robot.energy(path.q, path.v).kinetic
    assert energy[-1] < 0.9 * energy[0]
    assert np.diff(energy).max() < 1e-5 * energy[0]


def test_samples_with_different_numbers_of_contacts_have_the_bits_of_each_alone() -> None:
    """Some in the air, some on an edge, some flat: lanes take the largest problem."""
    sim, q = stack((1.0, 1.0, 10.0))
    rng = np.random.default_rng(0)
    qs, vs = np.tile(q, (11, 1)), 0.2 * rng.standard_normal((11, 18))
    qs[3, 2::7] = 1.0, 2.0, 3.0
    qs[5, 9] += 0.5
    qs[7, 3:7] = turned((0, 1, 0), 0.4)
    vs[0] = 0.0
    batch = sim.rollout(qs, vs, steps=20)
    for i in range(11):
        alone = sim.rollout(qs[i], vs[i], steps=20)
        np.testing.assert_array_equal(alone.q, batch.q[i])
        np.testing.assert_array_equal(alone.residual, batch.residual[i])
    a, b = qs[5], vs[5]
    for _ in range(20):
        a, b, info = sim.step(a, b)
    np.testing.assert_array_equal(a, batch.q[5, -1])
    assert info.contacts is not None
    together = sim.step(qs, vs)[2].contacts
    assert together is not None
    assert sorted({*(together.pair >= 0).sum(axis=-1).tolist()})[0] == 0
    again = pickle.loads(pickle.dumps(sim))
    np.testing.assert_array_equal(again.step(qs, vs)[0], sim.step(qs, vs)[0])


@pytest.mark.filterwarnings("ignore::kinetree.errors.ConvergenceWarning")
@pytest.mark.parametrize("every", [1, 60])
def test_samples_that_are_sorted_by_their_contacts_find_their_places(every: int) -> None:
    """With several batch axes, of which inputs have some, forces for each step, and NaN."""
    sim, q = stack((1.0, 1.0, 10.0))
    rng = np.random.default_rng(1)
    qs, v, tau = np.tile(q, (12, 1)), 0.2 * rng.standard_normal((4, 1, 18)), 0.1 * rng.standard_normal((12, 60, 18))
    qs[::3, 2::7] += rng.uniform(0.0, 0.1, (4, 3))
    qs[1, 9], qs[2, 0] = 1.0, np.nan
    batch = sim.rollout(qs, v, tau, every=every)
    assert batch.q.shape == (4, 12, 60 // every + 1, 21)
    for i, j in np.ndindex(4, 12):
        alone = sim.rollout(qs[j], v[i, 0], tau[j], every=every)
        np.testing.assert_array_equal(alone.q, batch.q[i, j])
        np.testing.assert_array_equal(alone.v, batch.v[i, j])
        if j != 2:
            np.testing.assert_array_equal(alone.residual, batch.residual[i, j])


@pytest.mark.parametrize("threads", [1, 3])
def test_lanes_have_like_numbers_of_contacts_and_threads_all(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "get_threads", lambda: threads)
    number = np.random.default_rng(0).integers(0, 9, 8 * 33 + 5).astype(float)
    order = steps._dealt(number, 8)
    np.testing.assert_array_equal(np.sort(order), np.arange(len(number)))
    blocks = number[order[: 8 * 33]].reshape(threads, -1, 8)
    assert np.ptp(blocks, axis=-1).max() <= 1
    assert np.ptp(blocks.mean(axis=(1, 2))) < 0.5
    assert (np.diff(blocks, axis=1) <= 0).all()


def test_nan_stays_in_its_sample() -> None:
    sim, q = stack((1.0, 1.0, 10.0))
    qs = np.tile(q, (9, 1))
    expected = sim.rollout(q, np.zeros(18), steps=5)
    qs[4, 0] = np.nan
    path = sim.rollout(qs, np.zeros(18), steps=5)
    assert np.isnan(path.q[4, -1]).any()
    for residual in (path.residual[4, 1:], sim.rollout(qs[4], np.zeros(18), steps=5).residual[1:]):
        assert np.isnan(residual).all()
    for i in (0, 3, 5, 8):
        np.testing.assert_array_equal(path.q[i], expected.q)


def test_the_corners_of_a_box_are_the_points_that_one_would_type() -> None:
    corners = [(x, y, -0.05) for x in (-0.1, 0.1) for y in (-0.1, 0.1)]
    typed = simulation.Simulator(
        kt.zoo.box(EDGES, 1.0, "box0"), contacts=[simulation.Points("box0", corners)],
        ground=simulation.Plane(friction=MU),
    )  # fmt: skip
    found = simulation.Simulator(crates((1.0,)), contacts="discover", scene=floor())
    q, v = np.array([0.0, 0.0, 0.2, *turned((0, 1, 0), 0.2)]), np.array([0.0, 0.5, 0.0, 1.0, 0.2, 0.0])
    paths = [sim.rollout(q, v, steps=400) for sim in (typed, found)]
    assert_near(paths[0].q, paths[1].q, 1e-8)


def test_piles_of_all_shapes_stay_on_the_floor() -> None:
    """Five bodies with masses from 0.1 to 10 kg that fall on each other: finite, above the floor, no energy gained."""
    rng, builder = np.random.default_rng(0), kt.Builder("pile")
    half = rng.uniform(0.06, 0.15, (5, 3))
    shapes: list[Any] = [
        geo.Box("b0", 2 * half[0]), geo.Box("b1", 2 * half[1], rounding=0.03), geo.Sphere("b2", (0, 0, 0), 0.1),
        geo.Capsule("b3", (0, 0, -0.1), (0, 0, 0.1), 0.07), geo.Cylinder("b4", 0.1, 0.2),
    ]  # fmt: skip
    for i, mass in enumerate((0.1, 10.0, 1.0, 3.0, 0.5)):
        builder.add_body(f"b{i}", joint="floating", mass=mass, inertia=0.01 * mass * np.diag([1.0, 0.9, 0.8]))
    robot = builder.build().with_shapes(shapes)
    walls = [geo.Box(f"wall{s}", (0.2, 2.0, 0.5), (np.eye(3), (0.6 * s, 0, 0.25))) for s in (-1, 1)]
    sim = simulation.Simulator(robot, contacts="discover", scene=kt.Scene([geo.Plane("floor"), *walls]), dt=2e-3)
    q = robot.random_configuration(rng, (8,))
    for i in range(5):
        q[:, 7 * i : 7 * i + 2], q[:, 7 * i + 2] = rng.uniform(-0.15, 0.15, (8, 2)), 0.3 + 0.4 * i
    with warnings.catch_warnings():  # some steps do not converge
        warnings.simplefilter("ignore", ConvergenceWarning)
        path = sim.rollout(q, np.zeros(30), steps=600, every=5)
        infos = sim.step(path.q, path.v)[2]
    assert np.isfinite(path.q).all()
    assert path.converged.mean() > 0.95
    assert (path.q[..., 2::7] > 0.03).all()
    assert infos.penetration.max() < 5e-3
    energy = sum(robot.energy(path.q, path.v))
    assert np.diff(energy, axis=1).max() < 0.01 * energy[:, 0].max()
    assert infos.contacts is not None
    assert (infos.contacts.pair >= 0).sum(axis=-1).max() > 10


# Manifolds


STONE = np.random.default_rng(3).normal(size=(40, 3)) * (0.1, 0.07, 0.05) + (0.3, 0.0, 0.1)
SHAPES: dict[str, Any] = {
    "sphere": lambda body: geo.Sphere(body, (0, 0, 0), 0.1),
    "capsule": lambda body: geo.Capsule(body, (0, 0, -0.15), (0, 0, 0.15), 0.07),
    "box": lambda body: geo.Box(body, (0.2, 0.3, 0.16)),
    "rounded": lambda body: geo.Box(body, (0.2, 0.3, 0.16), rounding=0.02),
    "hull": lambda body: geo.Hull(body, points=STONE),
    "plane": lambda body: geo.Plane(body),
}


PAIRS = [
    *(("sphere", kind) for kind in SHAPES if kind != "hull"),
    *(("capsule", kind) for kind in SHAPES if kind not in ("sphere", "hull")),
    ("box", "box"), ("box", "rounded"), ("rounded", "rounded"), ("box", "plane"), ("rounded", "plane"),
    ("hull", "plane"),
]  # fmt: skip


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_the_smallest_gap_is_the_distance(kinds: tuple[str, str]) -> None:
    """Of random pairs that barely touch; edges win over faces of boxes by a margin only."""
    builder = kt.Builder("pair")
    for name in ("a", "b"):
        builder.add_body(name, joint="floating", mass=1.0, inertia=np.eye(3))
    robot = builder.build()
    shapes = [SHAPES[kind](name) for name, kind in zip("ab", kinds, strict=True)]
    if kinds[1] == "plane":
        scene = kt.Scene([shapes[1]])
        robot = robot.with_shapes(shapes[:1])
    else:
        scene = kt.Scene()
        robot = robot.with_shapes(shapes)
    pairs = robot.collision_pairs(scene=scene, keep_colliding=True)
    sim = simulation.Simulator(robot, contacts=pairs)
    rng = np.random.default_rng(0)
    q = robot.random_configuration(rng, (400,))
    q[:, 7:10] = 0.0
    # move a along the line of nearest points until they overlap by a millimetre at most
    for _ in range(30):
        near = robot.distances(q, pairs)
        q[:, :3] -= (near.distance[:, 0] + rng.uniform(0.0, 1e-3, 400))[:, None] * near.normal[:, 0]
    near = robot.distances(q, pairs)
    d, n = near.distance[:, 0], near.normal[:, 0]
    touching = (d < 0.0) & (d > -2e-3)
    assert touching.mean() > 0.6
    _, _, info = sim.step(q, np.zeros(robot.nv))  # the midpoint of a step at rest
    assert info.contacts is not None
    gaps = np.where(info.contacts.pair >= 0, info.contacts.gap, np.inf)
    least, at = gaps.min(axis=-1), gaps.argmin(axis=-1)
    # edges of boxes, and vertices of hulls that are nearly level
    slack = {"box": 1e-3 * 0.08, "hull": 1e-6}.get(kinds[0], 1e-12)
    assert (np.abs(least - d)[touching] <= slack).all()
    same = touching & (np.abs(least - d) < 1e-12)
    assert same.mean() > 0.5
    rows = np.arange(400)[same]
    assert_near(info.contacts.normal[rows, at[same]], n[same], 1e-6)
    alone = same & ((info.contacts.pair >= 0).sum(axis=-1) == 1)
    middle = near.points[:, 0, 0] if kinds[1] == "plane" else near.points[:, 0].mean(axis=1)
    assert_near(info.contacts.point[np.arange(400), at][alone], middle[alone], 1e-6)


def test_the_hull_of_a_box_moves_as_the_box() -> None:
    """Wherever its points are counted from; on the floor by its corners, on a box by the box around it."""
    away, half = np.array([0.3, -0.2, 1.0]), 0.5 * np.array(EDGES)
    corners = half * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    inside = np.random.default_rng(0).uniform(-1.0, 1.0, (20, 3)) * half
    hull = geo.Hull("box0", points=np.concatenate([corners, inside]) + away, placement=(np.eye(3), -away), friction=MU)
    boxes = crates((1.0,))
    table = kt.Scene([geo.Box("table", (1.0, 1.0, 0.2), (np.eye(3), (0.0, 0.0, -0.1)), friction=MU)])
    q, v = np.array([0.0, 0.0, 0.12, *turned((0.6, 0.8, 0), 0.4)]), np.array([0.0, 0.5, 1.0, 0.5, 0.0, 0.0])
    for scene in (floor(), table):
        paths = [
            simulation.Simulator(robot, contacts="discover", scene=scene).rollout(q, v, steps=600)
            for robot in (boxes, boxes.with_shapes([hull]))
        ]
        assert peak(paths[0].v[-1]) < 1e-9
        assert_near(paths[1].q, paths[0].q, 1e-9)


def plate(sides: int, rim: float) -> geo.Hull:
    """A polygon with a radius of 0.1 m, 0.04 m high, whose edges are bevelled by half a millimetre."""
    angles = np.arange(sides) * (2.0 * np.pi / sides)
    rows = (1.0, -0.2), (1.0, 0.2), (rim, -0.195)
    return geo.Hull("box0", points=np.array([[r * np.cos(a), r * np.sin(a), z] for a in angles for r, z in rows]) * 0.1)


def test_a_hull_lies_on_the_corners_of_a_face() -> None:
    """An octagonal plate: four corners of the lower face carry it, whatever its angle, and none falls through."""
    robot = crates((1.0,)).with_shapes([plate(8, 1.02)])
    sim = simulation.Simulator(robot, contacts="discover", scene=floor())
    q = np.array([[0.0, 0.0, 0.02, *turned((0, 0, 1), angle)] for angle in np.linspace(0.0, 3.0, 16)])
    _, _, info = sim.step(q, np.zeros(6))
    assert info.contacts is not None
    assert ((info.contacts.pair == 0).sum(axis=-1) == 4).all()
    assert_near(info.contacts.force[..., 2].sum(axis=-1), 9.81, 1e-9)
    assert_near(np.linalg.norm(info.contacts.point[:, :4, :2], axis=-1), 0.1, 1e-9)


def test_the_lowest_vertex_of_a_tilted_plate_is_a_contact() -> None:
    """Also where the corners, and what is out of their plane, are others."""
    robot = crates((1.0,)).with_shapes([plate(40, 1.0)])
    sim = simulation.Simulator(robot, contacts="discover", scene=floor(), method="semi_implicit_euler")
    rng, points = np.random.default_rng(0), np.array(plate(40, 1.0).vertices)
    q = np.array([[0.0, 0.0, 0.0, *turned((np.cos(a), np.sin(a), 0.0), 0.1)] for a in rng.uniform(0.0, 6.0, 64)])
    q[:, 2] = 1e-4 - (robot.pose(q, "box0")[:, None, :3, :3] @ points[..., None])[..., 2, 0].min(axis=1)
    _, _, info = sim.step(q, np.zeros(6))
    assert info.contacts is not None
    assert_near(np.where(info.contacts.pair < 0, np.inf, info.contacts.gap).min(axis=-1), 1e-4, 1e-7)


#: One side of a foot whose sole bows down twice: 0.19 mm from its rim to six vertices, and 8 µm between these.
SOLE = np.array([
    (-17.8, 10.5, -12.244), (2.2, 3.0, -12.244), (56.3, 2.7, -12.236), (16.3, 19.6, -12.056), (39.3, 18.4, -12.056),
    (-38.6, 14.4, -12.056), (50.6, 13.7, -12.056), (-43.5, 13.3, -12.056), (-51.0, 0.9, -12.056), (-30.8, 15.4, -2.3),
    (33.5, 20.1, -2.2),
]) * 1e-3  # fmt: skip


#: A tetrahedron on a triangle whose blunt corner lies farthest to none of four sides.
WEDGE = np.array([(-100.0, -10.0, 0.0), (100.0, -10.0, 0.0), (0.0, 12.0, 0.0), (0.0, -2.0, 50.0)]) * 1e-3
#: The same with a face beside it that rises by 1 mrad, and has one of the corners.
BESIDE = np.concatenate([WEDGE, [(0.0, -0.13, 1.2e-4)]])


@pytest.mark.parametrize(
    ("points", "centre"),
    [
        *((np.concatenate([SOLE, SOLE * (1, -1, 1)]), (x, y, 0.05)) for x, y in ((0.01, 0), (0.03, 0.001), (-5e-3, 0))),
        (WEDGE, (0.0, 0.003, 0.005)),
        (BESIDE, (0.0, 0.003, 0.005)),
    ],
)
def test_a_hull_rests_on_a_bowed_or_narrow_face(points: Array, centre: tuple[float, ...]) -> None:
    """On three or four vertices, without trembling: those that are below the corners, or a triangle's third."""
    hull = geo.Hull("box0", points=points - centre)
    sim = simulation.Simulator(crates((1.0,)).with_shapes([hull]), contacts="discover", scene=floor())
    path = sim.rollout([0.0, 0.0, 0.02 + centre[2], *turned((0.9, 0.3, 0.3), 0.02)], np.zeros(6), steps=3500, every=100)
    assert peak(path.v[-1]) < 1e-9
    assert peak(path.q[-1, 4:6]) < 0.01  # not on another face
    _, _, info = sim.step(path.q[-1], path.v[-1])
    assert info.contacts is not None
    assert 3 <= (np.abs(info.contacts.gap[info.contacts.pair >= 0]) < 1e-8).sum() <= 4


def test_faces_touch_at_the_corners_of_what_they_share() -> None:
    sim, q = stack((1.0, 1.0), turn=0.0)
    _, _, info = sim.step(q, np.zeros(12))
    assert info.contacts is not None
    between = [i for i, p in enumerate(info.contacts.pair) if p >= 0 and "floor" not in info.contacts.names[p]]
    found = info.contacts.point[between]
    expected = [(x, y, 0.1) for x in (-0.09, 0.1) for y in (-0.095, 0.1)]
    assert_near(np.array(sorted(map(tuple, np.round(found, 12)))), np.array(expected), 1e-12)
    turned_by = q.copy()
    turned_by[7 + 3 :] = turned((0, 0, 1), np.pi / 4)  # the middle of an octagon
    _, _, info = sim.step(turned_by, np.zeros(12))
    assert info.contacts is not None
    on = info.contacts.pair >= 0
    assert 8 <= on.sum() <= 9
    assert peak(sim.step(turned_by, np.zeros(12))[1]) < 1e-12


@pytest.mark.parametrize("kind", ["capsule", "cylinder"])
def test_round_bodies_lie_roll_and_stand(kind: str) -> None:
    """A cylinder stands on its end; both roll down a slope without slipping, with the acceleration of their inertia."""
    r, half, m = 0.1, 0.2, 2.0
    inertia = np.diag([0.05, 0.05, 0.5 * m * r * r])
    robot = kt.Builder(kind).add_body("body", joint="floating", mass=m, inertia=inertia).build()
    shape: Any = geo.Cylinder("body", r, 2 * half, friction=1.0)
    if kind == "capsule":
        shape = geo.Capsule("body", (0, 0, -half), (0, 0, half), r, friction=1.0)
    robot = robot.with_shapes([shape])
    angle = 0.1
    sim = simulation.Simulator(robot, contacts="discover", scene=floor(1.0, angle))
    level = turned((1, 0, 0), np.pi / 2)
    q = np.array([r * np.sin(angle), 0.0, r * np.cos(angle), *level])
    path = sim.rollout(q, np.zeros(6), steps=300)
    assert_near(np.linalg.norm(path.q[-1, :3] - q[:3]), 0.5 * (2.0 / 3.0) * 9.81 * np.sin(angle) * 0.3**2, 2e-4)
    assert path.residual.max() < 1e-4
    if kind == "cylinder":
        sim = simulation.Simulator(robot, contacts="discover", scene=floor(1.0))
        q = np.array([0.0, 0.0, half + 0.01, 1.0, 0.0, 0.0, 0.0])
        path = sim.rollout(q, np.zeros(6), steps=400)
        assert_near(path.q[-1], [0.0, 0.0, half, 1.0, 0.0, 0.0, 0.0], 1e-10)


def test_an_ellipsoid_comes_to_rest_on_its_flat_side() -> None:
    robot = kt.Builder("egg").add_body("egg", joint="floating", mass=1.0, inertia=0.01 * np.eye(3)).build()
    robot = robot.with_shapes([geo.Ellipsoid("egg", (0.1, 0.2, 0.3))])
    sim = simulation.Simulator(robot, contacts="discover", damping=0.05)
    path = sim.rollout(np.array([0, 0, 0.35, *turned((0.6, 0.8, 0), 1.0)]), np.zeros(6), steps=6000, every=1000)
    assert path.q[-1, 2] == pytest.approx(0.1, abs=1e-3)


def test_bodies_touch_the_world_with_points_of_their_own() -> None:
    """Also where the fixed shape is the first of its pair: a box above a ball."""
    ball = kt.Scene([geo.Sphere("ball", (0, 0, 0), 0.1)])
    sim = simulation.Simulator(crates((1.0,)), contacts="discover", scene=ball, method="semi_implicit_euler")
    _, _, info = sim.step([0, 0, 0.1505, 1, 0, 0, 0], np.zeros(6))
    assert info.contacts is not None
    assert info.contacts.names[info.contacts.pair[0]] == ("ball", "box0")
    assert_near(info.contacts.gap[0], 5e-4, 1e-12)
    assert_near(info.contacts.point[0], [0.0, 0.0, 0.1005], 1e-12)


def test_a_rod_that_spins_towards_a_box_is_seen_in_time() -> None:
    builder = kt.Builder("rod").add_body("rod", joint="floating", mass=1.0, inertia=0.01 * np.eye(3))
    robot = builder.build().with_shapes([geo.Capsule("rod", (-0.2, 0, 0), (0.2, 0, 0), 0.02)])
    scene = kt.Scene([geo.Box("table", (1, 1, 0.1), (np.eye(3), (0, 0, -0.05)))])
    sim = simulation.Simulator(robot, contacts="discover", scene=scene, method="semi_implicit_euler")
    q = np.array([0, 0, 0.025, 1, 0, 0, 0])
    for spin, count in ((0.0, 0), (50.0, 2)):
        _, _, info = sim.step(q, [0, spin, 0, 0, 0, 0])
        assert info.contacts is not None
        assert (info.contacts.pair >= 0).sum() == count


@pytest.mark.parametrize(("gap", "count"), [(5e-4, 3), (1.5e-3, 0)])
def test_what_is_within_a_millimetre_is_a_contact_also_at_rest(gap: float, count: int) -> None:
    """Two balls beside each other above the floor."""
    builder = kt.Builder("balls")
    for name in ("a", "b"):
        builder.add_body(name, joint="floating", mass=1.0, inertia=0.01 * np.eye(3))
    balls = builder.build().with_shapes([geo.Sphere(name, (0, 0, 0), 0.1) for name in ("a", "b")])
    sim = simulation.Simulator(balls, contacts="discover", method="semi_implicit_euler")
    _, _, info = sim.step([0, 0, 0.1 + gap, 1, 0, 0, 0, 0.2 + gap, 0, 0.1 + gap, 1, 0, 0, 0], np.zeros(12))
    assert info.contacts is not None
    assert (info.contacts.pair >= 0).sum() == count


def test_only_points_on_bodies_of_their_own_take_the_stiff_law() -> None:
    """Two balls on the floor do; not if they touch each other, nor a box, which touches twice."""
    builder = kt.Builder("balls")
    for name in ("a", "b"):
        builder.add_body(name, joint="floating", mass=1.0, inertia=0.01 * np.eye(3))
    balls = builder.build().with_shapes([geo.Sphere(name, (0, 0, 0), 0.1) for name in ("a", "b")])
    cases = (
        (balls, [0, 0, 0.1, 1, 0, 0, 0, 0.5, 0, 0.1, 1, 0, 0, 0], 0),
        (balls, [0, 0, 0.1, 1, 0, 0, 0, 0.2, 0, 0.1, 1, 0, 0, 0], 1),
        (crates((1.0,)), [0, 0, 0.05, 1, 0, 0, 0], 1),
    )
    for robot, q, number in cases:
        found: Any = simulation.Simulator(robot, contacts="discover")._discovered
        T = bind(poses, robot.mechanism, found._of.sites, "poses")(np.array(q, dtype=float))
        shapes = T, found._of.sizes, np.zeros((len(T), 6))
        rest = found._of.candidates[:, :3], np.arange(float(found.most)), (1e-3, 1e-3), found._laws
        _, count, law = found._discover(*shapes, *shapes, found._of.vertices, np.ones((1, 8)), *rest)
        assert count > 1
        np.testing.assert_array_equal(law, found._laws[number])
    rubbing: Any = simulation.Simulator(balls, contacts="discover", friction=0.1)._discovered
    assert rubbing._laws[0][0] == rubbing._laws[1][0] == 1e-4


# Height fields


GROUND = np.random.default_rng(0).uniform(0.0, 0.2, (7, 9))


def on_ground(shape: Any, placement: Any = None) -> tuple[kt.Model, simulation.Simulator]:
    """A free body over a height field of 4 m by 3 m."""
    builder = kt.Builder("body").add_body("body", joint="floating", mass=1.0, inertia=0.01 * np.eye(3))
    robot = builder.build().with_shapes([shape])
    field = geo.HeightField(GROUND, (4.0, 3.0), placement, name="ground", friction=0.9)
    return robot, simulation.Simulator(robot, contacts="discover", scene=kt.Scene([field]))


def test_a_ball_over_a_height_field_has_the_gap_of_the_tangent_plane() -> None:
    """As the height field for points, whose first axis is x; also turned about the vertical, and moved."""
    rng, count = np.random.default_rng(1), 300
    ground = simulation.HeightField(GROUND.T, (4.0, 3.0))
    points = rng.uniform((-1.99, -1.49, 0.0), (1.99, 1.49, 0.0), (count, 3))
    gap, normal = ground.gap(points)
    points[:, 2] = -gap / normal[:, 2] + (0.1 + rng.uniform(-1e-3, 5e-4, count)) / normal[:, 2]
    gap, normal = ground.gap(points)
    R = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    for placement, turn, shift in (
        (None, np.eye(3), np.zeros(3)),
        ((R, (0.5, 0.2, 0.1)), R, np.array([0.5, 0.2, 0.1])),
    ):
        _, sim = on_ground(geo.Sphere("body", (0, 0, 0), 0.1), placement)
        q = np.concatenate([points @ turn.T + shift, np.tile([1.0, 0, 0, 0], (count, 1))], axis=1)
        _, _, info = sim.step(q, np.zeros(6))
        assert info.contacts is not None
        assert (info.contacts.pair[:, 0] == 0).all()
        assert_near(info.contacts.gap[:, 0], gap - 0.1, 1e-12)
        assert_near(info.contacts.normal[:, 0], normal @ turn.T, 1e-9)
        assert_near(info.contacts.point[:, 0], q[:, :3] - 0.1 * normal @ turn.T, 1e-9)


@pytest.mark.parametrize(
    "shape",
    [geo.Box("body", (0.2, 0.3, 0.1)), geo.Cylinder("body", 0.1, 0.2), geo.Hull("body", points=STONE - (0.3, 0, 0.1))],
    ids=["box", "can", "hull"],
)
def test_bodies_come_to_rest_on_rough_ground(shape: Any) -> None:
    robot, sim = on_ground(shape)
    rng = np.random.default_rng(0)
    q = robot.random_configuration(rng, (8,))
    q[:, :2], q[:, 2] = rng.uniform(-1.0, 1.0, (8, 2)), 0.6
    with warnings.catch_warnings():  # few of 32,000 steps do not converge
        warnings.simplefilter("ignore", ConvergenceWarning)
        path = sim.rollout(q, np.zeros(6), steps=4000, every=1000)
        alone = sim.rollout(q[3], np.zeros(6), steps=500)
        np.testing.assert_array_equal(sim.rollout(q, np.zeros(6), steps=500).q[3], alone.q)
    assert peak(path.v[:, -1]) < 1e-6
    assert (path.q[:, -1, 2] > 0.05).all()


def test_a_hull_of_a_file_lies_on_a_height_field(tmp_path: Path) -> None:
    corners = 0.1 * np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (0, 2)])
    (tmp_path / "cube.obj").write_text("".join(f"v {x} {y} {z}\n" for x, y, z in corners) + "f 1 2 3 4\nf 5 6 7 8\n")
    _, sim = on_ground(geo.Hull("body", str(tmp_path / "cube.obj"), placement=(np.eye(3), (0.0, 0.0, -0.1))))
    path = sim.rollout(np.array([5.0, -4.0, 0.5, 1.0, 0.0, 0.0, 0.0]), np.zeros(6), steps=600)
    assert_near(path.q[-1, :3], [5.0, -4.0, 0.1 + GROUND[0, -1]], 1e-9)


def test_beyond_its_edges_the_ground_is_level() -> None:
    _, sim = on_ground(geo.Sphere("body", (0, 0, 0), 0.1))
    q = np.array([5.0, -4.0, 0.5, 1.0, 0.0, 0.0, 0.0])
    path = sim.rollout(q, np.zeros(6), steps=600)
    assert_near(path.q[-1, :3], [5.0, -4.0, 0.1 + GROUND[0, -1]], 1e-9)


# What may touch


def test_a_robot_has_a_floor_unless_there_is_something_else() -> None:
    robot = crates((1.0,))
    path = simulation.Simulator(robot, contacts="discover").rollout([0, 0, 0.3, 1, 0, 0, 0], np.zeros(6), steps=400)
    assert_near(path.q[-1, :3], [0.0, 0.0, 0.05], 1e-12)
    on_table = robot.with_shapes([geo.Box("table", (1, 1, 0.1), body="world")], add=True)
    path = simulation.Simulator(on_table, contacts="discover").rollout([0, 0, 0.3, 1, 0, 0, 0], np.zeros(6), steps=400)
    assert_near(path.q[-1, :3], [0.0, 0.0, 0.1], 1e-12)


def test_friction_of_a_pair() -> None:
    a, b = geo.Sphere("a", (0, 0, 0), 1.0, friction=0.25), geo.Sphere("b", (0, 0, 0), 1.0)
    assert combined(a, a) == pytest.approx(0.25)
    assert combined(a, b) == pytest.approx(np.sqrt(0.25 * 0.7))
    c, d = (geo.Sphere(n, (0, 0, 0), 1.0, friction=f, masks=(1, 1)) for n, f in (("c", 0.25), ("d", 1.0)))
    assert combined(c, d) == 1.0
    assert combined(a, d) == pytest.approx(0.5)


def test_boxes_beside_each_other_are_looked_at_without_a_warning() -> None:
    """Those of A1's legs: turned by a right angle whose cosine is not quite zero, and one further down."""
    turn = np.array([[6e-17, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 6e-17]])
    builder, shapes = kt.Builder("legs").add_body("trunk", joint="floating", mass=1.0, inertia=np.eye(3)), []
    for name, y, z, size in (("right", -0.13, 0.0, (0.2, 0.0245, 0.034)), ("left", 0.13, -0.2, (0.2, 0.016, 0.016))):
        at = np.eye(3), (0.18, y, z)
        builder.add_body(name, parent="trunk", placement=at, mass=1.0, inertia=np.eye(3))
        shapes.append(geo.Box(name, size, (turn, (0.0, 0.0, -0.1))))
    simulation.Simulator(builder.build().with_shapes(shapes), contacts="discover")


def test_links_that_overlap_at_rest_are_left_out_with_a_warning() -> None:
    builder = kt.Builder("chain").add_body("base", joint="floating", mass=1.0, inertia=np.eye(3))
    for name, parent in (("upper", "base"), ("lower", "upper")):
        at = np.eye(3), (0, 0, -0.1)
        builder.add_body(name, parent=parent, axis=(0, 1, 0), placement=at, mass=1.0, inertia=np.eye(3))
    robot = builder.build().with_shapes([geo.Sphere(name, (0, 0, 0), 0.11) for name in ("base", "upper", "lower")])
    with pytest.warns(ModelWarning, match="collide at the neutral configuration are left out: base–lower"):
        sim = simulation.Simulator(robot, contacts="discover")
    assert all("floor" in names for names in sim._discovered.pairs)  # type: ignore[union-attr]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulation.Simulator(robot, contacts=robot.collision_pairs(keep_colliding=True, scene=floor()))


def test_contacts_that_are_too_many_are_told() -> None:
    """The corners of boxes on the floor: 64 are solved, and 68 are not."""
    robot = crates((1.0,) * 17)
    sim = simulation.Simulator(robot, contacts="discover")
    q = np.concatenate([[0.3 * i, 0, 0.05, 1, 0, 0, 0] for i in range(17)])
    with pytest.warns(ConvergenceWarning, match="More than 64 contacts"):
        _, _, info = sim.step(q, np.zeros(robot.nv))
    assert info.residual == np.inf
    assert not info.converged
    q[2] += 1.0
    _, v, info = sim.step(q, np.zeros(robot.nv))
    assert info.residual < 1e-10
    assert peak(v[6:]) < 1e-12


def test_what_cannot_be_discovered_is_refused() -> None:
    robot = crates((1.0,))
    refused("discover", simulation.Simulator, robot, contacts="find", error=UnknownNameError)
    refused('contacts="discover"', simulation.Simulator, robot, scene=floor())
    refused(
        "scene is a kinetree.Scene, got list: pass",
        simulation.Simulator,
        robot,
        contacts="discover",
        scene=[geo.Plane()],
    )
    refused("has no shapes", simulation.Simulator, model("humanoid24"), contacts="discover")
    own = kt.Scene([geo.Plane("box0")])
    refused("both have a shape 'box0'", simulation.Simulator, robot, contacts="discover", scene=own, error=ModelError)
    hull = kt.Scene([geo.Hull("rock", "rock.stl")])
    refused("rock.stl", simulation.Simulator, robot, contacts="discover", scene=hull, error=LoadError)
    refused("methods", simulation.Simulator, robot, contacts="discover", method="rk4")
    refused("nothing is around it", simulation.Simulator, robot, contacts="discover", scene=kt.Scene())
    ground = simulation.Plane()
    refused(r"is a scene=kt.Scene\(", simulation.Simulator, robot, contacts="discover", ground=ground)
    refused("or a list of points; got bool", simulation.Simulator, robot, contacts=True)
    refused("robot is a kinetree.Model or a population of one, got str", simulation.Simulator, "robot.urdf")


def test_boxes_that_are_welded_touch_as_typed_points_do() -> None:
    """Constraints are eliminated from contacts; also rows that depend on each other. Contacts pull on no constraint."""
    robot, at = crates((1.0, 2.0)), np.array([0, 0, 0.053, 1, 0, 0, 0, 0.25, 0, 0.053, 1, 0, 0, 0.0])
    corners = [(x, y, z) for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.05, 0.05)]
    typed = simulation.Simulator(
        robot, contacts=[simulation.Points(f"box{i}", corners) for i in (0, 1)], constraints=[kt.Weld("box0", "box1")],
        at=at, ground=simulation.Plane(friction=MU),
    )  # fmt: skip
    path = typed.rollout(at, np.zeros(12), np.tile([0, 0, 0, 3.0, 0, 0, 0, 0.5, 0, 0, 0, 0], (60, 1)))
    twice = [kt.Weld("box0", "box1"), kt.Distance("box0", "box1")]
    for held in (twice[:1], twice):
        found = simulation.Simulator(robot, contacts="discover", constraints=held, at=at, scene=floor())
        other = found.rollout(at, np.zeros(12), np.tile([0, 0, 0, 3.0, 0, 0, 0, 0.5, 0, 0, 0, 0], (60, 1)))
        assert other.converged.all()
        assert_near(other.q, path.q, 1e-9)
    q, v = at, np.zeros(12)
    for _ in range(3):
        q, v, info = found.step(q, v, np.array([0, 0, 0, 3.0, 0, 0, 0, 0.5, 0, 0, 0, 0]))
    np.testing.assert_array_equal(q, other.q[3])
    assert set(info.constraint_forces) == set(found.constraints.names)  # type: ignore[union-attr]


def test_coupled_joints_touch_as_typed_points_do() -> None:
    """A box on a finger that mimics the other one, over a floor."""
    robot = gripper()
    name, half = robot.bodies[-1].name, np.array([0.05, 0.04, 0.06])
    corners = [half * (x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    q = robot.neutral()
    lowest = robot.pose(q, name)[2, 3] - 0.2
    typed = simulation.Simulator(
        robot, contacts=[simulation.Points(name, corners)], ground=simulation.Plane(offset=lowest, friction=MU),
        damping=0.1,
    )  # fmt: skip
    ground = kt.Scene([geo.Plane("floor", (np.eye(3), (0, 0, lowest)), friction=MU)])
    shaped = robot.with_shapes([geo.Box(name, 2.0 * half, friction=MU)])
    found = simulation.Simulator(shaped, contacts="discover", scene=ground, damping=0.1)
    paths = [sim.rollout(q, np.zeros(robot.nv), steps=600) for sim in (typed, found)]
    assert peak(paths[1].v[300:] - paths[1].v[299:-1]) > 0.1  # it hits the floor
    assert_near(paths[0].q, paths[1].q, 1e-6)


def test_rows_of_bodies_are_those_of_joints() -> None:
    """Both kernels, for a robot of rigid bodies with three contacts."""
    rng, robot = np.random.default_rng(0), model("humanoid24")
    q, v = robot.random_configuration(rng), rng.standard_normal(robot.nv)
    frames = [body.name for body in robot.bodies]
    nodes = np.array([1.0 + robot.site(frame).node for frame in frames])
    contact = rng.standard_normal((3, CONTACT))
    contact[:, 3:6] /= np.linalg.norm(contact[:, 3:6], axis=1)[:, None]
    contact[:, 7], contact[:, 8], contact[:, 9] = 0.5, nodes[[5, 9, -1]], [0.0, nodes[2], nodes[-2]]
    nv = robot.nv
    subtrees = np.zeros((nv, 2))
    for node in range(len(robot.mechanism.parents)):
        own = slice(robot.mechanism.v_starts[node], robot.mechanism.v_starts[node + 1])
        subtrees[own] = 1 + node, 1 + robot.mechanism.topology.subtree_end(node)
    Minv = robot.mass_matrix_inverse(q)
    rest = Minv, np.diag(Minv), v, 1e-3, *np.zeros((3, nv))
    sizes: dict[str, Any] = {"s": 3, "n": nv, "r": 10, "contacts": [(3 * i, i) for i in range(3)], "joints": [(9, 4)]}
    screws = bind(joint_screws, robot.mechanism, (), "screws")(q)
    one = kt.compiled(discovered_rows, **sizes)(contact, screws, subtrees, *rest)
    jacobians = robot.jacobian(q, frames, "world")
    other = kt.compiled(discovered_rows_of_bodies, m=len(frames), once=1, **sizes)(contact, jacobians, nodes, *rest)
    for a, b in zip(one, other, strict=True):
        assert_close(a, b, bound(nv, condition(robot.mass_matrix(q))))
    G, free, _, axes, response = one
    rows = []
    for k in range(3):
        x = contact[k, :3]
        at = [
            robot.jacobian(q, frames[list(nodes).index(n)], "world") if n else np.zeros((6, nv))
            for n in contact[k, 8:10]
        ]
        rows.append(
            axes[3 * k : 3 * k + 3] @ ((at[0] - at[1])[3:] + np.cross((at[0] - at[1])[:3], x, axisa=0, axisc=0))
        )
    J = np.concatenate([*rows, np.eye(nv)[4:5]])
    assert_close(G, J @ rest[0] @ J.T, bound(nv, condition(robot.mass_matrix(q))))
    assert_close(response, rest[0] @ J.T, bound(nv, condition(robot.mass_matrix(q))))
    gaps = np.where(contact[:, 6] > 0.0, contact[:, 6] / 1e-3, np.maximum(0.2 * contact[:, 6] / 1e-3, -0.2))
    expected = J @ v
    expected[2:9:3] += gaps
    assert_close(free, expected, bound(nv))


def test_a_population_and_stops_of_joints_with_discovered_contacts() -> None:
    """Robots of different masses, whose legs fold to their stops."""
    builder = kt.Builder("hopper").add_body("base", joint="floating", mass=2.0, inertia=0.1 * np.eye(3))
    builder.add_body(
        "foot", parent="base", joint="prismatic", axis=(0, 0, 1), mass=0.5, inertia=0.01 * np.eye(3),
        limits=kt.Limits(lower=-0.1, upper=0.05), placement=(np.eye(3), (0, 0, -0.3)),
    )  # fmt: skip
    robot = builder.build().with_shapes([geo.Box("foot", (0.2, 0.2, 0.02))])
    sim = simulation.Simulator(robot, contacts="discover", limits=True)
    q = np.array([0, 0, 0.5, 1, 0, 0, 0, 0.0])
    path = sim.rollout(q, np.zeros(7), steps=800)
    assert path.q[-1, 7] == pytest.approx(0.05, abs=1e-9)
    assert path.q[-1, 2] == pytest.approx(0.01 + 0.25, abs=1e-9)
    _, _, info = sim.step(path.q[-1], path.v[-1])
    assert_near(info.joint_forces[6], -2.0 * 9.81, 1e-6)
    factors = np.linspace(1.0, 3.0, 33)
    heavier = np.stack([robot.inertial_parameters] * 33)
    heavier[:, 0] *= factors[:, None]
    many = simulation.Simulator(robot.population(heavier), contacts="discover", limits=True)
    _, _, info = many.step(np.tile(path.q[-1], (33, 1)), np.zeros((33, 7)))
    assert_near(info.joint_forces[:, 6], -2.0 * 9.81 * factors, 1e-5)
    starts, v = np.tile(q, (33, 1)), np.zeros((33, 7))
    starts[:, 2] = np.random.default_rng(0).uniform(0.31, 0.33, 33)
    end = many.rollout(starts, v, steps=60, every=60)  # samples are sorted by their contacts, masses with them
    for _ in range(60):
        starts, v, _ = many.step(starts, v)
    np.testing.assert_array_equal(end.q[:, -1], starts)
