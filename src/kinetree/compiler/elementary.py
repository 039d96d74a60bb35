"""Sine and cosine in terms of the IR's operations, so that every engine computes the same bits.

Calling the C library for each joint angle would cost more than the recursion itself. Argument reduction subtracts
n = rint(2x/π) times π/2, in three parts, and keeps the rounding error; polynomials cover [−π/4, π/4]. In double
precision these are the minimax polynomials of Sun's fdlibm. In either precision, results are within 1 ulp up to the
angle from which adjacent numbers are 1/64 rad apart (`Precision.largest`), and NaN beyond.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from kinetree.spatial.scalar import LARGEST_ANGLE

_T = TypeVar("_T")


class Precision(NamedTuple):
    """The constants of a floating-point format."""

    two_over_pi: float
    pi_over_two: tuple[float, float, float]  # in three parts, whose products with n are exact in a fused multiply-add
    shifter: float  # adding it to a small number leaves the nearest integer in the low bits
    sine: tuple[float, ...]  # S in sin r ≈ r + r³ S(r²), lowest power first
    cosine: tuple[float, ...]  # C in cos r ≈ 1 − r²/2 + r⁴ C(r²)
    largest: float  # largest angle; beyond it the result is NaN


DOUBLE = Precision(
    two_over_pi=float.fromhex("0x1.45f306dc9c883p-1"),
    pi_over_two=(
        float.fromhex("0x1.921fb54442d18p+0"),
        float.fromhex("0x1.1a62633145c07p-54"),
        float.fromhex("-0x1.f1976b7ed8fbcp-110"),
    ),
    shifter=1.5 * 2.0**52,
    sine=(
        -1.66666666666666324348e-01,
        8.33333333332248946124e-03,
        -1.98412698298579493134e-04,
        2.75573137070700676789e-06,
        -2.50507602534068634195e-08,
        1.58969099521155010221e-10,
    ),
    cosine=(
        4.16666666666666019037e-02,
        -1.38888888888741095749e-03,
        2.48015872894767294178e-05,
        -2.75573143513906633035e-07,
        2.08757232129817482790e-09,
        -1.13596475577881948265e-11,
    ),
    largest=LARGEST_ANGLE,
)
# fitted in double precision to 4e-9, then rounded
SINGLE = Precision(
    two_over_pi=float.fromhex("0x1.45f306p-1"),
    pi_over_two=(float.fromhex("0x1.921fb6p+0"), float.fromhex("-0x1.777a5cp-25"), float.fromhex("-0x1.ee59dap-50")),
    shifter=1.5 * 2.0**23,
    sine=(-0.16666655242443085, 0.008332155644893646, -0.0001951463200384751),
    cosine=(0.04166664555668831, -0.0013887309469282627, 2.443241282890085e-05),
    largest=2.0**17,  # beyond it, adjacent numbers are 1/64 rad apart, as in double precision
)


def sine_cosine(do: Callable[..., Any], angle: _T, numbers: Precision = DOUBLE) -> tuple[_T, _T]:
    """Sine and cosine of an angle [rad] in an engine's arithmetic.

    Args:
        do: Performs an operation, given its code and arguments: "const", "add", "sub", "mul", "neg" and "fma" of the
            IR; "within" (x, limit) is x, or NaN unless |x| ≤ limit; "turned" (sine, cosine, shifted) is both of the
            angle plus n quarter turns, where n is in the low bits of `shifted`.
        angle: The angle.
        numbers: Constants of the format.
    """

    def polynomial(z: _T, coefficients: tuple[float, ...]) -> _T:
        value: _T = do("const", coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            value = do("fma", value, z, do("const", coefficient))
        return value

    high, middle, low_part = (do("const", part) for part in numbers.pi_over_two)
    x = do("within", angle, numbers.largest)
    shifted = do("fma", x, do("const", numbers.two_over_pi), do("const", numbers.shifter))
    count = do("sub", shifted, do("const", numbers.shifter))
    minus = do("neg", count)
    # x − n π/2 = r + low, even next to a multiple: low collects the rounding errors of the differences
    first = do("fma", minus, high, x)
    second = do("mul", count, middle)
    r = do("sub", first, second)
    part = do("sub", r, first)
    low = do("sub", do("sub", first, do("sub", r, part)), do("add", second, part))
    low = do("sub", low, do("fma", count, middle, do("neg", second)))
    low = do("fma", minus, low_part, low)
    z = do("mul", r, r)
    # sin(r + low) ≈ r + (r z S(z) + low)
    sine = do("add", r, do("fma", do("mul", r, z), polynomial(z, numbers.sine), low))
    # cos(r + low) ≈ w + ((1 − w) − z/2 + (z² C(z) − r low)), w = 1 − z/2
    one = do("const", 1.0)
    half = do("mul", z, do("const", 0.5))
    w = do("sub", one, half)
    rest = do("sub", do("sub", one, w), half)
    rest = do("fma", do("neg", r), low, rest)
    cosine = do("add", w, do("fma", do("mul", z, z), polynomial(z, numbers.cosine), rest))
    turned: tuple[_T, _T] = do("turned", sine, cosine, shifted)
    return turned
