"""Time steps of forward dynamics under constant joint forces, on the manifold of configurations. Cost O(n).

    semi_implicit_euler    v′ = v + a dt, q′ = q ⊕ v′ dt; first order. Energy may grow without bound: a falling humanoid
                           diverges at 1 ms
    midpoint               q₊ = q ⊕ v ½dt; a at q₊, with the velocity there predicted by another a; v′ = v + a dt,
                           q′ = q₊ ⊕ v′ ½dt; second order, two evaluations of forward dynamics
    rk4                    fourth order, in the tangent at q: ξ̇ = v + ½ ξ×v + ¹⁄₁₂ ξ×(ξ×v), q(t) = q ⊕ ξ(t);
                           four evaluations

⊕ is `integrate`. The expression for ξ̇ is the inverse of the right Jacobian of ⊕, as far as four orders need it; it is
v where coordinates are plain numbers.

[MK98] H. Munthe-Kaas, "Runge–Kutta methods on Lie groups", BIT 38, 1998.
"""

from __future__ import annotations

from typing import Any

from kinetree.algorithms.dynamics.forward_dynamics import acceleration, articulated_forces
from kinetree.language.algorithm import algorithm
from kinetree.language.roles import NodeRole
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.value import Array

#: How far the stages of the classic Runge–Kutta method look ahead, in steps.
STAGES = (0.0, 0.5, 0.5, 1.0)

_ARGUMENTS: dict[str, Any] = {
    "q": ("q",), "v": ("v",), "tau": ("v",), "dt": (), "wrench": ("frames", 6), "q_end": ("q",), "v_end": ("v",),
    "outputs": ("q_end", "v_end"),
}  # fmt: skip


@algorithm(**_ARGUMENTS)
def semi_implicit_euler(
    tree: Tree, q: Indexed, v: Indexed, tau: Indexed, dt: Indexed, wrench: Indexed, q_end: Indexed, v_end: Indexed
) -> None:
    """A step of the semi-implicit Euler method."""
    articulated_forces(tree, q, v, tau, -tree.gravity, wrench)
    for k, parent in tree.scatter():
        after = v[k] + acceleration(k, parent) * dt[...]
        v_end[k] = after
        q_end[k] = k.manifold.integrate(q[k], after * dt[...])


@algorithm(**_ARGUMENTS, sparse=("q_end", "v_end"))
def midpoint(
    tree: Tree, q: Indexed, v: Indexed, tau: Indexed, dt: Indexed, wrench: Indexed, q_end: Indexed, v_end: Indexed
) -> None:
    """A step of the explicit midpoint method."""
    half = 0.5 * dt[...]
    for k, _ in tree.scatter():
        q_end[k] = k.manifold.integrate(q[k], v[k] * half)
    articulated_forces(tree, q_end, v, tau, -tree.gravity, wrench)
    for k, parent in tree.scatter():
        v_end[k] = v[k] + acceleration(k, parent) * half
    articulated_forces(tree, q_end, v_end, tau, -tree.gravity, wrench)
    for k, parent in tree.scatter():
        after = v[k] + acceleration(k, parent) * dt[...]
        v_end[k] = after
        q_end[k] = k.manifold.integrate(q_end[k], after * half)


@algorithm(v=("v",), a=("v",), dt=(), after=("v",), outputs=("after",))
def advance(tree: Tree, v: Indexed, a: Indexed, dt: Indexed, after: Indexed) -> None:
    """Velocities after a time with constant accelerations, v + a dt."""
    for k, _ in tree.scatter():
        after[k] = v[k] + a[k] * dt[...]


@algorithm(
    q=("q",), v=("v",), xi_rate=("v",), a=("v",), dt=(), ahead=(), q_there=("q",), v_there=("v",), xi_rate_there=("v",),
    outputs=("q_there", "v_there", "xi_rate_there"),
)  # fmt: skip
def rk4_stage(
    tree: Tree, q: Indexed, v: Indexed, xi_rate: Indexed, a: Indexed, dt: Indexed, ahead: Indexed,
    q_there: Indexed, v_there: Indexed, xi_rate_there: Indexed,
) -> None:  # fmt: skip
    """The state `ahead` steps from the start, along ξ̇ and a of the stage before, and ξ̇ there. [MK98]."""
    seconds = dt[...] * ahead[...]
    for k, _ in tree.scatter():
        xi, there = xi_rate[k] * seconds, v[k] + a[k] * seconds
        q_there[k], v_there[k] = k.manifold.integrate(q[k], xi), there
        xi_rate_there[k] = _tangent_rate(k, xi, there)


@algorithm(
    q=("q",), v=("v",), dt=(), r1=("v",), a1=("v",), r2=("v",), a2=("v",), r3=("v",), a3=("v",), r4=("v",), a4=("v",),
    q_end=("q",), v_end=("v",), outputs=("q_end", "v_end"),
)  # fmt: skip
def rk4_end(
    tree: Tree, q: Indexed, v: Indexed, dt: Indexed,
    r1: Indexed, a1: Indexed, r2: Indexed, a2: Indexed, r3: Indexed, a3: Indexed, r4: Indexed, a4: Indexed,
    q_end: Indexed, v_end: Indexed,
) -> None:  # fmt: skip
    """The end of a Runge–Kutta step, from the rates ξ̇ and v̇ of its stages. [MK98]."""
    sixth = dt[...] * (1.0 / 6.0)
    for k, _ in tree.scatter():
        xi = (r1[k] + (r2[k] + r3[k]) * 2.0 + r4[k]) * sixth
        v_end[k] = v[k] + (a1[k] + (a2[k] + a3[k]) * 2.0 + a4[k]) * sixth
        q_end[k] = k.manifold.integrate(q[k], xi)


def _tangent_rate(k: NodeRole, xi: Array, v: Array) -> Array:
    """ξ̇ of q ⊕ ξ moving with velocity v, to the fourth order."""
    ad = k.manifold.bracket(xi)
    turned = ad @ v
    rate: Array = v + turned * 0.5 + (ad @ turned) * (1.0 / 12.0)
    return rate


class FieldArgument:
    """A field of the loop's node in place of an input or output."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, k: Any) -> Any:
        return getattr(k, self.name)

    def __setitem__(self, k: Any, value: Any) -> None:
        setattr(k, self.name, value)
