"""What a user of MuJoCo calls for each function, in MuJoCo's coordinates, with all constraints switched off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np

from benchmarks.mjcf import mjcf
from benchmarks.robots import Array, Robot

Calls = dict[str, Callable[..., Any]]


def calls(robot: Robot) -> Calls:
    """MuJoCo's calls by the names of Kinetree's functions."""
    names = [part.name for part in robot.parts]
    frame = robot.pinocchio.frames[robot.frames[-1][1]]
    site = (["world", *names][frame.parentJoint], frame.placement.homogeneous)
    m = mujoco.MjModel.from_xml_string(mjcf(robot.name, robot.parts, sites=[site]))
    d = mujoco.MjData(m)
    n = m.nv
    qpos, qvel, qacc, applied = d.qpos, d.qvel, d.qacc, d.qfrc_applied
    site_position, site_matrix, total = d.site_xpos[0], d.site_xmat[0], d.subtree_com[0]
    kind = mujoco.mjtObj.mjOBJ_SITE

    def position(q: Array) -> None:
        qpos[:] = q
        mujoco.mj_kinematics(m, d)
        mujoco.mj_comPos(m, d)

    def moving(q: Array, v: Array) -> None:
        position(q)
        qvel[:] = v
        mujoco.mj_comVel(m, d)

    def pose(q: Array) -> Any:
        qpos[:] = q
        mujoco.mj_kinematics(m, d)
        return site_position.copy(), site_matrix.copy()

    def velocity(q: Array, v: Array) -> Any:
        moving(q, v)
        result = np.empty(6)
        mujoco.mj_objectVelocity(m, d, kind, 0, result, 1)
        return result

    def jacobian(q: Array) -> Any:
        position(q)
        result = np.empty((6, n))
        mujoco.mj_jacSite(m, d, result[3:], result[:3], 0)
        return result

    def inverse_dynamics(q: Array, v: Array, a: Array) -> Any:
        moving(q, v)
        qacc[:] = a
        result = np.empty(n)
        mujoco.mj_rne(m, d, 1, result)
        return result

    def bias_forces(q: Array, v: Array) -> Any:
        moving(q, v)
        result = np.empty(n)
        mujoco.mj_rne(m, d, 0, result)
        return result

    def forward_dynamics(q: Array, v: Array, tau: Array) -> Any:
        qpos[:] = q
        qvel[:] = v
        applied[:] = tau
        mujoco.mj_forwardSkip(m, d, 0, 1)
        return qacc.copy()

    def mass_matrix(q: Array) -> Any:
        position(q)
        mujoco.mj_crb(m, d)
        result = np.empty((n, n))
        mujoco.mj_fullM(m, d, result)
        return result

    def solve(q: Array, x: Array) -> Any:
        position(q)
        mujoco.mj_crb(m, d)
        mujoco.mj_factorM(m, d)
        result = np.empty((len(x) // n, n))
        mujoco.mj_solveM(m, d, result, x.reshape(-1, n))
        return result

    def energy(q: Array, v: Array) -> Any:
        position(q)
        qvel[:] = v
        mujoco.mj_crb(m, d)
        mujoco.mj_energyPos(m, d)
        mujoco.mj_energyVel(m, d)
        return d.energy.copy()

    def center_of_mass(q: Array) -> Any:
        position(q)
        return total.copy()

    def center_of_mass_jacobian(q: Array) -> Any:
        position(q)
        result = np.empty((3, n))
        mujoco.mj_jacSubtreeCom(m, d, result, 0)
        return result

    def integrate(q: Array, v: Array) -> Any:
        result = q.copy()
        mujoco.mj_integratePos(m, result, v, 1.0)
        return result

    def difference(q: Array, p: Array) -> Any:
        result = np.empty(n)
        mujoco.mj_differentiatePos(m, result, 1.0, q, p)
        return result

    def normalize(q: Array) -> Any:
        result = q.copy()
        mujoco.mj_normalizeQuat(m, result)
        return result

    def step(q: Array, v: Array, tau: Array) -> Any:
        qpos[:] = q
        qvel[:] = v
        applied[:] = tau
        mujoco.mj_step(m, d)
        return qpos.copy(), qvel.copy()

    def discretize(q: Array, v: Array, tau: Array) -> Any:
        qpos[:] = q
        qvel[:] = v
        applied[:] = tau
        result = np.empty((2 * n, 2 * n))
        mujoco.mjd_transitionFD(m, d, 1e-6, 0, result, None, None, None)
        return result

    identity = np.eye(n).reshape(-1)
    return {
        "inverse_dynamics": inverse_dynamics,
        "forward_dynamics": forward_dynamics,
        "mass_matrix": mass_matrix,
        "mass_matrix_inverse": lambda q: solve(q, identity),
        "mass_matrix_solve": solve,
        "bias_forces": bias_forces,
        "energy": energy,
        "center_of_mass": center_of_mass,
        "center_of_mass_jacobian": center_of_mass_jacobian,
        "pose": pose,
        "velocity": velocity,
        "jacobian": jacobian,
        'jacobian, "world"': jacobian,
        "tasks.jacobian": jacobian,
        "integrate": integrate,
        "difference": difference,
        "normalize": normalize,
        "step": step,
        "Simulator.step": step,
        "discretize": discretize,
    }
