"""Coupled joints, against the open tree projected with G; constants of clusters that their formulas leave out."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, LoadError, ModelError, UnknownNameError, UnsupportedError
from kinetree.model.loops.cluster_kind import ClusterKind
from tests.mechanisms import NEAR, assert_jvps_are_exact, built, four_bar
from tests.tolerance import assert_close, bound

J = np.diag([1e-3, 2e-3, 3e-3])


def hand(*, coupled: bool) -> kt.Model:
    """A floating palm with two fingers; a ball joint and a slide hang on coupled bodies, one rotor sits on the palm."""
    builder = kt.Builder("hand")
    solid = {"mass": 0.3, "com": (0.02, 0.01, 0.03), "inertia": J}
    builder.add_body("palm", joint="floating", mass=3.0, com=(0.1, 0.0, 0.0), inertia=20 * J)
    builder.add_body("left", parent="palm", placement=(np.eye(3), (0.05, 0.03, 0.0)), **solid)
    builder.add_body("left_plate", parent="left", joint="fixed", placement=(np.eye(3), (0.0, 0.1, 0.0)), **solid)
    at = np.eye(3), (0.05, 0.03, 0.1)
    builder.add_body("left_tip", parent="left_plate", axis=(0, 1, 1), placement=at, armature=0.01, **solid)
    builder.add_body("ball", parent="left_tip", joint="spherical", placement=at, **solid)
    builder.add_body("right", parent="palm", placement=(np.eye(3), (0.05, -0.03, 0.0)), armature=0.02, **solid)
    builder.add_body("slide", parent="right", joint="prismatic", axis=(0, 1, 1), placement=at, **solid)
    builder.add_body("lift", parent="palm", joint="prismatic", axis=(1, 0, 1), armature=0.1, **solid)
    builder.add_frame("nail", body="right", placement=(np.eye(3), (0.1, 0.0, 0.0)))
    if coupled:
        builder.couple("left_tip_joint", to="right_joint", ratio=0.7)
        builder.couple("right_joint", to="left_joint", ratio=-1.5, offset=0.1)
        builder.couple("lift_joint", to="left_joint", poly=[0.02, 0.1, -0.05, 0.03])
        builder.add_rotor("slide_joint", ratio=40.0, mass=0.1, inertia=0.1 * J, axis=(1, 0, 0))
    else:
        builder.add_body("slide_rotor", parent="right", axis=(1, 0, 0), placement=at, mass=0.1, inertia=0.1 * J)
    return builder.build()


def spread(robot: kt.Model, tree: kt.Model, q: Any, v: Any, a: Any) -> tuple[Any, Any, Any, Any]:
    """State of the open tree, and G."""
    y = q[robot.joint("left_joint").q_start]
    slope, bend = 0.1 - 0.1 * y + 0.09 * y * y, -0.1 + 0.18 * y
    G = np.zeros((tree.nv, robot.nv))
    for joint in tree.joints:
        own = robot.joint(joint.name)
        G[joint.v_slice, own.v_slice] = np.eye(joint.nv)[:, : own.nv]
    left, slide = (robot.joint(name).v_start for name in ("left_joint", "slide_joint"))
    for name, row in {"right": -1.5, "left_tip": -1.05, "lift": slope}.items():
        G[tree.joint(f"{name}_joint").v_start, left] = row
    G[tree.joint("slide_rotor_joint").v_start, slide] = 40.0
    drift = np.zeros(tree.nv)
    drift[tree.joint("lift_joint").v_start] = bend * v[left] ** 2
    return tree.q_from_dict(robot.q_to_dict(q)), G @ v, G @ a + drift, G


@pytest.fixture(scope="module")
def robots() -> tuple[kt.Model, kt.Model]:
    return hand(coupled=True), hand(coupled=False)


@pytest.fixture(scope="module")
def state(robots: Any) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(4)
    robot = robots[0]
    return robot.random_configuration(rng), rng.normal(size=robot.nv), rng.normal(size=robot.nv)


def test_coupled_joints_have_no_coordinates(robots: Any, state: Any) -> None:
    robot, tree = robots
    assert (robot.nq, robot.nv) == (tree.nq - 4, tree.nv - 4)
    assert [joint.name for joint in robot.joints if joint.coupled] == [
        "left_tip_joint", "right_joint", "lift_joint", "slide_rotor_joint"
    ]  # fmt: skip
    assert robot.joint("lift_joint").q_slice.stop - robot.joint("lift_joint").q_slice.start == 0
    assert "revolute right_joint  coupled" in str(robot)
    q = state[0]
    values = robot.q_to_dict(q)
    y = values["left_joint"]
    assert_close(values["left_tip_joint"], 0.7 * (-1.5 * y + 0.1), 1e-15)
    assert_close(values["lift_joint"], 0.02 + 0.1 * y - 0.05 * y**2 + 0.03 * y**3, 1e-15)
    np.testing.assert_array_equal(robot.q_from_dict(values), q)
    assert set(robot.v_to_dict(state[1])) == {"palm_joint", "left_joint", "ball_joint", "slide_joint"}


def test_dynamics_are_those_of_the_tree_projected(robots: Any, state: Any) -> None:
    def of(model: kt.Model, name: str) -> Any:
        return getattr(model, name).engine("reference")

    robot, tree = robots
    q, v, a = state
    q_t, v_t, a_t, G = spread(robot, tree, *state)
    f_ext = {"nail": np.arange(6.0), "ball": np.ones(6), "left_plate": -np.ones(6), "lift": np.ones(6)}
    tau = of(robot, "inverse_dynamics")(q, v, a)
    assert_close(tau, G.T @ of(tree, "inverse_dynamics")(q_t, v_t, a_t), 1e-13)
    pushed = of(robot, "inverse_dynamics")(q, v, a, f_ext)
    assert_close(pushed, G.T @ of(tree, "inverse_dynamics")(q_t, v_t, a_t, f_ext), 1e-13)
    M = of(robot, "mass_matrix")(q)
    assert_close(M, G.T @ of(tree, "mass_matrix")(q_t) @ G, 1e-13)
    assert_close(of(robot, "mass_matrix_log_determinant")(q), np.linalg.slogdet(M)[1], 1e-12)
    assert_close(np.array(of(robot, "energy")(q, v)), np.array(of(tree, "energy")(q_t, v_t)), 1e-13)
    frames = "nail", "left", "ball", "lift", "slide_rotor", "left_plate"
    assert_close(of(robot, "pose")(q, frames), of(tree, "pose")(q_t, frames), 1e-14)
    assert_close(of(robot, "jacobian")(q, frames), of(tree, "jacobian")(q_t, frames) @ G, 1e-13)
    expected = of(tree, "acceleration")(q_t, v_t, a_t, frames)
    assert_close(of(robot, "acceleration")(q, v, a, frames), expected, 1e-13)
    expected = of(tree, "acceleration")(q_t, v_t, a_t, frames, classical=True)
    assert_close(of(robot, "acceleration")(q, v, a, frames, classical=True), expected, 1e-13)
    # compiled, with and without the exits of further frames
    assert_close(robot.forward_dynamics(q, v, pushed, f_ext), a, 1e-11)
    assert_close(robot.forward_dynamics(q, v, tau), a, 1e-11)
    assert_close(robot.inverse_dynamics(q, v, a), tau, 1e-13)
    assert_close(robot.jacobian(q, "nail"), of(robot, "jacobian")(q, "nail"), 1e-14)


def test_functions_are_coupled_with_dual_numbers() -> None:
    def made(**how: Any) -> kt.Model:
        builder = kt.Builder("cam")
        builder.add_body("wheel", mass=1.0, com=(0.1, 0.0, 0.0), inertia=J)
        builder.add_body("lift", joint="prismatic", axis=(0, 1, 0), mass=0.7, inertia=J, armature=0.3)
        return builder.couple("lift_joint", to="wheel_joint", **how).build()

    cubic, formula = made(poly=[0.1, -0.2, 0.3, 0.4]), made(function=lambda x: 0.1 + x * (-0.2 + x * (0.3 + x * 0.4)))
    state = np.array([0.4]), np.array([1.3]), np.array([-0.7])
    assert_close(formula.inverse_dynamics(*state), cubic.inverse_dynamics(*state), 1e-14)
    assert_close(formula.linearize(*state[:2], a=state[2]).dq, cubic.linearize(*state[:2], a=state[2]).dq, 1e-13)
    wavy = made(function=np.sin)
    assert_close(wavy.q_to_dict(state[0])["lift_joint"], np.sin(0.4), 1e-15)
    # two leaders
    builder = kt.Builder("wrist")
    for name in ("a", "b", "c"):
        builder.add_body(name, mass=1.0, com=(0.1, 0.0, 0.0), inertia=J)
    robot = builder.couple("c_joint", to=("a_joint", "b_joint"), function=lambda a, b: a * b).build()
    q, v = np.array([0.3, 0.5]), np.array([1.0, -2.0])
    tree = kt.Builder("open")
    for name in ("a", "b", "c"):
        tree.add_body(name, mass=1.0, com=(0.1, 0.0, 0.0), inertia=J)
    G = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.3]])
    a_t = np.array([0.0, 0.0, 2.0 * v[0] * v[1]])
    expected = G.T @ tree.build().inverse_dynamics([0.3, 0.5, 0.15], G @ v, a_t)
    assert_close(robot.bias_forces(q, v), expected, 1e-13)


def test_differentials_choose_their_independent_joints() -> None:
    def wrist(*independent: str) -> kt.Model:
        builder = kt.Builder("wrist")
        builder.add_body("pitch", axis=(0, 1, 0), mass=0.3, inertia=J)
        builder.add_body("roll", parent="pitch", axis=(1, 0, 0), mass=0.8, com=(0.1, 0, 0), inertia=J)
        builder.add_body("m1", axis=(0, 1, 0), mass=0.2, inertia=J)
        builder.add_body("m2", axis=(0, 1, 0), mass=0.2, inertia=J)
        for motor, side in (("m1_joint", -4.0), ("m2_joint", 4.0)):
            builder.couple({motor: 1.0, "pitch_joint": -4.0, "roll_joint": side})
        return builder.independent(*independent).build()

    by_joint, by_motor = wrist(), wrist("m1_joint", "m2_joint")
    assert [joint.name for joint in by_joint.joints if joint.nv] == ["pitch_joint", "roll_joint"]
    assert [joint.name for joint in by_motor.joints if joint.nv] == ["m1_joint", "m2_joint"]
    q = np.array([0.3, -0.5])
    moved = by_motor.q_from_dict({"m1_joint": 4 * -0.2, "m2_joint": 4 * 0.8})
    assert_close(by_motor.pose(moved, "roll"), by_joint.pose(q, "roll"), 1e-14)
    turns = np.array([[4.0, 4.0], [4.0, -4.0]])
    assert_close(turns.T @ by_motor.mass_matrix(moved) @ turns, by_joint.mass_matrix(q), 1e-13)
    with pytest.raises(ModelError, match="'m1_joint', 'pitch_joint', 'roll_joint' cannot all be independent: m1_joint"):
        wrist("m1_joint", "pitch_joint", "roll_joint")


def test_nested_clusters_hang_on_each_other() -> None:
    """A coupling below a coupled body does not merge with it."""
    builder, tree = kt.Builder("nested"), kt.Builder("open")
    for each in (builder, tree):
        parent = "world"
        for i in range(3):
            at = np.eye(3), (0.1, 0.2, 0.05)
            solid = {"mass": 0.5, "com": (0.1, 0.0, 0.02), "inertia": J, "placement": at}
            each.add_body(f"link{i}", parent=parent, axis=(0, i % 2, 1), **solid)
            each.add_body(f"rotor{i}", parent=parent, axis=(1, 0, 0), **solid)
            parent = f"link{i}"
    for i in range(3):
        builder.couple(f"rotor{i}_joint", to=f"link{i}_joint", ratio=9.0 + i)
    robot, free = builder.build(), tree.build()
    assert robot.nv == 3
    assert len([name for name in robot.mechanism.names if name.startswith("cluster")]) == 3
    rng = np.random.default_rng(1)
    q, v, a = rng.normal(size=(3, 3))
    G = np.zeros((6, 3))
    for i in range(3):
        G[free.joint(f"link{i}_joint").v_start, i] = 1.0
        G[free.joint(f"rotor{i}_joint").v_start, i] = 9.0 + i
    tau = G.T @ free.inverse_dynamics(G @ q, G @ v, G @ a)
    assert_close(robot.inverse_dynamics(q, v, a), tau, 1e-13)
    assert_close(robot.forward_dynamics(q, v, tau), a, 1e-11)
    operators = robot.operators(q)
    assert_close(operators.mass.dense(), robot.mass_matrix(q), 1e-13)
    assert_close(operators.mass_inverse.dense() @ robot.mass_matrix(q), np.eye(3), 1e-10)


def test_geared_rotors_cost_less_than_free_ones() -> None:
    coupled = built("rotor_chain10")
    ours, free = (robot.forward_dynamics.count() for robot in (coupled, coupled.spanning_tree))
    assert ours.multiplications <= free.multiplications
    assert ours.divisions <= free.divisions


def test_models_with_couplings_are_values(robots: Any, state: Any) -> None:
    robot = robots[0]
    again = pickle.loads(pickle.dumps(robot))
    assert again == robot == hand(coupled=True)
    assert hash(again) == hash(robot)
    assert robot != hand(coupled=False)
    heavier = robot.with_payload("nail", 1.0)
    assert heavier.nv == robot.nv
    assert not np.array_equal(heavier.gravity_forces(state[0]), robot.gravity_forces(state[0]))
    assert robot.with_armature(0.5).joint("right_joint").armature.tolist() == [0.5]


def test_locking_leaders_locks_followers(robots: Any) -> None:
    robot, tree = robots
    locked = robot.reduced({"left_joint": 0.2})
    right = -1.5 * 0.2 + 0.1
    lift = 0.02 + 0.1 * 0.2 - 0.05 * 0.2**2 + 0.03 * 0.2**3
    wanted = {"left_joint": 0.2, "right_joint": right, "left_tip_joint": 0.7 * right, "lift_joint": lift}
    q, q_t = locked.neutral(), tree.q_from_dict(wanted)
    assert_close(locked.pose(q, "left_tip"), tree.pose(q_t, "left_tip"), 1e-14)
    assert [joint.name for joint in locked.joints if joint.coupled] == ["slide_rotor_joint"]
    # through a linear coupling, followers lock leaders
    assert_close(robot.reduced({"right_joint": right}).pose(q, "lift"), tree.pose(q_t, "lift"), 1e-14)
    with pytest.raises(InputError, match="joint 'lift_joint' cannot be locked alone: lift_joint = polynomial of left"):
        robot.reduced({"lift_joint": 0.1})
    with pytest.raises(InputError, match="locked joints violate right_joint = -1.5·left_joint . 0.1 by 0.1; lock"):
        robot.reduced({"left_joint": 0.0, "right_joint": 0.2})


def test_surgery_keeps_couplings_or_refuses(robots: Any) -> None:
    robot = robots[0]
    twice = kt.zoo.chain(2).attach("tip", robot, prefix="x_")
    assert twice.nv == 2 + robot.nv
    assert str(twice.couplings[1]) == "x_right_joint = -1.5·x_left_joint + 0.1"
    with pytest.raises(InputError, match=r"subtree\('left'\) would cut left_tip_joint = 0.7·right_joint"):
        robot.subtree("left")
    assert robot.subtree("palm").nv == robot.nv


def test_bad_couplings_are_refused() -> None:
    def three(**kinds: str) -> kt.Builder:
        builder = kt.Builder("three")
        for name in ("a", "b", "c"):
            builder.add_body(name, joint=kinds.get(name, "revolute"), mass=1.0, inertia=J)
        return builder

    for message, arguments in {
        "needs exactly one of ratio=, poly= and function=": ("a", {"to": "b"}),
        "cannot follow itself": ("a", {"to": "a", "ratio": 1.0}),
        "the ratio is zero, so it never moves": ("a", {"to": "b", "ratio": 0.0}),
        "name the joint that follows": ("a", {"ratio": 2.0}),
        "follows several joints; give function=": ("a", {"to": ("b", "c"), "ratio": 2.0}),
        "not constant, lowest first": ("a", {"to": "b", "poly": [1.0]}),
        "its first coefficient; leave offset= out": ("a", {"to": "b", "poly": [1.0, 2.0], "offset": 1.0}),
        "ratio 'x' is not made of numbers": ("a", {"to": "b", "ratio": "x"}),
        "takes offset= only": ({"a": 1.0, "b": 1.0}, {"to": "c"}),
        "two joints or more": ({"a": 1.0}, {}),
        "a coefficient is zero": ({"a": 1.0, "b": 0.0}, {}),
        "must be arithmetic that runs on symbols": ("a", {"to": "b", "function": lambda x: x if x > 0 else -x}),
        "on symbols: ZeroDivisionError": ("a", {"to": "b", "function": lambda x: x + 1 / 0}),
    }.items():
        with pytest.raises(ModelError, match=message):
            three().couple(arguments[0], **arguments[1])
    for message, builder in {
        r"couplings contradict each other: a_joint = 2·b_joint . 1 is violated by 1": three()
        .couple("a_joint", to="b_joint", ratio=2.0).couple("a_joint", to="b_joint", ratio=2.0, offset=1.0),
        r"couplings leave joint 'a_joint' no freedom: .* 0 \(a_joint = 2·b_joint; a_joint = 3·b_joint\)": three()
        .couple("a_joint", to="b_joint", ratio=2.0).couple("a_joint", to="b_joint", ratio=3.0),
        "joint 'a_joint' follows twice": three()
        .couple("a_joint", to="b_joint", poly=[0, 1, 1]).couple("a_joint", to="c_joint", poly=[0, 1, 1]),
        "joint 'a_joint' follows itself: a_joint → b_joint → a_joint": three()
        .couple("a_joint", to="b_joint", poly=[0, 1, 1]).couple("b_joint", to="a_joint", poly=[0, 1, 1]),
        "'b_joint' is a spherical joint; only joints with one coordinate": three(b="spherical")
        .couple("a_joint", to="b_joint", ratio=1.0),
        "'b_joint' is a fixed joint": three(b="fixed").couple("a_joint", to="b_joint", ratio=1.0),
        "joint 'a_joint' is chosen as independent, but depends on others": three()
        .couple("a_joint", to="b_joint", poly=[0, 1, 1]).independent("a_joint"),
    }.items():  # fmt: skip
        with pytest.raises(ModelError, match=message):
            builder.build()
    with pytest.raises(UnknownNameError, match="needed for the coupling ghost = 2·a_joint. is called 'ghost'"):
        three().couple("ghost", to="a_joint", ratio=2.0).build()
    with pytest.raises(ModelError, match="a rotor drives a joint with one coordinate; 'b_joint' is spherical"):
        three(b="spherical").add_rotor("b_joint", ratio=2.0, mass=1.0)
    with pytest.raises(ModelError, match=r"independent\(\) takes names of joints, or pairs of a name and an index"):
        three().independent(3)  # type: ignore[arg-type]
    # said twice, a coupling is redundant
    assert three().couple("a_joint", to="b_joint", ratio=2.0).couple({"b_joint": 2.0, "a_joint": -1.0}).build().nv == 2


def test_coupled_joints_are_refused_where_they_have_no_coordinate(robots: Any) -> None:
    robot = robots[0]
    with pytest.raises(InputError, match="joint 'right_joint' is coupled and has no velocity of its own; it follows"):
        robot.v_from_dict({"right_joint": 1.0})
    with pytest.raises(InputError, match="joint 'right_joint' is coupled"):
        robot.joint_indices(["right_joint"])
    with pytest.raises(InputError, match="joint 'right_joint' follows 'left_joint' and differs by 0.2 from that"):
        robot.q_from_dict({"left_joint": 0.0, "right_joint": 0.3})
    with pytest.raises(UnsupportedError, match="body 'left' is part of a coupling, so its inertia"):
        robot.population(inertial_parameters=robot.inertial_parameters[None])
    with pytest.raises(ModelError, match="URDF cannot describe the coupling lift_joint = polynomial of left_joint"):
        kt.to_urdf(robot)


INERTIA = '<inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/>'
LINK = '<link name="{0}"><inertial><mass value="1"/>' + INERTIA + "</inertial></link>"


def mimics(*joints: str) -> str:
    """A URDF of joints on one base; each is written as name, kind, and the rest of its element."""
    parts = ['<robot name="r">', LINK.format("base")]
    for text in joints:
        name, kind, *rest = text.split(" ", 2)
        limit = "" if kind in ("fixed", "continuous") else '<limit lower="-1" upper="1" velocity="1" effort="1"/>'
        parts.append(LINK.format(name.upper()))
        parts.append(f'<joint name="{name}" type="{kind}"><parent link="base"/><child link="{name.upper()}"/>{limit}')
        parts.append(f"{rest[0] if rest else ''}</joint>")
    return "\n".join([*parts, "</robot>"])


def test_mimic_joints_follow_without_a_warning() -> None:
    text = mimics(
        'a continuous <mimic joint="b" multiplier="-2" offset="0.5"/>',  # its leader comes later
        'b revolute <mimic joint="c"/>',  # a mimic of a mimic
        "c revolute",
        "d fixed",
        'e revolute <mimic joint="d" offset="0.25"/>',  # its leader is fixed
        'f revolute <mimic joint="c" multiplier="0" offset="0.1"/>',
    )
    robot = kt.load(text)
    assert [joint.name for joint in robot.joints if joint.nv] == ["c"]
    values = robot.q_to_dict([0.3])
    assert_close(np.array([values[name] for name in "abc"]), [-0.1, 0.3, 0.3], 1e-15)
    assert_close(robot.pose([0.3], "E")[1:3, 1:3], [[np.cos(0.25), -np.sin(0.25)], [np.sin(0.25), np.cos(0.25)]], 1e-15)
    assert kt.load(kt.to_urdf(robot)).mass_matrix([0.3]) == pytest.approx(robot.mass_matrix([0.3]), rel=1e-14)
    assert kt.load(text, lock={"c": 0.3}).nv == 0
    assert kt.load(text, lock={"b": 0.3}).nv == 1  # the user's lock takes the place of the coupling
    assert kt.load(text, root="A").nv == 0


def test_mimics_that_cannot_be_coupled_are_refused_with_the_line() -> None:
    with pytest.raises(LoadError, match=":4: joint 'a' mimics itself; delete its <mimic>"):
        kt.load(mimics('a continuous <mimic joint="a"/>'))
    with pytest.raises(LoadError, match="joint 'a' mimics itself"):
        kt.load(mimics('a continuous <mimic joint="b"/>', 'b continuous <mimic joint="a"/>'))
    with pytest.raises(LoadError, match=":4: joint 'a' mimics joint 'b', a floating joint; only joints with one coord"):
        kt.load(mimics('a continuous <mimic joint="b"/>', "b floating"))
    crowd = mimics(*(f'j{i} continuous <mimic joint="j99"/>' for i in range(99)), "j99 continuous")
    with pytest.raises(LoadError, match='couplings or loops join 100 bodies, from .J0. to .J99.*load with mimic="in'):
        kt.load(crowd)


def test_nodes_of_frames_inside_clusters_are_made_when_a_frame_is_used() -> None:
    robot = hand(coupled=True)
    q, v = robot.random_configuration(0), np.zeros(robot.nv)
    robot.inverse_dynamics(q, v, v)
    assert "reaching" not in vars(robot.mechanism)
    robot.pose(q, "nail")
    reaching = robot.mechanism.reaching
    assert reaching is not None
    assert len(reaching.parents) > len(robot.mechanism.parents)
    assert reaching is robot.mechanism.reaching
    variant = robot.mechanism.computing_in("float32").with_own_code("batch").reaching
    assert variant is not None
    assert (variant.scalar, variant.specialized, variant.names) == ("float32", "batch", reaching.names)


def closed_on_the_world(turn: Any = None) -> kt.Model:
    """Three links in a row, the last of which is pinned to a point of the world."""
    R = np.eye(3) if turn is None else turn
    builder, parent, at = kt.Builder("pinned", gravity=R @ (0.0, -9.81, 0.0)), "world", (R, R @ (0.1, 0.0, 0.0))
    for name, length in (("crank", 0.3), ("coupler", 0.9), ("rocker", 0.7)):
        solid = {"mass": length, "com": (length / 2, 0.01, 0.0), "inertia": length**3 / 12.0 * np.eye(3)}
        builder.add_body(name, parent=parent, placement=at, **solid)
        parent, at = name, (np.eye(3), (length, 0.0, 0.0))
    builder.add_frame("tip", body="rocker", placement=at).add_frame(
        "ground", placement=(np.eye(3), R @ (1.1, 0.0, 0.0))
    )
    builder.connect("tip", "ground").independent("crank_joint")
    return builder.build(near={"crank_joint": 0.8, "coupler_joint": -0.5, "rocker_joint": -1.5})


def closed_on_the_rocker(turn: Any = None) -> kt.Model:
    return four_bar(turn=turn).connect("tip", "pin").independent("crank_joint").build(near=NEAR)


@pytest.mark.parametrize(
    ("make", "multiplications"), [(closed_on_the_rocker, [124, 130]), (closed_on_the_world, [166, 172])]
)
def test_a_planar_linkage_costs_the_same_in_any_plane(make: Any, multiplications: list[int]) -> None:
    """Its inside is expressed in axes of its plane; what remains is to turn gravity."""
    R = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    flat, tilted = (make(turn) for turn in (None, R * np.sign(np.linalg.det(R))))
    q, v, tau = flat.neutral(), np.array([0.7]), np.array([1.3])
    assert_close(tilted.neutral(), q, 1e-12)
    a = flat.forward_dynamics.engine("reference")(q, v, tau)
    assert_close(tilted.forward_dynamics.engine("reference")(q, v, tau), a, bound(100))
    counts = flat.forward_dynamics.count(), tilted.forward_dynamics.count()
    assert [count.multiplications for count in counts] == multiplications


def test_tilted_linkages_on_a_moving_base() -> None:
    """One on the other, in planes of their own: dynamics, matrices and frames are those of the tree, projected."""
    rng = np.random.default_rng(0)
    builder, near, parent = kt.Builder("two linkages"), {}, "base"
    solid = {"com": (0.1, 0.2, 0.3), "inertia": np.diag([1.0, 2.0, 2.5])}
    builder.add_body("base", joint="floating", mass=1.0, **solid)
    for i in range(2):
        R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        R = R * np.sign(np.linalg.det(R))
        names = {name: f"{name}{i}" for name in ("crank", "coupler", "rocker")}
        for name, carrier, x in (("crank", parent, 0.0), ("coupler", names["crank"], 0.3), ("rocker", parent, 1.0)):
            at = (R, R @ (0.1 + x, 0.0, 0.0)) if carrier == parent else (np.eye(3), (x, 0.0, 0.0))
            builder.add_body(names[name], parent=carrier, placement=at, mass=1.0, **solid)
        for end, name, length in ((f"tip{i}", "coupler", 0.9), (f"pin{i}", "rocker", 0.7)):
            builder.add_frame(end, body=names[name], placement=(np.eye(3), (length, 0.0, 0.0)))
        builder.connect(f"tip{i}", f"pin{i}").independent(f"{names['crank']}_joint")
        near |= {f"{names[name]}_joint": NEAR[f"{name}_joint"] for name in names}
        parent = names["coupler"]
    builder.add_body("tool", parent=parent, axis=(0.3, 0.4, 0.5), mass=0.5, **solid)
    robot = builder.build(near=near)
    tree, q, (v, a) = robot.spanning_tree, robot.neutral(), rng.normal(size=(2, robot.nv))

    def run(of: kt.Model, name: str, *arguments: Any) -> Any:
        return getattr(of, name).engine("reference")(*arguments)

    G = run(robot, "coupling", q)[robot.tree_order]
    q_tree = robot.to_tree(q)
    v_tree = run(robot, "joint_rates", q, v)[robot.tree_order]
    a_tree = run(robot, "joint_accelerations", q, v, a)[robot.tree_order]
    tau = run(robot, "inverse_dynamics", q, v, a)
    assert_close(tau, G.T @ run(tree, "inverse_dynamics", q_tree, v_tree, a_tree), bound(100))
    assert_close(run(robot, "forward_dynamics", q, v, tau), a, 1e-11)
    assert_close(run(robot, "mass_matrix", q), G.T @ run(tree, "mass_matrix", q_tree) @ G, bound(100))
    for frame in ("tool", "crank0", "rocker1", "coupler1"):
        assert_close(run(robot, "pose", q, frame), run(tree, "pose", q_tree, frame), bound(100))
        assert_close(run(robot, "velocity", q, v, frame), run(tree, "velocity", q_tree, v_tree, frame), bound(100))


def rotors(axis: tuple[float, ...], places: Sequence[tuple[float, ...]]) -> kt.Model:
    """Links in a row, each with a geared rotor on the link before."""
    builder = kt.Builder("rotors")
    parent = "world"
    for i, place in enumerate(places):
        solid = {"mass": 1.0, "com": (0.1, 0, 0), "inertia": 0.1 * np.eye(3), "placement": (np.eye(3), place)}
        builder.add_body(f"link{i}", parent=parent, axis=axis, **solid)
        builder.add_rotor(f"link{i}_joint", ratio=9.0, mass=0.1, inertia=1e-3 * np.eye(3))
        parent = f"link{i}"
    return builder.build()


@pytest.mark.parametrize(("axis", "count", "kinds"), [((0.6, 0.8, 0.0), 4, 4), ((0.0, 0.0, 1.0), 6, 2)])
def test_clusters_with_too_many_patterns_share_their_kind(axis: tuple[float, ...], count: int, kinds: int) -> None:
    """The last link carries nothing, and is of another kind. Turned axes leave rounding errors in place of zeros."""
    places = [(x, y, z) for x in (0.0, 0.1) for y in (0.0, 0.1) for z in (0.0, 0.1)]
    robot = rotors(axis, places[:count])
    found = {kind for kind in robot.mechanism.kinds if isinstance(kind, ClusterKind)}
    assert len(found) == kinds
    assert max(len(kind.known) for kind in found) > 16  # two rotations by nothing
    q, v, tau = np.random.default_rng(1).normal(size=(3, robot.nv))
    G, tree = robot.coupling.engine("reference")(q)[robot.tree_order], robot.spanning_tree
    projected = G.T @ tree.mass_matrix.engine("reference")(robot.to_tree(q)) @ G
    a = robot.forward_dynamics.engine("reference")(q, v, tau)
    assert_close(projected @ a + robot.bias_forces.engine("reference")(q, v), tau, 1e-12)


def test_derivatives_agree_with_complex_steps(robots: Any, state: Any) -> None:
    assert_jvps_are_exact(robots[0], *state)
