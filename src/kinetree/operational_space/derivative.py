"""Directional derivative of Λ⁻¹ with respect to the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from kinetree.algorithms.coriolis_matrix import coriolis_matrix
from kinetree.algorithms.coriolis_matrix_by_weights import coriolis_matrix_by_weights
from kinetree.algorithms.kinematic_derivatives import JACOBIAN_RATES
from kinetree.algorithms.kinematics_by_weights import JACOBIAN_RATES as JACOBIAN_RATES_BY_WEIGHTS
from kinetree.engines import arguments
from kinetree.engines.function import Function
from kinetree.engines.native.compiled import standard_arithmetic
from kinetree.errors import InputError
from kinetree.operational_space.core import Core
from kinetree.operational_space.functions import PreparedFunction
from kinetree.operational_space.products import product
from kinetree.operational_space.task_function import TaskFunction
from kinetree.recursion.algorithm import Algorithm
from kinetree.spatial.value import Array


def _along(rates: Mapping[str, Algorithm]) -> dict[str, Algorithm]:
    """The same recursions, with the direction named dq."""
    return {
        reference: replace(rate, inputs=tuple(replace(a, name="dq") if a.name == "v" else a for a in rate.inputs))
        for reference, rate in rates.items()
    }


#: J̇ of frames, by reference; the second for nodes of any kind.
_RATES, _RATES_BY_WEIGHTS = _along(JACOBIAN_RATES), _along(JACOBIAN_RATES_BY_WEIGHTS)


class InverseInertiaDerivative(PreparedFunction):
    """Directional derivative of Λ⁻¹ = J M⁻¹ Jᵀ along a tangent, (…, r, r): `f(q, dq)` or `f(q, dq, out=…)`.

    J̇ M⁻¹ Jᵀ plus its transpose minus J M⁻¹ Ṁ M⁻¹ Jᵀ, with Ṁ = C + Cᵀ from the Coriolis matrix.
    """

    def __init__(self, tasks: Any, core: Core) -> None:
        super().__init__(tasks, core, "inverse_inertia_derivative")

    def __call__(self, q: Any, dq: Any, out: Any = None) -> Array:
        """The directional derivative, (…, r, r).

        Args:
            q: Configuration, (…, nq).
            dq: The tangent, (…, nv).
            out: Array for the result.

        Raises:
            InputError: If there are contacts, relative tasks or tasks of the centre of mass.
        """
        if arguments.is_lazy(q) or arguments.is_lazy(dq):
            lazy: Array = self._lazily(out, q=q, dq=dq)
            return lazy
        rates, frames = self._rates(q, dq), self._frames
        J_rate = np.concatenate([rates[..., i, list(rows), :] for i, rows in enumerate(frames)], axis=-2)
        response, C = self.core.recursions.response(q), self._coriolis(q, dq)
        with standard_arithmetic():
            one_sided = product(J_rate, response) - product(np.swapaxes(response, -1, -2), product(C, response))
            found: Array = self._put(one_sided + np.swapaxes(one_sided, -1, -2), out)
        return found

    @property
    def _frames(self) -> list[tuple[int, ...]]:
        sites = self.core.recursions.sites
        if self.core.held or any(site.part != "frame" for site in sites):
            raise InputError(
                f"{self.name} is available only for tasks of single frames without contacts, not for {self.tasks!r}"
            )
        return [site.rows for site in sites]

    @cached_property
    def _rates(self) -> TaskFunction:
        recursions = self.core.recursions
        algorithm = (_RATES_BY_WEIGHTS if recursions.by_weights else _RATES)[recursions.reference]
        mechanism = recursions.robot.mechanism.at(recursions.sites)
        return TaskFunction(self.name, mechanism, algorithm, recursions.sites).engine(recursions.engine)

    @cached_property
    def _coriolis(self) -> Function[..., Array]:
        recursions = self.core.recursions
        algorithm = coriolis_matrix_by_weights if recursions.by_weights else coriolis_matrix
        return Function("coriolis_matrix", recursions.robot.mechanism, algorithm).engine(recursions.engine)

    def _kernels(self) -> Sequence[Any]:
        return self._rates, self.core.recursions.response, self._coriolis
