"""Reactions against Pinocchio's `data.f` on trees of every joint kind, and MuJoCo's `cfrc_int` with fixed bodies."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from tests.oracle import oracle
from tests.oracles.pinocchio_twin import Twin, pin, robots, upright
from tests.tolerance import assert_close, peak
from tests.trees import mixed, random_mechanism

#: Accuracy relative to the largest force.
TOLERANCE = 1e-12

MECHANISMS = {
    "every kind": (mixed(12, 28), 28, {}),
    "every kind, armature": (mixed(10, 23), 23, {"armature": 1.0}),
    "forest": (mixed(15, 151), 151, {"roots": 3}),
    "long": (["revolute"] * 60, 25, {"branching": 0.1}),
}


@cache
def pair(name: str) -> tuple[kt.Model, Twin]:
    joints, seed, options = MECHANISMS[name]
    mechanism = upright(random_mechanism(name, joints, seed, **options))
    robot = mechanism.kinetree()
    return robot, Twin.of(mechanism, robot)


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("name", MECHANISMS)
def test_pinocchio(name: str, loaded: bool) -> None:
    robot, twin = pair(name)
    q, v, a = robots.state_pool(robot, 2, seed=3)
    rng = np.random.default_rng(0)
    bodies = [body.name for body in robot.bodies]
    wrenches = {frame: rng.uniform(-3.0, 3.0, 6) for frame in (bodies[0], bodies[-1])} if loaded else {}
    data, order = twin.model.createData(), twin.order
    found = robot.reactions(q, v, a, f_ext=wrenches)
    for i in range(2):
        forces = twin.forces(wrenches)
        pin.rnea(twin.model, data, order.to_q(q)[i], order.to_v(v)[i], order.to_v(a)[i], forces)
        theirs = [data.f[twin.model.frames[twin.frames[body]].parentJoint] for body in bodies]
        expected = np.array([np.concatenate([f.angular, f.linear]) for f in theirs])
        assert_close(found[i], expected, TOLERANCE, peak(expected))


MJCF = """<mujoco><option gravity="0.3 -0.2 -9.81"/><worldbody>
  <body name="pillar" pos="0.1 0.2 0.5" euler="10 20 30">
    <inertial pos="0.1 0 0.2" mass="3" diaginertia="0.1 0.2 0.25"/>
    <body name="arm" pos="0 0.1 0.4" euler="0 40 10"><joint axis="0 1 0.5"/>
      <inertial pos="0.2 0.1 0" mass="2" fullinertia="0.1 0.2 0.15 0.01 0.02 -0.01"/>
      <body name="flange" pos="0.3 0 0.1" euler="20 0 50">
        <inertial pos="0 0.05 0" mass="0.4" diaginertia=".01 .02 .02"/>
        <body name="camera" pos="0 0.1 0.1" euler="5 6 7">
          <inertial pos="0 0 0.02" mass="0.2" diaginertia=".01 .01 .01"/>
        </body>
        <body name="finger" pos="0.1 0 0" euler="0 0 90"><joint type="slide" axis="1 0 0"/>
          <inertial pos="0 0 0.1" mass="0.3" diaginertia=".01 .02 .02"/></body>
      </body>
    </body>
  </body>
  <body name="buoy" pos="2 0 0"><freejoint/><inertial pos="0 0.1 0" mass="1" diaginertia="0.1 0.1 0.1"/>
    <body name="mast" pos="0 0 0.6" euler="15 0 0"><inertial pos="0 0 0.1" mass="0.2" diaginertia=".01 .01 .01"/></body>
  </body>
</worldbody></mujoco>"""


def test_mujoco_with_fixed_bodies(tmp_path: Any) -> None:
    """Wrenches through fixed joints, on the world, inside an arm and on a floating body."""
    mujoco = oracle("mujoco")
    path = tmp_path / "robot.xml"
    path.write_text(MJCF)
    model = mujoco.MjModel.from_xml_string(MJCF)
    data = mujoco.MjData(model)
    robot = kt.load(path)
    assert {joint.child for joint in robot.fixed_joints} == {"pillar", "flange", "camera", "mast"}
    rng = np.random.default_rng(1)
    q = robot.random_configuration(rng)
    v, tau = rng.uniform(-1.0, 1.0, (2, robot.nv))
    order = kt.interop.mujoco(robot, model)
    data.qpos[:], data.qvel[:] = order.to_q(q), order.to_v(v, q)
    a = robot.forward_dynamics(q, v, tau)
    data.qfrc_applied[:] = order.to_tau(tau, q)
    mujoco.mj_forward(model, data)
    mujoco.mj_rnePostConstraint(model, data)
    for name in ("pillar", "arm", "flange", "camera", "finger", "buoy", "mast"):
        body = model.body(name).id
        centre = data.subtree_com[model.body_rootid[body]]  # where MuJoCo takes moments
        moment, force = data.cfrc_int[body][:3], data.cfrc_int[body][3:]
        expected = np.concatenate([moment + np.cross(centre, force), force])
        found = robot.reactions(q, v, a, name, "world")
        assert_close(found, expected, TOLERANCE, peak(data.cfrc_int))
