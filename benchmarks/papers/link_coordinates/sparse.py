"""Sparse factorisation as [F10] describes it, in link coordinates: H, H = LᵀL, J, Y = J L⁻¹, Λ⁻¹ = Y Yᵀ.

[F10] R. Featherstone, "Exploiting sparsity in operational-space dynamics", International Journal of Robotics Research
      29, 2010.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.papers.link_coordinates.links import Blocks, Links, cross, skew
from kinetree.spatial.value import Array


def sparse(links: Links) -> Blocks:
    """Blocks of Λ⁻¹ on and right of the diagonal."""
    tally, columns = links.tally, _Columns(links)
    with tally.part("H"):
        H = _mass_matrix(links, columns)
    with tally.part("L"):
        L = _factor(H, columns)
    solved = []
    for k in range(len(links.tips)):
        with tally.part("J"):
            rows = _jacobian(links, columns, k)
        with tally.part("Y"):
            solved.append(_solve(rows, L))
    blocks: Blocks = {}
    with tally.part("YYᵀ"):
        for one, Y in enumerate(solved):
            for other in range(one, len(solved)):
                shared = [c for c in Y if c in solved[other]]
                if shared:
                    blocks[one, other] = _product(Y, solved[other], shared, one == other)
    return blocks


class _Columns:
    """Numbers of the links' degrees of freedom, and the expanded parent array."""

    def __init__(self, links: Links) -> None:
        self.start: list[int] = []
        self._parents: list[int] = []
        for i, parent in enumerate(links.parents):
            self.start.append(len(self._parents))
            before = -1
            if parent >= 0:
                before = self.start[parent] + (5 if links.is_floating(parent) else 0)
            for _ in range(6 if links.is_floating(i) else 1):
                self._parents.append(before)
                before = len(self._parents) - 1
        self.count = len(self._parents)

    def above(self, c: int) -> Iterator[int]:
        """Columns that carry one."""
        while self._parents[c] >= 0:
            c = self._parents[c]
            yield c


def _mass_matrix(links: Links, columns: _Columns) -> Array:
    """The composite-rigid-body algorithm."""
    numbers = links.tally.numbers
    H = np.zeros((columns.count, columns.count), dtype=object)
    masses = links.masses.copy()
    moments = [numbers(mass * c) for mass, c in zip(links.masses, links.centers, strict=True)]
    inertias = [numbers(inertia) for inertia in links.inertias]
    for i in reversed(range(len(links.parents))):
        h, I, parent, c = moments[i], inertias[i], links.parents[i], columns.start[i]
        if links.is_floating(i):
            coupling = skew(h)
            H[:6, :6] = np.block([[I, coupling], [coupling.T, numbers(masses[i] * np.eye(3))]])
            continue
        H[c, c] = I[2, 2]
        force = np.array([*I[:, 2], -h[1], h[0], 0], dtype=object)
        j = i
        while links.parents[j] >= 0:
            force = links.inward(j, force)
            j = links.parents[j]
            if links.is_floating(j):
                H[c, :6] = force
            else:
                H[c, columns.start[j]] = force[2]
        if parent >= 0:
            for screw in reversed(links.screws[i]):
                h, I = screw.rigid(masses[i], h, I)
            masses[parent] += masses[i]
            moments[parent] = moments[parent] + h
            total = inertias[parent].copy()
            for j in range(3):
                for k in range(j, 3):
                    total[j, k] = total[k, j] = total[j, k] + I[j, k]
            inertias[parent] = total
    return H


def _factor(H: Array, columns: _Columns) -> Array:
    """L with H = LᵀL, on the rows and columns that carry each other."""
    L: Array = H.copy()
    for k in reversed(range(columns.count)):
        L[k, k] = L[k, k].sqrt()
        above = list(columns.above(k))
        for i in above:
            L[k, i] = L[k, i] / L[k, k]
        for i in above:
            for j in (i, *columns.above(i)):
                L[i, j] = L[i, j] - L[k, i] * L[k, j]
    return L


def _jacobian(links: Links, columns: _Columns, k: int) -> dict[int, Array]:
    """Columns of J of an end-effector on its support, last first, in its coordinates."""
    found: dict[int, Array] = {}
    E = links.tally.numbers(links.rotations[k])
    r = links.tally.numbers(links.rotations[k] @ links.positions[k])
    still = np.zeros(3, dtype=object)
    for i in reversed(links.paths[links.tips[k]]):
        c = columns.start[i]
        if links.is_floating(i):
            for j in reversed(range(3)):
                found[c + 3 + j] = np.concatenate([still, E[:, j]])
            for j in reversed(range(3)):
                found[c + j] = np.concatenate([E[:, j], cross(E[:, j], r)])
            continue
        found[c] = np.concatenate([E[:, 2], cross(E[:, 2], r)])
        for screw in reversed(links.screws[i]):
            E, r = screw.pose(E, r)
    return found


def _solve(rows: dict[int, Array], L: Array) -> dict[int, Array]:
    """Columns of Y = J L⁻¹."""
    Y, order = dict(rows), list(rows)
    for n, c in enumerate(order):
        Y[c] = Y[c] / L[c, c]
        for above in order[n + 1 :]:
            Y[above] = Y[above] - Y[c] * L[c, above]
    return Y


def _product(one: dict[int, Array], other: dict[int, Array], shared: list[int], symmetric: bool) -> Array:
    block = np.zeros((6, 6), dtype=object)
    for j in range(6):
        for k in range(j if symmetric else 0, 6):
            block[j, k] = sum(one[c][j] * other[c][k] for c in shared)
    return block
