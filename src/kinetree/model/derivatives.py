"""Derivatives of a model's dynamics as matrices, and quantities computed from them.

All are exact. Derivatives with respect to q are taken along the tangent: δq is the increment, of the size of v, in
`robot.integrate(q, δq)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from kinetree.algorithms.derivatives import matrix_rows
from kinetree.algorithms.derivatives.forward_dynamics_derivatives import forward_dynamics_derivatives
from kinetree.algorithms.derivatives.inverse_dynamics_derivatives import inverse_dynamics_derivatives
from kinetree.algorithms.derivatives.time_step_derivatives import step_derivatives
from kinetree.algorithms.dynamics.regressor import regressor, tracking_regressor
from kinetree.algorithms.dynamics.time_step import semi_implicit_euler
from kinetree.errors import InputError
from kinetree.language.common_frame import prefers_common_frame
from kinetree.model.base import ModelBase
from kinetree.model.results import Discretized, LinearizedForward, LinearizedInverse
from kinetree.model.singularity import require_invertible
from kinetree.model.stepping import DiscretizeFunction, StepFunction
from kinetree.runtime.forward_derivatives import RATES
from kinetree.runtime.function import ForcedFunction
from kinetree.runtime.gradients import PRODUCTS
from kinetree.runtime.quantity import forced_quantity, frame_quantity
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.value import Array

_L = TypeVar("_L", LinearizedInverse, LinearizedForward)

PRODUCTS.update(matrix_rows.PRODUCTS)
RATES.update(matrix_rows.RATES)


class Derivatives(ModelBase):
    """Derivatives of a model, in addition to `jvp`, `vjp` and `hvp` of its functions."""

    @forced_quantity(inverse_dynamics_derivatives, bundle=LinearizedInverse, view=prefers_common_frame)
    def inverse_dynamics_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        f_ext: Mapping[str, ArrayLike] | None = None,
        *,
        out: tuple[Array, Array, Array] | None = None,
    ) -> LinearizedInverse:
        """∂τ/∂q, ∂τ/∂v and ∂τ/∂a = M, (…, nv, nv) each; the same as `linearize(q, v, a=a)`.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            a: Joint accelerations, (…, nv).
            f_ext: Wrenches by frame, as for `inverse_dynamics`.
            out: Three arrays for the results.
        """

    @forced_quantity(
        forward_dynamics_derivatives,
        guard=require_invertible,
        bundle=LinearizedForward,
    )
    def forward_dynamics_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        f_ext: Mapping[str, ArrayLike] | None = None,
        *,
        out: tuple[Array, Array, Array] | None = None,
    ) -> LinearizedForward:
        """∂a/∂q, ∂a/∂v and ∂a/∂τ = M⁻¹, (…, nv, nv) each; the same as `linearize(q, v, tau=tau)`.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            tau: Joint forces, (…, nv).
            f_ext: Wrenches by frame, as for `forward_dynamics`.
            out: Three arrays for the results.
        """

    @frame_quantity(
        regressor,
        lambda robot: tuple(body.name for body in robot.bodies if body.name in robot.frames),
        view="common",
    )
    def regressor(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        frames: str | Sequence[str] | None = None,
        *,
        out: Array | None = None,
    ) -> Array:
        """Regressor Y of the inertial parameters: joint forces per unit parameter, (…, nv, m, 10).

        It has one block for each of `frames`, with the forces due to unit mass [kg], first moment [kg m] (x, y, z) and
        rotational inertia about the frame's origin [kg m²] (xx, xy, xz, yy, yz, zz) in that frame. With
        θ = `inertial_parameters`, `np.tensordot(Y, θ, 2)` equals `inverse_dynamics(q, v, a)` except for armature, which
        adds armature · a.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            a: Joint accelerations, (…, nv).
            frames: One name (no axis m), or a sequence of names. By default the link frames of all bodies.
            out: Array for the result.
        """

    @frame_quantity(
        tracking_regressor,
        lambda robot: tuple(body.name for body in robot.bodies if body.name in robot.frames),
    )
    def tracking_regressor(
        self,
        q: ArrayLike,
        v: ArrayLike,
        v_ref: ArrayLike,
        a_ref: ArrayLike,
        frames: str | Sequence[str] | None = None,
        *,
        out: Array | None = None,
    ) -> Array:
        """Regressor of M a_ref + C(q, v) v_ref + g with skew Ṁ − 2C, for adaptive control, (…, nv, m, 10).

        Columns are those of `regressor`, to which it is equal for v_ref = v.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            v_ref: Reference velocities, (…, nv).
            a_ref: Reference accelerations, (…, nv).
            frames: As for `regressor`.
            out: Array for the result.
        """

    @property
    def inertial_parameters(self) -> Array:
        """Mass, first moment and rotational inertia about the link's origin of each body, (m, 10); see `regressor`."""
        known: Array | None = self.__dict__.get("_inertial_parameters")
        if known is None:
            rows = [RigidInertia.of(body.mass, body.com, body.inertia).data for body in self.bodies]
            known = self.__dict__["_inertial_parameters"] = np.array(rows).reshape(-1, 10)
        copied: Array = known.copy()
        return copied

    @overload
    def linearize(
        self, q: Any, v: Any, a: Any, tau: None = None, *, f_ext: Mapping[str, Any] | None = None, out: Any = None
    ) -> LinearizedInverse: ...
    @overload
    def linearize(
        self, q: Any, v: Any, a: None = None, *, tau: Any, f_ext: Mapping[str, Any] | None = None, out: Any = None
    ) -> LinearizedForward: ...
    def linearize(
        self, q: Any, v: Any, a: Any = None, tau: Any = None, *, f_ext: Mapping[str, Any] | None = None, out: Any = None
    ) -> LinearizedInverse | LinearizedForward:
        """Exact linearisation about a state: of inverse dynamics given `a`, of forward dynamics given `tau`.

        Derivatives with respect to q are along the tangent: δq is the increment of `integrate(q, δq)`.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            a: Joint accelerations, (…, nv).
            tau: Joint forces, (…, nv).
            f_ext: Wrenches by frame, as for `inverse_dynamics`; constant in their frames' coordinates.
            out: Three arrays (…, nv, nv) for the results.

        Returns:
            `LinearizedInverse(dq, dv, da)` or `LinearizedForward(dq, dv, dtau)`.
        """
        if tau is None and a is not None:
            return _call(self.inverse_dynamics_derivatives, q, v, a, f_ext, out)
        if a is None and tau is not None:
            return _call(self.forward_dynamics_derivatives, q, v, tau, f_ext, out)
        raise InputError("linearize takes either a=… (inverse dynamics) or tau=… (forward dynamics)")

    @forced_quantity(semi_implicit_euler, guard=require_invertible, kind=StepFunction)
    def step(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        dt: ArrayLike,
        method: str = "semi_implicit_euler",
        *,
        f_ext: Mapping[str, ArrayLike] | None = None,
        out: tuple[Array, Array] | None = None,
    ) -> tuple[Array, Array]:
        """Configuration and velocities after a time step under constant joint forces, (…, nq) and (…, nv).

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            tau: Joint forces, (…, nv).
            dt: Length of the step, seconds, (…).
            method: "semi_implicit_euler" (first order), "midpoint" (second) or "rk4" (fourth), which evaluate forward
                dynamics once, twice and four times. All move q on its manifold.
            f_ext: Wrenches by frame, as for `forward_dynamics`.
            out: Two arrays for the results.
        """

    @forced_quantity(
        step_derivatives,
        guard=require_invertible,
        bundle=Discretized,
        kind=DiscretizeFunction,
    )
    def discretize(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        dt: ArrayLike,
        method: str = "semi_implicit_euler",
        *,
        f_ext: Mapping[str, ArrayLike] | None = None,
        out: tuple[Array, Array] | None = None,
    ) -> Discretized:
        """Exact derivatives of `step`: `Discretized(A, B)` with δx′ = A δx + B δτ, for x = (q, v).

        δq and δq′ are tangents, the increments of `integrate`.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            tau: Joint forces, (…, nv).
            dt: Length of the step, seconds, (…).
            method: As for `step`. The first is as fast as `linearize`; the others multiply matrices, in O(n³).
            f_ext: Wrenches by frame, as for `forward_dynamics`; they stay constant in their frames' coordinates.
            out: Two arrays for A, (…, 2 nv, 2 nv), and B, (…, 2 nv, nv).
        """


def _call(function: ForcedFunction[..., _L], q: Any, v: Any, x: Any, f_ext: Mapping[str, Any] | None, out: Any) -> _L:
    # calls without wrenches and keywords take the fast path
    return function(q, v, x) if f_ext is None and out is None else function(q, v, x, f_ext=f_ext, out=out)
