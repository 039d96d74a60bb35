"""Products of matrices that are given, such as Λ of tasks that may be singular. Cost O(n²r)."""

from __future__ import annotations

from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree


@algorithm(inertia=("rows", "rows"), acceleration=("rows",), force=("rows",), outputs=("force",))
def opposing_force(tree: Tree, inertia: Indexed, acceleration: Indexed, force: Indexed) -> None:
    """−Λ ẍ, the force that cancels an acceleration of the tasks.

    Args:
        tree: Provides the rows.
        inertia: Λ, (r, r).
        acceleration: ẍ, (r,).
        force: (r,).
    """
    total = tree.array("rows")
    for one in tree.task_rows():
        total[one] = 0.0
    for other in tree.task_rows():
        entry = acceleration[other]
        for one in tree.task_rows():
            total[one] = total[one] - inertia[other, one] * entry
    for one in tree.task_rows():
        force[one] = total[one]


@algorithm(base=("v",), jacobian=("rows", "v"), force=("rows",), tau=("v",), outputs=("tau",), any_node=True)
def with_row_forces(tree: Tree, base: Indexed, jacobian: Indexed, force: Indexed, tau: Indexed) -> None:
    """Joint forces τ + Jᵀ f.

    Args:
        tree: Provides rows and columns.
        base: τ, (nv,).
        jacobian: J, (r, nv).
        force: f, (r,).
        tau: (nv,).
    """
    total = tree.array("v")
    for c in tree.columns():
        total[c] = base[c]
    for row in tree.task_rows():
        entry = force[row]
        for c in tree.columns():
            total[c] = total[c] + entry * jacobian[row, c]
    for c in tree.columns():
        tau[c] = total[c]


@algorithm(
    response=("v", "rows"),
    jacobian=("rows", "v"),
    inertia=("rows", "rows"),
    inverse=("v", "rows"),
    nullspace=("v", "v"),
    outputs=("inverse", "nullspace"),
    any_node=True,
)
def projections(
    tree: Tree, response: Indexed, jacobian: Indexed, inertia: Indexed, inverse: Indexed, nullspace: Indexed
) -> None:
    """J̄ = M⁻¹JᵀΛ and N = 1 − J̄J.

    Args:
        tree: Provides rows and columns.
        response: M⁻¹Jᵀ, (nv, r).
        jacobian: J, (r, nv).
        inertia: Λ, (r, r).
        inverse: J̄, (nv, r).
        nullspace: N, (nv, nv).
    """
    J_bar, N = tree.array("v", "rows"), tree.array("v", "v")
    for c in tree.columns():
        for row in tree.task_rows():
            J_bar[c, row] = 0.0
        for other in tree.task_rows():
            entry = response[c, other]
            for row in tree.task_rows():
                J_bar[c, row] = J_bar[c, row] + entry * inertia[other, row]
        for o in tree.columns():
            N[c, o] = 0.0
        N[c, c] = 1.0
        for row in tree.task_rows():
            entry = J_bar[c, row]
            inverse[c, row] = entry
            for o in tree.columns():
                N[c, o] = N[c, o] - entry * jacobian[row, o]
        for o in tree.columns():
            nullspace[c, o] = N[c, o]


@algorithm(
    jacobian_rate=("frames", 6, "v"),
    response=("v", "rows"),
    coriolis=("v", "v"),
    rate=("rows", "rows"),
    outputs=("rate",),
    symmetric=("rate",),
    any_node=True,
)
def inverse_inertia_rate(
    tree: Tree, jacobian_rate: Indexed, response: Indexed, coriolis: Indexed, rate: Indexed
) -> None:
    """The rate of Λ⁻¹ = J M⁻¹Jᵀ: J̇ M⁻¹Jᵀ − J M⁻¹ C M⁻¹Jᵀ plus its transpose, since Ṁ = C + Cᵀ.

    Args:
        tree: Provides frames, rows and columns.
        jacobian_rate: J̇ of all components of the frames, (m, 6, nv).
        response: M⁻¹Jᵀ, (nv, r).
        coriolis: C, (nv, nv).
        rate: (r, r).
    """
    left, half = tree.array("rows", "v"), tree.array("rows", "rows")  # J̇ − J M⁻¹ C, and that times M⁻¹Jᵀ
    for frame, _ in tree.frames():
        for c in tree.columns():
            components = jacobian_rate[frame, c]
            for row in frame.rows():
                left[row, c] = components[row.component]
    for c in tree.columns():
        for row in tree.task_rows():
            entry = response[c, row]
            for o in tree.columns():
                left[row, o] = left[row, o] - entry * coriolis[c, o]
    for one in tree.task_rows():
        for other in tree.task_rows():
            half[one, other] = 0.0
    for c in tree.columns():
        for one in tree.task_rows():
            entry = left[one, c]
            for other in tree.task_rows():
                half[one, other] = half[one, other] + entry * response[c, other]
    for one in tree.task_rows():
        for other in tree.task_rows(one):
            rate[one, other] = half[one, other] + half[other, one]
