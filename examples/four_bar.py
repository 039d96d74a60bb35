"""A crank turns, a rocker swings: a closed loop simulated without drift, and the curve that its coupler draws.

The loop is part of the model: `q` holds all three angles, `v` only the speed of the crank. Forward dynamics needs
neither multipliers nor stabilisation, and `integrate` keeps the loop closed to rounding.

Run it with `python examples/four_bar.py`, or `python examples/four_bar.py four_bar.png` for a picture.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt

SECONDS, STEP = 4.0, 2e-3  # [s]
CRANK, COUPLER, ROCKER, GROUND = 0.3, 0.9, 0.7, 1.0  # [m]


def linkage() -> kt.Model:
    """Three bars in a vertical plane; the coupler's pin sits on the rocker."""
    builder = kt.Builder("four-bar", gravity=(0.0, -9.81, 0.0))
    for name, parent, x, length in (
        ("crank", "world", 0.0, CRANK),
        ("coupler", "crank", CRANK, COUPLER),
        ("rocker", "world", GROUND, ROCKER),
    ):
        inertia = length**2 / 12.0 * np.diag([1e-3, 1.0, 1.0])
        at, com = (np.eye(3), (x, 0.0, 0.0)), (length / 2.0, 0.0, 0.0)
        builder.add_body(name, parent=parent, placement=at, mass=length, com=com, inertia=length * inertia)
    builder.add_frame("end of coupler", body="coupler", placement=(np.eye(3), (COUPLER, 0.0, 0.0)))
    builder.add_frame("end of rocker", body="rocker", placement=(np.eye(3), (ROCKER, 0.0, 0.0)))
    builder.add_frame("pen", body="coupler", placement=(np.eye(3), (COUPLER / 2.0, 0.35, 0.0)))
    builder.connect("end of coupler", "end of rocker").independent("crank_joint")
    return builder.build(near={"crank_joint": 0.8, "coupler_joint": -0.2, "rocker_joint": 1.6})


def simulate(robot: kt.Model, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Configurations and velocities under gravity alone, by the midpoint rule."""
    tau = np.zeros(robot.nv)
    motion = [(q, v)]
    for _ in range(round(SECONDS / STEP)):
        half = v + STEP / 2.0 * robot.forward_dynamics(q, v, tau)
        middle = robot.integrate(q, half, STEP / 2.0)
        v = v + STEP * robot.forward_dynamics(middle, half, tau)
        q = robot.integrate(q, half, STEP)
        motion.append((q, v))
    return np.array([each[0] for each in motion]), np.array([each[1] for each in motion])


def main(picture: str | None = None) -> float:
    """Swing; returns the largest relative change of energy."""
    robot = linkage()
    q, v = simulate(robot, robot.neutral(), np.array([6.0]))
    energy = sum(robot.energy(q, v))
    (loop,) = robot.loops(q)
    change = float(np.max(np.abs(energy - energy[0])) / energy[0])
    print(f"{robot.nq} joint angles, {robot.nv} degree of freedom, {len(q)} steps of {STEP * 1e3:g} ms")
    print(f"  crank    {(q[-1, 0] - q[0, 0]) / (2 * np.pi):.2f} turns")
    print(f"  loop     open by at most {loop.residual.max():.0e} m; condition {loop.condition.max():.1f} at worst")
    print(f"  branches {sorted(set(loop.branch.tolist()))}, energy changes by {change:.0e}")
    torque = robot.inverse_dynamics(q, v, np.zeros_like(v))[:, 0]
    print(f"  torque that would keep the speed of the crank constant: {torque.min():.1f} … {torque.max():.1f} N m")
    if picture:
        draw(picture, robot, q, torque)
    return change


def draw(file: str, robot: kt.Model, q: np.ndarray, torque: np.ndarray) -> None:
    """The linkage with the curve of its pen, and the torque along it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    plane, along = figure.subplots(1, 2)
    pen = robot.pose(q, "pen")[:, :2, 3]
    plane.plot(*pen.T, color="C3", linewidth=1, label="pen")
    for sample, alpha in ((0, 1.0), (len(q) // 5, 0.3)):
        names = ("crank", "coupler", "end of coupler", "rocker")
        places = robot.pose(q[sample], names)[:, :2, 3]
        plane.plot(*places.T, "o-", color="C0", alpha=alpha, linewidth=3)
        (x, y), (u, w) = places[1], places[2]
        tip = pen[sample]
        plane.fill([x, u, tip[0]], [y, w, tip[1]], color="C0", alpha=0.2 * alpha)
    plane.plot([0, GROUND], [0, 0], "k^", markersize=10)
    plane.set_aspect("equal")
    plane.set_xlabel("x [m]")
    plane.set_ylabel("y [m]")
    plane.legend(loc="lower center", fontsize=8)
    along.plot(np.mod(q[:, 0], 2 * np.pi), torque, ".", markersize=2)
    along.set_xlabel("angle of the crank [rad]")
    along.set_ylabel("torque at constant speed [N m]")
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
