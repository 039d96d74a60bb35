"""Two arms, one box: they hold it from both sides, press on it, and carry it along a path that also turns it.

Run it with `python examples/two_arms.py`, or `python examples/two_arms.py two_arms.png` for a picture.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt
from kinetree import control, simulation

SECONDS, SERVO = 2.0, 300.0  # [s], [Hz]
SIZE, MASS, SQUEEZE = (0.2, 0.3, 0.2), 3.0, 25.0  # [m, kg, N]
SIDES = {"left": 0.35, "right": -0.35}
HANDS = [f"{side}_hand" for side in SIDES]


def arms() -> kt.Model:
    """Two arms side by side on a stand."""
    builder = kt.Builder("two_arms")
    builder.add_body("stand", joint="fixed", mass=20.0)
    robot = builder.build()
    for side, y in SIDES.items():
        robot = robot.attach("stand", kt.zoo.arm7(), (np.eye(3), (0.0, y, 0.0)), prefix=f"{side}_")
    return robot


def beside(center: np.ndarray, sign: float) -> np.ndarray:
    """Pose of a hand that presses on a side of the box: its z axis points at the centre."""
    grip = np.eye(4)
    grip[:3, :3] = [[1.0, 0.0, 0.0], [0.0, 0.0, -sign], [0.0, sign, 0.0]]
    grip[:3, 3] = center + np.array([0.0, sign * SIZE[1] / 2, 0.0])
    return grip


def main(picture: str | None = None) -> float:
    """Carry the box for two seconds; returns its largest distance from the path [m]."""
    robot = arms()
    # elbows out; the hands come to rest at both sides of the box
    center = np.array([0.45, 0.0, 0.45])
    grips = {hand: beside(center, sign) for hand, sign in zip(HANDS, (1.0, -1.0), strict=True)}
    bent = np.tile([0.3, 0.7, 0.0, 1.3, 0.0, 0.9, 0.0], 2)
    q, report = control.inverse_kinematics(robot, grips, start=bent)
    print(f"grasp found: {bool(report.success)}, error {1e6 * float(report.error):.1f} µm")

    scene = robot.attach("world", kt.zoo.box(SIZE, MASS))
    start = np.concatenate([q, center, [1.0, 0.0, 0.0, 0.0]])
    held = [kt.Weld(hand, "box") for hand in HANDS]
    carry = control.OperationalSpace(
        scene, [control.Goal("box", kp=100.0)], posture=control.Posture(start, kp=25.0), constraints=held,
        squeeze={"box": SQUEEZE},
    )  # fmt: skip
    goal = control.exp([0.0, 0.0, 0.3, 0.0, 0.0, 0.0])
    goal[:3, 3] = center + np.array([0.05, 0.1, 0.1])
    way = control.pose_path(scene.pose(start, "box"), goal, SECONDS)
    world = simulation.Simulator(scene, constraints=held, at=start, dt=1e-3)
    film = world.run(start, carry, {"box": way}, seconds=SECONDS, servo=SERVO)

    box = scene.pose(film.q, "box")
    wanted = np.array([way(t).pose for t in film.time])
    away = np.linalg.norm(box[:, :3, 3] - wanted[:, :3, 3], axis=1)
    pressed = np.array([np.linalg.norm(film.constraint_forces[hand][:, 3:], axis=1) for hand in HANDS])
    weight = scene.bodies[-1].mass * 9.81
    print(f"the box stays within {1e3 * away.max():.3f} mm of its path and ends {1e3 * away[-1]:.4f} mm from its end;")
    print(f"each hand holds it with {pressed.min():.1f} to {pressed.max():.1f} N: it presses with {SQUEEZE:.0f} N,")
    print(f"and carries half of {weight:.0f} N")
    if picture:
        draw(scene, picture, film, away, pressed)
    return float(away.max())


def draw(scene: kt.Model, file: str, film: simulation.Film, away: np.ndarray, pressed: np.ndarray) -> None:
    """Both arms from above at the start and at the end, the box's error, and the grasp forces."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    above, error, force = figure.subplots(1, 3)
    corners = np.array([[x, y, 0.0, 1.0] for x, y in ((1, 1), (1, -1), (-1, -1), (-1, 1), (1, 1))])
    corners[:, :3] *= np.array(SIZE) / 2.0
    for i, style in ((0, "--"), (-1, "-")):
        for side, color in zip(SIDES, ("C0", "C1"), strict=True):
            at = scene.pose(film.q[i], [*(f"{side}_link{k}" for k in range(7)), f"{side}_hand"])[:, :3, 3]
            above.plot(at[:, 0], at[:, 1], "o" + style, color=color, markersize=3)
        edges = corners @ scene.pose(film.q[i], "box").T
        above.plot(edges[:, 0], edges[:, 1], style, color="C5")
    above.set(xlabel="x [m]", ylabel="y [m]", title="from above, before (dashed) and after", aspect="equal")
    error.plot(film.time, 1e3 * away)
    error.set(xlabel="time [s]", ylabel="distance from the path [mm]", title="the box")
    for hand, values in zip(HANDS, pressed, strict=True):
        force.plot(film.time, values, label=hand)
    force.set(xlabel="time [s]", ylabel="force [N]", title="at the grasps")
    force.legend(fontsize=8)
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
