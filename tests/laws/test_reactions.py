"""Laws of the wrenches that joints transmit, and of the stacked vectors of all nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, UnknownNameError, UnsupportedError
from tests.laws import test_general_nodes as general
from tests.laws.cases import REFERENCES, Case, cases, times, transposed
from tests.tolerance import Array, assert_close, assert_near, peak, refused


def parents(robot: kt.Model) -> list[int]:
    """The number of each body's parent, −1 for the world."""
    names = [body.name for body in robot.bodies]
    above = {joint.child: joint.parent for joint in (*robot.joints, *robot.fixed_joints)}
    return [names.index(above[name]) if above[name] in names else -1 for name in names]


def moving_rotors(robot: kt.Model, a: Array) -> Array:
    return a * np.concatenate([joint.armature for joint in robot.joints])


@pytest.mark.parametrize("case", cases(long=False), ids=str)
def test_power_through_the_joints(case: Case) -> None:
    """Σ fᵀ(V − V of the parent) over all joints is the power of the motors, less what their rotors take up."""
    q, v, a = case.state
    names = [body.name for body in case.robot.bodies]
    f = case.on("reactions", q, v, a, names, "world")
    V = case.on("velocity", q, v, names, "world")
    across = np.stack([V[..., i, :] - (V[..., p, :] if p >= 0 else 0.0) for i, p in enumerate(parents(case.robot))], -2)
    power = np.sum((case.on("inverse_dynamics", q, v, a) - moving_rotors(case.robot, a)) * v, axis=-1)
    terms = np.abs(f) * np.abs(across)
    assert_close(np.sum(f * across, axis=(-1, -2)), power, case.tolerance, peak(np.sum(terms, axis=(-1, -2))))


@pytest.mark.parametrize("case", cases(long=False), ids=str)
def test_references_and_loads(case: Case) -> None:
    """Wrenches change with the frame as the duals of twists; loads pass through all joints towards the base."""
    q, v, a = case.state
    frame = case.frames[-1]
    local, aligned, world = (
        case.on("reactions", q, v, a, frame, reference)
        for reference in REFERENCES[:1] + REFERENCES[2:] + REFERENCES[1:2]
    )
    T = case.robot.pose(q, frame)
    R, p = T[..., :3, :3], T[..., :3, 3]
    scale = peak(world)
    assert_close(times(R, local[..., 3:]), aligned[..., 3:], case.tolerance, scale)
    assert_close(times(R, local[..., :3]), aligned[..., :3], case.tolerance, scale)
    assert_close(aligned[..., :3] + np.cross(p, aligned[..., 3:]), world[..., :3], case.tolerance, scale)
    wrench = np.random.default_rng(3).uniform(-1.0, 1.0, 6)
    loaded = case.on("reactions", q, v, a, [frame], f_ext={frame: wrench})[..., 0, :]
    assert_close(local - loaded, np.broadcast_to(wrench, local.shape), case.tolerance, peak(local, wrench))
    J = case.on("jacobian", q, frame)
    less = case.on("inverse_dynamics", q, v, a) - times(transposed(J), np.broadcast_to(wrench, (*case.shape, 6)))
    assert_close(case.on("inverse_dynamics", q, v, a, f_ext={frame: wrench}), less, case.tolerance, peak(less))


def arm(kind: str) -> kt.Model:
    """A pillar, an arm, and a tool with a tip, whose joints are fixed or do not move."""
    builder = kt.Builder("arm")
    turned = np.array([[0.0, -1.0, 0.0], [0.6, 0.0, -0.8], [0.8, 0.0, 0.6]])
    solid: dict[str, Any] = {"com": (0.1, -0.2, 0.3), "inertia": np.diag([0.2, 0.3, 0.4])}
    builder.add_body("pillar", joint=kind, placement=(turned, (0.0, 0.1, 0.5)), mass=3.0, **solid)
    builder.add_body("arm", parent="pillar", placement=(turned.T, (0.2, 0.0, 0.1)), mass=2.0, **solid)
    builder.add_body("tool", parent="arm", joint=kind, placement=(turned, (0.3, 0.1, 0.0)), mass=0.5, **solid)
    builder.add_body("tip", parent="tool", joint=kind, placement=(turned, (0.0, 0.2, 0.0)), mass=0.1, **solid)
    return builder.add_frame("eye", body="tip", placement=(turned, (0.1, 0.0, 0.0))).build()


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_fixed_joints_carry_what_joints_at_rest_carry(engine: str) -> None:
    fixed, moving = arm("fixed"), arm("revolute")
    q, v, a = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 5, 1))
    still = [x * np.array([0.0, 1.0, 0.0, 0.0]) for x in (q, v, a)]
    loads = {"eye": np.arange(1.0, 7.0), "arm": np.arange(6.0)}
    for f_ext in (None, loads):
        for reference in REFERENCES:
            options: dict[str, Any] = {"reference": reference, "f_ext": f_ext}
            found = fixed.reactions.engine(engine)(q, v, a, **options)
            expected = moving.reactions.engine(engine)(*still, **options)
            assert found.shape == (5, 4, 6)
            assert_close(found, expected, 1e-14, peak(expected))
            one = fixed.reactions.engine(engine)(q, v, a, "tool", **options)
            assert_close(one, expected[:, 2], 1e-14, peak(expected))
    ground = fixed.reactions(q, v, a, "world")
    assert_close(ground, fixed.reactions(q, v, a, "pillar", "world"), 1e-14, peak(ground))


def test_results_go_where_they_are_wanted() -> None:
    robot = arm("fixed")
    q, v, a = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 5, 1))
    f_ext = {"eye": np.arange(1.0, 7.0)}
    for given in ({}, {"f_ext": f_ext}):
        expected, out = robot.reactions(q, v, a, **given), np.zeros((5, 4, 6))
        assert robot.reactions(q, v, a, out=out, **given) is out
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(robot.reactions(q[2], v[2], a[2], **given), expected[2])  # the same bits
        single = robot.astype("float32").reactions(q, v, a, **given)
        assert single.dtype == np.float32
        assert_near(single, expected, 1e-4)
    refused("shape", robot.reactions, q, v, a, f_ext=f_ext, out=np.zeros((5, 6)))
    refused("wrench on 'eye'", robot.reactions, q, v, a, f_ext={"eye": np.zeros(5)})
    for load in (None, f_ext):
        refused("reference", robot.reactions, q, v, a, reference="base", f_ext=load, error=UnknownNameError)
        refused("frame", robot.reactions, q, v, a, "hand", f_ext=load, error=UnknownNameError)
    refused("frame", robot.reactions, q, v, a, f_ext={"hand": np.zeros(6)}, error=UnknownNameError)


def test_bodies_whose_joints_depend_on_others() -> None:
    """Behind a loop, forces are those of bodies with joints of their own; inside, they are refused."""
    robot, s = general.robot("loops"), general.state("loops")
    tip = [joint.child for joint in robot.joints if joint.kind == "revolute"]
    inside = next(body for body in robot.clusters[0].bodies)
    refused("loop", robot.reactions, s.q, s.v, s.a, inside, error=UnsupportedError)
    refused("name frames", robot.reactions, s.q, s.v, s.a, error=InputError)
    assert tip
    found = robot.reactions(s.q, s.v, s.a, general.TOOL, f_ext=s.f_ext)
    assert np.all(np.isfinite(found))


@pytest.mark.parametrize("name", general.NAMES)
def test_stacked_vectors(name: str) -> None:
    """[J11] Eqs. 1–3 with Coriolis and gyroscopic terms, on nodes of every kind."""
    robot, s = general.robot(name), general.state(name)
    ops = robot.operators(s.q, engine="reference")
    for engine in ("reference", "native"):
        now = robot.stacked_vectors.engine(engine)(s.q, s.v, s.a)
        close = 1e-11
        assert_close(now.V, ops.A.T @ (ops.H.T @ s.v), close, peak(now.V))
        still = robot.stacked_vectors(s.q, 0 * s.v, 0 * s.a)
        assert_close(now.alpha - still.alpha, ops.A.T @ (ops.H.T @ s.a + now.coriolis), close, peak(now.alpha))
        assert_close(now.f, ops.A @ (ops.M @ now.alpha + now.gyroscopic), close, peak(now.f))
        needed = ops.H @ now.f + ops.armature @ s.a
        springs = robot.inverse_dynamics(s.q, s.v, s.a) - needed
        own = robot.bias_forces(s.q, s.v) - robot.stacked_vectors(s.q, s.v, 0 * s.a).f @ ops.H.T.dense()
        assert_close(springs, own, close, peak(needed, springs))
        assert not np.any(still.gyroscopic)
        assert not np.any(still.coriolis)


def test_c_code_of_reactions(tmp_path: Any) -> None:
    """Of robots whose fixed joints are none or merged; others are refused."""
    header, _ = arm("revolute").export_c(["reactions"], tmp_path, frames=["tip"])
    assert "reactions" in header.read_text()
    refused("fixed joints", arm("fixed").export_c, ["reactions"], tmp_path, error=UnsupportedError)
