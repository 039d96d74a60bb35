"""Compiling ahead of time: progress, helping processes, the log, and what an interrupt leaves behind."""

from __future__ import annotations

import io
import logging
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.compiler import cache
from kinetree.compiler.programs import variants_of
from kinetree.model import compilation
from kinetree.runtime import kernels

KINDS = ("revolute", "prismatic")


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> kt.Model:
    """A robot whose functions are neither in memory nor on disk."""
    monkeypatch.setenv("KINETREE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernels, "_made", kernels.lru_cache(maxsize=256)(kernels.Kernels))
    return kt.zoo.random_tree(3, kinds=KINDS, seed=5)


NAMES = ["gravity_forces", "energy", "center_of_mass", "mass_matrix"]


def test_progress_is_reported(fresh: kt.Model) -> None:
    seen: list[tuple[str, int, int]] = []
    fresh.compile(NAMES, progress=lambda *step: seen.append(step))
    assert seen == [*((name, i, len(NAMES)) for i, name in enumerate(NAMES)), ("", len(NAMES), len(NAMES))]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_shows_a_line_that_goes_away(
    fresh: kt.Model, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    stream = _Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    fresh.compile(NAMES[:2])
    text = stream.getvalue()
    assert text.endswith("\r\033[K") if terminal else not text
    assert not terminal or "compiling 1/2 energy" in text


def test_other_processes_fill_the_cache(fresh: kt.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """While this process waits, another one compiles the last function of the list."""
    monkeypatch.setattr(compilation, "_PATIENCE", 0.0)
    monkeypatch.setattr(compilation.threads, "get_threads", lambda: 2)
    directory = cache._directory(create=True)
    assert directory is not None
    found: list[int] = []

    def wait(name: str, _done: int, _total: int) -> None:
        """Before the second function, until there is more on disk than this process put there."""
        if name == NAMES[1]:
            here, deadline = len(list(directory.glob("*.object"))), time.monotonic() + 300
            while len(list(directory.glob("*.object"))) == here and time.monotonic() < deadline:
                time.sleep(0.05)
            found.append(len(list(directory.glob("*.object"))) - here)

    fresh.compile(NAMES[:3], progress=wait)
    assert found[0] > 0


def test_a_robot_that_cannot_be_pickled_is_compiled_here(
    fresh: kt.Model, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any) -> None:
        raise TypeError("cannot pickle this")

    monkeypatch.setattr(compilation, "_PATIENCE", 0.0)
    monkeypatch.setattr(compilation.threads, "get_threads", lambda: 2)
    monkeypatch.setattr(compilation.pickle, "dump", refuse)
    with caplog.at_level(logging.INFO, "kinetree"):
        fresh.compile(NAMES)
    assert "no other processes help compiling: cannot pickle this" in caplog.text
    assert np.isfinite(fresh.mass_matrix(fresh.neutral())).all()


def test_compiling_and_loading_are_logged(
    fresh: kt.Model, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "kinetree"):
        fresh.gravity_forces(fresh.neutral())
        assert "compiled gravity_forces, lane width 1 in " in caplog.text
        monkeypatch.setattr(kernels, "_made", kernels.lru_cache(maxsize=256)(kernels.Kernels))
        other = kt.zoo.random_tree(3, kinds=KINDS, seed=5)
        other.gravity_forces(other.neutral())
    assert "loaded gravity_forces, lane width 1 from the cache" in caplog.text


def test_damaged_code_is_logged(fresh: kt.Model, caplog: pytest.LogCaptureFixture) -> None:
    cache.store("key", {}, b"code")
    (path,) = Path(str(cache._directory())).glob("key*")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with caplog.at_level(logging.INFO, "kinetree"):
        assert cache.load("key") is None
    assert f"{path} is damaged; its code is compiled again" in caplog.text


@pytest.mark.parametrize("stage", ["lowered", "CompileJob"])
def test_an_interrupt_leaves_nothing_half_done(fresh: kt.Model, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kernels, stage, interrupted)
        with pytest.raises(KeyboardInterrupt):
            fresh.gravity_forces(fresh.neutral())
    robot = kt.zoo.random_tree(3, kinds=KINDS, seed=5)
    np.testing.assert_array_equal(fresh.gravity_forces(fresh.neutral()), robot.gravity_forces(robot.neutral()))


def test_recursions_of_the_same_name_have_kernels_of_their_own() -> None:
    robot = kt.zoo.double_pendulum()
    first, second = robot.inverse_dynamics.algorithm, replace(robot.forward_dynamics.algorithm, name="inverse_dynamics")
    names = [kernels.Kernels(one, variants_of(one, robot.mechanism, ()))._name(1) for one in (first, second)]
    assert first.name == second.name
    assert None not in names
    assert names[0] != names[1]
