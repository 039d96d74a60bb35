"""The order of terms in sums of products: fewer operations, and what is known last comes last.

An expression such as a + (b c − d e) is traced as two products, a difference and a sum. Written as (a + b c) − d e, it
takes two fused multiply-adds. In a loop from node to node, most of a long sum does not wait for the node before if the
terms that do are added last. Only the bodies of such loops are arranged. Loops within loops run over several columns at
once, and gain nothing.

Sums without a product keep their order and are one term of others, as their author may depend on how they round: a
difference of two large numbers comes before what is added to it. Sums with a number from memory keep their order, too:
instructions take it from there at no cost, whereas a chain that starts with it occupies a register.
"""

from __future__ import annotations

from typing import NamedTuple

from kinetree.compiler.ir import CodeBlock, FieldPlace, Item, Op, Program, Store, TreeLoop

#: Cycles until a result can be used, on current processors; one if not given.
_LATENCIES = {"add": 3, "sub": 3, "mul": 3, "div": 13, "sqrt": 20, "sin": 80, "cos": 80}
_FUSED = 4
_SUMS = ("add", "sub")
#: When values are known that do not depend on the node before.
_EARLY = -10_000


class _Term(NamedTuple):
    """A term of a sum; `product` if it is a product that nothing else needs."""

    op: Op
    negative: bool
    product: bool


def arrange(program: Program) -> Program:
    """Arrange the sums of a simplified program.

    Args:
        program: The program, which is changed.
    """
    for item in program.top.items:
        if isinstance(item, Op):
            item.note = _EARLY
        elif isinstance(item, TreeLoop):
            inside = [inner for body in item.blocks for inner in body.items]
            if any(isinstance(inner, TreeLoop) for inner in inside):
                continue
            stored = [inner.place for inner in inside if isinstance(inner, Store)]
            passed_on = {place.name for place in stored if isinstance(place, FieldPlace)}
            for body in item.blocks:
                _arrange(body, passed_on)
    return program


def _arrange(body: CodeBlock, passed_on: set[str]) -> None:
    """Arrange the sums of a loop's body, given the fields that the loop passes from node to node."""
    # notes of ops: how often they are used, then when they are known
    for item in body.items:
        if isinstance(item, Op):
            item.note = 0
            for a in item.args:
                a.note += 1
        elif isinstance(item, Store):
            item.value.note += 1
    sums, parts = _sums(body)
    if not sums:
        return
    items: list[Item] = []
    for item in body.items:
        if isinstance(item, Op):
            if item in parts:
                continue
            if item in sums:
                items += _chained(item, sums[item])
            item.note = _time(item, passed_on)
        items.append(item)
    body.items = items


def _time(op: Op, passed_on: set[str]) -> int:
    """When an op is known: fields that the loop passes on at 0, what depends on them later, everything else before."""
    args = op.args
    if len(args) == 2:  # most of them
        first: int = args[0].note
        second: int = args[1].note
        return (first if first > second else second) + _LATENCIES.get(op.code, 1)
    if args:
        return _latest(op) + _LATENCIES.get(op.code, 1)
    return 0 if op.code == "load" and isinstance(op.attr, FieldPlace) and op.attr.name in passed_on else _EARLY


def _sums(block: CodeBlock) -> tuple[dict[Op, list[_Term]], set[Op]]:
    """The terms of sums of three or more, at least one of them a product; and the sums that are part of these."""
    sums: dict[Op, list[_Term]] = {}
    parts: set[Op] = set()
    for op in reversed(block.items):
        if isinstance(op, Op) and op.code in _SUMS and op not in parts and _is_sum(op):
            terms, found = _terms(op)
            if found and any(term.product for term in terms):
                sums[op] = terms
                parts |= found
    return sums, parts


def _is_sum(op: Op) -> bool:
    return op.code in _SUMS and op.args[0].code != "load" and op.args[1].code != "load"


def _terms(op: Op) -> tuple[list[_Term], set[Op]]:
    """The terms of a sum, and the sums that are part of it: what is subtracted only if it consists of products."""
    terms: list[_Term] = []
    parts: set[Op] = set()
    for a, negative in zip(op.args, (False, op.code == "sub"), strict=True):
        own = a.block is op.block and a.note == 1
        if own and _is_sum(a):
            inner, found = _terms(a)
            products = [term.product for term in inner]
            if all(products) or (any(products) and not negative):
                terms += [_Term(term.op, not term.negative, True) for term in inner] if negative else inner
                parts |= {a, *found}
                continue
        terms.append(_Term(a, negative, own and a.code == "mul"))
    return terms, parts


def _chained(op: Op, terms: list[_Term]) -> list[Op]:
    """Make an op the last of a chain of sums; returns the others."""
    ordered = sorted(terms, key=_known)
    positive = [term for term in ordered if not term.negative]  # the first term of a sum always is
    # a chain that starts with a product takes an operation more, for the product
    latest = _known(ordered[0]) + _FUSED
    start = next((term for term in positive if not term.product and _known(term) <= latest), positive[0])
    rest = [term for term in ordered if term is not start]
    made: list[Op] = []
    total = start.op
    for term in rest[:-1]:
        total = Op(_CODES[term.negative], (total, term.op), None, op.block)
        total.note = _time(total, set())
        made.append(total)
    op.code, op.args = _CODES[rest[-1].negative], (total, rest[-1].op)
    return made


_CODES = {False: "add", True: "sub"}


def _known(term: _Term) -> int:
    """When a term can be added: a product is formed together with the sum."""
    time: int = _latest(term.op) if term.product else term.op.note
    return time


def _latest(op: Op) -> int:
    """When all arguments of an op are known."""
    times: list[int] = [a.note for a in op.args]
    return max(times)
