"""Differential inverse kinematics: the joint velocities that bring goals closer to their targets, within limits.

A step Δ of the joints in the time dt solves the quadratic program

    min  Σ w ‖J Δ − α e‖² + w₀² ‖Δ − (q_ref ⊖ q)‖² + λ ‖Δ‖²      λ = λ₀ + μ Σ w ‖α e‖²           (1)
         |Δ| ≤ v_max dt         γ (q_lo ⊖ q) ≤ Δ ≤ γ (q_hi ⊖ q)                                  (2)
         J_d Δ ≥ −γ (d − d_min)     for the nearest pairs of shapes (`kinetree.control.avoid`)    (3)

with e the rotation vector and displacement to each target (`pose_error`), in world axes: origins move along straight
lines. One compiled recursion solves (1); where its step leaves (2) or (3), DAQP solves all. Nothing is kept from one
call to the next, so a sample has the same result alone and in a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kinetree.compiler.formats import require_double
from kinetree.control.avoid import Avoid, Avoidance
from kinetree.control.command import Remade
from kinetree.control.goals import Posture, chosen_error, motions, nonnegative, start_of
from kinetree.control.quadratic import INFINITE, require_solver
from kinetree.control.targets import Targets
from kinetree.errors import InputError, UnknownNameError
from kinetree.model.collision_pairs import CollisionPairs
from kinetree.model.model import Model
from kinetree.runtime import arguments
from kinetree.runtime.bound import standard_arithmetic
from kinetree.spatial.value import Array

# DAQP's exit flags for solutions, without and with rows that give way, and its kind of such rows.
_SOLVED, _RELAXED, _SOFT = 1, 2, 8


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
        approach: Share γ of the way to a limit that one step may take, and of the distance that may get lost.
        avoid: Pairs of shapes that stay apart: `Avoid`, or pairs of `robot.collision_pairs`. Pairs that start too close
            part; where limits do not permit it, as far as they do.
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
        avoid: Avoid | CollisionPairs | None = None,
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
        avoided = Avoid.of(avoid)
        self._avoid = None if avoided is None or not len(avoided.pairs) else Avoidance(robot, avoided, approach_)

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
        rows, nv = len(self._squares), self.robot.nv
        self._program(np.zeros((rows, nv)), np.zeros(rows), np.zeros(nv), self._squares, self._factors(np.zeros(())))
        self.robot.integrate(self._rest, np.zeros(nv))

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
        terms, outside = (J, error, pull, damping, low, high), beyond > 0.0
        if self._avoid is None:
            step = self._solved(step, outside, terms)
        else:
            care = outside | self._avoid.broken(q, step)
            if not batch and care:
                step = self._apart(self._avoid, q, step, outside, terms)
            elif care.any():
                some = tuple(x[care] for x in terms)
                step[care] = self._apart(self._avoid, q[care], step[care], outside[care], some)
        if not batch:
            alone: Array = step / dt
            return alone
        with standard_arithmetic():
            together: Array = step / dt
        return together

    def _apart(self, rows: Avoidance, q: Array, step: Array, outside: Any, terms: tuple[Array, ...]) -> Array:
        """The step within (2) and (3), and corrected where it ends with pairs too close."""
        near = rows.at(q)
        step = self._solved(step, outside | near.broken(step), terms, near.J, near.low)
        short, after = near.short(step)
        if short.any():
            step = self._solved(step, short, terms, near.J, near.corrected(step, after))
        return step

    def _solved(self, step: Array, which: Any, terms: tuple[Array, ...], *rows: Array) -> Array:
        """The step, and the solution of (1) to (3) where it is needed; `rows` are J_d and its lower bounds."""
        if not which.any():
            return step
        if step.ndim > 1:
            terms, rows = tuple(x[which] for x in terms), tuple(x[which] for x in rows)
        J, error, pull, damping, low, high = terms
        program = self._program(J, error, pull, self._squares, self._factors(damping))
        if step.ndim == 1:
            return self._bounded(*program, low, high, *rows)
        step[which] = [self._bounded(*each) for each in zip(*program, low, high, *rows, strict=True)]
        return step

    def _factors(self, damping: Array) -> Array:
        """What the program takes besides rows, whose errors have their gains already: 1, w₀² and d, (…, 3)."""
        factors = np.empty((*damping.shape, 3))
        factors[..., 0], factors[..., 1], factors[..., 2] = 1.0, self._weight, self._shares[0] + damping
        return factors

    def _bounded(self, H: Array, g: Array, low: Array, high: Array, *rows: Array) -> Array:
        """Solve (1) to (3) by DAQP. Where nothing keeps (3), it gives way as little as possible."""
        n, A, least = len(g), np.zeros((0, len(g))), np.zeros(0)
        if rows:
            near = rows[1] > -INFINITE
            A, least = rows[0][near], rows[1][near]
        for kind in (0, _SOFT):
            # DAQP overwrites what it is given
            above, below, kinds = (np.empty(n + len(A), dtype) for dtype in (float, float, np.int32))
            above[:n], above[n:], below[:n], below[n:] = high, INFINITE, low, least
            kinds[:n], kinds[n:] = 0, kind
            # H is positive definite: no proximal terms
            x, _, flag, _ = self._solve(H.copy(), g.copy(), A, above, below, kinds, eps_prox=0.0)
            if flag == _SOLVED or not len(A):
                break
        if flag not in (_SOLVED, _RELAXED):
            raise InputError(f"differential inverse kinematics: DAQP stops with flag {flag}; weights are too far apart")
        # the solver keeps bounds to its tolerance only
        found: Array = np.minimum(np.maximum(x, low), high)
        return found
