"""Where should the motors of an arm be, and how long its links, so that its hand feels light?

Λ is the inertia that is felt at the hand. A person who pushes it, or an object that it hits, feels Λ, not the mass of
the arm. `robot.parameters` has Λ as a function of the design, and its gradient at a batch of poses in one call. Two
lengths may vary while the reach stays, and each motor may move along its link; links weigh what their length demands.

Run it with `python examples/design_arm.py`, or `python examples/design_arm.py design_arm.png` for a picture.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt

REACH, MOTOR, PER_LENGTH = 0.9, 1.2, 2.0  # [m], [kg], [kg/m]
POSES = 256
Array = np.ndarray


def arm() -> kt.Model:
    """Shoulder with two joints, elbow, wrist; the motors of elbow and wrist are bodies on the links before them."""
    builder = kt.Builder("arm")
    rod = {"mass": PER_LENGTH * REACH / 2, "com": (0.0, 0.0, REACH / 4), "inertia": np.diag([0.012, 0.012, 1e-3])}
    motor = {"mass": MOTOR, "inertia": 1e-3 * np.eye(3), "joint": "fixed"}
    ahead = np.eye(3), (0.0, 0.0, REACH / 2)
    builder.add_body("shoulder", axis=(0, 0, 1), mass=2.0, inertia=0.01 * np.eye(3))
    builder.add_body("upper arm", parent="shoulder", axis=(0, 1, 0), **rod)
    builder.add_body("elbow motor", parent="upper arm", placement=ahead, **motor)
    builder.add_body("forearm", parent="upper arm", placement=ahead, axis=(0, 1, 0), **rod)
    builder.add_body("wrist motor", parent="forearm", placement=ahead, **motor)
    builder.add_body("palm", parent="forearm", placement=ahead, axis=(0, 1, 0), mass=0.3, inertia=1e-3 * np.eye(3))
    builder.add_frame("hand", body="palm", placement=(np.eye(3), (0.0, 0.0, 0.1)))
    return builder.build()


class Design:
    """An arm with three numbers [m]: length of the upper arm, and how far each motor is from the joint before it."""

    def __init__(self) -> None:
        self.robot = arm()
        rods = ["upper arm", "forearm"]
        places = ["elbow motor", "forearm", "wrist motor", "palm"]
        self.numbers = self.robot.parameters(mass=rods, com=rods, position=places)
        self.felt = self.numbers.tasks([kt.Task("hand", "position")]).inertia
        rng = np.random.default_rng(1)
        self.q = np.stack([rng.uniform(*r, POSES) for r in ((-1, 1), (0.3, 1.2), (0.5, 2.0), (-0.8, 0.8))], axis=-1)

    def parameters(self, x: Array) -> tuple[Array, Array]:
        """All parameters of the arm, and their derivatives with respect to x."""
        p, D = self.numbers.values.copy(), np.zeros((len(self.numbers), 3))
        upper, fore = (x[0], np.array([1.0, 0.0, 0.0])), (REACH - x[0], np.array([-1.0, 0.0, 0.0]))
        units = np.eye(3)
        for what, name, (value, slope) in (
            ("mass", "upper arm", (PER_LENGTH * upper[0], PER_LENGTH * upper[1])),
            ("mass", "forearm", (PER_LENGTH * fore[0], PER_LENGTH * fore[1])),
            ("com", "upper arm", (upper[0] / 2, upper[1] / 2)),
            ("com", "forearm", (fore[0] / 2, fore[1] / 2)),
            ("position", "forearm", upper),
            ("position", "palm", fore),
            ("position", "elbow motor", (x[1], units[1])),
            ("position", "wrist motor", (x[2], units[2])),
        ):
            last = self.numbers.part(what, name).stop - 1  # along z, if it has three components
            p[last], D[last] = value, slope
        return p, D

    def cost(self, x: Array) -> tuple[float, Array]:
        """The mean inertia felt at the hand, over poses and directions [kg], and its gradient."""
        p, D = self.parameters(x)
        felt = self.felt(p, self.q)
        by_p, _ = self.felt.vjp(p, self.q, np.eye(3) / (3 * POSES))
        return float(np.trace(felt, axis1=-2, axis2=-1).mean() / 3), by_p.sum(axis=0) @ D


def main(picture: str | None = None) -> float:
    """Improve the design; returns the largest slope that is left, of those that bounds allow to follow [kg/m]."""
    design = Design()
    x, low, high = np.array([REACH / 2, REACH / 2, REACH / 2]), np.array([0.2, 0.0, 0.0]), np.array([0.7, 0.45, 0.45])
    path, step = [x], 0.02
    cost, slope = design.cost(x)
    first = cost
    for _ in range(60):
        trial = np.clip(x - step * slope, low, high)
        worth, after = design.cost(trial)
        if worth < cost:
            x, cost, slope, step = trial, worth, after, 1.5 * step
        else:
            step *= 0.3
        path.append(x)
    left = np.where(((x <= low) & (slope > 0)) | ((x >= high) & (slope < 0)), 0.0, slope)
    print(f"inertia felt at the hand, mean of {POSES} poses: {first:.3f} kg on paper, {cost:.3f} kg in the end")
    print(f"  upper arm    {x[0]:.3f} m of {REACH} m")
    print(f"  elbow motor  {x[1]:.3f} m from the shoulder, wrist motor {x[2]:.3f} m from the elbow")
    if picture:
        draw(picture, design, np.array(path))
    return float(np.abs(left).max())


def draw(file: str, design: Design, path: Array) -> None:
    """The cost over lengths of the upper arm, for motors before and after; ellipses of Λ at some poses."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    lengths, arms = figure.subplots(1, 2)
    grid = np.linspace(0.2, 0.7, 26)
    for x, label in ((path[0], "motors at the joints that they drive"), (path[-1], "motors where they ended")):
        lengths.plot(grid, [design.cost(np.array([each, *x[1:]]))[0] for each in grid], label=label)
    lengths.plot(path[:, 0], [design.cost(x)[0] for x in path], "k.", markersize=4, label="steps")
    lengths.set_xlabel("length of the upper arm [m]")
    lengths.set_ylabel("mean inertia felt at the hand [kg]")
    lengths.legend(fontsize=8)
    q, turn = np.array([0.0, 0.6, 1.2, 0.3]), np.linspace(0.0, 2.0 * np.pi, 400)
    for x, colour, label in ((path[0], "C3", "before"), (path[-1], "C0", "after")):
        p, _ = design.parameters(x)
        spots = [design.numbers.pose(p, q, name)[:3, 3] for name in ("upper arm", "forearm", "palm", "hand")]
        motors = [design.numbers.pose(p, q, name)[:3, 3] for name in ("elbow motor", "wrist motor")]
        line, dots = np.array(spots), np.array(motors)
        arms.plot(line[:, 0], line[:, 2], "o-", color=colour, label=label)
        arms.plot(dots[:, 0], dots[:, 2], "s", color=colour, markersize=10)
        frame = design.numbers.pose(p, q, "hand")
        felt = frame[:3, :3] @ design.felt(p, q) @ frame[:3, :3].T
        circle = np.stack([np.cos(turn), np.zeros(400), np.sin(turn)])
        push = np.einsum("ik,ij,jk->k", circle, np.linalg.inv(felt), circle)
        ring = line[-1][:, None] + 0.05 * circle / push  # the mass felt in each direction
        arms.plot(ring[0], ring[2], color=colour)
    arms.set_aspect("equal")
    arms.set_xlabel("x [m]")
    arms.set_ylabel("z [m]; rings: mass felt, 5 cm for 1 kg")
    arms.legend(fontsize=8)
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
