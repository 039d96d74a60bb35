"""Spatial kernel operator (SKO) models from their definition: `kt.sko`.

[J11] needs a tree, weights A(p, k), joint maps H(k) and inertias M(k), nothing else. Nodes may have any size, each its
own, and weights need be neither square nor invertible. So the recursions also solve optimal control and estimation over
a tree of stages, and flows in networks.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from kinetree.algorithms.dynamics.mass_matrix import (
    mass_matrix,
    mass_matrix_inverse,
    mass_matrix_log_determinant,
    mass_matrix_solve,
)
from kinetree.algorithms.dynamics.sko import sko_accelerations, sko_forward_dynamics, sko_inverse_dynamics
from kinetree.compiler.programs import Traced
from kinetree.errors import InputError, ModelError, SingularMechanismError, UnknownNameError
from kinetree.language.algorithm import Algorithm
from kinetree.language.mechanism import WORLD, Mechanism, Site
from kinetree.language.node import Unconstrained
from kinetree.model.joints.protocol import PlainCoordinates
from kinetree.model.nodes.formulas import digest
from kinetree.model.singularity import require_invertible
from kinetree.operators.collection import Operators
from kinetree.runtime.function import Function
from kinetree.spatial.dense import DenseInertia, DenseMap, DenseWeight, RootWeight
from kinetree.spatial.value import Array

#: A constant matrix, or a function of the node's own coordinates.
Formula = ArrayLike | Callable[[Array], Any]


@dataclass(frozen=True, eq=False)
class SKOKind(Traced, Unconstrained):
    """All nodes of one size with the same formulas; a `language.node.NodeKind`.

    A node's constants are its armature, then those of its matrices W, H and M that are no functions.
    """

    dimension: int
    parent_dimension: int  # zero below the world
    nv: int
    nq: int
    formulas: tuple[Callable[[Array], Any] | None, ...]  # of W, H and M
    name: str = field(init=False)

    moving: ClassVar[bool] = True
    rigid: ClassVar[bool] = False

    def __post_init__(self) -> None:
        def traced(q: Array) -> dict[str, Any]:
            return {
                what: (lambda f=f: f(q), shape)
                for what, f, shape in zip(_MATRICES, self.formulas, self.shapes, strict=True)
                if f is not None
            }

        known = digest("sko", (self.nq,), traced) if any(self.formulas) else "constant"
        sizes = self.dimension, self.parent_dimension, self.nv, self.nq, *("01"[f is None] for f in self.formulas)
        object.__setattr__(self, "name", "_".join(["sko", *map(str, sizes), known]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SKOKind) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        m = self.dimension
        return (m, self.parent_dimension), (m, self.nv), (m, m)

    @property
    def port(self) -> str:
        return f"dense_{self.dimension}"

    @property
    def parameter_count(self) -> int:
        return self.nv + sum(r * c for (r, c), f in zip(self.shapes, self.formulas, strict=True) if f is None)

    def manifold(self, _parameters: Array) -> PlainCoordinates:
        return PlainCoordinates()

    def _matrix(self, which: int, parameters: Array, q: Array | None) -> Array:
        formula = self.formulas[which]
        if formula is not None:
            return np.asarray(formula(np.zeros(0) if q is None else q))
        sizes = [r * c * (f is None) for (r, c), f in zip(self.shapes, self.formulas, strict=True)]
        start = self.nv + sum(sizes[:which])
        return parameters[start : start + sizes[which]].reshape(self.shapes[which])

    def weight(self, parameters: Array, q: Array) -> DenseWeight:
        if not self.parent_dimension:
            rooted: DenseWeight = RootWeight.of(np.zeros((self.dimension, 6)))
            return rooted
        weight: DenseWeight = DenseWeight.of(self._matrix(0, parameters, q))
        return weight

    def joint_map(self, parameters: Array, q: Array | None = None) -> DenseMap:
        H: DenseMap = DenseMap.of(self._matrix(1, parameters, q))
        return H

    def inertia(self, parameters: Array, q: Array | None = None) -> DenseInertia:
        return DenseInertia.of(self._matrix(2, parameters, q))

    def armature(self, parameters: Array) -> Array:
        return parameters[: self.nv]

    def coriolis(self, _c: Array, _q: Any, _v: Array, velocity: Array, _carrier: Any) -> Array:
        return np.zeros(len(velocity))

    def gyroscopic(self, _c: Array, _q: Any, _v: Array, velocity: Array) -> Array:
        return np.zeros(len(velocity))


_MATRICES = ("weight", "joint map", "inertia")


class SKO:
    """A model of [J11]: α = Aᵀ(Hᵀ x + a), f = A(M α + b), τ = H f + armature · x. Created by `kt.sko`.

    All functions take leading batch axes, which broadcast, and are compiled. `q` is needed where matrices are functions
    of it. Vectors of all nodes, (…, m), have one block after the other.

    Attributes:
        nq: Number of coordinates.
        nv: Number of joint accelerations x.
        m: Number of components of all nodes.
        nodes: Names of the nodes.
    """

    def __init__(self, mechanism: Mechanism, name: str) -> None:
        """Use `kt.sko` instead."""
        self.mechanism, self.name = mechanism, name
        self.nq, self.nv, self.m, self.nodes = mechanism.nq, mechanism.nv, mechanism.m_starts[-1], mechanism.names
        self._functions: dict[str, Function[..., Array]] = {}

    def _call(self, algorithm: Algorithm, q: Any, *arrays: Any, out: Any = None, solves: bool = False) -> Array:
        name = algorithm.name
        if name not in self._functions:
            guard = require_invertible if solves else None
            self._functions[name] = Function(name.removeprefix("sko_"), self.mechanism, algorithm, guard=guard)
        found = self._functions[name](self._configuration(q), *arrays, out=out)
        # of D that is singular at this q, and of nothing else
        if solves and self.nq and not np.isfinite(found).all() and all(np.isfinite(x).all() for x in (q, *arrays)):
            raise SingularMechanismError(
                f"{name.removeprefix('sko_')}: at this q, or one of a batch, no inertia of {self.name!r} resists some "
                "joint, so D is singular. Give the node an inertia or an armature"
            )
        return found

    def _configuration(self, q: Any) -> Any:
        if q is None and self.nq:
            raise InputError(f"matrices of {self.name!r} are functions of q: pass q=…, (…, {self.nq})")
        return np.zeros(0) if q is None else q

    def _vector(self, given: Any) -> Any:
        return np.zeros(self.m) if given is None else given

    def accelerations(
        self, x: ArrayLike, *, q: ArrayLike | None = None, a: ArrayLike | None = None, out: Array | None = None
    ) -> Array:
        """α of all nodes, (…, m).

        Args:
            x: Joint accelerations, (…, nv).
            q: Coordinates, (…, nq).
            a: Coriolis vector, (…, m).
            out: Array for the result.
        """
        return self._call(sko_accelerations, q, x, self._vector(a), out=out)

    def inverse_dynamics(
        self,
        x: ArrayLike,
        *,
        q: ArrayLike | None = None,
        a: ArrayLike | None = None,
        b: ArrayLike | None = None,
        out: Array | None = None,
    ) -> Array:
        """Joint forces τ, (…, nv), by a scatter and a gather. [J11] Algorithm 3.1.

        Args:
            x: Joint accelerations, (…, nv).
            q: Coordinates, (…, nq).
            a: Coriolis vector, (…, m).
            b: Gyroscopic vector, (…, m).
            out: Array for the result.
        """
        return self._call(sko_inverse_dynamics, q, x, self._vector(a), self._vector(b), out=out)

    def forward_dynamics(
        self,
        tau: ArrayLike,
        *,
        q: ArrayLike | None = None,
        a: ArrayLike | None = None,
        b: ArrayLike | None = None,
        out: Array | None = None,
    ) -> Array:
        """Joint accelerations x under joint forces τ, (…, nv), in O(n). [J11] Algorithm 6.1.

        They minimise ½ αᵀMα + bᵀα + ½ xᵀ armature x − τᵀx for α = Aᵀ(Hᵀ x + a).

        Args:
            tau: Joint forces, (…, nv).
            q: Coordinates, (…, nq).
            a: Coriolis vector, (…, m).
            b: Gyroscopic vector, (…, m).
            out: Array for the result.

        Raises:
            SingularMechanismError: If no inertia resists a joint; names the node.
        """
        return self._call(sko_forward_dynamics, q, tau, self._vector(a), self._vector(b), out=out, solves=True)

    def mass_matrix(self, q: ArrayLike | None = None, *, out: Array | None = None) -> Array:
        """H A M Aᵀ Hᵀ + armature, (…, nv, nv). [J11] Algorithm 4.2."""
        return self._call(mass_matrix, q, out=out)

    def mass_matrix_inverse(self, q: ArrayLike | None = None, *, out: Array | None = None) -> Array:
        """Its inverse, (…, nv, nv)."""
        return self._call(mass_matrix_inverse, q, out=out, solves=True)

    def mass_matrix_solve(self, x: ArrayLike, *, q: ArrayLike | None = None, out: Array | None = None) -> Array:
        """Its inverse times vectors, (…, nv), in O(n)."""
        return self._call(mass_matrix_solve, q, x, out=out, solves=True)

    def mass_matrix_log_determinant(self, q: ArrayLike | None = None, *, out: Array | None = None) -> Array:
        """Logarithm of its determinant, (…), in O(n)."""
        return self._call(mass_matrix_log_determinant, q, out=out, solves=True)

    def operators(self, q: ArrayLike | None = None, *, engine: str = "native") -> Operators:
        """Spatial operators, as those of a robot."""
        return Operators(self, self._configuration(q), self._of_operators, require_invertible, engine)

    @cached_property
    def _of_operators(self) -> dict[Any, Any]:
        return {}

    def inverse_inertia(self, nodes: Any, q: ArrayLike | None = None) -> Array:
        """Λ⁻¹ = Bᵀ Ω B of some nodes, (…, r, r): their acceleration per unit force on them. [J11] Eq. 60.

        Args:
            nodes: A number or name of `nodes`, or a sequence of them.
            q: Coordinates, (…, nq).
        """
        return self.operators(q).Omega.swept_block(nodes, nodes)

    def inertia(self, nodes: Any, q: ArrayLike | None = None) -> Array:
        """Λ, the inverse of `inverse_inertia`, (…, r, r); raises if it has none."""
        try:
            inverse: Array = np.linalg.inv(self.inverse_inertia(nodes, q))
        except np.linalg.LinAlgError:
            raise InputError(
                f"inertia: joints cannot move nodes {nodes!r} in all directions, so Λ⁻¹ is singular"
            ) from None
        return inverse

    def site(self, frame: str) -> Site:
        """Internal. There are no frames."""
        raise UnknownNameError("frame", frame, ())

    def __repr__(self) -> str:
        return f"<SKO {self.name!r}: {len(self.nodes)} nodes of {self.m} components, nv {self.nv}>"


def sko(
    parents: Sequence[int],
    weights: Sequence[Formula | None],
    H: Sequence[Formula],
    M: Sequence[Formula],
    *,
    armature: Sequence[ArrayLike] | None = None,
    sizes: Sequence[tuple[int, int]] | None = None,
    names: Sequence[str] | None = None,
    name: str = "sko",
) -> SKO:
    """A spatial kernel operator model from its definition. [J11] §2.3.

    Matrices are arrays, or functions of the node's own coordinates: as many as its joint has velocities, plain numbers.
    Functions are arithmetic on scalars without branches, as formulas of a `Node` are.

    Args:
        parents: The parent of each node, −1 for the world; nodes are numbered depth first.
        weights: A*(p, k) of each node, (m_k, m_p), of any rank; None below the world.
        H: Joint map of each node, (m_k, n_k): the transpose of the paper's.
        M: Inertia of each node, (m_k, m_k), symmetric.
        armature: Added to the diagonal of the mass matrix, (n_k,) for each node.
        sizes: m_k and n_k of each node; needed where H of a node is a function.
        names: Names of the nodes.
        name: Name of the model.

    Raises:
        ModelError: If sizes do not fit, an inertia is not symmetric, or a number is not finite; names the node.
    """
    count = len(parents)
    given = {"weights": weights, "H": H, "M": M, "armature": armature, "sizes": sizes, "names": names}
    for what, each in given.items():
        if each is not None and len(each) != count:
            raise ModelError(f"sko: {len(each)} {what} for {count} nodes")
    called = tuple(f"node {k}" for k in range(count)) if names is None else tuple(names)
    if len(set(called)) < count:
        raise ModelError(f"sko: names must differ; got {list(called)}")
    dimensions: list[int] = []
    kinds, constants = [], []
    for k, parent in enumerate(parents):
        if not isinstance(parent, (int, np.integer)) or not WORLD <= parent < k:
            raise ModelError(
                f"sko: {called[k]!r} has parent {parent!r}; parents come before their children, −1 is the world"
            )
        m, n = _sizes(called[k], H[k], None if sizes is None else sizes[k])
        p = 0 if parent == WORLD else dimensions[parent]
        dimensions.append(m)
        matrices: list[Any] = [weights[k] if parent != WORLD else np.zeros((m, 0)), H[k], M[k]]
        if parent == WORLD and weights[k] is not None:
            raise ModelError(f"sko: {called[k]!r} is below the world, which does not move: its weight is None")
        formulas = tuple(matrix if callable(matrix) else None for matrix in matrices)
        kind = SKOKind(m, p, n, n if any(formulas) else 0, formulas)
        own = [np.zeros(n) if armature is None else _numbers(called[k], "armature", armature[k], (n,))]
        for what, matrix, shape in zip(_MATRICES, matrices, kind.shapes, strict=True):
            if not callable(matrix):
                own.append(_numbers(called[k], what, matrix, shape).reshape(-1))
        # a function is tried at one configuration that nothing makes special
        inertia = np.asarray(matrices[2](np.linspace(0.3, 0.9, n)) if callable(matrices[2]) else matrices[2], float)
        if not np.allclose(inertia, inertia.T, rtol=1e-10, atol=0.0, equal_nan=True):
            raise ModelError(f"sko: the inertia of {called[k]!r} is not symmetric")
        kinds.append(kind)
        constants.append(np.concatenate(own))
    try:
        mechanism = Mechanism(tuple(map(int, parents)), tuple(kinds), tuple(constants), called, np.zeros(3))
        _ = mechanism.topology
    except ValueError as error:
        raise ModelError(f"sko: {error}") from None
    return SKO(mechanism, name)


def _sizes(node: str, H: Any, known: tuple[int, int] | None) -> tuple[int, int]:
    """Components and joint velocities of a node."""
    if known is not None:
        return int(known[0]), int(known[1])
    if not callable(H) and np.ndim(H) == 2:
        rows, columns = np.shape(H)
        return rows, columns
    raise ModelError(f"sko: H of {node!r} is a matrix, (m, n); if it is a function, pass sizes=[(m, n), …]")


def _numbers(node: str, what: str, given: Any, shape: tuple[int, ...]) -> Array:
    if given is None:
        raise ModelError(f"sko: {node!r} needs a {what} of shape {shape}")
    try:
        numbers = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise ModelError(f"sko: the {what} of {node!r} is no array of numbers: {given!r}") from None
    if numbers.shape != shape:
        raise ModelError(f"sko: the {what} of {node!r} has shape {numbers.shape}; it must be {shape}")
    if not np.all(np.isfinite(numbers)):
        raise ModelError(f"sko: the {what} of {node!r} is not finite")
    return numbers
