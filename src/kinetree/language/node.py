"""The protocol of node kinds: what a node must supply for the recursions to run over it.

[J11] §2.1 describes a mechanism by four things: a tree, weights A(p, k), joint maps H(k) and inertias M(k). A node kind
supplies the last three, together with its terms of the equations of motion, for all nodes that share the same formulas.
A rigid body with its joint is one family of kinds; a flexible body or an aggregate of bodies is another. Nothing here
assumes that a node has six dimensions, that its weight is square or invertible, or that H and M are constant.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np

from kinetree.spatial.value import Array

#: The port of the world, which moves like a rigid body. Fields of nodes with this port have the same types as the
#: world's.
WORLD_PORT = "rigid"


class NodeManifold(Protocol):
    """The coordinates of a node, which need not be plain numbers. Increments are velocities times seconds, (nv,).

    Methods are plain arithmetic on flat arrays of scalars, without branches on values.
    """

    def integrate(self, q: Array, step: Array) -> Array:
        """q ⊕ step: the configuration reached from q at constant velocity `step` in unit time, (nq,)."""

    def difference(self, q0: Array, q1: Array) -> Array:
        """The constant velocity from q0 to q1 in unit time, (nv,)."""

    def room(self, q: Array, limit: Array) -> Array:
        """How far q is from limits of single coordinates, (nv,); zero where q itself stands in for one."""

    def rates(self, q: Array, v: Array) -> Array:
        """Rates of the coordinates q at velocity v, (nq,)."""

    def transport(self, step: Array) -> Array:
        """Derivative of q ⊕ step with respect to q, as a map between the tangents at both ends, (nv, nv)."""

    def right_jacobian(self, step: Array) -> Array:
        """Derivative of q ⊕ step with respect to the step, in the tangent at the end, (nv, nv)."""

    def inverse_right_jacobian(self, step: Array) -> Array:
        """Inverse of `right_jacobian`, (nv, nv)."""

    def bracket(self, x: Array) -> Array:
        """Matrix of the Lie bracket with a tangent x, (nv, nv)."""

    def tangent_map(self, q: Array) -> Array:
        """Maps a change of the coordinates q to the velocity that produces it in unit time, (nv, nq)."""

    def normalize(self, q: Array) -> Array:
        """The same configuration in normal form, (nq,)."""


class NodeKind(Protocol):
    """The formulas shared by all nodes of one kind.

    Kinds are frozen and compare by value. Each method takes the node's own constants first, as a flat array of
    `parameter_count` scalars, so that the same compiled code serves all nodes of the kind. Methods must be plain
    arithmetic without branches on values: they run on numbers and on symbols.
    """

    @property
    def name(self) -> str:
        """Unique among kinds with different formulas; part of the name of compiled code."""

    @property
    def port(self) -> str:
        """Kinds with the same port have velocities of the same type, so a child need not know its parent's kind."""

    @property
    def nq(self) -> int:
        """Number of configuration coordinates."""

    @property
    def nv(self) -> int:
        """Number of degrees of freedom."""

    @property
    def dimension(self) -> int:
        """Number of components of the velocity."""

    @property
    def parameter_count(self) -> int:
        """Number of constants of one node."""

    @property
    def moving(self) -> bool:
        """Whether H, M, a(k) or b(k) depend on q. If not, q is not passed to `joint_map` and `inertia`."""

    @property
    def rigid(self) -> bool:
        """Whether the node is a single rigid body whose joint map is constant in its coordinates.

        The common frame (`kinetree.language.common_frame`) requires all nodes to be rigid.
        """

    @property
    def joint_rates(self) -> int:
        """Number of its joint velocities: nv, or more if they depend on each other."""

    @property
    def loop_rows(self) -> int:
        """Number of constraints between its joints that q must satisfy."""

    @property
    def twists(self) -> tuple[int, ...]:
        """Where body twists start among the components of the velocity."""

    @property
    def rigid_multibody(self) -> bool:
        """Whether it consists of rigid bodies, and its velocity of body twists and joint velocities only."""

    def manifold(self, parameters: Array) -> NodeManifold:
        """The manifold of the configuration: defines how velocities are added to it."""

    def weight(self, parameters: Array, q: Array) -> Any:
        """A*(p, k): maps the parent's velocity to its contribution to the node's. Has `@`, `.T @` and `.congruence`."""

    def joint_map(self, parameters: Array, q: Array | None = None) -> Any:
        """H(k), in the node's coordinates. Has `@`, `.T @`, `.column` and `.hinge`."""

    def inertia(self, parameters: Array, q: Array | None = None) -> Any:
        """M(k). Has `@` and `.articulated()`."""

    def armature(self, parameters: Array) -> Array:
        """Reflected rotor inertia of each degree of freedom, (nv,) [kg m² or kg]; zeros where there is no rotor."""

    def coriolis(self, parameters: Array, q: Array | None, v: Array, velocity: Any, carrier: Any) -> Any:
        """a(k): the acceleration of the node when its joint accelerations and the parent's acceleration are zero.

        It is the rate of W V_p + H v with V_p and v held constant, for weight W and parent velocity V_p (`carrier`).
        """

    def gyroscopic(self, parameters: Array, q: Array | None, v: Array, velocity: Any) -> Any:
        """b(k): the inertial force at zero acceleration. Quadratic in velocities, so zero at rest."""

    def coriolis_inertia(self, parameters: Array, q: Array, v: Array, velocity: Any) -> Array:
        """Inertial force per unit change ϑ of body twists at given ζ (see `language.variation`).

        Of kinds that consist of rigid bodies only.
        """

    def resistance(self, parameters: Array, q: Array, v: Array) -> Array:
        """Joint forces absorbed by the node's own springs and dampers, (nv,); zeros where there are none."""

    def potential(self, parameters: Array, q: Array) -> Any:
        """Energy stored in the node's own springs [J]."""

    def brackets(self, parameters: Array, q: Array, v: Array) -> Array:
        """Matrix of the Lie brackets of the joint velocities v with others, (nv, nv); zero for rates of coordinates."""

    def coupling(self, parameters: Array, q: Array) -> Array:
        """G, (joint_rates, nv): its joint velocities are G v."""

    def coupling_drift(self, parameters: Array, q: Array, v: Array) -> Array:
        """Ġ v, (joint_rates,)."""

    def loops(self, parameters: Array, q: Array) -> tuple[Array, Array]:
        """Residuals φ of its constraints, (loop_rows,), and their derivatives K, (loop_rows, joint_rates)."""

    def closing(self, parameters: Array, q: Array, residuals: Array) -> Array:
        """Rates of coordinates that take up rates of φ, (loop_rows, m), as independent joints stay, (nq, m)."""

    def moved(self, parameters: Array, q: Array, step: Array) -> Array:
        """Coordinates after each joint moved by its part of `step`, (joint_rates,), whether constraints hold or not."""


class _Own(Protocol):
    """What `Unconstrained` needs of a kind."""

    @property
    def nv(self) -> int: ...

    def manifold(self, parameters: Array) -> NodeManifold: ...


class Unconstrained:
    """What kinds have in common whose joint velocities are all independent. They have no springs unless they say so."""

    twists: ClassVar[tuple[int, ...]] = ()
    rigid_multibody: ClassVar[bool] = False

    def coriolis_inertia(self, _parameters: Array, _q: Array, _v: Array, _velocity: Any) -> Array:
        raise NotImplementedError("only of kinds that consist of rigid bodies")

    @property
    def joint_rates(self: _Own) -> int:
        return self.nv

    @property
    def loop_rows(self) -> int:
        return 0

    def brackets(self: _Own, parameters: Array, _q: Array, v: Array) -> Array:
        return self.manifold(parameters).bracket(v)

    def coupling(self: _Own, _parameters: Array, _q: Array) -> Array:
        return np.eye(self.nv)

    def coupling_drift(self: _Own, _parameters: Array, _q: Array, _v: Array) -> Array:
        return np.zeros(self.nv)

    def loops(self: _Own, _parameters: Array, _q: Array) -> tuple[Array, Array]:
        return np.zeros(0), np.zeros((0, self.nv))

    def closing(self, _parameters: Array, q: Array, residuals: Array) -> Array:
        return np.zeros((len(q), residuals.shape[1]))

    def moved(self: _Own, parameters: Array, q: Array, step: Array) -> Array:
        return self.manifold(parameters).integrate(q, step)

    def resistance(self: _Own, _parameters: Array, _q: Array, _v: Array) -> Array:
        return np.zeros(self.nv)

    def potential(self, _parameters: Array, _q: Array) -> Any:
        return 0.0


def told(kind: NodeKind) -> str:
    """A kind in messages: of a rigid body its joint, without what formulas are specialised to."""
    return kind.name.partition("_")[0] if kind.rigid else kind.name
