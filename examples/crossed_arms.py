"""Two arms trade the places of their hands, and avoid each other on the way.

The same controller drives both, once as if nothing were there, when links pass 4 cm through each other, and once with
`avoid=`, when they slide past each other at 3 cm. Try `APART = 0.05`, or a `geo.Sphere` in a scene between them.

Needs `pip install "kinetree[qp]"`. Run it with `python examples/crossed_arms.py`, `python examples/crossed_arms.py
crossed_arms.png` for a picture, or `python examples/crossed_arms.py crossed_arms.html` for a film, which needs the
extra `viewer`.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt
from kinetree import control
from kinetree import geometry as geo

SECONDS, DT, APART = 5.0, 0.02, 0.03  # [s], [s], [m]
SIDES = {"left": 0.25, "right": -0.25}
HANDS = [f"{side}_hand" for side in SIDES]


def arms() -> kt.Model:
    """Two arms side by side on a stand, with a capsule along each link."""
    builder = kt.Builder("two_arms")
    builder.add_body("stand", joint="fixed", mass=20.0)
    robot = builder.build()
    for side, y in SIDES.items():
        robot = robot.attach("stand", kt.zoo.arm7(), (np.eye(3), (0.0, y, 0.0)), prefix=f"{side}_")
    links = [f"{side}_link{i}" for side in SIDES for i in range(7)]
    return robot.with_shapes([geo.Capsule(link, (0, 0, 0.05), (0, 0, 0.15), radius=0.045) for link in links])


def followed(robot: kt.Model, q: np.ndarray, targets: dict[str, np.ndarray], avoid: control.Avoid | None) -> np.ndarray:
    """Configurations on the way of the hands to their targets."""
    goals = [control.Goal(kt.Task(hand, "position")) for hand in HANDS]
    ik = control.DifferentialIK(robot, goals, posture=q, posture_weight=1e-3, gain=0.03, damping=1e-3, avoid=avoid)
    film = [q]
    for _ in range(round(SECONDS / DT)):
        film.append(robot.integrate(film[-1], ik(film[-1], targets, DT), DT))
    return np.array(film)


def main(file: str | None = None) -> float:
    """Trade places; returns the larger of the hands' final errors and of what lacks to the distance [m]."""
    robot = arms()
    pairs = robot.collision_pairs()
    avoid = control.Avoid(pairs, distance=APART)
    start = np.tile([0.0, 0.6, 0.0, 1.2, 0.0, 0.9, 0.0], 2)
    left, right = robot.pose(start, HANDS)[:, :3, 3]
    lift = np.array([0.0, 0.0, 0.12])
    targets = {HANDS[0]: right + lift, HANDS[1]: left - lift}
    _, report = control.inverse_kinematics(robot, targets, start=start, avoid=avoid)
    print(f"crossed arms found: {bool(report.success)}, {1e3 * float(report.clearance):.0f} mm apart")

    least, ends = {}, {}
    for name, given in (("without avoidance", None), ("with avoidance", avoid)):
        film = followed(robot, start, targets, given)
        hands = robot.pose(film, HANDS)[..., :3, 3]
        off = max(float(np.linalg.norm(hands[-1, i] - targets[hand])) for i, hand in enumerate(HANDS))
        least[name], ends[name] = robot.clearance(film, pairs), (film, off)
        print(
            f"{name}: {1e3 * least[name].min():.1f} mm at the closest, hands end {1e3 * off:.2f} mm from their targets"
        )
    if file and file.endswith((".html", ".mp4")):
        film = ends["with avoidance"][0]
        near = robot.distances(film, pairs).nearest(3)
        kt.viewer.film(file, robot, film, DT * np.arange(len(film)), distances=near, shapes=True)
    elif file:
        draw(robot, file, ends["with avoidance"][0], least)
    return max(ends["with avoidance"][1], APART - float(least["with avoidance"].min()))


def draw(robot: kt.Model, file: str, film: np.ndarray, least: dict[str, np.ndarray]) -> None:
    """Both arms from the front at the start, on the way and at the end, and the smallest distance over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3), layout="constrained")
    *fronts, over = figure.subplots(1, 4)
    for axes, i in zip(fronts, (0, len(film) // 6, -1), strict=True):
        for side, color in zip(SIDES, ("C0", "C1"), strict=True):
            at = robot.pose(film[i], [*(f"{side}_link{k}" for k in range(7)), f"{side}_hand"])[:, :3, 3]
            axes.plot(at[:, 1], at[:, 2], "o-", color=color, linewidth=8, alpha=0.6, solid_capstyle="round")
        axes.set(xlabel="y [m]", ylabel="z [m]", title=f"{DT * (i % len(film)):.1f} s", xlim=(-0.6, 0.6), ylim=(0, 0.7))
        axes.set_aspect("equal")
    for name, values in least.items():
        over.plot(DT * np.arange(len(values)), 1e3 * values, label=name)
    over.axhline(1e3 * APART, color="0.5", linestyle=":")
    over.set(xlabel="time [s]", ylabel="smallest distance [mm]", title="between the arms")
    over.legend(fontsize=8)
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:2])
