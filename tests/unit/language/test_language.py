"""The rules of the tree language: each algorithm here breaks one, and the error names this file and the line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.compiler.passes.simplify import simplify
from kinetree.compiler.trace import trace
from kinetree.errors import ContractError
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.language.setup import Variants
from kinetree.runtime import reference
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.scalar import sincos

ROBOT = kt.zoo.random_tree(5, kinds=("revolute", "prismatic", "floating"), seed=2)

declare = algorithm(q=("q",), v=("v",), tau=("v",), outputs=("tau",))


def interpret(broken: Algorithm) -> None:
    reference.run(broken, ROBOT.mechanism, (), [ROBOT.neutral(), np.ones(ROBOT.nv)])


def traced(broken: Algorithm) -> None:
    trace(broken, Variants.of(ROBOT.mechanism, ()))


BOTH = (interpret, traced)
CASES: list[Any] = []


def breaks(message: str, *engines: Callable[[Algorithm], None]) -> Callable[[Callable[..., None]], None]:
    """Register an algorithm that must be refused with a message."""

    def register(run: Callable[..., None]) -> None:
        CASES.extend(
            pytest.param(engine, declare(run), message, id=f"{run.__name__}-{engine.__name__}")
            for engine in engines or BOTH
        )

    return register


@breaks("`k.V` is read before it is set")
def field_read_before_it_is_set(tree: Any, q: Any, v: Any, tau: Any) -> None:
    for k, _ in tree.scatter():
        tau[k] = k.V


@breaks("`parent.V` is read before it is set")
def field_not_set_on_the_world(tree: Any, q: Any, v: Any, tau: Any) -> None:
    for k, parent in tree.scatter():
        k.V = parent.V


@breaks("this loop may only read fields of parent")
def parent_written_in_scatter(tree: Any, q: Any, v: Any, tau: Any) -> None:
    tree.world.f = Force.zero()
    for _k, parent in tree.scatter():
        parent.f = Force.zero()


@breaks("may only be added to, with +=")
def parent_set_in_gather(tree: Any, q: Any, v: Any, tau: Any) -> None:
    tree.world.f = Force.zero()
    for k, _ in tree.scatter():
        k.f = Force.zero()
    for k, parent in tree.gather():
        parent.f = k.f


@breaks("`k.f` is read after `parent.f` was written in the same loop body")
def read_after_write_through_another_role(tree: Any, q: Any, v: Any, tau: Any) -> None:
    tree.world.f = Force.zero()
    for k, _ in tree.scatter():
        k.f = Force.zero()
    for k, parent in tree.gather():
        parent.f += Force.zero()
        k.g = k.f


@breaks("is Force, but the field was set as Motion before")
def wrong_type(tree: Any, q: Any, v: Any, tau: Any) -> None:
    tree.world.V = Motion.zero()
    for k, _ in tree.scatter():
        k.V = Force.zero()


@breaks("cannot take an increment of type Motion")
def wrong_increment(tree: Any, q: Any, v: Any, tau: Any) -> None:
    tree.world.f = Force.zero()
    for k, _ in tree.scatter():
        k.f = Force.zero()
    for _k, parent in tree.gather():
        parent.f += Motion.zero()


@breaks("`tau` takes an array of shape")
def wrong_shape(tree: Any, q: Any, v: Any, tau: Any) -> None:
    for k, _ in tree.scatter():
        tau[k] = np.zeros(7)


@breaks("a loop over the tree was left before its end")
def loop_left_early(tree: Any, q: Any, v: Any, tau: Any) -> None:
    for k, _ in tree.scatter():
        tau[k] = v[k]
        break


@breaks("is supplied by the node and cannot be set")
def supplied_name_set(tree: Any, q: Any, v: Any, tau: Any) -> None:
    for k, _ in tree.scatter():
        k.H = Motion.zero()


@breaks("available only from a loop's own node k")
def kind_of_the_parent(tree: Any, q: Any, v: Any, tau: Any) -> None:
    for k, parent in tree.scatter():
        tau[k] = k.H.T @ (parent.M @ Motion.zero())


@breaks("`tau` is indexed by 2 keys")
def wrong_number_of_keys(tree: Any, q: Any, v: Any, tau: Any) -> None:
    for k, _ in tree.scatter():
        tau[k, k] = v[k]


@breaks("an array entry is read before it is set")
def array_read_before_it_is_set(tree: Any, q: Any, v: Any, tau: Any) -> None:
    F = tree.array("v")
    for k, _ in tree.scatter():
        for c in k.columns():
            tau[k] = F[c].data[:1]


@breaks("an array entry is read before it is set")
def inward_entry_read_before_it_is_set(tree: Any, q: Any, v: Any, tau: Any) -> None:
    F = tree.inward("v")
    for k, _ in tree.gather():
        for c in tree.descendants(k):
            k.x = F[k, c].data


@breaks("an entry of tree.inward is read or set at k after it was set at another node")
def inward_entry_read_after_it_was_set_at_the_parent(tree: Any, q: Any, v: Any, tau: Any) -> None:
    F = tree.inward("v")
    for k, parent in tree.gather():
        for c in k.columns():
            F[k, c] = F[parent, c] = Force.zero()
            tau[k] = k.H.T @ F[k, c]


@breaks("an entry of tree.inward is read or set at k after it was set at another node")
def inward_entries_read_by_a_second_loop(tree: Any, q: Any, v: Any, tau: Any) -> None:
    F = tree.inward("v")
    for k, parent in tree.gather():
        for c in k.columns():
            F[parent, c] = Force.zero()
        for c in tree.descendants(k):
            F[parent, c] = F[k, c]
        for c in tree.descendants(k):
            F[parent, c] = F[k, c]


@breaks("an entry of tree.inward is read or set at k after it was set at another node")
def other_inward_entries_read_in_an_inner_loop(tree: Any, q: Any, v: Any, tau: Any) -> None:
    F = tree.inward("v")
    for k, parent in tree.gather():
        for c in k.columns():
            F[parent, c] = Force.zero()
        for c in tree.descendants(k):
            F[parent, c] = F[k, c]
            for earlier in tree.descendants(k):
                tau[k] = k.H.T @ F[k, earlier]


@breaks("an entry of tree.inward is read or set at k after it was set at another node")
def inward_entry_set_back(tree: Any, q: Any, v: Any, tau: Any) -> None:
    F = tree.inward("v")
    for k, parent in tree.gather():
        for c in k.columns():
            F[parent, c] = Force.zero()
            F[k, c] = Force.zero()
        for c in tree.descendants(k):
            F[parent, c] = F[k, c]


@breaks("an entry of tree.inward is read at a loop's own node k, not at parent")
def inward_entry_read_at_the_parent(tree: Any, q: Any, v: Any, tau: Any) -> None:
    F = tree.inward("v")
    for k, parent in tree.gather():
        for c in k.columns():
            F[parent, c] = Force.zero()
            tau[k] = k.H.T @ F[parent, c]


@breaks("use gather", traced)
def inward_entry_read_on_the_way_out(tree: Any, q: Any, v: Any, tau: Any) -> None:
    F = tree.inward("v")
    for k, _ in tree.scatter():
        for c in k.columns():
            F[k, c] = Force.zero()
            tau[k] = k.H.T @ F[k, c]


@breaks("an entry of tree.inward is indexed by a node and a column or row")
def inward_entry_without_a_node(tree: Any, q: Any, v: Any, tau: Any) -> None:
    F = tree.inward("v")
    for k, _ in tree.gather():
        for c in k.columns():
            F[c] = Force.zero()


@breaks("an array of Force is given Motion")
def inward_entries_of_two_types(tree: Any, q: Any, v: Any, tau: Any) -> None:
    F = tree.inward("v")
    for k, parent in tree.gather():
        for c in k.columns():
            F[k, c] = Force.zero()
            F[parent, c] = Motion.zero()


@breaks("an algorithm branches on a value", traced)
def branch_on_a_value(tree: Any, q: Any, v: Any, tau: Any) -> None:
    for k, _ in tree.scatter():
        tau[k] = v[k] if v[k][0] > 0 else -v[k]


@breaks("an algorithm branches on a value", traced)
def truth_of_a_value(tree: Any, q: Any, v: Any, tau: Any) -> None:
    for k, _ in tree.scatter():
        tau[k] = v[k] if v[k][0] else -v[k]


@breaks("behaves differently when its nodes come in another order", traced)
def list_outside_of_the_tree(tree: Any, q: Any, v: Any, tau: Any) -> None:
    seen: list[float] = []
    for k, _ in tree.scatter():
        seen.append(1.0)
        tau[k] = v[k] * sum(seen)


@breaks("used outside it; store it in a field", traced)
def value_used_outside_of_its_loop(tree: Any, q: Any, v: Any, tau: Any) -> None:
    last = 0.0
    for k, _ in tree.scatter():
        tau[k] = v[k] * last
        last = v[k][0]


@breaks("is an input and cannot be written")
def input_written(tree: Any, q: Any, v: Any, tau: Any) -> None:
    for k, _ in tree.scatter():
        v[k] = v[k] * 2.0


@breaks("entries of an output start unset")
def output_read(tree: Any, q: Any, v: Any, tau: Any) -> None:
    for k, _ in tree.scatter():
        tau[k] = tau[k] + v[k]


@breaks("loops over nodes cannot be nested", traced)
def nested_loops_over_nodes(tree: Any, q: Any, v: Any, tau: Any) -> None:
    for k, _ in tree.scatter():
        for _ in tree.gather():
            tau[k] = v[k]


@breaks("is written in an inner loop: use an array", traced)
def outer_field_in_an_inner_loop(tree: Any, q: Any, v: Any, tau: Any) -> None:
    for k, _ in tree.scatter():
        for _c in tree.columns():
            k.x = v[k]


@breaks("cannot be part of a traced computation", traced)
def foreign_scalar(tree: Any, q: Any, v: Any, tau: Any) -> None:
    for k, _ in tree.scatter():
        tau[k] = v[k] * 1j


@pytest.mark.parametrize(("engine", "broken", "message"), CASES)
def test_broken_rule_is_refused_at_its_line(engine: Any, broken: Algorithm, message: str) -> None:
    with pytest.raises(ContractError, match=re.escape(message)) as caught:
        engine(broken)
    file, line = re.match(r"(.*?):(\d+): ", str(caught.value)).groups()  # type: ignore[union-attr]
    assert file == __file__
    first = broken.run.__code__.co_firstlineno
    assert first < int(line) <= first + 9


def test_values_are_immutable() -> None:
    @declare
    def writes_into_a_value(tree: Any, q: Any, v: Any, tau: Any) -> None:
        for k, _ in tree.scatter():
            k.x = v[k]
            k.x[0] = 1.0

    for engine in BOTH:
        with pytest.raises(ValueError, match="read-only"):
            engine(writes_into_a_value)


def test_inertia_of_the_model_is_not_touched() -> None:
    before = [p.copy() for p in ROBOT.mechanism.parameters]
    ROBOT.forward_dynamics.engine("reference")(ROBOT.neutral(), np.ones(ROBOT.nv), np.ones(ROBOT.nv))
    assert all((a == b).all() for a, b in zip(before, ROBOT.mechanism.parameters))


def test_arguments_and_declaration_must_agree() -> None:
    def without_velocity(tree: Any, q: Any, tau: Any) -> None: ...

    with pytest.raises(TypeError, match="the declaration has"):
        declare(without_velocity)


def test_code_size_does_not_grow_with_the_number_of_bodies() -> None:
    from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
    from kinetree.compiler.ir import Op, walk

    def ops(n: int) -> int:
        program = simplify(trace(forward_dynamics, Variants.of(kt.zoo.chain(n).mechanism, ())))
        return sum(isinstance(item, Op) for item in walk(program.top))

    # nodes of two shapes; among a hundred placements of any direction there are some of a third
    assert ops(3) == ops(40)
    assert ops(100) == ops(300)


def test_what_is_zero_on_the_way_is_folded() -> None:
    @declare
    def sines(tree: Any, q: Any, v: Any, tau: Any) -> None:
        tree.world.zero = np.zeros(1)
        for k, parent in tree.scatter():
            tau[k] = v[k] + parent.zero[0]
            k.zero = parent.zero * sincos(q[k][0])[0]

    program = simplify(trace(sines, Variants.of(kt.zoo.chain(3).mechanism, ())))
    from kinetree.compiler.ir import Op, walk

    assert {item.code for item in walk(program.top) if isinstance(item, Op)} == {"load"}
