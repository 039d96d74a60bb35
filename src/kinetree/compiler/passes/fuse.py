"""Fused multiply-adds, after sums have been rearranged for them.

Deferred constants. The articulated inertia of a node starts as the inertia of its bodies, and its children add to it.
Only the children vary: a sum that starts as −0, to which any number can be added exactly, need not be stored before the
first child adds to it, and is the term itself if there is one child (`kinetree.compiler.lower.loop_carried`). The node
adds its own constant when it reads the sum.

Reassociation. An expression such as a + (b c − d e) is traced as two products, a difference and a sum. Written as
(a + b c) − d e, it takes two fused multiply-adds. In a loop from node to node, most of a long sum does not wait for the
node before if the terms that do are added last. Only the bodies of such loops are rearranged: loops within loops run
over several columns at once, and gain nothing. Sums without a product keep their order and are one term of others, as
their author may depend on how they round: a difference of two large numbers comes before what is added to it. Sums with
a number from memory keep their order, too: instructions take it from there at no cost, whereas a chain that starts with
it occupies a register.

Fusing. Products that are used once, in a sum of the same block, become part of it.
"""

from __future__ import annotations

from typing import NamedTuple

from kinetree.compiler.ir import (
    CodeBlock,
    Component,
    FieldAccess,
    FieldPlace,
    Item,
    Op,
    Param,
    Program,
    Role,
    Store,
    TreeLoop,
    field_accesses,
    place_of,
    sweep_direction,
    walk,
)
from kinetree.compiler.passes.simplify import negative, node_constant, rewrite, without_dead_code

#: Cycles until a result can be used, on current processors; one if not given.
_LATENCIES = {"add": 3, "sub": 3, "mul": 3, "div": 13, "sqrt": 20, "sin": 80, "cos": 80}
_FUSED = 4
_SUMS = ("add", "sub")
#: When values are known that do not depend on the node before.
_EARLY = -10_000

_Constant = int | float  # that of a node's constants with this number; or a number


def fuse(program: Program) -> Program:
    """Introduce fused multiply-adds into a simplified program, which is changed."""
    defer_constants(program)
    reassociate(program)
    _fuse_products(program)
    return without_dead_code(program)


# Deferred constants


def defer_constants(program: Program) -> None:
    """Let sums over children that start with constants of nodes start as −0."""
    for item in program.top.items:
        if isinstance(item, TreeLoop) and sweep_direction(item) == "inward":
            uses = _uses(program, item).items()
            if starts := {component: found for component, each in uses if (found := _starts(each)) is not None}:
                _defer(program, item, starts)
                program.deferred |= {component: {start.kind for start in each} for component, each in starts.items()}


def _uses(program: Program, loop: TreeLoop) -> dict[Component, list[tuple[FieldAccess, bool]]]:
    """Accesses outside a sweep to the components that its nodes add to at their parents.

    Each with whether it is early: in a sweep outward, before the sums are formed.
    """
    parents = {parent for _, parent in loop.roles.values()}
    found: dict[Component, list[tuple[FieldAccess, bool]]] = {
        access.component: []
        for access in field_accesses(loop)
        if isinstance(access.item, Store) and access.role in parents
    }
    is_before = bool(found)
    for outermost in program.top.items if found else ():
        if outermost is loop:
            is_before = False
            continue
        is_early = is_before and sweep_direction(outermost) == "outward"
        for access in field_accesses(outermost):
            if access.component in found:
                found[access.component].append((access, is_early))
    return found


class _Start(NamedTuple):
    """A store of a constant to a component of a node."""

    store: Store
    kind: str
    constant: _Constant


def _starts(uses: list[tuple[FieldAccess, bool]]) -> list[_Start] | None:
    """The stores with which sums start; None if these are not constants, or if anything else uses the sums."""
    found: list[_Start] = []
    for (_, role, item), is_early in uses:
        if not isinstance(item, Store) or not is_early:
            return None
        value = item.value
        constant = float(value.attr) if value.code == "const" else node_constant(value, role)
        if constant is None:
            return None
        found.append(_Start(item, role.classes[0], constant))
    constants: dict[str, _Constant] = {}
    same = all(constants.setdefault(start.kind, start.constant) == start.constant for start in found)
    return found if found and same else None


def _defer(program: Program, loop: TreeLoop, starts: dict[Component, list[_Start]]) -> None:
    """Let sums start as −0, and the nodes of a sweep add their constants to what they load."""
    stores = {id(start.store) for each in starts.values() for start in each}
    sweeps = [item for item in program.top.items if isinstance(item, TreeLoop) and sweep_direction(item) == "outward"]
    for body in [body for sweep in sweeps for body in sweep.blocks]:
        items: list[Item] = []
        for item in body.items:
            if isinstance(item, Store) and id(item) in stores:
                nothing = Op("const", (), -0.0, body)
                items += nothing, Store(item.place, nothing)
            else:
                items.append(item)
        body.items = items
    for variant, body in loop.bodies.items():
        own, _ = loop.roles[variant]
        kind = own.classes[0]
        constants = {
            component: start.constant for component, each in starts.items() for start in each if start.kind == kind
        }
        items = []
        for item in body.items:
            if isinstance(place := place_of(item), FieldPlace) and place.role is own and isinstance(item, Op):
                constant = constants.get((place.name, place.component), 0.0)
                if not (isinstance(constant, float) and constant == 0.0):
                    items += _with_constant(item, constant, own)
            items.append(item)
        body.items = items


def _with_constant(load: Op, constant: _Constant, role: Role) -> tuple[Op, Op]:
    """Turn a load into a sum with a constant of the role's node, for all that use it. Returns the terms."""
    total = Op("load", (), load.attr, load.block)
    if isinstance(constant, float):
        start = Op("const", (), constant, load.block)
    else:
        start = Op("load", (), Param(role, constant), load.block)
    load.code, load.args, load.attr = "add", (total, start), None
    return total, start


# Reassociation


class _Term(NamedTuple):
    """A term of a sum; `product` if it is a product that nothing else needs."""

    op: Op
    negative: bool
    product: bool


def reassociate(program: Program) -> None:
    """Reorder the terms of sums with products in the bodies of loops over nodes."""
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
                _reassociate(body, passed_on)


def _reassociate(body: CodeBlock, passed_on: set[str]) -> None:
    """Reorder the sums of a loop's body, given the fields that the loop passes from node to node."""
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
    for a, is_negative in zip(op.args, (False, op.code == "sub"), strict=True):
        own = a.block is op.block and a.note == 1
        if own and _is_sum(a):
            inner, found = _terms(a)
            products = [term.product for term in inner]
            if all(products) or (any(products) and not is_negative):
                terms += [_Term(term.op, not term.negative, True) for term in inner] if is_negative else inner
                parts |= {a, *found}
                continue
        terms.append(_Term(a, is_negative, own and a.code == "mul"))
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


# Fusing


def _fuse_products(program: Program) -> None:
    """Turn products that are used only once, in a sum of the same block, into fused multiply-adds."""
    single = _products_used_once(program)

    def fusible(op: Op) -> bool:
        return op.code == "mul" and id(op) in single and op.block is program.current

    def fused(op: Op, args: tuple[Op, ...]) -> Op | None:
        if op.code not in _SUMS:
            return None
        a, b = args
        if fusible(b):
            factor, other = b.args
            return program.op("fma", factor if op.code == "add" else negative(program, factor), other, a)
        if fusible(a):
            return program.op("fma", *a.args, b if op.code == "add" else negative(program, b))
        return None

    rewrite(program, fused)


def _products_used_once(program: Program) -> set[int]:
    """Identities of the products that are an argument, or stored, exactly once."""
    once: set[int] = set()
    more: set[int] = set()
    for item in walk(program.top):
        for arg in item.args if isinstance(item, Op) else (item.value,) if isinstance(item, Store) else ():
            if arg.code == "mul":
                (more if id(arg) in once else once).add(id(arg))
    return once - more
