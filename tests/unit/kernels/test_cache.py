"""Kernels of the package come from the cache without a trace, with the loops and lists that their tables need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import sys
import numpy as np
import kinetree as kt
from kinetree.compiler import programs
from kinetree.kernels.contact_problem import contact_problem
from kinetree.kernels.eigen import diagonalize
from kinetree.kernels.riccati import riccati

if sys.argv[1] == "warm":
    def trace(*_, **__):
        raise AssertionError("traced")
    programs.trace = trace

rng = np.random.default_rng(0)
A = rng.normal(size=(9, 7, 7)) + 9.0 * np.eye(7)
A = A + np.swapaxes(A, 1, 2)
found = [*kt.compiled(diagonalize, n=7)(A), *kt.compiled(diagonalize, n=7)(A[0])]
found += kt.compiled(riccati, T=9, nx=7, nu=7)(A, A, A, A, A, A[0])
rows = rng.uniform(0.1, 1.0, (4, 6))
problem = kt.compiled(contact_problem, r=6, n=12, contacts=[(0, 6), (3, 0)])
found += problem(rng.normal(size=(12, 12)), np.ones(12), *rows, 0.1)
print(*(np.asarray(part).tobytes().hex() for part in found))
"""


def test_warm_processes_do_not_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETREE_CACHE_DIR", str(tmp_path))

    def run(how: str) -> str:
        done = subprocess.run([sys.executable, "-c", RUN, how], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    cold = run("cold")
    assert cold == run("warm")
