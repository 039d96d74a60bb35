"""The entities that loops visit: nodes, frames, groups of rows, columns; and the roles that loop bodies receive.

An entity is identified by its number. Engines need only the other numbers attached to it, such as where its part of q
starts or where the columns of its descendants end. Compiled code reads them from tables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kinetree.language.mechanism import WORLD
from kinetree.language.roles import Cell, ColumnRole, FrameRole, GroupRole, Index, Ledger, NodeRole, RowRole
from kinetree.language.setup import WORLD_CLASS, Setup, Variants, port_of
from kinetree.spatial.value import Array

Number = Callable[[Setup, int], int]


class Engine(ABC):
    """The services that loops need from an engine. Engines identify nodes, frames and indices by their own handles."""

    @abstractmethod
    def visit(self, loop: Any, over: Any, start: Index | None, stop: Index | None = None) -> Iterator[Any]:
        """Run a loop.

        Args:
            loop: A `kinetree.language.loops.Loop`.
            over: Handle of the entity over which an inner loop runs; None for an outer loop.
            start: Index to start at, if not at the beginning.
            stop: Index before which to stop, if not at the end.
        """

    @abstractmethod
    def number(self, entity: Entity, handle: Any, what: str) -> Any:
        """One of the numbers of an entity, as a value or a symbol."""

    @abstractmethod
    def cell(self, node: NodeEntity, handle: Any, key: Any) -> Cell:
        """A node's memory.

        Args:
            node: The role through which it is accessed.
            handle: The engine's handle of the node.
            key: The variant of the node.
        """

    @abstractmethod
    def placement(self, handle: Any) -> Array:
        """The placement of a frame."""


@dataclass(frozen=True, eq=False)
class Entity:
    """Something that loops visit, identified by number.

    Attributes:
        name: Used in error messages and names of tables.
        count: Number of entities.
        numbers: The numbers attached to each. Loops over the entity add their own start and end.
    """

    name: str
    count: Callable[[Setup], int]
    numbers: dict[str, Number] = field(default_factory=dict)


#: All kinds of indices, by name.
INDICES: dict[str, IndexEntity] = {}


@dataclass(frozen=True, eq=False)
class IndexEntity(Entity):
    """A single index along a dimension: a column, or a row of a task. Its number `index` is the index itself.

    Attributes:
        dimension: The dimension that it indexes.
        maps: Further dimensions along which it has an index; each is also the name of that number.
        identity: Whether a number equals the index for all mechanisms with these variants.
        shared: Whether several indices can have the same value of this number.
        exists: Whether mechanisms with these variants have any.
        role: Creates the role that the loop yields, from the index along each dimension.
    """

    dimension: str = ""
    maps: tuple[str, ...] = ()
    identity: Callable[[Variants, str], bool] = lambda _, what: what == "index"
    shared: Callable[[Variants, str], bool] = lambda *_: False
    exists: Callable[[Variants], bool] = lambda _: True
    role: Callable[[dict[str, Index]], Any] = RowRole

    def __post_init__(self) -> None:
        INDICES[self.name] = self

    def of(self, tree: Engine, handle: Any) -> Any:
        """The role that the loop yields for an index."""
        own = {self.dimension: (tree.number(self, handle, "index"), 0)}
        return self.role({**own, **{what: (tree.number(self, handle, what), 0) for what in self.maps}})


NODE = Entity(
    "node",
    lambda setup: len(setup.mechanism.kinds),
    {
        "node": lambda _, k: k + 1,
        "depth": lambda setup, k: setup.topology.depths[k],
        "q": lambda setup, k: setup.mechanism.q_starts[k],
        "v": lambda setup, k: setup.mechanism.v_starts[k],
        "m": lambda setup, k: setup.mechanism.m_starts[k],
        "joints": lambda setup, k: setup.mechanism.joint_starts[k],
        "loops": lambda setup, k: setup.mechanism.loop_starts[k],
    },
)
FRAME = Entity(
    "frame",
    lambda setup: len(setup.sites),
    {
        "frame": lambda _, i: i,
        "sorted_rows": lambda setup, i: setup.rows.starts[i],
        "rows": lambda setup, i: setup.rows.task_starts[i],
    },
)
#: The rows of a frame, in the order in which rows are numbered.
GROUP = Entity(
    "group",
    lambda setup: len(setup.rows.groups),
    {
        "sorted_rows": lambda setup, g: setup.rows.groups[g].start,
        "rows": lambda setup, g: setup.rows.task_rows[setup.rows.groups[g].start],
        "beyond": lambda setup, g: setup.rows.groups[g].stop,
    },
)
#: The rows of a task, in the user's order.
TASK = Entity("task", lambda setup: len(setup.rows.tasks), {"rows": lambda setup, t: setup.rows.tasks[t].start})
COLUMN = IndexEntity(
    "column",
    lambda setup: setup.mechanism.nv,
    {"index": lambda _, c: c},
    dimension="v",
    exists=lambda variants: bool(variants.nodes),
    role=lambda at: ColumnRole(at["v"]),
)
ROW = IndexEntity(
    "sorted_rows",
    lambda setup: setup.rows.count,
    {"index": lambda _, r: r, "rows": lambda setup, r: setup.rows.task_rows[r]},
    dimension="sorted_rows",
    maps=("rows",),
    identity=lambda variants, what: what == "index" or variants.in_order,
    shared=lambda variants, what: what == "rows" and bool(variants.relatives),  # the two ends of a task
    exists=lambda variants: bool(variants.frames),
)
PLACE = IndexEntity(
    "place",
    lambda setup: setup.rows.task_row_count,
    {"index": lambda _, r: r},
    dimension="rows",
    exists=lambda variants: bool(variants.frames),
)


# Members of the rows of a table


@dataclass(frozen=True)
class NodeEntity:
    """A node.

    Attributes:
        name: Name of its role, for error messages.
        right: Access of the body to its fields: "set", "add" or "read".
        by: "kind": the body is traced for each kind and can use what the kind supplies; "port": only for each port.
        world: Whether it may be the world.
    """

    name: str
    right: str = "read"
    by: str = "port"
    world: bool = False
    entity = NODE

    def keys(self, variants: Variants) -> list[Any]:
        """All its variants."""
        if self.by == "kind":
            return list(dict.fromkeys(kind.name for kind, _ in variants.nodes))
        return [*([WORLD_CLASS] if self.world else []), *variants.ports]

    def key(self, setup: Setup, k: int) -> Any:
        """The variant of one of them."""
        return setup.mechanism.kinds[k].name if self.by == "kind" else port_of(setup.mechanism, k)

    def role(self, tree: Engine, handle: Any, key: Any, ledger: Ledger) -> NodeRole:
        """The role that the body receives."""
        return NodeRole(tree.cell(self, handle, key), self.name, self.right, ledger, self.by == "kind")


@dataclass(frozen=True)
class FrameEntity:
    """A frame.

    Attributes:
        name: Name of its role.
        known: Whether the body knows its rows and its part in a task.
    """

    name: str
    known: bool = False
    entity = FRAME

    def keys(self, _: Variants) -> list[Any]:
        """All its variants. Those of known frames depend on the nodes that carry them, so their loops have `cases`."""
        return [None]

    def key(self, setup: Setup, i: int) -> Any:
        """The variant of one of them."""
        return (setup.sites[i].rows, setup.sites[i].part) if self.known else None

    def role(self, tree: Engine, handle: Any, key: Any, _: Ledger) -> FrameRole:
        """The role that the body receives."""
        at = {what: tree.number(FRAME, handle, what) for what in ("frame", "sorted_rows", "rows")}
        return FrameRole(handle, tree.placement(handle), at, key[0] if self.known else ())


@dataclass(frozen=True)
class Group:
    """Rows that are visited together.

    Attributes:
        name: Name of its role.
        entity: The group as an entity.
        at: For each dimension along which its rows have indices, the name of the number at which they start.
        size: Number of rows of a group.
        keys: Sizes that occur.
    """

    name: str
    entity: Entity
    at: Mapping[str, str]
    size: Number
    keys: Callable[[Variants], list[Any]] = lambda variants: sorted(variants.sizes)

    def key(self, setup: Setup, n: int) -> Any:
        """The variant of one of them."""
        return self.size(setup, n)

    def role(self, tree: Engine, handle: Any, key: Any, _: Ledger) -> GroupRole:
        """The role that the body receives."""
        starts = {dimension: tree.number(self.entity, handle, what) for dimension, what in self.at.items()}
        rows = (RowRole({dimension: (start, i) for dimension, start in starts.items()}) for i in range(key))
        return GroupRole(handle, tuple(rows))


def number_of(setup: Setup, entity: Entity, n: int, what: str) -> int:
    """A number of an entity; for the world always 0."""
    return 0 if n == WORLD else entity.numbers[what](setup, n)


def numbers_of(setup: Setup, entity: Entity, entities: Sequence[int], what: str) -> list[int]:
    """A number of each of some entities; for the world always 0."""
    number = entity.numbers[what]
    return [0 if n == WORLD else number(setup, n) for n in entities]
