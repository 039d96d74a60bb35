"""Derivatives of Λ⁻¹ = J M⁻¹ Jᵀ and Λ, along directions and as gradients, for tasks of every kind. Cost O(n) per row.

With Z = M⁻¹Jᵀ, whose columns are z,

    δΛ⁻¹ = δJ Z + (δJ Z)ᵀ − Zᵀ δM Z        tr(W δΛ⁻¹) = Σ 2 wᵢᵀ (δJ zᵢ) − Σ (Z wᵢ)ᵀ (δM zᵢ)        (1)

for symmetric W with columns w. J z and M z are recursions in O(n): velocities of task rows, and inverse dynamics at
rest. So their derivatives are all that is needed, with respect to q or to anything else that they depend on.

With contacts c, Λ⁻¹ of the tasks t is S A Sᵀ for S = [−A_tc A_cc⁻¹, 1] and A of all rows; S does not change it to first
order, since S A has no columns of contacts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kinetree.errors import InputError, SingularTaskError
from kinetree.kernels.solve import solve_symmetric
from kinetree.runtime import arguments
from kinetree.runtime.function import compiled
from kinetree.runtime.matrix_products import product
from kinetree.spatial.reproducible import summed
from kinetree.spatial.value import Array
from kinetree.tasks.singular import CUT, trusted

#: Least eigenvalue of the scaled Λ⁻¹ of contacts that are independent.
_REDUNDANT = 1e-10


class Sensitivity:
    """Derivatives of Λ⁻¹ and Λ with respect to what they depend on: q, or parameters and q.

    Args:
        name: Of the tasks, for messages.
        velocity: J x of q and x, a function with `jvp` and `vjp`.
        momentum: M x of q and x, likewise.
        response: M⁻¹Jᵀ of q.
        inverse_inertia: Λ⁻¹ of q, of all rows.
        held: Rows of contacts, which come first.
    """

    def __init__(
        self,
        name: str,
        velocity: Any,
        momentum: Any,
        response: Callable[..., Array],
        inverse_inertia: Callable[..., Array],
        held: int = 0,
    ) -> None:
        self._name, self._velocity, self._momentum = name, velocity, momentum
        self._response, self._inverse_inertia, self._held = response, inverse_inertia, held

    def value(self, *own: Any) -> Array:
        """Λ⁻¹ of the tasks, (…, r, r)."""
        A = self._inverse_inertia(*own)
        if not self._held:
            return A
        S = self._reduction(*own)
        return product(product(S, A), np.swapaxes(S, -1, -2))

    def inertia(self, *own: Any) -> Array:
        """Λ of tasks, (…, r, r).

        Raises:
            SingularTaskError: The tasks are singular at some sample.
        """
        A = self.value(*own)
        rows, scale = A.shape[-1], np.diagonal(A, axis1=-2, axis2=-1)
        solve = compiled(solve_symmetric, A.dtype, n=rows)
        found, spread = solve(A[..., None, :, :], np.eye(rows), scale[..., None, :])
        bad = np.argwhere(np.isfinite(A).all(axis=(-1, -2)) & ~(spread[..., 0] < trusted(rows, CUT)))
        if len(bad):
            scaled = A / np.sqrt(scale[..., :, None] * scale[..., None, :])
            ranks = [int(np.linalg.matrix_rank(scaled[tuple(i)], CUT, hermitian=True)) for i in bad]
            samples = tuple(tuple(i) for i in bad.tolist()) if A.ndim > 2 else ()
            fix = "Neither Λ without damping nor its derivatives exist there: choose fewer rows"
            raise SingularTaskError(self._name, rows, samples, tuple(ranks), fix)
        result: Array = found
        return result

    def of_inertia(self) -> tuple[Callable[..., Array], Callable[..., Any]]:
        """`jvp` and `vjp` of Λ, which raise where it is singular: δΛ = −Λ δΛ⁻¹ Λ."""

        def jvp(*given: Any) -> Array:
            L = self.inertia(*given[: len(given) // 2])
            return -product(product(L, self.jvp(*given)), L)

        def vjp(*given: Any) -> Any:
            L = self.inertia(*given[:-1])
            return self.vjp(*given[:-1], -product(product(L, np.asarray(given[-1])), L))

        return jvp, vjp

    def jvp(self, *given: Any) -> Array:
        """The change of Λ⁻¹, (…, r, r); takes q, or p and q, then a direction for each."""
        half = len(given) // 2
        Z = self._response(*given[:half])
        wide = [np.asarray(x)[..., None, :] for x in given]
        columns, still = np.swapaxes(Z, -1, -2), np.zeros(Z.shape[-2])
        changes = [f.jvp(*wide[:half], columns, *wide[half:], still) for f in (self._velocity, self._momentum)]
        of_J, of_M = (np.swapaxes(change, -1, -2) for change in changes)  # δJ Z and δM Z
        rate: Array = of_J + np.swapaxes(of_J, -1, -2) - product(columns, of_M)
        if not self._held:
            return rate
        S = self._reduction(*given[:half])
        return product(product(S, rate), np.swapaxes(S, -1, -2))

    def vjp(self, *given: Any) -> Any:
        """Gradients of a weighted sum of Λ⁻¹; takes q, or p and q, then the weights, (…, r, r)."""
        *own, weights = given
        W = np.asarray(weights)
        arguments.require_shape(f"{self._name}: weights", W.shape, W.shape[-1:] * 2)
        W = 0.5 * (W + np.swapaxes(W, -1, -2))
        if self._held:
            S = self._reduction(*own)
            W = product(product(np.swapaxes(S, -1, -2), W), S)
        Z = self._response(*own)
        wide, columns = [np.asarray(x)[..., None, :] for x in own], np.swapaxes(Z, -1, -2)
        by_J = self._velocity.vjp(*wide, columns, 2.0 * W)
        by_M = self._momentum.vjp(*wide, columns, np.swapaxes(product(Z, W), -1, -2))
        found = tuple(summed(one - other, axis=-2) for one, other in zip(by_J[:-1], by_M[:-1], strict=True))
        return found[0] if len(found) == 1 else found

    def _reduction(self, *own: Any) -> Array:
        """S, (…, r, r + c)."""
        A, c = self._inverse_inertia(*own), self._held
        finite = np.isfinite(A).all(axis=(-1, -2), keepdims=True)
        held = np.where(finite, A[..., :c, :c], np.eye(c))
        scale = np.sqrt(np.maximum(np.diagonal(held, axis1=-2, axis2=-1), 1e-300))
        if np.any(np.linalg.eigvalsh(held / scale[..., :, None] / scale[..., None, :]) <= _REDUNDANT):
            raise InputError(f"{self._name}: contacts are redundant; leave some of them out")
        X = np.linalg.solve(held, A[..., :c, c:])
        unit = np.broadcast_to(np.eye(A.shape[-1] - c), (*A.shape[:-2], A.shape[-1] - c, A.shape[-1] - c))
        return np.concatenate([-np.swapaxes(X, -1, -2), unit], axis=-1)


def attach(function: Any, derivatives: Sequence[Any]) -> None:
    """Give a function of tasks its `jvp` and `vjp`."""
    for name, derivative in zip(("jvp", "vjp"), derivatives, strict=True):
        # `Function` keeps them under the second name
        function.__dict__.update({name: derivative, f"_{name}": derivative})
