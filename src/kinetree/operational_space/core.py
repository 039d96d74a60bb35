"""What all functions of some tasks share: the recursions of their rows, and what to do where they are singular."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinetree.operational_space import singular
from kinetree.operational_space.recursions import Recursions
from kinetree.operational_space.singular import Spectrum
from kinetree.spatial.value import Array


@dataclass(frozen=True)
class Core:
    """Tasks of a robot, with contacts or without.

    Attributes:
        recursions: Those of contacts and tasks together.
        names: What the tasks are called, for messages.
        rows: Number of rows of the tasks, r.
        held: Number of rows of contacts; they come first.
        policy: One of `kinetree.operational_space.singular.POLICIES`.
        cut: Share of the largest eigenvalue of Λ⁻¹ at which directions begin to be singular.
    """

    recursions: Recursions
    names: str
    rows: int
    held: int
    policy: str
    cut: float

    @property
    def reach(self) -> Array:
        """How far the robot moves each row at other configurations, (r,): see `kinetree.operational_space.reach`."""
        return self.recursions.reach[self.held :]

    @cached_property
    def _means(self) -> Array:
        return singular.means(self.recursions.groups[self.held :])

    @cached_property
    def contact_scale(self) -> tuple[Array, Array]:
        """What weighs rows of contacts: means and reach."""
        return singular.means(self.recursions.groups[: self.held]), self.recursions.reach[: self.held]

    @property
    def trusted(self) -> float:
        """The spread of Λ⁻¹ below which no direction is singular."""
        return singular.trusted(self.rows, self.cut)

    def spectrum(self, A: Array, own: Array) -> Spectrum:
        """The weighted Λ⁻¹, taken apart.

        Args:
            A: Λ⁻¹, (…, r, r).
            own: Its diagonal, or what that was before contacts took something away, (…, r).
        """
        return singular.spectrum(A, own, self._means, self.reach)

    def inertia(self, of: Spectrum, places: Array | None) -> Array:
        """Λ, (…, r, r), as the policy has it.

        Args:
            of: Λ⁻¹, taken apart.
            places: Indices of the samples in the user's batch, one in each row; None for a single sample.

        Raises:
            SingularTaskError: With the policy "raise", if a sample is singular.
        """
        if self.policy == "raise":
            singular.refuse_singular(of, self.cut, self.names, places)
        return singular.inverted(of, self.policy, self.cut)

    def inertia_by_eigenvalues(self, q: Array, places: Array | None) -> Array:
        """Λ of samples that may be singular, without contacts, (…, r, r).

        Args:
            q: (…, nq).
            places: As for `inertia`.
        """
        A = self.recursions.inverse_inertia(q)
        return self.inertia(self.spectrum(A, np.diagonal(A, axis1=-2, axis2=-1)), places)
