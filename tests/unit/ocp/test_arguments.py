"""What makes no sense is an error that names the term, frame or argument, and the fix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import ocp, simulation
from kinetree.errors import InputError, UnknownNameError
from tests.unit.ocp.cases import four_bar, reach

Array = np.ndarray[Any, np.dtype[Any]]
HELD = {"hand": True}
BARE = kt.zoo.double_pendulum()  # no limits


def own(q: Array, v: Array, u: Array) -> Any:
    del v, u
    return q


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"robot": None}, r"a robot in float64, such as kinetree.load\(…\); got NoneType"),
        ({"robot": kt.zoo.arm7().astype("float32")}, "in float32"),
        ({"nodes": 0}, "nodes=0 is not a positive number"),
        ({"nodes": 5.0}, "nodes=5.0 is not a positive number"),
        ({"dt": -0.1}, "neither a positive time step"),
        ({"dt": [0.1, 0.1]}, "one for each of the 5 steps"),
        ({"dt": "fast"}, "dt has dtype"),
        ({"terms": [3]}, "3 is no term"),
        ({"terms": ocp.state()}, "terms is a list of terms"),
        ({"terms": [ocp.state(), ocp.state()]}, "two terms are called 'state'"),
        ({"terms": [ocp.state(weight=-1.0)]}, "weights of term 'state' are finite and not negative"),
        ({"terms": [ocp.state(weight=np.ones(3))]}, r"weight of term 'state' has shape \(3,\); .* \(14,\)"),
        ({"terms": [ocp.state(last=np.ones(3))]}, r"last of term 'state' has shape \(3,\)"),
        ({"terms": [ocp.state(nodes=[9])]}, "nodes of term 'state' are between -6 and 5"),
        ({"terms": [ocp.state(np.zeros(6))]}, r"target of 'state' has shape \(6,\)"),
        ({"terms": [ocp.state(np.zeros((4, 7)))]}, r"target of 'state' has shape \(4, 14\); .*\(…, 6, 14\)"),
        ({"terms": [ocp.control(np.zeros((6, 7)))]}, r"target of 'control' has shape \(6, 7\); .*\(…, 5, 7\)"),
        ({"terms": [ocp.pose("hand", np.eye(3))]}, r"target of 'hand' has shape \(3, 3\)"),
        ({"terms": [ocp.pose("hand", np.ones((4, 4)))]}, "target of 'hand' is no pose"),
        ({"terms": [ocp.pose("hand", -np.eye(4))]}, "target of 'hand' is no pose"),
        ({"terms": [ocp.pose("hand", np.eye(4) + np.eye(4, k=-3))]}, "target of 'hand' is no pose: its last row is"),
        ({"limits": True}, r"limits is an ocp.Limits\(…\), got True"),
        ({"limits": ocp.Limits(torque=[1.0, 2.0])}, r"torque limits are .*\(7,\); got"),
        ({"limits": ocp.Limits(torque=np.nan)}, "torque limits"),
        ({"limits": ocp.Limits(velocity=-1.0)}, "velocity limits"),
        ({"limits": ocp.Limits(position=2.0)}, "position=2.0 is not True or False; .*ocp.state"),
        ({"limits": ocp.Limits(margin=2.0)}, "margin"),
        ({"robot": BARE, "limits": ocp.Limits()}, "'double_pendulum' has no effort limits; pass numbers"),
        ({"robot": BARE, "limits": ocp.Limits(torque=1.0, velocity=True)}, "'double_pendulum' has no velocity limits"),
        ({"robot": BARE, "limits": ocp.Limits(torque=1.0, position=True)}, "'double_pendulum' has no position limits"),
        ({"actuated": ["joint1", "joint1"]}, "names a joint twice"),
        ({"actuated": []}, "none that moves"),
        ({"actuated": "joint1"}, "a list of joint names"),
        ({"terms": []}, "terms is empty: there is nothing to minimise"),
        ({"contacts": HELD}, r"contacts is an ocp.Contacts\(…\), got \{"),
        ({"contacts": ocp.Contacts(["hand"])}, "held of contacts is a mapping"),  # type: ignore[arg-type]
        ({"contacts": ocp.Contacts(HELD, sole=(0.1, 0.05))}, "which need friction="),
        ({"contacts": ocp.Contacts(HELD, friction=0.5, sole=(0.1, 0.05))}, 'need a foot with rows="all"'),
        ({"contacts": ocp.Contacts(HELD, damping=-1.0)}, r"damping of contacts=-1.0 is not a rate"),
        ({"contacts": ocp.Contacts(HELD, friction=-1.0)}, "friction=-1.0 is not a positive coefficient"),
    ],
)
def test_problems_that_make_no_sense(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"robot": kt.zoo.arm7(), "dt": 0.01, "nodes": 5, "terms": [ocp.state()], **change}
    with pytest.raises(InputError, match=message):
        ocp.Problem(**given)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ocp.control(weight="much"), "term 'control': weight has dtype"),
        (lambda: ocp.control(weight=np.nan), "term 'control': weight has NaN"),
        (lambda: ocp.state(lower=np.nan), "term 'state': lower has NaN"),
        (lambda: ocp.state(v="slow"), "target of 'state' has dtype"),
        (lambda: ocp.state(nodes=np.ones(6, bool)), r"nodes of term 'state' .*np.flatnonzero\(mask\)"),
        (lambda: ocp.state(nodes=[1.5]), "nodes of term 'state' are numbers of nodes"),
        (lambda: ocp.pose(3), "of its frame, is a string; got 3"),  # type: ignore[arg-type]
        (lambda: ocp.Term(own, 0), "term 'term': size=0 is not a positive number of rows"),
        (lambda: ocp.Term(3, 7), "term 'term': 3 is not a function"),  # type: ignore[arg-type]
        (lambda: ocp.Term(lambda q: q, 7), r"term 'term' is called as function\(q, v, u\): too many"),
        (lambda: ocp.cone("position", 0.5, sole=(0.1, 0.1)), "a point has no sole"),
        (lambda: ocp.cone("all", 0.5, sole=0.1), "sole has shape"),  # type: ignore[arg-type]
        (lambda: ocp.cone("all", 0.5, sole=(0.1, -0.1)), "half the length and half the width"),
        (lambda: ocp.cone("all", 0.5, normal=(0, 0, 0)), "not one direction"),
        (lambda: ocp.MPC(3), "is an ocp.Problem"),  # type: ignore[arg-type]
        (lambda: ocp.MPC([]), "is an ocp.Problem"),
    ],
)
def test_terms_that_make_no_sense(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"q": np.zeros(3)}, r"q has shape \(3,\)"),
        ({"q": np.zeros((0, 7))}, r"nothing to solve in a batch of shape \(0,\)"),
        ({"targets": {}}, "term 'hand' has no target: pass targets="),
        ({"targets": np.eye(4)}, "targets is a mapping by name of the term, {'hand': …"),
        ({"targets": {"hand": "home"}}, "target of 'hand' has dtype"),
        ({"targets": {"hand": np.eye(3)}}, r"target of 'hand' has shape \(3, 3\); a pose is \(4, 4\)"),
        (
            {"q": np.zeros((3, 7)), "targets": {"hand": np.tile(np.eye(4), (3, 1, 1))}},
            r"target of 'hand' has shape \(3, 4, 4\); .*\(…, 6, 4, 4\): for each of several problems, \(…, 1, 4, 4\)",
        ),
        ({"iterations": 0}, "iterations=0"),
        ({"tolerance": -1.0}, "tolerance=-1.0 is not a positive number"),
        ({"v": {"hand": np.eye(4)}}, r"v is a mapping; targets come after it, or by name: solve\(q, targets="),
        ({"start": (1, 2)}, "start is a plan, or a tuple"),
        ({"start": (np.zeros((3, 7)),) * 3}, r"start\[0\] has shape \(3, 7\)"),
    ],
)
def test_arguments_that_do_not_fit(given: dict[str, Any], message: str) -> None:
    problem = reach(kt.zoo.arm7(), "hand", 5)
    with pytest.raises(InputError, match=message):
        problem.solve(**{"q": np.zeros(7), "targets": {"hand": np.eye(4)}, **given})


def test_checks_are_of_one_state() -> None:
    with pytest.raises(InputError, match=r"check: q has shape \(2, 7\); it takes one state, \(7,\)"):
        reach(kt.zoo.arm7(), "hand", 5).check(np.zeros((2, 7)), np.zeros(7), np.zeros(7), {"hand": np.eye(4)})


def test_names_that_do_not_exist() -> None:
    robot = kt.zoo.arm7()
    problem, zero = reach(robot, "hand", 5), np.zeros(7)
    with pytest.raises(UnknownNameError, match="no term is called 'hnad'; did you mean 'hand'"):
        problem.solve(zero, targets={"hnad": np.eye(4)})
    with pytest.raises(UnknownNameError, match="no term is called 'hnad'"):
        problem.check(zero, zero, zero, {"hnad": np.eye(4)})
    with pytest.raises(UnknownNameError, match="rollout"):
        problem.solve(zero, targets={"hand": np.eye(4)}, rollout="none")
    for term in (ocp.pose, ocp.orientation, ocp.position, ocp.velocity):
        with pytest.raises(UnknownNameError, match="no frame is called 'foot'"):
            ocp.Problem(robot, 0.01, 5, [term("foot")])
    with pytest.raises(UnknownNameError, match="reference"):
        ocp.Problem(robot, 0.01, 5, [ocp.velocity("hand", reference="globe")])
    with pytest.raises(UnknownNameError, match="joint"):
        reach(robot, "hand", 5, actuated=["elbow"])
    for options in ({"rows": {"foot": "all"}}, {"forward": {"foot": (1, 0, 0)}, "friction": 0.5}):
        with pytest.raises(UnknownNameError, match="of contacts is called 'foot'"):
            ocp.Problem(robot, 0.01, 5, [ocp.control()], contacts=ocp.Contacts(HELD, **options))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "r has dtype object"),
        ((np.zeros(2), np.zeros(2)), r"returns r or \(r, r_x, r_u\), got 2 arrays"),
        (np.zeros(7, complex), "r has dtype complex128"),
        (np.zeros(7), r"r has shape \(7,\), expected \(1, 6, 7\)"),
    ],
)
def test_own_terms_that_return_something_else(found: Any, message: str) -> None:
    problem = ocp.Problem(kt.zoo.arm7(), 0.01, 5, [ocp.Term(lambda _q, _v, _u: found, 7, name="mine")])
    with pytest.raises(InputError, match=f"term 'mine'.*{message}"):
        problem.solve(np.zeros(7))


def test_states_of_other_controllers_and_times() -> None:
    problem, zero = ocp.Problem(kt.zoo.arm7(), 0.01, 5, [ocp.control()]), np.zeros(7)
    mpc = ocp.MPC(problem)
    command = mpc(zero, zero)
    with pytest.raises(InputError, match="state is the `state` of the command before"):
        mpc(zero, zero, state=command)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="state is the `state` of a command"):
        mpc.prepare(None)  # type: ignore[arg-type]
    for dt in (-1.0, np.nan, "x"):
        with pytest.raises(InputError, match="dt=.* is not a time from 0 on"):
            mpc(zero, zero, state=command.state, dt=dt)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="node='a'"):
        command.plan.torques(zero, zero, "a")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="world is a simulation.Simulator"):
        ocp.sample(problem.robot, own, zero, zero, np.zeros((3, 7)), noise=1.0)
    simulation.Simulator(problem.robot, dt=0.01)


def test_joints_without_effort_are_named() -> None:
    """Files often say zero where they mean nothing; a limit of zero that somebody asks for is one."""
    builder = kt.Builder("idle")
    body = {"axis": (0, 0, 1), "mass": 1.0, "com": (0.1, 0, 0), "inertia": np.eye(3)}
    builder.add_body("one", **body, limits=kt.model.Limits(effort=1.0))
    builder.add_body("two", parent="one", **body, limits=kt.model.Limits(effort=0.0))
    robot, terms = builder.build(), [ocp.control()]
    with pytest.raises(InputError, match="joint 'two_joint' has an effort limit of zero"):
        ocp.Problem(robot, 0.01, 3, terms, limits=ocp.Limits())
    ocp.Problem(robot, 0.01, 3, terms, limits=ocp.Limits(), actuated=["one_joint"])
    plan = ocp.Problem(robot, 0.01, 3, [*terms, ocp.state(np.ones(2))], limits=ocp.Limits(torque=[1.0, 0.0])).solve(
        np.zeros(2)
    )
    assert plan.converged
    assert np.abs(plan.u[:, 1]).max() < 1e-6


def test_terms_do_not_change_with_the_arrays_of_users() -> None:
    robot, q, weight = kt.zoo.arm7(), np.ones(7), np.ones(14)
    problem = ocp.Problem(robot, 0.02, 4, [ocp.state(q, weight=weight), ocp.control(weight=1e-2)])
    before = problem.solve(np.zeros(7))
    q[:], weight[:] = 5.0, 7.0
    np.testing.assert_array_equal(problem.solve(np.zeros(7)).u, before.u)
    again = ocp.Problem(robot, 0.02, 4, problem.terms).solve(np.zeros(7))
    np.testing.assert_array_equal(again.u, before.u)


def test_targets_of_terms_are_batches_as_those_of_solve() -> None:
    robot, points = kt.zoo.arm7(), np.array([[[0.4, 0.1, 0.8]], [[0.3, -0.2, 0.9]]])
    terms = [ocp.position("hand", points), ocp.control(weight=1e-2)]
    plan = ocp.Problem(robot, 0.02, 4, terms).solve(np.zeros(7))
    given = ocp.Problem(robot, 0.02, 4, [ocp.position("hand"), terms[1]]).solve(np.zeros(7), targets={"hand": points})
    assert plan.q.shape == (2, 5, 7)
    np.testing.assert_array_equal(plan.u, given.u)


def test_velocities_have_limits_of_their_own() -> None:
    robot = kt.zoo.arm7()
    terms = [ocp.state(np.ones(7), weight=1.0), ocp.control(weight=1e-6)]
    most = np.linspace(0.5, 2.0, 7)
    plan = ocp.Problem(robot, 0.02, 10, terms, limits=ocp.Limits(torque=False, velocity=most)).solve(np.zeros(7))
    assert plan.require().multipliers.keys() == {"velocity"}
    assert (np.abs(plan.v) <= most + 1e-6).all()
    assert (np.abs(plan.v) > most - 1e-6).any()


def test_joints_inside_of_loops_have_limits() -> None:
    """Their positions follow from others: here the rocker's from the crank's."""
    robot = four_bar()
    q = robot.neutral()
    terms = [ocp.state(q, [3.0, 0.0], weight=[0.0, 0.0, 1.0, 1.0]), ocp.control(weight=1e-4)]
    free = ocp.Problem(robot, 0.02, 20, terms).solve(q).require()
    rocker = [joint.name for joint in robot.joints].index("rocker_joint")
    assert robot.joints[rocker].nv == 0
    at, most = robot.joints[rocker].q_start, robot.upper_limits[robot.joints[rocker].q_start]
    assert free.q[:, at].max() > most + 0.01
    plan = ocp.Problem(robot, 0.02, 20, terms, limits=ocp.Limits(torque=False, position=True)).solve(q).require()
    assert most - 1e-5 < plan.q[:, at].max() < most + 1e-6
    assert plan.multipliers["position"].max() > 0.0
    assert plan.cost > free.cost
