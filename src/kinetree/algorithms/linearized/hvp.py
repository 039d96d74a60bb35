"""Second derivatives along a direction: how the gradients of wᵀτ and wᵀa change. Cost O(n), about three times `vjp`.

The texts of `vjp`, run on dual numbers (`kinetree.recursion.forward_mode`): the derivative is exact, and native.
The published second-order recursions fill arrays of n³ numbers; their products with w and a direction are what is
computed here, without the arrays.

With w fixed these are Hessians times directions. On joints of several degrees of freedom they are not symmetric: the
tangent, in which the gradient is written, turns with q, and eᵀ h(d) − dᵀ h(e) is the gradient along the bracket of d
and e.
"""

from __future__ import annotations

from kinetree.algorithms.linearized.forward_dynamics_vjp import forward_dynamics_vjp
from kinetree.algorithms.linearized.inverse_dynamics_vjp import inverse_dynamics_vjp
from kinetree.recursion.forward_mode import directional_derivative

#: Rates of wᵀ ∂τ/∂q, wᵀ ∂τ/∂v and wᵀ M while (q, v, a) change along (dq, dv, da).
inverse_dynamics_hvp = directional_derivative(
    inverse_dynamics_vjp, "inverse_dynamics_hvp", "dq", {"dv": "v", "da": "a"}, outputs=("hq", "hv", "ha")
)

#: Rates of wᵀ ∂a/∂q, wᵀ ∂a/∂v and wᵀ M⁻¹ while (q, v, τ) change along (dq, dv, dτ).
forward_dynamics_hvp = directional_derivative(
    forward_dynamics_vjp, "forward_dynamics_hvp", "dq", {"dv": "v", "dtau": "tau"}, outputs=("hq", "hv", "htau")
)
