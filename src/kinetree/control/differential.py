"""Differential inverse kinematics: the joint velocities that bring goals closer to their targets, within limits.

A step Δ of the joints in the time dt solves the quadratic program

    min  Σ w ‖J Δ − α e‖² + w₀² ‖Δ − (q_ref ⊖ q)‖² + λ ‖Δ‖²      λ = λ₀ + μ Σ w ‖α e‖²           (1)
         |Δ| ≤ v_max dt         γ (q_lo ⊖ q) ≤ Δ ≤ γ (q_hi ⊖ q)                                  (2)

with e the rotation vector and displacement to each target (`pose_error`), in world axes: origins move along straight
lines. One compiled recursion solves (1); where its step leaves (2), DAQP solves both. Nothing is kept from one call to
the next, so a sample has the same result alone and in a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kinetree.compiler.formats import require_double
from kinetree.control.command import Remade
from kinetree.control.goals import Posture, chosen_error, motions, nonnegative, start_of
from kinetree.control.quadratic import INFINITE, require_solver
from kinetree.control.targets import Targets
from kinetree.errors import InputError, UnknownNameError
from kinetree.model.model import Model
from kinetree.runtime import arguments
from kinetree.runtime.bound import standard_arithmetic
from kinetree.spatial.value import Array

_SOLVED = 1


class DifferentialIK(Remade):
    """Velocities that lead goals to their targets. Frozen; single or in batches. Needs `kinetree[qp]`.

    Args:
        robot: The robot.
        goals: `Goal`s with weights, names of frames or tasks. Their gains are not used.
        posture: Configuration to which the remaining motion leads; the neutral one by default.
        posture_weight: Its weight w₀.
        gain: Share α of the error that one step removes; one for all goals, or by goal name, 1 for those left out.
        damping: Weight λ₀ of the step, which limits speeds close to singularities.
        lm_damping: Weight μ that grows with the error, as of Levenberg and Marquardt: far from targets that cannot be
            reached, steps are small and do not oscillate.
        limits: Whether joint positions and velocities stay within their limits.
        approach: Share γ of the way to a limit that one step may take.
        error: Error between a pose and its target, as of `OperationalSpace`. "rotation_vector" moves the frame's origin
            straight; "log6" follows the screw motion, with J its exact rate, as pink does.

    Raises:
        ImportError: DAQP is not installed.
        InputError: Goals given twice, a posture of another robot, or weights that leave the motion undetermined.
    """

    def __init__(
        self,
        robot: Model,
        goals: Any,
        *,
        posture: Any = None,
        posture_weight: float = 1e-3,
        gain: float | Mapping[str, float] = 1.0,
        damping: float = 1e-6,
        lm_damping: float = 0.0,
        limits: bool = True,
        approach: float = 0.5,
        error: str = "rotation_vector",
    ) -> None:
        require_double(robot.mechanism, "DifferentialIK")
        self._solve = require_solver("DifferentialIK").solve
        self.robot, self.goals = robot, motions("DifferentialIK", goals)
        posture = posture.q if isinstance(posture, Posture) else posture
        self._rest = start_of(robot, None, posture, "DifferentialIK")
        self._weight = nonnegative("posture_weight", posture_weight) ** 2
        self._damping = nonnegative("damping", damping)
        if not self._weight + self._damping > 0.0:
            raise InputError("posture_weight and damping are both zero, so the remaining motion is undetermined")
        gains, approach_ = self._gains(gain), nonnegative("approach", approach)
        if not all(0.0 < one <= 1.0 for one in (*gains, approach_)):
            raise InputError(f"gain={gain!r} and approach={approach!r} are shares, above zero and at most one")
        tasks = robot.tasks([goal.task for goal in self.goals], reference="local_world_aligned")
        self._kernel = tasks.core.recursions.differential_step(chosen_error(error, self.goals))
        self._program = tasks.core.recursions.differential_program
        self._targets = Targets(robot, self.goals, self._rest)
        self._squares = np.array([goal.weight for goal in self.goals for _ in goal.gains])
        total, positive = self._weight + self._damping, self._squares > 0.0
        softness = np.where(positive, 1.0 / np.where(positive, self._squares, 1.0), INFINITE / total)
        rows = [one for one, goal in zip(gains, self.goals, strict=True) for _ in goal.gains]
        self._rates = np.stack([rows, self._squares, softness], axis=-1)
        self._shares = total, nonnegative("lm_damping", lm_damping), self._weight, approach_
        ends, bounded = np.tile([-np.inf, np.inf], (robot.nq, 1)), np.zeros((robot.nv, 2))
        for joint in robot.joints:
            if joint.nq == joint.nv == 1 and limits:
                ends[joint.q_start] = robot.lower_limits[joint.q_start], robot.upper_limits[joint.q_start]
                bounded[joint.v_start] = np.isfinite(ends[joint.q_start])
        fastest = robot.velocity_limits if limits else np.full(robot.nv, np.inf)
        self._bounds = ends, np.where(np.isfinite(fastest) & (fastest > 0.0), fastest, INFINITE), bounded
        self._rows, self._kinds = np.zeros((0, robot.nv)), np.zeros(robot.nv, dtype=np.int32)

    def _gains(self, gain: float | Mapping[str, float]) -> list[float]:
        """The gain of each goal."""
        if not isinstance(gain, Mapping):
            return [nonnegative("gain", gain)] * len(self.goals)
        names = tuple(goal.name for goal in self.goals)
        for name in gain:
            if name not in names:
                raise UnknownNameError("goal (needed for gain=)", name, names)
        return [nonnegative(f"the gain of {name!r}", gain.get(name, 1.0)) for name in names]

    def __repr__(self) -> str:
        return f"<DifferentialIK of {self.robot.name}: {', '.join(goal.name for goal in self.goals)}>"

    def compile(self) -> None:
        """Compile everything that later calls need."""
        self(self._rest, dt=1.0)

    def __call__(self, q: Any, targets: Mapping[str, Any] | None = None, dt: float = 0.01) -> Array:
        """Joint velocities, (…, nv); `robot.integrate(q, v, dt)` takes the step.

        Args:
            q: Configuration, (…, nq).
            targets: By goal name, a pose (…, 4, 4) or a position (…, 3). Goals without one stay where they are at the
                posture.
            dt: Length of the step [s].

        Raises:
            InputError: A target of the wrong shape.
            UnknownNameError: A target without a goal.
        """
        if not nonnegative("dt", dt) > 0.0:
            raise InputError(f"dt={dt!r} is not a positive time step")
        wanted = self._targets.read(targets, None, 0.0)
        q = arguments.doubles("control", "q", q, (self.robot.nq,))
        batch = q.shape[:-1]
        self._targets.require_batch(targets, wanted.batch, batch)
        shares = np.array([*self._shares, dt])
        found = self._kernel(q, self._rest, wanted.target, self._rates, shares, *self._bounds)
        step, error, J, pull, damping, low, high, beyond, fault = found
        self._targets.require_poses(fault if batch else fault.item(), wanted, targets)
        if not batch:
            if beyond.item() > 0.0:
                H, g = self._program(J, error, pull, self._squares, self._factors(damping))
                step = self._bounded(H, g, low, high)
            alone: Array = step / dt
            return alone
        outside = beyond > 0.0
        with standard_arithmetic():
            if outside.any():
                given = (x[outside] for x in (J, error, pull))
                problems = self._program(*given, self._squares, self._factors(damping[outside]))
                each = zip(*problems, low[outside], high[outside], strict=True)
                step[outside] = [self._bounded(*problem) for problem in each]
            together: Array = step / dt
        return together

    def _factors(self, damping: Array) -> Array:
        """What the program takes besides rows, whose errors have their gains already: 1, w₀² and d, (…, 3)."""
        factors = np.empty((*damping.shape, 3))
        factors[..., 0], factors[..., 1], factors[..., 2] = 1.0, self._weight, self._shares[0] + damping
        return factors

    def _bounded(self, H: Array, g: Array, low: Array, high: Array) -> Array:
        """Solve (1) and (2) by DAQP."""
        # H is positive definite: no proximal terms
        x, _, flag, _ = self._solve(H, g, self._rows, high.copy(), low.copy(), self._kinds, eps_prox=0.0)
        if flag != _SOLVED:
            raise InputError(f"differential inverse kinematics: DAQP stops with flag {flag}; weights are too far apart")
        # the solver keeps bounds to its tolerance only
        found: Array = np.minimum(np.maximum(x, low), high)
        return found
