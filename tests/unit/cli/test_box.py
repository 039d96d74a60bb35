"""The box experiment: what it must show, its picture and its output."""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from kinetree import simulation
from kinetree.cli import box
from kinetree.cli.box import draw
from kinetree.cli.commands import app


@cache
def done(free_foot: bool = False) -> tuple[box.Experiment, simulation.Film]:
    setup = box.experiment(free_foot)
    return setup, box.run(setup)


@pytest.mark.parametrize("free_foot", [False, True])
def test_what_it_must_show(free_foot: bool) -> None:
    """At the paper's 300 Hz, with the left foot held and free."""
    setup, film = done(True) if free_foot else done()
    found = box.figures(setup, film)
    waist = setup.robot.joint("waist_pitch")
    reached = float(film.q[:, waist.q_start].max()) - waist.limits.upper[0]
    assert abs(reached + box.MARGIN) < 5e-6  # torques are held for 3.3 ms: it does not rest exactly where it should
    assert found.tracking < 0.2
    assert found.final_error < 1e-3
    assert found.posture_leak < 1e-10
    assert found.waist_overshoot < 1e-6
    assert found.grip_gap < 1e-5
    assert 0.5 < found.limited < 0.95
    assert 29.5 < found.squeeze[0] <= found.squeeze[1] < 30.5
    assert found.largest_torque < 150.0


@pytest.mark.parametrize("free_foot", [False, True])
def test_the_box_ends_on_the_floor(free_foot: bool) -> None:
    """On its lower face, at the height of the soles, in front of them; it was carried there from above."""
    setup, film = done(True) if free_foot else done()
    poses = setup.robot.pose(film.q[[0, -1]], "box")
    corners = np.array(list(product((-0.5, 0.5), repeat=3))) * box.SIZE
    before, after = (corners @ pose[:3, :3].T + pose[:3, 3] for pose in poses)
    assert before[:, 2].min() > 0.3
    np.testing.assert_allclose(np.sort(after[:, 2])[:4], 0.0, rtol=0.0, atol=1e-5)
    sole = setup.robot.pose(film.q[-1], "right_foot")[:3, 3]
    assert abs(sole[2]) < 1e-5
    assert sole[0] < after[:, 0].min() < sole[0] + 0.5


def test_without_the_limit_the_waist_goes_too_far() -> None:
    """So the experiment needs its level of limits."""
    setup, film = done()
    commands = [command for command in film.commands if command.limited.any()]  # type: ignore[attr-defined]
    names = [joint.name for joint in setup.robot.joints for _ in range(joint.nv)]
    held = {names[i] for command in commands for i in command.limited.nonzero()[0]}  # type: ignore[attr-defined]
    assert held == {"waist_pitch"}


def test_picture(tmp_path: Path) -> None:
    setup, film = done()
    draw(tmp_path / "box.png", setup.robot, setup.way, film, box.SIZE)
    assert (tmp_path / "box.png").read_bytes().startswith(b"\x89PNG")


def test_json(monkeypatch: pytest.MonkeyPatch) -> None:
    setup, film = done()
    monkeypatch.setattr(box, "experiment", lambda *_: setup)
    monkeypatch.setattr(box, "run", lambda *_, **__: film)
    result = CliRunner().invoke(app, ["box", "--json"])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.output)
    assert printed["tracking"] < 0.2
    assert set(printed) == set(box.Figures.__dataclass_fields__)


def test_report(monkeypatch: pytest.MonkeyPatch) -> None:
    setup, film = done()
    monkeypatch.setattr(box, "experiment", lambda *_: setup)
    monkeypatch.setattr(box, "run", lambda *_, **__: film)
    result = CliRunner().invoke(app, ["box"])
    assert result.exit_code == 0, result.output
    assert "the paper: 300 Hz" in result.output
    assert "NOT" not in result.output
