"""The operators of [J11] for one robot at one configuration."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from functools import cached_property, partial
from typing import Any

import numpy as np

from kinetree.compiler.formats import format_of
from kinetree.errors import InputError
from kinetree.language.mechanism import Mechanism
from kinetree.operators.algebra import Expression, Operator, product, total
from kinetree.operators.sweeps import FACTORED, Plan, algorithm_of
from kinetree.runtime.arguments import refuse_lazy, require_shape
from kinetree.runtime.function import Function
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


class Operators:
    """Spatial operators of a robot at a configuration. Created by `robot.operators(q)`.

    They act on the velocities or forces of all nodes, one after the other (six components for a rigid body), and on
    joint velocities or forces. Nodes are numbered base first.

    Attributes:
        I: Identity on nodes.
        I_dof: Identity on joints.
        E_A: Weights A(p, k), from each node to its parent. [J11] Eq. 3.
        A: (I − E_A)⁻¹; `A @ f` gathers forces, `A.T @ v` scatters velocities. Lemmas 1 and 2.
        E_psi: E_A τ̄. Lemma 8.
        psi: (I − E_ψ)⁻¹.
        H: Joint maps, joints × nodes: `H @ f` are joint forces, `H.T @ v` relative velocities.
        M: Inertias.
        R: Composite-body inertias. Lemma 3.
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
        mass: H A M Aᵀ Hᵀ + armature, the mass matrix. Eq. 9.
        mass_inverse: (I − H ψ K)ᵀ D⁻¹ (I − H ψ K). Eq. 51.
        Omega: ψᵀ Hᵀ D⁻¹ H ψ, so that J M⁻¹ Jᵀ = Bᵀ Ω B for J = Bᵀ Aᵀ Hᵀ. Eqs. 59, 60.
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
    Omega = _named(product(_PSI.T, _H.T, _D_INVERSE, _H, _PSI))

    @cached_property
    def mass(self) -> Operator:
        return Operator(self, total((1.0, _MASS), (1.0, _ARMATURE)) if self._mechanism.has_rotors else _MASS)

    def __init__(
        self,
        robot: Any,
        q: Any,
        functions: MutableMapping[tuple[Expression, str], Function[..., Array]],
        guard: Callable[[Mechanism], None],
        engine: str,
    ) -> None:
        """Use `robot.operators(q)` instead; `functions` keeps those compiled, `guard` rejects robots without M⁻¹."""
        refuse_lazy("operators: q", q)
        #: Type of the entries of results.
        self.dtype: np.dtype[Any] = np.dtype(np.float64) if engine == "reference" else format_of(robot.mechanism).dtype
        self._engine = engine
        q = self._typed(np.asarray(q))
        require_shape("operators: q", q.shape, (robot.mechanism.nq,))
        if q.ndim != 1:
            raise InputError(f"operators: q is one configuration, ({robot.mechanism.nq},); got shape {q.shape}")
        q.flags.writeable = False
        self._robot, self._q, self._functions, self._guard = robot, q, functions, guard
        self._mechanism: Mechanism = robot.mechanism
        #: Internal: the shape of the tree.
        self.topology = self._mechanism.topology

    @property
    def key(self) -> object:
        """Internal: equal for the same robot at the same configuration."""
        return self._robot, self._q.tobytes()

    def size(self, space: str) -> int:
        """Dimension of a space: "m" of all nodes' velocities, "v" of joint velocities."""
        return self._mechanism.m_starts[-1] if space == "m" else self._mechanism.nv

    def sweeps(self, operator: Operator) -> int:
        """Number of sweeps over the tree that an operator needs."""
        return Plan(operator._expression).sweeps

    def function(self, expression: Expression) -> Function[..., Array]:
        """Internal: the function that computes y from q and x."""
        key = expression, self._engine
        if key not in self._functions:
            guard = self._guard if expression.names() & (FACTORED - {"R"}) else None
            made: Function[..., Array] = Function(
                expression.text, self._mechanism, algorithm_of(expression), guard=guard
            )
            self._functions.setdefault(key, made.engine(self._engine))
        return self._functions[key]

    def bound(self, expression: Expression) -> Callable[[Array], Array]:
        """Internal: a function that applies an operator to vectors, (…, columns) to (…, rows)."""
        if expression.kind == "identity":
            return self._typed
        return partial(self.function(expression), self._q)

    def _typed(self, x: Array) -> Array:
        """A copy in the type of the engine; complex and other scalars, which only the reference takes, stay."""
        wide = np.result_type(x, np.float64)
        return np.array(x, dtype=self.dtype if wide.kind == "f" and self._engine == "native" else wide)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._robot, self._q, self._engine)

    def __repr__(self) -> str:
        return f"<Operators of {self._robot.name!r}, {self.size('m')} node and {self.size('v')} joint velocities>"


def _again(robot: Any, q: Array, engine: str) -> Operators:
    """Unpickle."""
    operators: Operators = robot.operators(q, engine=engine)
    return operators
