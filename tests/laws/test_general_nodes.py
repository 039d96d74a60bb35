"""Nodes that are not rigid bodies: every function against complex steps, and against definitions.

Beams, users' nodes, loops and coupled joints stand behind two skew hinges on a floating base, with more bodies behind
them: on a still parent most terms of their derivatives vanish; here every parent moves, and no two axes are parallel.
Small robots have what these have not. Complex steps run through the plain recursions on the reference engine, which
share no formula with the derivatives.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import kinetree as kt
from kinetree import control
from kinetree.runtime.fastcall_results import SMALLEST_BATCH
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Motion
from kinetree.spatial.transform import Transform
from tests.general_nodes import Bead, Cart, Swarm, Telescope, Two
from tests.laws.cases import ENGINES, LWA, REFERENCES, H
from tests.mechanisms import NEAR, gripper, whip
from tests.tolerance import Array, assert_close, bound, condition, peak, solving_bound
from tests.trees import random_inertia, random_rotation, unit
from tests.unit.model.test_closed_loops import suspended
from tests.unit.model.test_couplings import hand
from tests.unit.model.test_general_nodes import with_a_bead


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


def _manifolds() -> kt.Model:
    """A telescopic arm on a ball joint, and masses whose coordinates are a circle and shears, between bodies."""
    builder, rng = _stem("manifolds", 6)
    rotor = (0.0, 0.0, 0.0, 0.1)
    arm = Telescope(stiffness=7.0, **_solid(rng))
    builder.add_node("arm", arm, parent="wrist", placement=_place(rng), armature=rotor)
    builder.add_body("tool", parent="arm/end", axis=unit(rng), placement=_place(rng), **_solid(rng))
    builder.add_node("swarm", Swarm(0.5, 0.3, stiffness=20.0), parent="tool", placement=_place(rng))
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
    builder.add_rotor("crank_joint", ratio=9.0, mass=0.2, inertia=np.diag([1e-3, 2e-3, 3e-3]), axis=(0, 0, 1))
    builder.independent("crank_joint", ("rod_joint", 2), ("plate_joint", 0), ("plate_joint", 2))
    return builder.build(near={"crank_joint": 0.1})


def _meshed() -> kt.Model:
    """A loop through a beam on a crank and a telescopic arm on a ball joint; a bead follows the crank."""
    builder, rng = _stem("meshed", 7)
    builder.add_body("seat", parent="wrist", joint="fixed", placement=_place(rng), **_solid(rng))
    builder.add_body("crank", parent="seat", axis=(0, 1, 0), placement=_place(rng), armature=0.03, **_solid(rng))
    beam = kt.Beam(0.6, 50.0, 0.8, modes=1, planes="yz", axial_inertia=1e-2)
    builder.add_flexible("beam", beam, parent="crank", placement=_place(rng))
    builder.add_node("arm", Telescope(stiffness=7.0, **_solid(rng)), parent="seat", placement=_place(rng))
    builder.add_body("tool", parent="arm/end", axis=unit(rng), placement=_place(rng), **_solid(rng))
    builder.add_node("bead", Bead(0.5, 0.8, stiffness=20.0, damping=0.3), parent="crank", placement=_place(rng))
    builder.add_frame("hook", body="arm/end", placement=_place(rng))
    builder.connect("beam/tip", "hook").couple("bead", to="crank_joint", poly=[0.02, 0.3, 0.1])
    return builder.independent("crank_joint", "beam", ("arm", 2)).build(near={"arm": (0.8, 0.5, 0.2, 0.1, 0.9)})


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
    return builder.connect("tip", "pin").independent("crank_joint").build(near=NEAR)


def _couplings() -> kt.Model:
    """Fingers that follow a third one by a ratio and by a function; a ball joint and another pair hang on them."""
    builder, rng = _stem("couplings", 4)
    builder.add_body("thumb", parent="wrist", axis=unit(rng), placement=_place(rng), **_solid(rng))
    builder.add_body("index", parent="thumb", axis=unit(rng), placement=_place(rng), **_solid(rng))
    builder.add_body("slide", parent="wrist", joint="prismatic", axis=unit(rng), placement=_place(rng), **_solid(rng))
    builder.add_body("ball", parent="index", joint="spherical", placement=_place(rng), **_solid(rng))
    builder.add_body("near", parent="slide", axis=unit(rng), placement=_place(rng), **_solid(rng))
    builder.add_body("tool", parent="near", axis=unit(rng), placement=_place(rng), **_solid(rng))
    builder.couple("index_joint", to="thumb_joint", ratio=-1.5, offset=0.1)
    builder.couple("slide_joint", to="thumb_joint", function=lambda y: 0.3 * np.sin(y) + 0.1 * y * y)
    return builder.couple("tool_joint", to="near_joint", poly=[0.1, 0.5, -0.3]).build()


def _cam() -> kt.Model:
    """A follower on a moving base, by a function that is differentiated inside the node's formulas."""
    builder = kt.Builder("cam").add_body("base", axis=(1.0, 0.0, 0.0), mass=1.0, inertia=0.1 * np.eye(3))
    solid = {"mass": 1.0, "com": (0.2, 0.02, 0.03), "inertia": np.diag([0.01, 0.02, 0.03])}
    builder.add_body("cam", parent="base", axis=(0.0, 1.0, 0.0), **solid)
    builder.add_body("rod", parent="cam", axis=(0.0, 0.0, 1.0), placement=(np.eye(3), (0.4, 0.0, 0.0)), **solid)
    return builder.couple("rod_joint", to="cam_joint", function=lambda y: 0.3 * np.sin(y) + 0.1 * y * y).build()


_BUILT = (_beams, _nodes, _loops, _bars, _couplings, _manifolds, _meshed, gripper, whip, with_a_bead, suspended, _cam)
_STEMMED = ("beams", "nodes", "loops", "bars", "couplings", "manifolds", "meshed")
NAMES = (*_STEMMED, "gripper", "whip", "bead", "suspended", "cam")
_ROBOTS = {**dict(zip(NAMES, _BUILT, strict=True)), "hand": lambda: hand(coupled=True)}
SMALL = NAMES[len(_STEMMED) :]
#: On the reference engine: native code of all functions takes minutes to compile, and others have it.
SLOW = _STEMMED[-2:]
MOVING = _STEMMED[:-2]
#: Those with a coordinate for each velocity. Single rates of ball joints in others are independent, which have none.
CHARTED = tuple(name for name in MOVING if name != "loops")
#: A frame behind the nodes of every robot with a moving base.
TOOL = "tool"
DYNAMICS = ("inverse_dynamics", "forward_dynamics")


@cache
def robot(name: str) -> kt.Model:
    return _ROBOTS[name]()


class State(NamedTuple):
    """A state that moves in all degrees of freedom."""

    q: Array
    v: Array
    a: Array
    tau: Array
    f_ext: dict[str, Array]  # on frames before and behind the nodes
    d: Array  # directions of q, v and a third argument, (3, nv)
    w: Array  # weights, (nv,)


@cache
def state(name: str) -> State:
    """The same state for all laws."""
    of, rng = robot(name), np.random.default_rng(7)
    if name in _STEMMED:
        q = of.integrate.engine("reference")(of.neutral(), rng.uniform(-0.3, 0.3, of.nv))
    else:
        q = of.random_configuration(4)
    v, a, tau, w, *d = rng.uniform(-1.0, 1.0, (7, of.nv))
    wrenches = {TOOL: rng.normal(size=6), "elbow": rng.normal(size=6)} if name in _STEMMED else {}
    return State(q, v, a, tau, wrenches, np.array(d), w)


def frames(name: str) -> list[str]:
    return [TOOL, "elbow"] if name in _STEMMED else [robot(name).frames[-1], robot(name).frames[1]]


def given(name: str, function: str) -> tuple[Array, Array, Array]:
    q, v, a, tau, *_ = state(name)
    return q, v, a if function == "inverse_dynamics" else tau


def stepped(name: str, direction: Any) -> Array:
    """q, moved by a complex step along directions of the tangent, (…, nv) to (…, nq)."""
    moved: Array = robot(name).integrate.engine("reference")(state(name).q.astype(complex), 1j * H * direction)
    return moved


@cache
def derivatives(name: str, function: str) -> tuple[Array, Array, Array]:
    """∂/∂q, ∂/∂v and ∂/∂a or ∂/∂τ of inverse or forward dynamics under wrenches, column by column in complex steps."""
    of, (q, v, x) = robot(name), given(name, function)
    compute = getattr(of, function).engine("reference")
    turns, still = 1j * H * np.eye(of.nv), np.zeros((of.nv, of.nv))
    moved = (stepped(name, np.eye(of.nv)), v + still, x + still), (q, v + turns, x + still), (q, v, x + turns)
    by_q, by_v, by_x = (np.imag(compute(*at, f_ext=state(name).f_ext)).T / H for at in moved)
    return by_q, by_v, by_x


@cache
def tolerance(name: str, *, solves: bool = False) -> float:
    """What rounding explains; `solves` if a mass matrix is inverted on the way."""
    of = robot(name)
    return bound(of.nv, condition(of.mass_matrix.engine("reference")(state(name).q)) if solves else 0.0)


def close(name: str, function: str, found: Any, expected: Any, slack: float = 4.0) -> None:
    assert_close(found, expected, slack * tolerance(name, solves=function == "forward_dynamics"))


def each(*small: tuple[str, str], names: tuple[str, ...] = MOVING) -> Any:
    """Robots with a moving base on all engines, and small ones."""
    slow = on("reference", *SLOW) if names == MOVING else []
    return pytest.mark.parametrize(("name", "engine"), [*product(names, ENGINES), *slow, *small])


def on(engine: str, *names: str) -> list[tuple[str, str]]:
    return [(name, engine) for name in names]


each_dynamics = pytest.mark.parametrize("function", DYNAMICS)


@each_dynamics
@each(*on("native", "cam", "bead"))
def test_matrices(name: str, engine: str, function: str) -> None:
    matrices = getattr(robot(name), f"{function}_derivatives").engine(engine)
    found = matrices(*given(name, function), f_ext=state(name).f_ext)
    for matrix, expected in zip(found, derivatives(name, function), strict=True):
        close(name, function, matrix, expected, 4.0 if name in _STEMMED else 1.0)


@pytest.mark.parametrize("name", MOVING)
def test_linearize(name: str) -> None:
    of, (q, v, a, tau, f_ext, *_) = robot(name), state(name)
    found = of.linearize(q, v, a=a, f_ext=f_ext), of.linearize(q, v, tau=tau, f_ext=f_ext)
    for function, matrices in zip(DYNAMICS, found, strict=True):
        for matrix, expected in zip(matrices, derivatives(name, function), strict=True):
            close(name, function, matrix, expected)


@each_dynamics
@pytest.mark.parametrize("name", SLOW)
def test_native_code(name: str, function: str) -> None:
    """Also in batches, with the same bits."""
    of, (q, v, x) = getattr(robot(name), function), given(name, function)
    expected, found = of.engine("reference")(q, v, x), of(np.stack([q] * 5), v, x)
    close(name, function, found[2], expected)
    assert np.array_equal(found[4], of(q, v, x))


@each_dynamics
@each()
def test_changes_and_gradients(name: str, engine: str, function: str) -> None:
    differentiated, at = getattr(robot(name), function).engine(engine), given(name, function)
    f_ext, d, w, matrices = state(name).f_ext, state(name).d, state(name).w, derivatives(name, function)
    change = sum(matrix @ direction for matrix, direction in zip(matrices, d, strict=True))
    close(name, function, differentiated.jvp(*at, *d, f_ext=f_ext), change)
    for gradient, matrix in zip(differentiated.vjp(*at, w, f_ext=f_ext), matrices, strict=True):
        close(name, function, gradient, w @ matrix)


@pytest.mark.parametrize(
    ("name", "engine", "function"),
    [
        *product(MOVING, ENGINES, DYNAMICS),
        *product(SLOW, ["reference"], DYNAMICS),
        *((name, "native", DYNAMICS[0]) for name in ("gripper", "cam", "bead")),
    ],
)
def test_changes_of_gradients(name: str, engine: str, function: str) -> None:
    """Complex steps through gradients, which the test above compares with complex steps through the dynamics."""
    differentiated, (q, v, x) = getattr(robot(name), function).engine(engine), given(name, function)
    f_ext, d, w = state(name).f_ext, state(name).d, state(name).w
    moved = stepped(name, d[0]), v + 1j * H * d[1], x + 1j * H * d[2]
    expected = differentiated.engine("reference").vjp(*moved, w, f_ext=f_ext)
    products = differentiated.hvp(q, v, x, w, *d, f_ext=f_ext)
    for found, gradient in zip(products, expected, strict=True):
        close(name, function, found, np.imag(gradient) / H)
    if name == "gripper":
        assert np.array_equal(differentiated.hvp(np.stack([q, q]), v, x, w, *d).dq[1], products.dq)


@each(*on("native", *SMALL))
def test_coriolis_matrix(name: str, engine: str) -> None:
    """C v is the part of the forces that is quadratic in v; Ṁ = C + Cᵀ, and C has Christoffel's symbols."""
    of, (q, v, *_) = robot(name), state(name)
    C = of.coriolis_matrix.engine(engine)(q, v)
    M, bias = of.mass_matrix.engine("reference"), of.bias_forces.engine("reference")
    quadratic = 0.5 * (bias(q, v) + bias(q, -v)) - bias(q, np.zeros(of.nv))  # dampers are odd in v
    close(name, "inverse_dynamics", C @ v, quadratic)
    close(name, "inverse_dynamics", C + C.T, np.imag(M(stepped(name, v))) / H)
    if name in ("loops", "meshed", "suspended"):  # no public bracket
        return
    # what is even in v is quadratic in it: its derivative is half the difference of those at v and −v
    turns = 1j * H * np.eye(of.nv)
    by_v = np.imag(bias(q, v + turns) - bias(q, -v + turns)).T / (2.0 * H)
    close(name, "inverse_dynamics", 2.0 * C, by_v + M(q) @ of.bracket(v))


@pytest.mark.parametrize("reference", REFERENCES)
@each(*on("reference", "gripper", "whip", "suspended", "hand"))
def test_frames(name: str, engine: str, reference: str) -> None:
    of, (q, v, a, *_) = robot(name), state(name)
    asked = [*frames(name), "world"]

    def compute(function: str, *arguments: Any, on: str = "reference") -> Any:
        return getattr(of, function).engine(on)(*arguments, asked, reference)

    units = np.eye(of.nv)
    rate = np.imag(compute("jacobian", stepped(name, v))) / H
    J = compute("jacobian", q, on=engine)
    close(name, "", J, np.moveaxis(compute("velocity", q, units), 0, -1))
    close(name, "", compute("velocity", q, v, on=engine), J @ v)
    close(name, "", compute("jacobian_rate", q, v, on=engine), rate)
    close(name, "", compute("jacobian_dot_v", q, v, on=engine), rate @ v)
    close(name, "", compute("acceleration", q, v, a, on=engine), J @ a + rate @ v)
    by_q = np.moveaxis(np.imag(compute("velocity", stepped(name, units), v)) / H, 0, -1)
    close(name, "", compute("velocity_derivative", q, v, on=engine), by_q)
    for classical in (False, True):

        def acceleration(*state: Any, classical: bool = classical) -> Any:
            return of.acceleration.engine("reference")(*state, asked, reference, classical)

        found = of.acceleration_derivatives.engine(engine)(q, v, a, asked, reference, classical)
        states = (stepped(name, units), v, a), (q, v + 1j * H * units, a), (q, v, a + 1j * H * units)
        for matrix, moved in zip(found, states, strict=True):
            close(name, "", matrix, np.moveaxis(np.imag(acceleration(*moved)) / H, 0, -1))


@each()
def test_power_is_the_rate_of_energy(name: str, engine: str) -> None:
    """Where dampers take what is odd in v."""
    of, (q, v, a, *_) = robot(name), state(name)
    bias = of.bias_forces.engine("reference")
    damped = 0.5 * (bias(q, v) - bias(q, -v))
    rate = np.sum(of.energy.engine("reference")(stepped(name, v), v + 1j * H * a)).imag / H
    tau = of.inverse_dynamics.engine(engine)(q, v, a)
    assert_close(rate, (tau - damped) @ v, tolerance(name), float(np.abs(tau) @ np.abs(v)))


@each(*on("reference", "hand", "suspended", "whip"))
def test_matrices_and_their_inverses(name: str, engine: str) -> None:
    of, (q, v, a, tau, f_ext, *_) = robot(name), state(name)
    on = {key: getattr(of, key).engine(engine) for key in ("mass_matrix", "mass_matrix_inverse", "mass_matrix_solve")}
    M, solving = on["mass_matrix"](q), tolerance(name, solves=True)
    assert_close(M, derivatives(name, "inverse_dynamics")[2], tolerance(name))
    assert_close(on["mass_matrix_inverse"](q) @ M, np.eye(of.nv), solving)
    assert_close(M @ on["mass_matrix_solve"](q, v), v, solving)
    found = of.inverse_dynamics.engine(engine)(q, v, of.forward_dynamics.engine(engine)(q, v, tau, f_ext), f_ext)
    assert_close(found, tau, solving, peak(M) * peak(a))
    assert_close(of.operators(q, engine=engine).mass @ v, M @ v, tolerance(name))
    assert_close(of.operators(q, engine=engine).mass_inverse @ (M @ v), v, solving)


@each(*on("reference", "gripper", "whip"))
def test_centroid(name: str, engine: str) -> None:
    """The base's rows of M v are the momentum of all, seen from the base; the rest follows by shifting it."""
    of, (q, v, *_) = robot(name), state(name)
    center, J, A = (
        getattr(of, function).engine(engine)(q)
        for function in ("center_of_mass", "center_of_mass_jacobian", "centroidal_momentum_matrix")
    )
    by_q = np.imag(of.center_of_mass.engine("reference")(stepped(name, np.eye(of.nv)))).T / H
    assert_close(J, by_q, tolerance(name))
    assert_close(A[3:], J * of.mass, tolerance(name))
    # the power of gravity is that of the weight at the centre of mass, whatever springs do
    pulls, springs = (one.gravity_forces.engine("reference")(q) for one in (of, of.with_gravity(np.zeros(3))))
    assert_close(-of.mass * of.gravity @ J, pulls - springs, tolerance(name), peak(pulls, springs))
    if name in _STEMMED:
        pose = of.pose(q, "base")
        momentum = of.mass_matrix.engine("reference")(q)[:6] @ v
        angular, linear = pose[:3, :3] @ momentum[:3], pose[:3, :3] @ momentum[3:]
        angular = angular - np.cross(center - pose[:3, 3], linear)
        assert_close(A @ v, np.concatenate([angular, linear]), tolerance(name))


def test_centroidal_momentum_is_that_of_the_spanning_tree() -> None:
    of, q = robot("hand"), state("hand").q
    A, tree = of.centroidal_momentum_matrix.engine("reference")(q), of.spanning_tree
    G = of.coupling.engine("reference")(q)[of.tree_order]
    expected = tree.centroidal_momentum_matrix.engine("reference")(of.to_tree(q)) @ G
    assert_close(A, expected, bound(of.nv))


@each(*on("native", "whip", "gripper"))
def test_regressor(name: str, engine: str) -> None:
    """A payload changes joint forces by Y times its parameters."""
    of, (q, v, a, *_), held = robot(name), state(name), TOOL if name in _STEMMED else robot(name).bodies[-1].name
    mass, com, inertia = 0.7, np.array([0.1, 0.2, -0.1]), np.diag([0.02, 0.03, 0.04])
    heavier = of.with_payload(held, mass, com=com, inertia=inertia)
    before, after = (one.inverse_dynamics.engine("reference")(q, v, a) for one in (of, heavier))
    about = inertia + mass * (com @ com * np.eye(3) - np.outer(com, com))
    theta = np.concatenate([[mass], mass * com, about[np.triu_indices(3)]])
    found = of.regressor.engine(engine)(q, v, a, held) @ theta
    assert_close(found, after - before, tolerance(name), peak(after))


@pytest.mark.parametrize("method", ["semi_implicit_euler", "midpoint", "rk4"])
@pytest.mark.parametrize("name", [*CHARTED, "gripper"])
def test_discretize(name: str, method: Any) -> None:
    """Along a random direction of q, v and τ, or along all of them."""
    of, (q, v, _, tau, f_ext, d, _) = robot(name), state(name)
    step, difference, dt = of.step.engine("reference"), of.difference.engine("reference"), 0.01
    ways = d[None] if name in CHARTED else np.eye(3 * of.nv).reshape(-1, 3, of.nv)
    end = step(q, v, tau, dt, method=method, f_ext=f_ext)
    A, B = of.discretize(q, v, tau, dt, method=method, f_ext=f_ext)
    for way in ways:
        moved = stepped(name, way[0]), v + 1j * H * way[1], tau + 1j * H * way[2]
        there = step(*moved, dt, method=method, f_ext=f_ext)
        change = np.concatenate([difference(end[0].astype(complex), there[0]).imag, there[1].imag]) / H
        terms = A @ np.concatenate(way[:2]), B @ way[2]
        assert_close(sum(terms), change, tolerance(name, solves=True), peak(*terms))
    many = of.discretize(np.stack([q, q]), v, tau, dt, method=method, f_ext=f_ext)
    assert np.array_equal(many.A[1], A)
    assert np.array_equal(many.B[0], B)


@each(*on("reference", "gripper", "whip"))
def test_the_derivative_of_the_inverse_inertia(name: str, engine: str) -> None:
    tool, other = frames(name)
    made = robot(name).tasks([kt.Task(tool, (2, 3, 4)), kt.Task(other, (1, 5))])
    q, v = state(name)[:2]
    rate = np.imag(made.engine("reference").inverse_inertia(stepped(name, v))) / H
    found = made.engine(engine).inverse_inertia_derivative(q, v)
    assert_close(found, rate, 4.0 * tolerance(name, solves=True))


@each()
def test_tasks(name: str, engine: str) -> None:
    """A frame, one relative to another, and the centre of mass."""
    of, (q, v, *_) = robot(name), state(name)
    made = of.tasks([kt.Task(TOOL, (2, 3, 4)), kt.RelativeTask("elbow", TOOL, (1, 4)), kt.CenterOfMassTask((3, 4))])
    on, exact = made.engine(engine), made.engine("reference")
    J, M = exact.jacobian(q), of.mass_matrix.engine("reference")(q)
    inverse = J @ np.linalg.solve(M, J.T)
    assert_close(on.jacobian(q), J, tolerance(name))
    drift = np.imag(exact.jacobian(stepped(name, v))) @ v / H
    assert_close(on.jacobian_dot_v(q, v), drift, tolerance(name))
    assert_close(on.inverse_inertia(q), inverse, 4.0 * tolerance(name, solves=True))
    # joint forces JᵀF move tasks by Λ ẍ + bias = F
    F = np.arange(1.0, len(J) + 1.0)
    moved = J @ of.forward_dynamics.engine("reference")(q, v, J.T @ F) + drift
    felt, bias = on.inertia(q) @ moved, on.bias(q, v)
    assert_close(felt + bias, F, bound(of.nv, condition(M) + condition(inverse)), peak(felt) + peak(bias))


@pytest.mark.parametrize("name", MOVING)
def test_held_frames(name: str) -> None:
    """Newton–Euler with the force of a weld that holds the tool, whose rows do not accelerate."""
    of, (q, v, _, tau, *_) = robot(name), state(name)
    held = of.constraints([kt.Weld(TOOL)])
    v = held.project_velocity(q, v)
    a, force = held.forward_dynamics(q, v, tau)
    J = held.jacobian(q)
    solving = solving_bound(of, q, J)
    assert_close(of.inverse_dynamics(q, v, a), tau + J.T @ force, solving, peak(J.T @ force))
    assert_close(of.acceleration(q, v, a, TOOL), np.zeros(6), solving, peak(J @ a) + peak(a))


@each(names=CHARTED)
def test_control_takes_drift_into_account(name: str, engine: str) -> None:
    """A frame and the centre of mass accelerate as asked for, whatever drifts."""
    of, (q, v, *_) = robot(name), state(name)
    task, center = kt.Task(TOOL, "position"), kt.CenterOfMassTask()
    goals = [control.Goal(task, kp=100.0, kd=20.0), control.Goal(center, kp=50.0, kd=10.0)]
    law = control.OperationalSpace(of, goals, undriven=[], cut=1e-9).engine(engine)
    here = of.pose(q, TOOL)[:3, 3], of.center_of_mass(q)
    by = np.array([0.03, -0.02, 0.05]), np.array([-0.02, 0.01, 0.03])
    command = law(q, v, {TOOL: here[0] + by[0], "center_of_mass": here[1] + by[1]})
    made = of.tasks([task, center], reference=LWA).engine("reference")
    J = made.jacobian(q)
    drift = np.imag(made.jacobian(stepped(name, v))) @ v / H
    wanted = np.concatenate([100.0 * by[0], 50.0 * by[1]]) - np.repeat([20.0, 10.0], 3) * (J @ v)
    solving = solving_bound(of, q, J)
    a = of.forward_dynamics.engine("reference")(q, v, command.tau)
    assert_close(J @ a + drift, wanted, solving, peak(a) + peak(wanted))


@pytest.mark.parametrize("name", SMALL)
def test_functions_are_kernels_with_the_same_bits_in_batches(name: str) -> None:
    of = robot(name)
    q, v, x, w = (np.stack([array] * SMALLEST_BATCH) for array in state(name)[:4])
    v = v + 0.5 * np.arange(SMALLEST_BATCH)[:, None]
    for function, arrays, *rest in (
        (of.mass_matrix, (q,)),
        (of.mass_matrix_inverse, (q,)),
        (of.jacobian, (q,), of.frames[-1]),
        (of.coriolis_matrix, (q, v)),
        (of.inverse_dynamics_derivatives, (q, v, x)),
        (of.forward_dynamics_derivatives, (q, v, x)),
        (of.inverse_dynamics.vjp, (q, v, x, w)),
        (of.forward_dynamics.vjp, (q, v, x, w)),
    ):
        found = several(function(*arrays, *rest))
        for i in range(SMALLEST_BATCH):
            for part, alone in zip(found, several(function(*(array[i] for array in arrays), *rest)), strict=True):
                assert np.array_equal(part[i], alone)
        expected = several(function.engine("reference")(*(array[0] for array in arrays), *rest))
        for part, want in zip(found, expected, strict=True):
            assert_close(part[0], want, bound(of.nv, condition(of.mass_matrix(q))))


def several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def test_one_recursion_for_all_columns() -> None:
    """Not one for each column: that would be 3 nv times the cost of a directional derivative."""
    of = robot("suspended")
    assert of.count("inverse_dynamics_derivatives").total < 0.2 * 3 * of.nv * of.count("inverse_dynamics.jvp").total
    assert of.count("inverse_dynamics.vjp").total < 2.5 * of.count("inverse_dynamics.jvp").total


def test_friction_and_stops() -> None:
    """Friction that is strong enough holds the robot still; stops keep joints within their limits."""
    of, q = robot("gripper"), state("gripper").q
    held = kt.simulation.Simulator(of, dt=1e-3, friction=np.full(of.nv, 200.0))
    _, v, _ = held.step(q, np.zeros(of.nv))
    assert peak(v) < 1e-9
    with pytest.warns(kt.errors.ModelWarning, match="does not stop coupled joints"):
        stopped = kt.simulation.Simulator(of, dt=1e-3, limits=True)
    v, push = np.zeros(of.nv), np.array([0.0, 0.0, 0.0, 0.0, 100.0])
    for _ in range(60):
        q, v, _ = stopped.step(q, v, push)
    assert q[-1] <= of.upper_limits[-1] + 1e-6
