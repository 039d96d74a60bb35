"""A quadruped dropped on a slope: rigid contacts with Coulomb friction, springs in the joints, many drops in one batch.

Run it with `python examples/quadruped.py`, or `python examples/quadruped.py quadruped.png` for a picture.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

import kinetree as kt
from kinetree import simulation
from kinetree.errors import ConvergenceWarning

SECONDS, STEP = 3.0, 1e-3  # [s]
SLOPE, FRICTION = np.radians(12.0), 0.8
DROPS = 16
TRUNK, THIGH, SHANK = (0.5, 0.24, 0.12), 0.25, 0.25  # [m]
#: Where the hips are in the trunk, forward and to the left [m].
LEGS = {"front_left": (0.2, 0.15), "front_right": (0.2, -0.15), "hind_left": (-0.2, 0.15), "hind_right": (-0.2, -0.15)}


def quadruped() -> kt.Model:
    """A trunk on four legs, each with two joints at the hip and one at the knee."""
    builder = kt.Builder("quadruped")
    builder.add_body("trunk", joint="floating", mass=12.0, inertia=np.diag([0.072, 0.265, 0.308]))
    for leg, (x, y) in LEGS.items():
        builder.add_body(
            f"{leg}_hip", parent="trunk", axis=(1, 0, 0), placement=(np.eye(3), (x, y, 0.0)), mass=0.5,
            inertia=1e-3 * np.eye(3),
        )  # fmt: skip
        limb = np.diag([0.005, 0.005, 0.0005])
        builder.add_body(
            f"{leg}_thigh", parent=f"{leg}_hip", axis=(0, 1, 0), mass=1.0, com=(0, 0, -THIGH / 2), inertia=limb
        )
        builder.add_body(
            f"{leg}_shank", parent=f"{leg}_thigh", axis=(0, 1, 0), placement=(np.eye(3), (0, 0, -THIGH)), mass=0.4,
            com=(0, 0, -SHANK / 2), inertia=0.5 * limb,
        )  # fmt: skip
        builder.add_frame(f"{leg}_foot", body=f"{leg}_shank", placement=(np.eye(3), (0, 0, -SHANK)))
    return builder.build()


def main(picture: str | None = None) -> float:
    """Drop it many times; returns how far the robots that stand move in the last half second [m]."""
    robot = quadruped()
    bent = {"thigh": 0.6, "shank": -1.2}
    stand = robot.q_from_dict({f"{leg}_{part}_joint": angle for leg in LEGS for part, angle in bent.items()})
    half = np.array(TRUNK) / 2.0
    corners = [half * (x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    springs = np.concatenate([np.zeros(6), np.full(12, 200.0)])  # [N m/rad]
    world = simulation.Simulator(
        robot,
        dt=STEP,
        contacts=[
            simulation.Points("trunk", corners),
            *(simulation.Points(f"{leg}_foot", np.zeros(3)) for leg in LEGS),
        ],
        ground=simulation.Plane((np.sin(SLOPE), 0.0, np.cos(SLOPE)), friction=FRICTION),
        stiffness=springs,
        damping=0.1 * springs,
        rest=stand,
    )

    # from different heights, turned about the slope's normal, and spinning
    rng = np.random.default_rng(0)
    tilt, turn = np.zeros(robot.nv), np.zeros((DROPS, robot.nv))
    tilt[1], turn[:, 2] = SLOPE, rng.uniform(-np.pi, np.pi, DROPS)
    q = robot.integrate(robot.integrate(stand, tilt), turn)
    q[:, 2] = rng.uniform(0.5, 0.6, DROPS)
    v = np.zeros((DROPS, robot.nv))
    v[:, :3] = 0.3 * rng.normal(size=(DROPS, 3))
    with warnings.catch_warnings():  # what is said of robots that lie on the corners of their trunks is counted below
        warnings.simplefilter("ignore", ConvergenceWarning)
        path = world.rollout(q, v, steps=round(SECONDS / STEP), every=10)

    up = robot.pose(path.q[:, -1], "trunk")[:, 2, 2] > 0.9
    settled = path.q[:, -1 - round(0.5 / STEP / 10) :, :3]
    creep = np.abs(settled - settled[:, -1:]).max(axis=(1, 2))
    _, _, info = world.step(path.q[:, -1], path.v[:, -1])
    weight = info.contact_forces.sum(axis=1)[:, 2] / (9.81 * robot.mass)
    print(f"{DROPS} drops of {robot.mass:.1f} kg on a slope of {np.degrees(SLOPE):.0f}°, friction {FRICTION}:")
    print(
        f"  after {SECONDS:.0f} s {up.sum()} stand, and still move by {creep[up].max():.1e} m in the last half second"
    )
    print(f"  the ground carries {weight[up].min():.4f} to {weight[up].max():.4f} of their weight")
    print(f"  contacts converged in {path.converged.mean():.2%} of all recorded times")
    if picture:
        draw(robot, path, picture)
    return float(creep[up].max())


def draw(robot: kt.Model, path: simulation.Rollout, picture: str) -> None:
    """The first drop from the side, at a few times."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    times = (0.0, 0.2, 0.35, 0.6, SECONDS)
    for i, time in enumerate(times):
        q = path.q[0, min(round(time / STEP / 10), path.q.shape[1] - 1)]
        along = [1.1 * i, -1.1 * i * np.tan(SLOPE)]
        for leg in LEGS:
            frames = ["trunk", *(f"{leg}_{part}" for part in ("hip", "shank", "foot"))]
            x, z = (robot.pose(q, frames)[:, [0, 2], 3] + along).T
            axes.plot(x, z, "o-", markersize=3, color=colormaps["viridis"](i / len(times)))
        axes.text(x[0], z[0] + 0.1, f"{time:.2f} s", ha="center")
    ground = np.array([-0.6, 1.1 * len(times)])
    axes.plot(ground, -ground * np.tan(SLOPE), color="0.4")
    axes.set(xlabel="x [m]", ylabel="z [m]", aspect="equal", title="A quadruped dropped on a slope")
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
