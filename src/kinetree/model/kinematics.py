"""Kinematics of a model's frames.

`frames` is the name of one frame, or a sequence of names, for which the result has an axis: `pose(q, "hand")` is
(…, 4, 4), `pose(q, ["hand", "foot"])` is (…, 2, 4, 4). `reference` selects the reference point and axes of a motion:

    "local"                  the frame's origin, in the frame's axes
    "local_world_aligned"    the frame's origin, in the world's axes
    "world"                  the point of the body at the world's origin, in the world's axes

Motions are twists, angular part first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from numpy.typing import ArrayLike

from kinetree.algorithms.kinematic_derivatives import JACOBIAN_RATES, VELOCITY_DERIVATIVES
from kinetree.algorithms.kinematics import (
    ACCELERATIONS,
    CLASSICAL_ACCELERATIONS,
    JACOBIANS,
    JACOBIANS_DOT_V,
    VELOCITIES,
    poses,
)
from kinetree.engines.quantity import frame_quantity
from kinetree.recursion.common_frame import View
from kinetree.spatial.value import Array

Frames = str | Sequence[str]
Reference = Literal["local", "local_world_aligned", "world"]

#: Where single motions take the fewest operations: those in the frame's own axes need no pose.
_OF_MOTIONS: dict[str, View] = {"local": "own", "local_world_aligned": "common", "world": "common"}


class Kinematics:
    """The kinematics of a model's frames."""

    @frame_quantity(poses)
    def pose(self, q: ArrayLike, frames: Frames | None = None, *, out: Array | None = None) -> Array:
        """Homogeneous transforms from frames to the world, (…, 4, 4) [m].

        Args:
            q: Configuration, (…, nq).
            frames: One name, or a sequence of m names: (…, m, 4, 4). All of `robot.frames` by default.
            out: Array for the result.
        """

    @frame_quantity(VELOCITIES, view=_OF_MOTIONS)
    def velocity(
        self,
        q: ArrayLike,
        v: ArrayLike,
        frames: Frames | None = None,
        reference: Reference = "local",
        *,
        out: Array | None = None,
    ) -> Array:
        """Twists of frames, angular part first, (…, 6) [rad/s, m/s].

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            frames: One name, or a sequence of m names: (…, m, 6). All of `robot.frames` by default.
            reference: "local" (the frame's axes and origin), "local_world_aligned" (its origin, the world's axes) or
                "world" (the world's axes and origin).
            out: Array for the result.
        """

    @frame_quantity(ACCELERATIONS, classical=CLASSICAL_ACCELERATIONS, view=_OF_MOTIONS)
    def acceleration(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        frames: Frames | None = None,
        reference: Reference = "local",
        classical: bool = False,
        *,
        out: Array | None = None,
    ) -> Array:
        """Rates of change of frames' twists, J a + J̇v, (…, 6) [rad/s², m/s²].

        This is the time derivative of the components that `velocity` returns for the same reference. In axes that
        turn with the frame, it is not what moves a mass: with `classical=True`, the linear part is the acceleration of
        the point itself, v̇ + ω × v. An accelerometer at a frame measures this, less free fall, in its own axes:

            R = robot.pose(q, "imu")[:3, :3]
            measured = robot.acceleration(q, v, a, "imu", classical=True)[3:] - R.T @ robot.gravity

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            a: Joint accelerations, (…, nv).
            frames: One name, or a sequence of m names: (…, m, 6). All of `robot.frames` by default.
            reference: As for `velocity`.
            classical: Whether to return the angular acceleration of the body and the acceleration of the point that
                `reference` names, in its axes. For "local_world_aligned", this is the same.
            out: Array for the result.
        """

    @frame_quantity(JACOBIANS, view="common")
    def jacobian(
        self, q: ArrayLike, frames: Frames, reference: Reference = "local", *, out: Array | None = None
    ) -> Array:
        """Jacobians of frames, which map v to twists, angular part first, (…, 6, nv).

        Args:
            q: Configuration, (…, nq).
            frames: One name, or a sequence of m names: (…, m, 6, nv).
            reference: "local" (the frame's axes and origin), "local_world_aligned" (its origin, the world's axes) or
                "world" (the world's axes and origin).
            out: Array for the result.
        """

    @frame_quantity(JACOBIANS_DOT_V, view=_OF_MOTIONS)
    def jacobian_dot_v(
        self, q: ArrayLike, v: ArrayLike, frames: Frames, reference: Reference = "local", *, out: Array | None = None
    ) -> Array:
        """J̇v, the rates of change of frames' twists at zero joint accelerations, (…, 6) [rad/s², m/s²].

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            frames: One name, or a sequence of m names: (…, m, 6).
            reference: As for `jacobian`.
            out: Array for the result.
        """

    @frame_quantity(JACOBIAN_RATES, view="common")
    def jacobian_rate(
        self, q: ArrayLike, v: ArrayLike, frames: Frames, reference: Reference = "local", *, out: Array | None = None
    ) -> Array:
        """Time derivative J̇ of frames' Jacobians as q moves with v, (…, 6, nv).

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            frames: One name, or a sequence of m names: (…, m, 6, nv).
            reference: As for `jacobian`.
            out: Array for the result.
        """

    @frame_quantity(VELOCITY_DERIVATIVES, view="common")
    def velocity_derivative(
        self, q: ArrayLike, v: ArrayLike, frames: Frames, reference: Reference = "local", *, out: Array | None = None
    ) -> Array:
        """∂(J v)/∂q of frames' twists, along the tangent, (…, 6, nv).

        The derivative of the twist with respect to v is J, and so is that of the pose with respect to q, since the
        tangent of a pose is a twist.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            frames: One name, or a sequence of m names: (…, m, 6, nv).
            reference: As for `jacobian`.
            out: Array for the result.
        """
