"""An interpreter of lowered programs. It defines the meaning of the IR; compiled code gives the same bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kinetree.compiler.lower.layout import Tables
from kinetree.compiler.machine import Machine
from kinetree.compiler.programs import lowered, variants_of
from kinetree.compiler.specialize import specialized
from kinetree.language.algorithm import Algorithm
from kinetree.language.mechanism import Mechanism, Site
from kinetree.spatial.value import Array


def run(algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site], inputs: Sequence[Any]) -> tuple[Array, ...]:
    """Run an algorithm on one sample, given one array per input; returns one array per output."""
    variants, own = variants_of(algorithm, mechanism, sites), specialized(algorithm, mechanism, sites)
    program = lowered(algorithm, variants) if own is None else own.lowered
    tables = Tables(algorithm, variants, mechanism, sites, program.metadata)
    sizes = algorithm.sizes(mechanism, sites)
    given: dict[tuple[str, int], Any] = {
        **{("input", i): np.asarray(x, dtype=float).reshape(-1).tolist() for i, x in enumerate(inputs)},
        **{("output", i): [0.0] * math.prod(a.shape(sizes)) for i, a in enumerate(algorithm.outputs)},
    }
    machine = Machine(program, tables, given)
    with np.errstate(all="ignore"):
        machine.block(program.program.top)
    results = []
    for i, argument in enumerate(algorithm.outputs):
        result = np.array(given["output", i]).reshape(argument.shape(sizes))
        if argument.symmetric:
            upper = np.triu(np.ones(result.shape[-2:], dtype=bool))
            result = np.where(upper, result, result.swapaxes(-1, -2))
        results.append(result)
    return tuple(results)
