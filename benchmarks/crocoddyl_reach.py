"""The reach of `benchmarks.optimal_control` in crocoddyl, for an interpreter that has it."""

from __future__ import annotations

import json
import sys
import time

import crocoddyl
import numpy as np
import pinocchio as pin

STEPS, DT = 100, 1e-2


def main(urdf: str) -> None:
    """Solve the problem once for each line of the standard input; print milliseconds, iterations and cost.

    A line has the angles to start with as JSON, with torques that hold them; or else none, which is a start with zero
    torques.
    """
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
    for dt, weights in ((DT, {"pose": 1.0, "state": 1e-3, "control": 1e-4}), (0.0, {"pose": 1e3, "state": 0.1})):
        costs = crocoddyl.CostModelSum(state)
        for name, weight in weights.items():
            costs.addCost(name, crocoddyl.CostModelResidual(state, residuals[name]), weight)
        dynamics = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, motors, costs)
        models.append(crocoddyl.IntegratedActionModelEuler(dynamics, dt))
    x = np.concatenate([pin.neutral(model), np.zeros(model.nv)])
    x[1:3] = -1.2, 1.2
    problem = crocoddyl.ShootingProblem(x, [models[0]] * STEPS, models[1])
    problem.nthreads = 1
    solver = crocoddyl.SolverFDDP(problem)
    solver.th_stop = 1e-9
    for line in sys.stdin:
        angles = json.loads(line)
        start = np.concatenate([angles, np.zeros(model.nv)]) if angles else x
        problem.x0 = start
        inputs = problem.quasiStatic([start] * STEPS) if angles else [np.zeros(model.nv)] * STEPS
        begin = time.process_time()
        solver.solve([start] * (STEPS + 1), inputs, 100, False)
        taken = 1e3 * (time.process_time() - begin)
        print(taken, solver.iter, solver.cost, crocoddyl.__version__, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
