"""The kernel language: loops over named sizes instead of loops over a tree, for dense algebra.

    @kernel(A=("m", "n"), x=("n",), y=("m",), outputs=("y",))
    def product(k, A, x, y):
        for i in k.m:                                   # a loop of the compiled code; one binary serves all sizes
            y[i] = k.sum(A[i, j] * x[j] for j in k.n)

    k.n                         0, 1, …, n − 1; reversed(k.n) begins with the last one, and so for all that follow
    k.n.since(i)                i, …, n − 1                 i may be an index, or a block for the indices
    k.n.after(i)                i + 1, …, n − 1             from its first on, after its last, before its first
    k.n.before(i)               0, …, i − 1
    k.n.blocks(4)               (0, 1, 2, 3), (4, 5, 6, 7), …, then what is left one by one: a body for each of both
    range(3)                    a loop of Python: its rounds are written out
    k.array("m", "n")           memory, which is set before it is read; k.zeros starts at zero, k.copy as an argument
    k.scalar(0.0)               one number, read and set as s[...]
    k.sum(… for j in k.n)       a sum, first term first

Everything else is as in the tree language, since tracing, passes, back ends and the reference engine are the same:
values are immutable, nothing branches on a value, loops run to completion, and what passes from one round of a loop to
the next is in an array. A loop whose rounds store to places of their own index only, and that has no loop inside, runs
in lanes for single samples. So the innermost loop should run over the last axis of what it stores.

Texts that recursions need as well, on the rows of their tasks or on columns, take a `Size`: `task_rows`, `columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any

from kinetree.errors import ContractError
from kinetree.recursion.algorithm import Algorithm, algorithm
from kinetree.recursion.contract import refuse
from kinetree.recursion.entities import COLUMN, PLACE, Entity, Group, IndexEntity
from kinetree.recursion.loops import Range, Table
from kinetree.recursion.mechanism import Sizes
from kinetree.recursion.roles import GroupRole, Index, RowRole
from kinetree.recursion.setup import Dimension, Setup
from kinetree.recursion.tree import Indexed, Tree

#: Lengths that blocks may have.
BLOCKS = (2, 3, 4, 6, 8)

Dimension("one", lambda _: 1)


# Loops over a size, as data


class _Index(RowRole):
    """An index of a kernel."""

    def span(self, dimension: str) -> tuple[Index, int | None]:
        if dimension not in self.at:
            refuse(f"an axis over {_plain(dimension)} is indexed by an index over {' and '.join(map(_plain, self.at))}")
        return self.at[dimension], None

    def start(self, dimension: str) -> Index:
        return self.span(dimension)[0]


class Block(tuple[Any, ...]):
    """Consecutive indices that a text treats together."""

    __slots__ = ()


@dataclass(frozen=True)
class _Loops:
    """The loops over a dimension; blocks by their length."""

    forwards: Range[Any]
    backwards: Range[Any]
    blocks: Mapping[int, Table[GroupRole]]


#: Dimensions of trees that kernels may run over.
_OF_TREES = {"rows": PLACE, "v": COLUMN}


@cache
def _loops(dimension: str) -> _Loops:
    """The loops over a dimension, made when it is first named: code from the cache needs them before any trace."""
    index = _OF_TREES.get(dimension) or _index(dimension)
    return _Loops(
        Range(index, name=f"{dimension}:all"),
        Range(index, backwards=True, name=f"{dimension}:reversed"),
        {length: _blocks(index, length) for length in BLOCKS},
    )


def _index(dimension: str) -> IndexEntity:
    def size(setup: Setup) -> int:
        return Sizes.of(setup.mechanism)[dimension]

    Dimension(dimension, size)
    return IndexEntity(dimension, size, {"index": lambda _, i: i}, dimension=dimension, role=_Index)


def _blocks(index: IndexEntity, length: int) -> Table[GroupRole]:
    def whole(setup: Setup) -> int:
        return index.count(setup) // length

    def count(setup: Setup) -> int:
        return whole(setup) + index.count(setup) % length

    def start(setup: Setup, block: int) -> int:
        return length * min(block, whole(setup)) + max(block - whole(setup), 0)

    def size(setup: Setup, block: int) -> int:
        return length if block < whole(setup) else 1

    dimension = index.dimension
    entity = Entity(f"{dimension}:block", count, {dimension: start})
    group = Group("block", entity, {dimension: dimension}, size, lambda _: [length, 1])
    return Table(group, rows=lambda setup: [(i,) for i in range(count(setup))], name=f"{dimension}:blocks {length}")


def _inner(name: str) -> str:
    """The dimension of a named size; no tree has one of this name."""
    return f"size {name}"


def _plain(dimension: str) -> str:
    """A dimension, as its author calls it."""
    return dimension.removeprefix("size ")


# What a text sees


class _Part:
    """Some of the indices of a size, in either direction."""

    def __init__(self, tree: Tree, dimension: str, start: Index | None = None, stop: Index | None = None) -> None:
        self._tree, self._dimension, self._bounds = tree, dimension, (start, stop)

    def __iter__(self) -> Iterator[Any]:
        return self._tree.visit(_loops(self._dimension).forwards, None, *self._bounds)

    def __reversed__(self) -> Iterator[Any]:
        return self._tree.visit(_loops(self._dimension).backwards, None, *self._bounds)


class Size(_Part):
    """A size of a running kernel, or rows or columns of a running recursion."""

    def __init__(self, tree: Tree, dimension: str) -> None:
        super().__init__(tree, dimension)

    def vector(self) -> Indexed:
        """Memory for a number of each index, to be set before it is read."""
        return self._tree.array(self._dimension)

    def matrix(self, columns: Size) -> Indexed:
        """Memory for a row of each index, over another size."""
        return self._tree.array(self._dimension, columns._dimension)

    def since(self, i: Any) -> _Part:
        """From an index on, or from the first one of a block."""
        return _Part(self._tree, self._dimension, self._at(_first(i)))

    def after(self, i: Any) -> _Part:
        """After an index, or after the last one of a block."""
        base, offset = self._at(_last(i))
        return _Part(self._tree, self._dimension, (base, offset + 1))

    def before(self, i: Any) -> _Part:
        """Before an index, or before the first one of a block."""
        return _Part(self._tree, self._dimension, None, self._at(_first(i)))

    def blocks(self, length: int) -> Iterator[Block]:
        """All indices, several at a time, and those that are left one at a time."""
        if length not in BLOCKS:
            refuse(f"blocks have {', '.join(map(str, BLOCKS[:-1]))} or {BLOCKS[-1]} indices, not {length!r}")
        return self._grouped(_loops(self._dimension).blocks[length])

    def _grouped(self, loop: Table[Any]) -> Iterator[Block]:
        for group in loop(self._tree):
            yield Block(group.rows if self._dimension in _OF_TREES else [_Index(row.at) for row in group.rows])

    def _at(self, i: Any) -> Index:
        if not hasattr(i, "start"):
            refuse(f"{i!r} is no index over {_plain(self._dimension)}; take one from a loop")
        found: Index = i.start(self._dimension)
        return found


class _TaskRows(Size):
    """The rows of all tasks of a recursion. Their blocks are the tasks, of up to six rows."""

    def blocks(self, length: int) -> Iterator[Block]:  # noqa: ARG002 - a task has as many rows as it has
        for task, _, _ in self._tree.tasks():
            yield Block(task.rows)


def _first(i: Any) -> Any:
    return i[0] if isinstance(i, Block) else i


def _last(i: Any) -> Any:
    return i[-1] if isinstance(i, Block) else i


class _One:
    """The index of a single number."""

    def span(self, _: str) -> tuple[Index, None]:
        return (0, 0), None


class Scalar:
    """One number in memory, read and set as `s[...]`."""

    def __init__(self, memory: Indexed) -> None:
        self._memory = memory

    def __getitem__(self, _: Any) -> Any:
        return self._memory[_ONE]

    def __setitem__(self, _: Any, value: Any) -> None:
        self._memory[_ONE] = value


_ONE = _One()


class Workspace:
    """What a text sees: sizes by name, and memory."""

    def __init__(self, tree: Tree, sizes: Mapping[str, Size]) -> None:
        self._tree, self._sizes = tree, sizes

    def __getattr__(self, name: str) -> Size:
        return self.size(name)

    def size(self, name: str) -> Size:
        """A size, by name."""
        found = self._sizes.get(name)
        if found is None:
            refuse(f"there is no size {name!r}; the kernel's sizes are {', '.join(self._sizes) or 'none'}")
        return found

    def array(self, *names: str) -> Indexed:
        """A vector or matrix over sizes. Its entries are set before they are read."""
        if len(names) not in (1, 2):
            refuse(f"an array has one or two sizes, got {len(names)}; k.scalar() is one number")
        rows, *columns = (self.size(name) for name in names)
        return rows.matrix(*columns) if columns else rows.vector()

    def scalar(self, value: Any = None) -> Scalar:
        """One number."""
        made = Scalar(self._tree.array("one"))
        if value is not None:
            made[...] = value
        return made

    def zeros(self, *names: str) -> Indexed:
        """A vector or matrix that starts at zero."""
        return self._filled(names, lambda *_: 0.0)

    def copy(self, given: Indexed, *names: str) -> Indexed:
        """A vector or matrix that starts as a given one."""
        return self._filled(names, lambda *at: given[at if len(at) > 1 else at[0]])

    def sum(self, terms: Iterable[Any]) -> Any:
        """The sum of what a loop gives, first term first."""
        total = self.scalar(0.0)
        for term in terms:
            total[...] = total[...] + term
        return total[...]

    def _filled(self, names: tuple[str, ...], entry: Callable[..., Any]) -> Indexed:
        made = self.array(*names)
        for i in self.size(names[0]):
            if len(names) == 1:
                made[i] = entry(i)
                continue
            for j in self.size(names[1]):
                made[i, j] = entry(i, j)
        return made


def task_rows(tree: Tree) -> Size:
    """The rows of a recursion's tasks. Their blocks are the tasks."""
    return _TaskRows(tree, "rows")


def columns(tree: Tree) -> Size:
    """The degrees of freedom of a recursion's tree."""
    return Size(tree, "v")


# Declaration


@dataclass(frozen=True, eq=False)
class Kernel(Algorithm):
    """A text in the kernel language, with its arguments."""

    #: Names of its sizes, in the order in which its arguments mention them.
    sizes_named: tuple[str, ...] = ()

    def at(self, sizes: Mapping[str, int], scalar: str = "float64") -> Sizes:
        """What engines run it on.

        Args:
            sizes: A number for each named size.
            scalar: The floating-point format.
        """
        for name in self.sizes_named:
            _loops(_inner(name))
        return Sizes.made({_inner(name): sizes[name] for name in self.sizes_named}, scalar)


def kernel(
    *,
    outputs: tuple[str, ...],
    symmetric: tuple[str, ...] = (),
    sparse: tuple[str, ...] = (),
    **axes: tuple[str | int, ...],
) -> Callable[[Any], Kernel]:
    """Declare the axes of a kernel's arguments.

    Args:
        outputs: Names of the arguments that are filled; they come last.
        symmetric: Outputs of which only the upper triangle is filled.
        sparse: Outputs whose entries are zero until they are set, so that they may be read, too.
        **axes: For each argument after `k`, the name of the size that each axis runs over, or a number.

    Raises:
        ContractError: The declaration does not fit the function; the message has its file and line.
    """

    def declare(run: FunctionType) -> Kernel:
        code = run.__code__
        where, names = f"{code.co_filename}:{code.co_firstlineno}", code.co_varnames[1 : code.co_argcount]
        for name, dimensions in axes.items():
            wrong = [d for d in dimensions if not _is_axis(d)] if isinstance(dimensions, tuple) else [dimensions]
            if wrong:
                raise ContractError(f"{where}: axes of `{name}` are a tuple of names and numbers, got {wrong[0]!r}")
        unknown = [name for name in (*symmetric, *sparse) if name not in outputs]
        if set(names) != set(axes) or names[len(names) - len(outputs) :] != outputs or unknown:
            raise ContractError(
                f"{where}: {run.__name__}({', '.join(code.co_varnames[: code.co_argcount])}) is declared with "
                f"({', '.join(axes)}) and outputs ({', '.join((*outputs, *unknown))}). Declare each argument after the "
                "first, and outputs in the order in which they come last"
            )
        if not 0 < len(outputs) < len(names):
            raise ContractError(f"{where}: {run.__name__} has {len(outputs)} outputs; a kernel has inputs and outputs")
        sizes = tuple(dict.fromkeys(d for name in names for d in axes[name] if isinstance(d, str)))

        def text(tree: Tree, *arguments: Any) -> None:
            run(Workspace(tree, {name: Size(tree, _inner(name)) for name in sizes}), *arguments)

        text.__module__, text.__doc__ = run.__module__, run.__doc__
        inner: dict[str, Any] = {
            name: tuple(_inner(d) if isinstance(d, str) else d for d in axes[name]) for name in names
        }
        made = algorithm(outputs=outputs, symmetric=symmetric, sparse=sparse, any_node=True, **inner)(run)
        return Kernel(run.__name__, text, made.inputs, made.outputs, any_node=True, sizes_named=sizes)

    return declare


def _is_axis(dimension: Any) -> bool:
    return dimension.isidentifier() if isinstance(dimension, str) else type(dimension) is int and dimension > 0
