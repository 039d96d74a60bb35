"""Products of matrices, several rows and terms at a time. Cost O(n³).

A tile of the left matrix, four rows by four terms, stays in registers while it is multiplied by four rows of the right
one: sixteen products for four entries of the result that are read and written. What is left at the edges is multiplied
one row, or one term, at a time. Columns run in lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kinetree.kernels.language import Size, Workspace, kernel
from kinetree.recursion.tree import Indexed

#: Rows and terms of a tile.
TILE = 4

#: Rows, terms and columns of a product.
Over = tuple[Size, Size, Size]


class View:
    """A matrix given by its entries, to be read as `view[i, j]`."""

    def __init__(self, entry: Callable[[Any, Any], Any]) -> None:
        self._entry = entry

    def __getitem__(self, keys: tuple[Any, Any]) -> Any:
        return self._entry(*keys)


def transposed(matrix: Any) -> View:
    """A matrix whose indices are swapped."""
    return View(lambda i, j: matrix[j, i])


def at(matrices: Any, t: Any) -> View:
    """One of several matrices."""
    return View(lambda i, j: matrices[t, i, j])


def add_products(
    outs: Sequence[Indexed], over: Over, left: Any, rights: Sequence[Any], start: Any = None, symmetric: bool = False
) -> None:
    """Add products with one matrix, `out += left @ right` of each pair.

    Args:
        outs: Matrices.
        over: Their rows, the terms of each sum, and their columns.
        left: The left matrix.
        rights: The right matrix of each.
        start: A matrix that the products are added to instead.
        symmetric: Only the upper triangle is wanted. Some entries just below the diagonal change as well.
    """
    rows, terms, columns = over
    for block in rows.blocks(TILE):
        wanted = columns.since(block) if symmetric else columns
        if start is not None:
            for j in wanted:
                for out in outs:
                    for i in block:
                        out[i, j] = start[i, j]
        for some in terms.blocks(TILE):
            tile = [[left[i, p] for p in some] for i in block]
            for j in wanted:
                for out, right in zip(outs, rights, strict=True):
                    entries = [right[p, j] for p in some]
                    for i, factors in zip(block, tile, strict=True):
                        total = out[i, j]
                        for factor, entry in zip(factors, entries, strict=True):
                            total = total + factor * entry
                        out[i, j] = total


def add_product(out: Indexed, over: Over, left: Any, right: Any, start: Any = None, symmetric: bool = False) -> None:
    """Add one product: see `add_products`."""
    add_products([out], over, left, [right], start, symmetric)


#: A matrix of zeros, to start from.
ZERO = View(lambda *_: 0.0)


def mirror(size: Size, matrix: Indexed) -> None:
    """Fill the lower triangle from the upper one."""
    for i in size:
        for j in size.before(i):
            matrix[i, j] = matrix[j, i]


# Products of matrices that are given, such as Λ of tasks that may be singular; r rows of tasks, n columns


@kernel(inertia=("r", "r"), acceleration=("r",), force=("r",), outputs=("force",))
def opposing_force(k: Workspace, inertia: Indexed, acceleration: Indexed, force: Indexed) -> None:
    """−Λ ẍ, the force that cancels an acceleration of the tasks.

    Args:
        k: Size r.
        inertia: Λ, (r, r).
        acceleration: ẍ, (r,).
        force: (r,).
    """
    total = k.zeros("r")
    for j in k.r:
        entry = acceleration[j]
        for i in k.r:
            total[i] = total[i] - inertia[j, i] * entry
    for i in k.r:
        force[i] = total[i]


@kernel(base=("n",), jacobian=("r", "n"), force=("r",), tau=("n",), outputs=("tau",))
def with_row_forces(k: Workspace, base: Indexed, jacobian: Indexed, force: Indexed, tau: Indexed) -> None:
    """Joint forces τ + Jᵀ f.

    Args:
        k: Sizes n, r.
        base: τ, (n,).
        jacobian: J, (r, n).
        force: f, (r,).
        tau: (n,).
    """
    total = k.copy(base, "n")
    for i in k.r:
        entry = force[i]
        for j in k.n:
            total[j] = total[j] + entry * jacobian[i, j]
    for j in k.n:
        tau[j] = total[j]


@kernel(
    response=("n", "r"), jacobian=("r", "n"), inertia=("r", "r"), inverse=("n", "r"), nullspace=("n", "n"),
    outputs=("inverse", "nullspace"),
)  # fmt: skip
def projections(
    k: Workspace, response: Indexed, jacobian: Indexed, inertia: Indexed, inverse: Indexed, nullspace: Indexed
) -> None:
    """J̄ = M⁻¹JᵀΛ and N = 1 − J̄J.

    Args:
        k: Sizes n, r.
        response: M⁻¹Jᵀ, (n, r).
        jacobian: J, (r, n).
        inertia: Λ, (r, r).
        inverse: J̄, (n, r).
        nullspace: N, (n, n).
    """
    J_bar, N = k.zeros("n", "r"), k.zeros("n", "n")
    for c in k.n:
        for j in k.r:
            entry = response[c, j]
            for i in k.r:
                J_bar[c, i] = J_bar[c, i] + entry * inertia[j, i]
        N[c, c] = 1.0
        for i in k.r:
            entry = J_bar[c, i]
            inverse[c, i] = entry
            for o in k.n:
                N[c, o] = N[c, o] - entry * jacobian[i, o]
        for o in k.n:
            nullspace[c, o] = N[c, o]


@kernel(
    jacobian_rate=("r", "n"), response=("n", "r"), coriolis=("n", "n"), rate=("r", "r"), outputs=("rate",),
    symmetric=("rate",),
)  # fmt: skip
def inverse_inertia_rate(
    k: Workspace, jacobian_rate: Indexed, response: Indexed, coriolis: Indexed, rate: Indexed
) -> None:
    """The rate of Λ⁻¹ = J M⁻¹Jᵀ: J̇ M⁻¹Jᵀ − J M⁻¹ C M⁻¹Jᵀ plus its transpose, since Ṁ = C + Cᵀ.

    Args:
        k: Sizes n, r.
        jacobian_rate: J̇, (r, n).
        response: M⁻¹Jᵀ, (n, r).
        coriolis: C, (n, n).
        rate: (r, r).
    """
    left, half = k.copy(jacobian_rate, "r", "n"), k.zeros("r", "r")  # J̇ − J M⁻¹ C, and that times M⁻¹Jᵀ
    for c in k.n:
        for i in k.r:
            entry = response[c, i]
            for o in k.n:
                left[i, o] = left[i, o] - entry * coriolis[c, o]
    for c in k.n:
        for i in k.r:
            entry = left[i, c]
            for j in k.r:
                half[i, j] = half[i, j] + entry * response[c, j]
    for i in k.r:
        for j in k.r.since(i):
            rate[i, j] = half[i, j] + half[j, i]
