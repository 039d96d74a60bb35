"""Closed loops: coordinates, closing, branches, singularities, forces, derivatives, and what is refused."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.kinematics.dependent_joints import close_loops
from kinetree.errors import InputError, LoopError, ModelError, UnknownNameError, UnsupportedError
from kinetree.interop.counterpart import OpenTree
from kinetree.language.algorithm import algorithm
from kinetree.language.tree import Indexed, Tree
from kinetree.runtime.function import Function
from tests.mechanisms import NEAR, assert_jvps_are_exact, built, four_bar
from tests.tolerance import assert_close

ENGINES = ("reference", "native")
J = np.diag([1e-3, 2e-3, 3e-3])
STEP = 1e-30


@pytest.fixture(scope="module")
def bar() -> kt.Model:
    return four_bar().connect("tip", "pin").independent("crank_joint").build(near=NEAR)


def suspended() -> kt.Model:
    """A floating base; on it a plate held by a ball joint, a rod with ball joints at both ends, and a driven crank.

    The plate carries an arm, and the crank's rotor is geared. The rod's spin is free.
    """
    solid = {"mass": 0.5, "com": (0.05, 0.02, 0.01), "inertia": J}
    builder = kt.Builder("suspended")
    builder.add_body("base", joint="floating", mass=4.0, com=(0.05, -0.02, 0.1), inertia=30 * J)
    builder.add_body("plate", parent="base", axis=(0, 1, 0), placement=(np.eye(3), (0.0, 0.0, 0.4)), **solid)
    builder.add_body("arm", parent="plate", axis=(1, 2, 2), placement=(np.eye(3), (0.1, 0.1, 0.0)), **solid)
    builder.add_body("crank", parent="base", axis=(0, 1, 0), armature=0.03, **solid)
    builder.add_body("rod", parent="crank", joint="spherical", placement=(np.eye(3), (0.1, 0.0, 0.0)), **solid)
    builder.add_frame("top", body="rod", placement=(np.eye(3), (0.0, 0.0, 0.4)))
    builder.add_frame("knob", body="plate", placement=(np.eye(3), (0.1, 0.0, 0.0)))
    builder.connect("top", "knob")
    builder.add_rotor("crank_joint", ratio=9.0, mass=0.2, inertia=J, axis=(0, 0, 1))
    return builder.independent("crank_joint", ("rod_joint", 2)).build(near={"crank_joint": 0.1})


@pytest.fixture(scope="module")
def rig() -> kt.Model:
    return suspended()


@pytest.fixture(scope="module")
def state(rig: kt.Model) -> Any:
    rng = np.random.default_rng(2)
    q = rig.integrate(rig.neutral(), 0.1 * rng.normal(size=rig.nv))
    return q, rng.normal(size=rig.nv), rng.normal(size=rig.nv)


# -- coordinates -------------------------------------------------------------------------------------------------------


def test_q_holds_all_joints_and_v_the_independent_ones(bar: kt.Model, rig: kt.Model) -> None:
    assert (bar.nq, bar.nv) == (3, 1)
    assert [joint.nv for joint in bar.joints] == [1, 0, 0]
    assert "revolute rocker_joint  q[2], on a loop" in str(bar)
    q = bar.neutral()
    assert_close(bar.pose(q, "tip")[:3, 3], bar.pose(q, "pin")[:3, 3], 1e-14)
    assert q[0] == 0.8  # independent joints are held at the guess
    # the base, the crank, the rod's spin and the arm; plate, rod and rotor follow
    assert (rig.nq, rig.nv) == (7 + 1 + 1 + 1 + 4 + 1, 6 + 1 + 1 + 1)
    assert rig.joint("rod_joint").independent == (2,)
    assert bar.q_to_dict(q).keys() == {"crank_joint", "coupler_joint", "rocker_joint"}
    assert bar.v_to_dict([1.0]).keys() == {"crank_joint"}


def test_configurations_from_dictionaries_are_closed(bar: kt.Model) -> None:
    q = bar.q_from_dict({"crank_joint": 1.2})
    assert q[0] == 1.2
    assert bar.loops(q)[0].residual < 1e-13
    by_rocker = bar.q_from_dict({"rocker_joint": q[2]})
    assert_close(by_rocker, q, 1e-12)


def test_random_configurations_are_closed_and_on_one_branch(bar: kt.Model) -> None:
    q = bar.random_configuration(0, (40,))
    (loop,) = bar.loops(q)
    assert np.all(loop.residual < 1e-10)
    assert q.shape == (40, 3)
    np.testing.assert_array_equal(bar.random_configuration(0, (40,)), q)
    assert np.ptp(np.cos(q[:, 0])) > 1.0


@pytest.mark.parametrize("engine", ENGINES)
def test_integrate_stays_closed_and_difference_is_its_inverse(
    bar: kt.Model, rig: kt.Model, state: Any, engine: str
) -> None:
    q, v, _ = state
    moved = rig.integrate.engine(engine)(q, v, 0.05)
    assert rig.loops(moved)[0].residual < 1e-13
    assert_close(rig.integrate(q, np.zeros(rig.nv)), rig.normalize(q), 1e-14)
    # one component of a ball joint is a rate, not a coordinate
    for call in (lambda: rig.difference(q, moved), lambda: rig.dintegrate(q, v)):
        with pytest.raises(UnsupportedError, match="a single velocity of a spherical joint is independent here"):
            call()
    start = bar.neutral()
    assert_close(bar.difference(start, bar.integrate.engine(engine)(start, [1.3], 0.1)), [0.13], 1e-13)
    dq, dv = bar.dintegrate(start, [1.3], 0.1)
    assert_close(np.array([dq, dv]), [[[1.0]], [[0.1]]], 1e-15)


def test_a_full_turn_keeps_its_branch(bar: kt.Model) -> None:
    q, branches = bar.neutral(), set()
    for _ in range(126):
        q = bar.integrate(q, [1.0], 0.05)
        branches.add(float(bar.loops(q)[0].branch))
    assert abs(q[0] - 0.8 - 6.3) < 1e-12
    assert len(branches) == 1
    assert bar.loops(q)[0].residual < 1e-13


def test_a_branch_does_not_depend_on_other_samples() -> None:
    """A platform on three parallel cranks has more rows than dependent rates; which are best changes as it moves."""
    builder, body = kt.Builder("parallel cranks"), {"mass": 1.0, "inertia": J}
    for i, name in enumerate("abc"):
        builder.add_body(name, axis=(0, 0, 1), placement=(np.eye(3), (0.5 * i, 0.0, 0.0)), **body)
        builder.add_frame(f"{name} end", body=name, placement=(np.eye(3), (0.3, 0.0, 0.0)))
    builder.add_body("platform", parent="a", placement=(np.eye(3), (0.3, 0.0, 0.0)), **body)
    for i, name in enumerate("bc", start=1):
        builder.add_frame(f"seat of {name}", body="platform", placement=(np.eye(3), (0.5 * i, 0.0, 0.0)))
        builder.connect(f"{name} end", f"seat of {name}")
    angles = np.array([0.3, 1.0, 1.8, 2.6, -0.4, -1.2, -2.2])
    robot = builder.independent("a_joint").build(
        near={"a_joint": 1.0, "b_joint": 1.0, "c_joint": 1.0, "platform_joint": -1.0}
    )
    q = robot.close(np.stack([angles, -angles, angles, angles], axis=-1))
    (together,) = robot.loops(q)
    assert together.residual.max() < 1e-12
    assert set(together.branch) <= {-1.0, 1.0}
    np.testing.assert_array_equal([robot.loops(one)[0].branch for one in q], together.branch)
    np.testing.assert_array_equal(robot.loops(q[::-1])[0].branch, together.branch[::-1])


def test_steps_that_no_loop_can_follow_give_nan_in_that_sample() -> None:
    rocker = four_bar().connect("tip", "pin").independent("rocker_joint").build(near=NEAR)
    q = np.stack([rocker.q_from_dict({"crank_joint": 2.0})] * 2)
    moved = rocker.integrate(q, np.array([[0.01], [2.5]]))  # a rocker cannot turn that far
    assert np.isfinite(moved[0]).all()
    assert np.isnan(moved[1]).all()


# -- closing -----------------------------------------------------------------------------------------------------------


def test_close_holds_what_it_is_told(bar: kt.Model) -> None:
    closed = bar.q_from_dict({"crank_joint": 2.0})
    rng = np.random.default_rng(3)
    guess = closed + 0.1 * rng.normal(size=(20, 3))
    q = bar.close(guess)
    np.testing.assert_array_equal(q[:, 0], guess[:, 0])
    assert np.all(bar.loops(q)[0].residual < 1e-12)
    q = bar.close(guess, hold=("rocker_joint",))
    np.testing.assert_array_equal(q[:, 2], guess[:, 2])
    # with nothing held, the change is the least to first order: normal to the loop's motion
    near = closed + 1e-5 * rng.normal(size=3)
    change = bar.close(near, hold=()) - near
    assert abs(change @ bar.coupling(closed)[:, 0]) < 1e-9
    assert_close(bar.close(closed), closed, 1e-15)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["four_bar_weld", "rod_knee_on_base", "four_bar_hinge", "suspended"])
def test_closing_takes_the_step_of_least_squares(rig: kt.Model, name: str, engine: str) -> None:
    """By the pseudo-inverse of NumPy, with all joints and with the dependent ones; redundant rows included."""
    robot = rig if name == "suspended" else built(name)
    rng = np.random.default_rng(7)
    joints = robot.mechanism.joint_starts[-1]
    take = Function("close_loops", robot.mechanism, close_loops).engine(engine)
    move = Function("move_joints", robot.mechanism, move_joints)
    own = robot._held(None)
    dependent = np.array([i not in own for i in range(joints)])
    for free in (dependent, np.ones(joints, dtype=bool)):
        q = move(robot.neutral(), 1e-5 * rng.normal(size=joints))
        residual, K = robot.loop_constraints(q)
        step = np.zeros(joints)
        step[free] = -np.linalg.pinv(K[:, free], rcond=1e-9) @ residual
        on_loops = np.abs(K).max(axis=0) > 0.0
        end, left, moving = take(q, free.astype(float))
        assert moving == 1.0
        assert_close(left, robot.loop_constraints(end)[0], 1e-15)
        assert_close(end, move(q, np.where(on_loops, step, 0.0)), 1e-12)
        assert np.abs(left).max() < 1e-3 * np.abs(residual).max()


def test_closed_loops_stay_as_they_are(bar: kt.Model, rig: kt.Model) -> None:
    for robot in (bar, rig):
        q = robot.random_configuration(3, (7, 2))
        np.testing.assert_array_equal(robot.close(q), q)
        assert np.abs(robot.loop_constraints(q)[0]).max() < 1e-15
        guess = q + 1e-3
        closed = robot.close(guess)
        np.testing.assert_array_equal(robot.close(guess[3, 1]), closed[3, 1])
        np.testing.assert_array_equal(robot.close(guess[::-1, ::-1])[::-1, ::-1], closed)


def test_only_open_loops_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two loops that close rarely: the chance of both is that of one, not its square."""
    builder = kt.Builder("two")
    for side in ("left", "right"):
        for name, parent, x in (("crank", "world", 0.0), ("coupler", f"{side}_crank", 0.6), ("rocker", "world", 1.0)):
            builder.add_body(f"{side}_{name}", parent=parent, placement=(np.eye(3), (x, 0, 0)), mass=1.0, inertia=J)
        builder.add_frame(f"{side}_tip", body=f"{side}_coupler", placement=(np.eye(3), (0.4, 0.0, 0.0)))
        builder.add_frame(f"{side}_pin", body=f"{side}_rocker", placement=(np.eye(3), (-0.3, 0.0, 0.0)))
        builder.connect(f"{side}_tip", f"{side}_pin").independent(f"{side}_crank_joint")
    bent = {"crank": 0.2, "coupler": 0.5, "rocker": -0.5}
    robot = builder.build(near={f"{side}_{name}_joint": at for side in ("left", "right") for name, at in bent.items()})
    drawn: list[int] = []
    draw = robot._coordinates.random
    monkeypatch.setattr(
        robot._coordinates, "random", lambda rng, n: (drawn.append(np.prod(n, dtype=int)), draw(rng, n))[1]
    )
    q = robot.random_configuration(0, (50, 20))
    assert q.shape == (50, 20, 6)
    assert np.abs(robot.loop_constraints(q)[0]).max() < 1e-15
    chance = 1.0 - drawn[1] / drawn[0]  # of both
    assert chance < 0.3
    for before, after in pairwise(drawn[1:5]):
        assert after < before * (1.0 - chance)
    np.testing.assert_array_equal(robot.random_configuration(0, (50, 20)), q)


def test_loops_that_cannot_close_name_loop_residual_and_samples(bar: kt.Model) -> None:
    rocker = bar.with_independent("rocker_joint")
    q = np.stack([bar.neutral()] * 3)
    q[1, 2] = 3.1
    with pytest.raises(
        LoopError, match="connect 'tip–pin' between 'coupler' and 'rocker' cannot be closed in samp"
    ) as e:
        rocker.close(q)
    assert e.value.samples == ((1,),)
    assert e.value.residual > 1e-3
    assert pickle.loads(pickle.dumps(e.value)).loop == e.value.loop
    with pytest.raises(LoopError, match="stays open by .*. Try a start nearer to it, build.near="):
        four_bar(crank=0.1, coupler=0.2).connect("tip", "pin").build()
    with pytest.raises(UnknownNameError, match="no moving joint is called 'ghost'"):
        bar.close(q[0], hold=["ghost"])
    with pytest.raises(InputError, match="hold is a list of joint names"):
        bar.close(q[0], hold="crank")
    with pytest.raises(UnknownNameError, match="no moving joint is called 'ghost'"):
        bar.spanning_tree.close(q[0], hold=["ghost"])  # although it has no loops


def test_both_branches_are_told_apart(bar: kt.Model) -> None:
    q = bar.neutral()
    other = bar.close(np.array([q[0], q[1] - 2.0, -q[2]]))
    assert abs(other[2] - q[2]) > 1.0
    assert float(bar.loops(other)[0].branch) == -float(bar.loops(q)[0].branch) != 0.0


def test_singular_choices_are_reported_per_sample() -> None:
    """A slider as input at the dead centre: another choice of independent joints helps."""
    robot = built("slider_crank")
    q = np.stack([robot.q_from_dict({"crank_joint": angle}) for angle in (0.7, 0.0)])
    by_slider = robot.with_independent("slider_joint")
    assert not robot.loops(q)[0].singular.any()
    (loop,) = by_slider.loops(q)
    assert loop.singular.tolist() == [False, True]
    assert loop.rank.tolist() == [2, 2]
    assert loop.condition[1] > 1e9 > loop.condition[0]
    v = np.ones((2, 1))
    a = by_slider.forward_dynamics(q, v, 0.0 * v)
    assert np.isfinite(a[0]).all()
    assert not np.abs(a[1]).max() < 1e6  # NaN or huge
    # away from it, both choices are the same motion
    G = robot.coupling(q[0])[2, 0]
    crank = robot.forward_dynamics(q[0], v[0] / G, [0.0])
    assert_close(
        by_slider.forward_dynamics(q[0], v[0], [0.0]), robot.joint_accelerations(q[0], v[0] / G, crank)[2:], 1e-11
    )


def test_stretched_parallelograms_lose_rank() -> None:
    robot = four_bar(0.4, 0.8, 0.4, 0.8).connect("tip", "pin").independent("crank_joint")
    robot = robot.build(near={"crank_joint": 0.3, "coupler_joint": -0.3, "rocker_joint": 0.3})
    (loop,) = robot.loops(np.array([[0.3, -0.3, 0.3], [0.0, 0.0, 0.0]]))
    assert loop.rank.tolist() == [2, 1]
    assert loop.singular.tolist() == [False, True]


def test_independent_joints_are_chosen_well() -> None:
    # the crank can turn all the way, the rocker cannot
    robot = four_bar().connect("tip", "pin").build(near=NEAR)
    assert robot.nv == 1
    assert not robot.loops(robot.neutral())[0].singular
    # joints with a rotor are preferred
    driven = four_bar(armature=0.1).connect("tip", "pin").build(near=NEAR)
    assert [joint.name for joint in driven.joints if joint.nv] == ["rocker_joint"]
    # variants keep their velocities
    crank = (
        four_bar()
        .connect("tip", "pin")
        .independent("crank_joint")
        .build(near=NEAR)
        .with_armature({"rocker_joint": 0.1})
    )
    assert [joint.name for joint in crank.joints if joint.nv] == ["crank_joint"]


def test_impossible_choices_are_refused(bar: kt.Model) -> None:
    with pytest.raises(ModelError, match="'crank_joint', 'rocker_joint' cannot all be independent: connect.* 1 of"):
        bar.with_independent("crank_joint", "rocker_joint")
    with pytest.raises(UnknownNameError, match="no moving joint is called 'ghost'"):
        bar.with_independent("ghost")
    with pytest.raises(InputError, match="joint 'crank_joint' has 1 velocities; there is none with index 3"):
        bar.with_independent(("crank_joint", 3))
    # a joint that the loop holds cannot be independent
    stiff = four_bar()
    stiff.add_body("slide", parent="rocker", joint="prismatic", axis=(0, 0, 1), mass=0.1, inertia=J)
    stiff.add_frame("peg", body="slide", placement=(np.eye(3), (0.7, 0.0, 0.0)))
    with pytest.raises(ModelError, match="'slide_joint' cannot be chosen as independent: connect"):
        stiff.connect("tip", "peg").independent("slide_joint").build(near=NEAR)
    with pytest.raises(ModelError, match="the loop leaves none of its joints any freedom"):
        truss()


def truss() -> kt.Model:
    """Two bars, hinged on the ground and to each other: a truss."""
    builder = kt.Builder("truss")
    builder.add_body("a", mass=1.0, inertia=J)
    builder.add_body("b", placement=(np.eye(3), (1.0, 0.0, 0.0)), mass=1.0, inertia=J)
    builder.add_frame("a_tip", body="a", placement=(np.eye(3), (0.7, 0.0, 0.0)))
    builder.add_frame("b_tip", body="b", placement=(np.eye(3), (0.7, 0.0, 0.0)))
    return builder.connect("a_tip", "b_tip").build(near={"a_joint": 0.8, "b_joint": 2.3})


@pytest.mark.parametrize("kind", ["weld", "hinge"])
def test_loops_do_not_close_upside_down(kind: str) -> None:
    """Half a turn off, the sine of the angle between two frames vanishes too."""
    builder = kt.Builder("arm")
    builder.add_body("a", joint="floating", mass=1.0, inertia=J)
    builder.add_body("b", parent="a", axis=(1, 0, 0), mass=1.0, inertia=J)
    getattr(builder, kind)("b", "world")
    robot = builder.build(near={"a_joint": [0.1, 0.2, -0.1, 0.03, 1.0, 0.02, 0.01]})
    assert_close(robot.pose(robot.neutral(), "b")[:3, 2], [0.0, 0.0, 1.0], 1e-10)
    assert robot.nv == (1 if kind == "weld" else 2)


# -- dynamics ----------------------------------------------------------------------------------------------------------


@algorithm(q=("q",), step=("joints",), end=("q",), outputs=("end",))
def move_joints(tree: Tree, q: Indexed, step: Indexed, end: Indexed) -> None:
    """Every joint moved by its own part of a step, which may open loops."""
    for k, _ in tree.scatter():
        end[k] = k.moved(q[k], step[k])


def test_constraint_derivatives_are_exact(rig: kt.Model, state: Any) -> None:
    for robot, q in (
        (rig, state[0]),
        *((built(n), built(n).neutral()) for n in ("four_bar_weld", "rod_knee_on_base", "four_bar_hinge")),
    ):
        rng = np.random.default_rng(5)
        joints = robot.mechanism.joint_starts[-1]
        _, K = robot.loop_constraints(q)
        step = rng.normal(size=joints)
        move = Function("move_joints", robot.mechanism, move_joints).engine("reference")
        moved = move(q.astype(complex), 1j * STEP * step)
        assert_close(robot.loop_constraints.engine("reference")(moved)[0].imag / STEP, K @ step, 1e-12)
        # G spans the null space of K, and K Ġv = −K̇ q̇
        v = rng.normal(size=robot.nv)
        assert_close(K @ robot.coupling(q), np.zeros((len(K), robot.nv)), 1e-13)
        rates = robot.joint_rates(q, v)
        along = move(q.astype(complex), 1j * STEP * rates)
        drift = robot.loop_constraints.engine("reference")(along)[1].imag / STEP @ rates
        assert_close(K @ robot.joint_accelerations(q, v, np.zeros(robot.nv)), -drift, 1e-12)


def test_dynamics_are_those_of_the_tree_with_loop_forces(rig: kt.Model, state: Any) -> None:
    """Dense equations with multipliers, for a ball joint in the loop, armature, a geared rotor and a free base."""
    q, v, _ = state
    rng = np.random.default_rng(6)
    tree, order = rig.spanning_tree, rig.tree_order
    forces = rng.normal(size=len(order))
    q_t, rates = rig.to_tree(q), rig.joint_rates(q, v)
    K = rig.loop_constraints(q)[1][:, order]
    assert K.shape == (4, 13)  # the rotor's coupling is part of the loop's cluster
    M, h = tree.mass_matrix(q_t), tree.bias_forces(q_t, rates[order])
    drift = K @ rig.joint_accelerations(q, v, np.zeros(rig.nv))[order]
    n = len(order)
    system = np.block([[M, K.T], [K, np.zeros((len(K), len(K)))]])
    solved = np.linalg.solve(system, np.concatenate([forces[order] - h, drift]))
    tau = rig.joint_forces(q, forces)
    for engine in ENGINES:
        a = rig.forward_dynamics.engine(engine)(q, v, tau)
        assert_close(rig.joint_accelerations(q, v, a)[order], solved[:n], 1e-11)
    assert_close(rig.inverse_dynamics.engine("reference")(q, v, a), tau, 1e-11)
    G = rig.coupling(q)[order]
    assert_close(rig.mass_matrix.engine("reference")(q), G.T @ M @ G, 1e-13)
    energy = rig.energy.engine("reference")(q, v)
    assert_close(np.array(energy), np.array(tree.energy.engine("reference")(q_t, rates[order])), 1e-13)
    frames = "knob", "top", "arm", "crank"
    assert_close(rig.pose(q, frames), tree.pose(q_t, frames), 1e-14)
    assert_close(rig.jacobian(q, frames), tree.jacobian(q_t, frames) @ G, 1e-13)


def test_states_of_the_tree_are_in_its_order(rig: kt.Model, state: Any) -> None:
    """All three move the tree as the robot moves; `joint_rates` is in another order."""
    q, v, a = state
    tree, order = rig.spanning_tree, rig.tree_order
    assert not np.array_equal(order, np.arange(len(order)))
    q_t, v_t, a_t = rig.to_tree(q, v, a)
    assert np.array_equal(q_t, rig.to_tree(q))
    assert all(np.array_equal(one, other) for one, other in zip(rig.to_tree(q, v), (q_t, v_t), strict=True))
    assert np.array_equal(v_t, rig.joint_rates(q, v)[order])
    assert np.array_equal(a_t, rig.joint_accelerations(q, v, a)[order])
    frames = "knob", "top", "arm", "crank"
    assert_close(tree.velocity(q_t, v_t, frames), rig.velocity(q, v, frames), 1e-13)
    assert_close(tree.acceleration(q_t, v_t, a_t, frames), rig.acceleration(q, v, a, frames), 1e-12)
    both = rig.to_tree(np.stack([q, q]), v, np.stack([a, a]))
    for one, other in zip(both, (q_t, v_t, a_t), strict=True):
        assert np.array_equal(one, np.stack([other, other]))
    with pytest.raises(InputError, match="accelerations need velocities"):
        rig.to_tree(q, a=a)
    # and back, also of a ball joint of which one velocity is independent
    back = OpenTree(rig)
    assert_close(back.own_q(q_t), q, 0.0)
    assert_close(back.own_v(v_t), v, 1e-13)
    assert_close(back.own_v(a_t), a, 1e-12)
    assert_close(back.own_tau(back.tau(a), q), a, 1e-13)


def test_loop_forces_balance_the_joints(bar: kt.Model) -> None:
    robot = built("parallel_ankle")
    q, v = robot.neutral(), np.array([0.3, -0.4])
    forces = np.random.default_rng(7).normal(size=8)
    a = robot.forward_dynamics(q, v, robot.joint_forces(q, forces))
    loop = robot.loop_forces(q, v, a, forces)
    _, K = robot.loop_constraints(q)
    order = robot.tree_order
    tree = robot.spanning_tree
    needed = tree.inverse_dynamics(
        robot.to_tree(q), robot.joint_rates(q, v)[order], robot.joint_accelerations(q, v, a)[order]
    )
    assert_close((K.T @ loop + forces)[order], needed, 1e-11)
    assert bar.loop_forces(bar.neutral(), [1.0], [0.0], np.zeros(3)).shape == (3,)


def test_linearized_loops(bar: kt.Model) -> None:
    q, v, a = bar.neutral(), np.array([1.3]), np.array([-0.4])
    moved = bar.integrate.engine("reference")(q.astype(complex), np.array([1j * STEP]))
    exact = bar.inverse_dynamics.engine("reference")(moved, v, a).imag / STEP
    L = bar.linearize(q, v, a=a)
    assert_close(L.dq[:, 0], exact, 1e-12)
    assert_close(L.da, bar.mass_matrix(q), 1e-14)
    assert_close(bar.inverse_dynamics.vjp(q, v, a, [1.0]).dq, exact, 1e-12)


def test_energy_is_conserved_over_a_simulation(bar: kt.Model) -> None:
    q, v, tau = bar.neutral(), np.array([2.0]), np.zeros(1)
    start = sum(bar.energy(q, v))
    for _ in range(1000):
        q, v = bar.step(q, v, tau, 1e-3, method="rk4")
    assert abs(sum(bar.energy(q, v)) - start) < 1e-8
    assert bar.loops(q)[0].residual < 1e-13
    with pytest.raises(InputError, match="joint 'rocker_joint' depends on others, so its own damping cannot"):
        kt.simulation.Simulator(bar.with_damping({"rocker_joint": 0.1}), damping=True)


def test_projected_functions(rig: kt.Model, state: Any) -> None:
    def of(name: str) -> Any:
        return getattr(rig, name).engine("reference")

    q, v, a = state
    C, moved = of("coriolis_matrix")(q, v), of("integrate")(q.astype(complex), 1j * STEP * v)
    assert_close(of("coupling_rate")(q, v), of("coupling")(moved).imag / STEP, 1e-12)
    J = of("center_of_mass_jacobian")(q)
    assert_close(J @ v, of("center_of_mass")(moved).imag / STEP, 1e-12)
    assert_close(of("centroidal_momentum_matrix")(q)[3:], rig.mass * J, 1e-12)
    Y = of("regressor")(q, v, a)
    crank = rig.spanning_tree.joint("crank_joint").v_start
    turns, rates = (of("coupling")(q)[rig.tree_order], of("joint_accelerations")(q, v, a)[rig.tree_order])
    armature = 0.03 * turns[crank] * rates[crank]
    needed = np.einsum("vbi,bi->v", Y, rig.inertial_parameters) + armature
    assert_close(needed, of("inverse_dynamics")(q, v, a), 1e-12)
    assert_close(of("regressor")(q, v, a, "arm"), Y[:, [body.name for body in rig.bodies].index("arm")], 1e-14)
    assert_close(of("coriolis_matrix")(np.stack([q] * 2), np.stack([v, 2 * v])), np.stack([C, 2 * C]), 1e-12)
    out = np.empty_like(C)
    assert of("coriolis_matrix")(q, v, out=out) is out


# -- other models ------------------------------------------------------------------------------------------------------


def test_models_with_loops_are_values(bar: kt.Model) -> None:
    again = pickle.loads(pickle.dumps(bar))
    assert again == bar
    assert hash(again) == hash(bar)
    for variant in (
        again,
        bar.with_gravity((0, 0, 0)),
        bar.with_payload("tip", 1.0),
        bar.with_independent("rocker_joint"),
    ):
        np.testing.assert_array_equal(variant.neutral(), bar.neutral())
    assert bar != bar.spanning_tree
    assert bar.with_independent("rocker_joint").with_independent("crank_joint") == bar


def test_variants_are_what_their_definition_makes_anew(rig: kt.Model, state: Any) -> None:
    """They keep the clusters and the closed configuration; a pickled model finds both again."""
    q, v, *_ = state
    masses = rig.inertial_parameters * 2.0
    for one in (rig.with_gravity((0.0, 1.0, 2.0)), rig.with_inertial_parameters(masses), rig.with_armature(0.3)):
        anew = pickle.loads(pickle.dumps(one))
        assert anew == one
        assert anew.clusters == one.clusters
        assert np.array_equal(anew.neutral(), one.neutral())
        assert np.array_equal(anew.bias_forces(q, v), one.bias_forces(q, v))


def test_trees_have_no_loops_to_close() -> None:
    robot = kt.zoo.chain(3, seed=0)
    q = robot.random_configuration(0)
    assert np.array_equal(robot.close(q), q)
    assert np.array_equal(robot.close(q, hold=["joint1"]), q)
    assert robot.loops(q) == ()
    assert np.array_equal(robot.to_tree(q), q)
    assert robot.loop_forces(q, q, q, q).shape == (0,)
    assert robot.loop_forces(np.tile(q, (4, 1, 1)), q, np.tile(q, (2, 1)), q).shape == (4, 2, 0)
    with pytest.raises(InputError, match=r"forces has shape \(2,\), expected \(\.\.\., 3\)"):
        robot.loop_forces(q, q, q, np.zeros(2))
    with pytest.raises(InputError, match="loop_forces: batch shapes do not broadcast"):
        robot.loop_forces(np.tile(q, (4, 1)), q, np.tile(q, (3, 1)), q)


def test_surgery_keeps_loops_whole(bar: kt.Model) -> None:
    hung = kt.zoo.chain(2).attach("tip", bar, (np.eye(3), (0.1, 0.2, 0.3)), prefix="x_")
    assert hung.nv == 3
    q = hung.q_from_dict({f"x_{name}": value for name, value in bar.q_to_dict(bar.neutral()).items()})
    assert hung.loops(q)[0].residual < 1e-12
    assert bar.with_payload("tip", 1.0).nv == 1
    with pytest.raises(
        InputError, match=r"subtree\('crank'\) would cut connect 'tip–pin' between 'coupler' and 'rocker'"
    ):
        bar.subtree("crank")
    with pytest.raises(InputError, match="joint 'rocker_joint' is part of a loop, closed by connect 'tip–pin'"):
        bar.reduced({"rocker_joint": 0.1})
    with pytest.raises(InputError, match="joint 'rocker_joint' depends on others through a loop"):
        bar.v_from_dict({"rocker_joint": 0.1})
    with pytest.raises(ModelError, match="URDF cannot describe connect 'tip–pin'"):
        kt.to_urdf(bar)


def test_what_rigid_trees_have_is_refused_with_the_way_out(bar: kt.Model) -> None:
    with pytest.raises(UnsupportedError, match="'rjk' is for trees of rigid bodies, and 'cluster of crank, coupler"):
        bar.tasks(["tip"], method="rjk")
    assert bar.tasks(["tip"]).inverse_inertia.count().multiplications > 0


def test_bad_loops_are_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"no frame .needed for connect 'ghost–pin'.* is called 'ghost'"):
        four_bar().connect("ghost", "pin").build()
    with pytest.raises(ModelError, match="both frames are fixed to the same body"):
        four_bar().connect("tip", "coupler").build()
    with pytest.raises(ModelError, match="a loop 'tip–pin' exists already; give name="):
        four_bar().connect("tip", "pin").weld("tip", "pin")
    with pytest.raises(ModelError, match=r"distance\(\): length must be positive"):
        four_bar().distance("tip", "pin", length=0.0)
    with pytest.raises(ModelError, match=r"hinge\(\): the axis is zero"):
        four_bar().hinge("tip", "pin", axis=(0, 0, 0))
    with pytest.raises(ModelError, match=r"connect\(\) takes names of two frames or bodies; got 3"):
        four_bar().connect("tip", 3)  # type: ignore[arg-type]
    builder = four_bar()
    builder.add_body("extra", parent="rocker", joint="spherical", mass=1.0, inertia=J)
    with pytest.raises(ModelError, match="near: joint 'extra_joint' has shape"):
        builder.connect("tip", "pin").build(near=NEAR | {"extra_joint": [1.0, 2.0]})


def test_derivatives_agree_with_complex_steps(rig: kt.Model, state: Any) -> None:
    assert_jvps_are_exact(rig, *state)
