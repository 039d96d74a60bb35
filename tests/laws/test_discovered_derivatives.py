"""Derivatives of steps with discovered contacts: against differences, and against those of the same points, typed."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import geometry as geo
from kinetree import simulation
from kinetree.errors import InputError
from tests.laws.test_discovered_contacts import BESIDE, EDGES, MU, SHAPES, STONE, crates, floor, turned
from tests.mechanisms import gripper, hopper
from tests.tolerance import Array, assert_near, peak, refused

CORNERS = [(x, y, z) for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.05, 0.05)]
OTHERS: dict[str, Any] = {
    **SHAPES,
    "hull": lambda body: geo.Hull(body, points=STONE - (0.3, 0.0, 0.1)),
    "cylinder": lambda body: geo.Cylinder(body, 0.1, 0.2),
    "ellipsoid": lambda body: geo.Ellipsoid(body, (0.1, 0.07, 0.15)),
}
PAIRS = [
    ("sphere", "sphere"), ("sphere", "capsule"), ("sphere", "box"), ("capsule", "capsule"), ("capsule", "box"),
    ("box", "box"), ("rounded", "rounded"),
]  # fmt: skip
ALONE = ["sphere", "capsule", "box", "rounded", "cylinder", "ellipsoid", "hull"]


@cache
def meeting() -> tuple[simulation.Simulator, Array, Array]:
    """Pairs of bodies of all kinds that meet, bodies above a slope, and some above rough ground, a metre apart."""
    rng, builder, shapes = np.random.default_rng(8), kt.Builder("meeting"), list[Any]()
    kinds = [*(kind for pair in PAIRS for kind in pair), *ALONE, *(kind for kind in ALONE if kind != "rounded")]
    for i, kind in enumerate(kinds):
        builder.add_body(f"b{i}", joint="floating", mass=1.0 + 0.1 * i, inertia=np.diag([0.01, 0.02, 0.03]))
        shapes.append(OTHERS[kind](f"b{i}"))
    robot = builder.build().with_shapes(shapes)
    field = geo.HeightField(0.2 * rng.random((4, 9)), (8.0, 3.0), (np.eye(3), (3.0, -20.0, -2.5)), name="hills")
    slope = np.array([[1, 0, 0], [0, np.cos(0.1), -np.sin(0.1)], [0, np.sin(0.1), np.cos(0.1)]])
    wide = [geo.Plane("floor", (slope, (0, 10.0, 0)), friction=MU), field]
    sim, first = simulation.Simulator(robot, contacts="discover", scene=kt.Scene(wide)), 2 * len(PAIRS)

    q, v = robot.random_configuration(rng), 0.3 * rng.standard_normal(robot.nv)
    q3, v3 = q.reshape(-1, 7), v.reshape(-1, 6)
    for i in range(len(PAIRS)):
        q3[2 * i, :3], q3[2 * i + 1, :3] = (i, 0.0, 5.0), (i + 0.02, 0.03, 5.6)
    for i in range(first, len(kinds)):
        k = (i - first) % len(ALONE)
        q3[i, :3] = (k, 10.0, 0.5) if i < first + len(ALONE) else (k, -20.0, -1.9)
    moving = [2 * i + 1 for i in range(len(PAIRS))] + list(range(first, len(kinds)))
    for i in range(len(kinds)):  # downwards, but the lower one of each pair
        R = robot.pose(q, f"b{i}")[:3, :3]
        v3[i, 3:] += R.T @ np.array([0.1, 0.2, -0.6 if i in moving else 0.3])
    for _ in range(80):  # down to a gap of a fifth of a millimetre
        _, _, info = sim.step(q, v)
        assert info.contacts is not None
        low = {}
        for pair, gap in zip(info.contacts.pair, info.contacts.gap, strict=True):
            if pair >= 0:
                name = next(one for one in info.contacts.names[pair][::-1] if one.startswith("b"))
                low[name] = min(low.get(name, np.inf), gap)
        for i in moving:
            q3[i, 2] -= 0.7 * (low[f"b{i}"] - 2e-4) if f"b{i}" in low else 8e-3
    return sim, q, v


def test_changes_are_differences() -> None:
    """Of all kinds of pairs."""
    sim, q, v = meeting()
    robot, rng = sim.robot, np.random.default_rng(0)
    _, _, info = sim.step(q, v)
    assert info.contacts is not None
    assert len(set(info.contacts.pair.tolist()) - {-1}) == len(PAIRS) + 2 * len(ALONE) - 1
    modes = sim.discretize(q, v).modes
    assert modes.certain
    assert {simulation.STICKING, simulation.SLIDING} <= set(modes.contacts.tolist())
    h = 1e-7
    for _ in range(3):
        dq, dv, dtau = rng.standard_normal((3, robot.nv))
        after = sim.step.jvp(q, v, None, dq, dv, dtau)
        ends = [sim.step(robot.integrate(q, s * h * dq), v + s * h * dv, s * h * dtau)[:2] for s in (1, -1)]
        expected = robot.difference(ends[1][0], ends[0][0]) / (2 * h), (ends[0][1] - ends[1][1]) / (2 * h)
        for ours, theirs in zip(after, expected, strict=True):
            assert_near(ours, theirs, 1e-6 * (1.0 + peak(theirs)))


def test_matrices_changes_and_gradients_agree() -> None:
    sim, q, v = meeting()
    rng, n = np.random.default_rng(1), sim.robot.nv
    A, B, _ = sim.discretize(q, v)
    x = rng.standard_normal((5, n))
    assert_near(np.concatenate(sim.step.jvp(q, v, None, *x[:3])), A @ np.concatenate(x[:2]) + B @ x[2], 1e-9)
    found = sim.step.vjp(q, v, None, *x[3:])
    weights = np.concatenate(x[3:])
    assert_near(np.concatenate([found.q, found.v]), A.T @ weights, 1e-9)
    assert_near(found.tau, B.T @ weights, 1e-12)


@pytest.mark.parametrize("method", ["semi_implicit_euler", "midpoint"])
@pytest.mark.parametrize("speed", [0.0, 1.0])
def test_the_corners_of_a_box_have_derivatives_of_typed_points(method: str, speed: float) -> None:
    """Faces, whose forces the laws leave open, that stick and slide; with masses, forces and batches."""
    points = [simulation.Points("box0", CORNERS)]
    typed = simulation.Simulator(crates((1.0,)), contacts=points, ground=simulation.Plane(friction=MU), method=method)
    found = simulation.Simulator(crates((1.0,)), contacts="discover", scene=floor(), method=method)
    q, v = np.array([0.0, 0.0, 0.05 + 2e-6, *turned((0, 0, 1), 0.3)]), np.array([0, 0, 0, speed, 0.3 * speed, 0])
    push = {"box0": np.array([0.1, 0.2, 0.3, 0.5, 0.0, -1.0])}
    (A, B, modes), (A2, B2, modes2) = (sim.discretize(q, v, np.zeros(6), f_ext=push) for sim in (typed, found))
    assert sorted(modes.contacts.tolist())[-4:] == sorted(modes2.contacts.tolist())[-4:]
    assert modes.unique == modes2.unique
    near = 1e-8 if modes.unique else 1e-5  # of what the laws leave open, compliance decides
    assert_near(A2, A, near * peak(A))
    assert_near(B2, B, near * (1e-3 + peak(B)))
    w = np.random.default_rng(0).standard_normal((2, 6))
    one, other = (sim.step.vjp(q, v, None, *w, f_ext=push, parameters=True) for sim in (typed, found))
    for name in ("q", "v", "tau", "parameters"):
        ours, theirs = getattr(other, name), getattr(one, name)
        assert_near(ours, theirs, near * (1e-3 + peak(theirs)))
    assert_near(other.f_ext["box0"], one.f_ext["box0"], near)


def test_the_vertices_of_a_narrow_hull_have_derivatives_of_typed_points() -> None:
    points = BESIDE - (0.0, 0.003, 0.02)
    robot = crates((1.0,)).with_shapes([geo.Hull("box0", points=points, friction=MU)])
    typed = simulation.Simulator(
        crates((1.0,)), contacts=[simulation.Points("box0", points)], ground=simulation.Plane(friction=MU)
    )
    found = simulation.Simulator(robot, contacts="discover", scene=floor())
    q, v = np.array([0.0, 0.0, 0.02 + 2e-6, *turned((0, 0, 1), 0.3)]), np.array([0.0, 0.0, 0.2, 1.0, 0.05, 0.0])
    (A, B, modes), (A2, B2, _) = (sim.discretize(q, v) for sim in (typed, found))
    assert modes.unique
    assert_near(A2, A, 1e-8 * peak(A))
    assert_near(B2, B, 1e-8 * peak(B))


def test_gradients_of_a_motion() -> None:
    """A box that is thrown, slides and comes to rest: as of typed corners; a sample's bits are those of it alone."""
    points = [simulation.Points("box0", CORNERS)]
    typed = simulation.Simulator(crates((1.0,)), contacts=points, ground=simulation.Plane(friction=MU))
    found = simulation.Simulator(crates((1.0,)), contacts="discover", scene=floor())
    rng = np.random.default_rng(0)
    q, v = np.array([0.0, 0.0, 0.052, *turned((0, 0, 1), 0.3)]), np.array([0.0, 0.0, 0.2, 0.6, 0.1, 0.0])
    taus, w = np.zeros((2, 40, 6)), rng.standard_normal((2, 41, 6))
    taus[1] = 0.1 * rng.standard_normal((40, 6))
    both = found.rollout.vjp(q, v, taus, *w)
    alone = found.rollout.vjp(q, v, taus[1], *w)
    theirs = typed.rollout.vjp(q, v, taus, *w)
    for name in ("q", "v", "tau"):
        np.testing.assert_array_equal(getattr(both, name)[1], getattr(alone, name))
        assert_near(getattr(both, name), getattr(theirs, name), 1e-5 * peak(getattr(theirs, name)))


def test_stops_friction_springs_and_constraints() -> None:
    """A leg at its stop with its foot on the ground, boxes that are welded, a finger that mimics another one."""
    leg = hopper()
    corners = [(x, y, -0.05) for x in (-0.1, 0.1) for y in (-0.1, 0.1)]
    dry = np.r_[np.zeros(6), 0.3]
    options: dict[str, Any] = {"limits": True, "friction": dry, "stiffness": 10.0 * dry, "damping": 0.1}
    boxed = leg.with_shapes([geo.Box("foot", EDGES, friction=MU)])
    welded, at = crates((1.0, 2.0)), np.array([0, 0, 0.05, 1, 0, 0, 0, 0.25, 0, 0.2, 1, 0, 0, 0.0])
    held: dict[str, Any] = {"constraints": [kt.Weld("box0", "box1")], "at": at}
    pair = [simulation.Points(f"box{i}", CORNERS) for i in (0, 1)]
    hand = gripper()
    name, half = hand.bodies[-1].name, 0.5 * np.array(EDGES)
    tips = [simulation.Points(name, [half * (x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])]
    low = hand.pose(hand.neutral(), name)[2, 3] - np.abs(hand.pose(hand.neutral(), name)[2, :3]) @ half - 2e-6
    cases = (
        (leg, boxed, [simulation.Points("foot", corners)], 0.0, options, [0, 0, 0.25 + 3e-6, 1, 0, 0, 0, 0.1 - 2e-6]),
        (welded, welded, pair, 0.0, held, at + [0, 0, 1e-6, 0, 0, 0, 0] * 2),
        (hand, hand.with_shapes([geo.Box(name, EDGES, friction=MU)]), tips, low, {}, hand.neutral()),
    )
    for plain, shaped, points, height, more, q in cases:
        ground = simulation.Plane(offset=height, friction=MU)
        typed = simulation.Simulator(plain, contacts=points, ground=ground, **more)
        scene = kt.Scene([geo.Plane("floor", (np.eye(3), (0, 0, height)), friction=MU)])
        found = simulation.Simulator(shaped, contacts="discover", scene=scene, **more)
        v = np.zeros(plain.nv)
        (A, B, modes), (A2, B2, modes2) = (sim.discretize(q, v) for sim in (typed, found))
        assert (modes2.contacts > 0).any()
        np.testing.assert_array_equal(modes.joints, modes2.joints)
        assert_near(A2, A, 1e-7 * peak(A))
        assert_near(B2, B, 1e-7 * (1e-3 + peak(B)))
        w = np.random.default_rng(0).standard_normal((5, plain.nv))
        grads = found.step.vjp(q, v, None, w[0], w[1])
        assert_near(np.concatenate([grads.q, grads.v]), A2.T @ np.concatenate(w[:2]), 1e-8 * peak(A))
        along = A2 @ np.concatenate(w[2:4]) + B2 @ w[4]
        assert_near(np.concatenate(found.step.jvp(q, v, None, *w[2:])), along, 1e-8 * peak(A))


def test_shapes_that_are_discovered_have_no_gradients_of_their_own() -> None:
    sim, q, v = meeting()
    assert sim.step.vjp(q, v, None, v, v).friction.shape == (0,)
    refused("friction", sim.step.jvp, q, v, None, v, v, friction=[1.0], error=InputError)
