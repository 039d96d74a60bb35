"""Tracing: runs an algorithm once on symbols and records its operations.

Each loop yields one symbolic node per variant (the node's kind and its parent's port), whatever the number of bodies.
Reading fields, inputs and arrays of the tree records loads, writing them records stores; roles enforce the rules of the
tree language.

Loops are generators: when one is resumed, the loop body has ended. To check an algorithm, each body is traced twice,
with the variants in two different orders, and must record the same items both times. This exposes Python variables
that carry state from one iteration to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinetree.compiler.ir import (
    ArrayEntry,
    CodeBlock,
    Exit,
    FieldPlace,
    Input,
    LoopPosition,
    Op,
    OutputEntry,
    Param,
    Place,
    Position,
    Program,
    Role,
    Store,
    TreeLoop,
    Uniform,
)
from kinetree.compiler.passes.simplify import RULES
from kinetree.compiler.verify import canonical
from kinetree.errors import ContractError
from kinetree.language.algorithm import Algorithm, Argument, Entries, place
from kinetree.language.contract import author_line, components, describe, immutable, rebuild, refuse, type_name
from kinetree.language.loops import Entity, FrameEntity, Group, IndexLoop, NodeEntity, Table
from kinetree.language.loops import LoopShape as LoopData
from kinetree.language.node import WORLD_PORT, told
from kinetree.language.roles import MOVED_ON, Index, Ledger, NodeRole, entry_at, handle_of, port_of, require_own
from kinetree.language.setup import WORLD_CLASS, Variants
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.motion import Motion
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


class SymbolicCell:
    """A symbolic node: accessing its fields records loads and stores."""

    def __init__(self, tree: TracedTree, role: Role, kind: Any, parameters: Array) -> None:
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
        self, tree: TracedTree, argument: Argument, place: Callable[..., Place], readable: bool, writable: bool
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

    def __init__(self, tree: TracedTree, number: int, over: tuple[str, ...]) -> None:
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

    def __init__(self, tree: TracedTree, array: SymbolicArray | NodeArray, over: str) -> None:
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


class TracedTree(Tree):
    """Runs an algorithm on symbols and records a program; `checked` traces each body twice.

    Attributes:
        program: The program recorded so far.
        types: Type of each field on each class of node.
        direction: Direction of the loop being traced: "outward" if nodes come after their parents.
        moved: Entries of `tree.inward` that the body being traced has set at another node than its own so far.
        arrays: Number of the next array. Where a body is traced again, it makes the same ones.
        open: Lines of the loops being traced.
    """

    def __init__(self, variants: Variants, checked: bool) -> None:
        self.variants, self.checked = variants, checked
        self.program = Program(RULES)
        self.types: dict[tuple[str, str], tuple[Any, ...]] = {}
        self.direction = ""
        self.moved: list[tuple[int, LoopPosition]] = []
        self.arrays = 0
        self.open: list[str] = []
        self._settled: set[tuple[str, str]] = set()  # fields set before the loop being traced
        self._parent_reads: list[tuple[str, tuple[str, ...], str]] = []
        self._values: dict[Place, Op] = {}  # entries of outputs and arrays known in the current block
        self._world_role = Role("world", (WORLD_CLASS,))
        self._world_cell = SymbolicCell(self, self._world_role, None, np.zeros(0))
        self._kinds = {kind.name: kind for kind, _ in variants.nodes}
        self.world = NodeRole(self._world_cell, "world", "set", Ledger())
        self.gravity = Motion.of(np.zeros(3), object_array([self.program.load(Uniform(i)) for i in range(3)]))
        self.rigid_bodies = all(kind.rigid for kind in self._kinds.values())
        self.rigid_multibody = all(kind.rigid_multibody for kind in self._kinds.values())

    # Fields

    def field_type(self, role: Role, name: str) -> tuple[Any, ...] | None:
        """The type of a field read through a role, or None if it cannot have been set."""
        if role.exact or role is self._world_role:
            cls = role.classes[0]
            return self.types.get((name, cls)) if (name, cls) in self._settled or role is self._world_role else None
        found = [self.types[name, cls] for cls in role.classes if (name, cls) in self.types]
        if not found:
            return None
        if any(t != found[0] for t in found):
            refuse(f"field {name} has different types on different kinds of nodes, but is read through {role.name}")
        if self.direction == "outward":
            self._parent_reads.append((name, role.classes, author_line()))
        elif any((name, cls) not in self._settled for cls in role.classes):
            return None
        return found[0]

    def set_field_type(self, role: Role, name: str, description: tuple[Any, ...]) -> None:
        """Record the type of a field, which must not change."""
        for cls in role.classes:
            known = self.types.setdefault((name, cls), description)
            if known != description:
                refuse(f"field {name} is set as {type_name(description)}, but was {type_name(known)} before")

    # Entries of outputs and arrays

    def load(self, place: Place) -> Op:
        """The value of a place: the one last stored in this block, or a load."""
        if place not in self._values:
            self._values[place] = self.program.load(place)
        return self._values[place]

    def store(self, place: Place, value: Any) -> None:
        """Store a value to an output or array."""
        op = self.program.lift(value)
        self.program.current.items.append(Store(place, op))
        if isinstance(place, (ArrayEntry, OutputEntry)):
            # a different index expression may address the same entry
            same = [p for p in self._values if type(p) is type(place) and p.number == place.number and p.at != place.at]
            for other in same:
                del self._values[other]
        self._values[place] = op

    # Bodies of loops

    def run(
        self, loop: TreeLoop, variants: Sequence[tuple[Any, ...]], roles: Callable[[tuple[Any, ...]], Any]
    ) -> Iterator[Any]:
        """Trace the body of a loop for each variant."""
        program = self.program
        outer, outer_values, moved, outer_moved = program.current, self._values, list(self.moved), list(self.moved)
        self.open.append(author_line())
        outermost = outer is program.top
        if outermost:
            self._settled = set(self.types)
        firsts: dict[tuple[Any, ...], int] = {}
        for variant in (*variants, *reversed(variants)) if self.checked else variants:
            body = program.current = CodeBlock(program, outer)
            made, self.arrays = self.arrays, firsts.setdefault(variant, self.arrays)
            self._values, self.moved = {}, list(outer_moved)
            yield roles(variant)
            if program.current is not body:
                raise ContractError(f"{self.open[-1]}: a loop over the tree was left before its end")
            program.current, self.arrays = outer, max(made, self.arrays)
            moved += self.moved[len(outer_moved) :]
            first = loop.bodies.setdefault(variant, body)
            if first is not body and canonical(first) != canonical(body):
                raise ContractError(
                    f"{self.open[-1]}: this loop behaves differently when its nodes come in another order: "
                    "it carries state from one iteration to the next outside the tree's fields"
                )
        self.open.pop()
        outer.items.append(loop)
        self._values = {} if outer_values else outer_values
        self.moved = [] if outermost else moved
        if outermost:
            self._world_cell.values.clear()
            self._check_parent_reads()

    def _check_parent_reads(self) -> None:
        for name, classes, where in self._parent_reads:
            if missing := [cls for cls in classes if (name, cls) not in self.types]:
                kind = told(self._kinds[missing[0]]) if missing[0] in self._kinds else missing[0]
                raise ContractError(f"{where}: field {name} is read on parents, but is never set on {kind} nodes")
            if len({self.types[name, cls] for cls in classes}) > 1:
                raise ContractError(
                    f"{where}: field {name} has different types on different kinds of nodes, but is read on parents"
                )
        self._parent_reads.clear()

    # The tree language

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

    def _role(self, role: NodeEntity | FrameEntity | Group, key: Any) -> Role:
        if not isinstance(role, NodeEntity):
            return Role(role.name)
        exact = role.by == "kind"
        return Role(role.name, (key,) if exact else self.variants.classes_of(key), exact)

    def leaves(self, flag: Any) -> bool:
        self.program.current.items.append(Store(Exit(), self.program.lift(flag)))
        return False

    def number(self, _: Entity, handle: Any, what: str) -> Position:
        return Position(handle, what)

    def cell(self, node: NodeEntity, handle: Any, key: Any) -> SymbolicCell:
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
    """Run an algorithm on symbols; `checked`, to find state that Python variables carry from node to node.

    Raises:
        ContractError: The algorithm breaks a rule of the tree language; the message has its file and line.
    """
    tree = TracedTree(variants, checked)
    inputs = [
        SymbolicArgument(tree, argument, lambda index, n=n: Input(n, index), True, False)
        for n, argument in enumerate(algorithm.inputs)
    ]
    outputs = [
        SymbolicArgument(tree, argument, lambda index, n=n: OutputEntry(n, index), argument.sparse, True)
        for n, argument in enumerate(algorithm.outputs)
    ]
    algorithm(tree, *inputs, *outputs)
    if tree.open:
        raise ContractError(f"{tree.open[-1]}: a loop over the tree was left before its end")
    return tree.program
