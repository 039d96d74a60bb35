"""What `kinetree.jax` and `kinetree.torch` share: functions of coordinates with derivatives, and one table of them.

    differentiable      what a differentiable function is, in any array library
    dynamics            inverse and forward dynamics, by the recursions of `jvp`, `vjp` and `hvp`
    functions           any function of q by its text on dual numbers; tasks; integration and differences
    parametric          the same of a robot's parameters, too
    simulation          steps and motions of simulators
    interface           the functions that users make of robots, the same for both libraries

To these libraries, a configuration is a vector of nq numbers, four for a quaternion, without a tangent space. All
functions are defined for quaternions of any nonzero length and do not depend on it, so derivatives along it are zero.
"""
