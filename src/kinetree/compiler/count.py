"""The count engine: the number of operations of an algorithm on a mechanism.

It counts the simplified program before fusing, which is what one would write by hand for these joints, summed over all
iterations of all loops. Loads, stores, changes of sign and loop control are free. If a function runs on straight-line
code, it counts that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from kinetree.compiler.ir import CodeBlock, LoopPosition, Op, Program, Role, TreeLoop, blocks
from kinetree.compiler.programs import simplified
from kinetree.compiler.specialize import specialized
from kinetree.language.algorithm import Algorithm
from kinetree.language.loops import Entity, IndexLoop, Table, number_of
from kinetree.language.mechanism import WORLD, Mechanism, Site
from kinetree.language.setup import Setup, Variants

_COUNTED = {
    "mul": "multiplications",
    "add": "additions",
    "sub": "additions",
    "div": "divisions",
    "sqrt": "square_roots",
    "select": "comparisons",
}


@dataclass(frozen=True)
class Count:
    """Operations of one evaluation. A sine comes with its cosine and counts once."""

    multiplications: int = 0
    additions: int = 0
    divisions: int = 0
    square_roots: int = 0
    sines: int = 0
    comparisons: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __mul__(self, times: int) -> Count:
        return Count(*(getattr(self, f.name) * times for f in fields(self)))

    @property
    def total(self) -> int:
        """Multiplications, additions, divisions and square roots together."""
        return self.multiplications + self.additions + self.divisions + self.square_roots

    def __str__(self) -> str:
        shown = [f.name for f in fields(self) if f.name != "comparisons" or self.comparisons]
        return ", ".join(f"{getattr(self, name)} {name.replace('_', ' ')}" for name in shown)


#: The passes of an algorithm, in order, for which operations are counted separately.
PASSES = ("place", "inertias", "inward", "outward", "pairs")


def count(algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site] = ()) -> Count:
    """Operations of an algorithm on a mechanism with some frames, in straight-line code where it runs on that."""
    algorithm.require(mechanism)
    own = specialized(algorithm, mechanism.at(sites), sites)
    if own is not None:
        numbers = Counter[str]()
        for code, number in own.operations.items():
            numbers[_COUNTED.get(code, "sines")] += number
        return Count(**numbers)
    return sum(count_passes(algorithm, mechanism, sites).values(), Count())


def count_passes(algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site] = ()) -> dict[str, Count]:
    """Operations of an algorithm, by pass, in the code that robots share.

    Passes are recognised by their loops: everything before the first gather places the mechanism; a gather computes
    inertias at its nodes and propagates inward in its inner loops; a scatter propagates outward; the remaining loops
    run over pairs of frames, rows or columns.
    """
    algorithm.require(mechanism)
    mechanism = mechanism.at(sites)
    program, own = _loops(algorithm, Variants.of(mechanism, sites))
    setup = Setup(mechanism, sites, algorithm.visited(mechanism, sites))
    passes = dict.fromkeys(PASSES, Count())
    passes["place"] = own[program.top]
    placed = False
    for loop in _inner(program.top):
        found, direction = _runs(setup, loop), loop.loop.direction if isinstance(loop.loop, Table) else ""
        of_nodes = direction == "inward" and any(role.exact for roles in loop.roles.values() for role in roles)
        placed |= of_nodes
        for body in loop.bodies.values():
            if of_nodes:
                passes["inertias"] += own[body] * found.pop(body, 0)
        rest = sum((own[block] * times for block, times in found.items()), Count())
        passes[(direction or "pairs") if placed else "place"] += rest
    return passes


@lru_cache(maxsize=256)
def _loops(algorithm: Algorithm, variants: Variants) -> tuple[Program, dict[CodeBlock, Count]]:
    """The loops of the simplified program, and the operations of each block.

    Robots with equal variants share them; they differ in how often the loops run. The operations themselves are not
    kept: they would take megabytes.
    """
    program = simplified(algorithm, variants)
    own = {block: _own(block) for block in blocks(program.top)}
    for block in own:
        block.items = [*_inner(block)]
        block.known.clear()
    return program, own


def _inner(block: CodeBlock) -> list[TreeLoop]:
    """The loops of a block."""
    return [item for item in block.items if isinstance(item, TreeLoop)]


def _runs(setup: Setup, loop: TreeLoop) -> Counter[CodeBlock]:
    """How often the bodies of a loop and of its inner loops run."""
    runs: Counter[CodeBlock] = Counter()
    _add_runs(setup, loop, MappingProxyType({}), runs)
    return runs


def _add_runs(setup: Setup, loop: TreeLoop, known: Mapping[Role, tuple[Entity, int]], runs: Counter[CodeBlock]) -> None:
    """Add how often the bodies of a loop and of its inner loops run, given what the roles of outer loops are."""

    def number(index: LoopPosition | None) -> int | None:
        if index is None:
            return None
        position, offset = index
        start = position if isinstance(position, int) else number_of(setup, *known[position.role], position.what)
        return start + int(offset)

    data, over = loop.loop, WORLD if loop.over is None else known[loop.over][1]
    inner = {variant: loops for variant, body in loop.bodies.items() if (loops := _inner(body))}
    cases: list[tuple[tuple[Any, ...], tuple[int, ...]]]
    if isinstance(data, IndexLoop):
        bounds = number(loop.start), number(loop.stop)
        for body in loop.bodies.values():
            runs[body] += data.length(setup, over, *bounds)
        cases = [((), (index,)) for index in data.visits(setup, over, *bounds)] if inner else []
        entities: list[Entity] = [data.index]
    elif isinstance(data, Table):
        cases = [(data.variant(setup, row), row) for row in data.visits(setup, over)]
        entities = [role.entity for role in data.roles]
        times = Counter(variant for variant, _ in cases)
        for variant, body in loop.bodies.items():
            runs[body] += times[variant]
    for variant, numbers in cases if inner else ():
        found = {**known, **dict(zip(loop.roles[variant], zip(entities, numbers, strict=True), strict=True))}
        for each in inner.get(variant, ()):
            _add_runs(setup, each, found, runs)


def _own(block: CodeBlock) -> Count:
    ops = [item for item in block.items if isinstance(item, Op)]
    numbers = Counter(_COUNTED[op.code] for op in ops if op.code in _COUNTED)
    angles = {id(op.args[0]) for op in ops if op.code in ("sin", "cos")}
    return Count(**numbers, sines=len(angles))
