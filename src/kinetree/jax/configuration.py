"""Functions of the configuration: poses, Jacobians, the mass matrix, Λ⁻¹, and integration steps.

Each is one kernel call, and so are the terms of its derivative:

    pose               dT = T ξ̂ with the body twist ξ = J dq
    mass_matrix        dM column by column, as the change of inverse dynamics M a along dq: n calls in a batch
    jacobian           dJ as the rate of J along each velocity: n calls in a batch
    inverse_inertia    dΛ⁻¹ = dJ M⁻¹Jᵀ + (dJ M⁻¹Jᵀ)ᵀ − J M⁻¹ dM M⁻¹Jᵀ, from the two above
    integrate          recursions on dual numbers, in `algorithms/kinematics/manifold.py`

`Model.tangent_map` maps changes of the components of q to tangents. Second derivatives follow where the terms are
differentiable themselves: dM is made of derivatives of inverse dynamics, and dT of `jacobian` and `tangent_map`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kinetree.algorithms.kinematics.manifold import (
    integrate_change,
    integrate_curvature,
    integrate_gradients,
    tangent_map_change,
)
from kinetree.errors import InputError
from kinetree.jax.api import common, forward_dynamics, real, result_type
from kinetree.jax.differentiation import CHANGE, VALUE
from kinetree.jax.ffi import JAX, ad, jax, jnp, primitive, run
from kinetree.language.algorithm import Algorithm
from kinetree.model.differentiable import Differentiable
from kinetree.model.model import Model
from kinetree.runtime.arguments import common_batch, require_shape
from kinetree.runtime.function import Function

_JAX = JAX()


def mass_matrix(robot: Model) -> Callable[..., Any]:
    """`f(q)`: the joint-space inertia M, (…, nv, nv), as `Model.mass_matrix`."""
    _require_model("mass_matrix", robot)
    return _function("mass_matrix", robot, _Core(robot.mass_matrix.bound(), _mass_change(robot)))


def pose(robot: Model, frames: str | Sequence[str]) -> Callable[..., Any]:
    """`f(q)`: poses of frames in the world, (…, 4, 4) or (…, m, 4, 4), as `Model.pose`."""
    _require_model("pose", robot)
    jacobian_of, rate = _jacobian(robot, frames, "local"), _kernel(robot, tangent_map_change).bound()
    tangent_map = _Core(
        robot.tangent_map.bound(), lambda q, dq: _combined(rate, q, jnp.eye(robot.nq, dtype=q.dtype), dq)
    )

    def change(q: Any, dq: Any) -> Any:
        tangent = _JAX.apply(tangent_map(q), dq)
        along = tangent if isinstance(frames, str) else tangent[..., None, :]
        return core(q) @ _hat(_JAX.apply(jacobian_of(q), along))

    core = _Core(robot.pose.bound(frames), change)
    return _function("pose", robot, core)


def jacobian(robot: Model, frames: str | Sequence[str], reference: str = "local") -> Callable[..., Any]:
    """`f(q)`: Jacobians of frames, (…, 6, nv) or (…, m, 6, nv), as `Model.jacobian`."""
    _require_model("jacobian", robot)
    return _function("jacobian", robot, _jacobian(robot, frames, reference))


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

    return _function("inverse_inertia", robot, _Core(value, change))


def integrate(robot: Model) -> Callable[..., Any]:
    """`f(q, v, dt=1.0)`: the configuration reached at constant velocity, (…, nq), as `Model.integrate`."""
    _require_model("integrate", robot)
    function = _Integration(robot)

    @jax.jit  # type: ignore[untyped-decorator]
    def compiled(q: Any, v: Any, dt: Any) -> Any:
        step = v * dt[..., None]
        batch = common_batch("integrate", ("q", "v"), (q.shape[:-1], step.shape[:-1]))
        return VALUE.bind(*common((q, step), batch), function=function).astype(result_type((q, step)))

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


@dataclass(frozen=True, eq=False)
class _Core:
    """A function of q alone, for arrays with batch axes: its kernel, and its change due to one of q's components."""

    kernel: Any
    change: Callable[[Any, Any], Any]

    def __call__(self, q: Any) -> Any:
        return _CORE.bind(q, function=self)


_CORE = primitive(
    "core", lambda core, q: run(core.kernel, q), lambda core, q: [(*q[:-1], *core.kernel.binding.outputs[0].shape)]
)


def _differentiated(arrays: Any, steps: Any, function: _Core) -> Any:
    (q,), (step,) = arrays, steps
    return function(q), function.change(q, ad.instantiate_zeros(step))


ad.primitive_jvps[_CORE] = _differentiated


def _function(name: str, robot: Model, core: _Core) -> Callable[..., Any]:
    """A function of q for arguments of any kind."""

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


def _jacobian(robot: Model, frames: str | Sequence[str], reference: str) -> Any:
    """The Jacobians of frames."""
    value, rate = robot.jacobian.bound(frames, reference), robot.jacobian_rate.bound(frames, reference)
    return _Core(value, _by_directions(robot, rate))


def _kernel(robot: Model, algorithm: Algorithm) -> Function[..., Any]:
    return Function[..., Any](algorithm.name, robot.mechanism, algorithm)


def _by_directions(robot: Model, rate: Any) -> Callable[[Any, Any], Any]:
    """The change of a function of q from a kernel `rate(q, velocity)`, along all unit velocities at once."""

    def change(q: Any, dq: Any) -> Any:
        tangent = _JAX.apply(run(robot.tangent_map.bound(), q), dq)
        return _combined(rate, q, jnp.eye(robot.nv, dtype=q.dtype), tangent)

    return change


def _combined(rate: Any, q: Any, units: Any, direction: Any) -> Any:
    """`rate(q, direction)`, which is linear in the direction, from all unit directions; JAX can transpose it."""
    batch, count = q.shape[:-1], len(units)
    repeated = jnp.broadcast_to(q[..., None, :], (*batch, count, q.shape[-1]))
    rates = run(rate, repeated, jnp.broadcast_to(units, (*batch, count, count)))  # (…, count, *shape)
    total = jnp.einsum("...k,...kx->...x", direction, rates.reshape(*batch, count, -1))
    return total.reshape(*batch, *rate.binding.outputs[0].shape)


class _Integration:
    """`Model.integrate` of the components of q and a step, by kernels."""

    def __init__(self, robot: Model) -> None:
        recursions = (integrate_change, integrate_gradients, integrate_curvature)
        self.sizes, self.size = (robot.nq, robot.nv), robot.nq
        self._value = robot.integrate.bound()
        self._change, self._gradients, self._curvature = (_kernel(robot, each) for each in recursions)

    def value(self, *arrays: Any) -> Any:
        q, step = arrays
        return run(self._value, q, step, jnp.ones(q.shape[:-1], q.dtype))

    def change(self, *arrays: Any) -> Any:
        q, step, dq, dstep = arrays
        return run(self._change.bound(), q, step, jnp.ones(q.shape[:-1], q.dtype), dq, dstep)

    def gradients(self, *arrays: Any) -> tuple[Any, ...]:
        return tuple(run(self._gradients.bound(), *arrays))

    def curvature(self, *arrays: Any) -> tuple[Any, ...]:
        return tuple(run(self._curvature.bound(), *arrays))

    def require_curvature(self) -> None:
        """All robots have second derivatives."""


def _hat(twist: Any) -> Any:
    """The 4 × 4 matrix of a twist [ω; v]."""
    x, y, z, *linear = (twist[..., k] for k in range(6))
    zero = jnp.zeros_like(x)
    rows = [[zero, -z, y, linear[0]], [z, zero, -x, linear[1]], [-y, x, zero, linear[2]], [zero, zero, zero, zero]]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def _require_model(name: str, robot: Any) -> None:
    if not isinstance(robot, Model):
        raise InputError(f"{name} takes a kinetree.Model, got {type(robot).__name__}")
