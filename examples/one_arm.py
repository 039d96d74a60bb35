"""One arm draws a circle with its tool: operational-space control of 7 joints.

Run it with `python examples/one_arm.py`.
"""

from __future__ import annotations

import numpy as np

import kinetree as kt

STEP = 1e-3  # [s]


def arm() -> kt.Model:
    """Seven revolute joints with crossing axes, a tool at the end."""
    builder = kt.Builder("arm")
    parent, length = "world", 0.0
    for i in range(7):
        builder.add_body(
            f"link{i}",
            parent=parent,
            placement=(np.eye(3), (0.0, 0.0, length)),
            axis=(0, 0, 1) if i % 2 == 0 else (0, 1, 0),
            mass=3.0 - 0.3 * i,
            com=(0.0, 0.0, 0.1),
            inertia=np.diag([0.02, 0.02, 0.005]),
        )
        parent, length = f"link{i}", 0.2
    builder.add_frame("tool", body=parent, placement=(np.eye(3), (0.0, 0.0, 0.1)))
    return builder.build()


def main() -> float:
    """Run for two seconds; returns the largest distance from the circle after the first half second [m]."""
    robot = arm()
    q, v = np.array([0.1, 0.7, 0.2, 1.2, -0.3, 0.9, 0.0]), np.zeros(7)
    # the tool's motion along the axes of the world, as the circle is given
    tool = robot.tasks([kt.Task("tool", "position")], reference="local_world_aligned")
    start = robot.pose(q, "tool")[:3, 3]
    worst = 0.0
    for i in range(2000):
        angle, speed = np.pi * i * STEP, np.pi
        wanted = start + 0.1 * np.array([np.cos(angle) - 1.0, np.sin(angle), 0.0])
        velocity = 0.1 * speed * np.array([-np.sin(angle), np.cos(angle), 0.0])
        acceleration = 0.1 * speed**2 * np.array([-np.cos(angle), -np.sin(angle), 0.0])

        space = tool.at(q, v)
        error = wanted - robot.pose(q, "tool")[:3, 3]
        rate = velocity - space.jacobian @ v
        # Λ makes the tool a free unit mass, bias takes gravity and Coriolis forces away
        force = space.inertia @ (acceleration + 400.0 * error + 40.0 * rate) + space.bias
        # the rest of the arm: damped, in the null space, so that the tool does not feel it
        rest = robot.bias_forces(q, v) - 2.0 * v
        tau = space.jacobian.T @ force + space.nullspace.T @ rest

        v = v + STEP * robot.forward_dynamics(q, v, tau)
        q = robot.integrate(q, v, STEP)
        if i > 500:
            worst = max(worst, float(np.linalg.norm(error)))
    print(f"The tool stays within {worst * 1e3:.2f} mm of the circle.")
    print(f"The mass that is felt at it in the end (Λ, of rank {space.rank}) in kg:")
    print(np.array2string(space.inertia, precision=2))
    return worst


if __name__ == "__main__":
    main()
