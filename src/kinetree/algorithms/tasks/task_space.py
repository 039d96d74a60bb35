"""What algorithms for tasks share: nodes in place, and task rows as forces on the nodes that carry them.

A task row χ is a force: χᵀ m is the component of a node's motion m along the row. Through a joint that is free to move,
and by the node's weight X to the parent, it becomes

    χ(p) = Xᵀ (χ − G Hᵀχ)

which is [W12] Eq. 11, χ L X, one row at a time. In the common frame, X = 1.

A row of a relative task is a force between two bodies: χ on the far one, −χ on the near one. Both ends are treated as
ordinary rows until the result is written, where corresponding rows are added. Frames sit on rigid bodies or on outlets
of other nodes, so rows start as forces of six components.

A row of the centre of mass is a force on every body, in proportion to its mass: M e/m_all, where e is the motion of the
body when the world moves along x, y or z and all joints are locked. It acts on no single body. The sum of these forces
at each node is already known: with P⁺ = (1 − G Hᵀ) P,

    χ(k) = M(k) e + Σ Xᵀ (1 − G Hᵀ) χ(child) = P(k) e        times 1/m_all

by the equivalence of gravity and acceleration. So in Λ⁻¹ no inward propagation is needed, and outward only three
columns whatever the tasks, in O(n + r):

    pass      loop        leaves
    answer    scatter     acceleration A of each body per unit force along x, y, z; contribution of each joint
    total     gather      contribution of all joints; total mass
    rows      frames      A projected on each task row

The block of the centre of mass with itself is Σ yᵀ D⁻¹ y with y = Hᵀ P e, the sum that `pv_osim` forms for other rows.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from kinetree.algorithms.dynamics import inertias
from kinetree.language.mechanism import Site
from kinetree.language.roles import GroupRole, NodeRole, RowRole
from kinetree.language.tree import Indexed, Tree, Zeros
from kinetree.spatial.inertia import Factor
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.rotation import pack3, stack, unpack3
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array

_AXES = range(3)


def fall(tree: Tree) -> None:
    """Set e0, e1 and e2, the motions e of every node, which has a weight X."""
    for i in _AXES:
        setattr(tree.world, f"e{i}", Motion(np.eye(6)[3 + i]))
    for k, parent in tree.scatter():
        for i in _AXES:
            setattr(k, f"e{i}", k.X @ getattr(parent, f"e{i}"))


def mass(tree: Tree) -> Any:
    """Total mass of all nodes; needs the motions of `fall`."""
    tree.world.heavy = np.zeros(1)
    for k, _ in tree.scatter():
        k.heavy = np.array([k.e0.dot(k.M @ k.e0)])
    for k, parent in tree.gather():
        parent.heavy += k.heavy
    return tree.world.heavy[0]


def center_of_mass(tree: Tree) -> Array:
    """Its position in the world; nodes have weights X and poses C."""
    fall(tree)
    share = 1.0 / mass(tree)
    tree.world.moment = np.zeros(3)
    for k, _ in tree.scatter():
        k.moment = tree.first_moment(k)
    for k, parent in tree.gather():
        parent.moment += k.moment
    place: Array = tree.world.moment * share
    return place


def center_of_mass_jacobian(tree: Tree, J: Indexed) -> None:
    """Its rows of J: momenta of composite inertias per joint velocity, divided by the mass. Needs X at every node."""
    fall(tree)
    share = 1.0 / mass(tree)
    own = [tree.array("v") for _ in _AXES]
    inertias.start_composite(tree)
    for k, _ in tree.scatter():
        k.R = inertias.own(tree, k)
    for k, parent in tree.gather():
        for c, unit in zip(k.columns(), np.eye(len(k.armature)), strict=True):
            momentum = k.R @ (k.H @ unit)
            for i in _AXES:
                own[i][c] = getattr(k, f"e{i}").dot(momentum)
        parent.R += k.X.congruence(k.R)
    for center, _ in tree.frames("mass"):
        for row in center.rows():
            axis = int(np.argmax(row.unit().linear))
            for c in tree.columns():
                J[row, c] = own[axis][c] * share


def _fill_center_of_mass(tree: Tree, tips: Indexed, block: Indexed, motions: Callable[[Any], Any]) -> None:
    """Fill the blocks of Λ⁻¹ that belong to the centre of mass, given X, P, D and G.

    `tips` are all task rows, at the nodes on which they act, and zero for the centre of mass.
    """
    side = tree.array("sorted_rows")  # entries of each row for forces along x, y and z
    fall(tree)
    for i in _AXES:
        setattr(tree.world, f"A{i}", Motion.zero())
    tree.world.total = np.zeros(7)

    for k, parent in tree.scatter():
        H, D = motions(k), k.D
        y = [H.T @ (k.P @ getattr(k, f"e{i}")) for i in _AXES]
        for i in _AXES:
            onward = k.X @ getattr(parent, f"A{i}")
            setattr(k, f"A{i}", onward + H @ (D.solve(y[i]) - k.G.T @ onward))
        steps = zip(np.array([D.forward(each) for each in y]).T, D.reciprocals, strict=True)
        given = sum((np.outer(step, step) * r for step, r in steps), np.zeros((3, 3)))
        k.total = stack(k.e0.dot(k.M @ k.e0), pack3(given))
    for k, parent in tree.gather():
        parent.total += k.total

    share = 1.0 / tree.world.total[0]
    corner = unpack3(tree.world.total[1:]) * (share * share)
    for frame, carrier in tree.frames():
        for row in tree.rows_of(frame):
            side[row] = np.array([getattr(carrier, f"A{i}").dot(tips[row]) for i in _AXES]) * share
    for center, _ in tree.frames("mass"):
        for row in center.rows():
            side[row] = corner @ row.unit().linear
    for center, _ in tree.frames("mass"):
        for row in center.rows():
            for other in tree.sorted_rows():
                block[row, other] = side[other] @ row.unit().linear


class TaskKinds(NamedTuple):
    """The kinds of tasks present besides the motion of single frames: between two frames, of the centre of mass."""

    relative: bool = False
    mass: bool = False

    @classmethod
    def of(cls, sites: Iterable[Site]) -> TaskKinds:
        """The kinds of tasks at the given sites."""
        parts = {site.part for site in sites}
        return cls("near" in parts, "mass" in parts)

    @property
    def suffix(self) -> str:
        """Suffix that makes the names of algorithms unique."""
        return "_relative" * self.relative + "_mass" * self.mass


#: Only the motion of single frames.
PLAIN = TaskKinds()


def place(tree: Tree, q: Indexed) -> int:
    """Set weight X, pose C and inertia P of every node, and `none`, no force on it, which has the type of rows there.

    Returns the largest number of degrees of freedom of a node: how many arrays `accumulate` needs.
    """
    inertias.start_articulated(tree)
    tree.world.C = Transform.identity()
    most = 0
    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        k.C = k.X @ parent.C
        k.P = k.M.articulated()
        k.none = k.M @ (k.H @ Zeros()[k])
        most = max(most, len(k.armature))
    return most


def seed(tree: Tree, reference: str, chi: Indexed, parts: TaskKinds = PLAIN) -> None:
    """Write all task rows to `chi[k, row]` of the nodes that carry them; nodes must be placed."""
    for carrier, row, force in _applied(tree, reference, parts):
        chi[carrier, row] = force


def rows(tree: Tree, reference: str, tips: Indexed, parts: TaskKinds = PLAIN) -> None:
    """Write all task rows to `tips[row]`, at the nodes that carry them; nodes must be placed."""
    for _, row, force in _applied(tree, reference, parts):
        tips[row] = force


def _applied(tree: Tree, reference: str, parts: TaskKinds) -> Iterator[tuple[NodeRole, RowRole, Force]]:
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
                yield world, row, Force.zero()  # acts on no single body


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
    tree: Tree, reference: str, block: Indexed, inverse_inertia: Indexed, parts: TaskKinds,
    motions: Callable[[Any], Any] = lambda k: k.subspace,
) -> None:  # fmt: skip
    """Write Λ⁻¹, given X, P, D and G of nodes and its block of the rows of all frames, depth first.

    `motions` is the basis of a node's motions to which D and G belong.
    """
    if parts.mass:
        tips = tree.array("sorted_rows")
        rows(tree, reference, tips, parts)
        _fill_center_of_mass(tree, tips, block, motions)
    hand_over(tree, block, inverse_inertia, parts)


def hand_over(tree: Tree, block: Indexed, inverse_inertia: Indexed, parts: TaskKinds = PLAIN) -> None:
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
