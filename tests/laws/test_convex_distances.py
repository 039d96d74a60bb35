"""Distances of cylinders, ellipsoids and hulls: laws, certificates, shapes that have closed forms as well."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import nnls

import kinetree as kt
from kinetree import geometry as geo
from kinetree.algorithms.kinematics.frame_kinematics import poses
from kinetree.control.avoid import AccelerationRows, Avoid
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


def test_controllers_refuse_what_is_not_certified() -> None:
    """A needle in a cylinder, at which the search does not end: the pair must not be taken for one that is far away."""
    robot, pairs = world(geo.Cylinder("a", 0.5, 1.0), geo.Ellipsoid("b", (1.0, 1e-4, 1e-4)))
    q = robot.neutral()
    q[7:] = 0.0, 0.0, -0.2, *np.array([1.0, 0.0, 1.0, 2.0]) / np.sqrt(6.0)
    for call in (lambda: robot.distances(q, pairs), lambda: AccelerationRows(robot, Avoid(pairs))(q, np.zeros(12))):
        refused("the distance of 'a' and 'b' is not found with a certificate", call, error=ConvergenceError)


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
    monkeypatch.setattr(ConvexDistances, "_proven", None)  # nothing else is needed, apart
    apart = q[right > 0.0]
    assert len(apart) > 5
    assert_near(robot.clearance(apart, pairs), right[right > 0.0], CERTIFIED)


def least_norm(points: Any) -> float:
    """Of the convex hull of some points, by non-negative least squares: Σ shares = 1 is a row."""
    weight = 1e3
    shares, _ = nnls(np.concatenate([points.T, np.full((1, len(points)), weight)]), [0.0, 0.0, 0.0, weight])
    return float(np.linalg.norm(shares @ points / shares.sum()))


@pytest.mark.parametrize("wrong", ["normal", "distance", "a little", "nothing", "overlap", "other side"])
@pytest.mark.parametrize("kind", ["box", "capsule", "sphere", "cylinder", "ellipsoid", "hull"])
def test_what_coal_does_not_find_is_found(kind: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    shapes = [shape(kind, rng, "a"), shape("hull", rng, "b")]
    measure = ConvexDistances(shapes, np.array([[0, 1]]))
    T = np.tile(np.eye(4), (12, 2, 1, 1))
    turn, _ = np.linalg.qr(rng.standard_normal((12, 3, 3)))
    T[:, 0, :3, :3] = turn * np.linalg.det(turn)[:, None, None]
    T[:, 0, :3, 3] = np.linspace(0.0, 0.5, 12)[:, None] * rng.standard_normal((12, 3))
    right, normal, _ = (x[:, 0] for x in measure(T))
    assert 5 < (right > 0.0).sum() < 12
    measured, samples = convex_distances._measured, itertools.cycle(range(12))
    behind = ((measure.support(0, T[:, 0], normal) - measure.support(1, T[:, 1], -normal)) * -normal).sum(-1)

    def failing(*given: Any) -> Any:
        d, n, points = measured(*given)
        if wrong == "other side":
            d, n = behind[k := next(samples)], -normal[k]
        elif wrong == "normal":
            n = rng.standard_normal(3)
        elif wrong == "distance":
            n = 1.5 * n
        elif wrong == "nothing":
            d, n, points = np.nan, n * np.nan, points * np.nan
        return {"distance": d + 1e-3, "a little": d + 1e-7, "overlap": -1e-3}.get(wrong, d), n, points

    monkeypatch.setattr(convex_distances, "_measured", failing)
    d, n, points = (x[:, 0] for x in measure(T))
    assert_near(d, right, 1e-9)
    assert_near(points[:, 0] - points[:, 1], d[:, None] * n, TOL)
    apart = right > 0.0
    assert (behind < 0.0).all()
    assert_near(measure.certificate(0, 1, T, d, n)[apart], 0.0, 1e-9)
    assert_near(n[apart], normal[apart], 1e-4)
    for i, out in ((0, -n), (1, n)):
        assert_near(((measure.support(i, T[:, i], out) - points[:, i]) * out).sum(-1)[apart], 0.0, 1e-9)


@pytest.mark.parametrize("kind", ["box", "hull"])
def test_hulls_that_barely_touch(kind: str) -> None:
    rng = np.random.default_rng(9)
    measure = ConvexDistances([shape(kind, rng, "a"), shape("hull", rng, "b")], np.array([[0, 1]]))
    T = np.tile(np.eye(4), (10, 2, 1, 1))
    turn, _ = np.linalg.qr(rng.standard_normal((10, 3, 3)))
    T[:, 0, :3, :3] = turn * np.linalg.det(turn)[:, None, None]
    T[:, 0, :3, 3] = 2.0 * rng.standard_normal((10, 3))
    d, normal, _ = (x[:, 0] for x in measure(T))
    for gap in (1e-8, 1e-12, 0.0, -1e-12, -1e-9, -1e-8, -1e-7):
        near = T.copy()
        near[:, 0, :3, 3] -= (d - gap)[:, None] * normal
        found, n, points = (x[:, 0] for x in measure(near))
        assert (found >= gap - 1e-9).all()
        assert (found <= max(gap, 0.0) + 1e-9).all()  # corners may part sideways, too
        for i, out in ((0, -n), (1, n)):
            assert_near(((measure.support(i, near[:, i], out) - points[:, i]) * out).sum(-1), 0.0, CERTIFIED)
            for u in convex_distances.around(40):
                reach = measure.support(i, near[:, i], np.broadcast_to(u, (10, 3))) @ u
                assert (points[:, i] @ u <= reach + CERTIFIED).all()


def test_a_pair_at_which_coal_stalls() -> None:
    """Four corners of a link of a Panda: coal's normal is off by 1e-5 at all tolerances."""
    corners = np.array([
        (-1.55602628e-02, 5.27985543e-02, -1.26596078e-01), (-4.55866195e-02, -1.07757635e-01, -7.25363242e-03),
        (4.64442708e-02, -1.07387573e-01, 1.03823942e-04), (-2.15486269e-02, 5.07440157e-02, -1.91999719e-01),
    ])  # fmt: skip
    angle, table = -1.857427001968338, geo.Box("table", (0.6, 1.2, 0.05))
    measure = ConvexDistances([table, geo.Hull("link", points=corners)], np.array([[0, 1]]))
    T = np.tile(np.eye(4), (2, 2, 1, 1))
    T[:, 0, :3, 3] = 0.7, 0.0, 0.2
    c, s = np.cos(angle), np.sin(angle)
    T[:, 1, :3] = [(c, -s, 0.0, 0.0), (s, c, 0.0, 0.0), (0.0, 0.0, 1.0, 0.333)]
    T[1, 0, 2, 3] += 0.05
    box = np.array([*itertools.product((-0.5, 0.5), repeat=3)]) * table.size
    for d, (one, other) in zip(measure(T)[0][:, 0], T, strict=True):
        ends = (own @ pose[:3, :3].T + pose[:3, 3] for own, pose in ((box, one), (corners, other)))
        first, second = ends
        assert_near(d, least_norm((first[:, None] - second).reshape(-1, 3)), 1e-9)


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
    assert_near(surface.distances(pb)[0], np.zeros(len(q)), TOL)
    moved = q.copy()
    moved[:, :3] += (step := 0.01 * rng.standard_normal((len(q), 3)))
    assert (np.abs(robot.clearance(moved, pairs) - d) <= np.linalg.norm(step, axis=-1) + 10 * TOL).all()
    v, h = rng.standard_normal((len(q), robot.nv)), 1e-6
    ahead, behind = (robot.clearance(robot.integrate(q, v, t), pairs) for t in (h, -h))
    wrong = np.abs((ahead - behind) / (2.0 * h) - robot.clearance.jvp(q, pairs, v)) > 1e-5
    assert wrong.mean() <= 0.2  # where the nearest features change


def triangles(field: geo.HeightField) -> Any:
    """Those of MuJoCo's fields, as corners (k, 3, 3); beyond them, the ground is level."""
    z = np.pad(field.heights, 1, mode="edge")
    x, y = (
        np.concatenate([[-50.0], np.linspace(-0.5 * length, 0.5 * length, count), [50.0]])
        for length, count in zip(field.size, field.heights.shape[::-1], strict=True)
    )
    i, j = (each.reshape(-1) for each in np.meshgrid(np.arange(len(y) - 1), np.arange(len(x) - 1), indexing="ij"))
    first, along, beside, last = (
        np.stack([x[j + dj], y[i + di], z[i + di, j + dj]], -1) for di, dj in itertools.product(range(2), repeat=2)
    )
    return np.concatenate([np.stack([first, along, last], 1), np.stack([first, last, beside], 1)])


def from_triangle(p: Any, a: Any, b: Any, c: Any) -> float:
    """The distance of a point, from the definition: of the plane, if the foot is inside, or of an edge."""
    n = np.cross(b - a, c - a)
    sides = [np.cross(n, end - start) @ (p - start) for start, end in ((a, b), (b, c), (c, a))]
    if min(sides) >= 0.0:
        return float(abs(n @ (p - a)) / np.linalg.norm(n))
    ends = ((a, b - a), (b, c - b), (c, a - c))
    return min(float(np.linalg.norm(p - s - np.clip((p - s) @ e / (e @ e), 0.0, 1.0) * e)) for s, e in ends)


def test_the_nearest_point_of_rough_ground() -> None:
    rng = np.random.default_rng(3)
    field = geo.HeightField(rng.uniform(0.0, 0.3, (4, 3)), (1.0, 1.5))
    corners = triangles(field)
    p = rng.uniform((-0.7, -1.0, -0.4), (0.7, 1.0, 0.8), (50, 3))
    p[:4] = corners[6:10, 0]  # on corners, edges, lines of the grid, faces
    p[4:8] = corners[6:10, :2].mean(axis=1)
    p[8:12, 0] = 0.5
    p[12:16] = corners[6:10].mean(axis=1)
    ground = Ground(field)
    d, n, q = ground.distances(p)
    reference = ground._functions[len(p)].engine("reference")(p, ground._rows, ground._columns, ground._z)
    assert_near(reference, np.concatenate([d[:, None], n, q], axis=1), TOL)
    assert_near(ground.distances(np.repeat(p, 2, axis=0))[0][::2], d, 0.0)  # more than are computed at once
    expected = [min(from_triangle(one, *each) for each in corners) for one in p]
    assert_near(np.abs(d), expected, TOL)
    assert_near(p - q, d[:, None] * n, TOL)
    assert_near(np.linalg.norm(n, axis=1), np.ones(len(p)), TOL)
    assert_near([min(from_triangle(one, *each) for each in corners) for one in q], np.zeros(len(p)), TOL)
    assert (n[:16, 2] > 0.0).all()  # also where d is zero, and there it is that of the face
    assert_near(np.einsum("kij,kj->ki", corners[6:10] - p[12:16, None], n[12:16]), 0.0, TOL)
    # above is where a vertical line meets the ground below
    for one, side in zip(p[16:], np.sign(d[16:]), strict=True):
        for a, b, c in corners:
            u, v = np.linalg.solve(np.stack([b - a, c - a], 1)[:2], (one - a)[:2])
            if min(u, v, 1.0 - u - v) > 0.0:
                assert side == np.sign(one[2] - (a + u * (b - a) + v * (c - a))[2])
    # far away, and on fields of any size
    for far in (1e3, 1e5):
        at = np.array([[far, 0.7 * far, 3.0]])
        d, _, q = Ground(field).distances(at)
        assert_near(d, 3.0 - field.heights[-1, -1], 1e3 * TOL)
        assert_near(at - q, [(0.0, 0.0, d[0])], far * TOL)
    slope = geo.HeightField(np.tile([-1e5, 0.0, 1e5], (3, 1)), (1e6, 1e6))
    assert_near(Ground(slope).distances(np.array([[3e5, -2e5, 6e4 + 1.0]]))[0], 1.0 / np.sqrt(1.04), 1e5 * TOL)


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


@pytest.mark.parametrize("size", [0.2, 1e-10])
def test_balls_as_ellipsoids_at_one_place_and_far_apart(size: float) -> None:
    """All directions are equally deep there; and of a speck, the certificate says nothing about points."""
    for one in (geo.Sphere("a", (0, 0, 0), 0.5), geo.Ellipsoid("a", (0.5, 0.5, 0.5))):
        robot, pairs = world(one, geo.Ellipsoid("b", (size, size, size)))
        q = np.tile(robot.neutral(), (4, 1))
        q[:, 0] = away = np.array([0.0, 1e-7, 3.0, 50.0])
        near = robot.distances(q, pairs)
        assert_near(near.distance[:, 0], away - 0.5 - size, CERTIFIED)
        assert_near(near.points[2:, 0, 0, 0], away[2:] - 0.5, CERTIFIED)
        assert_near(near.points[2:, 0, 1, 0], [size, size], CERTIFIED)


@pytest.mark.parametrize(("radius", "edge"), [(1.0, 1e-9), (1e6, 1.0), (0.5, 1.0)])
def test_hulls_in_larger_and_smaller_spheres(radius: float, edge: float) -> None:
    """Both where the cores overlap, and where only what is around them does."""
    corners = edge * np.array([*itertools.product((-0.5, 0.5), repeat=3)])
    robot, pairs = world(geo.Sphere("a", (0, 0, 0), radius), geo.Hull("b", points=corners))
    q = np.tile(robot.neutral(), (4, 1))
    q[:, 0] = away = edge * np.array([0.0, 0.3, 0.9, 1.2])
    near = robot.distances(q, pairs)
    assert_near(near.distance[:, 0], away - 0.5 * edge - radius, TOL * radius)
    assert_near(np.abs(near.normal[1:, 0, 0]), 1.0, TOL)


def test_points_inside_hulls_belong_to_the_triangle_and_the_side_that_is_nearest() -> None:
    plate = np.array([*itertools.product((-0.5, 0.5), (-1.0, 1.0), (-1.0, 1.0))])
    prism = [(x, y, z) for x in (-0.1, 0.1) for y, z in ((0.2, 0.0), (-0.1, 0.2), (-0.1, -0.1), (0.0, -0.15))]
    robot, pairs = world(geo.Hull("a", points=prism), geo.Hull("b", points=plate))
    q = np.tile(robot.neutral(), (12, 1))
    q[:, 1:3] = np.random.default_rng(2).uniform(-0.35, 0.35, (12, 2))
    near = robot.distances(q, pairs)  # as far from one side as from the other
    assert_near(near.distance[:, 0], -0.6, TOL)
    side = np.sign(near.points[:, 0, 1, :1])
    assert_near(near.points[:, 0, :, 0], side * (-0.1, 0.5), TOL)
    measure, T = by_coal(robot, pairs, q)
    for u in convex_distances.around(40):
        for end in range(2):
            reach = measure.support(end, T[:, end], np.broadcast_to(u, (12, 3))) @ u
            assert (near.points[:, 0, end] @ u <= reach + TOL).all()


def test_what_coal_says_of_overlaps_is_proven_or_left(monkeypatch: pytest.MonkeyPatch) -> None:
    robot, pairs = world(geo.Sphere("a", (0, 0, 0), 0.3), needle("b", (0.1, 0.4, 0.2)))
    q = np.tile(robot.neutral(), (2, 1))
    q[:, 0] = 0.1, 0.3
    right, measured = robot.clearance(q, pairs), convex_distances._measured
    assert (right < 0.0).all()

    def failing(*given: Any) -> Any:
        d, n, points = measured(*given)
        return 0.9 * d, n, points

    monkeypatch.setattr(convex_distances, "_measured", failing)
    assert_near(robot.clearance(q, pairs), right, CERTIFIED)


def speck(edges: tuple[float, float, float]) -> tuple[kt.Model, geo.CollisionPairs]:
    """A hull and a capsule of 2000 km."""
    corners = np.array([*itertools.product((-0.5, 0.5), repeat=3)]) * edges
    return world(geo.Capsule("a", (0, 0, -1e6), (0, 0, 1e6), 1e-6), geo.Hull("b", points=corners))


def test_what_rounding_makes_flat_is_refused() -> None:
    robot, pairs = speck((1e-9, 1e-9, 1e-9))  # Qhull makes nothing of the difference
    q = places(robot, np.random.default_rng(0), 1, 0.0)
    refused("'a' and 'b' that can be certified", robot.distances, q, pairs, error=ConvergenceError)


def test_the_better_certificate_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    robot, pairs = world(needle("a", (0.3, 0.02, 0.1)), needle("b", (0.02, 0.4, 0.1)))
    q = places(robot, np.random.default_rng(0), 1, 1.0)
    right, measured, more = robot.clearance(q, pairs), convex_distances._measured, 1e-7

    def failing(*given: Any) -> Any:
        d, n, points = measured(*given)
        return d + more, n, points

    monkeypatch.setattr(convex_distances, "_measured", failing)
    monkeypatch.setattr(convex_distances, "_STEPS", 0)
    assert_near(robot.clearance(q, pairs), right + more, TOL)
    more = 1e-3
    refused("'a' and 'b' that can be certified", robot.clearance, q, pairs, error=ConvergenceError)


def test_hulls_beside_a_long_capsule() -> None:
    robot, pairs = speck((1.0, 1.0, 1e-6))
    rng = np.random.default_rng(18)
    q = places(robot, rng, 3, 3e6 * 10.0 ** rng.uniform(-8, 0))  # coal finds zero
    for one, d in zip(q, robot.clearance(q, pairs), strict=True):
        axis, own = robot.pose(one, "a"), robot.pose(one, "b")
        across = (pairs.shapes[1].vertices @ own[:3, :3].T + own[:3, 3] - axis[:3, 3]) @ axis[:3, :3]
        assert_near(d, least_norm(across * (1.0, 1.0, 0.0)) - 1e-6, CERTIFIED * (1.0 + d))


@pytest.mark.parametrize(("one", "other"), [(1.0, 0.0), (0.0, 1.0), (1e-9, 1e-9)])
def test_capsules_whose_cores_meet_part_across_them(one: float, other: float) -> None:
    lengths = {"a": one, "b": other}
    robot, pairs = world(*(geo.Capsule(name, (0, 0, -size), (0, 0, size), 0.1) for name, size in lengths.items()))
    q = places(robot, np.random.default_rng(5), 4, 0.0)
    near = robot.distances(q, pairs)
    assert_near(near.distance[:, 0], -0.2, 1e-9)
    for name, size in lengths.items():
        axes = robot.pose(q, name)[:, :3, 2]
        assert_near(size * (axes * near.normal[:, 0]).sum(axis=1), 0.0, TOL * size)


def test_a_cylinder_on_a_plane_rests_on_its_middle() -> None:
    measure = ConvexDistances([geo.Cylinder("a", 0.1, 0.4), geo.Plane("b")], np.array([[0, 1]]))
    T = np.tile(np.eye(4), (2, 2, 1, 1))
    T[:, 0, 2, 3] = 1.0
    T[1, 0, :3, :3] = [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]
    d, _, points = measure(T)
    assert_near(d[:, 0], (0.8, 0.9), TOL)
    assert_near(points[:, 0, 0], [(0, 0, 0.8), (0, 0, 0.9)], TOL)


@pytest.mark.parametrize("kind", ["sphere", "box", "cylinder", "ellipsoid", "hull"])
def test_no_direction_parts_hulls_sooner(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly round hulls, of which many sides are about as near."""
    rng = np.random.default_rng(6)
    points = rng.standard_normal((120, 3))
    points *= 0.2 * (1.0 + 0.01 * rng.standard_normal((120, 1))) / np.linalg.norm(points, axis=1, keepdims=True)
    shapes = [shape(kind, rng, "a"), geo.Hull("b", points=points)]
    if kind == "hull":
        shapes[0] = geo.Hull("a", points=0.5 * points[::2])
    measure = ConvexDistances(shapes, np.array([[0, 1]]))
    T = np.tile(np.eye(4), (6, 2, 1, 1))
    T[1:, 0, :3, 3] = 0.03 * rng.standard_normal((5, 3))
    d, n, points = (x[:, 0] for x in measure(T))
    pa, pb = points[:, 0], points[:, 1]
    assert (d < -0.05).all()
    assert_near(pa - pb, d[:, None] * n, TOL)
    assert_near(measure.certificate(0, 1, T, d, n), np.zeros(6), 1e-9)
    u = convex_distances.around(4000)
    for one, depth in zip(T, d, strict=True):
        first, second = (np.broadcast_to(pose, (len(u), 4, 4)) for pose in one)
        apart = ((measure.support(0, first, -u) - measure.support(1, second, u)) * u).sum(-1)
        assert apart.max() <= depth + 1e-9
    for i, end, out in ((0, pa, -n), (1, pb, n)):
        for direction in (out, *np.broadcast_to(convex_distances.around(40)[:, None], (40, 6, 3))):
            assert ((measure.support(i, T[:, i], direction) - end) * direction).sum(-1).min() >= -1e-9
    monkeypatch.setattr(convex_distances, "_EXPANSIONS", 1)
    refused("no distance of 'a' and 'b' that can be certified", measure, T, error=ConvergenceError)
