"""How long and how heavy are the links of this arm? Both, from a recorded motion and a marker on its flange.

The arm that moves is not quite the one on paper: each link is some millimetres longer or shorter, and some hundred
grams lighter or heavier. `robot.parameters` makes lengths and masses arguments of motions and poses, whose derivatives
tell how to change them until the predicted motion is the recorded one: Gauss and Newton's method.

Run it with `python examples/calibrate_arm.py`, or `python examples/calibrate_arm.py calibrate_arm.png` for a picture.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt

DT, STEPS, PIECES = 2e-3, 50, 40  # [s]; steps of each piece of the motion; their number
ENCODER, RATE, MARKER = 1e-5, 1e-4, 1e-4  # noise of joints [rad, rad/s] and of the marker [m]
Array = np.ndarray


def arm() -> kt.Model:
    """Five revolute joints, a flange at the end."""
    builder = kt.Builder("arm")
    parent, length = "world", 0.3
    for i, axis in enumerate(((0, 0, 1), (0, 1, 0), (0, 1, 0), (1, 0, 0), (0, 1, 0))):
        builder.add_body(
            f"link{i}",
            parent=parent,
            placement=(np.eye(3), (0.0, 0.0, length)),
            axis=axis,
            mass=5.0 - 0.8 * i,
            com=(0.02, 0.01, 0.12),
            inertia=np.diag([0.02, 0.02, 0.005]),
        )
        parent, length = f"link{i}", 0.25
    builder.add_frame("flange", body=parent, placement=(np.eye(3), (0.0, 0.0, 0.15)))
    return builder.build()


def recorded(real: kt.Model, paper: kt.Model) -> tuple[Array, Array, Array, Array]:
    """q, v and the torques of a motion, in pieces, and where the marker was; with noise."""
    rng = np.random.default_rng(0)
    q, v, qs, vs, taus = real.neutral(), np.zeros(real.nv), [], [], []
    speed = 1.1 + 0.6 * np.arange(real.nv)
    for k in range(PIECES * STEPS):
        t = k * DT
        wanted, rate = 0.8 * np.sin(speed * t), 0.8 * speed * np.cos(speed * t)
        tau = paper.gravity_forces(q) + 60.0 * (wanted - q) + 8.0 * (rate - v)
        qs, vs, taus = [*qs, q], [*vs, v], [*taus, tau]
        q, v = real.step(q, v, tau, DT)
    shape = (PIECES, STEPS, real.nv)
    q, v, tau = (np.array(x).reshape(shape) for x in (qs, vs, taus))
    marker = real.pose(q, "flange")[..., :3, 3]
    noisy = (x + rng.normal(0.0, noise, x.shape) for x, noise in ((q, ENCODER), (v, RATE), (marker, MARKER)))
    q, v, marker = noisy
    return q, v, tau, marker


def main(picture: str | None = None) -> float:
    """Find lengths and masses; returns the largest relative error of a mass."""
    paper = arm()
    links = [f"link{i}" for i in range(1, 5)]  # the first turns about a vertical axis: nothing tells its mass
    known = paper.parameters(mass=links, position=[*links, "flange"])
    free = [i for i, name in enumerate(known.names) if name.startswith("mass") or name.endswith("z")]
    truth = known.values.copy()
    truth[free] *= 1.0 + np.random.default_rng(3).uniform(-0.1, 0.1, len(free))
    q, v, tau, marker = recorded(known.model(truth), paper)

    p, far = known.values.copy(), []
    units = np.eye(len(p))[free]
    for _ in range(5):
        ends = known.rollout(p, q[:, 0], v[:, 0], tau[:, :-1], DT).q[:, -1] - q[:, -1]
        misses = known.pose(p, q, "flange")[..., :3, 3] - marker
        still = np.zeros((1, PIECES, 5))
        moved = known.rollout.jvp(
            p, q[:, 0], v[:, 0], tau[:, :-1], DT, units[:, None], still, still, np.zeros((PIECES, STEPS - 1, 5))
        )
        turned = known.pose.derivative(p, q, "flange")[..., :3, 3, free]
        residual = np.concatenate([ends.ravel() / ENCODER, misses.ravel() / MARKER])
        by_motion = moved.q[:, :, -1].reshape(len(free), -1).T / ENCODER
        J = np.concatenate([by_motion, turned.reshape(-1, len(free)) / MARKER])
        far.append(np.abs(p[free] / truth[free] - 1.0))
        p[free] -= np.linalg.lstsq(J, residual, rcond=None)[0]
    far.append(np.abs(p[free] / truth[free] - 1.0))

    print(f"{PIECES} pieces of {STEPS} steps, joints known to {ENCODER:.0e} rad, the marker to {1e3 * MARKER:.1f} mm")
    print(f"  {'':24} {'paper':>9} {'found':>9} {'really':>9}")
    for i in free:
        print(f"  {known.names[i]:24} {known.values[i]:9.4f} {p[i]:9.4f} {truth[i]:9.4f}")
    if picture:
        draw(picture, np.array(far), [known.names[i] for i in free])
    masses = [i for i, number in enumerate(free) if known.names[number].startswith("mass")]
    return float(far[-1][masses].max())


def draw(file: str, far: Array, names: list[str]) -> None:
    """How errors shrink from step to step."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for errors, name in zip(far.T, names, strict=True):
        axes.semilogy(errors, "o-" if name.startswith("mass") else "s--", markersize=4, label=name)
    axes.set_xlabel("step of Gauss and Newton's method")
    axes.set_ylabel("relative error")
    axes.legend(fontsize=7, ncols=2)
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
