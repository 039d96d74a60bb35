"""Natural logarithm from additions, multiplications, divisions and selections: bitwise identical on every machine.

The argument is scaled by powers of two, found by bisection, to a mantissa m between √½ and √2. Then, with
s = (m − 1)/(m + 1), ln m = 2 (s + s³/3 + s⁵/5 + …). Accurate to 2 ulp.
"""

from __future__ import annotations

from typing import Any

from kinetree.spatial.scalar import select, sqrt

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
