"""Loop-invariant code motion: operations move out of loops in which they do not change.

An expression in the body of an inner loop is recorded there even if it depends on the outer node only. LLVM could move
it too, but its passes take as long as the rest of compilation. A load alone is not moved: instructions take operands
from memory, so it would only occupy a register. Neither is a negation, which is part of a fused multiply-add. Both move
together with an operation that needs them. A loop that may end before its first round keeps what would be much to
compute in vain.

Sines and cosines of joint angles are found here as well, though not moved. They take fifty operations, a quarter of
inverse dynamics, and depend on nothing but the inputs. So a kernel that computes one node of one sample at a time
starts with a loop over all angles, as many at once as the processor has lanes, and keeps the results for other loops.
"""

from __future__ import annotations

from dataclasses import dataclass

from kinetree.compiler.ir import Access, CodeBlock, Exit, Follow, For, Op, Program, Store, Switch, bodies, needed, walk
from kinetree.language.tree import Tree

#: Read-only memory.
_CONSTANT = ("constants", "gravity", "input")
#: Most operations that are moved out of a loop that may have no round.
_SPECULATIVE = 24
_MOVED_ALONG = ("load", "neg", "const")
#: The table of nodes, and its column with the start of a node's coordinates.
TABLE, COORDINATES = Tree.scatter.name, "0.q"
#: Numbers at the head of the tables: where the positions of the angles start, how many there are, and where their sines
#: and cosines are kept.
POSITIONS, COUNT, KEPT = ANGLES = ("angle positions", "angle count", "angles")
#: Rows are padded to a multiple of the widest vector.
MOST_LANES = 16
#: Stands for all variants of a body that serves them all.
ALL = -1


def hoist(program: Program) -> Program:
    """Move loop-invariant operations of a lowered program out of its loops."""
    _visit(program.top)
    return program


def _visit(block: CodeBlock) -> None:
    items = block.items
    block.items = []
    for item in items:
        if isinstance(item, (For, Follow)):
            _visit(item.body)
            block.items.extend(_moved(item, block))
        elif isinstance(item, Switch):
            for case in item.blocks:
                _visit(case)
        block.items.append(item)


def _moved(loop: For | Follow, outer: CodeBlock) -> list[Op]:
    """Remove the invariant operations of a loop's body, and return them."""
    body = loop.body
    changing = {id(loop.index), *(id(item) for item in body.items)}
    written = {item.place.space for item in walk(body) if isinstance(item, Store) and isinstance(item.place, Access)}

    fixed: list[Op] = []
    for item in body.items:
        if not isinstance(item, Op) or any(id(a) in changing for a in needed(item)):
            continue
        if item.code == "load" and item.attr.space[0] not in _CONSTANT and item.attr.space in written:
            continue
        changing.discard(id(item))
        fixed.append(item)

    moving: set[int] = set()
    for op in reversed(fixed):
        if op.code not in _MOVED_ALONG:
            moving.add(id(op))
        if id(op) in moving:
            moving.update(id(a) for a in needed(op))
    moved = [op for op in fixed if id(op) in moving]
    if len(moved) > _SPECULATIVE and any(
        isinstance(item, Store) and isinstance(item.place, Exit) for item in body.items
    ):
        return []
    for op in moved:
        op.block = outer
    body.items = [item for item in body.items if id(item) not in moving]
    return moved


@dataclass(frozen=True)
class Angles:
    """The angles of a program: at most one of each node."""

    number: int  # the input that has them
    offsets: dict[int, int]  # for each variant, or for `ALL`, which of the node's coordinates it is
    ops: list[tuple[Op, Op]]  # their sines and cosines, each with the index of its loop

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
        for block, served in bodies(loop).items():
            variants = served or [ALL]
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


def _coordinate(op: Op, row: Op) -> Access | None:
    """The coordinate of the row's node of which an op is the sine or cosine."""
    if op.args[0].code != "load":
        return None
    access: Access = op.args[0].attr
    base = access.base
    if access.space[0] != "input" or base is None or base.code != "cell":
        return None
    return access if base.attr == (TABLE, COORDINATES) and base.args[0] is row else None
