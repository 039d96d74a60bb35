"""Gains of a quadruped that lands: how stiff and how damped should hips, thighs and knees be?

The robot falls from different heights, tilted, four times in one batch. Each joint is a servo, τ = kp (q* − q) − kd v.
The trunk should come to rest level and at its height within 200 steps, without large torques. The loss depends on six
gains, and its gradient is one sweep back through the 200 steps of each landing: `step.vjp` takes weights of the state
after a step to those before it and of the torques, and these to the gains.

Run it with `python examples/tune_gains.py`, or `python examples/tune_gains.py tune_gains.png` for a picture.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt
from kinetree import simulation

STEP, STEPS, DROPS, ROUNDS = 2e-3, 200, 4, 18
LEGS = {"front_left": (0.2, 0.15), "front_right": (0.2, -0.15), "hind_left": (-0.2, 0.15), "hind_right": (-0.2, -0.15)}
LENGTH, ROTOR = 0.25, 0.02  # of thigh and shank [m]; inertia of a motor behind its gears [kg m²]
PARTS = ("hip", "thigh", "knee")
FIRST = np.array([[20.0, 20.0, 20.0], [0.3, 0.3, 0.3]])  # kp [N m/rad] and kd [N m s/rad] of the three parts
#: What the squares of tilt, of the height's error, of the trunk's speed and of torques cost.
TILT, HEIGHT, SPEED, EFFORT = 2.0, 50.0, 0.01, 1e-5


def quadruped() -> kt.Model:
    """A trunk on four legs, each with two joints at the hip and one at the knee."""
    builder = kt.Builder("quadruped")
    builder.add_body("trunk", joint="floating", mass=12.0, inertia=np.diag([0.072, 0.265, 0.308]))
    limb = np.diag([0.005, 0.005, 0.0005])
    for leg, (x, y) in LEGS.items():
        hip, thigh, shank = (f"{leg}_{part}" for part in ("hip", "thigh", "shank"))
        at, below = (np.eye(3), (x, y, 0.0)), (np.eye(3), (0, 0, -LENGTH))
        builder.add_body(hip, parent="trunk", axis=(1, 0, 0), placement=at, mass=0.5, armature=ROTOR)
        middle = {"com": (0, 0, -LENGTH / 2), "axis": (0, 1, 0), "armature": ROTOR}
        builder.add_body(thigh, parent=hip, mass=1.0, inertia=limb, **middle)
        builder.add_body(shank, parent=thigh, placement=below, mass=0.4, inertia=0.5 * limb, **middle)
        builder.add_frame(f"{leg}_foot", body=shank, placement=below)
    return builder.build()


class Landing:
    """Landings of a robot under servos, and what they cost."""

    def __init__(self) -> None:
        self.robot = robot = quadruped()
        bent = {"thigh": 0.6, "shank": -1.2}
        self.stand = robot.q_from_dict({f"{leg}_{part}_joint": angle for leg in LEGS for part, angle in bent.items()})
        self.stand[2] = -robot.pose(self.stand, "front_left_foot")[2, 3]
        rng = np.random.default_rng(0)
        tilt = np.zeros((DROPS, robot.nv))
        tilt[:, :2] = rng.uniform(-0.3, 0.3, (DROPS, 2))
        self.start = robot.integrate(self.stand, tilt)
        self.start[:, 2] += rng.uniform(0.06, 0.12, DROPS)
        feet = [simulation.Points(f"{leg}_foot", np.zeros(3)) for leg in LEGS]
        self.costs = np.zeros(robot.nv)  # neither heading nor where it stands count
        self.costs[:2], self.costs[5] = TILT, HEIGHT
        self.world = simulation.Simulator(robot, dt=STEP, contacts=feet, ground=simulation.Plane(friction=0.8))

    def torques(self, gains: np.ndarray, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Of the servos; nothing drives the trunk."""
        kp, kd = np.tile(gains, 4)
        tau = np.zeros_like(v)
        tau[..., 6:] = kp * (self.stand[7:] - q[..., 7:]) - kd * v[..., 6:]
        return tau

    def path(self, gains: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Configurations, velocities and torques of all steps, along the first axis."""
        q, v, kept = self.start, np.zeros((DROPS, self.robot.nv)), []
        for _ in range(STEPS):
            tau = self.torques(gains, q, v)
            kept.append((q, v, tau))
            q, v, _ = self.world.step(q, v, tau)
        kept.append((q, v, self.torques(gains, q, v)))
        qs, vs, taus = (np.array(each) for each in zip(*kept, strict=True))
        return qs, vs, taus

    def loss(self, qs: np.ndarray, vs: np.ndarray, taus: np.ndarray) -> float:
        """Mean over all steps: of tilt and height, of speed, and of torques."""
        away = self.robot.difference(self.stand, qs)
        squares = (self.costs * away**2).sum(-1) + SPEED * (vs[..., :6] ** 2).sum(-1) + EFFORT * (taus**2).sum(-1)
        return float(squares.mean())

    def gradient(self, gains: np.ndarray, qs: np.ndarray, vs: np.ndarray, taus: np.ndarray) -> np.ndarray:
        """Of the loss with respect to the gains, in one sweep from the last step to the first."""
        kp, kd = np.tile(gains, 4)
        away = 2.0 * self.costs * self.robot.difference(self.stand, qs)
        along = np.swapaxes(self.robot.ddifference(self.stand, qs)[1], -1, -2)  # from tangents at q
        by_q, by_v = (along @ away[..., None])[..., 0], 2.0 * SPEED * vs
        by_v[..., 6:] = 0.0
        by_tau, each = 2.0 * EFFORT * taus, 1.0 / (len(qs) * DROPS)
        q_bar, v_bar, found = np.zeros_like(vs[0]), np.zeros_like(vs[0]), np.zeros_like(gains)
        for i in reversed(range(len(qs))):
            tau_bar = each * by_tau[i]
            if i < STEPS:
                back = self.world.step.vjp(qs[i], vs[i], taus[i], q_bar, v_bar)
                q_bar, v_bar, tau_bar = back.q, back.v, tau_bar + back.tau
            push = tau_bar[:, 6:]
            for k, by_gain in enumerate((self.stand[7:] - qs[i][:, 7:], -vs[i][:, 6:])):
                found[k] += (push * by_gain).reshape(-1, 3).sum(axis=0)
            q_bar, v_bar = q_bar + each * by_q[i], v_bar + each * by_v[i]
            q_bar[:, 6:] -= kp * push
            v_bar[:, 6:] -= kd * push
        return found


def main(picture: str | None = None) -> float:
    """Tune the gains; returns the loss as a share of that of the first guess."""
    landing, gains, size = Landing(), FIRST, 0.3
    path = landing.path(gains)
    losses, kept = [landing.loss(*path)], [(gains, path)]
    print(f"{DROPS} landings of a quadruped, {STEPS} steps each")
    for i in range(ROUNDS):
        slope = gains * landing.gradient(gains, *path)  # with respect to the logarithms of the gains
        while size > 1e-3:
            ahead = gains * np.exp(-size * slope / np.abs(slope).max())
            there = landing.path(ahead)
            if landing.loss(*there) < losses[-1]:
                gains, path, size = ahead, there, min(0.5, 1.5 * size)
                break
            size *= 0.5
        losses.append(landing.loss(*path))
        kept.append((gains, path))
        print(f"  {i + 1:2d}: loss {losses[-1]:.5f}, kp {gains[0].round(1)}, kd {gains[1].round(2)}")
    print(f"the loss falls from {losses[0]:.5f} to {losses[-1]:.5f}")
    if picture:
        draw(picture, landing, losses, kept)
    return losses[-1] / losses[0]


def draw(
    file: str, landing: Landing, losses: list[float], kept: list[tuple[np.ndarray, tuple[np.ndarray, ...]]]
) -> None:
    """Height and tilt of all landings, before and after; and how the gains go."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.9), layout="constrained")
    heights, tilts, gains = figure.subplots(1, 3)
    time = STEP * np.arange(STEPS + 1)
    for (_, (qs, _, _)), colour, label in ((kept[0], "0.6", "first guess"), (kept[-1], "C0", "tuned")):
        upright = landing.robot.pose(qs, "trunk")[..., 2, 2]
        for drop in range(DROPS):
            name = label if drop == 0 else None
            heights.plot(time, qs[:, drop, 2], color=colour, label=name)
            tilts.plot(time, np.degrees(np.arccos(np.minimum(upright[:, drop], 1.0))), color=colour, label=name)
    heights.axhline(landing.stand[2], color="k", linewidth=0.8, linestyle=":")
    heights.set(xlabel="time [s]", ylabel="height of the trunk [m]", title="four landings")
    tilts.set(xlabel="time [s]", ylabel="tilt of the trunk [°]", title="and their tilt")
    heights.legend(fontsize=8)
    values = np.array([each for each, _ in kept])
    for k, part in enumerate(PARTS):
        gains.semilogy(values[:, 0, k], "o-", markersize=4, color=f"C{k}", label=f"kp, {part} [N m/rad]")
        gains.semilogy(values[:, 1, k], "s--", markersize=4, color=f"C{k}", label=f"kd, {part} [N m s/rad]")
    gains.semilogy(losses, "k-", linewidth=2.5, label="loss")
    gains.set(xlabel="gradients", title="gains, and the loss", ylim=(0.05, 3e4), xticks=range(0, ROUNDS + 1, 2))
    gains.legend(fontsize=7, ncols=2, loc="upper center")
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
