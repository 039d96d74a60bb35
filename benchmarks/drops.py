"""Robots with a free base that fall on the floor of their own MJCF files, and how fast they still move in the end.

    python -m benchmarks.drops <directory of MuJoCo Menagerie>

Robots start 0.1 m above their first keyframe, or above the floor, without torques, with the damping, dry friction,
springs and stops of their files. Where files leave joints without damping and dry friction, limbs swing for ever, in
MuJoCo, too; then energy must not grow. With `--damping` every joint has at least so much [N m s/rad or N s/m].
Collision meshes do not touch the floor, so robots whose trunk is a mesh hang below it.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kinetree as kt
from kinetree import simulation
from kinetree.errors import KinetreeError

#: Fastest joint of a robot that is at rest [rad/s or m/s].
REST = 1e-3


class Drop(NamedTuple):
    """What became of a robot."""

    nv: int
    undamped: int  # joints without damping and dry friction
    speeds: Any  # fastest degree of freedom at each state of the rollout [rad/s or m/s]
    rise: float  # largest growth of energy between two states [J]
    lowest: float  # gap of the deepest contact at the end [m]
    converged: float  # share of states whose step had converged
    seconds: float


def dropped(robot: kt.Model, seconds: float, height: float = 0.1, least: float = 0.0, dt: float = 1e-3) -> Drop:
    """Let a robot fall.

    Args:
        robot: With a free base.
        seconds: How long it is watched [s].
        height: Above its first keyframe, or its neutral configuration, raised until nothing overlaps [m].
        least: Damping of joints that have less [N m s/rad or N s/m].
        dt: Time step [s].
    """
    damping = np.array(robot.damping)
    damping[6:] = np.maximum(damping[6:], least)
    stops = bool(np.isfinite(robot.upper_limits).any() or np.isfinite(robot.lower_limits).any())
    world = simulation.Simulator(
        robot, contacts="discover", dt=dt, damping=damping, friction=True, stiffness=True, limits=stops
    )
    keys = list(robot.keyframes.values())
    q = np.array(keys[0] if keys else robot.neutral())
    for _ in range(3):  # many files without a keyframe begin inside their floor
        _, _, info = world.step(q, np.zeros(robot.nv))
        q[2] += float(np.max(info.penetration))
    q[2] += height
    since = time.perf_counter()
    path = world.rollout(q, np.zeros(robot.nv), steps=round(seconds / dt), every=round(0.1 / dt))
    since = time.perf_counter() - since
    energy = [float(sum(robot.energy(q, v))) for q, v in zip(path.q, path.v, strict=True)]
    _, _, info = world.step(path.q[-1], path.v[-1])
    free = (damping[6:] == 0.0) & (np.array(robot.friction)[6:] == 0.0)
    return Drop(
        robot.nv, int(free.sum()), np.abs(path.v).max(axis=1), float(np.diff(energy).max()),
        float(np.max(info.penetration)), float(np.mean(path.converged)), since,
    )  # fmt: skip


def main() -> None:
    """Drop each robot whose scene has a free base, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--damping", type=float, default=0.0)
    given = parser.parse_args()
    print(f"{'robot':44}  nv  undamped  speed at 2, 5 s, the end     rise [J]  below [µm]  converged  time [s]")
    for path in sorted(given.directory.glob("*/scene*.xml")):
        name = str(path.relative_to(given.directory))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                robot = kt.load(path)
                if robot.nq != robot.nv + 1 or robot.nv < 6:
                    continue
                drop = dropped(robot, given.seconds, least=given.damping)
            except KinetreeError as error:
                print(f"{name:44}  {type(error).__name__}: {str(error)[:150]}", flush=True)
                continue
        v = drop.speeds
        print(
            f"{name:44} {drop.nv:3} {drop.undamped:9}  {v[len(v) // 5]:.1e} {v[len(v) // 2]:.1e} {v[-1]:.1e} "
            f"{'rests' if v[-1] < REST else 'MOVES'}  {drop.rise:8.1e}  {1e6 * drop.lowest:10.2f}  "
            f"{100 * drop.converged:7.1f} %  {drop.seconds:8.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
