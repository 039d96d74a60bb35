"""What is the arm holding? Mass, centre and inertia of a payload, from joint torques measured along a trajectory.

Inverse dynamics is linear in inertial parameters. `regressor` gives the torques per unit of each, so that least squares
finds them.

Run it with `python examples/payload.py`, or `python examples/payload.py payload.png` for a picture.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt

SECONDS, RATE, NOISE = 10.0, 100.0, 0.1  # [s], [Hz], [N m]
MASS, CENTRE = 1.7, np.array([0.02, -0.03, 0.08])  # [kg], in the flange [m]
INERTIA = np.diag([0.010, 0.012, 0.008])  # about the centre [kg m²]


def arm() -> kt.Model:
    """Six revolute joints with crossing axes, a flange at the end."""
    builder = kt.Builder("arm")
    parent, length = "world", 0.0
    for i, axis in enumerate(((0, 0, 1), (0, 1, 0), (0, 1, 0), (0, 0, 1), (0, 1, 0), (0, 0, 1))):
        builder.add_body(
            f"link{i}",
            parent=parent,
            placement=(np.eye(3), (0.0, 0.0, length)),
            axis=axis,
            mass=5.0 - 0.7 * i,
            com=(0.0, 0.0, 0.1),
            inertia=np.diag([0.02, 0.02, 0.005]),
        )
        parent, length = f"link{i}", 0.2
    builder.add_frame("flange", body=parent, placement=(np.eye(3), (0.0, 0.0, 0.05)))
    return builder.build()


def trajectory(robot: kt.Model) -> tuple[np.ndarray, ...]:
    """Times, and q, v, a of two sines for each joint, with speeds that do not repeat."""
    t = np.arange(0.0, SECONDS, 1.0 / RATE)[:, None]
    q, v, a = (np.zeros((len(t), robot.nv)) for _ in range(3))
    for size, speed in ((0.5, 1.1 + 0.37 * np.arange(robot.nv)), (0.2, 3.3 + 0.61 * np.arange(robot.nv))):
        q += size * np.sin(speed * t)
        v += size * speed * np.cos(speed * t)
        a -= size * speed**2 * np.sin(speed * t)
    return t[:, 0], q, v, a


def identify(Y: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """The ten parameters that explain torques best: mass, first moment, inertia about the flange's origin."""
    return np.linalg.lstsq(Y.reshape(-1, 10), missing.reshape(-1), rcond=None)[0]


def main(picture: str | None = None) -> float:
    """Find the payload; returns the relative error of its mass."""
    robot = arm()
    held = robot.with_payload("flange", MASS, CENTRE, INERTIA)  # what is really there
    t, q, v, a = trajectory(robot)
    noise = np.random.default_rng(0).normal(0.0, NOISE, v.shape)
    measured = held.inverse_dynamics(q, v, a) + noise

    empty = robot.inverse_dynamics(q, v, a)
    Y = robot.regressor(q, v, a, ["flange"])[:, :, 0]  # (samples, nv, 10)
    found = identify(Y, measured - empty)
    mass, centre = found[0], found[1:4] / found[0]
    about = np.empty((3, 3))
    about[np.triu_indices(3)] = found[4:]
    about = np.triu(about) + np.triu(about, 1).T
    inertia = about - mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    print(f"{len(t)} samples of {robot.nv} torques with noise of {NOISE} N m")
    print(f"  mass     {mass:.4f} kg, really {MASS}")
    print(f"  centre   {np.array2string(centre * 1e3, precision=1)} mm, really {CENTRE * 1e3}")
    print(f"  inertia  {np.array2string(np.diag(inertia), precision=4)} kg m², really {np.diag(INERTIA)}")
    left = measured - empty - Y @ found
    print(f"  torques left unexplained: {np.std(measured - empty):.3f} N m before, {np.std(left):.3f} after")
    if picture:
        draw(picture, t, measured, {"empty hand": empty, "with what was found": empty + Y @ found}, Y, measured - empty)
    return float(abs(mass - MASS) / MASS)


def draw(
    file: str, t: np.ndarray, measured: np.ndarray, models: dict[str, np.ndarray], Y: np.ndarray, missing: np.ndarray
) -> None:
    """The torque of one joint, measured and explained; how the estimate settles."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.6), layout="constrained")
    torque, settling = figure.subplots(1, 2)
    torque.plot(t, measured[:, 1], ".", color="0.7", markersize=3, label="measured")
    for colour, (label, values) in zip(("C3", "C0"), models.items()):
        torque.plot(t, values[:, 1], color=colour, label=label)
    torque.set_xlabel("time [s]")
    torque.set_ylabel("torque of the second joint [N m]")
    torque.legend(fontsize=8)
    sizes = np.unique(np.geomspace(10, len(t), 25).astype(int))
    found = np.array([identify(Y[:n], missing[:n]) for n in sizes])
    settling.loglog(sizes / RATE, np.abs(found[:, 0] - MASS), "o-", label="mass [kg]")
    away = np.linalg.norm(found[:, 1:4] / found[:, :1] - CENTRE, axis=1)
    settling.loglog(sizes / RATE, away, "s-", label="centre [m]")
    settling.set_xlabel("seconds of trajectory used")
    settling.set_ylabel("error")
    settling.legend(fontsize=8)
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
