"""Lowering: turns the loops of a program into loops over numbers, and its places into addresses.

A role becomes a row of a table or an index of a loop; `kinetree.engines.addressing` makes addresses from them. Printers
then need to know nothing but the operations of `kinetree.engines.ir`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinetree.engines.accumulators import sweep_direction
from kinetree.engines.addressing import Addressing, LoopIndex, TableRow, bases
from kinetree.engines.alike import alike
from kinetree.engines.carried import RELATIVES, LoopCarried, carried, record_of
from kinetree.engines.ir import Access, CodeBlock, Follow, For, Op, Place, Program, Store, Switch, TreeLoop
from kinetree.engines.layout import Layout
from kinetree.engines.lowered import Lowered
from kinetree.engines.places import ArrayEntry, FieldPlace, Output, Position, Role
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.entities import IndexEntity
from kinetree.recursion.loops import Chain, IndexLoop, Range, Runs, Table
from kinetree.recursion.variants import Variants


def lower(
    program: Program,
    algorithm: Algorithm,
    variants: Variants,
    known: Callable[[str], int] | None = None,
) -> Lowered:
    """Lower a program.

    Args:
        program: The simplified and fused program.
        algorithm: The recursion; gives the dimensions of inputs and outputs.
        variants: The variants of loop bodies; their order defines their numbers in tables.
        known: Sizes of the mechanism, to specialise code for one mechanism.
    """
    return _Lowering(program, algorithm, variants, known).result


class _Lowering(Addressing):
    def __init__(
        self,
        program: Program,
        algorithm: Algorithm,
        variants: Variants,
        known: Callable[[str], int] | None,
    ) -> None:
        self.carried = carried(program)
        super().__init__(algorithm, variants, Layout.of(program, variants, self.carried), known)
        self.copies: dict[int, Op] = {}
        self.sums = frozenset[Any]().union(*(one.sums for one in self.carried.values()))
        self.block(program.top, self.target.top)
        self.target.forget()

    # Items

    def block(self, old: CodeBlock, new: CodeBlock) -> None:
        """Copy the items of a block."""
        copies = self.copies  # not notes: threads may lower the same program at the same time
        self.target.current = new
        for item in old.items:
            if isinstance(item, Op):
                args = tuple([copies[id(a)] for a in item.args])
                attr = self.access(item.attr) if item.code == "load" else item.attr
                copies[id(item)] = made = Op(item.code, args, attr, new)
                new.items.append(made)
            elif isinstance(item, Store):
                made_store = Store(self.access(item.place), copies[id(item.value)])
                new.items.append(made_store)
                place = item.place
                if isinstance(place, FieldPlace) and place.role.exact and (place.name, place.component) in self.sums:
                    self.result.starts.append(made_store)
            elif isinstance(item, TreeLoop):
                self.loop(item)
                self.target.current = new

    def inside(self, old: CodeBlock, outer: CodeBlock) -> CodeBlock:
        """The copy of a loop's body."""
        body = CodeBlock(self.target, outer)
        self.block(old, body)
        self.target.current = outer
        return body

    # Loops

    def loop(self, loop: TreeLoop) -> None:
        """Lower a loop of any shape."""
        data = loop.loop
        if isinstance(data, Table):
            self.table(loop, data)
        elif isinstance(data, Range):
            self.range(loop, data)
        elif isinstance(data, Runs):
            outer, run = self.target.current, self.index()
            body = CodeBlock(self.target, outer)
            self.target.current = body
            self.contiguous(loop, data, self.cell(data.name, run, "start"), self.cell(data.name, run, "stop"))
            self.target.current = outer
            outer.items.append(For(run, self.of_over(loop, "begin"), self.of_over(loop, "end"), body))
        elif isinstance(data, Chain):
            outer, index = self.target.current, self.index()
            start = self.of_over(loop, "start") if loop.start is None else self.number(loop.start)
            self.column(data.name, "next")
            self.found[loop.roles[()][0]] = LoopIndex(index, data.index)
            outer.items.append(Follow(index, start, data.name, self.inside(loop.bodies[()], outer)))

    def range(self, loop: TreeLoop, data: Range[Any]) -> None:
        """Lower a loop over a range."""
        bounded = "start" in data.bounds
        if loop.start is None:
            start = self.of_over(loop, "start") if bounded else self.fixed(0)
        else:
            start = self.number(loop.start)
            start = self.target.op("imax", start, self.of_over(loop, "start")) if bounded else start
        if loop.stop is None:
            stop = self.of_over(loop, "stop") if "stop" in data.bounds else self.size(data.index.dimension)
        else:
            stop = self.number(loop.stop)
        self.contiguous(loop, data, start, stop, data.backwards)

    def contiguous(self, loop: TreeLoop, data: IndexLoop[Any], start: Op, stop: Op, backwards: bool = False) -> None:
        """Lower a loop over consecutive indices."""
        outer, index, (role,), body = self.target.current, self.index(), loop.roles[()], loop.bodies[()]
        independent = _independent(body, role) and not self.adds_to_shared(body, role, data.index)
        self.found[role] = LoopIndex(index, data.index)
        self.independent = role if independent else None
        inside = self.inside(body, outer)
        outer.items.append(For(index, start, stop, inside, backwards, independent=independent, note=data.name))
        self.independent = None

    def adds_to_shared(self, body: CodeBlock, role: Role, entity: IndexEntity) -> bool:
        """Whether a body reads places that several indices share, and so may accumulate into them."""
        shared = {Position(role, what) for what in entity.maps if entity.shared(self.variants, what)}
        read = [item.attr for item in body.items if isinstance(item, Op) and item.code == "load"]
        return any(shared.intersection(bases(place)) for place in read if isinstance(place, (Output, ArrayEntry)))

    def table(self, loop: TreeLoop, data: Table[Any]) -> None:
        """Lower a loop over rows, with a switch to the body of the row's variant; equal bodies are lowered once."""
        outer, row, source = self.target.current, self.index(), data.source
        numbers = {variant: i for i, variant in enumerate(source.cases(self.variants))}
        filled = dict(sorted((numbers[variant], variant) for variant, body in loop.bodies.items() if body.items))
        first = alike(loop, filled, self.layout)
        single = len(filled) == len(numbers) and len(set(first.values())) == 1
        self.result.tables.setdefault(source.name, [])
        if data.over is None:
            start, stop = self.fixed(0), self.size(f"count {source.name}")
        else:
            start, stop = self.of_over(loop, "begin"), self.of_over(loop, "end")
        body = CodeBlock(self.target, outer)
        cases: dict[int, CodeBlock] = {}
        if not single:
            self.target.current = body
            variant_number = self.cell(source.name, row, "variant")
        for number, same in first.items():
            if number != same:
                cases[number] = cases[same]
                continue
            variant = filled[number]
            cases[number] = block = body if single else CodeBlock(self.target, body)
            for position, role in enumerate(loop.roles[variant]):
                self.found[role] = TableRow(block, source.name, row, position)
            self.block(loop.bodies[variant], block)
            if sweep_direction(loop):
                _set_late(block, record_of(source.name, 0))
        if not single:
            notes = {number: " on ".join(map(_text, variant)) for number, variant in filled.items()}
            body.items.append(Switch(variant_number, cases, len(filled) == len(numbers), notes))
        self.target.current = outer
        passed_on = self.passed_on(loop, source.name)
        outer.items.append(For(row, start, stop, body, data.backwards, carried=passed_on, note=data.name))

    def passed_on(self, loop: TreeLoop, table: str) -> LoopCarried | None:
        """What a sweep carries, by offsets in records."""
        found = self.carried.get(loop)
        if found is None:
            return None
        if found.spent:
            self.column(table, RELATIVES)
        for position in range(2):
            self.column(*record_of(table, position))
        offsets = {(name, component): offset for (_, name, component), offset in self.layout.fields.items()}
        taken, *parts = found
        return LoopCarried(taken, *(frozenset(offsets[component] for component in part) for part in parts))

    def of_over(self, loop: TreeLoop, what: str) -> Op:
        """A number of the entity that a loop is over."""
        if loop.over is None:
            raise AssertionError(f"{loop.loop.name} is not an inner loop")
        return self.of_role(loop.over, f"{loop.loop.name}.{what}")


def _set_late(block: CodeBlock, record: tuple[str, str]) -> None:
    """Move a store to a field of the node itself to the end of a body if it reads another field in that place later."""

    def offset(place: Any) -> int | None:
        is_own = isinstance(place, Access) and place.base is not None and place.base.attr == record
        return place.offset if is_own else None

    read: set[int | None] = set()
    late: set[int] = set()
    for item in reversed(block.items):
        if isinstance(item, Op) and item.code == "load":
            read.add(offset(item.attr))
        elif isinstance(item, Store) and (here := offset(item.place)) is not None and here in read:
            late.add(id(item))
    if late:
        block.items.sort(key=lambda item: id(item) in late)


def _text(key: Any) -> str:
    """Part of a variant, for comments in generated code."""
    return key if isinstance(key, str) else "frame" if key is None else str(key)


def _independent(body: CodeBlock, index: Role) -> bool:
    """Whether iterations are independent: no inner loop, and no index accesses another's places."""
    if any(isinstance(item, TreeLoop) for item in body.items):
        return False
    stored: list[Any] = [item.place for item in body.items if isinstance(item, Store)]
    loaded: list[Any] = [item.attr for item in body.items if isinstance(item, Op) and item.code == "load"]
    if any(len(_along(place, index)) > 1 for place in stored + loaded):
        return False  # a diagonal
    for place in stored:
        own = _along(place, index)
        same = [p for p in (*loaded, *stored) if type(p) is type(place) and p.number == place.number]
        if not own or any(_along(p, index) != own for p in same):
            return False
    return True


def _along(place: Place, role: Role) -> list[Any]:
    """The axes of a place that are indexed by a role, with the index along each."""
    at = enumerate(getattr(place, "at", ()))
    return [(axis, index) for axis, index in at if isinstance(index[0], Position) and index[0].role is role]
