"""Loop-invariant code motion: operations move out of loops in which they do not change.

An expression in the body of an inner loop is recorded there even if it depends on the outer node only. LLVM could move
it too, but its passes take as long as the rest of compilation.

A load alone is not moved: instructions take operands from memory, so it would only occupy a register. Neither is a
negation, which is part of a fused multiply-add. Both move together with an operation that needs them.
"""

from __future__ import annotations

from kinetree.compiler.ir import Access, CodeBlock, Follow, For, Op, Program, Store, Switch, needed, walk

#: Read-only memory.
_CONSTANT = ("constants", "gravity", "input")
_MOVED_ALONG = ("load", "neg", "const")


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
    for op in moved:
        op.block = outer
    body.items = [item for item in body.items if id(item) not in moving]
    return moved
