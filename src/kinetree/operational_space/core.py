"""State shared by all functions of some tasks: their recursions, and the treatment of singular samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kinetree.algorithms.operational_space.clear_gap import LEAST_CUT, invert_clear, invert_close
from kinetree.algorithms.operational_space.eigen import invert
from kinetree.engines.native.expected import made_for
from kinetree.operational_space import singular
from kinetree.operational_space.freedom import most_independent_rows
from kinetree.operational_space.recursions import Recursions
from kinetree.operational_space.singular import Eigenvalues, Spectrum
from kinetree.spatial.value import Array

#: The value of `spread` below which a doubtful sample is not clear: its least eigenvalue is more than rounding, 10⁻¹³.
_UNCLEAR = 2.0**86
#: The number of rows from which on a few eigenvectors are found in less time than all.
_MANY_ROWS = 8
#: The number of singular samples in a row after which the next one is taken for singular, too.
_EXPECTED = 2


@dataclass
class Recent:
    """What the last single samples were like. This decides what is tried first, but no result depends on it.

    Attributes:
        singular: How many in a row were singular.
        close: Whether the last of them had eigenvalues close to the edge.
    """

    singular: int = 0
    close: bool = False


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
        recent: What the last single samples were like.
    """

    recursions: Recursions
    names: str
    rows: int
    held: int
    policy: str
    cut: float
    recent: Recent = field(default_factory=Recent, compare=False, repr=False)

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
            found = self._inertia_of_one(q, spread is not None and spread.item() < _UNCLEAR, self.rows)
            return self._inertia_by_eigenvalues(q, None) if found is None else found
        inertia, left = None, np.ones(q.shape[:-1], dtype=bool)
        unclear = np.zeros_like(left) if spread is None else spread < _UNCLEAR
        for close, candidates in ((False, ~unclear), (True, True), (False, unclear))[: 3 if self._many else 1]:
            which = left & candidates
            if not which.any():
                continue
            if which.all():
                inertia, rank, clear, _ = self._inertia_with_gap(q, close)
            else:
                inertia = np.empty((*q.shape[:-1], self.rows, self.rows)) if inertia is None else inertia
                inertia[which], rank, clear, _ = self._inertia_with_gap(q[which], close)
            left[which] = np.logical_or(clear != 1.0, rank < self._least_rank).ravel()
        if inertia is None:
            return self._inertia_by_eigenvalues(q, places)
        if left.any():
            inertia[left] = self._inertia_by_eigenvalues(q[left], places[left.ravel()])
        return inertia

    def inertia_if_singular(self, q: Array) -> Array | None:
        """Λ of a sample, (r, r), if it is singular beyond doubt and follows recent ones that were; else None.

        So it is known at once that Λ⁻¹ has no ordinary inverse. The result is that of `inertia_of_doubtful`, since the
        sample would have been doubtful: an eigenvalue is at most ε, which is at most cut times r; see `trusted`.
        """
        return None if self.recent.singular < _EXPECTED else self._inertia_of_one(q, False, self.rows - 1)

    def _inertia_of_one(self, q: Array, unclear: bool, most: int) -> Array | None:
        """Λ of one sample, (r, r), if it needs no more than a few eigenvectors.

        Args:
            q: (nq,).
            unclear: Whether an eigenvalue is known to be close to the edge.
            most: The rank above which there is no result.
        """
        recent = self.recent
        for close in self._attempts[unclear or recent.close]:
            inertia, rank, clear, between = self._inertia_with_gap(q, close)
            number = rank.item()
            if clear.item() == 1.0 and number >= self._least_rank:
                recent.close = between.item() > 0.0
                recent.singular = recent.singular + 1 if number < self.rows else 0
                return inertia if number <= most else None
        recent.singular, recent.close = 0, False
        return None

    @cached_property
    def _attempts(self) -> dict[bool, tuple[bool, ...]]:
        """What to try before all eigenvectors, if eigenvalues are expected close to the edge, and if not.

        Each attempt says whether a few eigenvalues may be close to it, or none. Results do not depend on the order:
        where both kernels are certain, they are the same.
        """
        return {True: (True, False) if self._many else (), False: (False, True) if self._many else (False,)}

    @property
    def _many(self) -> bool:
        return self.rows >= _MANY_ROWS

    @cached_property
    def _least_rank(self) -> int:
        """The rank below which samples are left to the eigenvalues, which name them in an error."""
        return self.rows if self.policy == "raise" else 0

    def _inertia_with_gap(self, q: Array, close: bool) -> tuple[Array, Array, Array, Array]:
        """Λ, its rank, whether they are certain, and the number of eigenvalues close to the edge.

        Args:
            q: (…, nq).
            close: Whether a few eigenvalues may be close to it.
        """
        found: tuple[Array, Array, Array, Array]
        if self.eigenvalues is not None:
            found = made_for(self.eigenvalues, "close_inertia" if close else "clear_inertia", q)(q)
        else:
            found = self._inverse_with_gap(self.recursions.inverse_inertia(q), close)
        return found

    def _inverse_with_gap(self, A: Array, close: bool) -> tuple[Array, Array, Array, Array]:
        given = A, self._means, self.reach, self.cut, singular.softness(self.policy)
        inverting = singular.over_rows(invert_close if close else invert_clear, self.rows)
        found: tuple[Array, Array, Array, Array] = inverting(*given)
        return found

    def rank(self, A: Array, spread: Array | None = None) -> Array:
        """Rank as floats, without contacts, (…); −1 where Λ⁻¹ is not finite.

        Args:
            A: Λ⁻¹, (…, r, r).
            spread: As for `inertia_of_doubtful`.
        """
        unclear = spread is not None and bool(np.all(spread < _UNCLEAR))
        rank, left = np.empty(A.shape[:-2]), np.ones(A.shape[:-2], dtype=bool)
        for close in self._attempts[unclear] if self.may_be_clear else ():
            _, found, clear, _ = self._inverse_with_gap(A if left.all() else A[left], close)
            rank[left] = found.ravel()
            left[left] = clear.ravel() != 1.0
            if not left.any():
                return rank
        rank[left] = self.spectrum_of(A[left]).rank
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
