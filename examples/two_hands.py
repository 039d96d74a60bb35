"""Two hands hold one object and lift it: what the hands feel of each other, and how hard they squeeze.

Run it with `python examples/two_hands.py`.
"""

from __future__ import annotations

import numpy as np

import ramify as rf


def main() -> float:
    """Lift, and keep the hands together; returns how far accelerations are from those wanted."""
    robot = rf.zoo.humanoid24()
    rng = np.random.default_rng(1)
    q, v = robot.random_configuration(rng), rng.uniform(-0.5, 0.5, robot.nv)

    # Λ of both hands at once: its off-diagonal blocks are what one hand feels of the other
    both = robot.operational_space(q, ["left_hand", "right_hand"])
    own, other = both.inverse_inertia[3:6, 3:6], both.inverse_inertia[9:12, 3:6]
    print(f"A push on one hand moves the other {np.linalg.norm(other) / np.linalg.norm(own):.1%} as much.")

    # the grasp as a relative task, the object's motion as the left hand's
    tasks = [rf.RelativeTask("left_hand", "right_hand"), rf.Task("left_hand", "position")]
    space = robot.operational_space(q, tasks, v)
    wanted = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.0, 0.2])  # hands stay together, the object goes up
    force = space.inertia @ wanted + space.bias
    tau = space.jacobian.T @ force + space.nullspace.T @ rng.uniform(-1.0, 1.0, robot.nv)

    a = robot.forward_dynamics(q, v, tau)
    got = space.jacobian @ a + space.jacobian_dot_v
    print("Squeeze [N m, N]:", np.array2string(force[:6], precision=2))
    print("Acceleration of the object [m/s²]:", np.array2string(got[6:], precision=3))
    return float(np.abs(got - wanted).max())


if __name__ == "__main__":
    main()
