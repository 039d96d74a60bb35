"""State shared by all functions of some tasks: their recursions, and the treatment of singular samples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinetree.algorithms.operational_space.clear_gap import LEAST_CUT, invert_clear
from kinetree.algorithms.operational_space.eigen import invert
from kinetree.engines.native.expected import made_for
from kinetree.operational_space import singular
from kinetree.operational_space.freedom import most_independent_rows
from kinetree.operational_space.recursions import Recursions
from kinetree.operational_space.singular import Eigenvalues, Spectrum
from kinetree.spatial.value import Array

#: The value of `spread` below which a doubtful sample is not clear: its least eigenvalue is more than rounding, 10⁻¹³.
_UNCLEAR = 2.0**86


@dataclass(frozen=True)
class Core:
    """Tasks of a robot, with contacts or without.

    Attributes:
        recursions: The recursions of contacts and tasks together.
        names: Names of the tasks, for messages.
        rows: Number of rows of the tasks, r.
        held: Number of rows of contacts, which come first.
        policy: One of `kinetree.operational_space.singular.POLICIES`.
        cut: Fraction of the largest eigenvalue of Λ⁻¹ below which directions are singular.
    """

    recursions: Recursions
    names: str
    rows: int
    held: int
    policy: str
    cut: float

    @cached_property
    def reach(self) -> Array:
        """Typical mobility of each row at other configurations, (r,); see `kinetree.operational_space.reach`."""
        return self.recursions.reach[self.held :]

    @cached_property
    def _means(self) -> Array:
        return singular.means(self.recursions.groups[self.held :])

    @cached_property
    def contact_scale(self) -> tuple[Array, Array]:
        """Means and reach, which weight the rows of contacts."""
        return singular.means(self.recursions.groups[: self.held]), self.recursions.reach[: self.held]

    @cached_property
    def excessive(self) -> bool:
        """Whether there are more rows than can be independent, so that every sample is singular."""
        return self.rows > most_independent_rows(self.recursions.robot.mechanism, self.recursions.sites)

    @property
    def trusted(self) -> float:
        """The value of `spread` below which no direction is singular."""
        return singular.trusted(self.rows, self.cut)

    def spectrum(self, A: Array, own: Array) -> Spectrum:
        """Eigendecomposition of the weighted Λ⁻¹.

        Args:
            A: Λ⁻¹, (…, r, r).
            own: Its diagonal without contacts, (…, r).
        """
        return singular.spectrum(A, own, self._means, self.reach, self.cut)

    def inertia(self, of: Spectrum, places: Array | None) -> Array:
        """Λ under the policy, (…, r, r).

        Args:
            of: Eigendecomposition of the weighted Λ⁻¹.
            places: Batch indices of the samples, one per row; None for a single sample.

        Raises:
            SingularTaskError: With the policy "raise", if a sample is singular.
        """
        if self.policy == "raise":
            singular.refuse_singular(of, self.names, places)
        return singular.inverted(of, self.policy)

    @cached_property
    def may_be_clear(self) -> bool:
        """Whether samples can be recognised as clearly singular or not."""
        return self.rows > 0 and self.cut >= LEAST_CUT

    def begin_doubtful(self) -> None:
        """Let other threads begin with the kernels of `inertia_of_doubtful`."""
        if self.may_be_clear:
            singular.over_rows(invert_clear, self.rows)
        elif self.rows:
            singular.decomposition(self.rows)
            singular.over_rows(invert, self.rows)

    def inertia_of_doubtful(self, q: Array, places: Array | None, spread: Array | None = None) -> Array:
        """Λ of samples that may be singular, without contacts, (…, r, r).

        Args:
            q: (…, nq).
            places: As for `inertia`.
            spread: From the kernel for regular samples, (…), if it has been called.
        """
        if not self.may_be_clear:
            return self._inertia_by_eigenvalues(q, places)
        if places is None:
            if spread is not None and spread.item() < _UNCLEAR:
                return self._inertia_by_eigenvalues(q, None)
            inertia, rank, clear = self._clear_inertia(q)
            right = clear.item() == 1.0 and rank.item() >= self._least_rank
            return inertia if right else self._inertia_by_eigenvalues(q, None)
        unclear = np.zeros(q.shape[:-1], dtype=bool) if spread is None else spread < _UNCLEAR
        if unclear.all():
            return self._inertia_by_eigenvalues(q, places)
        if not unclear.any():
            inertia, rank, clear = self._clear_inertia(q)
        else:
            inertia = np.empty((*q.shape[:-1], self.rows, self.rows))
            rank, clear = np.zeros(q.shape[:-1]), np.zeros(q.shape[:-1])
            inertia[~unclear], rank[~unclear], clear[~unclear] = self._clear_inertia(q[~unclear])
        wrong = np.logical_or(clear != 1.0, rank < self._least_rank)
        if wrong.any():
            inertia[wrong] = self._inertia_by_eigenvalues(q[wrong], places[wrong.ravel()])
        return inertia

    @property
    def _least_rank(self) -> int:
        """The rank below which samples are left to the eigenvalues, which name them in an error."""
        return self.rows if self.policy == "raise" else 0

    def _clear_inertia(self, q: Array) -> tuple[Array, Array, Array]:
        """Λ, its rank, and whether they are certain."""
        found: tuple[Array, Array, Array]
        if self.eigenvalues is not None:
            found = made_for(self.eigenvalues, "clear_inertia", q)(q)
        else:
            found = self._clear_inverse(self.recursions.inverse_inertia(q))
        return found

    def _clear_inverse(self, A: Array) -> tuple[Array, Array, Array]:
        given = A, self._means, self.reach, self.cut, singular.softness(self.policy)
        found: tuple[Array, Array, Array] = singular.over_rows(invert_clear, self.rows)(*given)
        return found

    def rank(self, A: Array, spread: Array | None = None) -> Array:
        """Rank as floats, without contacts, (…); −1 where Λ⁻¹ is not finite.

        Args:
            A: Λ⁻¹, (…, r, r).
            spread: As for `inertia_of_doubtful`.
        """
        if not self.may_be_clear or (spread is not None and np.all(spread < _UNCLEAR)):
            return self.spectrum_of(A).rank
        _, rank, clear = self._clear_inverse(A)
        if A.ndim == 2:
            return rank if clear.item() == 1.0 else self.spectrum_of(A).rank
        doubtful = clear != 1.0
        if doubtful.any():
            rank[doubtful] = self.spectrum_of(A[doubtful]).rank
        return rank

    def _inertia_by_eigenvalues(self, q: Array, places: Array | None) -> Array:
        if self.policy != "raise" and self.eigenvalues is not None:
            result: Array = made_for(self.eigenvalues, "inertia", q)(q)
            return result
        return self.inertia(self.spectrum_of(self.recursions.inverse_inertia(q)), places)

    @cached_property
    def eigenvalues(self) -> Eigenvalues | None:
        """Compiled functions that depend on the eigenvalues of Λ⁻¹ without contacts, on the native engine."""
        if not self.rows or self.recursions.engine != "native":
            return None
        bound = self.recursions.inverse_inertia.bound()
        return Eigenvalues(bound, self._means, self.reach, self.cut, self.policy)

    def spectrum_of(self, A: Array) -> Spectrum:
        """Eigendecomposition of the weighted Λ⁻¹ without contacts.

        Args:
            A: Λ⁻¹, (…, r, r).
        """
        return self.spectrum(A, A.diagonal(axis1=-2, axis2=-1))
