"""The gaits of `benchmarks.gaits` in crocoddyl, by its own examples, for an interpreter that has it."""

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


def problem(kind: str, urdf: str, srdf: str) -> tuple[crocoddyl.ShootingProblem, np.ndarray]:
    """A gait, and the state that it starts from."""
    model = pin.buildModelFromUrdf(urdf, pin.JointModelFreeFlyer())
    pin.loadReferenceConfigurations(model, srdf, False)
    posture = "half_sitting" if kind == "walk" else "standing"
    x = np.concatenate([model.referenceConfigurations[posture], np.zeros(model.nv)])
    if kind == "walk":
        biped = SimpleBipedGaitProblem(model, "right_sole_link", "left_sole_link")
        return biped.createWalkingProblem(x, 0.6, 0.1, 0.03, 25, 1), x
    gait = SimpleQuadrupedalGaitProblem(model, *FEET)
    if kind == "trot":
        return gait.createTrottingProblem(x, 0.15, 0.1, 1e-2, 25, 2), x
    return gait.createJumpingProblem(x, 0.15, np.array([0.0, 0.3, 0.0]), 1e-2, 10, 20), x


def main(kind: str, urdf: str, srdf: str) -> None:
    """Solve the problem once for each line of the standard input; print milliseconds, iterations and cost.

    A line has the angles of joints to start with by name, if these are not those of the posture, as JSON.
    """
    gait, posture = problem(kind, urdf, srdf)
    model = gait.terminalModel.state.pinocchio
    gait.nthreads = 1
    solver = crocoddyl.SolverFDDP(gait)
    solver.th_stop = 1e-9
    for line in sys.stdin:
        x = posture.copy()
        for name, angle in json.loads(line).items():
            x[model.joints[model.getJointId(name)].idx_q] = angle
        gait.x0 = x
        states, inputs = [x] * (gait.T + 1), gait.quasiStatic([x] * gait.T)
        begin = time.process_time()
        solver.solve(states, inputs, 100, False)
        taken = 1e3 * (time.process_time() - begin)
        print(taken, solver.iter + 1, solver.cost, crocoddyl.__version__, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:4])
