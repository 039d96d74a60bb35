"""A push on a humanoid's chest: in the air, on one foot, on two feet. Contacts change how heavy it feels.

Run it with `python examples/on_two_feet.py`.
"""

from __future__ import annotations

import numpy as np

import kinetree as kt

FEET = ["left_foot", "right_foot"]


def standing(robot: kt.Model) -> np.ndarray:
    """Upright, with knees a little bent. The base floats: its position and orientation come first in q."""
    bent = {"leg_3": -0.1, "leg_4": 0.2, "leg_5": -0.1}  # hip, knee, ankle
    angles = {f"{side}_{joint}_joint": angle for side in ("left", "right") for joint, angle in bent.items()}
    return robot.q_from_dict(angles)


def main() -> float:
    """Compare supports, then move the chest; returns the largest acceleration of a foot [m/s², rad/s²]."""
    robot = kt.zoo.asimo35()
    q, v = standing(robot), np.zeros(robot.nv)
    chest = [kt.Task("torso", "position")]
    forward, up = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])

    for name, contacts in (("in the air", []), ("on one foot", FEET[:1]), ("on two feet", FEET)):
        space = robot.tasks(chest, contacts=contacts, reference="local_world_aligned").at(q, v)
        # The mass that a push feels if nothing else holds the chest: one over what a unit force accelerates it.
        ahead, down = (1.0 / (axis @ space.inverse_inertia @ axis) for axis in (forward, up))
        free = round(float(np.trace(space.nullspace)))
        print(f"{name:12} a push forward feels {ahead:.0f} kg, one down {down:3.0f} kg; {free} freedoms are left")

    # On two feet, the last of the three: accelerate the chest upwards, and hold everything else.
    force = space.inertia @ (1.0 * up) + space.bias
    tau = space.jacobian.T @ force + space.nullspace.T @ robot.bias_forces(q, v)

    # No motor drives the base: the first six entries of tau must be left to the feet. Forces at feet that do not
    # move change nothing but what the floor answers, so they can be taken out of tau.
    held = robot.tasks(FEET, reference="local_world_aligned").at(q, v)
    by_feet = np.linalg.lstsq(held.jacobian.T[:6], tau[:6], rcond=None)[0]
    tau = tau - held.jacobian.T @ by_feet
    print(f"Largest force that the base would need: {np.abs(tau[:6]).max():.0e} N or N m")

    # What the floor answers follows from the feet not moving.
    a = robot.forward_dynamics(q, v, tau)
    answer = -held.inertia @ (held.jacobian @ a + held.jacobian_dot_v)
    a = a + robot.mass_matrix_solve(q, held.jacobian.T @ answer)
    weight = 9.81 * sum(body.mass for body in robot.bodies)
    moved = space.jacobian @ a + space.jacobian_dot_v
    print("The chest accelerates with", np.array2string(moved, precision=3, suppress_small=True), "m/s²,")
    print(f"and the floor carries {answer[5] + answer[11]:.0f} N of a robot that weighs {weight:.0f} N.")
    return float(np.abs(held.jacobian @ a + held.jacobian_dot_v).max())


if __name__ == "__main__":
    main()
