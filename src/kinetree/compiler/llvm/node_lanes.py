"""Prints a lowered program as LLVM assembly for a single sample, with a node in each lane.

Operations are printed as for batches. `kinetree.compiler.lower.node_schedule` explains what is different about memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinetree.compiler.formats import FLOAT64, Format
from kinetree.compiler.ir import Access, CodeBlock, For, Op, Store
from kinetree.compiler.llvm.memory import Scope
from kinetree.compiler.llvm.phis import Given, Passes
from kinetree.compiler.llvm.printer import Emitter
from kinetree.compiler.lower.lower import Lowered
from kinetree.compiler.lower.node_schedule import LANES, PARENT_LANE, ROUND_WORDS, Parents, column_places, head_names
from kinetree.compiler.lower.node_sweeps import TABLE, SweepBody, Sweeps, over_frames

_INTEGERS = f"<{LANES} x i64>"
#: Instructions that permute 32-bit numbers, by their number.
_PERMUTE = {4: "avx.vpermilvar.ps", 8: "avx2.permps"}


def emit_node_lanes(lowered: Lowered, sweeps: Sweeps, scalar: Format = FLOAT64, permutes: bool = False) -> list[str]:
    """The assembly of modules that define one function, `kernel`, which has the interface of one for a single sample.

    With `permutes`, they use instructions of AVX2.
    """
    return _NodeLanes(lowered, sweeps, scalar, permutes).modules()


class _NodeLanes(Emitter):
    def __init__(self, lowered: Lowered, sweeps: Sweeps, scalar: Format, permutes: bool) -> None:
        self.sweeps, self.permutes = sweeps, permutes
        self.columns_at, self.row_words = column_places(sweeps.metadata)
        #: Indices that differ from lane to lane.
        self.each: dict[int, list[str]] = {}
        super().__init__(lowered, LANES, 1, scalar)
        self.own.tables = self.start("%tables", "node lanes", "i64")
        self.head = {name: place for place, name in enumerate(head_names(lowered.head))}
        self.outside_element = scalar.llvm

    # Integers

    def whole(self, op: Op, scope: Scope) -> str:
        """An integer; if it differs from lane to lane, that of the first."""
        if op.code == "cell" and op.attr[0] == TABLE:
            place = self.columns_at[op.attr[1]]
            row = self.row(op.args[0], scope)
            if op.attr[1] in self.sweeps.uniform or op.attr[1] == "variant":
                key = row, place
                if (found := scope.find(key)) is None:
                    found = scope.names[key] = self.word(row, place)
                return found
            self.each[id(op)] = [self.word(row, place + lane) for lane in range(LANES)]
        elif any(id(a) in self.each for a in op.args):
            sides = [self.each.get(id(a)) or [self.integer(a, scope)] * LANES for a in op.args]
            pairs = zip(*sides, strict=True)
            code = {"iadd": "add", "imul": "mul"}[op.code]
            self.each[id(op)] = [self.f.let(f"{code} i64 {a}, {b}") for a, b in pairs]
        else:
            return super().whole(op, scope)
        return self.each[id(op)][0]

    def row(self, index: Op, scope: Scope) -> str:
        """The address of a group's row."""
        key = "row", id(index)
        found = scope.find(key)
        if found is None:
            place = self.f.let(f"mul i64 {self.integer(index, scope)}, {self.row_words}")
            found = scope.names[key] = self.f.at(self.table(TABLE), place, "i64")
        return found

    # Loops

    def loop(self, loop: For, scope: Scope) -> None:
        """A loop over groups, or over frames one at a time."""
        super().loop(loop, Scope(1, scope) if over_frames(loop) else scope)

    def passes(self, loop: For, scope: Scope) -> None:
        if over_frames(loop):
            super().passes(loop, scope)
        else:
            _Passes(self, loop).print(scope)

    # Memory

    def halves(self, sources: str) -> str:
        """Lanes as positions in a vector of 32-bit numbers, which all processors with AVX2 can permute."""
        f = self.f
        if self.bytes == 4:
            lanes = f.let(f"and {_INTEGERS} {sources}, {_all(LANES - 1)}")
            return f.let(f"trunc {_INTEGERS} {lanes} to <{LANES} x i32>")
        low = f.let(f"shl {_INTEGERS} {sources}, {_all(1)}")
        high = f.let(f"or {_INTEGERS} {f.let(f'shl {_INTEGERS} {sources}, {_all(33)}')}, {_all(1 << 32)}")
        return f.let(f"bitcast {_INTEGERS} {f.let(f'or {_INTEGERS} {low}, {high}')} to <{2 * LANES} x i32>")

    def permuted(self, vector: str, positions: str) -> str:
        """A vector with 32-bit number `positions[i]` of another at place i.

        LLVM would find the instruction for this in the general form, too, but takes as long as for twenty others.
        """
        f, count, result = self.f, LANES * self.bytes // 4, "poison"
        numbers, places = f"<{count} x float>", f"<{count} x i32>"
        vector = f.let(f"bitcast {self.element} {vector} to {numbers}")
        if self.permutes:
            permute = self.intrinsic(f"{numbers} @llvm.x86.{_PERMUTE[count]}", f"{numbers}, {places}")
            result = f.let(f"call {permute}({numbers} {vector}, {places} {positions})")
        else:
            for place in range(count):
                position = f.let(f"extractelement {places} {positions}, i64 {place}")
                number = f.let(f"extractelement {numbers} {vector}, i32 {position}")
                result = f.let(f"insertelement {numbers} {result}, float {number}, i64 {place}")
        return f.let(f"bitcast {numbers} {result} to {self.element}")

    def gathered(self, pointers: Sequence[str], pure: str = "") -> str:
        """A vector of numbers from different places."""
        f, one, result = self.f, self.scalar.llvm, "poison"
        for lane, pointer in enumerate(pointers):
            number = f.let(f"load {one}, ptr {pointer}, align {self.bytes}{pure}")
            result = f.let(f"insertelement {self.element} {result}, {one} {number}, i64 {lane}")
        return result

    def load(self, access: Access, scope: Scope) -> str:
        f, space, pure = self.f, access.space[0], ", !invariant.load !0"
        if scope.width == 1:
            return f.let(f"load {self.scalar.llvm}, ptr {self.of_frame(access, scope)}, align {self.bytes}")
        if space == "constants" and access.base is not None:
            start = f.at(self.space(access.space), self.integer(access.base, scope), self.element)
            pointer = f.at(start, access.offset, self.element)
            return f.let(f"load {self.element}, ptr {pointer}, align {self.bytes}{pure}")
        if space not in ("input", "output"):
            return super().load(access, scope)
        pure = pure if space == "input" else ""
        if id(access.base) in self.each:
            return self.gathered([self.outside(access, index) for index in self.each[id(access.base)]], pure)
        pointer = self.outside(access, None if access.base is None else self.integer(access.base, scope))
        return self.splat(f.let(f"load {self.scalar.llvm}, ptr {pointer}, align {self.bytes}{pure}"), LANES)

    def store(self, access: Any, value: str, scope: Scope) -> None:
        if scope.width == 1:
            self.f.do(f"store {self.scalar.llvm} {value}, ptr {self.of_frame(access, scope)}, align {self.bytes}")
            return
        if access.space[0] != "output":
            super().store(access, value, scope)
            return
        indices: list[Any] = [None] if access.base is None else self.each[id(access.base)]
        for lane, index in enumerate(indices):
            number = self.f.let(f"extractelement {self.element} {value}, i64 {lane}")
            pointer = self.outside(access, index)
            self.f.do(f"store {self.scalar.llvm} {number}, ptr {pointer}, align {self.bytes}")

    def of_frame(self, access: Access, scope: Scope) -> str:
        """The address of a number in the body of a loop over frames."""
        index = None if access.base is None else self.integer(access.base, scope)
        if access.space[0] == "records":
            access = access._replace(offset=LANES * access.offset)
        return self.outside(access, index)

    def outside(self, access: Access, index: str | None) -> str:
        """The address of a number that is not in lanes."""
        start = self.space(access.space)
        if index is not None:
            start = self.f.at(start, index, self.scalar.llvm)
        return self.f.at(start, access.offset, self.scalar.llvm)


class _Passes(Passes):
    """Prints the passes of a loop over groups."""

    def __init__(self, emitter: _NodeLanes, loop: For) -> None:
        super().__init__(emitter, loop)
        self.lanes, self.aligned = emitter, f"align {emitter.bytes * LANES}"

    def body(self, block: CodeBlock, scope: Scope) -> Given:
        emitter, body = self.emitter, self.lanes.sweeps.bodies[block]
        self.cells = {item.attr: item for item in block.items if isinstance(item, Op) and item.code == "cell"}
        row = self.lanes.row(body.row, scope)
        own: dict[int, Store] = {}
        collected, late = not body.reads, {id(item) for item in (*body.ops, *body.stores)}
        for item in block.items:
            self.f.divide()
            if id(item) in late:
                continue
            if isinstance(item, Op):
                if not collected and item.code == "load" and item.attr in body.reads:
                    self.collect(body, row, scope)
                    collected = True
                self.op(item, block, scope)
            elif isinstance(item, Store):
                emitter.item(item, scope)
                own |= self.given(item)
        if body.stores:
            return self.add(body, row, scope)
        return self.all_given(own, scope)

    def fetched(self, access: Access, scope: Scope) -> str:
        return self.emitter.load(access, scope)

    def collect(self, body: SweepBody, row: str, scope: Scope) -> None:
        """If the parents are scattered, copy what the body reads of them to a record of their own."""
        f, emitter = self.f, self.lanes
        arrangement = emitter.word(row, emitter.columns_at["parents"])
        with f.when(f.let(f"icmp eq i64 {arrangement}, {Parents.SCATTERED.value}")):
            inner, one = scope.inner(), emitter.scalar.llvm
            first = emitter.columns_at[PARENT_LANE]
            parents = [f.at("%ws", emitter.word(row, first + lane), one) for lane in range(LANES)]
            for access in body.reads:
                value = emitter.gathered([f.at(p, LANES * access.offset, one) for p in parents])
                emitter.store(access, value, inner)

    def add(self, body: SweepBody, row: str, scope: Scope) -> Given:
        """Add to the parents' fields: pass them on, or add in place, or in rounds."""
        f, emitter = self.f, self.lanes
        stores = {offset: store for each in body.stores for offset, store in self.given(each).items()}
        passes = len(stores) == len(body.stores) and all(self.is_dead_after(store.place) for store in body.stores)
        passed = self.passed(body, stores, scope) if passes else {}
        arrangement = emitter.word(row, emitter.columns_at["parents"])
        given, before = self.given_record(scope), f.block
        with f.when(f.let(f"icmp ne i64 {arrangement}, {Parents.PASSED.value}") if passes else "true"):
            in_place = f.let(f"icmp ule i64 {arrangement}, {Parents.IN_LANE.value}")
            with f.when(in_place):
                inner = scope.inner()
                for op in body.ops:
                    inner.names[id(op)] = emitter.op(op, inner)
                for store in body.stores:
                    emitter.store(store.place, emitter.use(store.value, inner), inner)
            with f.when(f.let(f"xor i1 {in_place}, true")):
                memory = emitter.start("%ws", "slots", emitter.element)
                slots = {id(op): f.at(memory, i, emitter.element) for i, op in enumerate(body.operands)}
                for op in body.operands:
                    f.do(f"store {emitter.element} {emitter.use(op, scope)}, ptr {slots[id(op)]}, {self.aligned}")
                first, last = (emitter.word(row, emitter.columns_at[f"{which} round"]) for which in ("first", "last"))
                with f.loop(first, last) as number:
                    self.round(body, slots, number, scope.inner())
            after = f.block
        if not passes:
            return self.nothing
        record = f.merged("i64", {before: given, after: self.nothing.record})
        return Given(
            record,
            {
                offset: f.merged(emitter.element, {before: passed.get(offset, self.zero), after: "poison"})
                for offset in self.offsets
            },
        )

    def passed(self, body: SweepBody, stores: dict[int, Store], scope: Scope) -> dict[int, str]:
        """What the parents' fields become if nobody else adds to them."""
        sums = self.sums(stores)
        late = {id(op) for offset, load in sums.items() for op in (load, stores[offset].value)}
        inner = scope.inner()
        for op in body.ops:
            if id(op) not in late:
                inner.names[id(op)] = self.emitter.op(op, inner)
        terms = {offset: self.term(stores[offset].value, load, inner) for offset, load in sums.items()}
        return terms | {o: self.emitter.use(store.value, inner) for o, store in stores.items() if o not in sums}

    def round(self, body: SweepBody, slots: dict[int, str], number: str, scope: Scope) -> None:
        """Add the terms of at most one child, which are in slots, to each lane of a group of parents."""
        f, emitter, aligned = self.f, self.lanes, self.aligned
        rounds = emitter.start(emitter.own.tables, "rounds", "i64")
        words = f.at(rounds, f.let(f"mul i64 {number}, {ROUND_WORDS}"), "i64")
        record = f.at("%ws", emitter.word(words, 0), emitter.element)
        sources, taking = (
            f.let(f"load {_INTEGERS}, ptr {f.at(words, at, 'i64')}, align 8, !invariant.load !0")
            for at in (1, 1 + LANES)
        )
        positions = emitter.halves(sources)
        takes = f.let(f"icmp ne {_INTEGERS} {taking}, zeroinitializer")
        before: dict[int, str] = {}
        for op in body.ops:
            if op.code == "load":
                pointer = f.at(record, op.attr.offset, emitter.element)
                name = before[op.attr.offset] = f.let(f"load {emitter.element}, ptr {pointer}, {aligned}")
            else:
                for a in op.args:
                    if id(a) in slots and id(a) not in scope.names:
                        term = f.let(f"load {emitter.element}, ptr {slots[id(a)]}, {aligned}")
                        scope.names[id(a)] = emitter.permuted(term, positions)
                name = emitter.op(op, scope)
            scope.names[id(op)] = name
        for store in body.stores:
            place: Any = store.place
            old, new = before[place.offset], emitter.use(store.value, scope)
            # not a sum with zero, which would change -0
            kept = f.let(f"select <{LANES} x i1> {takes}, {emitter.element} {new}, {emitter.element} {old}")
            pointer = f.at(record, place.offset, emitter.element)
            f.do(f"store {emitter.element} {kept}, ptr {pointer}, {aligned}")


def _all(number: int) -> str:
    """An integer in all lanes."""
    return "<" + ", ".join([f"i64 {number}"] * LANES) + ">"
