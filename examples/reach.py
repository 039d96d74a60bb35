"""A robot that floats in space reaches for a point: torques by gradient descent through a rollout.

The gradient with respect to the torques of all steps takes one sweep backwards of `forward_dynamics.vjp`: a few times
the rollout, however many torques there are. Nothing holds the trunk, so that it turns away when the arm moves, and its
orientation is a quaternion: `dintegrate` carries gradients along the tangent.

Run it with `python examples/reach.py`, or `python examples/reach.py reach.png` for a picture.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt

STEP, STEPS, ITERATIONS = 0.02, 50, 150  # [s], one torque for each step and joint
GOAL = np.array([0.45, 0.35, 0.30])  # of the hand [m]
REST, EFFORT = 0.005, 5e-7  # weights of the velocities at the end, and of the torques


def floating_arm() -> kt.Model:
    """A trunk with three joints on it, and no gravity."""
    builder = kt.Builder("floating_arm", gravity=(0.0, 0.0, 0.0))
    builder.add_body("trunk", parent="world", joint="floating", mass=8.0, inertia=np.diag([0.2, 0.3, 0.3]))
    parent, place = "trunk", (0.2, 0.0, 0.0)
    for name, axis in (("shoulder", (0, 0, 1)), ("upper_arm", (0, 1, 0)), ("forearm", (0, 1, 0))):
        length = 0.05 if name == "shoulder" else 0.35
        builder.add_body(
            name,
            parent=parent,
            axis=axis,
            placement=(np.eye(3), place),
            mass=4.0 * length,
            com=(length / 2, 0.0, 0.0),
            inertia=np.diag([0.002, 0.02, 0.02]),
        )
        parent, place = name, (length, 0.0, 0.0)
    builder.add_frame("hand", body=parent, placement=(np.eye(3), place))
    return builder.build()


def rollout(robot: kt.Model, start: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Configurations and velocities of all steps, the start first, (STEPS + 1, nq) and (STEPS + 1, nv)."""
    q, v = [start], [np.zeros(robot.nv)]
    for push in tau:
        v.append(v[-1] + STEP * robot.forward_dynamics(q[-1], v[-1], push))
        q.append(robot.integrate(q[-1], v[-1], STEP))
    return np.array(q), np.array(v)


def cost(robot: kt.Model, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> float:
    """How far the hand is from the goal at the end, how fast all moves then, and what it took."""
    error = robot.pose(q[-1], "hand")[:3, 3] - GOAL
    return float(error @ error + REST * v[-1] @ v[-1] + EFFORT * np.sum(tau**2)) / 2


def gradient(robot: kt.Model, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Of the cost with respect to all torques, (STEPS, nv), by vector products from the end to the start."""
    J = robot.jacobian(q[-1], "hand", "local_world_aligned")[3:]
    by_q = J.T @ (robot.pose(q[-1], "hand")[:3, 3] - GOAL)
    by_v = REST * v[-1]
    by_tau = np.empty_like(tau)
    from_q, from_v = robot.dintegrate(q[:-1], v[1:], STEP)  # of q′ = q ⊕ v′ STEP, all steps at once
    for k in reversed(range(len(tau))):
        by_v = by_v + from_v[k].T @ by_q
        by_q = from_q[k].T @ by_q
        more_q, more_v, by_tau[k] = robot.forward_dynamics.vjp(q[k], v[k], tau[k], STEP * by_v)  # of v′ = v + STEP a
        by_q, by_v = by_q + more_q, by_v + more_v
    return by_tau + EFFORT * tau


def main(picture: str | None = None) -> float:
    """Find the torques; returns how far the hand is from the goal at the end [m]."""
    robot = floating_arm()
    start = robot.q_from_dict({"upper_arm_joint": 0.6, "forearm_joint": -1.2})
    tau = np.zeros((STEPS, robot.nv))
    first = rollout(robot, start, tau)
    mean, square, costs = np.zeros_like(tau), np.zeros_like(tau), []
    for i in range(1, ITERATIONS + 1):
        q, v = rollout(robot, start, tau)
        costs.append(cost(robot, q, v, tau))
        slope = gradient(robot, q, v, tau)
        slope[:, :6] = 0.0  # nothing pushes the trunk
        # Adam: each torque has its own scale, and steps get shorter
        mean, square = 0.9 * mean + 0.1 * slope, 0.99 * square + 0.01 * slope**2
        tau -= 0.1 * (1 - i / ITERATIONS) * (mean / (1 - 0.9**i)) / (np.sqrt(square / (1 - 0.99**i)) + 1e-12)
    q, v = rollout(robot, start, tau)
    away = float(np.linalg.norm(robot.pose(q[-1], "hand")[:3, 3] - GOAL))
    turned = np.degrees(np.linalg.norm(robot.difference(start, q[-1])[:3]))
    print(f"{ITERATIONS} gradients of {3 * STEPS} torques: cost {costs[0]:.3f} → {costs[-1]:.5f}")
    print(f"  the hand ends {away * 1e3:.1f} mm from the goal, at most {np.abs(v[-1]).max():.3f} rad/s left;")
    print(f"  the trunk has turned by {turned:.0f}° on the way, and no torque exceeds {np.abs(tau).max():.2f} N m")
    if picture:
        draw(robot, picture, costs, {"without torques": first[0], "optimised": q})
    return away


def draw(robot: kt.Model, file: str, costs: list[float], paths: dict[str, np.ndarray]) -> None:
    """The arm at the end and the path of its hand, from above and from the side; the cost."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    views = figure.subplots(1, 3)
    for axes, (x, y) in zip(views, ((0, 1), (0, 2))):
        for shade, (label, q) in zip(("0.65", "C0"), paths.items()):
            hand = robot.pose(q, "hand")[:, :3, 3]
            joints = robot.pose(q[-1], ["trunk", "upper_arm", "forearm", "hand"])[:, :3, 3]
            axes.plot(joints[:, x], joints[:, y], "o-", color=shade, linewidth=3, label=f"arm at the end, {label}")
            axes.plot(hand[:, x], hand[:, y], "--", color=shade, label=f"path of the hand, {label}")
        axes.plot(GOAL[x], GOAL[y], "*", color="C3", markersize=14, label="goal")
        axes.set_xlabel(f"{'xyz'[x]} [m]")
        axes.set_ylabel(f"{'xyz'[y]} [m]")
        axes.margins(0.12)
        axes.set_aspect("equal", adjustable="datalim")
    views[0].set_title("from above")
    views[1].set_title("from the side")
    views[2].set_title("cost")
    handles, labels = views[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=8)
    views[2].semilogy(costs, color="C0")
    views[2].set_xlabel("iteration")
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
