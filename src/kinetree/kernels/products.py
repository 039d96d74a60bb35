"""Products of matrices, several rows and terms at a time. Cost O(n³).

A tile of the left matrix, four rows by four terms, stays in registers while it is multiplied by four rows of the right
one: sixteen products for four entries of the result that are read and written. What is left at the edges is multiplied
one row, or one term, at a time. Columns run in lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kinetree.kernels.language import Size, Workspace, kernel
from kinetree.language.tree import Indexed

#: Rows and terms of a tile.
TILE = 4

#: Rows, terms and columns of a product.
Over = tuple[Size, Size, Size]


class MatrixView:
    """A matrix given by its entries, to be read as `view[i, j]`; or a vector, as `view[i]`."""

    def __init__(self, entry: Callable[..., Any]) -> None:
        self._entry = entry

    def __getitem__(self, keys: Any) -> Any:
        return self._entry(*keys) if isinstance(keys, tuple) else self._entry(keys)


def transposed(matrix: Any) -> MatrixView:
    """A matrix whose indices are swapped."""
    return MatrixView(lambda i, j: matrix[j, i])


def at(matrices: Any, t: Any) -> MatrixView:
    """One of several matrices, or of several vectors."""

    def entry(*keys: Any) -> Any:
        every = (t, *keys)
        return matrices[every]

    return MatrixView(entry)


def add_products(
    outs: Sequence[Indexed], over: Over, left: Any, rights: Sequence[Any], start: Any = None, symmetric: bool = False,
    tile: int = TILE,
) -> None:  # fmt: skip
    """Add products with one matrix, `out += left @ right` of each pair, or `out = start + left @ right`.

    If symmetric, only the upper triangle is wanted; some entries just below the diagonal change as well.
    """
    rows, terms, columns = over
    for block in rows.blocks(tile):
        wanted = columns.since(block) if symmetric else columns
        if start is not None:
            for j in wanted:
                for out in outs:
                    for i in block:
                        out[i, j] = start[i, j]
        for some in terms.blocks(tile):
            factors_of = [[left[i, p] for p in some] for i in block]
            for j in wanted:
                for out, right in zip(outs, rights, strict=True):
                    entries = [right[p, j] for p in some]
                    for i, factors in zip(block, factors_of, strict=True):
                        total = out[i, j]
                        for factor, entry in zip(factors, entries, strict=True):
                            total = total + factor * entry
                        out[i, j] = total


def add_product(out: Indexed, over: Over, left: Any, right: Any, start: Any = None, symmetric: bool = False) -> None:
    """Add one product: see `add_products`."""
    add_products([out], over, left, [right], start, symmetric)


def add_image(out: Indexed, over: tuple[Size, Size], matrix: Any, x: Any, tile: int = TILE) -> None:
    """Add the product of a matrix and a vector, `out += matrix @ x`, where sums of rows do not wait for each other."""
    rows, terms = over
    for block in rows.blocks(tile):
        for some in terms.blocks(tile):
            entries = [x[p] for p in some]
            for i in block:
                total = out[i]
                for p, entry in zip(some, entries, strict=True):
                    total = total + matrix[i, p] * entry
                out[i] = total


def add_row(out: Indexed, over: tuple[Size, Size], x: Any, matrix: Any, tile: int = TILE) -> None:
    """The same of a transposed matrix, `out += x @ matrix`, with columns in lanes."""
    terms, columns = over
    for some in terms.blocks(tile):
        entries = [x[p] for p in some]
        for j in columns:
            total = out[j]
            for p, entry in zip(some, entries, strict=True):
                total = total + entry * matrix[p, j]
            out[j] = total


#: A matrix of zeros, to start from.
ZERO = MatrixView(lambda *_: 0.0)


def mirror(size: Size, matrix: Indexed) -> None:
    """Fill the lower triangle from the upper one."""
    for i in size:
        for j in size.before(i):
            matrix[i, j] = matrix[j, i]


# Products of matrices that are given, such as Λ of tasks that may be singular; r rows of tasks, n columns


@kernel(inertia=("r", "r"), acceleration=("r",), force=("r",), outputs=("force",), sparse=("force",))
def opposing_force(k: Workspace, inertia: Indexed, acceleration: Indexed, force: Indexed) -> None:
    """−Λ ẍ, the force that cancels an acceleration of the tasks."""
    for j in k.r:
        entry = acceleration[j]
        for i in k.r:
            force[i] = force[i] - inertia[j, i] * entry


@kernel(base=("n",), jacobian=("r", "n"), force=("r",), tau=("n",), outputs=("tau",), sparse=("tau",))
def with_row_forces(k: Workspace, base: Indexed, jacobian: Indexed, force: Indexed, tau: Indexed) -> None:
    """Joint forces τ + Jᵀ f."""
    for j in k.n:
        tau[j] = base[j]
    for i in k.r:
        entry = force[i]
        for j in k.n:
            tau[j] = tau[j] + entry * jacobian[i, j]


@kernel(jacobian=("r", "n"), inverse=("n", "n"), inertia=("r", "r"), outputs=("inertia",), sparse=("inertia",))
def row_inertia(k: Workspace, jacobian: Indexed, inverse: Indexed, inertia: Indexed) -> None:
    """Λ⁻¹ = J M⁻¹Jᵀ of any rows, from J and M⁻¹."""
    response = k.zeros("r", "n")
    add_product(response, (k.r, k.n, k.n), jacobian, inverse)
    add_product(inertia, (k.r, k.n, k.r), response, transposed(jacobian))


@kernel(residual=("r",), jacobian=("r", "n"), a=("n",), left=("r",), outputs=("left",))
def without_motion(k: Workspace, residual: Indexed, jacobian: Indexed, a: Indexed, left: Indexed) -> None:
    """Accelerations of the tasks less those of joint accelerations, r − J a."""
    for i in k.r:
        left[i] = residual[i] - k.sum(jacobian[i, j] * a[j] for j in k.n)


@kernel(x=("n",), y=("n",), total=("n",), outputs=("total",))
def total(k: Workspace, x: Indexed, y: Indexed, total: Indexed) -> None:
    """x + y."""
    for i in k.n:
        total[i] = x[i] + y[i]


@kernel(
    response=("n", "r"), jacobian=("r", "n"), inertia=("r", "r"), inverse=("n", "r"), nullspace=("n", "n"),
    outputs=("inverse", "nullspace"), sparse=("inverse", "nullspace"),
)  # fmt: skip
def projections(
    k: Workspace, response: Indexed, jacobian: Indexed, inertia: Indexed, inverse: Indexed, nullspace: Indexed
) -> None:
    """J̄ = M⁻¹JᵀΛ and N = 1 − J̄J, of M⁻¹Jᵀ, J and Λ."""
    for c in k.n:
        for j in k.r:
            entry = response[c, j]
            for i in k.r:
                inverse[c, i] = inverse[c, i] + entry * inertia[j, i]
        nullspace[c, c] = 1.0
        for i in k.r:
            entry = inverse[c, i]
            for o in k.n:
                nullspace[c, o] = nullspace[c, o] - entry * jacobian[i, o]


@kernel(
    jacobian_rate=("r", "n"), response=("n", "r"), coriolis=("n", "n"), rate=("r", "r"), outputs=("rate",),
    symmetric=("rate",),
)  # fmt: skip
def inverse_inertia_rate(
    k: Workspace, jacobian_rate: Indexed, response: Indexed, coriolis: Indexed, rate: Indexed
) -> None:
    """The rate of Λ⁻¹ = J M⁻¹Jᵀ from J̇, M⁻¹Jᵀ and C, since Ṁ = C + Cᵀ: (J̇ − J M⁻¹ C) M⁻¹Jᵀ plus its transpose."""
    left, half = k.copy(jacobian_rate, "r", "n"), k.zeros("r", "r")
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


@kernel(
    J=("r", "n"), error=("r",), pull=("n",), weights=("r",), factors=(3,), H=("n", "n"), g=("n",),
    outputs=("H", "g"), sparse=("H", "g"),
)  # fmt: skip
def differential_program(
    k: Workspace, J: Indexed, error: Indexed, pull: Indexed, weights: Indexed, factors: Indexed, H: Indexed, g: Indexed
) -> None:
    """H = JᵀW J + d 1 and g = −α JᵀW e − w₀² Δ₀ of e, Δ₀, W, and α, w₀², d: the program of differential IK."""
    gain, pulling, least = factors[...]
    for i in k.n:
        g[i] = -(pulling * pull[i])
        H[i, i] = least
    for row in k.r:
        weight = weights[row]
        pushing = weight * (gain * error[row])
        for i in k.n:
            g[i] = g[i] - J[row, i] * pushing
            entry = weight * J[row, i]
            for j in k.n:
                H[i, j] = H[i, j] + entry * J[row, j]
