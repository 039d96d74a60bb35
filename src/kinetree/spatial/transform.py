"""Coordinate transforms between two frames: 12 numbers instead of a 6×6 matrix."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, overload

import numpy as np

from kinetree.spatial.inertia import ArticulatedCoriolis, ArticulatedInertia, CoriolisInertia, RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.reproducible import apply, product
from kinetree.spatial.rotation import cross, pack3, rotate_symmetric, skew, stack, symmetric_product, unpack3
from kinetree.spatial.value import Array, Transposed, Value


class RigidTransform(Value):
    """What transforms from the frame A of a body to the frame B of another have in common."""

    __slots__ = ()

    @property
    def T(self) -> Transposed[Force, Force]:
        """Transforms forces from frame B back to frame A."""
        return Transposed(self._force_back)

    @overload
    def congruence(self, inertia: RigidInertia) -> RigidInertia: ...
    @overload
    def congruence(self, inertia: ArticulatedInertia) -> ArticulatedInertia: ...
    @overload
    def congruence(self, inertia: CoriolisInertia) -> CoriolisInertia: ...
    @overload
    def congruence(self, inertia: ArticulatedCoriolis) -> ArticulatedCoriolis: ...
    def congruence(
        self, inertia: RigidInertia | ArticulatedInertia | CoriolisInertia | ArticulatedCoriolis
    ) -> RigidInertia | ArticulatedInertia | CoriolisInertia | ArticulatedCoriolis:
        """Xᵀ I X: an inertia given in frame B, expressed in frame A."""
        if isinstance(inertia, RigidInertia):
            return self._rigid_congruence(inertia)
        if isinstance(inertia, CoriolisInertia):
            return self._coriolis_congruence(inertia)
        if isinstance(inertia, ArticulatedCoriolis):
            return self._articulated_coriolis_congruence(inertia)
        return self._articulated_congruence(inertia)

    @abstractmethod
    def _force_back(self, force: Force) -> Force: ...

    @abstractmethod
    def _rigid_congruence(self, inertia: RigidInertia) -> RigidInertia: ...

    @abstractmethod
    def _articulated_congruence(self, inertia: ArticulatedInertia) -> ArticulatedInertia: ...

    @abstractmethod
    def _coriolis_congruence(self, inertia: CoriolisInertia) -> CoriolisInertia: ...

    @abstractmethod
    def _articulated_coriolis_congruence(self, inertia: ArticulatedCoriolis) -> ArticulatedCoriolis: ...


class Transform(RigidTransform):
    """Transforms spatial quantities from frame A to frame B.

    `E` rotates A's coordinates into B's; `r` is the position of B's origin relative to A's, in A's coordinates [m]. For
    a body B connected to A by a joint this is the motion transform ᴮX_A, Jain's A*(p, k).
    """

    __slots__ = ()
    size = 12

    @classmethod
    def of(cls, E: Any, r: Any) -> Transform:
        """From rotation and origin."""
        return cls(stack(E, r))

    @classmethod
    def identity(cls) -> Transform:
        return cls.of(np.eye(3), np.zeros(3))

    @classmethod
    def from_matrix(cls, matrix: Array) -> Transform:
        """From the 6×6 matrix of a motion transform, as returned by `matrix`."""
        E = matrix[:3, :3]
        lever = -(E.T @ matrix[3:, :3])  # r×
        return cls.of(E, np.array([lever[2, 1], lever[0, 2], lever[1, 0]]))

    @property
    def E(self) -> Array:
        return self.data[:9].reshape(3, 3)

    @property
    def r(self) -> Array:
        return self.data[9:]

    def _force_back(self, force: Force) -> Force:
        linear = self.E.T @ force.linear
        return Force.of(self.E.T @ force.angular + cross(self.r, linear), linear)

    @overload
    def __matmul__(self, other: Motion) -> Motion: ...
    @overload
    def __matmul__(self, other: Transform) -> Transform: ...
    def __matmul__(self, other: Motion | Transform) -> Motion | Transform:
        if isinstance(other, Motion):
            return Motion.of(self.E @ other.angular, self.E @ (other.linear - cross(self.r, other.angular)))
        if isinstance(other, Transform):
            return Transform.of(self.E @ other.E, other.r + other.E.T @ self.r)
        return NotImplemented

    def back(self, motion: Motion) -> Motion:
        """Transform a motion from frame B to frame A: X⁻¹ m, without forming X⁻¹."""
        angular = self.E.T @ motion.angular
        return Motion.of(angular, self.E.T @ motion.linear + cross(self.r, angular))

    def rate(self, motion: Motion) -> Transform:
        """Rates of change of the 12 numbers while frame B moves with a twist, given in B's coordinates."""
        return Transform.of(-(skew(motion.angular) @ self.E), self.E.T @ motion.linear)

    def inverse(self) -> Transform:
        """From frame B to frame A."""
        return Transform.of(self.E.T, -(self.E @ self.r))

    def _rigid_congruence(self, inertia: RigidInertia) -> RigidInertia:
        turned = stack(inertia.mass, self.E.T @ inertia.first_moment, rotate_symmetric(self.E, inertia.rotational))
        return shifted_rigid(RigidInertia(turned), self.r)

    def _articulated_congruence(self, inertia: ArticulatedInertia) -> ArticulatedInertia:
        E = self.E
        angular, linear = (unpack3(rotate_symmetric(E, block)) for block in (inertia.angular, inertia.linear))
        coupling = E.T @ (inertia.coupling @ E)
        return shifted_articulated(ArticulatedInertia.of(angular, coupling, linear), self.r)

    def _coriolis_congruence(self, inertia: CoriolisInertia) -> CoriolisInertia:
        turned = stack(self.E.T @ (inertia.block @ self.E), self.E.T @ inertia.lever)
        return shifted_coriolis(CoriolisInertia(turned), self.r)

    def _articulated_coriolis_congruence(self, inertia: ArticulatedCoriolis) -> ArticulatedCoriolis:
        moments, forces = (self.E.T @ (block @ self.E) for block in (inertia.moments, inertia.forces))
        return shifted_articulated_coriolis(moments, forces, self.r)

    def moment_of(self, inertia: RigidInertia) -> Array:
        """First mass moment of a body with frame B, about A's origin and in A's axes, (3,) [kg m]."""
        moment: Array = self.E.T @ inertia.first_moment + self.r * inertia.mass
        return moment

    @staticmethod
    def mass_of(inertia: RigidInertia) -> Any:
        """Mass of a body [kg]."""
        return inertia.mass

    def referred(self, slides: Any) -> tuple[Transform, Array]:
        """The transform from B's origin if `slides` is 1, from A's if it is 0; and how far A's origin then moves."""
        return Transform.of(self.E, self.r * (1.0 - slides)), self.r * slides

    def matrix(self) -> Array:
        """The dense 6×6 motion transform, for inspection."""
        zero = np.zeros((3, 3))
        return np.block([[self.E, zero], [-self.E @ skew(self.r), self.E]])


def shifted_rigid(inertia: RigidInertia, r: Array) -> RigidInertia:
    """An inertia about the point r, expressed about the origin, in the same axes."""
    moment = inertia.first_moment
    moved = moment + inertia.mass * r
    # r×, h× products of two skew matrices: −(r×)(h×) − (h′×)(r×), symmetric when summed
    shift = symmetric_product(skew(r), skew(moment)) + symmetric_product(skew(moved), skew(r))
    return RigidInertia(stack(inertia.mass, moved, pack3(inertia.rotational) - shift))


def shifted_articulated(inertia: ArticulatedInertia, r: Array) -> ArticulatedInertia:
    """An inertia about the point r, expressed about the origin, in the same axes."""
    K, coupling = skew(r), inertia.coupling
    moved = coupling + K @ inertia.linear
    # J + K Cᵀ + C Kᵀ + K L Kᵀ, in which the second and the last term have a common factor
    angular = pack3(inertia.angular) + symmetric_product(K, moved.T) + symmetric_product(coupling, K.T)
    return ArticulatedInertia.of(unpack3(angular), moved, inertia.linear)


def shifted_coriolis(inertia: CoriolisInertia, r: Array) -> CoriolisInertia:
    """Forces per unit angular velocity with moments about the point r, with moments about the origin instead."""
    return CoriolisInertia(stack(inertia.block - skew(r) @ skew(inertia.lever), inertia.lever))


def shifted_articulated_coriolis(moments: Array, forces: Array, r: Array) -> ArticulatedCoriolis:
    """The same for an `ArticulatedCoriolis`, given its blocks."""
    return ArticulatedCoriolis(stack(moments + skew(r) @ forces, forces))


# -- poses as 4×4 arrays ----------------------------------------------------------------------------------------------

#: The pose of a frame in itself; read-only.
IDENTITY: Array = np.ndarray((4, 4), np.float64, np.eye(4).tobytes())


def pose(R: Array, p: Array) -> Array:
    """A 4×4 pose from a rotation matrix and a position."""
    matrix: Array = IDENTITY.copy()
    matrix[:3, :3], matrix[:3, 3] = R, p
    return matrix


def composed(at: Array, pose: Array) -> Array:
    """The product of two poses."""
    if at is IDENTITY:
        return pose
    return at if pose is IDENTITY else product(at, pose)


def inverse(pose: Array) -> Array:
    """The inverse of a pose."""
    (found,) = inverses(pose[None])
    return np.asarray(found)


def inverses(poses: Array) -> Array:
    """The inverse of each pose, (n, 4, 4)."""
    found = IDENTITY[None].repeat(len(poses), 0)
    R = found[:, :3, :3] = poses[:, :3, :3].transpose(0, 2, 1)
    found[:, :3, 3] = -apply(R, poses[:, :3, 3])
    return found


def transform_of(placement: Array) -> Transform:
    """The transform from the coordinates in which a pose is expressed to those of the frame it places."""
    return Transform.of(placement[:3, :3].T, placement[:3, 3])


def pose_of(transform: Transform) -> Array:
    """The 4×4 pose of a transform's target frame in its source frame."""
    return pose(transform.E.T, transform.r)
