"""Directional derivative of Λ⁻¹ with respect to the configuration."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Several
from dataclasses import replace
from functools import cached_property
from typing import Any

from kinetree.algorithms.dynamics.coriolis_matrix import coriolis_matrix
from kinetree.algorithms.kinematics.frame_kinematics import JACOBIAN_RATES
from kinetree.errors import InputError
from kinetree.kernels.products import inverse_inertia_rate
from kinetree.language.algorithm import Algorithm
from kinetree.language.common_frame import in_view
from kinetree.runtime import arguments
from kinetree.runtime.function import Function
from kinetree.runtime.sequence import KernelSequence
from kinetree.spatial.value import Array
from kinetree.tasks.core import Core
from kinetree.tasks.functions import PreparedFunction
from kinetree.tasks.recursions import TaskFunction


def _along(rate: Algorithm) -> Algorithm:
    """The same recursion, with the direction named dq."""
    return replace(rate, inputs=tuple(replace(a, name="dq") if a.name == "v" else a for a in rate.inputs))


#: J̇ of frames, by reference.
_RATES = {reference: _along(rate) for reference, rate in JACOBIAN_RATES.items()}


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
        self._require_frames()
        found: Array = self._computed(q, dq, out=out)
        return found

    def _require_frames(self) -> None:
        if self.core.held or any(site.part != "frame" for site in self.core.recursions.sites):
            raise InputError(
                f"{self.name} is available only for tasks of single frames without contacts, not for {self.tasks!r}"
            )

    @cached_property
    def _computed(self) -> Callable[..., Array]:
        """All of it; on the native engine as one compiled function."""
        recursions, kernels = self.core.recursions, self._kernels()
        if recursions.engine != "native":
            return self._step_by_step
        rates, response, coriolis, combined = (kernel.bound() for kernel in kernels)
        sequence = KernelSequence(self.name, rates.binding.inputs, combined.binding.outputs)
        q, dq = sequence.inputs
        every, nv = sequence.call(rates, q, dq), recursions.robot.mechanism.nv
        rows = sequence.space(len(self._components) * nv)
        for row, component in enumerate(self._components):
            sequence.copy(every.part(component * nv, nv), rows.part(row * nv, nv))
        sequence.call(combined, rows, sequence.call(response, q), sequence.call(coriolis, q, dq), into=sequence.outputs)
        return sequence.finish()

    def _step_by_step(self, q: Any, dq: Any, out: Any = None) -> Array:
        rates, response, coriolis, combined = self._kernels()
        every = rates(q, dq)
        rows = every.reshape(*every.shape[:-3], -1, every.shape[-1])[..., self._components, :]
        found: Array = self._put(combined(rows, response(q), coriolis(q, dq)), out)
        return found

    @cached_property
    def _components(self) -> list[int]:
        """For each row, which of the six components of which frame it is."""
        return [6 * i + component for i, site in enumerate(self.core.recursions.sites) for component in site.rows]

    @cached_property
    def _rates(self) -> TaskFunction:
        recursions = self.core.recursions
        mechanism = recursions.robot.mechanism.at(recursions.sites)
        algorithm = in_view(_RATES[recursions.reference], mechanism, "common")
        return TaskFunction(self.name, mechanism, algorithm, recursions.sites).engine(recursions.engine)

    @cached_property
    def _coriolis(self) -> Function[..., Array]:
        recursions = self.core.recursions
        return Function("coriolis_matrix", recursions.robot.mechanism, coriolis_matrix).engine(recursions.engine)

    def _kernels(self) -> Several[Any]:
        return (
            self._rates,
            self.core.recursions.response,
            self._coriolis,
            self.core.recursions.dense(inverse_inertia_rate),
        )
