"""Records: fields that are in use at the same time have memory of their own, others share it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest

import kinetree as kt
from benchmarks.sizes import builder
from kinetree.algorithms.forward_dynamics import forward_dynamics
from kinetree.algorithms.linearized.forward_dynamics_jvp import forward_dynamics_jvp
from kinetree.algorithms.mass_matrix_inverse import mass_matrix_inverse
from kinetree.algorithms.mass_matrix_solve import mass_matrix_solve
from kinetree.engines.carried import carried
from kinetree.engines.ir import Op, Store, walk
from kinetree.engines.layout import Layout
from kinetree.engines.pipeline import simplified, variants_of
from kinetree.engines.places import Field
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.variants import WORLD_CLASS, Variants
from tests.unit.test_general_nodes import with_a_bead

ROBOTS = {"chain": lambda: kt.zoo.chain(3), "every kind": lambda: kt.zoo.random_tree(40)}


def laid_out(algorithm: Algorithm, variants: Variants) -> Layout:
    """The layout of a simplified program."""
    program = simplified(algorithm, variants)
    return Layout.of(program, variants, carried(program))


def uses(algorithm: Algorithm, variants: Variants) -> dict[tuple[str, str, int], set[int]]:
    """The outermost items of a program in which each component of a field is accessed, by class of node."""
    found: dict[tuple[str, str, int], set[int]] = {}
    program = simplified(algorithm, variants)
    for time, outermost in enumerate(program.top.items):
        inner = (
            [] if isinstance(outermost, Op | Store) else [item for block in outermost.blocks for item in walk(block)]
        )
        for item in (outermost, *inner):
            place = item.place if isinstance(item, Store) else getattr(item, "attr", None)
            if isinstance(place, Field):
                for c in place.role.classes:
                    found.setdefault((c, place.name, place.component), set()).add(time)
    return found


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("algorithm", [forward_dynamics, forward_dynamics_jvp, mass_matrix_inverse])
def test_fields_in_use_at_the_same_time_have_memory_of_their_own(algorithm: Algorithm, robot: str) -> None:
    variants = variants_of(algorithm, ROBOTS[robot]().mechanism, ())
    layout = laid_out(algorithm, variants)
    spans = {key: (min(times), max(times)) for key, times in uses(algorithm, variants).items()}
    assert spans.keys() == layout.fields.keys()
    shared = 0
    for one, other in combinations(spans, 2):
        if one[0] == other[0] and layout.fields[one] == layout.fields[other]:
            assert spans[one][1] < spans[other][0] or spans[other][1] < spans[one][0], (one, other)
            shared += 1
    assert shared > 0
    assert all(layout.fields[key] < layout.records[key[0]] for key in spans)


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
        spans = {key: (min(times), max(times)) for key, times in uses(algorithm, variants).items()}
        used = [key for key, (first, last) in spans.items() if first <= time <= last and key[0] != WORLD_CLASS]
        assert all(key[1:] in one.values for key in used if fields[key] in offsets)


def test_a_field_has_the_same_place_in_nodes_of_all_kinds() -> None:
    variants = variants_of(forward_dynamics, ROBOTS["every kind"]().mechanism, ())
    fields = laid_out(forward_dynamics, variants).fields
    places = {(name, component): offset for (_, name, component), offset in fields.items()}
    assert all(places[name, component] == offset for (_, name, component), offset in fields.items())


def test_records_of_forward_dynamics_keep_what_the_gather_needs_and_makes() -> None:
    """X, a, z and P are 33 numbers behind hinges at right angles; G and ν, 6 of them, take the place of V."""
    mechanism = builder("chain", 4).build().mechanism
    variants = variants_of(forward_dynamics, mechanism, ())
    layout = laid_out(forward_dynamics, variants)
    assert layout.records[mechanism.kinds[-1].name] == 39
