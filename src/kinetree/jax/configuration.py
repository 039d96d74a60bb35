"""Functions of the configuration: poses, Jacobians, the mass matrix, Λ⁻¹, and integration steps.

Each is one kernel call, and so are the terms of its derivative:

    pose               dT = T ξ̂ with the body twist ξ = J dq
    mass_matrix        dM column by column, as the change of inverse dynamics M a along dq: n calls in a batch
    jacobian           dJ as the rate of J along each velocity: n calls in a batch
    inverse_inertia    dΛ⁻¹ = dJ M⁻¹Jᵀ + (dJ M⁻¹Jᵀ)ᵀ − J M⁻¹ dM M⁻¹Jᵀ, from the two above
    integrate          the Jacobians of `Model.dintegrate`

`Model.tangent_map` maps changes of the components of q to tangents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kinetree.engines.arguments import common_batch, require_shape
from kinetree.errors import InputError
from kinetree.jax.dynamics import CHANGE, common, forward_dynamics, real, result_type
from kinetree.jax.ffi import JAX, jax, jnp, run
from kinetree.model.differentiable import Differentiable
from kinetree.model.model import Model

_JAX = JAX()


def mass_matrix(robot: Model) -> Callable[..., Any]:
    """`f(q)`: the joint-space inertia M, (…, nv, nv), as `Model.mass_matrix`."""
    _require_model("mass_matrix", robot)
    return _function("mass_matrix", robot, lambda q: run(robot.mass_matrix.bound(), q), _mass_change(robot))


def pose(robot: Model, frames: str | Sequence[str]) -> Callable[..., Any]:
    """`f(q)`: poses of frames in the world, (…, 4, 4) or (…, m, 4, 4), as `Model.pose`."""
    _require_model("pose", robot)
    value, jacobian_of = robot.pose.bound(frames), robot.jacobian.bound(frames, "local")

    def change(q: Any, dq: Any) -> Any:
        twist = jnp.einsum("...ij,...j->...i", run(jacobian_of, q), _along(_tangent(robot, q, dq), frames))
        return run(value, q) @ _hat(twist)

    return _function("pose", robot, lambda q: run(value, q), change)


def jacobian(robot: Model, frames: str | Sequence[str], reference: str = "local") -> Callable[..., Any]:
    """`f(q)`: Jacobians of frames, (…, 6, nv) or (…, m, 6, nv), as `Model.jacobian`."""
    _require_model("jacobian", robot)
    value, rate = robot.jacobian.bound(frames, reference), robot.jacobian_rate.bound(frames, reference)
    return _function("jacobian", robot, lambda q: run(value, q), _by_directions(robot, rate))


def inverse_inertia(robot: Model, frames: str | Sequence[str], reference: str = "local") -> Callable[..., Any]:
    """`f(q)`: Λ⁻¹ = J M⁻¹ Jᵀ of frames, (…, 6m, 6m), as `robot.tasks(frames, reference=…).inverse_inertia`."""
    _require_model("inverse_inertia", robot)
    names = [frames] if isinstance(frames, str) else list(frames)
    inverse: Any = robot.tasks(names, reference=reference).inverse_inertia
    value = inverse.bound()
    jacobian_of = robot.jacobian.bound(names, reference)
    jacobian_change = _by_directions(robot, robot.jacobian_rate.bound(names, reference))
    mass_change = _mass_change(robot)
    rows = (6 * len(names), robot.nv)

    def change(q: Any, dq: Any) -> Any:
        J = run(jacobian_of, q).reshape(*q.shape[:-1], *rows)
        response = run(robot.mass_matrix_inverse.bound(), q) @ _JAX.transpose(J)
        J_change = jacobian_change(q, dq).reshape(J.shape)
        one_sided = J_change @ response - 0.5 * _JAX.transpose(response) @ mass_change(q, dq) @ response
        return one_sided + _JAX.transpose(one_sided)

    return _function("inverse_inertia", robot, lambda q: run(value, q), change)


def integrate(robot: Model) -> Callable[..., Any]:
    """`f(q, v, dt=1.0)`: the configuration reached at constant velocity, (…, nq), as `Model.integrate`."""
    _require_model("integrate", robot)
    value, derivative = robot.integrate.bound(), robot.dintegrate.bound()

    @jax.custom_jvp  # type: ignore[untyped-decorator]
    def core(q: Any, step: Any) -> Any:
        return run(value, q, step, jnp.ones(q.shape[:-1], q.dtype))

    @core.defjvp  # type: ignore[untyped-decorator]
    def _(arrays: Any, directions: Any) -> Any:
        (q, step), (dq, dstep) = arrays, directions
        end = core(q, step)
        by_q, by_step = run(derivative, q, step, jnp.ones(q.shape[:-1], q.dtype))
        tangent = _JAX.apply(by_q, _tangent(robot, q, dq)) + _JAX.apply(by_step, dstep)
        return end, _rate(robot, end, tangent)

    @jax.jit  # type: ignore[untyped-decorator]
    def compiled(q: Any, v: Any, dt: Any) -> Any:
        step = v * dt[..., None]
        batch = common_batch("integrate", ("q", "v"), (q.shape[:-1], step.shape[:-1]))
        return core(*common((q, step), batch)).astype(result_type((q, step)))

    def integrate(q: Any, v: Any, dt: Any = 1.0) -> Any:
        """The configuration reached, (…, nq)."""
        q, v, dt = (real(f"integrate: {name}", given) for name, given in (("q", q), ("v", v), ("dt", dt)))
        require_shape("integrate: q", q.shape, (robot.nq,))
        require_shape("integrate: v", v.shape, (robot.nv,))
        return compiled(q, v, dt)

    return integrate


def step(robot: Model) -> Callable[..., Any]:
    """`f(q, v, tau, dt, f_ext=None)`: q and v after a semi-implicit Euler step, as `Model.step`."""
    accelerations, moved = forward_dynamics(robot), integrate(robot)

    def step(q: Any, v: Any, tau: Any, dt: Any, f_ext: Any = None) -> tuple[Any, Any]:
        """Configuration, (…, nq), and joint velocities, (…, nv), after the step."""
        after = v + accelerations(q, v, tau, f_ext) * jnp.asarray(dt)[..., None]
        return moved(q, after, dt), after

    return step


def _function(
    name: str, robot: Model, value: Callable[[Any], Any], change: Callable[[Any, Any], Any]
) -> Callable[..., Any]:
    """A function of q alone, from its value and its change due to a change of q's components, in which it is linear."""

    @jax.custom_jvp  # type: ignore[untyped-decorator]
    def core(q: Any) -> Any:
        return value(q)

    @core.defjvp  # type: ignore[untyped-decorator]
    def _(arrays: Any, directions: Any) -> Any:
        return core(*arrays), change(*arrays, *directions)

    @jax.jit  # type: ignore[untyped-decorator]
    def compiled(q: Any) -> Any:
        return core(*common((q,), q.shape[:-1])).astype(result_type((q,)))

    def function(q: Any) -> Any:
        array = real(f"{name}: q", q)
        require_shape(f"{name}: q", array.shape, (robot.nq,))
        return compiled(array)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`Model.{name}` at a configuration, (…, nq)."
    return function


def _mass_change(robot: Model) -> Callable[[Any, Any], Any]:
    """The change of M, column by column, as that of M a + g."""
    forces = Differentiable(robot, "inverse_dynamics", (), _JAX)

    def change(q: Any, dq: Any) -> Any:
        rest = jnp.zeros((*q.shape[:-1], robot.nv), q.dtype)

        def along(a: Any) -> Any:
            return CHANGE.bind(q, rest, jnp.broadcast_to(a, rest.shape), dq, rest, rest, function=forces)

        columns = jax.vmap(along, out_axes=-1)(jnp.eye(robot.nv, dtype=q.dtype))
        return columns - along(rest)[..., None]

    return change


def _by_directions(robot: Model, rate: Any) -> Callable[[Any, Any], Any]:
    """The change of a function of q from a kernel `rate(q, velocity)`, along all unit velocities at once."""

    def change(q: Any, dq: Any) -> Any:
        units = jnp.broadcast_to(jnp.eye(robot.nv, dtype=q.dtype), (*q.shape[:-1], robot.nv, robot.nv))
        repeated = jnp.broadcast_to(q[..., None, :], (*q.shape[:-1], robot.nv, robot.nq))
        rates = run(rate, repeated, units)  # (…, nv, *shape)
        tangent = _tangent(robot, q, dq)
        rates = rates.reshape(*tangent.shape, -1)
        total = jnp.einsum("...k,...kx->...x", tangent, rates)
        return total.reshape(*q.shape[:-1], *rate.binding.outputs[0].shape)

    return change


def _tangent(robot: Model, q: Any, dq: Any) -> Any:
    """The tangent for a change of q's components."""
    return _JAX.apply(_JAX.tangent_map(robot, q), dq)


def _rate(robot: Model, q: Any, tangent: Any) -> Any:
    """The change of q's components along a tangent. The tangent map has orthogonal rows, so it inverts easily."""
    rows = _JAX.tangent_map(robot, q)
    return _JAX.apply(_JAX.transpose(rows), tangent / jnp.sum(rows * rows, axis=-1))


def _along(tangent: Any, frames: str | Sequence[str]) -> Any:
    """A tangent that broadcasts against the axis of frames, if there is one."""
    return tangent if isinstance(frames, str) else tangent[..., None, :]


def _hat(twist: Any) -> Any:
    """The 4 × 4 matrix of a twist [ω; v]."""
    x, y, z, *linear = (twist[..., k] for k in range(6))
    zero = jnp.zeros_like(x)
    rows = [[zero, -z, y, linear[0]], [z, zero, -x, linear[1]], [-y, x, zero, linear[2]], [zero, zero, zero, zero]]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def _require_model(name: str, robot: Any) -> None:
    if not isinstance(robot, Model):
        raise InputError(f"{name} takes a kinetree.Model, got {type(robot).__name__}")
