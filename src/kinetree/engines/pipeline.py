"""From an algorithm to a lowered program: trace, simplify, fuse, lay out, lower."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from kinetree.engines.ir import Program, verify
from kinetree.engines.layout import Layout
from kinetree.engines.lower import Lowered, lower
from kinetree.engines.simplify import fuse, simplify
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


@lru_cache(maxsize=2)
def fused(algorithm: Algorithm, variants: Variants) -> Program:
    """The traced program, simplified and fused; the same for all back ends."""
    program = trace(algorithm, variants)
    for stage in (simplify, fuse):
        verify(program)
        program = stage(program)
    verify(program)
    return program


def lowered(algorithm: Algorithm, variants: Variants, known: Callable[[str], int] | None = None) -> Lowered:
    """The lowered program.

    Args:
        algorithm: The recursion.
        variants: The variants of loop bodies.
        known: Sizes of the mechanism, to specialise code for one mechanism.
    """
    program = fused(algorithm, variants)
    made = lower(program, algorithm, variants, Layout.of(program, variants), known)
    verify(made.program)
    return made
