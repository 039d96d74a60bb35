"""The reference engine: runs an algorithm's loops as they stand, sample by sample, with every check that values allow.

It defines what is right. What only symbols can show (a branch on a value, a local variable that carries something from
one iteration to the next) is found by `kinetree.engines.trace`. Inputs may be of any scalar type: float64, complex (for
complex-step derivatives), longdouble, or objects that `kinetree.register_scalar` was told about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from kinetree.errors import ContractError, InputError
from kinetree.recursion.algorithm import Algorithm, Argument, Entries, places
from kinetree.recursion.contract import author_line, describe, frozen, refuse, type_name
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.node import WORLD_PORT, NodeKind
from kinetree.recursion.roles import ColumnRole, FrameRole, GroupRole, Index, Ledger, NodeRole, RowRole
from kinetree.recursion.rows import Rows
from kinetree.recursion.stations import UNITS, Stations
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.motion import Motion
from kinetree.spatial.value import Array

_T = TypeVar("_T")


class _Cell:
    """A node's fields in a dictionary."""

    def __init__(self, number: int, kind: NodeKind | None, parameters: Array, world: _Cell | None) -> None:
        self.number, self.kind, self.parameters, self.world = number, kind, parameters, world
        self.q_start = self.v_start = 0
        self.fields: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        return self.fields.get(name)

    def set(self, name: str, value: Any) -> None:
        self.fields[name] = value

    def start(self, dimension: str) -> int:
        return {"q": self.q_start, "v": self.v_start, "node": self.number}[dimension]

    def type_on_world(self, name: str) -> tuple[Any, ...] | None:
        if self.world is None or self.kind is None or self.kind.port != WORLD_PORT:
            return None
        value = self.world.fields.get(name)
        return None if value is None else describe(value)


class _Argument(Entries):
    """An input or output in an array."""

    def __init__(self, argument: Argument, data: Array, readable: bool, writable: bool) -> None:
        super().__init__(argument, readable, writable)
        self.data = data

    def load(self, index: tuple[Index, ...]) -> Any:
        return self.data[_position(index)]

    def store(self, index: tuple[Index, ...], scalar: Any) -> None:
        self.data[_position(index)] = scalar

    def joined(self, scalars: list[Any]) -> Array:
        return np.array(scalars, dtype=self.data.dtype)


def _position(index: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    return tuple(base + offset for base, offset in index)


def _from(numbers: range, after: RowRole | None) -> range:
    if after is None:
        return numbers
    if after.index is None:
        refuse("a loop over rows can start only at one that has a number")
    return range(max(numbers.start, sum(after.index)), numbers.stop)


class _Memory:
    """What `tree.array` gives: values by position, each set before it is read."""

    def __init__(self, over: tuple[str, ...]) -> None:
        self.over = over
        self.values: dict[tuple[int, ...], Any] = {}

    def _at(self, keys: Any) -> tuple[int, ...]:
        _, indices = places(self.over, keys, "array")
        if len(indices) != 1:
            refuse("an array of the tree is indexed by nodes and single columns")
        return _position(indices[0])

    def __getitem__(self, keys: Any) -> Any:
        value = self.values.get(self._at(keys))
        if value is None:
            refuse("an array entry is read before it is set")
        return value

    def __setitem__(self, keys: Any, value: Any) -> None:
        value = frozen(value)
        first = next(iter(self.values.values()), value)
        if describe(value) != describe(first):
            refuse(f"an array of {type_name(describe(first))} is given {type_name(describe(value))}")
        self.values[self._at(keys)] = value


class ReferenceTree(Tree):
    """One sample's run over a mechanism."""

    def __init__(self, mechanism: Mechanism, sites: Sequence[Site]) -> None:
        self._mechanism, self._sites = mechanism, sites
        self._rows = Rows(mechanism, sites)
        self._stations = Stations(mechanism, self._rows)
        self._open: list[str] = []
        world = _Cell(0, None, np.zeros(0), None)
        self._cells = []
        for number, kind in enumerate(mechanism.kinds):
            cell = _Cell(number + 1, kind, mechanism.parameters[number], world)
            cell.q_start, cell.v_start = mechanism.q_starts[number], mechanism.v_starts[number]
            self._cells.append(cell)
        self._cells.append(world)  # index −1
        self.world = NodeRole(world, "world", "set", Ledger())
        self.gravity = Motion.of(np.zeros(3), mechanism.gravity)

    def _loop(self, items: Iterator[_T]) -> Iterator[_T]:
        self._open.append(author_line())
        yield from items
        self._open.pop()

    def finish(self) -> None:
        """Refuse a loop that was left before its end."""
        if self._open:
            raise ContractError(f"{self._open[-1]}: a loop over the tree was left before its end")

    def _pairs(self, order: Iterator[int], parent_right: str) -> Iterator[tuple[NodeRole, NodeRole]]:
        for number in order:
            ledger = Ledger()
            parent = self._cells[self._mechanism.parents[number]]
            yield NodeRole(self._cells[number], "k", "set", ledger), NodeRole(parent, "parent", parent_right, ledger)

    def _station_pairs(self, order: Iterator[int]) -> Iterator[tuple[NodeRole, NodeRole]]:
        for number in order:
            ledger = Ledger()
            above = self._cells[self._stations.above(number)]
            yield NodeRole(self._cells[number], "station", "set", ledger), NodeRole(above, "above", "read", ledger)

    def scatter(self) -> Iterator[tuple[NodeRole, NodeRole]]:
        return self._loop(self._pairs(iter(range(len(self._mechanism.kinds))), "read"))

    def gather(self) -> Iterator[tuple[NodeRole, NodeRole]]:
        return self._loop(self._pairs(iter(reversed(range(len(self._mechanism.kinds)))), "add"))

    def frames(self, part: str = "") -> Iterator[tuple[FrameRole, NodeRole]]:
        wanted = [i for i, site in enumerate(self._sites) if part in ("", site.part)]
        return self._loop((self._frame(i), self._carrier(i, "add")) for i in wanted)

    def _carrier(self, i: int, right: str) -> NodeRole:
        return NodeRole(self._cells[self._sites[i].node], "carrier", right, Ledger())

    def relatives(self) -> Iterator[tuple[FrameRole, NodeRole, FrameRole, NodeRole]]:
        return self._loop(
            (self._frame(near), self._carrier(near, "read"), self._frame(far), self._carrier(far, "read"))
            for near, far in self._rows.relatives
        )

    def _columns(self, start: int, end: int) -> Iterator[ColumnRole]:
        return self._loop(ColumnRole((c, 0)) for c in range(start, end))

    def columns(self, after: ColumnRole | None = None) -> Iterator[ColumnRole]:
        return self._columns(0 if after is None else sum(after.index) + 1, self._mechanism.nv)

    def ancestors(self, k: NodeRole, start: ColumnRole | None = None) -> Iterator[ColumnRole]:
        (first, _), _ = k.span("v")
        parents = self._mechanism.column_parents

        def climb() -> Iterator[ColumnRole]:
            column = parents[first] if start is None else sum(start.index)
            while column >= 0:
                yield ColumnRole((column, 0))
                column = parents[column]

        return self._loop(climb())

    def descendants(self, k: NodeRole) -> Iterator[ColumnRole]:
        start, own, end = self._subtree(k)
        return self._columns(start + own, end)

    def subtree(self, k: NodeRole) -> Iterator[ColumnRole]:
        start, _, end = self._subtree(k)
        return self._columns(start, end)

    def elsewhere(self, k: NodeRole) -> Iterator[ColumnRole]:
        start, _, end = self._subtree(k)
        return self._loop(ColumnRole((c, 0)) for c in (*range(start), *range(end, self._mechanism.nv)))

    def _subtree(self, k: NodeRole) -> tuple[int, int, int]:
        """The first column of a node, how many are its own, and the column after those that it carries."""
        (start, _), own = k.span("v")
        (number, _), _ = k.span("node")
        return start, own or 0, self._mechanism.v_starts[self._mechanism.topology.subtree_end(number - 1)]

    def onward(self, k: NodeRole) -> Iterator[ColumnRole]:
        (start, _), _ = k.span("v")
        return self._columns(start, self._mechanism.nv)

    def support(self, frame: FrameRole) -> Iterator[ColumnRole]:
        return self._columns_of(self._rows.support(frame.index[0]))

    def path(self, frame: FrameRole) -> Iterator[ColumnRole]:
        return self._columns_of(self._rows.path(frame.index[0]))

    def _columns_of(self, nodes: tuple[int, ...]) -> Iterator[ColumnRole]:
        starts = self._mechanism.v_starts
        return self._loop(ColumnRole((c, 0)) for k in nodes for c in range(starts[k], starts[k + 1]))

    def _frame(self, i: int) -> FrameRole:
        site = self._sites[i]
        return FrameRole((i, 0), site.placement, self._rows.starts[i], self._rows.asked[i], site.rows)

    def _row_loop(self, numbers: range, after: RowRole | None) -> Iterator[RowRole]:
        return self._loop(RowRole((r, 0), (self._rows.places[r], 0)) for r in _from(numbers, after))

    def rows(self, after: RowRole | None = None) -> Iterator[RowRole]:
        return self._row_loop(range(self._rows.count), after)

    def asked(self, after: RowRole | None = None) -> Iterator[RowRole]:
        start = 0
        if after is not None:
            (start, _), _ = after.span("rows")
        return self._asked_loop(range(start, self._rows.places_count))

    def _asked_loop(self, places: range) -> Iterator[RowRole]:
        return self._loop(RowRole(None, (place, 0)) for place in places)

    def carried(self, k: NodeRole, after: RowRole | None = None) -> Iterator[RowRole]:
        (number, _), _ = k.span("node")
        return self._row_loop(self._rows.carried(number - 1), after)

    def following(self, k: NodeRole) -> Iterator[RowRole]:
        (number, _), _ = k.span("node")
        return self._row_loop(self._rows.following(number - 1), None)

    def _groups(self, places: range, rows: range, asked: bool) -> Iterator[tuple[GroupRole, Iterator[RowRole]]]:
        def row(number: int) -> RowRole:
            return RowRole((number, 0), (self._rows.places[number], 0) if asked else None)

        def groups() -> Iterator[tuple[GroupRole, Iterator[RowRole]]]:
            for place in reversed(places):
                own = self._stations.groups[place]
                group = GroupRole(place, tuple(row(r) for r in own))
                yield group, self._loop(row(r) for r in range(own.stop, rows.stop))

        return self._loop(groups())

    def carried_groups(self, k: NodeRole) -> Iterator[tuple[GroupRole, Iterator[RowRole]]]:
        (number, _), _ = k.span("node")
        return self._groups(self._rows.carried_groups(number - 1), self._rows.carried(number - 1), True)

    def passing_groups(self, k: NodeRole) -> Iterator[tuple[GroupRole, Iterator[RowRole]]]:
        (number, _), _ = k.span("node")
        return self._groups(self._stations.passing_groups(number - 1), self._stations.passing(number - 1), False)

    def tasks(self) -> Iterator[tuple[GroupRole, Iterator[RowRole], Iterator[RowRole]]]:
        def tasks() -> Iterator[tuple[GroupRole, Iterator[RowRole], Iterator[RowRole]]]:
            for place, own in enumerate(self._rows.tasks):
                group = GroupRole(place, tuple(RowRole(None, (r, 0)) for r in own))
                yield (
                    group,
                    self._asked_loop(range(own.start)),
                    self._asked_loop(range(own.stop, self._rows.places_count)),
                )

        return self._loop(tasks())

    def rows_of(self, frame: FrameRole, after: RowRole | None = None) -> Iterator[RowRole]:
        return self._row_loop(self._rows.of(frame.index[0]), after)

    def _node_and_frames(self, found: Sequence[tuple[int, int, int]], role: str) -> Iterator[Any]:
        for node, one, other in found:
            yield NodeRole(self._cells[node], role, "read", Ledger()), self._frame(one), self._frame(other)

    def meetings(self) -> Iterator[tuple[NodeRole, FrameRole, FrameRole]]:
        return self._loop(self._node_and_frames(self._rows.meetings, "meeting"))

    def ways(self, to: str) -> Iterator[tuple[NodeRole, FrameRole, FrameRole]]:
        return self._loop(self._node_and_frames(self._rows.ways(to), "k"))

    def scatter_stations(self) -> Iterator[tuple[NodeRole, NodeRole]]:
        return self._loop(self._station_pairs(iter(self._stations.nodes)))

    def gather_stations(self) -> Iterator[tuple[NodeRole, NodeRole]]:
        return self._loop(self._station_pairs(reversed(self._stations.nodes)))

    def units(self, station: NodeRole) -> list[RowRole]:
        (number, _), _ = station.span("node")
        return [RowRole((self._stations.units(number - 1), i), None) for i in range(UNITS)]

    def joins(self) -> Iterator[tuple[NodeRole, FrameRole, FrameRole]]:
        return self._loop(self._node_and_frames(self._stations.joins, "meeting"))

    def array(self, *over: str) -> Indexed:
        return _Memory(over)


def run(
    algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site], inputs: Sequence[Any], name: str = ""
) -> tuple[Array, ...]:
    """Run an algorithm on arrays with leading batch axes.

    Args:
        algorithm: The recursion.
        mechanism: The robot.
        sites: The frames asked for, if the algorithm takes any.
        inputs: One array per input of the algorithm; leading axes broadcast.
        name: What users call it, for messages.

    Returns:
        One array per output, with the broadcast leading axes.
    """
    sizes = algorithm.sizes(mechanism, sites)
    name = name or algorithm.name
    if len(inputs) != len(algorithm.inputs):
        names = ", ".join(argument.name for argument in algorithm.inputs)
        raise InputError(f"{name} takes {len(algorithm.inputs)} inputs ({names}), got {len(inputs)}")
    arrays = [np.asarray(x) for x in inputs]
    cores = [argument.shape(sizes) for argument in algorithm.inputs]
    for array, core, argument in zip(arrays, cores, algorithm.inputs, strict=True):
        if array.ndim < len(core) or array.shape[array.ndim - len(core) :] != core:
            expected = ", ".join(["...", *map(str, core)])
            raise InputError(f"{name}: {argument.name} has shape {array.shape}, expected ({expected})")
    batches = [a.shape[: a.ndim - len(core)] for a, core in zip(arrays, cores, strict=True)]
    try:
        batch = np.broadcast_shapes(*batches)
    except ValueError:
        shapes = ", ".join(f"{a.name} {b}" for a, b in zip(algorithm.inputs, batches, strict=True))
        raise InputError(f"{name}: batch shapes do not broadcast: {shapes}") from None
    arrays = [np.broadcast_to(a, batch + core) for a, core in zip(arrays, cores, strict=True)]
    dtype = np.result_type(np.float64, *arrays)
    outputs = [np.zeros(batch + argument.shape(sizes), dtype=dtype) for argument in algorithm.outputs]
    for sample in np.ndindex(batch):
        tree = ReferenceTree(mechanism, sites)
        one = (*sample, ...)  # the dots keep scalars arrays, so that they can be written
        taken = [_Argument(argument, a[one], True, False) for argument, a in zip(algorithm.inputs, arrays, strict=True)]
        given = [_Argument(argument, a[one], argument.sparse, True) for argument, a in zip(algorithm.outputs, outputs)]
        algorithm(tree, *taken, *given)
        tree.finish()
    for argument, output in zip(algorithm.outputs, outputs, strict=True):
        if argument.symmetric:
            rows, columns = np.tril_indices(output.shape[-1], -1)
            output[..., rows, columns] = output[..., columns, rows]
    return tuple(outputs)
