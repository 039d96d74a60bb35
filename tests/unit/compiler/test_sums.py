"""The order of terms in sums of products: as few operations as possible, nothing lost, what waits comes last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.compiler.ir import CodeBlock, Input, Op, OutputEntry, Program, Store, TreeLoop, walk
from kinetree.compiler.machine import fma
from kinetree.compiler.passes.defer_constants import from_nothing
from kinetree.compiler.passes.reassociate import arrange
from kinetree.compiler.passes.simplify import fuse
from kinetree.compiler.programs import simplified, variants_of
from kinetree.language.tree import Tree


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
    program = arrange(traced(lambda a, b, c, d: (a.sqrt() * b + b * c) + c * d, 4))
    *_, last = [item for item in walk(program.top) if isinstance(item, Op) and item.code == "add"]
    factors = [factor.code for argument in last.args for factor in argument.args]
    assert "sqrt" in factors


def test_forward_dynamics_takes_fewer_operations() -> None:
    robot = kt.zoo.chain(3)
    variants = variants_of(forward_dynamics, robot.mechanism, ())
    before = codes(from_nothing(simplified(forward_dynamics, variants)))
    after = codes(fuse(simplified(forward_dynamics, variants)))
    products = [code for code in after if code in ("mul", "fma")]
    assert len(products) == before.count("mul")
    assert after.count("add") + after.count("sub") + after.count("fma") == before.count("add") + before.count("sub")
