"""Directional derivative of Λ⁻¹ with respect to the configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from kinetree.algorithms.coriolis_matrix import coriolis_matrix
from kinetree.algorithms.kinematic_derivatives import JACOBIAN_RATES
from kinetree.algorithms.kinematics_by_weights import JACOBIAN_RATES as JACOBIAN_RATES_BY_WEIGHTS
from kinetree.algorithms.mass_matrix_product import mass_matrix_product
from kinetree.engines import arguments
from kinetree.engines.function import Function
from kinetree.engines.native.compiled import standard_arithmetic
from kinetree.errors import InputError
from kinetree.operational_space.core import Core
from kinetree.operational_space.functions import PreparedFunction, taken
from kinetree.operational_space.products import product
from kinetree.operational_space.task_function import TaskFunction
from kinetree.recursion.forward_mode import directional_derivative
from kinetree.spatial.value import Array

#: J̇ of frames, by reference, with the direction named dq.
_RATES = {
    reference: replace(rate, inputs=tuple(replace(a, name="dq") if a.name == "v" else a for a in rate.inputs))
    for reference, rate in JACOBIAN_RATES.items()
}
#: Ṁ x while q moves with dq.
_MASS_RATE = directional_derivative(mass_matrix_product, "mass_matrix_rate", "dq", {}, ("rate",))


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
            out: float64 array for the result.

        Raises:
            InputError: If there are contacts, relative tasks or tasks of the centre of mass.
        """
        if arguments.is_lazy(q) or arguments.is_lazy(dq):
            lazy: Array = self._lazily(out, q=q, dq=dq)
            return lazy
        if self.core.recursions.by_weights:
            return self._by_weights(q, dq, out)
        rates, frames = self._rates(q, dq), self._frames
        J_rate = np.concatenate([rates[..., i, list(rows), :] for i, rows in enumerate(frames)], axis=-2)
        response, C = self.core.recursions.response(q), self._coriolis(q, dq)
        with standard_arithmetic():
            one_sided = product(J_rate, response) - product(np.swapaxes(response, -1, -2), product(C, response))
            return taken(self.name, one_sided + np.swapaxes(one_sided, -1, -2), out)

    def _by_weights(self, q: Any, dq: Any, out: Any) -> Array:
        """The same from products J̇ x and Ṁ x with the columns of M⁻¹Jᵀ, on nodes of any kind."""
        frames, response = self._frames, self.core.recursions.response(q)
        columns = np.ascontiguousarray(np.swapaxes(response, -1, -2))
        q, dq = (arguments.numbers(self.name, name, x)[..., None, :] for name, x in (("q", q), ("dq", dq)))
        moved = self._moved(q, columns, dq)
        picked = np.concatenate([moved[..., i, list(rows)] for i, rows in enumerate(frames)], axis=-1)
        with standard_arithmetic():
            M_rate = np.swapaxes(self._mass_rate(q, columns, dq), -1, -2)
            one_sided = np.swapaxes(picked, -1, -2) - 0.5 * product(np.swapaxes(response, -1, -2), M_rate)
            return taken(self.name, one_sided + np.swapaxes(one_sided, -1, -2), out)

    @cached_property
    def _moved(self) -> TaskFunction:
        """J̇ x of all frames."""
        recursions = self.core.recursions
        algorithm = JACOBIAN_RATES_BY_WEIGHTS[recursions.reference]
        mechanism = recursions.robot.mechanism.at(recursions.sites)
        return TaskFunction(self.name, mechanism, algorithm, recursions.sites).engine(recursions.engine)

    @cached_property
    def _mass_rate(self) -> Function[..., Array]:
        """Ṁ x."""
        recursions = self.core.recursions
        return Function("mass_matrix_rate", recursions.robot.mechanism, _MASS_RATE).engine(recursions.engine)

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
        algorithm, mechanism = _RATES[recursions.reference], recursions.robot.mechanism
        return TaskFunction(self.name, mechanism, algorithm, recursions.sites).engine(recursions.engine)

    @cached_property
    def _coriolis(self) -> Function[..., Array]:
        recursions = self.core.recursions
        return Function("coriolis_matrix", recursions.robot.mechanism, coriolis_matrix).engine(recursions.engine)

    def _kernels(self) -> Sequence[Any]:
        if self.core.recursions.by_weights:
            return self._moved, self.core.recursions.response, self._mass_rate
        return self._rates, self.core.recursions.response, self._coriolis
