"""Fields that hold nothing but a constant of their node: later loops read the constant itself.

A weight carries the constants of the node's placement along with the numbers that depend on q. Stores of these would
fill a batch's records, a vector for each number, and loads from there are no cheaper than those of the constants.
"""

from __future__ import annotations

from typing import Any

from kinetree.engines.ir import Op, Program, Store, walk
from kinetree.engines.places import FieldPlace, Param


def without_copies(program: Program) -> Program:
    """Replace loads of fields by loads of constants. Stores that nothing reads any more are left to others.

    Args:
        program: A traced program, which is changed.
    """
    held: dict[tuple[str, str, int], int | None] = {}
    loads: list[Op] = []
    for item in walk(program.top):
        if isinstance(item, Op):
            if item.code == "load" and isinstance(item.attr, FieldPlace) and item.attr.role.exact:
                loads.append(item)
        elif isinstance(item, Store) and isinstance(item.place, FieldPlace):
            role, name, component = item.place
            constant = _constant(item.value, role)
            for kind in role.classes:
                key = kind, name, component
                held[key] = constant if held.get(key, constant) == constant else None
    for load in loads:
        role, name, component = load.attr
        constant = held.get((role.classes[0], name, component))
        if constant is not None:
            load.attr = Param(role, constant)
    return program


def _constant(value: Op, role: Any) -> int | None:
    """Which constant of the role's node a value is."""
    if value.code != "load" or not isinstance(value.attr, Param) or value.attr.role is not role:
        return None
    return value.attr.component
