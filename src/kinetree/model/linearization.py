"""What `linearize` gives: the dynamics about a state, to first order."""

from __future__ import annotations

from typing import NamedTuple

from kinetree.spatial.value import Array


class LinearizedInverse(NamedTuple):
    """δτ = dq δq + dv δv + M δa, about a state and its accelerations.

    Attributes:
        dq: ∂τ/∂q, (…, nv, nv): δq is a tangent, the increment of `robot.integrate(q, δq)`.
        dv: ∂τ/∂v, (…, nv, nv).
        M: ∂τ/∂a, the mass matrix, (…, nv, nv).
    """

    dq: Array
    dv: Array
    M: Array


class LinearizedForward(NamedTuple):
    """δa = dq δq + dv δv + dtau δτ, about a state and its joint forces.

    Attributes:
        dq: ∂a/∂q, (…, nv, nv): δq is a tangent, the increment of `robot.integrate(q, δq)`.
        dv: ∂a/∂v, (…, nv, nv).
        dtau: ∂a/∂τ, the inverse of the mass matrix, (…, nv, nv).
    """

    dq: Array
    dv: Array
    dtau: Array
