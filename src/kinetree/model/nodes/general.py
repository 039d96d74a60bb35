"""Nodes that are not rigid bodies: the class that users derive from, and its node kind in the tree.

A node's velocity V has `dimension` components. For a parent of velocity V_p (the twist of the node's root frame, which
the parent carries), weight W, joint map H and inertia M, [J11] writes the equations of motion as

    V = W V_p + H v        α = W α_p + H v̇ + a        F = M α + b        f = F + forces of what it carries
                                                       τ = Hᵀ f + springs and dampers

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from kinetree.compiler.programs import Traced
from kinetree.errors import ModelError
from kinetree.language.node import WORLD_PORT, NodeManifold, Unconstrained
from kinetree.model.joints import KINDS, JointKind
from kinetree.model.joints.manifold import Manifold, in_parts, plain
from kinetree.model.joints.protocol import PlainCoordinates
from kinetree.model.nodes.formulas import Formula, digest
from kinetree.spatial.dense import DenseInertia, DenseMap, Outlet, RootWeight
from kinetree.spatial.dual import IN_NODE, along, rates_of
from kinetree.spatial.hinge import MotionColumns
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


class Node(ABC):
    """A part of a robot with formulas of its own: subclass it, and attach it to a body with `Builder.add_node`.

    The simplest node only defines `inertia`. Its velocity is then V = [V_p; v], the twist of its root frame followed by
    its joint velocities, and everything else follows from the kinetic energy ½ VᵀMV. A node with another velocity, such
    as one that carries bodies, also defines `weight`, `joint_map` and `gyroscopic`, and names its `outlets`.

    Formulas take `c`, the node's constants, so that all nodes of a class share compiled code. They are arithmetic on
    scalars (`+ - * /`, `np.sin`, `np.cos`, `np.sqrt`, `@`) without branches on values: they run on numbers, on complex
    and dual numbers, and on symbols.

    Coordinates are plain numbers whose rates are v, unless `coordinates` says otherwise: then v are the velocities of
    the joints or manifolds that it names.

    Attributes:
        nv: Degrees of freedom.
        coordinates: What q consists of: names of joints as in `Builder.add_body`, such as "spherical" for a quaternion,
            "planar" or "floating", `Manifold`s, and numbers of plain coordinates. None if all are plain.
        dimension: Components of V; 6 + nv by default.
        outlets: Body twists contained in V, by name: the index of the first of their six components. Bodies and frames
            attach to the outlet "end" of a node "tether" by `parent="tether/end"`.
        constants: Numbers that formulas read as `c`.
    """

    nv: int = 1
    coordinates: str | Manifold | Sequence[str | int | Manifold] | None = None
    dimension: int | None = None
    outlets: Mapping[str, int] = MappingProxyType({})
    constants: Sequence[float] = ()

    @abstractmethod
    def inertia(self, c: Array, q: Array) -> Any:
        """M(q), symmetric, (dimension, dimension)."""

    def weight(self, c: Array, q: Array) -> Any:
        """W(q), (dimension, 6): the node's velocity per unit velocity of its root frame, joints locked."""
        return np.eye(size(self), 6)

    def joint_map(self, c: Array, q: Array) -> Any:
        """H(q), (dimension, nv): the node's velocity per unit joint velocity."""
        return np.eye(size(self), self.nv, -6)

    def coriolis(self, c: Array, q: Array, v: Array, V: Array, V_p: Array) -> Any:
        """a = Ẇ V_p + Ḣ v, (dimension,). By default from `weight` and `joint_map`, by dual numbers."""
        moving = _moved(self, q, v)
        return _rates(self.weight(c, moving)) @ V_p + _rates(self.joint_map(c, moving)) @ v

    def gyroscopic(self, c: Array, q: Array, v: Array, V: Array) -> Any:
        """b, (dimension,): the inertial force at zero acceleration. Quadratic in velocities, so zero at rest.

        By default Lagrange's equations of ½ VᵀMV, which hold for V = [V_p; v] only.
        """
        if size(self) != 6 + self.nv or _overrides(self, "weight") or _overrides(self, "joint_map"):
            raise NotImplementedError("its velocity is not [V_p; v], so it must write `gyroscopic`")
        return lagrange(self, c, q, v, V)

    def potential(self, c: Array, q: Array) -> Any:
        """Energy of the node's springs [J]."""
        return 0.0

    def rayleigh(self, c: Array, q: Array, v: Array) -> Any:
        """Half the power lost in the node's linear dampers, ½ vᵀCv [W]."""
        return 0.0

    # Value semantics: nodes with the same formulas and constants are equal.

    @cached_property
    def kind(self) -> GeneralKind:
        """Internal: its formulas as a kind of node of the tree."""
        return GeneralKind(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.kind == other.kind and tuple(self.constants) == tuple(other.constants)

    def __hash__(self) -> int:
        return hash((self.kind, tuple(self.constants)))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "kind"}


def lagrange(node: Node, c: Array, q: Array, v: Array, V: Array) -> Array:
    """b of a node with velocity V = [V_p; v] and kinetic energy ½ VᵀMV: Euler's equations in V_p, Boltzmann's in v.

    The latter are Lagrange's where v are rates of q. Else, with p = ∂T/∂v and the brackets of velocities, they are
    ṗ − ∂T/∂q − [v, ·]ᵀ p, which for a body that turns is ṗ + ω × p.
    """
    momentum = np.asarray(node.inertia(c, q)) @ V
    partials = [_rates(node.inertia(c, _moved(node, q, unit))) for unit in np.eye(len(v))]
    turning = Motion(V[:6]).cross(Force(momentum[:6])).data
    pull = [0.5 * (V @ (partial @ V)) for partial in partials]
    b: Array = np.concatenate([turning, -np.array(pull)])
    for i, partial in enumerate(partials):
        b = b + (partial @ V) * v[i]
    if node.coordinates is not None:
        b = np.concatenate([b[:6], b[6:] - coordinates_of(node).bracket(v).T @ momentum[6:]])
    return b


def coordinates_of(node: Node) -> JointKind:
    """The coordinates of a node, as a kind of joint.

    Raises:
        ModelError: If they are not what the node's velocities are those of.
    """
    if node.coordinates is None:
        return plain(node.nv)
    made = in_parts(parts_of(node))
    if made.nv != node.nv:
        raise ModelError(
            f"{type(node).__name__}: its coordinates {node.coordinates!r} have {made.nv} velocities, but nv is "
            f"{node.nv}; they must be the same"
        )
    return made


def parts_of(node: Node) -> tuple[JointKind | Manifold, ...]:
    """What the coordinates of a node consist of, unless all are plain."""
    given = () if node.coordinates is None else node.coordinates
    every = [given] if isinstance(given, str | int | Manifold) else given
    return tuple(_part(type(node).__name__, part) for part in every)


def _part(name: str, part: Any) -> JointKind | Manifold:
    if isinstance(part, str) and part in KINDS:
        return KINDS[part]
    if isinstance(part, int) and not isinstance(part, bool) and part >= 0:
        return plain(part)
    if isinstance(part, Manifold):
        for count in (part.nq, part.nv):
            if not isinstance(count, int) or count < 1:
                raise ModelError(f"{name}: nq and nv of {type(part).__name__} are numbers, 1 or more; got {count!r}")
        return part
    raise ModelError(
        f"{name}: coordinates are a list of kinds of joints ({', '.join(KINDS)}), kinetree.Manifold objects and "
        f"numbers of plain coordinates; got {part!r}"
    )


def size(node: Node) -> int:
    """Components of a node's velocity."""
    return 6 + node.nv if node.dimension is None else node.dimension


def resistance(node: Node, c: Array, q: Array, v: Array) -> Array:
    """∂potential/∂q, along the tangent, + ∂rayleigh/∂v, (nv,)."""
    forces = []
    for unit in np.eye(node.nv):
        spring = _rates(node.potential(c, _moved(node, q, unit))).item()
        damper = _rates(node.rayleigh(c, q, along(v, unit, IN_NODE))).item()
        forces.append(spring + damper)
    total: Array = np.array(forces)
    return total


def node_mass(node: Node) -> float:
    """Total mass of a node [kg]: its inertia against translation with all joints locked."""
    c, q = np.asarray(node.constants, dtype=float), coordinates_of(node).neutral()
    column = np.asarray(node.weight(c, q), dtype=float)[:, 5]
    return float(column @ np.asarray(node.inertia(c, q), dtype=float) @ column)


def rigid_error(X: Array) -> float:
    """How far a 6×6 matrix is from a rigid motion transform."""
    seen = Transform.from_matrix(X)
    return float(max(np.abs(seen.E @ seen.E.T - np.eye(3)).max(), np.abs(seen.matrix() - X).max()))


def _overrides(node: Node, formula: str) -> bool:
    return getattr(type(node), formula) is not getattr(Node, formula)


def _moved(node: Node, q: Array, v: Array) -> Array:
    """q as numbers that change at velocity v."""
    moving: Array = along(q, v if node.coordinates is None else coordinates_of(node).rates(q, v), IN_NODE)
    return moving


def _rates(values: Any) -> Array:
    rates: Array = rates_of(values, IN_NODE)
    return rates


@dataclass(frozen=True, eq=False)
class GeneralKind(Traced, Unconstrained):
    """All nodes with the formulas of one user-defined class; a `language.node.NodeKind`.

    A node's constants are the 12 numbers of its placement, the armature of each degree of freedom, and its own. Kinds
    with equal formulas are equal, whatever the names of their classes: the kind's name holds a digest of the traced
    formulas.
    """

    node: Node
    name: str = field(init=False)

    moving: ClassVar[bool] = True
    rigid: ClassVar[bool] = False

    def __post_init__(self) -> None:
        node, n, m = self.node, self.node.nv, size(self.node)

        def formulas(c: Array, q: Array, v: Array, V: Array, V_p: Array) -> dict[str, Formula]:
            return {
                "weight": (lambda: node.weight(c, q), (m, 6)),
                "joint_map": (lambda: node.joint_map(c, q), (m, n)),
                "inertia": (lambda: node.inertia(c, q), (m, m)),
                "coriolis": (lambda: node.coriolis(c, q, v, V, V_p), (m,)),
                "gyroscopic": (lambda: node.gyroscopic(c, q, v, V), (m,)),
                "potential": (lambda: node.potential(c, q), ()),
                "rayleigh": (lambda: node.rayleigh(c, q, v), ()),
                "potential and rayleigh": (lambda: resistance(node, c, q, v), (n,)),
            }

        name, at = type(node).__name__, coordinates_of(node)

        def manifold(q: Array, q1: Array, step: Array) -> dict[str, Formula]:
            return {
                "neutral": (at.neutral, (at.nq,)),
                "integrate": (lambda: at.integrate(q, step), (at.nq,)),
                "difference": (lambda: at.difference(q, q1), (n,)),
                "rates": (lambda: at.rates(q, step), (at.nq,)),
                "tangent_map": (lambda: at.tangent_map(q), (n, at.nq)),
                "normalize": (lambda: at.normalize(q), (at.nq,)),
            }

        own = [] if node.coordinates is None else [digest(f"node {name}", (at.nq, at.nq, n), manifold)]
        traced = digest(f"node {name}", (len(node.constants), at.nq, n, m, 6), formulas)
        # where body twists are decides how derivatives are expressed
        object.__setattr__(self, "name", "_".join([name, *own, traced, *map(str, self.twists)]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GeneralKind) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def port(self) -> str:
        return f"dense_{size(self.node)}"

    @cached_property
    def twists(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(sorted(set(self.node.outlets.values())))

    @cached_property
    def nq(self) -> int:
        return coordinates_of(self.node).nq

    @property
    def nv(self) -> int:
        return self.node.nv

    @property
    def dimension(self) -> int:
        return size(self.node)

    @property
    def parameter_count(self) -> int:
        return self.own_start + len(self.node.constants)

    @property
    def own_start(self) -> int:
        return Transform.size + self.nv

    def manifold(self, _parameters: Array) -> NodeManifold:
        return PlainCoordinates() if self.node.coordinates is None else coordinates_of(self.node)

    def parameters(self, placement: Transform, _inertia: RigidInertia, armature: Array, own: Array) -> Array:
        """Lay out the constants of one node."""
        return np.concatenate([placement.data, armature, own]).astype(float)

    def _own(self, parameters: Array) -> Array:
        return parameters[self.own_start :]

    def weight(self, parameters: Array, q: Array) -> RootWeight:
        W = np.asarray(self.node.weight(self._own(parameters), q))
        placed: RootWeight = RootWeight.of(W @ Transform(parameters[:12]).matrix())
        return placed

    def joint_map(self, parameters: Array, q: Array | None = None) -> DenseMap:
        H: DenseMap = DenseMap.of(self.node.joint_map(self._own(parameters), _known(q)))
        return H

    def inertia(self, parameters: Array, q: Array | None = None) -> DenseInertia:
        return DenseInertia.of(self.node.inertia(self._own(parameters), _known(q)))

    def armature(self, parameters: Array) -> Array:
        return parameters[12 : self.own_start]

    def coriolis(self, parameters: Array, q: Array | None, v: Array, velocity: Array, carrier: Motion) -> Array:
        root = (Transform(parameters[:12]) @ carrier).data
        return np.asarray(self.node.coriolis(self._own(parameters), _known(q), v, velocity, root))

    def gyroscopic(self, parameters: Array, q: Array | None, v: Array, velocity: Array) -> Array:
        return np.asarray(self.node.gyroscopic(self._own(parameters), _known(q), v, velocity))

    def resistance(self, parameters: Array, q: Array, v: Array) -> Array:
        return resistance(self.node, self._own(parameters), q, v)

    def potential(self, parameters: Array, q: Array) -> Any:
        return self.node.potential(self._own(parameters), q)


def _known(q: Array | None) -> Array:
    if q is None:
        raise TypeError("the formulas of a general node depend on q")
    return q


class OutletKind(Unconstrained):
    """A node without mass and degrees of freedom that moves with an outlet of its parent, and carries bodies there."""

    port: ClassVar[str] = WORLD_PORT
    dimension: ClassVar[int] = 6
    nq: ClassVar[int] = 0
    nv: ClassVar[int] = 0
    moving: ClassVar[bool] = False
    rigid: ClassVar[bool] = False

    @property
    def parameter_count(self) -> int:
        return 0

    def manifold(self, _parameters: Array) -> PlainCoordinates:
        return PlainCoordinates()

    def joint_map(self, _parameters: Array, _q: Array | None = None) -> MotionColumns:
        return MotionColumns(np.zeros(0), 0)

    def inertia(self, _parameters: Array, _q: Array | None = None) -> RigidInertia:
        return RigidInertia.zero()

    def armature(self, _parameters: Array) -> Array:
        return np.zeros(0)

    def coriolis(self, _parameters: Array, _q: Any, _v: Array, _velocity: Motion, _carrier: Array) -> Motion:
        return Motion.zero()

    def gyroscopic(self, _parameters: Array, _q: Any, _v: Array, _velocity: Motion) -> Force:
        return Force.zero()


@dataclass(frozen=True)
class ExitKind(OutletKind):
    """An outlet of a general node. Its constants are the rigid inertia of the bodies fixed to it, if it is `loaded`.

    `start` is the index of the outlet's twist in the node's velocity, which has `of` components.
    """

    start: int
    of: int
    loaded: bool = False

    @property
    def name(self) -> str:
        return f"exit_{self.start}_of_{self.of}{'_loaded' if self.loaded else ''}"

    @property
    def parameter_count(self) -> int:
        return RigidInertia.size if self.loaded else 0

    def parameters(self, _placement: Transform, inertia: RigidInertia, _armature: Array, _own: Array) -> Array:
        """Lay out the constants of one node."""
        return inertia.data if self.loaded else np.zeros(0)

    def weight(self, _parameters: Array, _q: Array) -> Outlet:
        return Outlet(self.start, self.of)

    def inertia(self, parameters: Array, _q: Array | None = None) -> RigidInertia:
        return RigidInertia(parameters) if self.loaded else RigidInertia.zero()

    def gyroscopic(self, parameters: Array, _q: Any, _v: Array, velocity: Motion) -> Force:
        return velocity.cross(self.inertia(parameters) @ velocity)


def checked(owner: str, node: object) -> Node:
    """A node whose declarations are consistent.

    Raises:
        ModelError: If one is not; names it.
    """
    if not isinstance(node, Node):
        raise ModelError(f"{owner}: pass a kinetree.Node, an object of a class with formulas; got {node!r}")
    name = f"{owner} ({type(node).__name__})"
    if not isinstance(node.nv, int) or node.nv < 0:
        raise ModelError(f"{name}: nv is a number of degrees of freedom, 0 or more; got {node.nv!r}")
    try:
        constants = np.asarray(node.constants, dtype=float)
    except (TypeError, ValueError):
        constants = np.full(1, np.nan)
    if constants.ndim != 1 or not np.isfinite(constants).all():
        raise ModelError(f"{name}: constants are finite numbers in one list; got {node.constants!r}")
    for outlet, start in node.outlets.items():
        if not isinstance(start, int) or not 0 <= start <= size(node) - 6:
            raise ModelError(
                f"{name}: outlet {outlet!r} starts at {start!r}; its six components must lie within the "
                f"{size(node)} of the node's velocity"
            )
    _ = node.kind  # traces the formulas, and checks their shapes
    W = np.asarray(node.weight(constants, coordinates_of(node).neutral()), dtype=float)
    for outlet, start in node.outlets.items():
        X = W[start : start + 6]
        if not rigid_error(X) < 1e-9:
            raise ModelError(
                f"{name}: outlet {outlet!r} is no body twist: with joints locked it must move with the root frame as "
                "one rigid body, so that its rows of the weight are a motion transform [[E, 0], [−E r×, E]]"
            )
    return node
