"""No compiler may turn −(x y + z) into (−x) y − z, whose zero has another sign."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import kinetree as kt
from kinetree.compiler.ir import Op, walk
from kinetree.compiler.llvm import machine_code
from kinetree.compiler.llvm import machine_code as target
from kinetree.compiler.passes.fuse import fuse
from kinetree.compiler.passes.simplify import simplify
from kinetree.compiler.trace import trace
from kinetree.language.algorithm import algorithm
from kinetree.language.setup import Variants
from kinetree.runtime import kernels
from tests.parity.functions import FUNCTIONS

#: Between them, they have all kinds of loops.
CHECKED = ("inverse_dynamics", "mass_matrix", "mass_matrix_inverse", "coriolis_matrix", "jacobian_dot_v")

ARM = target.Processor("aarch64-unknown-linux-gnu", "generic", "", 2)


@algorithm(q=("q",), x=("v",), y=("v",), z=("v",), outputs=("y", "z"))
def negated(tree, q, x, y, z):
    for k, _ in tree.scatter():
        value = q[k] * x[k] + x[k]
        y[k], z[k] = value, -value


def optimized(text: str) -> tuple[str, str]:
    """LLVM IR after LLVM's passes, and assembly, for ARM."""
    target.llvm().initialize_all_targets()
    target.llvm().initialize_all_asmprinters()
    module, machine = machine_code.optimized(text, ARM)
    return str(module), machine.emit_assembly(module)


def fnegs_of_fmas(text: str) -> list[str]:
    fmas = set(re.findall(r"(%[\w.]+) = (?:tail )?call [^@]*@llvm\.fma", text))
    return [name for name in re.findall(r"fneg [^%]*(%[\w.]+)", text) if name in fmas]


def test_a_value_and_its_negative_are_computed_once() -> None:
    variants = Variants.of(kt.zoo.double_pendulum().mechanism, ())
    program = fuse(simplify(trace(negated, variants)))
    codes = Counter(item.code for item in walk(program.top) if isinstance(item, Op))
    assert codes["fma"] == codes["neg"] == len(variants.nodes)


@pytest.mark.parametrize("kind", ["double", "<2 x double>"])
def test_negations_stay_apart_on_arm(kind: str) -> None:
    """Also those that LLVM finds by looking through memory."""
    suffix = "f64" if kind == "double" else "v2f64"
    text = f"""define void @f({kind} %x, {kind} %y, ptr %p) {{
  %a = call {kind} @llvm.fma.{suffix}({kind} %x, {kind} %y, {kind} %x)
  store {kind} %a, ptr %p
  %b = load {kind}, ptr %p
  %c = fneg {kind} %b
  store {kind} %c, ptr %p
  ret void
}}
declare {kind} @llvm.fma.{suffix}({kind}, {kind}, {kind})"""
    ir, assembly = optimized(text)
    assert "arithmetic.fence" in ir
    assert "fneg" in assembly
    assert "fnmadd" not in assembly


def test_what_the_check_looks_for_is_found() -> None:
    text = "%a = tail call double @llvm.fma.f64(double %x, double %y, double %x)\n%b = fneg double %a"
    assert fnegs_of_fmas(text) == ["%a"]


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f.name in CHECKED], ids=str)
def test_kernels_for_arm(function) -> None:
    robot = kt.zoo.random_tree(12, seed=3, armature=True)
    called = robot
    for name in function.name.split("."):
        called = getattr(called, name)
    chosen = called.algorithm
    sites = [robot.site("body3")] if any("frames" in a.dimensions for a in (*chosen.inputs, *chosen.outputs)) else []
    variants = Variants.of(robot.mechanism, sites)
    texts, _ = kernels.Kernels(chosen, variants).modules(1, ARM)
    assert not any(fnegs_of_fmas(optimized(text)[0]) for text in texts)
