"""The command line: what it prints, and what its exit code says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

import kinetree as kt
from kinetree.cli import INSTALL, app, check, operational_space, timing
from kinetree.model.dynamics import FUNCTIONS


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a command, with shorter timings than a user wants."""
    monkeypatch.setattr(timing, "TOTAL", 0.0)
    return lambda *words: CliRunner().invoke(app, list(words))


def test_version(call: Callable[..., Any]) -> None:
    result = call("--version")
    assert result.exit_code == 0
    assert result.output.strip() == f"kinetree {kt.__version__}"


def test_no_command_shows_help(call: Callable[..., Any]) -> None:
    assert "demo" in call().output


def test_demo(call: Callable[..., Any]) -> None:
    threads = kt.get_threads()
    result = call("demo", "--seed", "3", "--batch", "8")
    assert result.exit_code == 0, result.output
    assert str(kt.zoo.humanoid24()) in result.output
    assert "8 random states: passed" in result.output
    rows = {words[0]: words[1:] for line in result.output.splitlines() if (words := line.split())}
    for name in FUNCTIONS:
        operations, *times = (float(word.replace(",", "")) for word in rows[name])
        assert operations > 0
        assert len(times) == 5
        assert all(time > 0 for time in times)
    for name in kt.operational_space.METHODS:
        operations, difference, *times = (float(word.replace(",", "")) for word in rows[name])
        assert operations > 0
        assert difference < 1e-6
        assert len(times) == 4
    assert kt.get_threads() == threads


def test_demo_fails_if_the_dynamics_disagree(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "SLACK", 0.0)
    result = call("demo", "--batch", "8")
    assert result.exit_code == 1
    assert "FAILED" in result.output


def test_demo_fails_if_algorithms_disagree(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operational_space, "SLACK", 0.0)
    result = call("demo", "--batch", "8")
    assert result.exit_code == 1
    assert "not singular: FAILED" in result.output


def test_a_residual_of_nan_fails() -> None:
    assert not check.Check(residual=float("nan"), tolerance=1.0).passed


@pytest.mark.parametrize("option", [("--batch", "0"), ("--seed", "-1")])
def test_impossible_options_are_refused(call: Callable[..., Any], option: tuple[str, str]) -> None:
    assert call("demo", *option).exit_code == 2


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_a_missing_extra_is_named_with_the_way_to_install_it(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from kinetree.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert INSTALL in done.stderr
    assert "Traceback" not in done.stderr
