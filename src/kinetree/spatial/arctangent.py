"""Arctangent from additions, multiplications, one division and selections: bitwise identical on every machine.

The smaller coordinate is divided by the larger; for ratios above tan π/8 the angle is measured from π/4. The reduced
argument is at most tan π/8 in magnitude and goes into a polynomial. Accurate to 2 ulp.
"""

from __future__ import annotations

from typing import Any

from kinetree.spatial.scalar import Constant, select

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
