"""Λ from Λ⁻¹ at and near singularities.

The eigenvalues of Λ⁻¹ show which directions can move. They can be compared only after weighting the rows, since angular
and linear rows have different units. The angular and the linear rows of each task are divided by the square root of
their weight: their mean diagonal entry in Λ⁻¹ plus their `reach`, the typical value of that entry at other
configurations (`kinetree.tasks.recursions`). So rank depends neither on the unit of length nor on the axes of a
frame, and a row that cannot move at this configuration is not mistaken for one that moves a little.

With eigenvalues λ of the weighted Λ⁻¹ and ε = cut · max(λmax, 1), a direction is singular if λ ≤ ε. For such directions

    policy        1/λ is replaced by
    "damped"      1/(λ + μ) with μ = (ε − λ)²/(2ε): grows smoothly from 0 at λ = ε to ε/2 at λ = 0
    "truncated"   0
    "raise"       SingularTaskError

All policies invert the other directions exactly.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import SingularTaskError, UnknownNameError
from kinetree.kernels.eigen import compose, diagonalize, jacobi_sweep, regularized_inverse, settle, weigh
from kinetree.kernels.solve import solve_symmetric
from kinetree.runtime import arguments
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import KernelFunction, compiled
from kinetree.runtime.matrix_products import times
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import KernelSequence, MemorySpan
from kinetree.spatial.value import Array

POLICIES = ("damped", "truncated", "raise")

#: Eigenvalues below this fraction of the largest one count as singular. They scale as squares of a Jacobian's singular
#: values, for which the corresponding fraction is 1e-3.
CUT = 1e-6


class Spectrum(NamedTuple):
    """The eigendecomposition of a weighted symmetric matrix."""

    values: Array  # eigenvalues, in no particular order, (…, r); NaN where the matrix is not finite
    vectors: Array  # eigenvectors, one in each row, (…, r, r)
    roots: Array  # square roots of the weights, (…, r)
    edge: Array  # the largest eigenvalue that counts as singular, (…)
    rank: Array  # number of directions that are not singular, as floats, (…); −1 where the matrix is not finite
    condition: Array  # condition number, (…); infinite where a direction is singular

    @property
    def singular(self) -> Array:
        """Whether directions are singular, (…, r)."""
        found: Array = self.values <= self.edge[..., None]
        return found


def means(groups: Array) -> Array:
    """The matrix that replaces each entry of a vector by the mean over its group, (r, r).

    For each row, `groups` has the number of its group, whose rows have the same unit.
    """
    same = groups[:, None] == groups[None, :]
    shares: Array = same / same.sum(axis=1)
    return shares


def trusted(rows: int, cut: float) -> float:
    """The value of `spread` below which no direction is singular.

    The smallest eigenvalue is at least 1/√spread; the largest is at most the sum of all, which is at most r.
    """
    return 1.0 / (cut * max(rows, 1)) ** 2


def spectrum(A: Array, own: Array, mean: Array, reach: Array, cut: float = CUT) -> Spectrum:
    """Eigenvalues and eigenvectors of weighted symmetric matrices A, (…, r, r).

    `own` is their diagonal without contacts, `mean` is from `means`; directions are singular up to the
    fraction `cut` of the largest eigenvalue, or of one.
    """
    rows = A.shape[-1]
    if rows == 0:
        batch = A.shape[:-2]
        return Spectrum(own, A, own, np.full(batch, cut), np.zeros(batch), np.ones(batch))
    return Spectrum(*decomposition(rows)(A, np.ascontiguousarray(own), mean, reach, float(cut)))


@lru_cache(maxsize=64)
def decomposition(rows: int) -> Compiled:
    """All steps of `spectrum` as one compiled function of A, own, mean, reach and cut."""
    weighing, diagonalizing, settling = (compiled(each, n=rows).bound() for each in (weigh, diagonalize, settle))
    inputs = [*weighing.binding.inputs, Operand("cut", ())]
    outputs = [*diagonalizing.binding.outputs, *weighing.binding.outputs[1:2], *settling.binding.outputs[1:]]
    sequence = KernelSequence("spectrum", inputs, outputs)
    *given, cut = sequence.inputs
    values, vectors, roots, *measures = sequence.outputs
    weighted, _, infinite = sequence.call(weighing, *given, into=(None, roots, None))
    computed, _ = sequence.call(diagonalizing, weighted, into=(None, vectors))
    sequence.call(settling, computed, infinite, cut, into=(values, *measures))
    return sequence.finish()


class Eigenvalues:
    """Functions of q that depend on the eigenvalues of Λ⁻¹, without contacts, each recorded on first use."""

    def __init__(self, inverse_inertia: Compiled, mean: Array, reach: Array, cut: float, policy: str) -> None:
        self._mobility, self._weights = inverse_inertia, (mean, reach, cut)
        self._policy, self._rows = policy, len(reach)

    @cached_property
    def inertia(self) -> Compiled:
        """Λ under a policy other than "raise", (r, r)."""
        steps, (values, vectors, roots, edge, *_) = self._begun(Operand("inertia", (self._rows, self._rows)))
        given = values, vectors, roots, edge, softness(self._policy)
        steps.call(compiled(regularized_inverse, n=self._rows), *given, into=steps.outputs)
        return steps.finish()

    @cached_property
    def condition(self) -> Compiled:
        """Condition number of the weighted Λ⁻¹, ()."""
        steps, (*_, condition) = self._begun(Operand("condition", ()))
        steps.copy(condition, steps.outputs[0])
        return steps.finish()

    def _begun(self, output: Operand) -> tuple[KernelSequence, list[MemorySpan]]:
        """A sequence with the parts of `Spectrum`."""
        steps, rows = KernelSequence(output.name, self._mobility.binding.inputs, [output]), self._rows
        A, own = steps.call(self._mobility, *steps.inputs), steps.space(rows)
        for i in range(rows):
            steps.copy(A.part(i * (rows + 1), 1), own.part(i, 1))
        return steps, steps.call(decomposition(rows), A, own, *self._weights)


def eigen_steps(rows: int, inverts: bool) -> tuple[KernelFunction, ...]:
    """What follows Λ⁻¹ where eigenvalues decide: their computation and, if wanted, Λ."""
    kernels = (weigh, diagonalize, settle, *([regularized_inverse] if inverts else []))
    return tuple(compiled(kernel, n=rows) for kernel in kernels)


def jacobi(A: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors, one in each row, of matrices that are nearly diagonal, by one Jacobi sweep."""
    A, vectors = compiled(jacobi_sweep, n=A.shape[-1])(A)
    return np.diagonal(A, axis1=-2, axis2=-1), vectors


def inverted(of: Spectrum, policy: str) -> Array:
    """Λ from the eigendecomposition of Λ⁻¹, (…, r, r); `refuse_singular` handles the policy "raise"."""
    rows = of.values.shape[-1]
    result: Array = compiled(regularized_inverse, n=rows)(of.values, of.vectors, of.roots, of.edge, softness(policy))
    return result


def softness(policy: str) -> float:
    """What `regularized_inverse` makes of singular directions."""
    return 0.0 if policy == "truncated" else 1.0


def composed(of: Spectrum, reciprocals: Array) -> Array:
    """The regularised inverse, (…, r, r), from regularised reciprocals of the eigenvalues, (…, r)."""
    result: Array = compiled(compose, n=reciprocals.shape[-1])(of.vectors, of.roots, reciprocals)
    return result


def solved(A: Array, b: Array, weights: Array) -> tuple[Array, Array]:
    """Solutions of A x = b for positive definite A, and lower bounds on the eigenvalues of the weighted A, (…)."""
    x, spread = compiled(solve_symmetric, n=b.shape[-1])(A, b, weights)
    return x, 1.0 / np.sqrt(spread)


def weights(own: Array, mean: Array, reach: Array) -> Array:
    """Weights of the rows, (…, r): see `spectrum`."""
    found = times(mean, own) + reach
    return np.where(found > 0.0, found, 1.0)  # immobile or non-finite rows


def refuse_singular(of: Spectrum, names: str, places: Any) -> None:
    """Raise `SingularTaskError` with the indices and ranks of all singular samples.

    `names` are those of the tasks, `places` the batch indices of the samples, None for a single one.
    """
    singular = np.atleast_1d(of.singular.any(axis=-1))
    if singular.any():
        rank = np.atleast_1d(of.rank).astype(int)
        samples = () if places is None else tuple(map(tuple, np.asarray(places)[singular.ravel()].tolist()))
        raise SingularTaskError(names, of.values.shape[-1], samples, tuple(rank[singular].tolist()))


def require_policy(policy: object, cut: object) -> None:
    """Raise if the policy is unknown or the cut is not a fraction."""
    if policy not in POLICIES:
        raise UnknownNameError("policy for singular tasks", policy, POLICIES)
    what = "a fraction of the largest eigenvalue, between 0 and 1"
    arguments.number("cut", cut, what=what, above=0.0, below=1.0)
