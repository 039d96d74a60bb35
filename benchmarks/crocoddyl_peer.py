"""The problems of `benchmarks.optimal_control` in crocoddyl, for an interpreter that has it."""

from __future__ import annotations

import json
import sys
import time

import crocoddyl
import numpy as np
import pinocchio as pin
from crocoddyl.utils.biped import SimpleBipedGaitProblem
from crocoddyl.utils.quadruped import SimpleQuadrupedalGaitProblem

FEET = ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")


def reach(urdf: str) -> tuple[crocoddyl.ShootingProblem, np.ndarray]:
    """An arm that reaches a pose in 100 steps, and the state that it starts from."""
    model = pin.buildModelFromUrdf(urdf)
    state = crocoddyl.StateMultibody(model)
    motors = crocoddyl.ActuationModelFull(state)
    goal = pin.SE3(pin.utils.rotate("x", 1.0), np.array([0.4, 0.3, 0.4]))
    residuals = {
        "pose": crocoddyl.ResidualModelFramePlacement(state, model.getFrameId("tool0"), goal),
        "state": crocoddyl.ResidualModelState(state),
        "control": crocoddyl.ResidualModelControl(state),
    }
    models = []
    for dt, weights in ((1e-2, {"pose": 1.0, "state": 1e-3, "control": 1e-4}), (0.0, {"pose": 1e3, "state": 0.1})):
        costs = crocoddyl.CostModelSum(state)
        for name, weight in weights.items():
            costs.addCost(name, crocoddyl.CostModelResidual(state, residuals[name]), weight)
        dynamics = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, motors, costs)
        models.append(crocoddyl.IntegratedActionModelEuler(dynamics, dt))
    x = np.concatenate([pin.neutral(model), np.zeros(model.nv)])
    x[1:3] = -1.2, 1.2
    return crocoddyl.ShootingProblem(x, [models[0]] * 100, models[1]), x


def gait(kind: str, urdf: str, srdf: str) -> tuple[crocoddyl.ShootingProblem, np.ndarray]:
    """A gait, and the state that it starts from."""
    model = pin.buildModelFromUrdf(urdf, pin.JointModelFreeFlyer())
    pin.loadReferenceConfigurations(model, srdf, False)
    posture = "half_sitting" if kind == "walk" else "standing"
    x = np.concatenate([model.referenceConfigurations[posture], np.zeros(model.nv)])
    if kind == "walk":
        biped = SimpleBipedGaitProblem(model, "right_sole_link", "left_sole_link")
        return biped.createWalkingProblem(x, 0.6, 0.1, 0.03, 25, 1), x
    quadruped = SimpleQuadrupedalGaitProblem(model, *FEET)
    if kind == "trot":
        return quadruped.createTrottingProblem(x, 0.15, 0.1, 1e-2, 25, 2), x
    return quadruped.createJumpingProblem(x, 0.15, np.array([0.0, 0.3, 0.0]), 1e-2, 10, 20), x


def main(kind: str, *files: str) -> None:
    """Solve a problem once for each line of the standard input; print milliseconds, iterations and cost.

    A line has the angles of joints to start with by name, if these are not the usual ones, as JSON. Inputs hold the
    start, but for the usual start of a reach they are zero.
    """
    problem, usual = reach(*files) if kind == "reach" else gait(kind, *files)
    model = problem.terminalModel.state.pinocchio
    problem.nthreads = 1
    solver = crocoddyl.SolverFDDP(problem)
    solver.th_stop = 1e-9
    for line in sys.stdin:
        x, angles = usual.copy(), json.loads(line)
        for name, angle in angles.items():
            x[model.joints[model.getJointId(name)].idx_q] = angle
        problem.x0 = x
        still = kind == "reach" and not angles
        inputs = [np.zeros(model.nv)] * problem.T if still else problem.quasiStatic([x] * problem.T)
        begin = time.process_time()
        solver.solve([x] * (problem.T + 1), inputs, 100, False)
        taken = 1e3 * (time.process_time() - begin)
        print(taken, solver.iter + 1, solver.cost, crocoddyl.__version__, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
