"""Singularities: a wrist with two axes in line is left, a stretched elbow is left to the posture."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import control
from kinetree.control import hierarchy
from kinetree.errors import InputError
from kinetree.runtime.operands import Operand
from kinetree.runtime.texts import executed
from tests.laws.cases import model

Array = np.ndarray[Any, np.dtype[Any]]

ALIGNED, STRETCHED = np.array([0.3, 0.5, 0.9, 0.4, 0.0, 0.2]), np.array([0.3, 0.5, 0.0, 0.4, 0.8, 0.2])


@cache
def arm() -> kt.Model:
    """Shoulder yaw and pitch, elbow, and a wrist whose first and last axes may be in line."""
    builder, parent = kt.Builder("arm"), "world"
    links = ((0.1, 8.0, 0.3), (0.45, 6.0, 0.1), (0.25, 4.0, 0.45), (0.2, 1.5, 0.25), (0.05, 1.0, 0.2), (0.1, 0.5, 0.05))
    for i, (length, mass, offset) in enumerate(links):
        builder.add_body(
            f"link{i}", parent=parent, joint_name=f"joint{i}", placement=(np.eye(3), (0.0, 0.0, offset)),
            axis=(0, 0, 1) if i in (0, 3, 5) else (0, 1, 0), mass=mass, com=(0.0, 0.0, length / 2), armature=0.05,
            inertia=mass * np.diag([length**2 / 12 + 0.002, length**2 / 12 + 0.002, 0.002]),
            limits=kt.Limits(-3.0, 3.0, 10.0, 100.0),
        )  # fmt: skip
        parent = f"link{i}"
    builder.add_frame("tool", body=parent, placement=(np.eye(3), (0.0, 0.0, 0.1)))
    return builder.build()


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
    return float(np.abs(control.pose_error(robot.pose(q, "tool"), target)).max())


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
    assert float(np.abs(moved).max()) < 1e-9 * float(np.abs(added).max())
    for i in range(4):
        alone = controller(tuple(ALIGNED), escape=True)(q[i], v[i], target)
        np.testing.assert_array_equal(alone.tau, escaping.tau[i])
        np.testing.assert_array_equal(
            controller(tuple(ALIGNED), escape=True).torques(q[i], v[i], target["tool"][None]), alone.tau
        )
    plainly = controller(tuple(ALIGNED), escape=True).engine("reference")(q, v, target)
    np.testing.assert_allclose(plainly.tau, escaping.tau, rtol=0.0, atol=1e-8 * float(np.abs(escaping.tau).max()))


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
    size = float(np.abs(less).max())
    assert size > 0.1
    np.testing.assert_allclose(
        plain.forces["tool"] - escaping.forces["tool"], less, rtol=0.0, atol=1e-10 * (size + float(np.abs(added).max()))
    )


def test_a_stretched_elbow_is_left_to_the_posture() -> None:
    """Motion along the gained direction moves the tool itself; without an error, and for NaN, there is no escape."""
    closer = arm().pose(STRETCHED, "tool")
    closer[:3, 3] *= 0.9
    cases = ((STRETCHED, closer), (ALIGNED, arm().pose(ALIGNED, "tool")), (np.full(6, np.nan), closer))
    for q, target in cases:
        plain, escaping = (
            controller(tuple(STRETCHED), escape)(q, np.zeros(6), {"tool": target}) for escape in (False, True)
        )
        np.testing.assert_allclose(escaping.tau, plain.tau, rtol=0.0, atol=1e-12)


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
    assert float(np.abs(found.acceleration[0] - expected.acceleration[0]).max()) > 1.0
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
        if position and not torque and held and pressing:  # the slow one
            plain = law.engine("reference")(q[1], v[1], targets)
            size = float(np.abs(together.tau).max())
            np.testing.assert_allclose(plain.tau, together.tau[1], rtol=0.0, atol=1e-7 * size)
            np.testing.assert_array_equal(plain.limited, together.limited[1])
        assert together.limited[1].any() == (position is not None)
        assert set(together.forces) == {"move", *(goal.name for goal in press)}
        for i in range(4):
            alone = law(q[i], v[i], targets)
            for name in ("tau", "acceleration", "limited", "scale", "margin"):
                np.testing.assert_array_equal(getattr(alone, name), getattr(together, name)[i])
            np.testing.assert_array_equal(law.torques(q[i], v[i]), law(q[i], v[i]).tau)
        np.testing.assert_array_equal(law.torques(q, v), law(q, v).tau)
        if torque:
            assert float(np.abs(together.tau / arm().effort_limits).max()) <= 1.0 + 1e-12


def test_escape_needs_motors() -> None:
    with pytest.raises(InputError, match="escape=True needs a motor in every joint"):
        control.OperationalSpace(model("asimo35"), ["left_hand"], constraints=["left_foot"], escape=True)
