"""What a user waits for once: the import, and the first call of each function, compiled or loaded from the cache."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import kinetree as kt
from benchmarks.table import Table

_IMPORT = """
import time
import numpy
start = time.perf_counter()
import kinetree
print(time.perf_counter() - start)
"""

_FIRST_CALL = """
import os, pickle, sys, time
path, function, cores = sys.argv[1:]
if cores == "all":
    os.sched_setaffinity(0, range(os.cpu_count()))
import numpy as np
with open(path, "rb") as file:
    robot = pickle.load(file)
q, v = robot.neutral(), np.zeros(robot.nv)
call = {
    "pose": lambda: robot.pose(q),
    "jacobian": lambda: robot.jacobian(q, robot.frames[-1]),
    "mass matrix": lambda: robot.mass_matrix(q),
    "mass matrix inverse": lambda: robot.mass_matrix_inverse(q),
    "inverse dynamics": lambda: robot.inverse_dynamics(q, v, v),
    "forward dynamics": lambda: robot.forward_dynamics(q, v, v),
    "linearize(a=…)": lambda: robot.linearize(q, v, a=v),
    "linearize(tau=…)": lambda: robot.linearize(q, v, tau=v),
    "step": lambda: robot.step(q, v, v, 1e-3),
    "discretize": lambda: robot.discretize(q, v, v, 1e-3),
    "tasks(…).inertia": lambda: robot.tasks([robot.frames[-1]]).inertia(q),
    "tasks(…).dynamics": lambda: robot.tasks([robot.frames[-1]]).dynamics(q),
}[function]
start = time.perf_counter()
call()
print(time.perf_counter() - start)
"""


def table(robot: kt.Model) -> Table:
    """Import time beyond NumPy, and first calls with a cold and a warm cache, each in a process of its own."""
    found = Table(f"Start-up ({robot.name})", ["what", "cold cache", "on all cores", "warm cache"])
    imports = min(_run(_IMPORT) for _ in range(5))
    found.add("import kinetree, beyond NumPy", "", "", f"{imports:.3f} s")
    with tempfile.TemporaryDirectory() as directory:
        model = Path(directory, "robot.pickle")
        model.write_bytes(pickle.dumps(robot))
        for function in (
            "pose",
            "jacobian",
            "mass matrix",
            "mass matrix inverse",
            "inverse dynamics",
            "forward dynamics",
            "linearize(a=…)",
            "linearize(tau=…)",
            "step",
            "discretize",
            "tasks(…).inertia",
            "tasks(…).dynamics",
        ):
            cold, all_cores, *warm = (
                _run(_FIRST_CALL, str(model), function, cores, cache=Path(directory, f"{cache} of {function}"))
                for cores, cache in (("one", "first"), ("all", "second"), *[("one", "first")] * 3)
            )
            found.add(f"first call of {function}", f"{cold:.2f} s", f"{all_cores:.2f} s", f"{min(warm):.3f} s")
    return found


def _run(program: str, *arguments: str, cache: Path | None = None) -> float:
    """The number of seconds that a program prints."""
    environment = os.environ | {"KINETREE_NO_TIERS": "0"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    if cache is not None:
        environment["KINETREE_CACHE_DIR"] = str(cache)
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)
