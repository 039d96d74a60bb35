"""Kinetree's functions as differentiable functions of JAX arrays, on the CPU.

    import jax
    import kinetree.jax

    jax.config.update("jax_enable_x64", True)
    forward_dynamics = kinetree.jax.forward_dynamics(robot)
    jax.jit(jax.grad(lambda tau: forward_dynamics(q, v, tau).sum()))(tau)

Compiled programs call the kernels directly, through XLA's foreign function interface: no Python, no copies, the same
bits as `robot.forward_dynamics`. `jit`, `vmap`, `scan`, forward mode (`jvp`, `jacfwd`) and reverse mode (`grad`, `vjp`,
`jacrev`) work with every function here, and a `vmap` is one batched call. Results have the type of the arrays. What
computes them is the type of the robot: float32 arrays, JAX's default, go to the kernels of `robot.astype("float32")` as
they are; a robot in float64 computes in float64, and the result is rounded.

Derivatives with respect to q are taken with respect to its components: four for a quaternion, whose length has no
effect. Gradient steps leave the unit quaternions; `integrate` and `step` never do. For derivatives along the tangent,
use `robot.forward_dynamics.jvp` and `.vjp`. Second derivatives (`hessian`, in any combination of modes) exist for all
functions but `jacobian` and `inverse_inertia`, where they raise `SecondDerivativeError`.
"""

from kinetree.jax.api import forward_dynamics, inverse_dynamics
from kinetree.jax.configuration import integrate, inverse_inertia, jacobian, mass_matrix, pose, step

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
