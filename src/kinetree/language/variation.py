"""How a node's own formulas change with its coordinates and velocities, for recursions that linearise the dynamics.

A change of q or v moves what a node carries: its velocity changes by ϑ and its acceleration by δα, both in coordinates
that move along. Recursions carry ζ = δα + V × ϑ in place of δα. Joints of rigid bodies pass ϑ and ζ on unchanged, so
nothing accumulates along a chain. V × applies to the body twists among the components of a node's velocity.

Rigid bodies have closed forms [JR]; other nodes evaluate their formulas on dual numbers, once per degree of freedom.

[JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
     Systems, Man and Cybernetics 23, 1993.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kinetree.language.contract import components, describe, rebuild
from kinetree.language.forward_mode import joined, parts
from kinetree.spatial.dense import DenseCoriolis
from kinetree.spatial.dual import OF_NODE
from kinetree.spatial.inertia import CoriolisInertia
from kinetree.spatial.motion import Motion
from kinetree.spatial.value import Array


class Variation(NamedTuple):
    """Changes per unit change of each of the node's n coordinates (along the tangent) or velocities."""

    theta: Array  # ϑ per coordinate, (m, n); that per velocity is H
    zeta_q: Array  # ζ per coordinate, (m, n)
    zeta_v: Array  # ζ per velocity, (m, n)
    force_q: Array  # change of the node's own inertial force per coordinate, besides that due to ϑ and ζ, (m, n)
    force_v: Array  # the same per velocity, (m, n)
    #: Rates of the weight's numbers per coordinate, (n, …); empty where a motion of the node describes them.
    weights: Array
    maps: Array  # the same for the joint map
    spring_q: Array  # change of the forces of its springs and dampers per coordinate, (n, n)
    spring_v: Array  # the same per velocity, (n, n)


class Here(NamedTuple):
    """The state of a node, for `variation`."""

    X: Any  # weight
    V: Any  # velocity
    alpha: Any  # acceleration
    v: Array  # joint velocities
    a: Array  # joint accelerations
    V_p: Any  # velocity of the parent
    alpha_p: Any  # acceleration of the parent
    V_plus: Any  # velocity of the parent where the node is, W V_p


def variation(k: Any, here: Here) -> Variation:
    """Differentiate the formulas of a node in a given state."""
    kind, _ = k.formulas()
    return _by_duals(k, here) if kind.moving else _rigid(k, here)


def _rigid(k: Any, here: Here) -> Variation:
    """[JR] Eq. 3.3, with Ḣ and Ḧ split as in `algorithms.linearized`."""
    V_plus, alpha_plus = here.V_plus, here.X @ here.alpha_p
    own = [k.H @ unit for unit in np.eye(len(here.v))]
    theta = [V_plus.cross(h) for h in own]
    zeta_q = [alpha_plus.cross(h) + V_plus.cross(turned) for h, turned in zip(own, theta, strict=True)]
    zeta_v = [(here.V + V_plus).cross(h) for h in own]
    n = len(own)
    none, fixed, still = np.zeros((6, n)), np.zeros((n, 0)), np.zeros((n, n))
    moved = columns(theta, 6), columns(zeta_q, 6), columns(zeta_v, 6)
    return Variation(*moved, none, none, fixed, fixed, still, still)


def _by_duals(k: Any, here: Here) -> Variation:
    kind, c = k.formulas()
    q, v, V, n, m = k.kept("q"), here.v, here.V, kind.nv, kind.dimension
    theta, zeta_q, zeta_v, force_q, force_v, spring_q, spring_v, weights, maps = ([] for _ in range(9))
    for unit in np.eye(n):
        x = joined(q, k.manifold.rates(q, unit), OF_NODE)
        W, H, M = kind.weight(c, x), kind.joint_map(c, x), kind.inertia(c, x)
        turned = _rate(W @ here.V_p + H @ v)
        moving = joined(V, turned, OF_NODE)
        pushed = _rate(W @ here.alpha_p + H @ here.a + kind.coriolis(c, x, v, moving, here.V_p))
        weights.append(_rate(W))
        maps.append(_rate(H))
        theta.append(turned)
        zeta_q.append(pushed + cross(kind.twists, V, turned))
        force_q.append(_rate(M @ here.alpha + kind.gyroscopic(c, x, v, V)))
        spring_q.append(_rate(kind.resistance(c, x, v)))

        own, faster = k.H @ unit, joined(v, unit, OF_NODE)
        pushed = _rate(kind.coriolis(c, q, faster, joined(V, own, OF_NODE), here.V_p))
        zeta_v.append(pushed + cross(kind.twists, V, own))
        force_v.append(_rate(kind.gyroscopic(c, q, faster, V)))
        spring_v.append(_rate(kind.resistance(c, q, faster)))
    moved = columns(theta, m), columns(zeta_q, m), columns(zeta_v, m)
    forces, springs = (columns(force_q, m), columns(force_v, m)), (columns(spring_q, n), columns(spring_v, n))
    return Variation(*moved, *forces, _rows(weights), _rows(maps), *springs)


def gyroscopic(k: Any, V: Any, v: Array) -> Any:
    """b(k), and for rigid bodies B = ½ M̂ in a hidden field, for this loop and later ones: b = B V ([JR] Eq. 2.7)."""
    kind, _ = k.formulas()
    if kind.moving:
        return k.gyroscopic(V, v)
    B = CoriolisInertia.of(k.M, V)
    k.keep("B", B)
    return B @ V


def coriolis_inertia(k: Any, V: Any, v: Array, scale: float = 1.0) -> CoriolisInertia | DenseCoriolis:
    """M̂ times a scale: inertial force of a node per unit ϑ at given ζ. After `gyroscopic` with the same V and v."""
    kind, c = k.formulas()
    if not kind.moving:
        B: CoriolisInertia = k.kept("B")
        return B * (2.0 * scale)
    M_hat = kind.coriolis_inertia(c, k.kept("q"), v, V) if kind.rigid_multibody else _coriolis_inertia(k, V, v)
    dense: DenseCoriolis = DenseCoriolis.of(M_hat * scale)
    return dense


def coriolis_momentum(k: Any, V: Any, v: Array, omega: Any) -> Any:
    """M̂ᵀ ω for a virtual velocity ω; otherwise as `coriolis_inertia`."""
    kind, _ = k.formulas()
    if not kind.moving:
        return k.kept("B").transposed(omega) * 2.0
    return coriolis_inertia(k, V, v).transposed(omega)


def _coriolis_inertia(k: Any, V: Any, v: Array) -> Array:
    """Force per unit ϑ at given ζ, column by column."""
    kind, c = k.formulas()
    found = []
    for unit in np.eye(kind.dimension):
        turned = rebuild(describe(V), unit)
        force = _rate(kind.gyroscopic(c, k.kept("q"), v, joined(V, turned, OF_NODE)))
        found.append(force - k.M @ cross(kind.twists, V, turned))
    return columns(found, kind.dimension)


def drag(k: Any, X: Any, V: Any, v: Array, V_p: Any) -> Array:
    """T: ζ of a node per unit ϑ of its parent, (m, m_p). Zero if all of its velocities are those of bodies."""
    kind, c = k.formulas()
    size = len(components(V_p))
    if not kind.moving or kind.rigid_multibody:
        return np.zeros((kind.dimension, size))
    q, found = k.kept("q"), []
    for unit in np.eye(size):
        given = rebuild(describe(V_p), unit)
        turned = X @ given
        change = _rate(kind.coriolis(c, q, v, joined(V, turned, OF_NODE), joined(V_p, given, OF_NODE)))
        change = change + cross(kind.twists, V, turned)
        if isinstance(V_p, Motion):
            change = change - X @ V_p.cross(given)
        found.append(change)
    return columns(found, kind.dimension)


def cross(twists: Sequence[int], V: Array, x: Array) -> Array:
    """V × x for the body twists among the components of V, zero for the others."""
    found: list[Any] = [0.0] * len(x)
    for start in twists:
        at = slice(start, start + 6)
        found[at] = Motion(V[at]).cross(Motion(x[at])).data
    return np.array(found)


class CouplingVariation(NamedTuple):
    """Changes of what a node's independent velocities mean for its m joint rates, per unit of each of n coordinates."""

    rates_q: Array  # of G v, (m, n)
    accelerations_q: Array  # of G a + Ġ v, (m, n)
    accelerations_v: Array  # of Ġ v, per unit of each velocity, (m, n)
    forces_q: Array  # of Gᵀ τ for forces τ on the joints, (n, n)


def coupling_variation(k: Any, q: Array, v: Array, a: Array, forces: Array) -> CouplingVariation:
    """Differentiate the coupling of a node's joints."""
    kind, c = k.formulas()
    found: list[list[Any]] = [[], [], [], []]
    for unit in np.eye(len(v)):
        x = joined(q, k.manifold.rates(q, unit), OF_NODE)
        G, drift = kind.coupling(c, x), kind.coupling_drift(c, x, v)
        faster = kind.coupling_drift(c, q, joined(v, unit, OF_NODE))
        for each, value in zip(found, (G @ v, G @ a + drift, faster, G.T @ forces), strict=True):
            each.append(_rate(value))
    sizes = (len(forces),) * 3 + (len(v),)
    return CouplingVariation(*(columns(each, size) for each, size in zip(found, sizes, strict=True)))


class Direction(NamedTuple):
    """A direction of change: of a node's configuration (a tangent), velocities and, if they change, accelerations."""

    q: Array
    v: Array
    a: Array | None = None


class Change(NamedTuple):
    """Changes of a node along a direction."""

    theta: Any  # ϑ
    zeta: Any  # ζ
    force: Any  # change of its inertial force, in coordinates that move along
    spring: Array  # change of the forces of its springs and dampers, (n,)


def change(k: Any, here: Here, along: Direction, theta_p: Any, zeta_p: Any) -> Change:
    """The change of a node along a direction, given ϑ and ζ of its parent; after `gyroscopic`."""
    kind, c = k.formulas()
    if not kind.moving:
        return _rigid_change(k, here, along, theta_p, zeta_p)
    q, (_, V, alpha, v, a, V_p, alpha_p, _) = k.kept("q"), here
    x, faster = joined(q, k.manifold.rates(q, along.q), OF_NODE), joined(v, along.v, OF_NODE)
    W, H, M = kind.weight(c, x), kind.joint_map(c, x), kind.inertia(c, x)
    k.keep("W along", _rate(W))
    k.keep("H along", _rate(H))
    pushed = a if along.a is None else joined(a, along.a, OF_NODE)
    turned_p = zeta_p - V_p.cross(theta_p) if isinstance(V_p, Motion) else zeta_p
    moving_p = joined(V_p, theta_p, OF_NODE)
    theta = _rate(W @ moving_p + H @ faster)
    moving = joined(V, theta, OF_NODE)
    rate = _rate(W @ joined(alpha_p, turned_p, OF_NODE) + H @ pushed + kind.coriolis(c, x, faster, moving, moving_p))
    force = _rate(M @ joined(alpha, rate, OF_NODE) + kind.gyroscopic(c, x, faster, moving))
    return Change(theta, rate + cross(kind.twists, V, theta), force, _rate(kind.resistance(c, x, faster)))


def _rigid_change(k: Any, here: Here, along: Direction, theta_p: Any, zeta_p: Any) -> Change:
    """[JR] Eq. 3.3."""
    V_plus, alpha_plus = here.V_plus, here.X @ here.alpha_p
    turn, push = k.H @ along.q, k.H @ along.v
    psi_rate = V_plus.cross(turn)  # Ψ̇ dq
    theta = here.X @ theta_p + push + psi_rate
    zeta = here.X @ zeta_p + (here.V + V_plus).cross(push) + alpha_plus.cross(turn) + V_plus.cross(psi_rate)
    zeta = zeta if along.a is None else zeta + k.H @ along.a
    return Change(theta, zeta, k.M @ zeta + (k.kept("B") @ theta) * 2.0, np.zeros(len(here.v)))


def change_back(k: Any, X: Any, dq: Array, force: Any, change: Any) -> Any:
    """The change of Wᵀ f along a tangent dq, given f and its change; after `change` with this tangent."""
    kind, _ = k.formulas()
    if not kind.moving:
        return X.T @ (change + (k.H @ dq).cross(force))  # H̃* f δθ, for the ancestors only
    return X.T @ change + _rate(joined(X, k.kept("W along"), OF_NODE).T @ force)


def change_of_joint(k: Any, force: Any, change: Any) -> Array:
    """The change of Hᵀ f, (n,), given f and its change; after `change`."""
    kind, _ = k.formulas()
    projected: Array = k.H.T @ change
    return projected + _rate(joined(k.H, k.kept("H along"), OF_NODE).T @ force) if kind.moving else projected


def turned_velocities(k: Any, X: Any, V_p: Any, v: Array) -> list[Any]:
    """Changes of W V_p + H v per coordinate, in coordinates that move along; V_p and v may be virtual velocities."""
    kind, c = k.formulas()
    if not kind.moving:
        return [(X @ V_p).cross(k.H @ unit) for unit in np.eye(kind.nv)]
    q, found = k.kept("q"), []
    for unit in np.eye(kind.nv):
        x = joined(q, k.manifold.rates(q, unit), OF_NODE)
        found.append(_rate(kind.weight(c, x) @ V_p + kind.joint_map(c, x) @ v))
    return found


class Carried(NamedTuple):
    """Motions of a node: its velocity, and what it has of its parent's motions where it is."""

    V: Any  # velocity
    V_plus: Any  # velocity of the parent, W V_p
    alpha_plus: Any  # acceleration of the parent, W α_p
    omega_plus: Any  # virtual velocity of the parent, W ω_p


def prepare_gradients(k: Any, here: Here, omega: Any, omega_p: Any, w: Array) -> None:
    """Keep what `gradients` needs of a node that is no rigid body; ω, ω_p and w are virtual velocities."""
    kind, _ = k.formulas()
    if not kind.moving:
        return
    change = variation(k, here)
    for name, value in (("theta", change.theta), ("zeta_q", change.zeta_q), ("zeta_v", change.zeta_v)):
        k.keep(name, value)
    k.keep("omega_q", columns(turned_velocities(k, here.X, omega_p, w), kind.dimension))
    k.keep("own_q", change.force_q.T @ omega + change.spring_q.T @ w)
    k.keep("own_v", change.force_v.T @ omega + change.spring_v.T @ w)


def gradients(k: Any, of: Carried, f: Any, g: Any, g_hat: Any) -> tuple[Array, Array]:
    """Gradients of the virtual power of inertial forces with respect to a node's q and v, (n,) each.

    [JR] Lemma 3.1, transposed: products of g with ζ, of ĝ with ϑ, and of f with the change of ω, per coordinate and
    velocity. With (V × h)ᵀ f = −hᵀ (V ×* f), they are components along H of two forces on a rigid body.

    Args:
        k: The node; after `prepare_gradients`.
        of: Its motions.
        f: Force on it.
        g: Momentum of the virtual velocity, Σ M ω.
        g_hat: Σ M̂ᵀ ω.
    """
    kind, _ = k.formulas()
    if not kind.moving:
        by_q = of.V_plus.cross(of.V_plus.cross(g) - g_hat) - of.alpha_plus.cross(g) - of.omega_plus.cross(f)
        return k.H.T @ by_q, k.H.T @ (g_hat - (of.V + of.V_plus).cross(g))
    along = k.kept("theta").T @ g_hat + k.kept("zeta_q").T @ g + k.kept("omega_q").T @ f + k.kept("own_q")
    return along, k.H.T @ g_hat + k.kept("zeta_v").T @ g + k.kept("own_v")


class Rates(NamedTuple):
    """Rates of a node's motions as seen from the world, S° = Ṡ + V × S, while q moves with v."""

    k: Any  # the node
    X: Any  # its weight
    V: Any  # its velocity
    V_p: Any  # that of its parent
    #: Its weight and joint map as dual numbers along v; None for rigid bodies, which have closed forms.
    moving: tuple[Any, Any] | None

    @classmethod
    def of(cls, k: Any, X: Any, V: Any, V_p: Any, v: Array) -> Rates:
        """For a node with weight X and velocity V at joint velocities v."""
        kind, c = k.formulas()
        if not kind.moving:
            return cls(k, X, V, V_p, None)
        q = k.kept("q")
        x = joined(q, k.manifold.rates(q, v), OF_NODE)
        return cls(k, X, V, V_p, (kind.weight(c, x), kind.joint_map(c, x)))

    def own(self) -> list[Any]:
        """Rates of the motions due to the node's own degrees of freedom: those of H turn with a rigid body."""
        units = np.eye(len(self.k.armature))
        if self.moving is None:
            return [self.V.cross(self.k.H @ unit) for unit in units]
        kind, _ = self.k.formulas()
        return [_rate(self.moving[1] @ unit) + cross(kind.twists, self.V, self.k.H @ unit) for unit in units]

    def passed_on(self, motion: Any, rate: Any) -> Any:
        """The rate of W S, given a motion S of the parent and S°: W S°, for rigid bodies."""
        if self.moving is None:
            return self.X @ rate
        kind, _ = self.k.formulas()
        of_weight = _rate(self.moving[0] @ motion) + cross(kind.twists, self.V, self.X @ motion)
        if isinstance(self.V_p, Motion):
            rate = rate - self.V_p.cross(motion)
        return of_weight + self.X @ rate


class Swing(NamedTuple):
    """Changes of what a given force f on a node means for its parent and its joint, per coordinate of the node."""

    at_node: Array  # A force at the node whose Wᵀ is the change of Wᵀ f, (m, n): H̃* f, for rigid bodies
    on_parent: Array  # what else changes on the parent, (m_p, n)
    of_joint: Array  # change of Hᵀ f, (n, n)


def swung(k: Any, X: Any, weights: Array, maps: Array, force: Any) -> Swing:
    """Differentiate Wᵀ f and Hᵀ f for a given force f; weights and maps are those of the `Variation`."""
    kind, _ = k.formulas()
    n, m, m_p = kind.nv, kind.dimension, len(components(X.T @ force))
    if not kind.moving:
        at_node = columns([(k.H @ unit).cross(force) for unit in np.eye(n)], m)
        return Swing(at_node, np.zeros((m_p, n)), np.zeros((n, n)))
    on_parent, along = [], []
    for weight, joint_map in zip(weights, maps, strict=True):
        on_parent.append(_rate(joined(X, rebuild(describe(X), weight), OF_NODE).T @ force))
        along.append(_rate(joined(k.H, rebuild(describe(k.H), joint_map), OF_NODE).T @ force))
    return Swing(np.zeros((m, n)), columns(on_parent, m_p), columns(along, n))


def columns(vectors: Sequence[Any], length: int) -> Array:
    """Vectors side by side, (length, n)."""
    stacked: Array = np.array([components(vector) for vector in vectors]).reshape(len(vectors), length).T
    return stacked


def _rows(values: Sequence[Any]) -> Array:
    rows: Array = np.array([components(value) for value in values]).reshape(len(values), -1 if values else 0)
    return rows


def _rate(value: Any) -> Any:
    return parts(value, OF_NODE)[1]
