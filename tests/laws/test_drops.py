"""Robots that are dropped come to rest where their files have damping, and gain no energy where they have none."""

from __future__ import annotations

import numpy as np
import pytest

import kinetree as kt
from kinetree import simulation
from tests.tolerance import assert_near, peak

FILE = """
<mujoco model="{name}">
  <compiler angle="radian" autolimits="true"/>
  <default><joint damping="{damping}" frictionloss="{dry}"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1" friction="0.8"/>
    <body name="trunk" pos="0 0 .4"><freejoint/>{parts}</body>
  </worldbody>
</mujoco>"""


def leg(name: str, x: float, y: float) -> str:
    """Two capsules, with a sphere as its foot, and a stop of the knee."""
    return f"""
      <body name="{name}" pos="{x} {y} 0"><joint name="{name}_hip" axis="0 1 0" range="-1.5 1.5"/>
        <geom type="capsule" fromto="0 0 -.03 0 0 -.17" size=".02" mass=".5"/>
        <body name="{name}_shank" pos="0 0 -.2"><joint name="{name}_knee" axis="0 1 0" range="-2.2 .1"/>
          <geom type="capsule" fromto="0 0 -.03 0 0 -.15" size=".015" mass=".2"/>
          <geom type="sphere" pos="0 0 -.2" size=".02" mass=".05"/></body></body>"""


def wheel(name: str, x: float, y: float) -> str:
    """A cylinder that rolls."""
    return f"""
      <body name="{name}" pos="{x} {y} -.03"><joint name="{name}" axis="0 1 0" range="-50 50"/>
        <geom type="cylinder" size=".06 .02" euler="1.5707963267948966 0 0" mass=".4"/></body>"""


CORNERS = {f"{a}{b}": (x, y) for a, x in (("f", 0.25), ("h", -0.25)) for b, y in (("l", 0.16), ("r", -0.16))}
TRUNK = '<geom name="trunk" type="box" size=".3 .1 .06" mass="6"/>'
SNAKE = "".join(
    f'<body name="s{i}" pos=".22 0 0"><joint name="s{i}" axis="0 {1 - i % 2} {i % 2}" range="-1.2 1.2"/>'
    '<geom type="capsule" fromto=".04 0 0 .18 0 0" size=".03" mass=".4"/>'
    for i in range(4)
)
PARTS = {
    "quadruped": TRUNK + "".join(leg(name, *place) for name, place in CORNERS.items()),
    "cart": TRUNK + "".join(wheel(name, *place) for name, place in CORNERS.items()),
    "snake": '<geom type="box" size=".1 .06 .04" mass=".6"/>' + SNAKE + 4 * "</body>",
}


def fall(
    name: str, damping: float, dry: float, seconds: float
) -> tuple[kt.Model, simulation.Simulator, simulation.Rollout]:
    """A robot that falls from 0.6 m, tilted."""
    robot = kt.load(FILE.format(name=name, damping=damping, dry=dry, parts=PARTS[name]))
    world = simulation.Simulator(robot, contacts="discover", damping=True, friction=True, limits=True, dt=2e-3)
    v = np.zeros(robot.nv)
    v[:3] = 0.1, 0.2, 0.3
    q = robot.integrate(robot.neutral(), v)
    q[:3] = 0.0, 0.0, 0.6
    return robot, world, world.rollout(q, np.zeros(robot.nv), steps=round(seconds / 2e-3), every=10)


def grown(robot: kt.Model, path: simulation.Rollout) -> float:
    """The largest growth of energy between two states, relative to its whole change."""
    energy = np.array([float(sum(robot.energy(q, v))) for q, v in zip(path.q, path.v, strict=True)])
    return float(np.diff(energy).max() / np.ptp(energy))


@pytest.mark.parametrize("name", PARTS)
def test_robots_come_to_rest(name: str) -> None:
    robot, world, path = fall(name, damping=0.3, dry=0.05, seconds=5.0)
    q, v = path.q[-1], path.v[-1]
    assert peak(v) < 1e-6
    _, _, info = world.step(q, v)
    assert info.converged
    assert info.penetration < 1e-6
    assert info.contacts is not None
    on_floor = [pair >= 0 and "floor" in info.contacts.names[pair] for pair in info.contacts.pair]
    weight = info.contacts.force[on_floor].sum(axis=0)
    assert_near(np.abs(weight), [0.0, 0.0, 9.81 * robot.mass], 1e-4)
    assert grown(robot, path) < 1e-3


@pytest.mark.parametrize("name", PARTS)
def test_robots_without_damping_gain_no_energy(name: str) -> None:
    robot, _, path = fall(name, damping=0.0, dry=0.0, seconds=2.0)
    assert np.isfinite(path.q).all()
    assert path.converged.all()  # also where stops press limbs against the floor
    assert grown(robot, path) < 1e-3
