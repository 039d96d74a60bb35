"""Joints of several degrees of freedom that are not about one axis, and the fixed joint."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from kinetree.model.joints.one_axis import Revolute
from kinetree.model.joints.protocol import JointKind, ScrewStage, Stage
from kinetree.spatial import screw
from kinetree.spatial.hinge import AxisMap, MotionColumns
from kinetree.spatial.rotation import normalized, rotation_of_quaternion, turn_about_z
from kinetree.spatial.scalar import sincos
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


@final
class Fixed(JointKind):
    """No coordinates."""

    name = "fixed"
    nq = 0
    nv = 0

    @property
    def stages(self) -> tuple[Stage, ...]:
        return ()


@final
class Welded(Stage):
    """A fixed joint as a node of its own: for the forces that it transmits."""

    name = "welded"
    nq = 0
    nv = 0

    def transform(self, placement: Transform, _own: Array, _q: Array) -> Transform:
        return placement

    def joint_map(self, _own: Array) -> MotionColumns:
        return MotionColumns(np.zeros(0), 0)


@final
class Floating(ScrewStage):
    """Position [m], then a quaternion w, x, y, z of any nonzero length.

    Velocities are the body-frame angular rate [rad/s], then the body-frame velocity of the origin [m/s].
    """

    name = "floating"
    nq = 7
    nv = 6
    limited = False
    screw = (0, 1, 2, 3, 4, 5)

    def transform(self, placement: Transform, _own: Array, q: Array) -> Transform:
        E = rotation_of_quaternion(q[3:]).T @ placement.E
        return Transform.of(E, placement.r + placement.E.T @ q[:3])

    def joint_map(self, _own: Array) -> AxisMap:
        return AxisMap(0, 1, 2, 3, 4, 5)

    def neutral(self) -> Array:
        return np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])

    def random(self, rng: np.random.Generator, shape: tuple[int, ...], _lower: Array, _upper: Array) -> Array:
        q = np.empty((*shape, 7))
        q[..., :3] = -1.0 + 2.0 * rng.random((*shape, 3))
        q[..., 3:] = normalized(rng.standard_normal((*shape, 4)))
        return q

    def integrate(self, q: Array, step: Array) -> Array:
        """Follows the screw motion of a constant body twist: the exponential of SE(3)."""
        turn = screw.normalized(q[3:])
        moved = screw.rotated(turn, screw.displacement(step[:3], step[3:]))
        return np.concatenate([q[:3] + moved, screw.turned(turn, step[:3])])

    def difference(self, q0: Array, q1: Array) -> Array:
        """The twist of the screw motion from q0 to q1 that turns by at most π."""
        turn = screw.normalized(q0[3:])
        angular, angle = screw.turn_between(turn, screw.scaled(q1[3:])[0])
        moved = screw.rotated(screw.conjugate(turn), q1[:3] - q0[:3])
        return np.concatenate([angular, screw.linear_velocity(angular, angle, moved)])

    def rates(self, q: Array, v: Array) -> Array:
        moved = rotation_of_quaternion(q[3:]) @ v[3:]
        return np.concatenate([moved, screw.quaternion_rates(q[3:], v[:3])])

    def tangent_map(self, q: Array) -> Array:
        turned = np.concatenate([np.zeros((3, 3)), screw.tangent_of_quaternion(q[3:])], axis=1)
        moved = np.concatenate([rotation_of_quaternion(screw.normalized(q[3:])).T, np.zeros((3, 4))], axis=1)
        return np.concatenate([turned, moved])

    def normalize(self, q: Array) -> Array:
        return np.concatenate([q[:3], screw.normalized(q[3:])])


@final
class Planar(ScrewStage):
    """x, y [m] and an angle [rad]; velocities are the angular rate, then x and y in the moving frame."""

    name = "planar"
    nq = 3
    nv = 3
    axes = 1
    angles = (False, False, True)
    screw = (2, 3, 4)

    def transform(self, placement: Transform, _own: Array, q: Array) -> Transform:
        moved = placement.r + placement.E[0] * q[0] + placement.E[1] * q[1]
        return Transform.of(turn_about_z(placement.E, *sincos(q[2])), moved)

    def joint_map(self, _own: Array) -> AxisMap:
        return AxisMap(2, 3, 4)

    def integrate(self, q: Array, step: Array) -> Array:
        twist = self.twist(step)
        x, y = _turned(screw.displacement(twist[:3], twist[3:]), *sincos(q[2]))
        return np.array([q[0] + x, q[1] + y, q[2] + step[0]])

    def difference(self, q0: Array, q1: Array) -> Array:
        """The shorter way round: angles that differ by more than half a turn are the same rotation as closer ones."""
        turn = screw.within_half_turn(q1[2] - q0[2])
        sine, cosine = sincos(q0[2])
        x, y = _turned(q1[:2] - q0[:2], -sine, cosine)
        w = np.array([0.0, 0.0, turn])
        velocity = screw.linear_velocity(w, screw.Angle.of(w), np.array([x, y, 0.0]))
        return np.array([turn, velocity[0], velocity[1]])

    def rates(self, q: Array, v: Array) -> Array:
        x, y = _turned(v[1:], *sincos(q[2]))
        return np.array([x, y, v[0]])

    def tangent_map(self, q: Array) -> Array:
        sine, cosine = sincos(q[2])
        return np.array([[0.0, 0.0, 1.0], [cosine, sine, 0.0], [-sine, cosine, 0.0]])


def _turned(xy: Array, sine: Any, cosine: Any) -> tuple[Any, Any]:
    return cosine * xy[0] - sine * xy[1], sine * xy[0] + cosine * xy[1]


@final
class Spherical(ScrewStage):
    """A quaternion w, x, y, z of any nonzero length; velocities are body-frame angular rates [rad/s]."""

    name = "spherical"
    nq = 4
    nv = 3
    limited = False
    screw = (0, 1, 2)

    def transform(self, placement: Transform, _own: Array, q: Array) -> Transform:
        return Transform.of(rotation_of_quaternion(q).T @ placement.E, placement.r)

    def joint_map(self, _own: Array) -> AxisMap:
        return AxisMap(0, 1, 2)

    def neutral(self) -> Array:
        return np.array([1.0, 0.0, 0.0, 0.0])

    def random(self, rng: np.random.Generator, shape: tuple[int, ...], _lower: Array, _upper: Array) -> Array:
        # the normal distribution is isotropic, so rotations are uniform
        return normalized(rng.standard_normal((*shape, 4)))

    def integrate(self, q: Array, step: Array) -> Array:
        return screw.turned(screw.normalized(q), step)

    def difference(self, q0: Array, q1: Array) -> Array:
        return screw.turn_between(screw.scaled(q0)[0], screw.scaled(q1)[0])[0]

    def rates(self, q: Array, v: Array) -> Array:
        return screw.quaternion_rates(q, v)

    def tangent_map(self, q: Array) -> Array:
        return screw.tangent_of_quaternion(q)

    def normalize(self, q: Array) -> Array:
        return screw.normalized(q)


@final
class Translational(Stage):
    """Three distances [m]."""

    name = "translational"
    rotates = False
    nq = 3
    nv = 3
    angles = (False, False, False)

    def transform(self, placement: Transform, _own: Array, q: Array) -> Transform:
        return Transform.of(placement.E, placement.r + placement.E.T @ q)

    def joint_map(self, _own: Array) -> AxisMap:
        return AxisMap(3, 4, 5)


@final
class Universal(JointKind):
    """Two angles [rad]. Split into two revolute stages, because a single joint map H would depend on q."""

    name = "universal"
    nq = 2
    nv = 2
    axes = 2
    angles = (True, True)

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (Revolute(), Revolute())
