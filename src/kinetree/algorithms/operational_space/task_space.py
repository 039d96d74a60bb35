"""Common parts of the algorithms for Λ⁻¹: the mechanism in the tree's frame, hinges, and task rows.

A task row χ is a force: χᵀ m is the component of a body's motion m along the row. In the tree's frame, all task rows
propagate through a joint with the same few multiplications, wherever the tasks are:

    χ ← χ − G (Sᵀ χ)        the joint is free to move

which is [W12] Eq. 11, χ L X with X = 1, one row at a time.

A row of a relative task is a force between two bodies: χ on the far one, −χ on the near one. Both ends are treated as
ordinary rows until the result is written, where corresponding rows are added.

[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kinetree.algorithms import tree_frame
from kinetree.algorithms.kinematics import View
from kinetree.algorithms.operational_space import center_of_mass_rows
from kinetree.recursion.mechanism import Site
from kinetree.recursion.roles import FrameRole, GroupRole, NodeRole, RowRole
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.inertia import ArticulatedInertia
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


def place(tree: Tree, q: Indexed, view: View, chi: Indexed, parts: Parts = PLAIN) -> None:
    """Transform the mechanism to the frame of its tree, and write all task rows to `chi`."""
    tree_frame.start(tree)
    tree.world.P = ArticulatedInertia.zero()

    for k, parent in tree.scatter():
        tree_frame.place(k, parent, q)
        k.P = k.C.congruence(k.M).articulated()

    rows(tree, view, chi, parts)


def rows(tree: Tree, view: View, chi: Indexed, parts: Parts = PLAIN) -> None:
    """Write all task rows to `chi[row]`; nodes must be placed."""
    for _, row, force in _applied(tree, view, parts):
        chi[row] = force


def seed(tree: Tree, view: View, chi: Indexed, parts: Parts = PLAIN) -> None:
    """Write all task rows to `chi[k, row]` of the nodes that carry them; nodes must be placed."""
    for carrier, row, force in _applied(tree, view, parts):
        chi[carrier, row] = force


def _applied(tree: Tree, view: View, parts: Parts) -> Iterator[tuple[NodeRole, RowRole, Force]]:
    """Each row with the node on which it acts."""
    for frame, carrier in tree.frames("frame"):
        seen = view(frame.X @ carrier.C, carrier.origin)
        for row in frame.rows():
            yield carrier, row, seen.T @ row.unit()
    if parts.relative:
        for near, near_carrier, far, far_carrier in tree.relatives():
            seen_near, seen_far = between(near, near_carrier, far, far_carrier)
            for row in near.rows():
                yield near_carrier, row, -(seen_near.T @ row.unit())
            for row in far.rows():
                yield far_carrier, row, seen_far.T @ row.unit()
    if parts.mass:
        for center, world in tree.frames("mass"):
            for row in center.rows():
                yield world, row, Force.zero()  # acts on no single body: see `center_of_mass_rows`


def between(
    near: FrameRole, near_carrier: NodeRole, far: FrameRole, far_carrier: NodeRole
) -> tuple[Transform, Transform]:
    """Transforms from the two carriers of a relative task to the near frame's axes at the far frame's origin.

    Each starts from the frame of its carrier's tree. For different trees the distance between their origins enters, but
    nothing else that grows with the distance from the world's origin; within one tree both transforms are bitwise
    equal.
    """
    axes, point = (near.X @ near_carrier.C).E, (far.X @ far_carrier.C).r
    apart = (far_carrier.origin - near_carrier.origin) + (far_carrier.origin_error - near_carrier.origin_error)
    return (
        Transform.of(axes, point + apart),
        Transform.of(axes, point),
    )


def hinge(k: Any, parent: Any) -> None:
    """Compute D and G of the node from its S, and add P⁺ to the parent. [J11] Eqs. 32 and 33 with A = 1."""
    k.D, k.G, P_plus = k.S.hinge(k.P, k.armature)
    parent.P += P_plus


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
    return sum(a * b for a, b in zip(one, other, strict=True))


def clear(tree: Tree, block: Indexed) -> None:
    """Set all entries to zero, the final value for pairs of tasks without a common moving ancestor."""
    for one in tree.sorted_rows():
        for other in tree.sorted_rows(one):
            block[one, other] = 0.0


def finish(tree: Tree, view: View, block: Indexed, inverse_inertia: Indexed, parts: Parts) -> None:
    """Fill in the rows of the centre of mass, given P, D and G, and write the result."""
    if parts.mass:
        tips = tree.array("sorted_rows")
        rows(tree, view, tips, parts)
        center_of_mass_rows.fill(tree, tips, block)
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
