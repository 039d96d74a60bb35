"""Distances of cylinders, ellipsoids and hulls: laws, certificates, shapes that have closed forms as well."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import geometry as geo
from kinetree.algorithms.kinematics.frame_kinematics import poses
from kinetree.errors import ConvergenceError, UnsupportedError
from kinetree.model import convex_distances
from kinetree.model.convex_distances import ConvexDistances
from kinetree.model.field_distances import PROBED, Ground
from kinetree.model.shapes import MEASURED
from kinetree.runtime.kernels import bind
from tests.oracle import oracle
from tests.tolerance import assert_near, bound, refused

oracle("coal")
TOL = bound(6)
#: Certificates of results; distances are as good, derivatives have the square root.
CERTIFIED = 1e-6

#: Kinds whose distances from each other have closed forms.
CLOSED = ("sphere", "capsule", "box", "plane")
KINDS = [
    (a, b) for a, b in itertools.combinations_with_replacement(MEASURED, 2)
    if not {a, b} <= set(CLOSED) and "height field" not in (a, b)
]  # fmt: skip


def shape(kind: str, rng: Any, name: str, size: float = 0.4) -> geo.SolidShape:
    """A random shape around the origin of a body, turned and moved a little."""
    turn, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    at: Any = (turn * np.linalg.det(turn), 0.1 * rng.standard_normal(3))
    x, y, z = (size * 10 ** rng.uniform(-1.0, 0.0, 3)).tolist()
    if kind == "sphere":
        return geo.Sphere(name, at[1], x)
    if kind == "capsule":
        return geo.Capsule(name, at[1], at[1] + at[0][:, 2] * y, x)
    if kind == "box":
        return geo.Box(name, (x, y, z), at, rounding=float(rng.choice([0.0, 0.2 * min(x, y, z)])))
    if kind == "cylinder":
        return geo.Cylinder(name, x, 2.0 * y, at)
    if kind == "ellipsoid":
        return geo.Ellipsoid(name, (x, y, z), at)
    if kind == "hull":
        points = rng.standard_normal((int(rng.integers(4, 40)), 3))
        return geo.Hull(name, points=points / np.linalg.norm(points, axis=1, keepdims=True) * (x, y, z), placement=at)
    return geo.Plane(name, at)


def world(*shapes: geo.SolidShape) -> tuple[kt.Model, geo.CollisionPairs]:
    """Free bodies with a shape each."""
    builder = kt.Builder("world")
    for one in shapes:
        builder.add_body(one.name, joint="floating", mass=1.0, inertia=np.eye(3))
        builder.add_shape(one)
    robot = builder.build()
    return robot, robot.collision_pairs(keep_colliding=True)


def places(robot: kt.Model, rng: Any, count: int, spread: float = 0.4) -> Any:
    q = robot.random_configuration(rng, (count,))
    for joint in robot.joints:
        q[:, joint.q_start : joint.q_start + 3] = spread * rng.standard_normal((count, 3))
    return q


def by_coal(robot: kt.Model, pairs: geo.CollisionPairs, q: Any) -> tuple[ConvexDistances, Any]:
    """coal's distances of all pairs, and the poses of all shapes."""
    sites = tuple(map(robot._shape_site, pairs.shapes))
    placed = bind(poses, robot.mechanism, sites, "distances")
    return ConvexDistances(pairs.shapes, pairs.numbers), np.asarray(placed(q)).reshape(-1, len(sites), 4, 4)


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_laws(kinds: tuple[str, str]) -> None:
    rng = np.random.default_rng(MEASURED.index(kinds[0]) * 10 + MEASURED.index(kinds[1]))
    for _ in range(4):
        robot, pairs = world(shape(kinds[0], rng, "a"), shape(kinds[1], rng, "b"))
        q = places(robot, rng, 12)
        near = robot.distances(q, pairs)
        d, n, (pa, pb) = near.distance[:, 0], near.normal[:, 0], np.moveaxis(near.points[:, 0], 1, 0)
        assert_near(robot.distances(q[3], pairs).distance, d[3:4], 0.0)
        assert_near(robot.clearance(q, pairs), d, 0.0)
        assert (robot.collides(q, pairs) == (d < 0.0)).all()
        assert_near(np.linalg.norm(n, axis=-1), np.ones(len(q)), TOL)
        assert_near(pa - pb, d[:, None] * n, TOL)
        if "plane" in kinds:
            continue
        # nothing of one shape is beyond the plane through its nearest point, so d is certain, apart
        measure, T = by_coal(robot, pairs, q)
        assert_near(measure.certificate(0, 1, T, d, n), np.zeros(len(q)), CERTIFIED)
        for i, point, out in ((0, pa, -n), (1, pb, n)):
            assert_near((measure.support(i, T[:, i], out) * out).sum(-1), (point * out).sum(-1), CERTIFIED)
        # moving both as one body changes nothing
        far = q.copy()
        for joint in robot.joints:
            far[:, joint.q_start : joint.q_start + 3] += (3.0, -2.0, 1.0)
        assert_near(robot.distances(far, pairs).distance[:, 0], d, CERTIFIED)
        # translations change it by no more than their length
        moved = q.copy()
        moved[:, :3] += 0.01 * n
        assert (robot.clearance(moved, pairs) >= d + 0.01 - CERTIFIED).all()  # and along the normal by all of it
        assert (robot.clearance(moved, pairs) <= d + 0.01 + CERTIFIED).all()


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_jacobians_are_derivatives(kinds: tuple[str, str]) -> None:
    rng = np.random.default_rng(7)
    robot, pairs = world(shape(kinds[0], rng, "a"), shape(kinds[1], rng, "b"))
    q = np.concatenate([places(robot, rng, 20, 0.5), places(robot, rng, 20, 0.1)])
    v = rng.standard_normal((len(q), robot.nv))
    h = 1e-4
    ahead, behind = (robot.clearance(robot.integrate(q, v, t), pairs) for t in (h, -h))
    off = np.abs((ahead - behind) / (2.0 * h) - robot.clearance.jvp(q, pairs, v))
    assert np.median(off) < 2e-3  # certificates leave normals known to about 1e-4
    assert np.mean(off > 2e-2) <= 0.1  # where the nearest features change
    assert_near(robot.clearance.vjp(q, pairs), robot.distances(q, pairs).jacobian[:, 0], TOL)


def test_drift_is_the_rate_of_the_rate() -> None:
    """J̇v of compiled pairs against differences of J v along a constant v, apart and overlapping."""
    rng, step = np.random.default_rng(11), 1e-4
    robot, pairs = world(*(shape(kind, rng, kind, 0.3) for kind in ("capsule", "box", "cylinder", "ellipsoid")))
    q, v = places(robot, rng, 40, 0.15), rng.standard_normal((40, robot.nv))
    near, rate, drift = robot._distance_rates(q, v, pairs)
    for b in (0, 7, 39):  # in lanes, others take more rounds
        _, alone, own = robot._distance_rates(q[b], v[b], pairs)
        np.testing.assert_array_equal([alone, own], [rate[b], drift[b]])
    assert 0.1 < (near.distance < 0.0).mean() < 0.9
    plain = robot.distances(q, pairs)
    for found, expected in ((near.distance, plain.distance), (near.points, plain.points)):
        assert_near(found, expected, CERTIFIED)
    ahead, now, behind = (
        np.einsum("bpv,bv->bp", robot.distances(robot.integrate(q, v, by), pairs).jacobian, v)
        for by in (step, 0.0, -step)
    )
    assert_near(rate, now, 1e-5)
    off = np.abs((ahead - behind) / (2 * step) - drift) / (1.0 + np.abs(drift))
    sure = np.abs(drift) < 99.0  # it is at most 100
    for inside in (near.distance < 0.0, near.distance > 0.0):
        assert np.median(off[inside & sure]) < 1e-4
        assert (off[inside & sure] > 1e-2).mean() < 0.02  # where features change


def corners(size: Any) -> Any:
    return np.array(list(itertools.product(*((-0.5 * x, 0.5 * x) for x in size))))


@pytest.mark.parametrize("kind", ["sphere", "capsule", "box", "plane"])
def test_the_hull_of_a_box_is_a_box(kind: str) -> None:
    rng = np.random.default_rng(3)
    size = (0.3, 0.4, 0.5)
    other = shape(kind, rng, "b")
    robot, pairs = world(geo.Box("a", size), other)
    hull, hull_pairs = world(geo.Hull("a", points=corners(size)), other)
    q = places(robot, rng, 200, 0.2)
    exact, found = robot.distances(q, pairs), hull.distances(q, hull_pairs)
    sign = 1.0 if pairs.names == hull_pairs.names else -1.0
    assert 0.2 < np.mean(exact.distance < 0.0) < 0.95
    assert_near(found.distance, exact.distance, 1e-9)
    assert np.mean(np.abs(sign * found.normal - exact.normal).max(axis=-1) < 1e-6) > 0.97  # but where features change
    if kind == "box":
        both, both_pairs = world(
            geo.Hull("a", points=corners(size)), geo.Hull("b", points=corners(other.size), placement=other.placement)
        )
        sharp, sharp_pairs = world(geo.Box("a", size), geo.Box("b", other.size, other.placement))
        assert_near(both.distances(q, both_pairs).distance, sharp.distances(q, sharp_pairs).distance, 1e-9)


def test_a_ball_is_an_ellipsoid_and_a_prism_is_almost_a_cylinder() -> None:
    rng = np.random.default_rng(4)
    box = shape("box", rng, "b")
    ball, pairs = world(geo.Sphere("a", (0, 0, 0), 0.2), box)
    other, other_pairs = world(geo.Ellipsoid("a", (0.2, 0.2, 0.2)), box)
    q = places(ball, rng, 100, 0.3)
    assert_near(other.clearance(q, other_pairs), ball.clearance(q, pairs), CERTIFIED)
    turn = 2.0 * np.pi * np.arange(720) / 720
    rim = np.stack([0.2 * np.cos(turn), 0.2 * np.sin(turn), np.full(720, 0.3)], -1)
    prism, prism_pairs = world(geo.Hull("a", points=np.concatenate([rim, rim * (1, 1, -1)])), box)
    round_, round_pairs = world(geo.Cylinder("a", 0.2, 0.6), box)
    sagitta = 0.2 * (1.0 - np.cos(np.pi / 720))
    off = prism.clearance(q, prism_pairs) - round_.clearance(q, round_pairs)
    assert off.min() > -CERTIFIED
    assert off.max() < sagitta + CERTIFIED


def test_closed_forms_stay_as_they_are_beside_others() -> None:
    rng = np.random.default_rng(5)
    shapes = [shape(kind, rng, f"{kind}") for kind in MEASURED if kind not in ("plane", "height field")]
    robot, pairs = world(*shapes)
    simple = robot.with_shapes([one for one in robot.shapes if one.kind in CLOSED])
    q = places(robot, rng, 5)
    own = simple.collision_pairs(keep_colliding=True)
    assert pairs.names[: len(own)] == own.names
    assert len(pairs) == 15
    near, closed = robot.distances(q, pairs), simple.distances(q, own)
    assert_near(near.distance[:, : len(own)], closed.distance, 0.0)
    assert_near(near.points[:, : len(own)], closed.points, 0.0)
    assert near.nearest(3).jacobian.shape == (5, 3, robot.nv)
    single = robot.astype("float32")
    less = single.distances(q.astype(np.float32), pairs)
    assert less.distance.dtype == less.normal.dtype == np.float32
    assert_near(less.distance, near.distance, 1e-5)
    grid = robot.distances(q.reshape(1, 5, -1), pairs)
    assert grid.points.shape == (1, 5, 15, 2, 3)
    assert_near(grid.points[0], near.points, 0.0)
    assert robot.distances(q[:0], pairs).distance.shape == (0, 15)
    q[2, 0] = np.nan
    lost = np.isnan(robot.distances(q, pairs).distance)
    moved = [robot.shapes[0].name in names for names in pairs.names]
    assert (lost[2] == moved).all()
    assert not lost[[0, 1, 3, 4]].any()


def test_pairs_that_always_collide_are_found() -> None:
    builder = kt.Builder("arm")
    for k in range(4):
        builder.add_body(f"b{k}", parent=f"b{k - 1}" if k else "world", joint="revolute", axis=(0, 0, 1), mass=1.0,
                         inertia=np.eye(3), placement=(np.eye(3), (0.3 * (k > 0), 0, 0)))  # fmt: skip
        builder.add_shape(geo.Cylinder(f"b{k}", 0.6 if k == 1 else 0.05, 0.1))
    with pytest.warns(kt.errors.ModelWarning, match="all sampled configurations are left out: b1–b3"):
        pairs = builder.build().collision_pairs()
    assert set(pairs.names) == {("b0", "b2"), ("b0", "b3")}


def needle(name: str, size: Any) -> geo.Hull:
    return geo.Hull(name, points=corners(size) * np.linspace(1.0, 1.3, 8)[:, None])


def test_what_is_not_certified_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    robot, pairs = world(geo.Cylinder("a", 0.1, 0.2), needle("b", (0.1, 0.2, 0.3)))
    monkeypatch.setattr(convex_distances, "WORST", -1.0)
    refused("no distance of 'a' and 'b' that can be certified", robot.distances, robot.neutral(), pairs,
            error=ConvergenceError)  # fmt: skip


def test_what_compiled_code_does_not_certify_is_refused() -> None:
    robot, pairs = world(
        geo.Cylinder("a", 0.1, 0.2), geo.Ellipsoid("b", (0.1, 0.2, 0.3)), geo.Sphere("c", (0, 0, 0), 1)
    )
    q = np.tile(robot.neutral(), (2, 1))
    lost = pairs.names.index(("a", "b"))
    d = robot.clearance(q, pairs)[:, None] * np.ones(len(pairs))
    d[1, lost] = np.nan
    refused("the distance of 'a' and 'b' is not found with a certificate, at 1 of", robot._certified, q, pairs, d,
            error=ConvergenceError)  # fmt: skip
    q[1, 0] = np.nan
    robot._certified(q, pairs, d)


def test_tolerances_at_which_coal_fails_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    robot, pairs = world(needle("a", (0.3, 0.02, 0.1)), needle("b", (0.02, 0.4, 0.1)))
    q = places(robot, rng, 50, 0.2)
    right, measured = robot.clearance(q, pairs), convex_distances._measured

    def failing(*given: Any) -> Any:
        d, n, points = measured(*given)
        first = given[-1].gjk_tolerance == convex_distances.TOLERANCES[0]
        return (d + 1e-3 if first and d > 0.0 else d), n, points

    monkeypatch.setattr(convex_distances, "_measured", failing)
    assert_near(robot.clearance(q, pairs), right, CERTIFIED)
    monkeypatch.setattr(convex_distances, "TOLERANCES", (1e-11,))
    with pytest.raises(ConvergenceError):
        robot.clearance(q, pairs)


def test_what_is_compiled_names_pairs_that_are_not() -> None:
    _, pairs = world(needle("a", (0.1, 0.2, 0.3)), geo.Sphere("b", (0, 0, 0), 0.3))
    refused("sphere 'b' and hull 'a' are not compiled", lambda: pairs.runs, error=UnsupportedError)
    assert pairs.compiled.names == ()


def test_only_hulls_need_coal(monkeypatch: pytest.MonkeyPatch) -> None:
    robot, pairs = world(needle("a", (0.1, 0.2, 0.3)), geo.Sphere("b", (0, 0, 0), 0.3))
    others = [
        (world(geo.Cylinder("a", 0.1, 0.2), geo.Sphere("b", (0, 0, 0), 0.3)), -0.4),
        (world(geo.Cylinder("a", 0.1, 0.2), geo.Ellipsoid("b", (0.3, 0.3, 0.2))), -0.3),
        (world(geo.Cylinder("a", 0.1, 0.2), geo.Plane("b")), -0.1),
    ]
    monkeypatch.setitem(__import__("sys").modules, "coal", None)
    refused(r"'a' is a hull.*kinetree\[hulls\]", robot.distances, robot.neutral(), pairs, error=UnsupportedError)
    for (without, own), expected in others:
        assert_near(without.clearance(without.neutral(), own), expected, 1e-8)


def terrain(rng: Any, flat: bool = False) -> geo.HeightField:
    return geo.HeightField(np.zeros((9, 7)) if flat else rng.uniform(0.0, 0.2, (9, 7)), (2.0, 3.0), name="ground")


@pytest.mark.parametrize("kind", PROBED)
def test_height_fields(kind: str) -> None:
    rng = np.random.default_rng(2)
    one = shape(kind, rng, "a", 0.2)
    robot = world(one)[0]
    field, plane = ([geo.HeightField(np.zeros((3, 3)), (1.0, 1.0), name="ground")], [geo.Plane("ground")])
    flat, level = (robot.collision_pairs(scene=kt.Scene(own), keep_colliding=True) for own in (field, plane))
    q = places(robot, rng, 10, 0.3)
    found, exact = robot.distances(q, flat), robot.distances(q, level)
    assert_near(found.distance, exact.distance, 1e-9)
    assert_near(found.normal, exact.normal, 1e-9)
    # on rough ground: against the nearest of many points of it
    ground = terrain(rng)
    pairs = robot.collision_pairs(scene=kt.Scene([ground]), keep_colliding=True)
    near = robot.distances(q, pairs)
    d, n, (pa, pb) = near.distance[:, 0], near.normal[:, 0], np.moveaxis(near.points[:, 0], 1, 0)
    assert 0.1 < np.mean(d < 0.0) < 0.9
    assert_near(np.linalg.norm(n, axis=-1), np.ones(len(q)), TOL)
    assert_near(pa - pb, d[:, None] * n, TOL)
    surface = Ground(ground)
    for p in pb:
        assert_near(surface.distance(p)[0], 0.0, TOL)
    moved = q.copy()
    moved[:, :3] += (step := 0.01 * rng.standard_normal((len(q), 3)))
    assert (np.abs(robot.clearance(moved, pairs) - d) <= np.linalg.norm(step, axis=-1) + 10 * TOL).all()
    v, h = rng.standard_normal((len(q), robot.nv)), 1e-6
    ahead, behind = (robot.clearance(robot.integrate(q, v, t), pairs) for t in (h, -h))
    wrong = np.abs((ahead - behind) / (2.0 * h) - robot.clearance.jvp(q, pairs, v)) > 1e-5
    assert wrong.mean() <= 0.2  # where the nearest features change


def test_the_nearest_point_of_rough_ground() -> None:
    rng = np.random.default_rng(3)
    field = terrain(rng)
    ground = Ground(field)
    # the triangles of MuJoCo's fields, in steps of a fiftieth of their edges; beyond them it is level
    (rows, columns), (lx, ly) = field.heights.shape, field.size
    s, t = (x.reshape(-1) for x in np.meshgrid(np.linspace(0, 1, 51), np.linspace(0, 1, 51)))
    z, found = field.heights, []
    for i, j in itertools.product(range(rows - 1), range(columns - 1)):
        low, high = np.maximum(s, t), np.minimum(s, t)
        beside = np.where(s > t, z[i, j + 1], z[i + 1, j])
        found.append(np.stack([
            (j + s) * lx / (columns - 1) - lx / 2, (i + t) * ly / (rows - 1) - ly / 2,
            (1 - low) * z[i, j] + (low - high) * beside + high * z[i + 1, j + 1],
        ], -1))  # fmt: skip
    surface = np.concatenate(found)
    for p in rng.uniform((-0.9, -1.4, -0.1), (0.9, 1.4, 0.6), (20, 3)):
        d, n, q = ground.distance(p)
        sampled = np.linalg.norm(surface - p, axis=1).min()
        assert abs(d) <= sampled + TOL
        assert sampled <= abs(d) + 0.01
        assert_near(p - q, d * n, TOL)
    assert_near(ground.distance(np.array([5.0, 0.0, 3.0]))[1][:1], [0.0], TOL)
    assert ground.distance(np.array([0.0, 0.0, -1.0]))[0] < 0.0


def test_fields_and_what_has_no_distance_from_them() -> None:
    rng = np.random.default_rng(4)
    robot = world(shape("cylinder", rng, "a"))[0]
    scene = kt.Scene([terrain(rng), geo.Plane("floor")])
    refused("'a' is a cylinder, which has no distance from height field 'ground'", robot.collision_pairs, scene=scene,
            error=UnsupportedError)  # fmt: skip
    capsules = robot.with_shapes(geo.simplified(robot.shapes))
    pairs = capsules.collision_pairs(scene=scene, keep_colliding=True)
    assert pairs.names == (("a", "floor"), ("a", "ground"))
    refused("leave out height fields", lambda: pairs.runs, error=UnsupportedError)
    q = np.tile(capsules.neutral(), (2, 1))
    q[0, 1] = np.nan
    assert np.isnan(capsules.distances(q, pairs).distance).any(axis=1).tolist() == [True, False]


def test_a_cylinder_on_a_plane_rests_on_its_middle() -> None:
    measure = ConvexDistances([geo.Cylinder("a", 0.1, 0.4), geo.Plane("b")], np.array([[0, 1]]))
    T = np.tile(np.eye(4), (2, 2, 1, 1))
    T[:, 0, 2, 3] = 1.0
    T[1, 0, :3, :3] = [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]
    d, _, points = measure(T)
    assert_near(d[:, 0], (0.8, 0.9), TOL)
    assert_near(points[:, 0, 0], [(0, 0, 0.8), (0, 0, 0.9)], TOL)
