"""A symmetric matrix in tridiagonal form, T = Q A Qᵀ, by Householder reflections. Cost O(r³).

Each reflection clears what is right of the superdiagonal in one row; the other rows follow by a symmetric update of
rank two. Q is accumulated on the way. The operations do not depend on the values, so a sample's bits depend neither on
its neighbours in the batch nor on the processor.

[GV] G. Golub, C. Van Loan, "Matrix Computations", 4th edition, Algorithm 8.3.1.
"""

from __future__ import annotations

from kinetree.algorithms.choices import less, magnitude
from kinetree.recursion.entities import Entity, Group
from kinetree.recursion.loops import Table
from kinetree.recursion.roles import GroupRole
from kinetree.recursion.setup import Setup
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.scalar import sqrt

_NEVER_ZERO = 2.0**-1000

#: A row of tasks as a member of tables.
SINGLE = Entity("single", lambda setup: setup.rows.task_row_count, {"rows": lambda _, r: r})


def single(name: str) -> Group:
    """A row in a table."""
    return Group(name, SINGLE, {"rows": "rows"}, lambda *_: 1, lambda _: [1])


def neighbours(setup: Setup) -> list[tuple[int, int]]:
    """Each row but the last with the next one."""
    return [(i, i + 1) for i in range(setup.rows.task_row_count - 1)]


_NEIGHBOURS: Table[tuple[GroupRole, GroupRole]] = Table(
    single("row"), single("next"), rows=neighbours, name="neighbours"
)


def tridiagonalize(tree: Tree, B: Indexed, V: Indexed, diagonal: Indexed, beside: Indexed) -> None:
    """Reduce a matrix to tridiagonal form.

    Args:
        tree: Provides the rows; nothing else of it is used.
        B: Symmetric, both triangles, (r, r); overwritten.
        V: Q, (r, r).
        diagonal: Of T, (r,).
        beside: Entry of T to the left of each diagonal entry; zero in the first row, (r,).
    """
    v, p, u, total, product = (tree.array("rows") for _ in range(5))
    for one in tree.task_rows():
        beside[one] = 0.0
        total[one] = 0.0
        product[one] = 0.0
        for other in tree.task_rows():
            V[one, other] = 0.0
    for one in tree.task_rows():
        V[one, one] = 1.0

    for row, after in _NEIGHBOURS(tree):
        (k,), (first,) = row.rows, after.rows
        # the reflection I − β v vᵀ takes the rest of row k to its first entry
        for j in tree.task_rows(first):
            entry = B[k, j]
            v[j] = entry
            p[j] = 0.0
            total[k] = total[k] + entry * entry
        norm, leading = sqrt(total[k]), B[k, first]
        beside[first] = less(leading, 0.0, norm, -norm)
        v[first] = leading + less(leading, 0.0, -norm, norm)
        beta = 1.0 / (norm * (norm + magnitude(leading)) + _NEVER_ZERO)
        # B ← B − v wᵀ − w vᵀ with p = B v, w = β p − ½ β² (pᵀv) v
        for i in tree.task_rows(first):
            entry = v[i]
            for j in tree.task_rows(first):
                p[j] = p[j] + entry * B[i, j]
        for j in tree.task_rows(first):
            product[k] = product[k] + p[j] * v[j]
        half = 0.5 * (beta * product[k])
        for j in tree.task_rows(first):
            p[j] = beta * (p[j] - half * v[j])
        for i in tree.task_rows(first):
            x, y = v[i], p[i]
            for j in tree.task_rows(first):
                B[i, j] = B[i, j] - (x * p[j] + y * v[j])
        # V ← V − β v (vᵀV)
        for j in tree.task_rows():
            u[j] = 0.0
        for i in tree.task_rows(first):
            entry = v[i]
            for j in tree.task_rows():
                u[j] = u[j] + entry * V[i, j]
        for i in tree.task_rows(first):
            entry = beta * v[i]
            for j in tree.task_rows():
                V[i, j] = V[i, j] - entry * u[j]

    for one in tree.task_rows():
        diagonal[one] = B[one, one]
