"""Mechanisms on which the relations of [J11] are tested, and the recursions' own stacked vectors.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from functools import cache, cached_property
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np

import kinetree as kt
from kinetree.language.algorithm import algorithm
from kinetree.language.contract import components
from kinetree.language.tree import Indexed, Tree
from kinetree.model.singularity import require_invertible
from kinetree.operators import Operator, Operators
from kinetree.spatial.motion import Force, Motion
from tests.mechanisms import built
from tests.unit.algorithms.dense_nodes import abstract_model
from tests.unit.model.test_general_nodes import on_a_track

Array = np.ndarray[Any, np.dtype[Any]]

CHAIN = ((-1, 5, 2), (0, 7, 1), (1, 4, 3), (2, 9, 2), (3, 6, 1))
RIGID = kt.zoo.random_tree(3, kinds=("revolute", "prismatic"), seed=5).mechanism


def random_plan(seed: int, count: int) -> tuple[tuple[int, int, int], ...]:
    """A random tree of nodes with two to nine dimensions, and one more node on the world, as `abstract_model` takes."""
    rng = np.random.default_rng(seed)
    plan = [(-1, int(rng.integers(2, 10)), 2)]
    while len(plan) < count:
        above = [len(plan) - 1]  # numbered depth first: only the last node and its ancestors can get another child
        while plan[above[-1]][0] >= 0:
            above.append(plan[above[-1]][0])
        dimension = int(rng.integers(2, 10))
        plan.append((int(rng.choice(above)), dimension, int(rng.integers(0, min(dimension, 3) + 1))))
    return (*plan, (-2, 3, 2))


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
    "abstract tree": lambda: abstract(0, random_plan(0, 6)),
    "abstract on rigid": lambda: abstract(1, random_plan(1, 4), RIGID),
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
            kind = operator._expression.kind
            if kind == "diagonal":
                self._known[name] = self._from_blocks(operator, list(self.nodes))
            elif kind == "shift":
                self._known[name] = self._from_blocks(operator.T, list(self.parents)).T
            else:
                self._known[name] = operator.dense()
        return self._known[name]

    def _from_blocks(self, operator: Operator, columns: list[int]) -> Array:
        """The matrix of an operator with one block in the rows of each node, in the columns of a given node."""
        expression = operator._expression
        rows, across = (
            self.mechanism.m_starts if space == "m" else self.mechanism.v_starts
            for space in (expression.rows, expression.columns)
        )
        units = np.zeros((across[-1], max(b - a for a, b in pairwise(across))))
        for a, b in pairwise(across):
            units[a:b, : b - a] = np.eye(b - a)
        blocks, found = operator @ units, np.zeros(operator.shape)
        for k, c in enumerate(columns):
            if c >= 0:
                at = slice(rows[k], rows[k + 1]), slice(across[c], across[c + 1])
                found[at] = blocks[at[0], : across[c + 1] - across[c]]
        return found

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
    resistance=("v",), outputs=("V", "alpha", "f", "coriolis", "gyroscopic", "resistance"),
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
