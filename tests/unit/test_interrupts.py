"""Long work ends on Ctrl-C, and shows its progress on a terminal."""

from __future__ import annotations

import io
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import kinetree as kt
from kinetree.cli import terminal as progress
from kinetree.runtime import threads
from kinetree.simulation import Simulator, steps


@pytest.mark.parametrize("batch", [(), (200,)])
def test_a_long_rollout_ends_on_ctrl_c(batch: tuple[int, ...]) -> None:
    """Also if no state in between is recorded."""
    robot = kt.zoo.double_pendulum()
    world = Simulator(robot)
    q, v = np.zeros((*batch, 2)), np.ones((*batch, 2))
    world.rollout(q, v, steps=2)
    began = time.monotonic()
    timer = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        world.rollout(q, v, steps=10**9, every=10**9)
    timer.join()
    assert time.monotonic() - began < 20.0  # of minutes


def test_a_large_batch_ends_on_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the round that is under way; results have the same bits in rounds of any length."""
    robot = kt.zoo.double_pendulum()
    q, v, tau = np.random.default_rng(0).normal(size=(3, 5003, 2))
    expected = robot.forward_dynamics(q, v, tau)
    function = robot.forward_dynamics.bound()
    monkeypatch.setattr(threads, "UNINTERRUPTED", 700 * function.binding.footprint)
    np.testing.assert_array_equal(function.compute((q, v, tau), None), expected)
    runner, out = function._runner(function._width), np.full((5003, 2), np.nan)

    def interrupted(arrays: Any, samples: int) -> None:
        runner(arrays, samples)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setitem(function._runners, function._width, interrupted)
    with pytest.raises(KeyboardInterrupt):
        function.compute((q, v, tau), out)
    computed = np.isfinite(out).all(axis=1)
    assert computed[:600].all()
    assert not computed[2000:].any()
    np.testing.assert_array_equal(out[computed], expected[computed])


@pytest.mark.parametrize("series", [False, True])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_interruptible_rollouts_have_the_same_bits(
    batch: tuple[int, ...], series: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot = kt.zoo.double_pendulum()
    rng = np.random.default_rng(0)
    q, v = rng.normal(size=(2, *batch, 2))
    tau = rng.normal(size=(*batch, 30, 2) if series else (*batch, 2))
    steps_given = {} if series else {"steps": 30}
    expected = Simulator(robot).rollout(q, v, tau, every=10, **steps_given)
    for longest in (3, 4, 12, 31):
        monkeypatch.setattr(steps, "_UNINTERRUPTED", longest * max(1, int(np.prod(batch))))
        found = Simulator(robot).rollout(q, v, tau, every=10, **steps_given)
        np.testing.assert_array_equal(found.q, expected.q)
        np.testing.assert_array_equal(found.v, expected.v)


def test_progress_is_shown_on_terminals_only() -> None:
    for terminal in (True, False):
        stream = io.StringIO()
        with progress.bar("checking", 3, Console(file=stream, force_terminal=terminal, width=80)) as done:
            for count in range(4):
                done(count)
        assert ("checking" in stream.getvalue()) == terminal
        assert terminal or not stream.getvalue()
