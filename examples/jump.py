"""A quadruped jumps onto a step: contact phases, impacts, friction and torque limits, no guess.

It crouches, pushes off with its knees at the limit of their torque, pulls its feet over the edge, and lands where it
should. Try a higher step (`WAY`), weaker motors (`TORQUE`) or ice (`FRICTION`).

Run it with `python examples/jump.py`, `python examples/jump.py jump.png` for a picture, or `python examples/jump.py
jump.html` for a film, which needs the extra `viewer`.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt
from kinetree import geometry as geo
from kinetree import ocp

STEP = 0.01  # [s]
STAND, FLY, LAND = 60, 50, 50  # steps
WAY, EDGE = np.array([0.65, 0.0, 0.2]), 0.38  # [m]
FRICTION, TORQUE = 0.7, 80.0  # [N m]
THIGH, SHANK = 0.25, 0.25  # [m]
#: Where the hips are in the trunk, forward and to the left [m].
LEGS = {"front_left": (0.2, 0.15), "front_right": (0.2, -0.15), "hind_left": (-0.2, 0.15), "hind_right": (-0.2, -0.15)}
FEET = [f"{leg}_foot" for leg in LEGS]


def quadruped() -> kt.Model:
    """A trunk on four legs, each with two joints at the hip and one at the knee."""
    builder = kt.Builder("quadruped")
    builder.add_body("trunk", joint="floating", mass=12.0, inertia=np.diag([0.072, 0.265, 0.308]))
    for leg, (x, y) in LEGS.items():
        hip, knee = (np.eye(3), (x, y, 0.0)), (np.eye(3), (0.0, 0.0, -THIGH))
        limb = np.diag([0.005, 0.005, 0.0005])
        half = (0.0, 0.0, -THIGH / 2)
        builder.add_body(
            f"{leg}_hip", parent="trunk", axis=(1, 0, 0), placement=hip, mass=0.5, inertia=1e-3 * np.eye(3)
        )
        builder.add_body(f"{leg}_thigh", parent=f"{leg}_hip", axis=(0, 1, 0), mass=1.0, com=half, inertia=limb)
        builder.add_body(
            f"{leg}_shank",
            parent=f"{leg}_thigh",
            axis=(0, 1, 0),
            placement=knee,
            mass=0.4,
            com=half,
            inertia=0.5 * limb,
        )
        builder.add_frame(f"{leg}_foot", body=f"{leg}_shank", placement=(np.eye(3), (0, 0, -SHANK)))
    return builder.build()


def main(file: str | None = None) -> float:
    """Plan the jump; returns how far the feet are from where they should land, and from the cones [m, N]."""
    robot = quadruped()
    start = robot.q_from_dict(
        {f"{leg}_{part}_joint": angle for leg in LEGS for part, angle in (("thigh", 0.7), ("shank", -1.4))}
    )
    start[2] -= robot.pose(start, FEET)[:, 2, 3].mean()
    end = start.copy()
    end[:3] += WAY
    nv = robot.nv
    posture = np.concatenate([np.full(3, 5.0), np.zeros(3), np.full(12, 0.5), np.full(nv, 0.05)])
    touch = {foot: robot.pose(end, foot)[:3, 3] for foot in FEET}
    aloft = range(STAND + FLY // 3, STAND + FLY * 4 // 5)
    problem = ocp.Problem(
        robot, STEP, STAND + FLY + 1 + LAND,
        [
            ocp.state(end, weight=posture, last=np.repeat([100.0, 10.0], nv)),
            ocp.control(weight=1e-3),
            *(ocp.position(foot, x, weight=0.0, impact=1e5) for foot, x in touch.items()),
            # feet clear the edge
            *(ocp.position(foot, (0, 0, 0.32), weight=(0, 0, 50.0), nodes=aloft, name=f"{foot} up") for foot in FEET),
        ],
        limits=ocp.Limits(torque=TORQUE),
        contacts=ocp.Contacts(
            # the step after the flight is the impact, which takes no time
            dict.fromkeys(FEET, np.repeat([True, False, True], [STAND, FLY, 1 + LAND])), damping=20.0, friction=FRICTION
        ),
    )  # fmt: skip
    plan = problem.solve(start)
    print(plan)
    points = robot.pose(plan.q, FEET)[..., :3, 3]
    over = points[STAND : STAND + FLY + 1]
    clear = min(np.interp(EDGE, x, z) for x, z in zip(over[..., 0].T, over[..., 2].T, strict=True) if x[0] < EDGE)
    forces = np.array(list(plan.forces.values()))
    rise, most = plan.q[:, 2].max() - start[2], np.abs(plan.u).max()
    print(f"  largest torque {most:.1f} N m, the trunk rises by {100 * rise:.0f} cm")
    print(f"  feet pass {100 * (clear - WAY[2]):.0f} cm above the edge")
    drift = np.abs(points[STAND + FLY :] - points[STAND + FLY]).max()
    miss = float(np.abs(points[STAND + FLY] - list(touch.values())).max())
    slip = float((forces @ ocp.cone("position", FRICTION).T).max())
    print(f"  feet land within {1e3 * miss:.1f} mm, and stay within {1e3 * drift:.1f} mm")
    print(f"  forces are in the cones to {max(slip, 0.0):.0e} N")
    if file and file.endswith((".html", ".mp4")):
        step = geo.Box("step", (0.8, 1.0, WAY[2]), (np.eye(3), (EDGE + 0.4, 0.0, WAY[2] / 2)))
        kt.viewer.film(file, robot, plan, scene=kt.Scene([step]))
    elif file:
        draw(robot, plan, file)
    return max(miss, slip) if plan.converged and clear > WAY[2] else np.inf


def draw(robot: kt.Model, plan: ocp.Plan, file: str) -> None:
    """The jump from the side, and the forces of the ground."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    side, forces = figure.subplots(1, 2, width_ratios=(3, 2))
    side.fill_between([-0.6, EDGE, EDGE, 1.1], [0, 0, WAY[2], WAY[2]], -0.05, color="0.85")
    for i, node in enumerate((0, STAND - 12, STAND, STAND + FLY // 2, STAND + FLY, -1)):
        for leg in LEGS:
            frames = ["trunk", *(f"{leg}_{part}" for part in ("hip", "shank", "foot"))]
            x, z = robot.pose(plan.q[node], frames)[:, [0, 2], 3].T
            at = f"{plan.time[node]:.2f} s" if leg == "front_left" else None
            side.plot(x, z, "o-", markersize=2, color=colormaps["viridis"](i / 5), label=at)
    side.set(xlabel="x [m]", ylabel="z [m]", aspect="equal")
    side.legend(fontsize=8, loc="upper left")
    for leg, foot in zip(LEGS, FEET, strict=True):
        still = np.delete(plan.forces[foot][:, 2], STAND + FLY)
        dashed = "--" if "right" in leg else "-"  # both sides press alike
        forces.plot(STEP * np.arange(len(still)), still, dashed, drawstyle="steps-post", label=leg.replace("_", " "))
    forces.set(xlabel="time [s]", ylabel="normal force [N]")
    forces.legend(fontsize=8)
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
