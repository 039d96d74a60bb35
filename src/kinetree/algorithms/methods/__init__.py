"""Operational-space inertia Λ⁻¹ = J M⁻¹ Jᵀ of many task frames at once: one file per published algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from kinetree.algorithms.methods.chang_khatib import chang_khatib
from kinetree.algorithms.methods.definition import definition
from kinetree.algorithms.methods.efpa import efpa
from kinetree.algorithms.methods.efpa_segments import efpa_segments
from kinetree.algorithms.methods.pv_osim_r import pv_osim_r
from kinetree.algorithms.methods.rjk import rjk
from kinetree.algorithms.methods.sparse_factorization import sparse_factorization
from kinetree.algorithms.tasks.inversion import inertia_by
from kinetree.algorithms.tasks.pv_osim import pv_osim
from kinetree.algorithms.tasks.task_dynamics import task_dynamics as task_dynamics_in
from kinetree.algorithms.tasks.task_space import PLAIN, TaskKinds
from kinetree.language.algorithm import Algorithm, algorithm

#: The algorithms for Λ⁻¹, each parametrised by a reference, in a sensible reading order.
ALGORITHMS: dict[str, Callable[[str, TaskKinds], Callable[..., None]]] = {
    "definition": definition,
    "chang_khatib": chang_khatib,
    "rjk": rjk,
    "efpa": efpa,
    "sparse_factorization": sparse_factorization,
    "pv_osim": pv_osim,
    "pv_osim_r": pv_osim_r,
    "efpa_segments": efpa_segments,
}


#: Those that express the mobility of a node, or unit forces on it, in six numbers: rigid bodies only.
_OF_BODIES = ("rjk", "pv_osim_r", "efpa_segments")


def takes_any_node(method: str) -> bool:
    """Whether a method of `ALGORITHMS` takes nodes of any kind."""
    return method not in _OF_BODIES


def recursion_of(method: str, reference: str, parts: TaskKinds) -> Callable[..., None]:
    """The recursion for Λ⁻¹ by a method of `ALGORITHMS`."""
    return ALGORITHMS[method](reference, parts)


@cache
def inverse_inertia(method: str, reference: str, parts: TaskKinds = PLAIN) -> Algorithm:
    """Λ⁻¹ of all task rows, (r, r), by one of `ALGORITHMS`, in a reference of `Tree.seen`, for these kinds of tasks."""
    declare = algorithm(
        q=("q",), inverse_inertia=("rows", "rows"), outputs=("inverse_inertia",),
        sparse=("inverse_inertia",) * parts.relative,  # entries of relative tasks are accumulated
        rigid=not takes_any_node(method),
    )  # fmt: skip
    return replace(declare(recursion_of(method, reference, parts)), name=f"{method}_{reference}{parts.suffix}")


@cache
def inertia(method: str, reference: str, parts: TaskKinds = PLAIN) -> Algorithm:
    """Λ of all task rows, (r, r), and its `spread`; arguments as for `inverse_inertia`.

    Its inputs are q and `reach`, how far the mechanism moves each row, (r,): see `inversion`.
    """
    declare = algorithm(
        q=("q",), reach=("rows",), inertia=("rows", "rows"), spread=(),
        outputs=("inertia", "spread"), symmetric=("inertia",), sparse=("spread",), rigid=not takes_any_node(method),
    )  # fmt: skip
    run = inertia_by(recursion_of(method, reference, parts), parts)
    return replace(declare(run), name=f"inertia_{method}_{reference}{parts.suffix}")


@cache
def task_dynamics(reference: str, parts: TaskKinds = PLAIN) -> Algorithm:
    """Λ with its `spread`, J̄ and N of all task rows, in a given reference; inputs as for `inertia`."""
    declare = algorithm(
        q=("q",), reach=("rows",),
        inertia=("rows", "rows"), spread=(), dynamically_consistent_inverse=("v", "rows"), nullspace=("v", "v"),
        outputs=("inertia", "spread", "dynamically_consistent_inverse", "nullspace"), sparse=("spread",),
    )  # fmt: skip
    return replace(declare(task_dynamics_in(reference, parts)), name=f"task_dynamics_{reference}{parts.suffix}")
