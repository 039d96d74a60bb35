"""Named tuples for results with several parts."""

from __future__ import annotations

from typing import NamedTuple

from kinetree.spatial.value import Array


class Energy(NamedTuple):
    """Mechanical energy.

    Attributes:
        kinetic: (…) [J].
        potential: (…) [J], zero with all mass at the world's origin.
    """

    kinetic: Array
    potential: Array


class HybridDynamics(NamedTuple):
    """Motion and forces where some joints have given accelerations.

    Attributes:
        a: Joint accelerations, (…, nv).
        tau: Joint forces, (…, nv).
    """

    a: Array
    tau: Array


class StackedVectors(NamedTuple):
    """Vectors of all nodes, in their own coordinates, one after the other: (…, m) each.

    Attributes:
        V: Velocities.
        alpha: Accelerations, with gravity as an upward acceleration of the world.
        f: Forces that joints transmit to their nodes.
        coriolis: Coriolis accelerations a.
        gyroscopic: Gyroscopic forces b.
    """

    V: Array
    alpha: Array
    f: Array
    coriolis: Array
    gyroscopic: Array


class LinearizedInverse(NamedTuple):
    """δτ = dq δq + dv δv + da δa, about a state and its accelerations.

    Attributes:
        dq: ∂τ/∂q, (…, nv, nv): δq is a tangent, the increment of `robot.integrate(q, δq)`.
        dv: ∂τ/∂v, (…, nv, nv).
        da: ∂τ/∂a, the mass matrix, (…, nv, nv).
    """

    dq: Array
    dv: Array
    da: Array


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


class LinearizedAcceleration(NamedTuple):
    """δA = dq δq + dv δv + da δa of frames' accelerations A, about a state and its accelerations.

    Attributes:
        dq: ∂A/∂q, (…, 6, nv): δq is a tangent, the increment of `robot.integrate(q, δq)`.
        dv: ∂A/∂v, (…, 6, nv).
        da: ∂A/∂a, the Jacobian, (…, 6, nv).
    """

    dq: Array
    dv: Array
    da: Array


class InverseGradients(NamedTuple):
    """Gradients of wᵀτ of inverse dynamics; from `hvp`, their directional derivatives.

    Attributes:
        dq: With respect to q, along the tangent, (…, nv).
        dv: With respect to v, (…, nv).
        da: With respect to a, (…, nv).
    """

    dq: Array
    dv: Array
    da: Array


class ForwardGradients(NamedTuple):
    """Gradients of wᵀa of forward dynamics; from `hvp`, their directional derivatives.

    Attributes:
        dq: With respect to q, along the tangent, (…, nv).
        dv: With respect to v, (…, nv).
        dtau: With respect to τ, (…, nv).
    """

    dq: Array
    dv: Array
    dtau: Array


class Discretized(NamedTuple):
    """δx′ = A δx + B δτ, for x = (q, v) with δq along the tangent.

    Attributes:
        A: (…, 2 nv, 2 nv).
        B: (…, 2 nv, nv).
    """

    A: Array
    B: Array
