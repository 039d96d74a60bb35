"""The built-in robots: their shapes, and what the papers say of them."""

from __future__ import annotations

import numpy as np
import pytest

from kinetree import zoo
from kinetree.errors import InputError, UnknownNameError
from kinetree.model import Model
from kinetree.model.singularity import require_invertible

#: Bodies and degrees of freedom of each variant.
SIZES = {
    "hands_feet": (35, 40),
    "hands_feet_head": (35, 40),
    "forefingers_thumbs_feet": (35, 40),
    "legs_plus_2": (39, 44),
    "legs_plus_4": (43, 48),
    "arms_plus_2": (39, 44),
    "arms_plus_4": (43, 48),
    "two_arms_two_legs": (65, 70),
    "four_fingers": (55, 60),
    "one_foot": (34, 34),
}


def supporting_dofs(robot: Model, node: int) -> int:
    return sum(robot.mechanism.kinds[k].nv for k in robot.mechanism.topology.support(node))


def zeros_in_mass_matrix(robot: Model) -> float:
    """Share of the entries that couple bodies of which neither carries the other."""
    filled = 0
    for node, kind in enumerate(robot.mechanism.kinds):
        filled += kind.nv * (2 * supporting_dofs(robot, node) - kind.nv)
    return 1.0 - filled / robot.nv**2


def zeros_in_jacobian(robot: Model, frames: tuple[str, ...]) -> float:
    filled = sum(supporting_dofs(robot, robot.site(frame).node) for frame in frames)
    return 1.0 - filled / (robot.nv * len(frames))


def test_every_variant_of_asimo_is_listed() -> None:
    assert tuple(SIZES) == zoo.ASIMO_VARIANTS


@pytest.mark.parametrize("variant", SIZES)
def test_asimo_variants(variant: str) -> None:
    robot = zoo.asimo35(variant)
    assert (len(robot.bodies), robot.nv) == SIZES[variant]
    assert len(robot.mechanism.parents) == len(robot.bodies)
    assert len({robot.site(frame).node for frame in zoo.asimo35_tasks(variant)}) == len(zoo.asimo35_tasks(variant))
    require_invertible(robot.mechanism)


def test_asimo_has_the_published_sparsity() -> None:
    """Paper 001: "approximately" 56 % zeros in H, 67 % in J; 73 % in H with two more arms and legs."""
    robot = zoo.asimo35()
    assert zeros_in_mass_matrix(robot) == 0.5575
    assert zeros_in_jacobian(robot, zoo.asimo35_tasks()) == pytest.approx(0.675, abs=1e-15)
    assert round(zeros_in_mass_matrix(zoo.asimo35("two_arms_two_legs")), 4) == 0.7302
    assert max(robot.mechanism.topology.depths) == 9


def test_unknown_variant_is_refused_with_the_choices() -> None:
    with pytest.raises(UnknownNameError, match="hands_feet"):
        zoo.asimo35("three_feet")


def test_humanoid_has_24_links_and_two_hands() -> None:
    robot = zoo.humanoid24()
    assert robot.nq == robot.nv == len(robot.bodies) == 24
    assert {joint.kind for joint in robot.joints} == {"revolute"}
    assert robot.site("right_foot").node == -1
    hands = robot.site("left_hand").node, robot.site("right_hand").node
    assert robot.mechanism.names[robot.mechanism.topology.nearest_common_ancestor(*hands)] == "waist_pitch_link"
    q = robot.random_configuration(0, (100,))
    limits = np.array([[joint.limits.lower[0], joint.limits.upper[0]] for joint in robot.joints])
    assert (limits[:, 0] <= q).all()
    assert (q <= limits[:, 1]).all()
    require_invertible(robot.mechanism)


def test_chain_is_a_chain() -> None:
    robot = zoo.chain(7)
    assert robot.mechanism.topology.parents == tuple(range(-1, 6))
    assert robot.frames == ("world", *(f"body{i}" for i in range(1, 8)), "tip")
    assert robot == zoo.chain(7)
    assert robot != zoo.chain(7, seed=1)


@pytest.mark.parametrize("seed", range(5))
def test_random_tree_has_every_kind_and_as_many_roots_as_asked(seed: int) -> None:
    robot = zoo.random_tree(20, seed=seed, roots=3, armature=True)
    assert {joint.kind for joint in robot.joints} == set(zoo.MOVING_KINDS)
    assert sum(parent == -1 for parent in robot.mechanism.topology.parents) == 3
    assert any(joint.armature.any() for joint in robot.joints)
    assert not all(joint.armature.any() for joint in robot.joints)
    require_invertible(robot.mechanism)


def test_random_tree_refuses_nonsense() -> None:
    with pytest.raises(InputError, match="roots"):
        zoo.random_tree(3, roots=4)
    with pytest.raises(UnknownNameError, match="ball"):
        zoo.random_tree(3, kinds=("ball",))


@pytest.mark.parametrize("make", [zoo.pendulum, zoo.double_pendulum, zoo.cart_pole])
def test_pendulums_are_invertible_point_masses(make: object) -> None:
    robot = make()  # type: ignore[operator]
    require_invertible(robot.mechanism)
    assert robot.site("tip").node == len(robot.mechanism.topology) - 1


def test_pendulum_in_closed_form() -> None:
    length, mass = 0.7, 1.3
    robot = zoo.pendulum(length, mass)
    q = np.array([0.6])
    np.testing.assert_allclose(robot.mass_matrix.engine("reference")(q), [[mass * length**2]], rtol=1e-15)
    gravity = robot.gravity_forces.engine("reference")(q)
    np.testing.assert_allclose(gravity, mass * 9.81 * length * np.sin(q), rtol=1e-15)
    fall = robot.forward_dynamics.engine("reference")(q, np.array([2.0]), np.zeros(1))
    np.testing.assert_allclose(fall, -9.81 / length * np.sin(q), rtol=1e-14)


def test_double_pendulum_in_closed_form() -> None:
    (l1, l2), (m1, m2), g = (0.7, 0.4), (1.3, 0.9), 9.81
    robot = zoo.double_pendulum((l1, l2), (m1, m2))
    q, v = np.array([0.6, -1.1]), np.array([1.5, -0.8])
    h, c, s = m2 * l1 * l2, np.cos(q[1]), np.sin(q[1])
    coupled = m2 * l2**2 + h * c
    M = [[(m1 + m2) * l1**2 + m2 * l2**2 + 2 * h * c, coupled], [coupled, m2 * l2**2]]
    np.testing.assert_allclose(robot.mass_matrix.engine("reference")(q), M, rtol=1e-14)
    lower = m2 * g * l2 * np.sin(q[0] + q[1])
    gravity = np.array([(m1 + m2) * g * l1 * np.sin(q[0]) + lower, lower])
    np.testing.assert_allclose(robot.gravity_forces.engine("reference")(q), gravity, rtol=1e-14)
    velocity = np.array([-h * s * (2 * v[0] * v[1] + v[1] ** 2), h * s * v[0] ** 2])
    np.testing.assert_allclose(robot.bias_forces.engine("reference")(q, v), gravity + velocity, rtol=1e-14)


def test_cart_pole_in_closed_form() -> None:
    cart, pole, length = 1.1, 0.3, 0.6
    robot = zoo.cart_pole(cart, pole, length)
    q, v = np.array([0.4, 0.9]), np.array([-0.3, 1.7])
    swing = pole * length * np.cos(q[1])
    M = [[cart + pole, swing], [swing, pole * length**2]]
    np.testing.assert_allclose(robot.mass_matrix.engine("reference")(q), M, rtol=1e-14, atol=1e-16)
    forces = [-pole * length * np.sin(q[1]) * v[1] ** 2, -pole * 9.81 * length * np.sin(q[1])]
    np.testing.assert_allclose(robot.bias_forces.engine("reference")(q, v), forces, rtol=1e-14)


def test_an_arm_has_seven_joints_and_stands_upright() -> None:
    robot = zoo.arm7()
    assert robot.nq == robot.nv == len(robot.bodies) == 7
    np.testing.assert_allclose(robot.pose(robot.neutral(), "hand")[:3, 3], [0.0, 0.0, 1.3], rtol=0.0, atol=1e-12)
    assert np.isfinite(robot.upper_limits - robot.lower_limits).all()
    # its motors hold it outstretched
    level = robot.q_from_dict({"joint1": np.pi / 2})
    assert (np.abs(robot.gravity_forces(level)) < robot.effort_limits).all()
