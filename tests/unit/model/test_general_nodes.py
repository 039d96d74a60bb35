"""Nodes of users: their laws, and robots with them against the same mechanisms as rigid bodies or with constraints."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix_product
from kinetree.compiler.count import count
from kinetree.model.nodes import laws
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.transform import transform_of
from tests.general_nodes import Bead, Cart, Two
from tests.mechanisms import assert_jvps_are_exact
from tests.tolerance import assert_close

ENGINES = ("reference", "native")
J = np.diag([0.02, 0.03, 0.04])
CART = {"mass": 1.5, "com": (0.1, -0.05, 0.02), "inertia": J}
LOAD = {"mass": 0.7, "com": (0.0, 0.1, 0.2), "inertia": J}
BEHIND = {"joint": "revolute", "axis": (0.0, 1.0, 0.0), "placement": (np.eye(3), (0.1, 0.2, 0.3))}
K = 0.8


def turned(angle: float) -> Any:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])


def on_a_track() -> kt.Model:
    """base, cart on a track, pendulum on the cart."""
    builder = kt.Builder("track")
    builder.add_body("base", joint="floating", mass=3.0, com=(0.1, 0.0, 0.0), inertia=J)
    builder.add_node("cart", Cart(K, **CART), parent="base", placement=(turned(0.4), (0.0, 0.1, 0.2)))
    builder.add_body("load", parent="cart/seat", **BEHIND, **LOAD)
    builder.add_body("bag", parent="cart/seat", joint="fixed", placement=(turned(0.7), (0.1, 0.0, -0.2)), **LOAD)
    return builder.add_frame("hook", body="load", placement=(turned(-0.3), (0.0, 0.0, 0.4))).build()


def on_slides() -> kt.Model:
    """The same with two slides and a hinge in place of the track."""
    builder = kt.Builder("slides")
    builder.add_body("base", joint="floating", mass=3.0, com=(0.1, 0.0, 0.0), inertia=J)
    at = (turned(0.4), (0.0, 0.1, 0.2))
    builder.add_body("x", parent="base", joint="prismatic", axis=(1.0, 0.0, 0.0), placement=at)
    builder.add_body("y", parent="x", joint="prismatic", axis=(0.0, 1.0, 0.0))
    builder.add_body("cart/seat", parent="y", joint="revolute", **CART)
    builder.add_body("load", parent="cart/seat", **BEHIND, **LOAD)
    builder.add_body("bag", parent="cart/seat", joint="fixed", placement=(turned(0.7), (0.1, 0.0, -0.2)), **LOAD)
    return builder.add_frame("hook", body="load", placement=(turned(-0.3), (0.0, 0.0, 0.4))).build()


def spread_out(q: Any, v: Any, a: Any) -> tuple[Any, Any, Any, Any]:
    """Coordinates of the slides for those of the track, and G with q̇ = G v."""
    x, slope = q[7], 2.0 * K * q[7]
    stretch = 1.0 + slope * slope
    G = np.zeros((10, 8))
    G[:6, :6], G[9, 7] = np.eye(6), 1.0
    G[6:9, 6] = 1.0, slope, 2.0 * K / stretch
    drift = np.zeros(10)
    drift[7:9] = 2.0 * K * v[6] ** 2, -2.0 * K * 2.0 * slope * 2.0 * K / stretch**2 * v[6] ** 2
    return np.concatenate([q[:7], [x, K * x * x, np.arctan(slope)], q[8:]]), G @ v, G @ a + drift, G


@pytest.fixture(scope="module")
def state() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(4)
    return on_a_track().random_configuration(rng), rng.normal(size=8), rng.normal(size=8)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_curved_track_agrees_with_slides_and_a_hinge(engine: str, state: Any) -> None:
    robot, tree = on_a_track(), on_slides()
    (q, v, a), (q_t, v_t, a_t, G) = state, spread_out(*state)
    f_ext = {"hook": np.arange(6.0), "cart/seat": np.ones(6)}
    tau = robot.inverse_dynamics.engine(engine)(q, v, a, f_ext)
    assert_close(tau, G.T @ tree.inverse_dynamics(q_t, v_t, a_t, f_ext), 1e-13)
    assert_close(robot.forward_dynamics.engine(engine)(q, v, tau, f_ext), a, 1e-11)
    M = G.T @ tree.mass_matrix(q_t) @ G
    assert_close(robot.mass_matrix.engine(engine)(q), M, 1e-13)
    assert_close(robot.mass_matrix_inverse.engine(engine)(q), np.linalg.inv(M), 1e-11)
    assert_close(robot.mass_matrix_log_determinant.engine(engine)(q), np.linalg.slogdet(M)[1], 1e-12)
    assert_close(robot.gravity_forces.engine(engine)(q), G.T @ tree.gravity_forces(q_t), 1e-13)
    for mine, theirs in zip(robot.energy.engine(engine)(q, v), tree.energy(q_t, v_t)):
        assert_close(mine, theirs, 1e-13)


@pytest.mark.parametrize("reference", ["local", "local_world_aligned", "world"])
@pytest.mark.parametrize("engine", ENGINES)
def test_frames_behind_outlets(engine: str, reference: str, state: Any) -> None:
    robot, tree = on_a_track(), on_slides()
    (q, v, a), (q_t, v_t, a_t, G) = state, spread_out(*state)
    frames = ["hook", "cart/seat", "base", "world"]
    assert_close(robot.pose.engine(engine)(q, frames), tree.pose(q_t, frames), 1e-13)
    velocity = robot.velocity.engine(engine)(q, v, frames, reference)
    assert_close(velocity, tree.velocity(q_t, v_t, frames, reference), 1e-13)
    acceleration = tree.acceleration(q_t, v_t, a_t, frames, reference)
    assert_close(robot.acceleration.engine(engine)(q, v, a, frames, reference), acceleration, 1e-12)
    classical = tree.acceleration(q_t, v_t, a_t, frames, reference, classical=True)
    assert_close(robot.acceleration.engine(engine)(q, v, a, frames, reference, True), classical, 1e-12)
    jacobian = tree.jacobian(q_t, frames, reference) @ G
    assert_close(robot.jacobian.engine(engine)(q, frames, reference), jacobian, 1e-13)
    drift = acceleration - jacobian @ a
    assert_close(robot.jacobian_dot_v.engine(engine)(q, v, frames, reference), drift, 1e-12)
    assert_close(robot.jacobian.engine(engine)(q, "hook", reference), jacobian[0], 1e-13)


def test_columns_take_batches_and_out(state: Any) -> None:
    robot, (q, _, _) = on_a_track(), state
    batch = np.stack([q, robot.neutral()])
    M, out = robot.mass_matrix(batch), np.zeros((2, 8, 8))
    assert np.array_equal(M[0], robot.mass_matrix(q))
    assert robot.mass_matrix(batch, out=out) is out
    assert np.array_equal(out, M)
    J = robot.jacobian(batch, ["hook", "base"])
    assert J.shape == (2, 2, 6, 8)
    assert np.array_equal(J[1, 0], robot.jacobian(robot.neutral(), "hook"))
    with pytest.raises(kt.errors.InputError, match="out must be a float64 array"):
        robot.mass_matrix(q, out=np.zeros((8, 8), dtype=np.float32))
    with pytest.raises(kt.errors.InputError, match="mass_matrix"):
        robot.mass_matrix(np.zeros(3))
    # one recursion for the whole matrix, not one for each column
    assert robot.count("mass_matrix").total < 3 * count(mass_matrix_product, robot.mechanism).total


@pytest.mark.parametrize("engine", ENGINES)
def test_several_outlets_agree_with_a_branching_tree(engine: str) -> None:
    builder, tree = kt.Builder("two"), kt.Builder("tree")
    for one in (builder, tree):
        one.add_body("base", joint="floating", mass=3.0, com=(0.1, 0.0, 0.0), inertia=J)
    rows = []
    for i, side in enumerate(("left", "right")):
        placement, com, mass = np.eye(4), np.array([0.1 * i, 0.05, 0.2]), 1.0 + i
        placement[:3, :3], placement[:3, 3] = turned(0.5 + i), (0.1, 0.3 * i, 0.2)
        rows.append((transform_of(placement), RigidInertia.of(mass, com, J)))
        tree.add_body(f"pair/{side}", parent="base", placement=placement, mass=mass, com=com, inertia=J)
        for which in (builder, tree):
            which.add_body(f"{side} tip", parent=f"pair/{side}", **BEHIND, **LOAD)
    builder.add_node("pair", Two(rows), parent="base")
    robot, rigid = builder.build(), tree.build()
    # left, left tip, right, right tip on the tree; left, right, left tip, right tip on the node
    iq, iv = np.array([*range(7), 7, 9, 8, 10]), np.array([*range(6), 6, 8, 7, 9])
    rng = np.random.default_rng(0)
    q, v, a = rigid.random_configuration(rng, 3), rng.normal(size=(3, 10)), rng.normal(size=(3, 10))
    tau = rigid.inverse_dynamics(q, v, a)
    q, v, a, tau = q[:, iq], v[:, iv], a[:, iv], tau[:, iv]
    assert_close(robot.inverse_dynamics.engine(engine)(q, v, a), tau, 1e-13)
    assert_close(robot.forward_dynamics.engine(engine)(q, v, tau), a, 1e-11)
    assert robot.mechanism.column_parents == (-1, 0, 1, 2, 3, 4, 5, 6, 7, 7)


def with_a_bead(**settings: float) -> kt.Model:
    builder = kt.Builder("bead")
    builder.add_body("arm", axis=(0.0, 1.0, 0.0), mass=1.0, com=(0.0, 0.0, 0.3), inertia=J)
    return builder.add_node(
        "bead", Bead(0.5, 2.0, **settings), parent="arm", placement=(np.eye(3), (0, 0, 0.5))
    ).build()


@pytest.mark.parametrize("engine", ENGINES)
def test_springs_and_dampers(engine: str) -> None:
    robot, free = with_a_bead(stiffness=30.0, damping=2.0), with_a_bead()
    q, v, a = np.array([[0.3, 0.2], [-1.0, 0.1]]), np.array([0.5, -1.0]), np.array([1.0, 2.0])
    added = np.stack([0.0 * q[:, 1], 30.0 * q[:, 1] + 2.0 * v[1]], axis=-1)
    tau = free.inverse_dynamics(q, v, a) + added
    assert_close(robot.inverse_dynamics.engine(engine)(q, v, a), tau, 1e-14)
    assert_close(robot.forward_dynamics.engine(engine)(q, v, tau), np.tile(a, (2, 1)), 1e-12)
    assert_close(robot.bias_forces.engine(engine)(q, v), free.bias_forces(q, v) + added, 1e-14)
    assert_close(robot.mass_matrix.engine(engine)(q), free.mass_matrix(q), 1e-14)
    assert_close(robot.mass_matrix_solve.engine(engine)(q, a), free.mass_matrix_solve(q, a), 1e-14)
    stored = robot.energy.engine(engine)(q, v).potential - free.energy(q, v).potential
    assert_close(stored, 15.0 * q[:, 1] ** 2, 1e-13)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics"])
def test_derivatives_agree_with_complex_steps(name: str, engine: str) -> None:
    robot = with_a_bead(stiffness=30.0, damping=2.0)
    rng = np.random.default_rng(0)
    q, v, x, dq, dv, dx = rng.normal(size=(6, 2))
    f_ext, h = {"arm": rng.normal(size=6)}, 1e-30
    function = getattr(robot, name)
    reference = function.engine("reference")

    def along(dq: Any, dv: Any, dx: Any) -> Any:
        return reference(q + 1j * h * dq, v + 1j * h * dv, x + 1j * h * dx, f_ext).imag / h

    expected = along(dq, dv, dx)
    assert_close(function.engine(engine).jvp(q, v, x, dq, dv, dx, f_ext), expected, 1e-13)
    linear = getattr(robot, f"{name}_derivatives").engine(engine)(q, v, x, f_ext)
    zero = np.zeros(2)
    for i, part in enumerate(linear):
        steps = [[unit if i == j else zero for j in range(3)] for unit in np.eye(2)]
        assert_close(part, np.stack([along(*step) for step in steps], axis=-1), 1e-13)
    w = rng.normal(size=2)
    gradients = function.engine(engine).vjp(q, v, x, w, f_ext)
    for gradient, part in zip(gradients, linear):
        assert_close(gradient, w @ part, 1e-13)
    assert_close(function.engine(engine).vjp(q, v, np.stack([x, x]), w, f_ext).dv[1], gradients.dv, 1e-13)
    key = "a" if name == "inverse_dynamics" else "tau"
    batch = robot.linearize(np.stack([q, v]), v, **{key: x}, f_ext=f_ext)
    assert type(batch) is type(linear)
    assert_close(batch.dq[0], linear.dq, 1e-13)
    out = tuple(np.zeros((2, 2)) for _ in range(3))
    assert getattr(robot, f"{name}_derivatives")(q, v, x, f_ext, out=out)[0] is out[0]
    assert_close(out[1], linear.dv, 1e-13)


def test_power_is_the_rate_of_energy() -> None:
    robot = with_a_bead(stiffness=30.0, damping=2.0)
    q, v, a = np.array([0.3, 0.2]), np.array([0.5, -1.0]), np.array([1.0, 2.0])
    h = 1e-30
    energy = robot.energy.engine("reference")(q + 1j * h * v, v + 1j * h * a)
    rate = (energy.kinetic + energy.potential).imag / h
    lost = 2.0 * v[1] ** 2
    assert_close(robot.inverse_dynamics(q, v, a) @ v, rate + lost, 1e-14)


@pytest.mark.parametrize(("method", "bound"), [("semi_implicit_euler", 1e-1), ("midpoint", 1e-4), ("rk4", 1e-8)])
def test_time_steps_keep_energy(method: Any, bound: float) -> None:
    robot = with_a_bead(stiffness=30.0)
    q, v = np.array([0.3, 0.2]), np.array([0.5, -1.0])
    before = sum(robot.energy(q, v))
    for _ in range(200):
        q, v = robot.step(q, v, np.zeros(2), 1e-3, method=method)
    assert abs(sum(robot.energy(q, v)) - before) < bound
    assert_close(robot.difference(q, robot.integrate(q, v, 0.1)), 0.1 * v, 1e-12)


def test_models_with_nodes_are_values() -> None:
    robot = on_a_track()
    again = pickle.loads(pickle.dumps(robot))
    assert again == robot == on_a_track()
    assert hash(again) == hash(robot)
    assert with_a_bead() != with_a_bead(stiffness=1.0)
    assert with_a_bead().mechanism.kinds == with_a_bead(stiffness=1.0).mechanism.kinds
    assert robot.mass == pytest.approx(3.0 + 1.5 + 0.7 + 0.7)
    assert robot.frames == ("world", "base", "cart/seat", "load", "bag", "hook")
    assert "node cart" in str(robot)
    assert robot.q_to_dict(robot.neutral())["cart"] == 0.0
    assert robot.subtree("cart").nv == 2
    assert robot.subtree("cart/seat").nv == 1


def test_other_formulas_are_another_kind() -> None:
    class Other(Bead):
        def potential(self, c: Any, q: Any) -> Any:
            return 0.25 * c[2] * q[0] * q[0]

    Other.__name__ = "Bead"
    assert Other(0.5, 2.0).kind != Bead(0.5, 2.0).kind
    assert Bead(0.7, 3.0).kind == Bead(0.5, 2.0).kind
    assert Other(0.5, 2.0).kind.name.startswith("Bead_")


@pytest.mark.parametrize("node", [Bead(0.5, 2.0, 30.0, 2.0), Cart(K, **CART)], ids=lambda node: type(node).__name__)
def test_laws_hold(node: kt.Node) -> None:
    worst = kt.check_node(node)
    assert max(worst.values()) < 1e-13
    assert {"coriolis", "power", "Lagrange", "locked"} <= set(worst)


class NoGyroscopic(Cart):
    def gyroscopic(self, c: Any, q: Any, v: Any, V: Any) -> Any:
        return 0.0 * V


class NoCoriolis(Cart):
    def coriolis(self, c: Any, q: Any, v: Any, V: Any, V_p: Any) -> Any:
        return 0.0 * V


class Sheared(Cart):
    def weight(self, c: Any, q: Any) -> Any:
        W = super().weight(c, q).copy()
        W[3, 4] = W[3, 4] + q[0]
        return W


class Lopsided(Bead):
    def inertia(self, c: Any, q: Any) -> Any:
        M = super().inertia(c, q).copy()
        M[0, 1] = M[0, 1] + 0.1 * c[0]
        return M


class Cubic(Bead):
    def rayleigh(self, c: Any, q: Any, v: Any) -> Any:
        return c[3] * v[0] * v[0] * v[0] * v[0]


class Idle(Bead):
    def inertia(self, c: Any, q: Any) -> Any:
        return np.diag([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]) * c[0]


class Diagonal(kt.Node):
    """Moments and masses along three axes; `tilt` couples a turn with a shift along it, `lever` across it."""

    def __init__(self, *diagonal: float, tilt: float = 0.0, lever: float = 0.0) -> None:
        self.constants = (*diagonal, tilt, lever)

    def inertia(self, c: Any, q: Any) -> Any:
        M = np.diag([*c[:6], c[3]]) + 0.0 * q[0]
        M[0, 3] = M[3, 0] = c[6]
        M[1, 5] = M[5, 1] = -c[7]
        M[2, 4] = M[4, 2] = c[7]
        return M


@pytest.mark.parametrize(
    "node",
    [
        Diagonal(1.0, 1.0, 2.0, 1.0, 1.0, 1.0),
        Diagonal(*[0.0] * 3, *[1.0] * 3),
        Diagonal(*[3.0] * 3, *[1.0] * 3, lever=1.0),
    ],
)
def test_plates_points_and_bodies_off_centre_obey_the_laws(node: kt.Node) -> None:
    assert max(kt.check_node(node).values()) < 1e-13


@pytest.mark.parametrize(
    "formula", ["weight", "joint_map", "inertia", "coriolis", "gyroscopic", "potential", "rayleigh"]
)
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_formulas_without_a_value_are_named(formula: str, number: float) -> None:
    def spoilt(self: Any, *arguments: Any) -> Any:
        return number * np.asarray(getattr(Cart, formula)(self, *arguments))

    made = type("Spoilt", (Cart,), {formula: spoilt, "outlets": {}})
    wanted = f"node Spoilt: `{formula}` has NaN or infinite entries at q ="
    with np.errstate(all="ignore"), pytest.raises(kt.errors.ModelError, match=wanted):
        kt.check_node(made(K, **CART))


@pytest.mark.parametrize(
    ("node", "law"),
    [
        (NoGyroscopic(K, **CART), "power|Lagrange|locked"),
        (NoCoriolis(K, **CART), "coriolis"),
        (Sheared(K, **CART), "outlets|power|locked|Lagrange"),
        (Lopsided(0.5, 2.0), "symmetry"),
        (Cubic(0.5, 2.0, 0.0, 1.0), "dampers"),
        (Idle(0.5, 2.0), "freedom"),
        (Diagonal(1.0, 1.0, 2.1, 1.0, 1.0, 1.0), "body"),
        (Diagonal(1.0, 1.0, 1.0, 1.0, 1.0, 1.1), "body"),
        (Diagonal(0.0, 0.0, 1.0, 1.0, 1.0, 1.0), "body"),
        (Diagonal(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, tilt=0.1), "body"),
        (Diagonal(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, lever=1.0), "body"),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, kt.Node) else "",
)
def test_broken_laws_are_named(node: kt.Node, law: str) -> None:
    with pytest.raises(kt.errors.ModelError, match=f"breaks the law of ({law}) by"):
        kt.check_node(node)


def test_singular_nodes_are_named() -> None:
    robot = kt.Builder().add_node("idle", Idle(0.5, 2.0)).build()
    with pytest.raises(kt.errors.SingularMechanismError, match="'idle'"):
        robot.forward_dynamics(np.zeros(1), np.zeros(1), np.zeros(1))
    assert kt.Builder().add_node("idle", Idle(0.5, 2.0), armature=0.1).build().forward_dynamics(
        np.zeros(1), np.zeros(1), np.ones(1)
    ) == pytest.approx(10.0)


def test_methods_of_rigid_trees_say_so() -> None:
    with pytest.raises(
        kt.errors.UnsupportedError, match="method 'rjk' is for trees of rigid bodies, and 'bead' is none"
    ):
        with_a_bead().tasks(["arm"], method="rjk")


def test_every_function_compiles_and_is_exported(tmp_path: Any) -> None:
    robot = kt.Builder().add_node("bead", Bead(0.5, 2.0)).build()
    robot.compile()
    names = ["coriolis_matrix", "discretize", "inverse_dynamics_derivatives", "forward_dynamics.hvp"]
    assert all(path.exists() for path in robot.export_c(names, tmp_path))


class Wrong(Bead):
    def inertia(self, c: Any, q: Any) -> Any:
        return np.eye(3)


class Branching(Bead):
    def potential(self, c: Any, q: Any) -> Any:
        return 1.0 if q[0] > 0.0 else 0.0


class Untraceable(Bead):
    def potential(self, c: Any, q: Any) -> Any:
        return np.tanh(q[0])


class Mute(Cart):
    gyroscopic = kt.Node.gyroscopic


class Outside(Cart):
    outlets: ClassVar = {"seat": 3}


class NoTwist(Cart):
    def weight(self, c: Any, q: Any) -> Any:
        return 2.0 * super().weight(c, q)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (Wrong(0.5, 2.0), r"node Wrong: inertia gives an array of shape \(3, 3\); it must be \(7, 7\)"),
        (Branching(0.5, 2.0), "potential must be arithmetic that runs on symbols.*branches on a value"),
        (Untraceable(0.5, 2.0), "potential must be arithmetic that runs on symbols.*tanh"),
        (Mute(K, **CART), "gyroscopic must be arithmetic.*must write `gyroscopic`"),
        (Outside(K, **CART), "outlet 'seat' starts at 3; its six components must lie within the 6"),
        (NoTwist(K, **CART), "outlet 'seat' is no body twist"),
        (Bead(np.nan, 2.0), "constants are finite numbers"),
        ("bead", "pass a kinetree.Node"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_nodes_that_cannot_be(node: Any, message: str) -> None:
    with pytest.raises(kt.errors.ModelError, match=message):
        kt.Builder().add_node("n", node)


def test_nodes_are_not_bodies() -> None:
    robot, bead = on_a_track(), with_a_bead()
    with pytest.raises(kt.errors.InputError, match="'cart' is a general node, without a frame.*'cart/seat'"):
        robot.pose(robot.neutral(), "cart")
    with pytest.raises(kt.errors.InputError, match="'cart' is a general node and cannot be locked"):
        robot.reduced({"cart": 0.0})
    with pytest.raises(kt.errors.ModelError, match="'cart' is a general node, not a body; hang it on.*'cart/seat'"):
        robot.attach("cart", kt.zoo.chain(1))
    with pytest.raises(kt.errors.ModelError, match="'bead' is a general node.*no outlets"):
        bead.attach("bead", kt.zoo.chain(1))
    with pytest.raises(kt.errors.ModelError, match="frame 'f': 'cart' is a general node"):
        robot.with_frame("f", "cart")
    with pytest.raises(kt.errors.ModelError, match="takes no mass"):
        robot.with_payload("cart", 1.0)
    for write in (kt.to_urdf, kt.to_mjcf):
        with pytest.raises(kt.errors.ModelError, match="'bead' is a general node, which neither URDF nor MJCF"):
            write(bead)
    with pytest.raises(kt.errors.ModelError, match="a node has that name|a body has that name"):
        kt.Builder().add_node("n", Bead(1.0, 1.0)).add_node("n", Bead(1.0, 1.0))


class Reciprocal(Bead):
    """A bead whose mass is infinite at x = 0.2, and no number beyond."""

    def inertia(self, c: Any, q: Any) -> Any:
        return super().inertia(c, q) / np.sqrt(0.2 - q[0])


class Unsteady(Bead):
    """A bead whose Coriolis force was forgotten."""

    def gyroscopic(self, c: Any, q: Any, v: Any, V: Any) -> Any:
        return 0.0 * V


def test_nodes_are_checked_when_they_are_added() -> None:
    """Their laws, between their limits; on request, nothing."""
    with pytest.raises(kt.errors.ModelError, match=r"node 'n': node Unsteady breaks the law of .* check=False"):
        kt.Builder().add_node("n", Unsteady(0.5, 2.0))
    with pytest.raises(
        kt.errors.ModelError, match=r"node 'n': node Reciprocal: `inertia` has NaN .* limits.* check=False"
    ):
        kt.Builder().add_node("n", Reciprocal(0.5, 2.0))
    assert kt.Builder().add_node("n", Reciprocal(0.5, 2.0), check=False).build().nv == 1
    assert kt.Builder().add_node("n", Reciprocal(0.5, 2.0), limits=kt.Limits(upper=0.19)).build().nv == 1
    beads = kt.Builder().add_node("massless", Bead(0.0, 2.0), armature=0.1)  # the armature resists
    assert beads.build().forward_dynamics([0.1], [0.0], [0.2])[0] == pytest.approx(2.0)


@pytest.mark.parametrize(("limits", "low", "high"), [
    (kt.Limits(), -1.0, 1.0),
    (kt.Limits(lower=0.5), 0.5, 2.5),
    (kt.Limits(lower=-3.0), -1.0, 1.0),
    (kt.Limits(upper=-4.0), -6.0, -4.0),
    (kt.Limits(lower=7.0, upper=7.5), 7.0, 7.5),
])  # fmt: skip
def test_configurations_of_checks_are_within_limits(
    limits: kt.Limits, low: float, high: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []
    monkeypatch.setattr(laws, "_laws", lambda _node, q, _rng: seen.extend(q) or ())
    kt.Builder().add_node("n", Bead(0.5, 2.0), limits=limits)
    assert low <= min(seen)
    assert max(seen) <= high
    assert max(seen) - min(seen) > 0.05 * (high - low)


def test_derivatives_behind_outlets(state: Any) -> None:
    assert_jvps_are_exact(on_a_track(), *state)
