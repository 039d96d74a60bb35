"""Eigenvalues and eigenvectors of a weighted symmetric matrix, and functions of it. Cost O(n³).

Every sample takes the same operations in the same order, so its bits depend neither on its neighbours in the batch nor
on the processor. LAPACK guarantees neither.

**Tridiagonal form**, T = Q A Qᵀ, by Householder reflections [GV, Algorithm 8.3.1]: each clears what is right of the
superdiagonal in one row; the other rows follow by a symmetric update of rank two. Q is accumulated on the way.

**QR steps** factor T − σI = Q R and form R Q + σI, by a rotation for each pair of neighbouring rows, first pair first.
With Wilkinson's shift σ, the last entry beside the diagonal that is not negligible converges to zero, at a cubic rate.
The rotations follow the rational variant of Pal, Walker and Kahan ([P] §8.15): the pivots of a factorisation without
square roots, t(i) = d(i) − σ − e(i)²/t(i−1), and the squared cosines C(i) form the only chains from row to row. The
rotations' square roots do not wait for each other, and several of them are computed at once. Two departures:

- There is no test for convergence. Steps are taken from a fixed list (`schedule`).
- The matrix is not split. A negligible entry beside the diagonal becomes zero, and no rotation mixes the two sides of
  it; σ comes from the last entry that is left. A pivot of zero becomes a tiny number, as in bisection.

Eigenvalues have errors of the size of rounding errors of the largest one.

**A Jacobi sweep** [GV, §8.5] rotates every pair of rows of a matrix that is nearly diagonal. Off-diagonal entries that
are small become quadratically smaller, with errors relative to the diagonal entries they lie between.

    values, vectors     λ, in no particular order, and eigenvectors, one in each row
    own, mean, reach    weights are means of own, by a matrix that averages groups of rows, plus reach
    roots               square roots of the weights; one for rows that are immobile or not finite
    infinite            number of entries of the weighted matrix that are not finite
    cut, edge           ε = cut · max(λmax, 1) is the edge: up to there, directions are singular
    rank, condition     number of larger λ, −1 where the matrix is not finite; infinite where a direction is singular

[GV] G. Golub, C. Van Loan, "Matrix Computations", 4th edition.
[P]  B. Parlett, "The Symmetric Eigenvalue Problem", SIAM 1998.
"""

from __future__ import annotations

from typing import Any

from kinetree.kernels.branchless import larger, less, magnitude
from kinetree.kernels.language import Size, Workspace, kernel
from kinetree.language.tree import Indexed
from kinetree.spatial.scalar import sqrt

_INFINITE = float("inf")
#: Rows that are handled together: what passes from row to row stays in registers within a block.
BLOCK = 6
#: Entries beside the diagonal are negligible below this fraction of the largest row sum.
_NEGLIGIBLE = 2.0**-53
#: Eigenvalues that may still converge when a step leaves out rows.
_LAG = 2
#: Pivots are at least this fraction of the largest row sum, and never zero.
_LEAST_PIVOT, _NEVER_ZERO = 2.0**-110, 2.0**-400
_NO_REFLECTION, _NO_ANGLE = 2.0**-1000, 2.0**-500


# Weights


@kernel(
    A=("n", "n"), own=("n",), mean=("n", "n"), reach=("n",), weighted=("n", "n"), roots=("n",), infinite=(),
    outputs=("weighted", "roots", "infinite"), sparse=("infinite",),
)  # fmt: skip
def weigh(
    k: Workspace, A: Indexed, own: Indexed, mean: Indexed, reach: Indexed, weighted: Indexed, roots: Indexed,
    infinite: Indexed,
) -> None:  # fmt: skip
    """Divide rows and columns of a symmetric matrix by the square roots of the weights."""
    root, bad = k.copy(reach, "n"), k.zeros("n")
    for j in k.n:
        entry = own[j]
        for i in k.n:
            root[i] = root[i] + mean[j, i] * entry
    for i in k.n:
        root[i] = sqrt(less(-root[i], 0.0, root[i], 1.0))
    for i in k.n:
        roots[i] = root[i]
    for i in k.n:
        scale = root[i]
        for j in k.n:
            entry = A[i, j] / (scale * root[j])
            weighted[i, j] = entry
            bad[j] = bad[j] + less(magnitude(entry), _INFINITE, 0.0, 1.0)
    for i in k.n:
        infinite[...] = infinite[...] + bad[i]


# Eigenvalues and eigenvectors


def schedule(rows: int) -> list[int]:
    """The last row of each QR step.

    Householder reflections leave the large entries in the first rows and the small ones in the last, where eigenvalues
    converge first. Each takes two steps, some three, after a few more for the first of them. Steps leave out rows whose
    eigenvalues have converged; an entry that couples them to the others would be an error. So the steps lag two
    eigenvalues behind: without a lag, one matrix in 10⁵ was too slow, with it none of 24 million. The last steps visit
    all rows again.
    """
    if rows < 3:
        return [1] * (rows - 1)
    each = [last for last in range(rows - 1, 0, -1) for _ in range(3 if (rows - last) % 4 == 2 else 2)]
    return [rows - 1] * (5 + rows // 4) + [min(last + _LAG, rows - 1) for last in each] + [rows - 1] * 3


@kernel(
    A=("n", "n"), values=("n",), vectors=("n", "n"), outputs=("values", "vectors"),
    lists={"steps": {"n": 1}}, chosen={"steps": schedule},
)  # fmt: skip
def diagonalize(k: Workspace, A: Indexed, values: Indexed, vectors: Indexed) -> None:
    """Eigenvalues and eigenvectors of a symmetric matrix."""
    B, V = k.copy(A, "n", "n"), k.zeros("n", "n")
    diagonal, beside = k.array("n"), k.zeros("n")
    for i in k.n:
        V[i, i] = 1.0
    _tridiagonalize(k, B, V, diagonal, beside)
    _qr_iteration(k, diagonal, beside, V)
    for i in k.n:
        values[i] = diagonal[i]
    for i in k.n:
        for j in k.n:
            vectors[i, j] = V[i, j]


def _tridiagonalize(k: Workspace, B: Indexed, V: Indexed, diagonal: Indexed, beside: Indexed) -> None:
    """Reduce B, both triangles, to tridiagonal form: diagonal, and what is left of it. V, the identity, becomes Q."""
    v, p, u = (k.array("n") for _ in range(3))
    total, product = k.zeros("n"), k.zeros("n")
    for row, first in k.n.pairs():
        # the reflection I − β v vᵀ takes the rest of the row to its first entry
        v[row] = 0.0
        for j in k.n.since(first):
            v[j] = B[row, j]
            p[j] = 0.0
        for block in k.n.blocks(BLOCK, since=first):
            total[row] = total[row] + sum(v[i] * v[i] for i in block)
        norm, leading = sqrt(total[row]), B[row, first]
        beside[first] = less(leading, 0.0, norm, -norm)
        v[first] = leading + less(leading, 0.0, -norm, norm)
        beta = 1.0 / (norm * (norm + magnitude(leading)) + _NO_REFLECTION)
        # B ← B − v wᵀ − w vᵀ with p = B v, w = β p − ½ β² (pᵀv) v; V ← V − β v uᵀ with u = Vᵀv
        for j in k.n:
            u[j] = 0.0
        for block in k.n.blocks(BLOCK, since=first):
            entries = [v[i] for i in block]
            for j in k.n.since(first):
                p[j] = p[j] + sum(entry * B[i, j] for entry, i in zip(entries, block, strict=True))
            for j in k.n:
                u[j] = u[j] + sum(entry * V[i, j] for entry, i in zip(entries, block, strict=True))
        p[row] = 0.0
        for block in k.n.blocks(BLOCK, since=first):
            product[row] = product[row] + sum(p[i] * v[i] for i in block)
        half = 0.5 * (beta * product[row])
        for j in k.n.since(first):
            p[j] = beta * (p[j] - half * v[j])
        for block in k.n.blocks(BLOCK, since=first):
            factors = [(i, v[i], p[i]) for i in block]
            for j in k.n.since(first):
                x, y = p[j], v[j]
                for i, own, other in factors:
                    B[i, j] = B[i, j] - (own * x + other * y)
        for i in k.n.since(first):
            scaled = beta * v[i]
            for j in k.n:
                V[i, j] = V[i, j] - scaled * u[j]
    for i in k.n:
        diagonal[i] = B[i, i]


class _Trailing:
    """The last entry beside the diagonal that is not zero, with the diagonal entries above it and to its right.

    For each row, those of the rows before it are kept, so that they follow from the first row to the last.
    """

    def __init__(self, n: Size) -> None:
        self._preceding, self._kept = n.vector(), [n.vector() for _ in range(3)]
        for row in n:
            for array in (self._preceding, *self._kept):
                array[row] = 0.0

    def pass_on(self, before: Any, row: Any, beside: Any, diagonal: Any) -> None:
        """Take note of the row before one, given its entries."""
        for array, value in zip(self._kept, self.at(before, beside, diagonal), strict=True):
            array[row] = value
        self._preceding[row] = diagonal

    def at(self, row: Any, beside: Any, diagonal: Any) -> list[Any]:
        """The last entry up to a row, given the row's own, and its two diagonal entries, the last one first."""
        own = beside, diagonal, self._preceding[row]
        return [less(-magnitude(beside), 0.0, x, y[row]) for x, y in zip(own, self._kept, strict=True)]


def _qr_iteration(k: Workspace, d: Indexed, e: Indexed, V: Indexed) -> None:
    """Diagonalise a tridiagonal matrix: d becomes the eigenvalues, e is overwritten, rotations apply to rows of V."""
    t, C, gamma, sign, sine, cosine, length = (k.array("n") for _ in range(7))
    scale = k.zeros("n")
    for row in k.n:
        size = magnitude(d[row]) + 2.0 * magnitude(e[row])
        for other in k.n:
            scale[other] = larger(scale[other], size)
    for row in k.n:
        e[row] = _or_zero(e[row], scale[row])
    trailing = _Trailing(k.n)
    for i, j in k.n.pairs():
        trailing.pass_on(i, j, e[i], d[i])

    for last in k.steps:
        # Wilkinson's shift
        entry, own, above = trailing.at(last, e[last], d[last])
        half = 0.5 * (above - own)
        root = magnitude(half) + sqrt(half * half + entry * entry) + _NEVER_ZERO
        sigma = own - less(half, 0.0, -entry, entry) * (entry / root)
        least = _LEAST_PIVOT * scale[last] + _NEVER_ZERO
        for row in k.n.through(last):  # the chains start in the first row, which has no rotation
            t[row] = _or_least(d[row] - sigma, least)
            C[row] = 1.0
            length[row] = 1.0
            sign[row] = 1.0
        for row in k.n:  # neither the first row nor those after the last one are rotated
            cosine[row] = 1.0
            sine[row] = 0.0

        for i, j in k.n.pairs(through=last):
            pivot, square = t[i], e[j] * e[j]
            weight = C[i] * (pivot * pivot)
            total = weight + square
            C[j] = weight / total
            t[j] = _or_least((d[j] - sigma) - square / pivot, least)
            length[j] = total
            sign[j] = less(pivot, 0.0, -sign[i], sign[i])

        for row in k.n.through(last):
            size = sqrt(length[row])
            length[row] = size
            sine[row] = e[row] / size
            cosine[row] = sign[row] * sqrt(C[row])
            gamma[row] = C[row] * t[row]

        for i, j in k.n.pairs(through=last):
            entry, own = _or_zero(sine[i] * length[j], scale[i]), gamma[i] + (d[j] - gamma[j])
            trailing.pass_on(i, j, entry, own)
            e[i], d[i] = entry, own
        e[last] = _or_zero(sine[last] * (cosine[last] * t[last]), scale[last])
        d[last] = gamma[last] + sigma

        for block in k.n.blocks(BLOCK, through=last):
            angles = [(cosine[row], sine[row]) for row in block]
            for c in k.n:
                x, above = V[block.previous, c], block.previous
                for row, (cos, sin) in zip(block, angles, strict=True):
                    y = V[row, c]
                    V[above, c] = cos * x + sin * y
                    x, above = cos * y - sin * x, row
                V[above, c] = x


def _or_zero(entry: Any, scale: Any) -> Any:
    """An entry beside the diagonal, or zero if it is negligible."""
    return less(magnitude(entry), _NEGLIGIBLE * scale, 0.0, entry)


def _or_least(pivot: Any, least: Any) -> Any:
    """A pivot, unless it is too small to divide by."""
    return less(magnitude(pivot), least, least, pivot)


# What is singular


@kernel(
    computed=("n",), infinite=(), cut=(), values=("n",), edge=(), rank=(), condition=(),
    outputs=("values", "edge", "rank", "condition"), sparse=("edge", "rank", "condition"),
)  # fmt: skip
def settle(
    k: Workspace, computed: Indexed, infinite: Indexed, cut: Indexed, values: Indexed, edge: Indexed, rank: Indexed,
    condition: Indexed,
) -> None:  # fmt: skip
    """How many eigenvalues are singular; values are NaN where the matrix was not finite."""
    poison = sqrt(-infinite[...])  # NaN, or −0
    condition[...] = _INFINITE
    for i in k.n:
        value = computed[i]
        edge[...] = less(edge[...], value, value, edge[...])
        condition[...] = less(value, condition[...], value, condition[...])
    most, least = edge[...], condition[...]
    limit = cut[...] * less(most, 1.0, 1.0, most)
    edge[...] = limit + poison
    condition[...] = less(limit, least, most / least, _INFINITE) + poison
    for i in k.n:
        value = computed[i] + poison
        values[i] = value
        rank[...] = rank[...] + less(limit, value, 1.0, 0.0)
    rank[...] = less(infinite[...], 0.5, rank[...], -1.0)


# Functions of the matrix


@kernel(
    values=("n",), vectors=("n", "n"), roots=("n",), edge=(), softness=(), inverse=("n", "n"), outputs=("inverse",),
    symmetric=("inverse",),
)  # fmt: skip
def regularized_inverse(
    k: Workspace, values: Indexed, vectors: Indexed, roots: Indexed, edge: Indexed, softness: Indexed, inverse: Indexed
) -> None:
    """The inverse of a weighted matrix; in singular directions, 1/λ becomes softness times 2 ε/(λ² + ε²)."""
    reciprocals, limit = k.array("n"), edge[...]
    for i in k.n:
        value = values[i]
        remaining = less(value, 0.0, 0.0, value)
        softened = softness[...] * (2.0 * limit / (remaining * remaining + limit * limit))
        reciprocals[i] = less(limit, value, 1.0 / less(limit, value, value, limit), softened)
    _compose(k, vectors, roots, reciprocals, inverse)


@kernel(vectors=("n", "n"), roots=("n",), values=("n",), result=("n", "n"), outputs=("result",), symmetric=("result",))
def compose(k: Workspace, vectors: Indexed, roots: Indexed, values: Indexed, result: Indexed) -> None:
    """The symmetric matrix with the given eigenvectors, one per row, and eigenvalues, its rows divided by roots."""
    _compose(k, vectors, roots, values, result)


def _compose(k: Workspace, vectors: Indexed, roots: Indexed, values: Any, result: Indexed) -> None:
    """Σ value · vector vectorᵀ, with entries of the vectors divided by roots."""
    scaled, B = k.array("n"), k.array("n", "n")
    for i in k.n:
        for j in k.n.since(i):
            B[i, j] = 0.0
    for vector in k.n:
        value = values[vector]
        for i in k.n:
            scaled[i] = vectors[vector, i] / roots[i]
        for i in k.n:
            entry = value * scaled[i]
            for j in k.n.since(i):
                B[i, j] = B[i, j] + entry * scaled[j]
    for i in k.n:
        for j in k.n.since(i):
            result[i, j] = B[i, j]


# Matrices that are nearly diagonal


@kernel(A=("n", "n"), rotated=("n", "n"), vectors=("n", "n"), outputs=("rotated", "vectors"))
def jacobi_sweep(k: Workspace, A: Indexed, rotated: Indexed, vectors: Indexed) -> None:
    """Rotate every pair of rows of a symmetric matrix once: R A Rᵀ with the eigenvalues on its diagonal, and R."""
    B, V = k.copy(A, "n", "n"), k.zeros("n", "n")
    for i in k.n:
        V[i, i] = 1.0
    for one in k.n:
        for other in k.n.after(one):
            # [GV] Algorithm 8.5.1
            entry, apart = B[one, other], B[other, other] - B[one, one]
            root = sqrt(apart * apart + 4.0 * (entry * entry))
            tangent = less(apart, 0.0, -2.0 * entry, 2.0 * entry) / (magnitude(apart) + root + _NO_ANGLE)
            cosine = 1.0 / sqrt(1.0 + tangent * tangent)
            sine = tangent * cosine
            # rotate the rows; the columns are equal by symmetry, except for the four entries where they intersect
            first, last = B[one, one] - tangent * entry, B[other, other] + tangent * entry
            for j in k.n:
                x, y = B[one, j], B[other, j]
                B[one, j] = cosine * x - sine * y
                B[other, j] = sine * x + cosine * y
            for j in k.n:
                B[j, one] = B[one, j]
                B[j, other] = B[other, j]
            B[one, other] = 0.0
            B[other, one] = 0.0
            B[one, one] = first
            B[other, other] = last
            for j in k.n:
                x, y = V[one, j], V[other, j]
                V[one, j] = cosine * x - sine * y
                V[other, j] = sine * x + cosine * y
    for i in k.n:
        for j in k.n:
            rotated[i, j] = B[i, j]
            vectors[i, j] = V[i, j]
