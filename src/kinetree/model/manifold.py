"""The configuration manifold of a model: integration along velocities, differences, and their derivatives.

Functions take leading batch axes, which broadcast, and `out=`, like those of the dynamics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from kinetree.algorithms import manifold
from kinetree.engines.quantity import analytic_quantity, quantity
from kinetree.recursion.mechanism import Mechanism
from kinetree.spatial.value import Array


class Manifold:
    """Functions of configurations and tangents."""

    if TYPE_CHECKING:
        mechanism: Mechanism

    @analytic_quantity(manifold.integrate)
    def integrate(self, q: ArrayLike, v: ArrayLike, dt: ArrayLike = 1.0, *, out: Array | None = None) -> Array:
        """Configuration reached from q at constant velocity v in dt seconds, (…, nq).

        Floating and planar joints follow the screw motion of their body-frame twist. Quaternions may have any nonzero
        length; those of the result have unit length. Complex numbers are accepted, for complex-step derivatives.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            dt: Seconds, (…).
            out: Array for the result.
        """

    @quantity(manifold.difference)
    def difference(self, q0: ArrayLike, q1: ArrayLike, *, out: Array | None = None) -> Array:
        """Velocity that takes q0 to q1 in one second, (…, nv): the inverse of `integrate`.

        Rotations take the shorter way round, at most π.

        Args:
            q0: Configuration, (…, nq).
            q1: Configuration, (…, nq).
            out: Array for the result.
        """

    @quantity(manifold.dintegrate)
    def dintegrate(
        self, q: ArrayLike, v: ArrayLike, dt: ArrayLike = 1.0, *, out: tuple[Array, Array] | None = None
    ) -> tuple[Array, Array]:
        """Derivatives of `integrate(q, v, dt)` with respect to q and v, two arrays (…, nv, nv).

        Both ends are tangents: to first order, `integrate(integrate(q, δq), v + δv, dt)` is
        `integrate(integrate(q, v, dt), dq @ δq + dv @ δv)`.

        Args:
            q: Configuration, (…, nq). The derivatives do not depend on it.
            v: Joint velocities, (…, nv).
            dt: Seconds, (…).
            out: Two arrays for the results.
        """

    @quantity(manifold.ddifference)
    def ddifference(
        self, q0: ArrayLike, q1: ArrayLike, *, out: tuple[Array, Array] | None = None
    ) -> tuple[Array, Array]:
        """Derivatives of `difference(q0, q1)` with respect to q0 and q1, along their tangents, two arrays (…, nv, nv).

        Args:
            q0: Configuration, (…, nq).
            q1: Configuration, (…, nq).
            out: Two arrays for the results.
        """

    @quantity(manifold.tangent_map)
    def tangent_map(self, q: ArrayLike, *, out: Array | None = None) -> Array:
        """Maps a change of the components of q to a tangent vector, (…, nv, nq).

        For a gradient g along the tangent, `tangent_map(q).T @ g` is the gradient with respect to the components of q.

        Args:
            q: Configuration, (…, nq).
            out: Array for the result.
        """

    @quantity(manifold.bracket)
    def bracket(self, x: ArrayLike, *, out: Array | None = None) -> Array:
        """Matrix of the Lie bracket, (…, nv, nv): [x, y] = `bracket(x) @ y`; zero for joints with q̇ = v.

        Args:
            x: Tangent, (…, nv).
            out: Array for the result.
        """

    @quantity(manifold.normalize)
    def normalize(self, q: ArrayLike, *, out: Array | None = None) -> Array:
        """The same configuration with unit quaternions, (…, nq); angles are unchanged.

        Args:
            q: Configuration, (…, nq).
            out: Array for the result.
        """
