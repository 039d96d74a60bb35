"""Products and elementary functions of NumPy arrays, bitwise identical on every machine.

NumPy delegates `@` to a BLAS, and sines to vector libraries, whose summation order and polynomials depend on the
processor. Anything that ends up in a model's constants or in a result is computed here instead: every step is an
addition, multiplication, division or square root of whole arrays, which IEEE 754 specifies to the last bit.

Sines and cosines are accurate to 1 ulp. Arguments other than float64, such as those of complex-step
derivatives, are passed to NumPy.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from kinetree.spatial import scalar
from kinetree.spatial.scalar import LARGEST_ANGLE
from kinetree.spatial.value import Array

# π/2 in three parts.
_PIO2 = (
    float.fromhex("0x1.921fb54442d18p+0"),
    float.fromhex("0x1.1a62633145c07p-54"),
    float.fromhex("-0x1.f1976b7ed8fbcp-110"),
)
_TWO_OVER_PI = float.fromhex("0x1.45f306dc9c883p-1")
_SPLITTER = 2.0**27 + 1.0

_Real = TypeVar("_Real", float, Array)


def product(a: Array, b: Array) -> Array:
    """Matrix products, (…, n, k) and (…, k, m) to (…, n, m), summed from the first term to the last."""
    if a.shape[-1] == 0:
        return np.asarray(a @ b)
    total: Array = a[..., :, 0, None] * b[..., None, 0, :]
    term = np.empty_like(total)
    for i in range(1, a.shape[-1]):
        total += np.multiply(a[..., :, i, None], b[..., None, i, :], out=term)
    return total


def apply(a: Array, x: Array) -> Array:
    """Matrices times vectors, (…, n, k) and (…, k) to (…, n)."""
    return product(a, x[..., None])[..., 0]


def summed(x: Array, axis: int) -> Array:
    """Sums along an axis, from the first term to the last, however many there are besides."""
    terms = np.moveaxis(x, axis, 0)
    total: Array = terms[0].copy() if len(terms) else np.zeros(terms.shape[1:])
    for term in terms[1:]:
        total += term
    return total


def length(x: Array) -> Array:
    """Euclidean norms of vectors, (…, n) to (…), provided that squares neither overflow nor underflow."""
    total = x[..., 0] * x[..., 0]
    for i in range(1, x.shape[-1]):
        total = total + x[..., i] * x[..., i]
    result: Array = np.sqrt(total)
    return result


def sincos(angle: Array) -> tuple[Array, Array]:
    """Sine and cosine of angles in radians; NaN beyond `LARGEST_ANGLE`, as in kernels."""
    angle = np.asarray(angle)
    if angle.dtype != np.float64:
        return np.sin(angle), np.cos(angle)
    x = np.where(np.abs(angle) <= LARGEST_ANGLE, angle, np.nan)
    count = np.rint(x * _TWO_OVER_PI)
    sine, cosine = _remainder_sincos(x, count)
    quadrant = np.where(np.isnan(count), 0.0, count) % 4.0
    odd, down, left = quadrant % 2.0 == 1.0, quadrant >= 2.0, (quadrant == 1.0) | (quadrant == 2.0)
    swapped_sine, swapped_cosine = np.where(odd, cosine, sine), np.where(odd, sine, cosine)
    return np.where(down, -swapped_sine, swapped_sine), np.where(left, -swapped_cosine, swapped_cosine)


def sincos_of_one(angle: float) -> tuple[float, float]:
    """`sincos` of one angle: the same bits in a tenth of the time."""
    if not abs(angle) <= LARGEST_ANGLE:
        return math.nan, math.nan
    turns = angle * _TWO_OVER_PI
    count = math.copysign(round(turns), turns)
    sine, cosine = _remainder_sincos(angle, count)
    quadrant = int(count) % 4
    if quadrant % 2:
        sine, cosine = cosine, sine
    return (-sine if quadrant >= 2 else sine), (-cosine if quadrant in (1, 2) else cosine)


def _remainder_sincos(x: _Real, count: _Real) -> tuple[_Real, _Real]:
    """Sine and cosine of x − count π/2, which lies between −π/4 and π/4."""
    # x − count π/2 = r + low, accurate however close x is to a multiple of π/2
    first, first_error = _exact_product(count, _PIO2[0])
    second, second_error = _exact_product(count, _PIO2[1])
    r, error = sum_with_error(x - first, -first_error)
    r, next_error = sum_with_error(r, -second)
    low = ((error + next_error) - second_error) - count * _PIO2[2]
    r, low = sum_with_error(r, low)
    z = r * r
    sine = r + (r * z * _series(z, _SIN) + low)
    half = 0.5 * z
    near_one = 1.0 - half
    cosine = near_one + (((1.0 - near_one) - half) + (z * z * _series(z, _COS) - r * low))
    return sine, cosine


@scalar.sincos.register(np.float64)
def _sincos_of_float64(angle: np.float64) -> tuple[np.float64, np.float64]:
    """Makes joints locked by `Model.reduced` bitwise reproducible, too."""
    sin, cos = sincos_of_one(float(angle))
    return np.float64(sin), np.float64(cos)


def sum_with_error(a: _Real, b: _Real) -> tuple[_Real, _Real]:
    """The rounded sum a + b and its rounding error, which add up to the exact sum. Knuth's TwoSum."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def _exact_product(a: _Real, b: float) -> tuple[_Real, _Real]:
    """The rounded product a b and its rounding error, by Dekker's algorithm."""
    a_high, b_high = _SPLITTER * a - (_SPLITTER * a - a), _SPLITTER * b - (_SPLITTER * b - b)
    a_low, b_low, rounded = a - a_high, b - b_high, a * b
    return rounded, ((a_high * b_high - rounded) + a_high * b_low + a_low * b_high) + a_low * b_low


def _series(z: _Real, coefficients: tuple[float, ...]) -> _Real:
    *others, before, last = coefficients
    total = last * z + before
    for coefficient in reversed(others):
        total = total * z + coefficient
    return total


# sin r = r + r³ S(r²), cos r = 1 − r²/2 + r⁴ C(r²) on [−π/4, π/4]: Taylor series; eight terms suffice.
def _factorials(first: int, sign: float, terms: int) -> tuple[float, ...]:
    found, factorial = [], 1.0
    for n in range(1, first + 2 * terms):
        factorial *= n
        if n >= first and (n - first) % 2 == 0:
            found.append(sign / factorial)
            sign = -sign
    return tuple(found)


_SIN, _COS = _factorials(3, -1.0, 8), _factorials(4, 1.0, 8)
