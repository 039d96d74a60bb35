"""Operational-space inertia Λ⁻¹ = J M⁻¹ Jᵀ of many task frames at once: one file per published algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from ramify.algorithms.kinematics import VIEWS, View
from ramify.algorithms.operational_space.efpa import efpa
from ramify.algorithms.operational_space.pv_osim import pv_osim
from ramify.errors import UnknownNameError
from ramify.recursion.algorithm import Algorithm, algorithm

#: The algorithms for Λ⁻¹, each for a view, in the order in which they are best read.
METHODS: dict[str, Callable[[View], Callable[..., None]]] = {
    "efpa": efpa,
    "pv_osim": pv_osim,
}


@cache
def inverse_inertia(method: str, reference: str) -> Algorithm:
    """Λ⁻¹ of the rows of all tasks, (Σr, Σr), by a method and seen from a reference.

    Args:
        method: One of `METHODS`.
        reference: One of `ramify.algorithms.kinematics.VIEWS`.

    Raises:
        UnknownNameError: There is no such method or reference.
    """
    if method not in METHODS:
        raise UnknownNameError("method", method, tuple(METHODS))
    if reference not in VIEWS:
        raise UnknownNameError("reference", reference, tuple(VIEWS))
    declare = algorithm(
        q=("q",), inverse_inertia=("rows", "rows"), outputs=("inverse_inertia",), sparse=("inverse_inertia",)
    )
    return replace(declare(METHODS[method](VIEWS[reference])), name=f"{method}_{reference}")
