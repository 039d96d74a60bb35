"""The model as a value, its names, its coordinates as a whole, and models made from it."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from kinetree import zoo
from kinetree.errors import InputError, KinetreeError, UnknownNameError
from kinetree.model import Builder, Limits, Model
from kinetree.model.joints import KINDS
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.rotation import exp_matrix
from kinetree.spatial.transform import Transform
from tests.unit.spatial.scalars import Array

SOLID: dict[str, Any] = {"mass": 1.0, "com": (0.1, 0, 0), "inertia": np.diag([0.1, 0.1, 0.1])}


def mixed() -> Model:
    """Every kind of joint, fixed ones too, on three roots."""
    return zoo.random_tree(24, kinds=tuple(KINDS), seed=4, roots=3, armature=True)


def frame_transform(robot: Model, q: Array, frame: str) -> Transform:
    """From world coordinates to a frame's, straight from the nodes."""
    mechanism, site = robot.mechanism, robot.site(frame)
    X = Transform.identity()
    for node in robot.mechanism.topology.support(site.node):
        own = q[mechanism.q_starts[node] : mechanism.q_starts[node + 1]]
        X = mechanism.kinds[node].weight(mechanism.parameters[node], own) @ X
    return Transform(site.placement) @ X


def total_inertia(robot: Model, q: Array) -> Array:
    """Of all moving nodes about the world's origin, (6, 6)."""
    total = RigidInertia.zero()
    X: list[Transform] = []
    mechanism = robot.mechanism
    for node, parent in enumerate(robot.mechanism.topology.parents):
        own = q[mechanism.q_starts[node] : mechanism.q_starts[node + 1]]
        local = mechanism.kinds[node].weight(mechanism.parameters[node], own)
        X.append(local if parent < 0 else local @ X[parent])
        total = total + X[node].congruence(mechanism.kinds[node].inertia(mechanism.parameters[node]))
    return total.matrix()


# -- a value -----------------------------------------------------------------------------------------------------------


def test_models_are_equal_by_content() -> None:
    one, other = mixed(), mixed()
    assert one is not other
    assert one == other
    assert hash(one) == hash(other)
    assert one != zoo.chain(3)
    assert one != "robot"
    assert one.joints == other.joints
    assert one.bodies == other.bodies
    assert len({*one.joints, *other.joints}) == len(one.joints)


def test_the_smallest_change_makes_another_model() -> None:
    def make(**changes: Any) -> Model:
        return Builder("arm").add_body("a", **{**SOLID, **changes}).build()

    base = make()
    for changes in (
        {"mass": 1.5},
        {"damping": 0.1},
        {"axis": (0, 1, 0)},
        {"armature": 0.1},
        {"limits": Limits(upper=1)},
    ):
        assert make(**changes) != base
    assert Builder("leg").add_body("a", **SOLID).build() != base
    assert Builder("arm", gravity=(0, 0, 0)).add_body("a", **SOLID).build() != base
    assert Builder("arm").add_body("a", **SOLID).add_frame("f").build() != base


def test_pickles_hold_the_definition_only() -> None:
    robot = mixed()
    size = len(pickle.dumps(robot))
    robot.__dict__["_some_cache"] = lambda: None  # neither pickled nor compared
    hash(robot)
    assert len(pickle.dumps(robot)) == size
    back = pickle.loads(pickle.dumps(robot))
    assert back == robot
    assert hash(back) == hash(robot)
    assert "_some_cache" not in back.__dict__
    assert back.frames == robot.frames
    for one, other in zip(back.mechanism.parameters, robot.mechanism.parameters, strict=True):
        assert one.tobytes() == other.tobytes()


def test_nodes_are_assembled_once_when_first_needed() -> None:
    robot = pickle.loads(pickle.dumps(zoo.humanoid24()))
    assert (repr(robot), hash(robot), robot) == (repr(zoo.humanoid24()), hash(zoo.humanoid24()), zoo.humanoid24())
    assert "mechanism" not in vars(robot)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: robot.mechanism, range(32)))
    assert all(each is robot.mechanism for each in found)


def test_models_are_frozen_also_after_pickling() -> None:
    for robot in (zoo.humanoid24(), pickle.loads(pickle.dumps(zoo.humanoid24()))):
        with pytest.raises(AttributeError, match="frozen"):
            robot.name = "other"
        with pytest.raises(AttributeError, match="frozen"):
            del robot.joints
        for array in (robot.gravity, robot.bodies[0].com, robot.bodies[0].inertia, robot.joints[0].placement):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1.0
        for array in (robot.mechanism.parameters[0], robot.sites[0].placement):
            assert not array.flags.writeable
        with pytest.raises(AttributeError):
            robot.bodies[0].mass = 2.0
        assert copy.copy(robot) is robot
        assert copy.deepcopy(robot) is robot


def test_the_tree_is_printed() -> None:
    builder = Builder("crane", gravity=(0, 0, -9.81)).add_body("mast", mass=10.0, inertia=np.eye(3), joint_name="slew")
    builder.add_body("boom", parent="mast", mass=5.0, inertia=np.eye(3), joint="universal")
    builder.add_body("lamp", parent="mast", mass=0.5, joint="fixed")
    builder.add_body("hook", parent="boom", mass=1.0, inertia=np.eye(3), joint="spherical")
    builder.add_frame("tip", body="boom").add_frame("origin")
    assert str(builder.build()) == "\n".join(
        [
            "crane: 3 moving joints, nq 7, nv 6, 4 bodies, 7 frames, 16.5 kg",
            "world      frames: origin",
            "mast     revolute slew  [0]  10 kg",
            "├─ boom  universal boom_joint  q[1:3] v[1:3]  5 kg  frames: tip",
            "│  hook  spherical hook_joint  q[3:7] v[3:6]  1 kg",
            "└─ lamp  fixed lamp_joint  0.5 kg",
        ]
    )
    assert repr(builder.build()) == "<Model 'crane': nq 7, nv 6, 4 bodies>"


def test_long_chains_print_narrowly() -> None:
    text = str(zoo.chain(2000))
    assert text.count("\n") == 2001
    assert max(map(len, text.splitlines())) < 100


# -- names and places --------------------------------------------------------------------------------------------------


def test_slices_tile_the_coordinates() -> None:
    robot = mixed()
    assert [i for joint in robot.joints for i in range(robot.nq)[joint.q_slice]] == list(range(robot.nq))
    assert [i for joint in robot.joints for i in range(robot.nv)[joint.v_slice]] == list(range(robot.nv))
    assert (robot.mechanism.nq, robot.mechanism.nv) == (robot.nq, robot.nv)
    assert all(joint.kind == "fixed" and not joint.nv for joint in robot.fixed_joints)
    assert len(robot.joints) + len(robot.fixed_joints) == len(robot.bodies)


def test_every_body_is_a_frame_and_so_is_the_world() -> None:
    robot = mixed()
    assert robot.frames[0] == "world"
    assert robot.frames[1 : len(robot.bodies) + 1] == tuple(body.name for body in robot.bodies)
    assert robot.frames == tuple(site.name for site in robot.sites)
    assert robot.site("world").node == -1
    with pytest.raises(UnknownNameError, match="no frame is called 'claw'. There are: frame7a, ") as unknown:
        robot.site("claw")
    assert isinstance(unknown.value, KeyError)
    with pytest.raises(UnknownNameError, match="no joint"):
        robot.joint("claw")
    with pytest.raises(UnknownNameError, match="no body"):
        robot.body("claw")


def test_frames_sit_where_they_were_put() -> None:
    """Poses by hand: placements, turns about the given axes in link coordinates, fixed bodies between."""
    rng = np.random.default_rng(8)

    def place() -> Array:
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = exp_matrix(rng.uniform(-2, 2, 3)), rng.uniform(-1, 1, 3)
        return pose

    one, plate, two, tool, mark = (place() for _ in range(5))
    axes = rng.standard_normal((2, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    builder = Builder().add_body("one", placement=one, axis=3 * axes[0], **SOLID)
    builder.add_body("plate", parent="one", joint="fixed", placement=plate, **SOLID)
    builder.add_body("two", parent="plate", joint="prismatic", placement=two, axis=axes[1], **SOLID)
    builder.add_frame("tool", body="two", placement=tool).add_frame("mark", placement=mark)
    robot = builder.build()

    q = np.array([0.7, -0.4])
    turn, slide = np.eye(4), np.eye(4)
    turn[:3, :3], slide[:3, 3] = exp_matrix(q[0] * axes[0]), q[1] * axes[1]
    expected = {
        "world": np.eye(4),
        "one": one @ turn,
        "plate": one @ turn @ plate,
        "two": one @ turn @ plate @ two @ slide,
        "tool": one @ turn @ plate @ two @ slide @ tool,
        "mark": mark,
    }
    for frame, pose in expected.items():
        X = frame_transform(robot, q, frame)
        np.testing.assert_allclose(X.E.T, pose[:3, :3], rtol=0, atol=1e-15, err_msg=frame)
        np.testing.assert_allclose(X.r, pose[:3, 3], rtol=0, atol=2e-15, err_msg=frame)


def test_bodies_fixed_to_the_world_carry_others_but_do_not_move() -> None:
    builder = Builder().add_body("table", joint="fixed", placement=(np.eye(3), (0, 0, 1)), **SOLID)
    builder.add_body("arm", parent="table", **SOLID)
    robot = builder.build()
    assert robot.mechanism.topology.parents == (-1,)
    assert robot.site("table").node == -1
    assert robot.mass == 2.0
    np.testing.assert_array_equal(frame_transform(robot, np.zeros(1), "arm").r, [0, 0, 1])


def test_a_robot_without_moving_joints() -> None:
    robot = Builder().add_body("rock", joint="fixed", **SOLID).build()
    assert (robot.nq, robot.nv, robot.joints) == (0, 0, ())
    assert robot.neutral().shape == (0,)
    assert robot.integrate(np.zeros((3, 0)), np.zeros(0)).shape == (3, 0)
    assert robot.random_configuration(0, (2,)).shape == (2, 0)
    assert robot.q_to_dict(np.zeros(0)) == {}


# -- coordinates -------------------------------------------------------------------------------------------------------


def test_whole_configurations_agree_with_the_joints() -> None:
    robot = mixed()
    q = robot.random_configuration(3, (4,))
    v = np.random.default_rng(3).uniform(-1, 1, (4, robot.nv))
    moved = robot.integrate(q, v, 0.5)
    for joint in robot.joints:
        for i in range(4):
            part = joint.type.integrate(q[i, joint.q_slice], 0.5 * v[i, joint.v_slice])
            np.testing.assert_allclose(moved[i, joint.q_slice], part, rtol=0, atol=1e-15)
    np.testing.assert_allclose(robot.difference(q, moved), 0.5 * v, rtol=0, atol=1e-14)
    np.testing.assert_allclose(robot.normalize(3 * q)[..., 0], 3 * q[..., 0], rtol=1e-13)
    np.testing.assert_array_equal(robot.integrate(robot.neutral(), np.zeros(robot.nv)), robot.neutral())


def test_coordinates_broadcast() -> None:
    robot = mixed()
    q, v = robot.random_configuration(0, (5, 1)), np.ones((4, robot.nv))
    assert robot.integrate(q, v, np.full(4, 0.1)).shape == (5, 4, robot.nq)
    assert robot.integrate(q[0, 0], v[0], np.ones((2, 3))).shape == (2, 3, robot.nq)
    assert robot.difference(q, robot.random_configuration(1, (4,))).shape == (5, 4, robot.nv)
    assert robot.random_configuration(0, 3).shape == (3, robot.nq)
    assert robot.integrate(np.zeros((0, robot.nq)), v[0]).shape == (0, robot.nq)


def test_the_same_seed_gives_the_same_configuration() -> None:
    robot = mixed()
    np.testing.assert_array_equal(robot.random_configuration(5), robot.random_configuration(np.random.default_rng(5)))


@pytest.mark.parametrize("upper", [1.0, 1.7e308])
def test_a_single_configuration_is_the_first_of_a_batch_of_one(upper: float) -> None:
    robot = mixed()
    hinge = [joint.name for joint in robot.joints if joint.kind == "revolute"][1]
    robot = robot.with_limits({hinge: Limits(lower=-upper, upper=upper)})  # the width may overflow
    for seed in range(20):
        alone, batch = robot.random_configuration(seed), robot.random_configuration(seed, 1)
        np.testing.assert_array_equal(alone, batch[0])
        assert np.isfinite(alone).all()


def test_values_by_name_are_copies() -> None:
    robot = mixed()
    q = robot.random_configuration(0, 3)
    before = q.copy()
    for given in (q, q[0]):
        values = robot.q_to_dict(given)
        np.testing.assert_array_equal(robot.q_from_dict(values), given)
        for value in values.values():
            if isinstance(value, np.ndarray):
                value[...] = 7.0
    np.testing.assert_array_equal(q, before)


def test_dicts_go_both_ways() -> None:
    robot = mixed()
    q, v = robot.random_configuration(2, (3,)), np.random.default_rng(2).uniform(-1, 1, (3, robot.nv))
    named = robot.q_to_dict(q)
    assert tuple(named) == tuple(joint.name for joint in robot.joints)
    np.testing.assert_array_equal(robot.q_from_dict(named), q)
    np.testing.assert_array_equal(robot.v_from_dict(robot.v_to_dict(v)), v)
    first = next(joint for joint in robot.joints if joint.nq == 1)
    assert named[first.name].shape == (3,)
    np.testing.assert_array_equal(robot.q_from_dict({}), robot.neutral())
    np.testing.assert_array_equal(robot.v_from_dict({}), np.zeros(robot.nv))
    only = robot.q_from_dict({first.name: 0.25})
    assert only[first.q_start] == 0.25
    only[first.q_start] = robot.neutral()[first.q_start]
    np.testing.assert_array_equal(only, robot.neutral())


def test_wrong_dicts_are_refused() -> None:
    robot = mixed()
    with pytest.raises(UnknownNameError, match="no joint is called 'claw'"):
        robot.q_from_dict({"claw": 1.0})
    with pytest.raises(UnknownNameError, match="no joint is called 'claw'"):
        robot.v_from_dict({"claw": 1.0})
    wide = next(joint for joint in robot.joints if joint.kind == "spherical")
    with pytest.raises(InputError, match=rf"{wide.name} has shape \(\), expected \(\.\.\., 4\)"):
        robot.q_from_dict({wide.name: 1.0})
    with pytest.raises(InputError, match="dtype"):
        robot.q_from_dict({wide.name: "left"})


# -- locking joints ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_locked_joints_keep_kinematics_and_inertia(seed: int) -> None:
    robot = zoo.random_tree(20, seed=seed, roots=2, armature=True)
    q = robot.random_configuration(seed)
    named = robot.q_to_dict(q)
    # the first joint of each kind is locked
    locked = {joint.kind: joint.name for joint in reversed(robot.joints)}.values()
    smaller = robot.reduced({name: named[name] for name in locked})
    assert smaller.nv == robot.nv - sum(robot.joint(name).nv for name in locked)
    assert smaller.frames == robot.frames
    assert smaller.mass == robot.mass
    rest = smaller.q_from_dict({name: value for name, value in named.items() if name not in locked})
    for frame in robot.frames:
        one, other = frame_transform(robot, q, frame), frame_transform(smaller, rest, frame)
        np.testing.assert_allclose(one.data, other.data, rtol=0, atol=1e-13, err_msg=frame)


def test_locked_joints_merge_their_bodies() -> None:
    robot = zoo.asimo35()
    q = robot.random_configuration(1)
    named = robot.q_to_dict(q)
    keep = {"torso_joint", "left_arm_3_joint"}
    smaller = robot.reduced({name: value for name, value in named.items() if name not in keep})
    assert (smaller.nv, len(smaller.mechanism.topology)) == (7, 2)
    rest = smaller.q_from_dict({name: named[name] for name in keep})
    np.testing.assert_allclose(total_inertia(smaller, rest), total_inertia(robot, q), rtol=1e-13, atol=1e-12)
    assert total_inertia(smaller, rest)[5, 5] == pytest.approx(robot.mass, rel=1e-14)


def test_locking_everything_and_nothing() -> None:
    robot = zoo.random_tree(9, seed=1)
    q = robot.random_configuration(1)
    statue = robot.reduced(robot.q_to_dict(q))
    assert (statue.nv, len(statue.mechanism.topology), statue.frames) == (0, 0, robot.frames)
    np.testing.assert_allclose(
        frame_transform(statue, np.zeros(0), "tip").data, frame_transform(robot, q, "tip").data, rtol=0, atol=1e-14
    )
    assert robot.reduced({}) == robot


@pytest.mark.parametrize(
    ("lock", "message"),
    [
        ({"claw": 0.0}, "no moving joint is called 'claw'"),
        ({"ball": 0.0}, "'ball' has 4 real coordinates to lock"),
        ({"ball": np.zeros(4)}, "'ball' cannot be locked.*not a configuration"),
        ({"hinge": (0.0, 1.0)}, "'hinge' has 1 real coordinates to lock"),
        ({"hinge": np.nan}, "'hinge' cannot be locked"),
        ({"hinge": 1j}, "real"),
        ({"hinge": "open"}, "dtype"),
    ],
)
def test_wrong_locks_are_refused(lock: dict[str, Any], message: str) -> None:
    builder = Builder().add_body("a", joint_name="hinge", **SOLID)
    robot = builder.add_body("b", parent="a", joint="spherical", joint_name="ball", **SOLID).build()
    with pytest.raises(KinetreeError, match=message):
        robot.reduced(lock)
