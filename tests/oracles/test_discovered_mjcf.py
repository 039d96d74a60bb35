"""MJCF files in simulations with discovered contacts: their own floor, masks and friction, and MuJoCo's contacts."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import kinetree as kt
from kinetree import simulation
from kinetree.errors import ConvergenceWarning
from tests.oracle import oracle
from tests.tolerance import assert_near, peak

mujoco = oracle("mujoco")

WALKER = """
<mujoco model="walker">
  <default><geom friction="0.6"/><joint damping="10" stiffness="200"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1" friction="0.9"/>
    <geom name="step" type="box" size=".3 .5 .05" pos=".6 0 .05"/>
    <geom name="painted" type="box" size="5 5 .5" pos="0 0 0" contype="0" conaffinity="0"/>
    <body name="trunk" pos=".15 0 .5">
      <freejoint/>
      <geom name="trunk" type="box" size=".3 .12 .06" mass="8"/>
      {legs}
    </body>
  </worldbody>
</mujoco>"""
LEG = """
      <body name="{name}" pos="{x} {y} 0">
        <joint name="{name}_hip" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 -.02 0 0 -.18" size=".02" mass=".5"/>
        <body name="{name}_shank" pos="0 0 -.2">
          <joint name="{name}_knee" axis="0 1 0"/>
          <geom type="cylinder" fromto="0 0 -.02 0 0 -.15" size=".015" mass=".2"/>
          <geom name="{name}_foot" type="sphere" pos="0 0 -.2" size=".02" mass=".05"/>
        </body>
      </body>"""


def walker() -> str:
    """A quadruped over a floor and a step."""
    legs = {f"{a}{b}": (x, y) for a, x in (("f", 0.25), ("h", -0.25)) for b, y in (("l", 0.14), ("r", -0.14))}
    return WALKER.format(legs="".join(LEG.format(name=name, x=x, y=y) for name, (x, y) in legs.items()))


def test_a_file_runs_on_its_own_floor() -> None:
    robot = kt.load(walker())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        world = simulation.Simulator(robot, contacts="discover", damping=True, stiffness=True)
    q = robot.neutral()
    q[:3] = 0.15, 0.0, 0.55
    with warnings.catch_warnings():  # one step of its landing does not converge
        warnings.simplefilter("ignore", ConvergenceWarning)
        path = world.rollout(q, np.zeros(robot.nv), steps=3000, every=500)
    assert path.converged[2:].all()
    assert peak(path.v[-1]) < 1e-3
    _, _, info = world.step(path.q[-1], path.v[-1])
    assert info.contacts is not None
    on = {info.contacts.names[pair] for pair in info.contacts.pair if pair >= 0}
    assert on == {("fl_foot", "step"), ("fr_foot", "step"), ("hl_foot", "floor"), ("hr_foot", "floor")}
    weight = info.contacts.force[info.contacts.pair >= 0].sum(axis=0)
    assert_near(weight, [0.0, 0.0, 9.81 * robot.mass], 0.5)
    numbers = {pair: i for i, pair in enumerate(info.contacts.names)}
    assert not any("painted" in pair for pair in numbers)
    friction = world._discovered._of.candidates  # type: ignore[union-attr]
    assert set(friction[friction[:, 3] == numbers["hl_foot", "floor"], 0]) == {0.9}  # the larger one
    assert set(friction[friction[:, 3] == numbers["fl_foot", "step"], 0]) == {0.6}


def test_contacts_are_where_mujoco_finds_them() -> None:
    """At random states near the ground, gaps and normals of spheres, capsules and boxes that overlap it a little."""
    text = walker()
    robot, model = kt.load(text), mujoco.MjModel.from_xml_string(text)
    world = simulation.Simulator(robot, contacts="discover")
    theirs, rng, seen = kt.interop.mujoco(robot, model), np.random.default_rng(0), 0
    data = mujoco.MjData(model)
    for _ in range(40):
        v = rng.normal(0.0, 0.3, robot.nv)
        v[:3] *= 0.2
        q = robot.integrate(robot.neutral(), v)
        q[2] = rng.uniform(0.42, 0.5)
        data.qpos[:] = theirs.to_q(q)
        mujoco.mj_forward(model, data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            _, _, info = world.step(q, np.zeros(robot.nv))
        assert info.contacts is not None
        ours: dict[frozenset[str], float] = {}
        for pair, gap in zip(info.contacts.pair, info.contacts.gap, strict=True):
            if pair >= 0:
                names = frozenset(info.contacts.names[pair])
                ours[names] = min(gap, ours.get(names, 1.0))
        for contact in data.contact:
            names = frozenset(
                mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_GEOM, geom) or ""
                for geom in (contact.geom1, contact.geom2)
            )
            if any("foot" in name for name in names):
                assert ours[names] <= contact.dist + 1e-6
                seen += 1
                if len(names & {"floor", "step"}):
                    assert ours[names] == pytest.approx(contact.dist, abs=1e-6)
    assert seen > 20
