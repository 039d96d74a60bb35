"""A few eigenvectors of a symmetric tridiagonal matrix T: those of eigenvalues in a window far below the largest one.

The window reaches from rounding errors to a little above δ. There may be many eigenvalues below it, all of them zero up
to rounding, and many above; up to four inside are found.

    pass       leaves                                                                source
    filter     s⁵ (1 − s) x for four vectors x, with s = δ (T + δ)⁻¹
    project    eigenvalues θ and vectors of T within the span of the vectors         [P] §11.3
    sharpen    (T − θ)⁻¹ x                                                           [P] §4.6
    verify     orthonormal vectors, their eigenvalues and residuals

Powers of s remove what lies above the window, and 1 − s removes what lies below it, up to rounding. The error of each
vector is then small, and that of its eigenvalue θ is the square of it, so that one solution with T − θ leaves nothing
but rounding errors. Every sample takes the same operations; there is no test for convergence. Whether the vectors are
right is verified at the end: if they are orthonormal and have small residuals, and if there are as many as eigenvalues
in the window, which the caller counts, they are the eigenvectors. Otherwise, as with eigenvalues right above the
window, the caller computes all of them.

[P] B. Parlett, "The Symmetric Eigenvalue Problem", SIAM 1998.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, cycle
from typing import Any, NamedTuple

from kinetree.algorithms.choices import less, magnitude
from kinetree.algorithms.operational_space.sturm import ends_times
from kinetree.algorithms.operational_space.tridiagonal import BETWEEN, DOWNWARDS, NEIGHBOURS, UPWARDS
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.scalar import sqrt

#: First entries of the vectors to begin with. Each entry x is followed by 1 − 2x², which looks like chance.
_SEEDS = (0.31, -0.57, 0.73, 0.89)
#: How many eigenvectors can be found.
MOST = len(_SEEDS)
_PAIRS = list(combinations(range(MOST), 2))
_PLACES = [*((i, i) for i in range(MOST)), *_PAIRS]
_POWER = _SWEEPS = ends_times(5)
#: Pivots are never zero; nor are numbers to divide by.
_LEAST_PIVOT, _NEVER_ZERO = 2.0**-200, 2.0**-500
#: A vector of which others leave a smaller part is dropped, before the eigenvalues are known and afterwards.
_LEAST_PART, _CERTAIN_PART = 2.0**-40, 0.5
#: Residuals of vectors that are right, in relation to the largest eigenvalue.
_RESIDUAL = 2.0**-49


class Window(NamedTuple):
    """Where eigenvalues are sought.

    Attributes:
        shift: δ.
        low: The lower end of the window.
        high: The upper end.
        size: The largest eigenvalue of T.
    """

    shift: Any
    low: Any
    high: Any
    size: Any


class FewEigenvectors:
    """Eigenvectors of eigenvalues in a window.

    Args:
        tree: Provides the rows; nothing else of it is used.
        d: Diagonal of T, (r,).
        e: Entries to the left of the diagonal, zero in the first row, (r,).

    Attributes:
        vectors: Unit vectors, or zero, (r,) each.
        values: Arrays with their eigenvalues in the last entries.
        found: Arrays with one in the last entries if there is a vector, else zero.
        wrong: An array with the number of vectors that are not certain in its last entry.
    """

    def __init__(self, tree: Tree, d: Indexed, e: Indexed) -> None:
        def arrays(count: int) -> list[Indexed]:
            return [tree.array("rows") for _ in range(count)]

        (right,) = arrays(1)
        self._tree, self._d, self._beside = tree, d, (e, right)
        for row in tree.task_rows():
            right[row] = 0.0
        for one, another in NEIGHBOURS(tree):
            right[one.rows[0]] = e[another.rows[0]]
        self.vectors, self.values, self.found, self._products = (arrays(MOST) for _ in range(4))
        self._sum, self._projected = arrays(len(_PLACES)), dict(zip(_PLACES, arrays(len(_PLACES)), strict=True))
        self._turns = [arrays(MOST) for _ in range(MOST)]
        (self.wrong,) = arrays(1)
        self._one_shift, self._own_shifts = (_Solver(tree, d, (e, right), count) for count in (1, MOST))

    def find(self, window: Window, ends: tuple[Any, Any]) -> None:
        """Find them.

        Args:
            window: Where to look.
            ends: The first and the last row.
        """
        self._top, self._end = ends
        self._begin()
        self._filter(window.shift)
        self._orthonormalize(_LEAST_PART)
        self._project()
        self._sharpen(window)
        self._orthonormalize(_CERTAIN_PART)
        self._verify(window)

    def remove_from(self, y: Indexed) -> list[Indexed]:
        """Make the columns of a matrix y, (r, r), orthogonal to the vectors u.

        Returns:
            yᵀu for each, (r,).
        """
        tree, shares = self._tree, [self._tree.array("rows") for _ in self.vectors]
        for k in tree.task_rows():
            for share in shares:
                share[k] = 0.0
        for group, _ in DOWNWARDS(tree):
            entries = [[u[row] for row in group.rows] for u in self.vectors]
            for k in tree.task_rows():
                column = [y[row, k] for row in group.rows]
                for share, own in zip(shares, entries, strict=True):
                    share[k] = share[k] + sum(a * b for a, b in zip(own, column, strict=True))
        for group, _ in DOWNWARDS(tree):
            across = [[u[row] for u in self.vectors] for row in group.rows]
            for k in tree.task_rows():
                column = [share[k] for share in shares]
                for row, own in zip(group.rows, across, strict=True):
                    y[row, k] = y[row, k] - sum(a * b for a, b in zip(own, column, strict=True))
        return shares

    def _begin(self) -> None:
        for x, seed in zip(self.vectors, _SEEDS, strict=True):
            x[self._end] = seed
        for group, after in UPWARDS(self._tree):
            for x in self.vectors:
                entry = x[after.rows[0]]
                for row in reversed(group.rows):
                    entry = 1.0 - 2.0 * (entry * entry)
                    x[row] = entry

    def _filter(self, shift: Any) -> None:
        inverse = self._one_shift
        inverse.factor([-shift], self._top)
        for _ in _POWER(self._tree):
            inverse.apply(self.vectors, self.vectors, shift)
        for s in self._products:
            s[self._top] = 0.0
        inverse.apply(self.vectors, self._products, shift)
        for row in self._tree.task_rows():
            for x, s in zip(self.vectors, self._products, strict=True):
                x[row] = x[row] - s[row]

    def _orthonormalize(self, least: float) -> None:
        """Replace each vector by what is orthogonal to those before it, of length one; or by zero if little is left."""
        tree, end = self._tree, self._end
        for j, x in enumerate(self.vectors):
            before = self.vectors[:j]
            whole, *shares = self._products_with(x, (x, *before))
            for row in tree.task_rows():
                x[row] = x[row] - sum(share * y[row] for share, y in zip(shares, before, strict=True))
            (rest,) = self._products_with(x, (x,))
            enough = less((least * least) * whole, rest, 1.0, 0.0)
            factor = enough / sqrt(rest + _NEVER_ZERO)
            self.found[j][end] = enough
            for row in tree.task_rows():
                x[row] = factor * x[row]

    def _products_with(self, x: Indexed, others: Sequence[Indexed]) -> list[Any]:
        return self._sums(lambda row: [x[row] * y[row] for y in others])

    def _project(self) -> None:
        """Turn the vectors within their span, so that T couples none of them to another."""
        tree, end, X, Y, H, R = self._tree, self._end, self.vectors, self._products, self._projected, self._turns
        self._multiply()
        for place, entry in zip(
            _PLACES, self._sums(lambda row: [X[i][row] * Y[j][row] for i, j in _PLACES]), strict=True
        ):
            H[place][end] = entry
        for i, turn in enumerate(R):
            for j, array in enumerate(turn):
                array[end] = 1.0 if i == j else 0.0
        for _ in _SWEEPS(tree):
            for i, j in _PAIRS:
                self._rotate(i, j)
        shares = [[array[end] for array in turn] for turn in R]
        for row in tree.task_rows():
            for arrays in (X, Y):
                entries = [x[row] for x in arrays]
                for x, own in zip(arrays, shares, strict=True):
                    x[row] = sum(share * entry for share, entry in zip(own, entries, strict=True))
        for i, value in enumerate(self.values):
            value[end] = H[i, i][end]

    def _rotate(self, i: int, j: int) -> None:
        """A Jacobi rotation, as in `jacobi_sweep`."""
        end, H, R = self._end, self._projected, self._turns
        entry, apart = H[i, j][end], H[j, j][end] - H[i, i][end]
        root = sqrt(apart * apart + 4.0 * (entry * entry))
        tangent = less(apart, 0.0, -2.0 * entry, 2.0 * entry) / (magnitude(apart) + root + _NEVER_ZERO)
        cosine = 1.0 / sqrt(1.0 + tangent * tangent)
        sine = tangent * cosine
        H[i, i][end] = H[i, i][end] - tangent * entry
        H[j, j][end] = H[j, j][end] + tangent * entry
        H[i, j][end] = 0.0
        others = [(H[min(i, k), max(i, k)], H[min(j, k), max(j, k)]) for k in range(MOST) if k not in (i, j)]
        for one, other in (*others, *zip(R[i], R[j], strict=True)):
            x, y = one[end], other[end]
            one[end], other[end] = cosine * x - sine * y, sine * x + cosine * y

    def _sharpen(self, window: Window) -> None:
        """Solve with T − θ for vectors with θ in the window; the others become zero.

        A mixture of vectors from below and from above may have such a θ, too. Its residual is then at least √(θ high).
        """
        end = self._end
        values = [value[end] for value in self.values]
        most = [0.25 * (value * window.high) for value in values]
        factors = [
            less(residual, limit, _within(value, window), 0.0)
            for value, limit, residual in zip(values, most, self._residuals(values), strict=True)
        ]
        self.wrong[end] = sum(factors)
        for row in self._tree.task_rows():
            for x, factor in zip(self.vectors, factors, strict=True):
                x[row] = factor * x[row]
        self._own_shifts.factor(values, self._top)
        self._own_shifts.apply(self.vectors, self.vectors, 1.0)

    def _verify(self, window: Window) -> None:
        """Count vectors that were sharpened but are not right."""
        end, X, Y = self._end, self.vectors, self._products
        self._multiply()
        values = self._sums(lambda row: [x[row] * y[row] for x, y in zip(X, Y, strict=True)])
        most = _RESIDUAL * window.size
        for known, found, value, residual in zip(self.values, self.found, values, self._residuals(values), strict=True):
            known[end] = value
            self.wrong[end] = self.wrong[end] - less(residual, most * most, found[end] * _within(value, window), 0.0)

    def _residuals(self, values: Sequence[Any]) -> list[Any]:
        """|T x − θ x|² for each vector x and value θ; the products are known."""
        for row in self._tree.task_rows():
            for x, y, value in zip(self.vectors, self._products, values, strict=True):
                y[row] = y[row] - value * x[row]
        return self._sums(lambda row: [y[row] * y[row] for y in self._products])

    def _multiply(self) -> None:
        """T x for each vector x."""
        d, (left, right) = self._d, self._beside
        for group, before, after in BETWEEN(self._tree):
            rows = [*before.rows, *group.rows, *after.rows]
            for x, y in zip(self.vectors, self._products, strict=True):
                entries = [x[row] for row in rows]
                for above, own, below, row in zip(entries, entries[1:], entries[2:], group.rows, strict=False):
                    y[row] = d[row] * own + (left[row] * above + right[row] * below)

    def _sums(self, terms: Callable[[Any], Sequence[Any]]) -> list[Any]:
        """Sums of several terms over all rows."""
        end = self._end
        for array in self._sum:
            array[end] = 0.0
        count = 0
        for group, _ in DOWNWARDS(self._tree):
            parts = list(zip(*map(terms, group.rows), strict=True))
            count = len(parts)
            for array, part in zip(self._sum, parts, strict=False):
                array[end] = array[end] + sum(part)
        return [array[end] for array in self._sum[:count]]


class _Solver:
    """Solutions with T − σ = L D Lᵀ, for one shift σ or as many as there are vectors.

    Args:
        tree: Provides the rows.
        d: Diagonal of T, (r,).
        beside: Entries of T to the left and to the right of the diagonal, (r,) each.
        count: Number of shifts.
    """

    def __init__(self, tree: Tree, d: Indexed, beside: tuple[Indexed, Indexed], count: int) -> None:
        self._tree, self._d, self._beside = tree, d, beside
        self._above, self._below, self._reciprocals = ([tree.array("rows") for _ in range(count)] for _ in range(3))

    def factor(self, shifts: Sequence[Any], top: Any) -> None:
        """Factor T − σ for each shift σ.

        Args:
            shifts: The shifts.
            top: The first row.
        """
        tree, (left, right) = self._tree, self._beside
        for array in self._reciprocals:
            array[top] = 1.0
        for group, before in DOWNWARDS(tree):
            entries = [(row, self._d[row], left[row]) for row in group.rows]
            for shift, above, reciprocals in zip(shifts, self._above, self._reciprocals, strict=True):
                own = reciprocals[before.rows[0]]
                for row, diagonal, entry in entries:
                    factor = entry * own
                    pivot = (diagonal - shift) - factor * entry
                    own = 1.0 / less(magnitude(pivot), _LEAST_PIVOT, _LEAST_PIVOT, pivot)
                    above[row], reciprocals[row] = factor, own
        for row in tree.task_rows():
            for below, reciprocals in zip(self._below, self._reciprocals, strict=True):
                below[row] = right[row] * reciprocals[row]

    def apply(self, vectors: Sequence[Indexed], results: Sequence[Indexed], scale: Any) -> None:
        """scale (T − σ)⁻¹ x.

        Args:
            vectors: Vectors x, (r,) each.
            results: Their first entries have to be finite; may be the same vectors, (r,) each.
            scale: The factor.
        """
        lanes = list(zip(vectors, results, cycle(self._above), cycle(self._below), cycle(self._reciprocals)))
        for group, before in DOWNWARDS(self._tree):
            for x, result, above, *_ in lanes:
                entry = result[before.rows[0]]
                for row in group.rows:
                    entry = x[row] - above[row] * entry
                    result[row] = entry
        for group, after in UPWARDS(self._tree):
            for _, result, _, below, reciprocals in lanes:
                entry = result[after.rows[0]]
                for row in reversed(group.rows):
                    entry = (scale * reciprocals[row]) * result[row] - below[row] * entry
                    result[row] = entry


def _within(value: Any, window: Window) -> Any:
    """One if a value lies in the window, else zero."""
    return less(window.low, value, less(value, window.high, 1.0, 0.0), 0.0)
