"""The roles that loops yield to algorithms: nodes, columns, rows and frames, each with its own access rights.

Behind each role is a `Cell` of the engine, which stores the values; the roles enforce the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from kinetree.errors import ContractError
from kinetree.language.contract import Increment, addable, author_line, describe, immutable, refuse, type_name
from kinetree.language.node import WORLD_PORT, NodeKind, NodeManifold, told
from kinetree.language.setup import DIMENSIONS
from kinetree.spatial.motion import Force
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array

#: An index: a position known to the engine (a number or a traced expression) and a fixed offset.
Index = tuple[Any, int]


class Cell(Protocol):
    """One node's memory in an engine."""

    kind: NodeKind | None
    parameters: Array
    #: The engine's identifier of the node.
    handle: Any

    def get(self, name: str) -> Any:
        """The value of a field, or None if it was never set."""

    def set(self, name: str, value: Any) -> None:
        """Replace the value of a field."""

    def start(self, dimension: str) -> Any:
        """Index at which the node's part of a dimension such as "q", "v" or "node" starts."""

    def type_on_world(self, name: str) -> tuple[Any, ...] | None:
        """The type of the world's field of this name, if the node's must match it."""


@dataclass
class Ledger:
    """Fields written so far in one execution of a loop body, with the role that wrote them."""

    writer: dict[str, str] = field(default_factory=dict)


def _of_kind(name: str) -> Any:
    def call(self: NodeRole, *arguments: Any) -> Any:
        kind, parameters = self._kind(name), self._cell.parameters
        return getattr(kind, name)(parameters, *arguments)

    call.__doc__ = getattr(NodeKind, name).__doc__
    return call


#: Formulas that a role has of its kind as they are.
FORMULAS = ("resistance", "potential", "brackets", "coupling", "coupling_drift", "loops", "moved")


class NodeRole:
    """A node. Its fields are attributes; the properties and methods below come from its kind."""

    __slots__ = ("_cell", "_known", "_ledger", "_right", "_role")

    def __init__(self, cell: Cell, role: str, right: str, ledger: Ledger, known: bool = False) -> None:
        own = {"_cell": cell, "_role": role, "_right": right, "_ledger": ledger, "_known": known}
        for name, value in own.items():
            object.__setattr__(self, name, value)

    # Supplied by the kind

    def _kind(self, attribute: str) -> NodeKind:
        kind: NodeKind | None = self._cell.kind
        if kind is None or not self._known:
            raise ContractError(
                f"{author_line()}: `{attribute}` is available only from a loop's own node k, not from {self._role}"
            )
        return kind

    def formulas(self) -> tuple[NodeKind, Array]:
        """Internal: the node's kind and constants."""
        return self._kind("formulas"), self._cell.parameters

    @property
    def H(self) -> Any:
        """Joint map, in the node's coordinates."""
        kind = self._kind("H")
        return self.kept("H") if kind.moving else kind.joint_map(self._cell.parameters)

    @property
    def subspace(self) -> Any:
        """A basis of the motions that H allows, for quantities that do not depend on the joint's coordinates."""
        return self.H

    def in_joint(self, x: Array) -> Array:
        """The joint's own coordinates of a motion with coordinates x in `subspace`."""
        return x

    @property
    def M(self) -> Any:
        """Inertia."""
        kind = self._kind("M")
        return self.kept("M") if kind.moving else kind.inertia(self._cell.parameters)

    @property
    def armature(self) -> Array:
        """Reflected rotor inertia of each degree of freedom; zeros where there is no rotor."""
        return self._kind("armature").armature(self._cell.parameters)

    @property
    def manifold(self) -> NodeManifold:
        """The manifold of the node's configuration."""
        return self._kind("manifold").manifold(self._cell.parameters)

    def weight(self, q: Array) -> Any:
        """A*(p, k): maps the parent's motion to the node. Also evaluates H and M of nodes where they depend on q."""
        kind, parameters = self._kind("weight"), self._cell.parameters
        if kind.moving:
            # Stored in fields, for this loop and later ones. Engines drop those that are never read.
            own = {"q": q, "H": kind.joint_map(parameters, q), "M": kind.inertia(parameters, q)}
            for name, value in own.items():
                self.keep(name, value)
        return kind.weight(parameters, q)

    def coriolis(self, velocity: Any, v: Array, carrier: Any = None) -> Any:
        """a(k), given the node's velocity, its joint velocities and the parent's velocity."""
        kind = self._kind("coriolis")
        if not kind.moving:
            return kind.coriolis(self._cell.parameters, None, v, velocity, carrier)
        if carrier is None:
            refuse(f"nodes of kind {told(kind)} need V_p = parent.V: write k.coriolis(k.V, v[k], V_p)")
        return kind.coriolis(self._cell.parameters, self.kept("q"), v, velocity, carrier)

    def gyroscopic(self, velocity: Any, v: Array) -> Any:
        """b(k), given the node's velocity and its joint velocities."""
        kind = self._kind("gyroscopic")
        q = self.kept("q") if kind.moving else None
        return kind.gyroscopic(self._cell.parameters, q, v, velocity)

    # As of `NodeKind`, without the constants
    resistance, potential, brackets, coupling, coupling_drift, loops, moved = map(_of_kind, FORMULAS)

    def keep(self, name: str, value: Any) -> None:
        """Internal: store a quantity that depends on q in a field hidden from algorithms."""
        self._cell.set(_hidden(name), immutable(value))

    def kept(self, name: str) -> Any:
        """Internal: the quantity stored by `keep`."""
        value = self._cell.get(_hidden(name))
        if value is None:
            refuse(f"`{name}` of this node depends on q: call k.weight(q[k]) before reading it")
        return value

    @property
    def dimension(self) -> int:
        """Number of components of the node's velocity."""
        return self._kind("dimension").dimension

    def columns(self) -> Iterator[ColumnRole]:
        """The node's own degrees of freedom, one by one."""
        kind = self._kind("columns")
        start = self._cell.start("v")
        for local in range(kind.nv):
            yield ColumnRole((start, local), local)

    # Fields

    def __getattr__(self, name: str) -> Any:
        writer = self._ledger.writer.get(name, self._role)
        if writer != self._role:
            refuse(f"`{self._role}.{name}` is read after `{writer}.{name}` was written in the same loop body")
        value = self._cell.get(name)
        if value is None:
            refuse(
                f"`{self._role}.{name}` is read before it is set"
                + (" on the world: set it there before the first loop" if self._cell.kind is None else "")
            )
        return addable(value, (id(self._cell), name)) if self._right == "add" else value

    def __setattr__(self, name: str, value: Any) -> None:
        if name in SUPPLIED:
            refuse(f"`{name}` is supplied by the node and cannot be set")
        if isinstance(value, Increment):
            if value.owner != (id(self._cell), name):
                refuse(f"`{self._role}.{name}` is given an increment of another field")
            current = self._cell.get(name)
            value = _sum(current, value.amount, f"{self._role}.{name}")
        elif self._right == "add":
            refuse(f"`{self._role}.{name}` is set; through this role a field may only be added to, with +=")
        elif self._right == "read":
            refuse(f"`{self._role}.{name}` is written; this loop may only read fields of {self._role}")
        value = immutable(value)
        expected = self._cell.type_on_world(name)
        if expected is not None and expected != describe(value):
            refuse(
                f"`{self._role}.{name}` is {type_name(describe(value))}, but the field was set as "
                f"{type_name(expected)} before"
            )
        self._ledger.writer[name] = self._role
        self._cell.set(name, value)

    # Indices

    def span(self, dimension: str) -> tuple[Index, int | None]:
        """Start and length of the node's part of an array dimension; length None means a single index, no axis."""
        if dimension == "node":
            return (self._cell.start("node"), 0), None
        kind = self._kind(f"[…] over {dimension}")
        if dimension not in _LENGTHS:
            refuse(f"an index over {dimension} cannot be a node")
        return (self._cell.start(dimension), 0), _LENGTHS[dimension](kind)


#: Length of a node's part of each dimension.
_LENGTHS: dict[str, Callable[[NodeKind], int]] = {
    "q": lambda kind: kind.nq,
    "v": lambda kind: kind.nv,
    "m": lambda kind: kind.dimension,
    "joints": lambda kind: kind.joint_rates,
    "loops": lambda kind: kind.loop_rows,
    "constants": lambda kind: kind.parameter_count,
}

#: Names that nodes define besides their fields.
SUPPLIED = frozenset(name for name in vars(NodeRole) if not name.startswith("_"))


def _hidden(name: str) -> str:
    """Name of the field that stores a quantity supplied by the node; algorithms cannot have a field of that name."""
    return f"{name}*"


def _sum(current: Any, amount: Any, what: str) -> Any:
    if describe(current) != describe(amount if not isinstance(current, np.ndarray) else np.asarray(amount)):
        refuse(
            f"`{what}` is {type_name(describe(current))} and cannot take an increment of type {type(amount).__name__}"
        )
    return current + amount


class ColumnRole:
    """One scalar degree of freedom: a column of J, M or M⁻¹."""

    __slots__ = ("index", "local")

    def __init__(self, index: Index, local: int | None = None) -> None:
        self.index = index
        self.local = local

    def of(self, columns: Any) -> Any:
        """This column of the node's own joint map."""
        if self.local is None:
            refuse("only a node's own columns, from k.columns(), are columns of its joint map")
        return columns.column(self.local)

    def start(self, dimension: str) -> Index:
        """Index at which a loop over a dimension starts if it starts with this column."""
        return self.span(dimension)[0]

    def span(self, dimension: str) -> tuple[Index, int | None]:
        """Its position along a dimension of degrees of freedom."""
        if dimension != "v":
            refuse(f"an index over {dimension} cannot be a column")
        return self.index, None


class RowRole:
    """One row: a component of a frame's motion, or another quantity that an algorithm propagates in the same way.

    Args:
        at: Its index along each dimension in which it has one.
        component: The component of the frame's motion, if known.
    """

    __slots__ = ("at", "component")

    def __init__(self, at: dict[str, Index], component: int | None = None) -> None:
        self.at, self.component = at, component

    def unit(self) -> Force:
        """The unit force along the row, in the frame's coordinates."""
        return Force.unit(self._known_component)

    @property
    def moves(self) -> bool:
        """Whether the row is a component of linear rather than angular motion."""
        return Force.is_linear(self._known_component)

    @property
    def _known_component(self) -> int:
        if self.component is None:
            refuse("only a frame's own rows, from frame.rows(), know their component")
        return self.component

    def span(self, dimension: str) -> tuple[Index, int | None]:
        """Its index along a dimension."""
        index = self._index(dimension)
        if index is None:
            refuse(f"a row with an index over {' and '.join(self.at)} has none over {dimension}")
        return index, None

    def start(self, dimension: str) -> Index:
        """Index at which a loop over a dimension starts if it starts with this row."""
        index = self._index(dimension)
        if index is None:
            refuse(f"a loop over {dimension} can start only at a row that has an index there")
        return index

    def _index(self, dimension: str) -> Index | None:
        return self.at.get(dimension) or self.at.get(DIMENSIONS[dimension].within if dimension in DIMENSIONS else "")


class GroupRole:
    """Rows that are visited together; their number is known before the loop runs."""

    __slots__ = ("handle", "rows")

    def __init__(self, handle: Any, rows: tuple[RowRole, ...]) -> None:
        self.handle, self.rows = handle, rows


class FrameRole:
    """A frame fixed to a node."""

    __slots__ = ("X", "_at", "_components", "handle")

    def __init__(self, handle: Any, placement: Array, at: dict[str, Any], components: tuple[int, ...]) -> None:
        self.handle = handle
        #: Transforms motion from the node's coordinates to the frame's.
        self.X = Transform(placement)
        self._at, self._components = at, components

    def rows(self) -> Iterator[RowRole]:
        """The rows of the frame's task, one by one."""
        for local, component in enumerate(self._components):
            yield RowRole({dimension: (self._at[dimension], local) for dimension in ("sorted_rows", "rows")}, component)

    def span(self, dimension: str) -> tuple[Index, int | None]:
        """Its index among the frames of the call."""
        if dimension != "frames":
            refuse(f"an index over {dimension} cannot be a frame")
        return (self._at["frame"], 0), None


#: Message for reading an entry of `tree.inward` too late.
MOVED_ON = (
    "an entry of tree.inward is read or set at k after it was set at another node: read it before it is set at the "
    "parent, and keep what later lines need in a field or another array"
)


def entry_at(keys: Any) -> tuple[NodeRole, ColumnRole | RowRole]:
    """The node and the column or row of an entry of `tree.inward`."""
    if not (isinstance(keys, tuple) and len(keys) == 2 and isinstance(keys[0], NodeRole)):
        refuse("an entry of tree.inward is indexed by a node and a column or row: F[k, c]")
    return keys


def require_own(node: NodeRole) -> None:
    """Raise unless a node is the loop's own, where entries of `tree.inward` are read."""
    if not node._known:
        refuse(f"an entry of tree.inward is read at a loop's own node k, not at {node._role}")


def port_of(role: NodeRole) -> str:
    """The port of a node, which determines the type of its velocity."""
    kind = role._cell.kind
    return WORLD_PORT if kind is None else kind.port


def handle_of(role: Any) -> Any:
    """The engine's handle of a node, frame or group of rows."""
    return role._cell.handle if isinstance(role, NodeRole) else role.handle
