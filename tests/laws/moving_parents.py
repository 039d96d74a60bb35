"""Nodes that are not rigid bodies behind two skew hinges on a floating base, with more bodies behind them.

On a still parent, most terms of their derivatives vanish. Here every parent moves, and no two axes are parallel.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

import kinetree as kt
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Motion
from kinetree.spatial.transform import Transform
from tests.general_nodes import Bead, Cart, Two
from tests.mechanisms import NEAR
from tests.tolerance import bound, condition
from tests.trees import random_inertia, random_rotation, unit

Array = np.ndarray[Any, np.dtype[Any]]

STEP = 1e-30


def _solid(rng: np.random.Generator, mass: float = 0.8) -> dict[str, Any]:
    return {"mass": mass, "com": rng.uniform(-0.1, 0.1, 3), "inertia": random_inertia(rng, mass)}


def _place(rng: np.random.Generator) -> tuple[Array, Array]:
    return random_rotation(rng), rng.uniform(-0.3, 0.3, 3)


def _stem(name: str, seed: int) -> tuple[kt.Builder, np.random.Generator]:
    """The floating base, and two bodies behind skew hinges, of which the last is called "wrist"."""
    rng = np.random.default_rng(seed)
    builder = kt.Builder(name, gravity=(0.4, -0.7, -9.5))
    builder.add_body("base", joint="floating", **_solid(rng, 3.0))
    builder.add_body("elbow", parent="base", axis=unit(rng), placement=_place(rng), **_solid(rng))
    builder.add_body("wrist", parent="elbow", axis=unit(rng), placement=_place(rng), armature=0.2, **_solid(rng))
    return builder, rng


def _beams() -> kt.Model:
    """A beam with a branch in its span, and another one behind a hinge at its tip; a tool behind a ball joint."""
    builder, rng = _stem("beams", 1)
    link = kt.Beam(1.0, 50.0, 0.8, modes=1, planes="yz", stations={"mid": 0.4}, axial_inertia=1e-2)
    forearm = kt.Beam(0.8, 30.0, 0.5, modes=1, planes="y", axial_inertia=1e-2)
    builder.add_flexible("link", link, parent="wrist", placement=_place(rng))
    builder.add_flexible("forearm", forearm, parent="link/tip", joint="revolute", axis=unit(rng), placement=_place(rng))
    builder.add_body("tool", parent="forearm/tip", joint="spherical", placement=_place(rng), **_solid(rng))
    builder.add_body("camera", parent="link/mid", axis=unit(rng), placement=_place(rng), **_solid(rng))
    return builder.build()


class Turret(kt.Node):
    """A rigid body on a slide and a hinge, with a Coriolis term in closed form, by its own velocity."""

    nv = 2
    dimension = 6
    outlets: ClassVar = {"top": 0}

    def __init__(self, mass: float, com: Any, inertia: Any) -> None:
        self.constants = tuple(RigidInertia.of(mass, com, np.asarray(inertia)).data)

    def weight(self, c: Any, q: Any) -> Any:
        cos, sin = np.cos(q[0]), np.sin(q[0])
        E = np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]])
        return Transform.of(E, np.array([q[1], 0.0, 0.0])).matrix()

    def joint_map(self, c: Any, q: Any) -> Any:
        slide = np.array([0.0, 0.0, 0.0, np.cos(q[0]), -np.sin(q[0]), 0.0])
        return np.stack([np.eye(6)[2], slide], axis=1)

    def coriolis(self, c: Any, q: Any, v: Any, V: Any, V_p: Any) -> Any:
        turned = np.array([0.0, 0.0, 0.0, -np.sin(q[0]), -np.cos(q[0]), 0.0])
        return Motion(V).cross(Motion(self.joint_map(c, q) @ v)).data + turned * (v[0] * v[1])

    def inertia(self, c: Any, q: Any) -> Any:
        return RigidInertia(c).matrix()

    def gyroscopic(self, c: Any, q: Any, v: Any, V: Any) -> Any:
        return Motion(V).cross(RigidInertia(c) @ Motion(V)).data


def _nodes() -> kt.Model:
    """A turret, a cart on a curved track, two bodies in one node, and beads on wires, each on the one before."""
    builder, rng = _stem("nodes", 2)
    bead = Bead(0.5, 0.8, stiffness=20.0, damping=0.3)
    builder.add_node("turret", Turret(**_solid(rng)), parent="wrist", placement=_place(rng))
    builder.add_node("cart", Cart(0.8, **_solid(rng)), parent="turret/top", placement=_place(rng))
    builder.add_body("load", parent="cart/seat", axis=unit(rng), placement=_place(rng), **_solid(rng))
    rows = [(Transform.of(*_place(rng)), RigidInertia.of(*_solid(rng).values())) for _ in range(2)]
    builder.add_node("pair", Two(rows), parent="load", placement=_place(rng))
    builder.add_node("bead", bead, parent="pair/left", placement=_place(rng))
    builder.add_body("tool", parent="pair/right", axis=unit(rng), placement=_place(rng), **_solid(rng))
    builder.add_node("far bead", bead, parent="tool", placement=_place(rng))
    return builder.build()


def _loops() -> kt.Model:
    """A plate on a ball joint, held by a rod with ball joints and a crank with a geared rotor; a tool on the plate."""
    builder, rng = _stem("loops", 3)
    at = _place(rng)
    builder.add_body("seat", parent="wrist", joint="fixed", placement=at, **_solid(rng))
    builder.add_body("plate", parent="seat", joint="spherical", placement=(np.eye(3), (0.0, 0.0, 0.4)), **_solid(rng))
    builder.add_body("tool", parent="plate", axis=unit(rng), placement=_place(rng), **_solid(rng))
    builder.add_body("crank", parent="seat", axis=(0, 1, 0), armature=0.03, **_solid(rng))
    builder.add_body("rod", parent="crank", joint="spherical", placement=(np.eye(3), (0.1, 0.0, 0.0)), **_solid(rng))
    builder.add_frame("top", body="rod", placement=(np.eye(3), (0.0, 0.0, 0.4)))
    builder.add_frame("knob", body="plate", placement=(np.eye(3), (0.1, 0.0, 0.0)))
    builder.connect("top", "knob")
    builder.add_rotor("crank", ratio=9.0, mass=0.2, inertia=np.diag([1e-3, 2e-3, 3e-3]), axis=(0, 0, 1))
    return builder.independent("crank", ("rod", 2), ("plate", 0), ("plate", 2)).build(near={"crank": 0.1})


def _bars() -> kt.Model:
    """A four-bar linkage with a tool on its coupler."""
    builder, rng = _stem("bars", 5)
    builder.add_body("seat", parent="wrist", joint="fixed", placement=_place(rng), **_solid(rng))
    builder.add_body("crank", parent="seat", **_solid(rng))
    builder.add_body("coupler", parent="crank", placement=(np.eye(3), (0.3, 0.0, 0.0)), **_solid(rng))
    builder.add_body("tool", parent="coupler", axis=unit(rng), placement=_place(rng), **_solid(rng))
    builder.add_body("rocker", parent="seat", placement=(np.eye(3), (1.0, 0.0, 0.0)), armature=0.1, **_solid(rng))
    builder.add_frame("tip", body="coupler", placement=(np.eye(3), (0.9, 0.0, 0.0)))
    builder.add_frame("pin", body="rocker", placement=(np.eye(3), (0.7, 0.0, 0.0)))
    return builder.connect("tip", "pin").independent("crank").build(near=NEAR)


def _couplings() -> kt.Model:
    """Fingers that follow a third one by a ratio and by a function; a ball joint and another pair hang on them."""
    builder, rng = _stem("couplings", 4)
    builder.add_body("thumb", parent="wrist", axis=unit(rng), placement=_place(rng), **_solid(rng))
    builder.add_body("index", parent="thumb", axis=unit(rng), placement=_place(rng), **_solid(rng))
    builder.add_body("slide", parent="wrist", joint="prismatic", axis=unit(rng), placement=_place(rng), **_solid(rng))
    builder.add_body("ball", parent="index", joint="spherical", placement=_place(rng), **_solid(rng))
    builder.add_body("near", parent="slide", axis=unit(rng), placement=_place(rng), **_solid(rng))
    builder.add_body("tool", parent="near", axis=unit(rng), placement=_place(rng), **_solid(rng))
    builder.couple("index", to="thumb", ratio=-1.5, offset=0.1)
    builder.couple("slide", to="thumb", function=lambda y: 0.3 * np.sin(y) + 0.1 * y * y)
    return builder.couple("tool", to="near", poly=[0.1, 0.5, -0.3]).build()


_ROBOTS = {"beams": _beams, "nodes": _nodes, "loops": _loops, "bars": _bars, "couplings": _couplings}

ROBOTS = tuple(_ROBOTS)

#: Those with a coordinate for each velocity. Single rates of ball joints in "loops" are independent, which have none.
CHARTED = tuple(name for name in ROBOTS if name != "loops")

#: A frame behind the nodes of every robot.
TOOL = "tool"


@cache
def robot(name: str) -> kt.Model:
    """The robot of this name, built once."""
    return _ROBOTS[name]()


class State(NamedTuple):
    """A state that moves in all degrees of freedom.

    Attributes:
        q: Configuration.
        v: Joint velocities.
        a: Joint accelerations.
        tau: Joint forces.
        f_ext: Wrenches on frames before and behind the nodes.
        d: Directions of q, v and a third argument, (3, nv).
        w: Weights, (nv,).
    """

    q: Array
    v: Array
    a: Array
    tau: Array
    f_ext: dict[str, Array]
    d: Array
    w: Array


@cache
def state(name: str) -> State:
    """The same state for all laws."""
    of, rng = robot(name), np.random.default_rng(7)
    q = of.integrate.engine("reference")(of.neutral(), rng.uniform(-0.3, 0.3, of.nv))
    v, a, tau, w, *d = rng.uniform(-1.0, 1.0, (7, of.nv))
    return State(q, v, a, tau, {TOOL: rng.normal(size=6), "elbow": rng.normal(size=6)}, np.array(d), w)


def stepped(name: str, direction: Any) -> Array:
    """q, moved by a complex step along directions of the tangent, (…, nv) to (…, nq)."""
    moved: Array = robot(name).integrate.engine("reference")(state(name).q.astype(complex), 1j * STEP * direction)
    return moved


@cache
def derivatives(name: str, function: str) -> tuple[Array, Array, Array]:
    """∂/∂q, ∂/∂v and ∂/∂a or ∂/∂τ of inverse or forward dynamics under wrenches, column by column in complex steps."""
    of, (q, v, a, tau, f_ext, *_) = robot(name), state(name)
    x, compute = (a if function == "inverse_dynamics" else tau), getattr(of, function).engine("reference")
    turns, still = 1j * STEP * np.eye(of.nv), np.zeros((of.nv, of.nv))
    moved = (stepped(name, np.eye(of.nv)), v + still, x + still), (q, v + turns, x + still), (q, v, x + turns)
    by_q, by_v, by_x = (np.imag(compute(*at, f_ext=f_ext)).T / STEP for at in moved)
    return by_q, by_v, by_x


@cache
def tolerance(name: str, *, solves: bool = False) -> float:
    """What rounding explains; `solves` if a mass matrix is inverted on the way."""
    of = robot(name)
    return bound(of.nv, condition(of.mass_matrix.engine("reference")(state(name).q)) if solves else 0.0)
