"""The operators of [J11] for one robot at one configuration."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from functools import partial
from typing import Any

import numpy as np

from kinetree.engines.arguments import refuse_lazy, require_shape
from kinetree.engines.formats import format_of
from kinetree.engines.function import Function
from kinetree.errors import InputError
from kinetree.operators import structure
from kinetree.operators.algebra import Expression, Operator
from kinetree.operators.plan import FACTORED, Plan
from kinetree.operators.sweeps import algorithm_of
from kinetree.recursion.mechanism import Mechanism
from kinetree.spatial.value import Array

#: Kind and spaces of the elementary operators.
_PRIMITIVES = {
    "H": ("diagonal", "v", "m"),
    "M": ("diagonal", "m", "m"),
    "P": ("diagonal", "m", "m"),
    "R": ("diagonal", "m", "m"),
    "D": ("diagonal", "v", "v"),
    "D⁻¹": ("diagonal", "v", "v"),
    "G": ("diagonal", "m", "v"),
    "J": ("diagonal", "v", "v"),
    "E_A": ("shift", "m", "m"),
    "A": ("resolvent", "m", "m"),
    "E_ψ": ("shift", "m", "m"),
    "ψ": ("resolvent", "m", "m"),
}


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

    def __init__(
        self,
        robot: Any,
        q: Any,
        functions: MutableMapping[tuple[Expression, str], Function[..., Array]],
        guard: Callable[[Mechanism], None],
        engine: str,
    ) -> None:
        """Use `robot.operators(q)` instead.

        Args:
            robot: A model.
            q: Configuration, (nq,).
            functions: Functions compiled for this robot.
            guard: Rejects mechanisms without M⁻¹.
            engine: Engine that runs the sweeps.
        """
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
        made = {
            name: Operator(self, Expression(kind, name, rows, columns))
            for name, (kind, rows, columns) in _PRIMITIVES.items()
        }
        self.I = Operator(self, Expression("identity", "I", "m", "m"))
        self.I_dof = Operator(self, Expression("identity", "I", "v", "v"))
        self.H, self.M, self.R, self.P, self.D, self.G = (made[name] for name in ("H", "M", "R", "P", "D", "G"))
        self.D_inverse, self.armature = made["D⁻¹"], made["J"]
        self.E_A, self.A, self.E_psi, self.psi = made["E_A"], made["A"], made["E_ψ"], made["ψ"]
        self.K: Operator = self.E_A @ self.G
        self.tau: Operator = self.G @ self.H
        self.tau_bar = self.I - self.tau
        self.innovations = self.I_dof + self.H @ self.A @ self.K
        self.innovations_inverse = self.I_dof - self.H @ self.psi @ self.K
        inertia: Operator = self.H @ self.A @ self.M @ self.A.T @ self.H.T
        self.mass = inertia + self.armature if _has_rotors(self._mechanism) else inertia
        self.mass_inverse: Operator = self.innovations_inverse.T @ self.D_inverse @ self.innovations_inverse
        self.Omega: Operator = self.psi.T @ self.H.T @ self.D_inverse @ self.H @ self.psi

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

    def pattern(self, expression: Expression) -> Array:
        """Internal: the structurally nonzero blocks."""
        return structure.pattern(expression, self._mechanism.topology)

    def picture(self, expression: Expression) -> str:
        """Internal: the pattern in characters."""
        return structure.picture(expression, self._mechanism.topology)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._robot, self._q, self._engine)

    def __repr__(self) -> str:
        return f"<Operators of {self._robot.name!r}, {self.size('m')} node and {self.size('v')} joint velocities>"


def _has_rotors(mechanism: Mechanism) -> bool:
    return any(
        np.any(kind.armature(parameters))
        for kind, parameters in zip(mechanism.kinds, mechanism.parameters, strict=True)
    )


def _again(robot: Any, q: Array, engine: str) -> Operators:
    """Unpickle."""
    operators: Operators = robot.operators(q, engine=engine)
    return operators
