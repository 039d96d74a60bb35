"""Push a crate to a place: forces that make it slide, turn and stop there, found by gradients through contact.

A hand pushes a crate on three feet for 0.9 s, with two forces and a moment that change ten times; then friction brings
it to rest. `rollout.vjp` has the derivatives of where it stops with respect to all joint forces on the way, three
gradients in one batch, and the shortest change of the pushes that leads to the target follows from them.

A crate that rests has no such derivatives: below the limit of friction, a little more force moves nothing. So the first
guess pushes hard enough to make it slide. What comes after is for the derivatives to find.

Run it with `python examples/push_box.py`, or `python examples/push_box.py push_box.png` for a picture.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt
from kinetree import simulation

STEP, STEPS, PUSHED, PIECE = 1e-2, 150, 90, 9  # [s]; steps, of which some with a push, each push this many steps long
SIZE, MASS, FRICTION = (0.4, 0.3, 0.2), 5.0, 0.4  # [m], [kg]
FEET = [(0.18, 0.12, -0.1), (0.18, -0.12, -0.1), (-0.18, 0.0, -0.1)]
START = np.array([0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0])
TARGET = np.array([1.0, 0.5, 1.2])  # x, y [m] and heading [rad]
#: Pushes are a moment about the crate's z axis and forces along its x and y axes.
DRIVEN = (2, 3, 4)
LEVER = 0.2  # what a radian is worth [m]


def joint_forces(pushes: np.ndarray) -> np.ndarray:
    """Joint forces of all steps, (STEPS, 6), from pushes, (PUSHED / PIECE, 3)."""
    taus = np.zeros((STEPS, 6))
    taus[:PUSHED, DRIVEN] = np.repeat(pushes, PIECE, axis=0)
    return taus


def place(q: np.ndarray) -> np.ndarray:
    """x, y, and the heading times a lever [m], less the target."""
    heading = 2.0 * np.arctan2(q[..., 6], q[..., 3])
    return np.stack([q[..., 0] - TARGET[0], q[..., 1] - TARGET[1], LEVER * (heading - TARGET[2])], axis=-1)


def main(picture: str | None = None) -> float:
    """Push it there; returns how far it is from the target [m]."""
    crate = kt.zoo.box(SIZE, MASS)
    world = simulation.Simulator(
        crate, dt=STEP, contacts=[simulation.Points("box", FEET)], ground=simulation.Plane(friction=FRICTION)
    )
    pushes = np.tile([0.0, 1.1 * FRICTION * 9.81 * MASS, 0.0], (PUSHED // PIECE, 1))  # straight ahead, until it slides
    tries = []
    for i in range(12):
        taus = joint_forces(pushes)
        path = world.rollout(START, np.zeros(6), taus)
        off = place(path.q[-1])
        tries.append((pushes, path.q))
        print(f"  {i:2d}: {1e3 * np.linalg.norm(off[:2]):7.2f} mm and {abs(off[2] / LEVER):.4f} rad from the target")
        if np.linalg.norm(off) < 1e-6:
            break
        # three gradients at once: of x, y and heading at the end; a tangent is in the crate's axes
        weights = np.zeros((3, STEPS + 1, 6))
        weights[:2, -1, 3:] = crate.pose(path.q[-1], "box")[:2, :3]
        weights[2, -1, 2] = LEVER
        found = world.rollout.vjp(START, np.zeros(6), taus, weights, np.zeros_like(weights))
        slopes = found.tau[:, :PUSHED, DRIVEN].reshape(3, -1, PIECE, 3).sum(axis=2)  # of each push
        flat = slopes.reshape(3, -1)
        step = -flat.T @ np.linalg.solve(flat @ flat.T, off)  # the shortest change that leads there, if all were linear
        pushes = pushes + (step * min(1.0, 0.3 / np.linalg.norm(off))).reshape(pushes.shape)
    if picture:
        draw(picture, crate, tries)
    return float(np.linalg.norm(off))


def draw(file: str, crate: kt.Model, tries: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """The floor from above, first and last; and the pushes."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Polygon

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    floor, beside = figure.subplots(1, 2, width_ratios=(1.6, 1.0))
    corners = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)]) * np.array(SIZE[:2]) / 2.0

    def outline(q: np.ndarray, **style: object) -> None:
        T = crate.pose(q, "box")
        floor.add_patch(Polygon(corners @ T[:2, :2].T + T[:2, 3], closed=True, **style))

    for i, (_, path) in enumerate(tries[:-1]):
        floor.plot(*path[:, :2].T, color=str(max(0.3, 0.85 - 0.1 * i)), linewidth=1)
    pushes, path = tries[-1]
    floor.plot(*path[:, :2].T, "C0", linewidth=2.5)
    for share in (0.0, 0.25, 0.4, 0.55, 1.0):
        outline(path[round(share * STEPS)], facecolor="C0", alpha=0.12, edgecolor="C0")
    goal = np.array([*TARGET[:2], 0.1, np.cos(TARGET[2] / 2), 0.0, 0.0, np.sin(TARGET[2] / 2)])
    outline(goal, fill=False, edgecolor="C3", linewidth=2, linestyle="--")
    floor.annotate("target", TARGET[:2] + np.array([0.22, 0.08]), color="C3")
    way = {"arrowstyle": "-", "color": "0.45"}
    floor.annotate("first guess", tries[0][1][-1, :2], TARGET[:2] * (0.4, -0.2), color="0.45", arrowprops=way)
    floor.set(xlabel="x [m]", ylabel="y [m]", aspect="equal", xlim=(-0.3, 1.4), title="the floor from above")
    time = STEP * PIECE * np.arange(len(pushes) + 1)
    for label, values in (
        ("forward [N]", pushes[:, 1]),
        ("sideways [N]", pushes[:, 2]),
        ("moment [N m]", pushes[:, 0]),
    ):
        beside.stairs(values, time, baseline=None, label=label, linewidth=2)
    beside.axhline(FRICTION * 9.81 * MASS, color="0.6", linewidth=1, linestyle=":")
    beside.annotate("limit of friction", (0.02, FRICTION * 9.81 * MASS + 0.4), color="0.4", fontsize=8)
    beside.set(xlabel="time [s]", title="what the hand does")
    beside.legend(fontsize=8)
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
