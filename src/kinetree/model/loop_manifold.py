"""The configurations of a cluster with closed loops: q holds all joint coordinates, v the independent rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kinetree.errors import UnsupportedError
from kinetree.model.joints.screw import ScrewStage
from kinetree.model.joints.series import Series
from kinetree.spatial.least_squares import least_squares
from kinetree.spatial.scalar import Constant, select
from kinetree.spatial.value import Array

# Newton steps after the prediction: their errors are squared each time, so that a tenth of a radian vanishes
_STEPS = 4
# loops open by more than this fraction of their size after all steps are not closed [m or rad]
_OPEN = Constant(1e-8, 1e-4)


class Cluster(Protocol):
    """The formulas of a cluster that its coordinates need."""

    @property
    def series(self) -> Series:
        """The coordinates of all joints."""

    @property
    def joint_rates(self) -> int:
        """Number of their rates."""

    @property
    def independent(self) -> tuple[int, ...]:
        """The independent rates."""

    @property
    def dependent(self) -> tuple[int, ...]:
        """The others."""

    def coupling(self, parameters: Array, q: Array) -> Array:
        """All rates per independent rate."""

    def loops(self, parameters: Array, q: Array) -> tuple[Array, Array]:
        """Residuals of the constraints, and their derivatives."""


@dataclass(frozen=True)
class LoopManifold:
    """A `recursion.node.Manifold` whose points satisfy φ(q) = 0.

    Args:
        kind: The cluster's formulas.
        parameters: Its constants.
    """

    kind: Cluster
    parameters: Array

    def integrate(self, q: Array, step: Array) -> Array:
        """Move the independent joints, and let the others follow by Newton's method; NaN if they cannot."""
        kind, columns = self.kind, list(self.kind.dependent)
        q = kind.series.integrate(q, kind.coupling(self.parameters, q) @ step)
        for _ in range(_STEPS if columns else 0):
            residual, K = kind.loops(self.parameters, q)
            correction: list[Any] = [0.0] * kind.joint_rates
            for i, x in zip(columns, least_squares(K[:, columns], -residual[:, None])[:, 0], strict=True):
                correction[i] = x
            q = kind.series.integrate(q, np.array(correction))
        residual, _ = kind.loops(self.parameters, q)
        # open loops give NaN: a sum with 0 where they are closed
        closed: Array = q + select(residual @ residual, _OPEN * _OPEN, 0.0, np.nan)
        return closed

    def difference(self, q0: Array, q1: Array) -> Array:
        """The rates of the independent joints; the others follow."""
        self._require_coordinates()
        return self.kind.series.difference(q0, q1)[list(self.kind.independent)]

    def room(self, q: Array, limit: Array) -> Array:
        """That of the independent joints. Limits of the others bound nothing: there is no velocity to stop."""
        return self.kind.series.difference(q, limit)[list(self.kind.independent)]

    def rates(self, q: Array, v: Array) -> Array:
        return self.kind.series.rates(q, self.kind.coupling(self.parameters, q) @ v)

    def transport(self, step: Array) -> Array:
        return self._own(self.kind.series.transport(self._spread(step)))

    def right_jacobian(self, step: Array) -> Array:
        return self._own(self.kind.series.right_jacobian(self._spread(step)))

    def inverse_right_jacobian(self, step: Array) -> Array:
        return self._own(self.kind.series.inverse_right_jacobian(self._spread(step)))

    def bracket(self, x: Array) -> Array:
        return self._own(self.kind.series.bracket(self._spread(x)))

    def tangent_map(self, q: Array) -> Array:
        own: Array = self.kind.series.tangent_map(q)[list(self.kind.independent)]
        return own

    def normalize(self, q: Array) -> Array:
        return self.kind.series.normalize(q)

    def _spread(self, step: Array) -> Array:
        """A step of the independent joints alone, as one of all joints."""
        found: list[Any] = [0.0] * self.kind.joint_rates
        for i, x in zip(self.kind.independent, step, strict=True):
            found[i] = x
        return np.array(found)

    def _require_coordinates(self) -> None:
        """Raise if some independent rates are not those of whole joints: then no coordinates belong to them."""
        start, own = 0, set(self.kind.independent)
        for stage in self.kind.series.stages:
            rates = set(range(start, start + stage.nv))
            start += stage.nv
            if own & rates and not rates <= own and isinstance(stage, ScrewStage):
                raise UnsupportedError(
                    f"a single velocity of a {stage.name} joint is independent here, a rate without coordinate: there "
                    "are no differences of configurations, and no derivatives of integrate. Choose whole joints with "
                    "with_independent()"
                )

    def _own(self, matrix: Array) -> Array:
        self._require_coordinates()
        own: Array = matrix[np.ix_(self.kind.independent, self.kind.independent)]
        return own
