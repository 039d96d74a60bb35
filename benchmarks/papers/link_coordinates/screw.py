"""Changes of coordinates between links, at the costs that the literature reckons with.

A joint with Denavit–Hartenberg parameters is a screw along x, whose angle and length are constants, and one along z,
whose angle is that of the joint. Through both of them go

    a vector                      20m + 12a
    a rigid inertia               32m + 33a

and through a pure rotation about z, with its s c, s², 2 s c and 1 − 2 s²,

    an articulated inertia behind a revolute joint about z        22m + 25a

all of which are published costs ([F08], and the appendix of [W12]).

[F08] R. Featherstone, "Rigid Body Dynamics Algorithms", Springer, 2008.
[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from benchmarks.papers.link_coordinates.number import Number, Tally
from kinetree.spatial.value import Array

X, Z = 0, 2
_P = ParamSpec("_P")
_R = TypeVar("_R")


def _changes_coordinates(run: Callable[Concatenate[Screw, _P], _R]) -> Callable[Concatenate[Screw, _P], _R]:
    """Count what a method does as a change of coordinates."""

    @wraps(run)
    def wrapped(self: Screw, /, *args: _P.args, **named: _P.kwargs) -> _R:
        self.tally.transforms = True
        result = run(self, *args, **named)
        self.tally.transforms = False
        return result

    return wrapped


@dataclass(frozen=True)
class Screw:
    """From the coordinates of one frame to those of another, turned about an axis and moved along it.

    Attributes:
        axis: `X` or `Z`.
        angle: [rad].
        length: [m]; 0 for a pure rotation.
        constant: Products of its sine and cosine are known beforehand.
        tally: Counts.
    """

    axis: int
    angle: float
    length: float
    constant: bool
    tally: Tally

    @property
    def across(self) -> tuple[int, int]:
        """The other two axes, in right-handed order."""
        return (self.axis + 1) % 3, (self.axis + 2) % 3

    @property
    def d(self) -> Any:
        """The length, structural if there is none."""
        return Number(self.length, self.tally) if self.length else 0

    def _cosine_and_sine(self) -> tuple[Number, Number]:
        return Number(math.cos(self.angle), self.tally), Number(math.sin(self.angle), self.tally)

    def _products(self) -> tuple[Any, Any, Any, Any]:
        """s c, s², 2 s c and 1 − 2 s²."""
        c, s = self._cosine_and_sine()
        if self.constant:
            sc, ss, sc2, c2 = self.tally.numbers(
                [c.value * s.value, s.value**2, 2 * c.value * s.value, 1 - 2 * s.value**2]
            )
            return sc, ss, sc2, c2
        sc, ss = s * c, s * s
        return sc, ss, sc + sc, 1 - (ss + ss)

    # Vectors

    def turned(self, vector: Array, sign: float) -> Array:
        """A three-dimensional vector, in the axes of the frame that is turned to (sign 1) or from (sign −1)."""
        (u, v), (c, s) = self.across, self._cosine_and_sine()
        s = s if sign > 0.0 else -s
        result: Array = vector.copy()
        result[u], result[v] = c * vector[u] + s * vector[v], c * vector[v] - s * vector[u]
        return result

    @_changes_coordinates
    def motion(self, m: Array) -> Array:
        """X m."""
        (u, v), d = self.across, self.d
        angular, linear = m[:3], m[3:].copy()
        linear[u], linear[v] = linear[u] + d * angular[v], linear[v] - d * angular[u]
        return np.concatenate([self.turned(angular, 1.0), self.turned(linear, 1.0)])

    @_changes_coordinates
    def force(self, f: Array) -> Array:
        """Xᵀ f."""
        (u, v), d = self.across, self.d
        moment, force = self.turned(f[:3], -1.0), self.turned(f[3:], -1.0)
        moment[u], moment[v] = moment[u] - d * force[v], moment[v] + d * force[u]
        return np.concatenate([moment, force])

    @_changes_coordinates
    def pose(self, E: Array, r: Array) -> tuple[Array, Array]:
        """Rotation E to a frame, and its position r in its own axes: from the far side of the screw to the near one."""
        (u, v), (c, s) = self.across, self._cosine_and_sine()
        turned = E.copy()
        turned[:, u], turned[:, v] = c * E[:, u] - s * E[:, v], s * E[:, u] + c * E[:, v]
        return turned, r + self.d * E[:, self.axis]

    # Symmetric matrices

    @_changes_coordinates
    def inertia(self, I: Array) -> Array:
        """Xᵀ I X of a symmetric matrix."""
        A, B, D = self._congruence(I[:3, :3], I[:3, 3:], I[3:, 3:], self._products(), self.d, 1.0)
        return np.block([[A, B], [B.T, D]])

    @_changes_coordinates
    def compliance(self, V: Array) -> Array:
        """X V Xᵀ of a symmetric matrix: the same with angular and linear parts exchanged, on the way back."""
        sc, ss, sc2, c2 = self._products()
        D, B, A = self._congruence(V[3:, 3:], V[3:, :3], V[:3, :3], (-sc, ss, -sc2, c2), -self.d, -1.0)
        return np.block([[A, B.T], [B, D]])

    @_changes_coordinates
    def rigid(self, mass: float, h: Array, I: Array) -> tuple[Array, Array]:
        """First moment h and rotational inertia I of a rigid body of known mass."""
        (u, v), a, d = self.across, self.axis, self.d
        h, I = self.turned(h, -1.0), self._symmetric(I, self._products(), -1.0)
        moved, result = h.copy(), I.copy()
        if self.length:
            moved[a] = h[a] + Number(mass * self.length, self.tally)
            more = d * (h[a] + moved[a])
            result[u, u], result[v, v] = I[u, u] + more, I[v, v] + more
            result[u, a] = result[a, u] = I[u, a] - d * h[u]
            result[v, a] = result[a, v] = I[v, a] - d * h[v]
        return moved, result

    def _congruence(
        self, A: Array, B: Array, D: Array, products: tuple[Any, ...], d: Any, sign: float
    ) -> tuple[Array, Array, Array]:
        """Turn [[A, B], [Bᵀ, D]] back, then let D act at a distance d along the axis."""
        (u, v), a = self.across, self.axis
        A, D = self._symmetric(A, products, -sign), self._symmetric(D, products, -sign)
        B = self._any(B, products, -sign)
        if not self.length:
            return A, B, D
        far, near = B.copy(), A.copy()
        lever = d * D[u, v]
        far[u, u], far[u, v], far[u, a] = B[u, u] - lever, B[u, v] - d * D[v, v], B[u, a] - d * D[v, a]
        far[v, u], far[v, v], far[v, a] = B[v, u] + d * D[u, u], B[v, v] + lever, B[v, a] + d * D[u, a]
        near[u, u], near[v, v] = A[u, u] - d * (B[u, v] + far[u, v]), A[v, v] + d * (B[v, u] + far[v, u])
        near[u, v] = near[v, u] = A[u, v] + d * (far[u, u] - B[v, v])
        near[u, a] = near[a, u] = A[u, a] - d * B[a, v]
        near[v, a] = near[a, v] = A[v, a] + d * B[a, u]
        return near, far, D

    def _symmetric(self, A: Array, products: tuple[Any, ...], sign: float) -> Array:
        """Eᵀ A E of a symmetric matrix (sign −1), or E A Eᵀ with products of the angle's negative (sign 1)."""
        (u, v), a, (sc, ss, sc2, c2) = self.across, self.axis, products
        result: Array = A.copy()
        difference = A[v, v] - A[u, u]
        shift = ss * difference - sc2 * A[u, v]
        result[u, u], result[v, v] = A[u, u] + shift, A[v, v] - shift
        result[u, v] = result[v, u] = c2 * A[u, v] - sc * difference
        column = self.turned(A[:, a], sign)
        result[u, a] = result[a, u] = column[u]
        result[v, a] = result[a, v] = column[v]
        return result

    def _any(self, A: Array, products: tuple[Any, ...], sign: float) -> Array:
        """The same of any matrix."""
        (u, v), a, (sc, ss, _, _) = self.across, self.axis, products
        result: Array = A.copy()
        difference, both = A[v, v] - A[u, u], A[u, v] + A[v, u]
        shift, skew = ss * difference - sc * both, -(sc * difference) - ss * both
        result[u, u], result[v, v] = A[u, u] + shift, A[v, v] - shift
        result[u, v], result[v, u] = A[u, v] + skew, A[v, u] + skew
        result[:, a] = self.turned(A[:, a], sign)
        result[a, :] = self.turned(A[a, :], sign)
        return result
