"""What tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a command, with shorter timings than a user wants."""
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from kinetree.cli import app, demo

    monkeypatch.setattr(demo, "TOTAL", 0.0)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def output_of(call: Callable[..., Any]) -> Callable[..., str]:
    """Runs a command that must succeed, and returns what it prints."""

    def run(*words: Any) -> str:
        result = call(*words)
        assert result.exit_code == 0, result.output
        return str(result.output)

    return run
