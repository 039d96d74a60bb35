"""Speed of rollouts against `mujoco.rollout`: the same robots, integrator, time step and joint forces.

Part of `make bench`; alone: `python -m benchmarks.rollouts`. MuJoCo has no midpoint method, so that row of Kinetree's
default stands alone. Before the race, both are checked to end in the same state.
"""

from __future__ import annotations

from typing import Any

import mujoco
import mujoco.rollout
import numpy as np
from rich.console import Console

import kinetree as kt
from benchmarks import robots
from benchmarks.mjcf import mjcf
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core, race
from kinetree import simulation
from kinetree.engines.native.threads import set_threads

STEP, STEPS, MANY = 1e-3, 100, 64

Array = np.ndarray[Any, np.dtype[np.float64]]
METHODS = {"semi_implicit_euler": "Euler", "rk4": "RK4", "midpoint": None}


class Peer:
    """`mujoco.rollout` on one thread, with joint forces as applied forces.

    Args:
        model: MuJoCo's model.
        counterpart: Converts coordinates.
    """

    def __init__(self, model: Any, counterpart: Any) -> None:
        self.model, self.counterpart = model, counterpart
        self._data = mujoco.MjData(model)
        self._size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        self._spec = int(mujoco.mjtState.mjSTATE_QFRC_APPLIED)
        self._rollout = mujoco.rollout.Rollout(nthread=0)

    def prepared(self, q: Array, v: Array, tau: Array) -> tuple[Array, Array, Array]:
        """States, forces and memory for the result."""
        m, order = self.model, self.counterpart
        states = np.zeros((len(q), self._size))
        states[:, 1 : 1 + m.nq] = order.to_q(q)
        states[:, 1 + m.nq : 1 + m.nq + m.nv] = order.to_v(v, q)
        forces = np.stack([order.to_v(tau[:, k], q) for k in range(tau.shape[1])], axis=1)
        return states, forces, np.empty((len(q), tau.shape[1], self._size))

    def __call__(self, states: Array, forces: Array, out: Array) -> Array:
        """Roll out; returns the configurations at the end, in MuJoCo's coordinates."""
        self._rollout.rollout(
            self.model, [self._data], states, forces, control_spec=self._spec, nstep=forces.shape[1], state=out
        )
        end: Array = out[:, -1, 1 : 1 + self.model.nq]
        return end


def without_contacts(seconds: float) -> Table:
    """Robots in free motion, one alone and many in lanes.

    Args:
        seconds: How long to go on for each contender.
    """
    table = Table(
        f"rollouts of {STEPS} steps without contacts, per step, and times as fast as mujoco.rollout",
        ["robot", "method", "one robot", "MuJoCo", f"{MANY} robots", "MuJoCo "],
    )
    for name in robots.NAMES:
        robot = robots.load(name)
        model = mujoco.MjModel.from_xml_string(mjcf(name, robot.parts))
        model.opt.timestep = STEP
        names = {joint.name: f"joint{i}" for i, joint in enumerate(robot.model.joints)}
        peer = Peer(model, kt.interop.mujoco(robot.model, model, joints=names))
        for method, theirs in METHODS.items():
            cells = []
            for count in (1, MANY):
                q, v, tau = states(robot.model, count)
                world = simulation.Simulator(robot.model, dt=STEP, method=method)
                single = count == 1
                given = (q[0], v[0], tau[0]) if single else (q, v, tau)
                contenders: dict[str, Any] = {"Kinetree": (world.rollout, [given])}
                if theirs is not None:
                    model.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{theirs.upper()}")
                    arguments = peer.prepared(q, v, tau)
                    _agree(world.rollout(q, v, tau).q[:, -1], peer.counterpart.from_q(peer(*arguments)), robot.model)
                    contenders["MuJoCo"] = (peer, [arguments])
                times = race(contenders, seconds)
                cells.append(f"{times['Kinetree'] / count / STEPS * 1e6:.3g} µs")
                cells.append(f"{times['MuJoCo'] / times['Kinetree']:.1f}×" if theirs else "")
            table.add(f"{name}, nv {robot.model.nv}", method, *cells)
    return table


def states(robot: kt.Model, count: int) -> tuple[Array, Array, Array]:
    """Initial states and joint forces, (count, …) and (count, T, nv)."""
    rng = np.random.default_rng(0)
    q = robot.integrate(np.tile(robot.neutral(), (count, 1)), 0.3 * rng.normal(size=(count, robot.nv)))
    tau = rng.normal(size=(count, STEPS, robot.nv))
    if robot.joints[0].kind == "floating":
        tau[..., :6] = 0.0  # MuJoCo's free joints have forces in world axes
    return q, 0.3 * rng.normal(size=(count, robot.nv)), tau


def _agree(ours: Array, theirs: Array, robot: kt.Model) -> None:
    apart = float(np.abs(robot.difference(ours, theirs)).max())
    # MuJoCo moves the position of a free joint by its velocity in world axes, which is as good to first order
    if not apart < (1e-2 if robot.joints[0].kind == "floating" else 1e-6):
        raise RuntimeError(f"{robot.name}: rollouts of Kinetree and MuJoCo end {apart:.1e} apart")


if __name__ == "__main__":
    set_threads(1)
    pin_to_one_core()
    Console(width=120).print(without_contacts(0.4).rich())
