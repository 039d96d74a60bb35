"""What a user of Pinocchio calls for each function, in Pinocchio's coordinates.

Calls leave small results (a pose, a twist) in Pinocchio's objects; arrays are returned as its binding returns them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio as pin

from benchmarks.robots import Array, Robot

Calls = dict[str, Callable[..., Any]]


def calls(robot: Robot) -> Calls:
    """Pinocchio's calls by the names of Kinetree's functions."""
    m, d = robot.pinocchio, robot.pinocchio.createData()
    number, zero = robot.frames[-1][1], np.zeros(robot.pinocchio.nv)
    local, world = pin.ReferenceFrame.LOCAL, pin.ReferenceFrame.WORLD

    def pose(q: Array) -> Any:
        pin.forwardKinematics(m, d, q)
        return pin.updateFramePlacement(m, d, number).homogeneous

    def poses(q: Array) -> Any:
        pin.framesForwardKinematics(m, d, q)
        return d.oMf

    def velocity(q: Array, v: Array) -> Any:
        pin.forwardKinematics(m, d, q, v)
        return pin.getFrameVelocity(m, d, number, local).vector

    def acceleration(q: Array, v: Array, a: Array) -> Any:
        pin.forwardKinematics(m, d, q, v, a)
        return pin.getFrameAcceleration(m, d, number, local).vector

    def jacobian_rate(q: Array, v: Array) -> Any:
        pin.computeJointJacobiansTimeVariation(m, d, q, v)
        return pin.getFrameJacobianTimeVariation(m, d, number, local)

    def velocity_derivative(q: Array, v: Array) -> Any:
        pin.computeForwardKinematicsDerivatives(m, d, q, v, zero)
        return pin.getFrameVelocityDerivatives(m, d, number, local)

    def energy(q: Array, v: Array) -> Any:
        return pin.computeKineticEnergy(m, d, q, v), pin.computePotentialEnergy(m, d, q)

    def solve(q: Array, x: Array) -> Any:
        pin.crba(m, d, q)
        pin.cholesky.decompose(m, d)
        return pin.cholesky.solve(m, d, x.copy())

    def determinant(q: Array) -> Any:
        pin.crba(m, d, q)
        pin.cholesky.decompose(m, d)
        return np.prod(d.D)

    def log_determinant(q: Array) -> Any:
        pin.crba(m, d, q)
        pin.cholesky.decompose(m, d)
        return np.log(d.D).sum()

    def mobility(q: Array) -> tuple[Array, Array]:
        inverse, J = pin.computeMinverse(m, d, q), pin.computeFrameJacobian(m, d, q, number, local)
        response = inverse @ J.T
        return J @ response, response

    def dynamics(q: Array) -> Any:
        A, response = mobility(q)
        inertia = np.linalg.inv(A)
        consistent = response @ inertia
        return inertia, consistent, np.eye(m.nv) - consistent @ pin.getFrameJacobian(m, d, number, local)

    def step(q: Array, v: Array, tau: Array) -> Any:
        a = pin.aba(m, d, q, v, tau)
        faster = v + 1e-3 * a
        return pin.integrate(m, q, 1e-3 * faster), faster

    def jacobian_dot_v(q: Array, v: Array) -> Any:
        return acceleration(q, v, zero)

    return {
        "inverse_dynamics": lambda q, v, a: pin.rnea(m, d, q, v, a),
        "inverse_dynamics_derivatives": lambda q, v, a: pin.computeRNEADerivatives(m, d, q, v, a),
        "linearize, a=": lambda q, v, a: pin.computeRNEADerivatives(m, d, q, v, a),
        "forward_dynamics": lambda q, v, tau: pin.aba(m, d, q, v, tau),
        "forward_dynamics_derivatives": lambda q, v, tau: pin.computeABADerivatives(m, d, q, v, tau),
        "linearize, tau=": lambda q, v, tau: pin.computeABADerivatives(m, d, q, v, tau),
        "mass_matrix": lambda q: pin.crba(m, d, q),
        "mass_matrix_inverse": lambda q: pin.computeMinverse(m, d, q),
        "mass_matrix_solve": solve,
        "mass_matrix_determinant": determinant,
        "mass_matrix_log_determinant": log_determinant,
        "coriolis_matrix": lambda q, v: pin.computeCoriolisMatrix(m, d, q, v),
        "bias_forces": lambda q, v: pin.nonLinearEffects(m, d, q, v),
        "gravity_forces": lambda q: pin.computeGeneralizedGravity(m, d, q),
        "energy": energy,
        "regressor": lambda q, v, a: pin.computeJointTorqueRegressor(m, d, q, v, a),
        "center_of_mass": lambda q: pin.centerOfMass(m, d, q),
        "center_of_mass_jacobian": lambda q: pin.jacobianCenterOfMass(m, d, q),
        "centroidal_momentum_matrix": lambda q: pin.computeCentroidalMap(m, d, q),
        "pose": pose,
        "pose, all frames": poses,
        "velocity": velocity,
        "acceleration": acceleration,
        "jacobian": lambda q: pin.computeFrameJacobian(m, d, q, number, local),
        'jacobian, "world"': lambda q: pin.computeFrameJacobian(m, d, q, number, world),
        "jacobian_rate": jacobian_rate,
        "jacobian_dot_v": jacobian_dot_v,
        "velocity_derivative": velocity_derivative,
        "integrate": lambda q, v: pin.integrate(m, q, v),
        "difference": lambda q, p: pin.difference(m, q, p),
        "dintegrate": lambda q, v: pin.dIntegrate(m, q, v),
        "ddifference": lambda q, p: pin.dDifference(m, q, p),
        "normalize": lambda q: pin.normalize(m, q),
        "step": step,
        "neutral": lambda: pin.neutral(m),
        "random_configuration": lambda: pin.randomConfiguration(m, -np.ones(m.nq), np.ones(m.nq)),
        "tasks.inverse_inertia": lambda q: mobility(q)[0],
        "tasks.inertia": lambda q: np.linalg.inv(mobility(q)[0]),
        "tasks.dynamics": dynamics,
        "tasks.jacobian": lambda q: pin.computeFrameJacobian(m, d, q, number, local),
        "tasks.jacobian_dot_v": jacobian_dot_v,
        "tasks.rank": lambda q: np.linalg.matrix_rank(mobility(q)[0]),
        "tasks.condition": lambda q: np.linalg.cond(mobility(q)[0]),
        "exp": lambda v: pin.exp6(v[:6]).homogeneous,
        "log": lambda t: pin.log6(t[0]).vector,
    }
