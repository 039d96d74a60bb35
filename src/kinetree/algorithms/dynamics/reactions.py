"""Reactions: the wrench that the joint of each body transmits to it. Cost O(n).

Newton–Euler inverse dynamics leaves the force f through each joint at its node ([J11] Algorithm 3.1); frames say where
and in which axes it is wanted. The armature of a joint and the springs of a node act along its degrees of freedom
inside the joint, and are not part of f.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinetree.algorithms.dynamics.inverse_dynamics import newton_euler
from kinetree.language.algorithm import algorithm
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.transform import Transform

#: Dimensions of what they read, and of what they fill.
_STATE: dict[str, Any] = {"q": ("q",), "v": ("v",), "a": ("v",)}
_RESULT: dict[str, Any] = {"f": ("frames", 6), "outputs": ("f",), "local": False}


def _transmitted(tree: Tree, q: Any, v: Any, a: Any, wrench: Any, reference: str, f: Indexed) -> None:
    tree.world.C = Transform.identity()
    newton_euler(tree, q, v, a, -tree.gravity, wrench, None)
    for k, parent in tree.scatter():
        k.C = k.X @ parent.C
    for frame, carrier in tree.frames():
        f[frame] = (tree.seen(reference, frame, carrier).inverse().T @ carrier.f).data


def _alone(reference: str) -> Callable[..., None]:
    def reactions(tree: Tree, q: Indexed, v: Indexed, a: Indexed, f: Indexed) -> None:
        _transmitted(tree, q, v, a, None, reference, f)

    return reactions


def _loaded(reference: str) -> Callable[..., None]:
    def loaded_reactions(tree: Tree, q: Indexed, v: Indexed, a: Indexed, wrench: Indexed, f: Indexed) -> None:
        _transmitted(tree, q, v, a, wrench, reference, f)

    return loaded_reactions


_REFERENCES = ("local", "local_world_aligned", "world")
#: By reference: [moment; force] on the bodies that carry the frames, transmitted by their joints.
REACTIONS = {reference: algorithm(**_STATE, **_RESULT)(_alone(reference)) for reference in _REFERENCES}
#: The same with external wrenches on the frames, in their coordinates.
LOADED_REACTIONS = {
    reference: algorithm(**_STATE, wrench=("frames", 6), **_RESULT)(_loaded(reference)) for reference in _REFERENCES
}
