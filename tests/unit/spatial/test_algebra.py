"""Structured spatial operations against dense 6×6 matrices, on every scalar type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinetree.spatial.hinge import AxisMap, ForceColumns, MotionColumns
from kinetree.spatial.inertia import ArticulatedCoriolis, ArticulatedInertia, CoriolisInertia, Factor, RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.rotation import cross, rotation_of_quaternion, skew
from kinetree.spatial.transform import Transform
from tests.unit.spatial.scalars import SCALARS, Array, Scalars

scalar_types = pytest.mark.parametrize("scalars", SCALARS, ids=lambda scalars: scalars.name)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def random_transform(scalars: Scalars, rng: np.random.Generator) -> Transform:
    return Transform.of(rotation_of_quaternion(scalars.random(rng, 4)), scalars.random(rng, 3))


def random_rigid(scalars: Scalars, rng: np.random.Generator) -> RigidInertia:
    root = scalars.random(rng, 3, 3)
    return RigidInertia.of(scalars.random(rng, 1)[0] + 2, scalars.random(rng, 3), root @ root.T)


def random_articulated(scalars: Scalars, rng: np.random.Generator) -> ArticulatedInertia:
    root = scalars.random(rng, 6, 6)
    return ArticulatedInertia.from_matrix(root @ root.T + np.eye(6))


def cross_motion(m: Motion) -> Array:
    """The matrix m× on motions; on forces it is minus its transpose."""
    w, v = skew(m.angular), skew(m.linear)
    return np.block([[w, 0.0 * w], [v, w]])


@scalar_types
def test_quaternions_make_rotations(scalars: Scalars, rng: np.random.Generator) -> None:
    R = rotation_of_quaternion(scalars.random(rng, 4))
    scalars.assert_close(R @ R.T, np.eye(3))
    scalars.assert_close(cross(R[:, 0], R[:, 1]), R[:, 2])


@scalar_types
def test_transforms_act_as_their_matrices(scalars: Scalars, rng: np.random.Generator) -> None:
    X, Y = random_transform(scalars, rng), random_transform(scalars, rng)
    m, f = Motion(scalars.random(rng, 6)), Force(scalars.random(rng, 6))
    scalars.assert_close((X @ m).data, X.matrix() @ m.data)
    scalars.assert_close((X.T @ f).data, X.matrix().T @ f.data)
    scalars.assert_close((X @ Y).matrix(), X.matrix() @ Y.matrix())
    scalars.assert_close((X @ X.inverse()).matrix(), np.eye(6))
    scalars.assert_close((X.inverse() @ (X @ m)).data, m.data)
    scalars.assert_close((X @ Transform.identity()).data, X.data)


@scalar_types
def test_congruences_of_inertias(scalars: Scalars, rng: np.random.Generator) -> None:
    X = random_transform(scalars, rng)
    for inertia in (random_rigid(scalars, rng), random_articulated(scalars, rng)):
        moved = X.congruence(inertia)
        assert type(moved) is type(inertia)
        scalars.assert_close(moved.matrix() / 16, X.matrix().T @ inertia.matrix() @ X.matrix() / 16)


@scalar_types
def test_coriolis_inertias(scalars: Scalars, rng: np.random.Generator) -> None:
    """B V = V ×* I V; both forms of B act and move as matrices, and joints leave the second what they pass on."""
    X, inertia, V = random_transform(scalars, rng), random_rigid(scalars, rng), Motion(scalars.random(rng, 6))
    B = CoriolisInertia.of(inertia, V)
    scalars.assert_close((B @ V).data / 16, V.cross(inertia @ V).data / 16)
    m = Motion(scalars.random(rng, 6))
    scalars.assert_close((B @ m).data, B.matrix() @ m.data)
    scalars.assert_close(B.transposed(m).data, B.matrix().T @ m.data)
    moved = X.matrix().T @ B.matrix() @ X.matrix()
    scalars.assert_close(X.congruence(B).matrix() / 16, moved / 16)
    scalars.assert_close(X.congruence(B.articulated()).matrix() / 16, moved[:, :3] / 16)
    scalars.assert_close(B.articulated().matrix(), B.matrix()[:, :3])
    columns = ArticulatedCoriolis(scalars.random(rng, 18))
    whole = np.concatenate([columns.matrix(), np.zeros((6, 3))], axis=1)
    scalars.assert_close(X.congruence(columns).matrix(), (X.matrix().T @ whole @ X.matrix())[:, :3])


@scalar_types
def test_a_pose_that_refers_to_its_own_origin(scalars: Scalars, rng: np.random.Generator) -> None:
    X = random_transform(scalars, rng)
    for slides, r, shift in ((0.0, X.r, 0.0 * X.r), (1.0, 0.0 * X.r, X.r)):
        referred, moved = X.referred(slides)
        scalars.assert_close(referred.data, Transform.of(X.E, r).data)
        scalars.assert_close(moved, shift)


@scalar_types
def test_inertias_act_as_their_matrices(scalars: Scalars, rng: np.random.Generator) -> None:
    m = Motion(scalars.random(rng, 6))
    for inertia in (random_rigid(scalars, rng), random_articulated(scalars, rng)):
        scalars.assert_close((inertia @ m).data, inertia.matrix() @ m.data)
        scalars.assert_close(inertia.matrix(), inertia.matrix().T)


def test_rigid_inertia_of_a_point_mass() -> None:
    inertia = RigidInertia.of(2.0, [0.0, 0.0, 3.0], np.zeros((3, 3)))
    assert inertia.mass == 2.0
    np.testing.assert_array_equal(inertia.first_moment, [0.0, 0.0, 6.0])
    np.testing.assert_array_equal(inertia.rotational, np.diag([18.0, 18.0, 0.0]))


@scalar_types
def test_cross_products(scalars: Scalars, rng: np.random.Generator) -> None:
    m, n, f = Motion(scalars.random(rng, 6)), Motion(scalars.random(rng, 6)), Force(scalars.random(rng, 6))
    scalars.assert_close(m.cross(n).data, cross_motion(m) @ n.data)
    scalars.assert_close(m.cross(f).data, -cross_motion(m).T @ f.data)
    scalars.assert_close(m.dot(f), m.data @ f.data)
    scalars.assert_close(m.cross(m).data, np.zeros(6))


@scalar_types
@pytest.mark.parametrize("armature", [False, True])
@pytest.mark.parametrize("axes", [(2,), (5,), (2, 5), (0, 1, 2), (2, 3, 4), (0, 1, 2, 3, 4, 5), None])
def test_hinges(scalars: Scalars, rng: np.random.Generator, axes: tuple[int, ...] | None, armature: bool) -> None:
    """[J11] Eq. 32, for joints along the axes and for a general one."""
    P = random_articulated(scalars, rng)
    if axes is None:
        H = scalars.random(rng, 6, 2)
        joint_map: Any = MotionColumns(H.T.reshape(-1), 2)
    else:
        H, joint_map = np.eye(6)[:, list(axes)], AxisMap(*axes)
    added = scalars.random(rng, H.shape[1]) + 2 if armature else np.zeros(H.shape[1])
    D, G, P_plus = joint_map.hinge(P, added)

    dense = H.T @ P.matrix() @ H + np.diag(added)
    scalars.assert_close(dense @ D.inverse(), np.eye(len(dense)))
    assert isinstance(G, ForceColumns)
    scalars.assert_close(G.matrix() @ dense, P.matrix() @ H)
    scalars.assert_close(P_plus.matrix(), P.matrix() - G.matrix() @ H.T @ P.matrix())
    if axes is not None and not armature:
        assert not P_plus.matrix()[list(axes)].any(), "zeros that the structure gives are exact"


@scalar_types
def test_free_hinges(scalars: Scalars, rng: np.random.Generator) -> None:
    """All motions, seen from another frame: the same as six arbitrary columns, and nothing gets past them."""
    P, X = random_articulated(scalars, rng), random_transform(scalars, rng)
    free = AxisMap(*range(6)).seen(X, np.zeros(6))
    general = MotionColumns(free.data, 6)
    scalars.assert_close(free.matrix() @ X.matrix(), np.eye(6))
    (D, G, P_plus), (D_general, G_general, rest) = free.hinge(P, np.zeros(6)), general.hinge(P, np.zeros(6))
    scalars.assert_close(D.data, D_general.data)
    scalars.assert_close(G.matrix(), G_general.matrix())
    assert not P_plus.matrix().any()
    scalars.assert_close(rest.matrix(), np.zeros((6, 6)))
    force = Force(scalars.random(rng, 6))
    assert not G.past(force, free.T @ force).data.any()
    scalars.assert_close(G_general.past(force, general.T @ force).data, np.zeros(6))
    with_rotor = AxisMap(*range(6)).seen(X, np.ones(6))
    assert type(with_rotor) is type(AxisMap(2).seen(X, np.zeros(1))) is MotionColumns
    scalars.assert_close(with_rotor.data, free.data)


@scalar_types
def test_joint_maps_act_as_their_matrices(scalars: Scalars, rng: np.random.Generator) -> None:
    general = scalars.random(rng, 6, 2)
    x, f = scalars.random(rng, 2), Force(scalars.random(rng, 6))
    for joint_map, H in ((AxisMap(2, 5), np.eye(6)[:, [2, 5]]), (MotionColumns(general.T.reshape(-1), 2), general)):
        scalars.assert_close((joint_map @ x).data, H @ x)
        scalars.assert_close(joint_map.T @ f, H.T @ f.data)
        scalars.assert_close(joint_map.column(1).data, H[:, 1])


@scalar_types
@pytest.mark.parametrize("order", range(1, 7))
def test_factors_solve(scalars: Scalars, rng: np.random.Generator, order: int) -> None:
    root = scalars.random(rng, order, order)
    D, b = root @ root.T + np.eye(order), scalars.random(rng, order)
    factor = Factor.of(D)
    scalars.assert_close(D @ factor.solve(b), b)
    scalars.assert_close(factor.solve(D), np.eye(order))


def test_values_are_immutable() -> None:
    m = Motion(np.zeros(6))
    with pytest.raises(ValueError, match="read-only"):
        m.data[0] = 1.0
    assert not (m + m).data.flags.writeable


def test_values_of_different_meaning_do_not_add() -> None:
    with pytest.raises(TypeError):
        Motion.zero() + Force.zero()  # type: ignore[operator]


def test_wrong_number_of_scalars_is_refused() -> None:
    with pytest.raises(ValueError, match="takes 6 numbers"):
        Motion(np.zeros(5))
