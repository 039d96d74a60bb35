"""Operational-space control on random trees, at singularities, and of objects that several grasps carry.

Khatib's law and levels as null-space projections on every joint kind; a wrist with two axes in line is left, a
stretched elbow is left to the posture; grasps share the load of an object as dense formulas do.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import control
from kinetree.control import hierarchy
from kinetree.errors import InputError, UnderactuatedError
from kinetree.runtime.operands import Operand
from kinetree.runtime.texts import executed
from tests.definition import khatib
from tests.laws.cases import LWA, model, transposed
from tests.laws.test_control import HANDS, HELD, luh, scene, standing, with_box
from tests.laws.test_control import state as near_state
from tests.tolerance import Array, assert_close, assert_near, bound, condition, peak, solving_bound
from tests.trees import random_rotation, serial

NAMES = ("every kind", "every kind, armature", "forest", "many tips", "some armature", "legged")
KP, KD, KP0, KD0 = 100.0, 20.0, 25.0, 10.0
#: Rows are chosen so that they can be moved independently: no less of the largest singular value is left of any.
LEFT = 0.05


def state(robot: kt.Model, seed: int) -> tuple[Array, Array, Array]:
    """Posture, configuration and velocity."""
    rng = np.random.default_rng(seed)
    posture = robot.random_configuration(rng)
    return posture, robot.integrate(posture, 0.2 * rng.normal(size=robot.nv)), rng.normal(size=robot.nv)


@cache
def chosen_tasks(name: str) -> list[kt.Task]:
    """Independent tasks, chosen once for all laws: others would need other kernels."""
    robot = model(name)
    return independent_tasks(robot, state(robot, 1)[1])


def independent_tasks(robot: kt.Model, q: Array) -> list[kt.Task]:
    """Tasks of frames all over the tree, whose rows are independent and leave freedom for the posture."""
    most = robot.nv // 2 + 1
    moving = [frame for frame in robot.frames if robot.site(frame).node >= 0]
    roots = np.sqrt(np.diagonal(robot.mass_matrix(q)))
    basis: list[Array] = []
    tasks = []
    for frame in dict.fromkeys([moving[-1], moving[len(moving) // 2], *moving[::3]]):
        J, rows = robot.jacobian(q, frame, LWA) / roots, []
        for i in range(6):
            rest = J[i] - sum((b * (b @ J[i]) for b in basis), np.zeros(robot.nv))
            if len(basis) < most and np.linalg.norm(rest) > LEFT * max(1e-3, float(np.linalg.norm(J, axis=1).max())):
                basis.append(rest / np.linalg.norm(rest))
                rows.append(i)
        if rows:
            tasks.append(kt.Task(frame, tuple(rows)))
    return tasks


def rows_of(robot: kt.Model, tasks: list[kt.Task], q: Array, v: Array, at: Array) -> tuple[Array, Array, Array]:
    """J, J̇v and commanded accelerations of all rows, from single frames and dense matrices."""
    J = np.concatenate([robot.jacobian(q, task.frame, LWA)[list(task.rows)] for task in tasks])
    drift = np.concatenate([robot.jacobian_dot_v(q, v, task.frame, LWA)[list(task.rows)] for task in tasks])
    errors = [luh(robot.pose(q, task.frame), robot.pose(at, task.frame))[list(task.rows)] for task in tasks]
    return J, drift, KP * np.concatenate(errors) - KD * J @ v


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("name", NAMES)
def test_it_is_khatibs_law(name: str, engine: str) -> None:
    robot = model(name)
    posture, q, v = state(robot, 1)
    tasks = chosen_tasks(name)
    goals = [control.Goal(task, KP, KD) for task in tasks]
    law = control.OperationalSpace(
        robot, goals, posture=control.Posture(posture, KP0, KD0), undriven=[], cut=1e-9
    ).engine(engine)
    command = law(q, v)

    M, h = robot.mass_matrix(q), robot.bias_forces(q, v)
    J, drift, b = rows_of(robot, tasks, q, v, posture)
    a0 = KP0 * robot.difference(q, posture) - KD0 * v
    expected, A, _ = khatib(M, h, J, drift, b, a0)
    scale = peak(M @ a0) + peak(J.T @ np.linalg.solve(A, b)) + peak(h)
    close = bound(robot.nv, condition(M) + condition(A))
    assert command.margin > 1.0
    assert_close(command.tau, expected, close, scale=scale)
    moved = float(np.abs(command.acceleration).max() + np.abs(a0).max())
    assert_close(J @ command.acceleration + drift, b, close, scale=moved)
    assert_close(M @ command.acceleration + h, command.tau, close, scale=scale)


@pytest.mark.parametrize("name", NAMES)
def test_levels_are_projections_on_null_spaces(name: str) -> None:
    """Each task in the null space of those before it, in the metric of M: textbook recursion over levels."""
    robot = model(name)
    posture, q, v = state(robot, 2)
    tasks = chosen_tasks(name)
    levels = [[control.Goal(task, KP, KD)] for task in tasks]
    law = control.OperationalSpace(robot, *levels, posture=control.Posture(posture, KP0, KD0), undriven=[], cut=1e-9)
    J, drift, b = rows_of(robot, tasks, q, v, posture)
    M = robot.mass_matrix(q)
    M_inverse = np.linalg.inv(M)
    N, a, start = np.eye(robot.nv), KP0 * robot.difference(q, posture) - KD0 * v, 0
    worst, largest = condition(M), peak(a)
    for task in tasks:
        own = slice(start, start + len(task.rows))
        S = N @ M_inverse @ J[own].T
        A = J[own] @ S
        gain = np.linalg.solve(A, (b - drift)[own] - J[own] @ a)
        a = a + S @ gain
        N = N - S @ np.linalg.solve(A, J[own] @ N)
        worst, largest, start = worst + condition(A), max(largest, peak(a)), own.stop
    close = bound(robot.nv, worst + condition(J @ M_inverse @ J.T))
    assert_close(law(q, v).acceleration, a, close, scale=largest)


@pytest.mark.parametrize("name", NAMES)
def test_postures_do_not_leak_into_goals(name: str) -> None:
    """What a stiffer posture adds to joint accelerations moves no goal: less than 1e-10 of them."""
    robot = model(name)
    posture, q, v = state(robot, 3)
    tasks = chosen_tasks(name)
    goals = [control.Goal(task, KP, KD) for task in tasks]
    soft, stiff = (
        control.OperationalSpace(robot, goals, posture=control.Posture(posture, kp, KD0), undriven=[], cut=1e-9)(q, v)
        for kp in (KP0, 40.0 * KP0)
    )
    J, _, _ = rows_of(robot, tasks, q, v, posture)
    moved = stiff.acceleration - soft.acceleration
    assert peak(moved) > 1.0
    assert peak(J @ moved) < 1e-10 * peak(moved)


ALIGNED, STRETCHED = np.array([0.3, 0.5, 0.9, 0.4, 0.0, 0.2]), np.array([0.3, 0.5, 0.0, 0.4, 0.8, 0.2])


@cache
def arm() -> kt.Model:
    """Shoulder yaw and pitch, elbow, and a wrist whose first and last axes may be in line."""
    links = ((0.1, 8.0, 0.3), (0.45, 6.0, 0.1), (0.25, 4.0, 0.45), (0.2, 1.5, 0.25), (0.05, 1.0, 0.2), (0.1, 0.5, 0.05))
    made = (
        {
            "axis": (0, 0, 1) if i in (0, 3, 5) else (0, 1, 0), "placement": (np.eye(3), (0.0, 0.0, offset)),
            "mass": mass, "com": (0.0, 0.0, length / 2), "armature": 0.05, "limits": kt.Limits(-3.0, 3.0, 10.0, 100.0),
            "inertia": mass * np.diag([length**2 / 12 + 0.002, length**2 / 12 + 0.002, 0.002]),
        }
        for i, (length, mass, offset) in enumerate(links)
    )  # fmt: skip
    return serial(made, "link").add_frame("tool", body="link5", placement=(np.eye(3), (0.0, 0.0, 0.1))).build()


@cache
def controller(posture: tuple[float, ...], escape: bool) -> control.OperationalSpace:
    at = control.Posture(np.array(posture), kp=10.0, kd=6.0)
    return control.OperationalSpace(arm(), ["tool"], posture=at, cut=1e-2, escape=escape)


def turned(q: Array, angle: float) -> Array:
    """The tool's pose, turned about the direction that it has lost."""
    robot = arm()
    lost = np.linalg.svd(robot.jacobian(q, "tool", "local_world_aligned"))[0][:3, -1]
    T = robot.pose(q, "tool")
    T[:3, :3] = control.exp(np.r_[angle * lost / np.linalg.norm(lost), np.zeros(3)])[:3, :3] @ T[:3, :3]
    return T


def error_after(escape: bool, seconds: float) -> float:
    robot, target, dt = arm(), turned(ALIGNED, 0.5), 2e-3
    q, v, law = ALIGNED, np.zeros(6), controller(tuple(ALIGNED), escape)
    for _ in range(round(seconds / dt)):
        q, v = robot.step(q, v, law(q, v, {"tool": target}).tau, dt, method="midpoint")
    assert np.abs(v).max() < 6.0
    return peak(control.pose_error(robot.pose(q, "tool"), target, "local_world_aligned"))


def test_a_wrist_in_line_is_left() -> None:
    assert error_after(escape=False, seconds=1.2) > 0.4
    assert error_after(escape=True, seconds=1.2) < 1e-2


def test_escape_moves_no_goal() -> None:
    """Only the null space moves: accelerations of the tool are those without it. Alone and in batches."""
    robot, rng = arm(), np.random.default_rng(0)
    q, v = np.repeat(ALIGNED[None], 4, axis=0), 0.1 * rng.normal(size=(4, 6))
    q[3] += 0.3
    target = {"tool": turned(ALIGNED, 0.5)}
    plain, escaping = (controller(tuple(ALIGNED), escape)(q, v, target) for escape in (False, True))
    J = robot.jacobian(q, "tool", "local_world_aligned")
    added = escaping.acceleration - plain.acceleration
    np.testing.assert_array_equal(np.abs(added).max(axis=1) > 1.0, [True, True, True, False])
    moved = np.einsum("brn,bn->br", J, added)
    assert peak(moved) < 1e-9 * peak(added)
    for i in range(4):
        alone = controller(tuple(ALIGNED), escape=True)(q[i], v[i], target)
        np.testing.assert_array_equal(alone.tau, escaping.tau[i])
        np.testing.assert_array_equal(
            controller(tuple(ALIGNED), escape=True).torques(q[i], v[i], target["tool"][None]), alone.tau
        )
    plainly = controller(tuple(ALIGNED), escape=True).engine("reference")(q, v, target)
    assert_near(plainly.tau, escaping.tau, 1e-8 * peak(escaping.tau))


@pytest.mark.parametrize("angle", [0.05, 0.2])
def test_goals_that_still_move_make_up_for_the_escape(angle: float) -> None:
    """Along a direction that is partly lost, forces on the tool are less by what the escape does there already."""
    robot, law, v = arm(), controller(tuple(ALIGNED), escape=True), np.zeros(6)
    q, target = np.where(np.arange(6) == 4, angle, ALIGNED), {"tool": turned(ALIGNED, 0.5)}
    plain, escaping = controller(tuple(ALIGNED), escape=False)(q, v, target), law(q, v, target)
    assert 0.01 < plain.margin < 1.0
    J, compliance = robot.jacobian(q, "tool", "local_world_aligned"), robot.mass_matrix_inverse(q)
    moved = escaping.acceleration - 10.0 * robot.difference(q, ALIGNED)
    added = moved - compliance @ J.T @ escaping.forces["tool"]
    inputs = [Operand("A", (6, 6)), Operand("r", (6,))]
    less, _ = executed(inputs, partial(hierarchy.forces, law._levels.blocks()), "native")(
        J @ compliance @ J.T, J @ added
    )
    size = peak(less)
    assert size > 0.1
    assert_near(plain.forces["tool"] - escaping.forces["tool"], less, 1e-10 * (size + peak(added)))


def test_a_stretched_elbow_is_left_to_the_posture() -> None:
    """Motion along the gained direction moves the tool itself; without an error, and for NaN, there is no escape."""
    closer = arm().pose(STRETCHED, "tool")
    closer[:3, 3] *= 0.9
    cases = ((STRETCHED, closer), (ALIGNED, arm().pose(ALIGNED, "tool")), (np.full(6, np.nan), closer))
    for q, target in cases:
        plain, escaping = (
            controller(tuple(STRETCHED), escape)(q, np.zeros(6), {"tool": target}) for escape in (False, True)
        )
        assert_near(escaping.tau, plain.tau, 1e-12)


def test_there_is_no_escape_while_joints_are_held_at_their_limits() -> None:
    """Samples at a limit are those without escape; others leave the singularity. Alone and in batches."""
    at, bounds = control.Posture(ALIGNED, kp=10.0, kd=6.0), control.Bounds(position=15.0)
    plain, escaping = (
        control.OperationalSpace(arm(), ["tool"], posture=at, cut=1e-2, escape=escape, bounds=bounds)
        for escape in (False, True)
    )
    q, v, target = np.repeat(ALIGNED[None], 2, axis=0), np.zeros((2, 6)), {"tool": turned(ALIGNED, 0.5)}
    q[1, 0], v[1, 0] = 2.9, 3.0
    expected, found = plain(q, v, target), escaping(q, v, target)
    np.testing.assert_array_equal(found.limited.any(axis=1), [False, True])
    assert (found.margin < 1.0).all()
    np.testing.assert_array_equal(found.tau[1], expected.tau[1])
    assert peak(found.acceleration[0] - expected.acceleration[0]) > 1.0
    for i in range(2):
        np.testing.assert_array_equal(escaping(q[i], v[i], target).tau, found.tau[i])


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("escape", [False, True])
@pytest.mark.parametrize("pressing", [False, True])
def test_parts_of_the_pipeline_go_together(held: bool, escape: bool, pressing: bool) -> None:
    """Constraints, escape, forces, joint and effort limits: bits of single samples, torques alone, both engines."""
    press = [control.ForceGoal(kt.Task("tool", (5,)), name="press")] if pressing else []
    constraints = [kt.Task("tool", (2,))] if held else []
    q, v = np.repeat(ALIGNED[None], 4, axis=0), np.zeros((4, 6))
    q[1, 0], v[1, 0], q[2] = 2.9, 30.0, ALIGNED + 0.3
    v[3] = 0.1
    for position, torque in ((None, False), (15.0, False), (None, True), (15.0, True)):
        law = control.OperationalSpace(
            arm(), [control.Goal(kt.Task("tool", (0, 1, 3, 4)), name="move"), *press], cut=1e-2, escape=escape,
            posture=control.Posture(ALIGNED, kp=10.0, kd=6.0), constraints=constraints,
            bounds=control.Bounds(position=position, torque=torque),
        )  # fmt: skip
        targets: dict[str, Any] = {"move": control.Target(turned(ALIGNED, 0.5), acceleration=np.ones(6))}
        targets |= {"press": control.Target(force=8.0)} if pressing else {}
        together = law(q, v, targets)
        if position and not torque and held and pressing:  # in a few rounds: the second sample above takes all of them
            at = np.where(np.arange(6) == 1, 2.9, ALIGNED), 20.0 * np.eye(6)[1]
            found, plain = law(*at, targets), law.engine("reference")(*at, targets)
            assert_near(plain.tau, found.tau, 1e-7 * peak(found.tau))
            assert found.limited.any()
            np.testing.assert_array_equal(plain.limited, found.limited)
        assert together.limited[1].any() == (position is not None)
        assert set(together.forces) == {"move", *(goal.name for goal in press)}
        for i in range(4):
            alone = law(q[i], v[i], targets)
            for name in ("tau", "acceleration", "limited", "scale", "margin"):
                np.testing.assert_array_equal(getattr(alone, name), getattr(together, name)[i])
            np.testing.assert_array_equal(law.torques(q[i], v[i]), law(q[i], v[i]).tau)
        np.testing.assert_array_equal(law.torques(q, v), law(q, v).tau)
        if torque:
            assert peak(together.tau / arm().effort_limits) <= 1.0 + 1e-12


def test_escape_needs_motors() -> None:
    with pytest.raises(InputError, match="escape=True needs a motor in every joint"):
        control.OperationalSpace(model("asimo35"), ["left_hand"], constraints=["left_foot"], escape=True)


BODY: dict[str, Any] = {"mass": 1.0, "com": (0.1, 0.0, 0.0), "inertia": np.diag((0.02, 0.03, 0.04))}


def arms(flexible: bool) -> kt.Model:
    """A box, and three arms around it, one of them with a beam."""
    rng, builder = np.random.default_rng(0), kt.Builder("arms", gravity=(0, 0, -9.81))
    builder.add_body("box", joint="floating", **BODY)
    for i in range(3):
        place = (random_rotation(rng), rng.uniform(-1, 1, 3))
        builder.add_body(f"upper{i}", axis=(0, 0, 1), placement=place, **BODY)
        parent = f"upper{i}"
        if flexible and i == 1:
            rod = kt.Beam(length=0.5, EI=50.0, rhoA=0.8, modes=1, planes="yz")
            builder.add_flexible("rod", rod, parent=parent)
            parent = "rod/tip"
        builder.add_body(
            f"hand{i}", parent=parent, axis=(0, 1, 0), placement=(random_rotation(rng), (0.3, 0, 0)), **BODY
        )
    return builder.build()


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("flexible", [False, True])
def test_grasps_share_a_load_by_the_definition(flexible: bool, engine: str) -> None:
    """λ = h₀ + Q B y with (BᵀQB) y = F_o − Bᵀh₀, for forces that do not balance each other."""
    robot, rng = arms(flexible), np.random.default_rng(1)
    q, full, rows = robot.random_configuration(2), rng.normal(size=robot.nv), 18
    tasks = robot.tasks([kt.RelativeTask("box", f"hand{i}") for i in range(3)])
    weights, press = rng.uniform(0.5, 2.0, rows), np.repeat([3.0, -2.0, 5.0], 6) * (np.arange(rows) % 6 >= 3)
    mean = np.kron(np.full((3, 3), 1.0 / 3.0), np.diag([0.0, 0.0, 0.0, 1.0, 1.0, 1.0]))
    owned = np.isin(np.arange(robot.nv), np.arange(6))
    of_rows = np.stack([weights, press, np.zeros(rows)], axis=1)
    given = q, full, mean, of_rows, owned.astype(float)
    rest, force, weak = tasks.core.recursions.grasp_sharing.engine(engine)(*given)

    J, poses = tasks.jacobian(q), robot.pose(q, ["box", "hand0", "hand1", "hand2"])
    points = poses[1:, :3, 3]
    inwards = points.mean(axis=0) - points
    inwards = inwards / np.linalg.norm(inwards, axis=1, keepdims=True)
    h = press * np.concatenate([np.zeros((3, 3)), inwards @ poses[0, :3, :3]], axis=1).ravel()
    B = J[:, owned]
    K = B.T @ (weights[:, None] * B)
    expected = h + weights * (B @ np.linalg.solve(K, full[owned] - B.T @ h))
    tolerance = bound(robot.nv, float(np.linalg.cond(K)))
    assert_close(force, expected, tolerance, peak(expected))
    assert_close(rest, np.where(owned, 0.0, full - J.T @ expected), tolerance, peak(expected) + 1.0)
    assert_close(weak, np.diag(K) @ np.diag(np.linalg.inv(K)), tolerance)


def test_flexible_bodies_have_no_motors() -> None:
    """Unless they are given some; what moves without a motor follows the others."""
    robot = arms(flexible=True)
    q, v = robot.random_configuration(2), np.zeros(robot.nv)
    rod = next(joint.v_slice for joint in robot.joints if joint.name == "rod")
    program = control.WholeBody(robot, ["hand1"], posture=control.Posture(q))
    command = program(q, v, {"hand1": robot.pose(q, "hand1") + np.pad([[0.1], [0.0], [0.0]], ((0, 1), (3, 0)))})
    assert not command.tau[:6].any()
    assert not command.tau[rod].any()
    assert np.abs(command.acceleration[rod]).max() > 0.1
    expected = robot.forward_dynamics(q, v, command.tau)
    assert_close(command.acceleration, expected, bound(robot.nv, 1e4), peak(expected))
    with pytest.raises(UnderactuatedError, match="'rod'"):
        control.OperationalSpace(robot, ["hand1"], constraints=[kt.Weld("box", "hand0")])
    tracker = control.track(robot, np.tile(q, (3, 1)), np.zeros((3, robot.nv)), dt=0.01)
    assert not tracker(0, q, v + 0.1)[rod].any()
    assert tracker(0, q, v + 0.1)[6:8].all()


def shared(controller: control.OperationalSpace, q: Array, full: Array) -> tuple[Array, Array]:
    """How motors and constraints share joint forces: by kernels, and by pseudo-inverses where they lack a direction."""

    def text(run: Any, q: Any, full: Any) -> list[Any]:
        tau, forces, lacking = controller._sharing.share(run, q, full)
        return [tau, forces, *lacking]

    robot = controller.robot
    inputs = [Operand("q", (robot.nq,)), Operand("full", (robot.nv,))]
    tau, forces, *lacking = executed(inputs, text, "native")(q, full)
    lacking = [x.item() for x in lacking] if q.ndim == 1 else lacking
    return controller._sharing.settled(q, full, tau, forces, lacking)


def test_the_kernel_shares_loads_as_pseudo_inverses_do() -> None:
    """Grasps and supports, with and without a base: the compiled recursion against the dense formulas."""
    walker = model("asimo35")
    feet = [kt.Weld("left_foot"), kt.Weld("right_foot")]
    bent = {f"{side}_leg_{i}_joint": a for side in ("left", "right") for i, a in ((3, -0.3), (4, 0.6), (5, -0.3))}
    standing_up = control.OperationalSpace(
        walker, [kt.CenterOfMassTask()], posture=control.Posture(walker.q_from_dict(bent)), constraints=feet
    )
    # hands that hold each other: a support between two frames of the robot
    folded = control.OperationalSpace(
        model("humanoid24"), [kt.CenterOfMassTask()], posture=control.Posture(standing()),
        constraints=[kt.Weld("left_hand", "right_hand"), kt.Weld("left_foot")],
    )  # fmt: skip
    for controller in (with_box(), standing_up, folded):
        sharing = controller._sharing
        q, _ = near_state(controller.robot, controller._start, 3, (4,))
        full = np.random.default_rng(4).normal(size=(4, controller.robot.nv))
        tau, forces = shared(controller, q, full)
        dense_tau, dense_forces = sharing.dense(q, full)
        assert controller.constraints is not None
        J = controller.constraints.jacobian(q)
        limit = bound(controller.robot.nv, max(condition(j @ j.T) for j in J))
        assert_close(forces, dense_forces, limit)
        assert_close(tau, dense_tau, limit)
        found = tau + (transposed(J) @ forces[..., None])[..., 0]
        undriven = ~controller.driven
        assert_close(found[:, undriven], full[:, undriven], limit)


def test_a_stretched_leg_shares_loads_by_pseudo_inverses() -> None:
    """A straight knee takes a direction from the motors of a support: what remains is still least."""
    robot, start = scene()
    q = start.copy()
    q[[robot.joint(f"left_{name}").q_start for name in ("knee", "hip_pitch", "ankle_pitch")]] = 0.0
    sharing = with_box()._sharing
    full = np.random.default_rng(8).normal(size=robot.nv)
    one, other = shared(with_box(), q, full), sharing.dense(q, full)
    assert np.isfinite(one[0]).all()
    assert_near(one[0], other[0], 1e-6 * peak(other[0]))
    # each of the measures decides, sample by sample
    assert sharing.measures == 3
    for worst in range(3):
        lacking = np.where(np.arange(3) == worst, 1e20, 0.0)
        for found, dense in zip(sharing.settled(q, full, *one, lacking.tolist()), other, strict=True):
            np.testing.assert_array_equal(found, dense)
        tau, forces = (np.stack([x, x]) for x in one)
        several = np.stack([np.zeros(3), lacking], axis=1)
        found = sharing.settled(np.stack([q, q]), np.stack([full, full]), tau, forces, list(several))
        np.testing.assert_array_equal(found[0], [one[0], other[0]])
        np.testing.assert_array_equal(found[1], [one[1], other[1]])


def test_the_order_of_constraints_is_that_of_their_forces() -> None:
    """Supports before grasps and after them: the same forces, by name."""
    robot, q = scene()
    one, other = (
        control.OperationalSpace(robot, [control.Goal("box")], posture=control.Posture(q), constraints=held)(
            q, np.zeros(robot.nv)
        ).constraint_forces
        for held in (HELD, HELD[::-1])
    )
    size = max(peak(force) for force in one.values())
    for name, force in one.items():
        assert_near(other[name], force, 1e-8 * size)


def test_objects_held_together_are_carried_by_the_hands_of_each_other() -> None:
    """A box in both hands with another one fastened on top: grasps carry both, motors the rest."""
    robot, q = model("humanoid24"), standing()
    center = robot.pose(q, HANDS)[:, :3, 3].mean(axis=0)
    robot = robot.attach("world", kt.zoo.box((0.3, 0.36, 0.3), 4.0))
    robot = robot.attach("world", kt.zoo.box((0.2, 0.2, 0.2), 2.0), prefix="top_")
    top = center + np.array([0.0, 0.0, 0.25])
    q = np.concatenate([q, center, [1, 0, 0, 0], top, [1, 0, 0, 0]])
    held = [*HELD, kt.Weld("top_box", "box")]
    command = control.OperationalSpace(robot, [control.Goal("box")], posture=control.Posture(q), constraints=held)(
        q, np.zeros(robot.nv)
    )
    J = robot.constraints(held, at=q).jacobian(q)
    forces = np.concatenate(
        [command.constraint_forces[name] for name in ("left_hand", "right_hand", "left_foot", "top_box")]
    )
    full = robot.inverse_dynamics(q, np.zeros(robot.nv), command.acceleration)
    np.testing.assert_array_equal(command.tau[24:], 0.0)
    assert_close(command.tau + J.T @ forces, full, solving_bound(robot, q, J))
    assert command.constraint_forces["top_box"][5] == pytest.approx(2.0 * 9.81, rel=1e-3)
