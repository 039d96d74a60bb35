"""Nodes that are not rigid bodies, written as users write them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import kinetree as kt
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Motion
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
