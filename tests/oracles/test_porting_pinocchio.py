"""Every row of "Coming from Pinocchio", executed: the code in the document against Pinocchio's.

TSID is not installed; what it defines is written with Pinocchio's functions.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import control
from tests.oracles.pinocchio_twin import mirrored, pin, robots
from tests.oracles.test_porting_numbers import Cases, Row, table
from tests.tolerance import assert_close

row = Cases("from_pinocchio.md", "# Coming from Pinocchio")
as_it_stands = table("from_pinocchio.md", "the same numbers in other orders")
pytestmark = pytest.mark.filterwarnings("ignore:.*point mass:kinetree.errors.ModelWarning")

REFERENCES = {"local": pin.LOCAL, "local_world_aligned": pin.LOCAL_WORLD_ALIGNED, "world": pin.WORLD}
LWA = "local_world_aligned"
#: Names in the document, and Talos' frames.
PLACES = {
    "hand": "gripper_left_base_link",
    "foot": "left_sole_link",
    "sole": "left_sole_link",
    "tip": "right_sole_link",
    "box": "gripper_right_base_link",
}
TOLERANCE = 1e-9


def _made(robot: Any, model: Any) -> SimpleNamespace:
    """One robot in both libraries, in a random state, with the document's names of frames."""
    numbers = {}
    for name, frame in PLACES.items():
        at = pin.SE3(pin.exp3(np.array([0.1, 0.2, 0.3])), np.array([0.03, -0.02, 0.05]))
        robot = robot.with_frame(name, frame, at.homogeneous)
        own = model.frames[model.getFrameId(frame)]
        numbers[name] = model.addFrame(pin.Frame(name, own.parentJoint, 0, own.placement * at, pin.FrameType.OP_FRAME))
    rng = np.random.default_rng(0)
    q, (v, a, tau) = robot.random_configuration(rng), rng.normal(size=(3, robot.nv))
    o = kt.interop.pinocchio(robot, model)
    return SimpleNamespace(
        robot=robot, model=model, data=model.createData(), numbers=numbers, o=o, q=q, v=v, a=a, tau=tau,
        Q=o.to_q(q), V=o.to_v(v), A=o.to_a(a), T=o.to_tau(tau), q2=robot.random_configuration(1),
    )  # fmt: skip


@cache
def path() -> str:
    return str(robots.share() / "talos_data/robots/talos_reduced.urdf")


@cache
def floating() -> SimpleNamespace:
    return _made(kt.load(path(), floating_base=True), pin.buildModelFromUrdf(path(), pin.JointModelFreeFlyer()))


@cache
def fixed() -> SimpleNamespace:
    return _made(kt.load(path()), pin.buildModelFromUrdf(path()))


def given(s: SimpleNamespace, **more: Any) -> dict[str, Any]:
    """The names that the document uses."""
    return {"kt": kt, "control": control, "robot": s.robot, "q": s.q, "v": s.v, "a": s.a, "tau": s.tau, **more}


def kinematics(s: SimpleNamespace) -> None:
    pin.forwardKinematics(s.model, s.data, s.Q, s.V, s.A)
    pin.updateFramePlacements(s.model, s.data)


@pytest.mark.parametrize("theirs", row.rows)
def test_rows(theirs: str) -> None:
    row.check(theirs)


def test_no_case_is_left_over() -> None:
    row.require_rows()


@pytest.mark.parametrize("theirs", as_it_stands)
def test_rows_as_they_stand(theirs: str) -> None:
    """Both cells, evaluated; numbers are brought into Kinetree's order by their shape."""
    s = floating()
    known = {"pin": pin, "model": s.model, "data": s.data, "q": s.Q, "v": s.V, "a": s.A, "tau": s.T}
    expected = np.array(eval(theirs.strip("`"), known))
    (found,) = as_it_stands[theirs].run(**given(s))
    if expected.shape == (s.model.nq,):
        expected = s.o.from_q(expected)
    elif expected.shape == (s.model.nv, s.model.nv):
        expected = mirrored(expected) if "Minverse" in theirs else expected
        expected = s.o.from_matrix(expected)
    elif expected.shape == (s.model.nv,):
        expected = s.o.from_v(expected)
    if "Limit" in theirs:  # none at the floating base
        found, expected = found[6:], expected[6:]
    assert_close(np.asarray(found, dtype=float), expected, 1e-8)


@row("`pin.buildModelFromUrdf(path, pin.JointModelFreeFlyer())`")
def _(r: Row) -> None:
    (robot,) = r.run(kt=kt, path=path())
    model = eval(r.theirs.strip("`"), {"pin": pin, "path": path()})
    assert robot.nv == model.nv
    assert_close(robot.mass, pin.computeTotalMass(model), TOLERANCE)
    assert kt.interop.pinocchio(robot, model).nq == model.nq


@row("`model`, `data`")
def _(r: Row) -> None:
    """Pinocchio's functions leave results in data, which the next one overwrites; Kinetree's leave none."""
    s = floating()
    (robot,) = r.run(**given(s))
    pin.rnea(s.model, s.data, s.Q, s.V, s.A)
    before, tau = s.data.tau.copy(), robot.inverse_dynamics(s.q, s.v, s.a)
    kept = tau.copy()
    pin.rnea(s.model, s.data, s.Q, 2.0 * s.V, s.A)
    robot.inverse_dynamics(s.q, 2.0 * s.v, s.a)
    assert not np.array_equal(before, s.data.tau)
    assert np.array_equal(kept, tau)


@row("`pin.rnea`, `pin.aba`, `pin.crba`")
def _(r: Row) -> None:
    s = floating()
    inverse, forward, mass = r.run(**given(s))
    assert_close(s.o.to_tau(inverse(s.q, s.v, s.a)), pin.rnea(s.model, s.data, s.Q, s.V, s.A), TOLERANCE)
    assert_close(s.o.to_a(forward(s.q, s.v, s.tau)), pin.aba(s.model, s.data, s.Q, s.V, s.T), 1e-7)
    assert_close(s.o.to_matrix(mass(s.q)), mirrored(pin.crba(s.model, s.data, s.Q)), TOLERANCE)


@row("`pin.nonLinearEffects`, `pin.computeGeneralizedGravity`")
def _(r: Row) -> None:
    s = floating()
    bias, gravity = r.run(**given(s))
    assert_close(s.o.to_tau(bias(s.q, s.v)), pin.nonLinearEffects(s.model, s.data, s.Q, s.V), TOLERANCE)
    assert_close(s.o.to_tau(gravity(s.q)), pin.computeGeneralizedGravity(s.model, s.data, s.Q), TOLERANCE)


@row("`pin.computeMinverse`")
def _(r: Row) -> None:
    s = floating()
    inverse, solve = r.run(**given(s))
    theirs = mirrored(pin.computeMinverse(s.model, s.data, s.Q))
    assert_close(s.o.to_matrix(inverse(s.q)), theirs, 1e-7)
    assert_close(s.o.to_a(solve(s.q, s.tau)), theirs @ s.T, 1e-7)


@row("`pin.framesForwardKinematics`, `data.oMf[i]`")
def _(r: Row) -> None:
    s = floating()
    (pose,) = r.run(**given(s))
    pin.framesForwardKinematics(s.model, s.data, s.Q)
    assert_close(pose, s.data.oMf[s.numbers["hand"]].homogeneous, TOLERANCE)


@row("`pin.computeFrameJacobian(…, pin.LOCAL)`")
def _(r: Row) -> None:
    s = floating()
    (jacobian,) = r.run(**given(s))
    theirs = pin.computeFrameJacobian(s.model, s.data, s.Q, s.numbers["hand"], pin.LOCAL)
    assert_close(s.o.to_jacobian(jacobian), theirs, TOLERANCE)
    assert_close(jacobian[:3], s.o.from_v(theirs[3:]), TOLERANCE)  # angular rows first


@row("`pin.LOCAL`, `LOCAL_WORLD_ALIGNED`, `WORLD`")
def _(r: Row) -> None:
    s = floating()
    kinematics(s)
    for reference, theirs in zip(r.run(), (pin.LOCAL, pin.LOCAL_WORLD_ALIGNED, pin.WORLD), strict=True):
        velocity = s.robot.velocity(s.q, s.v, "hand", reference)
        expected = pin.getFrameVelocity(s.model, s.data, s.numbers["hand"], theirs).vector
        assert_close(s.o.to_spatial(velocity), expected, TOLERANCE)


@row("`pin.getFrameClassicalAcceleration(…, pin.LOCAL)`")
def _(r: Row) -> None:
    s = floating()
    (found,) = r.run(**given(s))
    kinematics(s)
    frame = s.numbers["hand"]
    assert_close(
        s.o.to_spatial(found), pin.getFrameClassicalAcceleration(s.model, s.data, frame, pin.LOCAL).vector, 1e-12
    )
    for reference, other in REFERENCES.items():
        ours = s.robot.acceleration(s.q, s.v, s.a, "hand", reference, classical=True)
        theirs = pin.getFrameClassicalAcceleration(s.model, s.data, frame, other).vector
        assert_close(s.o.to_spatial(ours), theirs, 1e-12)


@row("`pin.getFrameAcceleration(…, pin.LOCAL)`")
def _(r: Row) -> None:
    s = floating()
    (found,) = r.run(**given(s))
    kinematics(s)
    frame = s.numbers["hand"]
    assert_close(s.o.to_spatial(found), pin.getFrameAcceleration(s.model, s.data, frame, pin.LOCAL).vector, 1e-12)
    in_world = s.robot.acceleration(s.q, s.v, s.a, "hand", "world")
    assert_close(s.o.to_spatial(in_world), pin.getFrameAcceleration(s.model, s.data, frame, pin.WORLD).vector, 1e-12)
    aligned = s.robot.acceleration(s.q, s.v, s.a, "hand", LWA)
    classical = pin.getFrameClassicalAcceleration(s.model, s.data, frame, pin.LOCAL_WORLD_ALIGNED).vector
    assert_close(s.o.to_spatial(aligned), classical, 1e-12)


@row("`pin.integrate`, `pin.difference`")
def _(r: Row) -> None:
    s = floating()
    integrate, difference = r.run(**given(s))
    assert_close(s.o.to_q(integrate(s.q, s.v, 0.1)), pin.integrate(s.model, s.Q, 0.1 * s.V), TOLERANCE)
    assert_close(s.o.to_v(difference(s.q, s.q2)), pin.difference(s.model, s.Q, s.o.to_q(s.q2)), TOLERANCE)


@row("quaternions x, y, z, w; twists linear first")
def _(r: Row) -> None:
    s = floating()
    (other,) = r.run(**given(s, model=s.model))
    assert_close(other.to_q(s.q)[3:7], s.q[[4, 5, 6, 3]], 1e-15)
    assert_close(other.to_v(s.v)[:6], s.v[[3, 4, 5, 0, 1, 2]], 1e-15)
    pin.framesForwardKinematics(s.model, s.data, other.to_q(s.q))
    assert_close(other.read_poses(s.data, ["hand"])[0], s.robot.pose(s.q, "hand"), TOLERANCE)


def contacts(s: SimpleNamespace, *ends: tuple[str, ...]) -> tuple[Any, Any]:
    """Pinocchio's rigid constraints: a frame and the world, where it is, or two frames, as they are to each other."""
    pin.framesForwardKinematics(s.model, s.data, s.Q)
    models = pin.StdVec_RigidConstraintModel()
    for names in ends:
        own = [s.model.frames[s.numbers[name]] for name in names]
        first = own[0].parentJoint, own[0].placement
        if len(own) == 1:
            models.append(pin.RigidConstraintModel(pin.ContactType.CONTACT_6D, s.model, *first, pin.LOCAL))
            continue
        apart = s.data.oMf[s.numbers[names[1]]].actInv(s.data.oMf[s.numbers[names[0]]])
        second = own[1].parentJoint, own[1].placement * apart
        models.append(pin.RigidConstraintModel(pin.ContactType.CONTACT_6D, s.model, *first, *second, pin.LOCAL))
    return models, pin.StdVec_RigidConstraintData([each.createData() for each in models])


def held(s: SimpleNamespace, constraints: list[Any], *ends: tuple[str, ...]) -> None:
    """Constrained dynamics of both libraries, at velocities that the constraints allow."""
    of = s.robot.constraints(constraints, at=s.q)
    J = of.jacobian(s.q)
    v = s.v - np.linalg.pinv(J) @ (J @ s.v)
    models, parts = contacts(s, *ends)
    pin.initConstraintDynamics(s.model, s.data, models, parts)
    settings = pin.ProximalSettings(1e-13, 0.0, 30)
    theirs = pin.constraintDynamics(s.model, s.data, s.Q, s.o.to_v(v), s.T, models, parts, settings)
    found = s.robot.constrained_dynamics(s.q, v, s.tau, constraints)
    assert_close(s.o.to_a(found.acceleration), theirs, 1e-6)


@row("`pin.computeDelassusMatrix`")
def _(r: Row) -> None:
    s = floating()
    (mobility,) = r.run(**given(s, frames=["hand", "foot"]))
    models, parts = contacts(s, ("hand",), ("foot",))
    theirs = np.array(pin.computeDelassusMatrix(s.model, s.data, s.Q, models, parts, 0.0))
    swap = [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8]
    assert_close(mobility, theirs[np.ix_(swap, swap)], 1e-7)


@row("`pin.centerOfMass`, `pin.jacobianCenterOfMass`")
def _(r: Row) -> None:
    s = floating()
    centre, jacobian = r.run(**given(s))
    assert_close(centre(s.q), pin.centerOfMass(s.model, s.data, s.Q), TOLERANCE)
    assert_close(s.o.to_v(jacobian(s.q)), pin.jacobianCenterOfMass(s.model, s.data, s.Q), TOLERANCE)


@row("`pin.constraintDynamics(…)`")
def _(r: Row) -> None:
    s = floating()
    constraints = [kt.Weld("foot"), kt.Weld("tip")]
    (found,) = r.run(**given(s, constraints=constraints))
    assert_close(found.acceleration, s.robot.constrained_dynamics(s.q, s.v, s.tau, constraints).acceleration, 0.0)
    held(s, constraints, ("foot",), ("tip",))


@row("`RigidConstraintModel(CONTACT_6D, …)`")
def _(r: Row) -> None:
    s = floating()
    to_world, together = r.run(kt=kt)
    held(s, [to_world], ("foot",))
    held(s, [together], ("hand", "box"))


@row("`pin.log6(pose.actInv(target))`")
def _(r: Row) -> None:
    s = floating()
    pin.framesForwardKinematics(s.model, s.data, s.Q)
    pose = s.data.oMf[s.numbers["hand"]]
    target = pose * pin.exp6(np.array([0.1, 0.2, 0.3, 0.3, 0.2, 0.1]))
    (error,) = r.run(control=control, pose=pose.homogeneous, target=target.homogeneous)
    assert_close(s.o.to_spatial(error), pin.log6(pose.actInv(target)).vector, TOLERANCE)


@row("`tsid.TaskSE3Equality`, `TaskComEquality`")
def _(r: Row) -> None:
    """The commanded acceleration is kp e − kd v, as Pinocchio sees the motion."""
    s = fixed()
    pose, com = r.run(kt=kt, control=control)
    kinematics(s)
    frame = s.numbers["hand"]
    target = s.data.oMf[frame] * pin.exp6(0.05 * np.ones(6))
    arm = control.OperationalSpace(s.robot, [pose], posture=control.Posture(s.q), error="rotation_vector")
    A = s.o.to_a(arm(s.q, s.v, {"hand": target.homogeneous}).acceleration)
    twist = pin.getFrameVelocity(s.model, s.data, frame, pin.LOCAL_WORLD_ALIGNED)
    R, here = s.data.oMf[frame].rotation.copy(), s.data.oMf[frame].translation.copy()
    pin.forwardKinematics(s.model, s.data, s.Q, s.V, A)
    found = pin.getFrameClassicalAcceleration(s.model, s.data, frame, pin.LOCAL_WORLD_ALIGNED)
    turn = pin.log3(target.rotation @ R.T)
    assert_close(found.angular, 100.0 * turn - 20.0 * twist.angular, 1e-8)
    assert_close(found.linear, 100.0 * (target.translation - here) - 20.0 * twist.linear, 1e-8)
    balance = control.OperationalSpace(s.robot, [com], posture=control.Posture(s.q))
    pin.centerOfMass(s.model, s.data, s.Q, s.V)
    centre, speed = s.data.com[0].copy(), s.data.vcom[0].copy()
    wanted = centre + np.array([0.02, 0.0, 0.01])
    A = s.o.to_a(balance(s.q, s.v, {"center_of_mass": wanted}).acceleration)
    pin.centerOfMass(s.model, s.data, s.Q, s.V, A)
    assert_close(s.data.acom[0], 100.0 * (wanted - centre) - 20.0 * speed, 1e-8)


@row("`tsid.TaskJointPosture`")
def _(r: Row) -> None:
    s = fixed()
    (posture,) = r.run(control=control, q=s.q2)
    alone = control.WholeBody(s.robot, [control.Goal("hand", weight=1e-12)], posture=posture)
    expected = 25.0 * pin.difference(s.model, s.Q, s.o.to_q(s.q2)) - 10.0 * s.V
    assert_close(s.o.to_a(alone(s.q, s.v).acceleration), expected, 1e-7)


@row("`tsid.Contact6d`, `ContactPoint`")
def _(r: Row) -> None:
    """Forces at the corners of a sole, or at a point, carry what Pinocchio says the base needs."""
    s = floating()
    feet = r.run(control=control)
    q = s.robot.neutral()
    stance = control.WholeBody(
        s.robot, [control.Goal(kt.CenterOfMassTask())], posture=control.Posture(q), contacts=feet
    )
    command = stance(q, np.zeros(s.robot.nv))
    assert [command.contact_forces[foot.frame].shape for foot in feet] == [(4, 3), (1, 3)]
    Q = s.o.to_q(q)
    full = pin.rnea(s.model, s.data, Q, np.zeros(s.model.nv), s.o.to_a(command.acceleration))
    for foot in feet:
        frame = s.numbers[foot.frame]
        J = pin.computeFrameJacobian(s.model, s.data, Q, frame, pin.LOCAL)
        for point, force in zip(foot.points, command.contact_forces[foot.frame], strict=True):
            full = full - J.T @ np.concatenate([force, np.cross(point, force)])
    assert_close(s.o.to_tau(command.tau), full, 1e-6)
    assert np.abs(full[:6]).max() < 1e-5


@row("weights of a QP")
def _(r: Row) -> None:
    """Weights trade goals against each other, as the normal equations with Pinocchio's Jacobians do; levels do not."""
    s = fixed()
    weighted, strict = r.run(control=control)
    kinematics(s)
    goals = [control.Goal("hand", weight=3.0), control.Goal("box", weight=0.5)]
    posture = control.Posture(s.q, weight=0.01)
    targets = {name: np.eye(4) for name in ("hand", "box")}
    found = weighted(s.robot, goals, posture=posture, error="rotation_vector")(s.q, s.v, targets)
    H, g = 0.01 * np.eye(s.model.nv), 0.01 * -10.0 * s.V
    zero = np.zeros(s.model.nv)
    for goal in goals:
        frame = s.numbers[goal.name]
        pin.forwardKinematics(s.model, s.data, s.Q, s.V, zero)
        pin.updateFramePlacements(s.model, s.data)
        drift = pin.getFrameClassicalAcceleration(s.model, s.data, frame, pin.LOCAL_WORLD_ALIGNED).vector
        twist = pin.getFrameVelocity(s.model, s.data, frame, pin.LOCAL_WORLD_ALIGNED).vector
        pose = s.data.oMf[frame]
        error = np.concatenate([-pose.translation, pin.log3(pose.rotation.T)])
        J = pin.computeFrameJacobian(s.model, s.data, s.Q, frame, pin.LOCAL_WORLD_ALIGNED)
        H, g = H + goal.weight * J.T @ J, g + goal.weight * J.T @ (100.0 * error - 20.0 * twist - drift)
    assert_close(s.o.to_a(found.acceleration), np.linalg.solve(H, g), 1e-6)
    levels = strict(s.robot, [goals[0]], [goals[1]], posture=posture)
    alone = strict(s.robot, [goals[0]], posture=posture)
    moved = [
        s.robot.jacobian(s.q, "hand", LWA) @ each(s.q, s.v, {"hand": np.eye(4)}).acceleration
        for each in (levels, alone)
    ]
    assert_close(*moved, 1e-7)
