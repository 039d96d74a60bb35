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
functions; third derivatives raise `SecondDerivativeError`.
"""

from kinetree.jax.api import bridge

inverse_dynamics = bridge.inverse_dynamics
forward_dynamics = bridge.forward_dynamics
mass_matrix = bridge.mass_matrix
mass_matrix_solve = bridge.mass_matrix_solve
mass_matrix_log_determinant = bridge.mass_matrix_log_determinant
bias_forces = bridge.bias_forces
gravity_forces = bridge.gravity_forces
energy = bridge.energy
pose = bridge.pose
velocity = bridge.velocity
acceleration = bridge.acceleration
jacobian = bridge.jacobian
center_of_mass = bridge.center_of_mass
centroidal_momentum_matrix = bridge.centroidal_momentum_matrix
tasks = bridge.tasks
inverse_inertia = bridge.inverse_inertia
integrate = bridge.integrate
difference = bridge.difference
step = bridge.step
simulate = bridge.simulate

__all__ = [
    "acceleration",
    "bias_forces",
    "center_of_mass",
    "centroidal_momentum_matrix",
    "difference",
    "energy",
    "forward_dynamics",
    "gravity_forces",
    "integrate",
    "inverse_dynamics",
    "inverse_inertia",
    "jacobian",
    "mass_matrix",
    "mass_matrix_log_determinant",
    "mass_matrix_solve",
    "pose",
    "simulate",
    "step",
    "tasks",
    "velocity",
]
