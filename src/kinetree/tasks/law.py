"""Motions that track task rows as closely as the mechanism allows: the law behind constraints.

    τ = ID(q, v, a₀) + Jᵀf        Λ⁻¹ f = b − J̇v − J a₀

One kernel computes it (`kinetree.algorithms.tasks.control_law`) wherever all rows can be moved
independently. It reports how far each sample is from a singularity; samples that are too close are solved again by
the caller, who decides how to treat directions that cannot be moved. Controllers have limits and a posture in addition:
`kinetree.control.pipeline`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kinetree.runtime.bound import standard_arithmetic
from kinetree.runtime.matrix_products import times
from kinetree.spatial.value import Array
from kinetree.tasks.recursions import Recursions

#: Maps Λ⁻¹, (n, r, r), and residuals, (n, r), of n samples to forces along the rows, (n, r).
Solve = Callable[[Array, Array], Array]


class LawResult(NamedTuple):
    """Results of the law.

    Attributes:
        tau: Forces of all joints, including those without a motor, (…, nv).
        force: f along the rows, (…, r).
    """

    tau: Array
    force: Array


class Law:
    """The law for some rows, in world axes.

    Args:
        recursions: Those of the rows, with reference "local_world_aligned" and without contacts.
        cuts: For each row, the eigenvalue of its level above which no direction counts as singular, (r,).
        solve: Solves samples that may have smaller eigenvalues.
    """

    def __init__(self, recursions: Recursions, cuts: Array, solve: Solve) -> None:
        self._recursions, self._cuts, self._solve = recursions, cuts, solve
        self._kernel = recursions.control_law

    @cached_property
    def weights(self) -> tuple[Array, Array]:
        """The kernel's last two inputs: reach and cut of each row, (r,)."""
        return self._recursions.reach, self._cuts

    def __call__(self, q: Any, v: Any, a0: Any, target: Any, feed: Any, gains: Any) -> LawResult:
        """Joint forces and forces along the rows; arguments as for the kernel, with leading batch axes."""
        tau, force, residual, spread = self._kernel(q, v, a0, target, feed, gains, *self.weights)
        doubtful = np.logical_not(spread < 1.0)
        if doubtful.any():
            self._again((q, v, a0), (tau, force, residual), doubtful)
        return LawResult(tau, force)

    def _again(self, inputs: tuple[Any, ...], results: tuple[Array, ...], doubtful: Array) -> None:
        """Solve nearly singular samples again, in place."""
        batch, recursions, (tau, force, residual) = doubtful.shape, self._recursions, results
        q, v, a0 = (np.broadcast_to(x, (*batch, np.shape(x)[-1]))[doubtful] for x in inputs)
        A, J = recursions.inverse_inertia(q), recursions.jacobian(q)
        base = recursions.inverse_dynamics(q, v, a0)
        with standard_arithmetic():
            force[doubtful] = f = self._solve(A, residual[doubtful])
            tau[doubtful] = base + times(np.swapaxes(J, -1, -2), f)

    def kernel(self) -> Any:
        """The kernel `control_law`: a `Compiled`, unless on the reference engine."""
        return self._kernel.bound()
