"""Directional derivatives of the dynamics for nodes of any kind: the recursions themselves, on dual numbers. Cost O(n).

Trees of rigid bodies have recursions of their own (`inverse_dynamics_jvp.py`, `forward_dynamics_jvp.py`), which take
fewer operations.
"""

from __future__ import annotations

from kinetree.algorithms.forward_dynamics import forward_dynamics
from kinetree.algorithms.inverse_dynamics import inverse_dynamics
from kinetree.recursion.forward_mode import directional_derivative

#: Rate of τ while (q, v, a) change along (dq, dv, da).
inverse_dynamics_jvp_by_weights = directional_derivative(
    inverse_dynamics, "inverse_dynamics_jvp_by_weights", "dq", {"dv": "v", "da": "a"}, outputs=("dtau",)
)

#: Rate of the joint accelerations while (q, v, τ) change along (dq, dv, dτ).
forward_dynamics_jvp_by_weights = directional_derivative(
    forward_dynamics, "forward_dynamics_jvp_by_weights", "dq", {"dv": "v", "dtau": "tau"}, outputs=("da",)
)
