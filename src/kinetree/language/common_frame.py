"""A view of the tree in which all nodes share one frame, so that every weight is the identity.

`in_common_frame(algorithm)` runs the same text on that view:

    the text says                    own coordinates                       common frame
    k.weight(q[k])                   the node's weight                     places the node; the identity
    k.H, k.M                         from the kind                         in the common frame
    k.coriolis, k.gyroscopic         from the kind                         V × H v, V ×* M V
    frame.X                          from its carrier                      from the common frame
    tree.seen(reference, …)          from the carrier's coordinates        from the common frame
    tree.inward, tree.travelling     weights change entries on the way     they do not change: one for each column

Products with the identity are no operations, and what nobody reads is removed as dead code. So M from [J11]'s recursion
becomes the composite rigid-body algorithm. Columns that pass many nodes need no propagation here, but each node is
first brought to the common frame.

The frame has the world's axes. Its origin, the reference point of moments and velocities, moves with the robot: an
inertia about a point at distance d contains m d², which costs digits. It is the origin of the first node from the base
that can rotate. Everything before that node only translates. Pure translations are the same at every point, so branches
behind prismatic joints can have reference points of their own:

    mechanism                                         reference points
    revolute, spherical or floating root              the root's origin
    two prismatic joints, then a revolute arm         the origin of the first revolute joint
    two arms on a prismatic joint, or two robots      one for each

A prismatic joint has one too, its own origin. In the gather it receives sums of inertias and moments about several
points, but its motion uses only their linear parts, which do not depend on the point.

The limit of this approach: behind a joint that rotates there is only one reference point. Parts of a robot d apart
have errors of rounding × m d² in their inertias, 1e-10 kg m² for 1 kg at 1 km. Texts in own coordinates have no
reference point and no such limit.

The use of one inertial frame for all nodes is that of [JR] (A. Jain, G. Rodriguez, "Linearization of manipulator
dynamics using spatial operators", 1993) and of Pinocchio's world convention.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.

The choice of a view for recursions of matrices: own coordinates of nodes, or the common frame of a tree.

In the common frame, columns need no propagation, but each node is first brought there. In own coordinates, a column is
propagated through each ancestor of its node, with weights that have few steps (`spatial/axial.py`), and nodes cost
little else. For M, with weights of any shape, in operations:

    common frame        230 per node + 11 per ancestor of a column
    own coordinates      70 per node + 34 per ancestor of a column, fewer if axes are parallel or at right angles

The Coriolis matrix and linearised inverse dynamics cross over at fewer ancestors on chains with axes in any direction,
but later on robots. Times of single calls cross over later than operations do, those of batches earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from kinetree.language.algorithm import Algorithm
from kinetree.language.contract import components, refuse
from kinetree.language.mechanism import Mechanism
from kinetree.language.roles import FrameRole, NodeRole
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.reproducible import sum_with_error
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array, Transposed, Value

#: Ancestors of a node with a column, on average over the columns.
_MOST_ANCESTORS = 8


def prefers_common_frame(mechanism: Mechanism) -> bool:
    """Whether matrices take less time in the common frame than in own coordinates. Depends on the tree alone."""
    depths, sizes = mechanism.topology.depths, [kind.nv for kind in mechanism.kinds]
    columns = sum(sizes)
    ancestors = sum((depth - 1) * size for depth, size in zip(depths, sizes, strict=True))
    return ancestors > _MOST_ANCESTORS * columns


#: "own" (each node in its own coordinates), "common" (all in the common frame), or what tells for a tree of rigid
#: bodies whether it should be the common frame.
View = str | Callable[[Mechanism], bool]


class Identity(Value):
    """The weight of every node in the common frame."""

    __slots__ = ()
    size = 0

    def __matmul__(self, motion: Any) -> Any:
        return motion

    @property
    def T(self) -> Transposed[Any, Any]:
        return Transposed(lambda force: force)

    def congruence(self, inertia: Any) -> Any:
        return inertia

    def rate(self, _: Any) -> Any:
        refuse("a derivative of an algorithm runs in own coordinates: it has no view in the common frame")


class CommonNode(NodeRole):
    """A rigid node seen in the common frame. Hidden fields hold what `weight` finds out."""

    __slots__ = ("_parent",)

    @classmethod
    def of(cls, role: NodeRole, parent: Any) -> CommonNode:
        """The node of a role, and its parent if the loop has one."""
        made = cls(role._cell, role._role, role._right, role._ledger, role._known)
        object.__setattr__(made, "_parent", parent)
        return made

    def weight(self, q: Array) -> Identity:
        """Set C, from the common frame to the node; in the common frame, its motions S, a basis of them, its inertia R.

        `slides` is 1 on the world and on nodes that cannot rotate, 0 on all others. `origin_error` is the rounding
        error of the frame's origin, which makes differences of origins exact.
        """
        parent, H = self._parent, super().H
        slides = parent.kept("slides")[0]
        C, shift = (super().weight(q) @ parent.kept("C")).referred(slides)
        origin, error = sum_with_error(parent.kept("origin"), shift)
        self.keep("C", C)
        self.keep("origin", origin)
        self.keep("origin_error", parent.kept("origin_error") + error)
        self.keep("slides", np.array([slides * H.translates]))
        self.keep("S", H.seen(C, self.armature))
        self.keep("basis", H.basis(C, self.armature))
        self.keep("R", C.congruence(super().M))
        return Identity(np.zeros(0))

    @property
    def H(self) -> Any:
        return self.kept("S")

    @property
    def subspace(self) -> Any:
        return self.kept("basis")

    def in_joint(self, x: Array) -> Array:
        found: Array = super().H.in_joint(self.kept("C"), self.armature, x)
        return found

    @property
    def M(self) -> Any:
        return self.kept("R")

    def coriolis(self, velocity: Any, v: Array, _carrier: Any = None) -> Any:
        return velocity.cross(self.H @ v)

    def gyroscopic(self, velocity: Any, _v: Array) -> Any:
        return velocity.cross(self.M @ velocity)


class _CommonWorld(NodeRole):
    """The world. Forces and inertias that nodes add up there are about several points; only plain numbers are read."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        if not isinstance(value, np.ndarray):
            refuse(f"`world.{name}` is read, but in the common frame it is about several points: use own coordinates")
        return value


class _Unchanged:
    """Entries that are set at a column's own node, and that weights do not change on the way to the tips."""

    def __init__(self, array: Indexed) -> None:
        self._array = array

    def __getitem__(self, keys: Any) -> Any:
        return self._array[keys[1]]

    def __setitem__(self, keys: Any, value: Any) -> None:
        _, column = keys
        if column.local is not None:
            self._array[column] = value
        elif components(value).tobytes() != components(self._array[column]).tobytes():  # symbols: the same ones
            refuse("an entry of tree.travelling changes by the node's weight only: write S[k, c] = X @ S[parent, c]")


class CommonTree(Tree):
    """A tree of rigid bodies in the common frame."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        world = tree.world
        self.world = _CommonWorld(world._cell, world._role, world._right, world._ledger)
        self.gravity = tree.gravity
        self.rigid_bodies = self.rigid_multibody = True
        for name, value in (("C", Transform.identity()), ("slides", np.ones(1))):
            tree.world.keep(name, value)
        for name in ("origin", "origin_error"):
            tree.world.keep(name, np.zeros(3))

    def visit(self, loop: Any, over: Any, start: Any, stop: Any = None) -> Iterator[Any]:
        for visited in self._tree.visit(loop, over, start, stop):
            yield self._seen(visited) if isinstance(visited, tuple) else visited

    def _seen(self, visited: tuple[Any, ...]) -> tuple[Any, ...]:
        """The roles of a row in the common frame. A frame is followed by the node that carries it, if that is known."""
        found = list[Any]()
        for role, after in zip(visited, (*visited[1:], None), strict=True):
            if isinstance(role, FrameRole):
                role.X = role.X @ after.kept("C") if isinstance(after, NodeRole) else None  # type: ignore[assignment]
            known = isinstance(role, NodeRole) and role._known
            found.append(CommonNode.of(role, after) if known else role)
        return tuple(found)

    def array(self, *over: str, like: str = "") -> Indexed:
        return self._tree.array(*over, like=like)

    def inward(self, over: str, like: str = "") -> Indexed:
        return self._tree.inward(over, like)

    def travelling(self, over: str, like: str = "") -> Indexed:  # noqa: ARG002 - all nodes are rigid
        return _Unchanged(self._tree.array(over))

    def seen(self, reference: str, frame: FrameRole, carrier: NodeRole) -> Transform:
        if reference == "local":
            return frame.X
        return Transform.of(np.eye(3), -carrier.kept("origin") if reference == "world" else frame.X.r)

    def pose(self, frame: FrameRole, carrier: NodeRole) -> Transform:
        return Transform.of(frame.X.E, frame.X.r + carrier.kept("origin"))

    def apart(self, near: FrameRole, near_carrier: NodeRole, far: FrameRole, far_carrier: NodeRole) -> Transform:
        way = (far.X.r - near.X.r) + _apart(near_carrier, far_carrier)
        return Transform.of(far.X.E @ near.X.E.T, near.X.E @ way)

    def between(
        self, near: FrameRole, near_carrier: NodeRole, far: FrameRole, far_carrier: NodeRole
    ) -> tuple[Transform, Transform]:
        axes, point = near.X.E, far.X.r
        return Transform.of(axes, point + _apart(near_carrier, far_carrier)), Transform.of(axes, point)

    def first_moment(self, k: NodeRole) -> Array:
        moment: Array = k.M.first_moment + k.M.mass * k.kept("origin")
        return moment

    def number(self, entity: Any, handle: Any, what: str) -> Any:
        return self._tree.number(entity, handle, what)

    def cell(self, node: Any, handle: Any, key: Any) -> Any:
        return self._tree.cell(node, handle, key)

    def placement(self, handle: Any) -> Array:
        return self._tree.placement(handle)


def _apart(near: NodeRole, far: NodeRole) -> Array:
    """From the origin of the frame of one node's tree to that of another's."""
    way: Array = (far.kept("origin") - near.kept("origin")) + (far.kept("origin_error") - near.kept("origin_error"))
    return way


@lru_cache(maxsize=256)
def in_common_frame(algorithm: Algorithm) -> Algorithm:
    """The same text, run in the common frame: for trees of rigid bodies, and without derivatives by `forward_mode`."""

    def run(tree: Any, *arguments: Any) -> None:
        if not isinstance(tree, Tree):
            refuse("a derivative of an algorithm runs in own coordinates: it has no view in the common frame")
        algorithm.run(CommonTree(tree), *arguments)

    return replace(algorithm, name=f"{algorithm.name} in the common frame", run=run, rigid=True, own=algorithm)


def in_view(algorithm: Algorithm, mechanism: Mechanism, view: View) -> Algorithm:
    """An algorithm as it runs on a mechanism: in its view, or in own coordinates where nodes are no rigid bodies."""
    common = view == "common" if isinstance(view, str) else view(mechanism)
    return in_common_frame(algorithm) if common and mechanism.first_general is None else algorithm
