"""Derivatives of steps with constraints: of the integrator's accelerations, and of both projections at the end.

    q₁, v₁    the integrator's step with accelerations under constraints
    q′        q₁ ⊕ x with x = −J̄ φ at q₁
    v′        N v₁ at q′

Both projections are constrained accelerations at rest and without gravity: M x − Jᵀy = 0, J x = −φ is that with kp = 1,
and M (v′ − v₁) − Jᵀy = 0, J v′ = 0 that under the joint forces M v₁. So they have the same derivatives, and

    ∂x/∂q of the first,     δv′ = (∂a/∂q + ∂a/∂τ ∂(M v₁)/∂q) δq′ + ∂a/∂τ M δv₁ of the second                  (1)

Springs inside of nodes act at rest, too; they are joint forces that are added to both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinetree.algorithms.dynamics.time_step import advance
from kinetree.algorithms.kinematics.manifold import integrate
from kinetree.concurrency import ForkSafeLock
from kinetree.kernels.chained_products import chained, projected_changes, row_scaled, shifted
from kinetree.kernels.products import total
from kinetree.model.constraints import Constraints
from kinetree.model.results import Discretized
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import compiled
from kinetree.runtime.operands import Operand
from kinetree.runtime.texts import recorded
from kinetree.simulation.plant import Plant

_ONE = "one"
#: Changes with respect to q, v and τ at the start: matrices, `_ONE`, or None for zero.
Blocks = tuple[Any, Any, Any]


class HeldStepDerivatives:
    """A and B of steps of a plant under constraints, by one of the methods that support impulses.

    Args:
        plant: The robot, with its dampers and springs.
        held: The constraints of the plant's robot.
        project: Whether each step ends with a projection onto the constraints.
    """

    def __init__(self, plant: Plant, held: Constraints, project: bool) -> None:
        self._plant, self._held, self._project = plant, held, project
        light = plant.robot.with_gravity((0.0, 0.0, 0.0))
        self._light, self._at_rest = light, Constraints(light, held.constraints, held._at)
        self._lock = ForkSafeLock()
        self._made: dict[bool, Compiled] = {}

    def __call__(self, q: Any, v: Any, tau: Any) -> Discretized:
        """A, (…, 2 nv, 2 nv), and B, (…, 2 nv, nv)."""
        blocks = self._held._resolved(self._function, None, q, v, tau)
        by_q, by_v = (np.concatenate(blocks[i : i + 3], axis=-1) for i in (0, 3))
        whole, n = np.concatenate([by_q, by_v], axis=-2), self._plant.robot.nv
        return Discretized(whole[..., : 2 * n], whole[..., 2 * n :])

    def _function(self, _: None, near: bool) -> Compiled:
        nq, n = self._plant.robot.nq, self._plant.robot.nv
        inputs = [Operand("q", (nq,)), Operand("v", (n,)), Operand("tau", (n,))]
        names = [f"{of}_{by}" for of in ("q", "v") for by in ("q", "v", "tau")]
        outputs = [*(Operand(name, (n, n)) for name in names), Operand("doubts", ())]
        with self._lock:
            if near not in self._made:
                self._made[near] = recorded("discretize", inputs, outputs, lambda run, *x: self._text(run, near, *x))
            return self._made[near]

    def _text(self, run: Any, near: bool, q: Any, v: Any, tau: Any) -> Sequence[Any]:
        chain, plant, dt = _Chain(run, self._plant.robot), self._plant, self._plant.dt
        doubts: list[Any] = [0.0]

        def own(algorithm: Any, *inputs: Any) -> Any:
            return run(plant.recursion(algorithm), *inputs)

        def linearized(held: Constraints, q: Any, v: Any, push: Any, *gains: Any) -> tuple[Any, Any, Any, Any]:
            function = held._derivative(("linearize", (), bool(gains)), near)
            dq, dv, dtau, *_, a, _, _, doubt = run(function, q, v, push, held.nothing, *gains)
            doubts[0] = run(compiled(total, n=1), doubts[0], doubt)
            return dq, dv, dtau, a

        push, d_push = plant.pushed(own, q, v, tau), self._pushed(run, q)

        def accelerated(q: Any, d_q: Blocks, v: Any, d_v: Blocks) -> tuple[Any, Blocks]:
            by_q, by_v, by_push, a = linearized(self._held, q, v, push)
            return a, chain.sum((1.0, by_q, d_q), (1.0, by_v, d_v), (1.0, by_push, d_push))

        def advanced(v: Any, d_v: Blocks, a: Any, d_a: Blocks, seconds: float) -> tuple[Any, Blocks]:
            return own(advance, v, a, seconds), chain.sum((1.0, _ONE, d_v), (seconds, _ONE, d_a))

        def moved(q: Any, d_q: Blocks, v: Any, d_v: Blocks, seconds: float) -> tuple[Any, Blocks]:
            by_q, by_v = run(plant.robot.dintegrate, q, v, seconds)
            return own(integrate, q, v, seconds), chain.sum((1.0, by_q, d_q), (1.0, by_v, d_v))

        start_q: Blocks = (_ONE, None, None)
        start_v: Blocks = (None, _ONE, None)
        if plant.method == "semi_implicit_euler":
            there, rest = (q, start_q), dt
            a = accelerated(*there, v, start_v)
        else:
            there, rest = moved(q, start_q, v, start_v, 0.5 * dt), 0.5 * dt
            predicted = advanced(v, start_v, *accelerated(*there, v, start_v), 0.5 * dt)
            a = accelerated(*there, *predicted)
        after_v = advanced(v, start_v, *a, dt)
        after_q = moved(*there, *after_v, rest)
        if self._project:
            return [*self._projected(run, chain, linearized, after_q, after_v), doubts[0]]
        return [*chain.matrices(after_q[1], after_v[1]), doubts[0]]

    def _projected(self, run: Any, chain: _Chain, linearized: Any, after_q: Any, after_v: Any) -> Sequence[Any]:
        """The results, (1)."""
        (q, d_q), (v, d_v) = after_q, after_v
        light, still = self._light, np.zeros(self._light.nv)
        soft = light.mechanism.first_general is not None
        stiff = np.tile([1.0, 0.0], (self._at_rest.rows, 1))
        projected = run.prepared(compiled(projected_changes, n=light.nv))
        push = run(light.bias_forces, q, still) if soft else still
        x_q, _, by_push, x = linearized(self._at_rest, q, still, push, stiff)
        if soft:
            spring, _, _ = run(light.inverse_dynamics_derivatives, q, still, still)
            x_q = run(compiled(chained, n=light.nv), x_q, by_push, spring, 1.0)
        start, end = run.feeding(projected, ("start", "end"), light.dintegrate, q, x, 1.0)
        q = run(self._plant.recursion(integrate), q, x, 1.0)
        push = run(light.inverse_dynamics, q, still, v)  # M v₁
        by_q, _, by_push, _ = linearized(self._at_rest, q, still, push)
        inertial = light.inverse_dynamics_derivatives, q, still, v
        momentum, _, M = run.feeding(projected, ("momentum_q", None, "M"), *inertial)
        changes = chain.matrices(d_q, d_v)
        found: Sequence[Any] = run.concluding(0, projected, start, end, x_q, by_q, by_push, momentum, M, *changes)
        return found

    def _pushed(self, run: Any, q: Any) -> Blocks:
        """Changes of joint forces with dampers and springs."""
        plant, n = self._plant, self._plant.robot.nv
        slow = -(plant.damping + plant.dt * plant.stiffness)
        by_v = np.diag(slow) if slow.any() else None
        if not plant.stiffness.any():
            return None, by_v, _ONE
        _, turned = run(plant.robot.ddifference, plant.rest, q)
        return run(compiled(row_scaled, n=n), np.zeros((n, n)), -plant.stiffness, turned), by_v, _ONE


class _Chain:
    """Sums of products of matrices and changes; zeros and ones cost nothing."""

    def __init__(self, run: Any, robot: Any) -> None:
        self._run, self._n = run, robot.nv

    def matrix(self, block: Any) -> Any:
        """A block as a matrix."""
        if block is None:
            return np.zeros((self._n, self._n))
        return np.eye(self._n) if isinstance(block, str) else block

    def matrices(self, *changes: Blocks) -> list[Any]:
        """All blocks as matrices."""
        return [self.matrix(block) for blocks in changes for block in blocks]

    def sum(self, *terms: tuple[float, Any, Blocks]) -> Blocks:
        """Σ s A X, for each block of X."""
        found = [self._sum([(s, A, X[i]) for s, A, X in terms if X[i] is not None]) for i in range(3)]
        return found[0], found[1], found[2]

    def _sum(self, terms: list[tuple[float, Any, Any]]) -> Any:
        if not terms:
            return None
        result: Any = None
        for scale, A, X in terms:
            if isinstance(A, str) or isinstance(X, str):
                factor = X if isinstance(A, str) else A
                if result is None and scale == 1.0:
                    result = factor
                    continue
                start = self.matrix(result)
                result = self._run(compiled(shifted, n=self._n), start, self.matrix(factor), scale)
            else:
                result = self._run(compiled(chained, n=self._n), self.matrix(result), A, X, scale)
        return result
