"""Accelerations and projections under constrained rows of any kind, as compiled functions.

They solve (2) and (3) of `kinetree.model.constraints`. Λ comes from the eigenvalues of Λ⁻¹ in every sample, so rows
may be redundant.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from kinetree.algorithms.manifold import integrate
from kinetree.engines.kernel_function import KernelFunction, compiled
from kinetree.engines.native import sequence as native
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.kernels import bind
from kinetree.engines.native.operands import Operand
from kinetree.engines.native.sequence import Place
from kinetree.kernels.constraint_rows import row_forces, row_mobility, row_residual
from kinetree.kernels.eigen import regularized_inverse
from kinetree.kernels.language import Kernel
from kinetree.model.constraint_rows import Rows, RowSet
from kinetree.operational_space import singular
from kinetree.spatial.value import Array

#: Directions with less than this fraction of the largest eigenvalue of Λ⁻¹ are redundant.
REDUNDANT = 1e-10


class RowSolver:
    """The functions of some rows, each recorded on first use.

    Args:
        robot: The model.
        sets: All sets of rows, each with the numbers of its rows.
    """

    def __init__(self, robot: Any, sets: Sequence[tuple[Sequence[int], RowSet]]) -> None:
        self._robot, self._sets = robot, tuple(sets)
        self._count = sum(one.count for _, one in sets)

    @cached_property
    def accelerations(self) -> Compiled:
        """Joint accelerations, (nv,), and forces along the rows, (c,), of q, v, a, wanted and gains.

        `a` are accelerations without constraints, `wanted` those of the rows, (c,); gains are kp and kd, (c, 2).
        """
        c, nv = self._count, self._robot.nv
        inputs = [self._q, self._v, Operand("a", (nv,)), Operand("wanted", (c,)), Operand("gains", (c, 2))]
        steps = native.Sequence("constraints", inputs, [Operand("acceleration", (nv,)), Operand("force", (c,))])
        q, v, a, wanted, gains = steps.inputs
        rows = self._rows(steps, q, v)
        lacking = steps.call(self._kernel(row_residual), *rows, v, a, wanted, gains)
        self._solve(steps, q, rows.J, lacking, a, steps.outputs)
        return steps.finish()

    @cached_property
    def rows(self) -> Compiled:
        """J, (c, nv), and φ, (c,), of q."""
        c, nv = self._count, self._robot.nv
        steps = native.Sequence("constraints", [self._q], [Operand("J", (c, nv)), Operand("error", (c,))])
        found = self._rows(steps, steps.inputs[0], steps.constant(np.zeros(nv)))
        for place, result in zip((found.J, found.error), steps.outputs, strict=True):
            steps.copy(place, result)
        return steps.finish()

    @cached_property
    def configuration(self) -> Compiled:
        """A configuration nearer to the constraints, (nq,), of q: one Newton step."""
        steps = native.Sequence("constraints", [self._q], [Operand("q", (self._robot.nq,))])
        (q,), still = steps.inputs, steps.constant(np.zeros(self._robot.nv))
        rows = self._rows(steps, q, still)
        nothing, stiff = np.zeros(self._count), np.tile([1.0, 0.0], (self._count, 1))
        lacking = steps.call(self._kernel(row_residual), *rows, still, still, nothing, stiff)
        change, _ = self._solve(steps, q, rows.J, lacking, still)
        steps.call(bind(integrate, self._robot.mechanism, (), "constraints"), q, change, 1.0, into=steps.outputs)
        return steps.finish()

    @cached_property
    def velocity(self) -> Compiled:
        """The velocity that keeps the constraints, (nv,), nearest to v, of q and v."""
        steps = native.Sequence("constraints", [self._q, self._v], [Operand("v", (self._robot.nv,))])
        q, v = steps.inputs
        still, nothing = np.zeros(self._robot.nv), np.zeros(self._count)
        J = self._rows(steps, q, steps.constant(still)).J
        free = nothing, nothing, still, v, nothing, np.zeros((self._count, 2))
        self._solve(steps, q, J, steps.call(self._kernel(row_residual), J, *free), v, (steps.outputs[0], None))
        return steps.finish()

    @property
    def _q(self) -> Operand:
        return Operand("q", (self._robot.nq,))

    @property
    def _v(self) -> Operand:
        return Operand("v", (self._robot.nv,))

    def _rows(self, steps: native.Sequence, q: Place, v: Place) -> Rows:
        """All rows, in the order of the constraints."""
        sizes = self._robot.nv, 1, 1
        rows = Rows(*(steps.space(self._count * size) for size in sizes))
        for numbers, one in self._sets:
            for found, all_, size in zip(one.record(steps, q, v), rows, sizes, strict=True):
                for i, row in enumerate(numbers):
                    steps.copy(found.part(i * size, size), all_.part(row * size, size))
        return rows

    def _solve(
        self, steps: native.Sequence, q: Place, J: Place, lacking: Place, a: Place,
        into: Sequence[Place | None] = (None, None),
    ) -> tuple[Place, Place]:  # fmt: skip
        """Joint accelerations and forces under which the rows accelerate by what they lack."""
        count, nv = self._count, self._robot.nv
        response = steps.space(count * nv)
        with steps.loop(count) as row:
            steps.copy(steps.call(self._robot.mass_matrix_solve.bound(), q, J.at(row, nv)), response.at(row, nv))
        A, own = steps.call(self._kernel(row_mobility), J, response)
        values, vectors, roots, edge, _, _ = steps.call(
            singular.decomposition(count), A, own, *self._weights, REDUNDANT
        )
        inertia = steps.call(compiled(regularized_inverse, n=count), values, vectors, roots, edge, 0.0)
        moved, force = into
        force, moved = steps.call(self._kernel(row_forces), response, inertia, lacking, a, into=(force, moved))
        return moved, force

    def _kernel(self, kernel: Kernel) -> KernelFunction:
        return compiled(kernel, r=self._count, n=self._robot.nv)

    @cached_property
    def _weights(self) -> tuple[Array, Array]:
        """Means and reach of all rows, as `kinetree.operational_space.singular` defines them."""
        groups, reach = np.zeros(self._count, dtype=int), np.zeros(self._count)
        first = 0
        for numbers, one in self._sets:
            own, reach[list(numbers)] = one.scale
            groups[list(numbers)] = first + own
            first += 1 + int(own.max())
        return singular.means(groups), np.where(np.isfinite(reach), reach, 0.0)
