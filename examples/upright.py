"""A cart-pole and a double pendulum kept upright by LQR, from exact derivatives of a time step.

Run it with `python examples/upright.py`, or `python examples/upright.py upright.png` for a picture.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt

STEP, SECONDS = 0.01, 10.0  # [s]


def gains(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Feedback of the infinite-horizon linear-quadratic regulator, by iterating Riccati's equation."""
    P = Q = np.eye(len(A))
    R = 0.1 * np.eye(B.shape[1])
    for _ in range(3000):
        K = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        P = Q + A.T @ P @ (A - B @ K)
    return K


def highest(robot: kt.Model, fixed: tuple[float, ...] = ()) -> np.ndarray:
    """The configuration of most potential energy among those with right angles."""
    angles = np.stack(np.meshgrid(*[np.arange(4) * np.pi / 2] * (robot.nq - len(fixed)), indexing="ij"), axis=-1)
    candidates = angles.reshape(-1, robot.nq - len(fixed))
    candidates = np.concatenate([np.tile(fixed, (len(candidates), 1)), candidates], axis=-1)
    return candidates[np.argmax(robot.energy(candidates, np.zeros(robot.nv)).potential)]


def balance(robot: kt.Model, upright: np.ndarray, actuated: list[int]) -> np.ndarray:
    """Push it away from the top, let it come back; returns how far away it is after each step [rad, m]."""
    hold = robot.gravity_forces(upright)
    A, B = robot.discretize(upright, np.zeros(robot.nv), hold, STEP)
    K = gains(A, B[:, actuated])
    q, v = robot.integrate(upright, np.full(robot.nv, 0.08)), np.zeros(robot.nv)
    print(f"{robot.name}: largest eigenvalue {np.abs(np.linalg.eigvals(A)).max():.3f} alone,", end=" ")
    print(f"{np.abs(np.linalg.eigvals(A - B[:, actuated] @ K)).max():.3f} with feedback")
    away = [robot.difference(upright, q)]
    for _ in range(int(SECONDS / STEP)):
        tau = hold.copy()
        tau[actuated] -= K @ np.concatenate([away[-1], v])
        q, v = robot.step(q, v, tau, STEP, "rk4")
        away.append(robot.difference(upright, q))
    print(f"  pushed by 0.08, after {SECONDS:.0f} s it is {np.abs(away[-1]).max():.1e} away from the top")
    return np.array(away)


def main(picture: str | None = None) -> float:
    """Balance both; returns the worse end."""
    cart_pole, double = kt.zoo.cart_pole(), kt.zoo.double_pendulum()
    ways = {
        "cart-pole, pushed at the cart": balance(cart_pole, highest(cart_pole, fixed=(0.0,)), actuated=[0]),
        "double pendulum, driven at the shoulder": balance(double, highest(double), actuated=[0]),
    }
    if picture:
        draw(picture, ways, {"cart-pole": ("cart [m]", "pole [rad]"), "double": ("shoulder [rad]", "elbow [rad]")})
    return max(float(np.abs(way[-1]).max()) for way in ways.values())


def draw(file: str, ways: dict[str, np.ndarray], names: dict[str, tuple[str, ...]]) -> None:
    """How far each joint is from the top, over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.6), layout="constrained")
    for axes, (title, way), labels in zip(figure.subplots(1, 2), ways.items(), names.values()):
        axes.plot(STEP * np.arange(len(way)), way, label=labels)
        axes.axhline(0.0, color="0.7", linewidth=0.8)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("time [s]")
        axes.set_ylabel("distance from upright")
        axes.legend(fontsize=8)
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
