"""Symbolic nodes, inputs, outputs and arrays for tracing.

Reading them records loads, writing records stores. The roles that wrap them enforce the rules of the tree language.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kinetree.engines.ir import Op, Place, Program, Store
from kinetree.engines.places import ArrayEntry, FieldPlace, Position, Role
from kinetree.recursion.algorithm import Argument, Entries, place
from kinetree.recursion.contract import components, describe, immutable, rebuild, refuse, type_name
from kinetree.recursion.node import WORLD_PORT
from kinetree.recursion.roles import MOVED_ON, Index, NodeRole, entry_at, handle_of, port_of, require_own
from kinetree.recursion.variants import WORLD_CLASS
from kinetree.spatial.value import Array


class SymbolRecorder(Protocol):
    """The part of `engines.recorder.Recorder` that symbols need."""

    program: Program
    types: dict[tuple[str, str], tuple[Any, ...]]
    direction: str
    moved: list[tuple[int, Index]]

    def field_type(self, role: Role, name: str) -> tuple[Any, ...] | None:
        """The type of a field, if it has been set on every node that the role may be."""

    def set_field_type(self, role: Role, name: str, description: tuple[Any, ...]) -> None:
        """Record the type of a field, which must not change."""

    def load(self, place: Place) -> Op:
        """The scalar at a place."""

    def store(self, place: Place, value: Any) -> None:
        """Store a scalar to a place."""


class SymbolicCell:
    """A symbolic node: accessing its fields records loads and stores."""

    def __init__(self, tree: SymbolRecorder, role: Role, kind: Any, parameters: Array) -> None:
        self.tree, self.role, self.kind, self.parameters = tree, role, kind, parameters
        self.handle = role
        self.block = tree.program.current
        self.values: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        if name not in self.values:
            description = self.tree.field_type(self.role, name)
            if description is None:
                return None
            size = size_of(description)
            loads = [self.tree.program.load(FieldPlace(self.role, name, i)) for i in range(size)]
            value = immutable(rebuild(description, object_array(loads)))
            if self.tree.program.current is not self.block:
                return value  # loaded in an inner loop, so not available outside it
            self.values[name] = value
        return self.values[name]

    def set(self, name: str, value: Any) -> None:
        program = self.tree.program
        if program.current is not self.block:
            refuse(f"field {name} of an outer loop's node is written in an inner loop: use an array")
        self.tree.set_field_type(self.role, name, describe(value))
        lifted = [program.lift(x) for x in components(value)]
        for i, op in enumerate(lifted):
            program.current.items.append(Store(FieldPlace(self.role, name, i), op))
        self.values[name] = immutable(rebuild(describe(value), object_array(lifted)))

    def start(self, dimension: str) -> Position:
        return Position(self.role, dimension)

    def type_on_world(self, name: str) -> tuple[Any, ...] | None:
        return None if self.kind is None or self.kind.port != WORLD_PORT else self.tree.types.get((name, WORLD_CLASS))


def size_of(description: tuple[Any, ...]) -> int:
    """Number of scalars in a value of a type (as `describe` gives it)."""
    kind, details = description
    if kind is np.ndarray:
        return int(np.prod(details, dtype=int))
    return int(kind.size_of(*details))


class SymbolicArgument(Entries):
    """An input or output: accessing its entries records loads and stores."""

    def __init__(
        self, tree: SymbolRecorder, argument: Argument, place: Callable[..., Place], readable: bool, writable: bool
    ) -> None:
        super().__init__(argument, readable, writable)
        self.tree, self.place = tree, place

    def load(self, index: tuple[Index, ...]) -> Any:
        return self.tree.load(self.place(index))

    def store(self, index: tuple[Index, ...], scalar: Any) -> None:
        self.tree.store(self.place(index), scalar)

    def joined(self, scalars: list[Any]) -> Array:
        return object_array(scalars)


def object_array(items: list[Any]) -> Array:
    """A flat array of symbols."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


class SymbolicArray:
    """An array of the tree."""

    def __init__(self, tree: SymbolRecorder, number: int, over: tuple[str, ...]) -> None:
        self.tree, self.number, self.over = tree, number, over
        self.description: tuple[Any, ...] | None = None

    def describe(self, description: tuple[Any, ...]) -> None:
        """Fix the type of the values."""
        if self.description is None:
            self.description = description
            self.tree.program.arrays[self.number] = (self.over, size_of(description))
        elif self.description != description:
            refuse(f"an array of {type_name(self.description)} is given {type_name(description)}")

    def __getitem__(self, keys: Any) -> Any:
        if self.description is None:
            refuse("an array entry is read before it is set")
        index = place(self.over, keys)
        ops = [self.tree.load(ArrayEntry(self.number, index, i)) for i in range(size_of(self.description))]
        return rebuild(self.description, object_array(ops))

    def __setitem__(self, keys: Any, value: Any) -> None:
        value = immutable(value)
        self.describe(describe(value))
        index = place(self.over, keys)
        for i, x in enumerate(components(value)):
            self.tree.store(ArrayEntry(self.number, index, i), x)


class NodeArray:
    """An array of the tree whose first index is a node: one for each port, since values may have a type for each."""

    def __init__(self, parts: dict[str, SymbolicArray], type_on: Callable[[str], tuple[Any, ...] | None]) -> None:
        self.parts, self.type_on = parts, type_on

    def part(self, keys: Any) -> SymbolicArray:
        """The array of the node's port."""
        known = isinstance(keys, tuple) and isinstance(keys[0], NodeRole)
        port = port_of(keys[0]) if known else WORLD_PORT
        part = self.parts[port]
        if part.description is None and (description := self.type_on(port)) is not None:
            part.describe(description)
        return part

    def __getitem__(self, keys: Any) -> Any:
        return self.part(keys)[keys]

    def __setitem__(self, keys: Any, value: Any) -> None:
        self.part(keys)[keys] = value


class SymbolicInward:
    """Entries that are at one node at a time; rigid bodies share one for each column or row.

    Whether an entry may have been set at the parent before it is read at k is decided by its index: that of another
    loop may be the same one. A node's own columns start there, and none of its loops over other columns visits them.
    """

    def __init__(self, tree: SymbolRecorder, array: SymbolicArray | NodeArray, over: str) -> None:
        self.tree, self.array, self.over = tree, array, over

    def __getitem__(self, keys: Any) -> Any:
        node, entry = entry_at(keys)
        require_own(node)
        if self.tree.direction != "inward":
            refuse("an entry of tree.inward is read in a loop that does not run from the tips to the base: use gather")
        self._require_here(node, entry)
        return self.array[keys if isinstance(self.array, NodeArray) else entry]

    def __setitem__(self, keys: Any, value: Any) -> None:
        node, entry = entry_at(keys)
        if node._known:
            self._require_here(node, entry)
        else:
            self.tree.moved.append((id(self), entry.span(self.over)[0]))
        if node._cell.kind is None:  # the world: nothing is read there, but it has the type
            part = self.array.part(keys) if isinstance(self.array, NodeArray) else self.array
            part.describe(describe(immutable(value)))
        else:
            self.array[keys if isinstance(self.array, NodeArray) else entry] = value

    def _require_here(self, node: NodeRole, entry: Any) -> None:
        base, offset = entry.span(self.over)[0]
        own = Position(handle_of(node), self.over)
        for array, (other, shift) in self.tree.moved:
            if array == id(self) and (shift == offset if other == base else own not in (base, other)):
                refuse(MOVED_ON)


@dataclass(frozen=True)
class OfPort:
    """Stands in for the kind of a node when only its port is known."""

    port: str
