"""Arguments as people write them: positions, pairs of limits, lists of joints; and what a model shows of itself."""

from __future__ import annotations

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, ModelError
from tests.tolerance import assert_close, refused


@pytest.fixture(scope="module")
def arm() -> kt.Model:
    return kt.zoo.arm7()


def test_a_position_is_a_placement(arm: kt.Model) -> None:
    tip = arm.frames[-1]
    moved = arm.with_frame("tcp", tip, (0, 0, 0.1))
    same = arm.with_frame("tcp", tip, (np.eye(3), (0, 0, 0.1)))
    assert moved == same
    built = kt.Builder().add_body("a", mass=1.0, placement=np.array([1.0, 2.0, 3.0])).build()
    assert_close(built.joints[0].placement[:3, 3], [1.0, 2.0, 3.0], 1e-16)
    refused("a position", arm.with_frame, "t", tip, (0.0, 1.0, 2.0, 3.0), error=ModelError)
    refused("NaN", arm.with_frame, "t", tip, (0.0, 1.0, np.nan), error=ModelError)


def test_a_pair_is_position_limits(arm: kt.Model) -> None:
    joint = arm.joints[2]
    limited = arm.with_limits({joint.name: (-1, 1)}).joints[2]
    assert (limited.limits.lower, limited.limits.upper) == ((-1.0,), (1.0,))
    assert (limited.limits.velocity, limited.limits.effort) == (joint.limits.velocity, joint.limits.effort)
    refused("or a pair of lower and upper ones; got float", arm.with_limits, {joint.name: 1.0})
    refused("above upper", arm.with_limits, {joint.name: (1, -1)}, error=ModelError)


def test_joints_are_locked_by_name(arm: kt.Model) -> None:
    names = [arm.joints[1].name, arm.joints[4].name]
    assert arm.reduced(names) == arm.reduced(dict.fromkeys(names, 0.0))
    ball = kt.Builder().add_body("a", joint="spherical", mass=1.0, inertia=np.eye(3)).build()
    assert ball.reduced(["a_joint"]).nv == 0
    with pytest.raises(InputError, match="or a list of joints; got 'a_joint'"):
        ball.reduced("a_joint")


def test_values_by_name_are_floats(arm: kt.Model) -> None:
    q = arm.random_configuration(0)
    for values in (arm.q_to_dict(q), arm.v_to_dict(q)):
        assert {type(value) for value in values.values()} == {float}
    assert arm.q_to_dict(q[None])[arm.joints[0].name].shape == (1,)
    assert {type(value) for value in arm.q_to_dict(q + 1j).values()} == {complex}
    floating = kt.zoo.humanoid24()
    assert_close(floating.q_from_dict(floating.q_to_dict(floating.neutral())), floating.neutral(), 1e-16)


def test_only_what_users_call_is_listed(arm: kt.Model) -> None:
    assert not {"mechanism", "site", "sites", "clusters"} & {*dir(arm)}
    assert {"forward_dynamics", "keyframes", "nq", "with_limits"} <= {*dir(arm)}
    assert {*dir(kt)} == {*kt.__all__, "__version__"}


def test_a_model_knows_its_file(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "arm.urdf"
    path.write_text(kt.to_urdf(kt.zoo.humanoid24()))
    monkeypatch.setenv("HOME", str(tmp_path))
    robot = kt.load("~/arm.urdf")
    assert robot.source == str(path)
    assert robot.reduced([robot.joints[0].name]).source == str(path)
    text = kt.load(path.read_text())
    assert text.source is None
    assert text == robot
    assert robot.astype("float32").source == str(path)
