"""Specialization: straight-line code for one robot, with all loops unrolled and its constants folded.

The machine that defines what a lowered program does runs it, but scalars are ops of a new program. What it leaves there
are the operations of all iterations of all loops:

    integers     are known, so loops and switches disappear
    constants    of the mechanism are numbers, so operations with zeros and ones fold, and those with equal numbers are
                 shared
    memory       holds ops, so what is stored in a field and loaded again is the op itself

The time that a compiler takes for a function grows faster than its length, and beyond some thousand operations its
choice of registers suffers too. So long programs are cut into segments, which become functions. Cuts are made where few
values are needed later: between the nodes of a tree. These values pass through scratch memory, whose places are reused.

Straight-line code pays where much folds. What it costs a single sample are its lanes: shared code computes several
nodes of a tree, or several columns of a matrix, at once. So the choice is made for each function of a mechanism that is
`specialized`, from the operations that both programs execute and from what the robot is specialized for. It depends on
nothing else, in particular not on the batch of a call or on the processor, so that the bits of a sample do not either.
"""

from __future__ import annotations

import hashlib
import logging
from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise
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
        inputs, outputs = (("input", i) for i in range(lowered.inputs)), (("output", i) for i in range(lowered.outputs))
        super().__init__(lowered, tables, {space: {} for space in (*inputs, *outputs)})
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

    def leaves(self, _flag: Any) -> bool:
        return False  # rounds change nothing once the flag is set

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


#: Operations in a segment. Between a thousand and a few thousand, the code of real robots hardly differs in speed;
#: without segments, that of humanoids takes 1.5 times as long to compile.
LENGTH = 2000


def split(program: Program) -> tuple[Program, int]:
    """Cut straight-line code into segments.

    Args:
        program: It loads inputs and stores outputs; it is consumed.

    Returns:
        The program in segments, and the number of places of scratch memory ("records") that they need.
    """
    result = Program()
    items = [item for item in program.top.items if not (isinstance(item, Op) and item.code == "const")]
    defined = {item: i for i, item in enumerate(items) if isinstance(item, Op)}
    # constants and inputs are at hand anyway, so segments need not pass them on
    uses = [(op, i) for i, item in enumerate(items) for op in _used(item) if op.code not in ("const", "load")]
    cuts = _cuts([(defined[op], last) for op, last in dict(uses).items()], len(items))
    if not cuts:
        result.top.items = program.top.items
        for item in result.top.items:
            if isinstance(item, Op):
                item.block = result.top
        return result, 0
    # the last segment that uses each value of an earlier one, and the place where the value is until then
    until = {op: bisect(cuts, i) for op, i in uses if bisect(cuts, defined[op]) < bisect(cuts, i)}
    places: dict[Op, int] = {}
    free, count = list[int](), 0
    constants = [item for item in program.top.items if isinstance(item, Op) and item.code == "const"]
    copies = {op: result.op("const", attr=op.attr) for op in constants}
    for number, (start, end) in enumerate(pairwise([0, *cuts, len(items)])):
        for item in items[start:end]:
            if isinstance(item, Op) and item in until:
                places[item] = free.pop() if free else count
                count = max(count, places[item] + 1)
        free += [places[op] for op, end_of_use in until.items() if end_of_use == number]
        segment = Segment(CodeBlock(result, result.top))
        _fill(segment.body, items[start:end], dict(copies), places)
        result.top.items.append(segment)
    program.forget(items=True)
    return result, count


def _used(item: Item) -> tuple[Op, ...]:
    """The values that an item uses."""
    return item.args if isinstance(item, Op) else (item.value,) if isinstance(item, Store) else ()


def _cuts(lives: list[tuple[int, int]], count: int) -> list[int]:
    """Where to cut so many items, given the first and the last at which each value is in use."""
    changes = [0] * (count + 1)
    for first, last in lives:
        changes[first + 1] += 1  # a cut before any item from the next one to the last user passes the value
        changes[last + 1] -= 1
    passed = list(accumulate(changes))
    cuts, start = [], 0
    while count - start > LENGTH * 3 // 2:
        aim = start + LENGTH
        _, _, start = min((passed[i], abs(i - aim), i) for i in range(aim - LENGTH // 2, aim + LENGTH // 2))
        cuts.append(start)
    return cuts


def _fill(body: CodeBlock, piece: list[Item], known: dict[Op, Op], places: dict[Op, int]) -> None:
    """Copy the items of a segment, given copies of constants and the places of values of other segments."""

    def copy(op: Op) -> Op:
        if op not in known:  # of another segment
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


#: Operations of the shared code beyond which it is not unrolled: compiling them would take longer than about 20 s.
LONGEST = 100_000

#: What operations in loops with independent indices cost a single sample, beside others; by how much nodes in lanes
#: cost more than estimated; and what straight-line code must save to be faster. All measured.
_INDEPENDENT = 0.6
_NODE_LANES = 1.3
_GAIN = 1.15


@dataclass(frozen=True)
class RobotKey:
    """A mechanism and the frames of a call, compared by a digest of all that their code depends on."""

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
    """Straight-line code of one robot."""

    lowered: Lowered
    operations: Counter[str]  # its operations before fusing, by code; a sine with its cosine counts once, as "sin"
    executed: Counter[bool]  # those of the shared code, by whether they are in loops with independent indices
    node_lanes: float = 1.0  # what shared code with a node in each lane costs a single sample, as a fraction


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
        segments, places = split(fuse(unrolled.program))
        verify(segments)
    records = {WORLD_CLASS: places, **{kind.name: 0 for kind in mechanism.kinds}}
    layout = Layout({}, records, records, [])
    made = Lowered(segments, layout, len(algorithm.inputs), len(algorithm.outputs))
    return Straight(made, operations, unrolled.executed, 1.0 if lanes is None else lanes.cost)


def _operations(block: CodeBlock) -> Counter[str]:
    ops = [item for item in block.items if isinstance(item, Op)]
    found = Counter(op.code for op in ops if op.args and op.code not in ("neg", "sin", "cos"))
    found["sin"] = len({op.args[0] for op in ops if op.code in ("sin", "cos")})
    return found


def robot_key(algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site]) -> RobotKey | None:
    """The robot, if an algorithm runs on code of its own there; None if it runs on shared code."""
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
    """The code on which an algorithm runs, and why."""
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
    """The choice for a function that has straight-line code unless that is too long.

    The aim is what should be fast: "single" samples, "batch"es, or "both".
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
