"""Programs that consist of sweeps over nodes: those that can compute a node in each lane.

All loops of such a program run over nodes with their parents, or over frames with the nodes that carry them. A body
accesses fields of its node and of the parent, the node's constants and its own part of inputs and outputs. What it adds
to the parent is found here, because lanes do that apart from everything else (`kinetree.compiler.lower.node_schedule`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kinetree.compiler.ir import Access, CodeBlock, For, Op, Program, Store, bodies, place_of
from kinetree.compiler.lower.layout import Layout
from kinetree.compiler.lower.loop_carried import record_of
from kinetree.language.tree import Tree

#: The tables of nodes with their parents, and of frames.
TABLE, FRAMES = Tree.scatter.name, "frames"
(_, OWN_RECORD), (_, PARENT_RECORD) = (record_of(TABLE, k) for k in (0, 1))
CONSTANTS = "0.constants"
_INTEGERS = ("int", "index", "size", "cell", "iadd", "imul")
#: What an operation costs in additions, if not one.
_COSTS = {"const": 0, "sin": 10, "cos": 10, "div": 4, "sqrt": 4}


@dataclass(frozen=True)
class SweepBody:
    """A body of a sweep."""

    variants: list[int]  # numbers of the variants that it serves; none if it serves all of them
    row: Op  # the row of its node
    reads: list[Access]  # components of the parent that it reads
    ops: list[Op]  # operations on components of the parent that it adds to, their loads included
    stores: list[Store]  # their stores
    operands: list[Op]  # what they take from the node itself


@dataclass(frozen=True)
class Sweeps:
    """A program that consists of sweeps over nodes."""

    bodies: dict[CodeBlock, SweepBody]
    frames: list[CodeBlock]  # the bodies of its loops over frames
    each: list[str]  # columns of the table of nodes that have a number for each lane
    uniform: list[str]  # the other columns

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """What is needed to bind the program; serialisable as JSON.

        Columns (`each`, `uniform`), the most numbers that a body adds to a parent (`slots`), operations and accesses to
        inputs and outputs of the bodies of each variant (`costs`), the cost of a frame (`frame`), and whether something
        is added to the nodes that carry frames (`adds`).
        """
        costs: dict[str, list[int]] = {}
        for block, body in self.bodies.items():
            arithmetic, outside = _arithmetic(block), _outside(block)
            for variant in [str(number) for number in body.variants] or ["all"]:
                operations, accesses = costs.get(variant, (0, 0))
                costs[variant] = [operations + arithmetic, accesses + outside]
        return {
            "each": self.each,
            "uniform": self.uniform,
            "slots": max(len(body.operands) for body in self.bodies.values()),
            "costs": costs,
            "frame": max((_arithmetic(block) + _outside(block) for block in self.frames), default=0),
            "adds": any("records" in _spaces(block, Store) for block in self.frames),
        }


class _Unfit(Exception):
    """A program does more than sweep over nodes."""


def sweeps(program: Program, layout: Layout, tables: Collection[str]) -> Sweeps | None:
    """The sweeps of a lowered program that reads some tables.

    None if it has other loops, or accesses memory in other ways than a node's own.
    """
    if layout.arrays or not {TABLE, FRAMES}.issuperset(tables):
        return None
    try:
        return _Analysis(program).result
    except _Unfit:
        return None


class _Analysis:
    def __init__(self, program: Program) -> None:
        self.each: dict[str, None] = {}
        self.uniform: dict[str, None] = {}
        self.bodies: dict[CodeBlock, SweepBody] = {}
        self.frames: list[CodeBlock] = []
        self.seen: set[Any] = set()
        for item in program.top.items:
            if isinstance(item, For):
                _require(bool(item.body.items))
                *before, _ = item.body.items
                _require(all(isinstance(op, Op) and op.code == "cell" for op in before) or item.body in bodies(item))
                if over_frames(item):
                    self.frames += bodies(item)
                else:
                    _require(item.stop.code == "size" and item.stop.attr == f"count {TABLE}")
                    self.loop(item)
            else:
                _require(isinstance(item, (Op, Store)))
                self.item(item, False)
        _require(bool(self.bodies) and not self.each.keys() & self.uniform.keys())
        for block in self.frames:
            _check_frame(block)
        self.result = Sweeps(self.bodies, self.frames, list(self.each), list(self.uniform))

    def loop(self, loop: For) -> None:
        for block, variants in bodies(loop).items():
            for item in block.items:
                _require(isinstance(item, (Op, Store)))
                self.item(item, True)
            self.bodies[block] = _body(block, variants, loop.index)

    def item(self, item: Any, inside: bool) -> None:
        """Check the memory that an item accesses, and note the columns that it needs."""
        access = place_of(item)
        if access is None:
            return
        space, base = access.space[0], access.base
        if (space, base, inside) in self.seen and access.stride is None:
            return  # only the offset differs
        self.seen.add((space, base, inside))
        _require(access.stride is None)
        columns = [] if base is None else list(_columns(base))
        if space in ("input", "output"):
            _require(space == "input" or (bool(columns) if inside else base is None))
            _require(space == "input" or all(column.startswith("0.") for column in columns))
            self.each |= dict.fromkeys(columns)
        else:
            _require(base is None or base.code == "cell")
            self.uniform |= dict.fromkeys(columns)
            _require(space != "records" or {OWN_RECORD, PARENT_RECORD}.issuperset(columns))
            _require(space != "constants" or columns == [CONSTANTS])


def over_frames(loop: For) -> bool:
    """Whether a loop runs over the frames of the call."""
    return loop.stop.code == "size" and bool(loop.stop.attr == f"count {FRAMES}")


def _check_frame(block: CodeBlock) -> None:
    """The body of a loop over frames may run again for other lanes, and takes nothing from outside."""
    own = {id(item) for item in block.items}
    for item in block.items:
        _require(isinstance(item, (Op, Store)))
        access = place_of(item)
        values = [item.value] if isinstance(item, Store) else item.args if isinstance(item, Op) else ()
        _require(all(id(a) in own or a.code in (*_INTEGERS, "const") for a in values))
        if isinstance(access, Access):
            _require(access.stride is None and not (access.space[0] == "output" and isinstance(item, Op)))
            if access.space[0] == "records":  # the world is in all lanes: it can be read, but not added to
                _require(access.base.code == "cell" if access.base is not None else isinstance(item, Op))


def _require(condition: bool) -> None:
    if not condition:
        raise _Unfit


def _columns(op: Op) -> Iterator[str]:
    """The columns of a node's row that an index is computed from."""
    if op.code == "cell":
        _require(op.attr[0] == TABLE and op.args[0].code == "index")
        yield op.attr[1]
    else:
        _require(op.code in ("int", "size", "iadd", "imul"))
        for argument in op.args:
            yield from _columns(argument)


def _of_parent(access: Any) -> bool:
    """Whether a body accesses its node's parent there; records without a base are the world's."""
    if not isinstance(access, Access) or access.space[0] != "records":
        return False
    return access.base is None or bool(access.base.attr == record_of(TABLE, 1))


def _place(access: Any) -> tuple[Any, ...]:
    return access.space, access.base, access.offset


def _body(block: CodeBlock, variants: list[int], row: Op) -> SweepBody:
    """Find what a body reads from its node's parent, and what it adds to it."""
    stores = [item for item in block.items if isinstance(item, Store) and _of_parent(item.place)]
    places = {_place(store.place) for store in stores}
    reads: dict[tuple[Any, ...], Access] = {}
    ops: list[Op] = []
    adding: set[Op] = set()
    operands: dict[Op, None] = {}
    for item in block.items:
        if isinstance(item, Store):
            _require((item.value in adding) == _of_parent(item.place))
            continue
        if not isinstance(item, Op):
            continue
        load = item.code == "load" and _of_parent(item.attr)
        if load and _place(item.attr) not in places:
            if item.attr.base is not None:  # the world is in every lane
                reads[_place(item.attr)] = item.attr
        elif load or not adding.isdisjoint(item.args):
            adding.add(item)
            ops.append(item)
            operands |= {a: None for a in item.args if a not in adding and a.code != "const"}
    loaded = [_place(op.attr) for op in ops if op.code == "load"]
    _require(len(loaded) == len(places) == len(stores))
    return SweepBody(variants, row, list(reads.values()), ops, stores, list(operands))


def _arithmetic(block: CodeBlock) -> int:
    """The cost of a body's operations."""
    return sum([_COSTS.get(item.code, 1) for item in block.items if isinstance(item, Op) and item.args])


def _spaces(block: CodeBlock, kind: type[Op | Store]) -> list[str]:
    """The memory spaces that a body loads from or stores to."""
    places = [place_of(item) for item in block.items if isinstance(item, kind)]
    return [place.space[0] for place in places if place is not None]


def _outside(block: CodeBlock) -> int:
    """Number of accesses to inputs and outputs."""
    return sum(space in ("input", "output") for space in (*_spaces(block, Op), *_spaces(block, Store)))
