"""How rough is the floor? Friction and throw of a crate, from a film of how it slid, turned and stopped.

A camera sees two marks on the crate from above, with errors of 2 mm. Friction μ and the velocity of the throw follow by
Gauss and Newton's method. It needs the derivatives of all positions on the way: `step.jvp` carries them from step to
step, through contacts that slide and then stick.

Run it with `python examples/friction_from_slide.py`; a file name, such as slide.png, adds a picture.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt
from kinetree import simulation

STEP, STEPS, EVERY = 5e-3, 180, 4  # [s]; steps, and steps from one picture of the film to the next
NOISE = 2e-3  # [m]
SIZE = (0.4, 0.3, 0.2)  # [m]
FEET = [(0.18, 0.12, -0.1), (0.18, -0.12, -0.1), (-0.18, 0.0, -0.1)]
MARKS = np.array([(0.2, 0.0, 0.1), (-0.2, 0.0, 0.1)])
FRICTION, THROW = 0.37, (2.6, 0.6, 3.5)  # what is to be found: μ, and forward, sideways [m/s], turning [rad/s]
START = np.array([0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0])
#: Which velocities are unknown: along x and y, and about z.
UNKNOWN = (3, 4, 2)


def world(friction: float) -> simulation.Simulator:
    """A crate of 5 kg on three feet."""
    crate = kt.zoo.box(SIZE, 5.0)
    feet = [simulation.Points("box", FEET)]
    return simulation.Simulator(crate, dt=STEP, contacts=feet, ground=simulation.Plane(friction=friction))


def slide(guess: np.ndarray, derivatives: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Configurations on the way, (STEPS + 1, 7), and derivatives of the marks with respect to the guess, (…, 4, 4)."""
    sim, v = world(guess[0]), np.zeros(6)
    v[list(UNKNOWN)] = guess[1:]
    if not derivatives:
        return sim.rollout(START, v, steps=STEPS).q, np.zeros(0)
    # the first direction is that of friction, the others those of the throw
    q, dq, dv, friction = START, np.zeros((4, 6)), np.zeros((4, 6)), np.eye(4)[:, :1]
    dv[[1, 2, 3], UNKNOWN] = 1.0
    path, slopes = [q], [np.zeros((4, 4))]
    for _ in range(STEPS):
        dq, dv = sim.step.jvp(np.tile(q, (4, 1)), np.tile(v, (4, 1)), None, dq, dv, friction=friction)
        q, v, _ = sim.step(q, v)
        path.append(q)
        # a tangent turns and moves the crate in its own axes
        R = sim.robot.pose(q, "box")[:2, :3]
        slopes.append(np.concatenate([R @ (dq[:, 3:] + np.cross(dq[:, :3], mark)).T for mark in MARKS]))
    return np.array(path), np.array(slopes)


def marks(path: np.ndarray) -> np.ndarray:
    """Where the camera sees both marks, (…, 2, 2)."""
    T = world(0.5).robot.pose(path, "box")
    return (T[..., None, :2, :3] @ MARKS[:, :, None])[..., 0] + T[..., None, :2, 3]


def main(picture: str | None = None) -> float:
    """Find friction; returns its error."""
    rng = np.random.default_rng(0)
    true, _ = slide(np.array([FRICTION, *THROW]))
    seen = marks(true[::EVERY]) + rng.normal(0.0, NOISE, (STEPS // EVERY + 1, 2, 2))
    guess, history = np.array([0.8, 1.5, 0.0, 0.0]), []
    print(f"{len(seen)} pictures of a crate, {1e3 * NOISE:.0f} mm of noise")
    for i in range(8):
        path, slopes = slide(guess, derivatives=True)
        away = (marks(path[::EVERY]) - seen).ravel()
        history.append(guess)
        print(f"  {i}: μ = {guess[0]:.4f}, thrown at {guess[1]:.3f} m/s; {1e3 * np.std(away):.2f} mm off")
        change = np.linalg.lstsq(slopes[::EVERY].reshape(-1, 4), -away, rcond=None)[0]
        guess = guess + change * min(1.0, 0.3 / abs(change[0]))  # no further than a derivative reaches
        guess[0] = max(guess[0], 0.05)
    print(f"found μ = {guess[0]:.4f}, really {FRICTION}; throw {guess[1:].round(3)}, really {np.array(THROW)}")
    if picture:
        draw(picture, seen, np.array(history))
    return float(abs(guess[0] - FRICTION))


def draw(file: str, seen: np.ndarray, history: np.ndarray) -> None:
    """The floor from above with all guesses, and how friction is found."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Polygon

    figure = Figure(figsize=(11, 4), layout="constrained")
    floor, found = figure.subplots(1, 2, width_ratios=(1.7, 1.0))
    robot, corners = world(0.5).robot, np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)]) * np.array(SIZE[:2]) / 2.0
    for i in (0, 1, 2, 3, -1):
        path, last = slide(history[i])[0], i < 0
        style = {"color": "C0" if last else str(0.8 - 0.12 * i), "linewidth": 2.5 if last else 1.2}
        for k, line in enumerate(np.moveaxis(marks(path), 1, 0)):
            floor.plot(*line.T, **style, label=f"μ = {history[i, 0]:.3f}" if k == 0 else None)
    for q in path[[0, STEPS // 5, 2 * STEPS // 5, -1]]:
        T = robot.pose(q, "box")
        outline = corners @ T[:2, :2].T + T[:2, 3]
        floor.add_patch(Polygon(outline, closed=True, facecolor="C0", alpha=0.12, edgecolor="C0"))
    floor.plot(*seen.reshape(-1, 2).T, "k.", markersize=4, label="marks seen", zorder=3)
    floor.set(xlabel="x [m]", ylabel="y [m]", aspect="equal", title="the floor from above")
    floor.legend(fontsize=8, loc="upper left")
    found.semilogy(np.abs(history[:, 0] - FRICTION), "o-", label="μ")
    found.semilogy(np.abs(history[:, 1] - THROW[0]), "s-", label="speed of the throw [m/s]")
    found.semilogy(np.abs(history[:, 3] - THROW[2]), "^-", label="turning [rad/s]")
    found.set(xlabel="iteration", ylabel="error", title="errors, down to what noise leaves")
    found.legend(fontsize=8)
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
