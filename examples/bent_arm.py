"""An arm of two flexible links swings: snapshots of its shape, and the energy that it keeps.

Both links bend in the plane of motion, in three modes each; the second is clamped to the tip of the first, at a right
angle. Released from the horizontal, the arm swings under its own weight. Nothing dissipates energy, and the simulation
keeps it.

Run it with `python examples/bent_arm.py`, or `python examples/bent_arm.py bent_arm.png` for a picture.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt

LENGTH, EI, RHO_A, LOAD = 1.0, 40.0, 0.6, 0.3  # [m], [N m²], [kg/m], [kg]
SECONDS, STEP = 1.5, 2e-4  # [s]
STATIONS = {f"s{i}": LENGTH * i / 8 for i in range(9)}


def arm() -> kt.Model:
    """A beam behind a hinge about y, another one clamped to its tip, and a load at the end."""
    beam = kt.Beam(LENGTH, EI, RHO_A, modes=3, planes="z", stations=STATIONS)
    right_angle = np.array([[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])  # from x to upwards
    builder = kt.Builder("bent arm").add_flexible("upper", beam, joint="revolute", axis=(0, 1, 0))
    builder.add_flexible("lower", beam, parent="upper/tip", placement=(right_angle, (0.0, 0.0, 0.0)))
    return builder.add_body("load", parent="lower/tip", joint="fixed", mass=LOAD, inertia=1e-4 * np.eye(3)).build()


def main(picture: str | None = None) -> float:
    """Let it swing; returns the largest relative change of its energy."""
    robot = arm()
    q, v, tau = robot.neutral(), np.zeros(robot.nv), np.zeros(robot.nv)
    film = [(q, v)]
    for _ in range(round(SECONDS / STEP)):
        q, v = robot.step(q, v, tau, STEP, "rk4")
        film.append((q, v))
    states = np.array([q for q, _ in film]), np.array([v for _, v in film])
    kinetic, potential = robot.energy(*states)
    change = float(np.abs(kinetic + potential - kinetic[0] - potential[0]).max() / kinetic.max())
    bends = [1e3 * np.abs(sideways(robot, states[0], name)).max() for name in ("upper", "lower")]
    print(f"the links bend by up to {bends[0]:.0f} and {bends[1]:.0f} mm")
    print(f"energy is kept to {change:.0e} of the largest kinetic energy")
    if picture:
        draw(robot, states[0], kinetic, potential, picture)
    return change


def sideways(robot: kt.Model, q: np.ndarray, link: str) -> np.ndarray:
    """Deflection of a link's tip, in the axes of its root [m]."""
    root, tip = np.moveaxis(robot.pose(q, [f"{link}/root", f"{link}/tip"]), 1, 0)
    return ((tip - root)[:, :3, 3] * root[:, :3, 2]).sum(axis=-1)


def draw(robot: kt.Model, q: np.ndarray, kinetic: np.ndarray, potential: np.ndarray, file: str) -> None:
    """Snapshots of the arm, and its energies."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    shots = np.arange(0, len(q), round(0.1 / STEP))
    for i in shots:
        shade = plt.cm.viridis(i / len(q))
        for name in ("upper", "lower"):
            line = robot.pose(q[i], [f"{name}/{station}" for station in STATIONS])[:, :3, 3]
            left.plot(line[:, 0], line[:, 2], color=shade, lw=2)
        left.plot(line[-1, 0], line[-1, 2], "o", color=shade, ms=6)
    left.plot(0, 0, "k^", ms=9)
    left.set(xlabel="x [m]", ylabel="z [m]", title="every 0.1 s", aspect="equal")
    time = STEP * np.arange(len(q))
    right.plot(time, kinetic, label="kinetic")
    right.plot(time, potential - potential[0], label="potential, of weight and bending")
    right.plot(time, kinetic + potential - potential[0], "k", lw=1, label="sum")
    right.set(xlabel="time [s]", ylabel="energy [J]", title="energy")
    right.legend(fontsize=8)
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
