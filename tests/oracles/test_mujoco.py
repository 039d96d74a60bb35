"""Mass matrix with armature, bias forces and poses against MuJoCo."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from benchmarks.mjcf import mjcf
from tests.laws.cases import rotation
from tests.oracle import oracle
from tests.tolerance import Array, assert_close, bound, condition, peak
from tests.trees import Link, Mechanism, mixed, random_mechanism

mujoco = oracle("mujoco")

SAMPLES = 3


def common(link: Link) -> Link:
    """A link as MuJoCo can have it: one armature per joint, and free joints that start at the world's origin.

    The armature of a free joint would act on other velocities than Kinetree's.
    """
    if link.joint == "floating":
        return replace(link, armature=np.zeros(6), rotation=np.eye(3), position=np.zeros(3))
    return replace(link, armature=np.full_like(link.armature, link.armature[0]))


@dataclass(frozen=True)
class Pair:
    """One robot in both libraries."""

    robot: kt.Model
    model: Any
    data: Any

    @classmethod
    def of(cls, mechanism: Mechanism) -> Pair:
        mechanism = replace(mechanism, links=tuple(map(common, mechanism.links)))
        model = mujoco.MjModel.from_xml_string(mjcf(mechanism.name, mechanism.links, mechanism.gravity))
        return cls(mechanism.kinetree(), model, mujoco.MjData(model))

    def set(self, q: Array, v: Array) -> None:
        """Bring MuJoCo into a state; it shares Kinetree's coordinates but for the velocity of free joints."""
        self.data.qpos[:] = q
        self.data.qvel[:] = np.linalg.solve(self.rates(q), v)
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_comVel(self.model, self.data)

    def rates(self, q: Array) -> Array:
        """T with v = T · MuJoCo's velocity: of a free joint it takes linear in world axes first, then angular."""
        T = np.eye(self.robot.nv)
        for joint in self.robot.joints:
            if joint.kind == "floating":
                block = np.zeros((6, 6))
                block[:3, 3:] = np.eye(3)
                block[3:, :3] = rotation(q[joint.q_slice][3:]).T
                T[joint.v_slice, joint.v_slice] = block
        return T

    def drift(self, v: Array) -> Array:
        """Ṫ · MuJoCo's velocity: what rotating axes add to a linear acceleration."""
        added = np.zeros(self.robot.nv)
        for joint in self.robot.joints:
            if joint.kind == "floating":
                own = v[joint.v_slice]
                added[joint.v_slice][3:] = -np.cross(own[:3], own[3:])
        return added


MECHANISMS = {
    "hinges": lambda: random_mechanism("hinges", ["revolute"] * 8, 30, armature=0.7),
    "hinges, slides and balls": lambda: random_mechanism(
        "mixed", mixed(9, 31, "revolute", "prismatic", "spherical"), 31, armature=1.0
    ),
    "legged": lambda: random_mechanism("legged", ["floating", *["revolute"] * 12], 32, branching=0.5),
    "legged, armature": lambda: random_mechanism(
        "legged with armature", ["floating", *mixed(9, 33, "revolute", "prismatic", "spherical")], 33, armature=1.0
    ),
    "two floating": lambda: random_mechanism(
        "two", ["floating", "revolute", "spherical", "floating", "prismatic", "revolute"], 34, roots=2
    ),
}


@cache
def make(name: str) -> Pair:
    return Pair.of(MECHANISMS[name]())


@pytest.fixture(params=list(MECHANISMS))
def pair(request: pytest.FixtureRequest) -> Pair:
    return make(request.param)


@pytest.fixture(params=range(SAMPLES))
def state(request: pytest.FixtureRequest, pair: Pair) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(request.param)
    v, a = rng.uniform(-1.0, 1.0, (2, pair.robot.nv))
    return pair.robot.random_configuration(rng), v, a


def full_mass_matrix(pair: Pair) -> Array:
    mujoco.mj_crb(pair.model, pair.data)
    M = np.zeros((pair.model.nv, pair.model.nv))
    mujoco.mj_fullM(pair.model, pair.data, M)
    return M


def test_mass_matrix_with_armature(pair: Pair, state: tuple[Array, Array, Array]) -> None:
    q, v, _ = state
    pair.set(q, v)
    T = pair.rates(q)
    assert_close(T.T @ pair.robot.mass_matrix(q) @ T, full_mass_matrix(pair), bound(pair.robot.nv))


def test_bias_forces(pair: Pair, state: tuple[Array, Array, Array]) -> None:
    q, v, _ = state
    pair.set(q, v)
    expected = np.zeros(pair.model.nv)
    mujoco.mj_rne(pair.model, pair.data, 0, expected)
    bias = pair.robot.bias_forces(q, v) + pair.robot.mass_matrix(q) @ pair.drift(v)
    assert_close(pair.rates(q).T @ bias, expected, bound(pair.robot.nv))


def test_forward_dynamics(pair: Pair, state: tuple[Array, Array, Array]) -> None:
    q, v, tau = state
    pair.set(q, v)
    T = pair.rates(q)
    pair.data.qfrc_applied[:] = T.T @ tau
    mujoco.mj_forward(pair.model, pair.data)
    expected = T @ pair.data.qacc + pair.drift(v)
    pair.data.qfrc_applied[:] = 0.0
    kappa = condition(pair.robot.mass_matrix(q))
    assert_close(pair.robot.forward_dynamics(q, v, tau), expected, bound(pair.robot.nv, kappa))


def test_poses(pair: Pair, state: tuple[Array, Array, Array]) -> None:
    q, v, _ = state
    pair.set(q, v)
    names = [body.name for body in pair.robot.bodies]
    poses = pair.robot.pose(q, names)
    for name, pose in zip(names, poses):
        body = pair.data.body(name)
        assert_close(pose[:3, 3], body.xpos, bound(pair.robot.nv))
        assert_close(pose[:3, :3], body.xmat.reshape(3, 3), bound(pair.robot.nv))


@pytest.mark.parametrize("reference", ["local", "local_world_aligned"])
def test_accelerometers(pair: Pair, state: tuple[Array, Array, Array], reference: str) -> None:
    """What MuJoCo's accelerometer and the documented one measure: the classical acceleration, less free fall."""
    q, v, a = state
    pair.set(q, v)
    pair.data.qacc[:] = np.linalg.solve(pair.rates(q), a - pair.drift(v))
    mujoco.mj_rnePostConstraint(pair.model, pair.data)
    kind, local = mujoco.mjtObj.mjOBJ_XBODY, reference == "local"
    for name in (pair.robot.bodies[0].name, pair.robot.bodies[-1].name):
        expected = np.empty(6)
        mujoco.mj_objectAcceleration(pair.model, pair.data, kind, pair.data.body(name).id, expected, local)
        R = pair.robot.pose(q, name)[:3, :3] if local else np.eye(3)
        measured = pair.robot.acceleration(q, v, a, name, reference, classical=True)
        measured[3:] -= R.T @ pair.robot.gravity
        speed = peak(pair.robot.velocity(q, v, name))
        assert_close(measured, expected, bound(pair.robot.nv), max(peak(expected), speed**2))
