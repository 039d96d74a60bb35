"""One arm reaches for a board and draws on it: a controller, a path and a simulator, in a few lines.

Run it with `python examples/draw.py`, or `python examples/draw.py draw.png` for a picture.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt
from kinetree import control, simulation

REACH, SECONDS, SERVO = 1.0, 4.0, 500.0  # [s], [s], [Hz]


def figure_eight(t: np.ndarray | float) -> control.State:
    """Position, velocity and acceleration of the pen on the board, about its centre."""
    w = 2.0 * np.pi / SECONDS
    zero = np.zeros_like(np.asarray(t, dtype=float))
    return control.State(
        np.stack([zero, 0.15 * np.sin(w * t), 0.1 * np.sin(2 * w * t)], axis=-1),
        np.stack([zero, 0.15 * w * np.cos(w * t), 0.2 * w * np.cos(2 * w * t)], axis=-1),
        np.stack([zero, -0.15 * w**2 * np.sin(w * t), -0.4 * w**2 * np.sin(2 * w * t)], axis=-1),
    )


def main(picture: str | None = None) -> float:
    """Reach for a second, then draw; returns the largest distance from the line on the board [m]."""
    robot = kt.zoo.arm7()
    q = np.array([0.0, 0.6, 0.0, 1.3, 0.0, 0.9, 0.0])
    start = robot.pose(q, "hand")[:3, 3]
    center = start + np.array([0.1, 0.0, -0.1])
    drawer = control.OperationalSpace(
        robot, [control.Goal(kt.Task("hand", "position"), kp=400.0, name="pen")], posture=control.Posture(q, kp=25.0)
    )
    # the first stroke is at full speed: arrive with it
    approach = control.quintic(start, center, REACH, end_velocity=figure_eight(0.0).velocity)

    def pen(t: float) -> control.State:
        if t < REACH:
            return approach(t)
        on_board = figure_eight(t - REACH)
        return on_board._replace(position=center + on_board.position)

    world = simulation.Simulator(robot, dt=1e-3)
    film = world.run(q, drawer, {"pen": pen}, seconds=REACH + SECONDS, servo=SERVO)
    drawn = robot.pose(film.q, "hand")[:, :3, 3]
    wanted = np.array([pen(t).position for t in film.time])
    away = np.linalg.norm(drawn - wanted, axis=1)
    print(f"reached in {REACH:.0f} s, within {1e3 * away[film.time <= REACH].max():.2f} mm of the way there;")
    print(f"drawn within {1e3 * away[film.time > REACH].max():.2f} mm at {SERVO:.0f} commands per second")
    if picture:
        draw(robot, picture, film, drawn, wanted)
    return float(away.max())


def draw(robot: kt.Model, file: str, film: simulation.Film, drawn: np.ndarray, wanted: np.ndarray) -> None:
    """The arm while it draws, the line on the board, and the torques."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    side, board, torques = figure.subplots(1, 3)
    links = [*(f"link{i}" for i in range(7)), "hand"]
    for share, shade in ((0.0, "0.7"), (0.2, "0.4"), (0.45, "C0"), (1.0, "C1")):
        i = int(share * (len(film.time) - 1))
        at = robot.pose(film.q[i], links)[:, :3, 3]
        side.plot(at[:, 0], at[:, 2], "o-", color=shade, label=f"{film.time[i]:.1f} s")
    side.set(xlabel="x [m]", ylabel="z [m]", title="the arm from the side", aspect="equal")
    side.legend(fontsize=8)
    on = film.time >= REACH
    board.plot(drawn[on, 1], drawn[on, 2], linewidth=3, label="drawn")
    board.plot(wanted[on, 1], wanted[on, 2], "k--", linewidth=1, label="wanted")
    board.set(xlabel="y [m]", ylabel="z [m]", title="the board", aspect="equal")
    board.legend(fontsize=8)
    torques.plot(film.time, film.tau)
    torques.set(xlabel="time [s]", ylabel="torque [N m]", title="torques")
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
