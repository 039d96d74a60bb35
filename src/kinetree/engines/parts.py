"""Cuts a straight-line program into parts that compilers can handle.

The time that a compiler takes for a function grows faster than its length, and beyond some thousand operations its
choice of registers suffers too. So long programs become several functions. Cuts are made where few values are needed
later: between the nodes of a tree. These values pass through scratch memory, whose places are reused.
"""

from __future__ import annotations

from itertools import accumulate

from kinetree.engines.ir import Access, CodeBlock, Item, Op, Program, Segment, Store

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
    program.discard()
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
