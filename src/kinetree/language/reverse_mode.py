"""Reverse-mode differentiation of an algorithm: gradients of a weighted sum of its results, at the same order of cost.

A loop from base to tips passes values from parents to children; run backwards, it passes their adjoints from children
to parents. So the adjoint of `scatter` is `gather` and vice versa, and the gradient of a recursion is a recursion that
any engine can run:

    k.f = g(parent.f)           parent.f̄ += (∂g/∂f)ᵀ k.f̄
    parent.f += g(k.h)          k.h̄ += (∂g/∂h)ᵀ parent.f̄

The body of each loop is recorded while the algorithm runs (`spatial.tape`), once for each kind of node and parent. Then
the loops run again in reverse order. There, a body is evaluated anew from the fields, inputs and constants that it
read, which costs less than to keep all that it computed in between; then its adjoints follow.

Applies to algorithms that use only `scatter`, `gather`, `frames` and `relatives`, and set each field in one loop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from typing import Any, cast

import numpy as np

from kinetree.errors import IrreversibleError
from kinetree.language.algorithm import Algorithm, Argument
from kinetree.language.contract import Increment, addable, components, describe, rebuild, refuse
from kinetree.language.roles import FORMULAS, SUPPLIED, ColumnRole, FrameRole, NodeRole, RowRole, port_of
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.screw import dot
from kinetree.spatial.tape import Number, Tape, Taped, plain
from kinetree.spatial.value import Array, Value

#: Where a leaf of a body comes from: what, the member of the loop, the name or number of the array, and which scalar.
Source = tuple[str, str, Any, int]
#: Names of loops, and of those that run backwards.
_BACKWARDS = {"scatter": "gather", "gather": "scatter"}
#: What they yield.
_MEMBERS: dict[str, tuple[str, ...]] = {
    "scatter": ("k", "parent"),
    "gather": ("k", "parent"),
    "frames": ("frame", "carrier"),
    "relatives": ("near", "near_carrier", "far", "far_carrier"),
}
#: Members whose fields may only be added to in loops that run backwards.
_OTHERS = ("parent", "carrier", "near_carrier", "far_carrier")
#: What trees compute from fields.
_COMPOSED = ("seen", "pose", "first_moment", "apart", "between")


def gradient(algorithm: Algorithm, name: str, wanted: Sequence[str], outputs: Sequence[str]) -> Algorithm:
    """The gradients of a weighted sum of an algorithm's results with respect to some of its inputs.

    Args:
        algorithm: The algorithm.
        name: Name of the gradient.
        wanted: Names of the inputs: "q" for the tangent of the configuration; "constants" for those of nodes, if they
            are an input; "placements" for the 12 numbers of each frame, and "gravity".
        outputs: Names of the gradients.

    Returns:
        An algorithm that takes the inputs, then weights for each result, of its name and shape; what is indexed by
        frames comes last. It raises IrreversibleError if it uses other loops.
    """
    own = algorithm.inputs
    weights = tuple(Argument(_weight(output.name), output.dimensions) for output in algorithm.outputs)
    of_frames = [a for a in (*own, *weights) if "frames" in a.dimensions]
    inputs = (*(a for a in (*own, *weights) if a not in of_frames), *of_frames)
    sizes = {a.name: ("v",) if a.name == "q" else a.dimensions for a in own} | {
        "placements": ("frames", 12),
        "gravity": (3,),
    }
    results = tuple(Argument(new, sizes[old]) for new, old in zip(outputs, wanted, strict=True))

    def run(tree: Tree, *arguments: Indexed) -> None:
        arrays = {a.name: array for a, array in zip((*inputs, *results), arguments, strict=True)}
        record = _Record({a.name: a for a in (*own, *weights)}, arrays, frozenset(wanted))
        taped = _Tree(tree, record)
        taken = (_Input(record, a.name) for a in own)
        algorithm.run(taped, *taken, *(_Output(record, a.name) for a in algorithm.outputs))
        taped.finish()
        _Backwards(tree, record, {of: arrays[r.name] for of, r in zip(wanted, results, strict=True)}).run()

    # all nodes matter to constants
    return Algorithm(name, run, inputs, results, algorithm.rigid, algorithm.local if of_frames else None)


@dataclass
class _Body:
    """What one run of a loop's body, or of what stands outside of loops, computed."""

    of: str  # class of the node whose turn it is
    tape: Tape = field(default_factory=Tape)
    #: The taped values of what was read or set, by source without its last part.
    known: dict[tuple[str, str, Any], Any] = field(default_factory=dict)
    leaves: dict[Source, int] = field(default_factory=dict)
    #: What was set or added to: member, name, and taped values.
    effects: dict[tuple[str, str, Any], list[Any]] = field(default_factory=dict)

    @cached_property
    def used(self) -> dict[Source, int]:
        """The leaves that something was computed from: `parent.f += x` reads a field, too."""
        numbers = {x for entry in self.tape.entries for x in entry.operands if isinstance(x, Number)}
        numbers |= {x.number for scalars in self.effects.values() for x in scalars if isinstance(x, Taped)}
        return {source: number for source, number in self.leaves.items() if number in numbers}

    def fields_of(self, *members: str) -> set[str]:
        """The fields of some members of the loop that were read as they were before."""
        return {name for what, member, name, _ in self.used if what in ("field", "kept") and member in members}

    @cached_property
    def own_fields(self) -> set[str]:
        """Those of the node itself."""
        return self.fields_of("k", "world")

    def read(self, what: str, member: str, name: Any, value: Any) -> Any:
        """A value of the engine on the tape."""
        key = what, member, name
        if key not in self.known:
            scalars = []
            for i, x in enumerate(components(value)):
                scalars.append(leaf := self.tape.leaf(x))
                self.leaves[what, member, name, i] = leaf.number
            self.known[key] = rebuild(describe(value), _objects(scalars))
        return self.known[key]

    def set(self, what: str, member: str, name: Any, value: Any) -> Any:
        """Note that a value was stored; returns it as the engine's."""
        key, flat = (what, member, name), components(value)
        if key in self.effects:
            refuse(f"`{name}` is set or added to twice in one loop body, which reverse mode cannot follow")
        for x in flat:
            if isinstance(x, Taped) and x.tape is not self.tape:
                raise IrreversibleError(
                    "a value from outside of a loop is used in it: store it in a field of the world"
                )
        self.effects[key] = list(flat)
        self.known[key] = value
        return rebuild(describe(value), _objects([plain(x) for x in flat]))


@dataclass
class _Loop:
    """A loop: its name, and its body for each variant."""

    name: str
    part: str = ""
    bodies: dict[Any, _Body] = field(default_factory=dict)


class _Record:
    """What an algorithm did, from its first statement to its last."""

    def __init__(self, arguments: dict[str, Argument], arrays: dict[str, Any], wanted: frozenset[str]) -> None:
        self.arguments, self.arrays, self.wanted = arguments, arrays, wanted
        self.items: list[_Body | _Loop] = [_Body("world")]
        #: The body that is running.
        self.body: _Body = cast("_Body", self.items[0])
        #: Members of the loop that is running, by name.
        self.members: dict[str, Any] = {}
        #: Numbers of scalars of fields by class of node; names of hidden ones end with "*".
        self.sizes: dict[str, dict[str, int]] = {}

    def member_of(self, role: Any) -> tuple[str, int]:
        """The name of a role in the running loop; and the number of a column in its node, of a row in its frame."""
        if isinstance(role, tuple):
            raise IrreversibleError("reverse mode follows entries of one node or frame, and no blocks of matrices")
        if isinstance(role, _Row):
            return role.member, role.local
        role = role._role if isinstance(role, (_Node, _Frame)) else role
        if isinstance(role, ColumnRole):
            return "k", -1 if role.local is None else role.local
        return next(name for name, one in self.members.items() if one is role), -1


def _variant(members: dict[str, Any]) -> tuple[Any, ...]:
    """What bodies depend on: kind of the loop's own node, and ports."""
    found: list[Any] = []
    for name, role in members.items():
        if isinstance(role, FrameRole):
            found.append(role._components)
        else:
            found.append(role.formulas()[0].name if name == "k" else (port_of(role), role._cell.kind is None))
    return tuple(found)


class _Tree:
    """A tree that records what an algorithm does."""

    def __init__(self, tree: Tree, record: _Record) -> None:
        self._tree, self._record = tree, record
        self.rigid_bodies, self.rigid_multibody = tree.rigid_bodies, tree.rigid_multibody
        record.members = {"world": tree.world}

    @property
    def world(self) -> _Node:
        return _Node(self._tree.world, "world", self._record)

    @property
    def gravity(self) -> Any:
        return self._record.body.read("gravity", "", "", self._tree.gravity)

    def scatter(self) -> Iterator[Any]:
        yield from self._visited(_Loop("scatter"), self._tree.scatter())

    def gather(self) -> Iterator[Any]:
        yield from self._visited(_Loop("gather"), self._tree.gather())

    def frames(self, part: str = "") -> Iterator[Any]:
        yield from self._visited(_Loop("frames", part), self._tree.frames(part))

    def relatives(self) -> Iterator[Any]:
        yield from self._visited(_Loop("relatives"), self._tree.relatives())

    def _visited(self, loop: _Loop, visits: Iterator[Any]) -> Iterator[Any]:
        record, names = self._record, _MEMBERS[loop.name]
        record.items.append(loop)
        for roles in visits:
            record.members = dict(zip(names, roles, strict=True))
            record.body = _Body(_class(roles[0], names[0]) if names[0] == "k" else "")
            made = (
                _Frame(role, name, record) if isinstance(role, FrameRole) else _Node(role, name, record)
                for name, role in record.members.items()
            )
            yield tuple(made)
            loop.bodies[_variant(record.members)] = record.body
        record.items.append(_Body("world"))
        record.body, record.members = cast("_Body", record.items[-1]), {"world": self._tree.world}

    def finish(self) -> None:
        """Leave out what stands between loops and does nothing; fields must be as they were when bodies run again."""
        items = [item for item in self._record.items if isinstance(item, _Loop) or item.effects]
        self._record.items, setters, read = items, dict[tuple[str, str], int](), set[str]()
        for i, item in enumerate(items):
            bodies = item.bodies.values() if isinstance(item, _Loop) else [item]
            for body in bodies:
                for what, _, name in body.effects:
                    if what in ("field", "kept") and setters.setdefault((body.of, name), i) != i:
                        raise IrreversibleError(f"field {name} is set in two loops")
                    if what == "added" and name in read:
                        raise IrreversibleError(f"field {name} is added to after a loop has read it")
            for body in bodies:
                read |= body.fields_of("k", "world", *_OTHERS)

    def __getattr__(self, name: str) -> Any:
        if name in _COMPOSED:
            return partial(getattr(Tree, name), self)
        raise IrreversibleError(f"reverse mode follows scatter, gather and frames, and no `tree.{name}`")


class _Row:
    """A row of a frame: the loop's member, and its number among the frame's rows."""

    def __init__(self, role: RowRole, member: str, local: int) -> None:
        self.role, self.member, self.local, self.component = role, member, local, role.component


class _Frame:
    """A frame whose placement is on the tape."""

    def __init__(self, role: FrameRole, member: str, record: _Record) -> None:
        self._role, self._member, self._record = role, member, record

    @property
    def X(self) -> Any:
        return self._record.body.read("placement", self._member, "", self._role.X)

    def rows(self) -> Iterator[_Row]:
        for local, row in enumerate(self._role.rows()):
            yield _Row(row, self._member, local)


class _Node:
    """A role whose fields and formulas are on the tape."""

    __slots__ = ("_member", "_record", "_role")

    def __init__(self, role: NodeRole, member: str, record: _Record) -> None:
        for name, value in {"_role": role, "_member": member, "_record": record}.items():
            object.__setattr__(self, name, value)

    def formulas(self) -> tuple[Any, Array]:
        """As of `NodeRole`, with constants on the tape."""
        kind, constants = self._role.formulas()
        return kind, self._record.body.read("constants", self._member, "", constants)

    @property
    def H(self) -> Any:
        kind, c = self.formulas()
        return self.kept("H") if kind.moving else kind.joint_map(c)

    @property
    def subspace(self) -> Any:
        return self.H

    def in_joint(self, x: Array) -> Array:
        return x

    @property
    def M(self) -> Any:
        kind, c = self.formulas()
        return self.kept("M") if kind.moving else kind.inertia(c)

    @property
    def armature(self) -> Array:
        kind, c = self.formulas()
        return cast("Array", kind.armature(c))

    def weight(self, q: Array) -> Any:
        kind, c = self.formulas()
        if kind.moving:
            for name, value in {"q": q, "H": kind.joint_map(c, q), "M": kind.inertia(c, q)}.items():
                self.keep(name, value)
        return kind.weight(c, q)

    def coriolis(self, velocity: Any, v: Array, carrier: Any = None) -> Any:
        kind, c = self.formulas()
        return kind.coriolis(c, self.kept("q") if kind.moving else None, v, velocity, carrier)

    def gyroscopic(self, velocity: Any, v: Array) -> Any:
        kind, c = self.formulas()
        return kind.gyroscopic(c, self.kept("q") if kind.moving else None, v, velocity)

    def keep(self, name: str, value: Any) -> None:
        """As of `NodeRole`."""
        value = value if isinstance(value, Value) else np.asarray(value)
        self._role.keep(name, self._stored("kept", f"{name}*", value))

    def kept(self, name: str) -> Any:
        """As of `NodeRole`."""
        return self._record.body.read("kept", self._member, f"{name}*", self._role.kept(name))

    def _stored(self, what: str, name: str, value: Any) -> Any:
        self._record.sizes.setdefault(_class(self._role, self._member), {})[name] = len(components(value))
        return self._record.body.set(what, self._member, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in FORMULAS:
            kind, c = self.formulas()
            return lambda *arguments: getattr(kind, name)(c, *arguments)
        value = getattr(self._role, name)
        if name in SUPPLIED:
            return value
        taped = self._record.body.read("field", self._member, name, value)
        owner = getattr(value, "owner", None)
        return taped if owner is None else addable(taped, owner)

    def __setattr__(self, name: str, value: Any) -> None:
        body = self._record.body
        if isinstance(value, Increment):
            amount = value.amount if isinstance(value.amount, Value) else np.asarray(value.amount)
            current = getattr(self._role, name)
            current += body.set("added", self._member, name, amount)
            setattr(self._role, name, current)
            return
        value = value if isinstance(value, Value) else np.asarray(value)
        setattr(self._role, name, self._stored("field", name, value))


class _Input:
    """An input on the tape."""

    def __init__(self, record: _Record, name: str) -> None:
        self._record, self._name = record, name

    def __getitem__(self, keys: Any) -> Any:
        record = self._record
        if keys is Ellipsis:
            return record.body.read("input", "", (self._name, -1), record.arrays[self._name][...])
        member, local = record.member_of(keys)
        role = keys._role if isinstance(keys, (_Node, _Frame)) else keys.role if isinstance(keys, _Row) else keys
        return record.body.read("input", member, (self._name, local), record.arrays[self._name][role])


class _Output:
    """An output of the algorithm: what it would hold is weighted instead."""

    def __init__(self, record: _Record, name: str) -> None:
        self._record, self._name = record, name

    def __setitem__(self, keys: Any, value: Any) -> None:
        member, local = ("", -1) if keys is Ellipsis else self._record.member_of(keys)
        self._record.body.set("output", member, (self._name, local), np.asarray(value))


class _Backwards:
    """Runs the loops of a record in reverse order, on adjoints: flat arrays, whatever the type of a field."""

    def __init__(self, tree: Tree, record: _Record, results: dict[str, Any]) -> None:
        self.tree, self.record, self.results = tree, record, results
        #: Fields whose adjoints are set, by class of node, before the loop that is running; and by this loop.
        self.ready: defaultdict[str, set[str]] = defaultdict(set)
        self.made: dict[str, set[str]] = {}
        #: The adjoint of gravity.
        self.gravity: Array = np.zeros(3)
        arguments = [record.arguments[name] for name in record.wanted if name in record.arguments]
        #: Wanted inputs that belong to nodes.
        self.inputs = [a.name for a in arguments if "frames" not in a.dimensions and a.name != "constants"]

    def run(self) -> None:
        """Fill the gradients."""
        self._start()
        for item in reversed(self.record.items):
            if isinstance(item, _Body):
                self.made = {"world": item.own_fields}
                self._step(item, {"world": self.tree.world}, ("world", ""))
                self.ready["world"].update(item.own_fields)
                continue
            self.made = {}
            for variant, body in item.bodies.items():
                if item.name in _BACKWARDS:
                    self.made.setdefault(variant[0], set()).update(body.own_fields)
            for loop, members_added in self._loops(item):
                for roles in loop:
                    members = dict(zip(_MEMBERS[item.name], roles, strict=True))
                    self._step(item.bodies[_variant(members)], members, members_added)
            for cls, names in self.made.items():
                self.ready[cls] |= names
        for k, _ in self.tree.scatter():
            self._conclude(k)
        if "gravity" in self.results:
            self.results["gravity"][...] = self.gravity

    def _loops(self, item: _Loop) -> Iterator[tuple[Iterator[Any], tuple[str, ...]]]:
        """What runs a loop backwards, with the members whose adjoints it may add to."""
        if item.name in _BACKWARDS:
            yield getattr(self.tree, _BACKWARDS[item.name])(), _MEMBERS[item.name]
        elif item.name == "frames":
            yield self.tree.frames(item.part), _MEMBERS[item.name]
        else:
            for end in ("near", "far"):
                yield self.tree.relative_ends(end), (end, f"{end}_carrier")

    def _start(self) -> None:
        """Set adjoints to zero where a loop adds to them before they are set."""
        added = {
            name
            for item in self.record.items
            if isinstance(item, _Loop)
            for body in item.bodies.values()
            for name in body.fields_of(*_OTHERS)
        }
        for name, size in self.record.sizes.get("world", {}).items():
            setattr(self.tree.world, _bar(name), np.zeros(size))
        for k, _ in self.tree.scatter():
            kind, constants = k.formulas()
            for name, size in self.record.sizes.get(kind.name, {}).items():
                if name in added:
                    setattr(k, _bar(name), np.zeros(size))
            for name in self.inputs:
                setattr(k, _bar(f"input {name}"), np.zeros(len(self.record.arrays[name][k])))
            if "constants" in self.results:
                setattr(k, _bar("constants"), np.zeros(len(constants)))
        for cls, sizes in self.record.sizes.items():
            self.ready[cls] |= {name for name in sizes if name in added or cls == "world"}

    def _step(self, body: _Body, members: dict[str, Any], added: Sequence[str]) -> None:
        """Adjoints of what a body read, from those of what it set; for some members of the loop."""
        values = body.tape.replayed({number: self._value(source, members) for source, number in body.used.items()})
        seeds: dict[int, Any] = {}
        for (what, member, name), scalars in body.effects.items():
            adjoints = self._adjoint(what, member, name, members)
            if adjoints is not None:
                _seed(seeds, scalars, adjoints)
        found = body.tape.adjoints(values, seeds)
        shares: dict[tuple[str, str, Any], list[Any]] = {}
        for what, member, name, _ in body.used:
            shares[what, member, name] = []
        for (what, member, name, _), number in body.leaves.items():
            if (what, member, name) in shares:
                shares[what, member, name].append(found.get(number, 0.0))
        for (what, member, name), share in shares.items():
            if member not in added and member:
                continue
            self._add(what, member, name, members, _objects(share))
        for cls, names in self.made.items():
            if cls == body.of:
                for name in names - body.own_fields:
                    self._set(cls, members["k"], name, np.zeros(self.record.sizes[cls][name]))

    def _value(self, source: Source, members: dict[str, Any]) -> Any:
        """The value of a leaf."""
        what, member, name, i = source
        if what == "gravity":
            return self.tree.gravity.data[i]
        if what == "placement":
            return members[member].X.data[i]
        if what == "constants":
            return members[member].formulas()[1][i]
        if what == "input":
            return components(np.asarray(self.record.arrays[name[0]][_key(members.get(member), name[1])]))[i]
        return components(members[member].kept(name[:-1]) if what == "kept" else getattr(members[member], name))[i]

    def _adjoint(self, what: str, member: str, name: Any, members: dict[str, Any]) -> Any:
        """The adjoints of what was stored; None if they are zero."""
        if what == "output":
            weight = self.record.arrays[_weight(name[0])][_key(members.get(member), name[1])]
            return components(np.asarray(weight))
        role = members[member]
        if what != "added" and name not in self.ready[_class(role, member)]:
            return None
        return getattr(role, _bar(name))

    def _add(self, what: str, member: str, name: Any, members: dict[str, Any], share: Array) -> None:
        """Add to the adjoints of something that was read."""
        role = members.get(member)
        if what == "gravity":
            if "gravity" in self.results and "world" not in members:
                refuse("gravity is used in a loop: store it in a field of the world")
            self.gravity = self.gravity + share[3:]
        elif what == "placement":
            if "placements" in self.results:
                self.results["placements"][role] = share
        elif what == "input" and isinstance(role, FrameRole):
            if name[0] in self.results:
                self.results[name[0]][role] = share
        elif what == "input" and name[0] in self.inputs:
            bar, at = _bar(f"input {name[0]}"), max(name[1], 0)
            before, own, after = np.split(getattr(role, bar), [at, at + len(share)])
            setattr(role, bar, np.concatenate([before, own + share, after]))
        elif what == "constants" and what in self.results:
            setattr(role, _bar(what), getattr(role, _bar(what)) + share)
        elif what in ("field", "kept") and member in _OTHERS:
            amount = getattr(role, _bar(name))
            amount += share
            setattr(role, _bar(name), amount)
        elif what in ("field", "kept"):
            self._set(_class(role, member), role, name, share)

    def _set(self, cls: str, role: Any, name: str, share: Array) -> None:
        """Add to the adjoints of a node's own field."""
        setattr(role, _bar(name), getattr(role, _bar(name)) + share if name in self.ready[cls] else share)

    def _conclude(self, k: NodeRole) -> None:
        """Gradients with respect to what belongs to a node."""
        for name in self.inputs:
            gradient = getattr(k, _bar(f"input {name}"))
            if name == "q":  # along the tangent
                q, nv = self.record.arrays["q"][k], k.formulas()[0].nv
                if "constants" in self.results:
                    self._close(k, q, gradient)
                gradient = np.array([dot(gradient, k.manifold.rates(q, unit)) for unit in np.eye(nv)])
            self.results[name][k] = gradient
        if "constants" in self.results:
            self.results["constants"][k] = getattr(k, _bar("constants"))

    def _close(self, k: NodeRole, q: Array, gradient: Array) -> None:
        """Loops stay closed as their geometry changes: the share of constants in the adjoint of q."""
        kind, c = k.formulas()
        rows = len(kind.loops(c, q)[0])
        if rows:
            weights = gradient @ kind.closing(c, q, np.eye(rows))
            tape = Tape()
            leaves = [tape.leaf(x) for x in c]
            opening = kind.loops(_objects(leaves), q)[0]
            seeds: dict[int, Any] = {}
            _seed(seeds, opening, weights)
            found = tape.adjoints(tape.replayed({leaf.number: x for leaf, x in zip(leaves, c, strict=True)}), seeds)
            share = _objects([found.get(leaf.number, 0.0) for leaf in leaves])
            setattr(k, _bar("constants"), getattr(k, _bar("constants")) + share)


def _seed(seeds: dict[int, Any], scalars: Sequence[Any] | Array, adjoints: Sequence[Any] | Array) -> None:
    """Add the adjoints of scalars to those of the tape, by number."""
    for x, adjoint in zip(scalars, adjoints, strict=True):
        if isinstance(x, Taped):
            seeds[x.number] = seeds[x.number] + adjoint if x.number in seeds else adjoint


def _class(role: Any, member: str) -> str:
    return "world" if member == "world" else cast("str", role.formulas()[0].name)


def _key(role: Any, local: int) -> Any:
    """The key of an entry of an array, given the member of the loop and the number of the column, if it has one."""
    if role is None:
        return Ellipsis
    if local < 0:
        return role
    return next(islice(role.rows() if isinstance(role, FrameRole) else role.columns(), local, None))


def _objects(scalars: Sequence[Any]) -> Array:
    array = np.empty(len(scalars), dtype=object)
    array[:] = list(scalars)
    return array


def _bar(name: str) -> str:
    """Name of the field of adjoints."""
    return f"{name}~"


def _weight(name: str) -> str:
    """Name of the weights of an output."""
    return f"{name} weight"
