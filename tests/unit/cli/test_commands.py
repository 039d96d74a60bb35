"""The command line: what it prints, and what its exit code says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

import kinetree as kt
from kinetree.cli import INSTALL, app, check, demo
from kinetree.model.dynamics import FUNCTIONS


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a command, with shorter timings than a user wants."""
    monkeypatch.setattr(demo, "TOTAL", 0.0)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def test_version(call: Callable[..., Any]) -> None:
    result = call("--version")
    assert result.exit_code == 0
    assert result.output.strip() == f"kinetree {kt.__version__}"


def test_no_command_shows_help(call: Callable[..., Any]) -> None:
    assert "demo" in call().output


def test_demo(call: Callable[..., Any]) -> None:
    threads = kt.get_threads()
    kt.set_threads(2)
    result = call("demo", "--seed", "3", "--batch", "8")
    assert result.exit_code == 0, result.output
    assert str(kt.zoo.humanoid24()) in result.output
    assert "8 random states: passed" in result.output
    rows = {words[0]: words[1:] for line in result.output.splitlines() if (words := line.split())}
    # angles are plain numbers: they need no normalizing, and these derivatives are constant
    free = {"normalize", "dintegrate", "ddifference", "tangent_map", "bracket"}
    for name in FUNCTIONS:
        operations, *times = (float(word.replace(",", "")) for word in rows[name])
        assert (operations > 0) != (name in free)
        assert len(times) == 5
        assert all(time > 0 for time in times)
    for name in kt.tasks.METHODS:
        operations, difference, *times = (float(word.replace(",", "")) for word in rows[name])
        assert operations > 0
        assert difference < 1e-9
        assert len(times) == 4
    assert kt.get_threads() == 2
    kt.set_threads(threads)
    assert "try --batch 65536" in result.output


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    path = tmp_path / "arm.urdf"
    path.write_text(
        f'<robot name="arm"><link name="base"/><link name="rod">{inertial}</link>'
        '<joint name="hinge" type="continuous"><parent link="base"/><child link="rod"/></joint></robot>'
    )
    return path


def test_one_thread_has_one_column(call: Callable[..., Any], arm: Path) -> None:
    """And there is no advice to try larger batches, which would change nothing."""
    with demo.threads(1):
        result = call("demo", arm, "--batch", "4")
    assert result.exit_code == 0, result.output
    (header,) = (line for line in result.output.splitlines() if "1 thr." in line)
    assert header.count("thr.") == 1
    rows = {words[0]: words[1:] for line in result.output.splitlines() if (words := line.split())}
    assert len(rows["mass_matrix"]) == 5
    assert "try --batch" not in result.output


def test_a_large_batch_gets_no_advice_to_try_one(call: Callable[..., Any], arm: Path) -> None:
    with demo.threads(2):
        result = call("demo", arm, "--batch", "1025")
    assert "try --batch" not in result.output


def test_large_results_are_timed_on_fewer_samples(
    call: Callable[..., Any], arm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results take bounded memory, whatever the batch; the rows that this concerns are marked."""
    monkeypatch.setattr(demo, "LARGEST", 1024)
    result = call("demo", arm, "--batch", "32")
    assert result.exit_code == 0, result.output
    rows = {line.split()[0] for line in result.output.splitlines() if line.split()}
    assert {"pose*", "mass_matrix", "jacobian*", "inverse_dynamics"} <= rows
    assert "* fewer samples" in result.output
    robot = kt.load(arm)
    states = {"q": robot.random_configuration(0, 32), "v": np.ones((32, 1))}
    assert demo.cost(robot, "pose", states, "rod").batch == 1024 // (3 * 16 * 8)
    assert demo.cost(robot, "mass_matrix", states, "rod").batch == 32


def test_demo_fails_if_the_dynamics_disagree(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "SLACK", 0.0)
    result = call("demo", "--batch", "8")
    assert result.exit_code == 1
    assert "FAILED" in result.output


def test_demo_fails_if_algorithms_disagree(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SLACK", 0.0)
    result = call("demo", "--batch", "8")
    assert result.exit_code == 1
    assert "not singular: FAILED" in result.output


def test_the_bound_on_lambda_is_of_the_size_of_its_error(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousandth of the bound is less than rounding leaves, so the bound is no more than that above it."""
    monkeypatch.setattr(demo, "SLACK", 1e-3)
    assert "not singular: FAILED" in call("demo", "--batch", "512").output


def test_a_residual_of_nan_fails() -> None:
    assert not check.Check(residual=float("nan"), tolerance=1.0).passed


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_a_missing_extra_is_named_with_the_way_to_install_it(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from kinetree.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert INSTALL in done.stderr
    assert "Traceback" not in done.stderr
