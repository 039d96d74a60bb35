"""Passes over programs: what folding gives, and the order of terms in sums of products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.compiler.ir import CodeBlock, FieldPlace, Input, Op, OutputEntry, Program, Role, Store, TreeLoop, walk
from kinetree.compiler.machine import fma
from kinetree.compiler.passes import simplify as stage
from kinetree.compiler.passes.fuse import defer_constants, fuse, reassociate
from kinetree.compiler.passes.simplify import RULES
from kinetree.compiler.programs import simplified, variants_of
from kinetree.language.setup import WORLD_CLASS
from kinetree.language.tree import Tree


def test_what_becomes_the_same_as_an_operation_before_the_loop_is_not_computed_in_the_loop() -> None:
    program, world = Program(RULES), Role("world", (WORLD_CLASS,))
    a, b = (program.load(Input(0, ((0, i),))) for i in range(2))
    program.top.items.append(Store(FieldPlace(world, "zero", 0), program.lift(0.0)))
    zero = program.load(FieldPlace(world, "zero", 0))
    program.top.items.append(Store(OutputEntry(0, ((0, 0),)), (a + zero) * b))
    inner = program.current = CodeBlock(program, program.top)
    inner.items.append(Store(OutputEntry(0, ((0, 1),)), a * b))
    program.top.items.append(TreeLoop(Tree.columns, None, bodies={(): inner}))
    stage.simplify(program)
    (product,) = [item for item in program.top.items if isinstance(item, Op) and item.code == "mul"]
    assert [item.value for item in inner.items if isinstance(item, Store)] == [product]
    assert len(inner.items) == 1


def test_what_only_stores_that_say_nothing_would_change_is_constant() -> None:
    """As of a field that is divided by another one, once that turns out to be one."""
    program, world = Program(RULES), Role("world", (WORLD_CLASS,))
    one, two = (FieldPlace(world, name, 0) for name in ("one", "two"))
    v = program.load(Input(0, ((0, 0),)))
    program.top.items.append(Store(one, program.lift(1.0)))
    program.top.items.append(Store(two, program.lift(2.0)))
    program.top.items.append(Store(two, program.load(two) / program.load(one)))
    program.top.items.append(Store(OutputEntry(0, ((0, 0),)), v * program.load(two)))
    stage.simplify(program)
    loads = [item.attr for item in program.top.items if isinstance(item, Op) and item.code == "load"]
    assert loads == [Input(0, ((0, 0),))]


def traced(formula: Callable[..., Any], count: int) -> Program:
    """A program with a loop whose body stores the value of a formula of the numbers of an input."""
    program = Program()
    loop = TreeLoop(Tree.scatter, None)
    program.top.items.append(loop)
    program.current = loop.bodies["any",] = body = CodeBlock(program, program.top)
    loop.roles["any",] = ()
    value = formula(*(program.load(Input(0, ((0, i),))) for i in range(count)))
    body.items.append(Store(OutputEntry(0, ((0, 0),)), value))
    return program


def codes(program: Program) -> list[str]:
    return [item.code for item in walk(program.top) if isinstance(item, Op) and item.args]


def value_of(program: Program, numbers: list[float]) -> float:
    """Run the body of the loop once."""
    known: dict[int, float] = {}
    do = {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "neg": lambda x: -x,
        "sqrt": np.sqrt,
        "fma": fma,
    }
    for item in walk(program.top):
        if isinstance(item, Store):
            return known[id(item.value)]
        if isinstance(item, Op):
            arguments = [known[id(a)] for a in item.args]
            known[id(item)] = numbers[item.attr.at[0][1]] if item.code == "load" else do[item.code](*arguments)
    raise AssertionError("nothing is stored")


CASES: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "sum": (lambda a, b, c, d, e: -a + (b * c + d * e), ["neg", "fma", "fma"]),
    "difference": (lambda a, b, c, d, e: -a - (b * c - d * e), ["neg", "neg", "fma", "fma"]),
    "no plain term": (lambda a, b, c, d, e: (a * b + c * d) + (e * a - b * d), ["mul", "fma", "fma", "neg", "fma"]),
    "a late term": (lambda a, b, c, d, e: a.sqrt() + (b * c + d * e), ["sqrt", "mul", "fma", "add"]),
    "a product used twice": (lambda a, b, c, d, e: (p := a * b) + (c * d + e * p), ["mul", "fma", "fma"]),
    "no product": (lambda a, b, c, d, e: (a + b) - (c + (d - e)), ["add", "sub", "add", "sub"]),
    "a difference of its own": (lambda a, b, c, d, e: c * d + (-a + (b - e)), ["neg", "sub", "add", "fma"]),
    "from memory": (lambda a, b, c, d, e: a + (b * c + d * e), ["mul", "fma", "add"]),
}


@pytest.mark.parametrize("name", CASES)
def test_operations(name: str) -> None:
    formula, expected = CASES[name]
    numbers = [2.0, 3.0, 5.0, 7.0, 11.0]
    before = value_of(traced(formula, 5), numbers)
    program = fuse(traced(formula, 5))
    assert codes(program) == expected
    assert value_of(program, numbers) == pytest.approx(before, rel=1e-15)


def test_differences_of_large_numbers_stay_exact() -> None:
    program = fuse(traced(lambda a, b, c, d, e: ((-a).sqrt() - (-b).sqrt()) + (c * d + e * d), 5))
    assert value_of(program, [-(2.0**106), -(2.0**106), 3.0, 0.25, 7.0]) == 2.5


def test_what_is_known_last_comes_last() -> None:
    """A square root takes longer than a product."""
    program = traced(lambda a, b, c, d: (a.sqrt() * b + b * c) + c * d, 4)
    reassociate(program)
    *_, last = [item for item in walk(program.top) if isinstance(item, Op) and item.code == "add"]
    factors = [factor.code for argument in last.args for factor in argument.args]
    assert "sqrt" in factors


def test_forward_dynamics_takes_fewer_operations() -> None:
    robot = kt.zoo.chain(3)
    variants = variants_of(forward_dynamics, robot.mechanism, ())
    program = simplified(forward_dynamics, variants)
    defer_constants(program)
    before = codes(program)
    after = codes(fuse(simplified(forward_dynamics, variants)))
    products = [code for code in after if code in ("mul", "fma")]
    assert len(products) == before.count("mul")
    assert after.count("add") + after.count("sub") + after.count("fma") == before.count("add") + before.count("sub")
