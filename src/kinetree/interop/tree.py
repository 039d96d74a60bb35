"""A robot as other libraries have it: as a tree in which every joint has coordinates of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.errors import InputError, UnsupportedError
from kinetree.model.coordinates import checked
from kinetree.model.model import Model
from kinetree.spatial.fixed import product
from kinetree.spatial.value import Array


class OpenTree:
    """Coordinates of a robot's spanning tree, in that tree's order; those of the robot if no joint depends on others.

    Attributes:
        robot: The robot.
        tree: Its spanning tree.
    """

    def __init__(self, robot: Model) -> None:
        self._same = not robot.joint_constraints
        self.robot, self.tree = robot, robot if self._same else robot.spanning_tree
        q: list[int] = []  # for each coordinate of the robot, its index in the tree
        v: list[int] = []  # and for each velocity
        for joint in robot.joints:
            there = self.tree.joint(joint.name)
            q += range(there.q_start, there.q_start + joint.nq)
            v += [there.v_start + i for i in joint.independent or range(joint.nv)]
        self._q, self._v = (np.array(places, dtype=np.intp) for places in (q, v))

    def q(self, q: Any) -> Array:
        """Configurations of the tree, (…, nq of the tree)."""
        q = checked("q", q, self.robot.nq, real=True)
        return q if self._same else self.robot.to_tree(q)

    def q_or_none(self, q: Any) -> Array | None:
        """The same, if there is a configuration."""
        return None if q is None else self.q(q)

    def v(self, v: Any, q: Any) -> Array:
        """Velocities of the tree."""
        v = checked("v", v, self.robot.nv)
        return v if self._same else self.robot.to_tree(self._needed("q", q), v)[1]

    def v_or_none(self, v: Any, q: Any) -> Array | None:
        """The same, if there is a velocity."""
        return None if v is None else self.v(v, q)

    def a(self, a: Any, v: Any, q: Any) -> Array:
        """Accelerations of the tree."""
        a = checked("a", a, self.robot.nv)
        return a if self._same else self.robot.to_tree(self._needed("q", q), self._needed("v", v), a)[2]

    def tau(self, tau: Any) -> Array:
        """Forces on the tree's joints that act like given ones: those of independent joints."""
        own: Array = checked("tau", tau, self.robot.nv)
        if self._same:
            return own
        every = np.zeros((*own.shape[:-1], self.tree.nv), dtype=own.dtype)
        every[..., self._v] = own
        return every

    def own_q(self, q: Array) -> Array:
        """The robot's part of a configuration of the tree. It is not closed: where loops are open, they stay so."""
        return q if self._same else q[..., self._q]

    def own_v(self, v: Array) -> Array:
        """Velocities or accelerations of the robot's independent joints."""
        return v if self._same else v[..., self._v]

    def own_tau(self, tau: Array, q: Any) -> Array:
        """The robot's forces that act like forces on all joints of the tree."""
        found: Array = tau if self._same else self.own_columns(tau[..., None, :], q)[..., 0, :]
        return found

    def own_columns(self, rows: Array, q: Any) -> Array:
        """Rows per velocity of the tree as rows per velocity of the robot, X G, (…, r, nv)."""
        if self._same:
            return rows
        G = self.robot.coupling(self._needed("q", q))[..., self.robot.tree_order, :]
        return product(rows, G)

    def require_same(self, what: str) -> None:
        """Raise if joints depend on others.

        Raises:
            UnsupportedError: They do; the error says how to convert instead.
        """
        if not self._same:
            raise UnsupportedError(
                f"{what} of {self.robot.name!r} do not determine those of all its joints, of which some depend on "
                f"others: {self.robot.joint_constraints[0]}. Convert those of robot.spanning_tree, with G = "
                "robot.coupling(q)[robot.tree_order], M = Gᵀ M_tree G and J = J_tree G"
            )

    def _needed(self, name: str, given: Any) -> Any:
        if given is None:
            raise InputError(
                f"joints of {self.robot.name!r} depend on others, so converting needs the state: pass {name}="
            )
        return given
