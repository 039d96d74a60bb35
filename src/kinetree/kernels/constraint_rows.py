"""Constrained rows that are not components of a frame's motion, and forces along constrained rows of any kind.

Each kind of row has an error φ, a row of J with φ̇ = J v, and a drift J̇v:

    distance    φ = |p_b − p_a| − length
    hinge       φ = tilt of the second axis in the first frame, and displacement; J is that of a relative task
    coupling    φ = a formula of joint coordinates

Forces λ along rows that should accelerate by b, from unconstrained accelerations a_f:

    Λ⁻¹ λ = b − kp φ − kd J v − J̇v − J a_f,        a = a_f + M⁻¹Jᵀλ,        Λ⁻¹ = J M⁻¹Jᵀ

    J, drift, error      J, J̇v and φ of r rows; gains are kp and kd, wanted is b
    response, inertia    J M⁻¹ and Λ
    v, a                 velocities and unconstrained accelerations of n degrees of freedom
    poses                of two frames

Cost O(r² n).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import Any, Protocol

import numpy as np

from kinetree.kernels.branchless import less
from kinetree.kernels.language import Kernel, Workspace, kernel
from kinetree.language.forward_mode import coordinate_derivative, joined, parts
from kinetree.language.tree import Indexed
from kinetree.spatial.dual import OF_NODE
from kinetree.spatial.scalar import sqrt
from kinetree.spatial.screw import dot
from kinetree.spatial.value import Array


class Formula(Protocol):
    """A function of some numbers, with constants."""

    @property
    def name(self) -> str:
        """Unique among different formulas."""

    @property
    def constants(self) -> int:
        """Number of constants."""

    def value(self, c: Array, x: Array) -> Any:
        """The value."""

    def slopes(self, c: Array, x: Array) -> Array:
        """Its derivatives."""

    def curvature(self, c: Array, x: Array, rate: Array) -> Any:
        """Its second derivative at constant rates of the arguments."""


def constants_of(formula: Formula) -> int:
    """Length of the array of a formula's constants, which is never empty."""
    return max(1, formula.constants)


@lru_cache(maxsize=256)
def formula_value(formula: Formula, arguments: int) -> Kernel:
    """The value of a formula of `arguments` numbers x and constants c."""

    def formula_value(_k: Workspace, x: Indexed, c: Indexed, value: Indexed) -> None:
        value[...] = formula.value(c[...][: formula.constants], x[...])

    declare = kernel(x=(arguments,), c=(constants_of(formula),), value=(), outputs=("value",))
    return replace(declare(formula_value), name=f"formula_value_{formula.name}")


@lru_cache(maxsize=256)
def formula_row(formula: Formula, arguments: int) -> Kernel:
    """Slopes and drift of a formula of joint coordinates x.

    `rate` and `follow` are velocities of these joints, and their accelerations where all independent ones are zero.
    """

    def formula_row(
        _k: Workspace, x: Indexed, rate: Indexed, follow: Indexed, c: Indexed, slopes: Indexed, drift: Indexed
    ) -> None:
        given, constants = x[...], c[...][: formula.constants]
        found = formula.slopes(constants, given)
        slopes[...] = found
        drift[...] = formula.curvature(constants, given, rate[...]) + found @ follow[...]

    own = (arguments,)
    declare = kernel(
        x=own, rate=own, follow=own, c=(constants_of(formula),), slopes=own, drift=(), outputs=("slopes", "drift")
    )
    return replace(declare(formula_row), name=f"formula_row_{formula.name}")


@lru_cache(maxsize=256)
def formula_forces(formula: Formula, arguments: int) -> Kernel:
    """Forces on the joints x of a formula by a force along it."""

    def formula_forces(_k: Workspace, x: Indexed, c: Indexed, force: Indexed, forces: Indexed) -> None:
        forces[...] = formula.slopes(c[...][: formula.constants], x[...]) * force[...][0]

    declare = kernel(x=(arguments,), c=(constants_of(formula),), force=(1,), forces=(arguments,), outputs=("forces",))
    return replace(declare(formula_forces), name=f"formula_forces_{formula.name}")


@lru_cache(maxsize=256)
def formula_changes(formula: Formula, arguments: int) -> Kernel:
    """How a row ψ = ẍ·slopes + curvature + kp φ + kd ẋ·slopes of a formula changes; and ∂(Jᵀλ)/∂q.

    x, rate and acceleration are those of its joints; G, rates_q, accelerations_q and accelerations_v their derivatives,
    and forces_q is ∂(Gᵀ τ)/∂q for given forces on them.
    """
    own, each = (arguments,), (arguments, "n")

    def formula_changes(
        k: Workspace, x: Indexed, rate: Indexed, acceleration: Indexed, c: Indexed, force: Indexed, gains: Indexed,
        G: Indexed, rates_q: Indexed, accelerations_q: Indexed, accelerations_v: Indexed, forces_q: Indexed,
        psi_q: Indexed, psi_v: Indexed, stiffness: Indexed,
    ) -> None:  # fmt: skip
        given, constants, ((kp, kd),) = x[...], c[...][: formula.constants], gains[...]
        moving, pushed, along = rate[...], acceleration[...], force[...][0]
        bent, dual = [k.array("n") for _ in range(arguments)], partial(joined, level=OF_NODE)

        def psi(at: Array, moving: Array, pushed: Array) -> tuple[Array, Array]:
            slopes = formula.slopes(constants, at)
            error = formula.value(constants, at)
            value = slopes @ (pushed + kd * moving) + formula.curvature(constants, at, moving) + kp * error
            return np.array([parts(value, OF_NODE)[1]]), np.array([parts(slope, OF_NODE)[1] for slope in slopes])

        for j in k.n:
            shift, faster, change = G[j], rates_q[j], accelerations_q[j]
            (by_q,), slopes = psi(dual(given, shift), dual(moving, faster), dual(pushed, change))
            (by_v,), _ = psi(given, dual(moving, shift), dual(pushed, accelerations_v[j]))
            psi_q[j], psi_v[j] = by_q, by_v
            for array, entry in zip(bent, slopes, strict=True):
                array[j] = entry * along
        for i in k.n:
            lever = G[i]
            for j in k.n:
                turned = sum(x * array[j] for x, array in zip(lever, bent, strict=True))
                stiffness[i, j] = forces_q[i, j] + turned

    declare = kernel(
        x=own, rate=own, acceleration=own, c=(constants_of(formula),), force=(1,), gains=(1, 2),
        G=each, rates_q=each, accelerations_q=each, accelerations_v=each, forces_q=("n", "n"),
        psi_q=("n",), psi_v=("n",), stiffness=("n", "n"), outputs=("psi_q", "psi_v", "stiffness"),
    )  # fmt: skip
    return replace(declare(formula_changes), name=f"formula_changes_{formula.name}")


@kernel(poses=(2, 4, 4), length=(), error=(), outputs=("error",))
def distance_error(_k: Workspace, poses: Indexed, length: Indexed, error: Indexed) -> None:
    """By how much the distance between two frames exceeds a length."""
    apart = poses[...][1, :3, 3] - poses[...][0, :3, 3]
    error[...] = sqrt(dot(apart, apart)) - length[...]


@kernel(
    v=("n",), J=(6, "n"), drift=(6,), poses=(2, 4, 4), row=("n",), bent=(), velocity=(3,),
    outputs=("row", "bent", "velocity"), sparse=("velocity",),
)  # fmt: skip
def distance_row(
    k: Workspace, v: Indexed, J: Indexed, drift: Indexed, poses: Indexed, row: Indexed, bent: Indexed,
    velocity: Indexed,
) -> None:  # fmt: skip
    """The distance between two points at frames: its rate per joint velocity, J̇v, and their relative velocity.

    J and drift are those of both points, in world axes.
    """
    ends, drifts = poses[...], drift[...]
    apart = ends[1, :3, 3] - ends[0, :3, 3]
    distance = sqrt(dot(apart, apart))
    along = apart / distance
    for c in k.n:
        each = J[c]
        relative = each[3:] - each[:3]
        velocity[...] = velocity[...] + relative * v[c]
        row[c] = dot(along, relative)
    moving = velocity[...]
    closing = dot(along, moving)
    across = (dot(moving, moving) - closing * closing) / distance
    bent[...] = dot(along, drifts[3:] - drifts[:3]) + across


@kernel(poses=(2, 4, 4), force=(1,), forces=(6,), outputs=("forces",))
def distance_forces(_k: Workspace, poses: Indexed, force: Indexed, forces: Indexed) -> None:
    """Forces on both points by a force along their distance, in world axes."""
    apart = poses[...][1, :3, 3] - poses[...][0, :3, 3]
    pull = apart / sqrt(dot(apart, apart)) * force[...][0]
    forces[...] = np.concatenate([-pull, pull])


@kernel(
    v=("n",), a=("n",), J=(6, "n"), drift=(6,), poses=(2, 4, 4), force=(1,), gains=(1, 2), turned=(2, 6, "n"),
    ends_q=(6, "n"), ends_v=(6, "n"), ends_turned=(6, "n"), psi_q=("n",), psi_v=("n",), stiffness=("n", "n"),
    outputs=("psi_q", "psi_v", "stiffness"),
)  # fmt: skip
def distance_changes(
    k: Workspace, v: Indexed, a: Indexed, J: Indexed, drift: Indexed, poses: Indexed, force: Indexed, gains: Indexed,
    turned: Indexed, ends_q: Indexed, ends_v: Indexed, ends_turned: Indexed, psi_q: Indexed, psi_v: Indexed,
    stiffness: Indexed,
) -> None:  # fmt: skip
    """How the row ψ = e·ü + (u² − (e·u)²)/d + kp (d − length) + kd e·u of a distance changes; and ∂(Jᵀλ)/∂q.

    u and ü are the relative velocity and acceleration of the points, d e the way between them. `turned` is ∂(J v)/∂q of
    both frames; ends_q and ends_v are derivatives of the points' accelerations, ends_turned the change of the forces on
    them in axes that turn with the frames.
    """
    places, drifts, ((kp, kd),) = poses[...], drift[...], gains[...]
    apart = places[1, :3, 3] - places[0, :3, 3]
    d = sqrt(dot(apart, apart))
    e = apart / d
    changes, motion = [k.array("n") for _ in range(6)], [k.scalar(0.0) for _ in range(6)]
    for c in k.n:
        way = J[c][3:] - J[c][:3]
        for each, entry in zip(motion, np.concatenate([way * v[c], way * a[c]]), strict=True):
            each[...] = each[...] + entry
    moving = np.array([each[...] for each in motion])
    u, pushed = moving[:3], moving[3:] + drifts[3:] - drifts[:3]
    closing = dot(e, u)
    across = (dot(u, u) - closing * closing) / d
    for c in k.n:
        way, change = J[c][3:] - J[c][:3], turned[c][1, 3:] - turned[c][0, 3:]
        longer = dot(e, way)
        turn = (way - e * longer) / d
        swept = dot(turn, u) + dot(e, change)
        bent = 2.0 * (dot(u, change) - closing * swept) / d - across * longer / d
        psi_q[c] = dot(turn, pushed) + dot(e, ends_q[c][3:] - ends_q[c][:3]) + bent + kp * longer + kd * swept
        faster = 2.0 * (dot(u, way) - closing * longer) / d
        psi_v[c] = dot(e, ends_v[c][3:] - ends_v[c][:3]) + faster + kd * longer
        pull = turn * force[...][0]
        for array, entry in zip(changes, ends_turned[c] + np.concatenate([-pull, pull]), strict=True):
            array[c] = entry
    for i in k.n:
        lever = J[i]
        for j in k.n:
            stiffness[i, j] = sum(x * array[j] for x, array in zip(lever, changes, strict=True))


@cache
def change_of(kernel: Kernel) -> Kernel:
    """The change of a kernel's results along changes of its inputs, which follow them, but of constants and gains."""
    moving = {f"d{one.name}": one.name for one in kernel.inputs if one.name not in ("c", "gains")}
    results = tuple(f"d{one.name}" for one in kernel.outputs)
    return coordinate_derivative(kernel, f"change_of_{kernel.name}", moving, results)


@kernel(poses=(2, 4, 4), error=(5,), outputs=("error",))
def hinge_error(_k: Workspace, poses: Indexed, error: Indexed) -> None:
    """How far two frames are from a hinge about their z axes: tilt about x and y, displacement, in axes of one."""
    first, second = poses[...]
    into = first[:3, :3].T
    axis, way = into @ second[:3, 2], into @ (second[:3, 3] - first[:3, 3])
    # z × axis; a hinge does not tell the two ends of its axis apart
    sign = less(axis[2], 0.0, -1.0, 1.0)
    error[...] = np.array([-axis[1] * sign, axis[0] * sign, *way])


@kernel(
    J=("r", "n"), response=("r", "n"), A=("r", "r"), own=("r",), outputs=("A", "own"),
    symmetric=("A",),
)  # fmt: skip
def row_mobility(k: Workspace, J: Indexed, response: Indexed, A: Indexed, own: Indexed) -> None:
    """Λ⁻¹ of rows, and its diagonal."""
    for i in k.r:
        for j in k.r.since(i):
            A[i, j] = k.sum(J[i, c] * response[j, c] for c in k.n)
    for i in k.r:
        own[i] = A[i, i]


@kernel(
    J=("r", "n"), drift=("r",), error=("r",), v=("n",), a=("n",), wanted=("r",), gains=("r", 2),
    residual=("r",), outputs=("residual",), sparse=("residual",),
)  # fmt: skip
def row_residual(
    k: Workspace, J: Indexed, drift: Indexed, error: Indexed, v: Indexed, a: Indexed, wanted: Indexed, gains: Indexed,
    residual: Indexed,
) -> None:  # fmt: skip
    """What accelerations of rows lack: b − kp φ − kd J v − J̇v − J a."""
    for i in k.r:
        stiffness, damping = gains[i]
        residual[i] = wanted[i] - drift[i] - stiffness * error[i]
        for c in k.n:
            residual[i] = residual[i] - J[i, c] * (a[c] + damping * v[c])


@kernel(
    response=("r", "n"), inertia=("r", "r"), residual=("r",), a=("n",), force=("r",), moved=("n",),
    outputs=("force", "moved"), sparse=("force", "moved"),
)  # fmt: skip
def row_forces(
    k: Workspace, response: Indexed, inertia: Indexed, residual: Indexed, a: Indexed, force: Indexed, moved: Indexed
) -> None:
    """Forces Λ residual along rows, and joint accelerations with them, a + M⁻¹Jᵀ force."""
    for c in k.n:
        moved[c] = a[c]
    for i in k.r:
        force[i] = k.sum(inertia[i, j] * residual[j] for j in k.r)
        entry = force[i]
        for c in k.n:
            moved[c] = moved[c] + response[i, c] * entry
