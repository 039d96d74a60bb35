"""Forward-mode differentiation of an algorithm: the same loops, run on dual numbers.

A `Dual` carries a value and its rate of change. Each field of the algorithm becomes two fields of the node, one for the
value and one for the rate. Configurations change along a tangent: as q moves with dq, the weight X of a joint changes
with the motion H dq, whatever the joint's coordinates, because H is constant in the node's own frame. So joints need no
derivatives of their own, and any engine can run the result.

Applies to algorithms that use only `scatter`, `gather`, `frames`, the columns that move a node or a frame, those of
descendants, and arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from kinetree.errors import ContractError
from kinetree.language.algorithm import Algorithm, Argument
from kinetree.language.contract import Increment, addable, components, describe, rebuild
from kinetree.language.roles import FORMULAS, SUPPLIED, ColumnRole, FrameRole, NodeRole
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.dual import Dual
from kinetree.spatial.motion import Motion
from kinetree.spatial.screw import dot
from kinetree.spatial.value import Array, Value

A = TypeVar("A", bound=Algorithm)


def directional_derivative(
    algorithm: Algorithm,
    name: str,
    tangent: str,
    directions: Mapping[str, str],
    outputs: tuple[str, ...],
    level: float = 0,
    values: tuple[str, ...] = (),
) -> Algorithm:
    """Differentiate an algorithm along directions of some of its inputs; the others are constant.

    Args:
        algorithm: The algorithm; it must take the configuration as `q`.
        name: Name of the derivative.
        tangent: Name of the direction of q, a tangent vector.
        directions: Names of the further directions, each with the input it belongs to: "constants" for those of nodes,
            if they are an input, and "gravity".
        outputs: Names of the rates of change of the outputs.
        level: Level of its dual numbers. A derivative of a derivative takes a lower one than the latter.
        values: Names of the outputs themselves, which follow; needed where the algorithm reads its own results.

    Returns:
        An algorithm with the same inputs, followed by the directions; inputs indexed by frames come last.

    Raises:
        ContractError: The algorithm takes no configuration `q`.
    """
    if Argument("q", ("q",)) not in algorithm.inputs:
        raise ContractError(f'{algorithm.name!r} takes no configuration: name the input with dimensions ("q",) q')
    return _derivative(algorithm, name, tangent, directions, outputs, level, values)


def coordinate_derivative(algorithm: A, name: str, directions: Mapping[str, str], outputs: tuple[str, ...]) -> A:
    """The same along changes of the components of q, four for a quaternion, as of any other input.

    Applies to algorithms that use nothing of a node but its manifold, and to kernels, which have no nodes.
    """
    return _derivative(algorithm, name, "", directions, outputs, 0)


def _derivative(
    algorithm: A,
    name: str,
    tangent: str,
    directions: Mapping[str, str],
    outputs: tuple[str, ...],
    level: float,
    values: tuple[str, ...] = (),
) -> A:
    own = algorithm.inputs
    sizes = {argument.name: argument.dimensions for argument in own} | {"gravity": (3,)}
    given = [Argument(tangent, ("v",))] if tangent else []
    given += [Argument(d, sizes[of]) for d, of in directions.items()]
    first = next((i for i, argument in enumerate(own) if "frames" in argument.dimensions), len(own))
    inputs = (*own[:first], *given, *own[first:])
    results = tuple(
        Argument(new, old.dimensions, old.symmetric, old.sparse, old.stacked)
        for names in ((outputs, values) if values else (outputs,))
        for new, old in zip(names, algorithm.outputs, strict=True)
    )

    def run(tree: Any, *arguments: Indexed) -> None:
        arrays = {argument.name: array for argument, array in zip((*inputs, *results), arguments, strict=True)}
        moved: dict[str, Any] = {
            of: _Moving(arrays[of], arrays[d], level) for d, of in directions.items() if of in arrays
        }
        if tangent:
            moved["q"] = _Configurations(arrays["q"], arrays[tangent], level)
            further = {of: arrays[d] for d, of in directions.items() if of in ("constants", "gravity")}
            tree = _Tree(tree, _Given(arrays[tangent], level, **further))
        else:
            tree = _Memory(tree, level)
        taken = [moved.get(a.name, _Still(arrays[a.name])) for a in own]
        stored: list[Any] = [_Array(arrays[x], arrays[dx], level) for x, dx in zip(values, outputs, strict=False)]
        algorithm.run(tree, *taken, *(stored or [_Rates(arrays[dx], level) for dx in outputs]))

    return replace(algorithm, name=name, run=run, inputs=inputs, outputs=results, own=None)


def gradients(formula: Callable[..., Array], arrays: Sequence[Array], weights: Array) -> list[Array]:
    """Gradients of a weighted sum of the components of `formula(*arrays)` with respect to each array.

    Meant for the few components of one node: differentiates along each of them. Arrays may be dual themselves.
    """
    sizes = [len(array) for array in arrays]
    found = []
    for unit in np.eye(sum(sizes)):
        directions = np.split(unit, np.cumsum(sizes)[:-1])
        moved = formula(*(joined(x, dx, level=1) for x, dx in zip(arrays, directions, strict=True)))
        rates = np.array([x.rate if isinstance(x, Dual) and x.level == 1 else 0.0 for x in moved])
        found.append(dot(weights, rates))
    return np.split(np.array(found), np.cumsum(sizes)[:-1])


class _Memory:
    """A tree or the sizes of a kernel, whose arrays store a rate of change with each entry."""

    def __init__(self, tree: Any, level: float) -> None:
        self._tree, self._level = tree, level

    def array(self, *over: str, like: str = "") -> _Array:
        return _Array(self._tree.array(*over, like=like), self._tree.array(*over, like=like), self._level)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tree, name)


class _Given(NamedTuple):
    """The directions: of the configuration and, if they change, of nodes' constants and of gravity; and the level."""

    tangent: Indexed
    level: float
    constants: Indexed | None = None
    gravity: Indexed | None = None


class _Tree:
    """A tree whose nodes store a rate of change with each field."""

    def __init__(self, tree: Tree, given: _Given) -> None:
        self._tree, self._given = tree, given
        self.world, self.gravity = _Node(tree.world, given), tree.gravity
        if given.gravity is not None:
            self.gravity = joined(tree.gravity, Motion.of(np.zeros(3), given.gravity[...]), given.level)
        self.rigid_bodies, self.rigid_multibody = tree.rigid_bodies, tree.rigid_multibody

    def scatter(self) -> Iterator[tuple[_Node, _Node]]:
        for k, parent in self._tree.scatter():
            yield _Node(k, self._given), _Node(parent, self._given)

    def gather(self) -> Iterator[tuple[_Node, _Node]]:
        for k, parent in self._tree.gather():
            yield _Node(k, self._given), _Node(parent, self._given)

    def frames(self, part: str = "") -> Iterator[tuple[FrameRole, _Node]]:
        for frame, carrier in self._tree.frames(part):
            yield frame, _Node(carrier, self._given)

    def relatives(self) -> Iterator[tuple[FrameRole, _Node, FrameRole, _Node]]:
        for near, near_carrier, far, far_carrier in self._tree.relatives():
            yield near, _Node(near_carrier, self._given), far, _Node(far_carrier, self._given)

    def support(self, frame: FrameRole) -> Iterator[ColumnRole]:
        return self._tree.support(frame)

    def columns(self, *after: ColumnRole) -> Iterator[ColumnRole]:
        return self._tree.columns(*after)

    def ancestors(self, k: _Node) -> Iterator[ColumnRole]:
        return self._tree.ancestors(k._role)

    def onward(self, k: _Node) -> Iterator[ColumnRole]:
        return self._tree.onward(k._role)

    def subtree(self, k: _Node) -> Iterator[ColumnRole]:
        return self._tree.subtree(k._role)

    def elsewhere(self, k: _Node) -> Iterator[ColumnRole]:
        return self._tree.elsewhere(k._role)

    def descendants(self, k: _Node) -> Iterator[ColumnRole]:
        return self._tree.descendants(k._role)

    def path(self, frame: FrameRole) -> Iterator[ColumnRole]:
        return self._tree.path(frame)

    def array(self, *over: str, like: str = "") -> _Array:
        return self._dual(lambda: self._tree.array(*over, like=like))

    def inward(self, over: str, like: str = "") -> _Array:
        return self._dual(lambda: self._tree.inward(over, like))

    def travelling(self, over: str, like: str = "") -> _Array:
        return self._dual(lambda: self._tree.travelling(over, like))

    def seen(self, reference: str, frame: FrameRole, carrier: _Node) -> Any:
        return Tree.seen(cast("Tree", self), reference, frame, cast("NodeRole", carrier))

    def pose(self, frame: FrameRole, carrier: _Node) -> Any:
        return Tree.pose(cast("Tree", self), frame, cast("NodeRole", carrier))

    def apart(self, near: FrameRole, near_carrier: _Node, far: FrameRole, far_carrier: _Node) -> Any:
        carriers = cast("NodeRole", near_carrier), cast("NodeRole", far_carrier)
        return Tree.apart(cast("Tree", self), near, carriers[0], far, carriers[1])

    def between(self, near: FrameRole, near_carrier: _Node, far: FrameRole, far_carrier: _Node) -> Any:
        carriers = cast("NodeRole", near_carrier), cast("NodeRole", far_carrier)
        return Tree.between(cast("Tree", self), near, carriers[0], far, carriers[1])

    def first_moment(self, k: _Node) -> Any:
        return Tree.first_moment(cast("Tree", self), cast("NodeRole", k))

    def _dual(self, make: Callable[[], Indexed]) -> _Array:
        return _Array(make(), make(), self._given.level)


class _Array:
    """An array of the tree that stores a rate of change with each entry."""

    def __init__(self, values: Indexed, rates: Indexed, level: float) -> None:
        self._values, self._rates, self._level = values, rates, level

    def __getitem__(self, keys: Any) -> Any:
        keys = _key(keys)
        return joined(self._values[keys], self._rates[keys], self._level)

    def __setitem__(self, keys: Any, value: Any) -> None:
        keys = _key(keys)
        self._values[keys], self._rates[keys] = parts(value, self._level)


def _roles(keys: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(key._role if isinstance(key, _Node) else key for key in keys)


class _Node:
    """A role with dual fields: the algorithm's field `f` is stored as `f` and `f'` on the node.

    The role may itself be such a node, for the derivative of a derivative.
    """

    __slots__ = ("_given", "_level", "_role")

    def __init__(self, role: Any, given: _Given) -> None:
        object.__setattr__(self, "_role", role)
        object.__setattr__(self, "_given", given)
        object.__setattr__(self, "_level", given.level)

    def formulas(self) -> tuple[Any, Array]:
        """As of `NodeRole`, with constants that may change."""
        kind, constants = self._role.formulas()
        if self._given.constants is None:
            return kind, constants
        return kind, self._joined(constants, self._given.constants[self._role])

    def weight(self, q: Array) -> Any:
        value, (kind, parameters) = parts(q, self._level)[0], self.formulas()
        X = self._role.weight(value)
        if not kind.moving:
            rate = X.rate(self._role.H @ self._given.tangent[self._role])
            if self._given.constants is not None:
                by_constants = parts(kind.weight(parameters, value), self._level)[1]
                rate = rebuild(describe(rate), components(rate) + components(by_constants))
            return self._joined(X, rate)
        own = {"q": q, "H": kind.joint_map(parameters, q), "M": kind.inertia(parameters, q)}
        for name, value in own.items():
            self._role.keep(self._rate_of(name), parts(value, self._level)[1])
        return kind.weight(parameters, q)

    def keep(self, name: str, value: Any) -> None:
        """Store a quantity that depends on q, and its rate, in hidden fields."""
        for field, part in zip((name, self._rate_of(name)), parts(value, self._level), strict=True):
            self._role.keep(field, part)

    def kept(self, name: str) -> Any:
        """The quantity stored by `keep`."""
        return self._joined(self._role.kept(name), self._role.kept(self._rate_of(name)))

    def _rate_of(self, name: str) -> str:
        return name + ("'" if self._level == 0 else f"'{-self._level}")

    def _joined(self, value: Any, rate: Any) -> Any:
        return joined(value, rate, self._level)

    @property
    def _cell(self) -> Any:
        return self._role._cell

    # Formulas that depend on q or on constants that change are evaluated on dual numbers.

    @property
    def H(self) -> Any:
        kind, parameters = self.formulas()
        if kind.moving:
            return self.kept("H")
        return self._role.H if self._given.constants is None else kind.joint_map(parameters)

    @property
    def subspace(self) -> Any:
        return self.H

    @property
    def M(self) -> Any:
        kind, parameters = self.formulas()
        if kind.moving:
            return self.kept("M")
        return self._role.M if self._given.constants is None else kind.inertia(parameters)

    @property
    def armature(self) -> Any:
        kind, parameters = self.formulas()
        return kind.armature(parameters)

    def coriolis(self, velocity: Any, v: Any, carrier: Any = None) -> Any:
        kind, parameters = self.formulas()
        return kind.coriolis(parameters, self.kept("q") if kind.moving else None, v, velocity, carrier)

    def gyroscopic(self, velocity: Any, v: Any) -> Any:
        kind, parameters = self.formulas()
        return kind.gyroscopic(parameters, self.kept("q") if kind.moving else None, v, velocity)

    def _of_kind(self, name: str) -> Any:
        kind, parameters = self.formulas()
        return lambda *arguments: getattr(kind, name)(parameters, *arguments)

    def __getattr__(self, name: str) -> Any:
        if name in FORMULAS:
            return self._of_kind(name)
        value = getattr(self._role, name)
        if name in SUPPLIED:
            return value
        dual = self._joined(value, getattr(self._role, self._rate_of(name)))
        owner = getattr(value, "owner", None)  # the field that += adds to, if the role may add
        return dual if owner is None else addable(dual, owner)

    def __setattr__(self, name: str, value: Any) -> None:
        adding = isinstance(value, Increment)
        split = parts(value.amount if adding else value, self._level)
        for field, part in zip((name, self._rate_of(name)), split, strict=True):
            if adding:
                current = getattr(self._role, field)
                current += part
                part = current
            setattr(self._role, field, part)


class _Configurations:
    """The configuration: its components change as the joint's coordinates do along the tangent."""

    def __init__(self, values: Indexed, tangent: Indexed, level: float) -> None:
        self._values, self._tangent, self._level = values, tangent, level

    def __getitem__(self, k: _Node) -> Any:
        (role,) = _roles((k,))
        q = self._values[role]
        rate = role.manifold.rates(q, self._tangent[role])
        if k._given.constants is not None:  # loops stay closed as their geometry changes
            (kind, c), (_, own) = k.formulas(), role.formulas()
            opening = parts(kind.loops(c, q)[0], self._level)[1]
            if len(opening):
                rate = rate + kind.closing(own, q, opening[:, None])[:, 0]
        return joined(q, rate, self._level)


class _Still:
    """An input without a direction."""

    def __init__(self, values: Indexed) -> None:
        self._values = values

    def __getitem__(self, keys: Any) -> Any:
        return self._values[_key(keys)]


class _Moving:
    """An input with a direction."""

    def __init__(self, values: Indexed, rates: Indexed, level: float) -> None:
        self._values, self._rates, self._level = values, rates, level

    def __getitem__(self, keys: Any) -> Any:
        keys = _key(keys)
        return joined(self._values[keys], self._rates[keys], self._level)


class _Unknown:
    """The value of a result, of which only the rate is stored: it may be added to, and nothing else."""

    def __add__(self, _: Any) -> _Unknown:
        return self

    __radd__ = __add__


_UNKNOWN = _Unknown()


class _Rates:
    """An output that stores the rates of the values assigned to it."""

    def __init__(self, output: Any, level: float) -> None:
        self._output, self._level = output, level

    def __setitem__(self, keys: Any, value: Any) -> None:
        self._output[_key(keys)] = parts(value, self._level)[1]

    def __getitem__(self, keys: Any) -> Any:
        rate = np.asarray(self._output[_key(keys)])
        return joined(np.full(rate.shape, _UNKNOWN), rate, self._level)

    def block(self, *position: int) -> _Rates:
        """Of a stacked output."""
        return _Rates(self._output.block(*position), self._level)


def _key(keys: Any) -> Any:
    return _roles(keys) if isinstance(keys, tuple) else keys._role if isinstance(keys, _Node) else keys


def joined(value: Any, rate: Any, level: float = 0) -> Any:
    """A dual value from a plain value and its rate."""
    pairs = [Dual(x, dx, level) for x, dx in zip(components(value), components(rate), strict=True)]
    scalars = np.empty(len(pairs), dtype=object)
    scalars[:] = pairs
    return rebuild(describe(value), scalars)


def parts(value: Any, level: float) -> tuple[Any, Any]:
    """The value and the rate of a value that may be dual; constants have rate zero."""
    value = value if isinstance(value, Value) else np.asarray(value)
    pairs = [(x.value, x.rate) if isinstance(x, Dual) and x.level == level else (x, 0.0) for x in components(value)]
    values, rates = (np.array([pair[i] for pair in pairs]) for i in range(2))
    return rebuild(describe(value), values), rebuild(describe(value), rates)
