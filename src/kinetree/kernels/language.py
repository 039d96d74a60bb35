"""The kernel language: loops over named sizes instead of loops over a tree, for dense algebra.

    @kernel(A=("m", "n"), x=("n",), y=("m",), outputs=("y",))
    def product(k, A, x, y):
        for i in k.m:                                   # a loop of the compiled code; one binary serves all sizes
            y[i] = k.sum(A[i, j] * x[j] for j in k.n)

    k.n                         0, 1, …, n − 1; reversed(k.n) begins with the last one, and so for all that follow
    k.n.since(i)                i, …, n − 1                 i may be an index, or a block for the indices
    k.n.after(i)                i + 1, …, n − 1             from its first on, after its last, before its first,
    k.n.before(i)               0, …, i − 1                 up to its last
    k.n.through(i)              0, …, i
    k.n.until(flag)             0, 1, …, until a `k.scalar` is 1: rounds of an iteration
    k.n.pairs()                 (0, 1), (1, 2), …, (n − 2, n − 1); k.n.pairs(through=i) ends with i
    k.n.blocks(4)               (0, 1, 2, 3), (4, 5, 6, 7), …, then what is left one by one: a body for each of both;
                                k.n.blocks(4, since=i) begins with the block of i
    range(3)                    a loop of Python: its rounds are written out
    k.array("m", "n")           memory, which is set before it is read; k.zeros starts at zero, k.copy as an argument
    k.name                      the groups of indices of a list, given when the kernel is compiled; k.name.before(group)
    j + t                       an index of a list, and as many further on as a loop inside has come
    k.scalar(0.0)               one number, read and set as s[...]
    k.sum(… for j in k.n)       a sum, first term first

Everything else is as in the tree language, since tracing, passes, back ends and the reference engine are the same:
values are immutable, nothing branches on a value, loops run to completion, and what passes from one round of a loop to
the next is in an array. A loop whose rounds store to places of their own index only, and that has no loop inside, runs
in lanes for single samples. So the innermost loop should run over the last axis of what it stores.

Texts that recursions need as well, on the rows of their tasks or on columns, take a `Size`: `task_rows`, `columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType, MappingProxyType
from typing import Any

from kinetree.errors import ContractError, InputError
from kinetree.kernels.index_loops import (
    BLOCKS,
    PREVIOUS,
    GroupList,
    ListedIndex,
    OuterIndex,
    group_list,
    inner_name,
    loops_over,
    plain_name,
)
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.language.contract import refuse
from kinetree.language.loops import Table
from kinetree.language.mechanism import Sizes
from kinetree.language.roles import GroupRole, Index
from kinetree.language.setup import Dimension
from kinetree.language.tree import Indexed, Tree

Dimension("one", lambda _: 1)


# What a text sees


class IndexBlock(tuple[Any, ...]):
    """Consecutive indices that a text treats together."""

    #: The index before them; the first one of the first block. Blocks of tasks have none.
    previous: Any = None
    #: The entry that they are, and its list.
    handle: Any = None
    of: Any = None


class _SubRange:
    """Some of the indices of a size, in either direction."""

    def __init__(self, tree: Tree, dimension: str, start: Index | None = None, stop: Index | None = None) -> None:
        self._tree, self._dimension, self._bounds = tree, dimension, (start, stop)

    def __iter__(self) -> Iterator[Any]:
        return self._tree.visit(loops_over(self._dimension).forwards, None, *self._bounds)

    def __reversed__(self) -> Iterator[Any]:
        return self._tree.visit(loops_over(self._dimension).backwards, None, *self._bounds)


class Size(_SubRange):
    """A size of a running kernel, or rows or columns of a running recursion."""

    def vector(self) -> Indexed:
        """Memory for a number of each index, to be set before it is read."""
        return self._tree.array(self._dimension)

    def matrix(self, columns: Size) -> Indexed:
        """Memory for a row of each index, over another size."""
        return self._tree.array(self._dimension, columns._dimension)

    def since(self, i: Any) -> _SubRange:
        """From an index on, or from the first one of a block."""
        return _SubRange(self._tree, self._dimension, self._at(_first(i)))

    def after(self, i: Any) -> _SubRange:
        """After an index, or after the last one of a block."""
        base, offset = self._at(_last(i))
        return _SubRange(self._tree, self._dimension, (base, offset + 1))

    def before(self, i: Any) -> _SubRange:
        """Before an index, or before the first one of a block."""
        return _SubRange(self._tree, self._dimension, None, self._at(_first(i)))

    def through(self, i: Any) -> _SubRange:
        """Up to an index, or up to the last one of a block."""
        base, offset = self._at(_last(i))
        return _SubRange(self._tree, self._dimension, None, (base, offset + 1))

    def until(self, flag: Scalar) -> Iterator[Any]:
        """All indices, but no more once a flag is 1: rounds must not change samples whose flag is 1.

        The flag is read before each round. Compiled code goes on until it is 1 in all lanes.
        """
        left = False
        for i in self:
            left = left or self._tree.leaves(flag[...][()])
            if not left:
                yield i

    def pairs(self, through: Any = None) -> Iterator[tuple[Any, Any]]:
        """Each index but the last with the next one; up to a given one."""
        stop = self.through(through)._bounds[1] if through is not None else None
        for j in _SubRange(self._tree, self._dimension, (0, 1), stop):
            base, offset = j.start(self._dimension)
            yield OuterIndex({self._dimension: (base, offset - 1)}), j

    def blocks(
        self, length: int, since: Any = None, through: Any = None, backwards: bool = False
    ) -> Iterator[IndexBlock]:
        """All indices, several at a time (one of `BLOCKS`), and those that are left one at a time.

        The first block is that of `since`, an index of a loop; the last that of `through`, an index of a list. Without
        either, blocks may be visited `backwards`.
        """
        if length not in BLOCKS:
            refuse(f"blocks have {', '.join(map(str, BLOCKS[:-1]))} or {BLOCKS[-1]} indices, not {length!r}")
        blocks, over = loops_over(self._dimension).blocks[length], None
        loop = blocks.backwards if backwards else blocks.all
        if since is not None:
            base, _ = self._at(since)
            if isinstance(since, OuterIndex):
                refuse("blocks begin with that of an index of a loop over the size, not of a block or a list")
            loop, over = blocks.since, getattr(base, "role", base)
        elif through is not None:
            if not isinstance(through, ListedIndex):
                refuse("blocks end with that of an index of a list")
            loop, over = through.of.through[length], through.handle
        return self._grouped(loop, over)

    def _grouped(self, loop: Table[GroupRole], over: Any) -> Iterator[IndexBlock]:
        tree, dimension = self._tree, self._dimension
        for group in tree.visit(loop, over, None):
            block = IndexBlock(OuterIndex(row.at) for row in group.rows)
            before = tree.number(loop.roles[0].entity, group.handle, PREVIOUS), 0
            block.previous = OuterIndex({dimension: before})
            yield block

    def _at(self, i: Any) -> Index:
        if not hasattr(i, "start"):
            refuse(f"{i!r} is no index over {plain_name(self._dimension)}; take one from a loop")
        found: Index = i.start(self._dimension)
        return found


class _TaskRows(Size):
    """The rows of all tasks of a recursion. Their blocks are the tasks, of up to six rows."""

    def blocks(self, *_: Any, **__: Any) -> Iterator[IndexBlock]:
        for task in self._tree.tasks():
            yield IndexBlock(task.rows)


def _first(i: Any) -> Any:
    return i[0] if isinstance(i, IndexBlock) else i


def _last(i: Any) -> Any:
    return i[-1] if isinstance(i, IndexBlock) else i


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


class _Entries:
    """The entries of a list."""

    def __init__(self, tree: Tree, of: GroupList) -> None:
        self._tree, self._of = tree, of

    def __iter__(self) -> Iterator[Any]:
        return self._visit(self._of.all)

    def __reversed__(self) -> Iterator[Any]:
        return self._visit(self._of.backwards)

    def before(self, entry: Any) -> Iterator[Any]:
        """All before one of them."""
        first = entry[0] if type(entry) is tuple else entry
        if getattr(first, "of", None) is not self._of:
            refuse("the entries of a list before one of them; take that from a loop over the same list")
        return self._visit(self._of.before, first.handle)

    def _visit(self, loop: Table[Any], over: Any = None) -> Iterator[Any]:
        for found in self._tree.visit(loop, over, None):
            groups = found if isinstance(found, tuple) else (found,)
            if self._of.through:
                yield ListedIndex(groups[0].rows[0].at, groups[0].handle, self._of)
                continue
            blocks = tuple(IndexBlock(OuterIndex(row.at) for row in group.rows) for group in groups)
            blocks[0].handle, blocks[0].of = groups[0].handle, self._of
            yield blocks if len(blocks) > 1 else blocks[0]


class Workspace:
    """What a text sees: sizes by name, and memory."""

    def __init__(self, tree: Tree, sizes: Mapping[str, Size], lists: Mapping[str, GroupList]) -> None:
        self._tree, self._sizes, self._lists = tree, sizes, lists

    def __getattr__(self, name: str) -> Any:
        return _Entries(self._tree, self._lists[name]) if name in self._lists else self.size(name)

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

_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Listing:
    """A list of indices of a kernel."""

    name: str
    #: Unique among lists.
    key: str
    #: Sizes, with the number of consecutive indices of each.
    over: tuple[tuple[str, int], ...]
    #: From the first size to the first indices; None if these are given when the kernel is compiled.
    chosen: Callable[[int], Sequence[Any]] | None

    def declare(self) -> GroupList:
        """The loops over it, made when first asked for."""
        return group_list(self.key, self.over)

    def starts(self, sizes: Mapping[str, int], given: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
        """The first index of each group, along each size.

        Raises:
            InputError: Some indices do not exist.
        """
        if self.chosen is not None:
            given = self.chosen(sizes[self.over[0][0]])
        rows = tuple(tuple(map(int, row)) if isinstance(row, Sequence) else (int(row),) for row in given)
        for row in rows:
            if len(row) != len(self.over) or any(
                not 0 <= start <= sizes[size] - length for start, (size, length) in zip(row, self.over, strict=True)
            ):
                told = ", ".join(f"{length} of {size}={sizes[size]}" for size, length in self.over)
                raise InputError(f"list {self.name!r} has the first index of {told} in each entry; got {row}")
        return rows


@dataclass(frozen=True, eq=False)
class Kernel(Algorithm):
    """A text in the kernel language, with its arguments."""

    #: Names of its sizes, in the order in which its arguments mention them.
    sizes_named: tuple[str, ...] = ()
    lists: tuple[Listing, ...] = ()

    def at(
        self, sizes: Mapping[str, int], scalar: str = "float64", lists: Mapping[str, Sequence[Any]] = _NONE
    ) -> Sizes:
        """What engines run it on: its sizes, a floating-point format, and the lists that do not follow from sizes."""
        found = {one.key: one.starts(sizes, lists.get(one.name, ())) for one in self.lists}
        return Sizes.made({inner_name(name): sizes[name] for name in self.sizes_named}, scalar, found)

    @cached_property
    def lists_given(self) -> tuple[str, ...]:
        """Names of the lists that are given when it is compiled."""
        return tuple(one.name for one in self.lists if one.chosen is None)


def kernel(
    *,
    outputs: tuple[str, ...],
    symmetric: tuple[str, ...] = (),
    sparse: tuple[str, ...] = (),
    lists: Mapping[str, Mapping[str, int]] = _NONE,
    chosen: Mapping[str, Callable[[int], Sequence[int]]] = _NONE,
    rounds: tuple[str, ...] = (),
    **axes: tuple[str | int, ...],
) -> Callable[[Any], Kernel]:
    """Declare the axes of a kernel's arguments.

    Args:
        outputs: Names of the arguments that are filled; they come last.
        symmetric: Outputs of which only the upper triangle is filled.
        sparse: Outputs whose entries are zero until they are set, so that they may be read, too.
        lists: Lists of indices, each with its sizes and the number of consecutive indices of each: `for i in k.name`.
        chosen: Functions from the size of a list to its indices; all other lists are given when it is compiled.
        rounds: Sizes that no axis has: how often loops are repeated.
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
        sizes = tuple(dict.fromkeys([*(d for name in names for d in axes[name] if isinstance(d, str)), *rounds]))

        key = f"{run.__module__}.{run.__qualname__}"
        own = tuple(
            Listing(name, f"{key}.{name} of {dict(over)}", tuple(over.items()), chosen.get(name))
            for name, over in lists.items()
        )
        for name in sizes:
            loops_over(inner_name(name))
        for one in own:
            one.declare()

        def text(tree: Tree, *arguments: Any) -> None:
            named = {name: Size(tree, inner_name(name)) for name in sizes}
            run(Workspace(tree, named, {one.name: one.declare() for one in own}), *arguments)

        text.__module__, text.__doc__ = run.__module__, run.__doc__
        inner: dict[str, Any] = {
            name: tuple(inner_name(d) if isinstance(d, str) else d for d in axes[name]) for name in names
        }
        made = algorithm(outputs=outputs, symmetric=symmetric, sparse=sparse, **inner)(run)
        return Kernel(run.__name__, text, made.inputs, made.outputs, sizes_named=sizes, lists=own)

    return declare


def _is_axis(dimension: Any) -> bool:
    return dimension.isidentifier() if isinstance(dimension, str) else type(dimension) is int and dimension > 0
