"""Exact derivatives of the time steps of `algorithms/time_step.py`, by the chain rule on the manifold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError
from kinetree.model.coordinates import checked
from kinetree.model.quiet import quiet
from kinetree.model.stepping import chosen
from kinetree.spatial.fixed import apply, product
from kinetree.spatial.value import Array


class Discretized(NamedTuple):
    """δx′ = A δx + B δτ, for x = (q, v) with δq along the tangent.

    Attributes:
        A: (…, 2 nv, 2 nv).
        B: (…, 2 nv, nv).
    """

    A: Array
    B: Array


#: Stages of the classic Runge–Kutta method: how far each looks ahead, and its weight in sixths.
_STAGES = ((0.0, 1.0), (0.5, 2.0), (0.5, 2.0), (1.0, 1.0))


@quiet
def discretize(
    robot: Any, q: Any, v: Any, tau: Any, dt: float, method: str, f_ext: Mapping[str, Any] | None
) -> Discretized:
    """Derivatives of `step` by the chain rule; see `Model.discretize`."""
    n = robot.nv
    q, v, tau = checked("q", q, robot.nq, real=True), checked("v", v, n, real=True), checked("tau", tau, n, real=True)
    dt = _seconds(dt)
    batches = q.shape[:-1], v.shape[:-1], tau.shape[:-1]
    try:
        batch = np.broadcast_shapes(*batches)
    except ValueError:
        shapes = ", ".join(f"{name} {shape}" for name, shape in zip(("q", "v", "tau"), batches))
        raise InputError(f"discretize: batch shapes do not broadcast: {shapes}") from None
    # every derivative below is with respect to (q, v, τ), side by side
    one = np.eye(n)
    by_v = _beside(batch, n, v=one)
    if chosen(method) == "semi_implicit_euler":
        linear = robot.linearize(q, v, tau=tau, f_ext=f_ext)
        after = v + dt * robot.forward_dynamics(q, v, tau, f_ext=f_ext)
        dv = _beside(batch, n, q=dt * linear.dq, v=one + dt * linear.dv, tau=dt * linear.dtau)
        start, end = robot.dintegrate(q, after, dt)
        return _split(_beside(batch, n, q=start) + product(end, dv), dv)
    if method == "midpoint":
        half = 0.5 * dt
        middle = robot.integrate(q, v, half)
        start, end = robot.dintegrate(q, v, half)
        d_middle, there, d_there = _beside(batch, n, q=start, v=end), v, by_v
        for ahead in (half, dt):
            linear = robot.linearize(middle, there, tau=tau, f_ext=f_ext)
            d_a = product(linear.dq, d_middle) + product(linear.dv, d_there) + _beside(batch, n, tau=linear.dtau)
            there, d_there = (
                v + ahead * robot.forward_dynamics(middle, there, tau, f_ext=f_ext),
                by_v + ahead * d_a,
            )
        start, end = robot.dintegrate(middle, there, half)
        return _split(product(start, d_middle) + product(end, d_there), d_there)
    xi_rate = a = np.zeros((*batch, n))
    d_xi_rate = d_a = np.zeros((*batch, n, 3 * n))
    xi_sum, dv, d_xi_sum = np.zeros_like(a), by_v, np.zeros_like(d_a)
    for ahead, weight in _STAGES:
        xi, here = ahead * dt * xi_rate, v + ahead * dt * a
        d_xi, d_here = ahead * dt * d_xi_rate, by_v + ahead * dt * d_a
        place = robot.integrate(q, xi)
        start, end = robot.dintegrate(q, xi)
        linear = robot.linearize(place, here, tau=tau, f_ext=f_ext)
        a = robot.forward_dynamics(place, here, tau, f_ext=f_ext)
        d_place = _beside(batch, n, q=start) + product(end, d_xi)
        d_a = product(linear.dq, d_place) + product(linear.dv, d_here) + _beside(batch, n, tau=linear.dtau)
        xi_rate, rate_by_xi, rate_by_v = _rate(robot, xi, here)
        d_xi_rate = product(rate_by_xi, d_xi) + product(rate_by_v, d_here)
        xi_sum, d_xi_sum = xi_sum + weight / 6.0 * xi_rate, d_xi_sum + weight / 6.0 * d_xi_rate
        dv = dv + dt * weight / 6.0 * d_a
    start, end = robot.dintegrate(q, dt * xi_sum)
    return _split(_beside(batch, n, q=start) + product(end, dt * d_xi_sum), dv)


def _beside(batch: tuple[int, ...], n: int, **blocks: Array) -> Array:
    """Derivatives with respect to some of q, v and τ, zero for the others, (…, n, 3 n)."""
    result = np.zeros((*batch, n, 3 * n))
    for i, name in enumerate(("q", "v", "tau")):
        if name in blocks:
            result[..., i * n : (i + 1) * n] = blocks[name]
    return result


def _rate(robot: Any, xi: Array, v: Array) -> tuple[Array, Array, Array]:
    """ξ̇, and its derivatives with respect to ξ and v."""
    x, w = robot.bracket(xi), robot.bracket(v)
    turned = apply(x, v)
    rate = v + 0.5 * turned + apply(x, turned) / 12.0
    by_xi = -0.5 * w - (robot.bracket(turned) + product(x, w)) / 12.0
    by_v = np.eye(v.shape[-1]) + 0.5 * x + product(x, x) / 12.0
    return rate, by_xi, by_v


def _split(dq: Array, dv: Array) -> Discretized:
    n = dq.shape[-2]
    both = np.concatenate([dq, dv], axis=-2)
    return Discretized(both[..., : 2 * n], both[..., 2 * n :])


def _seconds(dt: Any) -> float:
    if np.ndim(dt) or np.asarray(dt).dtype.kind not in "iuf":
        raise InputError(f"dt is one number, the length of the step in seconds; got {dt!r}")
    return float(dt)
