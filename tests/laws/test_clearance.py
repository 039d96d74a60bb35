"""Distances of the shapes of robots of all kinds: derivatives, engines, bits, precision."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import geometry as geo
from tests.laws.cases import model
from tests.tolerance import assert_close, assert_near, bound, refused

ROBOTS = ["one", "every kind", "forest", "many tips", "legged", "humanoid24", "gear", "beam"]


@cache
def robot(name: str) -> kt.Model:
    """A robot whose frames carry shapes of every kind."""
    builder = kt.Builder(name)
    if name == "gear":
        parent = "world"
        for k in range(4):
            at = (np.eye(3), (0.4, 0.1, 0.1))
            builder.add_body(
                f"b{k}", parent=parent, joint="revolute", placement=at, axis=(0.2, 0, 1), mass=1.0, inertia=np.eye(3)
            )
            parent = f"b{k}"
        builder.couple("b2_joint", to="b1_joint", ratio=-0.7)
        made = builder.build()
    elif name == "beam":
        builder.add_flexible("beam", kt.Beam(1.0, 5.0, 1.0, modes=2, axial_inertia=1e-3), joint="revolute")
        builder.add_body("hand", parent="beam/tip", joint="spherical", mass=1.0, inertia=0.1 * np.eye(3))
        builder.add_body(
            "finger", parent="hand", joint="prismatic", placement=(np.eye(3), (0.4, 0, 0)), mass=1.0, inertia=np.eye(3)
        )
        made = builder.build()
    else:
        made = model(name)
    shapes: list[geo.SolidShape] = [geo.Box("base", (0.3, 0.2, 0.1), body="world")]
    rng = np.random.default_rng(3)
    for k, frame in enumerate(f for f in made.frames if f != "world"):
        at = rng.uniform(-0.05, 0.05, 3)
        shapes.append(
            [
                geo.Sphere(frame, at, 0.04),
                geo.Capsule(frame, -at, at + np.array([0.05, 0.02, 0.1]), 0.03),
                geo.Box(frame, (0.05, 0.1, 0.15), (np.eye(3), at)),
            ][k % 3]
        )
    return made.with_shapes(shapes)


@cache
def pairs_of(name: str) -> geo.CollisionPairs:
    scene = kt.Scene([geo.Plane(placement=(np.eye(3), (0, 0, -0.3))), geo.Capsule("pole", (1, 0, 0), (1, 0, 2), 0.1)])
    return robot(name).collision_pairs(scene=scene, keep_colliding=True)


@pytest.mark.parametrize("name", ROBOTS)
def test_jacobians_are_derivatives(name: str) -> None:
    made, pairs = robot(name), pairs_of(name)
    rng = np.random.default_rng(0)
    q, v = made.random_configuration(rng, (6,)), rng.standard_normal((6, made.nv))
    near = made.distances(q, pairs)
    step = 1e-6
    ahead, behind = (made.distances(made.integrate(q, v, by), pairs).distance for by in (step, -step))
    rate = np.einsum("bpv,bv->bp", near.jacobian, v)
    wrong = np.abs((ahead - behind) / (2 * step) - rate) > 1e-6 * max(1.0, float(np.abs(q).max()))
    assert wrong.mean() < 0.003
    pull = rng.standard_normal(near.distance.shape)
    assert_close(near.jvp(v), rate, bound(made.nv))
    assert_close((near.vjp(pull) * v).sum(-1), (pull * rate).sum(-1), bound(made.nv * len(pairs)))
    assert_close(made.distances(q[0], pairs).jvp(v[:2])[1], near.jacobian[0] @ v[1], bound(made.nv))
    some = near.nearest(min(5, len(pairs)))
    np.testing.assert_array_equal(some.distance, np.sort(near.distance, axis=-1)[:, : some.distance.shape[1]])
    for b, row in enumerate(some.index):
        np.testing.assert_array_equal(some.jacobian[b], near.jacobian[b, row])
        np.testing.assert_array_equal(some.points[b], near.points[b, row])
        np.testing.assert_array_equal(some.normal[b], near.normal[b, row])
        assert [tuple(names) for names in some.names[b]] == [pairs[k] for k in row]
    # the smallest one, and its derivatives
    np.testing.assert_array_equal(made.clearance(q, pairs), near.distance.min(axis=-1))
    along = made.clearance.jvp(q, pairs, v)
    nearest = near.distance.argmin(axis=-1)
    assert_close(along, rate[np.arange(6), nearest], bound(made.nv))
    weights = rng.standard_normal(6)
    assert_close((made.clearance.vjp(q, pairs, weights) * v).sum(-1), weights * along, bound(made.nv))
    np.testing.assert_array_equal(made.collides(q, pairs), made.clearance(q, pairs) < 0.0)
    np.testing.assert_array_equal(made.collides(q, pairs, 0.1), made.clearance(q, pairs) < 0.1)


@pytest.mark.parametrize("name", ["every kind", "forest", "humanoid24", "gear"])
def test_engines_agree_and_bits_do_not_depend_on_the_batch(name: str) -> None:
    made, pairs = robot(name), pairs_of(name)
    q = made.random_configuration(np.random.default_rng(1), (19,))
    whole = made.distances(q, pairs)
    size = max(1.0, float(np.abs(whole.points).max()))
    reference = made._distance_function(pairs, True, "reference")(q[:2])
    for mine, theirs in zip(made._distance_function(pairs, True)(q[:2]), reference, strict=True):
        assert_close(mine, theirs, 1e3 * bound(made.nv), size)
    for b in (0, 7, 18):
        alone = made.distances(q[b], pairs)
        for what in ("distance", "normal", "points"):
            np.testing.assert_array_equal(getattr(whole, what)[b], getattr(alone, what))
    strided = made.distances(np.stack([q, q], -1)[..., 0].reshape(19, 1, -1), pairs)
    np.testing.assert_array_equal(strided.distance[:, 0], whole.distance)
    assert_near(made._clearances(q, pairs), whole.distance, bound(6) * size)
    small = made.astype("float32").distances(q, pairs)
    assert small.distance.dtype == np.float32
    assert_near(small.distance, whole.distance, 1e-4 * size)


@pytest.mark.parametrize("egg", [False, True])
def test_results_go_where_they_are_wanted(egg: bool) -> None:
    made, pairs = robot("forest"), pairs_of("forest")
    if egg:  # which has no closed form
        pytest.importorskip("coal")
        made = made.with_shapes([geo.Ellipsoid("egg", (0.1, 0.2, 0.3), body=str(made.shapes[-1].body))], add=True)
        pairs = made.collision_pairs(keep_colliding=True).without("world")
    q, count = made.random_configuration(2, (3,)), len(pairs)
    for at in (q[0], q):
        batch, expected = at.shape[:-1], made.distances(at, pairs)
        places = tuple(np.full((*batch, *shape), np.nan) for shape in ((count,), (count, 3), (count, 2, 3)))
        found = made.distances(at, pairs, out=places)
        again = made.distances(q[1], pairs) if at.ndim == 1 else made.distances(q[::-1], pairs)
        kept = again.distance
        made.distances(at, pairs, out=again)
        for what, place in zip(("distance", "normal", "points"), places, strict=True):
            assert np.shares_memory(getattr(found, what), place)
            np.testing.assert_array_equal(place, getattr(expected, what))
            np.testing.assert_array_equal(getattr(again, what), getattr(expected, what))
        assert again.distance is kept
        least, touch = np.empty(batch), np.empty(batch, dtype=bool)
        assert made.clearance(at, pairs, out=least) is least
        assert made.collides(at, pairs, out=touch) is touch
        np.testing.assert_array_equal(least, made.clearance(at, pairs))
        np.testing.assert_array_equal(touch, made.collides(at, pairs))
    refused("tuple of three arrays", made.distances, q, pairs, out=places[0])
    refused("see its docstring", made.distances, q, pairs, out=(places[0], places[0][0, :], places[2]))
    refused("out", made.distances, q[0], pairs, out=places)
    refused("out", made.distances, q, pairs, out=tuple(x.astype(np.float32) for x in places))
    refused(r"clearance: out is an array \(3,\) of float64", made.clearance, q, pairs, out=np.empty(2))
    refused(r"collides: out is an array \(3,\) of bool", made.collides, q, pairs, out=[True])


def test_functions_of_few_sets_of_pairs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made, pairs = robot("gear"), pairs_of("gear")
    monkeypatch.setattr("kinetree.model.distances._KEPT", 1)
    for k in range(len(pairs)):
        made.clearance(made.neutral(), pairs.only(*pairs[k]))
    assert len(made._distance_functions) <= 3


def test_weights_rates_and_margins_that_cannot_be_are_refused() -> None:
    made, pairs = robot("forest"), pairs_of("forest")
    q = made.neutral()
    near = made.distances(q, pairs)
    refused(r"distances.jvp: dq has shape \(1,\)", near.jvp, [1.0])
    refused(r"distances.vjp: weight has shape \(2,\)", near.vjp, [1.0, 2.0])
    refused(r"clearance.jvp: dq has shape \(1,\)", made.clearance.jvp, q, pairs, [1.0])
    refused("clearance.vjp: weight has dtype", made.clearance.vjp, q, pairs, "large")
    for margin in (np.nan, None, "wide"):
        refused("margin=.* is not a length", made.collides, q, pairs, margin)


def test_nan_stays_in_its_sample() -> None:
    made, pairs = robot("humanoid24"), pairs_of("humanoid24")
    q = made.random_configuration(0, (9,))
    good = made.distances(q, pairs).distance
    q[4, -1] = np.nan
    bad = made.distances(q, pairs).distance
    np.testing.assert_array_equal(np.delete(bad, 4, 0), np.delete(good, 4, 0))
    moved = np.isnan(bad[4])
    assert moved.any()
    np.testing.assert_array_equal(bad[4][~moved], good[4][~moved])


def test_a_twin_of_a_robot_collides_where_it_stands() -> None:
    made = kt.zoo.humanoid24()
    made = made.with_shapes([geo.Sphere(body.name, (0, 0, 0), 0.01) for body in made.bodies])
    both = made.attach("world", made, prefix="twin_")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = both.collision_pairs(keep_colliding=True)
    q = both.random_configuration(0)
    count = sum(a.removeprefix("twin_") == b.removeprefix("twin_") for a, b in pairs)
    assert count == len(made.shapes)
    q[made.nq :] = q[: made.nq]
    near: Any = both.distances(q, pairs)
    same = [k for k, (a, b) in enumerate(pairs) if a.removeprefix("twin_") == b.removeprefix("twin_")]
    assert_near(near.distance[same], np.full(count, -0.02), bound(both.nv))


@pytest.mark.parametrize("name", ["every kind", "forest", "legged"])
def test_screws_of_joints_are_columns_of_jacobians(name: str) -> None:
    made = robot(name)
    q = made.random_configuration(np.random.default_rng(2), (3,))
    S = made._joint_screws(q)
    for shape in made.shapes[1::3]:
        J = made.jacobian(q, str(shape.body), reference="world")
        moved = np.abs(J).max(axis=(0, 1)) > 0.0
        assert_close(
            J[..., moved], np.swapaxes(S, -1, -2)[..., moved], bound(made.nv), max(1.0, float(np.abs(J).max()))
        )
