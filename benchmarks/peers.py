"""What a user of Pinocchio or MuJoCo writes to get the arrays that Kinetree returns.

Each contender is a function of one state in the peer's own coordinates. It ends when the same NumPy array exists: a
full symmetric matrix, one array of poses. `bare` is the peer's call alone, where delivering takes more. Where a peer
has several ways, all run and the fastest counts. Containers are prepared once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import pinocchio as pin

from benchmarks.mjcf import mjcf
from benchmarks.robots import Array, Robot

FUNCTIONS = {
    "pose": "q",
    "jacobian": "q",
    "inverse_dynamics": "qva",
    "forward_dynamics": "qva",
    "mass_matrix": "q",
    "mass_matrix_inverse": "q",
}

Ways = dict[str, Callable[..., Any]]


@dataclass(frozen=True)
class Peer:
    """One library's ways to compute each function, its bare calls, and batch calls that fill their first argument."""

    name: str
    ways: dict[str, Ways]
    bare: dict[str, Callable[..., Any]]
    batched: dict[str, Callable[..., Any]]
    q: Callable[[Array], Array]
    v: Callable[[Array], Array]


def kinetree_arguments(robot: Robot, function: str) -> tuple[Any, ...]:
    """What follows the arrays in a call of Kinetree."""
    if function == "pose":
        return (tuple(name for name, _ in robot.frames),)
    return (robot.frames[-1][0],) if function == "jacobian" else ()


def pinocchio_peer(robot: Robot) -> Peer:
    """Pinocchio's calls. Its Python binding mirrors the triangle that `crba` and `computeMinverse` fill in C++."""
    model, data = robot.pinocchio, robot.pinocchio.createData()
    numbers = [number for _, number in robot.frames]
    last, count = numbers[-1], len(numbers)
    pool = pin.ModelPool(model, 1)
    local = pin.ReferenceFrame.LOCAL

    def poses(q: Array) -> Array:
        pin.framesForwardKinematics(model, data, q)
        result = np.empty((count, 4, 4))
        frames = data.oMf
        for i in range(count):
            result[i] = frames[numbers[i]].homogeneous
        return result

    def poses_listed(q: Array) -> Array:
        pin.framesForwardKinematics(model, data, q)
        return np.array([frame.homogeneous for frame in data.oMf])[numbers]

    def in_parallel(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda home, q, v, a: call(1, pool, q, v, a, home)

    return Peer(
        name="Pinocchio",
        ways={
            "pose": {"filled": poses, "listed": poses_listed},
            "jacobian": {"one": lambda q: pin.computeFrameJacobian(model, data, q, last, local)},
            "inverse_dynamics": {"rnea": lambda q, v, a: pin.rnea(model, data, q, v, a)},
            "forward_dynamics": {"aba": lambda q, v, a: pin.aba(model, data, q, v, a)},
            "mass_matrix": {"crba": lambda q: pin.crba(model, data, q)},
            "mass_matrix_inverse": {"direct": lambda q: pin.computeMinverse(model, data, q)},
        },
        bare={"pose": lambda q: pin.framesForwardKinematics(model, data, q)},
        batched={
            "inverse_dynamics": in_parallel(pin.rneaInParallel),
            "forward_dynamics": in_parallel(pin.abaInParallel),
        },
        q=lambda q: np.ascontiguousarray(robot.order.to_q(q)),
        v=lambda v: np.ascontiguousarray(robot.order.to_v(v)),
    )


def mujoco_peer(robot: Robot) -> Peer:
    """MuJoCo's calls, with contacts, limits and all other constraints switched off."""
    names = [part.name for part in robot.parts]
    frames = [robot.pinocchio.frames[number] for _, number in robot.frames]
    sites = [(["world", *names][frame.parentJoint], frame.placement.homogeneous) for frame in frames]
    m = mujoco.MjModel.from_xml_string(mjcf(robot.name, robot.parts, sites=sites))
    d = mujoco.MjData(m)
    n, count, last = m.nv, m.nsite, m.nsite - 1
    # Attribute look-ups of the bindings copy nothing but cost time: they are done once, as an expert would.
    qpos, qvel, qacc, applied, inverse = d.qpos, d.qvel, d.qacc, d.qfrc_applied, d.qfrc_inverse
    site_positions, site_matrices = d.site_xpos, d.site_xmat.reshape(count, 3, 3)
    identity = np.eye(n)

    def kinematics(q: Array) -> None:
        qpos[:] = q
        mujoco.mj_kinematics(m, d)

    def position(q: Array) -> None:
        kinematics(q)
        mujoco.mj_comPos(m, d)

    def poses(q: Array) -> Array:
        kinematics(q)
        result = np.zeros((count, 4, 4))
        result[:, :3, :3] = site_matrices
        result[:, :3, 3] = site_positions
        result[:, 3, 3] = 1.0
        return result

    def jacobian(q: Array) -> Array:
        position(q)
        result = np.empty((6, n))
        mujoco.mj_jacSite(m, d, result[3:], result[:3], last)
        return result

    def rne(q: Array, v: Array, a: Array) -> Array:
        position(q)
        qvel[:] = v
        qacc[:] = a
        mujoco.mj_comVel(m, d)
        result = np.empty(n)
        mujoco.mj_rne(m, d, 1, result)
        return result

    def inverse_call(q: Array, v: Array, a: Array) -> Any:
        qpos[:] = q
        qvel[:] = v
        qacc[:] = a
        mujoco.mj_inverse(m, d)
        return inverse.copy()

    def forward(q: Array, v: Array, tau: Array) -> Any:
        qpos[:] = q
        qvel[:] = v
        applied[:] = tau
        mujoco.mj_forward(m, d)
        return qacc.copy()

    def forward_without_sensors(q: Array, v: Array, tau: Array) -> Any:
        qpos[:] = q
        qvel[:] = v
        applied[:] = tau
        mujoco.mj_forwardSkip(m, d, 0, 1)
        return qacc.copy()

    def mass_matrix(q: Array) -> Array:
        position(q)
        mujoco.mj_crb(m, d)
        result = np.empty((n, n))
        mujoco.mj_fullM(m, d, result)
        return result

    def mass_matrix_inverse(q: Array) -> Array:
        position(q)
        mujoco.mj_crb(m, d)
        mujoco.mj_factorM(m, d)
        result = np.empty((n, n))
        mujoco.mj_solveM(m, d, result, identity)
        return result

    return Peer(
        name="MuJoCo",
        ways={
            "pose": {"sites": poses},
            "jacobian": {"jacSite": jacobian},
            "inverse_dynamics": {"rne": rne, "inverse": inverse_call},
            "forward_dynamics": {"forward": forward, "forwardSkip": forward_without_sensors},
            "mass_matrix": {"crb": mass_matrix},
            "mass_matrix_inverse": {"solveM": mass_matrix_inverse},
        },
        bare={},
        batched={},
        q=lambda q: q,
        v=lambda v: _free_joint_velocity(robot, v),
    )


def _free_joint_velocity(robot: Robot, v: Array) -> Array:
    """Velocities with the parts of a free joint exchanged; as random states they need no turning of axes."""
    result: Array = v.copy()
    for joint in robot.model.joints:
        if joint.kind == "floating":
            place = joint.v_slice
            result[..., place] = np.roll(v[..., place], 3, axis=-1)
    return result


def looped(call: Callable[..., Any]) -> Callable[..., None]:
    """A peer without batches, called sample by sample; the first argument takes the results."""

    def run(home: Array, *arrays: Sequence[Array]) -> None:
        for i, sample in enumerate(zip(*arrays)):
            home[i] = call(*sample)

    return run
