"""Every public function in a process that finds its machine code in the cache: the same bits, and nothing is traced.

What a trace leaves behind in a process, such as loops that it names, must not be needed: tests that trace in their own
process cannot tell.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tests

RUN = """
import sys
import numpy as np
import kinetree as kt
from kinetree.compiler import programs
from tests.parity.functions import FUNCTIONS, states

if sys.argv[1] == "warm":
    def trace(*_, **__):
        raise AssertionError("traced")
    programs.trace = trace

robot = (
    kt.Builder("small")
    .add_body("base", joint="spherical", mass=2.0, com=(0.1, 0.0, 0.2), inertia=np.eye(3))
    .add_body("arm", parent="base", axis=(0, 1, 0), mass=1.0, com=(0.0, 0.1, 0.3), inertia=np.eye(3))
    .build()
)
q, v, x = states(robot, ())
calls = {str(f): lambda f=f: f(robot, q, v, x) for f in FUNCTIONS}
for method in ("midpoint", "semi_implicit_euler", "rk4"):
    calls["discretize " + method] = lambda method=method: robot.discretize(q, v, x, 0.1, method=method)
hand = robot.tasks(["arm"])
for name in ("inverse_inertia", "inertia", "jacobian", "dynamics", "rank"):
    calls["tasks " + name] = lambda name=name: getattr(hand, name)(q)
calls["tasks bias"] = lambda: hand.bias(q, v)
feet = [kt.simulation.Points("arm", np.eye(3))]
calls["rollout"] = lambda: kt.simulation.Simulator(robot, friction=0.1).rollout(q, v, x, steps=3)
calls["contacts"] = lambda: kt.simulation.Simulator(robot, contacts=feet).rollout(q, v, x, steps=3)
for name, call in calls.items():
    try:
        found = call()
    except Exception as error:
        raise AssertionError(name) from error
    found = found if isinstance(found, tuple) else (found,)
    print(name, *(np.asarray(part).tobytes().hex() for part in found))
"""


def test_warm_processes_do_not_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETREE_CACHE_DIR", str(tmp_path))
    root = Path(tests.__file__).parents[1]
    found = []
    for how in ("cold", "warm"):
        done = subprocess.run(
            [sys.executable, "-c", RUN, how], cwd=root, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.splitlines())
    assert len(found[0]) > 50
    assert found[0] == found[1]
