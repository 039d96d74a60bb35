"""Numbers carried in registers, sums that start from nothing, constants that are not copied: the bits stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.compiler import interpreter
from kinetree.compiler.ir import For, Store, walk
from kinetree.compiler.llvm.phis import emit
from kinetree.compiler.lower.loop_carried import RELATIVES, LoopCarried, SiblingFlags, relatives
from kinetree.compiler.lower.lower import Lowered
from kinetree.compiler.programs import lowered, variants_of
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.runtime import reference
from kinetree.runtime.kernels import bind
from tests.tolerance import assert_close, bound

#: Chains, siblings that take turns, several roots; kinds that add less than others to their parent.
ROBOTS = {
    "chain": kt.zoo.random_tree(6, kinds=("revolute",), branching=0.0),
    "bush": kt.zoo.random_tree(9, kinds=("revolute",), branching=1.0, seed=1),
    "kinds": kt.zoo.random_tree(12, kinds=("revolute", "prismatic", "spherical", "floating"), seed=2),
    "forest": kt.zoo.random_tree(10, kinds=("prismatic", "revolute"), roots=3, seed=3),
    "limbs": kt.zoo.humanoid24(),
}
declare = algorithm(v=("v",), seen=("v",), outputs=("seen",), sparse=("seen",))


def program_of(one: Algorithm, robot: kt.Model) -> Lowered:
    return lowered(one, variants_of(one, robot.mechanism, ()))


def carried_by(program: Lowered) -> list[LoopCarried | None]:
    return [item.carried for item in program.program.top.items if isinstance(item, For)]


def test_relatives() -> None:
    #        0
    #      1   4       5
    #     2 3        6
    rows = list(enumerate([-1, 0, 1, 1, 0, -1, 5]))
    before, after, later_children = SiblingFlags
    meeting = before | later_children
    assert relatives(rows).tolist() == [meeting, meeting, before, after, after, after, 0]
    assert relatives([]).tolist() == []

    assert relatives([(2, -1), (4, 2), (5, 4), (9, 4)]).tolist() == [0, later_children, before, after]


def test_the_column_of_relatives_exists_where_it_is_read() -> None:
    assert RELATIVES in program_of(forward_dynamics, ROBOTS["chain"]).tables["scatter"]
    assert RELATIVES not in program_of(read_later, ROBOTS["chain"]).tables["scatter"]


def test_what_forward_dynamics_carries() -> None:
    program = program_of(forward_dynamics, ROBOTS["chain"])
    motion, hinge, acceleration = (found for found in carried_by(program) if found is not None)
    assert (len(motion.values), motion.dead_after, motion.sums) == (6, motion.values, frozenset())  # V
    assert len(hinge.values) == len(hinge.dead_after) == 21 + 6  # P and z; only P starts with constants
    assert 0 < len(hinge.sums) <= 21
    assert (len(acceleration.values), acceleration.dead_after, acceleration.sums) == (
        6,
        acceleration.values,
        frozenset(),
    )


def test_what_inverse_dynamics_carries() -> None:
    motion, force = (found for found in carried_by(program_of(inverse_dynamics, ROBOTS["chain"])) if found is not None)
    assert (len(motion.values), motion.dead_after, motion.sums) == (12, motion.values, frozenset())  # V and α
    assert (len(force.values), force.dead_after, force.sums) == (6, force.values, frozenset())


def test_what_later_loops_read_is_stored_everywhere() -> None:
    motion, _ = carried_by(program_of(handed_out_and_kept, ROBOTS["chain"]))
    assert motion is not None
    assert (len(motion.values), motion.dead_after) == (1, frozenset())


def test_starts_of_sums_are_not_stored() -> None:
    program = program_of(forward_dynamics, ROBOTS["chain"])
    assert len(program.starts) >= len(next(found.sums for found in carried_by(program) if found and found.sums))
    stores = [item for item in walk(program.program.top) if isinstance(item, Store)]
    (text,) = emit(program, 4, 1)
    assert text.count("  store ") == len(stores) - len(program.starts)


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("one", [forward_dynamics, inverse_dynamics], ids=lambda one: str(one.name))
def test_bits(one: Algorithm, name: str) -> None:
    robot = ROBOTS[name]
    rng = np.random.default_rng(0)
    q, v, x = robot.random_configuration(rng, 9), *rng.normal(size=(2, 9, robot.nv))
    native = bind(one, robot.mechanism, (), one.name)
    for together, *sample in zip(native(q, v, x), q, v, x, strict=True):
        (expected,) = interpreter.run(one, robot.mechanism, (), [*sample, np.zeros((0, 6))])
        assert together.tobytes() == native(*sample).tobytes() == expected.tobytes()


def start_with_masses(tree: Any) -> None:
    tree.world.total = np.zeros(1)
    for k, _ in tree.scatter():
        k.total = k.M.data[:1]


@declare
def masses(tree: Any, v: Any, seen: Any) -> None:
    """A sum that starts with a constant, in a sweep with a loop inside."""
    start_with_masses(tree)
    for k, parent in tree.gather():
        for c in k.columns():
            seen[c] = k.total[0]  # a loop inside
        parent.total += k.total


@declare
def plain_masses(tree: Any, v: Any, seen: Any) -> None:
    """The same without."""
    start_with_masses(tree)
    for k, parent in tree.gather():
        seen[k] = v[k] * k.total[0]
        parent.total += k.total


@declare
def read_later(tree: Any, v: Any, seen: Any) -> None:
    """A sum that another loop needs, too."""
    start_with_masses(tree)
    for k, parent in tree.gather():
        parent.total += k.total * 0.5
    for k, _ in tree.scatter():
        seen[k] = v[k] * k.total[0]


@declare
def products(tree: Any, v: Any, seen: Any) -> None:
    """Terms that are fused with the sum."""
    start_with_masses(tree)
    for k, parent in tree.gather():
        seen[k] = v[k] * k.total[0]
        parent.total += k.total * k.M.data[1:2]


@declare
def differences(tree: Any, v: Any, seen: Any) -> None:
    """Terms that are subtracted, and a start that is a number."""
    tree.world.total = np.zeros(2)
    for k, _ in tree.scatter():
        k.total = np.array([2.0, 0.0])
    for k, parent in tree.gather():
        seen[k] = v[k] * (k.total[0] - k.total[1])
        parent.total -= k.total + k.M.data[:2]


@declare
def so_far(tree: Any, v: Any, seen: Any) -> None:
    """What a node finds that its siblings have added before it."""
    start_with_masses(tree)
    for k, parent in tree.gather():
        before = parent.total
        seen[k] = v[k] * (k.total[0] - before[0])
        parent.total += k.total


@declare
def with_own(tree: Any, v: Any, seen: Any) -> None:
    """What a node finds that its siblings have added, itself included."""
    start_with_masses(tree)
    for k, parent in tree.gather():
        own = k.total
        parent.total += own
        seen[k] = v[k] * (own[0] - parent.total[0])


@declare
def handed_out(tree: Any, v: Any, seen: Any) -> None:
    """Numbers from the base to the tips."""
    tree.world.total = np.zeros(1)
    for k, parent in tree.scatter():
        k.total = parent.total + k.M.data[:1]
        seen[k] = v[k] * k.total[0]


@declare
def handed_out_and_kept(tree: Any, v: Any, seen: Any) -> None:
    """Numbers from the base to the tips, which another loop needs, too."""
    tree.world.total = np.zeros(1)
    for k, parent in tree.scatter():
        k.total = parent.total + k.M.data[:1]
    for k, _ in tree.scatter():
        seen[k] = v[k] * k.total[0]


@declare
def handed_out_twice(tree: Any, v: Any, seen: Any) -> None:
    """Numbers from the base to the tips, and others in the same field."""
    tree.world.total = np.zeros(1)
    for k, parent in tree.scatter():
        k.total = parent.total + k.M.data[:1]
        k.own = k.total * k.M.data[1:2]
    for k, parent in tree.scatter():
        k.total = parent.total + k.own
        seen[k] = v[k] * k.total[0]


@declare
def handed_out_later(tree: Any, v: Any, seen: Any) -> None:
    """Numbers from the base to the tips, in a field that had another use before."""
    tree.world.total = np.zeros(1)
    for k, _ in tree.gather():
        k.own = k.M.data[:1] * k.M.data[1:2]
        k.total = k.M.data[:1] * k.M.data[:1]
    for k, _ in tree.scatter():
        k.own = k.own + k.total
    for k, parent in tree.scatter():
        k.total = parent.total + k.own
        seen[k] = v[k] * k.total[0]


@declare
def kept(tree: Any, v: Any, seen: Any) -> None:
    """A field that holds a constant of the node, which is read where the constant is."""
    for k, _ in tree.scatter():
        k.one = k.M.data[:1]
    for k, _ in tree.scatter():
        for c in k.columns():
            seen[c] = k.one[0]


@declare
def overwritten(tree: Any, v: Any, seen: Any) -> None:
    """A field that holds another constant later."""
    for k, _ in tree.scatter():
        k.one = k.M.data[:1]
    for k, _ in tree.scatter():
        for c in k.columns():
            seen[c] = k.one[0]
    for k, _ in tree.scatter():
        k.one = k.M.data[1:2]
    for k, _ in tree.scatter():
        for c in k.columns():
            seen[c] = seen[c] + k.one[0]


@declare
def inherited(tree: Any, v: Any, seen: Any) -> None:
    """A constant of the parent, read before the node sets its own."""
    tree.world.one = np.zeros(1)
    for k, parent in tree.scatter():
        k.theirs = parent.one
        k.one = k.M.data[:1]
    for k, _ in tree.scatter():
        for c in k.columns():
            seen[c] = k.theirs[0]


TOYS = [
    masses, plain_masses, read_later, products, differences, so_far, with_own, handed_out,
    handed_out_and_kept, handed_out_twice, handed_out_later, kept, overwritten, inherited,
]  # fmt: skip


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("one", TOYS, ids=lambda one: str(one.name))
def test_engines_agree(one: Algorithm, name: str) -> None:
    mechanism = ROBOTS[name].mechanism
    v = np.random.default_rng(0).normal(size=(9, mechanism.nv))
    native = bind(one, mechanism, (), one.name)
    for together, sample in zip(native(v), v, strict=True):
        (expected,) = interpreter.run(one, mechanism, (), [sample])
        assert together.tobytes() == native(sample).tobytes() == expected.tobytes()
        assert_close(expected, reference.run(one, mechanism, (), [sample])[0], bound(mechanism.nv))
