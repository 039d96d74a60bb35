"""Kinetree's functions as differentiable functions of JAX arrays, on the CPU.

    import jax
    import kinetree.jax

    jax.config.update("jax_enable_x64", True)
    forward_dynamics = kinetree.jax.forward_dynamics(robot)
    jax.jit(jax.grad(lambda tau: forward_dynamics(q, v, tau).sum()))(tau)

Compiled programs call the kernels directly, through XLA's foreign function interface: no Python, no copies, the same
bits as `robot.forward_dynamics`. `jit`, `vmap`, `scan`, forward mode (`jvp`, `jacfwd`) and reverse mode (`grad`, `vjp`,
`jacrev`) work with every function here, and a `vmap` is one batched call. Arrays of float32 are computed in float64 and
rounded at the end.

Derivatives with respect to q are with respect to its numbers, as JAX understands them: four for a quaternion, whose
length changes nothing. Steps along them leave the unit quaternions; `integrate` and `step` never do. Derivatives along
the tangent are `robot.forward_dynamics.jvp` and `.vjp`. Derivatives cannot be differentiated again.
"""

from kinetree.jax.configuration import integrate, inverse_inertia, jacobian, mass_matrix, pose, step
from kinetree.jax.dynamics import forward_dynamics, inverse_dynamics

__all__ = [
    "forward_dynamics",
    "integrate",
    "inverse_dynamics",
    "inverse_inertia",
    "jacobian",
    "mass_matrix",
    "pose",
    "step",
]
