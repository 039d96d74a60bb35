"""An arm holds its hand at a pose by model-predictive control, is pushed, and comes back: here, and in MuJoCo.

The controller solves for half a second ahead, with one iteration every 20 ms, and follows the plan's gains in between.
In both simulators the hand goes the same way back, to rounding. Try three times the push (`PUSH`); or a tenth of the
torques, `ocp.Limits(margin=0.9)`, which are too weak to come back.

Run it with `python examples/mpc_push.py`, or `python examples/mpc_push.py mpc_push.png` for a picture. MuJoCo is left
out where it is not installed.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np

import kinetree as kt
from kinetree import ocp, simulation
from kinetree.errors import ModelWarning

STEP, SECONDS, PUSHED = 0.005, 3.0, 1.5  # [s]
PUSH = 1.0  # of each joint [rad/s]
BEFORE = np.array([0.3, 0.6, 0.2, 0.8, 0.1, 0.4, 0.0])

Plant = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def followed(mpc: ocp.MPC, plant: Plant, q: np.ndarray, push: Callable[[], None]) -> np.ndarray:
    """Control a plant that takes torques and returns its state: how far the hand is from its target, each step [m]."""
    robot, target = mpc.problem.robot, mpc.problem.robot.pose(BEFORE, "hand")
    v, state, away = np.zeros(robot.nv), None, []
    for i in range(round(SECONDS / STEP)):
        command = mpc(q, v, {"hand": target}, state=state, dt=STEP)
        state = command.state
        if i == round(PUSHED / STEP):
            push()
        q, v = plant(command.tau)
        away.append(np.linalg.norm(robot.pose(q, "hand")[:3, 3] - target[:3, 3]))
    return np.array(away)


def main(picture: str | None = None) -> float:
    """Push it; returns the larger distance at the end [m]."""
    robot = kt.zoo.arm7()
    hold = robot.gravity_forces(BEFORE)
    terms = [ocp.pose("hand", weight=30.0, last=300.0), ocp.state(BEFORE, weight=0.05), ocp.control(hold, weight=1e-4)]
    mpc = ocp.MPC(ocp.Problem(robot, 0.02, 25, terms, limits=ocp.Limits()))
    pushed = np.full(7, PUSH)

    world = simulation.Simulator(robot, dt=STEP, method="semi_implicit_euler")
    at = [BEFORE.copy(), np.zeros(7)]

    def stepped(tau: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at[:] = world.step(at[0], at[1], tau)[:2]
        return at[0], at[1]

    def pushed_here() -> None:
        at[1] = at[1] + pushed

    found = {"Kinetree": followed(mpc, stepped, BEFORE, pushed_here)}
    try:
        import mujoco
    except ImportError:
        print("MuJoCo is not installed: left out")
        return said(found, picture)
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

    found["MuJoCo"] = followed(mpc, in_mujoco, BEFORE, pushed_there)
    return said(found, picture)


def said(found: dict[str, np.ndarray], picture: str | None) -> float:
    """Print how far the hand was from its target in each simulator, and draw it; returns the larger end [m]."""
    for name, away in found.items():
        print(f"{name}: pushed away by {1e3 * away.max():.0f} mm, {1e3 * away[-1]:.2f} mm away at the end")
    if picture is not None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 3), layout="constrained")
        axes = figure.subplots()
        for (name, away), style in zip(found.items(), ("-", "--"), strict=False):
            axes.plot(STEP * np.arange(1, len(away) + 1), 1e3 * away, style, label=name)
        axes.set(xlabel="time [s]", ylabel="hand from its target [mm]")
        axes.legend()
        figure.savefig(picture, dpi=120)
    return float(max(away[-1] for away in found.values()))


if __name__ == "__main__":
    main(*sys.argv[1:2])
