"""Places of scalars in a traced program, and the roles that say whose they are.

`kinetree.engines.lower` turns them into addresses.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Role:
    """Identifies a member of the loop body: its node k, the parent, a column, a frame."""

    __slots__ = ("classes", "exact", "name")

    def __init__(self, name: str, classes: tuple[str, ...] = (), exact: bool = False) -> None:
        self.name = name
        #: Whether the body is specialised for one kind of node.
        self.exact = exact
        #: Names of the node kinds that it may have; ("world",) for the world; empty for columns and frames.
        self.classes = classes

    def __repr__(self) -> str:
        return f"<{self.name} {'|'.join(self.classes)}>"


class Position(NamedTuple):
    """A number of the entity that a role identifies, such as its index, or where its part of q or v starts."""

    role: Role
    what: str


#: A position (0: none) and a fixed offset from it.
Index = tuple[Any, int]


class FieldPlace(NamedTuple):
    """A scalar of a node's field."""

    role: Role
    name: str
    component: int


class Param(NamedTuple):
    """A constant of a node or frame."""

    role: Role
    component: int


class Uniform(NamedTuple):
    """A constant of the mechanism: a component of gravity."""

    component: int


class Input(NamedTuple):
    """An entry of an input, by number of the input and position along each of its axes."""

    number: int
    at: tuple[Index, ...]


class Output(NamedTuple):
    """An entry of an output."""

    number: int
    at: tuple[Index, ...]
    #: Tuples compare by what they hold: without this, the entry would equal that of an input.
    space: str = "output"


class ArrayEntry(NamedTuple):
    """A scalar of an entry of one of the tree's own arrays."""

    number: int
    at: tuple[Index, ...]
    component: int
