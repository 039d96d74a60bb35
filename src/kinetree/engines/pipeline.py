"""From an algorithm to a lowered program: trace, simplify, fuse, lay out, lower, hoist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from kinetree.engines.angles import angles
from kinetree.engines.checks import verify
from kinetree.engines.collector import gc_paused
from kinetree.engines.hoist import hoist
from kinetree.engines.identity import identity, is_own_kind
from kinetree.engines.ir import Program
from kinetree.engines.kept import ProgramCache
from kinetree.engines.lower import lower
from kinetree.engines.lowered import Lowered
from kinetree.engines.simplify import fuse, simplify
from kinetree.engines.sweeps import sweeps
from kinetree.engines.trace import trace
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.rows import Rows
from kinetree.recursion.variants import Variants


def variants_of(algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site]) -> Variants:
    """The variants of an algorithm's loop bodies."""
    variants = Variants.of(mechanism, sites)
    if any("rows" in argument.dimensions for argument in (*algorithm.inputs, *algorithm.outputs)):
        return replace(variants, in_order=Rows(mechanism, sites).in_order)
    return variants


def is_own(algorithm: Algorithm, variants: Variants) -> bool:
    """Whether the algorithm, all that it wraps, and all node kinds are this package's own."""
    return identity(algorithm) is not None and all(is_own_kind(kind) for kind, _ in variants.nodes)


def simplified(algorithm: Algorithm, variants: Variants) -> Program:
    """The traced program, simplified.

    The package's own algorithms are known to keep the rules of the tree language: its tests check each of them.
    """
    with gc_paused():
        return simplify(trace(algorithm, variants, checked=not is_own(algorithm, variants)))


@lru_cache(maxsize=2)
def fused(algorithm: Algorithm, variants: Variants) -> Program:
    """The simplified program with fused multiply-adds: the same for all mechanisms."""
    with gc_paused():
        return fuse(simplified(algorithm, variants))


def lowered(algorithm: Algorithm, variants: Variants, known: Callable[[str], int] | None = None) -> Lowered:
    """The lowered program.

    Args:
        algorithm: The recursion.
        variants: The variants of loop bodies.
        known: Sizes of the mechanism, to specialise code for one mechanism.
    """
    if known is None:
        return _lowered.get(algorithm, variants)
    with gc_paused():
        return _lower(fused(algorithm, variants), algorithm, variants, known)


def _lower(
    program: Program, algorithm: Algorithm, variants: Variants, known: Callable[[str], int] | None = None
) -> Lowered:
    made = lower(program, algorithm, variants, known)
    hoist(made.program)
    if not is_own(algorithm, variants):  # those of the package are verified by its tests
        verify(made.program)
    made.angles, made.sweeps = angles(made.program), sweeps(made.program, made.layout, made.tables)
    return made


def _for_all(algorithm: Algorithm, variants: Variants) -> Lowered:
    with gc_paused():
        program = fuse(simplified(algorithm, variants))
        made = _lower(program, algorithm, variants)
        program.discard()
    return made


# The same for all lane widths and formats, which are often needed one after another with other functions in between.
_lowered: ProgramCache[Lowered] = ProgramCache(_for_all, lambda made: made.length)
