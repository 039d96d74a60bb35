"""Finite rotations and screw motions in scalars of any type, for the coordinates of joints that rotate freely.

A rotation vector w is a rotation by θ = |w| about w. With W = w×, s = θ² and

    A = sin θ / θ        B = (1 − cos θ) / θ²        C = (θ − sin θ) / θ³

the matrices of the exponential map of SO(3) are polynomials 1 + f₁(s) W + f₂(s) W²:

    exp(−w)                      f₁ = −A     f₂ = B
    right Jacobian               f₁ = −B     f₂ = C
    inverse of the Jacobian      f₁ = ½      f₂ = −B′/B,  which is (1 − ½θ cot ½θ) / θ²

Those of SE(3) at a twist (w, v), angular part first, are [[F, 0], [Ḟ, F]], where Ḟ is the derivative of F along v.
All are accurate to rounding for angles up to `scalar.LARGEST_ANGLE`, and NaN beyond. The inverse of the Jacobian has a
pole at a full turn.

Functions take and return flat arrays of scalars and never branch, so they run on real numbers, complex numbers and
traced symbols. Quaternions w, x, y, z need not be normalised; a zero quaternion yields NaN.
"""

from __future__ import annotations

from functools import singledispatch
from math import factorial
from typing import Any

import numpy as np

from kinetree.spatial.dual import Dual
from kinetree.spatial.rotation import cross, skew
from kinetree.spatial.scalar import arctan2, magnitude, select, sincos, sqrt
from kinetree.spatial.tape import Taped, add_function
from kinetree.spatial.value import Array

# Added to a squared angle or sine to keep quotients such as sin ½θ / θ defined at 0. All functions of it are smooth
# there, so results do not change.
_TINY = 2.0**-100
# Below this squared angle, closed forms lose digits to cancellation; series with this many terms do not.
_SMALL = 4.0
_TERMS = 12


def _signed(terms: Any) -> tuple[float, ...]:
    return tuple((-1.0) ** k * term for k, term in enumerate(terms))


_C = _signed(1.0 / factorial(2 * k + 3) for k in range(_TERMS))
_DB = _signed(-(k + 1.0) / factorial(2 * k + 4) for k in range(_TERMS))
_DC = _signed(-(k + 1.0) / factorial(2 * k + 5) for k in range(_TERMS))
_DHALF = _signed(-(k + 1.0) / (2.0 ** (2 * k + 3) * factorial(2 * k + 3)) for k in range(_TERMS))
_DDB = _signed((k + 1.0) * (k + 2.0) / factorial(2 * k + 6) for k in range(_TERMS))


class Angle:
    """A, B, C and their derivatives with respect to s, from s and the sine and cosine of ½θ.

    Attributes:
        half: sin ½θ / θ.
        cosine: cos ½θ.
    """

    def __init__(self, square: Any, half: Any, cosine: Any) -> None:
        self.square, self.half, self.cosine = square, half, cosine
        self.A = 2.0 * (half * cosine)
        self.B = 2.0 * (half * half)
        self.C = self._either(_C, lambda: 1.0 - self.A)

    @classmethod
    def of(cls, w: Array) -> Angle:
        """The angle of a rotation vector."""
        square = dot(w, w)
        return cls(square, *_half_angle(square))

    def _either(self, coefficients: tuple[float, ...], numerator: Any) -> Any:
        """A series for small angles, and numerator over s for all others."""
        series = coefficients[-1] * self.square + coefficients[-2]
        for coefficient in reversed(coefficients[:-2]):
            series = series * self.square + coefficient
        return select(self.square, _SMALL, series, numerator() / (self.square + _TINY))

    @property
    def dhalf(self) -> Any:
        return self._either(_DHALF, lambda: 0.25 * self.cosine - 0.5 * self.half)

    @property
    def dA(self) -> Any:
        return 0.5 * (self.C - self.B)

    @property
    def dB(self) -> Any:
        return self._either(_DB, lambda: 0.5 * self.A - self.B)

    @property
    def dC(self) -> Any:
        return self._either(_DC, lambda: 0.5 * (self.B - 3.0 * self.C))

    @property
    def D(self) -> Any:
        """(1 − ½θ cot ½θ) / θ²."""
        return -self.dB / self.B

    @property
    def dD(self) -> Any:
        second = self._either(_DDB, lambda: 0.5 * (self.dA - 4.0 * self.dB))
        return self.D * self.D - second / self.B


@singledispatch
def _half_angle(square: Any) -> tuple[Any, Any]:
    """sin ½θ / θ and cos ½θ, from θ²."""
    angle = sqrt(square + _TINY)
    sine, cosine = sincos(0.5 * angle)
    return sine / angle, cosine


@_half_angle.register
def _(square: Dual) -> tuple[Any, Any]:
    # differentiating the quotient would lose all digits at small angles
    half, cosine = _half_angle(square.value)
    slope = Angle(square.value, half, cosine).dhalf
    return (
        Dual(half, slope * square.rate, square.level),
        Dual(cosine, -0.25 * half * square.rate, square.level),
    )


@_half_angle.register
def _(square: Taped) -> tuple[Any, Any]:
    return square.tape.record("half", square), square.tape.record("half cosine", square)


add_function("half", lambda s: _half_angle(s)[0], lambda g, half, s: (g * Angle(s, half, _half_angle(s)[1]).dhalf,))
add_function("half cosine", lambda s: _half_angle(s)[1], lambda g, _, s: (-0.25 * _half_angle(s)[0] * g,))


def within_half_turn(angle: Any) -> Any:
    """The equivalent angle in [−π, π] about a fixed axis; unchanged if already in that range."""
    sine, cosine = sincos(angle)
    acute = arctan2(magnitude(sine), magnitude(cosine))
    upper = select(cosine, 0.0, np.pi - acute, acute)
    return select(-magnitude(angle), -np.pi, select(sine, 0.0, -upper, upper), angle)


def dot(a: Array, b: Array) -> Any:
    """Scalar product, summed from the first term to the last."""
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:]):
        total = total + x * y
    return total


# Quaternions


def scaled(q: Array) -> tuple[Array, Any]:
    """The quaternion over its largest component, so that squares neither overflow nor underflow; and that component."""
    first, second = _larger(q[0], q[1]), _larger(q[2], q[3])
    largest = _larger(first, second)
    return q / largest, largest


def _larger(x: Any, y: Any) -> Any:
    one, other = magnitude(x), magnitude(y)
    return select(one, other, other, one)


def normalized(q: Array) -> Array:
    """The unit quaternion, (4,)."""
    q, _ = scaled(q)
    unit: Array = q / sqrt(dot(q, q))
    return unit


def composed(a: Array, b: Array) -> Array:
    """Quaternion product a b: rotation by a, then by b about the rotated axes."""
    vector = a[0] * b[1:] + b[0] * a[1:] + cross(a[1:], b[1:])
    return np.array([a[0] * b[0] - dot(a[1:], b[1:]), *vector])


def conjugate(q: Array) -> Array:
    """The inverse rotation, of the same norm."""
    return np.array([q[0], -q[1], -q[2], -q[3]])


def rotated(q: Array, x: Array) -> Array:
    """A vector rotated by a unit quaternion, (3,)."""
    t = cross(q[1:], x)
    result: Array = x + 2.0 * (q[0] * t + cross(q[1:], t))
    return result


def turned(q: Array, w: Array) -> Array:
    """A unit quaternion followed by the rotation of a rotation vector about the rotated axes; of unit norm, (4,)."""
    angle = Angle.of(w)
    product = composed(q, np.array([angle.cosine, *(w * angle.half)]))
    # its norm is 1 up to rounding, so one Newton step is exact
    unit: Array = product * (1.5 - 0.5 * dot(product, product))
    return unit


def turn_between(a: Array, b: Array) -> tuple[Array, Angle]:
    """The rotation vector, at most π long, from one quaternion to another in the first one's axes; and its `Angle`.

    The quaternions may have any norms whose products neither overflow nor underflow.
    """
    q = composed(conjugate(a), b)
    # q and −q are the same rotation: take the one with the smaller angle
    vector = np.array([select(q[0], 0.0, -x, x) for x in q[1:]])
    cosine, sine = magnitude(q[0]), sqrt(dot(vector, vector) + _TINY)
    theta, length = 2.0 * arctan2(sine, cosine), sqrt(dot(q, q))
    return vector * (theta / sine), Angle(theta * theta, sine / (length * theta), cosine / length)


def tangent_of_quaternion(q: Array) -> Array:
    """Maps a change of a quaternion of any norm to the rotation vector in body axes, (3, 4).

    Twice the vector part of q⁻¹ δq. A change along q itself is no rotation.
    """
    q, largest = scaled(q)
    w, x, y, z = 2.0 * q / dot(q, q) / largest
    return np.array([[-x, w, z, -y], [-y, -z, w, x], [-z, y, -x, w]])


def quaternion_rates(q: Array, w: Array) -> Array:
    """Rates of a quaternion of any norm while it turns with an angular velocity about its rotated axes, (4,)."""
    return 0.5 * composed(q, np.array([0.0, *w]))


# Screw motions


def displacement(w: Array, v: Array) -> Array:
    """Displacement of a frame's origin, in the initial frame, by a constant body twist in unit time, (3,)."""
    angle, turning = Angle.of(w), cross(w, v)
    moved: Array = v + angle.B * turning + angle.C * cross(w, turning)
    return moved


def linear_velocity(w: Array, angle: Angle, moved: Array) -> Array:
    """Inverse of `displacement`: the linear part of the twist, (3,), for |w| < 2π."""
    turning = cross(w, moved)
    linear: Array = moved - 0.5 * turning + angle.D * cross(w, turning)
    return linear


def bracket(u: Array) -> Array:
    """ad: the matrix u × of a twist, (6, 6)."""
    return _blocks(skew(u[:3]), skew(u[3:]))


def transport(u: Array) -> Array:
    """Ad of exp(−u): transforms twists from the initial to the final frame of a screw motion, (6, 6)."""
    angle = Angle.of(u[:3])
    return _polynomial(u, -angle.A, angle.B, -angle.dA, angle.dB)


def right_jacobian(u: Array) -> Array:
    """J with exp(u + δ) = exp(u) exp(J δ) to first order, (6, 6)."""
    angle = Angle.of(u[:3])
    return _polynomial(u, -angle.B, angle.C, -angle.dB, angle.dC)


def inverse_right_jacobian(u: Array) -> Array:
    """The inverse of `right_jacobian`, for rotations of less than a full turn, (6, 6)."""
    angle = Angle.of(u[:3])
    return _polynomial(u, 0.5, angle.D, 0.0, angle.dD)


def _polynomial(u: Array, first: Any, second: Any, first_rate: Any, second_rate: Any) -> Array:
    """1 + f₁ W + f₂ W² at w, and its derivative along v, as blocks; rates are with respect to s."""
    w, v = u[:3], u[3:]
    W, V = skew(w), skew(v)
    square, s_rate = W @ W, 2.0 * dot(w, v)
    F = np.eye(3) + first * W + second * square
    F_rate = first * V + second * (V @ W + W @ V) + s_rate * (first_rate * W + second_rate * square)
    return _blocks(F, F_rate)


def _blocks(diagonal: Array, below: Array) -> Array:
    """[[diagonal, 0], [below, diagonal]]."""
    above = np.zeros((3, 3))
    return np.concatenate([np.concatenate([diagonal, above], axis=1), np.concatenate([below, diagonal], axis=1)])
