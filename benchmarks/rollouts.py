"""Speed of rollouts against `mujoco.rollout`: the same robots, integrator, time step and joint forces.

Part of `make bench`; alone: `python -m benchmarks.rollouts`. MuJoCo has no midpoint method, so that row of Kinetree's
default stands alone. Before the race, both are checked to end in the same state.
"""

from __future__ import annotations

import re
import warnings
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
from kinetree.errors import ConvergenceWarning
from kinetree.runtime.threads import set_threads

STEP, STEPS, MANY = 1e-3, 100, 64
#: Steps of many robots: few, so that the least of many times is that of an undisturbed run.
STEPS_OF_MANY = 20

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
        "rollouts without contacts, per step, and times as fast as mujoco.rollout",
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
                steps = STEPS if count == 1 else STEPS_OF_MANY
                q, v, tau = states(robot.model, count, steps)
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
                cells.append(f"{times['Kinetree'] / count / steps * 1e6:.3g} µs")
                cells.append(f"{times['MuJoCo'] / times['Kinetree']:.1f}×" if theirs else "")
            table.add(f"{name}, nv {robot.model.nv}", method, *cells)
    return table


#: The soles of Talos.
SOLES = {"left_sole_link BODY": "leg_left_6_joint", "right_sole_link BODY": "leg_right_6_joint"}
HALF_X, HALF_Y, FRICTION = 0.1, 0.06, 0.7
#: Options of MuJoCo: its default solver with both cones, and the one that is most like ours.
SOLVERS = {
    "Newton, elliptic": 'cone="elliptic" solver="Newton"',
    "Newton, pyramidal": 'cone="pyramidal" solver="Newton"',
    "PGS, elliptic, 25": 'cone="elliptic" solver="PGS" iterations="25"',
}


def with_contacts(seconds: float) -> Table:
    """Talos standing on four corners of each foot.

    Args:
        seconds: How long to go on for each contender.
    """
    robot = robots.load("Talos")
    world = {
        "12": standing(robot.model, None),
        "0": standing(robot.model, 0),
    }
    q, tau = stance(robot.model)
    table = Table(
        "Talos on 8 contacts, per step of semi-implicit Euler, and times as fast as mujoco.rollout",
        ["centrings, at most", "robots", "Kinetree", "residual", *SOLVERS],
    )
    peers = {name: _contact_peer(robot, option) for name, option in SOLVERS.items()}
    for centrings, simulator in world.items():
        residual = _residual(simulator, q, tau)
        for count in (1, MANY):
            steps = STEPS if count == 1 else 5
            many, still, forces = (
                np.tile(q, (count, 1)),
                np.zeros((count, robot.model.nv)),
                np.tile(tau, (count, steps, 1)),
            )
            given = (many[0], still[0], forces[0]) if count == 1 else (many, still, forces)
            contenders: dict[str, Any] = {"Kinetree": (simulator.rollout, [given])}
            contenders |= {name: (peer, [peer.prepared(many, still, forces)]) for name, peer in peers.items()}
            with warnings.catch_warnings():  # the residual is in the table
                warnings.simplefilter("ignore", ConvergenceWarning)
                times = race(contenders, seconds)
            table.add(
                centrings,
                str(count),
                f"{times['Kinetree'] / count / steps * 1e6:.3g} µs",
                f"{residual:.0e}",
                *(f"{times[name] / times['Kinetree']:.1f}×" for name in SOLVERS),
            )
    return table


def contact_derivatives(seconds: float) -> Table:
    """A and B of a step of Talos on four corners of each foot, and gradients, which contain the step.

    `mjd_transitionFD` computes A alone here, by one-sided differences of a step with the same eight contacts.

    Args:
        seconds: How long to go on for each contender.
    """
    robot = robots.load("Talos")
    table = Table(
        "derivatives of a step of Talos on 8 contacts, times as fast as mjd_transitionFD, and in steps of a rollout",
        ["method", "robots", "A, B, modes", "mjd_transitionFD", "vjp", "in steps"],
    )
    q, tau = stance(robot.model)
    nv = robot.model.nv
    q = robot.model.integrate(q, np.r_[np.zeros(5), 2e-6, np.zeros(nv - 6)])  # off the kink at zero height
    peer = _contact_peer(robot, SOLVERS["Newton, elliptic"])
    data, order = mujoco.MjData(peer.model), peer.counterpart
    data.qpos[:], data.qfrc_applied[:] = order.to_q(q), order.to_v(tau, q)
    for _ in range(2):
        mujoco.mj_step(peer.model, data)
    A = np.zeros((2 * nv, 2 * nv))

    def theirs() -> None:
        mujoco.mjd_transitionFD(peer.model, data, 1e-6, 0, A, None, None, None)

    rng = np.random.default_rng(0)
    for method in ("semi_implicit_euler", "midpoint"):
        options = {**standing(robot.model, None)._options, "method": method}
        world = simulation.Simulator(robot.model, **options)
        modes = world.discretize(q, np.zeros(nv), tau).modes
        if not (modes.certain and modes.unique and (modes.contacts == simulation.STICKING).all()):
            raise RuntimeError("the modes of Talos' contacts are not those of standing")
        for count in (1, MANY):
            shape = () if count == 1 else (count,)
            state = tuple(np.broadcast_to(x, (*shape, *x.shape)).copy() for x in (q, np.zeros(nv), tau))
            weights = rng.normal(size=(2, *shape, nv))
            contenders: dict[str, Any] = {
                "A": (world.discretize, [state]), "vjp": (world.step.vjp, [(*state, *weights)]),
                "steps": (world.rollout, [(*state[:2], np.stack([state[2]] * STEPS_OF_MANY, axis=-2))]),
                "MuJoCo": (theirs, [()]),
            }  # fmt: skip
            times = race(contenders, seconds)
            ratio = times["MuJoCo"] * count / times["A"]
            table.add(
                method, str(count), f"{times['A'] / count * 1e6:.3g} µs", f"{ratio:.1f}×",
                f"{times['vjp'] / count * 1e6:.3g} µs", f"{times['vjp'] * STEPS_OF_MANY / times['steps']:.2f}",
            )  # fmt: skip
    return table


def _residual(world: simulation.Simulator, q: Array, tau: Array) -> float:
    """After some steps."""
    v, info = np.zeros(len(tau)), None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(STEPS):
            q, v, info = world.step(q, v, tau)
    return float(info.residual) if info else np.nan


def standing(robot: kt.Model, centrings: int | None) -> simulation.Simulator:
    """Talos on the corners of its soles."""
    corners = [(x, y, 0.0) for x in (-HALF_X, HALF_X) for y in (-HALF_Y, HALF_Y)]
    return simulation.Simulator(
        robot, dt=STEP, method="semi_implicit_euler", contacts=[simulation.Points(sole, corners) for sole in SOLES],
        ground=simulation.Plane(friction=FRICTION), centrings=centrings,
    )  # fmt: skip


def stance(robot: kt.Model) -> tuple[Array, Array]:
    """Bent knees, soles on the floor, and torques that keep it there."""
    bent = {"3": -0.411354, "4": 0.859395, "5": -0.448041}
    q = robot.q_from_dict({f"leg_{side}_{i}_joint": x for side in ("left", "right") for i, x in bent.items()})
    q[2] -= robot.pose(q, list(SOLES))[0, 2, 3]
    J = robot.jacobian(q, list(SOLES), "local_world_aligned").reshape(12, -1)
    g = robot.gravity_forces(q)
    tau = g - J.T @ np.linalg.lstsq(J[:, :6].T, g[:6], rcond=None)[0]
    tau[:6] = 0.0
    return q, tau


def _contact_peer(robot: robots.Robot, option: str) -> Peer:
    """Talos with a box under each foot, on a floor; checked to have eight contacts in the second step."""
    text = re.sub(r"<flag [^>]*/>", '<flag eulerdamp="disable"/>', mjcf("Talos", robot.parts))
    text = text.replace("<option ", f'<option timestep="{STEP}" {option} ')
    geom = f'friction="{FRICTION} 0 0" condim="3"'
    text = text.replace("<worldbody>", f'<worldbody><geom type="plane" size="5 5 .1" {geom}/>')
    frames = {frame.name: frame for frame in robot.model.extra_frames}
    for sole, joint in SOLES.items():
        body = next(b.name for b, j in zip(robot.model.bodies, robot.model.joints, strict=True) if j.name == joint)
        x, y, z = frames[sole].placement[:3, 3]
        box = f'<geom type="box" size="{HALF_X} {HALF_Y} .01" pos="{x} {y} {z + 0.01}" {geom}/>'
        text = re.sub(rf'(<body name="{body}"[^>]*>)', rf"\1{box}", text)
    model = mujoco.MjModel.from_xml_string(text)
    names = {joint.name: f"joint{i}" for i, joint in enumerate(robot.model.joints)}
    peer = Peer(model, kt.interop.mujoco(robot.model, model, joints=names))
    q, tau = stance(robot.model)
    data = mujoco.MjData(model)
    data.qpos[:], data.qfrc_applied[:] = peer.counterpart.to_q(q), peer.counterpart.to_v(tau, q)
    for _ in range(2):
        mujoco.mj_step(model, data)
    if data.ncon != 8:
        raise RuntimeError(f"MuJoCo has {data.ncon} contacts instead of 8")
    return peer


def states(robot: kt.Model, count: int, steps: int) -> tuple[Array, Array, Array]:
    """Initial states and joint forces, (count, …) and (count, T, nv)."""
    rng = np.random.default_rng(0)
    q = robot.integrate(np.tile(robot.neutral(), (count, 1)), 0.3 * rng.normal(size=(count, robot.nv)))
    tau = rng.normal(size=(count, steps, robot.nv))
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
    for made in (without_contacts(0.4), with_contacts(0.4), contact_derivatives(0.4)):
        Console(width=120).print(made.rich())
