"""One arm draws a circle with its hand: operational-space control of 7 joints.

Run it with `python examples/one_arm.py`.
"""

from __future__ import annotations

import numpy as np

import kinetree as kt

STEP = 1e-3  # [s]


def main() -> float:
    """Run for two seconds; returns the largest distance from the circle after the first half second [m]."""
    robot = kt.zoo.arm7()
    q, v = np.array([0.1, 0.7, 0.2, 1.2, -0.3, 0.9, 0.0]), np.zeros(7)
    # the hand's motion along the axes of the world, as the circle is given
    hand = robot.tasks([kt.Task("hand", "position")], reference="local_world_aligned")
    start = robot.pose(q, "hand")[:3, 3]
    worst = 0.0
    for i in range(2000):
        angle, speed = np.pi * i * STEP, np.pi
        wanted = start + 0.1 * np.array([np.cos(angle) - 1.0, np.sin(angle), 0.0])
        velocity = 0.1 * speed * np.array([-np.sin(angle), np.cos(angle), 0.0])
        acceleration = 0.1 * speed**2 * np.array([-np.cos(angle), -np.sin(angle), 0.0])

        space = hand.at(q, v)
        error = wanted - robot.pose(q, "hand")[:3, 3]
        rate = velocity - space.jacobian @ v
        # Λ makes the hand a free unit mass, bias takes gravity and Coriolis forces away
        force = space.inertia @ (acceleration + 400.0 * error + 40.0 * rate) + space.bias
        # the rest of the arm: damped, in the null space, so that the hand does not feel it
        rest = robot.bias_forces(q, v) - 2.0 * v
        tau = space.jacobian.T @ force + space.nullspace.T @ rest

        v = v + STEP * robot.forward_dynamics(q, v, tau)
        q = robot.integrate(q, v, STEP)
        if i > 500:
            worst = max(worst, float(np.linalg.norm(error)))
    print(f"The hand stays within {worst * 1e3:.2f} mm of the circle.")
    print(f"The mass that is felt at it in the end (Λ, of rank {space.rank}) in kg:")
    print(np.array2string(space.inertia, precision=2))
    return worst


if __name__ == "__main__":
    main()
