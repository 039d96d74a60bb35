"""The box experiment: what it must show, its picture and its output."""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from kinetree.cli import box
from kinetree.cli.box_picture import draw
from kinetree.cli.commands import app


@cache
def done(stance: str) -> tuple[box.Experiment, box.Motion]:
    setup = box.experiment(stance)
    return setup, box.run(setup)


@pytest.mark.parametrize("stance", box.STANCES)
def test_what_it_must_show(stance: str) -> None:
    """At the paper's 300 Hz, on feet that stand by friction, with the left foot welded, and free."""
    setup, motion = done(stance)
    found = box.figures(setup, motion)
    waist = setup.robot.joint("waist_pitch")
    reached = float(motion.q[:, waist.q_start].max()) - waist.limits.upper[0]
    assert -1.5 * box.MARGINS[stance] < reached < 0.0  # torques are held for 3.3 ms: it does not rest exactly
    assert [what for what, _, good, _ in box.bounds(stance, found) if not good] == []
    assert 0.5 < found.limited < 0.95
    assert 29.5 < found.squeeze[0] <= found.squeeze[1] < 31.0
    assert found.largest_torque < 150.0
    assert motion.down.residual.max() < 1e-6
    assert motion.away.residual.max() < 1e-6


@pytest.mark.parametrize("stance", box.STANCES)
def test_the_box_rests_on_the_floor(stance: str) -> None:
    """On its lower face, at the height of the soles, in front of them, by contact; it was carried there from above."""
    setup, motion = done(stance)
    poses = setup.robot.pose(motion.q[[0, -1]], "box")
    corners = np.array(list(product((-0.5, 0.5), repeat=3))) * box.SIZE
    before, after = (corners @ pose[:3, :3].T + pose[:3, 3] for pose in poses)
    assert before[:, 2].min() > 0.3
    np.testing.assert_allclose(np.sort(after[:, 2])[:4], 0.0, rtol=0.0, atol=1e-5)
    sole = setup.robot.pose(motion.q[-1], "right_foot")[:3, 3]
    assert abs(sole[2]) < 1e-5
    assert sole[0] < after[:, 0].min() < sole[0] + 0.5
    # nothing else carries it: the floor bears its weight
    _, _, info = setup.freed.step(motion.q[-1], motion.away.v[-1], motion.away.tau[-1])
    np.testing.assert_allclose(info.contact_forces[:4].sum(axis=0), [0.0, 0.0, 9.81 * box.MASS], rtol=0.0, atol=1e-3)


def test_a_box_that_stops_above_the_floor_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the hands let go of it, it falls."""
    for name, value in {"END": (0.40, 0.09, 0.75), "HOLD": 0.05, "LEAVE": 0.15}.items():
        monkeypatch.setattr(box, name, value)
    setup = box.experiment("welded", seconds=0.3)
    motion = box.run(setup)
    dropped = setup.robot.pose(motion.down.q[-1], "box")[2, 3] - setup.robot.pose(motion.q[-1], "box")[2, 3]
    assert dropped > 0.1


def test_without_the_limit_the_waist_goes_too_far() -> None:
    """So the experiment needs its level of limits."""
    setup, motion = done("welded")
    commands = [command for command in motion.down.commands if command.limited.any()]  # type: ignore[attr-defined]
    names = [joint.name for joint in setup.robot.joints for _ in range(joint.nv)]
    held = {names[i] for command in commands for i in command.limited.nonzero()[0]}  # type: ignore[attr-defined]
    assert "waist_pitch" in held


def test_picture(tmp_path: Path) -> None:
    setup, motion = done("welded")
    draw(tmp_path / "box.png", setup.robot, setup.way, motion, box.SIZE, box.HEAD[0])
    assert (tmp_path / "box.png").read_bytes().startswith(b"\x89PNG")


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    setup, motion = done("welded")
    monkeypatch.setattr(box, "experiment", lambda *_: setup)
    monkeypatch.setattr(box, "run", lambda *_, **__: motion)
    result = CliRunner().invoke(app, ["box", "--welded", *words])
    assert result.exit_code == 0, result.output
    return result.output


def test_json(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = json.loads(call(monkeypatch, "--json"))
    assert printed["tracking"] < 0.2
    assert set(printed) == set(box.Figures.__dataclass_fields__)


def test_report(monkeypatch: pytest.MonkeyPatch) -> None:
    output = call(monkeypatch)
    assert "the paper: 300 Hz" in output
    assert "NOT" not in output


def test_a_foot_is_welded_or_hangs() -> None:
    result = CliRunner().invoke(app, ["box", "--welded", "--free-foot"])
    assert result.exit_code == 2
    assert "choose one of both" in result.stderr
