"""Tracing: runs an algorithm once on symbols and records its operations.

Each loop yields one symbolic node per variant (the node's kind and its parent's port), whatever the number of bodies.
`kinetree.engines.recorder` records the operations of its body.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kinetree.engines.ir import Program, TreeLoop
from kinetree.engines.places import Input, Output, Param, Position, Role, Uniform
from kinetree.engines.recorder import Recorder
from kinetree.engines.symbolic import (
    NodeArray,
    OfPort,
    SymbolicArgument,
    SymbolicArray,
    SymbolicCell,
    SymbolicInward,
    object_array,
)
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.contract import refuse
from kinetree.recursion.entities import Entity, Frame, Group, Node
from kinetree.recursion.loops import IndexLoop, Table
from kinetree.recursion.loops import Loop as LoopData
from kinetree.recursion.node import WORLD_PORT
from kinetree.recursion.roles import Index, Ledger, NodeRole
from kinetree.recursion.tree import Indexed, Tree
from kinetree.recursion.variants import WORLD_CLASS, Variants
from kinetree.spatial.motion import Motion
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


class TracedTree(Recorder, Tree):
    """Runs an algorithm on symbols."""

    def __init__(self, variants: Variants, checked: bool) -> None:
        super().__init__(checked)
        self.variants = variants
        self._kinds = {kind.name: kind for kind, _ in variants.nodes}
        self.world = NodeRole(self._world_cell, "world", "set", Ledger())
        self.gravity = Motion.of(np.zeros(3), object_array([self.program.load(Uniform(i)) for i in range(3)]))
        self.rigid_bodies = all(kind.rigid for kind in self._kinds.values())
        self.rigid_multibody = all(kind.rigid_multibody for kind in self._kinds.values())

    def visit(self, loop: LoopData[Any], over: Any, start: Index | None, stop: Index | None = None) -> Iterator[Any]:
        made = TreeLoop(loop, over, start, stop)
        if isinstance(loop, Table):
            return self._visit_table(loop, made)
        if not isinstance(loop, IndexLoop) or not loop.index.exists(self.variants):
            return iter(())  # no columns without nodes, no rows without frames
        index, role = loop.index, Role(loop.index.name)
        made.roles[()] = (role,)
        return self.run(made, [()], lambda _: index.of(self, role))

    def _visit_table(self, loop: Table[Any], made: TreeLoop) -> Iterator[Any]:
        if loop.direction and self.program.current is not self.program.top:
            refuse("loops over nodes cannot be nested")
        if loop.over is None:
            self.direction = loop.direction

        def seen(variant: tuple[Any, ...]) -> Any:
            if variant not in made.roles:
                made.roles[variant] = tuple(self._role(one, key) for one, key in zip(loop.roles, variant, strict=True))
            return loop.yielded(self, made.roles[variant], variant, made.over)

        return self.run(made, loop.cases(self.variants), seen)

    def _role(self, role: Node | Frame | Group, key: Any) -> Role:
        if not isinstance(role, Node):
            return Role(role.name)
        exact = role.by == "kind"
        return Role(role.name, (key,) if exact else self.variants.classes_of(key), exact)

    def number(self, _: Entity, handle: Any, what: str) -> Position:
        return Position(handle, what)

    def cell(self, node: Node, handle: Any, key: Any) -> SymbolicCell:
        if node.by == "port":
            return SymbolicCell(self, handle, OfPort(key) if key != WORLD_CLASS else None, np.zeros(0))
        kind = self._kinds[key]
        return SymbolicCell(self, handle, kind, self._parameters(handle, kind.parameter_count))

    def placement(self, handle: Any) -> Array:
        return self._parameters(handle, Transform.size_of())

    def _parameters(self, role: Role, count: int) -> Array:
        return object_array([self.program.load(Param(role, i)) for i in range(count)])

    def array(self, *over: str, like: str = "") -> SymbolicArray | NodeArray:
        if over[0] != "node":
            return self._array(over)
        ports = {kind.port for kind in self._kinds.values()}
        parts = {port: self._array(over) for port in (WORLD_PORT, *sorted(ports - {WORLD_PORT}))}
        return NodeArray(parts, lambda port: self._type_on(port, like))

    def inward(self, over: str, like: str = "") -> Indexed:
        array = self.array(over) if self.rigid_bodies else self.array("node", over, like=like)
        return SymbolicInward(self, array, over)

    def _type_on(self, port: str, name: str) -> tuple[Any, ...] | None:
        """The type of a field on nodes with a port, if it has been set."""
        of = [WORLD_CLASS] if port == WORLD_PORT else []
        of += [kind.name for kind in self._kinds.values() if kind.port == port]
        return next((self.types[name, each] for each in of if (name, each) in self.types), None)

    def _array(self, over: tuple[str, ...]) -> SymbolicArray:
        number, self.arrays = self.arrays, self.arrays + 1
        if number == len(self.program.arrays):
            self.program.arrays.append((over, 0))
        return SymbolicArray(self, number, over)


def trace(algorithm: Algorithm, variants: Variants, checked: bool = True) -> Program:
    """Run an algorithm on symbols.

    Args:
        algorithm: The recursion.
        variants: What kinds of nodes there are.
        checked: Trace each body twice, to find state that is carried from node to node in Python variables.

    Raises:
        ContractError: The algorithm breaks a rule of the tree language; the message has its file and line.
    """
    tree = TracedTree(variants, checked)
    inputs = [
        SymbolicArgument(tree, argument, lambda index, n=n: Input(n, index), True, False)
        for n, argument in enumerate(algorithm.inputs)
    ]
    outputs = [
        SymbolicArgument(tree, argument, lambda index, n=n: Output(n, index), argument.sparse, True)
        for n, argument in enumerate(algorithm.outputs)
    ]
    algorithm(tree, *inputs, *outputs)
    tree.finish()
    return tree.program
