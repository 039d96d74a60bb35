"""A symmetric matrix in tridiagonal form, T = Q A Qᵀ, by Householder reflections. Cost O(r³).

Each reflection clears what is right of the superdiagonal in one row; the other rows follow by a symmetric update of
rank two. Q is accumulated on the way. The operations do not depend on the values, so a sample's bits depend neither on
its neighbours in the batch nor on the processor.

[GV] G. Golub, C. Van Loan, "Matrix Computations", 4th edition, Algorithm 8.3.1.
"""

from __future__ import annotations

from kinetree.algorithms.choices import less, magnitude
from kinetree.recursion.entities import TASK, Entity, Group
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


#: Each row but the last with the next one, as a loop.
NEIGHBOURS: Table[tuple[GroupRole, GroupRole]] = Table(
    single("row"), single("next"), rows=neighbours, name="neighbours"
)

_GROUP = Group("rows", TASK, {"rows": "rows"}, lambda setup, place: len(setup.rows.tasks[place]))


def _after_one(setup: Setup) -> list[tuple[int, int]]:
    return [(place, max(task.start - 1, 0)) for place, task in enumerate(setup.rows.tasks)]


def group_of(setup: Setup, row: int) -> int:
    """The number of the group of up to six rows that a row belongs to."""
    return next(place for place, task in enumerate(setup.rows.tasks) if row in task)


# Groups of up to six rows. What passes from row to row stays in registers within a group.
#: All groups, each with the row before it; the first group has its own first row.
DOWNWARDS: Table[tuple[GroupRole, GroupRole]] = Table(
    _GROUP, single("before"), rows=_after_one, name="groups_downwards"
)
#: The group of a given row, and those after it.
_FROM: Table[tuple[GroupRole, GroupRole]] = Table(
    *DOWNWARDS.roles,
    of=DOWNWARDS,
    over=SINGLE,
    part=lambda setup, row: range(group_of(setup, row), len(setup.rows.tasks)),
    name="groups_from",
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

    for row, after in NEIGHBOURS(tree):
        (k,), (first,) = row.rows, after.rows
        # the reflection I − β v vᵀ takes the rest of row k to its first entry
        v[k] = 0.0
        for j in tree.task_rows(first):
            v[j] = B[k, j]
            p[j] = 0.0
        for group, _ in _FROM(tree, after):
            total[k] = total[k] + sum(v[i] * v[i] for i in group.rows)
        norm, leading = sqrt(total[k]), B[k, first]
        beside[first] = less(leading, 0.0, norm, -norm)
        v[first] = leading + less(leading, 0.0, -norm, norm)
        beta = 1.0 / (norm * (norm + magnitude(leading)) + _NEVER_ZERO)
        # B ← B − v wᵀ − w vᵀ with p = B v, w = β p − ½ β² (pᵀv) v; V ← V − β v uᵀ with u = Vᵀv
        for j in tree.task_rows():
            u[j] = 0.0
        for group, _ in _FROM(tree, after):
            entries = [v[i] for i in group.rows]
            for j in tree.task_rows(first):
                p[j] = p[j] + sum(entry * B[i, j] for entry, i in zip(entries, group.rows, strict=True))
            for j in tree.task_rows():
                u[j] = u[j] + sum(entry * V[i, j] for entry, i in zip(entries, group.rows, strict=True))
        p[k] = 0.0
        for group, _ in _FROM(tree, after):
            product[k] = product[k] + sum(p[i] * v[i] for i in group.rows)
        half = 0.5 * (beta * product[k])
        for j in tree.task_rows(first):
            p[j] = beta * (p[j] - half * v[j])
        for group, _ in _FROM(tree, after):
            factors = [(i, v[i], p[i]) for i in group.rows]
            for j in tree.task_rows(first):
                x, y = p[j], v[j]
                for i, own, other in factors:
                    B[i, j] = B[i, j] - (own * x + other * y)
        for i in tree.task_rows(first):
            scaled = beta * v[i]
            for j in tree.task_rows():
                V[i, j] = V[i, j] - scaled * u[j]

    for one in tree.task_rows():
        diagonal[one] = B[one, one]
