"""Λ⁻¹ by every method against Pinocchio's Delassus matrix and MuJoCo's solver, on random trees and real robots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from benchmarks.mjcf import mjcf
from kinetree.algorithms.methods import ALGORITHMS, inverse_inertia
from kinetree.language.mechanism import Site
from kinetree.runtime import reference
from kinetree.runtime.kernels import bind
from tests.oracles.pinocchio_twin import Twin, pin, robots, upright
from tests.oracles.test_mujoco import MECHANISMS, Pair, mujoco
from tests.tolerance import assert_close, bound, condition
from tests.trees import Array, mixed, random_mechanism

POSITION = (3, 4, 5)
#: Eight tasks on each robot: tips first, then inner bodies, then second frames on the bodies of others.
TASKS = {
    "Panda": (
        *("panda_hand_tcp", "panda_leftfinger", "panda_rightfinger", "panda_link4"),
        *("panda_hand", "panda_joint2", "panda_link8", "panda_link1"),
    ),
    "ANYmal": (
        *("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"),
        *("base", "LF_THIGH", "face_front", "LF_SHANK"),
    ),
    "Talos": (
        *("left_sole_link", "right_sole_link", "gripper_left_base_link", "gripper_right_base_link"),
        *("torso_2_link", "leg_left_6_link", "imu_link", "base_link"),
    ),
    "G1": (
        *("left_rubber_hand", "right_rubber_hand", "left_ankle_roll_link", "right_ankle_roll_link"),
        *("head_link", "logo_link", "left_knee_link", "waist_yaw_link"),
    ),
}
COUNTS = (1, 2, 4, 8)


def tolerance(robot: kt.Model, q: Array) -> float:
    return bound(robot.nv, condition(robot.mass_matrix(q)))


def delassus(model: Any, q: Array, tasks: Sequence[tuple[int, bool]]) -> Array:
    """Pinocchio's matrix of contacts at frames, with angular rows first.

    Args:
        model: Pinocchio's.
        q: In its coordinates.
        tasks: Number of a frame, and whether only its position is meant.
    """
    contacts = pin.StdVec_RigidConstraintModel()
    for number, position in tasks:
        frame = model.frames[number]
        kind = pin.ContactType.CONTACT_3D if position else pin.ContactType.CONTACT_6D
        contacts.append(pin.RigidConstraintModel(kind, model, frame.parentJoint, frame.placement, pin.LOCAL))
    data = pin.StdVec_RigidConstraintData()
    for contact in contacts:
        data.append(contact.createData())
    matrix = np.array(pin.computeDelassusMatrix(model, model.createData(), q, contacts, data, 0.0))
    order: list[int] = []
    for _, position in tasks:
        order += [len(order) + i for i in (range(3) if position else (3, 4, 5, 0, 1, 2))]
    return matrix[np.ix_(order, order)]


@pytest.mark.parametrize("method", ALGORITHMS)
def test_pinocchio_on_a_random_tree(method: str) -> None:
    """All joint kinds that it has, six rows and three by turns, two tasks on one body, inner bodies."""
    mechanism = upright(random_mechanism("delassus", mixed(10, 42), 42, tips=3))
    robot = mechanism.kinetree()
    twin = Twin.of(mechanism, robot)
    names = ["link9", "tip0", "link4", "tip1", "link4", "link1"]
    positions = [i % 2 == 1 for i in range(len(names))]
    sites = tuple(
        replace(robot.site(name), rows=POSITION) if position else robot.site(name)
        for name, position in zip(names, positions, strict=True)
    )
    q = robots.state_pool(robot, 1, seed=3)[0][0]
    asked = [(twin.frames[name], position) for name, position in zip(names, positions, strict=True)]
    expected = delassus(twin.model, twin.order.to_q(q), asked)
    (result,) = reference.run(inverse_inertia(method, "local"), robot.mechanism, sites, [q])
    assert_close(result, expected, tolerance(robot, q))


@dataclass(frozen=True, eq=False)
class Real:
    """A robot of the benchmarks with its tasks. Floating ones have the same joint kinds, so they share kernels."""

    robot: robots.Robot
    numbers: tuple[int, ...]
    sites: tuple[Site, ...]
    q: Array

    @classmethod
    @cache
    def load(cls, name: str) -> Real:
        robot = robots.load(name)
        numbers = tuple(_number(robot.pinocchio, task) for task in TASKS[name])
        names = {number: name for name, number in robot.frames}
        sites = tuple(robot.model.site(names[number]) for number in numbers)
        return cls(robot, numbers, sites, robots.state_pool(robot.model, 2, seed=4)[0])

    def computed(self, method: str, count: int) -> Array:
        """By the library, for the first tasks."""
        sites = self.sites[:count]
        return np.asarray(bind(inverse_inertia(method, "local"), self.robot.model.mechanism, sites, method)(self.q))

    @cached_property
    def by_mujoco(self) -> Array:
        """For all tasks."""
        frames = [self.robot.pinocchio.frames[number] for number in self.numbers]
        bodies = ["world", *(part.name for part in self.robot.parts)]
        places = [(bodies[frame.parentJoint], frame.placement.homogeneous) for frame in frames]
        model = mujoco.MjModel.from_xml_string(mjcf(self.robot.name, self.robot.parts, sites=places))
        data = mujoco.MjData(model)
        # MuJoCo numbers sites body by body.
        order = sorted(range(len(frames)), key=lambda i: frames[i].parentJoint)
        results = []
        for q in self.q:
            data.qpos[:] = q
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            J = np.zeros((6 * len(frames), model.nv))
            for site, i in enumerate(order):
                linear, angular = np.zeros((2, 3, model.nv))
                mujoco.mj_jacSite(model, data, linear, angular, site)
                axes = data.site_xmat[site].reshape(3, 3).T
                J[6 * i : 6 * i + 6] = np.concatenate([axes @ angular, axes @ linear])
            results.append(solved_by_mujoco(model, data, J))
        return np.stack(results)


def _number(model: Any, name: str) -> int:
    """Of a link's frame, or of a joint's."""
    kind = pin.FrameType.BODY if model.existFrame(name, pin.FrameType.BODY) else pin.FrameType.JOINT
    return int(model.getFrameId(name, kind))


def solved_by_mujoco(model: Any, data: Any, J: Array) -> Array:
    """J M⁻¹ Jᵀ, whatever velocities MuJoCo takes for a free joint."""
    mujoco.mj_crb(model, data)
    mujoco.mj_factorM(model, data)
    solved = np.zeros_like(J)
    mujoco.mj_solveM(model, data, solved, J)
    result: Array = solved @ J.T
    return result


@cache
def by_pinocchio(real: Real, count: int) -> Array:
    """For the first tasks."""
    asked = [(number, False) for number in real.numbers[:count]]
    return np.stack([delassus(real.robot.pinocchio, real.robot.order.to_q(q), asked) for q in real.q])


@pytest.mark.parametrize("name", TASKS)
def test_tasks_are_as_described(name: str) -> None:
    """A test of the test: inner bodies, and bodies with several tasks."""
    real = Real.load(name)
    carriers = [site.node for site in real.sites]
    parents = set(real.robot.model.mechanism.parents)
    assert len(set(carriers)) < len(carriers)
    assert any(node in parents for node in carriers)
    assert any(node not in parents for node in carriers)


@pytest.mark.parametrize("method", ALGORITHMS)
@pytest.mark.parametrize("name", TASKS)
def test_pinocchio_on_real_robots(name: str, method: str) -> None:
    real = Real.load(name)
    for count in COUNTS:
        assert_close(real.computed(method, count), by_pinocchio(real, count), tolerance(real.robot.model, real.q))


@pytest.mark.parametrize("method", ALGORITHMS)
@pytest.mark.parametrize("name", TASKS)
def test_mujoco_on_real_robots(name: str, method: str) -> None:
    real = Real.load(name)
    expected = real.by_mujoco
    for count in COUNTS:
        rows = slice(6 * count)
        assert_close(real.computed(method, count), expected[:, rows, rows], tolerance(real.robot.model, real.q))


@pytest.mark.parametrize("method", ALGORITHMS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_mujoco_on_random_trees(name: str, method: str) -> None:
    pair = Pair.of(MECHANISMS[name]())
    robot, model, data = pair.robot, pair.model, pair.data
    q = robot.random_configuration(np.random.default_rng(5))
    pair.set(q, np.zeros(robot.nv))
    tasks = [link for link in (f"link{i}" for i in (0, 2, 3, 5)) if link in robot.frames]
    J = np.zeros((6 * len(tasks), robot.nv))
    for i, task in enumerate(tasks):
        body = model.body(task).id
        axes = data.xmat[body].reshape(3, 3).T
        linear, angular = np.zeros((2, 3, robot.nv))
        mujoco.mj_jacBody(model, data, linear, angular, body)
        J[6 * i : 6 * i + 6] = np.concatenate([axes @ angular, axes @ linear])
    sites = tuple(robot.site(task) for task in tasks)
    (result,) = reference.run(inverse_inertia(method, "local"), robot.mechanism, sites, [q])
    assert_close(result, solved_by_mujoco(model, data, J), tolerance(robot, q))
