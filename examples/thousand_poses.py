"""Inverse kinematics of a thousand poses at once: which of them the left hand of a humanoid can reach.

Run it with `python examples/thousand_poses.py`.
"""

from __future__ import annotations

import numpy as np

import kinetree as kt
from kinetree import control

COUNT = 1000


def main() -> float:
    """Find configurations for random places of the hand; returns the largest error of those found [m]."""
    robot = kt.zoo.humanoid24()
    rng = np.random.default_rng(0)
    shoulder = robot.pose(robot.neutral(), "left_shoulder_roll_link")[:3, 3]
    # anywhere within 1.2 m of the shoulder; the torso and the leg that it stands on may take part
    directions = rng.normal(size=(COUNT, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    places = shoulder + 1.2 * rng.uniform(0.2, 1.0, (COUNT, 1)) * directions

    q, report = control.inverse_kinematics(robot, {"left_hand": places}, tries=3)
    found = report.success
    print(f"{found.sum()} of {COUNT} places are within reach, after {report.attempts[found].mean():.1f} tries each")
    errors = np.linalg.norm(robot.pose(q[found], "left_hand")[:, :3, 3] - places[found], axis=1)
    print(f"largest error {1e6 * errors.max():.2f} µm; limits are kept")
    return float(errors.max())


if __name__ == "__main__":
    main()
