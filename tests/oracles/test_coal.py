"""Distances of random pairs against coal, Pinocchio's collision library; and of a robot's shapes against Pinocchio."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import geometry as geo
from kinetree.kernels.pair_distances import CONVEX
from tests.laws.test_distances import PAIRS, measured, scenes
from tests.oracle import oracle
from tests.oracles.pinocchio_twin import pin
from tests.tolerance import assert_near

coal = oracle("coal")

#: Pairs of each kind. At tighter tolerances than this one, coal's own results are wrong now and then.
COUNT, TOLERANCE = 4000, 1e-9


def theirs(kind: str, numbers: Any) -> Any:
    if kind == "sphere":
        return coal.Sphere(numbers[3])
    if kind == "capsule":
        return coal.Capsule(numbers[3], 2.0 * numbers[2])
    if kind == "box":
        made = coal.Box(2.0 * numbers[:3])
        made.setSweptSphereRadius(numbers[3])
        return made
    if kind == "cylinder":
        return coal.Cylinder(numbers[0], 2.0 * numbers[2])
    if kind == "ellipsoid":
        return coal.Ellipsoid(*numbers[:3])
    return coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0)


@pytest.mark.parametrize("kinds", [kinds for kinds, one in PAIRS.items() if one not in CONVEX], ids="-".join)
def test_distances_of_random_pairs(kinds: tuple[str, str]) -> None:
    T, numbers = scenes(*kinds, count=COUNT, seed=1)
    found = measured(*kinds, T, numbers)[0]
    request = coal.DistanceRequest()
    request.gjk_tolerance = request.epa_tolerance = TOLERANCE
    distances = []
    for poses, sizes in zip(T, numbers, strict=True):
        shapes = [theirs(kind, own) for kind, own in zip(kinds, sizes, strict=True)]
        (a, b), at = shapes, [coal.Transform3s(pose[:3, :3], pose[:3, 3]) for pose in poses]
        distances.append(coal.distance(a, at[0], b, at[1], request, coal.DistanceResult()))
    expected = np.array(distances)
    if "cylinder" in kinds:  # coal's depth may be that of another side
        assert np.mean(np.abs(found - expected) <= TOLERANCE) > 0.95
        expected = np.where(found < 0.0, np.maximum(found, expected), expected)
    assert_near(found, expected, TOLERANCE)


@pytest.mark.parametrize("kinds", [kinds for kinds, one in PAIRS.items() if one in CONVEX], ids="-".join)
def test_no_direction_parts_overlapping_shapes_sooner(kinds: tuple[str, str]) -> None:
    """Local maxima that are close to each other."""
    from tests.fuzz.distances import convex

    found = convex(kinds, 200, 0)
    assert found["overlap"] > 0.1
    assert found["wrong"] + found["wrong rates"] == 0


def test_distances_of_a_robot() -> None:
    model = pin.buildSampleModelHumanoid()
    robot = kt.from_pinocchio(model)
    shapes: list[geo.SolidShape] = []
    other = kt.interop.pinocchio(robot, model)
    for i, frame in enumerate(name for name in other.frames if name != "world"):
        shapes.append(geo.Capsule(frame, (0, 0, 0), (0.02, 0.01, 0.1), 0.03))
        shapes.append(geo.Sphere(frame, (0.0, 0.05, 0.01 * i), 0.04))
        shapes.append(geo.Box(frame, (0.1, 0.2, 0.03), (np.eye(3), (0.0, 0.0, 0.02))))
    robot = robot.with_shapes(shapes)
    pairs = robot.collision_pairs(keep_colliding=True)
    geometry = pin.GeometryModel()
    for shape in pairs.shapes:
        frame = model.frames[other.frame_id(str(shape.body))]
        core = theirs(shape.kind, np.array([*shape.half, shape.around]))
        placement = frame.placement * pin.SE3(np.array(shape.pose))
        geometry.addGeometryObject(pin.GeometryObject(shape.name, frame.parentJoint, placement, core))
    for i, j in pairs.numbers.tolist():
        geometry.addCollisionPair(pin.CollisionPair(i, j))
    data, found = model.createData(), geometry.createData()
    for request in found.distanceRequests:
        request.gjk_tolerance = request.epa_tolerance = TOLERANCE
    for q in robot.random_configuration(0, (5,)):
        near = robot.distances(q, pairs)
        pin.computeDistances(model, data, geometry, found, other.to_q(q))
        assert_near(near.distance, [result.min_distance for result in found.distanceResults], TOLERANCE)
        apart = [k for k, result in enumerate(found.distanceResults) if result.min_distance > 1e-6]
        # coal's normals point from the first shape to the second
        normals = np.array([-found.distanceResults[k].normal for k in apart])
        assert np.median(np.abs(near.normal[apart] - normals).max(axis=-1)) < TOLERANCE
