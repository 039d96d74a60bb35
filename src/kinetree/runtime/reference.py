"""The reference engine: runs an algorithm's loops as written, sample by sample, with all checks that need only values.

It defines what is correct. Violations that only symbols can expose (a branch on a value, a local variable that carries
state from one iteration to the next) are found by `kinetree.compiler.trace`. Inputs may have any scalar type: float64,
complex (for complex-step derivatives), longdouble, or objects registered with `kinetree.register_scalar`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kinetree.errors import ContractError, InputError
from kinetree.language.algorithm import Algorithm, Argument, Entries, place
from kinetree.language.contract import author_line, describe, immutable, refuse, type_name
from kinetree.language.loops import Entity, IndexLoop, LoopShape, NodeEntity, Table, number_of
from kinetree.language.mechanism import WORLD, Mechanism, Site
from kinetree.language.node import WORLD_PORT, NodeKind
from kinetree.language.roles import MOVED_ON, Index, Ledger, NodeRole, entry_at, port_of, require_own
from kinetree.language.setup import Setup
from kinetree.language.tree import Indexed, Tree
from kinetree.runtime import arguments
from kinetree.runtime.arguments import common_batch, require_shape
from kinetree.spatial.motion import Motion
from kinetree.spatial.value import Array


class _Cell:
    """A node's fields in a dictionary."""

    def __init__(self, number: int, kind: NodeKind | None, parameters: Array, world: _Cell | None) -> None:
        self.handle, self.kind, self.parameters, self.world = number, kind, parameters, world
        self.starts: dict[str, int] = {}
        self.fields: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        return self.fields.get(name)

    def set(self, name: str, value: Any) -> None:
        self.fields[name] = value

    def start(self, dimension: str) -> int:
        return self.handle + 1 if dimension == "node" else self.starts[dimension]

    def type_on_world(self, name: str) -> tuple[Any, ...] | None:
        if self.world is None or self.kind is None or self.kind.port != WORLD_PORT:
            return None
        value = self.world.fields.get(name)
        return None if value is None else describe(value)


class _Argument(Entries):
    """An input or output in an array."""

    def __init__(self, argument: Argument, data: Array, readable: bool, writable: bool) -> None:
        super().__init__(argument, readable, writable)
        self.data = data

    def load(self, index: tuple[Index, ...]) -> Any:
        return self.data[_position(index)]

    def store(self, index: tuple[Index, ...], scalar: Any) -> None:
        self.data[_position(index)] = scalar

    def joined(self, scalars: list[Any]) -> Array:
        return np.array(scalars, dtype=self.data.dtype)


def _position(index: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    return tuple([base + offset for base, offset in index])


class _Memory:
    """An array of the tree: values by position, which must be set before they are read."""

    def __init__(self, over: tuple[str, ...]) -> None:
        self.over = over
        self.values: dict[tuple[int, ...], Any] = {}
        self.types: dict[str, Any] = {}

    def __getitem__(self, keys: Any) -> Any:
        value = self.values.get(_position(place(self.over, keys)))
        if value is None:
            refuse("an array entry is read before it is set")
        return value

    def __setitem__(self, keys: Any, value: Any) -> None:
        value = immutable(value)
        given = describe(value)
        known = self.types.setdefault(port_of(keys[0]) if self.over[0] == "node" else "", given)
        if given != known:
            refuse(f"an array of {type_name(known)} is given {type_name(given)}")
        self.values[_position(place(self.over, keys))] = value


class _Inward(_Memory):
    """Entries that are at one node at a time, the last one where they were set."""

    def __init__(self, over: str) -> None:
        super().__init__(("node", over))
        self.nodes: dict[int, int] = {}

    def __getitem__(self, keys: Any) -> Any:
        require_own(entry_at(keys)[0])
        node, entry = _position(place(self.over, keys))
        if self.nodes.get(entry, node) != node:
            refuse(MOVED_ON)
        return super().__getitem__(keys)

    def __setitem__(self, keys: Any, value: Any) -> None:
        entry_at(keys)
        super().__setitem__(keys, value)
        node, entry = _position(place(self.over, keys))
        self.nodes[entry] = node


class ReferenceTree(Tree):
    """The tree for one sample, with its own constants if they are an input. Handles of nodes etc. are their numbers."""

    def __init__(self, setup: Setup, constants: Array | None = None) -> None:
        self._setup, mechanism = setup, setup.mechanism
        self._open: list[str] = []
        world = _Cell(WORLD, None, np.zeros(0), None)
        self._cells = []
        parts = {
            "q": mechanism.q_starts,
            "v": mechanism.v_starts,
            "m": mechanism.m_starts,
            "joints": mechanism.joint_starts,
            "loops": mechanism.loop_starts,
            "constants": mechanism.constant_starts,
        }
        for number, kind in enumerate(mechanism.kinds):
            own = mechanism.parameters[number]
            if constants is not None:
                own = constants[mechanism.constant_starts[number] :][: len(own)]
            cell = _Cell(number, kind, own, world)
            cell.starts = {what: starts[number] for what, starts in parts.items()}
            self._cells.append(cell)
        self._cells.append(world)  # index −1
        self.world = NodeRole(world, "world", "set", Ledger())
        self.gravity = Motion.of(np.zeros(3), mechanism.gravity if constants is None else constants[-3:])
        self.rigid_bodies = all(kind.rigid for kind in mechanism.kinds)
        self.rigid_multibody = all(kind.rigid_multibody for kind in mechanism.kinds)

    def visit(self, loop: LoopShape[Any], over: Any, start: Index | None, stop: Index | None = None) -> Iterator[Any]:
        self._open.append(author_line())
        bounds = (None if bound is None else sum(bound) for bound in (start, stop))
        for visited in loop.visits(self._setup, over, *bounds):
            if isinstance(loop, Table):
                yield loop.yielded(self, visited, loop.variant(self._setup, visited), over)
            elif isinstance(loop, IndexLoop):
                yield loop.index.of(self, visited)
        self._open.pop()

    def finish(self) -> None:
        """Raise if a loop was left before its end."""
        if self._open:
            raise ContractError(f"{self._open[-1]}: a loop over the tree was left before its end")

    def number(self, entity: Entity, handle: Any, what: str) -> int:
        return number_of(self._setup, entity, handle, what)

    def cell(self, _node: NodeEntity, handle: Any, _key: Any) -> _Cell:
        cell: _Cell = self._cells[handle]
        return cell

    def placement(self, handle: Any) -> Array:
        placement: Array = self._setup.sites[handle].placement
        return placement

    def array(self, *over: str, like: str = "") -> Indexed:  # noqa: ARG002 - values bring their types along
        return _Memory(over)

    def inward(self, over: str, like: str = "") -> Indexed:  # noqa: ARG002
        return _Inward(over)


def run(
    algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site], inputs: Sequence[Any], name: str = ""
) -> tuple[Array, ...]:
    """Run an algorithm on arrays with leading batch axes, one for each of its inputs."""
    setup, sizes = Setup(mechanism, sites), algorithm.sizes(mechanism, sites)
    name = name or algorithm.name
    arrays = [_wide(np.asarray(x)) for x in inputs]
    cores = [argument.shape(sizes) for argument in algorithm.inputs]
    for array, core, argument in zip(arrays, cores, algorithm.inputs, strict=True):
        require_shape(f"{name}: {argument.name}", array.shape, core)
    batches = [a.shape[: a.ndim - len(core)] for a, core in zip(arrays, cores, strict=True)]
    batch = common_batch(name, [argument.name for argument in algorithm.inputs], batches) if batches else ()
    arrays = [np.broadcast_to(a, batch + core) for a, core in zip(arrays, cores, strict=True)]
    dtype = np.result_type(np.float64, *arrays)
    outputs = [np.zeros(batch + argument.shape(sizes), dtype=dtype) for argument in algorithm.outputs]
    for sample in np.ndindex(batch):
        tree = ReferenceTree(setup, None if algorithm.constants is None else arrays[algorithm.constants][sample])
        one = (*sample, ...)  # the ellipsis keeps scalars as arrays, which can be written
        taken = [_Argument(argument, a[one], True, False) for argument, a in zip(algorithm.inputs, arrays, strict=True)]
        given = [
            _Argument(argument, a[one].reshape(argument.lengths(sizes)), argument.sparse, True)
            for argument, a in zip(algorithm.outputs, outputs, strict=True)
        ]
        algorithm(tree, *taken, *given)
        tree.finish()
    for argument, output in zip(algorithm.outputs, outputs, strict=True):
        if argument.symmetric:
            rows, columns = np.tril_indices(output.shape[-1], -1)
            output[..., rows, columns] = output[..., columns, rows]
    return tuple(outputs)


def _wide(array: Array) -> Array:
    """Single precision as double: NumPy would evaluate sines in the type that it is given."""
    return array.astype(np.result_type(array, np.float64), copy=False) if array.dtype.kind in "fc" else array


class Interpreted:
    """A callable of arrays for one mechanism and choice of frames; arguments as of `kinetree.runtime.kernels.bind`."""

    def __init__(
        self,
        name: str,
        algorithm: Algorithm,
        mechanism: Mechanism,
        sites: tuple[Site, ...],
        single: bool,
        bundle: type[tuple[Any, ...]],
    ) -> None:
        algorithm.require(mechanism, name)
        self.name, self.algorithm, self.mechanism, self.sites = name, algorithm, mechanism.at(sites), sites
        self._single, self._bundle = single, bundle

    def compile(self) -> None:
        """Do nothing: the algorithm runs as written."""

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        """Compute; `out` as for compiled functions, with the dtype that results from the inputs."""
        names = [a.name for a in self.algorithm.inputs if self.sites or "frames" not in a.dimensions]
        if len(inputs) != len(names):
            raise InputError(f"{self.name} takes {len(names)} inputs ({', '.join(names)}), got {len(inputs)}")
        given = zip(names, inputs, strict=True)
        taken = [arguments.numbers(self.name, name, value, "fiucO") for name, value in given]
        if not self.sites:
            for i, argument in enumerate(self.algorithm.inputs):
                if "frames" in argument.dimensions:
                    taken.insert(i, np.zeros((0, 6)))
        with np.errstate(all="ignore"):
            results = run(self.algorithm, self.mechanism, self.sites, taken, self.name)
        if self._single:
            axes = [len(a.dimensions) - a.dimensions.index("frames") for a in self.algorithm.outputs]
            results = tuple(np.squeeze(r, axis=-axis) for r, axis in zip(results, axes, strict=True))
        if out is not None:
            names, shapes = [a.name for a in self.algorithm.outputs], [result.shape for result in results]
            places = arguments.results(self.name, out, names, shapes, results[0].dtype)
            for place, result in zip(places, results, strict=True):
                place[...] = result
            results = places
        if len(results) == 1:
            return results[0]
        return results if self._bundle is tuple else self._bundle(*results)
