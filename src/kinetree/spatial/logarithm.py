"""Arctangent and natural logarithm from additions, multiplications, divisions and selections, accurate to 2 ulp.

So their bits are the same on every machine. For the angle of a point, the smaller coordinate is divided by the larger;
for ratios above tan π/8 it is measured from π/4. The reduced argument is at most tan π/8 in magnitude and goes into a
polynomial. The argument of the logarithm is scaled by powers of two, found by bisection, to a mantissa m between √½ and
√2. Then, with s = (m − 1)/(m + 1), ln m = 2 (s + s³/3 + s⁵/5 + …).
"""

from __future__ import annotations

from typing import Any

from kinetree.spatial.scalar import Constant, select, sqrt

_TAN_PI_8 = float.fromhex("0x1.a827999fcef32p-2")
# π/2 and π/4: the rounded value and its rounding error.
_HALF_PI = (
    Constant(float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.921fb6p+0")),
    Constant(float.fromhex("0x1.1a62633145c07p-54"), float.fromhex("-0x1.777a5cp-25")),
)
_QUARTER_PI = 0.5 * _HALF_PI[0], 0.5 * _HALF_PI[1]
# P in arctan u ≈ u + u³ P(u²), lowest power first: interpolated at Chebyshev nodes to 8e-18.
_POLYNOMIAL = tuple(
    float.fromhex(x)
    for x in (
        "-0x1.5555555555555p-2",
        "0x1.999999999934ap-3",
        "-0x1.24924924360cbp-3",
        "0x1.c71c7185314cbp-4",
        "-0x1.745d0b26b83e7p-4",
        "0x1.3b1262d95579ep-4",
        "-0x1.10fa75382537fp-4",
        "0x1.dfe61e80903d2p-5",
        "-0x1.a098bb6ba4941p-5",
        "0x1.41603647c7a7cp-5",
        "-0x1.3a2b7a07caea9p-6",
    )
)


def first_quadrant(y: Any, x: Any) -> Any:
    """Angle in [0, π/2] of a point with x ≥ 0 and y ≥ 0; NaN at the origin."""
    small, large = select(y, x, y, x), select(y, x, x, y)
    limit = large * _TAN_PI_8
    # measured from 0 or π/2, whichever axis is closer, or from π/4
    numerator = select(limit, small, small - large, small)
    u = select(y, x, numerator, -numerator) / select(limit, small, small + large, large)
    high, low = (select(limit, small, quarter, select(y, x, 0.0, half)) for quarter, half in zip(_QUARTER_PI, _HALF_PI))
    z = u * u
    polynomial = _POLYNOMIAL[-1] * z + _POLYNOMIAL[-2]
    for coefficient in reversed(_POLYNOMIAL[:-2]):
        polynomial = polynomial * z + coefficient
    return high + (u + (u * (z * polynomial) + low))


# ln 2: a leading part with only its first 32 bits set, so that small multiples are exact, and the remainder.
_LN2 = (float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33"))
_SERIES = tuple(1.0 / (2 * n + 1) for n in range(1, 12))
_STEPS = tuple(2**n for n in reversed(range(10)))
_ROOT = 2.0**0.5
_INFINITE = float("inf")


def logarithm(x: Any) -> Any:
    """ln x; −∞ at zero, NaN for negative arguments."""
    mantissa, exponent = x, 0.0
    # once more for subnormal numbers
    for step in (512, *_STEPS):
        larger = _scaled(mantissa, step)
        mantissa, exponent = select(larger, 1.0, larger, mantissa), select(larger, 1.0, exponent - step, exponent)
    for step in _STEPS:
        smaller = _scaled(mantissa, -step)
        mantissa, exponent = select(smaller, 1.0, mantissa, smaller), select(smaller, 1.0, exponent, exponent + step)
    # now between ½ and 2
    mantissa, exponent = (
        select(mantissa, _ROOT, mantissa, 0.5 * mantissa),
        select(mantissa, _ROOT, exponent, exponent + 1.0),
    )
    mantissa, exponent = (
        select(mantissa, 0.5 * _ROOT, 2.0 * mantissa, mantissa),
        select(mantissa, 0.5 * _ROOT, exponent - 1.0, exponent),
    )
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    series = _SERIES[-1] * z + _SERIES[-2]
    for coefficient in reversed(_SERIES[:-2]):
        series = series * z + coefficient
    result = exponent * _LN2[0] + (2.0 * (s + s * z * series) + exponent * _LN2[1])
    # positive and finite; otherwise ∞, NaN, or −∞ at zero
    return select(-x, 0.0, select(x, _INFINITE, result, x), sqrt(x) - 1.0 / (x * x))


def _scaled(x: Any, exponent: int) -> Any:
    """x times a power of two, in factors that single precision has as well."""
    factor = max(-64, min(64, exponent))
    for _ in range(exponent // factor):
        x = x * 2.0**factor
    return x
