"""Every kind of joint: its transform, its map and its coordinates say the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import sympy

from kinetree.language.node import NodeKind
from kinetree.model import Builder, Model
from kinetree.model.joints import KINDS, JointKind, Stage
from kinetree.model.nodes.rigid import AxialBody, JointedBody, PlacementShape
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Motion
from kinetree.spatial.rotation import exp_matrix
from kinetree.spatial.transform import Transform
from tests.unit.spatial.scalars import SCALARS, Array, Scalars

STAGES = [kind for kind in KINDS.values() if isinstance(kind, Stage)]
MOVING = [kind for kind in KINDS.values() if kind.nv]
OWN = np.array([0.17])

stages = pytest.mark.parametrize("kind", STAGES, ids=lambda kind: kind.name)
moving = pytest.mark.parametrize("kind", MOVING, ids=lambda kind: kind.name)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def random_placement(rng: np.random.Generator) -> Transform:
    return Transform.of(exp_matrix(rng.uniform(-2, 2, 3)), rng.uniform(-1, 1, 3))


def random_q(kind: JointKind, rng: np.random.Generator, *shape: int) -> Array:
    unlimited = np.full(kind.nq, np.inf)
    return kind.random(rng, shape, -unlimited, unlimited)


def each(function: Callable[..., Array], *arrays: Array) -> Array:
    """The results for samples one by one."""
    return np.array([function(*sample) for sample in zip(*arrays, strict=True)])


@stages
def test_the_map_is_the_derivative_of_the_transform(kind: Stage, rng: np.random.Generator) -> None:
    """d/dt X m = −(H v) × (X m) for a motion m that is constant in the parent: by a complex step along `integrate`."""
    placement, own = random_placement(rng), OWN[: kind.own]
    q, v, m = random_q(kind, rng), rng.uniform(-1, 1, kind.nv), Motion(rng.uniform(-1, 1, 6))
    h = 1e-30
    moved = kind.transform(placement, own, kind.integrate(q, 1j * h * v)) @ m
    rate = -(kind.joint_map(own) @ v).cross(kind.transform(placement, own, q) @ m)
    np.testing.assert_allclose(moved.data.imag / h, rate.data, rtol=0, atol=1e-13)


@stages
def test_neutral_leaves_the_placement(kind: Stage, rng: np.random.Generator) -> None:
    placement = random_placement(rng)
    neutral = kind.transform(placement, OWN[: kind.own], kind.neutral())
    np.testing.assert_allclose(neutral.data, placement.data, rtol=0, atol=1e-16)


@stages
def test_placement_is_composed_with_the_motion(kind: Stage, rng: np.random.Generator) -> None:
    placement, own, q = random_placement(rng), OWN[: kind.own], random_q(kind, rng)
    bare = kind.transform(Transform.identity(), own, q)
    np.testing.assert_allclose(kind.transform(placement, own, q).data, (bare @ placement).data, rtol=0, atol=1e-15)


@stages
@pytest.mark.parametrize("scalars", SCALARS, ids=lambda scalars: scalars.name)
def test_transforms_run_on_any_scalar(kind: Stage, scalars: Scalars, rng: np.random.Generator) -> None:
    """The transform stays one: EᵀE = 1 to the last digit of the scalar type."""
    placement = Transform.of(np.eye(3)[[2, 0, 1]], scalars.random(rng, 3))
    X = kind.transform(placement, scalars.random(rng, kind.own), scalars.random(rng, kind.nq))
    scalars.assert_close(X.E.T @ X.E, np.eye(3))


@stages
def test_transforms_run_on_symbols(kind: Stage) -> None:
    q, own = np.array(sympy.symbols("q:7", real=True)), np.array([sympy.Symbol("pitch")])
    X = kind.transform(Transform.identity(), own[: kind.own], q[: kind.nq])
    assert len(X.data) == 12


@moving
@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-12, 1e-6, 1e-3, 0.099, 0.101, 1.0, 2.5, 3.1415])
def test_difference_undoes_integrate(kind: JointKind, size: float, rng: np.random.Generator) -> None:
    q, v = random_q(kind, rng, 30), rng.standard_normal((30, kind.nv))
    turning = v[:, :3] if kind.name in ("spherical", "floating") else v
    v = v * size / np.linalg.norm(turning, axis=1, keepdims=True)
    moved = each(kind.integrate, q, v)
    np.testing.assert_allclose(each(kind.difference, q, moved), v, rtol=0, atol=1e-14)
    again = each(kind.integrate, q, each(kind.difference, q, moved))
    np.testing.assert_allclose(np.abs(again), np.abs(moved), rtol=0, atol=1e-14)


@moving
def test_integrate_undoes_difference(kind: JointKind, rng: np.random.Generator) -> None:
    q0, q1 = random_q(kind, rng, 50), random_q(kind, rng, 50)
    reached = each(kind.integrate, q0, each(kind.difference, q0, q1))
    if kind.name == "planar":
        turns = (reached - q1)[:, 2] / (2 * np.pi)
        np.testing.assert_allclose(turns, np.round(turns), rtol=0, atol=1e-15)
        reached[:, 2] = q1[:, 2]
    if kind.nq > kind.nv:
        quaternion = reached[:, -4:]
        quaternion *= np.sign(np.sum(quaternion * q1[:, -4:], axis=1, keepdims=True))
    np.testing.assert_allclose(reached, q1, rtol=0, atol=1e-13)


@moving
def test_steps_along_a_constant_twist_add_up(kind: JointKind, rng: np.random.Generator) -> None:
    q, v = random_q(kind, rng), rng.uniform(-1, 1, kind.nv)
    twice = kind.integrate(kind.integrate(q, 0.3 * v), 0.7 * v)
    np.testing.assert_allclose(twice, kind.integrate(q, v), rtol=0, atol=1e-14)


@moving
def test_normalize_keeps_the_configuration(kind: JointKind, rng: np.random.Generator) -> None:
    q = random_q(kind, rng, 10)
    stretched = q.copy()
    if kind.nq > kind.nv:
        stretched[:, -4:] *= np.linspace(0.1, 30.0, 10)[:, None]
    np.testing.assert_allclose(each(kind.normalize, stretched), q, rtol=0, atol=1e-15)
    step = rng.uniform(-1, 1, q[:, : kind.nv].shape)
    np.testing.assert_allclose(each(kind.integrate, stretched, step), each(kind.integrate, q, step), rtol=0, atol=1e-14)
    np.testing.assert_allclose(each(kind.difference, stretched, q), 0.0, rtol=0, atol=1e-14)


@moving
def test_random_configurations_stay_within_limits(kind: JointKind, rng: np.random.Generator) -> None:
    if not kind.limited:
        q = random_q(kind, rng, 1000)
        np.testing.assert_allclose(np.linalg.norm(q[:, -4:], axis=1), 1.0, rtol=0, atol=1e-15)
        return
    reach, inf = np.where(kind.angles, np.pi, 1.0), np.full(kind.nq, np.inf)
    # without limits, with both, with one
    for lower, upper, low, high in (
        (-inf, inf, -reach, reach),
        (0.2 * reach, 0.3 * reach, 0.2 * reach, 0.3 * reach),
        (reach, inf, reach, 3 * reach),
    ):
        q = kind.random(rng, (1000,), lower, upper)
        assert (q >= low).all()
        assert (q <= high).all()
        assert (np.ptp(q, axis=0) > 0.9 * (high - low)).all()


def test_planar_moves_in_its_body_frame() -> None:
    planar = KINDS["planar"]
    turned = np.array([1.0, 2.0, np.pi / 2])
    np.testing.assert_allclose(
        planar.integrate(turned, np.array([0.0, 1.0, 0.0])), [1.0, 3.0, np.pi / 2], rtol=0, atol=1e-15
    )


def test_floating_moves_in_its_body_frame() -> None:
    floating = KINDS["floating"]
    half = np.sqrt(0.5)
    q = np.array([1.0, 2.0, 3.0, half, 0.0, 0.0, half])
    moved = floating.integrate(q, np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0]))
    np.testing.assert_allclose(moved, [1.0, 3.0, 3.0, half, 0.0, 0.0, half], rtol=0, atol=1e-15)


def test_kinds_compare_by_value() -> None:
    for kind in KINDS.values():
        assert kind == type(kind)()
        assert hash(kind) == hash(type(kind)())
    assert len(set(KINDS.values())) == len(KINDS)
    assert JointedBody(STAGES[0]) == JointedBody(STAGES[0])
    assert JointedBody(STAGES[0]) != JointedBody(STAGES[0], has_armature=True)


@stages
@pytest.mark.parametrize("armature", [False, True])
def test_nodes_lay_out_their_constants(kind: Stage, armature: bool, rng: np.random.Generator) -> None:
    node = JointedBody(kind, armature)
    typed: NodeKind = node
    placement, own, added = random_placement(rng), rng.uniform(0, 1, kind.own), rng.uniform(0, 1, kind.nv)
    inertia = RigidInertia.of(1.0, rng.uniform(-1, 1, 3), np.eye(3))
    parameters = node.parameters(placement, inertia, added, own)
    q, v, V = random_q(kind, rng), rng.uniform(-1, 1, kind.nv), Motion(rng.uniform(-1, 1, 6))
    assert parameters.shape == (typed.parameter_count,)
    assert (typed.nq, typed.nv, typed.port) == (kind.nq, kind.nv, "rigid")
    np.testing.assert_array_equal(typed.weight(parameters, q).data, kind.transform(placement, own, q).data)
    np.testing.assert_array_equal(typed.inertia(parameters).data, inertia.data)
    np.testing.assert_array_equal(typed.armature(parameters), added if armature else np.zeros(kind.nv))
    H = kind.joint_map(own)
    np.testing.assert_array_equal((typed.joint_map(parameters) @ v).data, (H @ v).data)
    np.testing.assert_array_equal(typed.coriolis(parameters, None, v, V, Motion.zero()).data, V.cross(H @ v).data)
    np.testing.assert_array_equal(typed.gyroscopic(parameters, None, v, V).data, V.cross(inertia @ V).data)


def universal(first: tuple[float, ...], second: tuple[float, ...]) -> Model:
    return Builder().add_body("a", joint="universal", axes=(first, second), mass=1.0, inertia=np.eye(3)).build()


def test_universal_is_two_revolutes() -> None:
    robot = universal((1, 0, 0), (0, 1, 1))
    assert (robot.nq, robot.nv, len(robot.joints), len(robot.mechanism.topology)) == (2, 2, 1, 2)
    first, second = robot.mechanism.kinds
    revolute = KINDS["revolute"].stages[0]
    assert first == JointedBody(revolute)
    assert second == AxialBody(revolute, shape=PlacementShape(about_x=1, about_z=0, offsets=5))
    massless = first.inertia(robot.mechanism.parameters[0])
    assert not massless.data.any()
    q = np.array([0.3, -0.8])
    poses = Transform.identity()
    for node in range(2):
        poses = robot.mechanism.kinds[node].weight(robot.mechanism.parameters[node], q[node : node + 1]) @ poses
    site = Transform(robot.site("a").placement) @ poses
    axis = np.array([0, 1, 1]) / np.sqrt(2)
    np.testing.assert_allclose(
        site.E.T, exp_matrix(np.array([0.3, 0, 0])) @ exp_matrix(-0.8 * axis), rtol=0, atol=1e-15
    )
