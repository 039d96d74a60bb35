"""Specialization: straight-line code for one robot, unrolled, cut into segments, and used where it pays.

Cuts a straight-line program into parts that compilers can handle.

The time that a compiler takes for a function grows faster than its length, and beyond some thousand operations its
choice of registers suffers too. So long programs become several functions. Cuts are made where few values are needed
later: between the nodes of a tree. These values pass through scratch memory, whose places are reused.

Straight-line code of one mechanism: a lowered program, executed on symbols.

The machine that defines what a lowered program does runs it, but scalars are ops of a new program. What it leaves there
are the operations of all iterations of all loops:

    integers     are known, so loops and switches disappear
    constants    of the mechanism are numbers, so operations with zeros and ones fold, and those with equal numbers are
                 shared
    memory       holds ops, so what is stored in a field and loaded again is the op itself

Straight-line code for one robot: where it is asked for, and where it pays.

A mechanism that is `specialized` has code of its own: all loops unrolled, its constants folded. That pays where much
folds. What it costs a single sample are its lanes: shared code computes several nodes of a tree, or several columns
of a matrix, at once. So the choice is made for each function, from the operations that both programs execute and from
what the robot is specialized for. It depends on nothing else, in particular not on the batch of a call or on the
processor, so that the bits of a sample do not either.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import accumulate
from math import sqrt
from typing import Any

import numpy as np

from kinetree.compiler import cache
from kinetree.compiler.ir import Access, CodeBlock, For, Item, Op, Program, Segment, Store
from kinetree.compiler.lower.layout import Layout, Tables
from kinetree.compiler.lower.lower import Lowered, lower
from kinetree.compiler.lower.node_schedule import LaneTables
from kinetree.compiler.lower.node_sweeps import sweeps
from kinetree.compiler.machine import Machine
from kinetree.compiler.passes.fuse import fuse
from kinetree.compiler.passes.simplify import RULES, without_dead_code
from kinetree.compiler.programs import identity, is_own, simplified, variants_of
from kinetree.compiler.verify import verify
from kinetree.concurrency import gc_paused
from kinetree.language.algorithm import Algorithm
from kinetree.language.mechanism import Mechanism, Site
from kinetree.language.setup import WORLD_CLASS, Variants

#: Operations in a part. Between a thousand and a few thousand, the code of real robots hardly differs in speed; without
#: parts, that of humanoids takes 1.5 times as long to compile.
LENGTH = 2000


def split(program: Program) -> tuple[Program, int]:
    """Cut a program.

    Args:
        program: Straight-line code that loads inputs and stores outputs; it is consumed.

    Returns:
        The program in parts, and the number of places of scratch memory ("records") that they need.
    """
    constants: list[Item] = []
    items: list[Item] = []
    for item in program.top.items:
        (constants if isinstance(item, Op) and item.code == "const" else items).append(item)
    pieces = _pieces(items)
    result = Program()
    if len(pieces) == 1:
        result.top.items = program.top.items
        for item in result.top.items:
            if isinstance(item, Op):
                item.block = result.top
        return result, 0
    places, count = _places(pieces)
    copies: dict[Op, Op] = {}
    for item in constants:
        if isinstance(item, Op):
            copies[item] = result.op("const", attr=item.attr)
    for piece in pieces:
        part = Segment(CodeBlock(result, result.top))
        _fill(part.body, piece, dict(copies), places)
        result.top.items.append(part)
    program.forget(items=True)
    return result, count


def _used(item: Item) -> tuple[Op, ...]:
    """The values that an item uses."""
    return item.args if isinstance(item, Op) else (item.value,) if isinstance(item, Store) else ()


def _passed(op: Op) -> bool:
    """Whether a value must be kept for later parts: constants and inputs are at hand anyway."""
    return op.code not in ("const", "load")


def _pieces(items: list[Item]) -> list[list[Item]]:
    """The items of each part."""
    defined: dict[Op, int] = {item: i for i, item in enumerate(items) if isinstance(item, Op)}
    last: dict[Op, int] = {}
    for i, item in enumerate(items):
        for op in _used(item):
            if _passed(op):
                last[op] = i
    changes = [0] * (len(items) + 1)
    for op, end in last.items():
        changes[defined[op] + 1] += 1  # a cut before any item from the next one to the last user passes the value
        changes[end + 1] -= 1
    passed = list(accumulate(changes))
    pieces, start = [], 0
    while len(items) - start > LENGTH * 3 // 2:
        end = min(
            range(start + LENGTH // 2, start + LENGTH * 3 // 2), key=lambda i: (passed[i], abs(i - start - LENGTH))
        )
        pieces.append(items[start:end])
        start = end
    return [*pieces, items[start:]]


def _places(pieces: list[list[Item]]) -> tuple[dict[Op, int], int]:
    """The place of each value that later parts use, and the number of places."""
    home = {item: number for number, piece in enumerate(pieces) for item in piece if isinstance(item, Op)}
    until: dict[Op, int] = {}
    for number, piece in enumerate(pieces):
        for item in piece:
            for op in _used(item):
                if _passed(op) and home[op] < number:
                    until[op] = number
    ending: dict[int, list[Op]] = {}
    for op, number in until.items():
        ending.setdefault(number, []).append(op)
    places: dict[Op, int] = {}
    free: list[int] = []
    count = 0
    for number, piece in enumerate(pieces):
        for item in piece:
            if isinstance(item, Op) and item in until:
                places[item] = free.pop() if free else count
                count = max(count, places[item] + 1)
        free += [places[op] for op in ending.get(number, ())]
    return places, count


def _fill(body: CodeBlock, piece: list[Item], known: dict[Op, Op], places: dict[Op, int]) -> None:
    """Copy the items of a part.

    Args:
        body: The part.
        piece: Its items.
        known: Copies of constants; those of its own ops are added.
        places: Where values of other parts are.
    """

    def copy(op: Op) -> Op:
        if op not in known:  # of another part
            place = op.attr if op.code == "load" else Access(("records", 0), None, places[op])
            known[op] = made = Op("load", (), place, body)
            body.items.append(made)
        return known[op]

    for item in piece:
        if isinstance(item, Store):
            body.items.append(Store(item.place, copy(item.value)))
        elif isinstance(item, Op):
            known[item] = made = Op(item.code, tuple(copy(a) for a in item.args), item.attr, body)
            body.items.append(made)
            if item in places:
                body.items.append(Store(Access(("records", 0), None, places[item]), made))


class TooLongError(Exception):
    """A program has more operations than it may have when unrolled."""


class Unrolling(Machine):
    """Unrolls a lowered program.

    Args:
        lowered: The program, simplified but not fused: multiplications are fused with the sums that are left.
        tables: Numbers of the mechanism.
        most: Number of operations at which to give up.

    Attributes:
        program: The straight-line program. It loads inputs and stores outputs.
        executed: Operations that the lowered program executes, by whether they are in loops with independent indices.

    Raises:
        TooLongError: If there are more operations.
    """

    def __init__(self, lowered: Lowered, tables: Tables, most: int) -> None:
        cells = {name: (tables.cells(name), columns) for name, columns in lowered.tables.items()}
        constants = tables.constants.tolist()
        memory: dict[tuple[str, int], Any] = {
            ("records", 0): [None] * tables.records,
            ("constants", 0): constants,
            ("gravity", 0): tables.setup.mechanism.gravity.tolist(),
            **{("array", i): [None] * tables.array_size(i) for i in range(len(lowered.layout.arrays))},
            **{("input", i): {} for i in range(lowered.inputs)},
            **{("output", i): {} for i in range(lowered.outputs)},
        }
        super().__init__(memory, tables, cells)
        self.program = Program(RULES)
        self.executed: Counter[bool] = Counter()
        self._most, self._independent = most, False
        self._written: dict[tuple[tuple[str, int], int], int] = {}
        self.block(lowered.program.top)
        self._place_stores()
        without_dead_code(self.program)

    def loop(self, loop: For, numbers: range) -> None:
        outer, self._independent = self._independent, self._independent or loop.independent
        super().loop(loop, numbers)
        self._independent = outer

    def constant(self, value: float) -> Op:
        return self.program.op("const", attr=float(value))

    def scalar(self, code: str, *args: Any) -> Op:
        if code != "neg":
            self.executed[self._independent] += 1
            if self.executed.total() > self._most:
                raise TooLongError
        return self.program.do(code, *args)

    def load(self, space: tuple[str, int], address: int) -> Any:
        memory = self.memory[space]
        if space[0] in ("constants", "gravity"):
            return self.constant(memory[address])
        if space[0] == "input" and address not in memory:
            memory[address] = self.program.load(Access(space, None, address))
        if space[0] == "output" and address not in memory:
            return self.constant(0.0)  # sparse outputs are
        return memory[address]

    def store(self, space: tuple[str, int], address: int, value: Any) -> None:
        self.memory[space][address] = value
        if space[0] == "output":
            # the last value counts, and is stored when it is known
            self._written.pop((space, address), None)
            self._written[space, address] = len(self.program.top.items)

    def _place_stores(self) -> None:
        """Insert stores to outputs where their values are known."""
        due: dict[int, list[Item]] = {}
        for (space, address), position in self._written.items():
            store = Store(Access(space, None, address), self.memory[space][address])
            due.setdefault(position, []).append(store)
        top = self.program.top
        items: list[Item] = []
        for position, item in enumerate(top.items):
            items += due.get(position, ())
            items.append(item)
        top.items = items + due.get(len(top.items), [])


#: Operations of the shared code beyond which it is not unrolled: compiling them would take longer than about 20 s.
LONGEST = 100_000

#: What operations in loops with independent indices cost a single sample, beside others; by how much nodes in lanes
#: cost more than estimated; and what straight-line code must save to be faster. All measured.
_INDEPENDENT = 0.6
_NODE_LANES = 1.3
_GAIN = 1.15


@dataclass(frozen=True)
class RobotKey:
    """A mechanism and the frames of a call, compared by their structure and numbers.

    Attributes:
        digest: Of everything that its code depends on.
        mechanism: The robot.
        sites: The frames.
    """

    digest: str
    mechanism: Mechanism = field(compare=False, repr=False)
    sites: tuple[Site, ...] = field(compare=False, repr=False)

    @classmethod
    def of(cls, mechanism: Mechanism, sites: Sequence[Site]) -> RobotKey:
        """A mechanism and frames, with their digest."""
        kinds = [kind.name for kind in mechanism.kinds]
        frames = [(site.node, site.rows, site.part) for site in sites]
        digest = hashlib.sha256(repr((mechanism.parents, kinds, frames)).encode())
        for numbers in (*mechanism.parameters, mechanism.gravity, *(site.placement for site in sites)):
            digest.update(b"%d:" % len(numbers) + np.asarray(numbers, dtype=np.float64).tobytes())
        return cls(digest.hexdigest(), mechanism, tuple(sites))


@dataclass(frozen=True)
class Straight:
    """Straight-line code of one robot.

    Attributes:
        lowered: The program.
        operations: Its operations before fusing, by code; a sine with its cosine counts once, as "sin".
        executed: Operations of the shared code, by whether they are in loops with independent indices.
        node_lanes: What shared code with a node in each lane costs a single sample, as a fraction.
    """

    lowered: Lowered
    operations: Counter[str]
    executed: Counter[bool]
    node_lanes: float = 1.0


@dataclass(frozen=True)
class Specialization:
    """The code on which a function runs, and why.

    Attributes:
        straight: Whether it is straight-line code for this robot; otherwise it is code that robots share.
        operations: Operations of straight-line code; None if there would be too many, or nobody asked for it.
        shared: Operations that the shared code executes; None if nobody counted them.
        reason: Why.
    """

    straight: bool
    operations: int | None
    shared: int | None
    reason: str

    def __str__(self) -> str:
        return f"{'straight-line' if self.straight else 'shared'} code: {self.reason}"


def straight(algorithm: Algorithm, variants: Variants, individual: RobotKey) -> Straight:
    """The straight-line code of an algorithm that was chosen to have some."""
    made = _straight(algorithm, variants, individual)
    if made is None:
        raise AssertionError(f"{algorithm.name} has no straight-line code")
    return made


@lru_cache(maxsize=2)
def _straight(algorithm: Algorithm, variants: Variants, individual: RobotKey) -> Straight | None:
    """The straight-line code of an algorithm for one robot; None if it would be too long."""
    mechanism, sites = individual.mechanism, individual.sites
    with gc_paused():
        program = simplified(algorithm, variants)
        shared = lower(program, algorithm, variants)
        shared.sweeps = sweeps(shared.program, shared.layout, shared.tables)
        tables = Tables(algorithm, variants, mechanism, sites, shared.metadata)
        lanes = LaneTables.of(tables)
        try:
            unrolled = Unrolling(shared, tables, LONGEST)
        except TooLongError:
            return None
        operations = _operations(unrolled.program.top)
        parts, places = split(fuse(unrolled.program))
        verify(parts)
    records = {WORLD_CLASS: places, **{kind.name: 0 for kind in mechanism.kinds}}
    layout = Layout({}, records, records, [])
    made = Lowered(parts, layout, len(algorithm.inputs), len(algorithm.outputs))
    return Straight(made, operations, unrolled.executed, 1.0 if lanes is None else lanes.cost)


def _operations(block: CodeBlock) -> Counter[str]:
    ops = [item for item in block.items if isinstance(item, Op)]
    found = Counter(op.code for op in ops if op.args and op.code not in ("neg", "sin", "cos"))
    found["sin"] = len({op.args[0] for op in ops if op.code in ("sin", "cos")})
    return found


def robot_key(algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site]) -> RobotKey | None:
    """The robot, if an algorithm runs on code of its own there; None if it runs on shared code.

    Args:
        algorithm: The recursion.
        mechanism: The robot on which it runs with these frames.
        sites: The frames.
    """
    if not mechanism.specialized or algorithm.constants is not None:
        return None
    individual = RobotKey.of(mechanism, sites)
    chosen = _chosen(algorithm, variants_of(algorithm, mechanism, sites), individual, mechanism.specialized)
    return individual if chosen.straight else None


def specialized(algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site]) -> Straight | None:
    """The straight-line code on which an algorithm runs; None if it runs on shared code."""
    individual = robot_key(algorithm, mechanism, sites)
    return None if individual is None else straight(algorithm, variants_of(algorithm, mechanism, sites), individual)


def specialization(algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site]) -> Specialization:
    """The code on which an algorithm runs, and why.

    Args:
        algorithm: The recursion.
        mechanism: The robot.
        sites: The frames.
    """
    algorithm.require(mechanism)
    mechanism = mechanism.at(sites)
    if not mechanism.specialized:
        return Specialization(False, None, None, "the robot is not specialized; see compile(specialize=True)")
    individual = RobotKey.of(mechanism, sites)
    return _chosen(algorithm, variants_of(algorithm, mechanism, sites), individual, mechanism.specialized)


@lru_cache(maxsize=1024)
def _chosen(algorithm: Algorithm, variants: Variants, individual: RobotKey, aim: str) -> Specialization:
    """The choice, from the cache on disk or made now."""
    name = None
    if is_own(algorithm, variants):
        name = cache.key("specialization", identity(algorithm), variants.key, individual.digest, aim)
    found = cache.load(name)
    if found is not None:
        return Specialization(**found[0])
    chosen = _choose(_straight(algorithm, variants, individual), aim)
    _log.info("%s: %s", algorithm.name, chosen)
    cache.store(name, asdict(chosen), b"")
    return chosen


def _choose(made: Straight | None, aim: str) -> Specialization:
    """The choice for a function.

    Args:
        made: Its straight-line code, if it is not too long.
        aim: What should be fast: "single" samples, "batch"es, or "both".
    """
    if made is None:
        return Specialization(False, None, None, f"it executes more than {LONGEST:,} operations, too many to unroll")
    executed, operations = made.executed.total(), made.operations.total()
    single = made.executed[False] + _INDEPENDENT * made.executed[True]
    single *= min(1.0, _NODE_LANES * made.node_lanes)
    cost = {"single": single, "batch": executed, "both": sqrt(single * executed)}[aim]
    pays = cost > _GAIN * operations
    counted = f"{operations:,} operations instead of {executed:,}"
    lost = "" if cost == executed else ", of which single samples compute several at once"
    reason = counted if pays else f"{counted}{lost}, would not be faster"
    return Specialization(pays, operations, executed, reason)


_log = logging.getLogger("kinetree")
