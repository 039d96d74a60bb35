"""Folding visits only what constants change, and gives the program that recording everything again would give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import kinetree as kt
from kinetree.algorithms.derivatives.forward_dynamics_derivatives import forward_dynamics_derivatives
from kinetree.algorithms.derivatives.jvp import forward_dynamics_jvp
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix_inverse
from kinetree.compiler.ir import CodeBlock, FieldPlace, Input, Op, OutputEntry, Program, Role, Store, TreeLoop
from kinetree.compiler.llvm.phis import emit
from kinetree.compiler.lower.lower import lower
from kinetree.compiler.passes import simplify as stage
from kinetree.compiler.passes.fold import OPAQUE, RULES, keys_of, says_nothing
from kinetree.compiler.programs import variants_of
from kinetree.compiler.trace import trace
from kinetree.concurrency import gc_paused
from kinetree.language.algorithm import Algorithm
from kinetree.language.common_frame import in_common_frame
from kinetree.language.setup import WORLD_CLASS
from kinetree.language.tree import Tree

ALGORITHMS = [
    inverse_dynamics,
    forward_dynamics,
    forward_dynamics_jvp,
    forward_dynamics_derivatives,
    mass_matrix_inverse,
    in_common_frame(mass_matrix_inverse),
]
ROBOTS = {
    "arm": kt.zoo.arm7,
    "humanoid": kt.zoo.humanoid24,
    "every kind": lambda: kt.zoo.random_tree(40),
}


class RecordedAgain:
    """Folds a program by recording all of it again."""

    def __init__(self, program: Program, constants: Mapping[Any, float]) -> None:
        self.program, self.constants, self.news = program, constants, False
        self.block(program.top)

    def block(self, block: CodeBlock) -> None:
        program, items = self.program, block.items
        block.items, block.known = [], {}
        program.current = block
        for item in items:
            if isinstance(item, Op):
                item.note = self.recorded(item)
            elif isinstance(item, Store):
                if says_nothing(item.place, item.value.note, block):
                    self.news = True
                else:
                    block.items.append(Store(item.place, item.value.note))
            else:
                for body in item.blocks:
                    self.block(body)
                program.current = block
                if any(body.items for body in item.blocks):
                    block.items.append(item)

    def recorded(self, op: Op) -> Op:
        args = tuple(a.note for a in op.args)
        values = {self.constants.get(key) for key in keys_of(op.attr)} if op.code == "load" else {None}
        if values != {None} and len(values) == 1:
            better = self.program.op("const", attr=values.pop())
        else:
            rule = self.program.rules.get(op.code)
            better = None if rule is None else rule(self.program, *args)
        if better is None:
            return self.program.record(Op(op.code, args, op.attr, op.block))
        if better.code == "const" or op.code in OPAQUE:
            self.news |= not isinstance(op.note, float)
        return better


def assembly(algorithm: Algorithm, robot: kt.Model) -> list[str]:
    """The code of an algorithm for a robot's variants."""
    variants = variants_of(algorithm, robot.mechanism, ())
    with gc_paused():
        program = stage.fuse(stage.simplify(trace(algorithm, variants, checked=False)))
        return emit(lower(program, algorithm, variants), 1, 4)


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda one: one.name)
def test_folding_gives_what_recording_everything_again_gives(
    algorithm: Algorithm, robot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ROBOTS[robot]()
    found = assembly(algorithm, model)
    monkeypatch.setattr(stage, "Folding", RecordedAgain)
    assert assembly(algorithm, model) == found


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
