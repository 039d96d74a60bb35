"""Rigid contacts with Coulomb friction between points of a robot and its environment.

With v_f the velocities that the robot would have without contacts, impulses λ along the rows of all contacts give

    u = G λ + g         G = C Λ⁻¹ Cᵀ         g = C J v_f, normal rows + (h > 0 ? h : β h)/dt       (1)

J and Λ⁻¹ are those of the bodies that may touch, six rows each, with constraints eliminated; C maps their twists to
the velocities of points, tangents first. h is the gap: a point may close its gap within the step but not more, and a
fraction β of any penetration is corrected in each step. Impulses obey Signorini's and Coulomb's laws:

    λ ∈ K_μ,   u + (0, 0, μ‖u_t‖) ∈ K_μ*,   λ ⊥ u + (0, 0, μ‖u_t‖)                                (2)

solved by a fixed number of sweeps of projected Gauss–Seidel (`kinetree.algorithms.contact_sweep`), so that the bits of
a sample do not depend on others. `residual` measures the violation of (2), relative to the largest impulse. With poor
mass ratios, such as a light body under a heavy one, sweeps converge slowly and the residual is large.

[D17] T. Duff et al., "Building an orthonormal basis, revisited", Journal of Computer Graphics Techniques 6, 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from kinetree.algorithms.contact_sweep import contact_sweep
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.kernels import bind
from kinetree.errors import InputError
from kinetree.model.model import Model
from kinetree.operational_space.products import product, times
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.topology import WORLD
from kinetree.simulation.shapes import Plane, Shape
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array

#: β: fraction of a penetration that is corrected in each step.
_RECOVERY = 0.2
# Avoids division by zero for immobile rows; far below any inverse mass.
_IMMOBILE = 1e-30


@dataclass(frozen=True, eq=False)
class Points:
    """Contact points of a body.

    Attributes:
        frame: Name of a frame.
        positions: Positions in the frame, (k, 3) or (3,) [m].
    """

    frame: str
    positions: Any

    def __post_init__(self) -> None:
        try:
            positions = np.array(self.positions, dtype=float)
        except (TypeError, ValueError):
            raise InputError(f"points of {self.frame!r}: positions are not numbers") from None
        positions = positions[None] if positions.ndim == 1 else positions
        if positions.ndim != 2 or positions.shape[1] != 3 or not len(positions) or not np.isfinite(positions).all():
            raise InputError(f"points of {self.frame!r}: positions are (k, 3), finite; got shape {positions.shape}")
        positions.setflags(write=False)
        object.__setattr__(self, "positions", positions)


class Impulses(NamedTuple):
    """Effect of contacts in a step.

    Attributes:
        velocity: Joint velocities after the step, (…, nv).
        forces: Mean forces on the points, in world axes, (…, k, 3) [N].
        residual: Violation of (2), relative to the largest impulse, (…).
        penetration: Depth of the deepest point, (…) [m].
    """

    velocity: Array
    forces: Array
    residual: Array
    penetration: Array


class Contacts:
    """Contacts between points of a robot and its environment.

    Args:
        robot: The robot.
        points: Points that may touch.
        ground: Shapes that they may touch.
        constraints: Tasks that are held fixed, and eliminated.
        sweeps: Number of projected Gauss–Seidel sweeps.
    """

    def __init__(
        self, robot: Model, points: Sequence[Points], ground: Sequence[Shape], constraints: Sequence[Any], sweeps: int
    ) -> None:
        for one in points:
            if not isinstance(one, Points):
                raise InputError(f"contacts holds simulation.Points, got {type(one).__name__}")
        for shape in ground:
            if not isinstance(shape, Shape):
                raise InputError(f"ground holds shapes such as simulation.Plane, got {type(shape).__name__}")
        if not isinstance(sweeps, int) or sweeps < 1:
            raise InputError(f"sweeps={sweeps!r} is not a positive number of sweeps")
        self._robot, self._ground = robot, tuple(ground) or (Plane(),)
        self._frames = list(dict.fromkeys(one.frame for one in points))
        self._tasks = robot.tasks(self._frames, reference="local_world_aligned", contacts=constraints)
        self._owner = [self._frames.index(one.frame) for one in points for _ in one.positions]
        self._positions = np.concatenate([one.positions for one in points])
        self._sweeps, self._sweep = sweeps, _sweep(len(self._owner) * len(self._ground))

    def apply(self, q: Array, v: Array, dt: float) -> Impulses:
        """Velocities after a step with contact impulses.

        Args:
            q: Configurations, (…, nq).
            v: Joint velocities without contacts, (…, nv).
            dt: Time step [s].
        """
        poses = self._robot.pose(q, self._frames)[..., self._owner, :, :]
        arms = times(poses[..., :3, :3], self._positions)
        points = poses[..., :3, 3] + arms
        gaps, normals, frictions = self._nearest(points)
        C = self._rows(np.concatenate([arms] * len(self._ground), axis=-2), normals)
        J, A, response = self._dynamics(q)
        back = np.swapaxes(C, -1, -2)
        G = product(C, product(A, back))
        G = 0.5 * (G + np.swapaxes(G, -1, -2)) + _IMMOBILE * np.eye(G.shape[-1])
        u = times(C, times(J, v))
        u[..., 2::3] += np.where(gaps > 0.0, gaps, _RECOVERY * gaps) / dt
        g, part = u.copy(), np.zeros_like(u)
        for _ in range(self._sweeps):
            u, part = self._sweep(G, u, part, frictions)
        after = v + times(response, times(back, part))
        axes = self._axes(normals)
        local = part.reshape(*part.shape[:-1], -1, 3)
        forces = times(np.swapaxes(axes, -1, -2), local) / dt
        # a point may touch several shapes: its forces add up
        count = len(self._owner)
        total = forces[..., :count, :]
        for i in range(1, len(self._ground)):
            total = total + forces[..., i * count : (i + 1) * count, :]
        return Impulses(after, total, _residual(G, g, part, frictions), np.maximum(-gaps.min(axis=-1), 0.0))

    def _nearest(self, points: Array) -> tuple[Array, Array, Array]:
        """Gaps (…, n), normals (…, n, 3) and friction (3 n,) of all pairs of a shape and a point."""
        found = [shape.gap(points) for shape in self._ground]
        frictions = np.repeat([shape.friction for shape in self._ground], 3 * len(self._owner))
        return np.concatenate([h for h, _ in found], axis=-1), np.concatenate([n for _, n in found], axis=-2), frictions

    @staticmethod
    def _axes(normals: Array) -> Array:
        """Tangents and normal of each contact as rows, (…, n, 3, 3)."""
        x, y, z = normals[..., 0], normals[..., 1], normals[..., 2]
        # [D17]: an orthonormal basis whose only branch is the sign of z
        sign = np.where(z < 0.0, -1.0, 1.0)
        a = -1.0 / (sign + z)
        b = x * y * a
        first = np.stack([1.0 + sign * x * x * a, sign * b, -sign * x], axis=-1)
        second = np.stack([b, sign + y * y * a, -y], axis=-1)
        return np.stack([first, second, normals], axis=-2)

    def _rows(self, arms: Array, normals: Array) -> Array:
        """C, (…, 3 n, 6 f): row a of a contact at arm r is a · (v + ω × r)."""
        axes = self._axes(normals)
        turning = np.cross(arms[..., None, :], axes)
        C = np.zeros((*axes.shape[:-2], 3, 6 * len(self._frames)))
        for i, owner in enumerate(self._owner * len(self._ground)):
            C[..., i, :, 6 * owner : 6 * owner + 3] = turning[..., i, :, :]
            C[..., i, :, 6 * owner + 3 : 6 * owner + 6] = axes[..., i, :, :]
        return C.reshape(*C.shape[:-3], -1, C.shape[-1])

    def _dynamics(self, q: Array) -> tuple[Array, Array, Array]:
        """J, Λ⁻¹ and M⁻¹Jᵀ of the bodies that may touch."""
        if self._tasks.held:
            state: Any = self._tasks.at(q)
            return state.jacobian, state.inverse_inertia, state._response
        recursions = self._tasks.core.recursions
        return recursions.jacobian(q), recursions.inverse_inertia(q), recursions.response(q)


def _residual(G: Array, g: Array, impulse: Array, friction: Array) -> Array:
    """‖λ − P_K(λ − s (u + Γ))‖ over the largest impulse, where s of each contact is the inverse of its largest G_ii."""
    u = times(G, impulse) + g
    own = np.diagonal(G, axis1=-2, axis2=-1)
    u, part, own = (x.reshape(*x.shape[:-1], -1, 3) for x in (u, impulse, own))
    mu = friction[2::3]
    s = 1.0 / own.max(axis=-1, keepdims=True)
    slip = np.sqrt(u[..., 0] ** 2 + u[..., 1] ** 2)
    moved = part - s * u
    moved[..., 2] -= s[..., 0] * mu * slip
    t, n = np.sqrt(moved[..., 0] ** 2 + moved[..., 1] ** 2), moved[..., 2]
    inside, polar = t <= mu * n, mu * t <= -n
    k = (mu * t + n) / (1.0 + mu * mu)
    edge = np.stack([*(mu * k * moved[..., i] / np.where(t > 0.0, t, 1.0) for i in (0, 1)), k], axis=-1)
    cone = np.where(inside[..., None], moved, np.where(polar[..., None], 0.0, edge))
    largest = np.maximum(np.abs(part).max(axis=(-1, -2)), 1e-12)
    result: Array = np.abs(part - cone).max(axis=(-1, -2)) / largest
    return result


@lru_cache(maxsize=32)
def _sweep(contacts: int) -> Compiled:
    """The sweep over contacts, which belong to the world, so that all robots share the compiled code."""
    nothing = Mechanism((), (), (), (), np.zeros(3))
    place = Transform.identity().data
    sites = [Site(str(i), WORLD, place, (3, 4, 5)) for i in range(contacts)]
    return bind(contact_sweep, nothing, sites, contact_sweep.name)
