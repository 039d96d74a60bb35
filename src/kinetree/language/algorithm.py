"""Declared inputs and outputs of an algorithm: the part of its signature that engines need."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from types import FunctionType
from typing import Any

import numpy as np

from kinetree.errors import UnsupportedError
from kinetree.language.contract import refuse
from kinetree.language.mechanism import Mechanism, Site, Sizes
from kinetree.language.roles import Index
from kinetree.spatial.value import Array

#: A dimension of an argument: "q" or "v" (coordinates, by node or column), "m" (components of nodes' velocities),
#: "joints" (velocities of all joints), "loops" (constraints that close loops), "frames" (by frame), "rows" (by row of a
#: task), "constants" (those of nodes, then gravity), or a fixed length.
Dimensions = tuple[str | int, ...]


@dataclass(frozen=True)
class Argument:
    """An array that an algorithm reads or fills."""

    name: str  # as in the function's signature
    dimensions: Dimensions  # the dimension of each axis
    symmetric: bool = False  # the algorithm fills the upper triangle including the diagonal; the engine mirrors it
    sparse: bool = False  # entries that the algorithm does not set are zero
    #: The array is a block matrix: axes of fixed length are merged with the axis after them, so that users see (2, "v",
    #: 2, "v") as a matrix with 2 nv rows and columns.
    stacked: bool = False

    def lengths(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The length of each axis, given the sizes of the symbolic dimensions."""
        return tuple(d if isinstance(d, int) else sizes[d] for d in self.dimensions)

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape that users see."""
        lengths = self.lengths(sizes)
        if not self.stacked:
            return lengths
        shape, blocks = list[int](), 1
        for dimension, length in zip(self.dimensions, lengths, strict=True):
            blocks *= length
            if isinstance(dimension, str):
                shape.append(blocks)
                blocks = 1
        return tuple(shape)


@dataclass(frozen=True, eq=False)
class Algorithm:
    """A recursion with its input and output arrays. Called like the function it wraps."""

    name: str
    run: Callable[..., None]
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    #: Whether it runs on trees of rigid bodies only.
    rigid: bool = False
    #: Whether only nodes that support the frames matter to results; None: if these are all indexed by frames.
    local: bool | None = None
    #: The same text in own coordinates, of an algorithm in another view.
    own: Algorithm | None = None

    def require(self, mechanism: Mechanism, name: str = "") -> None:
        """Raise, naming the first node that is no rigid body, unless the recursion runs on a mechanism."""
        if self.rigid and mechanism.first_general is not None:
            raise UnsupportedError(
                f"{name or self.name} runs on trees of rigid bodies only, and {mechanism.first_general!r} is a "
                "general node: run it in own coordinates, and use weights k.X, maps k.H and inertias k.M only"
            )

    def __call__(self, tree: Any, *arguments: Any) -> None:
        self.run(tree, *arguments)

    @property
    def local_to_frames(self) -> bool:
        """Whether only the nodes supporting the frames matter: as declared, or if every output is indexed by frames."""
        if self.local is not None:
            return self.local
        return all("frames" in argument.dimensions for argument in self.outputs)

    @staticmethod
    def sizes(mechanism: Mechanism, sites: Sequence[Site]) -> dict[str, int]:
        """Lengths of the symbolic dimensions."""
        rows = sum(len(site.rows) for site in sites if site.part != "near")  # both ends of a relative task share rows
        return {
            "q": mechanism.nq,
            "v": mechanism.nv,
            "m": mechanism.m_starts[-1],
            "joints": mechanism.joint_starts[-1],
            "loops": mechanism.loop_starts[-1],
            "frames": len(sites),
            "rows": rows,
            "constants": len(mechanism.total_parameters) + len(mechanism.gravity),
            **Sizes.of(mechanism),
        }

    @property
    def constants(self) -> int | None:
        """The number of the input that holds the mechanism's constants, if they are an input."""
        return next((i for i, argument in enumerate(self.inputs) if argument.name == "constants"), None)

    def visited(self, mechanism: Mechanism, sites: Sequence[Site]) -> Sequence[int]:
        """The nodes that loops run over: all of them, or only those supporting the frames if that is sufficient."""
        if not self.local_to_frames:
            return range(len(mechanism.kinds))
        return mechanism.topology.supporting(site.node for site in sites)


@lru_cache(maxsize=256)
def with_constants(algorithm: Algorithm) -> Algorithm:
    """The same recursion with the constants of nodes and gravity as its last input, so that each sample has its own.

    Frames keep their placements, which are constants too.
    """
    count = len(algorithm.inputs)

    def run(tree: Any, *arguments: Any) -> None:
        algorithm.run(tree, *arguments[:count], *arguments[count + 1 :])

    constants = Argument("constants", ("constants",))
    return replace(algorithm, name=f"{algorithm.name} with constants", run=run, inputs=(*algorithm.inputs, constants))


def algorithm(
    *,
    symmetric: tuple[str, ...] = (),
    sparse: tuple[str, ...] = (),
    stacked: tuple[str, ...] = (),
    outputs: tuple[str, ...],
    rigid: bool = False,
    local: bool | None = None,
    **dimensions: Dimensions,
) -> Callable[[Any], Algorithm]:
    """Declare the dimensions of a recursion's arguments.

    Args:
        symmetric: Outputs of which only the upper triangle is filled.
        sparse: Outputs whose untouched entries are zero.
        stacked: Outputs that are block matrices; see `Argument`.
        outputs: Names of the arguments that are filled.
        rigid: Whether it runs on trees of rigid bodies only, rather than on nodes of any kind.
        local: Whether nodes matter only if they support one of the frames; by default if all outputs are of frames.
        **dimensions: For each argument after `tree`, the dimensions of its axes.
    """

    def declare(run: FunctionType) -> Algorithm:
        code = run.__code__  # a signature would take twenty times as long, for a hundred recursions at import
        names = code.co_varnames[1 : code.co_argcount]
        if set(names) != set(dimensions) or names[len(names) - len(outputs) :] != outputs:
            raise TypeError(
                f"{run.__name__}{names}: the declaration has {tuple(dimensions)}; outputs must come last: {outputs}"
            )
        arguments = {
            n: Argument(n, dimensions[n], n in symmetric, n in sparse or n in symmetric, n in stacked) for n in names
        }
        return Algorithm(
            name=run.__name__,
            run=run,
            inputs=tuple(arguments[n] for n in names if n not in outputs),
            outputs=tuple(arguments[n] for n in outputs),
            rigid=rigid,
            local=local,
        )

    return declare


class Entries(ABC):
    """An input or output of a running algorithm, indexed by roles; enforces read and write access for every engine."""

    def __init__(self, argument: Argument, readable: bool, writable: bool) -> None:
        self.argument, self.readable, self.writable = argument, readable, writable

    @abstractmethod
    def load(self, index: tuple[Index, ...]) -> Any:
        """The scalar at an index."""

    @abstractmethod
    def store(self, index: tuple[Index, ...], scalar: Any) -> None:
        """Store a scalar at an index."""

    @abstractmethod
    def joined(self, scalars: list[Any]) -> Array:
        """Pack scalars into a flat array."""

    def block(self, *position: int) -> Entries:
        """A block of a stacked output, given an index for each of its fixed dimensions."""
        return _Block(self, position)

    def __getitem__(self, keys: Any) -> Any:
        if not self.readable:
            refuse(f"`{self.argument.name}` is read, but entries of an output start unset; declare it sparse")
        shape, indices = places(self.argument.dimensions, keys, self.argument.name)
        found = self.joined([self.load(index) for index in indices]).reshape(shape)
        found.flags.writeable = False
        return found

    def __setitem__(self, keys: Any, value: Any) -> None:
        if not self.writable:
            refuse(f"`{self.argument.name}` is an input and cannot be written")
        shape, indices = places(self.argument.dimensions, keys, self.argument.name)
        value = np.asarray(value)
        if value.shape != shape:
            refuse(f"`{self.argument.name}` takes an array of shape {shape} there, got {value.shape}")
        for index, scalar in zip(indices, value.reshape(-1), strict=True):
            self.store(index, scalar)


class _Block(Entries):
    """A block of an output, indexed like an output that has only the symbolic dimensions."""

    def __init__(self, whole: Entries, position: tuple[int, ...]) -> None:
        wanted = [d for d in whole.argument.dimensions if isinstance(d, str)]
        argument = replace(whole.argument, dimensions=tuple(wanted), stacked=False)
        super().__init__(argument, whole.readable, whole.writable)
        self.whole, self.position = whole, position

    def _index(self, index: tuple[Index, ...]) -> tuple[Index, ...]:
        fixed, symbolic = iter(self.position), iter(index)
        return tuple((0, next(fixed)) if isinstance(d, int) else next(symbolic) for d in self.whole.argument.dimensions)

    def load(self, index: tuple[Index, ...]) -> Any:
        return self.whole.load(self._index(index))

    def store(self, index: tuple[Index, ...], scalar: Any) -> None:
        self.whole.store(self._index(index), scalar)

    def joined(self, scalars: list[Any]) -> Array:
        return self.whole.joined(scalars)


def places(dimensions: Dimensions, keys: Any, name: str) -> tuple[tuple[int, ...], list[tuple[Index, ...]]]:
    """Resolve `array[keys]`: its shape and, in C order, the index of each scalar.

    Keys index the symbolic dimensions in order. A node along "q" or "v" keeps the axis; a column or a frame removes it.
    Fixed dimensions are always kept.
    """
    keys = () if keys is Ellipsis else keys if isinstance(keys, tuple) else (keys,)
    if len(keys) == 1 and len(dimensions) == 1 and isinstance(dimensions[0], str):  # most of them
        first, length = keys[0].span(dimensions[0])
        if length is None:
            return (), [(first,)]
        base, offset = first
        return (length,), [((base, offset + i),) for i in range(length)]
    wanted = [d for d in dimensions if isinstance(d, str)]
    if len(keys) != len(wanted):
        refuse(f"`{name}` is indexed by {len(keys)} keys, but runs over {', '.join(wanted) or 'nothing'}")
    remaining = iter(keys)
    shape: list[int] = []
    axes: list[list[Index]] = []
    for dimension in dimensions:
        if isinstance(dimension, int):
            shape.append(dimension)
            axes.append([(0, i) for i in range(dimension)])
            continue
        (base, offset), length = next(remaining).span(dimension)
        if length is None:
            axes.append([(base, offset)])
        else:
            shape.append(length)
            axes.append([(base, offset + i) for i in range(length)])
    return tuple(shape), list(product(*axes))


def place(dimensions: tuple[str, ...], keys: Any) -> tuple[Index, ...]:
    """Resolve `array[keys]` of an array of the tree, which has one entry there."""
    keys = keys if isinstance(keys, tuple) else (keys,)
    if len(keys) != len(dimensions):
        refuse(f"`array` is indexed by {len(keys)} keys, but runs over {', '.join(dimensions)}")
    spans = [key.span(dimension) for key, dimension in zip(keys, dimensions, strict=True)]
    for _, length in spans:
        if length is not None and length != 1:
            refuse("an array of the tree is indexed by nodes and single columns")
    return tuple([index for index, _ in spans])
