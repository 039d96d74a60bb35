"""Derivatives of steps with contacts, dry friction and stops, by the implicit-function theorem at their solution.

A step solves, at q ("midpoint": at q ⊕ ½dt v, with v_m = v + ½dt a₁ for v in ID), with a = (v′ − v)/dt, impulses λ in
world axes, w = J v′ the velocities of the points, n(p) and h(p) normal and height,

    F = ID(q, v, a) − Jᵀλ/dt − push(q, v, τ) = 0                                                    (1)
    open  λ = 0;   sticking  w + n c(h)/dt = 0;   sliding  n·w + c(h)/dt = 0, λ = λ_n (n − μ d), d = w_t/|w_t|     (2)

with c(h) = h above the surface and β h below. ID has the armature of implicit dampers and springs. Differentiated, (2)
are rows E_w δw + E_λ δλ + E_q δq + E_μ δμ + E_h δh₀ = 0, three of each contact and one of each joint with friction or
stop: stuck or stopped δv′ + δq/dt = 0 (the latter only with a gap), slipping δλ = 0. With δw = J δv′ + Ψ δq,

    S δλ = −(E_w (J δv_f + Ψ δq) + E_q δq + E_μ δμ + E_h δh₀),     S = E_w G + E_λ                  (3)
    δv′ = δv_f + M⁻¹Jᵀδλ,     δv_f = δv + dt M⁻¹r,     r = δpush − F_q δq − F_v δv                  (4)

Redundant contacts make S singular. As in the solver (`kinetree.kernels.contact_newton`), G has a compliance added, and
centrings take its effect away again: what is determined converges, what is not has the smallest δλ.

Modes are certain if each is away from its neighbours by more than the residual explains. At an *edge*, where a force is
at the limit of friction and nothing moves, the sticking side is differentiated; c′ = 1 on the surface itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kinetree.kernels.contact_problem import IMMOBILE, RECOVERY
from kinetree.runtime.bound import standard_arithmetic
from kinetree.simulation.contacts import Contacts
from kinetree.simulation.step_results import Modes
from kinetree.spatial.value import Array

OPEN, STICKING, SLIDING, EDGE = range(4)
FREE, STUCK, SLIPPING, STOPPED = range(4)
#: Heights above this are differentiated as on the surface or above it [m].
_ON_SURFACE = -1e-9
#: Speeds and forces of contacts, relative to the fastest approach, that are rounding.
_NOTHING = 1e-10
#: Least margin of modes that are certain, and by what factor it exceeds the residual.
_MARGIN, _FACTOR = 1e-6, 100.0
#: Centrings of derivatives.
_CENTRINGS = 8
#: Singular values below this share of the largest are zero, and so is what null vectors do.
_RANK, _LOOSE = 1e-9, 1e-6


class Columns(NamedTuple):
    """Changes of what a step depends on, one in each column."""

    q: Array  # (…, nv, k)
    v: Array  # (…, nv, k)
    push: Array  # joint forces, and external wrenches times their Jacobians, (…, nv, k)
    friction: Array  # of each shape, (…, shapes, k)
    height: Array  # of each shape along its normals, (…, shapes, k)


class _Contact(NamedTuple):
    """What a pair of a shape and a point needs for its rows."""

    shape: int  # its number
    mu: float
    n: Array  # normal
    bend: Array  # ∂n/∂q
    gap: Array  # c/dt
    rate: Array  # c′/dt
    closing: Array  # ∂(c/dt)/∂q
    w: Array  # velocity of the point
    u: Array  # w + n c/dt
    root: Array  # of its mean mobility
    movable: Array


class StepDerivatives:
    """Derivatives of a simulator's step at states of one batch axis."""

    def __init__(self, sim: Any, q: Array, v: Array, tau: Array, f_ext: Mapping[str, Array]) -> None:
        self._sim, self._plant, self._dt = sim, sim._plant, sim.dt
        self._robot, self._q, self._v, self._f_ext = sim._plant.robot, q, v, f_ext
        with standard_arithmetic():
            self._solve(tau)
            self._rows()

    def _solve(self, tau: Array) -> None:
        """The step, and the dynamics about it."""
        sim, robot, dt, (q, v) = self._sim, self._robot, self._dt, (self._q, self._v)
        sites, wrenches = robot.forward_dynamics._wrenches(self._f_ext) if self._f_ext else ((), ())
        found = sim._computed((q, v, tau, *wrenches), sites)
        self.after, self.rate, _, *results = found
        contacts = sim._contacts
        named = dict(zip(contacts.shapes, results, strict=False)) if contacts is not None else {}
        batch = len(q)
        self._report = named.get("report", np.zeros((batch, 3)))
        self._pushed_joints = named.get("joint_impulses", np.zeros((batch, robot.nv)))
        push, self._push_q, self._push_v = _pushed(self._plant, q, v, tau)
        self._here, speed, self._first = q, v, None
        forces = self._f_ext or None
        if sim.method == "midpoint":
            self._here = robot.integrate(q, v, 0.5 * dt)
            self._first = robot.linearize(self._here, v, tau=push, f_ext=forces)
            speed = v + 0.5 * dt * robot.forward_dynamics(self._here, v, push, f_ext=forces)
        a = (self.rate - v) / dt
        self._touching(contacts, named)
        applied = dict(self._wrenches)
        for frame, wrench in self._f_ext.items():
            applied[frame] = applied.get(frame, 0.0) + wrench
        lin = robot.linearize(self._here, speed, a=a, f_ext=applied or None)
        self._F_q, self._F_v = lin.dq - self._turned, lin.dv
        if self._first is not None:
            self._to_here = robot.dintegrate(q, v, 0.5 * dt)
        self._to_end = robot.dintegrate(self._here, self.rate, dt if self._first is None else 0.5 * dt)
        self._Minv = robot.mass_matrix_inverse(self._here)

    def _touching(self, contacts: Any, named: dict[str, Array]) -> None:
        """Points, their Jacobians J and Ψ for all shapes, impulses, and wrenches of these on frames."""
        robot, here, rate, batch, nv = self._robot, self._here, self.rate, len(self._q), self._robot.nv
        self._wrenches: dict[str, Array] = {}
        self._turned = np.zeros((batch, nv, nv))
        self.ground: tuple[Any, ...] = ()
        self._J = self._Psi = np.zeros((batch, 0, 3, nv))
        self._impulse = np.zeros((batch, 0, 3))
        self._joints = contacts
        if not isinstance(contacts, Contacts):
            return
        self._joints, self.ground = contacts.joints, contacts.ground
        frames, body, at, count = contacts.frames, contacts.body_of, contacts.positions, len(contacts.body_of)
        T = robot.pose(here, frames)[:, body]
        J = robot.jacobian(here, frames, "local_world_aligned")[:, body]
        change = robot.acceleration_derivatives(here, np.zeros_like(rate), rate, frames, "local_world_aligned").dq[
            :, body
        ]
        arm = np.einsum("bkij,kj->bki", T[..., :3, :3], at)
        across, turning = _skew(arm), _skew(np.einsum("bkij,bj->bki", J[..., :3, :], rate))
        own = J[..., 3:, :] - across @ J[..., :3, :]
        moved = change[..., 3:, :] - across @ change[..., :3, :] - turning @ across @ J[..., :3, :]
        self._points = T[..., :3, 3] + arm
        many = len(self.ground)
        self._J, self._Psi = np.tile(own, (1, many, 1, 1)), np.tile(moved, (1, many, 1, 1))
        self._impulse = named["forces"].reshape(batch, many * count, 3)
        force = self._impulse.reshape(batch, many, count, 3).sum(axis=1) / self._dt
        self._turned = np.einsum("bkri,bkrs,bksj->bij", own, _skew(force), J[..., :3, :])
        local = np.einsum("bkji,bkj->bki", T[..., :3, :3], force)
        wrench = np.concatenate([np.cross(np.broadcast_to(at, local.shape), local), local], axis=-1)
        for i, frame in enumerate(frames):
            self._wrenches[frame] = wrench[:, body == i].sum(axis=1)

    def _rows(self) -> None:
        """Modes, and the rows of (3)."""
        batch, nv, count, shapes = len(self._q), self._robot.nv, self._J.shape[1], len(self.ground)
        joints = self._joints
        columns = np.zeros(0, dtype=int) if joints is None else joints.columns
        total = 3 * count + len(columns)
        self._all = np.zeros((batch, total, nv))
        self._all[:, : 3 * count] = self._J.reshape(batch, -1, nv)
        self._all[:, 3 * count + np.arange(len(columns)), columns] = 1.0
        self._G = self._all @ self._Minv @ _T(self._all)
        own = np.einsum("bii->bi", self._G)
        each = own[:, : 3 * count].reshape(batch, count, 3).mean(axis=-1)
        self._mobility = np.concatenate([np.repeat(each, 3, axis=1), own[:, 3 * count :]], axis=1)
        self._impulses = np.concatenate([self._impulse.reshape(batch, -1), self._pushed_joints[:, columns]], axis=1)
        self._E_w, self._E_l = np.zeros((2, batch, total, total))
        self._E_q = np.zeros((batch, total, nv))
        self._E_mu, self._E_h = np.zeros((2, batch, total, shapes))
        self.contact_modes, self.joint_modes = np.zeros((batch, count), dtype=int), np.zeros((batch, nv), dtype=int)
        self._margins = [np.full(batch, np.inf)]

        # in roots of energies, as in the solver: the fastest approach without impulses
        pushed = np.einsum("bij,bj->bi", self._G, self._impulses)
        touching = [self._measured(i) for i in range(count)]
        size = np.full(batch, 1e-300)
        for i, one in enumerate(touching):
            free = (one.u - pushed[:, 3 * i : 3 * i + 3]) / one.root[:, None]
            near = np.maximum(-_dot(free, one.n), 1e-6 * np.linalg.norm(free, axis=-1))
            size = np.maximum(size, np.where(one.movable, near, 0.0))
        if joints is not None:
            slowest, fastest, dry = bounds = joints.allowed(self._here)
            free = self.rate[:, columns] - pushed[:, 3 * count :]
            rubbing = np.where(dry > 0.0, 1.0, 1e-6) * np.abs(free)
            near = np.maximum(np.maximum(rubbing, slowest - free), free - fastest) / np.sqrt(own[:, 3 * count :])
            size = np.maximum(size, near.max(axis=1))
        for i, one in enumerate(touching):
            self._contact_rows(i, one, size)
        if joints is not None:
            self._joint_rows(3 * count, size, *bounds)
        # what moves points without a change of velocities is part of E_q
        self._E_q += self._E_w[:, :, : 3 * count] @ self._Psi.reshape(batch, -1, nv)
        self.margin = np.maximum(np.min(self._margins, axis=0), 0.0)
        self._factor()

    def _measured(self, i: int) -> _Contact:
        """A pair of a shape and a point."""
        each = self._J.shape[1] // len(self.ground)
        shape, p = self.ground[i // each], self._points[:, i % each]
        h, n = shape.gap(p)
        dh, dn = shape.slopes(p)
        J, mobility = self._J[:, i], self._mobility[:, 3 * i]
        w = (J @ self.rate[..., None])[..., 0]
        gap = np.where(h > 0.0, h, RECOVERY * h) / self._dt
        rate = np.where(h > _ON_SURFACE, 1.0, RECOVERY) / self._dt
        closing = rate[:, None] * np.einsum("bi,bij->bj", dh, J)
        movable = mobility > IMMOBILE
        root = np.sqrt(np.where(movable, mobility, 1.0))
        return _Contact(
            i // each, shape.friction, n, dn @ J, gap, rate, closing, w, w + n * gap[:, None], root, movable
        )

    def _contact_rows(self, i: int, at: _Contact, size: Array) -> None:
        """The mode of a contact, and its three rows."""
        mu, n, w, root, rows = at.mu, at.n, at.w, at.root, slice(3 * i, 3 * i + 3)
        impulse = self._impulse[:, i]
        normal, apart, lifts = _dot(impulse, n), _dot(at.u, n) / root, _dot(w, n)
        slip = w - lifts[:, None] * n
        speed, across = np.linalg.norm(slip, axis=-1), np.linalg.norm(impulse - normal[:, None] * n, axis=-1)
        pressed, slack = normal * root, np.maximum(mu * normal - across, 0.0) * root
        is_open = (pressed <= apart) | ~at.movable
        slides = ~is_open & (speed / root > slack)
        edge = slides & (speed / root <= _NOTHING * size) & (mu > 0.0)
        slides &= ~edge
        self.contact_modes[:, i] = np.select([is_open, edge, slides], [OPEN, EDGE, SLIDING], STICKING)
        guard = np.where(slides, speed / root, np.where(edge, 0.0, slack))
        margin = np.where(is_open, apart, np.minimum(pressed, guard)) / size
        self._margins.append(np.where(at.movable, margin, np.inf))

        # sticking: δw + n δ(c/dt) + (c/dt) δn
        q_stick = n[:, :, None] * at.closing[:, None] + at.gap[:, None, None] * at.bend
        # sliding, along n, along t = d × n times |w_t|, and along μ n + d
        d = np.where((speed > 0.0)[:, None], slip / np.where(speed > 0.0, speed, 1.0)[:, None], _tangent(n))
        t, zero = np.cross(d, n), np.zeros_like(n)
        w_slide = np.stack([n, (mu * normal)[:, None] * t, zero], axis=1)
        l_slide = np.stack([zero, speed[:, None] * t, mu * n + d], axis=1)
        along = [np.einsum("bi,bij->bj", x, at.bend) for x in (w, t, d)]
        q_slide = np.stack([
            along[0] + at.closing, -(normal * (speed + mu * lifts))[:, None] * along[1],
            -(normal * (1.0 + mu * mu))[:, None] * along[2],
        ], axis=1)  # fmt: skip
        holds = (~is_open & ~slides)[:, None, None]

        def chosen(stick: Any, slide: Any, none: Any) -> Any:
            return np.where(holds, stick, np.where(slides[:, None, None], slide, none))

        self._E_w[:, rows, rows], self._E_l[:, rows, rows] = (
            chosen(np.eye(3), w_slide, 0.0),
            chosen(0.0, l_slide, np.eye(3)),
        )
        self._E_q[:, rows] = chosen(q_stick, q_slide, 0.0)
        raised = np.stack([at.rate, 0.0 * at.rate, 0.0 * at.rate], axis=-1)
        self._E_h[:, rows, at.shape] = -chosen((n * at.rate[:, None])[..., None], raised[..., None], 0.0)[..., 0]
        self._E_mu[:, rows.stop - 1, at.shape] = np.where(slides, normal, 0.0)

    def _joint_rows(self, first: int, size: Array, slowest: Array, fastest: Array, dry: Array) -> None:
        """Modes of joints with friction or stops, and their rows."""
        joints, robot = self._joints, self._robot
        place, by_q = robot.difference(joints.origin, self._here), robot.ddifference(joints.origin, self._here)[1]
        for j, c in enumerate(joints.columns):
            row = first + j
            impulse, v, root = self._impulses[:, row], self.rate[:, c], np.sqrt(self._mobility[:, row])
            over, rounding = np.abs(impulse) - dry[j], _NOTHING * size * root
            ends = np.where(impulse > 0.0, v <= slowest[:, j] + rounding, v >= fastest[:, j] - rounding)
            stopped = (over > 0.0) & ends
            slips = ~stopped & (np.abs(v) / root > -over * root)
            self.joint_modes[:, c] = np.select([stopped, slips], [STOPPED, SLIPPING if dry[j] > 0.0 else FREE], STUCK)
            inside = np.minimum(v - slowest[:, j], fastest[:, j] - v) / root
            moving = np.minimum(np.abs(v) / root, inside) if dry[j] > 0.0 else inside
            self._margins.append(np.where(stopped, over * root, np.where(slips, moving, -over * root)) / size)
            gap = np.where(impulse > 0.0, place[:, c] - joints.lower[c], joints.upper[c] - place[:, c])
            self._E_w[:, row, row], self._E_l[:, row, row] = np.where(slips, 0.0, 1.0), np.where(slips, 1.0, 0.0)
            self._E_q[:, row] = np.where((stopped & (gap > _ON_SURFACE))[:, None], by_q[:, c] / self._dt, 0.0)

    def _factor(self) -> None:
        """S⁻¹, and whether S determines what moves and what presses on sliding contacts."""
        batch, total = self._E_w.shape[:2]
        self.unique = np.ones(batch, dtype=bool)
        self._inverse = np.zeros((batch, total, total))
        if not total:
            return
        epsilon, _, _, centrings, _ = self._sim._contacts.law
        soft = self._E_w * (epsilon * self._mobility)[:, None, :]
        rigid = self._E_w @ self._G + self._E_l
        finite = np.isfinite(rigid).all(axis=(1, 2))
        first = np.full(rigid.shape, np.nan)
        first[finite] = np.linalg.inv((rigid + soft)[finite])
        self._inverse, yielding = first, first @ soft
        for _ in range(_CENTRINGS if centrings > 0.5 else 0):
            self._inverse = first + yielding @ self._inverse
        # where nothing slides, forces that S does not determine move nothing
        sliding = self.contact_modes == SLIDING
        some = np.flatnonzero(sliding.any(axis=1) & finite)
        if len(some):
            self.unique[some] = ~_undetermined(rigid[some], self._all[some], self._E_w[some], sliding[some])

    @property
    def modes(self) -> Modes:
        """What contacts and joints do."""
        residual = self._report[:, 1]
        certain = self.margin > np.maximum(_MARGIN, _FACTOR * residual)
        return Modes(self.contact_modes, self.joint_modes, self.margin, self.unique, certain, residual)

    def changes(self, given: Columns) -> tuple[Array, Array]:
        """Changes of configuration and velocity after the step, (…, nv, k) each: (3), (4)."""
        dt, first = self._dt, self._first
        dpush = self._push_q @ given.q + self._push_v @ given.v + given.push
        dq, dspeed = given.q, given.v
        if first is not None:
            dq = self._to_here[0] @ given.q + self._to_here[1] @ given.v
            dspeed = given.v + 0.5 * dt * (first.dq @ dq + first.dv @ given.v + first.dtau @ dpush)
        dv = given.v + dt * (self._Minv @ (dpush - self._F_q @ dq - self._F_v @ dspeed))
        right = self._E_w @ (self._all @ dv) + self._E_q @ dq
        right = right + self._E_mu @ given.friction + self._E_h @ given.height
        dv = dv - self._Minv @ (_T(self._all) @ (self._inverse @ right))
        return self._to_end[0] @ dq + self._to_end[1] @ dv, dv

    def gradients(self, q_weights: Array, v_weights: Array, part: slice = slice(None)) -> tuple[Array, ...]:
        """What `changes` is, transposed: of q, v, push, friction and heights, for some of the samples."""
        dt = self._dt

        def times(matrix: Array, x: Array) -> Any:
            return (_T(matrix[part]) @ x[..., None])[..., 0]

        v_bar = v_weights + times(self._to_end[1], q_weights)
        q_bar = times(self._to_end[0], q_weights)
        right = -times(self._inverse, (self._all[part] @ (self._Minv[part] @ v_bar[..., None]))[..., 0])
        pressed = times(self._E_w, right)
        v_bar = v_bar + times(self._all, pressed)
        x = dt * (self._Minv[part] @ v_bar[..., None])[..., 0]
        q_bar = q_bar + times(self._E_q, right) - times(self._F_q, x)
        speed, push = -times(self._F_v, x), x
        v_in = v_bar + speed
        if self._first is not None:
            first, ahead = self._first, 0.5 * dt * speed
            q_bar, push = q_bar + times(first.dq, ahead), push + times(first.dtau, ahead)
            v_in = v_in + times(first.dv, ahead) + times(self._to_here[1], q_bar)
            q_bar = times(self._to_here[0], q_bar)
        q_bar, v_in = q_bar + times(self._push_q, push), v_in + times(self._push_v, push)
        return q_bar, v_in, push, times(self._E_mu, right), times(self._E_h, right)

    def forces(self, frame: str, push: Array) -> Any:
        """Gradients with respect to a wrench on a frame."""
        return (self._robot.jacobian(self._here, frame) @ push[..., None])[..., 0]

    def pushed(self, frame: str, wrench: Array) -> Any:
        """Joint forces of a wrench on a frame."""
        return (_T(self._robot.jacobian(self._here, frame)) @ wrench[..., None])[..., 0]


def _undetermined(S: Array, J: Array, E_w: Array, sliding: Array) -> Any:
    """Whether null vectors of S move something, or press on contacts that slide."""
    scaled = S / np.maximum(np.abs(S).max(axis=2, keepdims=True), 1e-300)
    _, sizes, V = np.linalg.svd(scaled)
    loose = np.where(sizes[:, :, None] > _RANK * sizes[:, :1, None], 0.0, V)
    P = _T(loose) @ loose
    found = np.abs(P @ J).max(axis=(1, 2)) > _LOOSE * np.abs(J).max(axis=(1, 2))
    for i in range(sliding.shape[1]):
        normal = E_w[:, 3 * i : 3 * i + 1]  # of those that slide
        found |= sliding[:, i] & (np.abs(normal @ P).max(axis=(1, 2)) > _LOOSE)
    return found


def _T(matrix: Array) -> Array:
    return np.swapaxes(matrix, -1, -2)


def _pushed(plant: Any, q: Array, v: Array, tau: Array) -> tuple[Array, Array, Array]:
    """Joint forces with springs and dampers, and their derivatives with respect to q and v."""
    robot, dt, D, K = plant.robot, plant.dt, plant.damping, plant.stiffness
    if not (D.any() or K.any()):
        none = np.zeros((len(q), robot.nv, robot.nv))
        return tau, none, none
    stretch = robot.difference(plant.rest, q) + dt * v
    by_q = -K[:, None] * robot.ddifference(plant.rest, q)[1]
    return tau - D * v - K * stretch, by_q, np.broadcast_to(-np.diag(D + dt * K), by_q.shape)


def _skew(v: Array) -> Array:
    x, y, z = np.moveaxis(v, -1, 0)
    o = np.zeros_like(x)
    return np.stack([np.stack([o, -z, y], -1), np.stack([z, o, -x], -1), np.stack([-y, x, o], -1)], -2)


def _dot(a: Array, b: Array) -> Any:
    return np.einsum("bi,bi->b", a, b)


def _tangent(n: Array) -> Array:
    """Some direction across n."""
    other = np.where(np.abs(n[:, :1]) < 0.9, np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
    t = np.cross(n, other)
    unit: Array = t / np.linalg.norm(t, axis=-1, keepdims=True)
    return unit
