"""A leg learns to hop: the torques that lift it highest, by gradients through the contact of its foot.

A trunk of 3 kg on a vertical rail has a leg with hip and knee, a foot that may slip, and a stop that keeps the knee
from bending the wrong way. It starts crouched, with torques that hardly lift it off the ground. `rollout.vjp` has the
gradient of its greatest height with respect to the torques of all steps: through sticking and slipping, the stop of
the knee, the instant at which the foot leaves the ground, and the flight. Ascent along it, within the limits of both
motors, does the rest.

Run it with `python examples/hopping_leg.py`, or `python examples/hopping_leg.py hop.png` for a picture.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt
from kinetree import simulation

STEP, STEPS, PUSHED, PIECE = 2e-3, 240, 120, 12  # [s]; steps, of which some with torques, in pieces of so many
THIGH, SHANK = 0.25, 0.25  # [m]
LIMITS = np.array([12.0, 25.0])  # of hip and knee [N m]
ROUNDS = 25


def leg() -> kt.Model:
    """A trunk on a rail, a thigh and a shank."""
    builder = kt.Builder("leg").add_body("trunk", joint="prismatic", axis=(0, 0, 1), mass=3.0)
    limb = {"axis": (0, 1, 0), "mass": 0.4, "com": (0, 0, -THIGH / 2), "inertia": np.diag([2e-3, 2e-3, 1e-4])}
    builder.add_body("thigh", parent="trunk", limits=kt.Limits(-2.0, 2.0), **limb)
    builder.add_body(
        "shank", parent="thigh", placement=(np.eye(3), (0, 0, -THIGH)), limits=kt.Limits(-2.6, -0.2), **limb
    )
    builder.add_frame("foot", body="shank", placement=(np.eye(3), (0, 0, -SHANK)))
    return builder.build()


def main(picture: str | None = None) -> float:
    """Learn to hop; returns by how much the hop stays below 0.7 m [m]."""
    robot = leg()
    world = simulation.Simulator(
        robot, dt=STEP, contacts=[simulation.Points("foot", np.zeros(3))], ground=simulation.Plane(friction=0.8),
        limits=True, damping=[0.0, 0.05, 0.05],
    )  # fmt: skip
    crouch = np.array([0.0, 0.9, -1.8])
    crouch[0] = -robot.pose(crouch, "foot")[2, 3]  # the foot is on the ground
    still = np.zeros(3)
    weight = robot.gravity_forces(crouch) - robot.jacobian(crouch, "foot", "world")[5] * robot.mass * 9.81
    torques = np.tile(1.25 * weight[1:], (PUSHED // PIECE, 1))  # a little more than what bears its weight

    def hop(torques: np.ndarray) -> tuple[float, int, simulation.Rollout, np.ndarray]:
        taus = np.zeros((STEPS, 3))
        taus[:PUSHED, 1:] = np.repeat(torques, PIECE, axis=0)
        path = world.rollout(crouch, still, taus)
        top = int(path.q[:, 0].argmax())
        return float(path.q[top, 0] - crouch[0]), top, path, taus

    height, top, path, taus = hop(torques)
    tries, size = [(height, path, taus)], 4.0  # [N m]
    for _ in range(ROUNDS):
        # at the top nothing depends on when it is, so that the weight is that of one state
        weights = np.zeros((STEPS + 1, 3))
        weights[top, 0] = 1.0
        found = world.rollout.vjp(crouch, still, taus, weights, np.zeros_like(weights))
        slopes = found.tau[:PUSHED, 1:].reshape(-1, PIECE, 2).sum(axis=1)
        while size > 1e-2:  # shorter steps, until one leads up
            ahead = np.clip(torques + size * slopes / np.abs(slopes).max(), -LIMITS, LIMITS)
            higher, *rest = hop(ahead)
            if higher > height:
                height, torques, (top, path, taus), size = higher, ahead, rest, 1.5 * size
                break
            size *= 0.5
        tries.append((height, path, taus))
    print(f"a leg of {robot.mass:.1f} kg, motors of {LIMITS[0]:.0f} and {LIMITS[1]:.0f} N m")
    print(f"  rises by {tries[0][0]:.3f} m at first, by {height:.3f} m after {ROUNDS} gradients")
    if picture:
        draw(picture, robot, tries)
    return max(0.0, 0.7 - height)


def draw(file: str, robot: kt.Model, tries: list[tuple[float, simulation.Rollout, np.ndarray]]) -> None:
    """The last hop from the side; heights of some; the torques of the last."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    side, heights, torques = figure.subplots(1, 3, width_ratios=(1.5, 1.0, 1.0))
    _, path, taus = tries[-1]
    for i, step in enumerate((0, 40, 80, 110, 150, 230)):
        colour = colormaps["viridis"](i / 6.5)
        at = robot.pose(path.q[step], ["trunk", "shank", "foot"])[:, [0, 2], 3] + (0.35 * i, 0.0)
        side.plot(*at.T, "o-", color=colour, linewidth=3, markersize=5)
        side.plot(*at[0], "s", color=colour, markersize=16)
        side.annotate(f"{step * STEP:.2f} s", (0.35 * i, at[0, 1] + 0.07), ha="center", fontsize=8)
    side.axhline(0.0, color="0.4")
    side.set(xlabel="side by side, 0.35 m apart", ylabel="z [m]", aspect="equal", title="the last hop", xticks=[])
    side.set_ylim(-0.05, 1.25)
    time = STEP * np.arange(STEPS + 1)
    for number, colour in ((0, "0.75"), (2, "0.55"), (3, "0.35"), (len(tries) - 1, "C0")):
        heights.plot(time, tries[number][1].q[:, 0], color=colour, label=f"after {number} gradients")
    heights.set(xlabel="time [s]", ylabel="height of the trunk [m]", title="higher and higher")
    heights.legend(fontsize=8)
    for joint, name in enumerate(("hip", "knee")):
        torques.plot(time[:-1], taus[:, 1 + joint], drawstyle="steps-post", color=f"C{joint}", label=name)
        for sign in (-1.0, 1.0):
            torques.axhline(sign * LIMITS[joint], color=f"C{joint}", linewidth=0.8, linestyle=":")
    torques.set(xlabel="time [s]", ylabel="torque [N m]", title="torques, and their limits")
    torques.legend(fontsize=8)
    figure.get_layout_engine().set(w_pad=0.1)
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
