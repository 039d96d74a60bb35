"""Sine and cosine in LLVM assembly, for any number of lanes.

A robot's joint angles would cost more in eight calls of the C library than in the whole recursion that needs them.
Argument reduction takes n = rint(2x/π) times π/2 from x in three parts and keeps what rounding loses; the kernels on
[−π/4, π/4] are the minimax polynomials of Sun's fdlibm. Within 1 ulp up to `scalar.LARGEST_ANGLE`, NaN beyond.
"""

from __future__ import annotations

from struct import pack

from kinetree.spatial.scalar import LARGEST_ANGLE

# π/2 in three parts; the products with n are exact in a fused multiply-add.
_PIO2 = (
    float.fromhex("0x1.921fb54442d18p+0"),
    float.fromhex("0x1.1a62633145c07p-54"),
    float.fromhex("-0x1.f1976b7ed8fbcp-110"),
)
_TWO_OVER_PI = float.fromhex("0x1.45f306dc9c883p-1")
# Added to a number below 2⁵¹ it leaves the nearest integer in the low bits.
_SHIFTER = 1.5 * 2.0**52
_SIN = (-1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
        2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10)  # fmt: skip
_COS = (4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
        -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11)  # fmt: skip


def sincos_text(lanes: int) -> str:
    """The function `@sincos_<lanes>`, which returns sine and cosine of its argument."""
    t = "double" if lanes == 1 else f"<{lanes} x double>"
    i = "i64" if lanes == 1 else f"<{lanes} x i64>"
    b = "i1" if lanes == 1 else f"<{lanes} x i1>"
    suffix = "f64" if lanes == 1 else f"v{lanes}f64"
    lines: list[str] = []

    def c(value: float) -> str:
        text = "0x" + pack(">d", value).hex().upper()
        return text if lanes == 1 else "<" + ", ".join([f"double {text}"] * lanes) + ">"

    def n(value: int) -> str:
        return str(value) if lanes == 1 else "<" + ", ".join([f"i64 {value}"] * lanes) + ">"

    def let(expression: str) -> str:
        lines.append(f"  %t{len(lines)} = {expression}")
        return f"%t{len(lines) - 1}"

    def fma(x: str, y: str, z: str) -> str:
        return let(f"call {t} @llvm.fma.{suffix}({t} {x}, {t} {y}, {t} {z})")

    def two(code: str, x: str, y: str) -> str:
        return let(f"{code} {t} {x}, {y}")

    def polynomial(z: str, coefficients: tuple[float, ...]) -> str:
        value = c(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            value = fma(value, z, c(coefficient))
        return value

    size = let(f"call {t} @llvm.fabs.{suffix}({t} %angle)")
    meaningful = let(f"fcmp ole {t} {size}, {c(LARGEST_ANGLE)}")
    x = let(f"select {b} {meaningful}, {t} %angle, {t} {c(float('nan'))}")
    shifted = fma(x, c(_TWO_OVER_PI), c(_SHIFTER))
    quadrant = let(f"bitcast {t} {shifted} to {i}")
    count = two("fsub", shifted, c(_SHIFTER))
    minus = let(f"fneg {t} {count}")
    # x − n π/2 = r + low, however close x is to a multiple: what each difference rounds away goes into low
    first = fma(minus, c(_PIO2[0]), x)
    second = two("fmul", count, c(_PIO2[1]))
    r = two("fsub", first, second)
    part = two("fsub", r, first)
    low = two("fsub", two("fsub", first, two("fsub", r, part)), two("fadd", second, part))
    low = two("fsub", low, fma(count, c(_PIO2[1]), let(f"fneg {t} {second}")))
    low = fma(minus, c(_PIO2[2]), low)
    z = two("fmul", r, r)
    # sin(r + low) ≈ r + (r z S(z) + low)
    sine = two("fadd", r, fma(two("fmul", r, z), polynomial(z, _SIN), low))
    # cos(r + low) ≈ w + ((1 − w) − z/2 + (z² C(z) − r low)), w = 1 − z/2
    half = two("fmul", z, c(0.5))
    w = two("fsub", c(1.0), half)
    rest = two("fsub", two("fsub", c(1.0), w), half)
    rest = fma(let(f"fneg {t} {r}"), low, rest)
    cosine = two("fadd", w, fma(two("fmul", z, z), polynomial(z, _COS), rest))
    # which of the two, and with which sign
    odd = let(f"icmp ne {i} {let(f'and {i} {quadrant}, {n(1)}')}, {n(0)}")
    results = []
    for value, other, turn in ((sine, cosine, quadrant), (cosine, sine, let(f"add {i} {quadrant}, {n(1)}"))):
        chosen = let(f"bitcast {t} {let(f'select {b} {odd}, {t} {other}, {t} {value}')} to {i}")
        sign = let(f"shl {i} {let(f'and {i} {turn}, {n(2)}')}, {n(62)}")
        results.append(let(f"bitcast {i} {let(f'xor {i} {chosen}, {sign}')} to {t}"))
    pair = let(f"insertvalue {{{t}, {t}}} poison, {t} {results[0]}, 0")
    pair = let(f"insertvalue {{{t}, {t}}} {pair}, {t} {results[1]}, 1")
    body = "\n".join(lines)
    return (
        f"declare {t} @llvm.fabs.{suffix}({t})\n"
        f"define internal {{{t}, {t}}} @sincos_{lanes}({t} %angle) alwaysinline nounwind {{\n"
        f"{body}\n  ret {{{t}, {t}}} {pair}\n}}\n"
    )
