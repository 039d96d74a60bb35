"""Λ⁻¹ against Pinocchio's Delassus matrix and MuJoCo's solver, on random trees and real robots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ramify as rf
from ramify.algorithms.operational_space import inverse_inertia
from ramify.engines.native.kernels import bind
from ramify.recursion.mechanism import Site
from tests.oracles.pinocchio_twin import Twin, pin, robots, upright
from tests.oracles.test_mujoco import MECHANISMS, Pair, mujoco
from tests.tolerance import assert_close, bound, condition
from tests.trees import Array, mixed, random_mechanism

POSITION = (3, 4, 5)
#: Tasks of real robots, by name of the frame.
TASKS = {
    "Panda": ("panda_hand",),
    "ANYmal": ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"),
    "Talos": ("left_sole_link", "right_sole_link", "gripper_left_base_link", "gripper_right_base_link", "torso_2_link"),
}
#: The laws compare all others with these.
FAST = ("pv_osim", "pv_osim_r")


def computed(robot: rf.Model, sites: tuple[Site, ...], method: str, q: Array) -> Array:
    return np.asarray(bind(inverse_inertia(method, "local"), robot.mechanism, sites, method)(q))


def tolerance(robot: rf.Model, q: Array) -> float:
    return bound(robot.nv, condition(robot.mass_matrix(q)))


def delassus(model: Any, q: Array, tasks: Sequence[tuple[int, bool]]) -> Array:
    """Pinocchio's matrix of contacts at frames, in its order: linear rows first.

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
    return np.array(pin.computeDelassusMatrix(model, model.createData(), q, contacts, data, 0.0))


def angular_first(matrix: Array, sizes: Sequence[int]) -> Array:
    """Exchange linear and angular rows of six-row tasks."""
    order, start = [], 0
    for size in sizes:
        order += [start + i for i in ((3, 4, 5, 0, 1, 2) if size == 6 else range(size))]
        start += size
    return matrix[np.ix_(order, order)]


@pytest.mark.parametrize("method", FAST)
def test_pinocchio_on_a_random_tree(method: str) -> None:
    mechanism = upright(random_mechanism("delassus", mixed(10, 41), 41, tips=3))
    robot = mechanism.ramify()
    twin = Twin.of(mechanism, robot)
    names = ["link9", "tip0", "link4", "tip1", "link4", "link1"]
    positions = [i % 2 == 1 for i in range(len(names))]
    sites = tuple(
        replace(robot.site(name), rows=POSITION) if position else robot.site(name)
        for name, position in zip(names, positions, strict=True)
    )
    q = robots.state_pool(robot, 1, seed=3)[0][0]
    asked = [(twin.frames[name], position) for name, position in zip(names, positions, strict=True)]
    expected = angular_first(delassus(twin.model, twin.order.to_q(q), asked), [len(site.rows) for site in sites])
    assert_close(computed(robot, sites, method, q), expected, tolerance(robot, q))


@pytest.mark.parametrize("method", FAST)
@pytest.mark.parametrize("name", TASKS)
def test_pinocchio_on_real_robots(name: str, method: str) -> None:
    real = robots.load(name)
    robot, numbers = real.model, [real.pinocchio.getFrameId(task) for task in TASKS[name]]
    sites = tuple(_site(robot, task) for task in TASKS[name])
    q = robots.state_pool(robot, 3, seed=4)[0]
    results = [delassus(real.pinocchio, real.order.to_q(one), [(n, False) for n in numbers]) for one in q]
    expected = np.stack([angular_first(result, [6] * len(sites)) for result in results])
    assert_close(computed(robot, sites, method, q), expected, tolerance(robot, q))


def _site(robot: rf.Model, name: str) -> Site:
    return robot.site(name if name in robot.frames else f"{name} BODY")


@pytest.mark.parametrize("name", MECHANISMS)
def test_mujoco(name: str) -> None:
    pair = Pair.of(MECHANISMS[name]())
    robot, model, data = pair.robot, pair.model, pair.data
    q = robot.random_configuration(np.random.default_rng(5))
    pair.set(q, np.zeros(robot.nv))
    mujoco.mj_crb(model, data)
    mujoco.mj_factorM(model, data)
    tasks = [link for link in (f"link{i}" for i in (0, 2, 3, 5)) if link in robot.frames]
    J = np.zeros((6 * len(tasks), robot.nv))
    for i, task in enumerate(tasks):
        body = model.body(task).id
        axes = data.xmat[body].reshape(3, 3).T
        linear, angular = np.zeros((3, robot.nv)), np.zeros((3, robot.nv))
        mujoco.mj_jacBody(model, data, linear, angular, body)
        J[6 * i : 6 * i + 6] = np.concatenate([axes @ angular, axes @ linear])
    solved = np.zeros_like(J)
    mujoco.mj_solveM(model, data, solved, J)
    sites = tuple(robot.site(task) for task in tasks)
    assert_close(computed(robot, sites, "pv_osim", q), solved @ J.T, tolerance(robot, q))
