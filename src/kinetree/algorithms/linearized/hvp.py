"""Hessian-vector products: directional derivatives of the gradients of wᵀτ and wᵀa. Cost O(n), about three times `vjp`.

They are the recursions of `vjp` on dual numbers (`kinetree.recursion.forward_mode`), so they are exact and compiled.
Published second-order recursions compute arrays of n³ numbers; these are their products with w and a direction, without
the arrays.

For fixed w they are products of a Hessian with a direction. On joints with several degrees of freedom this Hessian is
not symmetric: the tangent basis of the gradient rotates with q, and eᵀ h(d) − dᵀ h(e) is the gradient along the bracket
of d and e.
"""

from __future__ import annotations

from kinetree.algorithms.linearized.forward_dynamics_vjp import forward_dynamics_vjp
from kinetree.algorithms.linearized.inverse_dynamics_vjp import inverse_dynamics_vjp
from kinetree.recursion.forward_mode import directional_derivative

#: Directional derivatives of wᵀ ∂τ/∂q, wᵀ ∂τ/∂v and wᵀ M along (dq, dv, da).
inverse_dynamics_hvp = directional_derivative(
    inverse_dynamics_vjp, "inverse_dynamics_hvp", "dq", {"dv": "v", "da": "a"}, outputs=("hq", "hv", "ha")
)

#: Directional derivatives of wᵀ ∂a/∂q, wᵀ ∂a/∂v and wᵀ M⁻¹ along (dq, dv, dτ).
forward_dynamics_hvp = directional_derivative(
    forward_dynamics_vjp, "forward_dynamics_hvp", "dq", {"dv": "v", "dtau": "tau"}, outputs=("hq", "hv", "htau")
)
