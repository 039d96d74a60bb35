"""Operator expressions: products, sums and transposes, kept symbolic until they are applied to a vector.

An expression has a canonical string that describes exactly what it computes. Equal strings mean the same computation,
so common subexpressions run once, and the string identifies compiled code. Its sparsity follows from the shape of the
tree alone ([J11] §7).

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError
from kinetree.language.mechanism import WORLD, Topology
from kinetree.runtime.arguments import refuse_lazy
from kinetree.spatial.value import Array


class FrameRows(NamedTuple):
    """The space of the motions of some frames, six components each."""

    frames: tuple[str, ...]
    reference: str


#: "m" (velocities or forces of nodes), "v" (of joints), or those of frames.
Space = str | FrameRows


def _called(space: Space) -> str:
    """A space in messages."""
    return f"motions of {', '.join(space.frames)}" if isinstance(space, FrameRows) else _SPACES[space]


_SPACES = {"m": "node velocities", "v": "joint velocities"}


@dataclass(frozen=True, eq=False)
class Blocks:
    """Square blocks of a diagonal, one for each node, (…, size, size); equal only to itself."""

    each: tuple[Array, ...]


@dataclass(frozen=True)
class Expression:
    """What an operator computes, independent of the robot."""

    #: "identity"; "diagonal", "shift" or "resolvent" of a quantity; "pick" of frames; "given" blocks of a diagonal; or
    #: "transpose", "product", "sum".
    kind: str
    name: str  # of the quantity
    rows: Space  # of the result
    columns: Space  # of the argument
    parts: tuple[Expression, ...] = ()
    factors: tuple[float, ...] = ()  # of the terms of a sum
    blocks: Blocks | None = None  # of a diagonal that was given

    @property
    def text(self) -> str:
        """The canonical string, in symbols."""
        if self.kind == "product":
            return " ".join(part.text for part in self.parts)
        if self.kind == "sum":
            terms = [f"{factor!r} {part.text}" for factor, part in zip(self.factors, self.parts, strict=True)]
            return f"({' + '.join(terms)})"
        return f"{self.parts[0].text}ᵀ" if self.kind == "transpose" else self.name

    @property
    def T(self) -> Expression:
        """The transpose, pushed down to the named quantities."""
        if self.kind == "product":
            return product(*(part.T for part in reversed(self.parts)))
        if self.kind == "sum":
            return Expression("sum", "", self.columns, self.rows, tuple(p.T for p in self.parts), self.factors)
        if self.kind == "transpose":
            return self.parts[0]
        return self if self.kind == "identity" else Expression("transpose", "", self.columns, self.rows, (self,))

    @cached_property
    def _hash(self) -> int:
        return hash((self.kind, self.name, self.rows, self.columns, self.parts, self.factors, self.blocks))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        # without the hash, which is another one in other processes
        return Expression, (self.kind, self.name, self.rows, self.columns, self.parts, self.factors, self.blocks)

    def names(self) -> set[str]:
        """Names of its quantities."""
        return {self.name} if self.name else set().union(*(part.names() for part in self.parts))


def product(*parts: Expression) -> Expression:
    """Product of operators; the last one is applied first."""
    flat = [one for part in parts for one in (part.parts if part.kind == "product" else (part,))]
    kept = [one for one in flat if one.kind != "identity"] or flat[:1]
    return kept[0] if len(kept) == 1 else Expression("product", "", kept[0].rows, kept[-1].columns, tuple(kept))


def total(*terms: tuple[float, Expression]) -> Expression:
    """Sum of operators between the same spaces, each times a factor."""
    factors, parts = zip(*terms, strict=True)
    return Expression("sum", "", parts[0].rows, parts[0].columns, parts, factors)


class Operator:
    """A spatial operator of one robot at one configuration: a matrix that is never formed.

    Operators combine with `@`, `+`, `-` and numbers; `.T` is the transpose. Nothing is computed until an operator is
    applied to an array: `operator @ x` with x of shape (columns,) or (columns, k). Then the whole expression runs in as
    few sweeps over the tree as possible, compiled to native code. SciPy accepts operators as a `LinearOperator`.
    """

    #: Makes NumPy arrays defer products with operators to the operators.
    __array_ufunc__ = None

    __slots__ = ("_call", "_expression", "_owner", "_taken")

    def __init__(self, owner: Any, expression: Expression) -> None:  # of `Operators`
        self._owner, self._expression = owner, expression
        # what multiplies arrays, and the shape of a vector that it takes as it is: set when first needed
        self._call: Callable[[Array], Array] | None = None
        self._taken: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._owner.size(self._expression.rows), self._owner.size(self._expression.columns)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries."""
        dtype: np.dtype[Any] = self._owner.dtype
        return dtype

    @property
    def T(self) -> Operator:
        """The transpose."""
        return Operator(self._owner, self._expression.T)

    def __matmul__(self, other: Any) -> Any:
        if self._call is not None and type(other) is np.ndarray and other.shape == self._taken:
            return self._call(other)
        if isinstance(other, Operator):
            self._require_same(other)
            if other._expression.rows != self._expression.columns:
                raise InputError(
                    f"{self} takes {_called(self._expression.columns)}, but {other} gives "
                    f"{_called(other._expression.rows)}"
                )
            return Operator(self._owner, product(self._expression, other._expression))
        batch = self._owner.batch
        x = self._array(other, -2 if batch else 0)
        if self._call is None:
            self._call, self._taken = self._owner.bound(self._expression), (self.shape[1],)
        if x.ndim == 1:
            return self._call(x)
        if batch:  # as of matrices in NumPy
            applied = self._owner.bound(self._expression, columns=True)
            return np.swapaxes(applied(np.ascontiguousarray(np.swapaxes(x, -1, -2))), -1, -2)
        return np.moveaxis(self._call(np.ascontiguousarray(np.moveaxis(x, 0, -1))), -1, 0)

    def apply(self, x: Any) -> Array:
        """The operator times vectors in the last axis, (…, columns) to (…, rows); batch axes broadcast."""
        applied: Array = self._owner.bound(self._expression)(self._array(x, -1))
        return applied

    def _array(self, given: Any, axis: int) -> Array:
        """A factor, whose axis has the length of the operator's columns unless it is a vector."""
        refuse_lazy("the array that an operator multiplies", given)
        x = np.asarray(given)
        if x.dtype.kind not in "iufc" or x.ndim == 0 or x.shape[0 if x.ndim == 1 else axis] != self.shape[1]:
            raise InputError(
                f"{self} is {self.shape[0]}×{self.shape[1]} and cannot multiply an array of shape {x.shape}"
            )
        return x

    def __mul__(self, factor: Any) -> Operator:
        return self._sum((factor, self))

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Operator:
        return self._sum((1.0, self), (1.0, other))

    def __sub__(self, other: Any) -> Operator:
        return self._sum((1.0, self), (-1.0, other))

    def __neg__(self) -> Operator:
        return self._sum((-1.0, self))

    def _sum(self, *terms: tuple[Any, Any]) -> Operator:
        rows, columns = self._expression.rows, self._expression.columns
        for factor, other in terms:
            if isinstance(factor, bool) or not isinstance(factor, (int, float, np.integer, np.floating)):
                raise InputError(f"operators are multiplied by numbers and added to operators; got {factor!r}")
            if not isinstance(other, Operator):
                raise InputError(f"operators are added to operators only; got {type(other).__name__}")
            self._require_same(other)
            if (other._expression.rows, other._expression.columns) != (rows, columns):
                raise InputError(f"{self} and {other} act between different spaces and cannot be added")
        return Operator(self._owner, total(*((float(factor), other._expression) for factor, other in terms)))

    def _require_same(self, other: Operator) -> None:
        if self._owner is not other._owner and self._owner.key != other._owner.key:
            raise InputError(
                f"{self} and {other} belong to different robots or configurations, and cannot be combined: take both "
                "from one robot.operators(q)"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return Operator, (self._owner, self._expression)

    # Inspecting the matrix

    def dense(self) -> Array:
        """The matrix, (…, rows, columns)."""
        dense: Array = self @ np.eye(self.shape[1])
        return dense

    def block(self, rows: Any, columns: Any) -> Array:
        """Some blocks of the matrix, without forming the others, (…, r, c).

        Those of Ω, of its products with block diagonals and with B, and of sums with it follow from the diagonal blocks
        Υ(k), which one scatter gives for all nodes when first needed: one product for each node on the path between the
        two ([J11] Algorithm 4.3). Other operators are applied to unit vectors: their sweeps for each column.

        Args:
            rows: A node, or several: a number or a name of `Operators.nodes`, or a sequence of them such as one of
                `Operators.segments`. Of a space of frames, a frame or several.
            columns: The same for the columns.
        """
        owner, expression = self._owner, self._expression
        at, across = owner.chosen(expression.rows, rows), owner.chosen(expression.columns, columns)
        found: Array | None = owner.on_paths(expression, at, across)
        return self.swept_block(at, across) if found is None else found

    def swept_block(self, rows: Any, columns: Any) -> Array:
        """Internal: a block by sweeps for each column, which is less if it is the only one of a configuration."""
        owner, expression = self._owner, self._expression
        at, across = (
            owner.places(space, owner.chosen(space, given))
            for space, given in ((expression.rows, rows), (expression.columns, columns))
        )
        found: Array = (self @ np.eye(self.shape[1])[:, across])[..., at, :]
        return found

    def pattern(self) -> Array:
        """The structurally nonzero blocks of the matrix, from the tree alone, (nodes, nodes); base first."""
        return pattern(self._expression, self._owner.topology, self._owner.carriers)

    def picture(self) -> str:
        """The pattern in characters, tips first as in [J11] §7, with gaps between the segments of the tree."""
        return "\n".join(_lines(*self._drawn()))

    def svg(self, cell: float = 12.0) -> str:
        """The pattern as a figure in SVG, drawn like Figs. 3 to 6 of [J11]: tips first, lines between segments.

        Args:
            cell: Side of one block [px].
        """
        return _svg(*self._drawn(), cell)

    def _drawn(self) -> tuple[Array, set[int], set[int]]:
        """The pattern, tips first, and where segments start among its rows and columns."""
        topology, expression = self._owner.topology, self._expression
        # depth-first numbering keeps each segment together
        segments = [len(segment) for segment in sorted(topology.segments)][::-1]
        starts = {sum(segments[:i]) for i in range(1, len(segments))}
        rows, columns = (set() if isinstance(s, FrameRows) else starts for s in (expression.rows, expression.columns))
        return self.pattern()[::-1, ::-1], rows, columns

    # The interface of scipy.sparse.linalg

    def matvec(self, x: Any) -> Array:
        """The operator times a vector or a matrix, (columns,) or (columns, k)."""
        result: Array = self @ x
        return result

    def rmatvec(self, x: Any) -> Array:
        """The transpose times a vector or a matrix."""
        return self.T.matvec(x)

    matmat, rmatmat = matvec, rmatvec

    def __str__(self) -> str:
        return self._expression.text

    def __repr__(self) -> str:
        return f"<Operator {self._expression.text}, {self.shape[0]}×{self.shape[1]}>"


def pattern(
    expression: Expression, topology: Topology, carriers: Callable[[FrameRows], tuple[int, ...]] = lambda _: ()
) -> Array:
    """The structurally nonzero blocks, (nodes, nodes); base first; `carriers` gives the nodes of frames."""
    if expression.kind == "product":
        factors = [pattern(part, topology, carriers) for part in expression.parts]
        found: Array = reduce(np.matmul, factors)
        return found
    if expression.kind == "sum":
        return np.asarray(np.any([pattern(part, topology, carriers) for part in expression.parts], axis=0))
    if expression.kind == "transpose":
        return np.transpose(pattern(expression.parts[0], topology, carriers))
    if isinstance(expression.columns, FrameRows):
        nodes = carriers(expression.columns)
        return np.array([[node == k for node in nodes] for k in range(len(topology))]).reshape(len(topology), -1)
    blocks = np.zeros((len(topology), len(topology)), dtype=bool)
    for k, parent in enumerate(topology.parents):
        for node in {"shift": [parent], "resolvent": topology.support(k)}.get(expression.kind, [k]):
            if node != WORLD:
                blocks[node, k] = True
    return blocks


def _lines(blocks: Array, rows: set[int], columns: set[int]) -> list[str]:
    """A pattern in characters, with gaps before some rows and columns."""
    lines: list[str] = []
    for i, row in enumerate(blocks):
        cells = ["#" if here else "·" for here in row]
        line = "".join((" " if j in columns else "") + cell for j, cell in enumerate(cells))
        lines += [*([""] if i in rows else []), line]
    return lines


def _svg(blocks: Array, rows: set[int], columns: set[int], cell: float) -> str:
    """A pattern as a drawing, with lines before some rows and columns."""
    height, width = (cell * count for count in blocks.shape)
    marks = [
        f'<rect x="{j * cell:g}" y="{i * cell:g}" width="{cell:g}" height="{cell:g}"/>' for i, j in np.argwhere(blocks)
    ]
    lines = [f'<path d="M0 {i * cell:g}H{width:g}"/>' for i in sorted(rows)]
    lines += [f'<path d="M{j * cell:g} 0V{height:g}"/>' for j in sorted(columns)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 -1 {width + 2:g} {height + 2:g}">',
            f'<rect width="{width:g}" height="{height:g}" fill="white" stroke="#444"/>',
            f'<g fill="#4878a8" stroke="white">{"".join(marks)}</g>',
            f'<g stroke="#444" stroke-width="1.5">{"".join(lines)}</g>',
            "</svg>",
        ]
    )
