"""Angles whose sines and cosines a single sample computes ahead of its loops, several at once.

Sine and cosine take fifty operations, a quarter of inverse dynamics. One node at a time would compute them one after
the other, although they depend on nothing but the inputs. So a kernel that computes one node of one sample at a time
starts with a loop over all angles, as many at once as the processor has lanes, and keeps the results for other loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kinetree.compiler.ir import Access, CodeBlock, For, Op, Program, Switch
from kinetree.language.tree import Tree

#: The table of nodes, and its column with the start of a node's coordinates.
TABLE, COORDINATES = Tree.scatter.name, "0.q"
#: Numbers at the head of the tables: where the positions of the angles start, how many there are, and where their sines
#: and cosines are kept.
POSITIONS, COUNT, KEPT = ANGLES = ("angle positions", "angle count", "angles")
#: Rows are padded to a multiple of the widest vector.
MOST_LANES = 16
#: Stands for all variants of a body that serves them all.
ALL = -1


@dataclass(frozen=True)
class Angles:
    """The angles of a program: at most one of each node.

    Attributes:
        number: The input that has them.
        offsets: For each variant, or for `ALL`, which of the node's coordinates it is.
        ops: Their sines and cosines, each with the index of its loop.
    """

    number: int
    offsets: dict[int, int]
    ops: list[tuple[Op, Op]]

    @property
    def metadata(self) -> list[list[int]]:
        """Variants and offsets; serialisable as JSON."""
        return [[variant, offset] for variant, offset in self.offsets.items()]


def angles(program: Program) -> Angles | None:
    """The angles of a lowered program; None if there are none."""
    number: int | None = None
    offsets: dict[int, int] = {}
    ops: list[tuple[Op, Op]] = []
    for loop in program.top.items:
        if not isinstance(loop, For) or loop.stop.code != "size" or loop.stop.attr != f"count {TABLE}":
            continue
        for block, variants in _bodies(loop):
            for item in block.items:
                if not isinstance(item, Op) or item.code not in ("sin", "cos"):
                    continue
                access = _coordinate(item, loop.index)
                if access is None or number not in (None, access.space[1]):
                    continue
                others = offsets if ALL in (*variants, *offsets) else [v for v in variants if v in offsets]
                if all(offsets[variant] == access.offset for variant in others):
                    offsets |= dict.fromkeys(variants, access.offset)
                    number = access.space[1]
                    ops.append((item, loop.index))
    return None if number is None else Angles(number, offsets, ops)


def _bodies(loop: For) -> Iterator[tuple[CodeBlock, list[int]]]:
    """The bodies of a loop over nodes, each with the variants that it serves."""
    *_, last = loop.body.items
    if not isinstance(last, Switch):
        yield loop.body, [ALL]
        return
    for block in dict.fromkeys(last.cases.values()):
        yield block, [number for number, case in last.cases.items() if case is block]


def _coordinate(op: Op, row: Op) -> Access | None:
    """The coordinate of the row's node of which an op is the sine or cosine."""
    if op.args[0].code != "load":
        return None
    access: Access = op.args[0].attr
    base = access.base
    if access.space[0] != "input" or base is None or base.code != "cell":
        return None
    return access if base.attr == (TABLE, COORDINATES) and base.args[0] is row else None
