"""Speed of a quadruped that walks over stairs, contacts discovered, against `mujoco.rollout` on the same scene.

Part of `make bench`; alone: `python -m benchmarks.terrain`. ANYmal has spheres for feet, capsules for shanks, and a box
for its trunk; springs and dampers in its joints follow a trot. Both simulate the same MJCF file, on one thread.
MuJoCo's contacts are soft, and its solver stops at its own tolerance; ours are rigid, with the residual in the table.
"""

from __future__ import annotations

import warnings
from typing import Any

import mujoco
import numpy as np
from rich.console import Console

import kinetree as kt
from benchmarks import robots
from benchmarks.rollouts import Peer
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core, race
from kinetree import geometry as geo
from kinetree import simulation
from kinetree.errors import ConvergenceWarning
from kinetree.runtime.threads import set_threads

STEP, STEPS, MANY, FRICTION = 1e-3, 200, 256, 0.8
STIFFNESS, DAMPING = 120.0, 4.0
LEGS = ("LF", "LH", "RF", "RH")
Array = np.ndarray[Any, np.dtype[np.float64]]


def walker() -> kt.Model:
    """ANYmal with shapes, springs and dampers, on a floor with stairs."""
    robot = robots.load("ANYmal").model
    frames = {frame.name: frame for frame in robot.extra_frames}
    shapes: list[geo.SolidShape] = [geo.Box("trunk", (0.7, 0.3, 0.25), body="base", friction=FRICTION)]
    for leg in LEGS:
        foot = frames[f"{leg}_FOOT BODY"].placement[:3, 3]
        shapes += [
            geo.Sphere(f"{leg}_foot", foot, 0.03, body=f"{leg}_SHANK", friction=FRICTION),
            geo.Capsule(f"{leg}_shank", 0.2 * foot, 0.8 * foot, 0.025, body=f"{leg}_SHANK", friction=FRICTION),
        ]
    shapes += [
        geo.Plane("floor", body="world", friction=FRICTION),
        *(
            geo.Box(f"stair{i}", (0.4, 2.0, 0.06 * (i + 1)), body="world", friction=FRICTION,
                    placement=(np.eye(3), (0.55 + 0.4 * i, 0.0, 0.03 * (i + 1))))
            for i in range(3)
        ),
    ]  # fmt: skip
    joints = [joint.name for joint in robot.joints[1:]]
    robot = robot.with_damping(dict.fromkeys(joints, DAMPING)).with_stiffness(dict.fromkeys(joints, STIFFNESS))
    return robot.with_shapes(shapes)


def trot(robot: kt.Model, count: int, steps: int) -> tuple[Array, Array, Array]:
    """States before the first stair, and joint forces that move the rest of the springs in a trot."""
    place, rng = {joint.name: joint.v_start for joint in robot.joints}, np.random.default_rng(0)
    time, tau = STEP * np.arange(steps), np.zeros((count, steps, robot.nv))
    q = np.tile(robot.neutral(), (count, 1))
    q[:, 0], q[:, 1], q[:, 2] = rng.uniform(-0.3, 0.3, count), rng.uniform(-0.2, 0.2, count), 0.7
    phase = rng.uniform(0.0, 2.0 * np.pi, count)
    for leg in LEGS:
        sign, shift = (1.0 if leg[1] == "F" else -1.0), (0.0 if leg in ("LF", "RH") else np.pi)
        swing = 2.0 * np.pi * 1.5 * time + shift + phase[:, None]
        hip, knee = sign * 0.4 + 0.15 * np.sin(swing), -sign * (0.8 + 0.25 * np.maximum(np.cos(swing), 0.0))
        q[:, robot.nq - robot.nv + place[f"{leg}_HFE"]], q[:, robot.nq - robot.nv + place[f"{leg}_KFE"]] = (
            hip[:, 0],
            knee[:, 0],
        )
        tau[:, :, place[f"{leg}_HFE"]], tau[:, :, place[f"{leg}_KFE"]] = STIFFNESS * hip, STIFFNESS * knee
    return q, np.zeros((count, robot.nv)), tau


def simulator(robot: kt.Model) -> simulation.Simulator:
    """Ours, with the integrator that MuJoCo has."""
    return simulation.Simulator(
        robot, contacts="discover", dt=STEP, method="semi_implicit_euler", damping=True, stiffness=True
    )


def peer(robot: kt.Model, cone: str) -> Peer:
    """The same scene in MuJoCo."""
    text = kt.to_mjcf(robot).replace("<compiler", f'<option timestep="{STEP}" cone="{cone}"/><compiler', 1)
    model = mujoco.MjModel.from_xml_string(text)
    return Peer(model, kt.interop.mujoco(robot, model))


def on_stairs(seconds: float) -> Table:
    """One quadruped, and many.

    Args:
        seconds: How long to go on for each contender.
    """
    robot = walker()
    world, cones = simulator(robot), ("elliptic", "pyramidal")
    peers = {cone: peer(robot, cone) for cone in cones}
    table = Table(
        "ANYmal trots over stairs, contacts discovered, per step, and times as fast as mujoco.rollout",
        ["robots", "Kinetree", "residual ≤ 1e-10", "largest", *(f"MuJoCo, {cone}" for cone in cones)],
    )
    for count in (1, MANY):
        # after it has landed
        q, v, tau = trot(robot, count, 1000 + STEPS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            landed = world.rollout(q, v, tau[:, :1000], every=1000)
        q, v, tau = landed.q[:, -1], landed.v[:, -1], tau[:, 1000:]
        with warnings.catch_warnings():  # the residual is in the table
            warnings.simplefilter("ignore", ConvergenceWarning)
            residual = world.rollout(q, v, tau).residual
        given = (q[0], v[0], tau[0]) if count == 1 else (q, v, tau)
        contenders: dict[str, Any] = {"Kinetree": (world.rollout, [given])}
        contenders |= {cone: (one, [one.prepared(q, v, tau)]) for cone, one in peers.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            times = race(contenders, seconds)
        table.add(
            str(count), f"{times['Kinetree'] / count / STEPS * 1e6:.3g} µs", f"{(residual <= 1e-10).mean():.1%}",
            f"{residual.max():.0e}", *(f"{times[cone] / times['Kinetree']:.2f}×" for cone in cones),
        )  # fmt: skip
    return table


if __name__ == "__main__":
    pin_to_one_core()
    set_threads(1)
    Console(width=120).print(on_stairs(0.4).rich())
