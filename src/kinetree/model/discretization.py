"""Derivatives of time steps on nodes of any kind, composed from derivatives of the dynamics and of q ⊕ v dt.

The chain rule is that of `kinetree.algorithms.linearized.time_step_derivatives`. There, one recursion gives all
derivatives of the dynamics; here, they come column by column, and their products are formed in NumPy. Exact, O(n³).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kinetree.algorithms.forward_dynamics import forward_dynamics
from kinetree.algorithms.linearized.jvp_by_weights import forward_dynamics_jvp_by_weights
from kinetree.algorithms.manifold import bracket, dintegrate, integrate
from kinetree.algorithms.time_step import STAGES
from kinetree.engines import arguments
from kinetree.engines.columns import LinearizedFunction, WithoutKernel
from kinetree.engines.function import ForcedFunction, Function
from kinetree.engines.native.compiled import standard_arithmetic
from kinetree.model.stepping import DiscretizeFunction, P, R, chosen
from kinetree.spatial.fixed import product
from kinetree.spatial.value import Array


class _Rates(NamedTuple):
    """ξ̇ and v̇ at a stage, (…, n), and their derivatives with respect to q, v and τ at the start, (…, n, 3 n)."""

    xi: Array
    a: Array
    d_xi: Array
    d_a: Array


class GeneralDiscretizeFunction(WithoutKernel, DiscretizeFunction[P, R]):
    """The derivatives of a `StepFunction` on nodes of any kind."""

    how = "composed of derivatives of the dynamics"

    def _compute(self, inputs: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
        """Compute, with any valid arguments."""
        q, v, tau, dt, method, f_ext = self._arguments(inputs, named)
        method, n = chosen(method), self.mechanism.nv
        names = ("q", "v", "tau", "dt")
        q, v, tau, dt = (arguments.numbers(self.name, name, x) for name, x in zip(names, (q, v, tau, dt), strict=True))
        for name, array, shape in zip(names, (q, v, tau), ((self.mechanism.nq,), (n,), (n,)), strict=False):
            arguments.require_shape(f"{self.name}: {name}", array.shape, shape)
        batches = [q.shape[:-1], v.shape[:-1], tau.shape[:-1], dt.shape]
        batch = arguments.common_batch(self.name, names, batches)
        q, v, tau = (np.broadcast_to(x, (*batch, x.shape[-1])) for x in (q, v, tau))
        with standard_arithmetic():
            step = _Step(self, q, v, tau, np.broadcast_to(dt, batch), f_ext)
            d_q, d_v = getattr(step, method)()
        parts = np.concatenate([d_q, d_v], axis=-2)
        A, B = np.ascontiguousarray(parts[..., : 2 * n]), np.ascontiguousarray(parts[..., 2 * n :])
        if out is not None:
            homes = arguments.results(self.name, out, ("A", "B"), (A.shape, B.shape))
            homes[0][...], homes[1][...] = A, B
            A, B = homes
        bundle: Any = self._bundle
        return bundle(A, B)

    @cached_property
    def functions(self) -> dict[str, Any]:
        """What a step is composed of."""
        found: dict[str, Any] = {
            each.name: Function(each.name, self.mechanism, each).engine(self._engine)
            for each in (integrate, dintegrate, bracket)
        }
        given = self.mechanism, forward_dynamics
        found["a"] = ForcedFunction(self.name, *given, site=self._site, guard=self._guard).engine(self._engine)
        slopes: LinearizedFunction[..., Any] = LinearizedFunction(
            self.name, self.mechanism, forward_dynamics_jvp_by_weights, site=self._site
        )
        found["slopes"] = slopes.engine(self._engine)
        return found

    def compile(self) -> None:
        """Compile all kernels."""
        for function in self.functions.values():
            function.compile()

    def require(self) -> None:
        """It is defined for every mechanism."""

    count = WithoutKernel.bound


class _Step:
    """A step from one state; all arrays have the same leading axes."""

    def __init__(self, of: GeneralDiscretizeFunction[..., Any], q: Array, v: Array, tau: Array, dt: Array, f_ext: Any):
        self.of, self.q, self.v, self.tau, self.f_ext = of.functions, q, v, tau, f_ext
        self.dt, self.n = dt[..., None], v.shape[-1]
        self.one = np.eye(self.n)

    def _derivatives(self, by_q: Any = 0.0, by_v: Any = 0.0, by_tau: Any = 0.0) -> Array:
        """Derivatives with respect to q, v and τ side by side."""
        whole = np.zeros((*self.v.shape, 3 * self.n))
        for i, part in enumerate((by_q, by_v, by_tau)):
            whole[..., i * self.n : (i + 1) * self.n] = part
        return whole

    def _slopes(self, q: Array, v: Array) -> tuple[Array, Array, Array]:
        rows = np.split(self.of["slopes"]._rows((q, v, self.tau), self.f_ext), 3, axis=-2)
        by_q, by_v, Minv = (np.swapaxes(part, -1, -2) for part in rows)
        return by_q, by_v, Minv

    def _along(self, q: Array, way: Array) -> tuple[Array, Array]:
        """Derivatives of q ⊕ way with respect to q and to the way."""
        transport, right = self.of["dintegrate"](q, way, 1.0)
        return transport, right

    def _stage(self, ahead: float, before: _Rates) -> _Rates:
        seconds = self.dt * ahead
        xi, there = before.xi * seconds, self.v + before.a * seconds
        d_xi, d_there = before.d_xi * seconds[..., None], before.d_a * seconds[..., None]
        transport, right = self._along(self.q, xi)
        # ξ̇ = v + ½ ξ×v + ¹⁄₁₂ ξ×(ξ×v)
        ad = self.of["bracket"]
        X, V = ad(xi), ad(there)
        by_v = self.one + 0.5 * X + product(X, X) / 12.0
        by_xi = -0.5 * V - (ad(product(X, there[..., None])[..., 0]) + product(X, V)) / 12.0
        d_q = product(right, d_xi) + self._derivatives(by_q=transport)
        d_v = d_there + self._derivatives(by_v=self.one)
        q = self.of["integrate"](self.q, xi, 1.0)
        of_q, of_v, Minv = self._slopes(q, there)
        return _Rates(
            product(by_v, there[..., None])[..., 0],
            self.of["a"](q, there, self.tau, f_ext=self.f_ext),
            product(by_xi, d_xi) + product(by_v, d_there) + self._derivatives(by_v=by_v),
            product(of_q, d_q) + product(of_v, d_v) + self._derivatives(by_tau=Minv),
        )

    def semi_implicit_euler(self) -> tuple[Array, Array]:
        """Derivatives of q′ and v′."""
        a = self.of["a"](self.q, self.v, self.tau, f_ext=self.f_ext)
        d_v = self._derivatives(*self._slopes(self.q, self.v)) * self.dt[..., None] + self._derivatives(by_v=self.one)
        transport, right = self._along(self.q, (self.v + a * self.dt) * self.dt)
        return product(right * self.dt[..., None], d_v) + self._derivatives(by_q=transport), d_v

    def midpoint(self) -> tuple[Array, Array]:
        """Derivatives of q′ and v′: v′ = v + a dt, q′ = q ⊕ v ½dt ⊕ v′ ½dt."""
        by_v, none = self._derivatives(by_v=self.one), self._derivatives()
        rates = self._stage(0.5, _Rates(self.v, np.zeros(self.v.shape), by_v, none))
        rates = self._stage(0.5, _Rates(self.v, rates.a, by_v, rates.d_a))
        half = 0.5 * self.dt
        d_v = rates.d_a * self.dt[..., None] + by_v
        first = self._along(self.q, self.v * half)
        middle = self.of["integrate"](self.q, self.v * half, 1.0)
        second = self._along(middle, (self.v + rates.a * self.dt) * half)
        d_middle = self._derivatives(by_q=first[0], by_v=first[1] * half[..., None])
        return product(second[0], d_middle) + product(second[1] * half[..., None], d_v), d_v

    def rk4(self) -> tuple[Array, Array]:
        """Derivatives of q′ and v′."""
        none = self._derivatives()
        rates = _Rates(np.zeros(self.v.shape), np.zeros(self.v.shape), none, none)
        stages = []
        for ahead in STAGES:
            rates = self._stage(ahead, rates)
            stages.append(rates)
        r1, r2, r3, r4 = stages
        sixth = self.dt / 6.0
        xi = (r1.xi + 2.0 * (r2.xi + r3.xi) + r4.xi) * sixth
        d_xi = (r1.d_xi + 2.0 * (r2.d_xi + r3.d_xi) + r4.d_xi) * sixth[..., None]
        d_v = (r1.d_a + 2.0 * (r2.d_a + r3.d_a) + r4.d_a) * sixth[..., None] + self._derivatives(by_v=self.one)
        transport, right = self._along(self.q, xi)
        return product(right, d_xi) + self._derivatives(by_q=transport), d_v
