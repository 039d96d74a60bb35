"""Lowering: records whose fields share memory, addresses as integer operations, tables with the columns they need."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pytest

import kinetree as kt
from benchmarks.sizes import builder
from kinetree.algorithms.derivatives.jvp import forward_dynamics_jvp
from kinetree.algorithms.derivatives.vjp import forward_dynamics_vjp
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix, mass_matrix_inverse, mass_matrix_solve
from kinetree.compiler.ir import Access, FieldPlace, For, Op, Program, Store, TreeLoop, blocks, sweep_direction, walk
from kinetree.compiler.lower.layout import Layout, Tables, size_of
from kinetree.compiler.lower.loop_carried import RELATIVES, carried
from kinetree.compiler.lower.lower import Lowered
from kinetree.compiler.lower.node_sweeps import OWN_RECORD, TABLE
from kinetree.compiler.programs import lowered, simplified, variants_of
from kinetree.compiler.verify import verify
from kinetree.language.algorithm import Algorithm
from kinetree.language.common_frame import in_common_frame
from kinetree.language.setup import WORLD_CLASS, Setup
from tests.unit.model.test_general_nodes import with_a_bead

ROBOTS = {"chain": lambda: kt.zoo.chain(3), "every kind": lambda: kt.zoo.random_tree(40)}


class Use(NamedTuple):
    """An outermost item that accesses a component of a field: its number, and how the item's bodies do that."""

    time: int
    how: str


def uses(program: Program) -> dict[tuple[str, str, int], set[Use]]:
    """How each component of a field is used, by class of node.

    In a sweep: "loaded" or "stored" at the node itself, or "by children". "otherwise" in other items.
    """
    found: dict[tuple[str, str, int], set[Use]] = {}
    for time, outermost in enumerate(program.top.items):
        blocks = [] if isinstance(outermost, Op | Store) else outermost.blocks
        sweeps = bool(sweep_direction(outermost))
        own = {roles[0] for roles in outermost.roles.values()} if isinstance(outermost, TreeLoop) and sweeps else set()
        for item in (outermost, *(item for block in blocks for item in walk(block))):
            place = item.place if isinstance(item, Store) else getattr(item, "attr", None)
            if isinstance(place, FieldPlace):
                at_node = "stored" if isinstance(item, Store) else "loaded"
                how = "otherwise" if not own else at_node if place.role in own else "by children"
                for c in place.role.classes:
                    found.setdefault((c, place.name, place.component), set()).add(Use(time, how))
    return found


def are_apart(program: Program, one: set[Use], other: set[Use]) -> bool:
    """Whether a field is used for the last time before another one is set."""
    end, start = max(use.time for use in one), min(use.time for use in other)
    if end != start:
        return end < start
    old, new = ({use.how for use in uses if use.time == end} for uses in (one, other))
    before, after = {"loaded"}, {"stored"}
    (before if sweep_direction(program.top.items[end]) == "inward" else after).add("by children")
    return old <= before and new <= after


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize(
    "algorithm",
    [forward_dynamics, forward_dynamics_jvp, in_common_frame(mass_matrix_inverse)],
    ids=lambda a: a.name,
)
def test_fields_in_use_at_the_same_time_have_memory_of_their_own(algorithm: Algorithm, robot: str) -> None:
    variants = variants_of(algorithm, ROBOTS[robot]().mechanism, ())
    program = simplified(algorithm, variants)
    layout, used = Layout.of(program, variants, carried(program)), uses(program)
    assert used.keys() == layout.fields.keys()
    shared = 0
    for one, other in combinations(used, 2):
        if one[0] == other[0] and layout.fields[one] == layout.fields[other]:
            assert are_apart(program, used[one], used[other]) or are_apart(program, used[other], used[one])
            shared += 1
    assert shared > 0
    assert all(layout.fields[key] < layout.records[key[0]] for key in used)


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("algorithm", [forward_dynamics, forward_dynamics_vjp])
def test_sweeps_set_no_field_in_the_place_of_one_that_they_still_read(algorithm: Algorithm, robot: str) -> None:
    program = lowered(algorithm, variants_of(algorithm, ROBOTS[robot]().mechanism, ()))
    assert program.sweeps is not None
    shared = 0
    for block in program.sweeps.bodies:
        set_before: set[int] = set()
        read: set[int] = set()
        for item in block.items:
            place = item.place if isinstance(item, Store) else getattr(item, "attr", None)
            if isinstance(place, Access) and place.base is not None and place.base.attr == (TABLE, OWN_RECORD):
                (set_before if isinstance(item, Store) else read).add(place.offset)
                assert isinstance(item, Store) or place.offset not in set_before
        shared += len(read & set_before)
    assert shared > 0


@pytest.mark.parametrize("make", [ROBOTS["every kind"], with_a_bead])
@pytest.mark.parametrize("algorithm", [forward_dynamics, mass_matrix_solve])
def test_offsets_of_what_sweeps_carry_mean_nothing_else_there(
    algorithm: Algorithm, make: Callable[[], kt.Model]
) -> None:
    variants = variants_of(algorithm, make().mechanism, ())
    program = simplified(algorithm, variants)
    sweeps = carried(program)
    fields = Layout.of(program, variants, sweeps).fields
    assert sweeps
    for loop, one in sweeps.items():
        time = program.top.items.index(loop)
        offsets = {fields[key] for key in fields if key[1:] in one.values}
        harmless = {"loaded"} if one.source else {"stored"}  # at the node that does not take or give what is carried
        for key, found in uses(program).items():
            times = {use.time for use in found}
            if min(times) <= time <= max(times) and key[0] != WORLD_CLASS and fields[key] in offsets:
                assert key[1:] in one.values or {use.how for use in found if use.time == time} == harmless


def test_a_field_has_the_same_place_in_nodes_of_all_kinds() -> None:
    variants = variants_of(forward_dynamics, ROBOTS["every kind"]().mechanism, ())
    fields = lowered(forward_dynamics, variants).layout.fields
    places = {(name, component): offset for (_, name, component), offset in fields.items()}
    assert all(places[name, component] == offset for (_, name, component), offset in fields.items())


def test_records_of_forward_dynamics_keep_what_the_gather_needs_and_makes() -> None:
    """X, a, z and 3 numbers of P are 15 behind hinges at right angles; G and ν, 6 of them, take the place of z.

    Only where branches meet, the rest of P is in memory, 18 numbers, and V.
    """
    mechanism = builder("chain", 4).build().mechanism
    variants = variants_of(forward_dynamics, mechanism, ())
    layout = lowered(forward_dynamics, variants).layout
    kind = mechanism.kinds[-1].name
    assert (layout.passing[kind], layout.records[kind]) == (15, 39)


@pytest.mark.parametrize("name", ["chain", "binary tree"])
def test_records_are_whole_where_branches_meet(name: str) -> None:
    mechanism = builder(name, 100).build().mechanism
    variants = variants_of(forward_dynamics, mechanism, ())
    metadata = lowered(forward_dynamics, variants).metadata
    plain, carrying = (Tables(forward_dynamics, variants, mechanism, (), metadata, carrying=c) for c in (False, True))
    whole, short = (metadata[which][mechanism.kinds[-1].name] for which in ("records", "passing"))
    meeting = sum(len(children) > 1 for children in mechanism.topology.children[:-1])
    assert plain.records == 3 + 100 * whole
    assert carrying.records == 3 + (100 - meeting) * short + meeting * whole


def test_nodes_with_equal_constants_read_the_same() -> None:
    mechanism = builder("chain", 100).build().mechanism
    variants = variants_of(forward_dynamics, mechanism, ())
    metadata = lowered(forward_dynamics, variants).metadata
    tables = Tables(forward_dynamics, variants, mechanism, (), metadata)
    starts = tables.cells("scatter")[:, metadata["tables"]["scatter"].index("0.constants")].tolist()
    for start, parameters in zip(starts, mechanism.parameters, strict=True):
        assert tables.constants[start : start + len(parameters)].tobytes() == parameters.tobytes()
    assert len(set(starts)) == len({parameters.tobytes() for parameters in mechanism.parameters}) < 6


ROBOT = kt.zoo.random_tree(6, kinds=("revolute", "spherical"), seed=1)


def made(algorithm: Algorithm, known: Any = None) -> Lowered:
    return lowered(algorithm, variants_of(algorithm, ROBOT.mechanism, ()), known)


def ops(program: Lowered, code: str) -> list[Op]:
    return [item for item in walk(program.program.top) if isinstance(item, Op) and item.code == code]


def test_sizes_are_read_or_known() -> None:
    assert {op.attr for op in ops(made(mass_matrix), "size")} >= {"v", "count scatter"}
    setup = Setup(ROBOT.mechanism)
    known = made(mass_matrix, lambda name: size_of(setup, name))
    assert not ops(known, "size")
    assert not known.sizes


def test_tables_have_the_columns_that_are_read() -> None:
    program = made(forward_dynamics)
    assert list(program.tables) == ["scatter"]
    read = {"variant", "0.record", "0.constants", "0.q", "0.v", "1.record"}
    assert {op.attr for op in ops(program, "cell")} == {("scatter", column) for column in read}
    assert set(program.tables["scatter"]) == {*read, RELATIVES}  # for loops that carry sums
    tables = Tables(
        forward_dynamics, variants_of(forward_dynamics, ROBOT.mechanism, ()), ROBOT.mechanism, (), program.metadata
    )
    cells = tables.cells("scatter")
    assert np.array_equal(cells[:, program.tables["scatter"].index("0.v")], ROBOT.mechanism.v_starts[:-1])


def test_columns_of_a_subtree_may_be_taken_side_by_side() -> None:
    loops = {item.note: item.independent for item in walk(made(mass_matrix).program.top) if isinstance(item, For)}
    assert loops["descendants"]
    assert not loops["scatter"]
    assert not loops["gather"]


def test_addresses_use_what_is_known_where_they_stand() -> None:
    program = made(mass_matrix).program
    verify(program)
    stores = [(block, item) for block in blocks(program.top) for item in block.items if isinstance(item, Store)]
    block, store = stores[0]
    stray = Op("index", (), None, program.top)
    place: Any = store.place
    assert isinstance(place, Access)
    block.items[block.items.index(store)] = Store(place._replace(base=stray), store.value)
    with pytest.raises(AssertionError, match="Store uses index None where it is not defined"):
        verify(program)


def test_fields_of_different_loops_share_memory() -> None:
    layout = made(forward_dynamics).layout
    places: dict[tuple[str, str], set[int]] = {}
    for (kind, name, _), offset in layout.fields.items():
        places.setdefault((kind, name), set()).add(offset)
    for kind in {kind for kind, _ in places} - {"world"}:
        early = places[kind, "P"] | places[kind, "z"] | places[kind, "X"]  # set in the first loop, read in the second
        assert places[kind, "V"].isdisjoint(early)
        assert places[kind, "G"].isdisjoint(places[kind, "X"])
        assert places[kind, "G"] & places[kind, "z"]  # which is read before G is set
        assert places[kind, "alpha"] == places["spherical", "alpha"]  # read through parents of any kind
        assert layout.records[kind] < sum(1 for each, _, _ in layout.fields if each == kind)


def test_constants_are_not_copied_to_records() -> None:
    program = made(forward_dynamics)
    stored = [item for item in walk(program.program.top) if isinstance(item, Store)]
    copied = {s.place.offset for s in stored if s.value.code == "load" and s.value.attr.space[0] == "constants"}
    # articulated inertias start with those of the bodies
    assert copied <= {offset for (_, name, _), offset in program.layout.fields.items() if name == "P"}
