"""Frames on nodes of any kind: the rows of tasks as forces on the nodes that carry them.

Rows are expressed in the coordinates of the carrier; only their axes refer to the world.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kinetree.algorithms.operational_space.task_space import Parts
from kinetree.recursion.roles import FrameRole, NodeRole, RowRole
from kinetree.recursion.tree import Indexed, Tree, Zeros
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.transform import Transform

#: Unit accelerations of the world along x, y and z.
ALONG = tuple(Motion(np.eye(6)[i]) for i in (3, 4, 5))


def place(tree: Tree, q: Indexed) -> None:
    """Set weight X and pose C of every node, and `none`, no force on it, which has the type of rows there."""
    tree.world.C = Transform.identity()
    tree.world.origin = np.zeros(3)
    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        k.C = k.X @ parent.C
        k.origin = np.zeros(3)
        k.none = k.M @ (k.H @ Zeros()[k])


def seen(reference: str, frame: FrameRole, carrier: NodeRole) -> Transform:
    """Transform from the carrier of a frame to a reference."""
    if reference == "local":
        return frame.X
    if reference == "world":
        C: Transform = carrier.C
        return C.inverse()
    return Transform.of((frame.X @ carrier.C).E.T, np.zeros(3)) @ frame.X


def between(
    near: FrameRole, near_carrier: NodeRole, far: FrameRole, far_carrier: NodeRole
) -> tuple[Transform, Transform]:
    """Transforms from the two carriers of a relative task to the near frame's axes at the far frame's origin."""
    A, B = near.X @ near_carrier.C, far.X @ far_carrier.C
    return (
        Transform.of(np.eye(3), A.E @ (B.r - A.r)) @ near.X,
        Transform.of(A.E @ B.E.T, np.zeros(3)) @ far.X,
    )


def applied(tree: Tree, reference: str, parts: Parts) -> Iterator[tuple[NodeRole, RowRole, Force]]:
    """Each row with the node on which it acts."""
    for frame, carrier in tree.frames("frame"):
        X = seen(reference, frame, carrier)
        for row in frame.rows():
            yield carrier, row, X.T @ row.unit()
    if parts.relative:
        for near, near_carrier, far, far_carrier in tree.relatives():
            X_near, X_far = between(near, near_carrier, far, far_carrier)
            for row in near.rows():
                yield near_carrier, row, -(X_near.T @ row.unit())
            for row in far.rows():
                yield far_carrier, row, X_far.T @ row.unit()
    if parts.mass:
        for center, world in tree.frames("mass"):
            for row in center.rows():
                yield world, row, Force.zero()  # acts on no single node: see `mass`


def seed(tree: Tree, reference: str, parts: Parts, chi: Indexed) -> None:
    """Write all rows to `chi[k, row]` of the nodes that carry them; nodes must be placed."""
    for carrier, row, force in applied(tree, reference, parts):
        chi[carrier, row] = force


def rows(tree: Tree, reference: str, parts: Parts, tips: Indexed) -> None:
    """Write all rows to `tips[row]`; nodes must be placed."""
    for _, row, force in applied(tree, reference, parts):
        tips[row] = force


def fall(tree: Tree) -> None:
    """Set e0, e1 and e2: motions of every node when the world moves along x, y or z and all joints are locked."""
    for i, unit in enumerate(ALONG):
        setattr(tree.world, f"e{i}", unit)
    for k, parent in tree.scatter():
        for i in range(3):
            setattr(k, f"e{i}", k.X @ getattr(parent, f"e{i}"))


def mass(tree: Tree) -> Any:
    """Total mass of all nodes; needs the motions of `fall`."""
    tree.world.heavy = np.zeros(1)
    for k, _ in tree.scatter():
        k.heavy = np.array([k.e0.dot(k.M @ k.e0)])
    for k, parent in tree.gather():
        parent.heavy += k.heavy
    return tree.world.heavy[0]
