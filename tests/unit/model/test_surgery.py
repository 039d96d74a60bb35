"""Models made of others: attached, loaded, cut out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinetree import zoo
from kinetree.errors import InputError, ModelError, UnknownNameError
from kinetree.model import Builder, Model
from kinetree.spatial.rotation import exp_matrix
from kinetree.spatial.transform import pose
from tests.tolerance import assert_close, bound
from tests.unit.spatial.scalars import Array

SOLID: dict[str, Any] = {"mass": 2.0, "com": (0.1, 0.0, 0.05), "inertia": np.diag([0.1, 0.12, 0.14])}
MOUNT = pose(exp_matrix(np.array([0.3, -0.5, 0.9])), np.array([0.1, 0.2, 0.3]))
TOOL = pose(exp_matrix(np.array([-0.7, 0.1, 0.2])), np.array([0.0, 0.05, 0.4]))


def add_arm(builder: Builder) -> None:
    """Two links, an ornament on the first, a tool frame on the second, and a flange behind a fixed joint."""
    builder.add_body("upper", axis=(0, 1, 0), **SOLID)
    builder.add_body("fore", parent="upper", placement=(np.eye(3), (0.4, 0, 0)), axis=(0, 1, 0), **SOLID)
    builder.add_body("flange", parent="fore", joint="fixed", placement=TOOL, mass=0.3)
    builder.add_body("lamp", parent="upper", joint="spherical", **SOLID)
    builder.add_frame("tool", body="fore", placement=TOOL)


def add_gripper(builder: Builder, parent: str, at: Array, prefix: str = "") -> None:
    """A palm fixed to the parent, two fingers, a frame on the palm's mount."""
    builder.add_body(
        f"{prefix}palm", parent=parent, joint="fixed", joint_name=f"{prefix}palm_joint", placement=at @ MOUNT, **SOLID
    )
    for side, y in (("left", 0.04), ("right", -0.04)):
        builder.add_body(
            f"{prefix}{side}",
            parent=f"{prefix}palm",
            joint="prismatic",
            placement=(np.eye(3), (0, y, 0.1)),
            axis=(0, 1, 0),
            armature=0.2,
            **SOLID,
        )
    builder.add_frame(f"{prefix}mount", body=parent, placement=at @ MOUNT)


def arm() -> Model:
    builder = Builder("arm")
    add_arm(builder)
    return builder.build()


def gripper() -> Model:
    builder = Builder("gripper", gravity=(0, 0, 0))
    add_gripper(builder, "world", np.eye(4))
    return builder.build()


def both(parent: str, at: Array, prefix: str = "") -> Model:
    """The same robot described at once."""
    builder = Builder("arm")
    add_arm(builder)
    add_gripper(builder, parent, at, prefix)
    return builder.build()


def assert_same_robot(robot: Model, expected: Model) -> None:
    """Same names in the same order, same dynamics, same poses."""
    assert [joint.name for joint in robot.joints] == [joint.name for joint in expected.joints]
    assert robot.frames == expected.frames
    assert robot.mass == pytest.approx(expected.mass)
    q = expected.random_configuration(1, (3,))
    v = np.random.default_rng(2).standard_normal((3, expected.nv))
    tolerance = bound(expected.nv)
    assert_close(robot.mass_matrix(q), expected.mass_matrix(q), tolerance)
    assert_close(robot.bias_forces(q, v), expected.bias_forces(q, v), tolerance)
    assert_close(robot.pose(q), expected.pose(q), tolerance)


@pytest.mark.parametrize(
    ("frame", "parent", "at"),
    [
        ("tool", "fore", TOOL),
        ("flange", "flange", np.eye(4)),
        ("upper", "upper", np.eye(4)),
        ("world", "world", np.eye(4)),
    ],
)
def test_attached_is_described_at_once(frame: str, parent: str, at: Array) -> None:
    assert_same_robot(arm().attach(frame, gripper()), both(parent, at))


def test_attached_with_a_placement() -> None:
    assert_same_robot(arm().attach("tool", gripper(), MOUNT), both("fore", TOOL @ MOUNT))


def test_attached_with_a_prefix() -> None:
    robot = arm().attach("tool", gripper(), prefix="g_")
    assert_same_robot(robot, both("fore", TOOL, "g_"))
    twice = robot.attach("tool", gripper(), prefix="h_")
    assert {"g_left", "h_left", "g_mount", "h_mount"} <= set(twice.frames)
    assert twice.nv == robot.nv + 2


def test_attaching_leaves_both_as_they_were() -> None:
    one, other = arm(), gripper()
    one.attach("tool", other)
    assert one == arm()
    assert other == gripper()
    assert np.array_equal(one.attach("tool", other).gravity, one.gravity)


def test_clashing_names_are_refused_with_the_way_out() -> None:
    with pytest.raises(ModelError, match=r"'palm'.*joints 'left_joint'.*prefix='gripper_'"):
        arm().attach("tool", gripper()).attach("upper", gripper())
    # a frame of one and a body of the other
    builder = Builder("other")
    builder.add_body("tool", **SOLID)
    with pytest.raises(ModelError, match="bodies or frames 'tool'"):
        arm().attach("upper", builder.build())


def test_attach_refuses_what_it_cannot_do() -> None:
    with pytest.raises(UnknownNameError, match="no frame is called 'tol'.*tool"):
        arm().attach("tol", gripper())
    with pytest.raises(InputError, match="needs a Model, got str"):
        arm().attach("tool", "gripper.urdf")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"attach\(\): placement has shape"):
        arm().attach("tool", gripper(), np.eye(3))


def test_a_payload_is_a_body_fixed_there() -> None:
    mass, com, inertia = 3.0, (0.1, 0.2, -0.1), np.array([[0.3, 0.02, 0.0], [0.02, 0.2, 0.01], [0.0, 0.01, 0.25]])
    builder = Builder("arm")
    add_arm(builder)
    builder.add_body("load", parent="fore", joint="fixed", placement=TOOL, mass=mass, com=com, inertia=inertia)
    expected = builder.build()
    robot = arm().with_payload("tool", mass, com, inertia)
    assert robot.frames == arm().frames
    q = expected.random_configuration(1, (3,))
    v = np.random.default_rng(2).standard_normal((3, expected.nv))
    assert_close(robot.mass_matrix(q), expected.mass_matrix(q), bound(expected.nv))
    assert_close(robot.bias_forces(q, v), expected.bias_forces(q, v), bound(expected.nv))
    assert_close(robot.center_of_mass(q), expected.center_of_mass(q), bound(expected.nv))
    assert robot.body("fore").mass == pytest.approx(5.0)


def test_a_payload_may_be_a_point_and_come_in_parts() -> None:
    once = arm().with_payload("tool", 2.0, (0, 0, 0.1))
    twice = arm().with_payload("tool", 0.5, (0, 0, 0.1)).with_payload("tool", 1.5, (0, 0, 0.1))
    assert_same_robot(twice, once)
    assert arm().with_payload("tool", 0.0) == arm()


def test_a_payload_gives_mass_to_a_massless_body() -> None:
    builder = Builder("arm")
    builder.add_body("upper")
    robot = builder.build().with_payload("upper", 1.0, (1.0, 0.0, 0.0))
    assert robot.mass_matrix(robot.neutral())[0, 0] == pytest.approx(1.0)


def test_payloads_that_cannot_be_are_refused() -> None:
    with pytest.raises(ModelError, match="payload at 'tool': mass -1 kg is negative"):
        arm().with_payload("tool", -1.0)
    with pytest.raises(ModelError, match="triangle inequality"):
        arm().with_payload("tool", 1.0, inertia=np.diag([1.0, 1.0, 3.0]))
    with pytest.raises(ModelError, match="com has shape"):
        arm().with_payload("tool", 1.0, com=(0, 0))
    with pytest.raises(InputError, match="fixed to the world"):
        arm().with_payload("world", 1.0)
    with pytest.raises(UnknownNameError, match="no frame is called 'hand'"):
        arm().with_payload("hand", 1.0)


def test_a_subtree_has_its_block_of_the_mass_matrix() -> None:
    """Of joints above a subtree, its own block of M knows nothing."""
    robot = zoo.random_tree(16, kinds=("revolute", "spherical", "fixed"), seed=5)
    # a body that carries a few, but not all
    body = next(b.name for b in robot.bodies if robot.joint(b.joint).nv and 2 < len(robot.subtree(b.name).bodies) < 10)
    part = robot.subtree(body)
    assert part.name == body
    assert part.bodies[0].parent == part.joint(part.bodies[0].joint).parent == "world"
    joints = [robot.joint(joint.name) for joint in part.joints]
    q = robot.random_configuration(3)
    own = np.concatenate([q[joint.q_slice] for joint in joints])
    columns = np.concatenate([np.arange(robot.nv)[joint.v_slice] for joint in joints])
    assert_close(part.mass_matrix(own), robot.mass_matrix(q)[np.ix_(columns, columns)], bound(robot.nv))
    # poses are seen from the link frame that the subtree hung on
    parent = robot.body(body).parent
    seen = np.linalg.inv(robot.pose(q, [parent])[0]) @ robot.pose(q, part.frames[1:])
    assert_close(part.pose(own, part.frames[1:]), seen, bound(robot.nv))


def test_a_subtree_put_back_is_the_robot() -> None:
    robot = arm().attach("tool", gripper())
    part = robot.subtree("fore")
    assert part.frames == ("world", "fore", "flange", "palm", "left", "right", "tool", "mount")
    builder = Builder("arm")
    builder.add_body("upper", axis=(0, 1, 0), **SOLID)
    builder.add_body("lamp", parent="upper", joint="spherical", **SOLID)
    again = builder.build().attach("upper", part)
    q, other = robot.random_configuration(1), again.q_from_dict(robot.q_to_dict(robot.random_configuration(1)))
    assert_close(again.pose(other, ["left", "tool"]), robot.pose(q, ["left", "tool"]), bound(robot.nv))


def test_an_unknown_body_has_no_subtree() -> None:
    with pytest.raises(UnknownNameError, match="no body is called 'tool'"):
        arm().subtree("tool")
