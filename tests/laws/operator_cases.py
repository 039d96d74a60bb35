"""Mechanisms on which the relations of [J11] are tested, and the recursions' own stacked vectors.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from functools import cache, cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

import kinetree as kt
from kinetree.model.singularity import require_invertible
from kinetree.operators import Operator, Operators
from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.contract import components
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.motion import Force, Motion
from tests.mechanisms import built
from tests.unit.dense_nodes import abstract_model
from tests.unit.test_general_nodes import on_a_track

Array = np.ndarray[Any, np.dtype[Any]]

CHAIN = ((-1, 5, 2), (0, 7, 1), (1, 4, 3), (2, 9, 2), (3, 6, 1))
BRANCHES = ((-1, 5, 2), (0, 3, 1), (0, 9, 2), (-2, 2, 0), (3, 4, 2))
RIGID = kt.zoo.random_tree(3, kinds=("revolute", "prismatic"), seed=5).mechanism


def abstract(seed: int, plan: Any = None, rigid: Any = None, engine: str = "reference") -> Operators:
    """Operators of nodes of dimensions 2 to 9, weights singular and non-square, everything dependent on q."""
    options = {} if plan is None else {"plan": plan}
    mechanism = abstract_model(seed, rigid, moving=True, **options)
    robot = SimpleNamespace(mechanism=mechanism, name="abstract")
    q = np.random.default_rng(seed).normal(size=mechanism.nq)
    return Operators(robot, q, {}, require_invertible, engine)


def of_robot(robot: kt.Model, engine: str = "reference") -> Operators:
    return robot.operators(robot.random_configuration(1), engine=engine)


def of_cluster(name: str) -> Operators:
    """A recorded mechanism, whose loop or coupling is one node, near its recorded state."""
    return built(name).operators(built(name).neutral(), engine="reference")


CASES = {
    "abstract tree": lambda: abstract(0),
    "abstract on rigid": lambda: abstract(1, BRANCHES, RIGID),
    "abstract chain": lambda: abstract(2, CHAIN),
    "rigid tree": lambda: of_robot(kt.zoo.random_tree(4, seed=2)),
    "node of a user": lambda: of_robot(on_a_track()),
    "cluster with a loop": lambda: of_cluster("slider_crank_on_base"),
    "cluster of coupled joints": lambda: of_cluster("belt_leg_on_base"),
}


@cache
def case(name: str) -> Operators:
    """The operators of a case."""
    made: Operators = CASES[name]()
    return made


class Dense:
    """Matrices of operators, computed when they are first needed, and their blocks."""

    def __init__(self, operators: Operators) -> None:
        self.operators = operators
        self.mechanism = operators._mechanism
        self.parents = self.mechanism.parents
        self.nodes = range(len(self.parents))
        self._known: dict[str, Array] = {}

    def __getattr__(self, name: str) -> Array:
        if name not in self._known:
            operator: Operator = getattr(self.operators, name)
            self._known[name] = operator.dense()
        return self._known[name]

    @cached_property
    def K(self) -> Array:
        found: Array = self.E_A @ self.G
        return found

    @cached_property
    def X(self) -> Array:
        """H* D⁻¹ H, so that Ω = ψ* X ψ."""
        found: Array = self.H.T @ np.linalg.inv(self.D) @ self.H
        return found

    def own(self, k: int) -> slice:
        """The rows of a node."""
        return slice(self.mechanism.m_starts[k], self.mechanism.m_starts[k + 1])

    def block(self, matrix: Array, i: int, j: int) -> Array:
        """The block of two nodes."""
        found: Array = matrix[self.own(i), self.own(j)]
        return found

    def children(self, k: int) -> list[int]:
        return [i for i in self.nodes if self.parents[i] == k]

    def supports(self, i: int, j: int) -> bool:
        """Whether node i is node j, or one of its ancestors."""
        while j > i:
            j = self.parents[j]
        return i == j

    def diagonal(self, matrix: Array) -> Array:
        """diagOf: the blocks on the diagonal."""
        found = np.zeros_like(matrix)
        for k in self.nodes:
            found[self.own(k), self.own(k)] = self.block(matrix, k, k)
        return found


@cache
def dense(name: str) -> Dense:
    """The matrices of a case."""
    return Dense(case(name))


@algorithm(
    q=("q",), v=("v",), a=("v",), V=("m",), alpha=("m",), f=("m",), coriolis=("m",), gyroscopic=("m",),
    resistance=("v",), outputs=("V", "alpha", "f", "coriolis", "gyroscopic", "resistance"), any_node=True,
)  # fmt: skip
def stacked(
    tree: Tree, q: Indexed, v: Indexed, a: Indexed, V: Indexed, alpha: Indexed, f: Indexed,
    coriolis: Indexed, gyroscopic: Indexed, resistance: Indexed,
) -> None:  # fmt: skip
    """The stacked vectors of [J11] §2.1. Gravity, an acceleration of the world, is part of the bases' a(k)."""
    tree.world.V = Motion.zero()
    tree.world.alpha = tree.world.base = -tree.gravity
    tree.world.f = Force.zero()
    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        V_p, fallen = parent.V, k.X @ parent.base
        k.V = k.X @ V_p + k.H @ v[k]
        pushed = k.coriolis(k.V, v[k], V_p)
        k.alpha = k.X @ parent.alpha + k.H @ a[k] + pushed
        turned = k.gyroscopic(k.V, v[k])
        k.f = k.M @ k.alpha + turned
        k.base = fallen - fallen  # only the bases feel the world's acceleration directly
        V[k], alpha[k] = components(k.V), components(k.alpha)
        coriolis[k], gyroscopic[k] = components(pushed + fallen), components(turned)
        resistance[k] = k.resistance(q[k], v[k])
    for k, parent in tree.gather():
        f[k] = components(k.f)
        parent.f += k.X.T @ k.f
