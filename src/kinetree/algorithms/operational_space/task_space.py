"""Common parts of the algorithms for tasks: nodes in place, and task rows as forces on the nodes that carry them.

A task row χ is a force: χᵀ m is the component of a node's motion m along the row. Through a joint that is free to move,
and by the node's weight X to the parent, it becomes

    χ(p) = Xᵀ (χ − G Hᵀχ)

which is [W12] Eq. 11, χ L X, one row at a time. In the common frame, X = 1.

A row of a relative task is a force between two bodies: χ on the far one, −χ on the near one. Both ends are treated as
ordinary rows until the result is written, where corresponding rows are added. Frames sit on rigid bodies or on outlets
of other nodes, so rows start as forces of six components.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kinetree.algorithms import articulated_inertia
from kinetree.algorithms.operational_space import center_of_mass_rows
from kinetree.recursion.mechanism import Site
from kinetree.recursion.roles import GroupRole, NodeRole, RowRole
from kinetree.recursion.tree import Indexed, Tree, Zeros
from kinetree.spatial.motion import Force
from kinetree.spatial.symmetric import Factor
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


class Parts(NamedTuple):
    """The kinds of tasks present besides the motion of single frames.

    Attributes:
        relative: Tasks between two frames.
        mass: The centre of mass.
    """

    relative: bool = False
    mass: bool = False

    @classmethod
    def of(cls, sites: Iterable[Site]) -> Parts:
        """The kinds of tasks at the given sites."""
        parts = {site.part for site in sites}
        return cls("near" in parts, "mass" in parts)

    @property
    def suffix(self) -> str:
        """Suffix that makes the names of algorithms unique."""
        return "_relative" * self.relative + "_mass" * self.mass


#: Only the motion of single frames.
PLAIN = Parts()


def place(tree: Tree, q: Indexed) -> int:
    """Set weight X, pose C and inertia P of every node, and `none`, no force on it, which has the type of rows there.

    Returns:
        The largest number of degrees of freedom of a node: how many arrays `accumulate` needs.
    """
    articulated_inertia.start(tree)
    tree.world.C = Transform.identity()
    most = 0
    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        k.C = k.X @ parent.C
        k.P = k.M.articulated()
        k.none = k.M @ (k.H @ Zeros()[k])
        most = max(most, len(k.armature))
    return most


def seed(tree: Tree, reference: str, chi: Indexed, parts: Parts = PLAIN) -> None:
    """Write all task rows to `chi[k, row]` of the nodes that carry them; nodes must be placed."""
    for carrier, row, force in _applied(tree, reference, parts):
        chi[carrier, row] = force


def rows(tree: Tree, reference: str, tips: Indexed, parts: Parts = PLAIN) -> None:
    """Write all task rows to `tips[row]`, at the nodes that carry them; nodes must be placed."""
    for _, row, force in _applied(tree, reference, parts):
        tips[row] = force


def _applied(tree: Tree, reference: str, parts: Parts) -> Iterator[tuple[NodeRole, RowRole, Force]]:
    """Each row with the node on which it acts."""
    for frame, carrier in tree.frames("frame"):
        seen = tree.seen(reference, frame, carrier)
        for row in frame.rows():
            yield carrier, row, seen.T @ row.unit()
    if parts.relative:
        for near, near_carrier, far, far_carrier in tree.relatives():
            seen_near, seen_far = tree.between(near, near_carrier, far, far_carrier)
            for row in near.rows():
                yield near_carrier, row, -(seen_near.T @ row.unit())
            for row in far.rows():
                yield far_carrier, row, seen_far.T @ row.unit()
    if parts.mass:
        for center, world in tree.frames("mass"):
            for row in center.rows():
                yield world, row, Force.zero()  # acts on no single body: see `center_of_mass_rows`


class PerRow:
    """Rows χ[k, row] of rigid bodies, each at the node that it has reached so far: one entry for each row."""

    def __init__(self, array: Indexed) -> None:
        self._array = array

    def __getitem__(self, keys: Any) -> Any:
        return self._array[keys[1]]

    def __setitem__(self, keys: Any, value: Any) -> None:
        self._array[keys[1]] = value


def hinge(k: Any, parent: Any) -> None:
    """[J11] Eqs. 32 and 33 with any basis of the joint's motions: sets D and G, and adds A P⁺ A* to the parent."""
    k.D, k.G, P_plus = k.subspace.hinge(k.P, k.armature)
    parent.P += k.X.congruence(P_plus)


def accumulate(
    group: GroupRole, later: Iterator[RowRole], D: Factor, y: list[Array], scaled: list[Indexed], block: Indexed
) -> None:
    """Add y D⁻¹ yᵀ to Λ⁻¹, for all pairs within a group of rows and between the group and later rows.

    The factors of D = L d Lᵀ are used instead of D⁻¹, so that joints with many degrees of freedom need no dense
    inverse: `scaled` holds L⁻¹ yᵀ of each row.
    """
    parts = [D.forward(of_row) for of_row in y]
    give = [[part * r for part, r in zip(of_row, D.reciprocals, strict=True)] for of_row in parts]
    for i, one in enumerate(group.rows):
        for array, part in zip(scaled, parts[i], strict=False):
            array[one] = part
        for j, other in enumerate(group.rows[i:], start=i):
            block[one, other] = block[one, other] + _dot(give[i], parts[j])
    for other in later:
        theirs = [scaled[i][other] for i in range(D.order)]
        for one, own in zip(group.rows, give, strict=True):
            block[one, other] = block[one, other] + _dot(own, theirs)


def _dot(one: list[Any], other: list[Any]) -> Any:
    return sum((a * b for a, b in zip(one, other, strict=True)), 0.0)


def clear(tree: Tree, block: Indexed) -> None:
    """Set all entries to zero, the final value for pairs of tasks without a common moving ancestor."""
    for one in tree.sorted_rows():
        for other in tree.sorted_rows(one):
            block[one, other] = 0.0


def finish(
    tree: Tree,
    reference: str,
    block: Indexed,
    inverse_inertia: Indexed,
    parts: Parts,
    motions: Callable[[Any], Any] = lambda k: k.subspace,
) -> None:
    """Fill in the rows of the centre of mass, given X, P, D and G, and write the result.

    Args:
        tree: The mechanism.
        reference: As of `Tree.seen`.
        block: Λ⁻¹ of the rows of all frames, depth first.
        inverse_inertia: Λ⁻¹.
        parts: The kinds of tasks present.
        motions: The basis of a node's motions to which D and G belong.
    """
    if parts.mass:
        tips = tree.array("sorted_rows")
        rows(tree, reference, tips, parts)
        center_of_mass_rows.fill(tree, tips, block, motions)
    hand_over(tree, block, inverse_inertia, parts)


def hand_over(tree: Tree, block: Indexed, inverse_inertia: Indexed, parts: Parts = PLAIN) -> None:
    """Write the result in the caller's task order, adding the two ends of relative tasks."""
    if not parts.relative:
        for one in tree.sorted_rows():
            for other in tree.sorted_rows(one):
                inverse_inertia[one, other] = block[one, other]
                inverse_inertia[other, one] = block[one, other]
        return
    for one in tree.sorted_rows():
        block[one, one] = 0.5 * block[one, one]  # added twice
        for other in tree.sorted_rows(one):
            inverse_inertia[one, other] = inverse_inertia[one, other] + block[one, other]
            inverse_inertia[other, one] = inverse_inertia[other, one] + block[one, other]
