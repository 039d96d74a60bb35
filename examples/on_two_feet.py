"""A push on a humanoid's chest: in the air, on one foot, on two feet. Contacts change how heavy it feels.

Run it with `python examples/on_two_feet.py`.
"""

from __future__ import annotations

import numpy as np

import ramify as rf


def main() -> float:
    """Compare supports; returns the largest acceleration of a foot while the chest moves [m/s², rad/s²]."""
    robot = rf.zoo.asimo35()
    q = robot.random_configuration(np.random.default_rng(4), ())
    v = np.zeros(robot.nv)
    chest, feet = [rf.Task("torso", "position")], ["left_foot", "right_foot"]
    forward = np.array([1.0, 0.0, 0.0])

    for name, contacts in (("in the air", []), ("on one foot", feet[:1]), ("on two feet", feet)):
        space = robot.operational_space(q, chest, v, contacts=contacts, reference="local_world_aligned")
        felt = 1.0 / (forward @ space.inverse_inertia @ forward)
        free = round(float(np.trace(space.nullspace)))
        print(f"{name:12} a push forward feels {felt:5.2f} kg; {free} of {robot.nv} degrees of freedom stay free")

    # On two feet: accelerate the chest and keep everything else out of the way.
    force = space.inertia @ (2.0 * forward) + space.bias
    tau = space.jacobian.T @ force + space.nullspace.T @ robot.bias_forces(q, v)
    # What the floor answers follows from the feet not moving.
    held = robot.operational_space(q, feet, v, reference="local_world_aligned")
    a = robot.forward_dynamics(q, v, tau)
    answer = -held.inertia @ (held.jacobian @ a + held.jacobian_dot_v)
    a = a + robot.mass_matrix_solve(q, held.jacobian.T @ answer)
    print("The chest accelerates with", np.array2string(space.jacobian @ a + space.jacobian_dot_v, precision=3), "m/s²")
    return float(np.abs(held.jacobian @ a + held.jacobian_dot_v).max())


if __name__ == "__main__":
    main()
