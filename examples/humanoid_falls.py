"""A humanoid that falls and comes to rest, four times: its limbs touch the floor and each other.

It stands on straight legs that springs hold, is turned a little, and tips over: onto its hands, its back, its side. Try
softer springs (40 N m/rad), more falls, or a `kt.Scene` with a box to fall onto.

Run it with `python examples/humanoid_falls.py`, or `python examples/humanoid_falls.py fall.html` for a film of the
first fall, which needs the extra `viewer`.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

import kinetree as kt
from kinetree import geometry as geo
from kinetree import simulation
from kinetree.errors import ConvergenceWarning, ModelWarning

FALLS, SECONDS, STEP = 4, 4.0, 2e-3


def humanoid() -> kt.Model:
    """The built-in humanoid with capsules along its arms and legs, and shapes for torso, head and feet."""
    robot = kt.zoo.asimo35()
    limbs = [joint for joint in robot.joints if any(part in joint.parent for part in ("arm_", "leg_"))]
    shapes = [geo.Capsule(j.parent, (0, 0, 0), j.placement[:3, 3], radius=0.045, friction=0.6) for j in limbs]
    return robot.with_shapes([
        *shapes,
        geo.Box("torso", (0.18, 0.28, 0.4), (np.eye(3), (0, 0, 0.2)), friction=0.6),
        geo.Box("pelvis", (0.16, 0.24, 0.12), (np.eye(3), (0, 0, -0.1)), friction=0.6),
        geo.Sphere("head", (0, 0, 0.1), radius=0.11, friction=0.6),
        *(geo.Box(f"{side}_foot", (0.2, 0.09, 0.05), (np.eye(3), (0.03, 0, -0.05)), friction=0.6)
          for side in ("left", "right")),
    ])  # fmt: skip


def main(film: str | None = None) -> float:
    """Let it fall; returns how fast it still is at the end [m/s or rad/s]."""
    robot = humanoid()
    servos = np.concatenate([np.zeros(6), np.full(robot.nv - 6, 40.0)])  # springs that hold its posture [N m/rad]
    with warnings.catch_warnings():  # shoulders and hips overlap where they meet
        warnings.simplefilter("ignore", ModelWarning)
        world = simulation.Simulator(robot, contacts="discover", dt=STEP, stiffness=servos, damping=0.1 * servos)
    rng = np.random.default_rng(0)
    q = np.tile(robot.neutral(), (FALLS, 1))
    q[:, 2] = 0.05
    v = np.zeros((FALLS, robot.nv))
    v[:, :2] = rng.normal(0.0, 1.0, (FALLS, 2))
    with warnings.catch_warnings():  # steps that did not converge are counted
        warnings.simplefilter("ignore", ConvergenceWarning)
        path = world.rollout(q, v, steps=round(SECONDS / STEP), every=25)
        _, _, info = world.step(path.q[:, -1], path.v[:, -1])
    speed = float(np.abs(path.v[:, -1]).max())
    count = (info.contacts.pair >= 0).sum(axis=-1)
    print(f"{FALLS} falls of {robot.mass:.0f} kg: {count.min()} to {count.max()} contacts at the end,")
    print(f"  no faster than {speed:.1e} m/s or rad/s, at most {1e3 * info.penetration.max():.4f} mm inside anything,")
    print(f"  and contacts converged at {path.converged.mean():.2%} of all recorded times.")
    if film:
        _, _, seen = world.step(path.q[0], path.v[0])
        kt.viewer.film(film, robot, path.q[0], path.time, contacts=seen.contacts, shapes=True)
    return speed


if __name__ == "__main__":
    main(*sys.argv[1:2])
