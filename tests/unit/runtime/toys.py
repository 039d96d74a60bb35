"""Toy kernels in LLVM assembly, which exercise the native runtime without the tracer, and what tests of gates share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinetree.compiler.llvm import machine_code
from kinetree.compiler.llvm.machine_code import compile_text
from kinetree.compiler.llvm.writer import FunctionWriter, kernel_entry
from kinetree.runtime import fastcall
from kinetree.runtime.bound import Compiled
from kinetree.runtime.compile_queue import Library
from kinetree.runtime.operands import Binding, Operand

GAIN = 1.1
BAND = 3


def toy(n: int) -> Compiled:
    """A function of q (n,), v (n,), s () with three outputs.

    r (n,): r_i = GAIN q_i + v_i + r_{i-1}, with a fused multiply-add; the sum runs through the workspace.
    M (n, n): r_i r_j on a band around the diagonal, zero elsewhere; the kernel writes the upper half of the band.
    T (2, n, 1): q_i / v_i, and q_i v_i + s rounded twice.
    """
    binding = Binding(
        name="toy",
        inputs=(Operand("q", (n,)), Operand("v", (n,)), Operand("s", ())),
        outputs=(Operand("r", (n,)), Operand("M", (n, n), zeroed=True, symmetric=True), Operand("T", (2, n, 1))),
        parameters=np.array([GAIN]),
        tables=np.array([n, BAND]),
        workspace=n,
    )
    return Compiled(binding, toy_kernel)


def toy_kernel(width: int) -> Library:
    return Library([compile_text(toy_text(width), machine_code.current())], "kernel")


def values(n: int, q: np.ndarray, v: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What `toy` computes; r only up to the rounding of its fused multiply-adds."""
    r = np.cumsum(GAIN * q + v, axis=-1)
    distance = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    M = np.where(distance < BAND, r[..., :, None] * r[..., None, :], 0.0)
    T = np.stack([q / v, q * v + np.asarray(s)[..., None]], axis=-2)[..., None]
    return r, M, T


def toy_text(width: int) -> str:
    scalar = "double" if width == 1 else f"<{width} x double>"
    suffix = "f64" if width == 1 else f"v{width}f64"
    f = FunctionWriter("define void @body(ptr %ws, ptr %par, ptr %tab, ptr %in, ptr %out0, ptr %out1, ptr %out2)")
    align = 8 * width

    def load(pointer: str, index: str) -> str:
        return f.let(f"load {scalar}, ptr {f.at(pointer, index, scalar)}, align {align}")

    def store(value: str, pointer: str, index: str) -> None:
        f.do(f"store {scalar} {value}, ptr {f.at(pointer, index, scalar)}, align {align}")

    n, band = f.word("%tab", 0), f.word("%tab", 1)
    gain = f.let("load double, ptr %par, align 8")
    if width > 1:
        gain = f.let(f"insertelement {scalar} poison, double {gain}, i64 0")
        gain = f.let(f"shufflevector {scalar} {gain}, {scalar} poison, <{width} x i32> zeroinitializer")
    s = load("%in", f.let(f"mul i64 {n}, 2"))
    with f.loop(0, n) as i:
        q, v = load("%in", i), load("%in", f.let(f"add i64 {i}, {n}"))
        store(f.let(f"call {scalar} @llvm.fma.{suffix}({scalar} {gain}, {scalar} {q}, {scalar} {v})"), "%ws", i)
        store(f.let(f"fdiv {scalar} {q}, {v}"), "%out2", i)
        product = f.let(f"fmul {scalar} {q}, {v}")
        store(f.let(f"fadd {scalar} {product}, {s}"), "%out2", f.let(f"add i64 {i}, {n}"))
    with f.loop(1, n) as i:
        before = load("%ws", f.let(f"sub i64 {i}, 1"))
        store(f.let(f"fadd {scalar} {load('%ws', i)}, {before}"), "%ws", i)
    with f.loop(0, n) as i:
        r = load("%ws", i)
        store(r, "%out0", i)
        end = f.let(f"add i64 {i}, {band}")
        end = f.let(f"select i1 {f.let(f'icmp slt i64 {end}, {n}')}, i64 {end}, i64 {n}")
        with f.loop(i, end) as j:
            place = f.let(f"add i64 {f.let(f'mul i64 {i}, {n}')}, {j}")
            store(f.let(f"fmul {scalar} {r}, {load('%ws', j)}"), "%out1", place)
    return f"{kernel_entry(3)}\n{f.text()}\ndeclare {scalar} @llvm.fma.{suffix}({scalar}, {scalar}, {scalar})\n"


class Counting(Compiled):
    """Counts the calls that do not go the short way."""

    count = 0

    def general(self, *inputs: Any, out: Any = None) -> Any:
        self.count += 1
        return super().general(*inputs, out=out)


def counting(n: int) -> Counting:
    function = Counting(toy(n).binding, toy_kernel)
    function.compile()
    return function


def same(got: Any, expected: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(got, expected, strict=True))


native = pytest.mark.skipif(not fastcall.NATIVE, reason="gates are switched off or not possible here")
