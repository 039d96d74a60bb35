"""Straight-line code for one robot: where it is asked for, and where it pays.

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
from math import sqrt

import numpy as np

from kinetree.engines.checks import verify
from kinetree.engines.collector import gc_paused
from kinetree.engines.identity import identity
from kinetree.engines.ir import CodeBlock, Op
from kinetree.engines.lane_tables import LaneTables
from kinetree.engines.layout import Layout, Tables
from kinetree.engines.lower import lower
from kinetree.engines.lowered import Lowered
from kinetree.engines.native import cache
from kinetree.engines.parts import split
from kinetree.engines.pipeline import is_own, simplified, variants_of
from kinetree.engines.simplify import fuse
from kinetree.engines.sweeps import sweeps
from kinetree.engines.unroll import TooLongError, Unrolling
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.variants import WORLD_CLASS, Variants

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
