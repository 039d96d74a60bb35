"""Two hands lift one object: what one hand feels of the other, and how to move both as if they were one.

Run it with `python examples/two_hands.py`.
"""

from __future__ import annotations

import numpy as np

import kinetree as kt

STEP = 1e-3  # [s]
HEIGHT, DURATION = 0.15, 1.0  # how far up [m], and how long it takes [s]
HANDS = ["left_hand", "right_hand"]
UP = np.array([0.0, 0.0, 1.0])


def lift(t: float) -> tuple[float, float, float]:
    """Height, velocity and acceleration along a smooth way up, from rest to rest."""
    s, rate = t / DURATION, 1.0 / DURATION
    way = 10 * s**3 - 15 * s**4 + 6 * s**5
    return (
        HEIGHT * way,
        HEIGHT * rate * (30 * s**2 - 60 * s**3 + 30 * s**4),
        HEIGHT * rate**2 * (60 * s - 180 * s**2 + 120 * s**3),
    )


def grasp(robot: kt.Model, q: np.ndarray) -> np.ndarray:
    """Where the right hand is, as the left hand sees it [m]."""
    left, right = robot.pose(q, HANDS)
    return left[:3, :3].T @ (right[:3, 3] - left[:3, 3])


def main() -> float:
    """Lift for one second; returns how far the hands slip on the object [m]."""
    robot = kt.zoo.humanoid24()  # stands on its right foot
    bent = {"shoulder_pitch": -0.5, "elbow": -1.1}  # forearms forward
    q = robot.q_from_dict({f"{side}_{joint}": angle for side in ("left", "right") for joint, angle in bent.items()})
    v = np.zeros(robot.nv)

    # Λ⁻¹ of both hands at once: the blocks off its diagonal are what one hand feels of the other.
    # Rows 0 to 2 turn the left hand, 3 to 5 move it; 6 to 11 are the same of the right hand.
    A = robot.tasks(HANDS).at(q).inverse_inertia
    share = np.linalg.norm(A[9:12, 3:6]) / np.linalg.norm(A[3:6, 3:6])
    print(f"A push on one hand accelerates the other one, too: by {share:.1%} of its own acceleration.")

    # The grasp is a relative task: hands that hold one object do not move relative to each other. The motion of the
    # object is that of the left hand, seen along the axes of the world. Of the twelve rows only the last three move.
    tasks = robot.tasks([kt.RelativeTask(*HANDS), "left_hand"], reference="local_world_aligned")
    start, before = robot.pose(q, HANDS)[0, :3, 3], grasp(robot, q)
    slip = 0.0
    for i in range(round(DURATION / STEP)):
        height, speed, acceleration = lift(i * STEP)
        space = tasks.at(q, v)
        rates = space.jacobian @ v
        error = start + height * UP - robot.pose(q, HANDS)[0, :3, 3]
        lifting = acceleration * UP + 400.0 * error + 40.0 * (speed * UP - rates[9:])
        wanted = np.concatenate([-40.0 * rates[:9], lifting])

        # What the tasks need, and in their null space what holds the rest of the body still.
        force = space.inertia @ wanted + space.bias
        rest = robot.bias_forces(q, v) - robot.mass_matrix(q) @ (10.0 * v)
        tau = space.jacobian.T @ force + space.nullspace.T @ rest

        v = v + STEP * robot.forward_dynamics(q, v, tau)
        q = robot.integrate(q, v, STEP)
        slip = max(slip, float(np.linalg.norm(grasp(robot, q) - before)))

    risen = robot.pose(q, HANDS)[:, 2, 3].mean() - start[2]
    print(f"The hands rise by {risen * 100:.1f} cm, and slip by {slip * 1e3:.2f} mm.")
    return slip


if __name__ == "__main__":
    main()
