"""Laws of distances between shapes of every kind, apart and overlapping: on compiled code, in lanes and alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from kinetree.kernels.pair_distances import CONVEX, NUMBERS, pair_distances, rounds_of
from kinetree.runtime.function import KernelFunction, compiled
from tests.tolerance import assert_close, assert_near, bound

Array = np.ndarray[Any, np.dtype[Any]]

#: Kinds of the two shapes, and the class of the pair.
PAIRS = {
    ("sphere", "sphere"): "points",
    ("sphere", "capsule"): "points",
    ("capsule", "capsule"): "segments",
    ("sphere", "box"): "sphere_boxes",
    ("capsule", "box"): "capsule_boxes",
    ("box", "box"): "boxes",
    ("sphere", "cylinder"): "sphere_cylinders",
    ("capsule", "cylinder"): "capsule_cylinders",
    ("box", "cylinder"): "box_cylinders",
    ("cylinder", "cylinder"): "cylinders",
    ("sphere", "ellipsoid"): "sphere_ellipsoids",
    ("capsule", "ellipsoid"): "capsule_ellipsoids",
    ("box", "ellipsoid"): "box_ellipsoids",
    ("cylinder", "ellipsoid"): "cylinder_ellipsoids",
    ("ellipsoid", "ellipsoid"): "ellipsoids",
    ("sphere", "plane"): "planes",
    ("capsule", "plane"): "planes",
    ("box", "plane"): "planes",
    ("cylinder", "plane"): "cylinder_planes",
    ("ellipsoid", "plane"): "ellipsoid_planes",
}
KINDS = [*PAIRS]
COUNT = 2000
#: Distances are of the size of a metre.
TOL = bound(6)
#: Of pairs without a closed form, certificates of d are below this [m], and the root of it is what normals may turn.
CERTIFIED = 2e-9


@cache
def function(group: str, detailed: bool = True, dtype: str = "float64") -> KernelFunction:
    """The distance of two shapes."""
    runs: Any = {group: [(0, 1, 0, 0)]}
    return compiled(pair_distances((group,), detailed), dtype, n=2, m=2, p=1, t=1, **runs, **rounds_of((group,)))


def off(kinds: tuple[str, str], exact: float) -> float:
    """By how much d may be off."""
    return CERTIFIED if PAIRS[kinds] in CONVEX else exact


def rotations(rng: np.random.Generator, count: int) -> Array:
    w, x, y, z = (q := rng.standard_normal((4, count))) / np.linalg.norm(q, axis=0)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    ).transpose(2, 0, 1)


def numbers_of(kind: str, half: Array, radius: Array) -> Array:
    """The numbers of shapes, (…, 6)."""
    found = np.zeros((len(half), NUMBERS))
    if kind not in ("sphere", "plane"):
        found[:, 2] = half[:, 2]
    if kind in ("box", "ellipsoid"):
        found[:, :2] = half[:, :2]
    if kind == "cylinder":
        found[:, :2] = half[:, :1]
    if kind in ("sphere", "capsule", "box"):
        found[:, 3] = radius if kind != "box" else 0.5 * radius * (np.arange(len(half)) % 2)  # some are rounded
    found[:, 4] = found[:, 2] ** 2
    found[:, 5] = np.divide(1.0, found[:, 4], out=np.zeros(len(half)), where=found[:, 4] > 0.0)
    return found


def scenes(a: str, b: str, count: int = COUNT, seed: int = 0) -> tuple[Array, Array]:
    """Poses, (count, 2, 4, 4), and numbers, (count, 2, 6), of pairs, of which about half overlap."""
    rng = np.random.default_rng(seed)
    T = np.zeros((count, 2, 4, 4))
    T[..., 3, 3] = 1.0
    T[..., :3, :3] = np.stack([rotations(rng, count), rotations(rng, count)], 1)
    T[..., :3, 3] = rng.uniform(-1, 1, (count, 2, 3)) * np.where(np.arange(count) % 2, 0.3, 0.8)[:, None, None]
    half, radius = rng.uniform(0.05, 0.4, (2, count, 3)), rng.uniform(0.02, 0.2, (2, count))
    return T, np.stack([numbers_of(a, half[0], radius[0]), numbers_of(b, half[1], radius[1])], 1)


def measured(a: str, b: str, T: Array, numbers: Array) -> tuple[Array, Array, Array]:
    """d, (…,), n, (…, 3), and points, (…, 2, 3)."""
    d, n, points = function(PAIRS[a, b])(T, numbers, T, numbers)
    return d[..., 0], n[..., 0], points[..., 0]


def outside(kind: str, T: Array, numbers: Array, p: Array) -> Array:
    """The signed distance of points from shapes, from its definition."""
    own = np.einsum("...ji,...j->...i", T[..., :3, :3], p - T[..., :3, 3])
    if kind == "plane":
        return own[..., 2]
    if kind == "ellipsoid":  # of first order, near its surface
        level = np.linalg.norm(own / numbers[..., :3], axis=-1)
        return (level - 1.0) * level / np.linalg.norm(own / numbers[..., :3] ** 2, axis=-1)
    if kind == "cylinder":
        own = np.stack([np.hypot(own[..., 0], own[..., 1]), own[..., 2]], -1)
        numbers = numbers[..., [0, 2, 3, 3]]
        over = np.abs(own) - numbers[..., :2]
        return np.linalg.norm(np.maximum(over, 0.0), axis=-1) + np.minimum(over.max(axis=-1), 0.0)
    over = np.abs(own) - numbers[..., :3]
    core = np.linalg.norm(np.maximum(over, 0.0), axis=-1) + np.minimum(over.max(axis=-1), 0.0)
    return core - numbers[..., 3]


def moved(T: Array, twist: Array, by: float) -> Array:
    """Poses after a motion with an angular and a linear velocity, (…, 6), about the world's origin; second order."""
    w = np.zeros((*twist.shape[:-1], 4, 4))
    x, y, z = (twist[..., i] for i in range(3))
    w[..., 0, 1], w[..., 0, 2], w[..., 1, 2] = -z, y, -x
    w -= w.swapaxes(-1, -2)
    w[..., :3, 3] = twist[..., 3:]
    step = np.eye(4) + by * w + 0.5 * by * by * (w @ w)
    return step @ T


@pytest.mark.parametrize("kinds", [("sphere", "capsule"), ("capsule", "capsule")])
def test_where_axes_meet_the_normal_parts_the_shapes(kinds: tuple[str, str]) -> None:
    """Up to rounding, which gives the difference of the nearest points any direction."""
    T, numbers = scenes(*kinds)
    share = np.random.default_rng(1).uniform(-0.9, 0.9, (COUNT, 2, 1)) * numbers[..., 2:3]
    T[..., :3, 3] = T[:, :1, :3, 3] + share * T[..., :3, 2]
    slanted = np.abs((T[:, 0, :3, 2] * T[:, 1, :3, 2]).sum(-1)) < 0.99 if kinds[0] == "capsule" else np.arange(COUNT)
    T, numbers = T[slanted], numbers[slanted]
    d, n, _ = measured(*kinds, T, numbers)
    assert_near(d, -numbers[..., 3].sum(-1), TOL)
    alone = function(PAIRS[kinds], False)(T, numbers, T, numbers)
    np.testing.assert_array_equal(np.reshape(alone, d.shape), d)
    T[:, 0, :3, 3] -= d[:, None] * n
    assert_near(measured(*kinds, T, numbers)[0], np.zeros(len(T)), TOL)


@pytest.mark.parametrize("kinds", KINDS)
def test_points_are_on_the_shapes_and_apart_along_the_normal(kinds: tuple[str, str]) -> None:
    T, numbers = scenes(*kinds)
    d, n, points = measured(*kinds, T, numbers)
    assert 0.05 < (d < 0.0).mean() < 0.95
    assert_close(np.linalg.norm(n, axis=-1), np.ones(COUNT), bound(6))
    assert_close(points[:, 0] - points[:, 1], d[:, None] * n, bound(6))
    for end, kind in enumerate(kinds):
        at = outside(kind, T[:, end], numbers[:, end], points[:, end])
        on = np.abs(at) <= off(kinds, 10 * TOL) * (500 if PAIRS[kinds] in CONVEX else 1)
        if kind == "box":
            # the deepest point of one box is inside the other; where a rounded edge is crossed it may be off the face
            on |= (d < numbers[:, :, 3].sum(1)) & (at <= 10 * TOL + numbers[:, end, 3])
        assert on.all()


@pytest.mark.parametrize("kinds", KINDS)
def test_the_distance_follows_rigid_motions_and_scales(kinds: tuple[str, str]) -> None:
    T, numbers = scenes(*kinds)
    d, n, _points = measured(*kinds, T, numbers)
    rng = np.random.default_rng(5)
    G = np.eye(4)[None].repeat(COUNT, 0)
    G[:, :3, :3], G[:, :3, 3] = rotations(rng, COUNT), rng.uniform(-1, 1, (COUNT, 3))
    again, turned, _ = measured(*kinds, G[:, None] @ T, numbers)
    assert_near(again, d, off(kinds, bound(24)))
    sure = np.abs(d) > 1e-3
    same = np.einsum("bij,bj->bi", G[:, :3, :3], n)
    assert (
        np.abs(same - turned)[sure].max(axis=-1) < (1e-5 if PAIRS[kinds] in CONVEX else 1e-7)
    ).mean() > 0.995  # at ties, another axis may win
    larger, scaled = T.copy(), numbers * [4.0, 4.0, 4.0, 4.0, 16.0, 0.0625]
    larger[..., :3, 3] *= 4.0
    assert_near(measured(*kinds, larger, scaled)[0], 4.0 * d, 4.0 * off(kinds, bound(6)))


@pytest.mark.parametrize("kind", ["sphere", "capsule", "box", "cylinder", "ellipsoid"])
def test_the_order_of_two_shapes_does_not_matter(kind: str) -> None:
    T, numbers = scenes(kind, kind)
    d, n, points = measured(kind, kind, T, numbers)
    back, m, others = measured(kind, kind, T[:, ::-1], numbers[:, ::-1])
    assert_near(back, d, off((kind, kind), bound(12)))
    alike = np.abs(n + m).max(axis=-1) < (1e-5 if kind in ("cylinder", "ellipsoid") else 1e-9)
    assert alike.mean() > 0.995
    if kind in ("sphere", "capsule"):  # deepest points of boxes that overlap with a face are not unique
        assert_near(others[alike][:, ::-1], points[alike], 1e-9)  # nearly parallel ones slide


@pytest.mark.parametrize("kinds", KINDS)
def test_a_translation_changes_the_distance_by_no_more_than_its_length(kinds: tuple[str, str]) -> None:
    T, numbers = scenes(*kinds)
    d = measured(*kinds, T, numbers)[0]
    rng = np.random.default_rng(6)
    for size in (1e-9, 1e-6, 1e-3, 0.1):
        step = rng.standard_normal((COUNT, 3))
        step *= size / np.linalg.norm(step, axis=-1, keepdims=True)
        other = T.copy()
        other[:, 0, :3, 3] += step
        assert (np.abs(measured(*kinds, other, numbers)[0] - d) <= size + 2 * off(kinds, TOL)).all()
    grown = numbers.copy()
    grown[:, 0, 3] += 0.01
    assert_near(measured(*kinds, T, grown)[0], d - 0.01, off(kinds, bound(6)))


@pytest.mark.parametrize("kinds", KINDS)
def test_the_rate_of_the_distance_is_the_relative_velocity_along_the_normal(kinds: tuple[str, str]) -> None:
    """Inside and outside; wrong where witness points or normals are, even if the distance is right."""
    T, numbers = scenes(*kinds)
    d, n, points = measured(*kinds, T, numbers)
    twist = np.random.default_rng(7).standard_normal((COUNT, 2, 6))
    step = 1e-6
    ahead, behind = (measured(*kinds, moved(T, twist, by), numbers)[0] for by in (step, -step))
    velocities = twist[..., 3:] + np.cross(twist[..., :3], points)
    rate = ((velocities[:, 0] - velocities[:, 1]) * n).sum(axis=-1)
    wrong = np.abs((ahead - behind) / (2 * step) - rate) > 1e-6
    # curvature near edges, and ties between axes within the step
    assert wrong.mean() < 0.003
    assert (wrong & (d < 0.0)).sum() <= 0.003 * (d < 0.0).sum() + 1


@pytest.mark.parametrize("kinds", KINDS)
def test_bits_do_not_depend_on_the_batch_and_the_distance_alone_is_the_same(kinds: tuple[str, str]) -> None:
    T, numbers = scenes(*kinds, count=24)
    group = PAIRS[kinds]
    whole = function(group)(T, numbers, T, numbers)
    alone = [function(group)(x, y, x, y) for x, y in zip(T, numbers, strict=True)]
    for k, found in enumerate(whole):
        np.testing.assert_array_equal(found, np.stack([each[k] for each in alone]))
    # iterations are slow in Python: two of both kinds of terms, apart, where each step has the same rounding
    some = np.flatnonzero(whole[0][:, 0] > 0.1)[:2] if group in CONVEX else np.arange(6)
    if group in ("box_cylinders", "ellipsoids") or group not in CONVEX:
        reference = function(group).engine("reference")(T[some], numbers[some], T[some], numbers[some])
        for mine, theirs in zip(whole, reference, strict=True):
            assert_near(mine[some], theirs, 1e-7 if group in CONVEX else bound(60))
    assert_near(function(group, False)(T, numbers, T, numbers), whole[0], off(kinds, bound(6)))
    small = function(group, dtype="float32")(*(x.astype(np.float32) for x in (T, numbers, T, numbers)))
    assert_near(small[0], whole[0], 2e-5)


@pytest.mark.parametrize("kinds", KINDS)
def test_nan_stays_in_its_sample(kinds: tuple[str, str]) -> None:
    T, numbers = scenes(*kinds, count=20)
    good = measured(*kinds, T, numbers)[0]
    for row, column in ((0, 3), (2, 3), (1, 2)):
        bad = T.copy()
        bad[7, 0, row, column] = np.nan
        found = measured(*kinds, bad, numbers)[0]
        if column == 3 or kinds[0] != "sphere":
            assert np.isnan(found[7])
        np.testing.assert_array_equal(np.delete(found, 7), np.delete(good, 7))


def placed(*positions: Any) -> Array:
    T = np.zeros((1, 2, 4, 4))
    T[:] = np.eye(4)
    T[0, :, :3, 3] = positions
    return T


def shape(kind: str, half: Any = (0.0, 0.0, 0.0), radius: float = 0.0) -> Array:
    made = numbers_of(kind, np.array([half]), np.array([radius]))
    made[:, 3] = radius
    return made


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-9, 1e-6, 1e-3])
def test_parallel_capsules_touch_in_the_middle_of_their_overlap(angle: float) -> None:
    T, numbers = placed((0, 0, 0), (0.3, 0, 0.1)), np.stack([shape("capsule", (0, 0, 0.2), 0.1)] * 2, 1)
    T[0, 1, :3, :3] = [[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]]
    d, n, points = measured("capsule", "capsule", T, numbers)
    assert_near(d, 0.1 - 0.2 * np.sin(angle), angle**2 + TOL)
    if angle == 0.0:
        assert_near(points[0, 0], (0.1, 0, 0.05), TOL)
    assert_near(np.abs(n[0]), (1, 0, 0), angle + TOL)


def test_touching_cores_have_normals() -> None:
    capsule, ball = shape("capsule", (0, 0, 0.2), 0.1), shape("sphere", radius=0.1)
    for one, other, kinds in (
        (ball, ball, ("sphere", "sphere")),
        (ball, capsule, ("sphere", "capsule")),
        (capsule, capsule, ("capsule", "capsule")),
    ):
        d, n, _points = measured(*kinds, placed((0, 0, 0), (0, 0, 0)), np.stack([one, other], 1))
        assert_near(d, -0.2, TOL)
        assert_near(np.linalg.norm(n), 1.0, TOL)
        assert abs(n[0, 2]) < TOL  # across the capsules
    crossed = placed((0, 0, 0), (0, 0, 0.05))
    crossed[0, 1, :3, :3] = [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]
    _, n, _ = measured("capsule", "capsule", crossed, np.stack([capsule, capsule], 1))
    assert_near(np.abs(n[0]), (0, 1, 0), 1e-12)


@pytest.mark.parametrize("far", [0.0, 1e3])
def test_aligned_and_equal_boxes(far: float) -> None:
    box = shape("box", (0.2, 0.2, 0.2))
    both = np.stack([box, box], 1)
    for shift, expected in (
        ((0.5, 0, 0), 0.1),
        ((0.4, 0, 0), 0.0),
        ((0.3, 0, 0), -0.1),
        ((0.5, 0.5, 0.5), 0.1 * 3**0.5),
    ):
        T = placed(np.array(shift) + far, np.zeros(3) + far)
        d, n, points = measured("box", "box", T, both)
        assert_near(d, expected, 1e-12)
        assert_near(points[0, 0] - points[0, 1], d[0] * n[0], 1e-12)
        assert n[0] @ shift > 0.0
    d, n, _ = measured("box", "box", placed((far,) * 3, (far,) * 3), both)
    assert_near([d[0], np.linalg.norm(n)], [-0.4, 1.0], 1e-12)


def test_thin_plates_and_points() -> None:
    plate, point = shape("box", (1.0, 1.0, 5e-5)), shape("sphere", radius=1e-9)
    d, n, _ = measured("box", "box", placed((0.3, 0.1, 2e-4), (0, 0, 0)), np.stack([plate, plate], 1))
    assert_near(d, 1e-4, TOL)
    assert_near(n[0], (0, 0, 1), TOL)
    d, n, _ = measured("sphere", "box", placed((0.3, 0.1, 4e-5), (0, 0, 0)), np.stack([point, plate], 1))
    assert_near(d, -1e-5 - 1e-9, TOL)
    needle = shape("capsule", (0, 0, 0.5), 1e-3)
    d, n, _ = measured("capsule", "box", placed((0, 0, 0.2), (0, 0, 0)), np.stack([needle, plate], 1))
    assert_near(d, -0.3 - 5e-5 - 1e-3, TOL)


def test_the_lowest_point_of_what_is_level_is_its_middle() -> None:
    box, plane = shape("box", (0.2, 0.3, 0.4)), shape("plane")
    d, n, points = measured("box", "plane", placed((1, 2, 0.5), (0, 0, 0)), np.stack([box, plane], 1))
    assert_near([*d, *n[0], *points[0, 0], *points[0, 1]], [0.1, 0, 0, 1, 1, 2, 0.1, 1, 2, 0], TOL)
    lying = placed((1, 2, 0.5), (0, 0, 0))
    lying[0, 0, :3, :3] = [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]
    capsule = shape("capsule", (0, 0, 0.4), 0.1)
    _, _, points = measured("capsule", "plane", lying, np.stack([capsule, plane], 1))
    assert_near(points[0, 0], (1, 2, 0.4), TOL)
    cylinder = shape("cylinder", (0.1, 0.1, 0.4))
    for placed_so, height in ((lying, 0.4), (placed((1, 2, 0.5), (0, 0, 0)), 0.1)):
        _, _, points = measured("cylinder", "plane", placed_so, np.stack([cylinder, plane], 1))
        assert_near(points[0, 0], (1, 2, height), TOL)


def test_depths_do_not_depend_on_the_frame() -> None:
    """Directions that are tried where shapes overlap do; of one in 20,000, another side is found."""
    kinds = ("cylinder", "cylinder")
    T, numbers = scenes(*kinds, count=5000, seed=3)
    T[..., :3, 3] *= 0.3
    found = []
    for turn in rotations(np.random.default_rng(1), 2):
        G = np.eye(4)
        G[:3, :3] = turn
        found.append(measured(*kinds, G @ T, numbers)[0])
    assert (found[0] < 0.0).mean() > 0.5
    assert (np.abs(found[0] - found[1]) > 1e-6).sum() <= 1


def test_a_capsule_along_a_face_touches_in_the_middle_of_their_overlap() -> None:
    lying = placed((0.35, 0.1, 0.5), (0, 0, 0))
    lying[0, 0, :3, :3] = [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]
    both = np.stack([shape("capsule", (0, 0, 0.25), 0.1), shape("box", (0.2, 0.2, 0.2))], 1)
    d, n, points = measured("capsule", "box", lying, both)
    assert_near([*d, *n[0], *points[0, 1]], [0.2, 0, 0, 1, 0.15, 0.1, 0.2], TOL)  # x from 0.1 to 0.2
    lying[0, 0, 2, 3] = 0.15  # inside: as deep all along, up to the end of the box
    d, n, points = measured("capsule", "box", lying, both)
    assert_near([*d, *n[0], points[0, 1, 0]], [-0.15, 0, 0, 1, 0.15], TOL)


def test_the_normal_of_what_just_touches_is_that_of_the_face() -> None:
    T, numbers = scenes("capsule", "box", count=200)
    numbers[:, 1, 3] = 0.0
    touching = np.array([0.0, 0.02, 0.01]) + numbers[:, 1, :3] * (1, 0, 0)  # in the box's axes
    x, z = np.array([-0.5, 0, 1.0]) / 1.25**0.5, np.array([1.0, 0, 0.5]) / 1.25**0.5
    up = np.stack([x, np.cross(z, x), z], -1)
    R = T[:, 1, :3, :3]
    T[:, 0, :3, :3] = R @ up
    T[:, 0, :3, 3] = T[:, 1, :3, 3] + np.einsum("bij,bj->bi", R, touching + numbers[:, 0, 2:3] * z)
    d, n, _ = measured("capsule", "box", T, numbers)
    assert_near(d, -numbers[:, 0, 3], TOL)
    assert_near(n, R[:, :, 0], 1e-9)
