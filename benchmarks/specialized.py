"""Straight-line code for one robot beside the code that robots share, Pinocchio, and C from CasADi.

`robot.compile(specialize=…)` is asked for what is faster in single calls, and for what is faster in batches: on robots
with limbs, these are not always the same. A dash stands for functions that then run on shared code.
"""

from __future__ import annotations

import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import kinetree as kt
from benchmarks import contests, robots
from benchmarks.c_export import DRIVER, driven, from_casadi, listed, state
from benchmarks.peers import pinocchio_peer
from benchmarks.table import Table
from kinetree.compiler.formats import FLOAT64
from kinetree.compiler.llvm import machine_code
from kinetree.compiler.llvm.machine_code import compile_text
from kinetree.compiler.programs import variants_of
from kinetree.compiler.specialize import robot_key
from kinetree.runtime.kernels import kernels as kernels_of

NAMES = ("UR5", "Panda", "ANYmal", "Talos")
FUNCTIONS = ("inverse_dynamics", "forward_dynamics", "mass_matrix", "mass_matrix_inverse")
#: Functions in C, and the number of their inputs.
IN_C = {"bias_forces": 2, "inverse_dynamics": 3, "forward_dynamics": 3, "mass_matrix": 1}


def table(seconds: float) -> Table:
    """Calls from Python: shared and specialized code, single and in batches, beside Pinocchio."""
    found = Table(
        f"Specialized code: time of a single call, and of a sample in a batch of {contests.BATCH}",
        ["robot, function", "single", "own code", "gain", "Pinocchio", "batch", "own code", "gain", "Pinocchio"],
    )
    for name in NAMES:
        robot = robots.load(name)
        peers = [pinocchio_peer(robot)]
        for function in FUNCTIONS:
            cells: list[str] = []
            for aim, contest in (("single", contests.single), ("batch", contests.batch)):
                fast = robot.model.compile((), specialize=aim)
                own = getattr(fast, function).specialization().straight
                models = {"shared": robot.model} | ({"own": fast} if own else {})
                times = contest(robot, peers, function, seconds, models)
                best = times.get("own", times["shared"])
                cells += [
                    f"{times['shared'] * 1e6:.3g} µs",
                    f"{best * 1e6:.3g} µs" if own else "–",
                    f"{times['shared'] / best:.2f}×" if own else "",
                    f"{times['Pinocchio'] / best:.1f}×",
                ]
            found.add(f"{name}, {function.replace('_', ' ')}", *cells)
    return found


def kernels() -> Table:
    """Calls from C of machine code alone, for a single sample, beside C that CasADi generates."""
    found = Table(
        "Specialized code, called from C [µs]: machine code alone, beside CasADi's C (gcc -O3 -march=native)",
        ["robot, function", "shared", "own code", "CasADi", "CasADi / own code"],
    )
    for name in ("UR5", "Panda"):
        model = robots.load(name).model
        fast = model.compile((), specialize="single")
        for function, count in IN_C.items():
            inputs = state(model, count)
            shared, own = kernel(model, function, inputs), kernel(fast, function, inputs)
            peer = from_casadi(model, function, inputs)[0] if find_spec("casadi") and shutil.which("gcc") else None
            found.add(
                f"{name}, {function.replace('_', ' ')}",
                f"{shared:.3f}",
                f"{own:.3f}",
                "" if peer is None else f"{peer:.3f}",
                "" if peer is None else f"{peer / own:.2f}×",
            )
    return found


def kernel(model: kt.Model, function: str, inputs: list[Any]) -> float:
    """Time of a kernel for single samples, called from C [µs]."""
    called = getattr(model, function)
    binding = called.bound().binding
    mechanism, algorithm = model.mechanism, called.algorithm
    variants, individual = variants_of(algorithm, mechanism, ()), robot_key(algorithm, mechanism, ())
    kernels = kernels_of(algorithm, variants, FLOAT64, individual)
    texts, _ = kernels.modules(1, machine_code.host(), binding.single_workspace > 0)
    given = np.concatenate([np.ravel(x) for x in inputs])
    outputs = range(len(binding.outputs))
    scratch = max(1, binding.workspace, binding.single_workspace)
    declarations = [
        "void kernel(double *, const double *, const long long *, const double *, double **);",
        f"static double scratch[{scratch}] __attribute__((aligned(64)));",
        f"static const double parameters[] __attribute__((aligned(64))) = {{{listed(binding.parameters)}}};",
        f"static const long long tables[] = {{{', '.join(map(str, binding.tables.tolist()))}}};",
        f"static const double given[] = {{{listed(given)}}};",
        *(f"static double y{i}[{binding.outputs[i].size}];" for i in outputs),
        f"static double *results[] = {{{', '.join(f'y{i}' for i in outputs)}}};",
    ]
    call = "kernel(scratch, parameters, tables, given, results)"
    with tempfile.TemporaryDirectory() as directory:
        made = [Path(directory, f"kernel{i}.o") for i in range(len(texts))]
        for path, text in zip(made, texts):
            path.write_bytes(compile_text(text, machine_code.host()))
        driver = DRIVER.format(declarations="\n".join(declarations), call=call)
        return driven(Path(directory), made, driver, "gcc")
