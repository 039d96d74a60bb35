"""Checks of programs between the stages of the pipeline: well-formedness, and equality of two traces."""

from __future__ import annotations

from typing import Any

from kinetree.compiler.ir import ARITY, CodeBlock, Follow, For, Op, Program, Role, Store, needed


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


def canonical(block: CodeBlock) -> list[Any]:
    """A block's items, named by position only, so that two traces can be compared."""
    numbers: dict[Any, Any] = {}

    def name(thing: Any) -> Any:
        return numbers.get(id(thing), id(thing))

    def place(p: Any) -> Any:
        if isinstance(p, Role):
            return name(p)
        return tuple(place(x) for x in p) if isinstance(p, tuple) else p

    def listing(items: list[Any]) -> list[Any]:
        out: list[Any] = []
        for item in items:
            if isinstance(item, Op):
                numbers[id(item)] = ("op", len(numbers))
                attr = item.attr if item.code == "const" else place(item.attr) if item.code == "load" else None
                out.append((item.code, tuple(map(name, item.args)), type(item.attr).__name__, attr))
            elif isinstance(item, Store):
                out.append(("store", type(item.place).__name__, place(item.place), name(item.value)))
            else:
                for variant, roles in item.roles.items():
                    for i, role in enumerate(roles):
                        numbers[id(role)] = ("role", variant, i, len(numbers))
                bodies = [(variant, listing(body.items)) for variant, body in item.bodies.items()]
                bounds = place(item.start), place(item.stop)
                out.append(("loop", item.loop.name, name(item.over) if item.over else None, *bounds, bodies))
        return out

    return listing(block.items)
