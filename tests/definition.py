"""Operational space as it is defined, in dense NumPy: an oracle for singular tasks and for contacts.

With M = L Lᵀ and Y = J L⁻ᵀ, Λ⁻¹ = Y Yᵀ. All that is decided about directions is decided by the singular values of Y,
whose rows are weighted: their squares are the eigenvalues of the weighted Λ⁻¹, and small ones are exact to eps, not to
its root.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import kinetree as kt
from kinetree.tasks.state import REDUNDANT
from tests.composition import Composition
from tests.tolerance import peak

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Defined:
    """What is defined at one configuration.

    Attributes:
        quantities: Arrays by name.
        values: Eigenvalues of the weighted Λ⁻¹, with contacts.
        edge: Where directions begin to be singular.
        contact_values: The same of the contacts.
        contact_edge: Where they begin to be redundant.
        roots: Square roots of the weights of rows, contacts first.
        L: Cholesky factor of M.
    """

    quantities: dict[str, Array]
    values: Array
    edge: float
    contact_values: Array
    contact_edge: float
    roots: Array
    L: Array

    @property
    def rank(self) -> int:
        """Directions that are not singular."""
        return int((self.values > self.edge).sum())

    @property
    def contact_rank(self) -> int:
        """Directions that contacts hold."""
        return int((self.contact_values > self.contact_edge).sum())

    def error(self, name: str, actual: Array) -> float:
        """Largest difference of a quantity, in units in which Λ⁻¹ has entries of at most one and M is the identity."""
        difference, held = actual - self.quantities[name], len(self.contact_values)
        rows, contacts = self.roots[held:], self.roots[:held]
        if name == "inverse_inertia":
            difference = difference / rows[:, None] / rows
        elif name == "inertia":
            difference = difference * rows[:, None] * rows
        elif name == "contact_inertia":
            difference = difference * contacts[:, None] * contacts
        elif name == "jacobian":
            difference = np.linalg.solve(self.L, (difference / rows[:, None]).T)
        elif name == "dynamically_consistent_inverse":
            difference = self.L.T @ difference * rows
        else:
            difference = np.linalg.solve(self.L, (self.L.T @ difference).T)
        return peak(difference)

    def tolerance(self, name: str, error: float, damped: bool) -> float:
        """How large that may be, where M⁻¹ and J are known up to an error.

        Small eigenvalues make it larger: Λ is their reciprocal, and that of the edge in damped directions. Those of
        contacts are known better than their squares.
        """
        kept = self.contact_values[self.contact_values > self.contact_edge]
        held = 1.0 / np.sqrt(kept.min(initial=1.0))
        regular = self.values > self.edge
        felt = self.edge if damped and not regular.all() else self.values[regular].min(initial=1.0)
        power = {"inertia": 2.0, "dynamically_consistent_inverse": 1.5, "nullspace": 1.0}.get(name, 0.0)
        return error * held * (held * held if name == "contact_inertia" else 1.0) / felt**power

    @property
    def ambiguous(self) -> bool:
        """Whether a direction is so close to an edge that rounding decides."""
        far = 1e-2
        return bool(
            (np.abs(self.values - self.edge) < far * self.edge).any()
            or (np.abs(self.contact_values - self.contact_edge) < far * self.contact_edge).any()
        )


class Definition:
    """The dense definition of the functions of some tasks."""

    def __init__(self, tasks: kt.tasks.Tasks) -> None:
        self.tasks, self.robot = tasks, tasks._robot.model
        self.rows = Composition(self.robot, (*tasks.contacts, *tasks.tasks), tasks.reference)

    def at(self, q: Array) -> list[Defined]:
        """All quantities at each of some configurations, (n, nq)."""
        return [self._of(M, J) for M, J in zip(self.robot.mass_matrix(q), self.rows.jacobian(q), strict=True)]

    def _of(self, M: Array, J: Array) -> Defined:
        tasks, held = self.tasks, self.tasks.held
        L = np.linalg.cholesky(M)
        Y = np.linalg.solve(L, J.T).T
        own = (Y * Y).sum(axis=1)
        groups = tasks.core.recursions.groups
        mean = np.array([own[groups == group].mean() for group in groups])
        roots = np.sqrt(mean + tasks.core.recursions.reach)
        roots[roots == 0.0] = 1.0

        U, s, V = np.linalg.svd(Y[:held] / roots[:held, None])
        contact_values = np.pad(s * s, (0, held - len(s)))
        contact_edge = REDUNDANT * max(1.0, contact_values.max(initial=0.0))
        keep = s * s > contact_edge
        V, U = V[: len(s)][keep], U[:, : len(s)][:, keep]
        free = np.eye(len(M)) - V.T @ V
        scaled = U / s[keep] / roots[:held, None]

        Y = Y[held:] @ free
        inverse = np.linalg.inv(L.T)
        U, s, _ = np.linalg.svd(Y / roots[held:, None])
        values = np.pad(s * s, (0, tasks.rows - len(s)))
        edge = tasks.cut * max(1.0, values.max())
        damped = 1.0 / np.where(values > edge, values, (values**2 + edge**2) / (2.0 * edge))
        felt = np.where((values <= edge) & (tasks.singular == "truncated"), 0.0, damped)
        turned = U / roots[held:, None]
        inertia = turned * felt @ turned.T
        consistent = inverse @ Y.T @ inertia
        contact_nullspace = inverse @ free @ L.T
        quantities = {
            "inverse_inertia": Y @ Y.T,
            "inertia": inertia,
            "jacobian": Y @ L.T,
            "dynamically_consistent_inverse": consistent,
            "nullspace": contact_nullspace - consistent @ Y @ L.T,
        }
        if held:
            quantities["contact_inertia"] = scaled @ scaled.T
            quantities["contact_nullspace"] = contact_nullspace
        return Defined(quantities, values, edge, contact_values, contact_edge, roots, L)
