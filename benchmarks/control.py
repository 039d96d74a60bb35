"""Speed of controllers and inverse kinematics against the same laws with Pinocchio and NumPy, pink and mink.

Part of `make bench`; alone: `python -m benchmarks.control`. The operational-space step leads from q, v and poses to
torques: errors, gains, posture, Λ and the law. Pinocchio's user writes it twice: as in the textbook, and as Kinetree
computes it, with one solve and no null-space projector. pink and mink take part if they are installed; like Kinetree,
they solve with DAQP.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pinocchio as pin
from rich.console import Console

import kinetree as kt
from benchmarks import robots
from benchmarks.avoidance import avoidance
from benchmarks.mjcf import mjcf
from benchmarks.robots import Array, Robot
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core, processor, race
from kinetree import control
from kinetree.cli import box
from kinetree.runtime.threads import set_threads

POOL, BATCH, PIECE, POSES = 64, 1024, 16, 1000
KP, KD, KP0, KD0 = 100.0, 20.0, 25.0, 10.0
HUMANOID = ["left_hand", "right_hand"]
TALOS = ["gripper_left_base_link", "gripper_right_base_link", "left_sole_link", "right_sole_link"]


def humanoid() -> Robot:
    """The zoo's humanoid in both libraries."""
    return robots.from_pinocchio("humanoid24", pin.buildModelFromXML(kt.to_urdf(kt.zoo.humanoid24())))


class _Pinocchio:
    """What a user of Pinocchio writes: a step of operational-space control."""

    def __init__(self, robot: Robot, names: list[str], posture: Array) -> None:
        self.model, self.data = robot.pinocchio, robot.pinocchio.createData()
        self.frames = [self.model.getFrameId(name) for name in names]
        self.posture, self.zero = posture, np.zeros(self.model.nv)
        self.order = np.r_[3:6, 0:3]  # angular components first

    def _rows(self, v: Array, poses: Array) -> tuple[Array, Array, Array]:
        """J, J̇v and b."""
        model, data = self.model, self.data
        J, drift = np.empty((6 * len(self.frames), model.nv)), np.empty(6 * len(self.frames))
        error = np.empty_like(drift)
        for i, frame in enumerate(self.frames):
            at = slice(6 * i, 6 * i + 6)
            now = pin.updateFramePlacement(model, data, frame)
            J[at] = pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED)[self.order]
            rate = pin.getFrameClassicalAcceleration(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
            drift[6 * i : 6 * i + 3], drift[6 * i + 3 : 6 * i + 6] = rate.angular, rate.linear
            E = poses[i, :3, :3] @ now.rotation.T
            error[6 * i : 6 * i + 3] = 0.5 * (E[2, 1] - E[1, 2]), 0.5 * (E[0, 2] - E[2, 0]), 0.5 * (E[1, 0] - E[0, 1])
            error[6 * i + 3 : 6 * i + 6] = poses[i, :3, 3] - now.translation
        return J, drift, KP * error - KD * (J @ v)

    def _pull(self, q: Array, v: Array) -> Array:
        pull: Array = KP0 * pin.difference(self.model, q, self.posture) - KD0 * v
        return pull

    def lean(self, q: Array, v: Array, poses: Array) -> Array:
        """τ = ID(q, v, a₀) + Jᵀf."""
        model, data = self.model, self.data
        inverse = pin.computeMinverse(model, data, q)
        pin.computeJointJacobians(model, data, q)
        pin.forwardKinematics(model, data, q, v, self.zero)
        J, drift, b = self._rows(v, poses)
        a0 = self._pull(q, v)
        f = np.linalg.solve(J @ inverse @ J.T, b - drift - J @ a0)
        tau: Array = pin.rnea(model, data, q, v, a0) + J.T @ f
        return tau

    def textbook(self, q: Array, v: Array, poses: Array) -> Array:
        """τ = Jᵀ(Λ b + μ + p) + Nᵀ(M a₀ + C + g)."""
        model, data = self.model, self.data
        pin.computeAllTerms(model, data, q, v)
        inverse = pin.computeMinverse(model, data, q)
        pin.forwardKinematics(model, data, q, v, self.zero)
        J, drift, b = self._rows(v, poses)
        inertia = np.linalg.inv(J @ inverse @ J.T)
        consistent = inverse @ J.T @ inertia
        N = np.eye(model.nv) - consistent @ J
        bias = consistent.T @ data.nle - inertia @ drift
        tau: Array = J.T @ (inertia @ b + bias) + N.T @ (data.M @ self._pull(q, v) + data.nle)
        return tau


def operational_space(seconds: float) -> Table:
    """A step from state and targets to torques, single and in batches.

    Args:
        seconds: How long to go on for each contender.
    """
    made = Table(
        "operational-space control, from q, v and poses to torques; × Pinocchio and NumPy",
        ["robot", "rows", "single", "lean", "textbook", f"of {BATCH}", "lean ", "textbook "],
    )
    for robot, names in ((humanoid(), HUMANOID), (robots.load("Talos"), TALOS)):
        model, frames = robot.model, [_frame(robot, name) for name in names]
        rng = np.random.default_rng(0)
        rest = model.neutral()
        q = model.integrate(rest, 0.3 * rng.normal(size=(BATCH, model.nv)))
        v, poses = rng.normal(size=(BATCH, model.nv)), model.pose(model.integrate(q, 0.05 * np.ones(model.nv)), frames)
        driven = control.OperationalSpace(
            model, [control.Goal(frame, KP, KD) for frame in frames], posture=control.Posture(rest, KP0, KD0),
            undriven=[],
        )  # fmt: skip
        peer = _Pinocchio(robot, names, robot.order.to_q(rest))
        theirs = list(zip(robot.order.to_q(q), robot.order.to_v(v), poses, strict=True))
        for way in (peer.lean, peer.textbook):
            found = robot.order.from_v(way(*theirs[0]))
            if not np.allclose(found, driven.torques(q[0], v[0], poses[0]), rtol=1e-6, atol=1e-6 * np.abs(found).max()):
                raise ValueError(f"{robot.name}: Pinocchio's torques differ")
        pool = [tuple(np.array(x) for x in state) for state in zip(q[:POOL], v[:POOL], poses[:POOL], strict=True)]
        singles: dict[str, Any] = {
            "Kinetree": (driven.torques, pool),
            "lean": (peer.lean, theirs[:POOL]),
            "textbook": (peer.textbook, theirs[:POOL]),
        }
        home = np.empty((BATCH, model.nv))
        pieces = [(theirs[i : i + PIECE],) for i in range(0, POOL, PIECE)]
        batches: dict[str, Any] = {
            "Kinetree": (partial(driven.torques, out=home), [(q, v, poses)]),
            "lean": (partial(_loop, peer.lean, home), pieces),
            "textbook": (partial(_loop, peer.textbook, home), pieces),
        }
        single = race(singles, seconds)
        batch = race(batches, seconds)
        batch = {name: time / (BATCH if name == "Kinetree" else PIECE) for name, time in batch.items()}
        cells = [f"{model.name}, nv {model.nv}", str(6 * len(names))]
        for times in (single, batch):
            cells.append(_micro(times["Kinetree"]))
            cells += [f"{times[name] / times['Kinetree']:.1f}×" for name in ("lean", "textbook")]
        made.add(*cells)
    return made


def closed_chain(seconds: float) -> Table:
    """The humanoid that holds a box with both hands, its other foot on the ground.

    Args:
        seconds: How long to go on for each contender.
    """
    made = Table(
        "closed chain of humanoid and box: constraints 18 rows, limits, constraint forces; commands per second",
        ["state", "by names", "by arrays", "of 256", "from the last state"],
    )
    setup = box.experiment("welded")
    robot, whole = setup.robot, setup.controller
    controller = control.OperationalSpace(
        robot, whole.levels[0], posture=whole.posture, constraints=setup.held, bounds=whole.bounds,
        squeeze={"box": box.SQUEEZE},
    )  # fmt: skip
    waist, rest = robot.joint("waist_pitch"), np.zeros(robot.nv)
    bent, moving = setup.start.copy(), rest.copy()
    bent[waist.q_start], moving[waist.v_start] = 1.19, 3.0
    for name, q, v in (("no joint at a limit", setup.start, rest), ("waist at its limit", bent, moving)):
        pose = robot.pose(setup.start, "box")
        many = np.repeat(q[None], 256, axis=0), np.repeat(v[None], 256, axis=0), pose[None]
        last = controller(*many[:2], {"box": pose})
        times = race(
            {
                "names": (controller, [(q, v, {"box": pose})] * POOL),
                "arrays": (controller.torques, [(q, v, pose[None])] * POOL),
                "batch": (controller.torques, [many]),
                "warm": (partial(controller, state=last.state), [(*many[:2], {"box": pose})]),
            },
            seconds,
        )
        rates = [1.0 / times["names"], 1.0 / times["arrays"], 256.0 / times["batch"], 256.0 / times["warm"]]
        made.add(name, *(f"{1e-3 * rate:.1f} kHz" for rate in rates))
    return made


def differential(seconds: float) -> Table:
    """A step of differential inverse kinematics.

    Args:
        seconds: How long to go on for each contender.
    """
    made = Table(
        "differential inverse kinematics within limits; × pink and mink, all with DAQP",
        ["robot", "frames", "Kinetree", "pink", "mink"],
    )
    for robot, names in ((robots.load("Panda"), ["panda_hand"]), (robots.load("Talos"), TALOS)):
        model, frames = robot.model, [_frame(robot, name) for name in names]
        low, high = model.lower_limits, model.upper_limits
        bounded = np.isfinite(low) & np.isfinite(high)
        rest, rng = model.neutral(), np.random.default_rng(1)
        rest[bounded] = 0.5 * (low[bounded] + high[bounded])
        still = np.array([joint.nq == 1 for joint in model.joints for _ in range(joint.nv)], dtype=float)
        q = model.integrate(rest, 0.05 * still * rng.normal(size=(POOL, model.nv)))
        inside = 0.05 * (high - low)[bounded]
        q[:, bounded] = np.clip(q[:, bounded], low[bounded] + inside, high[bounded] - inside)
        poses = np.repeat(model.pose(rest, frames)[None], POOL, axis=0)
        poses[..., :3, 3] += 0.02 * rng.normal(size=(POOL, len(frames), 3))
        own = control.DifferentialIK(model, [control.Goal(frame) for frame in frames], posture=rest)
        contenders: dict[str, Any] = {
            "Kinetree": (own, [(q[i], dict(zip(frames, poses[i], strict=True)), 0.01) for i in range(POOL)])
        }
        for name, peer in (("pink", _pink), ("mink", _mink)):
            made_by = peer(robot, names, rest, q, poses)
            if made_by is not None:
                contenders[name] = made_by
        times = race(contenders, seconds)
        ratios = [f"{times[n] / times['Kinetree']:.1f}×" if n in times else "not installed" for n in ("pink", "mink")]
        made.add(f"{robot.name}, nv {model.nv}", str(len(names)), _micro(times["Kinetree"]), *ratios)
    return made


def _pink(robot: Robot, names: list[str], rest: Array, q: Array, poses: Array) -> Any:
    try:
        import pink
        from pink.tasks import FrameTask, PostureTask
    except ImportError:
        return None
    model = robot.pinocchio
    configuration = pink.Configuration(model, model.createData(), robot.order.to_q(rest))
    tasks = [FrameTask(name, position_cost=1.0, orientation_cost=1.0, lm_damping=0.0) for name in names]
    posture = PostureTask(cost=1e-3)
    posture.set_target(robot.order.to_q(rest))
    limits = [pink.limits.ConfigurationLimit(model), pink.limits.VelocityLimit(model)]

    def step(q: Array, targets: list[Any]) -> Any:
        configuration.update(q)
        for task, target in zip(tasks, targets, strict=True):
            task.set_target(target)
        return pink.solve_ik(
            configuration, [*tasks, posture], 0.01, solver="daqp", damping=1e-6, limits=limits, safety_break=False
        )

    return step, [(robot.order.to_q(q[i]), [pin.SE3(T) for T in poses[i]]) for i in range(len(q))]


def _mink(robot: Robot, names: list[str], rest: Array, q: Array, poses: Array) -> Any:
    try:
        import mink
        import mujoco
    except ImportError:
        return None
    model = robot.model
    bodies = ["world", *(part.name for part in robot.parts)]
    frames = [robot.pinocchio.frames[robot.pinocchio.getFrameId(name)] for name in names]
    order = sorted(range(len(names)), key=lambda i: frames[i].parentJoint)  # sites are numbered body by body
    sites = [(bodies[frame.parentJoint], frame.placement.homogeneous) for frame in frames]
    number = itertools.count()
    text = mjcf(robot.name, robot.parts, sites=sites)
    text = re.sub("<site ", lambda _: f'<site name="site{next(number)}" ', text)
    number = itertools.count()
    text = re.sub("<(joint|freejoint) ", lambda found: f'<{found[1]} name="joint{next(number)}" ', text)
    m = mujoco.MjModel.from_xml_string(text)
    for i, joint in enumerate(model.joints):
        if joint.nq == 1:
            m.jnt_limited[i], m.jnt_range[i] = 1, (joint.limits.lower[0], joint.limits.upper[0])
    configuration = mink.Configuration(m)
    tasks = [mink.FrameTask(f"site{i}", "site", 1.0, 1.0) for i in range(len(names))]
    posture = mink.PostureTask(m, cost=1e-3)
    counterpart = kt.interop.mujoco(model, m, joints={joint.name: f"joint{i}" for i, joint in enumerate(model.joints)})
    posture.set_target(counterpart.to_q(rest))
    fastest = {f"joint{i}": float(joint.limits.velocity[0]) for i, joint in enumerate(model.joints) if joint.nq == 1}
    limits = [mink.ConfigurationLimit(m), mink.VelocityLimit(m, fastest)]

    def step(q: Array, targets: list[Any]) -> Any:
        configuration.update(q)
        for task, target in zip(tasks, targets, strict=True):
            task.set_target(target)
        return mink.solve_ik(configuration, [*tasks, posture], 0.01, "daqp", damping=1e-6, limits=limits)

    return step, [(counterpart.to_q(q[i]), [mink.SE3.from_matrix(poses[i][k]) for k in order]) for i in range(len(q))]


def poses(seconds: float) -> Table:
    """Inverse kinematics of many poses, and a cycle of whole-body control.

    Args:
        seconds: How long to go on for each contender.
    """
    made = Table("inverse kinematics of poses; whole-body quadratic programme", ["problem", "each", "found"])
    robot = robots.load("Panda")
    model, frame = robot.model, _frame(robot, "panda_hand")
    reached = np.random.default_rng(0).uniform(model.lower_limits, model.upper_limits, (POSES, model.nq))
    targets = {frame: model.pose(reached, frame)}
    _, report = control.inverse_kinematics(model, targets)
    times = race({"poses": (control.inverse_kinematics, [(model, targets)])}, seconds)
    made.add(f"Panda, {POSES} random reachable poses", _micro(times["poses"] / POSES), str(int(report.success.sum())))
    whole, q, v, targets = talos_on_two_feet()
    times = race({"cycle": (whole, [(q, v, targets)])}, seconds)
    made.add("Talos on two feet, 62 variables: a cycle", _micro(times["cycle"]), "")
    return made


def talos_on_two_feet() -> tuple[control.WholeBody, Array, Array, dict[str, Any]]:
    """A whole-body controller of Talos, a state, and targets."""
    robot = robots.load("Talos")
    model = robot.model
    bent = {"3": -0.411354, "4": 0.859395, "5": -0.448041}
    q = model.q_from_dict({f"leg_{side}_{i}_joint": a for side in ("left", "right") for i, a in bent.items()})
    soles = [_frame(robot, f"{side}_sole_link") for side in ("left", "right")]
    hand, torso = _frame(robot, TALOS[0]), _frame(robot, "torso_2_link")
    goals = [
        control.Goal(kt.CenterOfMassTask(), weight=10.0),
        control.Goal(kt.Task(hand, "position")),
        control.Goal(kt.Task(torso, "orientation")),
    ]
    whole = control.WholeBody(
        model, goals, posture=control.Posture(q), contacts=[control.Foot(sole, (0.2, 0.12)) for sole in soles],
        bounds=control.Bounds(position=20.0, velocity=20.0, torque=True),
    )  # fmt: skip
    lower = model.center_of_mass(q) - np.array([0.0, 0.0, 0.02])
    moved = {"center_of_mass": lower, hand: model.pose(q, hand)[:3, 3] + 0.05}
    return whole, q, np.zeros(model.nv), moved


def _frame(robot: Robot, name: str) -> str:
    """The name in Kinetree of a frame of Pinocchio."""
    number = robot.pinocchio.getFrameId(name)
    return next(own for own, theirs in robot.frames if theirs == number)


def _loop(way: Callable[..., Array], home: Array, states: list[tuple[Array, ...]]) -> None:
    """A peer without batches, called sample by sample."""
    for i, state in enumerate(states):
        home[i] = way(*state)


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} µs"


TABLES = (operational_space, closed_chain, differential, avoidance, poses)


def main() -> None:
    """Print the tables."""
    set_threads(1)
    core = pin_to_one_core()
    console = Console()
    console.width = max(console.width, 110)
    console.print(f"{processor()}, core {core}")
    for table in TABLES:
        console.print(table(0.3).rich())


if __name__ == "__main__":
    main()
