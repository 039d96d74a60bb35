"""What a node of a tree must supply so that the recursions can run over it.

[J11] §2.1 asks four things of a mechanism: a tree, weights A(p, k), joint maps H(k) and inertias M(k). A node kind
supplies the last three, with its own terms of the equations of motion, for all nodes that share their formulas. A
rigid body behind a joint is one family of kinds; a flexible body or an aggregate of bodies is another. Nothing here
says that a node has six dimensions, nor that its weight is square or invertible.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from typing import Any, Protocol

from kinetree.spatial.value import Array

#: The port of the world, which moves like a rigid body. Fields of nodes of this port have the types they have there.
WORLD_PORT = "rigid"


class NodeKind(Protocol):
    """The formulas shared by all nodes of one kind.

    Kinds are frozen and compare by value. Each method takes the node's own constants first, as a flat array of
    `parameter_count` scalars, so that the same compiled code serves all nodes of the kind. Methods must be plain
    arithmetic without branches on values: they run on numbers and on symbols.
    """

    @property
    def name(self) -> str:
        """Unique among kinds of different formulas; part of the name of compiled code."""

    @property
    def port(self) -> str:
        """Kinds of one port have velocities of one type, so that a child need not know its parent's kind."""

    @property
    def nq(self) -> int:
        """Numbers in the configuration."""

    @property
    def nv(self) -> int:
        """Degrees of freedom."""

    @property
    def parameter_count(self) -> int:
        """Constants of one node."""

    def weight(self, parameters: Array, q: Array) -> Any:
        """A*(p, k): takes the parent's velocity to its share of the node's. Has `@`, `.T @` and `.congruence`."""

    def joint_map(self, parameters: Array) -> Any:
        """H(k), constant in the node's coordinates. Has `@`, `.T @`, `.column` and `.hinge`."""

    def inertia(self, parameters: Array) -> Any:
        """M(k). Has `@` and `.articulated()`."""

    def armature(self, parameters: Array) -> Array:
        """Reflected rotor inertia of each degree of freedom, (nv,) [kg m² or kg]; zeros where there is no rotor."""

    def coriolis(self, parameters: Array, velocity: Any, v: Array) -> Any:
        """a(k): the acceleration of the node when all joint accelerations and the parent's are zero."""

    def gyroscopic(self, parameters: Array, velocity: Any) -> Any:
        """b(k): the force that keeps the node moving as it does without acceleration."""
