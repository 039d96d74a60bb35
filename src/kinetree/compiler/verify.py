"""Well-formedness of programs, checked between stages, and equality of blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinetree.compiler.ir import (
    ARITY,
    CodeBlock,
    FieldPlace,
    Follow,
    For,
    Item,
    Op,
    Program,
    Role,
    Store,
    TreeLoop,
    key_of,
    needed,
)


def verify(program: Program) -> None:
    """Check that every op is well formed and used only where it is defined."""

    def check(block: CodeBlock, known: set[int]) -> None:
        here = set(known)
        for item in block.items:
            if isinstance(item, Op):
                if len(item.args) != ARITY[item.code] or item.block is not block:
                    raise AssertionError(f"malformed {item!r}")
                used = needed(item) if item.code == "load" else item.args
                if missing := [a for a in used if id(a) not in here]:
                    raise AssertionError(f"{item!r} uses {missing[0]!r} where it is not defined")
                here.add(id(item))
                continue
            if missing := [a for a in needed(item) if id(a) not in here]:
                raise AssertionError(f"{type(item).__name__} uses {missing[0]!r} where it is not defined")
            if not isinstance(item, Store):
                for body in item.blocks:
                    check(body, here | ({id(item.index)} if isinstance(item, (For, Follow)) else set()))

    check(program.top, set())


def canonical(
    block: CodeBlock, names: dict[int, Any] | None = None, field: Callable[..., Any] | None = None
) -> list[Any]:
    """A block's items, named by position only, so that blocks can be compared.

    Args:
        block: The block.
        names: Names of roles from outside, by identity. Blocks are equal only if all others are the same objects.
        field: What stands for the field of a `FieldPlace`, if not its name and component.
    """
    numbers = {} if names is None else names

    def name(thing: Any) -> Any:
        return numbers.get(id(thing), id(thing))

    def place(p: Any) -> Any:
        if isinstance(p, Role):
            return name(p)
        if isinstance(p, FieldPlace) and field is not None:
            return name(p.role), field(p)
        return tuple(place(x) for x in p) if isinstance(p, tuple) else p

    def listing(items: list[Item]) -> list[Any]:
        out: list[Any] = []
        for item in items:
            if isinstance(item, Op):
                numbers[id(item)] = ("op", len(numbers))
                attr = place(item.attr) if item.code == "load" else None
                attr = key_of("const", (), item.attr) if item.code == "const" else attr
                out.append((item.code, tuple(map(name, item.args)), type(item.attr).__name__, attr))
            elif isinstance(item, Store):
                out.append(("store", type(item.place).__name__, place(item.place), name(item.value)))
            elif isinstance(item, TreeLoop):
                for variant, roles in item.roles.items():
                    for i, role in enumerate(roles):
                        numbers[id(role)] = ("role", variant, i, len(numbers))
                bodies = [(variant, listing(body.items)) for variant, body in item.bodies.items()]
                over = name(item.over) if item.over else None
                out.append(("loop", item.loop.name, over, place(item.start), place(item.stop), bodies))
        return out

    return listing(block.items)
