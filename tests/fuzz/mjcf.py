"""Loads spoilt MJCF files: each must give a model or a `LoadError`, soon and in bounded memory.

    python -m tests.fuzz.mjcf --count 100000

A file that does not is written to the directory of --keep. A crash of MuJoCo ends the run: the file that it died of is
in that directory as `last.xml`.
"""

from __future__ import annotations

import random
import sys
from typing import Any

from tests.fuzz.mutations import NUMBERS, Dialect
from tests.fuzz.run import run, spoilt_files

#: Small models with everything that is read, and much of what is not.
ARM = """<mujoco model="arm">
  <compiler angle="radian" autolimits="true" meshdir="assets" inertiagrouprange="0 5" boundmass="0" settotalmass="-1"/>
  <option gravity="0 0 -9.81" density="0" timestep="0.002"><flag contact="enable" gravity="enable"/></option>
  <size memory="1M" nuser_body="1" nkey="2"/>
  <default>
    <joint armature="0.1" damping="0.2"/><geom density="900" group="1"/>
    <default class="visual"><geom type="mesh" mass="0" contype="0" conaffinity="0" group="2"/></default>
    <default class="drive"><position kp="20" armature="0.01" gear="3"/></default>
  </default>
  <asset>
    <texture name="grid" type="2d" builtin="checker" width="8" height="8" rgb1="0 0 0" rgb2="1 1 1"/>
    <material name="grey" texture="grid" rgba="0.5 0.5 0.5 1"/>
    <hfield name="hill" nrow="3" ncol="3" size="1 1 0.1 0.1"/>
    <mesh name="tetra" vertex="0 0 0 1 0 0 0 1 0 0 0 1" face="0 2 1 0 1 3 0 3 2 1 2 3" scale="0.1 0.1 0.1"/>
    <mesh name="ball" builtin="sphere" params="2"/>
    <mesh name="absent" file="absent.stl"/>
  </asset>
  <worldbody>
    <light pos="0 0 3"/><geom name="floor" type="plane" size="1 1 0.1" material="grey"/>
    <geom name="ground" type="hfield" hfield="hill"/>
    <body name="base" pos="0 0 0.1" euler="0 0 0.1" childclass="main">
      <inertial pos="0 0 0.1" mass="2" diaginertia="0.1 0.1 0.1"/>
      <geom class="visual" mesh="absent"/><camera pos="0 -1 0"/><site name="origin" pos="0 0 0" size="0.01"/>
      <body name="upper" pos="0 0 0.2">
        <joint name="pan" type="hinge" axis="0 0 1" range="-2 2" ref="0.1"/>
        <joint name="tilt" type="hinge" axis="0 1 0" pos="0 0 0.01" range="-1 1" stiffness="3"/>
        <geom type="capsule" size="0.05" fromto="0 0 0 0.4 0 0"/>
        <frame pos="0.4 0 0" quat="1 0 0.1 0">
          <body name="fore">
            <joint name="rail" type="slide" axis="1 0 0" range="0 0.2" actuatorfrcrange="-5 5"/>
            <geom type="mesh" mesh="tetra" mass="0.3"/><geom type="box" size="0.1 0.05 0.02" pos="0.1 0 0"/>
            <body name="wrist" pos="0.3 0 0"><joint name="ball" type="ball" range="0 1"/>
              <inertial pos="0 0 0" mass="0.5" fullinertia="0.01 0.01 0.01 0 0 0"/></body>
            <replicate count="3" offset="0 0.1 0" euler="0 0 0.2">
              <body name="finger"><joint type="hinge"/><geom type="ellipsoid" size="0.02 0.03 0.04"/></body>
            </replicate>
          </body>
        </frame>
      </body>
    </body>
    <body name="loose" pos="1 0 1" gravcomp="0.5"><freejoint name="free"/><geom type="cylinder" size="0.1 0.2"/></body>
    <body name="ghost" mocap="true"><geom type="sphere" size="0.1"/></body>
  </worldbody>
  <contact><pair geom1="floor" geom2="ground"/><exclude body1="base" body2="fore"/></contact>
  <equality><joint joint1="pan" joint2="tilt"/></equality>
  <tendon><fixed name="cord"><joint joint="pan" coef="1"/></fixed></tendon>
  <actuator><position class="drive" joint="pan"/><motor joint="tilt" gear="2"/></actuator>
  <sensor><jointpos joint="pan"/></sensor>
  <keyframe><key name="home" qpos="0 0 0"/></keyframe>
</mujoco>
"""

MESHES = """<mujoco model="meshes">
  <compiler inertiafromgeom="true" balanceinertia="true" angle="degree" eulerseq="xyz"/>
  <default><mesh scale="0.1 0.1 0.1"/><geom density="500"/></default>
  <asset>
    <mesh name="ball" builtin="sphere" params="3"/><mesh name="cone" builtin="cone" params="9 0.5"/>
    <mesh name="torus" builtin="supertorus" params="9 0.5 1 1"/><mesh name="plate" builtin="plate" params="4 4"/>
    <mesh name="hull" vertex="0 0 0 1 0 0 0 1 0 0 0 1 1 1 1" inertia="convex"/>
    <mesh name="shell" vertex="0 0 0 1 0 0 0 1 0 0 0 1" face="0 2 1 0 1 3 0 3 2 1 2 3" inertia="shell"
          refpos="0.1 0 0" refquat="1 0 0 0.1"/>
  </asset>
  <worldbody>
    <body name="a"><joint type="slide" axis="0 0 1"/><geom type="mesh" mesh="ball"/><geom type="mesh" mesh="cone"/>
      <body name="b" pos="0.1 0 0"><joint type="hinge" axis="0 1 0"/><geom type="mesh" mesh="torus" mass="2"/>
        <body name="c"><joint type="ball"/><geom type="mesh" mesh="hull"/><geom type="capsule" mesh="shell"/></body>
        <body name="d"><joint type="hinge"/><geom type="mesh" mesh="shell" pos="0 0 1"/></body>
      </body>
    </body>
    <frame name="shelf" pos="0 0 1"><site name="edge" fromto="0 0 0 0 0 1" type="capsule" size="0.01"/></frame>
  </worldbody>
</mujoco>
"""

MJCF = Dialect(
    tags=(
        "mujoco", "compiler", "option", "flag", "size", "default", "asset", "texture", "material", "hfield", "mesh",
        "skin", "model", "worldbody", "body", "frame", "replicate", "composite", "flexcomp", "attach", "inertial",
        "joint", "freejoint", "geom", "site", "camera", "light", "plugin", "include", "actuator", "motor", "keyframe",
        "key", "tendon", "deformable", "flex", "a:b", "bdy",
    ),
    types=(
        "hinge", "slide", "ball", "free", "sphere", "capsule", "box", "cylinder", "ellipsoid", "plane", "mesh",
        "hfield", "sdf", "BOX",
    ),
    elements=("body", "joint", "frame", "replicate", "default", "asset", "geom", "mesh"),
    root="<mujoco",
    inside="<body",
    numbers=(*NUMBERS, "65536", "2147483647", "-2147483648", "4294967296", "100000", "0 0 0", "1 2 3 4 5", "1e-200"),
    values=(
        "world", "main", "", "true", "false", "auto", "degree", "tetra", "absent.stl", "/dev/zero", "../../etc/passwd",
        "/etc/passwd", "convex", "shell", "exact", "legacy", "supertorus", "plate",
    ),
)  # fmt: skip


def options_of(rng: random.Random) -> dict[str, Any]:
    """Arguments of `load` that no file makes wrong."""
    return {"gravity": rng.choice((None, (0.0, 0.0, -1.0)))}


if __name__ == "__main__":
    sys.exit(run(__doc__ or "", spoilt_files((ARM, ARM, MESHES), MJCF, ".xml", options_of), ".xml"))
