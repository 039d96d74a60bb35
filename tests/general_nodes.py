"""Nodes that are not rigid bodies, written as users write them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import kinetree as kt
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Motion
from kinetree.spatial.rotation import rotation_of_quaternion, skew
from kinetree.spatial.transform import Transform


class Bead(kt.Node):
    """A point mass on a wire bent to the parabola z = k x², pulled to x = 0 by a spring, slowed by a damper."""

    def __init__(self, mass: float, k: float, stiffness: float = 0.0, damping: float = 0.0) -> None:
        self.constants = (mass, k, stiffness, damping)

    def inertia(self, c: Any, q: Any) -> Any:
        mass, k, x = c[0], c[1], q[0]
        z, slope = k * x * x, 2.0 * k * x
        T = np.array(
            [
                [0.0, z, 0.0, 1.0, 0.0, 0.0, 1.0],
                [-z, 0.0, x, 0.0, 1.0, 0.0, 0.0],
                [0.0, -x, 0.0, 0.0, 0.0, 1.0, slope],
            ]
        )
        return mass * (T.T @ T)

    def potential(self, c: Any, q: Any) -> Any:
        return 0.5 * c[2] * q[0] * q[0]

    def rayleigh(self, c: Any, q: Any, v: Any) -> Any:
        return 0.5 * c[3] * v[0] * v[0]


class Cart(kt.Node):
    """A rigid cart on a track bent to the parabola y = k x², along which it turns; bodies hang on it."""

    dimension = 6
    outlets: ClassVar = {"seat": 0}

    def __init__(self, k: float, mass: float, com: Any, inertia: Any) -> None:
        self.constants = (k, *RigidInertia.of(mass, com, np.asarray(inertia)).data)

    def weight(self, c: Any, q: Any) -> Any:
        x, slope = q[0], 2.0 * c[0] * q[0]
        cos = 1.0 / np.sqrt(1.0 + slope * slope)
        sin = slope * cos
        E = np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]])
        return Transform.of(E, np.array([x, c[0] * x * x, 0.0])).matrix()

    def joint_map(self, c: Any, q: Any) -> Any:
        slope = 2.0 * c[0] * q[0]
        stretch = 1.0 + slope * slope
        return np.array([[0.0], [0.0], [2.0 * c[0] / stretch], [np.sqrt(stretch)], [0.0], [0.0]])

    def inertia(self, c: Any, q: Any) -> Any:
        return RigidInertia(c[1:]).matrix()

    def gyroscopic(self, c: Any, q: Any, v: Any, V: Any) -> Any:
        twist = Motion(V)
        return twist.cross(RigidInertia(c[1:]) @ twist).data


class Two(kt.Node):
    """Two rigid bodies, each behind a revolute joint on the root, as one node with an outlet on either."""

    nv = 2
    dimension = 12
    outlets: ClassVar = {"left": 0, "right": 6}

    def __init__(self, rows: Any) -> None:
        self.constants = tuple(np.concatenate([np.concatenate([at.data, M.data]) for at, M in rows]))

    def _parts(self, c: Any, q: Any) -> Any:
        for i in range(2):
            at, M = Transform(c[22 * i : 22 * i + 12]), RigidInertia(c[22 * i + 12 : 22 * i + 22])
            cos, sin = np.cos(q[i]), np.sin(q[i])
            turn = np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]])
            yield i, Transform.of(turn @ at.E, at.r), M

    def weight(self, c: Any, q: Any) -> Any:
        return np.concatenate([X.matrix() for _, X, _ in self._parts(c, q)])

    def joint_map(self, c: Any, q: Any) -> Any:
        return np.eye(12)[:, [2, 8]]

    def inertia(self, c: Any, q: Any) -> Any:
        M = np.zeros((12, 12), dtype=np.asarray(c).dtype)
        for i, _, own in self._parts(c, q):
            M[6 * i : 6 * i + 6, 6 * i : 6 * i + 6] = own.matrix()
        return M

    def gyroscopic(self, c: Any, q: Any, v: Any, V: Any) -> Any:
        forces = []
        for i, _, M in self._parts(c, q):
            twist = Motion(V[6 * i : 6 * i + 6])
            forces.append(twist.cross(M @ twist).data)
        return np.concatenate(forces)


class Telescope(kt.Node):
    """A rigid body on a ball joint and an arm along z that extends: a quaternion and a length; bodies hang on it."""

    nv = 4
    coordinates = ("spherical", 1)
    dimension = 6
    outlets: ClassVar = {"end": 0}

    def __init__(self, mass: float, com: Any, inertia: Any, stiffness: float = 0.0) -> None:
        self.constants = (stiffness, *RigidInertia.of(mass, com, np.asarray(inertia)).data)

    def weight(self, c: Any, q: Any) -> Any:
        R = rotation_of_quaternion(q[:4])
        return Transform.of(R.T, R[:, 2] * q[4]).matrix()

    def joint_map(self, c: Any, q: Any) -> Any:
        H = np.eye(6, dtype=object)[:, [0, 1, 2, 5]]
        H[4, 0], H[3, 1] = -q[4], q[4]  # ω × (0, 0, l)
        return H

    def inertia(self, c: Any, q: Any) -> Any:
        return RigidInertia(c[1:]).matrix()

    def gyroscopic(self, c: Any, q: Any, v: Any, V: Any) -> Any:
        return Motion(V).cross(RigidInertia(c[1:]) @ Motion(V)).data

    def potential(self, c: Any, q: Any) -> Any:
        """A spring along the arm, and one that pulls it upright."""
        return c[0] * (0.5 * q[4] * q[4] - rotation_of_quaternion(q[:4])[2, 2])


class Circle(kt.Manifold):
    """An angle by its cosine and sine."""

    nq, nv = 2, 1

    def neutral(self) -> Any:
        return [1.0, 0.0]

    def integrate(self, q: Any, step: Any) -> Any:
        cos, sin = np.cos(step[0]), np.sin(step[0])
        return np.array([cos * q[0] - sin * q[1], sin * q[0] + cos * q[1]])

    def difference(self, q0: Any, q1: Any) -> Any:
        return np.array([self.angle(q0[0] * q1[1] - q0[1] * q1[0], q0[0] * q1[0] + q0[1] * q1[1])])

    def normalize(self, q: Any) -> Any:
        return q / np.sqrt(q[0] * q[0] + q[1] * q[1])


class Shears(kt.Manifold):
    """Unipotent matrices [[1, x, z], [0, 1, y], [0, 0, 1]], whose products do not commute."""

    nq, nv = 3, 3

    def neutral(self) -> Any:
        return np.zeros(3)

    def integrate(self, q: Any, step: Any) -> Any:
        u, v, w = step
        return np.array([q[0] + u, q[1] + v, q[2] + w + (0.5 * u + q[0]) * v])

    def difference(self, q0: Any, q1: Any) -> Any:
        u, v = q1[0] - q0[0], q1[1] - q0[1]
        return np.array([u, v, q1[2] - q0[2] - (q0[0] + 0.5 * u) * v])


class Swarm(kt.Node):
    """Point masses, one of them on a circle, that shears move: velocities are not the rates of coordinates."""

    nv = 4
    coordinates = (Circle(), Shears())

    def __init__(self, mass: float, radius: float, stiffness: float = 0.0) -> None:
        self.constants = (mass, radius, stiffness)

    def inertia(self, c: Any, q: Any) -> Any:
        (cos, sin), (x, y, z), total = q[:2], q[2:], 0.0
        # velocities of points per unit of ω, u, v, w: the rates of z are w + x v
        places = (
            (np.array([c[1] * cos, c[1] * sin, y]), [[-c[1] * sin, 0, 0, 0], [c[1] * cos, 0, 0, 0], [0, 0, 1, 0]]),
            (np.array([x, y + 0.3, 0.2]), [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]),
            (np.array([0.4 * y, 0.1, z]), [[0, 0, 0.4, 0], [0, 0, 0, 0], [0, 0, x, 1]]),
        )
        for r, slopes in places:
            T = np.concatenate([-skew(r), np.eye(3), np.array(slopes, dtype=object)], axis=1)
            total = total + c[0] * (T.T @ T)
        return total

    def potential(self, c: Any, q: Any) -> Any:
        return 0.5 * c[2] * (q[4] * q[4] + q[1] + q[2] * q[3])
