"""A delta robot draws a circle: three motors move a platform through closed loops, by operational-space control.

The rods come in pairs, which keep the platform level: here it slides along x, y and z, and each pair of rods is one
distance that does not change. The three arms are the independent joints; everything else follows from them.

Run it with `python examples/delta.py`, or with the name of a picture: `python examples/delta.py delta.png`.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt
from kinetree import control, simulation

BASE, PLATFORM, ARM, ROD = 0.20, 0.06, 0.30, 0.70  # radii and lengths [m]
RADIUS, PERIOD, SECONDS = 0.12, 1.0, 2.0  # of the circle [m, s], and how long it is followed [s]


def delta() -> kt.Model:
    """The robot, its base above, at the height of the world's origin."""
    builder = kt.Builder("delta")
    carrier = "world"
    for name, axis in (("x", (1, 0, 0)), ("y", (0, 1, 0)), ("z", (0, 0, 1))):
        mass = {"mass": 0.5, "inertia": 1e-3 * np.eye(3)} if name == "z" else {}
        builder.add_body(f"slide_{name}", parent=carrier, joint="prismatic", axis=axis, **mass)
        carrier = f"slide_{name}"
    builder.add_frame("tool", body=carrier)
    for i in range(3):
        turn = kt.control.exp([0.0, 0.0, 2.0 * np.pi * i / 3.0, 0.0, 0.0, 0.0])[:3, :3]
        solid = {"mass": 0.3, "com": (0.15, 0.0, 0.0), "inertia": np.diag([1e-5, 2e-3, 2e-3])}
        builder.add_body(f"arm_{i}", axis=(0, 1, 0), placement=(turn, turn @ [BASE, 0.0, 0.0]), armature=0.02, **solid)
        builder.add_frame(f"elbow_{i}", body=f"arm_{i}", placement=(np.eye(3), (ARM, 0.0, 0.0)))
        builder.add_frame(f"wrist_{i}", body=carrier, placement=(np.eye(3), turn @ [PLATFORM, 0.0, 0.0]))
        builder.distance(f"elbow_{i}", f"wrist_{i}", length=ROD)
    builder.independent(*(f"arm_{i}_joint" for i in range(3)))
    return builder.build(near={"slide_z_joint": -0.7, **{f"arm_{i}_joint": 0.3 for i in range(3)}})


def main(picture: str | None = None) -> float:
    """Follow a circle for two turns; returns the largest error in the second one [m]."""
    robot = delta()
    q = robot.neutral()
    middle = robot.pose(q, "tool")[:3, 3]
    print(f"{robot.nq} joints, {robot.nv} degrees of freedom; the tool starts at {np.round(middle, 3)} m")

    def circle(time: float) -> control.Target:
        """Position, velocity and acceleration; the radius grows during the first quarter of a turn."""
        rate, grown = 2.0 * np.pi / PERIOD, control.minimum_jerk(np.zeros(1), np.ones(1), PERIOD / 2.0)(time)
        c, s = np.cos(rate * time), np.sin(rate * time)
        along, across = np.array([c, s, 0.0]), np.array([-s, c, 0.0])
        r, r1, r2 = (RADIUS * float(each[0]) for each in (grown.position, grown.velocity, grown.acceleration))
        return control.Target(
            middle + r * along,
            r1 * along + r * rate * across,
            (r2 - r * rate**2) * along + 2.0 * r1 * rate * across,
        )

    hold = control.OperationalSpace(robot, [control.Goal(kt.Task("tool", "position"), kp=400.0)])
    world = simulation.Simulator(robot, dt=5e-4)
    film = world.run(q, hold, {"tool": circle}, seconds=SECONDS, servo=1000.0)

    there = robot.pose(film.q, "tool")[:, :3, 3]
    wanted = np.array([circle(time).pose for time in film.time])
    error = np.linalg.norm(there - wanted, axis=1)
    open_ = max(loop.residual.max() for loop in robot.loops(film.q))
    print(f"farthest from the circle {1e3 * error.max():.3f} mm, in the second turn {1e3 * error[1000:].max():.3f} mm")
    print(f"loops are open by {open_:.0e} m; torques up to {np.abs(film.tau).max():.1f} N m")
    if picture:
        draw(picture, robot, film.q[-1], there, wanted)
    return float(error[1000:].max())


def draw(path: str, robot: kt.Model, q: np.ndarray, there: np.ndarray, wanted: np.ndarray) -> None:
    """The robot at the end, and the way of its tool."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0, 5.0))
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(projection="3d")
    at = {name: robot.pose(q, name)[:3, 3] for name in robot.frames}
    for i in range(3):
        points = np.array([at[f"arm_{i}"], at[f"elbow_{i}"], at[f"wrist_{i}"], at["tool"]])
        axes.plot(*points.T, "-o", color=f"C{i}", markersize=3)
    base = np.array([at[f"arm_{i % 3}"] for i in range(4)])
    axes.plot(*base.T, color="0.4")
    axes.plot(*wanted.T, "--", color="0.4", linewidth=0.8, label="circle")
    axes.plot(*there.T, color="k", linewidth=1.2, label="tool")
    axes.set(xlabel="x [m]", ylabel="y [m]", zlabel="z [m]")
    axes.set_aspect("equal")
    axes.legend(loc="upper right")
    figure.savefig(path, dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main(*sys.argv[1:2])
