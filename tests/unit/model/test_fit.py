"""Capsules and spheres around other shapes contain them, and say by how much they are larger."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import geometry as geo
from tests.tolerance import assert_near, refused


def clearance(shape: Any, points: Any) -> Any:
    """How far points are inside a sphere or capsule."""
    ends = (shape.center,) * 2 if shape.kind == "sphere" else (shape.start, shape.end)
    along = ends[1] - ends[0]
    share = np.clip((points - ends[0]) @ along / max(along @ along, 1e-300), 0.0, 1.0)
    return shape.radius - np.linalg.norm(points - ends[0] - share[:, None] * along, axis=1)


@pytest.mark.parametrize("kind", ["capsules", "spheres"])
def test_fits_contain_all_vertices(kind: str) -> None:
    rng = np.random.default_rng(0)
    for k in range(6):
        points = rng.standard_normal((60, 3)) * rng.uniform(0.02, 0.5, 3)
        at = (np.linalg.qr(rng.standard_normal((3, 3)))[0], rng.standard_normal(3))
        at = (at[0] * np.linalg.det(at[0]), at[1])
        hull = geo.Hull("hand", points=points, placement=at, friction=0.3, masks=(1, 2), body="arm")
        fit = geo.fit([hull], kind)
        (one,) = fit
        assert (one.name, one.body, one.friction, one.masks, one.source) == ("hand", "arm", 0.3, (1, 2), "fitted")
        placed = hull.vertices @ hull.placement[:3, :3].T + hull.placement[:3, 3]
        inside = clearance(one, placed)
        assert inside.min() >= 0.0
        assert inside.min() < 1e-9, k  # and touch one
        assert 0.0 < fit.excess["hand"] < 2.0 * one.around


def test_what_is_a_capsule_is_found() -> None:
    n = np.random.default_rng(1).standard_normal((3000, 3))
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    points = 0.1 * n + np.where(n[:, 2:] > 0.0, (0, 0, 0.3), (0, 0, -0.3))
    fit = geo.fit([geo.Hull("a", points=points)])
    (capsule,) = fit
    assert_near(capsule.around, 0.1, 3e-3)
    assert_near(capsule.half[2], 0.3, 5e-3)
    assert fit.excess["a"] < 0.01
    (sphere,) = geo.fit([geo.Hull("a", points=0.1 * n)], "spheres")
    assert_near(sphere.around, 0.1, 5e-4)


def test_the_excess_is_right() -> None:
    plane = geo.Plane("floor")
    cylinder, ellipsoid = geo.Cylinder("a", 0.1, 0.4), geo.Ellipsoid("b", (0.1, 0.2, 0.3))
    fit = geo.fit([cylinder, plane, ellipsoid])
    assert [shape.kind for shape in fit] == ["capsule", "plane", "capsule"]
    assert fit.shapes[1] is plane
    assert len(fit) == 3
    assert set(fit.excess) == {"a", "b"}
    assert_near(fit.excess["a"], 0.1, 1e-9)  # the cap
    s = np.linspace(0.0, 1.0, 100_001)  # n·z, of normals without y
    assert_near(fit.excess["b"], np.max(0.2 + 0.1 * s - np.sqrt(0.01 * (1.0 - s * s) + 0.09 * s * s)), 1e-9)
    around = geo.fit([cylinder, ellipsoid], "spheres")
    assert_near(around.excess["a"], np.hypot(0.1, 0.2) - 0.1, 1e-9)
    assert_near(around.excess["b"], 0.2, 1e-9)
    cube = geo.Hull("c", points=[[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    assert_near(geo.fit([cube], "spheres").excess["c"], np.sqrt(3.0) - 1.0, 1e-3)


def test_the_excess_of_hulls_is_the_largest_of_all_directions() -> None:
    """Each face has a maximum of its own; some ends of capsules are outside."""
    rng, outside = np.random.default_rng(1), 0
    n = rng.standard_normal((20_000, 3))
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    for count in (6, 6, 6, 80):
        points = rng.standard_normal((count, 3))
        points /= np.linalg.norm(points, axis=1, keepdims=True) if count > 6 else 1.0  # more faces
        points *= rng.uniform(0.02, 0.5, 3)
        hull = geo.Hull("a", points=points, placement=(np.eye(3)[[1, 2, 0]], rng.standard_normal(3)))
        fit = geo.fit([hull])
        capsule: Any = fit.shapes[0]
        ends = (np.stack([capsule.start, capsule.end]) - hull.placement[:3, 3]) @ hull.placement[:3, :3]
        gap = ((ends @ n.T).max(axis=0) - (points @ n.T).max(axis=0)).max()
        assert -1e-12 < fit.excess["a"] - capsule.around - gap < 0.02 * capsule.around
        outside += gap > 0.0
    assert 0 < outside < 4


@pytest.mark.parametrize("kind", ["capsules", "spheres"])
def test_tight_fits_fall_short_by_as_much_as_they_reach_beyond(kind: str) -> None:
    rng = np.random.default_rng(0)
    points = rng.standard_normal((60, 3)) * (0.1, 0.2, 0.3)
    shapes = [geo.Hull("a", points=points), geo.Cylinder("b", 0.1, 0.2), geo.Sphere("c", (0, 0, 0), 0.1)]
    whole, tight = geo.fit(shapes, kind), geo.fit(shapes, kind, tight=True)
    assert tight.shapes[2] is whole.shapes[2]
    assert set(whole.shortfall.values()) == {0.0}
    for k, name in enumerate("ab"):
        assert_near([tight.excess[name], tight.shortfall[name]], [0.5 * whole.excess[name]] * 2, 1e-12)
        assert_near(whole.shapes[k].around - tight.shapes[k].around, tight.shortfall[name], 1e-12)
    assert_near(clearance(tight.shapes[0], points).min(), -tight.shortfall["a"], 1e-9)
    plate = geo.fit([geo.Hull("a", points=points * (1, 1e-3, 1))], kind, tight=True)
    assert plate.shapes[0].around > 0.0


def test_other_kinds_are_refused() -> None:
    refused("choose one of 'capsules', 'spheres'", geo.fit, [], "boxes")
    for function in (geo.fit, geo.simplified):
        for given in (kt.zoo.arm7(), geo.Sphere("a", (0, 0, 0), 1.0)):
            refused(f"a list of shapes, such as robot.shapes; got {type(given).__name__}", function, given)
