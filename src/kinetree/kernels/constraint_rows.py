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
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from kinetree.kernels.branchless import less
from kinetree.kernels.language import Kernel, Workspace, kernel
from kinetree.language.tree import Indexed
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
