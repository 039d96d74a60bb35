"""The inverse of a symmetric matrix whose eigenvalues are clearly singular or clearly not, regularised. Cost O(r³).

    pass       leaves                                                          source
    reduce     T = V A Vᵀ tridiagonal                                          `tridiagonal`
    assess     the largest eigenvalue, ε, rank, whether there is a clear gap   `sturm`
    set apart  eigenvectors of a few eigenvalues in the gap, in `invert_close`  `few_eigenvectors`
    separate   y = (1 − s)³ V with s = δ (T + δ)⁻¹
    invert     A⁺, and the projection P onto singular directions

Of the eigenvalues, only the largest is needed. The operator s has eigenvalues δ/(λ + δ), close to one in singular
directions, where λ ≪ δ, and close to zero in all others, where λ ≫ δ. To apply it to all columns of V takes O(r²). What
is singular disappears from y, and series in s restore the rest:

    A⁺ = yᵀ T⁻¹ (1 − s)⁻⁶ y = yᵀ s (1 + 7 s + 28 s² + …) y/δ
    P = pᵀ p,    p = V − (1 − s)⁻³ y = V − (1 + 3 s + 6 s² + 10 s³ + …) y

The result is as accurate as one from eigenvectors. Let no eigenvalue lie between μ and 8 ε, where μ is 2⁻⁴⁷ of the
largest one (or of one), and δ be the geometric mean of the two. Then s or 1 − s is at most η = √(μ/8ε), which is 3·10⁻⁵
for the default cut of 10⁻⁶. What the series leave out is 84 η³ of A⁺ and 15 η⁴ of 1 − P; what remains of singular
directions in y is η³. Rounding is that of solving with T + δ: for an eigenvalue λ, it turns a solution by eps/λ, as it
turns an eigenvector. In singular directions s itself is only known to eps/δ; but there y forgets it. A⁺ and P are
products of two factors, so a component in a wrong direction appears squared.

If a few eigenvalues λ do lie in between, V is made orthogonal to their eigenvectors u, which add f(λ) Vᵀu uᵀV to the
result, where f(λ) is the regularised 1/λ. A computed u contains eps/λ of singular directions, so those that V keeps
contain as much of the true u. The factor (1 − s)³ would remove all but this rest; so y is made orthogonal to u as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kinetree.algorithms.choices import larger, less, magnitude
from kinetree.algorithms.operational_space.eigen import regularized, root_weights
from kinetree.algorithms.operational_space.few_eigenvectors import FewEigenvectors, Window
from kinetree.algorithms.operational_space.sturm import ENDS, counts_below, ends_times, largest_eigenvalue
from kinetree.algorithms.operational_space.tridiagonal import DOWNWARDS, NEIGHBOURS, UPWARDS, tridiagonalize
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.scalar import sqrt

#: Eigenvalues are clearly singular below this fraction of the largest one, a few rounding errors, and clearly not above
#: this multiple of ε.
LOW, HIGH = 2.0**-47, 8.0
#: The smallest cut for which there is a gap between them that is wide enough.
LEAST_CUT = 2.0**-20
#: Relative error of the largest eigenvalue up to which it is certain.
_PRECISION = 2.0**-47

_THRICE = ends_times(3)
_DIMENSIONS: dict[str, Any] = {
    "A": ("rows", "rows"),
    "mean": ("rows", "rows"),
    "reach": ("rows",),
    "cut": (),
    "softness": (),
    "inverse": ("rows", "rows"),
    "rank": (),
    "clear": (),
    "between": (),
    "outputs": ("inverse", "rank", "clear", "between"),
    "symmetric": ("inverse",),
    "sparse": ("rank", "clear", "between"),
}


@algorithm(**_DIMENSIONS)
def invert_clear(
    tree: Tree,
    A: Indexed,
    mean: Indexed,
    reach: Indexed,
    cut: Indexed,
    softness: Indexed,
    inverse: Indexed,
    rank: Indexed,
    clear: Indexed,
    between: Indexed,
) -> None:
    """The inverse of a weighted matrix, regularised in its singular directions.

    Args:
        tree: Provides the rows; nothing else of it is used.
        A: Symmetric, (r, r).
        mean: As of `weigh`, (r, r); the weights are means of the diagonal of A, plus `reach`.
        reach: (r,).
        cut: Fraction of the largest eigenvalue, or of one, up to which directions are singular, ().
        softness: 1/λ is replaced by this times 2/ε in singular directions, ().
        inverse: (r, r).
        rank: Number of directions that are not singular, ().
        clear: One if the results are right, zero where eigenvalues may lie close to ε or something is not finite, ().
        between: Number of eigenvalues close to ε, ().
    """
    scale, weighted = _weighted(tree, A, mean, reach)
    _invert(tree, weighted, scale, cut, softness, inverse, rank, clear, between, close=False)


@algorithm(**_DIMENSIONS)
def invert_close(
    tree: Tree,
    A: Indexed,
    mean: Indexed,
    reach: Indexed,
    cut: Indexed,
    softness: Indexed,
    inverse: Indexed,
    rank: Indexed,
    clear: Indexed,
    between: Indexed,
) -> None:
    """The same, but a few eigenvalues may lie close to ε. If none does, the results are those of `invert_clear`."""
    scale, weighted = _weighted(tree, A, mean, reach)
    _invert(tree, weighted, scale, cut, softness, inverse, rank, clear, between, close=True)


def _weighted(tree: Tree, A: Indexed, mean: Indexed, reach: Indexed) -> tuple[Indexed, Indexed]:
    """Reciprocal square roots of the weights, (r,), and the weighted matrix, (r, r)."""
    B, scale, own = tree.array("rows", "rows"), tree.array("rows"), tree.array("rows")
    for one in tree.task_rows():
        own[one] = A[one, one]
    root_weights(tree, own, mean, reach, scale)
    for one in tree.task_rows():
        scale[one] = 1.0 / scale[one]
    for one in tree.task_rows():
        factor = scale[one]
        for other in tree.task_rows():
            B[one, other] = (factor * scale[other]) * A[one, other]
    return scale, B


def _invert(
    tree: Tree,
    B: Indexed,
    scale: Indexed,
    cut: Indexed,
    softness: Indexed,
    inverse: Indexed,
    rank: Indexed,
    clear: Indexed,
    between: Indexed,
    close: bool,
) -> None:
    """The inverse of a weighted matrix B, which is overwritten; the other arguments are those of `invert_clear`."""
    V, y, s, solved, projected = (tree.array("rows", "rows") for _ in range(5))
    d, e = tree.array("rows"), tree.array("rows")
    tridiagonalize(tree, B, V, d, e)
    gap = _Gap(*(tree.array("rows") for _ in range(8)))
    _assess(tree, d, e, cut, gap)
    for _, last in ENDS(tree):
        between[...] = gap.between[last.rows[0]]
    for one in tree.task_rows():
        for other in tree.task_rows():
            y[one, other] = V[one, other] * scale[other]
    if close:
        few = _set_apart(tree, d, e, gap, rank, clear)
        shares = few.remove_from(y)
    else:
        for _, last in ENDS(tree):
            (end,) = last.rows
            rank[...] = gap.regular[end]
            clear[...] = less(gap.doubts[end] + gap.between[end], 0.5, 1.0, 0.0)
    for one in tree.task_rows():
        for other in tree.task_rows():
            projected[one, other] = y[one, other]
            solved[one, other] = 0.0

    def reduce(row: Any, k: Any) -> None:
        y[row, k] = y[row, k] - s[row, k]

    def extend(of_inverse: float, of_projection: float) -> Callable[[Any, Any], None]:
        """Add the next terms of both series."""

        def add(row: Any, k: Any) -> None:
            solved[row, k] = solved[row, k] + of_inverse * s[row, k]
            projected[row, k] = projected[row, k] - of_projection * s[row, k]

        return add

    apply = _Operator(tree, d, e, gap.shift)
    for _ in _THRICE(tree):
        apply(y, s, reduce)
    if close:
        few.remove_from(y)
    apply(y, s, extend(1.0, 3.0))
    apply(s, s, extend(7.0, 6.0))
    apply(s, s, extend(28.0, 10.0))
    for one in tree.task_rows():
        factor = less(gap.regular[one], 0.5, 0.0, 1.0) / gap.shift[one]  # if none is, nothing is left but rounding
        share = sqrt(softness[...] * 2.0 / gap.limit[one])
        for other in tree.task_rows():
            solved[one, other] = factor * solved[one, other]
            projected[one, other] = share * (projected[one, other] - y[one, other])
    _sum_of_products(tree, ((y, solved), (projected, projected)), B)
    if close:
        for _, last in ENDS(tree):
            (end,) = last.rows
            gains = [regularized(value[end], gap.limit[end], softness[...]) for value in few.values]
            for one in tree.task_rows():
                entries = [gain * share[one] for gain, share in zip(gains, shares, strict=True)]
                for other in tree.task_rows(one):
                    terms = (entry * share[other] for entry, share in zip(entries, shares, strict=True))
                    B[one, other] = B[one, other] + sum(terms)
    for one in tree.task_rows():
        for other in tree.task_rows(one):
            inverse[one, other] = B[one, other]


class _Gap(NamedTuple):
    """Where the eigenvalues of a matrix lie, (r,) each.

    Attributes:
        size: The largest one, or one if that is larger, in the last entry.
        limit: ε in each entry.
        shift: δ in each entry.
        regular: Number of those that are clearly not singular, in each entry.
        between: Number of those that are neither clearly singular nor clearly not, in the last entry.
        doubts: More than zero if something is not certain, in the last entry.
        low: Upper end of what is clearly singular, in the last entry.
        high: Lower end of what is clearly not, in the last entry.
    """

    size: Indexed
    limit: Indexed
    shift: Indexed
    regular: Indexed
    between: Indexed
    doubts: Indexed
    low: Indexed
    high: Indexed


def _assess(tree: Tree, d: Indexed, e: Indexed, cut: Indexed, gap: _Gap) -> None:
    """Assess the eigenvalues of a tridiagonal matrix.

    Args:
        tree: Provides the rows.
        d: Diagonal, (r,).
        e: Entries to the left of the diagonal, zero in the first row, (r,).
        cut: As of `invert_clear`, ().
        gap: The result.
    """
    count, largest, negative, under, over = (tree.array("rows") for _ in range(5))
    for first, _ in ENDS(tree):
        count[first.rows[0]] = 0.0
    for group, before in DOWNWARDS(tree):
        number = count[before.rows[0]]
        for n, row in enumerate(group.rows):
            count[row] = number + (n + 1.0)
    largest_eigenvalue(tree, d, e, count, largest)
    for _, last in ENDS(tree):
        (end,) = last.rows
        found = largest[end]
        size = larger(found, 1.0)
        edge = cut[...] * size
        gap.size[end], gap.low[end], gap.high[end], negative[end] = size, LOW * size, HIGH * edge, -LOW * size
        # the largest eigenvalue matters only if it is larger than one
        under[end] = less(-found, -1.0, found * (1.0 - _PRECISION), -size)
        over[end] = size * (1.0 + _PRECISION)
        for row in tree.task_rows():
            gap.shift[row] = size * sqrt(LOW * HIGH * cut[...])
            gap.limit[row] = edge
    counts = counts_below(tree, d, e, (negative, gap.low, gap.high, under, over))
    for _, last in ENDS(tree):
        (end,) = last.rows
        rows = count[end]
        below_zero, low, high, below_largest, every = (found[end] for found in counts)
        gap.between[end] = high - low
        gap.doubts[end] = below_zero + (rows - every) + less(below_largest, rows - 0.5, 0.0, 1.0)
        for row in tree.task_rows():
            gap.regular[row] = rows - high


def _set_apart(tree: Tree, d: Indexed, e: Indexed, gap: _Gap, rank: Indexed, clear: Indexed) -> FewEigenvectors:
    """Eigenvectors of the eigenvalues in the gap, with rank, and whether both are certain, as of `invert_clear`."""
    few = FewEigenvectors(tree, d, e)
    for first, last in ENDS(tree):
        (top,), (end,) = first.rows, last.rows
        few.find(Window(gap.limit[end], gap.low[end], gap.high[end], gap.size[end]), (top, end))
        rank[...] = gap.regular[end]
        missing = gap.between[end]
        for value, found in zip(few.values, few.found, strict=True):
            missing = missing - found[end]
            rank[...] = rank[...] + less(gap.limit[end], value[end], found[end], 0.0)
        clear[...] = less(gap.doubts[end] + few.wrong[end] + magnitude(missing), 0.5, 1.0, 0.0)
    return few


class _Operator:
    """s = δ (T + δ)⁻¹ from T + δ = L D Lᵀ.

    Args:
        tree: Provides the rows.
        d: Diagonal of T, (r,).
        e: Entries to the left of the diagonal, zero in the first row, (r,).
        shift: δ in each entry, (r,).
    """

    def __init__(self, tree: Tree, d: Indexed, e: Indexed, shift: Indexed) -> None:
        self._tree = tree
        self._above, self._below, self._scales, pivots = (tree.array("rows") for _ in range(4))
        for first, _ in ENDS(tree):
            pivots[first.rows[0]] = 1.0
        for row in tree.task_rows():
            self._below[row] = 0.0
        for group, before in DOWNWARDS(tree):
            pivot = pivots[before.rows[0]]
            for row in group.rows:
                factor = e[row] / pivot
                pivot = (d[row] + shift[row]) - factor * e[row]
                self._above[row], pivots[row] = factor, pivot
        for one, another in NEIGHBOURS(tree):
            self._below[one.rows[0]] = self._above[another.rows[0]]
        for row in tree.task_rows():
            self._scales[row] = shift[row] / pivots[row]

    def __call__(self, x: Indexed, result: Indexed, then: Callable[[Any, Any], None]) -> None:
        """s x.

        Args:
            x: (r, r).
            result: May be x, (r, r).
            then: What follows for each entry of the result.
        """
        tree = self._tree
        for first, _ in ENDS(tree):
            (top,) = first.rows
            for k in tree.task_rows():
                result[top, k] = x[top, k]
        for group, before in DOWNWARDS(tree):
            (previous,) = before.rows
            factors = [self._above[row] for row in group.rows]
            for k in tree.task_rows():
                entry = result[previous, k]
                for row, factor in zip(group.rows, factors, strict=True):
                    entry = x[row, k] - factor * entry
                    result[row, k] = entry
        for group, after in UPWARDS(tree):
            (following,) = after.rows
            factors = [(self._scales[row], self._below[row]) for row in group.rows]
            for k in tree.task_rows():
                entry = result[following, k]
                for row, (scale, factor) in zip(reversed(group.rows), reversed(factors), strict=True):
                    entry = scale * result[row, k] - factor * entry
                    result[row, k] = entry
                    then(row, k)


def _sum_of_products(tree: Tree, pairs: Any, result: Indexed) -> None:
    """The upper triangle of Σ xᵀy, which is symmetric; six rows at a time, to load and store the result less often."""
    for one in tree.task_rows():
        for other in tree.task_rows(one):
            result[one, other] = 0.0
    for task, _, _ in tree.tasks():
        for one in tree.task_rows():
            left = [[x[row, one] for row in task.rows] for x, _ in pairs]
            for other in tree.task_rows(one):
                terms = (
                    entry * y[row, other]
                    for entries, (_, y) in zip(left, pairs, strict=True)
                    for entry, row in zip(entries, task.rows, strict=True)
                )
                result[one, other] = result[one, other] + sum(terms)
