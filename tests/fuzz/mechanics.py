"""Random forests of all joints, masses from 1e-9 to 1e9 kg, placements up to 1e6 m, against dense first principles.

    python -m tests.fuzz.mechanics --count 1000

The oracle knows nothing of spatial vectors: positions, angular velocities and accelerations of bodies in the world, in
extended precision; M = Σ Jᵀ m J, and d'Alembert's principle for the forces. Results may be off by rounding of what is
added up on the way, about the reference points that `kinetree.language.common_frame` documents.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

import kinetree as kt
from kinetree.errors import SingularMechanismError
from kinetree.model.joints.protocol import ScrewStage
from kinetree.spatial.rotation import alignment
from tests.tolerance import EPS, peak
from tests.trees import KINDS, random_rotation, unit

L = np.longdouble
Array = np.ndarray[Any, np.dtype[Any]]

#: Roundings per body that a result may show.
ROUNDINGS = 64.0
#: A mechanism may be refused as singular if M, with a unit diagonal, has a smaller eigenvalue at one of its states.
NEARLY_SINGULAR = 1e-11
ANGLES = (0.0, 1e-300, 1e-160, 1e-20, 1e-9, 1e-5, 0.0999999, 0.1, 0.1000001, 1.0, np.pi - 1e-3, np.pi - 1e-8, np.pi)


def robot(rng: np.random.Generator) -> kt.Model:
    """Two of each kind, one of them a root: all robots share one set of compiled functions."""
    spread, size = 10.0 ** rng.uniform(0.0, 9.0), 10.0 ** rng.uniform(-3.0, 6.0)
    far = rng.random() < 0.3
    builder, names = kt.Builder("fuzz", gravity=rng.uniform(-10.0, 10.0, 3)), []
    kinds = [(kind, True) for kind in KINDS] + [(kind, False) for kind in rng.permutation(list(KINDS))]
    for i, (kind, root) in enumerate(kinds):
        mass = float(spread ** rng.uniform(-1.0, 1.0))
        length = size if rng.random() < 0.2 else 1.0
        own: dict[str, Any] = {}
        if kind in ("revolute", "prismatic", "helical", "cylindrical", "planar"):
            own["axis"] = rng.choice([-1, 1]) * np.eye(3)[rng.integers(3)] if rng.random() < 0.4 else unit(rng)
        if kind == "universal":
            own["axes"] = np.linalg.qr(rng.standard_normal((3, 3)))[0][:2]
        if kind == "helical":
            own["pitch"] = float(rng.uniform(-1.0, 1.0))
        second = mass * rng.uniform(0.01, 0.06, 3)
        R = random_rotation(rng)
        reach = 1e6 if root and far else length
        builder.add_body(
            f"b{i}",
            parent="world" if root else str(rng.choice(names)),
            joint=kind,
            placement=(np.eye(3) if rng.random() < 0.3 else random_rotation(rng), rng.uniform(-reach, reach, 3)),
            mass=mass,
            com=rng.uniform(-0.3, 0.3, 3),
            inertia=(R * (second.sum() - second)) @ R.T,
            **own,
        )
        names.append(f"b{i}")
    return builder.build()


def state(rng: np.random.Generator, model: kt.Model) -> tuple[Array, Array, Array]:
    """A configuration, some of its angles special and slides far out, with velocities and accelerations."""
    q = model.random_configuration(rng)
    for joint in model.joints:
        angles = joint.type.angles
        for i, is_angle in enumerate(angles):
            if rng.random() < 0.3:
                special = float(rng.choice(ANGLES) * rng.choice([-1, 1]))
                q[joint.q_start + i] = special if is_angle else 10.0 ** rng.uniform(0.0, 6.0)
        if joint.kind in ("spherical", "floating") and rng.random() < 0.4:
            half = 0.5 * float(rng.choice(ANGLES))
            turn = np.array([np.cos(half), *(np.sin(half) * unit(rng))])
            q[joint.q_slice.stop - 4 : joint.q_slice.stop] = turn * 10.0 ** rng.uniform(-3.0, 3.0)
        if joint.kind == "floating" and rng.random() < 0.3:
            q[joint.q_start : joint.q_start + 3] *= 1e6
    v, a = rng.standard_normal((2, model.nv))
    return q, v, a


@dataclass
class Moving:
    """A body in the world: pose, motion, Jacobians; and sums of sizes, for the bounds."""

    R: Array
    p: Array
    w: Array
    u: Array
    dw: Array
    du: Array
    Jw: Array
    Ju: Array
    turned: bool
    reach: float  # length of the way from the reference point
    speed: float
    turning: float
    hurry: float


def cross(a: Array, b: Array) -> Array:
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def skew(a: Array) -> Array:
    zero = L(0)
    return np.array([[zero, -a[2], a[1]], [a[2], zero, -a[0]], [-a[1], a[0], zero]])


def about(axis: Array, angle: Any) -> Array:
    """Rodrigues."""
    K = skew(axis)
    return np.eye(3, dtype=L) + np.sin(angle) * K + 2 * np.sin(angle / 2) ** 2 * (K @ K)


def of_quaternion(x: Array) -> Array:
    w, a, b, c = x / np.sqrt((x * x).sum())
    K = skew(np.array([a, b, c]))
    return np.eye(3, dtype=L) + 2 * w * K + 2 * K @ K


def elementary(joint: kt.Joint, q: Array) -> list[tuple[str, Array, Any, int]]:
    """A joint as turns and slides in series: what, direction in the frame at hand, how far, column of v."""
    axes = [axis / np.sqrt((axis * axis).sum()) for axis in joint.axes.astype(L)]
    x, y, z = np.eye(3, dtype=L)
    if joint.kind == "revolute":
        return [("turn", axes[0], q[0], 0)]
    if joint.kind == "prismatic":
        return [("slide", axes[0], q[0], 0)]
    if joint.kind == "cylindrical":
        return [("slide", axes[0], q[1], 1), ("turn", axes[0], q[0], 0)]
    if joint.kind == "universal":
        return [("turn", axes[0], q[0], 0), ("turn", axes[1], q[1], 1)]
    if joint.kind == "translational":
        return [("slide", d, q[i], i) for i, d in enumerate((x, y, z))]
    raise AssertionError(joint.kind)


def kinematics(model: kt.Model, q: Array, v: Array, a: Array) -> dict[str, Moving]:
    """All bodies, from the world outwards."""
    n = model.nv
    none, zero = np.zeros((3, n), dtype=L), np.zeros(3, dtype=L)
    world = Moving(np.eye(3, dtype=L), zero, zero, zero, zero, zero, none, none, False, 0.0, 0.0, 0.0, 0.0)
    found = {"world": world}
    for body in model.bodies:
        joint = model.joint(body.joint)
        k = found[joint.parent]
        place = joint.placement.astype(L)
        k = _carried(k, k.R @ place[:3, 3], k.R @ place[:3, :3])
        own = q[joint.q_slice].astype(L)
        start = joint.v_start
        if joint.kind in ("revolute", "prismatic", "cylindrical", "universal", "translational"):
            for what, direction, amount, column in elementary(joint, own):
                i = start + column
                k = (_turned if what == "turn" else _slid)(k, direction, amount, i, v[i], a[i])
        elif joint.kind == "helical":
            k = _screwed(k, joint.axes[0].astype(L), own[0], L(joint.pitch), start, v[start], a[start])
        else:
            k = _free(joint, k, own, start, v, a)
        found[body.name] = k
    return found


def _carried(k: Moving, r: Array, R: Array) -> Moving:
    """Another frame of the same body, r away in world axes."""
    length = float(np.sqrt((r * r).sum()))
    reach = k.reach + length if k.turned else 0.0
    speed = k.speed + k.turning * length if k.turned else k.speed
    hurry = k.hurry + (k.turning + k.turning**2) * length if k.turned else k.hurry
    return Moving(
        R, k.p + r, k.w, k.u + cross(k.w, r), k.dw, k.du + cross(k.dw, r) + cross(k.w, cross(k.w, r)),
        k.Jw, k.Ju - skew(r) @ k.Jw, k.turned, reach, speed, k.turning, hurry,
    )  # fmt: skip


def _turned(k: Moving, axis: Array, angle: Any, i: int, v: float, a: float) -> Moving:
    e = k.R @ axis
    Jw = k.Jw.copy()
    Jw[:, i] += e
    rate = e * v
    return Moving(
        k.R @ about(axis, angle), k.p, k.w + rate, k.u, k.dw + e * a + cross(k.w, rate), k.du, Jw, k.Ju, True, k.reach,
        k.speed, k.turning + abs(v) + abs(a), k.hurry,
    )  # fmt: skip


def _slid(k: Moving, axis: Array, amount: Any, i: int, v: float, a: float) -> Moving:
    e = k.R @ axis
    k = _carried(k, e * amount, k.R)
    Ju = k.Ju.copy()
    Ju[:, i] += e
    rate = e * v
    speed, hurry = k.speed + abs(v), k.hurry + abs(a) + 2 * k.turning * abs(v)
    return Moving(
        k.R, k.p, k.w, k.u + rate, k.dw, k.du + e * a + 2 * cross(k.w, rate), k.Jw, Ju, k.turned, k.reach, speed,
        k.turning, hurry,
    )  # fmt: skip


def _screwed(k: Moving, axis: Array, angle: Any, pitch: Any, i: int, v: float, a: float) -> Moving:
    slid = _slid(k, axis, pitch * angle, i, float(pitch * v), float(pitch * a))
    slid.Ju[:, i] += (k.R @ axis) * (pitch - 1)  # metres per radian
    return _turned(slid, axis, angle, i, v, a)


def _free(joint: kt.Joint, k: Moving, q: Array, start: int, v: Array, a: Array) -> Moving:
    """Planar, spherical and floating joints: velocities are in the moved frame."""
    if joint.kind == "planar":
        z = joint.axes[0].astype(L)
        x, y = _plane(joint)
        k = _carried(k, k.R @ (x * q[0] + y * q[1]), k.R @ about(z, q[2]))
        angular, linear = [z], [x, y]
    elif joint.kind == "spherical":
        k = _carried(k, np.zeros(3, dtype=L), k.R @ of_quaternion(q))
        angular, linear = list(np.eye(3, dtype=L)), []
    else:
        k = _carried(k, k.R @ q[:3], k.R @ of_quaternion(q[3:]))
        angular, linear = list(np.eye(3, dtype=L)), list(np.eye(3, dtype=L))
    Jw, Ju, own, moved = k.Jw.copy(), k.Ju.copy(), np.zeros(3, dtype=L), np.zeros(3, dtype=L)
    own_rate, moved_rate, i = np.zeros(3, dtype=L), np.zeros(3, dtype=L), start
    for e in angular:
        Jw[:, i] += k.R @ e
        own, own_rate, i = own + k.R @ e * v[i], own_rate + k.R @ e * a[i], i + 1
    for e in linear:
        Ju[:, i] += k.R @ e
        moved, moved_rate, i = moved + k.R @ e * v[i], moved_rate + k.R @ e * a[i], i + 1
    w = k.w + own
    size_w = float(np.abs(v[start : start + len(angular)]).sum() + np.abs(a[start : start + len(angular)]).sum())
    size_u = float(np.abs(v[start + len(angular) : i]).sum() + np.abs(a[start + len(angular) : i]).sum())
    turning = k.turning + size_w
    # the linear velocity turns with the frame that it is given in: its rate has w × moved twice, once for each reason
    du = k.du + moved_rate + cross(w, moved) + cross(k.w, moved)
    speed, hurry = k.speed + size_u, k.hurry + size_u + 2 * turning * size_u
    dw = k.dw + own_rate + cross(k.w, own)
    return Moving(k.R, k.p, w, k.u + moved, dw, du, Jw, Ju, True, k.reach, speed, turning, hurry)


def _plane(joint: kt.Joint) -> tuple[Array, Array]:
    """x and y of a planar joint: z turned onto its normal by the smallest angle."""
    turn = alignment(joint.axes[0]).astype(L)
    return turn[:, 0], turn[:, 1]


@dataclass
class Truth:
    """What the oracle says, and what rounding may make of it."""

    M: Array
    M_size: Array
    root: Array  # √M, with a row for each component of each body's momentum
    weight: Array  # Gravity forces are its product with the transpose of that
    tau: Array
    tau_size: Array
    com: Array
    momentum: Array
    momentum_size: Array
    kinetic: float


def truth(model: kt.Model, q: Array, v: Array, a: Array) -> tuple[Truth, dict[str, Moving]]:
    """M, joint forces, centre of mass and momenta by their definitions."""
    bodies = kinematics(model, q, v, a)
    n = model.nv
    M, size, tau, tau_size = np.zeros((n, n), dtype=L), np.zeros((n, n)), np.zeros(n, dtype=L), np.zeros(n)
    mass, moment, kinetic = L(0), np.zeros(3, dtype=L), L(0)
    parts, root, weight = [], [], []
    for body in model.bodies:
        k = bodies[body.name]
        r = k.R @ body.com.astype(L)
        c = _carried(k, r, k.R)
        I = k.R @ body.inertia.astype(L) @ k.R.T
        m = L(body.mass)
        M += m * c.Ju.T @ c.Ju + c.Jw.T @ I @ c.Jw
        inertial = m * (c.du - model.gravity.astype(L))
        spin = I @ c.dw + cross(c.w, I @ c.w)
        tau += c.Ju.T @ inertial + c.Jw.T @ spin
        kinetic += (m * (c.u @ c.u) + c.w @ I @ c.w) / 2
        turns, slides = np.abs(c.Jw).sum(axis=0) > 0, np.abs(c.Ju).sum(axis=0) > 0
        lever = np.where(turns, c.reach + float(np.sqrt(r @ r)), 0.0) + (slides | turns) * 1.0
        spread = float(np.trace(I))
        size += float(m) * np.outer(lever, lever) + spread * np.outer(turns, turns)
        push = float(m) * (c.hurry + float(np.abs(model.gravity).sum())) + spread * (c.turning + c.turning**2)
        tau_size += lever * push
        mass, moment = mass + m, moment + m * c.p
        parts.append((m, c, I))
        root += [np.sqrt(m) * c.Ju, np.linalg.cholesky(body.inertia).T.astype(L) @ (k.R.T @ c.Jw)]
        weight += [-np.sqrt(m) * model.gravity.astype(L), np.zeros(3, dtype=L)]
    com = moment / mass
    momentum, momentum_size = np.zeros((6, n), dtype=L), np.zeros(n)
    for m, c, I in parts:
        momentum[:3] += I @ c.Jw + m * skew(c.p - com) @ c.Ju
        momentum[3:] += m * c.Ju
        from_com, far = float(np.sqrt((c.p - com) @ (c.p - com))), float(np.abs(c.p).max() + np.abs(com).max())
        momentum_size += (
            float(m)
            * (np.abs(c.Ju).max(axis=0).astype(float) + (np.abs(c.Jw).sum(axis=0) > 0) * (1 + c.reach))
            * (1 + from_com + far)
        )
        momentum_size += float(np.trace(I)) * (np.abs(c.Jw).sum(axis=0) > 0)
    A, w = np.concatenate(root), np.concatenate(weight)
    return Truth(M, size, A, w, tau, tau_size, com, momentum, momentum_size, float(kinetic)), bodies


def elimination_size(model: kt.Model, true: Truth, a: Array) -> Array:
    """Size of the forces that cancel when joints are eliminated from M a = τ one after another, from the tips inwards.

    This is what the articulated-body recursion does, and how far its result is from solving the equations exactly: with
    M = Lᵀ D L, where D has a block for each joint, |M â − τ| ≤ c n eps |L|ᵀ|D||L||â|. For joints with one degree of
    freedom |L|ᵀ|D||L| is hardly more than M. For others a row of L may be as large as √(m/λ), λ being the least
    eigenvalue of their block of D, so that the bound grows with the root of the block's condition number: a ball joint
    with a mass 10⁶ m away turns easily about one axis, which is none of its own. Eliminating the three degrees of
    freedom one by one would avoid that, but not the error of â itself, which is in proportion to the condition number.

    The blocks are found by a QR factorisation of √M, for M itself may be too ill-conditioned even here.

    [H02] N. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, 2002: §13.3.
    """
    # from the last column to the first; the right-hand side is gravity, which is an acceleration of the world
    R = _triangular(np.concatenate([true.root[:, ::-1], true.weight[:, None]], axis=1))
    n, size = model.nv, np.zeros(model.nv)
    for joint in model.joints:
        own = slice(n - joint.v_slice.stop, n - joint.v_start)
        block = R[own, own]
        row = _back_substituted(block, R[own, own.start :])  # of L, its block of the identity first, and the answer
        felt = np.abs(row[:, :-1]) @ np.abs(a[: joint.v_slice.stop][::-1]) + np.abs(row[:, -1])
        lengths = np.sqrt((block * block).sum(axis=0))  # roots of D's diagonal
        size[: joint.v_slice.stop] += (np.abs(row[:, :-1]).T @ (lengths * (lengths @ felt)))[::-1].astype(float)
    return size


def _triangular(A: Array) -> Array:
    """R of A = Q R by Householder reflections in extended precision, which LAPACK does not have."""
    A = A.copy()
    for i in range(min(A.shape)):
        x = A[i:, i].copy()
        x[0] += np.copysign(np.sqrt(x @ x), x[0])
        square = x @ x
        if square > 0:
            A[i:, i:] -= np.outer(x, (2 / square) * (x @ A[i:, i:]))
    return A


def _back_substituted(R: Array, B: Array) -> Array:
    """R⁻¹B, R upper triangular."""
    B = B.copy()
    for i in reversed(range(len(R))):
        B[i] = (B[i] - R[i, i + 1 :] @ B[i + 1 :]) / R[i, i]
    return B


def check(model: kt.Model, rng: np.random.Generator, engine: str) -> list[tuple[str, float]]:
    """How many times its bound each result of one state is off."""
    q, v, a = state(rng, model)
    true, bodies = truth(model, q, v, a)
    bound = ROUNDINGS * len(model.bodies) * EPS

    def run(name: str, *arguments: Any) -> Any:
        return getattr(model, name).engine(engine)(*arguments)

    def off(actual: Any, expected: Any, size: Any) -> float:
        worst = np.abs(np.asarray(actual) - expected) / (np.asarray(size) * bound + 1e-300)
        return float(np.max(worst)) if np.isfinite(worst).all() else float("inf")

    size = np.sqrt(np.outer(np.diag(true.M_size), np.diag(true.M_size)))
    related = true.M_size > 0
    M = run("mass_matrix", q)
    tau = run("inverse_dynamics", q, v, a)
    results = [("mass_matrix", off(M[related], true.M[related], true.M_size[related] + size[related] * 1e-3))]
    results += [("inverse_dynamics", off(tau, true.tau, true.tau_size))]
    try:
        solved = run("forward_dynamics", q, v, tau)
    except SingularMechanismError:
        solved, results = None, [*results, ("refused", smallest_eigenvalue(true.M) / NEARLY_SINGULAR)]
    if solved is not None and not np.isfinite(solved).all():
        # rounding made a pivot zero, which it may where M has no inverse
        results += [("without inverse", smallest_eigenvalue(true.M) / EPS)]
    elif solved is not None:
        again, _ = truth(model, q, v, solved)
        force_size = true.tau_size + true.M_size @ np.abs(solved) + elimination_size(model, true, solved)
        results += [("forward_dynamics", off(again.tau, tau.astype(L), force_size))]
    com = run("center_of_mass", q)
    far = max(peak(k.p) for k in bodies.values()) + max(k.reach for k in bodies.values())
    results += [("center_of_mass", off(com, true.com, far + 1.0))]
    A = run("centroidal_momentum_matrix", q)
    results += [("centroidal_momentum_matrix", off(A, true.momentum, true.momentum_size + 1e-300))]
    kinetic, _ = run("energy", q, v)
    results += [("energy", off(kinetic, true.kinetic, v.__abs__() @ true.M_size @ np.abs(v)))]
    bias, gravity = run("bias_forces", q, v), run("gravity_forces", q)
    results += [("coriolis_matrix", off(run("coriolis_matrix", q, v) @ v, bias.astype(L) - gravity, true.tau_size))]
    frame = str(rng.choice([body.name for body in model.bodies]))
    k = bodies[frame]
    J = run("jacobian", q, frame, "local_world_aligned")
    results += [("jacobian", off(J, np.concatenate([k.Jw, k.Ju]), 1.0 + k.reach))]
    T = run("pose", q, frame)
    results += [("poses", off(T[:3, 3], k.p, far + 1.0)), ("rotations", off(T[:3, :3], k.R, 1.0))]
    return results + manifold(model, q, rng, bound)


def smallest_eigenvalue(M: Array) -> float:
    """Of M with a unit diagonal: near eps, rounding decides whether M has an inverse."""
    size = np.sqrt(np.diagonal(M))
    return float(np.linalg.eigvalsh((M / np.outer(size, size)).astype(np.float64))[0])


def manifold(model: kt.Model, q: Array, rng: np.random.Generator, bound: float) -> list[tuple[str, float]]:
    """integrate, difference and their derivatives, at special angles."""
    d = np.zeros(model.nv)
    for joint in model.joints:
        own = rng.standard_normal(joint.nv)
        angular = (
            [i for i, part in enumerate(joint.type.screw) if part < 3] if isinstance(joint.type, ScrewStage) else []
        )
        if angular:
            wanted = min(float(rng.choice(ANGLES)), np.pi - 1e-6)
            own[angular] *= wanted / max(float(np.linalg.norm(own[angular])), 1e-300)
        d[joint.v_slice] = own
    there = model.integrate(q, d)
    back = model.difference(q, there)
    scale = 1.0 + np.abs(q).max()
    results = [("difference of integrate", float(np.max(np.abs(back - d)) / (scale * bound * 8)))]
    _, by_v = model.dintegrate(q, d)
    _, end = model.ddifference(q, there)
    product = end @ by_v
    apart = np.max(np.abs(product - np.eye(model.nv)), initial=0.0)
    results.append(("derivatives of the manifold", float(apart / (scale * bound * 1e3))))
    return results


def main() -> int:
    """Report what is off by more than rounding; the exit code says whether anything is."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1e9, help="of the processor")
    options = parser.parse_args()
    cases, worst, failures = Counter[str](), dict[str, float](), 0
    for number in range(options.seed, options.seed + options.count):
        if time.process_time() > 60.0 * options.minutes:
            break
        rng = np.random.default_rng(number)
        model, found = robot(rng), list[tuple[str, float]]()
        for _ in range(4):
            found += check(model, rng, "reference" if rng.random() < 0.02 else "native")
        refusals = [off for name, off in found if name == "refused"]
        found = [(name, off) for name, off in found if name != "refused"]
        if refusals:
            found.append(("refused", min(refusals)))
        for name, off in found:
            cases[name] += 1
            worst[name] = max(worst.get(name, 0.0), off)
            if not off <= 1.0:
                failures += 1
                print(f"seed {number}: {name} is off by {off:.3g} times its bound", flush=True)
        if number % 50 == 49:
            print(number, dict(cases), worst, f"{failures} failures, {time.process_time():.0f} s", flush=True)
    print(
        {name: (cases[name], round(worst[name], 4)) for name in cases},
        f"{failures} failures, {time.process_time():.0f} s",
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
