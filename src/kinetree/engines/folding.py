"""Folds what is known to be constant, and visits only the operations that this changes.

A program is recorded without operations that its rules replace, or that occur twice. So after components of fields have
turned out to be constant, only operations on what has changed can be folded or merged with others: a third of a
program the first time, and a few in a hundred after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinetree.engines.dead_code import keys_of
from kinetree.engines.ir import CodeBlock, Op, Place, Program, Store, key_of

#: Operations that are not evaluated when constants are searched for, even if their arguments are known.
OPAQUE = ("div", "select")


class Folding(Program):
    """Folds a traced program, which is changed.

    The note of an op is what it becomes: itself, or another op. Before it has been visited, its note is what is known
    of its value; or already the op that comes before it and has become the same.

    Args:
        program: The program. Notes of its ops are their values, if these are constants.
        constants: Components of fields and arrays that are known to be constant.

    Attributes:
        news: Whether it found constants that notes did not know of, or removed stores that say nothing: only then can
            more components be constant.
    """

    def __init__(self, program: Program, constants: Mapping[Any, float]) -> None:
        self.rules, self.top, self.current = program.rules, program.top, program.top
        self.unsettled: set[Op] = set()
        self.news = False
        self._constants, self._unsettled_before = constants, program.unsettled
        self._fresh: set[CodeBlock] = set()  # in which something has been recorded
        self._fold(program.top)
        program.unsettled = self.unsettled

    def record(self, op: Op) -> Op:
        key, current = key_of(op), self.current
        if key is not None:
            block: CodeBlock | None = current
            while block is not None:
                found: Op | None = block.known.get(key)
                if found is not None:
                    is_kept = found.note is found
                    if is_kept:
                        return found
                    if block is current and not isinstance(found.note, Op):
                        found.note = op  # it comes later
                block = block.outer
            if current.known.get(key) is not op:
                current.known[key] = op
                self._fresh.add(current)
        op.note = op
        current.items.append(op)
        return op

    def _fold(self, block: CodeBlock) -> None:
        items, unsettled = block.items, self._unsettled_before
        kept = block.items = []
        self.current = block
        is_fresh_outside = any(outer in self._fresh for outer in block.chain() if outer is not block)
        for item in items:
            if isinstance(item, Op):
                args, note = item.args, item.note
                if isinstance(note, Op):
                    continue
                if len(args) == 2:
                    a, b = args
                    is_same = a.note is a and b.note is b
                else:
                    is_same = not args or all(a.note is a for a in args)
                if not is_same or item in unsettled:
                    item.note = self._replaced(item, is_same)
                elif item.code == "load" and (value := self._constant(item)) is not None:
                    item.note = self.op("const", attr=value)
                    self.news |= not isinstance(note, float)
                elif is_fresh_outside:
                    item.note = self.record(item)
                else:
                    item.note = item
                    kept.append(item)
            elif isinstance(item, Store):
                stored: Op = item.value.note
                if says_nothing(item.place, stored, block):
                    self.news = True
                else:
                    kept.append(item if stored is item.value else Store(item.place, stored))
            else:
                for body in item.blocks:
                    self._fold(body)
                self.current = block
                if any(body.items for body in item.blocks):
                    kept.append(item)

    def _replaced(self, item: Op, is_same: bool) -> Op:
        """What an op becomes by rules, with arguments that have changed unless they are the same."""
        args = item.args if is_same else tuple([a.note for a in item.args])
        rule = self.rules.get(item.code)
        better = None if rule is None else rule(self, *args)
        if better is None:
            return self.record(item if is_same else Op(item.code, args, item.attr, item.block))
        if better.code == "const" or item.code in OPAQUE:
            self.news |= not isinstance(item.note, float)
        return better

    def _constant(self, load: Op) -> float | None:
        """What a load gives, if all components that it may read are known to be the same constant."""
        values = {self._constants.get(key) for key in keys_of(load.attr)} if self._constants else ()
        return values.pop() if len(values) == 1 else None


def says_nothing(place: Place, value: Op, block: CodeBlock) -> bool:
    """Whether a store to a place of what a block has loaded from it changes nothing."""
    return value.code == "load" and value.block is block and bool(value.attr == place)
