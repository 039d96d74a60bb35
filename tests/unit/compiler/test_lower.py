"""Lowering: addresses as integer operations, tables with the columns that are needed, nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix
from kinetree.compiler.ir import Access, For, Op, Store, blocks, walk
from kinetree.compiler.lower.layout import Tables, size_of
from kinetree.compiler.lower.loop_carried import RELATIVES
from kinetree.compiler.lower.lower import Lowered
from kinetree.compiler.programs import lowered, variants_of
from kinetree.compiler.verify import verify
from kinetree.language.algorithm import Algorithm
from kinetree.language.setup import Setup

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
