"""The operators of [J11] for one robot at one configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from kinetree.compiler.formats import format_of
from kinetree.errors import InputError, UnknownNameError, UnsupportedError
from kinetree.language.mechanism import WORLD, Mechanism, Site
from kinetree.operators.algebra import Blocks, Expression, FrameRows, Operator, Space, product, total
from kinetree.operators.blocks import (
    block_on_path,
    diagonal_blocks,
    gathered,
    is_diagonal,
    scattered,
    shift_blocks,
    times_blocks,
    units,
)
from kinetree.operators.sweeps import FACTORED, Plan, algorithm_of
from kinetree.runtime.arguments import frame_names, refuse_lazy, require_shape
from kinetree.runtime.function import ENGINES, Function
from kinetree.spatial.value import Array


def _named(expression: Expression) -> cached_property[Operator]:
    """An attribute for an operator, made when it is first read."""
    return cached_property(lambda operators: Operator(operators, expression))


def _diagonal(name: str, rows: str, columns: str) -> Expression:
    return Expression("diagonal", name, rows, columns)


_I, _I_DOF = Expression("identity", "I", "m", "m"), Expression("identity", "I", "v", "v")
_H, _G = _diagonal("H", "v", "m"), _diagonal("G", "m", "v")
_M, _P, _R = (_diagonal(name, "m", "m") for name in ("M", "P", "R"))
_D, _D_INVERSE, _ARMATURE = (_diagonal(name, "v", "v") for name in ("D", "D⁻¹", "J"))
_E_A, _E_PSI = (Expression("shift", name, "m", "m") for name in ("E_A", "E_ψ"))
_A, _PSI = (Expression("resolvent", name, "m", "m") for name in ("A", "ψ"))
_K, _TAU = product(_E_A, _G), product(_G, _H)
_INNOVATIONS = total((1.0, _I_DOF), (1.0, product(_H, _A, _K)))
_INNOVATIONS_INVERSE = total((1.0, _I_DOF), (-1.0, product(_H, _PSI, _K)))
_MASS = product(_H, _A, _M, _A.T, _H.T)
_OMEGA = product(_PSI.T, _H.T, _D_INVERSE, _H, _PSI)


class Operators:
    """Spatial operators of a robot at a configuration. Created by `robot.operators(q)`.

    They act on the velocities or forces of all nodes, one after the other (six components for a rigid body), and on
    joint velocities or forces. Nodes are numbered base first.

    Attributes:
        I: Identity on nodes.
        I_dof: Identity on joints.
        E_A: Weights A(p, k), from each node to its parent. [J11] §2.3.
        A: (I − E_A)⁻¹; `A @ f` gathers forces, `A.T @ v` scatters velocities. Lemmas 1 and 2.
        E_psi: E_A τ̄. Lemma 8.
        psi: (I − E_ψ)⁻¹.
        H: Joint maps, joints × nodes: `H @ f` are joint forces, `H.T @ v` relative velocities.
        M: Inertias.
        R: Composite-body inertias. Lemma 4.
        P: Articulated-body inertias. Lemma 7.
        D: H P Hᵀ + armature.
        D_inverse: D⁻¹.
        G: P Hᵀ D⁻¹.
        K: E_A G; the paper's Eq. 37 prints E_ψ G, which is zero.
        tau: G H.
        tau_bar: I − G H.
        armature: Rotor inertias.
        innovations: I + H A K. Lemma 11.
        innovations_inverse: I − H ψ K.
        mass: H A M Aᵀ Hᵀ + armature, the mass matrix. Eq. 3.
        mass_inverse: (I − H ψ K)ᵀ D⁻¹ (I − H ψ K). Eq. 51.
        Omega: ψᵀ Hᵀ D⁻¹ H ψ, so that J M⁻¹ Jᵀ = Bᵀ Ω B for J = Bᵀ Aᵀ Hᵀ and B = `pick(frames)`. Eqs. 59, 60.
        batch: Shape of the batch of configurations, () for one.
    """

    I = _named(_I)
    I_dof = _named(_I_DOF)
    E_A = _named(_E_A)
    A = _named(_A)
    E_psi = _named(_E_PSI)
    psi = _named(_PSI)
    H = _named(_H)
    M = _named(_M)
    R = _named(_R)
    P = _named(_P)
    D = _named(_D)
    D_inverse = _named(_D_INVERSE)
    G = _named(_G)
    K = _named(_K)
    tau = _named(_TAU)
    tau_bar = _named(total((1.0, _I), (-1.0, _TAU)))
    armature = _named(_ARMATURE)
    innovations = _named(_INNOVATIONS)
    innovations_inverse = _named(_INNOVATIONS_INVERSE)
    mass_inverse = _named(product(_INNOVATIONS_INVERSE.T, _D_INVERSE, _INNOVATIONS_INVERSE))
    Omega = _named(_OMEGA)

    @cached_property
    def mass(self) -> Operator:
        return Operator(self, total((1.0, _MASS), (1.0, _ARMATURE)) if self._mechanism.has_rotors else _MASS)

    def __init__(
        self,
        robot: Any,
        q: Any,
        functions: MutableMapping[Any, Function[..., Array]],
        guard: Callable[[Mechanism], None],
        engine: str,
    ) -> None:
        """Use `robot.operators(q)` instead; `functions` keeps those compiled, `guard` rejects robots without M⁻¹."""
        refuse_lazy("operators: q", q)
        if engine not in ENGINES:
            raise UnknownNameError("engine", engine, ENGINES)
        #: Type of the entries of results.
        self.dtype: np.dtype[Any] = np.dtype(np.float64) if engine == "reference" else format_of(robot.mechanism).dtype
        self._engine = engine
        q = self._typed(np.asarray(q))
        require_shape("operators: q", q.shape, (robot.mechanism.nq,))
        self.batch: tuple[int, ...] = q.shape[:-1]
        q.flags.writeable = False
        self._robot, self._q, self._functions, self._guard = robot, q, functions, guard
        self._mechanism: Mechanism = robot.mechanism
        #: Internal: the shape of the tree.
        self.topology = self._mechanism.topology

    @property
    def key(self) -> object:
        """Internal: equal for the same robot at the same configuration."""
        return self._robot, self._q.shape, self._q.tobytes()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes, base first."""
        return self._mechanism.names

    @property
    def segments(self) -> tuple[tuple[int, ...], ...]:
        """The serial chains between branchings, numbers of nodes base first. [J11] §7."""
        segments: tuple[tuple[int, ...], ...] = self.topology.segments
        return segments

    # Operators that the user specifies

    def pick(self, frames: str | Iterable[str], reference: str = "local") -> Operator:
        """B, which takes wrenches at frames to forces of the nodes that carry them: J = Bᵀ Aᵀ Hᵀ. [J11] §6.2.

        `B.T @ ops.Omega @ B` is J M⁻¹ Jᵀ without a matrix: two sweeps over the tree a product, however many frames.

        Args:
            frames: One name or several, six rows each.
            reference: "local", "local_world_aligned" or "world", as for `jacobian`.
        """
        if reference not in ("local", "local_world_aligned", "world"):
            raise UnknownNameError("reference", reference, ("local", "local_world_aligned", "world"))
        names = (frames,) if isinstance(frames, str) else frame_names("pick", frames)
        for name in names:
            self._robot.site(name)
        return Operator(self, Expression("pick", "B", "m", FrameRows(tuple(names), reference)))

    def diagonal(self, blocks: Any, name: str = "X") -> Operator:
        """A block diagonal operator on nodes.

        Args:
            blocks: One square block for each node, (…, size, size); an array (…, nodes, size, size) if all have the
                same size; or an operator whose diagonal blocks are taken: diagOf of [J11].
            name: Its name in texts.
        """
        sizes = np.diff(self._mechanism.m_starts).tolist()
        if isinstance(blocks, Operator):
            self.I._require_same(blocks)
            each = diagonal_blocks(blocks, self._mechanism.m_starts)
        else:
            each = list(np.moveaxis(blocks, -3, 0) if isinstance(blocks, np.ndarray) else blocks)
        if len(each) != len(sizes):
            raise InputError(f"diagonal: {len(each)} blocks for {len(sizes)} nodes")
        found = []
        for node, size, block in zip(self.nodes, sizes, each, strict=True):
            numbers = self._typed(np.asarray(block))
            require_shape(f"diagonal: the block of node {node!r}", numbers.shape, (size, size))
            if numbers.shape[:-2] not in ((), self.batch):
                raise InputError(
                    f"diagonal: the block of node {node!r} has shape {numbers.shape} for batch {self.batch}"
                )
            numbers.flags.writeable = False
            found.append(numbers)
        return Operator(self, Expression("given", name, "m", "m", blocks=Blocks(tuple(found))))

    def lyapunov(
        self, X: Operator, A: Operator | None = None, B: Operator | None = None, *, backward: bool = False
    ) -> Operator:
        """The block diagonal solution Y of X = Y − E_A Y E_Bᵀ, by a gather. [J11] Lemma 3.

        With Y, A X Bᵀ = Y + Ã Y + Y B̃ᵀ. The composite-body inertias are `lyapunov(ops.M)`, the articulated ones
        `lyapunov(ops.M, ops.A, ops.psi)`. The solution of X = Y − diagOf(E_Aᵀ Y E_B) comes from a scatter (Lemma 5),
        and is the block diagonal of Aᵀ X B.

        Args:
            X: A block diagonal operator on nodes: `M`, `tau`, `diagonal(…)`, or a product of such.
            A: `A` or `psi`; `A` by default.
            B: The same; that of A by default.
            backward: Whether to solve the backward equation.
        """
        shifts = []
        for given in (A, A if B is None else B):
            if given is not None and (not isinstance(given, Operator) or given._expression not in (_A, _PSI)):
                raise InputError(f"lyapunov takes ops.A or ops.psi; got {given}")
            name = "A" if given is None else given._expression.name
            shifts.append(shift_blocks(self.E_A if name == "A" else self.E_psi, self._mechanism))
        starts = self._mechanism.m_starts
        known = isinstance(X, Operator) and is_diagonal(X._expression)
        if not known or (X._expression.rows, X._expression.columns) != ("m", "m"):
            raise InputError(f"lyapunov: {X} is not block diagonal over nodes; take its diagonal with ops.diagonal(X)")
        for given in (X, A, B):
            if given is not None:
                self.I._require_same(given)
        solve = scattered if backward else gathered
        return self.diagonal(solve(diagonal_blocks(X, starts), shifts[0], shifts[1], self._mechanism.parents), "Y")

    # What operators need

    def size(self, space: Space) -> int:
        """Dimension of a space: "m" of all nodes' velocities, "v" of joint velocities, or that of frames."""
        if isinstance(space, FrameRows):
            return 6 * len(space.frames)
        return self._mechanism.m_starts[-1] if space == "m" else self._mechanism.nv

    def starts(self, space: Space) -> Sequence[int]:
        """Internal: where the components of each node or frame begin in a space, and where the last ones end."""
        if isinstance(space, FrameRows):
            return range(0, self.size(space) + 1, 6)
        return self._mechanism.m_starts if space == "m" else self._mechanism.v_starts

    def chosen(self, space: Space, given: Any) -> list[int]:
        """Internal: the numbers of some nodes or frames of a space."""
        several = given if isinstance(given, (Sequence, range)) and not isinstance(given, str) else [given]
        names = space.frames if isinstance(space, FrameRows) else self.nodes
        found: list[int] = []
        for one in several:
            if isinstance(one, str):
                if one not in names:
                    raise UnknownNameError("frame" if isinstance(space, FrameRows) else "node", one, names)
                one = names.index(one)
            if not isinstance(one, (int, np.integer)) or not 0 <= one < len(names):
                raise InputError(f"blocks are numbered from 0 to {len(names) - 1}; got {one!r}")
            found.append(int(one))
        return found

    def places(self, space: Space, numbers: Sequence[int]) -> list[int]:
        """Internal: the components of some nodes or frames in a space."""
        starts = self.starts(space)
        return [place for one in numbers for place in range(starts[one], starts[one + 1])]

    # Blocks of Ω, [J11] Algorithm 4.3

    @cached_property
    def _upsilon(self) -> tuple[list[Any], list[Array]]:
        """E_ψ(p, k) and Υ(k), the diagonal blocks of Ω, of all nodes: Υ(k) = E_ψᵀ(p, k) Υ(p) E_ψ(p, k) + Hᵀ D⁻¹ H."""
        weights = shift_blocks(self.E_psi, self._mechanism)
        own = diagonal_blocks(self.H.T @ self.D_inverse @ self.H, self._mechanism.m_starts)
        return weights, scattered(own, weights, weights, self._mechanism.parents)

    def on_paths(self, expression: Expression, rows: Sequence[int], columns: Sequence[int]) -> Array | None:
        """Internal: some blocks of Ω or of what is built from it, along the paths between nodes; None of others."""
        if expression.kind == "sum":
            if not any(_around_omega(part) for part in expression.parts):
                return None
            terms = zip(expression.factors, expression.parts, strict=True)
            return _weighted([(factor, partial(Operator(self, part).block, rows)) for factor, part in terms], columns)
        around = _around_omega(expression)
        ends = expression.rows, expression.columns
        framed = any(isinstance(space, FrameRows) for space in ends)
        if around is None or (framed and self._mechanism.reaching is not None):
            return None
        weights, upsilon = self._upsilon
        known: dict[Any, Array | None] = {}
        left, right = (
            [self._outer(factor, space, one) for one in chosen]
            for factor, space, chosen in zip((around[0], around[1].T), ends, (rows, columns), strict=True)
        )
        lines = []
        for i, before in left:
            line = []
            for j, after in right:
                block = block_on_path(upsilon, weights, self._mechanism.parents, i, j, known)
                if block is None:  # on different trees
                    block = np.zeros((*self.batch, before.shape[-1], after.shape[-1]), upsilon[i].dtype)
                line.append(before @ block @ np.swapaxes(after, -1, -2))
            lines.append(np.concatenate(line, axis=-1))
        return np.concatenate(lines, axis=-2)

    def _outer(self, factor: Expression, space: Space, one: int) -> tuple[int, Array]:
        """The node that a block row of a block diagonal, or of Bᵀ, takes velocities of, and the block."""
        if factor not in self._outers:
            self._outers[factor] = Operator(self, factor) @ units(self._mechanism.m_starts)
        node = self.carriers(space)[one] if isinstance(space, FrameRows) else one
        starts, nodes = self.starts(space), self._mechanism.m_starts
        width = 0 if node == WORLD else nodes[node + 1] - nodes[node]
        return node, self._outers[factor][..., starts[one] : starts[one + 1], :width]

    @cached_property
    def _outers(self) -> dict[Expression, Array]:
        return {}

    def carriers(self, rows: FrameRows) -> tuple[int, ...]:
        """Internal: the nodes that carry frames."""
        return tuple(site.node for site in self._sites(rows))

    def _sites(self, rows: FrameRows) -> tuple[Site, ...]:
        return tuple(self._robot.site(name) for name in rows.frames)

    def sweeps(self, operator: Operator) -> int:
        """Number of sweeps over the tree that an operator needs."""
        taken, core, _ = _ends(operator._expression)
        if core is None:
            raise InputError(f"{operator} is computed in several parts: count the sweeps of each")
        return Plan(core, 1 if taken else 0).sweeps

    def function(self, expression: Expression) -> Function[..., Array]:
        """Internal: the function that computes y from q and x."""
        taken, core, given = _ends(expression)
        if core is None:
            raise RuntimeError(f"{expression.text} is not one function")
        references = tuple(rows.reference if rows is not None else "" for rows in (taken, given))
        key = core, *references, self._engine
        if key not in self._functions:
            guard = self._guard if core.names() & (FACTORED - {"R"}) else None
            made: Function[..., Array] = Function(
                expression.text, self._mechanism, algorithm_of(core, *references), guard=guard
            )
            self._functions.setdefault(key, made.engine(self._engine))
        return self._functions[key]

    def bound(self, expression: Expression, columns: bool = False) -> Callable[[Array], Array]:
        """Internal: a function that applies an operator to vectors, (…, columns) to (…, rows).

        With `columns`, the vectors have an axis more than the batch, their last but one.
        """
        if expression.kind == "identity":
            axes = (1, 1) if columns else (1,)
            return lambda x: self._typed(np.broadcast_to(x, np.broadcast_shapes(x.shape, (*self.batch, *axes))))
        if expression.kind == "given" or (expression.kind == "transpose" and expression.parts[0].kind == "given"):
            blocks: Any = expression.blocks or expression.parts[0].blocks
            transposed = expression.kind == "transpose"
            return partial(times_blocks, blocks, self._mechanism.m_starts, transposed=transposed, columns=columns)
        taken, core, given_rows = _ends(expression)
        q = self._q[..., None, :] if columns else self._q
        if core is not None:
            function, rows = self.function(expression), taken or given_rows
            if rows is None:
                return partial(function, q)
            return self._at_frames(expression, function, self._sites(rows), q)
        if expression.kind == "sum":
            terms = [(factor, self.bound(p, columns)) for factor, p in zip(expression.factors, expression.parts)]
            return lambda x: _weighted(terms, x)
        return _composed([self.bound(run, columns) for run in _runs(expression)])

    def _at_frames(
        self, expression: Expression, function: Function[..., Array], sites: tuple[Site, ...], q: Array
    ) -> Callable[[Array], Array]:
        taken, given = (isinstance(space, FrameRows) for space in (expression.columns, expression.rows))
        if self._mechanism.reaching is not None and not (taken and given):
            raise UnsupportedError(
                f"{expression.text}: the frames of {self._robot.name!r} are on more nodes than its operators have, "
                "because of loops or coupled joints; only products such as B.T @ Omega @ B can be computed"
            )
        count = len(sites)

        def apply(x: Array) -> Array:
            wide = x.reshape(*x.shape[:-1], count, 6) if taken else x
            y: Array = function._run(sites, function.algorithm, (q, wide), None)
            return y.reshape(*y.shape[:-2], 6 * count) if given else y

        return apply

    def _typed(self, x: Array) -> Array:
        """A copy in the type of the engine; complex and other scalars, which only the reference takes, stay."""
        wide = np.result_type(x, np.float64)
        return np.array(x, dtype=self.dtype if wide.kind == "f" and self._engine == "native" else wide)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._robot, self._q, self._engine)

    def __repr__(self) -> str:
        return f"<Operators of {self._robot.name!r}, {self.size('m')} node and {self.size('v')} joint velocities>"


def _ends(expression: Expression) -> tuple[FrameRows | None, Expression | None, FrameRows | None]:
    """What one function computes: the frames that B takes forces from, the core, the frames whose motion Bᵀ gives.

    The core is None if the expression takes several functions.
    """
    parts = list(expression.parts) if expression.kind == "product" else [expression]
    taken = parts[-1].columns if parts[-1].kind == "pick" else None
    if taken is not None:
        parts.pop()
    first = parts[0] if parts else None
    picked = first is not None and first.kind == "transpose" and first.parts[0].kind == "pick"
    given = parts.pop(0).rows if picked else None
    if any(_is_special(part) for part in parts) or (taken is not None and given is not None and taken != given):
        return None, None, None
    core = product(*parts) if parts else _I
    return taken, core, given  # type: ignore[return-value]


def _is_special(expression: Expression) -> bool:
    """Whether it contains blocks that were given, or frames."""
    return expression.kind in ("given", "pick") or any(map(_is_special, expression.parts))


def _around_omega(expression: Expression) -> tuple[Expression, Expression] | None:
    """The factors before and after Ω of a product, if they are block diagonal or those of frames."""
    parts, count = expression.parts, len(_OMEGA.parts)
    for i in range(len(parts) - count + 1 if expression.kind == "product" else 0):
        before, after = parts[:i], parts[i + count :]
        if parts[i : i + count] == _OMEGA.parts and _outermost(before) and _outermost(after[::-1]):
            return product(_I, *before), product(_I, *after)
    return None


def _outermost(parts: Sequence[Expression]) -> bool:
    """Whether factors are block diagonal, beside a first one of frames."""
    framed = bool(parts) and any(one.kind == "pick" for one in (parts[0], *parts[0].parts))
    return all(map(is_diagonal, parts[framed:]))


def _runs(expression: Expression) -> list[Expression]:
    """A product as few expressions that are one function each, or single factors; first to last."""
    runs: list[list[Expression]] = []
    for part in reversed(expression.parts):
        if runs and _ends(product(part, *runs[-1]))[1] is not None:
            runs[-1].insert(0, part)
        else:
            runs.append([part])
    return [product(*run) for run in runs]


def _composed(functions: list[Callable[[Array], Array]]) -> Callable[[Array], Array]:
    def apply(x: Array) -> Array:
        for function in functions:
            x = function(x)
        return x

    return apply


def _weighted(terms: list[tuple[float, Callable[[Any], Array]]], x: Any) -> Array:
    first, *rest = [factor * function(x) for factor, function in terms]
    for term in rest:
        first = first + term
    return first


def _again(robot: Any, q: Array, engine: str) -> Operators:
    """Unpickle."""
    operators: Operators = robot.operators(q, engine=engine)
    return operators
