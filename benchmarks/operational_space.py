"""Speed of operational-space quantities against Pinocchio and MuJoCo. `make bench`, or as a module.

Λ⁻¹ of m frames with six rows each, then Λ, then Λ, J̄ and N together (in one call of `dynamics`, and one by one from
`at(q)`). Λ⁺ is that of frames which the robot cannot move independently of each other: damped, or a peer's `pinv`.
Numbers marked × say how many times as long the peer takes; µs are Kinetree's own. What a peer's user writes is in
`_Pinocchio` and `_MuJoCo`; containers are prepared once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import mujoco
import numpy as np
import pinocchio as pin
from rich.console import Console

from benchmarks import numbers, robots
from benchmarks.contests import BATCH, PIECE, POOL
from benchmarks.foundation import WIDTH, micro, ratio
from benchmarks.mjcf import mjcf
from benchmarks.robots import Array, Robot
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core, processor, race
from kinetree.runtime.threads import set_threads
from kinetree.tasks.singular import CUT

#: Frames of each robot, those that matter most first.
FRAMES = {
    "Panda": [f"panda_{part}" for part in ("hand", "link5", "link3", "leftfinger", "link7", "link6", "link4", "link2")],
    "ANYmal": [f"{leg}_{part}" for part in ("FOOT", "THIGH") for leg in ("LF", "RF", "LH", "RH")],
    "Talos": [
        *("gripper_left_base_link", "gripper_right_base_link", "left_sole_link", "right_sole_link"),
        *("head_2_link", "torso_2_link", "arm_left_4_link", "arm_right_4_link"),
    ],
    "G1": [
        *("left_rubber_hand", "right_rubber_hand", "left_ankle_roll_link", "right_ankle_roll_link"),
        *("torso_link", "pelvis", "left_elbow_link", "right_elbow_link"),
    ],
}
COUNTS = (1, 2, 4, 8)
#: How many of a robot's frames it can move independently of each other, so that Λ exists. (Six rows of two feet of an
#: ANYmal have as many degrees of freedom, but a fifth of all configurations are close to singular.)
REGULAR = {"Panda": 1, "ANYmal": 1, "Talos": 4, "G1": 4}


class _Pinocchio:
    """What a user of Pinocchio writes."""

    def __init__(self, robot: Robot, names: list[str]) -> None:
        model = self.model = robot.pinocchio
        self.data = model.createData()
        self.numbers = [model.getFrameId(name) for name in names]
        self.constraints, self.constraint_data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        for number in self.numbers:
            frame = model.frames[number]
            kind = pin.ContactType.CONTACT_6D
            constraint = pin.RigidConstraintModel(kind, model, frame.parentJoint, frame.placement, pin.LOCAL)
            self.constraints.append(constraint)
            self.constraint_data.append(constraint.createData())

    def delassus(self, q: Array) -> Any:
        return pin.computeDelassusMatrix(self.model, self.data, q, self.constraints, self.constraint_data, 0.0)

    def jacobians(self, q: Array) -> Array:
        pin.computeJointJacobians(self.model, self.data, q)
        return np.vstack([pin.getFrameJacobian(self.model, self.data, i, pin.LOCAL) for i in self.numbers])

    def dense(self, q: Array) -> Any:
        inverse = pin.computeMinverse(self.model, self.data, q)
        J = self.jacobians(q)
        return J @ inverse @ J.T

    def inertia(self, q: Array) -> Any:
        return np.linalg.inv(self.delassus(q))

    def pseudo_inertia(self, q: Array) -> Any:
        return np.linalg.pinv(self.delassus(q), rcond=CUT, hermitian=True)

    def everything(self, q: Array) -> Any:
        inverse = pin.computeMinverse(self.model, self.data, q)
        J = self.jacobians(q)
        response = inverse @ J.T
        inertia = np.linalg.inv(J @ response)
        consistent = response @ inertia
        return inertia, consistent, np.eye(self.model.nv) - consistent @ J

    def everything_by_delassus(self, q: Array) -> Any:
        inertia = np.linalg.inv(self.delassus(q))
        inverse = pin.computeMinverse(self.model, self.data, q)
        J = self.jacobians(q)
        consistent = inverse @ J.T @ inertia
        return inertia, consistent, np.eye(self.model.nv) - consistent @ J


class _MuJoCo:
    """What a user of MuJoCo writes."""

    def __init__(self, robot: Robot, names: list[str]) -> None:
        bodies = ["world", *(part.name for part in robot.parts)]
        frames = [robot.pinocchio.frames[robot.pinocchio.getFrameId(name)] for name in names]
        sites = [(bodies[frame.parentJoint], frame.placement.homogeneous) for frame in frames]
        m = self.m = mujoco.MjModel.from_xml_string(mjcf(robot.name, robot.parts, sites=sites))
        self.d = mujoco.MjData(m)
        self.qpos = self.d.qpos
        rows, n = 6 * len(names), m.nv
        self.J, self.solved = np.zeros((rows, n)), np.empty((rows, n))
        # Sites are numbered body by body.
        order = sorted(range(len(names)), key=lambda i: frames[i].parentJoint)
        self.places = [(self.J[6 * i + 3 : 6 * i + 6], self.J[6 * i : 6 * i + 3]) for i in order]

    def response(self, q: Array) -> None:
        m, d = self.m, self.d
        self.qpos[:] = q
        mujoco.mj_kinematics(m, d)
        mujoco.mj_comPos(m, d)
        mujoco.mj_crb(m, d)
        mujoco.mj_factorM(m, d)
        for site, (linear, angular) in enumerate(self.places):
            mujoco.mj_jacSite(m, d, linear, angular, site)
        mujoco.mj_solveM(m, d, self.solved, self.J)

    def inverse_inertia(self, q: Array) -> Any:
        self.response(q)
        return self.J @ self.solved.T

    def inertia(self, q: Array) -> Any:
        return np.linalg.inv(self.inverse_inertia(q))

    def pseudo_inertia(self, q: Array) -> Any:
        return np.linalg.pinv(self.inverse_inertia(q), rcond=CUT, hermitian=True)

    def everything(self, q: Array) -> Any:
        inertia = np.linalg.inv(self.inverse_inertia(q))
        consistent = self.solved.T @ inertia
        return inertia, consistent, np.eye(self.m.nv) - consistent @ self.J


def table(robot: Robot, seconds: float) -> Table:
    """All quantities of one robot: a single call, and a sample of a batch."""
    made = Table(
        f"Operational space of {robot.name}, nv {robot.model.nv}",
        ["quantity", "m", "single", "Pinocchio", "its M⁻¹", "MuJoCo", f"of {BATCH}", "Pinocchio", "its M⁻¹", "MuJoCo"],
    )
    for count in COUNTS:
        names = FRAMES[robot.name][:count]
        pinocchio, muj = _Pinocchio(robot, names), _MuJoCo(robot, names)
        ours = [f"{name} BODY" for name in names]
        own = robot.model.tasks(ours).inverse_inertia
        ways = {"Pinocchio": pinocchio.delassus, "M⁻¹": pinocchio.dense, "MuJoCo": muj.inverse_inertia}
        _check(robot, ours, ways)
        _add(made, robot, "Λ⁻¹", count, own, ways, seconds)
        if count > REGULAR[robot.name]:
            ways = {"Pinocchio": pinocchio.pseudo_inertia, "MuJoCo": muj.pseudo_inertia}
            _add(made, robot, "Λ⁺", count, robot.model.tasks(ours).inertia, ways, seconds)
            continue
        _add(
            made,
            robot,
            "Λ",
            count,
            robot.model.tasks(ours).inertia,
            {"Pinocchio": pinocchio.inertia, "MuJoCo": muj.inertia},
            seconds,
        )
        ways = {
            "Pinocchio": pinocchio.everything_by_delassus,
            "M⁻¹": pinocchio.everything,
            "MuJoCo": muj.everything,
        }
        _add(made, robot, "Λ, J̄, N", count, robot.model.tasks(ours).dynamics, ways, seconds)
        _add(made, robot, "one by one", count, partial(_one_by_one, robot, ours), ways, seconds)
    return made


def _one_by_one(robot: Robot, frames: list[str], q: Array) -> Any:
    space = robot.model.tasks(frames).at(q)
    return space.inertia, space.dynamically_consistent_inverse, space.nullspace


def _check(robot: Robot, frames: list[str], ways: dict[str, Callable[..., Any]]) -> None:
    """Refuse to time a peer that computes something else."""
    q = robots.state_pool(robot.model, 1)[0][0]
    for name, way in ways.items():
        reference = "local_world_aligned" if name == "MuJoCo" else "local"
        ours = robot.model.tasks(frames, reference=reference).at(q).inverse_inertia
        theirs = way(q if name == "MuJoCo" else robot.order.to_q(q))
        if name != "MuJoCo":  # linear components come first there
            order = np.arange(len(theirs)).reshape(-1, 2, 3)[:, ::-1].reshape(-1)
            theirs = theirs[np.ix_(order, order)]
        if not np.allclose(ours, theirs, rtol=1e-6, atol=1e-8 * float(np.max(np.abs(theirs)))):
            raise ValueError(f"{robot.name}: Λ⁻¹ of {name} differs from Kinetree's")


def _add(
    made: Table,
    robot: Robot,
    quantity: str,
    count: int,
    own: Callable[..., Any],
    ways: dict[str, Callable[..., Any]],
    seconds: float,
) -> None:
    """Time one quantity and add a row."""
    pool = robots.state_pool(robot.model, POOL)[0]
    whole = robots.state_pool(robot.model, BATCH)[0]
    singles: dict[str, Any] = {"Kinetree": (own, [(q,) for q in map(np.array, pool)])}
    rows, nv = 6 * count, robot.model.nv
    home = np.empty((BATCH, rows, rows))
    homes = (home, np.empty((BATCH, nv, rows)), np.empty((BATCH, nv, nv)))
    # Arrays that exist already are filled, as those of the peers; an operational space makes its own.
    out = {"Λ, J̄, N": {"out": homes}, "one by one": {}}.get(quantity, {"out": home})
    batches: dict[str, Any] = {"Kinetree": (partial(own, **out), [(whole,)])}
    sizes = {"Kinetree": BATCH}
    for name, way in ways.items():
        theirs = pool if name == "MuJoCo" else robot.order.to_q(pool)
        singles[name] = (way, [(q,) for q in map(np.array, theirs)])
        pieces = [(slice(i, i + PIECE), theirs[i : i + PIECE]) for i in range(0, POOL, PIECE)]
        batches[name], sizes[name] = (partial(_loop, way, homes), pieces), PIECE
    single = race(singles, seconds)
    batch = {name: time / sizes[name] for name, time in race(batches, seconds).items()}
    made.add(
        quantity,
        str(count),
        micro(single["Kinetree"]),
        *(ratio(single, name) for name in ("Pinocchio", "M⁻¹", "MuJoCo")),
        micro(batch["Kinetree"]),
        *(ratio(batch, name) for name in ("Pinocchio", "M⁻¹", "MuJoCo")),
    )


def _loop(way: Callable[..., Any], homes: tuple[Array, ...], piece: slice, q: Array) -> None:
    """A peer without batches, called sample by sample."""
    for i, sample in enumerate(q, start=piece.start):
        results = way(sample)
        for home, result in zip(homes, results if isinstance(results, tuple) else (results,)):
            home[i] = result


def main() -> None:
    """Run the benchmarks and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.15, help="time for each contender (default: %(default)s)")
    parser.add_argument("--only", nargs="*", default=[], help="names of robots; all if empty")
    parser.add_argument("--update", action="store_true", help="write the table of Talos into docs/performance.md")
    options = parser.parse_args()
    set_threads(1)
    core = pin_to_one_core()
    console = Console()
    console.width = max(console.width, WIDTH)
    console.print(f"{processor()}, core {core}")
    for name in FRAMES:
        if not options.only or name in options.only:
            made = table(robots.load(name), options.seconds)
            console.print(made.rich())
            if options.update and name == "Talos":
                numbers.write(numbers.PERFORMANCE, "operational space", made.markdown())


if __name__ == "__main__":
    main()
