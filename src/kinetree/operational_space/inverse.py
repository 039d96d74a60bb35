"""Λ from Λ⁻¹, sample by sample, also where a task is singular.

Regular samples are inverted by `sweep_inverse`, which says how far from singular they are. The others go through the
eigenvalues of Λ⁻¹, weighted so that they can be compared: rows that turn and rows that move have different units, so
each kind of row of each task is divided by the root of its mean diagonal entry. Then the result depends neither on the
unit of length nor on the axes of a frame.

With eigenvalues λ of the weighted Λ⁻¹ and ε = cut · max(λmax, 1), a direction is singular if λ ≤ ε. (The mean of all λ
is 1, unless contacts took something away.) For such directions

    policy        stands in for 1/λ
    "damped"      1/(λ + μ) with μ = (ε − λ)²/(2ε): grows smoothly from 0 at λ = ε to ε/2 at λ = 0
    "truncated"   0
    "raise"       SingularTaskError

Directions that are not singular are inverted exactly by all policies.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from kinetree.algorithms.operational_space.inversion import sweep_inverse
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.kernels import bind
from kinetree.errors import InputError, SingularTaskError, UnknownNameError
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.topology import WORLD
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array

POLICIES = ("damped", "truncated", "raise")

#: Eigenvalues below this share of the largest one count as singular. They are squares of what a Jacobian's singular
#: values would be, so this is a thousandth of the way from a singular configuration to a regular one.
CUT = 1e-6

#: The same for contacts, which may hold one direction twice, but should hold everything that they can.
REDUNDANT = 1e-10


@lru_cache(maxsize=64)
def _sweep(rows: int) -> Compiled:
    """The inverse of matrices of one size. Rows of a still world have no tree, so that all robots share the code."""
    nothing = Mechanism((), (), (), (), np.zeros(3))
    place = Transform.identity().data
    sites = [Site(str(i), WORLD, place, tuple(range(min(6, rows - i)))) for i in range(0, rows, 6)]
    return bind(sweep_inverse, nothing, sites, "inertia")


class Inverse:
    """Inverts Λ⁻¹ of some tasks.

    Args:
        groups: For each row, the number of the group whose rows have comparable units, (r,).
        names: What the tasks are called, for messages.

    Attributes:
        rows: Number of rows.
    """

    def __init__(self, groups: Array, names: str) -> None:
        same = groups[:, None] == groups[None, :]
        self._means = same / same.sum(axis=1)
        self.rows: int = len(groups)
        self._names = names
        self._sweep = _sweep(len(groups))

    def __call__(self, inverse_inertia: Array, scale: Array, policy: str, cut: float) -> Array:
        """Λ, (…, r, r).

        Args:
            inverse_inertia: Λ⁻¹, (…, r, r).
            scale: Where weights come from: Λ⁻¹ itself, or what it was before contacts took something away, (…, r, r).
            policy: One of `POLICIES`.
            cut: Share of the largest eigenvalue at which directions begin to be singular.
        """
        inertia: Array
        spread: Array
        inertia, spread = self._sweep(inverse_inertia, scale, self._means)
        limit = self.trusted(cut)
        if inertia.ndim == 2:
            if spread.item() < limit:
                return inertia
            return self._by_eigenvalues(inverse_inertia, scale, policy, cut, None)
        doubtful: Array = np.logical_not(spread < limit)
        if doubtful.any():
            inertia[doubtful] = self._by_eigenvalues(inverse_inertia[doubtful], scale[doubtful], policy, cut, doubtful)
        return inertia

    def trusted(self, cut: float) -> float:
        """The `spread` below which no direction is singular.

        The least eigenvalue is at least 1/√spread; the largest is at most their sum, which is at most r.
        """
        return 1.0 / (cut * self.rows) ** 2

    def eigenvalues(self, inverse_inertia: Array, scale: Array) -> Array:
        """Eigenvalues of the weighted Λ⁻¹, ascending, (…, r); NaN where it is not finite."""
        return self._decomposed(inverse_inertia, scale)[0]

    def _decomposed(self, inverse_inertia: Array, scale: Array) -> tuple[Array, Array, Array]:
        """Eigenvalues, eigenvectors and roots of the weights; a matrix that is not finite has eigenvalues NaN."""
        finite: Array = np.asarray(np.isfinite(inverse_inertia).all(axis=(-2, -1)))
        # One matrix that is not finite would make NumPy give up on the whole batch.
        safe = inverse_inertia if finite.all() else np.where(finite[..., None, None], inverse_inertia, 0.0)
        with np.errstate(invalid="ignore"):
            roots = np.sqrt(np.diagonal(scale, axis1=-2, axis2=-1) @ self._means)
        roots = np.where(roots > 0.0, roots, 1.0)  # rows that nothing moves, or that are not finite
        values, vectors = np.linalg.eigh(safe / (roots[..., :, None] * roots[..., None, :]))
        return np.where(finite[..., None], values, np.nan), vectors, roots

    def _by_eigenvalues(self, inverse_inertia: Array, scale: Array, policy: str, cut: float, places: Any) -> Array:
        values, vectors, roots = self._decomposed(inverse_inertia, scale)
        edge = _edge(values, cut)
        singular = values <= edge
        if policy == "raise" and singular.any():
            self._refuse(values, edge, places)
        if policy == "truncated":
            values = np.where(singular, np.inf, values)
        elif policy == "damped":
            remaining = np.maximum(values, 0.0)
            values = np.where(singular, (remaining * remaining + edge * edge) / (2.0 * edge), values)
        turned = vectors / roots[..., :, None]
        inertia: Array = (turned / values[..., None, :]) @ np.swapaxes(turned, -1, -2)
        return 0.5 * (inertia + np.swapaxes(inertia, -1, -2))

    def _refuse(self, values: Array, edge: Array, places: Any) -> None:
        rank = np.atleast_1d((values > edge).sum(axis=-1))
        bad = np.atleast_1d((values <= edge).any(axis=-1))
        samples = () if places is None else tuple(map(tuple, np.argwhere(places)[bad].tolist()))
        raise SingularTaskError(self._names, self.rows, samples, tuple(rank[bad].tolist()))


def rank(eigenvalues: Array, cut: float) -> Array:
    """How many directions are not singular, (…); −1 where Λ⁻¹ is not finite."""
    regular = (eigenvalues > _edge(eigenvalues, cut)).sum(axis=-1)
    return np.where(np.isnan(eigenvalues[..., 0]), -1, regular)


def _edge(eigenvalues: Array, cut: float) -> Array:
    return cut * np.maximum(eigenvalues[..., -1:], 1.0)


def require_policy(policy: object, cut: object) -> None:
    """Refuse what is no policy, or no share."""
    if policy not in POLICIES:
        raise UnknownNameError("policy for singular tasks", policy, POLICIES)
    if not isinstance(cut, (int, float, np.floating)) or not 0.0 < cut < 1.0:
        raise InputError(f"cut is a share of the largest eigenvalue, between 0 and 1; got {cut!r}")
