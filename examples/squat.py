"""A humanoid on two feet squats and reaches for something: a quadratic programme with friction cones, in simulation.

Needs `pip install "kinetree[qp]"`. Run it with `python examples/squat.py`, or with the name of a picture:
`python examples/squat.py squat.png`.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt
from kinetree import control, simulation

SECONDS, SERVO = 1.5, 250.0  # [s], [Hz]
FEET, SOLE, FRICTION = ("left_foot", "right_foot"), (0.2, 0.1), 0.7
DOWN = np.array([0.0, 0.02, -0.08])  # of the centre of mass [m]
HAND = np.array([0.1, -0.05, -0.1])  # [m]


def standing(robot: kt.Model) -> np.ndarray:
    """Knees bent, soles on the ground."""
    bent = {"leg_3": -0.3, "leg_4": 0.6, "leg_5": -0.3}
    q = robot.q_from_dict({f"{side}_{name}_joint": a for side in ("left", "right") for name, a in bent.items()})
    q[2] -= robot.pose(q, FEET[0])[2, 3]
    return q


def main(picture: str | None = None) -> float:
    """Squat for a second and a half; returns how far the soles move [m]."""
    robot = kt.zoo.asimo35()
    q = standing(robot)
    feet = [control.Foot(foot, SOLE, FRICTION) for foot in FEET]
    balance = control.WholeBody(
        robot,
        [
            control.Goal(kt.CenterOfMassTask(), weight=10.0),
            control.Goal(kt.Task("right_hand", "position")),
            control.Goal(kt.Task("torso", "orientation")),
        ],
        posture=control.Posture(q, weight=1e-2),
        contacts=feet,
    )
    com, hand = robot.center_of_mass(q), robot.pose(q, "right_hand")[:3, 3]
    ways = {
        "center_of_mass": control.quintic(com, com + DOWN, 1.0),
        "right_hand": control.quintic(hand, hand + HAND, 1.0),
    }
    world = simulation.Simulator(
        robot, dt=1e-3, contacts=feet, ground=simulation.Plane(friction=FRICTION),
    )  # fmt: skip
    film = world.run(q, balance, ways, seconds=SECONDS, servo=SERVO)

    moved = robot.center_of_mass(film.q) - com
    soles = robot.pose(film.q, list(FEET))[..., :3, 3]
    slipped = float(np.linalg.norm(soles - soles[0], axis=-1).max())
    commands = [command for command in film.commands if isinstance(command, control.WholeBodyCommand)]
    floor = np.array([sum(f[:, 2].sum() for f in command.contact_forces.values()) for command in commands])
    weight = 9.81 * sum(body.mass for body in robot.bodies)
    reached = robot.pose(film.q[-1], "right_hand")[:3, 3] - hand
    print(f"the centre of mass moves by {np.array2string(100 * moved[-1], precision=1)} cm of {100 * DOWN};")
    print(f"the hand by {np.array2string(100 * reached, precision=1)} cm of {100 * HAND};")
    print(f"the soles slip by {1e6 * slipped:.1f} µm")
    print(f"the floor carries {floor.min():.0f} to {floor.max():.0f} N of a robot that weighs {weight:.0f} N")
    if picture:
        draw(robot, picture, film, moved, floor, weight)
    return slipped


def draw(
    robot: kt.Model, file: str, film: simulation.Film, moved: np.ndarray, floor: np.ndarray, weight: float
) -> None:
    """The robot from the side before and after, its centre of mass, and the force of the floor."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    side, mass, force = figure.subplots(1, 3)
    parents = {joint.child: joint.parent for joint in robot.joints if joint.parent != "world"}
    for i, color in ((0, "0.7"), (-1, "C0")):
        names = list({*parents, *parents.values()})
        at = dict(zip(names, robot.pose(film.q[i], names)[:, :3, 3], strict=True))
        for child, parent in parents.items():
            side.plot(*zip(at[parent][[0, 2]], at[child][[0, 2]], strict=True), color=color, linewidth=2)
    side.axhline(0.0, color="k", linewidth=0.5)
    side.set(xlabel="x [m]", ylabel="z [m]", title="before and after", aspect="equal")
    mass.plot(film.time, 100.0 * moved, label=["x", "y", "z"])
    mass.set(xlabel="time [s]", ylabel="[cm]", title="centre of mass")
    mass.legend(fontsize=8)
    force.plot(film.time[: len(floor)], floor, label="planned")
    force.axhline(weight, color="k", linewidth=0.5, label="weight")
    force.set(xlabel="time [s]", ylabel="[N]", title="the floor carries")
    force.legend(fontsize=8)
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
