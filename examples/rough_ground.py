"""A thousand quadrupeds on rough ground, and one on stairs: contacts of feet, legs and trunks are discovered.

Springs hold the legs; all robots fall from the same height, and land where the ground is. Try rougher ground (`ROUGH`),
ice (`FRICTION`), or ten thousand robots.

Run it with `python examples/rough_ground.py`, or `python examples/rough_ground.py hills.html stairs.html` for films of
the first robot and of the one on stairs, which need the extra `viewer`. With `hills.png stairs.png` it draws pictures
of their ends, which needs Chromium, too.
"""

from __future__ import annotations

import runpy
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import kinetree as kt
from kinetree import geometry as geo
from kinetree import simulation
from kinetree.errors import ConvergenceWarning

ROBOTS, SECONDS, STEP, FRICTION = 1000, 0.5, 1e-3, 0.8
ROUGH = 0.02  # of a slope from point to point, and of each point [m]
#: The robot of `examples/quadruped.py`.
ORIGINAL = runpy.run_path(str(Path(__file__).with_name("quadruped.py")))


def quadruped() -> tuple[kt.Model, Any]:
    """The robot with shapes, and how it stands."""
    robot, shapes = ORIGINAL["quadruped"](), [geo.Box("trunk", ORIGINAL["TRUNK"], friction=FRICTION)]
    for leg in ORIGINAL["LEGS"]:
        shapes += [
            geo.Capsule(f"{leg}_thigh", (0, 0, -0.03), (0, 0, -0.22), radius=0.03, friction=FRICTION),
            geo.Capsule(f"{leg}_shank", (0, 0, -0.03), (0, 0, -0.2), radius=0.02, friction=FRICTION),
            geo.Sphere(f"{leg}_foot", (0, 0, 0), radius=0.025, friction=FRICTION),
        ]
    bent = {"thigh": 0.6, "shank": -1.2}
    stand = robot.q_from_dict({f"{leg}_{part}_joint": x for leg in ORIGINAL["LEGS"] for part, x in bent.items()})
    return robot.with_shapes(shapes), stand


def world(robot: kt.Model, stand: Any, scene: kt.Scene) -> simulation.Simulator:
    """A simulator with springs in the joints."""
    springs = np.concatenate([np.zeros(6), np.full(12, 200.0)])
    return simulation.Simulator(
        robot, contacts="discover", scene=scene, dt=STEP, stiffness=springs, damping=0.05 * springs, rest=stand
    )


def show(
    file: str, world: simulation.Simulator, q: Any, v: Any, times: Any, scene: kt.Scene, arrows: float | None = None
) -> None:
    """Write a film, or a picture of its end; arrows have a length [m/N]."""
    shown: dict[str, Any] = {"shapes": True, "scene": scene, "size": (900, 600), "force_scale": arrows}
    if file.endswith((".html", ".mp4")):
        kt.viewer.film(file, world.robot, q, times, contacts=world.step(q, v)[2].contacts, **shown)
    else:
        kt.viewer.picture(file, world.robot, q[-1], contacts=world.step(q[-1], v[-1])[2].contacts, **shown)


def main(film: str | None = None, film_of_stairs: str | None = None) -> float:
    """Drop them; returns the largest penetration at the end [m]."""
    robot, stand = quadruped()
    rng = np.random.default_rng(0)
    hills = np.cumsum(rng.normal(0.0, ROUGH, (24, 24)), axis=0) + ROUGH * rng.standard_normal((24, 24))
    scene = kt.Scene([geo.HeightField(hills, (6.0, 6.0), name="hills", friction=FRICTION)])
    ground = world(robot, stand, scene)
    q = np.tile(stand, (ROBOTS, 1))
    q[:, :2], q[:, 2] = rng.uniform(-2.5, 2.5, (ROBOTS, 2)), hills.max() + 0.5
    v = np.zeros((ROBOTS, robot.nv))
    v[:, 2], v[:, 3] = rng.normal(0.0, 0.5, ROBOTS), rng.uniform(0.0, 0.5, ROBOTS)
    with warnings.catch_warnings():  # what did not converge is counted
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.perf_counter()
        path = ground.rollout(q, v, steps=round(SECONDS / STEP), every=25)
        took = time.perf_counter() - start
        _, _, info = ground.step(path.q[:, -1], path.v[:, -1])
    touching = (info.contacts.pair >= 0).sum(axis=-1)
    print(f"{ROBOTS} quadrupeds on rough ground for {SECONDS} s, in {took:.1f} s with compilation:")
    print(f"  {touching.mean():.1f} contacts each, {path.converged[:, -1].mean():.1%} converged, all finite: ", end="")
    print(bool(np.isfinite(path.q).all()))
    if film:
        show(film, ground, path.q[0], path.v[0], path.time, scene)

    stairs = [
        geo.Box(f"stair{i}", (0.3, 1.0, 0.05 * (i + 1)), (np.eye(3), (0.35 + 0.3 * i, 0, 0.025 * (i + 1))),
                friction=FRICTION)
        for i in range(3)
    ]  # fmt: skip
    scene = kt.Scene([*stairs, geo.Plane("floor", friction=FRICTION)])
    steps = world(robot, stand, scene)
    q, v, tilt = stand.copy(), np.zeros(robot.nv), np.arctan2(0.05, 0.3)
    q[0], q[2], q[3], q[5] = 0.35, 0.54, np.cos(tilt / 2.0), -np.sin(tilt / 2.0)
    path = steps.rollout(q, v, steps=1500, every=25)
    _, _, after = steps.step(path.q[-1], path.v[-1])
    on = [after.contacts.names[pair] for pair in after.contacts.pair if pair >= 0]
    print("On stairs, one stands with " + ", ".join(" on ".join(names) for names in on))
    print(f"  and moves by {np.abs(path.v[-1]).max():.0e} m/s or rad/s.")
    if film_of_stairs:
        show(film_of_stairs, steps, path.q, path.v, path.time, scene, arrows=0.004)
    return float(max(info.penetration.max(), after.penetration))


if __name__ == "__main__":
    main(*sys.argv[1:3])
