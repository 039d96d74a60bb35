"""An arm holds its hand at a pose by model-predictive control, is pushed, and comes back: here, and in MuJoCo.

The controller solves for half a second ahead, with one iteration every 20 ms, and follows the plan's gains in between.
Run it with `python examples/mpc_push.py`. MuJoCo is left out where it is not installed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

import kinetree as kt
from kinetree import ocp
from kinetree.errors import ModelWarning

STEP, SECONDS, PUSHED = 0.005, 3.0, 1.5  # [s]
BEFORE = np.array([0.3, 0.6, 0.2, 0.8, 0.1, 0.4, 0.0])

Plant = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def followed(mpc: ocp.MPC, plant: Plant, q: np.ndarray, push: Callable[[], None]) -> tuple[float, float]:
    """Control a plant that takes torques and returns its state: the hand's distance at the push, and at the end [m]."""
    robot, target = mpc.problem.robot, mpc.problem.robot.pose(BEFORE, "hand")
    v, state, worst = np.zeros(robot.nv), None, 0.0
    for i in range(round(SECONDS / STEP)):
        command = mpc(q, v, {"hand": target}, state=state, dt=STEP)
        state = command.state
        if i == round(PUSHED / STEP):
            push()
        q, v = plant(command.tau)
        away = float(np.linalg.norm(robot.pose(q, "hand")[:3, 3] - target[:3, 3]))
        worst = max(worst, away) if i > round(PUSHED / STEP) else 0.0
    return worst, away


def main() -> float:
    """Push by 1 rad/s; returns the larger distance at the end [m]."""
    robot = kt.zoo.arm7()
    hold = robot.gravity_forces(BEFORE)
    terms = [ocp.pose("hand", weight=30.0, last=300.0), ocp.state(BEFORE, weight=0.05), ocp.control(hold, weight=1e-4)]
    mpc = ocp.MPC(ocp.Problem(robot, 0.02, 25, terms, limits=ocp.Limits()))
    pushed, ends = np.full(7, 1.0), []

    at = [BEFORE.copy(), np.zeros(7)]

    def stepped(tau: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at[:] = robot.step(at[0], at[1], tau, STEP)
        return at[0], at[1]

    def pushed_here() -> None:
        at[1] = at[1] + pushed

    worst, end = followed(mpc, stepped, BEFORE, pushed_here)
    ends.append(end)
    print(f"Kinetree: pushed away by {1e3 * worst:.0f} mm, {1e3 * end:.2f} mm away at the end")
    try:
        import mujoco
    except ImportError:
        return max(ends)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)  # MJCF has no limits of speed
        model = mujoco.MjModel.from_xml_string(kt.to_mjcf(robot))
    model.opt.timestep = STEP
    data = mujoco.MjData(model)
    data.qpos[:] = BEFORE

    def in_mujoco(tau: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        data.qfrc_applied[:] = tau
        mujoco.mj_step(model, data)
        return data.qpos.copy(), data.qvel.copy()

    def pushed_there() -> None:
        data.qvel[:] += pushed

    worst, end = followed(mpc, in_mujoco, BEFORE, pushed_there)
    ends.append(end)
    print(f"MuJoCo: pushed away by {1e3 * worst:.0f} mm, {1e3 * end:.2f} mm away at the end")
    return max(ends)


if __name__ == "__main__":
    main()
