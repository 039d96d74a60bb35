"""Λ⁻¹ at a few configurations, which tasks and controllers need once to choose scales and cuts.

Compiling a kernel for that would take a third of a first call. So if there is none yet, the reference engine computes
it, unless the robot is large; later processes find it in the cache on disk. A program that makes tasks over and over
compiles the kernel after the first few. What follows from Λ⁻¹ is rounded to single precision (`to_single`), so that it
is the same whichever engine and processor computed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from kinetree.engines.formats import format_of
from kinetree.engines.identity import identity
from kinetree.engines.native import cache
from kinetree.engines.native.compiled import standard_arithmetic
from kinetree.engines.native.kernels import kernels
from kinetree.engines.pipeline import is_own, variants_of
from kinetree.engines.straight import Individual, individual_of
from kinetree.operational_space.task_function import TaskFunction
from kinetree.spatial.value import Array

#: Nodes times rows up to which the reference engine is done sooner than LLVM.
_FEW = 800
#: How often it is, for tasks with the same code, before a kernel pays.
_TIMES = 4
#: Single precision has as many bits.
_BITS = 24


def evaluated(inverse_inertia: TaskFunction, configurations: Sequence[Array]) -> list[Array]:
    """Λ⁻¹ at each of a few configurations, (r, r).

    Args:
        inverse_inertia: The function.
        configurations: (nq,) each.
    """
    mechanism, sites, algorithm = inverse_inertia.mechanism, inverse_inertia.sites, inverse_inertia.algorithm
    rows = sum(len(site.rows) for site in sites)
    variants = variants_of(algorithm, mechanism, sites)
    few = len(mechanism.kinds) * (6 + rows) <= _FEW and is_own(algorithm, variants)
    kernel = kernels(algorithm, variants, format_of(mechanism), individual_of(algorithm, mechanism, sites))
    if not few or kernel.is_loaded:
        return _compiled(inverse_inertia, configurations)
    own = identity(algorithm), variants.key, Individual.of(mechanism, sites).digest
    name = cache.key("evaluated", *own, [q.tobytes() for q in configurations])
    found = cache.load(name)
    if found is not None:
        size = found[0]["rows"]
        return list(np.frombuffer(found[1]).reshape(-1, size, size))
    if _times[kernel.code] == _TIMES or kernel.is_found():
        return _compiled(inverse_inertia, configurations)
    _times[kernel.code] += 1
    inverse_inertia.require()
    with standard_arithmetic():
        made = [np.asarray(inverse_inertia.engine("reference")(q)) for q in configurations]
    cache.store(name, {"rows": len(made[0])}, np.stack(made).tobytes())
    return made


_times: Counter[str] = Counter()


def _compiled(inverse_inertia: TaskFunction, configurations: Sequence[Array]) -> list[Array]:
    return [inverse_inertia(q) for q in configurations]  # one by one, to avoid compiling a kernel for batches


def to_single(numbers: Any) -> Array:
    """Numbers rounded to the digits of single precision, whatever their exponents."""
    mantissas, exponents = np.frexp(np.asarray(numbers, dtype=np.float64))
    rounded: Array = np.ldexp(np.rint(np.ldexp(mantissas, _BITS)), exponents - _BITS)
    return rounded
