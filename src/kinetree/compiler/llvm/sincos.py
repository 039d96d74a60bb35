"""Sine and cosine as LLVM assembly, for any number of lanes."""

from __future__ import annotations

from kinetree.compiler.elementary import SineCosine
from kinetree.compiler.formats import FLOAT64, Format


def sincos_text(lanes: int, scalar: Format = FLOAT64) -> str:
    """The function `@sincos_<lanes>`, which returns the sine and cosine of its argument."""
    do = _Instructions(lanes, scalar)
    sine, cosine = SineCosine[str](do, scalar.precision)("%angle")
    t = do.scalar
    pair = do.let(f"insertvalue {{{t}, {t}}} poison, {t} {sine}, 0")
    pair = do.let(f"insertvalue {{{t}, {t}}} {pair}, {t} {cosine}, 1")
    body = "\n".join(do.lines)
    return (
        f"declare {t} @llvm.fabs.{do.suffix}({t})\n"
        f"define internal {{{t}, {t}}} @sincos_{lanes}({t} %angle) alwaysinline nounwind {{\n"
        f"{body}\n  ret {{{t}, {t}}} {pair}\n}}\n"
    )


class _Instructions:
    """Arithmetic that emits instructions."""

    def __init__(self, lanes: int, scalar: Format) -> None:
        self.lanes, self.lines, self.format = lanes, list[str](), scalar
        self.scalar, self.integer, self.boolean = (self._vector(t) for t in (scalar.llvm, scalar.integer, "i1"))
        self.suffix = scalar.suffix(lanes)

    def _vector(self, element: str) -> str:
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def _all(self, element: str, text: str) -> str:
        return text if self.lanes == 1 else "<" + ", ".join([f"{element} {text}"] * self.lanes) + ">"

    def let(self, expression: str) -> str:
        self.lines.append(f"  %t{len(self.lines)} = {expression}")
        return f"%t{len(self.lines) - 1}"

    def const(self, value: float) -> str:
        return self.format.constant(value, self.lanes)

    def add(self, x: str, y: str) -> str:
        return self.let(f"fadd {self.scalar} {x}, {y}")

    def sub(self, x: str, y: str) -> str:
        return self.let(f"fsub {self.scalar} {x}, {y}")

    def mul(self, x: str, y: str) -> str:
        return self.let(f"fmul {self.scalar} {x}, {y}")

    def neg(self, x: str) -> str:
        return self.let(f"fneg {self.scalar} {x}")

    def fma(self, x: str, y: str, z: str) -> str:
        t = self.scalar
        return self.let(f"call {t} @llvm.fma.{self.suffix}({t} {x}, {t} {y}, {t} {z})")

    def within(self, x: str, largest: float) -> str:
        t = self.scalar
        size = self.let(f"call {t} @llvm.fabs.{self.suffix}({t} {x})")
        meaningful = self.let(f"fcmp ole {t} {size}, {self.const(largest)}")
        return self.let(f"select {self.boolean} {meaningful}, {t} {x}, {t} {self.const(float('nan'))}")

    def turned(self, sine: str, cosine: str, shifted: str) -> tuple[str, str]:
        t, i = self.scalar, self.integer

        def whole(number: int) -> str:
            return self._all(self.format.integer, str(number))

        quadrant = self.let(f"bitcast {t} {shifted} to {i}")
        odd = self.let(f"icmp ne {i} {self.let(f'and {i} {quadrant}, {whole(1)}')}, {whole(0)}")

        def turn(value: str, other: str, quarter: str) -> str:
            chosen = self.let(f"select {self.boolean} {odd}, {t} {other}, {t} {value}")
            sign = self.let(f"shl {i} {self.let(f'and {i} {quarter}, {whole(2)}')}, {whole(8 * self.format.bytes - 2)}")
            bits = self.let(f"bitcast {t} {chosen} to {i}")
            return self.let(f"bitcast {i} {self.let(f'xor {i} {bits}, {sign}')} to {t}")

        following = self.let(f"add {i} {quadrant}, {whole(1)}")
        return turn(sine, cosine, quadrant), turn(cosine, sine, following)
