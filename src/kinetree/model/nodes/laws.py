"""The laws that the formulas of a node must obey to describe a mechanical system.

For weight W, joint map H, inertia M and the terms a and b of `kinetree.model.nodes.general`:

    law         statement
    coriolis    a = Ẇ V_p + Ḣ v, the rate of the velocity W V_p + H v with V_p and v held
    symmetry    M is symmetric and positive semi-definite; b vanishes without velocities
    power       V·b = ½ V·Ṁ V: b and M conserve kinetic energy
    Lagrange    Hᵀ(M (H v̇ + a) + b) = d/dt(∂T/∂v) − ∂T/∂q with T = ½ vᵀHᵀMHv, on a parent at rest; less [v, ·]ᵀ ∂T/∂v
                if velocities are not rates of coordinates
    locked      with locked joints the node is a rigid body: Wᵀ(M W α_p + b) = R α_p + V_p ×* R V_p with R = WᵀMW
    outlets     with locked joints the rows of W of an outlet are a rigid motion transform
    dampers     `rayleigh` is quadratic in v and never negative
    freedom     D = HᵀMH is positive definite, once every outlet carries a unit inertia
    body        R = WᵀMW is the inertia of a rigid body: it has a mass, a centre of mass, and moments that obey the
                triangle inequality; gravity acts on it as on one

Manifolds of the user's own among its coordinates obey, for configurations q, p and steps x,

    difference  (q ⊕ x) ⊖ q = x, q ⊕ (p ⊖ q) = p, and q ⊖ q = 0
    normal form `normalize` keeps the configuration, and what is normal
    tangent     `rates` are those of q ⊕ s x at s = 0, and `tangent_map` is their inverse
    velocity    q ⊕ s x moves at constant velocity x
    group       derivatives of q ⊕ x, and brackets of velocities, do not depend on q

Rates are complex-step derivatives, or by dual numbers those of manifolds, exact to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kinetree.errors import ModelError
from kinetree.model.joints.manifold import Manifold, derivative
from kinetree.model.nodes.general import Node, checked, coordinates_of, parts_of, rigid_error, size
from kinetree.spatial.inertia import ArticulatedInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.value import Array

_STEP = 1e-30
_SAMPLES = 3
_TOLERANCE = 1e-9


def check_node(node: Node, *, q: Any = None, seed: int = 0, tolerance: float = _TOLERANCE) -> dict[str, float]:
    """Check the formulas of a node against the laws of mechanics, at random velocities.

    Args:
        node: The node.
        q: Configuration to check, (nq,); by default a few random ones, in ±1 if they are plain numbers.
        seed: Seed of the random numbers.
        tolerance: Largest relative error allowed.

    Returns:
        The largest relative error of each law.

    Raises:
        ModelError: If a law is violated, or a formula gives NaN; names the law, the error and the likely cause.
    """
    checked("check_node()", node)
    at = coordinates_of(node)
    if q is not None:
        q = np.asarray(q, dtype=float)
        if q.shape != (at.nq,):
            raise ModelError(f"check_node(): q has shape {q.shape}, must be ({at.nq},)")
    worst = _errors(node, lambda rng: _drawn(node, rng, -1.0, 1.0) if q is None else q, seed)
    _require_small(node, worst, tolerance)
    return worst


def require_laws(node: Node, lower: Array, upper: Array) -> None:
    """Raise if a node that `checked` has passed breaks a law between its limits, (nv,) each.

    Freedom is not required: an armature may resist what no mass does, and inverse dynamics need neither.
    """
    low, high = np.maximum(lower, np.minimum(-1.0, upper - 2.0)), np.minimum(upper, np.maximum(1.0, lower + 2.0))
    worst = _errors(node, lambda rng: _drawn(node, rng, low, high), 0)
    _require_small(node, {law: error for law, error in worst.items() if law != "freedom"}, _TOLERANCE)


def _drawn(node: Node, rng: np.random.Generator, low: Any, high: Any) -> Array:
    """A random configuration; between limits if coordinates are plain numbers."""
    none = np.full(node.nv, np.inf)
    return (
        rng.uniform(low, high, node.nv)
        if node.coordinates is None
        else coordinates_of(node).random(rng, (), -none, none)
    )


def _errors(node: Node, draw: Callable[[np.random.Generator], Array], seed: int) -> dict[str, float]:
    """The largest relative error of each law at a few random configurations."""
    rng = np.random.default_rng(seed)
    worst: dict[str, float] = {}
    with np.errstate(all="ignore"):  # what is no number is told
        for manifold in (part for part in parts_of(node) if isinstance(part, Manifold)):
            for _ in range(_SAMPLES):
                for law, error in _manifold_laws(manifold, rng):
                    worst[law] = max(worst.get(law, 0.0), error)
        _require_small(node, worst, _TOLERANCE)  # other laws build on these
        for _ in range(_SAMPLES):
            for law, error in _laws(node, draw(rng), rng):
                worst[law] = max(worst.get(law, 0.0), error)
    return worst


def _require_small(node: Node, errors: dict[str, float], tolerance: float) -> None:
    for law, error in errors.items():
        if not error <= tolerance:
            raise ModelError(
                f"node {type(node).__name__} breaks the law of {law} by {error:.1e} of its size: {_FIXES[law]}"
            )


_FIXES = {
    "coriolis": "`coriolis` must be Ẇ V_p + Ḣ v. Leave it out, and it is computed from `weight` and `joint_map`",
    "symmetry": "`inertia` must be symmetric and positive semi-definite, and `gyroscopic` quadratic in velocities",
    "power": "`gyroscopic` changes the kinetic energy. Is the rate of `inertia` in it, and are its signs right?",
    "Lagrange": "`gyroscopic` or `joint_map` does not go with the kinetic energy of `inertia`",
    "locked": "with locked joints it must move like a rigid body. Is V ×* (M V) in `gyroscopic`?",
    "outlets": "the rows of `weight` of an outlet must be a motion transform [[E, 0], [−E r×, E]] at every q",
    "dampers": "`rayleigh` must be ½ vᵀCv with C positive semi-definite",
    "body": "with locked joints no rigid body has the inertia R = WᵀMW, which must be [[I, m c×], [−m c×, m 1]] with "
    "moments that some mass distribution has. Are all terms of `inertia` those of the same masses?",
    "difference": "`integrate` and `difference` of a manifold must undo each other, for steps of about 1",
    "normal form": "`normalize` of a manifold must give the same configuration, and leave it alone once it is normal",
    "tangent": "`rates` and `tangent_map` of a manifold must be derivatives of `integrate` and `difference` at a step "
    "of zero. Leave them out, and they are computed",
    "velocity": "`integrate` of a manifold must move at constant velocity: q ⊕ 2x is (q ⊕ x) ⊕ x",
    "group": "velocities of a manifold must be those of a group, as in the body's own frame: derivatives of "
    "`integrate` depend on the step only",
    "freedom": "some joint velocity moves no mass, even if outlets carry some. Is `joint_map` right?",
}


def _laws(node: Node, q: Array, rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    c, n, m = np.asarray(node.constants, dtype=float), node.nv, size(node)
    v, v_dot = rng.normal(size=(2, n))
    V_p, alpha_p = rng.normal(size=(2, 6))

    def weight(q: Array) -> Array:
        return _numbers(node.weight(c, q))

    def joint_map(q: Array) -> Array:
        return _numbers(node.joint_map(c, q))

    def inertia(q: Array) -> Array:
        return _numbers(node.inertia(c, q))

    W, H, M = weight(q), joint_map(q), inertia(q)

    for name, value in {"weight": W, "joint_map": H, "inertia": M}.items():
        _require_finite(node, name, value, q)

    def terms(V_p: Array, v: Array) -> tuple[Array, Array, Array]:
        V = W @ V_p + H @ v
        a, b = _numbers(node.coriolis(c, q, v, V, V_p)), _numbers(node.gyroscopic(c, q, v, V))
        _require_finite(node, "coriolis", a, q)
        _require_finite(node, "gyroscopic", b, q)
        return V, a, b

    at = coordinates_of(node)
    q_rate, units = at.rates(q, v), [at.rates(q, unit) for unit in np.eye(n)]
    V, a, b = terms(V_p, v)
    rate = _rate(lambda q: weight(q) @ V_p + joint_map(q) @ v, q, q_rate)
    yield "coriolis", _error(a, rate, _norm(V) * (1.0 + _norm(v)))

    size_of_b = _norm(M) * _norm(V) * (_norm(V) + _norm(v))
    yield "symmetry", max(_error(M, M.T), _negative(M), _error(terms(2.0 * V_p, 2.0 * v)[2], 4.0 * b, size_of_b))
    yield "power", _error(V @ b, 0.5 * (V @ (_rate(inertia, q, q_rate) @ V)), size_of_b * _norm(V))

    resting, a_resting, b_resting = terms(np.zeros(6), v)

    def momentum(q: Array, v: Array) -> Array:
        H = joint_map(q)
        momentum: Array = H.T @ (inertia(q) @ (H @ v))
        return momentum

    pull = np.array([0.5 * (v @ _rate(lambda q: momentum(q, v), q, unit)) for unit in units])
    along = q + 1j * _STEP * q_rate, v + 1j * _STEP * v_dot
    expected = momentum(*along).imag / _STEP - pull - at.bracket(v).T @ momentum(q, v)
    scale = _norm(H) * _norm(M) * (_norm(H @ v_dot) + _norm(resting) * (_norm(resting) + _norm(v)))
    yield "Lagrange", _error(H.T @ (M @ (H @ v_dot + a_resting) + b_resting), expected, scale)

    _, a_locked, b_locked = terms(V_p, np.zeros(n))
    R = W.T @ M @ W
    turning = Motion(V_p).cross(Force(R @ V_p)).data
    felt = W.T @ (M @ (W @ alpha_p + a_locked) + b_locked)
    yield "locked", _error(felt, R @ alpha_p + turning, _norm(R) * (_norm(alpha_p) + _norm(V_p) ** 2))

    carried = M.copy()
    for start in node.outlets.values():
        yield "outlets", rigid_error(W[start : start + 6])
        carried[start : start + 6, start : start + 6] += np.eye(6)
    lost = [np.asarray(node.rayleigh(c, q, scale * v)) for scale in (1.0, 2.0)]
    _require_finite(node, "rayleigh", lost, q)
    _require_finite(node, "potential", node.potential(c, q), q)
    yield "dampers", max(_error(lost[1], 4.0 * lost[0]), float(lost[0] < 0.0))
    if n:
        D = H.T @ carried @ H
        least = np.linalg.eigvalsh((D + D.T) / 2.0)[0]
        yield "freedom", float(not least > m * np.finfo(float).eps * _norm(D))
    yield "body", _unlike_body(R)


def _manifold_laws(m: Manifold, rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    name, units = type(m).__name__, np.eye(m.nv)

    def told(formula: str, *given: Any) -> Array:
        shape = {"difference": (m.nv,), "tangent_map": (m.nv, m.nq)}.get(formula, (m.nq,))
        value = _numbers(getattr(m, formula)(*given))
        if value.shape != shape:
            raise ModelError(f"manifold {name}: `{formula}` gives an array of shape {value.shape}, must be {shape}")
        if not np.isfinite(value).all():
            raise ModelError(
                f"manifold {name}: `{formula}`, or a derivative in it, has NaN or infinite entries. It must be smooth, "
                "also at a step of zero: the length of a step is not, but its square is"
            )
        return value

    told("neutral")
    q, p = told("random", rng), told("random", rng)
    x = rng.uniform(-0.5, 0.5, m.nv)
    end = told("integrate", q, x)
    for formula, given in (("difference", (q, p)), ("normalize", (q,)), ("rates", (q, x)), ("tangent_map", (q,))):
        told(formula, *given)
    back = m.difference(p, m.integrate(q, np.asarray(m.difference(q, p))))
    yield (
        "difference",
        max(_error(m.difference(q, end), x, 1.0), _error(back, 0.0, 1.0), _error(m.difference(q, q), 0.0, 1.0)),
    )

    normal = np.asarray(m.normalize(end))
    yield "normal form", max(_error(m.difference(end, normal), 0.0, 1.0), _error(m.normalize(normal), normal))

    E = np.stack([m.rates(q, unit) for unit in units], axis=1)
    moved = [derivative(lambda step: m.integrate(q, step), np.zeros(m.nv), unit) for unit in units]
    yield "tangent", max(_error(E, np.stack(moved, axis=1)), _error(np.asarray(m.tangent_map(q)) @ E, units))

    last = derivative(lambda s: m.integrate(q, s * x), np.ones(1), np.ones(1))
    yield "velocity", _error(np.asarray(m.tangent_map(end)) @ last, x, 1.0)

    pairs = [(m.transport_from(q, x), m.transport(x)), (m.right_jacobian_from(q, x), m.right_jacobian(x))]
    pairs.append((m.inverse_right_jacobian(x) @ m.right_jacobian(x), units))
    pairs.append((np.array(m.brackets_at(q)), np.array(m.brackets_at(np.asarray(m.neutral(), dtype=float)))))
    yield "group", max(_error(here, there, 1.0) for here, there in pairs)


def _require_finite(node: Node, formula: str, value: Any, q: Array) -> None:
    if not np.isfinite(value).all():
        raise ModelError(
            f"node {type(node).__name__}: `{formula}` has NaN or infinite entries at q = {q.tolist()}. Is a constant "
            "missing, or a divisor zero? Configurations that cannot be are left out by limits, or by passing q"
        )


def _unlike_body(R: Array) -> float:
    """How far a symmetric 6×6 matrix is from the inertia of a rigid body, relative to its size."""
    near = ArticulatedInertia.from_matrix(R).rigid()
    mass, first, J = near.mass, near.first_moment, near.rotational
    # second moments of the mass about x, y, z and 1: no mass distribution has negative ones
    moments = np.block([[np.trace(J) / 2.0 * np.eye(3) - J, first[:, None]], [first[None], np.full((1, 1), mass)]])
    length = np.sqrt(np.trace(J) / 2.0 / mass) if mass > 0.0 < np.trace(J) else 1.0
    scale = np.array([1.0, 1.0, 1.0, length])
    return max(_error(near.matrix(), R), _negative(moments * scale * scale[:, None]))


def _numbers(values: Any) -> Array:
    """An array of numbers, also from one of objects, in which formulas may have collected them."""
    array = np.asarray(values)
    return np.array(array.tolist()) if array.dtype == object else array


def _rate(function: Callable[[Array], Array], q: Array, direction: Array) -> Any:
    """Change of a function along a direction, by a complex step."""
    return np.asarray(function(q + 1j * _STEP * direction)).imag / _STEP


def _norm(x: Any) -> float:
    return float(np.sqrt((np.abs(x) ** 2).sum()))


def _negative(M: Array) -> float:
    """How far the smallest eigenvalue is below zero, relative to the largest; zero if it is not."""
    eigenvalues = np.linalg.eigvalsh((M + M.T) / 2.0)
    return float(max(0.0, -eigenvalues[0]) / max(np.abs(eigenvalues).max(), 1e-300))


def _error(found: Any, expected: Any, scale: float = 0.0) -> float:
    """Largest difference, relative to the size of the values compared."""
    size = max(_norm(found), _norm(expected), scale)
    return 0.0 if size == 0.0 else _norm(np.asarray(found) - expected) / size
