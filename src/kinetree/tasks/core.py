"""State shared by all functions of some tasks: their recursions, and the treatment of singular samples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kinetree.spatial.value import Array
from kinetree.tasks import singular
from kinetree.tasks.recursions import Recursions, most_independent_rows
from kinetree.tasks.singular import Eigenvalues, Spectrum


@dataclass(frozen=True)
class Core:
    """Tasks of a robot, with contacts or without."""

    recursions: Recursions  # of contacts and tasks together
    names: str  # of the tasks, for messages
    rows: int  # of the tasks, r
    held: int  # rows of contacts, which come first
    policy: str  # one of `kinetree.tasks.singular.POLICIES`
    cut: float  # fraction of the largest eigenvalue of Λ⁻¹ below which directions are singular

    @cached_property
    def reach(self) -> Array:
        """Typical mobility of each row at other configurations, (r,); see `kinetree.tasks.recursions`."""
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
    def singular_kernels(self) -> tuple[Any, ...]:
        """What Λ of a singular sample takes, without contacts."""
        return self.recursions.inverse_inertia, *singular.eigen_steps(self.rows, inverts=True)

    @property
    def trusted(self) -> float:
        """The value of `spread` below which no direction is singular."""
        return singular.trusted(self.rows, self.cut)

    def spectrum(self, A: Array, own: Array) -> Spectrum:
        """Eigendecomposition of the weighted Λ⁻¹, given A = Λ⁻¹, (…, r, r), and its diagonal without contacts."""
        return singular.spectrum(A, own, self._means, self.reach, self.cut)

    def inertia(self, of: Spectrum, places: Array | None) -> Array:
        """Λ under the policy, (…, r, r); `places` are the batch indices of samples, None for a single one.

        Raises:
            SingularTaskError: With the policy "raise", if a sample is singular.
        """
        if self.policy == "raise":
            singular.refuse_singular(of, self.names, places)
        return singular.inverted(of, self.policy)

    def inertia_of_doubtful(self, q: Array, places: Array | None) -> Array:
        """Λ of samples that may be singular, without contacts, (…, r, r)."""
        if self.policy != "raise" and self.eigenvalues is not None:
            result: Array = self.eigenvalues.inertia(q)
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
        """Eigendecomposition of the weighted Λ⁻¹ without contacts."""
        return self.spectrum(A, A.diagonal(axis1=-2, axis2=-1))
