"""Prints a lowered program as LLVM assembly, for one lane width, with loops that carry values from node to node.

`kinetree.compiler.lower.loop_carried` finds these values; `kinetree.compiler.llvm.printer` prints everything else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kinetree.compiler.formats import FLOAT64, Format
from kinetree.compiler.ir import Access, CodeBlock, For, Item, Op, Store, Switch
from kinetree.compiler.llvm.memory import Scope
from kinetree.compiler.llvm.printer import Emitter
from kinetree.compiler.lower.loop_carried import NOTHING, RELATIVES, LoopCarried, SiblingFlags, record_of, term
from kinetree.compiler.lower.lower import Lowered


def emit(lowered: Lowered, width: int, columns: int, scalar: Format = FLOAT64) -> list[str]:
    """The assembly of modules that together define one function, `kernel`.

    Args:
        lowered: The program.
        width: Samples per call.
        columns: Number of indices handled at once in loops with independent indices, if `width` is 1.
        scalar: The format to compute in.
    """
    return _CarryingEmitter(lowered, width, columns, scalar).modules()


class _CarryingEmitter(Emitter):
    def __init__(self, lowered: Lowered, width: int, columns: int, scalar: Format) -> None:
        #: Stores that nobody needs.
        self.unset = {id(store) for store in lowered.starts}
        super().__init__(lowered, width, columns, scalar)

    def item(self, item: Item, scope: Scope) -> None:
        if id(item) not in self.unset:
            super().item(item, scope)

    def passes(self, loop: For, scope: Scope) -> None:
        if loop.carried is None:
            super().passes(loop, scope)
        else:
            Passes(self, loop).print(scope)


class Given(NamedTuple):
    """What a body gives: the record that has it, or −1 for none, and the values by offset."""

    record: str
    values: dict[int, str]


class Passes:
    """Prints the passes of a loop that carries values, of which the head is being written."""

    def __init__(self, emitter: Emitter, loop: For) -> None:
        self.emitter, self.f, self.loop = emitter, emitter.f, loop
        self.carried: LoopCarried = loop.carried or NOTHING
        self.table = loop.stop.attr.removeprefix("count ")
        self.offsets = sorted(self.carried.values)
        #: Cells with the record of the node whose fields a pass takes, and of the one of which it gives fields.
        self.source, self.target = (record_of(self.table, k) for k in (self.carried.source, 1 - self.carried.source))
        #: Numbers of the row that the body that is being printed reads.
        self.cells: dict[tuple[str, str], Op] = {}
        self.nothing = Given("-1", dict.fromkeys(self.offsets, "poison"))
        self.zero = emitter.scalar.constant(-0.0, emitter.width)
        # what the pass before gave
        self.record = self.f.carried("i64", "-1")
        self.values = {offset: self.f.carried(emitter.element, "poison") for offset in self.offsets}

    def print(self, scope: Scope) -> None:
        """Print them in the scope of the loop."""
        *before, last = self.loop.body.items
        if not isinstance(last, Switch):
            self.give({self.f.block: self.body(self.loop.body, scope)})
            return
        for item in before:
            self.emitter.item(item, scope)
        given = {self.f.block: self.nothing}
        with self.f.switch(self.emitter.integer(last.value, scope), last.cases, last.exhaustive) as cases:
            for case in cases:
                made = self.body(case, scope.inner())
                given[self.f.block] = made
        self.give(given)

    def give(self, given: dict[str, Given]) -> None:
        """Pass on what the bodies give, by the labels of their last blocks."""
        f = self.f
        if len(given) == 1:
            [(record, values)] = given.values()
        else:
            record = f.merged("i64", {label: each.record for label, each in given.items()})
            values = {
                offset: f.merged(self.emitter.element, {label: each.values[offset] for label, each in given.items()})
                for offset in self.offsets
            }
        f.carry(self.record, record)
        for offset, name in self.values.items():
            f.carry(name, values[offset])

    def body(self, block: CodeBlock, scope: Scope) -> Given:
        """Print one of the loop's bodies."""
        self.cells = {item.attr: item for item in block.items if isinstance(item, Op) and item.code == "cell"}
        stores = {offset: store for item in block.items for offset, store in self.given(item).items()}
        sums = self.sums(stores)
        late = {id(op) for offset, load in sums.items() for op in (load, stores[offset].value)}
        for item in block.items:
            self.f.divide()
            if isinstance(item, Op) and id(item) not in late:
                self.op(item, block, scope)
            elif isinstance(item, Store) and not self.is_dead_after(item.place):
                self.emitter.item(item, scope)
        if stores and self.carried.dead_after:
            return self.kept(stores, scope) if self.carried.source else self.summed(stores, sums, scope)
        return self.all_given(stores, scope)

    def op(self, op: Op, block: CodeBlock, scope: Scope) -> None:
        """Print an operation of a body; what can be taken from the pass before is found when it is first needed."""
        if op.code == "load" and self.is_of(op.attr, self.source):
            if id(op) not in scope.names:
                self.take(block, scope)
        else:
            scope.names[id(op)] = self.emitter.op(op, scope)

    def take(self, block: CodeBlock, scope: Scope) -> None:
        """Find all that a body takes: from the pass before, or else from memory."""
        f, element = self.f, self.emitter.element
        ops = [item for item in block.items if isinstance(item, Op) and item.code == "load"]
        loads = [op for op in ops if self.is_of(op.attr, self.source)]
        other = f.let(f"icmp ne i64 {self.record}, {self.emitter.integer(self.cell(self.source, scope), scope)}")
        before, inner = f.block, scope.inner()
        with f.when(other):
            fetched = [self.fetched(op.attr, inner) for op in loads]
            inside = f.block
        for op, value in zip(loads, fetched, strict=True):
            scope.names[id(op)] = f.merged(element, {before: self.values[op.attr.offset], inside: value})

    def fetched(self, access: Access, scope: Scope) -> str:
        """A value that the pass before does not give. Sums to which nobody adds are not in memory."""
        return self.zero if access.offset in self.carried.sums else self.emitter.load(access, scope)

    def given(self, item: Item) -> dict[int, Store]:
        """The offset of a value that a body gives by storing it, and the store."""
        place: Any = item.place if isinstance(item, Store) else None
        is_given = isinstance(item, Store) and self.is_of(place, self.target)
        return {place.offset: item} if is_given and isinstance(item, Store) else {}

    def all_given(self, stores: dict[int, Store], scope: Scope) -> Given:
        """What is given by storing it."""
        if not stores:
            return self.nothing
        values = {offset: self.emitter.use(store.value, scope) for offset, store in stores.items()}
        return Given(self.given_record(scope), values)

    def kept(self, stores: dict[int, Store], scope: Scope) -> Given:
        """What is given, and stored where other children than the next node read it."""
        with self.f.when(self.has(SiblingFlags.LATER_CHILDREN, self.relatives(scope))):
            inner = scope.inner()
            for offset in sorted(self.carried.dead_after):
                self.emitter.item(stores[offset], inner)
        return self.all_given(stores, scope)

    def relatives(self, scope: Scope) -> str:
        """The node's `SiblingFlags`."""
        return self.emitter.integer(self.cell((self.table, RELATIVES), scope), scope)

    def cell(self, which: tuple[str, str], scope: Scope) -> Op:
        """A number of the loop's row, which is read here unless it has been before."""
        found = self.cells.setdefault(which, Op("cell", (self.loop.index,), which, self.loop.body))
        if scope.find(id(found)) is None:
            scope.names[id(found)] = self.emitter.whole(found, scope)
        return found

    def has(self, which: SiblingFlags, relatives: str) -> str:
        """Whether a node has some relatives."""
        return self.f.let(f"icmp ne i64 {self.f.let(f'and i64 {relatives}, {which.value}')}, 0")

    def given_record(self, scope: Scope) -> str:
        """The record of the node of which a pass gives fields."""
        return self.emitter.integer(self.cell(self.target, scope), scope)

    def given_place(self, offset: int, scope: Scope) -> Access:
        """Where a field is of which a pass gives the value."""
        return Access(("records", 0), self.cell(self.target, scope), offset)

    def sums(self, stores: dict[int, Store]) -> dict[int, Op]:
        """What the sums that start at −0 load, among what a body gives."""
        return {
            offset: next(a for a in store.value.args if a.code == "load" and a.attr == store.place)
            for offset, store in stores.items()
            if offset in self.carried.sums
        }

    def summed(self, stores: dict[int, Store], sums: dict[int, Op], scope: Scope) -> Given:
        """Finish sums, and store what siblings need."""
        f, emitter, element = self.f, self.emitter, self.emitter.element
        values = {offset: emitter.use(store.value, scope) for offset, store in stores.items() if offset not in sums}
        terms = {offset: self.term(stores[offset].value, load, scope) for offset, load in sums.items()}
        alone = dict.fromkeys(sorted(self.carried.sums), self.zero) | terms
        relatives, before = self.relatives(scope), f.block
        with f.when(self.has(SiblingFlags.BEFORE | SiblingFlags.AFTER, relatives)):
            start = f.block
            with f.when(self.has(SiblingFlags.BEFORE, relatives)):
                inner = scope.inner()
                totals = {offset: emitter.load(self.given_place(offset, inner), inner) for offset in alone}
                for offset, load in sums.items():
                    inner.names[id(load)] = totals[offset]
                    totals[offset] = emitter.op(stores[offset].value, inner)
                later = f.block
            sofar = {
                offset: f.merged(element, {start: alone[offset], later: total}) for offset, total in totals.items()
            }
            with f.when(self.has(SiblingFlags.AFTER, relatives)):
                inner = scope.inner()
                for offset in sorted(self.carried.dead_after):
                    emitter.store(self.given_place(offset, inner), (sofar | values)[offset], inner)
            inside = f.block
        values |= {offset: f.merged(element, {before: alone[offset], inside: total}) for offset, total in sofar.items()}
        return Given(self.given_record(scope), values)

    def term(self, total: Op, load: Op, scope: Scope) -> str:
        """What is added to a sum."""
        found = term(total, load)
        if found is None:
            raise AssertionError(f"{total!r} does not add to {load!r}")
        code, args = found
        if not code:
            return self.emitter.use(args[0], scope)
        return self.emitter.op(Op(code, args, None, self.loop.body), scope)

    def is_dead_after(self, access: Any) -> bool:
        """Whether only siblings or later children may need from memory what is stored to a place."""
        return self.is_of(access, self.target) and access.offset in self.carried.dead_after

    def is_of(self, access: Any, record: tuple[str, str]) -> bool:
        """Whether a place is a carried field of the node whose record is in this cell of the row."""
        if not isinstance(access, Access) or access.offset not in self.carried.values:
            return False
        return access.space[0] == "records" and access.base is not None and bool(access.base.attr == record)
