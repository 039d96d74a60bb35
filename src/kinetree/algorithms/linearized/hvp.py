"""Hessian-vector products: directional derivatives of the gradients of wᵀτ and wᵀa. Cost O(n), about three times `vjp`.

They are the recursions of `vjp` on dual numbers (`kinetree.recursion.forward_mode`), so they are exact and compiled.
Published second-order recursions compute arrays of n³ numbers; these are their products with w and a direction, without
the arrays.

For fixed w they are products of a Hessian with a direction. On joints with several degrees of freedom this Hessian is
not symmetric: the tangent basis of the gradient rotates with q, and eᵀ h(d) − dᵀ h(e) is the gradient along the bracket
of d and e.
"""

from __future__ import annotations

from kinetree.algorithms.linearized.by_weights.gradients import (
    forward_dynamics_vjp_by_weights,
    inverse_dynamics_vjp_by_weights,
)
from kinetree.algorithms.linearized.forward_dynamics_vjp import forward_dynamics_vjp
from kinetree.algorithms.linearized.inverse_dynamics_vjp import inverse_dynamics_vjp
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.forward_mode import directional_derivative


def _inverse(vjp: Algorithm, name: str) -> Algorithm:
    return directional_derivative(vjp, name, "dq", {"dv": "v", "da": "a"}, outputs=("hq", "hv", "ha"))


def _forward(vjp: Algorithm, name: str) -> Algorithm:
    return directional_derivative(vjp, name, "dq", {"dv": "v", "dtau": "tau"}, outputs=("hq", "hv", "htau"))


#: Directional derivatives of wᵀ ∂τ/∂q, wᵀ ∂τ/∂v and wᵀ M along (dq, dv, da).
inverse_dynamics_hvp = _inverse(inverse_dynamics_vjp, "inverse_dynamics_hvp")
#: The same for nodes of any kind.
inverse_dynamics_hvp_by_weights = _inverse(inverse_dynamics_vjp_by_weights, "inverse_dynamics_hvp_by_weights")

#: Directional derivatives of wᵀ ∂a/∂q, wᵀ ∂a/∂v and wᵀ M⁻¹ along (dq, dv, dτ).
forward_dynamics_hvp = _forward(forward_dynamics_vjp, "forward_dynamics_hvp")
#: The same for nodes of any kind.
forward_dynamics_hvp_by_weights = _forward(forward_dynamics_vjp_by_weights, "forward_dynamics_hvp_by_weights")
