"""Tracing: runs an algorithm once on symbols, and writes down what it does.

Each loop yields one symbolic node per variant (kind of the node × whether its parent is the world), whatever the
number of bodies. `kinetree.engines.recorder` keeps what its body does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kinetree.engines.ir import Input, Loop, Output, Param, Position, Program, Role, Uniform
from kinetree.engines.recorder import Recorder
from kinetree.engines.symbolic import OfPort, SymbolicArgument, SymbolicArray, SymbolicCell, object_array
from kinetree.engines.variants import WORLD_CLASS, Variants, loop_variants
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.contract import refuse
from kinetree.recursion.roles import ColumnRole, FrameRole, GroupRole, Ledger, NodeRole, RowRole
from kinetree.recursion.stations import UNITS
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.motion import Motion
from kinetree.spatial.value import Array


class TracedTree(Recorder, Tree):
    """Runs an algorithm on symbols."""

    def __init__(self, variants: Variants) -> None:
        super().__init__()
        self.variants = variants
        self.world = NodeRole(self._world_cell, "world", "set", Ledger())
        self.gravity = Motion.of(np.zeros(3), object_array([self.program.load(Uniform(i)) for i in range(3)]))

    def _sweep(self, direction: str, parent_right: str) -> Iterator[tuple[NodeRole, NodeRole]]:
        if self.program.current is not self.program.top:
            refuse("loops over nodes cannot be nested")
        self.direction = direction
        loop = Loop(direction, None)
        kinds = {(kind.name, parent): kind for kind, parent in self.variants.nodes}

        def roles(variant: tuple[str, ...]) -> tuple[NodeRole, NodeRole]:
            name, parent = variant
            kind = kinds[name, parent]
            if variant not in loop.roles:
                loop.roles[variant] = Role("k", (kind.name,)), Role("parent", self.variants.classes_of(parent))
            k_role, parent_role = loop.roles[variant]
            ledger = Ledger()
            k = SymbolicCell(self, k_role, kind, self._parameters(k_role, kind.parameter_count))
            above = OfPort(parent) if parent != WORLD_CLASS else None
            parent_cell = SymbolicCell(self, parent_role, above, np.zeros(0))
            return NodeRole(k, "k", "set", ledger), NodeRole(parent_cell, "parent", parent_right, ledger)

        return self.run(loop, loop_variants(direction, self.variants), roles)

    def _parameters(self, role: Role, count: int) -> Array:
        return object_array([self.program.load(Param(role, i)) for i in range(count)])

    def scatter(self) -> Iterator[tuple[NodeRole, NodeRole]]:
        return self._sweep("scatter", "read")

    def gather(self) -> Iterator[tuple[NodeRole, NodeRole]]:
        return self._sweep("gather", "add")

    def frames(self, part: str = "") -> Iterator[tuple[FrameRole, NodeRole]]:
        self.direction = "frames"
        loop = Loop("frames", None)

        def roles(variant: tuple[Any, ...]) -> tuple[FrameRole, NodeRole]:
            port, rows, _ = variant
            if variant not in loop.roles:
                loop.roles[variant] = Role("frame"), Role("carrier", self.variants.classes_of(port))
            frame, carrier = loop.roles[variant]
            return self._frame(frame, rows), self._carrier(carrier, port, "add")

        return self.run(loop, [v for v in loop_variants("frames", self.variants) if part in ("", v[2])], roles)

    def _carrier(self, role: Role, port: str, right: str) -> NodeRole:
        """A node of which no more than the port is known."""
        cell = SymbolicCell(self, role, OfPort(port) if port != WORLD_CLASS else None, np.zeros(0))
        return NodeRole(cell, "carrier", right, Ledger())

    def relatives(self) -> Iterator[tuple[FrameRole, NodeRole, FrameRole, NodeRole]]:
        self.direction = "relatives"
        loop = Loop("relatives", None)

        def roles(variant: tuple[Any, ...]) -> tuple[FrameRole, NodeRole, FrameRole, NodeRole]:
            near_port, far_port, rows = variant
            if variant not in loop.roles:
                carriers = [Role("carrier", self.variants.classes_of(port)) for port in (near_port, far_port)]
                loop.roles[variant] = Role("near"), carriers[0], Role("far"), carriers[1]
            near, near_carrier, far, far_carrier = loop.roles[variant]
            return (
                self._frame(near, rows),
                self._carrier(near_carrier, near_port, "read"),
                self._frame(far, rows),
                self._carrier(far_carrier, far_port, "read"),
            )

        return self.run(loop, loop_variants("relatives", self.variants), roles)

    def _frame(self, role: Role, rows: tuple[int, ...]) -> FrameRole:
        row, asked = Position(role, "row"), Position(role, "rows")
        return FrameRole((Position(role, "frame"), 0), self._parameters(role, 12), row, asked, rows)

    def _pairs(self, source: str) -> Iterator[tuple[NodeRole, FrameRole, FrameRole]]:
        """A node of known port, and two frames."""
        self.direction = source
        loop = Loop(source, None)

        def roles(variant: tuple[str, ...]) -> tuple[NodeRole, FrameRole, FrameRole]:
            (port,) = variant
            if variant not in loop.roles:
                loop.roles[variant] = Role("meeting", self.variants.classes_of(port)), Role("one"), Role("other")
            node, one, other = loop.roles[variant]
            cell = SymbolicCell(self, node, OfPort(port), np.zeros(0))
            return NodeRole(cell, "meeting", "read", Ledger()), self._frame(one, ()), self._frame(other, ())

        return self.run(loop, loop_variants(source, self.variants), roles)

    def meetings(self) -> Iterator[tuple[NodeRole, FrameRole, FrameRole]]:
        return self._pairs("meetings")

    def joins(self) -> Iterator[tuple[NodeRole, FrameRole, FrameRole]]:
        return self._pairs("joins")

    def ways(self, to: str) -> Iterator[tuple[NodeRole, FrameRole, FrameRole]]:
        self.direction = "ways"
        loop = Loop(f"ways_{to}", None)
        kinds: dict[tuple[str, ...], Any] = {(kind.name,): kind for kind, _ in self.variants.nodes}

        def roles(variant: tuple[str, ...]) -> tuple[NodeRole, FrameRole, FrameRole]:
            kind = kinds[variant]
            if variant not in loop.roles:
                loop.roles[variant] = Role("k", (kind.name,)), Role("one"), Role("other")
            k, one, other = loop.roles[variant]
            cell = SymbolicCell(self, k, kind, self._parameters(k, kind.parameter_count))
            return NodeRole(cell, "k", "read", Ledger()), self._frame(one, ()), self._frame(other, ())

        return self.run(loop, loop_variants(loop.source, self.variants), roles)

    def _station_sweep(self, direction: str) -> Iterator[tuple[NodeRole, NodeRole]]:
        self.direction = direction
        loop = Loop(f"{direction}_stations", None)

        def roles(variant: tuple[str, ...]) -> tuple[NodeRole, NodeRole]:
            port, above = variant
            if variant not in loop.roles:
                classes = self.variants.classes_of
                loop.roles[variant] = Role("station", classes(port)), Role("above", classes(above))
            station_role, above_role = loop.roles[variant]
            ledger = Ledger()
            station = SymbolicCell(self, station_role, OfPort(port), np.zeros(0))
            next_one = SymbolicCell(self, above_role, OfPort(above) if above != WORLD_CLASS else None, np.zeros(0))
            return NodeRole(station, "station", "set", ledger), NodeRole(next_one, "above", "read", ledger)

        return self.run(loop, loop_variants(loop.source, self.variants), roles)

    def scatter_stations(self) -> Iterator[tuple[NodeRole, NodeRole]]:
        return self._station_sweep("scatter")

    def gather_stations(self) -> Iterator[tuple[NodeRole, NodeRole]]:
        return self._station_sweep("gather")

    def units(self, station: NodeRole) -> list[RowRole]:
        return [RowRole((Position(_role(station), "units"), i), None) for i in range(UNITS)]

    def _row_loop(self, source: str, over: Role | None, after: RowRole | None) -> Iterator[RowRole]:
        return self._rows_in(source, over, None if after is None else _of_loop(after.index))

    def _rows_in(self, source: str, over: Role | None, after: Role | None) -> Iterator[RowRole]:
        if not self.variants.frames:
            return iter(())  # without frames there are no rows
        loop, role = Loop(source, over, after), Role("row")
        loop.roles[()] = (role,)
        asked = None if "passing" in source else (Position(role, "rows"), 0)
        return self.run(loop, [()], lambda _: RowRole((Position(role, "row"), 0), asked))

    def rows(self, after: RowRole | None = None) -> Iterator[RowRole]:
        return self._row_loop("rows", None, after)

    def asked(self, after: RowRole | None = None) -> Iterator[RowRole]:
        return self._asked_loop("asked", None if after is None else _of_loop(after.asked))

    def _asked_loop(self, source: str, after: Role | None) -> Iterator[RowRole]:
        if not self.variants.frames:
            return iter(())
        loop, role = Loop(source, None, after), Role("asked")
        loop.roles[()] = (role,)
        return self.run(loop, [()], lambda _: RowRole(None, (Position(role, "asked"), 0)))

    def carried(self, k: NodeRole, after: RowRole | None = None) -> Iterator[RowRole]:
        return self._row_loop("carried", _role(k), after)

    def following(self, k: NodeRole) -> Iterator[RowRole]:
        return self._row_loop("following", _role(k), None)

    def _groups(self, source: str, k: NodeRole, sizes: set[int]) -> Iterator[tuple[GroupRole, Iterator[RowRole]]]:
        loop, over = Loop(source, _role(k)), _role(k)

        def roles(variant: tuple[Any, ...]) -> tuple[GroupRole, Iterator[RowRole]]:
            (size,) = variant
            if variant not in loop.roles:
                loop.roles[variant] = (Role("group"),)
            (role,) = loop.roles[variant]
            first, asked = Position(role, "row"), Position(role, "rows")
            own = source == "carried_groups"
            rows = tuple(RowRole((first, i), (asked, i) if own else None) for i in range(size))
            return GroupRole(role, rows), self._rows_in(f"beyond_{source}", over, role)

        return self.run(loop, [(size,) for size in sorted(sizes)], roles)

    def tasks(self) -> Iterator[tuple[GroupRole, Iterator[RowRole], Iterator[RowRole]]]:
        loop = Loop("tasks", None)

        def roles(variant: tuple[Any, ...]) -> tuple[GroupRole, Iterator[RowRole], Iterator[RowRole]]:
            (size,) = variant
            if variant not in loop.roles:
                loop.roles[variant] = (Role("task"),)
            (role,) = loop.roles[variant]
            rows = tuple(RowRole(None, (Position(role, "asked"), i)) for i in range(size))
            return GroupRole(role, rows), self._asked_loop("before_task", role), self._asked_loop("beyond_task", role)

        return self.run(loop, [(size,) for size in sorted(self.variants.sizes)], roles)

    def carried_groups(self, k: NodeRole) -> Iterator[tuple[GroupRole, Iterator[RowRole]]]:
        return self._groups("carried_groups", k, self.variants.sizes)

    def passing_groups(self, k: NodeRole) -> Iterator[tuple[GroupRole, Iterator[RowRole]]]:
        return self._groups("passing_groups", k, {UNITS, *self.variants.sizes})

    def rows_of(self, frame: FrameRole, after: RowRole | None = None) -> Iterator[RowRole]:
        return self._row_loop("frame_rows", frame.index[0].role, after)

    def _column_loop(self, source: str, over: Role | None, after: ColumnRole | None = None) -> Iterator[ColumnRole]:
        if not self.variants.nodes:
            return iter(())  # a mechanism without nodes has no columns either
        loop = Loop(source, over, None if after is None else _of_loop(after.index))
        role = Role("column")
        loop.roles[()] = (role,)
        return self.run(loop, [()], lambda _: ColumnRole((Position(role, "column"), 0)))

    def columns(self, after: ColumnRole | None = None) -> Iterator[ColumnRole]:
        return self._column_loop("columns", None, after)

    def descendants(self, k: NodeRole) -> Iterator[ColumnRole]:
        return self._column_loop("descendants", _role(k))

    def subtree(self, k: NodeRole) -> Iterator[ColumnRole]:
        return self._column_loop("subtree", _role(k))

    def elsewhere(self, k: NodeRole) -> Iterator[ColumnRole]:
        return self._column_loop("elsewhere", _role(k))

    def onward(self, k: NodeRole) -> Iterator[ColumnRole]:
        return self._column_loop("onward", _role(k))

    def ancestors(self, k: NodeRole, start: ColumnRole | None = None) -> Iterator[ColumnRole]:
        return self._column_loop("ancestors", _role(k), start)

    def support(self, frame: FrameRole) -> Iterator[ColumnRole]:
        return self._column_loop("support", frame.index[0].role)

    def path(self, frame: FrameRole) -> Iterator[ColumnRole]:
        return self._column_loop("path", frame.index[0].role)

    def array(self, *over: str) -> Indexed:
        self.program.arrays.append((over, 0))
        return SymbolicArray(self, len(self.program.arrays) - 1, over)


def _role(node: NodeRole) -> Role:
    (base, _), _ = node.span("node")
    role: Role = base.role
    return role


def _of_loop(index: tuple[Any, int] | None) -> Role:
    """The role of a row or column that a loop yielded."""
    base, offset = index or (None, 0)
    if not isinstance(base, Position) or base.what not in ("row", "column", "asked") or offset:
        refuse("a loop over rows or columns can start only at one that a loop has yielded")
    role: Role = base.role
    return role


def trace(algorithm: Algorithm, variants: Variants) -> Program:
    """Run an algorithm on symbols.

    Args:
        algorithm: The recursion.
        variants: What kinds of nodes there are.

    Raises:
        ContractError: The algorithm breaks a rule of the tree language; names its file and line.
    """
    tree = TracedTree(variants)
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
